//! Texts of dates and times cut into fields, and what words mean in them: `ParseDateTime` and the
//! table of words of PostgreSQL's `datetime.c`.
//!
//! Invariants: a text has at most [`MAX_WORDS`] fields and [`MAX_BYTES`] bytes in them. Letters are
//! in lower case but those of fields that begin with digits. Ten letters of a word count.
//! Does not do: what fields mean together (`read`).

/// Most fields.
const MAX_WORDS: usize = 25;
/// Most bytes of all fields, each with one behind it.
const MAX_BYTES: usize = 153;
/// Letters of a word that count.
const SIGNIFICANT: usize = 10;

/// What a field looks like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// Digits, perhaps with a point.
    Number,
    /// Digits and other signs, or a name with such signs.
    Date,
    /// Digits with colons.
    Time,
    /// A sign and digits.
    Offset,
    /// Letters.
    Letters,
    /// A sign and letters.
    Special,
}

/// A field of a text.
#[derive(Clone, Debug)]
pub(super) struct Word {
    pub(super) kind: Kind,
    pub(super) text: String,
}

/// What a word means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Meaning {
    Reserved(Reserved),
    Month(i32),
    Weekday,
    AfterNoon(bool),
    BeforeChrist(bool),
    /// The number behind it is one of this unit.
    Unit(Unit),
    /// `t` in front of a time.
    IsoTime,
    /// Daylight saving time of the zone beside it.
    Dst,
    Ignored,
}

/// Words that stand for a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reserved {
    Now,
    Today,
    Tomorrow,
    Yesterday,
    Midnight,
    Epoch,
    Infinity,
    MinusInfinity,
}

/// Units that a word may name in front of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Unit {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Julian,
    Time,
    /// One that no number may follow.
    Other,
}

/// Numbers of months by the first three letters of their names.
const MONTHS: [(&str, &str); 12] = [
    ("jan", "january"),
    ("feb", "february"),
    ("mar", "march"),
    ("apr", "april"),
    ("may", "may"),
    ("jun", "june"),
    ("jul", "july"),
    ("aug", "august"),
    ("sep", "september"),
    ("oct", "october"),
    ("nov", "november"),
    ("dec", "december"),
];

const WEEKDAYS: [&str; 18] = [
    "sun",
    "sunday",
    "mon",
    "monday",
    "tue",
    "tues",
    "tuesday",
    "wed",
    "weds",
    "wednesday",
    "thu",
    "thur",
    "thurs",
    "thursday",
    "fri",
    "friday",
    "sat",
    "saturday",
];

/// What a word in lower case means.
pub(super) fn meaning(word: &str) -> Option<Meaning> {
    let word = word.get(..SIGNIFICANT).unwrap_or(word);
    let month = MONTHS.iter().position(|(short, long)| word == *short || word == *long);
    let month = month.or((word == "sept").then_some(8));
    if let Some(at) = month {
        return Some(Meaning::Month(at as i32 + 1));
    }
    if WEEKDAYS.contains(&word) {
        return Some(Meaning::Weekday);
    }
    Some(match word {
        "-infinity" => Meaning::Reserved(Reserved::MinusInfinity),
        "infinity" => Meaning::Reserved(Reserved::Infinity),
        "epoch" => Meaning::Reserved(Reserved::Epoch),
        "now" => Meaning::Reserved(Reserved::Now),
        "today" => Meaning::Reserved(Reserved::Today),
        "tomorrow" => Meaning::Reserved(Reserved::Tomorrow),
        "yesterday" => Meaning::Reserved(Reserved::Yesterday),
        "allballs" => Meaning::Reserved(Reserved::Midnight),
        "ad" => Meaning::BeforeChrist(false),
        "bc" => Meaning::BeforeChrist(true),
        "am" => Meaning::AfterNoon(false),
        "pm" => Meaning::AfterNoon(true),
        "at" | "on" => Meaning::Ignored,
        "dst" => Meaning::Dst,
        "t" => Meaning::IsoTime,
        "y" => Meaning::Unit(Unit::Year),
        "m" => Meaning::Unit(Unit::Month),
        "d" => Meaning::Unit(Unit::Day),
        "h" => Meaning::Unit(Unit::Hour),
        "mm" => Meaning::Unit(Unit::Minute),
        "s" => Meaning::Unit(Unit::Second),
        "j" | "jd" | "julian" => Meaning::Unit(Unit::Julian),
        "dow" | "doy" | "isodow" | "isoyear" => Meaning::Unit(Unit::Other),
        _ => return None,
    })
}

