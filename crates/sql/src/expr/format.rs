//! `format`: a text with values in it.
//!
//! Invariants: a value is written as text, as an identifier or as a literal, as its place says; the
//! result is no longer than any text. Does not do: numbers with a precision, which PostgreSQL's
//! function does not have.

use crate::error::{Result, SqlError, code};
use crate::expr::Context;
use crate::expr::function::Registry;
use crate::expr::length::check_length;
use crate::names::identifier;
use crate::types::literal::literal;
use crate::types::{Datum, SqlType};

/// Adds it.
pub(super) fn register(registry: &mut Registry) {
    use SqlType as T;
    registry.add("format", &[T::Text], T::Text, format);
    let with_values = registry.add("format", &[T::Text, T::Unknown], T::Text, format);
    with_values.variadic = true;
    with_values.strict = false;
}

fn refused(message: String) -> SqlError {
    SqlError::new(code::INVALID_PARAMETER, message)
}

/// Reads the places of a text.
struct Reader<'f> {
    rest: std::str::Chars<'f>,
    values: &'f [Datum],
    /// The value that a place without a number takes.
    next: usize,
}

/// How wide a value is written, and on which side.
#[derive(Clone, Copy)]
struct Width {
    least: usize,
    to_left: bool,
}

fn format(values: &[Datum], context: &Context) -> Result<Datum> {
    let Some(Datum::Text(text)) = values.first() else { return Ok(Datum::Null) };
    let mut reader = Reader { rest: text.chars(), values, next: 1 };
    let mut out = String::new();
    while let Some(c) = reader.rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        reader.place(&mut out, context)?;
    }
    Ok(Datum::Text(out))
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.clone().next()
    }

    /// Digits, and what they make; `None` if there are none.
    fn number(&mut self) -> Result<Option<usize>> {
        let mut number = None;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(10)) {
            let grown = number.unwrap_or(0usize) * 10 + digit as usize;
            if grown > i32::MAX as usize {
                let message = "number is out of range";
                return Err(SqlError::new(code::NUMERIC_OUT_OF_RANGE, message));
            }
            number = Some(grown);
            self.rest.next();
        }
        Ok(number)
    }

    fn value(&mut self, number: Option<usize>) -> Result<&Datum> {
        let at = number.unwrap_or(self.next);
        if at == 0 {
            let message = "format specifies argument 0, but arguments are numbered from 1";
            return Err(refused(message.to_owned()));
        }
        self.next = at + 1;
        self.values.get(at).ok_or_else(|| refused("too few arguments for format()".to_owned()))
    }

    /// Writes what stands behind a percent sign.
    fn place(&mut self, out: &mut String, context: &Context) -> Result<()> {
        let unterminated = || refused("unterminated format() type specifier".to_owned());
        if self.peek() == Some('%') {
            self.rest.next();
            out.push('%');
            return Ok(());
        }
        let mut width = Width { least: 0, to_left: false };
        let (mut number, mut has_width) = (None, false);
        let before = self.rest.clone();
        match self.number()? {
            Some(at) if self.peek() == Some('$') => {
                self.rest.next();
                number = Some(at);
            }
            Some(_) => self.rest = before,
            None => {}
        }
        while self.peek() == Some('-') {
            self.rest.next();
            width.to_left = true;
        }
        if self.peek() == Some('*') {
            self.rest.next();
            let at = self.number()?;
            if at.is_some() && self.rest.next() != Some('$') {
                let message = "width argument position must be ended by \"$\"";
                return Err(refused(message.to_owned()));
            }
            let size = match self.value(at)? {
                Datum::Null => 0,
                other => match other.to_text().and_then(|text| text.parse::<i32>().ok()) {
                    Some(size) => size,
                    None => {
                        let message = "invalid input syntax for type integer";
                        return Err(SqlError::new(code::INVALID_TEXT, message));
                    }
                },
            };
            width.to_left |= size < 0;
            width.least = size.unsigned_abs() as usize;
            has_width = true;
        }
        if !has_width && let Some(least) = self.number()? {
            width.least = least;
        }
        check_length(width.least.saturating_mul(4).max(out.len()))?;
        context.held.check_fits(width.least + out.len())?;
        let kind = self.rest.next().ok_or_else(unterminated)?;
        if !matches!(kind, 's' | 'I' | 'L') {
            let message = format!("unrecognized format() type specifier \"{kind}\"");
            let hint = "For a single \"%\" use \"%%\".";
            return Err(refused(message).hint(hint));
        }
        let value = self.value(number)?;
        let text = match (kind, value.to_text_in(&context.times)) {
            ('I', None) => {
                let message = "null values cannot be formatted as an SQL identifier";
                return Err(SqlError::new(code::NULL_NOT_ALLOWED, message));
            }
            ('L', None) => "NULL".to_owned(),
            (_, None) => String::new(),
            ('I', Some(text)) => identifier(&text),
            ('L', Some(text)) => literal(&text),
            (_, Some(text)) => text,
        };
        let blanks = width.least.saturating_sub(text.chars().count());
        if !width.to_left {
            out.extend(std::iter::repeat_n(' ', blanks));
        }
        out.push_str(&text);
        if width.to_left {
            out.extend(std::iter::repeat_n(' ', blanks));
        }
        check_length(out.len())
    }
}
