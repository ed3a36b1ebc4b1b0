//! Every rule of the engine that a test can break is named by a test: a variant that nobody runs
//! proves nothing.
//!
//! Looks for `broken("name")` in production code and for `"name"` anywhere in test code.
//! Does not do: run the test, which itself fails if nothing notices.

use crate::complaint::Complaints;
use crate::source::Source;
use crate::tree::Tree;
use std::collections::BTreeSet;

/// Each `broken("name")` has a test that says `"name"`.
pub(super) fn variants(tree: &Tree, complaints: &mut Complaints) {
    let mut tested: BTreeSet<&str> = BTreeSet::new();
    for source in &tree.sources {
        let in_test = |line: usize| source.is_test_file() || source.is_test_line(line);
        let strings = source.tokens.iter().filter(|token| token.text.starts_with('"'));
        tested.extend(strings.filter(|token| in_test(token.line)).map(|token| &*token.text));
    }
    for source in tree.sources.iter().filter(|source| !source.is_test_file()) {
        for (line, name) in asked(source) {
            if !source.is_test_line(line) && !tested.contains(name) {
                complaints.add(&source.path, line, format!("no test breaks the rule {name}"));
            }
        }
    }
}

/// Lines and names, in their quotes, of `broken("name")`.
fn asked(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    source.tokens.windows(3).filter_map(|three| {
        let call = three[0].text == "broken" && three[1].text == "(";
        (call && three[2].text.starts_with('"')).then_some((three[2].line, &*three[2].text))
    })
}

#[cfg(test)]
mod tests {
    use super::super::complaints_of;
    use super::variants;

    #[test]
    fn a_variant_without_a_test_is_named() {
        let code = ("crates/engine/src/heap/mod.rs", "fn f() -> bool { !broken(\"r9-x\") }");
        let test = ("crates/engine/src/heap/tests.rs", "const RULE: &str = \"r9-x\";");
        assert_eq!(complaints_of(variants, &[code]).len(), 1);
        assert!(complaints_of(variants, &[code, test]).is_empty());
        let inside = "fn f() -> bool { broken(\"r9-x\") }\n#[test]\nfn t() { g(\"r9-x\") }";
        assert!(complaints_of(variants, &[("crates/engine/src/heap/mod.rs", inside)]).is_empty());
    }
}
