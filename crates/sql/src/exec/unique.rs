//! Rows without duplicates.
//!
//! Invariants: of equal rows the first comes out. Rows come out as they are met while memory holds
//! those that were; what comes later goes to files and comes out behind.
//! Does not do: keeping an order (`sort` comes behind); DISTINCT ON of rows that are not in order.

use std::collections::BTreeSet;

use rightlink::Budget;

use super::sort::SHARE;
use super::spill::{Spill, Spilled, identify};
use crate::error::Result;
use crate::exec::Stream;
use crate::exec::memory::Memory;
use crate::exec::query::compare;
use crate::expr::aggregate::Ordered;
use crate::expr::{Context, SortKey};
use crate::types::{Datum, Row};

/// DISTINCT.
pub(super) struct Unique {
    input: Box<dyn Stream>,
    seen: BTreeSet<Ordered>,
    memory: Memory,
    /// The share of the budget, once there was a row.
    most: Option<usize>,
    /// What is not among those seen.
    rest: Option<Spill>,
    /// That without duplicates, when all have come.
    behind: Option<Dedup>,
}

impl Unique {
    pub(super) fn new(input: Box<dyn Stream>, budget: &Budget) -> Unique {
        Unique {
            input,
            seen: BTreeSet::new(),
            memory: Memory::new(budget),
            most: None,
            rest: None,
            behind: None,
        }
    }

    /// Is the row one that comes out now?
    fn take(&mut self, row: &Ordered, context: &Context) -> Result<bool> {
        if self.seen.contains(row) {
            return Ok(false);
        }
        if let Some(rest) = &mut self.rest {
            put(rest, row, false)?;
            return Ok(false);
        }
        let share = || context.settings.work_memory(self.memory.available() / SHARE);
        let most = *self.most.get_or_insert_with(share);
        let full = self.memory.charge_row(&row.0).is_err();
        self.seen.insert(row.clone());
        if full || self.memory.used() > most {
            if full {
                // What is held goes to the sort that it goes to.
                self.memory.release();
            }
            let mut rest = Spill::new(most / 2, context)?;
            if full {
                for row in std::mem::take(&mut self.seen) {
                    put(&mut rest, &row, true)?;
                }
            }
            self.rest = Some(rest);
        }
        Ok(true)
    }

    /// All rows have come: those in files are next.
    fn turn(&mut self) -> Result<()> {
        let Some(rest) = self.rest.take() else { return Ok(()) };
        self.seen = BTreeSet::new();
        self.memory.release();
        let spilled = rest.finish()?;
        self.behind = Some(Dedup { spilled, key: Vec::new(), same: Vec::new() });
        Ok(())
    }
}

impl Stream for Unique {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Row>> {
        if self.behind.is_none() {
            while let Some(row) = self.input.next(most, context)? {
                let row = Ordered(row);
                if self.take(&row, context)? {
                    return Ok(Some(row.0));
                }
            }
            self.turn()?;
        }
        match &mut self.behind {
            Some(behind) => behind.next(most, context),
            None => Ok(None),
        }
    }
}

/// A row for the files, behind whether it came out already.
fn put(rest: &mut Spill, Ordered(row): &Ordered, out: bool) -> Result<()> {
    let (mut identity, room) = (Vec::new(), rest.key_room());
    identify(&mut identity, row, room);
    let mut marked = vec![Datum::Bool(out)];
    marked.extend_from_slice(row);
    rest.push(&identity, &marked)
}

/// Rows from files, the first of each that are equal.
struct Dedup {
    spilled: Spilled,
    key: Vec<u8>,
    /// Those that have come out with that key: one, unless rows are long.
    same: Vec<Ordered>,
}

impl Stream for Dedup {
    fn next(&mut self, _: usize, context: &Context) -> Result<Option<Row>> {
        while let Some((key, mut row)) = self.spilled.next(context)? {
            let out = row.remove(0) == Datum::Bool(true);
            if key != self.key {
                self.same.clear();
                self.key = key;
            }
            let row = Ordered(row);
            if !self.same.contains(&row) {
                self.same.push(row.clone());
                if !out {
                    return Ok(Some(row.0));
                }
            }
        }
        Ok(None)
    }
}

/// DISTINCT ON: the first of neighbours that agree in some columns, in an order that makes all
/// that agree neighbours.
pub(super) struct UniqueOn {
    input: Box<dyn Stream>,
    keys: Vec<SortKey>,
    last: Option<Row>,
}

impl UniqueOn {
    /// Rows that agree in `keys` are neighbours.
    pub(super) fn new(input: Box<dyn Stream>, keys: &[SortKey]) -> UniqueOn {
        UniqueOn { input, keys: keys.to_vec(), last: None }
    }
}

impl Stream for UniqueOn {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Row>> {
        while let Some(row) = self.input.next(most, context)? {
            let agrees = |last: &Row| compare(last, &row, &self.keys).is_eq();
            if !self.last.as_ref().is_some_and(agrees) {
                self.last = Some(row.clone());
                return Ok(Some(row));
            }
        }
        Ok(None)
    }
}
