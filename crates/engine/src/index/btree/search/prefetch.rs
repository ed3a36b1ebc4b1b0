//! Leaves that will be needed soon: read ahead from the file, or fetched into the processor's
//! caches.
//!
//! A scan that waited for a leaf names the next leaves from their parent and starts their reads,
//! four times as many each time. One that expects many entries begins with the leaves of these. The
//! parent is read like any inner page of a descent, without latch or pin (R11). The scan still
//! follows the link of each leaf: what the parent said is a hint.
//!
//! A batch in random order meets resident but uncached leaves. Their header and trailer are
//! requested first; a few groups later the slots near the key and the end of the items.
//!
//! Invariants: nothing is read ahead before the scan has waited for a second leaf, unless it
//! expects many entries. Errors are left to the reader of the page. Cache-line prefetch is not
//! validated, because it decides nothing.
//! Does not do: inner pages; they are few.

use crate::buffer::{BufferPool, Reading};
use crate::config::PAGE_SIZE;
use crate::ids::PageId;
use crate::index::Direction;
use crate::index::btree::page::node::{Checked, Node, SLOT, head_of};
use crate::index::btree::page::read::PageRead;
use crate::index::btree::search::SearchTarget;
use crate::index::btree::tree::Tree;
use crate::keycode::KeyRange;
use crate::page::PageView;
use crate::page::header::HEADER_SIZE;

/// Most leaves that are read ahead.
const MAX_LEAVES: usize = 32;
/// Entries of one leaf, as far as they can be guessed.
const ENTRIES_PER_LEAF: u32 = 256;
/// Calls in a row that found all leaves in memory, after which fewer are named.
const MAX_RESIDENT_ROUNDS: u32 = 4;

/// How far [`Tree::name_leaves`] has named the leaves of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NamedUpTo {
    /// There may be more.
    More,
    /// All of them.
    RangeEnd,
}

/// The leaves that are read ahead of a scan.
#[derive(Debug, Default)]
pub(crate) struct LeafPrefetch {
    /// How many leaves to name ahead of the scan; 0: none.
    distance: usize,
    /// How many are named.
    named: usize,
    /// Where the named leaves end; `None`: at the scan itself.
    frontier: Option<Vec<u8>>,
    /// There are no more.
    ended: bool,
    resident_rounds: u32,
}

impl LeafPrefetch {
    /// For a scan that expects to take so many entries, from leaves that follow each other.
    pub(crate) fn expecting(entries: u32, pool: &BufferPool) -> Self {
        let leaves = if pool.prefetch().is_adaptive() { entries / ENTRIES_PER_LEAF } else { 0 };
        Self { distance: (leaves as usize).min(max_leaves(pool)), ..Self::default() }
    }

    /// The scan follows a link to a leaf, which is in memory if `near`.
    pub(crate) fn note_step(&mut self, near: bool, pool: &BufferPool) {
        self.named = self.named.saturating_sub(1);
        if !near {
            let (policy, most) = (pool.prefetch(), max_leaves(pool));
            self.distance = match policy.fixed_reads() {
                Some(reads) => (reads as usize).min(most),
                None if policy.names_pages() => (self.distance * 4).clamp(4.min(most), most),
                None => 0,
            };
        }
    }

    /// The scan left the chain of leaves.
    pub(crate) fn reset(&mut self) {
        (self.named, self.frontier, self.ended) = (0, None, false);
    }

    /// Starts reads of more leaves of `rest`, if too few are ahead.
    pub(crate) fn advance(&mut self, tree: &Tree, rest: &KeyRange, direction: Direction) {
        if self.distance == 0 || self.ended || self.named > self.distance / 2 {
            return;
        }
        let _registered = tree.registrations.register();
        let wanted = self.distance - self.named;
        let mut blocks = Vec::with_capacity(wanted);
        let named = tree.name_leaves(&mut self.frontier, rest, direction, wanted, &mut blocks);
        self.ended = named == NamedUpTo::RangeEnd;
        self.named += blocks.len();
        let started = tree.start_reads(blocks);
        self.resident_rounds = if started > 0 { 0 } else { self.resident_rounds + 1 };
        if self.resident_rounds >= MAX_RESIDENT_ROUNDS {
            (self.distance, self.resident_rounds) = (self.distance / 2, 0);
        }
    }
}

fn max_leaves(pool: &BufferPool) -> usize {
    MAX_LEAVES.min(pool.frames() / 16).max(2)
}

