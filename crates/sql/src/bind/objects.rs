//! Objects by their names and numbers: `'t'::regclass`, comments on objects.
//!
//! Invariants: what is looked up here is good for one execution. Does not do: `regclass` as a type
//! of columns and of results: a name is a text, and beside a comparison a number.

use sqlparser::ast::{DataType, Expr as Ast, Value};

use super::{Binder, names};
use crate::error::{Result, SqlError, code};
use crate::expr::registry::{self, Miss};
use crate::expr::{Expr, Typed};
use crate::plan::views;
use crate::schemas;
use crate::types::cast::CastContext;
use crate::types::{Datum, SqlType};

/// Numbers of catalogs, as PostgreSQL has them.
const CATALOGS: [(&str, i64); 8] = [
    ("pg_am", 2_601),
    ("pg_attribute", 1_249),
    ("pg_class", 1_259),
    ("pg_constraint", 2_606),
    ("pg_extension", 3_079),
    ("pg_index", 2_610),
    ("pg_namespace", 2_615),
    ("pg_type", 1_247),
];

/// Is it the type of names of relations?
pub(super) fn is_regclass(kind: &DataType) -> bool {
    matches!(kind, DataType::Regclass) || is_named(kind, "regclass")
}

/// Is it the type of names of types?
pub(super) fn is_regtype(kind: &DataType) -> bool {
    is_named(kind, "regtype")
}

fn is_named(kind: &DataType, wanted: &str) -> bool {
    let DataType::Custom(name, _) = kind else { return false };
    names::parts(name).is_ok_and(|parts| match parts.as_slice() {
        [name] => name == wanted,
        [schema, name] => schema == "pg_catalog" && name == wanted,
        _ => false,
    })
}

/// The name in `'t'::regclass`, cast to a number or not.
pub(super) fn relation_name(node: &Ast) -> Option<&str> {
    match node {
        Ast::Nested(inner) => relation_name(inner),
        Ast::Cast { expr, data_type, .. } if is_regclass(data_type) => quoted(expr),
        Ast::Cast { expr, data_type, .. } if is_named(data_type, "oid") => relation_name(expr),
        _ => None,
    }
}

