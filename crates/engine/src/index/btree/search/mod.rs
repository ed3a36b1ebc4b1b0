//! Search for the page that a key belongs to: one step of a descent, and the move to the right.
//!
//! Each page is searched first. Its high key is compared only if the search ends past the last
//! slot, its low fence only if it ends before the first. Inner pages are read optimistically,
//! without latch.
//!
//! Invariants: a search holds one pin, and no latch between pages. A page of another level, a free
//! one or one right of the key means that the block was reused: the descent starts again. Right
//! links are followed only from pages whose low fence is not above the key.
//! Does not do: change pages; register (the operation does, R6).
//! PostgreSQL: `_bt_search`, `_bt_moveright`.

pub(crate) mod cursor;
mod descent;
mod leaf_groups;
pub(crate) mod prefetch;

use std::cmp::Ordering;

use rightlink_env::Broken;
use rightlink_env::points::broken;

use crate::buffer::{LatchedPage, Mtr, Pin};
use crate::error::{Error, Result};
use crate::index::am::NamedPage;
use crate::index::btree::counters::count;
use crate::index::btree::optimisations::{Optimisation, Optimisations};
use crate::index::btree::page::node::{Checked, HEAD, Node, SearchPosition, head_of, is_node};
use crate::index::btree::page::read::PageRead;
use crate::index::btree::page::search::{SearchBounds, SearchResult};
use crate::index::btree::tree::Tree;
use crate::page::header::KIND;
use crate::page::{PageKind, PageView};

/// Which page of a level a search looks for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SearchTarget<'k> {
    /// The one with `low <= key < high`.
    At(&'k [u8]),
    /// The one with `low < key <= high`, which holds the last keys below `key`; the rightmost one
    /// for `None`.
    Before(Option<&'k [u8]>),
}

/// Whether a page is the one that the target belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PageMatch {
    /// Yes, and there the search ended.
    Here(SearchPosition),
    /// The page is to the right: the right link.
    MoveRight(u32),
    /// The page cannot be found from here.
    Lost,
}

/// Result of [`Tree::latch_page`].
pub(crate) enum LatchResult {
    /// The right page is latched; the search ended there.
    Here(LatchedPage, SearchPosition),
    /// The descent must start again. Nothing more is latched than before.
    Lost,
    /// This block must be read first, without latches. Nothing more is latched than before.
    NotInMemory(u32),
}

/// Optimistic reads of one page before it is latched.
pub(crate) const MAX_OPTIMISTIC: u32 = 3;

/// What the parent says about a page that is searched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParentHint {
    /// Bounds of the search among the entries.
    pub(crate) bounds: SearchBounds,
    /// The parent was unchanged when this page was read: the page's low fence is not above the
    /// target.
    pub(crate) trusted: bool,
}

impl ParentHint {
    /// Nothing.
    pub(crate) const NONE: ParentHint = ParentHint::with(Optimisations::ALL);

    /// Nothing but the optimisations to use.
    pub(crate) const fn with(set: Optimisations) -> ParentHint {
        ParentHint { bounds: SearchBounds { set, ..SearchBounds::NOTHING }, trusted: false }
    }
}

impl<R: PageRead> Node<R> {
    /// Searches for the target, and tells whether it belongs on this page.
    pub(crate) fn match_target(&self, target: SearchTarget<'_>) -> Checked<PageMatch> {
        self.match_with(target, ParentHint::NONE, |_| false).map(|(place, _)| place)
    }

    /// As [`Node::match_target`], with what the parent says. `high_is_separator` may tell that the
    /// high key equals the separator right of the downlink that led here, and so is above the
    /// target.
    #[inline(always)]
    pub(crate) fn match_with(
        &self,
        target: SearchTarget<'_>,
        hint: ParentHint,
        high_is_separator: impl Fn(&Self) -> bool,
    ) -> Checked<(PageMatch, Option<SearchResult>)> {
        let (key, before) = match target {
            SearchTarget::At(key) => (key, false),
            SearchTarget::Before(Some(key)) => (key, true),
            SearchTarget::Before(None) if self.right != 0 => {
                return Ok((PageMatch::MoveRight(self.right), None));
            }
            SearchTarget::Before(None) => {
                return Ok((
                    PageMatch::Here(SearchPosition { pos: self.count, exact: false }),
                    None,
                ));
            }
        };
        let search_first = hint.bounds.set.has(Optimisation::SearchFirst);
        if !search_first && self.ends_before(key, before, &high_is_separator) {
            return Ok((PageMatch::MoveRight(self.right), None));
        }
        let result = self.search_within(key, hint.bounds)?;
        let found = result.found;
        if search_first
            && found.pos == self.count
            && self.ends_before(key, before, &high_is_separator)
        {
            return Ok((PageMatch::MoveRight(self.right), None));
        }
        // A position after the first entry (on inner pages, the second) is above the low fence.
        if !hint.trusted && found.pos <= usize::from(!self.is_leaf()) {
            let order = self.cmp_low(key);
            if order == Ordering::Less || order == Ordering::Equal && before {
                return Ok((PageMatch::Lost, None));
            }
        }
        Ok((PageMatch::Here(found), Some(result)))
    }

