//! Documents tell the truth about the tree: what they name exists.
//!
//! Looks at inline code and relative links in every document, outside of code blocks. A name
//! counts as a path of ours if it ends like a source file or document, or like a folder, or begins
//! with a folder of ours. It may be short (`btree/split.rs`): any path that ends so will do.
//! docs/format.md also names files of a database; there a folder must begin with one of ours to
//! count.

use crate::complaint::Complaints;
use crate::tree::Tree;

/// Ends that no file of a database or of a user has.
const OUR_ENDS: [&str; 4] = [".rs", ".md", ".toml", ".py"];

/// Every path that a document names exists.
pub(super) fn paths_exist(tree: &Tree, complaints: &mut Complaints) {
    for (path, text) in tree.texts.iter().filter(|(path, _)| path.ends_with(".md")) {
        for (line, name) in named(text) {
            let name = name.trim_start_matches("./");
            if is_path(tree, path, name) && !exists(tree, path, name) {
                complaints.add(path, line, format!("`{name}` does not exist"));
            }
        }
    }
}

/// README names the command that `.ci/run` runs as the tests.
pub(super) fn test_command(tree: &Tree, complaints: &mut Complaints) {
    let Some(script) = tree.texts.get(".ci/run") else { return };
    let value = script.lines().find_map(|line| line.strip_prefix("TEST_COMMAND="));
    let Some(command) = value.map(|value| value.trim_matches(['"', '\''])) else {
        return complaints.add(".ci/run", 0, "no line `TEST_COMMAND=` at its top");
    };
    let missing = |text: &String| !text.contains(command);
    if command.is_empty() || tree.texts.get("README.md").is_some_and(missing) {
        complaints.add("README.md", 0, format!("must name the test command `{command}`"));
    }
}

/// Inline code and the targets of links, with their lines.
fn named(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_block = false;
    for (i, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            let code = line.split('`').skip(1).step_by(2);
            let links = line.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
            found.extend(code.chain(links).map(|name| (i + 1, name)));
        }
    }
    found
}

/// Does this look like a path of this repository?
fn is_path(tree: &Tree, document: &str, name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if !name.contains(['/', '.']) || !name.chars().all(plain) || name.starts_with(['/', '-', '.']) {
        return name == ".ci/run";
    }
    let first = name.split('/').next().unwrap_or(name);
    let begins_ours = name.contains('/') && tree.entries.contains(&format!("{first}/"));
    let ends_ours = OUR_ENDS.iter().any(|end| name.len() > end.len() && name.ends_with(end));
    let folder = name.ends_with('/') && document != "docs/format.md";
    begins_ours || ends_ours || folder
}

/// Is there a file or folder with this path, or one that ends so?
fn exists(tree: &Tree, document: &str, name: &str) -> bool {
    let bare = name.trim_end_matches('/');
    let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
    let matches = |entry: &String| {
        let entry = entry.trim_end_matches('/');
        entry == bare
            || entry.strip_suffix(bare).is_some_and(|before| before.ends_with('/'))
            || bare.strip_prefix("../").is_some_and(|rest| !folder.is_empty() && entry == rest)
    };
    tree.entries.iter().any(matches)
}

#[cfg(test)]
mod tests {
    use super::super::complaints_of;
    use super::{paths_exist, test_command};

    fn found(document: &str, text: &str) -> Vec<String> {
        let sources = [("crates/engine/src/btree/split.rs", ""), ("data/cut.py", "")];
        complaints_of(paths_exist, &[&sources[..], &[(document, text)]].concat())
    }

    #[test]
    fn a_name_that_leads_nowhere_is_named() {
        let text =
            "See `btree/split.rs`, `crates/engine/`, `btree/merge.rs`.\n\n[a](docs/GONE.md#x)";
        let lines = found("README.md", text);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains("README.md:1: `btree/merge.rs`"));
        assert_eq!(found("docs/A.md", "`attic/` and `crates/attic`").len(), 2);
        assert_eq!(found("data/README.md", "`attic/`, `cut.py`, `data/cut.rs`").len(), 2);
        assert_eq!(found("data/README.txt", "`attic/`").len(), 0);
    }

    #[test]
    fn other_inline_code_is_left_alone() {
        let text = "`I/O` `a.b` `x::y` `--json FILE` `/tmp/x.rs` `*.rs` `people.csv` `1/2`\n\
            [b](https://example.org/a.md)\n```\ngone/\n`gone.rs`\n```\n";
        assert!(found("README.md", text).is_empty());
        assert!(found("docs/format.md", "`base/` and `log/1.seg`").is_empty());
    }

    #[test]
    fn readme_names_the_test_command() {
        let script = (".ci/run", "set -e\nTEST_COMMAND=\"cargo test --workspace\"\n");
        let bad = [script, ("README.md", "Run `cargo test`.")];
        assert_eq!(complaints_of(test_command, &bad).len(), 1);
        let good = [script, ("README.md", "Run `cargo test --workspace`.")];
        assert!(complaints_of(test_command, &good).is_empty());
        assert_eq!(complaints_of(test_command, &[(".ci/run", "cargo test")]).len(), 1);
    }
}
