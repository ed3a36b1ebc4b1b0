//! Pages of a backup: a file is read through the pool, its pages are checksummed and written.
//!
//! Invariants: a page is copied under its latch, with every change that was made before, and the
//! copy is checksummed (R2). Its file is not cut or dropped between the look at its length and the
//! read. No latch and no pin is held while the copy is written (R7).
//! Does not do: choose files.

use rightlink_aio::{AlignedBuf, File};
use rightlink_env::Reservation;

use crate::backup::{CHUNK, Target};
use crate::buffer::{BufferPool, ReadStream, StreamOptions};
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::{BlockNo, FileId, Lsn, PageId};
use crate::page::{checksum, header};
use crate::txn::TxnManager;

/// Copies pages into another directory.
pub(super) struct Pages<'a> {
    pool: &'a BufferPool,
    txns: &'a TxnManager,
    target: &'a Target,
    buffer: AlignedBuf,
    _memory: Reservation,
}

/// Neighbours in the buffer.
#[derive(Default)]
struct PageRun {
    first: u32,
    len: usize,
}

impl<'a> Pages<'a> {
    /// Copies pages of `pool` to `target`; takes [`CHUNK`] pages of the memory budget.
    pub(super) fn new(
        pool: &'a BufferPool,
        txns: &'a TxnManager,
        target: &'a Target,
    ) -> Result<Self> {
        let bytes = CHUNK * PAGE_SIZE;
        let full =
            || Error::OutOfMemory(format!("the memory budget has no {bytes} bytes for a backup"));
        let _memory = pool.budget().try_reserve(bytes).ok_or_else(full)?;
        Ok(Self { pool, txns, target, buffer: AlignedBuf::zeroed(bytes), _memory })
    }

    /// Was block 0 of the file ever formatted? Not if it has none, or is gone.
    pub(super) fn is_formatted(&self, file: FileId) -> Result<bool> {
        let look = || match self.pool.open_blocks(file) {
            None | Some(0) => Ok(false),
            Some(_) => {
                let pin = self.pool.pin(PageId::new(file, 0))?;
                Ok(header::lsn(pin.shared().bytes()) != Lsn(0))
            }
        };
        self.pool.while_whole(file, look).unwrap_or(Ok(false))
    }

    /// Copies a file, unless it is dropped. `pace` gets the number of pages copied since its last
    /// call.
    pub(super) fn copy_file(
        &mut self,
        file: FileId,
        pace: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let out = self.target.create(&file.path())?;
        let pool = self.pool;
        let first = self.txns.blocks_not_kept(file);
        let mut next = first;
        let source = || {
            let block = next;
            let there = pool.open_blocks(file).is_some_and(|blocks| block < blocks);
            next += u32::from(there);
            Ok(there.then(|| (PageId::new(file, block), block)))
        };
        // The length is known, and all of it is needed: full distance from the start.
        let options = StreamOptions { expected: u32::MAX, ..StreamOptions::ORDERED };
        let mut stream = ReadStream::new(pool, options, source);
        let (mut run, mut end) = (PageRun { first, len: 0 }, 0);
        // A file that is dropped meanwhile ends: its table is dropped in the log of the copy.
        while let Some(step) = pool.while_whole(file, || stream.next_tried()) {
            let Some((pin, block)) = step? else { break };
            let pin = match pin {
                Ok(pin) => pin,
                // Cut off since the length was looked at; what grows there again is logged.
                Err(_) if pool.open_blocks(file).is_none_or(|blocks| block >= blocks) => break,
                Err(error) => return Err(error),
            };
            self.buffer[run.len * PAGE_SIZE..][..PAGE_SIZE].copy_from_slice(pin.shared().bytes());
            drop(pin);
            run.len += 1;
            end = block + 1;
            if run.len == CHUNK {
                self.write(&out, file, &mut run)?;
                pace(CHUNK as u64)?;
            }
        }
        let left = run.len as u64;
        self.write(&out, file, &mut run)?;
        self.target.set_len(&out, u64::from(end) * PAGE_SIZE as u64)?;
        self.target.sync(&out)?;
        pace(left)
    }

    /// Writes the pages in the buffer; those that were never formatted stay holes.
    fn write(&mut self, out: &File, file: FileId, run: &mut PageRun) -> Result<()> {
        let mut from = 0;
        for at in 0..run.len {
            let place = at * PAGE_SIZE..(at + 1) * PAGE_SIZE;
            let page: &mut [u8; PAGE_SIZE] =
                (&mut self.buffer[place]).try_into().expect("a place holds a page");
            if header::is_zero(page) {
                self.write_pages(out, run.first, from..at)?;
                from = at + 1;
                continue;
            }
            let block = BlockNo(run.first + at as u32);
            checksum::stamp(PageId { file, block }, page);
        }
        self.write_pages(out, run.first, from..run.len)?;
        *run = PageRun { first: run.first + run.len as u32, len: 0 };
        Ok(())
    }

    fn write_pages(&self, out: &File, first: u32, pages: std::ops::Range<usize>) -> Result<()> {
        if pages.is_empty() {
            return Ok(());
        }
        let at = (u64::from(first) + pages.start as u64) * PAGE_SIZE as u64;
        let bytes = &self.buffer[pages.start * PAGE_SIZE..pages.end * PAGE_SIZE];
        self.target.write(out, bytes, at)
    }
}
