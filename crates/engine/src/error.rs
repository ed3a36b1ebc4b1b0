//! The one error of the engine, sorted by what a caller can do about it.
//!
//! Invariants: bytes from disk never panic, they become [`Error::Corruption`] naming file and
//! block, and the table or index where it passes through a table; [`Error::is_retryable`] is true
//! exactly for conflicts after which the same transaction may succeed.
//! Does not do: logging; an error is logged where it is handled.

use std::fmt;
use std::time::Duration;

use rightlink_aio::IoError;

use crate::ids::{PageId, RowId};

/// Result of a call of this library, with its [`enum@Error`].
///
/// ```
/// use rightlink::Database;
///
/// fn table_names(db: &Database) -> rightlink::Result<Vec<String>> {
///     Ok(db.tables()?.iter().map(|table| table.name.clone()).collect())
/// }
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # assert!(table_names(&db)?.is_empty());
/// # Ok(())
/// # }
/// ```
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, by what the caller can do.
///
/// The section "Errors" of a call names the errors that are its own. Every call that reads or
/// writes can also fail with `Corruption`, `Io`, `DiskFull`, `OutOfMemory` or `Poisoned`. A call
/// that names a table fails with `NotFound` if there is none. A call that waits can also fail with
/// `Conflict`, `Cancelled` or `LockTimeout`.
///
/// ```
/// use rightlink::{Error, TableSchema, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// let row = [Value::Int8(1), Value::Int8(10)];
/// txn.insert("n", &row)?;
/// match txn.insert("n", &row) {
///     Err(Error::UniqueViolation { index, .. }) => assert_eq!(index, "n_pkey"),
///     other => panic!("{other:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// Bytes on disk are not what was written: names the relation, the file, the block and the
    /// finding.
    Corruption {
        /// `table t`, or `index i of table t`; none where that is not known (in recovery) or the
        /// file belongs to no table.
        relation: Option<String>,
        /// Name of the file in the directory of the database.
        file: String,
        /// Block inside the file, when the damage is in one.
        block: Option<u32>,
        /// What is wrong.
        what: String,
    },
    /// Two transactions wanted the same row, or waited for each other. Run the transaction again.
    Conflict {
        /// Kind of the conflict.
        kind: ConflictKind,
        /// Table, row and the other transaction, for a person.
        what: String,
    },
    /// A unique index already holds the key.
    UniqueViolation {
        /// Table name.
        table: String,
        /// Index name.
        index: String,
        /// The columns of the key.
        columns: Vec<String>,
        /// The key, for a person.
        key: String,
    },
    /// Two rows of one call for this table have the same key, and the later one would change what
    /// the earlier one did.
    KeyTwice(String),
    /// A column that is never null got none.
    NotNullViolation {
        /// Table name.
        table: String,
        /// Column name.
        column: String,
    },
    /// A row does not meet a check of its table.
    CheckViolation {
        /// Table name.
        table: String,
        /// Name of the check.
        check: String,
        /// The column that the part of it is about which is false.
        column: String,
        /// What the row has there, for a person.
        value: String,
    },
    /// Text cannot be compared as a definition says: an index was built with other Unicode data and
    /// must be built anew (`reindex`), or this build does not know the collation.
    Collation {
        /// `index i of table t`, or `column c of table t`.
        of: String,
        /// What is the matter, and what helps.
        what: String,
    },
    /// The caller asked for something that cannot be done: a bad name, type, bound or value.
    Invalid(String),
    /// A named table, index or column does not exist.
    NotFound(String),
    /// A table, index or column of this name exists already.
    AlreadyExists(String),
    /// A stated limit would be exceeded; nothing was changed.
    Limit(String),
    /// A row, or its key in an index, is larger than a page can hold. Nothing was changed; another
    /// row may fit.
    RowTooLarge(String),
    /// The memory budget or the system does not have what was asked for at this moment: memory,
    /// pages of the buffer pool or a thread. Nothing was changed; later it may be there.
    OutOfMemory(String),
    /// An operating-system call failed. Nothing acknowledged is lost.
    Io(IoError),
    /// The device or the configured capacity is full. The statement was undone; reads go on.
    DiskFull(String),
    /// A failed sync left the state of the log unknown: this instance takes no more writes.
    Poisoned(String),
    /// The work or its wait was cancelled.
    Cancelled(String),
    /// A wait lasted longer than the lock timeout.
    LockTimeout {
        /// The lock timeout.
        waited: Duration,
        /// What was waited for, for a person.
        what: String,
    },
    /// The database is open in another process or handle.
    Locked(String),
    /// The transaction is no longer usable after an earlier error.
    TransactionAborted,
    /// The snapshot is older than the database lets any be, and rows that it would see may be gone.
    /// Roll back and begin anew.
    SnapshotTooOld {
        /// The longest that a snapshot may live, as the database was opened.
        limit: Duration,
    },
}

