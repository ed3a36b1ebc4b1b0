//! From the root to the page that a key belongs to.
//!
//! Inner pages are read without latch or pin, by an announced reader (R11), so that nobody writes
//! what others read above the leaf. The page that a descent came through is kept in mind: as long
//! as it is unchanged its downlink still means what it meant, so the child begins where the
//! downlink begins (a merge would have changed the parent), and the key shares with all keys of the
//! child what it shares with the separators on both sides. The child may have split meanwhile,
//! unknown to its parent: its high key counts only if it is the separator itself.
//!
//! The parent is asked after the child's version was read: merges change both under both latches,
//! so a child that has taken in its left sibling is not seen with a parent that has not.
//!
//! Invariants: a page of another level, a free one or one right of the key means that the descent
//! met a reused block: it starts again, and a bounded number of starts tells damage from bad luck.
//! Does not do: register (the operation that descends does, R6).

use rightlink_env::points::broken;

use crate::buffer::{Peek, Pin, Reading, Shared};
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::index::Tries;
use crate::index::btree::counters::count;
use crate::index::btree::optimisations::Optimisations;
use crate::index::btree::page::node::{Checked, Found, Node, is_node};
use crate::index::btree::page::read::PageRead;
use crate::index::btree::page::search::Given;
use crate::index::btree::search::{Aim, Downlink, Lead, MAX_OPTIMISTIC, Next, Place, Step, next};
use crate::index::btree::tree::Tree;
use crate::page::header::KIND;
use crate::page::{PageKind, PageView};

const LOST: &str = "descents from the root do not arrive";

/// The inner page that a descent came through, as it was then.
#[derive(Clone, Copy)]
struct Parent {
    peek: Peek,
    link: Downlink,
}

/// The page that a descent arrived at, and through which one, if that can still be asked.
pub(crate) struct Arrival<'t> {
    /// Dropped before the pin.
    through: Option<(Reading<'t>, Parent)>,
    /// The page. It may have changed since.
    pub(crate) pin: Pin,
}

/// A page that a descent came down to, not yet pinned.
pub(crate) struct Landing<'t> {
    block: u32,
    reading: Reading<'t>,
    parent: Option<Parent>,
}

/// What is known of a page from its parent.
struct Lineage<'r, 't> {
    set: Optimisations,
    reading: Option<&'r Reading<'t>>,
    parent: Option<Parent>,
}

impl Lineage<'_, '_> {
    /// Called after the version of the page was read (see the head).
    fn of<'r, 't>(
        set: Optimisations,
        through: Option<(&'r Reading<'t>, Parent)>,
    ) -> Lineage<'r, 't> {
        let reading = through.map(|(reading, _)| reading);
        let still = |(reading, parent): &(&Reading<'t>, Parent)| reading.unchanged(parent.peek);
        let parent = through.filter(|parent| still(parent) || broken("r5-carried"));
        Lineage { set, reading, parent: parent.map(|(_, parent)| parent) }
    }

    fn lead(&self) -> Lead {
        let trusted = self.parent.filter(|_| self.set.has(Optimisations::CARRIED_BOUNDS));
        let known = trusted.map_or(0, |parent| parent.link.shared);
        Lead { given: Given { set: self.set, known, from: 0 }, trusted: trusted.is_some() }
    }

    /// Is the high key of `child` the separator right of the downlink that led there?
    fn same_high<R: PageRead>(&self, child: &Node<R>) -> bool {
        let (Some(reading), Some(parent)) = (self.reading, self.parent) else { return false };
        if !self.set.has(Optimisations::SEPARATORS) {
            return false;
        }
        if broken("r5-separator") {
            return true;
        }
        let mut separator = Vec::new();
        let node = Node::open(reading.view(parent.peek));
        let read = node.and_then(|node| node.append_separator(parent.link.child, &mut separator));
        count(|c| c.bytes += separator.len() as u64);
        read == Ok(true) && child.high_is(&separator) && reading.unchanged(parent.peek)
    }
}

impl Tree {
    /// Pins the page of `level` that `aim` led to. It may have changed since: whoever latches it
    /// asks [`Node::place`] again. `None`: the tree has no such level (yet).
    pub(crate) fn descend(&self, aim: Aim<'_>, level: u8) -> Result<Option<Pin>> {
        Ok(self.arrive(aim, level)?.map(|arrival| arrival.pin))
    }

