//! ANALYZE: a sample of each table is read, and what it says is kept.
//!
//! Invariants: each table that is analyzed outside of a block is so in a transaction of its own; in
//! one, statistics come and go with the block.
//! Does not do: reading and judging the sample (`statistics`).

use super::{Session, Sink};
use crate::bind::Catalog;
use crate::error::{Result, SqlError, code};
use crate::exec;
use crate::exec::tables::Tables;
use crate::names::{bare, schema_of};
use crate::notes::is_view;
use crate::parse::utility::Analyzed;
use crate::plan::Table;
use crate::statistics::record::{self, By, Record};
use crate::statistics::{self, store};

/// No columns are named: all are meant.
pub(super) const NONE: &[String] = &[];

/// How a table is to be analyzed.
pub(super) struct Wish<'w> {
    pub(super) by: By,
    pub(super) verbose: bool,
    /// Called between rows.
    pub(super) pause: &'w mut dyn FnMut() -> Result<()>,
}

impl Session {
    /// Analyzes these tables, or all.
    pub(super) fn analyze(
        &mut self,
        tables: &[Analyzed],
        verbose: bool,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let alone = !self.is_block() && self.active.as_ref().is_none_or(|active| !active.used);
        let all = tables.is_empty();
        let mut wanted: Vec<(String, &[String])> = Vec::new();
        for table in tables {
            wanted.push((self.relation(&table.name)?, table.columns.as_slice()));
        }
        if all {
            self.ensure()?;
            let tables = self.tables()?.into_iter().filter(|table| !is_view(&table.note));
            wanted.extend(tables.map(|table| (table.schema.name, NONE)));
        }
        for (at, (name, columns)) in wanted.into_iter().enumerate() {
            if alone && at > 0 {
                self.commit()?;
            }
            if !self.may_tend(&name)? {
                if !all {
                    let name = bare(&name);
                    let message = format!("permission denied to analyze \"{name}\", skipping it");
                    self.tell(sink, "WARNING", &message);
                }
                continue;
            }
            let mut wish = Wish { by: By::Client, verbose, pause: &mut || Ok(()) };
            match self.analyze_one(&name, columns, &mut wish, sink) {
                // Dropped since.
                Err(error) if all && error.sqlstate == code::UNDEFINED_TABLE => {}
                other => other?,
            }
        }
        Ok(())
    }

    pub(super) fn analyze_one(
        &mut self,
        name: &str,
        columns: &[String],
        wish: &mut Wish<'_>,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        self.ensure()?;
        let context = self.context(Vec::new());
        let db = self.db.clone();
        let active = self.ensure()?;
        active.used = true;
        let table = Tables(&mut active.txn).table(name)?;
        if table.notes.is_view() {
            let name = table.bare_name();
            let message = format!(
                "skipping \"{name}\" --- cannot analyze non-tables or special system tables"
            );
            self.tell(sink, "WARNING", &message);
            return Ok(());
        }
        let places = places(&table, columns)?;
        if wish.verbose {
            sink.notice("INFO", &format!("analyzing \"{}.{}\"", schema_of(name), bare(name)));
        }
        let txn = &mut active.txn;
        // What changes while it is read counts as changed since.
        let figures = db.table_figures()?.into_iter().find(|of| of.table == table.info.id);
        let changes = figures.map_or(0, |figures| record::changes(&figures.rows));
        let (mut found, report) = exec::analyze(txn, (&table, &places), wish.pause, &context)?;
        found.record = Record::of(&db, wish.by, columns.is_empty().then_some(changes));
        if wish.verbose {
            sink.notice("INFO", &report);
        }
        store::save(&db, txn, &table.info, &found)?;
        active.analyzed.push(table.info.id);
        // The session's own plans are made again at once.
        statistics::changed(table.info.id);
        Ok(())
    }
}

/// Places of these columns, or of all.
fn places(table: &Table, columns: &[String]) -> Result<Vec<usize>> {
    if columns.is_empty() {
        return Ok((0..table.types.len()).collect());
    }
    let name = table.bare_name();
    let mut places = Vec::with_capacity(columns.len());
    for column in columns {
        let Some(at) = table.info.columns.iter().position(|known| known.name == *column) else {
            let message = format!("column \"{column}\" of relation \"{name}\" does not exist");
            return Err(SqlError::new(code::UNDEFINED_COLUMN, message));
        };
        if places.contains(&at) {
            let message =
                format!("column \"{column}\" of relation \"{name}\" appears more than once");
            return Err(SqlError::new(code::DUPLICATE_COLUMN, message));
        }
        places.push(at);
    }
    Ok(places)
}
