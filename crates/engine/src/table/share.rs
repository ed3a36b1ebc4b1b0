//! The entries of a statement, handed out to its own thread and to those that help it.
//!
//! The statement's thread takes batches from the front, where the unique ones are, and helpers from
//! the back. A batch is one index's and is not parted: one thread puts it in, in order, and where
//! all pages are in memory the index comes out alike, however many helped.
//!
//! Invariants: every entry is handed out once, in the method's order with the others of its part;
//! those of unique indexes go to the statement's own thread, whole: they may have to wait for
//! transactions. Where one side stops, the other is given no more.
//! Does not do: insert; start threads.

use std::ops::Range;

use rightlink_env::sync::{Arc, AtomicBool, Mutex, Ordering};

use crate::error::Result;
use crate::ids::PageId;
use crate::index::IndexEntry;
use crate::index::am::Groups;

use super::TableIndex;

/// Entries of an index that are worth a thread of their own. To start one takes as long as a few
/// dozen insertions in memory.
const WORTH_HELP: usize = if cfg!(feature = "shuttle") { 2 } else { 256 };
/// Pages of a pool below which a statement has one stream: each may read an eighth of it ahead.
const LEAST_FRAMES: usize = if cfg!(feature = "shuttle") { 0 } else { 512 };

/// Entries on their way into one index.
struct Part<'b, 'k> {
    index: &'b TableIndex,
    entries: &'b mut [IndexEntry<'k>],
}

/// What nobody has taken: the batches of some indexes.
struct Left<'b, 'k> {
    indexes: &'b [Arc<TableIndex>],
    batches: &'b mut [Vec<IndexEntry<'k>>],
}

/// The entries of all indexes.
pub(super) struct Shares<'b, 'k> {
    left: Mutex<Left<'b, 'k>>,
    stopped: AtomicBool,
}

/// Who takes a part.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Own,
    Helper,
}

/// For how many helpers is there work in `batches`, in a pool of so many frames?
pub(super) fn helpers_for(
    indexes: &[Arc<TableIndex>],
    batches: &[Vec<IndexEntry<'_>>],
    frames: usize,
) -> usize {
    if frames < LEAST_FRAMES {
        return 0;
    }
    let (mut unique, mut other) = (0, 0);
    for (index, _) in indexes.iter().zip(batches).filter(|(_, batch)| batch.len() >= WORTH_HELP) {
        *(if index.def.unique { &mut unique } else { &mut other }) += 1;
    }
    // The statement's own thread has work, too.
    if unique == 0 { usize::saturating_sub(other, 1) } else { other }
}

impl<'b, 'k> Left<'b, 'k> {
    /// The batch of the first or the last index that is left.
    fn batch(&mut self, side: Side) -> Option<Part<'b, 'k>> {
        let batches = std::mem::take(&mut self.batches);
        let (index, batch) = match side {
            Side::Own => {
                let (index, indexes) = self.indexes.split_first()?;
                let (batch, batches) = batches.split_first_mut()?;
                (self.indexes, self.batches) = (indexes, batches);
                (index, batch)
            }
            Side::Helper => {
                let (index, indexes) = self.indexes.split_last()?;
                let (batch, batches) = batches.split_last_mut()?;
                (self.indexes, self.batches) = (indexes, batches);
                (index, batch)
            }
        };
        Some(Part { index, entries: batch })
    }

    /// May `side` take the next one from its end?
    fn is_for(&self, side: Side) -> bool {
        side == Side::Own || self.indexes.last().is_some_and(|index| !index.def.unique)
    }
}

impl<'b, 'k> Shares<'b, 'k> {
    pub(super) fn new(
        indexes: &'b [Arc<TableIndex>],
        batches: &'b mut [Vec<IndexEntry<'k>>],
    ) -> Self {
        let left = Left { indexes, batches };
        Shares { left: Mutex::new(left), stopped: AtomicBool::new(false) }
    }

    /// The next batch for `side`, in the method's order.
    fn take(&self, side: Side) -> Option<Part<'b, 'k>> {
        let mut left = self.left.lock();
        let part = if left.is_for(side) { left.batch(side)? } else { return None };
        drop(left);
        part.index.method.order(part.entries);
        Some(part)
    }

    /// Nothing more is handed out.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// The groups of the parts that `side` takes.
    pub(super) fn groups(&self, side: Side) -> Taken<'_, 'b, 'k> {
        Taken { shares: self, side, current: None }
    }
}

/// What one side takes, part by part and group by group.
pub(super) struct Taken<'s, 'b, 'k> {
    shares: &'s Shares<'b, 'k>,
    side: Side,
    current: Option<(&'b TableIndex, &'b [IndexEntry<'b>], Groups<'b>)>,
}

/// A group of entries for an index, and the page that it probably belongs on.
pub(super) type Grouped<'b> = (PageId, (&'b TableIndex, &'b [IndexEntry<'b>]));

impl<'b, 'k: 'b> Taken<'_, 'b, 'k> {
    pub(super) fn next(&mut self) -> Result<Option<Grouped<'b>>> {
        while !self.shares.stopped.load(Ordering::Relaxed) {
            if let Some((index, batch, groups)) = &mut self.current
                && let Some(group) = groups.next()
            {
                let group = group?;
                let Range { start, end } = group.entries;
                return Ok(Some((group.page, (*index, &batch[start..end]))));
            }
            let Some(Part { index, entries }) = self.shares.take(self.side) else { break };
            let entries: &'b [IndexEntry<'b>] = entries;
            let groups = index.method.groups(entries, index.def.unique);
            self.current = Some((index, entries, groups));
        }
        Ok(None)
    }
}
