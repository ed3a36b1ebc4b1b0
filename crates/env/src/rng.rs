//! Random numbers for tests, sampling and replacement decisions: xoshiro256++ seeded by splitmix64,
//! both public-domain designs of Blackman and Vigna. Small, fast, reproducible on every platform,
//! and not for secrets.

use std::hash::{BuildHasher, Hasher};
use std::ops::Range;

/// A seeded stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

/// One step of splitmix64: spreads a weak seed over all bits.
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Rng {
    /// The stream that `seed` names.
    pub fn from_seed(seed: u64) -> Rng {
        let mut mix = seed;
        let state = std::array::from_fn(|_| splitmix(&mut mix));
        assert_ne!(state, [0; 4], "xoshiro cannot leave the zero state");
        Rng { state }
    }

    /// A stream that nobody can reproduce; its seed comes from the system.
    pub fn from_entropy() -> Rng {
        let keys = std::hash::RandomState::new();
        Rng::from_seed(keys.build_hasher().finish())
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// The next 32 random bits.
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// A number in `0..n`, each equally likely.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "there is no number below zero");
        // Lemire's method: the low half of the product shows the few draws that would be biased.
        let mut product = u128::from(self.next_u64()) * u128::from(n);
        let threshold = n.wrapping_neg() % n;
        while (product as u64) < threshold {
            product = u128::from(self.next_u64()) * u128::from(n);
        }
        (product >> 64) as u64
    }

    /// An index into something of length `len`.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A number in `range`, each equally likely.
    pub fn range(&mut self, range: Range<u64>) -> u64 {
        assert!(range.start < range.end, "the range is empty");
        range.start + self.below(range.end - range.start)
    }

    /// True with probability `num / den`.
    pub fn chance(&mut self, num: u64, den: u64) -> bool {
        assert!(num <= den, "a probability is at most one");
        self.below(den) < num
    }

    /// A number in `[0, 1)`.
    pub fn unit_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    /// Puts `items` into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }

    /// One of `items`, none if there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        if items.is_empty() { None } else { items.get(self.index(items.len())) }
    }
}

/// The number of rounds of a random test: what `RIGHTLINK_ROUNDS` says, else one.
#[cfg(feature = "testing")]
pub fn rounds() -> u64 {
    std::env::var("RIGHTLINK_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference generator in C, seeded with the state 1, 2, 3, 4, begins so.
    #[test]
    fn matches_the_reference() {
        let mut rng = Rng { state: [1, 2, 3, 4] };
        assert_eq!(rng.next_u64(), 41_943_041);
        assert_eq!(rng.next_u64(), 58_720_359);
        assert_eq!(rng.next_u64(), 3_588_806_011_781_223);
    }

    #[test]
    fn below_is_even_and_in_range() {
        let mut rng = Rng::from_seed(1);
        let mut counts = [0u32; 6];
        for _ in 0..60_000 {
            counts[rng.index(6)] += 1;
        }
        assert!(counts.iter().all(|&n| (9_500..10_500).contains(&n)), "{counts:?}");
        assert!((0..1000).all(|_| (10..13).contains(&rng.range(10..13))));
    }

    #[test]
    fn shuffle_keeps_the_items() {
        let mut rng = Rng::from_seed(2);
        let mut items: Vec<u32> = (0..100).collect();
        rng.shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn fill_chance_and_unit() {
        let mut rng = Rng::from_seed(3);
        let mut bytes = [0u8; 13];
        rng.fill(&mut bytes);
        assert!(bytes.iter().filter(|&&b| b != 0).count() > 8);
        assert!(rng.chance(1, 1) && !rng.chance(0, 1));
        assert!((0..100).all(|_| (0.0..1.0).contains(&rng.unit_f64())));
        assert_ne!(Rng::from_entropy().next_u64(), Rng::from_entropy().next_u64());
    }
}
