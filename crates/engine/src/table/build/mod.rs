//! Build of an index over rows that exist: scan the heap, sort, load in bulk.
//!
//! The caller holds a `Share` lock on the table, so no other transaction has unfinished changes.
//! The index gets an entry for the root of every row that exists now. Versions that were replaced
//! earlier get none, so older snapshots must not use the index (R10, [`TableIndex::is_usable`]).
//!
//! Invariants: the file is synced before the caller publishes the definition. After an error the
//! file names no index, and the caller drops it. Memory stays within the sort's share of the
//! budget.
//! Does not do: build beside writers (`online`); the catalog's row.
//! PostgreSQL: `heapam_index_build_range_scan` and `nbtsort.c`.

pub(super) mod online;

use rightlink_env::Budget;
use rightlink_env::points::hit;
use rightlink_env::sync::Arc;

use crate::error::{Error, Result};
use crate::ids::{Csn, RowId};
use crate::index::{AccessMethod, IndexBuilder, IndexEntry};
use crate::keycode::Malformed;
use crate::sort::{Sorted, Sorter, TempFiles};
use crate::txn::{LockMode, Snapshot, Transaction};

use crate::table::definition::keys::KeyMaker;
use crate::table::definition::schema::{IndexDef, IndexMethod};
use crate::table::write::statement::GoOn;
use crate::table::{Table, TableIndex};

/// Rows between two questions whether to go on.
const ROWS_BETWEEN: u64 = 4096;

/// What a build may use.
pub struct BuildOptions<'a> {
    /// Memory of the instance.
    pub budget: &'a Budget,
    /// Where runs are spilled to.
    pub temp: &'a Arc<TempFiles>,
    /// Most bytes for the sort.
    pub memory: usize,
}

impl Table {
    /// Builds `index` over the rows of this table. Its `usable_from` is set in the definition of
    /// the result. Fails with a violation if it is unique and two rows have the same key, and when
    /// the transaction is cancelled.
    pub fn build_index(
        &self,
        txn: &mut Transaction,
        index: &IndexDef,
        options: &BuildOptions<'_>,
    ) -> Result<Arc<TableIndex>> {
        let mut def = self.def.clone();
        def.indexes.push(index.clone());
        def.validate()?;
        txn.lock_table(self.def.id, LockMode::Share)?;
        // Taken after the lock was granted: all writers of the table have ended and are seen.
        let snapshot = txn.latest_snapshot();
        let mut index = index.clone();
        index.usable_from = self.txns.next_xid();
        index.data_version = index.current_data(&self.def);
        let mut go_on = || txn.check_cancelled();
        self.load_index(&index, &snapshot, snapshot.csn(), options, &mut go_on)
    }

    /// A new index with the entries of all rows that `snapshot` sees, usable from `built_at` on.
    pub(super) fn load_index(
        &self,
        index: &IndexDef,
        snapshot: &Snapshot,
        built_at: Csn,
        options: &BuildOptions<'_>,
        go_on: GoOn<'_>,
    ) -> Result<Arc<TableIndex>> {
        let keys = KeyMaker::new(&self.def, index);
        let sorted = self.sort_entries(index, &keys, snapshot, options, go_on)?;
        if built_at == Csn(0) {
            hit("online.sorted");
        }
        self.pool.create_file(index.file, self.def.logged)?;
        let builder = index.method.builder(&self.pool, index.file, index.options())?;
        let built = self.load(index, &keys, sorted, builder, go_on)?;
        Ok(TableIndex::new(&self.def, index, built, built_at))
    }

    /// The entries of all rows that `snapshot` sees, in the method's order.
    fn sort_entries(
        &self,
        index: &IndexDef,
        keys: &KeyMaker,
        snapshot: &Snapshot,
        options: &BuildOptions<'_>,
        go_on: GoOn<'_>,
    ) -> Result<Sorted> {
        let mut sorter = Sorter::new(options.budget, options.temp, options.memory)?;
        let (mut record, mut payload, mut rows) = (Vec::new(), Vec::new(), 0u64);
        self.heap.visit_roots(snapshot, None, &mut |root, version, bytes| {
            let values = self.read_for(&[index], version, bytes)?;
            let made = keys.make(&[values])?;
            ask(&mut rows, go_on)?;
            let Some(entry) = made.entry(0, root) else { return Ok(()) };
            record.clear();
            record.extend_from_slice(&index.method.place(entry.key));
            record.extend_from_slice(&root.to_bytes());
            payload.clear();
            payload.push(u8::from(entry.exempt));
            payload.extend_from_slice(entry.payload);
            sorter.push(&record, &payload)
        })?;
        sorter.finish()
    }

    fn load(
        &self,
        index: &IndexDef,
        keys: &KeyMaker,
        mut sorted: Sorted,
        mut builder: Box<dyn IndexBuilder>,
        go_on: GoOn<'_>,
    ) -> Result<Arc<dyn AccessMethod>> {
        let (mut last, mut rows): (Option<Vec<u8>>, u64) = (None, 0);
        while let Some((record, payload)) = sorted.next()? {
            let entry = split_record(index.method, record, payload)
                .map_err(|Malformed(what)| Error::corrupt_file("tmp", what))?;
            if index.unique && !entry.exempt {
                if last.as_deref() == Some(entry.key) {
                    let (table, index) = (self.def.name.clone(), index.name.clone());
                    let (columns, key) = (keys.names().to_vec(), keys.show(entry.key));
                    return Err(Error::UniqueViolation { table, index, columns, key });
                }
                last = Some(entry.key.to_vec());
            }
            ask(&mut rows, go_on)?;
            builder.push(&entry)?;
        }
        builder.finish()
    }
}

/// Asks every few thousand rows.
fn ask(rows: &mut u64, go_on: GoOn<'_>) -> Result<()> {
    *rows += 1;
    if !rows.is_multiple_of(ROWS_BETWEEN) {
        return Ok(());
    }
    hit("build.rows");
    go_on()
}

/// An entry from the two parts of a sort record.
fn split_record<'a>(
    method: IndexMethod,
    record: &'a [u8],
    payload: &'a [u8],
) -> std::result::Result<IndexEntry<'a>, Malformed> {
    let short = Malformed("a sort record ends early");
    let (exempt, payload) = payload.split_first().ok_or(short)?;
    let (place, row) = record.split_last_chunk().ok_or(short)?;
    let key = method.key_of(place).ok_or(short)?;
    let row = RowId::from_bytes(*row);
    Ok(IndexEntry { payload, exempt: *exempt != 0, ..IndexEntry::new(key, row) })
}
