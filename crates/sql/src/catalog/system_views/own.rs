//! Settings, statistics and pages of indexes as relations, and the functions that give them.
//!
//! Invariants: they have all columns of PostgreSQL 15's, in its order, unless `docs/sql.md` says
//! otherwise; what is not known here is null. Does not do: their rows (`catalog::views`).

use super::{Kind, Told, View};
use crate::types::SqlType::{self, Bool, Float8, Int2, Int4, Int8, Name, Oid, Text, Tid};

type Columns = &'static [(&'static str, SqlType)];

const fn view(name: &'static str, oid: u32, kind: Kind, columns: Columns) -> View {
    View { name, oid, kind, columns, args: &[], told: Told::view(oid) }
}

const fn function(
    name: &'static str,
    kind: Kind,
    columns: Columns,
    args: &'static [SqlType],
) -> View {
    View { name, oid: 0, kind, columns, args, told: Told::view(0) }
}

pub(super) static OWN: [View; 9] = [
    view(
        "rightlink_vacuums",
        14_003,
        Kind::VacuumProgress,
        &[
            ("datname", Name),
            ("relid", Oid),
            ("relname", Name),
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
        13_993,
        Kind::Snapshots,
        &[
            ("transaction", Int8),
            ("snapshots", Int8),
            ("age_seconds", Float8),
            ("commits_since", Int8),
        ],
    ),
    view("rightlink_stats", 13_996, Kind::Figures, &[("name", Text), ("value", Int8)]),
    function(
        "bt_metap",
        Kind::TreeMeta,
        &[
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
        &[Text],
    ),
    function(
        "bt_page_stats",
        Kind::TreePage,
        &[
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
        &[Text, Int8],
    ),
    function(
        "bt_page_items",
        Kind::TreeItems,
        &[
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
        &[Text, Int8],
    ),
    function(
        "pg_get_keywords",
        Kind::Keywords,
        &[
            ("word", Text),
            ("catcode", Text),
            ("barelabel", Bool),
            ("catdesc", Text),
            ("baredesc", Text),
        ],
        &[],
    ),
    function(
        "pgstattuple",
        Kind::Tuples,
        &[
            ("table_len", Int8),
            ("tuple_count", Int8),
            ("tuple_len", Int8),
            ("tuple_percent", Float8),
            ("dead_tuple_count", Int8),
            ("dead_tuple_len", Int8),
            ("dead_tuple_percent", Float8),
            ("free_space", Int8),
            ("free_percent", Float8),
        ],
        &[Text],
    ),
    function(
        "pgstatindex",
        Kind::TreeStatistics,
        &[
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
        &[Text],
    ),
];

/// A sequence in FROM, whose name is the argument.
pub(crate) static SEQUENCE: View = function(
    "sequence",
    Kind::SequencePosition,
    &[("last_value", Int8), ("log_cnt", Int8), ("is_called", Bool)],
    &[Text],
);
