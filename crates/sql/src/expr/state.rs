//! What an aggregate keeps of the rows that it has taken in.
//!
//! Sums of integers and of `numeric` are whole numbers of 128 bits as long as these suffice.
//!
//! Invariants: what is written and read again is the same state; sums are exact.
//! Does not do: what a row gives, and what is computed in the end (`aggregate`).

use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::error::{Result, SqlError, code};
use crate::expr::regression::Sums;
use crate::types::calendar::interval_out_of_range;
use crate::types::{Datum, Decimal, Row, numeric};

/// Places of arguments in rows that are put in order.
pub(crate) const ARGUMENTS: usize = 2;

/// An aggregate in the making.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) count: i64,
    /// Sum of integers; of `numeric`, what `value` lacks, times 10^`scale`; of floats that are
    /// averaged, the bits of [`State::deviation`].
    pub(super) whole: i128,
    pub(super) scale: u16,
    pub(super) value: Datum,
    /// What few aggregates need.
    pub(super) more: Option<Box<More>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct More {
    /// Values met that are still to be taken, for DISTINCT.
    pub(super) seen: BTreeSet<Ordered>,
    /// Rows that are still to be put in order.
    pub(super) rows: Vec<Row>,
    /// What is asked about an ordered set.
    pub(super) direct: Option<Row>,
    pub(super) sums: Sums,
    /// Sum of the squares.
    pub(super) squares: Datum,
}

impl State {
    pub(super) fn more(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    /// Appends what was taken so far. No values wait.
    pub(crate) fn write(self, out: &mut Row) {
        let whole = self.whole.to_le_bytes().to_vec();
        let scale = Datum::Int4(i32::from(self.scale));
        out.extend([Datum::Int8(self.count), Datum::Bytes(whole), scale, self.value]);
        let Some(more) = self.more else {
            out.push(Datum::Null);
            return;
        };
        let More { seen, rows, direct, sums, squares } = *more;
        assert!(seen.is_empty() && rows.is_empty(), "values that wait were given up");
        out.extend([Datum::Bytes(sums.to_bytes()), squares]);
        out.push(direct.as_ref().map_or(Datum::Null, |row| Datum::Int8(row.len() as i64)));
        out.extend(direct.into_iter().flatten());
    }

    /// What [`State::write`] wrote.
    pub(crate) fn read(values: &mut impl Iterator<Item = Datum>) -> State {
        let mut next = || values.next().unwrap_or_default();
        let (Datum::Int8(count), Datum::Bytes(whole), Datum::Int4(scale), value) =
            (next(), next(), next(), next())
        else {
            unreachable!("a state was written")
        };
        let scale = u16::try_from(scale).expect("a scale was written");
        let whole = i128::from_le_bytes(whole.try_into().expect("sixteen bytes were written"));
        let more = match next() {
            Datum::Bytes(sums) => {
                let (squares, length) = (next(), next().as_int());
                let direct = length.map(|length| values.take(length as usize).collect());
                let sums = Sums::from_bytes(&sums);
                Some(Box::new(More { direct, sums, squares, ..More::default() }))
            }
            _ => None,
        };
        State { count, whole, scale, value, more }
    }

    /// Takes in so many integers with this sum (`Aggregate::takes_integers`).
    pub(crate) fn add_integers(&mut self, count: i64, sum: i128) {
        self.count += count;
        self.whole += sum;
    }

    /// Takes in a number, `unscaled` / 10^`scale` (`Aggregate::takes_numeric`).
    pub(crate) fn add_numeric(&mut self, unscaled: i128, scale: u16) -> Result<()> {
        self.count += 1;
        self.sum_numeric(unscaled, scale)
    }

    /// Adds to the sum, in 128 bits as long as they suffice.
    fn sum_numeric(&mut self, unscaled: i128, scale: u16) -> Result<()> {
        let (Some(own), Some(new)) =
            (rescaled(self.whole, self.scale, scale), rescaled(unscaled, scale, self.scale))
        else {
            self.settle()?;
            (self.whole, self.scale) = (unscaled, scale);
            return Ok(());
        };
        match own.checked_add(new) {
            Some(sum) => (self.whole, self.scale) = (sum, self.scale.max(scale)),
            None => {
                self.settle()?;
                (self.whole, self.scale) = (unscaled, scale);
            }
        }
        Ok(())
    }

    /// Makes `value` the whole sum of numbers.
    pub(super) fn settle(&mut self) -> Result<()> {
        let part = numeric::shifted(std::mem::take(&mut self.whole), self.scale);
        self.value = Datum::Numeric(match &self.value {
            Datum::Numeric(sum) => numeric::add(sum, &part)?,
            _ => part,
        });
        Ok(())
    }

    /// The distinct values that are still to be taken, in order.
    pub(crate) fn give_up(&mut self) -> impl Iterator<Item = Input> + use<> {
        let seen = self.more.as_mut().map(|more| std::mem::take(&mut more.seen));
        seen.unwrap_or_default().into_iter().map(|Ordered(values)| Input::of_row(values))
    }

    /// The rows that are still to be put in order.
    pub(crate) fn give_up_rows(&mut self) -> Vec<Row> {
        self.more.as_mut().map(|more| std::mem::take(&mut more.rows)).unwrap_or_default()
    }

    /// What is asked about an ordered set, if a row said it.
    pub(crate) fn direct(&mut self) -> Option<Row> {
        self.more.as_mut()?.direct.take()
    }

    /// Bytes of the value that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.value.heap_bytes()
    }
}

