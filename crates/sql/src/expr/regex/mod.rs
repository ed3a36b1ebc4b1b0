//! Regular expressions: `~` and its kin, and functions over patterns.
//!
//! | file | content |
//! |---|---|
//! | `translate` | PostgreSQL's patterns as the crate `regex` writes them |
//! | `find` | where a pattern matches, and what its groups hold |
//! | `functions` | `regexp_replace` and its kin |
//! | `similar` | SIMILAR TO |
//!
//! Whether a text matches is asked of the crate `regex`, in time linear in text and pattern. Where
//! a match ends is another matter: the crate prefers as Perl does, PostgreSQL the longest match
//! (`find`).
//!
//! Invariants: a pattern that is kept has been compiled once in its statement.
//! Does not do: back-references and constraints that look ahead or behind, which no matching in
//! linear time has: they are refused by name.

mod find;
mod functions;
mod similar;
mod translate;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};

use crate::error::{Result, SqlError};
use crate::expr::Context;
use crate::expr::function::Registry;
use crate::expr::operators::mismatch;
use crate::types::json::path::Flags;
use crate::types::{Datum, SqlType};
use find::Finder;
use translate::Source;

pub(crate) use functions::rows;

/// Most bytes that a compiled pattern takes.
const MAX_COMPILED: usize = 1 << 20;
/// Most patterns that are kept, and most bytes that their parts take.
const MAX_KEPT: usize = 16;
const MAX_KEPT_BYTES: usize = 16 << 20;

/// How a pattern is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Options {
    flags: Flags,
    /// `x`: blanks and comments do not count.
    expanded: bool,
}

/// Patterns that a statement has compiled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patterns {
    /// The one that was asked last: a scan asks the same for each row.
    last: RefCell<Option<(String, Options, Arc<Test>)>>,
    tests: Kept<Regex>,
    finders: Kept<Arc<Finder>>,
}

/// A pattern of which it is asked whether texts match it.
#[derive(Debug)]
struct Test {
    regex: Regex,
    /// A text that does not begin so cannot match.
    prefix: String,
}

/// Patterns by their text and the way they are read.
#[derive(Clone, Debug)]
struct Kept<T>(RefCell<HashMap<(String, Options), T>>);

impl<T> Default for Kept<T> {
    fn default() -> Kept<T> {
        Kept(RefCell::default())
    }
}

impl<T: Clone> Kept<T> {
    /// The one for this pattern; `bytes` says what one takes beyond what all may.
    fn get(
        &self,
        pattern: &str,
        options: Options,
        bytes: fn(&T) -> usize,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let mut kept = self.0.borrow_mut();
        let key = (pattern.to_owned(), options);
        if let Some(known) = kept.get(&key) {
            return Ok(known.clone());
        }
        let made = make()?;
        let all = kept.values().map(bytes).sum::<usize>() + bytes(&made);
        if kept.len() >= MAX_KEPT || all > MAX_KEPT_BYTES {
            kept.clear();
        }
        kept.insert(key, made.clone());
        Ok(made)
    }
}

impl Patterns {
    /// A pattern under these flags, to ask whether texts match it.
    pub(crate) fn compiled(&self, pattern: &str, flags: Flags) -> Result<Regex> {
        self.test(pattern, Options { flags, expanded: false })
    }

    fn test(&self, pattern: &str, options: Options) -> Result<Regex> {
        self.tests.get(pattern, options, |_| 0, || compile(pattern, &Source::of(pattern, options)?))
    }

    /// A pattern that says where texts match it.
    fn finder(&self, pattern: &str, options: Options) -> Result<Arc<Finder>> {
        self.finders.get(
            pattern,
            options,
            |finder| finder.bytes(),
            || {
                let source = Source::of(pattern, options)?;
                Ok(Arc::new(Finder::new(compile(pattern, &source)?, &source)?))
            },
        )
    }

    fn is_match(&self, text: &str, pattern: &str, ignore_case: bool) -> Result<bool> {
        let flags = Flags { ignore_case, dot_all: true, ..Flags::default() };
        let options = Options { flags, expanded: false };
        let mut last = self.last.borrow_mut();
        let known = last.as_ref().filter(|(of, how, _)| of == pattern && *how == options);
        let test = match known {
            Some((_, _, test)) => test,
            None => {
                let regex = self.test(pattern, options)?;
                let test = Arc::new(Test { regex, prefix: prefix(pattern, options) });
                &last.insert((pattern.to_owned(), options, test)).2
            }
        };
        Ok(text.starts_with(&test.prefix) && test.regex.is_match(text))
    }
}

