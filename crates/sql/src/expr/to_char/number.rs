//! Numbers by a pattern, both ways: `NUM_processor` of PostgreSQL's `formatting.c`.
//!
//! Invariants: signs, points and separators are those of the locale C.
//! Does not do: what the digits of a number are (`digits`).

use crate::error::{Result, SqlError, code};

/// A word of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Comma,
    Point,
    Zero,
    Nine,
    Blank,
    Currency,
    LocalPoint,
    Exponent,
    Fill,
    Group,
    LocalCurrency,
    Minus,
    Plus,
    Brackets,
    Roman { upper: bool },
    Sign,
    Spelled,
    LocalSign,
    Ordinal { upper: bool },
    Shift,
}

/// Words in the order in which they are looked for; letters of either case, but of one.
const WORDS: [(&str, Word); 20] = [
    (",", Word::Comma),
    (".", Word::Point),
    ("0", Word::Zero),
    ("9", Word::Nine),
    ("B", Word::Blank),
    ("C", Word::Currency),
    ("D", Word::LocalPoint),
    ("EEEE", Word::Exponent),
    ("FM", Word::Fill),
    ("G", Word::Group),
    ("L", Word::LocalCurrency),
    ("MI", Word::Minus),
    ("PL", Word::Plus),
    ("PR", Word::Brackets),
    ("RN", Word::Roman { upper: true }),
    ("SG", Word::Sign),
    ("SP", Word::Spelled),
    ("S", Word::LocalSign),
    ("TH", Word::Ordinal { upper: true }),
    ("V", Word::Shift),
];

enum Piece {
    Word(Word),
    Character(char),
}

/// Where the sign of the locale stands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Anchor {
    Front,
    Behind,
}

/// A pattern and what it says as a whole.
pub(super) struct Pattern {
    pieces: Vec<Piece>,
    /// Digits in front of the point and behind it.
    pub(super) pre: usize,
    pub(super) post: usize,
    /// Digits that the number is shifted by.
    pub(super) shift: usize,
    /// Where the first zero stands, and how many places end with the last.
    zero_start: Option<usize>,
    zero_end: usize,
    anchor: Option<Anchor>,
    /// Digits in front of the sign.
    before_sign: usize,
    has_point: bool,
    has_zero: bool,
    pub(super) is_blank: bool,
    pub(super) is_filled: bool,
    has_local_sign: bool,
    has_brackets: bool,
    has_minus: bool,
    has_plus: bool,
    pub(super) is_roman: bool,
    pub(super) is_shifted: bool,
    pub(super) has_exponent: bool,
}

fn word(text: &str) -> Option<(usize, Word)> {
    let is_lower = text.starts_with(|c: char| c.is_ascii_lowercase());
    let begins = |word: &str| match is_lower {
        true => text.starts_with(&word.to_ascii_lowercase()),
        false => text.starts_with(word),
    };
    let (word, meaning) = WORDS.iter().find(|(word, _)| begins(word))?;
    let meaning = match meaning {
        Word::Roman { .. } => Word::Roman { upper: !is_lower },
        Word::Ordinal { .. } => Word::Ordinal { upper: !is_lower },
        other => *other,
    };
    Some((word.len(), meaning))
}

fn refused(message: &str) -> SqlError {
    SqlError::syntax(message)
}

