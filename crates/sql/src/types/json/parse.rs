//! Reading JSON (RFC 8259) as PostgreSQL's `jsonapi.c` reads it.
//!
//! Invariants: what is refused is refused with the details that PostgreSQL gives; a text that
//! [`parse`] takes is one that [`check`] takes.
//! Does not do: the line that PostgreSQL adds as context.

use std::borrow::Cow;

use super::{Json, MAX_DEPTH, too_deep};
use crate::error::{Result, SqlError, code};

/// Reads a document whose strings are needed: of `jsonb`.
///
/// # Errors
/// `22P02` for text that is none, `22P05` for characters that no string can hold, `54001` for one
/// that is too deep.
pub(crate) fn parse(text: &str) -> Result<Json<'_>> {
    Parser { text, at: 0, depth: 0, reads_strings: true }.document()
}

/// Is it a document? Characters of strings need not be such as text can hold.
///
/// # Errors
/// As [`parse`], but for `22P05`.
pub(crate) fn check(text: &str) -> Result<()> {
    Parser { text, at: 0, depth: 0, reads_strings: false }.document().map(drop)
}

/// The error for a text that is no document, with what is wrong there.
fn invalid(detail: impl Into<String>) -> SqlError {
    SqlError::new(code::INVALID_TEXT, "invalid input syntax for type json").detail(detail.into())
}

fn cut_off() -> SqlError {
    invalid("The input string ended unexpectedly.")
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    /// Are strings needed, or only whether they are any?
    reads_strings: bool,
}

/// A piece of the text; what is in strings is read later.
#[derive(Clone, Copy, PartialEq)]
enum Token {
    End,
    /// One of `{ } [ ] : ,`
    Mark(u8),
    String,
    /// A number, `true`, `false`, `null`, or nothing that JSON knows.
    Word,
}

