//! External sort of (key, payload) records by key bytes; equal keys keep their order of arrival.
//!
//! Records are collected in memory. When the memory is full they are spilled as a sorted run to a
//! file in `tmp/`, and [`Sorter::finish`] merges the runs.
//!
//! Invariants:
//! - Memory stays within the reservation that a [`Sorter`] takes from the budget. A record that
//!   does not fit is refused.
//! - Merges take neighbouring runs only, so equal keys stay in order.
//! - A temporary file is removed when its owner is dropped, after an error too. Opening the
//!   database empties the folder (R18).
//!
//! Does not do: comparators (keys are order-preserving), parallel sorting, removal of duplicates.

mod merge;
mod run;
mod temp;

use rightlink_aio::{IoError, IoErrorKind};
use rightlink_env::sync::Arc;
use rightlink_env::{Budget, Reservation};

pub use merge::Sorted;
pub(crate) use temp::TempFiles;

use crate::error::{Error, Result};
use merge::{Merge, Resident};
use run::{Run, RunWriter};

/// Least memory of a sort: two runs being read and one being written.
pub(crate) const MIN_MEMORY: usize = 64 * 1024;
/// Bytes of one arena chunk, at most.
const CHUNK: usize = 256 * 1024;
/// Longest record, so that lengths fit their fields with room to spare.
const MAX_RECORD: usize = 1 << 24;

/// Collects records; [`Sorter::finish`] returns them in order.
///
/// ```
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// let mut sorter = db.sorter(1 << 20)?;
/// sorter.push(b"pear", b"2")?;
/// sorter.push(b"apple", b"1")?;
/// # Ok(())
/// # }
/// ```
pub struct Sorter {
    temp: Arc<TempFiles>,
    /// Memory the sort may use in all.
    memory: usize,
    reservation: Reservation,
    arena: Arena,
    runs: Vec<Run>,
}

/// Records in memory, each in one piece inside a chunk.
#[derive(Default)]
pub(crate) struct Arena {
    chunks: Vec<Vec<u8>>,
    entries: Vec<RecordEntry>,
}

/// Where a record is. `chunk` and `offset` also tell which of two records came first.
#[derive(Clone, Copy)]
pub(crate) struct RecordEntry {
    /// First key bytes, zero-filled: most comparisons end here.
    head: u64,
    chunk: u32,
    offset: u32,
    key: u32,
    payload: u32,
}

impl Sorter {
    /// A sort that may use up to `memory` bytes of `budget`, at least [`MIN_MEMORY`].
    pub fn new(budget: &Budget, temp: &Arc<TempFiles>, memory: usize) -> Result<Self> {
        let reservation = budget.try_reserve(MIN_MEMORY).ok_or_else(|| {
            Error::OutOfMemory(format!(
                "no {MIN_MEMORY} bytes of the memory budget left for a sort"
            ))
        })?;
        let memory = memory.max(MIN_MEMORY);
        let temp = Arc::clone(temp);
        Ok(Self { temp, memory, reservation, arena: Arena::default(), runs: Vec::new() })
    }

    /// Adds a record.
    ///
    /// # Errors
    /// `Limit` for a record longer than [`Sorter::max_record`], `OutOfMemory`, and `DiskFull` or
    /// `Io` for temporary files.
    pub fn push(&mut self, key: &[u8], payload: &[u8]) -> Result<()> {
        let len = key.len() + payload.len();
        if len > self.max_record() {
            return Err(Error::Limit(format!("record of {len} bytes in a sort")));
        }
        let chunk = self.make_room(len)?;
        self.arena.push(key, payload, chunk);
        Ok(())
    }

    /// Makes room for a record of `len` bytes, and returns the size of a new chunk. If the budget
    /// has no more, the sort uses smaller chunks, then spills a run, then gives up the list of
    /// entries.
    fn make_room(&mut self, len: usize) -> Result<usize> {
        let chunk = self.chunk_bytes();
        if self.may_use(self.arena.bytes_with(len, chunk)) {
            return Ok(chunk);
        }
        let chunk = (self.memory_held() / 8).min(CHUNK);
        if self.may_use(self.arena.bytes_with(len, chunk)) {
            return Ok(chunk);
        }
        self.spill()?;
        if self.may_use(self.arena.bytes_with(len, chunk)) {
            return Ok(chunk);
        }
        self.arena = Arena::default();
        match self.may_use(self.arena.bytes_with(len, chunk)) {
            true => Ok(chunk),
            false => {
                Err(Error::OutOfMemory(format!("no memory for a record of {len} bytes in a sort")))
            }
        }
    }

    /// Sorts the records and returns them in the order of their keys.
    ///
    /// # Errors
    /// `DiskFull`, `Io` or `Corruption` for temporary files.
    pub fn finish(mut self) -> Result<Sorted> {
        if self.runs.is_empty() {
            self.arena.sort();
            let resident = Resident::new(std::mem::take(&mut self.arena));
            return Ok(Sorted::resident(resident, self.reservation));
        }
        self.spill()?;
        self.arena = Arena::default();
        let runs = merge::reduce(&self.temp, std::mem::take(&mut self.runs), self.memory_held())?;
        let block = merge::block_bytes(self.memory_held());
        Ok(Sorted::merged(Merge::new(runs, block)?, self.reservation))
    }

