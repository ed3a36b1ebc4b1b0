//! redb.
//!
//! `Durability::None` where commits are relaxed: those last only from the next durable commit on.
//! Sorted keys go in through a cursor where they follow each other (ids), which its changes call
//! about three times as fast; uuids that fall between others are inserted one by one. The cache is
//! the whole allowance. After a kill it repairs itself, which reads all of it: `quick_repair` would
//! spare that and make each durable commit slower; it is off by default.
//!
//! Does not do: tables written by several threads, which redb allows since 4.2.

use std::ops::Range;
use std::path::Path;

use redb::{Database, Durability, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition};

use crate::Failure;
use crate::load::engine::{Engine, Role, Setup, Written};
use crate::load::peers::{Batch, Body, Uuid, check, index_name, written};
use crate::load::table;

const ROWS: TableDefinition<'_, u64, Body> = TableDefinition::new("rows");

/// The rows, and the first index if there is one, as a reader has them.
type Tables = (ReadOnlyTable<u64, Body>, Option<ReadOnlyTable<Uuid, u64>>);

pub(super) struct Redb {
    db: Database,
    setup: Setup,
    reader: Option<Tables>,
    batch: Batch,
}

fn index(name: &str) -> TableDefinition<'_, Uuid, u64> {
    TableDefinition::new(name)
}

impl Redb {
    pub(super) fn open(setup: Setup, dir: &Path, role: Role) -> Result<Redb, Failure> {
        let mut builder = redb::Builder::new();
        builder.set_cache_size(usize::try_from(setup.memory)?);
        let db = builder.create(dir.join("redb"))?;
        let mut reader = None;
        if role == Role::Read {
            let txn = db.begin_read()?;
            let by_uuid = match setup.indexes {
                0 => None,
                _ => Some(txn.open_table(index(&index_name(0)))?),
            };
            reader = Some((txn.open_table(ROWS)?, by_uuid));
        }
        Ok(Redb { db, setup, reader, batch: Batch::default() })
    }

    fn commit(&self, batch: &Batch, durability: Durability) -> Result<(), Failure> {
        let mut txn = self.db.begin_write()?;
        txn.set_durability(durability)?;
        if let Some(first) = batch.ids.first() {
            let mut rows = txn.open_table(ROWS)?;
            let mut end = rows.lower_bound_mut(std::ops::Bound::Included(*first))?;
            for (id, body) in batch.rows() {
                end.insert_before(id, body)?;
            }
        }
        for column in 0..self.setup.indexes {
            let mut table = txn.open_table(index(&index_name(column)))?;
            for (uuid, id) in batch.keys(column) {
                table.insert(uuid, id)?;
            }
        }
        Ok(txn.commit()?)
    }

    fn tables(&self) -> (&ReadOnlyTable<u64, Body>, Option<&ReadOnlyTable<Uuid, u64>>) {
        let (rows, by_uuid) = self.reader.as_ref().expect("this process reads");
        (rows, by_uuid.as_ref())
    }
}

fn find(table: &ReadOnlyTable<Uuid, u64>, uuid: Uuid) -> Result<u64, Failure> {
    let found = table.get(uuid)?.ok_or("an index without its row")?;
    Ok(found.value())
}

fn compare(table: &ReadOnlyTable<u64, Body>, id: u64) -> Result<(), Failure> {
    let found = table.get(id)?.map(|body| body.value());
    check(id, found.as_ref().map(<[u8; 80]>::as_slice))
}

impl Engine for Redb {
    fn prepare(&mut self, ids: Range<u64>) {
        self.batch = Batch::of(ids);
    }

    fn insert(&mut self) -> Result<(), Failure> {
        let how = if self.setup.durable { Durability::Immediate } else { Durability::None };
        self.commit(&self.batch, how)
    }

    fn settle(&mut self) -> Result<(), Failure> {
        self.commit(&Batch::default(), Durability::Immediate)
    }

    fn written(&self) -> Result<Written, Failure> {
        written()
    }

    fn rows(&mut self) -> Result<u64, Failure> {
        let txn = self.db.begin_read()?;
        let table = txn.open_table(ROWS)?;
        let last = table.last()?;
        Ok(last.map_or(0, |(id, _)| id.value() + 1))
    }

    fn pages(&self) -> Result<Option<u64>, Failure> {
        Ok(None)
    }

    fn read(&mut self, id: u64) -> Result<(), Failure> {
        let (rows, by_uuid) = self.tables();
        let found = match by_uuid {
            Some(table) => find(table, table::uuids(id)[0])?,
            None => id,
        };
        if found == id { compare(rows, id) } else { Err(table::another(id)) }
    }

    fn read_many(&mut self, ids: &[u64]) -> Result<(), Failure> {
        let (rows, by_uuid) = self.tables();
        let mut found = ids.to_vec();
        if let Some(table) = by_uuid {
            let mut keys: Vec<_> = ids.iter().map(|id| table::uuids(*id)[0]).collect();
            keys.sort_unstable();
            found.clear();
            for key in keys {
                found.push(find(table, key)?);
            }
        }
        found.sort_unstable();
        found.iter().try_for_each(|id| compare(rows, *id))
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(())
    }
}
