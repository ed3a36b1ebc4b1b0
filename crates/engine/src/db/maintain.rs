//! Looking after an open database: verify, statistics, inspection.
//!
//! Invariants: nothing here stops anybody else's work.
//! Does not do: the work itself, which the rooms below do.

use std::path::Path;

use rightlink_env::sync::Ordering;

use crate::buffer::{PoolStats, StreamStats};
use crate::catalog::Entry;
use crate::db::Database;
use crate::db::define::CheckSchema;
use crate::db::info::{
    ColumnInfo, Finding, IdentityInfo, IndexInfo, KeyColumnInfo, SnapshotInfo, Stats, TableInfo,
    VacuumProgress, VacuumReport, VerifyProgress, VerifyReport,
};
use crate::error::{Error, Result};
use crate::ids::ObjectId;
use crate::table::schema::{Check, ColumnNo, IndexDef, TableDef};
use crate::txn::LockMode;
use crate::upkeep::engine::Engine;
use crate::upkeep::offline;
use crate::upkeep::options::Options;
use crate::upkeep::vacuum::How;
use crate::upkeep::watch::Watch;
use crate::verify;

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
            match info.or_else(|error| engine.defined(&def.name, error)) {
                Err(Error::NotFound(_)) => {}
                info => infos.push(info?),
            }
        }
        Ok(infos)
    }

    /// One table.
    pub fn describe(&self, table: &str) -> Result<TableInfo> {
        self.engine().check_open()?;
        let (_txn, entry) = self.engine().use_table(table, LockMode::Access)?;
        Ok(self.engine().table_info(&entry))
    }

    /// Figures since the database was opened: pool, log, checkpoints, reads, writes, transactions.
    pub fn stats(&self) -> Stats {
        self.engine().stats()
    }

    /// Checks pages, heaps, indexes and both against each other, while others work.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.verify_watched(|_| true)
    }

    /// As [`Database::verify`], and can be watched: `go_on` is asked after every 64 pages. The
    /// structure of one table or one index is checked in one go.
    ///
    /// # Errors
    /// `Cancelled` when `go_on` said no.
    pub fn verify_watched(&self, go_on: impl Fn(&VerifyProgress) -> bool) -> Result<VerifyReport> {
        let engine = self.engine();
        engine.check_open()?;
        let pages_in_all = self.pages_to_verify();
        let steps = |pages: u64| {
            let progress = VerifyProgress { pages: pages.min(pages_in_all), pages_in_all };
            match go_on(&progress) {
                true => Ok(()),
                false => Err(Error::Cancelled("the verification, by its caller".into())),
            }
        };
        let steps = verify::Steps::new(&steps);
        let mut report = verify::Report::default();
        verify::online(&engine.verify_parts(&steps), &mut report)?;
        Ok(public(report))
    }

    /// Pages that a verification goes through, those of rows twice. Damage may hide some.
    fn pages_to_verify(&self) -> u64 {
        let blocks = |table: &TableInfo| {
            let indexes = table.indexes.iter().map(|index| u64::from(index.blocks)).sum::<u64>();
            2 * u64::from(table.heap_blocks) + u64::from(table.overflow_blocks) + indexes
        };
        self.tables().unwrap_or_default().iter().map(blocks).sum()
    }

    /// Checks the database at `path`, which nobody has open, without changing a byte of it: see
    /// [`Options::verify_offline`].
    pub fn verify_offline(path: impl AsRef<Path>) -> Result<VerifyReport> {
        Options::default().verify_offline(path)
    }

    /// Removes dead rows of one table (`None`: of every table) and their index entries.
    ///
    /// # Errors
    /// `Cancelled` after [`Database::cancel_vacuum`].
    pub fn vacuum(&self, table: Option<&str>) -> Result<VacuumReport> {
        self.engine().vacuum(How::Fast, table, Watch::default())
    }

    /// As [`Database::vacuum`], and can be ended without ending those of others.
    ///
    /// # Errors
    /// As there; what [`Watch::go_on`] gave.
    pub fn vacuum_with(&self, table: Option<&str>, watch: Watch<'_>) -> Result<VacuumReport> {
        self.engine().vacuum(How::Fast, table, watch)
    }

    /// As [`Database::vacuum`], but resting as a vacuum does that nobody asked for: while others
    /// commit, it works a ninth of the time, a fifth where a processor is idle, and they notice
    /// little of it.
    pub fn vacuum_gently(&self, table: Option<&str>) -> Result<VacuumReport> {
        self.engine().vacuum(How::Gently, table, Watch::default())
    }

    /// The vacuums that are at work now, automatic ones included, oldest first.
    pub fn vacuum_progress(&self) -> Vec<VacuumProgress> {
        self.engine().vacuum_progress()
    }

    /// Asks the vacuums of one table (`None`: all that are at work) to end. They do so soon, with
    /// [`Error::Cancelled`] if somebody asked for them; what they did stays done, and the next one
    /// goes on with indexes that they had not come to. Returns how many were asked.
    pub fn cancel_vacuum(&self, table: Option<&str>) -> usize {
        self.engine().cancel_vacuum(table)
    }

    /// The snapshots that keep rows from being removed, oldest first, and what they hold back.
    pub fn snapshots(&self) -> Vec<SnapshotInfo> {
        let engine = self.engine();
        let (now, next) = (engine.env.clock.now(), engine.txns.next_xid());
        let live = engine.txns.snapshots().into_iter().map(|live| SnapshotInfo {
            transaction: live.id,
            snapshots: live.count as u64,
            age: now - live.since,
            commits_since: live.commits_since,
            xids_since: next.0 - live.xmin.0,
        });
        live.collect()
    }
}

