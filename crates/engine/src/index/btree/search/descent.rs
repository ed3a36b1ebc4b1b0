//! The descent from the root to the page that a key belongs to.
//!
//! Inner pages are read without latch or pin, by an announced reader (R11), so readers write no
//! shared memory above the leaves. While the page above is unchanged, its downlink bounds the
//! child: the child begins at the downlink's separator, and the key shares with all keys of the
//! child what it shares with both separators. The child may have split since, so its high key
//! counts only if it equals the next separator.
//!
//! Invariants: the parent is validated after the child's version was read. A merge changes both
//! under both latches, so a child that took in its left sibling is never seen with a parent that
//! did not. The number of starts from the root is bounded, which tells damage from contention.
//! Does not do: register (the operation does, R6).
//! See Leis, Haubenschild and Neumann, "Optimistic lock coupling".

use rightlink_env::Broken;
use rightlink_env::points::broken;

use crate::buffer::{Peek, Pin, Reading, SharedPage};
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::index::Tries;
use crate::index::am::{NamedPage, PageLink};
use crate::index::btree::counters::count;
use crate::index::btree::optimisations::{Optimisation, Optimisations};
use crate::index::btree::page::node::{Checked, Node, SearchPosition, is_node};
use crate::index::btree::page::read::PageRead;
use crate::index::btree::page::search::SearchBounds;
use crate::index::btree::search::{
    DescentStep, Downlink, MAX_OPTIMISTIC, PageMatch, ParentHint, SearchTarget, descent_step,
};
use crate::index::btree::tree::Tree;
use crate::page::header::KIND;
use crate::page::{PageKind, PageView};

const LOST: &str = "descents from the root do not arrive";
const NO_LEAVES: &str = "a tree without leaves";

/// The inner page that a descent came from, and its version then.
#[derive(Clone, Copy)]
struct Parent {
    block: u32,
    peek: Peek,
    link: Downlink,
}

/// A leaf that a descent named: a guess, until it is latched.
pub(crate) struct NamedLeaf {
    /// Where it is.
    pub(crate) block: u32,
    /// The link that named it, unless the page of that link changed meanwhile.
    pub(crate) link: Option<PageLink>,
}

/// The page that a descent ended on, with its parent, if that can still be validated.
pub(crate) struct DescentEnd<'t> {
    /// This is dropped before the pin.
    through: Option<(Reading<'t>, Parent)>,
    /// The page. It may have changed since.
    pub(crate) pin: Pin,
}

/// The page that a descent ended on, not yet pinned.
pub(crate) struct UnpinnedEnd<'t> {
    block: u32,
    reading: Reading<'t>,
    parent: Option<Parent>,
}

/// What a validated parent says about its child.
struct ParentState<'r, 't> {
    set: Optimisations,
    reading: Option<&'r Reading<'t>>,
    parent: Option<Parent>,
}

impl ParentState<'_, '_> {
    /// The caller has read the version of the child before (see the head).
    fn of<'r, 't>(
        set: Optimisations,
        through: Option<(&'r Reading<'t>, Parent)>,
    ) -> ParentState<'r, 't> {
        let reading = through.map(|(reading, _)| reading);
        let still = |(reading, parent): &(&Reading<'t>, Parent)| reading.unchanged(parent.peek);
        let parent =
            through.filter(|parent| still(parent) || broken(Broken::BoundsOfChangedParent));
        ParentState { set, reading, parent: parent.map(|(_, parent)| parent) }
    }

    fn hint(&self) -> ParentHint {
        let trusted = self.parent.filter(|_| self.set.has(Optimisation::CarriedBounds));
        let shared_bytes = trusted.map_or(0, |parent| parent.link.shared);
        let bounds = SearchBounds { set: self.set, shared_bytes, from: 0 };
        ParentHint { bounds, trusted: trusted.is_some() }
    }

    /// Does the high key of `child` equal the separator right of the downlink that led there?
    fn high_is_separator<R: PageRead>(&self, child: &Node<R>) -> bool {
        let (Some(reading), Some(parent)) = (self.reading, self.parent) else { return false };
        if !self.set.has(Optimisation::Separators) {
            return false;
        }
        if broken(Broken::SeparatorNotCompared) {
            return true;
        }
        let node = Node::open(reading.view(parent.peek));
        let same = node.and_then(|node| child.high_is_separator(&node, parent.link.child));
        same == Ok(true) && reading.unchanged(parent.peek)
    }
}

impl Tree {
    /// Does the high key of `child` equal the separator right of `link`, which led there? Then all
    /// entries that the link was named for are below it. False if the page of the link has changed
    /// since, too.
    pub(crate) fn high_is_separator<R: PageRead>(&self, link: PageLink, child: &Node<R>) -> bool {
        let reading = self.pool.reading();
        let parent = self.peek_at_link(&reading, link).map(|peek| {
            let downlink = Downlink { block: 0, child: link.position as usize, shared: 0 };
            Parent { block: link.block, peek, link: downlink }
        });
        ParentState { set: self.switches.get(), reading: Some(&reading), parent }
            .high_is_separator(child)
    }