impl<'t> Parser<'t> {
    fn document(mut self) -> Result<Json<'t>> {
        let value = self.value("JSON value")?;
        match self.peek() {
            Token::End => Ok(value),
            token => Err(self.unexpected("end of input", token)),
        }
    }

    fn peek(&mut self) -> Token {
        let rest = &self.text.as_bytes()[self.at..];
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.at += rest.iter().take_while(|byte| blank(byte)).count();
        match self.text.as_bytes().get(self.at) {
            None => Token::End,
            Some(mark @ (b'{' | b'}' | b'[' | b']' | b':' | b',')) => Token::Mark(*mark),
            Some(b'"') => Token::String,
            Some(_) => Token::Word,
        }
    }

    /// Steps over a mark if it is next.
    fn take(&mut self, mark: u8) -> bool {
        let is_next = self.peek() == Token::Mark(mark);
        self.at += usize::from(is_next);
        is_next
    }

    /// What stands at the next piece, as complaints show it.
    fn shown(&self, token: Token) -> Result<&'t str> {
        let rest = &self.text[self.at..];
        Ok(match token {
            Token::End => "",
            Token::Mark(_) => &rest[..1],
            Token::String => {
                let mut ahead =
                    Parser { text: self.text, at: self.at, depth: 0, reads_strings: false };
                ahead.string()?;
                &self.text[self.at..ahead.at]
            }
            Token::Word => &rest[..word_length(rest)],
        })
    }

    fn unexpected(&self, expected: &str, token: Token) -> SqlError {
        if token == Token::End {
            return cut_off();
        }
        let shown = match self.shown(token) {
            Ok(shown) => shown,
            Err(error) => return error,
        };
        if token == Token::Word && !is_known(shown) {
            return invalid(format!("Token \"{shown}\" is invalid."));
        }
        invalid(format!("Expected {expected}, but found \"{shown}\"."))
    }

    fn value(&mut self, expected: &str) -> Result<Json<'t>> {
        match self.peek() {
            Token::Mark(b'{') => self.nested(Self::object),
            Token::Mark(b'[') => self.nested(Self::array),
            Token::String => self.string().map(Json::String),
            Token::Word => self.word(),
            token => Err(self.unexpected(expected, token)),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Json<'t>>) -> Result<Json<'t>> {
        if self.depth == MAX_DEPTH {
            return Err(too_deep());
        }
        self.at += 1;
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn array(&mut self) -> Result<Json<'t>> {
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Json::Array(items));
        }
        items.push(self.value("array element or \"]\"")?);
        loop {
            if self.take(b',') {
                items.push(self.value("JSON value")?);
            } else if self.take(b']') {
                return Ok(Json::Array(items));
            } else {
                let token = self.peek();
                return Err(self.unexpected("\",\" or \"]\"", token));
            }
        }
    }

    fn object(&mut self) -> Result<Json<'t>> {
        let mut fields = Vec::new();
        if self.take(b'}') {
            return Ok(Json::Object(fields));
        }
        let mut expected = "string or \"}\"";
        loop {
            let key = match self.peek() {
                Token::String => self.string()?,
                token => return Err(self.unexpected(expected, token)),
            };
            if !self.take(b':') {
                let token = self.peek();
                return Err(self.unexpected("\":\"", token));
            }
            fields.push((key, self.value("JSON value")?));
            if self.take(b'}') {
                return Ok(Json::Object(fields));
            }
            if !self.take(b',') {
                let token = self.peek();
                return Err(self.unexpected("\",\" or \"}\"", token));
            }
            expected = "string";
        }
    }

    fn word(&mut self) -> Result<Json<'t>> {
        let rest = &self.text[self.at..];
        let word = &rest[..word_length(rest)];
        let value = match word {
            "null" => Json::Null,
            "true" => Json::Bool(true),
            "false" => Json::Bool(false),
            number if is_number(number) => Json::Number(Cow::Borrowed(number)),
            other => return Err(invalid(format!("Token \"{other}\" is invalid."))),
        };
        self.at += word.len();
        Ok(value)
    }

    /// Reads a string, whose quote is next.
    fn string(&mut self) -> Result<Cow<'t, str>> {
        let start = self.at + 1;
        self.at = start;
        let mut text = Cow::Borrowed("");
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            let plain =
                rest.iter().take_while(|byte| !matches!(byte, b'"' | b'\\' | 0..=31)).count();
            let piece = &self.text[self.at..self.at + plain];
            match &mut text {
                Cow::Borrowed("") => text = Cow::Borrowed(piece),
                _ if self.reads_strings => text.to_mut().push_str(piece),
                _ => {}
            }
            self.at += plain;
            match rest.get(plain) {
                None => {
                    let token = &self.text[start - 1..];
                    return Err(invalid(format!("Token \"{token}\" is invalid.")));
                }
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => {
                    let c = self.escape(start)?;
                    if self.reads_strings {
                        text.to_mut().extend(c);
                    }
                }
                Some(byte) => {
                    let detail = format!("Character with value 0x{byte:02x} must be escaped.");
                    return Err(invalid(detail));
                }
            }
        }
    }

    /// Reads what a backslash begins; a string began at `start`. None where nobody needs it.
    fn escape(&mut self, start: usize) -> Result<Option<char>> {
        let Some(c) = self.text[self.at + 1..].chars().next() else {
            let token = &self.text[start - 1..];
            return Err(invalid(format!("Token \"{token}\" is invalid.")));
        };
        self.at += 1 + c.len_utf8();
        let plain = match c {
            '"' | '\\' | '/' => c,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => return self.code_point(),
            other => return Err(invalid(format!("Escape sequence \"\\{other}\" is invalid."))),
        };
        Ok(Some(plain))
    }

    /// Reads the digits behind `\u`, and those of a second half.
    fn code_point(&mut self) -> Result<Option<char>> {
        const LOW: &str = "Unicode low surrogate must follow a high surrogate.";
        let first = self.hex()?;
        if !self.reads_strings {
            return Ok(None);
        }
        let whole = match first {
            0 => {
                let message = "unsupported Unicode escape sequence";
                let error = SqlError::new(code::UNTRANSLATABLE_CHARACTER, message);
                return Err(error.detail("\\u0000 cannot be converted to text."));
            }
            0xd800..0xdc00 => {
                if !self.text[self.at..].starts_with("\\u") {
                    return Err(invalid(LOW));
                }
                self.at += 2;
                match self.hex()? {
                    second @ 0xdc00..0xe000 => {
                        0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00)
                    }
                    0xd800..0xdc00 => {
                        return Err(invalid(
                            "Unicode high surrogate must not follow a high surrogate.",
                        ));
                    }
                    _ => return Err(invalid(LOW)),
                }
            }
            0xdc00..0xe000 => return Err(invalid(LOW)),
            other => other,
        };
        Ok(char::from_u32(whole))
    }

    fn hex(&mut self) -> Result<u32> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4);
        let is_sound = |digits: &&[u8]| digits.iter().all(u8::is_ascii_hexdigit);
        let digits = digits
            .filter(is_sound)
            .ok_or_else(|| invalid("\"\\u\" must be followed by four hexadecimal digits."))?;
        self.at += 4;
        let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap_or(0);
        Ok(digits.iter().fold(0, |number, byte| number * 16 + digit(byte)))
    }
}

