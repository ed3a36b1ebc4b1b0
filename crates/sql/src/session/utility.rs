//! Utility statements.
//!
//! Invariants: one that cannot be undone does not run inside of a block.
//! Does not do: transactions (`transaction`).

use std::borrow::Cow;
use std::sync::Arc;

use rightlink::{Busy, Database, VacuumOptions, Watch};
use sqlparser::ast;

use super::declared_types::DeclaredTypes;
use super::explain::Run;
use super::prepared::convert;
use super::{Session, Sink};
use crate::bind::ddl::{self, Definition};
use crate::bind::reading::Reading;
use crate::bind::{Binder, Place};
use crate::error::{Result, SqlError, code};
use crate::exec::batch::ROWS;
use crate::exec::tables::{Along, Tables};
use crate::expr::Context;
use crate::expr::probe::{Probe, WRITE};
use crate::names::{bare, identifier};
use crate::notes::is_view;
use crate::parse::explain::ExplainOptions;
use crate::parse::utility::{Analyzed, Utility};
use crate::parse::{Lines, Parsed, Stmt, identifiers};
use crate::plan::Column;
use crate::schemas::{self, Resolver, no_table};
use crate::settings::{Shown, check_settable};
use crate::types::{Datum, SqlType};

impl Session {
    /// Runs a utility statement and gives its tag.
    pub(super) fn utility(&mut self, utility: &Utility, sink: &mut dyn Sink) -> Result<String> {
        let tag = match utility {
            Utility::Set { name, value, local } => {
                self.set(name, value.as_deref(), *local, sink)?;
                "SET"
            }
            Utility::SetTransaction { modes, session: false } => {
                if self.active.is_none() {
                    self.tell(
                        sink,
                        "WARNING",
                        "SET TRANSACTION can only be used in transaction blocks",
                    );
                }
                self.set_modes(*modes)?;
                "SET"
            }
            Utility::SetTransaction { modes, session: true } => {
                self.ensure()?;
                if let Some(level) = modes.isolation {
                    let level = [level.name().to_owned()];
                    self.settings.set("default_transaction_isolation", Some(&level), false)?;
                }
                if let Some(read_only) = modes.read_only {
                    let value = [if read_only { "on" } else { "off" }.to_owned()];
                    self.settings.set("default_transaction_read_only", Some(&value), false)?;
                }
                if let Some(deferrable) = modes.deferrable {
                    let value = [if deferrable { "on" } else { "off" }.to_owned()];
                    self.settings.set("default_transaction_deferrable", Some(&value), false)?;
                }
                "SET"
            }
            Utility::Show(name) => {
                self.show_setting(name, sink)?;
                "SHOW"
            }
            Utility::Reset(name) => {
                self.ensure()?;
                match name {
                    Some(name) => self.set(name, None, false, sink)?,
                    None => self.settings.reset_all(),
                }
                "RESET"
            }
            Utility::Prepare { name, types, statement } => {
                self.prepare_named(name, types, statement)?;
                "PREPARE"
            }
            Utility::Execute { name, args } => {
                let args = self.constants(args)?;
                return self.execute_prepared(name, args, sink);
            }
            Utility::Deallocate(name) => {
                self.deallocate(name.as_deref())?;
                if name.is_some() { "DEALLOCATE" } else { "DEALLOCATE ALL" }
            }
            Utility::Declare { name, kind, query } => {
                self.declare(name, *kind, query, (&[], Vec::new()))?;
                "DECLARE CURSOR"
            }
            Utility::Fetch { name, direction, moves } => {
                return self.fetch(name, *direction, *moves, sink);
            }
            Utility::Do(code) => {
                self.run_block(code, sink)?;
                "DO"
            }
            Utility::FinishPrepared { gid, decision } => self.finish_prepared(gid, *decision)?,
            Utility::Close(name) => {
                self.close_cursor(name.as_deref())?;
                if name.is_some() { "CLOSE CURSOR" } else { "CLOSE CURSOR ALL" }
            }
            other => return self.upkeep(other, sink),
        };
        Ok(tag.to_owned())
    }

