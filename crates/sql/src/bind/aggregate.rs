//! Calls of aggregates: their types, DISTINCT, FILTER, ORDER BY and WITHIN GROUP.
//!
//! Invariants: an aggregate that does not care for the order of its rows has none; what is asked
//! about an ordered set names columns of groups only. Does not do: aggregates of an outer query.

use std::collections::BTreeSet;

use sqlparser::ast::{
    self, DuplicateTreatment, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, OrderByExpr,
};

use super::select::{OrderWay, check_equal, check_ordered, sort_key_of};
use super::window::IN_WINDOW;
use super::{Binder, Place, trimmed};
use crate::error::{Result, SqlError, code};
use crate::expr;
use crate::expr::aggregate::{self, ARGUMENTS, Aggregate, Kind, OrderedSet};
use crate::expr::json::JsonAgg;
use crate::expr::regression::Regression;
use crate::expr::{Expr, SortKey, Typed, collation_of, registry};
use crate::types::array::no_array_of;
use crate::types::cast::is_implicit;
use crate::types::collate::Collated;
use crate::types::{Array, ElementType, SqlType};

/// An aggregate and how its texts compare.
pub(super) struct BoundAggregate {
    pub(super) aggregate: Aggregate,
    pub(super) collated: Collated,
}

/// The arguments of a call, with the clauses inside of its parentheses and behind them.
struct Parts<'c> {
    args: &'c [FunctionArg],
    distinct: bool,
    order: &'c [OrderByExpr],
    within: &'c [OrderByExpr],
}

/// A value that rows are ordered by, and how.
struct Ordering {
    value: Typed,
    key: SortKey,
}

impl<'c> Parts<'c> {
    fn of(call: &'c ast::Function) -> Result<Parts<'c>> {
        let FunctionArguments::List(list) = &call.args else {
            return Err(SqlError::unsupported("such a call of an aggregate"));
        };
        let mut order: &[OrderByExpr] = &[];
        for clause in &list.clauses {
            match clause {
                FunctionArgumentClause::OrderBy(items) => order = items,
                _ => return Err(SqlError::unsupported("such a clause of an aggregate")),
            }
        }
        let distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
        Ok(Parts { args: &list.args, distinct, order, within: &call.within_group })
    }
}

impl Binder<'_> {
    pub(super) fn aggregate(&mut self, name: &str, call: &ast::Function) -> Result<Typed> {
        match self.place {
            Place::Aggregates | Place::Windows | Place::InsideWindow => {}
            Place::InsideAggregate => {
                let message = "aggregate function calls cannot be nested";
                return Err(SqlError::new(code::GROUPING_ERROR, message));
            }
            Place::None(place) => {
                let message = format!("aggregate functions are not allowed in {place}");
                return Err(SqlError::new(code::GROUPING_ERROR, message));
            }
        }
        let BoundAggregate { aggregate, mut collated } =
            self.bound_aggregate(name, call, Place::InsideAggregate)?;
        self.refuse_outer(&aggregate)?;
        let result = aggregate.result;
        if !matches!(result, SqlType::Text | SqlType::Bpchar) {
            collated = Collated::Default;
        }
        let known = self.aggregates.iter().position(|other| other.same(&aggregate));
        let at = known.unwrap_or_else(|| {
            self.aggregates.push(aggregate);
            self.aggregates.len() - 1
        });
        Ok(Typed { collated, ..Typed::new(Expr::Aggregate(at), result) })
    }

