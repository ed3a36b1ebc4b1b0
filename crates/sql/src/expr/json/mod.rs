//! Operators and functions of JSON documents, as PostgreSQL 15 has them (`jsonfuncs.c`,
//! `jsonb_op.c`, `json.c`).
//!
//! | file | holds |
//! |---|---|
//! | `convert` | values of SQL as documents |
//! | `access` | members, by key, place and path; counts and kinds |
//! | `contain` | which document contains another |
//! | `change` | documents with members more, fewer or others |
//! | `build` | documents of arguments and arrays |
//! | `gather` | documents of many rows |
//! | `path` | what paths of SQL/JSON give |
//! | `rows` | members as columns |
//!
//! Invariants: a function of `json` gives members with the text that they have in it, one of
//! `jsonb` as `jsonb` prints them.
//! Does not do: rows (`exec::sets`), named composite types.

mod access;
mod build;
mod change;
mod contain;
mod convert;
mod gather;
pub(crate) mod path;
mod rows;

pub(crate) use access::{elements, fields, keys};
pub(super) use build::row_to_json;
pub(super) use change::set_member;
pub(crate) use gather::JsonAgg;
pub(crate) use rows::{OBJECT, of_member, populate};

use crate::error::Result;
use crate::expr::Context;
use crate::expr::function::Registry;
use crate::expr::operators::mismatch;
use crate::types::Datum;
use crate::types::json::Jsonb;

/// Adds them.
pub(super) fn register(registry: &mut Registry) {
    access::register(registry);
    contain::register(registry);
    change::register(registry);
    build::register(registry);
    path::register(registry);
    rows::register(registry);
}

fn document(values: &[Datum], at: usize) -> &Jsonb {
    match &values[at] {
        Datum::Jsonb(document) => document,
        _ => mismatch(values),
    }
}

fn text(values: &[Datum], at: usize) -> &str {
    match &values[at] {
        Datum::Text(text) | Datum::Json(text) => text,
        _ => mismatch(values),
    }
}

fn integer(values: &[Datum], at: usize) -> i32 {
    match &values[at] {
        Datum::Int4(number) => *number,
        _ => mismatch(values),
    }
}

/// The elements of an array of texts.
fn list(values: &[Datum], at: usize) -> impl Iterator<Item = Option<&str>> {
    let Datum::Array(array) = &values[at] else { mismatch(values) };
    array.values().iter().map(|value| match value {
        Datum::Text(text) => Some(text.as_str()),
        _ => None,
    })
}

/// Fails where a document of so many bytes does not fit the memory beside what is held.
fn check_fits(bytes: usize, context: &Context) -> Result<()> {
    context.spend(bytes / 64)?;
    context.held.check_fits(bytes)
}
