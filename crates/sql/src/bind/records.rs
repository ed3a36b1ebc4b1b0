//! Rows as values by themselves: `ROW(a, b)`, the whole row of a source, fields of a row.
//!
//! Invariants: the fields of a row are known where it is made. The row of a source that an outer
//! join has no match for is null.
//! Does not do: comparisons of rows that are written (`rows`).

use std::sync::Arc;

use sqlparser::ast::{self, FunctionArg, FunctionArgExpr};

use super::Binder;
use super::from::TID;
use super::rows::parts_of;
use super::scope::{Lookup, Relation, not_lateral};
use crate::error::{Result, SqlError, code};
use crate::expr::{Expr, Typed, records};
use crate::parse::identifiers;
use crate::types::record::{Field, Record};
use crate::types::{Datum, SqlType};

/// A row that is made of these values, under these names.
fn row_of(names: Vec<String>, values: Vec<Typed>) -> Typed {
    let field = |(name, value): (String, &Typed)| Field { name, ty: value.ty };
    let fields: Arc<[Field]> = names.into_iter().zip(&values).map(field).collect();
    let nulls = vec![Datum::Null; fields.len()];
    let shape = Expr::Const(Record::new(fields, nulls).into());
    let args = std::iter::once(shape).chain(values.into_iter().map(|value| value.expr));
    Typed::new(Expr::Call(records::row(), args.collect()), SqlType::Record)
}

/// The name before the star of `t.*`, in any number of parentheses.
pub(super) fn nested_star(node: &ast::Expr) -> Option<&ast::ObjectName> {
    match node {
        ast::Expr::Nested(inner) => nested_star(inner),
        ast::Expr::QualifiedWildcard(name, _) => Some(name),
        _ => None,
    }
}

