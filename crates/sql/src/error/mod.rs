//! What a statement fails with: PostgreSQL's five-letter code and the parts of its message.
//!
//! Invariants: every error of the engine has a code; a client can tell a retryable conflict
//! (`40001`, `40P01`) from everything else; what is not built yet is `0A000` and names itself.
//! Does not do: translation of messages.

mod subject;

use std::fmt;

use rightlink::{ConflictKind, Error};

pub use subject::Subject;

use crate::names;
use crate::names::bare;

/// Result of everything in this crate.
pub type Result<T> = std::result::Result<T, SqlError>;

/// Codes of PostgreSQL's appendix A that are used here.
pub(crate) mod code {
    pub(crate) const PROTOCOL_VIOLATION: &str = "08P01";
    pub(crate) const FEATURE_NOT_SUPPORTED: &str = "0A000";
    pub(crate) const NO_HANDLER: &str = "0Z002";
    pub(crate) const CARDINALITY: &str = "21000";
    pub(crate) const STRING_TOO_LONG: &str = "22001";
    pub(crate) const NUMERIC_OUT_OF_RANGE: &str = "22003";
    pub(crate) const INVALID_DATETIME: &str = "22007";
    pub(crate) const DATETIME_OVERFLOW: &str = "22008";
    pub(crate) const ZONE_OVERFLOW: &str = "22009";
    pub(crate) const SUBSTRING: &str = "22011";
    pub(crate) const DIVISION_BY_ZERO: &str = "22012";
    pub(crate) const INVALID_FRAME_SIZE: &str = "22013";
    pub(crate) const INVALID_NTILE: &str = "22014";
    pub(crate) const INTERVAL_OVERFLOW: &str = "22015";
    pub(crate) const INVALID_NTH_VALUE: &str = "22016";
    pub(crate) const INVALID_LOGARITHM: &str = "2201E";
    pub(crate) const INVALID_POWER: &str = "2201F";
    pub(crate) const NULL_NOT_ALLOWED: &str = "22004";
    pub(crate) const WIDTH_BUCKET: &str = "2201G";
    pub(crate) const BAD_CHARACTER: &str = "22021";
    pub(crate) const SUBSCRIPT: &str = "2202E";
    pub(crate) const INVALID_ROW_COUNT: &str = "2201W";
    pub(crate) const INVALID_OFFSET: &str = "2201X";
    pub(crate) const INVALID_ESCAPE_SEQUENCE: &str = "22025";
    pub(crate) const INVALID_PARAMETER: &str = "22023";
    pub(crate) const LENGTH_MISMATCH: &str = "22026";
    pub(crate) const ARRAY_SUBSCRIPT: &str = "2202E";
    pub(crate) const INVALID_TEXT: &str = "22P02";
    pub(crate) const INVALID_BINARY: &str = "22P03";
    pub(crate) const UNTRANSLATABLE_CHARACTER: &str = "22P05";
    pub(crate) const BAD_COPY_FORMAT: &str = "22P04";
    pub(crate) const NOT_NULL_VIOLATION: &str = "23502";
    pub(crate) const FOREIGN_KEY_VIOLATION: &str = "23503";
    pub(crate) const CHECK_VIOLATION: &str = "23514";
    pub(crate) const UNIQUE_VIOLATION: &str = "23505";
    pub(crate) const INVALID_CURSOR_STATE: &str = "24000";
    pub(crate) const ACTIVE_TRANSACTION: &str = "25001";
    pub(crate) const READ_ONLY_TRANSACTION: &str = "25006";
    pub(crate) const NO_ACTIVE_TRANSACTION: &str = "25P01";
    pub(crate) const IN_FAILED_TRANSACTION: &str = "25P02";
    pub(crate) const INVALID_STATEMENT_NAME: &str = "26000";
    pub(crate) const INVALID_CURSOR_NAME: &str = "34000";
    pub(crate) const INVALID_SAVEPOINT: &str = "3B001";
    pub(crate) const INVALID_GRANT: &str = "0LP01";
    pub(crate) const INVALID_DATABASE: &str = "3D000";
    pub(crate) const INVALID_SCHEMA: &str = "3F000";
    pub(crate) const DEPENDENT_OBJECTS: &str = "2BP01";
    pub(crate) const SERIALIZATION_FAILURE: &str = "40001";
    pub(crate) const DEADLOCK: &str = "40P01";
    pub(crate) const INSUFFICIENT_PRIVILEGE: &str = "42501";
    pub(crate) const CHECK_OPTION: &str = "44000";
    pub(crate) const SYNTAX_ERROR: &str = "42601";
    pub(crate) const INVALID_NAME: &str = "42602";
    pub(crate) const RESERVED_NAME: &str = "42939";
    pub(crate) const DUPLICATE_SCHEMA: &str = "42P06";
    pub(crate) const DUPLICATE_COLUMN: &str = "42701";
    pub(crate) const AMBIGUOUS_COLUMN: &str = "42702";
    pub(crate) const UNDEFINED_COLUMN: &str = "42703";
    pub(crate) const UNDEFINED_OBJECT: &str = "42704";
    pub(crate) const DUPLICATE_OBJECT: &str = "42710";
    pub(crate) const INVALID_FOREIGN_KEY: &str = "42830";
    pub(crate) const GENERATED_ALWAYS: &str = "428C9";
    pub(crate) const AMBIGUOUS_FUNCTION: &str = "42725";
    pub(crate) const GROUPING_ERROR: &str = "42803";
    pub(crate) const DATATYPE_MISMATCH: &str = "42804";
    pub(crate) const WRONG_OBJECT_TYPE: &str = "42809";
    pub(crate) const CANNOT_COERCE: &str = "42846";
    pub(crate) const DUPLICATE_FUNCTION: &str = "42723";
    pub(crate) const INVALID_FUNCTION: &str = "42P13";
    pub(crate) const UNDEFINED_FUNCTION: &str = "42883";
    pub(crate) const UNDEFINED_TABLE: &str = "42P01";
    pub(crate) const UNDEFINED_PARAMETER: &str = "42P02";
    pub(crate) const DUPLICATE_CURSOR: &str = "42P03";
    pub(crate) const DUPLICATE_STATEMENT: &str = "42P05";
    pub(crate) const DUPLICATE_TABLE: &str = "42P07";
    pub(crate) const WINDOWING_ERROR: &str = "42P20";
    pub(crate) const INVALID_RECURSION: &str = "42P19";
    pub(crate) const INVALID_COLUMN_REFERENCE: &str = "42P10";
    pub(crate) const INVALID_COLUMN_DEFINITION: &str = "42611";
    pub(crate) const INVALID_CURSOR_DEFINITION: &str = "42P11";
    pub(crate) const INVALID_TABLE_DEFINITION: &str = "42P16";
    pub(crate) const INVALID_OBJECT_DEFINITION: &str = "42P17";
    pub(crate) const INVALID_SCHEMA_DEFINITION: &str = "42P15";
    pub(crate) const COLLATION_MISMATCH: &str = "42P21";
    pub(crate) const INDETERMINATE_COLLATION: &str = "42P22";
    pub(crate) const DUPLICATE_ALIAS: &str = "42712";
    pub(crate) const AMBIGUOUS_ALIAS: &str = "42P09";
    pub(crate) const INDETERMINATE_DATATYPE: &str = "42P18";
    pub(crate) const DISK_FULL: &str = "53100";
    pub(crate) const OUT_OF_MEMORY: &str = "53200";
    pub(crate) const PROGRAM_LIMIT: &str = "54000";
    pub(crate) const TOO_MANY_COLUMNS: &str = "54011";
    pub(crate) const TOO_MANY_ARGUMENTS: &str = "54023";
    pub(crate) const TOO_COMPLEX: &str = "54001";
    pub(crate) const NOT_IN_STATE: &str = "55000";
    pub(crate) const OBJECT_IN_USE: &str = "55006";
    pub(crate) const LOCK_NOT_AVAILABLE: &str = "55P03";
    pub(crate) const SNAPSHOT_TOO_OLD: &str = "72000";
    pub(crate) const QUERY_CANCELED: &str = "57014";
    pub(crate) const IO_ERROR: &str = "58030";
    pub(crate) const INTERNAL: &str = "XX000";
    pub(crate) const DATA_CORRUPTED: &str = "XX001";
}

