//! Rows of a scan for asynchronous callers: polled, never waiting.
//!
//! A thread of the cursor's own runs the scan ahead of its reader into a bounded queue, and wakes
//! the reader when a row is there. No runtime is asked for: any that polls will do.
//!
//! Invariants:
//! - Rows, order and errors are those of the [`Rows`] that the cursor was made of. Rows that were
//!   read ahead end with their savepoint, too. A scan that panics ends with an error.
//! - Memory for the queue was reserved when the cursor was made.
//! - The thread ends soon after the cursor does, or after the transaction, unless it waits for
//!   space in the queue then.
//! - Wakers are called with nothing locked.
//!
//! Does not do: writes, which may wait for other transactions: a runtime has a place for those.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use rightlink_env::sync::{Arc, Condvar, Mutex};
use rightlink_env::{Reservation, thread};

use crate::datum::Value;
use crate::db::Row;
use crate::db::rows::{Alive, Rows};
use crate::error::{Error, Result};

/// Bytes of rows that are read ahead of the reader, the last row not counted.
const READ_AHEAD: usize = 64 * 1024;

/// Rows of a scan that are polled: [`Rows::into_cursor`] makes one.
///
/// ```
/// use rightlink::{Cursor, Result, ScanOptions, Transaction};
///
/// async fn count(txn: &mut Transaction) -> Result<u64> {
///     let mut cursor: Cursor = txn.scan("flights", &ScanOptions::all())?.into_cursor()?;
///     let mut rows = 0;
///     while let Some(row) = cursor.next().await {
///         row?;
///         rows += 1;
///     }
///     Ok(rows)
/// }
/// ```
pub struct Cursor {
    shared: Arc<Shared>,
    /// Whether its transaction still stands by its rows; none once that was told.
    alive: Option<Alive>,
    _memory: Reservation,
}

struct Shared {
    state: Mutex<State>,
    /// Told when rows were taken, or the cursor is gone.
    taken: Condvar,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Result<Row>>,
    bytes: usize,
    reader: Option<Waker>,
    /// No row comes after those that are ready.
    ended: bool,
    abandoned: bool,
}

impl Rows {
    /// These rows for an asynchronous caller. Takes 64 KiB of the memory budget and a thread.
    ///
    /// # Errors
    /// `OutOfMemory` when the budget or the system has none left.
    pub fn into_cursor(self) -> Result<Cursor> {
        let full =
            || Error::OutOfMemory(format!("the memory budget has no {READ_AHEAD} bytes left"));
        let memory = self.budget().try_reserve(READ_AHEAD).ok_or_else(full)?;
        let shared =
            Arc::new(Shared { state: Mutex::new(State::default()), taken: Condvar::new() });
        let (ours, alive) = (Arc::clone(&shared), Some(self.alive().clone()));
        let refused = |error| Error::OutOfMemory(format!("no thread for a cursor: {error}"));
        thread::try_spawn("rightlink-cursor", move || ours.fill(self)).map_err(refused)?;
        Ok(Cursor { shared, alive, _memory: memory })
    }
}

impl Shared {
    /// Hands over all rows, as the reader takes them.
    fn fill(&self, rows: Rows) {
        let _ending = Ending(self);
        for row in rows {
            let failed = row.is_err();
            if !self.hand_over(row) || failed {
                break;
            }
        }
    }

    /// Waits for room; false when nobody reads any more.
    fn hand_over(&self, row: Result<Row>) -> bool {
        let mut state = self.state.lock();
        while state.bytes >= READ_AHEAD && !state.abandoned {
            state = self.taken.wait(state);
        }
        if state.abandoned {
            return false;
        }
        state.push(row);
        let reader = state.reader.take();
        drop(state);
        wake(reader);
        true
    }
}

/// Tells the reader that no more comes, whatever ends the thread.
struct Ending<'s>(&'s Shared);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if thread::panicking() {
            // Without it, what came so far would pass for all.
            state.push(Err(Error::Invalid("the scan of a cursor panicked".into())));
        }
        state.ended = true;
        let reader = state.reader.take();
        drop(state);
        wake(reader);
    }
}

impl State {
    /// Nobody takes rows any more.
    fn abandon(&mut self) {
        (self.abandoned, self.ended, self.bytes) = (true, true, 0);
        self.ready.clear();
    }

    fn push(&mut self, row: Result<Row>) {
        self.bytes += weight(&row);
        self.ready.push_back(row);
    }
}

/// Wakes who polls: code of somebody else's, which may poll or drop the cursor at once.
fn wake(reader: Option<Waker>) {
    if let Some(reader) = reader {
        reader.wake();
    }
}

fn weight(row: &Result<Row>) -> usize {
    let values = row.as_ref().map_or(&[][..], |row| &row.values);
    let behind = values.iter().map(Value::heap_bytes).sum::<usize>();
    size_of::<Result<Row>>() + size_of_val(values) + behind
}

impl Cursor {
    /// The next row, if it is there; `Ready(None)` after the last one and after an error. Otherwise
    /// the context's waker is woken when a row may be there. The errors of [`Rows`].
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Row>>> {
        let mut state = self.shared.state.lock();
        if let Some(alive) = &self.alive
            && let Err(undone) = alive.check_savepoint("a cursor")
        {
            // What was read ahead is undone with the savepoint.
            state.abandon();
            self.shared.taken.notify_one();
            self.alive = None;
            return Poll::Ready(Some(Err(undone)));
        }
        if let Some(row) = state.ready.pop_front() {
            state.bytes -= weight(&row);
            // Not for every row: the thread goes on when there is work for a while.
            if state.bytes <= READ_AHEAD / 2 {
                self.shared.taken.notify_one();
            }
            return Poll::Ready(Some(row));
        }
        if state.ended {
            return Poll::Ready(None);
        }
        state.reader = Some(context.waker().clone());
        Poll::Pending
    }

    /// Waits for the next row; `None` after the last one and after an error. Nothing is lost when
    /// the future is dropped.
    pub async fn next(&mut self) -> Option<Result<Row>> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.shared.state.lock().abandon();
        self.shared.taken.notify_one();
    }
}
