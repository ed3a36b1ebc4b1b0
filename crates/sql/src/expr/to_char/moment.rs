//! Dates, times and intervals by a pattern: `DCH_to_char` of PostgreSQL's `formatting.c`.
//!
//! Invariants: an interval has no fields of a calendar (`22007`).
//! Does not do: names of other locales than C.

use rightlink::internal::datum::{CivilDate, civil_from_days, days_from_civil};

use super::pattern::{Action, Case, Field, Piece, add_ordinal, write_padded};
use crate::error::{Result, SqlError, code};
use crate::types::Interval;
use crate::types::calendar::{MICROS_PER_DAY, MICROS_PER_SECOND, iso_week};
use crate::types::time::zone::Local;

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(super) const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
pub(super) const ROMAN: [&str; 12] =
    ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// Julian day of 2000-01-01.
pub(super) const EPOCH_JULIAN: i64 = 2_451_545;

/// What a pattern asks of a value, field by field.
pub(super) struct Fields {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    day_of_year: i64,
    /// Days since 2000-01-01, unless it is an interval.
    days: Option<i64>,
    zone: Option<Local>,
}

impl Fields {
    /// A local time, and the zone that it is in.
    pub(super) fn of_moment(micros: i64, zone: Option<Local>) -> Fields {
        let days = micros.div_euclid(MICROS_PER_DAY);
        let CivilDate { year, month, day } = civil_from_days(days);
        let day_of_year = days - days_from_civil(year, 1, 1) + 1;
        let time = micros.rem_euclid(MICROS_PER_DAY);
        let (month, day) = (i64::from(month), i64::from(day));
        Fields { year, month, day, day_of_year, days: Some(days), zone, ..Fields::of_time(time) }
    }

    fn of_time(time: i64) -> Fields {
        let seconds = time / MICROS_PER_SECOND;
        Fields {
            year: 0,
            month: 0,
            day: 0,
            hour: seconds / 3_600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            micros: time % MICROS_PER_SECOND,
            day_of_year: 0,
            days: None,
            zone: None,
        }
    }

    pub(super) fn of_interval(span: Interval) -> Fields {
        let (year, month) = (i64::from(span.months / 12), i64::from(span.months % 12));
        let day = i64::from(span.days);
        let day_of_year = (year * 12 + month) * 30 + day;
        Fields { year, month, day, day_of_year, ..Fields::of_time(span.micros) }
    }

    /// The year as it is shown; before year 1 comes 1 BC.
    fn shown(&self, year: i64) -> i64 {
        if self.days.is_some() && year <= 0 { 1 - year } else { year }
    }

    /// The value by a pattern.
    pub(super) fn write(&self, pieces: &[Piece], out: &mut String) -> Result<()> {
        for piece in pieces {
            match piece {
                Piece::Character(c) | Piece::Space(c) | Piece::Separator(c) => out.push(*c),
                Piece::Action(action) => {
                    let start = out.len();
                    if self.action(action, out)? == Kind::Number {
                        add_ordinal(out, start, action.ordinal);
                    }
                }
            }
        }
        Ok(())
    }

