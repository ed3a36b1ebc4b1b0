//! Creating and dropping tables and indexes inside a transaction.
//!
//! What a transaction has changed it sees in its [`Changes`]; nobody else sees it before the end of
//! the transaction, because the names are marked as changing and the tables are locked. At the end
//! the names are settled, and the files that nobody needs any more are removed.
//!
//! Invariants: a statement that fails leaves [`Changes`] as they were (new files excepted, which
//! are removed at the end); files are removed only after the commit that drops them is durable.
//! Does not do: the transaction's end itself (`db`), altering (`alter`).

use rightlink_env::Broken;
use std::collections::{BTreeMap, BTreeSet};

use rightlink_env::sync::Arc;
use rightlink_env::{points, thread};

use crate::catalog::bootstrap::Kind;
use crate::catalog::names::{Entry, Known, Slot};
use crate::catalog::rows::Object;
use crate::catalog::{Catalog, files_of};
use crate::config::MAX_NAME_BYTES;
use crate::error::{Error, Result};
use crate::ids::{FileId, ObjectId, RowId};
use crate::table::predicate::Predicate;
use crate::table::schema::{
    AutoVacuum, Check, Column, ColumnNo, IndexColumn, IndexDef, IndexMethod, TableDef, check_name,
};
use crate::table::sequence::Sequence;
use crate::table::{BuildOptions, Statement, Table, TableIndex};
use crate::txn::{LockMode, Transaction};

/// A table to create; column numbers are positions in `columns`.
#[derive(Clone, Debug)]
pub struct TableDraft {
    /// Name.
    pub name: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// Indexes.
    pub indexes: Vec<IndexDraft>,
    /// Which of the indexes is the primary key.
    pub primary: Option<usize>,
    /// Are changes logged?
    pub logged: bool,
    /// Percent of a page that inserts fill.
    pub fillfactor: u8,
    /// What every row must meet.
    pub checks: Vec<Check>,
    /// What a layer above keeps with it.
    pub note: String,
    /// When it is vacuumed without anybody asking.
    pub auto_vacuum: AutoVacuum,
}

/// An index to create.
#[derive(Clone, Debug, Default)]
pub struct IndexDraft {
    /// Name.
    pub name: String,
    /// Key.
    pub columns: Vec<IndexColumn>,
    /// Unique?
    pub unique: bool,
    /// Are nulls equal in the eyes of `unique`?
    pub nulls_equal: bool,
    /// Columns stored beside the key.
    pub included: Vec<ColumnNo>,
    /// Which rows it holds; `None`: all.
    pub predicate: Option<Predicate<ColumnNo>>,
    /// How it finds entries.
    pub method: IndexMethod,
}

impl IndexDraft {
    pub(super) fn define(self, id: ObjectId, file: FileId) -> IndexDef {
        let IndexDraft { name, columns, unique, nulls_equal, included, predicate, method } = self;
        let base = IndexDef::new(id, name, file, columns, unique);
        IndexDef { nulls_equal, included, predicate, method, ..base }
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Durably.
    Committed,
    /// By request, or by an error before its commit record.
    RolledBack,
    /// The commit record was written and its sync failed.
    Unknown,
}

/// Names as a transaction sees them.
type View = BTreeMap<String, Option<Arc<Entry>>>;

/// What a transaction changed so far.
#[derive(Default)]
pub struct Changes {
    now: View,
    before: View,
    created: Vec<FileId>,
    /// Sequences of no table: there before the transaction, and now?
    sequences: BTreeMap<FileId, (bool, bool)>,
}

/// Where a savepoint stands in the changes.
#[derive(Clone, Default)]
pub struct ChangesMark(View, BTreeMap<FileId, (bool, bool)>);

impl Changes {
    /// Has anything been changed?
    pub fn is_empty(&self) -> bool {
        self.before.is_empty() && self.sequences.is_empty()
    }

    /// Is there nothing to do when the transaction ends? A statement that failed before it changed
    /// anything may have left files.
    pub fn leaves_nothing(&self) -> bool {
        self.is_empty() && self.created.is_empty()
    }

    /// The place to go back to.
    pub fn mark(&self) -> ChangesMark {
        ChangesMark(self.now.clone(), self.sequences.clone())
    }

