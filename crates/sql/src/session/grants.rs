//! GRANT and REVOKE on objects, default privileges.
//!
//! Who grants, and what is left of a grant that goes beyond what they may pass on, is as
//! PostgreSQL's `aclchk.c` has it.
//!
//! Invariants: a role owns something or has privileges only as long as it is there.
//! Does not do: membership (`roles`), owners (`owners`).

use std::sync::Arc;

use super::access::Found;
use super::{Session, Sink};
use crate::bind::ddl::Definition;
use crate::catalog::DATABASE;
use crate::error::{Result, SqlError, code};
use crate::names::{bare, is_shown, marked, schema_of};
use crate::notes::TableNotes;
use crate::oids::{PUBLIC_OID, relation_oid};
use crate::parse::roles::{Objects, PrivilegeChange, RoleName, RoleStatement};
use crate::privileges::{ObjectKind, Privileges};
use crate::roles::acl::{Acl, Change, EVERYBODY};
use crate::roles::actor::Actor;
use crate::roles::need::Owned;
use crate::roles::rights::{self, Made, denied, must};
use crate::roles::role::{OWNER, Roles};
use crate::schemas::{self, no_schema, no_table};

/// An object that privileges are granted on.
struct Granted {
    found: Found,
    name: String,
}

impl Granted {
    fn of(kind: ObjectKind, of: Owned, name: &str) -> Granted {
        Granted { found: Found { of, noun: kind.noun() }, name: name.to_owned() }
    }
}

impl Session {
    /// Runs a statement about privileges or owners and gives its tag.
    pub(super) fn grant_statement(
        &mut self,
        statement: &RoleStatement,
        sink: &mut dyn Sink,
    ) -> Result<String> {
        let tag = match statement {
            RoleStatement::Privileges { objects, change } => {
                for object in self.granted(objects, change)? {
                    self.change_privileges(&object, change, sink)?;
                }
                if change.grants { "GRANT" } else { "REVOKE" }
            }
            RoleStatement::Defaults { roles, schemas, kind, change } => {
                self.change_defaults(roles, schemas, *kind, change)?;
                "ALTER DEFAULT PRIVILEGES"
            }
            RoleStatement::Own { kind, name, if_exists, role } => {
                return self.own(*kind, name, *if_exists, role, sink);
            }
            RoleStatement::OwnFunction { function, role } => {
                self.own_function(function, role)?;
                "ALTER FUNCTION"
            }
            RoleStatement::Reassign { from, to } => {
                self.reassign(from, to)?;
                "REASSIGN OWNED"
            }
            RoleStatement::DropOwned { roles, cascade } => {
                self.drop_owned(roles, *cascade, sink)?;
                "DROP OWNED"
            }
            other => unreachable!("handled before: {other:?}"),
        };
        Ok(tag.to_owned())
    }

