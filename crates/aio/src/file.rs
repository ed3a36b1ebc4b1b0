//! An open file, of the system or of the simulation, with blocking calls. Asynchronous ones are
//! submitted to the `Io` that opened it. Every error names the call, the file and the offset;
//! nothing here retries or hides a failed write or sync.

use crate::buf::{self, ALIGNMENT, IoBufs};
use crate::core::Core;
use crate::error::{IoError, IoErrorKind, RawError};
use crate::overlay::OverlayFile;
use crate::progress::{Direction, Progress, retried};
use crate::sim::SimFile;
use crate::sys;
use rightlink_env::sync::Arc;
use rustix::fd::OwnedFd;

/// An open file. Clones share it; the last one closes it.
#[derive(Clone, Debug)]
pub struct File {
    inner: Arc<FileInner>,
}

#[derive(Debug)]
pub(crate) struct FileInner {
    name: String,
    /// Asked to be direct: alignment is asserted even where the file system refused.
    direct: bool,
    /// Opened for reads that are planned ahead: the system reads nothing else.
    planned: bool,
    target: Target,
    core: Arc<Core>,
}

/// What carries the calls out.
#[derive(Debug)]
pub(crate) enum Target {
    Os(OwnedFd),
    Sim(SimFile),
    Overlay(OverlayFile),
}

impl File {
    pub(crate) fn new(name: &str, direct: bool, target: Target, core: Arc<Core>) -> File {
        let (name, planned) = (name.to_string(), false);
        File { inner: Arc::new(FileInner { name, direct, planned, target, core }) }
    }

    /// The same file by another opening, for reads that are planned ahead.
    pub(crate) fn planned(&self, fd: OwnedFd) -> File {
        let (name, core) = (self.inner.name.clone(), Arc::clone(&self.inner.core));
        let target = Target::Os(fd);
        File { inner: Arc::new(FileInner { name, direct: false, planned: true, target, core }) }
    }

    pub(crate) fn inner(&self) -> &FileInner {
        &self.inner
    }

    /// The name below the root.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Whether the file was opened for direct I/O and so asks for alignment.
    pub fn is_direct(&self) -> bool {
        self.inner.direct
    }

    /// Reads into `bytes`; fewer only at the end of the file.
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize, IoError> {
        if bytes.is_empty() {
            return Ok(0);
        }
        buf::with_mut(bytes, |bufs| self.transfer(Direction::Read, bufs, offset))
    }

    /// Fills `bytes`; a file that ends before is an error of kind `ShortRead`.
    pub fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), IoError> {
        let moved = self.read_at(bytes, offset)?;
        if moved == bytes.len() {
            return Ok(());
        }
        let end = offset + moved as u64;
        Err(IoError::new("read", self.name(), end, IoErrorKind::ShortRead))
    }

    /// Writes all of `bytes`.
    pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<(), IoError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let moved = buf::with_ref(bytes, |bufs| self.transfer(Direction::Write, bufs, offset))?;
        assert_eq!(moved, bytes.len(), "a write moves all bytes or fails");
        Ok(())
    }

    /// Writes all `pieces`, one after the other in the file, in as few calls as possible.
    pub fn write_vectored_at(&self, pieces: &[&[u8]], offset: u64) -> Result<(), IoError> {
        let mut offset = offset;
        for pieces in pieces.chunks(buf::MAX_SEGMENTS) {
            if pieces.iter().any(|piece| !piece.is_empty()) {
                let write = |bufs: &IoBufs| self.transfer(Direction::Write, bufs, offset);
                offset += buf::with_refs(pieces, write)? as u64;
            }
        }
        Ok(())
    }

    fn transfer(&self, direction: Direction, bufs: &IoBufs, at: u64) -> Result<usize, IoError> {
        self.inner.assert_aligned(at, bufs.is_aligned());
        assert!(at.checked_add(bufs.total() as u64).is_some(), "offsets fit 64 bits");
        let result = self.inner.run(direction, bufs, at);
        let result = self.inner.name_transfer(direction, at, result);
        self.inner.core.stats.count(direction, &result);
        result
    }

    /// Makes data and size durable. After an error nothing is known about earlier writes, and a
    /// second call that succeeds proves nothing.
    pub fn sync_data(&self) -> Result<(), IoError> {
        self.sync("sync data of", sys::sync_data)
    }

    /// Makes everything about the file durable; its name needs `Io::sync_dir`.
    pub fn sync_all(&self) -> Result<(), IoError> {
        self.sync("sync", sys::sync)
    }

    fn sync(
        &self,
        op: &'static str,
        os: fn(&OwnedFd) -> Result<(), RawError>,
    ) -> Result<(), IoError> {
        let due = self.inner.core.due(0);
        let result = retried(|| match &self.inner.target {
            Target::Os(fd) => os(fd),
            Target::Sim(sim) => sim.sync(),
            Target::Overlay(_) => Ok(()),
        });
        self.inner.core.wait_due(due);
        self.inner.name_error(op, 0, result)?;
        self.inner.core.stats.count_sync();
        Ok(())
    }

    /// The size in bytes.
    pub fn len(&self) -> Result<u64, IoError> {
        let result = retried(|| match &self.inner.target {
            Target::Os(fd) => sys::len(fd),
            Target::Sim(sim) => sim.len(),
            Target::Overlay(over) => Ok(over.len()),
        });
        self.inner.name_error("stat", 0, result)
    }

    /// Whether the file has no bytes.
    pub fn is_empty(&self) -> Result<bool, IoError> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file, or extends it by zeros that take no space yet.
    pub fn set_len(&self, len: u64) -> Result<(), IoError> {
        let result = retried(|| match &self.inner.target {
            Target::Os(fd) => sys::set_len(fd, len),
            Target::Sim(sim) => sim.set_len(len),
            Target::Overlay(over) => over.set_len(len),
        });
        self.inner.name_error("truncate", len, result)
    }

    /// Takes space for `len` bytes from `offset`, and extends the file over them with zeros. Bytes
    /// that are there stay.
    pub fn allocate(&self, offset: u64, len: u64) -> Result<(), IoError> {
        assert!(len > 0 && offset.checked_add(len).is_some(), "a range of the file");
        let result = retried(|| match &self.inner.target {
            Target::Os(fd) => sys::allocate(fd, offset, len),
            Target::Sim(sim) => sim.allocate(offset, len),
            Target::Overlay(over) => over.allocate(offset, len),
        });
        self.inner.name_error("allocate", offset, result)
    }

    /// Gives the space of a range back; its bytes read as zeros from then on, the length stays.
    /// Where the file system cannot do that, nothing happens. Durable no sooner than a sync.
    pub fn punch_hole(&self, offset: u64, len: u64) -> Result<(), IoError> {
        assert!(len > 0 && offset.checked_add(len).is_some(), "a range of the file");
        let result = retried(|| match &self.inner.target {
            Target::Os(fd) => sys::punch_hole(fd, offset, len),
            Target::Sim(sim) => sim.punch_hole(offset, len),
            Target::Overlay(_) => Ok(()),
        });
        self.inner.name_error("punch hole", offset, result)
    }
}

