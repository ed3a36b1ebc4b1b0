//! `regexp_replace` and its kin, `substring` by a pattern.
//!
//! Positions count characters from 1. A search goes on where a match ends, and a character later
//! behind an empty one, so that none is found twice.
//!
//! Invariants: what is made is no longer than texts may be, and counted where it is a list.
//! Does not do: matching (`find`).

use std::sync::Arc;

use crate::error::{Result, SqlError, code};
use crate::expr::Context;
use crate::expr::arrays::check_fits;
use crate::expr::function::{PatternRows, Registry, SetFunction};
use crate::expr::length::check_length;
use crate::expr::operators::mismatch;
use crate::types::{Array, Datum, ElementType, Row, SqlType};

use super::Options;
use super::find::{Finder, Found, Span};

/// Adds them.
pub(super) fn register(registry: &mut Registry) {
    use SqlType as T;
    let (text, number) = (T::Text, T::Int4);
    // text, pattern, start, occurrence, end or not, flags, group
    let places = [text, text, number, number, number, text, number];
    for count in 2..=places.len() {
        registry.add("regexp_instr", &places[..count], number, place);
    }
    let parts = [text, text, number, number, text, number];
    for count in 2..=parts.len() {
        registry.add("regexp_substr", &parts[..count], text, part);
    }
    for count in 2..=4 {
        registry.add("regexp_count", &[text, text, number, text][..count], number, count_all);
    }
    for count in 2..=3 {
        let args = &[text; 3][..count];
        registry.add("regexp_like", args, T::Bool, is_like);
        registry.add("regexp_match", args, T::texts(), first);
        registry.add("regexp_split_to_array", args, T::texts(), split);
        for (name, result, rows) in [
            ("regexp_matches", T::texts(), PatternRows::Matches),
            ("regexp_split_to_table", text, PatternRows::Parts),
        ] {
            let function = registry.add(name, args, result, |values, _| mismatch(values));
            function.rows = Some(SetFunction::Patterns(rows));
        }
    }
    registry.add("regexp_replace", &[text; 3], text, replace);
    registry.add("regexp_replace", &[text; 4], text, replace);
    let replaced = [text, text, text, number, number, text];
    for count in 4..=replaced.len() {
        registry.add("regexp_replace", &replaced[..count], text, replace_from);
    }
    registry.add("substring", &[text; 2], text, substring);
}

/// Options of a function.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Flags {
    options: Options,
    /// `g`: all matches, and not only the first.
    global: bool,
}

impl Flags {
    fn of(value: Option<&Datum>) -> Result<Flags> {
        let mut flags = Flags { options: Options::usual(), global: false };
        let Some(Datum::Text(letters)) = value else { return Ok(flags) };
        for letter in letters.chars() {
            if letter == 'g' {
                flags.global = true;
            } else if !flags.options.take(letter)? {
                let message = format!("invalid regular expression option: \"{letter}\"");
                return Err(SqlError::new(code::INVALID_PARAMETER, message));
            }
        }
        Ok(flags)
    }

    /// For a function that does not say whether it takes all matches.
    fn not_global(value: Option<&Datum>, name: &str) -> Result<Flags> {
        let flags = Flags::of(value)?;
        if flags.global {
            let message = format!("{name}() does not support the \"global\" option");
            return Err(SqlError::new(code::INVALID_PARAMETER, message));
        }
        Ok(flags)
    }
}

/// A text and a pattern, which the first two arguments of every function are.
struct Asked<'a> {
    text: &'a str,
    finder: Arc<Finder>,
    context: &'a Context,
}

impl<'a> Asked<'a> {
    fn of(values: &'a [Datum], options: Options, context: &'a Context) -> Result<Asked<'a>> {
        let [Datum::Text(text), Datum::Text(pattern), ..] = values else {
            return mismatch(values);
        };
        Ok(Asked { text, finder: context.patterns.finder(pattern, options)?, context })
    }

    /// Calls `take` with each match from `from` on, until it has enough.
    fn each(&self, from: usize, take: &mut dyn FnMut(Found) -> Result<Enough>) -> Result<()> {
        let mut next = Some(from);
        while let Some(from) = next
            && let Some(found) = self.finder.find(self.text, from, self.context)?
        {
            let Span { start, end } = found.whole;
            next = match start == end {
                true => self.text[end..].chars().next().map(|c| end + c.len_utf8()),
                false => Some(end),
            };
            if take(found)? == Enough::Yes {
                break;
            }
        }
        Ok(())
    }

    /// The match with this number, from 1.
    fn numbered(&self, from: usize, number: i32) -> Result<Option<Found>> {
        let (mut wanted, mut last) = (number, None);
        self.each(from, &mut |found| {
            wanted -= 1;
            if wanted > 0 {
                return Ok(Enough::No);
            }
            last = Some(found);
            Ok(Enough::Yes)
        })?;
        Ok(last)
    }

    fn datum(&self, span: Option<Span>) -> Datum {
        span.map_or(Datum::Null, |span| Datum::Text(self.text[span.start..span.end].to_owned()))
    }

    /// What the groups hold, or the whole match if there are none.
    fn groups(&self, found: &Found) -> Result<Datum> {
        let values: Vec<Datum> = match found.groups.as_slice() {
            [] => vec![self.datum(Some(found.whole))],
            groups => groups.iter().map(|group| self.datum(*group)).collect(),
        };
        texts(values)
    }

    /// Texts between matches. One that is empty parts nothing at the ends and behind another.
    fn parts(&self) -> Result<Vec<Datum>> {
        let (mut parts, mut from, mut last) = (Vec::new(), 0, 0);
        self.each(0, &mut |found| {
            let Span { start, end } = found.whole;
            if start < self.text.len() && end > last {
                check_fits(parts.len() + 1, self.context)?;
                parts.push(self.datum(Some(Span { start: from, end: start })));
                from = end;
            }
            last = end;
            Ok(Enough::No)
        })?;
        parts.push(self.datum(Some(Span { start: from, end: self.text.len() })));
        Ok(parts)
    }
}