    /// The objects of a GRANT.
    fn granted(&mut self, objects: &Objects, change: &PrivilegeChange) -> Result<Vec<Granted>> {
        let mut all = Vec::new();
        match objects {
            Objects::Relations(kind, names) => {
                for name in names {
                    let stored = self.relation(name)?;
                    let found = self.owned(&stored)?.ok_or_else(|| no_table(&stored))?;
                    if *kind == ObjectKind::Sequence && found.of.kind != ObjectKind::Sequence {
                        let message = format!("\"{}\" is not a sequence", bare(&stored));
                        return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message));
                    }
                    all.push(Granted { found, name: bare(&stored).to_owned() });
                }
            }
            Objects::Named(ObjectKind::Database, names) => {
                for name in names {
                    if **name != *self.database {
                        let message = format!("database \"{name}\" does not exist");
                        return Err(SqlError::new(code::INVALID_DATABASE, message));
                    }
                    let kind = ObjectKind::Database;
                    let of = Owned { kind, oid: DATABASE, owner: OWNER };
                    all.push(Granted::of(kind, of, name));
                }
            }
            Objects::Named(_, names) => {
                for name in names {
                    let found = rights::schema(&mut self.ensure()?.txn, name)?;
                    let of = found.ok_or_else(|| no_schema(name))?;
                    all.push(Granted::of(ObjectKind::Schema, of, name));
                }
            }
            Objects::AllIn(kind, names) => {
                for name in names {
                    if !schemas::exists(&mut self.ensure()?.txn, name)? {
                        return Err(no_schema(name));
                    }
                    self.check_looks(name)?;
                    all.extend(self.all_in(*kind, name)?);
                }
            }
        }
        let wanted = change.privileges.unwrap_or(Privileges::NONE);
        for object in &all {
            let known = object.found.of.kind.privileges();
            if let Some(wrong) = wanted.without(known).each().next() {
                let (noun, name) = (object.found.noun, wrong.name());
                let message = format!("invalid privilege type {name} for {noun}");
                return Err(SqlError::new(code::INVALID_GRANT, message));
            }
        }
        Ok(all)
    }

    /// All tables or sequences of a schema.
    fn all_in(&mut self, kind: ObjectKind, schema: &str) -> Result<Vec<Granted>> {
        let txn = &mut self.ensure()?.txn;
        let names: Vec<String> = match kind {
            ObjectKind::Sequence => {
                txn.catalog().sequences()?.into_iter().map(|one| one.schema.name).collect()
            }
            _ => txn.catalog().table_names()?,
        };
        let mut all = Vec::new();
        for stored in names {
            if schema_of(&stored) != schema || !is_shown(&stored) || crate::names::is_own(&stored) {
                continue;
            }
            if let Some(found) = self.owned(&stored)? {
                all.push(Granted { found, name: bare(&stored).to_owned() });
            }
        }
        Ok(all)
    }

    fn change_privileges(
        &mut self,
        object: &Granted,
        change: &PrivilegeChange,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let actor = self.actor()?;
        let roles = Roles::load(&mut self.ensure()?.txn)?;
        if let Some(by) = &change.by {
            let by = self.role(by, &roles)?;
            if by.oid != actor.oid {
                let message = "grantor must be current user";
                return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
            }
        }
        let Granted { found: Found { of, noun }, name } = object;
        let Owned { kind, oid, owner } = *of;
        let kept = rights::kept(&mut self.ensure()?.txn, oid)?;
        let mut acl = kept.unwrap_or_else(|| rights::usual(*of));
        let asked = change.privileges.unwrap_or_else(|| kind.privileges());
        let (grantor, may) = grantor(&actor, &acl, *of, asked);
        let here = asked.within(may);
        if may.is_empty() && acl.of_roles(|role| actor.has_privileges_of(role)).is_empty() {
            return Err(denied(noun, name));
        }
        let is_part = change.privileges.is_some() && here != asked;
        let warning = match (here.is_empty(), is_part, change.grants) {
            (true, _, true) => Some(format!("no privileges were granted for \"{name}\"")),
            (false, true, true) => Some(format!("not all privileges were granted for \"{name}\"")),
            (true, _, false) => Some(format!("no privileges could be revoked for \"{name}\"")),
            (false, true, false) => {
                Some(format!("not all privileges could be revoked for \"{name}\""))
            }
            (false, false, _) => None,
        };
        if let Some(warning) = warning {
            self.tell(sink, "WARNING", &warning);
        }
        let giver = roles.numbered(grantor).map(|role| Actor::of(role, &roles));
        let has = |role| giver.as_ref().is_some_and(|giver| giver.has_privileges_of(role));
        for role in &change.roles {
            let grantee = self.grantee(role, &roles)?;
            let options = change.options;
            let own = Change { grantee, grantor, privileges: here, options };
            match change.grants {
                true => acl.grant(own, owner, kind, has)?,
                false => acl.revoke(own, change.cascade, owner)?,
            }
        }
        rights::keep(&mut self.ensure()?.txn, oid, Some(&acl))
    }

    fn grantee(&mut self, role: &RoleName, roles: &Roles) -> Result<u32> {
        match role {
            RoleName::Everybody => Ok(EVERYBODY),
            other => Ok(self.role(other, roles)?.oid),
        }
    }

    /// ALTER DEFAULT PRIVILEGES
    fn change_defaults(
        &mut self,
        of: &[RoleName],
        schemas: &[String],
        kind: ObjectKind,
        change: &PrivilegeChange,
    ) -> Result<()> {
        let actor = self.actor()?;
        let roles = Roles::load(&mut self.ensure()?.txn)?;
        let mut targets = Vec::new();
        for name in of {
            let role = self.role(name, &roles)?;
            if !actor.is_member_of(role.oid) {
                return Err(must(&format!("be member of role \"{}\"", role.name)));
            }
            targets.push(role.oid);
        }
        if of.is_empty() {
            targets.push(actor.oid);
        }
        let asked = change.privileges.unwrap_or_else(|| kind.privileges());
        if let Some(wrong) = asked.without(kind.privileges()).each().next() {
            let (noun, name) = (kind.noun(), wrong.name());
            let message = format!("invalid privilege type {name} for {noun}");
            return Err(SqlError::new(code::INVALID_GRANT, message));
        }
        let mut places = Vec::new();
        for schema in schemas {
            let found = rights::schema(&mut self.ensure()?.txn, schema)?;
            places.push(found.ok_or_else(|| no_schema(schema))?.oid);
        }
        if schemas.is_empty() {
            places.push(0);
        }
        for role in targets {
            for schema in places.iter().copied() {
                let made = Made { role, schema, kind };
                let usual = match schema {
                    0 => Acl::usual(kind, role),
                    _ => Acl::default(),
                };
                let kept = rights::default_of(&mut self.ensure()?.txn, made)?;
                let mut acl = kept.unwrap_or_else(|| usual.clone());
                for grantee in &change.roles {
                    let grantee = self.grantee(grantee, &roles)?;
                    let options = change.options;
                    let own = Change { grantee, grantor: role, privileges: asked, options };
                    match change.grants {
                        true => acl.grant(own, role, kind, |one| one == role)?,
                        false => acl.revoke(own, change.cascade, role)?,
                    }
                }
                // PostgreSQL keeps those of defaults by the numbers of roles.
                acl.sort();
                let acl = (!acl.is_same(&usual)).then_some(&acl);
                rights::keep_default(&mut self.ensure()?.txn, made, acl)?;
            }
        }
        Ok(())
    }

    /// Gives what was just made the privileges that its maker's defaults say.
    pub(super) fn give_defaults(&mut self, definition: &Definition) -> Result<()> {
        let (stored, made) = match definition {
            Definition::CreateTable { table, .. } => (&table.schema.name, ObjectKind::Table),
            Definition::CreateView(view) => (&view.name, ObjectKind::Table),
            Definition::CreateSequence { name, .. } => (name, ObjectKind::Sequence),
            Definition::CreateSchema { name, .. } => (name, ObjectKind::Schema),
            _ => return Ok(()),
        };
        let stored = stored.clone();
        let txn = &mut self.ensure()?.txn;
        if !rights::has_defaults(txn)? {
            return Ok(());
        }
        let actor = self.actor()?;
        if made == ObjectKind::Schema {
            let Some(one) = rights::schema(&mut self.ensure()?.txn, &stored)? else {
                return Ok(());
            };
            let of = Made { role: actor.oid, schema: 0, kind: made };
            return self.give_default(one.oid, of);
        }
        let txn = &mut self.ensure()?.txn;
        let schema = rights::schema(txn, schema_of(&stored))?.map_or(0, |one| one.oid);
        let mut all = vec![(stored.clone(), made)];
        if made == ObjectKind::Table
            && let Ok(info) = txn.catalog().definition(&stored)
        {
            let own = info.columns.iter().filter_map(|column| column.identity.as_ref());
            all.extend(own.map(|one| (one.sequence.clone(), ObjectKind::Sequence)));
        }
        for (name, kind) in all {
            if let Some(found) = self.owned(&name)? {
                self.give_default(found.of.oid, Made { role: actor.oid, schema, kind })?;
            }
        }
        Ok(())
    }

    fn give_default(&mut self, oid: u32, made: Made) -> Result<()> {
        let txn = &mut self.ensure()?.txn;
        // What is there already has its own.
        if rights::kept(txn, oid)?.is_some() {
            return Ok(());
        }
        let everywhere = rights::default_of(txn, Made { schema: 0, ..made })?;
        let here = match made.schema {
            0 => None,
            _ => rights::default_of(txn, made)?,
        };
        if everywhere.is_none() && here.is_none() {
            return Ok(());
        }
        let usual = Acl::usual(made.kind, made.role);
        let mut acl = everywhere.unwrap_or_else(|| usual.clone());
        if let Some(here) = here {
            acl.merge(&here);
        }
        acl.sort();
        match acl.is_same(&usual) {
            true => Ok(()),
            false => rights::keep(txn, oid, Some(&acl)),
        }
    }

    /// Objects may be gone: what was kept of their privileges goes with them.
    pub(super) fn forget_privileges(&mut self) -> Result<()> {
        let database = Arc::clone(&self.database);
        let txn = &mut self.ensure()?.txn;
        let kept = rights::all_kept(txn)?;
        if kept.is_empty() {
            return Ok(());
        }
        let known = names_of_objects(txn, &database)?;
        for (oid, _) in kept {
            if !known.iter().any(|(known, _)| *known == oid) {
                rights::forget(txn, oid)?;
            }
        }
        Ok(())
    }
}

