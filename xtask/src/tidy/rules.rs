//! `docs/rules.md` and the code agree, in both directions.
//!
//! Each rule is stated once. Each broken variant of the tables is asked for by code, and each one
//! that code asks for stands in a table. The tests that a table names exist.
//!
//! That cited rules are stated, and stated ones cited, are figures (`measures`). That paths exist
//! is checked for every document (`documents`).

use crate::broken::{ENUM_FILE, Names};
use crate::complaint::Complaints;
use crate::rules::{DOCUMENT, citing, stated, variant_rows};
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// Rules are stated once.
pub(super) fn rules(tree: &Tree, complaints: &mut Complaints) {
    let Some(document) = tree.texts.get(DOCUMENT) else { return };
    let mut seen = BTreeSet::new();
    for (line, rule) in stated(document) {
        if !seen.insert(rule) {
            complaints.add(DOCUMENT, line, format!("R{rule} is stated twice"));
        }
    }
}

/// The tables of broken variants name what the code asks for, and tests that exist.
pub(super) fn variant_tables(tree: &Tree, complaints: &mut Complaints) {
    let Some(document) = tree.texts.get(DOCUMENT) else { return };
    let names = Names::of(tree);
    let mut asked: BTreeMap<String, (&str, usize)> = BTreeMap::new();
    for source in citing(tree) {
        for (line, name) in names.asked(source) {
            asked.entry(name).or_insert((&source.path, line));
        }
    }
    let mut listed = BTreeSet::new();
    for row in variant_rows(document) {
        if !listed.insert(row.name) {
            complaints.add(DOCUMENT, row.line, format!("`{}` stands in two tables", row.name));
        } else if !asked.contains_key(row.name) {
            complaints.add(DOCUMENT, row.line, format!("no code asks for `{}`", row.name));
        }
        if row.tests.is_empty() {
            complaints.add(DOCUMENT, row.line, format!("`{}` names no test", row.name));
        }
        for (test, path) in row.tests.iter().filter(|(test, path)| !is_function(tree, path, test)) {
            complaints.add(DOCUMENT, row.line, format!("there is no `{test}` in `{path}`"));
        }
    }
    for (name, (path, line)) in asked.iter().filter(|(name, _)| !listed.contains(name.as_str())) {
        complaints.add(path, *line, format!("`{name}` stands in no table of {DOCUMENT}"));
    }
    for (variant, name) in names.all().filter(|(_, name)| !asked.contains_key(*name)) {
        complaints.add(ENUM_FILE, 0, format!("no code asks for `{variant}` ({name})"));
    }
}

fn is_function(tree: &Tree, path: &str, name: &str) -> bool {
    let source = tree.sources.iter().find(|source| source.path == path);
    source.is_some_and(|source| source.functions.iter().any(|function| function.name == name))
}

#[cfg(test)]
mod tests {
    use super::super::complaints_of;
    use super::{rules, variant_tables};

    const CODE: (&str, &str) =
        ("crates/engine/src/x.rs", "// (R1)\nfn f() { broken(\"r1-a\") }\n#[test]\nfn t() {}");

    fn document(rows: &str) -> String {
        format!("## R1\n\n| broken variant | what | caught by |\n|---|---|---|\n{rows}")
    }

    #[test]
    fn a_rule_that_is_stated_twice_is_named() {
        let found = |text| complaints_of(rules, &[("docs/rules.md", text)]);
        assert!(found("## R1\n## R2\n").is_empty());
        assert_eq!(found("## R1\n## R1\n"), ["docs/rules.md:2: R1 is stated twice"]);
        assert!(complaints_of(rules, &[CODE]).is_empty());
    }

    #[test]
    fn tables_and_code_name_the_same_variants() {
        let found = |rows: &str| {
            complaints_of(variant_tables, &[CODE, ("docs/rules.md", document(rows).as_str())])
        };
        let row = "| `r1-a` | b | `t` in `crates/engine/src/x.rs` |\n";
        assert!(found(row).is_empty());
        assert_eq!(found("").len(), 1);
        assert_eq!(found(&row.repeat(2)).len(), 1);
        assert_eq!(found(&format!("{row}{}", row.replace("-a", "-b"))).len(), 1);
        assert_eq!(found(&row.replace("`t`", "`gone`")).len(), 1);
        assert_eq!(found("| `r1-a` | b | |\n").len(), 1);
    }

    #[test]
    fn a_variant_of_the_enum_that_no_code_asks_for_is_named() {
        let names = ("crates/env/src/broken.rs", "fn n() { match s { A => \"a\", B => \"b\" } }");
        let code = ("crates/engine/src/x.rs", "fn f() { broken(Broken::A) }\nfn t() {}");
        let text = document("| `a` | b | `t` in `crates/engine/src/x.rs` |\n");
        let found = complaints_of(variant_tables, &[names, code, ("docs/rules.md", &text)]);
        assert_eq!(found, ["crates/env/src/broken.rs: no code asks for `B` (b)"]);
    }
}
