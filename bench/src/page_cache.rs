//! The kernel's page cache of a database's files: emptied before a cold scan through it.
//!
//! A scan with buffered I/O is cold only if the kernel keeps no page of the files either. Dirty
//! pages are written first, since the kernel drops clean ones only. Its read-ahead stays as it is,
//! as for a user.
//!
//! Invariants: whoever drops pages can check that a scan read from the device what it needed.
//! Does not do: pages of files outside `data`; other processes that keep pages mapped.

#![expect(clippy::disallowed_types, reason = "files of a database, for their page cache")]

use std::fs::File;
use std::path::Path;

use rustix::fs::{Advice, fadvise};

use crate::Failure;

/// Drops what the page cache has of the data files of the database in `dir`.
pub(crate) fn drop_data_files(dir: &Path) -> Result<(), Failure> {
    for entry in std::fs::read_dir(dir.join("data"))? {
        let file = File::open(entry?.path())?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// Bytes that this process has had read from devices so far, read-ahead included.
pub(crate) fn device_bytes() -> Result<u64, Failure> {
    let text = std::fs::read_to_string("/proc/self/io")?;
    let bytes = text.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    Ok(bytes.ok_or("/proc/self/io has no read_bytes")?.trim().parse()?)
}
