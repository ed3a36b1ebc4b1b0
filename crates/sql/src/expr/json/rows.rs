//! Documents as rows: what `json_to_record` and `json_populate_record` and their kind ask of the
//! members of an object.
//!
//! A `json` is taken apart as the text that it is, so that its members are texts as they were
//! written.
//!
//! Invariants: nesting of an array is bounded by its dimensions, that of a row by its type, and a
//! document's by its parser.
//! Does not do: which columns there are (`bind::document_rows`).

use std::sync::OnceLock;

use super::access::refused;
use crate::error::{Result, SqlError, code};
use crate::expr::Context;
use crate::expr::function::{Function, Registry};
use crate::expr::operators::mismatch;
use crate::types::array::{MAX_DIMENSIONS, too_many_dimensions};
use crate::types::composite::Field;
use crate::types::json::{Node, Parts, parts, unquoted};
use crate::types::record::Record;
use crate::types::{Array, CompositeType, Datum, Dimension, ElementType, SqlType, Times};

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
    let is_array = match Piece::of(document).unwrap_or_else(|| mismatch(values)).shape()? {
        Shape::Object => return Ok(document.clone()),
        other => matches!(other, Shape::Array(_)),
    };
    Err(refused(match (is_set, is_array) {
        (true, _) => format!("argument of {name} must be an array of objects"),
        (false, true) => format!("cannot call {name} on an array"),
        (false, false) => format!("cannot call {name} on a scalar"),
    }))
}

/// A member as an array, which an array of the same type without elements stands behind, or as a
/// row, which a row of nulls stands behind.
pub(crate) fn of_member() -> &'static Function {
    static FUNCTION: OnceLock<Function> = OnceLock::new();
    FUNCTION.get_or_init(|| {
        let args = [SqlType::Unknown; 2];
        Function::new("value of member", &args, SqlType::Unknown, |values, context| {
            let Some(piece) = Piece::of(&values[0]) else { mismatch(values) };
            match &values[1] {
                Datum::Array(witness) => array_of(witness.element(), &piece, None, &context.times),
                Datum::Record(nulls) => {
                    let ty = SqlType::Composite(nulls.ty().expect("a row of a type"));
                    let field = Field { name: String::new(), ty, modifier: None };
                    value_of(&field, &piece, None, &context.times)
                }
                _ => mismatch(values),
            }
        })
    })
}

/// The first argument, a row or null, with values for its fields of the members of the second. A
/// row of nulls stands behind them.
pub(crate) fn populate() -> &'static Function {
    static FUNCTION: OnceLock<Function> = OnceLock::new();
    FUNCTION.get_or_init(|| {
        let args = [SqlType::Record, SqlType::Unknown, SqlType::Record];
        let function = Function::new("populate", &args, SqlType::Unknown, |values, context| {
            let Datum::Record(nulls) = &values[2] else { mismatch(values) };
            let ty = nulls.ty().expect("a row of a type");
            match Piece::of(&values[1]) {
                Some(piece) => row_of(ty, &piece, Some(&values[0]), &context.times),
                None => Ok(values[0].clone()),
            }
        });
        Function { strict: false, ..function }
    })
}

