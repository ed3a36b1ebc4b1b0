//! The COPY statement and its options, new style and old.
//!
//! Invariants: an option that is not known is refused. Does not do: moving rows.

use sqlparser::ast;
use sqlparser::tokenizer::Token;

use crate::error::{Result, SqlError, code};
use crate::parse::cursor::Cursor;
use crate::parse::{Lines, Parsed, run, statement};

/// How rows are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CopyFormat {
    /// Fields between tabs, backslash escapes.
    #[default]
    Text,
    /// RFC 4180.
    Csv,
    /// PostgreSQL's binary form.
    Binary,
}

/// What is copied.
#[derive(Clone, Debug)]
pub(crate) enum CopyWhat {
    Table { name: Vec<String>, columns: Vec<String> },
    Query(Box<Parsed>),
}

/// A COPY statement.
#[derive(Clone, Debug)]
pub(crate) struct CopyStatement {
    pub(crate) what: CopyWhat,
    /// From the client into a table?
    pub(crate) from: bool,
    pub(crate) options: CopyOptions,
    /// Which rows are taken.
    pub(crate) condition: Option<Box<ast::Expr>>,
    pub(crate) lines: Lines,
}

/// What the first line is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum HeaderLine {
    /// A row.
    #[default]
    Absent,
    /// The names of the columns; whatever they are where data is read.
    Present,
    /// The names of the columns, which must be those that are read.
    Match,
}

/// Its options.
#[derive(Clone, Debug, Default)]
pub(crate) struct CopyOptions {
    pub(crate) format: CopyFormat,
    pub(crate) delimiter: Option<char>,
    pub(crate) null: Option<String>,
    pub(crate) header: HeaderLine,
    pub(crate) quote: Option<char>,
    pub(crate) escape: Option<char>,
    pub(crate) force_quote: Option<Vec<String>>,
    /// Columns whose fields are no nulls, even if they look so.
    pub(crate) force_not_null: Option<Vec<String>>,
    /// Columns whose fields are nulls also in quotes.
    pub(crate) force_null: Option<Vec<String>>,
}

/// Reads what follows COPY.
pub(crate) fn parse(cursor: &mut Cursor) -> Result<CopyStatement> {
    let what = match cursor.parenthesised() {
        Ok(tokens) => CopyWhat::Query(Box::new(statement(tokens, &cursor.lines)?)),
        Err(_) => {
            let name = cursor.qualified()?;
            let columns = names(cursor)?;
            CopyWhat::Table { name, columns }
        }
    };
    let from = match cursor.take_any(&["from", "to"]) {
        Some(word) => word == "from",
        None => return Err(cursor.unexpected()),
    };
    let end = if from { "stdin" } else { "stdout" };
    if !cursor.take(end) {
        if cursor.string().is_some() || cursor.is("program") {
            return Err(SqlError::unsupported("COPY from or to files and programs")
                .hint("Use STDIN or STDOUT."));
        }
        return Err(cursor.unexpected());
    }
    let mut options = CopyOptions::default();
    let mut seen = Vec::new();
    let with = cursor.take("with");
    if cursor.take_token(&Token::LParen) {
        loop {
            let name = option(cursor, &mut options)?;
            once(name, &mut seen)?;
            if !cursor.take_token(&Token::Comma) {
                break;
            }
        }
        cursor.expect_token(&Token::RParen)?;
    } else {
        if with && (cursor.is_end() || cursor.is("where")) {
            return Err(cursor.unexpected());
        }
        while !cursor.is_end() && !cursor.is("where") {
            let name = old_option(cursor, &mut options)?;
            once(name.to_owned(), &mut seen)?;
        }
    }
    let condition = match &what {
        CopyWhat::Table { .. } => condition(cursor, from)?,
        CopyWhat::Query(_) => None,
    };
    check(&options, from)?;
    let lines = cursor.lines.clone();
    Ok(CopyStatement { what, from, options, condition, lines })
}

/// Reads WHERE.
fn condition(cursor: &mut Cursor, from: bool) -> Result<Option<Box<ast::Expr>>> {
    if !cursor.take("where") {
        return Ok(None);
    }
    let lines = cursor.lines.clone();
    let condition = run(cursor.rest()?, &lines, |parser| parser.parse_expr())?;
    match from {
        true => Ok(Some(Box::new(condition))),
        false => Err(SqlError::syntax("WHERE clause not allowed with COPY TO")),
    }
}

