//! INSERT, UPDATE, DELETE, and rows locked by SELECT FOR UPDATE.
//!
//! Invariants: each is one statement of the engine: it happens as a whole or not at all, and does
//! not meet its own rows. A row that another transaction changed first is judged again as it is
//! now, before it is changed. Does not do: ON CONFLICT (`upsert`), foreign keys (`references`).

use std::cell::Cell;

use rightlink::{Budget, Busy, RowId, RowLock, Transaction, Value, Writer, Written};

use crate::error::{Result, SqlError};
use crate::exec::batch::ROWS;
use crate::exec::failure::{carry, unless};
use crate::exec::memory::Memory;
use crate::exec::query::{self, Limits};
use crate::exec::references::{self, Pending};
use crate::exec::source::{self, convert, place_options, scan_options, types_of};
use crate::exec::{Execution, RowsOf, Stream, rows};
use crate::expr::probe::TARGET;
use crate::expr::{Context, Expr, Pace, SortKey};
use crate::plan::index_path::IndexPath;
use crate::plan::node::{Node, Op};
use crate::plan::path::Path;
use crate::plan::{Change, Query, Reads, Returning, Rules, TableScan};
use crate::types::{Datum, Row};

/// What a statement that writes has done.
#[derive(Default)]
pub(crate) struct Changed {
    pub(crate) count: u64,
    pub(crate) rows: Vec<Row>,
    /// Held as long as the rows are.
    pub(crate) memory: Option<Memory>,
}

/// Forgets keys that are unique for certain, of a statement that has noted many.
fn thin_out(pending: &mut Pending, rules: &Rules, writer: &mut Writer<'_>) -> Result<()> {
    pending.thin_out(rules, &mut |key, values| Ok(writer.may_share_key(&key.index, values)?))
}

/// A row of the table that is changed.
#[derive(Clone, Copy)]
pub(super) struct Found<'f> {
    id: RowId,
    /// What FROM or USING gave beside it.
    beside: &'f [Datum],
}

impl Found<'_> {
    /// Beside nothing.
    pub(super) fn alone(id: RowId) -> Found<'static> {
        Found { id, beside: &[] }
    }
}

/// Rows of RETURNING in the making.
pub(super) struct Returned<'a> {
    returning: Option<&'a Returning>,
    rows: Vec<Row>,
    memory: Memory,
}

impl<'a> Returned<'a> {
    pub(super) fn new(returning: Option<&'a Returning>, budget: &Budget) -> Self {
        Self { returning, rows: Vec::new(), memory: Memory::new(budget) }
    }

    pub(super) fn add(&mut self, mut row: Row, at: Found<'_>, context: &Context) -> Result<()> {
        let Some(returning) = self.returning else { return Ok(()) };
        row.push(Datum::Tid(at.id));
        row.extend_from_slice(at.beside);
        let output = query::project(&returning.output, &row, context)?;
        self.memory.charge_row(&output)?;
        self.rows.push(output);
        Ok(())
    }

    pub(super) fn done(self, count: u64) -> Changed {
        Changed { count, rows: self.rows, memory: Some(self.memory) }
    }
}

/// A context for the query that gives the rows of a statement. What the query keeps while it runs
/// is numbered apart from what the expressions over its rows keep, and these run in between.
pub(super) fn apart(context: &Context) -> Context {
    let random = Cell::new(context.random.get().rotate_left(32));
    Context { exec_state: Box::new(Execution::of(context).apart()), random, ..context.clone() }
}

/// Where an INSERT puts rows and what it notes of them.
pub(super) struct Inserting<'i, 't, 'r> {
    pub(super) writer: &'i mut Writer<'t>,
    pub(super) pending: &'i mut Pending,
    pub(super) returned: &'i mut Returned<'r>,
}

