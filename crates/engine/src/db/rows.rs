//! Rows of a scan, handed out one by one.
//!
//! Invariants:
//! - The scan is owned and `Send`, and holds no latch and no pin between two rows.
//! - Rows are of the snapshot of their statement, whatever happens meanwhile. If that became too
//!   old, its error comes in place of whatever was read by it since.
//! - The scan ends with its transaction, and with a savepoint that it began after, if the
//!   transaction returns to that.
//! - After an error the same error comes again, so that no row is skipped silently.
//!
//! Does not do: choosing the index.

use rightlink_env::Budget;
use rightlink_env::sync::{Arc, AtomicBool, Ordering, RwLock};

use crate::buffer::StreamStats;
use crate::db::Row;
use crate::error::{Error, Result};
use crate::table::{Mark, RowVisitor, Scan};
use crate::txn::Snapshot;

/// Whether a transaction still stands by what a scan of it reads.
#[derive(Clone)]
pub(crate) struct Alive {
    /// Is the transaction still running? Readers hold it shared while they read a row.
    running: Arc<RwLock<bool>>,
    /// Has the transaction returned to a savepoint that was set before the scan began? `None`:
    /// there was none.
    undone: Option<Arc<AtomicBool>>,
}

impl Alive {
    /// Of the transaction that this says is running.
    pub(crate) fn new(running: &Arc<RwLock<bool>>, undone: Option<&Arc<AtomicBool>>) -> Self {
        Self { running: Arc::clone(running), undone: undone.map(Arc::clone) }
    }

    /// Runs `read` while the transaction cannot end; `what` is read.
    pub(crate) fn reading<T>(&self, what: &str, read: impl FnOnce() -> Result<T>) -> Result<T> {
        let running = self.running.read();
        if !*running {
            return Err(Error::Invalid(format!("{what} does not outlive its transaction")));
        }
        self.check_savepoint(what)?;
        let done = read();
        // Another thread may have returned to the savepoint meanwhile.
        self.check_savepoint(what)?;
        done
    }

    /// Fails once the transaction has returned to a savepoint from before.
    pub(crate) fn check_savepoint(&self, what: &str) -> Result<()> {
        match &self.undone {
            Some(undone) if undone.load(Ordering::SeqCst) => Err(Error::Invalid(format!(
                "{what} ended when its transaction returned to a savepoint from before"
            ))),
            _ => Ok(()),
        }
    }
}

/// The scans that began after a savepoint, so that they end when the transaction returns to it.
#[derive(Default)]
pub(crate) struct Scans {
    /// Those that began while it was the last one; `None`: none did.
    undone: Option<Arc<AtomicBool>>,
    /// Those that began after later ones, which were released.
    released: Vec<Arc<AtomicBool>>,
}

impl Scans {
    /// What tells a scan that begins now.
    pub(crate) fn undone(&mut self) -> &Arc<AtomicBool> {
        self.undone.get_or_insert_default()
    }

    /// They end.
    pub(crate) fn end(&self) {
        let all = self.released.iter().chain(&self.undone);
        all.for_each(|undone| undone.store(true, Ordering::SeqCst));
    }

    /// A later savepoint is released: its scans are this one's from here on.
    pub(crate) fn take_over(&mut self, later: Scans) {
        self.released.extend(later.released);
        self.released.extend(later.undone);
        // A scan that is over needs no telling.
        self.released.retain(|undone| Arc::strong_count(undone) > 1);
    }
}

/// What these are, for messages.
const SCAN: &str = "a scan";

