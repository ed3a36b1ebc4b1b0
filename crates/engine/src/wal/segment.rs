//! Segment files of the log, `wal/XXXXXXXX`: the stream cut into files of equal size.
//!
//! A segment is filled with zeros, synced, renamed into place and its directory synced before a
//! byte of the log goes into it, so a full disk shows here and not in the middle of a commit.
//! Segments whose records nobody needs are renamed to the end of the row and used again. Those that
//! the next bytes go to are opened before these are accepted, so that no flush opens a file: a
//! process that has no descriptor left is told so where it can try again.
//!
//! Invariants: the numbers from the one being written to `next - 1` exist at full size, and those
//! up to `open - 1` are open; `ready` is the end of the last open one; bytes of an earlier use
//! never pass as a frame (their LSN is another). What is open is what is not durable yet and what
//! was asked for: two segments, or three, and more only where a frame is longer than a segment.
//! Does not do: decide what is still needed.

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

/// What went wrong, and whether the state of the files is still known.
pub(super) enum Failure {
    /// Nothing that matters was changed: try again later.
    Refused(Error),
    /// A sync failed: nobody knows what is on disk.
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
    /// One at a time makes, opens, recycles or removes.
    row: Mutex<Row>,
    files: Mutex<BTreeMap<u64, File>>,
    ready: AtomicU64,
}

struct Row {
    first: u64,
    /// First one that does not exist.
    next: u64,
    /// First one that has not been opened ahead.
    open: u64,
}

impl Segments {
    /// Takes over the segments there are, which hold the log up to `end`; removes what is left of
    /// interrupted work. Recycling keeps as many as a log of `max_bytes` fills. None is open yet.
    pub(super) fn open(io: &Io, bytes: u64, max_bytes: u64, end: u64) -> Result<Segments> {
        assert!(bytes >= 8 * BLOCK && bytes.is_multiple_of(BLOCK), "segments of whole blocks");
        remove_if_there(io, UNFINISHED).map_err(Error::Io)?;
        let found = numbers(io)?;
        // The one that the next byte goes to; at a boundary it need not exist yet.
        let current = end / bytes;
        // An interrupted clean-up may leave gaps among the old ones: recycling does not mind.
        let first = found.first().map_or(current, |&lowest| lowest.min(current));
        let next = contiguous_up(&found, current);
        for stray in found.iter().filter(|&&n| n > next) {
            io.remove(&name(*stray)).map_err(Error::Io)?;
        }
        io.sync_dir(DIR).map_err(Error::Io)?;
        let ready = AtomicU64::new(current * bytes);
        let row = Mutex::new(Row { first, next, open: current });
        let (io, kept) = (io.clone(), max_bytes / bytes + AHEAD);
        Ok(Segments { io, bytes, kept, row, files: Mutex::default(), ready })
    }

    /// End of the segments that are there and open: up to here bytes can be written.
    pub(super) fn ready(&self) -> u64 {
        self.ready.load(Ordering::Acquire)
    }

    /// Segments that are open.
    #[cfg(all(test, not(feature = "shuttle")))]
    pub(super) fn open_files(&self) -> usize {
        self.files.lock().len()
    }

    /// Start of the first segment that is kept.
    pub(super) fn first(&self) -> u64 {
        self.row.lock().first * self.bytes
    }

    /// Opens segments, and makes those that are missing, until `until` bytes of log are ready.
    pub(super) fn grow(&self, until: u64) -> std::result::Result<(), Failure> {
        self.grow_row(self.row.lock(), until)
    }

    /// As [`Segments::grow`], unless somebody else is at it already.
    pub(super) fn try_grow(&self, until: u64) -> std::result::Result<(), Failure> {
        self.row.try_lock().map_or(Ok(()), |row| self.grow_row(row, until))
    }

    fn grow_row(
        &self,
        mut row: MutexGuard<'_, Row>,
        until: u64,
    ) -> std::result::Result<(), Failure> {
        while row.open * self.bytes < until {
            let number = row.open;
            let file = if number < row.next {
                self.io.open_file(&name(number), OpenMode::Existing).map_err(refused)?
            } else {
                let made = self.make(number)?;
                row.next = number + 1;
                made
            };
            self.files.lock().insert(number, file);
            row.open = number + 1;
            self.ready.store(row.open * self.bytes, Ordering::Release);
        }
        Ok(())
    }

