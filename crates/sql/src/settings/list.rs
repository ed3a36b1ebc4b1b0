//! The list of settings: names, defaults, and what values each takes.
//!
//! Invariants: a setting whose other values are not built refuses them.
//! Does not do: what is said about each (`about`), checking and keeping values (`settings`).

use super::planner::PlanCacheMode;
use super::{USER, VERSION};
use crate::types::time::IntervalStyle;

/// What values a setting takes.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// Cannot be set.
    Fixed,
    /// Any text.
    Text,
    /// Names of schemas.
    Schemas,
    Bool,
    /// One of these; others exist in PostgreSQL but not here.
    Only(&'static [&'static str]),
    /// The name of an encoding.
    Encoding,
    /// One of these.
    OneOf(&'static [&'static str]),
    /// A whole number between; others exist in PostgreSQL but not here.
    Int(i64, i64),
    /// A whole number between.
    Count(i64, i64),
    /// Milliseconds, with units, no less than so many.
    Millis(u64),
    /// Kilobytes, with units, no less than so many.
    Memory(u64),
    /// Style and order of dates.
    Dates,
    /// A time zone.
    Zone,
    /// Is what the database was opened with.
    Opened,
}

pub(super) struct Setting {
    pub(super) name: &'static str,
    /// Spelled as SHOW spells it.
    pub(super) default: &'static str,
    pub(super) kind: Kind,
}

const fn setting(name: &'static str, default: &'static str, kind: Kind) -> Setting {
    Setting { name, default, kind }
}

const LEVELS: &[&str] = &["read uncommitted", "read committed", "repeatable read"];
const MESSAGES: &[&str] =
    &["debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error"];

/// Is a message of this severity told where `least` is the value of `client_min_messages`?
pub(super) fn is_told(severity: &str, least: &str) -> bool {
    let rank = |level: &str| MESSAGES.iter().position(|known| known.eq_ignore_ascii_case(level));
    match severity {
        // Someone has asked for it.
        "INFO" => true,
        "DEBUG" => rank("debug1") >= rank(least),
        severity => rank(severity) >= rank(least),
    }
}

