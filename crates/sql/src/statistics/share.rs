//! The share of rows that a comparison with a value is true of.
//!
//! The estimates are those of PostgreSQL's `selfuncs.c`: the most common values are counted as they
//! are, the others are taken to be equally common, and a range takes the part of the histogram that
//! it covers, straight lines between the bounds.
//!
//! Invariants: shares are between 0 and 1; a null compares with nothing.
//! Does not do: texts under a collation.

use super::{ColumnStatistics, kept_value};
use crate::types::{Datum, SqlType};

impl ColumnStatistics {
    /// How many different values `rows` rows have.
    pub(crate) fn values_among(&self, rows: f64) -> f64 {
        let count = if self.distinct < 0.0 { -self.distinct * rows } else { self.distinct };
        count.max(1.0)
    }

    fn common_share(&self) -> f64 {
        self.common.iter().map(|(_, share)| share).sum::<f64>()
    }

    /// Rows whose value is equal to one; `None`: one that is not known yet.
    pub(crate) fn equal(&self, value: Option<&Datum>, rows: f64) -> f64 {
        let values = self.values_among(rows);
        let value = value.map(kept_value);
        let value = value.as_deref();
        let Some(value) = value.filter(|value| self.compares(value)) else {
            let share = (1.0 - self.nulls) / values;
            let most = self.common.first().map_or(1.0, |(_, share)| *share);
            return share.min(most).clamp(0.0, 1.0);
        };
        if value.is_null() {
            return 0.0;
        }
        if let Some((_, share)) = self.common.iter().find(|(one, _)| one.compare(value).is_eq()) {
            return *share;
        }
        let rest = (1.0 - self.nulls - self.common_share()).max(0.0);
        let others = (values - self.common.len() as f64).max(1.0);
        // It would be among the most common ones if it were more common than the last of them.
        let least = self.common.last().map_or(1.0, |(_, share)| *share);
        (rest / others).min(least)
    }

    /// Rows whose value is smaller than one, or (`inclusive`) equal; `None` if it cannot be told.
    pub(crate) fn below(&self, value: Option<&Datum>, inclusive: bool) -> Option<f64> {
        let value = value.map(kept_value);
        let value = value.as_deref().filter(|value| self.compares(value))?;
        if value.is_null() {
            return Some(0.0);
        }
        if self.common.is_empty() && self.bounds.len() < 2 {
            return None;
        }
        let is_below = |one: &Datum| {
            let order = one.compare(value);
            order.is_lt() || inclusive && order.is_eq()
        };
        let common = self.common.iter().filter(|(one, _)| is_below(one));
        let common = common.map(|(_, share)| share).sum::<f64>();
        let rest = (1.0 - self.nulls - self.common_share()).max(0.0);
        let part = match self.bounds.len() {
            // Nothing is known of the others.
            0 | 1 => 0.5,
            _ => self.histogram_below(value, &is_below),
        };
        Some((common + rest * part).clamp(0.0, 1.0))
    }

    /// Rows whose value is larger than one, or (`inclusive`) equal.
    pub(crate) fn above(&self, value: Option<&Datum>, inclusive: bool) -> Option<f64> {
        if value.is_some_and(Datum::is_null) {
            return Some(0.0);
        }
        let below = self.below(value, !inclusive)?;
        Some((1.0 - self.nulls - below).clamp(0.0, 1.0))
    }

    /// The part of the histogram below a value. Never nothing and never all: the ends may have
    /// moved since.
    fn histogram_below(&self, value: &Datum, is_below: &dyn Fn(&Datum) -> bool) -> f64 {
        let parts = (self.bounds.len() - 1) as f64;
        let at = self.bounds.partition_point(|bound| is_below(bound));
        let part = match at {
            0 => 0.0,
            at if at == self.bounds.len() => 1.0,
            at => {
                let within = between(&self.bounds[at - 1], &self.bounds[at], value);
                ((at - 1) as f64 + within) / parts
            }
        };
        let least = 0.01 / parts;
        part.clamp(least, 1.0 - least)
    }

