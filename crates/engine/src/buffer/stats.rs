//! Counters of the pool and of read streams.
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
pub(super) struct PoolCounters {
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

/// Counters of a pool since it was opened, and the number of dirty pages.
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
    /// Waits of threads that slept for a latch.
    pub latch_waits: u64,
    /// Pages that left memory for another one.
    pub evictions: u64,
    /// Pages written to their files.
    pub written: u64,
    /// Write calls that carried them.
    pub write_calls: u64,
    /// Write-back groups.
    pub groups: u64,
    /// Groups that were written by a thread that needed a frame.
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

/// Counters of a read stream: see [`Rows::stats`](crate::Rows::stats).
///
/// ```
/// use rightlink::ScanOptions;
/// # use rightlink::{TableSchema, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// # let id = txn.insert("n", &[Value::Int8(1), Value::Int8(10)])?;
/// let mut rows = txn.scan("n", &ScanOptions::all())?;
/// assert_eq!(rows.by_ref().count(), 1);
/// let stats = rows.stats();
/// println!("{} reads, {:.1} at once", stats.reads, stats.queue_depth());
/// assert!(stats.delivered >= 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamStats {
    /// Device reads issued.
    pub reads: u64,
    /// Blocks that were joined to a neighbour's read.
    pub joined: u64,
    /// Blocks read but never delivered.
    pub wasted: u64,
    /// Waits of the consumer for the device.
    pub waits: u64,
    /// Sum of the look-ahead distance over all rows delivered.
    pub distance_sum: u64,
    /// Rows delivered, or entries that may be rows.
    pub delivered: u64,
    /// Sum over all reads of the operations in flight, each read's own included.
    pub depth_sum: u64,
}

impl StreamStats {
    /// Mean look-ahead distance over all deliveries, in blocks.
    pub fn mean_distance(&self) -> f64 {
        self.distance_sum as f64 / self.delivered.max(1) as f64
    }

    /// Mean operations in flight, as each read found it, itself included.
    pub fn queue_depth(&self) -> f64 {
        self.depth_sum as f64 / self.reads.max(1) as f64
    }

    /// Sums of the counters of both.
    #[must_use]
    pub fn plus(&self, other: &StreamStats) -> StreamStats {
        StreamStats {
            reads: self.reads + other.reads,
            joined: self.joined + other.joined,
            wasted: self.wasted + other.wasted,
            waits: self.waits + other.waits,
            distance_sum: self.distance_sum + other.distance_sum,
            delivered: self.delivered + other.delivered,
            depth_sum: self.depth_sum + other.depth_sum,
        }
    }
}

impl PoolCounters {
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
