//! I/O errors: which call, which file, where, and what the caller can do about it.

use std::fmt;

/// An I/O call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoError {
    /// The call, such as `"read"`.
    pub op: &'static str,
    /// The file's name below the root.
    pub file: String,
    /// Where in the file; 0 for calls on whole files.
    pub offset: u64,
    /// What a caller can tell apart.
    pub kind: IoErrorKind,
    /// The system's error number, if the system reported the error.
    pub os: Option<i32>,
    /// The process that holds the lock, for [`IoErrorKind::Locked`], if it is known.
    pub holder: Option<u32>,
}

/// What a caller can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IoErrorKind {
    /// There is no such file or directory.
    NotFound,
    /// The file exists and should not.
    AlreadyExists,
    /// The device or the quota is full, or the file may not grow (`ulimit -f`).
    NoSpace,
    /// The process, or the system, has as many files open as it may.
    TooManyFiles,
    /// The file may not be used this way.
    Permission,
    /// Interrupted again and again; a few interruptions are retried silently.
    Interrupted,
    /// A file is where a directory is needed.
    NotDirectory,
    /// The file ended before the bytes that were asked for.
    ShortRead,
    /// Somebody else holds the lock.
    Locked,
    /// The simulated machine has lost power: every call fails from here on.
    Crashed,
    /// Anything else; `os` says what.
    Other,
}

impl IoErrorKind {
    fn text(self) -> &'static str {
        match self {
            IoErrorKind::NotFound => "not found",
            IoErrorKind::AlreadyExists => "already exists",
            IoErrorKind::NoSpace => "no space left on device",
            IoErrorKind::TooManyFiles => "too many open files",
            IoErrorKind::Permission => "permission denied",
            IoErrorKind::Interrupted => "interrupted",
            IoErrorKind::NotDirectory => "not a directory",
            IoErrorKind::ShortRead => "file ends early",
            IoErrorKind::Locked => "locked by another process or instance",
            IoErrorKind::Crashed => "simulated power loss",
            IoErrorKind::Other => "input/output error",
        }
    }
}

impl IoError {
    /// An error of `op` on `file` at `offset`, found by us and not by the system.
    pub fn new(op: &'static str, file: &str, offset: u64, kind: IoErrorKind) -> IoError {
        IoError { op, file: file.to_string(), offset, kind, os: None, holder: None }
    }

    pub(crate) fn from_raw(op: &'static str, file: &str, offset: u64, raw: RawError) -> IoError {
        IoError { os: raw.os, ..IoError::new(op, file, offset, raw.kind) }
    }

    pub(crate) fn held_by(mut self, holder: Option<u32>) -> IoError {
        assert_eq!(self.kind, IoErrorKind::Locked, "only a lock has a holder");
        self.holder = holder;
        self
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {:?}", self.op, self.file)?;
        if self.offset != 0 {
            write!(f, " at offset {}", self.offset)?;
        }
        match self.os {
            Some(number::FBIG) => f.write_str(": the file would exceed the limit of file sizes")?,
            _ => write!(f, ": {}", self.kind.text())?,
        }
        if let Some(holder) = self.holder {
            write!(f, " (process {holder})")?;
        }
        match self.os {
            Some(os) => write!(f, " (os error {os})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for IoError {}

/// An error before anybody has said which call and file it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawError {
    pub(crate) kind: IoErrorKind,
    pub(crate) os: Option<i32>,
}

/// Error numbers that the simulation reports, as Linux numbers them.
pub(crate) mod number {
    pub(crate) const NOENT: i32 = 2;
    pub(crate) const INTR: i32 = 4;
    pub(crate) const IO: i32 = 5;
    pub(crate) const BADF: i32 = 9;
    pub(crate) const EXIST: i32 = 17;
    pub(crate) const NOTDIR: i32 = 20;
    pub(crate) const ISDIR: i32 = 21;
    pub(crate) const FBIG: i32 = 27;
    pub(crate) const NOSPC: i32 = 28;
    pub(crate) const NOTEMPTY: i32 = 39;
}

impl RawError {
    /// An error of ours.
    pub(crate) fn of(kind: IoErrorKind) -> RawError {
        RawError { kind, os: None }
    }

    /// The error that the system calls `os`.
    pub(crate) fn from_os(os: i32) -> RawError {
        let errno = rustix::io::Errno::from_raw_os_error(os);
        RawError { kind: kind_of(errno), os: Some(os) }
    }
}

fn kind_of(errno: rustix::io::Errno) -> IoErrorKind {
    use rustix::io::Errno;
    match errno {
        Errno::NOENT => IoErrorKind::NotFound,
        Errno::EXIST => IoErrorKind::AlreadyExists,
        // Where SIGXFSZ is ignored or handled, a limit of file sizes is an error like any other.
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => IoErrorKind::NoSpace,
        Errno::MFILE | Errno::NFILE => IoErrorKind::TooManyFiles,
        Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::BADF => IoErrorKind::Permission,
        Errno::NOTDIR => IoErrorKind::NotDirectory,
        Errno::INTR | Errno::AGAIN => IoErrorKind::Interrupted,
        _ => IoErrorKind::Other,
    }
}

impl From<rustix::io::Errno> for RawError {
    fn from(errno: rustix::io::Errno) -> RawError {
        RawError { kind: kind_of(errno), os: Some(errno.raw_os_error()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_everything() {
        let raw = RawError::from_os(number::NOSPC);
        let error = IoError::from_raw("write", "data/7", 8192, raw);
        let text = "cannot write \"data/7\" at offset 8192: no space left on device (os error 28)";
        assert_eq!(error.to_string(), text);
        let raw = RawError::from_os(number::FBIG);
        let error = IoError::from_raw("write", "data/7", 0, raw);
        assert_eq!(error.kind, IoErrorKind::NoSpace);
        let text =
            "cannot write \"data/7\": the file would exceed the limit of file sizes (os error 27)";
        assert_eq!(error.to_string(), text);
        let locked = IoError::new("lock", "LOCK", 0, IoErrorKind::Locked).held_by(Some(9));
        let text = "cannot lock \"LOCK\": locked by another process or instance (process 9)";
        assert_eq!(locked.to_string(), text);
    }
}
