//! CREATE, ALTER and DROP FUNCTION, and COMMENT ON FUNCTION, read from their tokens.
//!
//! Does not do: what the names mean (`bind::ddl::functions`), reading a body (`parse::view`).

use sqlparser::ast;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::{Result, SqlError, code};
use crate::names::unnamed;
use crate::parse::cursor::Cursor;
use crate::types::volatility::Volatility;

/// A statement about a function.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FunctionStatement {
    Create(Box<CreateFunction>),
    Alter {
        function: Signature,
        change: FunctionChange,
    },
    Drop {
        functions: Vec<Signature>,
        if_exists: bool,
    },
    /// `None` is NULL.
    Comment {
        function: Signature,
        text: Option<String>,
    },
}

/// What ALTER FUNCTION does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FunctionChange {
    Rename(String),
    SetSchema(String),
}

/// A function to make.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CreateFunction {
    pub(crate) name: Vec<String>,
    pub(crate) or_replace: bool,
    pub(crate) arguments: Vec<ast::ColumnDef>,
    pub(crate) returns: Returns,
    pub(crate) volatility: Volatility,
    pub(crate) is_strict: bool,
    pub(crate) body: String,
}

/// What a function gives.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Returns {
    Void,
    Value(Box<ast::ColumnDef>),
    Set(Box<ast::ColumnDef>),
    Table(Vec<ast::ColumnDef>),
}

/// The name of a function, and the types of its arguments if they are said.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Signature {
    pub(crate) name: Vec<String>,
    pub(crate) arguments: Option<Vec<ast::ColumnDef>>,
}

/// Reads a statement about a function, if it is one.
pub(super) fn statement(cursor: &mut Cursor) -> Result<Option<FunctionStatement>> {
    if cursor.is("comment") && cursor.is_at(1, "on") && cursor.is_at(2, "function") {
        return comment(cursor).map(Some);
    }
    if cursor.is("create") && cursor.is_at(1, "or") && cursor.is_at(3, "function") {
        cursor.expect("create")?;
        cursor.expect("or")?;
        cursor.expect("replace")?;
        return create(cursor, true).map(Some);
    }
    if !cursor.is_at(1, "function") {
        return Ok(None);
    }
    match cursor.take_any(&["create", "alter", "drop"]) {
        Some("create") => create(cursor, false).map(Some),
        Some("alter") => alter(cursor).map(Some),
        Some(_) => drop_function(cursor).map(Some),
        None => Ok(None),
    }
}

fn create(cursor: &mut Cursor, or_replace: bool) -> Result<FunctionStatement> {
    cursor.expect("function")?;
    let name = cursor.qualified()?;
    let arguments = arguments(cursor)?;
    let mut options = Options::default();
    // An expression may have words of options in it, and is the last of them.
    if cursor.distance_to("return").is_some() {
        for mut body in cursor.parts_at(&["return"]) {
            body.expect("return")?;
            let value = body.parse(|parser| parser.parse_expr())?;
            options.body = Some(format!("SELECT {value}"));
            options.language = Some(SQL.to_owned());
        }
    }
    for mut part in cursor.parts_at(&OPTIONS) {
        options.take(&mut part)?;
        part.end()?;
    }
    cursor.end()?;
    let missing = |what: &str| SqlError::new(code::INVALID_FUNCTION, what);
    let returns = options.returns;
    let returns = returns.ok_or_else(|| missing("function result type must be specified"))?;
    let body = options.body.ok_or_else(|| missing("no function body specified"))?;
    let language = options.language.ok_or_else(|| missing("no language specified"))?;
    check_language(&language)?;
    Ok(FunctionStatement::Create(Box::new(CreateFunction {
        name,
        or_replace,
        arguments,
        returns,
        volatility: options.volatility,
        is_strict: options.is_strict,
        body,
    })))
}

/// The language that is built.
const SQL: &str = "sql";