impl Tree {
    /// Names the next leaves of `rest`, up to `wanted`, from `frontier` on (`None`: where the rest
    /// begins), and moves the frontier to their end. If a parent cannot be read now, another call
    /// names the others.
    pub(crate) fn name_leaves(
        &self,
        frontier: &mut Option<Vec<u8>>,
        rest: &KeyRange,
        direction: Direction,
        wanted: usize,
        blocks: &mut Vec<u32>,
    ) -> NamedUpTo {
        while blocks.len() < wanted {
            let (at, left) = (frontier.as_deref(), wanted - blocks.len());
            let target = match direction {
                Direction::Forward => SearchTarget::At(at.unwrap_or(&rest.low)),
                Direction::Backward => SearchTarget::Before(at.or(rest.high.as_deref())),
            };
            let next =
                self.read_above_leaf(target, |n, i| next_children(n, i, rest, direction, left));
            let Some(NextChildren { blocks: next, end }) = next else { return NamedUpTo::More };
            blocks.extend(next);
            *frontier = end;
            if frontier.is_none() {
                return NamedUpTo::RangeEnd;
            }
        }
        NamedUpTo::More
    }

    /// Starts reads of those `blocks` that the file has. Returns the number of reads.
    fn start_reads(&self, blocks: impl IntoIterator<Item = u32>) -> u64 {
        let file = 1..self.pool.blocks(self.file);
        let inside = blocks.into_iter().filter(|block| file.contains(block));
        let mut pages: Vec<PageId> = inside.map(|block| self.page(block)).collect();
        self.pool.read_ahead(&mut pages).reads
    }

    /// `verify` has come to child `i` of a page: starts reads of the next children.
    pub(crate) fn prefetch_children(&self, i: usize, child: impl Fn(usize) -> Option<u32>) {
        let max_leaves = max_leaves(&self.pool);
        if self.pool.prefetch().names_pages() && i.is_multiple_of(max_leaves / 2) {
            self.start_reads((i..i + max_leaves).map_while(child));
        }
    }

    /// Starts reads of the leaves that `keys` belong to, as far as unchanging inner pages name
    /// them. Returns the number of reads.
    pub(crate) fn prefetch_leaves(&self, keys: &[&[u8]]) -> u64 {
        let _registered = self.registrations.register();
        let leaf =
            |key: &&[u8]| self.read_above_leaf(SearchTarget::At(key), |node, i| node.child(i));
        let blocks: Vec<u32> = keys.iter().filter_map(leaf).collect();
        self.start_reads(blocks)
    }
}

fn inside(key: &[u8], rest: &KeyRange, direction: Direction) -> bool {
    match direction {
        Direction::Forward => rest.high.as_deref().is_none_or(|high| key < high),
        Direction::Backward => key > rest.low.as_slice(),
    }
}

/// Children of an inner page, and where they end; `None`: with the level or the range.
struct NextChildren {
    blocks: Vec<u32>,
    end: Option<Vec<u8>>,
}

/// Up to `wanted` children from the one at `child` on that may have keys of `rest`. The page may be
/// changing (R11).
fn next_children<R: PageRead>(
    node: &Node<R>,
    child: usize,
    rest: &KeyRange,
    direction: Direction,
    wanted: usize,
) -> Checked<NextChildren> {
    let mut blocks = vec![node.child(child)?];
    loop {
        let forward = direction == Direction::Forward;
        let separator = if forward { child + blocks.len() } else { child + 1 - blocks.len() };
        let is_last = separator == 0 || separator == node.count;
        let end = match is_last {
            true if forward => node.high(),
            true => Some(node.low()).filter(|low| !low.is_empty()),
            false => Some(node.key(separator)?),
        };
        let end = end.filter(|end| inside(end, rest, direction));
        if blocks.len() == wanted || is_last || end.is_none() {
            return Ok(NextChildren { blocks, end });
        }
        blocks.push(node.child(separator - usize::from(!forward))?);
    }
}

/// Most ranges whose first leaves are read ahead at once.
const MAX_RANGES: usize = 64;

/// The leaves in which the next ranges of a list begin, read ahead. More at once as long as some
/// are not in memory.
#[derive(Debug)]
pub(crate) struct RangePrefetch {
    /// Ranges whose first leaf was requested.
    requested: usize,
    /// How many to request at once.
    window: usize,
}

impl Default for RangePrefetch {
    fn default() -> Self {
        Self { requested: 0, window: 2 }
    }
}

