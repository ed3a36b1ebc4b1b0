//! From one leaf to the next that is wanted, where that is often next door: lists of keys, scans
//! that skip, scans that go on elsewhere.
//!
//! The leaves that were near are asked first; a descent is for those that none of them is. Who was
//! wrong a few times in a row stops asking, until a descent ends where asking would have helped.
//!
//! Invariants: a remembered leaf is judged by its level and fences under the latch, as one that a
//! descent led to (R6); one that is not in memory is not asked. One leaf is latched at a time.
//! Does not do: choose what is wanted (`lookup`, `scan`); register (the operation does, R6).

use rightlink_env::points::broken;

use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::PageId;
use crate::index::btree::counters::count;
use crate::index::btree::optimisations::Optimisations;
use crate::index::btree::page::node::{Checked, Node, SearchPosition, is_node};
use crate::index::btree::search::{PageMatch, SearchTarget, match_page};
use crate::index::btree::tree::Tree;

/// Leaves asked in vain, one after the other, before none is asked any more.
const MAX_MISSES: u32 = 3;

/// A leaf that was arrived at: which one, its page, and the place where the search ended.
pub(crate) struct LeafAt<'p> {
    pub(crate) page: PageId,
    pub(crate) node: Node<&'p [u8; PAGE_SIZE]>,
    pub(crate) found: SearchPosition,
}

/// Is it the leaf?
fn judge(page: &[u8; PAGE_SIZE], target: SearchTarget<'_>) -> Checked<PageMatch> {
    if broken("r6-near") {
        let node = Node::open(page)?;
        let (SearchTarget::At(key) | SearchTarget::Before(Some(key))) = target else {
            return Ok(PageMatch::Lost);
        };
        let inside = node.is_leaf() && node.cmp_high(key).is_lt();
        return if inside { node.search(key).map(PageMatch::Here) } else { Ok(PageMatch::Lost) };
    }
    match_page(page, target, 0)
}

/// What is remembered between two leaves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LeafCursor {
    /// Blocks of leaves to ask before a descent; 0: none.
    near: [u32; 2],
    misses: u32,
    /// Was the last leaf found by a descent?
    descended: bool,
}

impl LeafCursor {
    /// These leaves may be the next one.
    pub(crate) fn set_near(&mut self, near: [u32; 2]) {
        self.near = near;
    }

    /// Was the last leaf found by a descent?
    pub(crate) fn descended(&self) -> bool {
        self.descended
    }

    /// Reads the leaf that `aim` belongs to under its shared latch. `before` runs before each
    /// latch.
    pub(crate) fn read<T>(
        &mut self,
        tree: &Tree,
        target: SearchTarget<'_>,
        mut before: impl FnMut(),
        read: impl FnOnce(LeafAt<'_>) -> Checked<T>,
    ) -> Result<T> {
        let near = std::mem::take(&mut self.near);
        self.descended = false;
        let asks = self.misses < MAX_MISSES && tree.uses(Optimisations::CURSORS);
        for block in near.into_iter().filter(|block| *block != 0 && asks) {
            let Some(pin) = tree.pool.try_pin(tree.page(block)) else { continue };
            before();
            let page = pin.shared();
            let damage = |what| Error::corrupt(pin.page(), what);
            if !is_node(page.bytes()) {
                continue;
            }
            if let PageMatch::Here(found) = judge(page.bytes(), target).map_err(damage)? {
                count(|c| c.next_door += 1);
                self.misses = 0;
                let node = Node::open(page.bytes()).map_err(damage)?;
                return read(LeafAt { page: pin.page(), node, found }).map_err(damage);
            }
            self.misses += 1;
        }
        self.descended = true;
        let mut arrived = 0;
        let result = tree.read_leaf(target, before, |page, node, found| {
            let page = page.pin().page();
            arrived = page.block.0;
            read(LeafAt { page, node: *node, found })
        });
        // It would have been next door.
        if near.contains(&arrived) {
            self.misses = 0;
        }
        result
    }
}
