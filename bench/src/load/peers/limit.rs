//! Keeps the page cache of a peer's files within the memory that a cell allows.
//!
//! Ours reads past the page cache, so its pool is all that it has. A peer's files are in the page
//! cache, which has no bound of its own. So a thread of the peer's process evicts pages every few
//! milliseconds:
//!
//! - Of files that are not mapped, all pages. Their engine has the whole allowance as a cache of
//!   its own, and would only hold pages twice.
//! - Of a mapped file, random pieces, until the rest is within the allowance.
//!
//! Where keys are random, random pieces are as good as the least recently used ones, and inner
//! pages come back with the next descent. A control group evicts by age and counts all other memory
//! too; this file is for machines where none can be made.
//!
//! Invariants: a page leaves only after it was written; contents never change.
//! Does not do: memory that the process allocated (its engine is told how much), processes of ours.

#![expect(clippy::disallowed_types, reason = "the files of other engines, for their page cache")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rightlink_env::{Rng, thread};

const PAGE: usize = 4096;
/// Pages that leave together.
const PIECE: usize = 64;
const PAUSE: Duration = Duration::from_millis(20);

/// Starts the thread that keeps what is cached of the files below `dir` within `bytes`.
pub(super) fn keep(dir: &Path, bytes: u64) {
    // Maps are listed by their whole names.
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf());
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    drop(thread::spawn("page-cache", move || {
        let mut rng = Rng::from_seed(1);
        loop {
            // A file that goes away meanwhile is no loss.
            let _ = look(&dir, bytes, &mut rng);
            thread::sleep(PAUSE);
        }
    }));
}

fn look(dir: &Path, bytes: usize, rng: &mut Rng) -> io::Result<()> {
    let maps = mapped(dir)?;
    for path in files(dir)? {
        let file = File::open(&path)?;
        match maps.iter().find(|map| map.path == path) {
            Some(map) => map.shrink(&file, bytes.saturating_sub(anonymous()?), rng)?,
            None => forget(&file, 0, 0),
        }
    }
    Ok(())
}

/// Writes what is dirty of the files below `dir`, and drops what the page cache has of them.
pub(super) fn drop_page_cache(dir: &Path) -> io::Result<()> {
    for path in files(dir)? {
        let file = File::open(path)?;
        file.sync_all()?;
        forget(&file, 0, 0);
    }
    Ok(())
}

/// All files below `dir`, but those that engines lock: a file that is opened and closed by the same
/// process loses its locks.
fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(files(&entry.path())?);
        } else if !entry.file_name().to_string_lossy().to_lowercase().starts_with("lock") {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Clean pages of `file` from `offset` on leave the page cache; the writing of dirty ones begins.
/// A length of zero means to the end.
fn forget(file: &File, offset: usize, length: usize) {
    let (offset, length) = (offset as libc::off_t, length as libc::off_t);
    // SAFETY: the descriptor is open; the call takes no memory of ours.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, length, libc::POSIX_FADV_DONTNEED) };
}

/// Waits until pages of `file` are written.
fn write_out(file: &File, offset: usize, length: usize) {
    let how = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    let (offset, length) = (offset as libc::off64_t, length as libc::off64_t);
    // SAFETY: the descriptor is open; the call takes no memory of ours.
    unsafe { libc::sync_file_range(file.as_raw_fd(), offset, length, how) };
}

/// Bytes that the process itself allocated and that are resident.
fn anonymous() -> io::Result<usize> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next());
    Ok(kilobytes.and_then(|number| number.parse::<usize>().ok()).unwrap_or(0) * 1024)
}

/// A file in this process's memory.
struct Map {
    path: PathBuf,
    start: usize,
    offset: usize,
    length: usize,
}

/// The mapped files below `dir`.
fn mapped(dir: &Path) -> io::Result<Vec<Map>> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let hex = |text: &str| usize::from_str_radix(text, 16).ok();
    let parse = |line: &str| {
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let (start, end) = (hex(start)?, hex(end)?);
        let offset = hex(words.nth(1)?)?;
        let path = PathBuf::from(words.nth(2)?);
        // LMDB's lock file is a page that readers share: it is no data.
        let data = path.starts_with(dir) && !path.ends_with("lock.mdb");
        data.then_some(Map { path, start, offset, length: end - start })
    };
    Ok(maps.lines().filter_map(parse).collect())
}

impl Map {
    /// Lets pieces leave until at most `bytes` are resident.
    fn shrink(&self, file: &File, bytes: usize, rng: &mut Rng) -> io::Result<()> {
        // What lies behind the end of the file is no memory.
        let size = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        let pages = self.length.min(size.saturating_sub(self.offset)) / PAGE;
        let mut resident = vec![0u8; pages];
        // SAFETY: the range is mapped (nobody unmaps the file while the store is open), and the
        // vector has a byte for each of its pages.
        let told = unsafe {
            libc::mincore(self.start as *mut libc::c_void, pages * PAGE, resident.as_mut_ptr())
        };
        if told != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut count = resident.iter().filter(|page| **page & 1 != 0).count();
        let pieces = pages.div_ceil(PIECE).max(1);
        for _ in 0..pieces * 4 {
            if count * PAGE <= bytes {
                break;
            }
            let first = rng.below(pieces as u64) as usize * PIECE;
            let piece = &mut resident[first..pages.min(first + PIECE)];
            let here = piece.iter().filter(|page| **page & 1 != 0).count();
            if here > 0 {
                self.leave(file, first, piece.len());
                piece.fill(0);
                count -= here;
            }
        }
        Ok(())
    }

    fn leave(&self, file: &File, first: usize, pages: usize) {
        let (at, length) = (first * PAGE, pages * PAGE);
        // SAFETY: the range is mapped and shared with its file, so that taking the pages out of the
        // process's tables changes no byte: the next access finds them in the file.
        unsafe {
            let address = (self.start + at) as *mut libc::c_void;
            libc::madvise(address, length, libc::MADV_DONTNEED);
        }
        write_out(file, self.offset + at, length);
        forget(file, self.offset + at, length);
    }
}