    /// An aggregate, whose arguments stand at `place`, and how its texts compare.
    pub(super) fn bound_aggregate(
        &mut self,
        name: &str,
        call: &ast::Function,
        place: Place,
    ) -> Result<BoundAggregate> {
        let parts = Parts::of(call)?;
        let star = matches!(parts.args, [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]);
        let filter = match &call.filter {
            Some(filter) => Some(self.at_place(place, |binder| {
                let fault = "set-returning functions are not allowed in FILTER";
                let filter = binder.without_sets(fault, |binder| binder.expr(filter))?;
                binder.condition(filter, "FILTER")
            })?),
            None => None,
        };
        if star && name == "count" && parts.within.is_empty() {
            let count = Aggregate::of(Kind::CountAll, Vec::new(), SqlType::Int8, SqlType::Int8);
            let aggregate = Aggregate { filter, ..count };
            return Ok(BoundAggregate { aggregate, collated: Collated::Default });
        }
        let fault = match place {
            Place::InsideWindow => IN_WINDOW,
            _ => "aggregate function calls cannot contain set-returning function calls",
        };
        self.at_place(place, |binder| {
            binder.without_sets(fault, |binder| {
                let args = binder.arguments(parts.args)?;
                let order = match parts.within.is_empty() {
                    true => binder.orderings(parts.order)?,
                    false => binder.orderings(parts.within)?,
                };
                let bound = match parts.within.is_empty() {
                    true => binder.plain_aggregate(name, args, order, parts.distinct)?,
                    false => binder.ordered_set(name, args, order, &parts)?,
                };
                let aggregate = Aggregate { filter, ..bound.aggregate };
                Ok(BoundAggregate { aggregate, ..bound })
            })
        })
    }

    fn orderings(&mut self, items: &[OrderByExpr]) -> Result<Vec<Ordering>> {
        let mut orderings = Vec::with_capacity(items.len());
        for item in items {
            let value = self.expr(&item.expr)?;
            let OrderWay { descending, nulls_first } = OrderWay::of(&item.options)?;
            let collation = value.collated.used()?.cloned();
            check_ordered(value.ty)?;
            let like = match value.ty {
                SqlType::Unknown => sort_key_of(&value.expr, SqlType::Text),
                ty => sort_key_of(&value.expr, ty),
            };
            let key = SortKey { descending, nulls_first, collation, ..like };
            orderings.push(Ordering { value, key });
        }
        Ok(orderings)
    }

    /// An aggregate of columns of a query around this one is that query's, which is not built.
    fn refuse_outer(&self, aggregate: &Aggregate) -> Result<()> {
        let mut named = BTreeSet::new();
        aggregate.exprs().for_each(|expr| expr::columns_of(expr, &mut named));
        let (mut own, mut is_named) = (false, !named.is_empty());
        self.scope.each(&mut |column| own |= named.contains(&column.id));
        is_named &= !self.outer.is_empty();
        match is_named && !own {
            true => Err(SqlError::unsupported("an aggregate of an outer query")),
            false => Ok(()),
        }
    }

