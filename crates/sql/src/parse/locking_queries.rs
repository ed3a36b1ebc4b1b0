//! Queries with FOR UPDATE or FOR SHARE inside of a statement: each becomes an expression of WITH,
//! which locks its rows before the statement behind WITH reads them.
//!
//! ```sql
//! UPDATE jobs SET taken = true WHERE id = (SELECT id FROM jobs LIMIT 1 FOR UPDATE SKIP LOCKED)
//! ```
//!
//! Invariants: tokens keep the places that they have in the text.
//! Does not do: queries inside of one another that both lock rows, and queries that name columns of
//! the statement around them, which the binder refuses.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::parse::cursor::is;

/// Words that a statement begins with in which such queries may stand.
const STATEMENTS: [&str; 5] = ["select", "insert", "update", "delete", "with"];

/// In front of the number in the name of such an expression.
pub(crate) const LOCKING: &str = "*LOCK* ";

/// The places of a parenthesis and of the one that closes it.
#[derive(Clone, Copy)]
struct Group {
    open: usize,
    close: usize,
}

/// Puts the queries of a statement that lock rows into its WITH.
pub(super) fn hoist(tokens: &mut Vec<TokenWithSpan>) {
    let begins = |token: &TokenWithSpan| STATEMENTS.iter().any(|word| is(&token.token, word));
    let is_asked = tokens.first().is_some_and(begins);
    if !is_asked || !(0..tokens.len()).any(|at| locks_at(tokens, at)) {
        return;
    }
    let places = Places::of(tokens);
    let groups = places.locking(tokens);
    // Groups and the places of their expressions follow one another as the tokens do.
    let mut expressions = groups.iter().map(|group| places.expression_of(group)).enumerate();
    let mut next = expressions.next();
    let mut queries = groups.iter().enumerate().peekable();
    let mut out = Vec::with_capacity(tokens.len() + 16 * groups.len());
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        while let Some((number, _)) = next.filter(|(_, place)| *place == at) {
            places.put(expression(tokens, number + 1, groups[number]), at, number == 0, &mut out);
            next = expressions.next();
        }
        out.push(token.clone());
        at += 1;
        if let Some((number, group)) = queries.next_if(|(_, group)| group.open + 1 == at) {
            let word = |word: &str| spanned(Token::make_keyword(word), token);
            let star = spanned(Token::Mul, token);
            out.extend([word("SELECT"), star, word("FROM"), name(number + 1, token)]);
            at = group.close;
        }
    }
    *tokens = out;
}

/// Where the parts of a statement begin.
struct Places {
    /// Each expression of WITH.
    expressions: Vec<usize>,
    /// The statement behind WITH.
    main: usize,
}

impl Places {
    fn of(tokens: &[TokenWithSpan]) -> Places {
        let main = main_of(tokens);
        let mut expressions = Vec::new();
        let mut depth = 0usize;
        for (at, token) in tokens.iter().enumerate().take(main) {
            match &token.token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                Token::Comma if depth == 0 => expressions.push(at + 1),
                token if depth == 0 && (is(token, "with") || is(token, "recursive")) => {
                    expressions = vec![at + 1];
                }
                _ => {}
            }
        }
        Places { expressions, main }
    }

    /// The place in front of which the query of a group gets an expression.
    fn expression_of(&self, group: &Group) -> usize {
        match group.open > self.main {
            true => self.main,
            false => {
                let before = self.expressions.partition_point(|start| *start < group.open);
                before.checked_sub(1).map_or(self.main, |last| self.expressions[last])
            }
        }
    }

    /// The outermost groups of such queries, but for those that are expressions of WITH.
    fn locking(&self, tokens: &[TokenWithSpan]) -> Vec<Group> {
        let (mut open, mut marked, mut groups) = (Vec::new(), Vec::new(), Vec::<Group>::new());
        for (at, token) in tokens.iter().enumerate() {
            match &token.token {
                Token::LParen => open.push(at),
                Token::RParen => {
                    let Some(first) = open.pop() else { return Vec::new() };
                    if marked.last() == Some(&first) {
                        marked.pop();
                        while groups.last().is_some_and(|inner| inner.open > first) {
                            groups.pop();
                        }
                        groups.push(Group { open: first, close: at });
                    }
                }
                _ if locks_at(tokens, at) => {
                    let is_own = open.len() == 1 && at < self.main;
                    let first = open.last().filter(|first| marked.last() != Some(first));
                    marked.extend(first.filter(|first| !is_own && is_query(tokens, **first)));
                }
                _ => {}
            }
        }
        groups
    }

    /// Writes an expression of WITH in front of the token at `at`.
    fn put(
        &self,
        expression: Vec<TokenWithSpan>,
        at: usize,
        is_first: bool,
        out: &mut Vec<TokenWithSpan>,
    ) {
        let comma = spanned(Token::Comma, &expression[0]);
        if at < self.main {
            out.extend(expression);
            out.push(comma);
            return;
        }
        match self.main == 0 && is_first {
            true => out.push(spanned(Token::make_keyword("WITH"), &expression[0])),
            false => out.push(comma),
        }
        out.extend(expression);
    }
}

/// The expression of WITH that has the query of a group.
fn expression(tokens: &[TokenWithSpan], number: usize, group: Group) -> Vec<TokenWithSpan> {
    let first = &tokens[group.open];
    let mut expression = vec![name(number, first), spanned(Token::make_keyword("AS"), first)];
    expression.extend_from_slice(&tokens[group.open..=group.close]);
    expression
}

/// A token that stands where another does.
fn spanned(token: Token, at: &TokenWithSpan) -> TokenWithSpan {
    TokenWithSpan { token, span: at.span }
}

/// The name of the expression of this number.
fn name(number: usize, at: &TokenWithSpan) -> TokenWithSpan {
    let value = format!("{LOCKING}{number}");
    let keyword = Keyword::NoKeyword;
    spanned(Token::Word(Word { value, quote_style: Some('"'), keyword }), at)
}

/// Where the statement behind WITH begins.
fn main_of(tokens: &[TokenWithSpan]) -> usize {
    let mut depth = 0usize;
    let begins = |token: &Token| STATEMENTS[..4].iter().any(|word| is(token, word));
    tokens
        .iter()
        .position(|token| {
            match &token.token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                token => return depth == 0 && begins(token),
            }
            false
        })
        .unwrap_or(tokens.len())
}

/// Does FOR with the word of a lock stand here?
fn locks_at(tokens: &[TokenWithSpan], at: usize) -> bool {
    let next = |ahead: usize, word: &str| {
        tokens.get(at + ahead).is_some_and(|token| is(&token.token, word))
    };
    let is_key = (next(1, "no") && next(2, "key")) || (next(1, "key") && next(2, "share"));
    next(0, "for") && (next(1, "update") || next(1, "share") || is_key)
}

/// Does a query begin behind the parenthesis?
fn is_query(tokens: &[TokenWithSpan], open: usize) -> bool {
    tokens.get(open + 1).is_some_and(|next| is(&next.token, "select") || is(&next.token, "with"))
}
