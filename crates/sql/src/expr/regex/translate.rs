//! PostgreSQL's regular expressions, as the crate `regex` writes them.
//!
//! What the two spell differently is written anew: classes in brackets, `\m`, `\M`, `\y`, `\Y`,
//! `\Z`, options in front, comments, braces that count nothing. A dot matches a line feed unless
//! options say otherwise, and `^` and `$` stand for the ends of the text.
//!
//! Invariants: groups have the same numbers in both. Does not do: matching.

use std::iter::Peekable;
use std::str::Chars;

use crate::error::{Result, SqlError};
use crate::types::json::path::Flags;

use super::{Options, invalid};

/// Most repetitions that a pattern may count.
const MOST_COUNTED: u32 = 255;

/// A pattern as the crate writes it, and how it is read.
pub(super) struct Source {
    pub(super) text: String,
    pub(super) flags: Flags,
}

/// A pattern on its way.
struct Translation<'p> {
    chars: Peekable<Chars<'p>>,
    options: Options,
    out: String,
    /// Marks of repetition that stand in front: a second one can be a `?` alone.
    repeats: usize,
}

impl Source {
    /// The pattern as the crate spells it.
    pub(super) fn of(pattern: &str, mut options: Options) -> Result<Source> {
        let mut pattern = pattern;
        if let Some(rest) = pattern.strip_prefix("***=").filter(|_| !options.flags.literal) {
            options.flags.literal = true;
            pattern = rest;
        }
        if options.flags.literal {
            return Ok(Source { text: regex::escape(pattern), flags: options.flags });
        }
        pattern = pattern.strip_prefix("***:").unwrap_or(pattern);
        if let Some((letters, rest)) = options_in_front(pattern) {
            for letter in letters.chars() {
                if !options.take(letter)? {
                    return Err(invalid("invalid embedded option"));
                }
            }
            if options.flags.literal {
                return Ok(Source { text: regex::escape(rest), flags: options.flags });
            }
            pattern = rest;
        }
        let out = String::with_capacity(pattern.len() + 8);
        let mut translation =
            Translation { chars: pattern.chars().peekable(), options, out, repeats: 0 };
        translation.run()?;
        Ok(Source { text: translation.out, flags: options.flags })
    }
}

/// Letters of `(?letters)` in front of a pattern, and the pattern behind them.
fn options_in_front(pattern: &str) -> Option<(&str, &str)> {
    let (letters, rest) = pattern.strip_prefix("(?")?.split_once(')')?;
    let is_letters = !letters.is_empty() && letters.chars().all(|c| c.is_ascii_alphabetic());
    is_letters.then_some((letters, rest))
}

impl Options {
    /// How patterns are read where nothing is said.
    pub(super) fn usual() -> Options {
        let flags = Flags { dot_all: true, ..Flags::default() };
        Options { flags, expanded: false }
    }

