//! Making room on a full leaf by sharing its entries with the leaves right of it.
//!
//! A leaf that is split leaves two halves. Where insertions go everywhere, that makes leaves two
//! thirds full in the long run, and where they fill all leaves at once, as updates beside an old
//! snapshot do, it makes twice as many leaves. So a full leaf first looks to the right. If it and
//! up to five neighbours have room for what all of them hold, the entries are dealt out evenly; if
//! not, over one leaf more. (Knuth's B*-tree does so with one neighbour and makes three leaves of
//! two: The Art of Computer Programming, volume 3, 6.2.4.) That is for versions, which leave again:
//! `insert` asks for it where an update adds one. Rows that are new to the table go on splitting
//! leaves, whose room they will want; spreading them takes twice the log. So does a leaf where keys
//! ascend, for there the room is wanted in one place.
//!
//! One record does it all, under the latches of the leaves from left to right, of the one behind
//! them if a leaf is put in, and of their parent, which must be the same. The first leaf keeps its
//! low fence, and no leaf is to end behind its old end, so keys move only right (R5): who comes to
//! a leaf for a key that has left it finds it by the right link. A thin leaf among full ones would
//! take keys from the right in an even deal, so there only the leaves up to it share. Vacuum
//! follows as it does for splits and merges: every leaf gets its cycle id, and those that took
//! entries in say so.
//!
//! Invariants: nothing is read from disk for it but the parent, since a split would be cheaper than
//! a read; the entry that found no room is not put in, but tried again. Fences and separators stay
//! equal, as after a split.
//! Does not do: inner pages; move keys left; say which leaf is full (`insert`).

use std::ops::Range;

use rightlink_env::points::broken;
use rightlink_env::sync::Ordering;

use crate::buffer::{Held, Mtr, Pin};
use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::ids::Xid;
use crate::index::btree::insert::state::{Attempt, Retry, RetryState};
use crate::index::btree::optimisations::Optimisations;
use crate::index::btree::page::edit::{EntryValue, NodeHeader};
use crate::index::btree::page::entries::Entries;
use crate::index::btree::page::node::{INCOMPLETE, LEFT, Node};
use crate::index::btree::page::tree_key::separator;
use crate::index::btree::search::{LatchedPage, OtherLatches, SearchTarget};
use crate::index::btree::tree::Tree;
use crate::wal::RecordKind;

/// Most leaves that share their entries, the full one included.
const MAX_LEAVES: usize = 6;
/// Percent of each leaf that may be in use afterwards: the rest is the room that was made.
const MAX_FILL_PERCENT: usize = 86;
/// Percent that must be in use: with less, a split of the one leaf leaves no less.
const MIN_FILL_PERCENT: usize = 60;

/// A full leaf and how many bytes it lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FullLeaf {
    /// Where it is.
    pub(crate) block: u32,
    /// Bytes of the entry that found no room.
    pub(crate) needed_bytes: usize,
}

/// The result of a redistribution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Redistributed {
    /// The leaf has space for the entry.
    SpaceMade,
    /// Its siblings have none to spare: the leaf must be split.
    MustSplit,
}

/// A leaf as it was seen before anything was latched for good.
struct SiblingLeaf {
    pin: Pin,
    block: u32,
    used: usize,
    low: Vec<u8>,
}

/// How many leaves share, and whether there will be one more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct SharePlan {
    leaves: usize,
    one_more: bool,
}

impl SharePlan {
    fn after(self) -> usize {
        self.leaves + usize::from(self.one_more)
    }

    /// The plan that leaves most of each page in use, but room enough; `None` if a split does as
    /// well. `used` has the bytes of the full leaf and of those right of it.
    fn choose(used: &[usize], capacity: usize) -> Option<SharePlan> {
        let plans = (2..=used.len())
            .flat_map(|leaves| [false, true].map(|one_more| SharePlan { leaves, one_more }));
        let up_to = |leaves: usize| used[..leaves].iter().sum::<usize>();
        let fill = |plan: &SharePlan| up_to(plan.leaves) * 100 / (plan.after() * capacity);
        // In an even deal no leaf would take keys from the right.
        let moves_right = |plan: &SharePlan| {
            let each = up_to(plan.leaves) / plan.after();
            (1..plan.leaves).all(|leaf| each * leaf <= up_to(leaf))
        };
        let good = plans.filter(|plan| {
            (MIN_FILL_PERCENT..=MAX_FILL_PERCENT).contains(&fill(plan)) && moves_right(plan)
        });
        good.max_by_key(|plan| (fill(plan), !plan.one_more))
    }
}

