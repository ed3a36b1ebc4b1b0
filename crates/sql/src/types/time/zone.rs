//! Time zones: by the names of the IANA database, by POSIX rules, by offsets; and the abbreviations
//! of PostgreSQL's default set, which texts may name.
//!
//! Rules of the database repeat after 400 years. So a time behind the years that the library counts
//! has the offset of the same day of an earlier cycle, which is how PostgreSQL goes on, too.
//!
//! Invariants: offsets are seconds east of UTC. A local time that a change leaves out has the
//! offset before the change; one that comes twice that behind it, as in PostgreSQL.
//! Does not do: leap seconds, zones of the operating system's own setting.

use std::fmt;
use std::sync::Arc;

use jiff::tz::{AmbiguousOffset, Offset, TimeZone, db};
use jiff::{Timestamp, civil};

use rightlink::internal::datum::{CivilDate, TIMESTAMPS, Unit, civil_from_days};

use crate::error::{Result, SqlError, code};
use crate::types::Interval;
use crate::types::calendar::{
    self, EPOCH_SECONDS, MICROS_PER_DAY, MICROS_PER_SECOND, is_finite, overflow,
};

/// Seconds of 400 years, after which the calendar and its weekdays repeat.
const CYCLE_SECONDS: i64 = 146_097 * 86_400;
/// Begin of the year 9000, in seconds since 1970: the last that is asked of the library.
const LAST_SECONDS: i64 = 221_845_392_000;
/// A second of the year -9977, before the first timestamp.
const FIRST_SECONDS: i64 = -377_000_000_000;
/// Rules of a zone whose POSIX text names daylight saving time and no rules.
const DEFAULT_RULES: &str = ",M3.2.0,M11.1.0";
/// Changes of a zone that are searched for an abbreviation.
const MOST_CHANGES: usize = 2_000;

/// A time zone.
#[derive(Clone)]
pub(crate) struct Zone {
    /// As SHOW spells it.
    name: String,
    rules: Rules,
}

#[derive(Clone)]
enum Rules {
    Fixed { offset: i32, abbreviation: String },
    Region(TimeZone),
}

/// What a zone says of a moment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Local {
    /// Seconds east of UTC.
    pub(crate) offset: i32,
    pub(crate) is_dst: bool,
    pub(crate) abbreviation: String,
}

/// What an abbreviation stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Abbreviation {
    Fixed {
        offset: i32,
        is_dst: bool,
    },
    /// What it means in the zone of this name depends on the time.
    Of(&'static str),
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Zone) -> bool {
        self.name == other.name
    }
}

impl Default for Zone {
    fn default() -> Zone {
        Zone::fixed("UTC".to_owned(), 0, "UTC".to_owned())
    }
}

impl Zone {
    fn fixed(name: String, offset: i32, abbreviation: String) -> Zone {
        Zone { name, rules: Rules::Fixed { offset, abbreviation } }
    }

    /// The zone of this name or POSIX rule.
    pub(crate) fn named(name: &str) -> Option<Zone> {
        if name.eq_ignore_ascii_case("utc") || name.eq_ignore_ascii_case("gmt") {
            let upper = name.to_ascii_uppercase();
            return Some(Zone::fixed(upper.clone(), 0, upper));
        }
        if !is_name(name) {
            return Zone::posix(name);
        }
        match db().get(name) {
            Ok(region) => {
                let name = region.iana_name().unwrap_or(name).to_owned();
                Some(Zone { name, rules: Rules::Region(region) })
            }
            Err(_) => Zone::posix(name),
        }
    }

