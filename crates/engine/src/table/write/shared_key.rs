//! How many rows have one key of an index, as things are now: for keys that a layer above keeps
//! unique from the end of a statement or of a transaction on.
//!
//! The entries of the key are read, the heap is asked about each row, and the entries are read
//! again. An update that commits meanwhile has put the entry of its version in before, so that the
//! second reading differs.
//!
//! Invariants: an answer counts only if both readings agree and the clock of R3 stood still for the
//! blocks of the rows. Nothing is latched or pinned while the caller waits (R12).
//! Does not do: wait. PostgreSQL: `_bt_check_unique` with `UNIQUE_CHECK_EXISTING`.

use crate::datum::Value;
use crate::error::Result;
use crate::ids::{RowId, Xid};
use crate::index::{HeapOracle, Liveness};
use crate::keycode::{self, MAX_ENCODED};
use crate::table::read::index_cursor::checker;
use crate::table::write::entries::TableOracle;
use crate::table::{Table, TableIndex};

/// The rows of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyHolders {
    /// At most one row has the key, or none that is there for the asking transaction.
    One,
    /// Two rows or more have it.
    Several,
    /// One row has it, and this running transaction decides about another.
    Undecided(Xid),
}

impl Table {
    /// The rows that have the key `key`, a value for each key column of `index`. `owns` tells the
    /// living xids of the asking transaction.
    pub fn holders_of(
        &self,
        index: &TableIndex,
        key: &[Value],
        owns: &dyn Fn(Xid) -> bool,
    ) -> Result<KeyHolders> {
        let checker = checker(self, index);
        checker.check(key)?;
        index.keys.check()?;
        let key = keycode::encode_prefix(index.keys.columns(), key);
        if key.len() > MAX_ENCODED {
            return Ok(KeyHolders::One);
        }
        loop {
            let time = self.heap.clock().now();
            let rows = rows_of(index, &key)?;
            let holders = self.holders_among(&rows, owns)?;
            let is_same = |row: &RowId| !self.heap.clock().newer_than(row.block, time);
            if rows.iter().all(is_same) && rows_of(index, &key)? == rows {
                return Ok(holders);
            }
        }
    }

    fn holders_among(&self, rows: &[RowId], owns: &dyn Fn(Xid) -> bool) -> Result<KeyHolders> {
        let oracle = TableOracle::new(&self.heap, owns);
        let (mut live, mut running) = (0, None);
        for row in rows {
            let mut state = [Liveness::NeedsRead];
            oracle.liveness(&[*row], &mut state);
            while state == [Liveness::NeedsRead] {
                oracle.prepare(*row)?;
                oracle.liveness(&[*row], &mut state);
            }
            match state {
                [Liveness::Live] => live += 1,
                [Liveness::InProgress(xid)] => running = Some(xid),
                _ => {}
            }
        }
        Ok(match (live, running) {
            (0, _) | (1, None) => KeyHolders::One,
            (1, Some(xid)) => KeyHolders::Undecided(xid),
            _ => KeyHolders::Several,
        })
    }
}

/// The rows of the entries that have the key, in the order of the index.
fn rows_of(index: &TableIndex, key: &[u8]) -> Result<Vec<RowId>> {
    let mut rows = Vec::new();
    index.method.lookup(&[key], &mut |_, row, _| rows.push(row))?;
    Ok(rows)
}
