//! Portals: statements that run, with row limits, and the messages about them.
//!
//! Invariants: a portal ends with its transaction. One that failed stays, without rows, until then.
//! Does not do: cursors of SQL (`cursor`), the bytes of parameters on the wire.

use std::borrow::Cow;
use std::sync::Arc;

use rightlink::Reservation;

use super::prepared::{Prepared, convert};
use super::routine::Routines;
use super::{Session, Sink};
use crate::error::{Result, SqlError, code};
use crate::exec::Stream;
use crate::exec::batch::ROWS;
use crate::exec::write::Changed;
use crate::expr::Context;
use crate::parse::Stmt;
use crate::parse::utility::{Direction, Utility};
use crate::plan::{Column, Plan};
use crate::types::{Datum, Row};

/// What a portal takes beside the values of its parameters: its name, its plan's streams, what they
/// may ask of the session.
const PORTAL: usize = 4 << 10;

/// How an execution with a row limit ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Execution {
    /// The statement is done; this is its tag.
    Complete(Cow<'static, str>),
    /// There may be more rows.
    Suspended,
    /// There was no statement in the message.
    Empty,
    /// A COPY FROM waits for its data; its tag comes from [`Session::copy_done`].
    Copying,
}

/// A statement that is being run.
pub(super) struct Portal {
    state: State,
    /// When it began, among the session's cursors and portals.
    number: u64,
    /// What a portal with a name takes of the database's memory.
    memory: Option<Reservation>,
}

enum State {
    /// A plan whose rows are handed out.
    Running {
        plan: Arc<Plan>,
        stream: Box<dyn Stream>,
        context: Box<Context>,
        done: Option<Changed>,
        count: u64,
        /// What runs the functions that it calls, if it calls any whose statements run.
        routines: Option<Arc<Routines>>,
    },
    /// Bound and not yet begun.
    Bound {
        statement: Arc<Prepared>,
        params: Vec<Datum>,
    },
    Finished,
}

impl Portal {
    pub(super) fn new(
        number: u64,
        plan: Arc<Plan>,
        stream: Box<dyn Stream>,
        context: Box<Context>,
        done: Option<Changed>,
    ) -> Portal {
        let state = State::Running { plan, stream, context, done, count: 0, routines: None };
        Portal { state, number, memory: None }
    }

    /// The portal with what runs the functions that it calls.
    pub(super) fn calling(mut self, by: Option<Arc<Routines>>) -> Portal {
        if let State::Running { routines, .. } = &mut self.state {
            *routines = by;
        }
        self
    }

    /// What runs the functions that it calls.
    pub(super) fn routines(&self) -> Option<Arc<Routines>> {
        match &self.state {
            State::Running { routines, .. } => routines.clone(),
            _ => None,
        }
    }

    /// The portal with what it takes of the database's memory.
    pub(super) fn counted(self, memory: Reservation) -> Portal {
        Portal { memory: Some(memory), ..self }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The next row; no more than `most` will be wanted for now.
    pub(super) fn next(&mut self, most: usize) -> Result<Option<Row>> {
        let State::Running { stream, context, count, .. } = &mut self.state else {
            return Ok(None);
        };
        context.check_interrupt()?;
        let row = stream.next(most, context)?;
        *count += u64::from(row.is_some());
        Ok(row)
    }

    /// The columns of its rows, if it gives any.
    pub(super) fn columns(&self) -> Option<&[Column]> {
        match &self.state {
            State::Bound { statement, .. } => statement.description.columns.as_deref(),
            State::Running { plan, .. } => plan.columns(),
            State::Finished => None,
        }
    }

    /// The tag after the rows that were handed out.
    pub(super) fn tag(&self) -> Cow<'static, str> {
        let State::Running { plan, done, count, .. } = &self.state else { return Cow::default() };
        let count = done.as_ref().map_or(*count, |done| done.count);
        let plan = match &**plan {
            Plan::With(with) => &with.main,
            plan => plan,
        };
        match plan {
            Plan::Insert(_) => counted("INSERT 0", count),
            Plan::Query(_) | Plan::Locked(_) => counted("SELECT", count),
            other => counted(other.verb(), count),
        }
    }
}

/// A tag with its count. Most statements are of one row, and their tags are there.
fn counted(what: &str, count: u64) -> Cow<'static, str> {
    let known = match (count, what) {
        (1, "SELECT") => "SELECT 1",
        (1, "UPDATE") => "UPDATE 1",
        (1, "INSERT 0") => "INSERT 0 1",
        (1, "DELETE") => "DELETE 1",
        _ => return format!("{what} {count}").into(),
    };
    Cow::Borrowed(known)
}

impl Session {
    /// Reserves what a portal or cursor with these parameters takes.
    pub(super) fn reserve_portal(&mut self, params: &[Datum]) -> Result<Reservation> {
        let values: usize = params.iter().map(Datum::heap_bytes).sum();
        let bytes = PORTAL + size_of_val(params) + values;
        self.reserve(bytes, "a portal", "CLOSE frees what is not needed.")
    }

