//! Is this the page that a key belongs to, and if not, where to?
//!
//! Each page is searched first; its high key is asked only when the search ends past the last slot,
//! its low fence only when it ends before the first. Inner pages are read
//! optimistically, without latch.
//!
//! Invariants: one pin at a time and no latch kept between pages; a page of another level, a free
//! one or one right of the key means that the descent met a reused block: it starts again, and a
//! bounded number of starts tells damage from bad luck. Right links are followed only from pages
//! whose low fence is not above the key.
//! Does not do: change anything; register (the operation that descends does, R6).

pub(crate) mod cursor;
mod descent;
mod leaf_groups;
pub(crate) mod prefetch;

use std::cmp::Ordering;

use crate::buffer::{Held, Mtr, Pin};
use crate::error::{Error, Result};
use rightlink_env::points::broken;

use crate::index::btree::counters::count;
use crate::index::btree::optimisations::Optimisations;
use crate::index::btree::page::node::{Checked, Found, Node, is_node};
use crate::index::btree::page::read::PageRead;
use crate::index::btree::page::search::{Given, Probe};
use crate::index::btree::tree::Tree;
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

/// Optimistic reads of one page before it is latched.
pub(crate) const MAX_OPTIMISTIC: u32 = 3;

/// What a search of a page may rely on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lead {
    /// For the search among the entries.
    pub(crate) given: Given,
    /// The parent was unchanged when this page was looked at: its low fence is not above the aim.
    pub(crate) trusted: bool,
}

impl Lead {
    /// Nothing.
    pub(crate) const NONE: Lead = Lead::with(Optimisations::ALL);

    /// Nothing but what may be used.
    pub(crate) const fn with(set: Optimisations) -> Lead {
        Lead { given: Given { set, ..Given::NOTHING }, trusted: false }
    }
}

impl<R: PageRead> Node<R> {
    /// Searches for the aim, and tells whether it belongs here.
    pub(crate) fn place(&self, aim: Aim<'_>) -> Checked<Place> {
        self.place_with(aim, Lead::NONE, |_| false).map(|(place, _)| place)
    }

    /// As [`Node::place`], with what is known already. `same_high` may tell that the high key is
    /// the separator right of the downlink that led here, and so above the aim.
    #[inline(always)]
    pub(crate) fn place_with(
        &self,
        aim: Aim<'_>,
        lead: Lead,
        same_high: impl Fn(&Self) -> bool,
    ) -> Checked<(Place, Option<Probe>)> {
        let (key, before) = match aim {
            Aim::At(key) => (key, false),
            Aim::Before(Some(key)) => (key, true),
            Aim::Before(None) if self.right != 0 => return Ok((Place::Right(self.right), None)),
            Aim::Before(None) => {
                return Ok((Place::Here(Found { pos: self.count, exact: false }), None));
            }
        };
        let search_first = lead.given.set.has(Optimisations::SEARCH_FIRST);
        if !search_first && self.ends_before((key, before), &same_high) {
            return Ok((Place::Right(self.right), None));
        }
        let probe = self.probe(key, lead.given)?;
        let found = probe.found;
        if search_first && found.pos == self.count && self.ends_before((key, before), &same_high) {
            return Ok((Place::Right(self.right), None));
        }
        // Whatever lies after the first entry (on inner pages: the second) is above the low fence.
        if !lead.trusted && found.pos <= usize::from(!self.is_leaf()) {
            let order = self.cmp_low(key);
            if order == Ordering::Less || order == Ordering::Equal && before {
                return Ok((Place::Lost, None));
            }
        }
        Ok((Place::Here(found), Some(probe)))
    }

    /// Does the page end before the key? A high key equal to the separator that led here does not
    /// need to be compared.
    fn ends_before(&self, (key, before): (&[u8], bool), same_high: impl Fn(&Self) -> bool) -> bool {
        if self.right == 0 {
            return false;
        }
        if same_high(self) {
            count(|c| c.separators += 1);
            return false;
        }
        let order = self.cmp_high(key);
        order == Ordering::Greater || order == Ordering::Equal && !before
    }

    /// Is the high key exactly `separator`? Its length is part of it: a separator that was cut
    /// shorter is another one, whatever bytes its head is padded with.
    pub(crate) fn high_is(&self, separator: &[u8]) -> bool {
        let at = self.special + self.low_len;
        self.right != 0
            && self.high_len == separator.len()
            && self.page.common(at, self.high_len, separator) == separator.len()
    }

