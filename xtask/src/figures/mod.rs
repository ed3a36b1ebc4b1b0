//! The figures of a tree: sizes, density of documents and assertions, imports that form a ring.
//!
//! Production is what `source` calls so. A code line is one that is not blank once comments and
//! literals are gone. A function counts from `fn` to its closing brace, its arguments without
//! `self`.
//!
//! A public item is `pub` without restriction. An unsafe site is an unsafe block or impl;
//! it is reasoned if a comment at it says safety. The knot is the largest set of top modules that
//! reach each other by imports. These are the definitions of the stored reference rows too, so
//! rows can be compared; `table` prints them.

pub(crate) mod table;

use crate::paths::production_paths;
use crate::source::Source;
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// The figures of one package or tree.
#[derive(Default)]
pub(crate) struct Figures {
    pub(crate) name: String,
    /// Code lines of each production file.
    pub(crate) files: Vec<usize>,
    /// Files with a `//!` head, within eight lines: some trees put a licence first.
    pub(crate) heads: usize,
    /// Length of each function.
    pub(crate) lengths: Vec<usize>,
    /// Arguments of each function.
    pub(crate) arguments: Vec<usize>,
    pub(crate) publics: usize,
    pub(crate) documented: usize,
    pub(crate) unsafe_sites: usize,
    pub(crate) reasoned: usize,
    pub(crate) asserts: usize,
    pub(crate) unwraps: usize,
    pub(crate) expects: usize,
    pub(crate) comment_lines: usize,
    pub(crate) test_lines: usize,
    /// Members of the largest import ring, and top modules.
    pub(crate) knot: (usize, usize),
}

/// Which modules each top module imports.
type Edges = BTreeMap<String, BTreeSet<String>>;

impl Figures {
    /// Production code lines.
    pub(crate) fn code_lines(&self) -> usize {
        self.files.iter().sum()
    }

    /// How many of these there are in a thousand code lines.
    pub(crate) fn per_kloc(&self, count: usize) -> f64 {
        ratio(1000 * count, self.code_lines())
    }

    fn add(&mut self, source: &Source) {
        let test = |line: &usize| source.is_test_line(*line);
        self.test_lines += source.code_lines().filter(test).count();
        if source.is_test_file() {
            return;
        }
        self.files.push(source.code_lines().filter(|line| !test(line)).count());
        let is_head = |line: &str| line.starts_with("//!") || line.starts_with("/*!");
        self.heads += usize::from(source.text.lines().take(8).any(is_head));
        self.comment_lines += source.comment_lines().filter(|line| !test(line)).count();
        for function in source.functions.iter().filter(|function| !test(&function.line)) {
            self.lengths.push(function.length());
            self.arguments.push(function.arguments);
        }
        for item in source.publics.iter().filter(|item| !test(&item.line)) {
            self.publics += 1;
            self.documented += usize::from(item.documented);
        }
        self.add_tokens(source);
    }

    fn add_tokens(&mut self, source: &Source) {
        for (i, token) in source.tokens.iter().enumerate() {
            if source.is_test_line(token.line) {
                continue;
            }
            let near = |place: Option<usize>| place.and_then(|i| source.tokens.get(i));
            let text = |place| near(place).map_or("", |token| token.text.as_str());
            match (text(i.checked_sub(1)), token.text.as_str(), text(Some(i + 1))) {
                (_, "unsafe", "{" | "impl") => {
                    self.unsafe_sites += 1;
                    self.reasoned += usize::from(source.has_safety_reason(token.line));
                }
                (".", "unwrap", "(") => self.unwraps += 1,
                (".", "expect", "(") => self.expects += 1,
                (_, word, "!") => self.asserts += usize::from(is_assert(word)),
                _ => {}
            }
        }
    }

    /// Takes in another row, for the row of the whole.
    fn merge(&mut self, other: &Figures) {
        self.files.extend(&other.files);
        self.lengths.extend(&other.lengths);
        self.arguments.extend(&other.arguments);
        self.heads += other.heads;
        self.publics += other.publics;
        self.documented += other.documented;
        self.unsafe_sites += other.unsafe_sites;
        self.reasoned += other.reasoned;
        self.asserts += other.asserts;
        self.unwraps += other.unwraps;
        self.expects += other.expects;
        self.comment_lines += other.comment_lines;
        self.test_lines += other.test_lines;
        self.knot = self.knot.max(other.knot);
    }
}

/// One row per package, then the whole if there are several.
pub(crate) fn figures(tree: &Tree, name: &str) -> Vec<Figures> {
    let packages = tree.packages();
    let package_of = |path: &str| packages.iter().find(|folder| path.starts_with(**folder));
    let mut groups: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in &tree.sources {
        let folder = package_of(&source.path).copied().unwrap_or("");
        groups.entry(folder).or_default().push(source);
    }
    let mut rows: Vec<Figures> = groups.iter().map(|(folder, group)| row(folder, group)).collect();
    let mut whole = Figures { name: name.to_string(), ..Figures::default() };
    rows.iter().for_each(|row| whole.merge(row));
    rows.retain(|row| !row.files.is_empty());
    if rows.len() == 1 {
        rows.clear();
    }
    assert!(rows.iter().all(|row| row.code_lines() <= whole.code_lines()));
    rows.push(whole);
    rows
}

