//! The commit status of transactions.
//!
//! | check | what |
//! |---|---|
//! | T2 | every entry is one that a transaction writes, and a pointer leads to a later xid |
//! | T3 | no xid has an outcome that was never handed out |
//!
//! Invariants: the limit is read after the page, and only rises; outcomes that are not kept are not
//! looked at; a segment that is removed meanwhile is no finding.
//! Does not do: compare with rows (H5, H8); the meta page and segments that are missing, without
//! which no database opens (R1); files that are none of the segments that are needed (X6).

use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::ids::{FileId, PageId};
use crate::page::header::{HEADER_SIZE, u64_at};
use crate::txn::{FIRST_SEGMENT, SEGMENT_XIDS, STATUS_FILE};
use crate::verify::pages::{self, FilePages, Role};
use crate::verify::{Parts, RelationFile, Report};

/// Entries of a page, as docs/format.md says.
const PER_PAGE: u64 = ((PAGE_SIZE - HEADER_SIZE) / 8) as u64;
/// An entry that points to another xid.
const CHILD: u64 = 1 << 63;

/// Checks the status file and its segments.
pub(super) fn check(parts: &Parts<'_>, report: &mut Report) -> Result<()> {
    let place = |file| RelationFile { relation: "status", file };
    pages::file(parts, place(STATUS_FILE), Role::Status, &|| 1, report)?;
    for file in parts.txns.segments() {
        let place = place(file);
        let first = parts.txns.blocks_not_kept(file);
        let pages = FilePages { place, role: Role::Outcomes, first, extent: &|| 0 };
        pages::check_pages(parts, &pages, report, &mut |block, page, report| {
            let limit = limit(parts)?;
            for (check, what) in entries(page, first_xid(file, block), limit) {
                report.add(place.finding(check, Some(block), what));
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// First xid of a page.
fn first_xid(segment: FileId, block: u32) -> u64 {
    u64::from(segment.0 - FIRST_SEGMENT) * SEGMENT_XIDS + u64::from(block) * PER_PAGE
}

/// Xids from here on were never handed out.
fn limit(parts: &Parts<'_>) -> Result<u64> {
    let pin = parts.pool.pin(PageId::new(STATUS_FILE, 0))?;
    let page = pin.shared();
    Ok(u64_at(page.bytes(), HEADER_SIZE + 8))
}

/// The first entry of each sort that cannot be.
fn entries(page: &[u8; PAGE_SIZE], first: u64, limit: u64) -> Vec<(&'static str, String)> {
    let (mut strange, mut early) = (None, None);
    for (at, xid) in (HEADER_SIZE..PAGE_SIZE).step_by(8).zip(first..) {
        let entry = u64_at(page, at);
        let target = entry & !CHILD;
        let leads_on = entry & CHILD == 0 || (target > xid && target < limit);
        if entry == 1 || !leads_on {
            strange.get_or_insert((xid, entry));
        }
        if entry != 0 && xid >= limit {
            early.get_or_insert((xid, entry));
        }
    }
    let strange = strange
        .map(|(xid, entry)| ("T2", format!("xid {xid} has the entry {entry:x}, which is none")));
    let early = early.map(|(xid, entry)| {
        ("T3", format!("xid {xid} has the entry {entry:x}, but xids end at {limit}"))
    });
    strange.into_iter().chain(early).collect()
}
