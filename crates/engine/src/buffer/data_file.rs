//! The data files: names, sizes, growth, syncs.
//!
//! Growth comes in chunks, because each chunk costs a sync. Redo grows files without a sync. A
//! crash may take such growth away, and redo makes it again: the first record of a page that was
//! all zero is an image (`mtr`).
//!
//! Invariants:
//! - A file reaches at least to its last block: blocks that were never written read as zero.
//! - Growth is durable before it is used. So a crash leaves zeros behind the last written block.
//! - A file whose sync failed is never synced again, and the instance is poisoned (R19). A failed
//!   sync of the directory poisons it too, since names of other new files may be lost.
//!
//! Does not do: pages, checksums, ownership of files.

use std::collections::BTreeMap;

use rightlink_aio::{AlignedBuf, File, Io, IoError, IoErrorKind, OpenMode};
use rightlink_env::points;
use rightlink_env::sync::{Arc, AtomicBool, AtomicU32, Mutex, Ordering, RwLock};

use crate::buffer::planned_reads::{SecondOpening, SecondOpenings};
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::{BlockNo, FileId};

/// Directory of the data files.
pub(super) const DIRECTORY: &str = "data";
/// Most blocks that a file grows ahead of its use.
const MAX_CHUNK: u32 = 512;
/// Fewest blocks that a file grows by.
const MIN_CHUNK: u32 = 8;
/// Most zero blocks at the end of a file that opening it gives back to growth.
const MAX_TRIM: u32 = MAX_CHUNK;
/// The damage of a file that does not exist.
const MISSING: &str = "the file is missing";
/// Most blocks of a file.
pub(super) const MAX_BLOCKS: u32 = u32::MAX - 1;

/// Name of `file` below the root.
pub(super) fn name(file: FileId) -> String {
    file.path()
}

/// The file that has `name` inside the directory.
fn parse(name: &str) -> Option<FileId> {
    let digits = name.len() == 8 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if digits { u32::from_str_radix(name, 16).ok().map(FileId) } else { None }
}

/// An I/O error as the engine reports it.
pub(super) fn io_error(error: IoError) -> Error {
    match error.kind {
        IoErrorKind::NoSpace => Error::DiskFull(error.to_string()),
        _ => Error::Io(error),
    }
}

/// One open data file.
#[derive(Debug)]
pub(super) struct DataFile {
    /// Which one.
    pub(super) id: FileId,
    /// Are changes of its pages logged?
    pub(super) logged: bool,
    /// The file itself.
    pub(super) file: File,
    second: SecondOpening,
    blocks: AtomicU32,
    /// Blocks that the file reaches over; the lock orders growth and cuts.
    reached: Mutex<u32>,
    unsynced: AtomicBool,
    /// Held while the file is synced; the error of a sync that failed.
    sync: Mutex<Option<IoError>>,
    /// Taken to cut blocks off or to drop the file, and shared by threads that read the file
    /// without a lock on its table. So such a read brings no page back that a cut has forgotten.
    pub(super) whole: RwLock<()>,
}

impl DataFile {
    fn new(id: FileId, logged: bool, file: File, second: SecondOpening) -> Result<DataFile> {
        let bytes = file.len().map_err(io_error)?;
        let blocks = u32::try_from(bytes / PAGE_SIZE as u64).unwrap_or(MAX_BLOCKS).min(MAX_BLOCKS);
        if bytes % PAGE_SIZE as u64 != 0 {
            // Torn growth: nothing was ever in that block.
            file.set_len(offset(BlockNo(blocks))).map_err(io_error)?;
        }
        let used = trimmed(&file, blocks)?;
        let (blocks, reached) = (AtomicU32::new(used), Mutex::new(blocks));
        let (unsynced, sync) = (AtomicBool::new(false), Mutex::new(None));
        let whole = RwLock::new(());
        Ok(DataFile { id, logged, file, second, blocks, reached, unsynced, sync, whole })
    }

    /// The opening for reads that are planned ahead.
    pub(super) fn planned(&self) -> &File {
        self.second.or(&self.file)
    }

    /// Blocks of the file, grown ones included.
    pub(super) fn blocks(&self) -> u32 {
        self.blocks.load(Ordering::Acquire)
    }

    /// Grows the file by `count` zero blocks, to `most` at most, and returns the first.
    pub(super) fn extend(&self, count: u32, most: u32) -> Result<BlockNo> {
        assert!(count > 0, "growth by at least a block");
        points::hit("buffer.extend");
        let mut reached = self.reached.lock();
        let first = self.blocks();
        let end = first.checked_add(count).filter(|&end| end <= most);
        let end =
            end.ok_or_else(|| Error::Limit(format!("{} has too many blocks", self.name())))?;
        if end > *reached {
            let chunk = (*reached / 8).clamp(MIN_CHUNK, MAX_CHUNK);
            let ahead = end.saturating_add(chunk - 1).min(most);
            // A full disk may still have the space that is needed now.
            self.reach(&mut reached, ahead).or_else(|_| self.reach(&mut reached, end))?;
            points::hit("buffer.extend.before-sync");
            self.sync()?;
        }
        self.blocks.store(end, Ordering::Release);
        Ok(BlockNo(first))
    }

