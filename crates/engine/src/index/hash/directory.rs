//! The directory: from the number of a bucket to the page that it begins on.
//!
//! FORMAT. Pages of kind `HashDirectory`: from offset 32 a block u32 for each number, 0 where there
//! is no such bucket. Page `i` has the numbers from `i` times [`PER_PAGE`] on; the meta page knows
//! its block.
//!
//! The directory only shortens ways: every page says itself where it begins and ends, and the pages
//! are linked in order, so a bucket that is not named yet is found from its parent, further to the
//! left. That is why a bucket comes about in two steps, each a record of its own: a page is split,
//! and flagged; then the directory names the new page. Who finds the flag finishes (`finish`).
//! Numbers beyond what the directory can name stay without a name.
//!
//! Invariants: what is read here is a guess until the page's fences have been asked (R6); the entry
//! of bucket 0 is never empty.
//! Does not do: walk from page to page (`find`).

use rightlink_env::points::hit;
use rightlink_env::sync::Ordering;

use crate::buffer::{Mtr, Pin};
use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::ids::Xid;
use crate::index::Tries;
use crate::index::hash::Index;
use crate::index::hash::bucket::{Bucket, INCOMPLETE, is_bucket};
use crate::index::hash::code::{bits_of, number_of, parent_of};
use crate::index::hash::meta::{self, FIRST};
use crate::page::header::{self, FLAGS, HEADER_SIZE, KIND, LOWER, u32_at};
use crate::page::{PageKind, PageMut};
use crate::wal::RecordKind;

/// Numbers on a page of the directory.
pub(crate) const PER_PAGE: u32 = ((PAGE_SIZE - HEADER_SIZE) / 4) as u32;
/// Pages of the directory.
pub(crate) const MAX_PAGES: usize = 2032;
/// Numbers that can have an entry: four million buckets. Beyond, ways get longer.
pub(crate) const MAX_NUMBERS: u32 = MAX_PAGES as u32 * PER_PAGE;

/// Offset of the entry of a number on its page.
pub(crate) fn offset_of(number: u32) -> usize {
    HEADER_SIZE + (number % PER_PAGE) as usize * 4
}

/// Image of a page of the directory with these entries.
pub(crate) fn image(entries: &[(u32, u32)]) -> [u8; PAGE_SIZE] {
    let mut image = header::format(PageKind::HashDirectory, 0);
    image[LOWER..LOWER + 2].copy_from_slice(&(PAGE_SIZE as u16).to_le_bytes());
    for (number, block) in entries {
        image[offset_of(*number)..][..4].copy_from_slice(&block.to_le_bytes());
    }
    image
}

/// Stores the entry of a number.
pub(crate) fn store(page: &mut PageMut<'_>, number: u32, block: u32) {
    page.put_u32(offset_of(number), block);
}

/// The buckets that a code may be in, the smallest part first.
pub(crate) struct Numbers(Option<u32>);

impl Iterator for Numbers {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let number = self.0?;
        self.0 = (number != 0).then(|| parent_of(number));
        Some(number)
    }
}

impl Index {
    /// The numbers that a bucket with `code` may have.
    pub(crate) fn numbers(&self, code: u32) -> Numbers {
        let depth = self.depth.load(Ordering::Acquire);
        let mask = u32::MAX.checked_shr(u32::BITS - depth).unwrap_or(0);
        Numbers(Some(number_of(code) & mask))
    }

    /// Block of the page where bucket `number` begins, 0: it has no entry. A guess.
    pub(crate) fn entry(&self, number: u32) -> Result<u32> {
        if number >= MAX_NUMBERS {
            return Ok(0);
        }
        let block = self.directory[(number / PER_PAGE) as usize].load(Ordering::Acquire);
        if block == 0 {
            return Ok(0);
        }
        if let Some(entry) = self.glance(block, number) {
            return Ok(entry);
        }
        let pin = self.pool.pin(self.page(block))?;
        let page = pin.shared();
        if header::kind(page.bytes()) != Some(PageKind::HashDirectory) {
            return Err(self.corrupt(block, "not a page of the directory"));
        }
        Ok(u32_at(page.bytes(), offset_of(number)))
    }

    /// As [`Index::entry`], without pin or latch, if the page is in memory and nobody changes it.
    fn glance(&self, block: u32, number: u32) -> Option<u32> {
        let reading = self.pool.reading();
        let peek = reading.peek(self.page(block))?;
        let view = reading.view(peek);
        let kind = (view.word(0) >> (KIND * 8)) as u8;
        let entry = view.u32(offset_of(number));
        let sound = kind == PageKind::HashDirectory as u8 && reading.unchanged(peek);
        sound.then_some(entry)
    }

