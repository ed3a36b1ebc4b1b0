//! The commit status of transactions.
//!
//! | check | what |
//! |---|---|
//! | T2 | every entry is one that a transaction writes, and a pointer leads to a later xid |
//! | T3 | no xid has an outcome that was never handed out |
//!
//! Invariants: the limit is read after the page, and only rises.
//! Does not do: compare with rows (H5, H8), the meta page, without which no database opens (R1).

use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::ids::PageId;
use crate::page::header::{self, HEADER_SIZE, PageKind, u64_at};
use crate::txn::STATUS_FILE;
use crate::verify::pages::{self, Role};
use crate::verify::{Parts, Place, Report};

/// Entries of a page, as FORMAT.md says.
const PER_PAGE: u64 = ((PAGE_SIZE - HEADER_SIZE) / 8) as u64;
/// An entry that points to another xid.
const CHILD: u64 = 1 << 63;

/// Checks the status file.
pub(super) fn check(parts: &Parts<'_>, report: &mut Report) -> Result<()> {
    let place = Place { relation: "status", file: STATUS_FILE };
    pages::file(parts, place, Role::Status, &|| 1, report)?;
    for block in 1..parts.pool.blocks(STATUS_FILE) {
        // Damage of the page itself was reported.
        let Ok(pin) = parts.pool.pin(PageId::new(STATUS_FILE, block)) else { continue };
        let page = Box::new(*pin.shared().bytes());
        drop(pin);
        let limit = limit(parts)?;
        if header::kind(&page) == Some(PageKind::Status) {
            for (check, what) in entries(&page, u64::from(block - 1) * PER_PAGE, limit) {
                report.add(place.finding(check, Some(block), what));
            }
        }
    }
    Ok(())
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
