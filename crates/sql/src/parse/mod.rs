//! Text to statements.
//!
//! | file | hides |
//! |---|---|
//! | `utility` | statements that are no queries, read from the tokens |
//! | `types`, `roles` | statements about types; about roles, privileges and owners |
//! | `explain`, `modes`, `block` | options of EXPLAIN; modes of transactions; code of DO blocks |
//! | `cursor`, `assigned` | a walk over tokens; subscripts behind columns that are assigned to |
//! | `create_as`, `typed_literals` | CREATE TABLE AS, SELECT INTO; literals behind their types |
//! | `grouping`, `frame` | sets of GROUP BY; EXCLUDE of window frames |
//! | `chain`, `column_names` | operators by PostgreSQL's ranks; names of columns that have none |
//! | `order`, `identity_names` | options of identity columns; names of their sequences |
//! | `depth`, `locking_queries` | how deep expressions nest; FOR UPDATE inside of a statement |
//! | `view`, `refused` | views as they are kept; names of statements that are not here |
//! | `weight` | how much memory reading a message takes |
//!
//! A message is cut into tokens once and at its semicolons into statements. Utility statements are
//! read here; everything else by sqlparser.
//!
//! Invariants: a message is parsed as a whole before any of it runs, and its nesting is bounded
//! before anything recursive touches it. What reading it takes is bounded by the memory of the
//! database before anything is read, and long messages are read one after the other: sqlparser's
//! trees are up to a thousand times as large as the text. Positions count characters of the message
//! from 1.
//! Does not do: names, types.

pub(crate) mod assigned;
pub(crate) mod block;
pub(crate) mod chain;
pub(crate) mod column_names;
pub(crate) mod copy;
pub(crate) mod create_as;
pub(crate) mod cursor;
mod depth;
pub(crate) mod explain;
mod fetch;
pub(crate) mod frame;
pub(crate) mod functions;
pub(crate) mod grouping;
pub(crate) mod identifiers;
pub(crate) mod identity_names;
pub(crate) mod like;
pub(crate) mod locking_queries;
pub(crate) mod modes;
pub(crate) mod named_arguments;
mod order;
pub(crate) mod plain_table;
mod refused;
pub(crate) mod roles;
pub(crate) mod stars;
mod table_query;
mod trim;
mod typed_literals;
pub(crate) mod types;
pub(crate) mod utility;
pub(crate) mod view;
mod weight;

use std::collections::BTreeSet;

use rightlink_env::sync::Mutex;
use sqlparser::ast;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer};

use crate::error::{Result, SqlError, code};
use crate::names;
use crate::types::literal::literal;
use cursor::Cursor;
pub(crate) use depth::MAX_DEPTH;
use utility::Utility;

/// Longest message.
const MAX_BYTES: usize = 64 << 20;

/// Most levels of parentheses, calls and subqueries: sqlparser recurses in its largest functions
/// once a level, twice for a subquery.
pub(crate) const MAX_NESTING: usize = 50;

/// Most levels of the tree of an expression that is kept with a table: every message that meets the
/// table has to have the stack for it.
const MAX_KEPT_DEPTH: usize = 500;

/// Messages that take more memory to read are read one at a time.
const LONG: usize = 1 << 20;

/// Held while a long message is read.
static READING: Mutex<()> = Mutex::new(());

/// The name under which the condition of ON CONFLICT stands among the settings of an INSERT.
pub(crate) const ARBITER: &str = "where";

/// A statement.
#[derive(Clone, Debug)]
pub(crate) enum Stmt {
    /// Read from the tokens.
    Utility(Utility),
    /// Read by sqlparser.
    Sql(Box<ast::Statement>),
}

/// A statement and its place in the message.
#[derive(Clone, Debug)]
pub(crate) struct Parsed {
    pub(crate) stmt: Stmt,
    pub(crate) lines: Lines,
}

