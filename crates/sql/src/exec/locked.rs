//! SELECT FOR UPDATE and its kind over several sources.
//!
//! The rows are found by one snapshot and locked one after the other, in their order, until there
//! are enough. Where another transaction has changed a row since, the new values stand in its place
//! and all conditions are asked again; the rows beside it stay as they were found.
//!
//! Invariants: a row that is given is locked in every table that is to be. Does not do: a query
//! over one table (`write`).

use rightlink::{Budget, RowId, Transaction, Value, Written};

use crate::error::{Result, SqlError};
use crate::exec::batch::ROWS;
use crate::exec::failure::carry;
use crate::exec::memory::Memory;
use crate::exec::query::{self, Limits};
use crate::exec::write::apart;
use crate::exec::{RowsOf, Stream, source};
use crate::expr::{Context, Pace};
use crate::plan::{LockedQuery, LockedRows};
use crate::types::{Datum, Row};

/// The rows of the query, locked.
pub(crate) fn select(
    query: &LockedQuery,
    txn: &mut Transaction,
    context: &Context,
    budget: &Budget,
) -> Result<Vec<Row>> {
    let mut limits = Limits::of(&query.limit, &query.offset, context)?;
    source::prepare(&query.source.tables, &query.reads.views, txn, context)?;
    let reading = apart(context);
    source::prepare(&[], &query.source.views, txn, &reading)?;
    let mut found = RowsOf::new(query.source.root.open(None, &reading)?);
    let (mut rows, mut memory) = (Vec::new(), Memory::new(budget));
    let (mut pace, locker) = (Pace::default(), Locker { query, context });
    loop {
        let left = limits.take.map(|take| take.saturating_sub(rows.len() as u64));
        if left == Some(0) {
            return Ok(rows);
        }
        let Some(row) = found.next(ROWS, &reading)? else { return Ok(rows) };
        pace.step(context)?;
        let Some(row) = locker.lock(row, txn)? else { continue };
        // One of those that OFFSET skips is locked, too.
        if limits.skip > 0 {
            limits.skip -= 1;
            continue;
        }
        let output = query::project(&query.output, &row, context)?;
        memory.charge_row(&output)?;
        rows.push(output);
    }
}

/// Rows that are being locked.
struct Locker<'l> {
    query: &'l LockedQuery,
    context: &'l Context,
}

impl Locker<'_> {
    /// Locks a row in all tables; as it is now, if it is still wanted.
    fn lock(&self, mut row: Row, txn: &mut Transaction) -> Result<Option<Row>> {
        for table in &self.query.tables {
            let Some(now) = self.lock_in(table, &row, txn)? else { return Ok(None) };
            row = now;
        }
        Ok(Some(row))
    }

    fn lock_in(&self, table: &LockedRows, row: &Row, txn: &mut Transaction) -> Result<Option<Row>> {
        let Datum::Tid(id) = row[table.tid] else {
            unreachable!("a table that is locked has a row")
        };
        let mut now = row.clone();
        let mut failed = None;
        let result = txn.write::<_, SqlError>(&table.table.info.name, |writer| {
            writer.read_no_more();
            let mut judge = |at: RowId, values: &[Value]| {
                if at == id {
                    return Ok(true);
                }
                now[table.tid] = Datum::Tid(at);
                let values = Datum::stored_row(values, &table.table.types);
                let wanted = values.collect::<Result<Row>>().and_then(|values| {
                    now.splice(table.tid + 1..=table.tid + values.len(), values);
                    self.wants(&now)
                });
                carry(&mut failed, wanted)
            };
            Ok(writer.lock_row(id, &mut judge, table.lock, table.busy))
        });
        if let Some(error) = failed {
            return Err(error);
        }
        Ok(match result?? {
            Written::Done(_) => Some(now),
            Written::Skipped | Written::Gone => None,
        })
    }

    /// Does a row meet all conditions?
    fn wants(&self, row: &Row) -> Result<bool> {
        for condition in &self.query.conditions {
            if !condition.holds(row, self.context)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
