//! An open file and a lock of the simulated disk.

use super::disk::SimDisk;
use super::image::Ino;
use crate::buf::IoBufs;
use crate::error::RawError;
use crate::options::OpenMode;
use rightlink_env::sync::Arc;

type Raw<T> = Result<T, RawError>;

/// An open file.
#[derive(Debug)]
pub(crate) struct SimFile {
    disk: SimDisk,
    ino: Ino,
    read_only: bool,
}

impl SimFile {
    /// Opens the file `name` of `disk`.
    pub(crate) fn open(disk: &SimDisk, name: &str, mode: OpenMode) -> Raw<SimFile> {
        let ino = disk.open(name, mode)?;
        Ok(SimFile { disk: disk.clone(), ino, read_only: mode == OpenMode::ReadOnly })
    }

    pub(crate) fn read(&self, bufs: &IoBufs, skip: usize, offset: u64) -> Raw<usize> {
        self.disk.read(self.ino, offset, bufs.slices_mut(skip))
    }

    pub(crate) fn write(&self, bufs: &IoBufs, skip: usize, offset: u64) -> Raw<usize> {
        self.check_writable()?;
        let mut bytes = Vec::with_capacity(bufs.total() - skip);
        bufs.slices(skip).iter().for_each(|slice| bytes.extend_from_slice(slice));
        self.disk.write(self.ino, offset, bytes)
    }

    pub(crate) fn sync(&self) -> Raw<()> {
        self.disk.sync(self.ino)
    }

    pub(crate) fn len(&self) -> Raw<u64> {
        self.disk.file_len(self.ino)
    }

    pub(crate) fn set_len(&self, len: u64) -> Raw<()> {
        self.check_writable()?;
        self.disk.set_len(self.ino, len)
    }

    pub(crate) fn allocate(&self, offset: u64, len: u64) -> Raw<()> {
        self.check_writable()?;
        self.disk.allocate(self.ino, offset, len)
    }

    /// Zeros up to the end of the file: what a crash leaves of a hole is what it leaves of them.
    pub(crate) fn punch_hole(&self, offset: u64, len: u64) -> Raw<()> {
        self.check_writable()?;
        let len = self.len()?.saturating_sub(offset).min(len);
        let zeros = vec![0; usize::try_from(len).expect("a range of a file in memory")];
        let written =
            if zeros.is_empty() { 0 } else { self.disk.write(self.ino, offset, zeros)? };
        assert!(written as u64 <= len, "no more is written than was given");
        Ok(())
    }

    fn check_writable(&self) -> Raw<()> {
        let refused = RawError::from_os(crate::error::number::BADF);
        if self.read_only { Err(refused) } else { Ok(()) }
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.disk.close(self.ino);
    }
}

/// A lock.
#[derive(Debug)]
pub(crate) struct SimLock {
    disk: SimDisk,
    name: Arc<str>,
}

impl SimLock {
    /// Takes the lock `name` of `disk`.
    pub(crate) fn take(disk: &SimDisk, name: &str) -> Raw<SimLock> {
        disk.lock(name)?;
        Ok(SimLock { disk: disk.clone(), name: name.into() })
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.unlock(&self.name);
    }
}
