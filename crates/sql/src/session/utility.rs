//! Utility statements.
//!
//! Invariants: one that cannot be undone does not run inside of a block.
//! Does not do: transactions (`transaction`).

use std::sync::Arc;

use sqlparser::ast;

use super::{Session, Sink};
use crate::bind::{Binder, Place, names};
use crate::error::{Result, SqlError, code};
use crate::expr::Context;
use crate::parse::Lines;
use crate::parse::utility::{ExplainOptions, Utility};
use crate::parse::{Parsed, Stmt};
use crate::plan::Column;
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
                    sink.notice(
                        "WARNING",
                        "SET TRANSACTION can only be used in transaction blocks",
                    );
                }
                self.set_modes(*modes)?;
                "SET"
            }
            Utility::SetTransaction { .. } => {
                return Err(SqlError::unsupported("SET SESSION CHARACTERISTICS"));
            }
            Utility::Show(name) => {
                self.show_setting(name, sink)?;
                "SHOW"
            }
            Utility::Reset(name) => {
                match name {
                    Some(name) => self.settings.set(name, None, false)?,
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
            Utility::Declare { name, hold, scroll, query } => {
                self.declare(name, (*hold, *scroll), query)?;
                "DECLARE CURSOR"
            }
            Utility::Fetch { name, direction, moves } => {
                return self.fetch(name, *direction, *moves, sink);
            }
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
            let column = |name: &&str| Column { name: (*name).to_owned(), ty: SqlType::Text };
            Some(names.iter().map(column).collect())
        };
        match utility {
            Utility::Show(name) if name == "all" => text(&["name", "setting", "description"]),
            Utility::Show(name) => text(&[shown_name(name)]),
            Utility::Explain { .. } => text(&["QUERY PLAN"]),
            Utility::Fetch { name, moves: false, .. } => self.cursor_columns(name),
            Utility::Execute { name, .. } => self.describe_statement(name).ok()?.columns,
            _ => None,
        }
    }

    fn upkeep(&mut self, utility: &Utility, sink: &mut dyn Sink) -> Result<String> {
        let tag = match utility {
            Utility::Vacuum { tables, full } => {
                self.vacuum(tables, *full)?;
                "VACUUM"
            }
            Utility::Analyze(tables) => {
                // There are no statistics yet; the tables must exist all the same.
                for name in tables {
                    let name = names::relation(name)?;
                    let active = self.ensure()?;
                    active.txn.describe(&name).map_err(|_| crate::exec::ddl::no_table(&name))?;
                }
                "ANALYZE"
            }
            Utility::Checkpoint => {
                self.db.checkpoint()?;
                "CHECKPOINT"
            }
            Utility::Discard(what) => {
                self.discard(what)?;
                return Ok(format!("DISCARD {}", what.to_uppercase()));
            }
            Utility::Explain { options, statement } => {
                self.explain(*options, statement, sink)?;
                "EXPLAIN"
            }
            other => unreachable!("handled before: {other:?}"),
        };
        Ok(tag.to_owned())
    }

    fn set(
        &mut self,
        name: &str,
        value: Option<&[String]>,
        local: bool,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let block = matches!(&self.active, Some(active) if active.block);
        if local && !block {
            sink.notice("WARNING", "SET LOCAL can only be used in transaction blocks");
            return Ok(());
        }
        if matches!(name, "transaction_isolation" | "transaction_read_only") {
            return Err(SqlError::unsupported(format!("SET {name}")).hint("Use SET TRANSACTION."));
        }
        self.settings.set(name, value, local)?;
        if name == "lock_timeout"
            && let Some(active) = &mut self.active
        {
            let timeout = self.settings.millis("lock_timeout");
            active.txn.set_lock_timeout(timeout.map(std::time::Duration::from_millis));
        }
        Ok(())
    }

    fn show_setting(&mut self, name: &str, sink: &mut dyn Sink) -> Result<()> {
        if name == "all" {
            let rows = self.settings.all().into_iter();
            let rows = rows.map(|(name, value)| vec![name.to_owned(), value, String::new()]);
            return self.show(&["name", "setting", "description"], rows.collect(), sink);
        }
        let value = match self.transaction_setting(name) {
            Some(value) => value,
            None => self.settings.show(name)?,
        };
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
        let types = types
            .iter()
            .map(|kind| names::data_type(kind).map(|declared| declared.ty))
            .collect::<Result<Vec<SqlType>>>()?;
        self.prepare_parsed(name, Some(Arc::new(statement.clone())), &types).map(|_| ())
    }

    /// Values of expressions without columns.
    fn constants(&mut self, nodes: &[ast::Expr]) -> Result<Vec<Datum>> {
        let active = self.ensure()?;
        let mut tables = super::statement::Tables(&mut active.txn);
        let lines = Lines::default();
        let mut binder = Binder::new(&mut tables, &lines, &[]);
        let mut bound = Vec::with_capacity(nodes.len());
        for node in nodes {
            bound.push(binder.at_place(Place::None("EXECUTE parameters"), |b| b.expr(node))?.expr);
        }
        let context: Context = self.context(Vec::new());
        bound.iter().map(|expr| expr.eval(&[], &context)).collect()
    }

    fn vacuum(&mut self, tables: &[Vec<String>], full: bool) -> Result<()> {
        self.check_outside("VACUUM")?;
        if full {
            return Err(SqlError::unsupported("VACUUM FULL"));
        }
        // A transaction of the message would hold locks that a vacuum waits for.
        self.commit()?;
        if tables.is_empty() {
            self.db.vacuum(None)?;
        }
        for name in tables {
            let name = names::relation(name)?;
            match self.db.vacuum(Some(&name)) {
                Err(rightlink::Error::NotFound(_)) => {
                    return Err(crate::exec::ddl::no_table(&name));
                }
                Err(error) => return Err(error.into()),
                Ok(_) => {}
            }
        }
        Ok(())
    }

    fn discard(&mut self, what: &str) -> Result<()> {
        match what {
            "all" => {
                self.check_outside("DISCARD ALL")?;
                self.prepared.clear();
                self.portals.clear();
                self.settings.reset_all();
            }
            "plans" => self.cache = super::prepared::Cache::default(),
            "sequences" | "temp" | "temporary" => {}
            other => return Err(SqlError::syntax(format!("syntax error at or near \"{other}\""))),
        }
        Ok(())
    }

    fn explain(
        &mut self,
        options: ExplainOptions,
        statement: &Parsed,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        if options.analyze {
            return Err(SqlError::unsupported("EXPLAIN ANALYZE"));
        }
        let planned = self.plan(&Arc::new(statement.clone()), &[])?;
        let lines = super::explain::show(&planned.plan, options);
        self.show(&["QUERY PLAN"], lines.into_iter().map(|line| vec![line]).collect(), sink)
    }
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
