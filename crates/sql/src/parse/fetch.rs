//! Counts of FETCH FIRST in parentheses: sqlparser reads one value there, and no expression.
//!
//! Invariants: FETCH FIRST .. ONLY means what LIMIT does. Does not do: WITH TIES of an expression
//! that is more than one value, which stays a syntax error.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::cursor::is;

/// Puts a value in the place of one in parentheses, and LIMIT in the place of FETCH FIRST with an
/// expression.
pub(super) fn counts(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at + 2 < tokens.len() {
        let is_first = is(&tokens[at + 1].token, "first") || is(&tokens[at + 1].token, "next");
        let begins = is_first && is(&tokens[at].token, "fetch");
        if begins && tokens[at + 2].token == Token::LParen {
            count(tokens, at);
        }
        at += 1;
    }
}

/// The same for the FETCH at one place.
fn count(tokens: &mut Vec<TokenWithSpan>, at: usize) {
    let Some(end) = closing(tokens, at + 2) else { return };
    if end == at + 4 {
        tokens.remove(end);
        tokens.remove(at + 2);
        return;
    }
    let word = |at: usize, word: &str| tokens.get(at).is_some_and(|one| is(&one.token, word));
    if (word(end + 1, "row") || word(end + 1, "rows")) && word(end + 2, "only") {
        tokens.drain(end + 1..=end + 2);
        tokens[at].token = Token::make_keyword("LIMIT");
        tokens.remove(at + 1);
    }
}

/// Where the parenthesis ends that begins here.
fn closing(tokens: &[TokenWithSpan], start: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(start) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 1 => return Some(at),
            Token::RParen => depth -= 1,
            _ => {}
        }
    }
    None
}
