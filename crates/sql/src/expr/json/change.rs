//! Documents with members more, fewer or others.
//!
//! Invariants: a document fits the memory budget before it is made.
//! Does not do: what subscripts that are assigned to may be (`bind::elements`).

use std::borrow::Cow;

use super::access::place_in;
use super::{check_fits, document, integer, list, text};
use crate::error::{Result, SqlError, code};
use crate::expr::Context;
use crate::expr::arrays::null_subscript;
use crate::expr::function::{Eval, Registry};
use crate::expr::operators::mismatch;
use crate::types::json::{
    Json, Jsonb, MAX_DEPTH, Node, Parts, parts, too_deep, unquoted, write_string,
};
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
        let missing = Missing::of(v.get(3));
        let change = Change::Set { value: document(v, 2).node().to_json(), missing };
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

/// What becomes of a member that is to be set and is not there.
#[derive(Clone, Copy, PartialEq)]
enum Missing {
    Left,
    /// It is made, if what it belongs to is there.
    Made,
    /// It is made in its place, with everything on the way to it.
    MadeWithPath,
}

impl Missing {
    /// As an argument of a function says, which is true if it is not given.
    fn of(create: Option<&Datum>) -> Missing {
        if create == Some(&Datum::Bool(false)) { Missing::Left } else { Missing::Made }
    }
}

/// What happens at the end of a path.
enum Change<'d> {
    Remove,
    Set { value: Json<'d>, missing: Missing },
    Insert { value: Json<'d>, after: bool },
}

impl Change<'_> {
    fn makes_path(&self) -> bool {
        matches!(self, Change::Set { missing: Missing::MadeWithPath, .. })
    }
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
    let adds = !matches!(change, Change::Remove | Change::Set { missing: Missing::Left, .. });
    if path.is_empty() || whole.node().count() == 0 && !adds {
        return Ok(values[0].clone());
    }
    let mut json = whole.node().to_json();
    walk(&mut json, &path, 0, change, context)?;
    built(json)
}

fn walk<'d>(
    json: &mut Json<'d>,
    path: &[Option<&'d str>],
    level: usize,
    change: Change<'d>,
    context: &Context,
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
                (Some(at), false) => {
                    return walk(&mut fields[at].1, path, level + 1, change, context);
                }
                (None, false) => {
                    let made = made_path(&path[level + 1..], change, context)?;
                    fields.extend(made.map(|made| (Cow::from(step), made)));
                }
                (at, true) => change_field(fields, at, step, change)?,
            }
        }
        Json::Array(items) => {
            let place: i32 = place_of(step).ok_or_else(|| {
                let position = level + 1;
                let message =
                    format!("path element at position {position} is not an integer: \"{step}\"");
                SqlError::new(code::INVALID_TEXT, message)
            })?;
            let at = place_in(i64::from(place), items.len());
            if change.makes_path() && at.is_none() {
                fill(items, place, level, context)?;
            }
            match (at, is_last) {
                (Some(at), false) => return walk(&mut items[at], path, level + 1, change, context),
                (None, false) => items.extend(made_path(&path[level + 1..], change, context)?),
                (at, true) => change_item(items, at, place < 0, change),
            }
        }
        _ if change.makes_path() => return Err(no_container()),
        _ => {}
    }
    Ok(())
}

/// The place in an array that a step of a path names.
fn place_of<T: std::str::FromStr>(step: &str) -> Option<T> {
    step.trim_start_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r']).parse().ok()
}

/// Nulls up to a place behind the last item.
fn fill(items: &mut Vec<Json<'_>>, place: i32, level: usize, context: &Context) -> Result<()> {
    let Ok(place) = usize::try_from(place) else {
        let position = level + 1;
        let message = format!("path element at position {position} is out of range: {place}");
        return Err(refused(message));
    };
    hold_nulls(place - items.len(), context)?;
    items.resize_with(place, || Json::Null);
    Ok(())
}

/// Counts nulls that are made, for as long as the document is.
fn hold_nulls(count: usize, context: &Context) -> Result<()> {
    context.spend(count)?;
    context.held.add_bytes(count.saturating_mul(size_of::<Json<'_>>()))
}

/// What has the new value at the end of these steps, if the way there is made.
fn made_path<'d>(
    path: &[Option<&'d str>],
    change: Change<'d>,
    context: &Context,
) -> Result<Option<Json<'d>>> {
    let Change::Set { value, missing: Missing::MadeWithPath } = change else { return Ok(None) };
    let mut made = value;
    for step in path.iter().flatten().rev() {
        made = match place_of::<i64>(step) {
            None => Json::Object(vec![(Cow::from(*step), made)]),
            Some(place) => {
                let nulls = usize::try_from(place).unwrap_or(0);
                hold_nulls(nulls, context)?;
                Json::Array((0..nulls).map(|_| Json::Null).chain([made]).collect())
            }
        };
    }
    Ok(Some(made))
}

fn no_container() -> SqlError {
    let detail = "The path assumes key is a composite object, but it is a scalar value.";
    refused("cannot replace existing key").detail(detail)
}

/// `document[key][place] = value`: the document or null, the value, and the subscripts.
pub(in crate::expr) fn set_member(values: &[Datum], context: &Context) -> Result<Datum> {
    let steps = &values[2..];
    let mut texts = Vec::with_capacity(steps.len());
    for step in steps {
        texts.push(match step {
            Datum::Text(key) => Cow::from(key),
            Datum::Null => return Err(null_subscript("jsonb")),
            place => Cow::from(integer(std::slice::from_ref(place), 0).to_string()),
        });
    }
    if steps.len() > MAX_DEPTH {
        return Err(too_deep());
    }
    let path: Vec<Option<&str>> = texts.iter().map(|text| Some(text.as_ref())).collect();
    check_fits(8 * values[..2].iter().map(Datum::heap_bytes).sum::<usize>(), context)?;
    let mut json = match &values[0] {
        Datum::Null if matches!(steps[0], Datum::Int4(_)) => Json::Array(Vec::new()),
        Datum::Null => Json::Object(Vec::new()),
        _ => document(values, 0).node().to_json(),
    };
    let value = match &values[1] {
        Datum::Null => Json::Null,
        _ => document(values, 1).node().to_json(),
    };
    let change = Change::Set { value, missing: Missing::MadeWithPath };
    walk(&mut json, &path, 0, change, context)?;
    built(json)
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
        (
            Change::Set { value, missing: Missing::Made | Missing::MadeWithPath }
            | Change::Insert { value, .. },
            None,
        ) => {
            fields.push((key.into(), value));
        }
        (Change::Remove | Change::Set { missing: Missing::Left, .. }, None) => {}
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
        (
            Change::Set { value, missing: Missing::Made | Missing::MadeWithPath }
            | Change::Insert { value, .. },
            None,
        ) => {
            items.insert(outside, value);
        }
        (Change::Remove | Change::Set { missing: Missing::Left, .. }, None) => {}
    }
}

/// `jsonb_set_lax`: as `jsonb_set`, with something to do where the new value is null.
fn set_lax(values: &[Datum], context: &Context) -> Result<Datum> {
    let is_null = |at: usize| values.get(at).is_some_and(Datum::is_null);
    if is_null(0) || is_null(1) || is_null(3) {
        return Ok(Datum::Null);
    }
    let missing = Missing::of(values.get(3));
    if !is_null(2) {
        let change = Change::Set { value: document(values, 2).node().to_json(), missing };
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
            at_path(values, Change::Set { value: Json::Null, missing }, "set path", context)
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
