//! Rules on the text of Rust files: they parse, have a head, leave nothing undone, and fit 100
//! columns.

use crate::complaint::Complaints;
use crate::prose::COLUMNS;
use crate::tree::Tree;

/// Words that say in a comment that something is not done.
const UNDONE_WORDS: [&str; 3] = ["FIXME", "XXX", "TODO"];

/// Macros that say it in code.
const UNDONE_MACROS: [&str; 2] = ["todo", "unimplemented"];

/// Every Rust file parses; the other checks would pass over one that does not.
pub(super) fn files_parse(tree: &Tree, complaints: &mut Complaints) {
    for source in &tree.sources {
        if let Some(error) = &source.parse_error {
            complaints.add(&source.path, 0, format!("does not parse: {error}"));
        }
    }
}

/// Every Rust file starts by saying what it is for.
pub(super) fn heads(tree: &Tree, complaints: &mut Complaints) {
    for source in &tree.sources {
        if !source.text.starts_with("//! ") {
            complaints.add(&source.path, 1, "the file must start with `//!` and what it is for");
        }
    }
}

/// Nothing is left undone, neither in words nor in code.
pub(super) fn leftovers(tree: &Tree, complaints: &mut Complaints) {
    for source in &tree.sources {
        for (i, line) in source.mask.comments.lines().enumerate() {
            let words = || line.split(|c: char| !c.is_alphanumeric() && c != '_');
            for word in UNDONE_WORDS.into_iter().filter(|undone| words().any(|w| w == *undone)) {
                complaints.add(&source.path, i + 1, format!("{word} is not for landed code"));
            }
        }
        for pair in source.tokens.windows(2).filter(|pair| pair[1].text == "!") {
            if UNDONE_MACROS.contains(&pair[0].text.as_str()) {
                let text = format!("{}!() is not for landed code", pair[0].text);
                complaints.add(&source.path, pair[0].line, text);
            }
        }
    }
}

/// No line of Rust is wider than the screen.
pub(super) fn columns(tree: &Tree, complaints: &mut Complaints) {
    for source in &tree.sources {
        for (i, line) in source.text.lines().enumerate() {
            let width = line.chars().count();
            if width > COLUMNS {
                complaints.add(&source.path, i + 1, format!("{width} columns, over {COLUMNS}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::complaints_of;
    use super::{columns, files_parse, heads, leftovers};

    #[test]
    fn a_file_that_does_not_parse_is_named() {
        assert_eq!(complaints_of(files_parse, &[("a.rs", "fn f( {")]).len(), 1);
        assert_eq!(complaints_of(files_parse, &[("a.rs", "fn f() {}")]).len(), 0);
    }

    #[test]
    fn a_file_without_head_is_named() {
        let files =
            [("a.rs", "// Not a head.\n//! Too late."), ("b.rs", "//! A head."), ("c.rs", "")];
        let found = complaints_of(heads, &files);
        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("a.rs:1:") && found[1].starts_with("c.rs:1:"));
    }

    #[test]
    fn undone_work_is_named_but_not_its_name_in_a_string() {
        let bad =
            "// TODO: later\nfn f() { todo!() }\n#[cfg(test)]\nfn g() { unimplemented!(\"x\") }";
        let lines: Vec<String> = complaints_of(leftovers, &[("a.rs", bad)]);
        assert_eq!(lines.len(), 3, "{lines:?}");
        let good = "// AUTODOC and todos\nfn f() { g(\"TODO todo!()\") }";
        assert!(complaints_of(leftovers, &[("a.rs", good)]).is_empty());
    }

    #[test]
    fn wide_lines_are_named_by_characters_not_bytes() {
        let wide = format!("// {}", "ä".repeat(98));
        assert_eq!(complaints_of(columns, &[("a.rs", &wide)]).len(), 1);
        assert_eq!(complaints_of(columns, &[("a.rs", &wide[..wide.len() - 2])]).len(), 0);
    }
}
