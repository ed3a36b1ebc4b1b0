//! What roles may do, as functions tell it: `has_table_privilege` and its kind, `pg_has_role`.
//!
//! Invariants: an object that is not there gives null where it was named by number, and an error
//! where it was named by name.
//! Does not do: functions, languages, types and tablespaces, which everybody may use.

use super::Context;
use super::catalog::{asked, oid, reading};
use super::function::{Eval, Registry};
use super::operators::mismatch;
use super::sequences::{Ask, not_a_sequence};
use crate::catalog::{DATABASE, Objects};
use crate::error::{Result, SqlError, code};
use crate::names::bare;
use crate::privileges::{ObjectKind, Privileges};
use crate::roles::acl::Acl;
use crate::roles::actor::Actor;
use crate::roles::need::Owned;
use crate::roles::role::OWNER;
use crate::types::{Array, Datum, ElementType, RegKind, SqlType};

/// A privilege that is asked for.
struct Wanted {
    privilege: Privileges,
    /// May it be passed on?
    option: bool,
}

/// Adds them.
pub(super) fn register(registry: &mut Registry) {
    use SqlType as T;
    let families: [(&str, usize, Eval); 7] = [
        ("has_table_privilege", 2, |v, c| of_relation(v, c, ObjectKind::Table)),
        ("has_any_column_privilege", 2, |v, c| of_relation(v, c, ObjectKind::Table)),
        ("has_sequence_privilege", 2, |v, c| of_relation(v, c, ObjectKind::Sequence)),
        ("has_column_privilege", 3, of_column),
        ("has_schema_privilege", 2, of_schema),
        ("has_database_privilege", 2, of_database),
        ("pg_has_role", 2, of_role),
    ];
    for (name, least, eval) in families {
        for count in [least, least + 1] {
            reading(registry, name, &vec![T::Unknown; count], T::Bool, eval);
        }
    }
    for name in [
        "has_function_privilege",
        "has_type_privilege",
        "has_language_privilege",
        "has_tablespace_privilege",
        "has_foreign_data_wrapper_privilege",
        "has_server_privilege",
    ] {
        for count in [2, 3] {
            registry.add(name, &vec![T::Unknown; count], T::Bool, |_, _| Ok(Datum::Bool(true)));
        }
    }
    let relation = T::Reg(RegKind::Class);
    registry.add("row_security_active", &[relation], T::Bool, |_, _| Ok(Datum::Bool(false)));
    reading(registry, "acldefault", &[T::Char, T::Oid], SqlType::texts(), |v, context| {
        let owner = oid(&v[1]);
        let kind = match &v[0] {
            Datum::Char(b'r') => Some(ObjectKind::Table),
            Datum::Char(b's') => Some(ObjectKind::Sequence),
            Datum::Char(b'n') => Some(ObjectKind::Schema),
            Datum::Char(b'd') => Some(ObjectKind::Database),
            _ => None,
        };
        asked(context, |objects, _| match kind {
            Some(kind) => Ok(objects.acl_texts(&Acl::usual(kind, owner))),
            None => {
                let name = objects.role_named_by(owner, &context.user);
                usual_of_others(&v[0], &name.unwrap_or_else(|| owner.to_string()))
            }
        })
    });
}

/// The privileges that an object of a kind begins with on which none are given here.
fn usual_of_others(kind: &Datum, owner: &str) -> Result<Datum> {
    let (of_owner, of_all) = match kind {
        Datum::Char(b'T' | b'l') => ("U", "U"),
        Datum::Char(b'f') => ("X", "X"),
        Datum::Char(b'S' | b'F') => ("U", ""),
        Datum::Char(b't') => ("C", ""),
        Datum::Char(b'L') => ("rw", ""),
        Datum::Char(b'p') => ("sA", ""),
        Datum::Char(b'c') => ("", ""),
        other => {
            let letter = other.to_text().unwrap_or_default();
            let message = format!("unrecognized objtype abbreviation: {letter}");
            return Err(SqlError::new(code::INTERNAL, message));
        }
    };
    let given = |role: &str, privileges: &str| {
        let item = format!("{role}={privileges}/{owner}");
        (!privileges.is_empty()).then_some(Datum::Text(item))
    };
    let items = [given("", of_all), given(owner, of_owner)].into_iter().flatten().collect();
    let element = ElementType::of(SqlType::Text).expect("texts are elements");
    Ok(Array::of(element, items)?.into())
}