    fn plain_aggregate(
        &mut self,
        name: &str,
        args: Vec<Typed>,
        order: Vec<Ordering>,
        distinct: bool,
    ) -> Result<BoundAggregate> {
        let types: Vec<SqlType> = args.iter().map(|arg| arg.ty).collect();
        let regression = Regression::named(name);
        let found = match regression {
            None => types.first().and_then(|input| aggregate::find(name, *input)),
            Some(asked) => {
                let numbers = types.iter().all(|ty| is_implicit(*ty, SqlType::Float8));
                let count =
                    if asked == Regression::Count { SqlType::Int8 } else { SqlType::Float8 };
                numbers.then_some((Kind::Regression(asked), SqlType::Float8, count))
            }
        };
        let takes = |kind| match kind {
            Kind::StringAgg | Kind::Json(JsonAgg::Fields) | Kind::Regression(_) => 2,
            _ => 1,
        };
        let found = found.filter(|(kind, ..)| types.len() == takes(*kind));
        let Some((kind, input, result)) = found else {
            let is_open = name == "array_agg" && types == [SqlType::Unknown];
            let miss = if is_open { registry::Miss::Ambiguous } else { registry::Miss::None };
            return Err(registry::no_function(name, &types, &miss));
        };
        let collated = collation_of(&args)?;
        if distinct {
            collated.refuse_unequal("DISTINCT")?;
            check_equal(input)?;
        }
        let collation = match kind {
            Kind::Min | Kind::Max => collated.used()?.cloned(),
            _ => None,
        };
        let second = match kind {
            Kind::Json(_) => types.get(1).copied().filter(|ty| *ty != SqlType::Unknown),
            _ => Some(input).filter(|_| input == SqlType::Bytea || regression.is_some()),
        };
        let second = second.unwrap_or(SqlType::Text);
        let mut bound = Vec::with_capacity(args.len());
        for (at, arg) in args.into_iter().enumerate() {
            bound.push(self.coerce(arg, if at == 0 { input } else { second })?);
        }
        if matches!(kind, Kind::Json(_)) {
            let has_keys = kind == Kind::Json(JsonAgg::Fields);
            let args = bound.into_iter().zip([(input, has_keys), (second, false)]);
            bound = args.map(|(arg, (ty, is_key))| as_json(arg, ty, is_key)).collect();
            if distinct && depends_on_session(input) {
                let what = format!("DISTINCT of {} in {name}", input.name());
                return Err(SqlError::unsupported(what));
            }
        }
        let mut aggregate = Aggregate::of(kind, bound, input, result);
        let mut exprs = Vec::with_capacity(order.len());
        for Ordering { value, mut key } in order {
            let expr = self.settle(value)?.expr;
            let of_args = aggregate.args.iter().position(|arg| arg.same(&expr));
            if distinct && of_args.is_none() {
                let message = "in an aggregate with DISTINCT, ORDER BY expressions must appear in \
                               argument list";
                return Err(SqlError::new(code::INVALID_COLUMN_REFERENCE, message));
            }
            key.at = of_args.unwrap_or(ARGUMENTS + exprs.len());
            if of_args.is_none() {
                exprs.push(expr);
            }
            aggregate.keys.push(key);
        }
        if is_any_order(kind) && !exprs.iter().any(Expr::is_volatile) {
            (exprs, aggregate.keys) = (Vec::new(), Vec::new());
        }
        aggregate.order = exprs;
        if distinct && input == SqlType::Bpchar {
            // Values that differ in blanks at the end are one: it does not matter which is met.
            let value = std::mem::replace(&mut aggregate.args[0], Expr::null());
            aggregate.args[0] = if kind == Kind::Count { trimmed(value) } else { value };
        }
        aggregate.distinct = distinct && !matches!(kind, Kind::Min | Kind::Max);
        aggregate.collation = collation;
        Ok(BoundAggregate { aggregate, collated })
    }