/// A failed statement, as PostgreSQL's clients expect it.
#[derive(Clone, Debug, PartialEq)]
pub struct SqlError {
    /// PostgreSQL's code.
    pub sqlstate: &'static str,
    /// What is wrong, in one sentence.
    pub message: String,
    /// More about this occurrence.
    pub detail: Option<String>,
    /// What could be done about it.
    pub hint: Option<String>,
    /// Where in the statement's text, in characters from 1.
    pub position: Option<usize>,
    /// The names of the objects that it is about.
    pub subject: Option<Box<Subject>>,
}

impl SqlError {
    /// An error with this code.
    pub fn new(sqlstate: &'static str, message: impl Into<String>) -> Self {
        assert_eq!(sqlstate.len(), 5, "a code has five characters");
        Self {
            sqlstate,
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            subject: None,
        }
    }

    /// What is not built yet.
    pub(crate) fn unsupported(what: impl fmt::Display) -> Self {
        Self::new(code::FEATURE_NOT_SUPPORTED, format!("{what} is not supported yet"))
    }

    pub(crate) fn syntax(message: impl Into<String>) -> Self {
        Self::new(code::SYNTAX_ERROR, message)
    }

    #[must_use]
    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Where it is, unless something deeper has said so.
    #[must_use]
    pub(crate) fn at(mut self, position: Option<usize>) -> Self {
        self.position = self.position.or(position);
        self
    }

    /// Is it about the statement as such, so that nothing else should be tried for it? A lock that
    /// was waited for too long, an interrupt, a conflict.
    pub(crate) fn ends_statement(&self) -> bool {
        matches!(self.sqlstate, code::LOCK_NOT_AVAILABLE | code::QUERY_CANCELED)
            || self.sqlstate.starts_with("40")
    }

