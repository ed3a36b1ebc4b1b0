//! EXCLUDE behind the frame of a window, which sqlparser does not read.
//!
//! Invariants: what is excluded stands in front of the name of the window that another one is made
//! of, behind [`MARK`], which no text has. Does not do: frames.

use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use crate::names::identifier;

/// Stands in front of what is excluded, and behind it.
pub(crate) const MARK: char = '\u{1}';

/// What may be excluded, word by word, and how it is called in front of a name.
const EXCLUSIONS: [(&[&str], &str); 4] = [
    (&["current", "row"], "row"),
    (&["group"], "group"),
    (&["ties"], "ties"),
    (&["no", "others"], ""),
];

/// Words that a window may begin with, if not with a name.
const CLAUSES: [&str; 5] = ["partition", "order", "rows", "range", "groups"];

fn is_word(token: Option<&TokenWithSpan>, word: &str) -> bool {
    matches!(token.map(|token| &token.token), Some(Token::Word(found))
        if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
}

/// Length of an exclusion behind EXCLUDE, and what it is called.
fn exclusion(tokens: &[TokenWithSpan]) -> Option<(usize, &'static str)> {
    let fits = |words: &[&str]| {
        let mut pairs = words.iter().enumerate();
        pairs.all(|(at, word)| is_word(tokens.get(at), word))
            && tokens.get(words.len()).is_some_and(|next| next.token == Token::RParen)
    };
    let found = EXCLUSIONS.iter().find(|(words, _)| fits(words));
    found.map(|(words, name)| (words.len(), *name))
}

/// Where the parenthesis stands that is open at a place.
fn open_before(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    let mut depth = 0usize;
    (0..at).rev().find(|place| match tokens[*place].token {
        Token::RParen => {
            depth += 1;
            false
        }
        Token::LParen if depth == 0 => true,
        Token::LParen => {
            depth -= 1;
            false
        }
        _ => false,
    })
}

/// Puts what windows exclude in front of their names.
pub(super) fn exclusions(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at < tokens.len() {
        let behind_bound = ["row", "preceding", "following"]
            .iter()
            .any(|word| at > 0 && is_word(tokens.get(at - 1), word));
        let found = match behind_bound && is_word(tokens.get(at), "exclude") {
            true => exclusion(&tokens[at + 1..]).zip(open_before(tokens, at)),
            false => None,
        };
        if let Some(((length, name), open)) = found {
            tokens.drain(at..=at + length);
            if !name.is_empty() {
                mark(tokens, open + 1, name);
            }
        }
        at += 1;
    }
}

/// Puts a mark in front of the name at a place, or where it would stand.
fn mark(tokens: &mut Vec<TokenWithSpan>, place: usize, excluded: &str) {
    let is_clause = CLAUSES.iter().any(|word| is_word(tokens.get(place), word));
    let named = match &tokens[place].token {
        Token::Word(word) if !is_clause => Some(match word.quote_style {
            Some(_) => word.value.clone(),
            None => word.value.to_lowercase(),
        }),
        _ => None,
    };
    let name = format!("{MARK}{excluded}{MARK}{}", named.as_deref().unwrap_or(""));
    let token =
        TokenWithSpan { token: Token::make_word(&name, Some('"')), span: tokens[place].span };
    match named {
        Some(_) => tokens[place] = token,
        None => tokens.insert(place, token),
    }
}

/// What has to stand in a text in the place of what [`exclusions`] made of it.
pub(super) fn unmarked(tokens: &[TokenWithSpan]) -> Vec<(Span, String)> {
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let Token::Word(word) = &token.token else { continue };
        let marked = word.value.strip_prefix(MARK).and_then(|rest| rest.split_once(MARK));
        let Some((called, name)) = marked else { continue };
        let exclusion = EXCLUSIONS.iter().find(|(_, known)| *known == called);
        let words = exclusion.map_or(String::new(), |(words, _)| words.join(" ").to_uppercase());
        if let Some(close) = close_behind(tokens, at) {
            let (mut span, mut other) = (token.span, String::new());
            match name.is_empty() {
                true => span.end = tokens[at + 1].span.start,
                false => other = identifier(name),
            }
            found.push((span, other));
            let end = tokens[close].span.start;
            found.push((Span::new(end, end), format!(" EXCLUDE {words}")));
        }
    }
    found
}

/// Where the parenthesis ends that is open at a place.
fn close_behind(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    let mut depth = 0usize;
    (at..tokens.len()).find(|place| match tokens[*place].token {
        Token::LParen => {
            depth += 1;
            false
        }
        Token::RParen if depth == 0 => true,
        Token::RParen => {
            depth -= 1;
            false
        }
        _ => false,
    })
}
