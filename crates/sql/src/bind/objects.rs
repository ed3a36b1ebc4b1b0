//! Objects of catalogs by their names: `'t'::regclass`.
//!
//! Invariants: a name is looked up when the statement runs, in what the statement knows of
//! catalogs, so that its plan may be kept. Does not do: looking up (`expr::catalog`).

use super::Binder;
use crate::error::Result;
use crate::expr::{Expr, Typed, registry};
use crate::types::{Category, RegKind, SqlType, cast};

impl Binder<'_> {
    /// `value` as the number of an object that is shown by its name: from a text or from a number.
    pub(super) fn registered(&mut self, value: Typed, kind: RegKind) -> Result<Expr> {
        let from = match value.ty {
            SqlType::Unknown | SqlType::Text | SqlType::Name | SqlType::Bpchar => SqlType::Text,
            SqlType::Int2 | SqlType::Int4 | SqlType::Int8 | SqlType::Oid | SqlType::Reg(_) => {
                SqlType::Oid
            }
            other => return Err(cast::cannot(other, SqlType::Reg(kind)).at(value.position)),
        };
        let Ok(function) = registry::resolve(kind.name(), &[from]) else {
            unreachable!("{} is registered", kind.name())
        };
        let value = self.coerce(value, from)?;
        Ok(Expr::Call(function, vec![value]))
    }

    /// As `registered`, of an array of texts or numbers, or the text of an array.
    pub(super) fn registered_array(&mut self, value: Typed, kind: RegKind) -> Result<Expr> {
        let of_texts = match value.ty {
            SqlType::Unknown | SqlType::Text => true,
            ty => ty.element().is_some_and(|element| element.category() == Category::String),
        };
        let from = if of_texts { SqlType::Text } else { SqlType::Oid };
        let from = SqlType::array_of(from).expect("texts and numbers are elements");
        let Ok(function) = registry::resolve(kind.name(), &[from]) else {
            unreachable!("{} is registered for arrays", kind.name())
        };
        let value = self.coerce(value, from)?;
        Ok(Expr::Call(function, vec![value]))
    }

    /// A vector of numbers as the array that it is.
    pub(super) fn as_array(&mut self, value: Typed) -> Result<Typed> {
        let element = match value.ty {
            SqlType::Int2Vector => SqlType::Int2,
            SqlType::OidVector => SqlType::Oid,
            _ => return Ok(value),
        };
        let (position, ty) = (value.position, SqlType::array_of(element));
        let ty = ty.expect("numbers are elements");
        Ok(Typed::new(self.coerce(value, ty)?, ty).at(position))
    }
}