/// Words that options begin with.
const OPTIONS: [&str; 17] = [
    "returns",
    "language",
    "immutable",
    "stable",
    "volatile",
    "strict",
    "called",
    "not",
    "leakproof",
    "external",
    "security",
    "parallel",
    "cost",
    "rows",
    "as",
    "begin",
    "set",
];

/// What stands behind the arguments, in any order.
#[derive(Default)]
struct Options {
    returns: Option<Returns>,
    language: Option<String>,
    volatility: Volatility,
    is_strict: bool,
    body: Option<String>,
}

impl Options {
    /// Reads the option that these tokens are.
    fn take(&mut self, cursor: &mut Cursor) -> Result<()> {
        match cursor.take_any(&OPTIONS) {
            Some("returns") if cursor.is("null") => {
                for word in ["null", "on", "null", "input"] {
                    cursor.expect(word)?;
                }
                self.is_strict = true;
            }
            Some("returns") => self.returns = Some(returns(cursor)?),
            Some("language") => {
                self.language = Some(match cursor.string() {
                    Some(text) => text,
                    None => cursor.name()?,
                });
            }
            Some("immutable") => self.volatility = Volatility::Immutable,
            Some("stable") => self.volatility = Volatility::Stable,
            Some("volatile") => self.volatility = Volatility::Volatile,
            Some("strict") => self.is_strict = true,
            Some("called") => {
                for word in ["on", "null", "input"] {
                    cursor.expect(word)?;
                }
                self.is_strict = false;
            }
            // The planner asks nothing of these.
            Some("not" | "leakproof" | "external") => {}
            Some("parallel") => drop(cursor.name()?),
            Some("cost" | "rows") => drop(cursor.value().ok_or_else(|| cursor.unexpected())?),
            Some("security") if cursor.take("invoker") => {}
            Some("security") if cursor.take("definer") => {
                return Err(SqlError::unsupported("a function that is SECURITY DEFINER"));
            }
            Some("as") => {
                self.body = Some(cursor.string().ok_or_else(|| cursor.unexpected())?);
                if cursor.take_token(&Token::Comma) {
                    return Err(SqlError::unsupported("a function in an object file"));
                }
            }
            Some("set") => {
                return Err(SqlError::unsupported("a function with settings of its own"));
            }
            Some("begin") => {
                return Err(SqlError::unsupported("a function with a body of BEGIN ATOMIC"));
            }
            _ => return Err(cursor.unexpected()),
        }
        Ok(())
    }
}

fn check_language(language: &str) -> Result<()> {
    match language.to_lowercase().as_str() {
        SQL => Ok(()),
        known @ ("plpgsql" | "c" | "internal") => {
            Err(SqlError::unsupported(format!("a function in language {known}")))
        }
        other => {
            let message = format!("language \"{other}\" does not exist");
            Err(SqlError::new(code::UNDEFINED_OBJECT, message))
        }
    }
}

fn returns(cursor: &mut Cursor) -> Result<Returns> {
    if cursor.take("void") {
        return Ok(Returns::Void);
    }
    if cursor.is("trigger") {
        return Err(SqlError::unsupported("a function for triggers"));
    }
    if cursor.take("table") {
        let columns = split(cursor.parenthesised()?);
        let columns = columns.into_iter().enumerate();
        let column = |(at, tokens)| part(tokens, at, cursor);
        return Ok(Returns::Table(columns.map(column).collect::<Result<_>>()?));
    }
    let is_set = cursor.take("setof");
    let place = ast::Ident::with_quote('"', unnamed(RESULT));
    let one = Box::new(typed(place, cursor.parse(|parser| parser.parse_data_type())?));
    Ok(if is_set { Returns::Set(one) } else { Returns::Value(one) })
}

/// The place of a result among arguments without names: no function has so many.
const RESULT: usize = 9_998;

fn typed(name: ast::Ident, data_type: ast::DataType) -> ast::ColumnDef {
    ast::ColumnDef { name, data_type, options: Vec::new() }
}

