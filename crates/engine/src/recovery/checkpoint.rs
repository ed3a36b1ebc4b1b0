//! Fuzzy checkpoints: move the start of redo forward while everybody works on.
//!
//! A checkpoint remembers the end of the log, writes back every page first dirtied before that in
//! steps, syncs the files, and then stores the oldest position that a dirty page still needs. Pages
//! dirtied meanwhile need only log after the remembered position, so it never waits for them.
//!
//! Invariants: the control file is written after the pages it stands for are durable; the redo
//! position never goes back; a failed step leaves the old checkpoint in force and loses nothing.
//! Does not do: deciding when (`Pace` only says how much log is too much), threads.

use rightlink_env::points;

use crate::buffer::BufferPool;
use crate::error::Result;
use crate::ids::{Lsn, Xid};
use crate::wal::Control;

/// A checkpoint on its way.
#[derive(Debug)]
pub struct Checkpoint {
    below: Lsn,
    written: usize,
}

/// What the control file needs beyond the redo position.
#[derive(Clone, Copy, Debug)]
pub struct Counters {
    /// Random id of the database.
    pub database: u64,
    /// First xid not handed out.
    pub next_xid: Xid,
    /// First file number not handed out.
    pub next_file: u32,
    /// Is this the last one before a clean close?
    pub clean: bool,
}

impl Checkpoint {
    /// Begins: everything logged up to now is to be in the data files when it ends.
    pub fn begin(pool: &BufferPool) -> Self {
        points::hit("checkpoint.begin");
        Self { below: pool.wal().end(), written: 0 }
    }

    /// Writes one group of pages back; false when none is left, and [`Checkpoint::finish`] is due.
    pub fn step(&mut self, pool: &BufferPool) -> Result<bool> {
        let written = pool.write_back(self.below)?;
        self.written += written;
        Ok(written > 0)
    }

    /// Makes the pages durable and moves the redo position. Returns it.
    pub fn finish(self, pool: &BufferPool, counters: impl FnOnce() -> Counters) -> Result<Lsn> {
        // In this order: what is clean when the horizon is taken is made durable by the sync.
        let redo = pool.redo_horizon();
        assert!(redo >= self.below, "every page dirtied before the checkpoint was written back");
        pool.sync_all()?;
        points::hit("checkpoint.after-sync");
        let wal = pool.wal();
        wal.flush(redo)?;
        let Counters { database, next_xid, next_file, clean } = counters();
        let durable = wal.durable();
        wal.write_control(&Control { database, redo, next_xid, next_file, durable, clean })?;
        points::hit("checkpoint.after-control");
        Ok(redo)
    }
}

/// How much log may lie between the redo position and the end, so that recovery stays short.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    max_bytes: u64,
    redo_bytes_per_s: u64,
}

/// Log that is always allowed, so that tiny limits do not checkpoint without pause.
const MIN_DISTANCE: u64 = 8 << 20;
/// Seconds of redo aimed at after a crash.
const REDO_SECONDS: u64 = 2;
/// Redo speed assumed before any was measured on this machine.
const ASSUMED_REDO_BYTES_PER_S: u64 = 64 << 20;

impl Pace {
    /// At most `max_bytes` of log; `measured` is the redo speed of the last recovery, if there was
    /// one long enough to tell.
    pub fn new(max_bytes: u64, measured: Option<u64>) -> Self {
        Self { max_bytes, redo_bytes_per_s: measured.unwrap_or(ASSUMED_REDO_BYTES_PER_S).max(1) }
    }

    /// Bytes of log after which a checkpoint begins. It is begun early enough that the log written
    /// while it runs still fits: at half of what redo could read in its time.
    pub fn distance(&self) -> u64 {
        let wanted = self.redo_bytes_per_s.saturating_mul(REDO_SECONDS) / 2;
        wanted.clamp(MIN_DISTANCE.min(self.max_bytes / 2).max(1), (self.max_bytes / 2).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_follows_the_redo_speed_inside_its_limits() {
        assert_eq!(Pace::new(1 << 30, Some(100 << 20)).distance(), 100 << 20);
        assert_eq!(Pace::new(1 << 30, Some(1)).distance(), MIN_DISTANCE);
        assert_eq!(Pace::new(64 << 20, Some(1 << 40)).distance(), 32 << 20);
        assert_eq!(Pace::new(1 << 20, None).distance(), 1 << 19);
    }
}
