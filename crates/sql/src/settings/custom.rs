//! Settings of applications: any name with a dot in it.
//!
//! Invariants: one that had a value once is known for the rest of the session, and empty where it
//! has none. All of a session take [`MOST_BYTES`] at most.
//! Does not do: the server's own settings.

use super::State;
use crate::error::{Result, SqlError, code};

/// Bytes that the names and values of a session take at most.
const MOST_BYTES: usize = 256 << 10;

/// The name as it is kept, if it is one of an application.
///
/// # Errors
/// It has a dot, but is not made of identifiers.
pub(super) fn name(name: &str) -> Result<Option<String>> {
    if !name.contains('.') {
        return Ok(None);
    }
    if name.split('.').all(is_identifier) {
        return Ok(Some(name.to_ascii_lowercase()));
    }
    let message = format!("invalid configuration parameter name \"{name}\"");
    Err(SqlError::new(code::INVALID_NAME, message)
        .detail("Custom parameter names must be two or more simple identifiers separated by dots."))
}

fn is_identifier(part: &str) -> bool {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
    let is_later = |c: char| is_first(c) || c.is_ascii_digit() || c == '$';
    part.starts_with(is_first) && part.chars().all(is_later)
}

/// The one value of a setting.
pub(super) fn value(name: &str, parts: &[String]) -> Result<String> {
    match parts {
        [value] => Ok(value.clone()),
        _ => {
            let message = format!("SET {name} takes only one argument");
            Err(SqlError::new(code::INVALID_PARAMETER, message))
        }
    }
}

impl State {
    /// Knows a setting from now on.
    pub(super) fn admit(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        let kept = [&self.startup, &self.values, &self.local].into_iter().flat_map(|map| &**map);
        let custom = kept.filter(|(known, _)| known.contains('.') && *known != name);
        let values: usize = custom.map(|(name, value)| name.len() + value.len()).sum();
        let names: usize = self.custom.iter().map(String::len).sum();
        let taken = values + names + 2 * name.len() + value.map_or(0, str::len);
        if taken > MOST_BYTES {
            let message = "the session has too many custom parameters";
            let detail = format!("Their names and values may take {} kB.", MOST_BYTES >> 10);
            return Err(SqlError::new(code::PROGRAM_LIMIT, message).detail(detail));
        }
        self.custom.insert(name.to_owned());
        Ok(())
    }

    /// The value of a setting that had one once.
    pub(super) fn custom_value(&self, name: &str) -> Option<String> {
        let name = name.to_ascii_lowercase();
        self.custom.contains(&name).then(|| self.get(&name))
    }
}
