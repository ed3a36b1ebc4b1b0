//! Our own engine in the experiment.
//!
//! Invariants: with a pool that is too small files are read and written past the page cache, so
//! nothing else holds pages; reads are always so. Many rows are read by `fetch_many`.
//! Does not do: anything that a user could not do.

use std::ops::Range;
use std::path::Path;

use rightlink::{Database, ScanOptions, Transaction, TransactionOptions, Value};

use crate::Failure;
use crate::knobs::Cell;
use crate::load::engine::{Engine, Role, Written};
use crate::load::table;

pub(crate) struct Ours {
    db: Database,
    reader: Option<Transaction>,
    relaxed: bool,
    indexed: bool,
    batch: Vec<Vec<Value>>,
}

impl Ours {
    /// Opens what is in `dir`; makes it, with the table, where the role is to fill.
    pub(crate) fn open(cell: &Cell, dir: &Path, role: Role) -> Result<Ours, Failure> {
        let mut options = table::options(cell)?.create(role == Role::Fill);
        if role == Role::Read {
            options = options.direct(true);
        }
        let db = options.open(dir)?;
        let indexes: u32 = cell.get("indexes")?;
        if role == Role::Fill {
            let mut txn = db.begin();
            txn.create_table(&table::schema(indexes))?;
            txn.commit()?;
        }
        let relaxed = !cell.get::<bool>("durable")?;
        let reader = (role == Role::Read).then(|| db.begin());
        Ok(Ours { db, reader, relaxed, indexed: indexes > 0, batch: Vec::new() })
    }

    /// The index that rows are read by, and the keys of `ids` in it.
    fn keys(&self, rows: &[Vec<Value>]) -> (&'static str, Vec<Vec<Value>>) {
        let (index, column) = if self.indexed { ("t_u0", 1) } else { ("t_pkey", 0) };
        (index, rows.iter().map(|row| vec![row[column].clone()]).collect())
    }

    fn reader(&mut self) -> &mut Transaction {
        self.reader.as_mut().expect("this process reads")
    }
}

impl Engine for Ours {
    fn prepare(&mut self, ids: Range<u64>) {
        self.batch = ids.map(table::row).collect();
    }

    fn insert(&mut self) -> Result<(), Failure> {
        let options = TransactionOptions { relaxed: self.relaxed, ..Default::default() };
        let mut txn = self.db.begin_with(options);
        txn.insert_many(table::TABLE, &self.batch)?;
        Ok(txn.commit()?)
    }

    fn settle(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn written(&self) -> Result<Written, Failure> {
        let stats = self.db.stats();
        let get = |name| stats.get(name).expect("the engine counts this");
        Ok(Written {
            log: Some(get("log_bytes")),
            double_write: Some(get("double_write_bytes")),
            data: get("pool_written_pages") * 8192,
        })
    }

    fn rows(&mut self) -> Result<u64, Failure> {
        let mut txn = self.db.begin();
        let last = ScanOptions::index("t_pkey").backward().limit(1).columns(["id"]);
        let Some(row) = txn.scan(table::TABLE, &last)?.next() else { return Ok(0) };
        match row?.values.as_slice() {
            [Value::Int8(id)] => Ok(u64::try_from(*id)? + 1),
            other => Err(format!("a primary key that was never inserted: {other:?}").into()),
        }
    }

    fn pages(&self) -> Result<Option<u64>, Failure> {
        Ok(Some(table::pages(&self.db)?))
    }

    fn read(&mut self, id: u64) -> Result<(), Failure> {
        let wanted = table::row(id);
        let found = if self.indexed {
            self.reader().get_by(table::TABLE, "t_u0", &wanted[1..2])?
        } else {
            self.reader().get(table::TABLE, &[table::key(id)])?
        };
        match found {
            Some(row) if row.values == wanted => Ok(()),
            _ => Err(table::another(id)),
        }
    }

    fn read_many(&mut self, ids: &[u64]) -> Result<(), Failure> {
        let wanted: Vec<_> = ids.iter().copied().map(table::row).collect();
        let (index, keys) = self.keys(&wanted);
        let found = self.reader().fetch_many(table::TABLE, index, &keys)?;
        for ((rows, wanted), id) in found.iter().zip(&wanted).zip(ids) {
            if rows.len() != 1 || rows[0].values != *wanted {
                return Err(table::another(*id));
            }
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        drop(self.reader);
        self.db.checkpoint()?;
        Ok(self.db.close()?)
    }
}
