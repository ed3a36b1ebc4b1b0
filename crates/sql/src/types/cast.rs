//! From one type to another: which casts there are, when they happen by themselves, and how.
//!
//! Invariants: a cast that would lose the value fails; rounding to integers is to even from floats
//! and away from zero from numeric, as in PostgreSQL.
//! Elements of an array are cast one by one, wherever that is allowed of one of them.
//! Does not do: rows without a name as those of a type, which the binder takes apart; domains.

use crate::error::{Result, SqlError, code};
use crate::types::json::Node;
use crate::types::time::Times;
use crate::types::{
    Bits, Category, Datum, Decimal, Interval, Jsonb, RegKind, Registered, SqlType, ZonedTime,
    calendar, numeric, text,
};

/// When a cast may happen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum CastContext {
    /// By itself, anywhere.
    Implicit,
    /// By itself, when stored into a column.
    Assignment,
    /// When it is written.
    Explicit,
}

/// The weakest context in which `from` becomes `to`; `None` if never.
pub(crate) fn context(from: SqlType, to: SqlType) -> Option<CastContext> {
    use CastContext::{Assignment, Explicit, Implicit};
    use SqlType as T;
    if from == to || from == T::Unknown {
        return Some(Implicit);
    }
    let rank = |ty| match ty {
        T::Int2 => Some(0),
        T::Int4 => Some(1),
        T::Int8 => Some(2),
        T::Numeric => Some(3),
        T::Float4 => Some(4),
        T::Float8 => Some(5),
        _ => None,
    };
    if let (Some(a), Some(b)) = (rank(from), rank(to)) {
        return Some(if a < b { Implicit } else { Assignment });
    }
    Some(match (from, to) {
        // Whether its fields allow it is known where it is made.
        (T::Record, T::Composite(_)) => Implicit,
        (T::Composite(_), T::Record) => Implicit,
        (T::Array(from), T::Array(to))
            if from.ty() == T::Record && matches!(to.ty(), T::Composite(_)) =>
        {
            return None;
        }
        (T::Array(from), T::Array(to)) => return context(from.ty(), to.ty()),
        (T::Int2Vector, T::Array(to)) if to.ty() == T::Int2 => Implicit,
        (T::OidVector, T::Array(to)) if to.ty() == T::Oid => Implicit,
        (T::Int2Vector, T::Array(to)) => return context(T::Int2, to.ty()),
        (T::OidVector, T::Array(to)) => return context(T::Oid, to.ty()),
        (T::Int2 | T::Int4 | T::Int8 | T::Reg(_), T::Oid) => Implicit,
        (T::Int2 | T::Int4 | T::Int8 | T::Oid, T::Reg(_)) => Implicit,
        (T::Oid | T::Reg(_), T::Int8 | T::Int4) => Assignment,
        (T::Reg(RegKind::Proc), T::Reg(RegKind::Procedure))
        | (T::Reg(RegKind::Procedure), T::Reg(RegKind::Proc)) => Implicit,
        (T::Text | T::Name, T::Reg(RegKind::Class)) => Implicit,
        (T::Text | T::Name, T::Reg(_)) => Explicit,
        (T::Name | T::Char, T::Text) => Implicit,
        (T::Text | T::Bpchar, T::Name | T::Char) => Assignment,
        (T::Char, T::Int4) | (T::Int4, T::Char) => Explicit,
        (T::Name, T::Bpchar) | (T::Char, T::Bpchar) => Assignment,
        (T::Json, T::Jsonb) | (T::Jsonb, T::Json) => Assignment,
        (T::Jsonb, T::Bool | T::Int2 | T::Int4 | T::Int8) => Explicit,
        (T::Jsonb, T::Float4 | T::Float8 | T::Numeric) => Explicit,
        (T::Name | T::Char, _) => Explicit,
        (T::Bpchar, T::Text) => Implicit,
        (T::Bpchar, _) => Explicit,
        (_, T::Bpchar) => Assignment,
        (T::Bool, T::Int4) | (T::Int4, T::Bool) => Explicit,
        (T::Date, T::Timestamp | T::Timestamptz) | (T::Timestamp, T::Timestamptz) => Implicit,
        (T::Timestamptz, T::Timestamp) | (T::Timestamp | T::Timestamptz, T::Date) => Assignment,
        (T::Bit, T::Varbit) | (T::Varbit, T::Bit) => Implicit,
        (T::Bit, T::Int4 | T::Int8) | (T::Int4 | T::Int8, T::Bit) => Explicit,
        (T::Cidr, T::Inet) => Implicit,
        (T::Inet, T::Cidr) => Assignment,
        (T::Time, T::Interval | T::Timetz) => Implicit,
        (T::Interval | T::Timestamp | T::Timestamptz | T::Timetz, T::Time) => Assignment,
        (T::Timestamptz, T::Timetz) => Assignment,
        (_, T::Text) => Assignment,
        (T::Text, _) => Explicit,
        _ => return None,
    })
}

