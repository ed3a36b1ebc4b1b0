//! The rules that neither the compiler nor clippy knows, as checks.
//!
//! Each check is a function from the tree to complaints, looks at one rule, and carries tests that
//! show on a small bad sample that it can fail. One more test runs all of them on the real tree.

mod crates;
mod documents;
mod layers;
mod lengths;
mod outside;
mod rules;
mod text;
mod unsafety;
mod variants;

use crate::complaint::{Complaint, Complaints};
use crate::ratchets;
use crate::tree::Tree;

type Check = fn(&Tree, &mut Complaints);

const CHECKS: [Check; 16] = [
    text::files_parse,
    text::heads,
    text::leftovers,
    text::columns,
    layers::layers,
    crates::dependencies,
    crates::public_names,
    outside::outside_world,
    unsafety::unsafety,
    lengths::lengths,
    documents::paths_exist,
    documents::test_command,
    variants::variants,
    rules::rules,
    rules::variant_tables,
    ratchets::check,
];

/// Runs every check; complaints come by file and line.
pub(crate) fn tidy(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Complaints::default();
    CHECKS.iter().for_each(|check| check(tree, &mut complaints));
    let mut complaints = complaints.0;
    complaints.sort_by(|a, b| (&a.path, a.line, &a.text).cmp(&(&b.path, b.line, &b.text)));
    complaints.dedup_by(|a, b| (&a.path, a.line, &a.text) == (&b.path, b.line, &b.text));
    complaints
}

/// What one check says about a small tree, for the tests of the checks.
#[cfg(test)]
fn complaints_of(check: Check, files: &[(&str, &str)]) -> Vec<String> {
    let mut complaints = Complaints::default();
    check(&Tree::of(files), &mut complaints);
    complaints.0.iter().map(Complaint::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::tidy;
    use crate::tree::Tree;

    #[test]
    fn our_tree_is_tidy() {
        let tree = Tree::read(&crate::root()).expect("the tree can be read");
        let complaints: Vec<String> = tidy(&tree).iter().map(ToString::to_string).collect();
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }

    #[test]
    fn complaints_are_sorted_and_told_once() {
        let tree = Tree::of(&[("b/src/x.rs", "fn f() {}"), ("a/src/x.rs", "fn f( {}")]);
        let complaints: Vec<String> = tidy(&tree).iter().map(ToString::to_string).collect();
        let of = |file: &str| complaints.iter().filter(|text| text.starts_with(file)).count();
        assert_eq!((of("a/src/x.rs"), of("b/src/x.rs")), (2, 1));
        assert!(complaints[0].starts_with("a/"));
    }
}