/// The role in front of the arguments, or the one that asks; `None`: a number that none has.
fn subject(
    args: &[Datum],
    rest: usize,
    objects: &Objects,
    context: &Context,
) -> Result<Option<Actor>> {
    if args.len() <= rest {
        return Ok(Some(objects.actor_named(&context.user)));
    }
    match &args[0] {
        // Nobody is a member of everybody.
        Datum::Text(name) if name == "public" => Ok(Some(Actor::of_everybody())),
        Datum::Text(name) => {
            let number = objects.role_number(name, &context.user);
            let number = number.ok_or_else(|| crate::roles::role::no_role(name))?;
            Ok(objects.actor(number, &context.user))
        }
        other => Ok(objects.actor(oid(other), &context.user)),
    }
}

/// The name of the sequence of this number.
///
/// # Errors
/// There is none, or the role that asks has not the privileges to ask this.
pub(super) fn sequence_to_ask(number: u32, ask: Ask, context: &Context) -> Result<String> {
    asked(context, |objects, _| {
        let none = || {
            let message = format!("could not open relation with OID {number}");
            SqlError::new(code::UNDEFINED_TABLE, message)
        };
        let name = objects.stored_name(number).ok_or_else(none)?.to_owned();
        let of = objects.owned(number).ok_or_else(none)?;
        if of.kind != ObjectKind::Sequence {
            return Err(not_a_sequence(&name));
        }
        let allowed = objects.allowed(&objects.actor_named(&context.user), of).privileges;
        match allowed.has_any(ask.privileges()) {
            true => Ok(name),
            false => {
                let message = format!("permission denied for sequence {}", bare(&name));
                Err(SqlError::new(code::INSUFFICIENT_PRIVILEGE, message))
            }
        }
    })
}

/// The privileges that a text names, one of which is enough.
fn wanted(text: &Datum, kind: ObjectKind, with_options: bool) -> Result<Vec<Wanted>> {
    let Datum::Text(text) = text else { return Err(no_text()) };
    let mut all = Vec::new();
    for part in text.split(',') {
        let upper = part.trim().to_ascii_uppercase();
        let (word, option) = match upper.strip_suffix(" WITH GRANT OPTION") {
            Some(word) if with_options => (word.trim_end(), true),
            _ => (upper.as_str(), false),
        };
        let known = Privileges::named(word).filter(|one| kind.privileges().has_all(*one));
        let Some(privilege) = known else {
            let message = format!("unrecognized privilege type: \"{}\"", part.trim());
            return Err(SqlError::new(code::INVALID_PARAMETER, message));
        };
        all.push(Wanted { privilege, option });
    }
    Ok(all)
}

fn no_text() -> SqlError {
    SqlError::new(code::INVALID_PARAMETER, "a privilege is a text")
}

fn has(objects: &Objects, actor: &Actor, of: Owned, wanted: &[Wanted]) -> Datum {
    let allowed = objects.allowed(actor, of);
    let holds = |one: &Wanted| match one.option {
        true => allowed.options.has_all(one.privilege),
        false => allowed.privileges.has_all(one.privilege),
    };
    Datum::Bool(wanted.iter().any(holds))
}

fn of_relation(args: &[Datum], context: &Context, kind: ObjectKind) -> Result<Datum> {
    of_relation_at(args, args.len().saturating_sub(2), context, kind)
}

/// The columns of a table have its privileges.
fn of_column(args: &[Datum], context: &Context) -> Result<Datum> {
    let at = args.len().saturating_sub(3);
    let without: Vec<Datum> = args
        .iter()
        .enumerate()
        .filter(|(place, _)| *place != at + 1)
        .map(|(_, v)| v.clone())
        .collect();
    of_relation_at(&without, at, context, ObjectKind::Table)
}

