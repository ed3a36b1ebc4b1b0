//! Block 0: how many blocks are in use, the free ones, and where the directory is.
//!
//! FORMAT. Page of kind `HashMeta`; offset 32: bits of the largest bucket number u32, 36: blocks in
//! use u32 (all beyond were never written), 40: first free page u32 (0: none), 44: number of free
//! pages u32, 48: 16 bytes 0, 64: blocks of the directory u32 each, 0 where there is none yet. A
//! free page, of kind `HashFree`, holds the block of the next one at offset 32.
//!
//! A block is taken or given back by the very record that puts a page in it or empties it: no crash
//! loses one, and `verify` can count them. Which block it will be is found out first, without a
//! latch (R7), and is asked again under the latch of this page, which is the last one to be taken
//! (R12).
//!
//! Invariants: the first page of entries is block 1, for ever.
//! Does not do: bucket numbers (`directory`).

use rightlink_env::Broken;
use rightlink_env::points::{broken, hit};
use rightlink_env::sync::Arc;

use crate::buffer::{BufferPool, LatchedPage, Mtr, Pin};
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::{FileId, PageId, Xid};
use crate::index::hash::Index;
use crate::index::hash::bucket::Checked;
use crate::index::hash::code::bits_of;
use crate::index::hash::directory::{self, MAX_NUMBERS, MAX_PAGES};
use crate::index::hash::edit::Frame;
use crate::page::header::{self, HEADER_SIZE, LOWER, u32_at};
use crate::page::{PageKind, PageMut};
use crate::wal::RecordKind;

const DEPTH: usize = HEADER_SIZE;
const USED: usize = HEADER_SIZE + 4;
const FREE: usize = HEADER_SIZE + 8;
const FREE_COUNT: usize = HEADER_SIZE + 12;
const DIRECTORY: usize = HEADER_SIZE + 32;
/// Offset of the next free page on a free page.
const NEXT: usize = HEADER_SIZE;

/// Block of the first page of entries.
pub(crate) const FIRST: u32 = 1;
/// Block of the first page of the directory of a new index.
const FIRST_DIRECTORY: u32 = 2;

const _: () = assert!(DIRECTORY + 4 * MAX_PAGES <= PAGE_SIZE, "the directory's blocks fit");

type Page = [u8; PAGE_SIZE];

/// The meta page, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    /// Bits of the largest bucket number.
    pub(crate) depth: u32,
    /// Blocks in use.
    pub(crate) used: u32,
    /// First free page, 0: none.
    pub(crate) free: u32,
    /// Free pages.
    pub(crate) free_count: u32,
    /// Blocks of the directory, 0 where there is none.
    pub(crate) directory: Vec<u32>,
}

/// Reads a meta page.
pub(crate) fn parse(page: &Page) -> Checked<Meta> {
    if header::kind(page) != Some(PageKind::HashMeta) {
        return Err("block 0 is not the meta page of a hash index");
    }
    let directory: Vec<u32> = (0..MAX_PAGES).map(|i| u32_at(page, DIRECTORY + 4 * i)).collect();
    let meta = Meta {
        depth: u32_at(page, DEPTH),
        used: u32_at(page, USED),
        free: u32_at(page, FREE),
        free_count: u32_at(page, FREE_COUNT),
        directory,
    };
    let outside = |block: &u32| *block >= meta.used;
    if meta.depth > bits_of(MAX_NUMBERS - 1)
        || meta.used <= FIRST_DIRECTORY
        || outside(&meta.free)
        || (meta.free == 0) != (meta.free_count == 0)
        || meta.directory.iter().any(outside)
    {
        return Err("the meta page makes no sense");
    }
    Ok(meta)
}

/// The next free page after `page`, which is one.
pub(crate) fn next_free(page: &Page) -> Option<u32> {
    (header::kind(page) == Some(PageKind::HashFree)).then(|| u32_at(page, NEXT))
}

