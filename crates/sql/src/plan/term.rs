//! What one condition says about a column, and values as a column holds them.
//!
//! Invariants: a bound that its column cannot hold is no bound or no row ([`Fit`]).
//! Does not do: choosing an index (`path`).

use rightlink::{Collation, Value};

use crate::error::Result;
use crate::expr::{Context, Expr};
use crate::plan::TableScan;
use crate::types::{Datum, SqlType};

/// A condition on one column.
pub(super) enum Term {
    Equal(Expr),
    Null,
    Low(Expr, bool),
    High(Expr, bool),
    AnyOf(Keys),
}

/// Values that a column has one of.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    List(Vec<Expr>),
    /// The elements of an array.
    Elements(Expr),
}

impl Keys {
    /// How many there are thought to be.
    pub(super) fn expected(&self) -> usize {
        match self {
            Keys::List(list) => list.len(),
            Keys::Elements(_) => ELEMENTS,
        }
    }

    /// The expressions that they are values of.
    pub(crate) fn exprs(&self) -> &[Expr] {
        match self {
            Keys::List(list) => list,
            Keys::Elements(array) => std::slice::from_ref(array),
        }
    }

    /// The same, to change them.
    pub(super) fn exprs_mut(&mut self) -> &mut [Expr] {
        match self {
            Keys::List(list) => list,
            Keys::Elements(array) => std::slice::from_mut(array),
        }
    }

    /// Calls `take` with each.
    pub(crate) fn each(&self, context: &Context, take: &mut dyn FnMut(Datum)) -> Result<()> {
        match self {
            Keys::List(list) => {
                for value in list {
                    take(value.eval(&[], context)?);
                }
            }
            Keys::Elements(array) => {
                if let Datum::Array(array) = array.eval(&[], context)? {
                    context.spend(array.values().len())?;
                    array.values().iter().cloned().for_each(take);
                }
            }
        }
        Ok(())
    }
}

/// Elements that an array is thought to have, as PostgreSQL thinks.
pub(crate) const ELEMENTS: usize = 10;

/// The parts of a conjunction, and of those in it.
pub(crate) fn flatten(list: Vec<Expr>) -> Vec<Expr> {
    let mut out = Vec::with_capacity(list.len());
    for item in list {
        match item {
            Expr::And(inner) => out.extend(flatten(inner)),
            other => out.push(other),
        }
    }
    out
}

/// Puts conditions behind the others that look into catalogs or have a query for each row: those
/// that are false before spare them, as in PostgreSQL.
pub(super) fn put_dear_last(conditions: &mut [Expr]) {
    conditions.sort_by_cached_key(|one| {
        let mut is_dear = false;
        one.walk(&mut |inner| {
            is_dear |= matches!(inner, Expr::Subquery(_)) || inner.reads_catalog();
        });
        is_dear
    });
}

/// The same of one condition, where they stand.
pub(crate) fn parts_of(condition: &Expr) -> Vec<&Expr> {
    match condition {
        Expr::And(list) => list.iter().flat_map(parts_of).collect(),
        other => vec![other],
    }
}

