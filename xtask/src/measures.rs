//! The figures that may only fall: how often code and documents do what we want to end.
//!
//! Each is a number with the places that make it up, where it has places. Numbers of the code are
//! of production. `ratchets` keeps them from rising. Documents are all `.md` files.

use crate::broken;
use crate::complaint::Complaints;
use crate::prose::{self, COLUMNS, DocComment, HEAD_LINES, PARAGRAPH_WORDS};
use crate::rules;
use crate::source::{Function, Source};
use crate::submodules;
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

const ENGINE: &str = "crates/engine/";

/// Arguments of a function, tuples taken apart.
const ARGUMENTS: usize = 5;

/// Types of the engine with one name.
const SAME_NAME: usize = 3;

/// One figure.
pub(crate) struct Measure {
    /// Its key in the file of ratchets.
    pub(crate) name: &'static str,
    /// What it counts.
    pub(crate) about: &'static str,
    /// Its number falls no further than this: below there is nothing to win.
    pub(crate) goal: usize,
    pub(crate) take: fn(&Tree) -> Measured,
}

/// A figure of one tree.
pub(crate) struct Measured {
    pub(crate) value: usize,
    /// Where to look; empty for a figure without places.
    pub(crate) places: Complaints,
}

/// All of them, in the order in which they are printed.
pub(crate) const MEASURES: [Measure; 19] = [
    Measure {
        name: "rules_cited_not_stated",
        about: "rules that code cites and docs/rules.md does not state",
        goal: 0,
        take: rules_not_stated,
    },
    Measure {
        name: "rules_stated_not_cited",
        about: "rules that docs/rules.md states and no code cites",
        goal: 0,
        take: |tree| Measured::places(rules_not_cited(tree)),
    },
    Measure {
        name: "document_paragraph_words_median",
        about: "words of a paragraph of documents, median",
        goal: 30,
        take: |tree| Measured::number(document_words(tree, 50)),
    },
    Measure {
        name: "document_paragraph_words_p90",
        about: "words of a paragraph of documents, 90th percentile",
        goal: 60,
        take: |tree| Measured::number(document_words(tree, 90)),
    },
    Measure {
        name: "document_paragraphs_over_80_words",
        about: "paragraphs of documents over 80 words",
        goal: 0,
        take: |tree| Measured::places(document_paragraphs(tree)),
    },
    Measure {
        name: "document_lines_over_100_columns",
        about: "lines of documents over 100 columns",
        goal: 0,
        take: |tree| Measured::places(document_lines(tree)),
    },
    Measure {
        name: "comment_paragraphs_over_80_words",
        about: "paragraphs of doc comments over 80 words, module heads too",
        goal: 0,
        take: |tree| Measured::places(comment_paragraphs(tree)),
    },
    Measure {
        name: "module_heads_over_25_lines",
        about: "module heads over 25 lines; a crate's front page is none",
        goal: 0,
        take: |tree| Measured::places(module_heads(tree)),
    },
    Measure {
        name: "tuple_parameters_engine",
        about: "functions of the engine with tuples among their parameters",
        goal: 0,
        take: |tree| Measured::places(functions(tree, tuple_parameters, is_engine)),
    },
    Measure {
        name: "tuple_parameters_elsewhere",
        about: "functions of other crates with tuples among their parameters",
        goal: 0,
        take: |tree| Measured::places(functions(tree, tuple_parameters, |path| !is_engine(path))),
    },
    Measure {
        name: "functions_over_5_arguments_flattened",
        about: "functions over 5 arguments; a tuple counts its parts",
        goal: 0,
        take: |tree| Measured::places(functions(tree, many_arguments, |_| true)),
    },
    Measure {
        name: "functions_returning_bare_tuples",
        about: "functions that return a tuple of three and more",
        goal: 0,
        take: |tree| Measured::places(functions(tree, bare_tuple, |_| true)),
    },
    Measure {
        name: "imports_against_layers_inside",
        about: "imports that do not go down between submodules with layers",
        goal: 0,
        take: |tree| Measured::places(submodules::against_layers(tree)),
    },
    Measure {
        name: "mutual_imports_engine",
        about: "pairs of submodules of the engine that import each other",
        goal: 0,
        take: |tree| Measured::places(submodules::mutual_imports(tree, is_engine)),
    },
    Measure {
        name: "mutual_imports_elsewhere",
        about: "pairs of submodules of other crates that import each other",
        goal: 0,
        take: |tree| Measured::places(submodules::mutual_imports(tree, |path| !is_engine(path))),
    },
    Measure {
        name: "public_modules_engine",
        about: "`pub mod` in crates/engine/src/lib.rs",
        goal: 0,
        take: |tree| Measured::places(public_modules(tree)),
    },
    Measure {
        name: "type_names_over_3_engine",
        about: "names that more than three types of the engine bear",
        goal: 5,
        take: |tree| Measured::places(type_names(tree)),
    },
    Measure {
        name: "internal_names_in_user_documents",
        about: "internal types and source paths in documents for users",
        goal: 0,
        take: |tree| Measured::places(crate::user_documents::internal_names(tree)),
    },
    Measure {
        name: "engine_code_lines",
        about: "code lines of the engine without tests",
        goal: 40_000,
        take: |tree| Measured::number(engine_code_lines(tree)),
    },
];

