//! Documents for users name nothing that users cannot reach: no internal type, no source file.
//!
//! Looks at inline code. A type is internal if a crate declares it and no `lib.rs` names it. The
//! public configuration is reached by its module. Documents and examples may be named by their
//! paths.

use crate::complaint::Complaints;
use crate::prose::inline_code;
use crate::tree::Tree;
use std::collections::BTreeSet;

/// The documents for users.
const DOCUMENTS: [&str; 6] = [
    "README.md",
    "CHANGELOG.md",
    "docs/sql.md",
    "docs/operations.md",
    "docs/format.md",
    "docs/benchmarks.md",
];

/// A module whose types are public by its path.
const PUBLIC_MODULE: &str = "crates/engine/src/config.rs";

/// Each internal name in a document for users.
pub(crate) fn internal_names(tree: &Tree) -> Complaints {
    let mut found = Complaints::default();
    let internal = internal_types(tree);
    for path in DOCUMENTS {
        let text = tree.texts.get(path).map_or("", String::as_str);
        for (line, code) in inline_code(text) {
            let name = code.split(|c: char| !c.is_alphanumeric()).next().unwrap_or("");
            if internal.contains(name) {
                found.add(path, line, format!("`{code}` names an internal type"));
            } else if is_source_path(code) {
                found.add(path, line, format!("`{code}` is a path of source files"));
            }
        }
    }
    found
}

fn is_source_path(code: &str) -> bool {
    code.starts_with("crates/") && !code.ends_with(".md") && !code.contains("/examples/")
}

fn internal_types(tree: &Tree) -> BTreeSet<&str> {
    let of_crates = tree.sources.iter().filter(|source| source.path.starts_with("crates/"));
    let (faces, inner): (Vec<_>, Vec<_>) = of_crates
        .partition(|source| source.path.ends_with("/src/lib.rs") || source.path == PUBLIC_MODULE);
    let public: BTreeSet<&str> =
        faces.iter().flat_map(|source| &source.tokens).map(|token| token.text.as_str()).collect();
    let types = inner.iter().flat_map(|source| &source.types).map(|it| it.name.as_str());
    types.filter(|name| !public.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::internal_names;
    use crate::tree::Tree;

    #[test]
    fn only_public_names_stand_in_documents_for_users() {
        let code = [
            ("crates/engine/src/lib.rs", "pub use db::Database;"),
            ("crates/engine/src/db/mod.rs", "pub struct Database;\nstruct Inner;"),
            ("crates/engine/src/config.rs", "pub struct Config;"),
        ];
        let found = |path: &str, text: &str| {
            let tree = Tree::of(&[&code[..], &[(path, text)]].concat());
            internal_names(&tree).0.iter().map(|it| it.line).collect::<Vec<_>>()
        };
        let text = "`Database::open`, `Config`, `INNER`, Inner, `Elsewhere`\n`Inner::x` `Inner`\n\
            `crates/engine/src/db/mod.rs`\n`crates/engine/README.md`\n\
            `crates/engine/examples/a.rs`\n```\n`Inner`\n```\n";
        assert_eq!(found("README.md", text), [2, 2, 3]);
        assert!(found("docs/architecture.md", text).is_empty());
    }
}
