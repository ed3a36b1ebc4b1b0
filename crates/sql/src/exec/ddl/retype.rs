//! ALTER COLUMN TYPE: every row is written anew, with what its value becomes when it is stored into
//! a column of the new type.
//!
//! Invariants: defaults and checks are bound again under the new type, checks are asked about every
//! row. Does not do: USING; columns of foreign keys whose values would change.

use rightlink::{ColumnDefault, Error, Value};
use sqlparser::ast::DataType;

use super::table::constant;
use super::{Definer, named, not_unique};
use crate::bind::ddl::NewCheck;
use crate::bind::{Binder, names};
use crate::error::{Result, SqlError, code};
use crate::exec::rows::to_value;
use crate::exec::tables::Tables;
use crate::exec::write::{carry, unless};
use crate::parse::{self, Lines};
use crate::plan::Table;
use crate::types::cast::{CastContext, cast, context};
use crate::types::declared::Declared;
use crate::types::{Datum, SqlType};

impl Definer<'_> {
    pub(super) fn change_type(&mut self, name: &str, column: &str, kind: &DataType) -> Result<()> {
        let to = names::data_type(kind)?;
        let table = self.table(name)?;
        let at = self.column_at(&table, column)?;
        let from = table.types[at];
        if !matches!(context(from, to.ty), Some(CastContext::Implicit | CastContext::Assignment)) {
            let new = to.ty.name();
            let message = format!("column \"{column}\" cannot be cast automatically to type {new}");
            let hint = format!("You might need to specify \"USING {column}::{new}\".");
            return Err(SqlError::new(code::DATATYPE_MISMATCH, message).hint(hint));
        }
        self.refuse_change(&table, at, to)?;
        let checks = self.take_checks(&table, at)?;
        self.txn.set_default(name, column, None)?;
        self.rewrite(name, column, to)?;
        self.note_column(name, column, |notes| notes.modifier = to.modifier)?;
        let default = self.default_now(name, at)?;
        self.txn.set_default(name, column, default)?;
        checks.iter().try_for_each(|check| self.add_check(name, check))
    }

    fn refuse_change(&mut self, table: &Table, at: usize, to: Declared) -> Result<()> {
        let (name, column) = (&table.info.name, &table.info.columns[at]);
        let whole = [SqlType::Int2, SqlType::Int4, SqlType::Int8].contains(&to.ty);
        if column.identity.is_some() && !whole {
            let message = "identity column type must be smallint, integer, or bigint";
            return Err(SqlError::new(code::INVALID_PARAMETER, message));
        }
        let refers = table.notes.keys.iter().any(|key| key.columns.contains(&column.name));
        let mut referred = false;
        for child in &table.notes.children {
            let child = self.table(child)?;
            let mut keys = child.notes.keys.iter().filter(|key| key.parent == *name);
            referred |= keys.any(|key| key.parent_columns.contains(&column.name));
        }
        if refers || referred {
            let what = format!("changing the type of column \"{}\" of a foreign key", column.name);
            return Err(SqlError::unsupported(what));
        }
        Ok(())
    }

    /// Takes the checks away that name the column.
    fn take_checks(&mut self, table: &Table, at: usize) -> Result<Vec<NewCheck>> {
        let rules = {
            let (mut tables, lines) = (Tables(self.txn), Lines::default());
            Binder::new(&mut tables, &lines, &[]).rules(table)?
        };
        let mut taken = Vec::new();
        for (name, condition) in &rules.checks {
            let mut uses = false;
            condition.walk(&mut |expr| {
                uses |= matches!(expr, crate::expr::Expr::Column(column) if *column == at);
            });
            let text = table.notes.checks.iter().find(|(known, _)| known == name);
            if let Some((_, text)) = text.filter(|_| uses) {
                let condition = parse::expression(text)?;
                taken.push(NewCheck { name: Some(name.clone()), condition });
                self.drop_check(table, name)?;
            }
        }
        Ok(taken)
    }

    fn rewrite(&mut self, name: &str, column: &str, to: Declared) -> Result<()> {
        let kind = to.ty.to_column().filter(|_| to.ty != SqlType::Unknown);
        let unsupported = || SqlError::unsupported(format!("a column of type {}", to.ty.name()));
        let kind = kind.ok_or_else(unsupported)?;
        let mut failed = None;
        let mut convert = |value: Value| {
            let stored = cast(Datum::from(value), to.ty).and_then(|value| match to.modifier {
                Some(modifier) => modifier.fit(value, false),
                None => Ok(value),
            });
            carry(&mut failed, stored.and_then(to_value))
        };
        let changed = self.txn.alter_column_type(name, column, kind, &mut convert);
        match changed {
            Err(error @ Error::UniqueViolation { .. }) if failed.is_none() => {
                let Error::UniqueViolation { index, .. } = &error else { unreachable!() };
                let index = index.clone();
                Err(not_unique(&index, error))
            }
            other => named(name, Ok(unless(failed, other)?)),
        }
    }

    /// The default of a column as it is noted, under the type that it has now.
    fn default_now(&mut self, name: &str, at: usize) -> Result<Option<ColumnDefault>> {
        let table = self.table(name)?;
        let column = &table.info.columns[at];
        if column.identity.is_some() || table.column_notes[at].default.is_none() {
            return Ok(None);
        }
        let (mut tables, lines) = (Tables(self.txn), Lines::default());
        let bound = Binder::new(&mut tables, &lines, &[]).default_of(&table, at);
        let bound = bound.map_err(|error| {
            let (column, ty) = (&column.name, table.types[at].name());
            let message = format!(
                "default for column \"{column}\" cannot be cast automatically to type {ty}"
            );
            if error.sqlstate == code::DATATYPE_MISMATCH {
                SqlError::new(code::DATATYPE_MISMATCH, message)
            } else {
                error
            }
        })?;
        Ok(constant(&bound))
    }
}
