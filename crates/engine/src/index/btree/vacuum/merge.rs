//! Merges a page into its right sibling and deletes it.
//!
//! One record covers it, under the latches of the left sibling, the page, the right sibling and
//! the parent. Nothing is left to finish after a crash.
//!
//! An underfull page is merged into its right sibling, or its left sibling into it, if the result
//! keeps a fifth of the page free. A parent that becomes underfull is next. The last child of a
//! parent has no right sibling under it, so its left sibling is merged into it. The parent of an
//! only child is merged first.
//!
//! Invariants: the right sibling takes over the low fence, so keys move only right (R5). Both
//! pages have the same parent. Never the root, never the rightmost page of a level. The page is
//! reused only when every operation that might know it has ended (R6).
//! Does not do: choose pages (`vacuum`).
//! PostgreSQL: `_bt_pagedel`, which deletes empty pages only, in two stages (Lanin and Shasha).

use crate::buffer::{LatchedPage, Mtr, Pin};
use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::ids::Xid;
use crate::index::btree::insert::state::{Attempt, Retry, RetryState};
use crate::index::btree::optimisations::Optimisation;
use crate::index::btree::page::edit::{self, NodeHeader};
use crate::index::btree::page::entries::Entries;
use crate::index::btree::page::node::{INCOMPLETE, LEFT, Node, RIGHT, ROOT, TRAILER};
use crate::index::btree::search::{LatchResult, OtherLatches, SearchTarget};
use crate::index::btree::tree::Tree;
use crate::page::PageKind;
use crate::page::header::{self, OWNER};
use crate::wal::RecordKind;
use rightlink_env::Broken;
use rightlink_env::points::broken;
use rightlink_env::sync::Ordering;

/// The result of an attempt to merge a page away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MergeOutcome {
    /// The page is free. This parent has become underfull.
    Merged(Option<u32>),
    /// It stays.
    Kept,
    /// It stays because it is the only child of this parent.
    OnlyChild(u32),
}

/// A page as it was read before anything was latched.
struct MergeCandidate {
    block: u32,
    level: u8,
    left: u32,
    right: u32,
    low: Vec<u8>,
}

/// The pages of a merge, latched.
struct MergedPages {
    left: Option<LatchedPage>,
    /// The page that becomes free.
    page: LatchedPage,
    /// The page that takes its entries.
    right: LatchedPage,
    parent: LatchedPage,
    /// The parent's entry of the page.
    downlink: usize,
}

/// Image of a free page.
fn free_image(level: u8, cycle: u32, right: u32) -> [u8; PAGE_SIZE] {
    let mut image = header::format(PageKind::BtreeFree, TRAILER);
    image[OWNER] = level;
    image[OWNER + 4..OWNER + 8].copy_from_slice(&cycle.to_le_bytes());
    image[RIGHT..RIGHT + 4].copy_from_slice(&right.to_le_bytes());
    image
}

/// A page is underfull with at most so many percent in use.
const UNDERFULL_PERCENT: usize = 40;
/// So many percent of a page must stay free when two pages with entries are merged.
const MIN_FREE_PERCENT: usize = 20;

/// Has the page no entry that another page would have to take?
fn is_bare(node: &Node<&[u8; PAGE_SIZE]>) -> bool {
    node.count <= usize::from(!node.is_leaf())
}

impl Tree {
    /// Should this page be merged with a neighbour?
    pub(crate) fn is_underfull(&self, node: &Node<&[u8; PAGE_SIZE]>) -> bool {
        let merges = self.uses(Optimisation::Merging) && node.flags & ROOT == 0;
        merges && node.used_bytes() * 100 <= self.options.capacity * UNDERFULL_PERCENT
    }

    /// Is the page at `block` an underfull leaf?
    pub(crate) fn is_underfull_leaf(&self, block: u32) -> Result<bool> {
        let pin = self.pin_linked(block)?;
        let page = pin.shared();
        let node = Node::open(page.bytes());
        Ok(node.is_ok_and(|node| node.is_leaf() && self.is_underfull(&node)))
    }

    /// Is this still the page that was read, and may it be merged?
    fn unchanged(&self, page: &[u8; PAGE_SIZE], candidate: &MergeCandidate) -> bool {
        Node::open(page).is_ok_and(|node| {
            node.level == candidate.level
                && (node.left, node.right) == (candidate.left, candidate.right)
                && node.flags & INCOMPLETE == 0
                && (is_bare(&node) || self.uses(Optimisation::Merging))
                && node.low() == candidate.low
        })
    }

    /// Deletes the page at `block`, if it is an empty leaf or an inner page with one child, or its
    /// entries fit into its right sibling. False: it stays.
    pub(crate) fn delete_page(&self, block: u32) -> Result<bool> {
        let _registered = self.registrations.register();
        self.delete_page_at(block, 0)
    }

