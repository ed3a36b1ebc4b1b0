//! Uniqueness (R8), and removal of dead versions under a key that is written often.
//!
//! The exclusive latch on the first leaf that could hold the key without a row id is the lock on
//! the unique value. It is held from the check to the insertion. Equal keys may continue right of
//! that leaf: the check latches rightwards (R12) and keeps the first leaf.
//!
//! Invariants: an entry is stored only after its key was checked. Entries of dead rows are removed
//! only as the first change of a run, which ends with it.
//! Does not do: wait. The outcome names the transaction to wait for.
//! PostgreSQL: `_bt_check_unique`.

use rightlink_env::Broken;
use rightlink_env::points::broken;

use crate::buffer::{LatchedPage, Mtr};
use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::index::am::{HeapOracle, InsertOutcome, ask};
use crate::index::btree::insert::state::Retry;
use crate::index::btree::insert::{
    BatchInsert, EntryOutcome, InsertStep, KnownPosition, RunEntry, RunLeaf,
};
use crate::index::btree::page::node::{Checked, Node};
use crate::index::btree::page::posting::row_id_of;

/// Dead rows with an equal key that a check passes before it asks which of them can be removed. An
/// update leaves one such row as a rule.
const MIN_DEAD_EQUALS: usize = 2;

/// Under a key that updates keep, dead versions are removed each time that so many more rows have
/// come together on a leaf.
const VERSIONS_PER_REMOVAL: usize = 8;

/// A key that may be inserted.
pub(super) struct UniqueKey {
    /// The latched leaf that its entry belongs to.
    pub(super) held: LatchedPage,
    /// All entries of that leaf before this one are below the key.
    pub(super) from: usize,
}

/// Result of the check of one key on one leaf.
enum KeyCheck {
    /// It may be inserted. So many dead rows have the key. Then the leaf takes the entry, too: its
    /// high key is above the key and does not begin with it.
    Free { dead: usize, from: usize },
    /// Equal keys may continue in the page to the right.
    ContinuesRight,
    /// It may not be inserted, or not yet.
    Stop(InsertOutcome),
}

