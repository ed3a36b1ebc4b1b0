//! Redistribution: a full leaf shares its entries with the leaves right of it, instead of a split.
//!
//! If the leaf and up to five right siblings have space for the entries of all, these are divided
//! evenly; else over one leaf more (Knuth's B*-tree, volume 3, 6.2.4, does so with one sibling).
//! It is used for entries that replace a version, because those leave again. New rows and
//! ascending keys split, because they will use the space.
//!
//! One record covers it, under the latches of the leaves from left to right, of the leaf behind
//! them if one is added, and of their common parent.
//!
//! Invariants: the first leaf keeps its low fence, and no leaf ends behind its old end, so keys
//! move only right (R5). Each leaf gets the vacuum cycle id, and each that took entries in counts
//! a merge. Only the parent is read from disk, since a split would be cheaper than reads. The
//! entry that found no space is not inserted here.
//! Does not do: inner pages; move keys left; find the full leaf (`insert`).

use rightlink_env::Broken;
use std::ops::Range;

use rightlink_env::points::broken;
use rightlink_env::sync::Ordering;

use crate::buffer::{LatchedPage, Mtr, Pin};
use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::ids::Xid;
use crate::index::btree::insert::state::{Attempt, FullLeaf, Redistributed, Retry, RetryState};
use crate::index::btree::optimisations::Optimisation;
use crate::index::btree::page::edit::{EntryValue, NodeHeader};
use crate::index::btree::page::entries::Entries;
use crate::index::btree::page::node::{INCOMPLETE, LEFT, Node};
use crate::index::btree::page::tree_key::separator;
use crate::index::btree::search::{LatchResult, OtherLatches, SearchTarget};
use crate::index::btree::tree::Tree;
use crate::wal::RecordKind;

/// Most leaves that share their entries, the full one included.
const MAX_LEAVES: usize = 6;
/// Most percent of each leaf in use afterwards.
const MAX_FILL_PERCENT: usize = 86;
/// Least percent of each leaf in use afterwards: below that, a split gives leaves that are as full.
const MIN_FILL_PERCENT: usize = 60;

/// A leaf as it was read before the latches of the change.
struct SiblingLeaf {
    pin: Pin,
    block: u32,
    used: usize,
    low: Vec<u8>,
}

/// How many leaves share their entries, and whether there will be one more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct SharePlan {
    leaves: usize,
    one_more: bool,
}

impl SharePlan {
    fn after(self) -> usize {
        self.leaves + usize::from(self.one_more)
    }