impl Parsed {
    /// The statement, as it was understood; `None` for a utility statement.
    pub(crate) fn written(&self) -> Option<String> {
        match &self.stmt {
            Stmt::Sql(statement) => Some(statement.to_string()),
            Stmt::Utility(_) => None,
        }
    }
}

/// Where lines begin, to turn lines and columns into positions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines(std::sync::Arc<Vec<usize>>);

impl Lines {
    pub(crate) fn of(text: &str) -> Lines {
        let mut starts = vec![0];
        starts.extend(text.chars().enumerate().filter(|(_, c)| *c == '\n').map(|(at, _)| at + 1));
        Lines(std::sync::Arc::new(starts))
    }

    fn location(&self, location: Location) -> Option<usize> {
        let line = usize::try_from(location.line).ok()?.checked_sub(1)?;
        Some(self.0.get(line)? + usize::try_from(location.column).ok()?)
    }

    /// Position at which `span` begins.
    pub(crate) fn position(&self, span: Span) -> Option<usize> {
        self.location(span.start)
    }
}

/// What reading a message may take however small the database's budget is.
const LEAST_TO_READ: usize = 64 << 20;

/// What reading a text may take of a database's memory.
pub(crate) fn memory_to_read(budget: &rightlink::Budget) -> usize {
    budget.limit().max(LEAST_TO_READ)
}

/// The statements of a message. Empty ones are left out. Reading it takes about `memory` bytes at
/// most.
pub(crate) fn parse(text: &str, memory: usize) -> Result<Vec<Parsed>> {
    reading(text, memory, |mut all, lines| {
        // From the end, so that a message of one statement is not copied.
        let mut parts = Vec::new();
        while let Some(at) = all.iter().rposition(|token| token.token == Token::SemiColon) {
            parts.push(all.split_off(at + 1));
            all.pop();
        }
        parts.push(all);
        let statements = parts.into_iter().rev().filter(|part| !part.is_empty());
        statements.map(|part| statement(part, lines)).collect()
    })
}

/// Reads a text by `work`, which gets its tokens, where there is memory for that.
fn reading<T>(
    text: &str,
    memory: usize,
    work: impl FnOnce(Vec<TokenWithSpan>, &Lines) -> Result<T>,
) -> Result<T> {
    if text.len() > MAX_BYTES {
        let message = format!("a message is at most {} MiB long", MAX_BYTES >> 20);
        return Err(SqlError::new(code::PROGRAM_LIMIT, message));
    }
    let weight = weight::of(text);
    if weight > memory {
        return Err(weight::too_much(weight, memory));
    }
    // Nobody who holds it waits for anything.
    let _alone = (weight > LONG).then(|| READING.lock());
    let lines = Lines::of(text);
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location();
    let tokens = tokens
        .map_err(|error| SqlError::syntax(error.message).at(lines.location(error.location)))?;
    if let Some(junk) = tokens.windows(2).find_map(|pair| junk(&pair[0], &pair[1], &lines)) {
        return Err(junk);
    }
    let meaningful = tokens.into_iter().filter(|t| !matches!(t.token, Token::Whitespace(_)));
    let all: Vec<TokenWithSpan> = meaningful.collect();
    if let Some(found) = all.iter().find(|token| has_separator(&token.token)) {
        let message = format!("the character {} in a name", names::SEPARATOR);
        return Err(SqlError::new(code::INVALID_NAME, format!("{message} is not supported"))
            .at(lines.location(found.span.start)));
    }
    work(all, &lines)
}

/// The error for a number that a word follows at once: no alias.
fn junk(number: &TokenWithSpan, next: &TokenWithSpan, lines: &Lines) -> Option<SqlError> {
    let (Token::Number(digits, _), Token::Word(word)) = (&number.token, &next.token) else {
        return None;
    };
    let first = word.value.chars().next().filter(|_| word.quote_style.is_none())?;
    let message = format!("trailing junk after numeric literal at or near \"{digits}{first}\"");
    Some(SqlError::syntax(message).at(lines.position(number.span)))
}

