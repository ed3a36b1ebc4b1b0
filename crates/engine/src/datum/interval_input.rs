//! Intervals read from text, as PostgreSQL 15 reads them.
//!
//! The text is split into words, which are then taken from the last to the first, so that a unit is
//! known before its number. Text that is none in this form is read as ISO 8601.
//!
//! Invariants: nothing overflows unseen; no unit is given twice; fractions go down to smaller parts
//! by the rules (and in the floats) of PostgreSQL. Text is at most [`MAX_BYTES`] long in
//! [`MAX_WORDS`] words.
//! Does not do: hexadecimal numbers in ISO 8601.

use super::clock::{
    Clock, DateTimeError, MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND,
    fraction, is_space, leading_number, leading_small, overflow,
};
use super::interval::{Interval, IntervalFields};
use super::unit::Unit;

/// Most words of a text.
const MAX_WORDS: usize = 25;
/// Most bytes of all words, an end for each included.
const MAX_BYTES: usize = 256;
/// Largest number in ISO 8601.
const MAX_ISO: f64 = 1e15;

type Result<T> = std::result::Result<T, DateTimeError>;

/// What a minus sign in front of an interval says, if no other part has a sign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeadingSign {
    /// The part behind it is below zero, as PostgreSQL has it.
    OfOne,
    /// All parts are, as the SQL standard has it.
    OfAll,
}

/// Reads an interval; `fields` says what a number without a unit counts, and which parts are kept.
///
/// # Errors
/// Text that is none, or out of range.
pub fn read_interval(text: &str, fields: IntervalFields, sign: LeadingSign) -> Result<Interval> {
    let parts = match split(text).and_then(|words| decode(&words, fields, sign)) {
        Err(DateTimeError::Syntax) => read_iso(text),
        other => other,
    };
    Ok(fields.cut(parts?.finish()?))
}

/// Parts as they are read.
#[derive(Default)]
struct IntervalParts {
    years: i32,
    months: i32,
    days: i32,
    micros: i64,
}

/// A number: what is before the point, and what is behind it, with the same sign.
#[derive(Clone, Copy)]
struct Amount {
    whole: i64,
    fraction: f64,
}

/// `part` and `count` times `scale` more.
fn add_small(part: &mut i32, count: i64, scale: i32) -> Result<()> {
    let more = i32::try_from(count).ok().and_then(|count| count.checked_mul(scale));
    *part = more.and_then(|more| part.checked_add(more)).ok_or_else(overflow)?;
    Ok(())
}

impl IntervalParts {
    fn add_micros(&mut self, amount: Amount, scale: i64) -> Result<()> {
        let more = amount.whole.checked_mul(scale);
        self.micros = more.and_then(|more| self.micros.checked_add(more)).ok_or_else(overflow)?;
        self.add_fraction(amount.fraction, scale)
    }

    /// A fraction of `scale` microseconds; half a microsecond is cut.
    fn add_fraction(&mut self, fraction: f64, scale: i64) -> Result<()> {
        let scaled = fraction * scale as f64;
        let rest = scaled.fract();
        let up = i64::from(rest > 0.5) - i64::from(rest < -0.5);
        self.micros = self.micros.checked_add(scaled as i64 + up).ok_or_else(overflow)?;
        Ok(())
    }

    /// A fraction of `scale` days.
    fn add_day_fraction(&mut self, fraction: f64, scale: i32) -> Result<()> {
        let scaled = fraction * f64::from(scale);
        add_small(&mut self.days, scaled as i64, 1)?;
        self.add_fraction(scaled.fract(), MICROS_PER_DAY)
    }

    fn add_years(&mut self, amount: Amount, scale: i32) -> Result<()> {
        add_small(&mut self.years, amount.whole, scale)?;
        let months = (amount.fraction * f64::from(scale) * 12.0).round_ties_even();
        add_small(&mut self.months, months as i64, 1)
    }

