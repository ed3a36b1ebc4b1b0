//! Closing a database: the threads end, everything becomes durable, and a last checkpoint is made.
//!
//! Invariants:
//! - Each step can be repeated, so that a later call retries a failed close.
//! - A database with transactions that have written is not closed; the end of the last one closes
//!   it.
//!
//! Does not do: roll back transactions.

use rightlink_env::sync::Ordering;

use crate::error::{Error, Result};
use crate::upkeep::{CheckpointCause, Engine};

impl Engine {
    /// Refuses new work, stops the threads, then checkpoints one last time. Later calls do nothing.
    ///
    /// While transactions that have written still run, it only makes committed work durable, and a
    /// later call does the rest: at the latest that of the last handle, since each transaction has
    /// one. A later call also retries a failed close, unless the log takes no more.
    pub(crate) fn close(&self) -> Result<()> {
        let mut ended = self.upkeep.ended.lock();
        if *ended {
            return Ok(());
        }
        self.stop_threads();
        let closed = self.make_last_checkpoint();
        *ended = matches!(closed, Ok(()) | Err(Error::Poisoned(_)));
        closed
    }

    fn make_last_checkpoint(&self) -> Result<()> {
        self.wal.check()?;
        // Even if a later step fails: no other thread will make relaxed commits durable.
        self.wal.flush(self.wal.end())?;
        self.forget_outcomes_at_close()?;
        match self.catalog.give_back_numbers() {
            // The numbers stay taken. The checkpoint frees space.
            Err(Error::DiskFull(_)) => {}
            given_back => given_back?,
        }
        self.note_all_garbage()?;
        match self.txns.seal() {
            Err(running @ Error::Invalid(_)) => {
                self.wal.flush(self.wal.end())?;
                Err(running)
            }
            sealed => sealed.and_then(|()| self.checkpoint(CheckpointCause::Asked, true)),
        }
    }

    fn stop_threads(&self) {
        self.upkeep.closed.store(true, Ordering::Release);
        self.upkeep.idle.shut_down();
        let threads = std::mem::take(&mut *self.upkeep.threads.lock());
        for thread in threads {
            if let Err(panicked) = thread.join() {
                self.env.logger.error(&format!("a background thread panicked: {panicked:?}"));
            }
        }
    }
}
