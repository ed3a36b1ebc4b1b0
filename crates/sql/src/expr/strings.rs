//! Functions over text and bytes. Positions and lengths count characters of text, bytes of bytea.
//!
//! Invariants: a result never exceeds [`MAX_BYTES`], whatever lengths are asked for.
//! Does not do: regular expressions, `format` (`format`), `to_char`.

use std::cmp::Ordering;

use md5::{Digest, Md5};

use crate::error::{Result, SqlError, code};
use crate::expr::Context;
use crate::expr::function::{Eval, Registry};
use crate::expr::length::{MAX_BYTES, check_length, too_long};
use crate::expr::operators::mismatch;
use crate::names;
use crate::types::casing::{self, Casing};
use crate::types::cast::cast;
use crate::types::{Datum, SqlType, literal};

/// Adds them.
pub(super) fn register(registry: &mut Registry) {
    use SqlType as T;
    for name in ["length", "char_length", "character_length"] {
        registry.add(name, &[T::Text], T::Int4, |v, _| Ok(count(text(v, 0).chars().count())));
    }
    // The blanks of `char(n)` are counted as bytes, though not as characters.
    for ty in [T::Text, T::Bpchar] {
        registry.add("octet_length", &[ty], T::Int4, |v, _| Ok(count(text(v, 0).len())));
    }
    registry.add("bit_length", &[T::Text], T::Int4, |v, _| Ok(count(text(v, 0).len() * 8)));
    for name in ["length", "octet_length"] {
        registry.add(name, &[T::Bytea], T::Int4, |v, _| Ok(count(bytes(v, 0).len())));
    }
    registry.add("upper", &[T::Text], T::Text, |v, _| {
        Ok(Datum::Text(Casing::Simple.upper(text(v, 0))))
    });
    registry.add("lower", &[T::Text], T::Text, |v, _| {
        Ok(Datum::Text(Casing::Simple.lower(text(v, 0))))
    });
    registry.add("initcap", &[T::Text], T::Text, |v, _| {
        Ok(Datum::Text(Casing::Simple.title(text(v, 0))))
    });
    // The same under a locale, by names that no statement can write.
    registry.add("upper under", &[T::Text, T::Text], T::Text, |v, _| {
        casing::under("upper", text(v, 0), text(v, 1)).map(Datum::Text)
    });
    registry.add("lower under", &[T::Text, T::Text], T::Text, |v, _| {
        casing::under("lower", text(v, 0), text(v, 1)).map(Datum::Text)
    });
    registry.add("initcap under", &[T::Text, T::Text], T::Text, |v, _| {
        casing::under("initcap", text(v, 0), text(v, 1)).map(Datum::Text)
    });
    registry.add("reverse", &[T::Text], T::Text, |v, _| {
        Ok(Datum::Text(text(v, 0).chars().rev().collect()))
    });
    parts(registry);
    padding(registry);
    searching(registry);
    codes(registry);
    lists(registry);
}

fn text(values: &[Datum], at: usize) -> &str {
    match &values[at] {
        Datum::Text(text) => text,
        _ => mismatch(values),
    }
}

fn bytes(values: &[Datum], at: usize) -> &[u8] {
    match &values[at] {
        Datum::Bytes(bytes) => bytes,
        _ => mismatch(values),
    }
}

fn int(values: &[Datum], at: usize) -> i64 {
    match values[at].as_int() {
        Some(value) => value,
        None => mismatch(values),
    }
}

fn count(value: usize) -> Datum {
    Datum::Int4(i32::try_from(value).unwrap_or(i32::MAX))
}