/// About how many bytes the tree of a statement takes.
pub(crate) fn weight(text: &str) -> usize {
    weight::of(text)
}

/// Is it a name that could be taken for one with a schema in front?
fn has_separator(token: &Token) -> bool {
    matches!(token, Token::Word(word) if word.value.contains(names::SEPARATOR))
}

/// A literal of a message and where it stands.
pub(crate) struct Place {
    pub(crate) at: Location,
    pub(crate) text: String,
    pub(crate) is_number: bool,
}

/// The numbers and strings in quotes of a message; `None` if it has literals of other kinds.
pub(crate) fn places(text: &str) -> Option<Vec<Place>> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location().ok()?;
    let mut places = Vec::new();
    for token in tokens {
        let (text, is_number) = match token.token {
            Token::Number(text, false) => (text, true),
            Token::SingleQuotedString(text) => (text, false),
            Token::Number(..)
            | Token::EscapedStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::DollarQuotedString(_)
            | Token::Placeholder(_) => return None,
            _ => continue,
        };
        places.push(Place { at: token.span.start, text, is_number });
    }
    Some(places)
}

/// A text in which other names stand for sequences, where `other` gives one for a name.
pub(crate) fn with_sequences(
    text: &str,
    mut other: impl FnMut(&str) -> Result<Option<String>>,
) -> Result<String> {
    let mut edits = Vec::new();
    for (place, name) in sequences(text)? {
        edits.extend(other(&name)?.map(|other| (place, literal(&other))));
    }
    Ok(replaced(text, &edits))
}

/// Where a text names sequences, and their names.
fn sequences(text: &str) -> Result<Vec<(Span, String)>> {
    // Most texts ask none of the three.
    if !text.to_ascii_lowercase().contains("val") {
        return Ok(Vec::new());
    }
    let tokens = tokens(text)?;
    let mut found = Vec::new();
    for three in tokens.windows(3) {
        if let (Token::Word(word), Token::LParen, Token::SingleQuotedString(name)) =
            (&three[0].token, &three[1].token, &three[2].token)
            && ["nextval", "currval", "setval"].iter().any(|f| word.value.eq_ignore_ascii_case(f))
        {
            found.push((three[2].span, name.clone()));
        }
    }
    Ok(found)
}

/// A kept text with other strings in the places that `other` gives one for, by their positions.
pub(crate) fn with_literals(text: &str, other: impl Fn(usize) -> Option<String>) -> Result<String> {
    let lines = Lines::of(text);
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location();
    let tokens = tokens.map_err(|error| SqlError::syntax(error.message))?;
    let mut out = text.to_owned();
    for token in tokens.into_iter().rev() {
        let is_string = matches!(
            token.token,
            Token::SingleQuotedString(_)
                | Token::EscapedStringLiteral(_)
                | Token::UnicodeStringLiteral(_)
                | Token::NationalStringLiteral(_)
                | Token::DollarQuotedString(_)
        );
        let new = lines.position(token.span).filter(|_| is_string).and_then(&other);
        let ends = offset(text, token.span.start).zip(offset(text, token.span.end));
        if let (Some(new), Some((start, end))) = (new, ends) {
            out.replace_range(start..end, &new);
        }
    }
    Ok(out)
}

/// The words of a text, as names.
pub(crate) fn words(text: &str) -> Result<BTreeSet<String>> {
    let tokens = kept_tokens(text)?.into_iter();
    Ok(tokens.filter_map(|token| identifiers::name(&token.token)).collect())
}

/// Where in `text` a place is that the tokenizer tells.
pub(crate) fn offset(text: &str, at: Location) -> Option<usize> {
    let before = usize::try_from(at.line).ok()?.checked_sub(1)?;
    let start: usize = text.split_inclusive('\n').take(before).map(str::len).sum();
    let column = usize::try_from(at.column).ok()?.checked_sub(1)?;
    let rest = text.get(start..)?;
    let mut ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    ends.nth(column).map(|at| start + at)
}

