//! Documents made of arguments and of arrays.
//!
//! Invariants: a `jsonb` is made by way of the text that the function of `json` would give, so that
//! both convert values in one way.
//! Does not do: records.

use super::convert::{write_array, write_key, write_record, write_value};
use super::{check_fits, list};
use crate::error::{Result, SqlError, code};
use crate::expr::Context;
use crate::expr::function::{Eval, Registry};
use crate::expr::operators::mismatch;
use crate::types::json::{Jsonb, bytes_to_read, write_string};
use crate::types::{Datum, SqlType, Times};

/// Adds them.
pub(super) fn register(registry: &mut Registry) {
    use SqlType as T;
    registry.add("to_json", &[T::Unknown], T::Json, |v, context| json(v, context, of_value));
    registry.add("to_jsonb", &[T::Unknown], T::Jsonb, |v, context| jsonb(v, context, of_value));
    for count in [1, 2] {
        let args = &[T::Unknown, T::Bool][..count];
        registry.add("array_to_json", args, T::Json, array_to_json);
    }
    let variadic: [(&'static str, SqlType, Eval); 4] = [
        ("json_build_array", T::Json, |v, context| json(v, context, of_items)),
        ("jsonb_build_array", T::Jsonb, |v, context| jsonb(v, context, of_items)),
        ("json_build_object", T::Json, |v, context| json(v, context, of_pairs)),
        ("jsonb_build_object", T::Jsonb, |v, context| jsonb(v, context, of_pairs)),
    ];
    for (name, result, eval) in variadic {
        registry.add(name, &[], result, eval);
        let function = registry.add(name, &[T::Unknown], result, eval);
        (function.variadic, function.strict) = (true, false);
    }
    let lists: [(&'static str, SqlType, Eval); 2] = [
        ("json_object", T::Json, |v, context| json(v, context, of_lists)),
        ("jsonb_object", T::Jsonb, |v, context| jsonb(v, context, of_lists)),
    ];
    for (name, result, eval) in lists {
        registry.add(name, &[T::texts()], result, eval);
        registry.add(name, &[T::texts(), T::texts()], result, eval);
    }
}

/// Writes a document of the arguments of a function.
type Write = fn(&[Datum], &Times, &mut String) -> Result<()>;

fn written(values: &[Datum], context: &Context, write: Write) -> Result<String> {
    let bytes = values.iter().map(Datum::heap_bytes).sum::<usize>();
    check_fits(2 * (bytes + size_of_val(values)), context)?;
    let mut out = String::new();
    write(values, &context.times, &mut out)?;
    Ok(out)
}

fn json(values: &[Datum], context: &Context, write: Write) -> Result<Datum> {
    written(values, context, write).map(Datum::Json)
}

fn jsonb(values: &[Datum], context: &Context, write: Write) -> Result<Datum> {
    let text = written(values, context, write)?;
    check_fits(bytes_to_read(&text), context)?;
    Jsonb::parse(&text).map(Datum::Jsonb)
}

fn of_value(values: &[Datum], times: &Times, out: &mut String) -> Result<()> {
    write_value(&values[0], times, out);
    Ok(())
}

fn of_items(values: &[Datum], times: &Times, out: &mut String) -> Result<()> {
    out.push('[');
    for (at, value) in values.iter().enumerate() {
        out.push_str(if at > 0 { ", " } else { "" });
        write_value(value, times, out);
    }
    out.push(']');
    Ok(())
}

fn of_pairs(values: &[Datum], times: &Times, out: &mut String) -> Result<()> {
    if values.len() % 2 == 1 {
        let message = "argument list must have even number of elements";
        let hint = "The arguments of json_build_object() must consist of alternating keys and \
                    values.";
        return Err(SqlError::new(code::INVALID_PARAMETER, message).hint(hint));
    }
    out.push('{');
    for (at, pair) in values.chunks(2).enumerate() {
        out.push_str(if at > 0 { ", " } else { "" });
        if pair[0].is_null() {
            let message = format!("argument {} cannot be null", 2 * at + 1);
            let hint = "Object keys should be text.";
            return Err(SqlError::new(code::INVALID_PARAMETER, message).hint(hint));
        }
        write_key(&pair[0], times, out)?;
        out.push_str(" : ");
        write_value(&pair[1], times, out);
    }
    out.push('}');
    Ok(())
}

/// `json_object`: keys and values in turn, in pairs, or in two lists.
fn of_lists(values: &[Datum], _: &Times, out: &mut String) -> Result<()> {
    let lengths = |at: usize| match &values[at] {
        Datum::Array(array) => {
            array.dimensions().iter().map(|dimension| dimension.length).collect::<Vec<_>>()
        }
        _ => mismatch(values),
    };
    let refused = |message| Err(SqlError::new(code::ARRAY_SUBSCRIPT, message));
    let first: Vec<Option<&str>> = list(values, 0).collect();
    let pairs: Vec<(Option<&str>, Option<&str>)> = if values.len() == 2 {
        let (keys, others) = (lengths(0), lengths(1));
        if keys.len() > 1 || keys.len() != others.len() {
            return refused("wrong number of array subscripts");
        }
        if keys != others {
            return refused("mismatched array dimensions");
        }
        first.into_iter().zip(list(values, 1)).collect()
    } else {
        match lengths(0).as_slice() {
            [] => Vec::new(),
            [length] if length % 2 == 1 => {
                return refused("array must have even number of elements");
            }
            [_, 2] | [_] => first.chunks(2).map(|pair| (pair[0], pair[1])).collect(),
            [_, _] => return refused("array must have two columns"),
            _ => return refused("wrong number of array subscripts"),
        }
    };
    out.push('{');
    for (at, (key, value)) in pairs.into_iter().enumerate() {
        out.push_str(if at > 0 { ", " } else { "" });
        let Some(key) = key else {
            let message = "null value not allowed for object key";
            return Err(SqlError::new(code::NULL_NOT_ALLOWED, message));
        };
        write_string(key, out);
        out.push_str(" : ");
        match value {
            Some(value) => write_string(value, out),
            None => out.push_str("null"),
        }
    }
    out.push('}');
    Ok(())
}

/// A row as an object, with its fields on lines of their own if that is asked for.
pub(in crate::expr) fn row_to_json(values: &[Datum], context: &Context) -> Result<Datum> {
    let feed = if values.get(1) == Some(&Datum::Bool(true)) { "\n " } else { "" };
    let Datum::Record(record) = &values[0] else { mismatch(values) };
    check_fits(2 * record.heap_bytes(), context)?;
    let mut out = String::new();
    write_record(record, feed, &context.times, &mut out);
    Ok(Datum::Json(out))
}

fn array_to_json(values: &[Datum], context: &Context) -> Result<Datum> {
    let feed = if values.get(1) == Some(&Datum::Bool(true)) { "\n " } else { "" };
    let Datum::Array(array) = &values[0] else {
        let message = "could not determine polymorphic type because input is no array";
        return Err(SqlError::new(code::DATATYPE_MISMATCH, message));
    };
    check_fits(2 * array.heap_bytes(), context)?;
    let mut out = String::new();
    write_array(array, feed, &context.times, &mut out);
    Ok(Datum::Json(out))
}
