//! One Rust file, taken apart once for all checks and figures.
//!
//! Lines count from 1. A line is test code if its file is (by path, or because a test-only `mod`
//! declares it), or if it lies inside an item under `#[test]` or under a `#[cfg(..)]` that only
//! holds in tests. All else is production. Items inside macro calls are seen as tokens only.

use crate::lexer::{self, Mask};
use crate::signatures::Signature;
use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use std::iter::Peekable;
use syn::visit::{self, Visit};

type Trees = proc_macro2::token_stream::IntoIter;

/// One file and what is known of it.
pub(crate) struct Source {
    /// Path from the root of the tree, with slashes.
    pub(crate) path: String,
    /// The file as it is.
    pub(crate) text: String,
    /// Code and comments, apart.
    pub(crate) mask: Mask,
    /// All tokens, groups flattened.
    pub(crate) tokens: Vec<Token>,
    /// Every function that has a body.
    pub(crate) functions: Vec<Function>,
    /// Every struct, enum and union.
    pub(crate) types: Vec<TypeName>,
    /// Every item that is `pub` without restriction.
    pub(crate) publics: Vec<Public>,
    /// Files below these path stems are test code, by a test-only `mod name;` in this file.
    pub(crate) test_modules: Vec<String>,
    /// What the parser said, if the file is not Rust.
    pub(crate) parse_error: Option<String>,
    test_lines: Vec<bool>,
}

/// One token. `::` is a single token, every other punctuation one per character.
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
    /// In how many inline modules it stands.
    pub(crate) inline_modules: usize,
}

/// A function with a body.
pub(crate) struct Function {
    pub(crate) name: String,
    /// The line of `fn`.
    pub(crate) line: usize,
    /// The line of the closing brace.
    pub(crate) last_line: usize,
    /// The line of the opening brace.
    pub(crate) body_line: usize,
    /// Arguments without `self`.
    pub(crate) arguments: usize,
    /// Its tuples.
    pub(crate) signature: Signature,
    /// It says with a reason that it knows to be long.
    pub(crate) expects_length: bool,
}

/// The name that a struct, an enum or a union gets where it is declared.
pub(crate) struct TypeName {
    pub(crate) name: String,
    pub(crate) line: usize,
}

/// A public item.
pub(crate) struct Public {
    pub(crate) line: usize,
    pub(crate) documented: bool,
}

impl Function {
    /// Lines from `fn` to the closing brace, both included.
    pub(crate) fn length(&self) -> usize {
        assert!(self.line <= self.last_line);
        self.last_line - self.line + 1
    }
}

impl Source {
    /// Takes `text` apart. A file that does not parse keeps its lines and says so.
    pub(crate) fn new(path: &str, text: &str) -> Source {
        assert!(!path.starts_with('/') && !path.contains('\\'), "paths are relative");
        let mut source = Source {
            path: path.to_string(),
            text: text.to_string(),
            mask: lexer::mask(text),
            tokens: Vec::new(),
            functions: Vec::new(),
            types: Vec::new(),
            publics: Vec::new(),
            test_modules: Vec::new(),
            parse_error: None,
            test_lines: vec![is_test_path(path); text.lines().count() + 1],
        };
        match syn::parse_file(text) {
            Ok(file) => source.visit_file(&file),
            Err(error) => source.parse_error = Some(error.to_string()),
        }
        if let Ok(stream) = text.parse::<TokenStream>() {
            source.find_tests(stream.clone());
            flatten(stream, 0, &mut source.tokens);
        }
        source
    }

    /// Does test code stand on this line?
    pub(crate) fn is_test_line(&self, line: usize) -> bool {
        assert!(line > 0, "lines count from 1");
        self.test_lines.get(line - 1).copied().unwrap_or(false)
    }

    /// Is the whole file test code?
    pub(crate) fn is_test_file(&self) -> bool {
        self.test_lines.iter().all(|test| *test)
    }

    /// Declares the whole file test code.
    pub(crate) fn set_test_file(&mut self) {
        self.test_lines.fill(true);
    }

    /// The numbers of the lines that hold code.
    pub(crate) fn code_lines(&self) -> impl Iterator<Item = usize> {
        filled_lines(&self.mask.code)
    }

    /// The numbers of the lines that hold a comment.
    pub(crate) fn comment_lines(&self) -> impl Iterator<Item = usize> {
        filled_lines(&self.mask.comments)
    }

