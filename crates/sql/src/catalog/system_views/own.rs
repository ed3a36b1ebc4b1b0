//! Settings, statistics and pages of indexes as relations, and the functions that give them.
//!
//! Invariants: they have all columns of PostgreSQL 15's, in its order, unless `docs/sql.md` says
//! otherwise; what is not known here is null. Does not do: their rows (`catalog::views`).

use super::{Kind, View};
use crate::types::SqlType::{self, Bool, Float8, Int2, Int4, Int8, Name, Oid, Text, Tid};

const fn view(name: &'static str, kind: Kind, columns: &'static [(&'static str, SqlType)]) -> View {
    View { name, oid: 0, kind, columns, args: &[] }
}

pub(super) static OWN: [View; 9] = [
    view(
        "pg_stat_progress_vacuum",
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
        Kind::Snapshots,
        &[
            ("transaction", Int8),
            ("snapshots", Int8),
            ("age_seconds", Float8),
            ("commits_since", Int8),
        ],
    ),
    view("rightlink_stats", Kind::Figures, &[("name", Text), ("value", Int8)]),
    View {
        name: "bt_metap",
        oid: 0,
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
        oid: 0,
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
        oid: 0,
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
        name: "pg_get_keywords",
        oid: 0,
        kind: Kind::Keywords,
        columns: &[
            ("word", Text),
            ("catcode", Text),
            ("barelabel", Bool),
            ("catdesc", Text),
            ("baredesc", Text),
        ],
        args: &[],
    },
    View {
        name: "pgstattuple",
        oid: 0,
        kind: Kind::Tuples,
        columns: &[
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
        args: &[Text],
    },
    View {
        name: "pgstatindex",
        oid: 0,
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

/// A sequence in FROM, whose name is the argument.
pub(crate) static SEQUENCE: View = View {
    name: "sequence",
    oid: 0,
    kind: Kind::SequencePosition,
    columns: &[("last_value", Int8), ("log_cnt", Int8), ("is_called", Bool)],
    args: &[Text],
};
