//! What a scan of an index is told: the range of keys and the order.
//!
//! Does not do: encode values (`keycode`).

pub use crate::keycode::{KeyRange, KeySet};

/// Order in which a scan hands over entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Direction {
    /// Ascending.
    #[default]
    Forward,
    /// Descending.
    Backward,
}
