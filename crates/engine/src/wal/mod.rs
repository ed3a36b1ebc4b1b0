//! The write-ahead log: framing, group flush, control file.
//!
//! SKELETON: signatures that other rooms build on; the owner of `wal/` replaces the bodies.

pub mod record;

pub use record::{PagePart, Record, RecordKind};

use rightlink_aio::Io;
use rightlink_env::Env;

use crate::error::Result;
use crate::ids::{Lsn, Xid};

/// Settings of the log.
#[derive(Clone, Debug)]
pub struct WalOptions {
    /// Bytes of a segment file.
    pub segment_bytes: u64,
    /// Bytes of the ring that records wait in.
    pub buffer_bytes: usize,
    /// Bytes of log after which appends ask for a checkpoint (bounded log).
    pub max_bytes: u64,
}

/// What the control file says, two copies, the newer valid one wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// Random id of this database.
    pub database: u64,
    /// Where recovery starts reading.
    pub redo: Lsn,
    /// First transaction id that was not handed out at the checkpoint.
    pub next_xid: Xid,
    /// First file number that was not handed out at the checkpoint.
    pub next_file: u32,
    /// Every byte of log below was durable when this was written.
    pub durable: Lsn,
    /// Was the database closed cleanly after this checkpoint?
    pub clean: bool,
}

/// The log of an open database. All methods may be called from any thread.
pub struct Wal {}

impl Wal {
    /// Creates an empty log and its control file.
    pub fn create(env: &Env, io: &Io, options: WalOptions, control: &Control) -> Result<Wal> {
        let _ = (env, io, options, control);
        todo!()
    }

    /// Opens the log to append after `end`, which recovery found.
    pub fn open(env: &Env, io: &Io, options: WalOptions, end: Lsn) -> Result<Wal> {
        let _ = (env, io, options, end);
        todo!()
    }

    /// Reads the control file.
    pub fn read_control(io: &Io) -> Result<Control> {
        let _ = io;
        todo!()
    }

    /// Writes the control file durably and frees (recycles) segments below `control.redo`.
    pub fn write_control(&self, control: &Control) -> Result<()> {
        let _ = control;
        todo!()
    }

    /// Appends a record and returns its end: the record is durable once `durable() >= end`. Blocks only
    /// when the buffer is full. Fails only when the instance is poisoned.
    pub fn append(&self, kind: RecordKind, xid: Xid, parts: &[PagePart<'_>]) -> Result<Lsn> {
        let _ = (kind, xid, parts);
        todo!()
    }

    /// Returns when everything below `upto` is durable; concurrent callers share one sync.
    pub fn flush(&self, upto: Lsn) -> Result<()> {
        let _ = upto;
        todo!()
    }

    /// End of the durable log (one relaxed load).
    pub fn durable(&self) -> Lsn {
        todo!()
    }

    /// Where the next record will start (one relaxed load).
    pub fn end(&self) -> Lsn {
        todo!()
    }

    /// A failed sync or write made the log's state unknown: every later append and flush fails.
    pub fn poison(&self, why: &str) {
        let _ = why;
        todo!()
    }
}
