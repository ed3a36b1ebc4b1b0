//! The directory of a backup, and the restore of a backup.
//!
//! Invariants:
//! - A directory with the file [`UNFINISHED`] is not whole, and opening refuses it. The file is
//!   removed after everything else is durable, file names included (R18).
//! - Errors name the directory.
//! - A restore leaves pages that are zero as holes.
//!
//! Does not do: remove an unfinished copy.

use rightlink_aio::{AlignedBuf, File, Io, IoError, IoErrorKind, LockFile, OpenMode};
use rightlink_env::points::hit;

use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};

/// Present as long as a copy is not whole.
pub(crate) const UNFINISHED: &str = "copying";
/// Locked while a process has the directory open.
const LOCK: &str = "lock";
/// Directories of a database that a copy needs.
const FOLDERS: [&str; 3] = ["data", "wal", "tmp"];
/// Bytes that a restore copies at once.
const PIECE: usize = 1 << 20;

/// A directory to copy to.
pub(crate) struct Target {
    io: Io,
    /// Its name for people.
    name: String,
    _lock: LockFile,
}

impl Target {
    /// The directory of `io`, called `name`, which must be empty.
    pub(crate) fn new(io: Io, name: String) -> Result<Target> {
        let lock = match io.list("") {
            Ok(names) if names.is_empty() => io.lock(LOCK),
            Ok(_) => return Err(Error::AlreadyExists(format!("{name}, and it is not empty"))),
            Err(error) => Err(error),
        };
        let _lock = lock.map_err(|error| named(&name, Error::Io(error)))?;
        Ok(Target { io, name, _lock })
    }

    /// Where its files are.
    pub(crate) fn io(&self) -> &Io {
        &self.io
    }

    /// Marks it as unfinished and makes its folders, durably.
    pub(super) fn begin(&self) -> Result<()> {
        let mark = self.create(UNFINISHED)?;
        self.sync(&mark)?;
        self.check(self.io.sync_dir(""))?;
        for folder in FOLDERS {
            self.check(self.io.create_dir(folder))?;
        }
        self.check(self.io.sync_dir(""))
    }

    /// Makes the names of all files durable, then takes the mark away.
    pub(super) fn end(&self) -> Result<()> {
        for folder in FOLDERS {
            self.check(self.io.sync_dir(folder))?;
        }
        self.check(self.io.sync_dir(""))?;
        hit("backup.durable");
        self.check(self.io.remove(UNFINISHED))?;
        self.check(self.io.sync_dir(""))
    }

    /// Makes a file, or empties the one that is there.
    pub(super) fn create(&self, file: &str) -> Result<File> {
        let made = self.check(self.io.open_file(file, OpenMode::Create))?;
        self.set_len(&made, 0)?;
        Ok(made)
    }

    pub(super) fn write(&self, file: &File, bytes: &[u8], at: u64) -> Result<()> {
        self.check(file.write_all_at(bytes, at))
    }

    /// Writes the pages of `bytes` that are not zero; the others stay holes. How many bytes were
    /// written.
    fn write_pages(&self, file: &File, bytes: &[u8], at: u64) -> Result<usize> {
        let is_zero = |page: &&[u8]| page.iter().all(|byte| *byte == 0);
        let (mut from, mut written) = (0, 0);
        while from < bytes.len() {
            let rest = bytes[from..].chunks(PAGE_SIZE);
            let skipped = rest.take_while(is_zero).map(<[u8]>::len).sum::<usize>();
            from += skipped;
            let rest = bytes[from..].chunks(PAGE_SIZE);
            let len = rest.take_while(|page| !is_zero(page)).map(<[u8]>::len).sum::<usize>();
            if len > 0 {
                self.write(file, &bytes[from..from + len], at + from as u64)?;
            }
            from += len;
            written += len;
        }
        Ok(written)
    }

    pub(super) fn set_len(&self, file: &File, len: u64) -> Result<()> {
        self.check(file.set_len(len))
    }

    pub(super) fn sync(&self, file: &File) -> Result<()> {
        self.check(file.sync_all())
    }

    /// The error, with this directory in the name of its file.
    pub(super) fn named(&self, error: Error) -> Error {
        named(&self.name, error)
    }

    fn check<T>(&self, result: std::result::Result<T, IoError>) -> Result<T> {
        result.map_err(|error| self.named(Error::Io(error)))
    }
}

/// Puts the directory's name in front of the file's. A full disk is an error of its own kind.
fn named(directory: &str, error: Error) -> Error {
    match error {
        Error::Io(error) => {
            let file = match error.file.is_empty() {
                true => directory.to_owned(),
                false => format!("{directory}/{}", error.file),
            };
            let error = IoError { file, ..error };
            match error.kind {
                IoErrorKind::NoSpace => Error::DiskFull(error.to_string()),
                _ => Error::Io(error),
            }
        }
        Error::DiskFull(what) => Error::DiskFull(format!("{directory}: {what}")),
        other => other,
    }
}

/// Copies the files of the database in `from`, which is not open, into `target` and leaves that
/// marked as unfinished; [`Restored::finish`] removes the mark. `pace` gets the bytes written.
pub(crate) fn restore(
    from: &Io,
    from_name: &str,
    target: Target,
    pace: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Restored> {
    let source = |error: IoError| named(from_name, Error::Io(error));
    target.begin()?;
    let mut buffer = AlignedBuf::zeroed(PIECE);
    for folder in ["", "data", "wal"] {
        for name in from.list(folder).map_err(source)? {
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if FOLDERS.contains(&path.as_str()) || path == LOCK {
                continue;
            }
            let file = from.open_buffered(&path, OpenMode::ReadOnly).map_err(source)?;
            let (len, out) = (file.len().map_err(source)?, target.create(&path)?);
            let mut at = 0;
            while at < len {
                let piece = (buffer.len() as u64).min(len - at) as usize;
                file.read_exact_at(&mut buffer[..piece], at).map_err(source)?;
                // The log's files keep the space that they have.
                let written = match folder {
                    "data" => target.write_pages(&out, &buffer[..piece], at)?,
                    _ => target.write(&out, &buffer[..piece], at).map(|()| piece)?,
                };
                at += piece as u64;
                pace(written as u64)?;
            }
            target.set_len(&out, len)?;
            target.sync(&out)?;
        }
    }
    for folder in FOLDERS.iter().chain(&[""]) {
        target.check(target.io.sync_dir(folder))?;
    }
    let Target { io, name, .. } = target;
    Ok(Restored { io, name })
}

/// A database whose files are all there, still marked as unfinished.
pub(crate) struct Restored {
    io: Io,
    name: String,
}

impl Restored {
    /// Takes the mark away: the database may be opened.
    pub(crate) fn finish(self) -> Result<()> {
        let Restored { io, name } = self;
        let _lock = io.lock(LOCK).map_err(|error| named(&name, Error::Io(error)))?;
        Target { io, name, _lock }.end()
    }
}
