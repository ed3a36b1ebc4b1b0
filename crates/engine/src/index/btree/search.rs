//! From the root to the page that a key belongs to.
//!
//! Each page is searched first; its high key is asked only when the search ends past the last slot,
//! its low fence only when it ends before the first (decision 3). Inner pages are read
//! optimistically, without latch.
//!
//! Invariants: one pin at a time and no latch kept between pages; a page of another level, a free
//! one or one right of the key means that the descent met a reused block: it starts again, and a
//! bounded number of starts tells damage from bad luck. Right links are followed only from pages
//! whose low fence is not above the key.
//! Does not do: change anything; register (the operation that descends does, R6).

use std::cmp::Ordering;

use crate::buffer::{Held, Mtr, Pin};
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::index::btree::counters::count;
use crate::index::btree::node::{Checked, Found, Node, is_node};
use crate::index::btree::read::PageRead;
use crate::index::btree::{Optimisations, Tree};
use crate::page::PageKind;
use crate::page::header::KIND;

/// Which page of a level is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Aim<'k> {
    /// The one with `low <= key < high`.
    At(&'k [u8]),
    /// The one with `low < key <= high`, which holds the last keys below `key`; the rightmost one
    /// for `None`.
    Before(Option<&'k [u8]>),
}

/// Is this the page?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// Yes, and there the search ended.
    Here(Found),
    /// It is further right: the right link.
    Right(u32),
    /// It is not to be found from here.
    Lost,
}

/// Where a writer's walk along a level ended.
pub(crate) enum Reached {
    /// Latched, the right page.
    Here(Held, Found),
    /// Start again; nothing more is latched than before.
    Lost,
    /// This block must be read first, without latches; nothing more is latched than before.
    Missing(u32),
}

/// Starts of one descent before it is called damage.
const MAX_STARTS: u32 = 1000;
/// Optimistic reads of one page before it is latched.
const MAX_OPTIMISTIC: u32 = 3;

impl<R: PageRead> Node<R> {
    /// Searches for the aim, and tells whether it belongs here.
    pub(crate) fn place(&self, aim: Aim<'_>) -> Checked<Place> {
        let (key, before) = match aim {
            Aim::At(key) => (key, false),
            Aim::Before(Some(key)) => (key, true),
            Aim::Before(None) if self.right != 0 => return Ok(Place::Right(self.right)),
            Aim::Before(None) => {
                return Ok(Place::Here(Found { pos: self.count, exact: false }));
            }
        };
        let found = self.search(key)?;
        if found.pos == self.count {
            let order = self.cmp_high(key);
            if order == Ordering::Greater || order == Ordering::Equal && !before {
                return Ok(Place::Right(self.right));
            }
        }
        // Whatever lies after the first entry (on inner pages: the second) is above the low fence.
        if found.pos <= usize::from(!self.is_leaf()) {
            let order = self.cmp_low(key);
            if order == Ordering::Less || order == Ordering::Equal && before {
                return Ok(Place::Lost);
            }
        }
        Ok(Place::Here(found))
    }

    /// Entry of an inner page whose child is the next page of a descent that found `found` here.
    pub(crate) fn child_index(&self, found: Found, aim: Aim<'_>) -> Option<usize> {
        if found.exact && matches!(aim, Aim::At(_)) {
            Some(found.pos)
        } else if found.pos == 0 && self.left == 0 {
            // Below the prefix of a leftmost page is still its first child.
            Some(0)
        } else {
            found.pos.checked_sub(1)
        }
    }
}

/// Next step of a descent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// To this child.
    Down(u32),
    /// To the right sibling.
    Right(u32),
    /// The page is not the one.
    Lost,
}

/// The next step from an inner page that should be at `level`.
fn step<R: PageRead>(page: R, aim: Aim<'_>, level: u8) -> Checked<Step> {
    if page.u8(KIND) == PageKind::BtreeFree as u8 {
        return Ok(Step::Lost);
    }
    let node = Node::open(page)?;
    if node.level != level {
        return Ok(Step::Lost);
    }
    Ok(match node.place(aim)? {
        Place::Right(block) => Step::Right(block),
        Place::Lost => Step::Lost,
        Place::Here(found) => match node.child_index(found, aim) {
            Some(i) => Step::Down(node.child(i)?),
            None => Step::Lost,
        },
    })
}

impl Tree {
    /// Pins a block that a link named.
    pub(crate) fn pin_linked(&self, block: u32) -> Result<Pin> {
        let outside = |tree: &Tree| block == 0 || block >= tree.pool.blocks(tree.file);
        match self.pool.pin(self.page(block)) {
            Ok(pin) if block != 0 => Ok(pin),
            Err(error) if !outside(self) => Err(error),
            _ => Err(self.corrupt(block, "a link names a block outside the index")),
        }
    }

    /// The next step from a pinned inner page that should be at `level`.
    pub(crate) fn step(&self, pin: &Pin, aim: Aim<'_>, level: u8) -> Result<Step> {
        let tries = if self.uses(Optimisations::OPTIMISTIC) { MAX_OPTIMISTIC } else { 0 };
        for _ in 0..tries {
            if let Some(step) = pin.optimistic(|view| step(view, aim, level)) {
                return step.map_err(|what| Error::corrupt(pin.page(), what));
            }
        }
        let page = pin.shared();
        step(page.bytes(), aim, level).map_err(|what| Error::corrupt(pin.page(), what))
    }

