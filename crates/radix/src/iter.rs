//! Walks over keys in order.
//!
//! Invariants: keys ascend. Does not do: walking beside a writer; `shared` asks for one key after
//! the other.

use std::ops::{Bound, RangeBounds};

use crate::store::{Entry, Fixed, Store};

/// The first and last key of a range; nothing if it is empty.
pub(crate) fn ends(range: &impl RangeBounds<u64>) -> Option<(u64, u64)> {
    let first = match range.start_bound() {
        Bound::Included(&key) => key,
        Bound::Excluded(&key) => key.checked_add(1)?,
        Bound::Unbounded => 0,
    };
    let last = match range.end_bound() {
        Bound::Included(&key) => key,
        Bound::Excluded(&key) => key.checked_sub(1)?,
        Bound::Unbounded => u64::MAX,
    };
    (first <= last).then_some((first, last))
}

/// The entries of a range in ascending order.
#[derive(Debug)]
pub struct Iter<'a, V> {
    store: &'a Store<V>,
    next: Option<Entry>,
    last: u64,
}

impl<'a, V: Fixed> Iter<'a, V> {
    pub(crate) fn new(store: &'a Store<V>, range: &impl RangeBounds<u64>) -> Iter<'a, V> {
        let Some((first, last)) = ends(range) else { return Iter { store, next: None, last: 0 } };
        Iter { store, next: store.seek(first), last }
    }
}

impl<V: Fixed> Iterator for Iter<'_, V> {
    type Item = (u64, V);

    #[inline]
    fn next(&mut self) -> Option<(u64, V)> {
        let entry = self.next.filter(|entry| entry.key <= self.last)?;
        self.next = self.store.after(entry);
        Some((entry.key, V::from_word(self.store.value(entry))))
    }
}
