//! INSERT, UPDATE, DELETE, and rows locked by SELECT FOR UPDATE.
//!
//! Invariants: each is one statement of the engine: it happens as a whole or not at all, and does
//! not meet its own rows. A row that another transaction changed first is judged again as it is
//! now, before it is changed. Does not do: ON CONFLICT (`upsert`), foreign keys (`references`).

use rightlink::{Budget, Busy, RowId, RowLock, Transaction, Value, Writer, Written};

use crate::error::{Result, SqlError};
use crate::exec::memory::Memory;
use crate::exec::query::{self, Limits};
use crate::exec::references::{self, Pending};
use crate::exec::source::{convert, place_options, scan_options, takes_all};
use crate::exec::{Pace, rows, upsert};
use crate::expr::probe::Stage;
use crate::expr::{Context, Expr};
use crate::plan::path::{IndexPath, Path};
use crate::plan::{Change, Insert, Returning, Rules, Select, Source};
use crate::types::{Datum, Row};

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
pub(super) struct Returned<'a> {
    returning: Option<&'a Returning>,
    rows: Vec<Row>,
    memory: Memory,
}

impl<'a> Returned<'a> {
    fn new(returning: Option<&'a Returning>, budget: &Budget) -> Self {
        Self { returning, rows: Vec::new(), memory: Memory::new(budget) }
    }

    pub(super) fn add(&mut self, mut row: Row, id: RowId, context: &Context) -> Result<()> {
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
    let mut source = query::open(&insert.source, txn, context, budget)?;
    let (table, rules) = (&*insert.table, &insert.rules);
    let mut pending = Pending::new(rules, budget);
    let changed = txn.write(&table.info.name, |writer| {
        let mut returned = Returned::new(insert.returning.as_ref(), budget);
        let (mut count, mut pace) = (0, Pace::default());
        let mut batch = rows::Batch::new(budget);
        loop {
            while !batch.is_full()
                && let Some(row) = source.next(context)?
            {
                pace.step(context)?;
                batch.push(rows::complete((table, rules), &insert.given, row, context)?);
            }
            if batch.rows().is_empty() {
                return Ok::<_, SqlError>(returned.done(count));
            }
            let mut to = Inserting { writer, pending: &mut pending, returned: &mut returned };
            count += match &insert.conflict {
                None => to.plain(rules, batch.take(), context)?,
                Some(conflict) => upsert::run(&mut to, insert, conflict, batch.take(), context)?,
            };
            batch.clear();
        }
    })?;
    references::settle(pending, (table, rules), txn, (context, budget))?;
    Ok(changed)
}

/// Where an INSERT puts rows and what it notes of them.
pub(super) struct Inserting<'i, 't, 'r> {
    pub(super) writer: &'i mut Writer<'t>,
    pub(super) pending: &'i mut Pending,
    pub(super) returned: &'i mut Returned<'r>,
}

impl Inserting<'_, '_, '_> {
    fn plain(&mut self, rules: &Rules, batch: Vec<Vec<Value>>, context: &Context) -> Result<u64> {
        let ids = self.writer.insert_many(&batch)?;
        let count = batch.len() as u64;
        for (values, id) in batch.into_iter().zip(ids) {
            self.took(rules, (None, values), id, context)?;
        }
        Ok(count)
    }

    /// Notes a row that was written, in the place of another if there was one.
    pub(super) fn took(
        &mut self,
        rules: &Rules,
        (old, new): (Option<&[Value]>, Vec<Value>),
        id: RowId,
        context: &Context,
    ) -> Result<()> {
        self.pending.came(rules, old, &new)?;
        if let Some(old) = old {
            self.pending.went(rules, old, Some(&new))?;
        }
        if self.returned.returning.is_some() {
            self.returned.add(new.into_iter().map(Datum::from).collect(), id, context)?;
        }
        Ok(())
    }
}

