//! Functions over many rows.
//!
//! Invariants: nulls do not count, except for `count(*)`; sums of integers are exact however many;
//! distinct values are taken in their order.
//! Does not do: ordered-set aggregates, statistics such as `stddev`.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use rightlink::Collation;

use crate::error::{Result, SqlError, code};
use crate::expr::{Context, Expr};
use crate::types::calendar::interval_out_of_range;
use crate::types::{Datum, Decimal, Row, SqlType, numeric};

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
}

/// The aggregate called `name` over a first argument of type `input`: the type to cast it to, and
/// the type of the result.
pub(crate) fn find(name: &str, input: SqlType) -> Option<(Kind, SqlType, SqlType)> {
    use SqlType as T;
    let known = if input == T::Unknown { T::Text } else { input };
    Some(match name {
        "count" => (Kind::Count, known, T::Int8),
        "sum" => match known {
            T::Int2 | T::Int4 => (Kind::Sum, known, T::Int8),
            T::Int8 => (Kind::Sum, known, T::Numeric),
            T::Numeric | T::Float4 | T::Float8 | T::Interval => (Kind::Sum, known, known),
            _ => return None,
        },
        "avg" => match known {
            T::Int2 | T::Int4 | T::Int8 | T::Numeric => (Kind::Average, known, T::Numeric),
            T::Float4 | T::Float8 => (Kind::Average, T::Float8, T::Float8),
            T::Interval => (Kind::Average, known, known),
            _ => return None,
        },
        "min" | "max" if !matches!(known, T::Bool | T::Bytea | T::Uuid) => {
            (if name == "min" { Kind::Min } else { Kind::Max }, known, known)
        }
        "bool_and" | "every" if matches!(input, T::Bool | T::Unknown) => {
            (Kind::And, T::Bool, T::Bool)
        }
        "bool_or" if matches!(input, T::Bool | T::Unknown) => (Kind::Or, T::Bool, T::Bool),
        "bit_and" if matches!(known, T::Int2 | T::Int4 | T::Int8) => (Kind::BitAnd, known, known),
        "bit_or" if matches!(known, T::Int2 | T::Int4 | T::Int8) => (Kind::BitOr, known, known),
        "string_agg" if matches!(known, T::Text | T::Bpchar) => (Kind::StringAgg, T::Text, T::Text),
        _ => return None,
    })
}

/// Is there an aggregate of this name?
pub(crate) fn exists(name: &str) -> bool {
    matches!(
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
    )
}

/// An aggregate in the making.
#[derive(Clone, Debug)]
pub(crate) struct State {
    count: i64,
    /// Sum of integers; of floats that are averaged, the bits of [`deviation`].
    whole: i128,
    value: Datum,
    /// Values met that are still to be taken, for DISTINCT.
    seen: BTreeSet<Ordered>,
}

/// What an aggregate takes of a row: its first argument, and the second or null.
pub(crate) type Input = [Datum; 2];

