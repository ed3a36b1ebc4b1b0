//! Running the queries inside of expressions.
//!
//! A query that gives the same for the same values of rows around it remembers what it gave: one
//! that reads none runs once.
//!
//! Rows that values are compared with for equality are found by their hashes, where they stay for
//! several rows around the query, as in PostgreSQL's hashed subplans. Rows beyond their share of
//! the memory go to a file, which is gone through only for a value whose hash some row has.
//!
//! Invariants: its slots are filled before it is opened; it is closed before the row around it is
//! left; what is remembered is counted. Does not do: queries that have become joins.

use std::collections::{BTreeMap, HashSet};

use rightlink::Budget;
use rightlink_env::sync::Mutex;

use crate::error::{Result, SqlError, code};
use crate::exec::batch::{Batch, ROWS};
use crate::exec::columns::is_steady;
use crate::exec::execution::Execution;
use crate::exec::hash::{self, HashTable, Keys};
use crate::exec::kept::{Keeping, Kept};
use crate::exec::memory::{KeptRows, Memory, row_bytes};
use crate::exec::sort::SHARE;
use crate::exec::vector::{NO_ROW, Vector};
use crate::exec::{Operator, RowsOf, Stream};
use crate::expr::aggregate::Ordered;
use crate::expr::{Body, Context, Expr, PlannedSubquery, Subquery, SubqueryKind};
use crate::plan::join::hash_alike;
use crate::plan::node::Node;
use crate::types::array::null_array;
use crate::types::{Array, Datum, ElementType, Row};
use std::sync::Arc;

/// Results that are remembered of a query.
const MOST_KEPT: usize = 1_024;

/// What a query gave before.
#[derive(Default)]
pub(crate) struct Memo {
    /// By the values of its slots.
    values: BTreeMap<Ordered, Datum>,
    /// Of the values; `None` before there is one.
    memory: Option<Memory>,
    /// All rows, and the values that the slots had for them.
    rows: Option<RowsFor>,
}

/// The rows of a query for values of its slots.
struct RowsFor {
    slots: Ordered,
    rows: Arc<Compared>,
}

/// Rows that values are compared with.
enum Compared {
    Memory(InMemory),
    Files(InFiles),
}

/// Rows in memory.
struct InMemory {
    kept: KeptRows,
    lookup: Option<Lookup>,
}

/// Rows in a file.
struct InFiles {
    rows: Mutex<Kept>,
    hashes: Option<Hashes>,
}

/// Hashes of what values have to equal.
struct Hashes {
    all: HashSet<u64>,
    /// Is there a row with a null among that?
    has_nulls: bool,
    memory: Memory,
}

/// Bytes of a hash in its table, which grows by doubling.
const OF_HASH: usize = 24;

/// Rows by the hashes of what values have to equal.
struct Lookup {
    table: HashTable,
    /// Rows with a null among that.
    nulls: Vec<u32>,
}

/// Rows from which on they are found by hashes.
const LEAST_HASHED: usize = 16;

/// A copy, for another execution, has nothing to remember.
impl Clone for Memo {
    fn clone(&self) -> Memo {
        Memo::default()
    }
}

impl Memo {
    /// Remembers a value, in place of all others where these have the share of the budget that is
    /// theirs; one beyond that share is not remembered.
    fn remember(&mut self, slots: Ordered, value: &Datum, context: &Context) {
        let memory = self.memory.get_or_insert_with(|| Memory::new(&context.budget()));
        let bytes = row_bytes(&slots.0) + size_of::<Datum>() + value.heap_bytes();
        let share = (memory.available() + memory.used()) / SHARE;
        if self.values.len() >= MOST_KEPT || memory.used() + bytes > share {
            self.values.clear();
            memory.release();
        }
        if bytes <= share && memory.charge(bytes).is_ok() {
            self.values.insert(slots, value.clone());
        }
    }
}

