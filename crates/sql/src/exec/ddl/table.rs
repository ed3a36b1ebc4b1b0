//! CREATE TABLE, TRUNCATE, and the defaults of columns.
//!
//! Does not do: changes of tables that are there (`alter`).

use rightlink::{
    ColumnDefault, ColumnSchema, Error, IdentitySchema, IndexSchema, KeyCollation, KeyColumn,
    TableInfo, TableSchema,
};

use super::{Definer, named};
use crate::bind::ddl::NewTable;
use crate::bind::{Binder, Catalog, Slot};
use crate::error::{Result, SqlError, code};
use crate::exec::tables::Tables;
use crate::expr::Expr;
use crate::parse::Lines;
use crate::types::{Datum, SqlType};

impl Definer<'_> {
    pub(super) fn create_table(&mut self, table: &NewTable, if_not_exists: bool) -> Result<()> {
        let name = &table.schema.name;
        if if_not_exists && self.txn.describe(name).is_ok() {
            self.notices.push(format!("relation \"{name}\" already exists, skipping"));
            return Ok(());
        }
        let mut schema = table.schema.clone();
        for index in &schema.indexes {
            for key in &index.columns {
                if !schema.columns.iter().any(|column| column.name == key.name) {
                    let message = format!("column \"{}\" named in key does not exist", key.name);
                    return Err(SqlError::new(code::UNDEFINED_COLUMN, message));
                }
            }
        }
        for at in 0..schema.columns.len() {
            self.finish_column(table, at, &mut schema.columns[at])?;
        }
        named(name, self.txn.create_table(&schema))?;
        let primary = format!("{name}_pkey");
        if let Some(wanted) = table.primary_name.as_ref().filter(|wanted| **wanted != primary) {
            named(wanted, self.txn.rename_index(&primary, wanted))?;
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
        let mut bound = Expr::null();
        if let Some(node) = &table.defaults[at] {
            let modifier = notes.modifier;
            let ty = match modifier {
                Some(crate::types::declared::Modifier::Char(_)) => SqlType::Bpchar,
                _ => SqlType::of_column(column.kind),
            };
            let slot = Slot { name: column.name.clone(), ty, modifier, default: Expr::null() };
            bound = self.bind_default(node, &slot)?;
            notes.default = Some(node.to_string());
            column.default = constant(&bound);
        }
        column.note = notes.encode();
        Ok(bound)
    }

    pub(super) fn bind_default(
        &mut self,
        node: &sqlparser::ast::Expr,
        slot: &Slot,
    ) -> Result<Expr> {
        let (mut tables, lines) = (Tables(self.txn), Lines::default());
        let mut binder = Binder::new(&mut tables, &lines, &[]);
        let bound = binder.default_from(node, slot)?;
        let sequences = std::mem::take(&mut binder.sequences);
        // They must be there.
        self.context.sequences.open(&sequences, self.txn)?;
        Ok(bound)
    }

    /// Tables of the same definitions take the places of the old ones.
    pub(super) fn truncate(
        &mut self,
        tables: &[String],
        restart: bool,
        cascade: bool,
    ) -> Result<()> {
        let mut all = tables.to_vec();
        let mut at = 0;
        while let Some(name) = all.get(at).cloned() {
            let table = self.table(&name)?;
            for child in &table.notes.children {
                if all.contains(child) {
                    continue;
                }
                if !cascade {
                    let message = "cannot truncate a table referenced in a foreign key constraint";
                    let detail = format!("Table \"{child}\" references \"{name}\".");
                    let hint = format!(
                        "Truncate table \"{child}\" at the same time, or use TRUNCATE ... CASCADE."
                    );
                    return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message)
                        .detail(detail)
                        .hint(hint));
                }
                self.notices.push(format!("truncate cascades to table \"{child}\""));
                all.push(child.clone());
            }
            at += 1;
        }
        all.iter().try_for_each(|name| self.truncate_one(name, restart))
    }

    fn truncate_one(&mut self, table: &str, restart: bool) -> Result<()> {
        let info = named(table, self.txn.describe(table))?;
        let mut next = Vec::new();
        for identity in info.columns.iter().filter_map(|column| column.identity.as_ref()) {
            match self.txn.next_value(&identity.sequence) {
                Ok(number) if !restart => next.push((identity.sequence.clone(), number)),
                Ok(_) | Err(Error::Limit(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let schema = schema_of(&info);
        named(table, self.txn.drop_table(table))?;
        named(table, self.txn.create_table(&schema))?;
        if let Some(primary) = info.indexes.iter().find(|index| index.primary) {
            let made = format!("{table}_pkey");
            if primary.name != made {
                self.txn.rename_index(&made, &primary.name)?;
            }
        }
        for (sequence, number) in next {
            self.txn.restart_sequence(&sequence, number)?;
        }
        Ok(())
    }
}

/// The default as the store can keep it: a constant.
pub(super) fn constant(bound: &Expr) -> Option<ColumnDefault> {
    match bound {
        Expr::Const(Datum::Null) => None,
        Expr::Const(value) => value.clone().into_value().map(ColumnDefault::Value),
        _ => None,
    }
}

fn schema_of(info: &TableInfo) -> TableSchema {
    let mut schema = TableSchema::new(&info.name);
    schema.logged = info.logged;
    schema.fillfactor = info.fillfactor;
    schema.auto_vacuum = info.auto_vacuum;
    schema.checks = info.checks.clone();
    schema.note = info.note.clone();
    for column in &info.columns {
        let identity = column.identity.as_ref().map(|identity| IdentitySchema {
            always: identity.always,
            start: identity.start,
            increment: identity.increment,
        });
        schema.columns.push(ColumnSchema {
            nullable: column.nullable,
            default: column.default.clone(),
            identity,
            note: column.note.clone(),
            collation: column.collation.clone(),
            ..ColumnSchema::new(column.name.clone(), column.kind)
        });
    }
    for index in &info.indexes {
        if index.primary {
            schema.primary_key = index.columns.iter().map(|column| column.name.clone()).collect();
            continue;
        }
        let key = |column: &rightlink::KeyColumnInfo| KeyColumn {
            name: column.name.clone(),
            descending: column.descending,
            nulls_first: column.nulls_first,
            collation: match &column.collation {
                Some(collation) => KeyCollation::Given(collation.clone()),
                None => KeyCollation::Bytes,
            },
        };
        let columns = index.columns.iter().map(key).collect();
        let (unique, method) = (index.unique, index.method);
        schema.indexes.push(IndexSchema {
            columns,
            unique,
            method,
            nulls_not_distinct: index.nulls_not_distinct,
            included: index.included.clone(),
            predicate: index.predicate.clone(),
            ..IndexSchema::new(&index.name)
        });
    }
    schema
}
