//! Matching by regular expressions: `~`, `~*` and their negations.
//!
//! PostgreSQL's patterns are written as those of the crate `regex`, whose matching takes time
//! linear in text and pattern. What the two spell differently is rewritten: classes in brackets,
//! `\m`, `\M`, `\y`, `\Y`, `\Z`. A dot matches a line feed, and `^` and `$` stand for the ends of
//! the text, as in PostgreSQL.
//!
//! Invariants: a pattern that is kept has been compiled once in its statement.
//! Does not do: back-references and constraints that look ahead or behind, which no matching in
//! linear time has: they are refused by name.

use std::cell::RefCell;
use std::collections::HashMap;

use regex::{Regex, RegexBuilder};

use crate::error::{Result, SqlError};
use crate::expr::Context;
use crate::expr::function::Registry;
use crate::expr::operators::mismatch;
use crate::types::json::path::Flags;
use crate::types::{Datum, SqlType};

/// Most bytes that a compiled pattern takes.
const MAX_COMPILED: usize = 1 << 20;
/// Most patterns that are kept.
const MAX_KEPT: usize = 16;

/// Patterns that a statement has compiled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patterns(RefCell<HashMap<(String, Flags), Regex>>);

/// Adds the operators.
pub(super) fn register(registry: &mut Registry) {
    const PAIR: [SqlType; 2] = [SqlType::Text; 2];
    registry.add("~", &PAIR, SqlType::Bool, |v, context| matches(v, context, false, false));
    registry.add("!~", &PAIR, SqlType::Bool, |v, context| matches(v, context, false, true));
    registry.add("~*", &PAIR, SqlType::Bool, |v, context| matches(v, context, true, false));
    registry.add("!~*", &PAIR, SqlType::Bool, |v, context| matches(v, context, true, true));
}

fn matches(values: &[Datum], context: &Context, folds_case: bool, negated: bool) -> Result<Datum> {
    let [Datum::Text(text), Datum::Text(pattern)] = values else { return mismatch(values) };
    Ok(Datum::Bool(context.patterns.is_match(text, pattern, folds_case)? != negated))
}

impl Patterns {
    /// A pattern under these flags, compiled once in a statement.
    pub(crate) fn compiled(&self, pattern: &str, flags: Flags) -> Result<Regex> {
        let mut kept = self.0.borrow_mut();
        let key = (pattern.to_owned(), flags);
        if let Some(regex) = kept.get(&key) {
            return Ok(regex.clone());
        }
        let regex = compile(pattern, flags)?;
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        kept.insert(key, regex.clone());
        Ok(regex)
    }

    fn is_match(&self, text: &str, pattern: &str, folds_case: bool) -> Result<bool> {
        let flags = Flags { ignore_case: folds_case, dot_all: true, ..Flags::default() };
        Ok(self.compiled(pattern, flags)?.is_match(text))
    }
}

fn invalid(why: &str) -> SqlError {
    SqlError::new("2201B", format!("invalid regular expression: {why}"))
}

fn compile(pattern: &str, flags: Flags) -> Result<Regex> {
    let Flags { ignore_case, dot_all, lines, literal } = flags;
    let translated = if literal { regex::escape(pattern) } else { translated(pattern)? };
    let mut builder = RegexBuilder::new(&translated);
    builder.case_insensitive(ignore_case).dot_matches_new_line(dot_all).multi_line(lines);
    builder.size_limit(MAX_COMPILED);
    builder.build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => invalid("regular expression is too complex"),
        _ => invalid(&reason(pattern)),
    })
}

/// PostgreSQL's words for what is wrong with a pattern, as far as that can be told.
fn reason(pattern: &str) -> String {
    let count = |wanted: char| pattern.chars().filter(|c| *c == wanted).count();
    let words = if count('[') > count(']') {
        "brackets [] not balanced"
    } else if count('(') != count(')') {
        "parentheses () not balanced"
    } else if count('{') != count('}') {
        "braces {} not balanced"
    } else {
        "quantifier operand invalid"
    };
    words.to_owned()
}

