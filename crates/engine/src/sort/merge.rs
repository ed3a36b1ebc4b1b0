//! Merging of runs, and the records that a finished sort returns.
//!
//! Invariants: of equal keys the one from the earlier run comes first; runs are merged with their
//! neighbours only.
//! Does not do: more than one merge at a time.

use std::cmp::Ordering;

use rightlink_env::Reservation;
use rightlink_env::sync::Arc;

use super::Arena;
use super::run::{Run, RunReader, RunWriter};
use super::temp::TempFiles;
use crate::error::Result;

/// Size of a run's blocks. Small sorts use less.
const BLOCK: usize = 256 * 1024;
const MIN_BLOCK: usize = 4 * 1024;

/// Bytes of a block in a sort that holds `memory`; never less for more, so that older runs stay
/// readable.
pub(super) fn block_bytes(memory: usize) -> usize {
    (memory / 16).clamp(MIN_BLOCK, BLOCK)
}

/// Merges neighbours until one merge can take all that are left.
pub(super) fn reduce(temp: &Arc<TempFiles>, mut runs: Vec<Run>, memory: usize) -> Result<Vec<Run>> {
    let block = block_bytes(memory);
    let longest = runs.iter().map(Run::longest).max().unwrap_or(0);
    // A reader holds a block and a record, the writer of a longer run a block.
    let fan_in = ((memory - block) / (block + longest)).max(2);
    while runs.len() > fan_in {
        let mut merged = Vec::with_capacity(runs.len().div_ceil(fan_in));
        let mut rest = runs.into_iter();
        loop {
            let group: Vec<Run> = rest.by_ref().take(fan_in).collect();
            match group.len() {
                0 => break,
                1 => merged.extend(group),
                _ => merged.push(merge_to_run(temp, group, block)?),
            }
        }
        runs = merged;
    }
    Ok(runs)
}

fn merge_to_run(temp: &Arc<TempFiles>, runs: Vec<Run>, block: usize) -> Result<Run> {
    let mut writer = RunWriter::create(temp, block)?;
    let mut merge = Merge::new(runs, block)?;
    while let Some((key, payload)) = merge.next()? {
        writer.push(key, payload)?;
    }
    writer.finish()
}

/// A k-way merge: a binary heap of readers, the smallest record at the top.
pub(super) struct Merge {
    readers: Vec<RunReader>,
    /// Indices into `readers`.
    heap: Vec<usize>,
    /// Was the top handed out, so that it has to move on first?
    used: bool,
}

impl Merge {
    pub(super) fn new(runs: Vec<Run>, block: usize) -> Result<Self> {
        let readers = runs.into_iter().map(|run| run.read(block)).collect();
        let mut merge = Self { readers, heap: Vec::new(), used: false };
        merge.rewind()?;
        Ok(merge)
    }

    /// Moves in front of the first record.
    fn rewind(&mut self) -> Result<()> {
        self.heap.clear();
        self.used = false;
        for (no, reader) in self.readers.iter_mut().enumerate() {
            reader.rewind();
            if reader.advance()? {
                self.heap.push(no);
            }
        }
        (0..self.heap.len() / 2).rev().for_each(|at| self.sift_down(at));
        Ok(())
    }

    pub(super) fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if std::mem::take(&mut self.used) && !self.heap.is_empty() {
            let top = self.heap[0];
            if !self.readers[top].advance()? {
                self.heap.swap_remove(0);
            }
            self.sift_down(0);
        }
        let Some(top) = self.heap.first() else { return Ok(None) };
        self.used = true;
        Ok(Some(self.readers[*top].current()))
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        let (a, b) = (self.heap[a], self.heap[b]);
        self.readers[a].current().0.cmp(self.readers[b].current().0).then(a.cmp(&b))
    }

    fn sift_down(&mut self, mut at: usize) {
        loop {
            let children = [2 * at + 1, 2 * at + 2].into_iter().filter(|no| *no < self.heap.len());
            let Some(least) = children.min_by(|a, b| self.compare(*a, *b)) else { return };
            if self.compare(at, least).is_le() {
                return;
            }
            self.heap.swap(at, least);
            at = least;
        }
    }
}

/// A sort that never left memory.
pub(super) struct Resident {
    arena: Arena,
    at: usize,
}

impl Resident {
    pub(super) fn new(arena: Arena) -> Self {
        Self { arena, at: 0 }
    }

    fn next(&mut self) -> Option<(&[u8], &[u8])> {
        let at = self.at;
        (at < self.arena.entries.len()).then(|| {
            self.at += 1;
            self.arena.record(at)
        })
    }
}

enum SortedSource {
    Resident(Resident),
    Merge(Merge),
}

/// Records in the order of their keys: made by [`Sorter::finish`](crate::Sorter::finish).
///
/// ```
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// let mut sorter = db.sorter(1 << 20)?;
/// sorter.push(b"pear", b"2")?;
/// sorter.push(b"apple", b"1")?;
/// let mut sorted = sorter.finish()?;
/// assert_eq!(sorted.next()?, Some((&b"apple"[..], &b"1"[..])));
/// assert_eq!(sorted.next()?, Some((&b"pear"[..], &b"2"[..])));
/// assert_eq!(sorted.next()?, None);
/// # Ok(())
/// # }
/// ```
pub struct Sorted {
    source: SortedSource,
    _reservation: Reservation,
}

impl Sorted {
    pub(super) fn resident(resident: Resident, reservation: Reservation) -> Self {
        Self { source: SortedSource::Resident(resident), _reservation: reservation }
    }

    pub(super) fn merged(merge: Merge, reservation: Reservation) -> Self {
        Self { source: SortedSource::Merge(merge), _reservation: reservation }
    }

    /// The next record: key and payload. `None` after the last one.
    ///
    /// # Errors
    /// `Io` or `Corruption` when a temporary file cannot be read.
    #[expect(clippy::should_implement_trait, reason = "the record borrows from the sort")]
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        match &mut self.source {
            SortedSource::Resident(resident) => Ok(resident.next()),
            SortedSource::Merge(merge) => merge.next(),
        }
    }

    /// Moves in front of the first record. After an error of this or of [`Sorted::next`] it has to
    /// be called again before the next record is asked for.
    pub fn rewind(&mut self) -> Result<()> {
        match &mut self.source {
            SortedSource::Resident(resident) => resident.at = 0,
            SortedSource::Merge(merge) => merge.rewind()?,
        }
        Ok(())
    }
}