impl Measured {
    fn places(places: Complaints) -> Measured {
        Measured { value: places.0.len(), places }
    }

    fn number(value: usize) -> Measured {
        Measured { value, places: Complaints::default() }
    }
}

/// Counts rules, and lists every place that cites one.
fn rules_not_stated(tree: &Tree) -> Measured {
    let document = tree.texts.get(rules::DOCUMENT).map_or("", String::as_str);
    let stated: BTreeSet<u32> = rules::stated(document).into_iter().map(|(_, rule)| rule).collect();
    let mut missing = BTreeSet::new();
    let mut places = Complaints::default();
    for source in rules::citing(tree) {
        let cited = rules::citations(source).into_iter();
        for citation in cited.filter(|citation| !stated.contains(&citation.rule)) {
            missing.insert(citation.rule);
            let text = format!("R{} is not stated in {}", citation.rule, rules::DOCUMENT);
            places.add(&source.path, citation.line, text);
        }
    }
    Measured { value: missing.len(), places }
}

/// The enum of broken variants cites every rule, and keeps none.
fn rules_not_cited(tree: &Tree) -> Complaints {
    let keeping = rules::citing(tree).filter(|source| source.path != broken::ENUM_FILE);
    let cited: BTreeSet<u32> =
        keeping.flat_map(rules::citations).map(|citation| citation.rule).collect();
    let document = tree.texts.get(rules::DOCUMENT).map_or("", String::as_str);
    let mut found = Complaints::default();
    for (line, rule) in rules::stated(document) {
        if !cited.contains(&rule) {
            found.add(rules::DOCUMENT, line, format!("no code cites R{rule}"));
        }
    }
    found
}

fn documents(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    let all = tree.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()));
    all.filter(|(path, _)| path.ends_with(".md"))
}

/// The number of words that this percentage of the paragraphs does not exceed.
fn document_words(tree: &Tree, percent: usize) -> usize {
    let mut words: Vec<usize> = documents(tree)
        .flat_map(|(_, text)| prose::paragraphs(text))
        .map(|paragraph| paragraph.words)
        .collect();
    words.sort_unstable();
    let place = words.len() * percent / 100;
    words.get(place.min(words.len().saturating_sub(1))).copied().unwrap_or(0)
}

fn document_paragraphs(tree: &Tree) -> Complaints {
    let mut found = Complaints::default();
    for (path, text) in documents(tree) {
        long_paragraphs(path, 1, text, &mut found);
    }
    found
}

fn document_lines(tree: &Tree) -> Complaints {
    let mut found = Complaints::default();
    for (path, text) in documents(tree) {
        for (line, width) in prose::wide_lines(text) {
            found.add(path, line, format!("{width} columns, over {COLUMNS}"));
        }
    }
    found
}

fn comment_paragraphs(tree: &Tree) -> Complaints {
    let mut found = Complaints::default();
    for source in &tree.sources {
        for DocComment { line, text, .. } in prose::doc_comments(source) {
            long_paragraphs(&source.path, line, &text, &mut found);
        }
    }
    found
}

