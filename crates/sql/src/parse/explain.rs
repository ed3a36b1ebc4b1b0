//! The options of EXPLAIN.
//!
//! Does not do: the statement behind them (`utility`), showing a plan (`session::explain`).

use sqlparser::tokenizer::Token;

use super::cursor::Cursor;
use crate::error::{Result, SqlError, code};

/// What EXPLAIN shows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ExplainOptions {
    pub(crate) analyze: bool,
    pub(crate) verbose: bool,
    pub(crate) costs: Option<bool>,
    pub(crate) timing: Option<bool>,
    pub(crate) buffers: bool,
    pub(crate) summary: Option<bool>,
    pub(crate) format: Format,
}

/// How EXPLAIN shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Format {
    #[default]
    Text,
    Json,
}

/// Reads what stands between EXPLAIN and its statement.
pub(super) fn options(cursor: &mut Cursor) -> Result<ExplainOptions> {
    let mut options = ExplainOptions::default();
    if cursor.take_token(&Token::LParen) {
        loop {
            option(cursor, &mut options)?;
            if !cursor.take_token(&Token::Comma) {
                break;
            }
        }
        cursor.expect_token(&Token::RParen)?;
        if options.timing == Some(true) && !options.analyze {
            let message = "EXPLAIN option TIMING requires ANALYZE";
            return Err(SqlError::new(code::INVALID_PARAMETER, message));
        }
    } else {
        options.analyze = cursor.take_any(&["analyze", "analyse"]).is_some();
        options.verbose = cursor.take("verbose");
    }
    Ok(options)
}

fn option(cursor: &mut Cursor, options: &mut ExplainOptions) -> Result<()> {
    let name = cursor.name()?;
    let value = cursor.value().map(|value| value.to_ascii_lowercase());
    let on = !matches!(value.as_deref(), Some("off" | "false" | "0"));
    match name.as_str() {
        "analyze" => options.analyze = on,
        "verbose" => options.verbose = on,
        "costs" => options.costs = Some(on),
        "timing" => options.timing = Some(on),
        "buffers" => options.buffers = on,
        "summary" => options.summary = Some(on),
        "settings" | "wal" => {}
        "format" => {
            options.format = match value.as_deref() {
                Some("text") => Format::Text,
                Some("json") => Format::Json,
                Some(format @ ("xml" | "yaml")) => {
                    return Err(SqlError::unsupported(format!("EXPLAIN in the format {format}")));
                }
                other => {
                    let other = other.unwrap_or_default();
                    let message =
                        format!("unrecognized value for EXPLAIN option \"format\": \"{other}\"");
                    return Err(SqlError::new(code::INVALID_PARAMETER, message));
                }
            }
        }
        _ => {
            let message = format!("unrecognized EXPLAIN option \"{name}\"");
            return Err(SqlError::syntax(message));
        }
    }
    Ok(())
}
