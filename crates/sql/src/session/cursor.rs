//! DECLARE, FETCH, MOVE and CLOSE, and the rows that UPDATE and DELETE change at a cursor.
//!
//! Invariants:
//! - A cursor ends with its transaction, unless it was declared WITH HOLD and that commits: then
//!   its rows are kept until it is closed.
//! - A cursor with SCROLL keeps the rows it has read, counted against the memory budget. One that
//!   says neither does so as long as they are few, if PostgreSQL would run its query backward. Any
//!   other goes forward only.
//!
//! Does not do: FOR UPDATE row by row: all rows are locked when the cursor is declared.

use std::sync::Arc;

use rightlink::{Budget, RowId, RowLock};

use super::portal::{Portal, forward_only, no_cursor};
use super::{Session, Sink};
use crate::error::{Result, SqlError, code};
use crate::exec::batch::ROWS;
use crate::exec::kept::{Keeping, Kept};
use crate::exec::memory::Memory;
use crate::expr::Context;
use crate::names::bare;
use crate::parse::Parsed;
use crate::parse::utility::{Direction, Kind};
use crate::plan::node::Op;
use crate::plan::{Change, Column, Plan, Query};
use crate::types::{Datum, Row, SqlType};

/// A cursor.
pub(super) struct Cursor {
    rows: Rows,
    columns: Vec<Column>,
    kind: Kind,
    source: RowSource,
    locks: bool,
    /// The row of the table that it is on.
    current: Option<RowId>,
    /// Place: 0 is before the first row, 1 on it.
    at: u64,
    /// Rows there are, once the end was met.
    end: Option<u64>,
    /// Its query, and when it was declared.
    query: Option<String>,
    declared: i64,
}

/// Where the rows of a cursor come from, as far as WHERE CURRENT OF may find them again.
#[derive(Clone, Copy, PartialEq)]
enum RowSource {
    /// Rows of the table of this number, whose places stand behind the columns.
    Table(u32),
    /// Rows of several tables, of which some are locked. Their places are not kept.
    Join,
    Other,
}

/// What a cursor runs.
struct CursorPlan {
    plan: Arc<Plan>,
    source: RowSource,
    /// How it locks rows, if it does.
    lock: Option<RowLock>,
    /// Can the plan run backward?
    has_way_back: bool,
}

/// Where its rows come from.
enum Rows {
    /// A query, and those read so far if it may go back.
    Running { portal: Portal, read: Option<Read> },
    /// Those that were kept when its transaction ended; so many were gone by then, if it goes
    /// forward only.
    Held { kept: Kept, gone: Option<u64> },
}

/// Rows that were read.
struct Read {
    rows: Vec<Row>,
    memory: Memory,
    /// Bytes from which on they are given up; `None`: never.
    most: Option<usize>,
}

impl Read {
    /// Keeps a row; false if there are too many.
    fn push(&mut self, row: &Row) -> Result<bool> {
        let counted = self.memory.charge_row(row);
        if let Some(most) = self.most
            && (counted.is_err() || self.memory.used() > most)
        {
            return Ok(false);
        }
        counted?;
        self.rows.push(row.clone());
        Ok(true)
    }
}

/// Of what the memory budget has left, what the rows of a cursor take that does not say whether it
/// goes back.
const SHARE: usize = 16;

impl Cursor {
    /// Its row of `pg_cursors`.
    pub(super) fn row(&self, name: &str) -> Row {
        let reads_back = match &self.rows {
            Rows::Running { read, .. } => read.is_some(),
            Rows::Held { gone, .. } => gone.is_none(),
        };
        let hold = if self.kind.hold { " WITH HOLD" } else { "" };
        let binary = if self.kind.binary { "BINARY " } else { "" };
        let declare = |query| format!("DECLARE {name} {binary}CURSOR{hold} FOR {query}");
        let statement = self.query.as_ref().map(declare);
        vec![
            Datum::Text(name.to_owned()),
            statement.map_or(Datum::Null, Datum::Text),
            Datum::Bool(self.kind.hold),
            Datum::Bool(self.kind.binary),
            Datum::Bool(reads_back),
            Datum::Timestamptz(self.declared),
        ]
    }

