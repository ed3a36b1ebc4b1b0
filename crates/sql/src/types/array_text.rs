//! Arrays from and to text, with PostgreSQL's forms and complaints (`array_in`, `array_out`).
//!
//! Text is read twice: the first time counts the dimensions and finds what is malformed, the second
//! time reads the elements.
//!
//! Invariants: what is written reads back as an equal array.
//! Does not do: delimiters other than a comma, which no type here has.

use std::fmt::Write;

use crate::error::{Result, SqlError, code};
use crate::types::array::{
    Array, Dimension, ElementType, MAX_DIMENSIONS, count, too_many_dimensions,
};
use crate::types::time::Times;
use crate::types::{Datum, SqlType};

/// Appends an array as PostgreSQL prints it.
pub(super) fn write(array: &Array, times: &Times, out: &mut String) {
    if array.dimensions().is_empty() {
        out.push_str("{}");
        return;
    }
    if array.dimensions().iter().any(|dimension| dimension.lower != 1) {
        for dimension in array.dimensions() {
            let written = write!(out, "[{}:{}]", dimension.lower, dimension.upper());
            written.expect("writing to a string succeeds");
        }
        out.push('=');
    }
    let mut writer = Writer { times, element: String::new(), out };
    writer.level(array.dimensions(), array.values());
}

struct Writer<'w> {
    times: &'w Times,
    /// The text of an element.
    element: String,
    out: &'w mut String,
}

impl Writer<'_> {
    fn level(&mut self, dimensions: &[Dimension], values: &[Datum]) {
        let Writer { times, element, out } = self;
        out.push('{');
        match dimensions {
            [] | [_] => {
                for (at, value) in values.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    element.clear();
                    value.write_text_in(times, element);
                    match value.is_null() {
                        true => out.push_str("NULL"),
                        false => write_element(element, out),
                    }
                }
            }
            [_, inner @ ..] => {
                let size = inner.iter().map(|dimension| dimension.length as usize).product();
                for (at, values) in values.chunks(size).enumerate() {
                    if at > 0 {
                        self.out.push(',');
                    }
                    self.level(inner, values);
                }
            }
        }
        self.out.push('}');
    }
}

fn write_element(text: &str, out: &mut String) {
    let odd = |c: char| is_space(c) || matches!(c, '"' | '\\' | '{' | '}' | ',');
    if !text.is_empty() && !text.eq_ignore_ascii_case("null") && !text.contains(odd) {
        out.push_str(text);
        return;
    }
    out.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}')
}

/// Reads an array whose elements are of a type.
pub(super) fn parse(element: ElementType, text: &str, times: &Times) -> Result<Array> {
    let mut input = Input { text, rest: text };
    let declared = input.dimensions()?;
    if !input.rest.starts_with('{') {
        return Err(malformed(text).detail(match declared.is_empty() {
            true => "Array value must start with \"{\" or dimension information.",
            false => "Array contents must start with \"{\".",
        }));
    }
    let lengths = Counter::new(text).count(input.rest)?;
    let lengths_are =
        |declared: &[Dimension]| declared.iter().map(|d| d.length).eq(lengths.iter().copied());
    let dimensions = match declared.is_empty() {
        true => lengths.iter().map(|&length| Dimension { lower: 1, length }).collect(),
        false if lengths_are(&declared) => declared,
        false => {
            let detail = "Specified array dimensions do not match array contents.";
            return Err(malformed(text).detail(detail));
        }
    };
    if count(&dimensions)? == 0 {
        return Ok(Array::empty(element));
    }
    let values = elements(element, input.rest, times)?;
    Array::shaped(element, dimensions, values)
}

fn malformed(text: &str) -> SqlError {
    SqlError::new(code::INVALID_TEXT, format!("malformed array literal: \"{text}\""))
}

struct Input<'t> {
    text: &'t str,
    rest: &'t str,
}

