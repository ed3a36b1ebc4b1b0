//! What a declaration adds to a type: lengths, precision and scale, parts of intervals.
//!
//! `char(n)` is kept without the blanks it ends in, as it is compared, and filled up where it is
//! shown.
//!
//! Invariants: a value that was stored into a column fits what the column declares.
//! Does not do: types without a declaration.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::OnceLock;

use rightlink::internal::datum::IntervalFields;
use rightlink_env::sync::Mutex;

use crate::error::{Result, SqlError, code};
use crate::types::{
    Datum, Interval, SqlType, VARCHAR_ARRAY_OID, VARCHAR_OID, ZonedTime, calendar, numeric,
};

/// Longest declared length.
const MAX_LENGTH: u64 = 10_485_760;

/// A length, or precision and scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Modifier {
    /// `numeric(precision, scale)`
    Numeric(u32, i32),
    /// `character(n)`
    Char(u32),
    /// `character varying(n)`; 0 is one of no declared length.
    Varchar(u32),
    /// `bit(n)` or `bit varying(n)`
    Bits(SqlType, u32),
    /// `time`, `timestamp` and those with a zone, with so many digits of seconds.
    Seconds(SqlType, u32),
    /// `interval` of some parts, and with so many digits of seconds.
    Interval(IntervalFields, Option<u32>),
}

/// An order of texts by their bytes that has a name of its own. It maps ASCII letters only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ByteOrder {
    C,
    Posix,
    UcsBasic,
}

impl ByteOrder {
    const ALL: [ByteOrder; 3] = [ByteOrder::C, ByteOrder::Posix, ByteOrder::UcsBasic];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            ByteOrder::C => "C",
            ByteOrder::Posix => "POSIX",
            ByteOrder::UcsBasic => "ucs_basic",
        }
    }

    /// The one called `name`.
    pub(crate) fn parse(name: &str) -> Option<ByteOrder> {
        ByteOrder::ALL.into_iter().find(|order| order.name() == name)
    }
}

/// A domain, by its name in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Domain(&'static str);

impl Domain {
    /// The domain that the store calls `name`. Its name stays in memory until the process ends.
    pub(crate) fn named(name: &str) -> Domain {
        static KNOWN: OnceLock<Mutex<BTreeSet<&'static str>>> = OnceLock::new();
        let mut known = KNOWN.get_or_init(Mutex::default).lock();
        if let Some(found) = known.get(name) {
            return Domain(found);
        }
        let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
        known.insert(name);
        Domain(name)
    }

    /// As the store calls it.
    pub(crate) const fn stored(self) -> &'static str {
        self.0
    }
}

/// A type with what a declaration may add to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Declared {
    /// Of a domain the type below it.
    pub(crate) ty: SqlType,
    pub(crate) modifier: Option<Modifier>,
    pub(crate) domain: Option<Domain>,
}

impl Declared {
    pub(crate) fn modified(ty: SqlType, modifier: Option<Modifier>) -> Declared {
        Declared { ty, modifier, domain: None }
    }

    pub(crate) fn plain(ty: SqlType) -> Declared {
        Declared::modified(ty, None)
    }

    /// The number of the type as catalogs and clients know it: `varchar` is another one than
    /// `text` to them.
    pub(crate) fn oid(self) -> u32 {
        match (self.ty, self.modifier) {
            (SqlType::Text, Some(Modifier::Varchar(_))) => VARCHAR_OID,
            (SqlType::Array(_), Some(Modifier::Varchar(_))) => VARCHAR_ARRAY_OID,
            (ty, _) => ty.oid(),
        }
    }

    /// `character varying` of no declared length.
    pub(crate) fn varchar() -> Declared {
        Declared::modified(SqlType::Text, Some(Modifier::Varchar(0)))
    }

    /// A string of at most, or exactly, `length` bits.
    pub(crate) fn bits(ty: SqlType, length: u64) -> Result<Declared> {
        let name = ty.short_name();
        let refuse = |what: String| Err(SqlError::new(code::INVALID_PARAMETER, what));
        if length == 0 {
            return refuse(format!("length for type {name} must be at least 1"));
        }
        if length > 8 * MAX_LENGTH {
            return refuse(format!("length for type {name} cannot exceed {}", 8 * MAX_LENGTH));
        }
        Ok(Declared::modified(ty, Some(Modifier::Bits(ty, length as u32))))
    }

