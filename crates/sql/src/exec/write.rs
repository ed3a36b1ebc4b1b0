//! INSERT, UPDATE, DELETE, and rows locked by SELECT FOR UPDATE.
//!
//! Invariants: each is one statement of the engine: it happens as a whole or not at all, and does
//! not meet its own rows. A row that another transaction changed first is judged again as it is
//! now, before it is changed. Does not do: constraints that the engine does not have.

use std::sync::Arc;

use rightlink::{Budget, RowId, Transaction, Value, Writer, Written};

use crate::error::{Result, SqlError, code};
use crate::exec::memory::Memory;
use crate::exec::query::{self, Limits};
use crate::exec::source::{convert, scan_options};
use crate::expr::Context;
use crate::plan::path::Path;
use crate::plan::{Change, Insert, Returning, Select, Source, Table};
use crate::types::{Datum, Row};

/// Rows that an INSERT hands to the engine at a time.
const BATCH: usize = 1_000;

/// What a statement that writes has done.
#[derive(Default)]
pub(crate) struct Changed {
    pub(crate) count: u64,
    pub(crate) rows: Vec<Row>,
    /// Held as long as the rows are.
    #[expect(dead_code, reason = "counts the rows until they are handed out")]
    pub(crate) memory: Option<Memory>,
}

/// Rows of RETURNING in the making.
struct Returned<'a> {
    returning: Option<&'a Returning>,
    rows: Vec<Row>,
    memory: Memory,
}

impl<'a> Returned<'a> {
    fn new(returning: Option<&'a Returning>, budget: &Budget) -> Self {
        Self { returning, rows: Vec::new(), memory: Memory::new(budget) }
    }

    fn add(&mut self, mut row: Row, id: RowId, context: &Context) -> Result<()> {
        let Some(returning) = self.returning else { return Ok(()) };
        row.push(Datum::Tid(id));
        let output = query::project(&returning.output, &row, context)?;
        self.memory.charge_row(&output)?;
        self.rows.push(output);
        Ok(())
    }

    fn done(self, count: u64) -> Changed {
        Changed { count, rows: self.rows, memory: Some(self.memory) }
    }
}

/// Runs an INSERT.
pub(crate) fn insert(
    insert: &Insert,
    txn: &mut Transaction,
    context: &Context,
    budget: &Budget,
) -> Result<Changed> {
    let mut source = query::open(&Arc::new(insert.source.clone()), txn, context, budget)?;
    let table = &insert.table;
    txn.write(&table.info.name, |writer| {
        let mut returned = Returned::new(insert.returning.as_ref(), budget);
        let mut count = 0;
        loop {
            let mut batch = Vec::new();
            while batch.len() < BATCH {
                let Some(row) = source.next(context)? else { break };
                batch.push(stored(insert, row)?);
            }
            if batch.is_empty() {
                return Ok(returned.done(count));
            }
            count += batch.len() as u64;
            let ids = writer.insert_many(&batch)?;
            if returned.returning.is_some() {
                for (values, id) in batch.into_iter().zip(ids) {
                    returned.add(values.into_iter().map(Datum::from).collect(), id, context)?;
                }
            }
        }
    })
}

/// A row of the source as a row of the table.
fn stored(insert: &Insert, mut row: Row) -> Result<Vec<Value>> {
    let mut values = Vec::with_capacity(insert.places.len());
    for place in &insert.places {
        let datum = place.map_or(Datum::Null, |at| std::mem::take(&mut row[at]));
        values.push(to_value(datum)?);
    }
    check_nulls(&insert.table, &values)?;
    Ok(values)
}

/// A value of a column's type, to which the binder has cast.
pub(crate) fn to_value(datum: Datum) -> Result<Value> {
    let overflow = || SqlError::new(code::NUMERIC_OUT_OF_RANGE, "value overflows numeric format");
    datum.into_value().ok_or_else(overflow)
}

