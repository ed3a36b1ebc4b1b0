//! Splits a page and inserts the downlink of its new right sibling.
//!
//! One record encodes the left page without its right half and flags it incomplete, formats the
//! right page, and sets the left link of the old right sibling. A second record inserts the
//! downlink and clears the flag. In between, also after a crash, readers use the right link, and
//! the next writer that meets the flag finishes the split.
//!
//! If long fences leave no two pages that hold all entries and the new one, the page is split
//! without it; the entry meets shorter fences at the next attempt.
//!
//! Invariants: a separator is above every key left of it and not above any right of it; on leaves
//! it is as short as possible. A flagged page is not split again. Child before parent before meta
//! page (R12).
//! Does not do: merge; choose the split point (`split_point`).
//! PostgreSQL: `_bt_split`, `_bt_insert_parent`, `_bt_finish_split`, `_bt_newroot`.

mod fast_split;
pub(crate) mod split_point;

use crate::buffer::{LatchedPage, Mtr};
use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::ids::Xid;
use crate::index::btree::insert::page_insert::PageInsert;
use crate::index::btree::insert::split::fast_split::FastSplit;
use crate::index::btree::insert::state::{Attempt, Retry, RetryState};
use crate::index::btree::optimisations::Optimisation;
use crate::index::btree::page::edit::{
    EntryValue, NodeHeader, SplitBlocks, SplitImages, split_headers,
};
use crate::index::btree::page::entries::Entries;
use crate::index::btree::page::meta;
use crate::index::btree::page::node::{Checked, INCOMPLETE, LEFT, Node, ROOT};
use crate::index::btree::page::posting::EntryPosition;
use crate::index::btree::search::{LatchResult, OtherLatches, SearchTarget};
use crate::index::btree::tree::Tree;
use crate::page::PageMut;
use crate::page::header::FLAGS;
use crate::wal::RecordKind;
use rightlink_env::Broken;
use rightlink_env::points::broken;
use rightlink_env::sync::Ordering;

/// A page to split, with the entry that does not fit.
pub(crate) struct PageSplit<'a> {
    /// The page.
    pub(crate) held: LatchedPage,
    /// The entry belongs in front of this one.
    pub(crate) pos: usize,
    /// Its key.
    pub(crate) key: &'a [u8],
    /// The rest of it.
    pub(crate) value: EntryValue<'a>,
    /// A latched child whose split the entry finishes.
    pub(crate) child: Option<LatchedPage>,
    /// The inserting transaction.
    pub(crate) xid: Xid,
}

/// How a page is split.
enum SplitMethod {
    /// Items are copied as they are.
    CopyItems(FastSplit),
    /// Entries are decoded and encoded again; split points, best first.
    Reencode(Entries, Vec<usize>),
}

/// Images of both halves: the first split point in `order` for which both fit. With `cut`, the
/// separator is as short as possible.
fn encode_halves(
    entries: &Entries,
    header: &NodeHeader,
    blocks: SplitBlocks,
    order: &[usize],
    cut: bool,
) -> Option<SplitImages> {
    order.iter().find_map(|at| {
        let (left, right) = split_headers(header, entries.separator_at(*at, cut), blocks);
        let left = left.image(entries, 0, *at)?;
        let right = right.image(entries, *at, entries.len())?;
        Some(SplitImages { left, right })
    })
}

/// Both halves of a page without a new entry, split as near the middle as possible.
fn encode_halves_without_entry(
    page: &[u8; PAGE_SIZE],
    header: &NodeHeader,
    blocks: SplitBlocks,
) -> Checked<SplitImages> {
    rightlink_env::points::hit("btree.split.without");
    let entries = Entries::load(&Node::open(page)?)?;
    let mut order: Vec<usize> = (1..entries.len()).collect();
    order.sort_by_key(|at| at.abs_diff(entries.len() / 2));
    let cut = header.level == 0;
    encode_halves(&entries, header, blocks, &order, cut).ok_or("a page that cannot be split")
}

fn clear_incomplete(mut page: PageMut<'_>) {
    let flags = Node::open(page.bytes()).expect("opened under this latch").flags;
    page.put_u16(FLAGS, flags & !(INCOMPLETE | ROOT));
}

