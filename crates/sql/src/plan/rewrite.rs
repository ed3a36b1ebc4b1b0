//! The same relation in a form that is cheaper: conditions where the rows are, subqueries as joins.
//!
//! - A condition moves down to the relation whose columns it names, through projections, joins,
//!   groups and unions, as far as that changes no row.
//! - An OR over two sides of a join leaves on each side what every arm of it says of that side.
//! - An outer join whose missing rows a condition above leaves out becomes an inner one.
//! - `EXISTS` and `IN` among the conditions of a query become semi joins, `NOT EXISTS` an anti
//!   join, if what ties them to the query around are conditions that can be asked of pairs of rows.
//!   With rows of which each meets at most one, a semi join is an inner join.
//! - A common table expression that is read once becomes a part of what reads it.
//!
//! Invariants: every row comes out as often as before; a condition that calls a volatile function
//! stays where it is written. Does not do: the order of joins (`order`); scalar subqueries, which
//! run for each row and remember what they gave.

use std::collections::{BTreeMap, BTreeSet};

use crate::expr::{ColumnId, Expr, Subquery, SubqueryKind, columns_of};
use crate::plan::computed;
use crate::plan::rel::{BoundSubquery, CteBody, Grouping, Join, JoinKind, Rel};
use crate::plan::simplify::conjuncts;
use crate::plan::term::parts_of;
use crate::plan::unique::meets_one;
use crate::types::Datum;

/// Rewrites a relation.
pub(crate) fn rewrite(rel: Rel) -> Rel {
    let mut rel = inlined(rel);
    // Before conditions get another form, and after they have come down to the rows.
    computed::replace(&mut rel);
    let mut rel = push(rel, Vec::new());
    computed::replace(&mut rel);
    rel
}

/// May an expression be asked elsewhere, more or less often?
pub(super) fn may_move(expr: &Expr) -> bool {
    let mut moves = true;
    expr.walk(&mut |inner| {
        moves &= match inner {
            Expr::Sequence(..) => false,
            Expr::Call(function, _) => !function.volatile,
            Expr::Subquery(query) => {
                BoundSubquery::of(query).is_some_and(|inner| is_stable(&inner.rel))
            }
            _ => true,
        };
    });
    moves
}

/// Does a relation give the same rows each time?
pub(crate) fn is_stable(rel: &Rel) -> bool {
    let mut stable = true;
    rel.visit(&mut |one| stable &= one.exprs().into_iter().all(may_move));
    stable
}

/// Is a condition the same for all rows of a relation, and cheap to ask?
pub(crate) fn is_asked_once(one: &Expr) -> bool {
    may_move(one) && !one.has_query() && named(one).is_empty()
}

/// Columns of its own level that an expression names.
fn named(expr: &Expr) -> BTreeSet<ColumnId> {
    let mut out = BTreeSet::new();
    columns_of(expr, &mut out);
    out
}

/// The columns of a relation as a set.
fn columns(rel: &Rel) -> BTreeSet<ColumnId> {
    rel.columns().into_iter().collect()
}

