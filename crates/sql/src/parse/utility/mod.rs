//! Statements that are no queries, read from their tokens: what sqlparser does not know or reads
//! loosely.
//!
//! Invariants: `None` means that the statement begins with no word known here, and nothing is
//! taken.
//! Does not do: running them.

pub(crate) mod column;
pub(crate) mod constraint;
pub(crate) mod sequence;
mod settings;

use rightlink::LockMode;
use sqlparser::ast;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use crate::error::{Result, SqlError, code};
use crate::parse::copy::CopyStatement;
use crate::parse::create_as::{self, CreateAs};
use crate::parse::cursor::Cursor;
use crate::parse::explain::{self, ExplainOptions};
use crate::parse::functions::{self, FunctionStatement};
use crate::parse::like::{self, CreateLike};
use crate::parse::modes::{Modes, modes};
use crate::parse::roles::{self, RoleStatement};
use crate::parse::types::{self, TypeStatement};
use crate::parse::view::Said;
use crate::parse::{Parsed, Stmt, block, copy, run, statement};
use column::ColumnChange;
use constraint::Waits;
use sequence::SequenceOptions;

/// A utility statement.
#[derive(Clone, Debug)]
pub(crate) enum Utility {
    Begin {
        modes: Modes,
        start: bool,
    },
    Commit {
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
    PrepareTransaction(String),
    FinishPrepared {
        gid: String,
        decision: Decision,
    },
    Savepoint(String),
    Release(String),
    RollbackTo(String),
    SetTransaction {
        modes: Modes,
        session: bool,
    },
    /// `None` is DEFAULT.
    Set {
        name: String,
        value: Option<Vec<String>>,
        local: bool,
    },
    Show(String),
    /// `None` is ALL.
    Reset(Option<String>),
    Prepare {
        name: String,
        types: Vec<ast::DataType>,
        statement: Box<Parsed>,
    },
    Execute {
        name: String,
        args: Vec<ast::Expr>,
    },
    /// `None` is ALL.
    Deallocate(Option<String>),
    Declare {
        name: String,
        kind: Kind,
        query: Box<Parsed>,
    },
    Fetch {
        name: String,
        direction: Direction,
        moves: bool,
    },
    /// `None` is ALL.
    Close(Option<String>),
    Copy(CopyStatement),
    Vacuum {
        tables: Vec<Analyzed>,
        full: bool,
        analyze: bool,
    },
    Analyze {
        tables: Vec<Analyzed>,
        verbose: bool,
    },
    /// An index, or the indexes of a table.
    Reindex {
        index: bool,
        name: Vec<String>,
    },
    CreateSequence {
        name: Vec<String>,
        options: SequenceOptions,
        if_not_exists: bool,
    },
    AlterSequence {
        name: Vec<String>,
        options: SequenceOptions,
        if_exists: bool,
    },
    /// CREATE SCHEMA with what is to be in it, in the order in which it is made.
    CreateSchema {
        schema: Box<Parsed>,
        elements: Vec<Parsed>,
    },
    RenameSequence {
        name: Vec<String>,
        to: String,
        if_exists: bool,
    },
    /// ALTER SEQUENCE SET SCHEMA
    MoveSequence {
        name: Vec<String>,
        schema: String,
        if_exists: bool,
    },
    /// COMMENT ON CONSTRAINT, `None` is NULL.
    CommentConstraint {
        name: String,
        table: Vec<String>,
        text: Option<String>,
    },
    /// CREATE, ALTER and DROP FUNCTION, COMMENT ON FUNCTION
    Function(FunctionStatement),
    /// CREATE, ALTER and DROP TYPE, COMMENT ON TYPE
    Type(TypeStatement),
    /// About roles, privileges and owners.
    Role(RoleStatement),
    CreateTableAs(CreateAs),
    CreateTableLike(CreateLike),
    /// REFRESH MATERIALIZED VIEW
    Refresh {
        view: Vec<String>,
        concurrently: bool,
        with_data: bool,
    },
    /// ALTER TABLE SET SCHEMA, or of a view; what it says that it is.
    SetSchema {
        table: Vec<String>,
        said: Said,
        if_exists: bool,
        schema: String,
    },
    /// ALTER TABLE ALTER COLUMN ADD GENERATED, DROP IDENTITY, DROP EXPRESSION
    AlterColumn {
        table: Vec<String>,
        if_exists: bool,
        column: String,
        change: Box<ColumnChange>,
    },
    /// ALTER TABLE ALTER CONSTRAINT
    AlterConstraint {
        table: Vec<String>,
        if_exists: bool,
        name: String,
        waits: Waits,
    },
    /// SET CONSTRAINTS; `None` is ALL.
    SetConstraints {
        names: Option<Vec<Vec<String>>>,
        deferred: bool,
    },
    Listen(String),
    /// NOTIFY with its text, which may be empty.
    Notify {
        channel: String,
        payload: String,
    },
    /// UNLISTEN; `None` is all channels.
    Unlisten(Option<String>),
    Checkpoint,
    /// LOCK TABLE
    Lock {
        tables: Vec<Vec<String>>,
        mode: LockMode,
        nowait: bool,
    },
    Discard(String),
    /// DO with the code of its block.
    Do(String),
    Explain {
        options: ExplainOptions,
        statement: Box<Parsed>,
    },
}

/// What becomes of a prepared transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Commit,
    Rollback,
}

