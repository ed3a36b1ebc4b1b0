//! DO: the statements of a block, in the transaction that there is.
//!
//! A block with handlers runs behind a savepoint of its own. An error takes back what the block did
//! before the handler goes on.
//!
//! Invariants: what cannot be undone is refused inside. A cancel ends the whole statement. Errors
//! have no position, since the text that they are about is not the statement's.
//! Does not do: reading the code (`parse::block`).

use std::sync::Arc;

use super::{Session, Sink};
use crate::bind::ddl;
use crate::error::{Result, SqlError, code};
use crate::parse::block::{Block, Handler, Level, Raise, Raised, Step, code_or_name};
use crate::parse::utility::Utility;
use crate::parse::{self, Parsed, Stmt};
use crate::plan::Column;
use crate::types::cast::cast;
use crate::types::{Datum, Row, SqlType};

/// Blocks inside of one another, by way of EXECUTE.
const MAX_BLOCKS: usize = 20;

/// Where the statements of a block go on.
#[derive(Clone, Copy, PartialEq)]
enum Flow {
    Next,
    /// Behind the whole of the code.
    Return,
}

impl Session {
    /// Runs the code of a DO statement.
    pub(super) fn run_block(&mut self, code: &str, sink: &mut dyn Sink) -> Result<()> {
        self.ensure()?;
        if self.blocks == MAX_BLOCKS {
            return Err(SqlError::new(code::TOO_COMPLEX, "stack depth limit exceeded")
                .detail(format!("There are {MAX_BLOCKS} DO blocks in one another.")));
        }
        // The transaction is not this statement's alone: what cannot be undone is refused.
        let several = std::mem::replace(&mut self.several, true);
        self.blocks += 1;
        let done = self.on_stack(code.len(), |session| {
            let block = parse::block::block(code, session.memory_to_read())?;
            session.block_of(&block, None, sink)
        });
        self.blocks -= 1;
        self.several = several;
        done.map(drop).map_err(unplaced)
    }

    /// Runs a block; `caught` is the error that the handler around it is for.
    fn block_of(
        &mut self,
        block: &Block,
        caught: Option<&SqlError>,
        sink: &mut dyn Sink,
    ) -> Result<Flow> {
        if block.handlers.is_empty() {
            return self.steps(&block.steps, caught, sink);
        }
        let mark = self.mark("")?;
        let error = match self.steps(&block.steps, caught, sink) {
            Ok(flow) => return self.release_mark(mark).map(|()| flow),
            Err(error) => unplaced(error),
        };
        let is_for = |handler: &&Handler| {
            handler.conditions.iter().any(|condition| condition.is_of(error.sqlstate))
        };
        let Some(handler) = block.handlers.iter().find(is_for) else { return Err(error) };
        self.return_to_mark(mark)?;
        self.release_mark(mark)?;
        self.steps(&handler.steps, Some(&error.said()), sink)
    }

    fn steps(
        &mut self,
        steps: &[Step],
        caught: Option<&SqlError>,
        sink: &mut dyn Sink,
    ) -> Result<Flow> {
        for step in steps {
            if self.step(step, caught, sink)? == Flow::Return {
                return Ok(Flow::Return);
            }
        }
        Ok(Flow::Next)
    }

    fn step(
        &mut self,
        step: &Step,
        caught: Option<&SqlError>,
        sink: &mut dyn Sink,
    ) -> Result<Flow> {
        match step {
            Step::Sql(parsed) => self.sql(parsed, sink)?,
            Step::Perform(query) => {
                self.query(query, &mut Inner::new(sink))?;
            }
            Step::Execute(text) => self.execute_text(text, sink)?,
            Step::If { branches, otherwise } => {
                for branch in branches {
                    if self.holds(&branch.condition, sink)? {
                        return self.steps(&branch.steps, caught, sink);
                    }
                }
                return self.steps(otherwise, caught, sink);
            }
            Step::Block(block) => return self.block_of(block, caught, sink),
            Step::Raise(raise) => self.raise(raise, caught, sink)?,
            Step::Return => return Ok(Flow::Return),
            Step::Refused(error) => return Err(error.clone()),
        }
        Ok(Flow::Next)
    }

