//! A small seeded stream of random numbers, for the moment of the tour's kill and its look ups.
//!
//! Invariants: one seed, one stream (splitmix64). Does not do: secrets.

use std::hash::{BuildHasher, RandomState};

/// A stream of random numbers.
pub(crate) struct Random(u64);

/// A seed that the system chose, short enough to be typed.
pub(crate) fn fresh_seed() -> u64 {
    RandomState::new().hash_one(0u8) % 1_000_000
}

impl Random {
    /// The stream of `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from 0 to `n` - 1.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "there is a number to choose");
        self.next() % n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_one_stream() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            [random.below(1000), random.below(1000), random.below(1000)]
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