/// A relation whose rows meet `conditions`, which are asked as far down as they can be.
fn push(rel: Rel, conditions: Vec<Expr>) -> Rel {
    match rel {
        Rel::Filter { input, conditions: own } => {
            let mut all = conjuncts(own);
            all.extend(conditions);
            let (once, all) = all.into_iter().partition(is_asked_once);
            let (input, all) = unnest(*input, all);
            push(input, all).filtered(once)
        }
        Rel::Join(join) => push_into_join(*join, conditions),
        Rel::Project { input, output } => {
            let plain: BTreeMap<ColumnId, Expr> = output
                .iter()
                .filter(|(_, expr)| is_cheap(expr))
                .map(|(id, expr)| (*id, expr.clone()))
                .collect();
            let own: BTreeSet<ColumnId> = output.iter().map(|(id, _)| *id).collect();
            let goes = |one: &Expr| {
                may_move(one)
                    && named(one).iter().all(|id| !own.contains(id) || plain.contains_key(id))
            };
            let (down, stay) = split(conditions, goes);
            let down = down.into_iter().map(|one| substituted(one, &plain)).collect();
            Rel::Project { input: Box::new(push(*input, down)), output }.filtered(stay)
        }
        Rel::Aggregate(group) => push_into_groups(group, conditions),
        Rel::Distinct { input, columns } => {
            let (down, stay) = split(conditions, may_move);
            Rel::Distinct { input: Box::new(push(*input, down)), columns }.filtered(stay)
        }
        Rel::Sort { input, keys } => {
            let (down, stay) = split(conditions, may_move);
            Rel::Sort { input: Box::new(push(*input, down)), keys }.filtered(stay)
        }
        Rel::Window { input, window } => {
            // Only what says the same of all rows of a partition leaves the others as they are.
            let keys: BTreeSet<ColumnId> = window.partition.iter().map(|key| key.at).collect();
            let goes = |one: &Expr| {
                let named = named(one);
                may_move(one) && !named.is_empty() && named.is_subset(&keys)
            };
            let (down, stay) = split(conditions, goes);
            Rel::Window { input: Box::new(push(*input, down)), window }.filtered(stay)
        }
        Rel::ProjectSet { input, calls } => {
            let own: BTreeSet<ColumnId> =
                calls.iter().flat_map(|call| call.columns.clone()).collect();
            let goes = |one: &Expr| may_move(one) && named(one).is_disjoint(&own);
            let (down, stay) = split(conditions, goes);
            Rel::ProjectSet { input: Box::new(push(*input, down)), calls }.filtered(stay)
        }
        Rel::DistinctOn { input, columns, sort } => {
            let input = Box::new(push(*input, Vec::new()));
            Rel::DistinctOn { input, columns, sort }.filtered(conditions)
        }
        Rel::Limit(mut limit) => {
            let input = std::mem::replace(&mut limit.input, Rel::Single);
            limit.input = push(input, Vec::new());
            Rel::Limit(limit).filtered(conditions)
        }
        Rel::SetOp(mut set) => {
            let (down, stay) = split(conditions, may_move);
            let side = |ids: &[ColumnId]| {
                let pairs = set.columns.iter().copied().zip(ids.iter().map(|id| Expr::Column(*id)));
                let names: BTreeMap<ColumnId, Expr> = pairs.collect();
                down.iter().map(|one| substituted(one.clone(), &names)).collect::<Vec<Expr>>()
            };
            let (of_left, of_right) = (side(&set.left_columns), side(&set.right_columns));
            set.left = push(std::mem::replace(&mut set.left, Rel::Single), of_left);
            set.right = push(std::mem::replace(&mut set.right, Rel::Single), of_right);
            Rel::SetOp(set).filtered(stay)
        }
        Rel::With { mut definitions, input } => {
            for definition in &mut definitions {
                match &mut definition.body {
                    CteBody::Query { rel, .. } => {
                        *rel = push(std::mem::replace(rel, Rel::Single), Vec::new());
                    }
                    CteBody::Recursive { first, step, .. } => {
                        *first = push(std::mem::replace(first, Rel::Single), Vec::new());
                        *step = push(std::mem::replace(step, Rel::Single), Vec::new());
                    }
                }
            }
            Rel::With { definitions, input: Box::new(push(*input, conditions)) }
        }
        leaf @ (Rel::Single
        | Rel::Scan(_)
        | Rel::Values { .. }
        | Rel::Function(_)
        | Rel::View { .. }
        | Rel::CteScan { .. }) => leaf.filtered(conditions),
    }
}