    /// Columns of what a utility statement shows, if it shows any.
    pub(super) fn utility_columns(&self, utility: &Utility) -> Option<Vec<Column>> {
        let text = |names: &[&str]| {
            let column = |name: &&str| Column::new(*name, SqlType::Text);
            Some(names.iter().map(column).collect())
        };
        match utility {
            Utility::Show(name) if name == "all" => text(&["name", "setting", "description"]),
            Utility::Show(name) => text(&[shown_name(name)]),
            Utility::Explain { options, .. } => Some(vec![options.column()]),
            Utility::Fetch { name, moves: false, .. } => self.cursor_columns(name),
            Utility::Execute { name, .. } => self.describe_statement(name).ok()?.columns,
            _ => None,
        }
    }

    fn upkeep(&mut self, utility: &Utility, sink: &mut dyn Sink) -> Result<String> {
        let tag = match utility {
            Utility::Vacuum { tables, full, analyze } => {
                self.vacuum(tables, *full, sink)?;
                if *analyze {
                    self.analyze(tables, false, sink)?;
                }
                "VACUUM"
            }
            Utility::Analyze { tables, verbose } => {
                self.analyze(tables, *verbose, sink)?;
                "ANALYZE"
            }
            Utility::Reindex { index, name } => {
                self.reindex(*index, name)?;
                "REINDEX"
            }
            Utility::SetConstraints { names, deferred } => {
                self.set_constraints(names.as_deref(), *deferred, sink)?;
                "SET CONSTRAINTS"
            }
            Utility::Listen(channel) => {
                self.ensure()?;
                self.seat.listen(channel)?;
                "LISTEN"
            }
            Utility::Notify { channel, payload } => {
                self.ensure()?;
                self.seat.notify(channel, payload)?;
                "NOTIFY"
            }
            Utility::Unlisten(channel) => {
                self.ensure()?;
                self.seat.unlisten(channel.as_deref())?;
                "UNLISTEN"
            }
            Utility::Lock { tables, mode, nowait } => {
                self.lock_tables(tables, *mode, *nowait)?;
                "LOCK TABLE"
            }
            Utility::SetSchema { table, said, if_exists, schema } => {
                self.ensure()?;
                self.check_writable("ALTER TABLE")?;
                let table = match *if_exists {
                    true => {
                        let path = self.settings.path();
                        schemas::find(&mut self.ensure()?.txn, &path, table)?.name
                    }
                    false => self.relation(table)?,
                };
                let (if_exists, schema) = (*if_exists, schema.clone());
                let moved = Definition::MoveTable { table, said: *said, if_exists, schema };
                return self.define(&moved, sink);
            }
            Utility::Checkpoint => {
                self.check_checkpoints()?;
                self.db.checkpoint()?;
                "CHECKPOINT"
            }
            Utility::Discard(what) => {
                self.discard(what)?;
                return Ok(format!("DISCARD {}", what.to_uppercase()));
            }
            Utility::Explain { options, statement } => {
                self.explain(*options, statement, &[], Vec::new(), sink)?;
                "EXPLAIN"
            }
            other => return self.make(other, sink),
        };
        Ok(tag.to_owned())
    }