/// `unscaled` / 10^`scale` with a scale of at least `wanted`; `None` beyond 128 bits.
fn rescaled(unscaled: i128, scale: u16, wanted: u16) -> Option<i128> {
    match wanted.saturating_sub(scale) {
        0 => Some(unscaled),
        missing => unscaled.checked_mul(10i128.checked_pow(u32::from(missing))?),
    }
}

/// What an aggregate takes of a row.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    /// Its first argument.
    pub(crate) value: Datum,
    /// The second one, or null.
    pub(crate) other: Datum,
    /// Values that rows are ordered by, and what is asked about an ordered set behind them.
    pub(crate) rest: Row,
}

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

/// Bytes of a row that waits to be put in order.
pub(super) fn row_bytes(row: &[Datum]) -> usize {
    let heap: usize = row.iter().map(Datum::heap_bytes).sum();
    size_of::<Row>() + size_of_val(row) + heap
}

impl Input {
    /// Of the arguments and what is behind them.
    pub(crate) fn of_row(mut values: Row) -> Input {
        let rest = values.split_off(ARGUMENTS);
        let mut values = values.into_iter();
        let mut value = || values.next().unwrap_or_default();
        Input { value: value(), other: value(), rest }
    }

    /// The arguments and what is behind them.
    pub(crate) fn into_row(self) -> Row {
        let Input { value, other, rest } = self;
        let mut row = Row::with_capacity(ARGUMENTS + rest.len());
        row.extend([value, other]);
        row.extend(rest);
        row
    }

    /// Bytes beyond its own.
    pub(crate) fn heap_bytes(&self) -> usize {
        let rest: usize = self.rest.iter().map(Datum::heap_bytes).sum();
        let own = self.value.heap_bytes() + self.other.heap_bytes();
        own + rest + size_of_val(self.rest.as_slice())
    }
}

impl State {
    /// Keeps a value if it is the first, or compares as wanted with the one kept.
    pub(super) fn keep(&mut self, value: Datum, wanted: Ordering) {
        if self.value.is_null() || value.compare(&self.value) == wanted {
            self.value = value;
        }
    }

    /// Adds a value to the sum.
    pub(super) fn sum(&mut self, value: Datum) -> Result<()> {
        if let Some(whole) = value.as_int() {
            self.whole += i128::from(whole);
            return Ok(());
        }
        if let Datum::Numeric(number) = &value {
            if let Some((unscaled, scale)) = number.unscaled() {
                return self.sum_numeric(unscaled, scale);
            }
            self.value = match &self.value {
                Datum::Numeric(sum) => Datum::Numeric(numeric::add(sum, number)?),
                _ => value,
            };
            return Ok(());
        }
        let overflow = || SqlError::new(code::NUMERIC_OUT_OF_RANGE, "value out of range: overflow");
        self.value = match (&self.value, value) {
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
            (Datum::Interval(a), Datum::Interval(b)) => {
                Datum::Interval(a.checked_add(b).ok_or_else(interval_out_of_range)?)
            }
            (old, value) => unreachable!("one type for all rows: {old:?} {value:?}"),
        };
        Ok(())
    }

    /// Takes a float into an average: the sum, and beside it the sum of squared deviations (Youngs
    /// and Cramer), which fails where it overflows, as in PostgreSQL.
    pub(super) fn average_in(&mut self, value: &Datum) -> Result<()> {
        let Datum::Float8(new) = value else {
            unreachable!("averages have been cast: {value:?}");
        };
        let old = if let Datum::Float8(sum) = self.value { sum } else { 0.0 };
        let (count, sum) = (self.count as f64 + 1.0, old + new);
        let mut squares = self.deviation();
        if self.count > 0 {
            let part = new * count - sum;
            squares += part * part / (count * self.count as f64);
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
        self.value = Datum::Float8(sum);
        self.whole = i128::from(squares.to_bits());
        Ok(())
    }

    /// The sum of squared deviations from the average.
    pub(super) fn deviation(&self) -> f64 {
        u64::try_from(self.whole).map_or(f64::NAN, f64::from_bits)
    }

    /// The average of what was summed up.
    pub(super) fn average(&self) -> Result<Datum> {
        let count = Decimal::from(self.count);
        match &self.value {
            Datum::Null => {
                let sum = numeric::shifted(self.whole, 0);
                Ok(Datum::Numeric(numeric::divide(&sum, &count)?))
            }
            Datum::Numeric(sum) => Ok(Datum::Numeric(numeric::divide(sum, &count)?)),
            Datum::Float8(sum) => Ok(Datum::Float8(sum / self.count as f64)),
            Datum::Interval(sum) => {
                let average = sum.checked_div(self.count as f64);
                Ok(Datum::Interval(average.ok_or_else(interval_out_of_range)?))
            }
            other => unreachable!("averages have been cast: {other:?}"),
        }
    }
}