    /// Hands the columns of a portal's results to `look`, `None` if it has none.
    pub fn with_portal<T>(
        &self,
        name: &str,
        look: impl FnOnce(Option<&[Column]>) -> T,
    ) -> Result<T> {
        match self.portals.get(name).map(|portal| &portal.state) {
            Some(State::Bound { statement, .. }) => match self.columns_now(statement) {
                Some(columns) => Ok(look(Some(&columns))),
                None => Ok(look(statement.description.columns.as_deref())),
            },
            Some(State::Running { plan, .. }) => Ok(look(plan.columns())),
            Some(State::Finished) => Ok(look(None)),
            // A cursor is a portal too.
            None => match self.cursor_columns(name) {
                Some(columns) => Ok(look(Some(&columns))),
                None => Err(no_portal(name)),
            },
        }
    }

    /// The columns of a statement that reads a cursor or another statement, as that is now: it may
    /// be another one than when the statement was prepared, or none.
    fn columns_now(&self, statement: &Prepared) -> Option<Vec<Column>> {
        match &statement.parsed.as_ref()?.stmt {
            Stmt::Utility(utility @ (Utility::Fetch { .. } | Utility::Execute { .. })) => {
                self.utility_columns(utility)
            }
            _ => None,
        }
    }

    /// Makes a portal of a prepared statement and values of its parameters.
    ///
    /// # Errors
    /// Too many or too few values, or values of other types.
    pub fn bind(&mut self, portal: &str, statement: &str, params: Vec<Datum>) -> Result<()> {
        self.bind_portal(portal, statement, params).map_err(|error| self.failed(error))
    }

    fn bind_portal(&mut self, portal: &str, statement: &str, params: Vec<Datum>) -> Result<()> {
        let prepared = self.find_prepared(statement)?;
        let wanted = prepared.planned.as_ref().map_or(0, |planned| planned.params.len());
        if params.len() != wanted {
            let message = format!(
                "bind message supplies {} parameters, but prepared statement \"{statement}\" \
                 requires \
                 {wanted}",
                params.len()
            );
            return Err(SqlError::new("08P01", message));
        }
        let types = prepared.planned.as_ref().map_or(&[][..], |planned| &planned.params);
        let params = convert(params, types, || self.times())?;
        let memory = match portal.is_empty() {
            true => None,
            false => Some(self.reserve_portal(&params)?),
        };
        if !portal.is_empty() && self.portals.contains_key(portal) {
            let message = format!("cursor \"{portal}\" already exists");
            return Err(SqlError::new(code::DUPLICATE_CURSOR, message));
        }
        let state = State::Bound { statement: prepared, params };
        let number = self.begins();
        self.portals.insert(portal.to_owned(), Portal { state, number, memory });
        Ok(())
    }

    /// Runs a portal for at most `limit` rows (0: all).
    ///
    /// # Errors
    /// The transaction has failed then; nothing else runs until [`Session::sync`].
    pub fn execute_portal(
        &mut self,
        name: &str,
        limit: u64,
        sink: &mut dyn Sink,
    ) -> Result<Execution> {
        self.on_stack(0, |session| session.run_portal(name, limit, sink))
    }

    /// Takes a portal out. One without rows stays in its place, also if it fails.
    fn take_portal(&mut self, name: &str) -> Option<Portal> {
        let kept = self.portals.get_mut(name)?;
        let (state, number) = (std::mem::replace(&mut kept.state, State::Finished), kept.number);
        Some(Portal { state, number, memory: kept.memory.take() })
    }

    fn run_portal(&mut self, name: &str, limit: u64, sink: &mut dyn Sink) -> Result<Execution> {
        self.begin_message();
        let Some(mut portal) = self.take_portal(name) else {
            return Err(self.failed(no_portal(name)));
        };
        let result = self.advance(&mut portal, limit, sink);
        if result.is_ok() {
            // It may have ended its transaction, and so be no longer there.
            self.portals.insert(name.to_owned(), portal);
        }
        let result = result.map_err(|error| self.failed(error));
        self.stop_deadline();
        result
    }

