//! RocksDB, by `rocksdb`.
//!
//! A column family a table, and what its wiki recommends ("Setup Options and Basic Tuning"):
//! dynamic level sizes, blocks of 16 KiB, a Bloom filter of ten bits a key, index and filter blocks
//! in the block cache, `bytes_per_sync` of 1 MiB, as many background jobs as cores.
//!
//! Files that overlap least are compacted first, which is the default by now. The last level has no
//! filters (`optimize_filters_for_hits`), because every key that is looked up is there. Nothing is
//! compressed, because uuids have no pattern.
//!
//! Half of the allowance is the block cache, half write buffers, of all tables together. Where
//! memory is a tenth, direct I/O ("Direct IO"), with 2 MiB read ahead for compaction. A relaxed
//! commit leaves its log to the operating system, which is RocksDB's default.
//!
//! Does not do: tuning for one workload (universal compaction, vector memtables, unordered writes);
//! `io_uring` below its `MultiGet`, which wants a symbol of the program's and a build with
//! liburing.

use std::ops::Range;
use std::path::Path;

use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, ColumnFamilyDescriptor, DB, DBCompressionType,
    IteratorMode, Options, WriteBatch, WriteOptions,
};

use crate::Failure;
use crate::load::engine::{Engine, Setup, Written};
use crate::load::peers::{Batch, check, id_of, index_name, written};
use crate::load::table;

const ROWS: &str = "rows";
const BLOCK_BYTES: usize = 16 << 10;
const BLOOM_BITS: f64 = 10.0;
const SYNC_BYTES: u64 = 1 << 20;
const COMPACTION_AHEAD: usize = 2 << 20;
/// The write buffer of one table, if the allowance for all has room for it.
const MOST_BUFFER: usize = 64 << 20;
/// The fewest background jobs: one that flushes, one that compacts.
const LEAST_JOBS: usize = 2;

pub(super) struct Rocks {
    db: DB,
    setup: Setup,
    /// Names of the index tables.
    indexes: Vec<String>,
    batch: Batch,
}

impl Rocks {
    pub(super) fn open(setup: Setup, dir: &Path) -> Result<Rocks, Failure> {
        let half = usize::try_from(setup.memory / 2)?;
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        options.set_db_write_buffer_size(half);
        options.set_bytes_per_sync(SYNC_BYTES);
        let cores = rightlink_env::thread::parallelism();
        options.increase_parallelism(i32::try_from(cores.max(LEAST_JOBS))?);
        if !setup.roomy {
            options.set_use_direct_reads(true);
            options.set_use_direct_io_for_flush_and_compaction(true);
            options.set_compaction_readahead_size(COMPACTION_AHEAD);
        }
        let cache = Cache::new_lru_cache(half);
        let indexes: Vec<_> = (0..setup.indexes).map(index_name).collect();
        let names = [ROWS].into_iter().chain(indexes.iter().map(String::as_str));
        let families = names
            .map(|name| ColumnFamilyDescriptor::new(name, of_table(&cache, half, indexes.len())));
        let db = DB::open_cf_descriptors(&options, dir, families)?;
        Ok(Rocks { db, setup, indexes, batch: Batch::default() })
    }

    fn table(&self, name: &str) -> &ColumnFamily {
        self.db.cf_handle(name).expect("it was opened with its tables")
    }

    /// The index that says which row has a uuid.
    fn first_index(&self) -> Option<&ColumnFamily> {
        self.indexes.first().map(|name| self.table(name))
    }
}

/// The options of one table of several that share `half` of the allowance for writes.
fn of_table(cache: &Cache, half: usize, indexes: usize) -> Options {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(cache);
    blocks.set_block_size(BLOCK_BYTES);
    blocks.set_bloom_filter(BLOOM_BITS, false);
    blocks.set_cache_index_and_filter_blocks(true);
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
    let mut options = Options::default();
    options.set_block_based_table_factory(&blocks);
    options.set_level_compaction_dynamic_level_bytes(true);
    options.set_compression_type(DBCompressionType::None);
    options.set_optimize_filters_for_hits(true);
    options.set_write_buffer_size((half / (indexes + 1)).min(MOST_BUFFER));
    options
}

impl Engine for Rocks {
    fn prepare(&mut self, ids: Range<u64>) {
        self.batch = Batch::of(ids);
    }

    fn insert(&mut self) -> Result<(), Failure> {
        let mut batch = WriteBatch::default();
        let rows = self.table(ROWS);
        for (id, body) in self.batch.rows() {
            batch.put_cf(rows, id.to_be_bytes(), body);
        }
        for (column, name) in self.indexes.iter().enumerate() {
            let index = self.table(name);
            for (uuid, id) in self.batch.keys(column) {
                batch.put_cf(index, uuid, id.to_be_bytes());
            }
        }
        let mut how = WriteOptions::default();
        how.set_sync(self.setup.durable);
        Ok(self.db.write_opt(batch, &how)?)
    }

    fn settle(&mut self) -> Result<(), Failure> {
        Ok(self.db.flush_wal(true)?)
    }

    fn written(&self) -> Result<Written, Failure> {
        written()
    }

    fn rows(&mut self) -> Result<u64, Failure> {
        match self.db.iterator_cf(self.table(ROWS), IteratorMode::End).next() {
            Some(last) => Ok(id_of(Some(&last?.0))? + 1),
            None => Ok(0),
        }
    }

    fn pages(&self) -> Result<Option<u64>, Failure> {
        Ok(None)
    }

    fn read(&mut self, id: u64) -> Result<(), Failure> {
        let found = match self.first_index() {
            Some(index) => id_of(self.db.get_pinned_cf(index, table::uuids(id)[0])?.as_deref())?,
            None => id,
        };
        check(id, self.db.get_pinned_cf(self.table(ROWS), found.to_be_bytes())?.as_deref())
    }

    fn read_many(&mut self, ids: &[u64]) -> Result<(), Failure> {
        let mut found = ids.to_vec();
        if let Some(index) = self.first_index() {
            let mut keys: Vec<_> = ids.iter().map(|id| table::uuids(*id)[0]).collect();
            keys.sort_unstable();
            found.clear();
            for id in self.db.batched_multi_get_cf(index, &keys, true) {
                found.push(id_of(id?.as_deref())?);
            }
        }
        found.sort_unstable();
        let keys: Vec<_> = found.iter().map(|id| id.to_be_bytes()).collect();
        let rows = self.db.batched_multi_get_cf(self.table(ROWS), &keys, true);
        found.iter().zip(rows).try_for_each(|(id, row)| check(*id, row?.as_deref()))
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        self.db.flush_wal(true)?;
        self.db.cancel_all_background_work(true);
        Ok(())
    }
}