/// Where the entries of each leaf begin and end when they are dealt out evenly over `leaves`: near
/// the even cut, where the separator is shortest, but not behind the old end of a leaf, which
/// `ends` has. `sizes` has the bytes of each entry. `None`: a leaf would get nothing.
fn divide(
    entries: &Entries,
    sizes: &[usize],
    ends: &[usize],
    leaves: usize,
    tolerance: usize,
) -> Option<Vec<Range<usize>>> {
    let total: usize = sizes.iter().sum();
    let (mut ranges, mut start) = (Vec::with_capacity(leaves), 0);
    let (mut at, mut before) = (0, 0);
    for leaf in 1..leaves {
        let wanted = total * leaf / leaves;
        let most = ends[leaf - 1].min(entries.len() - 1);
        while at < most && before + sizes[at] + tolerance < wanted {
            (at, before) = (at + 1, before + sizes[at]);
        }
        let (mut near, mut bytes) = (at, before);
        let mut best: Option<(usize, usize, usize)> = None;
        while near <= most && (bytes <= wanted + tolerance || best.is_none()) {
            if near > start {
                let cut = separator(&entries.last_key(near - 1), entries.key(near)).len();
                let rank = (cut, bytes.abs_diff(wanted), near);
                best = Some(best.map_or(rank, |best| best.min(rank)));
            }
            (near, bytes) = (near + 1, bytes + sizes[near]);
        }
        let (.., end) = best?;
        ranges.push(start..end);
        start = end;
    }
    ranges.push(start..entries.len());
    Some(ranges)
}

/// The leaves that share, taken out.
#[derive(Default)]
struct PooledEntries {
    entries: Entries,
    /// Bytes of each entry, as it was.
    sizes: Vec<usize>,
    /// Where each leaf ended.
    ends: Vec<usize>,
    /// Frames of the leaves that there are.
    headers: Vec<NodeHeader>,
}

impl PooledEntries {
    /// Takes out all leaves but the rows that are marked dead.
    fn load(tree: &Tree, mtr: &Mtr<'_>, leaves: &[Held]) -> Result<PooledEntries> {
        let mut all = PooledEntries::default();
        for held in leaves {
            let damage = |what| tree.corrupt(mtr.id(*held).block.0, what);
            let node = Node::open(mtr.bytes(*held)).map_err(damage)?;
            let mut entries = Entries::load(&node).map_err(damage)?;
            if all.headers.last().is_some_and(|left| left.high.as_ref() != Some(&node.low())) {
                return Err(damage("a low fence is not the left sibling's high key"));
            }
            if (0..entries.len()).any(|i| entries.has_dead(i)) {
                entries.keep_rows(|_, _, member| !member.dead);
            }
            for i in 0..entries.len() {
                all.sizes.push(entries.size(i, 0, node.prefix));
                all.entries.push(entries.key(i), entries.value(i));
            }
            all.ends.push(all.entries.len());
            all.headers.push(NodeHeader::of(&node, tree.unused_bytes()));
        }
        Ok(all)
    }

    /// Images of the leaves at `blocks`, dealt out anew. `None`: they do not fit, or the first one
    /// would not have room for `need` bytes.
    fn images(&self, tree: &Tree, blocks: &[u32], cycle: u32, need: usize) -> Option<NewLeaves> {
        let capacity = tree.options.capacity;
        let (leaves, tolerance) = (blocks.len(), capacity / 16);
        let ranges = divide(&self.entries, &self.sizes, &self.ends, leaves, tolerance)?;
        let mut both = ranges.iter().zip(&self.ends);
        assert!(both.all(|(new, old)| new.end <= *old), "keys move only right (R5)");
        let last = self.headers.last().expect("two leaves share, at least");
        let mut images = NewLeaves { pages: Vec::new(), separators: Vec::new() };
        let mut header = NodeHeader { cycle, flags: 0, ..self.headers[0].clone() };
        for (i, range) in ranges.iter().enumerate() {
            let next = blocks.get(i + 1);
            (header.right, header.high) = match next {
                Some(next) => {
                    let end = range.end;
                    let (left, right) = (self.entries.last_key(end - 1), self.entries.key(end));
                    (*next, Some(separator(&left, right).to_vec()))
                }
                None => (last.right, last.high.clone()),
            };
            let image = header.image(&self.entries, range.start, range.end)?;
            images.pages.push(image);
            if let Some(high) = header.high.take().filter(|_| next.is_some()) {
                images.separators.push(high.clone());
                (header.left, header.low) = (blocks[i], high);
            }
        }
        let first = Node::open(&*images.pages[0]).expect("an image opens");
        (first.used_bytes() + need <= capacity).then_some(images)
    }
}

