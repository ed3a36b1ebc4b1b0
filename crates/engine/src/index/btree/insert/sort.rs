//! The order in which a batch is inserted: by key and row id.
//!
//! Invariants: the order is that of the tree keys; keys are prefix-free, so that key and row id
//! decide one after the other.
//! Does not do: find leaves (`search/leaf_groups`).

use crate::index::am::IndexEntry;
use crate::page::buf::gather;

/// Batches of so many entries are sorted by the openings of their keys first.
const MANY: usize = 32;

/// The first bytes of a key, as a number. Keys with different openings have their order.
#[inline]
fn opening(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => gather(key).swap_bytes(),
    }
}

/// Order of two entries: most differ in their first eight bytes, which one comparison decides.
#[inline]
fn order_of(a: &IndexEntry<'_>, b: &IndexEntry<'_>) -> std::cmp::Ordering {
    if let (Some(one), Some(two)) = (a.key.first_chunk::<8>(), b.key.first_chunk::<8>())
        && one != two
    {
        return u64::from_be_bytes(*one).cmp(&u64::from_be_bytes(*two));
    }
    a.key.cmp(b.key).then(a.row.cmp(&b.row))
}

/// Sorts the entries of a batch by key and row id.
pub(crate) fn sort_entries(entries: &mut [IndexEntry<'_>]) {
    // Prefix-free keys: this is the order of the tree keys.
    if entries.len() < MANY || entries.is_sorted_by(|a, b| order_of(a, b).is_le()) {
        return entries.sort_unstable_by(order_of);
    }
    let numbered = entries.iter().zip(0u32..).map(|(entry, at)| (opening(entry.key), at));
    let mut places: Vec<(u64, u32)> = numbered.collect();
    places.sort_unstable_by_key(|(opening, _)| *opening);
    let sorted: Vec<_> = places.iter().map(|(_, at)| entries[*at as usize]).collect();
    entries.copy_from_slice(&sorted);
    for run in entries.chunk_by_mut(|a, b| opening(a.key) == opening(b.key)) {
        run.sort_unstable_by(order_of);
    }
}