/// Runs an UPDATE or DELETE, of the row at `place` if there is one.
pub(crate) fn change(
    (change, place): (&Change, Option<RowId>),
    txn: &mut Transaction,
    context: &Context,
    budget: &Budget,
) -> Result<Changed> {
    let table = &*change.scan.table;
    let run = |txn: &mut Transaction| {
        let mut pending = Pending::new(&change.rules, budget);
        let changed = match (place, one_key(change, context)) {
            (Some(id), _) => {
                let at = |_: &mut Writer<'_>| Ok(Some(id));
                rewrite_one((change, &at), txn, (context, budget), &mut pending)?
            }
            (None, Some(path)) => {
                let find = |writer: &mut Writer<'_>| find(path, writer, context);
                rewrite_one((change, &find), txn, (context, budget), &mut pending)?
            }
            (None, None) => rewrite(change, txn, (context, budget), &mut pending)?,
        };
        references::settle(pending, (table, &change.rules), txn, (context, budget))?;
        Ok(changed)
    };
    // What a DELETE does to rows that refer to its own is part of it.
    if change.assignments.is_none() { txn.freeing(run) } else { run(txn) }
}

/// The key that the row has which is changed, if it is one row by that alone. Whoever wants to know
/// what reading does has it read as many rows are.
fn one_key<'c>(change: &'c Change, context: &Context) -> Option<&'c IndexPath> {
    let alone = change.scan.filter.is_none() && context.probe.is_none();
    change.scan.one_key().filter(|_| alone)
}

fn find(path: &IndexPath, writer: &mut Writer<'_>, context: &Context) -> Result<Option<RowId>> {
    let Some(key) = path.key(context)? else { return Ok(None) };
    let found = writer.find(&path.index.name, &key)?;
    // Whoever waits for the row keeps no version of it from leaving.
    writer.read_no_more();
    Ok(found)
}

fn rewrite(
    change: &Change,
    txn: &mut Transaction,
    (context, budget): (&Context, &Budget),
    pending: &mut Pending,
) -> Result<Changed> {
    let scan = &change.scan;
    check_given(change, context)?;
    let mut returned = Returned::new(change.returning.as_ref(), budget);
    let options = match &scan.filter {
        Some(_) => scan_options(scan, context)?,
        None => place_options(scan, context)?,
    };
    let Some(mut options) = options else { return Ok(returned.done(0)) };
    options.any_order = options.index.is_some();
    txn.write(&scan.table.info.name, |writer| {
        let (mut count, mut found, mut removed) = (0, 0, 0);
        let (mut rows, mut pace) = (writer.scan(&options)?, Pace::default());
        let mut next = rows.next().transpose()?;
        let (mut rows, mut reads) = (Some(rows), None);
        while let Some(row) = next.take() {
            pace.step(context)?;
            match &mut rows {
                Some(rows) => next = rows.next().transpose()?,
                None => unreachable!("a row comes from rows that are read"),
            }
            if next.is_none() {
                // Whoever waits for the last row keeps no version of it from leaving.
                reads = rows.take().map(|rows| rows.stats());
                writer.read_no_more();
            }
            let id = row.id;
            if let Some(filter) = &scan.filter
                && !filter.holds(&convert(row, scan.with_tid)?, context)?
            {
                removed += 1;
                continue;
            }
            found += 1;
            if let Some((id, row)) = one(change, writer, id, (context, pending))? {
                count += 1;
                returned.add(row, id, context)?;
            }
        }
        if let Some(probe) = &context.probe {
            probe.note((0, Stage::Source), |figures| {
                (figures.rows, figures.removed) = (found, removed);
                figures.reads = reads.or_else(|| rows.map(|rows| rows.stats()));
            });
        }
        Ok(returned.done(count))
    })
}