/// The arguments of a function, in parentheses.
fn arguments(cursor: &mut Cursor) -> Result<Vec<ast::ColumnDef>> {
    let all = split(cursor.parenthesised()?);
    if all.len() > MAX_ARGUMENTS {
        let message = format!("functions cannot have more than {MAX_ARGUMENTS} arguments");
        return Err(SqlError::new(code::TOO_MANY_ARGUMENTS, message));
    }
    all.into_iter().enumerate().map(|(at, tokens)| part(tokens, at, cursor)).collect()
}

/// Most arguments of a function, as in PostgreSQL.
const MAX_ARGUMENTS: usize = 100;

/// Lists of tokens between commas that stand outside of parentheses.
fn split(tokens: Vec<TokenWithSpan>) -> Vec<Vec<TokenWithSpan>> {
    if tokens.is_empty() {
        return Vec::new();
    }
    let (mut all, mut depth) = (vec![Vec::new()], 0usize);
    for token in tokens {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Comma if depth == 0 => {
                all.push(Vec::new());
                continue;
            }
            _ => {}
        }
        all.last_mut().expect("one is there").push(token);
    }
    all
}

/// An argument or a column of results: a name, which an argument may leave out, and a type.
fn part(tokens: Vec<TokenWithSpan>, at: usize, around: &Cursor) -> Result<ast::ColumnDef> {
    let mut cursor = around.over(tokens);
    if let Some(mode) = cursor.take_any(&["out", "inout", "variadic"]) {
        let what = format!("a function with {} arguments", mode.to_uppercase());
        return Err(SqlError::unsupported(what));
    }
    cursor.take("in");
    if cursor.distance_to("default").is_some() {
        return Err(SqlError::unsupported("a function with defaults of arguments"));
    }
    let start = cursor.place();
    // A type may be several words, the first of which could be a name.
    if let Ok(data_type) = cursor.parse(|parser| parser.parse_data_type()) {
        return Ok(typed(ast::Ident::with_quote('"', unnamed(at)), data_type));
    }
    cursor.return_to(start);
    let name = ast::Ident::with_quote('"', cursor.name()?);
    Ok(typed(name, cursor.parse(|parser| parser.parse_data_type())?))
}

fn signature(cursor: &mut Cursor) -> Result<Signature> {
    let name = cursor.qualified()?;
    let arguments = match cursor.is_token(&Token::LParen) {
        true => Some(arguments(cursor)?),
        false => None,
    };
    Ok(Signature { name, arguments })
}

fn alter(cursor: &mut Cursor) -> Result<FunctionStatement> {
    cursor.expect("function")?;
    let function = signature(cursor)?;
    let change = match cursor.take_any(&["rename", "set"]) {
        Some("rename") if cursor.take("to") => FunctionChange::Rename(cursor.name()?),
        Some("set") if cursor.take("schema") => FunctionChange::SetSchema(cursor.name()?),
        _ => return Err(SqlError::unsupported("such an ALTER FUNCTION")),
    };
    Ok(FunctionStatement::Alter { function, change })
}

fn drop_function(cursor: &mut Cursor) -> Result<FunctionStatement> {
    cursor.expect("function")?;
    let if_exists = cursor.take("if");
    if if_exists {
        cursor.expect("exists")?;
    }
    let mut functions = vec![signature(cursor)?];
    while cursor.take_token(&Token::Comma) {
        functions.push(signature(cursor)?);
    }
    cursor.take_any(&["cascade", "restrict"]);
    Ok(FunctionStatement::Drop { functions, if_exists })
}

fn comment(cursor: &mut Cursor) -> Result<FunctionStatement> {
    for word in ["comment", "on", "function"] {
        cursor.expect(word)?;
    }
    let function = signature(cursor)?;
    cursor.expect("is")?;
    let text = match cursor.take("null") {
        true => None,
        false => Some(cursor.string().ok_or_else(|| cursor.unexpected())?),
    };
    Ok(FunctionStatement::Comment { function, text: text.filter(|text| !text.is_empty()) })
}
