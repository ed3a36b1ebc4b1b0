//! Rules, privileges, comments and dependencies of what is there without being made.
//!
//! Invariants: the numbers are PostgreSQL's; the files name nothing that is not here; a relation
//! that not everybody may read is told so, and is not read (`bind::from`).
//! Does not do: rows about the relations themselves (`system_rows`), and indexes
//! (`system_indexes`).

use std::collections::HashMap;
use std::sync::OnceLock;

use super::builtin;
use super::numbers::{
    CATALOGS_OID, INFORMATION_OID, PG_CLASS, PG_NAMESPACE, PUBLIC_OID, char, oid, short, text,
    texts,
};
use super::objects::Objects;
use super::system_views::{self, Kind, Placed, View};
use crate::error::Result;
use crate::privileges::{ObjectKind, Privileges};
use crate::roles::acl::{Acl, EVERYBODY, Item};
use crate::roles::need::Owned;
use crate::roles::rights;
use crate::roles::role::{DATABASE_OWNER, OWNER, READ_ALL_STATS};
use crate::types::{Datum, Row};

/// The rows of a catalog about indexes, rules, privileges and dependencies of the system.
pub(super) fn of(kind: Kind, objects: &Objects) -> Result<Vec<Row>> {
    Ok(match kind {
        Kind::Rewrite => views().map(rule).collect(),
        Kind::Description => descriptions().map(Description::row).collect(),
        Kind::FirstPrivileges => first_privileges(objects),
        Kind::Depend => {
            builtin::rows(builtin::named("pg_depend"), include_str!("builtin/pg_depend.tsv"))?
        }
        _ => Vec::new(),
    })
}

/// The options that a view of the system has.
pub(super) fn options(view: &View) -> Datum {
    match view.name {
        "pg_stats" | "pg_stats_ext" | "pg_stats_ext_exprs" => {
            texts(vec!["security_barrier=true".to_owned()])
        }
        _ => Datum::Null,
    }
}

/// Views of the system.
fn views() -> impl Iterator<Item = Placed> {
    system_views::numbered().filter(|placed| !placed.view.told.is_table)
}

/// The rule of a view, which has the number behind those of its types.
fn rule(Placed { view, .. }: Placed) -> Row {
    let mut row = vec![oid(view.oid + 3), text("_RETURN"), oid(view.oid)];
    row.extend([char('1'), char('O'), Datum::Bool(true), text("<>"), text("")]);
    row
}

/// Who may do what to a relation of the system.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Access {
    /// Everybody reads it.
    Public,
    /// Everybody reads it, and changes settings through it.
    Settings,
    /// Roles read it that read all statistics.
    Statistics,
    /// Nobody has said anything of it.
    Unsaid,
    /// Passwords, values of tables that not everybody may read, and what the server is told.
    Secret,
}

fn access(name: &str) -> Access {
    match name {
        "pg_settings" => Access::Settings,
        "pg_backend_memory_contexts" | "pg_shmem_allocations" => Access::Statistics,
        "pg_authid"
        | "pg_config"
        | "pg_file_settings"
        | "pg_hba_file_rules"
        | "pg_ident_file_mappings"
        | "pg_largeobject"
        | "pg_replication_origin_status"
        | "pg_shadow"
        | "pg_statistic"
        | "pg_statistic_ext_data"
        | "pg_subscription"
        | "pg_user_mapping" => Access::Secret,
        // Views below those of `information_schema`, and the last of it.
        "transforms" => Access::Unsaid,
        name if name.starts_with("_pg_") => Access::Unsaid,
        _ => Access::Public,
    }
}

/// May everybody read a relation of the system? Of `pg_subscription` they may read single columns.
pub(crate) fn is_public(view: &View) -> bool {
    access(view.name) != Access::Secret || view.name == "pg_subscription"
}

/// The privileges on a relation of the system that somebody has said; `None`: its owner has all.
pub(super) fn acl(view: &View) -> Option<Acl> {
    let own = Acl::usual(ObjectKind::Table, OWNER);
    let read = Privileges::SELECT;
    let more = match access(view.name) {
        Access::Public => Some((EVERYBODY, read)),
        Access::Settings => Some((EVERYBODY, read.and(Privileges::UPDATE))),
        Access::Statistics => Some((READ_ALL_STATS, read)),
        Access::Secret => None,
        Access::Unsaid => return None,
    };
    Some(with(own, more))
}

/// The privileges on columns of `pg_subscription`, of which one is a secret.
fn acl_of_columns() -> Acl {
    let (privileges, options) = (Privileges::SELECT, Privileges::NONE);
    Acl::of(vec![Item { grantee: EVERYBODY, grantor: OWNER, privileges, options }])
}