impl Pattern {
    /// What a pattern says.
    pub(super) fn parse(text: &str) -> Result<Pattern> {
        let mut pattern = Pattern {
            pieces: Vec::new(),
            pre: 0,
            post: 0,
            shift: 0,
            zero_start: None,
            zero_end: 0,
            anchor: None,
            before_sign: 0,
            has_point: false,
            has_zero: false,
            is_blank: false,
            is_filled: false,
            has_local_sign: false,
            has_brackets: false,
            has_minus: false,
            has_plus: false,
            is_roman: false,
            is_shifted: false,
            has_exponent: false,
        };
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if let Some((length, word)) = word(rest) {
                rest = &rest[length..];
                pattern.note(word)?;
                pattern.pieces.push(Piece::Word(word));
                continue;
            }
            if first == '"' {
                rest = pattern.quoted(&rest[1..]);
                continue;
            }
            let is_escaped = first == '\\' && rest[1..].starts_with('"');
            let c = if is_escaped { '"' } else { first };
            rest = &rest[usize::from(is_escaped) + c.len_utf8()..];
            pattern.pieces.push(Piece::Character(c));
        }
        Ok(pattern)
    }

    fn quoted<'t>(&mut self, text: &'t str) -> &'t str {
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            let c = match c {
                '"' => break,
                '\\' => chars.next().unwrap_or('\\'),
                c => c,
            };
            self.pieces.push(Piece::Character(c));
        }
        chars.as_str()
    }

    fn note(&mut self, word: Word) -> Result<()> {
        if self.has_exponent && word != Word::Exponent {
            return Err(refused("\"EEEE\" must be the last pattern used"));
        }
        match word {
            Word::Nine if self.has_brackets => {
                return Err(refused("\"9\" must be ahead of \"PR\""));
            }
            Word::Zero if self.has_brackets => {
                return Err(refused("\"0\" must be ahead of \"PR\""));
            }
            Word::Nine if self.is_shifted => self.shift += 1,
            Word::Nine if self.has_point => self.post += 1,
            Word::Nine => self.pre += 1,
            Word::Zero => {
                if !self.has_zero && !self.has_point {
                    self.has_zero = true;
                    self.zero_start = Some(self.pre);
                }
                match self.has_point {
                    true => self.post += 1,
                    false => self.pre += 1,
                }
                self.zero_end = self.pre + self.post;
            }
            Word::Blank => self.is_blank |= self.pre == 0 && self.post == 0 && !self.has_zero,
            Word::LocalPoint | Word::Point => {
                if self.has_point {
                    return Err(refused("multiple decimal points"));
                }
                if self.is_shifted {
                    return Err(refused("cannot use \"V\" and decimal point together"));
                }
                self.has_point = true;
            }
            Word::Fill => self.is_filled = true,
            Word::Shift => {
                if self.has_point {
                    return Err(refused("cannot use \"V\" and decimal point together"));
                }
                self.is_shifted = true;
            }
            Word::Roman { .. } => self.is_roman = true,
            Word::Exponent => {
                if self.has_exponent {
                    return Err(refused("cannot use \"EEEE\" twice"));
                }
                let others = self.is_blank
                    || self.is_filled
                    || self.has_local_sign
                    || self.has_brackets
                    || self.has_minus
                    || self.has_plus
                    || self.is_roman
                    || self.is_shifted;
                if others {
                    let detail = "\"EEEE\" may only be used together with digit and decimal point \
                                  patterns.";
                    let what = "\"EEEE\" is incompatible with other formats";
                    return Err(refused(what).detail(detail));
                }
                self.has_exponent = true;
            }
            Word::LocalSign | Word::Minus | Word::Plus | Word::Sign | Word::Brackets => {
                self.note_sign(word)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn note_sign(&mut self, word: Word) -> Result<()> {
        let with = |name: &str| format!("cannot use \"S\" and \"{name}\" together");
        match word {
            Word::LocalSign => {
                if self.has_local_sign {
                    return Err(refused("cannot use \"S\" twice"));
                }
                if self.has_plus || self.has_minus || self.has_brackets {
                    return Err(refused(&with("PL\"/\"MI\"/\"SG\"/\"PR")));
                }
                if !self.has_point {
                    (self.anchor, self.before_sign) = (Some(Anchor::Front), self.pre);
                } else if self.anchor.is_none() {
                    self.anchor = Some(Anchor::Behind);
                }
                self.has_local_sign = true;
            }
            Word::Brackets => {
                if self.has_local_sign || self.has_plus || self.has_minus {
                    let what = "cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together";
                    return Err(refused(what));
                }
                self.has_brackets = true;
            }
            _ => {
                let name = match word {
                    Word::Minus => "MI",
                    Word::Plus => "PL",
                    _ => "SG",
                };
                if self.has_local_sign {
                    return Err(refused(&with(name)));
                }
                self.has_minus |= word != Word::Plus;
                self.has_plus |= word != Word::Minus;
            }
        }
        Ok(())
    }

    /// As many places as the pattern has, filled with `#`.
    pub(super) fn overflown(&self) -> Vec<u8> {
        let mut text = vec![b'#'; self.pre + self.post + 1];
        text[self.pre] = b'.';
        text
    }
}

/// The digits of a number, without its sign.
pub(super) struct Digits {
    pub(super) text: Vec<u8>,
    pub(super) is_negative: bool,
    /// Places of the pattern in front of the first digit.
    pub(super) spaces: usize,
}

/// A number on its way into a pattern.
struct Writer<'p> {
    pattern: &'p Pattern,
    digits: &'p Digits,
    out: String,
    has_brackets: bool,
    anchor: Option<Anchor>,
    sign_written: bool,
    /// Has a digit been written by the last word?
    in_number: bool,
    /// Words of digits that were met, and how many there are.
    current: usize,
    count: usize,
    /// The next digit.
    at: usize,
    /// The last digit that counts with FM.
    last: Option<usize>,
    /// Where digits were missing: there PostgreSQL's text ends.
    end: Option<usize>,
}

/// A number by a pattern; a Roman one has its letters for digits.
pub(super) fn write(pattern: &Pattern, digits: &Digits) -> String {
    let is_roman = pattern.is_roman;
    let mut writer = Writer {
        pattern,
        digits,
        out: String::new(),
        has_brackets: pattern.has_brackets && !is_roman,
        anchor: pattern.anchor.filter(|_| !is_roman),
        sign_written: false,
        in_number: false,
        current: 0,
        count: (pattern.post + pattern.pre).saturating_sub(1),
        at: 0,
        last: None,
        end: None,
    };
    writer.prepare();
    for piece in &pattern.pieces {
        match piece {
            Piece::Character(c) => writer.out.push(*c),
            Piece::Word(word) => writer.word(*word),
        }
    }
    writer.out.truncate(writer.end.unwrap_or(usize::MAX));
    writer.out
}

impl Writer<'_> {
    fn sign(&self) -> char {
        if self.digits.is_negative { '-' } else { '+' }
    }

    fn prepare(&mut self) {
        let pattern = self.pattern;
        if !pattern.is_roman && (pattern.has_plus || pattern.has_minus) {
            self.sign_written = pattern.has_minus;
        } else {
            if !self.digits.is_negative && pattern.is_filled {
                self.has_brackets = false;
            }
            let local = pattern.has_local_sign && !pattern.is_roman;
            self.sign_written = !self.digits.is_negative && pattern.is_filled && !local;
            if self.anchor == Some(Anchor::Front) && pattern.pre == pattern.before_sign {
                self.anchor = Some(Anchor::Behind);
            }
        }
        let text = &self.digits.text;
        if pattern.is_filled && pattern.has_point {
            let point = text.iter().position(|byte| *byte == b'.');
            self.last = point.map(|point| {
                text.iter()
                    .rposition(|byte| *byte != b'0')
                    .filter(|at| *at > point)
                    .unwrap_or(point)
            });
            if let Some(last) = self.last
                && pattern.zero_end > self.digits.spaces
            {
                let zero = (text.len() - 1).min(pattern.zero_end - self.digits.spaces);
                self.last = Some(last.max(zero));
            }
        }
        if !self.sign_written && self.digits.spaces == 0 {
            self.count += 1;
        }
    }

    /// Is the next digit a zero in front of the point that is left out?
    fn is_bare_zero(&self) -> bool {
        !self.pattern.has_zero
            && self.at == 0
            && self.digits.text.first() == Some(&b'0')
            && self.pattern.post != 0
    }

    fn ends_at_point(&self) -> bool {
        self.last.is_some_and(|last| self.digits.text.get(last) == Some(&b'.'))
    }

    fn word(&mut self, word: Word) {
        let is_filled = self.pattern.is_filled;
        match word {
            Word::Nine | Word::Zero | Word::Point | Word::LocalPoint if !self.pattern.is_roman => {
                self.digit(word);
            }
            Word::Comma | Word::Group => match (self.in_number, is_filled) {
                (true, _) => self.out.push(','),
                (false, true) => {}
                (false, false) => self.out.push(' '),
            },
            Word::LocalCurrency => self.out.push(' '),
            Word::Roman { upper } => {
                let text: String = self.digits.text.iter().map(|byte| char::from(*byte)).collect();
                let text = if upper { text } else { text.to_ascii_lowercase() };
                match is_filled {
                    true => self.out.push_str(&text),
                    false => self.out.push_str(&format!("{text:>15}")),
                }
            }
            Word::Ordinal { upper } => {
                let has_none = self.pattern.is_roman
                    || self.digits.text.first() == Some(&b'#')
                    || self.digits.is_negative
                    || self.pattern.has_point;
                if !has_none {
                    let ending = ordinal(&self.digits.text);
                    self.out.push_str(&if upper {
                        ending.to_uppercase()
                    } else {
                        ending.to_owned()
                    });
                }
            }
            Word::Minus if self.digits.is_negative => self.out.push('-'),
            Word::Plus if !self.digits.is_negative && !self.pattern.is_roman => self.out.push('+'),
            Word::Minus | Word::Plus if !is_filled => self.out.push(' '),
            Word::Sign => self.out.push(self.sign()),
            _ => {}
        }
    }

    fn write_sign(&mut self) {
        let pattern = self.pattern;
        let starts = self.current >= self.digits.spaces
            || pattern.has_zero && pattern.zero_start == Some(self.current);
        if self.sign_written || !starts || self.is_bare_zero() && !self.ends_at_point() {
            return;
        }
        if pattern.has_local_sign {
            if self.anchor == Some(Anchor::Front) {
                self.out.push(self.sign());
                self.sign_written = true;
            }
        } else if self.has_brackets {
            self.out.push(if self.digits.is_negative { '<' } else { ' ' });
            self.sign_written = true;
        } else {
            match self.digits.is_negative {
                true => self.out.push('-'),
                false if !pattern.is_filled => self.out.push(' '),
                false => {}
            }
            self.sign_written = true;
        }
    }

    fn digit(&mut self, word: Word) {
        let pattern = self.pattern;
        self.in_number = false;
        self.write_sign();
        let zero_start = pattern.zero_start.unwrap_or(0);
        if self.current < self.digits.spaces && (zero_start > self.current || !pattern.has_zero) {
            if !pattern.is_filled {
                self.out.push(' ');
            }
        } else if pattern.has_zero
            && self.current < self.digits.spaces
            && zero_start <= self.current
        {
            self.out.push('0');
            self.in_number = true;
        } else {
            self.next_digit(word);
        }
        let mut end =
            self.count + usize::from(self.digits.spaces > 0) + usize::from(pattern.has_point);
        if self.last.is_some_and(|last| last == self.at) {
            end = self.current;
        }
        if self.current + 1 == end {
            if self.sign_written && self.has_brackets {
                self.out.push(if self.digits.is_negative { '>' } else { ' ' });
            } else if pattern.has_local_sign && self.anchor == Some(Anchor::Behind) {
                self.out.push(self.sign());
            }
        }
        self.current += 1;
    }

    fn next_digit(&mut self, word: Word) {
        let next = self.digits.text.get(self.at).copied();
        if next == Some(b'.') {
            if !self.ends_at_point() || self.pattern.is_filled {
                self.out.push('.');
            }
        } else if self.last.is_some_and(|last| self.at > last) && word != Word::Zero {
            // A zero behind the last digit that counts.
        } else if self.is_bare_zero() {
            if !self.pattern.is_filled {
                self.out.push(' ');
            } else if self.ends_at_point() {
                self.out.push('0');
            }
        } else if let Some(digit) = next {
            self.out.push(char::from(digit));
            self.in_number = true;
        } else {
            self.end.get_or_insert(self.out.len());
            self.in_number = true;
        }
        if next.is_some() {
            self.at += 1;
        }
    }
}

