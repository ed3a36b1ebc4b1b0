//! Tests of the access-method interface, which each method runs.

pub(crate) mod suite;
pub(crate) mod suite_keys;
