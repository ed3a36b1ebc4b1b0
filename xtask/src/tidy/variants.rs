//! Every broken variant has a test that names it: a variant that no test runs proves nothing.
//!
//! Looks for the variants that production code asks for (`broken`), and for their names in test
//! code. Does not do: run the test, which itself fails if nothing notices.

use crate::broken::Names;
use crate::complaint::Complaints;
use crate::tree::Tree;
use std::collections::BTreeSet;

/// Each variant that code asks for has a test that names it.
pub(super) fn variants(tree: &Tree, complaints: &mut Complaints) {
    let names = Names::of(tree);
    let tested: BTreeSet<String> =
        tree.sources.iter().flat_map(|source| names.tested(source)).collect();
    for source in tree.sources.iter().filter(|source| !source.is_test_file()) {
        for (line, name) in names.asked(source) {
            if !tested.contains(&name) {
                complaints.add(&source.path, line, format!("no test breaks the rule \"{name}\""));
            }
        }
    }
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
        let code = ("crates/engine/src/heap/mod.rs", "fn f() -> bool { broken(Broken::A) }");
        let test = ("crates/engine/src/heap/tests.rs", "const BROKEN: Broken = Broken::A;");
        assert_eq!(complaints_of(variants, &[code]).len(), 1);
        assert!(complaints_of(variants, &[code, test]).is_empty());
    }
}