    /// A call with WITHIN GROUP.
    fn ordered_set(
        &mut self,
        name: &str,
        direct: Vec<Typed>,
        order: Vec<Ordering>,
        parts: &Parts<'_>,
    ) -> Result<BoundAggregate> {
        if parts.distinct {
            return Err(SqlError::syntax("cannot use DISTINCT with WITHIN GROUP"));
        }
        if !parts.order.is_empty() {
            let message = "cannot use multiple ORDER BY clauses with WITHIN GROUP";
            return Err(SqlError::syntax(message));
        }
        let ordered = order.iter().map(|one| one.value.ty);
        let types: Vec<SqlType> = direct.iter().map(|arg| arg.ty).chain(ordered).collect();
        let missing = || registry::no_function(name, &types, &registry::Miss::None);
        let Some(set) = aggregate::ordered_set(name) else {
            let message = match aggregate::exists(name) {
                _ if types.len() > 1 => return Err(missing()),
                true => format!(
                    "{name} is not an ordered-set aggregate, so it cannot have WITHIN GROUP"
                ),
                false => {
                    format!("WITHIN GROUP specified, but {name} is not an aggregate function")
                }
            };
            return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message));
        };
        if set.is_hypothetical() {
            if direct.len() != order.len() {
                return Err(missing());
            }
            return self.hypothetical(set, direct, order);
        }
        let wanted = usize::from(set != OrderedSet::Mode);
        if direct.len() != wanted || order.len() != 1 {
            return Err(missing());
        }
        let (mut order, mut asked) = (order, Vec::new());
        let Ordering { value, key } = order.remove(0);
        if value.ty == SqlType::Unknown && set != OrderedSet::Between {
            let message = "could not determine polymorphic type because input has type unknown";
            return Err(SqlError::new(code::DATATYPE_MISMATCH, message));
        }
        let value = self.settle(value)?;
        let ty = match (set, value.ty) {
            (OrderedSet::Between, SqlType::Interval) => SqlType::Interval,
            (OrderedSet::Between, ty) if is_implicit(ty, SqlType::Float8) => SqlType::Float8,
            (OrderedSet::Between, _) => return Err(missing()),
            (_, ty) => ty,
        };
        let mut result = ty;
        for arg in direct {
            let mut part = SqlType::Float8;
            if arg.ty.is_array() {
                part = SqlType::array_of(part).expect("floats are elements");
                result = SqlType::array_of(ty).ok_or_else(|| no_array_of(ty.name()))?;
            }
            if !is_implicit(arg.ty, part) {
                return Err(missing());
            }
            asked.push(self.coerce(arg, part)?);
        }
        let collated = value.collated.clone();
        let expr = self.coerce(value, ty)?;
        let mut aggregate = Aggregate::of(Kind::OrderedSet(set), vec![expr], ty, result);
        (aggregate.direct, aggregate.keys) = (asked, vec![SortKey { at: 0, ..key }]);
        Ok(BoundAggregate { aggregate, collated })
    }

    /// The place of a made-up row among the rows of the group.
    fn hypothetical(
        &mut self,
        set: OrderedSet,
        direct: Vec<Typed>,
        order: Vec<Ordering>,
    ) -> Result<BoundAggregate> {
        let result = match set {
            OrderedSet::Rank | OrderedSet::DenseRank => SqlType::Int8,
            _ => SqlType::Float8,
        };
        let (mut keys, mut values, mut asked) = (Vec::new(), Vec::new(), Vec::new());
        for (at, (arg, Ordering { value, key })) in direct.into_iter().zip(order).enumerate() {
            let (pair, ty) = self.unified(vec![arg, value], "WITHIN GROUP")?;
            let [arg, value] = <[Expr; 2]>::try_from(pair).expect("two were put in");
            let padded = key.padded && ty == SqlType::Bpchar;
            keys.push(SortKey { at, padded, ..key });
            asked.push(arg);
            values.push(value);
        }
        let rest = values.split_off(values.len().min(ARGUMENTS));
        let mut aggregate = Aggregate::of(Kind::OrderedSet(set), values, SqlType::Int8, result);
        (aggregate.order, aggregate.keys, aggregate.direct) = (rest, keys, asked);
        Ok(BoundAggregate { aggregate, collated: Collated::Default })
    }
}

/// Is the text of values of this type another in other sessions?
fn depends_on_session(ty: SqlType) -> bool {
    matches!(ty.element().unwrap_or(ty), SqlType::Timestamptz | SqlType::Interval)
}

/// An argument of an aggregate of documents, as a document or its text where that is the session's:
/// aggregates know nothing of sessions.
fn as_json(arg: Expr, ty: SqlType, is_key: bool) -> Expr {
    if !depends_on_session(ty) {
        return arg;
    }
    let Ok(to_json) = registry::resolve("to_json", &[SqlType::Unknown]) else {
        unreachable!("to_json is registered")
    };
    let document = Expr::Call(to_json, vec![arg]);
    match registry::resolve("#>>", &[SqlType::Json, SqlType::texts()]) {
        Ok(text_at) if is_key && !ty.is_array() => {
            let texts = ElementType::of(SqlType::Text).expect("texts are elements");
            let here = Expr::Const(Array::empty(texts).into());
            Expr::Call(text_at, vec![document, here])
        }
        _ => document,
    }
}

/// Is the result the same in whichever order the rows come?
fn is_any_order(kind: Kind) -> bool {
    match kind {
        Kind::CountAll | Kind::Count | Kind::Min | Kind::Max | Kind::And | Kind::Or => true,
        Kind::BitAnd | Kind::BitOr | Kind::BitXor => true,
        // Sums of floating point numbers depend on it.
        Kind::Sum | Kind::Average | Kind::Spread(_) | Kind::Regression(_) => false,
        Kind::StringAgg | Kind::ArrayAgg | Kind::Json(_) | Kind::OrderedSet(_) => false,
    }
}