/// Has a function as many matches as it needs?
#[derive(PartialEq)]
enum Enough {
    Yes,
    No,
}

fn texts(values: Vec<Datum>) -> Result<Datum> {
    let texts = ElementType::of(SqlType::Text).expect("texts are elements");
    Ok(Array::of(texts, values)?.into())
}

/// A number that is at least `least`, and what it is if it is not given.
fn number(value: Option<&Datum>, name: &str, least: i32, usual: i32) -> Result<i32> {
    match value {
        Some(Datum::Int4(number)) if *number < least => {
            let message = format!("invalid value for parameter \"{name}\": {number}");
            Err(SqlError::new(code::INVALID_PARAMETER, message))
        }
        Some(Datum::Int4(number)) => Ok(*number),
        _ => Ok(usual),
    }
}

/// The byte at which a character begins; `None` if the text has fewer.
fn byte_of(text: &str, position: i32) -> Option<usize> {
    let at = position as usize - 1;
    text.char_indices().map(|(start, _)| start).chain([text.len()]).nth(at)
}

fn is_like(values: &[Datum], context: &Context) -> Result<Datum> {
    let flags = Flags::not_global(values.get(2), "regexp_like")?;
    let [Datum::Text(text), Datum::Text(pattern), ..] = values else { return mismatch(values) };
    Ok(Datum::Bool(context.patterns.test(pattern, flags.options)?.is_match(text)))
}

fn first(values: &[Datum], context: &Context) -> Result<Datum> {
    let flags = Flags::not_global(values.get(2), "regexp_match")
        .map_err(|error| error.hint("Use the regexp_matches function instead."))?;
    let asked = Asked::of(values, flags.options, context)?;
    let found = asked.finder.find(asked.text, 0, context)?;
    found.map_or(Ok(Datum::Null), |found| asked.groups(&found))
}

fn split(values: &[Datum], context: &Context) -> Result<Datum> {
    let flags = Flags::not_global(values.get(2), "regexp_split_to_array")?;
    texts(Asked::of(values, flags.options, context)?.parts()?)
}

