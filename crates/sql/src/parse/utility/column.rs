//! ALTER TABLE ALTER COLUMN with the identity or the generation expression of a column, in the form
//! in which pg_dump writes it, which sqlparser does not know.
//!
//! Does not do: beside other changes of the table.

use sqlparser::tokenizer::Token;

use super::Utility;
use super::sequence::{IdentityChange, added};
use crate::error::{Result, SqlError};
use crate::parse::cursor::Cursor;

/// A change that ALTER TABLE makes to a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ColumnChange {
    Identity(IdentityChange),
    /// DROP EXPRESSION
    DropExpression {
        if_exists: bool,
    },
}

/// Reads such a statement; `None` for anything else.
pub(super) fn alter(cursor: &mut Cursor) -> Result<Option<Utility>> {
    if !cursor.is("alter") || !cursor.is_at(1, "table") {
        return Ok(None);
    }
    let start = cursor.place();
    let found = alter_column(cursor)?;
    if found.is_none() {
        cursor.return_to(start);
    }
    Ok(found)
}

fn alter_column(cursor: &mut Cursor) -> Result<Option<Utility>> {
    cursor.expect("alter")?;
    cursor.expect("table")?;
    let if_exists = cursor.take("if") && cursor.take("exists");
    cursor.take("only");
    let Ok(table) = cursor.qualified() else { return Ok(None) };
    if !cursor.take("alter") {
        return Ok(None);
    }
    cursor.take("column");
    let Ok(column) = cursor.name() else { return Ok(None) };
    let change = if cursor.is("add") && cursor.is_at(1, "generated") {
        cursor.expect("add")?;
        ColumnChange::Identity(added(cursor)?)
    } else if cursor.is("drop") && cursor.is_at(1, "identity") {
        let if_exists = dropped(cursor, "identity")?;
        ColumnChange::Identity(IdentityChange::Drop { if_exists })
    } else if cursor.is("drop") && cursor.is_at(1, "expression") {
        ColumnChange::DropExpression { if_exists: dropped(cursor, "expression")? }
    } else {
        return Ok(None);
    };
    if cursor.is_token(&Token::Comma) {
        let what = "such a change of a column beside other changes of its table";
        return Err(SqlError::unsupported(what));
    }
    let change = Box::new(change);
    Ok(Some(Utility::AlterColumn { table, if_exists, column, change }))
}

/// Reads DROP, `what`, and IF EXISTS, which it answers for.
fn dropped(cursor: &mut Cursor, what: &str) -> Result<bool> {
    cursor.expect("drop")?;
    cursor.expect(what)?;
    let if_exists = cursor.take("if");
    if if_exists {
        cursor.expect("exists")?;
    }
    Ok(if_exists)
}