    /// The first block that the directory names for `code`.
    pub(crate) fn named(&self, code: u32) -> Result<u32> {
        for number in self.numbers(code) {
            let block = self.entry(number)?;
            if block != 0 {
                return Ok(block);
            }
        }
        Ok(FIRST)
    }

    /// As [`Index::named`], if the directory's pages are in memory.
    pub(crate) fn named_in_memory(&self, code: u32) -> Option<u32> {
        for number in self.numbers(code).filter(|number| *number < MAX_NUMBERS) {
            let page = self.directory[(number / PER_PAGE) as usize].load(Ordering::Acquire);
            let block = if page == 0 { 0 } else { self.glance(page, number)? };
            if block != 0 {
                return Some(block);
            }
        }
        Some(FIRST)
    }

    /// The directory's page for `number`, pinned; made if there is none yet.
    pub(crate) fn directory_page(&self, number: u32) -> Result<Pin> {
        let at = (number / PER_PAGE) as usize;
        let mut tries = Tries::default();
        loop {
            let block = self.directory[at].load(Ordering::Acquire);
            if block != 0 {
                let pin = self.pool.pin(self.page(block))?;
                let kind = header::kind(pin.shared().bytes());
                if kind != Some(PageKind::HashDirectory) {
                    return Err(self.corrupt(block, "not a page of the directory"));
                }
                return Ok(pin);
            }
            self.extend_directory(at)?;
            tries.again(&self.pool, self.page(0), "the directory does not grow")?;
        }
    }

    fn extend_directory(&self, at: usize) -> Result<()> {
        let spare = self.spare()?;
        let mut mtr = Mtr::new(&self.pool);
        let Some(taken) = self.take(&mut mtr, spare)? else {
            drop(mtr);
            rightlink_env::thread::yield_now();
            return Ok(());
        };
        let now = meta::parse(mtr.bytes(taken.meta())).map_err(|what| self.corrupt(0, what))?;
        let mut block = now.directory[at];
        if block == 0 {
            block = taken.block;
            mtr.page(taken.page).replace(&image(&[]));
            meta::store_directory(&mut mtr.page(taken.meta()), at, block);
            taken.note(&mut mtr);
        }
        mtr.commit(RecordKind::IndexMeta, Xid::NONE)?;
        self.directory[at].store(block, Ordering::Release);
        Ok(())
    }

    /// Has the directory name the bucket that begins right of the page at `block`, if that is still
    /// to be done. Hold no latch.
    pub(crate) fn finish(&self, block: u32) -> Result<()> {
        let pin = self.pool.pin(self.page(block))?;
        let Some((code, _)) = self.unfinished(&pin)? else { return Ok(()) };
        let number = number_of(code);
        let directory = self.directory_page(number)?;
        let meta = self.pool.pin(self.page(0))?;
        let mut mtr = Mtr::new(&self.pool);
        let left = mtr.latch(pin);
        let now = wanted(mtr.bytes(left)).map_err(|what| self.corrupt(block, what))?;
        let Some((now, right)) = now.filter(|(now, _)| *now == code) else { return Ok(()) };
        assert!(now == code && number < MAX_NUMBERS, "only such a split is flagged");
        let names = mtr.latch(directory);
        let depth = bits_of(number);
        if depth > self.depth.load(Ordering::Acquire) {
            let meta = mtr.latch(meta);
            let known = meta::parse(mtr.bytes(meta)).map_err(|what| self.corrupt(0, what))?;
            if depth > known.depth {
                meta::store_depth(&mut mtr.page(meta), depth);
            }
        }
        store(&mut mtr.page(names), number, right);
        let flags = header::u16_at(mtr.bytes(left), FLAGS) & !INCOMPLETE;
        mtr.page(left).put_u16(FLAGS, flags);
        mtr.commit(RecordKind::IndexFinishSplit, Xid::NONE)?;
        self.depth.fetch_max(depth, Ordering::AcqRel);
        hit("hash.split.finished");
        Ok(())
    }

    fn unfinished(&self, pin: &Pin) -> Result<Option<(u32, u32)>> {
        let page = pin.shared();
        wanted(page.bytes()).map_err(|what| self.corrupt(pin.page().block.0, what))
    }
}

/// Code and block of the bucket to the right that still wants an entry.
fn wanted(page: &[u8; PAGE_SIZE]) -> crate::index::hash::bucket::Checked<Option<(u32, u32)>> {
    if !is_bucket(page) {
        return Ok(None);
    }
    let bucket = Bucket::open(page)?;
    if bucket.flags & INCOMPLETE == 0 {
        return Ok(None);
    }
    let code = bucket.next_bucket().filter(|code| number_of(*code) < MAX_NUMBERS);
    let code = code.ok_or("a flag for a bucket that does not begin here")?;
    Ok(Some((code, bucket.right)))
}
