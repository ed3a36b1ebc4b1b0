//! Indexes: the access-method interface, and the methods behind it.
//!
//! Invariants: floors above name [`am`] and [`search_key`] only; which method an index has is
//! decided here, when it is created or opened.
//! Does not do: know tables, heaps or columns; keys arrive encoded.

pub mod am;
pub mod btree;
mod filtered;
pub mod search_key;
#[cfg(test)]
pub(crate) mod suite;

pub use am::{AccessMethod, HeapOracle, IndexEntry, LeafBatch, Liveness};
pub use search_key::{Direction, KeyRange};
