//! Window functions: their calls, OVER, and the WINDOW clause.
//!
//! Each call becomes a column of the query, whose number it has from the start. When the clauses of
//! the query are put together, calls over equal windows share one relation.
//!
//! Invariants: a window function is called in the list of a SELECT and in ORDER BY only; what a
//! window names are columns of the source, never of the list.
//! Does not do: IGNORE NULLS, as PostgreSQL.

use rightlink::Collation;
use sqlparser::ast::{
    self, FunctionArgumentClause, FunctionArguments, NamedWindowExpr, WindowFrameBound,
    WindowFrameUnits, WindowType,
};

use super::select::{OrderWay, check_grouped, check_ordered, sort_key_of};
use super::{Binder, Place, padded, trimmed};
use crate::error::{Result, SqlError, code};
use crate::expr::aggregate::{self, Aggregate};
use crate::expr::{ColumnId, Expr, SortKey, Typed, registry};
use crate::parse::frame::MARK;
use crate::parse::identifiers;
use crate::plan::rel::Rel;
use crate::plan::window::{
    Bound, Distance, Exclusion, Frame, Offset, Units, Window, WindowCall, WindowFunction,
};
use crate::types::SqlType;

/// The fault of an argument that gives rows.
pub(super) const IN_WINDOW: &str =
    "window function calls cannot contain set-returning function calls";

/// Windows of one SELECT and what is called over them.
#[derive(Default)]
pub(crate) struct Windows {
    specs: Vec<Spec>,
    calls: Vec<Call>,
    named: Vec<Named>,
}

/// How the rows of a window come.
struct Spec {
    partition: Vec<Typed>,
    order: Vec<OrderItem>,
}

struct OrderItem {
    value: Typed,
    descending: bool,
    nulls_first: bool,
    collation: Option<Collation>,
}

/// A window of the WINDOW clause.
struct Named {
    name: String,
    over: Over,
}

/// A window with a frame; `None`: the usual one, because none was written.
#[derive(Clone)]
struct Over {
    /// Which of the windows.
    spec: usize,
    frame: Option<Frame>,
}

struct Call {
    id: ColumnId,
    spec: usize,
    call: WindowCall,
    result: SqlType,
}

/// A window function over arguments of its types.
struct Typing {
    function: WindowFunction,
    args: Vec<Expr>,
    /// What its value is like.
    like: Typed,
}

impl Spec {
    fn same(&self, other: &Spec) -> bool {
        let item = |(a, b): (&OrderItem, &OrderItem)| {
            a.value.expr.same(&b.value.expr)
                && (a.descending, a.nulls_first) == (b.descending, b.nulls_first)
                && a.collation == b.collation
        };
        self.partition.len() == other.partition.len()
            && self.order.len() == other.order.len()
            && self.partition.iter().zip(&other.partition).all(|(a, b)| a.expr.same(&b.expr))
            && self.order.iter().zip(&other.order).all(item)
    }
}

impl Windows {
    /// Everything that is said over rows of the source, or over groups of them.
    pub(super) fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        let mut exprs = Vec::new();
        for spec in &mut self.specs {
            exprs.extend(spec.partition.iter_mut().map(|value| &mut value.expr));
            exprs.extend(spec.order.iter_mut().map(|item| &mut item.value.expr));
        }
        self.calls.iter_mut().for_each(|call| exprs.extend(call.call.exprs_mut()));
        exprs
    }

    /// Does an expression have the value of a call?
    pub(super) fn is_in(&self, expr: &Expr) -> bool {
        let mut found = false;
        expr.walk(&mut |inner| {
            found |=
                matches!(inner, Expr::Column(id) if self.calls.iter().any(|one| one.id == *id));
        });
        found
    }

    fn number_of(&mut self, spec: Spec) -> usize {
        if let Some(known) = self.specs.iter().position(|known| known.same(&spec)) {
            return known;
        }
        self.specs.push(spec);
        self.specs.len() - 1
    }
}