/// Does `from` become `to` without being asked?
pub(crate) fn is_implicit(from: SqlType, to: SqlType) -> bool {
    context(from, to) == Some(CastContext::Implicit)
}

fn range(ty: SqlType) -> SqlError {
    SqlError::new(code::NUMERIC_OUT_OF_RANGE, format!("{} out of range", ty.name()))
}

fn integer(value: Option<i64>, to: SqlType) -> Result<Datum> {
    let datum = value.and_then(|value| match to {
        SqlType::Int2 => i16::try_from(value).ok().map(Datum::Int2),
        SqlType::Int4 => i32::try_from(value).ok().map(Datum::Int4),
        _ => Some(Datum::Int8(value)),
    });
    datum.ok_or_else(|| range(to))
}

/// A float as an integer, ties to even.
fn float_to_int(value: f64) -> Option<i64> {
    let rounded = value.round_ties_even();
    // 2^63 as a float is one more than the largest integer.
    (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0)
        .contains(&rounded)
        .then_some(rounded as i64)
}

/// A float that must stay finite if it was.
fn float4(value: f64) -> Result<Datum> {
    let narrow = value as f32;
    if narrow.is_infinite() && value.is_finite() {
        return Err(SqlError::new(code::NUMERIC_OUT_OF_RANGE, "value out of range: overflow"));
    }
    if narrow == 0.0 && value != 0.0 {
        return Err(SqlError::new(code::NUMERIC_OUT_OF_RANGE, "value out of range: underflow"));
    }
    Ok(Datum::Float4(narrow))
}

/// `value` as a value of type `to`. The binder has checked that there is such a cast.
pub(crate) fn cast(value: Datum, to: SqlType, times: &Times) -> Result<Datum> {
    let Some(from) = value.type_of() else { return Ok(Datum::Null) };
    if from == to {
        return Ok(value);
    }
    if let Datum::Jsonb(document) = &value
        && !matches!(to, SqlType::Text | SqlType::Bpchar | SqlType::Name | SqlType::Json)
    {
        return of_document(document, to, times);
    }
    match to {
        SqlType::Int2 | SqlType::Int4 | SqlType::Int8 => to_int(value, to, times),
        SqlType::Float4 => match to_float(&value, to)? {
            Some(v) => float4(v),
            None => through_text(value, to, times),
        },
        SqlType::Float8 => match to_float(&value, to)? {
            Some(v) => Ok(Datum::Float8(v)),
            None => through_text(value, to, times),
        },
        SqlType::Numeric => to_numeric(value, times),
        SqlType::Bool => match value {
            Datum::Int4(v) => Ok(Datum::Bool(v != 0)),
            other => through_text(other, to, times),
        },
        SqlType::Text | SqlType::Unknown => Ok(to_text(value, times)),
        SqlType::Bpchar => Ok(match to_text(value, times) {
            Datum::Text(text) => Datum::Text(text.trim_end_matches(' ').to_owned()),
            other => other,
        }),
        SqlType::Date | SqlType::Timestamp | SqlType::Timestamptz => to_date_time(value, to, times),
        SqlType::Interval => match value {
            Datum::Time(micros) => Ok(Datum::Interval(Interval { micros, ..Interval::default() })),
            other => through_text(other, to, times),
        },
        SqlType::Time | SqlType::Timetz => to_time(value, to, times),
        SqlType::Bytea
        | SqlType::Uuid
        | SqlType::Lsn
        | SqlType::Jsonpath
        | SqlType::Enum(_)
        | SqlType::Void
        | SqlType::Composite(_)
        | SqlType::Tid => through_text(value, to, times),
        SqlType::Bit | SqlType::Varbit => match value {
            Datum::Bit(bits) | Datum::Varbit(bits) if to == SqlType::Bit => Ok(Datum::Bit(bits)),
            Datum::Bit(bits) | Datum::Varbit(bits) => Ok(Datum::Varbit(bits)),
            Datum::Int4(v) => Ok(Datum::Bit(Bits::of_number(i64::from(v), 32))),
            Datum::Int8(v) => Ok(Datum::Bit(Bits::of_number(v, 64))),
            other => through_text(other, to, times),
        },
        SqlType::Inet | SqlType::Cidr => match value.as_network() {
            Some(network) if to == SqlType::Inet => Ok(Datum::Inet(network)),
            Some(network) => Ok(Datum::Cidr(network.network())),
            None => through_text(value, to, times),
        },
        SqlType::Record => match value {
            Datum::Record(_) => Ok(value),
            other => through_text(other, to, times),
        },
        SqlType::Json | SqlType::Jsonb => match value {
            Datum::Json(text) => text::parse(to, &text, times),
            Datum::Jsonb(document) => Ok(Datum::Json(document.to_text())),
            other => through_text(other, to, times),
        },
        SqlType::Oid => to_oid(value, times),
        SqlType::Name => Ok(match to_text(value, times) {
            Datum::Text(text) => Datum::Text(text::name(&text)),
            other => other,
        }),
        SqlType::Char => match value {
            Datum::Int4(v) => match i8::try_from(v) {
                Ok(byte) => Ok(Datum::Char(byte as u8)),
                Err(_) => Err(SqlError::new(code::NUMERIC_OUT_OF_RANGE, "\"char\" out of range")),
            },
            other => through_text(other, to, times),
        },
        SqlType::Reg(kind) => match value {
            Datum::Text(_) => through_text(value, to, times),
            other => match to_oid(other, times)? {
                Datum::Oid(oid) => Ok(Registered::datum(kind, oid, None)),
                other => Ok(other),
            },
        },
        SqlType::Int2Vector | SqlType::OidVector => through_text(value, to, times),
        SqlType::Array(element) => match value {
            Datum::Array(array) => {
                let (from, to) = (array.element().ty(), element.ty());
                let change = |value: &Datum| cast_element(value.clone(), from, to, times);
                Ok(array.mapped(element, change)?.into())
            }
            // Subscripts stay what they are.
            Datum::Vector(array) => {
                let (from, to) = (array.element().ty(), element.ty());
                let change = |value: &Datum| cast_element(value.clone(), from, to, times);
                Ok(array.mapped(element, change)?.into())
            }
            other => through_text(other, to, times),
        },
    }
}

