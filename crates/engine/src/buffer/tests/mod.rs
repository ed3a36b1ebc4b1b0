//! Tests of the pool through its public interface: a simulated disk, a real log.

mod crash;
mod paging;
mod panics;
#[cfg(feature = "shuttle")]
mod schedules;
mod streams;

use crate::buffer::testing::TestPool;
use crate::buffer::{BufferPool, Mtr};
use crate::error::Result;
use crate::ids::{FileId, Lsn, PageId, Xid};
use crate::page::PageKind;
use crate::page::header::{self, format};
use crate::wal::RecordKind;

const FILE: FileId = FileId(70);

fn page(block: u32) -> PageId {
    PageId::new(FILE, block)
}

/// Formats `page` and stores `value` in it.
fn init(pool: &BufferPool, page: PageId, value: u64) -> Result<Lsn> {
    let mut image = format(PageKind::Heap, 0);
    image[4096..4104].copy_from_slice(&value.to_le_bytes());
    let mut mtr = Mtr::new(pool);
    let held = mtr.latch(pool.pin_new(page)?);
    mtr.page(held).replace(&image);
    mtr.commit(RecordKind::HeapInsert, Xid(5))
}

/// Stores `value` at both ends of the page.
fn set(pool: &BufferPool, page: PageId, value: u64) -> Result<Lsn> {
    let mut mtr = Mtr::new(pool);
    let held = mtr.latch(pool.pin(page)?);
    mtr.page(held).put_u64(4096, value);
    mtr.page(held).put_u64(8000, value);
    mtr.commit(RecordKind::HeapUpdate, Xid(5))
}

fn get(pool: &BufferPool, page: PageId) -> Result<u64> {
    let pin = pool.pin(page)?;
    let latch = pin.shared();
    Ok(header::u64_at(latch.bytes(), 4096))
}

/// A file of `blocks` formatted pages, each holding its block number.
fn filled(test: &TestPool, blocks: u32) {
    test.pool.create_file(FILE, true).unwrap();
    test.pool.extend(FILE, blocks).unwrap();
    for block in 0..blocks {
        init(&test.pool, page(block), u64::from(block)).unwrap();
    }
}
