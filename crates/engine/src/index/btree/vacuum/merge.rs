//! Giving back a page: its keys, if any, go to its right sibling, and it leaves parent and
//! siblings.
//!
//! A page that has become underfull goes into its right sibling, or takes in its left one, if the
//! page that comes out keeps a fifth free: enough that the next insertions do not split it again.
//! When that leaves the parent underfull, the parent is next.
//!
//! One record does it all, under the latches of the left sibling, the page, the right sibling and
//! the parent: there is no half-dead page in between, and nothing to finish after a crash. The
//! right sibling takes over the low fence, so keys move only right (R5). Both pages must have the
//! same parent page. A page that is the last child there has its right sibling under another one:
//! it takes in its left sibling instead, also a full one if it is empty itself; if it is the only
//! child, the parent is first merged into its own right neighbour.
//!
//! Invariants: never the root, never the rightmost page of a level; refused when the right sibling,
//! encoded again, would not fit. The page is reused only when every descent that might know it has
//! ended (R6).
//! Does not do: choose pages (`vacuum`).

use crate::buffer::{Held, Mtr, Pin};
use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::ids::Xid;
use crate::index::btree::insert::{Attempt, Lack, Luggage};
use crate::index::btree::optimisations::Optimisations;
use crate::index::btree::page::edit::{self, Frame};
use crate::index::btree::page::entries::Entries;
use crate::index::btree::page::node::{INCOMPLETE, LEFT, Node, RIGHT, ROOT, TRAILER};
use crate::index::btree::search::{Aim, Reached, Target};
use crate::index::btree::tree::Tree;
use crate::page::PageKind;
use crate::page::header::{self, OWNER};
use crate::wal::RecordKind;
use rightlink_env::points::broken;
use rightlink_env::sync::Ordering;

/// What became of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Merged {
    /// The page is free; this parent has become underfull, if any.
    Yes(Option<u32>),
    /// It stays.
    No,
    /// It stays because it is the only child of this parent.
    OnlyChild(u32),
}

/// What was seen of a page before anything was latched.
struct Seen {
    block: u32,
    level: u8,
    left: u32,
    right: u32,
    low: Vec<u8>,
}

/// Image of a free page.
fn free_image(level: u8, cycle: u32, right: u32) -> [u8; PAGE_SIZE] {
    let mut image = header::format(PageKind::BtreeFree, TRAILER);
    image[OWNER] = level;
    image[OWNER + 4..OWNER + 8].copy_from_slice(&cycle.to_le_bytes());
    image[RIGHT..RIGHT + 4].copy_from_slice(&right.to_le_bytes());
    image
}

/// Percent of a page that is underfull with that much or less.
const UNDERFULL: usize = 40;
/// Percent of a page that must stay free when two are merged that hold something.
const SPARE: usize = 20;

/// Bytes of a page that are in use.
pub(crate) fn used(node: &Node<&[u8; PAGE_SIZE]>) -> usize {
    (PAGE_SIZE - node.room()).saturating_sub(node.garbage)
}

/// Does the page hold nothing that another page would have to find room for?
fn is_bare(node: &Node<&[u8; PAGE_SIZE]>) -> bool {
    node.count <= usize::from(!node.is_leaf())
}

impl Tree {
    /// Should this page be merged with a neighbour?
    pub(crate) fn is_underfull(&self, node: &Node<&[u8; PAGE_SIZE]>) -> bool {
        let merges = self.uses(Optimisations::MERGING) && node.flags & ROOT == 0;
        merges && used(node) * 100 <= self.options.capacity * UNDERFULL
    }

    /// Is the page at `block` an underfull leaf?
    pub(crate) fn is_underfull_leaf(&self, block: u32) -> Result<bool> {
        let pin = self.pin_linked(block)?;
        let page = pin.shared();
        let node = Node::open(page.bytes());
        Ok(node.is_ok_and(|node| node.is_leaf() && self.is_underfull(&node)))
    }

    /// Is this the page that was seen, still mergeable?
    fn unchanged(&self, page: &[u8; PAGE_SIZE], seen: &Seen) -> bool {
        Node::open(page).is_ok_and(|node| {
            node.level == seen.level
                && (node.left, node.right) == (seen.left, seen.right)
                && node.flags & INCOMPLETE == 0
                && (is_bare(&node) || self.uses(Optimisations::MERGING))
                && node.low() == seen.low
        })
    }

