//! Hash codes, the order that they give, and the numbers of buckets.
//!
//! The entries of an index stand in the order of code, key and row id, as bytes: the code first,
//! big-endian. A bucket begins at a code of which only the first bits are set; read backwards,
//! those bits are its number. So a bucket that is parted keeps its number, and the part that leaves
//! gets one that no other has: numbers grow with the index, and a number without the highest bit
//! that is set names the bucket that this one left (its parent).
//!
//! Invariants: the code of a key never changes (it is on disk); `number_of` and `start_of` are each
//! other's reverse.
//! Does not do: pages.

use xxhash_rust::xxh3::xxh3_64;

use crate::ids::RowId;

/// Bytes of a code in front of a key.
pub(crate) const CODE: usize = 4;

/// The code of an encoded key.
pub(crate) fn code_of(key: &[u8]) -> u32 {
    (xxh3_64(key) >> 32) as u32
}

/// Code, key and row id: where an entry stands.
pub(crate) fn whole(key: &[u8], row: RowId) -> Vec<u8> {
    let mut out = Vec::with_capacity(CODE + key.len() + RowId::SIZE);
    out.extend_from_slice(&code_of(key).to_be_bytes());
    out.extend_from_slice(key);
    out.extend_from_slice(&row.to_bytes());
    out
}

/// Code and key: where the entries of a key begin.
pub(crate) fn beginning(key: &[u8]) -> Vec<u8> {
    [&code_of(key).to_be_bytes(), key].concat()
}

/// The code at the beginning of a position, zeroes standing for what is missing, and what follows.
pub(crate) fn split_code(position: &[u8]) -> (u32, &[u8]) {
    match position.split_first_chunk::<CODE>() {
        Some((code, rest)) => (u32::from_be_bytes(*code), rest),
        None => {
            let mut code = [0; CODE];
            code[..position.len()].copy_from_slice(position);
            (u32::from_be_bytes(code), &[])
        }
    }
}

/// Number of the bucket that begins at `code`.
pub(crate) fn number_of(code: u32) -> u32 {
    code.reverse_bits()
}

/// The code at which the bucket of a number begins.
pub(crate) fn start_of(number: u32) -> u32 {
    number.reverse_bits()
}

/// The number without its highest bit: of the bucket that this one once was a part of.
pub(crate) fn parent_of(number: u32) -> u32 {
    assert!(number != 0, "the first bucket has no parent");
    number & !(1 << number.ilog2())
}

/// How many bits it takes to tell this number from smaller ones.
pub(crate) fn bits_of(number: u32) -> u32 {
    u32::BITS - number.leading_zeros()
}

/// Of all codes above `before` and not above `after` the one with the fewest bits, which makes the
/// bucket with the smallest number.
pub(crate) fn roundest(before: u32, after: u32) -> u32 {
    assert!(before < after, "codes ascend");
    // The first bit in which they differ is set in `after`: keep what is in front of it, and it.
    let keep = (before ^ after).leading_zeros();
    after & !(u32::MAX.checked_shr(keep + 1).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rightlink_env::Rng;

    #[test]
    fn numbers_grow_as_buckets_are_parted() {
        assert_eq!((number_of(0), number_of(1 << 31), number_of(1 << 30)), (0, 1, 2));
        assert_eq!((number_of(0b11 << 30), parent_of(3), parent_of(2)), (3, 1, 0));
        let mut rng = Rng::from_seed(1);
        for _ in 0..1000 {
            let code = rng.next_u64() as u32;
            assert_eq!(start_of(number_of(code)), code);
            let number = number_of(code).max(1);
            assert!(parent_of(number) < number && start_of(parent_of(number)) < start_of(number));
            assert!(bits_of(parent_of(number)) < bits_of(number));
        }
    }

    #[test]
    fn the_roundest_code_lies_between() {
        assert_eq!(roundest(0, 1), 1);
        assert_eq!(roundest(5, 6), 6);
        assert_eq!(roundest(0, u32::MAX), 1 << 31);
        let mut rng = Rng::from_seed(2);
        for _ in 0..1000 {
            let (a, b) = (rng.next_u64() as u32, rng.next_u64() as u32);
            if a == b {
                continue;
            }
            let (a, b) = (a.min(b), a.max(b));
            let round = roundest(a, b);
            assert!(a < round && round <= b);
            let zeroes = round.trailing_zeros();
            assert!(zeroes == 31 || (a >> (zeroes + 1)) == (b >> (zeroes + 1)));
        }
    }

    #[test]
    fn short_positions_are_padded() {
        assert_eq!(split_code(&[]), (0, &[][..]));
        assert_eq!(split_code(&[1, 2]), (0x0102_0000, &[][..]));
        assert_eq!(split_code(&[1, 2, 3, 4, 5]), (0x0102_0304, &[5][..]));
    }
}
