//! The COPY statement and its options, new style and old.
//!
//! Invariants: an option that is not known is refused. Does not do: moving rows.

use sqlparser::tokenizer::Token;

use crate::error::{Result, SqlError, code};
use crate::parse::cursor::Cursor;
use crate::parse::{Parsed, statement};

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
}

/// Its options.
#[derive(Clone, Debug, Default)]
pub(crate) struct CopyOptions {
    pub(crate) format: CopyFormat,
    pub(crate) delimiter: Option<char>,
    pub(crate) null: Option<String>,
    pub(crate) header: bool,
    pub(crate) quote: Option<char>,
    pub(crate) escape: Option<char>,
    pub(crate) force_quote: Option<Vec<String>>,
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
    let with = cursor.take("with");
    if cursor.take_token(&Token::LParen) {
        loop {
            option(cursor, &mut options)?;
            if !cursor.take_token(&Token::Comma) {
                break;
            }
        }
        cursor.expect_token(&Token::RParen)?;
    } else {
        if with && cursor.is_end() {
            return Err(cursor.unexpected());
        }
        while !cursor.is_end() {
            old_option(cursor, &mut options)?;
        }
    }
    if cursor.is("where") {
        return Err(SqlError::unsupported("COPY with WHERE"));
    }
    check(&options)?;
    Ok(CopyStatement { what, from, options })
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

fn one_char(name: &str, value: Option<String>) -> Result<char> {
    let value = value.unwrap_or_default();
    let mut chars = value.chars();
    match (chars.next(), chars.next()) {
        (Some(c), None) if c.is_ascii() => Ok(c),
        _ => {
            let message = format!("COPY {name} must be a single one-byte character");
            Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message))
        }
    }
}

fn is_on(value: Option<&str>) -> bool {
    !value.is_some_and(|v| matches!(v.to_ascii_lowercase().as_str(), "off" | "false" | "0"))
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

fn option(cursor: &mut Cursor, options: &mut CopyOptions) -> Result<()> {
    let name = cursor.name()?;
    match name.as_str() {
        "format" => options.format = format(&cursor.value().unwrap_or_default())?,
        "delimiter" => options.delimiter = Some(one_char("delimiter", cursor.value())?),
        "null" => options.null = cursor.string(),
        "header" => options.header = is_on(cursor.value().as_deref()),
        "quote" => options.quote = Some(one_char("quote", cursor.value())?),
        "escape" => options.escape = Some(one_char("escape", cursor.value())?),
        "force_quote" => {
            let all = cursor.take_token(&Token::Mul);
            options.force_quote = Some(if all { Vec::new() } else { names(cursor)? });
        }
        // Rows are written the same way whether they are frozen soon or later.
        "freeze" => drop(cursor.value()),
        "encoding" => encoding(cursor)?,
        _ => return Err(SqlError::syntax(format!("option \"{name}\" not recognized"))),
    }
    Ok(())
}

fn old_option(cursor: &mut Cursor, options: &mut CopyOptions) -> Result<()> {
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
        "encoding",
    ];
    let Some(word) = cursor.take_any(&words) else { return Err(cursor.unexpected()) };
    cursor.take("as");
    match word {
        "csv" => options.format = CopyFormat::Csv,
        "binary" => options.format = CopyFormat::Binary,
        "header" => options.header = true,
        "delimiter" | "delimiters" => {
            options.delimiter = Some(one_char("delimiter", cursor.string())?);
        }
        "null" => options.null = cursor.string(),
        "quote" => options.quote = Some(one_char("quote", cursor.string())?),
        "escape" => options.escape = Some(one_char("escape", cursor.string())?),
        "encoding" => encoding(cursor)?,
        _ => {}
    }
    Ok(())
}

fn encoding(cursor: &mut Cursor) -> Result<()> {
    let name = cursor.value().unwrap_or_default();
    match name.to_ascii_lowercase().replace('-', "").as_str() {
        "utf8" | "unicode" => Ok(()),
        _ => Err(SqlError::unsupported(format!("encoding \"{name}\""))),
    }
}

fn check(options: &CopyOptions) -> Result<()> {
    let csv = options.format == CopyFormat::Csv;
    let refuse = |what: &str| Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, what));
    if !csv
        && (options.quote.is_some() || options.escape.is_some() || options.force_quote.is_some())
    {
        return refuse("COPY quote and escape available only in CSV mode");
    }
    if options.format == CopyFormat::Binary
        && (options.delimiter.is_some() || options.null.is_some() || options.header)
    {
        return Err(SqlError::syntax("cannot specify DELIMITER, NULL or HEADER in BINARY mode"));
    }
    Ok(())
}
