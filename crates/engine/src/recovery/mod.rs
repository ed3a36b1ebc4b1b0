//! Recovery after a crash, and checkpoints, which keep recovery short.
//!
//! | file | content |
//! |---|---|
//! | `checkpoint` | moves the start of redo forward while other threads write |
//! | `redo` | replays the log over the data files |
//!
//! Invariants: redo knows no heap and no index. A record consists of page deltas, and a page takes
//! those that are newer than its LSN. Transactions without a commit record are aborted, so there is
//! no undo.
//! Does not do: open files, start threads (`db`); decide what a damaged log means (`wal`).

pub(crate) mod checkpoint;
pub(crate) mod redo;

#[cfg(test)]
mod tests;