impl FileInner {
    pub(crate) fn is_direct(&self) -> bool {
        self.direct
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn is_planned(&self) -> bool {
        self.planned
    }

    /// The system's file; none in a simulation.
    pub(crate) fn os(&self) -> Option<&OwnedFd> {
        match &self.target {
            Target::Os(fd) => Some(fd),
            Target::Sim(_) | Target::Overlay(_) => None,
        }
    }

    /// Direct I/O with a wrong address, length or offset is a programmer's error.
    pub(crate) fn assert_aligned(&self, offset: u64, memory_is_aligned: bool) {
        if self.direct {
            assert!(memory_is_aligned, "direct I/O on {:?} needs aligned memory", self.name);
            let aligned = offset.is_multiple_of(ALIGNMENT as u64);
            assert!(aligned, "direct I/O on {:?} at offset {offset}", self.name);
        }
    }

    /// Carries a transfer out on this thread, in the time that the device takes.
    pub(crate) fn run(
        &self,
        direction: Direction,
        bufs: &IoBufs,
        offset: u64,
    ) -> Result<usize, RawError> {
        let due = self.core.due(bufs.total());
        let result = self.attempt(direction, bufs, offset);
        self.core.wait_due(due);
        result
    }

    /// Carries a transfer out on this thread, device time aside.
    pub(crate) fn attempt(
        &self,
        direction: Direction,
        bufs: &IoBufs,
        offset: u64,
    ) -> Result<usize, RawError> {
        let mut progress = Progress::new(direction, self.direct, bufs.total());
        loop {
            let (skip, at) = (progress.moved(), offset + progress.moved() as u64);
            let result = match direction {
                Direction::Read => self.read_once(bufs, skip, at),
                Direction::Write => self.write_once(bufs, skip, at),
            };
            if let Some(end) = progress.step(result) {
                return end;
            }
        }
    }

    /// The result of a transfer with call and file named.
    pub(crate) fn name_transfer(
        &self,
        direction: Direction,
        offset: u64,
        result: Result<usize, RawError>,
    ) -> Result<usize, IoError> {
        self.name_error(direction.name(), offset, result)
    }

    /// One attempt to read.
    fn read_once(&self, bufs: &IoBufs, skip: usize, at: u64) -> Result<usize, RawError> {
        match &self.target {
            Target::Os(fd) => sys::read(fd, bufs, skip, at),
            Target::Sim(sim) => sim.read(bufs, skip, at),
            Target::Overlay(over) => over.read(bufs, skip, at),
        }
    }

    /// One attempt to write.
    fn write_once(&self, bufs: &IoBufs, skip: usize, at: u64) -> Result<usize, RawError> {
        match &self.target {
            Target::Os(fd) => sys::write(fd, bufs, skip, at),
            Target::Sim(sim) => sim.write(bufs, skip, at),
            Target::Overlay(over) => over.write(bufs, skip, at),
        }
    }

    fn name_error<T>(
        &self,
        op: &'static str,
        offset: u64,
        result: Result<T, RawError>,
    ) -> Result<T, IoError> {
        result.map_err(|raw| IoError::from_raw(op, &self.name, offset, raw))
    }
}
