//! The code of a DO block: statements of SQL in an order, conditions, and handlers of errors.
//!
//! It is the part of PL/pgSQL that migrations write so that they can run again: nested blocks with
//! EXCEPTION, IF, PERFORM, EXECUTE, RAISE, RETURN and NULL.
//!
//! Invariants: all of it is read before any of it runs, so that a syntax error leaves nothing done.
//! Statements that cannot be read because they are not supported fail when they are reached.
//! Does not do: variables, loops, functions in PL/pgSQL: they are refused by name.

mod conditions;
mod raise;

use std::sync::Arc;

use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::{Result, SqlError, code};
use crate::parse::cursor::Cursor;
use crate::parse::{self, MAX_NESTING, Parsed, Stmt};
pub(crate) use conditions::{Condition, code_or_name};
pub(crate) use raise::{Level, Raise, Raised};

/// BEGIN .. END
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) steps: Vec<Step>,
    pub(crate) handlers: Vec<Handler>,
}

/// What is done after an error.
#[derive(Clone, Debug)]
pub(crate) struct Handler {
    pub(crate) conditions: Vec<Condition>,
    pub(crate) steps: Vec<Step>,
}

/// A statement of a block.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Sql(Arc<Parsed>),
    /// A query whose rows nobody wants.
    Perform(Arc<Parsed>),
    /// A query that gives the text of statements.
    Execute(Arc<Parsed>),
    /// The branches of IF in their order, and ELSE.
    If {
        branches: Vec<Branch>,
        otherwise: Vec<Step>,
    },
    Block(Block),
    Raise(Raise),
    Return,
    /// A statement that cannot be run here.
    Refused(SqlError),
}

/// A query that gives a condition, and what is done if it holds.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    pub(crate) condition: Arc<Parsed>,
    pub(crate) steps: Vec<Step>,
}

/// Words of PL/pgSQL that are not known here.
const REFUSED: [&str; 19] = [
    "loop",
    "while",
    "for",
    "foreach",
    "case",
    "exit",
    "continue",
    "assert",
    "get",
    "open",
    "fetch",
    "move",
    "close",
    "call",
    "commit",
    "rollback",
    "prepare",
    "deallocate",
    "copy",
];

/// Reads DO behind its word, up to the code.
pub(crate) fn code(cursor: &mut Cursor) -> Result<String> {
    let (mut text, mut language) = (None, None);
    while !cursor.is_end() {
        match cursor.take("language") {
            true if language.is_none() => {
                let name = cursor.string().map_or_else(|| cursor.name(), Ok)?;
                language = Some(name.to_lowercase());
            }
            false if text.is_none() => {
                text = Some(cursor.string().ok_or_else(|| cursor.unexpected())?);
            }
            _ => return Err(cursor.unexpected()),
        }
    }
    match language.as_deref() {
        None | Some("plpgsql") => text.ok_or_else(|| SqlError::syntax("no inline code specified")),
        Some(name @ ("sql" | "c" | "internal")) => Err(SqlError::new(
            code::FEATURE_NOT_SUPPORTED,
            format!("language \"{name}\" does not support inline code execution"),
        )),
        Some(name) => Err(SqlError::new(
            code::UNDEFINED_OBJECT,
            format!("language \"{name}\" does not exist"),
        )),
    }
}

/// Reads the code of a block. Reading it takes about `memory` bytes at most.
pub(crate) fn block(text: &str, memory: usize) -> Result<Block> {
    parse::reading(text, memory, |tokens, lines| {
        if tokens.is_empty() {
            return Err(SqlError::syntax("syntax error at end of input"));
        }
        let mut reader = Reader { cursor: Cursor::new(tokens, lines.clone()), depth: 0 };
        let block = reader.block()?;
        reader.cursor.take_token(&Token::SemiColon);
        reader.cursor.end()?;
        Ok(block)
    })
}

struct Reader {
    cursor: Cursor,
    /// Blocks and IFs around this place.
    depth: usize,
}

impl Reader {
    /// A block from BEGIN to END.
    fn block(&mut self) -> Result<Block> {
        if self.cursor.is("declare") {
            return Err(SqlError::unsupported("DECLARE in a DO block"));
        }
        if self.cursor.is_token(&Token::ShiftLeft) {
            return Err(SqlError::unsupported("a label in a DO block"));
        }
        self.cursor.expect("begin")?;
        self.enter()?;
        let steps = self.steps(&["exception", "end"])?;
        let mut handlers = Vec::new();
        if self.cursor.take("exception") {
            loop {
                handlers.push(self.handler()?);
                if !self.cursor.is("when") {
                    break;
                }
            }
        }
        self.cursor.expect("end")?;
        self.depth -= 1;
        Ok(Block { steps, handlers })
    }

    fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        match self.depth > MAX_NESTING {
            true => Err(parse::too_complex()),
            false => Ok(()),
        }
    }

    /// WHEN .. THEN with its statements.
    fn handler(&mut self) -> Result<Handler> {
        self.cursor.expect("when")?;
        let mut conditions = Vec::new();
        loop {
            conditions.push(Condition::read(&mut self.cursor)?);
            if !self.cursor.take("or") {
                break;
            }
        }
        self.cursor.expect("then")?;
        Ok(Handler { conditions, steps: self.steps(&["when", "end"])? })
    }

    /// Statements up to one of these words, which is not taken.
    fn steps(&mut self, ends: &[&str]) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        while !ends.iter().any(|end| self.cursor.is(end)) {
            if self.cursor.is_end() {
                return Err(self.cursor.unexpected());
            }
            steps.extend(self.step()?);
        }
        Ok(steps)
    }

    /// One statement with its semicolon; `None` for NULL.
    fn step(&mut self) -> Result<Option<Step>> {
        let step = match () {
            () if self.cursor.is("begin") || self.cursor.is("declare") => {
                Some(Step::Block(self.block()?))
            }
            () if self.cursor.is_token(&Token::ShiftLeft) => Some(Step::Block(self.block()?)),
            () if self.cursor.take("null") => None,
            () if self.cursor.take("return") => Some(Step::Return),
            () if self.cursor.take("if") => Some(self.branches()?),
            () if self.cursor.take("raise") => {
                let tokens = self.until_semicolon()?;
                Some(Step::Raise(Raise::read(tokens, &self.cursor)?))
            }
            () if self.cursor.take("perform") => {
                let tokens = self.until_semicolon()?;
                Some(Step::Perform(query(tokens, &self.cursor)?))
            }
            () if self.cursor.take("execute") => Some(self.execute()?),
            () => Some(self.sql()?),
        };
        self.cursor.expect_token(&Token::SemiColon)?;
        Ok(step)
    }

    /// IF behind its word, up to END IF.
    fn branches(&mut self) -> Result<Step> {
        self.enter()?;
        let mut branches = Vec::new();
        loop {
            let ahead = self.cursor.distance_to("then").ok_or_else(|| self.cursor.unexpected())?;
            let tokens = self.cursor.take_tokens(ahead);
            let condition = query(tokens, &self.cursor)?;
            self.cursor.expect("then")?;
            let steps = self.steps(&["elsif", "elseif", "else", "end"])?;
            branches.push(Branch { condition, steps });
            if !self.cursor.take("elsif") && !self.cursor.take("elseif") {
                break;
            }
        }
        let otherwise = match self.cursor.take("else") {
            true => self.steps(&["end"])?,
            false => Vec::new(),
        };
        self.cursor.expect("end")?;
        self.cursor.expect("if")?;
        self.depth -= 1;
        Ok(Step::If { branches, otherwise })
    }

    /// EXECUTE behind its word.
    fn execute(&mut self) -> Result<Step> {
        let tokens = self.until_semicolon()?;
        if tokens.is_empty() {
            return Err(self.cursor.unexpected());
        }
        let text = self.cursor.over(tokens);
        for word in ["into", "using"] {
            if text.distance_to(word).is_some() {
                let what = format!("EXECUTE {} in a DO block", word.to_uppercase());
                return Err(SqlError::unsupported(what));
            }
        }
        let tokens = { text }.rest()?;
        Ok(Step::Execute(query(tokens, &self.cursor)?))
    }

    /// A statement of SQL.
    fn sql(&mut self) -> Result<Step> {
        if let Some(word) = REFUSED.iter().find(|word| self.cursor.is(word)) {
            let what = format!("{} in a DO block", word.to_uppercase());
            return Err(SqlError::unsupported(what));
        }
        let is_query = self.cursor.is("select") || self.cursor.is("with");
        let tokens = self.until_semicolon()?;
        if tokens.get(1).is_some_and(|next| is_assignment(&next.token)) {
            return Err(SqlError::unsupported("a variable in a DO block"));
        }
        if tokens.is_empty() {
            return Err(self.cursor.unexpected());
        }
        let parsed = match parse::statement(tokens, &self.cursor.lines) {
            Err(error) if error.sqlstate == code::FEATURE_NOT_SUPPORTED => {
                return Ok(Step::Refused(error));
            }
            parsed => parsed?,
        };
        match parsed.stmt {
            Stmt::Utility(_) if is_query => Err(SqlError::unsupported("SELECT INTO in a DO block")),
            _ => Ok(Step::Sql(Arc::new(parsed))),
        }
    }

    fn until_semicolon(&mut self) -> Result<Vec<TokenWithSpan>> {
        match self.cursor.distance_to_token(&Token::SemiColon) {
            Some(ahead) => Ok(self.cursor.take_tokens(ahead)),
            None => Err(SqlError::syntax("syntax error at end of input")),
        }
    }
}

fn is_assignment(token: &Token) -> bool {
    matches!(token, Token::Assignment | Token::Eq)
}

/// The query that gives the values of some expressions, FROM and what follows included.
fn query(mut tokens: Vec<TokenWithSpan>, at: &Cursor) -> Result<Arc<Parsed>> {
    let Some(first) = tokens.first() else { return Err(at.unexpected()) };
    let select = TokenWithSpan { token: Token::make_keyword("SELECT"), span: first.span };
    tokens.insert(0, select);
    let parsed = parse::statement(tokens, &at.lines)?;
    match parsed.stmt {
        Stmt::Utility(_) => Err(SqlError::unsupported("INTO in a DO block")),
        Stmt::Sql(_) => Ok(Arc::new(parsed)),
    }
}
