//! The meta page (block 0) and the growth of the file.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 32 | 4 | extent: initialised blocks, this one included |
//! | 36 | 4 | garbage: versions ended and not removed, as noted last; 2^32 - 1: no fewer |
//! | 40 | 8 | oldest xid that may be unfrozen in the table |
//!
//! Invariants: the extent grows in the record that formats the new pages, and shrinks in a record
//! before the file is cut. So every block below it is a heap page, and blocks above it mean
//! nothing. The in-memory extent never runs ahead of the meta page.
//! Does not do: choose a page for a row (`page_search`).
//!
//! PostgreSQL: `RelationAddBlocks` in `access/heap/hio.c`; the extent replaces the file's length.

use crate::buffer::{BufferPool, Mtr};
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::heap::page::store;
use crate::heap::space::visibility_map;
use crate::ids::{FileId, PageId, Xid};
use crate::page::header::{self, HEADER_SIZE, PageKind};
use crate::wal::RecordKind;
use rightlink_env::sync::Ordering;

/// Offset of the extent.
const EXTENT: usize = HEADER_SIZE;
/// Offset of the garbage.
const GARBAGE: usize = HEADER_SIZE + 4;
/// Offset of the oldest unfrozen xid.
const OLDEST_UNFROZEN: usize = HEADER_SIZE + 8;
/// Most blocks that one extension formats; each is pinned meanwhile.
const MAX_CHUNK: u32 = 4;

/// The meta page, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::heap) struct HeapMeta {
    pub(in crate::heap) extent: u32,
    pub(in crate::heap) garbage: u32,
    pub(in crate::heap) oldest_unfrozen: Xid,
}

/// Formats the meta page of a new, empty file.
/// No xid below `oldest` will ever write there.
pub(in crate::heap) fn create_meta(pool: &BufferPool, file: FileId, oldest: Xid) -> Result<()> {
    let block = pool.extend(file, 1)?;
    assert!(block.0 == 0, "the file is new");
    let mut image = header::format(PageKind::HeapMeta, 0);
    image[EXTENT..EXTENT + 4].copy_from_slice(&1u32.to_le_bytes());
    image[OLDEST_UNFROZEN..OLDEST_UNFROZEN + 8].copy_from_slice(&oldest.0.to_le_bytes());
    let pin = pool.pin_new(PageId::new(file, 0))?;
    let mut mtr = Mtr::new(pool);
    let held = mtr.latch(pin);
    mtr.page(held).replace(&image);
    mtr.commit(RecordKind::Extend, Xid::NONE).map(drop)
}

/// Reads and checks the meta page.
pub(in crate::heap) fn read_meta(pool: &BufferPool, file: FileId) -> Result<HeapMeta> {
    let pin = pool.pin(PageId::new(file, 0))?;
    let latch = pin.shared();
    decode(pin.page(), latch.bytes())
}

/// Blocks of a heap that need not be open, and its garbage, as noted last.
pub(in crate::heap) fn glance(pool: &BufferPool, file: FileId) -> Result<(u32, u32)> {
    let id = PageId::new(file, 0);
    let page = pool.glance(id)?;
    decode(id, &page).map(|meta| (meta.extent, meta.garbage))
}

fn decode(id: PageId, page: &[u8; PAGE_SIZE]) -> Result<HeapMeta> {
    let meta = HeapMeta {
        extent: header::u32_at(page, EXTENT),
        garbage: header::u32_at(page, GARBAGE),
        oldest_unfrozen: Xid(header::u64_at(page, OLDEST_UNFROZEN)),
    };
    if header::kind(page) != Some(PageKind::HeapMeta) || meta.extent == 0 {
        return Err(Error::corrupt(id, "not the meta page of a heap"));
    }
    Ok(meta)
}

impl Heap {
    /// Grows the table and returns the first new block, an empty page. Returns `None` if another
    /// inserter grew it while this one waited for its turn: the map knows of room now.
    pub(in crate::heap) fn extend(&self, wanted: u32, xid: Xid) -> Result<Option<u32>> {
        let before = self.blocks();
        let turn = self.shared.extension.lock();
        if self.blocks() > before {
            return Ok(None);
        }
        // A growth that could not be logged is on the meta page all the same, and poisons the log.
        self.pool().wal().check()?;
        let chunk = wanted.max(before / 8).clamp(1, MAX_CHUNK);
        let first = self.format_blocks(chunk, xid)?;
        drop(turn);
        for block in first + 1..first + chunk {
            self.free_space().note(block, store::empty_page_room())?;
        }
        Ok(Some(first))
    }