    /// Gives back the page at `block` if it is an empty leaf, or an inner page with one child, or
    /// fits into its right sibling.
    pub(crate) fn give_back(&self, block: u32) -> Result<bool> {
        let _registered = self.registrations.enter();
        self.give_back_at(block, 0)
    }

    /// Merges an underfull page with a neighbour: into the right one, else the left one into it.
    pub(crate) fn merge_underfull(&self, block: u32) -> Result<bool> {
        let _registered = self.registrations.enter();
        Ok(self.give_back_at(block, 0)? || self.take_in_left(block, 0)?)
    }

    /// Gives back a page of `level`. Each level is tried a bounded number of times; the height
    /// bounds the recursion.
    fn give_back_at(&self, block: u32, level: u8) -> Result<bool> {
        let parent = match self.merge(block)? {
            Merged::No => return Ok(false),
            Merged::Yes(parent) => parent,
            Merged::OnlyChild(parent) => {
                if level >= self.root().1 || !self.give_back_at(parent, level + 1)? {
                    return Ok(false);
                }
                match self.merge(block)? {
                    Merged::Yes(parent) => parent,
                    _ => return Ok(false),
                }
            }
        };
        if let Some(parent) = parent.filter(|_| level < self.root().1) {
            let _ =
                self.give_back_at(parent, level + 1)? || self.take_in_left(parent, level + 1)?;
        }
        Ok(true)
    }

    /// Merges the left sibling of `block` into it.
    fn take_in_left(&self, block: u32, level: u8) -> Result<bool> {
        let left = {
            let pin = self.pin_linked(block)?;
            let page = pin.shared();
            match Node::open(page.bytes()) {
                Ok(node) if node.level == level && node.left != 0 => node.left,
                _ => return Ok(false),
            }
        };
        Ok(matches!(self.merge(left)?, Merged::Yes(_)))
    }

    fn merge(&self, block: u32) -> Result<Merged> {
        let mut luggage = Luggage::default();
        // A vacuum that passes meets a free page that is in no list yet.
        let _leaving = self.blocks.leaving(block);
        loop {
            match self.merge_once(block)? {
                Ok(merged) => return Ok(merged),
                Err(lack) => luggage.fetch(self, lack)?,
            }
        }
    }

    fn look(&self, block: u32) -> Result<Option<(Pin, Seen)>> {
        let pin = self.pin_linked(block)?;
        let seen = {
            let page = pin.shared();
            let Ok(node) = Node::open(page.bytes()) else { return Ok(None) };
            let (left, right, low) = (node.left, node.right, node.low());
            let seen = Seen { block, level: node.level, left, right, low };
            if right == 0 || !self.unchanged(page.bytes(), &seen) {
                return Ok(None);
            }
            seen
        };
        Ok(Some((pin, seen)))
    }