    /// Runs a statement that gives no rows.
    fn sql(&mut self, parsed: &Arc<Parsed>, sink: &mut dyn Sink) -> Result<()> {
        match &parsed.stmt {
            Stmt::Utility(utility) => {
                refuse(utility)?;
                if self.utility_columns(utility).is_some() {
                    return Err(no_destination());
                }
                self.utility(utility, &mut Inner::new(sink))?;
            }
            Stmt::Sql(statement) if ddl::is_definition(statement) => {
                self.definition(statement, &parsed.lines, sink)?;
            }
            Stmt::Sql(_) => {
                let mut inner = Inner::new(sink);
                inner.takes_rows = false;
                self.query(parsed, &mut inner)?;
            }
        }
        self.follow_settings();
        Ok(())
    }

    /// Runs a statement that has a plan.
    fn query(&mut self, parsed: &Arc<Parsed>, inner: &mut Inner<'_>) -> Result<()> {
        let planned = self.plan_alone(parsed)?;
        if planned.plan.columns().is_some() && !inner.takes_rows {
            return Err(no_destination());
        }
        self.run_plan(&planned.plan, Vec::new(), inner).map(drop)
    }

    /// Runs the statements of the text that a query gives.
    fn execute_text(&mut self, text: &Arc<Parsed>, sink: &mut dyn Sink) -> Result<()> {
        let value = self.value(text, sink)?;
        let Some(text) = value.to_text() else {
            let message = "query string argument of EXECUTE is null";
            return Err(SqlError::new(code::NULL_NOT_ALLOWED, message));
        };
        self.on_stack(text.len(), |session| {
            for parsed in session.parse(&text)? {
                let parsed = Arc::new(parsed);
                match &parsed.stmt {
                    Stmt::Sql(statement) if !ddl::is_definition(statement) => {
                        session.query(&parsed, &mut Inner::new(sink))?;
                    }
                    _ => session.sql(&parsed, sink)?,
                }
            }
            Ok(())
        })
    }

    /// Does a condition hold? One that is null does not.
    fn holds(&mut self, condition: &Arc<Parsed>, sink: &mut dyn Sink) -> Result<bool> {
        let value = self.value(condition, sink)?;
        Ok(cast(value, SqlType::Bool, &self.times())? == Datum::Bool(true))
    }

    /// The one value of a query, null where it has no row.
    fn value(&mut self, query: &Arc<Parsed>, sink: &mut dyn Sink) -> Result<Datum> {
        let mut values = self.values(query, sink)?;
        match values.len() {
            1 => Ok(values.remove(0)),
            count => Err(SqlError::syntax(format!("query returned {count} columns"))),
        }
    }

    /// The values of the one row of a query, nulls where it has none.
    fn values(&mut self, query: &Arc<Parsed>, sink: &mut dyn Sink) -> Result<Vec<Datum>> {
        let mut inner = Inner::new(sink);
        self.query(query, &mut inner)?;
        match (inner.rows, inner.first) {
            (0 | 1, first) => Ok(first.unwrap_or_else(|| vec![Datum::Null; inner.columns])),
            _ => Err(SqlError::new(code::CARDINALITY, "query returned more than one row")),
        }
    }

    fn raise(
        &mut self,
        raise: &Raise,
        caught: Option<&SqlError>,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let Some(raised) = &raise.raised else {
            return Err(caught.cloned().unwrap_or_else(|| {
                let message =
                    "RAISE without parameters cannot be used outside an exception handler";
                SqlError::new(code::NO_HANDLER, message)
            }));
        };
        let message = self.message_of(raised, sink)?;
        let severity = match raise.level {
            Level::Exception => return Err(self.error_of(raised, message, sink)?),
            Level::Debug => "DEBUG",
            Level::Log => "LOG",
            Level::Info => "INFO",
            Level::Notice => "NOTICE",
            Level::Warning => "WARNING",
        };
        self.tell(sink, severity, &message);
        Ok(())
    }

