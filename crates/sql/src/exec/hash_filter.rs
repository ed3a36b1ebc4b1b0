//! Which hashes were added, most likely: a Bloom filter.
//!
//! Invariants: a hash that was added passes. A filter that memory does not hold lets all pass.
//! Does not do: hashing.
//!
//! Bloom, Space/Time Trade-offs in Hash Coding with Allowable Errors, 1970.

use rightlink::{Budget, Reservation};

use super::hash::mix;

/// A Bloom filter over hashes.
pub(super) struct HashFilter {
    /// A power of two of them; none if memory did not hold them.
    words: Vec<u64>,
    /// Bits that a hash sets.
    set: u64,
    _memory: Option<Reservation>,
}

impl HashFilter {
    /// A filter of at least so many bytes, and less than twice as many, in which a hash sets `set`
    /// bits.
    pub(super) fn new(bytes: usize, set: u64, budget: &Budget) -> HashFilter {
        let words = (bytes / size_of::<u64>() + 1).next_power_of_two();
        let memory = budget.try_reserve(words * size_of::<u64>());
        let words = vec![0; if memory.is_some() { words } else { 0 }];
        HashFilter { words, set, _memory: memory }
    }

    /// Word and bit of each that a hash sets.
    fn places(&self, hash: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let (words, step) = (self.words.len(), hash.rotate_left(32) | 1);
        (0..self.set).map(move |number| {
            let place = mix(hash, number.wrapping_mul(step));
            ((place >> 6) as usize & (words - 1), 1 << (place & 63))
        })
    }

    pub(super) fn add(&mut self, hash: u64) {
        if self.words.is_empty() {
            return;
        }
        for (word, bit) in self.places(hash) {
            self.words[word] |= bit;
        }
    }

    /// May the hash have been added?
    pub(super) fn passes(&self, hash: u64) -> bool {
        self.words.is_empty() || self.places(hash).all(|(word, bit)| self.words[word] & bit != 0)
    }
}
