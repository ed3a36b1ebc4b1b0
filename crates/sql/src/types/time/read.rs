//! Dates and timestamps from text: `DecodeDateTime` of PostgreSQL's `datetime.c`, field by field.
//!
//! Invariants: what is read lies in the range of its type. A field is given once.
//! Does not do: times of day (`clock`); intervals, which the store reads.

use rightlink::internal::datum::{
    CivilDate, DATES, TIMESTAMPS, civil_from_days, days_from_civil, days_in_month,
};

use super::words::{self, Kind, Meaning, Reserved, Unit, Word};
use super::zone::{Abbreviation, NamedZone, Zone, abbreviation};
use super::{DateOrder, Times};
use crate::types::calendar::{MICROS_PER_DAY, MICROS_PER_SECOND};

/// Why text is no date or time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Refusal {
    /// It does not have the form of one.
    Syntax,
    /// A field is beyond its range.
    FieldRange,
    /// A month or a day is, which another order of fields may make right.
    MonthOrDayRange,
    /// The fields are possible, their sum is beyond the type's range.
    OutOfRange,
    /// The offset of the zone is beyond its range.
    ZoneRange,
    /// There is no zone of this name.
    NoZone(String),
}

pub(super) type Result<T> = std::result::Result<T, Refusal>;

/// Fields that a text gives, a bit for each.
pub(super) type Mask = u32;

const MONTH: Mask = 1;
const YEAR: Mask = 1 << 1;
const DAY: Mask = 1 << 2;
pub(super) const DATE: Mask = YEAR | MONTH | DAY;
const HOUR: Mask = 1 << 3;
const MINUTE: Mask = 1 << 4;
const SECOND: Mask = 1 << 5;
const FRACTION: Mask = 1 << 6;
pub(super) const TIME: Mask = HOUR | MINUTE | SECOND | FRACTION;
pub(super) const ZONE: Mask = 1 << 7;
const DST_ZONE: Mask = 1 << 8;
pub(super) const DST: Mask = 1 << 9;
const DAY_OF_YEAR: Mask = 1 << 10;
const WEEKDAY: Mask = 1 << 11;
const AM_PM: Mask = 1 << 12;
const ERA: Mask = 1 << 13;
const DYNAMIC_ZONE: Mask = 1 << 14;
const RESERVED: Mask = 1 << 15;

/// Days from the first Julian day to 2000-01-01.
const EPOCH_JULIAN: i64 = 2_451_545;
/// 1970-01-01 in days since 2000-01-01.
const UNIX_EPOCH: i64 = -10_957;
/// Days beyond which no date is looked at.
const FAR: i64 = i32::MAX as i64 + EPOCH_JULIAN;

/// What a text says.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Found {
    Infinity {
        negative: bool,
    },
    Epoch,
    /// Days since 2000, microseconds of the day, seconds east of UTC.
    Moment {
        days: i64,
        time: i64,
        offset: i32,
    },
}

/// Reads a date; a time and a zone are checked and left out.
pub(crate) fn read_date(text: &str, times: &Times) -> Result<i32> {
    match read(text, times)? {
        Found::Infinity { negative } => Ok(if negative { i32::MIN } else { i32::MAX }),
        Found::Epoch => Ok(UNIX_EPOCH as i32),
        Found::Moment { days, .. } if DATES.contains(&days) => Ok(days as i32),
        Found::Moment { .. } => Err(Refusal::OutOfRange),
    }
}

/// Reads a timestamp; a zone is checked and left out.
pub(crate) fn read_timestamp(text: &str, times: &Times) -> Result<i64> {
    timestamp(read(text, times)?, false)
}

/// Reads a timestamp with a zone, or in that of the session.
pub(crate) fn read_timestamptz(text: &str, times: &Times) -> Result<i64> {
    timestamp(read(text, times)?, true)
}

fn timestamp(found: Found, zoned: bool) -> Result<i64> {
    let (days, time) = match found {
        Found::Infinity { negative } => return Ok(if negative { i64::MIN } else { i64::MAX }),
        Found::Epoch => (UNIX_EPOCH, 0),
        Found::Moment { days, time, offset } => {
            let offset = if zoned { i64::from(offset) * MICROS_PER_SECOND } else { 0 };
            (days, time - offset)
        }
    };
    let sum = i128::from(days) * i128::from(MICROS_PER_DAY) + i128::from(time);
    let sum = i64::try_from(sum).ok().filter(|sum| TIMESTAMPS.contains(sum));
    sum.ok_or(Refusal::OutOfRange)
}