/// Groups whose rows meet `conditions`: what is said of keys that all sets have is asked below.
fn push_into_groups(mut group: Box<Grouping>, conditions: Vec<Expr>) -> Rel {
    // A key that a set of them has not is another value there.
    let always = |at: usize| group.sets.iter().all(|set| set.contains(&at));
    let kept = group.keys.iter().enumerate().filter(|(at, _)| always(*at));
    let keys: BTreeMap<ColumnId, Expr> = kept.map(|(_, key)| key.clone()).collect();
    let own: BTreeSet<ColumnId> =
        group_columns(&group).into_iter().filter(|id| !keys.contains_key(id)).collect();
    let goes = |one: &Expr| {
        let named = named(one);
        may_move(one)
            && !keys.is_empty()
            && named.is_disjoint(&own)
            && named.iter().all(|id| keys.get(id).is_none_or(is_cheap))
    };
    let (down, stay) = split(conditions, goes);
    let down = down.into_iter().map(|one| substituted(one, &keys)).collect();
    let input = std::mem::replace(&mut group.input, Rel::Single);
    group.input = push(input, down);
    Rel::Aggregate(group).filtered(stay)
}

/// Columns that groups have.
fn group_columns(group: &Grouping) -> Vec<ColumnId> {
    let keys = group.keys.iter().map(|(id, _)| *id);
    let aggregates = group.aggregates.iter().map(|(id, _)| *id);
    keys.chain(aggregates).chain(group.marks.iter().map(|mark| mark.id)).collect()
}

fn split(conditions: Vec<Expr>, goes: impl Fn(&Expr) -> bool) -> (Vec<Expr>, Vec<Expr>) {
    conditions.into_iter().partition(|one| goes(one))
}

/// Does it cost next to nothing to have it twice?
pub(crate) fn is_cheap(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) | Expr::Const(_) | Expr::Param(_) => true,
        Expr::Cast(inner, _) | Expr::Pad(inner, _) | Expr::Fit(inner, ..) => is_cheap(inner),
        _ => false,
    }
}

/// An expression with others in the place of columns, those of queries in it too.
pub(crate) fn substituted(mut expr: Expr, names: &BTreeMap<ColumnId, Expr>) -> Expr {
    expr.change(&mut |inner| match inner {
        Expr::Column(id) => {
            if let Some(other) = names.get(id) {
                *inner = other.clone();
            }
            false
        }
        Expr::Subquery(query) => {
            query.substitute(&mut |expr| {
                *expr = substituted(std::mem::replace(expr, Expr::null()), names)
            });
            true
        }
        _ => true,
    });
    expr
}

/// A join whose rows meet `conditions`.
fn push_into_join(join: Join, conditions: Vec<Expr>) -> Rel {
    let Join { mut kind, mut left, mut right, on, is_list } = join;
    let mut on = conjuncts(on);
    if kind == JoinKind::Right {
        // Columns have numbers, so the sides may change places.
        (kind, left, right) = (JoinKind::Left, right, left);
    }
    let (of_left, of_right) = (columns(&left), columns(&right));
    let rejects = |side: &BTreeSet<ColumnId>| {
        conditions.iter().any(|one| may_move(one) && is_untrue_of_nulls(one, side))
    };
    kind = match kind {
        JoinKind::Left if rejects(&of_right) => JoinKind::Inner,
        JoinKind::Full => match (rejects(&of_left), rejects(&of_right)) {
            (true, true) => JoinKind::Inner,
            // Rows that only the right side has are left out.
            (true, false) => JoinKind::Left,
            (false, true) => {
                (left, right) = (right, left);
                JoinKind::Left
            }
            (false, false) => JoinKind::Full,
        },
        other => other,
    };
    let (of_left, of_right) = (columns(&left), columns(&right));
    let only =
        |one: &Expr, other: &BTreeSet<ColumnId>| may_move(one) && named(one).is_disjoint(other);
    // A side that depends on the other one cannot take conditions away from it.
    let (mut to_left, mut to_right, mut stay) = (Vec::new(), Vec::new(), Vec::new());
    match kind {
        JoinKind::Inner => {
            let all = std::mem::take(&mut on).into_iter().chain(conditions);
            for one in all {
                match (only(&one, &of_right), only(&one, &of_left)) {
                    (true, _) => to_left.push(one),
                    (_, true) => to_right.push(one),
                    _ if may_move(&one) => {
                        to_left.extend(implied(&one, &of_right));
                        to_right.extend(implied(&one, &of_left));
                        on.push(one);
                    }
                    _ => stay.push(one),
                }
            }
        }
        JoinKind::Left => {
            for one in conditions {
                match only(&one, &of_right) {
                    true => to_left.push(one),
                    false => stay.push(one),
                }
            }
            let (down, kept) = split(on, |one| only(one, &of_left));
            (to_right, on) = (down, kept);
        }
        JoinKind::Semi | JoinKind::Anti => {
            for one in conditions {
                // A query for each row costs more than to look for a partner first.
                match may_move(&one) && !depends(&one) {
                    true => to_left.push(one),
                    false => stay.push(one),
                }
            }
            let (down, kept) = split(on, |one| only(one, &of_left));
            (to_right, on) = (down, kept);
        }
        JoinKind::Full | JoinKind::Right => stay = conditions,
    }
    let (left, right) = (push(left, to_left), push(right, to_right));
    below_outer_joins(Join { kind, left, right, on, is_list }).filtered(stay)
}