    fn add(&mut self, amount: Amount, unit: Unit) -> Result<()> {
        match unit {
            Unit::Microsecond => self.add_micros(amount, 1),
            Unit::Millisecond => self.add_micros(amount, 1_000),
            Unit::Second => self.add_micros(amount, MICROS_PER_SECOND),
            Unit::Minute => self.add_micros(amount, MICROS_PER_MINUTE),
            Unit::Hour => self.add_micros(amount, MICROS_PER_HOUR),
            Unit::Day => {
                add_small(&mut self.days, amount.whole, 1)?;
                self.add_fraction(amount.fraction, MICROS_PER_DAY)
            }
            Unit::Week => {
                add_small(&mut self.days, amount.whole, 7)?;
                self.add_day_fraction(amount.fraction, 7)
            }
            Unit::Month => {
                add_small(&mut self.months, amount.whole, 1)?;
                self.add_day_fraction(amount.fraction, 30)
            }
            Unit::Year => self.add_years(amount, 1),
            Unit::Decade => self.add_years(amount, 10),
            Unit::Century => self.add_years(amount, 100),
            Unit::Millennium => self.add_years(amount, 1_000),
            Unit::Quarter | Unit::Timezone | Unit::TimezoneHour | Unit::TimezoneMinute => {
                Err(DateTimeError::Syntax)
            }
        }
    }

    fn negate(&mut self) -> Result<()> {
        let small = |part: i32| part.checked_neg().ok_or_else(overflow);
        (self.years, self.months) = (small(self.years)?, small(self.months)?);
        self.days = small(self.days)?;
        self.micros = self.micros.checked_neg().ok_or_else(overflow)?;
        Ok(())
    }

    fn finish(self) -> Result<Interval> {
        let months = i64::from(self.years) * 12 + i64::from(self.months);
        let months = i32::try_from(months).map_err(|_| DateTimeError::OutOfRange)?;
        Ok(Interval { months, days: self.days, micros: self.micros })
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Digits, perhaps with a point.
    Number,
    /// Digits with colons.
    Time,
    /// Digits with other signs between them.
    Date,
    /// Letters.
    Letters,
    /// A sign and digits.
    Signed,
}

struct Word {
    kind: Kind,
    text: String,
}

/// Words after which a sign or digits begin a new one.
const KEYWORDS: &str = " ad allballs am apr april at aug august bc d dec december dow doy dst \
     epoch feb february fri friday h infinity isodow isoyear j jan january jd jul julian july jun \
     june m mar march may mm mon monday nov november now oct october on pm s sat saturday sep sept \
     september sun sunday t thu thur thurs thursday today tomorrow tue tues tuesday wed wednesday \
     weds y yesterday ";

/// The bytes of a text, taken one by one.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    word: String,
    used: usize,
}

