//! COPY: the session's side of rows in bulk.
//!
//! COPY FROM is a conversation: the statement puts the session into copying, pieces of data follow,
//! and an end or a failure. COPY TO hands its pieces to the sink.
//!
//! Invariants: rows go in as soon as they are a batch, all in the transaction of the statement;
//! after an error the transaction has failed and the session is out of copying.
//! Does not do: COPY FROM in a message with other statements.

use std::sync::Arc;

use super::{Session, Sink};
use crate::bind::{Binder, Catalog};
use crate::copy::read::Reader;
use crate::copy::write::Writer;
use crate::error::{Result, SqlError, code};
use crate::exec::batch::ROWS;
use crate::exec::references::{self, Pending};
use crate::exec::rows::{self, Batch};
use crate::exec::tables::{Along, Tables};
use crate::expr::{Context, Expr, Pace};
use crate::names;
use crate::names::identifier;
use crate::notes::{TableNotes, generation_expression};
use crate::parse::Parsed;
use crate::parse::copy::{CopyFormat, CopyOptions, CopyStatement, CopyWhat};
use crate::plan::{Given, Plan, Query, Rules, Table};
use crate::schemas;
use crate::types::Row;
use crate::types::declared::Declared;

/// What a client must know before data flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CopyHeader {
    /// How rows are written.
    pub format: CopyFormat,
    /// Columns of a row.
    pub columns: usize,
}

/// A COPY FROM under way.
pub(super) struct CopyIn {
    reader: Reader,
    rows: Arriving,
}

/// Rows of a COPY FROM.
struct Arriving {
    table: Arc<Table>,
    rules: Rules,
    /// Where each column of the table takes its value from.
    given: Vec<Given>,
    /// Which rows are taken.
    condition: Option<Expr>,
    context: Context,
    pending: Pending,
    batch: Batch,
    pace: Pace,
    count: u64,
}

impl Arriving {
    fn take(&mut self, mut row: Row) -> Result<()> {
        self.pace.step(&self.context)?;
        for (at, given) in self.given.iter().enumerate() {
            if let (Some(modifier), Given::Place(place)) =
                (self.table.column_notes[at].modifier, given)
            {
                row[*place] = modifier.fit(std::mem::take(&mut row[*place]), false)?;
            }
        }
        let row = rows::filled(&self.given, row, &self.context)?;
        if let Some(condition) = &self.condition
            && !condition.holds(&row, &self.context)?
        {
            return Ok(());
        }
        let values = rows::of_filled(&self.table, &self.rules, row, &self.context)?;
        self.pending.came(&self.rules, None, &values)?;
        self.batch.push(values);
        Ok(())
    }
}

impl Session {
    /// Is the session waiting for data of a COPY FROM?
    pub fn is_copying(&self) -> bool {
        self.copy.is_some()
    }

    /// Takes a piece of data; a row may begin in one piece and end in another.
    ///
    /// # Errors
    /// Data that is no row, or a row that the table refuses: the COPY has failed.
    pub fn copy_data(&mut self, bytes: &[u8]) -> Result<()> {
        self.on_stack(0, |session| session.take_copy_data(bytes))
    }

    fn take_copy_data(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(mut copy) = self.copy.take() else { return Err(not_copying()) };
        match self.copy_piece(&mut copy, Some(bytes)) {
            Ok(()) => {
                self.copy = Some(copy);
                Ok(())
            }
            Err(error) => {
                let error = self.failed(error);
                self.rest();
                Err(error)
            }
        }
    }

    /// The data is complete: gives the tag.
    pub fn copy_done(&mut self) -> Result<String> {
        self.on_stack(0, Session::finish_copy)
    }

    fn finish_copy(&mut self) -> Result<String> {
        let Some(mut copy) = self.copy.take() else { return Err(not_copying()) };
        let result = self
            .copy_piece(&mut copy, None)
            .and_then(|()| self.copy_flush(&mut copy.rows))
            .and_then(|()| self.copy_settle(&mut copy.rows))
            .and_then(|()| self.end_message())
            .map_err(|error| self.failed(error));
        self.rest();
        result.map(|()| format!("COPY {}", copy.rows.count))
    }

    /// The client has given up.
    pub fn copy_fail(&mut self, reason: &str) -> SqlError {
        self.copy = None;
        self.fail();
        self.rest();
        SqlError::new(code::QUERY_CANCELED, format!("COPY from stdin failed: {reason}"))
    }

