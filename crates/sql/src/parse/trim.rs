//! `TRIM(LEADING FROM text)`, where sqlparser wants what is cut off in front of FROM.
//!
//! Invariants: the word that is left out says nothing.
//! Does not do: what is cut off by default, blanks (`bind::call`).

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::cursor::is;

/// Leaves FROM out where nothing stands in front of it.
pub(super) fn sides(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at + 3 < tokens.len() {
        at += 1;
        if tokens[at].token != Token::LParen || !is(&tokens[at - 1].token, "trim") {
            continue;
        }
        let is_side =
            ["leading", "trailing", "both"].iter().any(|one| is(&tokens[at + 1].token, one));
        let place = at + 1 + usize::from(is_side);
        if is(&tokens[place].token, "from") {
            tokens.remove(place);
        }
    }
}
