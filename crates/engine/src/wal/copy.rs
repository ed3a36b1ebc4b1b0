//! A copy of the log for a backup, made while the log grows.
//!
//! The copy starts where recovery would start if the power failed when the copy began. The log from
//! there on is held (R17). Whole segments are copied when they are durable, and released at once.
//! So the original keeps, beyond its usual log, the log written between two calls of
//! [`LogCopy::catch_up`] and the rest of one segment.
//!
//! Invariants: copied bytes were durable, so they do not change. Behind the end that
//! [`LogCopy::finish`] gets, the copy holds zeros, which read as the end of a log.
//! Does not do: copy pages; choose the time to catch up.

use rightlink_aio::{AlignedBuf, File, Io, OpenMode};
use rightlink_env::sync::Arc;

use super::control::ControlFile;
use super::{Control, LogHold, Wal, segment};
use crate::error::Error;
use crate::ids::Lsn;

/// Bytes that are copied at once.
const CHUNK: usize = 256 << 10;

/// A copy of a log in the making.
pub struct LogCopy {
    hold: LogHold,
    start: Lsn,
    from: Io,
    to: Io,
    /// First segment that is not copied yet.
    next: u64,
}

impl LogCopy {
    /// Begins at the redo position of the last checkpoint. `to` has a directory for the log.
    pub fn begin(wal: &Arc<Wal>, from: &Io, to: &Io) -> LogCopy {
        let hold = wal.hold();
        let start = hold.from();
        // Segments are recycled in order: those from here on are held.
        let next = wal.needed_for(start.0).max(wal.segments.first()) / wal.segment_bytes;
        LogCopy { hold, start, from: from.clone(), to: to.clone(), next }
    }

    /// Where recovery of the copy starts.
    pub fn start(&self) -> Lsn {
        self.start
    }

    /// Copies the segments that are full and durable. Returns bytes copied; the first error names
    /// the side that failed.
    pub fn catch_up(&mut self) -> std::result::Result<u64, CopyError> {
        let (bytes, durable) = (self.hold.wal.segment_bytes, self.hold.wal.durable().0);
        let mut copied = 0;
        while (self.next + 1) * bytes <= durable {
            self.copy_segment(bytes)?;
            copied += bytes;
            self.next += 1;
            let done = Lsn(self.next * bytes);
            if done > self.hold.from() {
                self.hold.advance(done);
            }
        }
        Ok(copied)
    }

    /// Copies the rest up to `end`, the durable end of some flush, then makes the control
    /// file that `control` says.
    pub fn finish(mut self, control: &Control) -> std::result::Result<(), CopyError> {
        let (bytes, end) = (self.hold.wal.segment_bytes, control.durable.0);
        assert!(control.redo == self.start && end <= self.hold.wal.durable().0, "log of the copy");
        while self.next * bytes < end {
            self.copy_segment((end - self.next * bytes).min(bytes))?;
            self.next += 1;
        }
        self.to.sync_dir(segment::DIR).map_err(CopyError::target)?;
        ControlFile::create(&self.to, control, bytes).map_err(CopyError::Target)?;
        Ok(())
    }

    /// Copies the first `used` bytes of the next segment into one of full size.
    fn copy_segment(&self, used: u64) -> std::result::Result<(), CopyError> {
        let (name, size) = (segment::name(self.next), self.hold.wal.segment_bytes);
        let source = self.from.open_file(&name, OpenMode::ReadOnly).map_err(CopyError::source)?;
        let target = self.to.open_file(&name, OpenMode::CreateNew).map_err(CopyError::target)?;
        copy_bytes(&source, &target, used, size)?;
        target.sync_all().map_err(CopyError::target)
    }
}

/// Copies `used` bytes; the others of `size` become zeros.
fn copy_bytes(
    source: &File,
    target: &File,
    used: u64,
    size: u64,
) -> std::result::Result<(), CopyError> {
    let mut buffer = AlignedBuf::zeroed(CHUNK.min(size as usize));
    let mut at = 0;
    while at < size {
        let len = (buffer.len() as u64).min(size - at) as usize;
        let kept = used.saturating_sub(at).min(len as u64) as usize;
        if kept > 0 {
            source.read_exact_at(&mut buffer[..len], at).map_err(CopyError::source)?;
        }
        buffer[kept..len].fill(0);
        target.write_all_at(&buffer[..len], at).map_err(CopyError::target)?;
        at += len as u64;
    }
    Ok(())
}

/// Which side of a copy failed, and how.
pub enum CopyError {
    /// The database that is copied.
    Source(Error),
    /// The directory that it is copied to.
    Target(Error),
}

impl CopyError {
    fn source(error: rightlink_aio::IoError) -> Self {
        CopyError::Source(Error::Io(error))
    }

    fn target(error: rightlink_aio::IoError) -> Self {
        CopyError::Target(Error::Io(error))
    }
}
