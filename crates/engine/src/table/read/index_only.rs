//! Values from index entries alone, where the index holds all that is wanted.
//!
//! Invariants: a column comes from the key only if its type's key code is reversible, else from the
//! payload.
//! Does not do: whether an entry stands for a row (`index_scan`, R4).

use crate::datum::{Type, Value};
use crate::keycode::{KeyColumn, Malformed, column_len, decode_column};

use crate::table::TableIndex;
use crate::table::definition::row::{self, Projection};
use crate::table::definition::schema::{ColumnNo, TableDef};

/// Reads the wanted columns from keys and payloads.
pub(super) struct KeyReader {
    columns: Vec<KeyColumn>,
    /// Types of the included columns.
    included: Vec<Type>,
    /// Per wanted value, in order: its place among key columns and included ones.
    places: Vec<usize>,
}

impl KeyReader {
    /// Does the index hold all that `projection` wants?
    pub(super) fn serves(index: &TableIndex, projection: &Projection) -> bool {
        projection.wants().all(|wanted| place(index, wanted).is_some())
    }

    /// None if the index does not hold all that `projection` wants.
    pub(super) fn new(def: &TableDef, index: &TableIndex, projection: &Projection) -> Option<Self> {
        if !Self::serves(index, projection) {
            return None;
        }
        let columns = index.keys.columns().to_vec();
        let place = |wanted| place(index, wanted);
        let places = projection.columns().into_iter().map(place).collect::<Option<Vec<_>>>()?;
        let ty = |column: &ColumnNo| def.columns[usize::from(*column)].ty;
        let included = index.def.included.iter().map(ty).collect();
        Some(Self { columns, included, places })
    }

    /// The wanted values of one entry.
    pub(super) fn read(
        &self,
        mut key: &[u8],
        mut payload: &[u8],
    ) -> std::result::Result<Vec<Value>, Malformed> {
        let last = self.places.iter().max().map_or(0, |place| place + 1);
        let mut values = Vec::with_capacity(last);
        for column in self.columns.iter().take(last) {
            if column.is_reversible() {
                values.push(decode_column(column, &mut key)?);
                continue;
            }
            // It is not wanted, but something behind it is.
            key = &key[column_len(column, key)?..];
            values.push(Value::Null);
        }
        for ty in self.included.iter().take(last.saturating_sub(self.columns.len())) {
            values.push(row::take_alone(*ty, &mut payload)?);
        }
        Ok(self.places.iter().map(|place| values[*place].clone()).collect())
    }
}

/// The place of a column among the key columns of an index that can be decoded, and behind those
/// among the included ones.
fn place(index: &TableIndex, wanted: ColumnNo) -> Option<usize> {
    let columns = index.keys.columns();
    let mut keys = index.def.columns.iter().zip(columns);
    let key = keys.position(|(part, column)| part.column == wanted && column.is_reversible());
    let included = || index.def.included.iter().position(|column| *column == wanted);
    key.or_else(|| included().map(|at| columns.len() + at))
}
