//! LMDB, by `heed`.
//!
//! `NO_SYNC` where commits are relaxed; `WRITE_MAP`, which LMDB's documentation calls faster, where
//! the map fits in memory; `NO_READ_AHEAD`, which it recommends for random reads of what is larger
//! than memory, always: reads here are random. Ids are integer keys and appended.
//!
//! Invariants: nobody else opens the files. Does not do: growing the map.

use std::ops::Range;
use std::path::Path;

use heed::types::Bytes;
use heed::{
    Database, Env, EnvFlags, EnvOpenOptions, IntegerComparator, PutFlags, RoTxn, WithoutTls,
};

use crate::Failure;
use crate::load::engine::{Engine, Role, Setup, Written};
use crate::load::peers::{Batch, check, id_of, index_name, written};
use crate::load::table;

type Table = Database<Bytes, Bytes>;

pub(super) struct Lmdb {
    env: Env<WithoutTls>,
    rows: Database<Bytes, Bytes, IntegerComparator>,
    indexes: Vec<Table>,
    reader: Option<RoTxn<'static, WithoutTls>>,
    batch: Batch,
}

impl Lmdb {
    pub(super) fn open(setup: Setup, dir: &Path, role: Role) -> Result<Lmdb, Failure> {
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        let bytes = (setup.expected * 4 + (1 << 30)).next_multiple_of(1 << 20);
        options.map_size(usize::try_from(bytes)?).max_dbs(8);
        let mut flags = EnvFlags::NO_READ_AHEAD;
        flags.set(EnvFlags::NO_SYNC, !setup.durable);
        flags.set(EnvFlags::WRITE_MAP, setup.roomy);
        // SAFETY: the flags give up durability only; nobody else opens or changes files in this
        // directory while it is mapped.
        let env = unsafe { options.flags(flags).open(dir)? };
        let mut txn = env.write_txn()?;
        let mut named = env.database_options().types::<Bytes, Bytes>();
        named.name("rows");
        let rows = named.key_comparator::<IntegerComparator>().create(&mut txn)?;
        let mut indexes = Vec::new();
        for column in 0..setup.indexes {
            indexes.push(env.create_database(&mut txn, Some(&index_name(column)))?);
        }
        txn.commit()?;
        let reader = (role == Role::Read).then(|| env.clone().static_read_txn()).transpose()?;
        Ok(Lmdb { env, rows, indexes, reader, batch: Batch::default() })
    }

    fn reader(&self) -> &RoTxn<'static, WithoutTls> {
        self.reader.as_ref().expect("this process reads")
    }
}

impl Engine for Lmdb {
    fn prepare(&mut self, ids: Range<u64>) {
        self.batch = Batch::of(ids);
    }

    fn insert(&mut self) -> Result<(), Failure> {
        let mut txn = self.env.write_txn()?;
        for (id, body) in self.batch.rows() {
            self.rows.put_with_flags(&mut txn, PutFlags::APPEND, &id.to_ne_bytes(), &body)?;
        }
        for (column, index) in self.indexes.iter().enumerate() {
            for (uuid, id) in self.batch.keys(column) {
                index.put(&mut txn, &uuid, &id.to_be_bytes())?;
            }
        }
        Ok(txn.commit()?)
    }

    fn settle(&mut self) -> Result<(), Failure> {
        Ok(self.env.force_sync()?)
    }

    fn written(&self) -> Result<Written, Failure> {
        written()
    }

    fn rows(&mut self) -> Result<u64, Failure> {
        let txn = self.env.read_txn()?;
        let last = self.rows.last(&txn)?;
        Ok(match last {
            Some((id, _)) => u64::from_ne_bytes(id.try_into()?) + 1,
            None => 0,
        })
    }

    fn pages(&self) -> Result<Option<u64>, Failure> {
        Ok(None)
    }

    fn read(&mut self, id: u64) -> Result<(), Failure> {
        let txn = self.reader();
        let found = match self.indexes.first() {
            Some(index) => id_of(index.get(txn, &table::uuids(id)[0])?)?,
            None => id,
        };
        check(id, self.rows.get(txn, &found.to_ne_bytes())?)
    }

    fn read_many(&mut self, ids: &[u64]) -> Result<(), Failure> {
        let txn = self.reader();
        let mut found = ids.to_vec();
        if let Some(index) = self.indexes.first() {
            let mut keys: Vec<_> = ids.iter().map(|id| (table::uuids(*id)[0], *id)).collect();
            keys.sort_unstable();
            found.clear();
            for (key, _) in &keys {
                found.push(id_of(index.get(txn, key)?)?);
            }
        }
        found.sort_unstable();
        found.iter().try_for_each(|id| check(*id, self.rows.get(txn, &id.to_ne_bytes())?))
    }

    fn close(mut self: Box<Self>) -> Result<(), Failure> {
        self.reader = None;
        Ok(self.env.force_sync()?)
    }
}