    fn copy_piece(&mut self, copy: &mut CopyIn, bytes: Option<&[u8]>) -> Result<()> {
        let CopyIn { reader, rows } = copy;
        let mut take = |row: Row| {
            rows.take(row)?;
            if rows.batch.is_full() { self.copy_flush(rows) } else { Ok(()) }
        };
        match bytes {
            Some(bytes) => reader.push(bytes, &mut take),
            None => reader.finish(&mut take),
        }
    }

    fn copy_flush(&mut self, copy: &mut Arriving) -> Result<()> {
        let rows = copy.batch.rows();
        if !rows.is_empty() {
            self.ensure()?.txn.insert_many(&copy.table.info.name, rows)?;
            copy.count += rows.len() as u64;
            copy.batch.clear();
            let txn = &mut self.ensure()?.txn;
            let table = &copy.table.info.name;
            copy.pending.thin_out(&copy.rules, &mut |key, values| {
                Ok(txn.may_share_key(table, &key.index, values)?)
            })?;
        }
        Ok(())
    }

    /// What the rows refer to must be there.
    fn copy_settle(&mut self, copy: &mut Arriving) -> Result<()> {
        let budget = self.db.budget().clone();
        let pending = std::mem::replace(&mut copy.pending, Pending::new(&copy.rules, &budget));
        let active = self.ensure()?;
        let table = (&*copy.table, &copy.rules);
        references::settle(pending, table, &mut active.txn, (&copy.context, &budget))
    }

    /// Begins a COPY. One to the client ends here too and gives its tag.
    pub(super) fn copy(
        &mut self,
        copy: &CopyStatement,
        sink: &mut dyn Sink,
    ) -> Result<Option<String>> {
        if copy.from {
            self.copy_from(copy, sink).map(|()| None)
        } else {
            self.copy_to(copy, sink).map(Some)
        }
    }

    /// Fails for the name of a view, of which rows are copied by a query.
    fn refuse_view(&mut self, name: &[String]) -> Result<()> {
        let path = self.settings.path();
        let txn = &mut self.ensure()?.txn;
        let Ok(found) = schemas::find(txn, &path, name) else { return Ok(()) };
        match txn.catalog().definition(&found.name) {
            Ok(info) if TableNotes::decode(&info.note).view.is_some() => {
                self.check_reads(&found.name)?;
                let noun = TableNotes::decode(&info.note).noun();
                let message = format!("cannot copy from {noun} \"{}\"", names::bare(&found.name));
                Err(SqlError::new(code::WRONG_OBJECT_TYPE, message)
                    .hint("Try the COPY (SELECT ...) TO variant."))
            }
            _ => Ok(()),
        }
    }

    /// The columns that COPY TO writes where some of the table are generated; `None`: those that
    /// are named, or all.
    fn columns_to_copy(
        &mut self,
        name: &[String],
        columns: &[String],
    ) -> Result<Option<Vec<String>>> {
        let path = self.settings.path();
        let txn = &mut self.ensure()?.txn;
        let Ok(found) = schemas::find(txn, &path, name) else { return Ok(None) };
        let Ok(info) = txn.catalog().definition(&found.name) else { return Ok(None) };
        let shown = info.columns.iter().filter(|column| !column.computed);
        let (generated, plain): (Vec<_>, Vec<_>) =
            shown.partition(|column| generation_expression(column).is_some());
        if generated.is_empty() {
            return Ok(None);
        }
        if let Some(one) = generated.iter().find(|one| columns.contains(&one.name)) {
            return Err(is_generated(&one.name));
        }
        let plain = plain.into_iter().map(|column| column.name.clone());
        Ok(columns.is_empty().then(|| plain.collect()))
    }

