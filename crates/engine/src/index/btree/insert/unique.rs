//! Whether a key may go in, and what leaves by the way.
//!
//! Uniqueness (R8): the exclusive latch on the first leaf that could hold the key without a row id
//! is held from the check to the insertion. Equal keys may go on right of it; the walk latches
//! rightwards (R12) and keeps that first leaf. What is met and seen by nobody leaves by the way; so
//! it does, now and then, under keys that updates keep, of which nothing is asked.
//!
//! Invariants: nothing is stored on a page where an entry may not go in, or not yet; entries leave
//! only as the first thing of a round, which ends with it.
//! Does not do: wait. Whom to wait for is an outcome.

use rightlink_env::points::broken;

use crate::buffer::{Held, Mtr};
use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::index::am::{HeapOracle, InsertOutcome, ask};
use crate::index::btree::insert::{Batch, Known, Lack, Placed, Round};
use crate::index::btree::page::node::{Checked, Node};
use crate::index::btree::page::posting::row_of;

/// Rows with an equal key that a unique check passes before it asks which of them are dead to
/// everyone: of an update's old version that is known.
const SWEPT: usize = 2;

/// Rows under one key as they come together on a leaf, each time after which those leave that
/// nobody sees.
const SWEPT_EVERY: usize = 8;

/// Verdict on one key.
enum Verdict {
    /// It may go in, past so many rows with its key.
    Free(usize),
    /// Equal keys may go on in the page to the right.
    GoesOn,
    /// It may not, or not yet.
    Stop(InsertOutcome),
}

impl<'a> Batch<'a, '_> {
    /// A row that keeps its key leaves an entry for each version, and is not asked about. Now and
    /// then, as more of them have come together around the place of entry `at`, those go that
    /// nobody sees. False: nothing was changed.
    pub(super) fn sweep(
        &self,
        mtr: &mut Mtr<'a>,
        held: Held,
        at: usize,
        known: Known,
    ) -> Result<bool> {
        let entry = &self.entries[at];
        let Known::Place(found) = known else { return Ok(false) };
        if !entry.kept {
            return Ok(false);
        }
        let block = mtr.id(held).block.0;
        let damage = |what| self.tree.corrupt(block, what);
        let node = Node::open(mtr.bytes(held)).map_err(damage)?;
        let versions = versions_at(&node, found.pos, entry.key).map_err(damage)?;
        let many = versions > 0 && versions.is_multiple_of(SWEPT_EVERY);
        Ok(many && self.tree.sweep_equals(mtr, held, entry.key)?)
    }

    /// Checks that the key of entry `at` may be inserted (R8), and says on which page.
    pub(super) fn admit(
        &self,
        mtr: &mut Mtr<'a>,
        first: &mut Held,
        (at, start): (usize, usize),
        key: &[u8],
        oracle: &dyn HeapOracle,
    ) -> Result<std::result::Result<Held, Placed>> {
        let verdict = match self.judge(mtr, *first, (at, key), oracle) {
            Err(_) | Ok(None | Some(Verdict::Stop(_) | Verdict::GoesOn)) if at > start => {
                return Ok(Err(Placed::Later));
            }
            Ok(None) => {
                let block = mtr.id(*first).block.0;
                return Err(self.tree.corrupt(block, "fences that led to no leaf"));
            }
            Ok(Some(verdict)) => verdict,
            Err(error) => return Err(error),
        };
        match verdict {
            Verdict::Free(met) if met >= SWEPT && at > start => return Ok(Err(Placed::Later)),
            Verdict::Free(met)
                if met >= SWEPT && self.tree.sweep_equals(mtr, *first, self.entries[at].key)? =>
            {
                return Ok(Err(Placed::Swept));
            }
            Verdict::Free(_) if at == start && broken("r8-latch") => {
                let pin = mtr.release(*first);
                *first = mtr.latch(pin);
            }
            Verdict::Free(_) => {}
            Verdict::Stop(outcome) => return Ok(Err(Placed::Over(Round::Stop(outcome)))),
            Verdict::GoesOn => {
                let walked = self.walk(mtr, *first, (at, key), oracle)?;
                return Ok(walked.map_err(Placed::Over));
            }
        }
        Ok(Ok(*first))
    }

    /// Looks at the entries of the leaf whose key equals that of entry `at`. `None`: the leaf is
    /// not the first one that could hold the key.
    fn judge(
        &self,
        mtr: &Mtr<'_>,
        held: Held,
        (at, whole): (usize, &[u8]),
        oracle: &dyn HeapOracle,
    ) -> Result<Option<Verdict>> {
        let key = self.entries[at].key;
        let block = mtr.id(held).block.0;
        let damage = |what| self.tree.corrupt(block, what);
        let node = Node::open(mtr.bytes(held)).map_err(damage)?;
        if node.cmp_low(key).is_lt() || node.cmp_high(key).is_ge() {
            return Ok(None);
        }
        equal_keys(&node, (at, key, whole), oracle).map(Some).map_err(damage)
    }

    /// Walks right while equal keys may go on, latching, and returns the latched page that the
    /// entry belongs to; only that one and `first` stay latched.
    fn walk(
        &self,
        mtr: &mut Mtr<'a>,
        first: Held,
        (at, whole): (usize, &[u8]),
        oracle: &dyn HeapOracle,
    ) -> Result<std::result::Result<Held, Round>> {
        let key = self.entries[at].key;
        let (mut target, mut current) = (None, first);
        let mut moves = 0;
        loop {
            let block = mtr.id(current).block.0;
            let damage = |what| self.tree.corrupt(block, what);
            let node = Node::open(mtr.bytes(current)).map_err(damage)?;
            let next = node.right;
            if target.is_none() && node.cmp_high(whole).is_lt() {
                target = Some(current);
            }
            let verdict = equal_keys(&node, (at, key, whole), oracle).map_err(damage)?;
            match verdict {
                Verdict::Stop(outcome) => return Ok(Err(Round::Stop(outcome))),
                Verdict::GoesOn => {}
                Verdict::Free(_) => {
                    let target = target.ok_or_else(|| damage("equal keys end before the key"))?;
                    if current != first && current != target {
                        mtr.release(current);
                    }
                    return Ok(Ok(target));
                }
            }
            let Some(pin) = self.tree.pool.try_pin(self.tree.page(next)) else {
                return Ok(Err(Round::Lack(Lack::Page(next))));
            };
            moves += 1;
            self.tree.bound_moves(moves)?;
            let held = mtr.latch(pin);
            if current != first && Some(current) != target {
                mtr.release(current);
            }
            current = held;
        }
    }
}

