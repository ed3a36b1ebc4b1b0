//! Variances and regressions: sums that are kept with each row, and what is made of them.
//!
//! Floats are taken in as PostgreSQL does (Youngs and Cramer): the sums of squared deviations grow
//! with each row, and no large squares are subtracted at the end. Exact numbers keep their sum and
//! the sum of their squares.
//!
//! Invariants: results are PostgreSQL's to the last digit, infinities and overflows included.
//! Does not do: averages (`aggregate`).

use crate::error::{Result, SqlError, code};
use crate::types::{Datum, Decimal, numeric};

/// A variance or its root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spread {
    /// Of a sample of all values?
    pub(crate) is_sample: bool,
    /// Its root?
    pub(crate) is_deviation: bool,
}

/// What is asked about pairs of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Regression {
    Count,
    Sxx,
    Syy,
    Sxy,
    AverageX,
    AverageY,
    R2,
    Slope,
    Intercept,
    CovariancePopulation,
    CovarianceSample,
    Correlation,
}

/// Names, and what they ask.
const REGRESSIONS: [(&str, Regression); 12] = [
    ("regr_count", Regression::Count),
    ("regr_sxx", Regression::Sxx),
    ("regr_syy", Regression::Syy),
    ("regr_sxy", Regression::Sxy),
    ("regr_avgx", Regression::AverageX),
    ("regr_avgy", Regression::AverageY),
    ("regr_r2", Regression::R2),
    ("regr_slope", Regression::Slope),
    ("regr_intercept", Regression::Intercept),
    ("covar_pop", Regression::CovariancePopulation),
    ("covar_samp", Regression::CovarianceSample),
    ("corr", Regression::Correlation),
];

impl Spread {
    /// The variance or deviation of this name.
    pub(crate) fn named(name: &str) -> Option<Spread> {
        let (is_sample, is_deviation) = match name {
            "variance" | "var_samp" => (true, false),
            "var_pop" => (false, false),
            "stddev" | "stddev_samp" => (true, true),
            "stddev_pop" => (false, true),
            _ => return None,
        };
        Some(Spread { is_sample, is_deviation })
    }

    pub(crate) fn name(self) -> &'static str {
        match (self.is_sample, self.is_deviation) {
            (true, false) => "variance",
            (false, false) => "var_pop",
            (true, true) => "stddev",
            (false, true) => "stddev_pop",
        }
    }

    /// Of so many floats with this sum of squared deviations.
    pub(crate) fn of_floats(self, count: i64, squares: f64) -> Datum {
        let Some(parts) = self.parts(count) else { return Datum::Null };
        let variance = squares / parts as f64;
        Datum::Float8(if self.is_deviation { variance.sqrt() } else { variance })
    }

    /// Of so many exact numbers with this sum and this sum of squares.
    pub(crate) fn of_numbers(self, count: i64, sum: &Decimal, squares: &Decimal) -> Result<Datum> {
        let Some(parts) = self.parts(count) else { return Ok(Datum::Null) };
        let all = Decimal::from(count);
        let above =
            numeric::subtract(&numeric::multiply(&all, squares)?, &numeric::multiply(sum, sum)?)?;
        if above.is_zero() || above.is_negative() {
            return Ok(Datum::Numeric(Decimal::from(0)));
        }
        let below = numeric::multiply(&all, &Decimal::from(parts))?;
        let variance = numeric::divide(&above, &below)?;
        Ok(Datum::Numeric(match self.is_deviation {
            true => numeric::root(&variance)?,
            false => variance,
        }))
    }

    /// What the squares are divided by; `None` if there are too few values.
    fn parts(self, count: i64) -> Option<i64> {
        let parts = count - i64::from(self.is_sample);
        (parts > 0).then_some(parts)
    }
}

impl Regression {
    /// What this name asks.
    pub(crate) fn named(name: &str) -> Option<Regression> {
        REGRESSIONS.iter().find(|(known, _)| *known == name).map(|(_, one)| *one)
    }

