//! The table of the experiment: made once for many cells, opened as a cell wants it.
//!
//! Invariants: row keys never repeat. Does not do: timing of anything but batches.

use std::path::PathBuf;

use rightlink::{
    Database, IndexMethod, IndexSchema, Stats, TableSchema, TransactionOptions, Type, Value,
};
use rightlink_env::{Clock, Rng};

use crate::Failure;
use crate::insert_prefetch::limit::BLOCK;
use crate::knobs::Cell;
use crate::methods::io;
use crate::report::say;
use crate::scratch::Scratch;

const TABLE: &str = "t";
const FILL_BATCH: u64 = 10_000;
/// Heap and index bytes of a row, roughly: what the pools are sized by.
const HEAP_BYTES: u64 = 70;
const ENTRY_BYTES: u64 = 44;

/// A table on disk.
pub(crate) struct Bed {
    dir: PathBuf,
    made_for: MadeFor,
    rows: u64,
    indexes: u64,
    next: u64,
}

/// Rows, uuid indexes, and the method of those.
pub(crate) type MadeFor = (u64, u64, IndexMethod);

/// One batch.
#[derive(Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) ms: f64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) queue_depth: f64,
}

/// The table, open.
pub(crate) struct Opened<'b> {
    bed: &'b mut Bed,
    db: Database,
}

fn schema(indexes: u64, index: IndexMethod) -> TableSchema {
    let mut schema = TableSchema::new(TABLE).column("id", Type::Int8).primary_key(["id"]);
    for number in 0..indexes {
        schema = schema.column(format!("u{number}"), Type::Uuid);
        let uuids = IndexSchema::new(format!("t_u{number}")).on(format!("u{number}"));
        schema = schema.index(uuids.method(index));
    }
    schema
}

impl Bed {
    /// Makes a table of so many rows and indexes beside the primary key.
    pub(crate) fn make(
        scratch: &Scratch,
        made_for: MadeFor,
        clock: &Clock,
    ) -> Result<Bed, Failure> {
        let (rows, indexes, index) = made_for;
        let dir = scratch.path().join(format!("bed-{rows}-{indexes}-{index:?}"));
        let mut bed = Bed { dir, made_for, rows, indexes, next: 0 };
        let start = clock.now();
        let db = Database::options().memory(bed.ample_memory()).open(&bed.dir)?;
        let mut txn = db.begin();
        txn.create_table(&schema(indexes, index))?;
        txn.commit()?;
        while bed.next < rows {
            bed.insert(&db, FILL_BATCH.min(rows - bed.next), true, clock)?;
        }
        db.close()?;
        let seconds = (clock.now() - start).as_secs_f64();
        let kind = if index == IndexMethod::Hash { "hash" } else { "tree" };
        say(&format!("made {rows} rows with {indexes} {kind} indexes in {seconds:.1} s"));
        Ok(bed)
    }

    /// What it was made for.
    pub(crate) fn made_for(&self) -> MadeFor {
        self.made_for
    }

    fn data_bytes(&self) -> u64 {
        self.rows * (HEAP_BYTES + 16 * self.indexes + ENTRY_BYTES * (self.indexes + 1))
    }

    fn ample_memory(&self) -> usize {
        usize::try_from(self.data_bytes() * 2 + (256 << 20)).unwrap_or(usize::MAX)
    }

    /// Opens the table with a pool for everything or, `scarce`, for a tenth.
    pub(crate) fn open(&mut self, cell: &Cell, scarce: bool) -> Result<Opened<'_>, Failure> {
        let (method, device) = io(cell)?;
        let pages = match scarce {
            true => self.data_bytes() / 10 / BLOCK,
            false => self.data_bytes() * 3 / 2 / BLOCK,
        };
        let pages = usize::try_from(pages)?.max(rightlink::MIN_POOL_PAGES);
        let memory = pages * 9 / 8 * BLOCK as usize + (64 << 20);
        let options = Database::options().memory(memory).pool_pages(pages).direct(true);
        // What is compared is how one thread reads.
        let options = options.insert_threads(1);
        let db = options.method(method).device(device).open(&self.dir)?;
        Ok(Opened { bed: self, db })
    }

    /// Inserts the next `count` rows, reading ahead or not.
    fn insert(
        &mut self,
        db: &Database,
        count: u64,
        ahead: bool,
        clock: &Clock,
    ) -> Result<Turn, Failure> {
        let rows: Vec<_> = (self.next..self.next + count).map(|id| self.row(id)).collect();
        self.next += count;
        let options =
            TransactionOptions { relaxed: true, serial_reads: !ahead, ..Default::default() };
        let before = db.stats();
        let start = clock.now();
        let mut txn = db.begin_with(options);
        txn.insert_many(TABLE, &rows)?;
        txn.commit()?;
        let ms = (clock.now() - start).as_secs_f64() * 1e3;
        Ok(turn(ms, &before, &db.stats()))
    }

    fn row(&self, id: u64) -> Vec<Value> {
        let mut rng = Rng::from_seed(id);
        let mut values = vec![Value::Int8(id as i64)];
        for _ in 0..self.indexes {
            let mut uuid = [0; 16];
            rng.fill(&mut uuid);
            values.push(Value::Uuid(uuid));
        }
        values
    }
}

fn turn(ms: f64, before: &Stats, after: &Stats) -> Turn {
    let grown = |name| {
        let get = |stats: &Stats| stats.get(name).expect("the engine counts this");
        get(after) - get(before)
    };
    let reads = grown("stream_reads");
    Turn {
        ms,
        read_bytes: grown("device_read_bytes"),
        written_bytes: grown("device_written_bytes"),
        queue_depth: grown("stream_depth_sum") as f64 / reads.max(1) as f64,
    }
}

impl Opened<'_> {
    /// Takes everything but the inner pages of the indexes out of memory.
    pub(crate) fn chill(&self) -> Result<(), Failure> {
        self.db.evict_leaves()?;
        Ok(())
    }

    /// Inserts a batch.
    pub(crate) fn insert(
        &mut self,
        count: u64,
        ahead: bool,
        clock: &Clock,
    ) -> Result<Turn, Failure> {
        self.bed.insert(&self.db, count, ahead, clock)
    }

    /// Closes the table and says where it is.
    pub(crate) fn close(self) -> Result<PathBuf, Failure> {
        self.db.close()?;
        Ok(self.bed.dir.clone())
    }
}
