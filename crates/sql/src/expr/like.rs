//! `LIKE`: `%` is any run of characters, `_` is one, a backslash takes the next one literally.
//!
//! A pattern that could cost the product of both lengths is cut at its `%`. The first piece has to
//! begin the text and the last to end it; each other is looked for behind the one before, where the
//! leftmost place is as good as any. A piece of characters alone is found in time linear in the
//! text, by `str::find`. In front of a `_`, the piece's longest run of characters says where the
//! piece may stand.
//!
//! Invariants: time is linear in the text but for pieces with `_` whose longest run is met again
//! and again; every loop over the text asks whether the statement is still wanted.
//! Does not do: `SIMILAR TO`, regular expressions.

use crate::error::{Result, SqlError, code};
use crate::expr::Context;
use crate::types::Datum;

/// Product of lengths up to which the plain loop is taken: it needs no memory.
const SHORT: usize = 1 << 14;

/// Does `text` match `pattern`?
pub(crate) fn matches(text: &str, pattern: &str, context: &Context) -> Result<bool> {
    if text.len().saturating_mul(pattern.len()) <= SHORT || ends_in_escape(pattern) {
        return plain(text, pattern, context);
    }
    in_pieces(text, pattern, context)
}

/// The text that alone matches a pattern, if it has nothing that stands for something else.
pub(crate) fn only_match(pattern: &str) -> Option<&str> {
    (!pattern.contains(['%', '_', '\\'])).then_some(pattern)
}

/// Does the pattern end in a backslash that escapes nothing? That is an error, if it is met.
fn ends_in_escape(pattern: &str) -> bool {
    pattern.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// One step after the other; after each `%` all places are tried.
fn plain(text: &str, pattern: &str, context: &Context) -> Result<bool> {
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
                context.spend(1 + part - after)?;
                at = from + char_len(t, from);
                part = after;
                retry = Some((at, after));
            }
            (None, _) => return Ok(false),
        }
    }
}

/// What a pattern has between two `%`.
#[derive(Default)]
struct Piece {
    /// Runs of characters, with a `_` between each two.
    runs: Vec<String>,
    /// Characters in front of the longest run, and which run that is.
    before_longest: usize,
    longest: usize,
}

impl Piece {
    fn new(runs: Vec<String>) -> Piece {
        let longest = (0..runs.len()).max_by_key(|at| runs[*at].len()).unwrap_or(0);
        let before = runs[..longest].iter().map(|run| run.chars().count() + 1).sum();
        Piece { runs, before_longest: before, longest }
    }

    /// The length of the piece where it stands at the beginning of `text`.
    fn length_at(&self, text: &str) -> Option<usize> {
        let mut rest = text;
        for (at, run) in self.runs.iter().enumerate() {
            if at > 0 {
                let mut chars = rest.chars();
                chars.next()?;
                rest = chars.as_str();
            }
            rest = rest.strip_prefix(run.as_str())?;
        }
        Some(text.len() - rest.len())
    }

    fn is_empty(&self) -> bool {
        self.runs.iter().all(String::is_empty) && self.runs.len() == 1
    }

    /// Where `text` goes on behind the leftmost place of the piece.
    fn find(&self, text: &str, context: &Context) -> Result<Option<usize>> {
        let run = self.runs[self.longest].as_str();
        let Some(mut from) = after_chars(text, self.before_longest) else { return Ok(None) };
        loop {
            let Some(found) = text[from..].find(run) else { return Ok(None) };
            let place = from + found;
            let begin = before_chars(text, place, self.before_longest);
            if let Some(length) = self.length_at(&text[begin..]) {
                return Ok(Some(begin + length));
            }
            context.spend(found + run.len() + self.before_longest + self.runs.len())?;
            let Some(next) = after_chars(&text[place..], 1) else { return Ok(None) };
            from = place + next;
        }
    }
}