/// A text with others in these places, which follow one another.
fn replaced(text: &str, edits: &[(Span, String)]) -> String {
    let mut out = text.to_owned();
    for (span, new) in edits.iter().rev() {
        if let Some((start, end)) = offset(text, span.start).zip(offset(text, span.end)) {
            out.replace_range(start..end, new);
        }
    }
    out
}

/// The tokens of a text, blanks left out.
fn tokens(text: &str) -> Result<Vec<TokenWithSpan>> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location();
    let tokens = tokens.map_err(|error| SqlError::syntax(error.message))?;
    let meaningful = tokens.into_iter().filter(|t| !matches!(t.token, Token::Whitespace(_)));
    Ok(meaningful.collect())
}

/// The tokens of a text that is kept with a definition.
fn kept_tokens(text: &str) -> Result<Vec<TokenWithSpan>> {
    let mut tokens = tokens(text)?;
    typed_literals::literals(&mut tokens);
    grouping::sets(&mut tokens);
    stars::fields(&mut tokens);
    frame::exclusions(&mut tokens);
    fetch::counts(&mut tokens);
    trim::sides(&mut tokens);
    named_arguments::spelled(&mut tokens);
    Ok(tokens)
}

/// Is it a call, also one with a syntax of its own, so that an index takes it without parentheses?
pub(crate) fn is_call(expr: &ast::Expr) -> bool {
    use ast::Expr as E;
    matches!(
        expr,
        E::Function(_)
            | E::Extract { .. }
            | E::Ceil { .. }
            | E::Floor { .. }
            | E::Position { .. }
            | E::Substring { .. }
            | E::Overlay { .. }
            | E::Trim { .. }
    )
}

/// One expression, as definitions are kept.
pub(crate) fn expression(text: &str) -> Result<ast::Expr> {
    let (lines, tokens) = (Lines::of(text), kept_tokens(text)?);
    depth::check(&tokens, MAX_KEPT_DEPTH)?;
    run(tokens, &lines, |parser| parser.parse_expr())
}

/// Does the text end with the semicolon of a statement, outside of quotes and comments?
pub fn is_complete(text: &str) -> bool {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize();
    let mut rest = tokens.iter().flatten().rev();
    let last = rest.find(|token| !matches!(token, Token::Whitespace(_)));
    // Text that is no tokens is complete at a semicolon, so that it can be refused.
    match tokens {
        Ok(_) => last == Some(&Token::SemiColon),
        Err(error) => !error.message.contains("nterminated") && text.trim_end().ends_with(';'),
    }
}

/// One statement from its tokens.
pub(crate) fn statement(tokens: Vec<TokenWithSpan>, lines: &Lines) -> Result<Parsed> {
    let name = refused::name_of(&tokens);
    read(tokens, lines).map_err(|error| match name {
        Some(name) if error.sqlstate == code::SYNTAX_ERROR => SqlError::unsupported(name),
        _ => error,
    })
}

