//! Rows about roles, membership and privileges.
//!
//! Invariants: a user of the server that is no role is listed, to that user, as one that may do
//! everything. Does not do: what a statement may do (`roles::rights`).

use super::SessionInfo;
use super::numbers::{OWNER_OID, made_oid, oid, text, texts};
use super::objects::Objects;
use super::{system_parts, system_views};
use crate::error::Result;
use crate::oids::PUBLIC_OID;
use crate::privileges::{ObjectKind, Privileges};
use crate::roles::acl::{Acl, EVERYBODY, shown};
use crate::roles::actor::Actor;
use crate::roles::need::Owned;
use crate::roles::rights;
use crate::roles::role::{Attributes, DATABASE_OWNER, Membership, Role};
use crate::types::{Array, Datum, ElementType, Row, SqlType, Times, text as texts_of_types};

/// A password as everybody sees it.
const HIDDEN: &str = "********";

impl Objects {
    /// All roles, and the user who asks if it is none of them.
    pub(crate) fn all_roles(&self, user: &str) -> Vec<Role> {
        let mut all = self.roles.all().to_vec();
        all.extend(self.unlisted(user));
        all.sort_by_key(|role| role.oid);
        all
    }

    /// The role of the user who asks, if no role of that name is kept.
    fn unlisted(&self, user: &str) -> Option<Role> {
        let is_unlisted = !user.is_empty() && self.roles.named(user).is_none();
        is_unlisted.then(|| Role::plain(user, made_oid(OWNER_OID, user), Attributes::ALL))
    }

    /// The name of the role that has a number.
    pub(crate) fn role_named_by(&self, number: u32, user: &str) -> Option<String> {
        match self.roles.numbered(number) {
            Some(role) => Some(role.name.clone()),
            None => self.unlisted(user).filter(|role| role.oid == number).map(|role| role.name),
        }
    }

    /// The number of the role of this name.
    pub(crate) fn role_number(&self, name: &str, user: &str) -> Option<u32> {
        match self.roles.named(name) {
            Some(role) => Some(role.oid),
            None => self.unlisted(user).filter(|role| role.name == name).map(|role| role.oid),
        }
    }

    /// As whom a role of this number acts.
    pub(crate) fn actor(&self, number: u32, user: &str) -> Option<Actor> {
        match self.roles.numbered(number) {
            Some(role) => Some(Actor::of(role, &self.roles)),
            None => self.role_named_by(number, user).map(|name| Actor::unbounded(name.into())),
        }
    }

    /// As whom somebody acts who is called so.
    pub(crate) fn actor_named(&self, name: &str) -> Actor {
        Actor::called(name, &self.roles)
    }

    /// May an actor make others members of a role?
    pub(crate) fn is_admin(&self, actor: &Actor, role: u32) -> bool {
        let gives = |(member, membership): (&Role, &Membership)| {
            membership.admin && actor.is_member_of(member.oid)
        };
        actor.is_superuser || self.roles.members_of(role).any(gives)
    }

    /// A schema in which not everybody may look: not one of the catalogs.
    pub(crate) fn owned_schema(&self, oid: u32) -> Option<Owned> {
        let name = self.schema_name(oid)?;
        let (kind, owner) = (ObjectKind::Schema, self.owner_of_schema(oid));
        (!crate::names::CATALOGS.contains(&name)).then_some(Owned { kind, oid, owner })
    }

    /// The privileges on an object.
    pub(super) fn acl(&self, of: Owned) -> Acl {
        self.acls.get(&of.oid).cloned().unwrap_or_else(|| rights::usual(of))
    }

    /// They as a column shows them: null where nobody has changed them.
    pub(super) fn shown_acl(&self, number: u32) -> Datum {
        match self.acls.get(&number) {
            Some(acl) => self.acl_texts(acl),
            None if number == PUBLIC_OID => {
                let (kind, owner) = (ObjectKind::Schema, DATABASE_OWNER);
                self.acl_texts(&rights::usual(Owned { kind, oid: number, owner }))
            }
            None => {
                let acl = system_parts::acl_of_schema(number);
                acl.map_or(Datum::Null, |acl| self.acl_texts(&acl))
            }
        }
    }

