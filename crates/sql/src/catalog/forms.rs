//! The queries of several catalogs that are known: what they read, and which columns their
//! conditions and orders can name.
//!
//! A form lists the relations of FROM as a query spells them, what says how they belong together,
//! and the columns of a row that is made for it. Whatever else the query asks is read by `asked`
//! and `items`, or refused.
//!
//! Invariants: a query of a form has no relation, no join and no clause that the form does not
//! list.
//! Does not do: joins in general; other names of the relations than those that programs give them.

use sqlparser::ast::{self, GroupByExpr, JoinOperator, LimitClause, OrderByKind, TableFactor};

use super::asked::{self, Columns, Kind, Test, not_understood};
use super::{catalog_of, normal};
use crate::error::{Result, SqlError};

/// What the rows of a form are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rows {
    Relations,
    /// The indexes of each table.
    TableIndexes,
    Indexes,
    /// Of tables and of indexes.
    Columns,
    /// Checks and foreign keys.
    Constraints,
    Sequences,
    SequenceOwners,
    Schemas,
    /// There is nothing of the kind.
    Nothing,
}

/// A query that is known.
pub(super) struct Form {
    pub(super) rows: Rows,
    from: &'static [&'static str],
    /// Relations that may stand in FROM besides, and leave each row one row.
    also: &'static [&'static str],
    /// Conditions that must be there and are true of how the rows are made.
    belongs: &'static [&'static str],
    pub(super) columns: &'static Columns,
    /// The only GROUP BY: it has each row by itself.
    group: &'static str,
}

const NAMESPACE: &str = "join pg_namespace n on n.oid = c.relnamespace";
const ANY_NAMESPACE: &str = "left join pg_namespace n on n.oid = c.relnamespace";

static FORMS: [Form; 10] = [
    // psql's lists and its look for a name, pgbench's for its tables.
    Form {
        rows: Rows::Relations,
        from: &["pg_class c"],
        also: &[
            NAMESPACE,
            ANY_NAMESPACE,
            "join pg_namespace n on c.relnamespace = n.oid",
            "left join pg_am am on am.oid = c.relam",
            "left join pg_am am on c.relam = am.oid",
            "left join pg_class tc on c.reltoastrelid = tc.oid",
            "left join pg_index i on i.indexrelid = c.oid",
            "left join pg_class c2 on i.indrelid = c2.oid",
            "cross join lateral (select array_position(current_schemas(true), n.nspname)) o (n)",
            "left join pg_partitioned_table p on p.partrelid = c.oid",
            "left join pg_inherits i on c.oid = i.inhparent",
        ],
        belongs: &[],
        columns: &[
            ("c.oid", Kind::Number),
            ("c.relname", Kind::Text),
            ("c.relkind", Kind::Text),
            ("c.relpersistence", Kind::Text),
            ("c.relispartition", Kind::Bool),
            ("n.nspname", Kind::Text),
            ("am.amname", Kind::Text),
            ("c2.relname", Kind::Text),
            ("o.n", Kind::Number),
            ("pg_table_is_visible(c.oid)", Kind::Bool),
        ],
        group: "1, 2",
    },
    Form {
        rows: Rows::TableIndexes,
        from: &[
            "pg_class c",
            "pg_class c2",
            "pg_index i",
            "left join pg_constraint con on conrelid = i.indrelid and conindid = i.indexrelid \
             and contype in ('p', 'u', 'x')",
        ],
        also: &[],
        belongs: &["c.oid = i.indrelid", "i.indexrelid = c2.oid"],
        columns: &[
            ("c.oid", Kind::Number),
            ("i.indexrelid", Kind::Number),
            ("c2.relname", Kind::Text),
            ("i.indisprimary", Kind::Bool),
            ("i.indisunique", Kind::Bool),
        ],
        group: "",
    },
    Form {
        rows: Rows::Indexes,
        from: &["pg_index i", "pg_class c", "pg_class c2", "pg_am a"],
        also: &[],
        belongs: &["i.indexrelid = c.oid", "c.relam = a.oid", "i.indrelid = c2.oid"],
        columns: &[("c.oid", Kind::Number), ("c.relname", Kind::Text)],
        group: "",
    },
    Form {
        rows: Rows::Columns,
        from: &["pg_attribute a"],
        also: &["join pg_class c on c.oid = a.attrelid", NAMESPACE, ANY_NAMESPACE],
        belongs: &[],
        columns: &[
            ("a.attrelid", Kind::Number),
            ("a.attname", Kind::Text),
            ("a.attnum", Kind::Number),
            ("a.attnotnull", Kind::Bool),
            ("a.attisdropped", Kind::Bool),
            ("c.oid", Kind::Number),
            ("c.relname", Kind::Text),
            ("c.relkind", Kind::Text),
            ("n.nspname", Kind::Text),
        ],
        group: "",
    },
    CONSTRAINTS_R,
    CONSTRAINTS_C,
    Form {
        rows: Rows::Sequences,
        from: &["pg_sequence"],
        also: &[],
        belongs: &[],
        columns: &[("seqrelid", Kind::Number)],
        group: "",
    },
    Form {
        rows: Rows::SequenceOwners,
        from: &[
            "pg_class c",
            "join pg_depend d on c.oid = d.refobjid",
            NAMESPACE,
            "join pg_attribute a on a.attrelid = c.oid and a.attnum = d.refobjsubid",
        ],
        also: &[],
        belongs: &["d.classid = 'pg_class'::regclass", "d.refclassid = 'pg_class'::regclass"],
        columns: &[("d.objid", Kind::Number), ("d.deptype", Kind::Text)],
        group: "",
    },
    Form {
        rows: Rows::Schemas,
        from: &["pg_namespace n"],
        also: &[],
        belongs: &[],
        columns: &[("n.nspname", Kind::Text)],
        group: "",
    },
    NOTHING,
];