    fn merge_once(&self, block: u32) -> Result<Attempt<Merged>> {
        let Some((page, seen)) = self.look(block)? else { return Ok(Ok(Merged::No)) };
        let aim = Aim::At(&seen.low);
        let Some(parent) = self.descend(aim, seen.level + 1)? else { return Ok(Ok(Merged::No)) };
        let left = if seen.left == 0 { None } else { Some(self.pin_linked(seen.left)?) };
        let right = self.pin_linked(seen.right)?;
        let mut mtr = Mtr::new(&self.pool);
        let left = left.map(|pin| mtr.latch(pin));
        let page = mtr.latch(page);
        let right = mtr.latch(right);
        let joined = |held: Held, link: fn(&Node<&[u8; PAGE_SIZE]>) -> u32| {
            Node::open(mtr.bytes(held))
                .is_ok_and(|node| node.level == seen.level && link(&node) == block)
        };
        if !self.unchanged(mtr.bytes(page), &seen)
            || !joined(right, |node| node.left)
            || left.is_some_and(|left| !joined(left, |node| node.right))
        {
            return Ok(Err(Lack::Luck));
        }
        let target = Target { level: seen.level + 1, alone: false };
        let (parent, at) = match self.reach(&mut mtr, parent, aim, target)? {
            Reached::Here(held, found) => (held, found),
            Reached::Lost => return Ok(Err(Lack::Luck)),
            Reached::Missing(block) => return Ok(Err(Lack::Page(block))),
        };
        let parent_block = mtr.id(parent).block.0;
        let damage = |what| self.corrupt(parent_block, what);
        let node = Node::open(mtr.bytes(parent)).map_err(damage)?;
        let at = node.child_index(at, aim).ok_or_else(|| damage("a page without downlink"))?;
        let last = at + 1 == node.count;
        if node.child(at).map_err(damage)? != block {
            return Ok(Ok(Merged::No));
        }
        let only = node.count == 1;
        let cousin = last && !only && broken("r5-parent");
        if last && !cousin {
            return Ok(Ok(if only { Merged::OnlyChild(parent_block) } else { Merged::No }));
        }
        if !cousin && node.child(at + 1).map_err(damage)? != seen.right {
            return Ok(Ok(Merged::No));
        }
        let Some(image) = self.joined_image(&mtr, page, right)? else { return Ok(Ok(Merged::No)) };
        let sparse = self.apply_merge(
            mtr,
            &seen,
            [left, Some(page), Some(right), Some(parent)],
            (at, &image),
        )?;
        Ok(Ok(Merged::Yes(sparse.then_some(parent_block))))
    }

    /// The right page with the left one's entries and low fence; `None` if that does not fit.
    fn joined_image(
        &self,
        mtr: &Mtr<'_>,
        page: Held,
        right: Held,
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
        let mut frame = Frame::of(&to, self.reserve());
        frame.low = from.low();
        frame.left = from.left;
        if from.count > 0 {
            frame.cycle = self.cycle.load(Ordering::SeqCst);
        }
        let image = frame.image_of(&entries);
        if image.is_none() && broken("r5-fits") {
            return Ok(frame.image_of(&right));
        }
        if is_bare(&from) || is_bare(&to) {
            return Ok(image);
        }
        rightlink_env::points::hit("btree.merge.joined");
        Ok(image.filter(|image| {
            let most = self.options.capacity * (100 - SPARE);
            Node::open(&**image).is_ok_and(|node| node.used_bytes() * 100 <= most)
        }))
    }

    fn apply_merge(
        &self,
        mut mtr: Mtr<'_>,
        seen: &Seen,
        held: [Option<Held>; 4],
        (at, image): (usize, &[u8; PAGE_SIZE]),
    ) -> Result<bool> {
        let [left, Some(page), Some(right), Some(parent)] = held else {
            unreachable!("only the left sibling may be absent");
        };
        let node = Node::open(mtr.bytes(parent)).expect("opened under this latch");
        let cousin = broken("r5-parent") && at + 1 == node.count;
        let next = if cousin { at } else { at + 1 };
        let (kept, gone) = (node.item(at), node.item(next));
        let (Ok(kept), Ok(gone)) = (kept, gone) else {
            return Err(self.corrupt(mtr.id(parent).block.0, "a downlink is damaged"));
        };
        // What was here is to the right: a vacuum under way that comes here follows it there (R5).
        let cycle = match broken("r5-merge-cycle") {
            true => 0,
            false => self.cycle.load(Ordering::SeqCst),
        };
        if let Some(left) = left {
            mtr.page(left).put_u32(RIGHT, seen.right);
        }
        mtr.page(page).replace(&free_image(seen.level, cycle, seen.right));
        mtr.page(right).replace(image);
        debug_assert_eq!(header::u32_at(image, LEFT), seen.left);
        mtr.page(parent).put_u32(kept.start, seen.right);
        edit::remove_at(&mut mtr.page(parent), next, &gone);
        let sparse = Node::open(mtr.bytes(parent)).is_ok_and(|node| self.is_underfull(&node));
        // Before anybody sees it: a vacuum under way is not to stop at a page that took entries in.
        self.merges.note(if broken("r5-receiver") { seen.block } else { seen.right });
        mtr.commit(RecordKind::IndexUnlink, Xid::NONE)?;
        rightlink_env::points::hit("btree.merge.unlinked");
        let at = self.registrations.tick();
        self.blocks.freed(at, seen.block);
        Ok(sparse)
    }
}
