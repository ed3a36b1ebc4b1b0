//! Replays the log over the data files.
//!
//! Two passes: the first finds the end of the log (and whether damage hides behind it), so that the
//! log can be opened for writing and its tail be made durable; the second applies every page delta
//! to pages that are older than it. Pages that must leave the pool meanwhile go the ordinary way,
//! through the log's rule and the double-write area, so recovery itself may crash at any point and
//! be run again.
//!
//! Invariants: applying a record twice changes nothing (the page's LSN decides).
//! Does not do: heal torn pages (the double-write area did, before), remove files, decide outcomes
//! of transactions (their status pages are replayed like any other page).

use rightlink_aio::Io;
use rightlink_env::{Env, points};

use crate::buffer::BufferPool;
use crate::error::Result;
use crate::ids::Lsn;
use crate::wal::Reader;

/// Where the log ends, and what lay behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogEnd {
    /// End of the last whole frame.
    pub end: Lsn,
    /// Bytes behind it that were written but never acknowledged.
    pub dropped: u64,
    /// Is anything to be replayed?
    pub records: u64,
}

/// What a replay did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Replayed {
    /// Records read.
    pub records: u64,
    /// Bytes of log read.
    pub bytes: u64,
    /// Page deltas read, applied or not.
    pub deltas: u64,
    /// Nanoseconds it took.
    pub nanos: u64,
    /// Highest file number that a record names.
    pub last_file: u32,
}

impl Replayed {
    /// Bytes of log per second, if the replay was long enough to tell.
    pub fn speed(&self) -> Option<u64> {
        const ENOUGH_BYTES: u64 = 4 << 20;
        let seconds = self.nanos as f64 / 1e9;
        (self.bytes >= ENOUGH_BYTES && self.nanos > 0).then(|| (self.bytes as f64 / seconds) as u64)
    }
}

/// First pass: reads the log from `redo` to its end.
///
/// # Errors
/// `Corruption` when acknowledged log is damaged; nothing is changed then.
pub fn find_end(env: &Env, io: &Io, redo: Lsn) -> Result<LogEnd> {
    let mut reader = Reader::open(env, io, redo)?;
    let mut records = 0;
    while reader.next()?.is_some() {
        records += 1;
    }
    Ok(LogEnd { end: reader.end().max(redo), dropped: reader.dropped(), records })
}

/// Second pass: brings every page up to `end`, which is durable.
pub fn replay(env: &Env, io: &Io, pool: &BufferPool, from: Lsn, end: Lsn) -> Result<Replayed> {
    assert!(from <= end, "redo starts inside the log");
    let started = env.clock.now();
    let mut reader = Reader::open_until(env, io, from, end)?;
    let mut done = Replayed { bytes: end.0 - from.0, ..Replayed::default() };
    while let Some(record) = reader.next()? {
        points::hit("recovery.record");
        done.records += 1;
        for (page, delta) in &record.parts {
            done.deltas += 1;
            done.last_file = done.last_file.max(page.file.0);
            pool.redo(*page, delta, record.end)?;
        }
    }
    done.nanos = env.clock.now().since(started).as_nanos() as u64;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_replay_says_nothing_about_speed() {
        let short = Replayed { bytes: 1000, nanos: 10, ..Replayed::default() };
        assert_eq!(short.speed(), None);
        let long = Replayed { bytes: 8 << 20, nanos: 500_000_000, ..Replayed::default() };
        assert_eq!(long.speed(), Some(16 << 20));
    }
}
