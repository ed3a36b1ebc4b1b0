//! Elements of arrays, members of documents and fields of rows that are assigned to.
//!
//! `SET a[i] = x` gives the column the value of a function of what it was, of the new element and
//! of the subscripts. Assignments to parts of one column are functions of each other, in the order
//! in which they are written. INSERT begins with a null, whatever the default is. (PostgreSQL:
//! `transformAssignmentSubscripts`)
//!
//! Invariants: a column is assigned to as a whole once, or in parts.
//! Does not do: the functions (`expr::assign`), subscripts that are read (`array`).

use sqlparser::ast;

use super::array::{function_of, witness};
use super::updatable::ChangedRelation;
use super::{Binder, Place, Slot, padded};
use crate::error::{Result, SqlError, code};
use crate::expr::function::Function;
use crate::expr::{Expr, assign, records};
use crate::plan::bound::Bound;
use crate::plan::{Column, Table};
use crate::types::declared::Modifier;
use crate::types::{Datum, SqlType};

/// A part of a column: an element, a slice, a member or a field.
pub(super) struct Part {
    function: &'static Function,
    /// What an element declares.
    modifier: Option<Modifier>,
    /// Its arguments behind the old value and the new part.
    args: Vec<Expr>,
}

impl Part {
    /// The column with this value in the part; `whole` is the column before.
    pub(super) fn assigned(self, whole: Expr, value: Expr) -> Expr {
        // Elements of `char(n)` are kept with their blanks.
        let value = padded(value, self.modifier);
        Expr::Call(self.function, [whole, value].into_iter().chain(self.args).collect())
    }
}

/// What columns of a table are to have, each by its place.
#[derive(Default)]
pub(super) struct Assignments {
    pub(super) values: Vec<(usize, Expr)>,
    /// Columns that are assigned to in parts.
    in_parts: Vec<usize>,
}

impl Assignments {
    /// May column `at` be assigned to, as a whole or in part?
    pub(super) fn takes(&self, at: usize, is_part: bool) -> bool {
        let is_known = self.values.iter().any(|(known, _)| *known == at);
        !is_known || is_part && self.in_parts.contains(&at)
    }

    /// Gives column `at` a value, or a part of it, of which `whole` is what the column was.
    pub(super) fn add(&mut self, at: usize, part: Option<Part>, value: Expr, whole: Expr) {
        let Some(part) = part else {
            self.values.push((at, value));
            return;
        };
        match self.values.iter_mut().find(|(known, _)| *known == at) {
            Some((_, before)) => {
                let whole = std::mem::replace(before, Expr::null());
                *before = part.assigned(whole, value);
            }
            None => {
                self.in_parts.push(at);
                self.values.push((at, part.assigned(whole, value)));
            }
        }
    }
}

/// A column that an INSERT names, or a part of one.
pub(super) struct InsertTarget<'n> {
    /// Its place among those that are shown.
    pub(super) shown: usize,
    /// Names of fields behind it, each of the one before.
    pub(super) fields: Vec<String>,
    pub(super) subscripts: &'n [ast::AccessExpr],
}

impl InsertTarget<'_> {
    /// A column as a whole.
    pub(super) fn whole(shown: usize) -> Self {
        InsertTarget { shown, fields: Vec::new(), subscripts: &[] }
    }

    pub(super) fn is_part(&self) -> bool {
        !self.subscripts.is_empty() || !self.fields.is_empty()
    }
}

/// The field of a column that is assigned to: the last of these, each of the one before.
fn field_of_column(column: Slot, fields: &[String]) -> Result<(Slot, Part)> {
    let SqlType::Composite(whole) = column.ty else {
        return Err(cannot_assign(&column.name, &fields[0], column.ty));
    };
    let mut args = vec![Expr::Const(whole.nulls().into())];
    let (mut ty, mut modifier) = (column.ty, column.modifier);
    for name in fields {
        let SqlType::Composite(row) = ty else {
            return Err(cannot_assign(&column.name, name, ty));
        };
        let Some(at) = row.field(name) else {
            let message = format!(
                "cannot assign to field \"{name}\" of column \"{}\" because there is no such \
                 column in data type {}",
                column.name,
                row.shown()
            );
            return Err(SqlError::new(code::UNDEFINED_COLUMN, message));
        };
        args.push(Expr::Const(Datum::Int4(at as i32)));
        (ty, modifier) = (row.fields()[at].ty, row.fields()[at].modifier);
    }
    let field = fields.last().cloned();
    let slot = Slot { ty, modifier, default: None, field, ..column };
    Ok((slot, Part { function: records::with_field(), modifier, args }))
}

