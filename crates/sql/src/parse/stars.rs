//! `(row).*`, which sqlparser reads of names alone.
//!
//! Before sqlparser reads a statement, a field called [`STAR`] takes the place of such a star.
//!
//! Invariants: no text has the name that stands for a star.
//! Does not do: which fields there are (`bind::records`).

use sqlparser::ast::{self, AccessExpr};
use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

/// Stands for the star.
const STAR: &str = "\u{1}star";

/// Puts a field in the place of a star behind a parenthesis or a bracket, and behind fields of
/// that.
pub(super) fn fields(tokens: &mut [TokenWithSpan]) {
    for at in 2..tokens.len() {
        if tokens[at].token != Token::Mul || tokens[at - 1].token != Token::Period {
            continue;
        }
        let mut before = at - 2;
        while before >= 2
            && matches!(tokens[before].token, Token::Word(_))
            && tokens[before - 1].token == Token::Period
        {
            before -= 2;
        }
        if matches!(tokens[before].token, Token::RParen | Token::RBracket) {
            tokens[at].token = Token::make_word(STAR, Some('"'));
        }
    }
}

/// Where stars stand in a text that is printed, and how they are written.
pub(super) fn unmarked(tokens: &[TokenWithSpan]) -> Vec<(Span, &'static str)> {
    let is_star =
        |one: &&TokenWithSpan| matches!(&one.token, Token::Word(word) if word.value == STAR);
    tokens.iter().filter(is_star).map(|one| (one.span, "*")).collect()
}

/// What stands in front of the star, if an expression ends in one.
pub(crate) fn starred(node: &ast::Expr) -> Option<ast::Expr> {
    let ast::Expr::CompoundFieldAccess { root, access_chain } = node else { return None };
    let (AccessExpr::Dot(ast::Expr::Identifier(last)), front) = access_chain.split_last()? else {
        return None;
    };
    if last.value != STAR {
        return None;
    }
    if front.is_empty() {
        return Some((**root).clone());
    }
    let (root, access_chain) = (root.clone(), front.to_vec());
    Some(ast::Expr::CompoundFieldAccess { root, access_chain })
}

#[cfg(test)]
mod tests {
    use crate::parse::{Stmt, parse};

    #[test]
    fn stars_behind_rows_are_fields_and_others_stay() {
        for (text, expected) in [
            ("SELECT (a).*, (f(x)).b.*, c[1].*", "SELECT (a).$, (f(x)).b.$, c[1].$"),
            ("SELECT a.*, (b) * 2, count(*) FROM s.t", "SELECT a.*, (b) * 2, count(*) FROM s.t"),
        ] {
            let parsed = parse(text, usize::MAX).unwrap().pop().unwrap();
            let Stmt::Sql(statement) = parsed.stmt else { panic!("{text}") };
            assert_eq!(statement.to_string().replace("\"\u{1}star\"", "$"), expected);
        }
    }
}
