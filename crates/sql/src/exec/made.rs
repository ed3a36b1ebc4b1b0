//! Rows of relations that are made up, and which of them have a value in a column.
//!
//! Invariants: rows are counted as long as the statement runs, and so is what finds them by a
//! value. Does not do: making them (`catalog::views`).

use std::collections::HashMap;

use rightlink_env::sync::Mutex;

use crate::error::Result;
use crate::exec::memory::Memory;
use crate::exec::sort_key;
use crate::expr::{Context, SortKey};
use crate::types::{Datum, Row};

/// What a row takes in an index, beside the bytes of its value.
const ENTRY: usize = 64;

/// Numbers of rows by the bytes of a value.
type Index = HashMap<Vec<u8>, Vec<u32>>;

/// Rows that are kept until the statement ends.
pub(super) struct MadeRows {
    rows: Vec<Row>,
    indexes: Mutex<Indexes>,
}

/// Indexes of columns that were asked for by a value.
struct Indexes {
    by_column: HashMap<usize, Index>,
    memory: Memory,
}

fn key_of(value: &Datum) -> Vec<u8> {
    let key =
        SortKey { at: 0, descending: false, nulls_first: false, padded: false, collation: None };
    let mut out = Vec::new();
    sort_key::encode(&mut out, value, &key);
    out
}

impl MadeRows {
    pub(super) fn new(rows: Vec<Row>, context: &Context) -> Result<MadeRows> {
        context.check()?;
        let mut memory = Memory::new(&context.budget());
        rows.iter().try_for_each(|row| memory.charge_row(row))?;
        let indexes = Indexes { by_column: HashMap::new(), memory };
        Ok(MadeRows { rows, indexes: Mutex::new(indexes) })
    }

    /// Rows that are counted already, as is what finds them by a value.
    pub(super) fn counted(rows: Vec<Row>, context: &Context) -> Result<MadeRows> {
        context.check()?;
        let memory = Memory::new(&rightlink::Budget::new(usize::MAX));
        let indexes = Indexes { by_column: HashMap::new(), memory };
        Ok(MadeRows { rows, indexes: Mutex::new(indexes) })
    }

    /// All rows, of these columns.
    pub(super) fn all(&self, columns: &[usize], context: &Context) -> Result<Vec<Row>> {
        context.spend(self.rows.len())?;
        let kept = |row: &Row| columns.iter().map(|at| row[*at].clone()).collect();
        Ok(self.rows.iter().map(kept).collect())
    }

    /// The rows that have `value` in column `at`: of these columns.
    pub(super) fn having(
        &self,
        at: usize,
        value: &Datum,
        columns: &[usize],
        context: &Context,
    ) -> Result<Vec<Row>> {
        context.spend(1)?;
        if value.is_null() {
            return Ok(Vec::new());
        }
        let mut indexes = self.indexes.lock();
        if !indexes.by_column.contains_key(&at) {
            context.spend(self.rows.len())?;
            let mut index = Index::new();
            for (number, row) in self.rows.iter().enumerate() {
                let key = key_of(&row[at]);
                indexes.memory.charge(ENTRY + key.len())?;
                index.entry(key).or_default().push(number as u32);
            }
            indexes.by_column.insert(at, index);
        }
        let found = indexes.by_column[&at].get(&key_of(value)).into_iter().flatten();
        let kept = |number: &u32| {
            let row = &self.rows[*number as usize];
            columns.iter().map(|at| row[*at].clone()).collect()
        };
        Ok(found.map(kept).collect())
    }
}
