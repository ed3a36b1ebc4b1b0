//! The process that works within a budget and watches its own resident memory.
//!
//! Invariants: rows that a phase hands over are made before its peak is reset, and what they hold
//! counts as the caller's. Pages of mapped files count nowhere: they are the program's own code,
//! which the kernel reads in as it runs and may drop. It ends without closing, so that the next one
//! has a log to apply.
//! Does not do: judging.

use std::path::Path;

use rightlink::{Database, IndexSchema, ScanOptions, Value};

use crate::Failure;
use crate::knobs::Cell;
use crate::load::table;
use crate::load::wire::Figures;

const BATCH: u64 = 1000;
/// Rows of the large batch.
const LARGE: u64 = 50_000;
/// Of all rows, one in so many is deleted before the vacuum.
const KEPT: u64 = 4;

/// Does what the words say: role, directory, then `name=value` of the cell.
pub(crate) fn run(words: &[String]) -> Result<(), Failure> {
    let [role, dir, values @ ..] = words else {
        return Err("this is for processes that the experiment starts".into());
    };
    let (dir, cell) = (Path::new(dir), Cell::parse(values)?);
    let base = status("VmRSS:")?.saturating_sub(status("RssFile:")?);
    reset_peak()?;
    let budget = cell.get::<usize>("budget_mib")? << 20;
    let options = Database::options().memory(budget).direct(cell.get("direct")?);
    let db = options.open(dir)?;
    let (rows, indexes, open) = (cell.get("rows")?, cell.get("indexes")?, cell.get("open")?);
    let work = Work { db, base, rows, indexes, open };
    match role.as_str() {
        "work" => work.phases()?,
        "reopen" => work.tell("reopen", 0)?,
        role => return Err(format!("there is no role {role}").into()),
    }
    // Without a clean close.
    std::process::exit(0)
}

struct Work {
    db: Database,
    base: u64,
    rows: u64,
    indexes: u32,
    /// Transactions, and as many scans, that are open at once.
    open: u64,
}

impl Work {
    fn phases(&self) -> Result<(), Failure> {
        self.load()?;
        self.tell("load", 0)?;
        self.open_at_once()?;
        self.tell("open-at-once", 0)?;
        self.build()?;
        self.tell("index-build", 0)?;
        self.delete()?;
        self.tell("delete", 0)?;
        self.db.vacuum(None)?;
        self.tell("vacuum", 0)?;
        let found = self.db.begin().scan(table::TABLE, &ScanOptions::all())?.count() as u64;
        assert!(found >= self.rows / 2, "most rows are left");
        self.tell("scan", 0)?;
        // Last: the allocator keeps what the caller's rows held.
        let held = self.large_batch()?;
        self.tell("large-batch", held)?;
        // Something for the next process to apply.
        self.insert(self.rows + LARGE + self.open, BATCH)
    }

    /// Sends the peak since the last call, less the `held` bytes of the caller.
    fn tell(&self, phase: &str, held: u64) -> Result<(), Failure> {
        let mut figures = Figures::default();
        figures.set("base_rss_bytes", self.base);
        let peak = status("VmHWM:")?.saturating_sub(status("RssFile:")?);
        figures.set("peak_rss_bytes", peak.saturating_sub(held));
        let reserved = self.db.stats().get("memory_peak_bytes");
        figures.set("reserved_peak_bytes", reserved.ok_or("the engine counts this")?);
        figures.send(phase)?;
        reset_peak()
    }

    fn insert(&self, from: u64, count: u64) -> Result<(), Failure> {
        let rows: Vec<Vec<Value>> = (from..from + count).map(table::row).collect();
        let mut txn = self.db.begin();
        txn.insert_many(table::TABLE, &rows)?;
        Ok(txn.commit()?)
    }

    fn load(&self) -> Result<(), Failure> {
        let mut txn = self.db.begin();
        txn.create_table(&table::schema(self.indexes))?;
        txn.commit()?;
        (0..self.rows / BATCH).try_for_each(|batch| self.insert(batch * BATCH, BATCH))
    }

    /// One statement with very many rows; returns what they hold.
    fn large_batch(&self) -> Result<u64, Failure> {
        let rows: Vec<Vec<Value>> = (self.rows..self.rows + LARGE).map(table::row).collect();
        // Counted, not told from resident memory: some of it was resident and free before. The
        // values themselves hold nothing.
        let row = |row: &Vec<Value>| size_of_val(row) + row.capacity() * size_of::<Value>();
        let held = rows.iter().map(row).sum::<usize>() as u64;
        let mut txn = self.db.begin();
        txn.insert_many(table::TABLE, &rows)?;
        txn.commit()?;
        Ok(held)
    }

    fn open_at_once(&self) -> Result<(), Failure> {
        let mut open = Vec::new();
        for number in 0..self.open {
            let mut txn = self.db.begin();
            txn.insert(table::TABLE, &table::row(self.rows + LARGE + number))?;
            let mut scan = txn.scan(table::TABLE, &ScanOptions::index("t_pkey"))?;
            scan.next().ok_or("there are rows")??;
            open.push((txn, scan));
        }
        Ok(())
    }

    fn build(&self) -> Result<(), Failure> {
        let mut txn = self.db.begin();
        txn.create_index(table::TABLE, &IndexSchema::new("t_late").on("u1").on("u0"))?;
        Ok(txn.commit()?)
    }

    fn delete(&self) -> Result<(), Failure> {
        for from in (0..self.rows).step_by(10 * BATCH as usize) {
            let mut txn = self.db.begin();
            let ids = from..(from + 10 * BATCH / KEPT).min(self.rows);
            for id in ids {
                let row = txn.get(table::TABLE, &[table::key(id)])?.ok_or("a row is gone")?;
                txn.delete(table::TABLE, row.id)?;
            }
            txn.commit()?;
        }
        Ok(())
    }
}

/// A figure of this process, in bytes.
fn status(name: &str) -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next());
    Ok(kilobytes.ok_or("the kernel does not tell it")?.parse::<u64>()? * 1024)
}

/// The peak of resident memory is counted afresh.
fn reset_peak() -> Result<(), Failure> {
    Ok(std::fs::write("/proc/self/clear_refs", "5")?)
}
