//! Splitting a page, and telling its parent.
//!
//! A split is one record: the left page is encoded again without its right half and flagged
//! incomplete, the new right page is formatted, and the old right sibling's left link is set. A
//! second record puts the downlink into the parent and clears the flag. In between, and after a
//! crash in between, readers use the right link, and the next writer who meets the flag finishes.
//!
//! Fences and a new entry may be so long that no two pages hold what is to be held: then the page
//! is split without the entry, which meets shorter fences on the next try. That always does: both
//! halves hold less than the page did, and two entries of any length part.
//!
//! Invariants: the separator is above every key left of it and not above any right of it, and on
//! leaves no byte longer than that needs (but for the variant that shows what this saves); a page
//! with the flag is not split again; child before parent before meta (R12).
//! Does not do: merge.

mod fast_split;
pub(crate) mod split_point;

use crate::buffer::{Held, Mtr};
use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::ids::Xid;
use crate::index::btree::insert::page_insert::Put;
use crate::index::btree::insert::{Attempt, Lack, Luggage};
use crate::index::btree::optimisations::Optimisations;
use crate::index::btree::page::edit::{Frame, Halves, Value, halves_of};
use crate::index::btree::page::entries::Entries;
use crate::index::btree::page::meta;
use crate::index::btree::page::node::{Checked, INCOMPLETE, LEFT, Node, ROOT};
use crate::index::btree::page::posting::Spot;
use crate::index::btree::search::{Aim, Reached, Target};
use crate::index::btree::tree::Tree;
use crate::page::PageMut;
use crate::page::header::FLAGS;
use crate::wal::RecordKind;
use rightlink_env::points::broken;
use rightlink_env::sync::Ordering;

/// A page to split, with the entry that does not fit.
pub(crate) struct Splitting<'a> {
    /// The page.
    pub(crate) held: Held,
    /// Where the entry belongs.
    pub(crate) pos: usize,
    /// Its key.
    pub(crate) key: &'a [u8],
    /// The rest of it.
    pub(crate) value: Value<'a>,
    /// A latched child whose split this entry completes.
    pub(crate) child: Option<Held>,
    /// Who inserts.
    pub(crate) xid: Xid,
}

/// How a page is split.
enum How {
    /// Items are copied.
    Copied(fast_split::Plan),
    /// Entries are taken out and encoded again: the split points, best first.
    Apart(Entries, Vec<usize>),
}

/// Images of both halves: the first split point in `order` for which both fit. Is the separator
/// `cut` short?
fn halve(
    entries: &Entries,
    frame: &Frame,
    blocks: (u32, u32),
    (order, cut): (&[usize], bool),
) -> Option<Halves> {
    order.iter().find_map(|at| {
        let (left, right) = halves_of(frame, entries.separator_at(*at, cut), blocks);
        let left = left.image(entries, 0, *at)?;
        let right = right.image(entries, *at, entries.len())?;
        Some(Halves { left, right })
    })
}

/// Both halves of a page as it is, parted as near the middle as can be.
fn halve_without(page: &[u8; PAGE_SIZE], frame: &Frame, blocks: (u32, u32)) -> Checked<Halves> {
    rightlink_env::points::hit("btree.split.without");
    let entries = Entries::load(&Node::open(page)?)?;
    let mut order: Vec<usize> = (1..entries.len()).collect();
    order.sort_by_key(|at| at.abs_diff(entries.len() / 2));
    let cut = frame.level == 0;
    halve(&entries, frame, blocks, (&order, cut)).ok_or("a page that cannot be split")
}

fn clear_incomplete(mut page: PageMut<'_>) {
    let flags = Node::open(page.bytes()).expect("opened under this latch").flags;
    page.put_u16(FLAGS, flags & !(INCOMPLETE | ROOT));
}