/// The value of a query over a row around it.
pub(crate) fn value(query: &Subquery, row: &[Datum], context: &Context) -> Result<Datum> {
    let Body::Planned { plan, binds } = &query.body else {
        unreachable!("a query is planned before it runs")
    };
    for (slot, bound) in binds {
        let value = bound.eval(row, context)?;
        Execution::of(context).fill(*slot, value);
    }
    match &query.kind {
        SubqueryKind::Compare { needles, test, all } => {
            let needles = needles.iter().map(|(_, needle)| needle.eval(row, context));
            let needles = needles.collect::<Result<Row>>()?;
            let question = Question { test, all: *all, width: needles.len() };
            match &*rows(query.number, plan, &question, context)? {
                Compared::Memory(rows) => question.answer(rows, needles, context),
                Compared::Files(files) if plan.is_stable => {
                    let mut known = slots(plan, context);
                    known.0.extend_from_slice(&needles);
                    remembered(query.number, known, context, || {
                        question.answer_in_files(files, needles, context)
                    })
                }
                Compared::Files(files) => question.answer_in_files(files, needles, context),
            }
        }
        SubqueryKind::Scalar | SubqueryKind::Exists | SubqueryKind::Array { .. } => {
            let make = || match query.kind {
                SubqueryKind::Exists => exists(plan, context),
                SubqueryKind::Array { element, of_arrays } => {
                    collected(plan, element, of_arrays, context)
                }
                _ => scalar(plan, context),
            };
            match plan.is_stable {
                true => remembered(query.number, slots(plan, context), context, make),
                false => make(),
            }
        }
    }
}

/// What a query gave for these values before, or else gives now.
fn remembered(
    number: usize,
    values: Ordered,
    context: &Context,
    make: impl FnOnce() -> Result<Datum>,
) -> Result<Datum> {
    let memos = Execution::of(context).memos.borrow();
    if let Some(known) = memos.get(&number).and_then(|memo| memo.values.get(&values)) {
        return Ok(known.clone());
    }
    drop(memos);
    let value = make()?;
    let mut memos = Execution::of(context).memos.borrow_mut();
    memos.entry(number).or_default().remember(values, &value, context);
    Ok(value)
}

/// Values of the slots that a query reads.
fn slots(plan: &PlannedSubquery, context: &Context) -> Ordered {
    Ordered(plan.slots.iter().map(|slot| context.exec_state.outer(*slot)).collect())
}

fn scalar(plan: &PlannedSubquery, context: &Context) -> Result<Datum> {
    let mut rows = RowsOf::new(Node::of(plan).open(None, context)?);
    let Some(mut row) = rows.next(2, context)? else { return Ok(Datum::Null) };
    if rows.next(1, context)?.is_some() {
        let message = "more than one row returned by a subquery used as an expression";
        return Err(SqlError::new(code::CARDINALITY, message));
    }
    Ok(std::mem::take(&mut row[0]))
}

/// `ARRAY(SELECT ..)`: arrays of one shape become one of one dimension more.
fn collected(
    plan: &PlannedSubquery,
    element: ElementType,
    of_arrays: bool,
    context: &Context,
) -> Result<Datum> {
    let mut memory = Memory::new(&context.budget());
    let mut array = Array::empty(element);
    let mut input = Node::of(plan).open(None, context)?;
    while let Some(mut batch) = input.next(ROWS, context)? {
        context.check()?;
        for at in 0..batch.len {
            let value = batch.columns[0].take(at);
            if of_arrays && value.is_null() {
                return Err(null_array());
            }
            memory.charge(array.gather(value)?)?;
        }
    }
    Ok(array.into())
}

fn exists(plan: &PlannedSubquery, context: &Context) -> Result<Datum> {
    let mut rows = Node::of(plan).open(Some(1), context)?;
    Ok(Datum::Bool(rows.next(1, context)?.is_some()))
}

/// What is asked of rows and of values in front of them: is the test true of any, or of all?
struct Question<'q> {
    test: &'q Expr,
    all: bool,
    /// How many values are in front.
    width: usize,
}

/// What is equal if a test says so: an expression over the values, and one over a row behind them.
struct Sides<'q> {
    own: Vec<&'q Expr>,
    of_rows: Vec<&'q Expr>,
}