/// What a cursor was declared as.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Kind {
    /// Do its rows outlive its transaction?
    pub(crate) hold: bool,
    /// SCROLL or NO SCROLL.
    pub(crate) scroll: Option<bool>,
    pub(crate) insensitive: bool,
    /// Are its rows sent in binary form where a client asks for none?
    pub(crate) binary: bool,
}

/// Which rows of a cursor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Direction {
    /// So many forward, backward when negative.
    Count(i64),
    All,
    Backward,
    First,
    Last,
    Absolute(i64),
    Relative(i64),
}

/// A table that ANALYZE names, and which of its columns; none: all.
#[derive(Clone, Debug)]
pub(crate) struct Analyzed {
    pub(crate) name: Vec<String>,
    pub(crate) columns: Vec<String>,
}

/// Words that such a statement begins with.
const WORDS: [&str; 33] = [
    "begin",
    "start",
    "commit",
    "end",
    "rollback",
    "abort",
    "savepoint",
    "release",
    "set",
    "show",
    "reset",
    "prepare",
    "execute",
    "deallocate",
    "declare",
    "fetch",
    "move",
    "close",
    "copy",
    "vacuum",
    "analyze",
    "analyse",
    "checkpoint",
    "discard",
    "explain",
    "reindex",
    "refresh",
    "cluster",
    "do",
    "lock",
    "listen",
    "notify",
    "unlisten",
];

