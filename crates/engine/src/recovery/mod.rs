//! Coming back after a crash, and keeping the way back short.
//!
//! | file | hides |
//! |---|---|
//! | `checkpoint` | moving the start of redo forward without stopping anyone |
//! | `redo` | replaying the log over the data files |
//!
//! Invariants: redo knows no heap and no index: a record is page deltas, and a page takes those
//! that are newer than its LSN. Transactions without a commit record are aborted, so there is no
//! undo.
//! Does not do: opening files or threads (`db`), deciding what a damaged log means (`wal`).

pub mod checkpoint;
pub mod redo;
