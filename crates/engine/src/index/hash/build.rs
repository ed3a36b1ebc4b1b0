//! Bulk build from entries sorted by code, key and row id: pages left to right, then the directory.
//!
//! A page ends where it is full, at the roundest code near by, so that the directory stays small.
//! Pages are written through the pool without log records; then the file is synced, and only then
//! one logged record, the meta page, publishes the index (R18). A crash before leaves a file
//! whose block 0 is empty: it belongs to no catalog entry and is dropped.
//!
//! Invariants: entries arrive in order, each once (asserted); a built index equals an inserted one
//! entry by entry, and verifies. Memory: one page, and eight bytes for each bucket.
//! Does not do: sort; check uniqueness (the caller sees equal neighbours).

use std::collections::BTreeMap;

use rightlink_env::Reservation;
use rightlink_env::sync::Arc;

use crate::buffer::{BufferPool, Mtr};
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::{FileId, PageId, RowId, Xid};
use crate::index::MAX_ENTRY_BYTES;
use crate::index::am::{AccessMethod, IndexBuilder, IndexEntry};
use crate::index::hash::code::{CODE, bits_of, code_of, number_of, roundest};
use crate::index::hash::directory::{self, MAX_NUMBERS, PER_PAGE};
use crate::index::hash::edit::{Entry, Frame};
use crate::index::hash::meta::{self, FIRST, Meta};
use crate::index::hash::{HashIndex, HashOptions};
use crate::page::header::{KIND, LSN};
use crate::wal::RecordKind;

/// Blocks by which the file grows.
const GROW: u32 = 64;
/// Buckets for which memory is asked at a time.
const PORTION: usize = 1024;

/// An entry that waits for its page.
struct Waiting {
    code: u32,
    key: Vec<u8>,
    row: RowId,
    payload: Vec<u8>,
}

/// A build under way.
pub struct Builder {
    pool: Arc<BufferPool>,
    file: FileId,
    options: HashOptions,
    /// Low fence and block of the page that is being filled.
    low: Vec<u8>,
    block: u32,
    waiting: Vec<Waiting>,
    bytes: usize,
    last: Vec<u8>,
    /// Block of each bucket.
    names: Vec<(u32, u32)>,
    memory: Vec<Reservation>,
    next_block: u32,
    blocks: u32,
}

impl Waiting {
    fn entry(&self) -> Entry<'_> {
        let Waiting { code, key, row, payload } = self;
        Entry { code: *code, key, row: *row, payload, dead: false }
    }
}

impl Builder {
    /// A build into `file`, which exists and is empty.
    pub fn new(pool: &Arc<BufferPool>, file: FileId, options: HashOptions) -> Result<Builder> {
        if pool.blocks(file) != 0 {
            return Err(Error::Invalid(format!("file {} of a new index is not empty", file.0)));
        }
        let mut builder = Builder {
            pool: Arc::clone(pool),
            file,
            options,
            low: Vec::new(),
            block: FIRST,
            waiting: Vec::new(),
            bytes: 0,
            last: Vec::new(),
            names: Vec::new(),
            memory: Vec::new(),
            next_block: 0,
            blocks: 0,
        };
        let first = (builder.block()?, builder.block()?);
        assert!(first == (0, FIRST), "the meta page and the first page of entries");
        builder.name(0, FIRST)?;
        Ok(builder)
    }

    /// See [`IndexBuilder::push`].
    pub fn push(&mut self, entry: &IndexEntry<'_>) -> Result<()> {
        if entry.key.len() + entry.payload.len() > MAX_ENTRY_BYTES {
            let what = format!("index entry of more than {MAX_ENTRY_BYTES} bytes");
            return Err(Error::RowTooLarge(what));
        }
        let IndexEntry { key, row, payload, .. } = *entry;
        let (key, payload) = (key.to_vec(), payload.to_vec());
        let entry = Waiting { code: code_of(&key), key, row, payload };
        let position = entry.entry().position();
        assert!(self.last < position, "a build takes entries in ascending order, each once");
        self.last = position;
        self.bytes += entry.entry().size();
        self.waiting.push(entry);
        while self.is_full() {
            self.finish_page()?;
        }
        Ok(())
    }

    /// Is there more than a page should have?
    fn is_full(&self) -> bool {
        let most = self.options.capacity * usize::from(self.options.fill) / 100;
        self.waiting.len() > 1 && self.low.len() + self.bytes + 64 > most
    }

    /// Writes the first of the entries that wait as a page of their own.
    fn finish_page(&mut self) -> Result<()> {
        let right = self.block()?;
        let (at, fence) = self.cut();
        let frame = Frame {
            right,
            low: std::mem::take(&mut self.low),
            high: Some(fence.clone()),
            ..Frame::default()
        };
        let rest = self.waiting.split_off(at);
        let done = std::mem::replace(&mut self.waiting, rest);
        self.bytes = self.waiting.iter().map(|waiting| waiting.entry().size()).sum();
        self.write_page(&frame, &done)?;
        if let Ok(code) = <[u8; CODE]>::try_from(fence.as_slice()) {
            self.name(number_of(u32::from_be_bytes(code)), right)?;
        }
        (self.low, self.block) = (fence, right);
        Ok(())
    }

