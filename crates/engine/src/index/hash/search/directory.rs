//! The directory, read: from a hash code to the page where its bucket begins.
//!
//! The directory only shortens the way. Each page has its fences, and all pages are linked in
//! order, so a bucket without an entry is found from its parent, which is further left.
//!
//! Invariants: an entry is a guess until the page's fences were checked (R6). The first page of the
//! list is block [`FIRST`], whatever the directory says.
//! Does not do: follow links (`search`); add entries (`insert/directory`).

use crate::buffer::Pin;
use crate::error::Result;
use crate::ids::PageId;
use crate::index::hash::page::{
    FIRST, MAX_BUCKETS, bucket_number, directory::block_of, directory::offset_of, parent_bucket,
    split_code,
};
use crate::index::hash::state::Index;
use crate::page::PageKind;
use crate::page::header::{self, KIND};

/// An entry of the directory, by the code at which the bucket begins.
#[derive(Clone, Copy)]
pub(crate) struct BucketStart {
    /// The code.
    pub(crate) code: u32,
    /// Block of the first page.
    pub(crate) block: u32,
}

impl Index {
    /// The buckets that a code may be in, the smallest part of the list first.
    pub(crate) fn buckets_of(&self, code: u32) -> impl Iterator<Item = u32> + use<> {
        let mask = u32::MAX.checked_shr(u32::BITS - self.depth()).unwrap_or(0);
        let smallest = Some(bucket_number(code) & mask);
        std::iter::successors(smallest, |bucket| (*bucket != 0).then(|| parent_bucket(*bucket)))
    }

    /// Block of the page where a bucket begins, 0: it has no entry.
    pub(crate) fn directory_entry(&self, bucket: u32) -> Result<u32> {
        if bucket >= MAX_BUCKETS {
            return Ok(0);
        }
        let block = self.directory_block(bucket);
        if block == 0 {
            return Ok(0);
        }
        if let Some(entry) = self.read_entry_unlatched(block, bucket) {
            return Ok(entry);
        }
        let pin = self.pin_directory(block)?;
        Ok(block_of(pin.shared().bytes(), bucket))
    }

    /// Pins the directory's page at `block`.
    pub(crate) fn pin_directory(&self, block: u32) -> Result<Pin> {
        let pin = self.pool.pin(self.page(block))?;
        if header::kind(pin.shared().bytes()) != Some(PageKind::HashDirectory) {
            return Err(self.corrupt(block, "not a page of the directory"));
        }
        Ok(pin)
    }

    /// The entry, if the directory's page at `block` is in memory and no thread changes it (R11).
    fn read_entry_unlatched(&self, block: u32, bucket: u32) -> Option<u32> {
        let reading = self.pool.reading();
        let peek = reading.peek(self.page(block))?;
        let view = reading.view(peek);
        let kind = (view.word(0) >> (KIND * 8)) as u8;
        let entry = view.u32(offset_of(bucket));
        let valid = kind == PageKind::HashDirectory as u8 && reading.unchanged(peek);
        valid.then_some(entry)
    }

    /// Block of the page that the directory names for `code`.
    pub(crate) fn first_page(&self, code: u32) -> Result<u32> {
        let entries = self.buckets_of(code).map(|bucket| self.directory_entry(bucket));
        let mut named = entries.filter(|entry| !matches!(entry, Ok(0)));
        named.next().unwrap_or(Ok(FIRST))
    }

    /// As [`Index::first_page`], if the directory's pages are in memory.
    pub(super) fn first_page_in_memory(&self, code: u32) -> Option<u32> {
        let buckets = self.buckets_of(code).filter(|bucket| *bucket < MAX_BUCKETS);
        let entries = buckets.map(|bucket| match self.directory_block(bucket) {
            0 => Some(0),
            page => self.read_entry_unlatched(page, bucket),
        });
        let mut named = entries.filter(|entry| *entry != Some(0));
        named.next().unwrap_or(Some(FIRST))
    }

    /// All entries of the directory, in the order of codes.
    pub(crate) fn bucket_starts(&self) -> impl FnMut() -> Result<Option<BucketStart>> {
        let step = 1u64 << (u32::BITS - self.depth());
        let mut next = Some(0u32);
        move || {
            while let Some(code) = next {
                next = u32::try_from(u64::from(code) + step).ok();
                let block = self.directory_entry(bucket_number(code))?;
                if block != 0 {
                    return Ok(Some(BucketStart { code, block }));
                }
            }
            Ok(None)
        }
    }

    /// Starts to read the pages that the directory names for `positions`, unless they are in
    /// memory. Returns the number of reads.
    pub(crate) fn read_ahead(&self, positions: &[&[u8]]) -> u64 {
        let page = |position: &&[u8]| {
            let block = self.first_page(split_code(position).0).ok()?;
            Some(self.page(block))
        };
        let mut pages: Vec<PageId> = positions.iter().filter_map(page).collect();
        self.pool.read_ahead(&mut pages).reads
    }
}