fn read(mut tokens: Vec<TokenWithSpan>, lines: &Lines) -> Result<Parsed> {
    locking_queries::hoist(&mut tokens);
    let named = identity_names::take(&mut tokens);
    table_query::queries(&mut tokens);
    order::options(&mut tokens);
    typed_literals::literals(&mut tokens);
    grouping::sets(&mut tokens);
    stars::fields(&mut tokens);
    frame::exclusions(&mut tokens);
    fetch::counts(&mut tokens);
    trim::sides(&mut tokens);
    named_arguments::spelled(&mut tokens);
    let depth = depth::check(&tokens, MAX_DEPTH)?;
    let lines = lines.clone();
    let mut cursor = Cursor::new(tokens, lines.clone());
    let stmt = match utility::utility(&mut cursor)? {
        Some(_) if !named.is_empty() => return Err(identity_names::misplaced()),
        Some(utility) => {
            cursor.end()?;
            Stmt::Utility(utility)
        }
        None => {
            cursor.empty_lists();
            cursor.one_lock_each();
            cursor.plain_locks();
            cursor.current_of()?;
            let about_view = cursor.about_view()?;
            let mut subscripts = cursor.respelled(assigned::take)?;
            if depth + subscripts.len() > MAX_DEPTH {
                return Err(too_complex());
            }
            let overriding = cursor.overriding().map(|what| {
                let value = ast::Expr::value(ast::Value::Null);
                ast::Setting { key: ast::Ident::new(what.name()), value }
            });
            let arbiter = cursor
                .arbiter()?
                .map(|value| ast::Setting { key: ast::Ident::new(ARBITER), value });
            let of_conflict = cursor.conflict_expressions()?;
            let of_conflict = of_conflict.into_iter().enumerate().map(|(at, value)| ast::Setting {
                key: ast::Ident::new(names::computed(at)),
                value,
            });
            let mut statement = cursor.parse(|parser| parser.parse_statement())?;
            if let ast::Statement::Insert(insert) = &mut statement {
                // A place that this dialect has no other use for.
                insert.settings =
                    Some(arbiter.into_iter().chain(overriding).chain(of_conflict).collect());
            }
            view::put_back(&mut statement, about_view);
            identity_names::put_back(&mut statement, named)?;
            assigned::put_back(&mut statement, &mut subscripts);
            match create_as::select_into(&mut statement, &lines)? {
                Some(create) => Stmt::Utility(Utility::CreateTableAs(create)),
                None => Stmt::Sql(Box::new(statement)),
            }
        }
    };
    Ok(Parsed { stmt, lines })
}

/// The error for a statement that is too deep.
pub(crate) fn too_complex() -> SqlError {
    SqlError::new(code::TOO_COMPLEX, "stack depth limit exceeded")
        .detail("The statement nests expressions too deeply.")
}

