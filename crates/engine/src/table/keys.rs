//! From rows to index entries: key bytes and the payload of included columns.
//!
//! Invariants: equal bytes in every index mean that an update may be heap-only (R10); what a key
//! cannot tell apart (-0.0 and 0.0) is equal in every key column, and included columns keep their
//! bits.
//! Does not do: row ids, insertion.

use crate::datum::Value;
use crate::error::{Error, Result};
use crate::ids::RowId;
use crate::index::{IndexEntry, MAX_ENTRY_BYTES};
use crate::keycode::{KeyColumn, Malformed, decode, encode_column};

use super::row;
use super::schema::{ColumnNo, IndexDef, TableDef};

/// Makes the entries of one index from rows given as one value per live column.
pub(crate) struct KeyMaker {
    /// The index, for messages.
    name: String,
    columns: Vec<KeyColumn>,
    /// Places of the key columns among the live columns.
    places: Vec<usize>,
    /// Places of the included columns.
    included: Vec<usize>,
}

/// The entries of many rows for one index, without row ids, in one allocation.
#[derive(Default)]
pub(crate) struct Keys {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

#[derive(Clone, Copy)]
struct Span {
    key: usize,
    payload: usize,
    end: usize,
    exempt: bool,
}

impl KeyMaker {
    pub(crate) fn new(def: &TableDef, index: &IndexDef) -> Self {
        let place = |wanted: ColumnNo| {
            let found = def.live().position(|(column, _)| column == wanted);
            found.expect("a valid index names live columns")
        };
        Self {
            name: index.name.clone(),
            columns: index.key_columns(def),
            places: index.columns.iter().map(|part| place(part.column)).collect(),
            included: index.included.iter().map(|column| place(*column)).collect(),
        }
    }

    /// How the key is encoded.
    pub(crate) fn columns(&self) -> &[KeyColumn] {
        &self.columns
    }

    /// Encodes the entries of all `rows`. Refuses keys beyond the limit.
    pub(crate) fn make(&self, rows: &[Vec<Value>]) -> Result<Keys> {
        let mut keys = Keys::default();
        rows.iter().try_for_each(|row| self.push(&mut keys, row))?;
        Ok(keys)
    }

    /// Appends the entry of one row.
    pub(crate) fn push(&self, keys: &mut Keys, row: &[Value]) -> Result<()> {
        let key = keys.bytes.len();
        let mut exempt = false;
        for (column, place) in self.columns.iter().zip(&self.places) {
            encode_column(&mut keys.bytes, *column, &row[*place]);
            exempt |= row[*place].is_null();
        }
        let payload = keys.bytes.len();
        for place in &self.included {
            row::push_alone(&mut keys.bytes, &row[*place]);
        }
        let end = keys.bytes.len();
        if end - key > MAX_ENTRY_BYTES {
            let (len, name) = (end - key, &self.name);
            let what =
                format!("key of {len} bytes for index {name}; at most {MAX_ENTRY_BYTES} fit");
            return Err(Error::Limit(what));
        }
        keys.spans.push(Span { key, payload, end, exempt });
        Ok(())
    }

    /// An encoded key for a person.
    pub(crate) fn show(&self, key: &[u8]) -> String {
        match decode(&self.columns, key) {
            Ok(values) => show_values(&values),
            Err(Malformed(what)) => format!("({what})"),
        }
    }
}

fn show_values(values: &[Value]) -> String {
    let shown: Vec<String> = values.iter().map(Value::to_string).collect();
    format!("({})", shown.join(", "))
}

impl Keys {
    /// Key and payload of row `at` with its row id. Nulls are distinct, so they are exempt.
    pub(crate) fn entry(&self, at: usize, row: RowId) -> IndexEntry<'_> {
        let Span { key, payload, end, exempt } = self.spans[at];
        IndexEntry {
            key: &self.bytes[key..payload],
            row,
            payload: &self.bytes[payload..end],
            exempt,
        }
    }

    /// The entries of all rows, in the order of the rows.
    pub(crate) fn entries<'a>(&'a self, rows: &[RowId]) -> Vec<IndexEntry<'a>> {
        assert_eq!(rows.len(), self.spans.len(), "one row id per row");
        rows.iter().enumerate().map(|(at, row)| self.entry(at, *row)).collect()
    }

    /// Do the entries of rows `a` and `b` have the same bytes?
    pub(crate) fn same(&self, a: usize, b: usize) -> bool {
        let bytes = |at: usize| &self.bytes[self.spans[at].key..self.spans[at].end];
        let ends = |at: usize| self.spans[at].payload - self.spans[at].key;
        bytes(a) == bytes(b) && ends(a) == ends(b)
    }
}