/// Of a table.
const CONSTRAINTS_R: Form = Form {
    rows: Rows::Constraints,
    from: &["pg_constraint r"],
    also: &[],
    belongs: &[],
    columns: &[
        ("r.conrelid", Kind::Number),
        ("r.contype", Kind::Text),
        ("conparentid", Kind::Number),
        ("conname", Kind::Text),
    ],
    group: "",
};

/// That name a table.
const CONSTRAINTS_C: Form = Form {
    rows: Rows::Constraints,
    from: &["pg_constraint c"],
    also: &[],
    belongs: &[],
    columns: &[
        ("confrelid", Kind::Number),
        ("contype", Kind::Text),
        ("conparentid", Kind::Number),
        ("conname", Kind::Text),
    ],
    group: "",
};

const NOTHING: Form =
    Form { rows: Rows::Nothing, from: &[], also: &[], belongs: &[], columns: &[], group: "" };

/// Catalogs of what the store does not have: always empty.
const EMPTY: [&str; 13] = [
    "pg_event_trigger",
    "pg_extension",
    "pg_foreign_server",
    "pg_foreign_table",
    "pg_inherits",
    "pg_partitioned_table",
    "pg_policy",
    "pg_publication",
    "pg_publication_namespace",
    "pg_publication_rel",
    "pg_statistic_ext",
    "pg_subscription",
    "pg_trigger",
];

/// Catalogs whose rows are all in the schemas of the system, but for what the last condition
/// leaves out.
const OF_SYSTEM: [(&str, &str); 2] = [
    ("pg_proc p", ""),
    (
        "pg_type t",
        "t.typrelid = 0 or (select c.relkind = 'c' from pg_class c where c.oid = t.typrelid)",
    ),
];

/// The form of a query.
pub(super) fn of(select: &ast::Select, conditions: &[&ast::Expr]) -> Result<&'static Form> {
    static NONE: Form = NOTHING;
    if reads_nothing(select, conditions) {
        return Ok(&NONE);
    }
    let pieces = pieces(select);
    let texts: Vec<String> = conditions.iter().map(|one| plain(one)).collect();
    let fits = |form: &&Form| {
        let (from, rest) = pieces.split_at(form.from.len().min(pieces.len()));
        !form.from.is_empty()
            && from == form.from
            && rest.iter().all(|piece| form.also.contains(&piece.as_str()))
            && form.belongs.iter().all(|one| texts.iter().any(|text| text == one))
    };
    let found = FORMS.iter().find(fits);
    found.ok_or_else(|| not_understood(&format!("from {}", pieces.join(" "))))
}

