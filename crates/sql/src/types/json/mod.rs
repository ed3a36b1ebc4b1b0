//! JSON documents: the types `json` and `jsonb`, as PostgreSQL 15 has them.
//!
//! | file | hides |
//! |---|---|
//! | `parse` | reading a text, with PostgreSQL's complaints |
//! | `parts` | the texts of the members of a text that is known to be sound |
//! | `path`, `path_text` | paths of SQL/JSON: the type `jsonpath` |
//! | `binary` | the form in which a `jsonb` is kept, found a way in and compared |
//!
//! A `json` is its text as it was written; a `jsonb` has lost blanks, the order of its keys, and
//! all but the last of those that are equal.
//!
//! Invariants: a document is at most [`MAX_DEPTH`] levels deep, so that whatever walks it may
//! recurse.
//! Does not do: operators and functions (`expr::json`).

mod binary;
mod parse;
mod parts;
pub(crate) mod path;
mod path_text;

use std::borrow::Cow;

pub use binary::Jsonb;
pub(crate) use binary::Node;
pub(crate) use parse::{check, parse};
pub(crate) use parts::{Parts, parts, unquoted};
pub use path::JsonPath;

use crate::error::{SqlError, code};

/// Most levels of arrays and objects in each other.
pub(crate) const MAX_DEPTH: usize = 512;

/// The error for a document of more than [`MAX_DEPTH`] levels.
pub(crate) fn too_deep() -> SqlError {
    SqlError::new(code::TOO_COMPLEX, "stack depth limit exceeded")
        .detail(format!("A JSON document has at most {MAX_DEPTH} levels."))
}

/// A document to be built or changed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json<'t> {
    Null,
    Bool(bool),
    /// As the text of a numeric.
    Number(Cow<'t, str>),
    String(Cow<'t, str>),
    Array(Vec<Json<'t>>),
    /// In any order; of equal keys the last counts.
    Object(Vec<(Cow<'t, str>, Json<'t>)>),
}

/// Bytes that a text takes at most while it is read: members of arrays and objects, with the room
/// that lists grow into.
pub(crate) fn bytes_to_read(text: &str) -> usize {
    let begins = |byte: &u8| matches!(byte, b',' | b'[' | b'{');
    let members = 1 + text.bytes().filter(|byte| begins(byte)).count();
    2 * members * size_of::<(Cow<'_, str>, Json<'_>)>()
}

/// Appends a string with quotes, as PostgreSQL's `escape_json` writes it.
pub(crate) fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}