    /// Can the value be compared with those of the column?
    fn compares(&self, value: &Datum) -> bool {
        let whole = |ty| matches!(ty, SqlType::Int2 | SqlType::Int4 | SqlType::Int8);
        match value.type_of() {
            None => true,
            Some(SqlType::Text) => matches!(self.ty, SqlType::Text | SqlType::Bpchar),
            Some(ty) => ty == self.ty || whole(ty) && whole(self.ty),
        }
    }
}

/// Where a value lies on the way from `low` to `high`.
fn between(low: &Datum, high: &Datum, value: &Datum) -> f64 {
    let numbers = match (bytes(low), bytes(high), bytes(value)) {
        (Some(low), Some(high), Some(value)) => {
            let same = low.iter().zip(high).take_while(|(a, b)| a == b).count();
            let fraction = |bytes: &[u8]| {
                let digits = bytes.get(same..).unwrap_or(&[]).iter().take(8);
                digits.rev().fold(0.0, |sum, digit| (sum + f64::from(*digit)) / 256.0)
            };
            Some((fraction(low), fraction(high), fraction(value)))
        }
        _ => match (scalar(low), scalar(high), scalar(value)) {
            (Some(low), Some(high), Some(value)) => Some((low, high, value)),
            _ => None,
        },
    };
    let Some((low, high, value)) = numbers else { return 0.5 };
    let part = (value - low) / (high - low);
    if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.5 }
}

fn bytes(value: &Datum) -> Option<&[u8]> {
    match value {
        Datum::Text(text) => Some(text.as_bytes()),
        Datum::Bytes(bytes) => Some(bytes),
        Datum::Uuid(bytes) => Some(bytes),
        _ => None,
    }
}

fn scalar(value: &Datum) -> Option<f64> {
    match value {
        Datum::Numeric(number) => Some(crate::types::numeric::to_float(number)),
        Datum::Date(days) => Some(f64::from(*days)),
        Datum::Timestamp(micros) | Datum::Timestamptz(micros) => Some(*micros as f64),
        Datum::Time(micros) => Some(*micros as f64),
        Datum::Timetz(time) => Some(time.utc_micros() as f64),
        Datum::Interval(interval) => Some(interval.total_micros() as f64),
        other => other.as_float(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column() -> ColumnStatistics {
        ColumnStatistics {
            name: "a".into(),
            ty: SqlType::Int4,
            nulls: 0.1,
            width: 4.0,
            distinct: 102.0,
            common: vec![(Datum::Int4(7), 0.3), (Datum::Int4(50), 0.1)],
            bounds: (0..=10).map(|n| Datum::Int4(n * 10)).collect(),
            correlation: None,
        }
    }

    fn is(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 1e-9, "{found}, not {wanted}");
    }

    #[test]
    fn shares_are_those_of_common_values_and_the_histogram() {
        let column = column();
        is(column.equal(Some(&Datum::Int8(7)), 1_000.0), 0.3);
        is(column.equal(Some(&Datum::Int4(8)), 1_000.0), 0.5 / 100.0);
        is(column.equal(None, 1_000.0), 0.9 / 102.0);
        is(column.equal(Some(&Datum::Null), 1_000.0), 0.0);
        // Half of the others, and the value 7.
        is(column.below(Some(&Datum::Int4(50)), false).unwrap(), 0.3 + 0.5 * 0.5);
        is(column.below(Some(&Datum::Int4(50)), true).unwrap(), 0.3 + 0.1 + 0.5 * 0.5);
        is(column.above(Some(&Datum::Int4(25)), false).unwrap(), 0.1 + 0.5 * 0.75);
        is(column.above(Some(&Datum::Int4(1_000)), true).unwrap(), 0.5 * 0.001);
        assert_eq!(column.below(None, true), None);
        assert_eq!(column.below(Some(&Datum::Text("x".into())), true), None);
        is(column.above(Some(&Datum::Null), true).unwrap(), 0.0);
    }

    #[test]
    fn texts_lie_between_others_by_what_tells_those_apart() {
        let text = |text: &str| Datum::Text(text.to_owned());
        let half = between(&text("key a"), &text("key c"), &text("key b"));
        assert!((half - 0.5).abs() < 0.01, "{half}");
        is(between(&text("a"), &text("a"), &text("a")), 0.5);
        is(between(&Datum::Date(10), &Datum::Date(20), &Datum::Date(12)), 0.2);
    }
}
