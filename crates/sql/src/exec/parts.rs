//! Statements whose WITH writes: all parts read by one snapshot, each runs once and to its end.
//!
//! As in PostgreSQL, parts that the statement behind WITH reads run before it, and the others after
//! it, each in the order in which they stand; queries of WITH run when they are read, or, if they
//! lock rows, in that order too. A part sees of another the rows that it returns, and nothing else.
//! A row that several parts want to change is changed by the first.
//!
//! Invariants: rows are found by the snapshot that all parts share, however late they are written;
//! foreign keys are looked at when all parts have run.
//! Does not do: running one part (`write`).

use std::cell::Cell;

use rightlink::{Budget, Transaction};
use rightlink_env::sync::{Arc, Mutex};

use crate::error::Result;
use crate::exec::execution::{Execution, Together};
use crate::exec::memory::Memory;
use crate::exec::with::CommonTable;
use crate::exec::write::{self, Changed};
use crate::exec::{Ready, Stream, insert, locked, references, source};
use crate::expr::Context;
use crate::plan::{Plan, WithPart, WithPlan};
use crate::types::Row;

/// The statement behind WITH, which has run or gives its rows.
pub(crate) struct Main {
    pub(crate) stream: Box<dyn Stream>,
    pub(crate) done: Option<Changed>,
}

/// Runs the parts of a statement. `context` is that of the statement behind WITH.
pub(crate) fn run(
    with: &WithPlan,
    txn: &mut Transaction,
    context: &mut Context,
    budget: &Budget,
) -> Result<Main> {
    let names: Vec<&str> = with.tables.iter().map(|table| table.info.name.as_str()).collect();
    let together = Arc::new(Together::new(txn.reader(&names)?, budget));
    context.exec_state = Box::new(Execution::of_part(&together));
    let (before, behind) = with.parts.split_at(with.before);
    run_parts(before, txn, context, budget)?;
    let main = match &with.main {
        Plan::Query(query) => {
            let stream = source::open_query(query, txn, context)?;
            Main { stream, done: None }
        }
        plan => {
            let mut done = change(plan, txn, context, budget)?;
            let rows = std::mem::take(&mut done.rows);
            Main { stream: Box::new(Ready::new(rows)), done: Some(done) }
        }
    };
    run_parts(behind, txn, context, budget)?;
    for part in together.take_pending() {
        let of = (&*part.table, &part.rules);
        references::settle(part.pending, of, txn, (context, budget))?;
    }
    Ok(main)
}

/// Runs parts, or makes them ready to be read; `context` is that of the statement behind WITH.
fn run_parts(
    parts: &[WithPart],
    txn: &mut Transaction,
    context: &Context,
    budget: &Budget,
) -> Result<()> {
    for part in parts {
        let random = Cell::new(context.random.get().rotate_left(7) ^ part.number as u64);
        let own = Context {
            exec_state: Box::new(Execution::of(context).apart()),
            random,
            ..context.clone()
        };
        let common = match &part.plan {
            Plan::Query(query) if query.locks.is_none() => {
                source::prepare(&[], &query.views, txn, &own)?;
                CommonTable::of_query(part.number, &query.root, own)
            }
            Plan::Query(query) => kept(write::select_locked(query, txn, &own, budget)?, budget)?,
            Plan::Locked(query) => kept(locked::select(query, txn, &own, budget)?, budget)?,
            plan => {
                let Changed { rows, memory, .. } = change(plan, txn, &own, budget)?;
                CommonTable::of_rows(rows, memory.unwrap_or_else(|| Memory::new(budget)))
            }
        };
        Execution::of(context)
            .commons
            .borrow_mut()
            .insert(part.number, Arc::new(Mutex::new(common)));
    }
    Ok(())
}

/// Rows that are there, for the parts that read them.
fn kept(rows: Vec<Row>, budget: &Budget) -> Result<CommonTable> {
    let mut memory = Memory::new(budget);
    rows.iter().try_for_each(|row| memory.charge_row(row))?;
    Ok(CommonTable::of_rows(rows, memory))
}

/// Runs a part that writes.
fn change(
    plan: &Plan,
    txn: &mut Transaction,
    context: &Context,
    budget: &Budget,
) -> Result<Changed> {
    match plan {
        Plan::Insert(insert) => insert::insert(insert, txn, context, budget),
        Plan::Change(change) => write::change((change, None), txn, context, budget),
        Plan::Query(_) | Plan::With(_) | Plan::Locked(_) => unreachable!("a part that writes"),
    }
}