fn parts(registry: &mut Registry) {
    use SqlType as T;
    for name in ["substr", "substring"] {
        registry.add(name, &[T::Text, T::Int4], T::Text, |v, _| {
            Ok(Datum::Text(slice(text(v, 0), int(v, 1), i64::MAX)))
        });
        registry.add(name, &[T::Text, T::Int4, T::Int4], T::Text, |v, _| {
            let end = end_of(int(v, 1), int(v, 2))?;
            Ok(Datum::Text(slice(text(v, 0), int(v, 1), end)))
        });
        registry.add(name, &[T::Bytea, T::Int4, T::Int4], T::Bytea, |v, _| {
            let end = end_of(int(v, 1), int(v, 2))?;
            let (from, to) = (int(v, 1).max(1) - 1, end.max(1) - 1);
            let data = bytes(v, 0).iter().skip(from as usize).take((to - from).max(0) as usize);
            Ok(Datum::Bytes(data.copied().collect()))
        });
    }
    registry.add("left", &[T::Text, T::Int4], T::Text, |v, _| {
        let (source, n) = (text(v, 0), int(v, 1));
        let end = if n < 0 { source.chars().count() as i64 + n } else { n };
        Ok(Datum::Text(slice(source, 1, end.max(0) + 1)))
    });
    registry.add("right", &[T::Text, T::Int4], T::Text, |v, _| {
        let (source, n) = (text(v, 0), int(v, 1));
        let from = if n < 0 { -n } else { (source.chars().count() as i64 - n).max(0) };
        Ok(Datum::Text(slice(source, from + 1, i64::MAX)))
    });
    registry.add("split_part", &[T::Text, T::Text, T::Int4], T::Text, split_part);
    registry.add("overlay", &[T::Text, T::Text, T::Int4], T::Text, |v, _| {
        overlay(v, text(v, 1).chars().count() as i64)
    });
    registry.add("overlay", &[T::Text, T::Text, T::Int4, T::Int4], T::Text, |v, _| {
        overlay(v, int(v, 3))
    });
}

fn end_of(from: i64, len: i64) -> Result<i64> {
    if len < 0 {
        return Err(SqlError::new(code::SUBSTRING, "negative substring length not allowed"));
    }
    Ok(from.saturating_add(len))
}

/// Characters from position `from` to before `end`, counted from 1.
fn slice(text: &str, from: i64, end: i64) -> String {
    let first = from.max(1);
    let len = end.saturating_sub(first).max(0);
    text.chars()
        .skip((first - 1) as usize)
        .take(usize::try_from(len).unwrap_or(usize::MAX))
        .collect()
}

fn overlay(values: &[Datum], len: i64) -> Result<Datum> {
    let (source, new, from) = (text(values, 0), text(values, 1), int(values, 2));
    if from < 1 {
        return Err(SqlError::new(code::SUBSTRING, "negative substring length not allowed"));
    }
    let Ok(end) = i32::try_from(from + len) else {
        return Err(SqlError::new(code::NUMERIC_OUT_OF_RANGE, "integer out of range"));
    };
    let (head, tail) = (slice(source, 1, from), slice(source, i64::from(end), i64::MAX));
    Ok(Datum::Text(format!("{head}{new}{tail}")))
}

fn split_part(values: &[Datum], _: &Context) -> Result<Datum> {
    let (source, separator, at) = (text(values, 0), text(values, 1), int(values, 2));
    if at == 0 {
        let message = "field position must not be zero";
        return Err(SqlError::new(code::INVALID_PARAMETER, message));
    }
    let index = usize::try_from(at.unsigned_abs() - 1).unwrap_or(usize::MAX);
    let field = match separator {
        "" if index == 0 => Some(source),
        "" => None,
        _ if at > 0 => source.split(separator).nth(index),
        _ => {
            // From the left, where separators that overlap are taken otherwise than from the right.
            let count = source.split(separator).count();
            count.checked_sub(index + 1).and_then(|index| source.split(separator).nth(index))
        }
    };
    Ok(Datum::Text(field.unwrap_or("").to_owned()))
}