fn names(cursor: &mut Cursor) -> Result<Vec<String>> {
    let mut list = Vec::new();
    if cursor.take_token(&Token::LParen) {
        loop {
            list.push(cursor.name()?);
            if !cursor.take_token(&Token::Comma) {
                break;
            }
        }
        cursor.expect_token(&Token::RParen)?;
    }
    Ok(list)
}

fn one_char(name: &str, value: String) -> Result<char> {
    let mut chars = value.chars();
    match (chars.next(), chars.next()) {
        (Some(c), None) if c.is_ascii() => Ok(c),
        _ => {
            let message = format!("COPY {name} must be a single one-byte character");
            Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message))
        }
    }
}

/// Fails for an option that was given before.
fn once(name: String, seen: &mut Vec<String>) -> Result<()> {
    if seen.contains(&name) {
        return Err(SqlError::syntax("conflicting or redundant options"));
    }
    seen.push(name);
    Ok(())
}

/// The value of an option that has one.
fn given(name: &str, value: Option<String>) -> Result<String> {
    value.ok_or_else(|| SqlError::syntax(format!("{name} requires a parameter")))
}

/// A switch, which is on if no value says otherwise.
fn switch(value: Option<&str>) -> Option<bool> {
    match value.map(str::to_ascii_lowercase).as_deref() {
        None | Some("true" | "on" | "1") => Some(true),
        Some("false" | "off" | "0") => Some(false),
        Some(_) => None,
    }
}

fn header(value: Option<&str>) -> Result<HeaderLine> {
    match switch(value) {
        Some(true) => Ok(HeaderLine::Present),
        Some(false) => Ok(HeaderLine::Absent),
        None if value.is_some_and(|value| value.eq_ignore_ascii_case("match")) => {
            Ok(HeaderLine::Match)
        }
        None => Err(SqlError::syntax("header requires a Boolean value or \"match\"")),
    }
}

fn format(name: &str) -> Result<CopyFormat> {
    match name.to_ascii_lowercase().as_str() {
        "text" => Ok(CopyFormat::Text),
        "csv" => Ok(CopyFormat::Csv),
        "binary" => Ok(CopyFormat::Binary),
        _ => {
            let message = format!("COPY format \"{name}\" not recognized");
            Err(SqlError::new(code::INVALID_PARAMETER, message))
        }
    }
}

/// Reads an option of the new form; gives its name.
fn option(cursor: &mut Cursor, options: &mut CopyOptions) -> Result<String> {
    let name = cursor.name()?;
    match name.as_str() {
        "format" => options.format = format(&given(&name, cursor.value())?)?,
        "delimiter" | "quote" | "escape" => {
            let value = one_char(&name, given(&name, cursor.value())?)?;
            *character(&name, options) = Some(value);
        }
        "null" => options.null = Some(given(&name, cursor.string())?),
        "header" => options.header = header(cursor.value().as_deref())?,
        "force_quote" => {
            let all = cursor.take_token(&Token::Mul);
            options.force_quote = Some(if all { Vec::new() } else { names(cursor)? });
        }
        // Rows are written the same way whether they are frozen soon or later.
        "freeze" => {
            let known = switch(cursor.value().as_deref());
            known.ok_or_else(|| SqlError::syntax("freeze requires a Boolean value"))?;
        }
        "encoding" => encoding(cursor)?,
        "force_not_null" | "force_null" => {
            let list = names(cursor)?;
            if list.is_empty() {
                let message =
                    format!("argument to option \"{name}\" must be a list of column names");
                return Err(SqlError::new(code::INVALID_PARAMETER, message));
            }
            let forced = match name.as_str() {
                "force_null" => &mut options.force_null,
                _ => &mut options.force_not_null,
            };
            *forced = Some(list);
        }
        _ => return Err(SqlError::syntax(format!("option \"{name}\" not recognized"))),
    }
    Ok(name)
}

/// Where the character is kept that an option gives.
fn character<'o>(name: &str, options: &'o mut CopyOptions) -> &'o mut Option<char> {
    match name {
        "delimiter" => &mut options.delimiter,
        "quote" => &mut options.quote,
        _ => &mut options.escape,
    }
}

