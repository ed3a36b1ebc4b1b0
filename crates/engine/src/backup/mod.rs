//! Online backup: copies an open database while other threads write. Pages first, then the log.
//!
//! The copy is a database as a crash would leave it, and opening it recovers it. No page is older
//! than the start of the copy, and the log reaches from the redo position then to an end behind all
//! pages. Bulk builds are not logged, and publish block 0 last. So a file whose block 0 was not
//! formatted is checked again after the end of the log was noted. If it is still not, its record
//! lies behind.
//!
//! Invariants:
//! - Until the copy is whole its directory has the file [`UNFINISHED`], durable first and removed
//!   last (R18). Opening refuses such a directory.
//! - The log is held from the start of the copy (R17). Beyond its usual log the original keeps only
//!   the log written while [`CHUNK`] pages are copied, and the rest of one segment.
//! - A thread that cuts or drops a file waits for one read at most. Other threads do not wait.
//! - An error of the directory names the directory.
//! - Outcomes of transactions that are not kept are holes in the copy.
//!
//! Does not do: copy unlogged tables, which are empty in the copy; copy only changes; start
//! threads.

mod pages;
mod target;

use rightlink_env::Broken;
use std::collections::{BTreeMap, BTreeSet};

use rightlink_aio::Io;
use rightlink_env::points::{broken, hit};
use rightlink_env::sync::Arc;

use crate::buffer::BufferPool;
use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::ids::{FileId, Lsn, Xid};
use crate::txn::TxnManager;
use crate::wal::{Control, CopyError, LogCopy, Wal};

use pages::Pages;
pub(crate) use target::{Restored, Target, UNFINISHED, restore};

/// Pages that are copied between two looks at the log and at the caller's wishes.
const CHUNK: usize = 64;

/// The database that is copied.
pub(crate) struct Parts<'a> {
    /// Its files.
    pub io: &'a Io,
    /// Its pages.
    pub pool: &'a BufferPool,
    /// Its log.
    pub wal: &'a Arc<Wal>,
    /// Its tables.
    pub catalog: &'a Catalog,
    /// Its transactions.
    pub txns: &'a TxnManager,
    /// The control file of the copy.
    pub control: &'a dyn Fn(&End) -> Control,
}

/// The log of a finished copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    /// Where its log begins.
    pub redo: Lsn,
    /// Where its log ends.
    pub durable: Lsn,
    /// Outcomes of older xids are not kept. The log of the copy says so.
    pub oldest_xid: Xid,
}

/// Progress of a backup: see [`Database::backup_with`](crate::Database::backup_with).
///
/// ```
/// use rightlink::BackupOptions;
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// let made = db.backup_with(dir.path().join("copy"), &BackupOptions::new(), |progress| {
///     println!("{} of {} pages", progress.pages, progress.pages_in_all);
///     true // false ends the backup
/// })?;
/// assert_eq!(made.pages, made.pages_in_all);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Pages copied.
    pub pages: u64,
    /// Pages to copy. The number grows with the database.
    pub pages_in_all: u64,
    /// Bytes of log copied.
    pub log_bytes: u64,
}

/// Called after every [`CHUNK`] pages: it may sleep, or end the copy by an error.
pub(crate) type Pace<'a> = &'a mut dyn FnMut(&Progress) -> Result<()>;

/// How a file was copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Copied {
    /// Block 0 was not formatted when the copy began.
    Early,
    Whole,
}

/// Copies the database into `target`, an empty directory.
pub(crate) fn run(parts: &Parts<'_>, target: &Target, pace: Pace<'_>) -> Result<Progress> {
    target.begin()?;
    hit("backup.marked");
    open_all(parts)?;
    let mut copy = Copy {
        parts,
        target,
        log: LogCopy::begin(parts.wal, parts.io, target.io()),
        pages: Pages::new(parts.pool, parts.txns, target)?,
        done: BTreeMap::new(),
        progress: Progress::default(),
    };
    let (durable, oldest_xid) = copy.copy_pages(pace)?;
    let Copy { log, progress, .. } = copy;
    hit("backup.pages-copied");
    let control = (parts.control)(&End { redo: log.start(), durable, oldest_xid });
    log.finish(&control).map_err(|error| target.blamed(error))?;
    hit("backup.before-unmark");
    target.end()?;
    Ok(progress)
}

