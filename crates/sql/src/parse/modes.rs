//! Modes of a transaction: its isolation level, and whether it only reads.
//!
//! Does not do: what they mean (`session::transaction`).

use sqlparser::tokenizer::Token;

use super::cursor::Cursor;
use crate::error::Result;

/// Modes of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Modes {
    pub(crate) isolation: Option<Level>,
    pub(crate) read_only: Option<bool>,
}

/// Isolation level by name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Level {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Level {
    /// As SQL spells it, in lower case.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Level::ReadUncommitted => "read uncommitted",
            Level::ReadCommitted => "read committed",
            Level::RepeatableRead => "repeatable read",
            Level::Serializable => "serializable",
        }
    }

    /// The level of a name.
    pub(crate) fn named(name: &str) -> Option<Level> {
        let all = [
            Level::ReadUncommitted,
            Level::ReadCommitted,
            Level::RepeatableRead,
            Level::Serializable,
        ];
        all.into_iter().find(|level| level.name() == name)
    }
}

/// Reads the modes behind BEGIN and SET TRANSACTION.
pub(super) fn modes(cursor: &mut Cursor) -> Result<Modes> {
    let mut modes = Modes::default();
    while !cursor.is_end() {
        cursor.take_token(&Token::Comma);
        if cursor.take("isolation") {
            cursor.expect("level")?;
            modes.isolation = Some(level(cursor)?);
        } else if cursor.take("read") {
            match cursor.take_any(&["only", "write"]) {
                Some(word) => modes.read_only = Some(word == "only"),
                None => return Err(cursor.unexpected()),
            }
        } else {
            cursor.take("not");
            cursor.expect("deferrable")?;
        }
    }
    Ok(modes)
}

fn level(cursor: &mut Cursor) -> Result<Level> {
    if cursor.take("serializable") {
        return Ok(Level::Serializable);
    }
    if cursor.take("repeatable") {
        cursor.expect("read")?;
        return Ok(Level::RepeatableRead);
    }
    cursor.expect("read")?;
    match cursor.take_any(&["committed", "uncommitted"]) {
        Some("committed") => Ok(Level::ReadCommitted),
        Some(_) => Ok(Level::ReadUncommitted),
        None => Err(cursor.unexpected()),
    }
}
