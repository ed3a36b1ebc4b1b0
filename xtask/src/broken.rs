//! The broken variants that code asks for: `broken("name")`, or `broken(Broken::Name)` where the
//! enum `Broken` gives each variant its name.
//!
//! Works on tokens. The enum's file pairs variants with names in whatever form it likes, as long as
//! the name, a string without blanks, follows the variant: `Name => "name"`, `Name = "name"`,
//! `Name("name")`. A variant without such a name is called by its words, joined with hyphens.

use crate::source::{Source, Token};
use crate::tree::Tree;
use std::collections::BTreeMap;

/// Where the enum stands.
pub(crate) const ENUM_FILE: &str = "crates/env/src/broken.rs";

/// The names of the enum's variants, by variant; empty while there is no enum.
pub(crate) struct Names(BTreeMap<String, String>);

impl Names {
    /// Reads the enum of a tree.
    pub(crate) fn of(tree: &Tree) -> Names {
        let source = tree.sources.iter().find(|source| source.path == ENUM_FILE);
        Names(source.map(|source| pairs(&source.tokens)).unwrap_or_default())
    }

    /// All names, with their variants.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(variant, name)| (variant.as_str(), name.as_str()))
    }

    /// Lines and names of the variants that production code asks for.
    pub(crate) fn asked(&self, source: &Source) -> Vec<(usize, String)> {
        if source.path == ENUM_FILE {
            return Vec::new();
        }
        let all = source.tokens.windows(2).enumerate();
        let calls = all.filter(|(_, two)| two[0].text == "broken" && two[1].text == "(");
        let named = calls.filter_map(|(at, _)| {
            let line = source.tokens[at].line;
            Some((line, self.named(&source.tokens[at + 2..])?))
        });
        named.filter(|(line, _)| !source.is_test_line(*line)).collect()
    }

    /// The names that test code says: strings, and variants of the enum.
    pub(crate) fn tested(&self, source: &Source) -> Vec<String> {
        let in_test = |token: &Token| source.is_test_file() || source.is_test_line(token.line);
        let places = (0..source.tokens.len()).filter(|at| in_test(&source.tokens[*at]));
        places.filter_map(|at| self.named(&source.tokens[at..])).collect()
    }

    /// The variant that these tokens begin with, in either form.
    fn named(&self, tokens: &[Token]) -> Option<String> {
        let text = |i: usize| tokens.get(i).map_or("", |token| token.text.as_str());
        if let Some(name) = text(0).strip_prefix('"') {
            return Some(name.trim_end_matches('"').to_string());
        }
        let mut at = 0;
        while text(at + 1) == "::" && text(at) != "Broken" {
            at += 2;
        }
        let variant = text(at + 2);
        let is_variant = text(at) == "Broken" && text(at + 1) == "::" && is_camel(variant);
        is_variant.then(|| self.0.get(variant).cloned().unwrap_or_else(|| hyphenated(variant)))
    }
}

/// Variants and names of the enum's file.
fn pairs(tokens: &[Token]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (at, token) in tokens.iter().enumerate().filter(|(_, token)| is_camel(&token.text)) {
        let between = |token: &&Token| matches!(token.text.as_str(), "=" | ">" | "(" | "," | ":");
        let passed = tokens[at + 1..].iter().take_while(between).count();
        let next = tokens.get(at + 1 + passed).filter(|_| (1..=2).contains(&passed));
        if let Some(name) = next.and_then(|next| next.text.strip_prefix('"'))
            && !name.contains(' ')
        {
            found.insert(token.text.clone(), name.trim_end_matches('"').to_string());
        }
    }
    found
}

fn is_camel(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_uppercase()) && word.chars().all(char::is_alphanumeric)
}

/// `R1DeadMark` as `r1-dead-mark`.
fn hyphenated(variant: &str) -> String {
    let mut name = String::new();
    for c in variant.chars() {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::Names;
    use crate::tree::Tree;

    fn asked(files: &[(&str, &str)]) -> Vec<String> {
        let tree = Tree::of(files);
        let names = Names::of(&tree);
        tree.sources.iter().flat_map(|source| names.asked(source)).map(|(_, name)| name).collect()
    }

    const ENUM: (&str, &str) = (
        super::ENUM_FILE,
        "/// Broken.\npub enum Broken {\n    /// What it breaks.\n    R1Hint,\n    WalHalf,\n}\n\
            impl Broken {\n    pub const fn name(self) -> &'static str {\n        match self {\n\
            Self::R1Hint => \"r1-hint\", Broken::WalHalf => \"wal-half-record\" } }\n}\n\
            pub fn broken(broken: Broken) -> bool { false }\n",
    );

    #[test]
    fn both_forms_are_read() {
        let text = "fn f() { broken(\"a-b\"); points::broken(Broken::WalHalf);\n\
            broken(rightlink_env::Broken::R1Hint); broken(Broken::R9Late); is_broken(\"c\"); }\n\
            #[test]\nfn t() { broken(\"test.rule\") }";
        let user = ("crates/engine/src/x.rs", text);
        assert_eq!(asked(&[ENUM, user]), ["a-b", "wal-half-record", "r1-hint", "r9-late"]);
        assert_eq!(asked(&[user]), ["a-b", "wal-half", "r1-hint", "r9-late"]);
    }

    #[test]
    fn the_enum_may_be_made_by_a_macro() {
        let text = "variants! { /// One.\n R1Hint = \"r1-hint\", WalHalf(\"wal-half-record\"), }";
        let user = ("crates/engine/src/x.rs", "fn f() { broken(Broken::WalHalf) }");
        assert_eq!(asked(&[(super::ENUM_FILE, text), user]), ["wal-half-record"]);
        let tree = Tree::of(&[ENUM]);
        let names = Names::of(&tree);
        let all: Vec<_> = names.all().collect();
        assert_eq!(all, [("R1Hint", "r1-hint"), ("WalHalf", "wal-half-record")]);
    }
}
