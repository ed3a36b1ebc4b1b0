//! CREATE TABLE, TRUNCATE, and the defaults of columns.
//!
//! Does not do: changes of tables that are there (`alter`).

use rightlink::{Busy, ColumnDefault, ColumnSchema, LockMode};

use super::{Definer, check_keys, named};
use crate::bind::ddl::{NamedSequence, NewTable};
use crate::bind::reading::Reading;
use crate::bind::{Binder, Catalog, Slot};
use crate::error::{Result, SqlError, code};
use crate::exec::tables::Tables;
use crate::expr::Expr;
use crate::names::bare;
use crate::parse::{self, Lines};
use crate::types::declared::ByteOrder;
use crate::types::{Datum, SqlType};

impl Definer<'_> {
    pub(super) fn create_table(&mut self, table: &NewTable, if_not_exists: bool) -> Result<()> {
        let name = &table.schema.name;
        if if_not_exists && self.txn.catalog().describe(name).is_ok() {
            let name = bare(name);
            self.notices.push(format!("relation \"{name}\" already exists, skipping"));
            return Ok(());
        }
        self.refuse_type_name(name)?;
        let mut schema = table.schema.clone();
        for index in &schema.indexes {
            let keys = index.columns.iter().map(|key| &key.name);
            for name in keys.chain(&index.included) {
                if !schema.columns.iter().any(|column| column.name == *name) {
                    let message = format!("column \"{name}\" named in key does not exist");
                    return Err(SqlError::new(code::UNDEFINED_COLUMN, message));
                }
            }
        }
        for at in 0..schema.columns.len() {
            self.finish_column(table, at, &mut schema.columns[at])?;
        }
        let keys = schema.indexes.iter().flat_map(|index| &index.columns).map(|key| &key.name);
        check_keys(&schema.columns, keys.chain(&schema.primary_key))?;
        for at in &table.unnamed {
            let others = schema.indexes.iter().enumerate().filter(|(other, _)| other != at);
            let mut own: Vec<String> = others.map(|(_, index)| index.name.clone()).collect();
            own.extend([name.clone()].into_iter().chain(table.primary_name.clone()));
            schema.indexes[*at].name =
                self.txn.catalog().free_name(&schema.indexes[*at].name, &own)?;
        }
        named(name, self.txn.create_table(&schema))?;
        let owner = self.context.owner;
        self.note(name, |notes| (notes.analyze, notes.owner) = (table.analyze, owner))?;
        if let Some(wanted) = &table.primary_name {
            let made =
                self.txn.catalog().describe(name)?.indexes.into_iter().find(|index| index.primary);
            if let Some(made) = made.filter(|made| made.name != *wanted) {
                named(wanted, self.txn.rename_index(&made.name, wanted))?;
            }
        }
        self.note_generated(name, &table.generated)?;
        for NamedSequence { column, parts } in &table.sequences {
            self.name_identity(name, column, parts)?;
        }
        for (at, kind) in &table.late {
            self.add_late(name, &schema.indexes[*at].name, *kind)?;
        }
        for check in &table.checks {
            self.add_check(name, check)?;
        }
        table.keys.iter().try_for_each(|key| self.add_key(name, key))
    }

    /// Puts default and notes into the schema of column `at`. Gives the default, bound.
    pub(super) fn finish_column(
        &mut self,
        table: &NewTable,
        at: usize,
        column: &mut ColumnSchema,
    ) -> Result<Expr> {
        if let Some(name) = &table.collations[at] {
            column.collation = Tables(self.txn).collation(name)?;
        }
        let mut notes = table.notes[at].clone();
        notes.collation = table.collations[at].as_deref().and_then(ByteOrder::parse);
        let mut bound = Expr::null();
        if let Some(node) = &table.defaults[at] {
            let modifier = notes.modifier;
            let ty = notes.type_of(column.kind, &table.made);
            let slot = Slot::of_column(&column.name, ty, modifier);
            let node = self.settled(node)?;
            let (default, text) = self.bind_default(&node, &slot)?;
            column.default = self.constant(&default, Some(&text))?;
            (bound, notes.default) = (default, Some(text));
        } else if let Some(domain) = notes.domain.as_ref().filter(|_| table.generated[at].is_none())
        {
            bound = self.domain_default(domain, notes.type_of(column.kind, &table.made), column)?;
        }
        column.note = notes.encode();
        Ok(bound)
    }

    /// The default as the store can keep it: a constant. The value of a function that a user made
    /// is none, since that may be replaced.
    pub(super) fn constant(
        &mut self,
        bound: &Expr,
        text: Option<&str>,
    ) -> Result<Option<ColumnDefault>> {
        match text {
            Some(text) if self.calls_functions(text)? => Ok(None),
            _ => Ok(constant(bound)),
        }
    }

    /// What a domain gives to a column that has no default of its own.
    fn domain_default(&mut self, domain: &str, ty: SqlType, column: &ColumnSchema) -> Result<Expr> {
        let slot = Slot::of_column(&column.name, ty, None);
        let (mut tables, lines) = (Tables(self.txn), Lines::default());
        let mut binder = Binder::new(&mut tables, &lines, &[]);
        let bound = binder.domain_default(domain, &slot)?.unwrap_or_else(Expr::null);
        let sequences = std::mem::take(&mut binder.sequences);
        self.context.sequences.open(&sequences, self.txn)?;
        Ok(bound)
    }

    /// A default that was settled, and the text that is kept of it.
    pub(super) fn bind_default(
        &mut self,
        node: &sqlparser::ast::Expr,
        slot: &Slot,
    ) -> Result<(Expr, String)> {
        let text = node.to_string();
        let lines = Lines::of(&text);
        let mut tables = Tables(self.txn);
        let mut binder = Binder::new(&mut tables, &lines, &[]);
        binder.reading = Reading::to_keep(self.context.times.clone());
        let bound = binder.default_from(node, slot)?;
        let sequences = std::mem::take(&mut binder.sequences);
        let text = parse::types::in_small_letters(&binder.reading.pinned(&text)?)?;
        // They must be there.
        self.context.sequences.open(&sequences, self.txn)?;
        Ok((bound, text))
    }

    /// Takes all rows away. Foreign keys of other tables keep them, unless those go along.
    pub(super) fn truncate(
        &mut self,
        tables: &[String],
        restart: bool,
        cascade: bool,
    ) -> Result<()> {
        let mut all = tables.to_vec();
        let mut at = 0;
        while let Some(name) = all.get(at).cloned() {
            self.refuse_no_table(&name)?;
            named(&name, self.txn.lock_table(&name, LockMode::Exclusive, Busy::Wait))?;
            let table = self.table(&name)?;
            for child in &table.notes.children {
                if all.contains(child) {
                    continue;
                }
                if !cascade {
                    let message = "cannot truncate a table referenced in a foreign key constraint";
                    let (child, name) = (bare(child), bare(&name));
                    let detail = format!("Table \"{child}\" references \"{name}\".");
                    let hint = format!(
                        "Truncate table \"{child}\" at the same time, or use TRUNCATE ... CASCADE."
                    );
                    return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message)
                        .detail(detail)
                        .hint(hint));
                }
                self.notices.push(format!("truncate cascades to table \"{}\"", bare(child)));
                all.push(child.clone());
            }
            at += 1;
        }
        for name in &all {
            named(name, self.txn.truncate(name, restart))?;
            if restart {
                self.restart_owned(name)?;
            }
        }
        Ok(())
    }
}

/// The default that an expression is, if it is a constant.
fn constant(bound: &Expr) -> Option<ColumnDefault> {
    match bound {
        Expr::Const(Datum::Null) => None,
        Expr::Const(value) => value.clone().into_value().map(ColumnDefault::Value),
        _ => None,
    }
}
