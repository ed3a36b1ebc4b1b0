//! How long a text or a bytea may be that a function makes.
//!
//! Invariants: a function asks before it makes what may be longer. Does not do: making it.

use crate::error::{Result, SqlError, code};

/// Longest text that a function makes.
pub(super) const MAX_BYTES: usize = 64 << 20;

/// Fails when a result of so many bytes is longer than any may be.
pub(super) fn check_length(bytes: usize) -> Result<()> {
    if bytes > MAX_BYTES { Err(too_long()) } else { Ok(()) }
}

pub(super) fn too_long() -> SqlError {
    SqlError::new(code::PROGRAM_LIMIT, "requested length too large")
}