/// Runs sqlparser over `tokens`, all of them.
fn run<T>(
    tokens: Vec<TokenWithSpan>,
    lines: &Lines,
    work: impl FnOnce(&mut Parser<'_>) -> std::result::Result<T, ParserError>,
) -> Result<T> {
    let last = tokens.last().map(|token| token.span);
    let dialect = PostgreSqlDialect {};
    let parser = Parser::new(&dialect).with_recursion_limit(MAX_NESTING);
    let mut parser = parser.with_tokens_with_locations(tokens);
    let parsed = work(&mut parser).map_err(|error| of_parser(&error, lines))?;
    let next = parser.peek_token();
    if next.token != Token::EOF {
        return Err(near(&next, lines));
    }
    debug_assert!(last.is_some(), "an empty statement is not parsed");
    Ok(parsed)
}

/// The error for a token that does not fit.
pub(crate) fn near(token: &TokenWithSpan, lines: &Lines) -> SqlError {
    match token.token {
        Token::EOF => SqlError::syntax("syntax error at end of input"),
        _ => SqlError::syntax(format!("syntax error at or near \"{}\"", token.token))
            .at(lines.position(token.span)),
    }
}

/// sqlparser's complaint in PostgreSQL's words, where it says what it found.
fn of_parser(error: &ParserError, lines: &Lines) -> SqlError {
    let text = match error {
        ParserError::RecursionLimitExceeded => return too_complex(),
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => text,
    };
    let (what, place) = match text.rsplit_once(" at Line: ") {
        Some((what, place)) => (what, place.split_once(", Column: ")),
        None => (text.as_str(), None),
    };
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let location = place
        .and_then(|(line, column)| Some(Location::new(number(line)?, number(column)?)))
        .and_then(|location| lines.location(location));
    match what.rsplit_once(", found: ") {
        Some((_, "EOF")) => SqlError::syntax("syntax error at end of input"),
        Some((_, found)) => {
            SqlError::syntax(format!("syntax error at or near \"{found}\"")).at(location)
        }
        None => SqlError::syntax(format!("syntax error: {what}")).at(location),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> (String, Option<usize>) {
        let error = parse(text, usize::MAX).unwrap_err();
        (format!("{} {}", error.sqlstate, error.message), error.position)
    }

    #[test]
    fn a_message_is_cut_at_its_semicolons() {
        assert_eq!(parse("select 1; ; select ';' -- ;\n; begin", LONG).unwrap().len(), 3);
        assert_eq!(parse(" -- nothing", LONG).unwrap().len(), 0);
    }

    #[test]
    fn syntax_errors_name_token_and_position() {
        let expected = "42601 syntax error at or near \")\"".to_owned();
        assert_eq!(refused("select 1,\n  + ) from t"), (expected, Some(15)));
        assert_eq!(refused("select (1").0, "42601 syntax error at end of input");
        assert_eq!(refused("selec 1").0, "42601 syntax error at or near \"selec\"");
        assert_eq!(refused("commit now and then").1, Some(8));
        let junk = "42601 trailing junk after numeric literal at or near \"31d\"".to_owned();
        assert_eq!(refused("select 31days"), (junk, Some(8)));
    }

    #[test]
    fn nesting_is_bounded() {
        for text in [
            format!("select 1{}", "+1".repeat(100_000)),
            format!("select {}1{}", "(".repeat(5_000), ")".repeat(5_000)),
            format!("select 1 where true{}", " and true".repeat(100_000)),
            format!("select 1 where a = 1{}", " or a = 1".repeat(50_000)),
            format!("select 1{}", " is null".repeat(20_000)),
            format!("select 1{}", " is not distinct from null".repeat(20_000)),
            format!("select 1{}", "::int".repeat(20_000)),
            format!("select 1{}", "+null".repeat(20_000)),
            format!("select 'a'{}", " like 'b'".repeat(20_000)),
            format!("select 'a'{}", " collate \"C\"".repeat(20_000)),
            format!("select 1{}", " in (1)".repeat(20_000)),
            format!("select a{}", " at time zone 'utc'".repeat(20_000)),
            format!("select true{}", " between false and true".repeat(20_000)),
            format!("select 1::int{}", "[]".repeat(20_000)),
            format!("select 1{}", " union select 1".repeat(20_000)),
            // Words that sqlparser takes for names end no chain.
            format!("select (1{})", " + where".repeat(20_000)),
            format!("select (1{})", " + case".repeat(20_000)),
            format!("select (1{})", " + case + 1 + end".repeat(20_000)),
            // Nor does a comma inside of an operand.
            format!(
                "select {}1{}",
                "greatest(0, ".repeat(20),
                format!("{})", "+1".repeat(300)).repeat(20)
            ),
        ] {
            assert_eq!(parse(&text, usize::MAX).unwrap_err().sqlstate, "54001", "{}", &text[..20]);
        }
        for text in ["explain ", "prepare a as ", "declare a cursor for "] {
            let error = parse(&(text.repeat(100_000) + "select 1"), usize::MAX).unwrap_err();
            assert_eq!(error.sqlstate, "42601", "{text}");
        }
    }

    #[test]
    fn what_is_long_but_not_deep_is_read() {
        for text in [
            format!("select case{} end", " when a = 1 then 2 + 3".repeat(5_000)),
            format!("select case{} end", " when (a = 1) then (2 + 3)".repeat(5_000)),
            format!("select a{}", ", a::text || b collate \"C\"".repeat(5_000)),
            format!("select {}", "f(a + 1, case when a is null then 1 end),".repeat(5_000) + "1"),
            format!("select 1 where a = 1{}", " or a between 1 and 2 + 3".repeat(3_999)),
            format!("select 1 where a in (1{})", ", -1".repeat(50_000)),
        ] {
            assert!(parse(&text, usize::MAX).is_ok(), "{}", &text[..40]);
        }
    }

    #[test]
    fn lists_may_be_long() {
        assert!(
            parse(
                &format!("insert into t values {}", "(1, 'a'),".repeat(9_999) + "(1, 'a')"),
                128 << 20
            )
            .is_ok()
        );
    }
}