/// The pattern as the crate spells it.
fn translated(pattern: &str) -> Result<String> {
    let pattern = match pattern.strip_prefix("***=") {
        Some(literal) => return Ok(regex::escape(literal)),
        None => pattern.strip_prefix("***:").unwrap_or(pattern),
    };
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut chars = pattern.chars().peekable();
    // How many marks of repetition stand in front: a second one can be a `?` alone.
    let mut repeats = 0;
    while let Some(c) = chars.next() {
        repeats = match (c, repeats) {
            ('*' | '+' | '?', 0) => 1,
            ('?', 1) => 2,
            ('*' | '+' | '?', _) => return Err(invalid("quantifier operand invalid")),
            _ => 0,
        };
        match c {
            '\\' => escape(chars.next(), &mut out)?,
            '[' => bracket(&mut chars, &mut out)?,
            '(' if chars.peek() == Some(&'?') => {
                chars.next();
                match chars.peek() {
                    Some(':') => out.push_str("(?"),
                    Some('=' | '!' | '<') => {
                        return Err(SqlError::unsupported(
                            "a constraint that looks ahead or behind in a regular expression",
                        ));
                    }
                    _ => return Err(invalid("quantifier operand invalid")),
                }
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

/// What a backslash and a character mean outside of brackets.
fn escape(c: Option<char>, out: &mut String) -> Result<()> {
    let Some(c) = c else { return Err(invalid("invalid escape \\ sequence")) };
    match c {
        'm' => out.push_str(r"\b{start}"),
        'M' => out.push_str(r"\b{end}"),
        'y' => out.push_str(r"\b"),
        'Y' => out.push_str(r"\B"),
        'Z' => out.push_str(r"\z"),
        '1'..='9' => {
            return Err(SqlError::unsupported("a back-reference in a regular expression"));
        }
        'b' => out.push_str(r"\x08"),
        'B' => out.push_str(r"\\"),
        'e' => out.push_str(r"\x1b"),
        '0' => out.push_str(r"\x00"),
        c => {
            out.push('\\');
            // Marks that need no backslash may have one.
            match c.is_ascii_alphanumeric() || c.is_ascii_punctuation() {
                true => out.push(c),
                false => {
                    out.pop();
                    out.push(c);
                }
            }
        }
    }
    Ok(())
}

/// A class of characters in brackets.
fn bracket(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) -> Result<()> {
    let unbalanced = || invalid("brackets [] not balanced");
    out.push('[');
    if chars.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    let mut is_first = true;
    loop {
        match chars.next().ok_or_else(unbalanced)? {
            ']' if !is_first => break,
            ']' => out.push_str(r"\]"),
            '[' if chars.peek() == Some(&':') => {
                chars.next();
                let mut name = String::new();
                loop {
                    match chars.next().ok_or_else(unbalanced)? {
                        ':' if chars.next_if_eq(&']').is_some() => break,
                        c => name.push(c),
                    }
                }
                out.push_str(class(&name)?);
            }
            '[' if matches!(chars.peek(), Some('.' | '=')) => {
                return Err(SqlError::unsupported("a collating element in a regular expression"));
            }
            '\\' => escape(chars.next(), out)?,
            c @ ('[' | '&' | '~') => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
        is_first = false;
    }
    out.push(']');
    Ok(())
}

/// A class that has a name, as a part of one in brackets.
fn class(name: &str) -> Result<&'static str> {
    Ok(match name {
        "alpha" => r"\p{Alphabetic}",
        "digit" => "0-9",
        "alnum" => r"\p{Alphabetic}0-9",
        "upper" => r"\p{Uppercase}",
        "lower" => r"\p{Lowercase}",
        "space" => r"\s",
        "word" => r"\w",
        "blank" => r" \t",
        "cntrl" => "[[:cntrl:]]",
        "graph" => "[[:graph:]]",
        "print" => "[[:print:]]",
        "punct" => "[[:punct:]]",
        "xdigit" => "[[:xdigit:]]",
        "ascii" => "[[:ascii:]]",
        _ => return Err(invalid("invalid character class")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_postgresql() {
        for (text, pattern, wanted) in [
            ("flight", "^(fl.*t)$", true),
            ("a\nb", "a.b", true),
            ("a\nb", "^b", false),
            ("one two", r"\mtwo\M", true),
            ("onetwo", r"\mtwo", false),
            ("a]b", "[]]", true),
            ("a[b", "[[]", true),
            ("a&&b", "^[a&b]+$", true),
            ("é1", "^[[:alpha:]][[:digit:]]$", true),
            ("a.b", "***=a.b", true),
            ("axb", "***=a.b", false),
            ("pg_x", "^pg_", true),
            ("aab", "^a{2}b$", true),
            ("x", "", true),
        ] {
            let found = Patterns::default().is_match(text, pattern, false).unwrap();
            assert_eq!(found, wanted, "{text} ~ {pattern}");
        }
        assert!(Patterns::default().is_match("ABC", "^abc$", true).unwrap());
    }

    #[test]
    fn a_pattern_is_kept_for_its_flags() {
        let patterns = Patterns::default();
        assert!(patterns.is_match("a\nb", "a.b", false).unwrap());
        assert!(!patterns.compiled("a.b", Flags::default()).unwrap().is_match("a\nb"));
        assert!(patterns.is_match("a\nb", "a.b", false).unwrap());
    }

    #[test]
    fn what_cannot_be_matched_in_linear_time_is_refused() {
        for (pattern, sqlstate) in [
            (r"(a)\1", "0A000"),
            ("a(?=b)", "0A000"),
            ("a(?!b)", "0A000"),
            ("(", "2201B"),
            ("[a", "2201B"),
            ("a**", "2201B"),
            ("*", "2201B"),
            ("((a{100}){100}){100}", "2201B"),
        ] {
            let error = compile(pattern, Flags::default()).map(|_| ()).unwrap_err();
            assert_eq!(error.sqlstate, sqlstate, "{pattern}");
        }
    }
}
