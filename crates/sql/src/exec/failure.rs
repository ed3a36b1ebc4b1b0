//! Errors of SQL that arise while the engine calls back, on their way out through it.
//!
//! Invariants: the engine gives up its call when it is told of a failure. Does not do: errors of
//! the engine itself, which come out as they are.

use crate::error::{Result, SqlError};

/// Keeps an error of ours while the engine carries a sign of it out.
pub(crate) fn carry<T>(slot: &mut Option<SqlError>, result: Result<T>) -> rightlink::Result<T> {
    result.map_err(|error| {
        *slot = Some(error);
        rightlink::Error::Invalid("an expression failed".to_owned())
    })
}

/// The error that was kept, or else what the engine gave.
pub(crate) fn unless<T>(failed: Option<SqlError>, result: rightlink::Result<T>) -> Result<T> {
    match failed {
        Some(error) => Err(error),
        None => Ok(result?),
    }
}
