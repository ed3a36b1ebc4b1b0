//! Row locks: their strengths, and which of them two transactions may hold together.
//!
//! Invariants: a stronger lock conflicts with everything that a weaker one conflicts with.
//! Does not do: store locks (the row's xmax, and `multixact` for several holders).

use crate::ids::{ObjectId, RowId, Xid};

/// Strength of a row lock, from the weakest on. As PostgreSQL's tuple locks.
///
/// Compatible (+) and conflicting (-):
///
/// | | KeyShared | Shared | Update | Exclusive |
/// |---|---|---|---|---|
/// | KeyShared | + | + | + | - |
/// | Shared | + | + | - | - |
/// | Update | + | - | - | - |
/// | Exclusive | - | - | - | - |
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum RowLock {
    /// The row stays, with the keys it has in unique indexes; other columns may change. What a
    /// foreign key needs of the row that it refers to.
    KeyShared,
    /// The row stays as it is; others may lock it likewise.
    Shared,
    /// For a change that leaves unique keys alone: what an update takes of itself.
    Update,
    /// For any change, and what a deletion takes.
    #[default]
    Exclusive,
}

impl RowLock {
    /// May two transactions hold `self` and `other` of one row at a time?
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
