//! A fast 64-bit hash that is the same everywhere and always. It tells images and runs apart; it
//! protects against nothing.

/// A hash in the making.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hash(u64);

const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

impl Hash {
    pub(crate) fn new() -> Hash {
        Hash(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn word(&mut self, word: u64) {
        self.0 = fold(self.0 ^ word, FACTOR).wrapping_add(word.rotate_left(32));
    }

    /// Adds `bytes` and their length. Four lanes run side by side, as one alone would wait for its
    /// multiplications.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        let (stripes, rest) = bytes.as_chunks::<32>();
        let mut lanes = [Hash(1), Hash(2), Hash(3), Hash(4)];
        for stripe in stripes {
            let (words, _) = stripe.as_chunks::<8>();
            lanes
                .iter_mut()
                .zip(words)
                .for_each(|(lane, word)| lane.word(u64::from_le_bytes(*word)));
        }
        lanes.iter().for_each(|lane| self.word(lane.0));
        let (words, rest) = rest.as_chunks::<8>();
        words.iter().for_each(|word| self.word(u64::from_le_bytes(*word)));
        let mut last = [0u8; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.word(u64::from_le_bytes(last));
    }

    pub(crate) fn finish(self) -> u64 {
        fold(self.0, 0xD6E8_FEB8_6659_FD93)
    }
}

/// The hash of `bytes` alone.
pub(crate) fn of(bytes: &[u8]) -> u64 {
    let mut hash = Hash::new();
    hash.bytes(bytes);
    hash.finish()
}

#[cfg(test)]
mod tests {
    use super::of;
    use std::collections::BTreeSet;

    #[test]
    fn every_bit_and_every_length_counts() {
        let mut seen = BTreeSet::new();
        for len in 0..100 {
            let mut bytes = vec![0; len];
            assert!(seen.insert(of(&bytes)), "{len} zeros");
            for bit in 0..len * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(seen.insert(of(&bytes)), "bit {bit} of {len} bytes");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
}