    /// A text of at most, or exactly, `length` characters.
    pub(crate) fn text(fixed: bool, length: u64) -> Result<Declared> {
        let name = if fixed { "char" } else { "varchar" };
        let refuse = |what: String| Err(SqlError::new(code::INVALID_PARAMETER, what));
        if length == 0 {
            return refuse(format!("length for type {name} must be at least 1"));
        }
        if length > MAX_LENGTH {
            return refuse(format!("length for type {name} cannot exceed {MAX_LENGTH}"));
        }
        let length = length as u32;
        Ok(match fixed {
            true => Declared::modified(SqlType::Bpchar, Some(Modifier::Char(length))),
            false => Declared::modified(SqlType::Text, Some(Modifier::Varchar(length))),
        })
    }
}

impl fmt::Display for Modifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Modifier::Numeric(precision, scale) => write!(f, "numeric({precision},{scale})"),
            Modifier::Char(length) => write!(f, "character({length})"),
            Modifier::Varchar(0) => f.write_str("character varying"),
            Modifier::Varchar(length) => write!(f, "character varying({length})"),
            Modifier::Bits(ty, length) => write!(f, "{}({length})", ty.name()),
            Modifier::Seconds(ty, digits) => {
                let (name, zone) = ty.name().split_once(' ').unwrap_or((ty.name(), ""));
                write!(f, "{name}({digits}) {zone}")
            }
            Modifier::Interval(fields, digits) => {
                let space = if *fields == IntervalFields::All { "" } else { " " };
                write!(f, "interval{space}{}", fields.name())?;
                digits.map_or(Ok(()), |digits| write!(f, "({digits})"))
            }
        }
    }
}

impl Modifier {
    /// What [`Modifier`]'s text says.
    pub(crate) fn parse(text: &str) -> Option<Modifier> {
        if text == "character varying" {
            return Some(Modifier::Varchar(0));
        }
        if let Some(rest) = text.strip_prefix("interval") {
            let (fields, digits) = match rest.strip_suffix(')') {
                Some(inner) => {
                    let (fields, digits) = inner.split_once('(')?;
                    (fields, Some(digits.parse().ok()?))
                }
                None => (rest, None),
            };
            return Some(Modifier::Interval(IntervalFields::named(fields.trim_start())?, digits));
        }
        if let Some((digits, zone)) =
            text.split_once('(').and_then(|(_, rest)| rest.split_once(") "))
        {
            let name = text.split('(').next()?;
            let ty = SqlType::of_full_name(&format!("{name} {zone}"))?;
            return Some(Modifier::Seconds(ty, digits.parse().ok()?));
        }
        let (name, inner) = text.strip_suffix(')')?.split_once('(')?;
        match name {
            "numeric" => {
                let (precision, scale) = inner.split_once(',')?;
                Some(Modifier::Numeric(precision.parse().ok()?, scale.parse().ok()?))
            }
            "character" => inner.parse().ok().map(Modifier::Char),
            "character varying" => inner.parse().ok().map(Modifier::Varchar),
            "bit" => inner.parse().ok().map(|length| Modifier::Bits(SqlType::Bit, length)),
            "bit varying" => {
                inner.parse().ok().map(|length| Modifier::Bits(SqlType::Varbit, length))
            }
            _ => None,
        }
    }

    /// As clients know it: what `pg_attribute` calls `atttypmod`.
    pub(crate) fn number(self) -> i32 {
        match self {
            Modifier::Numeric(precision, scale) => ((precision as i32) << 16 | (scale & 0x7ff)) + 4,
            Modifier::Varchar(0) => -1,
            Modifier::Char(length) | Modifier::Varchar(length) => length as i32 + 4,
            Modifier::Seconds(_, digits) => digits as i32,
            Modifier::Bits(_, length) => length as i32,
            Modifier::Interval(fields, digits) => {
                let digits = digits.map_or(0xffff, |digits| digits as i32);
                mask(fields) << 16 | digits
            }
        }
    }

    /// What a number says of a type, as [`Modifier::number`] gives it.
    pub(crate) fn of_number(ty: SqlType, number: i32) -> Option<Modifier> {
        let rest = number.checked_sub(4).filter(|rest| *rest >= 0);
        match ty {
            SqlType::Numeric => rest.map(|rest| {
                // Eleven bits with a sign.
                let scale = ((rest & 0x7ff) ^ 1_024) - 1_024;
                Modifier::Numeric((rest >> 16) as u32, scale)
            }),
            SqlType::Bpchar => rest.map(|length| Modifier::Char(length as u32)),
            SqlType::Bit | SqlType::Varbit if number > 0 => Some(Modifier::Bits(ty, number as u32)),
            SqlType::Time | SqlType::Timetz | SqlType::Timestamp | SqlType::Timestamptz => {
                u32::try_from(number).ok().map(|digits| Modifier::Seconds(ty, digits))
            }
            SqlType::Interval if number >= 0 => {
                let fields = FIELDS.into_iter().filter_map(IntervalFields::named);
                let fields = fields.into_iter().find(|one| mask(*one) == number >> 16)?;
                let digits = Some(number & 0xffff).filter(|digits| *digits != 0xffff);
                Some(Modifier::Interval(fields, digits.map(|digits| digits as u32)))
            }
            _ => None,
        }
    }

