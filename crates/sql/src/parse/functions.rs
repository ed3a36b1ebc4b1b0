//! CREATE, ALTER and DROP FUNCTION, and COMMENT ON FUNCTION, read from their tokens.
//!
//! Does not do: what the names mean (`bind::ddl::functions`), reading a body (`parse::view`).

use sqlparser::ast;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::{Result, SqlError, code};
use crate::parse::cursor::{Cursor, is};
use crate::types::parameter_mode::ParameterMode;
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
        cascade: bool,
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
    pub(crate) parameters: Vec<Parameter>,
    /// `None`: not said, as OUT parameters may say it.
    pub(crate) returns: Option<Returns>,
    pub(crate) volatility: Volatility,
    pub(crate) is_strict: bool,
    pub(crate) body: String,
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parameter {
    pub(crate) mode: ParameterMode,
    pub(crate) name: Option<String>,
    pub(crate) data_type: ast::DataType,
    pub(crate) default: Option<ast::Expr>,
}

/// What a function gives.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Returns {
    Void,
    Value(ast::DataType),
    Set(ast::DataType),
    /// A row, or rows, whose columns OUT parameters say.
    Record {
        is_set: bool,
    },
    Table(Vec<Parameter>),
}

/// The name of a function, and its parameters if they are said.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Signature {
    pub(crate) name: Vec<String>,
    pub(crate) parameters: Option<Vec<Parameter>>,
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
    let parameters = parameters(cursor)?;
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
    if returns.is_none() && !parameters.iter().any(|one| one.mode.is_output()) {
        return Err(missing("function result type must be specified"));
    }
    let body = options.body.ok_or_else(|| missing("no function body specified"))?;
    let language = options.language.ok_or_else(|| missing("no language specified"))?;
    check_language(&language)?;
    Ok(FunctionStatement::Create(Box::new(CreateFunction {
        name,
        or_replace,
        parameters,
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
        let column = |tokens| {
            let one = parameter(tokens, cursor)?;
            match one.mode {
                ParameterMode::In => Ok(Parameter { mode: ParameterMode::Table, ..one }),
                _ => Err(cursor.unexpected()),
            }
        };
        return Ok(Returns::Table(columns.into_iter().map(column).collect::<Result<_>>()?));
    }
    let is_set = cursor.take("setof");
    if cursor.left() == 1 && cursor.take("record") {
        return Ok(Returns::Record { is_set });
    }
    refuse_pseudo_type(cursor)?;
    let one = cursor.parse(|parser| parser.parse_data_type())?;
    Ok(if is_set { Returns::Set(one) } else { Returns::Value(one) })
}

/// Types that stand for any one that a call has, and those of other languages.
const PSEUDO_TYPES: [&str; 15] = [
    "any",
    "anyarray",
    "anycompatible",
    "anycompatiblearray",
    "anycompatiblemultirange",
    "anycompatiblenonarray",
    "anycompatiblerange",
    "anyelement",
    "anyenum",
    "anymultirange",
    "anynonarray",
    "anyrange",
    "cstring",
    "event_trigger",
    "internal",
];

fn refuse_pseudo_type(cursor: &Cursor) -> Result<()> {
    match PSEUDO_TYPES.iter().find(|name| cursor.is(name)) {
        Some(name) => Err(SqlError::unsupported(format!("a function of type {name}"))),
        None => Ok(()),
    }
}

/// The parameters of a function, in parentheses.
fn parameters(cursor: &mut Cursor) -> Result<Vec<Parameter>> {
    let all = split(cursor.parenthesised()?);
    if all.len() > MAX_ARGUMENTS {
        let message = format!("functions cannot have more than {MAX_ARGUMENTS} arguments");
        return Err(SqlError::new(code::TOO_MANY_ARGUMENTS, message));
    }
    all.into_iter().map(|tokens| parameter(tokens, cursor)).collect()
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

/// A parameter: which way it goes and a name, each of which it may leave out, and a type.
fn parameter(tokens: Vec<TokenWithSpan>, around: &Cursor) -> Result<Parameter> {
    let (tokens, default) = without_default(tokens, around)?;
    let mut cursor = around.over(tokens);
    let given = mode(&mut cursor);
    let start = cursor.place();
    refuse_pseudo_type(&cursor)?;
    // A type may be several words, the first of which could be a name.
    if let Ok(data_type) = cursor.parse(|parser| parser.parse_data_type()) {
        let mode = given.unwrap_or_default();
        return Ok(Parameter { mode, name: None, data_type, default });
    }
    cursor.return_to(start);
    let name = Some(cursor.name()?);
    let mode = match given {
        Some(mode) => mode,
        None => self::mode(&mut cursor).unwrap_or_default(),
    };
    refuse_pseudo_type(&cursor)?;
    let data_type = cursor.parse(|parser| parser.parse_data_type())?;
    Ok(Parameter { mode, name, data_type, default })
}

/// Takes the words that say which way a parameter goes.
fn mode(cursor: &mut Cursor) -> Option<ParameterMode> {
    Some(match cursor.take_any(&["in", "out", "inout", "variadic"])? {
        "in" if cursor.take("out") => ParameterMode::InOut,
        "in" => ParameterMode::In,
        "out" => ParameterMode::Out,
        "inout" => ParameterMode::InOut,
        _ => ParameterMode::Variadic,
    })
}

/// A parameter without the default behind it, and that.
fn without_default(
    mut tokens: Vec<TokenWithSpan>,
    around: &Cursor,
) -> Result<(Vec<TokenWithSpan>, Option<ast::Expr>)> {
    let mut depth = 0usize;
    let begins = |token: &TokenWithSpan| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (token.token == Token::Eq || is(&token.token, "default"))
    };
    let Some(at) = tokens.iter().position(begins) else { return Ok((tokens, None)) };
    let value = tokens.split_off(at + 1);
    tokens.truncate(at);
    let value = around.over(value).parse(|parser| parser.parse_expr())?;
    Ok((tokens, Some(value)))
}

pub(super) fn signature(cursor: &mut Cursor) -> Result<Signature> {
    let name = cursor.qualified()?;
    let parameters = match cursor.is_token(&Token::LParen) {
        true => Some(parameters(cursor)?),
        false => None,
    };
    Ok(Signature { name, parameters })
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
    let cascade = cursor.take_any(&["cascade", "restrict"]) == Some("cascade");
    Ok(FunctionStatement::Drop { functions, if_exists, cascade })
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
