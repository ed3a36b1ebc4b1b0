//! Interval literals with a precision in front, `interval(2) '1.234 s'`.
//!
//! sqlparser reads the type and forgets its precision. So the tokens are put into the order of the
//! other form of the same literal, `'1.234 s'::interval(2)`.
//!
//! Does not do: parts of intervals, which stand behind the text.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Puts the text of each such literal in front of its type.
pub(super) fn literals(tokens: &mut Vec<TokenWithSpan>) {
    if !tokens.windows(5).any(is_literal) {
        return;
    }
    let mut rest = std::mem::take(tokens).into_iter();
    while let Some(five) = rest.as_slice().get(..5) {
        if is_literal(five) {
            let cast = TokenWithSpan { token: Token::DoubleColon, span: five[0].span };
            let kind: Vec<TokenWithSpan> = rest.by_ref().take(4).collect();
            tokens.extend(rest.next().into_iter().chain([cast]).chain(kind));
        } else {
            tokens.extend(rest.next());
        }
    }
    tokens.extend(rest);
}

fn is_literal(five: &[TokenWithSpan]) -> bool {
    let tokens = [0, 1, 2, 3, 4].map(|at| &five[at].token);
    matches!(tokens, [
        Token::Word(word),
        Token::LParen,
        Token::Number(..),
        Token::RParen,
        Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_),
    ] if word.keyword == Keyword::INTERVAL && word.quote_style.is_none())
}