/// Kind of an [`Error::Conflict`]: why two transactions could not both go on.
///
/// ```
/// use rightlink::{ConflictKind, Error};
/// # use rightlink::{TableSchema, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// # let id = txn.insert("n", &[Value::Int8(1), Value::Int8(10)])?;
/// # txn.commit()?;
/// let mut late = db.begin();
/// let row = late.get("n", &[Value::Int8(1)])?.unwrap();
/// db.with_retry(|txn| txn.update("n", row.id, &[("b", Value::Int8(11))]))?;
/// match late.update("n", row.id, &[("b", Value::Int8(12))]) {
///     Err(Error::Conflict { kind, .. }) => assert_eq!(kind, ConflictKind::Serialization),
///     other => panic!("{other:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ConflictKind {
    /// Another transaction changed the row after this snapshot was taken.
    Serialization,
    /// Each of several transactions waited for another of them (deadlock).
    Deadlock,
    /// Another transaction has the row, and the caller asked not to wait ([`Busy::Fail`]).
    ///
    /// [`Busy::Fail`]: crate::Busy::Fail
    RowLocked,
}

impl Error {
    /// Damage found in `page`.
    pub fn corrupt(page: PageId, what: impl Into<String>) -> Self {
        Error::Corruption {
            relation: None,
            file: page.file.path(),
            block: Some(page.block.0),
            what: what.into(),
        }
    }

    /// Damage found in a file outside the pages.
    pub fn corrupt_file(file: impl Into<String>, what: impl Into<String>) -> Self {
        Error::Corruption { relation: None, file: file.into(), block: None, what: what.into() }
    }

    /// Adds the damaged relation, if the error names none and `relation` knows it by the file.
    pub(crate) fn blamed(self, relation: impl FnOnce(&str) -> Option<String>) -> Self {
        match self {
            Error::Corruption { relation: None, file, block, what } => {
                Error::Corruption { relation: relation(&file), file, block, what }
            }
            other => other,
        }
    }

    /// Lost a race for `row` of `table`.
    pub fn conflict(table: &str, row: RowId) -> Self {
        Error::Conflict {
            kind: ConflictKind::Serialization,
            what: format!("row {row} of table {table} was changed by another transaction"),
        }
    }

    /// Another transaction has locked `row` of `table`, and the caller does not wait.
    pub fn row_locked(table: &str, row: RowId) -> Self {
        Error::Conflict {
            kind: ConflictKind::RowLocked,
            what: format!("row {row} of table {table} is locked by another transaction"),
        }
    }

    /// True if the same transaction may succeed when it is run again from its start.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Conflict { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Corruption { relation, file, block, what } => {
                let relation: String = relation.iter().map(|name| format!("{name}, ")).collect();
                let block = block.map(|block| format!(", block {block}")).unwrap_or_default();
                write!(f, "corruption in {relation}{file}{block}: {what}")
            }
            Error::Conflict { kind: ConflictKind::Deadlock, what } => write!(f, "deadlock: {what}"),
            Error::Conflict { what, .. } => write!(f, "conflict: {what}"),
            Error::UniqueViolation { table, index, key, .. } => {
                write!(f, "key {key} exists already in unique index {index} of table {table}")
            }
            Error::KeyTwice(table) => write!(f, "two rows for table {table} have the same key"),
            Error::NotNullViolation { table, column } => {
                write!(f, "null in column {column} of table {table}")
            }
            Error::CheckViolation { table, check, column, value } => {
                write!(f, "value {value} in column {column} fails check {check} of table {table}")
            }
            Error::Collation { of, what } => write!(f, "{of}: {what}"),
            Error::Invalid(what) => write!(f, "invalid: {what}"),
            Error::NotFound(what) => write!(f, "not found: {what}"),
            Error::AlreadyExists(what) => write!(f, "exists already: {what}"),
            Error::Limit(what) | Error::RowTooLarge(what) => write!(f, "limit exceeded: {what}"),
            Error::OutOfMemory(what) => write!(f, "out of memory: {what}"),
            Error::Io(error) => write!(f, "{error}"),
            Error::DiskFull(what) => write!(f, "disk full: {what}"),
            Error::Poisoned(what) => write!(f, "instance takes no more writes: {what}"),
            Error::Cancelled(what) => write!(f, "cancelled: {what}"),
            Error::LockTimeout { waited, what } => {
                write!(f, "lock timeout: waited {} ms for {what}", waited.as_millis())
            }
            Error::Locked(what) => write!(f, "locked: {what}"),
            Error::TransactionAborted => write!(f, "the transaction was aborted by an error"),
            Error::SnapshotTooOld { limit } => {
                write!(f, "snapshot too old: it may live for {} s", limit.as_secs_f64())
            }
        }
    }
}

impl std::error::Error for Error {}
