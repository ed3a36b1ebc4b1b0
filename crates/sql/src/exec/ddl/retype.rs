//! ALTER COLUMN TYPE: every row is written anew, with what its value becomes when it is stored into
//! a column of the new type, or with what USING makes of the row.
//!
//! Invariants: defaults and checks are bound again under the new type, checks are asked about every
//! row. USING sees rows as they were before the statement.
//! Does not do: columns of foreign keys whose values would change.

use std::cell::RefCell;

use rightlink::{AlterTable, ColumnDefault, Error, Test, Value};
use sqlparser::ast::{DataType, Expr as Ast};

use super::alter::has_nulls;
use super::{Definer, duplicated, named, operator_class};
use crate::bind::ddl::NewCheck;
use crate::bind::reading::Reading;
use crate::bind::rules::place_in;
use crate::bind::{Binder, Slot};
use crate::error::{Result, SqlError, code};
use crate::exec::failure::{carry, unless};
use crate::exec::rows::to_value;
use crate::exec::tables::Tables;
use crate::expr::Expr;
use crate::parse::{self, Lines, identifiers};
use crate::plan::Table;
use crate::schemas::Resolver;
use crate::types::cast::{CastContext, cast, context};
use crate::types::declared::Declared;
use crate::types::{Datum, Row, SqlType};

