//! What a query inside of an expression gave before, by the values of rows around it.
//!
//! Invariants: what is remembered is counted, and never more than its share of the budget. Does not
//! do: running queries (`subquery`).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::exec::compared::Compared;
use crate::exec::memory::{Memory, row_bytes};
use crate::exec::sort::SHARE;
use crate::expr::Context;
use crate::expr::aggregate::Ordered;
use crate::types::Datum;

/// Results that are remembered of a query.
const MOST_KEPT: usize = 1_024;

/// What a query gave before.
#[derive(Default)]
pub(crate) struct Memo {
    /// By the values of its slots.
    pub(super) values: BTreeMap<Ordered, Datum>,
    /// Of the values; `None` before there is one.
    memory: Option<Memory>,
    /// All rows, and the values that the slots had for them.
    pub(super) rows: Option<RowsFor>,
}

/// The rows of a query for values of its slots.
pub(super) struct RowsFor {
    pub(super) slots: Ordered,
    pub(super) rows: Arc<Compared>,
}

/// A copy, for another execution, has nothing to remember.
impl Clone for Memo {
    fn clone(&self) -> Memo {
        Memo::default()
    }
}

impl Memo {
    /// Remembers a value, in place of all others where these have the share of the budget that is
    /// theirs; one beyond that share is not remembered.
    pub(super) fn remember(&mut self, slots: Ordered, value: &Datum, context: &Context) {
        let memory = self.memory.get_or_insert_with(|| Memory::new(&context.budget()));
        let bytes = row_bytes(&slots.0) + size_of::<Datum>() + value.heap_bytes();
        let share = (memory.available() + memory.used()) / SHARE;
        if self.values.len() >= MOST_KEPT || memory.used() + bytes > share {
            self.values.clear();
            memory.release();
        }
        if bytes <= share && memory.charge(bytes).is_ok() {
            self.values.insert(slots, value.clone());
        }
    }
}
