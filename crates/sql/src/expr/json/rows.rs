//! Members of documents as columns: what `json_to_record` and `json_to_recordset` ask of a member.
//!
//! Invariants: nesting of an array is bounded by its dimensions, and a document's by its parser.
//! Does not do: which columns there are (`bind::document_rows`).

use std::sync::OnceLock;

use super::access::refused;
use crate::error::{Result, SqlError, code};
use crate::expr::Context;
use crate::expr::function::{Function, Registry};
use crate::expr::operators::mismatch;
use crate::types::array::{MAX_DIMENSIONS, too_many_dimensions};
use crate::types::json::{Node, Parts, parts};
use crate::types::{Array, Datum, Dimension, ElementType, Jsonb, SqlType, Times};

/// The document, if it is an object. Its second argument is the function that wants one, and its
/// third says that it takes an array of them.
pub(crate) const OBJECT: &str = "object of";

/// Adds it.
pub(super) fn register(registry: &mut Registry) {
    for ty in [SqlType::Json, SqlType::Jsonb] {
        registry.add(OBJECT, &[ty, SqlType::Text, SqlType::Bool], ty, object);
    }
}

fn object(values: &[Datum], _: &Context) -> Result<Datum> {
    let [document, Datum::Text(name), Datum::Bool(is_set)] = values else { mismatch(values) };
    let is_array = match document {
        Datum::Json(text) => match parts(text)? {
            Parts::Object(_) => return Ok(document.clone()),
            Parts::Array(_) => true,
            Parts::Scalar(_) => false,
        },
        Datum::Jsonb(whole) => match whole.node() {
            Node::Object(_) => return Ok(document.clone()),
            other => matches!(other, Node::Array(_)),
        },
        _ => mismatch(values),
    };
    Err(refused(match (is_set, is_array) {
        (true, _) => format!("argument of {name} must be an array of objects"),
        (false, true) => format!("cannot call {name} on an array"),
        (false, false) => format!("cannot call {name} on a scalar"),
    }))
}

/// A member as an array, which an array of the same type without elements stands behind.
pub(crate) fn array_of_member() -> &'static Function {
    static FUNCTION: OnceLock<Function> = OnceLock::new();
    FUNCTION.get_or_init(|| {
        Function::new("array of member", &[SqlType::Unknown; 2], SqlType::Unknown, array_of)
    })
}

fn array_of(values: &[Datum], context: &Context) -> Result<Datum> {
    let Datum::Array(witness) = &values[1] else { mismatch(values) };
    let parsed;
    let document = match &values[0] {
        Datum::Jsonb(document) => document,
        Datum::Json(text) => {
            parsed = Jsonb::parse(text)?;
            &parsed
        }
        _ => mismatch(values),
    };
    let element = witness.element();
    match document.node() {
        Node::Null => Ok(Datum::Null),
        Node::Array(_) => {
            let mut all = Elements { element, lengths: Vec::new(), values: Vec::new() };
            all.take(document.node(), 0, &context.times)?;
            let dimension = |length: &usize| Dimension { lower: 1, length: *length as i32 };
            let mut dimensions: Vec<Dimension> = all.lengths.iter().map(dimension).collect();
            if all.values.is_empty() {
                dimensions.clear();
            }
            Ok(Array::shaped(element, dimensions, all.values)?.into())
        }
        Node::String(text) => Datum::from_text_in(SqlType::Array(element), text, &context.times),
        _ => Err(SqlError::new(code::INVALID_TEXT, "expected JSON array")),
    }
}

/// The elements of an array, as far as they were found.
struct Elements {
    element: ElementType,
    /// Of each dimension, outermost first.
    lengths: Vec<usize>,
    values: Vec<Datum>,
}

impl Elements {
    /// Takes the elements of `node`, an array at depth `depth`, or one element.
    fn take(&mut self, node: Node<'_>, depth: usize, times: &Times) -> Result<()> {
        let is_document = matches!(self.element.ty(), SqlType::Json | SqlType::Jsonb);
        let is_level = depth == 0 || !is_document;
        if let (Node::Array(items), true) = (&node, is_level) {
            if depth >= MAX_DIMENSIONS {
                return Err(too_many_dimensions(depth + 1));
            }
            if depth == self.lengths.len() && self.values.is_empty() {
                self.lengths.push(items.len());
            }
            if self.lengths.get(depth) != Some(&items.len()) {
                return Err(malformed());
            }
            return items.iter().try_for_each(|item| self.take(item, depth + 1, times));
        }
        if depth != self.lengths.len() {
            return Err(malformed());
        }
        self.values.push(match (node, self.element.ty()) {
            (Node::Null, _) => Datum::Null,
            (node, SqlType::Jsonb) => Datum::Jsonb(node.to_document()),
            (node, SqlType::Json) => Datum::Json(node.to_document().to_text()),
            (node, ty) => Datum::from_text_in(ty, &node.plain_text().unwrap_or_default(), times)?,
        });
        Ok(())
    }
}

fn malformed() -> SqlError {
    let detail = "Multidimensional arrays must have sub-arrays with matching dimensions.";
    SqlError::new(code::INVALID_TEXT, "malformed JSON array").detail(detail)
}