/// An inner join with what meets a row at most once, or with a few constant rows, comes before
/// outer joins on its other side, whose columns it does not ask for: it leaves no more rows to
/// these, and can be ordered with inner joins below them.
fn below_outer_joins(mut join: Join) -> Rel {
    if join.kind != JoinKind::Inner {
        return Rel::Join(Box::new(join));
    }
    if comes_first(&join.left, &join.right, &join.on) {
        let Rel::Join(mut outer) = std::mem::replace(&mut join.left, Rel::Single) else {
            unreachable!("it is a join")
        };
        join.left = std::mem::replace(&mut outer.left, Rel::Single);
        outer.left = below_outer_joins(join);
        return Rel::Join(outer);
    }
    if comes_first(&join.right, &join.left, &join.on) && join.right.free().is_empty() {
        let Rel::Join(mut outer) = std::mem::replace(&mut join.right, Rel::Single) else {
            unreachable!("it is a join")
        };
        join.right = std::mem::replace(&mut outer.left, Rel::Single);
        outer.left = below_outer_joins(join);
        return Rel::Join(outer);
    }
    Rel::Join(Box::new(join))
}

/// May an inner join of `outer` and `other` be made of the rows that are filled up in `outer`?
fn comes_first(outer: &Rel, other: &Rel, on: &[Expr]) -> bool {
    let Rel::Join(outer) = outer else { return false };
    if outer.kind != JoinKind::Left || !on.iter().all(may_move) {
        return false;
    }
    let filled = columns(&outer.right);
    let mut asked: BTreeSet<ColumnId> = on.iter().flat_map(named).collect();
    asked.extend(other.free());
    let is_apart = asked.is_disjoint(&filled);
    let is_few = || !on.is_empty() && is_constant(other);
    is_apart && (meets_one(&columns(&outer.left), other, on) || is_few())
}

/// Are the rows of a relation written in the statement?
fn is_constant(rel: &Rel) -> bool {
    match rel {
        Rel::Single | Rel::Values { .. } => true,
        Rel::Project { input, .. } | Rel::Filter { input, .. } => is_constant(input),
        Rel::SetOp(set) => is_constant(&set.left) && is_constant(&set.right),
        _ => false,
    }
}

