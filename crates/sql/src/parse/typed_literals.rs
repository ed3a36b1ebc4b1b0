//! Literals behind their types that sqlparser does not read: `inet '::1'`, `interval(2) '1.234 s'`.
//!
//! It knows types by its keywords alone, and forgets the precision of an interval. So the tokens
//! are put into the order of the other form of the same literal, `'1.234 s'::interval(2)`.
//!
//! Does not do: parts of intervals, which stand behind the text; names of types with a schema.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::types::SqlType;

/// Puts the text of each such literal in front of its type.
pub(super) fn literals(tokens: &mut Vec<TokenWithSpan>) {
    if !(0..tokens.len()).any(|at| type_in_front(&tokens[at..]).is_some()) {
        return;
    }
    let mut rest = std::mem::take(tokens).into_iter();
    while let Some(next) = rest.as_slice().first() {
        let behind_dot = tokens.last().is_some_and(|last| last.token == Token::Period);
        match type_in_front(rest.as_slice()).filter(|_| !behind_dot) {
            Some(len) => {
                let cast = TokenWithSpan { token: Token::DoubleColon, span: next.span };
                let kind: Vec<TokenWithSpan> = rest.by_ref().take(len).collect();
                tokens.extend(rest.next().into_iter().chain([cast]).chain(kind));
            }
            None => tokens.extend(rest.next()),
        }
    }
}

/// How many tokens name a type in front of the text of a literal.
fn type_in_front(tokens: &[TokenWithSpan]) -> Option<usize> {
    let [first, ..] = tokens else { return None };
    let Token::Word(word) = &first.token else { return None };
    if word.quote_style.is_some() {
        return None;
    }
    let is_text = |at: usize| {
        let token = tokens.get(at).map(|one| &one.token);
        matches!(token, Some(Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_)))
    };
    let is_precision = |one: &[TokenWithSpan]| {
        let tokens = [&one[0].token, &one[1].token, &one[2].token];
        matches!(tokens, [Token::LParen, Token::Number(..), Token::RParen])
    };
    match word.keyword {
        Keyword::INTERVAL => {
            (is_text(4) && tokens.get(1..4).is_some_and(is_precision)).then_some(4)
        }
        Keyword::NoKeyword if is_text(1) => {
            SqlType::of_short_name(&word.value.to_lowercase()).map(|_| 1)
        }
        _ => None,
    }
}
