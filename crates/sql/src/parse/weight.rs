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
/// The parts of a tree that come of one token: an item of a select list, a column, an operator.
const ITEM: usize = 900;
/// The same where items are arguments or values of a row.
const INNER_ITEM: usize = 450;
/// A list in parentheses: a row, what IN takes.
const LIST: usize = 1_700;
/// The arguments of a function.
const ARGUMENTS: usize = 2_900;
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
    // Parentheses around, and whether one of them had a query, whose items are large.
    let (mut around, mut has_inner_query) = (0usize, false);
    let mut after_word = false;
    while let Some(&first) = bytes.get(at) {
        let rest = &bytes[at..];
        let one = if around == 0 || has_inner_query { ITEM } else { INNER_ITEM };
        let (length, item) = match first {
            b'\'' | b'"' => (quoted(rest, first), one),
            b'(' => (1, if after_word { ARGUMENTS } else { LIST }),
            b'[' => (1, BRACKET),
            b';' => (1, STATEMENT),
            b',' | b')' | b']' | b':' | b'$' | b'.' => (1, 0),
            _ if first.is_ascii_whitespace() => (1, 0),
            _ if is_word(first) => {
                let length = rest.iter().take_while(|&&byte| is_word(byte)).count();
                let query = rest[..length].eq_ignore_ascii_case(b"select");
                has_inner_query |= query && around > 0;
                (length, if query { QUERY } else { one })
            }
            _ => (1, one),
        };
        match first {
            b'(' => around += 1,
            b')' => around = around.saturating_sub(1),
            b';' => (around, has_inner_query) = (0, false),
            _ => {}
        }
        if !first.is_ascii_whitespace() {
            after_word = is_word(first);
        }
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
        // What was measured: growth of resident memory in bytes for each of 40,000 items, between
        // what is in front of them and what is behind.
        for (front, item, behind, each) in [
            ("select 1", ",1", "", 1_233),
            ("select 1", ", f(a)", "", 4_755),
            ("select 1", ",(1,'a')", "", 2_834),
            ("", "select 1;", "", 14_533),
            ("select 1", ",(select 1)", "", 12_310),
            ("select 1", ", a[1]", "", 6_145),
            ("select 1", ",x", "", 1_098),
            ("select 1", ",a::int", "", 2_000),
            ("select 1 where a=1", " and a=1", "", 2_114),
            ("select (1", "+1", ")", 977),
            ("select case", " when a=1 then 2", " end", 2_550),
            ("select 1 where a in (1", ", 1", ")", 689),
            ("select 1 where a in (1", ", $1", ")", 699),
            ("insert into t values (1)", ",(1)", "", 2_020),
            ("insert into t values (1)", ", (1, 2, 'x')", "", 2_759),
            ("insert into t values (1)", ", ($1, $2, $3)", "", 2_762),
            ("insert into t values (1)", ",(1,2,3,4,5,6,7,8,9,10)", "", 8_310),
            ("insert into t values (1)", ",(1+1,1)", "", 3_166),
            ("", "insert into t values (1,2);", "", 12_670),
            ("", "update t set a=1 where b=2;", "", 8_424),
        ] {
            let growth = of(&format!("{front}{}{behind}", item.repeat(1_000))) / 1_000;
            assert!((each * 9 / 10..each * 27 / 10).contains(&growth), "{item}: {growth} {each}");
        }
    }

    #[test]
    fn nothing_is_read_past_its_end() {
        for text in ["", "'", "\"a", "'a''b", "ä", "a'", ";"] {
            assert!(of(text) > 0);
        }
    }
}
