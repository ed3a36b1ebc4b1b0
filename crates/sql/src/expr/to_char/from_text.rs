//! Dates and timestamps out of a text by a pattern: `DCH_from_char` and `do_to_timestamp` of
//! PostgreSQL's `formatting.c`.
//!
//! Invariants: a field that is given twice has one value; dates of weeks and of months are not
//! mixed. Does not do: texts without a pattern (`types::time`).

use rightlink::internal::datum::{CivilDate, civil_from_days, days_from_civil, days_in_month};

use super::moment::{DAYS, EPOCH_JULIAN, MONTHS, ROMAN, iso_year_start};
use super::pattern::{Action, Field, Ordinal, Piece};
use crate::error::{Result, SqlError, code};
use crate::types::calendar::{MICROS_PER_DAY, MICROS_PER_SECOND};

/// Which convention of dates the fields follow.
#[derive(Clone, Copy, PartialEq)]
enum Convention {
    Gregorian,
    IsoWeek,
}

/// Fields as they are read; 0 is one that was not.
#[derive(Default)]
struct Fields {
    convention: Option<Convention>,
    hour: i32,
    is_twelve: bool,
    noon: i32,
    minute: i32,
    second: i32,
    seconds_of_day: i32,
    /// From 1 on, which is Sunday.
    weekday: i32,
    day: i32,
    day_of_year: i32,
    month: i32,
    millis: i32,
    year: i32,
    before_christ: i32,
    week: i32,
    week_of_month: i32,
    century: i32,
    julian: i32,
    micros: i32,
    /// Digits of the year's field.
    year_digits: usize,
    zone_sign: i32,
    zone_hours: i32,
    zone_minutes: i32,
    fraction: u32,
}

/// What a text says.
pub(super) struct Read {
    /// Days since 2000-01-01.
    pub(super) days: i64,
    pub(super) time: i64,
    /// Seconds east of UTC, if they were given.
    pub(super) offset: Option<i32>,
    /// Digits of seconds that the pattern asks for.
    pub(super) digits: Option<u32>,
}

fn bad(message: String) -> SqlError {
    SqlError::new(code::INVALID_DATETIME, message)
}

fn is_separator(c: char) -> bool {
    c.is_ascii_graphic() && !c.is_ascii_alphanumeric()
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}

/// Does a field of digits alone stand for it?
fn is_numeric(field: Field) -> bool {
    !matches!(
        field,
        Field::Era { .. }
            | Field::Noon { .. }
            | Field::DayName
            | Field::DayShort
            | Field::Exact
            | Field::MonthName
            | Field::MonthShort
            | Field::Offset
            | Field::Roman
            | Field::ZoneHour
            | Field::Zone
    )
}

fn convention_of(field: Field) -> Option<Convention> {
    match field {
        Field::IsoDayOfYear | Field::IsoDayOfWeek | Field::IsoWeek | Field::IsoYear(_) => {
            Some(Convention::IsoWeek)
        }
        Field::DayOfYear
        | Field::DayOfMonth
        | Field::DayOfWeek
        | Field::MonthNumber
        | Field::MonthName
        | Field::MonthShort
        | Field::Roman
        | Field::WeekOfYear
        | Field::WeekOfMonth
        | Field::YearWithComma
        | Field::Year(_) => Some(Convention::Gregorian),
        _ => None,
    }
}

/// A text on its way through a pattern.
struct Reader<'t> {
    rest: &'t str,
    /// The character in front of the rest.
    before: Option<char>,
    /// Characters that were skipped beyond those of the pattern.
    skipped: i32,
    is_exact: bool,
    fields: Fields,
}

/// Reads a text by a pattern.
pub(super) fn read(pieces: &[Piece], text: &str) -> Result<Read> {
    let mut reader =
        Reader { rest: text, before: None, skipped: 0, is_exact: false, fields: Fields::default() };
    for (at, piece) in pieces.iter().enumerate() {
        if reader.rest.is_empty() {
            break;
        }
        reader.piece(at, piece, pieces.get(at + 1))?;
    }
    reader.fields.settled(text)
}

