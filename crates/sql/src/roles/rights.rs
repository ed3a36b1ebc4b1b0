//! Owners and privileges of objects: reading, checking and keeping them.
//!
//! Invariants: an object whose privileges nobody has changed has those of [`Acl::usual`], and
//! nothing is kept of it.
//! Does not do: GRANT and REVOKE (`session`).

use rightlink::Transaction;

use super::acl::{Acl, EVERYBODY, Item};
use super::actor::Actor;
use super::need::{Need, Object, Owned};
use super::role::{DATABASE_OWNER, OWNER, READ_ALL_DATA, Roles, WRITE_ALL_DATA};
use crate::error::{Result, SqlError, code};
use crate::names::{CATALOGS, PUBLIC, mark};
use crate::notes::owner_of;
use crate::oids::{PUBLIC_OID, relation_oid};
use crate::privileges::{ObjectKind, Privileges};

/// In front of the number of an object: the name under which its privileges are kept.
const KEPT: &str = "acl ";
/// In front of a role, a schema and a kind: the name under which the privileges of what the role
/// makes there are kept.
const DEFAULTS: &str = "default acl ";

/// Objects of a kind that a role makes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Made {
    pub(crate) role: u32,
    /// The number of the schema, 0 for any.
    pub(crate) schema: u32,
    pub(crate) kind: ObjectKind,
}

/// What such objects have to begin with.
pub(crate) struct DefaultAcl {
    pub(crate) of: Made,
    pub(crate) acl: Acl,
}

fn key(oid: u32) -> String {
    format!("{KEPT}{oid}")
}

/// The privileges on an object, where somebody has changed them.
pub(crate) fn kept(txn: &mut Transaction, oid: u32) -> Result<Option<Acl>> {
    Ok(txn.catalog().kept(&key(oid))?.map(|text| Acl::decode(&text)))
}

/// Those of all objects, by number.
pub(crate) fn all_kept(txn: &mut Transaction) -> Result<Vec<(u32, Acl)>> {
    let one = |kept: rightlink::KeptText| {
        let oid = kept.name[KEPT.len()..].parse().ok()?;
        Some((oid, Acl::decode(&kept.text)))
    };
    Ok(txn.catalog().kept_from(KEPT)?.into_iter().filter_map(one).collect())
}

/// Keeps the privileges on an object; `None`: the usual ones.
pub(crate) fn keep(txn: &mut Transaction, oid: u32, acl: Option<&Acl>) -> Result<()> {
    let text = acl.map(Acl::encode);
    Ok(txn.catalog().keep(&key(oid), text.as_deref())?)
}

/// An object is gone.
pub(crate) fn forget(txn: &mut Transaction, oid: u32) -> Result<()> {
    match txn.catalog().kept(&key(oid))? {
        Some(_) => keep(txn, oid, None),
        None => Ok(()),
    }
}

impl Made {
    fn key(self) -> String {
        let Made { role, schema, kind } = self;
        format!("{DEFAULTS}{role} {schema} {}", kind.noun())
    }
}

/// The privileges of new objects of a kind, if a role has said so.
pub(crate) fn default_of(txn: &mut Transaction, made: Made) -> Result<Option<Acl>> {
    let kept = txn.catalog().kept(&made.key())?;
    Ok(kept.map(|text| Acl::decode(&text)))
}

/// Keeps the privileges of new objects; `None`: the usual ones.
pub(crate) fn keep_default(txn: &mut Transaction, made: Made, acl: Option<&Acl>) -> Result<()> {
    let text = acl.map(Acl::encode);
    Ok(txn.catalog().keep(&made.key(), text.as_deref())?)
}

/// Has any role said what its new objects have?
pub(crate) fn has_defaults(txn: &mut Transaction) -> Result<bool> {
    Ok(!txn.catalog().kept_from(DEFAULTS)?.is_empty())
}

/// What all roles have said about new objects.
pub(crate) fn all_defaults(txn: &mut Transaction) -> Result<Vec<DefaultAcl>> {
    let one = |kept: rightlink::KeptText| {
        let mut words = kept.name[DEFAULTS.len()..].split(' ');
        let (role, schema) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let noun = words.next()?;
        let kind = ObjectKind::ALL.into_iter().find(|kind| kind.noun() == noun)?;
        let of = Made { role, schema, kind };
        Some(DefaultAcl { of, acl: Acl::decode(&kept.text) })
    };
    Ok(txn.catalog().kept_from(DEFAULTS)?.into_iter().filter_map(one).collect())
}

/// What an actor may do to an object.
pub(crate) fn allowed(txn: &mut Transaction, actor: &Actor, of: Owned) -> Result<Privileges> {
    if actor.is_superuser {
        return Ok(of.kind.privileges());
    }
    let acl = kept(txn, of.oid)?.unwrap_or_else(|| usual(of));
    Ok(allowed_by(actor, of.kind, &acl))
}

/// What an actor may do to an object with these privileges on it.
pub(crate) fn allowed_by(actor: &Actor, kind: ObjectKind, acl: &Acl) -> Privileges {
    match actor.is_superuser {
        true => kind.privileges(),
        false => with_predefined(acl.of_roles(|role| actor.has_privileges_of(role)), actor, kind),
    }
}

