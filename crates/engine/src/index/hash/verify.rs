//! Is it a hash index? Every check of the structure, with writers running or not.
//!
//! | check | what |
//! |---|---|
//! | C0 | the walk along the list comes to its end |
//! | C1 | the meta page makes sense |
//! | C2 | entries ascend by code, key and row id |
//! | C3 | entries lie between the fences of their page: they are in the right bucket |
//! | C4 | each page begins where the one to its left ends |
//! | C5 | the code beside an entry is that of its key |
//! | C6 | header, slots and items are inside the page; items do not overlap; bytes add up |
//! | C7 | the directory names the page that a bucket begins on, or the left neighbour is flagged |
//! | C8 | every block in use is in the list, the directory or the list of free pages, once |
//! | C9 | flags mean something |
//! | B13 | no two live rows with one key (unique indexes, with an oracle) |
//!
//! Online: two neighbours are compared under both latches; what seems wrong about the directory is
//! looked at again before it is reported; blocks are counted only if no page came or went
//! meanwhile, which the version of the meta page tells.
//!
//! Invariants: reports, never panics and never fails on damage it can describe; an error is an I/O
//! error. Links are followed only to pages that begin where the last one ended, so the walk ends.
//! Does not do: compare with the heap (room `verify`).

use crate::buffer::Pin;
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::RowId;
use crate::index::am::{Finding, HeapOracle, Liveness, VerifyStats};
use crate::index::hash::Index;
use crate::index::hash::bucket::{Bucket, Checked, HAS_DEAD, INCOMPLETE, Item, Place, is_bucket};
use crate::index::hash::code::{CODE, bits_of, code_of, number_of, start_of};
use crate::index::hash::directory::{MAX_NUMBERS, PER_PAGE, offset_of};
use crate::index::hash::edit::Entry;
use crate::index::hash::meta::{self, FIRST, Meta, next_free};
use crate::page::PageKind;
use crate::page::header::{self, u32_at};

type Page = Box<[u8; PAGE_SIZE]>;

/// Looks at something that others may be changing at most this often.
const MAX_LOOKS: u32 = 16;

/// A page of the walk: a copy.
struct Seen {
    block: u32,
    page: Page,
}

/// A verification under way.
struct Check<'a> {
    index: &'a Index,
    oracle: Option<&'a dyn HeapOracle>,
    report: &'a mut dyn FnMut(Finding),
    stats: VerifyStats,
    /// Blocks met, each with how often.
    met: Vec<u32>,
    used: u64,
    /// The last key of the walk, for uniqueness across pages.
    last: Option<(Vec<u8>, RowId)>,
}

fn copy(pin: &Pin) -> Page {
    Box::new(*pin.shared().bytes())
}

impl Index {
    /// See [`crate::index::am::AccessMethod::verify`].
    pub(crate) fn verify(
        &self,
        oracle: Option<&dyn HeapOracle>,
        report: &mut dyn FnMut(Finding),
    ) -> Result<VerifyStats> {
        let (stats, met) = (VerifyStats::default(), Vec::new());
        let mut check = Check { index: self, oracle, report, stats, met, used: 0, last: None };
        // Pinned until the end: a page in memory keeps its version while nobody changes it.
        let pin = self.pool.pin(self.page(0))?;
        let version = pin.version();
        let meta = match meta::parse(&copy(&pin)) {
            Ok(meta) => meta,
            Err(what) => {
                check.say(0, "C1", what);
                return Ok(check.stats);
            }
        };
        check.meta(&meta);
        check.list()?;
        check.directory(&meta)?;
        check.blocks(&meta, &|| pin.version() == version)?;
        Ok(check.finish(&meta))
    }
}