impl Reader<'_> {
    fn skip(&mut self) {
        let mut chars = self.rest.chars();
        self.before = chars.next();
        self.rest = chars.as_str();
    }

    fn skip_spaces(&mut self) {
        while self.rest.starts_with(is_space) {
            self.skip();
            self.skipped += 1;
        }
    }

    fn piece(&mut self, at: usize, piece: &Piece, next: Option<&Piece>) -> Result<()> {
        let action = match piece {
            Piece::Action(action) => Some(action),
            _ => None,
        };
        let is_fx = action.is_some_and(|action| action.field == Field::Exact);
        if !self.is_exact && !is_fx && (action.is_some() || at == 0) {
            self.skip_spaces();
        }
        match (piece, self.is_exact) {
            (Piece::Space(_) | Piece::Separator(_), false) => {
                self.skipped -= 1;
                if self.rest.starts_with(|c| is_space(c) || is_separator(c)) {
                    self.skip();
                    self.skipped += 1;
                }
            }
            (Piece::Character(_), false) if self.skipped > 0 => self.skipped -= 1,
            (Piece::Space(_) | Piece::Separator(_) | Piece::Character(_), _) => self.skip(),
            (Piece::Action(action), _) => {
                self.action(action, next)?;
                if !self.is_exact {
                    self.skipped = 0;
                    self.skip_spaces();
                }
            }
        }
        Ok(())
    }

    fn action(&mut self, action: &Action, next: Option<&Piece>) -> Result<()> {
        if let Some(convention) = convention_of(action.field) {
            let before = *self.fields.convention.get_or_insert(convention);
            if before != convention {
                let hint = "Do not mix Gregorian and ISO week date conventions in a formatting \
                            template.";
                return Err(bad("invalid combination of date conventions".to_owned()).hint(hint));
            }
        }
        match action.field {
            Field::Exact => {
                self.is_exact = true;
                return Ok(());
            }
            Field::Noon { dots } => {
                let names = if dots { ["a.m.", "p.m."] } else { ["am", "pm"] };
                let found = self.name(&names, action)? as i32;
                set(&mut self.fields.noon, found, action)?;
                self.fields.is_twelve = true;
                return Ok(());
            }
            Field::Era { dots } => {
                let names = if dots { ["a.d.", "b.c."] } else { ["ad", "bc"] };
                let found = self.name(&names, action)? as i32;
                return set(&mut self.fields.before_christ, found, action);
            }
            Field::MonthName => return self.month(&MONTHS, action),
            Field::MonthShort => return self.month(&MONTHS.map(|name| &name[..3]), action),
            Field::Roman => {
                // Those that begin with others come first.
                let names: Vec<&str> = ROMAN.into_iter().rev().collect();
                let found = 12 - self.name(&names, action)? as i32;
                return set(&mut self.fields.month, found, action);
            }
            Field::DayName => return self.weekday(&DAYS, action),
            Field::DayShort => return self.weekday(&DAYS.map(|name| &name[..3]), action),
            Field::Zone | Field::Offset => {
                let message = format!(
                    "formatting field \"{}\" is only supported in to_char",
                    action.word_as_written()
                );
                return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
            }
            Field::YearWithComma => {
                let year = self.year_with_comma()?;
                set(&mut self.fields.year, year, action)?;
                self.fields.year_digits = 4;
            }
            Field::ZoneHour => self.zone_hour(action, next)?,
            _ => self.numeric(action, next)?,
        }
        if action.ordinal != Ordinal::None {
            for _ in 0..2 {
                self.skip();
            }
        }
        Ok(())
    }

    fn numeric(&mut self, action: &Action, next: Option<&Piece>) -> Result<()> {
        let width = match action.field {
            Field::Hour12 | Field::Hour24 | Field::ZoneMinute => 2,
            Field::Millis | Field::IsoDayOfYear => 3,
            Field::Micros => 6,
            Field::Fraction(digits) => digits as usize,
            Field::IsoDayOfWeek => 1,
            _ => action.word.len(),
        };
        let Number { value, length } = self.number(width, action, next)?;
        // Digits that are missing behind a point are zeros.
        let filled =
            |digits: usize| value.saturating_mul(10i32.pow(digits.saturating_sub(length) as u32));
        let fields = &mut self.fields;
        let slot = match action.field {
            Field::Hour12 => {
                fields.is_twelve = true;
                &mut fields.hour
            }
            Field::Hour24 => &mut fields.hour,
            Field::Minute => &mut fields.minute,
            Field::Second => &mut fields.second,
            Field::Millis => {
                set(&mut fields.millis, value, action)?;
                fields.millis = filled(3);
                return Ok(());
            }
            Field::Micros | Field::Fraction(_) => {
                set(&mut fields.micros, value, action)?;
                fields.micros = filled(6);
                if let Field::Fraction(digits) = action.field {
                    fields.fraction = digits;
                }
                return Ok(());
            }
            Field::SecondsOfDay => &mut fields.seconds_of_day,
            Field::ZoneMinute => {
                if fields.zone_sign == 0 {
                    fields.zone_sign = 1;
                }
                &mut fields.zone_minutes
            }
            Field::MonthNumber => &mut fields.month,
            Field::DayOfYear | Field::IsoDayOfYear => &mut fields.day_of_year,
            Field::DayOfMonth => &mut fields.day,
            Field::DayOfWeek => &mut fields.weekday,
            Field::IsoDayOfWeek => {
                set(&mut fields.weekday, value, action)?;
                fields.weekday += 1;
                if fields.weekday > 7 {
                    fields.weekday = 1;
                }
                return Ok(());
            }
            Field::WeekOfYear | Field::IsoWeek => &mut fields.week,
            Field::WeekOfMonth => &mut fields.week_of_month,
            Field::Century => &mut fields.century,
            Field::Julian => &mut fields.julian,
            Field::Quarter => return Ok(()),
            Field::Year(digits) | Field::IsoYear(digits) => {
                set(&mut fields.year, value, action)?;
                if digits < 4 && length < 4 {
                    fields.year = near_2020(fields.year);
                }
                fields.year_digits = digits;
                return Ok(());
            }
            other => unreachable!("it has no digits: {other:?}"),
        };
        set(slot, value, action)
    }

    /// Digits for a field: as many as there are where none can follow, else as many as it has.
    fn number(&mut self, width: usize, action: &Action, next: Option<&Piece>) -> Result<Number> {
        let start = self.rest;
        let word = action.word_as_written();
        self.rest = self.rest.trim_start_matches(is_space);
        let cut = |text: &str| text.chars().take(width).collect::<String>();
        let shown = cut(self.rest);
        let takes_all = action.is_bare || ends_in_no_digit(action, next);
        let digits = match takes_all {
            true => integer(self.rest),
            false => {
                let left = self.rest.len();
                if left < width {
                    let message =
                        format!("source string too short for \"{word}\" formatting field");
                    let detail =
                        format!("Field requires {width} characters, but only {left} remain.");
                    return Err(bad(message).detail(detail).hint(BARE));
                }
                let digits = integer(&shown);
                if digits > 0 && digits < width {
                    let detail = format!(
                        "Field requires {width} characters, but only {digits} could be parsed."
                    );
                    let message = format!("invalid value \"{shown}\" for \"{word}\"");
                    return Err(bad(message).detail(detail).hint(BARE));
                }
                digits
            }
        };
        if digits == 0 {
            let message = format!("invalid value \"{shown}\" for \"{word}\"");
            return Err(bad(message).detail("Value must be an integer."));
        }
        let (number, rest) = self.rest.split_at(digits);
        let value = number.parse::<i32>().map_err(|_| {
            let message = format!("value for \"{word}\" in source string is out of range");
            let detail = format!("Value must be in the range {} to {}.", i32::MIN, i32::MAX);
            SqlError::new(code::DATETIME_OVERFLOW, message).detail(detail)
        })?;
        self.before = number.chars().next_back();
        self.rest = rest;
        Ok(Number { value, length: start.len() - rest.len() })
    }

    fn zone_hour(&mut self, action: &Action, next: Option<&Piece>) -> Result<()> {
        let sign = match self.rest.chars().next() {
            Some(c @ ('+' | '-' | ' ')) => {
                self.skip();
                if c == '-' { -1 } else { 1 }
            }
            // A minus sign that was taken for a separator.
            _ if self.skipped > 0 && self.before == Some('-') => -1,
            _ => 1,
        };
        self.fields.zone_sign = sign;
        let Number { value, .. } = self.number(2, action, next)?;
        set(&mut self.fields.zone_hours, value, action)
    }

    fn year_with_comma(&mut self) -> Result<i32> {
        let refused = || bad("invalid input string for \"Y,YYY\"".to_owned());
        let text = self.rest.trim_start_matches(is_space);
        let thousands = integer(text);
        let behind = text[thousands..].strip_prefix(',').filter(|_| thousands > 0);
        let behind = behind.ok_or_else(refused)?.trim_start_matches(is_space);
        let digits = integer(behind).min(3);
        let number = |text: &str| text.parse::<i32>().map_err(|_| refused());
        let years = number(&behind[..digits])?;
        self.rest = &behind[digits..];
        let thousands = number(&text[..thousands])?;
        thousands.checked_mul(1_000).and_then(|all| all.checked_add(years)).ok_or_else(refused)
    }

    fn month(&mut self, names: &[&str], action: &Action) -> Result<()> {
        let found = self.name(names, action)? as i32;
        set(&mut self.fields.month, found + 1, action)
    }

    fn weekday(&mut self, names: &[&str], action: &Action) -> Result<()> {
        let found = self.name(names, action)? as i32;
        set(&mut self.fields.weekday, found, action)?;
        self.fields.weekday += 1;
        Ok(())
    }

    /// Which of the names stands in front.
    fn name(&mut self, names: &[&str], action: &Action) -> Result<usize> {
        let begins = |name: &&str| {
            self.rest.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name))
        };
        let Some(at) = names.iter().position(begins) else {
            let shown: String = self.rest.chars().take_while(|c| !is_space(*c)).collect();
            let word = action.word_as_written();
            let detail = "The given value did not match any of the allowed values for this field.";
            return Err(bad(format!("invalid value \"{shown}\" for \"{word}\"")).detail(detail));
        };
        let (head, rest) = self.rest.split_at(names[at].len());
        self.before = head.chars().next_back();
        self.rest = rest;
        Ok(at)
    }
}

