//! An adaptive radix tree: 64-bit keys in order, each with a value.
//!
//! | name | what it is |
//! |---|---|
//! | [`Map`], [`Set`] | keys with values of a word, or none, embedded in the leaves |
//! | [`BytesMap`] | keys with values of any length up to a page, embedded where they fit |
//! | [`Cursor`] | lookups one after the other, in which neighbours share their way |
//! | [`Runs`] | neighbours among many lookups that need one search |
//! | [`Shape`] | how many nodes of each kind a tree has |
//!
//! A node takes one key byte. Its entries are packed and found by counting bits, so it is as large
//! as its count asks for; paths of single children are left out. All nodes lie in one growing
//! memory and name each other by 32-bit numbers: no pointers, no `unsafe`, and memory that is known
//! to the byte.
//!
//! ```
//! let mut map = rightlink_radix::Map::new();
//! map.extend_sorted([(3, 30u64), (5, 50), (700, 7)]);
//! assert_eq!(map.insert(5, 55), Some(50));
//! assert_eq!(map.get(700), Some(7));
//! assert!(map.any_in(4..=5) && !map.any_in(6..=699));
//! assert_eq!(map.range(4..).map(|(key, _)| key).collect::<Vec<_>>(), [5, 700]);
//! ```
//!
//! Does not do: knowing anything of stores, descending iteration, keys longer than a word.

mod blobs;
mod cursor;
mod edit;
mod iter;
mod map;
mod node;
mod shape;
mod slabs;
mod store;
mod words;

#[cfg(test)]
mod tests;

pub use blobs::{BytesMap, Place, Value, Values};
pub use cursor::Cursor;
pub use edit::Sizes;
pub use iter::Iter;
pub use map::{Map, Set};
pub use shape::Shape;
pub use store::{Fixed, GROUP, Runs};

/// The examples of the README, compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
