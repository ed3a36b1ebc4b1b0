//! SET of UPDATE and of ON CONFLICT: columns and their new values.
//!
//! Invariants: a column is assigned at most once, but for parts of it (`elements`); a query that
//! gives several columns their values gives the same each time, because it is asked once for each.
//! Does not do: the values that such columns get.

use sqlparser::ast::{
    self, AssignmentTarget, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName,
};

use super::elements::Assignments;
use super::select::is_default;
use super::updatable::{Action, ChangedRelation};
use super::write::Always;
use super::{Binder, Place, Slot, no_default};
use crate::error::{Result, SqlError, code};
use crate::expr::{Expr, Typed};
use crate::parse::assigned::{Assigned, assigned};
use crate::parse::identifiers;

/// What a column is to have.
enum NewValue<'n> {
    Node(&'n ast::Expr),
    Value(Typed),
}

impl Binder<'_> {
    /// Binds one item of SET.
    pub(super) fn assignment(
        &mut self,
        assignment: &ast::Assignment,
        changed: &ChangedRelation,
        assignments: &mut Assignments,
    ) -> Result<()> {
        let columns = match &assignment.target {
            AssignmentTarget::ColumnName(name) => {
                let value = NewValue::Node(&assignment.value);
                return self.assign_one(name, value, changed, assignments);
            }
            AssignmentTarget::Tuple(columns) => columns,
        };
        let values = self.values_of(&assignment.value)?;
        if values.len() != columns.len() {
            let message = "number of columns does not match number of values";
            return Err(SqlError::syntax(message).at(self.position(&assignment.value)));
        }
        for (name, value) in columns.iter().zip(values) {
            self.assign_one(name, value, changed, assignments)?;
        }
        Ok(())
    }

    /// The values of a row, or of the row that a query gives.
    fn values_of<'n>(&mut self, node: &'n ast::Expr) -> Result<Vec<NewValue<'n>>> {
        match node {
            ast::Expr::Tuple(parts) => Ok(parts.iter().map(NewValue::Node).collect()),
            ast::Expr::Subquery(query) => {
                let values = self.at_place(Place::None("UPDATE"), |b| b.row_subquery(query))?;
                Ok(values.into_iter().map(NewValue::Value).collect())
            }
            ast::Expr::Function(call)
                if identifiers::function(&call.name).is_ok_and(|name| name == "row") =>
            {
                let FunctionArguments::List(list) = &call.args else {
                    return Err(SqlError::unsupported("such a row"));
                };
                let value = |arg: &'n FunctionArg| match arg {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(node)) => Ok(NewValue::Node(node)),
                    _ => Err(SqlError::unsupported("such a row")),
                };
                list.args.iter().map(value).collect()
            }
            other => {
                let message = "source for a multiple-column UPDATE item must be a sub-SELECT or \
                               ROW() expression";
                let position = self.position(other);
                Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message).at(position))
            }
        }
    }

    fn assign_one(
        &mut self,
        name: &ObjectName,
        value: NewValue<'_>,
        changed: &ChangedRelation,
        assignments: &mut Assignments,
    ) -> Result<()> {
        let position = self.position(name);
        let Assigned { parts, subscripts } = assigned(name)?;
        let (column, fields) = parts.split_first().expect("a name has a part");
        let shown = changed.column(column).map_err(|error| error.at(position))?;
        let (table, at) = (&changed.table, changed.place(shown, Action::Update)?);
        let is_part = !subscripts.is_empty() || !fields.is_empty();
        if !assignments.takes(at, is_part) {
            let message = format!("multiple assignments to same column \"{column}\"");
            return Err(SqlError::syntax(message).at(position));
        }
        let always = Always::of(table, at);
        let refused = |always: Always| {
            let message = format!("column \"{column}\" can only be updated to DEFAULT");
            always.refused(message, column)
        };
        if matches!(value, NewValue::Node(node) if is_default(node)) {
            // A view has no defaults of its own.
            let value = match changed.is_table() {
                _ if is_part => return Err(no_default(!fields.is_empty()).at(position)),
                true => self.default_of(table, at)?,
                false if matches!(always, Some(Always::Expression)) => {
                    return Err(refused(Always::Expression));
                }
                false => Expr::null(),
            };
            assignments.add(at, None, value, Expr::null());
            return Ok(());
        }
        if let Some(always) = always {
            return Err(refused(always));
        }
        let value = match value {
            NewValue::Node(node) => self.at_place(Place::None("UPDATE"), |b| b.expr(node))?,
            NewValue::Value(value) => value,
        };
        let modifier = table.column_notes[at].modifier;
        let column = Slot::of_column(column, table.types[at], modifier);
        let (slot, part) = match is_part {
            true => {
                let part =
                    self.at_place(Place::None("UPDATE"), |b| b.part(column, fields, subscripts));
                let (slot, part) = part.map_err(|error| error.at(position))?;
                (slot, Some(part))
            }
            false => (column, None),
        };
        let value = self.assign(value, &slot)?;
        assignments.add(at, part, value, Expr::Column(at));
        Ok(())
    }
}