impl Input<'_> {
    /// Bounds in front of the braces, and the sign of equality behind them.
    fn dimensions(&mut self) -> Result<Vec<Dimension>> {
        let mut dimensions = Vec::new();
        loop {
            self.rest = self.rest.trim_start_matches(is_space);
            let Some(inner) = self.rest.strip_prefix('[') else { break };
            self.rest = inner;
            if dimensions.len() >= MAX_DIMENSIONS {
                return Err(too_many_dimensions(dimensions.len() + 1));
            }
            let first =
                self.number("\"[\" must introduce explicitly-specified array dimensions.")?;
            let (lower, upper) = match self.rest.strip_prefix(':') {
                Some(rest) => {
                    self.rest = rest;
                    (first, self.number("Missing array dimension value.")?)
                }
                None => (1, first),
            };
            let Some(behind) = self.rest.strip_prefix(']') else {
                let detail = "Missing \"]\" after array dimensions.";
                return Err(malformed(self.text).detail(detail));
            };
            self.rest = behind;
            if upper < lower {
                let message = "upper bound cannot be less than lower bound";
                return Err(SqlError::new(code::ARRAY_SUBSCRIPT, message));
            }
            let length = i64::from(upper) - i64::from(lower) + 1;
            // One that is too large is refused when the elements are counted.
            let length = i32::try_from(length).unwrap_or(i32::MAX);
            dimensions.push(Dimension { lower, length });
        }
        if !dimensions.is_empty() {
            let Some(behind) = self.rest.strip_prefix('=') else {
                let detail = "Missing \"=\" after array dimensions.";
                return Err(malformed(self.text).detail(detail));
            };
            self.rest = behind.trim_start_matches(is_space);
        }
        Ok(dimensions)
    }

    fn number(&mut self, missing: &str) -> Result<i32> {
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+');
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        if end == 0 {
            return Err(malformed(self.text).detail(missing));
        }
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        // As `atoi` reads them.
        let sign = usize::from(digits.starts_with(['-', '+']));
        let plain = digits[sign..].find(|c: char| !c.is_ascii_digit()).unwrap_or(end - sign);
        let number = digits[..sign + plain].parse::<i64>().unwrap_or(match plain {
            0 => 0,
            _ if digits.starts_with('-') => i64::from(i32::MIN),
            _ => i64::from(i32::MAX),
        });
        Ok(number.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32)
    }
}

/// What stands in front of the next character.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Nothing,
    LevelStarted,
    ElementStarted,
    QuotedStarted,
    QuotedDone,
    ElementDelimited,
    LevelDone,
    LevelDelimited,
}

/// Counts the elements along each dimension.
struct Counter<'t> {
    text: &'t str,
    state: State,
    in_quotes: bool,
    /// Open braces.
    depth: usize,
    dimensions: usize,
    lengths: [i32; MAX_DIMENSIONS],
    /// Elements of the level that is read, and of the one of the same depth before it.
    own: [i32; MAX_DIMENSIONS],
    last: [i32; MAX_DIMENSIONS],
    is_empty: bool,
}