    /// Is the page of the link as it was? Then the page that it names is in the tree.
    pub(crate) fn link_stands(&self, link: PageLink) -> bool {
        self.peek_at_link(&self.pool.reading(), link).is_some()
    }

    fn peek_at_link(&self, reading: &Reading<'_>, link: PageLink) -> Option<Peek> {
        reading.peek(self.page(link.block)).filter(|peek| peek.version() == link.version)
    }

    /// Names the leaf that `target` leads to, which may not be in memory.
    pub(crate) fn name_leaf(&self, target: SearchTarget<'_>) -> Result<NamedLeaf> {
        let set = self.switches.get();
        if set.has(Optimisation::Optimistic) {
            count(|c| c.descents += 1);
            if let Some(end) = self.descend_unpinned(target, 0, set)? {
                let link = end.parent.map(|Parent { block, peek, link }| PageLink {
                    block,
                    version: peek.version(),
                    position: link.child as u32,
                });
                return Ok(NamedLeaf { block: end.block, link });
            }
        }
        let pin = self.descend(target, 0)?.ok_or_else(|| self.corrupt(0, NO_LEAVES))?;
        Ok(NamedLeaf { block: pin.page().block.0, link: None })
    }

    /// Pins the leaf that `target` leads to, and names the link to it.
    pub(crate) fn find_leaf(&self, target: SearchTarget<'_>) -> Result<NamedPage> {
        let NamedLeaf { block, link } = self.name_leaf(target)?;
        Ok(NamedPage { pin: self.pin_linked(block)?, link })
    }

    /// Pins the page of `level` that `target` leads to. It may change until it is latched, so its
    /// fences are checked again then ([`Node::match_target`]). `None`: the tree has no such level
    /// yet.
    pub(crate) fn descend(&self, target: SearchTarget<'_>, level: u8) -> Result<Option<Pin>> {
        Ok(self.descend_keeping_parent(target, level)?.map(|arrival| arrival.pin))
    }

    fn descend_keeping_parent(
        &self,
        target: SearchTarget<'_>,
        level: u8,
    ) -> Result<Option<DescentEnd<'_>>> {
        count(|c| c.descents += 1);
        if self.root().1 < level && self.refresh_root()?.level < level {
            return Ok(None);
        }
        let mut tries = Tries::default();
        loop {
            let set = self.switches.get();
            let arrived = match set.has(Optimisation::Optimistic) {
                true => match self.descend_unpinned(target, level, set)? {
                    Some(end) => Some(self.pin_end(end)?),
                    None => None,
                },
                false => self.descend_latched(target, level)?,
            };
            if arrived.is_some() {
                return Ok(arrived);
            }
            rightlink_env::points::hit("btree.descend.again");
            tries.again(&self.pool, self.page(0), LOST)?;
            self.refresh_root()?;
        }
    }

