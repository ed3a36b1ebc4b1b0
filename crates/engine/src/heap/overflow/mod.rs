//! Overflow: values that do not fit a row, in chains of pages in a file of their own.
//!
//! | file | concern |
//! |---|---|
//! | `page` | the page of a chain, the map page |
//! | `space` | which blocks are in use, and which a writer has reserved |
//! | `chain` | writing and reading a value from front to back |
//! | `sweep` | giving back chains that no row names any more; check H11 |
//!
//! A row names its value by the chain's first block, its length and the xid that wrote it
//! ([`OverflowPointer`]). An update that leaves the value alone copies the name, so several
//! versions may share a chain. Names are not counted; vacuum marks what rows name and gives back
//! the rest.
//!
//! Invariants: a chain never changes once its row is written. One record logs a page and its mark
//! in the map, after the record of the page that leads to it, so a crash leaves chains that can be
//! walked. A chain is freed, from its last page to its first, only if its writer is below every
//! horizon and no version names it.
//! Does not do: rows, the choice of overflow values, truncation of the file.

mod chain;
mod page;
mod space;
mod sweep;

#[cfg(test)]
mod tests;

use rightlink_env::sync::{Arc, Mutex};

pub(crate) use chain::{OverflowReader, OverflowWriter};
pub(crate) use page::GROUP;
pub(crate) use sweep::{SweepMarks, Swept};

use crate::buffer::BufferPool;
use crate::error::Result;
use crate::ids::{FileId, PageId, Xid};
use space::FreeBlocks;

/// Names a value in overflow pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OverflowPointer {
    /// First block of its chain.
    pub first: u32,
    /// Its bytes.
    pub len: u32,
    /// The xid that wrote it.
    pub creator: Xid,
}

impl OverflowPointer {
    /// Bytes of the name.
    pub const BYTES: usize = 16;

    /// As a row has it.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[..4].copy_from_slice(&self.first.to_le_bytes());
        out[4..8].copy_from_slice(&self.len.to_le_bytes());
        out[8..].copy_from_slice(&self.creator.0.to_le_bytes());
        out
    }

    /// What [`OverflowPointer::to_bytes`] gave.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let word =
            |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let creator = u64::from_le_bytes(bytes[8..].try_into().expect("eight bytes"));
        Self { first: word(0), len: word(4), creator: Xid(creator) }
    }
}

/// The overflow pages of an open table: a cheap handle, all clones share their state.
#[derive(Clone)]
pub struct Overflow {
    shared: Arc<OverflowState>,
}

struct OverflowState {
    pool: Arc<BufferPool>,
    file: FileId,
    /// Taken without any latch.
    space: Mutex<FreeBlocks>,
}

impl Overflow {
    /// Creates the file of a new table.
    pub fn create(pool: &Arc<BufferPool>, file: FileId, logged: bool) -> Result<Self> {
        pool.create_file(file, logged)?;
        let made = Self::new(pool, file);
        made.create_first_map()?;
        Ok(made)
    }

    /// Opens the file of a table that exists.
    pub fn open(pool: &Arc<BufferPool>, file: FileId, logged: bool) -> Result<Self> {
        pool.open_file(file, logged)?;
        Ok(Self::new(pool, file))
    }

    fn new(pool: &Arc<BufferPool>, file: FileId) -> Self {
        let (pool, space) = (Arc::clone(pool), Mutex::new(FreeBlocks::default()));
        Self { shared: Arc::new(OverflowState { pool, file, space }) }
    }

    /// The file.
    pub fn file(&self) -> FileId {
        self.shared.file
    }

    /// Blocks of the file, map pages and free blocks included.
    pub fn blocks(&self) -> u32 {
        self.pool().blocks(self.file())
    }

    fn pool(&self) -> &BufferPool {
        &self.shared.pool
    }

    fn id(&self, block: u32) -> PageId {
        PageId::new(self.shared.file, block)
    }
}
