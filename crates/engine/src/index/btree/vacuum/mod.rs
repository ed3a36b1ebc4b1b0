//! One pass over all pages in physical order: dead entries leave, then empty pages, then underfull
//! ones go into their neighbours.
//!
//! A page that splits during the pass may send entries to a block that the pass has left behind.
//! Every split stamps the pass's cycle id on both halves; when a page with the current id has a
//! right link to a lower block, the pass follows it (R5). The splitter reads the id after it has
//! latched the new page, so a pass that saw that block before the split is a pass whose id the
//! splitter sees.
//!
//! The last blocks are those that the file has after the last visit, not those that it had when
//! reading ahead met its end: a split right of the pass may have sent entries to a block in
//! between, and nothing is followed there, since it is still to come.
//!
//! A pass may be done in parts, ranges of blocks, by several threads. A part cannot know how far
//! the others are, so it follows to every block but those of its own range that it will still come
//! to; that a page is visited twice does no harm, but that its entries may be counted twice.
//!
//! A chain of such pages may be as long as all splits since the pass began, and each of its pages a
//! place to follow it from. So a part remembers the pages that it followed from, and stops at one
//! of them unless that has taken in its left sibling, or entries of it, since it was visited. That
//! suffices:
//! - Who follows links for an entry comes only to pages whose low fence is not above its key: along
//!   the chain the next low fence is the high key that was passed, fences move only down, and a
//!   free page leads to the one that took over its low fence.
//! - A page that took nothing in has the low fence that it had when it was visited. So the entry,
//!   whose key is not below that, was there or right of there, then: it left, or was followed.
//! - A page that was free when it was visited stays so, and leads where it led: the pass was
//!   registered before anybody could stamp its id on a page that became free (R6).
//!
//! Other merges do not matter, nor does that of the page itself into its right sibling: its own
//! entries were visited, and whatever went there past it was merged into that sibling, which knows.
//! (The left sibling does not say what a page took in. It may be split, its upper half merged into
//! the page, and the page is right of the same sibling again.)
//!
//! Invariants: a page without dead entries is latched shared only; what is removed under the
//! exclusive latch was judged dead by the same bytes. Row ids in the dead set are not reused before
//! the pass has ended (R3).
//! Does not do: decide which rows are dead; two passes at once.

mod delete;
mod merge;

use rightlink_env::points::{broken, hit};
use rightlink_env::sync::{AtomicU32, Mutex, MutexGuard, Ordering};
use std::collections::BTreeMap;
use std::ops::Range;

use crate::buffer::{Mtr, Pin, ReadStream, StreamOptions};
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::{RowId, Xid};
use crate::index::am::{Between, BulkDelete, IsDead, VacuumStats};
use crate::index::btree::page::node::{Checked, Node, RIGHT, cycle_of, is_node};
use crate::index::btree::page::posting::RowPosition;
use crate::index::btree::page::remove::LeafRemoval;
use crate::index::btree::tree::Registration;
use crate::index::btree::tree::Tree;
use crate::page::PageKind;
use crate::page::header::{KIND, is_zero, u32_at};
use crate::wal::RecordKind;

/// Pages that a part remembers, twice this many at most: 2 MiB.
const REMEMBERED: usize = 1 << 14;

/// The cycle id is valid while this lives.
struct CycleGuard<'a>(&'a AtomicU32);

impl Drop for CycleGuard<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::SeqCst);
    }
}

/// A pass under way.
pub(crate) struct VacuumPass<'a> {
    tree: &'a Tree,
    /// Blocks of each part; the last one goes on to the end of the file, wherever that will be.
    parts: Vec<Range<u32>>,
    found: Mutex<VacuumFindings>,
    /// A page that is merged while the pass runs says where its keys went, until it is used again:
    /// not before all parts have been done (R6).
    registered: Mutex<Option<Registration<'a>>>,
    // Before the turn: no other pass has begun when the id is taken back.
    cycle_is_valid: CycleGuard<'a>,
    turn: MutexGuard<'a, u32>,
    /// Blocks that the meta page names and nobody has asked for.
    hints: Vec<u32>,
}

