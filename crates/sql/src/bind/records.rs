//! Rows as values by themselves: `ROW(a, b)`, the whole row of a source, fields of a row.
//!
//! Invariants: the fields of a row are known where it is made, or by its type. The row of a source
//! that an outer join has no match for is null.
//! Does not do: comparisons of rows that are written (`rows`).

use std::cmp::Ordering;
use std::sync::Arc;

use sqlparser::ast::{self, FunctionArg, FunctionArgExpr};

use super::from::TID;
use super::rows::parts_of;
use super::scope::{Lookup, Relation, ScopeColumn, not_lateral};
use super::{Binder, padded};
use crate::error::{Result, SqlError, code};
use crate::expr::function::Function;
use crate::expr::{Expr, Typed, records};
use crate::oids::{array_type_oid, row_type_oid};
use crate::parse::identifiers;
use crate::plan::Table;
use crate::plan::rel::Rel;
use crate::types::cast::{self, CastContext};
use crate::types::composite::CompositeName;
use crate::types::composite::Field;
use crate::types::declared::Modifier;
use crate::types::record::Record;
use crate::types::{CompositeType, Datum, SqlType};

/// A row that is made of these values, under these names.
pub(super) fn row_of(names: Vec<String>, values: Vec<Typed>) -> Typed {
    row_by(records::row(), names, values)
}

/// The same of the columns of a call that gives rows, of which one at least is never null.
pub(super) fn row_of_call(names: Vec<String>, values: Vec<Typed>) -> Typed {
    row_by(records::row_of_call(), names, values)
}

fn row_by(function: &'static Function, names: Vec<String>, values: Vec<Typed>) -> Typed {
    let field = |(name, value): (String, &Typed)| {
        let (ty, modifier) = (value.ty, value.modifier);
        Field { name, ty, modifier }
    };
    let fields: Arc<[Field]> = names.into_iter().zip(&values).map(field).collect();
    let nulls = vec![Datum::Null; fields.len()];
    let args = values.into_iter().map(|value| value.expr).collect();
    Typed::new(call_for_row(function, Record::new(fields, nulls), args), SqlType::Record)
}

/// What makes a row like `nulls` of these values.
fn row_call(nulls: Record, values: Vec<Expr>) -> Expr {
    call_for_row(records::row(), nulls, values)
}

fn call_for_row(function: &'static Function, nulls: Record, values: Vec<Expr>) -> Expr {
    let args = std::iter::once(Expr::Const(nulls.into())).chain(values).collect();
    Expr::Call(function, args)
}

/// A row of a type that has a name, of values of its fields.
pub(super) fn row_of_type(ty: CompositeType, values: Vec<Typed>) -> Typed {
    let values = values.into_iter().map(|value| value.expr).collect();
    Typed::new(row_call(ty.nulls(), values), SqlType::Composite(ty))
}

/// The row of nulls that tells the fields of a row without a named type, if an expression tells
/// them.
pub(super) fn shape_of(expr: &Expr) -> Option<Record> {
    let Expr::Call(function, args) = expr else { return None };
    let nulls = match (function.name, args.as_slice()) {
        (records::ROW, [nulls, ..]) | (records::SHAPED, [_, nulls]) => nulls,
        _ => return None,
    };
    match nulls {
        Expr::Const(Datum::Record(nulls)) => Some((**nulls).clone()),
        _ => None,
    }
}

/// A row that is computed, of which it is known that it has the fields of `nulls`.
pub(super) fn with_shape(row: Expr, nulls: Record) -> Expr {
    Expr::Call(records::shaped(), vec![row, Expr::Const(nulls.into())])
}

/// The field at a place of a row that has the fields of `nulls`.
pub(super) fn field_by(row: Expr, nulls: &Record, at: usize) -> Typed {
    let field = &nulls.fields()[at];
    // Those of `char(n)` have their blanks.
    let modifier = field.modifier.filter(|one| !matches!(one, Modifier::Char(_)));
    let (ty, place) = (field.ty, Expr::Const(Datum::Int4(at as i32)));
    let nulls = Expr::Const(nulls.clone().into());
    let expr = Expr::Call(records::field(), vec![row, place, nulls]);
    Typed { modifier, ..Typed::new(expr, ty) }
}

