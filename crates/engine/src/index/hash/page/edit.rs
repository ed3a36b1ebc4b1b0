//! Changes of a page of entries: whole images, and single entries in place.
//!
//! Invariants: an image built here opens. Its free space is zero, so that its log record is short.
//! A change in place is a few small stores, and is made only if it fits.
//! Does not do: choose where to split, latch, log.

use std::ops::Range;

use crate::config::PAGE_SIZE;
use crate::ids::RowId;
use crate::index::bytes_left_unused;
use crate::index::hash::page::bucket::{
    Bucket, DEAD, EXTRA, HAS_DEAD, HIGH_LEN, Item, LOW_LEN, RIGHT, SLOT, TRAILER,
};
use crate::page::header::{self, FLAGS, GARBAGE, HEADER_SIZE, LOWER, UPPER};
use crate::page::{Checked, PageKind, PageMut};

/// An entry of a page that is being encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BucketEntry<'a> {
    /// Code of the key.
    pub(crate) code: u32,
    /// The key.
    pub(crate) key: &'a [u8],
    /// The row.
    pub(crate) row: RowId,
    /// Included columns.
    pub(crate) payload: &'a [u8],
    /// Marked dead?
    pub(crate) dead: bool,
}

fn varint_size(value: usize) -> usize {
    if value < 0x80 { 1 } else { 2 }
}

fn push_varint(out: &mut Vec<u8>, value: usize) {
    assert!(value < 1 << 14, "lengths inside a page");
    if value < 0x80 {
        out.push(value as u8);
    } else {
        out.extend([(value & 0x7f) as u8 | 0x80, (value >> 7) as u8]);
    }
}

impl<'a> BucketEntry<'a> {
    /// BucketEntry `i` of an open page.
    pub(crate) fn of(bucket: &Bucket<'a>, i: usize) -> Checked<BucketEntry<'a>> {
        let Item { key, row, payload, dead, .. } = bucket.item(i)?;
        Ok(BucketEntry { code: bucket.code(i), key, row, payload, dead })
    }

    /// All entries of an open page.
    pub(crate) fn all(bucket: &Bucket<'a>) -> Checked<Vec<BucketEntry<'a>>> {
        (0..bucket.count).map(|i| BucketEntry::of(bucket, i)).collect()
    }

    /// Bytes that it takes on a page, its slot included.
    pub(crate) fn size(&self) -> usize {
        let payload = match self.payload.len() {
            0 => 0,
            len => varint_size(len) + len,
        };
        SLOT + varint_size(self.key.len()) + self.key.len() + RowId::SIZE + payload
    }

    /// Its position.
    pub(crate) fn position(&self) -> Vec<u8> {
        [&self.code.to_be_bytes()[..], self.key, &self.row.to_bytes()].concat()
    }

    fn item(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.size());
        push_varint(&mut out, self.key.len());
        out.extend_from_slice(self.key);
        out.extend_from_slice(&self.row.to_bytes());
        if !self.payload.is_empty() {
            push_varint(&mut out, self.payload.len());
            out.extend_from_slice(self.payload);
        }
        out
    }

    fn slot(&self, offset: usize) -> [u8; SLOT] {
        let extra = if self.payload.is_empty() { 0 } else { EXTRA };
        let word = offset as u16 | extra | if self.dead { DEAD } else { 0 };
        let mut slot = [0; SLOT];
        slot[..2].copy_from_slice(&word.to_le_bytes());
        slot[2..].copy_from_slice(&self.code.to_be_bytes());
        slot
    }
}

/// The content of a page without its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BucketHeader {
    /// Flags that are no hints.
    pub(crate) flags: u16,
    /// Right link.
    pub(crate) right: u32,
    /// Low fence.
    pub(crate) low: Vec<u8>,
    /// High fence, unless it is the last page.
    pub(crate) high: Option<Vec<u8>>,
    /// Bytes that stay unused once the page holds a few entries (tests make pages small).
    pub(crate) unused_bytes: usize,
}

impl BucketHeader {
    /// The header of an existing page.
    pub(crate) fn of(bucket: &Bucket<'_>, unused_bytes: usize) -> BucketHeader {
        BucketHeader {
            flags: bucket.flags & !HAS_DEAD,
            right: bucket.right,
            low: bucket.low().to_vec(),
            high: bucket.high().map(<[u8]>::to_vec),
            unused_bytes,
        }
    }

    /// Bytes of a page with `count` entries of `bytes` together.
    pub(crate) fn size(&self, count: usize, bytes: usize) -> usize {
        let fences = self.low.len() + self.high.as_ref().map_or(0, Vec::len);
        HEADER_SIZE + TRAILER + fences + bytes + bytes_left_unused(self.unused_bytes, count)
    }

