//! The numbers and names of a type that CREATE made: an enum, a composite type, the type of the
//! rows of a table.
//!
//! Invariants: the texts live as long as the process, so that a type is a copy of a reference.
//! Does not do: labels and fields (`enums`, `composite`).

use crate::names::{bare, reference};

/// Numbers and names of a type and of its arrays.
#[derive(Debug)]
pub(super) struct MadeName {
    pub(super) oid: u32,
    pub(super) array_oid: u32,
    /// As the store calls it.
    pub(super) stored: &'static str,
    /// In messages: with the schema, unless that is `public`.
    pub(super) shown: &'static str,
    pub(super) shown_array: &'static str,
    /// In `pg_type`.
    pub(super) short: &'static str,
    pub(super) short_array: &'static str,
}

impl MadeName {
    /// Those of the type that the store calls `stored`.
    pub(super) fn of(oid: u32, array_oid: u32, stored: &str) -> MadeName {
        let shown = reference(stored);
        MadeName {
            oid,
            array_oid,
            stored: leaked(stored.to_owned()),
            shown_array: leaked(format!("{shown}[]")),
            shown: leaked(shown),
            short: leaked(bare(stored).to_owned()),
            short_array: leaked(format!("_{}", bare(stored))),
        }
    }
}

fn leaked(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}