    fn advance(
        &mut self,
        portal: &mut Portal,
        limit: u64,
        sink: &mut dyn Sink,
    ) -> Result<Execution> {
        let before = std::mem::replace(&mut portal.state, State::Finished);
        if let State::Bound { statement, params } = before {
            self.arrives(&statement.text);
            let Some(parsed) = &statement.parsed else {
                portal.state = State::Bound { statement, params };
                return Ok(Execution::Empty);
            };
            if let Stmt::Utility(Utility::Copy(copy)) = &parsed.stmt {
                self.check_usable()?;
                let tag = self.copy(copy, sink)?;
                return Ok(tag.map_or(Execution::Copying, |tag| Execution::Complete(tag.into())));
            }
            if let Stmt::Utility(Utility::Declare { name, kind, query }) = &parsed.stmt {
                self.check_usable()?;
                portal.state = State::Finished;
                let planned = statement.planned.as_ref().expect("its query was planned");
                self.declare(name, *kind, query, (&planned.params, params))?;
                return Ok(Execution::Complete("DECLARE CURSOR".into()));
            }
            // Without a plan it explains another statement, and has no parameters.
            if let (Stmt::Utility(Utility::Explain { options, statement: query }), Some(planned)) =
                (&parsed.stmt, &statement.planned)
            {
                self.check_usable()?;
                self.explain(*options, query, &planned.params, params, sink)?;
                return Ok(Execution::Complete("EXPLAIN".into()));
            }
            if let Some(tag) = self.unplanned(parsed, sink)? {
                return Ok(Execution::Complete(tag));
            }
            self.open_portal(portal, &statement, params)?;
        } else {
            portal.state = before;
        }
        self.check_usable()?;
        if let State::Running { count, .. } = &mut portal.state {
            // The tag counts the rows of this execution.
            *count = 0;
        }
        if matches!(&portal.state, State::Running { plan, .. } if plan.columns().is_some()) {
            sink.times(&self.times());
        }
        let mut sent = 0;
        while limit == 0 || sent < limit {
            let most = if limit == 0 { ROWS as u64 } else { limit - sent };
            match self.next_row(portal, usize::try_from(most).unwrap_or(ROWS))? {
                Some(row) => sink.row(row)?,
                None => return Ok(Execution::Complete(portal.tag())),
            }
            sent += 1;
        }
        Ok(Execution::Suspended)
    }

    /// The next row of a portal, whose functions may run meanwhile.
    pub(super) fn next_row(&mut self, portal: &mut Portal, most: usize) -> Result<Option<Row>> {
        match portal.routines() {
            None => portal.next(most),
            Some(routines) => routines.lending(&mut self.active, || portal.next(most)),
        }
    }

    /// Begins the plan of a portal's statement.
    fn open_portal(
        &mut self,
        portal: &mut Portal,
        statement: &Arc<Prepared>,
        params: Vec<Datum>,
    ) -> Result<()> {
        self.check_usable()?;
        let plan = self.current_plan(statement)?;
        let plan = statement.customs.choose(plan, &params, &self.settings);
        let opened = self.start(plan, params)?;
        *portal = Portal { memory: portal.memory.take(), ..opened };
        Ok(())
    }

    /// FETCH and MOVE of a portal that a client bound, which goes forward only; gives the tag.
    pub(super) fn fetch_portal(
        &mut self,
        name: &str,
        direction: Direction,
        moves: bool,
        sink: &mut dyn Sink,
    ) -> Result<String> {
        let most = match direction {
            Direction::Count(count) => u64::try_from(count).map_err(|_| forward_only())?,
            Direction::All => u64::MAX,
            _ => return Err(forward_only()),
        };
        let mut portal = self.take_portal(name).ok_or_else(|| no_cursor(name))?;
        let tag = self.fetch_rows(&mut portal, most, moves, sink)?;
        self.portals.insert(name.to_owned(), portal);
        Ok(tag)
    }

    fn fetch_rows(
        &mut self,
        portal: &mut Portal,
        most: u64,
        moves: bool,
        sink: &mut dyn Sink,
    ) -> Result<String> {
        if let State::Bound { statement, params } = &mut portal.state {
            if statement.planned.is_none() || statement.description.columns.is_none() {
                return Err(SqlError::unsupported("FETCH from a portal that is not of a query"));
            }
            let (statement, params) = (Arc::clone(statement), std::mem::take(params));
            self.open_portal(portal, &statement, params)?;
        }
        if !moves {
            sink.columns(portal.columns().unwrap_or_default())?;
            sink.times(&self.times());
        }
        let mut count = 0;
        while count < most
            && let Some(row) =
                self.next_row(portal, usize::try_from(most - count).unwrap_or(ROWS))?
        {
            count += 1;
            if !moves {
                sink.row(row)?;
            }
        }
        Ok(format!("{} {count}", if moves { "MOVE" } else { "FETCH" }))
    }

    /// Ends a sequence of messages about portals: what was begun for it is committed.
    pub fn sync(&mut self) -> Result<()> {
        let result = self.end_message();
        if self.active.is_none() {
            self.portals.clear();
        }
        self.rest();
        result
    }

    /// Forgets a portal; nothing happens if there is none.
    pub fn close_portal(&mut self, name: &str) {
        self.portals.remove(name);
        self.drop_cursor(name);
    }
}

fn no_portal(name: &str) -> SqlError {
    SqlError::new(code::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist"))
}

pub(super) fn forward_only() -> SqlError {
    SqlError::new(code::NOT_IN_STATE, "cursor can only scan forward")
        .hint("Declare it with SCROLL option to enable backward scan.")
}

pub(super) fn no_cursor(name: &str) -> SqlError {
    SqlError::new(code::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist"))
}
