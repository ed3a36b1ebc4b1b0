//! Range scans, one leaf at a time, in both directions.
//!
//! A scan keeps the rest of its range and the link to the next leaf. After each leaf the rest
//! begins (or ends) at that leaf's fence. A step over a link counts only if the neighbour's fence
//! equals that one; else, after a split, merge or reuse, the scan descends to where the rest
//! begins (R5). A skip scan (`skip`) continues at the next wanted key; a leaf found there counts
//! if its fences contain it (R6).
//!
//! Invariants: no entry is handed over twice, and none that is there from the first call to the
//! last is missed. Nothing is latched or pinned between two batches.
//! Does not do: visibility; fetch rows.
//! PostgreSQL: `_bt_first`, `_bt_readpage`, `_bt_steppage`.

mod lookup;
pub(crate) mod mark_dead;
mod skip;

use rightlink_env::Broken;
use std::cmp::Ordering;

use rightlink_env::points::broken;
use rightlink_env::sync::Arc;

use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::{PageId, RowId};
use crate::index::am::{Clock, IndexScan, LeafBatch, ScanOptions};
use crate::index::btree::counters::count;
use crate::index::btree::optimisations::Optimisation;
use crate::index::btree::page::node::{Checked, Node, is_node};
use crate::index::btree::page::posting::PostingRow;
use crate::index::btree::page::tree_key::{split_key, tree_key};
use crate::index::btree::scan::skip::{Continuation, SkipFilter, SkipHistory};
use crate::index::btree::search::SearchTarget;
use crate::index::btree::search::cursor::{LeafAt, LeafCursor};
use crate::index::btree::search::prefetch::{LeafPrefetch, RangePrefetch};
use crate::index::btree::tree::Tree;
use crate::index::search_key::{Direction, KeyRange, KeySet};
use crate::page::header::lsn;

/// A scan of one range.
pub(crate) struct TreeScan {
    tree: Arc<Tree>,
    /// The rest of the range.
    rest: KeyRange,
    /// The wanted keys of the range; `None`: all.
    keys: Option<Arc<KeySet>>,
    options: ScanOptions,
    /// The next leaf along the link; 0: descend.
    link: u32,
    /// The last leaf and its neighbour, where the rest may begin; 0: none.
    near: [u32; 2],
    cursor: LeafCursor,
    skips: SkipHistory,
    /// The last leaf's neighbour on the side that the scan came from.
    back: u32,
    done: bool,
    scratch: Vec<u8>,
    bound: Vec<u8>,
    members: Vec<PostingRow>,
    prefetch: LeafPrefetch,
    range_prefetch: RangePrefetch,
}

impl TreeScan {
    pub(crate) fn new(
        tree: &Arc<Tree>,
        range: KeyRange,
        keys: Option<Arc<KeySet>>,
        options: ScanOptions,
    ) -> TreeScan {
        let done = range.is_empty();
        // Wanted keys may be far from each other.
        let expected = if keys.is_none() { options.expected } else { 0 };
        let prefetch = LeafPrefetch::expecting(expected, &tree.pool);
        TreeScan {
            tree: Arc::clone(tree),
            rest: range,
            keys,
            options,
            link: 0,
            near: [0; 2],
            cursor: LeafCursor::default(),
            skips: SkipHistory::default(),
            back: 0,
            done,
            scratch: Vec::new(),
            bound: Vec::new(),
            members: Vec::new(),
            prefetch,
            range_prefetch: RangePrefetch::default(),
        }
    }
}

impl IndexScan for TreeScan {
    fn next_batch(&mut self, clock: Clock<'_>, batch: &mut LeafBatch) -> Result<bool> {
        batch.reset(PageId::default(), 0);
        while !self.done && batch.is_empty() {
            if !self.follow_link(clock, batch)? {
                self.descend_to_range(clock, batch)?;
            }
            if !self.done && self.skips.skipped_neighbour == 0 {
                self.prefetch.advance(&self.tree, &self.rest, self.options.direction);
            }
        }
        Ok(!batch.is_empty())
    }