impl Check<'_> {
    fn say(&mut self, block: u32, check: &'static str, what: impl Into<String>) {
        let finding = Finding { page: self.index.page(block), check, what: what.into() };
        (self.report)(finding);
    }

    /// C1, beyond what opening asks.
    fn meta(&mut self, meta: &Meta) {
        if meta.used > self.index.pool.blocks(self.index.file) {
            self.say(0, "C1", format!("{} blocks in use, and the file has fewer", meta.used));
        }
        if meta.directory.first().is_none_or(|block| *block == 0) {
            self.say(0, "C1", "there is no directory");
        }
    }

    fn meet(&mut self, block: u32) {
        let at = block as usize;
        if self.met.len() <= at {
            self.met.resize(at + 1, 0);
        }
        self.met[at] += 1;
    }

    /// Damage becomes a finding, other errors stay errors.
    fn described<T>(&mut self, result: Result<T>, check: &'static str) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(Error::Corruption { block, what, .. }) => {
                self.say(block.unwrap_or(0), check, what);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Walks along the list.
    fn list(&mut self) -> Result<()> {
        let first = self.index.pin_linked(FIRST);
        let Some(pin) = self.described(first, "C0")? else { return Ok(()) };
        let (mut seen, mut left) = (Seen { block: FIRST, page: copy(&pin) }, None);
        drop(pin);
        if Bucket::open(&seen.page).is_ok_and(|bucket| !bucket.low().is_empty()) {
            self.say(FIRST, "C4", "the first page of the list has a low fence");
        }
        loop {
            self.meet(seen.block);
            if !self.page(&seen)? {
                return Ok(());
            }
            self.named(&seen, left)?;
            left = Some(seen.block);
            let next = self.next(&seen);
            match self.described(next, "C0")?.flatten() {
                Some(next) => seen = next,
                None => return Ok(()),
            }
        }
    }

    /// The page to the right, compared with this one under both latches.
    fn next(&mut self, seen: &Seen) -> Result<Option<Seen>> {
        let Ok(Some(end)) = Bucket::open(&seen.page).map(|bucket| bucket.high()) else {
            return Ok(None);
        };
        for _ in 0..MAX_LOOKS {
            if let Some(joint) = self.joint(seen.block, end)? {
                if let Err(what) = joint {
                    self.say(seen.block, "C4", what);
                    return Ok(None);
                }
                return Ok(joint.ok());
            }
            // The page was split or squeezed meanwhile: whoever has the position now.
            let pin = self.index.find(end)?;
            let page = copy(&pin);
            if Bucket::open(&page).is_ok_and(|bucket| bucket.place(end) == Place::Here) {
                return Ok(Some(Seen { block: pin.page().block.0, page }));
            }
        }
        Err(self.index.corrupt(seen.block, "the page to the right is not found"))
    }

    /// The right neighbour of the page at `block`, or what is wrong between them; `None` if that
    /// page does not end at `end` any more.
    fn joint(&self, block: u32, end: &[u8]) -> Result<Option<Checked<Seen>>> {
        let left = self.index.pin_linked(block)?;
        let ends = |page: &[u8; PAGE_SIZE]| {
            let bucket = Bucket::open(page).ok().filter(|bucket| bucket.high() == Some(end));
            bucket.map(|bucket| bucket.right)
        };
        let Some(right) = ends(left.shared().bytes()) else { return Ok(None) };
        if right == block {
            return Ok(Some(Err("a page leads to itself")));
        }
        let pin = self.index.pin_linked(right)?;
        let (left_page, right_page) = (left.shared(), pin.shared());
        if ends(left_page.bytes()) != Some(right) {
            return Ok(None);
        }
        let begins = match Bucket::open(right_page.bytes()) {
            Ok(bucket) => bucket.low() == end,
            Err(_) if is_bucket(right_page.bytes()) => true,
            Err(_) => return Ok(Some(Err("a link to a page without entries"))),
        };
        let page = Box::new(*right_page.bytes());
        let begun = begins.then_some(Seen { block: right, page });
        Ok(Some(begun.ok_or("the page to the right begins elsewhere")))
    }

    /// Everything about one page; false if it cannot be read on.
    fn page(&mut self, seen: &Seen) -> Result<bool> {
        let bucket = match Bucket::open(&seen.page) {
            Ok(bucket) => bucket,
            Err(what) => {
                self.say(seen.block, "C6", what);
                return Ok(false);
            }
        };
        if bucket.flags & !(INCOMPLETE | HAS_DEAD) != 0
            || (bucket.flags & INCOMPLETE != 0 && bucket.next_bucket().is_none())
        {
            self.say(seen.block, "C9", format!("flags {:#x} of a page", bucket.flags));
        }
        self.stats.leaves += 1;
        self.used += bucket.used() as u64;
        if let Some(what) = layout(&bucket) {
            self.say(seen.block, "C6", what);
        }
        let entries = match Entry::all(&bucket) {
            Ok(entries) => entries,
            Err(what) => {
                self.say(seen.block, "C6", what);
                return Ok(true);
            }
        };
        self.entries(seen.block, &bucket, &entries);
        self.uniqueness(seen.block, &entries);
        Ok(true)
    }

    fn entries(&mut self, block: u32, bucket: &Bucket<'_>, entries: &[Entry<'_>]) {
        let dead = entries.iter().filter(|entry| entry.dead).count() as u64;
        self.stats.dead += dead;
        self.stats.live += entries.len() as u64 - dead;
        let positions: Vec<Vec<u8>> = entries.iter().map(Entry::position).collect();
        for (at, (entry, position)) in entries.iter().zip(&positions).enumerate() {
            if entry.code != code_of(entry.key) {
                self.say(block, "C5", format!("entry {at} has the code of another key"));
            }
            if at > 0 && positions[at - 1] >= *position {
                self.say(block, "C2", format!("entry {at} does not follow the one before"));
            }
            if bucket.place(position) != Place::Here {
                self.say(block, "C3", format!("entry {at} belongs on another page"));
            }
        }
    }

    /// B13, for neighbours in order.
    fn uniqueness(&mut self, block: u32, entries: &[Entry<'_>]) {
        let Some(oracle) = self.oracle else { return };
        for Entry { key, row, .. } in entries {
            if let Some((last, other)) = &self.last
                && last == key
                && other != row
            {
                let mut states = [Liveness::Dead; 2];
                oracle.liveness(&[*other, *row], &mut states);
                if states == [Liveness::Live; 2] {
                    let what = format!("rows {other} and {row} are both live under one key");
                    self.say(block, "B13", what);
                }
            }
            self.last = Some((key.to_vec(), *row));
        }
    }

    /// C7: does the directory name the page, if a bucket begins on it?
    fn named(&mut self, seen: &Seen, left: Option<u32>) -> Result<()> {
        for _ in 0..MAX_LOOKS {
            let named = self.is_named(seen.block, left);
            if self.described(named, "C7")?.unwrap_or(true) {
                return Ok(());
            }
            rightlink_env::thread::yield_now();
        }
        self.say(seen.block, "C7", "the directory does not name the page where a bucket begins");
        Ok(())
    }

    fn is_named(&self, block: u32, left: Option<u32>) -> Result<bool> {
        let begins = {
            let page = copy(&self.index.pin_linked(block)?);
            Bucket::open(&page).ok().and_then(|bucket| beginning(&bucket))
        };
        let Some(number) = begins.filter(|number| *number < MAX_NUMBERS) else { return Ok(true) };
        if self.index.entry(number)? == block {
            return Ok(true);
        }
        let Some(left) = left else { return Ok(false) };
        let page = copy(&self.index.pin_linked(left)?);
        Ok(Bucket::open(&page).map_or(true, |left| {
            // Not its left neighbour any more: the next look meets others, or the entry.
            left.right == block && left.flags & INCOMPLETE != 0
        }))
    }

    /// C7: does a bucket begin on each page that the directory names?
    fn directory(&mut self, meta: &Meta) -> Result<()> {
        for (at, block) in meta.directory.iter().enumerate().filter(|(_, block)| **block != 0) {
            self.meet(*block);
            self.stats.inner += 1;
            let pin = self.index.pin_linked(*block);
            let Some(pin) = self.described(pin, "C7")? else { continue };
            let page = copy(&pin);
            drop(pin);
            if header::kind(&page) != Some(PageKind::HashDirectory) {
                self.say(*block, "C7", "not a page of the directory");
                continue;
            }
            for number in at as u32 * PER_PAGE..(at as u32 + 1) * PER_PAGE {
                let entry = u32_at(&page, offset_of(number));
                if entry != 0 {
                    self.entry(*block, number)?;
                }
            }
        }
        Ok(())
    }

    fn entry(&mut self, block: u32, number: u32) -> Result<()> {
        for _ in 0..MAX_LOOKS {
            let entry = self.index.entry(number)?;
            if entry == 0 {
                return Ok(());
            }
            let known = self.index.depth.load(rightlink_env::sync::Ordering::Acquire);
            let pin = self.index.pin_linked(entry);
            let Some(pin) = self.described(pin, "C7")? else { return Ok(()) };
            let page = copy(&pin);
            let begins = Bucket::open(&page).ok().and_then(|bucket| beginning(&bucket));
            if begins == Some(number) && bits_of(number) <= known {
                return Ok(());
            }
        }
        let code = start_of(number);
        self.say(block, "C7", format!("no bucket begins at code {code:#010x} where it should"));
        Ok(())
    }

    /// C8, if no page came or went meanwhile.
    fn blocks(&mut self, meta: &Meta, unchanged: &dyn Fn() -> bool) -> Result<()> {
        let (mut free, mut count) = (meta.free, 0);
        self.meet(0);
        while free != 0 && count <= meta.free_count && unchanged() {
            count += 1;
            self.meet(free);
            let pin = self.index.pin_linked(free);
            let Some(pin) = self.described(pin, "C8")? else { return Ok(()) };
            let Some(next) = next_free(&copy(&pin)) else {
                if unchanged() {
                    self.say(free, "C8", "the list of free pages leads to one that is not free");
                }
                return Ok(());
            };
            free = next;
        }
        self.stats.free = u64::from(meta.free_count);
        let met = std::mem::take(&mut self.met);
        if !unchanged() {
            return Ok(());
        }
        if count != meta.free_count {
            self.say(0, "C8", format!("{} free pages, and the list has others", meta.free_count));
        }
        for block in 0..meta.used.max(met.len() as u32) {
            let times = met.get(block as usize).copied().unwrap_or(0);
            let expected = u32::from(block < meta.used);
            if times != expected {
                self.say(block, "C8", format!("a block that is used {times} times"));
                return Ok(());
            }
        }
        Ok(())
    }

    fn finish(mut self, meta: &Meta) -> VerifyStats {
        self.stats.levels = meta.depth + 1;
        let size = self.stats.leaves * PAGE_SIZE as u64;
        let entries = self.stats.live + self.stats.dead;
        self.stats.leaf_fill = if size == 0 { 0.0 } else { self.used as f64 / size as f64 };
        self.stats.bytes_per_entry = if entries == 0 { 0.0 } else { size as f64 / entries as f64 };
        self.stats
    }
}

/// Number of the bucket that begins on a page, if one does.
fn beginning(bucket: &Bucket<'_>) -> Option<u32> {
    let low = bucket.low();
    if low.is_empty() {
        return Some(0);
    }
    let code = <[u8; CODE]>::try_from(low).ok()?;
    Some(number_of(u32::from_be_bytes(code)))
}

/// What is wrong with the places of the items.
fn layout(bucket: &Bucket<'_>) -> Option<&'static str> {
    let spans =
        (0..bucket.count).map(|i| bucket.item(i).map(|Item { start, end, .. }| (start, end)));
    let mut spans = spans.collect::<Checked<Vec<_>>>().ok()?;
    spans.sort_unstable();
    if spans.windows(2).any(|pair| pair[0].1 > pair[1].0) {
        return Some("items overlap");
    }
    let items: usize = spans.iter().map(|(start, end)| end - start).sum();
    if items + bucket.garbage != bucket.special - bucket.upper {
        return Some("the bytes of the items do not add up");
    }
    None
}