    fn action(&self, action: &Action, out: &mut String) -> Result<Kind> {
        let Action { field, is_bare, .. } = *action;
        let number = |value: i64, width: usize, out: &mut String| {
            // A sign needs a place of its own.
            let width = if value < 0 && width > 1 { width + 1 } else { width };
            write_padded(out, value, if is_bare { 0 } else { width });
            Ok(Kind::Number)
        };
        // Digits that are there with FM, too.
        let digits = |value: i64, width: usize, out: &mut String| {
            write_padded(out, value, width);
            Ok(Kind::Number)
        };
        match field {
            Field::Hour12 => {
                let hour = if self.hour % 12 == 0 { 12 } else { self.hour % 12 };
                let width = if self.hour >= 0 { 2 } else { 3 };
                write_padded(out, hour, if is_bare { 0 } else { width });
                Ok(Kind::Number)
            }
            Field::Hour24 => number(self.hour, 2, out),
            Field::Minute => number(self.minute, 2, out),
            Field::Second => number(self.second, 2, out),
            Field::Fraction(width) => {
                digits(self.micros / 10i64.pow(6 - width), width as usize, out)
            }
            Field::Millis => digits(self.micros / 1_000, 3, out),
            Field::Micros => digits(self.micros, 6, out),
            Field::SecondsOfDay => {
                digits((self.hour * 60 + self.minute) * 60 + self.second, 0, out)
            }
            Field::MonthNumber => number(self.month, 2, out),
            Field::DayOfMonth => {
                write_padded(out, self.day, if is_bare { 0 } else { 2 });
                Ok(Kind::Number)
            }
            Field::DayOfYear => {
                write_padded(out, self.day_of_year, if is_bare { 0 } else { 3 });
                Ok(Kind::Number)
            }
            Field::WeekOfYear => {
                let week = (self.day_of_year - 1) / 7 + 1;
                write_padded(out, week, if is_bare { 0 } else { 2 });
                Ok(Kind::Number)
            }
            Field::WeekOfMonth => digits((self.day - 1) / 7 + 1, 0, out),
            Field::Quarter if self.month == 0 => Ok(Kind::Text),
            Field::Quarter => digits((self.month - 1) / 3 + 1, 0, out),
            Field::Century => {
                let century = match self.days {
                    None => self.year / 100,
                    Some(_) if self.year > 0 => (self.year - 1) / 100 + 1,
                    Some(_) => self.year / 100 - 1,
                };
                let width = if (-99..=99).contains(&century) { 2 } else { 0 };
                number(century, width, out)
            }
            Field::YearWithComma => {
                let year = self.shown(self.year);
                let (thousands, rest) = (year / 1_000, year % 1_000);
                out.push_str(&thousands.to_string());
                out.push(',');
                digits(rest, 3, out)
            }
            Field::Year(width) => {
                let year = self.shown(self.year);
                self.year(year, width, action, out);
                Ok(Kind::Number)
            }
            Field::IsoYear(width) => {
                let year = self.shown(iso_week(self.julian_days()).0);
                self.year(year, width, action, out);
                Ok(Kind::Number)
            }
            Field::IsoWeek => {
                write_padded(out, iso_week(self.julian_days()).1, if is_bare { 0 } else { 2 });
                Ok(Kind::Number)
            }
            Field::IsoDayOfYear => {
                let days = self.julian_days();
                let day = days - iso_year_start(iso_week(days).0) + 1;
                write_padded(out, day, if is_bare { 0 } else { 3 });
                Ok(Kind::Number)
            }
            Field::Julian => digits(self.julian_days() + EPOCH_JULIAN, 0, out),
            Field::Roman => {
                self.roman(action, out);
                Ok(Kind::Text)
            }
            Field::Noon { dots } => {
                let text = if self.hour % 24 >= 12 { "PM" } else { "AM" };
                push_dotted(text, dots, action.case, out);
                Ok(Kind::Text)
            }
            Field::Exact => Ok(Kind::Text),
            _ => self.of_calendar(action, out),
        }
    }