impl<'a> BatchInsert<'a, '_> {
    /// An update that keeps a key adds an entry for each version, and no uniqueness check meets
    /// them. So now and then the dead ones around the entry's position are removed. False: nothing
    /// was changed.
    pub(super) fn remove_dead_versions(
        &self,
        mtr: &mut Mtr<'a>,
        held: LatchedPage,
        entry: &RunEntry<'_>,
        known: KnownPosition,
    ) -> Result<bool> {
        let KnownPosition::At(found) = known else { return Ok(false) };
        if !self.entries[entry.at].kept {
            return Ok(false);
        }
        let block = mtr.id(held).block.0;
        let damage = |what| self.tree.corrupt(block, what);
        let node = Node::open(mtr.bytes(held)).map_err(damage)?;
        let versions = count_versions(&node, found.pos, entry.key).map_err(damage)?;
        let many = versions > 0 && versions.is_multiple_of(VERSIONS_PER_REMOVAL);
        Ok(many && self.tree.remove_dead_equals(mtr, held, entry.key)?)
    }

    /// Checks that the key of an entry may be inserted (R8). `leaf` is the first one that could
    /// hold it. Returns where the entry belongs, or why it is not inserted now.
    pub(super) fn check_unique(
        &self,
        mtr: &mut Mtr<'a>,
        leaf: &mut RunLeaf,
        entry: &RunEntry<'_>,
        oracle: &dyn HeapOracle,
    ) -> Result<std::result::Result<UniqueKey, EntryOutcome>> {
        let found = entry.is_first.then_some(leaf.found.pos);
        let check = match self.check_leaf(mtr, leaf.held, found, entry, oracle) {
            Err(_) | Ok(KeyCheck::Stop(_) | KeyCheck::ContinuesRight) if !entry.is_first => {
                return Ok(Err(EntryOutcome::NextRun));
            }
            check => check?,
        };
        match check {
            KeyCheck::Free { dead, .. } if dead >= MIN_DEAD_EQUALS && !entry.is_first => {
                Ok(Err(EntryOutcome::NextRun))
            }
            KeyCheck::Free { dead, .. }
                if dead >= MIN_DEAD_EQUALS
                    && self.tree.remove_dead_equals(mtr, leaf.held, entry.key)? =>
            {
                Ok(Err(EntryOutcome::RemovedDead))
            }
            KeyCheck::Free { from, .. } => {
                if entry.is_first && broken(Broken::UniqueLatchReleased) {
                    let pin = mtr.release(leaf.held);
                    leaf.held = mtr.latch(pin);
                }
                Ok(Ok(UniqueKey { held: leaf.held, from }))
            }
            KeyCheck::Stop(outcome) => Ok(Err(EntryOutcome::EndRun(InsertStep::Finished(outcome)))),
            KeyCheck::ContinuesRight => {
                let checked = self.check_right_siblings(mtr, leaf.held, entry, oracle)?;
                Ok(checked.map_err(EntryOutcome::EndRun))
            }
        }
    }

    /// Checks the entries of a leaf that have the key. A search for the key ended at `found`.
    fn check_leaf(
        &self,
        mtr: &Mtr<'_>,
        held: LatchedPage,
        found: Option<usize>,
        entry: &RunEntry<'_>,
        oracle: &dyn HeapOracle,
    ) -> Result<KeyCheck> {
        let check = Node::open(mtr.bytes(held))
            .and_then(|node| check_equal_keys(&node, found, entry, oracle));
        check.map_err(|what| self.tree.corrupt(mtr.id(held).block.0, what))
    }

    /// Moves right while equal keys may continue, latching. Returns where the entry belongs; only
    /// that page and `first` stay latched.
    fn check_right_siblings(
        &self,
        mtr: &mut Mtr<'a>,
        first: LatchedPage,
        entry: &RunEntry<'_>,
        oracle: &dyn HeapOracle,
    ) -> Result<std::result::Result<UniqueKey, InsertStep>> {
        let (mut home, mut current) = (None, first);
        let mut moves = 0;
        loop {
            let block = mtr.id(current).block.0;
            let damage = |what| self.tree.corrupt(block, what);
            let node = Node::open(mtr.bytes(current)).map_err(damage)?;
            let next = node.right;
            if home.is_none() && node.cmp_high(entry.tree_key).is_lt() {
                home = Some(current);
            }
            match self.check_leaf(mtr, current, None, entry, oracle)? {
                KeyCheck::Stop(outcome) => return Ok(Err(InsertStep::Finished(outcome))),
                KeyCheck::ContinuesRight => {}
                KeyCheck::Free { .. } => {
                    let home = home.ok_or_else(|| damage("equal keys end before the key"))?;
                    if current != first && current != home {
                        mtr.release(current);
                    }
                    return Ok(Ok(UniqueKey { held: home, from: 0 }));
                }
            }
            let Some(pin) = self.tree.pool.try_pin(self.tree.page(next)) else {
                return Ok(Err(InsertStep::Retry(Retry::NeedPage(next))));
            };
            moves += 1;
            self.tree.bound_moves(moves)?;
            let held = mtr.latch(pin);
            if current != first && Some(current) != home {
                mtr.release(current);
            }
            current = held;
        }
    }
}

/// Asks the heap about the rows of `node` that have the entry's key (R8). A search for the key
/// ended at `found`.
fn check_equal_keys(
    node: &Node<&[u8; PAGE_SIZE]>,
    found: Option<usize>,
    entry: &RunEntry<'_>,
    oracle: &dyn HeapOracle,
) -> Checked<KeyCheck> {
    let key = entry.key;
    let from = found.map_or_else(|| node.search(key).map(|found| found.pos), Ok)?;
    let (own, mut pos) = (row_id_of(entry.tree_key)?, from);
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
    if let Some(outcome) = ask(&rows, entry.at, oracle) {
        return Ok(KeyCheck::Stop(outcome));
    }
    let high = if pos == node.count { node.high() } else { None };
    let continues = high.is_some_and(|high| high.starts_with(key));
    Ok(if continues { KeyCheck::ContinuesRight } else { KeyCheck::Free { dead: rows.len(), from } })
}

/// How many rows of the leaf have `key`, around entry `pos`, in front of which one more would be
/// inserted.
fn count_versions(node: &Node<&[u8; PAGE_SIZE]>, pos: usize, key: &[u8]) -> Checked<usize> {
    let mut count = 0;
    let mut add_equal = |at: usize| -> Checked<bool> {
        let item = node.item(at)?;
        let equal = node.opens_with(at, &item, key);
        if equal {
            count += node.count_rows(at, &item);
        }
        Ok(equal)
    };
    let mut before = pos;
    while before > 0 && add_equal(before - 1)? {
        before -= 1;
    }
    let mut after = pos;
    while after < node.count && add_equal(after)? {
        after += 1;
    }
    Ok(count)
}