    /// With names as clients know them.
    #[must_use]
    pub(crate) fn said(mut self) -> Self {
        let parts = [&mut self.detail, &mut self.hint].into_iter().flatten();
        for part in parts.chain([&mut self.message]) {
            if part.contains(names::SEPARATOR) {
                *part = names::said(part);
            }
        }
        self
    }

    /// May the same transaction succeed when it is run again from its start?
    pub fn is_retryable(&self) -> bool {
        matches!(self.sqlstate, code::SERIALIZATION_FAILURE | code::DEADLOCK)
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(detail) = &self.detail {
            write!(f, "\nDETAIL:  {detail}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nHINT:  {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SqlError {}

impl From<Error> for SqlError {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::Corruption { .. } => Self::new(code::DATA_CORRUPTED, message),
            Error::Conflict { kind: ConflictKind::Deadlock, what } => {
                Self::new(code::DEADLOCK, "deadlock detected").detail(what)
            }
            Error::Conflict { kind: ConflictKind::RowLocked, what } => {
                Self::new(code::LOCK_NOT_AVAILABLE, not_locked(&what)).detail(what)
            }
            Error::Conflict { what, .. } => {
                let message = "could not serialize access due to concurrent update";
                Self::new(code::SERIALIZATION_FAILURE, message).detail(what)
            }
            Error::UniqueViolation { table, index, columns, key } => {
                let message =
                    format!("duplicate key value violates unique constraint \"{}\"", bare(&index));
                Self::new(code::UNIQUE_VIOLATION, message)
                    .detail(format!("{} already exists.", shown_key(&columns, &key)))
                    .of_constraint(&table, &index)
            }
            Error::KeyTwice(_) => {
                let message = "ON CONFLICT DO UPDATE command cannot affect row a second time";
                Self::new(code::CARDINALITY, message).hint(
                    "Ensure that no rows proposed for insertion within the same command have \
                     duplicate constrained values.",
                )
            }
            Error::NotNullViolation { table, column } => {
                let message = format!(
                    "null value in column \"{column}\" of relation \"{}\" violates not-null \
                     constraint",
                    bare(&table)
                );
                Self::new(code::NOT_NULL_VIOLATION, message).of_column(&table, &column)
            }
            Error::CheckViolation { table, check, column, value } => {
                let message = format!(
                    "new row for relation \"{}\" violates check constraint \"{check}\"",
                    bare(&table)
                );
                Self::new(code::CHECK_VIOLATION, message)
                    .of_constraint(&table, &check)
                    .detail(format!("Column {column} has the value {value}."))
            }
            Error::NotFound(what) => Self::new(code::UNDEFINED_OBJECT, what),
            Error::AlreadyExists(what) => {
                Self::new(code::DUPLICATE_OBJECT, format!("{what} already exists"))
            }
            Error::Collation { of, what } => Self::new(code::NOT_IN_STATE, format!("{of}: {what}")),
            Error::Invalid(what) => Self::new(code::INVALID_PARAMETER, what),
            Error::Limit(what) | Error::RowTooLarge(what) => Self::new(code::PROGRAM_LIMIT, what),
            Error::OutOfMemory(what) => {
                Self::new(code::OUT_OF_MEMORY, "out of memory").detail(what)
            }
            Error::Io(_) | Error::Poisoned(_) => Self::new(code::IO_ERROR, message),
            Error::DiskFull(_) => Self::new(code::DISK_FULL, message),
            Error::LockTimeout { .. } => {
                Self::new(code::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout")
            }
            Error::Cancelled(_) => {
                Self::new(code::QUERY_CANCELED, "canceling statement due to user request")
                    .detail(message)
            }
            Error::Locked(_) => Self::new(code::OBJECT_IN_USE, message),
            Error::TransactionAborted => Self::failed_transaction(),
            Error::SnapshotTooOld { .. } => Self::new(code::SNAPSHOT_TOO_OLD, message),
            _ => Self::new(code::INTERNAL, message),
        }
    }
}

/// PostgreSQL's words for a row that somebody else has.
fn not_locked(what: &str) -> String {
    let table = what.split_once(" of table ").and_then(|(_, rest)| rest.split_once(" is locked"));
    let relation = table.map(|(table, _)| format!(" in relation \"{}\"", bare(table)));
    format!("could not obtain lock on row{}", relation.unwrap_or_default())
}

/// A key as PostgreSQL's messages show it. Of a key with an expression the values alone are shown.
pub(crate) fn shown_key(columns: &[String], key: &str) -> String {
    match columns.iter().any(|column| names::is_computed(column)) {
        true => format!("Key {key}"),
        false => format!("Key ({})={key}", columns.join(", ")),
    }
}

impl SqlError {
    pub(crate) fn failed_transaction() -> Self {
        let message = "current transaction is aborted, commands ignored until end of transaction \
                       block";
        Self::new(code::IN_FAILED_TRANSACTION, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflicts_can_be_retried_and_nothing_else() {
        let conflict = Error::conflict("t", rightlink::RowId::new(1, 1));
        assert!(SqlError::from(conflict).is_retryable());
        assert!(!SqlError::from(Error::Invalid("x".into())).is_retryable());
    }
}
