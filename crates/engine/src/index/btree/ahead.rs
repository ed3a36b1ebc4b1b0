//! Leaves read ahead of a scan or of several searches: the parent names them.
//!
//! A scan that waited for a leaf asks the parent for the next ones, four times as many each time,
//! and has their reads started; neighbours in the file come in one read. It goes on over the link
//! of each leaf all the same: what the parent said is a hint about what will be wanted.
//!
//! Invariants: nothing is read ahead before the scan has waited for a second leaf, so a scan that
//! ends on its first one, or finds all of them in memory, pays nothing. Errors are left to whoever
//! needs the page. Every descent is registered (R6).
//! Does not do: inner pages ahead; they are few.

use crate::buffer::{BufferPool, Prefetch};
use crate::config::PAGE_SIZE;
use crate::ids::PageId;
use crate::index::Direction;
use crate::index::btree::Tree;
use crate::index::btree::node::{Checked, Node};
use crate::index::btree::search::{Aim, Place, place_on};
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
        let from = self.frontier.take();
        match tree.leaves_from(from, rest, direction, (wanted, &mut blocks)) {
            Some(frontier) => self.frontier = Some(frontier),
            None => self.ended = true,
        }
        self.named += blocks.len();
        let mut pages: Vec<PageId> = blocks.into_iter().map(|block| tree.page(block)).collect();
        let started = tree.pool.read_ahead(&mut pages).reads;
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
    /// Names the next leaves of `rest` from `from` on, up to the wanted number; returns where they
    /// end, none at the end of the range or where the way is not clear.
    fn leaves_from(
        &self,
        from: Option<Vec<u8>>,
        rest: &KeyRange,
        direction: Direction,
        (wanted, blocks): (usize, &mut Vec<u32>),
    ) -> Option<Vec<u8>> {
        let mut at = match (from, direction) {
            (Some(from), _) => Some(from),
            (None, Direction::Forward) => Some(rest.low.clone()),
            (None, Direction::Backward) => rest.high.clone(),
        };
        while blocks.len() < wanted {
            let aim = match (direction, at.as_deref()) {
                (Direction::Forward, key) => Aim::At(key.unwrap_or_default()),
                (Direction::Backward, key) => Aim::Before(key),
            };
            let pin = self.descend(aim, 1).ok()??;
            let page = pin.shared();
            let Ok(Place::Here(found)) = place_on(page.bytes(), aim, 1) else { return None };
            let node = Node::open(page.bytes()).ok()?;
            let child = node.child_index(found, aim)?;
            let next = children(&node, child, direction, (wanted, blocks)).ok()?;
            at = Some(next.filter(|next| inside(next, rest, direction))?);
        }
        at
    }

    /// A check comes to child `i` of a page: has the next ones read, `child` tells which.
    pub(crate) fn children_ahead(&self, i: usize, child: impl Fn(usize) -> Option<u32>) {
        let (most, policy) = (most(&self.pool), self.pool.prefetch());
        let adaptive = !matches!(policy, Prefetch::None | Prefetch::Simple);
        if !adaptive || !i.is_multiple_of(most / 2) {
            return;
        }
        let blocks = self.pool.blocks(self.file);
        let inside = (i..i + most).map_while(child).filter(|block| *block < blocks);
        let mut pages: Vec<PageId> = inside.map(|block| self.page(block)).collect();
        self.pool.read_ahead(&mut pages);
    }

    /// Starts to read the leaves that `keys` belong to, as far as inner pages in memory name them.
    /// Returns the number of reads.
    pub(crate) fn read_ahead(&self, keys: &[&[u8]]) -> u64 {
        let _registered = self.registrations.enter();
        let leaf = |key: &&[u8]| {
            let aim = Aim::At(key);
            let pin = self.descend(aim, 1).ok()??;
            let page = pin.shared();
            let Ok(Place::Here(found)) = place_on(page.bytes(), aim, 1) else { return None };
            let node = Node::open(page.bytes()).ok()?;
            let block = node.child(node.child_index(found, aim)?).ok()?;
            Some(self.page(block))
        };
        let mut pages: Vec<PageId> = keys.iter().filter_map(leaf).collect();
        self.pool.read_ahead(&mut pages).reads
    }
}

fn inside(key: &[u8], rest: &KeyRange, direction: Direction) -> bool {
    match direction {
        Direction::Forward => rest.high.as_deref().is_none_or(|high| key < high),
        Direction::Backward => key > rest.low.as_slice(),
    }
}

/// Adds children from the one at `child` on until there are enough; returns where they end.
fn children(
    node: &Node<&[u8; PAGE_SIZE]>,
    child: usize,
    direction: Direction,
    (wanted, blocks): (usize, &mut Vec<u32>),
) -> Checked<Option<Vec<u8>>> {
    match direction {
        Direction::Forward => {
            let end = node.count.min(child + wanted - blocks.len());
            (child..end).try_for_each(|i| node.child(i).map(|block| blocks.push(block)))?;
            if end == node.count { Ok(node.high()) } else { node.key(end).map(Some) }
        }
        Direction::Backward => {
            let start = (child + 1).saturating_sub(wanted - blocks.len());
            let down = (start..=child).rev();
            down.clone().try_for_each(|i| node.child(i).map(|block| blocks.push(block)))?;
            let low = if start == 0 { node.low() } else { node.key(start)? };
            Ok((!low.is_empty()).then_some(low))
        }
    }
}
