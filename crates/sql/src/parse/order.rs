//! Options of identity columns in the one order that sqlparser reads.
//!
//! Invariants: nothing but their order changes. Does not do: options that there are not.

use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Words that begin an option, in sqlparser's order.
const ORDER: [&str; 6] = ["increment", "minvalue", "maxvalue", "start", "cache", "cycle"];

fn is_word(token: &TokenWithSpan, word: &str) -> bool {
    matches!(&token.token, Token::Word(found)
        if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
}

/// Length and rank of the option that begins the tokens.
fn option(tokens: &[TokenWithSpan]) -> Option<(usize, usize)> {
    let no = usize::from(is_word(tokens.first()?, "no"));
    let rank = ORDER.iter().position(|word| is_word(tokens.get(no).unwrap_or(&tokens[0]), word))?;
    let mut len = no + 1;
    if no == 1 || ORDER[rank] == "cycle" {
        return Some((len, rank));
    }
    let next = |len: usize| tokens.get(len);
    len += usize::from(next(len).is_some_and(|t| is_word(t, "by") || is_word(t, "with")));
    len += usize::from(next(len).is_some_and(|t| matches!(t.token, Token::Minus | Token::Plus)));
    match next(len).map(|token| &token.token) {
        Some(Token::Number(..)) => Some((len + 1, rank)),
        _ => None,
    }
}

/// Puts the options of sequences in order, inside of IDENTITY ( ).
pub(super) fn options(tokens: &mut [TokenWithSpan]) {
    if !tokens.iter().any(|token| is_word(token, "identity")) {
        return;
    }
    let mut at = 0;
    while at < tokens.len() {
        let begins =
            at > 1 && tokens[at - 1].token == Token::LParen && is_word(&tokens[at - 2], "identity");
        let mut found: Vec<(usize, Vec<TokenWithSpan>)> = Vec::new();
        let mut end = at;
        while let Some((len, rank)) = option(&tokens[end..]).filter(|_| begins) {
            found.push((rank, tokens[end..end + len].to_vec()));
            end += len;
        }
        found.sort_by_key(|(rank, _)| *rank);
        for token in found.into_iter().flat_map(|(_, option)| option) {
            tokens[at] = token;
            at += 1;
        }
        at += 1;
    }
}
