//! How much memory reading a message takes.
//!
//! Estimated from its bytes alone, since its tokens alone take forty times as much. The figures are
//! the growth of a process's resident memory over lists of each kind of item, rounded up; they are
//! bounds for what was found to be heaviest, not exact.
//!
//! Does not do: what statements hold once they are bound.

use crate::error::{SqlError, code};

/// A token by itself, spaces too.
const TOKEN: usize = 110;
/// The parts of a tree that come of one token: a column, an item of a list.
const ITEM: usize = 560;
/// What stands in parentheses: arguments of a function, a row.
const PARENTHESIS: usize = 2_200;
/// A place of an array.
const BRACKET: usize = 5_000;
/// What every statement has.
const STATEMENT: usize = 5 << 10;
/// What every query has besides.
const QUERY: usize = 11 << 10;

/// Bytes.
pub(super) fn of(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut weight, mut at) = (STATEMENT, 0);
    while let Some(&first) = bytes.get(at) {
        let rest = &bytes[at..];
        let (length, item) = match first {
            b'\'' | b'"' => (quoted(rest, first), ITEM),
            b'(' => (1, PARENTHESIS),
            b'[' => (1, BRACKET),
            b';' => (1, STATEMENT),
            _ if first.is_ascii_whitespace() => (1, 0),
            _ if is_word(first) => {
                let length = rest.iter().take_while(|&&byte| is_word(byte)).count();
                let query = rest[..length].eq_ignore_ascii_case(b"select");
                (length, if query { QUERY } else { ITEM })
            }
            _ => (1, ITEM),
        };
        weight += TOKEN + item + length;
        at += length;
    }
    weight
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Length of what begins with a quote, up to the next one.
fn quoted(rest: &[u8], quote: u8) -> usize {
    rest.iter().skip(1).position(|&byte| byte == quote).map_or(rest.len(), |inner| inner + 2)
}

/// The error for a message that would take `weight` bytes where there are `memory`.
pub(super) fn too_much(weight: usize, memory: usize) -> SqlError {
    let (weight, memory) = (weight >> 20, memory >> 20);
    SqlError::new(code::TOO_COMPLEX, "the message has too many parts")
        .detail(format!("Reading it takes about {weight} MiB; there are {memory}."))
        .hint("Use COPY, several messages, or more memory.")
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn parts_weigh_and_long_strings_do_not() {
        let long = format!("select '{}'", "some words; (and) [more] ".repeat(1_000));
        assert!(of(&long) < of("select 1, 2, 3") + 2 * long.len());
        // What was measured: growth of resident memory in bytes for 40,000 items.
        for (item, each) in [
            (",1", 1_233),
            (", f(a)", 4_655),
            (",(1,'a')", 2_790),
            ("select 1;", 14_140),
            (",(select 1)", 12_310),
            (", a[1]", 6_145),
            (",x", 2_175),
            (",a::int", 2_000),
        ] {
            let growth = of(&item.repeat(1_000)) / 1_000;
            assert!((each * 6 / 10..each * 25 / 10).contains(&growth), "{item}: {growth}");
        }
    }

    #[test]
    fn nothing_is_read_past_its_end() {
        for text in ["", "'", "\"a", "'a''b", "ä", "a'", ";"] {
            assert!(of(text) > 0);
        }
    }
}
