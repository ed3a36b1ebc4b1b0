//! Entries that a scan or a lookup has copied out of the leaves of an index.
//!
//! Invariants: a batch holds the matches of one leaf, in scan order, and what lies between its
//! fences was handed over (R5).
//! Does not do: read leaves.

use std::convert::Infallible;

use crate::ids::{Lsn, PageId, RowId};
use crate::index::search_key::{Direction, KeyRange};

/// One entry of a [`LeafBatch`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchEntry {
    /// The row.
    pub row: RowId,
    key_at: u32,
    key_len: u16,
    payload_len: u16,
}

/// The matches of one leaf, copied out, in scan order.
#[derive(Clone, Debug, Default)]
pub struct LeafBatch {
    /// Where they were.
    pub leaf: PageId,
    /// What the clock closure said before the leaf was read (R3).
    pub sample: u64,
    /// LSN of the leaf when it was read.
    pub lsn: Lsn,
    /// The entries.
    pub entries: Vec<BatchEntry>,
    /// Where the leaf begins and ends in the method's order: a scan that turns round, or comes back
    /// later, goes on beyond (R5).
    fences: KeyRange,
    bytes: Vec<u8>,
}

impl LeafBatch {
    /// Empties the batch for another leaf, keeping its memory.
    pub fn reset(&mut self, leaf: PageId, sample: u64) {
        self.leaf = leaf;
        self.sample = sample;
        self.lsn = Lsn(0);
        self.entries.clear();
        self.bytes.clear();
    }

    /// The part of the order that the batch stands for: what of `range` is between the fences of
    /// the leaf.
    pub fn set_fences(&mut self, range: &KeyRange, low: &[u8], high: Option<&[u8]>) {
        self.fences.low.clear();
        self.fences.low.extend_from_slice(low.max(&range.low));
        let ends = [high, range.high.as_deref()];
        self.fences.high = ends.into_iter().flatten().min().map(<[u8]>::to_vec);
    }

    /// What of `range` lies beyond this leaf in `direction`.
    pub fn beyond(&self, range: &KeyRange, direction: Direction) -> KeyRange {
        match (direction, &self.fences.high) {
            (Direction::Forward, Some(high)) => {
                KeyRange { low: high.max(&range.low).clone(), high: range.high.clone() }
            }
            (Direction::Forward, None) => KeyRange::none(),
            (Direction::Backward, _) => {
                let (end, low) = (range.high.as_ref(), &self.fences.low);
                let high = end.map_or(low, |end| end.min(low)).clone();
                KeyRange { low: range.low.clone(), high: Some(high) }
            }
        }
    }

    /// Appends an entry.
    pub fn push(&mut self, key: &[u8], row: RowId, payload: &[u8]) {
        let pushed: std::result::Result<(), Infallible> = self.push_with(|bytes| {
            bytes.extend_from_slice(key);
            Ok((row, payload))
        });
        pushed.expect("infallible");
    }

    /// Appends an entry whose key `write` appends to what it is given; it returns the row and the
    /// payload.
    #[inline]
    pub fn push_with<'p, E>(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> std::result::Result<(RowId, &'p [u8]), E>,
    ) -> std::result::Result<(), E> {
        let key_at = self.bytes.len();
        let (row, payload) = write(&mut self.bytes)?;
        let key_len = self.bytes.len() - key_at;
        assert!(key_len <= usize::from(u16::MAX) && payload.len() <= usize::from(u16::MAX));
        if !payload.is_empty() {
            self.bytes.extend_from_slice(payload);
        }
        let (key_at, key_len, payload_len) = (key_at as u32, key_len as u16, payload.len() as u16);
        self.entries.push(BatchEntry { row, key_at, key_len, payload_len });
        Ok(())
    }

    /// Appends another row under the key of the last entry, without payload.
    pub fn push_row(&mut self, row: RowId) {
        let last = *self.entries.last().expect("a row follows the first one of its key");
        self.entries.push(BatchEntry { row, payload_len: 0, ..last });
    }

    /// Forgets all but the first `keep` entries, which go up to `end` (where `direction` leads) in
    /// the method's order, and gives the memory of the others back.
    pub fn cut(&mut self, keep: usize, end: Vec<u8>, direction: Direction) {
        assert!(keep > 0 && keep < self.len(), "a part of the batch is kept");
        match direction {
            Direction::Forward => self.fences.high = Some(end),
            Direction::Backward => self.fences.low = end,
        }
        let used = |entry: &BatchEntry| {
            entry.key_at as usize + usize::from(entry.key_len) + usize::from(entry.payload_len)
        };
        self.entries.truncate(keep);
        self.bytes.truncate(self.entries.iter().map(used).max().unwrap_or(0));
        self.shrink_to_fit();
    }

    /// Gives back memory that is not used.
    pub fn shrink_to_fit(&mut self) {
        self.entries.shrink_to_fit();
        self.bytes.shrink_to_fit();
    }

    /// Bytes that the batch takes in memory.
    pub fn memory(&self) -> usize {
        let fences =
            self.fences.low.capacity() + self.fences.high.as_ref().map_or(0, Vec::capacity);
        let entries = self.entries.capacity() * size_of::<BatchEntry>();
        entries + self.bytes.capacity() + fences
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Has the batch no entry?
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Encoded key of entry `i`, without the row id.
    pub fn key(&self, i: usize) -> &[u8] {
        let entry = &self.entries[i];
        &self.bytes[entry.key_at as usize..][..usize::from(entry.key_len)]
    }

    /// Payload of entry `i`.
    pub fn payload(&self, i: usize) -> &[u8] {
        let entry = &self.entries[i];
        let at = entry.key_at as usize + usize::from(entry.key_len);
        &self.bytes[at..][..usize::from(entry.payload_len)]
    }
}

/// Most rows that a single read of one key takes: with the versions that a row leaves behind while
/// it is written all the time and snapshots lag, but not what is better read ahead.
pub const FEW: usize = 128;
/// As many need no memory of their own.
const FEWER: usize = 4;

/// The rows of one key, in the method's order: few.
#[derive(Clone, Debug, Default)]
pub struct Few {
    first: [RowId; FEWER],
    len: usize,
    /// All of them, once they are more than `first` takes.
    all: Vec<RowId>,
}

impl Few {
    /// Adds a row; false if they are no longer few.
    pub fn push(&mut self, row: RowId) -> bool {
        match self.len {
            FEW => return false,
            len if len < FEWER => self.first[len] = row,
            len => {
                if len == FEWER {
                    self.all.extend(self.first);
                }
                self.all.push(row);
            }
        }
        self.len += 1;
        true
    }

    /// The rows.
    pub fn rows(&self) -> &[RowId] {
        if self.len <= FEWER { &self.first[..self.len] } else { &self.all }
    }
}