    /// The plan that fills pages most, within the limits; `None` if a split does as well. `used`
    /// has the bytes of the full leaf and of its right siblings.
    fn choose(used: &[usize], capacity: usize) -> Option<SharePlan> {
        let plans = (2..=used.len())
            .flat_map(|leaves| [false, true].map(|one_more| SharePlan { leaves, one_more }));
        let up_to = |leaves: usize| used[..leaves].iter().sum::<usize>();
        let fill = |plan: &SharePlan| up_to(plan.leaves) * 100 / (plan.after() * capacity);
        // No leaf may take keys from the right in an even division.
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

/// Divides the entries evenly over `leaves`. Near each even cut the shortest separator is chosen,
/// but never behind the old end of the leaf (`ends`). `sizes` has the bytes of each entry. `None`:
/// a leaf would be empty.
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

/// The decoded entries of the leaves that share.
#[derive(Default)]
struct PooledEntries {
    entries: Entries,
    /// Bytes of each entry.
    sizes: Vec<usize>,
    /// Where each leaf ended.
    ends: Vec<usize>,
    /// Headers of the leaves.
    headers: Vec<NodeHeader>,
}

impl PooledEntries {
    /// Decodes the leaves, without rows that are marked dead.
    fn load(tree: &Tree, mtr: &Mtr<'_>, leaves: &[LatchedPage]) -> Result<PooledEntries> {
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

    /// Images of the leaves at `blocks`, with the entries divided anew. `None`: they do not fit, or
    /// the first one has less than `need` bytes free.
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

/// A redistribution, planned without latches.
struct Redistribution {
    /// The full leaf and the siblings that share with it.
    leaves: Vec<SiblingLeaf>,
    /// Their parent.
    parent: Pin,
    /// Is one leaf added?
    one_more: bool,
}

/// The pages of a [`Redistribution`], latched.
struct LatchedSiblings {
    leaves: Vec<LatchedPage>,
    blocks: Vec<u32>,
    /// The leaf behind them, if its left link changes.
    behind: Option<LatchedPage>,
    parent: LatchedPage,
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
        if !self.uses(Optimisation::Spreading) {
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
        let mut siblings = match self.latch_siblings(&mut mtr, plan)? {
            Ok(Some(siblings)) => siblings,
            Ok(None) => return Ok(Ok(Redistributed::MustSplit)),
            Err(retry) => return Ok(Err(retry)),
        };
        let pooled = PooledEntries::load(self, &mtr, &siblings.leaves)?;
        let old_count = siblings.leaves.len();
        if let Some(reserved) = state.reserved.as_mut().filter(|_| one_more) {
            siblings.leaves.push(mtr.latch(reserved.take_pin()));
            siblings.blocks.push(reserved.block);
        }
        // The cycle id is read after all leaves are latched, the new one included: a vacuum that
        // begins later waits there.
        let cycle = match broken(Broken::SpreadWithoutCycle) {
            true => 0,
            false => self.cycle.load(Ordering::SeqCst),
        };
        let new_leaves = pooled.images(self, &siblings.blocks, cycle, full.needed_bytes);
        let parent = match &new_leaves {
            Some(new_leaves) => self.parent_image(&mtr, &siblings, old_count, new_leaves)?,
            None => None,
        };
        let (Some(new_leaves), Some(parent)) = (new_leaves, parent) else {
            // The pin of the new page was released with its latch.
            state.reserved = state.reserved.take().filter(|_| !one_more);
            return Ok(Ok(Redistributed::MustSplit));
        };
        self.apply_redistribution(mtr, &siblings, &new_leaves, &parent)?;
        if one_more {
            state.reserved.take().expect("it was there").mark_used();
        }
        Ok(Ok(Redistributed::SpaceMade))
    }

    /// A plan for the full leaf at `block`; `None`: it is to be split.
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

    /// The full leaf and its right siblings, as far as they are in memory.
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

    /// How many children the page at `pin` has, from the one at `block` with low fence `low` on; 0
    /// if it is not their parent any more.
    fn siblings_under(&self, pin: &Pin, low: &[u8], block: u32) -> usize {
        let (page, target) = (pin.shared(), SearchTarget::At(low));
        let Ok(node) = Node::open(page.bytes()) else { return 0 };
        let found = node.search(low).ok().filter(|_| !node.is_leaf());
        let at = found.and_then(|found| node.child_index(found, target));
        let at = at.filter(|at| *at < node.count && node.child(*at) == Ok(block));
        at.map_or(0, |at| node.count - at)
    }

    /// Latches the planned pages, if they are unchanged; `None`: the plan cannot be carried out.
    fn latch_siblings(
        &self,
        mtr: &mut Mtr<'_>,
        plan: Redistribution,
    ) -> Result<Attempt<Option<LatchedSiblings>>> {
        let Redistribution { leaves, parent, one_more } = plan;
        let low = leaves[0].low.clone();
        let blocks: Vec<u32> = leaves.iter().map(|leaf| leaf.block).collect();
        let leaves: Vec<LatchedPage> = leaves.into_iter().map(|leaf| mtr.latch(leaf.pin)).collect();
        let Some(next) = check_siblings(mtr, &leaves, &blocks, &low) else {
            return Ok(Err(Retry::Conflict));
        };
        let mut behind = None;
        if one_more && next != 0 {
            let Some(pin) = self.pool.try_pin(self.page(next)) else { return Ok(Ok(None)) };
            behind = Some(mtr.latch(pin));
        }
        let target = SearchTarget::At(&low);
        let (parent, found) =
            match self.latch_page(mtr, parent, target, 1, OtherLatches::LatchedPage)? {
                LatchResult::Here(held, found) => (held, found),
                LatchResult::Lost => return Ok(Err(Retry::Conflict)),
                LatchResult::NotInMemory(block) => return Ok(Err(Retry::NeedPage(block))),
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

    /// The parent with the new separators, in place of those of the `old_count` old leaves; `None`
    /// if it has no space for them.
    fn parent_image(
        &self,
        mtr: &Mtr<'_>,
        siblings: &LatchedSiblings,
        old_count: usize,
        new_leaves: &NewLeaves,
    ) -> Result<Option<Box<[u8; PAGE_SIZE]>>> {
        let damage = |what| self.corrupt(mtr.id(siblings.parent).block.0, what);
        let node = Node::open(mtr.bytes(siblings.parent)).map_err(damage)?;
        let old = Entries::load(&node).map_err(damage)?;
        let mut new = Entries::default();
        (0..=siblings.at).for_each(|i| new.push(old.key(i), old.value(i)));
        for (separator, block) in new_leaves.separators.iter().zip(&siblings.blocks[1..]) {
            new.push(separator, EntryValue { child: *block, ..EntryValue::default() });
        }
        (siblings.at + old_count..old.len()).for_each(|i| new.push(old.key(i), old.value(i)));
        Ok(NodeHeader::of(&node, self.unused_bytes()).image_of(&new))
    }

    fn apply_redistribution(
        &self,
        mut mtr: Mtr<'_>,
        siblings: &LatchedSiblings,
        new_leaves: &NewLeaves,
        parent: &[u8; PAGE_SIZE],
    ) -> Result<()> {
        for (held, image) in siblings.leaves.iter().zip(&new_leaves.pages) {
            mtr.page(*held).replace(image);
        }
        if let (Some(behind), Some(last)) = (siblings.behind, siblings.blocks.last()) {
            mtr.page(behind).put_u32(LEFT, *last);
        }
        mtr.page(siblings.parent).replace(parent);
        // This is counted before the change is visible: a running vacuum must not stop at a page
        // that took entries in.
        let receivers =
            if broken(Broken::SpreadReceiversNotNoted) { &[][..] } else { &siblings.blocks[1..] };
        receivers.iter().for_each(|block| self.merges.record_merge_into(*block));
        mtr.commit(RecordKind::IndexSpread, Xid::NONE)?;
        rightlink_env::points::hit("btree.spread");
        Ok(())
    }
}

fn may_share(node: &Node<&[u8; PAGE_SIZE]>) -> bool {
    node.is_leaf() && node.flags & INCOMPLETE == 0 && node.count > 0
}

/// The leaf at `block`, if it may share, and its right link.
fn read_sibling(pin: Pin, block: u32) -> Option<(SiblingLeaf, u32)> {
    let (used, low, right) = {
        let page = pin.shared();
        let node = Node::open(page.bytes()).ok().filter(may_share)?;
        (node.used_bytes(), node.low(), node.right)
    };
    Some((SiblingLeaf { pin, block, used, low }, right))
}

/// The block right of these leaves, if they are still siblings in this order and the first one
/// still has this low fence.
fn check_siblings(
    mtr: &Mtr<'_>,
    leaves: &[LatchedPage],
    blocks: &[u32],
    low: &[u8],
) -> Option<u32> {
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
