//! Vacuum: one pass over all pages in physical order removes the entries of dead rows; then empty
//! pages are deleted and underfull ones merged.
//!
//! A split may send entries to a block that the pass has left behind. Every split stamps the
//! pass's cycle id on both halves, and the pass follows a right link from such a page to a lower
//! block (R5). Several threads may run parts of a pass, which are ranges of blocks. A part follows
//! links to all blocks, except to blocks of its own range that it visits later.
//!
//! A part remembers the pages that it followed from, and stops at one of them that has taken in no
//! entries since. README.md says why that is enough.
//!
//! Invariants: a page without dead entries is latched shared only. Entries removed under the
//! exclusive latch were found dead in the same bytes. Row ids of the dead set are not reused before
//! the pass has ended (R3). The pass is registered before any page can be freed under its cycle id
//! (R6).
//! Does not do: decide which rows are dead; run two passes at once.
//! PostgreSQL: `btvacuumscan`, `btvacuumpage`.

mod delete;
mod merge;

use rightlink_env::Broken;
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

/// Pages that a part remembers; up to twice this many, 2 MiB.
const REMEMBERED: usize = 1 << 14;

/// The cycle id is valid while this lives.
struct CycleGuard<'a>(&'a AtomicU32);

impl Drop for CycleGuard<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::SeqCst);
    }
}

/// A vacuum pass.
pub(crate) struct VacuumPass<'a> {
    tree: &'a Tree,
    /// Blocks of each part. The last part goes on to the end of the file, wherever that will be.
    parts: Vec<Range<u32>>,
    found: Mutex<VacuumFindings>,
    /// A page that is merged during the pass tells where its keys went, until it is reused: not
    /// before all parts are done (R6).
    registered: Mutex<Option<Registration<'a>>>,
    // Dropped before the turn: no other pass has begun when the id is cleared.
    cycle_is_valid: CycleGuard<'a>,
    turn: MutexGuard<'a, u32>,
    /// Free-block hints when the pass began.
    hints: Vec<u32>,
}

/// What the parts found.
#[derive(Default)]
struct VacuumFindings {
    stats: VacuumStats,
    empty: Vec<u32>,
    underfull: Vec<u32>,
}

/// One part of a pass.
struct PassPart<'a> {
    tree: &'a Tree,
    cycle: u32,
    blocks: Range<u32>,
    hints: &'a [u32],
    followed: FollowedPages,
    found: VacuumFindings,
    leaf: LeafRows,
}

/// The rows of a leaf. The memory is kept for the next leaf.
#[derive(Default)]
struct LeafRows {
    rows: Vec<RowId>,
    dead: Vec<bool>,
    /// How many rows each entry has, up to the last posting list.
    counts: Vec<usize>,
}

/// Pages that were visited and followed from. If there are too many, the oldest are forgotten; that
/// costs a visit.
#[derive(Default)]
struct FollowedPages {
    lately: BTreeMap<u32, PageVisit>,
    before: BTreeMap<u32, PageVisit>,
}

/// The visit of a page.
#[derive(Clone, Copy)]
struct PageVisit {
    /// Merges into the page before the visit.
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

/// What a visit found on a leaf.
struct LeafVerdict {
    count: usize,
    /// The dead rows.
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
        // Registered first: a page that is merged under the new id is not reused before the pass is
        // over (R6).
        let early = (!broken(Broken::VacuumRegistersLate)).then(|| self.registrations.register());
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
            hints: self.free_pages.hints(),
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
                #[cfg(feature = "experiments")]
                while tree.pool.waits_for_pins.load(Ordering::Relaxed) && !pin.is_only() {
                    between(0)?;
                    rightlink_env::thread::sleep(std::time::Duration::from_millis(1));
                }
                self.visit_chain(pin, block, is_dead)?;
                between(1)?;
            }
            drop(stream);
            // The stream looks ahead, so it may have met the end of the file before the last
            // visits. Pages that grew since then must be visited, too; pages that grow from now on
            // get nothing that was not visited.
            if next >= end.min(tree.pool.blocks(tree.file)) || broken(Broken::GrowthNotVisited) {
                return Ok(());
            }
        }
    }

    /// May this part, which is at `start`, or another one have passed `block` already?
    fn is_passed(&self, block: u32, start: u32) -> bool {
        match broken(Broken::PartsNotFollowed) {
            true => block < start,
            false => block != start && !(start..self.blocks.end).contains(&block),
        }
    }

    /// Visits a block, and the pages that it sent entries to, if those may have been passed.
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
        // The next chain most likely leads here, so this page is forgotten last.
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
        broken(Broken::FollowedPageNotRevisited)
            || visit.merges == self.tree.merges.received_by(block)
    }

    /// Records the visit of a page; the page is remembered if it is followed from.
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
        // The counter is read first: it does not include a merge that the page does not show.
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
            self.tree.free_pages.note_in_use(block);
        }
        let Some(mut verdict) = verdict else { return Ok(None) };
        if !verdict.dead.is_empty() {
            hit("btree.vacuum.judged");
            verdict = match self.remove(pin, version, verdict, is_dead)? {
                Some(verdict) => verdict,
                None if broken(Broken::MergedPageNotFollowed) => return Ok(None),
                // The page was merged meanwhile: it tells where its keys went.
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

    /// Removes the dead rows; they are found again if the page has changed. `None`: it is no leaf
    /// any more.
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
    /// Merges underfull pages, each once.
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

    /// Deletes empty leaves. The last child of a parent may go when its siblings have gone. If they
    /// stay, the left sibling is merged into it, and a page becomes free all the same.
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

/// Finds the dead rows of a leaf; `None` for an inner page.
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
    let tagged = cycle_of(page) == cycle && !broken(Broken::SplitNotFollowed);
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
                // The entries before have one row each.
                self.counts.resize(entry, 1);
                node.append_list(&item, &mut self.rows)?;
                self.counts.push(self.rows.len() - before);
            }
        }
        self.dead.clear();
        self.dead.resize(self.rows.len(), false);
        Ok(())
    }

    /// The dead rows.
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