fn read(text: &str, times: &Times) -> Result<Found> {
    let words = words::split(text).ok_or(Refusal::Syntax)?;
    let mut decoder = Decoder::new(&words, times);
    for at in 0..words.len() {
        let given = decoder.word(at)?;
        decoder.add(given)?;
    }
    decoder.moment()
}

/// The fields of a text as they are found.
pub(super) struct Decoder<'t> {
    pub(super) words: &'t [Word],
    pub(super) times: &'t Times,
    pub(super) mask: Mask,
    /// What the number behind it is, by the word in front.
    pub(super) prefix: Option<Unit>,
    pub(super) year: i32,
    pub(super) month: i32,
    pub(super) day: i32,
    day_of_year: i32,
    hour: i32,
    minute: i32,
    second: i32,
    micros: i64,
    /// Seconds east of UTC.
    pub(super) offset: i32,
    pub(super) zone: Option<NamedZone>,
    after_noon: Option<bool>,
    before_christ: bool,
    is_julian: bool,
    /// Has the year one or two digits?
    is_short: bool,
    has_text_month: bool,
    special: Option<Found>,
    /// Is a time of day read, and no date?
    pub(super) is_clock: bool,
}

impl<'t> Decoder<'t> {
    pub(super) fn new(words: &'t [Word], times: &'t Times) -> Decoder<'t> {
        Decoder {
            words,
            times,
            mask: 0,
            prefix: None,
            year: 0,
            month: 0,
            day: 0,
            day_of_year: 0,
            hour: 0,
            minute: 0,
            second: 0,
            micros: 0,
            offset: 0,
            zone: None,
            after_noon: None,
            before_christ: false,
            is_julian: false,
            is_short: false,
            has_text_month: false,
            special: None,
            is_clock: false,
        }
    }

    /// Notes fields that are given now.
    pub(super) fn add(&mut self, given: Mask) -> Result<()> {
        if self.mask & given != 0 {
            return Err(Refusal::Syntax);
        }
        self.mask |= given;
        Ok(())
    }

    pub(super) fn has(&self, fields: Mask) -> bool {
        self.mask & fields == fields
    }

    /// Takes a word; the fields that it gives.
    pub(super) fn word(&mut self, at: usize) -> Result<Mask> {
        let Word { kind, text } = &self.words[at];
        match kind {
            Kind::Date => self.date_or_zone(text),
            Kind::Time => {
                if self.prefix.take().is_some_and(|prefix| prefix != Unit::Time) {
                    return Err(Refusal::Syntax);
                }
                self.time(text)?;
                if self.time_overflows() { Err(Refusal::FieldRange) } else { Ok(TIME) }
            }
            Kind::Offset => {
                self.offset = offset(text)?;
                Ok(ZONE)
            }
            Kind::Number => match self.prefix.take() {
                Some(unit) => self.labelled(unit, text),
                None => self.number(text),
            },
            Kind::Letters | Kind::Special => self.letters(at),
        }
    }

    /// Digits and signs: a date, or behind one a zone, or a time with a zone.
    fn date_or_zone(&mut self, text: &str) -> Result<Mask> {
        if self.prefix == Some(Unit::Julian) {
            self.prefix = None;
            let (day, rest) = leading(text)?;
            if day < 0 {
                return Err(Refusal::FieldRange);
            }
            self.julian(day);
            self.offset = offset(rest)?;
            return Ok(DATE | TIME | ZONE);
        }
        if self.prefix.is_none() && !self.has(MONTH | DAY) {
            return self.date(text);
        }
        if !text.starts_with(|c: char| c.is_ascii_digit()) && self.prefix.is_none() {
            return self.named_zone(text);
        }
        if self.prefix.take().is_some_and(|prefix| prefix != Unit::Time) || self.has(TIME) {
            return Err(Refusal::Syntax);
        }
        let sign = text.find('-').ok_or(Refusal::Syntax)?;
        self.offset = offset(&text[sign..])?;
        Ok(self.run_together(&text[..sign], self.mask)? | ZONE)
    }

    pub(super) fn named_zone(&mut self, text: &str) -> Result<Mask> {
        let zone = Zone::named(text).ok_or_else(|| Refusal::NoZone(text.to_owned()))?;
        self.zone = Some(NamedZone::Zone(std::sync::Arc::new(zone)));
        Ok(ZONE)
    }

    /// A date of numbers and a name of a month.
    pub(super) fn date(&mut self, text: &str) -> Result<Mask> {
        let mut parts = parts_of(text)?;
        let (mut mask, mut given) = (self.mask, 0);
        let mut add = |field: Mask, mask: &mut Mask| {
            if *mask & field != 0 {
                return Err(Refusal::Syntax);
            }
            (*mask, given) = (*mask | field, given | field);
            Ok(())
        };
        let mut has_text_month = false;
        for part in &mut parts {
            if part.starts_with(|c: char| c.is_ascii_alphabetic()) {
                match words::meaning(part) {
                    Some(Meaning::Ignored) => {}
                    Some(Meaning::Month(month)) => {
                        (self.month, has_text_month) = (month, true);
                        add(MONTH, &mut mask)?;
                        *part = "";
                    }
                    _ => return Err(Refusal::Syntax),
                }
            }
        }
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let field = self.date_number(part, has_text_month, mask)?;
            add(field, &mut mask)?;
        }
        match mask & !(DAY_OF_YEAR | ZONE) == DATE {
            true => Ok(given),
            false => Err(Refusal::Syntax),
        }
    }

    fn julian(&mut self, day: i32) {
        self.is_julian = true;
        self.set_date(i64::from(day) - EPOCH_JULIAN);
    }

    fn set_date(&mut self, days: i64) {
        let CivilDate { year, month, day } = civil_from_days(days);
        (self.year, self.month, self.day) = (year as i32, month as i32, day as i32);
    }

    /// A number behind a word that says what it is.
    fn labelled(&mut self, unit: Unit, text: &str) -> Result<Mask> {
        let (value, rest) = leading(text)?;
        let may_have_point = matches!(unit, Unit::Julian | Unit::Time | Unit::Second);
        if !(rest.is_empty() || rest.starts_with('.') && may_have_point) {
            return Err(Refusal::Syntax);
        }
        match unit {
            Unit::Year => self.year = value,
            Unit::Month if self.has(MONTH | HOUR) => {
                self.minute = value;
                return Ok(MINUTE);
            }
            Unit::Month => self.month = value,
            Unit::Day => self.day = value,
            Unit::Hour => self.hour = value,
            Unit::Minute => self.minute = value,
            Unit::Second => {
                self.second = value;
                if rest.starts_with('.') {
                    self.micros = fraction(rest)?;
                    return Ok(SECOND | FRACTION);
                }
            }
            Unit::Julian if value < 0 => return Err(Refusal::FieldRange),
            Unit::Julian => {
                self.julian(value);
                if rest.starts_with('.') {
                    let part: f64 = rest.parse().unwrap_or(0.0);
                    self.set_time((part * MICROS_PER_DAY as f64) as i64);
                    return Ok(DATE | TIME);
                }
            }
            Unit::Time => {
                let given = self.run_together(text, self.mask | DATE)?;
                return if given == TIME { Ok(given) } else { Err(Refusal::Syntax) };
            }
            Unit::Other => return Err(Refusal::Syntax),
        }
        Ok(match unit {
            Unit::Year => YEAR,
            Unit::Month => MONTH,
            Unit::Day => DAY,
            Unit::Hour => HOUR,
            Unit::Minute => MINUTE,
            Unit::Second => SECOND,
            _ => DATE,
        })
    }

    fn set_time(&mut self, micros: i64) {
        let seconds = micros / MICROS_PER_SECOND;
        self.hour = (seconds / 3_600) as i32;
        self.minute = (seconds / 60 % 60) as i32;
        self.second = (seconds % 60) as i32;
        self.micros = micros % MICROS_PER_SECOND;
    }

    /// A number that nothing labels.
    fn number(&mut self, text: &str) -> Result<Mask> {
        let point = text.find('.');
        match point {
            Some(_) if self.mask & DATE == 0 => self.date(text),
            Some(at) if at > 2 => self.run_together(text, self.mask),
            _ if text.len() >= 6 && !(self.mask & DATE != 0 && self.mask & TIME != 0) => {
                self.run_together(text, self.mask)
            }
            _ => self.date_number(text, self.has_text_month, self.mask),
        }
    }

    /// A date or a time whose fields stand without signs between them.
    pub(super) fn run_together(&mut self, text: &str, mask: Mask) -> Result<Mask> {
        let (digits, is_time) = match text.split_once('.') {
            Some((digits, behind)) => {
                let part: f64 = format!("0.{behind}").parse().map_err(|_| Refusal::Syntax)?;
                self.micros = (part * 1e6).round_ties_even() as i64;
                (digits, true)
            }
            None => (text, mask & DATE == DATE),
        };
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Refusal::Syntax);
        }
        let number = |text: &str| text.parse::<i64>().map_or(i32::MAX, |n| n as i32);
        let len = digits.len();
        if !is_time && len >= 6 {
            self.day = number(&digits[len - 2..]);
            self.month = number(&digits[len - 4..len - 2]);
            self.year = number(&digits[..len - 4]);
            self.is_short |= len == 6;
            return Ok(DATE);
        }
        if mask & TIME != TIME && matches!(len, 4 | 6) {
            self.hour = number(&digits[..2]);
            self.minute = number(&digits[2..4]);
            self.second = if len == 6 { number(&digits[4..]) } else { 0 };
            return Ok(TIME);
        }
        Err(Refusal::Syntax)
    }

    /// A number of a date, by what is there already and the order of the session.
    pub(super) fn date_number(
        &mut self,
        text: &str,
        has_text_month: bool,
        mask: Mask,
    ) -> Result<Mask> {
        let (value, rest) = leading(text)?;
        let len = text.len();
        if rest.starts_with('.') {
            if len - rest.len() > 2 {
                return self.run_together(text, mask | DATE);
            }
            self.micros = fraction(rest)?;
        } else if !rest.is_empty() || rest.len() == len {
            return Err(Refusal::Syntax);
        }
        if len == 3 && mask & DATE == YEAR && (1..=366).contains(&value) {
            self.day_of_year = value;
            return Ok(DAY_OF_YEAR | MONTH | DAY);
        }
        let order = self.times.styles.order;
        let is_year = len >= 3 || order == DateOrder::Ymd;
        let (year_month, month_day) = (YEAR | MONTH, MONTH | DAY);
        let field = match mask & DATE {
            0 if is_year => YEAR,
            0 if order == DateOrder::Dmy => DAY,
            0 => MONTH,
            YEAR => MONTH,
            MONTH if has_text_month && is_year => YEAR,
            MONTH => DAY,
            found if found == year_month => {
                if has_text_month && len >= 3 && self.is_short {
                    // The number in front was a day.
                    (self.day, self.year, self.is_short) = (self.year, value, false);
                    return Ok(DAY);
                }
                DAY
            }
            DAY => MONTH,
            found if found == month_day => YEAR,
            DATE => return self.run_together(text, mask),
            _ => return Err(Refusal::Syntax),
        };
        match field {
            YEAR => {
                self.year = value;
                self.is_short = len <= 2;
            }
            MONTH => self.month = value,
            _ => self.day = value,
        }
        Ok(field)
    }

    pub(super) fn letters(&mut self, at: usize) -> Result<Mask> {
        let text = &self.words[at].text;
        if let Some(what) = abbreviation(text) {
            return Ok(match what {
                Abbreviation::Fixed { offset, is_dst } => {
                    self.offset = offset;
                    if is_dst { ZONE | DST_ZONE } else { ZONE }
                }
                Abbreviation::Of(_) => {
                    self.zone = Some(NamedZone::Abbreviation { name: text.clone(), what });
                    ZONE | DYNAMIC_ZONE
                }
            });
        }
        match words::meaning(text) {
            None => match Zone::named(text) {
                Some(zone) => {
                    self.zone = Some(NamedZone::Zone(std::sync::Arc::new(zone)));
                    Ok(ZONE)
                }
                None => Err(Refusal::Syntax),
            },
            Some(Meaning::Ignored) => Ok(0),
            Some(Meaning::Reserved(word)) => Ok(self.reserved(word)),
            Some(Meaning::Month(month)) => {
                let mut given = MONTH;
                if self.has(MONTH)
                    && !self.has_text_month
                    && !self.has(DAY)
                    && (1..=31).contains(&self.month)
                {
                    // What was taken for a month is a day.
                    self.day = self.month;
                    given = DAY;
                }
                (self.has_text_month, self.month) = (true, month);
                Ok(given)
            }
            Some(Meaning::Dst) => {
                self.offset += 3_600;
                Ok(DST | DST_ZONE)
            }
            Some(Meaning::AfterNoon(after)) => {
                self.after_noon = Some(after);
                Ok(AM_PM)
            }
            Some(Meaning::BeforeChrist(before)) => {
                self.before_christ = before;
                Ok(ERA)
            }
            Some(Meaning::Weekday) => Ok(WEEKDAY),
            Some(Meaning::Unit(unit)) => {
                self.prefix = Some(unit);
                Ok(0)
            }
            Some(Meaning::IsoTime) => {
                let next = self.words.get(at + 1).map(|word| word.kind);
                let is_time = matches!(next, Some(Kind::Number | Kind::Time | Kind::Date));
                if !is_time || !self.is_clock && !self.has(DATE) {
                    return Err(Refusal::Syntax);
                }
                self.prefix = Some(Unit::Time);
                Ok(0)
            }
        }
    }

    pub(super) fn reserved(&mut self, word: Reserved) -> Mask {
        let zone = self.times.zone();
        let offset = zone.offset_at(self.times.now);
        let local = self.times.now + i64::from(offset) * MICROS_PER_SECOND;
        let today = local.div_euclid(MICROS_PER_DAY);
        self.special = None;
        match word {
            Reserved::Now => {
                self.set_date(today);
                self.set_time(local.rem_euclid(MICROS_PER_DAY));
                self.offset = offset;
            }
            Reserved::Today => self.set_date(today),
            Reserved::Tomorrow => self.set_date(today + 1),
            Reserved::Yesterday => self.set_date(today - 1),
            Reserved::Midnight => {
                self.set_time(0);
                self.offset = 0;
                return TIME | ZONE;
            }
            Reserved::Epoch => return self.special(Found::Epoch),
            Reserved::Infinity => return self.special(Found::Infinity { negative: false }),
            Reserved::MinusInfinity => return self.special(Found::Infinity { negative: true }),
        }
        if word == Reserved::Now { DATE | TIME | ZONE } else { DATE }
    }

    fn special(&mut self, found: Found) -> Mask {
        self.special = Some(found);
        RESERVED
    }

    /// Reads `hours:minutes[:seconds[.fraction]]` or `minutes:seconds.fraction`.
    pub(super) fn time(&mut self, text: &str) -> Result<()> {
        let (first, rest) = leading(text)?;
        let rest = rest.strip_prefix(':').ok_or(Refusal::Syntax)?;
        let (second, rest) = leading(rest)?;
        (self.hour, self.minute, self.second, self.micros) = (first, second, 0, 0);
        match rest.as_bytes().first() {
            None => {}
            Some(b'.') => {
                self.micros = fraction(rest)?;
                (self.hour, self.minute, self.second) = (0, first, second);
            }
            Some(b':') => {
                let (third, rest) = leading(&rest[1..])?;
                self.second = third;
                match rest.as_bytes().first() {
                    None => {}
                    Some(b'.') => self.micros = fraction(rest)?,
                    Some(_) => return Err(Refusal::Syntax),
                }
            }
            Some(_) => return Err(Refusal::Syntax),
        }
        let fits = self.hour >= 0
            && (0..60).contains(&self.minute)
            && (0..=60).contains(&self.second)
            && (0..=MICROS_PER_SECOND).contains(&self.micros);
        if fits { Ok(()) } else { Err(Refusal::FieldRange) }
    }

    pub(super) fn time_of_day(&self) -> i64 {
        let minutes = i64::from(self.hour) * 60 + i64::from(self.minute);
        (minutes * 60 + i64::from(self.second)) * MICROS_PER_SECOND + self.micros
    }

    pub(super) fn time_overflows(&self) -> bool {
        let fits = (0..=24).contains(&self.hour)
            && (0..60).contains(&self.minute)
            && (0..=60).contains(&self.second)
            && (0..=MICROS_PER_SECOND).contains(&self.micros);
        !fits || self.time_of_day() > MICROS_PER_DAY
    }

    /// Checks the date and makes its year the astronomical one.
    pub(super) fn validate(&mut self) -> Result<()> {
        if self.has(YEAR) && !self.is_julian {
            if self.before_christ {
                if self.year <= 0 {
                    return Err(Refusal::FieldRange);
                }
                self.year = 1 - self.year;
            } else if self.is_short {
                self.year += match self.year {
                    ..70 => 2_000,
                    70..100 => 1_900,
                    _ => 0,
                };
            } else if self.year <= 0 {
                return Err(Refusal::FieldRange);
            }
        }
        if self.has(DAY_OF_YEAR) {
            let first = days_from_civil(i64::from(self.year), 1, 1);
            self.set_date(first + i64::from(self.day_of_year) - 1);
        }
        if self.has(MONTH) && !(1..=12).contains(&self.month) {
            return Err(Refusal::MonthOrDayRange);
        }
        if self.has(DAY) && !(1..=31).contains(&self.day) {
            return Err(Refusal::MonthOrDayRange);
        }
        let most = |decoder: &Self| days_in_month(i64::from(decoder.year), decoder.month as u32);
        if self.has(DATE) && self.day as u32 > most(self) {
            return Err(Refusal::FieldRange);
        }
        Ok(())
    }

    /// Makes twelve hours twenty-four.
    pub(super) fn apply_noon(&mut self) -> Result<()> {
        if self.after_noon.is_some() && self.hour > 12 {
            return Err(Refusal::FieldRange);
        }
        match self.after_noon {
            Some(false) if self.hour == 12 => self.hour = 0,
            Some(true) if self.hour != 12 => self.hour += 12,
            _ => {}
        }
        Ok(())
    }

    /// What all fields say together.
    fn moment(mut self) -> Result<Found> {
        self.validate()?;
        self.apply_noon()?;
        if let Some(special) = self.special {
            return Ok(special);
        }
        if !self.has(DATE) {
            return Err(Refusal::Syntax);
        }
        let days = days_from_civil(i64::from(self.year), self.month as u32, self.day as u32);
        let time = self.time_of_day();
        if days.abs() > FAR {
            return Err(Refusal::OutOfRange);
        }
        // The offset of a day that no timestamp has does not matter.
        let local = days.saturating_mul(MICROS_PER_DAY).saturating_add(time);
        let dst_alone = self.mask & DST != 0 && (self.zone.is_some() || !self.has(ZONE));
        if dst_alone {
            return Err(Refusal::Syntax);
        }
        if let Some(zone) = &self.zone {
            self.offset = zone.offset_of_local(local);
        } else if !self.has(ZONE) {
            self.offset = self.times.zone().offset_of_local(local);
        }
        Ok(Found::Moment { days, time, offset: self.offset })
    }
}

