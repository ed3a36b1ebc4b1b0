//! The stack that a message takes, and a thread of its own where the caller's has too little.
//!
//! A level of a statement's tree takes two characters of its text at least, so the length of a
//! message bounds how deep its trees are before it is read. Of a prepared statement or a cursor the
//! text was longer than that of the message which runs it; the session remembers the longest.
//! The test `deep_statements` measures what each walk takes a level and holds it against the
//! figures here.
//!
//! Invariants: nothing that recurses over the tree of a statement begins with less stack than its
//! deepest walk takes. Definitions that are kept with tables fit into [`LEAST`], since messages
//! that meet them may be short (`parse::MAX_KEPT_DEPTH`).
//! Does not do: limits on depth (`parse`).

use rightlink_env::{stack, thread};

use super::Session;
use crate::error::{Result, SqlError, code};
use crate::parse::MAX_DEPTH;

/// Whether this crate, and perhaps the parser under it, is built without optimisation.
const IS_DEBUG: bool = cfg!(debug_assertions);

/// Bytes of stack that the walk which takes the most takes a level: printing a tree in a build
/// without optimisation, copying it in one with.
const LEVEL: usize = if IS_DEBUG { 12 << 10 } else { 1_536 };

/// Bytes of stack that parsing takes at its deepest ([`crate::parse::MAX_NESTING`] levels), with
/// the engine's own use or that of the deepest definition of a table: 4.0 MiB without optimisation,
/// 0.9 MiB with it.
const LEAST: usize = if IS_DEBUG { 8 << 20 } else { 1_280 << 10 };

/// Bytes of stack with which a thread runs every message of a [`Session`] by itself.
///
/// A thread with less can use a session, too: a message that may need more than is left runs on a
/// thread of its own with this stack, which costs some ten microseconds. In builds with
/// optimisation that concerns threads with less than 1.3 MiB left, and messages of over a thousand
/// characters on a thread of 2 MiB, which is what Rust gives threads by default.
///
/// Only dropping a session happens where it is dropped. It takes at most 1 MiB.
pub const STACK: usize = (LEAST + MAX_DEPTH * LEVEL).next_multiple_of(1 << 20);

/// What a message of `length` characters takes.
fn need(length: usize) -> usize {
    LEAST + (length / 2).min(MAX_DEPTH) * LEVEL
}

impl Session {
    /// Runs `work`, which a message of `length` characters asks for, where there is stack for it.
    pub(super) fn on_stack<T: Send>(
        &mut self,
        length: usize,
        work: impl FnOnce(&mut Session) -> Result<T> + Send,
    ) -> Result<T> {
        if stack::left() >= need(length.max(self.longest)) {
            return work(self);
        }
        thread::on_stack("rightlink-statement", STACK, || work(self)).unwrap_or_else(|error| {
            Err(SqlError::new(code::TOO_COMPLEX, "stack depth limit exceeded")
                .detail(format!("No thread with a larger stack could be started: {error}.")))
        })
    }

    /// A statement of `length` characters stays with the session: what runs it may be shorter.
    pub(super) fn stays(&mut self, length: usize) {
        self.longest = self.longest.max(length);
    }
}