/// The usual privileges on an object; everybody may use what is in `public`.
pub(crate) fn usual(of: Owned) -> Acl {
    let Owned { kind, oid, owner } = of;
    let acl = Acl::usual(kind, owner);
    if kind != ObjectKind::Schema || oid != PUBLIC_OID {
        return acl;
    }
    let (privileges, options) = (Privileges::USAGE, Privileges::NONE);
    let of_everybody = Item { grantee: EVERYBODY, grantor: owner, privileges, options };
    Acl::of(acl.items().iter().copied().chain([of_everybody]).collect())
}

/// What predefined roles add.
fn with_predefined(own: Privileges, actor: &Actor, kind: ObjectKind) -> Privileges {
    let (mut all, kinds) = (own, kind.privileges());
    let writes = Privileges::INSERT.and(Privileges::UPDATE).and(Privileges::DELETE);
    if actor.has_privileges_of(READ_ALL_DATA) {
        let reads = if kind == ObjectKind::Schema { Privileges::USAGE } else { Privileges::SELECT };
        all = all.and(reads.within(kinds));
    }
    if actor.has_privileges_of(WRITE_ALL_DATA) {
        let writes = if kind == ObjectKind::Schema { Privileges::USAGE } else { writes };
        all = all.and(writes.within(kinds));
    }
    all
}

/// Fails unless an actor has what is needed of an object.
pub(crate) fn check(txn: &mut Transaction, actor: &Actor, need: &Need) -> Result<()> {
    if actor.is_superuser {
        return Ok(());
    }
    let found = match &need.of {
        Object::Known(of) => Some(*of),
        Object::Sequence { stored, owner: None } => sequence(txn, stored)?,
        Object::Sequence { stored, owner: Some(owner) } => {
            let numbers = match txn.numbers(stored) {
                Ok(numbers) => numbers,
                Err(rightlink::Error::NotFound(_)) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            let (kind, oid) = (ObjectKind::Sequence, relation_oid(numbers.id()));
            Some(Owned { kind, oid, owner: *owner })
        }
        Object::Schema(name) => schema(txn, name)?,
    };
    // What is not there is no matter of privileges.
    let Some(of) = found else { return Ok(()) };
    let has = allowed(txn, actor, of)?;
    let fits = match need.any {
        true => has.has_any(need.privileges),
        false => has.has_all(need.privileges),
    };
    if fits { Ok(()) } else { Err(denied(need.noun, &need.name)) }
}

/// A schema; `None`: it is not there, or nobody makes anything in it.
pub(crate) fn schema(txn: &mut Transaction, name: &str) -> Result<Option<Owned>> {
    let kind = ObjectKind::Schema;
    if name == PUBLIC {
        return Ok(Some(Owned { kind, oid: PUBLIC_OID, owner: DATABASE_OWNER }));
    }
    if CATALOGS.contains(&name) {
        return Ok(None);
    }
    match txn.catalog().describe(&mark(name)) {
        Ok(info) => {
            let owner = owner_of(&info.note).unwrap_or(OWNER);
            Ok(Some(Owned { kind, oid: relation_oid(info.id), owner }))
        }
        Err(rightlink::Error::NotFound(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A sequence, whose owner is that of its table where it belongs to a column; `None`: it is not
/// there.
pub(crate) fn sequence(txn: &mut Transaction, stored: &str) -> Result<Option<Owned>> {
    let numbers = match txn.numbers(stored) {
        Ok(numbers) => numbers,
        Err(rightlink::Error::NotFound(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let (kind, oid) = (ObjectKind::Sequence, relation_oid(numbers.id()));
    let owned = |owner: Option<u32>| Some(Owned { kind, oid, owner: owner.unwrap_or(OWNER) });
    let own = owner_of(&numbers.schema().note);
    if own.is_some() {
        return Ok(owned(own));
    }
    let mut all = txn.catalog().sequences()?.into_iter();
    let column = all.find(|known| known.schema.name == stored).and_then(|known| known.owner);
    let Some(column) = column else { return Ok(owned(None)) };
    let table = txn.catalog().definition(&column.table)?;
    Ok(owned(owner_of(&table.note)))
}

/// Fails unless the statement's actor has all that it needs, and owners of views what their queries
/// need.
pub(crate) fn check_all(txn: &mut Transaction, actor: &Actor, needs: &[Need]) -> Result<()> {
    let mut roles: Option<Roles> = None;
    for need in needs {
        let Some(role) = need.role else {
            check(txn, actor, need)?;
            continue;
        };
        let roles = match &mut roles {
            Some(roles) => roles,
            none => none.insert(Roles::load(txn)?),
        };
        let owner = roles.numbered(role).map(|role| Actor::of(role, roles));
        match owner {
            Some(owner) => check(txn, &owner, need)?,
            None => return Err(denied(need.noun, &need.name)),
        }
    }
    Ok(())
}

/// The error for somebody who lacks a privilege.
pub(crate) fn denied(noun: &str, name: &str) -> SqlError {
    let message = format!("permission denied for {noun} {name}");
    SqlError::new(code::INSUFFICIENT_PRIVILEGE, message)
}

/// The error for somebody who does not own an object.
pub(crate) fn not_owner(noun: &str, name: &str) -> SqlError {
    let message = format!("must be owner of {noun} {name}");
    SqlError::new(code::INSUFFICIENT_PRIVILEGE, message)
}

/// The error for something that a role may not do.
pub(crate) fn denied_to(what: &str) -> SqlError {
    SqlError::new(code::INSUFFICIENT_PRIVILEGE, format!("permission denied to {what}"))
}

/// The error for something that asks for a role of another kind.
pub(crate) fn must(what: &str) -> SqlError {
    SqlError::new(code::INSUFFICIENT_PRIVILEGE, format!("must {what}"))
}
