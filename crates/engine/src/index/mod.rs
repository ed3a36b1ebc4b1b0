//! Indexes: the access-method interface, and the methods behind it.
//!
//! Invariants: higher layers name [`am`] and [`search_key`] only. They pass an [`IndexMethod`] on
//! without asking which one it is; what depends on it is decided here.
//! Does not do: know tables, heaps or columns. Keys arrive encoded.

pub mod am;
pub mod btree;
mod dead_rows;
pub mod hash;
mod method;
pub mod search_key;
#[cfg(test)]
mod tests;
mod tries;

use crate::config::MAX_KEY_BYTES;
use crate::ids::RowId;

pub use am::{AccessMethod, HeapOracle, IndexBuilder, IndexEntry, LeafBatch, Liveness};
pub use method::{IndexMethod, IndexOptions};
pub use search_key::{Direction, KeyRange};
#[cfg(test)]
pub(crate) use tests::{suite, suite_keys};
use tries::Tries;

/// Largest key and payload together that an entry of any method may have, without the row id.
pub const MAX_ENTRY_BYTES: usize = MAX_KEY_BYTES - RowId::SIZE - 2;
