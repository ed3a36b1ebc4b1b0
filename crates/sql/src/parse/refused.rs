//! Statements of PostgreSQL that are not here: they are refused by name, not as errors of syntax.
//!
//! Invariants: only a statement that could not be read is refused; what can be read stays.
//! Does not do: statements that are read, of which a part is refused where it stands.

use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The verbs of statements about objects, and the kinds of objects that are not here.
const VERBS: [&str; 3] = ["create", "alter", "drop"];
const KINDS: [&str; 19] = [
    "access method",
    "aggregate",
    "conversion",
    "database",
    "event trigger",
    "foreign data wrapper",
    "foreign table",
    "language",
    "operator",
    "procedure",
    "publication",
    "rule",
    "server",
    "statistics",
    "subscription",
    "tablespace",
    "text search",
    "transform",
    "user mapping",
];

/// Other statements by their first words.
const OTHERS: [&str; 4] =
    ["alter large object", "alter system", "import foreign schema", "security label"];

/// The words that may stand between CREATE and the kind of an object.
const BETWEEN: [&str; 6] = ["or", "replace", "default", "trusted", "procedural", "constraint"];

/// Kinds of relations, and the actions of ALTER on them that are not here.
const ALTERED: [&str; 4] = ["alter table", "alter index", "alter view", "alter materialized view"];
const ACTIONS: [&str; 11] = [
    "set storage",
    "set compression",
    "set statistics",
    "set tablespace",
    "set without cluster",
    "cluster on",
    "set (",
    "reset (",
    "inherit",
    "attach partition",
    "detach partition",
];

/// The name of the statement that begins as one that is not here.
pub(super) fn name_of(tokens: &[TokenWithSpan]) -> Option<String> {
    let first = tokens.first().map(word)?;
    // Most statements are others, and are looked at no further.
    if !VERBS.contains(&first.as_str()) && !OTHERS.iter().any(|known| known.starts_with(&first)) {
        return None;
    }
    let rest = tokens[1..].iter().map(word);
    let rest = rest.skip_while(|one| first == "create" && BETWEEN.contains(&one.as_str()));
    let words: Vec<String> = [first.clone()].into_iter().chain(rest).collect();
    let is_at = |place: usize, known: &str| {
        let behind = words.get(place..).unwrap_or_default();
        known.split(' ').enumerate().all(|(at, one)| behind.get(at).is_some_and(|word| word == one))
    };
    let about_kind = VERBS.contains(&first.as_str());
    if let Some(kind) = KINDS.iter().find(|kind| about_kind && is_at(1, kind)) {
        return Some(format!("{first} {kind}").to_uppercase());
    }
    if let Some(other) = OTHERS.iter().find(|known| is_at(0, known)) {
        return Some(other.to_uppercase());
    }
    let views = ["create view", "create recursive view", "create temporary view"];
    let mut before_query = words.iter().take_while(|word| *word != "as");
    if views.iter().any(|known| is_at(0, known)) && before_query.any(|word| word == "with") {
        return Some("CREATE VIEW with such options".to_owned());
    }
    let altered = ALTERED.iter().find(|known| is_at(0, known))?;
    let action = ACTIONS.iter().find(|known| (2..words.len()).any(|at| is_at(at, known)))?;
    Some(format!("{altered} .. {}", action.trim_end_matches(" (")).to_uppercase())
}

/// The word of a token in small letters; it is empty for a token that is no plain word.
fn word(token: &TokenWithSpan) -> String {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_lowercase(),
        Token::LParen => "(".to_owned(),
        _ => String::new(),
    }
}
