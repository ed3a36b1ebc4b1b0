//! The pages that a batch will go to, named by the directory alone.
//!
//! Invariants: groups come in the batch's order, without gaps. A named page is a guess (R6).
//! Does not do: read pages of entries; name overflow pages, which only links lead to.

use crate::error::Result;
use crate::index::am::{Group, IndexEntry};
use crate::index::hash::page::hash_code;
use crate::index::hash::state::Index;

/// The groups of one batch: runs of entries for which the directory names the same page.
pub(crate) struct BucketGroups<'a> {
    index: &'a Index,
    entries: &'a [IndexEntry<'a>],
    /// Entries before this position are in a group.
    grouped: usize,
    /// Block for the first entry that is in none.
    next: Option<u32>,
}

impl Index {
    /// See [`crate::index::am::AccessMethod::groups`].
    pub(crate) fn groups<'a>(&'a self, entries: &'a [IndexEntry<'a>]) -> BucketGroups<'a> {
        BucketGroups { index: self, entries, grouped: 0, next: None }
    }
}

impl BucketGroups<'_> {
    fn block(&self, at: usize) -> Result<u32> {
        self.index.first_page(hash_code(self.entries[at].key))
    }

    fn group(&mut self) -> Result<Group> {
        let start = self.grouped;
        let block = match self.next.take() {
            Some(block) => block,
            None => self.block(start)?,
        };
        let mut end = start + 1;
        while end < self.entries.len() {
            let other = self.block(end)?;
            if other != block {
                self.next = Some(other);
                break;
            }
            end += 1;
        }
        self.grouped = end;
        Ok(Group { page: self.index.page(block), link: None, entries: start..end })
    }
}

impl Iterator for BucketGroups<'_> {
    type Item = Result<Group>;

    fn next(&mut self) -> Option<Result<Group>> {
        if self.grouped == self.entries.len() {
            return None;
        }
        let group = self.group();
        if group.is_err() {
            self.grouped = self.entries.len();
        }
        Some(group)
    }
}
