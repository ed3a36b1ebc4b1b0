//! The system calls, one function each, without retries or names. Everything is relative to an open
//! directory, so that a renamed root does not matter. Portable to the Unixes that rustix knows,
//! with direct I/O on Linux only.

use crate::buf::IoBufs;
use crate::error::{IoErrorKind, RawError};
use crate::options::OpenMode;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::path::Path;

type Raw<T> = Result<T, RawError>;

/// Permissions of new files and directories, before the umask.
const FILE_MODE: u32 = 0o640;
const DIR_MODE: u32 = 0o750;

/// Opens the root directory.
pub(crate) fn open_root(path: &Path) -> Raw<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Is there something that is no directory?
pub(crate) fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| !found.is_dir())
}

/// Makes a directory by absolute path, with its parents, each synced into its own parent.
pub(crate) fn create_root(path: &Path) -> Raw<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent {
        create_root(parent)?;
    }
    match rustix::fs::mkdir(path, Mode::from_raw_mode(DIR_MODE)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    sync(&open_root(parent.unwrap_or(Path::new(".")))?)
}

/// Opens a file; `direct` past the page cache.
pub(crate) fn open(root: &OwnedFd, name: &str, mode: OpenMode, direct: bool) -> Raw<OwnedFd> {
    let mut flags = OFlags::CLOEXEC | OFlags::NOFOLLOW;
    flags |= match mode {
        OpenMode::ReadOnly => OFlags::RDONLY,
        OpenMode::Existing => OFlags::RDWR,
        OpenMode::Create => OFlags::RDWR | OFlags::CREATE,
        OpenMode::CreateNew => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
    };
    flags |= if direct { direct_flag() } else { OFlags::empty() };
    Ok(rustix::fs::openat(root, name, flags, Mode::from_raw_mode(FILE_MODE))?)
}

#[cfg(target_os = "linux")]
fn direct_flag() -> OFlags {
    OFlags::DIRECT
}

