//! Literals of dates, times and intervals: what they mean in the session, and how a text that is
//! kept with a definition says the same in every session.
//!
//! Invariants: a kept text is read in the zone UTC and PostgreSQL's usual styles, whoever reads it.
//! Casts that depend on the session stay as they are and are made when rows are.
//! Does not do: reading (`types::text`).

use rightlink::internal::datum::IntervalFields;

use super::Binder;
use crate::error::Result;
use crate::parse;
use crate::types::literal::literal;
use crate::types::{Category, Datum, SqlType, Times, text, time};

/// What literals mean, and what has been read.
#[derive(Default)]
pub(crate) struct Reading {
    pub(crate) times: Times,
    /// Literals that depend on the session, if somebody wants to know.
    found: Option<Vec<Pinned>>,
}

/// A literal by its position, and a text that means the same in every session.
struct Pinned {
    position: usize,
    text: String,
}

impl Reading {
    /// Of a session.
    pub(crate) fn of(times: Times) -> Reading {
        Reading { times, found: None }
    }

    /// The same for a definition, whose text is kept.
    pub(crate) fn to_keep(times: Times) -> Reading {
        Reading { times, found: Some(Vec::new()) }
    }

    /// The text of a definition that was bound, with literals that mean the same in every session.
    pub(crate) fn pinned(self, kept: &str) -> Result<String> {
        let found = self.found.unwrap_or_default();
        parse::with_literals(kept, |at| {
            let pinned = found.iter().find(|one| one.position == at)?;
            Some(literal(&pinned.text))
        })
    }

    fn note(&mut self, value: &Datum, position: Option<usize>) {
        if let (Some(found), Some(position)) = (&mut self.found, position)
            && let Some(text) = value.to_text()
        {
            found.push(Pinned { position, text });
        }
    }
}

impl Binder<'_> {
    /// A literal of a type. What depends on when it is read is not kept in a plan.
    pub(super) fn literal(
        &mut self,
        to: SqlType,
        literal: &str,
        position: Option<usize>,
    ) -> Result<Datum> {
        let value = text::parse(to, literal, &self.reading.times);
        let value = value.map_err(|error| error.at(position))?;
        if matches!(to.element().unwrap_or(to).category(), Category::DateTime | Category::Timespan)
        {
            // The offset of a time of day may be that of today.
            let is_timetz = to.element().unwrap_or(to) == SqlType::Timetz;
            self.once |= is_timetz || time::depends_on_now(literal);
            self.reading.note(&value, position);
        }
        Ok(value)
    }

    /// A literal of an interval whose parts are named.
    pub(super) fn interval_literal(
        &mut self,
        literal: &str,
        fields: IntervalFields,
        position: Option<usize>,
    ) -> Result<Datum> {
        let value = text::interval(literal, fields, &self.reading.times);
        let value = value.map_err(|error| error.at(position))?;
        self.reading.note(&value, position);
        Ok(value)
    }
}