impl RangePrefetch {
    /// The scan skips to `rest`; `ranges` are all of its list.
    pub(crate) fn advance(
        &mut self,
        tree: &Tree,
        ranges: &[KeyRange],
        rest: &KeyRange,
        direction: Direction,
    ) {
        let ended = |range: &KeyRange| range.high.as_ref().is_some_and(|end| *end <= rest.low);
        let begun = |range: &KeyRange| rest.high.as_ref().is_none_or(|end| range.low < *end);
        let (first, last) = (ranges.partition_point(ended), ranges.partition_point(begun));
        if last <= first {
            return;
        }
        let (passed, left) = match direction {
            Direction::Forward => (first, last - first),
            Direction::Backward => (ranges.len() - last, last - first),
        };
        if passed < self.requested || !tree.pool.prefetch().names_pages() {
            return;
        }
        let count = left.min(self.window);
        let wanted = match direction {
            Direction::Forward => &ranges[first..first + count],
            Direction::Backward => &ranges[last - count..last],
        };
        let keys: Vec<&[u8]> = wanted.iter().map(|range| range.low.as_slice()).collect();
        let reads = if keys.len() > 1 { tree.prefetch_leaves(&keys) } else { 0 };
        // If all are in memory, the next call is far away.
        self.requested = passed + if reads > 0 { count } else { count + MAX_RANGES };
        self.window = if reads > 0 { (self.window * 2).min(MAX_RANGES) } else { 2 };
    }
}

/// Bytes of a cache line.
const LINE: usize = 64;
/// What is read first of a leaf: the header with the first slots, and the trailer with the fences.
const ENDS: [usize; 2] = [0, PAGE_SIZE - LINE];

impl Tree {
    /// Prefetches the header and the trailer of the leaf at `block`.
    #[inline]
    pub(crate) fn prefetch_leaf_ends(&self, block: u32) {
        self.pool.prefetch_lines(self.page(block), &ENDS);
    }

    /// Prefetches what an insertion of `key` touches on the leaf at `block`, whose ends are cached.
    #[inline]
    pub(crate) fn prefetch_slots(&self, reading: &Reading<'_>, block: u32, key: &[u8]) {
        if let Some(peek) = reading.peek(self.page(block)) {
            ask_around(reading.view(peek), key);
        }
    }
}

fn ask_around(page: PageView<'_>, key: &[u8]) {
    let Ok(node) = Node::open(page) else { return };
    if !node.is_leaf() || node.count == 0 {
        return;
    }
    let (slot, end) = (HEADER_SIZE + node.interpolate(key) * SLOT, HEADER_SIZE + node.count * SLOT);
    // The guess is right within a few slots. The slots behind the position move up, from the last
    // one on.
    [slot.saturating_sub(LINE), slot, slot + LINE, end, node.upper - 1]
        .iter()
        .for_each(|at| page.prefetch(*at));
}

impl<R: PageRead> Node<R> {
    /// The approximate position of `key` on this leaf, which has entries, if heads grow evenly.
    fn interpolate(&self, key: &[u8]) -> usize {
        let head = head_of(key.get(self.prefix..).unwrap_or(&[]));
        let first = self.head(0);
        let last = self.high_head().unwrap_or(u32::MAX).max(head);
        let (above, span) = (u64::from(head.saturating_sub(first)), last.saturating_sub(first));
        (above * self.count as u64 / u64::from(span.max(1))).min(self.count as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::btree::page::edit::{EntryValue, NodeHeader};
    use crate::index::btree::page::entries::Entries;
    use rightlink_env::Rng;

    /// Among even keys the guess is near the position, and for any key it is on the leaf.
    #[test]
    fn a_guess_is_near_and_never_outside() {
        let mut rng = Rng::from_seed(9);
        let key = |n: u32| [&b"k"[..], &n.to_be_bytes(), b"\0\0\0\x01\0\x01"].concat();
        let mut entries = Entries::default();
        (0..200).for_each(|n| entries.push(&key(n << 20), EntryValue::default()));
        let (low, high) = (b"k".to_vec(), Some(key(200 << 20)));
        let header = NodeHeader { left: 1, right: 2, low, high, ..NodeHeader::default() };
        let image = header.image_of(&entries).unwrap();
        let node = Node::open(&*image).unwrap();
        for n in 0..200 {
            assert!(node.interpolate(&key(n << 20)).abs_diff(n as usize) <= 1, "{n}");
        }
        for _ in 0..1000 {
            let mut bytes = vec![0; rng.index(9)];
            rng.fill(&mut bytes);
            assert!(node.interpolate(&bytes) <= node.count);
        }
    }
}