/// What parts found.
#[derive(Default)]
struct VacuumFindings {
    stats: VacuumStats,
    empty: Vec<u32>,
    underfull: Vec<u32>,
}

/// A part under way.
struct PassPart<'a> {
    tree: &'a Tree,
    cycle: u32,
    blocks: Range<u32>,
    hints: &'a [u32],
    followed: FollowedPages,
    found: VacuumFindings,
    leaf: LeafRows,
}

/// Memory for what is read of a leaf, for the next one.
#[derive(Default)]
struct LeafRows {
    rows: Vec<RowId>,
    dead: Vec<bool>,
    /// How many rows each entry has, where there are posting lists.
    counts: Vec<usize>,
}

/// Pages that were visited and followed from. Those that were met longest ago are forgotten where
/// there are too many; that costs a visit.
#[derive(Default)]
struct FollowedPages {
    lately: BTreeMap<u32, PageVisit>,
    before: BTreeMap<u32, PageVisit>,
}

/// The visit of a page.
#[derive(Clone, Copy)]
struct PageVisit {
    /// Merges into the page that had been made before.
    merges: u64,
    /// Entries that stayed.
    live: u64,
}

impl FollowedPages {
    fn note(&mut self, block: u32, visit: PageVisit) {
        if self.lately.len() >= REMEMBERED {
            self.before = std::mem::take(&mut self.lately);
        }
        self.lately.insert(block, visit);
    }

    fn get(&self, block: u32) -> Option<PageVisit> {
        self.lately.get(&block).or_else(|| self.before.get(&block)).copied()
    }
}

/// A leaf, judged.
struct LeafVerdict {
    count: usize,
    /// Dead rows, by entry and place in it.
    dead: Vec<RowPosition>,
    /// Right link to follow, if the page was split during this pass.
    follow: Option<u32>,
    /// Should it be merged with a neighbour when the pass is over?
    underfull: bool,
}

impl Tree {
    /// See [`crate::index::am::AccessMethod::begin_delete`].
    pub(crate) fn begin_delete(&self, parts: usize) -> VacuumPass<'_> {
        let mut turn = self.vacuum.lock();
        *turn = turn.wrapping_add(1).max(1);
        // First: what is merged under the new id is not used again before the pass is over (R6).
        let early = (!broken("r6-registered")).then(|| self.registrations.register());
        self.cycle.store(*turn, Ordering::SeqCst);
        hit("btree.vacuum.begun");
        let registered = Mutex::new(Some(early.unwrap_or_else(|| self.registrations.register())));
        let blocks = self.pool.blocks(self.file).max(2);
        VacuumPass {
            tree: self,
            parts: ranges(1..blocks, parts),
            found: Mutex::default(),
            registered,
            cycle_is_valid: CycleGuard(&self.cycle),
            turn,
            hints: self.blocks.hints(),
        }
    }
}

/// Cuts `blocks` into at most `parts` ranges; the last one has no end.
fn ranges(blocks: Range<u32>, parts: usize) -> Vec<Range<u32>> {
    let parts = u32::try_from(parts).unwrap_or(u32::MAX).clamp(1, blocks.end - blocks.start);
    let len = (blocks.end - blocks.start).div_ceil(parts);
    let mut ranges: Vec<Range<u32>> = Vec::new();
    let mut start = blocks.start;
    while start < blocks.end {
        ranges.push(start..start.saturating_add(len));
        start = start.saturating_add(len);
    }
    ranges.last_mut().expect("at least one block").end = u32::MAX;
    ranges
}

