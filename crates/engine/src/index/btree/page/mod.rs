//! A leaf or inner page as bytes: layout, reading, searching, changing.
//!
//! | file | content |
//! |---|---|
//! | `node` | layout of a page; header, slots, items, fences |
//! | `read` | bytes of a latched or an optimistically read page (R11) |
//! | `search` | search for a key among the entries |
//! | `tree_key` | tree keys, separators |
//! | `posting` | posting lists, and the position of an entry |
//! | `entries` | the entries of a page, decoded |
//! | `edit` | images of pages, and changes in place |
//! | `remove` | removal of rows from a leaf |
//! | `meta` | the meta page |
//!
//! Invariants: bad bytes are damage, never a panic. Every change is checked before the first store.
//! Does not do: latches, pins, the log, the tree.

pub(crate) mod edit;
pub(crate) mod entries;
pub(crate) mod meta;
pub(crate) mod node;
pub(crate) mod posting;
pub(crate) mod read;
pub(crate) mod remove;
pub(crate) mod search;
pub(crate) mod tree_key;
