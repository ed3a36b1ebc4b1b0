//! Rows of a scan, handed out one by one.
//!
//! Invariants: owned and `Send`; rows are of the snapshot of their statement, whatever happens
//! meanwhile; the scan ends with its transaction, and when what it saw of that is undone; between
//! two rows it holds no latch and no pin; after an error the same error comes again, so that no row
//! is ever skipped silently. A snapshot that became too old shows instead of whatever was read by
//! it since.
//! Does not do: choosing the index.

use rightlink_env::Budget;
use rightlink_env::sync::{Arc, RwLock};

use crate::buffer::StreamStats;
use crate::db::Row;
use crate::error::{Error, Result};
use crate::ids::Xid;
use crate::table::{Mark, Scan};
use crate::txn::Snapshot;

/// Is the transaction still running? Readers hold it shared while they read a row.
pub(crate) type Alive = Arc<RwLock<bool>>;

/// Rows of a scan: an owned, `Send` iterator over the snapshot of its statement. After an error it
/// keeps returning that error; after the end of its transaction it returns `Invalid`, and so it
/// does after a return to a savepoint that was set before the scan began, if anything was written
/// between the two: part of what it saw is gone then, and rows that it went past are back.
pub struct Rows {
    alive: Alive,
    scan: Option<Scan>,
    snapshot: Arc<Snapshot>,
    /// The newest statement of its own transaction that it sees.
    newest: Option<Xid>,
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
            alive: Arc::clone(alive),
            scan: Some(scan),
            snapshot: Arc::clone(snapshot),
            newest: snapshot.newest_own(),
            failed: None,
            budget: budget.clone(),
        }
    }

    /// The memory budget of the database.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// What its read streams did so far.
    pub fn stats(&self) -> StreamStats {
        self.scan.as_ref().map_or_else(StreamStats::default, Scan::stats)
    }

    /// Where the scan is: after the row that it handed out last.
    ///
    /// # Errors
    /// `Invalid` unless the scan goes through an index in its order; so for the others.
    pub fn mark(&mut self) -> Result<Mark> {
        self.running()?.mark()
    }

    /// Goes on after the row at which `mark`, one of this scan's, was taken.
    pub fn restore(&mut self, mark: &Mark) -> Result<()> {
        self.running()?.restore(mark)
    }

    /// From now on the other way: first the row before the one that was handed out last, or after
    /// the end that last one.
    pub fn turn(&mut self) -> Result<()> {
        self.running()?.turn()
    }

    fn running(&mut self) -> Result<&mut Scan> {
        match (&mut self.scan, &self.failed) {
            (Some(scan), _) => Ok(scan),
            (None, Some(error)) => Err(error.clone()),
            (None, None) => Err(Error::Invalid("the scan has ended".into())),
        }
    }

    fn advance(&mut self) -> Result<Option<Row>> {
        let alive = self.alive.read();
        if !*alive {
            return Err(Error::Invalid("a scan does not outlive its transaction".into()));
        }
        let Some(scan) = &mut self.scan else { return Ok(None) };
        let row = scan.next();
        self.snapshot.check()?;
        if self.newest.is_some_and(|xid| self.snapshot.is_undone(xid)) {
            return Err(Error::Invalid(
                "the scan saw what its transaction has undone since".into(),
            ));
        }
        let row = row?;
        Ok(row.map(|row| Row { id: row.row_id, values: row.values }))
    }
}

impl Iterator for Rows {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = &self.failed {
            return Some(Err(error.clone()));
        }
        let result = self.advance();
        if let Err(error) = &result {
            self.failed = Some(error.clone());
            self.scan = None;
        }
        result.transpose()
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
