//! The row of `pgstattuple`: what the pages of a table hold.
//!
//! Columns mean what PostgreSQL's do, with these differences:
//!
//! | column | here |
//! |---|---|
//! | `tuple_count` | rows that the statement sees |
//! | `tuple_len` | their share, by number, of the bytes of all versions |
//! | `dead_tuple_count` | versions that the statement does not see, those of others who run too |
//! | `free_space` | of pages that were never written to: none |
//!
//! Invariants: the pages are looked at one by one, while others write.
//! Does not do: indexes (`pgstatindex` tells of trees); values in pages of their own.

use rightlink::{Error, ScanOptions, Transaction};

use super::SessionInfo;
use super::numbers::number;
use crate::error::{Result, SqlError};
use crate::schemas;
use crate::schemas::no_table;
use crate::types::{Datum, Row};

/// Rows between two looks at whether the statement is still wanted.
const CHECK_EVERY: u64 = 256;

pub(super) fn rows(
    args: &[Datum],
    txn: &mut Transaction,
    session: &SessionInfo<'_>,
) -> Result<Vec<Row>> {
    let Some(Datum::Text(name)) = args.first() else { return Ok(Vec::new()) };
    let path = session.settings.path();
    let name = &schemas::find(txn, &path, &schemas::parts_of(name)?)?.name;
    match txn.catalog().describe(name) {
        Err(Error::NotFound(_)) if txn.catalog().has_relation(name)? => {
            return Err(SqlError::unsupported("pgstattuple of anything but a table")
                .hint("pgstatindex tells of an index."));
        }
        Err(Error::NotFound(_)) => return Err(no_table(name)),
        found => drop(found?),
    }
    let mut seen = 0u64;
    for row in txn.scan(name, &ScanOptions::all().columns(std::iter::empty::<&str>()))? {
        row?;
        seen += 1;
        if seen.is_multiple_of(CHECK_EVERY) {
            session.interrupts.check()?;
        }
    }
    let pages = txn.catalog().inspect(name, None)?;
    let sum = |of: fn(&rightlink::PageInfo) -> u64| pages.iter().map(of).sum::<u64>();
    let len = sum(|page| u64::from(page.page_size));
    let free = sum(|page| u64::from(page.free_size));
    let versions = sum(|page| u64::from(page.live_items)).max(seen);
    let bytes = sum(|page| u64::from(page.live_items) * u64::from(page.avg_item_size));
    let live = (bytes as f64 * seen as f64 / versions.max(1) as f64).round() as u64;
    let dead = bytes - live.min(bytes);
    let percent = |part: u64| {
        let percent = if len > 0 { part as f64 / len as f64 * 100.0 } else { 0.0 };
        Datum::Float8((percent * 100.0).round() / 100.0)
    };
    Ok(vec![vec![
        number(len),
        number(seen),
        number(live),
        percent(live),
        number(versions - seen),
        number(dead),
        percent(dead),
        number(free),
        percent(free),
    ]])
}