fn to_oid(value: Datum, times: &Times) -> Result<Datum> {
    match value {
        Datum::Reg(one) => Ok(Datum::Oid(one.oid)),
        Datum::Oid(_) => Ok(value),
        Datum::Int2(v) => Ok(Datum::Oid(i32::from(v) as u32)),
        Datum::Int4(v) => Ok(Datum::Oid(v as u32)),
        Datum::Int8(v) => match u32::try_from(v) {
            Ok(oid) => Ok(Datum::Oid(oid)),
            Err(_) => Err(SqlError::new(code::NUMERIC_OUT_OF_RANGE, "OID out of range")),
        },
        other => through_text(other, SqlType::Oid, times),
    }
}

/// A number or boolean of a document.
fn of_document(document: &Jsonb, to: SqlType, times: &Times) -> Result<Datum> {
    match (document.node(), to) {
        (Node::Number(text), to) if to != SqlType::Bool => {
            cast(Datum::Numeric(numeric::parse(text)?), to, times)
        }
        (Node::Bool(value), SqlType::Bool) => Ok(Datum::Bool(value)),
        (other, to) => {
            let kind = if other.kind() == "number" { "numeric" } else { other.kind() };
            let what = format!("cannot cast jsonb {kind} to type {}", to.name());
            Err(SqlError::new(code::INVALID_PARAMETER, what))
        }
    }
}

/// An element of an array: those of `char(n)` have the blanks that others are without.
fn cast_element(value: Datum, from: SqlType, to: SqlType, times: &Times) -> Result<Datum> {
    match (value, from, to) {
        (Datum::Text(text), SqlType::Text | SqlType::Bpchar, SqlType::Bpchar) => {
            Ok(Datum::Text(text))
        }
        (Datum::Text(text), SqlType::Bpchar, to) => {
            cast(Datum::Text(text.trim_end_matches(' ').to_owned()), to, times)
        }
        (value, _, to) => cast(value, to, times),
    }
}

/// A boolean is spelled out when it is cast, and an address has its mask.
fn to_text(value: Datum, times: &Times) -> Datum {
    match value {
        Datum::Bool(v) => Datum::Text(if v { "true" } else { "false" }.to_owned()),
        Datum::Inet(v) => Datum::Text(v.to_text(true)),
        other => other.to_text_in(times).map_or(Datum::Null, Datum::Text),
    }
}

