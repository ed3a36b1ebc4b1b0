//! Several reads and writes of one table as one statement, for layers that choose rows by more than
//! a row id: what SQL's INSERT, UPDATE and DELETE are made of.
//!
//! Invariants:
//! - Everything a [`Writer`] does has one xid and one snapshot, which does not see the statement's
//!   own writes.
//! - All of it is undone, and the transaction goes on, if the work fails or panics, or if any write
//!   in it failed, whatever the work made of that error.
//! - Index entries of rows that it updates go in together, so that their leaves are read together:
//!   at the end, before it inserts, and when they have used their share of memory.
//!
//! Does not do: statements over several tables.

use rightlink_env::sync::Arc;

use crate::catalog::Entry;
use crate::datum::Value;
use crate::db::Handle;
use crate::db::fill::Filler;
use crate::db::reader::Reader;
use crate::db::rows::{Alive, Rows};
use crate::db::scan::{self, ScanOptions};
use crate::db::transaction::Transaction;
use crate::error::{Error, Result};
use crate::ids::RowId;
use crate::table::{Busy, ChangeAt, Pending, Statement, Twice, WantedAt, Written};
use crate::txn::{LockMode, RowLock};

/// A statement that reads and writes one table. See [`Transaction::write`].
///
/// ```
/// use rightlink::{ScanOptions, TableSchema, Type, Value, Written};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// let row = |a, b| vec![Value::Int8(a), Value::Int8(b)];
/// txn.insert_many("n", &[row(1, 5), row(2, 6)])?;
/// let moved = txn.write("n", |writer| {
///     let mut moved = 0;
///     for row in writer.scan(&ScanOptions::all())? {
///         let written = writer.update(row?.id, &mut |_, old| match old {
///             [Value::Int8(a), b] => Ok(Some(vec![Value::Int8(a + 1), b.clone()])),
///             _ => Ok(None),
///         })?;
///         moved += u32::from(matches!(written, Written::Done(_)));
///     }
///     Ok::<_, rightlink::Error>(moved)
/// })?;
/// assert_eq!(moved, 2);
/// # Ok(())
/// # }
/// ```
pub struct Writer<'t> {
    pub(super) statement: Statement<'t>,
    pub(super) entry: Arc<Entry>,
    /// Rows that were updated and whose entries are still to go in.
    pending: Pending,
    alive: Alive,
    handle: Arc<Handle>,
    now: i64,
    /// May it use the log that is left for giving space back?
    frees: bool,
    /// Has the statement reached its end?
    ended: bool,
}

impl Transaction {
    /// Runs `work` as one statement that writes to `table`. If it fails, nothing of it stays and
    /// the transaction goes on. The error may be the caller's own.
    ///
    /// A write that fails undoes the whole statement: from then on the [`Writer`] takes no more
    /// writes, and `write` fails with the error of that write even if `work` does not. To go on
    /// without a row, do it by [`Writer::upsert`], or by statements of their own. After a
    /// panic of `work` that the caller catches, nothing of the statement stays either.
    ///
    /// ```
    /// # use rightlink::{Database, Error, TableSchema, Type, Value};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Database::open(dir.path()).unwrap();
    /// let mut txn = db.begin();
    /// let schema = TableSchema::new("n").column("a", Type::Int8).primary_key(["a"]);
    /// txn.create_table(&schema).unwrap();
    /// let (one, two) = (vec![Value::Int8(1)], vec![Value::Int8(2)]);
    /// txn.insert("n", &one).unwrap();
    /// let written = txn.write::<_, Error>("n", |writer| {
    ///     writer.insert_many(std::slice::from_ref(&two))?;
    ///     let _ = writer.insert_many(std::slice::from_ref(&one));
    ///     Ok(())
    /// });
    /// assert!(matches!(written, Err(Error::UniqueViolation { .. })));
    /// assert!(txn.get("n", &two).unwrap().is_none());
    /// ```
    pub fn write<T, E: From<Error>>(
        &mut self,
        table: &str,
        work: impl FnOnce(&mut Writer<'_>) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        self.write_reading(table, &[], |writer, reader| {
            // It would keep the statement's snapshot.
            drop(reader);
            work(writer)
        })
    }

    /// As [`Transaction::write`], of a statement that reads the tables `reads`, too, by the same
    /// snapshot.
    ///
    /// # Errors
    /// As there, and those of [`Transaction::reader`].
    pub fn write_reading<T, E: From<Error>>(
        &mut self,
        table: &str,
        reads: &[&str],
        work: impl FnOnce(&mut Writer<'_>, Reader) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        loop {
            // What it scans are the indexes that those kept up whom its snapshot sees.
            let edition = self.edition();
            let entry = self.entry(table, LockMode::Write)?;
            let tables = self.entries(reads)?;
            let (alive, handle, now) = (self.alive(), Arc::clone(&self.handle), self.now());
            let (frees, statement) = (self.frees, self.statement()?);
            let pending = Pending::default();
            let ended = false;
            let mut writer = Writer { statement, entry, pending, alive, handle, now, frees, ended };
            if writer.handle.engine.catalog.edition() != edition {
                continue;
            }
            let snapshot = Arc::clone(writer.statement.snapshot());
            let reader = Reader { alive: writer.alive.clone(), snapshot, tables };
            return work(&mut writer, reader).and_then(|done| {
                writer.end()?;
                Ok(done)
            });
        }
    }
}

