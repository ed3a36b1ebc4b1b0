//! Limits of names and notes in definitions.
//!
//! Invariants: an error names the thing.
//! Does not do: limits of rows and keys (`row`, `keys`).

use std::collections::HashSet;

use crate::config::{MAX_NAME_BYTES, MAX_NOTE_BYTES};
use crate::error::{Error, Result};

/// Checks the name of a table, column or index.
pub(crate) fn check_name(kind: &str, name: &str) -> Result<()> {
    if name.is_empty() || name.chars().any(char::is_control) {
        let what = format!("{kind} name {name:?} is empty or has control characters");
        return Err(Error::Invalid(what));
    }
    if name.len() > MAX_NAME_BYTES {
        let what = format!("{kind} name {name} is longer than {MAX_NAME_BYTES} bytes");
        return Err(Error::Limit(what));
    }
    Ok(())
}

/// Checks the note of the table or column called `name`.
pub(crate) fn check_note(name: &str, note: &str) -> Result<()> {
    if note.len() > MAX_NOTE_BYTES {
        let what = format!("what is noted with {name} is longer than {MAX_NOTE_BYTES} bytes");
        return Err(Error::Limit(what));
    }
    Ok(())
}

pub(crate) fn check_distinct<'a>(kind: &str, names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(Error::AlreadyExists(format!("{kind} {name}")));
        }
    }
    Ok(())
}
