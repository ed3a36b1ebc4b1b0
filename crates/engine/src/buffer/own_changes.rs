//! What the running thread changed of late: page, LSN before, LSN after (feature `experiments`).
//!
//! A scan under the policy "saved LSN" asks which LSN its leaf has if only its own thread has
//! changed the leaf since it was read.
//!
//! Invariants: a thread notes changes only while its scans use that policy, and the last
//! [`MAX_CHANGES`] of them.
//! Does not do: tell two databases apart that one thread changes. Marks do not rest on the answer,
//! because they ask the recycle clock (R3).
//! PostgreSQL: no counterpart; Haas proposed it in July 2017.

use std::cell::RefCell;
use std::collections::VecDeque;

use crate::ids::{Lsn, PageId};

/// Changes that are remembered.
const MAX_CHANGES: usize = 64;

thread_local! {
    /// The last changes, newest first, with the LSNs before and after; `None` while no scan needs
    /// them.
    static CHANGES: RefCell<Option<VecDeque<(PageId, Lsn, Lsn)>>> = const { RefCell::new(None) };
}

/// Notes changes of this thread from now on, or no longer.
pub(crate) fn keep(wanted: bool) {
    CHANGES.with_borrow_mut(|all| *all = wanted.then(|| all.take().unwrap_or_default()));
}

/// This thread logs a change of `page`, whose LSN becomes `after`.
pub(super) fn note(page: PageId, before: Lsn, after: Lsn) {
    CHANGES.with_borrow_mut(|changes| {
        if let Some(changes) = changes {
            changes.truncate(MAX_CHANGES - 1);
            changes.push_front((page, before, after));
        }
    });
}

/// The LSN of `page`, which was `read`, after the changes that this thread made from there on.
pub(crate) fn saved_again(page: PageId, read: Lsn) -> Lsn {
    let follow = |lsn, &(changed, before, after): &(PageId, Lsn, Lsn)| {
        if (changed, before) == (page, lsn) { after } else { lsn }
    };
    CHANGES.with_borrow(|changes| changes.iter().flatten().rev().fold(read, follow))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::FileId;

    #[test]
    fn only_own_changes_in_a_row_are_followed() {
        let (leaf, other) = (PageId::new(FileId(1), 5), PageId::new(FileId(1), 6));
        note(leaf, Lsn(10), Lsn(20));
        assert_eq!(saved_again(leaf, Lsn(10)), Lsn(10), "nothing is kept yet");
        keep(true);
        note(leaf, Lsn(10), Lsn(20));
        note(other, Lsn(20), Lsn(25));
        note(leaf, Lsn(20), Lsn(30));
        assert_eq!(saved_again(leaf, Lsn(10)), Lsn(30));
        assert_eq!(saved_again(leaf, Lsn(15)), Lsn(15), "the leaf was read after another's change");
        note(leaf, Lsn(35), Lsn(40));
        assert_eq!(saved_again(leaf, Lsn(10)), Lsn(30), "another thread changed it in between");
        (0..MAX_CHANGES as u64).for_each(|at| note(other, Lsn(100 + at), Lsn(101 + at)));
        assert_eq!(saved_again(leaf, Lsn(10)), Lsn(10), "old changes are forgotten");
        keep(false);
        assert_eq!(saved_again(other, Lsn(100)), Lsn(100));
    }
}
