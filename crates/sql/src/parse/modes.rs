//! Modes of a transaction: its isolation level, whether it only reads, whether it may be deferred.
//!
//! Does not do: what they mean (`session::transaction`).

use sqlparser::tokenizer::Token;

use super::cursor::Cursor;
use crate::error::Result;

/// Modes of a transaction that a statement asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Modes {
    pub(crate) isolation: Option<Level>,
    pub(crate) read_only: Option<bool>,
    pub(crate) deferrable: Option<bool>,
}

/// The modes that a transaction has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TransactionModes {
    pub(crate) level: Level,
    pub(crate) read_only: bool,
    /// Shown, and without an effect: only what is SERIALIZABLE waits for a safe snapshot.
    pub(crate) deferrable: bool,
}

impl TransactionModes {
    /// Those of a session that has not said anything.
    pub(crate) const DEFAULT: TransactionModes =
        TransactionModes { level: Level::ReadCommitted, read_only: false, deferrable: false };

    /// Those that a statement asks for, and else these.
    pub(crate) fn with(self, asked: Modes) -> TransactionModes {
        TransactionModes {
            level: asked.isolation.unwrap_or(self.level),
            read_only: asked.read_only.unwrap_or(self.read_only),
            deferrable: asked.deferrable.unwrap_or(self.deferrable),
        }
    }

    /// A statement that asks for these.
    pub(crate) fn asked(self) -> Modes {
        Modes {
            isolation: Some(self.level),
            read_only: Some(self.read_only),
            deferrable: Some(self.deferrable),
        }
    }
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
            let not = cursor.take("not");
            cursor.expect("deferrable")?;
            modes.deferrable = Some(!not);
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