    /// Goes one row forward.
    fn forward(&mut self, context: &Context) -> Result<Option<Row>> {
        if self.end.is_some_and(|end| self.at >= end) {
            self.at = self.end.unwrap_or(self.at) + 1;
            return Ok(None);
        }
        let row = match &mut self.rows {
            Rows::Held { kept, gone } => kept.row(self.at - gone.unwrap_or(0), context)?,
            Rows::Running { portal, read } => {
                let known = read.as_ref().and_then(|read| read.rows.get(self.at as usize));
                if let Some(row) = known.cloned() {
                    self.at += 1;
                    return Ok(Some(row));
                }
                let row = portal.next(1)?;
                match (&row, read.as_mut()) {
                    (Some(row), Some(known)) => {
                        if !known.push(row)? {
                            *read = None;
                        }
                    }
                    (Some(_), None) => {}
                    (None, _) => self.end = Some(self.at),
                }
                row
            }
        };
        self.at += 1;
        Ok(row)
    }

    /// May it go back?
    fn scrolls(&self) -> bool {
        match &self.rows {
            Rows::Running { read, .. } => read.is_some(),
            Rows::Held { gone, .. } => gone.is_none(),
        }
    }

    /// One of the rows that were read, counted from 0.
    fn again(&mut self, number: u64, context: &Context) -> Result<Option<Row>> {
        match &mut self.rows {
            Rows::Held { kept, gone: None } => kept.row(number, context),
            Rows::Running { read: Some(read), .. } => Ok(read.rows.get(number as usize).cloned()),
            Rows::Held { .. } | Rows::Running { .. } => Err(forward_only()),
        }
    }

    /// Goes one row back.
    fn back(&mut self, context: &Context) -> Result<Option<Row>> {
        if !self.scrolls() {
            return Err(forward_only());
        }
        self.at = self.at.saturating_sub(1);
        match self.at.checked_sub(1) {
            Some(number) => self.again(number, context),
            None => Ok(None),
        }
    }

    /// Keeps its rows, as its transaction ends.
    fn hold(&mut self, budget: &Budget, context: &Context) -> Result<()> {
        let Rows::Running { portal, read } = &mut self.rows else { return Ok(()) };
        let source = std::mem::replace(&mut self.source, RowSource::Other);
        let has_place = matches!(source, RowSource::Table(_));
        let mut keeping = Keeping::new(budget, context);
        let mut keep = |mut row: Row| {
            if has_place {
                row.pop();
            }
            keeping.push(row, context)
        };
        let gone = match read.take() {
            Some(mut read) => {
                // What the rows have goes to where they are kept.
                read.memory.release();
                read.rows.into_iter().try_for_each(&mut keep)?;
                None
            }
            None => Some(self.end.map_or(self.at, |end| end.min(self.at))),
        };
        while self.end.is_none()
            && let Some(row) = portal.next(ROWS)?
        {
            keep(row)?;
        }
        let kept = keeping.finish()?;
        self.end = Some(gone.unwrap_or(0) + kept.count());
        self.current = None;
        self.rows = Rows::Held { kept, gone };
        Ok(())
    }

    /// Is it one of an earlier transaction?
    fn is_held(&self) -> bool {
        matches!(self.rows, Rows::Held { .. })
    }

    /// Goes to place `wanted` and gives the row there.
    fn go_to(&mut self, wanted: u64, context: &Context) -> Result<Option<Row>> {
        let mut row = None;
        if wanted < self.at || wanted == 0 {
            if self.at > 0 && !self.scrolls() {
                return Err(forward_only());
            }
            self.at = wanted.saturating_sub(1);
            if wanted == 0 {
                return Ok(None);
            }
        } else if wanted == self.at {
            return self.again(wanted - 1, context);
        }
        while self.at < wanted {
            row = self.forward(context)?;
            if row.is_none() {
                return Ok(None);
            }
        }
        Ok(row)
    }