impl BulkDelete for VacuumPass<'_> {
    fn parts(&self) -> usize {
        self.parts.len()
    }

    fn run(&self, part: usize, is_dead: IsDead<'_>, between: Between<'_>) -> Result<()> {
        assert!(self.registered.lock().is_some(), "the pass has not been finished");
        let mut part = PassPart {
            tree: self.tree,
            cycle: *self.turn,
            blocks: self.parts[part].clone(),
            hints: &self.hints,
            followed: FollowedPages::default(),
            found: VacuumFindings::default(),
            leaf: LeafRows::default(),
        };
        part.run(is_dead, between)?;
        let mut all = self.found.lock();
        all.stats.live += part.found.stats.live;
        all.stats.removed += part.found.stats.removed;
        all.stats.pages_changed += part.found.stats.pages_changed;
        all.empty.append(&mut part.found.empty);
        all.underfull.append(&mut part.found.underfull);
        Ok(())
    }

    fn finish(&self, between: Between<'_>) -> Result<VacuumStats> {
        assert_eq!(self.cycle_is_valid.0.load(Ordering::SeqCst), *self.turn, "one pass at a time");
        drop(self.registered.lock().take());
        let mut found = std::mem::take(&mut *self.found.lock());
        found.delete_empty_pages(self.tree, between)?;
        found.merge_underfull(self.tree, between)?;
        found.stats.pages_free = self.tree.save_free()?;
        found.stats.blocks = self.tree.pool.blocks(self.tree.file);
        Ok(found.stats)
    }
}