    pub(crate) fn name(self) -> &'static str {
        REGRESSIONS.iter().find(|(_, one)| *one == self).map_or("", |(name, _)| name)
    }
}

/// Sums over pairs of floats.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Sums {
    x: f64,
    y: f64,
    xx: f64,
    yy: f64,
    xy: f64,
}

impl Sums {
    /// Takes a pair in, `count` being there already.
    pub(crate) fn add(&mut self, count: i64, y: f64, x: f64) -> Result<()> {
        let before = *self;
        let (old, new) = (count as f64, count as f64 + 1.0);
        self.x += x;
        self.y += y;
        if count == 0 {
            if !x.is_finite() {
                (self.xx, self.xy) = (f64::NAN, f64::NAN);
            }
            if !y.is_finite() {
                (self.yy, self.xy) = (f64::NAN, f64::NAN);
            }
            return Ok(());
        }
        let (of_x, of_y) = (x * new - self.x, y * new - self.y);
        let scale = 1.0 / (new * old);
        self.xx += of_x * of_x * scale;
        self.yy += of_y * of_y * scale;
        self.xy += of_x * of_y * scale;
        if ![self.x, self.xx, self.y, self.yy, self.xy].iter().any(|sum| sum.is_infinite()) {
            return Ok(());
        }
        let plain_x = !before.x.is_infinite() && !x.is_infinite();
        let plain_y = !before.y.is_infinite() && !y.is_infinite();
        if ((self.x.is_infinite() || self.xx.is_infinite()) && plain_x)
            || ((self.y.is_infinite() || self.yy.is_infinite()) && plain_y)
            || (self.xy.is_infinite() && plain_x && plain_y)
        {
            let message = "value out of range: overflow";
            return Err(SqlError::new(code::NUMERIC_OUT_OF_RANGE, message));
        }
        for sum in [&mut self.xx, &mut self.yy, &mut self.xy] {
            if sum.is_infinite() {
                *sum = f64::NAN;
            }
        }
        Ok(())
    }

    /// The answer over so many pairs.
    pub(crate) fn answer(&self, asked: Regression, count: i64) -> Datum {
        if asked == Regression::Count {
            return Datum::Int8(count);
        }
        let least = if asked == Regression::CovarianceSample { 2 } else { 1 };
        if count < least {
            return Datum::Null;
        }
        let all = count as f64;
        let constant_x = self.xx == 0.0;
        Datum::Float8(match asked {
            Regression::Count => unreachable!("answered above"),
            Regression::Sxx => self.xx,
            Regression::Syy => self.yy,
            Regression::Sxy => self.xy,
            Regression::AverageX => self.x / all,
            Regression::AverageY => self.y / all,
            Regression::CovariancePopulation => self.xy / all,
            Regression::CovarianceSample => self.xy / (all - 1.0),
            Regression::Correlation if constant_x || self.yy == 0.0 => return Datum::Null,
            Regression::Correlation => self.xy / (self.xx * self.yy).sqrt(),
            _ if constant_x => return Datum::Null,
            Regression::R2 if self.yy == 0.0 => 1.0,
            Regression::R2 => (self.xy * self.xy) / (self.xx * self.yy),
            Regression::Slope => self.xy / self.xx,
            Regression::Intercept => (self.y - self.x * self.xy / self.xx) / all,
        })
    }

    /// As bytes that a file holds.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        [self.x, self.y, self.xx, self.yy, self.xy]
            .iter()
            .flat_map(|sum| sum.to_le_bytes())
            .collect()
    }

    /// What [`Sums::to_bytes`] wrote.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Sums {
        let sum = |at: usize| {
            let part = bytes[8 * at..8 * at + 8].try_into().expect("eight bytes");
            f64::from_le_bytes(part)
        };
        Sums { x: sum(0), y: sum(1), xx: sum(2), yy: sum(3), xy: sum(4) }
    }
}