pub(super) static SETTINGS: [Setting; 68] = [
    setting("application_name", "", Kind::Text),
    setting("bytea_output", "hex", Kind::Only(&["hex"])),
    setting("client_encoding", "UTF8", Kind::Encoding),
    setting("client_min_messages", "notice", Kind::OneOf(MESSAGES)),
    setting("datestyle", "ISO, MDY", Kind::Dates),
    // A deadlock is seen when the last wait begins.
    setting("deadlock_timeout", "1000", Kind::Millis(1)),
    setting("default_transaction_isolation", "read committed", Kind::OneOf(LEVELS)),
    setting("default_transaction_read_only", "off", Kind::Bool),
    // The device's depth, unless less is asked for.
    setting("effective_io_concurrency", "0", Kind::Int(0, 1_000)),
    setting("enable_indexscan_prefetch", "on", Kind::Bool),
    setting("enable_insert_prefetch", "on", Kind::Bool),
    setting("extra_float_digits", "1", Kind::Int(1, 3)),
    setting("idle_in_transaction_session_timeout", "0", Kind::Millis(0)),
    setting("in_hot_standby", "off", Kind::Fixed),
    setting("integer_datetimes", "on", Kind::Fixed),
    setting("intervalstyle", "postgres", Kind::OneOf(IntervalStyle::NAMES)),
    setting("io_method", "", Kind::Opened),
    setting("is_superuser", "on", Kind::Fixed),
    setting("lock_timeout", "0", Kind::Millis(0)),
    // The database's memory budget alone bounds what builds and vacuums take.
    setting("maintenance_work_mem", "65536", Kind::Memory(1_024)),
    setting("max_identifier_length", "63", Kind::Fixed),
    setting("max_index_keys", "32", Kind::Fixed),
    // `rightlink::MAX_PREPARED`, which is part of the format.
    setting("max_prepared_transactions", "32", Kind::Fixed),
    setting("plan_cache_mode", "auto", Kind::OneOf(PlanCacheMode::NAMES)),
    setting("search_path", "\"$user\", public", Kind::Schemas),
    setting("server_encoding", "UTF8", Kind::Fixed),
    setting("server_version", VERSION, Kind::Fixed),
    setting("server_version_num", "150018", Kind::Fixed),
    setting("role", "none", Kind::Text),
    setting("session_authorization", USER, Kind::Text),
    setting("standard_conforming_strings", "on", Kind::Only(&["on", "true"])),
    setting("statement_timeout", "0", Kind::Millis(0)),
    setting("synchronous_commit", "on", Kind::OneOf(&["on", "off"])),
    setting("timezone", "UTC", Kind::Zone),
    setting("timezone_abbreviations", "Default", Kind::Only(&["Default"])),
    setting("transaction_isolation", "read committed", Kind::OneOf(LEVELS)),
    setting("transaction_read_only", "off", Kind::Bool),
    // What is switched off is chosen where nothing else is left.
    setting("enable_hashjoin", "on", Kind::Bool),
    setting("enable_incremental_sort", "on", Kind::Bool),
    setting("enable_indexonlyscan", "on", Kind::Bool),
    setting("enable_indexscan", "on", Kind::Bool),
    setting("enable_nestloop", "on", Kind::Bool),
    setting("enable_seqscan", "on", Kind::Bool),
    setting("enable_sort", "on", Kind::Bool),
    // Bound how many relations are ordered together, once they are set.
    setting("from_collapse_limit", "8", Kind::Count(1, i32::MAX as i64)),
    setting("join_collapse_limit", "8", Kind::Count(1, i32::MAX as i64)),
    // Accepted: there is one operator for groups, none that merges or reads by bitmaps, and what
    // PostgreSQL's nodes of these names do, joins and queries in expressions do by themselves.
    setting("enable_bitmapscan", "on", Kind::Bool),
    setting("enable_hashagg", "on", Kind::Bool),
    setting("enable_material", "on", Kind::Bool),
    setting("enable_memoize", "on", Kind::Bool),
    setting("enable_mergejoin", "on", Kind::Bool),
    setting("enable_tidscan", "on", Kind::Bool),
    setting("row_security", "on", Kind::Bool),
    // What dumps and drivers set, without an effect here: there are no function bodies, no xml, no
    // tablespaces, no compiled plans, and scans begin where they like.
    setting("array_nulls", "on", Kind::Bool),
    setting("check_function_bodies", "on", Kind::Bool),
    setting("default_tablespace", "", Kind::Only(&["", "pg_default"])),
    setting("default_transaction_deferrable", "off", Kind::Bool),
    setting("transaction_deferrable", "off", Kind::Bool),
    setting("escape_string_warning", "on", Kind::Bool),
    setting("password_encryption", "scram-sha-256", Kind::Only(&["scram-sha-256"])),
    setting("jit", "off", Kind::Bool),
    setting("quote_all_identifiers", "off", Kind::Bool),
    setting("synchronize_seqscans", "on", Kind::Bool),
    setting("temp_tablespaces", "", Kind::Only(&[""])),
    setting("xmloption", "content", Kind::OneOf(&["content", "document"])),
    setting("default_table_access_method", "heap", Kind::Only(&["heap"])),
    // Bounds sorts and groups below their share of the budget, once it is set.
    setting("work_mem", "4096", Kind::Memory(64)),
    // Rows are the same with any number; few of them show defects at the ends of batches.
    setting("batch_rows", "1024", Kind::Count(1, 1_024)),
];

/// Settings with a list of values in PostgreSQL, of which there is one here.
pub(super) const ENUMS: [&str; 1] = ["bytea_output"];

/// The settings that clients are told of, as they are spelled to them.
pub(super) const REPORTED: [(&str, &str); 13] = [
    ("application_name", "application_name"),
    ("client_encoding", "client_encoding"),
    ("DateStyle", "datestyle"),
    ("default_transaction_read_only", "default_transaction_read_only"),
    ("in_hot_standby", "in_hot_standby"),
    ("integer_datetimes", "integer_datetimes"),
    ("IntervalStyle", "intervalstyle"),
    ("is_superuser", "is_superuser"),
    ("server_encoding", "server_encoding"),
    ("server_version", "server_version"),
    ("session_authorization", "session_authorization"),
    ("standard_conforming_strings", "standard_conforming_strings"),
    ("TimeZone", "timezone"),
];
