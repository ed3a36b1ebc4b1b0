//! Fuzzy checkpoints: move the start of redo forward while other threads write.
//!
//! A checkpoint notes the end of the log, and writes back in steps every page that was dirty
//! before. It syncs the files and stores the oldest position that a dirty page still needs. Pages
//! that become dirty meanwhile need only log behind the noted position, so a checkpoint never waits
//! for them.
//!
//! Invariants:
//! - The redo position is not above that of any dirty page (R13).
//! - The control file is written after pages and log are durable, and log is freed after that
//!   (R17).
//! - The redo position never goes back. A failed step leaves the old checkpoint in force.
//!
//! Does not do: choose the time (`Pace` only says how much redo is too much), start threads.
//!
//! After the fuzzy checkpoints of ARIES; the list of dirty pages is not logged.

use std::time::Duration;

use rightlink_aio::DeviceFigures;
use rightlink_env::points;

use crate::buffer::BufferPool;
use crate::error::Result;
use crate::ids::{Lsn, Xid};
use crate::wal::{Control, RedoSpeed};

/// A checkpoint that is running.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    below: Lsn,
    /// Pages that had become dirty when it began.
    dirtied: u64,
    /// Pages that were dirty when it began: no fewer than it has to write.
    dirty: usize,
    written: usize,
}

/// The fields of the control file beside the redo position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ControlFields {
    /// Random id of the database.
    pub database: u64,
    /// First xid not handed out.
    pub next_xid: Xid,
    /// Outcomes of older xids are not kept; the log record that says so is durable (R17).
    pub oldest_xid: Xid,
    /// First file number not handed out.
    pub next_file: u32,
    /// Is this the last one before a clean close?
    pub clean: bool,
    /// Speed of redo, as far as it was ever measured.
    pub redo_speed: RedoSpeed,
    /// Figures of the device, as far as it was ever measured.
    pub device: DeviceFigures,
    /// Stamp of the newest pages of outcomes, of a clean close.
    pub outcomes: u64,
}

impl ControlFields {
    /// The control file of a database with this redo position, whose log is durable to `durable`.
    pub(crate) fn control(self, redo: Lsn, durable: Lsn) -> Control {
        Control {
            database: self.database,
            redo,
            next_xid: self.next_xid,
            oldest_xid: self.oldest_xid,
            next_file: self.next_file,
            durable,
            clean: self.clean,
            redo_speed: self.redo_speed,
            device: self.device,
            outcomes: self.outcomes,
        }
    }
}

impl Checkpoint {
    /// Begins: the changes logged up to now are in the data files when the checkpoint ends.
    pub(crate) fn begin(pool: &BufferPool) -> Self {
        points::hit("checkpoint.begin");
        // In this order: a page that becomes dirty between the two is counted for the next one.
        let stats = pool.stats();
        let below = pool.wal().end();
        Self { below, dirtied: stats.dirtied, dirty: stats.dirty, written: 0 }
    }

    /// The part of its work that is done, from 0 to 1, as a lower bound.
    pub(crate) fn share(&self) -> f64 {
        self.written.min(self.dirty) as f64 / self.dirty.max(1) as f64
    }

    /// Pages that had become dirty, since the database was opened, when this began.
    pub(crate) fn dirtied(&self) -> u64 {
        self.dirtied
    }

    /// Writes one group of pages back. False when none is left and [`Checkpoint::finish`] is next.
    pub(crate) fn step(&mut self, pool: &BufferPool) -> Result<bool> {
        let written = pool.write_back(self.below)?;
        self.written += written;
        Ok(written > 0)
    }

    /// Makes the pages durable, writes the control file, and frees log (R17). Returns the new redo
    /// position. `counters` gets a position up to which the log is durable.
    pub(crate) fn finish(
        self,
        pool: &BufferPool,
        counters: impl FnOnce(Lsn) -> ControlFields,
    ) -> Result<Lsn> {
        // In this order: a page that is clean when the horizon is taken is made durable by the sync
        // (R13, R17).
        let horizon = pool.redo_horizon();
        pool.sync_all()?;
        // A page may bear an older position: its writer read the end of the log before this began,
        // and marked the page after the last step. Its record then lies above `below`, because a
        // thread that reads that end sees the marks of all records below it. The older position may
        // even be below that of the last checkpoint, whose log is freed.
        let redo = horizon.max(self.below);
        points::hit("checkpoint.after-sync");
        let wal = pool.wal();
        wal.flush(redo)?;
        wal.write_control(&counters(redo).control(redo, wal.durable()))?;
        points::hit("checkpoint.after-control");
        Ok(redo)
    }
}

