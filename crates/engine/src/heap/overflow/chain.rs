//! Writing a value into a new chain, and reading one, from front to back.
//!
//! Invariants: neither holds a latch or a pin between two calls, nor more than two pages of memory.
//! A page is written once its successor is known.
//! Does not do: tell when a value is visible, or keep it from being given back (its row does).

use std::collections::VecDeque;

use crate::buffer::{Mtr, ReadStream, StreamOptions};
use crate::config::MAX_VALUE_BYTES;
use crate::error::{Error, Result};
use crate::heap::overflow::page::{self, CAPACITY, Link};
use crate::heap::overflow::{Overflow, OverflowPointer};
use crate::ids::Xid;
use crate::wal::{Admission, RecordKind};

/// Most blocks that are put aside at a time.
const MAX_RESERVED: usize = 64;
/// Most memory that is allocated because of a value's stated length alone.
const TRUSTED: usize = 1 << 20;

/// A value that is being written into a chain. If it is dropped before its end, the pages written
/// are unreferenced, and the next sweep gives them back.
pub struct OverflowWriter {
    store: Overflow,
    creator: Xid,
    max: u32,
    /// Put aside and not written; the first of them is the page that `buffer` goes to.
    reserved: VecDeque<u32>,
    first: u32,
    /// Pages written.
    written: u32,
    len: u64,
    buffer: Vec<u8>,
}

impl Overflow {
    /// Begins a value that `creator` writes, of about `hint` bytes.
    pub fn write(&self, creator: Xid, hint: usize) -> Result<OverflowWriter> {
        let pages = hint.div_ceil(CAPACITY).clamp(1, MAX_RESERVED);
        let reserved: VecDeque<u32> = self.reserve(pages)?.into();
        Ok(OverflowWriter {
            store: self.clone(),
            creator,
            max: MAX_VALUE_BYTES,
            first: reserved[0],
            reserved,
            written: 0,
            len: 0,
            buffer: Vec::with_capacity(CAPACITY),
        })
    }

    /// Stores a whole value.
    pub fn store(&self, creator: Xid, value: &[u8]) -> Result<OverflowPointer> {
        let mut writer = self.write(creator, value.len())?;
        writer.push(value)?;
        writer.finish()
    }

    /// Begins to read a value.
    pub fn read(&self, value: OverflowPointer) -> OverflowReader {
        let (store, stream) = (self.clone(), None);
        OverflowReader {
            store,
            value,
            next: value.first,
            number: 0,
            page: Vec::new(),
            used: 0,
            stream,
        }
    }

    /// The whole value.
    pub fn load(&self, value: OverflowPointer) -> Result<Vec<u8>> {
        let mut reader = self.read(value);
        let mut out = Vec::with_capacity((value.len as usize).min(TRUSTED));
        while reader.fill()? {
            out.extend_from_slice(reader.rest());
            reader.used = reader.page.len();
        }
        Ok(out)
    }
}

impl OverflowWriter {
    /// As [`Overflow::write`], with another limit (for tests).
    #[cfg(test)]
    pub(super) fn up_to(mut self, max: u32) -> Self {
        self.max = max;
        self
    }

    /// Bytes so far.
    #[cfg(test)]
    pub(super) fn total(&self) -> u64 {
        self.len
    }

    /// Appends to the value.
    ///
    /// # Errors
    /// `Limit` if it would become too long; nothing is appended then.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<()> {
        let (len, max) = (self.len + bytes.len() as u64, u64::from(self.max));
        if len > max {
            return Err(Error::Limit(format!(
                "a value has at most {max} bytes, not {len} or more"
            )));
        }
        self.len = len;
        while !bytes.is_empty() {
            if self.buffer.len() == CAPACITY {
                if self.reserved.len() < 2 {
                    let more = (self.written as usize + 1).clamp(1, MAX_RESERVED);
                    self.reserved.extend(self.store.reserve(more)?);
                }
                self.flush(self.reserved[1])?;
            }
            let part = bytes.len().min(CAPACITY - self.buffer.len());
            let (now, later) = bytes.split_at(part);
            self.buffer.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }

    /// Writes the last page; the value is named by what comes back.
    pub fn finish(mut self) -> Result<OverflowPointer> {
        self.flush(0)?;
        Ok(OverflowPointer { first: self.first, len: self.len as u32, creator: self.creator })
    }

