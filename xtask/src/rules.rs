//! The numbered rules: those that `docs/rules.md` states, and those that code cites.
//!
//! A rule is stated by a heading `## R<n>`. It is cited by `R<n>` in a comment, or in the text of
//! an assertion. The checks of `verify` have names of the same form; as strings of its own code
//! they are no citations.

use crate::source::{Source, Token};
use crate::tree::Tree;

/// The document that states the rules.
pub(crate) const DOCUMENT: &str = "docs/rules.md";

/// One mention of a rule in code.
#[derive(Debug, PartialEq)]
pub(crate) struct Citation {
    pub(crate) rule: u32,
    pub(crate) line: usize,
}

/// A row of a table of broken variants.
#[derive(Debug, PartialEq)]
pub(crate) struct VariantRow<'a> {
    pub(crate) line: usize,
    pub(crate) name: &'a str,
    /// Tests that catch the variant, and the files that hold them.
    pub(crate) tests: Vec<(&'a str, &'a str)>,
}

/// Lines and numbers of the rules that a document states.
pub(crate) fn stated(document: &str) -> Vec<(usize, u32)> {
    let headings = document.lines().enumerate();
    headings.filter_map(|(i, line)| Some((i + 1, number(line.strip_prefix("## ")?)?))).collect()
}

/// The rows of the tables whose first column is headed `broken variant`.
pub(crate) fn variant_rows(document: &str) -> Vec<VariantRow<'_>> {
    let mut rows = Vec::new();
    let mut in_table = false;
    for (i, line) in document.lines().enumerate() {
        let Some(cells) = line.strip_prefix('|') else {
            in_table = false;
            continue;
        };
        let first = cells.split('|').next().unwrap_or("").trim();
        in_table |= first == "broken variant";
        let name = first.strip_prefix('`').and_then(|name| name.strip_suffix('`'));
        if let Some(name) = name.filter(|_| in_table) {
            let codes: Vec<&str> = cells.split('`').skip(3).step_by(2).collect();
            rows.push(VariantRow { line: i + 1, name, tests: tests(&codes) });
        }
    }
    rows
}

/// Which rules a file cites.
pub(crate) fn citations(source: &Source) -> Vec<Citation> {
    let comments = source.mask.comments.lines().enumerate();
    let mut found: Vec<Citation> = comments
        .flat_map(|(i, line)| numbers(line).map(move |rule| Citation { rule, line: i + 1 }))
        .collect();
    let of_verify = source.path.contains("verify");
    for token in assertion_strings(&source.tokens) {
        let bare = number(token.text.trim_matches('"')).is_some();
        if !(bare && of_verify) {
            let (line, text) = (token.line, token.text.as_str());
            found.extend(numbers(text).map(|rule| Citation { rule, line }));
        }
    }
    found
}

/// The sources that cite rules: all but the tools that check citations.
pub(crate) fn citing(tree: &Tree) -> impl Iterator<Item = &Source> {
    tree.sources.iter().filter(|source| !source.path.starts_with("xtask/"))
}

/// Pairs of a test and its file: names of functions, each run of them followed by paths.
fn tests<'a>(codes: &[&'a str]) -> Vec<(&'a str, &'a str)> {
    let mut found = Vec::new();
    let mut waiting: Vec<&str> = Vec::new();
    for code in codes {
        if code.ends_with(".rs") {
            found.extend(waiting.drain(..).map(|name| (name, *code)));
        } else {
            waiting.push(code);
        }
    }
    found
}

/// The strings among the arguments of `assert!` and its kin.
fn assertion_strings(tokens: &[Token]) -> Vec<&Token> {
    let mut found = Vec::new();
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate() {
        let before = |distance: usize| i.checked_sub(distance).map_or("", |at| &tokens[at].text);
        let opens = matches!(token.text.as_str(), "(" | "[" | "{");
        if depth > 0 || (opens && before(1) == "!" && is_assertion(before(2))) {
            depth += usize::from(opens);
            depth -= usize::from(matches!(token.text.as_str(), ")" | "]" | "}"));
            found.extend(Some(token).filter(|token| token.text.starts_with('"')));
        }
    }
    found
}

fn is_assertion(name: &str) -> bool {
    let name = name.trim_start_matches("debug_");
    name.starts_with("assert") || matches!(name, "unreachable" | "panic")
}

/// Every `R<n>` that stands as a word.
fn numbers(text: &str) -> impl Iterator<Item = u32> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter_map(number)
}

/// The number of `R<n>`.
fn number(word: &str) -> Option<u32> {
    let digits = word.trim_end().strip_prefix('R')?;
    let is_number = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit());
    if is_number { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::{citations, stated, variant_rows};
    use crate::source::Source;

    #[test]
    fn headings_state_rules() {
        let document = "# Rules\n\n## R1\n**Hints.** R7\n## R20\n### R3\n## Rest\n## R2 and R3\n";
        assert_eq!(stated(document), [(3, 1), (5, 20)]);
    }

    #[test]
    fn rows_of_variants_name_their_tests() {
        let document = "| rule | |\n|---|---|\n| `no` | x |\n\n\
            | broken variant | what it breaks | caught by |\n|---|---|---|\n\
            | `r1-a` | b | `t` in `x/y.rs`; `u`, `v` in `z.rs` |\n\n| `no` | |\n";
        let rows = variant_rows(document);
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].line, rows[0].name), (7, "r1-a"));
        assert_eq!(rows[0].tests, [("t", "x/y.rs"), ("u", "z.rs"), ("v", "z.rs")]);
    }

    #[test]
    fn comments_and_assertions_cite() {
        let cited = |path: &str, text: &str| {
            let found = citations(&Source::new(path, text));
            found.iter().map(|it| (it.rule, it.line)).collect::<Vec<_>>()
        };
        let text = "//! Head (R5 to R8).\nfn f() {\n    assert!(g(\"R9\"), \"R10: why\");\n    \
            let r = \"R11\"; // (R12), FR13, R14x\n    debug_assert_eq!(a, b[0], \"R15\");\n}\n";
        let expected = [(5, 1), (8, 1), (12, 4), (9, 3), (10, 3), (15, 5)];
        assert_eq!(cited("crates/engine/src/x.rs", text), expected);
        let expected = [(5, 1), (8, 1), (12, 4), (10, 3)];
        assert_eq!(cited("crates/engine/src/verify/x.rs", text), expected);
    }
}
