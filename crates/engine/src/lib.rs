//! Rightlink: an embeddable, transactional table store with declared B-link indexes.

pub mod config;
pub mod datum;
pub mod error;
pub mod ids;
pub mod keycode;

pub mod buffer;
pub mod page;
pub mod table;
pub mod txn;
pub mod wal;

pub use error::{ConflictKind, Error, Result};