impl Form {
    /// What the conditions say beyond how the relations belong together.
    pub(super) fn test(&self, conditions: &[&ast::Expr]) -> Result<Test> {
        let mut parts = Vec::with_capacity(conditions.len());
        for condition in conditions {
            let text = plain(condition);
            if self.belongs.contains(&text.as_str()) {
                continue;
            }
            parts.push(match names_parent(&text) {
                Some(table) if self.rows == Rows::Constraints => Test::number("confrelid", table),
                _ => Test::read(condition, self.columns)?,
            });
        }
        Ok(Test::And(parts))
    }

    /// Fails if the query has a GROUP BY that takes rows together.
    pub(super) fn check_group(&self, group: &GroupByExpr) -> Result<()> {
        match group {
            GroupByExpr::Expressions(keys, more) if keys.is_empty() && more.is_empty() => Ok(()),
            GroupByExpr::Expressions(keys, more) if more.is_empty() => {
                let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
                match keys.join(", ") {
                    text if text == self.group => Ok(()),
                    text => Err(not_understood(&format!("group by {text}"))),
                }
            }
            other => Err(not_understood(&normal(&other.to_string()))),
        }
    }
}

/// The table that foreign keys are to name, as psql asks for those of a table or of what it is a
/// part of.
fn names_parent(text: &str) -> Option<&str> {
    let inner = text.strip_prefix("confrelid in (select pg_partition_ancestors('")?;
    let (first, rest) = inner.split_once("') union all values ('")?;
    let second = rest.strip_suffix("'::regclass))")?;
    (first == second).then_some(first)
}

/// A condition in normal spelling, without parentheses around it.
fn plain(condition: &ast::Expr) -> String {
    let mut inner = condition;
    while let ast::Expr::Nested(nested) = inner {
        inner = nested;
    }
    normal(&inner.to_string())
}

/// The relations of FROM and its joins, in normal spelling.
fn pieces(select: &ast::Select) -> Vec<String> {
    let mut pieces = Vec::new();
    for from in &select.from {
        pieces.push(normal(&from.relation.to_string()).replace(" as ", " "));
        for join in &from.joins {
            let text = normal(&join.to_string()).replace(" as ", " ");
            let text = text.trim().replace("left outer join", "left join");
            let text = text.strip_prefix("inner ").map_or(text.clone(), str::to_owned);
            let bare = text
                .split_once(" on (")
                .and_then(|(head, on)| Some(format!("{head} on {}", on.strip_suffix(')')?)));
            pieces.push(bare.unwrap_or(text));
        }
    }
    pieces
}

/// Has the query no rows, whatever else it asks, because there is nothing of what it reads?
fn reads_nothing(select: &ast::Select, conditions: &[&ast::Expr]) -> bool {
    let is_empty = |factor: &TableFactor| {
        catalog_of(factor).is_some_and(|name| EMPTY.contains(&name.as_str()))
    };
    let inner = |join: &ast::Join| {
        matches!(join.join_operator, JoinOperator::Join(_) | JoinOperator::Inner(_))
    };
    let left = |join: &ast::Join| {
        matches!(join.join_operator, JoinOperator::Left(_) | JoinOperator::LeftOuter(_))
    };
    let joins = || select.from.iter().flat_map(|from| &from.joins);
    if !joins().all(|join| inner(join) || left(join)) {
        return false;
    }
    let relations = select.from.iter().map(|from| &from.relation);
    let joined = joins().filter(|join| inner(join)).map(|join| &join.relation);
    if relations.chain(joined).any(is_empty) {
        return true;
    }
    let first = pieces(select);
    let has = |wanted: &str| wanted.is_empty() || conditions.iter().any(|one| plain(one) == wanted);
    let of_system = OF_SYSTEM
        .iter()
        .any(|(relation, only)| first.first().is_some_and(|first| first == relation) && has(only));
    of_system && has("n.nspname <> 'pg_catalog'") && has("n.nspname <> 'information_schema'")
}