/// Tells where the one row is that is to be changed, if there is one.
type Find<'f> = &'f dyn Fn(&mut Writer<'_>) -> Result<Option<RowId>>;

/// The same for the one row that `find` gives, as it is now.
fn rewrite_one(
    (change, find): (&Change, Find<'_>),
    txn: &mut Transaction,
    (context, budget): (&Context, &Budget),
    pending: &mut Pending,
) -> Result<Changed> {
    check_given(change, context)?;
    txn.write(&change.scan.table.info.name, |writer| {
        let mut returned = Returned::new(change.returning.as_ref(), budget);
        let changed = match find(writer)? {
            Some(id) => one(change, writer, id, (context, pending))?,
            None => None,
        };
        let count = u64::from(changed.is_some());
        if let Some((id, row)) = changed {
            returned.add(row, id, context)?;
        }
        if let Some(probe) = &context.probe {
            probe.note((0, Stage::Source), |figures| figures.rows = count);
        }
        Ok(returned.done(count))
    })
}

/// A parameter that its column cannot hold fails also where there is no row, as a constant does.
fn check_given(change: &Change, context: &Context) -> Result<()> {
    fn is_given(expr: &Expr) -> bool {
        match expr {
            Expr::Param(_) => true,
            Expr::Cast(inner, _) => is_given(inner),
            _ => false,
        }
    }
    for (_, value) in change.assignments.iter().flatten() {
        if matches!(value, Expr::Fit(inner, ..) if is_given(inner)) {
            value.eval(&[], context)?;
        }
    }
    Ok(())
}

fn one(
    change: &Change,
    writer: &mut Writer<'_>,
    id: RowId,
    (context, pending): (&Context, &mut Pending),
) -> Result<Option<(RowId, Row)>> {
    match &change.assignments {
        Some(_) => update_row(change, writer, id, (context, pending)),
        None => delete_row(change, writer, id, (context, pending)),
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
pub(super) fn carry<T>(slot: &mut Option<SqlError>, result: Result<T>) -> rightlink::Result<T> {
    result.map_err(|error| {
        *slot = Some(error);
        rightlink::Error::Invalid("an expression failed".to_owned())
    })
}

pub(super) fn unless<T>(failed: Option<SqlError>, result: rightlink::Result<T>) -> Result<T> {
    match failed {
        Some(error) => Err(error),
        None => Ok(result?),
    }
}

fn update_row(
    change: &Change,
    writer: &mut Writer<'_>,
    id: RowId,
    (context, pending): (&Context, &mut Pending),
) -> Result<Option<(RowId, Row)>> {
    let assignments = change.assignments.as_ref().expect("an update assigns");
    let rules = &change.rules;
    let keeps_old = rules.is_parent || !rules.keys.is_empty();
    let keeps_new = keeps_old || change.returning.is_some();
    let mut failed = None;
    let (mut before, mut written): (Vec<Value>, Vec<Value>) = (Vec::new(), Vec::new());
    let result = writer.update(id, &mut |at, old| {
        let new = || -> Result<Option<Vec<Value>>> {
            let Some(mut row) = wanted(change, old, at, context)? else { return Ok(None) };
            let exprs = assignments.iter().map(|(_, value)| value);
            let assigned = query::values(exprs, &row, context)?;
            row.pop();
            for ((at, _), value) in assignments.iter().zip(assigned) {
                row[*at] = value;
            }
            rows::checked((&change.scan.table, rules), row, context).map(Some)
        };
        let new = carry(&mut failed, new())?;
        if let Some(new) = new.as_ref().filter(|_| keeps_new) {
            written.clone_from(new);
        }
        if keeps_old {
            before = old.to_vec();
        }
        Ok(new)
    });
    let Written::Done(id) = unless(failed, result)? else { return Ok(None) };
    if keeps_old {
        pending.came(rules, Some(&before), &written)?;
        pending.went(rules, &before, Some(&written))?;
    }
    Ok(Some((id, written.into_iter().map(Datum::from).collect())))
}

fn delete_row(
    change: &Change,
    writer: &mut Writer<'_>,
    id: RowId,
    (context, pending): (&Context, &mut Pending),
) -> Result<Option<(RowId, Row)>> {
    let mut failed = None;
    let mut last = (id, Vec::new());
    let mut before = Vec::new();
    let result = writer.delete(id, &mut |at, old| {
        let Some(mut row) = carry(&mut failed, wanted(change, old, at, context))? else {
            return Ok(false);
        };
        row.pop();
        last = (at, row);
        if change.rules.is_parent {
            before = old.to_vec();
        }
        Ok(true)
    });
    let Written::Done(_) = unless(failed, result)? else { return Ok(None) };
    pending.went(&change.rules, &before, None)?;
    Ok(Some(last))
}

/// Runs a SELECT FOR UPDATE or FOR SHARE: rows are locked one after the other, as they are found or
/// after all are found and ordered, until there are enough.
pub(crate) fn select_locked(
    select: &Select,
    txn: &mut Transaction,
    context: &Context,
    budget: &Budget,
) -> Result<Vec<Row>> {
    let Source::Table(scan) = &select.source else {
        unreachable!("the binder allows locks on tables only")
    };
    let how = select.locks.unwrap_or((RowLock::Exclusive, Busy::Wait));
    let limits = Limits::of(select, context)?;
    let Some(mut options) = scan_options(scan, context)? else { return Ok(Vec::new()) };
    if !takes_all(select) {
        options.expected_rows = None;
    }
    let (mut memory, mut pace) = (Memory::new(budget), Pace::default());
    let mut locked = Locked { select, how, limits, rows: Vec::new() };
    txn.write(&scan.table.info.name, |writer| {
        let mut found: Vec<(RowId, Row)> = Vec::new();
        let mut rows = writer.scan(&options)?;
        while !locked.is_enough()
            && let Some(row) = rows.next().transpose()?
        {
            pace.step(context)?;
            let id = row.id;
            let row = convert(row, scan.with_tid)?;
            if let Some(filter) = &scan.filter
                && !filter.holds(&row, context)?
            {
                continue;
            }
            if select.sort.is_empty() {
                // A row that is found may be skipped or not be wanted any more: only those that
                // are locked count.
                locked.take(writer, id, (context, &mut memory))?;
                continue;
            }
            let output = query::project(&select.output, &row, context)?;
            memory.charge_row(&output)?;
            found.push((id, output));
        }
        let order = |a: &(_, Row), b: &(_, Row)| query::compare(&a.1, &b.1, &select.sort);
        for (id, row) in super::sort::in_order(found, context, order)? {
            if locked.is_enough() {
                break;
            }
            pace.step(context)?;
            memory.give_back_row(&row);
            drop(row);
            locked.take(writer, id, (context, &mut memory))?;
        }
        Ok(locked.rows)
    })
}

/// Rows of a query that are locked.
struct Locked<'s> {
    select: &'s Select,
    how: (RowLock, Busy),
    limits: Limits,
    rows: Vec<Row>,
}

impl Locked<'_> {
    fn is_enough(&self) -> bool {
        self.limits.take.is_some_and(|take| self.rows.len() as u64 >= take)
    }

    /// Locks a row. One of those that OFFSET skips is locked too.
    fn take(
        &mut self,
        writer: &mut Writer<'_>,
        id: RowId,
        (context, memory): (&Context, &mut Memory),
    ) -> Result<()> {
        let locked = lock_row((self.select, self.how), writer, id, context)?;
        let Some(mut row) = locked else { return Ok(()) };
        if self.limits.skip > 0 {
            self.limits.skip -= 1;
            return Ok(());
        }
        row.truncate(self.select.columns.len());
        memory.charge_row(&row)?;
        self.rows.push(row);
        Ok(())
    }
}

/// Locks a row; its output as it is now, if it is still wanted.
fn lock_row(
    (select, (lock, busy)): (&Select, (RowLock, Busy)),
    writer: &mut Writer<'_>,
    id: RowId,
    context: &Context,
) -> Result<Option<Row>> {
    let Source::Table(scan) = &select.source else { return Ok(None) };
    let mut failed = None;
    let mut output = None;
    let mut judge = |at: RowId, values: &[Value]| {
        let mut judge = || -> Result<bool> {
            let columns = scan.columns.iter().map(|at| Datum::from(values[*at].clone()));
            let mut row: Row = columns.collect();
            if scan.with_tid {
                row.push(Datum::Tid(at));
            }
            let of_path = match &scan.path {
                Path::Index(path) => path.conditions.as_slice(),
                Path::Tid(_) if at != id => return Ok(false),
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
    };
    let result = writer.lock_row(id, &mut judge, lock, busy);
    Ok(match unless(failed, result)? {
        Written::Done(_) => output,
        Written::Skipped | Written::Gone => None,
    })
}
