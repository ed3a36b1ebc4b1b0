//! SIMILAR TO: patterns of SQL, written as regular expressions.
//!
//! Invariants: all of the text has to match. Does not do: matching.

use crate::error::{Result, SqlError};
use crate::expr::Context;
use crate::expr::function::Registry;
use crate::expr::operators::mismatch;
use crate::types::{Datum, SqlType};

/// Adds the functions that the binder makes of it, as PostgreSQL does.
pub(super) fn register(registry: &mut Registry) {
    const TEXT: SqlType = SqlType::Text;
    registry.add("similar_to_escape", &[TEXT], TEXT, |values, context| {
        let [Datum::Text(pattern)] = values else { return mismatch(values) };
        written(pattern, Some('\\'), context)
    });
    registry.add("similar_to_escape", &[TEXT; 2], TEXT, |values, context| {
        let [Datum::Text(pattern), Datum::Text(escape)] = values else { return mismatch(values) };
        written(pattern, escape_of(escape)?, context)
    });
    registry.add("substring", &[TEXT; 3], TEXT, |values, context| {
        let [text, Datum::Text(pattern), Datum::Text(escape)] = values else {
            return mismatch(values);
        };
        let pattern = written(pattern, escape_of(escape)?, context)?;
        super::functions::substring(&[text.clone(), pattern], context)
    });
}

/// The character that takes others for what they are; none of an empty text.
fn escape_of(escape: &str) -> Result<Option<char>> {
    let mut chars = escape.chars();
    let first = chars.next();
    if chars.next().is_some() {
        return Err(SqlError::new("22025", "invalid escape string")
            .hint("Escape string must be empty or one character."));
    }
    Ok(first)
}

/// The pattern as a regular expression.
fn written(pattern: &str, escape: Option<char>, context: &Context) -> Result<Datum> {
    context.spend(pattern.len())?;
    let mut out = String::from("^(?:");
    let (mut after_escape, mut in_brackets, mut marks) = (false, false, 0);
    for c in pattern.chars() {
        if after_escape {
            if c == '"' && !in_brackets {
                out.push_str(match marks {
                    0 => "){1,1}?(",
                    1 => "){1,1}(?:",
                    _ => {
                        let message = "SQL regular expression may not contain more than two \
                                       escape-double-quote separators";
                        return Err(SqlError::new("2200C", message));
                    }
                });
                marks += 1;
            } else {
                // All escaped letters are taken for what they are.
                out.extend(['\\', c]);
            }
            after_escape = false;
        } else if Some(c) == escape {
            after_escape = true;
        } else if in_brackets {
            if c == '\\' {
                out.push('\\');
            }
            out.push(c);
            in_brackets = c != ']';
        } else {
            match c {
                '[' => {
                    out.push('[');
                    in_brackets = true;
                }
                '%' => out.push_str(".*"),
                '_' => out.push('.'),
                '(' => out.push_str("(?:"),
                '\\' | '.' | '^' | '$' => out.extend(['\\', c]),
                c => out.push(c),
            }
        }
    }
    out.push_str(")$");
    Ok(Datum::Text(out))
}