    /// The length of `character varying` that a number says.
    pub(crate) fn of_varchar(number: i32) -> Option<Modifier> {
        let length = number.checked_sub(4).filter(|length| *length > 0)?;
        Some(Modifier::Varchar(length as u32))
    }

    /// Bytes that fitting a value takes where it fills it up, or the elements of an array.
    pub(crate) fn bytes_filled(self, value: &Datum) -> usize {
        match (self, value) {
            (Modifier::Bits(SqlType::Bit, length), Datum::Array(array)) => {
                array.values().len().saturating_mul(length as usize / 8)
            }
            (Modifier::Bits(SqlType::Bit, length), _) => length as usize / 8,
            (Modifier::Char(length), Datum::Array(array)) => {
                array.values().len().saturating_mul(length as usize)
            }
            _ => 0,
        }
    }

    /// `value` as a column so declared holds it. A cast that is written cuts what is too long;
    /// storing refuses it, blanks at the end aside.
    pub(crate) fn fit(self, value: Datum, written: bool) -> Result<Datum> {
        match (self, value) {
            (Modifier::Numeric(precision, scale), Datum::Numeric(number)) => {
                Ok(Datum::Numeric(numeric::fit(&number, precision, scale)?))
            }
            (Modifier::Char(length), Datum::Text(text)) => {
                let mut text = self.cut(text, length, written)?;
                text.truncate(text.trim_end_matches(' ').len());
                Ok(Datum::Text(text))
            }
            (Modifier::Varchar(length), Datum::Text(text)) if length > 0 => {
                self.cut(text, length, written).map(Datum::Text)
            }
            (Modifier::Bits(ty, length), Datum::Bit(bits)) => {
                bits.fit(ty, length as usize, written).map(Datum::Bit)
            }
            (Modifier::Bits(ty, length), Datum::Varbit(bits)) => {
                bits.fit(ty, length as usize, written).map(Datum::Varbit)
            }
            (Modifier::Seconds(_, digits), Datum::Timestamp(micros)) => {
                Ok(Datum::Timestamp(rounded(micros, digits)))
            }
            (Modifier::Seconds(_, digits), Datum::Timestamptz(micros)) => {
                Ok(Datum::Timestamptz(rounded(micros, digits)))
            }
            (Modifier::Seconds(_, digits), Datum::Time(micros)) => {
                Ok(Datum::Time(rounded(micros, digits)))
            }
            (Modifier::Seconds(_, digits), Datum::Timetz(time)) => {
                let micros = rounded(time.micros, digits);
                Ok(Datum::Timetz(ZonedTime { micros, ..time }))
            }
            (Modifier::Interval(fields, digits), Datum::Interval(span)) => {
                let span = fields.cut(span);
                Ok(Datum::Interval(digits.map_or(span, |digits| span.rounded(digits))))
            }
            (_, Datum::Array(array)) => {
                let fitted = array.mapped(array.element(), |value| match self {
                    // Elements are kept as they are shown.
                    Modifier::Char(length) => Ok(pad(self.fit(value.clone(), written)?, length)),
                    _ => self.fit(value.clone(), written),
                });
                Ok(fitted?.into())
            }
            (_, other) => Ok(other),
        }
    }

    fn cut(self, mut text: String, length: u32, written: bool) -> Result<String> {
        // A character is at least a byte.
        if text.len() <= length as usize {
            return Ok(text);
        }
        let Some((end, _)) = text.char_indices().nth(length as usize) else { return Ok(text) };
        if !written && text[end..].contains(|c| c != ' ') {
            let message = format!("value too long for type {self}");
            return Err(SqlError::new(code::STRING_TOO_LONG, message));
        }
        text.truncate(end);
        Ok(text)
    }
}

