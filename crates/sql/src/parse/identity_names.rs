//! SEQUENCE NAME among the options of an identity column of CREATE TABLE, which sqlparser does not
//! know.
//!
//! Invariants: each name goes to the identity column that it was taken from, as a comment of the
//! column, which this dialect has no other use for. Does not do: ALTER TABLE, which is read
//! elsewhere (`utility`).

use sqlparser::ast::{self, ColumnOption, ColumnOptionDef};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::{Result, SqlError};
use crate::parse::cursor::is;
use crate::parse::identifiers;

/// In front of each part of a name, so that no comment that somebody writes is one.
const MARK: char = '\u{1}';

/// The name of the sequence of an identity column.
pub(super) struct Named {
    /// How many identity columns stand before it.
    place: usize,
    parts: Vec<String>,
}

/// Takes the names out of a CREATE TABLE.
pub(super) fn take(tokens: &mut Vec<TokenWithSpan>) -> Vec<Named> {
    let mut taken = Vec::new();
    if !tokens.first().is_some_and(|first| is(&first.token, "create")) {
        return taken;
    }
    let (mut place, mut at) = (0, 0);
    while at + 1 < tokens.len() {
        if !is(&tokens[at].token, "identity") {
            at += 1;
            continue;
        }
        at += 1;
        if tokens[at].token == Token::LParen {
            let close = closing(tokens, at);
            let found = (at..close).find(|at| {
                is(&tokens[*at].token, "sequence") && is(&tokens[*at + 1].token, "name")
            });
            if let Some(start) = found {
                let (parts, end) = name(tokens, start + 2);
                tokens.drain(start..end);
                taken.push(Named { place, parts });
                if tokens[at + 1].token == Token::RParen {
                    tokens.drain(at..at + 2);
                }
            }
        }
        place += 1;
    }
    taken
}

/// The place of the parenthesis that closes the one at `open`, or the last token.
fn closing(tokens: &[TokenWithSpan], open: usize) -> usize {
    let found = tokens[open..].iter().position(|token| token.token == Token::RParen);
    found.map_or(tokens.len() - 1, |ahead| open + ahead)
}

/// The parts of the name at `at`, and where it ends.
fn name(tokens: &[TokenWithSpan], mut at: usize) -> (Vec<String>, usize) {
    let mut parts = Vec::new();
    while let Some(part) = tokens.get(at).and_then(|token| identifiers::name(&token.token)) {
        parts.push(part);
        at += 1;
        if tokens.get(at).is_none_or(|next| next.token != Token::Period) {
            break;
        }
        at += 1;
    }
    (parts, at)
}

/// Puts names into the columns that they were taken from.
pub(super) fn put_back(statement: &mut ast::Statement, taken: Vec<Named>) -> Result<()> {
    if taken.is_empty() {
        return Ok(());
    }
    let ast::Statement::CreateTable(table) = statement else { return Err(misplaced()) };
    let is_identity = |column: &&mut ast::ColumnDef| {
        let is_it = |one: &ColumnOptionDef| {
            matches!(one.option, ColumnOption::Generated { generation_expr: None, .. })
        };
        column.options.iter().any(is_it)
    };
    let mut columns: Vec<&mut ast::ColumnDef> =
        table.columns.iter_mut().filter(is_identity).collect();
    for Named { place, parts } in taken {
        let column = columns.get_mut(place).ok_or_else(misplaced)?;
        let marked = parts.iter().map(|part| format!("{MARK}{part}")).collect();
        let option = ColumnOption::Comment(marked);
        column.options.push(ColumnOptionDef { name: None, option });
    }
    Ok(())
}

/// The error for such a name where none may stand.
pub(super) fn misplaced() -> SqlError {
    SqlError::syntax("syntax error at or near \"sequence\"")
}

/// The parts of a name, if that is what a column's comment is.
pub(crate) fn parts_of(comment: &str) -> Option<Vec<String>> {
    Some(comment.strip_prefix(MARK)?.split(MARK).map(str::to_owned).collect())
}
