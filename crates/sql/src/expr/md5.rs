//! MD5 as PostgreSQL's `md5` gives it: a fingerprint, not for secrets.
//!
//! Does not do: anything streamed.

/// Left rotations, four for each round.
const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// The digest of `data`.
pub(super) fn digest(data: &[u8]) -> [u8; 16] {
    let mut state = [0x6745_2301u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let mut padded = data.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend_from_slice(&((data.len() as u64).wrapping_mul(8)).to_le_bytes());
    // The constants are the sines of 1 to 64, as 32-bit fractions.
    let sines =
        std::array::from_fn(|step| (((step + 1) as f64).sin().abs() * 4_294_967_296.0) as u32);
    for block in padded.chunks_exact(64) {
        mix(&mut state, block, &sines);
    }
    let mut out = [0; 16];
    for (at, word) in state.iter().enumerate() {
        out[at * 4..at * 4 + 4].copy_from_slice(&word.to_le_bytes());
    }
    out
}

fn mix(state: &mut [u32; 4], block: &[u8], sines: &[u32; 64]) {
    assert_eq!(block.len(), 64, "a block has 64 bytes");
    let word = |at: usize| {
        let bytes = &block[at * 4..at * 4 + 4];
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    };
    let [mut a, mut b, mut c, mut d] = *state;
    for step in 0..64 {
        let round = step / 16;
        let (f, at) = match round {
            0 => ((b & c) | (!b & d), step),
            1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
            2 => (b ^ c ^ d, (3 * step + 5) % 16),
            _ => (c ^ (b | !d), (7 * step) % 16),
        };
        let sum = a.wrapping_add(f).wrapping_add(sines[step]).wrapping_add(word(at));
        let turned = sum.rotate_left(SHIFTS[round][step % 4]);
        (a, d, c, b) = (d, c, b, b.wrapping_add(turned));
    }
    for (into, add) in state.iter_mut().zip([a, b, c, d]) {
        *into = into.wrapping_add(add);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> String {
        digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The test suite of RFC 1321.
    #[test]
    fn known_digests() {
        for (text, expected) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("a", "0cc175b9c0f1b6a831c399e269772661"),
            ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "57edf4a22be3c955ac49da2e2107b67a",
            ),
        ] {
            assert_eq!(hex(text), expected);
        }
    }
}