const BARE: &str = "If your source string is not fixed-width, try using the \"FM\" modifier.";

/// A number, and how many characters it and the blanks in front took.
struct Number {
    value: i32,
    length: usize,
}

/// Bytes of the whole number in front of a text, with its sign.
fn integer(text: &str) -> usize {
    let sign = usize::from(text.starts_with(['+', '-']));
    let digits = text[sign..].bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 { 0 } else { sign + digits }
}

/// Can no digit follow the field?
fn ends_in_no_digit(action: &Action, next: Option<&Piece>) -> bool {
    match next {
        _ if action.ordinal != Ordinal::None => true,
        None => true,
        Some(Piece::Action(next)) => !is_numeric(next.field),
        Some(Piece::Character(c)) => !c.is_ascii_digit(),
        Some(Piece::Space(_) | Piece::Separator(_)) => true,
    }
}

/// Sets a field that has no other value.
fn set(slot: &mut i32, value: i32, action: &Action) -> Result<()> {
    if *slot != 0 && *slot != value {
        let word = action.word_as_written();
        let message = format!("conflicting values for \"{word}\" field in formatting string");
        let detail = "This value contradicts a previous setting for the same field type.";
        return Err(bad(message).detail(detail));
    }
    *slot = value;
    Ok(())
}

/// A year of few digits as that of them which is near to 2020.
fn near_2020(year: i32) -> i32 {
    match year {
        ..70 => year + 2_000,
        70..100 => year + 1_900,
        100..520 => year + 2_000,
        520..1_000 => year + 1_000,
        _ => year,
    }
}