    /// Makes the file at least `end` blocks long, for redo.
    pub(super) fn extend_to(&self, end: u32) -> Result<()> {
        let mut reached = self.reached.lock();
        if end > *reached {
            match self.reach(&mut reached, end) {
                // Other files may have taken space that a vacuum cut off later. The database must
                // open anyway, and takes the space if the pages are written.
                Err(Error::DiskFull(_)) => {
                    self.file.set_len(offset(BlockNo(end))).map_err(io_error)?;
                    *reached = end;
                }
                reached => reached?,
            }
        }
        self.blocks.fetch_max(end, Ordering::AcqRel);
        Ok(())
    }

    fn reach(&self, reached: &mut u32, end: u32) -> Result<()> {
        let start = offset(BlockNo(*reached));
        self.file.allocate(start, offset(BlockNo(end)) - start).map_err(io_error)?;
        *reached = end;
        self.unsynced.store(true, Ordering::Release);
        Ok(())
    }

    /// Hides the blocks at and above `blocks`; [`DataFile::cut`] then removes them.
    pub(super) fn hide(&self, blocks: u32) {
        let _reached = self.reached.lock();
        self.blocks.fetch_min(blocks, Ordering::AcqRel);
    }

    /// Removes the blocks above the end.
    pub(super) fn cut(&self) -> Result<()> {
        let mut reached = self.reached.lock();
        let blocks = self.blocks();
        self.file.set_len(offset(BlockNo(blocks))).map_err(io_error)?;
        *reached = blocks;
        self.unsynced.store(true, Ordering::Release);
        Ok(())
    }

    /// Gives the space of `blocks` back to the system.
    pub(super) fn punch(&self, blocks: std::ops::Range<u32>) -> Result<()> {
        let (from, to) = (offset(BlockNo(blocks.start)), offset(BlockNo(blocks.end)));
        self.file.punch_hole(from, to - from).map_err(io_error)
    }

    /// Bytes were written.
    pub(super) fn written(&self) {
        self.unsynced.store(true, Ordering::Release);
    }

    /// Makes everything written so far durable; returns after a concurrent sync has ended too, with
    /// its error if it failed.
    pub(super) fn sync(&self) -> Result<()> {
        let mut failed = self.sync.lock();
        if failed.is_none() && self.unsynced.swap(false, Ordering::AcqRel) {
            *failed = self.file.sync_data().err();
        }
        // After any failed sync, on a full disk too, it is unknown what is durable (R19).
        failed.clone().map_or(Ok(()), |error| Err(Error::Io(error)))
    }

    /// Name for messages.
    pub(super) fn name(&self) -> &str {
        self.file.name()
    }
}

/// Byte position of `block`.
pub(super) fn offset(block: BlockNo) -> u64 {
    u64::from(block.0) * PAGE_SIZE as u64
}

/// `blocks` without the zero blocks at the end that growth ahead of use has left there.
fn trimmed(file: &File, blocks: u32) -> Result<u32> {
    let mut page = AlignedBuf::zeroed(PAGE_SIZE);
    let lowest = blocks.saturating_sub(MAX_TRIM);
    let mut end = blocks;
    while end > lowest {
        file.read_exact_at(&mut page, offset(BlockNo(end - 1))).map_err(io_error)?;
        if page.iter().any(|byte| *byte != 0) {
            break;
        }
        end -= 1;
    }
    Ok(end)
}

/// All open data files.
#[derive(Debug)]
pub(super) struct DataFiles {
    io: Io,
    open: RwLock<BTreeMap<FileId, Arc<DataFile>>>,
    seconds: Arc<SecondOpenings>,
    /// Redo made files whose names are not durable yet.
    unsynced_names: AtomicBool,
}

impl DataFiles {
    /// No file is open yet; the directory exists afterwards.
    pub(super) fn new(io: &Io) -> Result<DataFiles> {
        if !io.exists(DIRECTORY).map_err(io_error)? {
            io.create_dir(DIRECTORY).map_err(io_error)?;
            io.sync_dir("").map_err(io_error)?;
        }
        let (open, unsynced_names) = (RwLock::default(), AtomicBool::new(false));
        Ok(DataFiles { io: io.clone(), open, seconds: SecondOpenings::new(io), unsynced_names })
    }