/// The head of a `lib.rs` is the front page of a crate, not a module head.
fn is_crate_head(source: &Source) -> bool {
    source.path.ends_with("src/lib.rs")
}

/// Names the paragraphs over the limit in a text whose first line is `first` of its file.
fn long_paragraphs(path: &str, first: usize, text: &str, found: &mut Complaints) {
    let paragraphs = prose::paragraphs(text).into_iter();
    for paragraph in paragraphs.filter(|paragraph| paragraph.words > PARAGRAPH_WORDS) {
        let text = format!("a paragraph of {} words, over {PARAGRAPH_WORDS}", paragraph.words);
        found.add(path, first + paragraph.line - 1, text);
    }
}

fn module_heads(tree: &Tree) -> Complaints {
    let mut found = Complaints::default();
    for source in tree.sources.iter().filter(|source| !is_crate_head(source)) {
        let heads = prose::doc_comments(source).into_iter().filter(|comment| comment.is_head);
        for head in heads.filter(|head| head.lines > HEAD_LINES) {
            let text = format!("a module head of {} lines, over {HEAD_LINES}", head.lines);
            found.add(&source.path, head.line, text);
        }
    }
    found
}

/// The production functions of the wanted files about which there is something to say.
fn functions(
    tree: &Tree,
    verdict: fn(&Function) -> Option<String>,
    wanted: fn(&str) -> bool,
) -> Complaints {
    let mut found = Complaints::default();
    for source in tree.sources.iter().filter(|source| wanted(&source.path)) {
        for function in production(source, &source.functions, |function| function.line) {
            if let Some(text) = verdict(function) {
                found.add(&source.path, function.line, format!("`{}` {text}", function.name));
            }
        }
    }
    found
}

fn tuple_parameters(function: &Function) -> Option<String> {
    let tuples = function.signature.tuple_parameters;
    (tuples > 0).then(|| format!("has {tuples} tuple parameters"))
}

fn many_arguments(function: &Function) -> Option<String> {
    let arguments = function.signature.flattened;
    (arguments > ARGUMENTS).then(|| format!("has {arguments} arguments, over {ARGUMENTS}"))
}

fn bare_tuple(function: &Function) -> Option<String> {
    let parts = function.signature.returned_parts;
    (parts > 2).then(|| format!("returns a tuple of {parts}"))
}

fn public_modules(tree: &Tree) -> Complaints {
    let mut found = Complaints::default();
    let lib = tree.sources.iter().find(|source| source.path == "crates/engine/src/lib.rs");
    for three in lib.iter().flat_map(|source| source.tokens.windows(3)) {
        if three[0].text == "pub" && three[1].text == "mod" {
            let text = format!("`{}` is a public module", three[2].text);
            found.add("crates/engine/src/lib.rs", three[0].line, text);
        }
    }
    found
}

fn type_names(tree: &Tree) -> Complaints {
    let mut bearers: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for source in tree.sources.iter().filter(|source| is_engine(&source.path)) {
        for it in production(source, &source.types, |it| it.line) {
            bearers.entry(&it.name).or_default().push((&source.path, it.line));
        }
    }
    let mut found = Complaints::default();
    for (name, places) in bearers.iter().filter(|(_, places)| places.len() > SAME_NAME) {
        let paths: Vec<&str> = places.iter().map(|(path, _)| *path).collect();
        let text = format!("`{name}` is the name of {} types: {}", places.len(), paths.join(", "));
        found.add(places[0].0, places[0].1, text);
    }
    found
}

fn engine_code_lines(tree: &Tree) -> usize {
    let engine = tree.sources.iter().filter(|source| is_engine(&source.path));
    let lines = |source: &Source| source.code_lines().filter(|l| !source.is_test_line(*l)).count();
    engine.map(lines).sum()
}

fn is_engine(path: &str) -> bool {
    path.starts_with(ENGINE)
}

/// The items of a file that are not test code.
fn production<'a, T>(
    source: &'a Source,
    items: &'a [T],
    line: fn(&T) -> usize,
) -> impl Iterator<Item = &'a T> {
    items.iter().filter(move |item| !source.is_test_line(line(item)))
}

#[cfg(test)]
mod tests {
    use super::MEASURES;
    use crate::broken;
    use crate::tree::Tree;