    /// Longest record that [`Sorter::push`] takes: bytes of key and payload.
    pub fn max_record(&self) -> usize {
        MAX_RECORD.min(self.memory / 16)
    }

    /// Number of runs written to temporary files so far.
    pub fn spilled_runs(&self) -> usize {
        self.runs.len()
    }

    fn memory_held(&self) -> usize {
        self.reservation.bytes()
    }

    /// A share of the memory, so that a small sort has small chunks.
    fn chunk_bytes(&self) -> usize {
        (self.memory / 8).min(CHUNK)
    }

    /// Takes more of the budget if `needed` bytes ask for it. The writer of a run takes an eighth.
    fn may_use(&mut self, needed: usize) -> bool {
        let wanted = needed + needed / 7 + 1;
        if wanted <= self.memory_held() {
            return true;
        }
        let goal = (self.memory_held() * 2).clamp(wanted, self.memory.max(wanted));
        wanted <= self.memory && self.reservation.grow(goal - self.memory_held())
    }

    fn spill(&mut self) -> Result<()> {
        if self.arena.entries.is_empty() {
            return Ok(());
        }
        self.arena.sort();
        let mut writer = RunWriter::create(&self.temp, merge::block_bytes(self.memory_held()))?;
        for at in 0..self.arena.entries.len() {
            let (key, payload) = self.arena.record(at);
            writer.push(key, payload)?;
        }
        self.runs.push(writer.finish()?);
        self.arena.clear();
        Ok(())
    }
}

impl Arena {
    /// Bytes in use after one more record of `len` bytes.
    fn bytes_with(&self, len: usize, chunk: usize) -> usize {
        let entries = self.entries.len() + 1;
        let slots = if entries <= self.entries.capacity() {
            self.entries.capacity()
        } else {
            // While the list grows, the old and the new one exist.
            self.entries.capacity() + Self::grown(self.entries.capacity())
        };
        let held: usize = self.chunks.iter().map(Vec::capacity).sum();
        let more = if self.fits(len) { 0 } else { chunk.max(len) };
        slots * size_of::<RecordEntry>() + held + more
    }

    fn grown(capacity: usize) -> usize {
        (capacity + capacity / 2).max(64)
    }

    fn fits(&self, len: usize) -> bool {
        self.chunks.last().is_some_and(|last| last.capacity() - last.len() >= len)
    }

    fn push(&mut self, key: &[u8], payload: &[u8], chunk: usize) {
        let len = key.len() + payload.len();
        if !self.fits(len) {
            self.chunks.push(Vec::with_capacity(chunk.max(len)));
        }
        if self.entries.len() == self.entries.capacity() {
            let capacity = self.entries.capacity();
            self.entries.reserve_exact(Self::grown(capacity) - capacity);
        }
        let at = self.chunks.len() - 1;
        let last = &mut self.chunks[at];
        self.entries.push(RecordEntry {
            head: head_of(key),
            chunk: at as u32,
            offset: last.len() as u32,
            key: key.len() as u32,
            payload: payload.len() as u32,
        });
        last.extend_from_slice(key);
        last.extend_from_slice(payload);
        debug_assert!(last.len() <= last.capacity());
    }

    fn key(&self, entry: &RecordEntry) -> &[u8] {
        let from = entry.offset as usize;
        &self.chunks[entry.chunk as usize][from..from + entry.key as usize]
    }

    fn record(&self, at: usize) -> (&[u8], &[u8]) {
        let entry = &self.entries[at];
        let from = entry.offset as usize;
        let len = (entry.key + entry.payload) as usize;
        self.chunks[entry.chunk as usize][from..from + len].split_at(entry.key as usize)
    }

    fn sort(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.sort_unstable_by(|a, b| {
            let keys = a.head.cmp(&b.head).then_with(|| self.key(a).cmp(self.key(b)));
            keys.then_with(|| (a.chunk, a.offset).cmp(&(b.chunk, b.offset)))
        });
        self.entries = entries;
    }

    /// Forgets the records and keeps the memory of the entries; chunks differ in size and go.
    fn clear(&mut self) {
        self.entries.clear();
        self.chunks.clear();
    }
}

/// A failed call on a temporary file; a full device undoes the statement and nothing else.
fn io_error(error: IoError) -> Error {
    match error.kind {
        IoErrorKind::NoSpace => Error::DiskFull(format!("no room for a sort: {error}")),
        _ => Error::Io(error),
    }
}

/// The first eight key bytes as a number in key order.
fn head_of(key: &[u8]) -> u64 {
    let mut head = [0; 8];
    let len = key.len().min(8);
    head[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(head)
}

#[cfg(test)]
mod tests;
