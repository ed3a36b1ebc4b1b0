//! `\copy`: a COPY of the server's with a file of the client's.
//!
//! Invariants: everything but the file's name goes to the server as it was typed.
//! Does not do: programs (`from program`).

/// What a `\copy` asks for.
#[derive(Debug, PartialEq)]
pub(super) struct FileCopy {
    /// The COPY, from standard input or to standard output.
    pub(super) sql: String,
    pub(super) from: bool,
    /// The file; `None` where standard input or output was asked for.
    pub(super) path: Option<String>,
}

impl FileCopy {
    /// Reads `TABLE [(COLUMNS)] | (QUERY) from | to FILE [OPTIONS]`; `None` for something else.
    pub(super) fn parse(text: &str) -> Option<FileCopy> {
        let text = text.trim().trim_end_matches(';');
        let (at, from) = direction(text)?;
        let (what, rest) = (&text[..at], &text[at..]);
        let rest = rest[if from { "from" } else { "to" }.len()..].trim_start();
        let (path, options) = match rest.strip_prefix('\'') {
            Some(quoted) => {
                let (path, options) = unquoted(quoted)?;
                (Some(path), options)
            }
            None => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                let (word, options) = rest.split_at(end);
                let own = ["stdin", "stdout", "pstdin", "pstdout"];
                let is_own = own.iter().any(|name| word.eq_ignore_ascii_case(name));
                ((!is_own).then(|| word.to_owned()), options)
            }
        };
        if what.trim().is_empty() || path.as_ref().is_some_and(String::is_empty) {
            return None;
        }
        let place = if from { "from stdin" } else { "to stdout" };
        let sql = format!("copy {} {place} {}", what.trim(), options.trim());
        Some(FileCopy { sql: sql.trim_end().to_owned(), from, path })
    }
}

/// Where the word FROM or TO begins that is in no brackets and no quotes, and if it is FROM.
fn direction(text: &str) -> Option<(usize, bool)> {
    let (mut depth, mut quote, mut word) = (0i32, None, 0);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) => quote = (c != open).then_some(open),
            (None, '\'' | '"') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            (None, c) if c.is_whitespace() && depth == 0 => match &text[word..at] {
                found if found.eq_ignore_ascii_case("from") => return Some((word, true)),
                found if found.eq_ignore_ascii_case("to") => return Some((word, false)),
                _ => {}
            },
            _ => {}
        }
        if c.is_whitespace() || c == ')' {
            word = at + c.len_utf8();
        }
    }
    None
}

/// The text up to the closing quote, of which two mean one, and what comes after it.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut made = String::new();
    let mut rest = text;
    loop {
        let (part, after) = rest.split_once('\'')?;
        made.push_str(part);
        match after.strip_prefix('\'') {
            Some(more) => {
                made.push('\'');
                rest = more;
            }
            None => return Some((made, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<(String, Option<String>)> {
        FileCopy::parse(text).map(|copy| (copy.sql, copy.path))
    }

    fn copy(sql: &str, path: &str) -> Option<(String, Option<String>)> {
        Some((sql.to_owned(), Some(path.to_owned())))
    }

    #[test]
    fn the_name_of_the_file_is_taken_out() {
        assert_eq!(parsed("t from 'a.csv'"), copy("copy t from stdin", "a.csv"));
        assert_eq!(
            parsed("t (a, b) FROM 'it''s' with (format csv, null ' to ');"),
            copy("copy t (a, b) from stdin with (format csv, null ' to ')", "it's")
        );
        assert_eq!(
            parsed("(select a from t where b = ') to ') to /tmp/x csv header"),
            copy("copy (select a from t where b = ') to ') to stdout csv header", "/tmp/x")
        );
        assert_eq!(parsed("\"from\"(a)to x"), copy("copy \"from\"(a) to stdout", "x"));
        assert_eq!(parsed("t from stdin"), Some(("copy t from stdin".to_owned(), None)));
        for wrong in ["", "t", "t from", "from 'x'", "t from 'x", "t to ''", "(select 1 to x"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
