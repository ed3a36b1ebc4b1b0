//! Rows of a query that values are compared with, by IN, ANY and ALL.
//!
//! Where a test is made of equalities, rows are found by their hashes, as in PostgreSQL's hashed
//! subplans. Rows beyond their share of the memory go to a file, which is gone through only for a
//! value whose hash some row has.
//!
//! Invariants: what is kept is counted. Does not do: remembering it (`memo`).

use std::collections::HashSet;

use rightlink::Budget;
use rightlink_env::sync::Mutex;

use crate::error::Result;
use crate::exec::Operator;
use crate::exec::batch::{Batch, ROWS};
use crate::exec::columns::is_steady;
use crate::exec::hash::{self, HashTable, Keys};
use crate::exec::kept::{Keeping, Kept};
use crate::exec::memory::{KeptRows, Memory};
use crate::exec::sort::SHARE;
use crate::exec::vector::{NO_ROW, Vector};
use crate::expr::{Context, Expr, PlannedSubquery};
use crate::plan::join::hash_alike;
use crate::plan::node::Node;
use crate::types::{Datum, Row};

/// Rows that values are compared with.
pub(super) enum Compared {
    Memory(InMemory),
    Files(InFiles),
}

/// Rows in memory.
pub(super) struct InMemory {
    kept: KeptRows,
    lookup: Option<Lookup>,
}

/// Rows in a file.
pub(super) struct InFiles {
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

/// What is asked of rows and of values in front of them: is the test true of any, or of all?
pub(super) struct Question<'q> {
    pub(super) test: &'q Expr,
    pub(super) all: bool,
    /// How many values are in front.
    pub(super) width: usize,
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
    pub(super) fn answer(&self, rows: &InMemory, values: Row, context: &Context) -> Result<Datum> {
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
    pub(super) fn answer_in_files(
        &self,
        files: &InFiles,
        mut row: Row,
        context: &Context,
    ) -> Result<Datum> {
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

/// Runs a query for all of its rows.
pub(super) fn compared(
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
