//! GROUP BY in the words that sqlparser reads: DISTINCT and ALL in front of its sets, and GROUPING
//! SETS inside of GROUPING SETS.
//!
//! Invariants: what it means is in the tokens still: a first item called [`DISTINCT`], and calls of
//! a function called [`SETS`], names that no text has. Does not do: what the sets
//! mean.

use sqlparser::tokenizer::{Token, TokenWithSpan};

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
