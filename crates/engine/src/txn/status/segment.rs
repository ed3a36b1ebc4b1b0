//! Where the outcome of an xid lies: in which file, on which page of it, at which byte.
//!
//! Outcomes lie in segments, one file for each [`SEGMENT_XIDS`] xids, as in PostgreSQL's `pg_xact`.
//! The number of the file is [`FIRST_SEGMENT`] plus the number of the segment, so each follows from
//! the other, and no file number is used twice.
//!
//! Invariants:
//! - The place of an xid never changes: nothing here depends on which outcomes are kept.
//! - No xid at or above [`MAX_XID`] has a place, and none is assigned.
//!
//! Does not do: I/O, deciding which segments exist (`file`).

use std::ops::Range;

use crate::config::PAGE_SIZE;
use crate::ids::{FileId, PageId, Xid};
use crate::page::header::HEADER_SIZE;

/// Entries of a page.
pub(in crate::txn) const PER_PAGE: u64 = ((PAGE_SIZE - HEADER_SIZE) / 8) as u64;
/// Pages of a segment: 32 MiB. Each segment takes a file descriptor.
pub(crate) const SEGMENT_PAGES: u32 = 4096;
/// Xids of a segment.
pub(crate) const SEGMENT_XIDS: u64 = PER_PAGE * SEGMENT_PAGES as u64;
/// File of segment 0. Files of tables, indexes and sequences have lower numbers.
pub(crate) const FIRST_SEGMENT: u32 = 1 << 31;
/// Xids are below: 9.0e15, enough for a million a second over 284 years.
pub(crate) const MAX_XID: u64 = SEGMENT_XIDS * (u32::MAX - FIRST_SEGMENT) as u64;

/// Is the file a segment?
pub(crate) fn is_segment(file: FileId) -> bool {
    file.0 >= FIRST_SEGMENT
}

/// File of the segment that `xid` is in.
pub(in crate::txn) fn segment_of(xid: u64) -> FileId {
    page_id(xid).file
}

/// Files of the segments that the xids of `range` are in. Those beyond the last xid have none.
pub(crate) fn segments_of(range: Range<Xid>) -> impl Iterator<Item = FileId> {
    let last = range.end.0.min(MAX_XID).checked_sub(1).filter(|last| *last >= range.start.0);
    let numbers = last.map(|last| segment_of(range.start.0).0..=segment_of(last).0);
    numbers.into_iter().flatten().map(FileId)
}

/// The xids of the segment `file`.
pub(in crate::txn) fn xids_of(file: FileId) -> Range<u64> {
    assert!(is_segment(file), "a segment has xids");
    let first = u64::from(file.0 - FIRST_SEGMENT) * SEGMENT_XIDS;
    first..first + SEGMENT_XIDS
}

/// Number of the page that holds `xid`, counted over all segments.
pub(in crate::txn) fn page_of(xid: u64) -> u64 {
    xid / PER_PAGE
}

/// Page of `xid`.
pub(in crate::txn) fn page_id(xid: u64) -> PageId {
    page_id_of(page_of(xid))
}

/// The page with this number.
pub(in crate::txn) fn page_id_of(page: u64) -> PageId {
    assert!(page < page_of(MAX_XID), "pages end with the xids");
    let (segment, block) = (page / u64::from(SEGMENT_PAGES), page % u64::from(SEGMENT_PAGES));
    PageId::new(FileId(FIRST_SEGMENT + segment as u32), block as u32)
}

/// Offset of `xid` in its page.
pub(in crate::txn) fn offset_of(xid: u64) -> usize {
    HEADER_SIZE + (xid % PER_PAGE) as usize * 8
}

/// The parts of `range` that lie on one page each.
pub(in crate::txn) fn split_by_page(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut next = range.start;
    std::iter::from_fn(move || {
        let end = range.end.min((page_of(next) + 1) * PER_PAGE);
        let part = next..end;
        next = end;
        (!part.is_empty()).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_at_pages() {
        let parts: Vec<_> = split_by_page(PER_PAGE - 2..2 * PER_PAGE + 1).collect();
        assert_eq!(
            parts,
            [PER_PAGE - 2..PER_PAGE, PER_PAGE..2 * PER_PAGE, 2 * PER_PAGE..2 * PER_PAGE + 1]
        );
        assert_eq!(split_by_page(7..7).count(), 0);
        assert_eq!(offset_of(PER_PAGE - 1) + 8, PAGE_SIZE);
        assert_eq!(offset_of(PER_PAGE), HEADER_SIZE);
    }

    #[test]
    fn every_xid_has_a_place_of_its_own() {
        let segment = |number: u32| FileId(FIRST_SEGMENT + number);
        assert_eq!(page_id(0), PageId::new(segment(0), 0));
        assert_eq!(page_id(PER_PAGE), PageId::new(segment(0), 1));
        assert_eq!(page_id(SEGMENT_XIDS - 1), PageId::new(segment(0), SEGMENT_PAGES - 1));
        assert_eq!(page_id(SEGMENT_XIDS), PageId::new(segment(1), 0));
        // The last file number belongs to no file.
        assert_eq!(page_id(MAX_XID - 1), PageId::new(FileId(u32::MAX - 1), SEGMENT_PAGES - 1));
        for xid in [0, 5, PER_PAGE, SEGMENT_XIDS - 1, SEGMENT_XIDS, MAX_XID - 1] {
            assert!(xids_of(page_id(xid).file).contains(&xid));
        }
        assert!(is_segment(segment(0)) && !is_segment(FileId(FIRST_SEGMENT - 1)));
    }

    #[test]
    fn a_range_has_the_segments_of_its_ends() {
        let of = |range: Range<u64>| {
            let files = segments_of(Xid(range.start)..Xid(range.end));
            files.map(|file| file.0 - FIRST_SEGMENT).collect::<Vec<_>>()
        };
        assert_eq!(of(2..2), []);
        assert_eq!(of(2..3), [0]);
        assert_eq!(of(2..SEGMENT_XIDS), [0]);
        assert_eq!(of(SEGMENT_XIDS - 1..SEGMENT_XIDS + 1), [0, 1]);
        assert_eq!(of(SEGMENT_XIDS..SEGMENT_XIDS), []);
        assert_eq!(of(SEGMENT_XIDS..3 * SEGMENT_XIDS), [1, 2]);
        assert_eq!(of(MAX_XID - 1..u64::MAX), [u32::MAX - 1 - FIRST_SEGMENT]);
    }
}