impl Inserting<'_, '_, '_> {
    /// Notes a row that was written, in the place of another if there was one.
    pub(super) fn took(
        &mut self,
        rules: &Rules,
        (old, new): (Option<&[Value]>, Vec<Value>),
        id: RowId,
        context: &Context,
    ) -> Result<()> {
        self.pending.came(rules, old, &new)?;
        thin_out(self.pending, rules, self.writer)?;
        if let Some(old) = old {
            self.pending.went(rules, old, Some(&new))?;
        }
        // What views ask of a changed row was asked before it was written.
        let asks_views = old.is_none() && !rules.view_checks.is_empty();
        if self.returned.returning.is_some() || asks_views {
            let row: Row = Datum::stored_row(&new, &rules.types).collect::<Result<_>>()?;
            if asks_views {
                rows::check_views(rules, &row[..rules.shown], context)?;
            }
            self.returned.add(row, Found::alone(id), context)?;
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
            (None, None) => match &change.source {
                Some(source) => rewrite_joined(change, source, txn, context, &mut pending)?,
                None => rewrite(change, txn, (context, budget), &mut pending)?,
            },
        };
        let (own, rules) = (&change.scan.table, &change.rules);
        if let Some(pending) = Execution::of(context).postpone(pending, own, rules) {
            references::settle(pending, (table, rules), txn, (context, budget))?;
        }
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
    writing(&scan.table.info.name, &change.reads, txn, context, |writer| {
        for condition in &change.once {
            if !condition.holds(&[], context)? {
                return Ok(returned.done(0));
            }
        }
        // Bounds of an index may come of queries, which `writing` has made ready.
        let options = match &scan.filter {
            Some(_) => scan_options(scan, context)?,
            None => place_options(scan, context)?,
        };
        let Some(mut options) = options else { return Ok(returned.done(0)) };
        options.any_order = options.index.is_some();
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
                && !filter.holds(&convert(row, types_of(scan), scan.with_tid)?, context)?
            {
                removed += 1;
                continue;
            }
            found += 1;
            let changed = one(change, writer, Found::alone(id), (context, pending))?;
            if let Some((id, row)) = changed {
                count += 1;
                returned.add(row, Found::alone(id), context)?;
            }
        }
        if let Some(probe) = &context.probe {
            probe.note(TARGET, |figures| {
                (figures.rows, figures.removed) = (found, removed);
                figures.reads = reads.or_else(|| rows.map(|rows| rows.stats()));
            });
        }
        Ok(returned.done(count))
    })
}