/// The work of redo after a crash now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct RedoWork {
    /// Bytes of log behind the redo position.
    pub bytes: u64,
    /// How often a page became dirty behind the redo position: an upper bound of the pages that
    /// redo reads. Each change there was made in a dirty page, which stayed in a pool of this size
    /// until it was written.
    pub pages: u64,
}

/// How much redo may be due, so that recovery stays short.
///
/// The time of redo is the time for the log plus the time for the pages. Redo also writes the pages
/// that the pool cannot hold. Speeds are those of the last recovery that was long enough to
/// measure, within bounds: that recovery may have found pages in the page cache, which a power cut
/// empties.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    max_bytes: u64,
    frames: u64,
    speed: RedoSpeed,
}

/// Log that is always allowed, so that tiny limits do not checkpoint without pause.
const MIN_DISTANCE: u64 = 1 << 20;
/// Seconds of redo at which a checkpoint begins. The work goes on while it runs.
const BEGIN_SECONDS: f64 = 1.5;
/// Seconds of redo at which writers help with the checkpoint.
const LATE_SECONDS: f64 = 3.0;
/// Seconds of redo at which a checkpoint is to be done: half way from its beginning to that.
const DONE_SECONDS: f64 = (BEGIN_SECONDS + LATE_SECONDS) / 2.0;
/// The time over which its writes are spread where nothing asks for more haste.
const SPREAD: Duration = Duration::from_secs(5);
/// Speed of redo before any was measured on this machine.
const ASSUMED: RedoSpeed = RedoSpeed { bytes_per_s: 64 << 20, pages_per_s: 40_000 };
/// A measured speed counts within this factor of the assumed one.
const TRUSTED: u64 = 2;
const DOUBTED: u64 = 32;
/// Pages that redo writes in a second when they do not stay in the pool.
const SPILLED_PAGES_PER_S: u64 = 20_000;

impl Pace {
    /// At most `max_bytes` of log, for a pool of `frames` pages; `measured` is the speed of the
    /// last recovery, as far as there was one long enough to tell.
    pub(crate) fn new(max_bytes: u64, frames: usize, measured: RedoSpeed) -> Self {
        let believed = |measured: u64, assumed: u64| match measured {
            0 => assumed,
            _ => measured.clamp(assumed / DOUBTED, assumed * TRUSTED),
        };
        let speed = RedoSpeed {
            bytes_per_s: believed(measured.bytes_per_s, ASSUMED.bytes_per_s),
            pages_per_s: believed(measured.pages_per_s, ASSUMED.pages_per_s),
        };
        Self { max_bytes, frames: frames as u64, speed }
    }

    /// Seconds that redo would take.
    pub(crate) fn seconds(&self, work: RedoWork) -> f64 {
        let spilled = work.pages.saturating_sub(self.frames);
        work.bytes as f64 / self.speed.bytes_per_s as f64
            + work.pages as f64 / self.speed.pages_per_s as f64
            + spilled as f64 / SPILLED_PAGES_PER_S as f64
    }

    /// Is it time for a checkpoint? Early enough that the work done while it runs still fits.
    pub(crate) fn is_due(&self, work: RedoWork) -> bool {
        self.is_beyond(work, BEGIN_SECONDS)
    }

    /// Is so much redo due that writers must help with the checkpoint?
    pub(crate) fn is_late(&self, work: RedoWork) -> bool {
        self.is_beyond(work, LATE_SECONDS)
    }

    /// May a checkpoint rest that began `since` ago and has done `share` of its work, from 0 to 1?
    /// Its writes are spread over its time, by the clock and by the redo that is due.
    pub(crate) fn is_ahead(&self, share: f64, since: Duration, work: RedoWork) -> bool {
        let by_clock = since.as_secs_f64() / SPREAD.as_secs_f64();
        let by_bytes = work.bytes as f64 / self.max_bytes.max(1) as f64 * LATE_SECONDS;
        let reached = self.seconds(work).max(by_bytes);
        let by_work = (reached - BEGIN_SECONDS) / (DONE_SECONDS - BEGIN_SECONDS);
        share < 1.0 && share > by_clock.max(by_work)
    }

    fn is_beyond(&self, work: RedoWork, seconds: f64) -> bool {
        let most = (self.max_bytes as f64 * seconds / LATE_SECONDS) as u64;
        work.bytes >= most.max(1) || work.bytes >= MIN_DISTANCE && self.seconds(work) >= seconds
    }

