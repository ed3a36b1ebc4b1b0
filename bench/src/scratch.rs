//! A directory for the data of one run.
//!
//! Invariants: it is new, and removed when the run ends, well or badly; what was in the directory
//! above it stays. Does not do: cleaning up after a run that was killed.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The directory; removed by its drop.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// A new directory below `above`.
    pub(crate) fn create(above: &Path) -> io::Result<Scratch> {
        let path = above.join(format!("rightlink-bench-{}", std::process::id()));
        std::fs::create_dir_all(above)?;
        std::fs::create_dir(&path)?;
        Ok(Scratch { path })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            eprintln!("{} stays: {error}", self.path.display());
        }
    }
}

/// Bytes that all files below `dir` take on the device: a file may have holes.
pub(crate) fn size_of(dir: &Path) -> io::Result<u64> {
    let mut total = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        total += if meta.is_dir() { size_of(&entry.path())? } else { meta.blocks() * 512 };
    }
    Ok(total)
}