impl Reader<'_> {
    fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    fn skip_spaces(&mut self) {
        while is_space(self.peek()) {
            self.at += 1;
        }
    }

    /// Puts the next byte into the word.
    fn take(&mut self) -> Result<()> {
        if self.used + 1 >= MAX_BYTES {
            return Err(DateTimeError::Syntax);
        }
        self.word.push(char::from(self.peek().to_ascii_lowercase()));
        (self.at, self.used) = (self.at + 1, self.used + 1);
        Ok(())
    }

    fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> Result<()> {
        while self.at < self.bytes.len() && wanted(self.peek()) {
            self.take()?;
        }
        Ok(())
    }

    /// A word that begins with a digit.
    fn digits(&mut self) -> Result<Kind> {
        self.take_while(|b| b.is_ascii_digit())?;
        match self.peek() {
            b':' => {
                self.take_while(|b| b.is_ascii_digit() || b == b':' || b == b'.')?;
                Ok(Kind::Time)
            }
            delimiter @ (b'-' | b'/' | b'.') => {
                self.take()?;
                if !self.peek().is_ascii_digit() {
                    self.take_while(|b| b.is_ascii_alphanumeric() || b == delimiter)?;
                    return Ok(Kind::Date);
                }
                self.take_while(|b| b.is_ascii_digit())?;
                if self.peek() == delimiter {
                    self.take_while(|b| b.is_ascii_digit() || b == delimiter)?;
                    return Ok(Kind::Date);
                }
                Ok(if delimiter == b'.' { Kind::Number } else { Kind::Date })
            }
            _ => Ok(Kind::Number),
        }
    }

    /// A word that begins with a letter.
    fn letters(&mut self) -> Result<Kind> {
        self.take_while(|b| b.is_ascii_alphabetic())?;
        let next = self.peek();
        let is_date = match next {
            b'-' | b'/' | b'.' => true,
            b'+' | b'0'..=b'9' => !KEYWORDS.contains(&format!(" {} ", self.word)),
            _ => false,
        };
        if is_date {
            self.take_while(|b| b.is_ascii_alphanumeric() || b"+-/_.:".contains(&b))?;
            return Ok(Kind::Date);
        }
        Ok(Kind::Letters)
    }

    fn signed(&mut self) -> Result<Kind> {
        self.take()?;
        self.skip_spaces();
        if !self.peek().is_ascii_digit() {
            // Infinity, or a sign before nothing.
            return Err(DateTimeError::Syntax);
        }
        self.take_while(|b| b.is_ascii_digit() || b":.-".contains(&b))?;
        Ok(Kind::Signed)
    }
}

fn split(text: &str) -> Result<Vec<Word>> {
    let mut reader = Reader { bytes: text.as_bytes(), at: 0, word: String::new(), used: 0 };
    let mut words = Vec::new();
    while reader.at < reader.bytes.len() {
        let kind = match reader.peek() {
            byte if is_space(byte) => {
                reader.at += 1;
                continue;
            }
            b'0'..=b'9' => reader.digits()?,
            b'.' => {
                reader.take()?;
                reader.take_while(|b| b.is_ascii_digit())?;
                Kind::Number
            }
            byte if byte.is_ascii_alphabetic() => reader.letters()?,
            b'+' | b'-' => reader.signed()?,
            byte if byte.is_ascii_punctuation() => {
                reader.at += 1;
                continue;
            }
            _ => return Err(DateTimeError::Syntax),
        };
        if words.len() == MAX_WORDS {
            return Err(DateTimeError::Syntax);
        }
        words.push(Word { kind, text: std::mem::take(&mut reader.word) });
        reader.used += 1;
    }
    Ok(words)
}

fn bit(unit: Unit) -> u32 {
    1 << (unit as u32)
}

/// The units that a time of day gives.
fn clock_bits() -> u32 {
    let seconds = bit(Unit::Second) | bit(Unit::Millisecond) | bit(Unit::Microsecond);
    bit(Unit::Hour) | bit(Unit::Minute) | seconds
}

fn decode(words: &[Word], fields: IntervalFields, sign: LeadingSign) -> Result<IntervalParts> {
    let mut parts = IntervalParts::default();
    // The unit of the next number; none after `ago`.
    let mut unit = Some(fields.last_unit());
    let (mut seen, mut negated) = (0, false);
    let is_signed = |word: &Word| word.text.starts_with(['-', '+']);
    let is_negative = sign == LeadingSign::OfAll
        && words.first().is_some_and(|first| first.text.starts_with('-'))
        && !words.iter().skip(1).any(is_signed);
    for (at, word) in words.iter().enumerate().rev() {
        // A sign that is one of all words is in front of the first already.
        let negates = is_negative && at > 0;
        let clock = match word.kind {
            Kind::Time => {
                Some(Clock::read(&word.text, fields.is_minute_to_second())?.total(negates)?)
            }
            Kind::Signed if word.text.contains(':') => signed_clock(&word.text, fields),
            _ => None,
        };
        let given = if let Some(micros) = clock {
            parts.micros = micros;
            unit = Some(Unit::Day);
            clock_bits()
        } else if word.kind == Kind::Letters {
            if word.text == "ago" {
                (unit, negated) = (None, true);
            } else {
                unit = Some(Unit::named(&word.text).ok_or(DateTimeError::Syntax)?);
            }
            0
        } else {
            let text = format!("{}{}", if negates { "-" } else { "" }, word.text);
            number(&text, &mut unit, &mut parts)?
        };
        if seen & given != 0 {
            return Err(DateTimeError::Syntax);
        }
        seen |= given;
    }
    if seen == 0 {
        return Err(DateTimeError::Syntax);
    }
    if negated {
        parts.negate()?;
    }
    Ok(parts)
}