    /// The module path of the file below its `src`, empty for `lib.rs` and `main.rs`; `None` for
    /// a file outside of any `src`.
    pub(crate) fn module(&self) -> Option<Vec<&str>> {
        let below = match self.path.strip_prefix("src/") {
            Some(below) => below,
            None => self.path.split_once("/src/")?.1,
        };
        let mut parts: Vec<&str> = below.strip_suffix(".rs")?.split('/').collect();
        if matches!(parts.last(), Some(&"lib" | &"main" | &"mod")) {
            parts.pop();
        }
        Some(parts)
    }

    /// The top module the file belongs to; `lib` for the crate's root file.
    pub(crate) fn top_module(&self) -> Option<&str> {
        Some(self.module()?.first().copied().unwrap_or("lib"))
    }

    /// Is there a comment that gives the reason for the `unsafe` on this line: in the run of
    /// comments and attributes right above, on the line itself or on the next?
    pub(crate) fn has_safety_reason(&self, line: usize) -> bool {
        let comments: Vec<&str> = self.mask.comments.lines().collect();
        let code: Vec<&str> = self.mask.code.lines().collect();
        let reasoned =
            |i: usize| comments.get(i).is_some_and(|text| text.to_lowercase().contains("safety"));
        let passable = |i: usize| {
            let code = code[i].trim();
            let attribute = code.starts_with('#') || code.ends_with(']');
            attribute || (code.is_empty() && !comments[i].trim().is_empty())
        };
        assert!(line > 0, "lines count from 1");
        assert_eq!(code.len(), comments.len());
        let above = (0..line - 1).rev().take_while(|i| passable(*i)).any(reasoned);
        above || reasoned(line - 1) || reasoned(line)
    }

    /// Marks the lines of test-only items and remembers test-only `mod name;`.
    fn find_tests(&mut self, stream: TokenStream) {
        let mut trees = stream.into_iter().peekable();
        while let Some(tree) = trees.next() {
            match &tree {
                TokenTree::Punct(hash) if hash.as_char() == '#' => {
                    let first = tree.span().start().line;
                    if take_inner_attribute(&mut trees) {
                        self.set_test_file();
                    } else if take_attribute(&mut trees) {
                        let last = self.take_test_item(&mut trees).unwrap_or(first);
                        let past = last.min(self.test_lines.len());
                        self.test_lines[first - 1..past].fill(true);
                    }
                }
                TokenTree::Group(group) => self.find_tests(group.stream()),
                _ => {}
            }
        }
    }

    /// Consumes the item after a test attribute and gives its last line.
    fn take_test_item(&mut self, trees: &mut Peekable<Trees>) -> Option<usize> {
        let mut words = Vec::new();
        for tree in trees.by_ref() {
            let last = tree.span().end().line;
            match &tree {
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                    return Some(last);
                }
                TokenTree::Punct(end) if end.as_char() == ';' => {
                    if let [.., keyword, name] = words.as_slice()
                        && keyword == "mod"
                    {
                        self.test_modules.push(format!("{}{name}", self.child_stem()));
                    }
                    return Some(last);
                }
                _ => words.push(tree.to_string()),
            }
        }
        None
    }

    /// The folder in which the modules that this file declares lie, with its slash.
    fn child_stem(&self) -> String {
        let (folder, name) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        match name {
            "lib.rs" | "main.rs" | "mod.rs" => format!("{folder}/"),
            _ => format!("{}/", self.path.trim_end_matches(".rs")),
        }
    }

    fn add_function(&mut self, attrs: &[syn::Attribute], sig: &syn::Signature, body: &syn::Block) {
        let expects_length = attrs.iter().any(|attr| {
            let text = quiet_text(attr);
            attr.path().is_ident("expect")
                && text.contains("clippy::too_many_lines")
                && text.contains("reason=")
        });
        let is_argument = |input: &&syn::FnArg| matches!(input, syn::FnArg::Typed(_));
        assert!(sig.fn_token.span.start().line > 0, "spans have locations");
        self.functions.push(Function {
            name: sig.ident.to_string(),
            line: sig.fn_token.span.start().line,
            last_line: body.brace_token.span.close().end().line,
            body_line: body.brace_token.span.open().start().line,
            arguments: sig.inputs.iter().filter(is_argument).count(),
            signature: Signature::new(sig),
            expects_length,
        });
    }

    fn add_type(&mut self, ident: &syn::Ident) {
        let (name, line) = (ident.to_string(), ident.span().start().line);
        self.types.push(TypeName { name, line });
    }

    fn add_public(&mut self, vis: &syn::Visibility, attrs: &[syn::Attribute]) {
        if let syn::Visibility::Public(word) = vis {
            let documented = attrs.iter().any(|attr| attr.path().is_ident("doc"));
            self.publics.push(Public { line: word.span.start().line, documented });
        }
    }
}

