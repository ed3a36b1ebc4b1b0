//! Rightlink: an embeddable, transactional table store with declared B-link indexes.

pub mod config;
pub mod datum;
pub mod error;
pub mod ids;
pub mod keycode;

pub mod buffer;
pub mod catalog;
pub mod db;
pub mod heap;
pub mod index;
pub mod page;
pub mod recovery;
pub mod sort;
pub mod table;
pub mod txn;
pub mod vacuum;
pub mod verify;
pub mod wal;

pub use datum::{Type, Value};
pub use db::define::{ColumnSchema, IndexSchema, KeyColumn, TableSchema};
pub use db::info::{
    ColumnInfo, Finding, IndexInfo, KeyColumnInfo, PageInfo, Stats, TableInfo, VacuumReport,
    VerifyReport,
};
pub use db::options::Options;
pub use db::rows::Rows;
pub use db::scan::{Direction, ScanOptions};
pub use db::transaction::{CancelHandle, Isolation, Savepoint, Transaction, TransactionOptions};
pub use db::{Database, Row};
pub use error::{ConflictKind, Error, Result};
pub use ids::RowId;
pub use rightlink_aio::{DeviceModel, Method};
