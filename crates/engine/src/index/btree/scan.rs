//! Scans, a leaf at a time, and the dead marks that scans leave behind.
//!
//! A scan keeps what is left of its range and the link to the next leaf. After a leaf everything up
//! to its fence has been handed over, so the fence becomes the new end of the range. A step over a
//! link counts only if the neighbour's fence is that very one; else (a split, a merge, a reused
//! page) the scan descends again to where its range begins now (R5). Nothing is latched or pinned
//! between two batches.
//!
//! Invariants: no entry is handed over twice, none that is there from the first call to the last is
//! missed, in either direction. Marks are set only under the exclusive latch, for entries found
//! again by key and row id and after the caller's check ran under it (R3); they are hints and not
//! logged.
//! Does not do: visibility; fetch rows.

use std::cmp::Ordering;

use rightlink_env::points::broken;

use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::{PageId, RowId};
use crate::index::am::{Clock, LeafBatch, ScanOptions};
use crate::index::btree::ahead::LeavesAhead;
use crate::index::btree::node::{Checked, DEAD, HAS_DEAD, Item, Node, POSTING, SLOT, is_node};
use crate::index::btree::posting::{Member, Spot};
use crate::index::btree::search::{Aim, Place, place_on};
use crate::index::btree::{BTree, Optimisations, Tree, tree_key};
use crate::index::search_key::{Direction, KeyRange};
use crate::page::PageMut;
use crate::page::header::{FLAGS, HEADER_SIZE, lsn};

/// A scan of one range.
pub(crate) struct TreeScan {
    tree: BTree,
    /// What has not been handed over yet.
    rest: KeyRange,
    options: ScanOptions,
    /// Neighbour of the last leaf, 0: descend.
    link: u32,
    /// The last leaf and its neighbour, where a new range may begin; 0: none.
    near: [u32; 2],
    done: bool,
    scratch: Vec<u8>,
    members: Vec<Member>,
    ahead: LeavesAhead,
}

impl TreeScan {
    pub(crate) fn new(tree: BTree, range: KeyRange, options: ScanOptions) -> TreeScan {
        let done = range.is_empty();
        TreeScan {
            tree,
            rest: range,
            options,
            link: 0,
            near: [0; 2],
            done,
            scratch: Vec::new(),
            members: Vec::new(),
            ahead: LeavesAhead::default(),
        }
    }

    /// See [`crate::index::am::IndexScan::next_batch`].
    pub(crate) fn advance(&mut self, clock: Clock<'_>, batch: &mut LeafBatch) -> Result<bool> {
        batch.reset(PageId::default(), 0);
        while !self.done && batch.is_empty() {
            if !self.step_over_link(clock, batch)? && !self.start_near(clock, batch)? {
                self.ahead.lost();
                self.descend(clock, batch)?;
            }
            if !self.done {
                self.ahead.look(&self.tree.0, &self.rest, self.options.direction);
            }
        }
        Ok(!batch.is_empty())
    }

    /// See [`crate::index::am::IndexScan::restart`].
    pub(crate) fn begin_again(&mut self, range: KeyRange) {
        self.ahead.lost();
        self.done = range.is_empty();
        self.rest = range;
        self.near[1] = std::mem::take(&mut self.link);
    }

    /// See [`crate::index::am::IndexScan::hand_back`].
    pub(crate) fn hand_back(&mut self, batch: &mut LeafBatch, keep: usize) {
        let tree_key_of = |at: usize| tree_key(batch.key(at), batch.entries[at].row);
        let end = match self.options.direction {
            Direction::Forward => tree_key_of(keep),
            Direction::Backward => tree_key_of(keep - 1),
        };
        match self.options.direction {
            Direction::Forward => self.rest.low.clone_from(&end),
            Direction::Backward => self.rest.high = Some(end.clone()),
        }
        batch.cut(keep, end, self.options.direction);
        (self.link, self.done) = (0, false);
        self.ahead.lost();
    }

