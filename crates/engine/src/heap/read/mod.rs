//! Reads: one row, many rows of a page, a scan, the newest version, and the state for unique
//! checks.
//!
//! | file | concern |
//! |---|---|
//! | `fetch` | one row, from the root that an index entry names |
//! | `batch` | several rows of one page under one latch |
//! | `scan` | every page of a range |
//! | `newest` | the newest committed version, over pages |
//! | `liveness` | the present state of a row, for unique checks |
//!
//! Invariants: rows are copied out, and no reference leaves the latch (R11); nothing is read from
//! the device while a heap page is latched (R7).
//! Does not do: columns, filters, waiting.

pub(in crate::heap) mod batch;
pub(in crate::heap) mod fetch;
pub(in crate::heap) mod liveness;
pub(in crate::heap) mod newest;
pub(in crate::heap) mod scan;