/// New leaves, and the separators between them.
struct NewLeaves {
    pages: Vec<Box<[u8; PAGE_SIZE]>>,
    separators: Vec<Vec<u8>>,
}

/// What is to be done, as far as could be seen without latching anything for good.
struct Redistribution {
    /// The full leaf and those that share with it.
    leaves: Vec<SiblingLeaf>,
    /// Their parent.
    parent: Pin,
    /// Is there to be one leaf more?
    one_more: bool,
}

/// The pages of an [`Redistribution`], latched.
struct LatchedSiblings {
    leaves: Vec<Held>,
    blocks: Vec<u32>,
    /// The leaf behind them, if its left link changes.
    behind: Option<Held>,
    parent: Held,
    /// The parent's entry of the first leaf.
    at: usize,
}

impl Tree {
    /// Makes space on a full leaf.
    pub(crate) fn redistribute<'t>(
        &'t self,
        full: FullLeaf,
        state: &mut RetryState<'t>,
    ) -> Result<Redistributed> {
        if !self.uses(Optimisations::SPREADING) {
            return Ok(Redistributed::MustSplit);
        }
        loop {
            match self.try_redistribute(full, state)? {
                Ok(done) => return Ok(done),
                Err(retry) => state.prepare(self, retry)?,
            }
        }
    }

    fn try_redistribute<'t>(
        &'t self,
        full: FullLeaf,
        state: &mut RetryState<'t>,
    ) -> Result<Attempt<Redistributed>> {
        let Some(plan) = self.plan_redistribution(full.block)? else {
            return Ok(Ok(Redistributed::MustSplit));
        };
        if plan.one_more && state.reserved.is_none() {
            return Ok(Err(Retry::NeedBlock));
        }
        let one_more = plan.one_more;
        let mut mtr = Mtr::new(&self.pool);
        let mut run = match self.latch_siblings(&mut mtr, plan)? {
            Ok(Some(run)) => run,
            Ok(None) => return Ok(Ok(Redistributed::MustSplit)),
            Err(retry) => return Ok(Err(retry)),
        };
        let shared = PooledEntries::load(self, &mtr, &run.leaves)?;
        let had = run.leaves.len();
        if let Some(reserved) = state.reserved.as_mut().filter(|_| one_more) {
            run.leaves.push(mtr.latch(reserved.take_pin()));
            run.blocks.push(reserved.block);
        }
        // Read only now that all leaves are latched, the new one, too: a vacuum that began later
        // will wait there.
        let cycle = match broken("r5-spread-cycle") {
            true => 0,
            false => self.cycle.load(Ordering::SeqCst),
        };
        let made = shared.images(self, &run.blocks, cycle, full.needed_bytes);
        let parent = match &made {
            Some(made) => self.parent_image(&mtr, &run, had, made)?,
            None => None,
        };
        let (Some(made), Some(parent)) = (made, parent) else {
            // The pin of a new page went with its latch.
            state.reserved = state.reserved.take().filter(|_| !one_more);
            return Ok(Ok(Redistributed::MustSplit));
        };
        self.apply_redistribution(mtr, &run, &made, &parent)?;
        if one_more {
            state.reserved.take().expect("it was there").mark_used();
        }
        Ok(Ok(Redistributed::SpaceMade))
    }

    /// What can be done for the full leaf at `block`; `None`: nothing that a split would not do.
    fn plan_redistribution(&self, block: u32) -> Result<Option<Redistribution>> {
        let mut leaves = self.read_right_siblings(block)?;
        if leaves.len() < 2 {
            return Ok(None);
        }
        let low = &leaves[0].low;
        let Some(parent) = self.descend(SearchTarget::At(low), 1)? else { return Ok(None) };
        let siblings = self.siblings_under(&parent, low, block);
        leaves.truncate(siblings);
        let used: Vec<usize> = leaves.iter().map(|leaf| leaf.used).collect();
        let Some(plan) = SharePlan::choose(&used, self.options.capacity) else { return Ok(None) };
        leaves.truncate(plan.leaves);
        Ok(Some(Redistribution { leaves, parent, one_more: plan.one_more }))
    }

    /// The full leaf and those right of it, as far as they are in memory.
    fn read_right_siblings(&self, block: u32) -> Result<Vec<SiblingLeaf>> {
        let (mut seen, mut next) = (Vec::new(), block);
        while seen.len() < MAX_LEAVES && next != 0 {
            let pin = match seen.is_empty() {
                true => Some(self.pin_linked(next)?),
                false => self.pool.try_pin(self.page(next)),
            };
            let Some((leaf, right)) = pin.and_then(|pin| read_sibling(pin, next)) else { break };
            seen.push(leaf);
            next = right;
        }
        Ok(seen)
    }

    /// How many children the parent at `pin` has from the one at `block` on, whose low fence is
    /// `low`; none if it is another page's parent by now.
    fn siblings_under(&self, pin: &Pin, low: &[u8], block: u32) -> usize {
        let (page, target) = (pin.shared(), SearchTarget::At(low));
        let Ok(node) = Node::open(page.bytes()) else { return 0 };
        let found = node.search(low).ok().filter(|_| !node.is_leaf());
        let at = found.and_then(|found| node.child_index(found, target));
        let at = at.filter(|at| *at < node.count && node.child(*at) == Ok(block));
        at.map_or(0, |at| node.count - at)
    }

    /// Latches what is intended, if it is still as it was seen; `None`: it cannot be done.
    fn latch_siblings(
        &self,
        mtr: &mut Mtr<'_>,
        plan: Redistribution,
    ) -> Result<Attempt<Option<LatchedSiblings>>> {
        let Redistribution { leaves, parent, one_more } = plan;
        let low = leaves[0].low.clone();
        let blocks: Vec<u32> = leaves.iter().map(|leaf| leaf.block).collect();
        let leaves: Vec<Held> = leaves.into_iter().map(|leaf| mtr.latch(leaf.pin)).collect();
        let Some(next) = check_siblings(mtr, &leaves, &blocks, &low) else {
            return Ok(Err(Retry::Conflict));
        };
        let mut behind = None;
        if one_more && next != 0 {
            let Some(pin) = self.pool.try_pin(self.page(next)) else { return Ok(Ok(None)) };
            behind = Some(mtr.latch(pin));
        }
        let target = SearchTarget::At(&low);
        let (parent, found) = match self.latch_page(mtr, parent, target, 1, OtherLatches::Held)? {
            LatchedPage::Here(held, found) => (held, found),
            LatchedPage::Lost => return Ok(Err(Retry::Conflict)),
            LatchedPage::NotInMemory(block) => return Ok(Err(Retry::NeedPage(block))),
        };
        let damage = |what| self.corrupt(mtr.id(parent).block.0, what);
        let node = Node::open(mtr.bytes(parent)).map_err(damage)?;
        let at =
            node.child_index(found, target).ok_or_else(|| damage("a page without downlink"))?;
        for (i, block) in blocks.iter().enumerate() {
            if at + i >= node.count || node.child(at + i).map_err(damage)? != *block {
                return Ok(Ok(None));
            }
        }
        Ok(Ok(Some(LatchedSiblings { leaves, blocks, behind, parent, at })))
    }

    /// The parent with the new separators in place of those of the leaves that it `had`; `None` if
    /// it has no room for them.
    fn parent_image(
        &self,
        mtr: &Mtr<'_>,
        run: &LatchedSiblings,
        had: usize,
        made: &NewLeaves,
    ) -> Result<Option<Box<[u8; PAGE_SIZE]>>> {
        let damage = |what| self.corrupt(mtr.id(run.parent).block.0, what);
        let node = Node::open(mtr.bytes(run.parent)).map_err(damage)?;
        let old = Entries::load(&node).map_err(damage)?;
        let mut new = Entries::default();
        (0..=run.at).for_each(|i| new.push(old.key(i), old.value(i)));
        for (separator, block) in made.separators.iter().zip(&run.blocks[1..]) {
            new.push(separator, EntryValue { child: *block, ..EntryValue::default() });
        }
        (run.at + had..old.len()).for_each(|i| new.push(old.key(i), old.value(i)));
        Ok(NodeHeader::of(&node, self.unused_bytes()).image_of(&new))
    }

    fn apply_redistribution(
        &self,
        mut mtr: Mtr<'_>,
        run: &LatchedSiblings,
        made: &NewLeaves,
        parent: &[u8; PAGE_SIZE],
    ) -> Result<()> {
        for (held, image) in run.leaves.iter().zip(&made.pages) {
            mtr.page(*held).replace(image);
        }
        if let (Some(behind), Some(last)) = (run.behind, run.blocks.last()) {
            mtr.page(behind).put_u32(LEFT, *last);
        }
        mtr.page(run.parent).replace(parent);
        // Before anybody sees it: a vacuum under way is not to stop at a page that took entries in.
        let receivers = if broken("r5-spread-receiver") { &[][..] } else { &run.blocks[1..] };
        receivers.iter().for_each(|block| self.merges.record_merge_into(*block));
        mtr.commit(RecordKind::IndexSpread, Xid::NONE)?;
        rightlink_env::points::hit("btree.spread");
        Ok(())
    }
}