/// A date in the making.
struct Date {
    year: i32,
    month: i32,
    day: i32,
    has_year: bool,
    has_month: bool,
    has_day: bool,
}

impl Date {
    fn set_days(&mut self, days: i64) {
        let CivilDate { year, month, day } = civil_from_days(days);
        (self.year, self.month, self.day) = (year as i32, month as i32, day as i32);
        (self.has_year, self.has_month, self.has_day) = (true, true, true);
    }

    fn is_sound(&self) -> bool {
        let month = !self.has_month || (1..=12).contains(&self.month);
        let day = !self.has_day || (1..=31).contains(&self.day);
        let whole = self.has_year && self.has_month && self.has_day;
        let most = || days_in_month(i64::from(self.year), self.month as u32) as i32;
        month && day && (!whole || self.day <= most())
    }
}

impl Fields {
    /// What the fields say together.
    fn settled(mut self, text: &str) -> Result<Read> {
        let time = self.time()?;
        let date = self.date()?;
        let refused = || {
            let message = format!("date/time field value out of range: \"{text}\"");
            SqlError::new(code::DATETIME_OVERFLOW, message)
        };
        if !date.is_sound() {
            return Err(refused());
        }
        let micros = i64::from(self.millis) * 1_000 + i64::from(self.micros);
        let [hour, minute, second] = time;
        let fits = (0..24).contains(&hour)
            && (0..60).contains(&minute)
            && (0..60).contains(&second)
            && (0..MICROS_PER_SECOND).contains(&micros);
        if !fits {
            return Err(refused());
        }
        let seconds = i64::from((hour * 60 + minute) * 60 + second);
        let fits = (0..16).contains(&self.zone_hours) && (0..60).contains(&self.zone_minutes);
        if self.zone_sign != 0 && !fits {
            let message = format!("time zone displacement out of range: \"{text}\"");
            return Err(SqlError::new(code::ZONE_OVERFLOW, message));
        }
        let offset = self.zone_sign * (self.zone_hours * 60 + self.zone_minutes) * 60;
        let in_calendar = (1..=12).contains(&date.month) && (1..=31).contains(&date.day);
        let most = |date: &Date| days_in_month(i64::from(date.year), date.month as u32) as i32;
        if !in_calendar || date.day > most(&date) {
            return Err(refused());
        }
        Ok(Read {
            days: days_from_civil(i64::from(date.year), date.month as u32, date.day as u32),
            time: (seconds * MICROS_PER_SECOND + micros) % MICROS_PER_DAY,
            offset: (self.zone_sign != 0).then_some(offset),
            digits: (self.fraction != 0).then_some(self.fraction),
        })
    }