    /// Does the page end before the key? A high key that equals the separator that led here is not
    /// compared.
    fn ends_before(
        &self,
        key: &[u8],
        before: bool,
        high_is_separator: impl Fn(&Self) -> bool,
    ) -> bool {
        if self.right == 0 {
            return false;
        }
        if high_is_separator(self) {
            count(|c| c.separators += 1);
            return false;
        }
        let order = self.cmp_high(key);
        order == Ordering::Greater || order == Ordering::Equal && !before
    }

    /// Is the high key exactly the separator right of child `child` of `parent`: the key of the
    /// next entry there, or for the last child the high key? The length counts: a separator that
    /// was truncated differently is another one.
    pub(crate) fn high_is_separator<S: PageRead>(
        &self,
        parent: &Node<S>,
        child: usize,
    ) -> Checked<bool> {
        if self.right == 0 {
            return Ok(false);
        }
        // Separators are short as a rule: a copy needs no memory then.
        let (mut short, mut long) = ([0; 64], Vec::new());
        let (at, len) = (self.special + self.low_len, self.high_len);
        let high = match short.get_mut(..len) {
            Some(copy) => {
                self.page.read(at, copy);
                &*copy
            }
            None => self.page.slice(at, len, &mut long),
        };
        count(|c| c.bytes += len as u64);
        let same = |at, bytes: &[u8]| parent.page.common(at, bytes.len(), bytes) == bytes.len();
        if child + 1 >= parent.count {
            let ends_alike = parent.right != 0 && parent.high_len == len;
            return Ok(ends_alike && same(parent.special + parent.low_len, high));
        }
        let item = parent.item(child + 1)?;
        if parent.prefix + item.rem != len {
            return Ok(false);
        }
        let Some((prefix, rest)) = high.split_at_checked(parent.prefix) else { return Ok(false) };
        Ok(head_of(rest) == parent.head(child + 1)
            && same(parent.special, prefix)
            && same(item.rest, rest.get(HEAD..).unwrap_or(&[])))
    }

    /// The entry of an inner page whose child is next, if the search ended at `found`.
    #[inline(always)]
    pub(crate) fn child_index(
        &self,
        found: SearchPosition,
        target: SearchTarget<'_>,
    ) -> Option<usize> {
        if found.exact && matches!(target, SearchTarget::At(_)) {
            Some(found.pos)
        } else if found.pos == 0 && self.left == 0 {
            // A key below the prefix of a leftmost page belongs to its first child.
            Some(0)
        } else {
            found.pos.checked_sub(1)
        }
    }
}

/// A downlink that a search chose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Downlink {
    /// Where it leads.
    pub(crate) block: u32,
    /// Its place among the entries.
    pub(crate) child: usize,
    /// Leading bytes of the target that both of its separators share.
    pub(crate) shared: usize,
}

/// Next step of a descent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DescentStep {
    /// Down to this child.
    Down(Downlink),
    /// To the right sibling.
    MoveRight(u32),
    /// The page is not the right one, and the right one is not found from it.
    Lost,
}

/// The next step of a descent to `target`, from an inner page that should be at `level`.
#[inline(always)]
pub(crate) fn descent_step<R: PageRead>(
    page: R,
    target: SearchTarget<'_>,
    level: u8,
    hint: ParentHint,
    high_is_separator: impl Fn(&Node<R>) -> bool,
) -> Checked<DescentStep> {
    if page.u8(KIND) == PageKind::BtreeFree as u8 {
        return Ok(DescentStep::Lost);
    }
    let node = Node::open(page)?;
    if node.level != level {
        return Ok(DescentStep::Lost);
    }
    let (found, result) = match node.match_with(target, hint, high_is_separator)? {
        (PageMatch::MoveRight(block), _) => return Ok(DescentStep::MoveRight(block)),
        (PageMatch::Lost, _) => return Ok(DescentStep::Lost),
        (PageMatch::Here(found), result) => (found, result),
    };
    let Some(child) = node.child_index(found, target) else { return Ok(DescentStep::Lost) };
    let shared = match (target, result) {
        (SearchTarget::At(key) | SearchTarget::Before(Some(key)), Some(result))
            if child < node.count =>
        {
            node.shared(key, &result, child)
        }
        _ => 0,
    };
    if child >= node.count {
        return Err("an inner page without the child that was found");
    }
    Ok(DescentStep::Down(Downlink { block: node.child(child)?, child, shared }))
}