/// What a condition of pairs says of one side alone: of an OR whose every arm says something about
/// it without the columns of the `other` side.
fn implied(condition: &Expr, other: &BTreeSet<ColumnId>) -> Option<Expr> {
    let Expr::Or(arms) = condition else { return None };
    let of_side = |one: &&Expr| {
        let named = named(one);
        may_move(one) && !one.has_query() && !named.is_empty() && named.is_disjoint(other)
    };
    let of_arm = |arm: &Expr| {
        let parts: Vec<Expr> = parts_of(arm).into_iter().filter(of_side).cloned().collect();
        (!parts.is_empty()).then_some(Expr::And(parts))
    };
    arms.iter().map(of_arm).collect::<Option<_>>().map(Expr::Or)
}

/// Does an expression have a query that depends on the row?
fn depends(expr: &Expr) -> bool {
    let mut found = false;
    expr.walk(&mut |inner| {
        found |= matches!(inner, Expr::Subquery(query) if !query.free().is_empty());
    });
    found
}

/// Is a condition not true where all of these columns are null?
fn is_untrue_of_nulls(condition: &Expr, side: &BTreeSet<ColumnId>) -> bool {
    match condition {
        Expr::And(list) => list.iter().any(|one| is_untrue_of_nulls(one, side)),
        Expr::Or(list) => !list.is_empty() && list.iter().all(|one| is_untrue_of_nulls(one, side)),
        Expr::IsNull(inner, true) => is_null_of_nulls(inner, side),
        Expr::Is(inner, Some(_), false) => is_null_of_nulls(inner, side),
        Expr::In(needle, _, _) => is_null_of_nulls(needle, side),
        Expr::Not(inner) => is_null_of_nulls(inner, side),
        other => is_null_of_nulls(other, side),
    }
}

/// Is a value null where all of these columns are?
fn is_null_of_nulls(expr: &Expr, side: &BTreeSet<ColumnId>) -> bool {
    match expr {
        Expr::Column(id) => side.contains(id),
        Expr::Const(Datum::Null) => true,
        Expr::Call(function, args) => {
            function.strict && args.iter().any(|arg| is_null_of_nulls(arg, side))
        }
        Expr::Cast(inner, _)
        | Expr::Pad(inner, _)
        | Expr::Fit(inner, ..)
        | Expr::Weights(inner, _) => is_null_of_nulls(inner, side),
        _ => false,
    }
}

/// Makes joins of queries among the conditions: the input with them, and the other conditions.
fn unnest(mut input: Rel, conditions: Vec<Expr>) -> (Rel, Vec<Expr>) {
    let mut rest = Vec::with_capacity(conditions.len());
    for condition in conditions {
        let (query, negated) = match condition {
            Expr::Subquery(query) => (query, false),
            Expr::Not(inner) => match *inner {
                Expr::Subquery(query) if query.kind.is_exists() => (query, true),
                other => {
                    rest.push(Expr::Not(Box::new(other)));
                    continue;
                }
            },
            other => {
                rest.push(other);
                continue;
            }
        };
        match joined(input, query, negated) {
            Ok(join) => input = join,
            Err((kept, query)) => {
                input = kept;
                let condition = Expr::Subquery(query);
                rest.push(if negated { Expr::Not(Box::new(condition)) } else { condition });
            }
        }
    }
    (input, rest)
}

/// What could not be made a join.
type Kept = (Rel, Box<Subquery>);

