//! Members of documents: by key, by place, by path; how many there are, and of what kind.
//!
//! Invariants: a member that is missing is null.
//! Does not do: paths of SQL/JSON.

use super::{document, integer, list, text};
use crate::error::{Result, SqlError, code};
use crate::expr::Context;
use crate::expr::function::{Eval, Registry};
use crate::expr::operators::mismatch;
use crate::types::json::{Node, Parts, parts, unquoted};
use crate::types::{Datum, SqlType};

/// Adds them.
pub(super) fn register(registry: &mut Registry) {
    use SqlType as T;
    for ty in [T::Json, T::Jsonb] {
        registry.add("->", &[ty, T::Text], ty, |v, _| field(v, false));
        registry.add("->", &[ty, T::Int4], ty, |v, _| element(v, false));
        registry.add("->>", &[ty, T::Text], T::Text, |v, _| field(v, true));
        registry.add("->>", &[ty, T::Int4], T::Text, |v, _| element(v, true));
        registry.add("#>", &[ty, T::texts()], ty, |v, _| by_path(v, false));
        registry.add("#>>", &[ty, T::texts()], T::Text, |v, _| by_path(v, true));
    }
    let of_path: [(&'static str, SqlType, SqlType, Eval); 4] = [
        ("json_extract_path", T::Json, T::Json, |v, _| by_arguments(v, false)),
        ("jsonb_extract_path", T::Jsonb, T::Jsonb, |v, _| by_arguments(v, false)),
        ("json_extract_path_text", T::Json, T::Text, |v, _| by_arguments(v, true)),
        ("jsonb_extract_path_text", T::Jsonb, T::Text, |v, _| by_arguments(v, true)),
    ];
    for (name, ty, result, eval) in of_path {
        registry.add(name, &[ty, T::Text], result, eval).variadic = true;
    }
    registry.add("json_typeof", &[T::Json], T::Text, kind);
    registry.add("jsonb_typeof", &[T::Jsonb], T::Text, kind);
    registry.add("json_array_length", &[T::Json], T::Int4, length);
    registry.add("jsonb_array_length", &[T::Jsonb], T::Int4, length);
}

/// A member of a `json` as a value.
fn of_text(member: Option<&str>, as_text: bool) -> Result<Datum> {
    match member {
        None => Ok(Datum::Null),
        Some(text) if as_text => Ok(unquoted(text)?.map_or(Datum::Null, Datum::Text)),
        Some(text) => Ok(Datum::Json(text.to_owned())),
    }
}

/// A member of a `jsonb` as a value.
fn of_node(member: Option<Node<'_>>, as_text: bool) -> Result<Datum> {
    match member {
        None => Ok(Datum::Null),
        Some(node) if as_text => Ok(node.plain_text().map_or(Datum::Null, Datum::Text)),
        Some(node) => Ok(Datum::Jsonb(node.to_document())),
    }
}

/// `document -> key`
fn field(values: &[Datum], as_text: bool) -> Result<Datum> {
    let key = text(values, 1);
    match &values[0] {
        Datum::Json(whole) => of_text(text_field(parts(whole)?, key), as_text),
        Datum::Jsonb(whole) => of_node(node_field(whole.node(), key), as_text),
        _ => mismatch(values),
    }
}

/// `document -> place`
fn element(values: &[Datum], as_text: bool) -> Result<Datum> {
    let place = i64::from(integer(values, 1));
    match &values[0] {
        Datum::Json(whole) => of_text(text_element(parts(whole)?, place), as_text),
        // A scalar is an array of one.
        Datum::Jsonb(whole) => match whole.node() {
            Node::Object(_) => Ok(Datum::Null),
            Node::Array(_) => of_node(node_element(whole.node(), place), as_text),
            scalar => of_node(Some(scalar).filter(|_| matches!(place, 0 | -1)), as_text),
        },
        _ => mismatch(values),
    }
}

/// The value of a key, the last one if it is there twice.
fn text_field<'t>(whole: Parts<'t>, key: &str) -> Option<&'t str> {
    match whole {
        Parts::Object(fields) => {
            fields.into_iter().rev().find(|(known, _)| known == key).map(|(_, value)| value)
        }
        _ => None,
    }
}

fn node_field<'d>(node: Node<'d>, key: &str) -> Option<Node<'d>> {
    match node {
        Node::Object(fields) => fields.get(key),
        _ => None,
    }
}

/// Where in a list of `count` a place is that may be counted from the end.
pub(super) fn place_in(place: i64, count: usize) -> Option<usize> {
    let at = if place < 0 { place + count as i64 } else { place };
    usize::try_from(at).ok().filter(|at| *at < count)
}

fn text_element(whole: Parts<'_>, place: i64) -> Option<&str> {
    match whole {
        Parts::Array(items) => place_in(place, items.len()).map(|at| items[at]),
        _ => None,
    }
}