    /// Appends the separator right of child `child`: the next entry's key, of the last child the
    /// high key. False if there is none: the page ends the level.
    pub(crate) fn append_separator(&self, child: usize, out: &mut Vec<u8>) -> Checked<bool> {
        if child + 1 < self.count {
            self.append_key(child + 1, out)?;
        } else if self.right != 0 {
            self.page.append(self.special + self.low_len, self.high_len, out);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Entry of an inner page whose child is the next page of a descent that found `found` here.
    #[inline(always)]
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

/// A downlink that a search chose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Downlink {
    /// Where it leads.
    pub(crate) block: u32,
    /// Its place among the entries.
    pub(crate) child: usize,
    /// Leading bytes of the aim that its two separators share.
    pub(crate) shared: usize,
}

/// Next step of a descent, from a page searched with a [`Lead`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// Down there.
    Down(Downlink),
    /// To the right sibling.
    Right(u32),
    /// The page is not the one.
    Lost,
}

/// The next step from an inner page that should be at `level`.
#[inline(always)]
pub(crate) fn next<R: PageRead>(
    page: R,
    (aim, level): (Aim<'_>, u8),
    lead: Lead,
    same_high: impl Fn(&Node<R>) -> bool,
) -> Checked<Next> {
    if page.u8(KIND) == PageKind::BtreeFree as u8 {
        return Ok(Next::Lost);
    }
    let node = Node::open(page)?;
    if node.level != level {
        return Ok(Next::Lost);
    }
    let (found, probe) = match node.place_with(aim, lead, same_high)? {
        (Place::Right(block), _) => return Ok(Next::Right(block)),
        (Place::Lost, _) => return Ok(Next::Lost),
        (Place::Here(found), probe) => (found, probe),
    };
    let Some(child) = node.child_index(found, aim) else { return Ok(Next::Lost) };
    let shared = match (aim, probe) {
        (Aim::At(key) | Aim::Before(Some(key)), Some(probe)) if child < node.count => {
            node.shared(key, &probe, child)
        }
        _ => 0,
    };
    if child >= node.count {
        return Err("an inner page without the child that was found");
    }
    Ok(Next::Down(Downlink { block: node.child(child)?, child, shared }))
}

/// [`next`] without a parent.
fn step<R: PageRead>(page: R, aim: (Aim<'_>, u8), set: Optimisations) -> Checked<Step> {
    Ok(match next(page, aim, Lead::with(set), |_| false)? {
        Next::Down(link) => Step::Down(link.block),
        Next::Right(block) => Step::Right(block),
        Next::Lost => Step::Lost,
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
        let set = self.switches.get();
        let tries = if set.has(Optimisations::OPTIMISTIC) { MAX_OPTIMISTIC } else { 0 };
        for _ in 0..tries {
            if let Some(step) = pin.optimistic(|view| step(view, (aim, level), set)) {
                return step.map_err(|what| Error::corrupt(pin.page(), what));
            }
        }
        let page = pin.shared();
        step(page.bytes(), (aim, level), set).map_err(|what| Error::corrupt(pin.page(), what))
    }

    /// A walk longer than the file is a ring of links.
    pub(crate) fn bound_moves(&self, moves: u32) -> Result<()> {
        if moves.is_multiple_of(64) && moves > self.pool.blocks(self.file) + 64 {
            return Err(self.corrupt(0, "right links form a ring"));
        }
        Ok(())
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
            let place = place_with(mtr.bytes(held), aim, target.level, self.switches.get());
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
    place_with(page, aim, level, Optimisations::ALL)
}

/// As [`place_on`], with a set of optimisations.
fn place_with<R: PageRead>(page: R, aim: Aim<'_>, level: u8, set: Optimisations) -> Checked<Place> {
    if !is_node(page) {
        return if page.u8(KIND) == PageKind::BtreeFree as u8 {
            Ok(Place::Lost)
        } else {
            Err("not a page of a tree")
        };
    }
    let node = Node::open(page)?;
    if node.level != level {
        return Ok(Place::Lost);
    }
    node.place_with(aim, Lead::with(set), |_| false).map(|(place, _)| place)
}

/// Is this a leaf whose fences contain the key?
pub(crate) fn takes<R: PageRead>(page: R, aim: Aim<'_>) -> bool {
    let Aim::At(key) = aim else { return false };
    let inside = |node: &Node<R>| node.cmp_low(key).is_ge() && node.cmp_high(key).is_lt();
    let takes = |node: Node<R>| node.is_leaf() && (inside(&node) || broken("r6-fences"));
    Node::open(page).is_ok_and(takes)
}

impl Tree {
    /// Pins the leaf at `block` if it is in memory and takes the key, as far as can be told without
    /// a latch (R6). Block 0: no guess.
    pub(crate) fn guess(&self, block: u32, aim: Aim<'_>) -> Option<Pin> {
        if block == 0 {
            return None;
        }
        let pin = self.pool.try_pin(self.page(block))?;
        let takes = pin.optimistic(|view| takes(view, aim)).unwrap_or(false);
        takes.then_some(pin)
    }
}