/// A string in quotes.
fn quoted(node: &Ast) -> Option<&str> {
    match node {
        Ast::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

fn missing(stored: &str) -> SqlError {
    let message = format!("relation \"{}\" does not exist", schemas::said(stored));
    SqlError::new(code::UNDEFINED_TABLE, message)
}

impl Binder<'_> {
    /// `'int4'::regtype` as it is shown, or the name of the type that has a number.
    pub(super) fn shown_type(&mut self, value: Typed) -> Result<Typed> {
        let Expr::Const(Datum::Text(name)) = &value.expr else {
            let none = Typed::new(Expr::null(), SqlType::Int4);
            return self.named("format_type", vec![value, none]);
        };
        let (_, shown) = SqlType::named(name).ok_or_else(|| {
            let message = format!("type \"{name}\" does not exist");
            SqlError::new(code::UNDEFINED_OBJECT, message)
        })?;
        Ok(Typed::new(Expr::Const(Datum::Text(shown.to_owned())), SqlType::Text))
    }

    /// What the store calls the relation of this name, which is there.
    fn relation(&mut self, name: &str) -> Result<String> {
        self.once = true;
        self.find(&schemas::parts_of(name)?)
    }

    /// `'t'::regclass` as it is shown.
    pub(super) fn shown_relation(&mut self, name: &str) -> Result<Typed> {
        let shown = self.find_shown(name)?.ok_or_else(|| missing(name))?;
        Ok(Typed::new(Expr::Const(Datum::Text(shown)), SqlType::Text))
    }

    /// The relation of this name, as it is shown; `None` if it is not there.
    pub(super) fn find_shown(&mut self, name: &str) -> Result<Option<String>> {
        let parts = schemas::parts_of(name)?;
        if views::relation(&parts).is_some() {
            // Names of `pg_catalog` need no schema.
            let in_path = parts.first().is_some_and(|schema| schema == "pg_catalog");
            return Ok(Some(parts[usize::from(in_path && parts.len() > 1)..].join(".")));
        }
        let stored = self.relation(name)?;
        self.catalog.shown(&stored)
    }

    /// `'t'::regclass` where a number is wanted.
    pub(super) fn relation_oid(&mut self, name: &str) -> Result<Typed> {
        let parts = schemas::parts_of(name)?;
        let catalog = views::relation(&parts).map(|view| view.name);
        if let Some(catalog) = catalog.filter(|_| parts[0] != "information_schema") {
            let known = CATALOGS.iter().find(|(name, _)| *name == catalog);
            let what = || SqlError::unsupported(format!("the number of the catalog {catalog}"));
            let (_, oid) = known.ok_or_else(what)?;
            return Ok(Typed::new(Expr::Const(Datum::Int8(*oid)), SqlType::Int8));
        }
        let stored = self.relation(name)?;
        let oid = self.catalog.oid(&stored)?.ok_or_else(|| missing(&stored))?;
        Ok(Typed::new(Expr::Const(Datum::Int8(oid)), SqlType::Int8))
    }

    /// `pg_relation_size(table)`, with a name that is known when the statement is bound.
    pub(super) fn relation_size(&mut self, nodes: &[&Ast]) -> Result<Typed> {
        let name = match nodes {
            [node] => relation_name(node).or_else(|| quoted(node)),
            [_, _] => return Err(SqlError::unsupported("pg_relation_size of another fork")),
            _ => return Err(registry::no_function("pg_relation_size", &[], &Miss::None)),
        };
        let Some(name) = name else {
            let what = "pg_relation_size of anything but the name of a relation";
            return Err(SqlError::unsupported(what));
        };
        let stored = self.relation(name)?;
        let size = self.catalog.size(&stored)?.ok_or_else(|| missing(&stored))?;
        Ok(Typed::new(Expr::Const(Datum::Int8(size)), SqlType::Int8))
    }

    /// `obj_description(object)`, `obj_description(object, catalog)`,
    /// `col_description(table, column)`.
    pub(super) fn description(&mut self, name: &str, nodes: &[&Ast]) -> Result<Typed> {
        self.once = true;
        let of_column = name == "col_description";
        let mut args = Vec::with_capacity(nodes.len());
        for node in nodes {
            args.push(match relation_name(node) {
                Some(relation) => self.relation_oid(relation)?,
                None => self.expr(node)?,
            });
        }
        let types: Vec<SqlType> = args.iter().map(|arg| arg.ty).collect();
        let wrong = || registry::no_function(name, &types, &Miss::None);
        let mut args = args.into_iter();
        let (object, second) = match (args.next(), args.next(), args.next()) {
            (Some(object), None, None) if !of_column => (object, None),
            (Some(object), Some(second), None) => (object, Some(second)),
            _ => return Err(wrong()),
        };
        let object = self.coerce_checked(object, SqlType::Int8, CastContext::Implicit)?;
        let object = Typed::new(object, SqlType::Int8);
        let (mut catalog, mut column) = (None, None);
        match second {
            Some(number) if of_column => {
                let number = self.coerce_checked(number, SqlType::Int4, CastContext::Implicit)?;
                column = Some(Typed::new(number, SqlType::Int4));
            }
            Some(Typed { expr: Expr::Const(Datum::Text(name)), .. }) => {
                catalog = Some(name);
            }
            Some(_) => {
                let what = "obj_description with a catalog that is no constant";
                return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, what));
            }
            None => {}
        }
        let mut cases = Vec::new();
        for comment in self.catalog.comments()? {
            let other = catalog.as_ref().is_some_and(|wanted| *wanted != comment.catalog);
            if other || of_column != (comment.part > 0) {
                continue;
            }
            let number = Typed::new(Expr::Const(Datum::Int8(comment.oid)), SqlType::Int8);
            let twin = self.copy(&object)?;
            let mut condition = self.operator("=", vec![twin, number])?.expr;
            if let Some(column) = &column {
                let number = Typed::new(Expr::Const(Datum::Int4(comment.part)), SqlType::Int4);
                let twin = self.copy(column)?;
                let also = self.operator("=", vec![twin, number])?.expr;
                condition = Expr::And(vec![condition, also]);
            }
            cases.push((condition, Expr::Const(Datum::Text(comment.text))));
        }
        let expr = match cases.is_empty() {
            true => Expr::null(),
            false => Expr::Case(cases, Box::new(Expr::null())),
        };
        Ok(Typed::new(expr, SqlType::Text))
    }
}