impl<'t> Counter<'t> {
    fn new(text: &'t str) -> Counter<'t> {
        Counter {
            text,
            state: State::Nothing,
            in_quotes: false,
            depth: 0,
            dimensions: 1,
            lengths: [0; MAX_DIMENSIONS],
            own: [1; MAX_DIMENSIONS],
            last: [0; MAX_DIMENSIONS],
            is_empty: true,
        }
    }

    fn fail<T>(&self, detail: &str) -> Result<T> {
        Err(malformed(self.text).detail(detail))
    }

    fn unexpected<T>(&self, c: char) -> Result<T> {
        self.fail(&format!("Unexpected \"{c}\" character."))
    }

    /// The lengths of the dimensions of what stands in braces; none if nothing does.
    fn count(mut self, braces: &str) -> Result<Vec<i32>> {
        let mut chars = braces.chars();
        loop {
            if matches!(self.state, State::ElementStarted | State::QuotedStarted) {
                self.is_empty = false;
            }
            let Some(c) = chars.next() else { return self.fail("Unexpected end of input.") };
            match c {
                '\\' => {
                    self.escape()?;
                    if chars.next().is_none() {
                        return self.fail("Unexpected end of input.");
                    }
                }
                '"' => self.quote()?,
                _ if self.in_quotes => {}
                '{' => self.open()?,
                '}' => {
                    self.close()?;
                    if self.depth == 0 {
                        break;
                    }
                }
                ',' => self.delimit()?,
                c if is_space(c) => {}
                _ => self.element()?,
            }
        }
        self.lengths[self.dimensions - 1] += 1;
        if !chars.as_str().chars().all(is_space) {
            return self.fail("Junk after closing right brace.");
        }
        Ok(match self.is_empty {
            true => Vec::new(),
            false => self.lengths[..self.dimensions].to_vec(),
        })
    }

    fn escape(&mut self) -> Result<()> {
        use State as S;
        match self.state {
            S::QuotedStarted => Ok(()),
            S::LevelStarted | S::ElementStarted | S::ElementDelimited => {
                self.state = S::ElementStarted;
                Ok(())
            }
            _ => self.unexpected('\\'),
        }
    }

    fn quote(&mut self) -> Result<()> {
        use State as S;
        if !matches!(self.state, S::LevelStarted | S::QuotedStarted | S::ElementDelimited) {
            return self.fail("Unexpected array element.");
        }
        self.in_quotes = !self.in_quotes;
        self.state = if self.in_quotes { S::QuotedStarted } else { S::QuotedDone };
        Ok(())
    }

    fn open(&mut self) -> Result<()> {
        use State as S;
        if !matches!(self.state, S::Nothing | S::LevelStarted | S::LevelDelimited) {
            return self.unexpected('{');
        }
        self.state = S::LevelStarted;
        if self.depth >= MAX_DIMENSIONS {
            return Err(too_many_dimensions(self.depth + 1));
        }
        self.lengths[self.depth] = 0;
        self.depth += 1;
        self.dimensions = self.dimensions.max(self.depth);
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        use State as S;
        let is_closed = match self.state {
            S::ElementStarted | S::QuotedDone | S::LevelDone => true,
            S::LevelStarted => self.depth == 1,
            _ => false,
        };
        if !is_closed {
            return self.unexpected('}');
        }
        self.state = S::LevelDone;
        self.depth -= 1;
        let (own, last) = (&mut self.own[self.depth], &mut self.last[self.depth]);
        if *last != 0 && own != last {
            let detail = "Multidimensional arrays must have sub-arrays with matching dimensions.";
            return self.fail(detail);
        }
        (*last, *own) = (*own, 1);
        if self.depth > 0 {
            self.lengths[self.depth - 1] += 1;
        }
        Ok(())
    }

    fn delimit(&mut self) -> Result<()> {
        use State as S;
        self.state = match self.state {
            S::ElementStarted | S::QuotedDone => S::ElementDelimited,
            S::LevelDone => S::LevelDelimited,
            _ => return self.unexpected(','),
        };
        self.own[self.depth - 1] += 1;
        self.lengths[self.dimensions - 1] += 1;
        Ok(())
    }

    fn element(&mut self) -> Result<()> {
        use State as S;
        if !matches!(self.state, S::LevelStarted | S::ElementStarted | S::ElementDelimited) {
            return self.fail("Unexpected array element.");
        }
        self.state = S::ElementStarted;
        Ok(())
    }
}

/// The elements in braces that are not malformed.
fn elements(element: ElementType, braces: &str, times: &Times) -> Result<Vec<Datum>> {
    let mut values = Vec::new();
    let mut one = Element::default();
    let mut in_quotes = false;
    let mut chars = braces.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                one.is_quoted = true;
                one.text.extend(chars.next());
                one.end = one.text.len();
            }
            '"' => {
                one.is_quoted = true;
                in_quotes = !in_quotes;
            }
            c if in_quotes => {
                one.text.push(c);
                one.end = one.text.len();
            }
            '{' => {}
            '}' | ',' => values.extend(one.take(element, times)?),
            c if is_space(c) => {
                if !one.text.is_empty() {
                    one.text.push(c);
                }
            }
            c => {
                one.text.push(c);
                one.end = one.text.len();
            }
        }
    }
    Ok(values)
}