impl Tree {
    /// Pins the page that a link leads to.
    pub(crate) fn pin_linked(&self, block: u32) -> Result<Pin> {
        let outside = |tree: &Tree| block == 0 || block >= tree.pool.blocks(tree.file);
        match self.pool.pin(self.page(block)) {
            Ok(pin) if block != 0 => Ok(pin),
            Err(error) if !outside(self) => Err(error),
            _ => Err(self.corrupt(block, "a link names a block outside the index")),
        }
    }

    /// The next step from a pinned inner page that should be at `level`.
    pub(crate) fn step_from(
        &self,
        pin: &Pin,
        target: SearchTarget<'_>,
        level: u8,
    ) -> Result<DescentStep> {
        let set = self.switches.get();
        let hint = ParentHint::with(set);
        let tries = if set.has(Optimisation::Optimistic) { MAX_OPTIMISTIC } else { 0 };
        for _ in 0..tries {
            let step = pin.optimistic(|view| descent_step(view, target, level, hint, |_| false));
            if let Some(step) = step {
                return step.map_err(|what| Error::corrupt(pin.page(), what));
            }
        }
        let page = pin.shared();
        let step = descent_step(page.bytes(), target, level, hint, |_| false);
        step.map_err(|what| Error::corrupt(pin.page(), what))
    }

    /// More moves than the file has blocks mean a ring of links.
    pub(crate) fn bound_moves(&self, moves: u32) -> Result<()> {
        if moves.is_multiple_of(64) && moves > self.pool.blocks(self.file) + 64 {
            return Err(self.corrupt(0, "right links form a ring"));
        }
        Ok(())
    }

    /// Latches the page of `level` that `target` belongs to exclusively, moving right from the one
    /// that was named.
    pub(crate) fn latch_page(
        &self,
        mtr: &mut Mtr<'_>,
        named: impl Into<NamedPage>,
        target: SearchTarget<'_>,
        level: u8,
        others: OtherLatches,
    ) -> Result<LatchResult> {
        let NamedPage { mut pin, mut link } = named.into();
        let mut moves = 0;
        loop {
            let held = mtr.latch(pin);
            let block = mtr.id(held).block.0;
            let link = link.take();
            let place = match_page(mtr.bytes(held), target, level, self.switches.get(), |node| {
                link.is_some_and(|link| self.high_is_separator(link, node))
            });
            match place.map_err(|what| self.corrupt(block, what))? {
                PageMatch::Here(found) => return Ok(LatchResult::Here(held, found)),
                // A page whose link has changed may have been used again, far to the left.
                PageMatch::MoveRight(next) if link.is_none_or(|link| self.link_stands(link)) => {
                    mtr.release(held);
                    moves += 1;
                    self.bound_moves(moves)?;
                    match self.pool.try_pin(self.page(next)) {
                        Some(found) => pin = found,
                        None if others == OtherLatches::None => pin = self.pin_linked(next)?,
                        None => return Ok(LatchResult::NotInMemory(next)),
                    }
                }
                PageMatch::MoveRight(_) | PageMatch::Lost => {
                    mtr.release(held);
                    return Ok(LatchResult::Lost);
                }
            }
        }
    }
}

impl From<Pin> for NamedPage {
    fn from(pin: Pin) -> NamedPage {
        NamedPage { pin, link: None }
    }
}

/// Does a caller of [`Tree::latch_page`] hold other latches? If so, no page is read (R7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OtherLatches {
    /// Nothing else is latched: pages may be read on the way.
    None,
    /// A page that is not in memory is reported.
    LatchedPage,
}

/// [`Node::match_with`] on a page that may have left the tree.
pub(crate) fn match_page<R: PageRead>(
    page: R,
    target: SearchTarget<'_>,
    level: u8,
    set: Optimisations,
    high_is_separator: impl Fn(&Node<R>) -> bool,
) -> Checked<PageMatch> {
    if !is_node(page) {
        return if page.u8(KIND) == PageKind::BtreeFree as u8 {
            Ok(PageMatch::Lost)
        } else {
            Err("not a page of a tree")
        };
    }
    let node = Node::open(page)?;
    if node.level != level {
        return Ok(PageMatch::Lost);
    }
    if let SearchTarget::At(key) = target
        && level == 0
        && broken(Broken::NamedLeafNotChecked)
    {
        return node.search(key).map(PageMatch::Here);
    }
    let hint = ParentHint::with(set);
    node.match_with(target, hint, high_is_separator).map(|(place, _)| place)
}

impl Tree {
    /// Is the leaf at `block` in memory, and do its fences contain the key, as far as can be told
    /// without a latch (R6)? Block 0: none is remembered.
    pub(crate) fn hinted_leaf_takes(&self, block: u32, key: &[u8]) -> bool {
        let takes = |view: PageView<'_>| {
            Node::open(view).is_ok_and(|node| {
                node.is_leaf() && node.cmp_low(key).is_ge() && node.cmp_high(key).is_lt()
            })
        };
        let pin = || self.pool.try_pin(self.page(block));
        block != 0 && pin().is_some_and(|pin| pin.optimistic(takes).unwrap_or(false))
    }
}
