//! Blocks for new pages.
//!
//! The record that puts a page into a block, or empties the page, also takes the block or gives it
//! back. So no crash loses a block, and `verify` can count them. A block is chosen without a latch,
//! because choosing may read or grow the file (R7), and is checked again under the latch of the
//! meta page, which is latched last (R12).
//!
//! Invariants: a chosen block is a guess until it is taken. Its page may be any page by then, so
//! the latch of that page is not waited for.
//! Does not do: decide which page becomes free (`vacuum`).
//! PostgreSQL: `_hash_addovflpage` with bitmap pages; here free pages form a list.

use rightlink_env::Broken;
use rightlink_env::points::{broken, hit};
use rightlink_env::sync::Arc;

use crate::buffer::{BufferPool, LatchedPage, Mtr, Pin};
use crate::error::Result;
use crate::ids::{FileId, PageId, Xid};
use crate::index::build_file::not_empty;
use crate::index::hash::page::{
    BucketHeader, DirectoryEntry, FIRST, Meta, directory, meta, meta::FIRST_DIRECTORY,
};
use crate::index::hash::state::Index;
use crate::wal::RecordKind;

/// Blocks by which a file grows at most.
const MAX_GROW: u32 = 64;

/// Writes an empty index: meta page, first page of entries, first page of the directory.
pub(super) fn format(pool: &Arc<BufferPool>, file: FileId) -> Result<()> {
    if pool.extend(file, 3)?.0 != 0 {
        return Err(not_empty(file));
    }
    let directory = vec![FIRST_DIRECTORY];
    let used = FIRST_DIRECTORY + 1;
    let empty = Meta { depth: 0, used, free: 0, free_count: 0, directory };
    let bucket = BucketHeader::default().image(&[]).expect("an empty page fits");
    let entries = [DirectoryEntry { bucket: 0, block: FIRST }];
    let images =
        [(FIRST, *bucket), (FIRST_DIRECTORY, directory::image(&entries)), (0, meta::image(&empty))];
    let pin = |(block, _): &(u32, _)| pool.pin_new(PageId::new(file, *block));
    let pins = images.iter().map(pin).collect::<Result<Vec<_>>>()?;
    let mut mtr = Mtr::new(pool);
    for (pin, (_, image)) in pins.into_iter().zip(&images) {
        let held = mtr.latch(pin);
        mtr.page(held).replace(image);
    }
    mtr.commit(RecordKind::IndexMeta, Xid::NONE)?;
    Ok(())
}

/// A block that a new page may go into, and the meta page, both pinned.
pub(crate) struct FreeBlock {
    /// The block.
    pub(crate) block: u32,
    pin: Pin,
    meta: Pin,
    /// Was it the first free page when it was chosen? Else it was the first unused block.
    recycled: bool,
}

/// A block that is taken, under the latches of its page and of the meta page.
pub(crate) struct TakenBlock {
    /// The block.
    pub(crate) block: u32,
    /// Its page.
    pub(crate) page: LatchedPage,
    /// The meta page.
    pub(crate) meta: LatchedPage,
    /// What is left of the list of free pages, if the block was on it.
    rest: Option<FreeList>,
}

struct FreeList {
    first: u32,
    count: u32,
}

impl Index {
    /// Chooses a block for a new page. May read and grow the file: the caller holds no latch.
    pub(crate) fn choose_free_block(&self) -> Result<FreeBlock> {
        let meta = self.pool.pin(self.page(0))?;
        let Meta { free, used, .. } = self.meta()?;
        if free != 0 {
            let pin = self.pool.pin(self.page(free))?;
            return Ok(FreeBlock { block: free, pin, meta, recycled: true });
        }
        if used >= self.pool.blocks(self.file) {
            self.grow(used)?;
        }
        hit("hash.spare.known");
        // Another thread may have taken the block by now, and its page may have been written and
        // have left memory. Zeroes would then replace it.
        let is_new = || {
            let now = meta::parse(meta.shared().bytes());
            now.is_ok_and(|now| now.used == used) || broken(Broken::HashBlockNotRechecked)
        };
        let pin = self.pool.pin_unwritten(self.page(used), &is_new)?;
        Ok(FreeBlock { block: used, pin, meta, recycled: false })
    }

    fn grow(&self, used: u32) -> Result<()> {
        // Other threads that found the file full wait here, and then find it longer.
        let _growth = self.growth.lock();
        let blocks = self.pool.blocks(self.file);
        if used >= blocks {
            let more = (used / 16).clamp(1, MAX_GROW).max(used - blocks + 1);
            self.pool.extend(self.file, more)?;
        }
        Ok(())
    }

    /// Latches the page of a chosen block and the meta page; `None` if another thread was faster.
    pub(crate) fn take_block(
        &self,
        mtr: &mut Mtr<'_>,
        chosen: FreeBlock,
    ) -> Result<Option<TakenBlock>> {
        let FreeBlock { block, pin, meta, recycled } = chosen;
        let Ok(page) = mtr.try_latch(pin) else { return Ok(None) };
        let meta = mtr.latch(meta);
        let now = meta::parse(mtr.bytes(meta)).map_err(|what| self.corrupt(0, what))?;
        if !recycled {
            let unused = now.free == 0 && now.used == block;
            return Ok(unused.then_some(TakenBlock { block, page, meta, rest: None }));
        }
        if now.free != block {
            return Ok(None);
        }
        let next = meta::next_free(mtr.bytes(page));
        let first =
            next.ok_or_else(|| self.corrupt(block, "the list of free pages ends in one"))?;
        if first >= now.used || (first == 0) != (now.free_count == 1) {
            return Err(self.corrupt(block, "a free page leads nowhere"));
        }
        let rest = Some(FreeList { first, count: now.free_count - 1 });
        Ok(Some(TakenBlock { block, page, meta, rest }))
    }

    /// Makes the page `held` a free page; `meta` is latched.
    pub(crate) fn free_block(&self, mtr: &mut Mtr<'_>, held: LatchedPage, meta: LatchedPage) {
        let now = meta::parse(mtr.bytes(meta)).expect("the caller has read it under this latch");
        let block = mtr.id(held).block.0;
        assert!(block > FIRST && block < now.used, "a page that can be given back");
        mtr.page(held).replace(&meta::free_image(now.free));
        meta::store_free(&mut mtr.page(meta), block, now.free_count + 1);
    }
}

impl TakenBlock {
    /// Stores on the meta page that the block is in use.
    pub(crate) fn mark_used(&self, mtr: &mut Mtr<'_>) {
        let mut page = mtr.page(self.meta);
        match &self.rest {
            Some(rest) => meta::store_free(&mut page, rest.first, rest.count),
            None => meta::store_used(&mut page, self.block + 1),
        }
    }
}
