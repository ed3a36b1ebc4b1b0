//! Bulk build of a hash index from entries sorted by position.
//!
//! Pages are filled from left to right, and a page ends at the code near its end that begins the
//! smallest bucket. Then the directory is written, and the meta page publishes the index.
//!
//! Invariants: entries arrive in ascending order, each once (asserted). A built index holds the
//! same entries as an inserted one, and verifies. Memory: one page, and eight bytes a bucket.
//! Does not do: sort; check uniqueness (the caller compares neighbours).
//! PostgreSQL: `hashsort.c`.

use std::collections::BTreeMap;

use rightlink_env::Reservation;
use rightlink_env::sync::Arc;

use crate::buffer::BufferPool;
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::{FileId, PageId, RowId};
use crate::index::am::{AccessMethod, IndexBuilder, IndexEntry, check_entry_sizes};
use crate::index::build_file::BuildFile;
use crate::index::hash::page::{
    BUCKETS_PER_PAGE, BucketEntry, BucketHeader, DirectoryEntry, FIRST, MAX_BUCKETS, Meta,
    bit_count, bucket_code, bucket_number, directory, hash_code, meta, separator_code,
    separator_position,
};
use crate::index::hash::state::{HashIndex, HashOptions};

/// Buckets for which memory is reserved at a time.
const PORTION: usize = 1024;

/// An entry that is in no page yet.
struct PendingEntry {
    code: u32,
    key: Vec<u8>,
    row: RowId,
    payload: Vec<u8>,
}

/// A build under way.
pub struct Builder {
    build: BuildFile,
    options: HashOptions,
    /// Low fence and block of the page that is being filled.
    low: Vec<u8>,
    block: u32,
    pending: Vec<PendingEntry>,
    /// Bytes of the pending entries.
    bytes: usize,
    last: Vec<u8>,
    buckets: Vec<DirectoryEntry>,
    memory: Vec<Reservation>,
}

impl PendingEntry {
    fn entry(&self) -> BucketEntry<'_> {
        let PendingEntry { code, key, row, payload } = self;
        BucketEntry { code: *code, key, row: *row, payload, dead: false }
    }
}

impl Builder {
    /// A build into `file`, which exists and is empty.
    pub fn new(pool: &Arc<BufferPool>, file: FileId, options: HashOptions) -> Result<Builder> {
        let mut builder = Builder {
            build: BuildFile::new(pool, file)?,
            options,
            low: Vec::new(),
            block: FIRST,
            pending: Vec::new(),
            bytes: 0,
            last: Vec::new(),
            buckets: Vec::new(),
            memory: Vec::new(),
        };
        let first = builder.build.allocate()?;
        assert!(first == FIRST, "the first page of entries follows the meta page");
        builder.add_bucket(0, FIRST)?;
        Ok(builder)
    }

    /// Is there more than a page should have?
    fn is_full(&self) -> bool {
        let most = self.options.capacity * usize::from(self.options.fill) / 100;
        self.pending.len() > 1 && self.low.len() + self.bytes + 64 > most
    }

    /// Writes the first of the pending entries as a page of their own.
    fn finish_page(&mut self) -> Result<()> {
        let right = self.build.allocate()?;
        let at = self.page_end();
        let fence = self.fence(at);
        let header = BucketHeader {
            right,
            low: std::mem::take(&mut self.low),
            high: Some(fence.clone()),
            ..BucketHeader::default()
        };
        let rest = self.pending.split_off(at);
        let done = std::mem::replace(&mut self.pending, rest);
        self.bytes = self.pending.iter().map(|pending| pending.entry().size()).sum();
        self.write_page(&header, &done)?;
        if let Some(code) = bucket_code(&fence) {
            self.add_bucket(bucket_number(code), right)?;
        }
        (self.low, self.block) = (fence, right);
        Ok(())
    }

    /// The shortest position between the pending entries on both sides of `at`.
    fn fence(&self, at: usize) -> Vec<u8> {
        let position = |at: usize| self.pending[at].entry().position();
        separator_position(&position(at - 1), &position(at))
    }

