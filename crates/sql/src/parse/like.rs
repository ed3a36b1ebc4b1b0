//! CREATE TABLE with LIKE among its columns, which sqlparser does not read as PostgreSQL has it.
//!
//! Does not do: what LIKE stands for (`session::like`).

use sqlparser::ast;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::cursor::Cursor;
use super::{Lines, run};
use crate::error::Result;

/// A table to make of columns and of what other tables have.
#[derive(Clone, Debug)]
pub(crate) struct CreateLike {
    /// The statement without LIKE.
    pub(crate) table: Box<ast::CreateTable>,
    pub(crate) likes: Vec<Like>,
    pub(crate) lines: Lines,
}

/// LIKE a table.
#[derive(Clone, Debug)]
pub(crate) struct Like {
    pub(crate) source: Vec<String>,
    /// How many columns stand in front of it.
    pub(crate) at: usize,
    pub(crate) including: Including,
}

/// What is copied beside columns, their types, collations and NOT NULL.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Including {
    pub(crate) comments: bool,
    pub(crate) constraints: bool,
    pub(crate) defaults: bool,
    pub(crate) generated: bool,
    pub(crate) identity: bool,
    pub(crate) indexes: bool,
}

/// Words that a constraint of a table begins with.
const CONSTRAINTS: [&str; 6] = ["constraint", "primary", "unique", "foreign", "check", "exclude"];

/// Reads such a statement; `None` for anything else.
pub(super) fn create_like(cursor: &mut Cursor) -> Result<Option<CreateLike>> {
    let kinds = ["global", "local", "temp", "temporary", "unlogged"];
    let mut ahead = 1;
    while cursor.is("create") && kinds.iter().any(|word| cursor.is_at(ahead, word)) {
        ahead += 1;
    }
    if !cursor.is("create") || !cursor.is_at(ahead, "table") {
        return Ok(None);
    }
    let place = cursor.place();
    let lines = cursor.lines.clone();
    let tokens = cursor.rest()?;
    let (kept, likes) = split(&tokens, &lines)?;
    if likes.is_empty() {
        cursor.return_to(place);
        return Ok(None);
    }
    let head = run(kept, &lines, |parser| parser.parse_statement())?;
    let ast::Statement::CreateTable(table) = head else { return Err(cursor.unexpected()) };
    Ok(Some(CreateLike { table: Box::new(table), likes, lines }))
}

/// The tokens without LIKE and what belongs to it, and each LIKE.
fn split(tokens: &[TokenWithSpan], lines: &Lines) -> Result<(Vec<TokenWithSpan>, Vec<Like>)> {
    let open = tokens.iter().position(|token| token.token == Token::LParen);
    let Some(open) = open else { return Ok((tokens.to_vec(), Vec::new())) };
    let (head, mut rest) = tokens.split_at(open + 1);
    let (mut kept, mut likes) = (head.to_vec(), Vec::new());
    let (mut columns, mut comma) = (0, None);
    loop {
        let (item, after) = rest.split_at(item_end(rest));
        if likes_next(item) {
            likes.push(like(item, columns, lines)?);
        } else {
            // A comma stands between items that are kept.
            kept.extend(comma.take());
            kept.extend_from_slice(item);
            columns += usize::from(is_column(item));
            comma = after.first().cloned();
        }
        match after.split_first() {
            Some((token, more)) if token.token == Token::Comma => rest = more,
            _ => {
                kept.extend_from_slice(after);
                return Ok((kept, likes));
            }
        }
    }
}

fn word(token: Option<&TokenWithSpan>) -> Option<String> {
    match token.map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => Some(word.value.to_lowercase()),
        _ => None,
    }
}

fn likes_next(tokens: &[TokenWithSpan]) -> bool {
    word(tokens.first()).is_some_and(|word| word == "like")
}

fn is_column(tokens: &[TokenWithSpan]) -> bool {
    let is_word = matches!(tokens.first().map(|token| &token.token), Some(Token::Word(_)));
    is_word && word(tokens.first()).is_none_or(|word| !CONSTRAINTS.contains(&word.as_str()))
}

/// Where an item of the list ends: at its comma, or at the parenthesis behind the list.
fn item_end(tokens: &[TokenWithSpan]) -> usize {
    let mut depth = 0usize;
    let ends = |token: &TokenWithSpan| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return true,
            Token::RParen => depth -= 1,
            Token::Comma => return depth == 0,
            _ => {}
        }
        false
    };
    tokens.iter().position(ends).unwrap_or(tokens.len())
}

fn like(tokens: &[TokenWithSpan], at: usize, lines: &Lines) -> Result<Like> {
    let mut cursor = Cursor::new(tokens.to_vec(), lines.clone());
    cursor.expect("like")?;
    let source = cursor.qualified()?;
    let mut including = Including::default();
    while !cursor.is_end() {
        let wanted = cursor.take("including");
        if !wanted {
            cursor.expect("excluding")?;
        }
        match cursor.name()?.as_str() {
            "all" => {
                including = Including {
                    comments: wanted,
                    constraints: wanted,
                    defaults: wanted,
                    generated: wanted,
                    identity: wanted,
                    indexes: wanted,
                };
            }
            "comments" => including.comments = wanted,
            "constraints" => including.constraints = wanted,
            "defaults" => including.defaults = wanted,
            "generated" => including.generated = wanted,
            "identity" => including.identity = wanted,
            "indexes" => including.indexes = wanted,
            // There is nothing of these.
            "compression" | "statistics" | "storage" => {}
            _ => return Err(cursor.unexpected()),
        }
    }
    Ok(Like { source, at, including })
}