    /// What an actor may do to a relation of the system.
    pub(crate) fn allowed_of_system(&self, actor: &Actor, number: u32) -> Privileges {
        let Some(placed) = system_views::of_oid(number) else { return Privileges::NONE };
        let (kind, usual) = (ObjectKind::Table, || Acl::usual(ObjectKind::Table, OWNER_OID));
        let acl = system_parts::acl(placed.view).unwrap_or_else(usual);
        rights::allowed_by(actor, kind, &acl)
    }

    pub(crate) fn acl_texts(&self, acl: &Acl) -> Datum {
        let name = |number: u32| crate::names::identifier(&self.roles.name_of(number));
        texts(acl.items().iter().map(|item| shown(item, name)).collect())
    }

    /// What an actor may do to an object, and what of it the actor may pass on.
    pub(crate) fn allowed(&self, actor: &Actor, of: Owned) -> Allowed {
        let (acl, Owned { kind, owner, .. }) = (self.acl(of), of);
        let privileges = rights::allowed_by(actor, kind, &acl);
        let options = match actor.has_privileges_of(owner) {
            true => kind.privileges(),
            false => actor
                .roles()
                .iter()
                .fold(Privileges::NONE, |all, role| all.and(acl.options_of(*role, owner, kind))),
        };
        Allowed { privileges, options }
    }
}

/// What somebody may do to an object.
pub(crate) struct Allowed {
    pub(crate) privileges: Privileges,
    /// What of it they may pass on.
    pub(crate) options: Privileges,
}

fn until(role: &Role) -> Datum {
    let read =
        |text: &String| texts_of_types::parse(SqlType::Timestamptz, text, &Times::default()).ok();
    role.attributes.valid_until.as_ref().and_then(read).unwrap_or(Datum::Null)
}

fn config(role: &Role) -> Datum {
    if role.settings.is_empty() {
        return Datum::Null;
    }
    texts(role.settings.iter().map(|(name, value)| format!("{name}={value}")).collect())
}

/// Rows of `pg_authid`.
pub(super) fn auth_ids(objects: &Objects, session: &SessionInfo<'_>) -> Vec<Row> {
    let one = |role: Role| {
        let own = &role.attributes;
        let mut row = vec![oid(role.oid), text(role.name.clone())];
        let switches = [
            own.superuser,
            own.inherit,
            own.create_role,
            own.create_db,
            own.login,
            own.replication,
            own.bypass_rls,
        ];
        row.extend(switches.map(Datum::Bool));
        row.push(Datum::Int4(own.connection_limit));
        row.push(own.password.clone().map_or(Datum::Null, text));
        row.push(until(&role));
        row
    };
    objects.all_roles(session.user).into_iter().map(one).collect()
}

/// Rows of `pg_roles`.
pub(super) fn roles(objects: &Objects, session: &SessionInfo<'_>) -> Vec<Row> {
    let one = |role: Role| {
        let own = &role.attributes;
        let mut row = vec![text(role.name.clone())];
        let switches = [own.superuser, own.inherit, own.create_role, own.create_db, own.login];
        row.extend(switches.map(Datum::Bool));
        row.extend([Datum::Bool(own.replication), Datum::Int4(own.connection_limit)]);
        row.extend([text(HIDDEN), until(&role), Datum::Bool(own.bypass_rls)]);
        row.extend([config(&role), oid(role.oid)]);
        row
    };
    objects.all_roles(session.user).into_iter().map(one).collect()
}

/// Rows of `pg_user` and `pg_shadow`: roles that may log in.
pub(super) fn users(objects: &Objects, session: &SessionInfo<'_>) -> Vec<Row> {
    let one = |role: Role| {
        let own = &role.attributes;
        let mut row = vec![text(role.name.clone()), oid(role.oid)];
        let switches = [own.create_db, own.superuser, own.replication, own.bypass_rls];
        row.extend(switches.map(Datum::Bool));
        row.extend([text(HIDDEN), until(&role), config(&role)]);
        row
    };
    let all = objects.all_roles(session.user).into_iter();
    all.filter(|role| role.attributes.login).map(one).collect()
}

/// Rows of `pg_group`: roles that may not log in, with their members.
pub(super) fn groups(objects: &Objects) -> Result<Vec<Row>> {
    let element = ElementType::of(SqlType::Oid).expect("numbers are elements");
    let mut rows = Vec::new();
    for role in objects.roles.all().iter().filter(|role| !role.attributes.login) {
        let members = objects.roles.members_of(role.oid);
        let members = members.map(|(member, _)| oid(member.oid)).collect();
        let members = Array::of(element, members)?.into();
        rows.push(vec![text(role.name.clone()), oid(role.oid), members]);
    }
    Ok(rows)
}