impl Question<'_> {
    /// The sides of the equalities that the test is, or is the contrary of.
    fn sides(&self) -> Option<Sides<'_>> {
        let (parts, name) = match (self.test, self.all) {
            (Expr::And(list), false) => (list.as_slice(), "="),
            (Expr::Or(list), true) => (list.as_slice(), "<>"),
            (one, all) => (std::slice::from_ref(one), if all { "<>" } else { "=" }),
        };
        let mut sides = Sides { own: Vec::new(), of_rows: Vec::new() };
        for part in parts {
            let Expr::Call(function, args) = part else { return None };
            let ([a, b], [x, y]) = (args.as_slice(), function.args.as_slice()) else { return None };
            let steady = is_steady(a) && is_steady(b);
            if function.name != name || !hash_alike(*x, *y) || !steady {
                return None;
            }
            if !self.names(a, true) && !self.names(b, false) {
                sides.own.push(a);
                sides.of_rows.push(b);
            } else if !self.names(b, true) && !self.names(a, false) {
                sides.own.push(b);
                sides.of_rows.push(a);
            } else {
                return None;
            }
        }
        Some(sides)
    }

    /// Does an expression name columns of rows, or values in front of them?
    fn names(&self, expr: &Expr, of_rows: bool) -> bool {
        let mut found = false;
        expr.walk(&mut |inner| {
            if let Expr::Column(at) = inner {
                found |= (*at >= self.width) == of_rows;
            }
        });
        found
    }

    /// What rows have to equal; `None` if the test is no equality.
    fn keys(&self, rows: &Batch, context: &Context) -> Result<Option<Keys>> {
        let Some(sides) = self.sides() else { return Ok(None) };
        let values = (0..self.width).map(|_| Vector::Same(Datum::Null, rows.len));
        let columns = values.chain(rows.columns.iter().cloned()).collect();
        let whole = Batch { len: rows.len, columns };
        hash::values(sides.of_rows.into_iter(), &whole, context).map(Some)
    }

    /// What equals it of these values, as keys of one row.
    fn own(&self, values: &Row, context: &Context) -> Result<Option<Keys>> {
        let Some(sides) = self.sides() else { return Ok(None) };
        context.spend(1)?;
        let own = sides.own.iter().map(|expr| expr.eval(values, context));
        let own: Row = own.collect::<Result<_>>()?;
        Ok(Some(hash::hashed(own.into_iter().map(|one| Vector::Same(one, 1)).collect(), 1)))
    }

    /// Finds rows by hashes.
    fn lookup(&self, rows: &Batch, context: &Context) -> Result<Option<Lookup>> {
        let Some(keys) = self.keys(rows, context)? else { return Ok(None) };
        let nulls = keys.hashes.iter().enumerate().filter(|(_, hash)| hash.is_none());
        // Of one column one null is as good as many.
        let most = if self.width == 1 { 1 } else { rows.len };
        let nulls = nulls.map(|(at, _)| at as u32).take(most).collect();
        let table = HashTable::of(keys.values, &keys.hashes);
        Ok(Some(Lookup { table, nulls }))
    }

    /// The answer for these values.
    fn answer(&self, rows: &InMemory, values: Row, context: &Context) -> Result<Datum> {
        let InMemory { kept, lookup } = rows;
        let all = 0..kept.rows.len as u32;
        let keys = match lookup {
            Some(_) => self.own(&values, context)?,
            None => None,
        };
        let (Some(lookup), Some(keys)) = (lookup, keys) else {
            return self.ask(&kept.rows, all, values, context);
        };
        if keys.hashes[0].is_none() {
            let most = if self.width == 1 { 1 } else { kept.rows.len };
            return self.ask(&kept.rows, all.take(most), values, context);
        }
        let mut at = lookup.table.first(keys.hashes[0]);
        while at != NO_ROW {
            if lookup.table.matches(at, &keys, 0) {
                return Ok(Datum::Bool(!self.all));
            }
            at = lookup.table.after(at);
        }
        // Only with a null among them a row may be equal as far as one knows.
        self.ask(&kept.rows, lookup.nulls.iter().copied(), values, context)
    }

    /// The answer for these values, of rows in a file.
    fn answer_in_files(&self, files: &InFiles, mut row: Row, context: &Context) -> Result<Datum> {
        let mut most = u64::MAX;
        if let Some(hashes) = &files.hashes
            && let Some(own) = self.own(&row, context)?
        {
            match own.hashes[0] {
                // Of one column one row is as good as many.
                None if self.width == 1 => most = 1,
                Some(hash) if !hashes.all.contains(&hash) => {
                    if !hashes.has_nulls {
                        return Ok(Datum::Bool(self.all));
                    }
                    if self.width == 1 {
                        return Ok(Datum::Null);
                    }
                }
                _ => {}
            }
        }
        let mut unknown = false;
        for number in 0..most {
            context.spend(1)?;
            let Some(other) = files.rows.lock().row(number, context)? else { break };
            row.truncate(self.width);
            row.extend(other);
            match self.test.eval(&row, context)? {
                Datum::Bool(value) if value != self.all => return Ok(Datum::Bool(!self.all)),
                Datum::Bool(_) => {}
                _ => unknown = true,
            }
        }
        Ok(if unknown { Datum::Null } else { Datum::Bool(self.all) })
    }

    /// Is the test true of any of these rows, or of all?
    fn ask(
        &self,
        rows: &Batch,
        these: impl Iterator<Item = u32>,
        mut row: Row,
        context: &Context,
    ) -> Result<Datum> {
        let mut unknown = false;
        for at in these {
            context.spend(1)?;
            row.truncate(self.width);
            row.extend(rows.columns.iter().map(|column| column.get(at as usize)));
            match self.test.eval(&row, context)? {
                Datum::Bool(value) if value != self.all => return Ok(Datum::Bool(!self.all)),
                Datum::Bool(_) => {}
                _ => unknown = true,
            }
        }
        Ok(if unknown { Datum::Null } else { Datum::Bool(self.all) })
    }
}

