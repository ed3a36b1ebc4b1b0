//! Describes pages and items, for people and for measurements.
//!
//! Invariants: a page is copied under its shared latch and read from the copy. Any block may be
//! asked for.
//! Does not do: check (`verify`).
//! PostgreSQL: `pageinspect`.

use crate::error::{Error, Result};
use crate::ids::RowId;
use crate::index::hash::page::{Bucket, BucketEntry, is_bucket};
use crate::index::hash::state::HashIndex;
use crate::page::header;
use crate::page::{Checked, PageKind};

/// One page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageInfo {
    /// `m` meta, `b` first page of a bucket, `o` overflow page, `n` directory, `d` free, `-`
    /// unused.
    pub kind: char,
    /// Items not marked dead.
    pub live: u32,
    /// Items marked dead.
    pub dead: u32,
    /// Bytes of an average item, slot included.
    pub average_item: u32,
    /// Bytes free, garbage included.
    pub free: u32,
    /// Right neighbour, 0: none.
    pub right: u32,
    /// Flags, as stored.
    pub flags: u16,
    /// Low fence.
    pub low: Vec<u8>,
    /// High fence; `None` on the last page.
    pub high: Option<Vec<u8>>,
}

/// One item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemInfo {
    /// Code of the key.
    pub code: u32,
    /// Bytes, slot included.
    pub bytes: usize,
    /// The key.
    pub key: Vec<u8>,
    /// The row.
    pub row: RowId,
    /// Marked dead?
    pub dead: bool,
}

impl HashIndex {
    /// Describes a page, and if wanted its items.
    pub fn inspect(&self, block: u32, items: bool) -> Result<(PageInfo, Vec<ItemInfo>)> {
        if block >= self.blocks() {
            return Err(Error::Invalid(format!("the index has no block {block}")));
        }
        let pin = self.0.pool.pin(self.0.page(block))?;
        let page = Box::new(*pin.shared().bytes());
        if !is_bucket(&page) {
            let kind = match header::kind(&page) {
                Some(PageKind::HashMeta) => 'm',
                Some(PageKind::HashDirectory) => 'n',
                Some(PageKind::HashFree) => 'd',
                _ => '-',
            };
            return Ok((PageInfo { kind, ..PageInfo::default() }, Vec::new()));
        }
        let read = || -> Checked<(PageInfo, Vec<ItemInfo>)> {
            let bucket = Bucket::open(&page)?;
            let entries = BucketEntry::all(&bucket)?;
            let info = describe(&bucket, &entries);
            Ok((info, if items { entries.iter().map(item).collect() } else { Vec::new() }))
        };
        read().map_err(|what| self.0.corrupt(block, what))
    }
}

fn describe(bucket: &Bucket<'_>, entries: &[BucketEntry<'_>]) -> PageInfo {
    let dead = entries.iter().filter(|entry| entry.dead).count();
    let bytes: usize = entries.iter().map(BucketEntry::size).sum();
    PageInfo {
        kind: if bucket.begun_bucket().is_some() { 'b' } else { 'o' },
        live: (entries.len() - dead) as u32,
        dead: dead as u32,
        average_item: bytes.checked_div(entries.len()).unwrap_or(0) as u32,
        free: (bucket.free_bytes() + bucket.garbage) as u32,
        right: bucket.right,
        flags: bucket.flags,
        low: bucket.low().to_vec(),
        high: bucket.high().map(<[u8]>::to_vec),
    }
}

fn item(entry: &BucketEntry<'_>) -> ItemInfo {
    let BucketEntry { code, key, row, dead, .. } = *entry;
    ItemInfo { code, bytes: entry.size(), key: key.to_vec(), row, dead }
}