    fn hand_back(&mut self, batch: &mut LeafBatch, keep: usize) {
        let tree_key_of = |at: usize| tree_key(batch.key(at), batch.entries[at].row);
        let end = match self.options.direction {
            Direction::Forward => tree_key_of(keep),
            Direction::Backward => tree_key_of(keep - 1),
        };
        match self.options.direction {
            Direction::Forward => self.rest.low.clone_from(&end),
            Direction::Backward => self.rest.high = Some(end.clone()),
        }
        self.near = [batch.leaf.block.0, 0];
        batch.cut(keep, end, self.options.direction);
        (self.link, self.skips.skipped_neighbour, self.done) = (0, 0, false);
        self.prefetch.reset();
    }

    fn restart(&mut self, range: KeyRange) {
        self.prefetch.reset();
        self.done = range.is_empty();
        self.rest = range;
        (self.link, self.skips.skipped_neighbour) = (0, 0);
    }
}

impl TreeScan {
    /// Reads the next leaf along the link. False: its fence is not the expected one.
    fn follow_link(&mut self, clock: Clock<'_>, batch: &mut LeafBatch) -> Result<bool> {
        if self.link == 0 {
            return Ok(false);
        }
        let tree = Arc::clone(&self.tree);
        let near = tree.pool.is_resident(tree.page(self.link));
        self.prefetch.note_step(near, &tree.pool);
        let pin = tree.pin_linked(self.link)?;
        let sample = clock();
        let page = pin.shared();
        self.link = 0;
        if !is_node(page.bytes()) {
            return Ok(false);
        }
        let damage = |what| Error::corrupt(pin.page(), what);
        let node = Node::open(page.bytes()).map_err(damage)?;
        let joined = broken(Broken::LinkNotChecked) || self.joins_range(&node);
        if joined {
            self.skips.note_link_step();
            batch.reset(pin.page(), sample);
            self.copy_matches(&node, batch).map_err(damage)?;
        }
        Ok(joined)
    }

    /// Does this page begin (or end) exactly where the last leaf ended (or began)?
    fn joins_range(&self, node: &Node<&[u8; PAGE_SIZE]>) -> bool {
        node.is_leaf()
            && match self.options.direction {
                Direction::Forward => node.cmp_low(&self.rest.low) == Ordering::Equal,
                Direction::Backward => {
                    node.right != 0 && node.high().as_deref() == self.rest.high.as_deref()
                }
            }
    }

    /// Reads the leaf where the rest begins: a remembered one, or one that a descent finds.
    fn descend_to_range(&mut self, clock: Clock<'_>, batch: &mut LeafBatch) -> Result<()> {
        let (tree, rest, direction) =
            (Arc::clone(&self.tree), self.rest.clone(), self.options.direction);
        self.prefetch.reset();
        let over = std::mem::take(&mut self.skips.skipped_neighbour);
        if over == 0 {
            self.prefetch.advance(&tree, &rest, direction);
        }
        let _registered = tree.registrations.register();
        // If the last leaf was a remembered one, the next will be, too.
        if let Some(ranges) = self.keys.as_ref().and_then(|keys| keys.ranges())
            && over != 0
            && self.cursor.descended()
        {
            self.range_prefetch.advance(&tree, ranges, &rest, direction);
        }
        let target = match direction {
            Direction::Forward => SearchTarget::At(&rest.low),
            Direction::Backward => SearchTarget::Before(rest.high.as_deref()),
        };
        let sampled = std::cell::Cell::new(0);
        let mut cursor = self.cursor;
        cursor.set_near(std::mem::take(&mut self.near));
        let result = cursor.read(
            &tree,
            target,
            || sampled.set(clock()),
            |LeafAt { page, node, .. }| {
                batch.reset(page, sampled.get());
                self.copy_matches(&node, batch)
            },
        );
        self.cursor = cursor;
        if over != 0 && cursor.descended() {
            self.skips.note_descent(over, batch.leaf.block.0, self.back);
        }
        result
    }