fn padding(registry: &mut Registry) {
    use SqlType as T;
    for (name, left) in [("lpad", true), ("rpad", false)] {
        if left {
            registry.add(name, &[T::Text, T::Int4], T::Text, |v, c| pad(v, " ", true, c));
            registry.add(name, &[T::Text, T::Int4, T::Text], T::Text, |v, c| {
                pad(v, text(v, 2), true, c)
            });
        } else {
            registry.add(name, &[T::Text, T::Int4], T::Text, |v, c| pad(v, " ", false, c));
            registry.add(name, &[T::Text, T::Int4, T::Text], T::Text, |v, c| {
                pad(v, text(v, 2), false, c)
            });
        }
    }
    for name in ["ltrim", "rtrim", "btrim"] {
        let eval: fn(&[Datum], &Context) -> Result<Datum> = match name {
            "ltrim" => |v, _| trim(v, true, false),
            "rtrim" => |v, _| trim(v, false, true),
            _ => |v, _| trim(v, true, true),
        };
        registry.add(name, &[T::Text], T::Text, eval);
        registry.add(name, &[T::Text, T::Text], T::Text, eval);
    }
    registry.add("repeat", &[T::Text, T::Int4], T::Text, |v, context| {
        let times = int(v, 1).max(0) as usize;
        let length = text(v, 0).len().saturating_mul(times);
        check_length(length)?;
        context.held.check_fits(length)?;
        Ok(Datum::Text(text(v, 0).repeat(times)))
    });
}

fn pad(values: &[Datum], fill: &str, left: bool, context: &Context) -> Result<Datum> {
    let source = text(values, 0);
    let wanted = int(values, 1).max(0) as usize;
    if wanted > MAX_BYTES / 4 {
        return Err(too_long());
    }
    let have = source.chars().count();
    if have >= wanted || fill.is_empty() {
        return Ok(Datum::Text(source.chars().take(wanted).collect()));
    }
    context.held.check_fits(source.len() + (wanted - have) * 4)?;
    let filling: String = fill.chars().cycle().take(wanted - have).collect();
    Ok(Datum::Text(if left { filling + source } else { source.to_owned() + &filling }))
}

fn trim(values: &[Datum], left: bool, right: bool) -> Result<Datum> {
    let mut set: Vec<char> = if values.len() > 1 { text(values, 1) } else { " " }.chars().collect();
    set.sort_unstable();
    set.dedup();
    let mut rest = text(values, 0);
    if left {
        rest = rest.trim_start_matches(|c| set.binary_search(&c).is_ok());
    }
    if right {
        rest = rest.trim_end_matches(|c| set.binary_search(&c).is_ok());
    }
    Ok(Datum::Text(rest.to_owned()))
}

fn searching(registry: &mut Registry) {
    use SqlType as T;
    for name in ["strpos", "position"] {
        registry.add(name, &[T::Text, T::Text], T::Int4, |v, _| {
            let (source, part) = (text(v, 0), text(v, 1));
            let found = source.find(part).map(|at| source[..at].chars().count() + 1);
            Ok(count(found.unwrap_or(0)))
        });
    }
    registry.add("starts_with", &[T::Text, T::Text], T::Bool, |v, _| {
        Ok(Datum::Bool(text(v, 0).starts_with(text(v, 1))))
    });
    registry.add("replace", &[T::Text, T::Text, T::Text], T::Text, |v, context| {
        let (source, old, new) = (text(v, 0), text(v, 1), text(v, 2));
        if old.is_empty() {
            return Ok(Datum::Text(source.to_owned()));
        }
        if new.len() > old.len() {
            let length = source.matches(old).count().saturating_mul(new.len());
            check_length(length)?;
            context.held.check_fits(length)?;
        }
        Ok(Datum::Text(source.replace(old, new)))
    });
    registry.add("translate", &[T::Text, T::Text, T::Text], T::Text, |v, context| {
        let mut to = text(v, 2).chars();
        let mut changes: Vec<(char, Option<char>)> =
            text(v, 1).chars().map(|from| (from, to.next())).collect();
        // The first of several for one character counts.
        changes.sort_by_key(|(from, _)| *from);
        changes.dedup_by_key(|(from, _)| *from);
        let change = |c: char| match changes.binary_search_by_key(&c, |(from, _)| *from) {
            Ok(at) => changes[at].1,
            Err(_) => Some(c),
        };
        let mut changed = String::with_capacity(text(v, 0).len());
        for c in text(v, 0).chars() {
            // Each is looked for among the changes.
            context.spend(16)?;
            changed.extend(change(c));
        }
        Ok(Datum::Text(changed))
    });
}

