//! Descriptions of tables: columns, indexes, sizes.
//!
//! Invariants: a table that damage keeps from being opened is described without sizes.
//! Does not do: figures of use (`stats`).

use rightlink_aio::DeviceFigures;

use crate::buffer::BufferPool;
use crate::catalog::{Changes, Entry};
use crate::db::Database;
use crate::db::definition;
use crate::db::info::{IndexInfo, ReadTimes, TableInfo};
use crate::error::{Error, Result};
use crate::table::Table;
use crate::table::schema::{IndexDef, TableDef};
use crate::txn::LockMode;
use crate::upkeep::{Engine, Watch};

/// Blocks of a table or of an index.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    /// Their number.
    pub blocks: u32,
    /// The share of a table's blocks whose rows everybody sees.
    pub visible_share: f32,
}

impl Database {
    /// All committed tables, sorted by name, as [`Catalog::tables`](crate::Catalog::tables).
    pub fn tables(&self) -> Result<Vec<TableInfo>> {
        self.begin().catalog().tables()
    }

    /// A committed table with the sizes that it has now. Locks nothing and waits for no
    /// transaction. `None`: it is not there any more, or damage keeps it from being opened.
    pub fn sized(&self, table: &TableInfo) -> Option<TableInfo> {
        let entry = self.engine().catalog.committed(&table.name)?;
        let same = entry.table.def().id.0 == table.id;
        same.then(|| table_info(self.engine(), &entry))
    }

    /// The blocks that a committed table has now, or one of its indexes. As [`Database::sized`],
    /// without its definition.
    pub fn blocks_of(&self, table: &TableInfo, index: Option<u32>) -> Option<Blocks> {
        let engine = self.engine();
        let entry = engine.catalog.committed(&table.name)?;
        let def = entry.table.def();
        if def.id.0 != table.id {
            return None;
        }
        let Some(index) = index else {
            let heap = entry.table.heap();
            return Some(Blocks { blocks: heap.blocks(), visible_share: heap.visible_share() });
        };
        let found = def.indexes.iter().find(|one| one.id.0 == index)?;
        let blocks = engine.pool.open_blocks(found.file).unwrap_or(0);
        Some(Blocks { blocks, visible_share: 0.0 })
    }

    /// Definition and sizes of one committed table. Waits for a transaction that changes it.
    ///
    /// # Errors
    /// `NotFound` if there is no such table, `Corruption` if damage keeps it from being opened.
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
        (Error::Corruption { .. }, Ok(def)) => Ok(info_of(&engine.pool, &def)),
        _ => Err(error),
    }
}

/// The description of a table whose lock is held.
pub(super) fn table_info(engine: &Engine, entry: &Entry) -> TableInfo {
    sized(info_of(&engine.pool, entry.table.def()), engine, &entry.table)
}

/// The description of a table by its definition, without its lock. The sizes
/// are those that its files have now.
pub(super) fn seen(engine: &Engine, changes: &Changes, def: &TableDef) -> TableInfo {
    // Files that are not open have no size.
    let open = engine.catalog.look_at(changes, def);
    let info = info_of(&engine.pool, def);
    let Some(entry) = open else { return info };
    sized(info, engine, &entry.table)
}

fn sized(info: TableInfo, engine: &Engine, table: &Table) -> TableInfo {
    let heap_blocks = table.heap().blocks();
    let blocks = info.indexes.iter().map(|index| u64::from(index.blocks)).sum::<u64>();
    let blocks = (blocks + u64::from(heap_blocks)).max(1);
    TableInfo {
        heap_blocks,
        pool_share: (engine.pool.frames() as f32 / blocks as f32).min(1.0),
        read_times: read_times(engine.device),
        visible_share: table.heap().visible_share(),
        overflow_blocks: table.overflow().map_or(0, |store| store.blocks()),
        ..info
    }
}

fn read_times(device: DeviceFigures) -> ReadTimes {
    let usual = ReadTimes::default();
    let time = |per_s: u32, usual| 1_000_000_000u32.checked_div(per_s).unwrap_or(usual);
    ReadTimes {
        scattered_ns: time(device.scattered_per_s, usual.scattered_ns),
        in_order_ns: time(device.in_order_per_s, usual.in_order_ns),
    }
}

fn info_of(pool: &BufferPool, def: &TableDef) -> TableInfo {
    let index = |index: &IndexDef| IndexInfo {
        id: index.id.0,
        schema: definition::index_schema(index, def),
        primary: index.primary,
        blocks: pool.open_blocks(index.file).unwrap_or(0),
    };
    TableInfo {
        id: def.id.0,
        schema: definition::schema(def),
        indexes: def.indexes.iter().map(index).collect(),
        heap_blocks: 0,
        visible_share: 0.0,
        overflow_blocks: 0,
        pool_share: 1.0,
        read_times: ReadTimes::default(),
    }
}
