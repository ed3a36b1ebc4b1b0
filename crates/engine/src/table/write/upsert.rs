//! Insertion of a row, or a change of the row that has its key (`INSERT ON CONFLICT`).
//!
//! 1. The key is looked up among the rows that are committed now. A row that is found is changed
//!    like any other.
//! 2. Otherwise the row goes into the heap, and then into the indexes that arbitrate, under the
//!    lock on the unique value (R8).
//! 3. A statement that loses there deletes its row again, waits for the winner, and begins anew.
//!
//! Invariants: of two statements that propose a new key, one inserts and the other changes that
//! row. The row that lost has entries in arbitrating indexes at most, and no snapshot sees it once
//! its statement has ended. A statement changes no row that it wrote itself, and does not call
//! `merge` for it.
//! Does not do: read pages ahead for many rows.
//! PostgreSQL: speculative insertion, `ExecOnConflictUpdate`.

use rightlink_env::sync::Arc;
use rightlink_env::{points, thread};

use crate::datum::Value;
use crate::error::{Error, Result};
use crate::heap::WriteOutcome;
use crate::ids::{RowId, Xid};
use crate::txn::{Isolation, LockMode, Snapshot};
use crate::wal::Admission;

use crate::table::definition::keys::Keys;
use crate::table::definition::row::Projection;
use crate::table::write::Written;
use crate::table::write::statement::Statement;
use crate::table::write::update::OldRow;
use crate::table::{Table, TableIndex};

/// Makes the new row from the present row and the proposed one: see
/// [`Insert::or_update`](crate::Insert::or_update). `None` leaves the present row alone. It is
/// called again if another transaction changed the row first.
///
/// ```
/// use rightlink::{OnConflict, Upserted, Value};
/// # use rightlink::{TableSchema, Type};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// # let id = txn.insert("n", &[Value::Int8(1), Value::Int8(10)])?;
/// let mut larger = |old: &[Value], new: &[Value]| Ok((new[1] > old[1]).then(|| new.to_vec()));
/// let row = [vec![Value::Int8(1), Value::Int8(12)]];
/// let done = txn.insert_into("n").or_update(OnConflict::Any, &row, &mut larger)?;
/// assert!(matches!(done[..], [Upserted::Updated(_)]));
/// # Ok(())
/// # }
/// ```
pub type Merge<'a> = &'a mut dyn FnMut(&[Value], &[Value]) -> Result<Option<Vec<Value>>>;

/// What became of a row that was proposed.
///
/// ```
/// use rightlink::{OnConflict, TableSchema, Type, Upserted, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// let row = [vec![Value::Int8(1), Value::Int8(10)]];
/// let first = txn.insert_into("n").or_skip(OnConflict::Any, &row)?[0];
/// assert!(matches!(first, Upserted::Inserted(_)));
/// let second = txn.insert_into("n").or_skip(OnConflict::Any, &row)?[0];
/// assert!(matches!(second, Upserted::Untouched(_)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Upserted {
    /// No row had its key.
    Inserted(RowId),
    /// The row with its key was changed; this version stands for it now.
    Updated(RowId),
    /// The row with its key, here, was left alone.
    Untouched(RowId),
}

/// A row that is proposed, ready to go in.
struct Proposed<'r> {
    values: &'r [Value],
    bytes: Vec<u8>,
    keys: Vec<Keys>,
}

/// A row in the way of another.
struct Rival<'i> {
    index: &'i TableIndex,
    /// Place of that index in the table.
    at: usize,
    /// Sees the row, and keeps its version where it is (R9).
    _snapshot: Arc<Snapshot>,
    row: RowId,
    bytes: Vec<u8>,
}

impl Table {
    /// Inserts each of `rows`, or changes the row by `merge` that has its key in one of the unique
    /// indexes at the places `arbiters`; without `merge` that row is left alone. What became of
    /// each, in order.
    pub fn upsert_many(
        self: &Arc<Self>,
        statement: &mut Statement<'_>,
        rows: &[Vec<Value>],
        arbiters: &[usize],
        mut merge: Option<Merge<'_>>,
    ) -> Result<Vec<Upserted>> {
        assert!(arbiters.iter().all(|at| self.indexes[*at].def.unique), "unique indexes arbitrate");
        statement.write(|statement| {
            rows.iter().try_for_each(|row| self.def.check_row(row))?;
            statement.txn().lock_table(self.def.id, LockMode::Write)?;
            let xid = statement.txn().xid()?;
            let mut done = Vec::with_capacity(rows.len());
            for values in rows {
                self.heap.pool().wal().admit(Admission::Step)?;
                let keys = self.make_keys(std::slice::from_ref(values))?;
                let bytes = self.encode_row(xid, values, &[])?;
                let proposed = Proposed { values, bytes, keys };
                done.push(self.upsert_one(statement, xid, &proposed, arbiters, &mut merge)?);
            }
            self.clean_some()?;
            Ok(done)
        })
    }