/// Has the system read no more of this opening of a file than it is asked for.
#[cfg(target_os = "linux")]
pub(crate) fn read_nothing_ahead(fd: &OwnedFd) -> Raw<()> {
    Ok(rustix::fs::fadvise(fd, 0, None, rustix::fs::Advice::Random)?)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn read_nothing_ahead(_: &OwnedFd) -> Raw<()> {
    Ok(())
}

/// Whether both are openings of one file: the name of a file may be another's by now.
pub(crate) fn is_same(one: &OwnedFd, other: &OwnedFd) -> Raw<bool> {
    let (one, other) = (rustix::fs::fstat(one)?, rustix::fs::fstat(other)?);
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}

/// Lets sleeps of this thread end when they are over, and not up to 50 us later, where the system
/// can: for threads that stand for a device.
pub(crate) fn sleep_exactly() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

#[cfg(not(target_os = "linux"))]
fn direct_flag() -> OFlags {
    OFlags::empty()
}

/// Whether the error says that the file system knows no direct I/O.
pub(crate) fn refuses_direct(error: RawError) -> bool {
    error.os == Some(Errno::INVAL.raw_os_error())
}

/// Reads into `bufs` after `skip` bytes; 0 at the end of the file.
pub(crate) fn read(fd: &OwnedFd, bufs: &IoBufs, skip: usize, offset: u64) -> Raw<usize> {
    Ok(rustix::io::preadv(fd, &mut bufs.slices_mut(skip), offset)?)
}

/// Writes `bufs` after `skip` bytes.
pub(crate) fn write(fd: &OwnedFd, bufs: &IoBufs, skip: usize, offset: u64) -> Raw<usize> {
    Ok(rustix::io::pwritev(fd, &bufs.slices(skip), offset)?)
}

/// Makes data and size durable.
pub(crate) fn sync_data(fd: &OwnedFd) -> Raw<()> {
    Ok(rustix::fs::fdatasync(fd)?)
}

/// Makes everything about the file (or directory) durable.
pub(crate) fn sync(fd: &OwnedFd) -> Raw<()> {
    Ok(rustix::fs::fsync(fd)?)
}

/// The file's size.
pub(crate) fn len(fd: &OwnedFd) -> Raw<u64> {
    let size = rustix::fs::fstat(fd)?.st_size;
    Ok(u64::try_from(size).expect("the system reports no negative size"))
}

/// Cuts or extends the file; new bytes are zero.
pub(crate) fn set_len(fd: &OwnedFd, len: u64) -> Raw<()> {
    Ok(rustix::fs::ftruncate(fd, len)?)
}

/// Allocates space and extends the file over it. Where the file system knows no allocation the
/// file is only extended.
pub(crate) fn allocate(fd: &OwnedFd, offset: u64, bytes: u64) -> Raw<()> {
    match rustix::fs::fallocate(fd, FallocateFlags::empty(), offset, bytes) {
        Err(Errno::OPNOTSUPP) if len(fd)? < offset + bytes => set_len(fd, offset + bytes),
        Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Gives space back. Where the file system knows no holes, nothing happens.
pub(crate) fn punch_hole(fd: &OwnedFd, offset: u64, bytes: u64) -> Raw<()> {
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(fd, how, offset, bytes) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Whether there is a file or directory of this name.
pub(crate) fn exists(root: &OwnedFd, name: &str) -> Raw<bool> {
    match rustix::fs::statat(root, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Removes a file or an empty directory.
pub(crate) fn remove(root: &OwnedFd, name: &str) -> Raw<()> {
    match rustix::fs::unlinkat(root, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => {
            Ok(rustix::fs::unlinkat(root, name, AtFlags::REMOVEDIR)?)
        }
        result => Ok(result?),
    }
}

/// Renames, replacing a file of the new name.
pub(crate) fn rename(root: &OwnedFd, from: &str, to: &str) -> Raw<()> {
    Ok(rustix::fs::renameat(root, from, root, to)?)
}

/// Makes a directory; fine if it is there.
pub(crate) fn create_dir(root: &OwnedFd, name: &str) -> Raw<()> {
    match rustix::fs::mkdirat(root, name, Mode::from_raw_mode(DIR_MODE)) {
        Err(Errno::EXIST) => open_dir(root, name).map(drop),
        result => Ok(result?),
    }
}

fn open_dir(root: &OwnedFd, name: &str) -> Raw<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(root, name, flags, Mode::empty())?)
}

/// The directory called `name`; the empty name is the root itself.
pub(crate) fn dir(root: &OwnedFd, name: &str) -> Raw<OwnedFd> {
    open_dir(root, if name.is_empty() { "." } else { name })
}

/// The names in an open directory, in order.
pub(crate) fn list(dir: &OwnedFd) -> Raw<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let text = entry.file_name().to_string_lossy();
        if text != "." && text != ".." {
            names.push(text.into_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Takes the exclusive lock on an open file, or says that somebody has it. The lock belongs to this
/// opening of the file, so a second one in the same process is refused too.
pub(crate) fn lock(fd: BorrowedFd<'_>) -> Raw<()> {
    match rustix::fs::flock(fd, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::AGAIN) => Err(RawError::of(IoErrorKind::Locked)),
        result => Ok(result?),
    }
}

/// Writes this process's number into the lock file, for those who are refused.
pub(crate) fn write_holder(fd: &OwnedFd) -> Raw<()> {
    let text = format!("{}\n", std::process::id());
    rustix::fs::ftruncate(fd, 0)?;
    let written = rustix::io::pwrite(fd.as_fd(), text.as_bytes(), 0)?;
    if written == text.len() { Ok(()) } else { Err(RawError::of(IoErrorKind::NoSpace)) }
}

/// The process number in a lock file, if there is one.
pub(crate) fn read_holder(fd: &OwnedFd) -> Option<u32> {
    let mut text = [0u8; 16];
    let len = rustix::io::pread(fd.as_fd(), &mut text, 0).ok()?;
    std::str::from_utf8(text.get(..len)?).ok()?.trim().parse().ok()
}
