//! The table of the experiment: made once for many cells, opened as a cell wants it.
//!
//! Several writers insert a batch each at the same moment, in transactions of their own.
//!
//! Invariants: row keys never repeat. Does not do: timing of anything but batches.

use std::path::PathBuf;

use rightlink::{
    Database, IndexMethod, IndexSchema, Stats, TableSchema, TransactionOptions, Type, Value,
};
use rightlink_env::sync::{Arc, AtomicUsize, Ordering::Relaxed};
use rightlink_env::{Clock, Nanos, Rng, thread};

use crate::insert_prefetch::limit::BLOCK;
use crate::knobs::Cell;
use crate::methods::io;
use crate::report::say;
use crate::scratch::Scratch;
use crate::{Failure, page_cache};

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

/// A batch of each writer.
#[derive(Clone, Copy)]
pub(crate) struct Turn {
    /// From the first begin to the last end.
    pub(crate) ms: f64,
    pub(crate) reads: u64,
    pub(crate) read_bytes: u64,
    /// What the process had read from devices, read-ahead of the kernel included.
    pub(crate) device_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) queue_depth: f64,
}

/// The table, open.
pub(crate) struct Opened<'b> {
    bed: &'b mut Bed,
    db: Database,
    direct: bool,
    writers: u64,
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
    /// Makes a table of so many rows and indexes beside the primary key, in the place of one that
    /// has grown.
    pub(crate) fn make(
        scratch: &Scratch,
        made_for: MadeFor,
        clock: &Clock,
    ) -> Result<Bed, Failure> {
        let (rows, indexes, index) = made_for;
        let dir = scratch.path().join(format!("bed-{rows}-{indexes}-{index:?}"));
        let mut bed = Bed { dir, made_for, rows, indexes, next: 0 };
        if bed.dir.exists() {
            std::fs::remove_dir_all(&bed.dir)?;
        }
        let start = clock.now();
        let db = Database::options().memory(bed.ample_memory()).open(&bed.dir)?;
        let mut txn = db.begin();
        txn.create_table(&schema(indexes, index))?;
        txn.commit()?;
        while bed.next < rows {
            bed.insert(&db, 1, FILL_BATCH.min(rows - bed.next), true)?;
        }
        db.close()?;
        let seconds = (clock.now() - start).as_secs_f64();
        let kind = if index == IndexMethod::Hash { "hash" } else { "tree" };
        say(&format!("made {rows} rows with {indexes} {kind} indexes in {seconds:.1} s"));
        Ok(bed)
    }

    /// Was it made for this, and is it still of about that size?
    pub(crate) fn serves(&self, wanted: MadeFor) -> bool {
        self.made_for == wanted && self.next < self.rows * 3 / 2
    }

    fn data_bytes(&self, rows: u64) -> u64 {
        rows * (HEAP_BYTES + 16 * self.indexes + ENTRY_BYTES * (self.indexes + 1))
    }

    fn ample_memory(&self) -> usize {
        usize::try_from(self.data_bytes(self.rows) * 2 + (256 << 20)).unwrap_or(usize::MAX)
    }

    /// Opens the table with a pool for everything or, `scarce`, for a tenth.
    pub(crate) fn open(&mut self, cell: &Cell, scarce: bool) -> Result<Opened<'_>, Failure> {
        let (method, device) = io(cell)?;
        let pages = match scarce {
            true => self.data_bytes(self.rows) / 10 / BLOCK,
            false => self.data_bytes(self.next.max(self.rows * 3 / 2)) * 3 / 2 / BLOCK,
        };
        let pages = usize::try_from(pages)?.max(rightlink::MIN_POOL_PAGES);
        let memory = pages * 9 / 8 * BLOCK as usize + (64 << 20);
        let direct = match cell.get::<String>("io")?.as_str() {
            "direct" => true,
            "buffered" => false,
            other => return Err(format!("io cannot be `{other}`").into()),
        };
        let options = Database::options().memory(memory).pool_pages(pages).direct(direct);
        // What is compared is how one thread reads.
        let options = options.insert_threads(1);
        let db = options.method(method).device(device).open(&self.dir)?;
        let writers = cell.get("writers")?;
        Ok(Opened { bed: self, db, direct, writers })
    }

    /// Inserts the next `count` rows of each writer, reading ahead or not.
    fn insert(
        &mut self,
        db: &Database,
        writers: u64,
        count: u64,
        ahead: bool,
    ) -> Result<Turn, Failure> {
        let batch = |first: u64| (first..first + count).map(|id| self.row(id)).collect();
        let batches = (0..writers).map(|writer| batch(self.next + writer * count)).collect();
        self.next += count * writers;
        let (before, device) = (db.stats(), page_cache::device_bytes()?);
        let ms = insert_at_once(db, batches, ahead)?;
        let grown = Grown { before, after: db.stats() };
        let reads = grown.by("stream_reads");
        Ok(Turn {
            ms,
            reads: grown.by("device_reads"),
            read_bytes: grown.by("device_read_bytes"),
            device_bytes: page_cache::device_bytes()? - device,
            written_bytes: grown.by("device_written_bytes"),
            queue_depth: grown.by("stream_depth_sum") as f64 / reads.max(1) as f64,
        })
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

/// Inserts each of `batches` in a thread of its own, all at once: milliseconds until all are in. A
/// single batch is inserted by this thread.
fn insert_at_once(
    db: &Database,
    mut batches: Vec<Vec<Vec<Value>>>,
    ahead: bool,
) -> Result<f64, Failure> {
    let clock = Clock::system();
    if let [batch] = &mut batches[..] {
        let start = clock.now();
        insert_batch(db, batch, ahead)?;
        return Ok((clock.now() - start).as_secs_f64() * 1e3);
    }
    let late = Arc::new(AtomicUsize::new(batches.len()));
    let writer = |batch: Vec<Vec<Value>>| {
        let (db, late, clock) = (db.clone(), Arc::clone(&late), clock.clone());
        thread::spawn("writer", move || {
            late.fetch_sub(1, Relaxed);
            while late.load(Relaxed) > 0 {
                thread::yield_now();
            }
            let start = clock.now();
            insert_batch(&db, &batch, ahead).map(|()| (start, clock.now()))
        })
    };
    let writers: Vec<_> = batches.into_iter().map(writer).collect();
    let (mut first, mut last) = (Nanos(u64::MAX), Nanos(0));
    for writer in writers {
        let (start, end) = writer.join().map_err(|panicked| panicked.to_string())??;
        (first, last) = (first.min(start), last.max(end));
    }
    Ok((last - first).as_secs_f64() * 1e3)
}

fn insert_batch(db: &Database, batch: &[Vec<Value>], ahead: bool) -> rightlink::Result<()> {
    let options = TransactionOptions { relaxed: true, serial_reads: !ahead, ..Default::default() };
    let mut txn = db.begin_with(options);
    txn.insert_many(TABLE, batch)?;
    txn.commit()
}

/// Statistics before and after a turn.
struct Grown {
    before: Stats,
    after: Stats,
}

impl Grown {
    fn by(&self, name: &str) -> u64 {
        let get = |stats: &Stats| stats.get(name).expect("the engine counts this");
        get(&self.after) - get(&self.before)
    }
}

impl Opened<'_> {
    /// Takes everything but the inner pages of the indexes out of memory.
    pub(crate) fn chill(&self) -> Result<(), Failure> {
        self.db.evict_leaves()?;
        if self.direct { Ok(()) } else { page_cache::drop_data_files(&self.bed.dir) }
    }

    /// Inserts a batch of each writer.
    pub(crate) fn insert(&mut self, count: u64, ahead: bool) -> Result<Turn, Failure> {
        self.bed.insert(&self.db, self.writers, count, ahead)
    }

    /// Has the table doubled, so that further turns would meet another one?
    pub(crate) fn has_doubled(&self) -> bool {
        self.bed.next > self.bed.rows * 2
    }

    /// Closes the table and says where it is.
    pub(crate) fn close(self) -> Result<PathBuf, Failure> {
        self.db.close()?;
        Ok(self.bed.dir.clone())
    }
}
