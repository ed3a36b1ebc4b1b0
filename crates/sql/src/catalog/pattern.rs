//! Names that a pattern of psql matches: `^(a.*|b)$` with `.` and `.*` for what `?` and `*` were.
//!
//! Does not do: other regular expressions; one that needs more matches nothing.

/// Does the pattern match the whole name?
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let inner = pattern.strip_prefix("^(").and_then(|rest| rest.strip_suffix(")$"));
    let Some(inner) = inner else { return false };
    let name: Vec<char> = name.chars().collect();
    inner.split('|').any(|one| part(&one.chars().collect::<Vec<_>>(), &name))
}

fn part(pattern: &[char], name: &[char]) -> bool {
    match pattern {
        [] => name.is_empty(),
        ['.', '*', rest @ ..] => (0..=name.len()).any(|skip| part(rest, &name[skip..])),
        ['.', rest @ ..] => !name.is_empty() && part(rest, &name[1..]),
        ['\\', c, rest @ ..] | [c, rest @ ..] => name.first() == Some(c) && part(rest, &name[1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_psql_match_whole_names() {
        assert!(matches("^(flights)$", "flights"));
        assert!(!matches("^(flight)$", "flights"));
        assert!(matches("^(f.*s)$", "flights"));
        assert!(matches("^(a|b.)$", "bc"));
        assert!(matches("^(a\\.b)$", "a.b"));
        assert!(!matches("flights", "flights"));
    }
}
