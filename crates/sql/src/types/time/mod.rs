//! Dates, times and spans as text in the styles of a session, and its time zone.
//!
//! | file | hides |
//! |---|---|
//! | `zone` | zones by name, offset and POSIX rule; abbreviations of zones |
//! | `words` | texts cut into fields, and the words that mean something in them |
//! | `read`, `clock` | fields to dates and timestamps; to times of day |
//! | `print` | values to text in each style |
//!
//! Invariants: what depends on a session is in [`Styles`] or [`Times`], never in a global.
//! Does not do: arithmetic (`calendar`), patterns of `to_char`.

mod clock;
mod print;
mod read;
mod words;
pub(crate) mod zone;

use std::cmp::Ordering;
use std::sync::{Arc, OnceLock};

pub(crate) use clock::{read_time, read_timetz};
pub(crate) use print::{date, interval, iso_timestamp, time, timestamp, timetz};
pub(crate) use read::{Refusal, offset, read_date, read_timestamp, read_timestamptz};
pub(crate) use zone::{Zone, no_zone};

use crate::error::{Result, SqlError, code};
use crate::types::calendar::{MICROS_PER_DAY, MICROS_PER_SECOND};

/// A time of day in a zone, which is an offset here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZonedTime {
    /// Microseconds since midnight.
    pub micros: i64,
    /// Seconds east of UTC.
    pub offset: i32,
}

impl ZonedTime {
    /// The same in another zone.
    pub(crate) fn moved(self, offset: i32) -> ZonedTime {
        let later = i64::from(offset) - i64::from(self.offset);
        let micros = (self.micros + later * MICROS_PER_SECOND).rem_euclid(MICROS_PER_DAY);
        ZonedTime { micros, offset }
    }

    /// When it is in UTC, which may be on another day.
    pub(crate) fn utc_micros(self) -> i64 {
        self.micros - i64::from(self.offset) * MICROS_PER_SECOND
    }

    /// As PostgreSQL sends it: the time, and seconds west of UTC.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut out = self.micros.to_be_bytes().to_vec();
        out.extend((-self.offset).to_be_bytes());
        out
    }
}

impl Ord for ZonedTime {
    /// By the moment, and of equal ones that in the east is the first.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_moment = self.utc_micros().cmp(&other.utc_micros());
        by_moment.then(other.offset.cmp(&self.offset))
    }
}

impl PartialOrd for ZonedTime {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// How dates and times are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DateStyle {
    #[default]
    Iso,
    Sql,
    Postgres,
    German,
}

/// The order in which fields of a date are read, and are shown by some styles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DateOrder {
    #[default]
    Mdy,
    Dmy,
    Ymd,
}

/// How intervals are shown, and what a sign in front of one means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IntervalStyle {
    #[default]
    Postgres,
    PostgresVerbose,
    SqlStandard,
    Iso8601,
}

impl IntervalStyle {
    /// Their names, as the setting has them.
    pub(crate) const NAMES: &[&str] = &["postgres", "postgres_verbose", "sql_standard", "iso_8601"];

    /// The style of this name.
    pub(crate) fn named(name: &str) -> IntervalStyle {
        match name {
            "postgres_verbose" => IntervalStyle::PostgresVerbose,
            "sql_standard" => IntervalStyle::SqlStandard,
            "iso_8601" => IntervalStyle::Iso8601,
            _ => IntervalStyle::Postgres,
        }
    }
}

/// What a session's settings say of dates and times: the zone, and how values are read and shown.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Styles {
    pub(crate) zone: Arc<Zone>,
    pub(crate) dates: DateStyle,
    pub(crate) order: DateOrder,
    pub(crate) intervals: IntervalStyle,
}

/// UTC, which all share, and the styles that PostgreSQL begins with.
impl Default for Styles {
    fn default() -> Styles {
        static UTC: OnceLock<Arc<Zone>> = OnceLock::new();
        let zone = Arc::clone(UTC.get_or_init(Arc::default));
        let (dates, order) = (DateStyle::default(), DateOrder::default());
        Styles { zone, dates, order, intervals: IntervalStyle::default() }
    }
}

/// What texts of dates and times mean to a statement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    pub(crate) styles: Styles,
    /// What `now` is: microseconds since 2000.
    pub(crate) now: i64,
}

impl DateStyle {
    const fn name(self) -> &'static str {
        match self {
            DateStyle::Iso => "ISO",
            DateStyle::Sql => "SQL",
            DateStyle::Postgres => "Postgres",
            DateStyle::German => "German",
        }
    }
}