    /// Merges an underfull page into its right sibling, else its left sibling into it.
    pub(crate) fn merge_underfull(&self, block: u32) -> Result<bool> {
        let _registered = self.registrations.register();
        Ok(self.delete_page_at(block, 0)? || self.merge_left_sibling(block, 0)?)
    }

    /// Deletes a page of `level`. Each level is tried a bounded number of times; the height bounds
    /// the recursion.
    fn delete_page_at(&self, block: u32, level: u8) -> Result<bool> {
        let parent = match self.merge(block)? {
            MergeOutcome::Kept => return Ok(false),
            MergeOutcome::Merged(parent) => parent,
            MergeOutcome::OnlyChild(parent) => {
                if level >= self.root().1 || !self.delete_page_at(parent, level + 1)? {
                    return Ok(false);
                }
                match self.merge(block)? {
                    MergeOutcome::Merged(parent) => parent,
                    _ => return Ok(false),
                }
            }
        };
        if let Some(parent) = parent.filter(|_| level < self.root().1) {
            let _ = self.delete_page_at(parent, level + 1)?
                || self.merge_left_sibling(parent, level + 1)?;
        }
        Ok(true)
    }

    /// Merges the left sibling of `block` into it.
    fn merge_left_sibling(&self, block: u32, level: u8) -> Result<bool> {
        let left = {
            let pin = self.pin_linked(block)?;
            let page = pin.shared();
            match Node::open(page.bytes()) {
                Ok(node) if node.level == level && node.left != 0 => node.left,
                _ => return Ok(false),
            }
        };
        Ok(matches!(self.merge(left)?, MergeOutcome::Merged(_)))
    }

    fn merge(&self, block: u32) -> Result<MergeOutcome> {
        let mut state = RetryState::default();
        // A vacuum may meet the free page before it is in any list.
        let _deletion = self.free_pages.begin_deletion(block);
        loop {
            match self.try_merge(block)? {
                Ok(merged) => return Ok(merged),
                Err(retry) => state.prepare(self, retry)?,
            }
        }
    }

    fn inspect_candidate(&self, block: u32) -> Result<Option<(Pin, MergeCandidate)>> {
        let pin = self.pin_linked(block)?;
        let candidate = {
            let page = pin.shared();
            let Ok(node) = Node::open(page.bytes()) else { return Ok(None) };
            let (left, right, low) = (node.left, node.right, node.low());
            let candidate = MergeCandidate { block, level: node.level, left, right, low };
            if right == 0 || !self.unchanged(page.bytes(), &candidate) {
                return Ok(None);
            }
            candidate
        };
        Ok(Some((pin, candidate)))
    }

    fn try_merge(&self, block: u32) -> Result<Attempt<MergeOutcome>> {
        let Some((page, candidate)) = self.inspect_candidate(block)? else {
            return Ok(Ok(MergeOutcome::Kept));
        };
        let (target, level) = (SearchTarget::At(&candidate.low), candidate.level + 1);
        let Some(parent) = self.descend(target, level)? else { return Ok(Ok(MergeOutcome::Kept)) };
        let left = if candidate.left == 0 { None } else { Some(self.pin_linked(candidate.left)?) };
        let right = self.pin_linked(candidate.right)?;
        let mut mtr = Mtr::new(&self.pool);
        let left = left.map(|pin| mtr.latch(pin));
        let page = mtr.latch(page);
        let right = mtr.latch(right);
        let joined = |held: LatchedPage, link: fn(&Node<&[u8; PAGE_SIZE]>) -> u32| {
            Node::open(mtr.bytes(held))
                .is_ok_and(|node| node.level == candidate.level && link(&node) == block)
        };
        if !self.unchanged(mtr.bytes(page), &candidate)
            || !joined(right, |node| node.left)
            || left.is_some_and(|left| !joined(left, |node| node.right))
        {
            return Ok(Err(Retry::Conflict));
        }
        let (parent, at) =
            match self.latch_page(&mut mtr, parent, target, level, OtherLatches::LatchedPage)? {
                LatchResult::Here(held, found) => (held, found),
                LatchResult::Lost => return Ok(Err(Retry::Conflict)),
                LatchResult::NotInMemory(block) => return Ok(Err(Retry::NeedPage(block))),
            };
        let parent_block = mtr.id(parent).block.0;
        let damage = |what| self.corrupt(parent_block, what);
        let node = Node::open(mtr.bytes(parent)).map_err(damage)?;
        let at = node.child_index(at, target).ok_or_else(|| damage("a page without downlink"))?;
        let last = at + 1 == node.count;
        if node.child(at).map_err(damage)? != block {
            return Ok(Ok(MergeOutcome::Kept));
        }
        let only = node.count == 1;
        let cousin = last && !only && broken(Broken::MergeAcrossParents);
        if last && !cousin {
            return Ok(Ok(if only {
                MergeOutcome::OnlyChild(parent_block)
            } else {
                MergeOutcome::Kept
            }));
        }
        if !cousin && node.child(at + 1).map_err(damage)? != candidate.right {
            return Ok(Ok(MergeOutcome::Kept));
        }
        let Some(image) = self.merged_image(&mtr, page, right)? else {
            return Ok(Ok(MergeOutcome::Kept));
        };
        let pages = MergedPages { left, page, right, parent, downlink: at };
        let sparse = self.apply_merge(mtr, &candidate, &pages, &image)?;
        Ok(Ok(MergeOutcome::Merged(sparse.then_some(parent_block))))
    }

