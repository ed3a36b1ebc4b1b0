//! The meta page, block 0: the root, and blocks that were free when a vacuum last looked.
//!
//! FORMAT. Page of kind `BtreeMeta`; offset 32: root block u32, 36: root level u8, 37: 3 bytes 0,
//! 40: number of free blocks u32, 44: free blocks u32 each. The list is a memory aid: a block is
//! free only if its page says so (`BtreeFree`, or never written), so a stale list does no harm.
//!
//! Invariants: root and level are logged; the root only rises. The first root is block 1.
//! Does not do: hand out blocks (`tree/free_pages`).

use crate::buffer::{BufferPool, Mtr};
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::{FileId, PageId, Xid};
use crate::index::btree::page::edit::NodeHeader;
use crate::index::btree::page::entries::Entries;
use crate::index::btree::page::node::{Checked, ROOT};
use crate::page::header::{self, HEADER_SIZE, LOWER, u32_at};
use crate::page::{PageKind, PageMut};
use crate::wal::RecordKind;

const ROOT_BLOCK: usize = HEADER_SIZE;
const ROOT_LEVEL: usize = HEADER_SIZE + 4;
pub(crate) const FREE_COUNT: usize = HEADER_SIZE + 8;
const FREE_LIST: usize = HEADER_SIZE + 12;
/// Most free blocks that the list names.
pub(crate) const MAX_FREE: usize = (PAGE_SIZE - FREE_LIST) / 4;
/// Greatest level that is plausible.
const MAX_LEVEL: u8 = 40;

/// The meta page, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    /// Block of the root.
    pub(crate) root: u32,
    /// Its level.
    pub(crate) level: u8,
    /// Blocks that were free once.
    pub(crate) free: Vec<u32>,
}

/// Reads a meta page.
pub(crate) fn parse(page: &[u8; PAGE_SIZE]) -> Checked<Meta> {
    if header::kind(page) != Some(PageKind::BtreeMeta) {
        return Err("block 0 is not the meta page of a tree");
    }
    let count = u32_at(page, FREE_COUNT) as usize;
    let (root, level) = (u32_at(page, ROOT_BLOCK), page[ROOT_LEVEL]);
    if root == 0 || level > MAX_LEVEL || count > MAX_FREE {
        return Err("the meta page makes no sense");
    }
    let free = (0..count).map(|i| u32_at(page, FREE_LIST + 4 * i)).collect();
    Ok(Meta { root, level, free })
}

/// Image of a meta page without free blocks.
pub(crate) fn image(root: u32, level: u8) -> [u8; PAGE_SIZE] {
    let mut image = header::format(PageKind::BtreeMeta, 0);
    image[LOWER..LOWER + 2].copy_from_slice(&(FREE_LIST as u16).to_le_bytes());
    image[ROOT_BLOCK..ROOT_BLOCK + 4].copy_from_slice(&root.to_le_bytes());
    image[ROOT_LEVEL] = level;
    image
}

/// Stores another root.
pub(crate) fn store_root(page: &mut PageMut<'_>, root: u32, level: u8) {
    assert!(root != 0 && level <= MAX_LEVEL, "a tree of a sensible height");
    page.put_u32(ROOT_BLOCK, root);
    page.write(ROOT_LEVEL, &[level]);
}

/// Writes the meta page and an empty root leaf, as one record.
pub(crate) fn format(pool: &BufferPool, file: FileId) -> Result<()> {
    let first = pool.extend(file, 2)?;
    if first.0 != 0 {
        return Err(Error::Invalid(format!("file {} of a new index is not empty", file.0)));
    }
    let pins = (pool.pin_new(PageId::new(file, 0))?, pool.pin_new(PageId::new(file, 1))?);
    let root = NodeHeader { flags: ROOT, ..NodeHeader::default() }
        .image_of(&Entries::default())
        .expect("an empty page fits");
    let mut mtr = Mtr::new(pool);
    let leaf = mtr.latch(pins.1);
    let meta = mtr.latch(pins.0);
    mtr.page(leaf).replace(&root);
    mtr.page(meta).replace(&image(1, 0));
    mtr.commit(RecordKind::IndexMeta, Xid::NONE)?;
    Ok(())
}
