//! CREATE TABLE AS and SELECT INTO, which make a table of the rows of a query.
//!
//! Does not do: SELECT INTO in a part of a statement, which the binder refuses.

use sqlparser::ast::{self, SetExpr};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::cursor::Cursor;
use super::{Lines, Parsed, Stmt, run, statement};
use crate::error::{Result, SqlError};

/// A table to make of the rows of a query.
#[derive(Clone, Debug)]
pub(crate) struct CreateAs {
    /// Its name and options, without columns.
    pub(crate) table: Box<ast::CreateTable>,
    /// Names of its first columns.
    pub(crate) columns: Vec<ast::Ident>,
    /// A query, or EXECUTE of a statement that is one.
    pub(crate) source: Box<Parsed>,
    pub(crate) with_data: bool,
}

/// Reads CREATE TABLE AS; `None` for anything else.
pub(super) fn create_as(cursor: &mut Cursor) -> Result<Option<CreateAs>> {
    let mut ahead = 1;
    let kinds = ["global", "local", "temp", "temporary", "unlogged"];
    while cursor.is("create") && kinds.iter().any(|word| cursor.is_at(ahead, word)) {
        ahead += 1;
    }
    if !cursor.is("create") || !cursor.is_at(ahead, "table") {
        return Ok(None);
    }
    let Some(before) = cursor.distance_to("as") else { return Ok(None) };
    let lines = cursor.lines.clone();
    let mut tokens = cursor.rest()?;
    let mut source = tokens.split_off(before);
    source.remove(0);
    let (source, with_data) = without_data(source);
    if source.is_empty() {
        return Err(SqlError::syntax("syntax error at end of input"));
    }
    let columns = column_names(&mut tokens, &lines)?;
    let head = run(tokens, &lines, |parser| parser.parse_statement())?;
    let ast::Statement::CreateTable(table) = head else { return Err(cursor.unexpected()) };
    let source = Box::new(statement(source, &lines)?);
    Ok(Some(CreateAs { table: Box::new(table), columns, source, with_data }))
}

/// Takes WITH DATA or WITH NO DATA from the end.
fn without_data(mut tokens: Vec<TokenWithSpan>) -> (Vec<TokenWithSpan>, bool) {
    let ends = |words: &[&str]| {
        let from = tokens.len().checked_sub(words.len());
        let last = from.map(|from| &tokens[from..]);
        last.is_some_and(|last| {
            last.iter().zip(words).all(|(token, word)| {
                matches!(&token.token, Token::Word(found) if found.value.eq_ignore_ascii_case(word))
            })
        })
    };
    let (length, with_data) = match () {
        () if ends(&["with", "no", "data"]) => (3, false),
        () if ends(&["with", "data"]) => (2, true),
        () => (0, true),
    };
    tokens.truncate(tokens.len() - length);
    (tokens, with_data)
}

/// Takes the names of columns behind the name of the table.
fn column_names(tokens: &mut Vec<TokenWithSpan>, lines: &Lines) -> Result<Vec<ast::Ident>> {
    let Some(start) = tokens.iter().position(|token| token.token == Token::LParen) else {
        return Ok(Vec::new());
    };
    let is_option = start.checked_sub(1).is_some_and(|before| {
        let token = &tokens[before].token;
        matches!(token, Token::Word(word) if word.value.eq_ignore_ascii_case("with"))
    });
    if is_option {
        return Ok(Vec::new());
    }
    let length = tokens[start..].iter().position(|token| token.token == Token::RParen);
    let Some(length) = length else {
        return Err(SqlError::syntax("syntax error at end of input"));
    };
    let list: Vec<TokenWithSpan> = tokens.drain(start..=start + length).collect();
    let inner = list[1..list.len() - 1].to_vec();
    if inner.is_empty() {
        return Err(super::near(&list[list.len() - 1], lines));
    }
    run(inner, lines, |parser| parser.parse_comma_separated(Parser::parse_identifier))
}

/// SELECT INTO, if the statement is one.
pub(super) fn select_into(
    statement: &mut ast::Statement,
    lines: &Lines,
) -> Result<Option<CreateAs>> {
    let ast::Statement::Query(query) = statement else { return Ok(None) };
    let Some(select) = first_select(&mut query.body) else { return Ok(None) };
    let Some(into) = select.into.take() else { return Ok(None) };
    let [ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_)] = into.targets.as_slice()
    else {
        return Err(SqlError::syntax("SELECT INTO names one table"));
    };
    let parts = match &into.targets[0] {
        ast::Expr::CompoundIdentifier(parts) => parts.clone(),
        ast::Expr::Identifier(name) => vec![name.clone()],
        _ => unreachable!("refused before"),
    };
    let name = ast::ObjectName(parts.into_iter().map(ast::ObjectNamePart::Identifier).collect());
    let table = ast::CreateTable {
        temporary: into.temporary,
        unlogged: into.unlogged,
        ..ast::helpers::stmt_create_table::CreateTableBuilder::new(name).build()
    };
    let query = statement.clone();
    let source = Box::new(Parsed { stmt: Stmt::Sql(Box::new(query)), lines: lines.clone() });
    let (table, columns) = (Box::new(table), Vec::new());
    Ok(Some(CreateAs { table, columns, source, with_data: true }))
}

/// The SELECT in which INTO may stand: the first of a set operation.
fn first_select(body: &mut SetExpr) -> Option<&mut ast::Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => first_select(&mut query.body),
        SetExpr::SetOperation { left, .. } => first_select(left),
        _ => None,
    }
}