/// Asks the heap about the entries of `node` that begin with `key` (R8).
fn equal_keys(
    node: &Node<&[u8; PAGE_SIZE]>,
    (at, key, whole): (usize, &[u8], &[u8]),
    oracle: &dyn HeapOracle,
) -> Checked<Verdict> {
    let mut pos = node.search(key)?.pos;
    let own = row_of(whole)?;
    let (mut scratch, mut members, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    while pos < node.count {
        scratch.clear();
        node.append_key(pos, &mut scratch)?;
        if !scratch.starts_with(key) {
            break;
        }
        node.members(pos, &mut members)?;
        let others = members.iter().filter(|member| !member.dead && member.row != own);
        rows.extend(others.map(|member| member.row));
        pos += 1;
    }
    // A live row decides wherever it is, so all are asked about before a wait is an outcome.
    if let Some(outcome) = ask(&rows, at, oracle) {
        return Ok(Verdict::Stop(outcome));
    }
    let high = if pos == node.count { node.high() } else { None };
    let goes_on = high.is_some_and(|high| high.starts_with(key));
    Ok(if goes_on { Verdict::GoesOn } else { Verdict::Free(rows.len()) })
}

/// Rows with `key` that the leaf names around `pos`, where one more would come.
fn versions_at(node: &Node<&[u8; PAGE_SIZE]>, pos: usize, key: &[u8]) -> Checked<usize> {
    let mut count = 0;
    let mut meet = |at: usize| -> Checked<bool> {
        let item = node.item(at)?;
        let equal = node.opens_with(at, &item, key);
        if equal {
            count += node.count_rows(at, &item);
        }
        Ok(equal)
    };
    let mut before = pos;
    while before > 0 && meet(before - 1)? {
        before -= 1;
    }
    let mut after = pos;
    while after < node.count && meet(after)? {
        after += 1;
    }
    Ok(count)
}