    /// Runs a definition that is read from its tokens.
    fn make(&mut self, utility: &Utility, sink: &mut dyn Sink) -> Result<String> {
        match utility {
            Utility::CreateSequence { name, options, if_not_exists } => {
                let read = |resolver: &mut Resolver<'_>| {
                    ddl::create_sequence(name, options, *if_not_exists, resolver)
                };
                self.define_as(read, sink)
            }
            Utility::AlterSequence { name, options, if_exists } => {
                let read = |resolver: &mut Resolver<'_>| {
                    ddl::alter_sequence(name, options, *if_exists, resolver)
                };
                self.define_as(read, sink)
            }
            Utility::CreateSchema { schema, elements } => {
                self.create_schema(schema, elements, sink)
            }
            Utility::RenameSequence { name, to, if_exists } => {
                let read = |resolver: &mut Resolver<'_>| {
                    ddl::rename_sequence(name, to, *if_exists, resolver)
                };
                self.define_as(read, sink)
            }
            Utility::MoveSequence { name, schema, if_exists } => {
                let read = |resolver: &mut Resolver<'_>| {
                    let name = ddl::sequence_name(name, *if_exists, resolver)?;
                    let (schema, if_exists) = (schema.clone(), *if_exists);
                    Ok(Definition::MoveSequence { name, schema, if_exists })
                };
                self.define_as(read, sink)
            }
            Utility::CommentConstraint { name, table, text } => {
                let read = |resolver: &mut Resolver<'_>| {
                    ddl::comment_constraint(name, table, text.as_deref(), resolver)
                };
                self.define_as(read, sink)
            }
            Utility::AlterColumn { table, if_exists, column, change } => {
                let read = |resolver: &mut Resolver<'_>| {
                    ddl::alter_column(table, *if_exists, column, change, resolver)
                };
                self.define_as(read, sink)
            }
            Utility::AlterConstraint { table, if_exists, name, waits } => {
                let read = |resolver: &mut Resolver<'_>| {
                    ddl::alter_constraint(table, *if_exists, name, *waits, resolver)
                };
                self.define_as(read, sink)
            }
            Utility::Role(statement) => self.role_statement(statement, sink),
            Utility::Function(statement) => {
                self.define_as(|resolver| ddl::of_function(statement, resolver), sink)
            }
            Utility::Type(statement) => {
                self.define_as(|resolver| ddl::of_type(statement, resolver), sink)
            }
            Utility::Refresh { view, concurrently, with_data } => {
                self.refresh(view, *concurrently, *with_data, sink)
            }
            Utility::CreateTableAs(create) => self.create_table_as(create, sink),
            Utility::CreateTableLike(create) => self.create_table_like(create, sink),
            other => unreachable!("handled before: {other:?}"),
        }
    }

    /// What the store calls the relation that these parts name.
    pub(super) fn relation(&mut self, parts: &[String]) -> Result<String> {
        let path = self.settings.path();
        let stored = Resolver::new(&mut self.ensure()?.txn, &path).existing_parts(parts)?;
        self.check_finds(&stored)?;
        Ok(stored)
    }

    fn set(
        &mut self,
        name: &str,
        value: Option<&[String]>,
        local: bool,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        if local && !self.is_block() {
            self.tell(sink, "WARNING", "SET LOCAL can only be used in transaction blocks");
            return Ok(());
        }
        check_settable(name)?;
        // It is undone with what comes after it in a pipeline.
        self.ensure()?;
        let lower = name.to_ascii_lowercase();
        if matches!(lower.as_str(), "role" | "session_authorization") {
            if let Some([value]) = value {
                self.check_identity(&lower, value)?;
            }
            if lower == "session_authorization" {
                // With the user the role that was set goes.
                self.settings.set("role", None, local)?;
            }
            self.settings.set(name, value, local)?;
            return self.tell_identity();
        }
        let value = value.map(|parts| written(name, parts));
        self.settings.set(name, value.as_deref(), local)
    }

    fn show_setting(&mut self, name: &str, sink: &mut dyn Sink) -> Result<()> {
        if name == "all" {
            let (settings, modes) = (&self.settings, self.modes());
            let row = |one: Shown| {
                let value = settings.show_in(modes, one.name)?;
                Ok(vec![one.name.to_owned(), value, one.text.unwrap_or("").to_owned()])
            };
            let rows: Result<Vec<_>> = settings.all(modes).into_iter().map(row).collect();
            return self.show(&["name", "setting", "description"], rows?, sink);
        }
        let value = self.settings.show_in(self.modes(), name)?;
        self.show(&[shown_name(name)], vec![vec![value]], sink)
    }

    fn prepare_named(
        &mut self,
        name: &str,
        types: &[ast::DataType],
        statement: &Parsed,
    ) -> Result<()> {
        if self.prepared.contains_key(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new(code::DUPLICATE_STATEMENT, message));
        }
        if matches!(statement.stmt, Stmt::Utility(_)) {
            return Err(SqlError::syntax("only queries can be prepared"));
        }
        let path = self.settings.path();
        let mut resolver = Resolver::new(&mut self.ensure()?.txn, &path);
        let declared = |kind: &ast::DataType| -> Result<(SqlType, u32)> {
            let declared = identifiers::data_type(kind, &mut resolver)?;
            Ok((declared.ty, declared.oid()))
        };
        let declared = types.iter().map(declared).collect::<Result<DeclaredTypes>>()?;
        let parsed = Some(Arc::new(statement.clone()));
        self.prepare_parsed(name, (parsed, ""), declared).map(|_| ())
    }

    /// Values of expressions without columns.
    pub(super) fn constants(&mut self, nodes: &[ast::Expr]) -> Result<Vec<Datum>> {
        let path = self.settings.path();
        self.ensure()?;
        let times = self.times();
        let mut tables = Along(Tables(&mut self.ensure()?.txn), &path);
        let lines = Lines::default();
        let mut binder = Binder::new(&mut tables, &lines, &[]);
        binder.reading = Reading::of(times);
        let mut bound = Vec::with_capacity(nodes.len());
        for node in nodes {
            bound.push(binder.at_place(Place::None("EXECUTE parameters"), |b| b.expr(node))?.expr);
        }
        let sequences = std::mem::take(&mut binder.sequences);
        let context: Context = self.context(Vec::new());
        let active = self.ensure()?;
        active.used = true;
        context.sequences.open(&sequences, &mut active.txn)?;
        bound.iter().map(|expr| expr.eval(&[], &context)).collect()
    }

    fn vacuum(&mut self, tables: &[Analyzed], full: bool, sink: &mut dyn Sink) -> Result<()> {
        self.check_outside("VACUUM")?;
        if full {
            return Err(SqlError::unsupported("VACUUM FULL"));
        }
        let mut names = Vec::with_capacity(tables.len());
        for table in tables {
            let name = self.relation(&table.name)?;
            if self.may_tend(&name)? {
                names.push(name);
            } else {
                let name = bare(&name);
                let message = format!("permission denied to vacuum \"{name}\", skipping it");
                self.tell(sink, "WARNING", &message);
            }
        }
        if names.is_empty() && (!tables.is_empty() || !self.may_tend("")?) {
            return self.commit();
        }
        // A transaction of the message would hold locks that a vacuum waits for.
        self.commit()?;
        if names.is_empty() {
            self.watched(|db, watch| vacuum(db, None, watch))?;
        }
        for name in names {
            match self.watched(|db, watch| vacuum(db, Some(&name), watch)) {
                Err(rightlink::Error::NotFound(_)) => {
                    return Err(no_table(&name));
                }
                Err(error) => return Err(error.into()),
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// Builds indexes anew beside others who read and write.
    fn reindex(&mut self, index: bool, name: &[String]) -> Result<()> {
        self.check_outside("REINDEX")?;
        let name = self.relation(name)?;
        self.check_rebuilds(&name, index)?;
        let missing = |error: rightlink::Error| match error {
            rightlink::Error::NotFound(_) => no_table(&name),
            other => other.into(),
        };
        let txn = &mut self.ensure()?.txn;
        let (table, one) = match index {
            true => (txn.catalog().table_of_index(&name).map_err(missing)?, Some(name.as_str())),
            false => {
                let info = txn.catalog().definition(&name).map_err(missing)?;
                if is_view(&info.note) {
                    let name = bare(&name);
                    let message = format!("\"{name}\" is not a table or materialized view");
                    return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message));
                }
                (name.clone(), None)
            }
        };
        // The build waits for all transactions, this one too.
        self.commit()?;
        self.watched(|db, watch| db.reindex_with(&table, one, watch)).map(drop).map_err(missing)
    }

    fn lock_tables(
        &mut self,
        tables: &[Vec<String>],
        mode: rightlink::LockMode,
        nowait: bool,
    ) -> Result<()> {
        let busy = if nowait { Busy::Fail } else { Busy::Wait };
        self.shared("LOCK TABLE")?.used = true;
        for name in tables {
            let name = self.relation(name)?;
            self.check_locks(&name, mode)?;
            self.ensure()?.txn.lock_table(&name, mode, busy).map_err(|error| match error {
                rightlink::Error::NotFound(_) => no_table(&name),
                // Nobody has waited: what is not a user's cancel is a lock that is not free.
                rightlink::Error::LockTimeout { .. } if nowait => {
                    let name = bare(&name);
                    let message = format!("could not obtain lock on relation \"{name}\"");
                    SqlError::new(code::LOCK_NOT_AVAILABLE, message)
                }
                other => other.into(),
            })?;
            self.refuse_lock(&name)?;
        }
        Ok(())
    }

    fn discard(&mut self, what: &str) -> Result<()> {
        match what {
            "all" => {
                self.check_outside("DISCARD ALL")?;
                self.prepared.clear();
                self.portals.clear();
                self.cursors.clear();
                self.settings.reset_all();
                self.settings.reset_identity();
                self.tell_identity()?;
                self.sequences.forget();
                self.seat.unlisten_all();
                self.seat.unlock_all();
                self.discard_temporary()?;
            }
            "plans" => self.cache = super::cache::Cache::default(),
            "sequences" => self.sequences.forget(),
            "temp" | "temporary" => self.discard_temporary()?,
            other => return Err(SqlError::syntax(format!("syntax error at or near \"{other}\""))),
        }
        Ok(())
    }

    /// EXPLAIN, with types and values of parameters. EXECUTE stands for the statement that it
    /// names, with its arguments.
    pub(super) fn explain(
        &mut self,
        options: ExplainOptions,
        statement: &Parsed,
        types: &[SqlType],
        params: Vec<Datum>,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let (statement, types, params) = match &statement.stmt {
            Stmt::Utility(Utility::Execute { name, args }) => {
                let args = self.constants(args)?;
                let (parsed, types) = self.prepared_for(name, args.len())?;
                let params = convert(args, &types, || self.times())?;
                (parsed, Cow::Owned(types), params)
            }
            _ => (Arc::new(statement.clone()), Cow::Borrowed(types), params),
        };
        let probe = Probe::new();
        let (planned, planning) = probe.timed(|| self.plan(&statement, &types));
        let planned = planned?;
        let mut run = Run { options, probe: None, planning, execution: None };
        if options.analyze {
            if planned.params.len() != params.len() {
                let message = "there is no parameter $1";
                return Err(SqlError::new(code::UNDEFINED_PARAMETER, message));
            }
            self.probe = Some(probe.clone());
            let (done, spent) = probe.timed(|| self.run_quietly(&planned.plan, params));
            self.probe = None;
            let count = done?;
            probe.note(WRITE, |figures| {
                (figures.rows, figures.first, figures.total) = (count, spent, spent);
            });
            (run.probe, run.execution) = (Some(&probe), Some(spent));
        } else {
            self.check_needs(planned.plan.asks().needs.all())?;
        }
        let lines = super::explain::show(&planned.plan, &run)?;
        sink.columns(&[options.column()])?;
        lines.into_iter().try_for_each(|line| sink.row(vec![line]))
    }
}

