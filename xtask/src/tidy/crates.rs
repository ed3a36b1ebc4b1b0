//! Which of our crates may depend on which, and that the upper ones use public names only.
//!
//! Dev-dependencies are free: a test may use more than the code it tests.

use super::layers::LAYERS;
use crate::complaint::Complaints;
use crate::paths::production_paths;
use crate::tree::Tree;

/// Each folder, and the crates of ours it may depend on. Folders not listed are free (`bench`).
const DEPENDENCIES: [(&str, &[&str]); 10] = [
    ("crates/env/", &[]),
    ("crates/aio/", &["rightlink-env"]),
    ("crates/radix/", &["rightlink-env"]),
    ("crates/derive/", &[]),
    ("crates/engine/", &["rightlink-env", "rightlink-aio", "rightlink-radix", "rightlink-derive"]),
    ("crates/sql/", &["rightlink", "rightlink-env"]),
    ("crates/server/", &["rightlink", "rightlink-env", "rightlink-sql"]),
    // A program that tests with another library, outside of the workspace.
    ("crates/server/drivers/tools/sqlx/", &[]),
    ("crates/cli/", &["rightlink", "rightlink-env", "rightlink-sql", "rightlink-server"]),
    ("xtask/", &[]),
];

/// The crates that see the engine from outside.
const OUTSIDE: [&str; 3] = ["crates/sql/", "crates/server/", "crates/cli/"];

/// Crates depend only on what lies below them.
pub(super) fn dependencies(tree: &Tree, complaints: &mut Complaints) {
    for (folder, allowed) in DEPENDENCIES {
        let path = format!("{folder}Cargo.toml");
        let manifest = tree.texts.get(&path).map_or("", String::as_str);
        for (line, name) in ours(manifest) {
            if !allowed.contains(&name) {
                complaints.add(&path, line, format!("{folder} may not depend on {name}"));
            }
        }
    }
    for path in tree.texts.keys() {
        let folder = path.strip_suffix("Cargo.toml").unwrap_or("");
        let listed = DEPENDENCIES.iter().any(|(known, _)| *known == folder);
        if folder.starts_with("crates/") && !listed {
            complaints.add(path, 0, "a crate without a line in DEPENDENCIES");
        }
    }
}

/// Crates above the engine name none of its modules above layer 0, hidden or not.
pub(super) fn public_names(tree: &Tree, complaints: &mut Complaints) {
    let is_outside = |path: &str| OUTSIDE.iter().any(|folder| path.starts_with(folder));
    for source in tree.sources.iter().filter(|source| is_outside(&source.path)) {
        for path in production_paths(source).iter().filter(|path| path.starts_with(&["rightlink"]))
        {
            let hidden = path.parts.get(1).is_some_and(|part| part == "internal");
            let module = path.parts.get(1 + usize::from(hidden)).map_or("", String::as_str);
            if LAYERS.iter().any(|(name, layer)| *name == module && *layer > 0) {
                let text =
                    format!("`{}` reaches into a module of the engine", path.parts.join("::"));
                complaints.add(&source.path, path.line, text);
            }
        }
    }
}

/// The dependencies of a manifest on crates of ours, with their lines.
fn ours(manifest: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_dependencies = false;
    for (i, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            let (table, name) = section.rsplit_once("dependencies.").unwrap_or((section, ""));
            in_dependencies =
                name.is_empty() && is_production(table.trim_end_matches("dependencies"));
            if !name.is_empty() && is_production(table) && name.starts_with("rightlink") {
                found.push((i + 1, name));
            }
        } else if in_dependencies && line.starts_with("rightlink") {
            let end = line.find(|c: char| !c.is_alphanumeric() && c != '-').unwrap_or(line.len());
            found.push((i + 1, &line[..end]));
        }
    }
    found
}

/// What stands before `dependencies` in a section's name: nothing, `build-`, or a target.
fn is_production(prefix: &str) -> bool {
    prefix.is_empty()
        || prefix == "build-"
        || (prefix.starts_with("target.") && !prefix.ends_with("dev-"))
}

#[cfg(test)]
mod tests {
    use super::super::complaints_of;
    use super::{dependencies, ours, public_names};

    #[test]
    fn every_form_of_a_dependency_is_seen() {
        let manifest = r#"
            [package]
            name = "rightlink-x"
            [dependencies]
            rightlink-env.workspace = true
            rightlink = { path = ".." }
            [dev-dependencies]
            rightlink-aio = "1"
            [target.'cfg(unix)'.dependencies]
            rightlink-sql = "1"
            [target.'cfg(unix)'.dev-dependencies]
            rightlink-bench = "1"
            [dependencies.rightlink-cli]
            path = "x"
            [dev-dependencies.rightlink-server]
            [lints]
            rightlink = 1
        "#;
        let names: Vec<&str> = ours(manifest).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["rightlink-env", "rightlink", "rightlink-sql", "rightlink-cli"]);
    }

    #[test]
    fn a_dependency_upward_is_named() {
        let bad = "[package]\n[dependencies]\nrightlink.workspace = true\n";
        assert_eq!(complaints_of(dependencies, &[("crates/aio/Cargo.toml", bad)]).len(), 1);
        assert_eq!(complaints_of(dependencies, &[("crates/sql/Cargo.toml", bad)]).len(), 0);
        assert_eq!(complaints_of(dependencies, &[("crates/new/Cargo.toml", "[package]")]).len(), 1);
    }

    #[test]
    fn modules_of_the_engine_are_not_named_from_outside() {
        let found = |text| complaints_of(public_names, &[("crates/cli/src/main.rs", text)]).len();
        assert_eq!(found("use rightlink::heap::Tuple;"), 1);
        assert_eq!(found("use rightlink::{Database, Value};"), 0);
    }
}