    /// Moves and hands each row on; gives their number.
    fn fetch(
        &mut self,
        direction: Direction,
        context: &Context,
        take: &mut dyn FnMut(Row) -> Result<()>,
    ) -> Result<u64> {
        let has_place = matches!(self.source, RowSource::Table(_));
        let (mut count, mut current) = (0, None);
        let mut one = |row: Option<Row>| -> Result<bool> {
            current = None;
            let Some(mut row) = row else { return Ok(false) };
            if has_place && let Some(Datum::Tid(id)) = row.pop() {
                current = Some(id);
            }
            count += 1;
            take(row)?;
            Ok(true)
        };
        match direction {
            Direction::Count(0) => {
                let at = self.at;
                one(if at == 0 { None } else { self.go_to(at, context)? })?;
            }
            Direction::Count(n) if n > 0 => {
                for _ in 0..n {
                    if !one(self.forward(context)?)? {
                        break;
                    }
                }
            }
            Direction::Count(n) => {
                for _ in n..0 {
                    if !one(self.back(context)?)? {
                        break;
                    }
                }
            }
            Direction::All => while one(self.forward(context)?)? {},
            Direction::Backward => while one(self.back(context)?)? {},
            Direction::First => {
                one(self.go_to(1, context)?)?;
            }
            Direction::Absolute(n) if n >= 0 => {
                one(self.go_to(n as u64, context)?)?;
            }
            Direction::Relative(n) => {
                let wanted = i64::try_from(self.at).unwrap_or(i64::MAX).saturating_add(n);
                one(self.go_to(wanted.max(0) as u64, context)?)?;
            }
            Direction::Last | Direction::Absolute(_) => {
                while self.forward(context)?.is_some() {}
                let end = self.end.unwrap_or(0);
                let from_end =
                    if let Direction::Absolute(n) = direction { n.unsigned_abs() } else { 1 };
                one(self.go_to((end + 1).saturating_sub(from_end), context)?)?;
            }
        }
        self.current = current;
        Ok(count)
    }
}

impl Session {
    /// DECLARE, with types and values of parameters.
    pub(super) fn declare(
        &mut self,
        name: &str,
        kind: Kind,
        query: &Parsed,
        (types, params): (&[SqlType], Vec<Datum>),
    ) -> Result<()> {
        if !kind.hold {
            self.shared("DECLARE CURSOR")?;
        }
        if self.cursors.contains_key(name) {
            let message = format!("cursor \"{name}\" already exists");
            return Err(SqlError::new(code::DUPLICATE_CURSOR, message));
        }
        let written = query.written();
        let planned = self.plan(&Arc::new(query.clone()), types)?;
        let CursorPlan { plan, source, lock, has_way_back } = CursorPlan::of(&planned.plan)?;
        if planned.params.len() != params.len() {
            return Err(SqlError::new(code::UNDEFINED_PARAMETER, "there is no parameter $1"));
        }
        refuse_locks(lock, kind)?;
        let columns = planned.plan.columns().unwrap_or_default().to_vec();
        let portal = self.open(plan, params)?;
        let memory = Memory::new(self.db.budget());
        let most = match kind.scroll {
            Some(true) => Some(None),
            None if has_way_back => {
                Some(Some(self.settings.work_memory(memory.available() / SHARE)))
            }
            _ => None,
        };
        let read = most.map(|most| Read { rows: Vec::new(), memory, most });
        let memory = self.reserve_portal(&[])?;
        let rows = Rows::Running { portal: portal.counted(memory), read };
        let declared = self.arrived;
        let cursor = Cursor {
            rows,
            columns,
            kind,
            source,
            locks: lock.is_some(),
            current: None,
            at: 0,
            end: None,
            query: written,
            declared,
        };
        self.cursors.insert(name.to_owned(), cursor);
        Ok(())
    }