fn node_element(node: Node<'_>, place: i64) -> Option<Node<'_>> {
    match node {
        Node::Array(items) => place_in(place, items.len()).and_then(|at| items.get(at)),
        _ => None,
    }
}

/// `document #> path`
fn by_path(values: &[Datum], as_text: bool) -> Result<Datum> {
    let path: Option<Vec<&str>> = list(values, 1).collect();
    path.map_or(Ok(Datum::Null), |path| along(&values[0], &path, as_text))
}

fn by_arguments(values: &[Datum], as_text: bool) -> Result<Datum> {
    let path: Vec<&str> = (1..values.len()).map(|at| text(values, at)).collect();
    along(&values[0], &path, as_text)
}

fn along(whole: &Datum, path: &[&str], as_text: bool) -> Result<Datum> {
    match whole {
        Datum::Json(whole) => {
            let mut at = whole.as_str();
            for step in path {
                let next = match (parts(at)?, step.parse()) {
                    (fields @ Parts::Object(_), _) => text_field(fields, step),
                    (items @ Parts::Array(_), Ok(place)) => text_element(items, place),
                    _ => None,
                };
                let Some(next) = next else { return Ok(Datum::Null) };
                at = next;
            }
            of_text(Some(at), as_text)
        }
        Datum::Jsonb(whole) => {
            let mut at = Some(whole.node());
            for step in path {
                at = match (at, step.parse()) {
                    (Some(node @ Node::Object(_)), _) => node_field(node, step),
                    (Some(node @ Node::Array(_)), Ok(place)) => node_element(node, place),
                    _ => None,
                };
            }
            of_node(at, as_text)
        }
        other => mismatch(std::slice::from_ref(other)),
    }
}

fn kind(values: &[Datum], _: &Context) -> Result<Datum> {
    let name = match &values[0] {
        Datum::Jsonb(whole) => whole.node().kind(),
        Datum::Json(whole) => match whole.trim_start().as_bytes().first() {
            Some(b'{') => "object",
            Some(b'[') => "array",
            Some(b'"') => "string",
            Some(b't' | b'f') => "boolean",
            Some(b'n') => "null",
            _ => "number",
        },
        _ => mismatch(values),
    };
    Ok(Datum::Text(name.to_owned()))
}

fn length(values: &[Datum], _: &Context) -> Result<Datum> {
    const SCALAR: &str = "cannot get array length of a scalar";
    const NO_ARRAY: &str = "cannot get array length of a non-array";
    let length = match &values[0] {
        Datum::Json(whole) => match parts(whole)? {
            Parts::Array(items) => Ok(items.len()),
            Parts::Scalar(_) => Err(SCALAR),
            Parts::Object(_) => Err(NO_ARRAY),
        },
        _ => match document(values, 0).node() {
            Node::Array(items) => Ok(items.len()),
            Node::Object(_) => Err(NO_ARRAY),
            _ => Err(SCALAR),
        },
    };
    length.map(|length| Datum::Int4(length as i32)).map_err(refused)
}

pub(super) fn refused(message: impl Into<String>) -> SqlError {
    SqlError::new(code::INVALID_PARAMETER, message)
}

/// The items of an array, which are the rows of `json_array_elements` and its siblings.
///
/// # Errors
/// `22023` for a value that is no array; the message has `name`, that of the function.
pub(crate) fn elements(value: &Datum, as_text: bool, name: &str) -> Result<Vec<Datum>> {
    match value {
        Datum::Json(whole) => match parts(whole)? {
            Parts::Array(items) => {
                items.into_iter().map(|item| of_text(Some(item), as_text)).collect()
            }
            Parts::Object(_) => Err(refused(format!("cannot call {name} on a non-array"))),
            Parts::Scalar(_) => Err(refused(format!("cannot call {name} on a scalar"))),
        },
        Datum::Jsonb(whole) => match whole.node() {
            Node::Array(items) => items.iter().map(|item| of_node(Some(item), as_text)).collect(),
            Node::Object(_) => Err(refused("cannot extract elements from an object")),
            _ => Err(refused("cannot extract elements from a scalar")),
        },
        other => mismatch(std::slice::from_ref(other)),
    }
}

/// The keys of an object and their values.
///
/// # Errors
/// `22023` for a value that is no object; the message has `name`, that of the function.
pub(crate) fn fields(value: &Datum, as_text: bool, name: &str) -> Result<Vec<[Datum; 2]>> {
    match value {
        Datum::Json(whole) => match parts(whole)? {
            Parts::Object(fields) => {
                let pair = |(key, value): (String, &str)| {
                    Ok([Datum::Text(key), of_text(Some(value), as_text)?])
                };
                fields.into_iter().map(pair).collect()
            }
            Parts::Array(_) => Err(refused("cannot deconstruct an array as an object")),
            Parts::Scalar(_) => Err(refused("cannot deconstruct a scalar")),
        },
        Datum::Jsonb(whole) => match whole.node() {
            Node::Object(fields) => {
                let pair = |(key, value): (&str, Node<'_>)| {
                    Ok([Datum::Text(key.to_owned()), of_node(Some(value), as_text)?])
                };
                fields.iter().map(pair).collect()
            }
            _ => Err(refused(format!("cannot call {name} on a non-object"))),
        },
        other => mismatch(std::slice::from_ref(other)),
    }
}

/// The keys of an object.
///
/// # Errors
/// `22023` for a value that is no object; the message has `name`, that of the function.
pub(crate) fn keys(value: &Datum, name: &str) -> Result<Vec<Datum>> {
    let what = match value {
        Datum::Json(whole) => match parts(whole)? {
            Parts::Object(fields) => {
                return Ok(fields.into_iter().map(|(key, _)| Datum::Text(key)).collect());
            }
            Parts::Array(_) => "an array",
            Parts::Scalar(_) => "a scalar",
        },
        Datum::Jsonb(whole) => match whole.node() {
            Node::Object(fields) => {
                return Ok(fields.iter().map(|(key, _)| Datum::Text(key.to_owned())).collect());
            }
            Node::Array(_) => "an array",
            _ => "a scalar",
        },
        other => mismatch(std::slice::from_ref(other)),
    };
    Err(refused(format!("cannot call {name} on {what}")))
}