    /// Descends page by page under shared latches, where those are needed.
    fn descend_latched(
        &self,
        target: SearchTarget<'_>,
        level: u8,
    ) -> Result<Option<DescentEnd<'_>>> {
        let (root, mut at) = self.root();
        let mut pin = self.pin_linked(root)?;
        let mut moves = 0;
        while at > level {
            match self.step_from(&pin, target, at)? {
                DescentStep::Down(link) => {
                    pin = self.pin_linked(link.block)?;
                    at -= 1;
                }
                DescentStep::MoveRight(block) => {
                    self.count_move(&mut moves)?;
                    pin = self.pin_linked(block)?;
                }
                DescentStep::Lost => return Ok(None),
            }
        }
        Ok(Some(DescentEnd { through: None, pin }))
    }

    /// Descends without pins to the page of `level`, which may not be in memory.
    fn descend_unpinned(
        &self,
        target: SearchTarget<'_>,
        level: u8,
        set: Optimisations,
    ) -> Result<Option<UnpinnedEnd<'_>>> {
        let (mut block, mut at) = self.root();
        let mut reading = self.pool.reading();
        let mut parent: Option<Parent> = None;
        let (mut moves, mut tries) = (0, 0);
        while at > level {
            let found = reading.peek(self.page(block)).and_then(|peek| {
                let parent_state = ParentState::of(set, parent.map(|parent| (&reading, parent)));
                let view = reading.view(peek);
                let step = descent_step(view, target, at, parent_state.hint(), |node| {
                    parent_state.high_is_separator(node)
                });
                reading.unchanged(peek).then_some((peek, step))
            });
            let Some((peek, step)) = found else {
                // The page is not in memory, or is changing: it is pinned, and after some attempts
                // latched. This reader is not announced meanwhile, so no writer waits for it (R7).
                drop(reading);
                parent = None;
                tries += 1;
                let pin = self.pin_linked(block)?;
                if tries > MAX_OPTIMISTIC {
                    tries = 0;
                    match self.step_from(&pin, target, at)? {
                        DescentStep::Down(link) => (block, at) = (link.block, at - 1),
                        DescentStep::MoveRight(next) => {
                            self.count_move(&mut moves)?;
                            block = next;
                        }
                        DescentStep::Lost => return Ok(None),
                    }
                }
                reading = self.pool.reading();
                continue;
            };
            match step.map_err(|what| self.corrupt(block, what))? {
                DescentStep::Down(link) => {
                    parent = Some(Parent { block, peek, link });
                    (block, at) = (link.block, at - 1);
                }
                DescentStep::MoveRight(next) => {
                    self.count_move(&mut moves)?;
                    // The page to the right has another parent, or another downlink of the same
                    // one.
                    (block, parent) = (next, None);
                }
                DescentStep::Lost => return Ok(None),
            }
        }
        Ok(Some(UnpinnedEnd { block, reading, parent }))
    }

    fn pin_end<'t>(&'t self, end: UnpinnedEnd<'t>) -> Result<DescentEnd<'t>> {
        let UnpinnedEnd { block, reading, parent } = end;
        if let Some(pin) = reading.pin(self.page(block)) {
            let through = parent.map(|parent| (reading, parent));
            return Ok(DescentEnd { through, pin });
        }
        drop(reading);
        Ok(DescentEnd { through: None, pin: self.pin_linked(block)? })
    }

    /// Runs `read` on the leaf that `key` belongs to, without pin or latch. `read` gets the
    /// position where the search ended, and how many leading bytes the entry there shares with the
    /// key. `None`: the leaf is not in memory, or changed.
    pub(crate) fn read_leaf_unlatched<T>(
        &self,
        key: &[u8],
        read: impl FnOnce(&Node<PageView<'_>>, SearchPosition, usize) -> Checked<T>,
    ) -> Result<Option<T>> {
        let set = self.switches.get();
        if !set.has(Optimisation::Optimistic) {
            return Ok(None);
        }
        count(|c| c.descents += 1);
        let Some(end) = self.descend_unpinned(SearchTarget::At(key), 0, set)? else {
            return Ok(None);
        };
        let UnpinnedEnd { block, reading, parent } = end;
        let Some(peek) = reading.peek(self.page(block)) else { return Ok(None) };
        let parent_state = ParentState::of(set, parent.map(|parent| (&reading, parent)));
        let result = match match_leaf(reading.view(peek), SearchTarget::At(key), &parent_state) {
            Ok(Some(LeafMatch { node, place: PageMatch::Here(found), shared })) => {
                read(&node, found, shared).map(Some)
            }
            Ok(_) => Ok(None),
            Err(what) => Err(what),
        };
        if !reading.unchanged(peek) {
            return Ok(None);
        }
        result.map_err(|what| self.corrupt(block, what))
    }

    /// Runs `read` on the parent of the leaf that `target` leads to, without pin or latch. `read`
    /// gets the position of that leaf among the children. The result is a hint. `None`: there is no
    /// such page, it is damaged, or it keeps changing.
    pub(crate) fn read_above_leaf<T>(
        &self,
        target: SearchTarget<'_>,
        read: impl Fn(&Node<PageView<'_>>, usize) -> Checked<T>,
    ) -> Option<T> {
        if self.root().1 == 0 {
            return None;
        }
        (0..MAX_OPTIMISTIC).find_map(|_| self.try_read_above_leaf(target, &read))
    }

    fn try_read_above_leaf<T>(
        &self,
        target: SearchTarget<'_>,
        read: impl Fn(&Node<PageView<'_>>, usize) -> Checked<T>,
    ) -> Option<T> {
        count(|c| c.descents += 1);
        let UnpinnedEnd { reading, parent, .. } =
            self.descend_unpinned(target, 0, self.switches.get()).ok()??;
        let Parent { peek, link, .. } = parent?;
        rightlink_env::points::hit("btree.ahead.peeked");
        // If it has changed, it may be any page.
        let told = match Node::open(reading.view(peek)) {
            Ok(node) if node.level == 1 && link.child < node.count => read(&node, link.child).ok(),
            _ => None,
        };
        told.filter(|_| reading.unchanged(peek) || broken(Broken::LookAheadNotValidated))
    }

    fn count_move(&self, moves: &mut u32) -> Result<()> {
        count(|c| c.moves_right += 1);
        *moves += 1;
        self.bound_moves(*moves)
    }

    /// Reads the leaf that `target` belongs to, under its shared latch. `before` runs before each
    /// latch. `read` runs once on the right leaf, with the position where the search ended.
    pub(crate) fn read_leaf<T>(
        &self,
        target: SearchTarget<'_>,
        mut before: impl FnMut(),
        read: impl FnOnce(&SharedPage<'_>, &Node<&[u8; PAGE_SIZE]>, SearchPosition) -> Checked<T>,
    ) -> Result<T> {
        let mut tries = Tries::default();
        loop {
            let found = self.descend_keeping_parent(target, 0)?;
            let DescentEnd { mut pin, mut through } =
                found.ok_or_else(|| self.corrupt(0, NO_LEAVES))?;
            let mut moves = 0;
            loop {
                before();
                // An announced reader must not wait for a latch: its holder may wait for a thread
                // that waits for the reader.
                let page = match pin.try_shared() {
                    Some(page) => page,
                    None if broken(Broken::AnnouncedReaderWaits) => pin.shared(),
                    None => {
                        through = None;
                        pin.shared()
                    }
                };
                let damage = |what| Error::corrupt(pin.page(), what);
                let set = self.switches.get();
                let parent_state = ParentState::of(
                    set,
                    through.as_ref().map(|(reading, parent)| (reading, *parent)),
                );
                let placed = match_leaf(page.bytes(), target, &parent_state);
                // The parent is not needed any more.
                through = None;
                match placed.map_err(damage)? {
                    Some(LeafMatch { node, place: PageMatch::Here(found), .. }) => {
                        return read(&page, &node, found).map_err(damage);
                    }
                    Some(LeafMatch { place: PageMatch::MoveRight(block), .. }) => {
                        drop(page);
                        self.count_move(&mut moves)?;
                        pin = self.pin_linked(block)?;
                    }
                    Some(LeafMatch { place: PageMatch::Lost, .. }) | None => break,
                }
            }
            tries.again(&self.pool, self.page(0), LOST)?;
        }
    }
}

/// A leaf that was searched.
struct LeafMatch<R> {
    node: Node<R>,
    place: PageMatch,
    /// Leading bytes of the target that the entry at the place is known to share.
    shared: usize,
}

/// Searches a leaf, if it is one.
#[inline(always)]
fn match_leaf<R: PageRead>(
    page: R,
    target: SearchTarget<'_>,
    parent_state: &ParentState<'_, '_>,
) -> Checked<Option<LeafMatch<R>>> {
    if !is_node(page) {
        let free = page.u8(KIND) == PageKind::BtreeFree as u8;
        return if free { Ok(None) } else { Err("not a page of a tree") };
    }
    let node = Node::open(page)?;
    if !node.is_leaf() {
        return Ok(None);
    }
    let placed =
        node.match_with(target, parent_state.hint(), |node| parent_state.high_is_separator(node));
    let (place, result) = placed?;
    let shared = result.map_or(0, |result| result.shared_above());
    Ok(Some(LeafMatch { node, place, shared }))
}
