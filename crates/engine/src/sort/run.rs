//! Sorted runs in temporary files.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | length of the block's data, little-endian |
//! | 4 | xxh3 of the data, seeded with the block's offset in the file |
//! | n | data: the next piece of a sequence of (key length u32, payload length u32, key, payload) |
//!
//! Invariants: a run knows in memory how long it is and how long its longest record is, so lengths
//! read back are checked before anything is allocated for them.
//! Does not do: durability, reading ahead (the system does that for a file read in order).

use rightlink_env::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::io_error;
use super::temp::{TempFile, TempFiles};
use crate::error::{Error, Result};

const BLOCK_HEADER: usize = 8;
const RECORD_HEADER: usize = 8;

/// A run that is written.
pub(super) struct Run {
    file: TempFile,
    bytes: u64,
    longest: usize,
}

/// Writes a run block by block.
pub(super) struct RunWriter {
    file: TempFile,
    /// Header and data of the block being filled.
    block: Vec<u8>,
    capacity: usize,
    written: u64,
    longest: usize,
}

/// Reads a run record by record.
pub(super) struct RunReader {
    run: Run,
    block: Vec<u8>,
    /// Next byte inside `block`.
    at: usize,
    /// Offset of the next block in the file.
    next_block: u64,
    capacity: usize,
    record: Vec<u8>,
    key: usize,
}

fn checksum(data: &[u8], offset: u64) -> u32 {
    xxh3_64_with_seed(data, offset) as u32
}

impl RunWriter {
    pub(super) fn create(temp: &Arc<TempFiles>, capacity: usize) -> Result<Self> {
        assert!(capacity > BLOCK_HEADER && u32::try_from(capacity).is_ok(), "block size is sane");
        let block = Vec::with_capacity(capacity);
        let mut writer = Self { file: temp.create()?, block, capacity, written: 0, longest: 0 };
        writer.start_block();
        Ok(writer)
    }

    fn start_block(&mut self) {
        self.block.clear();
        self.block.resize(BLOCK_HEADER, 0);
    }

    pub(super) fn push(&mut self, key: &[u8], payload: &[u8]) -> Result<()> {
        self.longest = self.longest.max(key.len() + payload.len());
        self.put(&(key.len() as u32).to_le_bytes())?;
        self.put(&(payload.len() as u32).to_le_bytes())?;
        self.put(key)?;
        self.put(payload)
    }

    fn put(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            if self.block.len() == self.capacity {
                self.flush()?;
            }
            let (now, later) = bytes.split_at(bytes.len().min(self.capacity - self.block.len()));
            self.block.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let data = &self.block[BLOCK_HEADER..];
        let (len, sum) = (data.len() as u32, checksum(data, self.written));
        self.block[..4].copy_from_slice(&len.to_le_bytes());
        self.block[4..BLOCK_HEADER].copy_from_slice(&sum.to_le_bytes());
        self.file.file.write_all_at(&self.block, self.written).map_err(io_error)?;
        self.written += self.block.len() as u64;
        self.start_block();
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Run> {
        if self.block.len() > BLOCK_HEADER {
            self.flush()?;
        }
        Ok(Run { file: self.file, bytes: self.written, longest: self.longest })
    }
}

impl Run {
    /// Length of the longest record.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Reads from the start; blocks of more than `capacity` bytes are damage.
    pub(super) fn read(self, capacity: usize) -> RunReader {
        assert!(capacity >= RECORD_HEADER, "a reader needs a buffer");
        let (block, record) = (Vec::new(), Vec::new());
        RunReader { run: self, block, at: 0, next_block: 0, capacity, record, key: 0 }
    }

    fn damaged(&self, what: &str) -> Error {
        Error::corrupt_file(self.file.file.name(), what)
    }
}

impl RunReader {
    /// Moves in front of the first record.
    pub(super) fn rewind(&mut self) {
        self.block.clear();
        (self.at, self.next_block) = (0, 0);
    }

    /// Moves to the next record; false at the end.
    pub(super) fn advance(&mut self) -> Result<bool> {
        if self.at == self.block.len() && self.next_block == self.run.bytes {
            return Ok(false);
        }
        let mut header = [0; RECORD_HEADER];
        self.take(&mut header)?;
        let [a, b, c, d, e, f, g, h] = header;
        let key = u32::from_le_bytes([a, b, c, d]) as usize;
        let payload = u32::from_le_bytes([e, f, g, h]) as usize;
        if key.saturating_add(payload) > self.run.longest {
            return Err(self.run.damaged("a record is longer than any that was written"));
        }
        let mut record = std::mem::take(&mut self.record);
        record.resize(key + payload, 0);
        self.take(&mut record)?;
        self.record = record;
        self.key = key;
        Ok(true)
    }

    /// The record that [`RunReader::advance`] moved to.
    pub(super) fn current(&self) -> (&[u8], &[u8]) {
        self.record.split_at(self.key)
    }

    fn take(&mut self, mut out: &mut [u8]) -> Result<()> {
        while !out.is_empty() {
            if self.at == self.block.len() {
                self.load()?;
            }
            let len = out.len().min(self.block.len() - self.at);
            let (now, later) = out.split_at_mut(len);
            now.copy_from_slice(&self.block[self.at..self.at + len]);
            self.at += len;
            out = later;
        }
        Ok(())
    }

    fn load(&mut self) -> Result<()> {
        let left = self.run.bytes - self.next_block;
        if left <= BLOCK_HEADER as u64 {
            return Err(self.run.damaged("the last record is not whole"));
        }
        let mut header = [0; BLOCK_HEADER];
        let file = &self.run.file.file;
        file.read_exact_at(&mut header, self.next_block).map_err(io_error)?;
        let [a, b, c, d, e, f, g, h] = header;
        let len = u32::from_le_bytes([a, b, c, d]) as usize;
        if len == 0 || len as u64 > left - BLOCK_HEADER as u64 || len > self.capacity {
            return Err(self.run.damaged("a block has a wrong length"));
        }
        self.block.resize(len, 0);
        let data = self.next_block + BLOCK_HEADER as u64;
        file.read_exact_at(&mut self.block, data).map_err(io_error)?;
        if checksum(&self.block, self.next_block) != u32::from_le_bytes([e, f, g, h]) {
            return Err(self.run.damaged("a block has a wrong checksum"));
        }
        self.at = 0;
        self.next_block = data + len as u64;
        Ok(())
    }
}
