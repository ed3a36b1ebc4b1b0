//! `LIKE`: `%` is any run of characters, `_` is one, a backslash takes the next one literally.
//!
//! Invariants: time is at most the product of both lengths, memory constant.
//! Does not do: `SIMILAR TO`, regular expressions.

use crate::error::{Result, SqlError, code};
use crate::types::Datum;

/// Does `text` match `pattern`?
pub(crate) fn matches(text: &str, pattern: &str) -> Result<bool> {
    let (t, p) = (text.as_bytes(), pattern.as_bytes());
    let (mut at, mut part) = (0, 0);
    // Where to go on after the last `%` when the rest does not fit.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let step = match p.get(part) {
            Some(b'%') => {
                retry = Some((at, part + 1));
                part += 1;
                continue;
            }
            Some(b'_') if at < t.len() => Some((char_len(t, at), 1)),
            Some(b'\\') => match p.get(part + 1) {
                None if at < t.len() => return Err(dangling()),
                // Without text left it is no match, and PostgreSQL looks no further.
                None => None,
                Some(literal) => (t.get(at) == Some(literal)).then_some((1, 2)),
            },
            Some(literal) => (t.get(at) == Some(literal) && *literal != b'_').then_some((1, 1)),
            None if at == t.len() => return Ok(true),
            None => None,
        };
        match (step, retry) {
            (Some((bytes, parts)), _) => {
                at += bytes;
                part += parts;
            }
            (None, Some((from, after))) if from < t.len() => {
                at = from + char_len(t, from);
                part = after;
                retry = Some((at, after));
            }
            (None, _) => return Ok(false),
        }
    }
}

fn dangling() -> SqlError {
    let message = "LIKE pattern must not end with escape character";
    SqlError::new(code::INVALID_ESCAPE_SEQUENCE, message)
}

/// Bytes of the character at `at`.
fn char_len(text: &[u8], at: usize) -> usize {
    match text[at] {
        0..0xc0 => 1,
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        _ => 4,
    }
}

/// The pattern rewritten from another escape character to the backslash.
pub(crate) fn with_escape(values: &[Datum]) -> Result<Datum> {
    let [Datum::Text(pattern), Datum::Text(escape)] = values else {
        unreachable!("the binder casts arguments")
    };
    let mut chars = escape.chars();
    let (escape, more) = (chars.next(), chars.next());
    if more.is_some() {
        let message = "invalid escape string";
        return Err(SqlError::new(code::INVALID_ESCAPE_SEQUENCE, message)
            .hint("Escape string must be empty or one character."));
    }
    let mut out = String::with_capacity(pattern.len() + 4);
    let mut escaped = false;
    for c in pattern.chars() {
        if !escaped && Some(c) == escape {
            out.push('\\');
            escaped = true;
            continue;
        }
        if c == '\\' && !escaped {
            out.push('\\');
        }
        out.push(c);
        escaped = false;
    }
    Ok(Datum::Text(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (text, pattern, expected) in [
            ("abc", "abc", true),
            ("abc", "a%", true),
            ("abc", "%c", true),
            ("abc", "a_c", true),
            ("abc", "a_", false),
            ("", "%", true),
            ("", "_", false),
            ("aXbXc", "%X%c", true),
            ("aXbXc", "%X%d", false),
            ("héllo", "h_llo", true),
            ("100%", "100\\%", true),
            ("1000", "100\\%", false),
            ("a_b", "a\\_b", true),
            ("mississippi", "%issip%", true),
            ("ab", "%%%b", true),
        ] {
            assert_eq!(matches(text, pattern).unwrap(), expected, "{text} like {pattern}");
        }
        assert!(matches("ab", "a\\").is_err());
        assert!(!matches("a", "a\\").unwrap());
    }

    #[test]
    fn another_escape_character() {
        let rewrite = |pattern: &str| {
            let values = [Datum::Text(pattern.into()), Datum::Text("!".into())];
            with_escape(&values).unwrap()
        };
        assert_eq!(rewrite("a!%b\\c"), Datum::Text("a\\%b\\\\c".into()));
        assert_eq!(rewrite("a!!"), Datum::Text("a\\!".into()));
    }
}
