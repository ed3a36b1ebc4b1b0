//! Times of day from text: `DecodeTimeOnly` of PostgreSQL's `datetime.c`, field by field.
//!
//! Invariants: what is read is no later than 24:00.
//! Does not do: dates and timestamps (`read`), whose fields are read in the same way.

use rightlink::internal::datum::days_from_civil;

use super::read::{DATE, DST, Decoder, Mask, Refusal, Result, TIME, ZONE, offset};
use super::words::{self, Kind, Meaning, Reserved, Word};
use super::zone::{NamedZone, abbreviation};
use super::{Times, ZonedTime};
use crate::types::calendar::{MICROS_PER_DAY, MICROS_PER_SECOND};

/// Reads a time of day; a date and a zone are checked and left out.
pub(crate) fn read_time(text: &str, times: &Times) -> Result<i64> {
    clock(text, times).map(|time| time.micros)
}

/// Reads a time of day with a zone, or in that of the session on the day that is given, or today.
pub(crate) fn read_timetz(text: &str, times: &Times) -> Result<ZonedTime> {
    clock(text, times)
}

fn clock(text: &str, times: &Times) -> Result<ZonedTime> {
    let words = words::split(text).ok_or(Refusal::Syntax)?;
    let mut decoder = Decoder::new(&words, times);
    decoder.is_clock = true;
    for at in 0..words.len() {
        let given = decoder.clock_word(at)?;
        decoder.add(given)?;
    }
    decoder.clock()
}

impl Decoder<'_> {
    /// Takes a word of a time of day; the fields that it gives. A date may stand in front.
    fn clock_word(&mut self, at: usize) -> Result<Mask> {
        let Word { kind, text } = &self.words[at];
        let several = at == 0 && self.words.len() >= 2;
        let last = self.words.last().map(|word| word.kind);
        match kind {
            Kind::Date => {
                let second = self.words.get(1).map(|word| word.kind);
                if several && (last == Some(Kind::Date) || second == Some(Kind::Time)) {
                    return self.date(text);
                }
                if !text.starts_with(|c: char| c.is_ascii_digit()) {
                    return self.named_zone(text);
                }
                if self.has(TIME) {
                    return Err(Refusal::Syntax);
                }
                let sign = text.find('-').ok_or(Refusal::Syntax)?;
                self.offset = offset(&text[sign..])?;
                Ok(self.run_together(&text[..sign], self.mask | DATE)? | ZONE)
            }
            Kind::Time => {
                self.prefix = None;
                self.time(text)?;
                Ok(TIME)
            }
            Kind::Number if self.prefix.is_none() => {
                let point = text.find('.');
                match point {
                    Some(_) if several && last == Some(Kind::Date) => self.date(text),
                    Some(at) if at > 2 => self.run_together(text, self.mask | DATE),
                    Some(_) => Err(Refusal::Syntax),
                    None if text.len() > 4 => self.run_together(text, self.mask | DATE),
                    None => self.date_number(text, false, self.mask | DATE),
                }
            }
            Kind::Letters | Kind::Special => match words::meaning(text) {
                Some(Meaning::Reserved(Reserved::Now)) => {
                    self.reserved(Reserved::Now);
                    Ok(TIME)
                }
                Some(
                    Meaning::Reserved(Reserved::Midnight)
                    | Meaning::Dst
                    | Meaning::AfterNoon(_)
                    | Meaning::BeforeChrist(_)
                    | Meaning::Unit(_)
                    | Meaning::IsoTime
                    | Meaning::Ignored,
                )
                | None => self.letters(at),
                Some(_) => match abbreviation(text) {
                    Some(_) => self.letters(at),
                    None => Err(Refusal::Syntax),
                },
            },
            _ => self.word(at),
        }
    }

    /// What all fields say of a time of day.
    fn clock(mut self) -> Result<ZonedTime> {
        self.validate()?;
        self.apply_noon()?;
        if self.time_overflows() {
            return Err(Refusal::FieldRange);
        }
        if !self.has(TIME) {
            return Err(Refusal::Syntax);
        }
        if self.mask & DST != 0 && (self.zone.is_some() || !self.has(ZONE)) {
            return Err(Refusal::Syntax);
        }
        let micros = self.time_of_day();
        let today = || {
            let now = self.times.now;
            let local = now + i64::from(self.times.zone().offset_at(now)) * MICROS_PER_SECOND;
            local.div_euclid(MICROS_PER_DAY)
        };
        let day = match self.mask & DATE {
            DATE => days_from_civil(i64::from(self.year), self.month as u32, self.day as u32),
            0 => today(),
            _ if self.zone.is_some() || !self.has(ZONE) => return Err(Refusal::Syntax),
            _ => 0,
        };
        let local = day.saturating_mul(MICROS_PER_DAY).saturating_add(micros);
        let offset = match &self.zone {
            Some(NamedZone::Zone(zone)) => match zone.fixed_offset() {
                Some(offset) => offset,
                // Of the others the offset depends on a day, which must be there.
                None if self.has(DATE) => zone.offset_of_local(local),
                None => return Err(Refusal::Syntax),
            },
            Some(zone) => zone.offset_of_local(local),
            None if self.has(ZONE) => self.offset,
            None => self.times.zone().offset_of_local(local),
        };
        Ok(ZonedTime { micros, offset })
    }
}