/// The semi or anti join that a query among the conditions of `input` is.
fn joined(input: Rel, mut query: Box<Subquery>, negated: bool) -> Result<Rel, Kept> {
    let Some(BoundSubquery { rel, .. }) = BoundSubquery::of(&query) else {
        return Err((input, query));
    };
    let compares = match &query.kind {
        SubqueryKind::Exists => false,
        SubqueryKind::Compare { all: false, needles, .. } => {
            let moves = needles.iter().all(|(_, needle)| may_move(needle));
            if !moves {
                return Err((input, query));
            }
            true
        }
        SubqueryKind::Compare { .. } | SubqueryKind::Scalar | SubqueryKind::Array { .. } => {
            return Err((input, query));
        }
    };
    let around = columns(&input);
    if !is_stable(rel) || (!compares && rel.free().is_disjoint(&around)) {
        // One that names nothing around it runs once anyway.
        return Err((input, query));
    }
    let whole = rel.clone();
    let core = if compares { whole } else { exists_core(whole) };
    let Some((right, mut on)) = decorrelated(core, &around) else { return Err((input, query)) };
    if let SubqueryKind::Compare { needles, test, .. } = &mut query.kind {
        let names: BTreeMap<ColumnId, Expr> = std::mem::take(needles).into_iter().collect();
        let test = std::mem::replace(test, Expr::null());
        on.extend(conjuncts(vec![substituted(test, &names)]));
    }
    let kind = match negated {
        true => JoinKind::Anti,
        false if meets_one(&around, &right, &on) => JoinKind::Inner,
        false => JoinKind::Semi,
    };
    Ok(Rel::Join(Box::new(Join { kind, left: input, right, on, is_list: false })))
}

/// What EXISTS asks about: order, values and duplicates do not matter.
fn exists_core(rel: Rel) -> Rel {
    match rel {
        Rel::Project { input, output } if output.iter().all(|(_, expr)| may_move(expr)) => {
            exists_core(*input)
        }
        Rel::Sort { input, .. } | Rel::Distinct { input, .. } | Rel::DistinctOn { input, .. } => {
            exists_core(*input)
        }
        Rel::Limit(limit) => match (&limit.limit, &limit.offset) {
            (None | Some(Expr::Const(Datum::Int8(1..))), None) => exists_core(limit.input),
            _ => Rel::Limit(limit),
        },
        other => other,
    }
}

/// A relation without columns of `around`, and the conditions that named them; `None` if other
/// parts of it name such.
fn decorrelated(rel: Rel, around: &BTreeSet<ColumnId>) -> Option<(Rel, Vec<Expr>)> {
    if rel.free().is_disjoint(around) {
        return Some((rel, Vec::new()));
    }
    match rel {
        Rel::Filter { input, conditions } => {
            let (ties, own): (Vec<Expr>, Vec<Expr>) =
                conjuncts(conditions).into_iter().partition(|one| !named(one).is_disjoint(around));
            // A query in such a condition would have to run for each pair of rows.
            if ties.iter().any(Expr::has_query) {
                return None;
            }
            let (input, mut on) = decorrelated(*input, around)?;
            on.extend(ties);
            Some((input.filtered(own), on))
        }
        Rel::Project { input, output } => {
            if output.iter().any(|(_, expr)| !named(expr).is_disjoint(around)) {
                return None;
            }
            let (input, on) = decorrelated(*input, around)?;
            // What the conditions name has to come through.
            let mut output = output;
            let there: BTreeSet<ColumnId> = output.iter().map(|(id, _)| *id).collect();
            let made = columns(&input);
            for id in on.iter().flat_map(named) {
                if made.contains(&id) && !there.contains(&id) {
                    output.push((id, Expr::Column(id)));
                }
            }
            Some((Rel::Project { input: Box::new(input), output }, on))
        }
        Rel::Join(join) if join.kind == JoinKind::Inner => {
            let Join { left, right, on, kind, is_list } = *join;
            let dependent = !right.free().is_disjoint(&columns(&left));
            if dependent {
                return None;
            }
            let (ties, own): (Vec<Expr>, Vec<Expr>) =
                conjuncts(on).into_iter().partition(|one| !named(one).is_disjoint(around));
            let (left, mut all) = decorrelated(left, around)?;
            let (right, more) = decorrelated(right, around)?;
            all.extend(more);
            all.extend(ties);
            Some((Rel::Join(Box::new(Join { kind, left, right, on: own, is_list })), all))
        }
        _ => None,
    }
}