    /// Hour, minute and second.
    fn time(&self) -> Result<[i32; 3]> {
        let all = self.seconds_of_day;
        let [mut hour, mut minute, mut second] = [all / 3_600, all / 60 % 60, all % 60];
        let given =
            [(self.second, &mut second), (self.minute, &mut minute), (self.hour, &mut hour)];
        given.into_iter().filter(|(value, _)| *value != 0).for_each(|(value, slot)| *slot = value);
        if self.is_twelve {
            if !(1..=12).contains(&hour) {
                let hint = "Use the 24-hour clock, or give an hour between 1 and 12.";
                let message = format!("hour \"{hour}\" is invalid for the 12-hour clock");
                return Err(bad(message).hint(hint));
            }
            match self.noon != 0 {
                true if hour < 12 => hour += 12,
                false if hour == 12 => hour = 0,
                _ => {}
            }
        }
        Ok([hour, minute, second])
    }

    /// The year by the fields of it and of its century.
    fn set_year(&mut self, date: &mut Date) {
        let is_before = self.before_christ != 0;
        if self.year != 0 {
            if self.century != 0 && self.year_digits <= 2 {
                let century = if is_before { -self.century } else { self.century };
                let rest = self.year % 100;
                date.year = match (rest, century >= 0) {
                    (0, true) => century * 100,
                    (0, false) => century * 100 + 1,
                    (rest, true) => rest + (century - 1) * 100,
                    (rest, false) => (century + 1) * 100 - rest + 1,
                };
            } else {
                date.year = if is_before { -self.year } else { self.year };
                date.year += i32::from(date.year < 0);
            }
            date.has_year = true;
        } else if self.century != 0 {
            let century = if is_before { -self.century } else { self.century };
            date.year = if century >= 0 { (century - 1) * 100 + 1 } else { century * 100 + 1 };
            date.has_year = true;
        }
    }

    fn date(&mut self) -> Result<Date> {
        let mut date =
            Date { year: 0, month: 1, day: 1, has_year: false, has_month: false, has_day: false };
        self.set_year(&mut date);
        let is_iso = self.convention == Some(Convention::IsoWeek);
        if self.julian != 0 {
            date.set_days(i64::from(self.julian) - EPOCH_JULIAN);
        }
        if self.week != 0 && is_iso {
            let monday = iso_year_start(i64::from(date.year)) + i64::from(self.week - 1) * 7;
            date.set_days(match self.weekday {
                0 => monday,
                1 => monday + 6,
                day => monday + i64::from(day) - 2,
            });
        } else if self.week != 0 {
            self.day_of_year = (self.week - 1) * 7 + 1;
        }
        if self.week_of_month != 0 {
            self.day = (self.week_of_month - 1) * 7 + 1;
        }
        if self.day != 0 {
            (date.day, date.has_day) = (self.day, true);
        }
        if self.month != 0 {
            (date.month, date.has_month) = (self.month, true);
        }
        if self.day_of_year != 0 && (date.month <= 1 || date.day <= 1) {
            if date.year == 0 && self.before_christ == 0 {
                let message = "cannot calculate day of year without year information";
                return Err(bad(message.to_owned()));
            }
            if is_iso {
                let first = iso_year_start(i64::from(date.year));
                date.set_days(first + i64::from(self.day_of_year) - 1);
            } else {
                self.set_day_of_year(&mut date);
            }
        }
        Ok(date)
    }

    fn set_day_of_year(&self, date: &mut Date) {
        let (mut month, mut rest) = (1, self.day_of_year);
        while month <= 12 {
            let length = days_in_month(i64::from(date.year), month) as i32;
            if rest <= length {
                break;
            }
            (month, rest) = (month + 1, rest - length);
        }
        if date.month <= 1 {
            date.month = month as i32;
        }
        if date.day <= 1 {
            date.day = rest;
        }
        (date.has_month, date.has_day) = (true, true);
    }
}
