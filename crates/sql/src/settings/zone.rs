//! Values of the setting `timezone`.
//!
//! Invariants: what is given here names the same zone again.
//! Does not do: rules of zones (`types::time`).

use rightlink::internal::datum::{IntervalFields, LeadingSign, read_interval};

use crate::error::{Result, SqlError, code};
use crate::types::Interval;
use crate::types::time::Zone;

/// The name of the zone that a value means: a name, a POSIX rule, a number of hours east of UTC, or
/// an interval.
pub(super) fn named(value: &str) -> Result<String> {
    let refused = || {
        let message = format!("invalid value for parameter \"TimeZone\": \"{value}\"");
        SqlError::new(code::INVALID_PARAMETER, message)
    };
    let of_offset = |seconds: f64| {
        let far = || refused().detail("UTC timezone offset is out of range.");
        let offset = (seconds.abs() < 1e9).then(|| Zone::of_offset(seconds as i32)).flatten();
        offset.map(|zone| zone.name().to_owned()).ok_or_else(far)
    };
    if let Some(span) = value.get(8..).filter(|_| value[..8].eq_ignore_ascii_case("interval")) {
        let span = span.trim_start().strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
        let span = span.ok_or_else(refused)?;
        let span = read_interval(span, IntervalFields::All, LeadingSign::OfOne);
        let span = span.map_err(|_| refused())?;
        return match span {
            Interval { months: 0, days: 0, micros } => of_offset(micros as f64 / 1e6),
            Interval { months: 0, .. } => {
                Err(refused().detail("Cannot specify days in time zone interval."))
            }
            _ => Err(refused().detail("Cannot specify months in time zone interval.")),
        };
    }
    if let Ok(hours) = value.trim_start().parse::<f64>() {
        return of_offset(hours * 3_600.0);
    }
    Zone::named(value).map(|zone| zone.name().to_owned()).ok_or_else(refused)
}
