//! Tree keys (encoded key and row id) and the separators between them.
//!
//! Invariants: a [`TreeKey`] of usual length needs no memory of its own, so that building one
//! costs a copy.
//! Does not do: interpret the bytes of a key.

use std::ops::Deref;

use crate::ids::RowId;
use crate::index::btree::page::node::Checked;
use crate::index::btree::page::read::common;

/// Longest key without memory of its own.
const SHORT: usize = 48;

/// Key bytes and, mostly, the row id behind them.
pub(crate) struct TreeKey {
    short: [u8; SHORT],
    len: usize,
    /// All bytes, if `short` does not hold them.
    long: Vec<u8>,
}

impl TreeKey {
    /// The whole tree key of an entry.
    #[inline]
    pub(crate) fn new(key: &[u8], row: RowId) -> TreeKey {
        TreeKey::of(key, &row.to_bytes())
    }

    /// The key alone, which is below all of its rows.
    #[inline]
    pub(crate) fn before_rows(key: &[u8]) -> TreeKey {
        TreeKey::of(key, &[])
    }

    #[inline]
    fn of(key: &[u8], row: &[u8]) -> TreeKey {
        let (mut short, mut long, len) = ([0; SHORT], Vec::new(), key.len() + row.len());
        match short.get_mut(..len) {
            Some(out) => {
                let (front, back) = out.split_at_mut(key.len());
                front.copy_from_slice(key);
                back.copy_from_slice(row);
            }
            None => long = [key, row].concat(),
        }
        TreeKey { short, len, long }
    }
}

impl Deref for TreeKey {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.short.get(..self.len).unwrap_or(&self.long)
    }
}

/// The whole tree key of an entry.
pub(crate) fn tree_key(key: &[u8], row: RowId) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + RowId::SIZE);
    out.extend_from_slice(key);
    out.extend_from_slice(&row.to_bytes());
    out
}

/// Encoded key and row id of a tree key.
pub(crate) fn split_key(key: &[u8]) -> Checked<(&[u8], RowId)> {
    let (key, row) = key.split_last_chunk::<{ RowId::SIZE }>().ok_or("a key without a row id")?;
    Ok((key, RowId::from_bytes(*row)))
}

/// The shortest byte string above `left` and not above `right`.
pub(crate) fn separator<'k>(left: &[u8], right: &'k [u8]) -> &'k [u8] {
    debug_assert!(left < right);
    &right[..common(left, right) + 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On both sides of the length that needs memory.
    #[test]
    fn keys_of_any_length_are_whole() {
        let row = RowId::new(77, 3);
        for len in [0, 1, SHORT - RowId::SIZE, SHORT - RowId::SIZE + 1, SHORT, SHORT + 1, 500] {
            let key: Vec<u8> = (0..len).map(|i| i as u8).collect();
            assert_eq!(*TreeKey::new(&key, row), *tree_key(&key, row));
            assert_eq!(*TreeKey::before_rows(&key), *key);
        }
    }

    #[test]
    fn separators_are_as_short_as_can_be() {
        assert_eq!(separator(b"abc", b"abd"), b"abd");
        assert_eq!(separator(b"abc", b"b"), b"b");
        assert_eq!(separator(b"ab", b"abc"), b"abc");
        assert_eq!(separator(b"a\xff\xff", b"b\0\0\0"), b"b");
    }
}