/// No null where the table wants none.
pub(crate) fn check_nulls(table: &Table, values: &[Value]) -> Result<()> {
    let broken = table.info.columns.iter().zip(values).find(|(c, v)| !c.nullable && v.is_null());
    let Some((column, _)) = broken else { return Ok(()) };
    let shown: Vec<String> = values
        .iter()
        .map(|value| Datum::from(value.clone()).to_text().unwrap_or_else(|| "null".to_owned()))
        .collect();
    let message = format!(
        "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
        column.name, table.info.name
    );
    Err(SqlError::new(code::NOT_NULL_VIOLATION, message)
        .detail(format!("Failing row contains ({}).", shown.join(", "))))
}

/// Runs an UPDATE or DELETE.
pub(crate) fn change(
    change: &Change,
    txn: &mut Transaction,
    context: &Context,
    budget: &Budget,
) -> Result<Changed> {
    let scan = &change.scan;
    let mut returned = Returned::new(change.returning.as_ref(), budget);
    if let Path::Tid(place) = &scan.path {
        let Datum::Tid(id) = place.eval(&[], context)? else { return Ok(returned.done(0)) };
        return txn.write(&scan.table.info.name, |writer| {
            // No row lies at slot 0.
            let done = if id.slot == 0 { None } else { one(change, writer, id, context)? };
            let count = u64::from(done.is_some());
            if let Some((id, row)) = done {
                returned.add(row, id, context)?;
            }
            Ok(returned.done(count))
        });
    }
    let Some(mut options) = scan_options(scan, context)? else { return Ok(returned.done(0)) };
    options.any_order = options.index.is_some();
    txn.write(&scan.table.info.name, |writer| {
        let mut count = 0;
        for row in writer.scan(&options)? {
            let row = row?;
            let id = row.id;
            if let Some(filter) = &scan.filter
                && !filter.holds(&convert(row, scan.with_tid)?, context)?
            {
                continue;
            }
            if let Some((id, row)) = one(change, writer, id, context)? {
                count += 1;
                returned.add(row, id, context)?;
            }
        }
        Ok(returned.done(count))
    })
}

fn one(
    change: &Change,
    writer: &mut Writer<'_>,
    id: RowId,
    context: &Context,
) -> Result<Option<(RowId, Row)>> {
    match &change.assignments {
        Some(_) => update_row(change, writer, id, context),
        None => delete_row(change, writer, id, context),
    }
}

/// The old row with its `ctid`, if the condition still holds for it.
fn wanted(change: &Change, old: &[Value], id: RowId, context: &Context) -> Result<Option<Row>> {
    let mut row: Row = Vec::with_capacity(old.len() + 1);
    row.extend(old.iter().cloned().map(Datum::from));
    row.push(Datum::Tid(id));
    match &change.condition {
        Some(condition) if !condition.holds(&row, context)? => Ok(None),
        _ => Ok(Some(row)),
    }
}

/// Keeps an error of ours while the engine carries a sign of it out.
fn carry<T>(slot: &mut Option<SqlError>, result: Result<T>) -> rightlink::Result<T> {
    result.map_err(|error| {
        *slot = Some(error);
        rightlink::Error::Invalid("an expression failed".to_owned())
    })
}

fn unless<T>(failed: Option<SqlError>, result: rightlink::Result<T>) -> Result<T> {
    match failed {
        Some(error) => Err(error),
        None => Ok(result?),
    }
}

fn update_row(
    change: &Change,
    writer: &mut Writer<'_>,
    id: RowId,
    context: &Context,
) -> Result<Option<(RowId, Row)>> {
    let assignments = change.assignments.as_ref().expect("an update assigns");
    let mut failed = None;
    let mut written: Vec<Value> = Vec::new();
    let result = writer.update(id, &mut |old| {
        let new = || -> Result<Option<Vec<Value>>> {
            let Some(row) = wanted(change, old, id, context)? else { return Ok(None) };
            let mut new = old.to_vec();
            for (at, value) in assignments {
                new[*at] = to_value(value.eval(&row, context)?)?;
            }
            check_nulls(&change.scan.table, &new)?;
            Ok(Some(new))
        };
        let new = carry(&mut failed, new())?;
        if let Some(new) = &new
            && change.returning.is_some()
        {
            written.clone_from(new);
        }
        Ok(new)
    });
    Ok(match unless(failed, result)? {
        Written::Done(id) => Some((id, written.into_iter().map(Datum::from).collect())),
        Written::Skipped | Written::Gone => None,
    })
}