/// The same for the rows of a query. It reads by the snapshot of the statement, like its scan. A
/// row that comes several times is changed the first time: the engine writes none twice in a
/// statement.
fn rewrite_joined(
    change: &Change,
    source: &Query,
    txn: &mut Transaction,
    context: &Context,
    pending: &mut Pending,
) -> Result<Changed> {
    check_given(change, context)?;
    let reading = apart(context);
    source::prepare(&[], &source.views, txn, &reading)?;
    writing(&change.scan.table.info.name, &change.reads, txn, context, |writer| {
        Execution::of(&reading).read_by(Execution::of(context).reader()?);
        let mut returned = Returned::new(change.returning.as_ref(), &context.budget());
        let mut rows = RowsOf::new(source.root.open(None, &reading)?);
        let (mut count, mut pace) = (0, Pace::default());
        while let Some(row) = rows.next(ROWS, &reading)? {
            pace.step(context)?;
            let [Datum::Tid(id), beside @ ..] = row.as_slice() else {
                unreachable!("a row begins with its place")
            };
            let (id, table) = (*id, change.scan.table.info.id);
            if Execution::of(context).was_changed(table, id) {
                continue;
            }
            let found = Found { id, beside };
            Execution::of(context).note_changed(table, id)?;
            if let Some((id, row)) = one(change, writer, found, (context, pending))? {
                count += 1;
                returned.add(row, Found { id, beside }, context)?;
            }
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
    writing(&change.scan.table.info.name, &change.reads, txn, context, |writer| {
        let mut returned = Returned::new(change.returning.as_ref(), budget);
        let changed = match find(writer)? {
            Some(id) => one(change, writer, Found::alone(id), (context, pending))?,
            None => None,
        };
        let count = u64::from(changed.is_some());
        if let Some((id, row)) = changed {
            returned.add(row, Found::alone(id), context)?;
        }
        if let Some(probe) = &context.probe {
            probe.note(TARGET, |figures| figures.rows = count);
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
    found: Found<'_>,
    (context, pending): (&Context, &mut Pending),
) -> Result<Option<(RowId, Row)>> {
    match &change.assignments {
        Some(_) => update_row(change, writer, found, (context, pending)),
        None => delete_row(change, writer, found, (context, pending)),
    }
}

/// The old row with its `ctid` and what stands beside it, if the condition still holds for both.
/// `now`: where the version lies that is judged.
fn wanted(
    change: &Change,
    old: &[Value],
    now: RowId,
    found: Found<'_>,
    context: &Context,
) -> Result<Option<Row>> {
    let mut row: Row = Vec::with_capacity(old.len() + 1 + found.beside.len());
    for value in Datum::stored_row(old, &change.scan.table.types) {
        row.push(value?);
    }
    row.push(Datum::Tid(now));
    row.extend_from_slice(found.beside);
    // The query has asked the condition of the version that it found.
    let is_asked = change.source.is_some() && now == found.id;
    match &change.condition {
        Some(condition) if !is_asked && !condition.holds(&row, context)? => Ok(None),
        _ => Ok(Some(row)),
    }
}

fn update_row(
    change: &Change,
    writer: &mut Writer<'_>,
    found: Found<'_>,
    (context, pending): (&Context, &mut Pending),
) -> Result<Option<(RowId, Row)>> {
    let assignments = change.assignments.as_ref().expect("an update assigns");
    let rules = &change.rules;
    let keeps_old = rules.watch_rows();
    let keeps_new = keeps_old || change.returning.is_some();
    let mut failed = None;
    let (mut before, mut written): (Vec<Value>, Vec<Value>) = (Vec::new(), Vec::new());
    let result = writer.update(found.id, &mut |at, old| {
        let new = || -> Result<Option<Vec<Value>>> {
            let Some(mut row) = wanted(change, old, at, found, context)? else {
                return Ok(None);
            };
            let exprs = assignments.iter().map(|(_, value)| value);
            let assigned = query::values(exprs, &row, context)?;
            row.truncate(old.len());
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
        thin_out(pending, rules, writer)?;
    }
    let written = Datum::stored_row(&written, &rules.types).collect::<Result<_>>()?;
    Ok(Some((id, written)))
}

fn delete_row(
    change: &Change,
    writer: &mut Writer<'_>,
    found: Found<'_>,
    (context, pending): (&Context, &mut Pending),
) -> Result<Option<(RowId, Row)>> {
    let mut failed = None;
    let mut last = (found.id, Vec::new());
    let mut before = Vec::new();
    let result = writer.delete(found.id, &mut |at, old| {
        let Some(mut row) = carry(&mut failed, wanted(change, old, at, found, context))? else {
            return Ok(false);
        };
        row.truncate(old.len());
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

/// Runs a statement that writes to `table` and reads by the same snapshot what its queries do.
fn writing<T>(
    table: &str,
    reads: &Reads,
    txn: &mut Transaction,
    context: &Context,
    work: impl FnOnce(&mut Writer<'_>) -> Result<T>,
) -> Result<T> {
    source::prepare(&[], &reads.views, txn, context)?;
    if reads.tables.is_empty() || Execution::of(context).is_part() {
        return txn.write(table, work);
    }
    let names: Vec<&str> = reads.tables.iter().map(|table| table.info.name.as_str()).collect();
    txn.write_reading(table, &names, |writer, reader| {
        Execution::of(context).read_by(reader);
        work(writer)
    })
}

/// A query whose rows are locked: rows of one table, left out, ordered, cut and made values of.
struct Lockable {
    scan: TableScan,
    /// Over a row of the scan.
    filters: Vec<Expr>,
    output: Vec<Expr>,
    /// The order, and what it is of, over a row of the scan.
    sort: Option<(Vec<SortKey>, Vec<Expr>)>,
    limits: Limits,
}

impl Lockable {
    fn of(node: &Node, context: &Context) -> Result<Lockable> {
        Ok(match &node.op {
            Op::Scan(scan) => {
                let output = (0..node.width).map(Expr::Column).collect();
                let limits = Limits { skip: 0, take: None };
                let scan = TableScan::clone(scan);
                Lockable { scan, filters: Vec::new(), output, sort: None, limits }
            }
            Op::Filter { input, condition } | Op::Gate { input, condition } => {
                let mut of = Lockable::of(input, context)?;
                of.filters.push(over(condition, &of.output));
                of
            }
            Op::Project { input, output } => {
                let of = Lockable::of(input, context)?;
                let output = output.iter().map(|expr| over(expr, &of.output)).collect();
                Lockable { output, ..of }
            }
            Op::Sort { input, keys, .. } => {
                let of = Lockable::of(input, context)?;
                let sort = Some((keys.clone(), of.output.clone()));
                Lockable { sort, ..of }
            }
            Op::Limit { input, limit, offset, ties: None } => {
                let limits = Limits::of(limit, offset, context)?;
                Lockable { limits, ..Lockable::of(input, context)? }
            }
            Op::LockRows { input } => Lockable::of(input, context)?,
            _ => return Err(SqlError::unsupported("locking rows of such a query")),
        })
    }
}

/// An expression over values as one over what these are made of.
fn over(expr: &Expr, output: &[Expr]) -> Expr {
    let mut expr = expr.clone();
    expr.change(&mut |inner| match inner {
        Expr::Column(at) => {
            *inner = output[*at].clone();
            false
        }
        _ => true,
    });
    expr
}

/// Runs a SELECT FOR UPDATE or FOR SHARE: rows are locked one after the other, as they are found or
/// after all are found and ordered, until there are enough.
pub(crate) fn select_locked(
    query: &Query,
    txn: &mut Transaction,
    context: &Context,
    budget: &Budget,
) -> Result<Vec<Row>> {
    let of = Lockable::of(&query.root, context)?;
    let scan = &of.scan;
    let how = query.locks.unwrap_or((RowLock::Exclusive, Busy::Wait));
    let (mut memory, mut pace) = (Memory::new(budget), Pace::default());
    // The rows that are locked are read by what locks them.
    let tables = if query.has_queries { query.tables.clone() } else { Vec::new() };
    let reads = Reads { tables, views: query.views.clone(), has_queries: query.has_queries };
    let mut locked = Locked { of: &of, how, limits: of.limits, rows: Vec::new() };
    writing(&scan.table.info.name, &reads, txn, context, |writer| {
        let Some(options) = scan_options(scan, context)? else { return Ok(Vec::new()) };
        let mut found: Vec<(RowId, Row)> = Vec::new();
        let mut rows = writer.scan(&options)?;
        while !locked.is_enough()
            && let Some(row) = rows.next().transpose()?
        {
            pace.step(context)?;
            let id = row.id;
            let row = convert(row, types_of(scan), scan.with_tid)?;
            let mut filters = scan.filter.iter().chain(&of.filters);
            if !filters
                .try_fold(true, |all, one| Ok::<_, SqlError>(all && one.holds(&row, context)?))?
            {
                continue;
            }
            let Some((_, values)) = &of.sort else {
                // A row that is found may be skipped or not be wanted any more: only those that
                // are locked count.
                locked.take(writer, id, (context, &mut memory))?;
                continue;
            };
            let values = query::project(values, &row, context)?;
            memory.charge_row(&values)?;
            found.push((id, values));
        }
        let keys = of.sort.as_ref().map_or(&[][..], |(keys, _)| keys);
        let order = |a: &(_, Row), b: &(_, Row)| query::compare(&a.1, &b.1, keys);
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
    of: &'s Lockable,
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
        let Some(row) = lock_row(self.of, self.how, writer, id, context)? else { return Ok(()) };
        if self.limits.skip > 0 {
            self.limits.skip -= 1;
            return Ok(());
        }
        memory.charge_row(&row)?;
        self.rows.push(row);
        Ok(())
    }
}

/// Locks a row; its output as it is now, if it is still wanted.
fn lock_row(
    of: &Lockable,
    (lock, busy): (RowLock, Busy),
    writer: &mut Writer<'_>,
    id: RowId,
    context: &Context,
) -> Result<Option<Row>> {
    let scan = &of.scan;
    let mut failed = None;
    let mut output = None;
    let mut judge = |at: RowId, values: &[Value]| {
        let mut judge = || -> Result<bool> {
            let column = |at: &usize| Datum::stored(values[*at].clone(), scan.table.types[*at]);
            let mut row: Row = scan.columns.iter().map(column).collect::<Result<_>>()?;
            if scan.with_tid {
                row.push(Datum::Tid(at));
            }
            let of_path = match &scan.path {
                Path::Index(path) => path.conditions.as_slice(),
                Path::Tid(_) if at != id => return Ok(false),
                Path::Sequential | Path::Tid(_) => &[],
            };
            for condition in of_path.iter().chain(&scan.filter).chain(&of.filters) {
                if !condition.holds(&row, context)? {
                    return Ok(false);
                }
            }
            output = Some(query::project(&of.output, &row, context)?);
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
