//! Relations that are made up from what the store knows: catalogs, settings, statistics, pages of
//! indexes.
//!
//! Invariants: a column of a catalog is here only if the store can fill it, or if its value is the
//! same for every row of PostgreSQL's. Settings, statistics of tables and indexes and the functions
//! have all columns of PostgreSQL 15's, in its order; what is not known here is null. Numbers of
//! objects (oid) are bigint, names are text, lists are the text of PostgreSQL's arrays.
//! Does not do: their rows (`catalog::views`).

use crate::types::SqlType;

/// A relation, or a function in FROM.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) columns: &'static [(&'static str, SqlType)],
    /// Types of the arguments, if it is a function.
    pub(crate) args: &'static [SqlType],
}

/// What its rows are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Namespace,
    Collation,
    Class,
    Attribute,
    Type,
    Index,
    Constraint,
    Method,
    Tables,
    Indexes,
    Sequences,
    Sequence,
    Description,
    SharedDescription,
    ColumnStatistics,
    VacuumProgress,
    Snapshots,
    TableUse,
    IndexUse,
    Activity,
    Locks,
    Settings,
    TreeMeta,
    TreePage,
    TreeItems,
    TreeStatistics,
}

use SqlType::{Bool, Float4, Float8, Int2, Int4, Int8, Text, Tid, Timestamptz};