    /// Do these entries fit a page?
    pub(crate) fn fits(&self, entries: &[BucketEntry<'_>]) -> bool {
        self.size(entries.len(), entries.iter().map(BucketEntry::size).sum()) <= PAGE_SIZE
    }

    /// Image of a page that holds `entries`; `None` when they do not fit.
    pub(crate) fn image(&self, entries: &[BucketEntry<'_>]) -> Option<Box<[u8; PAGE_SIZE]>> {
        assert!(self.high.is_some() == (self.right != 0), "only the last page has no high fence");
        if !self.fits(entries) {
            return None;
        }
        let mut image = self.empty();
        let mut upper = usize::from(header::u16_at(&image, UPPER));
        for (i, entry) in entries.iter().enumerate() {
            let item = entry.item();
            upper -= item.len();
            image[upper..upper + item.len()].copy_from_slice(&item);
            let slot = HEADER_SIZE + i * SLOT;
            image[slot..slot + SLOT].copy_from_slice(&entry.slot(upper));
        }
        let dead = if entries.iter().any(|entry| entry.dead) { HAS_DEAD } else { 0 };
        let lower = (HEADER_SIZE + entries.len() * SLOT) as u16;
        image[FLAGS..FLAGS + 2].copy_from_slice(&(self.flags | dead).to_le_bytes());
        image[LOWER..LOWER + 2].copy_from_slice(&lower.to_le_bytes());
        image[UPPER..UPPER + 2].copy_from_slice(&(upper as u16).to_le_bytes());
        debug_assert!(Bucket::open(&image).is_ok_and(|bucket| bucket.count == entries.len()));
        Some(image)
    }

    fn empty(&self) -> Box<[u8; PAGE_SIZE]> {
        let high = self.high.as_deref().unwrap_or_default();
        let fences = self.low.len() + high.len();
        let mut image = Box::new(header::format(PageKind::HashBucket, TRAILER + fences));
        let special = PAGE_SIZE - TRAILER - fences;
        image[special..special + self.low.len()].copy_from_slice(&self.low);
        image[special + self.low.len()..PAGE_SIZE - TRAILER].copy_from_slice(high);
        image[RIGHT..RIGHT + 4].copy_from_slice(&self.right.to_le_bytes());
        for (at, len) in [(LOW_LEN, self.low.len()), (HIGH_LEN, high.len())] {
            image[at..at + 2].copy_from_slice(&(len as u16).to_le_bytes());
        }
        image
    }
}

/// Can the entry go into `bucket` without encoding the page again?
pub(crate) fn fits(bucket: &Bucket<'_>, entry: &BucketEntry<'_>, unused_bytes: usize) -> bool {
    bucket.free_bytes() >= entry.size() + bytes_left_unused(unused_bytes, bucket.count + 1)
}

/// Inserts an entry in front of entry `pos`. The caller asked [`fits`].
pub(crate) fn insert_at(page: &mut PageMut<'_>, pos: usize, entry: &BucketEntry<'_>) {
    let bucket = Bucket::open(page.bytes()).expect("the caller opened it under the same latch");
    assert!(pos <= bucket.count && fits(&bucket, entry, 0), "the caller asked");
    let count = bucket.count;
    let item = entry.item();
    let upper = bucket.upper - item.len();
    let slot = HEADER_SIZE + pos * SLOT;
    if pos < count {
        page.copy_within(slot, (count - pos) * SLOT, slot + SLOT);
    }
    page.write(slot, &entry.slot(upper));
    page.write(upper, &item);
    header::set_bounds(page, HEADER_SIZE + (count + 1) * SLOT, upper);
}

/// Removes entry `pos`, whose item the caller has read and found at these offsets.
pub(crate) fn remove_at(page: &mut PageMut<'_>, pos: usize, item: Range<usize>) {
    let Range { start, end } = item;
    let bucket = Bucket::open(page.bytes()).expect("the caller opened it under the same latch");
    assert!(pos < bucket.count && start < end, "there is such an entry");
    let (count, garbage, upper) = (bucket.count, bucket.garbage, bucket.upper);
    let slot = HEADER_SIZE + pos * SLOT;
    if pos + 1 < count {
        page.copy_within(slot + SLOT, (count - pos - 1) * SLOT, slot);
    }
    let lower = HEADER_SIZE + (count - 1) * SLOT;
    if start == upper {
        header::set_bounds(page, lower, end);
    } else {
        page.put_u16(LOWER, lower as u16);
        page.put_u16(GARBAGE, (garbage + end - start).min(PAGE_SIZE) as u16);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::hash::page::hash_code::hash_code;
    use crate::page::PageBuf;

    fn entry(key: &[u8], n: u32) -> BucketEntry<'_> {
        let row = RowId::new(n, 1);
        BucketEntry { code: hash_code(key), key, row, payload: &[], dead: false }
    }

    #[test]
    fn entries_go_in_and_out_in_place() {
        let keys: Vec<[u8; 4]> = (0..60u32).map(u32::to_be_bytes).collect();
        let mut page = PageBuf::zeroed();
        let empty = BucketHeader::default().image(&[]).unwrap();
        let mut page = PageMut::owned(&mut page);
        page.replace(&empty);
        for (n, key) in keys.iter().enumerate() {
            let entry = entry(key, n as u32);
            let found = Bucket::open(page.bytes()).unwrap().find(&entry.position()).unwrap();
            assert!(!found.exact);
            insert_at(&mut page, found.at, &entry);
        }
        for (n, key) in keys.iter().enumerate().filter(|(n, _)| n % 3 != 0) {
            let bucket = Bucket::open(page.bytes()).unwrap();
            let found = bucket.find(&entry(key, n as u32).position()).unwrap();
            let item = bucket.item(found.at).unwrap();
            assert!(found.exact && item.key == key);
            let bytes = item.start..item.end;
            remove_at(&mut page, found.at, bytes);
        }
        let bucket = Bucket::open(page.bytes()).unwrap();
        let left = BucketEntry::all(&bucket).unwrap();
        assert_eq!(left.len(), 20);
        assert!(left.is_sorted_by_key(BucketEntry::position));
        let bytes: usize = left.iter().map(BucketEntry::size).sum();
        assert_eq!(
            bucket.used_bytes(),
            BucketHeader::default().size(20, bytes),
            "garbage is counted"
        );
        let again = BucketHeader::of(&bucket, 0).image(&left).unwrap();
        assert_eq!(BucketEntry::all(&Bucket::open(&again).unwrap()).unwrap(), left);
    }
}
