//! From candidates for pairs to the rows of a join: conditions, rows without a partner.
//!
//! A right side that comes in blocks meets the same rows of the left side block by block. Whether
//! these have a partner is known behind the last one.
//!
//! Invariants: rows come out in the order of the left side, then those that only the right side
//! has; where the right side comes in blocks, in the order of its blocks first.
//! Does not do: finding candidates by an index.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::of;
use crate::error::Result;
use crate::exec::batch::{Batch, ROWS};
use crate::exec::columns::passing;
use crate::exec::hash::{HashTable, Keys};
use crate::exec::vector::{NO_ROW, Vector};
use crate::expr::{Context, Expr};
use crate::plan::node::Node;
use crate::plan::rel::JoinKind;
use crate::types::Datum;

/// A row of the left side and one of the right.
#[derive(Clone, Copy)]
struct Pair {
    left: u32,
    right: u32,
}

/// The rows that a batch of the left side makes.
pub(super) struct Pairs {
    node: Arc<Node>,
    left: Batch,
    keys: Option<Keys>,
    /// The row of the left side at hand, and the next candidate for it; `None`: its first.
    at: usize,
    candidate: Option<u32>,
    /// Has the row at hand a partner?
    has_partner: bool,
    /// Rows of the right side that have a partner, in a full join.
    partners: Vec<bool>,
    /// Rows that only the right side has: how many were looked at.
    looked: usize,
    /// Number of the first row of the block of the right side at hand.
    first: usize,
    /// Of each row of the left side at hand whether it has a partner in some block; empty if the
    /// right side does not come in blocks.
    met: Vec<bool>,
    /// Rows that are made and not handed on.
    ready: Batch,
    /// Places of the columns that the condition names.
    named: BTreeSet<usize>,
}

impl Pairs {
    /// For a right side of so many rows.
    pub(super) fn new(node: &Arc<Node>, rows: usize) -> Pairs {
        let join = of(node);
        let mut named = BTreeSet::new();
        if let Some(condition) = &join.condition {
            condition.walk(&mut |inner| {
                if let Expr::Column(at) = inner {
                    named.insert(*at);
                }
            });
        }
        let partners = if join.kind == JoinKind::Full { vec![false; rows] } else { Vec::new() };
        Pairs {
            node: Arc::clone(node),
            left: Batch::default(),
            keys: None,
            at: 0,
            candidate: None,
            has_partner: false,
            partners,
            looked: 0,
            first: 0,
            met: Vec::new(),
            ready: Batch::default(),
            named,
        }
    }

    /// Goes on with other rows of the left side.
    pub(super) fn begin(&mut self, left: Batch, keys: Option<Keys>) {
        (self.left, self.keys, self.at, self.candidate) = (left, keys, 0, None);
        self.has_partner = false;
    }

    /// Goes on with other rows of the left side, which meet the right side block by block.
    pub(super) fn begin_blocks(&mut self, left: Batch, keys: Option<Keys>) {
        self.met = vec![false; left.len];
        self.begin(left, keys);
        // There is no block yet.
        self.at = self.left.len;
    }

    /// Goes on with the block of the right side whose first row has this number.
    pub(super) fn meet(&mut self, first: usize) {
        (self.at, self.candidate, self.first) = (0, None, first);
    }

    /// All blocks have been met: rows without a partner come next.
    pub(super) fn meet_none(&mut self, right: &Batch) {
        if matches!(of(&self.node).kind, JoinKind::Inner | JoinKind::Semi) {
            return;
        }
        let alone = (0..self.left.len as u32).filter(|at| !self.met[*at as usize]);
        let alone: Vec<Pair> = alone.map(|left| Pair { left, right: NO_ROW }).collect();
        self.ready = self.rows(&alone, right);
    }

    /// The next rows of the batch at hand, `None` when it is done.
    pub(super) fn next(
        &mut self,
        most: usize,
        right: &Batch,
        table: Option<&HashTable>,
        context: &Context,
    ) -> Result<Option<Batch>> {
        loop {
            if self.ready.len > 0 {
                return Ok(Some(self.ready.split_front(most)));
            }
            if self.at >= self.left.len {
                return Ok(None);
            }
            context.check()?;
            let made = self.some(right, table, context)?;
            self.ready = self.rows(&made, right);
        }
    }

    /// Looks at some candidates: the pairs that come out.
    fn some(
        &mut self,
        right: &Batch,
        table: Option<&HashTable>,
        context: &Context,
    ) -> Result<Vec<Pair>> {
        let first = self.at;
        let mut candidates = Vec::new();
        // Rows of the left side whose candidates are all there now, but for the one at hand.
        while candidates.len() < ROWS && self.at < self.left.len {
            self.gather(right.len as u32, table, &mut candidates);
        }
        let kept = self.asked(candidates, right, context)?;
        Ok(self.resolved(first, kept))
    }

