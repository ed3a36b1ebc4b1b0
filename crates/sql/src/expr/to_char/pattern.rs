//! Patterns of dates and times: the words that mean a field, and what stands between them
//! (`parse_format` of PostgreSQL's `formatting.c`).
//!
//! Invariants: of words that begin alike the longest is found; words are in upper or lower case,
//! few of them in both. Does not do: patterns of numbers (`number`).

use std::fmt::Write;

/// What a word of a pattern means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Era {
        dots: bool,
    },
    Noon {
        dots: bool,
    },
    Century,
    DayName,
    DayShort,
    DayOfYear,
    DayOfMonth,
    DayOfWeek,
    /// So many digits of the second's fraction.
    Fraction(u32),
    /// Milliseconds or microseconds.
    Millis,
    Micros,
    /// `FX`: what is read must be as the pattern says.
    Exact,
    Hour24,
    Hour12,
    IsoDayOfYear,
    IsoDayOfWeek,
    IsoWeek,
    /// So many digits of the ISO year.
    IsoYear(usize),
    Julian,
    Minute,
    MonthNumber,
    MonthName,
    MonthShort,
    Offset,
    Quarter,
    Roman,
    SecondsOfDay,
    Second,
    ZoneHour,
    ZoneMinute,
    Zone,
    WeekOfYear,
    WeekOfMonth,
    YearWithComma,
    Year(usize),
}

/// In which case a name is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Upper,
    Lower,
    Title,
}

/// What stands behind a number in English.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ordinal {
    None,
    Upper,
    Lower,
}

/// A field of a pattern.
#[derive(Clone, Debug)]
pub(super) struct Action {
    pub(super) field: Field,
    pub(super) case: Case,
    /// As the pattern spells it.
    pub(super) word: &'static str,
    /// `FM`: without blanks and zeros that fill it up.
    pub(super) is_bare: bool,
    /// `TM`: names of the locale, which is that of C.
    pub(super) is_local: bool,
    pub(super) ordinal: Ordinal,
}

impl Action {
    /// The word as the pattern has it.
    pub(super) fn word_as_written(&self) -> String {
        match self.case {
            Case::Lower => self.word.to_ascii_lowercase(),
            _ => self.word.to_owned(),
        }
    }
}

/// A piece of a pattern.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    Action(Action),
    /// A character as it stands.
    Character(char),
    Space(char),
    /// A sign that separates fields.
    Separator(char),
}

