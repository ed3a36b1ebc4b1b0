//! Whether a document contains another, or has a key.
//!
//! Invariants: as PostgreSQL's `JsonbDeepContains`: order and repetition of items say nothing.
//! Does not do: paths.

use super::{document, list, text};
use crate::error::Result;
use crate::expr::Context;
use crate::expr::function::{Eval, Registry};
use crate::types::json::{Jsonb, Node};
use crate::types::{Datum, SqlType};

/// Adds them.
pub(super) fn register(registry: &mut Registry) {
    use SqlType as T;
    for (names, eval) in [
        (["@>", "jsonb_contains"], (|v, context| contained(v, [0, 1], context)) as Eval),
        (["<@", "jsonb_contained"], |v, context| contained(v, [1, 0], context)),
    ] {
        for name in names {
            registry.add(name, &[T::Jsonb, T::Jsonb], T::Bool, eval);
        }
    }
    for name in ["?", "jsonb_exists"] {
        registry.add(name, &[T::Jsonb, T::Text], T::Bool, |v, _| {
            Ok(Datum::Bool(has(document(v, 0), text(v, 1))))
        });
    }
    for name in ["?|", "jsonb_exists_any"] {
        registry.add(name, &[T::Jsonb, T::texts()], T::Bool, |v, _| {
            Ok(Datum::Bool(list(v, 1).flatten().any(|key| has(document(v, 0), key))))
        });
    }
    for name in ["?&", "jsonb_exists_all"] {
        registry.add(name, &[T::Jsonb, T::texts()], T::Bool, |v, _| {
            Ok(Datum::Bool(list(v, 1).flatten().all(|key| has(document(v, 0), key))))
        });
    }
}

fn contained(values: &[Datum], [whole, part]: [usize; 2], context: &Context) -> Result<Datum> {
    let (whole, part) = (document(values, whole).node(), document(values, part).node());
    let found = match (whole, part) {
        (Node::Object(_), Node::Object(_)) | (Node::Array(_), Node::Array(_)) => {
            contains(whole, part, context)?
        }
        (Node::Object(_), _) | (_, Node::Object(_) | Node::Array(_)) => false,
        // A scalar is an array of one.
        (Node::Array(items), scalar) => items.iter().any(|item| is_equal(item, scalar)),
        (whole, part) => is_equal(whole, part),
    };
    Ok(Datum::Bool(found))
}

fn is_equal(a: Node<'_>, b: Node<'_>) -> bool {
    a.compare(&b).is_eq()
}

fn contains(whole: Node<'_>, part: Node<'_>, context: &Context) -> Result<bool> {
    match (whole, part) {
        (Node::Object(whole), Node::Object(part)) => {
            for (key, value) in part.iter() {
                context.spend(1)?;
                match whole.get(key) {
                    Some(own) if contains(own, value, context)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        (Node::Array(whole), Node::Array(part)) => {
            for wanted in part.iter() {
                let mut found = false;
                for item in whole.iter() {
                    context.spend(1)?;
                    found = contains(item, wanted, context)?;
                    if found {
                        break;
                    }
                }
                if !found {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (whole, part) => Ok(is_equal(whole, part)),
    }
}

/// Has an object this key, or an array this string?
fn has(document: &Jsonb, key: &str) -> bool {
    let is_key = |node: Node<'_>| matches!(node, Node::String(text) if text == key);
    match document.node() {
        Node::Object(fields) => fields.get(key).is_some(),
        Node::Array(items) => items.iter().any(is_key),
        scalar => is_key(scalar),
    }
}
