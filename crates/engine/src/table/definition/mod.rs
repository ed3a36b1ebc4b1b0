//! Definitions, as the catalog hands them down, and what follows from them: rows and index entries
//! as bytes.
//!
//! | file | concern |
//! |---|---|
//! | `schema` | tables, columns, indexes |
//! | `sequence_schema` | sequences |
//! | `limits` | limits of names and notes |
//! | `settings` | settings that change nothing about rows |
//! | `predicate` | conditions on one row: checks, partial indexes |
//! | `row` | rows as bytes |
//! | `row_visitor` | a trait that takes the values of rows |
//! | `keys` | index entries of rows |
//!
//! Invariants: plain data and pure functions.
//! Does not do: storage; anything with a transaction.

pub(super) mod keys;
mod limits;
pub mod predicate;
pub mod row;
pub(super) mod row_visitor;
pub mod schema;
mod sequence_schema;
pub mod settings;