/// A key that rows are sorted by.
pub(super) struct Key {
    pub(super) by: By,
    pub(super) kind: Kind,
    pub(super) descending: bool,
    pub(super) nulls_first: bool,
}

/// What a key is.
pub(super) enum By {
    /// A place in the list of SELECT.
    Item(usize),
    Column(String),
}

/// The keys of ORDER BY; `items` are the texts and names of the list.
pub(super) fn order(
    query: &ast::Query,
    items: &[(String, String)],
    columns: &Columns,
) -> Result<Vec<Key>> {
    let Some(order) = &query.order_by else { return Ok(Vec::new()) };
    let OrderByKind::Expressions(list) = &order.kind else {
        return Err(not_understood(&normal(&order.to_string())));
    };
    let kind_of =
        |text: &str| columns.iter().find(|(name, _)| *name == text).map(|(_, kind)| *kind);
    let mut keys = Vec::with_capacity(list.len());
    for item in list {
        let descending = match item.options.sort {
            None | Some(ast::OrderBySort::Asc) => false,
            Some(ast::OrderBySort::Desc) => true,
            Some(_) => return Err(not_understood(&normal(&item.to_string()))),
        };
        let text = normal(&item.expr.to_string());
        let number = text.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let named = match &item.expr {
            ast::Expr::Identifier(name) => items.iter().position(|(_, own)| *own == name.value),
            _ => None,
        };
        let (by, kind) = match number.filter(|at| *at < items.len()).or(named) {
            Some(at) => (By::Item(at), kind_of(&items[at].0).unwrap_or(Kind::Text)),
            None => match kind_of(&text) {
                Some(kind) => (By::Column(text), kind),
                None => return Err(not_understood(&format!("order by {text}"))),
            },
        };
        let nulls_first = item.options.nulls_first.unwrap_or(descending);
        keys.push(Key { by, kind, descending, nulls_first });
    }
    Ok(keys)
}

/// Order of two values of a key.
pub(super) fn compare(a: Option<&String>, b: Option<&String>, key: &Key) -> std::cmp::Ordering {
    use std::cmp::Ordering::{Equal, Greater, Less};
    match (a, b) {
        (None, None) => Equal,
        (None, Some(_)) => {
            if key.nulls_first {
                Less
            } else {
                Greater
            }
        }
        (Some(_), None) => {
            if key.nulls_first {
                Greater
            } else {
                Less
            }
        }
        (Some(a), Some(b)) => {
            let order = asked::compare(a, b, key.kind).unwrap_or(Equal);
            if key.descending { order.reverse() } else { order }
        }
    }
}

/// How many rows are left out in front, and how many come then.
#[derive(Default)]
pub(super) struct Limits {
    pub(super) skip: usize,
    pub(super) take: Option<usize>,
}

/// What LIMIT and OFFSET say.
pub(super) fn limits(query: &ast::Query) -> Result<Limits> {
    let count = |expr: &ast::Expr| {
        let text = normal(&expr.to_string());
        text.parse::<usize>().map_err(|_| not_understood(&format!("limit {text}")))
    };
    match &query.limit_clause {
        None => Ok(Limits::default()),
        Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
            Ok(Limits {
                skip: offset.as_ref().map_or(Ok(0), |offset| count(&offset.value))?,
                take: limit.as_ref().map(count).transpose()?,
            })
        }
        Some(other) => Err(not_understood(&normal(&other.to_string()))),
    }
}

/// Fails if the query has a clause that no form has.
pub(super) fn refuse_clauses(query: &ast::Query, select: &ast::Select) -> Result<()> {
    let refused = [
        (query.with.is_some(), "WITH"),
        (query.fetch.is_some(), "FETCH"),
        (!query.locks.is_empty(), "FOR UPDATE or FOR SHARE"),
        (select.distinct.is_some(), "DISTINCT"),
        (select.having.is_some(), "HAVING"),
        (select.into.is_some(), "INTO"),
        (!select.named_window.is_empty() || select.qualify.is_some(), "a window"),
    ];
    match refused.iter().find(|(found, _)| *found) {
        Some((_, what)) => {
            Err(SqlError::unsupported(format!("{what} in a query of several catalogs")))
        }
        None => Ok(()),
    }
}