type Entry = (&'static str, Field, Case);

/// Words in upper case or with a capital; those in lower case mean the same.
const WORDS: [Entry; 58] = {
    use Case::{Title, Upper};
    use Field as F;
    [
        ("A.D.", F::Era { dots: true }, Upper),
        ("A.M.", F::Noon { dots: true }, Upper),
        ("AD", F::Era { dots: false }, Upper),
        ("AM", F::Noon { dots: false }, Upper),
        ("B.C.", F::Era { dots: true }, Upper),
        ("BC", F::Era { dots: false }, Upper),
        ("CC", F::Century, Upper),
        ("DAY", F::DayName, Upper),
        ("DDD", F::DayOfYear, Upper),
        ("DD", F::DayOfMonth, Upper),
        ("DY", F::DayShort, Upper),
        ("Day", F::DayName, Title),
        ("Dy", F::DayShort, Title),
        ("D", F::DayOfWeek, Upper),
        ("FF1", F::Fraction(1), Upper),
        ("FF2", F::Fraction(2), Upper),
        ("FF3", F::Fraction(3), Upper),
        ("FF4", F::Fraction(4), Upper),
        ("FF5", F::Fraction(5), Upper),
        ("FF6", F::Fraction(6), Upper),
        ("FX", F::Exact, Upper),
        ("HH24", F::Hour24, Upper),
        ("HH12", F::Hour12, Upper),
        ("HH", F::Hour12, Upper),
        ("IDDD", F::IsoDayOfYear, Upper),
        ("ID", F::IsoDayOfWeek, Upper),
        ("IW", F::IsoWeek, Upper),
        ("IYYY", F::IsoYear(4), Upper),
        ("IYY", F::IsoYear(3), Upper),
        ("IY", F::IsoYear(2), Upper),
        ("I", F::IsoYear(1), Upper),
        ("J", F::Julian, Upper),
        ("MI", F::Minute, Upper),
        ("MM", F::MonthNumber, Upper),
        ("MONTH", F::MonthName, Upper),
        ("MON", F::MonthShort, Upper),
        ("MS", F::Millis, Upper),
        ("Month", F::MonthName, Title),
        ("Mon", F::MonthShort, Title),
        ("OF", F::Offset, Upper),
        ("P.M.", F::Noon { dots: true }, Upper),
        ("PM", F::Noon { dots: false }, Upper),
        ("Q", F::Quarter, Upper),
        ("RM", F::Roman, Upper),
        ("SSSSS", F::SecondsOfDay, Upper),
        ("SSSS", F::SecondsOfDay, Upper),
        ("SS", F::Second, Upper),
        ("TZH", F::ZoneHour, Upper),
        ("TZM", F::ZoneMinute, Upper),
        ("TZ", F::Zone, Upper),
        ("US", F::Micros, Upper),
        ("WW", F::WeekOfYear, Upper),
        ("W", F::WeekOfMonth, Upper),
        ("Y,YYY", F::YearWithComma, Upper),
        ("YYYY", F::Year(4), Upper),
        ("YYY", F::Year(3), Upper),
        ("YY", F::Year(2), Upper),
        ("Y", F::Year(1), Upper),
    ]
};

/// The word that `text` begins with.
fn word(text: &str) -> Option<Entry> {
    let is_lower = text.starts_with(|c: char| c.is_ascii_lowercase());
    let begins = |word: &str| {
        let head = text.as_bytes().get(..word.len());
        match is_lower {
            true => head.is_some_and(|head| {
                head.iter().zip(word.bytes()).all(|(a, b)| *a == b.to_ascii_lowercase())
            }),
            false => head == Some(word.as_bytes()),
        }
    };
    let plain = |entry: &&Entry| entry.2 != Case::Title || !is_lower;
    let (word, field, case) = WORDS.iter().filter(plain).find(|entry| begins(entry.0))?;
    let case = if is_lower { Case::Lower } else { *case };
    Some((word, *field, case))
}

/// The pieces of a pattern.
pub(super) fn pieces(pattern: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = pattern;
    while !rest.is_empty() {
        let (mut is_bare, mut is_local) = (false, false);
        if rest.starts_with("FM") || rest.starts_with("fm") {
            (is_bare, rest) = (true, &rest[2..]);
        } else if rest.starts_with("TM") || rest.starts_with("tm") {
            (is_local, rest) = (true, &rest[2..]);
        }
        if let Some((word, field, case)) = word(rest) {
            rest = &rest[word.len()..];
            let mut ordinal = Ordinal::None;
            if let Some(behind) = rest.strip_prefix("TH") {
                (ordinal, rest) = (Ordinal::Upper, behind);
            } else if let Some(behind) = rest.strip_prefix("th") {
                (ordinal, rest) = (Ordinal::Lower, behind);
            } else if let Some(behind) = rest.strip_prefix("SP") {
                rest = behind;
            }
            pieces.push(Piece::Action(Action { field, case, word, is_bare, is_local, ordinal }));
            continue;
        }
        let Some(first) = rest.chars().next() else { break };
        if first == '"' {
            rest = quoted(&rest[1..], &mut pieces);
            continue;
        }
        let is_escaped = first == '\\' && rest[1..].starts_with('"');
        let c = if is_escaped { '"' } else { first };
        rest = &rest[usize::from(is_escaped) + c.len_utf8()..];
        pieces.push(match c {
            c if c.is_ascii_graphic() && !c.is_ascii_alphanumeric() => Piece::Separator(c),
            ' ' | '\t'..='\r' => Piece::Space(c),
            c => Piece::Character(c),
        });
    }
    pieces
}

/// Takes a text up to a quote; what follows it.
fn quoted<'t>(text: &'t str, pieces: &mut Vec<Piece>) -> &'t str {
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let c = match c {
            '"' => break,
            '\\' => chars.next().unwrap_or('\\'),
            c => c,
        };
        pieces.push(Piece::Character(c));
    }
    chars.as_str()
}

/// Appends what stands behind the number that `out` has from `start` on.
pub(super) fn add_ordinal(out: &mut String, start: usize, ordinal: Ordinal) {
    let number = &out.as_bytes()[start..];
    let is_teen = number.len() > 1 && number[number.len() - 2] == b'1';
    let ending = match number.last() {
        Some(b'1') if !is_teen => "st",
        Some(b'2') if !is_teen => "nd",
        Some(b'3') if !is_teen => "rd",
        _ => "th",
    };
    match ordinal {
        Ordinal::None => {}
        Ordinal::Lower => out.push_str(ending),
        Ordinal::Upper => out.extend(ending.chars().map(|c| c.to_ascii_uppercase())),
    }
}

/// Appends a number with zeros in front, of so many characters with its sign.
pub(super) fn write_padded(out: &mut String, value: i64, width: usize) {
    write!(out, "{value:0width$}").expect("writing to a string succeeds");
}
