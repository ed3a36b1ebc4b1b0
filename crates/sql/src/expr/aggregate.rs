//! Functions over many rows.
//!
//! Where a call has an order, its rows wait until all are there. The order is made by whoever has
//! gathered them.
//!
//! Invariants: nulls do not count, except for `count(*)`, `array_agg` and rows that are ranked;
//! sums of integers are exact however many; distinct values are taken in their order.
//! Does not do: what is asked about ordered sets (`exec::ordered`).

use std::cmp::Ordering;
use std::sync::Arc;

use rightlink::Collation;

use crate::error::{Result, SqlError, code};
use crate::expr::json::JsonAgg;
use crate::expr::regression::{Regression, Spread, Sums};
use crate::expr::state::row_bytes;
pub(crate) use crate::expr::state::{ARGUMENTS, Input, Ordered, State};
use crate::expr::{Context, Expr, SortKey, bits};
use crate::types::array::null_array;
use crate::types::{Array, Bits, Datum, ElementType, Row, SqlType, numeric};

/// What is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    CountAll,
    Count,
    Sum,
    Average,
    Min,
    Max,
    And,
    Or,
    StringAgg,
    BitAnd,
    BitOr,
    BitXor,
    ArrayAgg,
    Json(JsonAgg),
    Spread(Spread),
    Regression(Regression),
    OrderedSet(OrderedSet),
}

/// What is asked about all rows in their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OrderedSet {
    /// `percentile_cont`, `percentile_disc`
    Between,
    Percentile,
    Mode,
    /// Where a row would stand.
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
}

/// An aggregate of a query.
#[derive(Clone, Debug)]
pub(crate) struct Aggregate {
    pub(crate) kind: Kind,
    pub(crate) args: Vec<Expr>,
    /// Type of the first argument.
    pub(crate) input: SqlType,
    pub(crate) result: SqlType,
    pub(crate) distinct: bool,
    pub(crate) filter: Option<Expr>,
    /// How the texts of `min` and `max` compare; `None`: by their bytes.
    pub(crate) collation: Option<Collation>,
    /// Values that rows are ordered by, as far as they are no arguments.
    pub(crate) order: Vec<Expr>,
    /// The order in which it takes its rows, where it has one: places among the arguments, which
    /// are two, and the values of `order` behind them.
    pub(crate) keys: Vec<SortKey>,
    /// Of an ordered set, what is asked about it: the same for all rows of a group.
    pub(crate) direct: Vec<Expr>,
}

/// The aggregate called `name` over a first argument of type `input`: the type to cast it to, and
/// the type of the result.
pub(crate) fn find(name: &str, input: SqlType) -> Option<(Kind, SqlType, SqlType)> {
    use SqlType as T;
    let known = match (name, input) {
        (_, T::Unknown) | ("min" | "max" | "string_agg", T::Name | T::Char) => T::Text,
        ("min" | "max", T::Reg(_)) => T::Oid,
        ("min" | "max", T::Cidr) => T::Inet,
        ("bit_and" | "bit_or" | "bit_xor", T::Varbit) => T::Bit,
        (_, input) => input,
    };
    if let Some(spread) = Spread::named(name) {
        let ty = match known {
            T::Int2 | T::Int4 | T::Int8 | T::Numeric => T::Numeric,
            T::Float4 | T::Float8 => T::Float8,
            _ => return None,
        };
        return Some((Kind::Spread(spread), ty, ty));
    }
    let has_bits = matches!(known, T::Int2 | T::Int4 | T::Int8 | T::Bit);
    Some(match name {
        "count" => (Kind::Count, known, T::Int8),
        "sum" => match known {
            T::Int2 | T::Int4 => (Kind::Sum, known, T::Int8),
            T::Int8 => (Kind::Sum, known, T::Numeric),
            T::Numeric | T::Float4 | T::Float8 | T::Interval => (Kind::Sum, known, known),
            T::Time => (Kind::Sum, T::Interval, T::Interval),
            _ => return None,
        },
        "avg" => match known {
            T::Int2 | T::Int4 | T::Int8 | T::Numeric => (Kind::Average, known, T::Numeric),
            T::Float4 | T::Float8 => (Kind::Average, T::Float8, T::Float8),
            T::Interval | T::Time => (Kind::Average, T::Interval, T::Interval),
            _ => return None,
        },
        "min" | "max"
            if !matches!(
                known,
                T::Bool
                    | T::Bytea
                    | T::Uuid
                    | T::Bit
                    | T::Varbit
                    | T::Json
                    | T::Jsonb
                    | T::Jsonpath
                    | T::Record
                    | T::Composite(_)
            ) =>
        {
            (if name == "min" { Kind::Min } else { Kind::Max }, known, known)
        }
        "bool_and" | "every" if matches!(input, T::Bool | T::Unknown) => {
            (Kind::And, T::Bool, T::Bool)
        }
        "bool_or" if matches!(input, T::Bool | T::Unknown) => (Kind::Or, T::Bool, T::Bool),
        "bit_and" if has_bits => (Kind::BitAnd, known, known),
        "bit_or" if has_bits => (Kind::BitOr, known, known),
        "bit_xor" if has_bits => (Kind::BitXor, known, known),
        "array_agg" if known.is_array() => (Kind::ArrayAgg, known, known),
        "array_agg" => (Kind::ArrayAgg, known, T::array_of(input)?),
        "json_agg" => (Kind::Json(JsonAgg::Items), known, T::Json),
        "jsonb_agg" => (Kind::Json(JsonAgg::Items), known, T::Jsonb),
        "json_object_agg" => (Kind::Json(JsonAgg::Fields), known, T::Json),
        "jsonb_object_agg" => (Kind::Json(JsonAgg::Fields), known, T::Jsonb),
        "string_agg" if matches!(known, T::Text | T::Bpchar) => (Kind::StringAgg, T::Text, T::Text),
        "string_agg" if known == T::Bytea => (Kind::StringAgg, T::Bytea, T::Bytea),
        _ => return None,
    })
}