fn through_text(value: Datum, to: SqlType, times: &Times) -> Result<Datum> {
    match value {
        Datum::Text(value) => text::parse(to, &value, times),
        other => {
            let from = other.type_of().unwrap_or(SqlType::Unknown);
            Err(cannot(from, to))
        }
    }
}

/// The error for a cast that does not exist.
pub(crate) fn cannot(from: SqlType, to: SqlType) -> SqlError {
    let message = format!("cannot cast type {} to {}", from.name(), to.name());
    SqlError::new(code::CANNOT_COERCE, message)
}

fn to_int(value: Datum, to: SqlType, times: &Times) -> Result<Datum> {
    match value {
        Datum::Bool(v) => integer(Some(i64::from(v)), to),
        Datum::Oid(v) => Ok(of_oid(v, to)),
        Datum::Reg(v) => Ok(of_oid(v.oid, to)),
        Datum::Char(v) => Ok(Datum::Int4(i32::from(v as i8))),
        Datum::Bit(v) => integer(v.to_number(if to == SqlType::Int4 { 32 } else { 64 }), to),
        Datum::Float4(v) => integer(float_to_int(f64::from(v)), to),
        Datum::Float8(v) => integer(float_to_int(v), to),
        Datum::Numeric(v) if !v.is_finite() => {
            let what = if v.is_nan() { "NaN" } else { "infinity" };
            let message = format!("cannot convert {what} to {}", to.name());
            Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message))
        }
        Datum::Numeric(v) => integer(numeric::to_int(&v), to),
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) => integer(value.as_int(), to),
        other => through_text(other, to, times),
    }
}

/// The number of an object, whose bits an integer of four bytes takes over.
fn of_oid(oid: u32, to: SqlType) -> Datum {
    match to {
        SqlType::Int8 => Datum::Int8(i64::from(oid)),
        _ => Datum::Int4(oid as i32),
    }
}

fn to_float(value: &Datum, to: SqlType) -> Result<Option<f64>> {
    match value {
        Datum::Numeric(v) => {
            let float = numeric::to_float(v);
            let narrow = to == SqlType::Float4;
            let lost = if narrow { f64::from(float as f32) } else { float };
            if v.is_finite() && (lost.is_infinite() || lost == 0.0 && !v.is_zero()) {
                let message = format!("\"{v}\" is out of range for type {}", to.name());
                return Err(SqlError::new(code::NUMERIC_OUT_OF_RANGE, message));
            }
            Ok(Some(float))
        }
        other => Ok(other.as_float()),
    }
}

fn to_numeric(value: Datum, times: &Times) -> Result<Datum> {
    let refused = || range(SqlType::Numeric);
    Ok(Datum::Numeric(match value {
        Datum::Float4(v) => numeric::from_float(f64::from(v), 6).ok_or_else(refused)?,
        Datum::Float8(v) => numeric::from_float(v, 15).ok_or_else(refused)?,
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) => {
            Decimal::from(value.as_int().expect("an integer"))
        }
        other => return through_text(other, SqlType::Numeric, times),
    }))
}

fn to_date_time(value: Datum, to: SqlType, times: &Times) -> Result<Datum> {
    // A timestamp of no zone, where the value is no timestamp with one.
    let local = match value {
        Datum::Date(days) => calendar::timestamp_of_date(days)?,
        Datum::Timestamp(v) => v,
        Datum::Timestamptz(v) => times.zone().to_local(v)?,
        other => return through_text(other, to, times),
    };
    Ok(match to {
        SqlType::Date => Datum::Date(calendar::date_of_timestamp(local)),
        SqlType::Timestamp => Datum::Timestamp(local),
        _ => Datum::Timestamptz(times.zone().to_utc(local)?),
    })
}

/// May a cast of this value give something else in another session?
pub(crate) fn depends_on_session(value: &Datum, to: SqlType) -> bool {
    let Some(from) = value.type_of() else { return false };
    is_of_session_time(from, to)
}

/// Is a cast of values of one type to another not the same in every session, or not for ever?
pub(crate) fn is_of_session(from: SqlType, to: SqlType) -> bool {
    let is_text = |ty: SqlType| ty.category() == Category::String || ty == SqlType::Unknown;
    // Texts of these hold no setting and no name.
    let is_plain = |ty: SqlType| matches!(ty, SqlType::Time | SqlType::Timetz);
    match (from.element(), to.element()) {
        (Some(from), Some(to)) => is_of_session(from, to),
        (None, None) if from == to => false,
        (None, None) if is_plain(from) && is_text(to) => false,
        // Labels and names of objects change.
        (None, None) => {
            let is_named = |ty: SqlType| matches!(ty, SqlType::Enum(_) | SqlType::Reg(_));
            is_named(from) || is_named(to) || is_of_session_time(from, to)
        }
        _ => true,
    }
}