fn delete_row(
    change: &Change,
    writer: &mut Writer<'_>,
    id: RowId,
    context: &Context,
) -> Result<Option<(RowId, Row)>> {
    let mut failed = None;
    let mut last: Row = Vec::new();
    let result =
        writer.delete(id, &mut |old| match carry(&mut failed, wanted(change, old, id, context))? {
            Some(mut row) => {
                row.pop();
                last = row;
                Ok(true)
            }
            None => Ok(false),
        });
    Ok(match unless(failed, result)? {
        Written::Done(_) => Some((id, last)),
        Written::Skipped | Written::Gone => None,
    })
}

/// Runs a SELECT FOR UPDATE: rows are found and ordered, then locked one after the other until
/// there are enough.
pub(crate) fn select_locked(
    select: &Select,
    txn: &mut Transaction,
    context: &Context,
    budget: &Budget,
) -> Result<Vec<Row>> {
    let Source::Table(scan) = &select.source else {
        unreachable!("the binder allows locks on tables only")
    };
    let limits = Limits::of(select, context)?;
    let Some(options) = scan_options(scan, context)? else { return Ok(Vec::new()) };
    let mut memory = Memory::new(budget);
    txn.write(&scan.table.info.name, |writer| {
        let mut found: Vec<(RowId, Row)> = Vec::new();
        for row in writer.scan(&options)? {
            let row = row?;
            let id = row.id;
            let row = convert(row, scan.with_tid)?;
            match &scan.filter {
                Some(filter) if !filter.holds(&row, context)? => {}
                _ => {
                    let output = query::project(&select.output, &row, context)?;
                    memory.charge_row(&output)?;
                    found.push((id, output));
                }
            }
            let enough = limits.most().is_some_and(|most| found.len() as u64 >= most);
            if enough && select.sort.is_empty() && scan.filter.is_none() {
                break;
            }
        }
        found.sort_by(|a, b| query::compare(&a.1, &b.1, &select.sort));
        let mut rows = Vec::new();
        let mut skip = limits.skip;
        for (id, _) in found {
            if limits.take.is_some_and(|take| rows.len() as u64 >= take) {
                break;
            }
            if let Some(mut row) = lock_row(select, writer, id, context)? {
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                row.truncate(select.columns.len());
                rows.push(row);
            }
        }
        Ok(rows)
    })
}

/// Locks a row; its output as it is now, if it is still wanted.
fn lock_row(
    select: &Select,
    writer: &mut Writer<'_>,
    id: RowId,
    context: &Context,
) -> Result<Option<Row>> {
    let Source::Table(scan) = &select.source else { return Ok(None) };
    let mut failed = None;
    let mut output = None;
    let result = writer.lock(id, &mut |values| {
        let mut judge = || -> Result<bool> {
            let columns = scan.columns.iter().map(|at| Datum::from(values[*at].clone()));
            let mut row: Row = columns.collect();
            if scan.with_tid {
                row.push(Datum::Tid(id));
            }
            let of_path = match &scan.path {
                Path::Index(path) => path.conditions.as_slice(),
                Path::Sequential | Path::Tid(_) => &[],
            };
            for condition in of_path.iter().chain(&scan.filter) {
                if !condition.holds(&row, context)? {
                    return Ok(false);
                }
            }
            output = Some(query::project(&select.output, &row, context)?);
            Ok(true)
        };
        carry(&mut failed, judge())
    });
    Ok(match unless(failed, result)? {
        Written::Done(_) => output,
        Written::Skipped | Written::Gone => None,
    })
}