    /// Adds candidates of the row at hand; goes on to the next row when it has no more.
    fn gather(&mut self, rows: u32, table: Option<&HashTable>, out: &mut Vec<Pair>) {
        let left = self.at as u32;
        let one_is_enough = matches!(of(&self.node).kind, JoinKind::Semi | JoinKind::Anti);
        if one_is_enough && self.met.get(self.at) == Some(&true) {
            (self.candidate, self.at) = (None, self.at + 1);
            return;
        }
        let mut next = match (self.candidate, table, &self.keys) {
            (Some(next), ..) => next,
            (None, Some(table), Some(keys)) => table.first(keys.hashes[self.at]),
            (None, ..) => 0,
        };
        match (table, &self.keys) {
            (Some(table), Some(keys)) => {
                while next != NO_ROW && out.len() < ROWS {
                    if table.matches(next, keys, self.at) {
                        out.push(Pair { left, right: next });
                    }
                    next = table.after(next);
                }
            }
            _ => {
                while next < rows && out.len() < ROWS {
                    out.push(Pair { left, right: next });
                    next += 1;
                }
                next = if next < rows { next } else { NO_ROW };
            }
        }
        match next {
            NO_ROW => {
                self.candidate = None;
                self.at += 1;
            }
            next => self.candidate = Some(next),
        }
    }

    /// The candidates for which the condition is true.
    fn asked(&self, candidates: Vec<Pair>, right: &Batch, context: &Context) -> Result<Vec<Pair>> {
        let Some(condition) = &of(&self.node).condition else { return Ok(candidates) };
        if candidates.is_empty() {
            return Ok(candidates);
        }
        let lefts: Vec<u32> = candidates.iter().map(|pair| pair.left).collect();
        let rights: Vec<u32> = candidates.iter().map(|pair| pair.right).collect();
        let width = self.left.columns.len();
        let column = |at: usize| match (self.named.contains(&at), at < width) {
            (false, _) => Vector::Same(Datum::Null, candidates.len()),
            (true, true) => self.left.columns[at].pick(&lefts),
            (true, false) => right.columns[at - width].pick(&rights),
        };
        let columns = (0..width + right.columns.len()).map(column).collect();
        let batch = Batch { len: candidates.len(), columns };
        let rows = passing(condition, &batch, context)?;
        Ok(rows.into_iter().map(|at| candidates[at as usize]).collect())
    }

    /// What comes out for the rows of the left side from `first` to the one at hand, of which these
    /// pairs meet the condition.
    fn resolved(&mut self, first: usize, kept: Vec<Pair>) -> Vec<Pair> {
        let kind = of(&self.node).kind;
        if kind == JoinKind::Inner {
            return kept;
        }
        for pair in &kept {
            if let Some(partner) = self.partners.get_mut(self.first + pair.right as usize) {
                *partner = true;
            }
        }
        if !self.met.is_empty() {
            return self.met_by(kept);
        }
        let mut out = Vec::with_capacity(kept.len());
        let mut kept = kept.into_iter().peekable();
        // The row at hand is not done while it has a candidate left.
        let end = self.at + usize::from(self.candidate.is_some());
        for left in first..end.min(self.left.len) {
            let alone = Pair { left: left as u32, right: NO_ROW };
            let before = left == first && std::mem::take(&mut self.has_partner);
            let mut found = before;
            while let Some(pair) = kept.next_if(|pair| pair.left == left as u32) {
                match kind {
                    JoinKind::Semi if !found => out.push(alone),
                    JoinKind::Semi | JoinKind::Anti => {}
                    _ => out.push(pair),
                }
                found = true;
            }
            let is_done = left < self.at;
            if !is_done {
                self.has_partner = found;
            } else if !found && kind != JoinKind::Semi {
                out.push(alone);
            }
        }
        out
    }

    /// What comes out for these pairs with rows of a block.
    fn met_by(&mut self, kept: Vec<Pair>) -> Vec<Pair> {
        let kind = of(&self.node).kind;
        let mut out = Vec::with_capacity(kept.len());
        for pair in kept {
            let was_met = std::mem::replace(&mut self.met[pair.left as usize], true);
            match kind {
                JoinKind::Semi if !was_met => out.push(Pair { right: NO_ROW, ..pair }),
                JoinKind::Semi | JoinKind::Anti => {}
                _ => out.push(pair),
            }
        }
        out
    }

    /// The rows of pairs.
    fn rows(&self, pairs: &[Pair], right: &Batch) -> Batch {
        let lefts: Vec<u32> = pairs.iter().map(|pair| pair.left).collect();
        let rights: Vec<u32> = pairs.iter().map(|pair| pair.right).collect();
        let join = of(&self.node);
        let width = join.left.width;
        let column = |at: &usize| match at.checked_sub(width) {
            None => self.left.columns[*at].pick(&lefts),
            Some(at) => right.columns[at].pick_or_null(&rights),
        };
        let columns = join.kept.iter().map(column).collect();
        Batch { len: pairs.len(), columns }
    }

    /// When the left side has ended: rows that only the right side has, of those that begin with
    /// this number.
    pub(super) fn rest(
        &mut self,
        most: usize,
        right: &Batch,
        first: usize,
    ) -> Result<Option<Batch>> {
        let mut alone = Vec::new();
        let end = self.partners.len().min(first + right.len);
        while self.looked < end && alone.len() < most.min(ROWS) {
            if !self.partners[self.looked] {
                alone.push((self.looked - first) as u32);
            }
            self.looked += 1;
        }
        if alone.is_empty() {
            return Ok(None);
        }
        let join = of(&self.node);
        let width = join.left.width;
        let column = |at: &usize| match at.checked_sub(width) {
            None => Vector::Same(Datum::Null, alone.len()),
            Some(at) => right.columns[at].pick(&alone),
        };
        let columns = join.kept.iter().map(column).collect();
        Ok(Some(Batch { len: alone.len(), columns }))
    }
}
