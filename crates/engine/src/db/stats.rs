//! Figures of a database, of its tables and of their indexes since it was opened.
//!
//! Invariants: each figure is read by itself, not all at one moment.
//! Does not do: count; every module has counters of its own.

use rightlink_env::sync::Ordering;

use crate::buffer::{PoolStats, StreamStats};
use crate::db::Database;
use crate::db::info::{IndexFigures, Stats, TableFigures, VacuumProgress};
use crate::error::Result;
use crate::index::DeadMarks;
use crate::table::Table;
use crate::table::schema::{IndexDef, TableDef};

impl Database {
    /// Figures since the database was opened: pool, log, checkpoints, reads, writes, transactions.
    pub fn stats(&self) -> Stats {
        let engine = self.engine();
        let (pool, log, io) = (engine.pool.stats(), engine.wal.stats(), engine.io.stats());
        let txns = engine.txns.counters();
        let vacuums = self.vacuum_progress();
        let (schedule, counters) = (&engine.schedule, &engine.upkeep.counters);
        let sum = |of: fn(&VacuumProgress) -> u64| vacuums.iter().map(of).sum();
        let mut figures = pool_figures(&pool);
        figures.extend(stream_figures(&engine.pool.stream_stats()));
        figures.extend([
            ("log_records", log.total().0),
            ("log_bytes", log.total().1),
            ("log_flushes", log.flushes()),
            ("log_waits", log.followed),
            ("log_syncs", log.syncs),
            ("log_written_bytes", log.written_bytes),
            ("log_segments_reused", log.recycled),
            ("log_segments_removed", log.removed),
            ("log_since_checkpoint_bytes", engine.wal.bytes_since(schedule.redo())),
            ("checkpoint_distance_bytes", schedule.distance()),
            ("auto_vacuums", counters.auto_vacuums.load(Ordering::Relaxed)),
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
            ("prepared_transactions", engine.prepared.all().len() as u64),
            ("xids_kept", engine.txns.xids_kept()),
            ("xids_left", engine.txns.xids_left()),
            ("device_reads", io.reads),
            ("device_read_bytes", io.read_bytes),
            ("device_writes", io.writes),
            ("device_written_bytes", io.write_bytes),
            ("device_syncs", io.syncs),
            ("device_depth", u64::from(engine.pool.device_depth())),
            ("device_scattered_blocks_per_s", u64::from(engine.device.scattered_per_s)),
            ("device_in_order_blocks_per_s", u64::from(engine.device.in_order_per_s)),
            ("memory_limit_bytes", engine.env.budget.limit() as u64),
            ("memory_used_bytes", engine.env.budget.used() as u64),
            ("memory_peak_bytes", engine.env.budget.peak() as u64),
            ("recovered_records", engine.replayed.records),
            ("recovered_bytes", engine.replayed.bytes),
            ("recovery_us", engine.replayed.nanos / 1000),
        ]);
        figures.extend(counters.figures());
        Stats { figures }
    }

    /// The figures of each table since the database was opened, sorted by name. Waits for no lock.
    pub fn table_figures(&self) -> Result<Vec<TableFigures>> {
        let engine = self.engine();
        engine.check_open()?;
        let open = engine.catalog.known_tables();
        let figures = |def: &TableDef| {
            let mut used = open.iter().map(|entry| &entry.table);
            let used = used.rfind(|table| table.def().id == def.id);
            figures(def, used.map(|table| &**table))
        };
        Ok(engine.catalog.definitions()?.iter().map(figures).collect())
    }

    /// As [`Database::table_figures`], of wanted tables in memory alone, in no order: among those
    /// in memory is every table whose rows have changed since the database was opened. No page is
    /// read, so that it can be asked again and again.
    pub fn used_table_figures(&self, is_wanted: impl Fn(u32) -> bool) -> Result<Vec<TableFigures>> {
        self.engine().check_open()?;
        let open = self.engine().catalog.known_tables();
        let wanted = open.iter().filter(|entry| is_wanted(entry.table.def().id.0));
        Ok(wanted.map(|entry| figures(entry.table.def(), Some(&entry.table))).collect())
    }
}

fn figures(def: &TableDef, used: Option<&Table>) -> TableFigures {
    let index = |def: &IndexDef| {
        let used = used.and_then(|table| table.index_by_id(def.id));
        let [scans, entries, rows, made, evicted, changed, reused] =
            used.map_or([0; 7], |index| index.figures());
        let dead_marks = DeadMarks { made, evicted, changed, reused };
        IndexFigures { index: def.id.0, name: def.name.clone(), scans, entries, rows, dead_marks }
    };
    TableFigures {
        table: def.id.0,
        name: def.name.clone(),
        rows: used.map(|table| table.heap().counters().figures()).unwrap_or_default(),
        garbage: used.map_or(0, |table| table.heap().garbage_since_vacuum()),
        indexes: def.indexes.iter().map(index).collect(),
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
