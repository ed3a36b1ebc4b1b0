//! As whom a statement runs: a role, and those whose privileges it has.
//!
//! Invariants: what it knows of memberships is as of when it was made, which is once for each
//! statement.
//! Does not do: objects (`rights`).

use std::sync::Arc;

use super::acl::EVERYBODY;
use super::role::{OWNER, Role, Roles};
use crate::settings::USER;

/// As whom a statement runs.
#[derive(Clone, Debug)]
pub(crate) struct Actor {
    pub(crate) name: Arc<str>,
    pub(crate) oid: u32,
    pub(crate) is_superuser: bool,
    pub(crate) create_role: bool,
    /// Itself, and the roles whose privileges it has.
    has: Vec<u32>,
    /// Itself, and the roles that it is a member of.
    member_of: Vec<u32>,
}

impl Actor {
    /// A user that is no role, or the owner of the database.
    pub(crate) fn unbounded(name: Arc<str>) -> Actor {
        let (has, member_of) = (Vec::new(), Vec::new());
        Actor { name, oid: OWNER, is_superuser: true, create_role: true, has, member_of }
    }

    /// Somebody who has what everybody has.
    pub(crate) fn of_everybody() -> Actor {
        let (has, member_of) = (Vec::new(), Vec::new());
        let (oid, is_superuser, create_role) = (EVERYBODY, false, false);
        Actor { name: "public".into(), oid, is_superuser, create_role, has, member_of }
    }

    pub(crate) fn of(role: &Role, roles: &Roles) -> Actor {
        Actor {
            name: role.name.as_str().into(),
            oid: role.oid,
            is_superuser: role.attributes.superuser,
            create_role: role.attributes.create_role || role.attributes.superuser,
            has: roles.above(role.oid, true),
            member_of: roles.above(role.oid, false),
        }
    }

    /// Somebody who is called so: that role, or a user who is none.
    pub(crate) fn called(name: &str, roles: &Roles) -> Actor {
        match roles.named(name) {
            Some(role) => Actor::of(role, roles),
            None => Actor::unbounded(name.into()),
        }
    }

    /// Is it a user who is no role, or the owner of the database?
    pub(crate) fn is_unbounded(&self) -> bool {
        self.oid == OWNER
    }

    /// Has it the privileges of a role?
    pub(crate) fn has_privileges_of(&self, role: u32) -> bool {
        self.is_superuser || self.has.contains(&role)
    }

    /// Is it a member of a role?
    pub(crate) fn is_member_of(&self, role: u32) -> bool {
        self.is_superuser || self.member_of.contains(&role)
    }

    /// The owner of what it makes, as it is noted.
    pub(crate) fn noted(&self) -> Option<u32> {
        (self.oid != OWNER).then_some(self.oid)
    }

    /// Roles whose privileges it has, itself first.
    pub(crate) fn roles(&self) -> &[u32] {
        &self.has
    }
}

impl Default for Actor {
    fn default() -> Actor {
        Actor::unbounded(USER.into())
    }
}
