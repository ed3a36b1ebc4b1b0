//! The arguments of an index scan: the range of keys and the order.
//!
//! Does not do: encode values (`keycode`).

pub use crate::keycode::{Direction, KeyRange, KeySet};