const fn view(name: &'static str, kind: Kind, columns: &'static [(&'static str, SqlType)]) -> View {
    View { name, kind, columns, args: &[] }
}

static VIEWS: [View; 26] = [
    view("pg_namespace", Kind::Namespace, &[("oid", Int8), ("nspname", Text), ("nspowner", Int8)]),
    view(
        "pg_collation",
        Kind::Collation,
        &[
            ("oid", Int8),
            ("collname", Text),
            ("collnamespace", Int8),
            ("collowner", Int8),
            ("collprovider", Text),
            ("collisdeterministic", Bool),
            ("collencoding", Int4),
            ("collcollate", Text),
            ("collctype", Text),
            ("colliculocale", Text),
            ("collversion", Text),
        ],
    ),
    view(
        "pg_class",
        Kind::Class,
        &[
            ("oid", Int8),
            ("relname", Text),
            ("relnamespace", Int8),
            ("relowner", Int8),
            ("relam", Int8),
            ("relpages", Int4),
            ("reltuples", Float4),
            ("relhasindex", Bool),
            ("relisshared", Bool),
            ("relpersistence", Text),
            ("relkind", Text),
            ("relnatts", Int2),
            ("relchecks", Int2),
            ("relispartition", Bool),
        ],
    ),
    view(
        "pg_attribute",
        Kind::Attribute,
        &[
            ("attrelid", Int8),
            ("attname", Text),
            ("atttypid", Int8),
            ("attlen", Int2),
            ("attnum", Int2),
            ("attndims", Int4),
            ("atttypmod", Int4),
            ("attnotnull", Bool),
            ("atthasdef", Bool),
            ("attidentity", Text),
            ("attgenerated", Text),
            ("attisdropped", Bool),
        ],
    ),
    view(
        "pg_type",
        Kind::Type,
        &[
            ("oid", Int8),
            ("typname", Text),
            ("typnamespace", Int8),
            ("typlen", Int2),
            ("typtype", Text),
            ("typcategory", Text),
            ("typispreferred", Bool),
            ("typdelim", Text),
            ("typrelid", Int8),
            ("typelem", Int8),
            ("typarray", Int8),
            ("typbasetype", Int8),
            ("typtypmod", Int4),
        ],
    ),
    view(
        "pg_index",
        Kind::Index,
        &[
            ("indexrelid", Int8),
            ("indrelid", Int8),
            ("indnatts", Int2),
            ("indnkeyatts", Int2),
            ("indisunique", Bool),
            ("indisprimary", Bool),
            ("indisvalid", Bool),
            ("indkey", Text),
        ],
    ),
    view(
        "pg_constraint",
        Kind::Constraint,
        &[
            ("oid", Int8),
            ("conname", Text),
            ("connamespace", Int8),
            ("contype", Text),
            ("condeferrable", Bool),
            ("condeferred", Bool),
            ("convalidated", Bool),
            ("conrelid", Int8),
            ("confrelid", Int8),
        ],
    ),
    view("pg_am", Kind::Method, &[("oid", Int8), ("amname", Text), ("amtype", Text)]),
    view(
        "pg_tables",
        Kind::Tables,
        &[("schemaname", Text), ("tablename", Text), ("tableowner", Text), ("hasindexes", Bool)],
    ),
    view(
        "pg_indexes",
        Kind::Indexes,
        &[("schemaname", Text), ("tablename", Text), ("indexname", Text), ("indexdef", Text)],
    ),
    view(
        "pg_sequences",
        Kind::Sequences,
        &[
            ("schemaname", Text),
            ("sequencename", Text),
            ("sequenceowner", Text),
            ("data_type", Text),
            ("start_value", Int8),
            ("min_value", Int8),
            ("max_value", Int8),
            ("increment_by", Int8),
            ("cycle", Bool),
            ("cache_size", Int8),
            ("last_value", Int8),
        ],
    ),
    view(
        "pg_sequence",
        Kind::Sequence,
        &[
            ("seqrelid", Int8),
            ("seqtypid", Int8),
            ("seqstart", Int8),
            ("seqincrement", Int8),
            ("seqmax", Int8),
            ("seqmin", Int8),
            ("seqcache", Int8),
            ("seqcycle", Bool),
        ],
    ),
    view(
        "pg_description",
        Kind::Description,
        &[("objoid", Int8), ("classoid", Int8), ("objsubid", Int4), ("description", Text)],
    ),
    view(
        "pg_shdescription",
        Kind::SharedDescription,
        &[("objoid", Int8), ("classoid", Int8), ("description", Text)],
    ),
    view(
        "pg_stats",
        Kind::ColumnStatistics,
        &[
            ("schemaname", Text),
            ("tablename", Text),
            ("attname", Text),
            ("inherited", Bool),
            ("null_frac", Float4),
            ("avg_width", Int4),
            ("n_distinct", Float4),
            ("most_common_vals", Text),
            ("most_common_freqs", Text),
            ("histogram_bounds", Text),
            ("correlation", Float4),
        ],
    ),
    view(
        "pg_stat_progress_vacuum",
        Kind::VacuumProgress,
        &[
            ("datname", Text),
            ("relid", Int8),
            ("relname", Text),
            ("automatic", Bool),
            ("phase", Text),
            ("heap_blks_total", Int8),
            ("heap_blks_scanned", Int8),
            ("index_vacuum_count", Int8),
            ("index_blks_total", Int8),
            ("index_blks_vacuumed", Int8),
            ("num_dead_tuples", Int8),
        ],
    ),
    view(
        "rightlink_snapshots",
        Kind::Snapshots,
        &[
            ("transaction", Int8),
            ("snapshots", Int8),
            ("age_seconds", Float8),
            ("commits_since", Int8),
        ],
    ),
    view(
        "pg_stat_user_tables",
        Kind::TableUse,
        &[
            ("relid", Int8),
            ("schemaname", Text),
            ("relname", Text),
            ("seq_scan", Int8),
            ("seq_tup_read", Int8),
            ("idx_scan", Int8),
            ("idx_tup_fetch", Int8),
            ("n_tup_ins", Int8),
            ("n_tup_upd", Int8),
            ("n_tup_del", Int8),
            ("n_tup_hot_upd", Int8),
            ("n_live_tup", Int8),
            ("n_dead_tup", Int8),
            ("n_mod_since_analyze", Int8),
            ("n_ins_since_vacuum", Int8),
            ("last_vacuum", Timestamptz),
            ("last_autovacuum", Timestamptz),
            ("last_analyze", Timestamptz),
            ("last_autoanalyze", Timestamptz),
            ("vacuum_count", Int8),
            ("autovacuum_count", Int8),
            ("analyze_count", Int8),
            ("autoanalyze_count", Int8),
        ],
    ),
    view(
        "pg_stat_user_indexes",
        Kind::IndexUse,
        &[
            ("relid", Int8),
            ("indexrelid", Int8),
            ("schemaname", Text),
            ("relname", Text),
            ("indexrelname", Text),
            ("idx_scan", Int8),
            ("idx_tup_read", Int8),
            ("idx_tup_fetch", Int8),
        ],
    ),
    view(
        "pg_stat_activity",
        Kind::Activity,
        &[
            ("datname", Text),
            ("pid", Int4),
            ("usename", Text),
            ("application_name", Text),
            ("client_addr", Text),
            ("client_port", Int4),
            ("backend_start", Timestamptz),
            ("xact_start", Timestamptz),
            ("query_start", Timestamptz),
            ("state_change", Timestamptz),
            ("wait_event_type", Text),
            ("wait_event", Text),
            ("state", Text),
            ("query", Text),
            ("backend_type", Text),
        ],
    ),
    view(
        "pg_locks",
        Kind::Locks,
        &[
            ("locktype", Text),
            ("relation", Int8),
            ("relname", Text),
            ("transactionid", Int8),
            ("virtualtransaction", Text),
            ("pid", Int4),
            ("mode", Text),
            ("granted", Bool),
        ],
    ),
    view(
        "pg_settings",
        Kind::Settings,
        &[
            ("name", Text),
            ("setting", Text),
            ("unit", Text),
            ("category", Text),
            ("short_desc", Text),
            ("extra_desc", Text),
            ("context", Text),
            ("vartype", Text),
            ("source", Text),
            ("min_val", Text),
            ("max_val", Text),
            ("enumvals", Text),
            ("boot_val", Text),
            ("reset_val", Text),
            ("sourcefile", Text),
            ("sourceline", Int4),
            ("pending_restart", Bool),
        ],
    ),
    View {
        name: "bt_metap",
        kind: Kind::TreeMeta,
        columns: &[
            ("magic", Int4),
            ("version", Int4),
            ("root", Int8),
            ("level", Int8),
            ("fastroot", Int8),
            ("fastlevel", Int8),
            ("last_cleanup_num_delpages", Int8),
            ("last_cleanup_num_tuples", Float8),
            ("allequalimage", Bool),
        ],
        args: &[Text],
    },
    View {
        name: "bt_page_stats",
        kind: Kind::TreePage,
        columns: &[
            ("blkno", Int8),
            ("type", Text),
            ("live_items", Int4),
            ("dead_items", Int4),
            ("avg_item_size", Int4),
            ("page_size", Int4),
            ("free_size", Int4),
            ("btpo_prev", Int8),
            ("btpo_next", Int8),
            ("btpo_level", Int8),
            ("btpo_flags", Int4),
        ],
        args: &[Text, Int8],
    },
    View {
        name: "bt_page_items",
        kind: Kind::TreeItems,
        columns: &[
            ("itemoffset", Int2),
            ("ctid", Tid),
            ("itemlen", Int2),
            ("nulls", Bool),
            ("vars", Bool),
            ("data", Text),
            ("dead", Bool),
            ("htid", Tid),
            ("tids", Text),
        ],
        args: &[Text, Int8],
    },
    View {
        name: "pgstatindex",
        kind: Kind::TreeStatistics,
        columns: &[
            ("version", Int4),
            ("tree_level", Int4),
            ("index_size", Int8),
            ("root_block_no", Int8),
            ("internal_pages", Int8),
            ("leaf_pages", Int8),
            ("empty_pages", Int8),
            ("deleted_pages", Int8),
            ("avg_leaf_density", Float8),
            ("leaf_fragmentation", Float8),
        ],
        args: &[Text],
    },
];

/// The relation of a name; a schema in front must be that of the catalogs.
pub(crate) fn relation(parts: &[String]) -> Option<&'static View> {
    named(parts).filter(|view| view.args.is_empty())
}

/// The function of a name.
pub(crate) fn function(name: &str) -> Option<&'static View> {
    VIEWS.iter().find(|view| view.name == name && !view.args.is_empty())
}

fn named(parts: &[String]) -> Option<&'static View> {
    let name = match parts {
        [name] => name,
        [schema, name] if schema == "pg_catalog" => name,
        _ => return None,
    };
    VIEWS.iter().find(|view| view.name == *name)
}