/// PostgreSQL takes the sign afterwards, and so refuses the smallest interval that it prints.
fn signed_clock(text: &str, fields: IntervalFields) -> Option<i64> {
    let (sign, rest) = text.split_at(1);
    Clock::read(rest, fields.is_minute_to_second()).ok()?.total(sign == "-").ok()
}

/// Adds a number of `unit`; returns the units that are given by it.
fn number(text: &str, unit: &mut Option<Unit>, parts: &mut IntervalParts) -> Result<u32> {
    let (whole, rest) = leading_number(text)?;
    let negative = text.starts_with('-');
    let mut amount = Amount { whole, fraction: 0.0 };
    match rest.as_bytes().first() {
        None => {}
        // Years and months.
        Some(b'-') => {
            let (months, rest) = leading_small(&rest[1..])?;
            if !(0..12).contains(&months) {
                return Err(overflow());
            }
            if !rest.is_empty() {
                return Err(DateTimeError::Syntax);
            }
            let months = if negative { -months } else { months };
            let total = whole.checked_mul(12).and_then(|years| years.checked_add(months));
            amount.whole = total.ok_or_else(overflow)?;
            *unit = Some(Unit::Month);
        }
        Some(b'.') => {
            let behind = fraction(rest)?;
            amount.fraction = if negative { -behind } else { behind };
        }
        Some(_) => return Err(DateTimeError::Syntax),
    }
    let counted = unit.ok_or(DateTimeError::Syntax)?;
    parts.add(amount, counted)?;
    if counted == Unit::Hour {
        *unit = Some(Unit::Day);
    }
    Ok(match counted {
        // A fraction of seconds gives the units below, too.
        Unit::Second if amount.fraction != 0.0 => {
            clock_bits() & !(bit(Unit::Hour) | bit(Unit::Minute))
        }
        other => bit(other),
    })
}

/// A text in ISO 8601 that is read from its front.
struct Iso<'a> {
    rest: &'a str,
    parts: IntervalParts,
}

impl<'a> Iso<'a> {
    /// Takes a number; its digits in front of the point are counted for the forms without units.
    fn number(&mut self) -> Result<Amount> {
        if !self.rest.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.') {
            return Err(DateTimeError::Syntax);
        }
        let len = float_len(self.rest);
        let (number, rest) = self.rest.split_at(len);
        let value: f64 = number.parse().map_err(|_| DateTimeError::Syntax)?;
        if value.abs() > MAX_ISO {
            return Err(overflow());
        }
        self.rest = rest;
        Ok(Amount { whole: value as i64, fraction: value.fract() })
    }

    /// Takes the next character; none at the end.
    fn next(&mut self) -> Option<char> {
        let next = self.rest.chars().next();
        self.rest = &self.rest[next.map_or(0, char::len_utf8)..];
        next
    }
}

/// Bytes of the float in front of `text`.
fn float_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut end = usize::from(text.starts_with('-'));
    end += digits(end);
    if bytes.get(end) == Some(&b'.') {
        end += 1 + digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits((end + 1 + sign).min(bytes.len()));
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    end
}

/// Digits in front of `text`, a sign aside.
fn width(text: &str) -> usize {
    let text = text.strip_prefix('-').unwrap_or(text);
    text.bytes().take_while(u8::is_ascii_digit).count()
}

