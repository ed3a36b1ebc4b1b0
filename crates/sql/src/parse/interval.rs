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
    let mut at = 0;
    while at + 5 <= tokens.len() {
        if is_literal(&tokens[at..at + 5]) {
            let text = tokens.remove(at + 4);
            let cast = TokenWithSpan { token: Token::DoubleColon, span: tokens[at].span };
            tokens.splice(at..at, [text, cast]);
            at += 5;
        }
        at += 1;
    }
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
