//! Update of a row: a new version in the heap, and index entries for it unless it is heap-only.
//!
//! Invariants: an update is heap-only only if the entry of every index has the same bytes before
//! and after it, or is missing both times (R10). Otherwise every index that holds the new row gets
//! an entry for the new version, the unchanged ones too, because the version has another row id.
//! Does not do: unique keys that change places within one statement; each row is checked by itself.
//! PostgreSQL: `heap_update` and `ExecUpdate`.

use rightlink_env::Broken;
use rightlink_env::points::broken;

use crate::datum::Value;
use crate::error::{Error, Result};
use crate::heap::overflow::OverflowPointer;
use crate::heap::{TargetVersion, WriteOutcome};
use crate::ids::{PageId, RowId};
use crate::index::IndexEntry;
use crate::txn::RowLock;

use crate::table::definition::keys::Keys;
use crate::table::definition::row::Malformed;
use crate::table::write::Written;
use crate::table::write::statement::Statement;
use crate::table::{Table, TableIndex};

/// Makes the new row from the old one; `None` leaves it alone. Called again with the newest
/// version if another transaction changed the row first.
pub type Change<'a> = &'a mut dyn FnMut(&[Value]) -> Result<Option<Vec<Value>>>;

/// Makes the new row from the place of the old version and its values; `None` leaves the row alone.
/// Called again with the newest version if another transaction changed the row first.
///
/// ```
/// use rightlink::Written;
/// # use rightlink::{TableSchema, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// # let id = txn.insert("n", &[Value::Int8(1), Value::Int8(10)])?;
/// let written = txn.write("n", |writer| {
///     let mut double = |_, old: &[Value]| match old {
///         [a, Value::Int8(b)] => Ok(Some(vec![a.clone(), Value::Int8(2 * b)])),
///         _ => Ok(None),
///     };
///     writer.update(id, &mut double)
/// })?;
/// assert!(matches!(written, Written::Done(_)));
/// # Ok(())
/// # }
/// ```
pub type ChangeAt<'a> = &'a mut dyn FnMut(RowId, &[Value]) -> Result<Option<Vec<Value>>>;

/// A new row, ready to be written.
pub(super) struct Update {
    pub(super) bytes: Vec<u8>,
    /// Per index the entries of the old and the new row.
    pub(super) keys: Vec<Keys>,
    /// Would the entry in an index that is only counted in change? (R10)
    pub(super) same_when_counted: bool,
}

/// A row that is to be replaced.
pub(super) struct OldRow<'r> {
    pub(super) bytes: &'r [u8],
    pub(super) values: Vec<Value>,
    /// Places of long values that were not read and stay what they are; nulls stand there.
    pub(super) unread: Vec<usize>,
    /// Was all read that an index depends on that is only counted in?
    pub(super) is_countable: bool,
}

/// Places of the two rows in [`Update::keys`].
const OLD: usize = 0;
pub(super) const NEW: usize = 1;

impl Table {
    /// Updates the row at `row`: one value per live column in, one per live column out.
    pub fn update(
        &self,
        statement: &mut Statement<'_>,
        row: RowId,
        change: Change<'_>,
    ) -> Result<Written> {
        self.update_with(statement, row, None, &mut |_, old| change(old), None)
    }

    /// As [`Table::update`], if `change` neither changes nor looks at other places than `only`:
    /// long values there are not read, and stand as nulls.
    pub fn update_only(
        &self,
        statement: &mut Statement<'_>,
        row: RowId,
        only: &[usize],
        change: Change<'_>,
    ) -> Result<Written> {
        self.update_with(statement, row, Some(only), &mut |_, old| change(old), None)
    }

