//! One logical table: a heap and any number of indexes that always agree with it.
//!
//! Invariants: see the files. Does not do: definitions on disk (`catalog`), cleaning (`vacuum`).

pub mod row;
pub mod schema;
