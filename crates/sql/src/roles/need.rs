//! What a statement needs: privileges on objects.
//!
//! The binder gathers it, and it is checked in one place when an execution starts. So a plan that
//! is kept knows what was revoked since it was made.
//!
//! Invariants: a need names each object once for each role that must have something of it.
//! Does not do: checking (`rights`).

use crate::names::VIEW;
use crate::privileges::{ObjectKind, Privileges};

/// Privileges on one object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Need {
    pub(crate) of: Object,
    /// As errors call it, with what it is in front.
    pub(crate) noun: &'static str,
    pub(crate) name: String,
    pub(crate) privileges: Privileges,
    /// Is one of them enough?
    pub(crate) any: bool,
    /// The role that must have them: the owner of the view whose query names the object; `None`:
    /// whoever runs the statement.
    pub(crate) role: Option<u32>,
}

/// An object, and the role that owns it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Owned {
    pub(crate) kind: ObjectKind,
    pub(crate) oid: u32,
    pub(crate) owner: u32,
}

/// An object that something is needed of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Object {
    Known(Owned),
    /// A sequence, as the store calls it; its owner, where a table's column names it.
    Sequence {
        stored: String,
        owner: Option<u32>,
    },
    Schema(String),
}

/// What a statement needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Needs(Vec<Need>);

impl Needs {
    /// One more.
    pub(crate) fn add(&mut self, need: Need) {
        let same = |known: &&mut Need| {
            known.of == need.of && known.role == need.role && known.any == need.any
        };
        match self.0.iter_mut().find(same) {
            Some(known) if !need.any => known.privileges = known.privileges.and(need.privileges),
            Some(known) if known.privileges == need.privileges => {}
            _ => self.0.push(need),
        }
    }

    /// Rows of the views that are read are locked.
    pub(crate) fn update_views(&mut self) {
        for need in self.0.iter_mut().filter(|need| need.noun == VIEW) {
            need.privileges = need.privileges.and(Privileges::UPDATE);
        }
    }

    pub(crate) fn all(&self) -> &[Need] {
        &self.0
    }

    /// The role by which an object is read first, if it is.
    pub(crate) fn role_of(&self, oid: u32) -> Option<Option<u32>> {
        let is_it = |need: &&Need| matches!(need.of, Object::Known(own) if own.oid == oid);
        self.0.iter().find(is_it).map(|need| need.role)
    }
}