    /// Where the page ends: at the roundest code of its second half, else at any code, else after
    /// the last row of one code that fits.
    fn cut(&self) -> (usize, Vec<u8>) {
        let all = self.waiting.len();
        let half = all.div_ceil(2);
        let differ = |at: &usize| self.waiting[at - 1].code < self.waiting[*at].code;
        let round = |at: usize| roundest(self.waiting[at - 1].code, self.waiting[at].code);
        let best = |at: &usize| (*at >= half, round(*at).trailing_zeros(), *at);
        if let Some(at) = (1..all).filter(differ).max_by_key(best) {
            return (at, round(at).to_be_bytes().to_vec());
        }
        let position = |at: usize| self.waiting[at].entry().position();
        let fence = |at: usize| {
            let (before, after) = (position(at - 1), position(at));
            let same = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
            after[..=same.max(CODE)].to_vec()
        };
        let mut cuts = (1..all).rev().map(|at| (at, fence(at)));
        let fitting = cuts.find(|(at, fence)| *at == 1 || self.fits(*at, fence));
        fitting.expect("a page with one entry always fits")
    }

    fn fits(&self, at: usize, fence: &[u8]) -> bool {
        let frame = Frame { low: self.low.clone(), high: Some(fence.to_vec()), ..Frame::default() };
        let bytes = self.waiting[..at].iter().map(|waiting| waiting.entry().size()).sum();
        frame.size(at, bytes) <= PAGE_SIZE
    }

    fn write_page(&mut self, frame: &Frame, waiting: &[Waiting]) -> Result<()> {
        let entries: Vec<Entry<'_>> = waiting.iter().map(Waiting::entry).collect();
        let image = frame.image(&entries).ok_or_else(|| {
            Error::corrupt(PageId::new(self.file, self.block), "a page of a build overflows")
        })?;
        self.write(self.block, &image)
    }

    fn name(&mut self, number: u32, block: u32) -> Result<()> {
        if number >= MAX_NUMBERS {
            return Ok(());
        }
        if self.names.len().is_multiple_of(PORTION) {
            let bytes = PORTION * size_of::<(u32, u32)>();
            let memory = self.pool.budget().try_reserve(bytes);
            let what = "a bulk build has no memory left for its directory";
            self.memory.push(memory.ok_or_else(|| Error::OutOfMemory(what.into()))?);
        }
        self.names.push((number, block));
        Ok(())
    }

    /// See [`IndexBuilder::finish`].
    pub fn finish(mut self) -> Result<HashIndex> {
        let frame = Frame { low: std::mem::take(&mut self.low), ..Frame::default() };
        let last = std::mem::take(&mut self.waiting);
        self.write_page(&frame, &last)?;
        let meta = self.directory()?;
        if self.next_block < self.blocks {
            self.pool.truncate(self.file, self.next_block)?;
        }
        self.pool.sync_file(self.file)?;
        self.publish(&meta)?;
        HashIndex::open(&self.pool, self.file, self.options)
    }

    /// Writes the pages of the directory.
    fn directory(&mut self) -> Result<Meta> {
        self.names.sort_unstable();
        let names = std::mem::take(&mut self.names);
        let depth = names.last().map_or(0, |(number, _)| bits_of(*number));
        let mut blocks = BTreeMap::new();
        for page in names.chunk_by(|(a, _), (b, _)| a / PER_PAGE == b / PER_PAGE) {
            let block = self.block()?;
            blocks.insert((page[0].0 / PER_PAGE) as usize, block);
            self.write(block, &directory::image(page))?;
        }
        let pages = blocks.keys().next_back().map_or(0, |last| last + 1);
        let directory = (0..pages).map(|at| blocks.get(&at).copied().unwrap_or(0)).collect();
        Ok(Meta { depth, used: self.next_block, free: 0, free_count: 0, directory })
    }

    fn publish(&self, meta: &Meta) -> Result<()> {
        let pin = self.pool.pin_new(PageId::new(self.file, 0))?;
        let mut mtr = Mtr::new(&self.pool);
        let held = mtr.latch(pin);
        mtr.page(held).replace(&meta::image(meta));
        mtr.commit(RecordKind::IndexMeta, Xid::NONE)?;
        Ok(())
    }

    fn block(&mut self) -> Result<u32> {
        if self.next_block == self.blocks {
            let first = self.pool.extend(self.file, GROW)?.0;
            assert!(first == self.blocks, "nobody else grows the file of a build");
            self.blocks += GROW;
        }
        self.next_block += 1;
        Ok(self.next_block - 1)
    }

    /// Writes a page without a record. It carries the LSN of now: a page without one counts as
    /// never formatted, and its next change would be logged as a whole image.
    fn write(&self, block: u32, image: &[u8; PAGE_SIZE]) -> Result<()> {
        let pin = self.pool.pin_new(PageId::new(self.file, block))?;
        let mut image = *image;
        let now = self.pool.wal().end();
        image[LSN..LSN + 8].copy_from_slice(&now.0.to_le_bytes());
        while !pin.hint(None, |page| page.write_unlogged(KIND, &image[KIND..])) {
            rightlink_env::thread::yield_now();
        }
        Ok(())
    }
}

impl IndexBuilder for Builder {
    fn push(&mut self, entry: &IndexEntry<'_>) -> Result<()> {
        Builder::push(self, entry)
    }

    fn finish(self: Box<Self>) -> Result<Arc<dyn AccessMethod>> {
        Ok(Arc::new(Builder::finish(*self)?))
    }
}
