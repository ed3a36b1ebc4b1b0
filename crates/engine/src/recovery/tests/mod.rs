//! Tests of checkpoints and redo together.

#[cfg(not(feature = "shuttle"))]
mod late_marks;