/// Opens the files of all tables and sequences; the pool does not know those that were not used
/// yet.
fn open_all(parts: &Parts<'_>) -> Result<()> {
    for (file, logged) in parts.catalog.owned_files()? {
        match parts.pool.open_file(file, logged) {
            Err(error) if !parts.io.exists(&file.path()).map_err(Error::Io)? => {
                // Dropped meanwhile, or lost: then no copy would be whole.
                if parts.catalog.files()?.contains(&file) {
                    return Err(parts.catalog.blamed(error));
                }
            }
            opened => opened.map_err(|error| parts.catalog.blamed(error))?,
        }
    }
    Ok(())
}

struct Copy<'a> {
    parts: &'a Parts<'a>,
    target: &'a Target,
    log: LogCopy,
    pages: Pages<'a>,
    done: BTreeMap<FileId, Copied>,
    progress: Progress,
}

impl Copy<'_> {
    /// Copies all files, and those that appear meanwhile. Returns where the log of the copy ends,
    /// and the oldest xid whose outcome is kept there.
    fn copy_pages(&mut self, pace: Pace<'_>) -> Result<(Lsn, Xid)> {
        loop {
            let wal = self.parts.wal;
            // Before the flush, so that the record of this xid is in the copy's log (R17). Outcomes
            // that were removed before the files were copied are below it.
            let oldest = self.parts.txns.oldest_xid();
            wal.flush(wal.end())?;
            // Before the look at the files: the record of a file that is published later lies
            // behind this end (R18).
            let end = wal.durable();
            let wanted = self.wanted()?;
            if wanted.is_empty() {
                return Ok((end, oldest));
            }
            self.progress.pages_in_all = self.progress.pages + self.blocks_of(&wanted);
            for file in wanted {
                self.copy_file(file, pace)?;
            }
            if broken(Broken::BackupFilesNotRechecked) {
                wal.flush(wal.end())?;
                return Ok((wal.durable(), oldest));
            }
        }
    }

    /// Files that are not copied yet, and files that were published since they were copied (R18).
    fn wanted(&self) -> Result<BTreeSet<FileId>> {
        let mut wanted = BTreeSet::new();
        for file in self.parts.pool.logged_files() {
            let want = match self.done.get(&file) {
                None => true,
                Some(Copied::Whole) => false,
                Some(Copied::Early) => self.pages.is_formatted(file)?,
            };
            if want {
                wanted.insert(file);
            }
        }
        Ok(wanted)
    }

    fn blocks_of(&self, files: &BTreeSet<FileId>) -> u64 {
        let blocks = |file: &FileId| {
            let all = self.parts.pool.open_blocks(*file).unwrap_or(0);
            u64::from(all.saturating_sub(self.parts.txns.blocks_not_kept(*file)))
        };
        files.iter().map(blocks).sum()
    }

    fn copy_file(&mut self, file: FileId, pace: Pace<'_>) -> Result<()> {
        let early = !self.pages.is_formatted(file)?;
        let (log, target, progress) = (&mut self.log, self.target, &mut self.progress);
        self.pages.copy_file(file, &mut |pages| {
            progress.pages += pages;
            progress.log_bytes += log.catch_up().map_err(|error| target.blamed(error))?;
            pace(progress)
        })?;
        hit("backup.file-copied");
        self.done.insert(file, if early { Copied::Early } else { Copied::Whole });
        Ok(())
    }
}

impl Target {
    /// The error, naming this directory if it is the one that failed.
    fn blamed(&self, error: CopyError) -> Error {
        match error {
            CopyError::Source(error) => error,
            CopyError::Target(error) => self.named(error),
        }
    }
}
