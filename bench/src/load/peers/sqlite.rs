//! SQLite, by `rusqlite`, bundled, with its own indexes.
//!
//! Write-ahead log with `synchronous` off or full, pages of 8 KiB, the whole allowance as cache, an
//! exclusive lock, prepared statements, and checkpoints of the log further apart where memory is
//! ample: what its documentation and its users recommend for bulk work.
//!
//! Does not do: memory maps, which its documentation calls no gain once pages are in the cache.

use std::ops::Range;
use std::path::Path;

use rusqlite::{Connection, params};

use crate::Failure;
use crate::load::engine::{Engine, Role, Setup, Written};
use crate::load::peers::{Body, Uuid, check, written};
use crate::load::table::{self, UUIDS};

pub(super) struct Sqlite {
    connection: Connection,
    indexed: bool,
    rows: Vec<(u64, [Uuid; UUIDS])>,
}

const INSERT: &str = "INSERT INTO t VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const BY_ID: &str = "SELECT id, u0, u1, u2, u3, u4 FROM t WHERE id = ?1";
const BY_UUID: &str = "SELECT id, u0, u1, u2, u3, u4 FROM t WHERE u0 = ?1";

impl Sqlite {
    pub(super) fn open(setup: Setup, dir: &Path, role: Role) -> Result<Sqlite, Failure> {
        let connection = Connection::open(dir.join("sqlite"))?;
        let synchronous = if setup.durable { "FULL" } else { "OFF" };
        let (kilobytes, apart) = (setup.memory / 1024, if setup.roomy { 16_000 } else { 1_000 });
        connection.execute_batch(&format!(
            "PRAGMA page_size = 8192; PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL;
             PRAGMA synchronous = {synchronous}; PRAGMA cache_size = -{kilobytes};
             PRAGMA temp_store = MEMORY; PRAGMA wal_autocheckpoint = {apart};"
        ))?;
        if role == Role::Fill {
            let mut schema = String::from(
                "CREATE TABLE t (id INTEGER PRIMARY KEY, u0 BLOB, u1 BLOB, u2 BLOB, u3 BLOB,
                 u4 BLOB);",
            );
            for column in 0..setup.indexes {
                schema.push_str(&format!("CREATE INDEX t_u{column} ON t (u{column});"));
            }
            connection.execute_batch(&schema)?;
        }
        if role == Role::Read {
            connection.execute_batch("BEGIN")?;
        }
        Ok(Sqlite { connection, indexed: setup.indexes > 0, rows: Vec::new() })
    }

    fn compare(&self, id: u64) -> Result<(), Failure> {
        let body = |row: &rusqlite::Row<'_>| {
            let mut body: Body = [0; 80];
            for (column, place) in body.chunks_mut(16).enumerate() {
                place.copy_from_slice(row.get_ref(column + 1)?.as_blob()?);
            }
            Ok(body)
        };
        let found: Body = if self.indexed {
            let mut statement = self.connection.prepare_cached(BY_UUID)?;
            statement.query_row(params![table::uuids(id)[0]], body)?
        } else {
            let mut statement = self.connection.prepare_cached(BY_ID)?;
            statement.query_row(params![i64::try_from(id)?], body)?
        };
        check(id, Some(&found))
    }
}

impl Engine for Sqlite {
    fn prepare(&mut self, ids: Range<u64>) {
        self.rows = ids.map(|id| (id, table::uuids(id))).collect();
    }

    fn insert(&mut self) -> Result<(), Failure> {
        let txn = self.connection.unchecked_transaction()?;
        let mut statement = txn.prepare_cached(INSERT)?;
        for (id, uuids) in &self.rows {
            let [a, b, c, d, e] = uuids;
            statement.execute(params![i64::try_from(*id)?, a, b, c, d, e])?;
        }
        drop(statement);
        Ok(txn.commit()?)
    }

    fn settle(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn written(&self) -> Result<Written, Failure> {
        written()
    }

    fn rows(&mut self) -> Result<u64, Failure> {
        let last: Option<i64> =
            self.connection.query_row("SELECT max(id) FROM t", [], |row| row.get(0))?;
        Ok(last.map_or(Ok(0), u64::try_from)? + u64::from(last.is_some()))
    }

    fn pages(&self) -> Result<Option<u64>, Failure> {
        Ok(None)
    }

    fn read(&mut self, id: u64) -> Result<(), Failure> {
        self.compare(id)
    }

    fn read_many(&mut self, ids: &[u64]) -> Result<(), Failure> {
        let mut keys: Vec<_> = ids.iter().map(|id| (table::uuids(*id)[0], *id)).collect();
        keys.sort_unstable();
        keys.iter().try_for_each(|(_, id)| self.compare(*id))
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        self.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?;
        self.connection.close().map_err(|(_, error)| error.into())
    }
}
