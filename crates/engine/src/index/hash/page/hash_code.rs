//! Hash codes, the order that they give, and the numbers of buckets.
//!
//! The *position* of an entry is its code (big-endian), key and row id. Positions are compared as
//! bytes. A bucket begins at a code of which only the first bits are set. Read backwards, those
//! bits are its number. So a bucket that is split keeps its number, and its new half gets one that
//! no other has. A number without its highest set bit names the bucket that was split (its parent).
//!
//! Invariants: the code of a key never changes (it is on disk); `bucket_number` and `bucket_start`
//! are each other's inverse.
//! Does not do: pages.
//! Paper: Shalev and Shavit, split-ordered lists, where keys are ordered by reversed hash bits.

use xxhash_rust::xxh3::xxh3_64;

use crate::ids::RowId;

/// Bytes of a code in front of a key.
pub(crate) const CODE_BYTES: usize = 4;

/// The code of an encoded key.
pub(crate) fn hash_code(key: &[u8]) -> u32 {
    (xxh3_64(key) >> 32) as u32
}

/// Position of an entry: code, key and row id.
pub(crate) fn entry_position(key: &[u8], row: RowId) -> Vec<u8> {
    let mut out = Vec::with_capacity(CODE_BYTES + key.len() + RowId::SIZE);
    out.extend_from_slice(&hash_code(key).to_be_bytes());
    out.extend_from_slice(key);
    out.extend_from_slice(&row.to_bytes());
    out
}

/// Code and key: the position where the entries of a key begin.
pub(crate) fn key_position(key: &[u8]) -> Vec<u8> {
    [&hash_code(key).to_be_bytes(), key].concat()
}

/// The key of a position where its entries begin.
pub(crate) fn key_of(position: &[u8]) -> Option<&[u8]> {
    position.get(CODE_BYTES..)
}

/// The code of a fence at which a bucket begins; `None` if none does.
pub(crate) fn bucket_code(fence: &[u8]) -> Option<u32> {
    <[u8; CODE_BYTES]>::try_from(fence).ok().map(u32::from_be_bytes)
}

/// The code at the beginning of a position, zeroes standing for what is missing, and what follows.
pub(crate) fn split_code(position: &[u8]) -> (u32, &[u8]) {
    match position.split_first_chunk::<CODE_BYTES>() {
        Some((code, rest)) => (u32::from_be_bytes(*code), rest),
        None => {
            let mut code = [0; CODE_BYTES];
            code[..position.len()].copy_from_slice(position);
            (u32::from_be_bytes(code), &[])
        }
    }
}

/// Number of the bucket that begins at `code`.
pub(crate) fn bucket_number(code: u32) -> u32 {
    code.reverse_bits()
}

/// The code at which the bucket of a number begins.
pub(crate) fn bucket_start(number: u32) -> u32 {
    number.reverse_bits()
}

/// The bucket that this one was split from: the number without its highest bit.
pub(crate) fn parent_bucket(number: u32) -> u32 {
    assert!(number != 0, "the first bucket has no parent");
    number & !(1 << number.ilog2())
}

/// How many bits the number has.
pub(crate) fn bit_count(number: u32) -> u32 {
    u32::BITS - number.leading_zeros()
}

/// The code between `before` (exclusive) and `after` (inclusive) with the fewest bits set from the
/// front: the bucket that begins there has the smallest number.
pub(crate) fn separator_code(before: u32, after: u32) -> u32 {
    assert!(before < after, "codes ascend");
    // The first bit in which they differ is set in `after`: keep the bits up to it.
    let keep = (before ^ after).leading_zeros();
    after & !(u32::MAX.checked_shr(keep + 1).unwrap_or(0))
}

/// The shortest position above `before` and not above `after`: a code where the codes differ, else
/// longer than a code.
pub(crate) fn separator_position(before: &[u8], after: &[u8]) -> Vec<u8> {
    let (low, high) = (split_code(before).0, split_code(after).0);
    if low < high {
        return separator_code(low, high).to_be_bytes().to_vec();
    }
    let same = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    after[..=same.max(CODE_BYTES)].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rightlink_env::Rng;

    #[test]
    fn numbers_grow_as_buckets_are_split() {
        assert_eq!((bucket_number(0), bucket_number(1 << 31), bucket_number(1 << 30)), (0, 1, 2));
        assert_eq!((bucket_number(0b11 << 30), parent_bucket(3), parent_bucket(2)), (3, 1, 0));
        let mut rng = Rng::from_seed(1);
        for _ in 0..1000 {
            let code = rng.next_u64() as u32;
            assert_eq!(bucket_start(bucket_number(code)), code);
            let number = bucket_number(code).max(1);
            assert!(
                parent_bucket(number) < number
                    && bucket_start(parent_bucket(number)) < bucket_start(number)
            );
            assert!(bit_count(parent_bucket(number)) < bit_count(number));
        }
    }

    #[test]
    fn the_separator_code_code_lies_between() {
        assert_eq!(separator_code(0, 1), 1);
        assert_eq!(separator_code(5, 6), 6);
        assert_eq!(separator_code(0, u32::MAX), 1 << 31);
        let mut rng = Rng::from_seed(2);
        for _ in 0..1000 {
            let (a, b) = (rng.next_u64() as u32, rng.next_u64() as u32);
            if a == b {
                continue;
            }
            let (a, b) = (a.min(b), a.max(b));
            let round = separator_code(a, b);
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