    /// Reads the leaf that was read last, or its neighbour, if the range begins there: fences say
    /// so under the latch, whatever became of the page (R6).
    fn start_near(&mut self, clock: Clock<'_>, batch: &mut LeafBatch) -> Result<bool> {
        let near = std::mem::take(&mut self.near);
        let forward = self.options.direction == Direction::Forward;
        if !forward || !self.tree.0.uses(Optimisations::CURSORS) {
            return Ok(false);
        }
        let tree = self.tree.clone();
        for block in near.into_iter().filter(|block| *block != 0) {
            let Some(pin) = tree.0.pool.try_pin(tree.0.page(block)) else { continue };
            let sample = clock();
            let page = pin.shared();
            let damage = |what| Error::corrupt(pin.page(), what);
            let place = place_on(page.bytes(), Aim::At(&self.rest.low), 0).map_err(damage)?;
            if matches!(place, Place::Here(_)) {
                batch.reset(pin.page(), sample);
                let node = Node::open(page.bytes()).map_err(damage)?;
                self.copy(&node, batch).map_err(damage)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the neighbour, if it still is one.
    fn step_over_link(&mut self, clock: Clock<'_>, batch: &mut LeafBatch) -> Result<bool> {
        if self.link == 0 {
            return Ok(false);
        }
        let tree = self.tree.clone();
        let near = tree.0.pool.is_resident(tree.0.page(self.link));
        self.ahead.came_to(near, &tree.0.pool);
        let pin = tree.0.pin_linked(self.link)?;
        let sample = clock();
        let page = pin.shared();
        self.link = 0;
        if !is_node(page.bytes()) {
            return Ok(false);
        }
        let damage = |what| Error::corrupt(pin.page(), what);
        let node = Node::open(page.bytes()).map_err(damage)?;
        let joined = broken("r5-link") || self.continues(&node);
        if joined {
            batch.reset(pin.page(), sample);
            self.copy(&node, batch).map_err(damage)?;
        }
        Ok(joined)
    }

    /// Does this page begin (or end) exactly where the last one ended (or began)?
    fn continues(&self, node: &Node<&[u8; PAGE_SIZE]>) -> bool {
        node.is_leaf()
            && match self.options.direction {
                Direction::Forward => node.cmp_low(&self.rest.low) == Ordering::Equal,
                Direction::Backward => {
                    node.right != 0 && node.high().as_deref() == self.rest.high.as_deref()
                }
            }
    }

    fn descend(&mut self, clock: Clock<'_>, batch: &mut LeafBatch) -> Result<()> {
        let tree = self.tree.clone();
        let _registered = tree.0.registrations.enter();
        let rest = self.rest.clone();
        let aim = match self.options.direction {
            Direction::Forward => Aim::At(&rest.low),
            Direction::Backward => Aim::Before(rest.high.as_deref()),
        };
        let mut sample = 0;
        let sampled = std::cell::Cell::new(0);
        tree.0.read_leaf(
            aim,
            || sampled.set(clock()),
            |page, node, _| {
                sample = sampled.get();
                batch.reset(page.pin().page(), sample);
                self.copy(node, batch)
            },
        )
    }

    /// Copies the matches of a leaf and moves on.
    fn copy(&mut self, node: &Node<&[u8; PAGE_SIZE]>, batch: &mut LeafBatch) -> Checked<()> {
        batch.lsn = lsn(node.page);
        let low = node.low();
        let from = if low.as_slice() >= self.rest.low.as_slice() {
            0
        } else {
            node.search(&self.rest.low)?.pos
        };
        let high = node.high();
        let ends_inside = match (&self.rest.high, &high) {
            (None, _) => false,
            (Some(end), Some(high)) => end < high,
            (Some(_), None) => true,
        };
        let to = match &self.rest.high {
            Some(end) if ends_inside => node.search(end)?.pos,
            _ => node.count,
        };
        // A list that begins in front of the range may reach into it.
        let from = from - usize::from(from > 0 && node.is_list(from - 1));
        match self.options.direction {
            Direction::Forward => (from..to).try_for_each(|i| self.push(node, i, batch))?,
            Direction::Backward => (from..to).rev().try_for_each(|i| self.push(node, i, batch))?,
        }
        self.near[0] = batch.leaf.block.0;
        batch.set_fences(&self.rest, &low, high.as_deref());
        self.move_on(node, low, high)
    }

    fn push(
        &mut self,
        node: &Node<&[u8; PAGE_SIZE]>,
        i: usize,
        batch: &mut LeafBatch,
    ) -> Checked<()> {
        if node.is_list(i) {
            return self.push_list(node, i, batch);
        }
        if node.is_dead(i) && !self.options.with_dead {
            return Ok(());
        }
        self.scratch.clear();
        let item = node.append_key(i, &mut self.scratch)?;
        let (key, row) = split_key(&self.scratch)?;
        batch.push(key, row, payload(node, &item)?);
        Ok(())
    }

    /// The rows of a posting list that are inside the range.
    fn push_list(
        &mut self,
        node: &Node<&[u8; PAGE_SIZE]>,
        i: usize,
        batch: &mut LeafBatch,
    ) -> Checked<()> {
        node.members(i, &mut self.members)?;
        if self.options.direction == Direction::Backward {
            self.members.reverse();
        }
        self.scratch.clear();
        node.append_key(i, &mut self.scratch)?;
        let end = self.scratch.len() - RowId::SIZE;
        let mut first = true;
        for member in self.members.iter().filter(|m| !m.dead || self.options.with_dead) {
            self.scratch[end..].copy_from_slice(&member.row.to_bytes());
            if !self.rest.contains(&self.scratch) {
                continue;
            }
            match std::mem::take(&mut first) {
                true => batch.push(&self.scratch[..end], member.row, &[]),
                false => batch.push_row(member.row),
            }
        }
        Ok(())
    }

    /// The range is what lies beyond this leaf.
    fn move_on(
        &mut self,
        node: &Node<&[u8; PAGE_SIZE]>,
        low: Vec<u8>,
        high: Option<Vec<u8>>,
    ) -> Checked<()> {
        let ahead = match self.options.direction {
            Direction::Forward => high.as_ref().is_none_or(|high| *high > self.rest.low),
            Direction::Backward => self.rest.high.as_ref().is_none_or(|high| low < *high),
        };
        if !ahead {
            return Err("the fences of a leaf do not lead on");
        }
        match self.options.direction {
            Direction::Forward => {
                self.done = high.is_none();
                self.rest.low = high.unwrap_or_default();
                self.link = node.right;
            }
            Direction::Backward => {
                self.done = low.is_empty();
                self.rest.high = Some(low);
                self.link = node.left;
            }
        }
        self.done |= self.rest.is_empty();
        Ok(())
    }
}

/// Encoded key and row id of a tree key.
pub(crate) fn split_key(key: &[u8]) -> Checked<(&[u8], RowId)> {
    let (key, row) = key.split_last_chunk::<{ RowId::SIZE }>().ok_or("a key without a row id")?;
    Ok((key, RowId::from_bytes(*row)))
}

/// Payload of an entry without posting list.
pub(crate) fn payload<'a>(node: &Node<&'a [u8; PAGE_SIZE]>, item: &Item) -> Checked<&'a [u8]> {
    debug_assert!(item.tags & POSTING == 0);
    node.page.get(item.extra..item.extra + item.extra_len()).ok_or("a payload outside the page")
}

/// Leaves to the right of the remembered one that are searched for entries that moved.
const MAX_HOPS: usize = 4;

impl Tree {
    /// See [`crate::index::am::AccessMethod::mark_dead`].
    pub(crate) fn mark_dead(
        &self,
        batch: &LeafBatch,
        positions: &[usize],
        only_unchanged: bool,
        check: &mut dyn FnMut(RowId) -> bool,
    ) -> usize {
        let mut keys: Vec<Vec<u8>> =
            positions.iter().map(|at| tree_key(batch.key(*at), batch.entries[*at].row)).collect();
        keys.sort_unstable();
        let (mut marked, mut leaf) = (0, batch.leaf);
        for _ in 0..MAX_HOPS {
            let Some(pin) = self.pool.try_pin(leaf).filter(|_| !keys.is_empty()) else { break };
            let mut right = None;
            let ran = pin.hint(None, |page| {
                if only_unchanged && lsn(page.bytes()) != batch.lsn {
                    return;
                }
                let outcome = mark_on(page, &mut keys, check);
                (marked, right) = (marked + outcome.0, outcome.1);
            });
            match right {
                Some(block) if ran => leaf = self.page(block),
                _ => break,
            }
        }
        marked
    }
}

/// Marks those of the sorted `keys` that belong to this leaf, and drops them from the list. Returns
/// how many and, if larger keys are left, the right link to follow. The leaf is judged afresh: it
/// may be another one (R6).
fn mark_on(
    page: &mut PageMut<'_>,
    keys: &mut Vec<Vec<u8>>,
    check: &mut dyn FnMut(RowId) -> bool,
) -> (usize, Option<u32>) {
    let (mut words, mut bytes) = (Vec::new(), Vec::new());
    let (flags, right) = {
        let Ok(node) = Node::open(page.bytes()) else { return (0, None) };
        if !node.is_leaf() || keys.first().is_none_or(|key| node.cmp_low(key).is_lt()) {
            return (0, None);
        }
        let mine = keys.iter().take_while(|key| node.cmp_high(key).is_lt()).count();
        for key in keys.drain(..mine) {
            let Ok(found) = node.search(&key) else { return (0, None) };
            let Ok(row) = split_key(&key).map(|(_, row)| row) else { return (0, None) };
            match node.locate(found, &key) {
                Ok(Spot::There(entry, 0)) if !node.is_dead(entry) && check(row) => {
                    words.push((entry, node.word(entry) | DEAD));
                }
                Ok(Spot::There(entry, at)) if at > 0 => {
                    bytes.extend(hint_of(&node, entry, at).filter(|_| check(row)));
                }
                Ok(_) => {}
                Err(_) => return (0, None),
            }
        }
        (node.flags, node.right)
    };
    for (pos, word) in &words {
        page.write_unlogged(HEADER_SIZE + pos * SLOT, &word.to_le_bytes());
    }
    for at in &bytes {
        let byte = page.bytes()[*at] | 1;
        page.write_unlogged(*at, &[byte]);
    }
    let marked = words.len() + bytes.len();
    if marked > 0 && flags & HAS_DEAD == 0 {
        page.write_unlogged(FLAGS, &(flags | HAS_DEAD).to_le_bytes());
    }
    (marked, (right != 0 && !keys.is_empty()).then_some(right))
}

/// The byte with the hint of member `at` of a list, unless it is marked dead already.
fn hint_of(node: &Node<&[u8; PAGE_SIZE]>, entry: usize, at: usize) -> Option<usize> {
    let mut members = Vec::new();
    node.members(entry, &mut members).ok()?;
    let member = members.get(at).filter(|member| !member.dead)?;
    Some(node.item(entry).ok()?.extra + member.hint)
}