impl PassPart<'_> {
    fn run(&mut self, is_dead: IsDead<'_>, between: Between<'_>) -> Result<()> {
        let (tree, end) = (self.tree, self.blocks.end);
        let mut next = self.blocks.start;
        loop {
            let mut stream = ReadStream::new(&tree.pool, StreamOptions::ORDERED, || {
                let block = next;
                let within = block < end && block < tree.pool.blocks(tree.file);
                next += u32::from(within);
                Ok(within.then(|| (tree.page(block), block)))
            });
            while let Some((pin, block)) = stream.next()? {
                self.visit_chain(pin, block, is_dead)?;
                between(1)?;
            }
            drop(stream);
            // Looking ahead, the stream may have met the end of the file when the last visits were
            // still to come, and the pages that grew there since are to come as well. Those that
            // grow from now on get nothing that was not visited.
            if next >= end.min(tree.pool.blocks(tree.file)) || broken("r5-end") {
                return Ok(());
            }
        }
    }

    /// May this part, which is at `start`, or another one have passed `block` already?
    fn is_passed(&self, block: u32, start: u32) -> bool {
        match broken("r5-parts") {
            true => block < start,
            false => block != start && !(start..self.blocks.end).contains(&block),
        }
    }

    /// A block, and what its page sent to blocks that may have been passed.
    fn visit_chain(&mut self, pin: Pin, start: u32, is_dead: IsDead<'_>) -> Result<()> {
        hit("btree.vacuum.visit");
        let mut follow = self.visit(pin, start, is_dead)?;
        let mut moves = 0;
        while let Some(block) = follow.filter(|block| self.is_passed(*block, start)) {
            hit("btree.vacuum.follow");
            moves += 1;
            self.tree.bound_moves(moves)?;
            if self.is_followed(block) {
                break;
            }
            follow = self.visit(self.tree.pin_linked(block)?, block, is_dead)?;
        }
        // The next chain most likely leads here: remembered last, it is forgotten last.
        if moves > 0
            && let Some(visit) = self.followed.get(start)
        {
            self.followed.note(start, visit);
        }
        Ok(())
    }

    /// Was this page followed from, and has it taken nothing in since?
    fn is_followed(&self, block: u32) -> bool {
        let Some(visit) = self.followed.get(block) else { return false };
        broken("r5-followed") || visit.merges == self.tree.merges.received_by(block)
    }

    /// A page was visited with this result; remembered if it is followed from.
    fn visited(&mut self, block: u32, visit: PageVisit, follow: Option<u32>) {
        let earlier = self.followed.get(block).map_or(0, |earlier| earlier.live);
        let live = &mut self.found.stats.live;
        *live = (*live + visit.live).saturating_sub(earlier);
        if follow.is_some() {
            self.followed.note(block, visit);
        }
    }

    fn visit(&mut self, pin: Pin, block: u32, is_dead: IsDead<'_>) -> Result<Option<u32>> {
        let damage = |what| Error::corrupt(self.tree.page(block), what);
        // Read first: a merge that the page does not show is none of these.
        let merges = self.tree.merges.received_by(block);
        let page = pin.shared();
        let bytes = page.bytes();
        if is_zero(bytes) || bytes[KIND] == PageKind::BtreeFree as u8 {
            let right = u32_at(bytes, RIGHT);
            let merged = !is_zero(bytes) && cycle_of(bytes) == self.cycle && right != 0;
            drop(page);
            drop(pin);
            self.tree.found_free(block)?;
            let follow = merged.then_some(right);
            self.visited(block, PageVisit { merges, live: 0 }, follow);
            return Ok(follow);
        }
        if !is_node(bytes) {
            return Err(damage("not a page of a tree"));
        }
        let version = page.version();
        let verdict = find_dead(self.tree, bytes, self.cycle, &mut self.leaf, is_dead);
        let verdict = verdict.map_err(damage)?;
        drop(page);
        if self.hints.binary_search_by(|hint| block.cmp(hint)).is_ok() {
            self.tree.blocks.in_use(block);
        }
        let Some(mut verdict) = verdict else { return Ok(None) };
        if !verdict.dead.is_empty() {
            hit("btree.vacuum.judged");
            verdict = match self.remove(pin, version, verdict, is_dead)? {
                Some(verdict) => verdict,
                None if broken("r5-judged") => return Ok(None),
                // Merged meanwhile: it says where its keys went.
                None => return self.visit(self.tree.pin_linked(block)?, block, is_dead),
            };
        }
        let live = (verdict.count - verdict.dead.len()) as u64;
        self.visited(block, PageVisit { merges, live }, verdict.follow);
        if verdict.count == verdict.dead.len() {
            self.found.empty.push(block);
        } else if verdict.underfull {
            self.found.underfull.push(block);
        }
        Ok(verdict.follow)
    }

    /// Removes what was judged dead; judges again under the latch if the page has changed since.
    /// `None`: it is no leaf any more.
    fn remove(
        &mut self,
        pin: Pin,
        version: u64,
        mut verdict: LeafVerdict,
        is_dead: IsDead<'_>,
    ) -> Result<Option<LeafVerdict>> {
        let page = pin.page();
        let mut mtr = Mtr::new(&self.tree.pool);
        let held = mtr.latch(pin);
        if mtr.version(held) != version {
            if !is_node(mtr.bytes(held)) {
                return Ok(None);
            }
            let bytes = mtr.bytes(held);
            let again = find_dead(self.tree, bytes, self.cycle, &mut self.leaf, is_dead);
            match again.map_err(|what| Error::corrupt(page, what))? {
                Some(again) => verdict = again,
                None => return Ok(None),
            }
        }
        if !verdict.dead.is_empty() {
            let plan = Node::open(mtr.bytes(held))
                .and_then(|node| LeafRemoval::plan_with_holes(&node, &verdict.dead));
            let plan = plan.map_err(|what| Error::corrupt(page, what))?;
            plan.apply(&mut mtr.page(held));
            let left = Node::open(mtr.bytes(held));
            verdict.underfull = left.is_ok_and(|node| self.tree.is_underfull(&node));
            self.found.stats.pages_changed += 1;
            self.found.stats.removed += verdict.dead.len() as u64;
        }
        mtr.commit(RecordKind::IndexDelete, Xid::NONE)?;
        Ok(Some(verdict))
    }
}