    /// How many entries go on the page: up to the code of its second half that begins the smallest
    /// bucket, else up to any code, else as many rows of one code as fit.
    fn page_end(&self) -> usize {
        let all = self.pending.len();
        let half = all.div_ceil(2);
        let codes = |at: usize| (self.pending[at - 1].code, self.pending[at].code);
        let best = |at: &usize| {
            let (before, after) = codes(*at);
            (*at >= half, separator_code(before, after).trailing_zeros(), *at)
        };
        let differ = |at: &usize| codes(*at).0 < codes(*at).1;
        if let Some(at) = (1..all).filter(differ).max_by_key(best) {
            return at;
        }
        let fits = |at: &usize| *at == 1 || self.fits(*at, &self.fence(*at));
        (1..all).rev().find(fits).expect("a page with one entry always fits")
    }

    fn fits(&self, at: usize, fence: &[u8]) -> bool {
        let (low, high) = (self.low.clone(), Some(fence.to_vec()));
        let header = BucketHeader { low, high, ..BucketHeader::default() };
        let bytes = self.pending[..at].iter().map(|pending| pending.entry().size()).sum();
        header.size(at, bytes) <= PAGE_SIZE
    }

    fn write_page(&mut self, header: &BucketHeader, pending: &[PendingEntry]) -> Result<()> {
        let entries: Vec<BucketEntry<'_>> = pending.iter().map(PendingEntry::entry).collect();
        let image = header.image(&entries).ok_or_else(|| {
            Error::corrupt(PageId::new(self.build.file, self.block), "a page of a build overflows")
        })?;
        self.build.write(self.block, &image)
    }

    fn add_bucket(&mut self, bucket: u32, block: u32) -> Result<()> {
        if bucket >= MAX_BUCKETS {
            return Ok(());
        }
        if self.buckets.len().is_multiple_of(PORTION) {
            let bytes = PORTION * size_of::<DirectoryEntry>();
            let memory = self.build.pool.budget().try_reserve(bytes);
            let what = "a bulk build has no memory left for its directory";
            self.memory.push(memory.ok_or_else(|| Error::OutOfMemory(what.into()))?);
        }
        self.buckets.push(DirectoryEntry { bucket, block });
        Ok(())
    }

    /// Writes the pages of the directory.
    fn write_directory(&mut self) -> Result<Meta> {
        self.buckets.sort_unstable();
        let buckets = std::mem::take(&mut self.buckets);
        let depth = buckets.last().map_or(0, |last| bit_count(last.bucket));
        let page_of = |entry: &DirectoryEntry| entry.bucket / BUCKETS_PER_PAGE;
        let mut blocks = BTreeMap::new();
        for page in buckets.chunk_by(|a, b| page_of(a) == page_of(b)) {
            let block = self.build.allocate()?;
            blocks.insert(page_of(&page[0]) as usize, block);
            self.build.write(block, &directory::image(page))?;
        }
        let pages = blocks.keys().next_back().map_or(0, |last| last + 1);
        let directory = (0..pages).map(|at| blocks.get(&at).copied().unwrap_or(0)).collect();
        Ok(Meta { depth, used: self.build.next_block, free: 0, free_count: 0, directory })
    }
}

impl IndexBuilder for Builder {
    fn push(&mut self, entry: &IndexEntry<'_>) -> Result<()> {
        check_entry_sizes(std::slice::from_ref(entry))?;
        let IndexEntry { key, row, payload, .. } = *entry;
        let (key, payload) = (key.to_vec(), payload.to_vec());
        let entry = PendingEntry { code: hash_code(&key), key, row, payload };
        let position = entry.entry().position();
        assert!(self.last < position, "a build takes entries in ascending order, each once");
        self.last = position;
        self.bytes += entry.entry().size();
        self.pending.push(entry);
        while self.is_full() {
            self.finish_page()?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Arc<dyn AccessMethod>> {
        let low = std::mem::take(&mut self.low);
        let last = std::mem::take(&mut self.pending);
        self.write_page(&BucketHeader { low, ..BucketHeader::default() }, &last)?;
        let meta = self.write_directory()?;
        self.build.publish(&meta::image(&meta))?;
        let index = HashIndex::open(&self.build.pool, self.build.file, self.options)?;
        Ok(Arc::new(index))
    }
}