    /// A zone so many seconds east of UTC, as PostgreSQL names it: its sign is that of POSIX.
    pub(crate) fn of_offset(offset: i32) -> Option<Zone> {
        if offset.abs() >= 168 * 3_600 {
            return None;
        }
        let size = offset.unsigned_abs();
        let mut text = format!("{:02}", size / 3_600);
        if !size.is_multiple_of(3_600) {
            text += &format!(":{:02}", size / 60 % 60);
        }
        if !size.is_multiple_of(60) {
            text += &format!(":{:02}", size % 60);
        }
        let [own, posix] = if offset < 0 { ['-', '+'] } else { ['+', '-'] };
        let abbreviation = format!("{own}{text}");
        Some(Zone::fixed(format!("<{abbreviation}>{posix}{text}"), offset, abbreviation))
    }

    /// `EST5EDT,M3.2.0,M11.1.0`: an abbreviation, an offset west of UTC, and perhaps daylight
    /// saving time with its rules.
    fn posix(text: &str) -> Option<Zone> {
        let upper = text.to_ascii_uppercase();
        let (abbreviation, rest) = posix_name(&upper)?;
        let (west, rest) = posix_offset(rest)?;
        if rest.is_empty() {
            return Some(Zone::fixed(upper.clone(), -west, abbreviation.to_owned()));
        }
        let whole = if upper.contains(',') { upper.clone() } else { upper.clone() + DEFAULT_RULES };
        let region = TimeZone::posix(&whole).ok()?;
        Some(Zone { name: upper, rules: Rules::Region(region) })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its offset, if it has but one.
    pub(crate) fn fixed_offset(&self) -> Option<i32> {
        match &self.rules {
            Rules::Fixed { offset, .. } => Some(*offset),
            Rules::Region(region) => {
                let any = region.to_offset_info(Timestamp::UNIX_EPOCH);
                let changes =
                    region.preceding(Timestamp::MAX).any(|one| one.offset() != any.offset());
                (!changes).then(|| any.offset().seconds())
            }
        }
    }

    /// The names of the database's zones.
    pub(crate) fn names() -> Vec<String> {
        let all = db().available().map(|name| name.as_str().to_owned());
        let mut names: Vec<String> = all.collect();
        names.sort();
        names
    }

    /// What holds at a moment, in microseconds since 2000 UTC.
    pub(crate) fn at(&self, micros: i64) -> Local {
        match &self.rules {
            Rules::Fixed { offset, abbreviation } => {
                Local { offset: *offset, is_dst: false, abbreviation: abbreviation.clone() }
            }
            Rules::Region(region) => {
                let info = region.to_offset_info(instant(micros));
                Local {
                    offset: info.offset().seconds(),
                    is_dst: info.dst().is_dst(),
                    abbreviation: info.abbreviation().to_owned(),
                }
            }
        }
    }

    /// The offset at a moment, in microseconds since 2000 UTC.
    pub(crate) fn offset_at(&self, micros: i64) -> i32 {
        match &self.rules {
            Rules::Fixed { offset, .. } => *offset,
            Rules::Region(region) => region.to_offset(instant(micros)).seconds(),
        }
    }

    /// The offset of a local time, in microseconds since 2000 of its calendar.
    pub(crate) fn offset_of_local(&self, micros: i64) -> i32 {
        let region = match &self.rules {
            Rules::Fixed { offset, .. } => return *offset,
            Rules::Region(region) => region,
        };
        let seconds = micros.div_euclid(MICROS_PER_SECOND) + EPOCH_SECONDS;
        let micros = (within(seconds) - EPOCH_SECONDS) * MICROS_PER_SECOND;
        let CivilDate { year, month, day } = civil_from_days(micros.div_euclid(MICROS_PER_DAY));
        let time = micros.rem_euclid(MICROS_PER_DAY) / MICROS_PER_SECOND;
        let local = civil::DateTime::new(
            i16::try_from(year).unwrap_or_default(),
            month as i8,
            day as i8,
            (time / 3_600) as i8,
            (time / 60 % 60) as i8,
            (time % 60) as i8,
            0,
        );
        let Ok(local) = local else { return 0 };
        let offset = match region.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset,
            AmbiguousOffset::Gap { before, .. } => before,
            AmbiguousOffset::Fold { after, .. } => after,
        };
        offset.seconds()
    }