/// A row that is made where it stands.
struct MadeRow {
    fields: Vec<Field>,
    values: Vec<Expr>,
}

impl MadeRow {
    /// The row that an expression makes, or the expression, if it makes none.
    fn of(expr: Expr) -> std::result::Result<MadeRow, Expr> {
        match expr {
            Expr::Call(function, mut args) if function.name == records::ROW => {
                let Expr::Const(Datum::Record(nulls)) = args.remove(0) else {
                    unreachable!("a row of nulls stands in front")
                };
                Ok(MadeRow { fields: nulls.fields().to_vec(), values: args })
            }
            other => Err(other),
        }
    }

    /// The value of the field at `place`.
    fn take(mut self, place: usize) -> Typed {
        let Field { ty, modifier, .. } = self.fields.swap_remove(place);
        Typed { modifier, ..Typed::new(self.values.swap_remove(place), ty) }
    }
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
    /// Makes columns of the fields of rows that a query makes, so that a query around it can name
    /// them; each of its columns that is such a row is made of them then.
    pub(super) fn name_fields(&mut self, rel: &mut Rel, columns: &mut [ScopeColumn]) {
        match rel {
            Rel::Project { output, .. } => {
                for column in columns.iter_mut().filter(|one| one.ty == SqlType::Record) {
                    let made = output.iter().find(|(id, _)| *id == column.id);
                    let Some((_, Expr::Call(function, args))) = made else { continue };
                    if function.name != records::ROW || args.iter().any(Expr::is_volatile) {
                        continue;
                    }
                    let (function, mut args) = (*function, args.clone());
                    let first = self.new_columns(args.len() - 1);
                    for (at, value) in args[1..].iter_mut().enumerate() {
                        let value = std::mem::replace(value, Expr::Column(first + at));
                        output.push((first + at, value));
                    }
                    column.computed = Some(Box::new(Expr::Call(function, args)));
                }
            }
            Rel::Sort { input, .. } | Rel::Filter { input, .. } => self.name_fields(input, columns),
            Rel::Limit(limit) => self.name_fields(&mut limit.input, columns),
            _ => {}
        }
    }

    /// A row of values without names. What has no type gets one where the row becomes one of a type
    /// that has a name.
    pub(super) fn row_value(&mut self, values: Vec<Typed>) -> Result<Typed> {
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
        self.refuse_own_row()?;
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
        let Some(relation) = self.known_source(None, alias)? else { return Ok(None) };
        self.refuse_own_row()?;
        Ok(Some(whole_row(&relation)))
    }