/// The ordered set that this name asks about.
pub(crate) fn ordered_set(name: &str) -> Option<OrderedSet> {
    Some(match name {
        "percentile_cont" => OrderedSet::Between,
        "percentile_disc" => OrderedSet::Percentile,
        "mode" => OrderedSet::Mode,
        "rank" => OrderedSet::Rank,
        "dense_rank" => OrderedSet::DenseRank,
        "percent_rank" => OrderedSet::PercentRank,
        "cume_dist" => OrderedSet::CumeDist,
        _ => return None,
    })
}

/// Is there an aggregate of this name, ordered sets left out?
pub(crate) fn exists(name: &str) -> bool {
    let plain = matches!(
        name,
        "count"
            | "sum"
            | "avg"
            | "min"
            | "max"
            | "bool_and"
            | "every"
            | "bool_or"
            | "string_agg"
            | "bit_and"
            | "bit_or"
            | "bit_xor"
            | "array_agg"
            | "json_agg"
            | "jsonb_agg"
            | "json_object_agg"
            | "jsonb_object_agg"
    );
    plain || Spread::named(name).is_some() || Regression::named(name).is_some()
}

impl Aggregate {
    /// A call of this kind, without anything else.
    pub(crate) fn of(kind: Kind, args: Vec<Expr>, input: SqlType, result: SqlType) -> Aggregate {
        Aggregate {
            kind,
            args,
            input,
            result,
            distinct: false,
            filter: None,
            collation: None,
            order: Vec::new(),
            keys: Vec::new(),
            direct: Vec::new(),
        }
    }

