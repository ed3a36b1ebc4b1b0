//! The stream of `random()` that `setseed` begins: PostgreSQL's own (xoroshiro128**).
//!
//! Invariants: a session that has set a seed gets the numbers that PostgreSQL 15 gets.
//! Does not do: numbers of sessions without a seed, and those of `gen_random_uuid`.

use rightlink_env::sync::{Arc, Mutex};

/// Bits of a random number.
const BITS: u32 = 52;

/// The seed of a session, if it has set one; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seed(Arc<Mutex<Option<[u64; 2]>>>);

impl Seed {
    /// Begins the stream that belongs to a number between -1 and 1.
    pub(crate) fn set(&self, number: f64) {
        let mut state = (((1u64 << BITS) - 1) as f64 * number) as i64 as u64;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut bits = state;
            bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            bits ^ (bits >> 31)
        };
        let first = next();
        *self.0.lock() = Some([first, next()]);
    }

    /// The next number of the stream, from 0 to below 1; `None` without a seed.
    pub(crate) fn next(&self) -> Option<f64> {
        let mut state = self.0.lock();
        let [first, second] = (*state)?;
        let mixed = second ^ first;
        let bits = first.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        *state = Some([first.rotate_left(24) ^ mixed ^ (mixed << 16), mixed.rotate_left(37)]);
        Some((bits >> (64 - BITS)) as f64 / (1u64 << BITS) as f64)
    }
}
