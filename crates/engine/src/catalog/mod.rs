//! Definitions of tables and indexes, themselves rows in a table.

pub mod bootstrap;
pub mod codec;
pub mod rows;
