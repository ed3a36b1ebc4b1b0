//! GROUP BY in the words that sqlparser reads: DISTINCT and ALL in front of its sets, and GROUPING
//! SETS inside of GROUPING SETS.
//!
//! Invariants: what it means is in the tokens still: a first item called [`DISTINCT`], and calls of
//! a function called [`SETS`], names that no text has. Does not do: what the sets
//! mean.

use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

/// Stands for DISTINCT behind GROUP BY.
pub(crate) const DISTINCT: &str = "\u{1}distinct";
/// Stands for GROUPING SETS inside of such.
pub(crate) const SETS: &str = "\u{1}sets";

fn is_word(token: Option<&TokenWithSpan>, word: &str) -> bool {
    matches!(token.map(|token| &token.token), Some(Token::Word(found))
        if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
}

fn named(name: &str, like: &TokenWithSpan) -> TokenWithSpan {
    TokenWithSpan { token: Token::make_word(name, Some('"')), span: like.span }
}

/// Spells GROUP BY so that sqlparser reads it.
pub(super) fn sets(tokens: &mut Vec<TokenWithSpan>) {
    if !tokens.iter().any(|token| is_word(Some(token), "group")) {
        return;
    }
    // Of each open parenthesis whether sets are listed in it.
    let mut open: Vec<bool> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let before = |back: usize, word: &str| {
            at.checked_sub(back).is_some_and(|place| is_word(tokens.get(place), word))
        };
        match &tokens[at].token {
            Token::LParen => open.push(before(1, "sets") || before(1, SETS)),
            Token::RParen => drop(open.pop()),
            _ if before(1, "by") && before(2, "group") => {
                if is_word(tokens.get(at), "distinct") {
                    let comma = TokenWithSpan { token: Token::Comma, span: tokens[at].span };
                    tokens[at] = named(DISTINCT, &tokens[at]);
                    tokens.insert(at + 1, comma);
                } else if is_word(tokens.get(at), "all") {
                    tokens.remove(at);
                    continue;
                }
            }
            _ => {}
        }
        if open.last() == Some(&true)
            && is_word(tokens.get(at), "grouping")
            && is_word(tokens.get(at + 1), "sets")
        {
            tokens[at] = named(SETS, &tokens[at]);
            tokens.remove(at + 1);
            if tokens.get(at + 1).is_some_and(|next| next.token == Token::LParen) {
                open.push(true);
                at += 1;
            }
        }
        at += 1;
    }
}

/// What has to stand in a text in the place of what [`sets`] made of it.
pub(super) fn unmarked(tokens: &[TokenWithSpan]) -> Vec<(Span, &'static str)> {
    let mut found = Vec::new();
    // Of each open parenthesis whether sets are listed in it, and whether it is left out.
    let mut open: Vec<[bool; 2]> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let before = |word: &str| at > 0 && is_word(tokens.get(at - 1), word);
        let next = tokens.get(at + 1);
        match &token.token {
            Token::LParen => {
                // A set that is itself ROLLUP, CUBE or a list of sets has none.
                let is_set = open.last().is_some_and(|[lists, _]| *lists)
                    && ["rollup", "cube"].iter().any(|word| is_word(next, word))
                    || is_mark(next, SETS);
                open.push([before("sets") || at > 0 && is_mark(tokens.get(at - 1), SETS), is_set]);
                found.extend(is_set.then_some((token.span, "")));
            }
            Token::RParen => {
                let left_out = open.pop().is_some_and(|[_, left_out]| left_out);
                found.extend(left_out.then_some((token.span, "")));
            }
            _ if is_mark(Some(token), SETS) => found.push((token.span, "GROUPING SETS ")),
            _ if is_mark(Some(token), DISTINCT) => {
                let end = next.map_or(token.span.end, |comma| comma.span.end);
                found.push((Span::new(token.span.start, end), "DISTINCT"));
            }
            _ => {}
        }
    }
    found
}

fn is_mark(token: Option<&TokenWithSpan>, mark: &str) -> bool {
    matches!(token.map(|token| &token.token), Some(Token::Word(word)) if word.value == mark)
}
