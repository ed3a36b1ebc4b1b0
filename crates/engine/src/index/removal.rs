//! Removal of the entries of pruned rows by key: what all methods share.
//!
//! Invariants: an entry is found by key and row id, and the caller's check runs under the page's
//! latch, because the verdict is older than the latch (R3). Removals are logged, so they need no
//! durable commit (R1).
//! Does not do: find pages; change them; decide what is dead.

use std::ops::Range;

use crate::ids::RowId;
use crate::index::am::{IndexEntry, Trace};
use crate::page::Checked;

/// A removal of entries of pruned rows.
pub(crate) struct DeadRemoval<'a, 'e> {
    /// The entries, in the method's order.
    pub(crate) entries: &'a [IndexEntry<'e>],
    check: &'a mut dyn FnMut(RowId) -> bool,
    traces: &'a mut [Trace],
    removed: u64,
}

/// Where a page has an entry.
pub(crate) enum Located<P> {
    /// At this position.
    Present(P),
    /// Nowhere, and it would be here.
    Absent,
    /// It belongs on another page.
    Elsewhere,
}

/// The entries to remove that a page has.
pub(crate) struct PageRemovals<P> {
    /// The first entry that belongs elsewhere.
    pub(crate) next: usize,
    /// Positions to remove.
    pub(crate) places: Vec<P>,
    /// The outcome for entries that the index will not have afterwards.
    traces: Vec<(usize, Trace)>,
}

impl<'a, 'e> DeadRemoval<'a, 'e> {
    /// Removes those of `entries` whose rows pass the check, and tells in `traces` (equally long)
    /// what became of each.
    pub(crate) fn new(
        entries: &'a [IndexEntry<'e>],
        check: &'a mut dyn FnMut(RowId) -> bool,
        traces: &'a mut [Trace],
    ) -> Self {
        assert_eq!(entries.len(), traces.len(), "one answer per entry");
        DeadRemoval { entries, check, traces, removed: 0 }
    }

    /// Finds those of the entries in `range` that a latched page has; `locate` searches the page
    /// for one of them.
    pub(crate) fn find_on_page<P: PartialEq>(
        &mut self,
        range: Range<usize>,
        mut locate: impl FnMut(&IndexEntry<'_>) -> Checked<Located<P>>,
    ) -> Checked<PageRemovals<P>> {
        let mut found = PageRemovals { next: range.start, places: Vec::new(), traces: Vec::new() };
        for at in range {
            let entry = &self.entries[at];
            match locate(entry)? {
                Located::Elsewhere => break,
                Located::Absent => found.traces.push((at, Trace::Absent)),
                Located::Present(place) if (self.check)(entry.row) => {
                    found.places.push(place);
                    found.traces.push((at, Trace::Removed));
                }
                Located::Present(_) => {}
            }
            found.next = at + 1;
        }
        found.places.dedup();
        Ok(found)
    }

    /// The page's change is logged.
    pub(crate) fn note<P>(&mut self, found: PageRemovals<P>) {
        self.removed += found.places.len() as u64;
        found.traces.into_iter().for_each(|(at, trace)| self.traces[at] = trace);
    }

    /// How many entries were removed.
    pub(crate) fn removed(&self) -> u64 {
        self.removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_takes_its_part_and_the_check_decides() {
        let keys: Vec<[u8; 1]> = (0..6).map(|n| [n]).collect();
        let entries: Vec<_> =
            keys.iter().map(|key| IndexEntry::new(key, RowId::new(u32::from(key[0]), 1))).collect();
        let mut traces = vec![Trace::Unknown; 6];
        let mut check = |row: RowId| row.block.0 != 2;
        let mut removal = DeadRemoval::new(&entries, &mut check, &mut traces);
        // The page has the keys below 4, but not key 1.
        let found = removal.find_on_page(0..6, |entry| {
            Ok(match entry.key[0] {
                1 => Located::Absent,
                key @ 0..4 => Located::Present(key),
                _ => Located::Elsewhere,
            })
        });
        let found = found.unwrap();
        assert_eq!((found.next, found.places.as_slice()), (4, &[0, 3][..]));
        removal.note(found);
        assert!(removal.find_on_page(4..6, |_| Err::<Located<u8>, _>("damage")).is_err());
        assert_eq!(removal.removed(), 2);
        use Trace::{Absent, Removed, Unknown};
        assert_eq!(traces, [Removed, Absent, Unknown, Removed, Unknown, Unknown]);
    }
}