fn read_iso(text: &str) -> Result<IntervalParts> {
    let rest = text.strip_prefix('P').filter(|rest| !rest.is_empty());
    let mut iso = Iso { rest: rest.ok_or(DateTimeError::Syntax)?, parts: IntervalParts::default() };
    let (mut in_time, mut any) = (false, false);
    while !iso.rest.is_empty() {
        if let Some(rest) = iso.rest.strip_prefix('T') {
            (iso.rest, in_time, any) = (rest, true, false);
            continue;
        }
        let start = iso.rest;
        let amount = iso.number()?;
        let unit = match (in_time, iso.next()) {
            (false, Some('Y')) => Unit::Year,
            (false, Some('M')) => Unit::Month,
            (false, Some('W')) => Unit::Week,
            (false, Some('D')) => Unit::Day,
            (true, Some('H')) => Unit::Hour,
            (true, Some('M')) => Unit::Minute,
            (true, Some('S')) => Unit::Second,
            (false, end @ (None | Some('T' | '-'))) if !any => {
                let basic = width(start) == 8 && end != Some('-');
                if !basic {
                    iso.parts.add(amount, Unit::Year)?;
                    if end == Some('-') && !iso_month_and_day(&mut iso)? {
                        return Ok(iso.parts);
                    }
                } else {
                    iso_date(&mut iso.parts, amount)?;
                }
                in_time = true;
                continue;
            }
            (true, end @ (None | Some(':'))) if !any => {
                if width(start) == 6 && end.is_none() {
                    iso_time(&mut iso.parts, amount)?;
                } else {
                    iso.parts.add(amount, Unit::Hour)?;
                    if end.is_some() {
                        iso_minutes_and_seconds(&mut iso)?;
                    }
                }
                return Ok(iso.parts);
            }
            _ => return Err(DateTimeError::Syntax),
        };
        iso.parts.add(amount, unit)?;
        any = true;
    }
    Ok(iso.parts)
}

/// `yyyymmdd`
fn iso_date(parts: &mut IntervalParts, amount: Amount) -> Result<()> {
    let whole = |whole| Amount { whole, fraction: 0.0 };
    parts.add(whole(amount.whole / 10_000), Unit::Year)?;
    parts.add(whole(amount.whole / 100 % 100), Unit::Month)?;
    let days = Amount { whole: amount.whole % 100, fraction: amount.fraction };
    parts.add(days, Unit::Day)
}

/// `hhmmss`, and a fraction that PostgreSQL takes for one of a microsecond.
fn iso_time(parts: &mut IntervalParts, amount: Amount) -> Result<()> {
    let whole = |whole| Amount { whole, fraction: 0.0 };
    parts.add(whole(amount.whole / 10_000), Unit::Hour)?;
    parts.add(whole(amount.whole / 100 % 100), Unit::Minute)?;
    parts.add(whole(amount.whole % 100), Unit::Second)?;
    parts.add_fraction(amount.fraction, 1)
}

/// `mm[-dd]` after the years; does a time follow?
fn iso_month_and_day(iso: &mut Iso<'_>) -> Result<bool> {
    for unit in [Unit::Month, Unit::Day] {
        let amount = iso.number()?;
        iso.parts.add(amount, unit)?;
        match (unit, iso.next()) {
            (_, None) => return Ok(false),
            (_, Some('T')) => return Ok(true),
            (Unit::Month, Some('-')) => {}
            _ => return Err(DateTimeError::Syntax),
        }
    }
    Err(DateTimeError::Syntax)
}

/// `mm[:ss]` after the hours.
fn iso_minutes_and_seconds(iso: &mut Iso<'_>) -> Result<()> {
    for unit in [Unit::Minute, Unit::Second] {
        let amount = iso.number()?;
        iso.parts.add(amount, unit)?;
        match (unit, iso.next()) {
            (_, None) => return Ok(()),
            (Unit::Minute, Some(':')) => {}
            _ => return Err(DateTimeError::Syntax),
        }
    }
    Err(DateTimeError::Syntax)
}
