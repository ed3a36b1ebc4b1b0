//! How the end of an operation is reported.

use crate::error::IoError;
use rightlink_env::sync::Arc;
use std::fmt;

/// Who is told that an operation has ended.
pub trait Completion: Send + Sync {
    /// The operation that was submitted with `tag` has moved the given number of bytes, or failed.
    /// Called exactly once per operation, on any thread, without a lock of this crate held. May
    /// submit; must not wait for other operations.
    fn complete(&self, tag: u64, result: Result<usize, IoError>);

    /// [`Completion::complete`] has panicked for this operation, with this message. Sees to it that
    /// all who wait for the operation learn that it has ended. Must not panic.
    fn panicked(&self, tag: u64, message: &str);
}

/// Where the end of an operation is reported. Holds its target alive: a target that owns the last
/// `Io` would never be told, so it waits for its operations before it goes.
#[derive(Clone)]
pub struct Done {
    /// Who is told.
    pub target: Arc<dyn Completion>,
    /// What it is told along, to know which operation it was.
    pub tag: u64,
}

impl fmt::Debug for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Done({})", self.tag)
    }
}
