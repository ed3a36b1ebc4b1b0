//! Merge of a page into its left neighbour, as one log record.
//!
//! The merged page gives up its bucket: the directory's entry is cleared in the same record, and
//! codes lead to the parent bucket. The block is free at once. A thread that still knows the block
//! finds a page without entries, or other fences, and searches again (R6).
//!
//! Invariants: only the vacuum pass merges, and only pages behind itself. Latches: left page, right
//! page, directory, meta page (R12).
//! Does not do: choose pages to merge (`vacuum`).

use rightlink_env::points::hit;

use crate::buffer::{Mtr, Pin};
use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::ids::Xid;
use crate::index::hash::page::{
    Bucket, BucketEntry, BucketHeader, FIRST, INCOMPLETE, MAX_BUCKETS, bucket_code, bucket_number,
    bucket_start, directory, directory::block_of, is_bucket, meta,
};
use crate::index::hash::state::Index;
use crate::page::Checked;
use crate::wal::RecordKind;

/// Percent of a page that a merged one may use, so that the next insertion does not split it.
const MAX_MERGED_PERCENT: usize = 75;

/// The directory's entry of a page that is to be merged.
enum OwnEntry {
    /// No bucket begins on the page, or none that has an entry.
    None,
    /// The bucket, and the directory's page with its entry.
    Bucket { bucket: u32, directory: Pin },
}

/// Two neighbours as one page.
struct MergedPage {
    image: Box<[u8; PAGE_SIZE]>,
    /// Low fence of the right one.
    middle: Vec<u8>,
}

impl Index {
    fn max_merged_bytes(&self) -> usize {
        self.options.capacity * MAX_MERGED_PERCENT / 100
    }

    /// May two pages with so many bytes together be merged? An estimate: one header is not needed.
    pub(super) fn may_merge(&self, used_bytes: usize) -> bool {
        used_bytes <= self.max_merged_bytes() + PAGE_SIZE / 8
    }

    /// Merges the page at `right` into its left neighbour, if they are neighbours and the result
    /// is not too full. Returns the bytes that it uses.
    pub(super) fn merge(&self, left: u32, right: u32) -> Result<Option<usize>> {
        let pins = (self.pin_linked(left)?, self.pin_linked(right)?);
        let meta = self.pool.pin(self.page(0))?;
        let Some(own) = self.own_entry(&pins.1)? else { return Ok(None) };
        let mut mtr = Mtr::new(&self.pool);
        let into = mtr.latch(pins.0);
        if !precedes(mtr.bytes(into), right).map_err(|what| self.corrupt(left, what))? {
            return Ok(None);
        }
        let from = mtr.latch(pins.1);
        let merged = self.merged_page(mtr.bytes(into), mtr.bytes(from));
        let Some(merged) = merged.map_err(|what| self.corrupt(right, what))? else {
            return Ok(None);
        };
        let mut entry = None;
        if let OwnEntry::Bucket { bucket, directory } = own {
            if merged.middle != bucket_start(bucket).to_be_bytes() {
                return Ok(None);
            }
            let held = mtr.latch(directory);
            entry = (block_of(mtr.bytes(held), bucket) == right).then_some((held, bucket));
        }
        let meta = mtr.latch(meta);
        let known = meta::parse(mtr.bytes(meta)).map_err(|what| self.corrupt(0, what))?;
        if right <= FIRST || right >= known.used {
            return Err(self.corrupt(right, "a page of entries where none can be"));
        }
        mtr.page(into).replace(&merged.image);
        if let Some((held, bucket)) = entry {
            directory::store(&mut mtr.page(held), bucket, 0);
        }
        self.free_block(&mut mtr, from, meta);
        let used = Bucket::open(mtr.bytes(into)).map_or(PAGE_SIZE, |bucket| bucket.used_bytes());
        mtr.commit(RecordKind::IndexUnlink, Xid::NONE)?;
        hit("hash.squeeze.joined");
        Ok(Some(used))
    }

    /// The directory's entry for the bucket that begins on a page; `None` if the page holds no
    /// entries any more.
    fn own_entry(&self, pin: &Pin) -> Result<Option<OwnEntry>> {
        let code = {
            let page = pin.shared();
            let Ok(bucket) = Bucket::open(page.bytes()) else { return Ok(None) };
            bucket_code(bucket.low())
        };
        let bucket = code.map(bucket_number).filter(|bucket| *bucket < MAX_BUCKETS);
        let Some(bucket) = bucket else { return Ok(Some(OwnEntry::None)) };
        Ok(Some(OwnEntry::Bucket { bucket, directory: self.directory_page(bucket)? }))
    }

    /// Two neighbours as one page; `None` if they are none, or would fill it too much.
    fn merged_page(
        &self,
        left: &[u8; PAGE_SIZE],
        right: &[u8; PAGE_SIZE],
    ) -> Checked<Option<MergedPage>> {
        if !is_bucket(right) {
            return Ok(None);
        }
        let (left, right) = (Bucket::open(left)?, Bucket::open(right)?);
        if left.high() != Some(right.low()) {
            return Err("the page to the left ends elsewhere");
        }
        if (left.flags | right.flags) & INCOMPLETE != 0 {
            return Ok(None);
        }
        let middle = right.low().to_vec();
        let header = BucketHeader {
            right: right.right,
            high: right.high().map(<[u8]>::to_vec),
            ..BucketHeader::of(&left, self.unused_bytes())
        };
        let mut entries = BucketEntry::all(&left)?;
        let one_is_empty = entries.is_empty() || right.count == 0;
        entries.extend(BucketEntry::all(&right)?);
        let bytes = entries.iter().map(BucketEntry::size).sum();
        let max_bytes = self.max_merged_bytes() + header.unused_bytes;
        if !one_is_empty && header.size(entries.len(), bytes) > max_bytes {
            return Ok(None);
        }
        Ok(header.image(&entries).map(|image| MergedPage { image, middle }))
    }
}

/// Is this a page of entries that `right` follows?
fn precedes(page: &[u8; PAGE_SIZE], right: u32) -> Checked<bool> {
    Ok(is_bucket(page) && Bucket::open(page)?.right == right)
}