    /// The message with its arguments in their places.
    fn message_of(&mut self, raised: &Raised, sink: &mut dyn Sink) -> Result<String> {
        let values = match &raised.arguments {
            Some(arguments) => self.values(arguments, sink)?,
            None => Vec::new(),
        };
        let times = self.times();
        let mut values = values.iter();
        let mut message = String::new();
        for (at, part) in raised.parts.iter().enumerate() {
            if at > 0 {
                let value = values.next().and_then(|value| value.to_text_in(&times));
                message.push_str(value.as_deref().unwrap_or("<NULL>"));
            }
            message.push_str(part);
        }
        Ok(message)
    }

    fn error_of(
        &mut self,
        raised: &Raised,
        message: String,
        sink: &mut dyn Sink,
    ) -> Result<SqlError> {
        let mut error = SqlError::new(raised.sqlstate, message);
        for option in &raised.options {
            let Some(text) = self.value(&option.value, sink)?.to_text() else {
                let message = "RAISE statement option cannot be null";
                return Err(SqlError::new(code::NULL_NOT_ALLOWED, message));
            };
            match option.word {
                "message" if !error.message.is_empty() => {
                    let message = "RAISE option already specified: MESSAGE";
                    return Err(SqlError::syntax(message));
                }
                "message" => error.message = text,
                "detail" => error = error.detail(text),
                "hint" => error = error.hint(text),
                _ => error.sqlstate = code_or_name(&text)?,
            }
        }
        if error.message.is_empty() {
            error.message = error.sqlstate.to_owned();
        }
        Ok(error)
    }
}

/// Fails for statements that have another meaning in a block, or none.
fn refuse(utility: &Utility) -> Result<()> {
    let what = match utility {
        Utility::Begin { .. }
        | Utility::Commit { .. }
        | Utility::Rollback { .. }
        | Utility::PrepareTransaction(_)
        | Utility::FinishPrepared { .. }
        | Utility::Savepoint(_)
        | Utility::Release(_)
        | Utility::RollbackTo(_) => {
            let message = "unsupported transaction command in PL/pgSQL";
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
        }
        Utility::Copy(_) => "COPY",
        Utility::Prepare { .. } => "PREPARE",
        Utility::Execute { .. } => "EXECUTE of a prepared statement",
        Utility::Deallocate(_) => "DEALLOCATE",
        Utility::Declare { .. } => "DECLARE",
        Utility::Fetch { .. } => "FETCH",
        Utility::Close(_) => "CLOSE",
        Utility::Discard(_) => "DISCARD",
        _ => return Ok(()),
    };
    Err(SqlError::unsupported(format!("{what} in a DO block")))
}

fn no_destination() -> SqlError {
    SqlError::syntax("query has no destination for result data")
        .hint("If you want to discard the results of a SELECT, use PERFORM instead.")
}

fn unplaced(error: SqlError) -> SqlError {
    SqlError { position: None, ..error }
}

/// Keeps the first row of a query, and lets notices through.
struct Inner<'a> {
    outer: &'a mut dyn Sink,
    /// May the statement give rows?
    takes_rows: bool,
    columns: usize,
    rows: u64,
    first: Option<Row>,
}

impl<'a> Inner<'a> {
    fn new(outer: &'a mut dyn Sink) -> Inner<'a> {
        Inner { outer, takes_rows: true, columns: 0, rows: 0, first: None }
    }
}

impl Sink for Inner<'_> {
    fn columns(&mut self, columns: &[Column]) -> Result<()> {
        self.columns = columns.len();
        Ok(())
    }

    fn row(&mut self, row: Row) -> Result<()> {
        self.rows += 1;
        self.first.get_or_insert(row);
        Ok(())
    }

    fn complete(&mut self, _: &str) -> Result<()> {
        Ok(())
    }

    fn notice(&mut self, severity: &str, message: &str) {
        self.outer.notice(severity, message);
    }
}