/// A part of a document: of one that is kept as its text the text.
enum Piece<'d> {
    Text(&'d str),
    Node(Node<'d>),
}

/// What kind of part it is.
enum Shape<'d> {
    Null,
    String,
    Other,
    Array(Vec<Piece<'d>>),
    Object,
}

impl<'d> Piece<'d> {
    /// The whole of a document.
    fn of(value: &'d Datum) -> Option<Piece<'d>> {
        match value {
            Datum::Json(text) => Some(Piece::Text(text)),
            Datum::Jsonb(document) => Some(Piece::Node(document.node())),
            _ => None,
        }
    }

    fn shape(&self) -> Result<Shape<'d>> {
        Ok(match self {
            Piece::Text(text) => match parts(text)? {
                Parts::Object(_) => Shape::Object,
                Parts::Array(all) => Shape::Array(all.into_iter().map(Piece::Text).collect()),
                Parts::Scalar("null") => Shape::Null,
                Parts::Scalar(scalar) if scalar.starts_with('"') => Shape::String,
                Parts::Scalar(_) => Shape::Other,
            },
            Piece::Node(node) => match node {
                Node::Null => Shape::Null,
                Node::String(_) => Shape::String,
                Node::Array(all) => Shape::Array(all.iter().map(Piece::Node).collect()),
                Node::Object(_) => Shape::Object,
                _ => Shape::Other,
            },
        })
    }

    /// As `->>` gives it.
    fn plain_text(&self) -> Result<String> {
        Ok(match self {
            Piece::Text(text) => unquoted(text)?,
            Piece::Node(node) => node.plain_text(),
        }
        .unwrap_or_default())
    }

    /// The text of it as a document.
    fn document(&self) -> String {
        match self {
            Piece::Text(text) => (*text).to_owned(),
            Piece::Node(node) => {
                let mut out = String::new();
                node.write_text(&mut out);
                out
            }
        }
    }
}

/// A row of a type, whose fields are the members of an object; what has no member is as in `base`.
fn row_of(
    ty: CompositeType,
    piece: &Piece<'_>,
    base: Option<&Datum>,
    times: &Times,
) -> Result<Datum> {
    let what = match piece.shape()? {
        Shape::Object => "",
        Shape::Array(_) => "an array",
        _ => "a scalar",
    };
    if !what.is_empty() {
        return Err(refused(format!("cannot call populate_composite on {what}")));
    }
    let members = match piece {
        Piece::Text(text) => match parts(text)? {
            Parts::Object(members) => members,
            _ => Vec::new(),
        },
        Piece::Node(_) => Vec::new(),
    };
    let before = match base {
        Some(Datum::Record(row)) => row.values(),
        _ => &[],
    };
    let mut values = Vec::with_capacity(ty.fields().len());
    for (at, field) in ty.fields().iter().enumerate() {
        let member = match piece {
            // Of equal keys the last counts.
            Piece::Text(_) => {
                let found = members.iter().rev().find(|(key, _)| *key == field.name);
                found.map(|(_, text)| Piece::Text(text))
            }
            Piece::Node(Node::Object(members)) => members.get(&field.name).map(Piece::Node),
            Piece::Node(_) => None,
        };
        let old = before.get(at);
        values.push(match member {
            Some(member) => value_of(field, &member, old, times)?,
            None => old.cloned().unwrap_or_default(),
        });
    }
    let row = Record::of_type(ty, values);
    row.check_size()?;
    Ok(row.into())
}

/// A part of a document as the value of a field, which was `old`.
fn value_of(field: &Field, piece: &Piece<'_>, old: Option<&Datum>, times: &Times) -> Result<Datum> {
    let is_string = match piece.shape()? {
        Shape::Null => return Ok(Datum::Null),
        shape => matches!(shape, Shape::String),
    };
    match field.ty {
        SqlType::Composite(ty) if !is_string => row_of(ty, piece, old, times),
        SqlType::Array(element) if !is_string => {
            field.fitted(array_of(element, piece, Some(&field.name), times)?)
        }
        SqlType::Json | SqlType::Jsonb => Datum::from_text_in(field.ty, &piece.document(), times),
        _ => field.read(&piece.plain_text()?, times),
    }
}

/// A part of a document as an array; `key` is what it is a member as.
fn array_of(
    element: ElementType,
    piece: &Piece<'_>,
    key: Option<&str>,
    times: &Times,
) -> Result<Datum> {
    match piece.shape()? {
        Shape::Null => Ok(Datum::Null),
        Shape::Array(items) => {
            let mut all = Elements { element, lengths: Vec::new(), values: Vec::new() };
            all.take_level(&items, 0, times)?;
            let dimension = |length: &usize| Dimension { lower: 1, length: *length as i32 };
            let mut dimensions: Vec<Dimension> = all.lengths.iter().map(dimension).collect();
            if all.values.is_empty() {
                dimensions.clear();
            }
            Ok(Array::shaped(element, dimensions, all.values)?.into())
        }
        Shape::String => Datum::from_text_in(SqlType::Array(element), &piece.plain_text()?, times),
        Shape::Object | Shape::Other => {
            let error = SqlError::new(code::INVALID_TEXT, "expected JSON array");
            Err(match key {
                Some(key) => error.hint(format!("See the value of key \"{key}\".")),
                None => error,
            })
        }
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
    /// Takes what an array at depth `depth` has.
    fn take_level(&mut self, items: &[Piece<'_>], depth: usize, times: &Times) -> Result<()> {
        if depth >= MAX_DIMENSIONS {
            return Err(too_many_dimensions(depth + 1));
        }
        if depth == self.lengths.len() && self.values.is_empty() {
            self.lengths.push(items.len());
        }
        if self.lengths.get(depth) != Some(&items.len()) {
            return Err(malformed());
        }
        items.iter().try_for_each(|item| self.take(item, depth + 1, times))
    }

    /// Takes an array at depth `depth`, or one element.
    fn take(&mut self, piece: &Piece<'_>, depth: usize, times: &Times) -> Result<()> {
        let ty = self.element.ty();
        let is_document = matches!(ty, SqlType::Json | SqlType::Jsonb);
        if let Shape::Array(items) = piece.shape()?
            && !is_document
        {
            return self.take_level(&items, depth, times);
        }
        if depth != self.lengths.len() {
            return Err(malformed());
        }
        let field = Field { name: String::new(), ty, modifier: None };
        self.values.push(value_of(&field, piece, None, times)?);
        Ok(())
    }
}

fn malformed() -> SqlError {
    let detail = "Multidimensional arrays must have sub-arrays with matching dimensions.";
    SqlError::new(code::INVALID_TEXT, "malformed JSON array").detail(detail)
}
