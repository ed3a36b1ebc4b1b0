//! Values of an aggregate that wait for all others of their group, in temporary files: distinct
//! values, and those that have an order.
//!
//! Keys of the files are the identity of the group, the sort keys of the order, and for distinct
//! values their identity. So the groups come one by one, their values in order, and equal ones side
//! by side.
//!
//! Invariants: a key that would be too long is cut to a length that no other has; values that agree
//! in one such are put in order in memory, where they are counted.
//! Does not do: what becomes of the values (`group`).

use rightlink::Budget;

use super::query::compare;
use super::sort::in_order;
use super::sort_key;
use super::spill::{HASH, Spill, Spilled, identify, identity_of};
use crate::error::Result;
use crate::exec::Ready;
use crate::exec::memory::Memory;
use crate::expr::Context;
use crate::expr::aggregate::{Aggregate, Input, Ordered};
use crate::types::{Datum, Row};

/// A value that waits, of the group with this key.
pub(super) fn put(
    spill: &mut Spill,
    aggregate: &Aggregate,
    key: &[Datum],
    input: Input,
) -> Result<()> {
    let cut = spill.key_room();
    let mut place = identity_of(key, cut / 2);
    let values = input.into_row();
    for part in &aggregate.keys {
        sort_key::encode(&mut place, &values[part.at], part);
    }
    if place.len() + HASH >= cut {
        place.resize(cut, 0);
    } else if aggregate.distinct {
        let room = cut - 1 - place.len();
        identify(&mut place, &values, room);
    }
    let mut row = key.to_vec();
    row.extend(values);
    spill.push(&place, &row)
}

/// Values of an aggregate on their way back.
pub(super) struct Waiting {
    /// Which aggregate.
    pub(super) at: usize,
    spilled: Spilled,
    /// Values of the group's key.
    keys: usize,
    /// Length of keys that were cut.
    cut: usize,
    /// The row behind those that were taken, and its key.
    ahead: Option<(Vec<u8>, Row)>,
    /// Distinct rows that have the key of the last one.
    last: Vec<Ordered>,
    last_key: Vec<u8>,
    /// Rows that agree in a key that was cut, in order.
    ties: Ready,
    memory: Memory,
}

impl Waiting {
    /// Those of aggregate `at`, of groups whose keys have so many values.
    pub(super) fn of(at: usize, keys: usize, spill: Spill, budget: &Budget) -> Result<Waiting> {
        let cut = spill.key_room();
        Ok(Waiting {
            at,
            spilled: spill.finish()?,
            keys,
            cut,
            ahead: None,
            last: Vec::new(),
            last_key: Vec::new(),
            ties: Ready::new(Vec::new()),
            memory: Memory::new(budget),
        })
    }

    /// The next value of the groups with this identity, behind the key of its group.
    pub(super) fn next(
        &mut self,
        aggregate: &Aggregate,
        identity: &[u8],
        context: &Context,
    ) -> Result<Option<Row>> {
        loop {
            if let Some(row) = self.ties.take() {
                return Ok(Some(row));
            }
            self.memory.release();
            if self.ahead.is_none() {
                self.ahead = self.spilled.next(context)?;
            }
            // No identity of a group is the beginning of another.
            let is_wanted = |(key, _): &mut (Vec<u8>, Row)| key.starts_with(identity);
            let Some((key, row)) = self.ahead.take_if(is_wanted) else { return Ok(None) };
            if key.len() == self.cut {
                self.ties = self.tied(aggregate, &key, row, context)?;
                continue;
            }
            if !aggregate.distinct {
                return Ok(Some(row));
            }
            if key != self.last_key {
                self.last.clear();
                self.last_key = key;
            }
            let row = Ordered(row);
            if !self.last.contains(&row) {
                self.last.push(row.clone());
                return Ok(Some(row.0));
            }
        }
    }

    /// The rows that agree in a key that was cut, the first of which is there.
    fn tied(
        &mut self,
        aggregate: &Aggregate,
        key: &[u8],
        first: Row,
        context: &Context,
    ) -> Result<Ready> {
        let (mut ties, mut next) = (Vec::new(), Some(first));
        while let Some(row) = next.take() {
            self.memory.charge_row(&row)?;
            ties.push(Ordered(row));
            self.ahead = self.spilled.next(context)?;
            next = self.ahead.take_if(|(other, _)| other == key).map(|(_, row)| row);
        }
        let mut ties = in_order(ties, context, |a, b| {
            let order = compare(&a.0[self.keys..], &b.0[self.keys..], &aggregate.keys);
            // Equal ones come side by side.
            if aggregate.distinct { order.then_with(|| a.cmp(b)) } else { order }
        })?;
        if aggregate.distinct {
            ties.dedup();
        }
        Ok(Ready::new(ties.into_iter().map(|Ordered(row)| row).collect()))
    }
}
