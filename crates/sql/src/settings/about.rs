//! What each setting is for, under PostgreSQL's categories: the words of `pg_settings`.
//!
//! Invariants: names are those of the list of settings; one that is missing here has no words.
//! Does not do: values.

/// Category and purpose of a setting.
pub(super) fn about(name: &str) -> (&'static str, Option<&'static str>) {
    let found = ABOUT.iter().find(|(known, ..)| *known == name);
    found.map_or(("Ungrouped", None), |(_, category, text)| (category, Some(text)))
}

const ASYNCHRONOUS: &str = "Resource Usage / Asynchronous Behavior";
const DEVELOPER: &str = "Developer Options";
const FORMAT: &str = "Client Connection Defaults / Locale and Formatting";
const LOCKS: &str = "Lock Management";
const LOG: &str = "Write-Ahead Log / Settings";
const MEMORY: &str = "Resource Usage / Memory";
const METHODS: &str = "Query Tuning / Planner Method Configuration";
const OPTIMIZER: &str = "Query Tuning / Other Planner Options";
const PRESET: &str = "Preset Options";
const PREVIOUS: &str = "Version and Platform Compatibility / Previous PostgreSQL Versions";
const REPORTS: &str = "Reporting and Logging / What to Log";
const STATEMENTS: &str = "Client Connection Defaults / Statement Behavior";

/// Name, category, purpose.
static ABOUT: [(&str, &str, &str); 57] = [
    ("application_name", REPORTS, "What the client calls itself."),
    ("batch_rows", DEVELOPER, "Most rows that operators hand on at a time."),
    ("bytea_output", STATEMENTS, "How bytea is shown."),
    ("client_encoding", FORMAT, "Encoding of what the client sends and gets."),
    ("client_min_messages", STATEMENTS, "Least level of the messages that the client is sent."),
    ("datestyle", FORMAT, "How dates and times are shown."),
    ("deadlock_timeout", LOCKS, "Accepted; a deadlock is seen when its last wait begins."),
    ("default_table_access_method", STATEMENTS, "Access method of new tables."),
    ("default_transaction_isolation", STATEMENTS, "Isolation level of new transactions."),
    ("default_transaction_read_only", STATEMENTS, "Do new transactions only read?"),
    ("effective_io_concurrency", ASYNCHRONOUS, "Most reads at once of the pages of a table."),
    ("enable_bitmapscan", METHODS, "Accepted; nothing reads by bitmaps."),
    ("enable_hashagg", METHODS, "Accepted; groups are always made by hashes."),
    ("enable_hashjoin", METHODS, "May joins use a hash table?"),
    ("enable_incremental_sort", METHODS, "May sorts use an index that has the first keys?"),
    ("enable_indexonlyscan", METHODS, "May queries read an index that has all columns?"),
    ("enable_indexscan", METHODS, "May queries and joins read by an index?"),
    ("enable_indexscan_prefetch", METHODS, "Do index scans read ahead?"),
    ("enable_insert_prefetch", METHODS, "Are index pages read ahead that a statement writes to?"),
    ("enable_material", METHODS, "Accepted; joins by loop always keep the inner side."),
    ("enable_memoize", METHODS, "Accepted; joins by an index look each key up once."),
    ("enable_mergejoin", METHODS, "Accepted; no join merges."),
    ("enable_nestloop", METHODS, "May joins go by loop, or look rows up by an index?"),
    ("enable_seqscan", METHODS, "May queries read whole tables?"),
    ("enable_sort", METHODS, "May queries sort where an index has the order?"),
    ("enable_tidscan", METHODS, "Accepted; a place is always read by itself."),
    ("extra_float_digits", FORMAT, "Digits of numbers with a floating point."),
    ("from_collapse_limit", OPTIMIZER, "Most relations in FROM that are ordered together."),
    ("idle_in_transaction_session_timeout", STATEMENTS, "Longest rest inside of a transaction."),
    ("in_hot_standby", PRESET, "Is the server a standby?"),
    ("integer_datetimes", PRESET, "Are times whole numbers?"),
    ("intervalstyle", FORMAT, "How intervals are shown."),
    ("io_method", ASYNCHRONOUS, "How reads and writes reach the device."),
    ("is_superuser", PRESET, "May the user do everything?"),
    ("join_collapse_limit", OPTIMIZER, "Most relations of JOIN that are ordered together."),
    ("lock_timeout", STATEMENTS, "Longest wait for a lock."),
    ("maintenance_work_mem", MEMORY, "Accepted; the database's memory budget counts."),
    ("max_identifier_length", PRESET, "Most bytes of a name."),
    ("max_index_keys", PRESET, "Most columns of a key, as PostgreSQL has it."),
    ("max_prepared_transactions", PRESET, "Most transactions that are prepared at a time."),
    ("plan_cache_mode", OPTIMIZER, "Which plans prepared statements run by."),
    ("role", STATEMENTS, "As which role statements run."),
    ("row_security", STATEMENTS, "Accepted; there are no policies."),
    ("search_path", STATEMENTS, "Schemas in which names without one are looked for."),
    ("server_encoding", PRESET, "Encoding of the database."),
    ("server_version", PRESET, "Version that clients take the server for."),
    ("server_version_num", PRESET, "The same as a number."),
    ("session_authorization", PRESET, "The session's user."),
    ("standard_conforming_strings", PREVIOUS, "Is a backslash in '...' a character like others?"),
    ("statement_timeout", STATEMENTS, "Longest time that a statement may take."),
    ("synchronous_commit", LOG, "Does a commit wait for the log to be durable?"),
    ("timezone", FORMAT, "Time zone in which times are shown."),
    ("timezone_abbreviations", FORMAT, "Abbreviations of time zones that are known."),
    ("transaction_deferrable", STATEMENTS, "Accepted; nothing is deferred."),
    ("transaction_isolation", STATEMENTS, "Isolation level of this transaction."),
    ("transaction_read_only", STATEMENTS, "Does this transaction only read?"),
    ("work_mem", MEMORY, "Most memory of a sort or of the groups of a statement."),
];