/// Rows of `pg_auth_members`.
pub(super) fn members(objects: &Objects) -> Vec<Row> {
    let of = |role: &Role| {
        let member = role.oid;
        let one = move |own: &Membership| {
            vec![oid(own.role), oid(member), oid(own.grantor), Datum::Bool(own.admin)]
        };
        role.member_of.iter().map(one).collect::<Vec<Row>>()
    };
    objects.roles.all().iter().flat_map(of).collect()
}

/// Rows of `pg_default_acl`.
pub(super) fn default_acls(objects: &Objects) -> Vec<Row> {
    let one = |(at, default): (usize, &rights::DefaultAcl)| {
        let own = default.of;
        let kind = match own.kind {
            ObjectKind::Table => 'r',
            ObjectKind::Sequence => 'S',
            ObjectKind::Schema | ObjectKind::Database => 'n',
        };
        let number = made_oid(own.role, &format!("{} {at}", own.schema));
        let mut row = vec![oid(number), oid(own.role), oid(own.schema)];
        row.extend([super::numbers::char(kind), objects.acl_texts(&default.acl)]);
        row
    };
    objects.default_acls.iter().enumerate().map(one).collect()
}

/// Rows of `pg_db_role_setting`: what ALTER ROLE SET says, for every database.
pub(super) fn settings(objects: &Objects) -> Vec<Row> {
    let all = objects.roles.all().iter().filter(|role| !role.settings.is_empty());
    all.map(|role| vec![oid(0), oid(role.oid), config(role)]).collect()
}

/// Names of the roles whose privileges the session has.
pub(super) fn enabled(objects: &Objects, session: &SessionInfo<'_>) -> Vec<String> {
    let actor = objects.actor_named(session.user);
    let all = objects.all_roles(session.user).into_iter();
    all.filter(|role| actor.has_privileges_of(role.oid)).map(|role| role.name).collect()
}

/// Rows of `applicable_roles`, and those of them that may be given on.
pub(super) fn applicable(
    objects: &Objects,
    session: &SessionInfo<'_>,
    administrable: bool,
) -> Vec<Row> {
    let actor = objects.actor_named(session.user);
    let mut rows = Vec::new();
    for role in objects.roles.all().iter().filter(|role| actor.has_privileges_of(role.oid)) {
        for own in role.member_of.iter().filter(|own| own.admin || !administrable) {
            let grantable = if own.admin { "YES" } else { "NO" };
            let above = objects.roles.name_of(own.role);
            rows.push(vec![text(role.name.clone()), text(above), text(grantable)]);
        }
    }
    rows
}

/// A privilege that somebody has on a relation, as `information_schema` tells it.
pub(super) struct Grant {
    pub(super) grantor: String,
    pub(super) grantee: String,
    pub(super) privilege: &'static str,
    pub(super) grantable: bool,
}

/// The privileges on an object that concern the session: given or had by a role whose privileges
/// it has. `own_only`: not those of everybody.
pub(super) fn grants(
    objects: &Objects,
    session: &SessionInfo<'_>,
    of: Owned,
    own_only: bool,
) -> Vec<Grant> {
    let actor = objects.actor_named(session.user);
    let mut all = Vec::new();
    for item in objects.acl(of).items() {
        let is_own = actor.has_privileges_of(item.grantor)
            || item.grantee != EVERYBODY && actor.has_privileges_of(item.grantee);
        let of_everybody = item.grantee == EVERYBODY && !own_only;
        if !is_own && !of_everybody || own_only && item.grantee == EVERYBODY && !is_own {
            continue;
        }
        let owns = objects
            .roles
            .numbered(item.grantee)
            .is_some_and(|role| Actor::of(role, &objects.roles).has_privileges_of(of.owner));
        for one in item.privileges.each() {
            all.push(Grant {
                grantor: objects.roles.name_of(item.grantor),
                grantee: match item.grantee {
                    EVERYBODY => "PUBLIC".to_owned(),
                    role => objects.roles.name_of(role),
                },
                privilege: one.name(),
                grantable: owns || item.options.has_all(one),
            });
        }
    }
    all
}