/// Numbers of all objects that have privileges, with their names in messages.
pub(super) fn names_of_objects(
    txn: &mut rightlink::Transaction,
    database: &str,
) -> Result<Vec<(u32, String)>> {
    let mut all =
        vec![(DATABASE, format!("database {database}")), (PUBLIC_OID, "schema public".to_owned())];
    for info in txn.catalog().tables()? {
        let name = match marked(&info.name) {
            Some(schema) => format!("schema {schema}"),
            None => format!("{} {}", TableNotes::decode(&info.note).noun(), bare(&info.name)),
        };
        all.push((relation_oid(info.id), name));
    }
    for one in txn.catalog().sequences()? {
        all.push((relation_oid(one.id), format!("sequence {}", bare(&one.schema.name))));
    }
    Ok(all)
}

/// As whom an actor grants, and what of `asked` it may pass on so.
fn grantor(actor: &Actor, acl: &Acl, of: Owned, asked: Privileges) -> (u32, Privileges) {
    let Owned { kind, owner, .. } = of;
    if actor.is_superuser || actor.oid == owner {
        return (owner, kind.privileges());
    }
    let mut best = (actor.oid, Privileges::NONE);
    for role in actor.roles() {
        let may = acl.options_of(*role, owner, kind);
        let count = |may: Privileges| may.within(asked).count();
        if count(may) > count(best.1) {
            best = (*role, may);
        }
        if may.has_all(asked) {
            return (*role, may);
        }
    }
    best
}