    fn upsert_one(
        self: &Arc<Self>,
        statement: &mut Statement<'_>,
        xid: Xid,
        proposed: &Proposed<'_>,
        arbiters: &[usize],
        merge: &mut Option<Merge<'_>>,
    ) -> Result<Upserted> {
        loop {
            if let Some(rival) = self.rival(statement, proposed, arbiters)? {
                if let Some(done) = self.change_rival(statement, &rival, proposed, merge)? {
                    return Ok(done);
                }
                self.still_arbitrates(statement, rival.index)?;
                continue;
            }
            points::hit("table.upsert.nobody-has-the-key");
            let id = self.heap.insert(xid, &proposed.bytes)?;
            if self.insert_unless_taken(statement, xid, &proposed.keys, id, arbiters)? {
                return Ok(Upserted::Inserted(id));
            }
            points::hit("table.upsert.lost");
            let taken_back = self.heap.delete(statement.txn(), id)?;
            assert!(matches!(taken_back, WriteOutcome::Done { .. }), "others do not see the row");
            // The winner is committed, and a moment later seen.
            thread::yield_now();
        }
    }

    /// The row that has a key of `proposed` and is committed now, or was written by this
    /// transaction.
    fn rival(
        self: &Arc<Self>,
        statement: &mut Statement<'_>,
        proposed: &Proposed<'_>,
        arbiters: &[usize],
    ) -> Result<Option<Rival<'_>>> {
        let snapshot = statement.txn().latest_snapshot();
        for at in arbiters.iter().copied() {
            let index = &self.indexes[at];
            let entry = proposed.keys[at].entry(0, RowId::default());
            if entry.is_none_or(|entry| entry.exempt) {
                continue;
            }
            let place =
                |part: &crate::table::definition::schema::IndexColumn| self.def.place(part.column);
            let key = index.def.columns.iter().map(|part| proposed.values[place(part)].clone());
            let nothing = Arc::new(Projection::new(&self.def, &[])?);
            let key: Vec<_> = key.collect();
            let Some(found) = self.get(&snapshot, index, &key, &nothing)? else { continue };
            let version = self.heap.fetch_version(&snapshot, found.row_id)?;
            if let Some((row, bytes)) = version {
                return Ok(Some(Rival { index, at, _snapshot: snapshot, row, bytes }));
            }
        }
        Ok(None)
    }

    /// Changes the row in the way. `None`: it is not in the way any more.
    fn change_rival(
        &self,
        statement: &mut Statement<'_>,
        rival: &Rival<'_>,
        proposed: &Proposed<'_>,
        merge: &mut Option<Merge<'_>>,
    ) -> Result<Option<Upserted>> {
        // All that a statement writes has its xid, which tells its rows at no cost in memory.
        let own = self.heap.creator(rival.row)? == Some(statement.txn().xid()?);
        if !own && statement.txn().isolation() == Isolation::Snapshot {
            let seen = self.heap.fetch_version(statement.snapshot(), rival.row)?;
            if seen.is_none_or(|(row, _)| row != rival.row) {
                let error = Error::conflict(&self.def.name, rival.row);
                return Err(statement.txn().manager().count_conflict(error));
            }
        }
        let mut elsewhere = false;
        let prepare = |statement: &mut Statement<'_>, at, bytes: &[u8]| {
            let old = self.read_row(at, bytes)?;
            let keys = rival.index.keys.make(std::slice::from_ref(&old))?;
            let wants = proposed.keys[rival.at].entry(0, at).map(|entry| entry.key);
            elsewhere = keys.entry(0, at).is_none_or(|has| Some(has.key) != wants || has.exempt);
            if elsewhere {
                return Ok(None);
            }
            let Some(merge) = merge else { return Ok(None) };
            if own {
                return Err(Error::KeyTwice(self.def.name.clone()));
            }
            let Some(new) = merge(&old, proposed.values)? else { return Ok(None) };
            let old = OldRow { bytes, values: old, unread: Vec::new(), is_countable: true };
            self.prepare_update(statement, old, new, None).map(Some)
        };
        let (start, bytes) = (rival.row, rival.bytes.clone());
        let attempt =
            |statement: &mut Statement<'_>, old, update: &_| self.replace(statement, old, update);
        let written = self.write_from(statement, start, bytes, prepare, attempt)?;
        Ok(match written {
            Written::Done(id) => Some(Upserted::Updated(id)),
            Written::Skipped if !elsewhere => Some(Upserted::Untouched(rival.row)),
            Written::Skipped | Written::Gone => None,
        })
    }
}