impl VacuumFindings {
    /// Merges what is underfull, each page once.
    fn merge_underfull(&mut self, tree: &Tree, between: Between<'_>) -> Result<()> {
        let mut blocks = std::mem::take(&mut self.underfull);
        blocks.sort_unstable();
        blocks.dedup();
        for block in blocks {
            let merged = tree.is_underfull_leaf(block)? && tree.merge_underfull(block)?;
            self.stats.pages_deleted += u32::from(merged);
            between(1)?;
        }
        Ok(())
    }

    /// Gives back empty leaves; one that was the last child of its parent may go when its siblings
    /// have gone. If they stay, the left one moves into it, and a page is free all the same.
    fn delete_empty_pages(&mut self, tree: &Tree, between: Between<'_>) -> Result<()> {
        let mut empty = std::mem::take(&mut self.empty);
        empty.sort_unstable();
        empty.dedup();
        loop {
            let before = empty.len();
            let mut stay = Vec::new();
            for block in empty {
                between(1)?;
                if tree.delete_page(block)? {
                    self.stats.pages_deleted += 1;
                } else {
                    stay.push(block);
                }
            }
            if stay.len() == before {
                empty = stay;
                break;
            }
            if stay.is_empty() {
                return Ok(());
            }
            empty = stay;
        }
        for block in empty {
            let merged = tree.is_underfull_leaf(block)? && tree.merge_underfull(block)?;
            self.stats.pages_deleted += u32::from(merged);
            between(1)?;
        }
        Ok(())
    }
}

/// Which entries of a leaf are dead; `None` for an inner page.
fn find_dead(
    tree: &Tree,
    page: &[u8; PAGE_SIZE],
    cycle: u32,
    leaf: &mut LeafRows,
    is_dead: IsDead<'_>,
) -> Checked<Option<LeafVerdict>> {
    let node = Node::open(page)?;
    if !node.is_leaf() {
        return Ok(None);
    }
    leaf.read(&node)?;
    if !leaf.rows.is_empty() {
        is_dead(&leaf.rows, &mut leaf.dead);
    }
    let tagged = cycle_of(page) == cycle && !broken("r5-cycle");
    let follow = (tagged && node.right != 0).then_some(node.right);
    let underfull = tree.is_underfull(&node);
    Ok(Some(LeafVerdict { count: leaf.rows.len(), dead: leaf.dead_positions(), follow, underfull }))
}

impl LeafRows {
    /// Reads the rows of a leaf.
    fn read(&mut self, node: &Node<&[u8; PAGE_SIZE]>) -> Checked<()> {
        self.rows.clear();
        self.counts.clear();
        for entry in 0..node.count {
            let before = self.rows.len();
            let item = node.item(entry)?;
            self.rows.push(node.row_of(entry, &item));
            if node.is_list(entry) {
                // Those before have one each.
                self.counts.resize(entry, 1);
                node.append_list(&item, &mut self.rows)?;
                self.counts.push(self.rows.len() - before);
            }
        }
        self.dead.clear();
        self.dead.resize(self.rows.len(), false);
        Ok(())
    }

    /// Dead rows, by entry and place in it.
    fn dead_positions(&self) -> Vec<RowPosition> {
        let dead = (0..).zip(&self.dead).filter(|(_, dead)| **dead).map(|(row, _)| row);
        let mut places = Vec::with_capacity(self.rows.len() / 4);
        let (mut entry, mut first) = (0, 0);
        for row in dead {
            while let Some(count) = self.counts.get(entry).filter(|count| first + **count <= row) {
                (entry, first) = (entry + 1, first + count);
            }
            // Entries after the last list have one row each.
            let alone = entry >= self.counts.len();
            places.push(match alone {
                true => RowPosition { entry: entry + row - first, member: 0 },
                false => RowPosition { entry, member: row - first },
            });
        }
        places
    }
}
