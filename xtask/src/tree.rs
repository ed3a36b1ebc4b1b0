//! A tree of files, read once: the Rust sources taken apart, the other texts as they are.
//!
//! Build output, hidden folders other than `.ci` and `.cargo`, and what fuzzing leaves behind are
//! not part of a tree. The tests of the checks build small trees in memory.

use crate::source::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

/// What the checks and figures look at. Paths are relative to the root, with slashes.
pub(crate) struct Tree {
    pub(crate) sources: Vec<Source>,
    /// Every other text the checks read: `.md`, `.toml`, `.ci/run`.
    pub(crate) texts: BTreeMap<String, String>,
    /// Every file, and every folder with a slash at its end.
    pub(crate) entries: BTreeSet<String>,
}

const NOT_OURS: [&str; 4] = ["target", "corpus", "artifacts", "node_modules"];

impl Tree {
    /// Reads everything below `root`. A root named `src` keeps its name in the paths, because the
    /// modules of a package are counted from there.
    pub(crate) fn read(root: &Path) -> io::Result<Tree> {
        let mut tree = Tree::empty();
        match root.parent().filter(|_| root.ends_with("src")) {
            Some(package) => tree.read_folder(package, "src/")?,
            None => tree.read_folder(root, "")?,
        }
        tree.spread_test_modules();
        Ok(tree)
    }

    /// A tree of these paths and texts.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::empty();
        for (path, text) in files {
            let folders = path.match_indices('/').map(|(at, _)| path[..=at].to_string());
            tree.entries.extend(folders);
            tree.add(path, text);
        }
        tree.spread_test_modules();
        tree
    }

    /// The folders that hold a package, deepest first. A tree without any is one package.
    pub(crate) fn packages(&self) -> Vec<&str> {
        let is_package = |text: &str| text.lines().any(|line| line.trim() == "[package]");
        let manifests = self.texts.iter().filter(|(_, text)| is_package(text));
        let mut folders: Vec<&str> =
            manifests.filter_map(|(path, _)| path.strip_suffix("Cargo.toml")).collect();
        folders.sort_by_key(|folder| std::cmp::Reverse(folder.len()));
        folders
    }

    fn empty() -> Tree {
        Tree { sources: Vec::new(), texts: BTreeMap::new(), entries: BTreeSet::new() }
    }

    fn read_folder(&mut self, root: &Path, below: &str) -> io::Result<()> {
        assert!(below.is_empty() || below.ends_with('/'));
        let mut names = Vec::new();
        for entry in fs::read_dir(root.join(below))? {
            let entry = entry?;
            names.push((entry.file_name().to_string_lossy().into_owned(), entry.file_type()?));
        }
        names.sort_by(|a, b| a.0.cmp(&b.0));
        for (name, kind) in names {
            let path = format!("{below}{name}");
            if kind.is_dir() && is_ours(&name) {
                self.entries.insert(format!("{path}/"));
                self.read_folder(root, &format!("{path}/"))?;
            } else if kind.is_file() {
                let text = if is_text(&path) {
                    fs::read_to_string(root.join(&path))?
                } else {
                    String::new()
                };
                self.add(&path, &text);
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &str, text: &str) {
        let new = self.entries.insert(path.to_string());
        assert!(new, "{path} is read once");
        if path.ends_with(".rs") {
            self.sources.push(Source::new(path, text));
        } else if is_text(path) {
            self.texts.insert(path.to_string(), text.to_string());
        }
    }

    /// A file that a test-only `mod name;` declares is test code, with all below it.
    fn spread_test_modules(&mut self) {
        let stems: Vec<String> =
            self.sources.iter().flat_map(|source| source.test_modules.clone()).collect();
        for source in &mut self.sources {
            let declared = stems.iter().any(|stem| {
                let rest = source.path.strip_prefix(stem.as_str());
                rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
            });
            if declared {
                source.set_test_file();
            }
        }
    }
}

fn is_ours(folder: &str) -> bool {
    let hidden = folder.starts_with('.') && folder != ".ci" && folder != ".cargo";
    !hidden && !NOT_OURS.contains(&folder)
}

fn is_text(path: &str) -> bool {
    path == ".ci/run" || [".rs", ".md", ".toml"].iter().any(|end| path.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::Tree;

    #[test]
    fn test_only_modules_reach_their_files() {
        let tree = Tree::of(&[
            ("a/Cargo.toml", "[package]"),
            ("a/src/lib.rs", "#[cfg(test)]\nmod suite;\nmod suites;"),
            ("a/src/suite.rs", "fn f() {}"),
            ("a/src/suite/deep.rs", "fn f() {}"),
            ("a/src/suites.rs", "fn f() {}"),
        ]);
        let tests: Vec<bool> = tree.sources.iter().map(|source| source.is_test_file()).collect();
        assert_eq!(tests, [false, true, true, false]);
        assert_eq!(tree.packages(), ["a/"]);
        assert!(tree.entries.contains("a/src/"));
    }
}