/// Rows of a scan: an owned, `Send` iterator over the snapshot of its statement. After an error it
/// keeps returning that error. After the end of its transaction it returns `Invalid`, and so it
/// does after a return to a savepoint that was set before the scan began, whether or not anything
/// was written since. A scan that began before the savepoint goes on as if nothing had happened.
///
/// ```
/// use rightlink::{Rows, ScanOptions, TableSchema, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// let row = |a, b| vec![Value::Int8(a), Value::Int8(b)];
/// txn.insert_many("n", &[row(1, 5), row(2, 6)])?;
/// let rows: Rows = txn.scan("n", &ScanOptions::index("n_pkey").backward())?;
/// let rows: Vec<_> = rows.collect::<rightlink::Result<_>>()?;
/// assert_eq!((rows.len(), &rows[0].values), (2, &row(2, 6)));
/// # Ok(())
/// # }
/// ```
pub struct Rows {
    alive: Alive,
    scan: Option<Scan>,
    snapshot: Arc<Snapshot>,
    failed: Option<Error>,
    budget: Budget,
}

impl Rows {
    /// Rows of `scan`, as long as the transaction runs.
    pub(crate) fn new(
        alive: &Alive,
        snapshot: &Arc<Snapshot>,
        scan: Scan,
        budget: &Budget,
    ) -> Self {
        Self {
            alive: alive.clone(),
            scan: Some(scan),
            snapshot: Arc::clone(snapshot),
            failed: None,
            budget: budget.clone(),
        }
    }

    /// Whether its transaction still stands by it.
    pub(crate) fn alive(&self) -> &Alive {
        &self.alive
    }

    /// The memory budget of the database.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Counters of its read streams so far.
    pub fn stats(&self) -> StreamStats {
        self.scan.as_ref().map_or_else(StreamStats::default, Scan::stats)
    }

    /// Position of the scan: after the row that it returned last.
    ///
    /// # Errors
    /// `Invalid` unless the scan goes through an index in its order.
    pub fn mark(&mut self) -> Result<Mark> {
        self.running()?.mark()
    }

    /// Goes on after the row at which `mark` was taken. The mark is one of this scan.
    ///
    /// # Errors
    /// `Invalid`, as for [`Rows::mark`].
    pub fn restore(&mut self, mark: &Mark) -> Result<()> {
        self.running()?.restore(mark)
    }

    /// Turns the scan round. The next row is the one before the row that was returned last. After
    /// the end of the scan it is that last row.
    ///
    /// # Errors
    /// `Invalid`, as for [`Rows::mark`].
    pub fn turn(&mut self) -> Result<()> {
        self.running()?.turn()
    }

    fn running(&mut self) -> Result<&mut Scan> {
        self.alive.check_savepoint(SCAN)?;
        match (&mut self.scan, &self.failed) {
            (Some(scan), _) => Ok(scan),
            (None, Some(error)) => Err(error.clone()),
            (None, None) => Err(Error::Invalid("the scan has ended".into())),
        }
    }

    /// Hands the next rows to `visitor` until it wants no more ([`RowVisitor`]). Returns their
    /// number, 0 at the end. For many rows this is cheaper than to take them one by one.
    ///
    /// # Errors
    /// As for the next row. Values that the visitor took in the failed call must not be used.
    pub fn visit(&mut self, visitor: &mut impl RowVisitor) -> Result<u64> {
        self.read(|scan| scan.visit(visitor))
    }

    /// Reads from the scan, if it has not ended.
    fn read<T: Default>(&mut self, read: impl FnOnce(&mut Scan) -> Result<T>) -> Result<T> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let Self { alive, scan, snapshot, .. } = self;
        let Some(scan) = scan else { return Ok(T::default()) };
        let result = alive.reading(SCAN, || {
            let done = read(scan);
            snapshot.check()?;
            done
        });
        if let Err(error) = &result {
            self.failed = Some(error.clone());
            self.scan = None;
        }
        result
    }
}

impl Iterator for Rows {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.read(Scan::next).transpose()?;
        Some(row.map(|row| Row { id: row.row_id, values: row.values }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_can_be_sent_to_another_thread() {
        fn sendable<T: Send + 'static>() {}
        sendable::<Rows>();
    }
}
