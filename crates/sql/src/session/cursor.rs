//! DECLARE, FETCH, MOVE and CLOSE.
//!
//! Invariants: a cursor ends with its transaction. One declared with SCROLL keeps the rows it has
//! read, counted against the memory budget; any other goes forward only.
//! Does not do: WITH HOLD, positioned updates.

use std::sync::Arc;

use super::prepared::Portal;
use super::{Session, Sink};
use crate::error::{Result, SqlError, code};
use crate::exec::memory::Memory;
use crate::parse::Parsed;
use crate::parse::utility::Direction;
use crate::plan::{Column, Plan};
use crate::types::Row;

/// A cursor.
pub(super) struct Cursor {
    portal: Portal,
    columns: Vec<Column>,
    /// Rows read so far, if it may go back.
    kept: Option<(Vec<Row>, Memory)>,
    /// Place: 0 is before the first row, 1 on it.
    at: u64,
    /// Rows there are, once the end was met.
    end: Option<u64>,
}

fn forward_only() -> SqlError {
    SqlError::new("55000", "cursor can only scan forward")
        .hint("Declare it with SCROLL option to enable backward scan.")
}

impl Cursor {
    /// Goes one row forward.
    fn forward(&mut self) -> Result<Option<Row>> {
        if self.end.is_some_and(|end| self.at >= end) {
            self.at = self.end.unwrap_or(self.at) + 1;
            return Ok(None);
        }
        if let Some((rows, _)) = &self.kept
            && let Some(row) = rows.get(self.at as usize)
        {
            self.at += 1;
            return Ok(Some(row.clone()));
        }
        let row = self.portal.next()?;
        match &row {
            Some(row) => {
                if let Some((rows, memory)) = &mut self.kept {
                    memory.charge_row(row)?;
                    rows.push(row.clone());
                }
            }
            None => self.end = Some(self.at),
        }
        self.at += 1;
        Ok(row)
    }

    /// Goes one row back.
    fn back(&mut self) -> Result<Option<Row>> {
        let Some((rows, _)) = &self.kept else { return Err(forward_only()) };
        self.at = self.at.saturating_sub(1);
        Ok(self.at.checked_sub(1).and_then(|at| rows.get(at as usize)).cloned())
    }

    /// Goes to place `wanted` and gives the row there.
    fn go_to(&mut self, wanted: u64) -> Result<Option<Row>> {
        let mut row = None;
        if wanted < self.at || wanted == 0 {
            if self.at > 0 && self.kept.is_none() {
                return Err(forward_only());
            }
            self.at = wanted.saturating_sub(1);
            if wanted == 0 {
                return Ok(None);
            }
        } else if wanted == self.at {
            let Some((rows, _)) = &self.kept else { return Err(forward_only()) };
            return Ok(rows.get(wanted as usize - 1).cloned());
        }
        while self.at < wanted {
            row = self.forward()?;
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
        take: &mut dyn FnMut(Row) -> Result<()>,
    ) -> Result<u64> {
        let mut count = 0;
        let mut one = |row: Option<Row>| -> Result<bool> {
            let Some(row) = row else { return Ok(false) };
            count += 1;
            take(row)?;
            Ok(true)
        };
        match direction {
            Direction::Count(0) => {
                let at = self.at;
                one(if at == 0 { None } else { self.go_to(at)? })?;
            }
            Direction::Count(n) if n > 0 => {
                for _ in 0..n {
                    if !one(self.forward()?)? {
                        break;
                    }
                }
            }
            Direction::Count(n) => {
                for _ in n..0 {
                    if !one(self.back()?)? {
                        break;
                    }
                }
            }
            Direction::All => while one(self.forward()?)? {},
            Direction::Backward => while one(self.back()?)? {},
            Direction::First => {
                one(self.go_to(1)?)?;
            }
            Direction::Absolute(n) if n >= 0 => {
                one(self.go_to(n as u64)?)?;
            }
            Direction::Relative(n) => {
                let wanted = i64::try_from(self.at).unwrap_or(i64::MAX).saturating_add(n);
                one(self.go_to(wanted.max(0) as u64)?)?;
            }
            Direction::Last | Direction::Absolute(_) => {
                while self.forward()?.is_some() {}
                let end = self.end.unwrap_or(0);
                let from_end =
                    if let Direction::Absolute(n) = direction { n.unsigned_abs() } else { 1 };
                one(self.go_to((end + 1).saturating_sub(from_end))?)?;
            }
        }
        Ok(count)
    }
}

impl Session {
    /// DECLARE
    pub(super) fn declare(
        &mut self,
        name: &str,
        (hold, scroll): (bool, Option<bool>),
        query: &Parsed,
    ) -> Result<()> {
        if hold {
            return Err(SqlError::unsupported("a cursor WITH HOLD"));
        }
        self.shared("DECLARE CURSOR")?;
        if self.cursors.contains_key(name) {
            let message = format!("cursor \"{name}\" already exists");
            return Err(SqlError::new(code::DUPLICATE_CURSOR, message));
        }
        let planned = self.plan(&Arc::new(query.clone()), &[])?;
        let Plan::Select(select) = &*planned.plan else {
            return Err(SqlError::syntax("a cursor is for a SELECT"));
        };
        let columns = select.columns.clone();
        let portal = self.open(Arc::clone(&planned.plan), Vec::new())?;
        let kept = (scroll == Some(true)).then(|| (Vec::new(), Memory::new(self.db.budget())));
        let cursor = Cursor { portal, columns, kept, at: 0, end: None };
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
        let Some(cursor) = self.cursors.get_mut(name) else { return Err(no_cursor(name)) };
        if moves {
            let count = cursor.fetch(direction, &mut |_| Ok(()))?;
            return Ok(format!("MOVE {count}"));
        }
        sink.columns(&cursor.columns)?;
        let count = cursor.fetch(direction, &mut |row| sink.row(row))?;
        Ok(format!("FETCH {count}"))
    }

    /// CLOSE
    pub(super) fn close_cursor(&mut self, name: Option<&str>) -> Result<()> {
        match name {
            None => self.cursors.clear(),
            Some(name) => drop(self.cursors.remove(name).ok_or_else(|| no_cursor(name))?),
        }
        Ok(())
    }

    /// Forgets a cursor, if there is one.
    pub(super) fn drop_cursor(&mut self, name: &str) {
        self.cursors.remove(name);
    }

    /// Columns of a cursor's rows.
    pub(super) fn cursor_columns(&self, name: &str) -> Option<Vec<Column>> {
        self.cursors.get(name).map(|cursor| cursor.columns.clone())
    }

    /// The transaction is over, and so are its cursors and portals.
    pub(super) fn end_cursors(&mut self) {
        self.cursors.clear();
        self.portals.clear();
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
        self.cursors.retain(|_, cursor| cursor.portal.number() <= begun);
        self.portals.retain(|_, portal| portal.number() <= begun);
    }
}

fn no_cursor(name: &str) -> SqlError {
    SqlError::new(code::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist"))
}