/// Reads an option of the old form; gives its name in the new one.
fn old_option(cursor: &mut Cursor, options: &mut CopyOptions) -> Result<&'static str> {
    let words = [
        "csv",
        "binary",
        "freeze",
        "header",
        "delimiter",
        "delimiters",
        "null",
        "quote",
        "escape",
        "force",
        "encoding",
    ];
    let Some(word) = cursor.take_any(&words) else { return Err(cursor.unexpected()) };
    cursor.take("as");
    Ok(match word {
        "csv" | "binary" => {
            options.format = if word == "csv" { CopyFormat::Csv } else { CopyFormat::Binary };
            "format"
        }
        "header" => {
            options.header = HeaderLine::Present;
            word
        }
        "delimiter" | "delimiters" | "quote" | "escape" => {
            let name = word.trim_end_matches('s');
            let value = cursor.string().ok_or_else(|| cursor.unexpected())?;
            *character(name, options) = Some(one_char(name, value)?);
            name
        }
        "null" => {
            options.null = Some(cursor.string().ok_or_else(|| cursor.unexpected())?);
            word
        }
        "force" => {
            if cursor.take("null") {
                options.force_null = Some(bare_names(cursor)?);
                return Ok("force_null");
            }
            if cursor.take("not") {
                cursor.expect("null")?;
                options.force_not_null = Some(bare_names(cursor)?);
                return Ok("force_not_null");
            }
            cursor.expect("quote")?;
            let all = cursor.take_token(&Token::Mul);
            options.force_quote = Some(if all { Vec::new() } else { bare_names(cursor)? });
            "force_quote"
        }
        "encoding" => {
            encoding(cursor)?;
            word
        }
        other => other,
    })
}

/// Names without parentheses around them.
fn bare_names(cursor: &mut Cursor) -> Result<Vec<String>> {
    let mut list = vec![cursor.name()?];
    while cursor.take_token(&Token::Comma) {
        list.push(cursor.name()?);
    }
    Ok(list)
}

fn encoding(cursor: &mut Cursor) -> Result<()> {
    let name = cursor.value().unwrap_or_default();
    match name.to_ascii_lowercase().replace('-', "").as_str() {
        "utf8" | "unicode" => Ok(()),
        _ => Err(SqlError::unsupported(format!("encoding \"{name}\""))),
    }
}

/// Fails if the options do not go together.
fn check(options: &CopyOptions, from: bool) -> Result<()> {
    let csv = options.format == CopyFormat::Csv;
    let binary = options.format == CopyFormat::Binary;
    let refuse = |what: &str| Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, what));
    let invalid = |what: String| Err(SqlError::new(code::INVALID_PARAMETER, what));
    if binary && options.delimiter.is_some() {
        return Err(SqlError::syntax("cannot specify DELIMITER in BINARY mode"));
    }
    if binary && options.null.is_some() {
        return Err(SqlError::syntax("cannot specify NULL in BINARY mode"));
    }
    let delimiter = options.delimiter.unwrap_or(if csv { ',' } else { '\t' });
    let quote = options.quote.unwrap_or('"');
    let null = options.null.as_deref().unwrap_or_default();
    let breaks = ['\r', '\n'];
    if breaks.contains(&delimiter) {
        return invalid("COPY delimiter cannot be newline or carriage return".to_owned());
    }
    if null.contains(breaks) {
        let message = "COPY null representation cannot use newline or carriage return";
        return invalid(message.to_owned());
    }
    // Behind a backslash these mean something else.
    let means_more = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.';
    if !csv && (delimiter == '\\' || means_more(delimiter)) {
        return invalid(format!("COPY delimiter cannot be \"{delimiter}\""));
    }
    if binary && options.header != HeaderLine::Absent {
        return refuse("cannot specify HEADER in BINARY mode");
    }
    if !from && options.header == HeaderLine::Match {
        return refuse("cannot use \"match\" with HEADER in COPY TO");
    }
    for (name, is_given) in [
        ("quote", options.quote.is_some()),
        ("escape", options.escape.is_some()),
        ("force quote", options.force_quote.is_some()),
        ("force not null", options.force_not_null.is_some()),
        ("force null", options.force_null.is_some()),
    ] {
        if is_given && !csv {
            return refuse(&format!("COPY {name} available only in CSV mode"));
        }
    }
    if csv && delimiter == quote {
        return invalid("COPY delimiter and quote must be different".to_owned());
    }
    if from && options.force_quote.is_some() {
        return refuse("COPY force quote only available using COPY TO");
    }
    for (name, is_given) in [
        ("force not null", options.force_not_null.is_some()),
        ("force null", options.force_null.is_some()),
    ] {
        if is_given && !from {
            return refuse(&format!("COPY {name} only available using COPY FROM"));
        }
    }
    if null.contains(delimiter) {
        return refuse("COPY delimiter must not appear in the NULL specification");
    }
    if csv && null.contains(quote) {
        return refuse("CSV quote character must not appear in the NULL specification");
    }
    Ok(())
}
