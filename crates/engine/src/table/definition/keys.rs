//! From rows to index entries: key bytes and the payload of included columns.
//!
//! A row that the condition of a partial index is not true of has no entry there.
//!
//! Invariants: equal bytes, or no entry before and after, in every index mean that an update may be
//! heap-only (R10); what a key cannot tell apart (-0.0 and 0.0) is equal in every key column, and
//! included columns keep their bits.
//! Does not do: row ids, insertion.

use rightlink_env::Broken;
use rightlink_env::points::broken;

use crate::collation::Collation;
use crate::datum::Value;
use crate::error::{Error, Result};
use crate::ids::RowId;
use crate::index::{IndexEntry, MAX_ENTRY_BYTES};
use crate::keycode::{KeyColumn, Malformed, decode, encode_column};

use super::predicate::Predicate;
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
    /// Do nulls exempt a key from uniqueness?
    nulls_exempt: bool,
    /// What is true of rows that have an entry, by places.
    predicate: Option<Predicate<usize>>,
    /// Collations of the live columns, where there is a predicate.
    collations: Vec<Option<Collation>>,
    /// Names of the key columns, for messages.
    names: Vec<String>,
    /// Why no key can be made that the index would understand.
    trouble: Option<Error>,
}

/// The entries of many rows for one index, without row ids, in one allocation.
#[derive(Default)]
pub(crate) struct Keys {
    bytes: Vec<u8>,
    /// `None`: the row has no entry.
    spans: Vec<Option<Span>>,
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
        let predicate = index.predicate.as_ref().map(|predicate| {
            let placed = predicate.try_map(|column| Ok::<_, Error>(place(*column)));
            placed.expect("a place is always found")
        });
        Self {
            name: index.name.clone(),
            columns: index.key_columns(def),
            places: index.columns.iter().map(|part| place(part.column)).collect(),
            included: index.included.iter().map(|column| place(*column)).collect(),
            nulls_exempt: !index.nulls_not_distinct,
            collations: match predicate {
                Some(_) => def.live().map(|(_, column)| column.collation.clone()).collect(),
                None => Vec::new(),
            },
            predicate,
            names: index
                .columns
                .iter()
                .map(|part| def.columns[usize::from(part.column)].name.clone())
                .collect(),
            trouble: index.check_collations(def).err(),
        }
    }

    /// How the key is encoded.
    pub(crate) fn columns(&self) -> &[KeyColumn] {
        &self.columns
    }

    /// Fails if the index orders text otherwise than this build does.
    pub(crate) fn check(&self) -> Result<()> {
        self.trouble.clone().map_or(Ok(()), Err)
    }

    /// Encodes the entries of all `rows`. Refuses keys beyond the limit.
    pub(crate) fn make(&self, rows: &[Vec<Value>]) -> Result<Keys> {
        // What columns without a length of their own take grows.
        let bytes = Vec::with_capacity(rows.len() * self.columns.len() * 9);
        let mut keys = Keys { bytes, spans: Vec::with_capacity(rows.len()) };
        rows.iter().try_for_each(|row| self.push(&mut keys, row))?;
        Ok(keys)
    }

    /// Appends the entry of one row, or that it has none.
    pub(crate) fn push(&self, keys: &mut Keys, row: &[Value]) -> Result<()> {
        self.check()?;
        let with = |place: &usize| (&row[*place], self.collations[*place].as_ref());
        let holds = |predicate: &Predicate<usize>| predicate.judge_by(with);
        if self.predicate.as_ref().is_some_and(|predicate| holds(predicate) != Some(true)) {
            keys.spans.push(None);
            return Ok(());
        }
        let key = keys.bytes.len();
        let mut exempt = false;
        for (column, place) in self.columns.iter().zip(&self.places) {
            encode_column(&mut keys.bytes, column, &row[*place]);
            exempt |= self.nulls_exempt && row[*place].is_null();
        }
        let payload = keys.bytes.len();
        for place in &self.included {
            row::push_alone(&mut keys.bytes, &row[*place]);
        }
        let end = keys.bytes.len();
        if end - key > MAX_ENTRY_BYTES {
            return Err(self.too_long(end - key, row));
        }
        keys.spans.push(Some(Span { key, payload, end, exempt }));
        Ok(())
    }

    /// An entry of `len` bytes is beyond the limit: which column has most of it?
    fn too_long(&self, len: usize, row: &[Value]) -> Error {
        let mut largest = (0, "");
        for ((column, place), name) in self.columns.iter().zip(&self.places).zip(&self.names) {
            let mut bytes = Vec::new();
            encode_column(&mut bytes, column, &row[*place]);
            largest = largest.max((bytes.len(), name));
        }
        let ((of, column), name) = (largest, &self.name);
        Error::RowTooLarge(format!(
            "key of {len} bytes for index {name}; at most {MAX_ENTRY_BYTES} fit, and column \
             {column} takes {of} of them"
        ))
    }

    /// The names of the key columns.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
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
    /// Key and payload of row `at` with its row id, if the index holds the row. Where nulls are
    /// distinct, a key with one is exempt.
    pub(crate) fn entry(&self, at: usize, row: RowId) -> Option<IndexEntry<'_>> {
        let Span { key, payload, end, exempt } = self.spans[at]?;
        let (key, payload) = (&self.bytes[key..payload], &self.bytes[payload..end]);
        Some(IndexEntry { payload, exempt, ..IndexEntry::new(key, row) })
    }

    /// The entries of all rows that have one, in the order of the rows.
    pub(crate) fn entries<'a>(&'a self, rows: &[RowId]) -> Vec<IndexEntry<'a>> {
        assert_eq!(rows.len(), self.spans.len(), "one row id per row");
        rows.iter().enumerate().filter_map(|(at, row)| self.entry(at, *row)).collect()
    }

    /// Do rows `a` and `b` have entries with the same bytes, or neither of them one?
    pub(crate) fn same(&self, a: usize, b: usize) -> bool {
        let row = RowId::default();
        match (self.entry(a, row), self.entry(b, row)) {
            (None, None) => true,
            (Some(a), Some(b)) => (a.key, a.payload) == (b.key, b.payload),
            _ => broken(Broken::PredicateChangeHeapOnly),
        }
    }
}