impl Tree {
    /// Splits the page, inserts the entry into one of the halves, and the downlink into the parent.
    /// If the entry does not fit in the same step, the page is split and the caller must retry.
    pub(crate) fn split<'t>(
        &'t self,
        mut mtr: Mtr<'t>,
        job: PageSplit<'_>,
        state: &mut RetryState<'t>,
    ) -> Result<Attempt<()>> {
        let block = mtr.id(job.held).block.0;
        let damage = |what| self.corrupt(block, what);
        let node = Node::open(mtr.bytes(job.held)).map_err(damage)?;
        assert!(node.flags & INCOMPLETE == 0, "an incomplete split is finished before the next");
        let level = node.level;
        let Some(reserved) = state.reserved.as_mut() else { return Ok(Err(Retry::NeedBlock)) };
        let sibling = match node.right {
            0 => None,
            right if broken(Broken::ReadUnderLatch) => Some(self.pin_linked(right)?),
            right => match self.pool.try_pin(self.page(right)) {
                Some(pin) => Some(pin),
                None => return Ok(Err(Retry::NeedPage(right))),
            },
        };
        let mut header = NodeHeader::of(&node, self.unused_bytes());
        let split = self.choose_method(&node, &header, &job).map_err(damage)?;
        let sibling = sibling.map(|pin| mtr.latch(pin));
        let new = mtr.latch(reserved.take_pin());
        // The cycle id is read after the new page is latched: a vacuum that begins later waits
        // there.
        header.cycle = self.cycle.load(Ordering::SeqCst);
        let blocks = SplitBlocks { left: block, right: reserved.block };
        let halves = match split {
            SplitMethod::CopyItems(plan) => plan.halves(mtr.bytes(job.held), &header, blocks),
            SplitMethod::Reencode(entries, order) => {
                encode_halves(&entries, &header, blocks, &order, self.cuts_separators(level))
            }
        };
        let is_in = halves.is_some();
        let halves = match halves {
            Some(halves) => halves,
            None => encode_halves_without_entry(mtr.bytes(job.held), &header, blocks)
                .map_err(|what| self.corrupt(block, what))?,
        };
        mtr.page(job.held).replace(&halves.left);
        mtr.page(new).replace(&halves.right);
        if let Some(sibling) = sibling {
            mtr.page(sibling).put_u32(LEFT, reserved.block);
        }
        if let Some(child) = job.child.filter(|_| is_in) {
            clear_incomplete(mtr.page(child));
        }
        mtr.commit(RecordKind::IndexSplit, job.xid)?;
        state.reserved.take().expect("it was there").mark_used();
        rightlink_env::points::hit("btree.split.incomplete");
        self.finish_split(block, level)?;
        Ok(if is_in { Ok(()) } else { Err(Retry::Conflict) })
    }

    /// Chooses how to split `node`, which has this header, for an entry that does not fit.
    fn choose_method(
        &self,
        node: &Node<&[u8; PAGE_SIZE]>,
        header: &NodeHeader,
        job: &PageSplit<'_>,
    ) -> Checked<SplitMethod> {
        let is_usual = self.uses(Optimisation::SplitStrategies)
            && self.uses(Optimisation::ShortSeparators)
            && self.cuts_separators(header.level);
        if node.is_leaf() && job.value.extra.is_empty() && is_usual {
            let plan = FastSplit::plan(node, job.pos, job.key, self.options.capacity / 16);
            if let Some(plan) = plan {
                rightlink_env::points::hit("btree.split.copied");
                return Ok(SplitMethod::CopyItems(plan));
            }
        }
        let mut entries = Entries::load(node)?;
        if node.is_leaf() {
            entries.insert_row(job.pos, job.key, job.value);
            self.deduplicate_halves(&mut entries);
        } else {
            entries.insert(job.pos, job.key, job.value);
        }
        if entries.len() < 2 {
            return Err("an empty page without room for one entry");
        }
        let order = self.split_order(&entries, header, job.key);
        Ok(SplitMethod::Reencode(entries, order))
    }

    /// Are separators of this level truncated? Above the leaves, keys are truncated separators
    /// already.
    pub(crate) fn cuts_separators(&self, level: u8) -> bool {
        level == 0 && self.uses(Optimisation::SuffixTruncation)
    }

    /// Deduplicates entries that are encoded anyway, unless one item would be left.
    fn deduplicate_halves(&self, entries: &mut Entries) {
        if !self.deduplicates() || !entries.has_duplicates() {
            return;
        }
        let mut fewer = entries.clone();
        if fewer.deduplicate(self.list_bytes()) && fewer.len() > 1 {
            *entries = fewer;
            rightlink_env::points::hit("btree.split.deduplicated");
        }
    }

    /// Inserts the downlink of the right sibling of `block` into the parent, if it is missing.
    pub(crate) fn finish_split(&self, block: u32, level: u8) -> Result<()> {
        let mut state = RetryState::default();
        loop {
            match self.try_finish_split(block, level, &mut state)? {
                Ok(()) => return Ok(()),
                Err(retry) => state.prepare(self, retry)?,
            }
        }
    }

    fn try_finish_split<'t>(
        &'t self,
        block: u32,
        level: u8,
        state: &mut RetryState<'t>,
    ) -> Result<Attempt<()>> {
        let pin = self.pin_linked(block)?;
        let (separator, right) = {
            let page = pin.shared();
            let Ok(node) = Node::open(page.bytes()) else { return Ok(Ok(())) };
            match node.high() {
                Some(high) if node.flags & INCOMPLETE != 0 && node.level == level => {
                    (high, node.right)
                }
                _ => return Ok(Ok(())),
            }
        };
        let target = SearchTarget::At(&separator);
        let Some(parent) = self.descend(target, level + 1)? else {
            return self.raise_root(block, level, state);
        };
        let mut mtr = Mtr::new(&self.pool);
        let child = mtr.latch(pin);
        if !is_still_incomplete(mtr.bytes(child), &separator, right) {
            return Ok(Err(Retry::Conflict));
        }
        let (held, found) = match self.latch_page(
            &mut mtr,
            parent,
            target,
            level + 1,
            OtherLatches::LatchedPage,
        )? {
            LatchResult::Here(held, found) => (held, found),
            LatchResult::Lost => return Ok(Err(Retry::Conflict)),
            LatchResult::NotInMemory(missing) => return Ok(Err(Retry::NeedPage(missing))),
        };
        let parent = mtr.id(held).block.0;
        let damage = |what| self.corrupt(parent, what);
        let node = Node::open(mtr.bytes(held)).map_err(damage)?;
        if node.flags & INCOMPLETE != 0 {
            return Ok(Err(Retry::FinishSplit { block: parent, level: level + 1 }));
        }
        // The first entry of a leftmost page is below every key, whatever its prefix says.
        let first = found.pos == 0 && node.left == 0;
        if !first && (found.exact || found.pos == 0) {
            return Err(damage("the downlink of an incomplete split is there already"));
        }
        let pos = found.pos.max(1);
        let value = EntryValue { child: right, ..EntryValue::default() };
        let done =
            self.insert_on_page(&mut mtr, held, EntryPosition::Gap(pos), &separator, value)?;
        if done != PageInsert::Full {
            clear_incomplete(mtr.page(child));
            mtr.commit(RecordKind::IndexFinishSplit, Xid::NONE)?;
            return Ok(Ok(()));
        }
        let key = &separator;
        let job = PageSplit { held, pos, key, value, child: Some(child), xid: Xid::NONE };
        self.split(mtr, job, state)
    }

    /// Makes a new root above the old one, which was split.
    fn raise_root<'t>(
        &'t self,
        block: u32,
        level: u8,
        state: &mut RetryState<'t>,
    ) -> Result<Attempt<()>> {
        let meta = self.refresh_root()?;
        if meta.level > level {
            return Ok(Err(Retry::Conflict));
        }
        if meta.root != block {
            // The page is right of the root, whose split must be finished first.
            return Ok(Err(Retry::FinishSplit { block: meta.root, level: meta.level }));
        }
        let Some(reserved) = state.reserved.as_mut() else { return Ok(Err(Retry::NeedBlock)) };
        let (child, meta) = (self.pin_linked(block)?, self.pool.pin(self.page(0))?);
        let mut mtr = Mtr::new(&self.pool);
        let child = mtr.latch(child);
        let node = Node::open(mtr.bytes(child)).map_err(|what| self.corrupt(block, what))?;
        let (right, high) = (node.right, node.high());
        let Some(separator) = high.filter(|_| node.flags & INCOMPLETE != 0) else {
            return Ok(Ok(()));
        };
        let meta = mtr.latch(meta);
        let now = meta::parse(mtr.bytes(meta)).map_err(|what| self.corrupt(0, what))?;
        if (now.root, now.level) != (block, level) {
            return Ok(Err(Retry::Conflict));
        }
        let image = root_image(level + 1, block, &separator, right);
        let root = mtr.latch(reserved.take_pin());
        mtr.page(root).replace(&image);
        meta::store_root(&mut mtr.page(meta), reserved.block, level + 1);
        clear_incomplete(mtr.page(child));
        mtr.commit(RecordKind::IndexMeta, Xid::NONE)?;
        self.set_root(reserved.block, level + 1);
        state.reserved.take().expect("it was there").mark_used();
        Ok(Ok(()))
    }
}

fn root_image(level: u8, left: u32, separator: &[u8], right: u32) -> Box<[u8; PAGE_SIZE]> {
    let mut entries = Entries::default();
    entries.push(&[], EntryValue { child: left, ..EntryValue::default() });
    entries.push(separator, EntryValue { child: right, ..EntryValue::default() });
    let header = NodeHeader { level, flags: ROOT, ..NodeHeader::default() };
    header.image_of(&entries).expect("two separators fit a page")
}

/// Is this split of the page still incomplete?
fn is_still_incomplete(page: &[u8; PAGE_SIZE], separator: &[u8], right: u32) -> bool {
    Node::open(page).is_ok_and(|node| {
        node.flags & INCOMPLETE != 0
            && node.right == right
            && node.high().as_deref() == Some(separator)
    })
}