    /// Are the two written the same way?
    pub(crate) fn same(&self, other: &Aggregate) -> bool {
        let lists =
            |a: &[Expr], b: &[Expr]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b));
        let same_filter = || match (&self.filter, &other.filter) {
            (None, None) => true,
            (Some(own), Some(other)) => own.same(other),
            _ => false,
        };
        (self.kind, self.input, self.result) == (other.kind, other.input, other.result)
            && (self.distinct, &self.collation) == (other.distinct, &other.collation)
            && self.keys == other.keys
            && lists(&self.args, &other.args)
            && lists(&self.order, &other.order)
            && lists(&self.direct, &other.direct)
            && same_filter()
    }

    /// Its expressions over the rows that it takes.
    pub(crate) fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.args.iter().chain(&self.filter).chain(&self.order).chain(&self.direct)
    }

    /// The same, to be changed.
    pub(crate) fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let Aggregate { args, filter, order, direct, .. } = self;
        args.iter_mut().chain(filter).chain(order).chain(direct)
    }

    /// As EXPLAIN shows it over columns of these names.
    pub(crate) fn shown(&self, names: &[String]) -> String {
        let name = match self.kind {
            Kind::CountAll => return "count(*)".to_owned(),
            Kind::Count => "count",
            Kind::Sum => "sum",
            Kind::Average => "avg",
            Kind::Min => "min",
            Kind::Max => "max",
            Kind::And => "bool_and",
            Kind::Or => "bool_or",
            Kind::StringAgg => "string_agg",
            Kind::BitAnd => "bit_and",
            Kind::BitOr => "bit_or",
            Kind::BitXor => "bit_xor",
            Kind::ArrayAgg => "array_agg",
            Kind::Json(json) => json.name(self.result),
            Kind::Spread(spread) => spread.name(),
            Kind::Regression(regression) => regression.name(),
            Kind::OrderedSet(set) => match set {
                OrderedSet::Between => "percentile_cont",
                OrderedSet::Percentile => "percentile_disc",
                OrderedSet::Mode => "mode",
                OrderedSet::Rank => "rank",
                OrderedSet::DenseRank => "dense_rank",
                OrderedSet::PercentRank => "percent_rank",
                OrderedSet::CumeDist => "cume_dist",
            },
        };
        let args: Vec<String> =
            self.args.iter().map(|arg| crate::expr::deparse::show(arg, names)).collect();
        let distinct = if self.distinct { "DISTINCT " } else { "" };
        format!("{name}({distinct}{})", args.join(", "))
    }

    /// Nothing met yet.
    pub(crate) fn start(&self) -> State {
        State { count: 0, whole: 0, scale: 0, value: Datum::Null, more: None }
    }

    /// Does a row count whose arguments are null where `is_null` says so?
    pub(crate) fn counts(&self, is_null: impl Fn(usize) -> bool) -> bool {
        match self.kind {
            Kind::CountAll | Kind::ArrayAgg | Kind::Json(_) => true,
            Kind::Regression(_) => !is_null(0) && !is_null(1),
            Kind::OrderedSet(set) => !set.skips_null() || !is_null(0),
            _ => !is_null(0),
        }
    }

    /// Does it take its rows in an order?
    pub(crate) fn gathers(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Do its values wait until all are there, because of their order or to be distinct?
    pub(crate) fn waits(&self) -> bool {
        self.distinct || self.gathers()
    }

    /// Values of [`Input::rest`].
    pub(crate) fn rest(&self) -> impl Iterator<Item = &Expr> {
        self.order.iter().chain(&self.direct)
    }

    /// What it takes of a row; `None` if the row does not count.
    pub(crate) fn input(&self, row: &[Datum], context: &Context) -> Result<Option<Input>> {
        if let Some(filter) = &self.filter
            && !filter.holds(row, context)?
        {
            return Ok(None);
        }
        let value = |at: usize| match self.args.get(at) {
            Some(arg) => arg.eval(row, context),
            None => Ok(Datum::Null),
        };
        let (first, second) = (value(0)?, value(1)?);
        if !self.counts(|at| if at == 0 { first.is_null() } else { second.is_null() }) {
            return Ok(None);
        }
        let rest = self.rest().map(|expr| expr.eval(row, context)).collect::<Result<Row>>()?;
        Ok(Some(Input { value: first, other: second, rest }))
    }

    /// Two strings of bits as `bit_and` and its kind combine them.
    fn combined_bits(&self, a: &Bits, b: &Bits) -> Result<Bits> {
        match self.kind {
            Kind::BitAnd => bits::combine(a, b, "AND", |a, b| a & b),
            Kind::BitOr => bits::combine(a, b, "OR", |a, b| a | b),
            _ => bits::combine(a, b, "XOR", |a, b| a ^ b),
        }
    }

    /// Takes a value in; one of several distinct ones when all are there. Returns how many bytes
    /// the state has grown by.
    pub(crate) fn add(&self, state: &mut State, input: Input) -> Result<usize> {
        if self.distinct {
            let bytes = 64 + size_of::<Input>() + input.heap_bytes();
            let grown = state.more().seen.insert(Ordered(input.into_row()));
            return Ok(if grown { bytes } else { 0 });
        }
        self.take(state, input)
    }

    /// Takes a value in, the only one like it if they are to be distinct. It waits if there is an
    /// order.
    pub(crate) fn take(&self, state: &mut State, mut input: Input) -> Result<usize> {
        if !self.gathers() {
            return self.take_now(state, input);
        }
        let of_direct = self.take_direct(state, &mut input);
        self.note_row(state);
        let row = input.into_row();
        let grown = of_direct + row_bytes(&row);
        state.more().rows.push(row);
        Ok(grown)
    }

    /// Counts a row of an ordered set, of which it is known how many it has before any is taken.
    pub(crate) fn note_row(&self, state: &mut State) {
        if let Kind::OrderedSet(_) = self.kind {
            state.count += 1;
        }
    }

    /// Takes what is asked about an ordered set off of what a row gives; keeps what the first one
    /// said. Returns how many bytes the state has grown by.
    pub(crate) fn take_direct(&self, state: &mut State, input: &mut Input) -> usize {
        let direct = input.rest.split_off(self.order.len());
        if direct.is_empty() || state.more().direct.is_some() {
            return 0;
        }
        let grown = row_bytes(&direct);
        state.more().direct = Some(direct);
        grown
    }

    /// Takes a value in that has not to wait.
    pub(crate) fn take_now(&self, state: &mut State, input: Input) -> Result<usize> {
        let Input { value, other, .. } = input;
        if self.kind == Kind::ArrayAgg {
            state.count += 1;
            return self.gather(state, value);
        }
        if let Kind::Json(json) = self.kind {
            let is_row = matches!(self.input, SqlType::Record | SqlType::Composite(_));
            let feeds = self.input.is_array() || is_row;
            let grown = json.add(&mut state.value, [&value, &other], self.result, feeds)?;
            state.count += 1;
            return Ok(grown);
        }
        let of_text = |state: &State| match self.kind {
            Kind::StringAgg => state.value.heap_bytes(),
            _ => 0,
        };
        let before = of_text(state);
        self.fold(state, value, &other)?;
        state.count += 1;
        Ok(of_text(state) - before)
    }

    /// Is all that it keeps of its values how many they are and, of integers, their sum?
    pub(crate) fn takes_integers(&self) -> bool {
        !self.distinct && !self.gathers() && self.can_give_back()
    }

    /// Is all that it keeps of its values how many they are and, of `numeric`, their sum?
    pub(crate) fn takes_numeric(&self) -> bool {
        let sums = matches!(self.kind, Kind::Sum | Kind::Average);
        sums && self.input == SqlType::Numeric && !self.distinct && !self.gathers()
    }

    /// Can a value that was taken in leave again?
    pub(crate) fn can_give_back(&self) -> bool {
        let exact = matches!(self.input, SqlType::Int2 | SqlType::Int4 | SqlType::Int8);
        match self.kind {
            Kind::CountAll | Kind::Count => true,
            Kind::Sum | Kind::Average => exact,
            _ => false,
        }
    }

    /// Takes a value out that was taken in.
    pub(crate) fn give_back(&self, state: &mut State, input: &Input) {
        assert!(self.can_give_back(), "only what is exact can be taken back");
        state.count -= 1;
        if let (Kind::Sum | Kind::Average, Some(whole)) = (self.kind, input.value.as_int()) {
            state.whole -= i128::from(whole);
        }
    }

    /// Puts a value behind the others of the array.
    fn gather(&self, state: &mut State, value: Datum) -> Result<usize> {
        if self.input.is_array() && value.is_null() {
            return Err(null_array());
        }
        let mut array = match std::mem::take(&mut state.value) {
            Datum::Array(array) => array,
            _ => {
                let ty = self.result.element().and_then(ElementType::of);
                Arc::new(Array::empty(ty.expect("the result is an array")))
            }
        };
        let grown = Arc::make_mut(&mut array).gather(value);
        state.value = Datum::Array(array);
        grown
    }

    fn fold(&self, state: &mut State, value: Datum, separator: &Datum) -> Result<()> {
        match self.kind {
            Kind::CountAll | Kind::Count => {}
            Kind::ArrayAgg | Kind::Json(_) => unreachable!("taken in by itself"),
            Kind::Average if self.input == SqlType::Float8 => state.average_in(&value)?,
            Kind::Sum | Kind::Average => state.sum(value)?,
            Kind::Min | Kind::Max => {
                let wanted =
                    if self.kind == Kind::Min { Ordering::Less } else { Ordering::Greater };
                match (&state.value, &value) {
                    (Datum::Text(old), Datum::Text(new)) => {
                        if self.compare_texts(new, old) == wanted {
                            state.value = value;
                        }
                    }
                    _ => state.keep(value, wanted),
                }
            }
            Kind::And | Kind::Or => {
                let decides = value == Datum::Bool(self.kind == Kind::Or);
                if state.count == 0 || decides {
                    state.value = value;
                }
            }
            Kind::BitAnd | Kind::BitOr | Kind::BitXor if self.result == SqlType::Bit => {
                state.value = match (&state.value, value) {
                    (Datum::Bit(a), Datum::Bit(b)) => Datum::Bit(self.combined_bits(a, &b)?),
                    (_, first) => first,
                };
            }
            Kind::BitAnd | Kind::BitOr | Kind::BitXor => {
                let bits = value.as_int().unwrap_or(0);
                let new = match (state.value.as_int(), self.kind) {
                    (None, _) => bits,
                    (Some(old), Kind::BitAnd) => old & bits,
                    (Some(old), Kind::BitOr) => old | bits,
                    (Some(old), _) => old ^ bits,
                };
                state.value = match self.result {
                    SqlType::Int2 => Datum::Int2(new as i16),
                    SqlType::Int4 => Datum::Int4(new as i32),
                    _ => Datum::Int8(new),
                };
            }
            Kind::StringAgg => match (&mut state.value, value) {
                (Datum::Text(all), Datum::Text(next)) => {
                    if let Datum::Text(between) = separator {
                        all.push_str(between);
                    }
                    all.push_str(&next);
                }
                (Datum::Bytes(all), Datum::Bytes(next)) => {
                    if let Datum::Bytes(between) = separator {
                        all.extend_from_slice(between);
                    }
                    all.extend_from_slice(&next);
                }
                (first, value) => *first = value,
            },
            Kind::Spread(_) if self.input == SqlType::Float8 => state.average_in(&value)?,
            Kind::Spread(_) => {
                let Datum::Numeric(number) = &value else {
                    unreachable!("numbers have been cast: {value:?}")
                };
                let square = numeric::multiply(number, number)?;
                let more = state.more();
                more.squares = Datum::Numeric(match &more.squares {
                    Datum::Numeric(sum) => numeric::add(sum, &square)?,
                    _ => square,
                });
                state.sum(value)?;
            }
            Kind::Regression(_) => {
                let (Datum::Float8(y), Datum::Float8(x)) = (&value, separator) else {
                    unreachable!("pairs have been cast: {value:?}")
                };
                let (y, x, count) = (*y, *x, state.count);
                state.more().sums.add(count, y, x)?;
            }
            Kind::OrderedSet(_) => unreachable!("its rows wait for all others"),
        }
        Ok(())
    }

    /// Order of two texts: those of `char(n)` without the blanks they end in.
    fn compare_texts(&self, a: &str, b: &str) -> Ordering {
        let end: &[char] = if self.input == SqlType::Bpchar { &[' '] } else { &[] };
        let (a, b) = (a.trim_end_matches(end), b.trim_end_matches(end));
        match &self.collation {
            Some(collation) => collation.compare(a, b),
            None => a.cmp(b),
        }
    }

    /// Takes in the distinct values that were met.
    pub(crate) fn take_distinct(&self, state: &mut State) -> Result<()> {
        for value in state.give_up() {
            self.take(state, value)?;
        }
        Ok(())
    }

    /// The result over the rows taken in.
    pub(crate) fn finish(&self, mut state: State) -> Result<Datum> {
        self.take_distinct(&mut state)?;
        let sums = matches!(self.kind, Kind::Sum | Kind::Average | Kind::Spread(_));
        if sums && self.input == SqlType::Numeric && state.count > 0 {
            state.settle()?;
        }
        match self.kind {
            Kind::CountAll | Kind::Count => Ok(Datum::Int8(state.count)),
            Kind::Regression(asked) => {
                let sums = state.more.map_or(Sums::default(), |more| more.sums);
                Ok(sums.answer(asked, state.count))
            }
            _ if state.count == 0 => Ok(Datum::Null),
            Kind::Sum => match self.input {
                SqlType::Int2 | SqlType::Int4 => i64::try_from(state.whole)
                    .map(Datum::Int8)
                    .map_err(|_| SqlError::new(code::NUMERIC_OUT_OF_RANGE, "bigint out of range")),
                SqlType::Int8 => Ok(Datum::Numeric(numeric::shifted(state.whole, 0))),
                _ => Ok(state.value),
            },
            Kind::Average => state.average(),
            Kind::Json(json) => json.finish(state.value, self.result),
            Kind::Spread(spread) if self.input == SqlType::Float8 => {
                Ok(spread.of_floats(state.count, state.deviation()))
            }
            Kind::Spread(spread) => {
                let squares = state.more.map_or(Datum::Null, |more| more.squares);
                match (&state.value, &squares) {
                    (Datum::Numeric(sum), Datum::Numeric(squares)) => {
                        spread.of_numbers(state.count, sum, squares)
                    }
                    _ => Ok(Datum::Null),
                }
            }
            _ => Ok(state.value),
        }
    }
}

impl OrderedSet {
    /// Do rows not count whose value is null?
    pub(crate) fn skips_null(self) -> bool {
        matches!(self, OrderedSet::Between | OrderedSet::Percentile | OrderedSet::Mode)
    }

    /// Does it ask where a row would stand?
    pub(crate) fn is_hypothetical(self) -> bool {
        !self.skips_null()
    }
}
