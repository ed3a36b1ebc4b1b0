//! The log for a reader: blocks by LSN, read in larger pieces, from files in any state.
//!
//! Invariants: a block that a file does not have (whole) is absent, not an error; an error of the
//! device is returned and never taken for the end of the log.
//! Does not do: check bytes beyond the block header.

use std::ops::Range;

use rightlink_aio::{AlignedBuf, Io, IoErrorKind, OpenMode};

use super::block::{BLOCK, BlockHeader, block_of};
use super::segment;
use crate::error::{Error, Result};

/// Bytes that are read at once.
const WINDOW: u64 = 256 << 10;

/// Blocks of the log by LSN.
pub(super) struct LogSource {
    io: Io,
    segment_bytes: u64,
    database: u64,
    window: AlignedBuf,
    /// LSNs of the bytes in the window.
    range: Range<u64>,
}

impl LogSource {
    /// The log of `io`, whose segments have `segment_bytes` bytes.
    pub(super) fn new(io: &Io, segment_bytes: u64, database: u64) -> LogSource {
        assert!(segment_bytes.is_multiple_of(BLOCK), "segments of whole blocks");
        let window = AlignedBuf::zeroed(WINDOW.min(segment_bytes) as usize);
        LogSource { io: io.clone(), segment_bytes, database, window, range: 0..0 }
    }

    /// Id of the database whose blocks are valid here.
    pub(super) fn database(&self) -> u64 {
        self.database
    }

    /// Bytes of a segment.
    pub(super) fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// The segment that `lsn` lies in, and the block inside it.
    pub(super) fn place(&self, lsn: u64) -> (String, u32) {
        let block = lsn % self.segment_bytes / BLOCK;
        (segment::name(lsn / self.segment_bytes), block as u32)
    }

    /// The bytes of the block at `lsn`, if they are there at all.
    pub(super) fn raw(&mut self, lsn: u64) -> Result<Option<&[u8]>> {
        assert!(lsn.is_multiple_of(BLOCK), "a block starts at a multiple of its size");
        if lsn < self.range.start || lsn + BLOCK > self.range.end {
            self.load(lsn)?;
        }
        if lsn + BLOCK > self.range.end {
            return Ok(None);
        }
        let at = (lsn - self.range.start) as usize;
        Ok(Some(&self.window[at..at + BLOCK as usize]))
    }

    /// The block at `lsn` and its header, if it is a block of this log.
    pub(super) fn block(&mut self, lsn: u64) -> Result<Option<(BlockHeader, &[u8])>> {
        let database = self.database;
        let Some(bytes) = self.raw(lsn)? else { return Ok(None) };
        Ok(BlockHeader::decode(bytes, database, lsn).map(|header| (header, bytes)))
    }

    fn load(&mut self, lsn: u64) -> Result<()> {
        assert_eq!(lsn, block_of(lsn), "windows start at blocks");
        self.range = lsn..lsn;
        let name = segment::name(lsn / self.segment_bytes);
        let file = match self.io.open_file(&name, OpenMode::ReadOnly) {
            Err(error) if error.kind == IoErrorKind::NotFound => return Ok(()),
            result => result.map_err(Error::Io)?,
        };
        let offset = lsn % self.segment_bytes;
        let len = (self.window.len() as u64).min(self.segment_bytes - offset) as usize;
        let read = file.read_at(&mut self.window[..len], offset).map_err(Error::Io)? as u64;
        self.range.end = lsn + read - read % BLOCK;
        Ok(())
    }

    /// End of the last segment there is.
    pub(super) fn limit(&self) -> Result<u64> {
        let last = segment::numbers(&self.io)?.last().copied();
        Ok(last.map_or(0, |number| (number + 1) * self.segment_bytes))
    }
}
