//! Rightlink: an embeddable, transactional table store with declared B-link indexes.
//!
//! It keeps rows in MVCC heap tables and any number of indexes beside them, which the engine itself
//! maintains in the same transaction. Many readers and writers work at once in one process; commits
//! are durable unless asked otherwise; a crash at any moment loses nothing that was acknowledged.
//! The interface is synchronous and typed by data: no SQL, no async runtime, no C.
//!
//! ```
//! use rightlink::{Database, IndexSchema, ScanOptions, TableSchema, Type, Value};
//!
//! # fn main() -> rightlink::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path();
//! let db = Database::open(path)?;
//!
//! let mut txn = db.begin();
//! txn.create_table(
//!     &TableSchema::new("flight")
//!         .column("id", Type::Int8)
//!         .column("tail", Type::Text)
//!         .nullable("delay", Type::Int4)
//!         .primary_key(["id"])
//!         .index(IndexSchema::new("flight_tail").on("tail").on_desc("delay")),
//! )?;
//! txn.insert_many(
//!     "flight",
//!     &[
//!         vec![Value::Int8(1), Value::Text("N14228".into()), Value::Int4(11)],
//!         vec![Value::Int8(2), Value::Text("N24211".into()), Value::Int4(20)],
//!         vec![Value::Int8(3), Value::Text("N14228".into()), Value::Null],
//!     ],
//! )?;
//! txn.commit()?; // durable when it returns
//!
//! let mut txn = db.begin();
//! let flights = ScanOptions::index("flight_tail").equal(vec![Value::Text("N14228".into())]);
//! for row in txn.scan("flight", &flights)? {
//!     println!("{:?}", row?.values);
//! }
//!
//! // A conflict with another transaction is an error that says so; this runs the work again.
//! db.with_retry(|txn| {
//!     let row = txn.get("flight", &[Value::Int8(2)])?.expect("inserted above");
//!     txn.update("flight", row.id, &[("delay", Value::Int4(25))])
//! })?;
//! assert!(db.verify()?.is_clean());
//! # Ok(())
//! # }
//! ```
//!
//! Start at [`Database`], [`Transaction`] and [`ScanOptions`]; errors are [`Error`], sorted by what
//! a caller can do.

mod collation;
mod config;
mod datum;
mod error;
mod ids;
mod keycode;

mod backup;
mod buffer;
mod catalog;
mod db;
mod heap;
mod index;
#[doc(hidden)]
pub mod internal;
mod page;
mod recovery;
#[cfg(all(test, feature = "shuttle"))]
mod schedules;
mod sort;
mod table;
mod txn;
mod upkeep;
mod vacuum;
mod verify;
mod wal;

#[cfg(feature = "experiments")]
pub use buffer::Prefetch;
pub use buffer::StreamStats;
pub use catalog::KeptText;
pub use collation::Collation;
pub use config::{FORMAT_VERSION, MAX_COLUMNS, MAX_VALUE_BYTES, MIN_POOL_PAGES, PAGE_SIZE};
pub use datum::{Decimal, Interval, Type, Value};
pub use db::alter::AlterTable;
pub use db::backup::{BackupOptions, BackupProgress, RestoreReport};
pub use db::catalog::{Catalog, TableVersion};
pub use db::control::Settings;
pub use db::cursor::Cursor;
pub use db::define::{
    AutoVacuum, CheckSchema, ColumnDefault, ColumnSchema, Comparison, IdentitySchema, IndexSchema,
    KeyCollation, KeyColumn, Predicate, SequenceSchema, TableSchema, Term, Test,
};
pub use db::describe::Blocks;
pub use db::info::{
    EntryInfo, Finding, HeapFigures, IndexFigures, IndexInfo, LockInfo, Locked, PageInfo,
    ReadTimes, SequenceDefinition, SequenceInfo, SequenceOwner, SnapshotInfo, Stats, TableFigures,
    TableInfo, VacuumPhase, VacuumProgress, VacuumReport, VerifyProgress, VerifyReport,
};
pub use db::many::{Changed, Insert, OnConflict};
pub use db::numbers::{Numbers, RedefineSequence, SequenceChange};
pub use db::prepared::{MAX_PREPARED, PreparedTransaction};
pub use db::reader::Reader;
pub use db::record::{
    Constant, Date, Field, Fields, Json, Record, Records, Time, Timestamp, TimestampTz,
};
pub use db::rows::Rows;
pub use db::scan::{Direction, ScanOptions};
pub use db::transaction::{CancelHandle, Isolation, Savepoint, Transaction, TransactionOptions};
pub use db::vacuum::VacuumOptions;
pub use db::value::{ValueReader, ValueWriter};
pub use db::writer::Writer;
pub use db::{Database, Row};
pub use error::{ConflictKind, Error, Result};
pub use ids::RowId;
pub use index::{DeadMarks, IndexMethod};
pub use keycode::Condition;
/// How a database reads and writes: [`Options::method`] and, for experiments, [`Options::device`].
///
/// ```
/// use rightlink::{Database, DeviceModel, Method};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let method: Method = "worker".parse().unwrap();
/// let drive: DeviceModel = "latency=100us,depth=64,bandwidth=200M".parse().unwrap();
/// assert_eq!(drive.bytes_per_s, Some(200 << 20));
/// let db = Database::options().method(method).device(Some(drive)).open(dir.path())?;
/// assert_eq!(db.method(), Method::Worker);
/// # Ok(())
/// # }
/// ```
pub use rightlink_aio::{DeviceModel, Method};
/// Implements the trait [`trait@Record`], which documents the attributes and has examples.
#[cfg(feature = "derive")]
pub use rightlink_derive::Record;
/// Memory of [`Database::budget`]: a [`Budget`] lends, and a [`Reservation`] holds what was lent.
///
/// ```
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// let cache = db.budget().child(1 << 20);
/// assert!(cache.try_reserve(2 << 20).is_none(), "more than its share");
/// let mut memory = cache.try_reserve(64 << 10).expect("64 KiB are left");
/// assert!(memory.grow(64 << 10));
/// memory.shrink(32 << 10);
/// assert_eq!((memory.bytes(), cache.used()), (96 << 10, 96 << 10));
/// drop(memory);
/// assert_eq!(cache.used(), 0);
/// # Ok(())
/// # }
/// ```
pub use rightlink_env::{Budget, Reservation};
pub use sort::{Sorted, Sorter};
pub use table::sequence::SequencePosition;
pub use table::{Busy, ChangeAt, Mark, Merge, RowVisitor, Upserted, WantedAt, Written};
#[cfg(feature = "experiments")]
pub use txn::DeadHints;
pub use txn::{LockMode, RowLock};
pub use upkeep::{Options, Watch};

/// The examples of the README, compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