/// The relation with common table expressions in their place that are read once, and without those
/// that nothing reads.
fn inlined(mut rel: Rel) -> Rel {
    for input in rel.inputs_mut() {
        *input = inlined(std::mem::replace(input, Rel::Single));
    }
    rel.exprs_mut().into_iter().for_each(|expr| {
        expr.change(&mut |inner| {
            if let Expr::Subquery(query) = inner
                && let Some(BoundSubquery { rel, .. }) = BoundSubquery::of_mut(query)
            {
                *rel = inlined(std::mem::take(rel));
            }
            true
        });
    });
    let Rel::With { definitions, mut input } = rel else { return rel };
    let mut kept = Vec::with_capacity(definitions.len());
    let mut rest = definitions;
    while let Some(definition) = rest.pop() {
        let number = definition.number;
        let later = |kept: &[crate::plan::rel::Cte], input: &Rel| {
            let of_kept: usize = kept.iter().map(|one| reads_in_cte(one, number)).sum();
            of_kept + reads(input, number)
        };
        let times = later(&kept, &input);
        match definition.body {
            CteBody::Query { rel, materialized }
                if materialized == Some(false)
                    || (materialized.is_none() && times == 1)
                    || times == 0 =>
            {
                if !is_stable(&rel) && times != 0 {
                    let body = CteBody::Query { rel, materialized };
                    kept.push(crate::plan::rel::Cte { body, ..definition });
                    continue;
                }
                if times > 1 {
                    // Each copy would need numbers of its own.
                    let body = CteBody::Query { rel, materialized };
                    kept.push(crate::plan::rel::Cte { body, ..definition });
                    continue;
                }
                let mut whole = Some((rel, definition.columns));
                replace_scan(&mut input, number, &mut whole);
                for one in &mut kept {
                    match &mut one.body {
                        CteBody::Query { rel, .. } => replace_scan(rel, number, &mut whole),
                        CteBody::Recursive { first, step, .. } => {
                            replace_scan(first, number, &mut whole);
                            replace_scan(step, number, &mut whole);
                        }
                    }
                }
            }
            body => kept.push(crate::plan::rel::Cte { body, ..definition }),
        }
    }
    kept.reverse();
    match kept.is_empty() {
        true => *input,
        false => Rel::With { definitions: kept, input },
    }
}

/// How often a relation reads a common table expression, in subqueries too. Within the second part
/// of a recursive one it counts as often.
fn reads(rel: &Rel, number: usize) -> usize {
    let mut count = 0;
    rel.visit(&mut |one| {
        if let Rel::CteScan { cte, .. } = one {
            count += usize::from(*cte == number);
        }
        for expr in one.exprs() {
            expr.walk(&mut |inner| {
                if let Expr::Subquery(query) = inner
                    && let Some(BoundSubquery { rel, .. }) = BoundSubquery::of(query)
                {
                    // It may run many times.
                    count += 2 * reads(rel, number);
                }
            });
        }
        if let Rel::With { definitions, .. } = one {
            for definition in definitions {
                if let CteBody::Recursive { step, .. } = &definition.body {
                    count += reads(step, number);
                }
            }
        }
    });
    count
}

fn reads_in_cte(cte: &crate::plan::rel::Cte, number: usize) -> usize {
    match &cte.body {
        CteBody::Query { rel, .. } => reads(rel, number),
        CteBody::Recursive { first, step, .. } => reads(first, number) + 2 * reads(step, number),
    }
}

/// Puts `whole` in the place of the scan of a common table expression.
fn replace_scan(rel: &mut Rel, number: usize, whole: &mut Option<(Rel, Vec<ColumnId>)>) {
    if let Rel::CteScan { cte, columns, .. } = rel
        && *cte == number
    {
        let Some((body, ids)) = whole.take() else { return };
        let output = columns.iter().copied().zip(ids.into_iter().map(Expr::Column)).collect();
        *rel = Rel::Project { input: Box::new(body), output };
        return;
    }
    for input in rel.inputs_mut() {
        replace_scan(input, number, whole);
    }
}