fn may_share(node: &Node<&[u8; PAGE_SIZE]>) -> bool {
    node.is_leaf() && node.flags & INCOMPLETE == 0 && node.count > 0
}

/// The leaf at `block`, if it is one that may share, and the block right of it.
fn read_sibling(pin: Pin, block: u32) -> Option<(SiblingLeaf, u32)> {
    let (used, low, right) = {
        let page = pin.shared();
        let node = Node::open(page.bytes()).ok().filter(may_share)?;
        (node.used_bytes(), node.low(), node.right)
    };
    Some((SiblingLeaf { pin, block, used, low }, right))
}

/// Are these leaves what was seen: one next to the other, the first one with this low fence? Then
/// the block behind them.
fn check_siblings(mtr: &Mtr<'_>, leaves: &[Held], blocks: &[u32], low: &[u8]) -> Option<u32> {
    let (mut left, mut right) = (None, blocks[0]);
    for (held, block) in leaves.iter().zip(blocks) {
        let node = Node::open(mtr.bytes(*held)).ok().filter(may_share)?;
        let follows = match left {
            Some(left) => node.left == left,
            None => node.low() == low,
        };
        if right != *block || !follows {
            return None;
        }
        (left, right) = (Some(*block), node.right);
    }
    Some(right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rightlink_env::Rng;

    #[test]
    fn plans_leave_room_but_not_much() {
        let choose = |used: &[usize]| SharePlan::choose(used, 100).map(|p| (p.leaves, p.one_more));
        assert_eq!(choose(&[100; 6]), Some((6, true)), "seven of six full ones");
        assert_eq!(choose(&[100, 62, 100, 100]), Some((2, false)), "the neighbour has room");
        assert_eq!(choose(&[100, 95]), Some((2, true)), "three of two");
        assert_eq!(
            choose(&[100, 75]),
            None,
            "87 percent of two, 58 of three: a split does as well"
        );
        assert_eq!(choose(&[100, 15]), None, "so it does where nearly nothing is in use");
        assert_eq!(choose(&[100]), None, "no neighbours");
        assert_eq!(choose(&[100, 30, 100]), Some((2, false)), "76 of each would take keys left");
        assert_eq!(choose(&[100, 20, 100, 100, 100, 100]), Some((2, false)), "so would seven");
    }

    /// A deal as even as can be would have taken keys from the right where a thin leaf lies among
    /// full ones, to where a vacuum that has passed it never looks.
    #[test]
    fn no_leaf_ends_behind_its_old_end() {
        let mut rng = Rng::from_seed(3);
        let mut even = 0;
        for _ in 0..500 {
            let count = 2 + rng.index(5);
            let (mut entries, mut sizes, mut ends) = (Entries::default(), Vec::new(), Vec::new());
            for leaf in 0..count {
                for n in 0..=rng.index(60) as u64 {
                    let key = [&(leaf as u64 * 1000 + n).to_be_bytes()[..], &[0; 6]].concat();
                    entries.push(&key, EntryValue::default());
                    sizes.push(10 + rng.index(20));
                }
                ends.push(entries.len());
            }
            let leaves = count + rng.index(2);
            let Some(ranges) = divide(&entries, &sizes, &ends, leaves, 30) else { continue };
            assert_eq!(ranges.len(), leaves);
            assert!(ranges.iter().zip(&ends).all(|(new, old)| new.end <= *old));
            let ordered = ranges.windows(2).all(|pair| pair[0].end == pair[1].start);
            assert!(ordered && ranges.iter().all(|range| !range.is_empty()));
            assert_eq!((ranges[0].start, ranges[leaves - 1].end), (0, entries.len()));
            let bytes = |range: &Range<usize>| sizes[range.clone()].iter().sum::<usize>();
            let each = sizes.iter().sum::<usize>() / leaves;
            even += usize::from(ranges.iter().all(|range| bytes(range).abs_diff(each) <= 90));
        }
        assert!(even > 20, "{even} deals were even");
    }
}
