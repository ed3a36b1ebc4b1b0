//! Generated columns: made with a table or added to one, and made plain columns.
//!
//! Invariants: a generation expression is immutable and names nothing that can be dropped by
//! itself; every row has its value from the statement on that makes the column.
//! Does not do: the values of rows that are written later (`exec::rows`).

use rightlink::{AlterTable, ColumnSchema, Value};
use sqlparser::ast::Expr as Ast;

use super::Definer;
use super::expression::{names, names_made_type};
use super::identity::of_relation;
use super::rename::replaced;
use crate::bind::generated::Generation;
use crate::bind::{Binder, Slot};
use crate::error::{Result, SqlError, code};
use crate::exec::rows::to_value;
use crate::exec::tables::Tables;
use crate::expr::Expr;
use crate::expr::immutable::is_immutable;
use crate::parse::{self, Lines};
use crate::plan::Table;
use crate::types::declared::Declared;
use crate::types::{Datum, Row};

/// A generation expression as a table keeps it.
struct Kept {
    expr: Expr,
    text: String,
}

impl Definer<'_> {
    /// Notes the expressions that columns of a new table are generated from.
    pub(super) fn note_generated(&mut self, name: &str, all: &[Option<Ast>]) -> Result<()> {
        let nodes = || all.iter().enumerate().filter_map(|(at, node)| Some((at, node.as_ref()?)));
        let generated: Vec<usize> = nodes().map(|(at, _)| at).collect();
        if generated.is_empty() {
            return Ok(());
        }
        let table = self.table(name)?;
        let bind = |(at, node)| Ok((at, self.bind_generation(node, &table, at, &generated)?));
        let kept = nodes().map(bind).collect::<Result<Vec<(usize, Kept)>>>()?;
        for (at, kept) in kept {
            let column = &table.info.columns[at].name;
            self.note_column(name, column, |notes| notes.generated = Some(kept.text))?;
        }
        Ok(())
    }

    fn bind_generation(
        &mut self,
        node: &Ast,
        table: &Table,
        at: usize,
        generated: &[usize],
    ) -> Result<Kept> {
        let slot = Slot::of_table(table, at);
        let node = &self.unqualified(node, table, &slot, generated)?;
        let (Generation { value, stored }, text) =
            self.bind_kept(node, |binder, node| binder.generation(node, table, &slot, generated))?;
        // As in PostgreSQL, the assignment may depend on the session.
        if !is_immutable(&value.expr, &table.types) {
            let message = "generation expression is not immutable";
            return Err(SqlError::new(code::INVALID_OBJECT_DEFINITION, message));
        }
        let is_label =
            matches!(&stored, Expr::Const(value) if !value.is_null()) && names_made_type(&stored);
        if is_label || names_made_type(&value.expr) {
            let what = "a generation expression that names a type made by CREATE";
            return Err(SqlError::unsupported(what));
        }
        Ok(Kept { expr: stored, text })
    }

    /// A generation expression without the name of its table, which may be another one later.
    fn unqualified(
        &mut self,
        node: &Ast,
        table: &Table,
        slot: &Slot,
        generated: &[usize],
    ) -> Result<Ast> {
        let text = self.settled(node)?.to_string();
        let (mut tables, lines) = (Tables(self.txn), Lines::default());
        let mut binder = Binder::new(&mut tables, &lines, &[]);
        binder.generation(&parse::expression(&text)?, table, slot, generated)?;
        let text = replaced(&text, &binder.qualifiers, "").unwrap_or(text);
        parse::expression(&text)
    }

    /// Adds a generated column, with its value in every row.
    pub(super) fn add_generated_column(
        &mut self,
        name: &str,
        mut schema: ColumnSchema,
        node: &Ast,
    ) -> Result<()> {
        let nullable = std::mem::replace(&mut schema.nullable, true);
        self.txn.alter_table(name, AlterTable::AddColumn(&schema))?;
        let table = self.table(name)?;
        let at = self.column_at(&table, &schema.name)?;
        let mut generated = table.generated_places();
        generated.push(at);
        let kept = self.bind_generation(node, &table, at, &generated)?;
        self.fill_generated(&table, at, &kept.expr)?;
        self.note_column(name, &schema.name, |notes| notes.generated = Some(kept.text))?;
        if nullable { Ok(()) } else { self.set_nullable(name, &schema.name, false) }
    }

    /// Makes a generated column a plain one, with the values that it has.
    pub(super) fn drop_expression(
        &mut self,
        name: &str,
        column: &str,
        if_exists: bool,
    ) -> Result<()> {
        let table = self.table(name)?;
        let at = self.column_at(&table, column)?;
        if table.column_notes[at].generated.is_some() {
            return self.note_column(name, column, |notes| notes.generated = None);
        }
        let message = of_relation(&table, column, "is not a stored generated column");
        if if_exists {
            self.notices.push(format!("{message}, skipping"));
            return Ok(());
        }
        Err(SqlError::new(code::NOT_IN_STATE, message))
    }

    /// Generated columns that a column is part of go with it, or keep it from going.
    pub(super) fn drop_generated_from(
        &mut self,
        table: &Table,
        column: &str,
        cascade: bool,
    ) -> Result<()> {
        let at = self.column_at(table, column)?;
        let shown = self.context.settings.path().shown(&table.info.name);
        let of_table = |column: &str| format!("column {column} of table {shown}");
        let from = table.generated.iter().filter(|one| names(&one.expr, at));
        let found: Vec<&str> = from.map(|one| table.info.columns[one.at].name.as_str()).collect();
        if found.is_empty() {
            return Ok(());
        }
        if !cascade {
            let what = of_table(column);
            let line = |name: &&str| format!("{} depends on {what}", of_table(name));
            let message = format!("cannot drop {what} because other objects depend on it");
            return Err(SqlError::new(code::DEPENDENT_OBJECTS, message)
                .detail(found.iter().map(line).collect::<Vec<_>>().join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        self.notices.push(match found.as_slice() {
            [only] => format!("drop cascades to {}", of_table(only)),
            more => format!("drop cascades to {} other objects", more.len()),
        });
        let mut each = found.iter();
        each.try_for_each(|name| self.drop_column(&table.info.name, name, false, true))
    }

    /// Takes the generation expression of a column away whose type changes, for a while. What it
    /// gives must go into the new type, and no generated column may come from the column.
    pub(super) fn take_generation(
        &mut self,
        table: &Table,
        at: usize,
        to: Declared,
    ) -> Result<Option<String>> {
        let column = &table.info.columns[at].name;
        if let Some(one) = table.generated.iter().find(|one| names(&one.expr, at)) {
            let message = "cannot alter type of a column used by a generated column";
            let used = &table.info.columns[one.at].name;
            let detail = format!("Column \"{column}\" is used by generated column \"{used}\".");
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message).detail(detail));
        }
        let Some(text) = table.column_notes[at].generated.clone() else { return Ok(None) };
        let slot = Slot::of_column(column, to.ty, to.modifier);
        let (mut tables, lines) = (Tables(self.txn), Lines::default());
        let mut binder = Binder::new(&mut tables, &lines, &[]);
        let generated = table.generated_places();
        let bound = binder.generation(&parse::expression(&text)?, table, &slot, &generated);
        bound.map_err(|error| match error.sqlstate {
            code::DATATYPE_MISMATCH => {
                let message = format!(
                    "generation expression for column \"{column}\" cannot be cast automatically \
                     to type {}",
                    to.ty.name()
                );
                SqlError::new(code::DATATYPE_MISMATCH, message)
            }
            _ => error,
        })?;
        self.note_column(&table.info.name, column, |notes| notes.generated = None)?;
        Ok(Some(text))
    }

    /// Gives each row the value of the column at `at`, also those that the snapshot does not show.
    fn fill_generated(&mut self, table: &Table, at: usize, expr: &Expr) -> Result<()> {
        let tests = match &table.column_notes[at].domain {
            Some(domain) => self.tests_of(domain)?,
            None => Vec::new(),
        };
        let context = self.context;
        let value_of = |row: &[Value]| {
            context.check_interrupt()?;
            let row = Datum::stored_row(row, &table.types).collect::<Result<Row>>()?;
            let value = expr.eval(&row, context)?;
            tests.iter().try_for_each(|test| test.ask(&value, context))?;
            to_value(value)
        };
        self.fill(&table.info.name, &table.info.columns[at], &value_of)
    }
}
