//! Is a text JSON (RFC 8259)?
//!
//! Invariants: no recursion, so that no nesting exhausts the stack; nesting deeper than
//! [`MAX_DEPTH`] is refused. Does not do: reading values, equality of documents, `jsonb`.

/// Deepest nesting of arrays and objects.
const MAX_DEPTH: usize = 6_400;

/// What may come next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    Value,
    /// A value, or the end of an empty array.
    FirstElement,
    /// A key, or the end of an empty object.
    FirstKey,
    Key,
    /// A comma or an end; at the top, the end of the text.
    After,
}

/// Checks the whole text.
pub(super) fn is_json(text: &str) -> bool {
    check(text.as_bytes()).is_some()
}

fn check(mut text: &[u8]) -> Option<()> {
    // True: in an object.
    let mut open: Vec<bool> = Vec::new();
    let mut expect = Expect::Value;
    loop {
        skip_space(&mut text);
        let Some((&byte, rest)) = text.split_first() else {
            return (expect == Expect::After && open.is_empty()).then_some(());
        };
        expect = match (expect, byte) {
            (Expect::FirstElement, b']') | (Expect::FirstKey, b'}') => {
                open.pop();
                text = rest;
                Expect::After
            }
            (Expect::Value | Expect::FirstElement, b'[' | b'{') => {
                open.push(byte == b'{');
                text = rest;
                match byte {
                    _ if open.len() > MAX_DEPTH => return None,
                    b'{' => Expect::FirstKey,
                    _ => Expect::FirstElement,
                }
            }
            (Expect::Value | Expect::FirstElement, _) => {
                take_scalar(&mut text)?;
                Expect::After
            }
            (Expect::Key | Expect::FirstKey, b'"') => {
                take_string(&mut text)?;
                skip_space(&mut text);
                text = text.strip_prefix(b":")?;
                Expect::Value
            }
            (Expect::After, b',') => {
                text = rest;
                if *open.last()? { Expect::Key } else { Expect::Value }
            }
            (Expect::After, b']' | b'}') => {
                if open.pop()? != (byte == b'}') {
                    return None;
                }
                text = rest;
                Expect::After
            }
            _ => return None,
        };
    }
}

fn skip_space(text: &mut &[u8]) {
    while let Some((b' ' | b'\t' | b'\n' | b'\r', rest)) = text.split_first() {
        *text = rest;
    }
}

fn take_scalar(text: &mut &[u8]) -> Option<()> {
    if text.first() == Some(&b'"') {
        return take_string(text);
    }
    for word in [&b"true"[..], b"false", b"null"] {
        if let Some(rest) = text.strip_prefix(word) {
            *text = rest;
            return Some(());
        }
    }
    take_number(text)
}

fn take_string(text: &mut &[u8]) -> Option<()> {
    let mut rest = text.strip_prefix(b"\"")?;
    loop {
        let (byte, tail) = rest.split_first()?;
        rest = match byte {
            b'"' => {
                *text = tail;
                return Some(());
            }
            b'\\' => match tail.split_first()? {
                (b'u', tail) => {
                    let (digits, tail) = tail.split_at_checked(4)?;
                    digits.iter().all(u8::is_ascii_hexdigit).then_some(tail)?
                }
                (b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', tail) => tail,
                _ => return None,
            },
            0..0x20 => return None,
            _ => tail,
        };
    }
}

fn take_digits(text: &mut &[u8]) -> Option<()> {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    *text = &text[count..];
    (count > 0).then_some(())
}

fn take_number(text: &mut &[u8]) -> Option<()> {
    *text = text.strip_prefix(b"-").unwrap_or(text);
    match text.strip_prefix(b"0") {
        Some(rest) => *text = rest,
        None => take_digits(text)?,
    }
    if let Some(rest) = text.strip_prefix(b".") {
        *text = rest;
        take_digits(text)?;
    }
    if let Some((b'e' | b'E', rest)) = text.split_first() {
        *text = rest.strip_prefix(b"+").or_else(|| rest.strip_prefix(b"-")).unwrap_or(rest);
        take_digits(text)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_and_what_only_looks_like_it() {
        for text in [
            "null",
            " 0 ",
            "-0.5e+10",
            "\"\\u00e9\\n\\\" é\"",
            "[]",
            "{}",
            "[1, [2, {\"a\": []}], \"x\"]",
            "{\"a\": 1, \"b\": {\"c\": [true, false, null]}}\n",
        ] {
            assert!(is_json(text), "{text}");
        }
        for text in [
            "",
            " ",
            "nul",
            "01",
            "1.",
            ".5",
            "+1",
            "1e",
            "\"",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"\n\"",
            "[1,]",
            "[,]",
            "[1 2]",
            "[1}",
            "{\"a\"}",
            "{\"a\":}",
            "{a: 1}",
            "{\"a\": 1,}",
            "]",
            "[",
            "1 2",
            "{\"a\": 1]",
            "'a'",
            "NaN",
        ] {
            assert!(!is_json(text), "{text}");
        }
    }

    #[test]
    fn deep_nesting_ends_with_a_refusal() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(is_json(&nested(MAX_DEPTH - 1)) && is_json(&nested(MAX_DEPTH)));
        assert!(!is_json(&nested(MAX_DEPTH + 1)) && !is_json(&"[".repeat(1 << 20)));
    }
}
