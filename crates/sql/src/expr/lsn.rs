//! Operators over places in a log, as PostgreSQL's `pg_lsn.c` has them: distances in bytes.
//!
//! Does not do: comparisons (`operators`).

use crate::error::{Result, SqlError, code};
use crate::expr::function::Registry;
use crate::expr::operators::mismatch;
use crate::types::{Datum, Decimal, Lsn, SqlType, numeric};

/// Adds them.
pub(super) fn register(registry: &mut Registry) {
    use SqlType as T;
    registry.add("-", &[T::Lsn, T::Lsn], T::Numeric, |v, _| match v {
        [Datum::Lsn(a), Datum::Lsn(b)] => {
            Ok(Datum::Numeric(numeric::subtract(&number(*a), &number(*b))?))
        }
        _ => mismatch(v),
    });
    for args in [[T::Lsn, T::Numeric], [T::Numeric, T::Lsn]] {
        registry.add("+", &args, T::Lsn, |v, _| match v {
            [Datum::Lsn(place), Datum::Numeric(bytes)]
            | [Datum::Numeric(bytes), Datum::Lsn(place)] => {
                check(bytes, "add NaN to")?;
                moved(&numeric::add(&number(*place), bytes)?)
            }
            _ => mismatch(v),
        });
    }
    registry.add("-", &[T::Lsn, T::Numeric], T::Lsn, |v, _| match v {
        [Datum::Lsn(place), Datum::Numeric(bytes)] => {
            check(bytes, "subtract NaN from")?;
            moved(&numeric::subtract(&number(*place), bytes)?)
        }
        _ => mismatch(v),
    });
    registry.add("pg_lsn", &[T::Numeric], T::Lsn, |v, _| match v {
        [Datum::Numeric(bytes)] => {
            check(bytes, "convert NaN to")?;
            moved(bytes)
        }
        _ => mismatch(v),
    });
}

fn number(place: Lsn) -> Decimal {
    numeric::shifted(i128::from(place.0), 0)
}

fn refused(what: &str) -> SqlError {
    SqlError::new(code::FEATURE_NOT_SUPPORTED, format!("cannot {what} pg_lsn"))
}

fn check(bytes: &Decimal, what: &str) -> Result<()> {
    if bytes.is_nan() { Err(refused(what)) } else { Ok(()) }
}

/// The place that a number is, rounded.
fn moved(number: &Decimal) -> Result<Datum> {
    if !number.is_finite() {
        return Err(refused("convert infinity to"));
    }
    match numeric::round(number, 0)?.to_string().parse() {
        Ok(place) => Ok(Datum::Lsn(Lsn(place))),
        Err(_) => Err(SqlError::new(code::INVALID_PARAMETER, "pg_lsn out of range")),
    }
}
