//! What the pool has done, counted.
//!
//! Does not do: time.

use rightlink_env::sync::{AtomicU64, AtomicUsize, Ordering};

/// A counter of events.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(super) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of a pool.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) hits: Counter,
    pub(super) reads: Counter,
    pub(super) read_calls: Counter,
    pub(super) read_errors: Counter,
    pub(super) waits: Counter,
    pub(super) evictions: Counter,
    pub(super) written: Counter,
    pub(super) write_calls: Counter,
    pub(super) groups: Counter,
    pub(super) foreground_groups: Counter,
    pub(super) double_write_bytes: Counter,
    pub(super) redone: Counter,
    pub(super) dirtied: Counter,
    pub(super) dirty: AtomicUsize,
}

/// What a pool has done since it was opened, and how many pages are dirty now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Pins that found their page in memory.
    pub hits: u64,
    /// Pages read.
    pub reads: u64,
    /// Read calls; neighbours share one.
    pub read_calls: u64,
    /// Pages whose read failed or whose bytes were wrong.
    pub read_errors: u64,
    /// Pins that waited for a read.
    pub waits: u64,
    /// Latches that somebody slept for.
    pub latch_waits: u64,
    /// Pages that left memory for another one.
    pub evictions: u64,
    /// Pages written to their files.
    pub written: u64,
    /// Write calls that carried them.
    pub write_calls: u64,
    /// Write-back groups.
    pub groups: u64,
    /// Groups that somebody wrote who only wanted a frame.
    pub foreground_groups: u64,
    /// Bytes that went to the double-write area.
    pub double_write_bytes: u64,
    /// Page changes that redo applied.
    pub redone: u64,
    /// How often a page became dirty, or stayed so because it changed while it was written.
    pub dirtied: u64,
    /// Dirty pages now.
    pub dirty: usize,
}

impl Counters {
    pub(super) fn snapshot(&self) -> PoolStats {
        PoolStats {
            hits: self.hits.get(),
            reads: self.reads.get(),
            read_calls: self.read_calls.get(),
            read_errors: self.read_errors.get(),
            waits: self.waits.get(),
            latch_waits: 0,
            evictions: self.evictions.get(),
            written: self.written.get(),
            write_calls: self.write_calls.get(),
            groups: self.groups.get(),
            foreground_groups: self.foreground_groups.get(),
            double_write_bytes: self.double_write_bytes.get(),
            redone: self.redone.get(),
            dirtied: self.dirtied.get(),
            dirty: self.dirty.load(Ordering::Relaxed),
        }
    }
}
