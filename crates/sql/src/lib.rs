//! SQL as PostgreSQL speaks it, over a Rightlink database in the same process.
//!
//! ```
//! use rightlink::Database;
//! use rightlink_sql::{Datum, Session};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path();
//! let db = Database::open(path)?;
//! let mut session = Session::new(&db);
//! session.execute("create table flight (id bigint primary key, tail text, delay integer)")?;
//! session.execute("insert into flight values (1, 'N14228', 11), (2, 'N24211', 20)")?;
//! session.execute("insert into flight (id, tail) values (3, 'N14228')")?;
//! let sql = "select tail, count(*), avg(delay) from flight group by tail order by 1";
//! let results = session.execute(sql)?;
//! assert_eq!(results[0].rows[0][0], Datum::Text("N14228".into()));
//! assert_eq!(results[0].rows[0][2].to_text().as_deref(), Some("11.0000000000000000"));
//!
//! let error = session.execute("insert into flight values (1, 'again', 0)").unwrap_err();
//! assert_eq!(error.sqlstate, "23505");
//! # Ok(())
//! # }
//! ```
//!
//! A [`Session`] is what a connection is in PostgreSQL: it has a transaction, settings, prepared
//! statements and cursors. It parses with sqlparser's PostgreSQL dialect, binds names and types as
//! PostgreSQL does, and plans and runs them by itself. Errors carry PostgreSQL's codes
//! ([`SqlError`]).
//!
//! A session can be used on a thread of any size of stack. Where a message may need more than is
//! left, it runs on a thread of its own; a thread with [`STACK`] runs every message by itself.
//!
//! Modules in layers, the highest first; imports go strictly down:
//!
//! | module | hides |
//! |---|---|
//! | `session` | transactions, prepared statements, cursors: what a connection is |
//! | `exec` | running plans |
//! | `bind` | syntax to the algebra: names, types, operators |
//! | `copy` | rows in and out in bulk |
//! | `plan` | the algebra, and by which operators and indexes a statement runs |
//! | `expr` | expressions, functions, aggregates |
//! | `catalog` | what psql and others ask of PostgreSQL's catalogs |
//! | `activity` | sessions as they see each other, advisory locks, notifications |
//! | `roles` | roles, and what each may do to which object |
//! | `settings` | SET, SHOW, RESET |
//! | `user_types`, `schemas` | what names mean along the search path |
//! | `statistics` | what ANALYZE has found out |
//! | `interrupt` | ending a statement from another thread |
//! | `notes` | properties of definitions that SQL keeps beside those of the store |
//! | `parse` | text to syntax |
//! | `types` | PostgreSQL's types and values |
//! | `names`, `oids` | names with schemas in front, the search path; numbers |
//! | `privileges` | privileges, and for which kinds of objects there are which |
//!
//! Answers differ from PostgreSQL's in these places:
//!
//! - `update t set a = a + 1`, where another row has the new key: a unique key is checked when all
//!   rows are changed. PostgreSQL fails at the first row whose new key is there.
//! - A constant that fails, inside of CASE or beside a table, fails when it is evaluated.
//!   PostgreSQL fails when it plans the statement.
//! - GROUP BY and DISTINCT of `character` values of several lengths are refused.
//! - COPY in CSV: a line `\.` inside of quotes is a part of the value. PostgreSQL 15 ends the data.
//!
//! Invariants: whatever is not built is refused with `0A000` and named, never half done. A plan
//! never holds what belongs to one execution. Everything here is synchronous.
//! Does not do: passwords, which the server checks.

mod activity;
mod bind;
mod catalog;
mod copy;
mod encoding;
mod error;
mod exec;
mod expr;
mod interrupt;
mod names;
mod notes;
mod oids;
mod parse;
mod plan;
mod privileges;
mod roles;
mod schemas;
mod session;
mod settings;
mod statistics;
mod types;
mod user_types;

pub use activity::notifications::Notification;
pub use activity::{Activity, TransactionStatus, Who};
pub use copy::csv::{CsvByte, CsvDialect, CsvField, CsvValue};

pub use encoding::Encoding;
pub use error::{Result, SqlError, Subject};
pub use interrupt::{Interrupt, Reason};
pub use names::{SEPARATOR, said as shown_text, shown_name, stored_name};
pub use notes::{
    column_type, generation_expression, has_sql_default, index_expression, is_materialized_view,
    is_view,
};
pub use parse::copy::CopyFormat;
pub use parse::is_complete;
pub use plan::Column;
pub use roles::role::{is_member, role_password};

pub use session::{AutoAnalyze, CopyHeader, Description, Execution, Outcome, STACK, Session, Sink};
pub use types::{
    Array, Bits, CompositeType, Datum, Decimal, Dimension, ElementType, EnumType, EnumValue, Field,
    Interval, JsonPath, Jsonb, Lsn, Network, Record, RegKind, Registered, Row, SqlType, Times,
    ZonedTime,
};

/// The examples of the README, compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