    /// Fields that intervals do not have.
    fn of_calendar(&self, action: &Action, out: &mut String) -> Result<Kind> {
        let Some(days) = self.days else {
            let message = "invalid format specification for an interval";
            return Err(SqlError::new(code::INVALID_DATETIME, message)
                .hint("Intervals are not tied to specific calendar dates."));
        };
        let weekday = (days + 6).rem_euclid(7);
        let offset = self.zone.as_ref().map_or(0, |zone| i64::from(zone.offset));
        let sign = if offset < 0 { '-' } else { '+' };
        let (hours, minutes) = (offset.abs() / 3_600, offset.abs() % 3_600 / 60);
        match action.field {
            Field::Era { dots } => {
                let text = if self.year <= 0 { "BC" } else { "AD" };
                push_dotted(text, dots, action.case, out);
            }
            Field::MonthName => push_name(MONTHS[self.month as usize - 1], 9, action, out),
            Field::MonthShort => push_name(&MONTHS[self.month as usize - 1][..3], 0, action, out),
            Field::DayName => push_name(DAYS[weekday as usize], 9, action, out),
            Field::DayShort => push_name(&DAYS[weekday as usize][..3], 0, action, out),
            Field::DayOfWeek => {
                write_padded(out, weekday + 1, 0);
                return Ok(Kind::Number);
            }
            Field::IsoDayOfWeek => {
                write_padded(out, (weekday + 6) % 7 + 1, 0);
                return Ok(Kind::Number);
            }
            Field::Zone => {
                if let Some(zone) = &self.zone {
                    let name = &zone.abbreviation;
                    match action.case {
                        Case::Lower => out.push_str(&name.to_ascii_lowercase()),
                        _ => out.push_str(name),
                    }
                }
            }
            Field::ZoneHour => {
                out.push(sign);
                write_padded(out, hours, 2);
            }
            Field::ZoneMinute => write_padded(out, minutes, 2),
            Field::Offset => {
                out.push(sign);
                write_padded(out, hours, if action.is_bare { 0 } else { 2 });
                if offset % 3_600 != 0 {
                    out.push(':');
                    write_padded(out, minutes, 2);
                }
            }
            other => unreachable!("it is one of intervals, too: {other:?}"),
        }
        Ok(Kind::Text)
    }

    /// Days since 2000-01-01, of an interval as if its parts were a date.
    fn julian_days(&self) -> i64 {
        self.days.unwrap_or_else(|| julian(self.year, self.month, self.day) - EPOCH_JULIAN)
    }

    /// The last digits of a year.
    fn year(&self, year: i64, width: usize, action: &Action, out: &mut String) {
        let value = if width == 4 { year } else { year % 10i64.pow(width as u32) };
        let places = match self.shown(self.year) >= 0 {
            _ if width == 1 => 1,
            true => width,
            false => width + 1,
        };
        write_padded(out, value, if action.is_bare && width > 1 { 0 } else { places });
    }

    fn roman(&self, action: &Action, out: &mut String) {
        if self.month == 0 && self.year == 0 {
            return;
        }
        // Years without months are December, those below zero January; -1 is December.
        let at = match self.month {
            0 if self.year >= 0 => 11,
            0 => 0,
            month if month < 0 => (12 + month) as usize,
            month => month as usize - 1,
        };
        let mut text = ROMAN[at].to_owned();
        if action.case == Case::Lower {
            text.make_ascii_lowercase();
        }
        let width = if action.is_bare { 0 } else { 4 };
        out.push_str(&format!("{text:<width$}"));
    }
}

/// Was a number written, which an ordinal may stand behind?
#[derive(PartialEq)]
enum Kind {
    Number,
    Text,
}

fn push_dotted(text: &str, dots: bool, case: Case, out: &mut String) {
    let text = match dots {
        true => text.chars().flat_map(|c| [c, '.']).collect(),
        false => text.to_owned(),
    };
    match case {
        Case::Lower => out.push_str(&text.to_ascii_lowercase()),
        _ => out.push_str(&text),
    }
}

fn push_name(name: &str, width: usize, action: &Action, out: &mut String) {
    let name = match action.case {
        Case::Upper => name.to_ascii_uppercase(),
        Case::Lower => name.to_ascii_lowercase(),
        Case::Title => name.to_owned(),
    };
    let width = if action.is_bare || action.is_local { 0 } else { width };
    out.push_str(&format!("{name:<width$}"));
}

/// The first day of an ISO year, in days since 2000-01-01.
pub(super) fn iso_year_start(year: i64) -> i64 {
    let fourth = days_from_civil(year, 1, 4);
    fourth - (fourth + 5).rem_euclid(7)
}

/// The Julian day of a date whose month and day may lie outside of a calendar, as PostgreSQL
/// counts it.
fn julian(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = match month > 2 {
        true => (year + 4_800, month + 1),
        false => (year + 4_799, month + 13),
    };
    let century = year / 100;
    year * 365 - 32_167 + year / 4 - century + century / 4 + 7_834 * month / 256 + day
}