impl Binder<'_> {
    /// A row of values without names.
    pub(super) fn row_value(&mut self, values: Vec<Typed>) -> Result<Typed> {
        let values = values.into_iter().map(|value| self.settle(value));
        let values = values.collect::<Result<Vec<_>>>()?;
        let names = (1..=values.len()).map(|at| format!("f{at}")).collect();
        Ok(row_of(names, values))
    }

    /// The arguments of ROW, where `t.*` stands for the columns of `t`.
    pub(super) fn row_arguments(&mut self, args: &[FunctionArg]) -> Result<Vec<Typed>> {
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            let starred = match arg {
                FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) => Some(name),
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => nested_star(expr),
                _ => None,
            };
            match starred {
                Some(name) => {
                    values.extend(self.values_of_source(name)?);
                }
                None => values.extend(self.arguments(std::slice::from_ref(arg))?),
            }
        }
        Ok(values)
    }

    /// The values of the columns of the source that `t.*` names.
    fn values_of_source(&self, name: &ast::ObjectName) -> Result<Vec<Typed>> {
        let relation = self.source_named(name)?;
        let shown = relation.columns.iter().filter(|column| !column.hidden);
        Ok(shown.map(|column| column.value()).collect())
    }

    /// The whole row of the source that `t.*` names.
    pub(super) fn row_of_source(&mut self, name: &ast::ObjectName) -> Result<Typed> {
        let relation = self.source_named(name)?;
        Ok(whole_row(&relation))
    }

    /// The source that `t.*` names.
    pub(super) fn source_named(&self, name: &ast::ObjectName) -> Result<Relation> {
        let parts = identifiers::parts(name)?;
        let (schema, source) = match parts.as_slice() {
            [source] => (None, source),
            [schema, source] => (Some(schema.as_str()), source),
            _ => return Err(SqlError::unsupported("a name of so many parts")),
        };
        match self.known_source(schema, source)? {
            Some(relation) if relation.is_hidden => Err(not_lateral(source)),
            Some(relation) => Ok(relation),
            None => {
                let message = format!("missing FROM-clause entry for table \"{source}\"");
                Err(SqlError::new(code::UNDEFINED_TABLE, message))
            }
        }
    }

    /// The source of this name, in this query or one around it.
    fn known_source(&self, schema: Option<&str>, alias: &str) -> Result<Option<Relation>> {
        for scope in std::iter::once(&self.scope).chain(self.outer.iter().rev()) {
            if let Some(relation) = scope.relation(schema, alias)? {
                return Ok(Some(relation.clone()));
            }
        }
        Ok(None)
    }

    /// The whole row of the source of this name, if there is one.
    pub(super) fn whole_row(&self, alias: &str) -> Result<Option<Typed>> {
        Ok(self.known_source(None, alias)?.map(|relation| whole_row(&relation)))
    }

    /// A field of the row that stands in parentheses; `None` if it is no row that is known.
    pub(super) fn field(&mut self, row: &ast::Expr, name: &ast::Ident) -> Result<Typed> {
        let position = self.lines.position(name.span);
        if let ast::Expr::Nested(inner) = row {
            return self.field(inner, name);
        }
        if let Some(parts) = parts_of(row) {
            let parts: Vec<ast::Expr> = parts.into_iter().cloned().collect();
            let mut values =
                parts.iter().map(|part| self.expr(part)).collect::<Result<Vec<_>>>()?;
            let wanted = identifiers::ident(name);
            let at = (1..=values.len()).find(|at| wanted == format!("f{at}"));
            let Some(at) = at else {
                let message = format!("could not identify column \"{wanted}\" in record data type");
                return Err(SqlError::new(code::UNDEFINED_COLUMN, message).at(position));
            };
            let value = values.swap_remove(at - 1);
            return self.settle(value);
        }
        let source = match row {
            ast::Expr::Identifier(source) => (None, source),
            ast::Expr::CompoundIdentifier(path) if path.len() == 2 => (Some(&path[0]), &path[1]),
            _ => return Err(self.no_fields(row)?),
        };
        let (schema, alias) = (source.0.map(identifiers::ident), identifiers::ident(source.1));
        let is_column = match schema {
            Some(_) => false,
            None => matches!(self.scope.find(None, None, &alias)?, Lookup::Found(_)),
        };
        match self.known_source(schema.as_deref(), &alias)? {
            Some(relation) if !is_column && !relation.is_value => {
                self.column(schema.as_deref(), Some(&alias), name)
            }
            _ => Err(self.no_fields(row)?),
        }
    }

    /// The error for a field of a value that has none, or whose fields are not known.
    fn no_fields(&mut self, row: &ast::Expr) -> Result<SqlError> {
        let value = self.expr(row)?;
        if value.ty == SqlType::Record {
            return Ok(SqlError::unsupported("a field of a row that is computed"));
        }
        let ty = value.ty.name();
        let message =
            format!("column notation applied to type {ty}, which is not a composite type");
        Ok(SqlError::new(code::WRONG_OBJECT_TYPE, message).at(value.position))
    }
}

/// The whole row of a source.
fn whole_row(relation: &Relation) -> Typed {
    let shown = relation.columns.iter().filter(|column| !column.hidden);
    let (names, values): (Vec<String>, Vec<Typed>) =
        shown.map(|column| (column.name.clone(), column.value())).unzip();
    let is_null = |id| Expr::IsNull(Box::new(Expr::Column(id)), false);
    let missing = match relation.columns.iter().find(|column| column.hidden && column.name == TID) {
        _ if !relation.may_miss => None,
        // No row of a table lacks it.
        Some(tid) => Some(is_null(tid.id)),
        None => {
            let nulls = values.iter().map(|value| value.expr.clone());
            Some(Expr::And(nulls.map(|expr| Expr::IsNull(Box::new(expr), false)).collect()))
        }
    };
    let row = row_of(names, values);
    match missing {
        None => row,
        Some(missing) => {
            let expr = Expr::Case(vec![(missing, Expr::null())], Box::new(row.expr));
            Typed::new(expr, SqlType::Record)
        }
    }
}