/// What stands behind a number in English.
fn ordinal(number: &[u8]) -> &'static str {
    let is_teen = number.len() > 1 && number[number.len() - 2] == b'1';
    match number.last() {
        Some(b'1') if !is_teen => "st",
        Some(b'2') if !is_teen => "nd",
        Some(b'3') if !is_teen => "rd",
        _ => "th",
    }
}

/// A number on its way out of a pattern.
struct Reader<'p> {
    pattern: &'p Pattern,
    input: Vec<char>,
    at: usize,
    sign: Option<char>,
    digits: String,
    pre: usize,
    post: usize,
    has_point: bool,
}

/// What was read by a pattern.
pub(super) struct Read {
    /// The sign, a blank if there is none, and the digits.
    pub(super) text: String,
    /// Digits behind the point.
    pub(super) post: usize,
}

/// The number in a text by a pattern.
pub(super) fn read(pattern: &Pattern, text: &str) -> Result<Read> {
    let unsupported = |name: &str| {
        let message = format!("\"{name}\" not supported for input");
        Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message))
    };
    if pattern.has_exponent {
        return unsupported("EEEE");
    }
    if pattern.is_roman {
        return unsupported("RN");
    }
    let mut reader = Reader {
        pattern,
        input: text.chars().collect(),
        at: 0,
        sign: None,
        digits: String::new(),
        pre: 0,
        post: 0,
        has_point: false,
    };
    for piece in &pattern.pieces {
        if reader.at >= reader.input.len() {
            break;
        }
        match piece {
            Piece::Character(_) => reader.at += 1,
            Piece::Word(word) => reader.word(*word),
        }
    }
    let digits = reader.digits.strip_suffix('.').unwrap_or(&reader.digits);
    let sign = reader.sign.unwrap_or(' ');
    Ok(Read { text: format!("{sign}{digits}"), post: reader.post })
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.input.get(self.at).copied()
    }

    /// Skips characters that are no part of a number.
    fn skip(&mut self, count: usize) {
        for _ in 0..count {
            match self.peek() {
                Some(c) if !"0123456789.,+-".contains(c) => self.at += 1,
                _ => break,
            }
        }
    }

    fn word(&mut self, word: Word) {
        match word {
            Word::Nine | Word::Zero | Word::Point | Word::LocalPoint => {
                self.digit(word);
                self.at += 1;
            }
            // With FM they are left out.
            Word::Comma | Word::Group if !self.pattern.is_filled && self.peek() == Some(',') => {
                self.at += 1;
            }
            Word::LocalCurrency => self.skip(1),
            Word::Ordinal { .. } if self.sign != Some('-') && !self.pattern.has_point => {
                self.skip(2);
            }
            Word::Minus if self.peek() == Some('-') => self.take_sign(),
            Word::Plus if self.peek() == Some('+') => self.take_sign(),
            Word::Sign if matches!(self.peek(), Some('-' | '+')) => self.take_sign(),
            Word::Minus | Word::Plus | Word::Sign => self.skip(1),
            _ => {}
        }
    }

    fn take_sign(&mut self) {
        self.sign = self.peek();
        self.at += 1;
    }

    /// Reads a digit or the point, and a sign beside it; the last character is left to the caller.
    fn digit(&mut self, word: Word) {
        if self.peek() == Some(' ') {
            self.at += 1;
        }
        let pattern = self.pattern;
        let has_none = self.pre + self.post == 0;
        if self.sign.is_none() && matches!(word, Word::Zero | Word::Nine) && has_none {
            let local = pattern.has_local_sign && pattern.anchor == Some(Anchor::Front);
            match self.peek() {
                Some('-' | '+') => self.take_sign(),
                Some('<') if pattern.has_brackets && !local => {
                    self.sign = Some('-');
                    self.at += 1;
                }
                _ => {}
            }
        }
        let Some(next) = self.peek() else { return };
        let mut is_read = false;
        if next.is_ascii_digit() {
            if self.has_point && self.post == pattern.post {
                return;
            }
            self.digits.push(next);
            match self.has_point {
                true => self.post += 1,
                false => self.pre += 1,
            }
            is_read = true;
        } else if pattern.has_point && !self.has_point && next == '.' {
            self.digits.push('.');
            (self.has_point, is_read) = (true, true);
        }
        if self.sign.is_some() || self.pre + self.post == 0 {
            return;
        }
        let behind = self.input.get(self.at + 1).copied();
        let has_own_sign = pattern.has_plus || pattern.has_minus;
        match (pattern.has_local_sign, is_read, behind, next) {
            (true, true, Some(sign @ ('-' | '+')), _) => {
                self.sign = Some(sign);
                self.at += 1;
            }
            (false, false, _, sign @ ('-' | '+')) if has_own_sign => self.sign = Some(sign),
            _ => {}
        }
    }
}