    /// The same; the value at the place that `long` says is stored already.
    pub(super) fn update_with(
        &self,
        statement: &mut Statement<'_>,
        row: RowId,
        only: Option<&[usize]>,
        change: ChangeAt<'_>,
        long: Option<(usize, OverflowPointer)>,
    ) -> Result<Written> {
        statement.write(|statement| {
            let prepare = |statement: &mut Statement<'_>, at, bytes: &[u8]| {
                let old = self.read_old(at, bytes, only)?;
                let Some(new) = change(at, &old.values)? else { return Ok(None) };
                self.prepare_update(statement, old, new, long).map(Some)
            };
            let written = self.write_row(statement, row, prepare, |statement, old, update| {
                self.replace(statement, old, update)
            });
            self.clean_some()?;
            written
        })
    }

    /// Checks and encodes the new row. Long values that stay the same are not written again; that
    /// at the place of `long` is.
    pub(super) fn prepare_update(
        &self,
        statement: &mut Statement<'_>,
        old: OldRow<'_>,
        new: Vec<Value>,
        long: Option<(usize, OverflowPointer)>,
    ) -> Result<Update> {
        let mut stored = self.unchanged(&old, &new)?;
        let mut kept = old.unread.clone();
        if let Some((place, value)) = long {
            stored.retain(|(known, _)| *known != place);
            stored.push((place, value));
            kept.push(place);
        }
        self.def.check_row_but(&new, &kept)?;
        let rows = [old.values, new];
        let same_when_counted = old.is_countable && self.same_when_counted(&rows);
        let keys = self.make_keys(&rows)?;
        let bytes = self.encode_row(statement.txn().xid()?, &rows[NEW], &stored)?;
        Ok(Update { bytes, keys, same_when_counted })
    }

    pub(super) fn replace(
        &self,
        statement: &mut Statement<'_>,
        old: TargetVersion,
        update: &Update,
    ) -> Result<WriteOutcome> {
        let outcome = self.replace_in_heap(statement, old, update)?;
        if let WriteOutcome::Done { row_id, heap_only: false, .. } = outcome {
            let xid = statement.txn().xid()?;
            let new = self.indexes.iter().zip(&update.keys);
            let new = new.map(|(index, keys)| self.entry_of(index, keys, row_id));
            let new = new.map(|entry| entry.into_iter().collect()).collect();
            self.insert_entries(statement, xid, new)?;
        }
        Ok(outcome)
    }

    /// The entry of the new version, which the heap has at `row`.
    ///
    /// A key that stays belongs to the row while this transaction runs: a rival meets the old
    /// version, whose end is in progress (R8). That takes an entry of the old version, which an
    /// index that is being built may lack. It also takes that no other row of the statement came
    /// in between: of rows that go in together, one may take the key of another that has no entry
    /// yet.
    fn entry_of<'k>(
        &self,
        index: &TableIndex,
        keys: &'k Keys,
        row: RowId,
    ) -> Option<IndexEntry<'k>> {
        let entry = keys.entry(NEW, row)?;
        let stays = keys.same(OLD, NEW) || broken(Broken::ChangedKeyNotChecked);
        let kept = index.def.unique && stays && !self.is_being_indexed();
        Some(IndexEntry { kept, replaces: true, ..entry })
    }

    /// The new version alone; unless it is heap-only, it needs entries.
    pub(super) fn replace_in_heap(
        &self,
        statement: &mut Statement<'_>,
        old: TargetVersion,
        update: &Update,
    ) -> Result<WriteOutcome> {
        let unchanged = update.keys.iter().all(|keys| keys.same(OLD, NEW));
        let hot = unchanged && update.same_when_counted || broken(Broken::UpdateAlwaysHeapOnly);
        // A transaction that shares the row relies on its unique keys.
        let mut unique = self.indexes.iter().zip(&update.keys).filter(|(it, _)| it.def().unique);
        let keys_stay = unique.all(|(_, keys)| keys.same(OLD, NEW));
        let wants = if keys_stay { RowLock::Update } else { RowLock::Exclusive };
        let outcome =
            self.heap.update_with_lock(statement.txn(), old, &update.bytes, hot, wants)?;
        if let WriteOutcome::Done { row_id, heap_only, .. } = outcome {
            assert!(hot || !heap_only, "R10: the heap makes no heap-only version unasked");
            if !hot && row_id.block == old.at.block {
                let is_unchanged =
                    |keys: &&Keys| keys.entry(NEW, row_id).is_some() && keys.same(OLD, NEW);
                match update.keys.iter().filter(is_unchanged).count() {
                    0 => {}
                    unchanged => self.heap.counters().partial_update(unchanged),
                }
            }
        }
        Ok(outcome)
    }

    /// The error for a row that cannot be read.
    pub(in crate::table) fn damaged_row(&self, at: RowId, Malformed(what): Malformed) -> Error {
        let page = PageId { file: self.def.heap, block: at.block };
        Error::corrupt(page, format!("row {at} of table {}: {what}", self.def.name))
    }
}