    /// Goes back. Names stay marked until the end; those first changed since are as before.
    pub fn rollback_to(&mut self, mark: &ChangesMark) {
        self.now = self.before.clone();
        self.now.extend(mark.0.clone());
        for (file, (before, now)) in &mut self.sequences {
            *now = mark.1.get(file).map_or(*before, |(_, then)| *then);
        }
    }

    /// Notes that a sequence of no table is there now, or is not.
    pub(super) fn set_sequence(&mut self, file: FileId, there: bool) {
        self.sequences.entry(file).or_insert((!there, there)).1 = there;
    }

    /// Notes files that go again unless the transaction commits and still has them.
    pub(super) fn note_created(&mut self, files: &[FileId]) {
        self.created.extend_from_slice(files);
    }

    pub(super) fn set(&mut self, name: &str, entry: Option<Arc<Entry>>) {
        assert!(self.before.contains_key(name), "a name is marked before it changes");
        self.now.insert(name.to_owned(), entry);
    }
}

/// Most tables that a transaction keeps at hand.
const MAX_KNOWN: usize = 4;

impl Catalog {
    /// The table called `name`, locked in `mode` until the end of the transaction.
    pub fn resolve(
        &self,
        txn: &mut Transaction,
        changes: &Changes,
        name: &str,
        mode: LockMode,
    ) -> Result<Arc<Entry>> {
        loop {
            if let Some(own) = changes.now.get(name) {
                return own.clone().ok_or_else(|| no_table(name));
            }
            let edition = self.names.edition();
            let found = self.lookup(name).map_err(|error| self.table().def().named(error));
            match found? {
                Slot::Changing(id, _) => self.wait_for_change(txn, name, id)?,
                Slot::Open(entry) => {
                    txn.lock_table(entry.table.def().id, mode)?;
                    if self.names.edition() == edition || self.names.is_current(name, &entry) {
                        return Ok(entry);
                    }
                }
            }
        }
    }

    /// Which edition of the names this is: it changes with what any of them stands for.
    pub fn edition(&self) -> u64 {
        self.names.edition()
    }

    /// As [`Catalog::resolve`], for a transaction that asks for a few tables again and again:
    /// `known` is what it found last.
    pub fn resolve_again(
        &self,
        txn: &mut Transaction,
        changes: &Changes,
        (name, mode): (&str, LockMode),
        known: &mut Vec<Known>,
    ) -> Result<Arc<Entry>> {
        let is_same = |edition| {
            edition == self.names.edition() || points::broken(Broken::KnownDefinitionNotRechecked)
        };
        let at = known.iter().position(|last| last.name == name);
        if let Some(last) = at.map(|at| &known[at])
            && changes.is_empty()
            && is_same(last.edition)
        {
            let id = last.entry.table.def().id;
            // Whoever has the table in any mode is not asked to wait for its name.
            if txn.has_locked(id, LockMode::Access) {
                txn.lock_table(id, mode)?;
            }
            if txn.has_locked(id, mode) && is_same(last.edition) {
                return Ok(Arc::clone(&last.entry));
            }
        }
        let edition = self.names.edition();
        let entry = self.resolve(txn, changes, name, mode)?;
        if let Some(at) = at {
            known.swap_remove(at);
        }
        if !changes.is_empty() {
            known.clear();
        } else {
            if known.len() == MAX_KNOWN {
                known.remove(0);
            }
            known.push(Known { name: name.to_owned(), entry: Arc::clone(&entry), edition });
        }
        Ok(entry)
    }

    /// The name of the table that the index called `index` belongs to, as `txn` sees it.
    pub fn table_of_index(&self, txn: &Transaction, index: &str) -> Result<String> {
        let missing = || Error::NotFound(format!("index {index}"));
        let snapshot = txn.latest_snapshot();
        let (_, object) = self.store.relation(&snapshot, index)?.ok_or_else(missing)?;
        if object.kind != Kind::Index {
            return Err(missing());
        }
        Ok(self.store.object(&snapshot, object.parent)?.1.name)
    }

    fn wait_for_change(&self, txn: &mut Transaction, name: &str, id: ObjectId) -> Result<()> {
        txn.lock_table(id, LockMode::Access)?;
        // The lock is free a moment before the name is settled.
        if matches!(self.names.get(name), Some(Slot::Changing(now, _)) if now == id) {
            thread::yield_now();
        }
        Ok(())
    }

