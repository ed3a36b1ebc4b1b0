//! Tests of tables as a whole, on a pool over a simulated disk.
//!
//! `model` compares long random runs with a map; `race` lets threads and isolation levels meet;
//! `build` is about indexes made over rows that exist; `hints` about what a scan remembers of a
//! leaf; `by_key` about reads of single rows; `clean` about entries that leave by key; `between`
//! about versions between snapshots; `partial` about indexes of some rows.

mod between;
mod build;
mod by_key;
mod clean;
mod hints;
mod model;
mod partial;
mod race;
#[cfg(feature = "shuttle")]
mod schedules;
mod statements;

use rightlink_env::sync::Arc;

use crate::buffer::testing::{self, TestPool};
use crate::datum::{Type, Value};
use crate::error::Result;
use crate::heap::{HeapFiles, VacuumOptions};
use crate::ids::{FileId, ObjectId, RowId, Xid};
use crate::txn::{Isolation, Snapshot, Transaction, TxnManager, TxnOptions};

use super::schema::{Column, IndexColumn, IndexDef, TableDef};
use super::{IndexScanOptions, Projection, Statement, Table};

/// A database of one table, without catalog.
pub(crate) struct Store {
    pub(crate) pool: TestPool,
    pub(crate) txns: Arc<TxnManager>,
    pub(crate) table: Arc<Table>,
}

/// `id` (unique), `name`, `tag`, `score`; indexes on id, on (name desc, tag), on score with id
/// beside.
fn items() -> TableDef {
    let columns = vec![
        Column::new("id", Type::Int8, false),
        Column::new("name", Type::Text, true),
        Column::new("tag", Type::Int4, true),
        Column::new("score", Type::Float8, true),
        Column::new("note", Type::Bytes, true),
    ];
    let mut def = TableDef::new(ObjectId(100), "items", FileId(64), columns);
    let name = IndexColumn::descending(1);
    let score = vec![IndexColumn::ascending(3)];
    let tag = IndexColumn { nulls_first: true, ..IndexColumn::ascending(2) };
    let index = |at: u32, name: &str, key, unique| {
        IndexDef::new(ObjectId(100 + at), name, FileId(66 + at), key, unique)
    };
    def.indexes = vec![
        index(1, "items_id", vec![IndexColumn::ascending(0)], true),
        index(2, "items_name_tag", vec![name, tag], false),
        IndexDef { included: vec![0], ..index(3, "items_score", score, false) },
    ];
    def
}

impl Store {
    pub(crate) fn new(frames: usize, seed: u64) -> Self {
        Self::with(items(), frames, seed)
    }

    pub(crate) fn with(def: TableDef, frames: usize, seed: u64) -> Self {
        Self::with_txns(def, (frames, seed), |_| TxnOptions::default())
    }

    /// As [`Store::with`], its transactions with the options made from the pool.
    pub(crate) fn with_txns(
        def: TableDef,
        (frames, seed): (usize, u64),
        options: impl FnOnce(&TestPool) -> TxnOptions,
    ) -> Self {
        let pool = testing::pool(frames, seed);
        TxnManager::create(&pool.pool, Xid::FIRST).unwrap();
        let (shared, options) = (Arc::clone(&pool.pool), options(&pool));
        let txns = TxnManager::open_with(shared, Xid::FIRST, options).unwrap();
        let table = Table::create(&pool.pool, &txns, def).unwrap();
        Self { pool, txns, table }
    }

    pub(crate) fn begin(&self, isolation: Isolation) -> Transaction {
        self.txns.begin(isolation)
    }

    /// Runs one statement in a transaction of its own.
    pub(crate) fn run<T>(&self, work: impl FnOnce(&mut Statement<'_>) -> Result<T>) -> Result<T> {
        let mut txn = self.begin(Isolation::ReadCommitted);
        let result = work(&mut Statement::begin(&mut txn)?)?;
        txn.commit(true)?;
        Ok(result)
    }

    pub(crate) fn insert(&self, id: i64, name: &str) -> Result<RowId> {
        self.run(|statement| self.table.insert(statement, item(id, name)))
    }

    /// Row id and values of the item `id` as `snapshot` sees it.
    pub(crate) fn find(&self, snapshot: &Arc<Snapshot>, id: i64) -> Option<(RowId, Vec<Value>)> {
        let all = self.table.all_columns();
        let index = &self.table.indexes()[0];
        let row = self.table.get(snapshot, index, &[Value::Int8(id)], all).unwrap()?;
        Some((row.row_id, row.values))
    }

    /// All rows as `snapshot` sees them, by id.
    pub(crate) fn all(&self, snapshot: &Arc<Snapshot>) -> Vec<Vec<Value>> {
        let scan = self.table.scan(snapshot, Projection::all(self.table.def()), None);
        let mut rows: Vec<_> = scan.map(|row| row.unwrap().values).collect();
        rows.sort();
        rows
    }

    /// All ids through index `at`, in its order.
    fn ids_by(&self, snapshot: &Arc<Snapshot>, at: usize, options: &IndexScanOptions) -> Vec<i64> {
        let index = &self.table.indexes()[at];
        let id = Projection::new(self.table.def(), &[0]).unwrap();
        let scan = self.table.scan_index(snapshot, index, id, options).unwrap();
        scan.map(|row| as_int(&row.unwrap().values[0])).collect()
    }

    /// Removes dead rows from the indexes, then their line pointers (R3).
    fn vacuum(&self) -> u64 {
        let _turn = self.table.heap().freeing();
        let mut dead = Vec::new();
        let options = VacuumOptions { freeze_below: self.txns.horizon() };
        let heap = self.table.heap();
        heap.scan_dead(1..heap.blocks(), options, &mut |_, page| {
            dead.extend(page.dead);
            Ok(())
        })
        .unwrap();
        dead.sort_unstable();
        for index in self.table.indexes() {
            let mut is_dead = |rows: &[RowId], out: &mut [bool]| {
                for (row, out) in rows.iter().zip(out) {
                    *out = dead.binary_search(row).is_ok();
                }
            };
            index.method().bulk_delete(&mut is_dead).unwrap();
        }
        let freed = heap.free_slots(&dead, &|| Ok(())).unwrap();
        self.table.sweep_values(&self.pool.env.budget, &|_| Ok(())).unwrap();
        freed
    }
}

pub(crate) fn item(id: i64, name: &str) -> Vec<Value> {
    let score = Value::Float8(id as f64 / 4.0);
    vec![Value::Int8(id), Value::Text(name.into()), Value::Int4(1), score, Value::Null]
}

fn as_int(value: &Value) -> i64 {
    match value {
        Value::Int8(value) => *value,
        other => panic!("{other:?} is no id"),
    }
}

fn files(def: &TableDef) -> HeapFiles {
    HeapFiles::starting_at(def.heap)
}