fn of_relation_at(args: &[Datum], at: usize, context: &Context, kind: ObjectKind) -> Result<Datum> {
    asked(context, |objects, asking| {
        let number = match &args[at] {
            Datum::Text(name) => objects.relation(name, asking)?,
            other => oid(other),
        };
        let Some(actor) = subject(args, 2, objects, context)? else { return Ok(Datum::Null) };
        let wanted = wanted(&args[at + 1], kind, true)?;
        match objects.owned(number) {
            Some(of) => {
                if kind == ObjectKind::Sequence && of.kind != ObjectKind::Sequence {
                    let name =
                        objects.stored_name(number).map_or(String::new(), crate::names::said);
                    let message = format!("\"{name}\" is not a sequence");
                    return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message));
                }
                Ok(has(objects, &actor, of, &wanted))
            }
            None if objects.has_relation(number) => {
                let given = objects.allowed_of_system(&actor, number);
                let has = |one: &Wanted| given.has_all(one.privilege) && !one.option;
                Ok(Datum::Bool(actor.is_superuser || wanted.iter().any(has)))
            }
            None => Ok(Datum::Null),
        }
    })
}

fn of_schema(args: &[Datum], context: &Context) -> Result<Datum> {
    let at = args.len().saturating_sub(2);
    asked(context, |objects, _| {
        let number = match &args[at] {
            Datum::Text(name) => {
                let found = objects.schema_named(name);
                found.ok_or_else(|| crate::schemas::no_schema(name))?
            }
            other => oid(other),
        };
        let Some(actor) = subject(args, 2, objects, context)? else { return Ok(Datum::Null) };
        let wanted = wanted(&args[at + 1], ObjectKind::Schema, true)?;
        if objects.schema_name(number).is_none() {
            return Ok(Datum::Null);
        }
        let Some(of) = objects.owned_schema(number) else {
            let uses = |one: &Wanted| one.privilege == Privileges::USAGE && !one.option;
            return Ok(Datum::Bool(actor.is_superuser || wanted.iter().any(uses)));
        };
        Ok(has(objects, &actor, of, &wanted))
    })
}

fn of_database(args: &[Datum], context: &Context) -> Result<Datum> {
    let at = args.len().saturating_sub(2);
    asked(context, |objects, _| {
        match &args[at] {
            Datum::Text(name) if **name != *context.database => {
                let message = format!("database \"{name}\" does not exist");
                return Err(SqlError::new(code::INVALID_DATABASE, message));
            }
            Datum::Text(_) => {}
            other if oid(other) != DATABASE => return Ok(Datum::Null),
            _ => {}
        }
        let Some(actor) = subject(args, 2, objects, context)? else { return Ok(Datum::Null) };
        let wanted = wanted(&args[at + 1], ObjectKind::Database, true)?;
        let of = Owned { kind: ObjectKind::Database, oid: DATABASE, owner: OWNER };
        Ok(has(objects, &actor, of, &wanted))
    })
}

/// `pg_has_role`
fn of_role(args: &[Datum], context: &Context) -> Result<Datum> {
    let at = args.len().saturating_sub(2);
    asked(context, |objects, _| {
        let number = match &args[at] {
            Datum::Text(name) => {
                let found = objects.role_number(name, &context.user);
                found.ok_or_else(|| crate::roles::role::no_role(name))?
            }
            other => oid(other),
        };
        let Some(actor) = subject(args, 2, objects, context)? else { return Ok(Datum::Null) };
        let Datum::Text(text) = &args[at + 1] else { return mismatch(args) };
        let mut holds = false;
        for part in text.split(',') {
            holds |= match part.trim().to_ascii_uppercase().as_str() {
                "USAGE" => actor.has_privileges_of(number),
                "MEMBER" => actor.is_member_of(number),
                "USAGE WITH GRANT OPTION"
                | "USAGE WITH ADMIN OPTION"
                | "MEMBER WITH GRANT OPTION"
                | "MEMBER WITH ADMIN OPTION" => objects.is_admin(&actor, number),
                _ => {
                    let message = format!("unrecognized privilege type: \"{}\"", part.trim());
                    return Err(SqlError::new(code::INVALID_PARAMETER, message));
                }
            };
        }
        Ok(Datum::Bool(holds))
    })
}