/// Does a cast between these types go by the zone or the form of dates of a session?
fn is_of_session_time(from: SqlType, to: SqlType) -> bool {
    let (from, to) = (from.element().unwrap_or(from), to.element().unwrap_or(to));
    let is_zoned = |ty: SqlType| matches!(ty, SqlType::Timestamptz | SqlType::Timetz);
    let is_time = |ty: SqlType| matches!(ty.category(), Category::DateTime | Category::Timespan);
    match (is_time(from), is_time(to)) {
        (true, true) => from != SqlType::Timetz && (is_zoned(from) || is_zoned(to)) && from != to,
        (a, b) => a || b,
    }
}

fn to_time(value: Datum, to: SqlType, times: &Times) -> Result<Datum> {
    let of_day = |micros: i64| micros.rem_euclid(calendar::MICROS_PER_DAY);
    let zone = times.zone();
    Ok(match (value, to) {
        (Datum::Timestamp(micros) | Datum::Timestamptz(micros), _)
            if !calendar::is_finite(micros) =>
        {
            Datum::Null
        }
        (Datum::Timestamp(micros), SqlType::Time) => Datum::Time(of_day(micros)),
        (Datum::Timestamptz(micros), SqlType::Time) => Datum::Time(of_day(zone.to_local(micros)?)),
        (Datum::Timestamptz(micros), _) => {
            let offset = zone.offset_at(micros);
            Datum::Timetz(ZonedTime { micros: of_day(zone.to_local(micros)?), offset })
        }
        (Datum::Interval(span), SqlType::Time) => Datum::Time(of_day(span.micros)),
        (Datum::Timetz(time), SqlType::Time) => Datum::Time(time.micros),
        (Datum::Time(micros), _) => {
            // In the offset that the zone has at that time today.
            let today = calendar::date_of_timestamp(zone.to_local(times.now)?);
            let local = calendar::timestamp_of_date(today)? + micros;
            Datum::Timetz(ZonedTime { micros, offset: zone.offset_of_local(local) })
        }
        (other, to) => return through_text(other, to, times),
    })
}

/// The type that all of `types` become in a CASE, a list or rows of VALUES.
pub(crate) fn common(types: &[SqlType]) -> Option<SqlType> {
    let mut known = types.iter().copied().filter(|ty| *ty != SqlType::Unknown);
    let Some(mut best) = known.next() else { return Some(SqlType::Text) };
    for ty in known {
        if ty == best {
            continue;
        }
        if ty.category() != best.category() {
            return None;
        }
        if !best.is_preferred() && is_implicit(best, ty) && !is_implicit(ty, best) {
            best = ty;
        }
    }
    let fits = |ty: &SqlType| is_implicit(*ty, best);
    types.iter().all(fits).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_differs_between_floats_and_numeric() {
        let int = |value| cast(value, SqlType::Int4, &Times::utc()).unwrap();
        assert_eq!(int(Datum::Float8(2.5)), Datum::Int4(2));
        assert_eq!(int(Datum::Float8(3.5)), Datum::Int4(4));
        assert_eq!(int(Datum::Numeric(numeric::parse("2.5").unwrap())), Datum::Int4(3));
        assert_eq!(int(Datum::Numeric(numeric::parse("-2.5").unwrap())), Datum::Int4(-3));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (value, to, message) in [
            (Datum::Int8(1 << 31), SqlType::Int4, "integer out of range"),
            (Datum::Float8(f64::NAN), SqlType::Int8, "bigint out of range"),
            (Datum::Float8(9.3e18), SqlType::Int8, "bigint out of range"),
            (Datum::Float8(1e300), SqlType::Float4, "value out of range: overflow"),
        ] {
            let error = cast(value, to, &Times::utc()).unwrap_err();
            assert_eq!((error.sqlstate, error.message.as_str()), ("22003", message));
        }
    }

    #[test]
    fn common_types() {
        use SqlType as T;
        assert_eq!(common(&[T::Int4, T::Unknown, T::Int8]), Some(T::Int8));
        assert_eq!(common(&[T::Int4, T::Numeric]), Some(T::Numeric));
        assert_eq!(common(&[T::Int4, T::Text]), None);
        assert_eq!(common(&[T::Unknown]), Some(T::Text));
        assert_eq!(common(&[T::Date, T::Timestamp]), Some(T::Timestamp));
    }
}