/// The place of `attacl` in a row of `pg_attribute`, and the number of `pg_subscription` with the
/// column of it that is a secret.
const COLUMN_ACL: usize = 22;
const SUBSCRIPTIONS: u32 = 6100;
const SECRET_COLUMN: &str = "subconninfo";

/// The places of the columns of `pg_subscription` that everybody may read.
fn readable_columns() -> impl Iterator<Item = usize> {
    let view = system_views::of_oid(SUBSCRIPTIONS).expect("it is listed").view;
    let places = view.columns.iter().enumerate();
    places.filter(|(_, (name, _))| *name != SECRET_COLUMN).map(|(at, _)| at + 1)
}

/// Rows of `pg_attribute` with the privileges on columns.
pub(super) fn with_acls(mut rows: Vec<Row>, objects: &Objects) -> Vec<Row> {
    let shown = objects.acl_texts(&acl_of_columns());
    let readable: Vec<Datum> = readable_columns().map(short).collect();
    let is_of = |row: &&mut Row| row[0] == oid(SUBSCRIPTIONS) && readable.contains(&row[5]);
    rows.iter_mut().filter(is_of).for_each(|row| row[COLUMN_ACL] = shown.clone());
    rows
}

/// The privileges on a schema of the system.
pub(super) fn acl_of_schema(number: u32) -> Option<Acl> {
    let is_known = matches!(number, CATALOGS_OID | INFORMATION_OID);
    let own = Acl::usual(ObjectKind::Schema, OWNER);
    is_known.then(|| with(own, Some((EVERYBODY, Privileges::USAGE))))
}

/// A list with what somebody has from the owner.
fn with(own: Acl, more: Option<(u32, Privileges)>) -> Acl {
    let mut items = own.items().to_vec();
    items.extend(more.map(|(grantee, privileges)| {
        let options = Privileges::NONE;
        Item { grantee, grantor: OWNER, privileges, options }
    }));
    Acl::of(items)
}

/// Rows of `pg_init_privs`: privileges that were there at the beginning.
fn first_privileges(objects: &Objects) -> Vec<Row> {
    let row = |own: u32, catalog: u32, part: usize, acl: Datum| {
        vec![oid(own), oid(catalog), Datum::Int4(part as i32), char('i'), acl]
    };
    let public = Owned { kind: ObjectKind::Schema, oid: PUBLIC_OID, owner: DATABASE_OWNER };
    let public = Some(rights::usual(public));
    let schemas = [(CATALOGS_OID, acl_of_schema(CATALOGS_OID)), (PUBLIC_OID, public)];
    let mut rows = Vec::new();
    for (own, acl) in schemas {
        rows.extend(acl.map(|acl| row(own, PG_NAMESPACE, 0, objects.acl_texts(&acl))));
    }
    for Placed { view, .. } in system_views::numbered().filter(|placed| placed.is_visible()) {
        let acl = acl(view).map(|acl| objects.acl_texts(&acl));
        rows.extend(acl.map(|acl| row(view.oid, PG_CLASS, 0, acl)));
    }
    let of_columns = objects.acl_texts(&acl_of_columns());
    rows.extend(readable_columns().map(|at| row(SUBSCRIPTIONS, PG_CLASS, at, of_columns.clone())));
    rows
}

/// A comment on a type, function, operator or another object of the system.
#[derive(Clone, Copy)]
struct Description {
    catalog: u32,
    oid: u32,
    text: &'static str,
}

impl Description {
    fn row(self) -> Row {
        vec![oid(self.oid), oid(self.catalog), Datum::Int4(0), text(self.text)]
    }
}

fn descriptions() -> impl Iterator<Item = Description> {
    let one = |line: &'static str| {
        let mut fields = line.splitn(3, '\t');
        let mut next = || fields.next().expect("a line has three fields");
        let [catalog, oid] = [next(), next()].map(|one| one.parse().expect("a number"));
        Description { catalog, oid, text: next() }
    };
    include_str!("builtin/descriptions.tsv").lines().map(one)
}

/// The comment on an object of the system.
pub(super) fn description(number: u32, catalog: Option<u32>) -> Option<&'static str> {
    static TEXTS: OnceLock<HashMap<u32, Vec<Description>>> = OnceLock::new();
    let texts = TEXTS.get_or_init(|| {
        let mut texts: HashMap<u32, Vec<Description>> = HashMap::new();
        for one in descriptions() {
            texts.entry(one.oid).or_default().push(one);
        }
        texts
    });
    let mut all = texts.get(&number)?.iter();
    all.find(|one| catalog.is_none_or(|catalog| one.catalog == catalog)).map(|one| one.text)
}
