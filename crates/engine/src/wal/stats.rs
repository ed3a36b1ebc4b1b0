//! Counters of the log, for people and experiments.
//!
//! Does not do: anything else.

use super::record::RecordKind;

const KINDS: usize = RecordKind::ALL.len() + 1;

/// Counters since the log was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalStats {
    /// Records appended, by number of the kind (see [`WalStats::of`]).
    records: [u64; KINDS],
    /// Their encoded bytes.
    bytes: [u64; KINDS],
    /// Frames written.
    flushes: u64,
    /// Syncs of segments.
    pub syncs: u64,
    /// Bytes written to segments, the last sector as often as it was.
    pub written_bytes: u64,
    /// Records in the largest group.
    pub largest_group: u64,
    /// Records in all groups that were written.
    pub grouped_records: u64,
    /// Flushes that found another one under way and waited for it.
    pub followed: u64,
    /// Segments used again.
    pub recycled: u64,
    /// Segments removed.
    pub removed: u64,
    /// Writes of the control file.
    pub control_writes: u64,
}

impl WalStats {
    /// Records and bytes of one kind.
    pub fn of(&self, kind: RecordKind) -> (u64, u64) {
        (self.records[kind as usize], self.bytes[kind as usize])
    }

    /// Records and bytes of all kinds.
    pub fn total(&self) -> (u64, u64) {
        (self.records.iter().sum(), self.bytes.iter().sum())
    }

    /// Frames written.
    pub fn flushes(&self) -> u64 {
        self.flushes
    }

    pub(super) fn count_record(&mut self, kind: RecordKind, len: usize) {
        self.records[kind as usize] += 1;
        self.bytes[kind as usize] += len as u64;
    }

    pub(super) fn count_flush(&mut self, records: u64, bytes: u64, syncs: u64) {
        assert!(records > 0 && syncs > 0, "a flush writes and syncs");
        self.flushes += 1;
        self.syncs += syncs;
        self.written_bytes += bytes;
        self.grouped_records += records;
        self.largest_group = self.largest_group.max(records);
    }
}