/// What `conjunct` says about a column of the table, in a form that an index can use.
pub(super) fn term(
    scan: &TableScan,
    conjunct: &Expr,
    column: usize,
    collation: Option<&Collation>,
) -> Option<Term> {
    let is_column = |expr: &Expr| match expr {
        Expr::Column(at) => scan.columns.get(*at) == Some(&column),
        _ => false,
    };
    let own = scan.table.types[column];
    match conjunct {
        Expr::Call(function, args) => {
            let [a, b] = args.as_slice() else { return None };
            let ((a, b), under) = (without_weights(a, b), weights_of(a));
            let flipped = is_column(b);
            let (name, value) = match (is_column(a), flipped) {
                (true, false) => (function.name, b),
                (false, true) => (flip(function.name), a),
                _ => return None,
            };
            let [x, y] = function.args.as_slice() else { return None };
            let other = if flipped { *x } else { *y };
            let other = if under.is_some() { SqlType::Text } else { other };
            if !serves(collation, under, name == "=") {
                return None;
            }
            if !value.is_stable() || !fits_key(other, own) {
                return None;
            }
            let value = value.clone();
            match name {
                "=" => Some(Term::Equal(value)),
                "<" => Some(Term::High(value, false)),
                "<=" => Some(Term::High(value, true)),
                ">" => Some(Term::Low(value, false)),
                ">=" => Some(Term::Low(value, true)),
                _ => None,
            }
        }
        Expr::In(needle, list, false) if list.iter().all(Expr::is_stable) => {
            let plain = |expr: &Expr| without_weights(expr, expr).0.clone();
            let under = weights_of(needle);
            let found = is_column(&plain(needle)) && serves(collation, under, true);
            found.then(|| Term::AnyOf(Keys::List(list.iter().map(plain).collect())))
        }
        Expr::AnyOf(any) if !any.all && any.array.is_stable() => {
            let Expr::Call(function, pair) = &any.test else { return None };
            // The value and the elements are compared as they are, or without the blanks at their
            // ends.
            let is_plain = pair.iter().enumerate().all(|(at, side)| {
                let (side, _) = without_weights(side, side);
                matches!(side, Expr::Column(place) if *place == at)
            });
            let under = pair.first().and_then(weights_of);
            let other = if under.is_some() { SqlType::Text } else { *function.args.get(1)? };
            let found = function.name == "="
                && is_plain
                && fits_key(other, own)
                && is_column(&any.needle)
                && serves(collation, under, true);
            found.then(|| Term::AnyOf(Keys::Elements(any.array.clone())))
        }
        Expr::IsNull(inner, false) if is_column(inner) => Some(Term::Null),
        _ => None,
    }
}

/// Texts in place of their sort keys.
fn without_weights<'e>(a: &'e Expr, b: &'e Expr) -> (&'e Expr, &'e Expr) {
    match (a, b) {
        (Expr::Weights(a, _), Expr::Weights(b, _)) => (a, b),
        both => both,
    }
}

/// What a text is compared under.
fn weights_of(expr: &Expr) -> Option<&Collation> {
    match expr {
        Expr::Weights(_, collation) => Some(collation),
        _ => None,
    }
}

/// Can a key column under `own` tell how a comparison under `wanted` comes out? Of texts that are
/// equal to the byte any key can that tells others apart.
fn serves(own: Option<&Collation>, wanted: Option<&Collation>, equality: bool) -> bool {
    let exact = wanted.is_none() && equality && own.is_some_and(Collation::is_deterministic);
    own == wanted || exact
}

/// Can a key column of type `own` tell how its values compare with those of type `other`?
pub(super) fn fits_key(other: SqlType, own: SqlType) -> bool {
    let text = other == SqlType::Text && own == SqlType::Bpchar;
    other == own || text || compares_alike(other, own)
}

/// Do values of two types compare as those of one do?
pub(super) fn compares_alike(a: SqlType, b: SqlType) -> bool {
    let is_address = |ty| matches!(ty, SqlType::Inet | SqlType::Cidr);
    is_integer(a) && is_integer(b) || is_address(a) && is_address(b)
}

pub(super) fn is_integer(ty: SqlType) -> bool {
    matches!(ty, SqlType::Int2 | SqlType::Int4 | SqlType::Int8)
}

pub(super) fn flip(name: &str) -> &str {
    match name {
        "<" => ">",
        "<=" => ">=",
        ">" => "<",
        ">=" => "<=",
        other => other,
    }
}

/// A value as its key column holds it.
pub(crate) enum Fit {
    Is(Value),
    /// Smaller than everything that the column can hold.
    Below,
    /// Larger than everything.
    Above,
    Null,
}

pub(crate) fn fit(value: Datum, ty: SqlType) -> Fit {
    if value.is_null() {
        return Fit::Null;
    }
    let Some(whole) = value.as_int().filter(|_| is_integer(ty)) else {
        return fit_number(value);
    };
    let (low, high) = match ty {
        SqlType::Int2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        SqlType::Int4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    };
    match (whole < low, whole > high) {
        (true, _) => Fit::Below,
        (_, true) => Fit::Above,
        _ => Fit::Is(match ty {
            SqlType::Int2 => Value::Int2(whole as i16),
            SqlType::Int4 => Value::Int4(whole as i32),
            _ => Value::Int8(whole),
        }),
    }
}

fn fit_number(value: Datum) -> Fit {
    value.into_value().map_or(Fit::Null, Fit::Is)
}
