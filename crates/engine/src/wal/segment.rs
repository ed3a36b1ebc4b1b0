//! Segment files of the log, `wal/XXXXXXXX`: the stream cut into files of equal size.
//!
//! A segment is filled with zeros, synced and renamed into place, and its directory is synced,
//! before a byte of the log goes into it (R18). So a full disk shows here and not in the middle of
//! a commit. Old segments are renamed to the end of the log and used again. A segment is opened
//! before bytes for it are accepted, so no flush opens a file and fails for lack of descriptors.
//!
//! Invariants:
//! - The segments from the one being written to `next - 1` exist at full size. Those up to
//!   `open - 1` are open, and `ready` is the end of the last open one.
//! - Bytes of an earlier use never pass as a frame, because they have another LSN (R16).
//! - A segment is freed only after the control file no longer needs it (R17).
//! - Two or three segments are open. More are open only if a frame is longer than a segment.
//!
//! Does not do: decide which segments are still needed (`Wal`).

use rightlink_env::Broken;
use std::collections::BTreeMap;

use rightlink_aio::{AlignedBuf, File, Io, IoError, IoErrorKind, OpenMode};
use rightlink_env::points::{broken, hit};
use rightlink_env::sync::{AtomicU64, Mutex, MutexGuard, Ordering};

use super::block::{BLOCK, BlockHeader, SECTOR};
use crate::error::{Error, Result};

/// Directory of the segments.
pub(super) const DIR: &str = "wal";
/// A segment in the making.
const UNFINISHED: &str = "wal/new";
/// Segments kept beyond those that a log of its usual length fills.
const AHEAD: u64 = 3;
const ZERO_CHUNK: usize = 256 << 10;

/// Name of segment `number`.
pub(super) fn name(number: u64) -> String {
    format!("{DIR}/{number:08X}")
}

/// The number in a segment's name, if it is one.
fn number(file: &str) -> Option<u64> {
    let number = u64::from_str_radix(file, 16).ok()?;
    (name(number) == format!("{DIR}/{file}")).then_some(number)
}

/// Numbers of all segments there are, ascending.
pub(super) fn numbers(io: &Io) -> Result<Vec<u64>> {
    let mut found: Vec<u64> =
        io.list(DIR).map_err(Error::Io)?.iter().filter_map(|f| number(f)).collect();
    found.sort_unstable();
    Ok(found)
}

/// A failure, and whether the state of the files is still known.
pub(super) enum Failure {
    /// The files are as before: try again later.
    Refused(Error),
    /// A sync failed: the state on disk is unknown (R19).
    Unknown(IoError),
}

fn refused(error: IoError) -> Failure {
    Failure::Refused(match error.kind {
        IoErrorKind::NoSpace => Error::DiskFull(format!("no room for a log segment: {error}")),
        _ => Error::Io(error),
    })
}

/// The segments of an open log.
pub(super) struct Segments {
    io: Io,
    bytes: u64,
    /// Segments, old and new, that are kept in use.
    kept: u64,
    /// Locked while segments are made, opened, recycled or removed.
    numbers: Mutex<Numbers>,
    files: Mutex<BTreeMap<u64, File>>,
    ready: AtomicU64,
}

/// Numbers of segments.
struct Numbers {
    /// First segment that is kept.
    first: u64,
    /// First segment that does not exist.
    next: u64,
    /// First segment that has not been opened ahead.
    open: u64,
}

impl Segments {
    /// Takes over the existing segments, which hold the log up to `end`, and removes files of
    /// interrupted work. Recycling keeps as many as a log of `max_bytes` fills. None is open yet.
    pub(super) fn open(io: &Io, bytes: u64, max_bytes: u64, end: u64) -> Result<Segments> {
        assert!(bytes >= 8 * BLOCK && bytes.is_multiple_of(BLOCK), "segments of whole blocks");
        remove_if_there(io, UNFINISHED).map_err(Error::Io)?;
        let found = numbers(io)?;
        // The segment of the next byte; at a boundary it need not exist yet.
        let current = end / bytes;
        // An interrupted recycling may leave gaps among old segments, which recycling skips.
        let first = found.first().map_or(current, |&lowest| lowest.min(current));
        let next = contiguous_up(&found, current);
        for stray in found.iter().filter(|&&n| n > next) {
            io.remove(&name(*stray)).map_err(Error::Io)?;
        }
        io.sync_dir(DIR).map_err(Error::Io)?;
        let ready = AtomicU64::new(current * bytes);
        let numbers = Mutex::new(Numbers { first, next, open: current });
        let (io, kept) = (io.clone(), max_bytes / bytes + AHEAD);
        Ok(Segments { io, bytes, kept, numbers, files: Mutex::default(), ready })
    }

