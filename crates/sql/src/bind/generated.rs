//! Generated columns: the expressions that their values come from.
//!
//! Invariants: such an expression names columns of its table that are not generated themselves, and
//! its value is what an assignment to the column makes of it.
//! Does not do: computing values (`exec::rows`), refusing what is not immutable (`exec::ddl`).

use sqlparser::ast;

use super::from::{TID, table_relation};
use super::scope::Relation;
use super::{Binder, Catalog, Place, Slot, assignable};
use crate::catalog::relation_oid;
use crate::error::{Result, SqlError, code};
use crate::expr::{Expr, Typed};
use crate::parse::{self, Lines};
use crate::plan::{GeneratedColumn, Table};
use crate::types::Datum;
use crate::user_types::UsedType;

/// Where a generation expression stands, for messages.
pub(super) const GENERATION: &str = "column generation expressions";

/// A bound generation expression.
pub(crate) struct Generation {
    /// Its value before the cast to the type of the column.
    pub(crate) value: Typed,
    /// The value that is stored.
    pub(crate) stored: Expr,
}

impl Binder<'_> {
    /// Binds the expression that the values of a column come from, over a row of its table. The
    /// columns at the places `generated` may not be named.
    pub(crate) fn generation(
        &mut self,
        node: &ast::Expr,
        table: &Table,
        slot: &Slot,
        generated: &[usize],
    ) -> Result<Generation> {
        let value =
            self.over_relation(written_relation(table), GENERATION, |binder| binder.expr(node))?;
        refuse_columns(&value.expr, table, generated)?;
        let stored = self.assign_default(value.clone(), slot)?;
        Ok(Generation { value, stored })
    }

    /// Assigns the value of a default or a generation expression.
    pub(super) fn assign_default(&mut self, value: Typed, slot: &Slot) -> Result<Expr> {
        assignable(&value, slot).map_err(|error| {
            let (name, ty, given) = (&slot.name, slot.ty.name(), value.ty.name());
            let message = format!(
                "column \"{name}\" is of type {ty} but default expression is of type {given}"
            );
            SqlError { message, ..error }
        })?;
        self.assign(value, slot)
    }

    /// Fails for a table in parentheses in a generation expression, which is kept without names of
    /// tables.
    pub(super) fn refuse_own_name(&self) -> Result<()> {
        match self.place {
            Place::None(GENERATION) => {
                let what = "a table in parentheses in a generation expression";
                Err(SqlError::unsupported(what).hint("Write the name of the column alone."))
            }
            _ => Ok(()),
        }
    }

    /// Fails for the whole row of a source in a generation expression, of which its value is part.
    pub(super) fn refuse_own_row(&self) -> Result<()> {
        if !matches!(self.place, Place::None(GENERATION)) {
            return Ok(());
        }
        let message = "cannot use whole-row variable in column generation expression";
        let detail = "This would cause the generated column to depend on its own value.";
        Err(SqlError::new(code::INVALID_OBJECT_DEFINITION, message).detail(detail))
    }
}

/// The table as rows that are written name its columns: `tableoid`, the last one, is a constant.
fn written_relation(table: &Table) -> Relation {
    let mut relation = table_relation(table, 0);
    let number = Expr::Const(Datum::Oid(relation_oid(table.info.id)));
    let last = relation.columns.last_mut();
    last.expect("a table has system columns").computed = Some(Box::new(number));
    relation
}

/// Fails for an expression that names a generated column or a system column.
fn refuse_columns(expr: &Expr, table: &Table, generated: &[usize]) -> Result<()> {
    let mut refused = Ok(());
    expr.walk(&mut |inner| {
        let Expr::Column(at) = inner else { return };
        if *at >= table.shown().len() {
            let message =
                format!("cannot use system column \"{TID}\" in column generation expression");
            refused = Err(SqlError::new(code::INVALID_COLUMN_REFERENCE, message));
        } else if generated.contains(at) {
            let name = &table.info.columns[*at].name;
            let message =
                format!("cannot use generated column \"{name}\" in column generation expression");
            let detail = "A generated column cannot reference another generated column.";
            refused = Err(SqlError::new(code::INVALID_OBJECT_DEFINITION, message).detail(detail));
        }
    });
    refused
}

/// The generated columns of `table`, in order.
pub(crate) fn generated(
    catalog: &mut dyn Catalog,
    table: &Table,
) -> Result<(Vec<GeneratedColumn>, Vec<UsedType>)> {
    let places = table.generated_places();
    if places.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let lines = Lines::default();
    let mut binder = Binder::new(catalog, &lines, &[]);
    let mut bind = |at: &usize| {
        let text = table.column_notes[*at].generated.as_deref().unwrap_or_default();
        let (node, slot) = (parse::expression(text)?, Slot::of_table(table, *at));
        let bound = binder.of_kept(|binder| binder.generation(&node, table, &slot, &places))?;
        Ok(GeneratedColumn { at: *at, expr: bound.stored })
    };
    let all = places.iter().map(&mut bind).collect::<Result<_>>()?;
    Ok((all, binder.take_used_types()))
}