    /// Copies the matches of a leaf, and advances the range.
    fn copy_matches(
        &mut self,
        node: &Node<&[u8; PAGE_SIZE]>,
        batch: &mut LeafBatch,
    ) -> Checked<()> {
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
        // A posting list that begins before the range may reach into it.
        let from = from - usize::from(from > 0 && node.is_list(from - 1));
        let before = batch.len();
        let continuation = match (self.keys.clone(), self.options.direction) {
            (Some(keys), direction) => {
                let mut bound = std::mem::take(&mut self.bound);
                let mut filter = SkipFilter { keys: &keys, direction, bound: &mut bound };
                let continuation = filter.filter(node, from..to, |i| self.push(node, i, batch));
                self.bound = bound;
                continuation?
            }
            (None, Direction::Forward) => {
                (from..to).try_for_each(|i| self.push(node, i, batch))?;
                Continuation::Next
            }
            (None, Direction::Backward) => {
                (from..to).rev().try_for_each(|i| self.push(node, i, batch))?;
                Continuation::Next
            }
        };
        self.skips.note_leaf(batch.len() > before);
        count(|c| c.leaves += 1);
        batch.set_fences(&self.rest, &low, high.as_deref());
        self.near = [batch.leaf.block.0, 0];
        self.advance_range(node, low, high)?;
        self.skip(node, continuation);
        Ok(())
    }

    /// Continues at the bound of the filter, if it is beyond the neighbour's fence.
    fn skip(&mut self, node: &Node<&[u8; PAGE_SIZE]>, continuation: Continuation) {
        self.done |= continuation == Continuation::Ended;
        let beyond = match self.options.direction {
            Direction::Forward => self.bound > self.rest.low,
            Direction::Backward => self.rest.high.as_ref().is_none_or(|end| self.bound < *end),
        };
        let skips = self.skips.may_skip() && self.tree.uses(Optimisation::Cursors);
        if self.done || continuation != Continuation::Beyond || !beyond || !skips {
            return;
        }
        let next = match self.options.direction {
            Direction::Forward => {
                self.rest.low.clone_from(&self.bound);
                node.right
            }
            Direction::Backward => {
                self.rest.high = Some(self.bound.clone());
                node.left
            }
        };
        (self.link, self.near, self.skips.skipped_neighbour) = (0, [next, 0], next);
        self.done = self.rest.is_empty();
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
        batch.push_with(|bytes| {
            let from = bytes.len();
            let item = node.append_key(i, bytes)?;
            let (key, row) = split_key(&bytes[from..])?;
            let end = from + key.len();
            bytes.truncate(end);
            Ok((row, node.payload(&item)?))
        })
    }

    /// Copies the rows of a posting list that are inside the range.
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
            if !self.rest.contains(&self.scratch) && !broken(Broken::ListNotCutToRange) {
                continue;
            }
            match std::mem::take(&mut first) {
                true => batch.push(&self.scratch[..end], member.row, &[]),
                false => batch.push_row(member.row),
            }
        }
        Ok(())
    }

    /// Reduces the range to what lies beyond this leaf.
    fn advance_range(
        &mut self,
        node: &Node<&[u8; PAGE_SIZE]>,
        low: Vec<u8>,
        high: Option<Vec<u8>>,
    ) -> Checked<()> {
        let prefetch = match self.options.direction {
            Direction::Forward => high.as_ref().is_none_or(|high| *high > self.rest.low),
            Direction::Backward => self.rest.high.as_ref().is_none_or(|high| low < *high),
        };
        if !prefetch {
            return Err("the fences of a leaf do not lead on");
        }
        match self.options.direction {
            Direction::Forward => {
                self.done = high.is_none();
                self.rest.low = high.unwrap_or_default();
                (self.link, self.back) = (node.right, node.left);
            }
            Direction::Backward => {
                self.done = low.is_empty();
                self.rest.high = Some(low);
                (self.link, self.back) = (node.left, node.right);
            }
        }
        self.near[1] = self.link;
        self.done |= self.rest.is_empty();
        Ok(())
    }
}