    /// A moment as a time of the zone's calendar, which may lie beyond the last timestamp.
    pub(crate) fn local_of(&self, micros: i64) -> i64 {
        match is_finite(micros) {
            true => micros + i64::from(self.offset_at(micros)) * MICROS_PER_SECOND,
            false => micros,
        }
    }

    /// A moment of UTC as a local time; infinities stay.
    pub(crate) fn to_local(&self, micros: i64) -> Result<i64> {
        moved(micros, self.offset_at(micros))
    }

    /// A local time as a moment of UTC; infinities stay.
    pub(crate) fn to_utc(&self, micros: i64) -> Result<i64> {
        moved(micros, -self.offset_of_local(micros))
    }

    /// A timestamp and a span later, where months and days are those of the zone's calendar, and
    /// the time is that between moments.
    pub(crate) fn add(&self, micros: i64, span: Interval) -> Result<i64> {
        let mut moment = micros;
        for part in
            [Interval { days: 0, micros: 0, ..span }, Interval { months: 0, micros: 0, ..span }]
        {
            if part.months != 0 || part.days != 0 {
                moment = self.to_utc(calendar::add(self.local_of(moment), part)?)?;
            }
        }
        calendar::add(moment, Interval { months: 0, days: 0, ..span })
    }

    /// The start of the field that a timestamp is in; `None` where PostgreSQL has no such field.
    pub(crate) fn truncate(&self, unit: Unit, micros: i64) -> Result<Option<i64>> {
        let offset = self.offset_at(micros);
        let Some(start) = calendar::truncate(unit, moved(micros, offset)?)? else {
            return Ok(None);
        };
        // A field of the clock is in the offset that the timestamp has.
        let of_clock = matches!(
            unit,
            Unit::Hour | Unit::Minute | Unit::Second | Unit::Millisecond | Unit::Microsecond
        );
        match of_clock {
            true => moved(start, -offset).map(Some),
            false => self.to_utc(start).map(Some),
        }
    }

    /// The offset that an abbreviation of this zone means at a moment: the latest that the zone had
    /// until then, else the first behind it.
    fn meant(&self, abbreviation: &str, micros: i64) -> Option<Meant> {
        let Rules::Region(region) = &self.rules else { return None };
        let at = instant(micros);
        let is_it = |name: &str| name.eq_ignore_ascii_case(abbreviation);
        let now = region.to_offset_info(at);
        if is_it(now.abbreviation()) {
            return Some(Meant { offset: now.offset().seconds(), is_dst: now.dst().is_dst() });
        }
        let earlier = region.preceding(at).take(MOST_CHANGES);
        let later = region.following(at).take(MOST_CHANGES);
        let found = earlier.chain(later).find(|change| is_it(change.abbreviation()));
        let meant = |offset: Offset, is_dst| Meant { offset: offset.seconds(), is_dst };
        found.map(|change| meant(change.offset(), change.dst().is_dst()))
    }
}

/// A timestamp so many seconds later; infinities stay.
pub(crate) fn moved(micros: i64, seconds: i32) -> Result<i64> {
    if !is_finite(micros) {
        return Ok(micros);
    }
    let sum = micros.checked_add(i64::from(seconds) * MICROS_PER_SECOND);
    let sum = sum.filter(|sum| TIMESTAMPS.contains(sum));
    sum.ok_or_else(|| overflow("timestamp out of range"))
}

/// The error for a zone that does not exist.
pub(crate) fn no_zone(name: &str) -> SqlError {
    SqlError::new(code::INVALID_PARAMETER, format!("time zone \"{name}\" not recognized"))
}

