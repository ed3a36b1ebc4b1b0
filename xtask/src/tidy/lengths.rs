//! Files and functions end before the reader does.
//!
//! A file holds at most 800 code lines of production, and at most as many of tests. A function has
//! at most 120 lines from `fn` to its brace. One whose body has over 100 code lines must say so
//! with `#[expect(clippy::too_many_lines, reason = "..")]`: these are the lines that clippy counts,
//! because clippy rejects an expectation that it does not share.

use crate::complaint::Complaints;
use crate::source::{Function, Source};
use crate::tree::Tree;

const FILE: usize = 800;
const FUNCTION: usize = 120;
const BODY: usize = 100;

/// Neither files nor functions are too long.
pub(super) fn lengths(tree: &Tree, complaints: &mut Complaints) {
    for source in &tree.sources {
        let (test, production): (Vec<usize>, Vec<usize>) =
            source.code_lines().partition(|line| source.is_test_line(*line));
        for (lines, what) in [(production, "production"), (test, "test")] {
            if lines.len() > FILE {
                let text = format!("{} code lines of {what}, over {FILE}", lines.len());
                complaints.add(&source.path, 0, text);
            }
        }
        let long = source.functions.iter().filter_map(|function| verdict(source, function));
        long.for_each(|(line, text)| complaints.add(&source.path, line, text));
    }
}

fn verdict(source: &Source, function: &Function) -> Option<(usize, String)> {
    let Function { name, line, .. } = function;
    let length = function.length();
    let inside = |at: &usize| *at > function.body_line && *at < function.last_line;
    let body = source.code_lines().filter(inside).count();
    if length > FUNCTION {
        Some((*line, format!("`{name}` has {length} lines, over {FUNCTION}")))
    } else if body > BODY && !function.expects_length {
        Some((*line, format!("`{name}` has {body} code lines, over {BODY}, and gives no reason")))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::complaints_of;
    use super::lengths;

    fn found(text: &str) -> usize {
        complaints_of(lengths, &[("a.rs", text)]).len()
    }

    fn function(lines: usize) -> String {
        format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines))
    }

    #[test]
    fn long_functions_are_named() {
        let expect = "#[expect(clippy::too_many_lines, reason = \"one table\")]\n";
        assert_eq!(found(&function(100)), 0);
        assert_eq!(found(&function(101)), 1);
        assert_eq!(found(&format!("{expect}{}", function(101))), 0);
        assert_eq!(found(&format!("#[expect(clippy::too_many_lines)]\n{}", function(101))), 1);
        assert_eq!(found(&format!("{expect}{}", function(119))), 1);
        assert_eq!(found(&function(60).replace("    g();\n", "    // why\n    g();\n")), 1);
    }

    #[test]
    fn long_files_are_named_by_code_lines() {
        assert_eq!(found(&"const A: u8 = 1;\n\n// no\n".repeat(800)), 0);
        assert_eq!(found(&"const A: u8 = 1;\n".repeat(801)), 1);
    }
}