/// Bytes of a word: letters, digits and what numbers have, or one other character.
fn word_length(text: &str) -> usize {
    let belongs =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '.') || !c.is_ascii();
    let length = text.find(|c| !belongs(c)).unwrap_or(text.len());
    if length > 0 { length } else { text.chars().next().map_or(0, char::len_utf8) }
}

fn is_known(word: &str) -> bool {
    matches!(word, "null" | "true" | "false") || is_number(word)
}

/// Is it a number as JSON writes them?
pub(super) fn is_number(word: &str) -> bool {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let unsigned = word.strip_prefix('-').unwrap_or(word);
    let whole = digits(unsigned);
    if whole == 0 || whole > 1 && unsigned.starts_with('0') {
        return false;
    }
    let mut rest = &unsigned[whole..];
    if let Some(fraction) = rest.strip_prefix('.') {
        let count = digits(fraction);
        if count == 0 {
            return false;
        }
        rest = &fraction[count..];
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let count = digits(exponent);
        return count > 0 && count == exponent.len();
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_no_documents_are_refused_with_what_is_wrong() {
        for (text, detail) in [
            ("", "The input string ended unexpectedly."),
            ("[1", "The input string ended unexpectedly."),
            ("{\"a\":1", "The input string ended unexpectedly."),
            ("\"abc", "Token \"\"abc\" is invalid."),
            ("{\"a\":}", "Expected JSON value, but found \"}\"."),
            ("{\"a\" 1}", "Expected \":\", but found \"1\"."),
            ("{1:2}", "Expected string or \"}\", but found \"1\"."),
            ("{\"a\":1,}", "Expected string, but found \"}\"."),
            ("{\"a\":1 \"b\"}", "Expected \",\" or \"}\", but found \"\"b\"\"."),
            ("[1 2]", "Expected \",\" or \"]\", but found \"2\"."),
            ("[,]", "Expected array element or \"]\", but found \",\"."),
            ("1 2", "Expected end of input, but found \"2\"."),
            ("01", "Token \"01\" is invalid."),
            ("nul", "Token \"nul\" is invalid."),
            ("\"\\x\"", "Escape sequence \"\\x\" is invalid."),
            ("\"\\u12\"", "\"\\u\" must be followed by four hexadecimal digits."),
            ("\"a\nb\"", "Character with value 0x0a must be escaped."),
            ("\"\\udc00\"", "Unicode low surrogate must follow a high surrogate."),
            ("\"\\ud800x\"", "Unicode low surrogate must follow a high surrogate."),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(
                (error.sqlstate, error.detail.as_deref()),
                ("22P02", Some(detail)),
                "{text}"
            );
        }
    }

    #[test]
    fn strings_are_what_their_escapes_say() {
        let read = parse("\"a\\n\\u00e9\\ud83d\\ude00\\/b\"").unwrap();
        assert_eq!(read, Json::String("a\né😀/b".into()));
        assert_eq!(parse("\"\\u0000\"").unwrap_err().sqlstate, "22P05");
        check("\"\\u0000\"").unwrap();
    }

    #[test]
    fn a_document_that_is_too_deep_is_refused() {
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        parse(&deep(MAX_DEPTH)).unwrap();
        assert_eq!(parse(&deep(MAX_DEPTH + 1)).unwrap_err().sqlstate, "54001");
        assert_eq!(check(&"[".repeat(1 << 20)).unwrap_err().sqlstate, "54001");
    }
}