    /// Pins the page of `level` that `aim` led to. It may have changed since: whoever latches it
    /// asks [`Node::place`] again. `None`: the tree has no such level (yet).
    pub(crate) fn descend(&self, aim: Aim<'_>, level: u8) -> Result<Option<Pin>> {
        count(|c| c.descents += 1);
        if self.root().1 < level && self.refresh_root()?.level < level {
            return Ok(None);
        }
        for _ in 0..MAX_STARTS {
            if let Some(pin) = self.descend_once(aim, level)? {
                return Ok(Some(pin));
            }
            rightlink_env::points::hit("btree.descend.again");
            self.refresh_root()?;
        }
        Err(self.corrupt(0, "descents from the root do not arrive"))
    }

    fn descend_once(&self, aim: Aim<'_>, level: u8) -> Result<Option<Pin>> {
        let (root, mut at) = self.root();
        let mut pin = self.pin_linked(root)?;
        let mut moves = 0;
        while at > level {
            match self.step(&pin, aim, at)? {
                Step::Down(block) => {
                    pin = self.pin_linked(block)?;
                    at -= 1;
                }
                Step::Right(block) => {
                    count(|c| c.moves_right += 1);
                    moves += 1;
                    self.bound_moves(moves)?;
                    pin = self.pin_linked(block)?;
                }
                Step::Lost => return Ok(None),
            }
        }
        Ok(Some(pin))
    }

    /// A walk longer than the file is a ring of links.
    pub(crate) fn bound_moves(&self, moves: u32) -> Result<()> {
        if moves.is_multiple_of(64) && moves > self.pool.blocks(self.file) + 64 {
            return Err(self.corrupt(0, "right links form a ring"));
        }
        Ok(())
    }

    /// Reads the leaf that `aim` belongs to, under its shared latch. `before` runs before each
    /// latch; `read` runs once on the right leaf.
    pub(crate) fn read_leaf<T>(
        &self,
        aim: Aim<'_>,
        mut before: impl FnMut(),
        read: impl FnOnce(&Pin, &Node<&[u8; PAGE_SIZE]>) -> Checked<T>,
    ) -> Result<T> {
        for _ in 0..MAX_STARTS {
            let found = self.descend(aim, 0)?;
            let mut pin = found.ok_or_else(|| self.corrupt(0, "a tree without leaves"))?;
            let mut moves = 0;
            loop {
                before();
                let page = pin.shared();
                let damage = |what| Error::corrupt(pin.page(), what);
                match place_on(page.bytes(), aim, 0).map_err(damage)? {
                    Place::Here(_) => {
                        let node = Node::open(page.bytes()).map_err(damage)?;
                        return read(&pin, &node).map_err(damage);
                    }
                    Place::Lost => break,
                    Place::Right(block) => {
                        drop(page);
                        count(|c| c.moves_right += 1);
                        moves += 1;
                        self.bound_moves(moves)?;
                        pin = self.pin_linked(block)?;
                    }
                }
            }
        }
        Err(self.corrupt(0, "descents from the root do not arrive"))
    }

    /// Latches the page of `level` that `aim` belongs to exclusively, moving right from `pin`. With
    /// `alone`, nothing else is latched and pages may be read on the way; else a page that is not
    /// in memory is reported.
    pub(crate) fn reach(
        &self,
        mtr: &mut Mtr<'_>,
        mut pin: Pin,
        aim: Aim<'_>,
        target: Target,
    ) -> Result<Reached> {
        let mut moves = 0;
        loop {
            let held = mtr.latch(pin);
            let block = mtr.id(held).block.0;
            let place = place_on(mtr.bytes(held), aim, target.level);
            match place.map_err(|what| self.corrupt(block, what))? {
                Place::Here(found) => return Ok(Reached::Here(held, found)),
                Place::Lost => {
                    mtr.release(held);
                    return Ok(Reached::Lost);
                }
                Place::Right(next) => {
                    mtr.release(held);
                    moves += 1;
                    self.bound_moves(moves)?;
                    match self.pool.try_pin(self.page(next)) {
                        Some(found) => pin = found,
                        None if target.alone => pin = self.pin_linked(next)?,
                        None => return Ok(Reached::Missing(next)),
                    }
                }
            }
        }
    }
}

/// What [`Tree::reach`] is to latch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// Level of the page.
    pub(crate) level: u8,
    /// Is nothing else latched?
    pub(crate) alone: bool,
}

/// [`Node::place`] on a page that may have left the tree.
pub(crate) fn place_on<R: PageRead>(page: R, aim: Aim<'_>, level: u8) -> Checked<Place> {
    if !is_node(page) {
        return if page.u8(KIND) == PageKind::BtreeFree as u8 {
            Ok(Place::Lost)
        } else {
            Err("not a page of a tree")
        };
    }
    let node = Node::open(page)?;
    if node.level == level { node.place(aim) } else { Ok(Place::Lost) }
}
