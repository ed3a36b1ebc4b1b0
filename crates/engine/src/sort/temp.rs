//! Temporary files in the folder `tmp/` of the database: each is removed with its owner.
//!
//! Invariants: files in `tmp/` mean nothing after the process has ended (R18). They are never
//! synced, and opening the database empties the folder.
//! Does not do: limits on disk space.

use rightlink_aio::{File, Io, OpenMode};
use rightlink_env::Logger;
use rightlink_env::sync::{Arc, AtomicU64, Ordering};

use super::io_error;
use crate::error::Result;

/// Folder of temporary files, below the database.
const FOLDER: &str = "tmp";

/// Gives out temporary files.
pub struct TempFiles {
    io: Io,
    logger: Logger,
    next: AtomicU64,
}

/// A temporary file, removed when dropped.
pub(super) struct TempFile {
    owner: Arc<TempFiles>,
    name: String,
    pub(super) file: File,
}

impl TempFiles {
    /// Makes the folder, or empties it of files that an earlier process left (R18). New files have
    /// other names than those that cannot be removed.
    pub fn open(io: &Io, logger: &Logger) -> Result<Arc<Self>> {
        io.create_dir(FOLDER).map_err(io_error)?;
        let mut next = 0;
        for name in io.list(FOLDER).map_err(io_error)? {
            if let Err(error) = io.remove(&format!("{FOLDER}/{name}")) {
                logger.warn(&format!("temporary file {FOLDER}/{name} stays: {error}"));
                let number = u64::from_str_radix(&name, 16).unwrap_or(0);
                next = next.max(number.saturating_add(1));
            }
        }
        let (io, logger) = (io.clone(), logger.clone());
        Ok(Arc::new(Self { io, logger, next: AtomicU64::new(next) }))
    }

    pub(super) fn create(self: &Arc<Self>) -> Result<TempFile> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let name = format!("{FOLDER}/{number:08x}");
        let file = self.io.open_buffered(&name, OpenMode::CreateNew).map_err(io_error)?;
        Ok(TempFile { owner: Arc::clone(self), name, file })
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        // The next open removes what cannot be removed now.
        if let Err(error) = self.owner.io.remove(&self.name) {
            self.owner.logger.warn(&format!("temporary file {} stays: {error}", self.name));
        }
    }
}
