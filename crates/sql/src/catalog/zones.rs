//! Rows of `pg_timezone_names` and `pg_timezone_abbrevs`.
//!
//! Invariants: offsets are those of the time of the statement.
//! Does not do: names below `posix/`, which are the same zones once more.

use super::SessionInfo;
use crate::types::calendar::{EPOCH_SECONDS, MICROS_PER_SECOND};
use crate::types::time::Zone;
use crate::types::time::zone::{Abbreviation, abbreviations};
use crate::types::{Datum, Interval, Row};

fn now(session: &SessionInfo<'_>) -> i64 {
    let unix = session.db.map_or(0, rightlink::Database::unix_micros);
    unix - EPOCH_SECONDS * MICROS_PER_SECOND
}

fn offset(seconds: i32) -> Datum {
    let micros = i64::from(seconds) * MICROS_PER_SECOND;
    Datum::Interval(Interval { micros, ..Interval::default() })
}

pub(super) fn names(session: &SessionInfo<'_>) -> Vec<Row> {
    let now = now(session);
    let row = |name: String| {
        let local = Zone::named(&name)?.at(now);
        let abbreviation = Datum::Text(local.abbreviation);
        Some(vec![Datum::Text(name), abbreviation, offset(local.offset), Datum::Bool(local.is_dst)])
    };
    Zone::names().into_iter().filter_map(row).collect()
}

pub(super) fn abbreviated(session: &SessionInfo<'_>) -> Vec<Row> {
    let now = now(session);
    let row = |(name, what): (&str, Abbreviation)| {
        let meant = what.at(name, now)?;
        let name = Datum::Text(name.to_ascii_uppercase());
        Some(vec![name, offset(meant.offset), Datum::Bool(meant.is_dst)])
    };
    abbreviations().filter_map(row).collect()
}