    /// End of the segments that exist and are open: up to here bytes can be written.
    pub(super) fn ready(&self) -> u64 {
        self.ready.load(Ordering::Acquire)
    }

    /// Segments that are open.
    #[cfg(test)]
    pub(super) fn open_files(&self) -> usize {
        self.files.lock().len()
    }

    /// Start of the first segment that is kept.
    pub(super) fn first(&self) -> u64 {
        self.numbers.lock().first * self.bytes
    }

    /// Opens segments, and makes those that are missing, until `until` bytes of log are ready.
    pub(super) fn grow(&self, until: u64) -> std::result::Result<(), Failure> {
        self.grow_locked(self.numbers.lock(), until)
    }

    /// As [`Segments::grow`], unless another thread is growing or recycling.
    pub(super) fn try_grow(&self, until: u64) -> std::result::Result<(), Failure> {
        self.numbers.try_lock().map_or(Ok(()), |numbers| self.grow_locked(numbers, until))
    }

    fn grow_locked(
        &self,
        mut numbers: MutexGuard<'_, Numbers>,
        until: u64,
    ) -> std::result::Result<(), Failure> {
        while numbers.open * self.bytes < until {
            let number = numbers.open;
            let file = if number < numbers.next {
                self.io.open_file(&name(number), OpenMode::Existing).map_err(refused)?
            } else {
                let made = self.make(number)?;
                numbers.next = number + 1;
                made
            };
            self.files.lock().insert(number, file);
            numbers.open = number + 1;
            self.ready.store(numbers.open * self.bytes, Ordering::Release);
        }
        Ok(())
    }

    /// Makes a segment, durable before it has its name (R18). The returned file was opened under
    /// another name.
    fn make(&self, number: u64) -> std::result::Result<File, Failure> {
        remove_if_there(&self.io, UNFINISHED).map_err(refused)?;
        let file = self.io.open_file(UNFINISHED, OpenMode::CreateNew).map_err(refused)?;
        if let Err(error) = fill(&file, self.bytes) {
            drop(file);
            // Gives the space back at once; if that fails, the next attempt removes the file.
            let _ = self.io.remove(UNFINISHED);
            return Err(refused(error));
        }
        hit("wal.segment.before-sync");
        if !broken(Broken::SegmentNotSynced) {
            file.sync_all().map_err(Failure::Unknown)?;
        }
        self.io.rename(UNFINISHED, &name(number)).map_err(refused)?;
        if !broken(Broken::SegmentNameNotSynced) {
            self.io.sync_dir(DIR).map_err(Failure::Unknown)?;
        }
        hit("wal.segment.created");
        Ok(file)
    }

    /// Frees the segments below the one that holds `keep` (R17): some are renamed to the end of the
    /// log, the others are removed. Returns how many were recycled and removed.
    pub(super) fn recycle(&self, keep: u64) -> std::result::Result<(u64, u64), Failure> {
        let mut numbers = self.numbers.lock();
        let (mut recycled, mut removed) = (0, 0);
        let wanted = keep / self.bytes + self.kept;
        let mut next = numbers.next;
        while numbers.first < (keep / self.bytes).min(numbers.next) {
            assert!(numbers.first < numbers.open, "a segment that is freed was written");
            self.files.lock().remove(&numbers.first);
            let old = name(numbers.first);
            if next < wanted {
                if rename_if_there(&self.io, &old, &name(next)).map_err(refused)? {
                    hit("wal.segment.recycled");
                    (next, recycled) = (next + 1, recycled + 1);
                }
            } else {
                remove_if_there(&self.io, &old).map_err(refused)?;
                hit("wal.segment.removed");
                removed += 1;
            }
            numbers.first += 1;
        }
        if recycled + removed > 0 {
            self.io.sync_dir(DIR).map_err(Failure::Unknown)?;
        }
        numbers.next = next;
        Ok((recycled, removed))
    }

    /// The file of a segment, which stays open until its bytes are durable. It is opened here only
    /// when a log is opened and its last frame is written again.
    fn file(&self, number: u64) -> std::result::Result<File, IoError> {
        let open = self.files.lock().get(&number).cloned();
        if let Some(file) = open {
            return Ok(file);
        }
        hit("wal.segment.opened-late");
        let file = self.io.open_file(&name(number), OpenMode::Existing)?;
        Ok(self.files.lock().entry(number).or_insert(file).clone())
    }