/// Reads a utility statement, if it is one.
pub(crate) fn utility(cursor: &mut Cursor) -> Result<Option<Utility>> {
    if let Some(statement) = roles::statement(cursor)? {
        return Ok(Some(Utility::Role(statement)));
    }
    if let Some(made) = create_as::create_as(cursor)? {
        return Ok(Some(Utility::CreateTableAs(made)));
    }
    if let Some(made) = like::create_like(cursor)? {
        return Ok(Some(Utility::CreateTableLike(made)));
    }
    if (cursor.is("create") || cursor.is("drop")) && cursor.is_at(1, "cast") {
        return Err(SqlError::unsupported("a cast that users make"));
    }
    if cursor.is("create") && cursor.is_at(1, "schema") {
        return create_schema(cursor);
    }
    if cursor.is("alter") && cursor.is_at(1, "sequence") {
        return sequence::alter(cursor).map(Some);
    }
    if cursor.is("create") && cursor.is_at(1, "sequence") {
        return sequence::create(cursor).map(Some);
    }
    if cursor.is("comment") && cursor.is_at(1, "on") && cursor.is_at(2, "constraint") {
        return constraint::comment(cursor).map(Some);
    }
    if let Some(statement) = functions::statement(cursor)? {
        return Ok(Some(Utility::Function(statement)));
    }
    if let Some(statement) = types::statement(cursor)? {
        return Ok(Some(Utility::Type(statement)));
    }
    if let Some(moved) = set_schema(cursor)? {
        return Ok(Some(moved));
    }
    if let Some(altered) = constraint::alter(cursor)? {
        return Ok(Some(altered));
    }
    if let Some(altered) = column::alter(cursor)? {
        return Ok(Some(altered));
    }
    let Some(word) = cursor.take_any(&WORDS) else { return Ok(None) };
    Ok(Some(match word {
        "begin" | "start" => begin(cursor, word == "start")?,
        "commit" | "end" | "rollback" | "abort" => end(cursor, word)?,
        "savepoint" => Utility::Savepoint(cursor.name()?),
        "release" => {
            cursor.take("savepoint");
            Utility::Release(cursor.name()?)
        }
        "set" => settings::set(cursor)?,
        "show" => Utility::Show(settings::name(cursor)?),
        "reset" if cursor.take("all") => Utility::Reset(None),
        "reset" => Utility::Reset(Some(settings::name(cursor)?)),
        "prepare" => prepare(cursor)?,
        "execute" => execute(cursor)?,
        "deallocate" => {
            cursor.take("prepare");
            Utility::Deallocate(name_or_all(cursor)?)
        }
        "declare" => declare(cursor)?,
        "fetch" | "move" => fetch(cursor, word == "move")?,
        "close" => Utility::Close(name_or_all(cursor)?),
        "copy" => Utility::Copy(copy::parse(cursor)?),
        "vacuum" => vacuum(cursor)?,
        "analyze" | "analyse" => analyze(cursor)?,
        "checkpoint" => Utility::Checkpoint,
        "lock" => lock(cursor)?,
        "discard" => Utility::Discard(cursor.name()?),
        "do" => Utility::Do(block::code(cursor)?),
        "explain" => {
            let options = explain::options(cursor)?;
            let statement = wrapped(cursor, &["explain", "prepare"])?;
            Utility::Explain { options, statement }
        }
        "reindex" => reindex(cursor)?,
        "refresh" => refresh(cursor)?,
        "listen" => Utility::Listen(cursor.name()?),
        "notify" => notify(cursor)?,
        "unlisten" if cursor.take_token(&Token::Mul) => Utility::Unlisten(None),
        "unlisten" => Utility::Unlisten(Some(cursor.name()?)),
        other => return Err(SqlError::unsupported(other.to_uppercase())),
    }))
}

/// REFRESH MATERIALIZED VIEW, behind its first word.
fn refresh(cursor: &mut Cursor) -> Result<Utility> {
    cursor.expect("materialized")?;
    cursor.expect("view")?;
    let concurrently = cursor.take("concurrently");
    let view = cursor.qualified()?;
    let mut with_data = true;
    if cursor.take("with") {
        with_data = !cursor.take("no");
        cursor.expect("data")?;
    }
    Ok(Utility::Refresh { view, concurrently, with_data })
}

fn notify(cursor: &mut Cursor) -> Result<Utility> {
    let channel = cursor.name()?;
    let payload = match cursor.take_token(&Token::Comma) {
        true => cursor.string().ok_or_else(|| cursor.unexpected())?,
        false => String::new(),
    };
    Ok(Utility::Notify { channel, payload })
}

/// ALTER TABLE t SET SCHEMA s, which sqlparser does not know; `None` for anything else.
fn set_schema(cursor: &mut Cursor) -> Result<Option<Utility>> {
    let end = cursor.left();
    let said = match () {
        () if cursor.is_at(1, "table") => Said::Table,
        () if cursor.is_at(1, "view") => Said::View,
        () if cursor.is_at(1, "materialized") && cursor.is_at(2, "view") => Said::MaterializedView,
        () => return Ok(None),
    };
    let fits = cursor.is("alter") && end >= 6;
    if !fits || !cursor.is_at(end - 3, "set") || !cursor.is_at(end - 2, "schema") {
        return Ok(None);
    }
    cursor.expect("alter")?;
    said.noun().split(' ').try_for_each(|word| cursor.expect(word))?;
    let if_exists = cursor.take("if");
    if if_exists {
        cursor.expect("exists")?;
    }
    cursor.take("only");
    let table = cursor.qualified()?;
    cursor.expect("set")?;
    cursor.expect("schema")?;
    Ok(Some(Utility::SetSchema { table, said, if_exists, schema: cursor.name()? }))
}