    /// The right page with the left page's entries and low fence; `None` if that does not fit.
    fn merged_image(
        &self,
        mtr: &Mtr<'_>,
        page: LatchedPage,
        right: LatchedPage,
    ) -> Result<Option<Box<[u8; PAGE_SIZE]>>> {
        let (block, next) = (mtr.id(page).block.0, mtr.id(right).block.0);
        let from = Node::open(mtr.bytes(page)).map_err(|what| self.corrupt(block, what))?;
        let to = Node::open(mtr.bytes(right)).map_err(|what| self.corrupt(next, what))?;
        let mut entries = Entries::load(&from).map_err(|what| self.corrupt(block, what))?;
        let right = Entries::load(&to).map_err(|what| self.corrupt(next, what))?;
        if from.high().is_none_or(|high| high != to.low()) {
            return Err(self.corrupt(next, "a low fence is not the left sibling's high key"));
        }
        (0..right.len()).for_each(|i| entries.push(right.key(i), right.value(i)));
        let mut header = NodeHeader::of(&to, self.unused_bytes());
        header.low = from.low();
        header.left = from.left;
        if from.count > 0 {
            header.cycle = self.cycle.load(Ordering::SeqCst);
        }
        let image = header.image_of(&entries);
        if image.is_none() && broken(Broken::MergeDropsEntries) {
            return Ok(header.image_of(&right));
        }
        if is_bare(&from) || is_bare(&to) {
            return Ok(image);
        }
        rightlink_env::points::hit("btree.merge.joined");
        Ok(image.filter(|image| {
            let most = self.options.capacity * (100 - MIN_FREE_PERCENT);
            Node::open(&**image).is_ok_and(|node| node.used_bytes() * 100 <= most)
        }))
    }

    fn apply_merge(
        &self,
        mut mtr: Mtr<'_>,
        candidate: &MergeCandidate,
        pages: &MergedPages,
        image: &[u8; PAGE_SIZE],
    ) -> Result<bool> {
        let MergedPages { left, page, right, parent, downlink: at } = *pages;
        let node = Node::open(mtr.bytes(parent)).expect("opened under this latch");
        let cousin = broken(Broken::MergeAcrossParents) && at + 1 == node.count;
        let next = if cousin { at } else { at + 1 };
        let (kept, gone) = (node.item(at), node.item(next));
        let (Ok(kept), Ok(gone)) = (kept, gone) else {
            return Err(self.corrupt(mtr.id(parent).block.0, "a downlink is damaged"));
        };
        // The entries are to the right now: a running vacuum that comes here follows them (R5).
        let cycle = match broken(Broken::MergeWithoutCycle) {
            true => 0,
            false => self.cycle.load(Ordering::SeqCst),
        };
        if let Some(left) = left {
            mtr.page(left).put_u32(RIGHT, candidate.right);
        }
        mtr.page(page).replace(&free_image(candidate.level, cycle, candidate.right));
        mtr.page(right).replace(image);
        debug_assert_eq!(header::u32_at(image, LEFT), candidate.left);
        mtr.page(parent).put_u32(kept.start, candidate.right);
        edit::remove_entry(&mut mtr.page(parent), next, &gone);
        let sparse = Node::open(mtr.bytes(parent)).is_ok_and(|node| self.is_underfull(&node));
        // This is counted before the change is visible: a running vacuum must not stop at a page
        // that took entries in.
        self.merges.record_merge_into(if broken(Broken::MergeReceiverNotNoted) {
            candidate.block
        } else {
            candidate.right
        });
        mtr.commit(RecordKind::IndexUnlink, Xid::NONE)?;
        rightlink_env::points::hit("btree.merge.unlinked");
        let at = self.registrations.advance();
        self.free_pages.freed(at, candidate.block);
        Ok(sparse)
    }
}
