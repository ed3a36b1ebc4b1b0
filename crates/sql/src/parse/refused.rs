//! Statements of PostgreSQL that are not here: they are refused by name, not as errors of syntax.
//!
//! Invariants: only a statement that could not be read is refused; what can be read stays.
//! Does not do: statements that are read, of which a part is refused where it stands.

use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The first words of statements, and what a statement of each kind is called.
const STATEMENTS: &[(&str, &str)] = &[
    ("alter database", "such an ALTER DATABASE"),
    ("alter default conversion", "ALTER CONVERSION"),
    ("alter event trigger", "ALTER EVENT TRIGGER"),
    ("alter foreign", "ALTER FOREIGN TABLE or DATA WRAPPER"),
    ("alter large object", "ALTER LARGE OBJECT"),
    ("alter operator", "ALTER OPERATOR"),
    ("alter publication", "ALTER PUBLICATION"),
    ("alter server", "ALTER SERVER"),
    ("alter statistics", "ALTER STATISTICS"),
    ("alter subscription", "ALTER SUBSCRIPTION"),
    ("alter system", "ALTER SYSTEM"),
    ("alter tablespace", "ALTER TABLESPACE"),
    ("alter text search", "ALTER TEXT SEARCH"),
    ("create access method", "CREATE ACCESS METHOD"),
    ("create aggregate", "CREATE AGGREGATE"),
    ("create conversion", "CREATE CONVERSION"),
    ("create database", "CREATE DATABASE"),
    ("create event trigger", "CREATE EVENT TRIGGER"),
    ("create foreign", "CREATE FOREIGN TABLE or DATA WRAPPER"),
    ("create language", "CREATE LANGUAGE"),
    ("create operator", "CREATE OPERATOR"),
    ("create procedure", "CREATE PROCEDURE"),
    ("create publication", "CREATE PUBLICATION"),
    ("create rule", "CREATE RULE"),
    ("create server", "CREATE SERVER"),
    ("create statistics", "CREATE STATISTICS"),
    ("create subscription", "CREATE SUBSCRIPTION"),
    ("create tablespace", "CREATE TABLESPACE"),
    ("create text search", "CREATE TEXT SEARCH"),
    ("create transform", "CREATE TRANSFORM"),
    ("create user mapping", "CREATE USER MAPPING"),
    ("drop access method", "DROP ACCESS METHOD"),
    ("drop aggregate", "DROP AGGREGATE"),
    ("drop conversion", "DROP CONVERSION"),
    ("drop database", "DROP DATABASE"),
    ("drop event trigger", "DROP EVENT TRIGGER"),
    ("drop foreign", "DROP FOREIGN TABLE or DATA WRAPPER"),
    ("drop language", "DROP LANGUAGE"),
    ("drop operator", "DROP OPERATOR"),
    ("drop procedure", "DROP PROCEDURE"),
    ("drop publication", "DROP PUBLICATION"),
    ("drop rule", "DROP RULE"),
    ("drop server", "DROP SERVER"),
    ("drop statistics", "DROP STATISTICS"),
    ("drop subscription", "DROP SUBSCRIPTION"),
    ("drop tablespace", "DROP TABLESPACE"),
    ("drop text search", "DROP TEXT SEARCH"),
    ("drop transform", "DROP TRANSFORM"),
    ("drop user mapping", "DROP USER MAPPING"),
    ("import foreign schema", "IMPORT FOREIGN SCHEMA"),
    ("security label", "SECURITY LABEL"),
];

/// Words between CREATE and what is created.
const BETWEEN: [&str; 6] = ["or", "replace", "default", "trusted", "procedural", "constraint"];

/// Actions of ALTER TABLE and ALTER INDEX.
const ACTIONS: &[(&str, &str)] = &[
    ("set storage", "SET STORAGE"),
    ("set compression", "SET COMPRESSION"),
    ("set statistics", "SET STATISTICS"),
    ("set tablespace", "SET TABLESPACE"),
    ("set without cluster", "SET WITHOUT CLUSTER"),
    ("cluster on", "CLUSTER ON"),
    ("set (", "SET of storage parameters"),
    ("reset (", "RESET of storage parameters"),
    ("inherit", "INHERIT"),
    ("attach partition", "ATTACH PARTITION"),
    ("detach partition", "DETACH PARTITION"),
];

/// What a statement is called that has a known beginning.
pub(super) fn name_of(tokens: &[TokenWithSpan]) -> Option<String> {
    let words: Vec<String> = tokens.iter().map(word).collect();
    let (first, rest) = words.split_first()?;
    let rest = rest.iter().skip_while(|one| first == "create" && BETWEEN.contains(&one.as_str()));
    let words: Vec<&str> = [first.as_str()].into_iter().chain(rest.map(String::as_str)).collect();
    let is_at = |place: usize, known: &str| {
        let behind = words.get(place..).unwrap_or_default();
        known.split(' ').enumerate().all(|(at, one)| behind.get(at) == Some(&one))
    };
    if let Some((_, name)) = STATEMENTS.iter().find(|(known, _)| is_at(0, known)) {
        return Some((*name).to_owned());
    }
    let is_view = ["create view", "create recursive view", "create temporary view"];
    let mut before_query = words.iter().take_while(|word| **word != "as");
    if is_view.iter().any(|known| is_at(0, known)) && before_query.any(|word| *word == "with") {
        return Some("CREATE VIEW with such options".to_owned());
    }
    let kinds = ["alter table", "alter index", "alter view", "alter materialized view"];
    let kind = kinds.iter().find(|known| is_at(0, known))?;
    let action = |(known, _): &&(&str, &str)| (2..words.len()).any(|at| is_at(at, known));
    let (_, action) = ACTIONS.iter().find(action)?;
    Some(format!("{} .. {action}", kind.to_uppercase()))
}

/// A token as a word in small letters; empty for what is no plain word.
fn word(token: &TokenWithSpan) -> String {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_lowercase(),
        Token::LParen => "(".to_owned(),
        _ => String::new(),
    }
}