    /// A field of the row that stands in parentheses.
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
                return Err(no_field(&wanted).at(position));
            };
            let value = values.swap_remove(at - 1);
            return self.settle(value);
        }
        if let Some(source) = self.source_in_parentheses(row)? {
            self.refuse_own_name()?;
            let Source { schema, alias } = source;
            return self.column(schema.as_deref(), Some(&alias), name);
        }
        let value = self.expr(row)?;
        self.field_of(value, name)
    }

    /// The source that stands in parentheses in front of a field, if it is one.
    fn source_in_parentheses(&mut self, row: &ast::Expr) -> Result<Option<Source>> {
        let source = match row {
            ast::Expr::Identifier(source) => (None, source),
            ast::Expr::CompoundIdentifier(path) if path.len() == 2 => (Some(&path[0]), &path[1]),
            _ => return Ok(None),
        };
        let (schema, alias) = (source.0.map(identifiers::ident), identifiers::ident(source.1));
        let is_column = match &schema {
            Some(schema) => {
                matches!(self.scope.find(None, Some(schema), &alias)?, Lookup::Found(_))
            }
            None => matches!(self.scope.find(None, None, &alias)?, Lookup::Found(_)),
        };
        let known = self.known_source(schema.as_deref(), &alias)?;
        let is_source = known.is_some_and(|relation| !is_column && !relation.is_value);
        Ok(is_source.then_some(Source { schema, alias }))
    }

    /// A field of a value.
    pub(super) fn field_of(&mut self, value: Typed, name: &ast::Ident) -> Result<Typed> {
        let (position, wanted) = (self.lines.position(name.span), identifiers::ident(name));
        let ty = match value.ty {
            SqlType::Composite(ty) => ty,
            SqlType::Record => {
                if let Some(nulls) = shape_of(&value.expr).filter(|_| !is_made(&value.expr)) {
                    let at = nulls.fields().iter().position(|field| field.name == wanted);
                    let at = at.ok_or_else(|| no_field(&wanted).at(position))?;
                    return Ok(Typed { position, ..field_by(value.expr, &nulls, at) });
                }
                let made = MadeRow::of(value.expr);
                let made =
                    made.map_err(|_| SqlError::unsupported("a field of a row that is computed"));
                let made = made?;
                let Some(at) = made.fields.iter().position(|field| field.name == wanted) else {
                    return Err(no_field(&wanted).at(position));
                };
                return self.settle(made.take(at));
            }
            other => {
                let message = format!(
                    "column notation .{wanted} applied to type {}, which is not a composite type",
                    other.name()
                );
                return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message).at(value.position));
            }
        };
        match ty.field(&wanted) {
            Some(at) => Ok(field_at(value, ty, at)),
            None => {
                let message = format!("column \"{wanted}\" not found in data type {}", ty.shown());
                Err(SqlError::new(code::UNDEFINED_COLUMN, message).at(value.position))
            }
        }
    }

    /// The names and the values of all fields of the value in front of a star.
    pub(super) fn fields_of(&mut self, node: &ast::Expr) -> Result<Vec<(String, Typed)>> {
        let mut inner = node;
        while let ast::Expr::Nested(nested) = inner {
            inner = nested;
        }
        let value = match self.source_in_parentheses(inner)? {
            Some(Source { schema, alias }) => {
                let relation = self.known_source(schema.as_deref(), &alias)?;
                let columns = relation.map(|relation| relation.columns).unwrap_or_default();
                let shown = columns.iter().filter(|column| !column.hidden);
                return Ok(shown.map(|column| (column.name.clone(), column.value())).collect());
            }
            None => self.expr(inner)?,
        };
        let ty = match value.ty {
            SqlType::Composite(ty) => ty,
            SqlType::Record => {
                if let Some(nulls) = shape_of(&value.expr).filter(|_| !is_made(&value.expr)) {
                    let mut all = Vec::with_capacity(nulls.fields().len());
                    for (at, field) in nulls.fields().iter().enumerate() {
                        let own = self.copy(&value)?;
                        all.push((field.name.clone(), field_by(own.expr, &nulls, at)));
                    }
                    return Ok(all);
                }
                let made = MadeRow::of(value.expr);
                let made =
                    made.map_err(|_| SqlError::unsupported("fields of a row that is computed"))?;
                let MadeRow { fields, values } = made;
                let mut all = Vec::with_capacity(fields.len());
                for (field, value) in fields.into_iter().zip(values) {
                    let value = self.settle(Typed::new(value, field.ty))?;
                    all.push((field.name, Typed { modifier: field.modifier, ..value }));
                }
                return Ok(all);
            }
            other => {
                let message = format!("type {} is not composite", other.name());
                return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message));
            }
        };
        let mut all = Vec::with_capacity(ty.fields().len());
        for (at, field) in ty.fields().iter().enumerate() {
            let own = self.copy(&value)?;
            all.push((field.name.clone(), field_at(own, ty, at)));
        }
        Ok(all)
    }

    /// A row without a name as one of `to`, its values one by one (PostgreSQL:
    /// `coerce_record_to_complex`).
    pub(super) fn row_as(
        &mut self,
        value: Typed,
        to: CompositeType,
        allowed: CastContext,
    ) -> Result<Expr> {
        let position = value.position;
        let refused = |detail: String| {
            let error = cast::cannot(SqlType::Record, SqlType::Composite(to)).at(position);
            if detail.is_empty() { error } else { error.detail(detail) }
        };
        let made = match MadeRow::of(value.expr) {
            Ok(made) => made,
            // The row of a source that an outer join may have no match for.
            Err(Expr::Case(arms, row))
                if matches!(arms.as_slice(), [(_, Expr::Const(Datum::Null))]) =>
            {
                let row = Typed { position, ..Typed::new(*row, SqlType::Record) };
                let row = self.row_as(row, to, allowed)?;
                return Ok(Expr::Case(arms, Box::new(row)));
            }
            Err(Expr::Const(Datum::Null)) => return Ok(Expr::null()),
            Err(_) => return Err(refused(String::new())),
        };
        let fields = to.fields();
        match made.values.len().cmp(&fields.len()) {
            Ordering::Less => return Err(refused("Input has too few columns.".into())),
            Ordering::Greater => return Err(refused("Input has too many columns.".into())),
            Ordering::Equal => {}
        }
        let mut values = Vec::with_capacity(fields.len());
        let parts = made.fields.into_iter().zip(made.values).zip(fields).enumerate();
        for (at, ((given, expr), wanted)) in parts {
            let known = cast::context(given.ty, wanted.ty);
            if known.is_none_or(|needed| needed > allowed) {
                let (from, into) = (given.ty.name(), wanted.ty.name());
                let at = at + 1;
                return Err(refused(format!("Cannot cast type {from} to {into} in column {at}.")));
            }
            let same = given.ty == wanted.ty && given.modifier == wanted.modifier;
            let part = Typed { modifier: given.modifier, position, ..Typed::new(expr, given.ty) };
            let expr = self.coerce_checked(part, wanted.ty, allowed)?;
            let expr = match wanted.modifier.filter(|_| !same) {
                Some(modifier) => {
                    let is_written = allowed == CastContext::Explicit;
                    padded(Expr::Fit(Box::new(expr), modifier, is_written), Some(modifier))
                }
                None => expr,
            };
            values.push(expr);
        }
        Ok(row_call(to.nulls(), values))
    }
}

