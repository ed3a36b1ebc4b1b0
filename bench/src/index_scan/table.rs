//! The table of the experiment: made once for many cells, opened as a cell wants it.
//!
//! Invariants: the pool holds the whole table, so that nothing is read twice in a scan.
//! Does not do: choosing ranges that policies would like.

use std::collections::HashSet;
use std::path::PathBuf;

use rightlink::{
    Database, IndexSchema, Prefetch, ScanOptions, StreamStats, TableSchema, TransactionOptions,
    Type, Value,
};
use rightlink_aio::{Io, IoOptions, OpenMode};
use rightlink_env::{Clock, Env, Rng};

use crate::Failure;
use crate::insert_prefetch::limit::{self, BLOCK, DataFile};
use crate::knobs::Cell;
use crate::methods::io;
use crate::page_cache;
use crate::report::say;
use crate::scratch::Scratch;

const TABLE: &str = "t";
const INDEX: &str = "t_a";
const FILL_BATCH: usize = 5000;
/// Knobs that a table, and that an opening, is made for.
const OF_TABLE: [&str; 6] = ["rows", "duplicates", "fillfactor", "fuzz", "run", "changed"];
const OF_OPENING: [&str; 3] = ["method", "device", "io"];

/// A table on disk.
pub(crate) struct Bed {
    dir: PathBuf,
    made_for: Vec<String>,
    pages: u64,
}

/// The table, open.
pub(crate) struct Opened {
    opened_for: Vec<String>,
    dir: PathBuf,
    db: Database,
}

/// First and last key of a scan.
#[derive(Clone, Copy)]
pub(crate) struct KeyRange {
    first: i64,
    last: i64,
}

/// One scan.
pub(crate) struct Turn {
    pub(crate) ms: f64,
    pub(crate) rows: u64,
    pub(crate) reads: u64,
    /// Bytes that the device read for it, with the kernel's read-ahead.
    pub(crate) device_bytes: u64,
    pub(crate) stats: StreamStats,
}

/// What the bare device takes for the heap blocks of a range, in milliseconds.
pub(crate) struct Passes {
    /// Ascending, neighbours joined.
    pub(crate) joined_ms: f64,
    /// As the index first names them, each by itself.
    pub(crate) single_ms: f64,
}

fn words(cell: &Cell, names: &[&str]) -> Result<Vec<String>, String> {
    names.iter().map(|name| cell.get(name)).collect()
}

