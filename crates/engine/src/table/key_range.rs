//! What bounds on an index mean in bytes, for callers that order several of them.
//!
//! Invariants: values are checked against the definition first.
//! Does not do: reading.

use crate::error::Result;
use crate::index::KeyRange;

use super::TableIndex;
use super::bounds::{Checker, IndexBounds};
use super::schema::TableDef;

impl TableIndex {
    /// The range of keys that `bounds` mean; `def` is the table's definition.
    pub(crate) fn key_range(&self, def: &TableDef, bounds: &IndexBounds) -> Result<KeyRange> {
        let columns = self.keys.columns();
        bounds.resolve(&Checker { def, index: &self.def, columns })
    }
}