/// An element that is read.
#[derive(Default)]
struct Element {
    text: String,
    /// Where blanks at the end begin.
    end: usize,
    is_quoted: bool,
}

impl Element {
    /// Its value; none where no element has begun.
    fn take(&mut self, element: ElementType, times: &Times) -> Result<Option<Datum>> {
        self.text.truncate(self.end);
        let value = match self.is_quoted {
            false if self.text.is_empty() => return Ok(None),
            false if self.text.eq_ignore_ascii_case("null") => Datum::Null,
            _ => parse_element(element.ty(), &self.text, times)?,
        };
        (self.end, self.is_quoted) = (0, false);
        self.text.clear();
        Ok(Some(value))
    }
}

/// An element, which keeps the blanks that it ends in.
fn parse_element(ty: SqlType, text: &str, times: &Times) -> Result<Datum> {
    match ty {
        SqlType::Bpchar => Ok(Datum::Text(text.to_owned())),
        _ => Datum::from_text_in(ty, text, times),
    }
}

#[cfg(test)]
mod tests {
    use crate::types::{Datum, SqlType};

    fn read(text: &str) -> Result<String, String> {
        let ty = SqlType::array_of(SqlType::Text).unwrap();
        match Datum::from_text(ty, text) {
            Ok(value) => Ok(value.to_text().unwrap()),
            Err(error) => Err(error.detail.unwrap_or(error.message)),
        }
    }

    #[test]
    fn what_is_read_is_written_as_postgresql_does() {
        for (text, shown) in [
            ("{}", "{}"),
            (" { } ", "{}"),
            ("{a, b ,\" c \",\\ d}", "{a,b,\" c \",\" d\"}"),
            ("{null,\"null\",NULL,nul}", "{NULL,\"null\",NULL,nul}"),
            ("{a b,c\\\"d,\"e\\\\f\",\"\"}", "{\"a b\",\"c\\\"d\",\"e\\\\f\",\"\"}"),
            ("{{1,2},{3,4}}", "{{1,2},{3,4}}"),
            ("[2:3]={a,b}", "[2:3]={a,b}"),
            ("[1:2]={a,b}", "{a,b}"),
            ("[0:0][-1:0]={{a,b}}", "[0:0][-1:0]={{a,b}}"),
            ("{\"a\"  , b}", "{a,b}"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(shown), "{text}");
        }
    }

    #[test]
    fn what_is_malformed_is_told_as_postgresql_does() {
        let brace = "Array value must start with \"{\" or dimension information.";
        for (text, detail) in [
            ("", brace),
            ("a", brace),
            ("{a", "Unexpected end of input."),
            ("{a}}", "Junk after closing right brace."),
            ("{a,}", "Unexpected \"}\" character."),
            ("{,a}", "Unexpected \",\" character."),
            ("{a,,b}", "Unexpected \",\" character."),
            ("{a\"b\"}", "Unexpected array element."),
            ("{\"a\"b}", "Unexpected array element."),
            ("{{a},b}", "Unexpected array element."),
            ("{a,{b}}", "Unexpected \"{\" character."),
            ("{{},{}}", "Unexpected \"}\" character."),
            (
                "{{a},{b,c}}",
                "Multidimensional arrays must have sub-arrays with matching dimensions.",
            ),
            ("[1:3]={a,b}", "Specified array dimensions do not match array contents."),
            ("[1:2]{a,b}", "Missing \"=\" after array dimensions."),
            ("[1:2]=a", "Array contents must start with \"{\"."),
            ("[1:]={a}", "Missing array dimension value."),
            ("[]={a}", "\"[\" must introduce explicitly-specified array dimensions."),
            ("[1={a}", "Missing \"]\" after array dimensions."),
            ("[2:1]={a}", "upper bound cannot be less than lower bound"),
            ("{{{{{{{a}}}}}}}", "number of array dimensions (7) exceeds the maximum allowed (6)"),
        ] {
            assert_eq!(read(text), Err(detail.to_owned()), "{text}");
        }
    }
}