impl Session {
    /// Runs a plan and throws its rows away; how many there were.
    fn run_quietly(&mut self, plan: &Arc<crate::plan::Plan>, params: Vec<Datum>) -> Result<u64> {
        let mut portal = self.open(Arc::clone(plan), params)?;
        let mut count = 0;
        while self.next_row(&mut portal, ROWS)?.is_some() {
            count += 1;
        }
        Ok(count)
    }
}

/// Vacuums one table, or all of them, until `watch` ends it.
fn vacuum(db: &Database, table: Option<&str>, watch: Watch<'_>) -> rightlink::Result<()> {
    db.vacuum_with(table, VacuumOptions { watch, ..Default::default() }).map(drop)
}

/// How SHOW spells a setting.
fn shown_name(name: &str) -> &str {
    match name.to_ascii_lowercase().as_str() {
        "datestyle" => "DateStyle",
        "timezone" => "TimeZone",
        "intervalstyle" => "IntervalStyle",
        _ => name,
    }
}

/// The parts of a value as settings take them: those of a path are a name each, also in quotes.
pub(super) fn written(setting: &str, parts: &[String]) -> Vec<String> {
    match setting.eq_ignore_ascii_case("search_path") {
        true => parts.iter().map(|name| identifier(name)).collect(),
        false => parts.to_vec(),
    }
}