    /// Bytes of log after which a checkpoint begins, if the log goes on as in `work`.
    pub(crate) fn distance(&self, work: RedoWork) -> u64 {
        let seconds = self.seconds(work).max(1e-9);
        let wanted = (work.bytes as f64 * BEGIN_SECONDS / seconds) as u64;
        let assumed = (self.speed.bytes_per_s as f64 * BEGIN_SECONDS) as u64;
        let wanted = if work.bytes < MIN_DISTANCE { assumed } else { wanted.max(MIN_DISTANCE) };
        wanted.min(self.max_bytes / 2).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: u64 = 1 << 30;

    fn bytes(bytes: u64) -> RedoWork {
        RedoWork { bytes, pages: 0 }
    }

    #[test]
    fn log_alone_is_measured_by_its_bytes() {
        let pace = Pace::new(ROOM, 1000, RedoSpeed { bytes_per_s: 100 << 20, pages_per_s: 0 });
        assert!(!pace.is_due(bytes(149 << 20)) && pace.is_due(bytes(151 << 20)));
        assert!(!pace.is_late(bytes(299 << 20)) && pace.is_late(bytes(301 << 20)));
        assert_eq!(pace.distance(bytes(10 << 20)), 150 << 20);
    }

    #[test]
    fn whatever_the_speed_the_log_is_bounded_and_never_tiny() {
        let slow = Pace::new(ROOM, 1000, RedoSpeed { bytes_per_s: 1, pages_per_s: 1 });
        assert!(!slow.is_due(RedoWork { bytes: MIN_DISTANCE - 1, pages: 1 << 40 }));
        assert!(slow.is_due(RedoWork { bytes: MIN_DISTANCE, pages: 1 << 40 }));
        let fast = RedoSpeed { bytes_per_s: 1 << 50, pages_per_s: 1 << 50 };
        assert!(Pace::new(1 << 20, 1000, fast).is_due(bytes(1 << 19)));
        assert!(!Pace::new(1 << 20, 1000, fast).is_late(bytes(1 << 19)));
    }

    /// It has 5 s, or until half of the work is done that is left before writers must help.
    #[test]
    fn a_checkpoint_rests_while_it_is_ahead() {
        let pace = Pace::new(ROOM, 1000, RedoSpeed { bytes_per_s: 100 << 20, pages_per_s: 0 });
        let (begun, seconds) = (bytes(150 << 20), Duration::from_secs);
        assert!(!pace.is_ahead(0.0, seconds(0), begun), "it begins");
        assert!(pace.is_ahead(0.1, seconds(0), begun) && pace.is_ahead(0.5, seconds(2), begun));
        assert!(!pace.is_ahead(0.5, seconds(3), begun), "time goes on");
        assert!(!pace.is_ahead(1.0, seconds(0), begun), "there is nothing to wait for");
        assert!(pace.is_ahead(0.5, seconds(0), bytes(180 << 20)));
        assert!(!pace.is_ahead(0.5, seconds(0), bytes(190 << 20)), "writers go on");
        assert!(!pace.is_ahead(0.9, seconds(0), bytes(225 << 20)), "it should be done");
        let little = Pace::new(200 << 20, 1000, RedoSpeed { bytes_per_s: 1 << 40, ..pace.speed });
        assert!(little.is_ahead(0.5, seconds(0), bytes(120 << 20)));
        assert!(!little.is_ahead(0.5, seconds(0), bytes(130 << 20)), "the log is nearly full");
    }

    /// A load with random keys into a pool of a tenth made 64 MB of log before the first
    /// checkpoint, which named a page in every hundred bytes: opening took 25 seconds.
    #[test]
    fn random_pages_beyond_the_pool_bring_the_checkpoint_forward() {
        let pace = Pace::new(ROOM, 5_000, RedoSpeed::default());
        let random = RedoWork { bytes: 4 << 20, pages: 30_000 };
        assert!(pace.is_due(random), "{}", pace.seconds(random));
        let roomy = Pace::new(ROOM, 1 << 20, RedoSpeed::default());
        assert!(!roomy.is_due(random), "{}", roomy.seconds(random));
    }

    /// Pages that were in the system's cache at the last recovery may not be there at the next.
    #[test]
    fn a_measured_speed_is_believed_within_bounds() {
        let cached = RedoSpeed { bytes_per_s: 1 << 40, pages_per_s: 1 << 40 };
        let work = RedoWork { bytes: 128 << 20, pages: 80_000 };
        assert!(Pace::new(ROOM, 1 << 20, cached).seconds(work) >= 2.0);
    }
}
