//! What clients ask of PostgreSQL's catalogs, answered from what the store knows.
//!
//! | file | hides |
//! |---|---|
//! | `objects`, `type_objects` | tables, indexes, sequences and schemas; types; their numbers |
//! | `lookups` | names, numbers and definitions, as functions ask for them |
//! | `system_views` | the relations and their columns |
//! | `views` | which rows a relation has; settings and statistics |
//! | `relations`, `constraints`, `dependencies`, `types`, `shared` | rows of `pg_catalog` |
//! | `information` | rows of `information_schema` |
//! | `builtin`, `system_rows` | rows that are the same in every database; those about catalogs |
//! | `system_parts`, `system_indexes` | privileges, rules, comments and indexes of catalogs |
//! | `numbers` | numbers of objects, values of columns |
//! | `rules`, `sequences` | constraints; sequences, and the columns that they go with |
//! | `deparse`, `describe` | definitions in PostgreSQL's spelling; objects in words |
//! | `view_text`, `like` | the query of a view under the names of now; what LIKE copies |
//! | `column_statistics`, `figures` | what ANALYZE has found out; who does what, locks |
//! | `tuples`, `trees` | rows of functions about pages |
//!
//! A catalog is a relation of the planner (`system_views`). A statement that reads one, or calls a
//! function that does, looks at the store's catalog once, when it begins (`exec::source`); rows are
//! made of that when an operator asks for them.
//!
//! Invariants: all that a statement reads of catalogs is as its transaction saw it at one time.
//! Does not do: reading catalogs by their indexes, which are listed for clients alone.

mod builtin;
mod column_statistics;
mod constraints;
mod deparse;
mod dependencies;
mod describe;
mod figures;
mod functions;
mod generated;
mod information;
mod information_routines;
mod keywords;
mod like;
mod lookups;
mod numbers;
mod objects;
mod relations;
mod roles;
mod rules;
mod sequences;
mod shared;
mod system_indexes;
pub(crate) mod system_parts;
mod system_rows;
pub(crate) mod system_views;
mod trees;
mod tuples;
mod type_objects;
mod types;
mod view_text;
pub(crate) mod views;
mod zones;

use std::collections::HashSet;

use rightlink::{Database, IndexInfo, Transaction};

use crate::activity::Activity;
use crate::error::Result;
use crate::interrupt::CheckInterrupts;
use crate::names::PUBLIC;
use crate::parse::modes::TransactionModes;
use crate::settings::Settings;
use crate::types::Row;

pub(crate) use builtin::{
    BuiltIn, OperatorClass, class_named, function_of, functions_named, is_class_by_bytes,
    is_class_of,
};
pub(crate) use describe::Address;
pub(crate) use functions::{is_of_system, kept_call};
pub(crate) use like::Copied;
pub(crate) use lookups::{Asking, Sizes, no_object};
pub(crate) use numbers::{DATABASE, TABLESPACE, relation_oid};
pub(crate) use objects::{How, Objects};

/// The session that asks, and the server around it.
pub(crate) struct SessionInfo<'s> {
    /// None outside of any session.
    pub(crate) db: Option<&'s Database>,
    pub(crate) database: &'s str,
    pub(crate) user: &'s str,
    pub(crate) activity: &'s Activity,
    pub(crate) settings: &'s Settings,
    pub(crate) modes: TransactionModes,
    pub(crate) interrupts: &'s dyn CheckInterrupts,
    /// `None` unless the statement asks for it.
    pub(crate) listing: Option<&'s Listing>,
}

/// What a session tells of its own, for a statement that asks: rows of two catalogs.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) prepared_statements: Vec<Row>,
    pub(crate) cursors: Vec<Row>,
}

/// In front of the number of a unique index that stands for no constraint, in what is kept.
const NO_CONSTRAINT: &str = "no constraint ";

/// Notes that CREATE INDEX has made a unique index, which so stands for no constraint.
pub(crate) fn note_plain_index(txn: &mut Transaction, index: u32) -> Result<()> {
    Ok(txn.catalog().keep(&format!("{NO_CONSTRAINT}{index}"), Some("unique"))?)
}

/// Forgets what is noted of indexes that are gone.
pub(crate) fn forget_plain_indexes(txn: &mut Transaction, indexes: &[IndexInfo]) -> Result<()> {
    for index in indexes.iter().filter(|index| index.unique) {
        let key = format!("{NO_CONSTRAINT}{}", index.id);
        if txn.catalog().kept(&key)?.is_some() {
            txn.catalog().keep(&key, None)?;
        }
    }
    Ok(())
}

/// The numbers of unique indexes that stand for no constraint.
pub(crate) fn plain_indexes(txn: &mut Transaction) -> Result<HashSet<u32>> {
    let kept = txn.catalog().kept_from(NO_CONSTRAINT)?.into_iter();
    Ok(kept.filter_map(|one| one.name[NO_CONSTRAINT.len()..].parse().ok()).collect())
}

/// The name under which the comment on a schema is kept.
pub(crate) fn schema_comment_key(schema: &str) -> String {
    format!("comment on schema {schema}")
}

/// The comment on a schema.
fn schema_comment(txn: &mut Transaction, schema: &str) -> Result<Option<String>> {
    let kept = txn.catalog().kept(&schema_comment_key(schema))?;
    let standard = || (schema == PUBLIC).then(|| "standard public schema".to_owned());
    // An empty one was taken away.
    Ok(kept.or_else(standard).filter(|text| !text.is_empty()))
}