impl Drop for Writer<'_> {
    /// Undoes what did not reach its end.
    fn drop(&mut self) {
        if !self.ended {
            self.statement.fail_unended();
        }
    }
}

impl Writer<'_> {
    fn end(&mut self) -> Result<()> {
        self.statement.check()?;
        self.finish_updates()?;
        self.ended = true;
        Ok(())
    }

    /// Runs one write, if there is log space for it (`frees`: also on a full disk). If it fails,
    /// the statement fails.
    pub(super) fn writing<T>(
        &mut self,
        frees: bool,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let written = self.admit(frees).and_then(|()| work(self));
        if let Err(error) = &written {
            self.statement.fail(error);
        }
        written
    }

    /// Is there log space for one more piece of the statement, which has no bound? A full disk ends
    /// the statement.
    fn admit(&self, frees: bool) -> Result<()> {
        self.handle.engine.admit_more(self.frees || frees)
    }

    /// Entries of updated rows that are still to go in do so.
    pub(super) fn finish_updates(&mut self) -> Result<()> {
        let table = &self.entry.table;
        table.naming(table.finish_updates(&mut self.statement, &mut self.pending))
    }

    /// Rows of the table, as the statement's snapshot sees them.
    ///
    /// # Errors
    /// `Invalid` with [`ScanOptions::latest`], beside those of the scan.
    pub fn scan(&mut self, options: &ScanOptions) -> Result<Rows> {
        if options.latest {
            return Err(Error::Invalid("a statement that writes reads its own snapshot".into()));
        }
        let snapshot = self.statement.snapshot();
        let rows = scan::start_for(&self.alive, &self.entry, snapshot, options, true);
        self.entry.table.naming(rows)
    }

    /// The place of the row whose key in the unique index `index` is `key`: a value for each key
    /// column, none of them null. The shortest way to a row that is written next.
    ///
    /// # Errors
    /// `NotFound` if the table has no such index, `Invalid` if it is not unique, or for another
    /// number of values. Under snapshot isolation a retryable conflict if the statement sees two
    /// such rows: one that another transaction deleted since, and one that took its key, which this
    /// transaction wrote. A scan gives both, and writing the first is the same conflict.
    pub fn find(&mut self, index: &str, key: &[Value]) -> Result<Option<RowId>> {
        self.find_one(index, key, Twice::Conflict)
    }

    /// As [`Writer::find`]; of two rows that one which is still there, this transaction's own. For
    /// a row that something else is to refer to.
    ///
    /// # Errors
    /// As there, without the conflict.
    pub fn find_to_refer(&mut self, index: &str, key: &[Value]) -> Result<Option<RowId>> {
        self.find_one(index, key, Twice::Own)
    }

    fn find_one(&mut self, index: &str, key: &[Value], twice: Twice) -> Result<Option<RowId>> {
        let table = &self.entry.table;
        let index = table.index(index)?;
        let whole = key.len() == index.def().columns.len() && !key.contains(&Value::Null);
        if !whole || !index.def().unique {
            return Err(Error::Invalid("one row is found by a whole key of a unique index".into()));
        }
        table.naming(table.find(&mut self.statement, index, key, twice))
    }

    /// Inserts rows, each given by its values in column order, and returns their ids.
    ///
    /// # Errors
    /// The errors of [`Transaction::insert`].
    pub fn insert_many(&mut self, rows: &[Vec<Value>]) -> Result<Vec<RowId>> {
        self.writing(false, |writer| {
            writer.finish_updates()?;
            let table = &writer.entry.table;
            table.naming(table.insert_many(&mut writer.statement, rows))
        })
    }

    /// Whole rows from values of some columns, the others having their defaults: for
    /// [`Writer::insert_many`]. A number that a generated column got is not given to another row.
    ///
    /// # Errors
    /// `Invalid` for values of a column that is always generated.
    pub fn fill(&mut self, columns: &[&str], rows: &[Vec<Value>]) -> Result<Vec<Vec<Value>>> {
        let (engine, def) = (&self.handle.engine, self.entry.table.def());
        Filler { engine, def, now: self.now }.fill(self.statement.txn(), columns, rows)
    }

    /// The statement reads nothing any more: a scan of it has ended, and one more row is written.
    /// If it has to wait for that row, no version of it is kept meanwhile only because the
    /// statement could see it, which is what lets many wait for one row.
    pub fn read_no_more(&mut self) {
        self.statement.read_no_more();
    }

    /// Replaces the row at `id` by what `change` makes of it, `None` to leave it. `change` gets the
    /// place of the version too, which is `id` unless the row has changed. Under read committed it
    /// is called again with the newest version if another transaction changed the row first.
    ///
    /// Entries of many rows go into the indexes together. So a later call, or the end of the work,
    /// may be what fails because a key is taken.
    ///
    /// # Errors
    /// The errors of [`Transaction::update`] and of `change`.
    pub fn update(&mut self, id: RowId, change: ChangeAt<'_>) -> Result<Written> {
        self.writing(false, |writer| {
            let (table, pending) = (&writer.entry.table, &mut writer.pending);
            table.naming(table.update_at(&mut writer.statement, id, change, pending))
        })
    }

    /// Deletes the row at `id` if it is `wanted`, asked again as in [`Writer::update`].
    ///
    /// # Errors
    /// The errors of [`Transaction::delete`] and of `wanted`.
    pub fn delete(&mut self, id: RowId, wanted: WantedAt<'_>) -> Result<Written> {
        self.writing(true, |writer| {
            let table = &writer.entry.table;
            table.naming(table.delete_at(&mut writer.statement, id, wanted))
        })
    }

    /// Locks the row at `id` as `lock` says until the end of the transaction, if it is `wanted`;
    /// the last call of the closure saw the locked version. `busy` decides about a row that another
    /// transaction has.
    ///
    /// # Errors
    /// The errors of [`Transaction::lock_row`] and of `wanted`.
    pub fn lock_row(
        &mut self,
        id: RowId,
        wanted: WantedAt<'_>,
        lock: RowLock,
        busy: Busy,
    ) -> Result<Written> {
        self.writing(false, |writer| {
            let table = &writer.entry.table;
            table.naming(table.lock_row(&mut writer.statement, id, Some(wanted), lock, busy))
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Database, ScanOptions, TableSchema, Type, Value, Written};

    fn numbers(count: i64) -> (tempfile::TempDir, Database) {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path()).unwrap();
        let mut txn = db.begin();
        let schema = TableSchema::new("n").column("a", Type::Int8).primary_key(["a"]);
        txn.create_table(&schema).unwrap();
        let rows: Vec<_> = (0..count).map(|n| vec![Value::Int8(n)]).collect();
        txn.insert_many("n", &rows).unwrap();
        txn.commit().unwrap();
        (dir, db)
    }

    fn all(db: &Database) -> Vec<i64> {
        let mut txn = db.begin();
        let rows = txn.scan("n", &ScanOptions::index("n_pkey")).unwrap();
        let number = |row: crate::Result<crate::Row>| match row.unwrap().values[0] {
            Value::Int8(n) => n,
            _ => unreachable!("the column is an int8"),
        };
        rows.map(number).collect()
    }

    /// Adds 100 to every number through the index that this changes.
    fn move_all(db: &Database, fail_at: Option<i64>) -> crate::Result<usize> {
        let mut txn = db.begin();
        let moved = txn.write("n", |writer| {
            let rows = writer.scan(&ScanOptions::index("n_pkey"))?;
            let mut moved = 0;
            for row in rows {
                let written = writer.update(row?.id, &mut |_, old| match old {
                    [Value::Int8(n)] if Some(*n) == fail_at => {
                        Err(crate::Error::Invalid("as asked".into()))
                    }
                    [Value::Int8(n)] => Ok(Some(vec![Value::Int8(n + 100)])),
                    _ => unreachable!("one int8"),
                })?;
                moved += usize::from(matches!(written, Written::Done(_)));
            }
            Ok(moved)
        });
        txn.commit()?;
        moved
    }

    #[test]
    fn a_statement_does_not_meet_its_own_rows() {
        let (_dir, db) = numbers(50);
        assert_eq!(move_all(&db, None).unwrap(), 50);
        assert_eq!(all(&db), (100..150).collect::<Vec<_>>());
        assert!(db.verify().unwrap().is_clean());
    }

    /// Keys that the statement gives up may be taken, in whatever order its rows come: all entries
    /// go in when all rows are written. One that somebody else has undoes all of it.
    #[test]
    fn keys_are_asked_about_when_all_rows_are_written() {
        let (_dir, db) = numbers(50);
        let mut txn = db.begin();
        let by = |writer: &mut crate::Writer<'_>, most: i64, step: i64| {
            let wanted = ScanOptions::index("n_pkey").to(vec![Value::Int8(most)]);
            for row in writer.scan(&wanted)? {
                let moved = |_, old: &[Value]| match old {
                    [Value::Int8(n)] => Ok(Some(vec![Value::Int8(n + step)])),
                    _ => unreachable!("one int8"),
                };
                let written = writer.update(row?.id, &mut { moved })?;
                assert!(matches!(written, Written::Done(_)));
            }
            Ok::<_, crate::Error>(())
        };
        txn.write("n", |writer| by(writer, 49, 1)).unwrap();
        let taken = txn.write("n", |writer| by(writer, 20, 5)).unwrap_err();
        assert!(matches!(taken, crate::Error::UniqueViolation { .. }), "{taken}");
        // What is inserted by the same statement meets the rows that it updated before.
        let mut both = |key: i64| {
            txn.write("n", |writer| {
                by(writer, 1, 99)?;
                writer.insert_many(&[vec![Value::Int8(key)]])
            })
        };
        let taken = both(100).unwrap_err();
        assert!(matches!(taken, crate::Error::UniqueViolation { .. }), "{taken}");
        assert_eq!(both(1).unwrap().len(), 1);
        txn.commit().unwrap();
        assert_eq!(all(&db), (1..=50).chain([100]).collect::<Vec<_>>());
        assert!(db.verify().unwrap().is_clean());
    }

    #[test]
    fn a_place_is_that_of_one_version() {
        let (_dir, db) = numbers(2);
        let mut txn = db.begin();
        let at = |txn: &mut crate::Transaction, id| -> Vec<crate::Row> {
            txn.scan("n", &ScanOptions::at(id)).unwrap().map(Result::unwrap).collect()
        };
        let old = txn.get("n", &[Value::Int8(1)]).unwrap().unwrap();
        assert_eq!(at(&mut txn, old.id).pop().unwrap(), old);
        let mut seen = Vec::new();
        let written = txn.write("n", |writer| {
            writer.update(old.id, &mut |place, values| {
                seen.push(place);
                Ok(Some(values.to_vec()))
            })
        });
        let Written::Done(new) = written.unwrap() else { panic!("nobody else has the row") };
        assert_eq!((seen, at(&mut txn, old.id)), (vec![old.id], Vec::new()));
        assert_eq!(at(&mut txn, new)[0].values, old.values);
        assert!(
            txn.scan("n", &ScanOptions { at: Some(new), ..ScanOptions::index("n_pkey") }).is_err()
        );
        assert!(at(&mut txn, crate::RowId::new(new.block.0, 0)).is_empty());
        assert!(at(&mut txn, crate::RowId::new(1_000_000, 1)).is_empty());
        txn.commit().unwrap();
        assert!(db.verify().unwrap().is_clean());
    }

    #[test]
    fn a_row_is_written_by_its_key_whatever_is_read_of_it() {
        let (_dir, db) = numbers(50);
        let key = |n| ScanOptions::index("n_pkey").equal(vec![Value::Int8(n)]);
        let none: [&str; 0] = [];
        for options in [key(1), key(2).any_order(), key(3).columns(none), key(60).any_order()] {
            let mut txn = db.begin();
            let written = txn.write("n", |writer| -> crate::Result<Option<Written>> {
                let mut rows = writer.scan(&options)?;
                let Some(row) = rows.next().transpose()? else { return Ok(None) };
                assert!(rows.next().is_none(), "a key of one row");
                let later = writer.update(row.id, &mut |_, old| match old {
                    [Value::Int8(n)] => Ok(Some(vec![Value::Int8(n + 100)])),
                    _ => unreachable!("one int8"),
                });
                later.map(Some)
            });
            assert_eq!(written.unwrap().is_some(), options.from != key(60).from);
            txn.commit().unwrap();
        }
        let expected: Vec<i64> = [0].into_iter().chain(4..50).chain(101..104).collect();
        assert_eq!(all(&db), expected);
        assert!(db.verify().unwrap().is_clean());
    }

    /// A row that is found and not written next is read again when it is.
    #[test]
    fn a_row_is_found_by_its_key() {
        let (_dir, db) = numbers(50);
        let add = |old: &[Value], step: i64| match old {
            [Value::Int8(n)] => Ok(Some(vec![Value::Int8(n + step)])),
            _ => unreachable!("one int8"),
        };
        let mut txn = db.begin();
        let find = |writer: &mut crate::Writer<'_>, n| writer.find("n_pkey", &[Value::Int8(n)]);
        for round in 0..3 {
            txn.write("n", |writer| {
                assert_eq!(find(writer, 99)?, None);
                let (first, second) = (find(writer, round)?.unwrap(), find(writer, 10)?.unwrap());
                let written = writer.update(first, &mut |_, old| add(old, 100))?;
                assert!(matches!(written, Written::Done(_)));
                let written = writer.update(second, &mut |_, old| add(old, 0))?;
                assert!(matches!(written, Written::Done(_)));
                let found = find(writer, 20 + round)?.unwrap();
                let deleted =
                    writer.delete(found, &mut |_, old| Ok(old == [Value::Int8(20 + round)]));
                assert!(matches!(deleted?, Written::Done(_)));
                // What this statement wrote it does not see.
                assert!(
                    find(writer, 20 + round)?.is_some() && find(writer, 100 + round)?.is_none()
                );
                Ok::<_, crate::Error>(())
            })
            .unwrap();
        }
        let wrong = txn.write("n", |writer| writer.find("n_pkey", &[]));
        assert!(matches!(wrong, Err(crate::Error::Invalid(_))), "{wrong:?}");
        txn.commit().unwrap();
        let expected: Vec<i64> = (3..20).chain(23..50).chain(100..103).collect();
        assert_eq!(all(&db), expected);
        assert!(db.verify().unwrap().is_clean());
    }

    #[test]
    fn a_statement_that_fails_leaves_nothing_behind() {
        let (_dir, db) = numbers(50);
        assert!(move_all(&db, Some(30)).is_err());
        assert_eq!(all(&db), (0..50).collect::<Vec<_>>());
        assert!(db.verify().unwrap().is_clean());
    }
}