/// Rows of a function that gives some.
pub(crate) fn rows(rows: PatternRows, values: &[Datum], context: &Context) -> Result<Vec<Row>> {
    if values.iter().any(Datum::is_null) {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    match rows {
        PatternRows::Matches => {
            let flags = Flags::of(values.get(2))?;
            let asked = Asked::of(values, flags.options, context)?;
            asked.each(0, &mut |one| {
                check_fits(found.len() + 1, context)?;
                found.push(vec![asked.groups(&one)?]);
                Ok(if flags.global { Enough::No } else { Enough::Yes })
            })?;
        }
        PatternRows::Parts => {
            let flags = Flags::not_global(values.get(2), "regexp_split_to_table")?;
            let asked = Asked::of(values, flags.options, context)?;
            found = asked.parts()?.into_iter().map(|part| vec![part]).collect();
        }
    }
    Ok(found)
}

fn count_all(values: &[Datum], context: &Context) -> Result<Datum> {
    let start = number(values.get(2), "start", 1, 1)?;
    let flags = Flags::not_global(values.get(3), "regexp_count")?;
    let asked = Asked::of(values, flags.options, context)?;
    let mut count = 0;
    if let Some(from) = byte_of(asked.text, start) {
        asked.each(from, &mut |_| {
            count += 1;
            Ok(Enough::No)
        })?;
    }
    Ok(Datum::Int4(count))
}

/// `regexp_instr`
fn place(values: &[Datum], context: &Context) -> Result<Datum> {
    let start = number(values.get(2), "start", 1, 1)?;
    let occurrence = number(values.get(3), "n", 1, 1)?;
    let at_end = number(values.get(4), "endoption", 0, 0)?;
    if at_end > 1 {
        let message = format!("invalid value for parameter \"endoption\": {at_end}");
        return Err(SqlError::new(code::INVALID_PARAMETER, message));
    }
    let flags = Flags::not_global(values.get(5), "regexp_instr")?;
    let group = number(values.get(6), "subexpr", 0, 0)?;
    let asked = Asked::of(values, flags.options, context)?;
    let span = group_of(&asked, start, occurrence, group)?;
    let place = span.map_or(0, |span| {
        let at = if at_end == 1 { span.end } else { span.start };
        asked.text[..at].chars().count() as i32 + 1
    });
    Ok(Datum::Int4(place))
}

/// `regexp_substr`
fn part(values: &[Datum], context: &Context) -> Result<Datum> {
    let start = number(values.get(2), "start", 1, 1)?;
    let occurrence = number(values.get(3), "n", 1, 1)?;
    let flags = Flags::not_global(values.get(4), "regexp_substr")?;
    let group = number(values.get(5), "subexpr", 0, 0)?;
    let asked = Asked::of(values, flags.options, context)?;
    Ok(asked.datum(group_of(&asked, start, occurrence, group)?))
}

/// What a group of a match holds, or all of it for group 0; so does group 1 if there are none.
fn group_of(asked: &Asked<'_>, start: i32, occurrence: i32, group: i32) -> Result<Option<Span>> {
    let group = group as usize;
    if group > asked.finder.groups().max(1) {
        return Ok(None);
    }
    let Some(from) = byte_of(asked.text, start) else { return Ok(None) };
    let Some(found) = asked.numbered(from, occurrence)? else { return Ok(None) };
    Ok(match group {
        0 => Some(found.whole),
        group => found.groups.get(group - 1).copied().unwrap_or(Some(found.whole)),
    })
}

fn replace(values: &[Datum], context: &Context) -> Result<Datum> {
    if let Some(Datum::Text(letters)) = values.get(3)
        && letters.starts_with(|c: char| c.is_ascii_digit())
    {
        let message = format!("invalid regular expression option: \"{}\"", &letters[..1]);
        return Err(SqlError::new(code::INVALID_PARAMETER, message).hint(
            "If you meant to use regexp_replace() with a start parameter, cast the fourth \
             argument to integer explicitly.",
        ));
    }
    let flags = Flags::of(values.get(3))?;
    let asked = Asked::of(values, flags.options, context)?;
    replaced(&asked, &values[2], 0, if flags.global { 0 } else { 1 })
}

fn replace_from(values: &[Datum], context: &Context) -> Result<Datum> {
    let start = number(values.get(3), "start", 1, 1)?;
    let mut flags = Flags::of(values.get(5))?;
    let occurrence = number(values.get(4), "n", 0, if flags.global { 0 } else { 1 })?;
    // The number says which: g says nothing beside it.
    flags.global = false;
    let asked = Asked::of(values, flags.options, context)?;
    match byte_of(asked.text, start) {
        Some(from) => replaced(&asked, &values[2], from, occurrence),
        None => Ok(values[0].clone()),
    }
}

/// The text with this match replaced, or all of them for 0.
fn replaced(asked: &Asked<'_>, by: &Datum, from: usize, occurrence: i32) -> Result<Datum> {
    let Datum::Text(by) = by else { return mismatch(std::slice::from_ref(by)) };
    let (mut out, mut done, mut count) = (String::new(), 0, 0);
    asked.each(from, &mut |found| {
        count += 1;
        if occurrence > 0 && count != occurrence {
            return Ok(Enough::No);
        }
        out.push_str(&asked.text[done..found.whole.start]);
        put(&mut out, by, asked.text, &found);
        check_length(out.len())?;
        done = found.whole.end;
        Ok(if occurrence > 0 { Enough::Yes } else { Enough::No })
    })?;
    out.push_str(&asked.text[done..]);
    check_length(out.len())?;
    Ok(Datum::Text(out))
}

/// Appends what stands for a match: `\1` is what a group holds, `\&` all of the match.
fn put(out: &mut String, by: &str, text: &str, found: &Found) {
    let mut chars = by.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let span = match chars.next() {
            Some('&') => Some(found.whole),
            Some(digit @ '1'..='9') => {
                found.groups.get(digit as usize - '1' as usize).copied().flatten()
            }
            Some('\\') | None => {
                out.push('\\');
                continue;
            }
            Some(other) => {
                out.extend(['\\', other]);
                continue;
            }
        };
        if let Some(span) = span {
            out.push_str(&text[span.start..span.end]);
        }
    }
}

/// `substring(text from pattern)`: what the first group holds, or the match if there is none.
pub(super) fn substring(values: &[Datum], context: &Context) -> Result<Datum> {
    let asked = Asked::of(values, Options::usual(), context)?;
    let Some(found) = asked.finder.find(asked.text, 0, context)? else { return Ok(Datum::Null) };
    Ok(asked.datum(found.groups.first().copied().unwrap_or(Some(found.whole))))
}