impl DateOrder {
    const fn name(self) -> &'static str {
        match self {
            DateOrder::Mdy => "MDY",
            DateOrder::Dmy => "DMY",
            DateOrder::Ymd => "YMD",
        }
    }
}

/// The two parts of the setting `datestyle`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DateSetting {
    pub(crate) style: DateStyle,
    pub(crate) order: DateOrder,
}

impl DateSetting {
    /// What `text` makes of the setting as it was; `reset` is what DEFAULT stands for.
    pub(crate) fn parse(
        text: &str,
        before: DateSetting,
        reset: DateSetting,
    ) -> Result<DateSetting> {
        let refused = |detail: String| {
            let message = format!("invalid value for parameter \"DateStyle\": \"{text}\"");
            Err(SqlError::new(code::INVALID_PARAMETER, message).detail(detail))
        };
        let (mut style, mut order, mut conflicts) = (None, None, false);
        for word in text.split(',').map(str::trim) {
            let lower = word.to_ascii_lowercase();
            let known = match lower.as_str() {
                "iso" => Some(DateStyle::Iso),
                "sql" => Some(DateStyle::Sql),
                "german" => Some(DateStyle::German),
                word if word.starts_with("postgres") => Some(DateStyle::Postgres),
                _ => None,
            };
            let wanted = match lower.as_str() {
                "ymd" => Some(DateOrder::Ymd),
                "dmy" => Some(DateOrder::Dmy),
                "mdy" | "us" => Some(DateOrder::Mdy),
                word if word.starts_with("euro") => Some(DateOrder::Dmy),
                word if word.starts_with("noneuro") => Some(DateOrder::Mdy),
                _ => None,
            };
            match (known, wanted) {
                (Some(known), _) => conflicts |= style.replace(known).is_some_and(|s| s != known),
                (_, Some(wanted)) => {
                    conflicts |= order.replace(wanted).is_some_and(|o| o != wanted)
                }
                _ if lower == "default" => {
                    style = style.or(Some(reset.style));
                    order = order.or(Some(reset.order));
                }
                _ if word.is_empty() => return refused("List syntax is invalid.".to_owned()),
                _ => return refused(format!("Unrecognized key word: \"{lower}\".")),
            }
        }
        if conflicts {
            return refused("Conflicting \"datestyle\" specifications.".to_owned());
        }
        if style == Some(DateStyle::German) {
            order = order.or(Some(DateOrder::Dmy));
        }
        let (style, order) = (style.unwrap_or(before.style), order.unwrap_or(before.order));
        Ok(DateSetting { style, order })
    }

    /// What a value of the setting says that was checked before.
    pub(crate) fn of(shown: &str) -> DateSetting {
        let plain = DateSetting { style: DateStyle::Iso, order: DateOrder::Mdy };
        DateSetting::parse(shown, plain, plain).unwrap_or(plain)
    }

    /// As SHOW spells it.
    pub(crate) fn shown(self) -> String {
        format!("{}, {}", self.style.name(), self.order.name())
    }
}

impl Times {
    /// Of the zone UTC, with PostgreSQL's usual styles.
    pub fn utc() -> Times {
        Times::default()
    }

    /// The zone of the session.
    pub(crate) fn zone(&self) -> &Zone {
        &self.styles.zone
    }
}

/// Does what a text of a date or time says depend on when it is read?
pub(crate) fn depends_on_now(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    ["now", "today", "tomorrow", "yesterday"].iter().any(|word| lower.contains(word))
}

impl Styles {
    /// What texts mean at the time `now`.
    pub(crate) fn at(&self, now: i64) -> Times {
        Times { styles: self.clone(), now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_of_dates_is_read_as_postgresql_does() {
        let german = DateSetting { style: DateStyle::German, order: DateOrder::Ymd };
        let iso = DateSetting::of("ISO, MDY");
        let read = |text: &str| DateSetting::parse(text, german, iso).map(DateSetting::shown);
        for (text, shown) in [
            ("sql", "SQL, YMD"),
            ("german", "German, DMY"),
            ("dmy", "German, DMY"),
            ("Postgres, us", "Postgres, MDY"),
            ("default", "ISO, MDY"),
            ("iso, european", "ISO, DMY"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(shown), "{text}");
        }
        for (text, detail) in [
            ("foo", "Unrecognized key word: \"foo\"."),
            ("iso, sql", "Conflicting \"datestyle\" specifications."),
        ] {
            assert_eq!(read(text).unwrap_err().detail.as_deref(), Some(detail));
        }
    }
}