impl Options {
    /// Checks the database in directory `path`, which nobody has open, without changing a byte of
    /// it: as it would be after recovery. Uses the memory of [`Options::memory`].
    ///
    /// # Errors
    /// `Locked` when it is open, `NotFound` when there is none, `OutOfMemory` when the log is too
    /// long to be applied in memory. Damage is in the report.
    pub fn verify_offline(mut self, path: impl AsRef<Path>) -> Result<VerifyReport> {
        self.path = path.as_ref().to_path_buf();
        offline::verify(&self).map(public)
    }
}

fn public(report: verify::Report) -> VerifyReport {
    let finding = |finding: verify::Finding| Finding {
        check: finding.check,
        relation: finding.relation,
        file: finding.file,
        block: finding.block,
        what: finding.what,
    };
    let (left_out, last) = (report.left_out, report.findings.last().cloned());
    let mut findings: Vec<Finding> = report.findings.into_iter().map(finding).collect();
    if let Some(last) = last.filter(|_| left_out > 0) {
        let what = format!("and {left_out} more findings, which are not shown");
        findings.push(finding(verify::Finding { what, block: None, ..last }));
    }
    VerifyReport { findings, pages: report.pages, rows: report.rows, entries: report.entries }
}

impl Engine {
    /// What there is to say about a table that could not be opened because of `error`, if that is
    /// damage: what the catalog says. Files that are not open have no size here.
    pub(crate) fn defined(&self, table: &str, error: Error) -> Result<TableInfo> {
        match (&error, self.catalog.definition(table)) {
            (Error::Corruption { .. }, Ok((def, primary))) => Ok(self.info_of(&def, primary)),
            _ => Err(error),
        }
    }

    /// What there is to say about a table whose lock is held.
    pub(crate) fn table_info(&self, entry: &Entry) -> TableInfo {
        let table = &entry.table;
        let info = self.info_of(table.def(), entry.primary);
        TableInfo {
            heap_blocks: table.heap().blocks(),
            overflow_blocks: table.overflow().map_or(0, |store| store.blocks()),
            ..info
        }
    }

