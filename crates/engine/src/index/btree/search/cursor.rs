//! From one leaf to the next that is wanted, which is often a neighbour: for lists of keys and
//! scans.
//!
//! The remembered leaves are tried first; if none is right, a descent finds the leaf. After a few
//! misses in a row the cursor stops trying them, until a descent ends on one of them.
//!
//! Invariants: a remembered leaf is checked by its level and fences under the latch (R6). One that
//! is not in memory is not tried. One leaf is latched at a time.
//! Does not do: choose what is wanted (`scan`); register (the operation does, R6).

use rightlink_env::Broken;
use rightlink_env::points::broken;

use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::PageId;
use crate::index::btree::counters::count;
use crate::index::btree::optimisations::{Optimisation, Optimisations};
use crate::index::btree::page::node::{Checked, Node, SearchPosition, is_node};
use crate::index::btree::search::{PageMatch, SearchTarget, match_page};
use crate::index::btree::tree::Tree;

/// Misses in a row after which remembered leaves are not tried.
const MAX_MISSES: u32 = 3;

/// A leaf that was found, and where the search ended on it.
pub(crate) struct LeafAt<'p> {
    pub(crate) page: PageId,
    pub(crate) node: Node<&'p [u8; PAGE_SIZE]>,
    pub(crate) found: SearchPosition,
}

/// Does the target belong on this leaf?
fn match_leaf(page: &[u8; PAGE_SIZE], target: SearchTarget<'_>) -> Checked<PageMatch> {
    if broken(Broken::NearLeafLowFenceIgnored) {
        let node = Node::open(page)?;
        let (SearchTarget::At(key) | SearchTarget::Before(Some(key))) = target else {
            return Ok(PageMatch::Lost);
        };
        let inside = node.is_leaf() && node.cmp_high(key).is_lt();
        return if inside { node.search(key).map(PageMatch::Here) } else { Ok(PageMatch::Lost) };
    }
    match_page(page, target, 0, Optimisations::ALL, |_| false)
}

/// What is remembered from one leaf to the next.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LeafCursor {
    /// Leaves to try before a descent; 0: none.
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

    /// Reads the leaf that `target` belongs to, under its shared latch. `before` runs before each
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
        let asks = self.misses < MAX_MISSES && tree.uses(Optimisation::Cursors);
        for block in near.into_iter().filter(|block| *block != 0 && asks) {
            let Some(pin) = tree.pool.try_pin(tree.page(block)) else { continue };
            before();
            let page = pin.shared();
            let damage = |what| Error::corrupt(pin.page(), what);
            if !is_node(page.bytes()) {
                continue;
            }
            if let PageMatch::Here(found) = match_leaf(page.bytes(), target).map_err(damage)? {
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
        // A remembered leaf would have been right.
        if near.contains(&arrived) {
            self.misses = 0;
        }
        result
    }
}
