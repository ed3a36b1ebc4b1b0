//! Where a batch will go, by the directory alone: no page of entries is looked at.
//!
//! Invariants: groups come in the batch's order, without gaps; a page that is named is a guess
//! (R6).
//! Does not do: name overflow pages, which only the links know.

use crate::error::Result;
use crate::index::am::{Group, IndexEntry};
use crate::index::hash::Index;
use crate::index::hash::code::code_of;

/// The groups of one batch: a run of entries for which the directory names one page.
pub(crate) struct BucketGroups<'a> {
    index: &'a Index,
    entries: &'a [IndexEntry<'a>],
    /// Entries below are in a group.
    grouped: usize,
    /// Block for the first entry that is not.
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
        self.index.named(code_of(self.entries[at].key))
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
        Ok(Group { page: self.index.page(block), entries: start..end })
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