fn cannot_assign(column: &str, field: &str, ty: SqlType) -> SqlError {
    let message = format!(
        "cannot assign to field \"{field}\" of column \"{column}\" because its type {} is not a \
         composite type",
        ty.name()
    );
    SqlError::new(code::DATATYPE_MISMATCH, message)
}

impl Binder<'_> {
    /// The part of a column that fields or subscripts mean, and where its values go.
    pub(super) fn part(
        &mut self,
        column: Slot,
        fields: &[String],
        subscripts: &[ast::AccessExpr],
    ) -> Result<(Slot, Part)> {
        match (fields, subscripts) {
            ([], _) => {}
            (_, []) => return field_of_column(column, fields),
            _ => return Err(SqlError::unsupported("an element of a field of a column")),
        }
        let (name, ty, args) = match column.ty {
            SqlType::Jsonb => {
                let steps = self.document_steps(subscripts)?;
                (assign::MEMBER, SqlType::Jsonb, steps.into_iter().map(|step| step.expr).collect())
            }
            SqlType::Array(element) => {
                let mut args = vec![witness(element)];
                match self.array_subscripts(subscripts, &mut args)? {
                    true => (assign::SLICE, column.ty, args),
                    false => (assign::ELEMENT, element.ty(), args),
                }
            }
            other => {
                let name = other.name();
                let message = format!(
                    "cannot subscript type {name} because it does not support subscripting"
                );
                return Err(SqlError::new(code::DATATYPE_MISMATCH, message));
            }
        };
        let modifier = column.modifier.filter(|_| !ty.is_array());
        let slot = Slot { ty, default: None, ..column };
        Ok((slot, Part { function: function_of(name, 1), modifier, args }))
    }

    /// Where the values go that an INSERT has for these columns, and the parts of which they are.
    pub(super) fn insert_slots(
        &mut self,
        changed: &ChangedRelation,
        targets: &[InsertTarget<'_>],
    ) -> Result<(Vec<Slot>, Vec<Option<Part>>)> {
        let (mut slots, mut parts) = (Vec::new(), Vec::new());
        for target in targets {
            let column = self.slot_of(changed, target.shown)?;
            let (slot, part) = match target.is_part() {
                false => (column, None),
                true => {
                    let place = Place::None("INSERT");
                    let part =
                        self.at_place(place, |b| b.part(column, &target.fields, target.subscripts));
                    part.map(|(slot, part)| (slot, Some(part)))?
                }
            };
            slots.push(slot);
            parts.push(part);
        }
        Ok((slots, parts))
    }

    /// The rows of a query with whole columns in place of parts, and which columns these are.
    pub(super) fn of_parts(
        &mut self,
        mut source: Bound,
        table: &Table,
        columns: Vec<usize>,
        parts: Vec<Option<Part>>,
    ) -> (Bound, Vec<usize>) {
        if parts.iter().all(Option::is_none) {
            return (source, columns);
        }
        let mut assignments = Assignments::default();
        for ((at, part), id) in columns.into_iter().zip(parts).zip(&source.output) {
            assignments.add(at, part, Expr::Column(*id), Expr::null());
        }
        let (columns, values): (Vec<usize>, Vec<Expr>) = assignments.values.into_iter().unzip();
        source.output = self.project(&mut source.rel, values);
        let column = |at: &usize| Column {
            name: table.info.columns[*at].name.clone(),
            ty: table.types[*at],
            modifier: table.column_notes[*at].modifier,
            collation: None,
            origin: None,
        };
        source.columns = columns.iter().map(column).collect();
        (source, columns)
    }
}
