//! `TABLE name` as a query, which is `SELECT * FROM name`.
//!
//! Before sqlparser reads a statement, the words of the SELECT take the place of TABLE: at the
//! beginning of a statement, behind a parenthesis or a set operation, and where a statement such as
//! EXPLAIN or INSERT has its query.
//!
//! Does not do: TABLE in the query of a view, whose text is kept as it is written.

use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Words behind which a query begins.
const BEFORE: [&str; 7] = ["union", "intersect", "except", "all", "distinct", "explain", "verbose"];

/// Puts a SELECT in the place of each TABLE that is a query.
pub(super) fn queries(tokens: &mut Vec<TokenWithSpan>) {
    let is = |token: Option<&TokenWithSpan>, word: &str| {
        matches!(token.map(|one| &one.token), Some(Token::Word(found))
            if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
    };
    let first = |word: &str| is(tokens.first(), word);
    let makes_table = first("create") && tokens.iter().take(4).any(|one| is(Some(one), "table"));
    if first("create") && !makes_table {
        return;
    }
    let (inserts, declares, has_with) = (first("insert"), first("declare"), first("with"));
    let of_create = tokens.iter().position(|one| is(Some(one), "as")).filter(|_| makes_table);
    let begins = |at: usize| {
        let Some(before) = at.checked_sub(1) else { return true };
        match &tokens[before].token {
            Token::LParen => true,
            Token::RParen => inserts || has_with,
            Token::Word(_) => {
                let last = tokens.get(before);
                BEFORE.iter().any(|word| is(last, word))
                    || of_create == Some(before)
                    || declares && is(last, "for")
                    || inserts && !is(last, "into")
            }
            _ => false,
        }
    };
    let is_name = |at: usize| matches!(tokens.get(at).map(|one| &one.token), Some(Token::Word(_)));
    let found: Vec<usize> = (0..tokens.len())
        .filter(|at| is(tokens.get(*at), "table") && is_name(at + 1) && begins(*at))
        .collect();
    for at in found.into_iter().rev() {
        let span = tokens[at].span;
        let select = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
        tokens.splice(at..=at, select.map(|token| TokenWithSpan { token, span }));
    }
}