/// The pieces of a pattern that ends in no escape.
fn pieces(pattern: &str) -> Vec<Piece> {
    let (mut pieces, mut runs) = (Vec::new(), vec![String::new()]);
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '%' => {
                let runs = std::mem::replace(&mut runs, vec![String::new()]);
                pieces.push(Piece::new(runs));
            }
            '_' => runs.push(String::new()),
            c => {
                let literal = if c == '\\' { chars.next() } else { Some(c) };
                runs.last_mut().expect("there is always one").extend(literal);
            }
        }
    }
    pieces.push(Piece::new(runs));
    pieces
}

fn in_pieces(text: &str, pattern: &str, context: &Context) -> Result<bool> {
    let pieces = pieces(pattern);
    let (Some((first, rest)), mut at) = (pieces.split_first(), 0) else { return Ok(false) };
    match first.length_at(text) {
        Some(length) => at += length,
        None => return Ok(false),
    }
    let Some((last, middle)) = rest.split_last() else { return Ok(at == text.len()) };
    for piece in middle.iter().filter(|piece| !piece.is_empty()) {
        context.spend(1)?;
        match piece.find(&text[at..], context)? {
            Some(behind) => at += behind,
            None => return Ok(false),
        }
    }
    let chars = last.runs.iter().map(|run| run.chars().count() + 1).sum::<usize>() - 1;
    let ends = text[at..].char_indices().rev().map(|(place, _)| place);
    let begin = if chars == 0 { Some(text.len() - at) } else { ends.take(chars).nth(chars - 1) };
    let tail = begin.map(|begin| &text[at + begin..]);
    Ok(tail.is_some_and(|tail| last.length_at(tail) == Some(tail.len())))
}

/// The place behind the first `count` characters, if there are so many.
fn after_chars(text: &str, count: usize) -> Option<usize> {
    match count {
        0 => Some(0),
        _ => text.char_indices().nth(count - 1).map(|(at, c)| at + c.len_utf8()),
    }
}

/// The place `count` characters in front of `place`; there are so many.
fn before_chars(text: &str, place: usize, count: usize) -> usize {
    match count {
        0 => place,
        _ => text[..place].char_indices().rev().nth(count - 1).map_or(0, |(at, _)| at),
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

    /// Every pattern and text of a few characters, by both ways.
    #[test]
    fn pieces_match_what_the_plain_loop_matches() {
        let context = Context::outside();
        let words = |letters: &[&str], most: usize| {
            let mut all = vec![String::new()];
            let mut from = 0;
            for _ in 0..most {
                let last = all.len();
                for at in from..last {
                    for letter in letters {
                        all.push(format!("{}{letter}", all[at]));
                    }
                }
                from = last;
            }
            all
        };
        let texts = words(&["a", "b", "ä", "%"], 5);
        for pattern in words(&["a", "b", "ä", "%", "_", "\\%"], 4) {
            for text in &texts {
                let expected = plain(text, &pattern, &context).unwrap();
                assert_eq!(
                    in_pieces(text, &pattern, &context).unwrap(),
                    expected,
                    "{text} {pattern}"
                );
            }
        }
        let mut random = rightlink_env::Rng::from_seed(7);
        let mut word = |letters: &[&str], most: u64| {
            let count = random.next_u64() % most;
            (0..count).map(|_| letters[random.next_u64() as usize % letters.len()]).collect()
        };
        for _ in 0..20_000 {
            let text: String = word(&["a", "a", "ab", "ä"], 40);
            let pattern: String = word(&["a", "a", "ab", "%", "_", "ä"], 12);
            let expected = plain(&text, &pattern, &context).unwrap();
            assert_eq!(in_pieces(&text, &pattern, &context).unwrap(), expected, "{text} {pattern}");
        }
    }

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
            let found = matches(text, pattern, &Context::outside()).unwrap();
            assert_eq!(found, expected, "{text} like {pattern}");
        }
        assert!(matches("ab", "a\\", &Context::outside()).is_err());
        assert!(!matches("a", "a\\", &Context::outside()).unwrap());
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