fn row(folder: &str, sources: &[&Source]) -> Figures {
    let name = folder.trim_end_matches('/').rsplit('/').next().unwrap_or(folder);
    let mut row = Figures { name: name.to_string(), ..Figures::default() };
    sources.iter().for_each(|source| row.add(source));
    let edges = edges(sources);
    row.knot = (largest_ring(&edges), edges.len());
    assert!(row.knot.0 != 1 && row.knot.0 <= row.knot.1, "a ring has two members and more");
    assert!(row.documented <= row.publics && row.reasoned <= row.unsafe_sites);
    assert_eq!(row.lengths.len(), row.arguments.len());
    row
}

fn is_assert(macro_name: &str) -> bool {
    let word = macro_name.trim_start_matches("debug_");
    word == "assert" || word.starts_with("assert_")
}

/// The imports between the top modules of one package.
fn edges(sources: &[&Source]) -> Edges {
    let mut edges = Edges::new();
    for source in sources.iter().filter(|source| !source.is_test_file()) {
        let Some(module) = source.module() else { continue };
        let from = source.top_module().unwrap_or("lib");
        let targets = edges.entry(from.to_string()).or_default();
        let named = production_paths(source);
        targets.extend(named.iter().filter_map(|path| path.top_module(&module)).map(String::from));
    }
    edges
}

/// Size of the largest set of nodes that all reach each other; 0 without any ring.
pub(crate) fn largest_ring(edges: &Edges) -> usize {
    let mut reach = edges.clone(); // grows to what each node reaches in any number of steps
    for _ in 0..edges.len() {
        for node in edges.keys() {
            let further: BTreeSet<String> =
                reach[node].iter().filter_map(|next| reach.get(next)).flatten().cloned().collect();
            reach.get_mut(node).expect("it has the keys of edges").extend(further);
        }
    }
    let ring = |a: &String| {
        let both = |b: &&String| *b != a && reach[a].contains(*b) && reach[*b].contains(a);
        let others = edges.keys().filter(both).count();
        if others == 0 { 0 } else { others + 1 }
    };
    edges.keys().map(ring).max().unwrap_or(0)
}

/// `part / whole`, and 0 if there is nothing.
pub(crate) fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::{figures, largest_ring};
    use crate::tree::Tree;

    const LIB: &str = "//! Head.\nmod a;\nmod b;\n\n/// Doc.\npub fn one(x: u8) -> u8 {\n    \
        assert!(x > 0);\n    // SAFETY: none.\n    unsafe { two(x).unwrap() }\n}\n\
        #[cfg(test)]\nmod tests {\n    fn three() { four().unwrap(); }\n}\n";

    fn tree() -> Tree {
        Tree::of(&[
            ("p/Cargo.toml", "[package]"),
            ("p/src/lib.rs", LIB),
            ("p/src/a.rs", "use crate::b::B;\n#[expect(dead_code)]\npub struct A;"),
            ("p/src/b.rs", "use super::a::A;\nunsafe impl Send for B {}"),
            ("p/tests/t.rs", "fn t() {\n    assert!(true);\n}"),
        ])
    }

    #[test]
    fn every_figure_counts_what_it_says() {
        let rows = figures(&tree(), "whole");
        let row = &rows[0];
        assert_eq!((rows.len(), row.name.as_str()), (1, "whole"));
        let mut files = row.files.clone();
        files.sort_unstable();
        assert_eq!((files.as_slice(), row.heads), ([2, 3, 6].as_slice(), 1));
        assert_eq!(
            (row.lengths.as_slice(), row.arguments.as_slice()),
            ([5].as_slice(), [1].as_slice())
        );
        assert_eq!((row.publics, row.documented), (2, 1));
        assert_eq!((row.unsafe_sites, row.reasoned), (2, 1));
        assert_eq!((row.asserts, row.unwraps, row.expects), (1, 1, 0));
        assert_eq!((row.comment_lines, row.test_lines), (3, 7));
        assert_eq!(row.knot, (2, 3));
    }

    #[test]
    fn a_ring_is_found_through_others_but_a_chain_is_none() {
        let edges = |pairs: &[(&str, &str)]| {
            let mut edges = super::Edges::new();
            for (from, to) in pairs {
                edges.entry((*from).into()).or_default().insert((*to).into());
                edges.entry((*to).into()).or_default();
            }
            edges
        };
        assert_eq!(largest_ring(&edges(&[("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")])), 0);
        assert_eq!(largest_ring(&edges(&[("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")])), 3);
        assert_eq!(largest_ring(&edges(&[("a", "a")])), 0);
    }

    #[test]
    fn packages_have_rows_of_their_own() {
        let files = [("p/Cargo.toml", "[package]"), ("p/src/lib.rs", LIB)];
        let more = [("q/Cargo.toml", "[package]"), ("q/src/lib.rs", LIB)];
        let rows = figures(&Tree::of(&[files, more].concat()), "whole");
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["p", "q", "whole"]);
        assert_eq!(rows[2].code_lines(), rows[0].code_lines() + rows[1].code_lines());
    }
}