    fn arrive(&self, aim: Aim<'_>, level: u8) -> Result<Option<Arrival<'_>>> {
        count(|c| c.descents += 1);
        if self.root().1 < level && self.refresh_root()?.level < level {
            return Ok(None);
        }
        let mut tries = Tries::default();
        loop {
            let set = self.switches.get();
            let arrived = match set.has(Optimisations::OPTIMISTIC) {
                true => match self.land(aim, level, set)? {
                    Some(landing) => Some(self.pin_landing(landing)?),
                    None => None,
                },
                false => self.arrive_latched(aim, level)?,
            };
            if arrived.is_some() {
                return Ok(arrived);
            }
            rightlink_env::points::hit("btree.descend.again");
            tries.again(&self.pool, self.page(0), LOST)?;
            self.refresh_root()?;
        }
    }

    /// Page after page under its shared latch, as far as that is taken at all.
    fn arrive_latched(&self, aim: Aim<'_>, level: u8) -> Result<Option<Arrival<'_>>> {
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
                    self.count_move(&mut moves)?;
                    pin = self.pin_linked(block)?;
                }
                Step::Lost => return Ok(None),
            }
        }
        Ok(Some(Arrival { through: None, pin }))
    }

    /// Down to the page of `level`, which may not be in memory.
    fn land(&self, aim: Aim<'_>, level: u8, set: Optimisations) -> Result<Option<Landing<'_>>> {
        let (mut block, mut at) = self.root();
        let mut reading = self.pool.reading();
        let mut parent: Option<Parent> = None;
        let (mut moves, mut tries) = (0, 0);
        while at > level {
            let found = reading.peek(self.page(block)).and_then(|peek| {
                let lineage = Lineage::of(set, parent.map(|parent| (&reading, parent)));
                let view = reading.view(peek);
                let next = next(view, (aim, at), lineage.lead(), |node| lineage.same_high(node));
                reading.unchanged(peek).then_some((peek, next))
            });
            let Some((peek, next)) = found else {
                // Not in memory, or being changed: with a pin, and after some luckless tries a
                // latch. R7: nobody waits for this reader meanwhile.
                drop(reading);
                parent = None;
                tries += 1;
                let pin = self.pin_linked(block)?;
                if tries > MAX_OPTIMISTIC {
                    tries = 0;
                    match self.step(&pin, aim, at)? {
                        Step::Down(below) => (block, at) = (below, at - 1),
                        Step::Right(next) => {
                            self.count_move(&mut moves)?;
                            block = next;
                        }
                        Step::Lost => return Ok(None),
                    }
                }
                reading = self.pool.reading();
                continue;
            };
            match next.map_err(|what| self.corrupt(block, what))? {
                Next::Down(link) => {
                    parent = Some(Parent { peek, link });
                    (block, at) = (link.block, at - 1);
                }
                Next::Right(next) => {
                    self.count_move(&mut moves)?;
                    // The page to the right has another parent, or the same one by another link.
                    (block, parent) = (next, None);
                }
                Next::Lost => return Ok(None),
            }
        }
        Ok(Some(Landing { block, reading, parent }))
    }

    fn pin_landing<'t>(&'t self, landing: Landing<'t>) -> Result<Arrival<'t>> {
        let Landing { block, reading, parent } = landing;
        if let Some(pin) = reading.pin(self.page(block)) {
            let through = parent.map(|parent| (reading, parent));
            return Ok(Arrival { through, pin });
        }
        drop(reading);
        Ok(Arrival { through: None, pin: self.pin_linked(block)? })
    }

    /// Runs `read` on the words of the leaf that `key` belongs to, with the place where the search
    /// for it ended and the leading bytes that the entry there is known to share with it, without
    /// pin or latch. `None`: not in memory, moved, or being changed.
    pub(crate) fn glance<T>(
        &self,
        key: &[u8],
        read: impl FnOnce(&Node<PageView<'_>>, Found, usize) -> Checked<T>,
    ) -> Result<Option<T>> {
        let set = self.switches.get();
        if !set.has(Optimisations::OPTIMISTIC) {
            return Ok(None);
        }
        count(|c| c.descents += 1);
        let Some(landing) = self.land(Aim::At(key), 0, set)? else { return Ok(None) };
        let Landing { block, reading, parent } = landing;
        let Some(peek) = reading.peek(self.page(block)) else { return Ok(None) };
        let lineage = Lineage::of(set, parent.map(|parent| (&reading, parent)));
        let result = match place_leaf(reading.view(peek), Aim::At(key), &lineage) {
            Ok(Some((node, Place::Here(found), shared))) => read(&node, found, shared).map(Some),
            Ok(_) => Ok(None),
            Err(what) => Err(what),
        };
        if !reading.unchanged(peek) {
            return Ok(None);
        }
        result.map_err(|what| self.corrupt(block, what))
    }

    /// Runs `read` on the words of the page above the leaf that `aim` leads to, with the place of
    /// that leaf among its children, without pin or latch. For advice only. `None`: there is no
    /// such page, it is damaged, or it changes all the time.
    pub(crate) fn above_leaf<T>(
        &self,
        aim: Aim<'_>,
        read: impl Fn(&Node<PageView<'_>>, usize) -> Checked<T>,
    ) -> Option<T> {
        if self.root().1 == 0 {
            return None;
        }
        (0..MAX_OPTIMISTIC).find_map(|_| self.peek_above(aim, &read))
    }

    fn peek_above<T>(
        &self,
        aim: Aim<'_>,
        read: impl Fn(&Node<PageView<'_>>, usize) -> Checked<T>,
    ) -> Option<T> {
        count(|c| c.descents += 1);
        let Landing { reading, parent, .. } = self.land(aim, 0, self.switches.get()).ok()??;
        let Parent { peek, link } = parent?;
        rightlink_env::points::hit("btree.ahead.peeked");
        // Changed since, it may be any page.
        let told = match Node::open(reading.view(peek)) {
            Ok(node) if node.level == 1 && link.child < node.count => read(&node, link.child).ok(),
            _ => None,
        };
        told.filter(|_| reading.unchanged(peek) || broken("r11-ahead"))
    }

    fn count_move(&self, moves: &mut u32) -> Result<()> {
        count(|c| c.moves_right += 1);
        *moves += 1;
        self.bound_moves(*moves)
    }

    /// Reads the leaf that `aim` belongs to, under its shared latch. `before` runs before each
    /// latch; `read` runs once on the right leaf, with the place where the search ended.
    pub(crate) fn read_leaf<T>(
        &self,
        aim: Aim<'_>,
        mut before: impl FnMut(),
        read: impl FnOnce(&Shared<'_>, &Node<&[u8; PAGE_SIZE]>, Found) -> Checked<T>,
    ) -> Result<T> {
        let mut tries = Tries::default();
        loop {
            let found = self.arrive(aim, 0)?;
            let Arrival { mut pin, mut through } =
                found.ok_or_else(|| self.corrupt(0, "a tree without leaves"))?;
            let mut moves = 0;
            loop {
                before();
                // An announced reader does not wait for a latch: its holder may wait for somebody
                // who waits for the reader.
                let page = match pin.try_shared() {
                    Some(page) => page,
                    None if broken("announced-reader-waits") => pin.shared(),
                    None => {
                        through = None;
                        pin.shared()
                    }
                };
                let damage = |what| Error::corrupt(pin.page(), what);
                let set = self.switches.get();
                let lineage =
                    Lineage::of(set, through.as_ref().map(|(reading, parent)| (reading, *parent)));
                let placed = place_leaf(page.bytes(), aim, &lineage);
                // The parent is asked no more.
                through = None;
                match placed.map_err(damage)? {
                    Some((node, Place::Here(found), _)) => {
                        return read(&page, &node, found).map_err(damage);
                    }
                    Some((_, Place::Right(block), _)) => {
                        drop(page);
                        self.count_move(&mut moves)?;
                        pin = self.pin_linked(block)?;
                    }
                    Some((_, Place::Lost, _)) | None => break,
                }
            }
            tries.again(&self.pool, self.page(0), LOST)?;
        }
    }
}

/// A leaf, whether it is the one, and the leading bytes of the aim that the entry at the place is
/// known to share.
type Placed<R> = (Node<R>, Place, usize);

/// Searches a leaf, if it is one.
#[inline(always)]
fn place_leaf<R: PageRead>(
    page: R,
    aim: Aim<'_>,
    lineage: &Lineage<'_, '_>,
) -> Checked<Option<Placed<R>>> {
    if !is_node(page) {
        let free = page.u8(KIND) == PageKind::BtreeFree as u8;
        return if free { Ok(None) } else { Err("not a page of a tree") };
    }
    let node = Node::open(page)?;
    if !node.is_leaf() {
        return Ok(None);
    }
    let placed = node.place_with(aim, lineage.lead(), |node| lineage.same_high(node));
    let (place, probe) = placed?;
    Ok(Some((node, place, probe.map_or(0, |probe| probe.shared_above()))))
}
