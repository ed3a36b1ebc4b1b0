//! Sequences: their definitions, and the numbers that they hand out.
//!
//! Invariants: definitions are transactional like rows. Numbers are not: each is handed out once,
//! even if a transaction rolls back. A transaction that draws [`Numbers`] holds the sequence until
//! it ends and has an xid, so that its commit follows the record of every run of numbers it used.
//! Does not do: numbers of columns that inserts fill in (`fill`).

use rightlink_env::sync::Arc;

pub use crate::catalog::RedefineSequence;
use crate::db::define::SequenceSchema;
use crate::db::info::{SequenceDefinition, SequenceInfo, SequenceOwner};
use crate::db::transaction::Transaction;
use crate::db::{Database, Handle};
use crate::error::Result;
use crate::table::sequence::{Sequence, SequencePosition};

/// One change of a sequence: see [`Transaction::alter_sequence`].
///
/// ```
/// use rightlink::{SequenceChange, SequenceDefinition, SequencePosition, SequenceSchema};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// txn.create_sequence(&SequenceSchema::new("turns"))?;
/// assert_eq!(txn.next_value("turns")?, 1);
/// let mut two = |known: &SequenceDefinition, at: SequencePosition| {
///     Ok((known.schema.clone().max(2).cycle(), at))
/// };
/// txn.alter_sequence("turns", SequenceChange::Redefine(&mut two))?;
/// assert_eq!([txn.next_value("turns")?, txn.next_value("turns")?], [2, 1]);
/// txn.alter_sequence("turns", SequenceChange::Restart(Some(2)))?;
/// txn.alter_sequence("turns", SequenceChange::Rename("halves"))?;
/// assert_eq!(txn.next_value("halves")?, 2);
/// # Ok(())
/// # }
/// ```
#[non_exhaustive]
pub enum SequenceChange<'c> {
    /// Gives the sequence another name. It goes on where it was. Fails with `AlreadyExists` if
    /// something has the name.
    Rename(&'c str),
    /// Lets the sequence go on with this number; `None`: with its first one.
    Restart(Option<i64>),
    /// Changes its definition and position together. It keeps its name, and other transactions draw
    /// no numbers in between.
    ///
    /// Fails with the errors of the closure, and with `Invalid` for a position that the new
    /// definition does not have and for numbers that the sequence's column cannot hold.
    Redefine(RedefineSequence<'c>),
}

/// A sequence that a transaction holds: made by [`Transaction::numbers`].
///
/// ```
/// use rightlink::{Numbers, SequenceSchema};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// txn.create_sequence(&SequenceSchema::new("tickets"))?;
/// let tickets: Numbers = txn.numbers("tickets")?;
/// tickets.restart(100)?;
/// assert_eq!(tickets.draw()?, 100);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Numbers {
    handle: Arc<Handle>,
    id: u32,
    schema: SequenceSchema,
    sequence: Arc<Sequence>,
}

impl Transaction {
    /// Creates a sequence that belongs to no column.
    ///
    /// # Errors
    /// `AlreadyExists` for a name that a table, index or sequence has, `Invalid` for a first number
    /// outside the bounds and a step of 0.
    pub fn create_sequence(&mut self, schema: &SequenceSchema) -> Result<()> {
        self.define(|ddl| ddl.create_sequence(schema))
    }