/// CREATE SCHEMA with what is to be in it; `None` if that is nothing.
fn create_schema(cursor: &mut Cursor) -> Result<Option<Utility>> {
    let if_not_exists = cursor.is_at(2, "if");
    let parts = cursor.cut_at(if if_not_exists { 6 } else { 3 }, &["create", "grant"]);
    if parts.is_empty() {
        return Ok(None);
    }
    if if_not_exists {
        let message = "CREATE SCHEMA IF NOT EXISTS cannot include schema elements";
        return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
    }
    let schema = Box::new(statement(cursor.rest()?, &cursor.lines)?);
    let mut elements = Vec::with_capacity(parts.len());
    for part in parts {
        let words: Vec<String> = part.iter().take(2).map(|word| word.token.to_string()).collect();
        let parsed = statement(part, &cursor.lines)?;
        let order = match &parsed.stmt {
            Stmt::Utility(Utility::CreateSequence { .. }) => 0,
            Stmt::Sql(sql) => match sql.as_ref() {
                ast::Statement::CreateTable(_) => 1,
                ast::Statement::CreateView(view) if !view.materialized => 2,
                ast::Statement::CreateIndex(_) => 3,
                _ => 4,
            },
            Stmt::Utility(_) => 4,
        };
        if order > 3 {
            let words = words.join(" ").to_uppercase();
            return Err(SqlError::unsupported(format!("{words} inside of CREATE SCHEMA")));
        }
        elements.push((order, parsed));
    }
    elements.sort_by_key(|(order, _)| *order);
    let elements = elements.into_iter().map(|(_, parsed)| parsed).collect();
    Ok(Some(Utility::CreateSchema { schema, elements }))
}

fn name_or_all(cursor: &mut Cursor) -> Result<Option<String>> {
    if cursor.take("all") { Ok(None) } else { cursor.name().map(Some) }
}

fn begin(cursor: &mut Cursor, start: bool) -> Result<Utility> {
    if start {
        cursor.expect("transaction")?;
    } else {
        cursor.take_any(&["transaction", "work"]);
    }
    Ok(Utility::Begin { modes: modes(cursor)?, start })
}

fn end(cursor: &mut Cursor, word: &str) -> Result<Utility> {
    let decision = match word {
        "commit" => Some(Decision::Commit),
        "rollback" => Some(Decision::Rollback),
        _ => None,
    };
    if let Some(decision) = decision
        && cursor.take("prepared")
    {
        return Ok(Utility::FinishPrepared { gid: gid(cursor)?, decision });
    }
    cursor.take_any(&["transaction", "work"]);
    if word == "rollback" && cursor.take("to") {
        cursor.take("savepoint");
        return Ok(Utility::RollbackTo(cursor.name()?));
    }
    let mut chain = false;
    if cursor.take("and") {
        chain = !cursor.take("no");
        cursor.expect("chain")?;
    }
    Ok(match word {
        "commit" | "end" => Utility::Commit { chain },
        _ => Utility::Rollback { chain },
    })
}

/// The name of a prepared transaction.
fn gid(cursor: &mut Cursor) -> Result<String> {
    cursor.string().ok_or_else(|| cursor.unexpected())
}

