//! A build without the feature `icu`: every collation is there and none can be used.
//!
//! Invariants: no value of this type exists.
//! Does not do: anything.

use std::cmp::Ordering;

/// Never made.
pub(super) enum Collator {}

impl Collator {
    pub(super) fn new(_: &str) -> Result<Collator, String> {
        Err("this build has no collations (feature `icu`)".into())
    }

    pub(super) fn locale(&self) -> &str {
        match *self {}
    }

    pub(super) fn data_version(&self) -> String {
        match *self {}
    }

    pub(super) fn compare(&self, _: &str, _: &str) -> Ordering {
        match *self {}
    }

    pub(super) fn sort_key(&self, _: &str, _: &mut Vec<u8>) {
        match *self {}
    }

    pub(super) fn may_hold_zeros(&self) -> bool {
        match *self {}
    }
}
