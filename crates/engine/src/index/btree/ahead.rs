//! Leaves read ahead of a scan or of several searches: the parent names them.
//!
//! A scan that waited for a leaf asks the parent for the next ones, four times as many each time,
//! and has their reads started; neighbours in the file come in one read. It goes on over the link
//! of each leaf all the same: what the parent said is a hint about what will be wanted. The parent
//! is peeked at like any inner page on a way down, without latch or pin (R11); while it is being
//! changed it names nothing, and is asked again at the next leaf.
//!
//! Invariants: nothing is read ahead before the scan has waited for a second leaf, so a scan that
//! ends on its first one, or finds all of them in memory, pays nothing. Errors are left to whoever
//! needs the page. Every descent is registered (R6).
//! Does not do: inner pages ahead; they are few.

use crate::buffer::{BufferPool, Prefetch};
use crate::ids::PageId;
use crate::index::Direction;
use crate::index::btree::Tree;
use crate::index::btree::node::{Checked, Node};
use crate::index::btree::read::PageRead;
use crate::index::btree::search::Aim;
use crate::keycode::KeyRange;

/// Most leaves ahead.
const MAX_LEAVES: usize = 32;
/// Rounds in a row that found everything in memory before fewer leaves are named.
const CALM: u32 = 4;

/// Which leaves a scan has had read ahead.
#[derive(Debug, Default)]
pub(crate) struct LeavesAhead {
    /// How many to be ahead of the scan; 0: none.
    distance: usize,
    /// How many are.
    named: usize,
    /// Where those end that were named; none: at the scan itself.
    frontier: Option<Vec<u8>>,
    /// There are no more.
    ended: bool,
    calm: u32,
}

impl LeavesAhead {
    /// The scan comes to a leaf by its neighbour's link; `near`: it is in memory.
    pub(crate) fn came_to(&mut self, near: bool, pool: &BufferPool) {
        self.named = self.named.saturating_sub(1);
        if !near {
            self.distance = match pool.prefetch() {
                Prefetch::Adaptive => (self.distance * 4).clamp(4.min(most(pool)), most(pool)),
                Prefetch::Fixed(reads) => (reads as usize).min(most(pool)),
                Prefetch::None | Prefetch::Simple => 0,
            };
        }
    }

    /// The scan had to search for its leaf again.
    pub(crate) fn lost(&mut self) {
        (self.named, self.frontier, self.ended) = (0, None, false);
    }

    /// Has more leaves of `rest` read, if too few of them are ahead.
    pub(crate) fn look(&mut self, tree: &Tree, rest: &KeyRange, direction: Direction) {
        if self.distance == 0 || self.ended || self.named > self.distance / 2 {
            return;
        }
        let _registered = tree.registrations.enter();
        let wanted = self.distance - self.named;
        let mut blocks = Vec::with_capacity(wanted);
        let frontier = &mut self.frontier;
        self.ended = !tree.leaves_from(frontier, rest, direction, (wanted, &mut blocks));
        self.named += blocks.len();
        let started = tree.start_reads(blocks);
        self.calm = if started > 0 { 0 } else { self.calm + 1 };
        if self.calm >= CALM {
            (self.distance, self.calm) = (self.distance / 2, 0);
        }
    }
}

fn most(pool: &BufferPool) -> usize {
    MAX_LEAVES.min(pool.frames() / 16).max(2)
}

impl Tree {
    /// Names the next leaves of `rest` from `frontier` on (none: from where it begins), up to the
    /// wanted number, and moves it to where they end. False at the end of the range; else there are
    /// more, which another look will name if their parent could not be read now.
    pub(crate) fn leaves_from(
        &self,
        frontier: &mut Option<Vec<u8>>,
        rest: &KeyRange,
        direction: Direction,
        (wanted, blocks): (usize, &mut Vec<u32>),
    ) -> bool {
        while blocks.len() < wanted {
            let (at, left) = (frontier.as_deref(), wanted - blocks.len());
            let aim = match direction {
                Direction::Forward => Aim::At(at.unwrap_or(&rest.low)),
                Direction::Backward => Aim::Before(at.or(rest.high.as_deref())),
            };
            let next = self.above_leaf(aim, |node, i| children(node, i, direction, left));
            let Some((next, end)) = next else { return true };
            blocks.extend(next);
            *frontier = end.filter(|end| inside(end, rest, direction));
            if frontier.is_none() {
                return false;
            }
        }
        true
    }

    /// Starts to read those of `blocks` that the file has. Returns the number of reads.
    fn start_reads(&self, blocks: impl IntoIterator<Item = u32>) -> u64 {
        let file = 1..self.pool.blocks(self.file);
        let inside = blocks.into_iter().filter(|block| file.contains(block));
        let mut pages: Vec<PageId> = inside.map(|block| self.page(block)).collect();
        self.pool.read_ahead(&mut pages).reads
    }

    /// A check comes to child `i` of a page: has the next ones read, `child` tells which.
    pub(crate) fn children_ahead(&self, i: usize, child: impl Fn(usize) -> Option<u32>) {
        let (most, policy) = (most(&self.pool), self.pool.prefetch());
        let adaptive = !matches!(policy, Prefetch::None | Prefetch::Simple);
        if adaptive && i.is_multiple_of(most / 2) {
            self.start_reads((i..i + most).map_while(child));
        }
    }

    /// Starts to read the leaves that `keys` belong to, as far as inner pages name them that nobody
    /// is changing. Returns the number of reads.
    pub(crate) fn read_ahead(&self, keys: &[&[u8]]) -> u64 {
        let _registered = self.registrations.enter();
        let leaf = |key: &&[u8]| self.above_leaf(Aim::At(key), |node, i| node.child(i));
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

/// Children and where they end, if not with the level.
type Children = (Vec<u32>, Option<Vec<u8>>);

/// Up to `wanted` children from the one at `child` on. The page may be changing (R11).
fn children<R: PageRead>(
    node: &Node<R>,
    child: usize,
    direction: Direction,
    wanted: usize,
) -> Checked<Children> {
    let block = |i| node.child(i);
    match direction {
        Direction::Forward => {
            let end = node.count.min(child.saturating_add(wanted));
            let blocks = (child..end).map(block).collect::<Checked<_>>()?;
            let high = if end == node.count { node.high() } else { Some(node.key(end)?) };
            Ok((blocks, high))
        }
        Direction::Backward => {
            let start = (child + 1).saturating_sub(wanted);
            let blocks = (start..=child).rev().map(block).collect::<Checked<_>>()?;
            let low = if start == 0 { node.low() } else { node.key(start)? };
            Ok((blocks, (!low.is_empty()).then_some(low)))
        }
    }
}