/// What each text begins with that matches a pattern: the letters and digits behind `^` or `^(`, as
/// `psql` sends it. Empty if that is not plain.
fn prefix(pattern: &str, options: Options) -> String {
    let Flags { ignore_case, lines, .. } = options.flags;
    let Some(rest) = pattern.strip_prefix('^') else { return String::new() };
    if ignore_case || lines || options.expanded || pattern.contains('|') {
        return String::new();
    }
    let inner = rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(")$"));
    let inner = match inner {
        Some(inner) if !inner.contains(['(', ')']) => inner,
        _ => rest,
    };
    let end = inner.find(|c| !is_plain(c)).unwrap_or(inner.len());
    let (plain, behind) = inner.split_at(end);
    let mut plain = plain.to_owned();
    // A quantifier says how often the last one stands there, which may be never.
    if behind.starts_with(['*', '?', '+', '{']) {
        plain.pop();
    }
    plain
}

/// The text that alone matches a pattern: letters and digits within `^(..)$`, as `psql` sends it,
/// or within `^..$`.
pub(crate) fn only_match(pattern: &str) -> Option<&str> {
    let inner = pattern.strip_prefix('^')?.strip_suffix('$')?;
    let inner = inner.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')).unwrap_or(inner);
    inner.chars().all(is_plain).then_some(inner)
}

/// Does a character of a pattern stand for itself, whatever else there is?
fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Adds operators and functions.
pub(super) fn register(registry: &mut Registry) {
    const PAIR: [SqlType; 2] = [SqlType::Text; 2];
    registry.add("~", &PAIR, SqlType::Bool, |v, context| matches(v, context, false, false));
    registry.add("!~", &PAIR, SqlType::Bool, |v, context| matches(v, context, false, true));
    registry.add("~*", &PAIR, SqlType::Bool, |v, context| matches(v, context, true, false));
    registry.add("!~*", &PAIR, SqlType::Bool, |v, context| matches(v, context, true, true));
    functions::register(registry);
    similar::register(registry);
}

fn matches(values: &[Datum], context: &Context, folds_case: bool, negated: bool) -> Result<Datum> {
    let [Datum::Text(text), Datum::Text(pattern)] = values else { return mismatch(values) };
    Ok(Datum::Bool(context.patterns.is_match(text, pattern, folds_case)? != negated))
}

fn invalid(why: &str) -> SqlError {
    SqlError::new("2201B", format!("invalid regular expression: {why}"))
}

fn too_complex() -> SqlError {
    invalid("regular expression is too complex")
}

fn compile(pattern: &str, source: &Source) -> Result<Regex> {
    let Flags { ignore_case, dot_all, lines, .. } = source.flags;
    let mut builder = RegexBuilder::new(&source.text);
    builder.case_insensitive(ignore_case).dot_matches_new_line(dot_all).multi_line(lines);
    builder.size_limit(MAX_COMPILED).nest_limit(find::MAX_DEPTH);
    builder.build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => too_complex(),
        _ => invalid(reason(pattern)),
    })
}

/// PostgreSQL's words for what is wrong with a pattern, as far as that can be told.
fn reason(pattern: &str) -> &'static str {
    let count = |wanted: char| pattern.chars().filter(|c| *c == wanted).count();
    if count('[') > count(']') {
        "brackets [] not balanced"
    } else if count('(') != count(')') {
        "parentheses () not balanced"
    } else if count('{') != count('}') {
        "braces {} not balanced"
    } else {
        "quantifier operand invalid"
    }
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
    fn a_text_that_does_not_begin_as_the_pattern_says_is_no_match() {
        for (pattern, wanted) in [
            ("^(t001.*)$", "t001"),
            ("^(t001)$", "t001"),
            ("^pg_", "pg_"),
            ("^ab*c", "a"),
            ("^ab{0,2}", "a"),
            ("^(ab)?c", ""),
            ("^(ab)*$", ""),
            ("^(a|b)$", ""),
            ("^a|b", ""),
            ("^(?i)ab", ""),
            (r"^\dab", ""),
            ("ab", ""),
            ("***=ab", ""),
            ("^.ab", ""),
        ] {
            assert_eq!(prefix(pattern, Options::default()), wanted, "{pattern}");
        }
        let folded = Flags { ignore_case: true, ..Flags::default() };
        assert_eq!(prefix("^ab", Options { flags: folded, expanded: false }), "");
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
            let error = Patterns::default().is_match("", pattern, false).unwrap_err();
            assert_eq!(error.sqlstate, sqlstate, "{pattern}");
        }
    }
}
