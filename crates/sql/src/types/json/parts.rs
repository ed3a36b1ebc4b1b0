//! The members of a document that is kept as its text: theirs is a piece of it.
//!
//! Invariants: the text is a sound document.
//! Does not do: reading strings of text that was never checked.

use super::Json;
use super::parse::parse;
use crate::error::Result;

/// A document and the texts of its members, in the order in which they are written.
pub(crate) enum Parts<'t> {
    /// Keys may be there twice.
    Object(Vec<(String, &'t str)>),
    Array(Vec<&'t str>),
    /// No array and no object.
    Scalar(&'t str),
}

/// Takes a sound text apart, by one level.
///
/// # Errors
/// `22P05` for a key with characters that no text can hold.
pub(crate) fn parts(text: &str) -> Result<Parts<'_>> {
    let text = text.trim_matches(is_blank);
    Ok(match text.as_bytes().first() {
        Some(b'{') => Parts::Object(pieces(text).into_iter().map(field).collect::<Result<_>>()?),
        Some(b'[') => Parts::Array(pieces(text)),
        _ => Parts::Scalar(text),
    })
}

fn field(piece: &str) -> Result<(String, &str)> {
    let (key, value) = piece.split_at(end_of_string(piece));
    let value = value.trim_start_matches(is_blank);
    let value = value.strip_prefix(':').unwrap_or(value).trim_matches(is_blank);
    Ok((unquoted(key)?.unwrap_or_default(), value))
}

/// The text of a document as `->>` gives it: a string without quotes and escapes, none for null.
///
/// # Errors
/// `22P05` for a string with characters that no text can hold.
pub(crate) fn unquoted(text: &str) -> Result<Option<String>> {
    let text = text.trim_matches(is_blank);
    if text == "null" {
        return Ok(None);
    }
    match text.starts_with('"').then(|| parse(text)).transpose()? {
        Some(Json::String(read)) => Ok(Some(read.into_owned())),
        _ => Ok(Some(text.to_owned())),
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// Bytes of the string that a text begins with, quotes included.
fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// What stands between the brackets of an array or object, without blanks, by commas.
fn pieces(text: &str) -> Vec<&str> {
    let inner = &text[1..text.len() - 1];
    let mut all = Vec::new();
    let (mut at, mut start, mut depth) = (0, 0, 0);
    while let Some(byte) = inner.as_bytes().get(at) {
        match byte {
            b'"' => at += end_of_string(&inner[at..]) - 1,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b',' if depth == 0 => {
                all.push(inner[start..at].trim_matches(is_blank));
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    let last = inner[start..].trim_matches(is_blank);
    if !last.is_empty() {
        all.push(last);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_text() {
        let text = " {\"a\" : [1, \"}\"] , \"b\\\"\":  {\"c\":2},\"a\":null} ";
        let Parts::Object(fields) = parts(text).unwrap() else { panic!("an object") };
        let expected = [("a", "[1, \"}\"]"), ("b\"", "{\"c\":2}"), ("a", "null")];
        assert_eq!(fields, expected.map(|(key, text)| (key.to_owned(), text)));
        let Parts::Array(items) = parts("[ 1 ,\"a,b\", [] ]").unwrap() else { panic!("an array") };
        assert_eq!(items, ["1", "\"a,b\"", "[]"]);
        assert!(matches!(parts("[ ]").unwrap(), Parts::Array(items) if items.is_empty()));
        assert_eq!(unquoted("\"a\\u0041\"").unwrap().as_deref(), Some("aA"));
    }
}
