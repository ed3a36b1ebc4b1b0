//! CREATE and ALTER SEQUENCE, read from their tokens: options come in any order.
//!
//! Invariants: an option is given once. Does not do: what the options mean together
//! (`bind::ddl::sequence`).

use sqlparser::tokenizer::Token;

use crate::error::{Result, SqlError, code};
use crate::parse::cursor::Cursor;
use crate::parse::utility::Utility;
use crate::types::SqlType;

/// Options of a sequence, as they are written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SequenceOptions {
    pub(crate) ty: Option<SqlType>,
    pub(crate) increment: Option<i64>,
    /// `Some(None)` is NO MINVALUE.
    pub(crate) min: Option<Option<i64>>,
    /// `Some(None)` is NO MAXVALUE.
    pub(crate) max: Option<Option<i64>>,
    pub(crate) start: Option<i64>,
    /// `Some(None)` is RESTART without a number.
    pub(crate) restart: Option<Option<i64>>,
    pub(crate) cache: Option<i64>,
    pub(crate) cycle: Option<bool>,
    /// The parts of a column's name; `Some(None)` is NONE.
    pub(crate) owner: Option<Option<Vec<String>>>,
}

/// CREATE SEQUENCE.
pub(super) fn create(cursor: &mut Cursor) -> Result<Utility> {
    cursor.expect("create")?;
    cursor.expect("sequence")?;
    let if_not_exists = cursor.take("if");
    if if_not_exists {
        cursor.expect("not")?;
        cursor.expect("exists")?;
    }
    let name = cursor.qualified()?;
    let options = options(cursor, false)?;
    Ok(Utility::CreateSequence { name, options, if_not_exists })
}

/// ALTER SEQUENCE.
pub(super) fn alter(cursor: &mut Cursor) -> Result<Utility> {
    cursor.expect("alter")?;
    cursor.expect("sequence")?;
    let if_exists = cursor.take("if");
    if if_exists {
        cursor.expect("exists")?;
    }
    let name = cursor.qualified()?;
    if cursor.take("rename") {
        cursor.expect("to")?;
        return Ok(Utility::RenameSequence { name, to: cursor.name()?, if_exists });
    }
    if cursor.is("set") && cursor.is_at(1, "schema") {
        cursor.expect("set")?;
        cursor.expect("schema")?;
        return Ok(Utility::MoveSequence { name, schema: cursor.name()?, if_exists });
    }
    let found = options(cursor, true)?;
    if found == SequenceOptions::default() {
        return Err(cursor.unexpected());
    }
    Ok(Utility::AlterSequence { name, options: found, if_exists })
}

/// What ALTER TABLE makes of the identity of a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum IdentityChange {
    /// ADD GENERATED .. AS IDENTITY
    Add {
        always: bool,
        /// The parts of the sequence's name, where it is given.
        name: Option<Vec<String>>,
        options: SequenceOptions,
    },
    /// DROP IDENTITY
    Drop { if_exists: bool },
}

/// What follows ADD.
pub(super) fn added(cursor: &mut Cursor) -> Result<IdentityChange> {
    cursor.expect("generated")?;
    let always = cursor.take("always");
    if !always {
        cursor.expect("by")?;
        cursor.expect("default")?;
    }
    cursor.expect("as")?;
    cursor.expect("identity")?;
    let (mut name, mut all) = (None, SequenceOptions::default());
    if cursor.take_token(&Token::LParen) {
        while !cursor.take_token(&Token::RParen) {
            let once = if cursor.is("sequence") && cursor.is_at(1, "name") {
                cursor.expect("sequence")?;
                cursor.expect("name")?;
                name.replace(cursor.qualified()?).is_none()
            } else {
                option(cursor, &mut all, false)?
            };
            if !once {
                return Err(SqlError::syntax("conflicting or redundant options"));
            }
        }
    }
    Ok(IdentityChange::Add { always, name, options: all })
}

fn options(cursor: &mut Cursor, may_restart: bool) -> Result<SequenceOptions> {
    let mut all = SequenceOptions::default();
    while !cursor.is_end() {
        let once = option(cursor, &mut all, may_restart)?;
        if !once {
            return Err(SqlError::syntax("conflicting or redundant options"));
        }
    }
    Ok(all)
}

/// Reads an option; false if it is there already.
fn option(cursor: &mut Cursor, all: &mut SequenceOptions, may_restart: bool) -> Result<bool> {
    if cursor.take("as") {
        return Ok(all.ty.replace(data_type(cursor)?).is_none());
    }
    if cursor.take("increment") {
        cursor.take("by");
        return Ok(all.increment.replace(number(cursor)?).is_none());
    }
    if cursor.take("start") {
        cursor.take("with");
        return Ok(all.start.replace(number(cursor)?).is_none());
    }
    if may_restart && cursor.take("restart") {
        let with = cursor.take("with");
        let to = if with { Some(number(cursor)?) } else { cursor.number() };
        return Ok(all.restart.replace(to).is_none());
    }
    if cursor.take("cache") {
        return Ok(all.cache.replace(number(cursor)?).is_none());
    }
    if cursor.take("owned") {
        cursor.expect("by")?;
        return Ok(all.owner.replace(owner(cursor)?).is_none());
    }
    let no = cursor.take("no");
    match cursor.take_any(&["minvalue", "maxvalue", "cycle"]) {
        Some("cycle") => Ok(all.cycle.replace(!no).is_none()),
        Some(word) => {
            let bound = if no { None } else { Some(number(cursor)?) };
            let place = if word == "minvalue" { &mut all.min } else { &mut all.max };
            Ok(place.replace(bound).is_none())
        }
        None => Err(cursor.unexpected()),
    }
}

fn number(cursor: &mut Cursor) -> Result<i64> {
    cursor.number().ok_or_else(|| cursor.unexpected())
}

/// `None` is NONE.
fn owner(cursor: &mut Cursor) -> Result<Option<Vec<String>>> {
    let none = cursor.is("none");
    let parts = cursor.qualified()?;
    match parts.len() {
        1 if none => Ok(None),
        1 => Err(SqlError::syntax("invalid OWNED BY option")
            .hint("Specify OWNED BY table.column or OWNED BY NONE.")),
        _ => Ok(Some(parts)),
    }
}

fn data_type(cursor: &mut Cursor) -> Result<SqlType> {
    let parts = cursor.qualified()?;
    match parts.last().map(String::as_str) {
        Some("smallint" | "int2") => Ok(SqlType::Int2),
        Some("integer" | "int" | "int4") => Ok(SqlType::Int4),
        Some("bigint" | "int8") => Ok(SqlType::Int8),
        _ => {
            let message = "sequence type must be smallint, integer, or bigint";
            Err(SqlError::new(code::INVALID_PARAMETER, message))
        }
    }
}