    fn lookup(&self, name: &str) -> Result<Slot> {
        if let Some(slot) = self.names.get(name) {
            return Ok(slot);
        }
        let _turn = self.names.loading();
        loop {
            let edition = self.names.edition();
            if let Some(slot) = self.names.get(name) {
                return Ok(slot);
            }
            points::hit("catalog.lookup");
            let entry = self.open_entry(name);
            points::hit("catalog.looked-up");
            match entry {
                Ok(entry) if self.names.open(name, &entry, edition) => {
                    return Ok(Slot::Open(entry));
                }
                // Files of a table that was dropped meanwhile are missing without any damage.
                Err(error) if self.names.edition() == edition => return Err(error),
                _ => {}
            }
        }
    }

    /// Opens the committed table called `name`, for [`Catalog::lookup`] alone.
    fn open_entry(&self, name: &str) -> Result<Arc<Entry>> {
        let (def, primary) = self.definition(name)?;
        let table = Table::open(&self.pool, &self.txns, def.clone());
        let table = table.map_err(|error| def.named(error))?;
        Ok(Arc::new(Entry { table, primary }))
    }

    /// Marks `name` as changed by this transaction, which holds the exclusive lock of `id`.
    pub(super) fn mark(&self, changes: &mut Changes, name: &str, id: ObjectId) -> Result<()> {
        if changes.before.contains_key(name) {
            return Ok(());
        }
        let conflict =
            |_| Error::AlreadyExists(format!("{name}, by a transaction that is running"));
        let before = self.names.mark(name, id).map_err(conflict)?;
        changes.now.insert(name.to_owned(), before.clone());
        changes.before.insert(name.to_owned(), before);
        Ok(())
    }

    /// Creates a table with its indexes.
    pub fn create_table(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        draft: TableDraft,
    ) -> Result<()> {
        let draft = self.with_free_names(statement.txn(), changes, draft)?;
        let heap = self.new_files(4);
        let mut def = TableDef::new(self.new_object(), draft.name, heap, draft.columns);
        def.overflow = FileId(heap.0 + 3);
        (def.logged, def.fillfactor, def.checks) = (draft.logged, draft.fillfactor, draft.checks);
        def.note = draft.note;
        def.auto_vacuum = draft.auto_vacuum;
        for identity in def.columns.iter_mut().filter_map(|column| column.identity.as_mut()) {
            (identity.sequence, identity.file) = (self.new_object(), self.new_files(1));
        }
        let ids: Vec<_> = draft.indexes.iter().map(|_| self.new_object()).collect();
        for (index, id) in draft.indexes.into_iter().zip(&ids) {
            let file = self.new_files(1);
            def.indexes.push(index.define(*id, file));
        }
        for at in 0..def.indexes.len() {
            def.indexes[at].data_version = def.indexes[at].current_data(&def);
        }
        let primary = draft.primary.map(|at| ids[at]);
        def.indexes.sort_by_key(|index| (Some(index.id) != primary, !index.unique, index.id));
        def.validate()?;
        points::hit("catalog.create-table.free");
        statement.txn().lock_table(def.id, LockMode::Exclusive)?;
        self.mark(changes, &def.name, def.id)?;
        self.store.insert(statement, &self.objects_of(&def, primary))?;
        changes.created.extend(files_of(&def));
        points::hit("catalog.create-table");
        let name = def.name.clone();
        for identity in def.columns.iter().filter_map(|column| column.identity.as_ref()) {
            self.keep(Sequence::create(&self.pool, identity.file, &identity.def)?);
        }
        let table = Table::create(&self.pool, &self.txns, def)?;
        changes.set(&name, Some(Arc::new(Entry { table, primary })));
        Ok(())
    }

    /// The draft with free names for the primary key and the sequences, which nobody has given
    /// theirs. Fails if a table is called so.
    fn with_free_names(
        &self,
        txn: &mut Transaction,
        changes: &Changes,
        mut draft: TableDraft,
    ) -> Result<TableDraft> {
        self.check_free(txn, changes, &draft.name)?;
        let given = (0..).zip(&draft.indexes).filter(|(at, _)| Some(*at) != draft.primary);
        let mut own: Vec<String> = given.map(|(_, index)| index.name.clone()).collect();
        own.push(draft.name.clone());
        if let Some(at) = draft.primary {
            let name = &mut draft.indexes[at].name;
            *name = self.free_name(txn, &own, name)?;
            own.push(name.clone());
        }
        for identity in draft.columns.iter_mut().filter_map(|column| column.identity.as_mut()) {
            let name = &mut identity.def.name;
            *name = self.free_name(txn, &own, name)?;
            own.push(name.clone());
        }
        Ok(draft)
    }

