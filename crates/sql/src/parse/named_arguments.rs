//! Arguments by name and arrays of arguments in calls: `f(a := 1)`, `f(VARIADIC array)`.
//!
//! - `:=` becomes `=>`, which means the same.
//! - VARIADIC in front of a value becomes the name [`VARIADIC`]: sqlparser does not know it.
//!
//! Invariants: declarations of functions keep the word.
//! Does not do: what names mean (`bind::overloads`).

use sqlparser::ast::{self, FunctionArg, FunctionArgExpr};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::cursor::is;
use super::identifiers;
use crate::error::SqlError;

/// The name of an argument that is an array of arguments; no parameter can have it.
pub(crate) const VARIADIC: &str = "␟variadic";

/// The name and the value of an argument that has a name.
pub(crate) fn named(arg: &FunctionArg) -> Option<(String, &ast::Expr)> {
    match arg {
        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(node), .. }
        | FunctionArg::ExprNamed {
            name: ast::Expr::Identifier(name),
            arg: FunctionArgExpr::Expr(node),
            ..
        } => Some((identifiers::ident(name), node)),
        _ => None,
    }
}

/// The error for an argument without a name behind one with a name.
pub(crate) fn misplaced() -> SqlError {
    SqlError::syntax("positional argument cannot follow named argument")
}

/// Spells them as sqlparser knows them.
pub(super) fn spelled(tokens: &mut Vec<TokenWithSpan>) {
    let declares = ["create", "alter", "drop", "comment"];
    let is_declaration = tokens.first().is_some_and(|first| {
        let is_function = |token: &TokenWithSpan| is(&token.token, "function");
        declares.iter().any(|word| is(&first.token, word)) && tokens.iter().take(4).any(is_function)
    });
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at].token == Token::Assignment {
            tokens[at].token = Token::RArrow;
        }
        let begins = at > 0 && matches!(tokens[at - 1].token, Token::LParen | Token::Comma);
        if begins && !is_declaration && is(&tokens[at].token, "variadic") {
            let is_named = tokens
                .get(at + 2)
                .is_some_and(|next| matches!(next.token, Token::RArrow | Token::Assignment));
            if is_named {
                // A value that is given by name is the array.
                tokens.remove(at);
                continue;
            }
            let name = Word {
                value: VARIADIC.to_owned(),
                quote_style: Some('"'),
                keyword: Keyword::NoKeyword,
            };
            tokens[at].token = Token::Word(name);
            let span = tokens[at].span;
            tokens.insert(at + 1, TokenWithSpan { token: Token::RArrow, span });
        }
        at += 1;
    }
}