    fn value(name: &str, files: &[(&str, &str)]) -> (usize, usize) {
        let measure = MEASURES.iter().find(|measure| measure.name == name).expect("a measure");
        let measured = (measure.take)(&Tree::of(files));
        (measured.value, measured.places.0.len())
    }

    const ENGINE: &str = "crates/engine/src/x.rs";

    #[test]
    fn rules_are_counted_and_their_places_listed() {
        let code = (ENGINE, "// R1, R2, R3\n// R3");
        let tool = ("xtask/src/x.rs", "// R9");
        assert_eq!(value("rules_cited_not_stated", &[code, tool]), (3, 4));
        let document = ("docs/rules.md", "## R1\n## R3\n");
        assert_eq!(value("rules_cited_not_stated", &[code, document]), (1, 1));
        assert_eq!(value("rules_stated_not_cited", &[code, document]), (0, 0));
        let names = (broken::ENUM_FILE, "// R1");
        assert_eq!(value("rules_stated_not_cited", &[names, tool, document]), (2, 2));
    }

    #[test]
    fn documents_are_measured_by_paragraph_and_line() {
        let text = format!("one two\n\n{}\n\nthree\n", "word\n".repeat(81));
        let files = [("README.md", text.as_str()), ("a.toml", "# one two three")];
        assert_eq!(value("document_paragraph_words_median", &files), (2, 0));
        assert_eq!(value("document_paragraph_words_p90", &files), (81, 0));
        assert_eq!(value("document_paragraphs_over_80_words", &files), (1, 1));
        assert_eq!(value("document_lines_over_100_columns", &files), (0, 0));
        let wide = ("docs/a.md", &*"word ".repeat(21));
        assert_eq!(value("document_lines_over_100_columns", &[wide]), (1, 1));
    }

    #[test]
    fn comments_are_measured_as_documents_are() {
        let head = format!("{}\nfn f() {{}}\n", "//! word\n".repeat(26));
        let comment = format!("//! Head.\n\n{}fn f() {{}}\n", "/// one two three\n".repeat(27));
        let files = [("a/src/a.rs", &*head), ("a/src/b.rs", &*comment), ("a/src/lib.rs", &*head)];
        assert_eq!(value("module_heads_over_25_lines", &files), (1, 1));
        assert_eq!(value("comment_paragraphs_over_80_words", &files), (1, 1));
    }

    #[test]
    fn functions_are_measured_in_production() {
        let text = "fn a((b, c): (u8, u8), d: u8, e: u8, f: u8) -> u8 { 0 }\n\
            fn g(a: u8, b: u8, c: u8, d: u8, (e, f): (u8, u8)) -> (u8, u8, u8) { h() }\n\
            #[test]\nfn t(a: (u8, u8)) {}\n";
        let files = [(ENGINE, text), ("crates/sql/src/x.rs", "fn f(a: &(u8, u8)) -> (u8, u8) {}")];
        assert_eq!(value("tuple_parameters_engine", &files), (2, 2));
        assert_eq!(value("tuple_parameters_elsewhere", &files), (1, 1));
        assert_eq!(value("functions_over_5_arguments_flattened", &files), (1, 1));
        assert_eq!(value("functions_returning_bare_tuples", &files), (1, 1));
        assert_eq!(value("engine_code_lines", &files), (2, 0));
    }

    #[test]
    fn names_and_public_modules_of_the_engine_are_counted() {
        let types = "struct State;\nmod a { enum State {} }\nfn f() { struct State; }\n";
        let more = "union State { a: u8 }\ntype Other = u8;\n#[cfg(test)]\nstruct Other;\n";
        let files = [(ENGINE, types), ("crates/engine/src/y.rs", more)];
        assert_eq!(value("type_names_over_3_engine", &files), (1, 1));
        assert_eq!(value("type_names_over_3_engine", &files[..1]), (0, 0));
        let lib = "pub mod a;\nmod b;\npub(crate) mod c;\n#[doc(hidden)]\npub mod d { }\n";
        let files = [("crates/engine/src/lib.rs", lib), (ENGINE, "pub mod e;")];
        assert_eq!(value("public_modules_engine", &files), (2, 2));
    }
}