impl Definer<'_> {
    /// Gives a column another type. The statement has done so with those of `retyped` before.
    pub(super) fn change_type(
        &mut self,
        name: &str,
        (column, kind, using): (&str, &DataType, Option<&Ast>),
        retyped: &[&str],
    ) -> Result<()> {
        let path = self.context.settings.path();
        let to = identifiers::column_type(kind, &mut Resolver::new(self.txn, &path))?;
        let table = self.table(name)?;
        let at = self.column_at(&table, column)?;
        if retyped.contains(&column) {
            let message = format!("cannot alter type of column \"{column}\" twice");
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
        }
        self.refuse_used_column(name, column)?;
        if using.is_some() && table.column_notes[at].generated.is_some() {
            let message = "cannot specify USING when altering type of generated column";
            let detail = format!("Column \"{column}\" is a generated column.");
            return Err(SqlError::new(code::INVALID_COLUMN_DEFINITION, message).detail(detail));
        }
        let from = table.types[at];
        let cast = context(from, to.ty);
        let is_assigned = matches!(cast, Some(CastContext::Implicit | CastContext::Assignment));
        if using.is_none() && !is_assigned {
            let new = to.ty.name();
            let message = format!("column \"{column}\" cannot be cast automatically to type {new}");
            let hint = format!("You might need to specify \"USING {column}::{new}\".");
            let error = SqlError::new(code::DATATYPE_MISMATCH, message);
            // USING is not for generated columns.
            let is_generated = table.column_notes[at].generated.is_some();
            return Err(if is_generated { error } else { error.hint(hint) });
        }
        let using = using.map(|using| self.transform(&table, (at, to), using)).transpose()?;
        if let Some(using) = &using {
            refuse_new_values(using, &table, retyped)?;
        }
        let has_default =
            table.column_notes[at].default.is_some() || table.info.columns[at].default.is_some();
        if !is_assigned && has_default {
            return Err(default_stays(column, to.ty));
        }
        if cast != Some(CastContext::Implicit) && from.category() != to.ty.category() {
            refuse_constants(&table, at, to.ty)?;
        }
        self.refuse_change(&table, at, to)?;
        operator_class::refuse_type(&table, at, to)?;
        let generation = self.take_generation(&table, at, to)?;
        let indexes = self.take_expressions(&table, at)?;
        let checks = self.take_checks(&table, at)?;
        self.txn.alter_table(name, AlterTable::Default { column, default: None })?;
        self.rewrite(name, column, (to, using.as_ref()))?;
        self.note_column(name, column, |notes| {
            notes.declare(to);
            notes.collation = None;
            notes.generated = generation;
        })?;
        let default = self.default_now(name, at)?;
        self.txn.alter_table(name, AlterTable::Default { column, default })?;
        self.forget_column(&table, column)?;
        checks.iter().try_for_each(|check| self.add_check(name, check))?;
        self.put_expressions(name, indexes)
    }

    /// What USING makes of a row of `table`, as it is now.
    fn transform(
        &mut self,
        table: &Table,
        (at, to): (usize, Declared),
        using: &Ast,
    ) -> Result<Expr> {
        let slot = Slot::of_column(&table.info.columns[at].name, to.ty, to.modifier);
        let (mut tables, lines) = (Tables(self.txn), Lines::default());
        let mut binder = Binder::new(&mut tables, &lines, &[]);
        binder.reading = Reading::of(self.context.times.clone());
        let bound = binder.transform(using, table, &slot)?;
        let sequences = std::mem::take(&mut binder.sequences);
        self.context.sequences.open(&sequences, self.txn)?;
        Ok(bound)
    }

    fn refuse_change(&mut self, table: &Table, at: usize, to: Declared) -> Result<()> {
        let (name, column) = (&table.info.name, &table.info.columns[at]);
        let whole = [SqlType::Int2, SqlType::Int4, SqlType::Int8].contains(&to.ty);
        if column.identity.is_some() && !whole {
            let message = "identity column type must be smallint, integer, or bigint";
            return Err(SqlError::new(code::INVALID_PARAMETER, message));
        }
        let keys = table.info.indexes.iter().flat_map(|index| &index.columns);
        if to.ty.is_encoded() && keys.clone().any(|key| key.name == column.name) {
            return Err(SqlError::unsupported(format!("a key column of type {}", to.ty.name())));
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
                uses |= matches!(expr, Expr::Column(column) if *column == at);
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

    fn rewrite(
        &mut self,
        name: &str,
        column: &str,
        (to, using): (Declared, Option<&Expr>),
    ) -> Result<()> {
        let kind = to.ty.to_column().filter(|_| to.ty != SqlType::Unknown);
        let unsupported = || SqlError::unsupported(format!("a column of type {}", to.ty.name()));
        let kind = kind.ok_or_else(unsupported)?;
        let tests = match to.domain {
            Some(domain) => self.tests_of(domain.stored())?,
            None => Vec::new(),
        };
        let context = self.context;
        let in_domain = |value: Datum| {
            tests.iter().try_for_each(|test| test.ask(&value, context))?;
            to_value(value)
        };
        let failed = RefCell::new(None);
        let table = self.table(name)?;
        let at = place_in(&table, column)?;
        let times = &self.context.times;
        let mut convert = |value: Value| {
            let old = Datum::stored(value, table.types[at]);
            let stored =
                old.and_then(|old| cast(old, to.ty, times)).and_then(|value| match to.modifier {
                    Some(modifier) => modifier.fit(value, false),
                    None => Ok(value),
                });
            carry(&mut failed.borrow_mut(), stored.and_then(in_domain))
        };
        let changed = match using {
            None => self.txn.alter_table(
                name,
                AlterTable::ColumnType { column, to: kind, convert: &mut convert, of_row: None },
            ),
            Some(using) => {
                let mut of_row = |row: &[Value]| {
                    let row = Datum::stored_row(row, &table.types).collect::<Result<Row>>();
                    let value = row.and_then(|row| using.eval(&row, context)).and_then(in_domain);
                    carry(&mut failed.borrow_mut(), value)
                };
                self.txn.alter_table(
                    name,
                    AlterTable::ColumnType {
                        column,
                        to: kind,
                        convert: &mut convert,
                        of_row: Some(&mut of_row),
                    },
                )
            }
        };
        let failed = failed.into_inner();
        match changed {
            Err(Error::UniqueViolation { table, index, columns, key }) if failed.is_none() => {
                Err(duplicated(&table, &index, &columns, &key))
            }
            Err(Error::NotNullViolation { table, column }) => Err(has_nulls(&table, &column)),
            other => named(name, Ok(unless(failed, other)?)),
        }?;
        self.recheck_late(name, column)
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
        let bound = bound.map_err(|error| match error.sqlstate {
            code::DATATYPE_MISMATCH => default_stays(&column.name, table.types[at]),
            _ => error,
        })?;
        self.constant(&bound, table.column_notes[at].default.as_deref())
    }
}

/// USING is about rows as they were: not about columns that the statement has changed before.
fn refuse_new_values(using: &Expr, table: &Table, retyped: &[&str]) -> Result<()> {
    let mut changed = None;
    using.walk(&mut |expr| {
        if let Expr::Column(at) = expr {
            let name = table.info.columns.get(*at).map(|column| column.name.as_str());
            changed = changed.or(name.filter(|name| retyped.contains(name)));
        }
    });
    match changed {
        Some(name) => {
            let what = format!("USING with column \"{name}\", whose type this statement changes");
            Err(SqlError::unsupported(what).hint("Change it in a statement of its own."))
        }
        None => Ok(()),
    }
}

/// Constants that an index of some rows compares column `at` with must go with the new type.
fn refuse_constants(table: &Table, at: usize, to: SqlType) -> Result<()> {
    let column = &table.info.columns[at].name;
    let predicates = table.info.indexes.iter().filter_map(|index| index.predicate.as_ref());
    let terms = predicates.flat_map(|predicate| &predicate.terms);
    for term in terms.filter(|term| term.column == *column) {
        if let Test::Compare(comparison, _) = &term.test {
            let (to, from) = (to.name(), table.types[at].name());
            let message = format!("operator does not exist: {to} {} {from}", comparison.sign());
            return Err(SqlError::new(code::UNDEFINED_FUNCTION, message));
        }
    }
    Ok(())
}

fn default_stays(column: &str, ty: SqlType) -> SqlError {
    let ty = ty.name();
    let message =
        format!("default for column \"{column}\" cannot be cast automatically to type {ty}");
    SqlError::new(code::DATATYPE_MISMATCH, message)
}
