//! Documents with members more, fewer or others.
//!
//! Invariants: a document fits the memory budget before it is made.
//! Does not do: subscripts that are assigned to.

use std::borrow::Cow;

use super::access::place_in;
use super::{check_fits, document, integer, list, text};
use crate::error::{Result, SqlError, code};
use crate::expr::Context;
use crate::expr::function::{Eval, Registry};
use crate::expr::operators::mismatch;
use crate::types::json::{Json, Jsonb, Node, Parts, parts, unquoted, write_string};
use crate::types::{Datum, SqlType};

/// Adds them.
pub(super) fn register(registry: &mut Registry) {
    use SqlType as T;
    for name in ["||", "jsonb_concat"] {
        registry.add(name, &[T::Jsonb, T::Jsonb], T::Jsonb, concat);
    }
    for name in ["-", "jsonb_delete"] {
        registry.add(name, &[T::Jsonb, T::Text], T::Jsonb, |v, context| {
            without(document(v, 0), &[text(v, 1)], context)
        });
        registry.add(name, &[T::Jsonb, T::Int4], T::Jsonb, without_place);
        registry.add(name, &[T::Jsonb, T::texts()], T::Jsonb, |v, context| {
            without(document(v, 0), &list(v, 1).flatten().collect::<Vec<_>>(), context)
        });
    }
    for name in ["#-", "jsonb_delete_path"] {
        registry.add(name, &[T::Jsonb, T::texts()], T::Jsonb, |v, context| {
            at_path(v, Change::Remove, "delete path", context)
        });
    }
    let set: Eval = |v, context| {
        let create = v.get(3) != Some(&Datum::Bool(false));
        let change = Change::Set { value: document(v, 2).node().to_json(), create };
        at_path(v, change, "set path", context)
    };
    let insert: Eval = |v, context| {
        let after = v.get(3) == Some(&Datum::Bool(true));
        let change = Change::Insert { value: document(v, 2).node().to_json(), after };
        at_path(v, change, "set path", context)
    };
    for (name, eval) in [("jsonb_set", set), ("jsonb_insert", insert)] {
        registry.add(name, &[T::Jsonb, T::texts(), T::Jsonb], T::Jsonb, eval);
        registry.add(name, &[T::Jsonb, T::texts(), T::Jsonb, T::Bool], T::Jsonb, eval);
    }
    for count in 3..=5 {
        let args = &[T::Jsonb, T::texts(), T::Jsonb, T::Bool, T::Text][..count];
        registry.add("jsonb_set_lax", args, T::Jsonb, set_lax).strict = false;
    }
    registry.add("jsonb_strip_nulls", &[T::Jsonb], T::Jsonb, |v, _| {
        built(stripped(document(v, 0).node()))
    });
    registry.add("json_strip_nulls", &[T::Json], T::Json, |v, _| {
        let mut out = String::new();
        write_stripped(text(v, 0), &mut out)?;
        Ok(Datum::Json(out))
    });
    registry.add("jsonb_pretty", &[T::Jsonb], T::Text, pretty);
}

fn refused(message: impl Into<String>) -> SqlError {
    SqlError::new(code::INVALID_PARAMETER, message)
}

fn built(json: Json<'_>) -> Result<Datum> {
    Jsonb::build(json).map(Datum::Jsonb)
}

fn is_scalar(node: Node<'_>) -> bool {
    !matches!(node, Node::Array(_) | Node::Object(_))
}

/// `a || b`: fields of two objects, else items of two arrays, where all else is an item.
fn concat(values: &[Datum], context: &Context) -> Result<Datum> {
    let (a, b) = (document(values, 0), document(values, 1));
    check_fits(8 * (a.len() + b.len()), context)?;
    built(match (a.node().to_json(), b.node().to_json()) {
        (Json::Object(mut fields), Json::Object(more)) => {
            fields.extend(more);
            Json::Object(fields)
        }
        (a, b) => {
            let items = |json| match json {
                Json::Array(items) => items,
                other => vec![other],
            };
            let mut all = items(a);
            all.extend(items(b));
            Json::Array(all)
        }
    })
}

