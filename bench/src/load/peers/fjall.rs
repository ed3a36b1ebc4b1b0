//! fjall.
//!
//! A keyspace a table; `expect_point_read_hits`, because every key that is looked up is there; no
//! compression, because uuids have no pattern. Half of the allowance is cache, half write buffers.
//! A relaxed commit leaves its journal to the operating system, which is fjall's default.
//!
//! Does not do: many keys at once, for which there is no call.

use std::ops::Range;
use std::path::Path;

use fjall::config::CompressionPolicy;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::Failure;
use crate::load::engine::{Engine, Setup, Written};
use crate::load::peers::{Batch, check, id_of, index_name, written};
use crate::load::table;

/// The least that a write buffer is told.
const LEAST_BUFFER: u64 = 1 << 20;
const MOST_BUFFER: u64 = 64 << 20;

pub(super) struct Fjall {
    db: Database,
    rows: Keyspace,
    indexes: Vec<Keyspace>,
    durable: bool,
    batch: Batch,
}

impl Fjall {
    pub(super) fn open(setup: Setup, dir: &Path) -> Result<Fjall, Failure> {
        let half = setup.memory / 2;
        let db = Database::builder(dir).cache_size(half).open()?;
        let each = (half / (setup.indexes as u64 + 1)).clamp(LEAST_BUFFER, MOST_BUFFER);
        let options = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(each)
                .expect_point_read_hits(true)
                .data_block_compression_policy(CompressionPolicy::disabled())
        };
        let rows = db.keyspace("rows", options)?;
        let mut indexes = Vec::new();
        for column in 0..setup.indexes {
            indexes.push(db.keyspace(&index_name(column), options)?);
        }
        Ok(Fjall { db, rows, indexes, durable: setup.durable, batch: Batch::default() })
    }
}

impl Engine for Fjall {
    fn prepare(&mut self, ids: Range<u64>) {
        self.batch = Batch::of(ids);
    }

    fn insert(&mut self) -> Result<(), Failure> {
        let mode = if self.durable { PersistMode::SyncData } else { PersistMode::Buffer };
        let mut batch = self.db.batch().durability(Some(mode));
        for (id, body) in self.batch.rows() {
            batch.insert(&self.rows, id.to_be_bytes(), body);
        }
        for (column, index) in self.indexes.iter().enumerate() {
            for (uuid, id) in self.batch.keys(column) {
                batch.insert(index, uuid, id.to_be_bytes());
            }
        }
        Ok(batch.commit()?)
    }

    fn settle(&mut self) -> Result<(), Failure> {
        Ok(self.db.persist(PersistMode::SyncData)?)
    }

    fn written(&self) -> Result<Written, Failure> {
        written()
    }

    fn rows(&mut self) -> Result<u64, Failure> {
        match self.rows.last_key_value() {
            Some(last) => Ok(id_of(Some(&last.key()?))? + 1),
            None => Ok(0),
        }
    }

    fn pages(&self) -> Result<Option<u64>, Failure> {
        Ok(None)
    }

    fn read(&mut self, id: u64) -> Result<(), Failure> {
        let found = match self.indexes.first() {
            Some(index) => id_of(index.get(table::uuids(id)[0])?.as_deref())?,
            None => id,
        };
        check(id, self.rows.get(found.to_be_bytes())?.as_deref())
    }

    fn read_many(&mut self, ids: &[u64]) -> Result<(), Failure> {
        let mut found = ids.to_vec();
        if let Some(index) = self.indexes.first() {
            let mut keys: Vec<_> = ids.iter().map(|id| table::uuids(*id)[0]).collect();
            keys.sort_unstable();
            found.clear();
            for key in keys {
                found.push(id_of(index.get(key)?.as_deref())?);
            }
        }
        found.sort_unstable();
        found.iter().try_for_each(|id| check(*id, self.rows.get(id.to_be_bytes())?.as_deref()))
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(self.db.persist(PersistMode::SyncAll)?)
    }
}
