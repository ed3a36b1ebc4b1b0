//! How deep the tree of a statement is, told from its tokens.
//!
//! sqlparser reads chains like `1 + 1 + ..` or `a IS NULL IS NULL ..` in a loop and makes trees of
//! them that are as deep as the chains are long. What copies, prints, binds, evaluates or drops
//! such a tree recurses once a level, so there is one limit for all of them, [`MAX_DEPTH`]. The
//! stack for it is reckoned in `session/stack`.
//!
//! Invariants: what is counted is never less than the depth, even where sqlparser takes a word for
//! a name that PostgreSQL reserves. Does not do: nesting of parentheses, which sqlparser bounds
//! ([`super::MAX_NESTING`]).

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::too_complex;
use crate::error::Result;

/// Most levels of the tree of a statement, each operator, AND and OR being one.
pub(crate) const MAX_DEPTH: usize = 5_000;
/// Levels that a set operation counts for: a copy of one takes three times the stack that a copy of
/// an operator takes.
const SET_OPERATION: usize = 4;

/// What stands between two parentheses, or CASE and END.
#[derive(Default)]
struct Level {
    is_case: bool,
    /// Operators of the expression that is being read.
    operators: usize,
    /// Depth of the deepest level inside of it.
    inside: usize,
    /// Depth of the deepest expression before it.
    before: usize,
    /// BETWEENs whose AND has not come.
    between: usize,
}

impl Level {
    fn depth(&self) -> usize {
        self.before.max(self.operators + self.inside)
    }

    /// The expression has ended, and is no operand of what follows.
    fn cut(&mut self) {
        *self = Level { is_case: self.is_case, before: self.depth(), ..Level::default() };
    }
}

#[derive(Default)]
struct Depth {
    /// Open levels around `top`.
    around: Vec<Level>,
    top: Level,
    junctions: usize,
    /// Has a word been met that says nothing of where an expression ends?
    odd: bool,
}

/// Refuses tokens whose tree would have more than `most` levels; gives how many it has, at most.
pub(super) fn check(tokens: &[TokenWithSpan], most: usize) -> Result<usize> {
    let depth = of(tokens);
    if depth > most { Err(too_complex()) } else { Ok(depth) }
}

/// How deep the tree of a statement is, at most.
pub(super) fn of(tokens: &[TokenWithSpan]) -> usize {
    let mut depth = Depth::default();
    let mut before = None;
    for token in tokens {
        depth.take(&token.token, before);
        before = Some(&token.token);
    }
    while depth.close() {}
    depth.top.depth() + depth.junctions
}

impl Depth {
    fn take(&mut self, token: &Token, before: Option<&Token>) {
        match token {
            Token::Word(word) if word.keyword == Keyword::NoKeyword => {}
            Token::Word(word) if !is_label(before) => {
                self.word(word.keyword, before.is_some_and(ends_operand));
            }
            Token::Comma => self.top.cut(),
            Token::LParen | Token::LBrace => self.open(false),
            Token::LBracket => {
                self.top.operators += 1;
                self.open(false);
            }
            Token::RParen | Token::RBrace | Token::RBracket => {
                // A CASE without END is none, and ends here too.
                while self.top.is_case && self.close() {}
                self.close();
            }
            Token::Word(_) | Token::Period => {}
            token if is_literal(token) => {}
            _ => self.top.operators += 1,
        }
    }

    /// A keyword; `ended` says that no operator in front of it waits for an operand.
    fn word(&mut self, keyword: Keyword, ended: bool) {
        use Keyword as K;
        match keyword {
            K::CASE => self.open(true),
            K::END if ended && self.top.is_case => {
                self.close();
            }
            K::AND if ended && self.top.between > 0 => self.top.between -= 1,
            K::AND | K::OR | K::UNION | K::INTERSECT | K::EXCEPT => {
                let of_conditions = matches!(keyword, K::AND | K::OR);
                self.junctions += if of_conditions { 1 } else { SET_OPERATION };
                match ended && !self.odd {
                    true => self.top.cut(),
                    false => self.top.operators += 1,
                }
            }
            K::BETWEEN => {
                self.top.operators += 1;
                self.top.between += 1;
            }
            K::IS | K::NOTNULL | K::NOT | K::IN | K::LIKE | K::ILIKE => {
                self.top.operators += 1;
            }
            K::COLLATE | K::AT | K::OVERLAPS => self.top.operators += 1,
            // PostgreSQL has no such operators, or never writes them.
            K::SIMILAR | K::REGEXP | K::RLIKE | K::MATCH | K::GLOB | K::MEMBER | K::XOR => {
                (self.odd, self.top.operators) = (true, self.top.operators + 1);
            }
            K::DIV | K::OPERATOR => {
                (self.odd, self.top.operators) = (true, self.top.operators + 1);
            }
            // No operator is called like these, so the expression in front has ended.
            K::SELECT
            | K::FROM
            | K::WHERE
            | K::GROUP
            | K::HAVING
            | K::ORDER
            | K::LIMIT
            | K::OFFSET
            | K::SET
            | K::VALUES
            | K::RETURNING
            | K::ON
            | K::WHEN
            | K::THEN
            | K::ELSE
                if ended && !self.odd =>
            {
                self.top.cut();
            }
            _ => {}
        }
    }

    fn open(&mut self, is_case: bool) {
        let level = Level { is_case, ..Level::default() };
        self.around.push(std::mem::replace(&mut self.top, level));
    }

    /// Leaves the level; `false` if there is none around it.
    fn close(&mut self) -> bool {
        let Some(outer) = self.around.pop() else { return false };
        let depth = std::mem::replace(&mut self.top, outer).depth();
        self.top.inside = self.top.inside.max(depth + 1);
        true
    }
}

/// After these even a reserved word is a name.
fn is_label(before: Option<&Token>) -> bool {
    match before {
        Some(Token::Word(word)) => word.keyword == Keyword::AS,
        before => before == Some(&Token::Period),
    }
}

fn is_literal(token: &Token) -> bool {
    matches!(
        token,
        Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::DollarQuotedString(_)
            | Token::Placeholder(_)
    )
}

/// Is the token surely the end of an operand, so that a word behind it is no name?
fn ends_operand(token: &Token) -> bool {
    use Keyword as K;
    match token {
        Token::Word(word) => !matches!(
            word.keyword,
            K::AND
                | K::OR
                | K::NOT
                | K::IS
                | K::DISTINCT
                | K::FROM
                | K::IN
                | K::BETWEEN
                | K::LIKE
                | K::ILIKE
                | K::ANY
                | K::ALL
                | K::SOME
                | K::ESCAPE
                | K::COLLATE
                | K::AT
                | K::TIME
                | K::ZONE
                | K::OVERLAPS
                | K::OVER
                | K::WITHIN
                | K::TO
                | K::OF
        ),
        Token::RParen | Token::RBracket => true,
        token => is_literal(token),
    }
}