/// A moment as the library has it.
fn instant(micros: i64) -> Timestamp {
    let seconds = micros.div_euclid(MICROS_PER_SECOND) + EPOCH_SECONDS;
    Timestamp::from_second(within(seconds)).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The same second of an earlier cycle, if it lies behind the years that are asked of the library;
/// before them no zone changes.
fn within(seconds: i64) -> i64 {
    let seconds = seconds.max(FIRST_SECONDS);
    let behind = seconds - LAST_SECONDS;
    if behind < 0 { seconds } else { seconds - (behind / CYCLE_SECONDS + 1) * CYCLE_SECONDS }
}

/// Could it be a name of the database?
fn is_name(name: &str) -> bool {
    let inside = |c: char| c.is_ascii_alphanumeric() || "+-_/".contains(c);
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(inside)
}

/// The abbreviation in front of a POSIX rule, perhaps in angle brackets, and what follows it.
fn posix_name(text: &str) -> Option<(&str, &str)> {
    if let Some(inner) = text.strip_prefix('<') {
        return inner.split_once('>');
    }
    let end = text.find(|c: char| c.is_ascii_digit() || ",+-".contains(c))?;
    Some(text.split_at(end))
}

/// Seconds west of UTC in front of the rest of a POSIX rule.
fn posix_offset(text: &str) -> Option<(i32, &str)> {
    let (sign, mut rest) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let mut total = 0;
    for (at, (unit, most)) in [(3_600, 167), (60, 59), (1, 60)].into_iter().enumerate() {
        if at > 0 {
            match rest.strip_prefix(':') {
                Some(behind) => rest = behind,
                None => break,
            }
        }
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: i32 = rest[..digits].parse().ok().filter(|number| *number <= most)?;
        total += number * unit;
        rest = &rest[digits..];
    }
    Some((sign * total, rest))
}

static ABBREVIATIONS: &str = include_str!("abbreviations.tsv");

/// Letters of an abbreviation that count.
const SIGNIFICANT: usize = 10;

/// All abbreviations, in order, with what they stand for.
pub(crate) fn abbreviations() -> impl Iterator<Item = (&'static str, Abbreviation)> {
    ABBREVIATIONS.lines().filter_map(|line| {
        let mut fields = line.split('\t');
        let (name, what) = (fields.next()?, fields.next()?);
        let is_dst = fields.next().is_some();
        let of_zone = |_| Abbreviation::Of(what);
        Some((
            name,
            what.parse().map_or_else(of_zone, |offset| Abbreviation::Fixed { offset, is_dst }),
        ))
    })
}

/// What a word in lower case stands for, if it is an abbreviation.
pub(crate) fn abbreviation(word: &str) -> Option<Abbreviation> {
    let word = word.get(..SIGNIFICANT).unwrap_or(word);
    abbreviations().find(|(name, _)| *name == word).map(|(_, what)| what)
}

/// What an abbreviation means at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Meant {
    /// Seconds east of UTC.
    pub(crate) offset: i32,
    pub(crate) is_dst: bool,
}

impl Abbreviation {
    /// What it means at a moment of UTC; `None` where the database lacks its zone.
    pub(crate) fn at(self, name: &str, micros: i64) -> Option<Meant> {
        match self {
            Abbreviation::Fixed { offset, is_dst } => Some(Meant { offset, is_dst }),
            Abbreviation::Of(zone) => {
                let zone = Zone::named(zone)?;
                zone.meant(name, micros).or_else(|| {
                    let now = zone.at(micros);
                    Some(Meant { offset: now.offset, is_dst: now.is_dst })
                })
            }
        }
    }
}

/// A zone as SQL names it in AT TIME ZONE: an abbreviation or anything that SET takes.
#[derive(Clone, Debug)]
pub(crate) enum NamedZone {
    Abbreviation { name: String, what: Abbreviation },
    Zone(Arc<Zone>),
}

impl NamedZone {
    /// The zone that `text` names.
    pub(crate) fn parse(text: &str) -> Option<NamedZone> {
        let name = text.to_ascii_lowercase();
        if let Some(what) = abbreviation(&name) {
            return Some(NamedZone::Abbreviation { name, what });
        }
        Zone::named(text).map(|zone| NamedZone::Zone(Arc::new(zone)))
    }