/// The bytes of a text, taken one by one.
struct Reader<'t> {
    rest: &'t [u8],
    word: String,
    used: usize,
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

impl Reader<'_> {
    fn peek(&self) -> u8 {
        self.rest.first().copied().unwrap_or(0)
    }

    fn skip(&mut self) {
        self.rest = &self.rest[1..];
    }

    /// Puts the next byte into the field; `None` if there are too many.
    fn take(&mut self, folds: bool) -> Option<()> {
        let byte = self.peek();
        self.used += 1;
        self.word.push(char::from(if folds { byte.to_ascii_lowercase() } else { byte }));
        self.skip();
        (self.used < MAX_BYTES).then_some(())
    }

    fn take_while(&mut self, folds: bool, wanted: impl Fn(u8) -> bool) -> Option<()> {
        while !self.rest.is_empty() && wanted(self.peek()) {
            self.take(folds)?;
        }
        Some(())
    }

    /// A field that begins with a digit.
    fn digits(&mut self) -> Option<Kind> {
        self.take_while(false, |b| b.is_ascii_digit())?;
        match self.peek() {
            b':' => {
                self.take_while(false, |b| b.is_ascii_digit() || b == b':' || b == b'.')?;
                Some(Kind::Time)
            }
            delimiter @ (b'-' | b'/' | b'.') => {
                self.take(false)?;
                if !self.peek().is_ascii_digit() {
                    self.take_while(true, |b| b.is_ascii_alphanumeric() || b == delimiter)?;
                    return Some(Kind::Date);
                }
                self.take_while(false, |b| b.is_ascii_digit())?;
                if self.peek() == delimiter {
                    self.take_while(false, |b| b.is_ascii_digit() || b == delimiter)?;
                    return Some(Kind::Date);
                }
                Some(if delimiter == b'.' { Kind::Number } else { Kind::Date })
            }
            _ => Some(Kind::Number),
        }
    }

    /// A field that begins with a letter.
    fn letters(&mut self) -> Option<Kind> {
        self.take_while(true, |b| b.is_ascii_alphabetic())?;
        let is_date = match self.peek() {
            b'-' | b'/' | b'.' => true,
            b'+' | b'0'..=b'9' => meaning(&self.word).is_none(),
            _ => false,
        };
        if !is_date {
            return Some(Kind::Letters);
        }
        self.take_while(true, |b| b.is_ascii_alphanumeric() || b"+-/_.:".contains(&b))?;
        Some(Kind::Date)
    }

    fn signed(&mut self) -> Option<Kind> {
        self.take(false)?;
        while is_space(self.peek()) {
            self.skip();
        }
        let next = self.peek();
        if next.is_ascii_digit() {
            self.take_while(false, |b| b.is_ascii_digit() || b":.-".contains(&b))?;
            return Some(Kind::Offset);
        }
        self.take_while(true, |b| b.is_ascii_alphabetic())?;
        next.is_ascii_alphabetic().then_some(Kind::Special)
    }
}

/// The fields of a text; `None` where it cannot be cut into some.
pub(super) fn split(text: &str) -> Option<Vec<Word>> {
    let mut reader = Reader { rest: text.as_bytes(), word: String::new(), used: 0 };
    let mut words = Vec::new();
    while !reader.rest.is_empty() {
        let byte = reader.peek();
        if is_space(byte) {
            reader.skip();
            continue;
        }
        if words.len() == MAX_WORDS {
            return None;
        }
        let kind = match byte {
            b'0'..=b'9' => reader.digits()?,
            b'.' => {
                reader.take(false)?;
                reader.take_while(false, |b| b.is_ascii_digit())?;
                Kind::Number
            }
            b'+' | b'-' => reader.signed()?,
            byte if byte.is_ascii_alphabetic() => reader.letters()?,
            byte if byte.is_ascii_punctuation() => {
                reader.skip();
                continue;
            }
            _ => return None,
        };
        words.push(Word { kind, text: std::mem::take(&mut reader.word) });
        reader.used += 1;
    }
    Some(words)
}