/// All rows of a query, for the values that its slots have.
fn rows(
    number: usize,
    plan: &PlannedSubquery,
    question: &Question<'_>,
    context: &Context,
) -> Result<Arc<Compared>> {
    let slots = slots(plan, context);
    if plan.is_stable
        && let Some(Memo { rows: Some(known), .. }) =
            Execution::of(context).memos.borrow().get(&number)
        && known.slots == slots
    {
        return Ok(Arc::clone(&known.rows));
    }
    let rows = Arc::new(compared(plan, question, context)?);
    if plan.is_stable {
        let known = RowsFor { slots, rows: Arc::clone(&rows) };
        Execution::of(context).memos.borrow_mut().entry(number).or_default().rows = Some(known);
    }
    Ok(rows)
}

/// Runs a query for all of its rows.
fn compared(
    plan: &PlannedSubquery,
    question: &Question<'_>,
    context: &Context,
) -> Result<Compared> {
    let is_hashed = plan.is_stable && question.sides().is_some();
    let mut kept = match is_hashed {
        true => KeptRows::with_table(&context.budget(), 0),
        false => KeptRows::new(&context.budget()),
    };
    let mut input = Node::of(plan).open(None, context)?;
    let mut most = None;
    while let Some(batch) = input.next(ROWS, context)? {
        let share = || context.settings.work_memory(kept.available() / SHARE);
        let most = *most.get_or_insert_with(share);
        if !kept.try_append(batch) || kept.used() > most {
            let hashes = is_hashed.then(|| Hashes::new(&context.budget()));
            let files = InFiles::of(kept.give_up(), input, hashes, question, context)?;
            return Ok(Compared::Files(files));
        }
    }
    let mut lookup = None;
    if is_hashed && kept.rows.len >= LEAST_HASHED {
        lookup = question.lookup(&kept.rows, context)?;
        if let Some(lookup) = &lookup {
            kept.charge_table(lookup.table.bytes() + size_of_val(lookup.nulls.as_slice()))?;
        }
    }
    Ok(Compared::Memory(InMemory { kept, lookup }))
}

impl InFiles {
    /// The first rows of a query, and the rest of it.
    fn of(
        first: Batch,
        mut rest: Box<dyn Operator>,
        mut hashes: Option<Hashes>,
        question: &Question<'_>,
        context: &Context,
    ) -> Result<InFiles> {
        let mut rows = Keeping::in_files(&context.budget(), context)?;
        let mut next = Some(first);
        while let Some(batch) = next {
            if let Some(known) = &mut hashes
                && let Some(keys) = question.keys(&batch, context)?
                && !known.add(&keys)
            {
                hashes = None;
            }
            rows.push_batch(batch, context)?;
            next = rest.next(ROWS, context)?;
        }
        Ok(InFiles { rows: Mutex::new(rows.finish()?), hashes })
    }
}

impl Hashes {
    fn new(budget: &Budget) -> Hashes {
        Hashes { all: HashSet::new(), has_nulls: false, memory: Memory::new(budget) }
    }

    /// Adds the hashes of rows; false if memory does not hold them.
    fn add(&mut self, keys: &Keys) -> bool {
        for hash in &keys.hashes {
            match hash {
                None => self.has_nulls = true,
                Some(hash) if self.all.insert(*hash) => {
                    if self.memory.charge(OF_HASH).is_err() {
                        return false;
                    }
                }
                Some(_) => {}
            }
        }
        true
    }
}