    /// The open file `id`.
    pub(super) fn get(&self, id: FileId) -> Option<Arc<DataFile>> {
        self.open.read().get(&id).cloned()
    }

    /// The open file `id`; an error if the caller has not opened it.
    pub(super) fn expect(&self, id: FileId) -> Result<Arc<DataFile>> {
        self.get(id).ok_or_else(|| Error::Invalid(format!("data file {} is not open", id.0)))
    }

    /// Every open file.
    pub(super) fn all(&self) -> Vec<Arc<DataFile>> {
        self.open.read().values().cloned().collect()
    }

    /// Creates the file, durably, and opens it. An orphan of the same name is emptied: a number is
    /// used again only if no durable record names it.
    pub(super) fn create(&self, id: FileId, logged: bool) -> Result<()> {
        if self.get(id).is_some() {
            return Err(Error::AlreadyExists(format!("data file {}", id.0)));
        }
        let file = self.io.open_file(&name(id), OpenMode::Create).map_err(io_error)?;
        file.set_len(0).map_err(io_error)?;
        // As in `DataFile::sync`: for any reason.
        file.sync_all().map_err(Error::Io)?;
        self.io.sync_dir(DIRECTORY).map_err(Error::Io)?;
        self.add(self.with_second(id, logged, file)?);
        Ok(())
    }

    /// Opens an existing file, or finds it open.
    pub(super) fn open(&self, id: FileId, logged: bool) -> Result<()> {
        if let Some(open) = self.get(id) {
            assert_eq!(open.logged, logged, "a file is logged or not, for good");
            return Ok(());
        }
        let missing = |error: IoError| match error.kind {
            // The catalog named the file, and a file is durable before the catalog names it.
            IoErrorKind::NotFound => Error::corrupt_file(name(id), MISSING),
            _ => io_error(error),
        };
        let file = self.io.open_file(&name(id), OpenMode::Existing).map_err(missing)?;
        points::hit("buffer.file-opened");
        self.add(self.with_second(id, logged, file)?);
        // `remove` closes the file, removes its name and closes it again. The second close drops a
        // handle that was opened in between; this check drops one that was opened later.
        if !self.io.exists(&name(id)).map_err(io_error)? {
            self.open.write().remove(&id);
            return Err(Error::corrupt_file(name(id), MISSING));
        }
        Ok(())
    }

    /// Reads a block of a file that is not open, and leaves it so.
    pub(super) fn glance(&self, id: FileId, block: BlockNo) -> Result<AlignedBuf> {
        let mut bytes = AlignedBuf::zeroed(PAGE_SIZE);
        let file = self.io.open_file(&name(id), OpenMode::Existing).map_err(io_error)?;
        file.read_exact_at(&mut bytes, offset(block)).map_err(io_error)?;
        Ok(bytes)
    }

    fn with_second(&self, id: FileId, logged: bool, file: File) -> Result<DataFile> {
        DataFile::new(id, logged, file, SecondOpening::new(&self.seconds))
    }

    fn add(&self, file: DataFile) {
        self.open.write().entry(file.id).or_insert_with(|| Arc::new(file));
    }

    /// The file for redo: made, empty and not yet durable, if it is missing.
    pub(super) fn open_or_create(&self, id: FileId) -> Result<Arc<DataFile>> {
        if let Some(open) = self.get(id) {
            return Ok(open);
        }
        let file = self.io.open_file(&name(id), OpenMode::Create).map_err(io_error)?;
        let opened = self.with_second(id, true, file)?;
        opened.written();
        self.unsynced_names.store(true, Ordering::Release);
        self.add(opened);
        self.expect(id)
    }

    /// Closes the file and removes it, durably.
    pub(super) fn remove(&self, id: FileId) -> Result<()> {
        self.open.write().remove(&id);
        points::hit("buffer.file-closed");
        match self.io.remove(&name(id)) {
            Err(error) if error.kind == IoErrorKind::NotFound => Ok(()),
            result => result.map_err(io_error),
        }?;
        // A backup opens the files that the catalog named a moment ago.
        self.open.write().remove(&id);
        self.io.sync_dir(DIRECTORY).map_err(Error::Io)
    }

    /// Makes the names of the files durable.
    pub(super) fn sync_names(&self) -> Result<()> {
        if self.unsynced_names.swap(false, Ordering::AcqRel) {
            self.io.sync_dir(DIRECTORY).map_err(io_error)?;
        }
        Ok(())
    }

    /// The data files in the directory, open or not.
    pub(super) fn on_disk(&self) -> Result<Vec<FileId>> {
        let names = self.io.list(DIRECTORY).map_err(io_error)?;
        Ok(names.iter().filter_map(|name| parse(name)).collect())
    }
}
