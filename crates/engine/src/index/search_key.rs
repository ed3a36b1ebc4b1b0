//! What a scan of an index is told: the range of keys and the order.
//!
//! Does not do: encode values (`keycode`).

pub use crate::keycode::{Direction, KeyRange, KeySet};