    /// Writes the buffer as a page that leads to `next`, and marks its block, in one record.
    fn flush(&mut self, next: u32) -> Result<()> {
        self.store.pool().wal().admit(Admission::Step)?;
        let block = self.reserved[0];
        let link = Link { first: self.first, next, number: self.written, creator: self.creator };
        let image = page::image(link, &self.buffer);
        let store = &self.store;
        let map = store.pool().pin(store.id(page::map_of(block)))?;
        let pin = store.pool().pin_new(store.id(block))?;
        let mut mtr = Mtr::new(store.pool());
        let (held, held_map) = (mtr.latch(pin), mtr.latch(map));
        page::states(mtr.id(held_map), mtr.bytes(held_map))?;
        mtr.page(held).replace(&image);
        let state = if self.written == 0 { page::HEAD } else { page::USED };
        mtr.page(held_map).write(page::place_of(block), &[state]);
        mtr.commit(RecordKind::Overflow, self.creator)?;
        rightlink_env::points::hit("heap.overflow.page-written");
        self.reserved.pop_front();
        self.store.release([block], true);
        self.written += 1;
        self.buffer.clear();
        Ok(())
    }
}

impl Drop for OverflowWriter {
    fn drop(&mut self) {
        self.store.release(self.reserved.drain(..), false);
    }
}

/// A value on its way out. Its row must be kept from leaving meanwhile, by a snapshot that sees it.
pub struct OverflowReader {
    store: Overflow,
    value: OverflowPointer,
    /// Block of the next page; 0: there is none.
    next: u32,
    /// Its number.
    number: u32,
    page: Vec<u8>,
    /// Bytes of `page` that were handed over.
    used: usize,
    /// Pages from some block on, as if the rest of the chain lay in one piece.
    stream: Option<ReadStream<'static, u32>>,
}

impl OverflowReader {
    /// The value's length.
    pub fn total(&self) -> u32 {
        self.value.len
    }

    /// Bytes that were read and not handed over yet; after [`OverflowReader::fill`] some, unless
    /// the value has ended.
    pub fn rest(&self) -> &[u8] {
        &self.page[self.used..]
    }

    /// So many of [`OverflowReader::rest`] were used.
    pub fn consume(&mut self, bytes: usize) {
        assert!(bytes <= self.rest().len(), "bytes that are there");
        self.used += bytes;
    }

    /// Reads a page if all bytes were handed over; false at the end of the value.
    pub fn fill(&mut self) -> Result<bool> {
        if self.used < self.page.len() {
            return Ok(true);
        }
        if self.next == 0 {
            return Ok(false);
        }
        let id = self.store.id(self.next);
        if self.next >= self.store.blocks() || page::is_map(self.next) {
            return Err(Error::corrupt(id, "a value leads to a block that no value can have"));
        }
        let pin = self.pin()?;
        let latch = pin.shared();
        let (bytes, next) = page::data_of(id, latch.bytes(), self.value, self.number)?;
        self.page.clear();
        self.page.extend_from_slice(bytes);
        drop(latch);
        (self.used, self.next, self.number) = (0, next, self.number + 1);
        Ok(!self.page.is_empty())
    }

    /// The next page, by a stream as long as the chain goes on from block to block.
    fn pin(&mut self) -> Result<crate::buffer::Pin> {
        let left = page::pages_of(self.value.len).saturating_sub(self.number);
        if left <= 1 {
            return self.store.pool().pin(self.store.id(self.next));
        }
        if let Some(stream) = &mut self.stream
            && let Some((pin, block)) = stream.next_tried()?
            && block == self.next
        {
            return pin;
        }
        let (store, mut at) = (self.store.clone(), self.next);
        let end = at.saturating_add(left).min(self.store.blocks());
        let source = move || {
            at += u32::from(page::is_map(at));
            let block = (at < end).then_some((store.id(at), at));
            at += 1;
            Ok(block)
        };
        let pool = &self.store.shared.pool;
        let stream = self.stream.insert(ReadStream::shared(pool, StreamOptions::ORDERED, source));
        let first = stream.next_tried()?;
        first.expect("the chain's next page is inside the file").0
    }
}

/// The link of a page that is there.
pub(super) fn link_at(store: &Overflow, block: u32) -> Result<Option<Link>> {
    if block >= store.blocks() || page::is_map(block) {
        return Ok(None);
    }
    let pin = store.pool().pin(store.id(block))?;
    let latch = pin.shared();
    Ok(page::link(latch.bytes()))
}