/// Without these keys, or without items that are these strings.
fn without(document: &Jsonb, keys: &[&str], context: &Context) -> Result<Datum> {
    check_fits(8 * document.len(), context)?;
    let is_named = |text: &str| keys.contains(&text);
    match document.node().to_json() {
        Json::Object(mut fields) => {
            fields.retain(|(key, _)| !is_named(key));
            built(Json::Object(fields))
        }
        Json::Array(mut items) => {
            items.retain(|item| !matches!(item, Json::String(text) if is_named(text)));
            built(Json::Array(items))
        }
        _ => Err(refused("cannot delete from scalar")),
    }
}

fn without_place(values: &[Datum], context: &Context) -> Result<Datum> {
    let (whole, place) = (document(values, 0), integer(values, 1));
    check_fits(8 * whole.len(), context)?;
    match whole.node().to_json() {
        Json::Array(mut items) => {
            if let Some(at) = place_in(i64::from(place), items.len()) {
                items.remove(at);
            }
            built(Json::Array(items))
        }
        Json::Object(_) => Err(refused("cannot delete from object using integer index")),
        _ => Err(refused("cannot delete from scalar")),
    }
}

/// What happens at the end of a path.
enum Change<'d> {
    Remove,
    Set { value: Json<'d>, create: bool },
    Insert { value: Json<'d>, after: bool },
}

/// Changes the first argument along the path that is the second.
fn at_path(values: &[Datum], change: Change<'_>, verb: &str, context: &Context) -> Result<Datum> {
    let whole = document(values, 0);
    let added = if let Some(Datum::Jsonb(value)) = values.get(2) { value.len() } else { 0 };
    check_fits(8 * (whole.len() + added), context)?;
    if is_scalar(whole.node()) {
        return Err(refused(format!("cannot {verb} in scalar")));
    }
    let path: Vec<Option<&str>> = list(values, 1).collect();
    // What adds nothing does not look at the path where there is nothing.
    let adds = !matches!(change, Change::Remove | Change::Set { create: false, .. });
    if path.is_empty() || whole.node().count() == 0 && !adds {
        return Ok(values[0].clone());
    }
    let mut json = whole.node().to_json();
    walk(&mut json, &path, 0, change)?;
    built(json)
}

fn walk<'d>(
    json: &mut Json<'d>,
    path: &[Option<&'d str>],
    level: usize,
    change: Change<'d>,
) -> Result<()> {
    let Some(step) = path[level] else {
        let message = format!("path element at position {} is null", level + 1);
        return Err(SqlError::new(code::NULL_NOT_ALLOWED, message));
    };
    let is_last = level + 1 == path.len();
    match json {
        Json::Object(fields) => {
            let at = fields.iter().position(|(key, _)| key == step);
            match (at, is_last) {
                (Some(at), false) => return walk(&mut fields[at].1, path, level + 1, change),
                (None, false) => {}
                (at, true) => change_field(fields, at, step, change)?,
            }
        }
        Json::Array(items) => {
            let place: i32 = step.parse().map_err(|_| {
                let position = level + 1;
                let message =
                    format!("path element at position {position} is not an integer: \"{step}\"");
                SqlError::new(code::INVALID_TEXT, message)
            })?;
            let at = place_in(i64::from(place), items.len());
            match (at, is_last) {
                (Some(at), false) => return walk(&mut items[at], path, level + 1, change),
                (None, false) => {}
                (at, true) => change_item(items, at, place < 0, change),
            }
        }
        _ => {}
    }
    Ok(())
}

fn change_field<'d>(
    fields: &mut Vec<(Cow<'d, str>, Json<'d>)>,
    at: Option<usize>,
    key: &'d str,
    change: Change<'d>,
) -> Result<()> {
    match (change, at) {
        (Change::Remove, Some(at)) => drop(fields.remove(at)),
        (Change::Set { value, .. }, Some(at)) => fields[at].1 = value,
        (Change::Insert { .. }, Some(_)) => {
            let hint = "Try using the function jsonb_set to replace key value.";
            return Err(refused("cannot replace existing key").hint(hint));
        }
        (Change::Set { value, create: true } | Change::Insert { value, .. }, None) => {
            fields.push((key.into(), value));
        }
        (Change::Remove | Change::Set { create: false, .. }, None) => {}
    }
    Ok(())
}