    /// Closes the segments below `number`.
    fn close_below(&self, number: u64) {
        let mut files = self.files.lock();
        let kept = files.split_off(&number);
        let closed = std::mem::replace(&mut *files, kept);
        drop(files);
        drop(closed);
    }

    /// Start of the frame that covers the start of the segment of `lsn`, or the segment's start if
    /// no frame does. `None` if the block there cannot be read.
    pub(super) fn cover(&self, database: u64, lsn: u64) -> Option<u64> {
        let start = lsn - lsn % self.bytes;
        let mut block = AlignedBuf::zeroed(BLOCK as usize);
        let number = start / self.bytes;
        let open = self.files.lock().get(&number).cloned();
        let file = match open {
            Some(file) => file,
            None => self.io.open_file(&name(number), OpenMode::ReadOnly).ok()?,
        };
        file.read_exact_at(&mut block, 0).ok()?;
        let header = BlockHeader::decode(&block, database, start)?;
        Some(if header.cover == 0 { start } else { header.cover })
    }

    /// Writes `image`, whole sectors, at `base`.
    pub(super) fn write(&self, base: u64, image: &[u8]) -> std::result::Result<(), IoError> {
        assert!(base.is_multiple_of(SECTOR), "the log is written in sectors");
        assert!((image.len() as u64).is_multiple_of(SECTOR), "the log is written in sectors");
        assert!(base + image.len() as u64 <= self.ready(), "segments are open before bytes");
        for Piece { segment, from, to } in self.pieces(base, base + image.len() as u64) {
            let piece = &image[(from - base) as usize..(to - base) as usize];
            let written = self.file(segment)?.write_all_at(piece, from % self.bytes);
            written.map_err(|error| of_segment(segment, error))?;
            hit("wal.frame.piece-written");
        }
        Ok(())
    }

    /// Makes the bytes `from..to` durable, through the handles that wrote them, and closes the
    /// segments before `to`. Returns the number of syncs.
    pub(super) fn sync(&self, from: u64, to: u64) -> std::result::Result<u64, IoError> {
        let mut syncs = 0;
        for Piece { segment, .. } in self.pieces(from, to) {
            self.file(segment)?.sync_data().map_err(|error| of_segment(segment, error))?;
            syncs += 1;
        }
        assert!(syncs > 0, "a flush syncs a segment");
        self.close_below(to / self.bytes);
        Ok(syncs)
    }

    /// The parts of `from..to` in each segment.
    fn pieces(&self, from: u64, to: u64) -> Vec<Piece> {
        assert!(from < to, "a range of the log");
        let piece = |segment: u64| {
            let start = segment * self.bytes;
            Piece { segment, from: from.max(start), to: to.min(start + self.bytes) }
        };
        (from / self.bytes..=(to - 1) / self.bytes).map(piece).collect()
    }
}

/// A range of the log inside one segment.
struct Piece {
    segment: u64,
    from: u64,
    to: u64,
}

fn contiguous_up(found: &[u64], current: u64) -> u64 {
    let mut next = current;
    while found.binary_search(&next).is_ok() {
        next += 1;
    }
    next
}

/// The error with the segment's present name: it was opened under another one.
fn of_segment(number: u64, error: IoError) -> IoError {
    IoError { file: name(number), ..error }
}

/// Writes zeros, so that space is taken now and a later sync has no extents to convert.
fn fill(file: &File, bytes: u64) -> std::result::Result<(), IoError> {
    file.allocate(0, bytes)?;
    let zeros = AlignedBuf::zeroed(ZERO_CHUNK.min(bytes as usize));
    let mut at = 0;
    while at < bytes {
        let len = (zeros.len() as u64).min(bytes - at);
        file.write_all_at(&zeros[..len as usize], at)?;
        at += len;
    }
    Ok(())
}

/// Renames a file; false if it does not exist.
fn rename_if_there(io: &Io, from: &str, to: &str) -> std::result::Result<bool, IoError> {
    match io.rename(from, to) {
        Err(error) if error.kind == IoErrorKind::NotFound => Ok(false),
        result => result.map(|()| true),
    }
}

fn remove_if_there(io: &Io, file: &str) -> std::result::Result<(), IoError> {
    match io.remove(file) {
        Err(error) if error.kind == IoErrorKind::NotFound => Ok(()),
        result => result,
    }
}