/// Image of a meta page.
pub(crate) fn image(meta: &Meta) -> Page {
    assert!(meta.directory.len() <= MAX_PAGES, "a directory that fits");
    let mut image = header::format(PageKind::HashMeta, 0);
    image[LOWER..LOWER + 2].copy_from_slice(&(DIRECTORY as u16).to_le_bytes());
    let fields = [(DEPTH, meta.depth), (USED, meta.used), (FREE, meta.free)];
    for (at, value) in fields.into_iter().chain([(FREE_COUNT, meta.free_count)]) {
        image[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    for (i, block) in meta.directory.iter().enumerate() {
        let at = DIRECTORY + 4 * i;
        image[at..at + 4].copy_from_slice(&block.to_le_bytes());
    }
    image
}

/// Stores the bits of the largest bucket number.
pub(crate) fn store_depth(page: &mut PageMut<'_>, depth: u32) {
    assert!(depth <= bits_of(MAX_NUMBERS - 1), "a number that the directory can name");
    page.put_u32(DEPTH, depth);
}

/// Stores the block of page `i` of the directory.
pub(crate) fn store_directory(page: &mut PageMut<'_>, i: usize, block: u32) {
    assert!(i < MAX_PAGES && block != 0, "a page of the directory");
    page.put_u32(DIRECTORY + 4 * i, block);
}

/// Writes an empty index: meta page, first page of entries, first page of the directory.
pub(crate) fn format(pool: &Arc<BufferPool>, file: FileId) -> Result<()> {
    let first = pool.extend(file, 3)?;
    if first.0 != 0 {
        return Err(Error::Invalid(format!("file {} of a new index is not empty", file.0)));
    }
    let pin = |block| pool.pin_new(PageId::new(file, block));
    let pins = (pin(FIRST)?, pin(FIRST_DIRECTORY)?, pin(0)?);
    let mut mtr = Mtr::new(pool);
    let bucket = mtr.latch(pins.0);
    let numbers = mtr.latch(pins.1);
    let meta = mtr.latch(pins.2);
    let empty = Frame::default().image(&[]).expect("an empty page fits");
    mtr.page(bucket).replace(&empty);
    mtr.page(numbers).replace(&directory::image(&[(0, FIRST)]));
    let fresh = Meta {
        depth: 0,
        used: FIRST_DIRECTORY + 1,
        free: 0,
        free_count: 0,
        directory: vec![FIRST_DIRECTORY],
    };
    mtr.page(meta).replace(&image(&fresh));
    mtr.commit(RecordKind::IndexMeta, Xid::NONE)?;
    Ok(())
}

/// A block that a new page may go into, and the meta page; both pinned, nothing promised.
pub(crate) struct Spare {
    /// The block.
    pub(crate) block: u32,
    pin: Pin,
    meta: Pin,
    /// What the meta page said: is it the first free page, or the first that was never used?
    recycled: bool,
}

/// A block that is taken, under the latches of its page and of the meta page.
pub(crate) struct Taken {
    /// The block.
    pub(crate) block: u32,
    /// Its page.
    pub(crate) page: LatchedPage,
    meta: LatchedPage,
    /// Next free page, if it was one.
    next: Option<u32>,
    free_count: u32,
}

/// Blocks by which a file grows at most.
const MAX_GROW: u32 = 64;

impl Index {
    /// Reads the meta page.
    pub(crate) fn meta(&self) -> Result<Meta> {
        let pin = self.pool.pin(self.page(0))?;
        parse(pin.shared().bytes()).map_err(|what| self.corrupt(0, what))
    }

    /// Finds a block for a new page. May read and grow the file: hold no latch.
    pub(crate) fn spare(&self) -> Result<Spare> {
        let meta = self.pool.pin(self.page(0))?;
        let Meta { free, used, .. } =
            parse(meta.shared().bytes()).map_err(|what| self.corrupt(0, what))?;
        if free != 0 {
            let pin = self.pool.pin(self.page(free))?;
            return Ok(Spare { block: free, pin, meta, recycled: true });
        }
        if used >= self.pool.blocks(self.file) {
            self.grow(used)?;
        }
        hit("hash.spare.known");
        // Others know the block, too: one may have taken it by now, and its page may have been
        // written and have left memory. Zeroes would then stand in its place.
        let is_new = || {
            let now = parse(meta.shared().bytes());
            now.is_ok_and(|now| now.used == used) || broken(Broken::HashBlockNotRechecked)
        };
        let pin = self.pool.pin_unwritten(self.page(used), &is_new)?;
        Ok(Spare { block: used, pin, meta, recycled: false })
    }

    fn grow(&self, used: u32) -> Result<()> {
        // Others that found the file full wait here, and then find it longer.
        let _growing = self.growing.lock();
        let blocks = self.pool.blocks(self.file);
        if used >= blocks {
            let more = (used / 16).clamp(1, MAX_GROW).max(used - blocks + 1);
            self.pool.extend(self.file, more)?;
        }
        Ok(())
    }

    /// Latches the page of `spare` and the meta page; `None` if the block is no longer the next
    /// one to take. The page may be anything by now, so its latch is not waited for (R12).
    pub(crate) fn take(&self, mtr: &mut Mtr<'_>, spare: Spare) -> Result<Option<Taken>> {
        let Spare { block, pin, meta, recycled } = spare;
        let Ok(page) = mtr.try_latch(pin) else { return Ok(None) };
        let meta = mtr.latch(meta);
        let now = parse(mtr.bytes(meta)).map_err(|what| self.corrupt(0, what))?;
        if !recycled {
            let still = now.free == 0 && now.used == block;
            return Ok(still.then_some(Taken { block, page, meta, next: None, free_count: 0 }));
        }
        if now.free != block {
            return Ok(None);
        }
        let next = next_free(mtr.bytes(page));
        let next = next.ok_or_else(|| self.corrupt(block, "the list of free pages ends in one"))?;
        if next >= now.used || (next == 0) != (now.free_count == 1) {
            return Err(self.corrupt(block, "a free page leads nowhere"));
        }
        let free_count = now.free_count - 1;
        Ok(Some(Taken { block, page, meta, next: Some(next), free_count }))
    }

    /// Gives the emptied page `held` back; `meta` is latched.
    pub(crate) fn free(&self, mtr: &mut Mtr<'_>, held: LatchedPage, meta: LatchedPage) {
        let now = parse(mtr.bytes(meta)).expect("the caller has read it under this latch");
        let block = mtr.id(held).block.0;
        assert!(block > FIRST && block < now.used, "a page that can be given back");
        let mut image = header::format(PageKind::HashFree, 0);
        image[NEXT..NEXT + 4].copy_from_slice(&now.free.to_le_bytes());
        mtr.page(held).replace(&image);
        let mut page = mtr.page(meta);
        page.put_u32(FREE, block);
        page.put_u32(FREE_COUNT, now.free_count + 1);
    }
}

impl Taken {
    /// Writes down that the block is in use.
    pub(crate) fn note(&self, mtr: &mut Mtr<'_>) {
        let mut page = mtr.page(self.meta);
        match self.next {
            Some(next) => {
                page.put_u32(FREE, next);
                page.put_u32(FREE_COUNT, self.free_count);
            }
            None => page.put_u32(USED, self.block + 1),
        }
    }

    /// The meta page.
    pub(crate) fn meta(&self) -> LatchedPage {
        self.meta
    }
}