/// A value by its order.
#[derive(Clone, Debug)]
pub(crate) struct Ordered(pub(crate) Vec<Datum>);

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> Ordering {
        let pairs = self.0.iter().zip(&other.0);
        pairs.map(|(a, b)| a.compare(b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ordered {}

impl State {
    /// Appends what was taken so far.
    pub(crate) fn write(self, out: &mut Row) {
        let whole = self.whole.to_le_bytes().to_vec();
        out.extend([Datum::Int8(self.count), Datum::Bytes(whole), self.value]);
    }

    /// What [`State::write`] wrote.
    pub(crate) fn read(values: &mut impl Iterator<Item = Datum>) -> State {
        let (Some(Datum::Int8(count)), Some(Datum::Bytes(whole)), Some(value)) =
            (values.next(), values.next(), values.next())
        else {
            unreachable!("a state was written")
        };
        let whole = i128::from_le_bytes(whole.try_into().expect("sixteen bytes were written"));
        State { count, whole, value, seen: BTreeSet::new() }
    }

    /// Takes in so many integers with this sum ([`Aggregate::takes_integers`]).
    pub(crate) fn add_integers(&mut self, count: i64, sum: i128) {
        self.count += count;
        self.whole += sum;
    }

    /// The distinct values that are still to be taken, in order.
    pub(crate) fn give_up(&mut self) -> impl Iterator<Item = Input> + use<> {
        let pair = |Ordered(values): Ordered| match <Input>::try_from(values) {
            Ok(input) => input,
            Err(_) => unreachable!("two values were put in"),
        };
        std::mem::take(&mut self.seen).into_iter().map(pair)
    }
}

impl Aggregate {
    /// Are the two written the same way?
    pub(crate) fn same(&self, other: &Aggregate) -> bool {
        let Aggregate { kind, args, input, result, distinct, filter, collation } = self;
        let same_args = || {
            args.len() == other.args.len() && args.iter().zip(&other.args).all(|(a, b)| a.same(b))
        };
        let same_filter = || match (filter, &other.filter) {
            (None, None) => true,
            (Some(own), Some(other)) => own.same(other),
            _ => false,
        };
        (*kind, *input, *result, *distinct)
            == (other.kind, other.input, other.result, other.distinct)
            && *collation == other.collation
            && same_args()
            && same_filter()
    }

    /// Its expressions over the rows that it takes.
    pub(crate) fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.args.iter().chain(&self.filter)
    }

    /// The same, to be changed.
    pub(crate) fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        self.args.iter_mut().chain(&mut self.filter)
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
        };
        let args: Vec<String> =
            self.args.iter().map(|arg| crate::expr::deparse::show(arg, names)).collect();
        let distinct = if self.distinct { "DISTINCT " } else { "" };
        format!("{name}({distinct}{})", args.join(", "))
    }

    /// Nothing met yet.
    pub(crate) fn start(&self) -> State {
        State { count: 0, whole: 0, value: Datum::Null, seen: BTreeSet::new() }
    }

    /// What it takes of a row; `None` if the row does not count.
    pub(crate) fn input(&self, row: &[Datum], context: &Context) -> Result<Option<Input>> {
        if let Some(filter) = &self.filter
            && !filter.holds(row, context)?
        {
            return Ok(None);
        }
        if self.kind == Kind::CountAll {
            return Ok(Some([Datum::Null, Datum::Null]));
        }
        let value = self.args[0].eval(row, context)?;
        if value.is_null() {
            return Ok(None);
        }
        let separator = match self.args.get(1) {
            Some(separator) => separator.eval(row, context)?,
            None => Datum::Null,
        };
        Ok(Some([value, separator]))
    }

    /// Takes a value in; one of several distinct ones when all are there. Returns how many bytes
    /// the state has grown by.
    pub(crate) fn add(&self, state: &mut State, input: Input) -> Result<usize> {
        if self.distinct {
            let bytes = 64 + input.iter().map(Datum::heap_bytes).sum::<usize>();
            let grown = state.seen.insert(Ordered(input.into()));
            return Ok(if grown { bytes + size_of::<Input>() } else { 0 });
        }
        self.take(state, input)
    }

    /// Takes a value in, the only one like it if they are to be distinct.
    pub(crate) fn take(&self, state: &mut State, [value, separator]: Input) -> Result<usize> {
        let grown = match self.kind {
            Kind::StringAgg => value.heap_bytes() + separator.heap_bytes() + 8,
            _ => 0,
        };
        self.fold(state, value, &separator)?;
        state.count += 1;
        Ok(grown)
    }

    /// Is all that it keeps of its values how many they are and, of integers, their sum?
    pub(crate) fn takes_integers(&self) -> bool {
        !self.distinct && self.can_give_back()
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
    pub(crate) fn give_back(&self, state: &mut State, [value, _]: &Input) {
        assert!(self.can_give_back(), "only what is exact can be taken back");
        state.count -= 1;
        if let (Kind::Sum | Kind::Average, Some(whole)) = (self.kind, value.as_int()) {
            state.whole -= i128::from(whole);
        }
    }

    fn fold(&self, state: &mut State, value: Datum, separator: &Datum) -> Result<()> {
        match self.kind {
            Kind::CountAll | Kind::Count => {}
            Kind::Average if self.input == SqlType::Float8 => average_in(state, &value)?,
            Kind::Sum | Kind::Average => sum(state, value)?,
            Kind::Min | Kind::Max => {
                let wanted =
                    if self.kind == Kind::Min { Ordering::Less } else { Ordering::Greater };
                match (&state.value, &value) {
                    (Datum::Text(old), Datum::Text(new)) => {
                        if self.compare_texts(new, old) == wanted {
                            state.value = value;
                        }
                    }
                    _ => keep(state, value, wanted),
                }
            }
            Kind::And | Kind::Or => {
                let decides = value == Datum::Bool(self.kind == Kind::Or);
                if state.count == 0 || decides {
                    state.value = value;
                }
            }
            Kind::BitAnd | Kind::BitOr => {
                let bits = value.as_int().unwrap_or(0);
                let old = state.value.as_int().unwrap_or(bits);
                let new = if self.kind == Kind::BitAnd { old & bits } else { old | bits };
                state.value = crate::types::cast::cast(Datum::Int8(new), self.result)?;
            }
            Kind::StringAgg => match (&mut state.value, value) {
                (Datum::Text(all), Datum::Text(next)) => {
                    separator.write_text(all);
                    all.push_str(&next);
                }
                (first, value) => *first = value,
            },
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

    /// The result over the rows taken in.
    pub(crate) fn finish(&self, mut state: State) -> Result<Datum> {
        for value in state.give_up() {
            self.take(&mut state, value)?;
        }
        match self.kind {
            Kind::CountAll | Kind::Count => Ok(Datum::Int8(state.count)),
            _ if state.count == 0 => Ok(Datum::Null),
            Kind::Sum => match self.input {
                SqlType::Int2 | SqlType::Int4 => i64::try_from(state.whole)
                    .map(Datum::Int8)
                    .map_err(|_| SqlError::new(code::NUMERIC_OUT_OF_RANGE, "bigint out of range")),
                SqlType::Int8 => Ok(Datum::Numeric(numeric::shifted(state.whole, 0))),
                _ => Ok(state.value),
            },
            Kind::Average => average(&state),
            _ => Ok(state.value),
        }
    }
}

fn keep(state: &mut State, value: Datum, wanted: Ordering) {
    if state.value.is_null() || value.compare(&state.value) == wanted {
        state.value = value;
    }
}

fn sum(state: &mut State, value: Datum) -> Result<()> {
    if let Some(whole) = value.as_int() {
        state.whole += i128::from(whole);
        return Ok(());
    }
    let overflow = || SqlError::new(code::NUMERIC_OUT_OF_RANGE, "value out of range: overflow");
    state.value = match (&state.value, value) {
        (Datum::Null, first) => first,
        (Datum::Float4(a), Datum::Float4(b)) => {
            let sum = a + b;
            if sum.is_infinite() && a.is_finite() && b.is_finite() {
                return Err(overflow());
            }
            Datum::Float4(sum)
        }
        (Datum::Float8(a), Datum::Float8(b)) => {
            let sum = a + b;
            if sum.is_infinite() && a.is_finite() && b.is_finite() {
                return Err(overflow());
            }
            Datum::Float8(sum)
        }
        (Datum::Numeric(a), Datum::Numeric(b)) => Datum::Numeric(numeric::add(a, &b)?),
        (Datum::Interval(a), Datum::Interval(b)) => {
            Datum::Interval(a.checked_add(b).ok_or_else(interval_out_of_range)?)
        }
        (old, value) => unreachable!("one type for all rows: {old:?} {value:?}"),
    };
    Ok(())
}

/// Takes a float into an average: the sum, and beside it the sum of squared deviations (Youngs and
/// Cramer), which fails where it overflows, as in PostgreSQL.
fn average_in(state: &mut State, value: &Datum) -> Result<()> {
    let Datum::Float8(new) = value else {
        unreachable!("averages have been cast: {value:?}");
    };
    let old = if let Datum::Float8(sum) = state.value { sum } else { 0.0 };
    let (count, sum) = (state.count as f64 + 1.0, old + new);
    let mut squares = deviation(state);
    if state.count > 0 {
        let part = new * count - sum;
        squares += part * part / (count * state.count as f64);
        if sum.is_infinite() || squares.is_infinite() {
            if !old.is_infinite() && !new.is_infinite() {
                let what = "value out of range: overflow";
                return Err(SqlError::new(code::NUMERIC_OUT_OF_RANGE, what));
            }
            squares = f64::NAN;
        }
    } else if !new.is_finite() {
        squares = f64::NAN;
    }
    state.value = Datum::Float8(sum);
    state.whole = i128::from(squares.to_bits());
    Ok(())
}

/// The sum of squared deviations from the average.
fn deviation(state: &State) -> f64 {
    u64::try_from(state.whole).map_or(f64::NAN, f64::from_bits)
}

fn average(state: &State) -> Result<Datum> {
    let count = Decimal::from(state.count);
    match &state.value {
        Datum::Null => {
            let sum = numeric::shifted(state.whole, 0);
            Ok(Datum::Numeric(numeric::divide(&sum, &count)?))
        }
        Datum::Numeric(sum) => Ok(Datum::Numeric(numeric::divide(sum, &count)?)),
        Datum::Float8(sum) => Ok(Datum::Float8(sum / state.count as f64)),
        Datum::Interval(sum) => {
            let average = sum.checked_div(state.count as f64);
            Ok(Datum::Interval(average.ok_or_else(interval_out_of_range)?))
        }
        other => unreachable!("averages have been cast: {other:?}"),
    }
}