impl<'ast> Visit<'ast> for Source {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add_function(&item.attrs, &item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add_public(&item.vis, &item.attrs);
        self.add_function(&item.attrs, &item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.add_function(&item.attrs, &item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.add_public(&item.vis, &item.attrs);
        visit::visit_impl_item_const(self, item);
    }

    fn visit_item(&mut self, item: &'ast syn::Item) {
        match item {
            syn::Item::Fn(it) => self.add_public(&it.vis, &it.attrs),
            syn::Item::Struct(it) => self.add_public(&it.vis, &it.attrs),
            syn::Item::Enum(it) => self.add_public(&it.vis, &it.attrs),
            syn::Item::Trait(it) => self.add_public(&it.vis, &it.attrs),
            syn::Item::Type(it) => self.add_public(&it.vis, &it.attrs),
            syn::Item::Const(it) => self.add_public(&it.vis, &it.attrs),
            syn::Item::Static(it) => self.add_public(&it.vis, &it.attrs),
            _ => {}
        }
        match item {
            syn::Item::Struct(it) => self.add_type(&it.ident),
            syn::Item::Enum(it) => self.add_type(&it.ident),
            syn::Item::Union(it) => self.add_type(&it.ident),
            _ => {}
        }
        visit::visit_item(self, item);
    }
}

fn filled_lines(text: &str) -> impl Iterator<Item = usize> {
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(|(i, _)| i + 1)
}

/// Is the file test code by its place or name?
fn is_test_path(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let folders = &path[..path.len() - name.len()];
    let stem = name.trim_end_matches(".rs");
    folders.split('/').any(|f| matches!(f, "tests" | "benches" | "fuzz" | "examples"))
        || matches!(stem, "tests" | "test")
        || stem.ends_with("_tests")
        || stem.ends_with("_test")
}

/// The text of an attribute without blanks.
fn quiet_text(attr: &syn::Attribute) -> String {
    let syn::Meta::List(list) = &attr.meta else { return String::new() };
    list.tokens.to_string().split_whitespace().collect()
}

/// Consumes `![cfg(..)]` after a `#`; true if it makes the whole file test code.
fn take_inner_attribute(trees: &mut Peekable<Trees>) -> bool {
    match trees.peek() {
        Some(TokenTree::Punct(bang)) if bang.as_char() == '!' => trees.next(),
        _ => return false,
    };
    take_attribute(trees)
}

/// Consumes `[..]` after a `#`; true if it marks a test-only item.
fn take_attribute(trees: &mut Peekable<Trees>) -> bool {
    let Some(TokenTree::Group(group)) = trees.peek() else { return false };
    let inside: Vec<TokenTree> = group.stream().into_iter().collect();
    trees.next();
    match inside.as_slice() {
        [TokenTree::Ident(cfg), TokenTree::Group(condition)] if *cfg == "cfg" => {
            only_in_tests(condition.stream())
        }
        [.., TokenTree::Ident(last)] => *last == "test",
        _ => false,
    }
}

/// Can this `cfg` condition hold in test and fuzz builds only?
fn only_in_tests(condition: TokenStream) -> bool {
    let trees: Vec<TokenTree> = condition.into_iter().collect();
    match trees.as_slice() {
        [TokenTree::Ident(name)] => *name == "test" || *name == "fuzzing",
        [TokenTree::Ident(all), TokenTree::Group(parts)] if *all == "all" => {
            split_at_commas(parts.stream()).into_iter().any(only_in_tests)
        }
        [TokenTree::Ident(any), TokenTree::Group(parts)] if *any == "any" => {
            split_at_commas(parts.stream()).into_iter().all(only_in_tests)
        }
        _ => false,
    }
}

fn split_at_commas(stream: TokenStream) -> Vec<TokenStream> {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let is_comma = |tree: &TokenTree| matches!(tree, TokenTree::Punct(p) if p.as_char() == ',');
    let parts = trees.split(is_comma).filter(|part| !part.is_empty());
    parts.map(|part| part.iter().cloned().collect()).collect()
}

fn flatten(stream: TokenStream, inline_modules: usize, out: &mut Vec<Token>) {
    let mut trees = stream.into_iter().peekable();
    let add = |out: &mut Vec<Token>, text: &str, line| {
        out.push(Token { text: text.to_string(), line, inline_modules });
    };
    while let Some(tree) = trees.next() {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = brackets(group.delimiter());
                let module = open == "{" && out.len() > 1 && out[out.len() - 2].text == "mod";
                add(out, open, line);
                flatten(group.stream(), inline_modules + usize::from(module), out);
                add(out, close, group.span_close().end().line);
            }
            TokenTree::Punct(p) if p.as_char() == ':' && p.spacing() == Spacing::Joint => {
                let pair = matches!(trees.peek(), Some(TokenTree::Punct(q)) if q.as_char() == ':');
                add(out, if pair { "::" } else { ":" }, line);
                pair.then(|| trees.next());
            }
            other => add(out, &other.to_string(), line),
        }
    }
}

