//! Patterns of names as psql sends them: `^(a.*|b)$`, with `.` and `.*` for what `?` and `*` were.
//!
//! Does not do: other regular expressions.

/// What the pattern matches, as patterns of LIKE of which one must match; `None` if it is none of
/// this kind.
pub(super) fn alternatives(pattern: &str) -> Option<Vec<String>> {
    let inner = pattern.strip_prefix("^(")?.strip_suffix(")$")?;
    let mut all = vec![String::new()];
    let mut chars = inner.chars().peekable();
    while let Some(c) = chars.next() {
        let last = all.last_mut()?;
        match c {
            '|' => all.push(String::new()),
            '.' => last.push(if chars.next_if_eq(&'*').is_some() { '%' } else { '_' }),
            '\\' => plain(last, chars.next().filter(|c| !c.is_alphanumeric())?),
            c if "^$()[]{}+?*".contains(c) => return None,
            c => plain(last, c),
        }
    }
    Some(all)
}

/// Adds a character that stands for itself.
fn plain(pattern: &mut String, c: char) {
    if matches!(c, '%' | '_' | '\\') {
        pattern.push('\\');
    }
    pattern.push(c);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_psql_become_those_of_like() {
        let known = |pattern: &str| alternatives(pattern).map(|all| all.join(" "));
        assert_eq!(known("^(flights)$").as_deref(), Some("flights"));
        assert_eq!(known("^(f.*s)$").as_deref(), Some("f%s"));
        assert_eq!(known("^(a|b.)$").as_deref(), Some("a b_"));
        assert_eq!(known("^(a\\.b_c)$").as_deref(), Some("a.b\\_c"));
        for other in ["f", "^(f+)$", "^(f*)$", "^([a-z])$", "^(a\\d)$", "^f$", "^(a\\)$"] {
            assert_eq!(known(other), None, "{other}");
        }
    }
}
