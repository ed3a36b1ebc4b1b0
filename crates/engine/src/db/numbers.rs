//! Sequences in the hand of a statement that draws numbers while it does something else.
//!
//! Invariants: the transaction holds the sequence until it ends, and has an xid, so that its commit
//! follows the record of every run of numbers that it used. Does not do: numbers of columns that
//! inserts fill in (`fill`).

use rightlink_env::sync::Arc;

use crate::db::Handle;
use crate::db::define::SequenceSchema;
use crate::db::info::SequenceDefinition;
use crate::db::transaction::Transaction;
use crate::error::Result;
use crate::table::sequence::{Sequence, SequencePosition};

/// What becomes of a sequence, from what it is and where: see
/// [`Transaction::alter_sequence`].
pub type SequenceChange<'c> = &'c mut dyn FnMut(
    &SequenceDefinition,
    SequencePosition,
) -> Result<(SequenceSchema, SequencePosition)>;

/// A sequence that a transaction holds. See [`Transaction::numbers`].
#[derive(Clone)]
pub struct Numbers {
    handle: Arc<Handle>,
    id: u32,
    sequence: Arc<Sequence>,
}

impl Transaction {
    /// The sequence called `sequence`, also of a generated column, to draw numbers of while this
    /// transaction runs and is busy with a scan or [`Transaction::write`].
    ///
    /// ```
    /// # use rightlink::{Database, SequenceSchema};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Database::open(dir.path()).unwrap();
    /// let mut txn = db.begin();
    /// txn.create_sequence(&SequenceSchema::new("tickets")).unwrap();
    /// let tickets = txn.numbers("tickets").unwrap();
    /// assert_eq!((tickets.draw().unwrap(), tickets.draw().unwrap()), (1, 2));
    /// ```
    pub fn numbers(&mut self, sequence: &str) -> Result<Numbers> {
        let handle = Arc::clone(&self.handle);
        self.admit()?;
        let txn = self.running()?;
        let (id, sequence) = handle.engine.catalog.numbered_sequence(txn, sequence)?;
        txn.xid()?;
        Ok(Numbers { handle, id: id.0, sequence })
    }
}

impl Numbers {
    /// The next number: see [`Transaction::next_value`].
    ///
    /// # Errors
    /// `Limit` when there is none left.
    pub fn draw(&self) -> Result<i64> {
        self.handle.engine.check_open()?;
        Ok(self.sequence.take_with_xid(1)?[0])
    }

    /// Lets it go on with `next`: see [`Transaction::restart_sequence`].
    pub fn restart(&self, next: i64) -> Result<()> {
        self.set(SequencePosition { value: next, drawn: false })
    }

    /// Lets it go on from `at`, like [`Numbers::restart`].
    pub fn set(&self, at: SequencePosition) -> Result<()> {
        self.handle.engine.check_open()?;
        self.sequence.set_with_xid(at)
    }

    /// The number that it has under whatever name, as in [`SequenceDefinition`].
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its definition.
    pub fn schema(&self) -> SequenceSchema {
        self.sequence.def().clone().into()
    }
}