    /// Formats `count` blocks at the extent and moves it, in one record. The caller has the turn.
    fn format_blocks(&self, count: u32, xid: Xid) -> Result<u32> {
        let (pool, file) = (self.pool(), self.shared.files.heap);
        let meta = pool.pin(self.page_id(0))?;
        let first = decode(meta.page(), meta.shared().bytes())?.extent;
        assert!(first == self.blocks(), "the extent changes only under the turn");
        let end = first.checked_add(count).ok_or_else(|| Error::Limit("2^32 blocks".into()))?;
        visibility_map::grow_for(pool, self.shared.files.visibility, end - 1)?;
        let have = pool.blocks(file);
        if have < end {
            pool.extend(file, end - have)?;
        }
        let fresh: Result<Vec<_>> =
            (first..end).map(|block| pool.pin_new(self.page_id(block))).collect();
        let fresh = fresh?;
        let mut mtr = Mtr::new(pool);
        let held_meta = mtr.latch(meta);
        for pin in fresh {
            let held = mtr.latch(pin);
            mtr.page(held).replace(&store::empty_image(xid));
        }
        mtr.page(held_meta).put_u32(EXTENT, end);
        mtr.commit(RecordKind::Extend, xid)?;
        self.shared.extent.store(end, Ordering::Release);
        Ok(first)
    }

    /// Stores a smaller extent in `mtr`, where `held` is the meta page.
    pub(in crate::heap) fn store_extent(mtr: &mut Mtr<'_>, held: usize, extent: u32) {
        assert!(extent >= 1 && mtr.id(held).block.0 == 0, "the meta page stays");
        mtr.page(held).put_u32(EXTENT, extent);
    }

    /// The oldest xid that may be unfrozen in the table: commit status below all of these may go.
    pub fn oldest_unfrozen(&self) -> Result<Xid> {
        read_meta(self.pool(), self.shared.files.heap).map(|meta| meta.oldest_unfrozen)
    }

    /// Notes the result of a complete vacuum pass: no older xid is left in the table. `oldest` is
    /// the smallest of what the pages reported and of the horizon when the pass began.
    pub fn set_oldest_unfrozen(&self, oldest: Xid) -> Result<()> {
        let mut mtr = Mtr::new(self.pool());
        let held = mtr.latch(self.pool().pin(self.page_id(0))?);
        let meta = decode(mtr.id(held), mtr.bytes(held))?;
        if oldest > meta.oldest_unfrozen {
            mtr.page(held).put_u64(OLDEST_UNFROZEN, oldest.0);
        }
        mtr.commit(RecordKind::HeapVacuum, Xid::NONE)?;
        self.shared.oldest.fetch_max(oldest.0, Ordering::AcqRel);
        Ok(())
    }

    /// Notes how much garbage there is; the count goes on from there when the table is opened
    /// again.
    pub fn note_garbage(&self) -> Result<()> {
        if self.is_garbage_noted(0) {
            return Ok(());
        }
        let mut mtr = Mtr::new(self.pool());
        let held = mtr.latch(self.pool().pin(self.page_id(0))?);
        decode(mtr.id(held), mtr.bytes(held))?;
        // Under the latch, so that it is what the page says.
        let (garbage, noted) = (self.all_garbage(), &self.shared.noted);
        let before = noted.swap(garbage, Ordering::Relaxed);
        mtr.page(held).put_u32(GARBAGE, garbage);
        let logged = mtr.commit(RecordKind::HeapVacuum, Xid::NONE);
        if logged.is_err() {
            noted.store(before, Ordering::Relaxed);
        }
        logged.map(drop)
    }

    /// As [`Heap::oldest_unfrozen`], without a look at the page.
    pub fn frozen_below(&self) -> Xid {
        Xid(self.shared.oldest.load(Ordering::Acquire))
    }

    /// Where its vacuum got to: xids from here on are new since, or since it was made.
    pub fn vacuumed_below(&self) -> Xid {
        let vacuumed = Xid(self.shared.vacuumed_at.load(Ordering::Relaxed));
        self.frozen_below().max(vacuumed)
    }
}