    /// Changes a sequence, also one of a generated column. Like other definitions, the change is
    /// there for others when this transaction commits, and is undone if it rolls back. Others who
    /// use the sequence, or the table that it belongs to, wait.
    ///
    /// [`Numbers::restart`] restarts a sequence at once, without waiting.
    ///
    /// # Errors
    /// `NotFound` if there is no such sequence, and those of [`SequenceChange`].
    pub fn alter_sequence(&mut self, sequence: &str, mut change: SequenceChange<'_>) -> Result<()> {
        // Before the statement begins: it would not see what others change while it waits.
        let handle = Arc::clone(&self.handle);
        handle.engine.catalog.lock_sequence(self.running()?, sequence)?;
        let mut altered = |known: &SequenceDefinition, at| {
            let schema = known.schema.clone();
            Ok(match &mut change {
                SequenceChange::Rename(to) => {
                    (SequenceSchema { name: (*to).to_owned(), ..schema }, at)
                }
                SequenceChange::Restart(next) => {
                    let value = next.unwrap_or(schema.start);
                    (schema, SequencePosition { value, drawn: false })
                }
                SequenceChange::Redefine(redefine) => {
                    let (new, at) = redefine(known, at)?;
                    (SequenceSchema { name: schema.name, ..new }, at)
                }
            })
        };
        self.define(|ddl| ddl.alter_sequence(sequence, &mut altered))
    }

    /// Drops a sequence that belongs to no column.
    ///
    /// # Errors
    /// `NotFound` if there is no such sequence, `Invalid` if a column has it.
    pub fn drop_sequence(&mut self, name: &str) -> Result<()> {
        self.define_freeing(|ddl| ddl.drop_sequence(name))
    }

    /// The next number of a sequence, also of a generated column's. It is not handed out again,
    /// even if this transaction rolls back; a crash may take numbers that only transactions without
    /// a commit have got.
    ///
    /// # Errors
    /// `Limit` when there is none left.
    pub fn next_value(&mut self, sequence: &str) -> Result<i64> {
        let handle = Arc::clone(&self.handle);
        self.admit()?;
        let txn = self.running()?;
        let numbers = handle.engine.catalog.sequence(txn, sequence)?.take(txn, 1)?;
        Ok(numbers[0])
    }

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
        let (def, sequence) = handle.engine.catalog.defined_sequence(txn, sequence)?;
        txn.xid()?;
        Ok(Numbers { handle, id: def.id.0, schema: def.schema, sequence })
    }
}

impl Numbers {
    /// The next number, as of [`Transaction::next_value`].
    ///
    /// # Errors
    /// `Limit` when there is none left.
    pub fn draw(&self) -> Result<i64> {
        self.handle.engine.check_open()?;
        Ok(self.sequence.take_with_xid(1)?[0])
    }

    /// Lets the sequence go on with `next`, at once and for all transactions, even if this one
    /// rolls back: for rows that brought their own numbers.
    ///
    /// # Errors
    /// `Invalid` for a number outside the bounds of the sequence.
    pub fn restart(&self, next: i64) -> Result<()> {
        self.set(SequencePosition { value: next, drawn: false })
    }

    /// Lets it go on from `at`, like [`Numbers::restart`].
    pub fn set(&self, at: SequencePosition) -> Result<()> {
        self.handle.engine.check_open()?;
        self.sequence.set_with_xid(at)
    }

    /// Number of the sequence, which a new name does not change: [`SequenceDefinition::id`].
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Definition that the sequence had when the transaction took hold of it.
    pub fn schema(&self) -> SequenceSchema {
        self.schema.clone()
    }
}

impl Database {
    /// All committed sequences, sorted by name, also the sequences of columns.
    pub fn sequences(&self) -> Result<Vec<SequenceInfo>> {
        let engine = self.engine();
        engine.check_open()?;
        let free = engine.catalog.free_sequences()?;
        let mut found: Vec<_> = free.into_iter().map(|def| (def, None)).collect();
        for def in engine.catalog.definitions()? {
            for column in &def.columns {
                let Some(identity) = &column.identity else { continue };
                let (table, column, kind) = (def.name.clone(), column.name.clone(), column.ty);
                let owner = Some(SequenceOwner { table, column, kind });
                found.push((identity.sequence.clone(), owner));
            }
        }
        let mut infos = Vec::with_capacity(found.len());
        for (def, owner) in found {
            let reserved_to = engine.catalog.open_sequence(&def)?.stored()?.next;
            infos.push(SequenceInfo { schema: def.schema, owner, reserved_to });
        }
        infos.sort_by(|a, b| a.schema.name.cmp(&b.schema.name));
        Ok(infos)
    }
}