fn codes(registry: &mut Registry) {
    use SqlType as T;
    registry.add("ascii", &[T::Text], T::Int4, |v, _| {
        Ok(Datum::Int4(text(v, 0).chars().next().map_or(0, |c| c as i32)))
    });
    registry.add("chr", &[T::Int4], T::Text, |v, _| {
        let number = int(v, 0);
        let refuse = |what: String| Err(SqlError::new(code::PROGRAM_LIMIT, what));
        match u32::try_from(number).ok().and_then(char::from_u32) {
            Some('\0') => refuse("null character not permitted".to_owned()),
            Some(c) => Ok(Datum::Text(c.to_string())),
            None => refuse(format!("requested character too large for encoding: {number}")),
        }
    });
    registry.add("to_hex", &[T::Int4], T::Text, |v, _| {
        Ok(Datum::Text(format!("{:x}", int(v, 0) as i32)))
    });
    registry.add("to_hex", &[T::Int8], T::Text, |v, _| Ok(Datum::Text(format!("{:x}", int(v, 0)))));
    registry.add("md5", &[T::Text], T::Text, |v, _| Ok(Datum::Text(hex(&Md5::digest(text(v, 0))))));
    registry
        .add("md5", &[T::Bytea], T::Text, |v, _| Ok(Datum::Text(hex(&Md5::digest(bytes(v, 0))))));
    registry.add("quote_literal", &[T::Unknown], T::Text, |v, context| {
        Ok(match cast(v[0].clone(), T::Text, &context.times)? {
            Datum::Text(text) => Datum::Text(literal::literal(&text)),
            other => other,
        })
    });
    for ty in [T::Text, T::Unknown] {
        let quote = registry.add("quote_nullable", &[ty], T::Text, |v, context| {
            Ok(Datum::Text(match cast(v[0].clone(), T::Text, &context.times)? {
                Datum::Text(text) => literal::literal(&text),
                _ => "NULL".to_owned(),
            }))
        });
        quote.strict = false;
    }
    registry.add("quote_literal", &[T::Text], T::Text, |v, _| {
        Ok(Datum::Text(literal::literal(text(v, 0))))
    });
    registry.add("quote_ident", &[T::Text], T::Text, |v, _| {
        Ok(Datum::Text(names::identifier(text(v, 0))))
    });
}

pub(super) fn hex(data: &[u8]) -> String {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    data.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The largest or smallest of values of `char(n)`, of several that are equal the first.
fn extreme(values: &[Datum], wanted: Ordering) -> Result<Datum> {
    let mut best: Option<&str> = None;
    for at in (0..values.len()).filter(|at| !values[*at].is_null()) {
        let value = text(values, at);
        let bare = |text: &'_ str| text.trim_end_matches(' ').len();
        if best.is_none_or(|best| value[..bare(value)].cmp(&best[..bare(best)]) == wanted) {
            best = Some(value);
        }
    }
    Ok(best.map_or(Datum::Null, |best| Datum::Text(best.to_owned())))
}

fn lists(registry: &mut Registry) {
    use SqlType as T;
    // Those of other types are expressions of their own.
    for (name, eval) in [
        ("greatest", (|v, _| extreme(v, Ordering::Greater)) as Eval),
        ("least", |v, _| extreme(v, Ordering::Less)),
    ] {
        let function = registry.add(name, &[T::Bpchar], T::Bpchar, eval);
        function.variadic = true;
        function.strict = false;
    }
    let concat = registry.add("concat", &[T::Unknown], T::Text, |v, context| {
        let mut out = String::new();
        for value in v {
            value.write_text_in(&context.times, &mut out);
            check_length(out.len())?;
        }
        Ok(Datum::Text(out))
    });
    concat.variadic = true;
    concat.strict = false;
    let concat_ws = registry.add("concat_ws", &[T::Text, T::Unknown], T::Text, |v, context| {
        let Datum::Text(separator) = &v[0] else { return Ok(Datum::Null) };
        let mut out = String::new();
        for (at, part) in v[1..].iter().filter_map(|one| one.to_text_in(&context.times)).enumerate()
        {
            out.push_str(if at > 0 { separator } else { "" });
            out.push_str(&part);
            check_length(out.len())?;
        }
        Ok(Datum::Text(out))
    });
    concat_ws.variadic = true;
    concat_ws.strict = false;
}
