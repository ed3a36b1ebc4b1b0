//! A walk over the tokens of a statement.
//!
//! Does not do: expressions; it hands the rest to sqlparser.

use sqlparser::ast;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::{Result, SqlError};
use crate::names;
use crate::parse::{Lines, near, run};

/// In place of a table behind OF, or in front of one: the lock is one that leaves keys alone.
pub(crate) const KEY_LOCK: &str = "\u{1}key";

/// In place of the columns of a SELECT that has none.
pub(crate) const NO_COLUMNS: &str = "\u{1}no columns";

/// Words that may stand behind the columns of a SELECT, but for FROM.
const BEHIND_LIST: [&str; 13] = [
    "where",
    "group",
    "having",
    "window",
    "union",
    "intersect",
    "except",
    "order",
    "limit",
    "offset",
    "fetch",
    "for",
    "into",
];

/// In front of the name of a cursor: WHERE CURRENT OF.
pub(crate) const CURRENT: &str = "\u{1}current";

/// Is the token this word, not in quotes?
pub(super) fn is(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(found)
        if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
}

/// What an INSERT says of the values that it gives identity columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Overriding {
    /// They are stored, also where a column is GENERATED ALWAYS.
    System,
    /// They are passed over, and the sequence gives the values.
    User,
}

impl Overriding {
    /// The name under which it stands among the settings of sqlparser's INSERT.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Overriding::System => "overriding system value",
            Overriding::User => "overriding user value",
        }
    }

    /// What the statement says.
    pub(crate) fn of(insert: &ast::Insert) -> Option<Overriding> {
        let said = |what: &Overriding| {
            insert.settings.iter().flatten().any(|setting| setting.key.value == what.name())
        };
        [Overriding::System, Overriding::User].into_iter().find(said)
    }
}

/// Tokens and a place among them.
pub(crate) struct Cursor {
    tokens: Vec<TokenWithSpan>,
    at: usize,
    pub(crate) lines: Lines,
}