impl Binder<'_> {
    /// Binds the WINDOW clause.
    pub(super) fn named_windows(&mut self, list: &[ast::NamedWindowDefinition]) -> Result<()> {
        for ast::NamedWindowDefinition(name, window) in list {
            let name = identifiers::ident(name);
            if self.windows.named.iter().any(|known| known.name == name) {
                let message = format!("window \"{name}\" is already defined");
                return Err(SqlError::new(code::WINDOWING_ERROR, message));
            }
            let NamedWindowExpr::WindowSpec(spec) = window else {
                return Err(SqlError::syntax(format!("syntax error in window \"{name}\"")));
            };
            let over = self.window(spec)?;
            self.windows.named.push(Named { name, over });
        }
        Ok(())
    }

    fn named_window(&self, name: &ast::Ident) -> Result<Over> {
        let name = identifiers::ident(name);
        let found = self.windows.named.iter().find(|known| known.name == name);
        found.map(|known| known.over.clone()).ok_or_else(|| {
            SqlError::new(code::UNDEFINED_OBJECT, format!("window \"{name}\" does not exist"))
        })
    }

    fn window(&mut self, spec: &ast::WindowSpec) -> Result<Over> {
        let (mut partition, mut order) = (Vec::new(), Vec::new());
        let (exclusion, base) = excluded(spec.window_name.as_ref());
        if let Some(name) = &base {
            let base = self.named_window(name)?;
            let refuse = |what: &str| {
                let message = format!("cannot {what} window \"{}\"", identifiers::ident(name));
                Err(SqlError::new(code::WINDOWING_ERROR, message))
            };
            if !spec.partition_by.is_empty() {
                return refuse("override PARTITION BY clause of");
            }
            let known = &self.windows.specs[base.spec];
            if !spec.order_by.is_empty() && !known.order.is_empty() {
                return refuse("override ORDER BY clause of");
            }
            if base.frame.is_some() {
                let message = format!(
                    "cannot copy window \"{}\" because it has a frame clause",
                    identifiers::ident(name)
                );
                return Err(SqlError::new(code::WINDOWING_ERROR, message));
            }
            partition.clone_from(&known.partition);
            order.extend(known.order.iter().map(|item| OrderItem {
                value: item.value.clone(),
                collation: item.collation.clone(),
                ..*item
            }));
        }
        for node in &spec.partition_by {
            let value = self.window_value(node)?;
            value.collated.refuse_unequal("PARTITION BY")?;
            check_grouped(&value, "PARTITION BY")?;
            partition.push(value);
        }
        for item in &spec.order_by {
            let value = self.window_value(&item.expr)?;
            check_ordered(value.ty).map_err(|error| error.at(value.position))?;
            let OrderWay { descending, nulls_first } = OrderWay::of(&item.options)?;
            let collation = value.collated.used()?.cloned();
            order.push(OrderItem { value, descending, nulls_first, collation });
        }
        let frame = match &spec.window_frame {
            Some(frame) => Some(Frame { exclusion, ..self.frame(frame, &order)? }),
            None => None,
        };
        let spec = self.windows.number_of(Spec { partition, order });
        Ok(Over { spec, frame })
    }

    fn window_value(&mut self, node: &ast::Expr) -> Result<Typed> {
        let value = self.at_place(Place::InsideWindow, |binder| binder.expr(node))?;
        self.settle(value)
    }

    fn frame(&mut self, frame: &ast::WindowFrame, order: &[OrderItem]) -> Result<Frame> {
        let fails = |message: &str| Err(SqlError::new(code::WINDOWING_ERROR, message));
        let current = WindowFrameBound::CurrentRow;
        let (start, end) = (&frame.start_bound, frame.end_bound.as_ref().unwrap_or(&current));
        use WindowFrameBound::{CurrentRow, Following, Preceding};
        match (start, end) {
            (Following(None), _) => return fails("frame start cannot be UNBOUNDED FOLLOWING"),
            (_, Preceding(None)) => return fails("frame end cannot be UNBOUNDED PRECEDING"),
            (CurrentRow, Preceding(Some(_))) => {
                return fails("frame starting from current row cannot have preceding rows");
            }
            (Following(Some(_)), Preceding(Some(_)) | CurrentRow) => {
                return fails("frame starting from following row cannot have preceding rows");
            }
            _ => {}
        }
        let units = match frame.units {
            WindowFrameUnits::Rows => Units::Rows,
            WindowFrameUnits::Range => Units::Range,
            WindowFrameUnits::Groups => Units::Groups,
        };
        if units == Units::Groups && order.is_empty() {
            return fails("GROUPS mode requires an ORDER BY clause");
        }
        let is_far =
            |bound: &WindowFrameBound| matches!(bound, Preceding(Some(_)) | Following(Some(_)));
        let distance = match units {
            Units::Range if is_far(start) || is_far(end) => {
                let [item] = order else {
                    return fails(
                        "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY \
                         column",
                    );
                };
                Some(self.distance(item)?)
            }
            _ => None,
        };
        let start = self.bound(start, units, distance.as_ref())?;
        let end = self.bound(end, units, distance.as_ref())?;
        let distance =
            distance.map(|(value, descending)| Distance { value: value.expr, descending });
        Ok(Frame { units, start, end, distance, exclusion: Exclusion::Nothing })
    }

    /// The value that distances are taken of, of a type that holds all of them, and whether it
    /// descends.
    fn distance(&mut self, item: &OrderItem) -> Result<(Typed, bool)> {
        use SqlType as T;
        let ty = match item.value.ty {
            T::Int2 | T::Int4 | T::Int8 | T::Numeric => T::Numeric,
            T::Float4 | T::Float8 => T::Float8,
            T::Date | T::Timestamp => T::Timestamp,
            T::Timestamptz | T::Interval => item.value.ty,
            other => {
                let message = format!(
                    "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {}",
                    other.name()
                );
                return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
            }
        };
        let value = self.copy(&item.value)?;
        Ok((Typed::new(self.coerce(value, ty)?, ty), item.descending))
    }

    fn bound(
        &mut self,
        bound: &WindowFrameBound,
        units: Units,
        distance: Option<&(Typed, bool)>,
    ) -> Result<Bound> {
        let (node, follows) = match bound {
            WindowFrameBound::CurrentRow => return Ok(Bound::CurrentRow),
            WindowFrameBound::Preceding(None) | WindowFrameBound::Following(None) => {
                return Ok(Bound::Unbounded);
            }
            WindowFrameBound::Preceding(Some(node)) => (node, false),
            WindowFrameBound::Following(Some(node)) => (node, true),
        };
        let clause = match units {
            Units::Rows => "ROWS",
            Units::Range => "RANGE",
            Units::Groups => "GROUPS",
        };
        let fault = "set-returning functions are not allowed in window definitions";
        let value = self.at_place(Place::InsideWindow, |binder| {
            binder.without_sets(fault, |binder| binder.expr(node))
        })?;
        self.refuse_variables(&value.expr, clause)?;
        let offset = match distance {
            None => Offset { count: self.coerce(value, SqlType::Int8)?, edge: None },
            Some((of, descending)) => {
                let ty = match of.ty {
                    SqlType::Timestamp | SqlType::Timestamptz => SqlType::Interval,
                    other => other,
                };
                let count = Typed::new(self.coerce(value, ty)?, ty);
                let (of, twin) = (self.copy(of)?, self.copy(&count)?);
                let sign = if follows != *descending { "+" } else { "-" };
                let edge = self.operator(sign, vec![of, twin])?.expr;
                Offset { count: count.expr, edge: Some(edge) }
            }
        };
        Ok(if follows { Bound::Following(offset) } else { Bound::Preceding(offset) })
    }

    /// A call with OVER.
    pub(super) fn window_call(
        &mut self,
        name: &str,
        call: &ast::Function,
        over: &WindowType,
    ) -> Result<Typed> {
        let fails = |sqlstate, message: String| Err(SqlError::new(sqlstate, message));
        match self.place {
            Place::Windows => {}
            Place::InsideWindow => {
                let message = "window function calls cannot be nested";
                return fails(code::WINDOWING_ERROR, message.to_owned());
            }
            Place::InsideAggregate => {
                let message = "aggregate function calls cannot contain window function calls";
                return fails(code::GROUPING_ERROR, message.to_owned());
            }
            Place::Aggregates | Place::None(_) => {
                let place = match self.place {
                    Place::None(place) => place,
                    _ => "HAVING",
                };
                let message = format!("window functions are not allowed in {place}");
                return fails(code::WINDOWING_ERROR, message);
            }
        }
        let Over { spec, frame } = match over {
            WindowType::NamedWindow(name) => self.named_window(name)?,
            WindowType::WindowSpec(spec) => self.window(spec)?,
        };
        if !call.within_group.is_empty() {
            let message = format!("OVER is not supported for ordered-set aggregate {name}");
            return fails(code::FEATURE_NOT_SUPPORTED, message);
        }
        let mut shown = None;
        let (function, args, result) = if aggregate::exists(name) {
            let aggregate = self.window_aggregate(name, call)?;
            let result = aggregate.result;
            (WindowFunction::Aggregate(Box::new(aggregate)), Vec::new(), result)
        } else {
            if !is_window_function(name) {
                let message = format!(
                    "OVER specified, but {name} is not a window function nor an aggregate function"
                );
                return fails(code::WRONG_OBJECT_TYPE, message);
            }
            if call.filter.is_some() {
                let message = "FILTER is not implemented for non-aggregate window functions";
                return fails(code::FEATURE_NOT_SUPPORTED, message.to_owned());
            }
            let args = match &call.args {
                FunctionArguments::List(list)
                    if list.duplicate_treatment.is_none() && list.clauses.is_empty() =>
                {
                    self.at_place(Place::InsideWindow, |binder| {
                        binder.without_sets(IN_WINDOW, |binder| binder.arguments(&list.args))
                    })?
                }
                FunctionArguments::None => Vec::new(),
                _ => return Err(SqlError::unsupported("such a call of a window function")),
            };
            let Typing { function, args, like } = self.typed_window_function(name, args)?;
            let ty = like.ty;
            shown = Some(like);
            (function, args, ty)
        };
        let frame = frame.unwrap_or_else(Frame::usual);
        let id = self.called(spec, WindowCall { function, args, frame }, result);
        let expr = Expr::Column(id);
        Ok(match shown {
            Some(like) => Typed { expr: padded(expr, like.modifier), ..like },
            None => Typed::new(expr, result),
        })
    }

    /// The column of a call: that of an equal one, if there is one.
    fn called(&mut self, spec: usize, call: WindowCall, result: SqlType) -> ColumnId {
        let same = |known: &&Call| {
            let (own, others) = (known.call.exprs(), call.exprs());
            let functions = match (&known.call.function, &call.function) {
                (WindowFunction::Aggregate(a), WindowFunction::Aggregate(b)) => a.same(b),
                (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
            };
            known.spec == spec
                && known.result == result
                && functions
                && known.call.frame.same(&call.frame)
                && own.len() == others.len()
                && own.iter().zip(others).all(|(a, b)| a.same(b))
        };
        if let Some(known) = self.windows.calls.iter().find(same) {
            return known.id;
        }
        let id = self.new_columns(1);
        self.windows.calls.push(Call { id, spec, call, result });
        id
    }

    fn window_aggregate(&mut self, name: &str, call: &ast::Function) -> Result<Aggregate> {
        if let FunctionArguments::List(list) = &call.args
            && list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct)
        {
            let message = "DISTINCT is not implemented for window functions";
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
        }
        if let FunctionArguments::List(list) = &call.args
            && list.clauses.iter().any(|one| matches!(one, FunctionArgumentClause::OrderBy(_)))
        {
            let message = "aggregate ORDER BY is not implemented for window functions";
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
        }
        Ok(self.bound_aggregate(name, call, Place::InsideWindow)?.aggregate)
    }

    /// The function that a name means over arguments of these types.
    fn typed_window_function(&mut self, name: &str, args: Vec<Typed>) -> Result<Typing> {
        use WindowFunction as W;
        let types: Vec<SqlType> = args.iter().map(|arg| arg.ty).collect();
        let is_count = |at: usize| {
            types
                .get(at)
                .is_none_or(|ty| matches!(ty, SqlType::Int2 | SqlType::Int4 | SqlType::Unknown))
        };
        let number = |function: W, ty: SqlType| (function, Typed::new(Expr::null(), ty));
        let counted = match (name, types.len()) {
            ("row_number", 0) => Some(number(W::RowNumber, SqlType::Int8)),
            ("rank", 0) => Some(number(W::Rank, SqlType::Int8)),
            ("dense_rank", 0) => Some(number(W::DenseRank, SqlType::Int8)),
            ("percent_rank", 0) => Some(number(W::PercentRank, SqlType::Float8)),
            ("cume_dist", 0) => Some(number(W::CumeDist, SqlType::Float8)),
            _ => None,
        };
        if let Some((function, like)) = counted {
            return Ok(Typing { function, args: Vec::new(), like });
        }
        let mut args = args.into_iter();
        let function = match (name, types.len()) {
            ("ntile", 1) if is_count(0) => {
                let count = args.next().expect("there is one");
                let count = self.coerce(count, SqlType::Int4)?;
                let like = Typed::new(Expr::null(), SqlType::Int4);
                return Ok(Typing { function: W::Ntile, args: vec![count], like });
            }
            ("lag", 1..=3) if is_count(1) => W::Lag,
            ("lead", 1..=3) if is_count(1) => W::Lead,
            ("first_value", 1) => W::FirstValue,
            ("last_value", 1) => W::LastValue,
            ("nth_value", 2) if is_count(1) => W::NthValue,
            _ => return Err(registry::no_function(name, &types, &registry::Miss::None)),
        };
        let value = args.next().expect("there is one");
        let mut value = self.settle(value)?;
        let mut bound = Vec::with_capacity(types.len());
        let count = match args.next() {
            Some(count) => Some(self.coerce(count, SqlType::Int4)?),
            None => None,
        };
        let rest = match args.next() {
            None => None,
            Some(rest) => {
                let like = value.clone();
                let (list, ty) = self.unified(vec![value, rest], name)?;
                let [first, rest] = <[Expr; 2]>::try_from(list).expect("two were put in");
                value = match ty == like.ty {
                    true => Typed { expr: first, ..like },
                    false => Typed::new(first, ty),
                };
                Some(rest)
            }
        };
        // Beside a default of any length values stay filled up.
        let is_char =
            rest.is_none() && value.modifier.is_some() && matches!(value.expr, Expr::Pad(..));
        let expr = std::mem::replace(&mut value.expr, Expr::null());
        bound.push(if is_char { trimmed(expr) } else { expr });
        bound.extend(count);
        bound.extend(rest);
        if !is_char {
            value.modifier = None;
        }
        Ok(Typing { function, args: bound, like: Typed { position: None, ..value } })
    }

    /// The rows of `rel` with what the windows give behind.
    pub(super) fn windowed(&mut self, mut rel: Rel, windows: Windows) -> Rel {
        let Windows { specs, mut calls, .. } = windows;
        for (number, spec) in specs.into_iter().enumerate() {
            let (own, rest) = calls.into_iter().partition(|call: &Call| call.spec == number);
            calls = rest;
            if own.is_empty() {
                continue;
            }
            let known = rel.columns();
            let mut output: Vec<(ColumnId, Expr)> =
                known.iter().map(|id| (*id, Expr::Column(*id))).collect();
            let mut key = |value: Typed| -> SortKey {
                let like = sort_key_of(&value.expr, value.ty);
                let at = match value.expr {
                    Expr::Column(id) if known.contains(&id) => id,
                    expr => {
                        let id = self.new_columns(1);
                        output.push((id, expr));
                        id
                    }
                };
                SortKey { at, ..like }
            };
            let partition: Vec<SortKey> = spec.partition.into_iter().map(&mut key).collect();
            let order: Vec<SortKey> = spec
                .order
                .into_iter()
                .map(|OrderItem { value, descending, nulls_first, collation }| SortKey {
                    descending,
                    nulls_first,
                    collation,
                    ..key(value)
                })
                .collect();
            if output.len() > known.len() {
                rel = Rel::Project { input: Box::new(rel), output };
            }
            let keys: Vec<SortKey> = partition.iter().chain(&order).cloned().collect();
            if !keys.is_empty() {
                rel = Rel::Sort { input: Box::new(rel), keys };
            }
            let calls = own.into_iter().map(|call| (call.id, call.call)).collect();
            let window = Box::new(Window { partition, order, calls });
            rel = Rel::Window { input: Box::new(rel), window };
        }
        rel
    }
}

/// What a window excludes, which stands in front of its name, and its own name.
fn excluded(name: Option<&ast::Ident>) -> (Exclusion, Option<ast::Ident>) {
    let Some(ident) = name else { return (Exclusion::Nothing, None) };
    let marked = ident.value.strip_prefix(MARK).and_then(|rest| rest.split_once(MARK));
    let Some((excluded, name)) = marked else { return (Exclusion::Nothing, Some(ident.clone())) };
    let exclusion = match excluded {
        "row" => Exclusion::CurrentRow,
        "group" => Exclusion::Group,
        _ => Exclusion::Ties,
    };
    let base = ast::Ident { value: name.to_owned(), ..ident.clone() };
    (exclusion, (!name.is_empty()).then_some(base))
}

/// Is there a window function of this name that is no aggregate?
pub(super) fn is_window_function(name: &str) -> bool {
    matches!(
        name,
        "row_number"
            | "rank"
            | "dense_rank"
            | "percent_rank"
            | "cume_dist"
            | "ntile"
            | "lag"
            | "lead"
            | "first_value"
            | "last_value"
            | "nth_value"
    )
}
