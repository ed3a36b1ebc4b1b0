//! Space of a table: its growth, its two maps, and the search for a page with room.
//!
//! | file | concern |
//! |---|---|
//! | `extent` | the meta page and the growth of the file |
//! | `free_space` | the free-space map, a hint |
//! | `visibility_map` | the visibility map, logged |
//! | `page_search` | the search for a page with room |
//!
//! Invariants: free-space-map pages are latched one at a time, with no other latch held (R12).
//! Does not do: cut the end of the file (`prune/truncate.rs`).

pub(in crate::heap) mod extent;
pub(in crate::heap) mod free_space;
pub(in crate::heap) mod page_search;
pub(in crate::heap) mod visibility_map;