impl Tree {
    /// Splits the page, puts the entry into one of the halves, and tells the parent. Where that is
    /// not to be had in one step, it lacks luck when the page has been split.
    pub(crate) fn split<'t>(
        &'t self,
        mut mtr: Mtr<'t>,
        job: Splitting<'_>,
        luggage: &mut Luggage<'t>,
    ) -> Result<Attempt<()>> {
        let block = mtr.id(job.held).block.0;
        let damage = |what| self.corrupt(block, what);
        let node = Node::open(mtr.bytes(job.held)).map_err(damage)?;
        assert!(node.flags & INCOMPLETE == 0, "an incomplete split is finished before the next");
        let level = node.level;
        let Some(spare) = luggage.spare.as_mut() else { return Ok(Err(Lack::Block)) };
        let sibling = match node.right {
            0 => None,
            right if broken("r7-no-io") => Some(self.pin_linked(right)?),
            right => match self.pool.try_pin(self.page(right)) {
                Some(pin) => Some(pin),
                None => return Ok(Err(Lack::Page(right))),
            },
        };
        let mut frame = Frame::of(&node, self.reserve());
        let split = self.how(&node, &frame, &job).map_err(damage)?;
        let sibling = sibling.map(|pin| mtr.latch(pin));
        let new = mtr.latch(spare.pin());
        // Read only now that the new page is latched: a vacuum that began later will wait there.
        frame.cycle = self.cycle.load(Ordering::SeqCst);
        let blocks = (block, spare.block);
        let halves = match split {
            How::Copied(plan) => plan.halves(mtr.bytes(job.held), &frame, blocks),
            How::Apart(entries, order) => {
                halve(&entries, &frame, blocks, (&order, self.cuts_separators(level)))
            }
        };
        let is_in = halves.is_some();
        let halves = match halves {
            Some(halves) => halves,
            None => halve_without(mtr.bytes(job.held), &frame, blocks)
                .map_err(|what| self.corrupt(block, what))?,
        };
        mtr.page(job.held).replace(&halves.left);
        mtr.page(new).replace(&halves.right);
        if let Some(sibling) = sibling {
            mtr.page(sibling).put_u32(LEFT, spare.block);
        }
        if let Some(child) = job.child.filter(|_| is_in) {
            clear_incomplete(mtr.page(child));
        }
        mtr.commit(RecordKind::IndexSplit, job.xid)?;
        luggage.spare.take().expect("it was there").used();
        rightlink_env::points::hit("btree.split.incomplete");
        self.complete_split(block, level)?;
        Ok(if is_in { Ok(()) } else { Err(Lack::Luck) })
    }

    /// How to split `node`, whose frame is `frame`, for an entry that does not fit.
    fn how(
        &self,
        node: &Node<&[u8; PAGE_SIZE]>,
        frame: &Frame,
        job: &Splitting<'_>,
    ) -> Checked<How> {
        let usual = Optimisations::SPLIT_STRATEGIES.with(Optimisations::SHORT_SEPARATORS);
        let is_usual = self.uses(usual) && self.cuts_separators(frame.level);
        if node.is_leaf() && job.value.extra.is_empty() && is_usual {
            let plan = fast_split::plan(node, job.pos, job.key, self.options.capacity / 16);
            if let Some(plan) = plan {
                rightlink_env::points::hit("btree.split.copied");
                return Ok(How::Copied(plan));
            }
        }
        let mut entries = Entries::load(node)?;
        if node.is_leaf() {
            entries.add(job.pos, job.key, job.value);
            self.deduplicate_halves(&mut entries);
        } else {
            entries.insert(job.pos, job.key, job.value);
        }
        if entries.len() < 2 {
            return Err("an empty page without room for one entry");
        }
        let order = self.split_order(&entries, frame, job.key);
        Ok(How::Apart(entries, order))
    }

    /// Are separators of this level cut short? Above the leaves they are separators already.
    pub(crate) fn cuts_separators(&self, level: u8) -> bool {
        level == 0 && !self.uses(Optimisations::WHOLE_SEPARATORS)
    }

    /// What a split encodes anyway gets posting lists, unless one item would be left.
    fn deduplicate_halves(&self, entries: &mut Entries) {
        if !self.deduplicates() || !entries.has_twins() {
            return;
        }
        let mut fewer = entries.clone();
        if fewer.deduplicate(self.list_bytes()) && fewer.len() > 1 {
            *entries = fewer;
            rightlink_env::points::hit("btree.split.deduplicated");
        }
    }

    /// Puts the downlink of the right sibling of `block` into the parent, if it is missing.
    pub(crate) fn complete_split(&self, block: u32, level: u8) -> Result<()> {
        let mut luggage = Luggage::default();
        loop {
            match self.complete_once(block, level, &mut luggage)? {
                Ok(()) => return Ok(()),
                Err(lack) => luggage.fetch(self, lack)?,
            }
        }
    }

    fn complete_once<'t>(
        &'t self,
        block: u32,
        level: u8,
        luggage: &mut Luggage<'t>,
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
        let aim = Aim::At(&separator);
        let Some(parent) = self.descend(aim, level + 1)? else {
            return self.raise(block, level, luggage);
        };
        let mut mtr = Mtr::new(&self.pool);
        let child = mtr.latch(pin);
        if !still(mtr.bytes(child), &separator, right) {
            return Ok(Err(Lack::Luck));
        }
        let target = Target { level: level + 1, alone: false };
        let (held, found) = match self.reach(&mut mtr, parent, aim, target)? {
            Reached::Here(held, found) => (held, found),
            Reached::Lost => return Ok(Err(Lack::Luck)),
            Reached::Missing(missing) => return Ok(Err(Lack::Page(missing))),
        };
        let parent = mtr.id(held).block.0;
        let damage = |what| self.corrupt(parent, what);
        let node = Node::open(mtr.bytes(held)).map_err(damage)?;
        if node.flags & INCOMPLETE != 0 {
            return Ok(Err(Lack::Finish(parent, level + 1)));
        }
        // The first entry of a leftmost page is below everything, whatever its prefix says.
        let first = found.pos == 0 && node.left == 0;
        if !first && (found.exact || found.pos == 0) {
            return Err(damage("the downlink of an incomplete split is there already"));
        }
        let pos = found.pos.max(1);
        let value = Value { child: right, ..Value::default() };
        if self.put(&mut mtr, held, Spot::Gap(pos), &separator, value)? != Put::Full {
            clear_incomplete(mtr.page(child));
            mtr.commit(RecordKind::IndexFinishSplit, Xid::NONE)?;
            return Ok(Ok(()));
        }
        let key = &separator;
        let job = Splitting { held, pos, key, value, child: Some(child), xid: Xid::NONE };
        self.split(mtr, job, luggage)
    }

    /// Puts a new root above the old one, which has been split.
    fn raise<'t>(
        &'t self,
        block: u32,
        level: u8,
        luggage: &mut Luggage<'t>,
    ) -> Result<Attempt<()>> {
        let meta = self.refresh_root()?;
        if meta.level > level {
            return Ok(Err(Lack::Luck));
        }
        if meta.root != block {
            // The page is right of the root, whose own split comes first.
            return Ok(Err(Lack::Finish(meta.root, meta.level)));
        }
        let Some(spare) = luggage.spare.as_mut() else { return Ok(Err(Lack::Block)) };
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
            return Ok(Err(Lack::Luck));
        }
        let image = new_root(level + 1, block, &separator, right);
        let root = mtr.latch(spare.pin());
        mtr.page(root).replace(&image);
        meta::store_root(&mut mtr.page(meta), spare.block, level + 1);
        clear_incomplete(mtr.page(child));
        mtr.commit(RecordKind::IndexMeta, Xid::NONE)?;
        self.set_root(spare.block, level + 1);
        luggage.spare.take().expect("it was there").used();
        Ok(Ok(()))
    }
}

fn new_root(level: u8, left: u32, separator: &[u8], right: u32) -> Box<[u8; PAGE_SIZE]> {
    let mut entries = Entries::default();
    entries.push(&[], Value { child: left, ..Value::default() });
    entries.push(separator, Value { child: right, ..Value::default() });
    let frame = Frame { level, flags: ROOT, ..Frame::default() };
    frame.image_of(&entries).expect("two separators fit a page")
}

/// Is the split of this page still incomplete, and the same one?
fn still(page: &[u8; PAGE_SIZE], separator: &[u8], right: u32) -> bool {
    Node::open(page).is_ok_and(|node| {
        node.flags & INCOMPLETE != 0
            && node.right == right
            && node.high().as_deref() == Some(separator)
    })
}