    /// Makes a segment durably; the answer was opened under another name.
    fn make(&self, number: u64) -> std::result::Result<File, Failure> {
        remove_if_there(&self.io, UNFINISHED).map_err(refused)?;
        let file = self.io.open_file(UNFINISHED, OpenMode::CreateNew).map_err(refused)?;
        if let Err(error) = fill(&file, self.bytes) {
            drop(file);
            // The space goes back at once; if that fails, the next attempt removes it.
            let _ = self.io.remove(UNFINISHED);
            return Err(refused(error));
        }
        hit("wal.segment.before-sync");
        if !broken("wal-segment-not-synced") {
            file.sync_all().map_err(Failure::Unknown)?;
        }
        self.io.rename(UNFINISHED, &name(number)).map_err(refused)?;
        if !broken("wal-segment-name-not-synced") {
            self.io.sync_dir(DIR).map_err(Failure::Unknown)?;
        }
        hit("wal.segment.created");
        Ok(file)
    }

    /// Gives up the segments below the one that holds `keep`: some go to the end of the row, the
    /// others away. Returns how many were recycled and removed.
    pub(super) fn recycle(&self, keep: u64) -> std::result::Result<(u64, u64), Failure> {
        let mut row = self.row.lock();
        let (mut recycled, mut removed) = (0, 0);
        let wanted = keep / self.bytes + self.kept;
        let mut next = row.next;
        while row.first < (keep / self.bytes).min(row.next) {
            assert!(row.first < row.open, "what is not needed any more was written");
            self.files.lock().remove(&row.first);
            let old = name(row.first);
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
            row.first += 1;
        }
        if recycled + removed > 0 {
            self.io.sync_dir(DIR).map_err(Failure::Unknown)?;
        }
        row.next = next;
        Ok((recycled, removed))
    }

    /// The segment, open until what is written to it is durable. Only when a log is opened, and the
    /// last frame written again, is it not open yet.
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

    /// Start of the frame that covers the start of the segment that `lsn` lies in, or the segment's
    /// start if none does; nothing if the block there cannot be read.
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
        for (number, from, to) in self.pieces(base, base + image.len() as u64) {
            let piece = &image[(from - base) as usize..(to - base) as usize];
            let written = self.file(number)?.write_all_at(piece, from % self.bytes);
            written.map_err(|error| of_segment(number, error))?;
            hit("wal.frame.piece-written");
        }
        Ok(())
    }

    /// Makes the bytes `from..to` durable, through the handles that they were written by, and
    /// closes what lies before `to`; returns how many syncs that took.
    pub(super) fn sync(&self, from: u64, to: u64) -> std::result::Result<u64, IoError> {
        let mut syncs = 0;
        for (number, ..) in self.pieces(from, to) {
            self.file(number)?.sync_data().map_err(|error| of_segment(number, error))?;
            syncs += 1;
        }
        assert!(syncs > 0, "something was synced");
        self.close_below(to / self.bytes);
        Ok(syncs)
    }

    /// The parts of `from..to` in each segment: number, start, end.
    fn pieces(&self, from: u64, to: u64) -> Vec<(u64, u64, u64)> {
        assert!(from < to, "a range of the log");
        let numbers = from / self.bytes..=(to - 1) / self.bytes;
        numbers.map(|n| (n, from.max(n * self.bytes), to.min((n + 1) * self.bytes))).collect()
    }
}

fn contiguous_up(found: &[u64], current: u64) -> u64 {
    let mut next = current;
    while found.binary_search(&next).is_ok() {
        next += 1;
    }
    next
}

/// The error by the name that the segment has now: it was opened before it was given that.
fn of_segment(number: u64, error: IoError) -> IoError {
    IoError { file: name(number), ..error }
}

/// Zeros, really written: space is taken now, and a later sync has no extents to convert.
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

/// Was there such a file to rename?
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