/// The statement that follows, which begins with none of these words: what wraps a statement wraps
/// no other of its kind.
fn wrapped(cursor: &mut Cursor, refused: &[&'static str]) -> Result<Box<Parsed>> {
    if refused.iter().any(|word| cursor.is(word)) {
        return Err(cursor.unexpected());
    }
    statement(cursor.rest()?, &cursor.lines).map(Box::new)
}

fn prepare(cursor: &mut Cursor) -> Result<Utility> {
    if cursor.is("transaction") && !cursor.is_at(1, "as") {
        cursor.take("transaction");
        return Ok(Utility::PrepareTransaction(gid(cursor)?));
    }
    let name = cursor.name()?;
    let mut types = Vec::new();
    if !cursor.is("as") {
        let list = cursor.parenthesised()?;
        types = run(list, &cursor.lines, |parser| {
            parser.parse_comma_separated(Parser::parse_data_type)
        })?;
    }
    cursor.expect("as")?;
    let statement = wrapped(cursor, &["explain", "prepare", "declare"])?;
    Ok(Utility::Prepare { name, types, statement })
}

fn execute(cursor: &mut Cursor) -> Result<Utility> {
    let name = cursor.name()?;
    let mut args = Vec::new();
    if !cursor.is_end() {
        let list = cursor.parenthesised()?;
        if !list.is_empty() {
            args = run(list, &cursor.lines, |parser| {
                parser.parse_comma_separated(Parser::parse_expr)
            })?;
        }
    }
    Ok(Utility::Execute { name, args })
}

fn declare(cursor: &mut Cursor) -> Result<Utility> {
    let name = cursor.name()?;
    let (mut kind, mut asensitive) = (Kind::default(), false);
    let both = |what: &str| {
        let message = format!("cannot specify both {what}");
        SqlError::new(code::INVALID_CURSOR_DEFINITION, message)
    };
    while !cursor.take("cursor") {
        let scroll = if cursor.take("no") {
            cursor.expect("scroll")?;
            false
        } else {
            match cursor.take_any(&["scroll", "insensitive", "asensitive", "binary"]) {
                Some("scroll") => true,
                Some(word) => {
                    kind.binary |= word == "binary";
                    kind.insensitive |= word == "insensitive";
                    asensitive |= word == "asensitive";
                    continue;
                }
                None => return Err(cursor.unexpected()),
            }
        };
        if kind.scroll.replace(scroll).is_some_and(|before| before != scroll) {
            return Err(both("SCROLL and NO SCROLL"));
        }
    }
    if kind.insensitive && asensitive {
        return Err(both("INSENSITIVE and ASENSITIVE"));
    }
    if let Some(word) = cursor.take_any(&["with", "without"]) {
        cursor.expect("hold")?;
        kind.hold = word == "with";
    }
    cursor.expect("for")?;
    let query = wrapped(cursor, &["explain", "prepare", "declare"])?;
    Ok(Utility::Declare { name, kind, query })
}

fn fetch(cursor: &mut Cursor, moves: bool) -> Result<Utility> {
    let direction = if cursor.take("next") {
        Direction::Count(1)
    } else if cursor.take("prior") {
        Direction::Count(-1)
    } else if cursor.take("first") {
        Direction::First
    } else if cursor.take("last") {
        Direction::Last
    } else if cursor.take("absolute") {
        Direction::Absolute(cursor.number().ok_or_else(|| cursor.unexpected())?)
    } else if cursor.take("relative") {
        Direction::Relative(cursor.number().ok_or_else(|| cursor.unexpected())?)
    } else if cursor.take("all") {
        Direction::All
    } else if cursor.take("forward") {
        count(cursor, 1)
    } else if cursor.take("backward") {
        count(cursor, -1)
    } else {
        cursor.number().map_or(Direction::Count(1), Direction::Count)
    };
    cursor.take_any(&["from", "in"]);
    Ok(Utility::Fetch { name: cursor.name()?, direction, moves })
}

fn count(cursor: &mut Cursor, sign: i64) -> Direction {
    if cursor.take("all") {
        return if sign > 0 { Direction::All } else { Direction::Backward };
    }
    Direction::Count(cursor.number().unwrap_or(1).saturating_mul(sign))
}

fn tables(cursor: &mut Cursor) -> Result<Vec<Analyzed>> {
    let mut list = Vec::new();
    while !cursor.is_end() {
        let name = cursor.qualified()?;
        let mut columns = Vec::new();
        if cursor.take_token(&Token::LParen) {
            loop {
                columns.push(cursor.name()?);
                if !cursor.take_token(&Token::Comma) {
                    break;
                }
            }
            cursor.expect_token(&Token::RParen)?;
        }
        list.push(Analyzed { name, columns });
        if !cursor.take_token(&Token::Comma) {
            break;
        }
    }
    Ok(list)
}

/// Options in parentheses, those that are on.
fn options(cursor: &mut Cursor) -> Result<Vec<String>> {
    let mut on = Vec::new();
    if cursor.take_token(&Token::LParen) {
        loop {
            let option = cursor.name()?;
            let off = cursor.value().is_some_and(|v| {
                ["false", "off", "0"].iter().any(|off| v.eq_ignore_ascii_case(off))
            });
            if !off {
                on.push(option);
            }
            if !cursor.take_token(&Token::Comma) {
                break;
            }
        }
        cursor.expect_token(&Token::RParen)?;
    }
    Ok(on)
}

fn vacuum(cursor: &mut Cursor) -> Result<Utility> {
    let on = options(cursor)?;
    let has = |word: &str| on.iter().any(|option| option == word);
    let (mut full, mut analyze) = (has("full"), has("analyze") || has("analyse"));
    while let Some(word) = cursor.take_any(&["full", "freeze", "verbose", "analyze", "analyse"]) {
        full |= word == "full";
        analyze |= word.starts_with("analy");
    }
    let tables = tables(cursor)?;
    if !analyze && tables.iter().any(|table| !table.columns.is_empty()) {
        let message = "ANALYZE option must be specified when a column list is provided";
        return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
    }
    Ok(Utility::Vacuum { tables, full, analyze })
}

fn analyze(cursor: &mut Cursor) -> Result<Utility> {
    let on = options(cursor)?;
    let mut verbose = false;
    for option in on {
        match option.as_str() {
            "verbose" => verbose = true,
            "skip_locked" | "buffer_usage_limit" => {
                return Err(SqlError::unsupported(format!("ANALYZE with {option}")));
            }
            _ => {
                let message = format!("unrecognized ANALYZE option \"{option}\"");
                return Err(SqlError::syntax(message));
            }
        }
    }
    verbose |= cursor.take("verbose");
    Ok(Utility::Analyze { tables: tables(cursor)?, verbose })
}

/// LOCK, in a mode of the store that keeps out everything that PostgreSQL's mode does. Rows are
/// locked under `Write`, so ROW SHARE is that, and EXCLUSIVE the same as SHARE ROW EXCLUSIVE.
fn lock(cursor: &mut Cursor) -> Result<Utility> {
    cursor.take("table");
    let mut tables = Vec::new();
    loop {
        cursor.take("only");
        tables.push(cursor.qualified()?);
        cursor.take_token(&Token::Mul);
        if !cursor.take_token(&Token::Comma) {
            break;
        }
    }
    let mode = if cursor.take("in") { lock_mode(cursor)? } else { LockMode::Exclusive };
    Ok(Utility::Lock { tables, mode, nowait: cursor.take("nowait") })
}

fn lock_mode(cursor: &mut Cursor) -> Result<LockMode> {
    const MODES: [(&[&str], Option<LockMode>); 8] = [
        (&["access", "share"], Some(LockMode::Access)),
        (&["access", "exclusive"], Some(LockMode::Exclusive)),
        (&["row", "share"], Some(LockMode::Write)),
        (&["row", "exclusive"], Some(LockMode::Write)),
        (&["share", "update", "exclusive"], None),
        (&["share", "row", "exclusive"], Some(LockMode::ShareWrite)),
        (&["share"], Some(LockMode::Share)),
        (&["exclusive"], Some(LockMode::ShareWrite)),
    ];
    let found = MODES.iter().find(|(words, _)| {
        let rest = words.iter().chain([&"mode"]);
        rest.enumerate().all(|(ahead, word)| cursor.is_at(ahead, word))
    });
    let Some((words, mode)) = found else { return Err(cursor.unexpected()) };
    for word in words.iter().chain([&"mode"]) {
        cursor.expect(word)?;
    }
    mode.ok_or_else(|| SqlError::unsupported("LOCK TABLE IN SHARE UPDATE EXCLUSIVE MODE"))
}

fn reindex(cursor: &mut Cursor) -> Result<Utility> {
    if cursor.take_token(&Token::LParen) {
        loop {
            reindex_option(cursor)?;
            if !cursor.take_token(&Token::Comma) {
                break;
            }
        }
        cursor.expect_token(&Token::RParen)?;
    }
    let Some(what) = cursor.take_any(&["index", "table", "schema", "database", "system"]) else {
        return Err(cursor.unexpected());
    };
    // Others are never kept out here.
    cursor.take("concurrently");
    match what {
        "index" | "table" => {
            Ok(Utility::Reindex { index: what == "index", name: cursor.qualified()? })
        }
        other => Err(SqlError::unsupported(format!("REINDEX {}", other.to_uppercase()))),
    }
}

fn reindex_option(cursor: &mut Cursor) -> Result<()> {
    let name = cursor.name()?;
    let value = cursor.value();
    match (name.as_str(), value) {
        ("verbose" | "concurrently", _) => Ok(()),
        // There is no other place for data.
        ("tablespace", Some(space)) if space == "pg_default" => Ok(()),
        ("tablespace", Some(space)) => {
            let message = format!("tablespace \"{space}\" does not exist");
            Err(SqlError::new(code::UNDEFINED_OBJECT, message))
        }
        ("tablespace", None) => Err(SqlError::syntax("tablespace requires a parameter")),
        _ => Err(SqlError::syntax(format!("unrecognized REINDEX option \"{name}\""))),
    }
}
