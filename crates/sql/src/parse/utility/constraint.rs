//! ALTER TABLE ALTER CONSTRAINT and COMMENT ON CONSTRAINT, which sqlparser does not know.
//!
//! Does not do: beside other changes of the table.

use crate::error::{Result, SqlError};
use crate::parse::cursor::Cursor;

use super::Utility;

/// Reads such a statement; `None` for anything else.
pub(super) fn alter(cursor: &mut Cursor) -> Result<Option<Utility>> {
    if !cursor.is("alter") || !cursor.is_at(1, "table") {
        return Ok(None);
    }
    let start = cursor.place();
    cursor.expect("alter")?;
    cursor.expect("table")?;
    let if_exists = cursor.take("if") && cursor.take("exists");
    cursor.take("only");
    let table = cursor.qualified();
    let (Ok(table), true) = (table, cursor.is("alter") && cursor.is_at(1, "constraint")) else {
        cursor.return_to(start);
        return Ok(None);
    };
    cursor.expect("alter")?;
    cursor.expect("constraint")?;
    let name = cursor.name()?;
    let waits = waits(cursor)?;
    Ok(Some(Utility::AlterConstraint { table, if_exists, name, waits }))
}

pub(super) fn comment(cursor: &mut Cursor) -> Result<Utility> {
    for word in ["comment", "on", "constraint"] {
        cursor.expect(word)?;
    }
    let name = cursor.name()?;
    cursor.expect("on")?;
    if cursor.is("domain") && !cursor.is_at(1, "is") {
        return Err(SqlError::unsupported("COMMENT ON a constraint of a domain"));
    }
    let table = cursor.qualified()?;
    cursor.expect("is")?;
    let text = match cursor.take("null") {
        true => None,
        false => Some(cursor.string().ok_or_else(|| cursor.unexpected())?),
    };
    Ok(Utility::CommentConstraint { name, table, text })
}

/// When a constraint is looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Waits {
    /// NOT DEFERRABLE
    Never,
    /// DEFERRABLE
    Maybe,
    /// INITIALLY DEFERRED
    First,
}

/// Reads when a constraint is looked at; what is said twice must be the same.
fn waits(cursor: &mut Cursor) -> Result<Waits> {
    let (mut deferrable, mut deferred) = (None, None);
    while !cursor.is_end() {
        let (said, value) = match cursor.take("initially") {
            true => {
                let value = cursor.take("deferred");
                if !value {
                    cursor.expect("immediate")?;
                }
                (&mut deferred, value)
            }
            false => {
                let value = !cursor.take("not");
                cursor.expect("deferrable")?;
                (&mut deferrable, value)
            }
        };
        if said.replace(value).is_some_and(|before| before != value) {
            return Err(SqlError::syntax("conflicting constraint properties"));
        }
        if (deferrable, deferred) == (Some(false), Some(true)) {
            let message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
            return Err(SqlError::syntax(message));
        }
    }
    Ok(match (deferrable, deferred) {
        (_, Some(true)) => Waits::First,
        (Some(true), _) => Waits::Maybe,
        _ => Waits::Never,
    })
}