fn brackets(delimiter: Delimiter) -> (&'static str, &'static str) {
    match delimiter {
        Delimiter::Brace => ("{", "}"),
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::None => ("", ""),
    }
}

#[cfg(test)]
mod tests {
    use super::Source;

    const SAMPLE: &str = "//! Head.\n\
        /// Doc.\npub fn one(a: u8, b: u8) -> u8 {\n    a + b\n}\n\
        #[cfg(not(test))]\npub(crate) struct Two;\n\
        #[cfg(all(test, loom))]\nmod models;\n\
        #[cfg(test)]\nmod tests {\n    #[test]\n    fn three() {}\n}\n";

    #[test]
    fn items_are_found_with_their_lines() {
        let source = Source::new("crates/a/src/x.rs", SAMPLE);
        let one = &source.functions[0];
        assert_eq!((one.name.as_str(), one.line, one.length(), one.arguments), ("one", 3, 3, 2));
        assert_eq!(source.publics.len(), 1);
        let types: Vec<_> = source.types.iter().map(|it| (it.name.as_str(), it.line)).collect();
        assert_eq!(types, [("Two", 7)]);
        assert!(source.publics[0].documented);
        assert_eq!(source.code_lines().count(), 12);
    }

    #[test]
    fn test_code_is_told_from_production() {
        let source = Source::new("crates/a/src/x.rs", SAMPLE);
        let tests: Vec<usize> = (1..=14).filter(|line| source.is_test_line(*line)).collect();
        assert_eq!(tests, [8, 9, 10, 11, 12, 13, 14]);
        assert_eq!(source.test_modules, ["crates/a/src/x/models"]);
        assert!(!source.is_test_file());
        assert!(Source::new("crates/a/tests/x.rs", SAMPLE).is_test_file());
        assert!(Source::new("crates/a/src/x.rs", "#![cfg(test)]\nfn f() {}").is_test_file());
    }

    #[test]
    fn conditions_are_read_not_searched_for_a_word() {
        let is_test = |attribute: &str| {
            let source =
                Source::new("a/src/x.rs", &format!("fn a() {{}}\n{attribute} fn f() {{}}"));
            assert!(!source.is_test_line(1));
            source.is_test_line(2)
        };
        assert!(is_test("#[test]") && is_test("#[tokio::test]") && is_test("#[cfg(test)]"));
        assert!(is_test("#[inline] #[cfg(any(test, fuzzing))]"));
        assert!(is_test("#[cfg(all(loom, test))]"));
        assert!(!is_test("#[cfg(any(test, loom))]") && !is_test("#[cfg(not(test))]"));
        assert!(!is_test("#[cfg(feature = \"test\")]") && !is_test("#[cfg_attr(test, inline)]"));
    }

    #[test]
    fn a_file_that_does_not_parse_says_so() {
        let source = Source::new("a/src/x.rs", "fn f( {}\n// comment\n");
        assert!(source.parse_error.is_some());
        assert_eq!((source.code_lines().count(), source.comment_lines().count()), (1, 1));
    }

    #[test]
    fn module_paths_follow_the_folders() {
        let module = |path| Source::new(path, "").module().map(|parts| parts.join("::"));
        assert_eq!(module("crates/a/src/lib.rs").as_deref(), Some(""));
        assert_eq!(module("crates/a/src/heap/mod.rs").as_deref(), Some("heap"));
        assert_eq!(module("src/heap/tuple.rs").as_deref(), Some("heap::tuple"));
        assert_eq!(module("crates/a/tests/x.rs"), None);
    }
}