    /// FETCH and MOVE; gives the tag.
    pub(super) fn fetch(
        &mut self,
        name: &str,
        direction: Direction,
        moves: bool,
        sink: &mut dyn Sink,
    ) -> Result<String> {
        let context = self.context(Vec::new());
        let Some(cursor) = self.cursors.get_mut(name) else {
            return self.fetch_portal(name, direction, moves, sink);
        };
        if moves {
            let count = cursor.fetch(direction, &context, &mut |_| Ok(()))?;
            return Ok(format!("MOVE {count}"));
        }
        if cursor.kind.binary {
            sink.binary();
        }
        sink.columns(&cursor.columns)?;
        sink.times(&context.times);
        let count = cursor.fetch(direction, &context, &mut |row| sink.row(row))?;
        Ok(format!("FETCH {count}"))
    }

    /// CLOSE
    pub(super) fn close_cursor(&mut self, name: Option<&str>) -> Result<()> {
        match name {
            None => {
                self.cursors.clear();
                self.portals.clear();
            }
            Some(name) => {
                let has_cursor = self.cursors.remove(name).is_some();
                if !has_cursor && self.portals.remove(name).is_none() {
                    return Err(no_cursor(name));
                }
            }
        }
        Ok(())
    }

    /// Forgets a cursor, if there is one.
    pub(super) fn drop_cursor(&mut self, name: &str) {
        self.cursors.remove(name);
    }

    /// Columns of a cursor's rows.
    pub(super) fn cursor_columns(&self, name: &str) -> Option<Vec<Column>> {
        match self.cursors.get(name) {
            Some(cursor) => Some(cursor.columns.clone()),
            None => self.portals.get(name)?.columns().map(<[Column]>::to_vec),
        }
    }

    /// Has the transaction declared a cursor WITH HOLD?
    pub(super) fn has_new_held_cursor(&self) -> bool {
        self.cursors.values().any(|cursor| cursor.kind.hold && !cursor.is_held())
    }

    /// The transaction commits: rows of cursors WITH HOLD are kept beyond it.
    pub(super) fn hold_cursors(&mut self) -> Result<()> {
        if !self.has_new_held_cursor() {
            return Ok(());
        }
        let (context, budget) = (self.context(Vec::new()), self.db.budget().clone());
        let mut all = self.cursors.values_mut().filter(|cursor| cursor.kind.hold);
        all.try_for_each(|cursor| cursor.hold(&budget, &context))
    }

    /// The transaction is over, and so are its cursors and portals.
    pub(super) fn end_cursors(&mut self) {
        self.cursors.retain(|_, cursor| cursor.is_held());
        self.portals.clear();
    }

    /// The row that a statement with WHERE CURRENT OF changes.
    pub(super) fn current_row(&self, change: &Change) -> Result<Option<RowId>> {
        let Some(name) = &change.current else { return Ok(None) };
        let wrong = |what: String| {
            SqlError::new(code::INVALID_CURSOR_STATE, format!("cursor \"{name}\" {what}"))
        };
        let cursor = self.cursors.get(name).ok_or_else(|| no_cursor(name))?;
        let info = &change.scan.table.info;
        match cursor.source {
            _ if cursor.is_held() => Err(wrong("is held from a previous transaction".to_owned())),
            RowSource::Join => {
                Err(SqlError::unsupported("WHERE CURRENT OF a cursor that locks rows of a join"))
            }
            source if source != RowSource::Table(info.id) => Err(wrong(match cursor.locks {
                true => {
                    let table = bare(&info.name);
                    format!("does not have a FOR UPDATE/SHARE reference to table \"{table}\"")
                }
                false => {
                    let table = bare(&info.name);
                    format!("is not a simply updatable scan of table \"{table}\"")
                }
            })),
            _ => match cursor.current {
                Some(row) => Ok(Some(row)),
                None => Err(wrong("is not positioned on a row".to_owned())),
            },
        }
    }
}

