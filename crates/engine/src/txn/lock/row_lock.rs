//! Row locks: their strengths, and which of them two transactions may hold together.
//!
//! Invariants: a stronger lock conflicts with everything that a weaker one conflicts with.
//! Does not do: store locks (the row's xmax, and `multixact` for several holders).

use crate::ids::{ObjectId, RowId, Xid};

/// Strength of a row lock, weakest first, as those of PostgreSQL: see
/// [`Transaction::lock_row`](crate::Transaction::lock_row).
///
/// Compatible (+) and conflicting (-):
///
/// | | KeyShared | Shared | Update | Exclusive |
/// |---|---|---|---|---|
/// | KeyShared | + | + | + | - |
/// | Shared | + | + | - | - |
/// | Update | + | - | - | - |
/// | Exclusive | - | - | - | - |
///
/// ```
/// use rightlink::{Busy, RowLock};
/// # use rightlink::{TableSchema, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// # let id = txn.insert("n", &[Value::Int8(1), Value::Int8(10)])?;
/// # txn.commit()?;
/// let (mut child, mut parent) = (db.begin(), db.begin());
/// assert!(child.lock_row("n", id, RowLock::KeyShared, Busy::Wait)?);
/// assert!(parent.update("n", id, &[("b", Value::Int8(11))])?, "b is no key");
/// assert!(!parent.lock_row("n", id, RowLock::Exclusive, Busy::Skip)?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum RowLock {
    /// The row stays, with the keys it has in unique indexes; other columns may change. What a
    /// foreign key needs of the row that it refers to.
    KeyShared,
    /// The row stays as it is. Other transactions may share the lock.
    Shared,
    /// The holder may change columns that are in no unique key. An update takes this lock.
    Update,
    /// The holder may change or delete the row. A deletion takes this lock.
    #[default]
    Exclusive,
}

impl RowLock {
    /// The lock at a place of the order, weakest first from 0.
    pub(crate) fn from_place(place: u8) -> Option<RowLock> {
        let all = [RowLock::KeyShared, RowLock::Shared, RowLock::Update, RowLock::Exclusive];
        all.get(usize::from(place)).copied()
    }

    /// True if two transactions can hold `self` and `other` on one row at a time.
    pub fn is_compatible(self, other: RowLock) -> bool {
        use RowLock::{Exclusive, KeyShared, Shared};
        match (self.min(other), self.max(other)) {
            (_, Exclusive) => false,
            (KeyShared, _) => true,
            (one, two) => one == Shared && two == Shared,
        }
    }
}

/// One lock of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Locker {
    /// The statement that took it.
    pub xid: Xid,
    /// Its strength.
    pub lock: RowLock,
}

/// A version of a row: its table and its row id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RowVersion {
    /// The table.
    pub table: ObjectId,
    /// Where the version lies.
    pub row: RowId,
}

/// A link to a version of a row: where it lies, and the xid that created it.
pub(crate) type VersionLink = (RowId, Xid);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_is_the_documented_one() {
        use RowLock::{Exclusive, KeyShared, Shared, Update};
        let all = [KeyShared, Shared, Update, Exclusive];
        for (one, row) in all.iter().zip(["+++-", "++--", "+---", "----"]) {
            for (two, sign) in all.iter().zip(row.chars()) {
                assert_eq!(one.is_compatible(*two), sign == '+', "{one:?} {two:?}");
            }
        }
    }
}
