//! Who has prepared a transaction: a note that the store keeps with it.
//!
//! Invariants: a user who is no role is noted under the number of the database's owner, and may do
//! everything. A note of another program names no role.
//! Does not do: prepared transactions (`session::two_phase`).

use super::actor::Actor;
use super::role::{OWNER, Roles};

/// Who has prepared a transaction.
pub(crate) struct Preparer {
    pub(crate) oid: u32,
    name: String,
}

impl Preparer {
    pub(crate) fn of(actor: &Actor) -> Preparer {
        Preparer { oid: actor.oid, name: actor.name.to_string() }
    }

    /// The note about it.
    pub(crate) fn note(&self) -> String {
        format!("{} {}", self.oid, self.name)
    }

    /// Reads a note.
    pub(crate) fn read(note: &str) -> Preparer {
        let parts = note.split_once(' ');
        let read = parts.and_then(|(oid, name)| Some((oid.parse().ok()?, name)));
        let (oid, name) = read.unwrap_or((OWNER, note));
        Preparer { oid, name: name.to_owned() }
    }

    /// Its name, by that of the role today.
    pub(crate) fn name(self, roles: &Roles) -> String {
        match self.oid {
            OWNER => self.name,
            oid => roles.name_of(oid),
        }
    }
}
