//! `pg_prepared_statements` and `pg_cursors`: what a session tells of its own.
//!
//! Invariants: nothing is gathered for a statement that does not ask. Does not do: portals of the
//! protocol.

use super::Session;
use crate::catalog::Listing;
use crate::catalog::system_views::Kind;
use crate::plan::{Plan, ViewUse};
use crate::types::{Array, Datum, ElementType, RegKind, Registered, Row, SqlType};

/// Does a plan read one of the two?
pub(super) fn is_asked_by(plan: &Plan) -> bool {
    let names = |views: &[ViewUse]| {
        views.iter().any(|one| matches!(one.view.kind, Kind::Cursors | Kind::PreparedStatements))
    };
    match plan {
        Plan::Query(query) => names(&query.views),
        Plan::Insert(insert) => names(&insert.source.views) || names(&insert.reads.views),
        Plan::Change(change) => names(&change.reads.views),
        Plan::Locked(query) => names(&query.source.views) || names(&query.reads.views),
        Plan::With(with) => {
            is_asked_by(&with.main) || with.parts.iter().any(|part| is_asked_by(&part.plan))
        }
    }
}

/// Types as an array of `regtype`.
fn types(all: impl Iterator<Item = (SqlType, u32)>) -> Datum {
    let element = ElementType::of(SqlType::Reg(RegKind::Type)).expect("it is an element");
    let one = |(ty, oid): (SqlType, u32)| {
        let name = SqlType::name_of(oid).unwrap_or_else(|| ty.name());
        Registered::datum(RegKind::Type, oid, Some(name.to_owned()))
    };
    let array = Array::of(element, all.map(one).collect());
    array.map_or(Datum::Null, Datum::from)
}

impl Session {
    pub(super) fn listing(&self) -> Listing {
        let named = self.prepared.iter().filter(|(name, _)| !name.is_empty());
        let mut prepared_statements: Vec<Row> = named
            .map(|(name, prepared)| {
                let from_sql = prepared.text.is_empty();
                let statement = match from_sql {
                    true => prepared.written().map(|text| format!("PREPARE {name} AS {text}")),
                    false => Some(prepared.text.to_string()),
                };
                vec![
                    Datum::Text(name.clone()),
                    statement.map_or(Datum::Null, Datum::Text),
                    Datum::Timestamptz(prepared.at),
                    types(prepared.parameters()),
                    Datum::Bool(from_sql),
                    Datum::Null,
                    Datum::Int8(prepared.customs.count() as i64),
                ]
            })
            .collect();
        let mut cursors: Vec<Row> =
            self.cursors.iter().map(|(name, cursor)| cursor.row(name)).collect();
        let by_name = |a: &Row, b: &Row| a[0].compare(&b[0]);
        prepared_statements.sort_by(by_name);
        cursors.sort_by(by_name);
        Listing { prepared_statements, cursors }
    }
}
