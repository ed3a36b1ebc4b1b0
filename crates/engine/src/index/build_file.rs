//! The file of a bulk build: what all methods share.
//!
//! Pages are written through the pool without log records. Then the file is synced, and one logged
//! record, the meta page, publishes the index (R18). A crash before that leaves a file whose block
//! 0 is empty; no catalog entry names it, and it is dropped.
//!
//! Invariants: no other thread grows the file of a build.
//! Does not do: the content of pages.

use rightlink_env::sync::Arc;

use crate::buffer::{BufferPool, Mtr};
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::{FileId, PageId, Xid};
use crate::page::header::{KIND, LSN};
use crate::wal::RecordKind;

/// Blocks by which the file grows.
const GROW: u32 = 64;

/// A file that is being built.
pub(crate) struct BuildFile {
    pub(crate) pool: Arc<BufferPool>,
    pub(crate) file: FileId,
    /// Blocks allocated so far.
    pub(crate) next_block: u32,
    blocks: u32,
}

impl BuildFile {
    /// A build into `file`, which exists and is empty. Block 0 is set aside for the meta page.
    pub(crate) fn new(pool: &Arc<BufferPool>, file: FileId) -> Result<BuildFile> {
        if pool.blocks(file) != 0 {
            return Err(not_empty(file));
        }
        let mut build = BuildFile { pool: Arc::clone(pool), file, next_block: 0, blocks: 0 };
        let meta = build.allocate()?;
        assert!(meta == 0, "the meta page is block 0");
        Ok(build)
    }

    /// Block for the next page.
    pub(crate) fn allocate(&mut self) -> Result<u32> {
        if self.next_block == self.blocks {
            let first = self.pool.extend(self.file, GROW)?.0;
            assert!(first == self.blocks, "no other thread grows the file of a build");
            self.blocks += GROW;
        }
        self.next_block += 1;
        Ok(self.next_block - 1)
    }

    /// Writes a page without a record, with the current LSN. A page without an LSN counts as never
    /// formatted, and its next change is logged as a whole image. In an empty log that happens: no
    /// record exists that write-back could make durable.
    pub(crate) fn write(&self, block: u32, image: &[u8; PAGE_SIZE]) -> Result<()> {
        let pin = self.pool.pin_new(PageId::new(self.file, block))?;
        let mut image = *image;
        let now = self.pool.wal().end();
        image[LSN..LSN + 8].copy_from_slice(&now.0.to_le_bytes());
        while !pin.hint(None, |page| page.write_unlogged(KIND, &image[KIND..])) {
            rightlink_env::thread::yield_now();
        }
        Ok(())
    }

    /// Syncs the pages, then publishes the index with its meta page.
    pub(crate) fn publish(&self, meta: &[u8; PAGE_SIZE]) -> Result<()> {
        if self.next_block < self.blocks {
            self.pool.truncate(self.file, self.next_block)?;
        }
        self.pool.sync_file(self.file)?;
        let pin = self.pool.pin_new(PageId::new(self.file, 0))?;
        let mut mtr = Mtr::new(&self.pool);
        let held = mtr.latch(pin);
        mtr.page(held).replace(meta);
        mtr.commit(RecordKind::IndexMeta, Xid::NONE)?;
        Ok(())
    }
}

/// A new index finds pages in its file.
pub(crate) fn not_empty(file: FileId) -> Error {
    Error::Invalid(format!("file {} of a new index is not empty", file.0))
}
