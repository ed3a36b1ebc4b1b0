//! INSERT: rows of a query, in batches, as the table takes them.
//!
//! Invariants: it is one statement of the engine, so that it happens as a whole or not at all.
//! Does not do: rows that meet others (`upsert`), notes of rows that were written (`write`).

use rightlink::{Budget, Transaction, Value};

use crate::error::{Result, SqlError};
use crate::exec::batch::ROWS;
use crate::exec::references::{self, Pending};
use crate::exec::write::{Changed, Inserting, Returned, apart};
use crate::exec::{Execution, RowsOf, Stream, rows, source, upsert};
use crate::expr::{Context, Pace};
use crate::plan::{Insert, Rules};

/// Runs an INSERT.
pub(crate) fn insert(
    insert: &Insert,
    txn: &mut Transaction,
    context: &Context,
    budget: &Budget,
) -> Result<Changed> {
    let mut tables = insert.source.tables.clone();
    tables.extend(insert.reads.tables.iter().cloned());
    source::prepare(&tables, &insert.reads.views, txn, context)?;
    let reading = insert.reads.has_queries.then(|| apart(context));
    let reading = reading.as_ref().unwrap_or(context);
    if insert.reads.has_queries && !tables.is_empty() {
        Execution::of(reading).read_by(Execution::of(context).reader()?);
    }
    source::prepare(&[], &insert.source.views, txn, reading)?;
    let mut source = RowsOf::new(insert.source.root.open(None, reading)?);
    let (table, rules) = (&*insert.table, &insert.rules);
    let mut pending = Pending::new(rules, budget);
    let changed = txn.write(&table.info.name, |writer| {
        let mut returned = Returned::new(insert.returning.as_ref(), budget);
        let (mut count, mut pace) = (0, Pace::default());
        let mut batch = rows::Batch::new(budget);
        loop {
            while !batch.is_full()
                && let Some(row) = source.next(ROWS, reading)?
            {
                pace.step(context)?;
                batch.push(rows::complete((table, rules), &insert.given, row, context)?);
            }
            if batch.rows().is_empty() {
                return Ok::<_, SqlError>(returned.done(count));
            }
            let mut to = Inserting { writer, pending: &mut pending, returned: &mut returned };
            count += match &insert.conflict {
                None => plain(&mut to, rules, batch.take(), context)?,
                Some(conflict) => upsert::run(&mut to, insert, conflict, batch.take(), context)?,
            };
            batch.clear();
        }
    })?;
    if let Some(pending) = Execution::of(context).postpone(pending, &insert.table, rules) {
        references::settle(pending, (table, rules), txn, (context, budget))?;
    }
    Ok(changed)
}

fn plain(
    to: &mut Inserting<'_, '_, '_>,
    rules: &Rules,
    batch: Vec<Vec<Value>>,
    context: &Context,
) -> Result<u64> {
    let ids = to.writer.insert_many(&batch)?;
    let count = batch.len() as u64;
    for (values, id) in batch.into_iter().zip(ids) {
        to.took(rules, (None, values), id, context)?;
    }
    Ok(count)
}
