//! Descriptions of tables: columns, indexes, sizes.
//!
//! Invariants: a table that damage keeps from being opened is described without sizes.
//! Does not do: figures of use (`stats`).

use crate::buffer::BufferPool;
use crate::catalog::Entry;
use crate::db::Database;
use crate::db::define::CheckSchema;
use crate::db::info::{ColumnInfo, IdentityInfo, IndexInfo, KeyColumnInfo, TableInfo};
use crate::error::{Error, Result};
use crate::ids::ObjectId;
use crate::table::schema::{Check, Column, ColumnNo, IndexColumn, IndexDef, TableDef};
use crate::txn::LockMode;
use crate::upkeep::{Engine, Watch};

impl Database {
    /// All tables, sorted by name. Of one that damage keeps from being opened there is the
    /// definition, without sizes.
    pub fn tables(&self) -> Result<Vec<TableInfo>> {
        let engine = self.engine();
        engine.check_open()?;
        let defs = engine.catalog.definitions()?;
        let mut infos = Vec::with_capacity(defs.len());
        for def in defs {
            let info = self.describe(&def.name);
            match info.or_else(|error| defined(engine, &def.name, error)) {
                Err(Error::NotFound(_)) => {}
                info => infos.push(info?),
            }
        }
        Ok(infos)
    }

    /// One table.
    pub fn describe(&self, table: &str) -> Result<TableInfo> {
        self.engine().check_open()?;
        let (_txn, entry) = self.engine().use_table(table, LockMode::Access, Watch::default())?;
        Ok(table_info(self.engine(), &entry))
    }
}

/// The definition of a table that could not be opened because of `error`, if that is damage. Files
/// that are not open have no size in it.
pub(super) fn defined(engine: &Engine, table: &str, error: Error) -> Result<TableInfo> {
    match (&error, engine.catalog.definition(table)) {
        (Error::Corruption { .. }, Ok((def, primary))) => Ok(info_of(&engine.pool, &def, primary)),
        _ => Err(error),
    }
}

/// The description of a table whose lock is held.
pub(super) fn table_info(engine: &Engine, entry: &Entry) -> TableInfo {
    let table = &entry.table;
    let info = info_of(&engine.pool, table.def(), entry.primary);
    TableInfo {
        heap_blocks: table.heap().blocks(),
        overflow_blocks: table.overflow().map_or(0, |store| store.blocks()),
        ..info
    }
}

fn info_of(pool: &BufferPool, def: &TableDef, primary: Option<ObjectId>) -> TableInfo {
    let column = |(_, column): (u16, &Column)| ColumnInfo {
        name: column.name.clone(),
        kind: column.ty,
        nullable: column.nullable,
        default: column.default.clone(),
        identity: column.identity.as_ref().map(|identity| IdentityInfo {
            sequence: identity.def.name.clone(),
            always: identity.always,
            start: identity.def.start,
            increment: identity.def.increment,
        }),
        note: column.note.clone(),
        collation: column.collation.clone(),
    };
    let check = |check: &Check| CheckSchema {
        name: check.name.clone(),
        predicate: def.named_predicate(&check.predicate),
    };
    let index = |index: &IndexDef| IndexInfo {
        primary: primary == Some(index.id),
        blocks: pool.open_blocks(index.file).unwrap_or(0),
        ..index_info(def, index)
    };
    TableInfo {
        id: def.id.0,
        name: def.name.clone(),
        columns: def.live().map(column).collect(),
        indexes: def.indexes.iter().map(index).collect(),
        logged: def.logged,
        fillfactor: def.fillfactor,
        heap_blocks: 0,
        overflow_blocks: 0,
        checks: def.checks.iter().map(check).collect(),
        note: def.note.clone(),
        auto_vacuum: def.auto_vacuum,
    }
}

/// The description of an index without its size, as one that is not the primary key.
fn index_info(def: &TableDef, index: &IndexDef) -> IndexInfo {
    let name = |column: ColumnNo| def.columns[usize::from(column)].name.clone();
    let key = |key: &IndexColumn| KeyColumnInfo {
        name: name(key.column),
        descending: key.descending,
        nulls_first: key.nulls_first,
        collation: key.collation.clone(),
    };
    IndexInfo {
        id: index.id.0,
        name: index.name.clone(),
        columns: index.columns.iter().map(key).collect(),
        unique: index.unique,
        nulls_not_distinct: index.nulls_equal,
        included: index.included.iter().map(|column| name(*column)).collect(),
        predicate: index.predicate.as_ref().map(|predicate| def.named_predicate(predicate)),
        primary: false,
        method: index.method,
        blocks: 0,
    }
}