    fn info_of(&self, def: &TableDef, primary: Option<ObjectId>) -> TableInfo {
        let column = |(_, column): (u16, &crate::table::schema::Column)| ColumnInfo {
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
        let index = |index: &IndexDef| self.index_info((def, primary), index);
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

    fn index_info(
        &self,
        (def, primary): (&TableDef, Option<ObjectId>),
        index: &IndexDef,
    ) -> IndexInfo {
        let name = |column: ColumnNo| def.columns[usize::from(column)].name.clone();
        let key = |key: &crate::table::schema::IndexColumn| KeyColumnInfo {
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
            primary: primary == Some(index.id),
            method: index.method,
            blocks: self.pool.open_blocks(index.file).unwrap_or(0),
        }
    }

    fn stats(&self) -> Stats {
        let (pool, log, io) = (self.pool.stats(), self.wal.stats(), self.io.stats());
        let txns = self.txns.counters();
        let vacuums = self.vacuum_progress();
        let sum = |of: fn(&VacuumProgress) -> u64| vacuums.iter().map(of).sum();
        let mut figures = pool_figures(&pool);
        figures.extend(stream_figures(&self.pool.stream_stats()));
        figures.extend([
            ("log_records", log.total().0),
            ("log_bytes", log.total().1),
            ("log_flushes", log.flushes()),
            ("log_waits", log.followed),
            ("log_syncs", log.syncs),
            ("log_written_bytes", log.written_bytes),
            ("log_segments_reused", log.recycled),
            ("log_segments_removed", log.removed),
            ("log_since_checkpoint_bytes", self.wal.bytes_since(self.upkeep.redo())),
            ("checkpoint_distance_bytes", self.checkpoint_distance()),
            ("auto_vacuums", self.upkeep.auto_vacuums.load(Ordering::Relaxed)),
            ("vacuums_running", vacuums.len() as u64),
            ("vacuum_heap_blocks", sum(|run| run.heap_blocks)),
            ("vacuum_heap_blocks_done", sum(|run| run.heap_blocks_done)),
            ("vacuum_index_blocks", sum(|run| run.index_blocks)),
            ("vacuum_index_blocks_done", sum(|run| run.index_blocks_done)),
            ("vacuum_dead_rows", sum(|run| run.dead_rows)),
            ("vacuum_dead_row_bytes", sum(|run| run.dead_row_bytes)),
            ("commits", txns.commits),
            ("aborts", txns.aborts),
            ("conflicts", txns.conflicts),
            ("conflicts_row_locked", txns.locked),
            ("deadlocks", txns.deadlocks),
            ("lock_waits", txns.waits),
            ("lock_waits_given_up", txns.given_up),
            ("lock_wait_us", txns.waited.as_micros() as u64),
            ("xids_kept", self.txns.xids_kept()),
            ("xids_left", self.txns.xids_left()),
            ("device_reads", io.reads),
            ("device_read_bytes", io.read_bytes),
            ("device_writes", io.writes),
            ("device_written_bytes", io.write_bytes),
            ("device_syncs", io.syncs),
            ("device_depth", u64::from(self.pool.device_depth())),
            ("memory_limit_bytes", self.env.budget.limit() as u64),
            ("memory_used_bytes", self.env.budget.used() as u64),
            ("memory_peak_bytes", self.env.budget.peak() as u64),
            ("recovered_records", self.replayed.records),
            ("recovered_bytes", self.replayed.bytes),
            ("recovery_us", self.replayed.nanos / 1000),
        ]);
        figures.extend(self.upkeep.tally.figures());
        Stats { figures }
    }
}

fn pool_figures(pool: &PoolStats) -> Vec<(&'static str, u64)> {
    vec![
        ("pool_hits", pool.hits),
        ("pool_reads", pool.reads),
        ("pool_evictions", pool.evictions),
        ("pool_dirty_pages", pool.dirty as u64),
        ("pool_read_calls", pool.read_calls),
        ("pool_read_errors", pool.read_errors),
        ("pool_waits", pool.waits),
        ("latch_waits", pool.latch_waits),
        ("pool_written_pages", pool.written),
        ("pool_write_calls", pool.write_calls),
        ("pool_write_groups", pool.groups),
        ("pool_foreground_groups", pool.foreground_groups),
        ("double_write_bytes", pool.double_write_bytes),
    ]
}

/// Means are over all hand-overs (distance) and all reads (operations in flight).
fn stream_figures(streams: &StreamStats) -> [(&'static str, u64); 8] {
    [
        ("stream_entries", streams.delivered),
        ("stream_reads", streams.reads),
        ("stream_joined_blocks", streams.joined),
        ("stream_wasted_blocks", streams.wasted),
        ("stream_waits", streams.waits),
        ("stream_mean_distance", streams.mean_distance().round() as u64),
        ("stream_queue_depth", streams.queue_depth().round() as u64),
        ("stream_depth_sum", streams.depth_sum),
    ]
}