impl Session {
    /// A cursor or portal begins: its number.
    pub(super) fn begins(&mut self) -> u64 {
        self.begun += 1;
        self.begun
    }

    /// Cursors and portals end that began after the one of this number.
    pub(super) fn end_cursors_after(&mut self, begun: u64) {
        self.cursors.retain(|_, cursor| match &cursor.rows {
            Rows::Running { portal, .. } => portal.number() <= begun,
            Rows::Held { .. } => true,
        });
        self.portals.retain(|_, portal| portal.number() <= begun);
    }
}

impl CursorPlan {
    /// Fails of a plan that a cursor cannot have.
    fn of(plan: &Arc<Plan>) -> Result<CursorPlan> {
        match &**plan {
            Plan::Query(query) => {
                let lock = query.locks.map(|(lock, _)| lock);
                let has_way_back = runs_backward(query);
                let (plan, source) = with_places(query);
                Ok(CursorPlan { plan, source, lock, has_way_back })
            }
            Plan::Locked(query) => {
                let lock = query.tables.first().map(|table| table.lock);
                let (plan, source) = (Arc::clone(plan), RowSource::Join);
                Ok(CursorPlan { plan, source, lock, has_way_back: false })
            }
            Plan::With(_) => {
                let message = "DECLARE CURSOR must not contain data-modifying statements in WITH";
                Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message))
            }
            _ => Err(SqlError::syntax("a cursor is for a SELECT")),
        }
    }
}

/// Refuses a cursor whose rows are locked to be of a kind that only reads.
fn refuse_locks(lock: Option<RowLock>, kind: Kind) -> Result<()> {
    let Some(lock) = lock else { return Ok(()) };
    let lock = match lock {
        RowLock::KeyShared => "FOR KEY SHARE",
        RowLock::Shared => "FOR SHARE",
        RowLock::Update => "FOR NO KEY UPDATE",
        RowLock::Exclusive => "FOR UPDATE",
    };
    let (sqlstate, message, which) = if kind.hold {
        let message = format!("DECLARE CURSOR WITH HOLD ... {lock} is not supported");
        (code::FEATURE_NOT_SUPPORTED, message, "Holdable")
    } else if kind.scroll == Some(true) {
        let message = format!("DECLARE SCROLL CURSOR ... {lock} is not supported");
        (code::FEATURE_NOT_SUPPORTED, message, "Scrollable")
    } else if kind.insensitive {
        let message = format!("DECLARE INSENSITIVE CURSOR ... {lock} is not valid");
        (code::INVALID_CURSOR_DEFINITION, message, "Insensitive")
    } else {
        return Ok(());
    };
    Err(SqlError::new(sqlstate, message).detail(format!("{which} cursors must be READ ONLY.")))
}

/// Does PostgreSQL let a cursor go back that does not say, because its query can be run backward?
fn runs_backward(query: &Query) -> bool {
    let mut plain = query.locks.is_none();
    query.root.visit(&mut |node| {
        plain &= !matches!(
            node.op,
            Op::Aggregate { .. }
                | Op::Window { .. }
                | Op::Distinct { .. }
                | Op::DistinctOn { .. }
                | Op::Single
        );
    });
    plain
}

/// The query with the place of its row behind the columns of each, if every row is one of a table
/// as a scan finds it.
fn with_places(query: &Arc<Query>) -> (Arc<Plan>, RowSource) {
    let placed = query.root.with_place(query.locks.is_some());
    let (Some(root), Some(scan)) = (placed, query.root.scan()) else {
        return (Arc::new(Plan::Query(Arc::clone(query))), RowSource::Other);
    };
    let table = scan.table.info.id;
    let mut query = Query::clone(query);
    query.columns.push(Column::new("ctid", SqlType::Tid));
    // Planned anew it would have no places.
    (query.root, query.again) = (root, None);
    (Arc::new(Plan::Query(Arc::new(query))), RowSource::Table(table))
}