/// Keys in the order in which their rows are stored. `run` neighbours move together.
pub(crate) fn order(cell: &Cell) -> Result<Vec<u64>, String> {
    let (rows, run): (u64, u64) = (cell.get("rows")?, cell.get("run")?);
    let (fuzz, duplicates): (i64, u64) = (cell.get("fuzz")?, cell.get("duplicates")?);
    let mut rng = Rng::from_seed(7);
    let mut keys: Vec<(f64, u64)> = (0..rows)
        .step_by(usize::try_from(run).map_err(|_| "run is too long")?)
        .map(|i| {
            let jump = (rng.below(1 << 30) as f64 / f64::from(1 << 30) - 0.5) * fuzz as f64;
            (i as f64 + jump, i)
        })
        .collect();
    if fuzz < 0 {
        rng.shuffle(&mut keys);
    } else {
        keys.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let runs = keys.into_iter().map(|(_, first)| first..rows.min(first + run));
    Ok(runs.flatten().map(|i| i / duplicates).collect())
}

fn row(key: u64) -> Vec<Value> {
    let mut text = [0; 16];
    Rng::from_seed(key).fill(&mut text);
    let text = text.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    vec![Value::Int8(key as i64), Value::Text(text)]
}

/// Updates one row of `percent` of the heap blocks: these are not all-visible any more.
fn change(db: &Database, percent: u64) -> Result<(), Failure> {
    let mut txn = db.begin();
    let (mut last, mut chosen) = (None, Vec::new());
    for row in txn.scan(TABLE, &ScanOptions::all())? {
        let row = row?;
        let block = row.id.block;
        let first = last.replace(block) != Some(block);
        // Scattered evenly, whatever the percentage.
        if first && Rng::from_seed(u64::from(block.0)).below(100) < percent {
            chosen.push(row.id);
        }
    }
    for id in chosen {
        txn.update(TABLE, id, &[("b", Value::Text("y".repeat(32)))])?;
    }
    Ok(txn.commit()?)
}

impl Bed {
    /// Makes the table of a cell: rows first, then the index, then a vacuum.
    pub(crate) fn make(scratch: &Scratch, cell: &Cell, clock: &Clock) -> Result<Bed, Failure> {
        let made_for = words(cell, &OF_TABLE)?;
        let dir = scratch.path().join(format!("bed-{}", made_for.join("_")));
        let (rows, fill): (u64, u8) = (cell.get("rows")?, cell.get("fillfactor")?);
        let pages = rows * 100 / u64::from(fill) / 80 + rows / 200 + 2000;
        let start = clock.now();
        let db = Database::options().memory(size(pages)).open(&dir)?;
        let mut txn = db.begin();
        let schema = TableSchema::new(TABLE).column("a", Type::Int8).column("b", Type::Text);
        txn.create_table(&schema.fillfactor(fill).unlogged())?;
        txn.commit()?;
        for keys in order(cell)?.chunks(FILL_BATCH) {
            let rows: Vec<_> = keys.iter().map(|key| row(*key)).collect();
            let mut txn = db
                .begin_with(TransactionOptions { relaxed: true, ..TransactionOptions::default() });
            txn.insert_many(TABLE, &rows)?;
            txn.commit()?;
        }
        let mut txn = db.begin();
        txn.create_index(TABLE, &IndexSchema::new(INDEX).on("a"))?;
        txn.commit()?;
        db.vacuum(Some(TABLE))?;
        change(&db, cell.get("changed")?)?;
        db.close()?;
        let seconds = (clock.now() - start).as_secs_f64();
        say(&format!("made a table of {} in {seconds:.1} s", made_for.join(", ")));
        Ok(Bed { dir, made_for, pages })
    }

    pub(crate) fn serves(&self, cell: &Cell) -> bool {
        words(cell, &OF_TABLE).is_ok_and(|words| words == self.made_for)
    }

    /// Opens it for the method and device of a cell.
    pub(crate) fn open(&self, cell: &Cell) -> Result<Opened, Failure> {
        let (method, device) = io(cell)?;
        let direct = cell.get::<String>("io")? == "direct";
        let options = Database::options().memory(size(self.pages)).direct(direct);
        let db = options.method(method).device(device).threads(false).open(&self.dir)?;
        Ok(Opened { opened_for: words(cell, &OF_OPENING)?, dir: self.dir.clone(), db })
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        // What is left is removed with the run's directory.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Bytes of memory for a pool of `pages`.
fn size(pages: u64) -> usize {
    usize::try_from(pages * BLOCK * 5 / 4).unwrap_or(usize::MAX).max(64 << 20)
}

impl Opened {
    pub(crate) fn serves(&self, cell: &Cell) -> bool {
        words(cell, &OF_OPENING).is_ok_and(|words| words == self.opened_for)
    }

    /// The range of one turn.
    pub(crate) fn range(&self, cell: &Cell, turn: usize) -> Result<KeyRange, Failure> {
        let (rows, duplicates): (u64, u64) = (cell.get("rows")?, cell.get("duplicates")?);
        let keys = rows.div_ceil(duplicates);
        let wanted = (keys as f64 * cell.get::<f64>("selectivity")? / 100.0).ceil() as u64;
        let wanted = wanted.clamp(1, keys);
        // A range that touches an end of the table reads less, so a margin is left where it can.
        let margin = (keys * cell.get::<u64>("margin")? / 100).min((keys - wanted) / 2);
        let first = margin + Rng::from_seed(turn as u64).below(keys - wanted - 2 * margin + 1);
        Ok(KeyRange { first: first as i64, last: (first + wanted - 1) as i64 })
    }

    fn options(cell: &Cell, range: KeyRange) -> Result<ScanOptions, String> {
        let options = ScanOptions::index(INDEX);
        let options =
            options.from(vec![Value::Int8(range.first)]).to(vec![Value::Int8(range.last)]);
        let backward = cell.get::<String>("direction")? == "backward";
        let mut options = if backward { options.backward() } else { options };
        if cell.get::<String>("estimate")? == "known" {
            let keys = range.last.abs_diff(range.first) + 1;
            options.expected_rows = Some(keys * cell.get::<u64>("duplicates")?);
        }
        let key_only = cell.get::<String>("kind")? == "index-only";
        Ok(if key_only { options.columns(["a"]) } else { options })
    }

    /// Scans the range with a policy.
    pub(crate) fn scan(
        &mut self,
        cell: &Cell,
        range: KeyRange,
        policy: Prefetch,
        clock: &Clock,
    ) -> Result<Turn, Failure> {
        let options = Self::options(cell, range)?;
        self.db.set_prefetch(policy);
        let cold = cell.get::<String>("cache")? == "cold";
        if cold {
            self.chill()?;
        } else {
            self.run(&options)?;
        }
        let (before, pages) = (self.count("device_reads"), self.count("pool_reads"));
        let bytes = page_cache::device_bytes()?;
        let start = clock.now();
        let (rows, stats) = self.run(&options)?;
        let ms = (clock.now() - start).as_secs_f64() * 1e3;
        let device_bytes = page_cache::device_bytes()? - bytes;
        let needed = (self.count("pool_reads") - pages) * BLOCK;
        let buffered = cell.get::<String>("io")? == "buffered";
        if cold && buffered && device_bytes < needed {
            let text =
                format!("not cold: {needed} bytes needed, {device_bytes} read by the device");
            return Err(text.into());
        }
        Ok(Turn { ms, rows, reads: self.count("device_reads") - before, device_bytes, stats })
    }

    /// Leaves no page of the database in memory, neither in the pool nor in the page cache.
    fn chill(&self) -> Result<(), Failure> {
        self.db.evict()?;
        page_cache::drop_data_files(&self.dir)
    }

    /// Milliseconds from a cold start to the first row of the range.
    pub(crate) fn first(
        &self,
        cell: &Cell,
        range: KeyRange,
        clock: &Clock,
    ) -> Result<f64, Failure> {
        let options = Self::options(cell, range)?.limit(1);
        self.db.set_prefetch(Prefetch::Adaptive);
        self.chill()?;
        let start = clock.now();
        let (rows, _) = self.run(&options)?;
        assert!(rows == 1, "every range has a row");
        Ok((clock.now() - start).as_secs_f64() * 1e3)
    }

    fn run(&self, options: &ScanOptions) -> Result<(u64, StreamStats), Failure> {
        let mut txn = self.db.begin();
        let mut rows = txn.scan(TABLE, options)?;
        let mut count = 0;
        for row in rows.by_ref() {
            row?;
            count += 1;
        }
        Ok((count, rows.stats()))
    }

    fn count(&self, name: &str) -> u64 {
        self.db.stats().get(name).unwrap_or(0)
    }

    /// What the bare device takes for the heap blocks of the range; every other turn begins with
    /// the single reads, as whoever comes second may find the device warmed up.
    pub(crate) fn limit(
        &self,
        cell: &Cell,
        range: KeyRange,
        turn: usize,
        clock: &Clock,
    ) -> Result<Passes, Failure> {
        let blocks = self.blocks(cell, range)?;
        let (method, device) = io(cell)?;
        let options = IoOptions { direct: true, device, ..IoOptions::with_method(method) };
        let io = Io::open(&Env::system(64 << 20), &self.dir, options)?;
        let joined = || limit::time(&io, &[largest(&io)?], blocks.iter().copied().collect(), clock);
        let single = || limit::time_each(&io, largest(&io)?, &blocks, clock);
        Ok(if turn.is_multiple_of(2) {
            let joined_ms = joined()?;
            Passes { joined_ms, single_ms: single()? }
        } else {
            let single_ms = single()?;
            Passes { joined_ms: joined()?, single_ms }
        })
    }

    /// The distinct heap blocks of the range, as the scan comes to them.
    fn blocks(&self, cell: &Cell, range: KeyRange) -> Result<Vec<u64>, Failure> {
        let heap_cell = cell.clone().with("kind", "heap");
        let mut txn = self.db.begin();
        let (mut blocks, mut known) = (Vec::new(), HashSet::new());
        for row in txn.scan(TABLE, &Self::options(&heap_cell, range)?)? {
            let block = u64::from(row?.id.block.0);
            if known.insert(block) {
                blocks.push(block);
            }
        }
        Ok(blocks)
    }
}

/// The heap: the largest file.
fn largest(io: &Io) -> Result<DataFile, Failure> {
    let mut best: Option<DataFile> = None;
    for name in io.list("data")? {
        let file = io.open_file(&format!("data/{name}"), OpenMode::Existing)?;
        let blocks = file.len()? / BLOCK;
        if best.as_ref().is_none_or(|best| best.blocks < blocks) {
            best = Some(DataFile { file, blocks });
        }
    }
    best.ok_or_else(|| "a database without files".into())
}
