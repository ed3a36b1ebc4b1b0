//! Table level: rows into an unlogged table with one index of the shape, through the public names.
//!
//! Invariants: making the rows is not timed. Does not do: switch anything of the heap off.

use std::path::Path;
use std::time::Duration;

use rightlink::internal::index::btree::{Counters, Optimisation, Optimisations, counting};
use rightlink::{
    ColumnSchema, Database, IndexSchema, ScanOptions, TableSchema, TransactionOptions,
};
use rightlink_env::{Clock, Rng};

use crate::Failure;
use crate::descent::shapes::Shape;

const TABLE: &str = "t";
const INDEX: &str = "t_key";
const BATCH: u64 = 1000;
const LOOKUPS: u64 = 20_000;
const PAGE_BYTES: f64 = 8192.0;

/// What a table reached.
pub(crate) struct Reached {
    pub(crate) rows_per_s: f64,
    pub(crate) lookup_ns: f64,
    pub(crate) counted: Counters,
    pub(crate) leaf_fill: f64,
    /// Of all blocks of the index, inner and free ones included.
    pub(crate) bytes_per_entry: f64,
}

fn schema(shape: Shape) -> TableSchema {
    let mut schema = TableSchema::new(TABLE).unlogged();
    let mut index = IndexSchema::new(INDEX);
    for (number, kind) in shape.columns().into_iter().enumerate() {
        let column = ColumnSchema::new(format!("c{number}"), kind);
        schema = schema.with_column(match shape.collation() {
            Some(collation) => column.collate(collation),
            None => column,
        });
        index = index.on(format!("c{number}"));
    }
    schema.index(index)
}

/// Inserts `rows` rows, then looks some up, with an index that uses `set`.
pub(crate) fn run(
    shape: Shape,
    rows: u64,
    set: Optimisations,
    dir: &Path,
) -> Result<Reached, Failure> {
    let row_bytes = shape.key(0, rows).len() as u64 * 2 + 100;
    let memory = usize::try_from(rows * row_bytes * 2 + (64 << 20))?;
    let db = Database::options().memory(memory).open(dir)?;
    let mut txn = db.begin();
    txn.create_table(&schema(shape))?;
    txn.commit()?;
    let off = Optimisation::EACH.iter().filter(|(_, one)| !set.has(*one));
    db.leave_out(TABLE, INDEX, &off.map(|(name, _)| *name).collect::<Vec<_>>())?;
    let clock = Clock::system();
    let mut time = Duration::ZERO;
    for start in (0..rows).step_by(BATCH as usize) {
        let batch: Vec<_> =
            (start..rows.min(start + BATCH)).map(|n| shape.values(n, rows)).collect();
        let before = clock.now();
        let mut txn =
            db.begin_with(TransactionOptions { relaxed: true, ..TransactionOptions::default() });
        txn.insert_many(TABLE, &batch)?;
        txn.commit()?;
        time += clock.now() - before;
    }
    let (lookup_ns, counted) = lookups(&db, shape, rows)?;
    let info = db.describe(TABLE)?;
    let blocks = info.indexes.iter().find(|index| index.name == INDEX).map_or(0, |i| i.blocks);
    let bytes_per_entry = f64::from(blocks) * PAGE_BYTES / rows as f64;
    let leaf_fill = leaf_fill(&db)?;
    let rows_per_s = rows as f64 / time.as_secs_f64();
    Ok(Reached { rows_per_s, lookup_ns, counted, leaf_fill, bytes_per_entry })
}

/// The part of the leaves that is used.
fn leaf_fill(db: &Database) -> Result<f64, Failure> {
    let pages = db.inspect(INDEX, None)?;
    let leaves = pages.iter().filter(|page| page.level == 0 && matches!(page.kind, 'l' | 'r'));
    let (mut bytes, mut free) = (0, 0);
    for page in leaves {
        bytes += u64::from(page.page_size);
        free += u64::from(page.free_size);
    }
    Ok(1.0 - free as f64 / bytes as f64)
}

fn lookups(db: &Database, shape: Shape, rows: u64) -> Result<(f64, Counters), Failure> {
    let mut rng = Rng::from_seed(7);
    let wanted: Vec<_> = (0..LOOKUPS.min(rows))
        .map(|_| ScanOptions::index(INDEX).equal(shape.values(rng.below(rows), rows)).limit(1))
        .collect();
    let clock = Clock::system();
    let start = clock.now();
    look_up(db, &wanted)?;
    let time = clock.now() - start;
    let (counted, outcome) = counting(|| look_up(db, &wanted));
    outcome?;
    Ok((time.as_secs_f64() * 1e9 / wanted.len() as f64, counted))
}

fn look_up(db: &Database, wanted: &[ScanOptions]) -> Result<(), Failure> {
    let mut txn = db.begin();
    for options in wanted {
        let mut found = txn.scan(TABLE, options)?;
        found.next().ok_or("a row is missing")??;
    }
    Ok(())
}