/// The name of the type that has this number, with what its modifier says; `number` is -1 where
/// that is nothing, `None` where nobody asks.
pub(crate) fn format_type(oid: u32, number: Option<i32>) -> Option<String> {
    let name = SqlType::name_of(oid)?;
    let Some(ty) = SqlType::from_oid(oid) else { return Some(name.to_owned()) };
    let (plain, brackets) = match ty.element() {
        Some(element) => (element, "[]"),
        None => (ty, ""),
    };
    let modifier = number.and_then(|number| match name.trim_end_matches("[]") {
        super::VARCHAR => Modifier::of_varchar(number),
        _ => Modifier::of_number(plain, number),
    });
    Some(match modifier {
        Some(modifier) => format!("{modifier}{brackets}"),
        // Without a length these are other types.
        None if plain == SqlType::Bpchar && number.is_some() => format!("bpchar{brackets}"),
        None if plain == SqlType::Bit && number.is_some() => format!("\"bit\"{brackets}"),
        None => name.to_owned(),
    })
}

/// Microseconds with so many digits of seconds; infinities stay.
fn rounded(micros: i64, digits: u32) -> i64 {
    match calendar::is_finite(micros) {
        true => Interval { micros, ..Interval::default() }.rounded(digits).micros,
        false => micros,
    }
}

/// The parts that an interval may be declared to have.
const FIELDS: [&str; 14] = [
    "",
    "year",
    "month",
    "day",
    "hour",
    "minute",
    "second",
    "year to month",
    "day to hour",
    "day to minute",
    "day to second",
    "hour to minute",
    "hour to second",
    "minute to second",
];

/// A bit for each part, as clients know them.
fn mask(fields: IntervalFields) -> i32 {
    const ORDER: [(&str, i32); 6] =
        [("year", 2), ("month", 1), ("day", 3), ("hour", 10), ("minute", 11), ("second", 12)];
    let (first, last) = fields.name().split_once(" to ").unwrap_or((fields.name(), ""));
    let place = |name| ORDER.iter().position(|(known, _)| *known == name);
    let Some(from) = place(first) else { return 0x7fff };
    let to = place(last).unwrap_or(from);
    ORDER[from..=to].iter().fold(0, |mask, (_, bit)| mask | 1 << bit)
}

/// `value` filled up with blanks to `length` characters, as `char(n)` is shown.
pub(crate) fn pad(value: Datum, length: u32) -> Datum {
    match value {
        Datum::Text(mut text) => {
            let missing = (length as usize).saturating_sub(text.chars().count());
            text.extend(std::iter::repeat_n(' ', missing));
            Datum::Text(text)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_count_characters_and_blanks_do_not_matter() {
        let text = |text: &str| Datum::Text(text.to_owned());
        let fit = |modifier: Modifier, value: &str| modifier.fit(text(value), false);
        assert_eq!(fit(Modifier::Varchar(3), "äöü  ").unwrap(), text("äöü"));
        assert_eq!(fit(Modifier::Varchar(3), "a  ").unwrap(), text("a  "));
        assert_eq!(fit(Modifier::Char(3), "a  ").unwrap(), text("a"));
        let error = fit(Modifier::Char(3), "abcd").unwrap_err();
        assert_eq!(error.sqlstate, "22001");
        assert_eq!(error.message, "value too long for type character(3)");
        assert_eq!(Modifier::Varchar(2).fit(text("abc"), true).unwrap(), text("ab"));
        assert_eq!(Modifier::Varchar(0).fit(text("abc"), false).unwrap(), text("abc"));
        assert_eq!(pad(text("ä"), 3), text("ä  "));
    }

    #[test]
    fn text_leads_back() {
        let interval = [
            Modifier::Interval(IntervalFields::All, Some(2)),
            Modifier::Interval(IntervalFields::DayToSecond, Some(0)),
            Modifier::Interval(IntervalFields::YearToMonth, None),
        ];
        let others = [
            Modifier::Numeric(7, -2),
            Modifier::Char(84),
            Modifier::Varchar(1),
            Modifier::Varchar(0),
            Modifier::Bits(SqlType::Bit, 3),
            Modifier::Bits(SqlType::Varbit, 12),
            Modifier::Seconds(SqlType::Timestamptz, 3),
            Modifier::Seconds(SqlType::Time, 0),
        ];
        for modifier in others.into_iter().chain(interval) {
            assert_eq!(Modifier::parse(&modifier.to_string()), Some(modifier));
        }
        assert_eq!(interval.map(Modifier::number), [0x7fff_0002, 0x1c08_0000, 0x6_ffff]);
        assert_eq!(Modifier::parse("character(x)"), None);
    }
}