    fn copy_from(&mut self, copy: &CopyStatement, sink: &mut dyn Sink) -> Result<()> {
        let CopyWhat::Table { name, columns } = &copy.what else {
            return Err(SqlError::syntax("COPY query must be TO"));
        };
        self.ensure()?;
        self.check_writable("COPY FROM")?;
        let name = self.relation(name)?;
        self.check_inserts(&name)?;
        if copy.condition.is_some() {
            self.check_reads(&name)?;
        }
        let path = self.settings.path();
        let active = self.ensure()?;
        active.used = true;
        let mut tables = Along(Tables(&mut active.txn), &path);
        let table = tables.table(&name)?;
        if table.notes.stored_rows().is_some() {
            let message = format!("cannot copy to materialized view \"{}\"", table.bare_name());
            return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message));
        }
        if table.notes.view.is_some() {
            let message = format!("cannot copy to view \"{}\"", table.bare_name());
            return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message)
                .hint("To enable copying to a view, provide an INSTEAD OF INSERT trigger."));
        }
        let (named, places) = places(&table, columns)?;
        check_forced(&copy.options, &named, &table)?;
        let mut binder = Binder::new(&mut tables, &copy.lines, &[]);
        let mut given = Vec::with_capacity(places.len());
        for (at, place) in places.into_iter().enumerate() {
            given.push(match place {
                Some(place) => Given::Place(place),
                None => Given::Default(binder.default_of(&table, at)?),
            });
        }
        let rules = binder.rules(&table)?;
        let condition = copy.condition.as_deref();
        let condition = condition.map(|node| binder.copy_condition(node, &table)).transpose()?;
        condition.iter().try_for_each(|condition| refuse_generated(condition, &table))?;
        if !binder.params.is_empty() {
            let message = "there is no parameter $1";
            return Err(SqlError::new(code::UNDEFINED_PARAMETER, message));
        }
        let asks = binder.take_asks();
        self.check_needs(asks.needs.all())?;
        let mut context = self.context(Vec::new());
        context.deferred = Some(Arc::clone(&self.deferred));
        context.sequences.open(&asks.sequences, &mut self.ensure()?.txn)?;
        let header = CopyHeader { format: copy.options.format, columns: named.len() };
        sink.copy_in(header)?;
        let reader = Reader::new(&copy.options, table.bare_name(), named, self.times());
        let reader = reader.in_encoding(self.client_encoding());
        let pending = Pending::new(&rules, self.db.budget());
        let (batch, pace) = (Batch::new(self.db.budget()), Pace::default());
        let rows =
            Arriving { table, rules, given, condition, context, pending, batch, pace, count: 0 };
        self.copy = Some(CopyIn { reader, rows });
        Ok(())
    }

    fn copy_to(&mut self, copy: &CopyStatement, sink: &mut dyn Sink) -> Result<String> {
        let query: Arc<Parsed> = match &copy.what {
            CopyWhat::Query(query) => Arc::new((**query).clone()),
            CopyWhat::Table { name, columns } => {
                once(columns)?;
                self.refuse_view(name)?;
                let listed = self.columns_to_copy(name, columns)?;
                let columns = listed.as_ref().unwrap_or(columns);
                let names: Vec<String> = columns.iter().map(|name| identifier(name)).collect();
                let list = match names.is_empty() && listed.is_none() {
                    true => "*".to_owned(),
                    false => names.join(", "),
                };
                let parts: Vec<String> = name.iter().map(|part| identifier(part)).collect();
                let table = parts.join(".");
                let mut parsed = self.parse(&format!("select {list} from {table}"))?;
                Arc::new(parsed.pop().expect("one statement"))
            }
        };
        let planned = self.plan(&query, &[])?;
        let Plan::Query(query) = &*planned.plan else {
            return Err(SqlError::unsupported("COPY of a statement other than SELECT"));
        };
        let columns = query.columns.clone();
        check_quoted(&copy.options, query)?;
        let mut portal = self.open(Arc::clone(&planned.plan), Vec::new())?;
        sink.copy_out(CopyHeader { format: copy.options.format, columns: columns.len() })?;
        let writer = Writer::new(&copy.options, &columns, self.times());
        let writer = writer.in_encoding(self.client_encoding());
        let mut out = Vec::new();
        writer.start(&columns, &mut out)?;
        // Each row is a piece of its own: there are clients that count on it. They also count on
        // the
        // header of a binary file being in one piece with the first row, as PostgreSQL sends it.
        if !out.is_empty() && copy.options.format != CopyFormat::Binary {
            sink.copy_data(&out)?;
            out.clear();
        }
        let mut count = 0u64;
        while let Some(row) = self.next_row(&mut portal, ROWS)? {
            writer.row(&row, &mut out)?;
            count += 1;
            sink.copy_data(&out)?;
            out.clear();
        }
        writer.end(&mut out);
        if !out.is_empty() {
            sink.copy_data(&out)?;
        }
        Ok(format!("COPY {count}"))
    }
}