/// The parts of a date between other signs; one sign is left out behind each.
fn parts_of(text: &str) -> Result<Vec<&str>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        rest = rest.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
        let first = rest.bytes().next().ok_or(Refusal::Syntax)?;
        let is_same = |c: char| match first.is_ascii_digit() {
            true => c.is_ascii_digit(),
            false => c.is_ascii_alphabetic(),
        };
        let end = rest.find(|c| !is_same(c)).unwrap_or(rest.len());
        parts.push(&rest[..end]);
        rest = rest.get(end + 1..).unwrap_or("");
    }
    Ok(parts)
}

/// The number in front of `text`, 0 if there is none, and what follows it.
fn leading(text: &str) -> Result<(i32, &str)> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return Ok((0, text));
    }
    let (number, rest) = text.split_at(text.len() - unsigned.len() + digits);
    Ok((number.parse().map_err(|_| Refusal::FieldRange)?, rest))
}

/// Microseconds of a fraction that begins with a point.
fn fraction(text: &str) -> Result<i64> {
    let digits = text.strip_prefix('.').ok_or(Refusal::Syntax)?;
    if digits.is_empty() {
        return Ok(0);
    }
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Refusal::Syntax);
    }
    let part: f64 = text.parse().map_err(|_| Refusal::Syntax)?;
    Ok((part * 1e6).round_ties_even() as i64)
}

/// `+HH`, `+HHMM`, `+HH:MM` or `+HH:MM:SS` as seconds east of UTC.
pub(crate) fn offset(text: &str) -> Result<i32> {
    let sign = match text.as_bytes().first() {
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => return Err(Refusal::Syntax),
    };
    let number = |text| leading(text).map_err(|_| Refusal::ZoneRange);
    let (mut hours, mut rest) = number(&text[1..])?;
    let (mut minutes, mut seconds) = (0, 0);
    if let Some(behind) = rest.strip_prefix(':') {
        (minutes, rest) = number(behind)?;
        if let Some(behind) = rest.strip_prefix(':') {
            (seconds, rest) = number(behind)?;
        }
    } else if rest.is_empty() && text.len() > 3 {
        (hours, minutes) = (hours / 100, hours % 100);
    }
    let fits = (0..16).contains(&hours) && (0..60).contains(&minutes) && (0..60).contains(&seconds);
    if !fits {
        return Err(Refusal::ZoneRange);
    }
    if !rest.is_empty() {
        return Err(Refusal::Syntax);
    }
    Ok(sign * (hours * 3_600 + minutes * 60 + seconds))
}
