//! RAISE: messages and errors that a block tells.
//!
//! Does not do: the names of objects that an error is about (USING COLUMN and its kind).

use std::sync::Arc;

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::{conditions, query};
use crate::error::{Result, SqlError, code};
use crate::parse::Parsed;
use crate::parse::cursor::Cursor;

/// RAISE_EXCEPTION of PostgreSQL.
const RAISED: &str = "P0001";

/// How grave it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Debug,
    Log,
    Info,
    Notice,
    Warning,
    Exception,
}

/// A message with its level.
#[derive(Clone, Debug)]
pub(crate) struct Raise {
    pub(crate) level: Level,
    /// `None`: the error that the handler is for.
    pub(crate) raised: Option<Raised>,
}

/// A new message.
#[derive(Clone, Debug)]
pub(crate) struct Raised {
    pub(crate) sqlstate: &'static str,
    /// The parts of the message between which the arguments stand.
    pub(crate) parts: Vec<String>,
    pub(crate) arguments: Option<Arc<Parsed>>,
    pub(crate) options: Vec<RaiseOption>,
}

/// USING word = expression.
#[derive(Clone, Debug)]
pub(crate) struct RaiseOption {
    pub(crate) word: &'static str,
    pub(crate) value: Arc<Parsed>,
}

const OPTIONS: [&str; 4] = ["message", "detail", "hint", "errcode"];

impl Raise {
    /// Reads the statement behind its first word.
    pub(super) fn read(tokens: Vec<TokenWithSpan>, at: &Cursor) -> Result<Raise> {
        if tokens.is_empty() {
            return Ok(Raise { level: Level::Exception, raised: None });
        }
        let mut cursor = at.over(tokens);
        let level = level(&mut cursor);
        let mut raised =
            Raised { sqlstate: RAISED, parts: Vec::new(), arguments: None, options: Vec::new() };
        if let Some(format) = cursor.string() {
            raised.parts = parts(&format);
            raised.arguments = arguments(&mut cursor, raised.parts.len() - 1)?;
        } else if cursor.take("sqlstate") {
            let text = cursor.string().ok_or_else(|| cursor.unexpected())?;
            raised.sqlstate = conditions::code_of(&text)?;
            raised.parts = vec![text];
        } else if !cursor.is("using") {
            let name = cursor.name()?;
            raised.sqlstate = conditions::codes_of(&name)?[0];
            raised.parts = vec![name];
        }
        if cursor.take("using") {
            raised.options = options(&mut cursor)?;
        }
        cursor.end()?;
        if level != Level::Exception && !raised.options.is_empty() {
            return Err(SqlError::unsupported("RAISE USING of a message that is no error"));
        }
        Ok(Raise { level, raised: Some(raised) })
    }
}

fn level(cursor: &mut Cursor) -> Level {
    let levels = [
        ("debug", Level::Debug),
        ("log", Level::Log),
        ("info", Level::Info),
        ("notice", Level::Notice),
        ("warning", Level::Warning),
        ("exception", Level::Exception),
    ];
    let found = levels.into_iter().find(|(word, _)| cursor.take(word));
    found.map_or(Level::Exception, |(_, level)| level)
}

/// A format is cut at each `%`; two of them are one that stays.
fn parts(format: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut rest = format.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '%' if rest.next_if_eq(&'%').is_none() => parts.push(String::new()),
            c => parts.last_mut().expect("there is one").push(c),
        }
    }
    parts
}

/// Reads as many arguments as the format has places for.
fn arguments(cursor: &mut Cursor, places: usize) -> Result<Option<Arc<Parsed>>> {
    let wrong = |few: &str| {
        let message = format!("too {few} parameters specified for RAISE");
        Err(SqlError::syntax(message))
    };
    if !cursor.take_token(&Token::Comma) {
        return if places == 0 { Ok(None) } else { wrong("few") };
    }
    let count = cursor.distance_to("using").unwrap_or_else(|| cursor.left());
    let tokens = cursor.take_tokens(count);
    let given = 1 + separators(&tokens);
    match given.cmp(&places) {
        std::cmp::Ordering::Less => wrong("few"),
        std::cmp::Ordering::Greater => wrong("many"),
        std::cmp::Ordering::Equal => query(tokens, cursor).map(Some),
    }
}

/// The commas outside of parentheses and brackets.
fn separators(tokens: &[TokenWithSpan]) -> usize {
    let (mut depth, mut count) = (0i32, 0);
    for token in tokens {
        match token.token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => depth -= 1,
            Token::Comma if depth == 0 => count += 1,
            _ => {}
        }
    }
    count
}

/// The options behind USING.
fn options(cursor: &mut Cursor) -> Result<Vec<RaiseOption>> {
    let mut options: Vec<RaiseOption> = Vec::new();
    loop {
        let Some(word) = cursor.take_any(&OPTIONS) else {
            let what = format!("RAISE USING {}", cursor.name()?.to_uppercase());
            return Err(SqlError::unsupported(what));
        };
        if options.iter().any(|known| known.word == word) {
            let message = format!("RAISE option already specified: {}", word.to_uppercase());
            return Err(SqlError::new(code::SYNTAX_ERROR, message));
        }
        if !cursor.take_token(&Token::Eq) {
            cursor.expect_token(&Token::Assignment)?;
        }
        let count = cursor.distance_to_token(&Token::Comma).unwrap_or_else(|| cursor.left());
        let value = query(cursor.take_tokens(count), cursor)?;
        options.push(RaiseOption { word, value });
        if !cursor.take_token(&Token::Comma) {
            return Ok(options);
        }
    }
}