/// Fails if a column is named twice.
fn once(columns: &[String]) -> Result<()> {
    for (at, name) in columns.iter().enumerate() {
        if columns[..at].contains(name) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(code::DUPLICATE_COLUMN, message));
        }
    }
    Ok(())
}

/// Fails if a column whose nulls are told by options is not read.
fn check_forced(options: &CopyOptions, read: &[(String, Declared)], table: &Table) -> Result<()> {
    for (option, list) in
        [("FORCE_NOT_NULL", &options.force_not_null), ("FORCE_NULL", &options.force_null)]
    {
        let Some(list) = list else { continue };
        places(table, list)?;
        let is_read = |name: &&String| read.iter().any(|(known, _)| known == *name);
        if let Some(name) = list.iter().find(|name| !is_read(name)) {
            let message = format!("{option} column \"{name}\" not referenced by COPY");
            return Err(SqlError::new(code::INVALID_COLUMN_REFERENCE, message));
        }
    }
    Ok(())
}

/// Fails if a column that is always to be quoted is not written.
fn check_quoted(options: &CopyOptions, query: &Query) -> Result<()> {
    let quoted = options.force_quote.as_deref().unwrap_or_default();
    once(quoted)?;
    let written = |name: &&String| query.columns.iter().any(|column| column.name == **name);
    let Some(name) = quoted.iter().find(|name| !written(name)) else { return Ok(()) };
    let has = |table: &Arc<Table>| table.info.columns.iter().any(|column| column.name == *name);
    let of_table = query.tables.iter().any(has);
    Err(match of_table {
        true => {
            let message = format!("FORCE_QUOTE column \"{name}\" not referenced by COPY");
            SqlError::new(code::INVALID_COLUMN_REFERENCE, message)
        }
        false => {
            let message = format!("column \"{name}\" does not exist");
            SqlError::new(code::UNDEFINED_COLUMN, message)
        }
    })
}

fn not_copying() -> SqlError {
    SqlError::new("08P01", "unexpected COPY data")
}

/// Columns of a table by name, with their types; and for each column its place in a row.
type Placed = (Vec<(String, Declared)>, Vec<Option<usize>>);

/// The error for a generated column among those of COPY.
fn is_generated(column: &str) -> SqlError {
    let message = format!("column \"{column}\" is a generated column");
    let detail = "Generated columns cannot be used in COPY.";
    SqlError::new(code::INVALID_COLUMN_REFERENCE, message).detail(detail)
}

/// Fails for a condition on rows that are read which names a generated column.
fn refuse_generated(condition: &Expr, table: &Table) -> Result<()> {
    let mut named = None;
    condition.walk(&mut |expr| {
        if let Expr::Column(at) = expr {
            named = named.or(table.generated.iter().map(|one| one.at).find(|known| known == at));
        }
    });
    let Some(at) = named else { return Ok(()) };
    let message = "generated columns are not supported in COPY FROM WHERE conditions";
    let detail = format!("Column \"{}\" is a generated column.", table.info.columns[at].name);
    Err(SqlError::new(code::INVALID_COLUMN_REFERENCE, message).detail(detail))
}

fn places(table: &Table, columns: &[String]) -> Result<Placed> {
    let is_plain = |at: &usize| table.column_notes[*at].generated.is_none();
    let all = (0..table.shown().len()).filter(is_plain);
    let all = all.map(|at| table.info.columns[at].name.clone());
    let names: Vec<String> = if columns.is_empty() { all.collect() } else { columns.to_vec() };
    let mut places = vec![None; table.types.len()];
    let mut named = Vec::with_capacity(names.len());
    for (at, name) in names.into_iter().enumerate() {
        let found = table.info.columns.iter().position(|column| column.name == name);
        let Some(column) = found else {
            let message =
                format!("column \"{name}\" of relation \"{}\" does not exist", table.bare_name());
            return Err(SqlError::new(code::UNDEFINED_COLUMN, message));
        };
        if !is_plain(&column) {
            return Err(is_generated(&name));
        }
        if places[column].replace(at).is_some() {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(code::DUPLICATE_COLUMN, message));
        }
        let modifier = table.column_notes[column].modifier;
        named.push((name, Declared::modified(table.types[column], modifier)));
    }
    Ok((named, places))
}