    /// Takes an option; false if there is none of that letter.
    pub(super) fn take(&mut self, letter: char) -> Result<bool> {
        let flags = &mut self.flags;
        match letter {
            'b' | 'e' => {
                let message = "basic and extended regular expressions (options b and e)";
                return Err(SqlError::unsupported(message));
            }
            'c' => flags.ignore_case = false,
            'i' => flags.ignore_case = true,
            'm' | 'n' => (flags.dot_all, flags.lines) = (false, true),
            'p' => (flags.dot_all, flags.lines) = (false, false),
            'q' => flags.literal = true,
            's' => (flags.dot_all, flags.lines) = (true, false),
            't' => self.expanded = false,
            'w' => (flags.dot_all, flags.lines) = (true, true),
            'x' => self.expanded = true,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl Translation<'_> {
    fn run(&mut self) -> Result<()> {
        while let Some(c) = self.chars.next() {
            if self.options.expanded && self.is_blank(c) {
                continue;
            }
            let before = std::mem::take(&mut self.repeats);
            match c {
                '*' | '+' | '?' => self.repeat(c, before)?,
                '{' if self.chars.peek().is_some_and(char::is_ascii_digit) => {
                    self.repeat(c, before)?;
                    self.count()?;
                }
                '{' => self.out.push_str(r"\{"),
                '\\' => {
                    let escaped = self.chars.next();
                    self.escape(escaped)?;
                }
                '[' => self.bracket()?,
                '(' if self.chars.peek() == Some(&'?') => {
                    self.chars.next();
                    self.behind_question_mark(before)?;
                }
                c => self.out.push(c),
            }
        }
        Ok(())
    }

    /// Is it a blank or the beginning of a comment, which end here?
    fn is_blank(&mut self, c: char) -> bool {
        if c == '#' {
            self.chars.by_ref().find(|c| *c == '\n');
        }
        c == '#' || c.is_whitespace()
    }

    /// A mark of repetition, behind so many others.
    fn repeat(&mut self, mark: char, before: usize) -> Result<()> {
        self.repeats = match (mark, before) {
            (_, 0) => 1,
            ('?', 1) => 2,
            _ => return Err(invalid("quantifier operand invalid")),
        };
        self.out.push(mark);
        Ok(())
    }

    /// What follows the opening brace of a repetition, up to the closing one.
    fn count(&mut self) -> Result<()> {
        let mut counted = String::new();
        loop {
            match self.chars.next() {
                Some('}') => break,
                Some(c) if c.is_ascii_digit() || c == ',' => counted.push(c),
                Some(_) => return Err(invalid("invalid repetition count(s)")),
                None => return Err(invalid("braces {} not balanced")),
            }
        }
        let (least, most) = counted.split_once(',').unwrap_or((&counted, ""));
        let number = |digits: &str| digits.parse().ok().filter(|n: &u32| *n <= MOST_COUNTED);
        let is_sound = match (number(least), most.is_empty()) {
            (Some(_), true) => true,
            (Some(least), false) => number(most).is_some_and(|most| least <= most),
            (None, _) => false,
        };
        if !is_sound {
            return Err(invalid("invalid repetition count(s)"));
        }
        self.out.push_str(&counted);
        self.out.push('}');
        Ok(())
    }

    /// What follows `(?`.
    fn behind_question_mark(&mut self, repeats: usize) -> Result<()> {
        match self.chars.peek() {
            Some(':') => self.out.push_str("(?"),
            Some('=' | '!' | '<') => {
                let message = "a constraint that looks ahead or behind in a regular expression";
                return Err(SqlError::unsupported(message));
            }
            Some('#') => {
                self.chars.by_ref().find(|c| *c == ')');
                self.repeats = repeats;
            }
            _ => return Err(invalid("quantifier operand invalid")),
        }
        Ok(())
    }

    /// What a backslash and a character mean.
    fn escape(&mut self, c: Option<char>) -> Result<()> {
        let Some(c) = c else { return Err(invalid("invalid escape \\ sequence")) };
        let meant = match c {
            'm' => r"\b{start}",
            'M' => r"\b{end}",
            'y' => r"\b",
            'Y' => r"\B",
            'Z' => r"\z",
            '1'..='9' => {
                return Err(SqlError::unsupported("a back-reference in a regular expression"));
            }
            'b' => r"\x08",
            'B' => r"\\",
            'e' => r"\x1b",
            '0' => r"\x00",
            c => {
                // Marks that need no backslash may have one.
                if c.is_ascii_alphanumeric() || c.is_ascii_punctuation() {
                    self.out.push('\\');
                }
                self.out.push(c);
                return Ok(());
            }
        };
        self.out.push_str(meant);
        Ok(())
    }

    /// A class of characters in brackets.
    fn bracket(&mut self) -> Result<()> {
        let unbalanced = || invalid("brackets [] not balanced");
        self.out.push('[');
        if self.chars.next_if_eq(&'^').is_some() {
            self.out.push('^');
            if !self.options.flags.dot_all {
                self.out.push_str(r"\n");
            }
        }
        let mut is_first = true;
        loop {
            match self.chars.next().ok_or_else(unbalanced)? {
                ']' if !is_first => break,
                ']' => self.out.push_str(r"\]"),
                '[' if self.chars.peek() == Some(&':') => {
                    self.chars.next();
                    let mut name = String::new();
                    loop {
                        match self.chars.next().ok_or_else(unbalanced)? {
                            ':' if self.chars.next_if_eq(&']').is_some() => break,
                            c => name.push(c),
                        }
                    }
                    self.out.push_str(class(&name)?);
                }
                '[' if matches!(self.chars.peek(), Some('.' | '=')) => {
                    let message = "a collating element in a regular expression";
                    return Err(SqlError::unsupported(message));
                }
                '\\' => {
                    let escaped = self.chars.next();
                    self.escape(escaped)?;
                }
                c @ ('[' | '&' | '~') => {
                    self.out.push('\\');
                    self.out.push(c);
                }
                c => self.out.push(c),
            }
            is_first = false;
        }
        self.out.push(']');
        Ok(())
    }
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