    /// Fails if a table is called `name`, waiting for transactions that change the name.
    pub(super) fn check_free(
        &self,
        txn: &mut Transaction,
        changes: &Changes,
        name: &str,
    ) -> Result<()> {
        check_name("table", name)?;
        match self.resolve(txn, changes, name, LockMode::Access) {
            Ok(_) => Err(Error::AlreadyExists(format!("table {name}"))),
            Err(Error::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn objects_of(&self, def: &TableDef, primary: Option<ObjectId>) -> Vec<Object> {
        let mut objects = vec![Object::table(def, primary)];
        for (no, column) in (0..).zip(&def.columns) {
            objects.push(Object::column(self.new_object(), def.id, no, column));
            if let Some(identity) = &column.identity {
                let (id, place) = (identity.sequence, (def.id, no));
                objects.push(Object::sequence(id, place, identity.file, &identity.def));
            }
        }
        for (no, index) in (0..).zip(&def.indexes) {
            objects.push(Object::index(def.id, no, index));
        }
        objects
    }

    /// Drops a table with its indexes. The files of one that damage keeps from being opened stay
    /// until the database is opened again.
    pub fn drop_table(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        name: &str,
    ) -> Result<()> {
        let id = match self.begin_change(statement, changes, name) {
            Ok(entry) => entry.table.def().id,
            Err(Error::Corruption { .. }) => self.begin_drop(statement, changes, name)?,
            Err(error) => return Err(error),
        };
        let snapshot = statement.txn().latest_snapshot();
        let mut rows = self.store.parts(&snapshot, id)?;
        rows.push(self.store.object(&snapshot, id)?);
        for row in &rows {
            self.store.delete(statement, row)?;
        }
        points::hit("catalog.drop-table");
        changes.set(name, None);
        Ok(())
    }

    /// The first of `wanted` and `wanted` with a number that is the name of no table, index or
    /// sequence, nor one of `own`.
    pub fn free_name(&self, txn: &Transaction, own: &[String], wanted: &str) -> Result<String> {
        let snapshot = txn.latest_snapshot();
        let with = |digits: &str| {
            let mut end = wanted.len().min(MAX_NAME_BYTES - digits.len());
            while !wanted.is_char_boundary(end) {
                end -= 1;
            }
            format!("{}{digits}", &wanted[..end])
        };
        let mut free = with("");
        let mut number = 0;
        while own.contains(&free) || self.store.relation(&snapshot, &free)?.is_some() {
            number += 1;
            free = with(&number.to_string());
        }
        Ok(free)
    }

    /// Creates an index over the rows of a table. Readers go on while it is built, writers wait,
    /// also others who build: all but one would fail where each wants to be the last.
    pub fn create_index(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        (name, draft): (&str, IndexDraft),
        options: &BuildOptions<'_>,
    ) -> Result<()> {
        let entry = self.resolve(statement.txn(), changes, name, LockMode::ShareWrite)?;
        let (built, position) = self.build_index(statement, changes, (&entry, draft), options)?;
        self.begin_change(statement, changes, name)?;
        let mut def = entry.table.def().clone();
        def.indexes.push(built.def().clone());
        self.store.insert(statement, &[Object::index(def.id, position, built.def())])?;
        self.redefine(changes, &entry, def, &[built])
    }

    /// Builds an index that the catalog does not have yet; the index, and its place in the catalog.
    pub(super) fn build_index(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        (entry, draft): (&Entry, IndexDraft),
        options: &BuildOptions<'_>,
    ) -> Result<(Arc<TableIndex>, u16)> {
        let (id, file) = (self.new_object(), self.new_files(1));
        let index = draft.define(id, file);
        let mut def = entry.table.def().clone();
        def.indexes.push(index.clone());
        def.validate()?;
        changes.created.push(file);
        let built = entry.table.build_index(statement.txn(), &index, options)?;
        points::hit("catalog.create-index");
        Ok((built, def.indexes.len() as u16))
    }

    /// Drops an index.
    pub fn drop_index(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        index: &str,
    ) -> Result<()> {
        let name = self.table_of_index(statement.txn(), index)?;
        self.change(statement, changes, &name, |statement, entry, def| {
            let id = def.index(index)?.id;
            if entry.primary == Some(id) {
                let what = format!("index {index} is the primary key of table {name}");
                return Err(Error::Invalid(what));
            }
            def.indexes.retain(|index| index.id != id);
            let row = self.row_of(statement, id)?;
            self.store.delete(statement, &row)
        })
    }

    /// Locks a table against everybody, lets `change` change its definition and write that down,
    /// and puts it in place.
    pub(super) fn change(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        name: &str,
        change: impl FnOnce(&mut Statement<'_>, &Entry, &mut TableDef) -> Result<()>,
    ) -> Result<()> {
        let entry = self.begin_change(statement, changes, name)?;
        let mut def = entry.table.def().clone();
        change(statement, &entry, &mut def)?;
        self.redefine(changes, &entry, def, &[])
    }

    /// The catalog's row of an object, and where it is.
    pub(super) fn row_of(
        &self,
        statement: &mut Statement<'_>,
        id: ObjectId,
    ) -> Result<(RowId, Object)> {
        self.store.object(&statement.txn().latest_snapshot(), id)
    }

    /// Locks a table against everybody and marks its name.
    pub(super) fn begin_change(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        name: &str,
    ) -> Result<Arc<Entry>> {
        let entry = self.resolve(statement.txn(), changes, name, LockMode::Exclusive)?;
        let id = entry.table.def().id;
        statement.txn().lock_table(id, LockMode::Exclusive)?;
        self.mark(changes, name, id)?;
        Ok(entry)
    }

    /// Locks a table that cannot be opened against everybody and marks its name.
    fn begin_drop(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        name: &str,
    ) -> Result<ObjectId> {
        let id = self.definition(name)?.0.id;
        statement.txn().lock_table(id, LockMode::Exclusive)?;
        // Whoever held the lock may have dropped it, and another may have the name.
        if self.definition(name)?.0.id != id {
            return Err(no_table(name));
        }
        self.mark(changes, name, id)?;
        Ok(id)
    }

    pub(super) fn redefine(
        &self,
        changes: &mut Changes,
        entry: &Entry,
        def: TableDef,
        built: &[Arc<TableIndex>],
    ) -> Result<()> {
        self.redefine_with(changes, entry, (def, entry.primary), built)
    }

    /// The same, with another primary key.
    pub(super) fn redefine_with(
        &self,
        changes: &mut Changes,
        entry: &Entry,
        (def, primary): (TableDef, Option<ObjectId>),
        built: &[Arc<TableIndex>],
    ) -> Result<()> {
        let name = def.name.clone();
        let table = entry.table.with_def(def, built)?;
        changes.set(&name, Some(Arc::new(Entry { table, primary })));
        Ok(())
    }

    /// Settles the names after the transaction has ended and removes the files that nobody needs.
    /// When it is not known whether the commit is durable, all files stay: opening the database
    /// again tells.
    pub fn settle(&self, changes: Changes, ending: Ending) -> Result<()> {
        let outcome = match ending {
            Ending::Committed => &changes.now,
            Ending::RolledBack | Ending::Unknown => &changes.before,
        };
        let mut kept = files_in(outcome);
        let mut doomed: BTreeSet<FileId> = changes.created.iter().copied().collect();
        doomed.extend(files_in(&changes.before));
        for (file, (before, now)) in &changes.sequences {
            doomed.insert(*file);
            if if ending == Ending::Committed { *now } else { *before } {
                kept.insert(*file);
            }
        }
        points::hit("catalog.before-settle");
        for name in changes.before.keys() {
            self.names.settle(name, outcome.get(name).cloned().flatten());
        }
        points::hit("catalog.settled");
        if ending == Ending::Unknown {
            return Ok(());
        }
        for file in doomed.difference(&kept) {
            self.forget_sequence(*file);
            self.pool.drop_file(*file)?;
        }
        Ok(())
    }
}

fn files_in(view: &View) -> BTreeSet<FileId> {
    view.values().flatten().flat_map(|entry| files_of(entry.table.def())).collect()
}

pub(super) fn no_table(name: &str) -> Error {
    Error::NotFound(format!("table {name}"))
}
