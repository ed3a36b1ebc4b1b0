//! Table level: rows into an unlogged table with one index of the shape, through the public names,
//! in turns with a table whose index has all optimisations.
//!
//! Invariants: making the rows is not timed; the last of them are counted instead.
//! Does not do: switch anything of the heap off.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use rightlink::internal::index::btree::{Counters, Optimisation, Optimisations, counting};
use rightlink::{
    ColumnSchema, Database, IndexSchema, ScanOptions, TableSchema, TransactionOptions,
};
use rightlink_env::{Clock, Rng};

use crate::Failure;
use crate::descent::shapes::Shape;
use crate::descent::turns::{ROUNDS, Turns, in_turns};

const TABLE: &str = "t";
const INDEX: &str = "t_key";
const BATCH: u64 = 1000;
/// Lookups of a round.
const LOOKUPS: u64 = 5_000;
const PAGE_BYTES: f64 = 8192.0;

/// What goes into a table.
pub(super) struct Plan {
    pub(super) shape: Shape,
    pub(super) rows: u64,
    /// Rows of a statement once insertions are measured.
    pub(super) batch: u64,
}

/// What a table reached.
pub(super) struct Reached {
    /// While the first nine tenths of the rows were inserted.
    pub(super) rows_per_s: f64,
    pub(super) insert: Turns,
    pub(super) inserts: Counters,
    /// Rows whose insertion was counted.
    pub(super) inserted: usize,
    pub(super) lookup: Turns,
    pub(super) counted: Counters,
    pub(super) leaf_fill: f64,
    /// Of all blocks of the index, inner and free ones included.
    pub(super) bytes_per_entry: f64,
}

fn schema(shape: Shape) -> TableSchema {
    let mut schema = TableSchema::new(TABLE).unlogged();
    let mut index = IndexSchema::new(INDEX);
    for (number, kind) in shape.columns().into_iter().enumerate() {
        let column = ColumnSchema::new(format!("c{number}"), kind);
        schema = schema.with_column(match shape.collation(kind) {
            Some(collation) => column.collate(collation),
            None => column,
        });
        index = index.on(format!("c{number}"));
    }
    schema.index(index)
}

/// A database with the table.
struct Side {
    db: Database,
}

impl Side {
    fn open(plan: &Plan, set: Optimisations, dir: &Path) -> Result<Side, Failure> {
        let row_bytes = plan.shape.key(0, plan.rows).len() as u64 * 2 + 100;
        let memory = usize::try_from(plan.rows * row_bytes * 2 + (64 << 20))?;
        // The counters count one thread only.
        let db = Database::options().memory(memory).insert_threads(1).open(dir)?;
        let mut txn = db.begin();
        txn.create_table(&schema(plan.shape))?;
        txn.commit()?;
        let off = Optimisation::EACH.iter().filter(|(_, one)| !set.has(*one));
        db.leave_out(TABLE, INDEX, &off.map(|(name, _)| *name).collect::<Vec<_>>())?;
        Ok(Side { db })
    }

    /// Inserts some rows of the plan, `batch` in each statement, and returns the time.
    fn insert(&self, plan: &Plan, some: Range<u64>, batch: u64) -> Result<Duration, Failure> {
        let (clock, mut time) = (Clock::system(), Duration::ZERO);
        for start in some.clone().step_by(usize::try_from(batch)?) {
            let end = some.end.min(start + batch);
            let rows: Vec<_> = (start..end).map(|n| plan.shape.values(n, plan.rows)).collect();
            let before = clock.now();
            let options = TransactionOptions { relaxed: true, ..TransactionOptions::default() };
            let mut txn = self.db.begin_with(options);
            txn.insert_many(TABLE, &rows)?;
            txn.commit()?;
            time += clock.now() - before;
        }
        Ok(time)
    }
}

/// Scans for some random rows of the first `known`, others for each round.
fn wanted(plan: &Plan, known: u64, round: usize) -> Vec<ScanOptions> {
    let mut rng = Rng::from_seed(7 + round as u64);
    let key = |n| plan.shape.values(n, plan.rows);
    let scan = |n| ScanOptions::index(INDEX).equal(key(n)).limit(1);
    (0..LOOKUPS.min(known)).map(|_| scan(rng.below(known))).collect()
}

/// Runs the plan with an index that uses `set`, in turns with all optimisations if they are others.
pub(super) fn run(plan: &Plan, set: Optimisations, dir: &Path) -> Result<Reached, Failure> {
    let all = dir.with_extension("all");
    let other = (set != Optimisations::ALL)
        .then(|| Side::open(plan, Optimisations::ALL, &all))
        .transpose()?;
    let measured = Side::open(plan, set, dir)?;
    let filled = plan.rows - plan.rows.div_ceil(10);
    let each = (plan.rows - filled) / (ROUNDS as u64 + 1);
    if each == 0 {
        return Err(format!("{} rows are too few for {ROUNDS} rounds", plan.rows).into());
    }
    if let Some(other) = &other {
        other.insert(plan, 0..filled, BATCH)?;
    }
    let time = measured.insert(plan, 0..filled, BATCH)?;
    let insert = in_turns(&measured, other.as_ref(), |side, round| {
        let first = filled + round as u64 * each;
        let time = side.insert(plan, first..first + each, plan.batch)?;
        Ok(time.as_secs_f64() * 1e9 / each as f64)
    })?;
    let last = filled + ROUNDS as u64 * each..plan.rows;
    let inserted = usize::try_from(last.end - last.start)?;
    let (inserts, outcome) = counting(|| measured.insert(plan, last, plan.batch));
    outcome?;
    let clock = Clock::system();
    let lookup = in_turns(&measured, other.as_ref(), |side, round| {
        let wanted = wanted(plan, filled, round);
        let start = clock.now();
        look_up(&side.db, &wanted)?;
        Ok((clock.now() - start).as_secs_f64() * 1e9 / wanted.len() as f64)
    })?;
    let wanted = wanted(plan, filled, ROUNDS);
    let (counted, outcome) = counting(|| look_up(&measured.db, &wanted));
    outcome?;
    let info = measured.db.describe(TABLE)?;
    let blocks = info.indexes.iter().find(|index| index.name == INDEX).map_or(0, |i| i.blocks);
    Ok(Reached {
        rows_per_s: filled as f64 / time.as_secs_f64(),
        insert,
        inserts,
        inserted,
        lookup,
        counted,
        leaf_fill: leaf_fill(&measured.db)?,
        bytes_per_entry: f64::from(blocks) * PAGE_BYTES / plan.rows as f64,
    })
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

fn look_up(db: &Database, wanted: &[ScanOptions]) -> Result<(), Failure> {
    let mut txn = db.begin();
    for options in wanted {
        let mut found = txn.scan(TABLE, options)?;
        found.next().ok_or("a row is missing")??;
    }
    Ok(())
}
