//! Indexes: the access-method interface, and the methods behind it.
//!
//! Invariants: higher layers name [`am`] and [`search_key`] only. They pass an [`IndexMethod`] on
//! without asking which one it is; what depends on it is decided here.
//! Does not do: know tables, heaps or columns. Keys arrive encoded.

pub mod am;
pub mod btree;
mod build_file;
mod dead_marks;
mod dead_rows;
pub mod hash;
mod leaf_batch;
mod method;
mod removal;
pub mod search_key;
mod structure_check;
#[cfg(test)]
mod tests;
mod tries;

use crate::config::MAX_KEY_BYTES;
use crate::ids::RowId;

pub use am::{
    AccessMethod, HeapOracle, IndexBuilder, IndexEntry, IndexMethod, LeafBatch, Liveness,
};
pub use dead_marks::DeadMarks;
pub use method::IndexOptions;
pub use search_key::{Direction, KeyRange};
#[cfg(test)]
pub(crate) use tests::{suite, suite_keys};
use tries::Tries;

/// Largest key and payload together that an entry of any method may have, without the row id.
pub const MAX_ENTRY_BYTES: usize = MAX_KEY_BYTES - RowId::SIZE - 2;

/// Entries that may use a whole page even when tests make pages small, so that any key fits.
const ENTRIES_OF_SMALL_PAGE: usize = 4;

/// Bytes that a page with `count` entries leaves unused. Tests make pages small by `unused_bytes`.
fn bytes_left_unused(unused_bytes: usize, count: usize) -> usize {
    if count <= ENTRIES_OF_SMALL_PAGE { 0 } else { unused_bytes }
}