impl Cursor {
    pub(crate) fn new(tokens: Vec<TokenWithSpan>, lines: Lines) -> Cursor {
        assert!(!tokens.is_empty(), "a statement has tokens");
        Cursor { tokens, at: 0, lines }
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|token| &token.token)
    }

    /// The error for the token at which it stands.
    pub(crate) fn unexpected(&self) -> SqlError {
        match self.tokens.get(self.at) {
            Some(token) => near(token, &self.lines),
            None => SqlError::syntax("syntax error at end of input"),
        }
    }

    /// Is the next token this word?
    pub(crate) fn is(&self, word: &str) -> bool {
        self.is_at(0, word)
    }

    /// Is the token `ahead` of here this word?
    pub(crate) fn is_at(&self, ahead: usize, word: &str) -> bool {
        match self.tokens.get(self.at + ahead).map(|token| &token.token) {
            Some(token) => is(token, word),
            None => false,
        }
    }

    /// The place at which it stands, for [`Cursor::return_to`].
    pub(crate) fn place(&self) -> usize {
        self.at
    }

    /// Stands again at a place where it stood before.
    pub(crate) fn return_to(&mut self, place: usize) {
        assert!(place <= self.at, "no token is passed over");
        self.at = place;
    }

    /// How many tokens there are still.
    pub(crate) fn left(&self) -> usize {
        self.tokens.len().saturating_sub(self.at)
    }

    /// Takes the word if it is next.
    pub(crate) fn take(&mut self, word: &str) -> bool {
        let found = self.is(word);
        self.at += usize::from(found);
        found
    }

    /// Takes the first of these words that is next.
    pub(crate) fn take_any(&mut self, words: &[&'static str]) -> Option<&'static str> {
        words.iter().copied().find(|word| self.take(word))
    }

    pub(crate) fn expect(&mut self, word: &str) -> Result<()> {
        if self.take(word) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// Takes the token if it is next.
    pub(crate) fn take_token(&mut self, wanted: &Token) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    pub(crate) fn expect_token(&mut self, wanted: &Token) -> Result<()> {
        if self.take_token(wanted) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// Takes a name; without quotes it is in lower case.
    pub(crate) fn name(&mut self) -> Result<String> {
        match self.peek() {
            Some(Token::Word(word)) => {
                let name = match word.quote_style {
                    Some(_) => word.value.clone(),
                    None => word.value.to_lowercase(),
                };
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.unexpected()),
        }
    }

    /// Takes a name with dots; gives its parts.
    pub(crate) fn qualified(&mut self) -> Result<Vec<String>> {
        let mut parts = vec![self.name()?];
        while self.take_token(&Token::Period) {
            parts.push(self.name()?);
        }
        Ok(parts)
    }

    /// Takes a whole number with an optional sign.
    pub(crate) fn number(&mut self) -> Option<i64> {
        let start = self.at;
        let sign = match self.peek() {
            Some(Token::Minus) => "-",
            _ => "",
        };
        self.at += usize::from(!sign.is_empty() || self.peek() == Some(&Token::Plus));
        match self.peek() {
            Some(Token::Number(digits, _)) => {
                let number = format!("{sign}{digits}").parse::<i64>().ok();
                self.at = if number.is_some() { self.at + 1 } else { start };
                number
            }
            _ => {
                self.at = start;
                None
            }
        }
    }

    /// Takes a string in quotes.
    pub(crate) fn string(&mut self) -> Option<String> {
        let text = match self.peek() {
            Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) => {
                text.clone()
            }
            Some(Token::DollarQuotedString(text)) => text.value.clone(),
            _ => return None,
        };
        self.at += 1;
        Some(text)
    }

    /// Takes a word, number or string as it stands.
    pub(crate) fn value(&mut self) -> Option<String> {
        if let Some(text) = self.string() {
            return Some(text);
        }
        let start = self.at;
        let minus = if self.take_token(&Token::Minus) { "-" } else { "" };
        let text = match self.peek() {
            Some(Token::Number(digits, _)) => format!("{minus}{digits}"),
            Some(Token::Word(word)) if minus.is_empty() => word.value.clone(),
            _ => {
                self.at = start;
                return None;
            }
        };
        self.at += 1;
        Some(text)
    }

    /// Puts [`NO_COLUMNS`] behind each SELECT that has neither columns nor FROM: sqlparser wants a
    /// column there. The words that may come next are reserved, and so begin no expression.
    pub(crate) fn empty_lists(&mut self) {
        let mut at = self.at;
        while let Some(found) = self.tokens[at..].iter().position(|one| is(&one.token, "select")) {
            at += found + 1;
            if self.tokens.get(at).is_some_and(|one| is(&one.token, "all")) {
                at += 1;
            }
            let ends = match self.tokens.get(at).map(|one| &one.token) {
                None | Some(Token::RParen | Token::SemiColon | Token::EOF) => true,
                Some(word) => BEHIND_LIST.iter().any(|behind| is(word, behind)),
            };
            if ends {
                let span = self.tokens[at - 1].span;
                let token = Token::make_word(NO_COLUMNS, Some('"'));
                self.tokens.insert(at, TokenWithSpan { token, span });
            }
        }
    }

    /// Spells FOR UPDATE OF a, b as FOR UPDATE OF a FOR UPDATE OF b: sqlparser reads one name only.
    pub(crate) fn one_lock_each(&mut self) {
        let token =
            |tokens: &[TokenWithSpan], at: usize| tokens.get(at).map(|one| one.token.clone());
        let mut at = self.at;
        while at < self.tokens.len() {
            let words = ["no", "key", "update", "share"];
            let is_word = |at: usize| words.iter().any(|word| is(&self.tokens[at].token, word));
            let start = at;
            at += 1;
            if !is(&self.tokens[start].token, "for") {
                continue;
            }
            let of = (start + 1..self.tokens.len()).find(|at| !is_word(*at));
            let Some(of) = of.filter(|of| *of > start + 1 && is(&self.tokens[*of].token, "of"))
            else {
                continue;
            };
            let mut end = of + 2;
            while token(&self.tokens, end) == Some(Token::Comma) {
                end += 2;
            }
            if end == of + 2 || end > self.tokens.len() {
                continue;
            }
            let names: Vec<TokenWithSpan> =
                self.tokens[of + 1..end].iter().step_by(2).cloned().collect();
            let waits = ["nowait", "skip", "locked"];
            let is_wait = |at: &usize| {
                let found = self.tokens.get(*at);
                found.is_some_and(|one| waits.iter().any(|word| is(&one.token, word)))
            };
            let last = (end..).find(|at| !is_wait(at)).unwrap_or(end);
            let (head, tail) = (&self.tokens[start..=of], &self.tokens[end..last]);
            let each = names.iter().flat_map(|name| {
                head.iter().chain(std::iter::once(name)).chain(tail).cloned().collect::<Vec<_>>()
            });
            let each: Vec<TokenWithSpan> = each.collect();
            at = start + each.len();
            self.tokens.splice(start..last, each);
        }
    }

    /// Spells FOR NO KEY UPDATE as FOR UPDATE OF [`KEY_LOCK`], and FOR KEY SHARE as FOR SHARE OF
    /// it, in front of the table that it names, if any: sqlparser does not know these two.
    pub(crate) fn plain_locks(&mut self) {
        if !self.tokens.iter().any(|token| is(&token.token, "key")) {
            return;
        }
        let rest = self.tokens.split_off(self.at);
        let begins = |at: usize, words: &[&str]| {
            let tokens = rest.get(at..at + words.len());
            tokens.is_some_and(|tokens| tokens.iter().zip(words).all(|(t, w)| is(&t.token, w)))
        };
        let mut at = 0;
        while let Some(token) = rest.get(at) {
            self.tokens.push(token.clone());
            at += match token {
                _ if begins(at, &["for", "no", "key", "update"]) => 3,
                _ if begins(at, &["for", "key", "share"]) => 2,
                _ => {
                    at += 1;
                    continue;
                }
            };
            // UPDATE or SHARE, and the table that it names.
            let lock = &rest[at];
            self.tokens.push(lock.clone());
            at += 1;
            let token = |token| TokenWithSpan { token, span: lock.span };
            let mark = token(Token::make_word(KEY_LOCK, Some('"')));
            match rest.get(at).filter(|next| is(&next.token, "of")) {
                Some(of) => {
                    self.tokens.extend([of.clone(), mark, token(Token::Period)]);
                    at += 1;
                }
                None => self.tokens.extend([token(Token::make_keyword("OF")), mark]),
            }
        }
    }

    /// Spells WHERE CURRENT OF c of an UPDATE or DELETE as WHERE [`CURRENT`].c: sqlparser does not
    /// know it.
    pub(crate) fn current_of(&mut self) -> Result<()> {
        if !self.is("update") && !self.is("delete") {
            return Ok(());
        }
        let (start, mut depth) = (self.at, 0usize);
        while let Some(token) = self.peek() {
            match token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                _ if depth == 0
                    && ["where", "current", "of"]
                        .iter()
                        .enumerate()
                        .all(|(n, w)| self.is_at(n, w)) =>
                {
                    let place = self.at + 1;
                    self.at += 3;
                    let name = self.name()?;
                    if !self.is_end() && !self.is("returning") {
                        return Err(self.unexpected());
                    }
                    let (end, span) = (self.at, self.tokens[place].span);
                    let mark = Token::make_word(CURRENT, Some('"'));
                    let name = Token::make_word(&name, Some('"'));
                    let tokens = [mark, Token::Period, name];
                    let tokens = tokens.map(|token| TokenWithSpan { token, span });
                    self.tokens.splice(place..end, tokens);
                    break;
                }
                _ => {}
            }
            self.at += 1;
        }
        self.at = start;
        Ok(())
    }

    /// Lets `work` spell the tokens otherwise, of which none is taken yet.
    pub(super) fn respelled<T>(
        &mut self,
        work: impl FnOnce(&mut Vec<TokenWithSpan>, &Lines) -> Result<T>,
    ) -> Result<T> {
        assert_eq!(self.at, 0, "no token is taken");
        work(&mut self.tokens, &self.lines)
    }

    /// Cuts off what begins with one of these words behind the next `skip` tokens, outside of
    /// parentheses, and gives the parts.
    pub(crate) fn cut_at(&mut self, skip: usize, words: &[&str]) -> Vec<Vec<TokenWithSpan>> {
        let (mut starts, mut depth) = (Vec::new(), 0usize);
        for ahead in 0..self.left() {
            match &self.tokens[self.at + ahead].token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                _ if depth == 0 && ahead >= skip && words.iter().any(|w| self.is_at(ahead, w)) => {
                    starts.push(self.at + ahead);
                }
                _ => {}
            }
        }
        let mut parts: Vec<_> = starts.iter().rev().map(|at| self.tokens.split_off(*at)).collect();
        parts.reverse();
        parts
    }

    /// The same as cursors of their own, with all that is left.
    pub(crate) fn parts_at(&mut self, words: &[&str]) -> Vec<Cursor> {
        let parts = self.cut_at(0, words);
        parts.into_iter().map(|tokens| self.over(tokens)).collect()
    }

    /// A cursor over some tokens of the same text.
    pub(crate) fn over(&self, tokens: Vec<TokenWithSpan>) -> Cursor {
        Cursor::new(tokens, self.lines.clone())
    }

    /// Is this token the next one?
    pub(crate) fn is_token(&self, wanted: &Token) -> bool {
        self.peek() == Some(wanted)
    }

    /// How many tokens stand before the first of this word outside of parentheses.
    pub(crate) fn distance_to(&self, word: &str) -> Option<usize> {
        let mut depth = 0usize;
        (0..self.left()).find(|ahead| {
            match &self.tokens[self.at + ahead].token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                _ => return depth == 0 && self.is_at(*ahead, word),
            }
            false
        })
    }

    /// How many tokens stand before the first of this kind outside of parentheses.
    pub(crate) fn distance_to_token(&self, wanted: &Token) -> Option<usize> {
        let mut depth = 0usize;
        let rest = self.tokens.get(self.at..).unwrap_or_default();
        rest.iter().position(|token| {
            match &token.token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                found => return depth == 0 && found == wanted,
            }
            false
        })
    }

    /// Takes so many tokens.
    pub(crate) fn take_tokens(&mut self, count: usize) -> Vec<TokenWithSpan> {
        let taken = self.tokens[self.at..self.at + count].to_vec();
        self.at += count;
        taken
    }

    /// Puts the keyword `word` in the place of the token `ahead` of here.
    pub(crate) fn respell(&mut self, ahead: usize, word: &str) {
        self.tokens[self.at + ahead].token = Token::make_keyword(word);
    }

    /// Takes a token out that stands so many ahead.
    pub(crate) fn take_out(&mut self, ahead: usize) {
        self.tokens.remove(self.at + ahead);
    }

    /// Cuts the last tokens off, so many of them.
    pub(crate) fn cut_off(&mut self, count: usize) {
        self.tokens.truncate(self.tokens.len() - count);
    }

    /// Is everything taken?
    pub(crate) fn is_end(&self) -> bool {
        self.at == self.tokens.len()
    }

    /// Fails unless everything is taken.
    pub(crate) fn end(&self) -> Result<()> {
        if self.is_end() { Ok(()) } else { Err(self.unexpected()) }
    }

    /// Takes everything that is left.
    pub(crate) fn rest(&mut self) -> Result<Vec<TokenWithSpan>> {
        if self.is_end() {
            return Err(self.unexpected());
        }
        let rest = self.tokens[self.at..].to_vec();
        self.at = self.tokens.len();
        Ok(rest)
    }

    /// Takes what stands between this parenthesis and the one that closes it.
    pub(crate) fn parenthesised(&mut self) -> Result<Vec<TokenWithSpan>> {
        self.expect_token(&Token::LParen)?;
        let start = self.at;
        let mut depth = 1;
        while depth > 0 {
            match self.peek() {
                Some(Token::LParen) => depth += 1,
                Some(Token::RParen) => depth -= 1,
                Some(_) => {}
                None => return Err(self.unexpected()),
            }
            self.at += 1;
        }
        Ok(self.tokens[start..self.at - 1].to_vec())
    }

    /// Takes OVERRIDING SYSTEM VALUE or OVERRIDING USER VALUE out of an INSERT: sqlparser knows
    /// neither. They stand before the rows, outside of any parentheses.
    pub(crate) fn overriding(&mut self) -> Option<Overriding> {
        if !self.is("insert") {
            return None;
        }
        let mut depth = 0usize;
        for at in self.at..self.tokens.len().saturating_sub(2) {
            let word = |ahead: usize, word: &str| is(&self.tokens[at + ahead].token, word);
            match self.tokens[at].token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                _ if depth > 0 => {}
                _ if word(0, "values") || word(0, "select") || word(0, "with") => return None,
                _ if word(0, "overriding") && word(2, "value") => {
                    let what = match () {
                        () if word(1, "system") => Overriding::System,
                        () if word(1, "user") => Overriding::User,
                        () => return None,
                    };
                    self.tokens.drain(at..at + 3);
                    return Some(what);
                }
                _ => {}
            }
        }
        None
    }

    /// Takes expressions out of the list of ON CONFLICT, which sqlparser takes for one of columns:
    /// there a name of [`names::computed`] stands in the place of each, by its number.
    pub(crate) fn conflict_expressions(&mut self) -> Result<Vec<ast::Expr>> {
        if !self.is("insert") {
            return Ok(Vec::new());
        }
        let begins = |at: usize| {
            is(&self.tokens[at].token, "on")
                && is(&self.tokens[at + 1].token, "conflict")
                && self.tokens[at + 2].token == Token::LParen
        };
        let last = self.tokens.len().saturating_sub(2);
        let Some(start) = (self.at..last).find(|at| begins(*at)) else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        let (mut from, mut at, mut depth) = (start + 3, start + 3, 0usize);
        while let Some(token) = self.tokens.get(at).map(|token| token.token.clone()) {
            let ends = depth == 0 && matches!(token, Token::Comma | Token::RParen);
            if ends && at > from {
                if at - from > 1 || !matches!(self.tokens[from].token, Token::Word(_)) {
                    let name = names::computed(found.len());
                    let name = TokenWithSpan::new(
                        Token::make_word(&name, Some('"')),
                        self.tokens[from].span,
                    );
                    let tokens = self.tokens.splice(from..at, [name]).collect();
                    found.push(run(tokens, &self.lines, |parser| parser.parse_expr())?);
                    at = from + 1;
                }
                from = at + 1;
            }
            match token {
                Token::LParen => depth += 1,
                Token::RParen if depth == 0 => break,
                Token::RParen => depth -= 1,
                _ => {}
            }
            at += 1;
        }
        Ok(found)
    }

    /// Takes the condition behind the columns of ON CONFLICT out of an INSERT: sqlparser knows
    /// none.
    pub(crate) fn arbiter(&mut self) -> Result<Option<ast::Expr>> {
        if !self.is("insert") {
            return Ok(None);
        }
        let start = self.at;
        let found = self.arbiter_tokens();
        self.at = start;
        let Some((from, to)) = found else { return Ok(None) };
        let mut tokens: Vec<_> = self.tokens.drain(from..to).collect();
        tokens.remove(0);
        if tokens.is_empty() {
            self.at = from;
            return Err(self.unexpected());
        }
        run(tokens, &self.lines, |parser| parser.parse_expr()).map(Some)
    }

    /// Places of the WHERE behind the columns of ON CONFLICT, and of the DO behind its condition.
    fn arbiter_tokens(&mut self) -> Option<(usize, usize)> {
        let (mut depth, mut columns, mut begins) = (0usize, false, None);
        while let Some(token) = self.peek() {
            match token {
                Token::LParen => {
                    columns |= depth == 0
                        && self.at > 1
                        && is(&self.tokens[self.at - 2].token, "on")
                        && is(&self.tokens[self.at - 1].token, "conflict");
                    depth += 1;
                }
                Token::RParen => {
                    depth = depth.saturating_sub(1);
                    let ends = columns && begins.is_none() && depth == 0;
                    begins =
                        if ends && self.is_at(1, "where") { Some(self.at + 1) } else { begins };
                    columns &= !ends;
                }
                _ if depth == 0 && begins.is_some() && self.is("do") => {
                    return begins.map(|from| (from, self.at));
                }
                _ => {}
            }
            self.at += 1;
        }
        None
    }

    /// Has sqlparser read everything that is left.
    pub(crate) fn parse<T>(
        &mut self,
        work: impl FnOnce(&mut Parser<'_>) -> std::result::Result<T, ParserError>,
    ) -> Result<T> {
        let lines = self.lines.clone();
        run(self.rest()?, &lines, work)
    }
}
