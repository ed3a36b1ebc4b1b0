//! Whether a row meets at most one row of a relation.
//!
//! Groups differ in their keys, rows without duplicates in all their columns, and rows of catalogs
//! in their numbers. A semi join with such rows by all these columns is an inner join, which the
//! planner may put in any order.
//!
//! Invariants: equal in the condition is equal in the groups. Does not do: unique indexes, of whose
//! keys a snapshot may see two rows (`Snapshot::may_see_key_twice`).

use std::collections::BTreeSet;

use crate::expr::{ColumnId, Expr};
use crate::plan::join::{equality, turned};
use crate::plan::rel::{JoinKind, Rel};
use crate::types::SqlType;

/// Do these conditions, all true, leave at most one row of `right` for a row that has the columns
/// `left`?
pub(super) fn meets_one(left: &BTreeSet<ColumnId>, right: &Rel, on: &[Expr]) -> bool {
    let Some(keys) = keys_of(right) else { return false };
    let own: BTreeSet<ColumnId> = right.columns().into_iter().collect();
    let of = |named: &BTreeSet<ColumnId>| {
        u64::from(!named.is_disjoint(left)) | u64::from(!named.is_disjoint(&own)) << 1
    };
    let given = |condition: &Expr| {
        let equality = turned(&equality(condition, &of, false)?, 1, 2)?;
        // Texts are equal by a collation, which may be another one.
        let is_text = equality.types.iter().any(|ty| matches!(ty, SqlType::Text | SqlType::Bpchar));
        match equality.sides {
            [_, Expr::Column(id)] if !is_text => Some(id),
            _ => None,
        }
    };
    let given: BTreeSet<ColumnId> = on.iter().filter_map(given).collect();
    keys.is_subset(&given)
}

/// Columns that no two rows of a relation have in common; `None` if it may have duplicates.
fn keys_of(rel: &Rel) -> Option<BTreeSet<ColumnId>> {
    match rel {
        Rel::Aggregate(group) if group.sets.is_empty() => {
            Some(group.keys.iter().map(|(id, _)| *id).collect())
        }
        Rel::Distinct { columns, .. } => Some(columns.iter().copied().collect()),
        Rel::SetOp(op) if !op.all => Some(op.columns.iter().copied().collect()),
        Rel::Filter { input, .. } | Rel::Sort { input, .. } => keys_of(input),
        Rel::Limit(limit) => keys_of(&limit.input),
        Rel::Project { input, output } => {
            let shown = |key: ColumnId| {
                let is_key = |expr: &Expr| matches!(expr, Expr::Column(id) if *id == key);
                output.iter().find(|(_, expr)| is_key(expr)).map(|(id, _)| *id)
            };
            keys_of(input)?.into_iter().map(shown).collect()
        }
        // A catalog that begins with a number has one row of each.
        Rel::View { view, columns, .. } => {
            let is_numbered = view.oid != 0 && matches!(view.columns, [("oid", SqlType::Oid), ..]);
            is_numbered.then(|| columns.iter().copied().take(1).collect())
        }
        Rel::Single => Some(BTreeSet::new()),
        Rel::Join(join) => match join.kind {
            JoinKind::Inner | JoinKind::Left => {
                let (left, right) = (keys_of(&join.left)?, keys_of(&join.right)?);
                Some(left.into_iter().chain(right).collect())
            }
            JoinKind::Semi | JoinKind::Anti => keys_of(&join.left),
            JoinKind::Right | JoinKind::Full => None,
        },
        _ => None,
    }
}