/// A place that is not there is before the first item or behind the last.
fn change_item<'d>(
    items: &mut Vec<Json<'d>>,
    at: Option<usize>,
    is_before: bool,
    change: Change<'d>,
) {
    let outside = if is_before { 0 } else { items.len() };
    match (change, at) {
        (Change::Remove, Some(at)) => drop(items.remove(at)),
        (Change::Set { value, .. }, Some(at)) => items[at] = value,
        (Change::Insert { value, after }, Some(at)) => items.insert(at + usize::from(after), value),
        (Change::Set { value, create: true } | Change::Insert { value, .. }, None) => {
            items.insert(outside, value);
        }
        (Change::Remove | Change::Set { create: false, .. }, None) => {}
    }
}

/// `jsonb_set_lax`: as `jsonb_set`, with something to do where the new value is null.
fn set_lax(values: &[Datum], context: &Context) -> Result<Datum> {
    let is_null = |at: usize| values.get(at).is_some_and(Datum::is_null);
    if is_null(0) || is_null(1) || is_null(3) {
        return Ok(Datum::Null);
    }
    let create = values.get(3) != Some(&Datum::Bool(false));
    if !is_null(2) {
        let change = Change::Set { value: document(values, 2).node().to_json(), create };
        return at_path(values, change, "set path", context);
    }
    let treatment = match values.get(4) {
        None => "use_json_null",
        Some(Datum::Text(treatment)) => treatment,
        Some(_) => "",
    };
    match treatment {
        "raise_exception" => {
            let error = SqlError::new(code::NULL_NOT_ALLOWED, "JSON value must not be null");
            let detail =
                "Exception was raised because null_value_treatment is \"raise_exception\".";
            let hint = "To avoid, either change the null_value_treatment argument or ensure that \
                        an SQL NULL is not passed.";
            Err(error.detail(detail).hint(hint))
        }
        "use_json_null" => {
            at_path(values, Change::Set { value: Json::Null, create }, "set path", context)
        }
        "delete_key" => at_path(values, Change::Remove, "delete path", context),
        "return_target" => Ok(values[0].clone()),
        _ => Err(refused(
            "null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", \
             or \"raise_exception\"",
        )),
    }
}

/// Without fields that are null, at any depth.
fn stripped(node: Node<'_>) -> Json<'_> {
    match node {
        Node::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !matches!(value, Node::Null));
            Json::Object(kept.map(|(key, value)| (key.into(), stripped(value))).collect())
        }
        Node::Array(items) => Json::Array(items.iter().map(stripped).collect()),
        scalar => scalar.to_json(),
    }
}

fn write_stripped(whole: &str, out: &mut String) -> Result<()> {
    match parts(whole)? {
        Parts::Object(fields) => {
            out.push('{');
            let kept = fields.into_iter().filter(|(_, value)| *value != "null");
            for (at, (key, value)) in kept.enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                write_string(&key, out);
                out.push(':');
                write_stripped(value, out)?;
            }
            out.push('}');
        }
        Parts::Array(items) => {
            out.push('[');
            for (at, item) in items.into_iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                write_stripped(item, out)?;
            }
            out.push(']');
        }
        Parts::Scalar(text) => match unquoted(text)? {
            Some(string) if text.starts_with('"') => write_string(&string, out),
            _ => out.push_str(text),
        },
    }
    Ok(())
}

/// `jsonb_pretty`
fn pretty(values: &[Datum], context: &Context) -> Result<Datum> {
    let Datum::Jsonb(whole) = &values[0] else { mismatch(values) };
    check_fits(2 * whole.len(), context)?;
    let mut out = String::new();
    write_pretty(whole.node(), 0, &mut out);
    Ok(Datum::Text(out))
}

fn write_pretty(node: Node<'_>, depth: usize, out: &mut String) {
    let line = |depth: usize, out: &mut String| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', 4 * depth));
    };
    match node {
        Node::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                line(depth + 1, out);
                write_pretty(item, depth + 1, out);
            }
            line(depth, out);
            out.push(']');
        }
        Node::Object(fields) => {
            out.push('{');
            for (at, (key, value)) in fields.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                line(depth + 1, out);
                write_string(key, out);
                out.push_str(": ");
                write_pretty(value, depth + 1, out);
            }
            line(depth, out);
            out.push('}');
        }
        scalar => scalar.write_text(out),
    }
}