    /// A zone so many seconds east of UTC.
    pub(crate) fn of_offset(offset: i32) -> NamedZone {
        let what = Abbreviation::Fixed { offset, is_dst: false };
        NamedZone::Abbreviation { name: String::new(), what }
    }

    /// The start of the field that a timestamp is in, as [`Zone::truncate`].
    pub(crate) fn truncate(&self, unit: Unit, micros: i64) -> Result<Option<i64>> {
        match self {
            NamedZone::Zone(zone) => zone.truncate(unit, micros),
            NamedZone::Abbreviation { what: Abbreviation::Of(name), .. } => match Zone::named(name)
            {
                Some(zone) => zone.truncate(unit, micros),
                None => Err(no_zone(name)),
            },
            NamedZone::Abbreviation { .. } => {
                let offset = self.offset_at(micros);
                let zone = Zone::fixed(String::new(), offset, String::new());
                zone.truncate(unit, micros)
            }
        }
    }

    /// Its offset at a moment of UTC.
    pub(crate) fn offset_at(&self, micros: i64) -> i32 {
        match self {
            NamedZone::Abbreviation { name, what } => {
                what.at(name, micros).map_or(0, |meant| meant.offset)
            }
            NamedZone::Zone(zone) => zone.offset_at(micros),
        }
    }

    /// Its offset at a local time.
    pub(crate) fn offset_of_local(&self, micros: i64) -> i32 {
        match self {
            NamedZone::Abbreviation { name, what: what @ Abbreviation::Of(zone) } => {
                let Some(zone) = Zone::named(zone) else { return 0 };
                let guess = zone.offset_of_local(micros);
                let moment = micros.saturating_sub(i64::from(guess) * MICROS_PER_SECOND);
                what.at(name, moment).map_or(guess, |meant| meant.offset)
            }
            NamedZone::Abbreviation { name, what } => {
                what.at(name, micros).map_or(0, |meant| meant.offset)
            }
            NamedZone::Zone(zone) => zone.offset_of_local(micros),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Option<String> {
        Zone::named(text).map(|zone| zone.name)
    }

    #[test]
    fn names_are_those_of_postgresql() {
        for (text, shown) in [
            ("europe/paris", Some("Europe/Paris")),
            ("utc", Some("UTC")),
            ("a+5", Some("A+5")),
            ("+5:30", Some("+5:30")),
            ("est5edt", Some("EST5EDT")),
            ("foo5bar", Some("FOO5BAR")),
            ("<+05>-5", Some("<+05>-5")),
            ("PST", None),
            ("", None),
            ("../etc/passwd", None),
            ("+0530", None),
        ] {
            assert_eq!(name(text).as_deref(), shown, "{text}");
        }
        assert_eq!(Zone::of_offset(19_800).unwrap().name, "<+05:30>-05:30");
        assert_eq!(Zone::of_offset(-28_800).unwrap().name, "<-08>+08");
    }

    #[test]
    fn times_that_a_change_leaves_out_or_repeats() {
        let paris = Zone::named("Europe/Paris").unwrap();
        let hour = 3_600 * MICROS_PER_SECOND;
        let day =
            |text: &str| crate::types::time::read_timestamp(text, &super::super::Times::utc());
        let spring = day("2026-03-29 00:00").unwrap();
        let autumn = day("2026-10-25 00:00").unwrap();
        for (local, offset) in [
            (spring + hour, 3_600),
            (spring + 2 * hour, 3_600),
            (spring + 3 * hour, 7_200),
            (autumn + hour, 7_200),
            (autumn + 2 * hour, 3_600),
            (autumn + 3 * hour, 3_600),
            (spring + 40_000 * MICROS_PER_DAY * 91, 3_600),
        ] {
            assert_eq!(paris.offset_of_local(local), offset);
        }
        // Far behind the years that the library counts there is summer, too.
        let far = day("200000-07-01 00:00").unwrap();
        assert_eq!((paris.offset_at(far), paris.offset_of_local(far)), (7_200, 7_200));
    }
}
