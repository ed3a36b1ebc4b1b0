//! The paths that code names: `a::b::c` wherever it stands, use-trees spread out.
//!
//! Works on tokens, so paths inside macro calls count too. Renames (`use a as b`) are not followed.

use crate::source::{Source, Token};

/// One path, as written.
pub(crate) struct Named {
    pub(crate) parts: Vec<String>,
    pub(crate) line: usize,
    inline_modules: usize,
}

impl Named {
    /// Does it begin with these parts?
    pub(crate) fn starts_with(&self, parts: &[&str]) -> bool {
        self.parts.len() >= parts.len() && parts.iter().zip(&self.parts).all(|(a, b)| a == b)
    }

    /// The path from the root of its own crate, from a file that lies at `module`; `None` if it
    /// leads to another crate or begins with a name that the file declares or imports itself.
    pub(crate) fn path_from_root<'a>(&'a self, module: &[&'a str]) -> Option<Vec<&'a str>> {
        let rises = self.parts.iter().take_while(|part| *part == "super").count();
        let depth = module.len() + self.inline_modules;
        let (kept, rest) = match self.parts.first()?.as_str() {
            "crate" => (0, 1),
            "self" if self.inline_modules == 0 => (module.len(), 1),
            "super" if rises <= depth => (depth - rises, rises),
            _ => return None,
        };
        let base = module.get(..kept)?; // else it stays in a module inside the file
        let rest = self.parts[rest..].iter().map(String::as_str);
        Some(base.iter().copied().chain(rest).collect())
    }

    /// The top module of its own crate that the path enters, from a file that lies at `module`.
    /// `None` if it leads to another crate or stays where it is.
    pub(crate) fn top_module(&self, module: &[&str]) -> Option<&str> {
        let rises = self.parts.iter().take_while(|part| *part == "super").count();
        let depth = module.len() + self.inline_modules;
        let next = match self.parts.first()?.as_str() {
            "crate" => 1,
            "self" if depth == 0 => 1,
            "super" if rises == depth => rises,
            _ => return None,
        };
        self.parts.get(next).map(String::as_str)
    }
}

/// All paths of two and more parts in the production code of a file.
pub(crate) fn production_paths(source: &Source) -> Vec<Named> {
    let all = paths(&source.tokens);
    all.into_iter().filter(|path| !source.is_test_line(path.line)).collect()
}

fn paths(tokens: &[Token]) -> Vec<Named> {
    let mut out = Vec::new();
    let text = |i: usize| tokens.get(i).map_or("", |token| token.text.as_str());
    let mut i = 0;
    while i < tokens.len() {
        let continues = i > 1 && text(i - 1) == "::" && text(i - 2) == ">";
        if is_word(text(i)) && text(i + 1) == "::" && !continues {
            i = follow(tokens, i, Vec::new(), &mut out);
        } else {
            i += 1;
        }
    }
    out.retain(|path| path.parts.len() > 1);
    out
}

/// Reads one branch of a use-tree, or a plain path, and gives the index behind it.
fn follow(tokens: &[Token], start: usize, mut parts: Vec<String>, out: &mut Vec<Named>) -> usize {
    let mut i = start;
    let line = tokens[start].line;
    let inline_modules = tokens[start].inline_modules;
    while let Some(token) = tokens.get(i) {
        if token.text == "{" && !parts.is_empty() {
            return follow_group(tokens, i, &parts, out);
        }
        if !is_word(&token.text) && token.text != "*" {
            break;
        }
        parts.push(token.text.clone());
        i += 1;
        if tokens.get(i).is_none_or(|next| next.text != "::") {
            break;
        }
        i += 1;
    }
    assert!(i >= start, "a path never runs backwards");
    out.push(Named { parts, line, inline_modules });
    i
}

/// Reads `{a, b::c}` behind a prefix.
fn follow_group(tokens: &[Token], open: usize, prefix: &[String], out: &mut Vec<Named>) -> usize {
    assert_eq!(tokens[open].text, "{");
    let mut i = open + 1;
    while let Some(token) = tokens.get(i) {
        match token.text.as_str() {
            "}" => return i + 1,
            "as" => i += 2,
            word if is_word(word) || word == "*" => i = follow(tokens, i, prefix.to_vec(), out),
            _ => i += 1,
        }
    }
    i
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::production_paths;
    use crate::source::Source;

    fn named(text: &str) -> Vec<String> {
        let source = Source::new("crates/a/src/heap/tuple.rs", text);
        production_paths(&source).iter().map(|path| path.parts.join("::")).collect()
    }

    #[test]
    fn use_trees_are_spread_out() {
        let text = "use std::{fs, sync::{Arc, atomic::*}};\nuse crate::page as p;";
        let expected = ["std::fs", "std::sync::Arc", "std::sync::atomic::*", "crate::page"];
        assert_eq!(named(text), expected);
        let text = "fn f() { assert!(::std::fs::read(x).is_ok(), Vec::<u8>::new()) }";
        assert_eq!(named(text), ["std::fs::read"]);
    }

    #[test]
    fn test_code_is_left_out() {
        assert!(named("#[cfg(test)]\nmod tests {\n    use crate::page::X;\n}").is_empty());
    }

    #[test]
    fn paths_are_told_from_the_root() {
        let text = "use super::super::wal::A;\nuse super::b::B;\nuse crate::page::C;\n\
            use std::fs;\nmod m { use super::super::c::D; use super::E; }\nuse self::f::G;";
        let source = Source::new("crates/a/src/heap/tuple.rs", text);
        let module = ["heap", "tuple"];
        let paths = production_paths(&source);
        let found: Vec<String> =
            paths.iter().filter_map(|p| Some(p.path_from_root(&module)?.join("::"))).collect();
        let expected = [
            "wal::A",
            "heap::b::B",
            "page::C",
            "heap::c::D",
            "heap::tuple::E",
            "heap::tuple::f::G",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn modules_are_found_through_super() {
        let text = "use super::super::wal::A;\nuse super::b::B;\nuse crate::page::C;\n\
            mod m { use super::super::super::txn::D; }";
        let source = Source::new("crates/a/src/heap/tuple.rs", text);
        let modules: Vec<_> = production_paths(&source)
            .iter()
            .map(|p| p.top_module(&["heap", "tuple"]).map(String::from))
            .collect();
        let expected = [Some("wal"), None, Some("page"), Some("txn")];
        assert_eq!(modules, expected.map(|module| module.map(String::from)));
    }
}
