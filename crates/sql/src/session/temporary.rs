//! Temporary tables and views: a schema of the session's own, which goes when the session ends.
//!
//! The schema is made by the first definition that needs it, in the transaction of that. It is
//! first in the search path of its session and in no other. Plans that were bound before a
//! definition in it are bound anew, as a name may mean something else from then on.
//!
//! Invariants: no two sessions of a process have the same schema. What a process left behind that
//! ended all at once goes when a server begins, or when its schema is needed.
//! Does not do: temporary sequences by themselves.

use std::collections::{BTreeMap, BTreeSet};

use rightlink::{Database, ScanOptions};
use rightlink_env::sync::{AtomicU64, Mutex, Ordering};
use rightlink_env::thread;
use sqlparser::ast;

use super::Session;
use super::auto_analyze::Silent;
use crate::bind::ddl::{Definition, Kind};
use crate::error::Result;
use crate::names::{self, TEMPORARY, marked};
use crate::schemas;

/// Sessions of this process that have needed a schema so far.
static SCHEMAS: AtomicU64 = AtomicU64::new(0);

/// The schemas of sessions that have not ended.
static IN_USE: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// What a session has of temporary tables.
#[derive(Default)]
pub(super) struct Temporary {
    /// Its schema, once it was needed.
    schema: Option<String>,
    /// Tables with what happens to each at every commit, in the order in which they were made. Of
    /// a name that stands here twice, the last one counts.
    on_commit: Vec<(String, ast::OnCommit)>,
}

impl Temporary {
    /// Its schema, if there is one.
    pub(super) fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// How many tables something happens to: what a savepoint remembers.
    pub(super) fn len(&self) -> usize {
        self.on_commit.len()
    }

    /// The tables that were made since are gone.
    pub(super) fn truncate(&mut self, keep: usize) {
        self.on_commit.truncate(keep);
    }
}

/// Does the statement make something temporary, and is it a table with a rule for commits?
pub(super) fn is_temporary(statement: &ast::Statement) -> Option<Option<ast::OnCommit>> {
    match statement {
        ast::Statement::CreateTable(table) => of_table(table),
        ast::Statement::CreateView(view) => {
            (view.temporary || schemas::is_of_temporary(&view.name)).then_some(None)
        }
        _ => None,
    }
}

/// The same of a table.
pub(super) fn of_table(table: &ast::CreateTable) -> Option<Option<ast::OnCommit>> {
    (table.temporary || schemas::is_of_temporary(&table.name)).then_some(table.on_commit)
}

impl Session {
    /// The schema of temporary tables is there, and in the path, for a definition that comes.
    pub(super) fn make_temporary_schema(&mut self) -> Result<()> {
        self.check_temporary()?;
        let schema = match &self.temporary.schema {
            Some(schema) => schema.clone(),
            None => {
                let number = SCHEMAS.fetch_add(1, Ordering::Relaxed) + 1;
                let schema = format!("{TEMPORARY}_{number}");
                IN_USE.lock().insert(schema.clone());
                // Of a process before this one.
                self.drop_schema(&schema)?;
                self.temporary.schema = Some(schema.clone());
                schema
            }
        };
        if !schemas::exists(&mut self.ensure()?.txn, &schema)? {
            let name = schema.clone();
            let made = Definition::CreateSchema { name, if_not_exists: false, owner: None };
            self.define_unchecked(&made, &mut Silent)?;
        }
        self.settings.put_temporary(&schema);
        Ok(())
    }

    /// A definition of the session has been made or undone: names may mean something else.
    pub(super) fn temporary_changed(&self) {
        if let Some(schema) = &self.temporary.schema {
            self.settings.put_temporary(schema);
        }
    }

    /// A temporary table was made, to which this happens at commits.
    pub(super) fn on_commit(&mut self, table: String, what: Option<ast::OnCommit>) {
        let what = what.unwrap_or(ast::OnCommit::PreserveRows);
        let list = &mut self.temporary.on_commit;
        // A table of this name may have been dropped in this transaction, which may be undone.
        let is_listed = list.iter().any(|(name, _)| *name == table);
        if is_listed || !matches!(what, ast::OnCommit::PreserveRows) {
            list.push((table, what));
        }
    }

    /// What happens to temporary tables at a commit.
    pub(super) fn commit_temporary(&mut self) -> Result<()> {
        if self.temporary.on_commit.is_empty() || !self.active.as_ref().is_some_and(|a| a.used) {
            return Ok(());
        }
        let list = std::mem::take(&mut self.temporary.on_commit);
        let names = list.iter().enumerate().map(|(at, (table, _))| (table, at));
        let last: BTreeMap<&String, usize> = names.collect();
        for (at, (table, what)) in list.iter().enumerate() {
            let is_last = last[table] == at;
            let is_kept = matches!(what, ast::OnCommit::PreserveRows);
            let (table, txn) = (table.clone(), &mut self.ensure()?.txn);
            if !is_last || is_kept || !txn.catalog().has_relation(&table)? {
                continue;
            }
            if matches!(what, ast::OnCommit::Drop) {
                let (kind, names) = (Kind::Table, vec![table]);
                let dropped = Definition::Drop { kind, names, if_exists: true, cascade: true };
                self.define_unchecked(&dropped, &mut Silent)?;
                continue;
            }
            if txn.scan(&table, &ScanOptions::all())?.next().transpose()?.is_some() {
                let tables = vec![table.clone()];
                let emptied = Definition::Truncate { tables, restart: false, cascade: false };
                self.define_unchecked(&emptied, &mut Silent)?;
            }
            self.temporary.on_commit.push((table, *what));
        }
        Ok(())
    }

    /// DISCARD TEMP: drops everything temporary, in the transaction that runs.
    pub(super) fn discard_temporary(&mut self) -> Result<()> {
        match self.temporary.schema.clone() {
            Some(schema) => self.drop_schema(&schema),
            None => Ok(()),
        }
    }

    fn drop_schema(&mut self, schema: &str) -> Result<()> {
        if !schemas::exists(&mut self.ensure()?.txn, schema)? {
            return Ok(());
        }
        let (names, if_exists, cascade) = (vec![schema.to_owned()], true, true);
        self.define_unchecked(&Definition::DropSchema { names, if_exists, cascade }, &mut Silent)?;
        Ok(())
    }

    /// Drops temporary tables of sessions that are gone, because their process ended all at once.
    /// For whoever opens a database, before there are sessions.
    ///
    /// # Errors
    /// What keeps a table from being dropped.
    pub fn drop_orphaned_tables(db: &Database) -> Result<()> {
        let mut session = Session::new(db);
        let tables = session.ensure()?.txn.catalog().table_names()?;
        let in_use = IN_USE.lock().clone();
        let is_orphan =
            |schema: &&str| names::is_temporary_schema(schema) && !in_use.contains(*schema);
        for schema in tables.iter().filter_map(|table| marked(table)).filter(is_orphan) {
            session.drop_schema(schema)?;
        }
        session.commit()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some(schema) = self.temporary.schema.clone() else { return };
        if !thread::panicking() {
            self.abort();
            self.settings.reset_all();
            self.settings.reset_identity();
            // A database that is closed or broken keeps them until it is opened again.
            let _ = self.discard_temporary().and_then(|()| self.commit());
        }
        IN_USE.lock().remove(&schema);
    }
}