/// Is it a row that is made where it stands?
fn is_made(expr: &Expr) -> bool {
    matches!(expr, Expr::Call(function, _) if function.name == records::ROW)
}

/// The error for a field that a row without a named type has not.
fn no_field(name: &str) -> SqlError {
    let message = format!("could not identify column \"{name}\" in record data type");
    SqlError::new(code::UNDEFINED_COLUMN, message)
}

/// The name of a source.
struct Source {
    schema: Option<String>,
    alias: String,
}

/// The field at a place of a value of a type.
pub(super) fn field_at(value: Typed, ty: CompositeType, at: usize) -> Typed {
    let position = value.position;
    match MadeRow::of(value.expr) {
        Ok(made) => Typed { position, ..made.take(at) },
        Err(row) => Typed { position, ..field_by(row, &ty.nulls(), at) },
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
    let row = match relation.of_table.as_deref().and_then(|table| row_type_of(table, &values)) {
        Some(ty) => {
            let values = values.into_iter().map(|value| value.expr).collect();
            Typed::new(row_call(ty.nulls(), values), SqlType::Composite(ty))
        }
        None => row_of(names, values),
    };
    match missing {
        None => row,
        Some(missing) => {
            let expr = Expr::Case(vec![(missing, Expr::null())], Box::new(row.expr));
            Typed { expr, ..row }
        }
    }
}

/// The type of the rows of a table, if these are values of all of its columns.
fn row_type_of(table: &Table, values: &[Typed]) -> Option<CompositeType> {
    let same = values.len() == table.shown().len()
        && values.iter().zip(&table.types).all(|(value, ty)| value.ty == *ty);
    same.then(|| {
        let columns = table.shown().iter().zip(&table.column_notes).zip(&table.types);
        let fields = columns.map(|((column, notes), ty)| Field {
            name: column.name.clone(),
            ty: *ty,
            modifier: notes.modifier,
        });
        let (oid, array_oid) = (row_type_oid(table.info.id), array_type_oid(table.info.id));
        let name = CompositeName { oid, array_oid, stored: &table.info.name, is_of_rows: true };
        CompositeType::of(name, fields.collect())
    })
}
