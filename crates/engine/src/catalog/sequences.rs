//! Sequences: those of columns, which belong to their table, and those that stand by themselves.
//!
//! Invariants: an open sequence exists once, so that each number is drawn once. A transaction that
//! draws numbers of a sequence by itself holds its lock, which dropping it takes exclusively.
//! Does not do: numbers (`table::sequence`), changes (`ddl`).

use rightlink_env::sync::Arc;

use crate::catalog::bootstrap::Kind;
use crate::catalog::rows::{Object, StoredObject, damage};
use crate::catalog::{Catalog, codec};
use crate::datum::Type;
use crate::error::{Error, Result};
use crate::ids::{FileId, ObjectId};
use crate::table::schema::{SequenceDef, SequenceSchema};
use crate::table::sequence::Sequence;
use crate::txn::{Isolation, LockMode, Transaction};

/// A sequence as a transaction sees it: see [`Catalog::sequences`].
///
/// ```
/// use rightlink::{ColumnSchema, TableSchema, Type};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// let id = ColumnSchema::new("id", Type::Int8).generated();
/// txn.create_table(&TableSchema::new("note").with_column(id))?;
/// let sequence = &txn.catalog().sequences()?[0];
/// assert_eq!((sequence.schema.name.as_str(), sequence.schema.start), ("note_id_seq", 1));
/// let owner = sequence.owner.as_ref().expect("it belongs to a column");
/// assert_eq!((owner.table.as_str(), owner.column.as_str()), ("note", "id"));
/// # Ok(())
/// # }
/// ```
///
/// [`Catalog::sequences`]: crate::Catalog::sequences
#[derive(Clone, Debug, PartialEq)]
pub struct SequenceDefinition {
    /// Number of the sequence, which no other table, index or sequence ever has.
    pub id: u32,
    /// Name, bounds and step of the sequence.
    pub schema: SequenceSchema,
    /// Column that the sequence belongs to. `None`: it stands by itself.
    pub owner: Option<SequenceOwner>,
}

/// The column that a sequence belongs to. The example of [`SequenceDefinition`] reads one.
#[derive(Clone, Debug, PartialEq)]
pub struct SequenceOwner {
    /// Name of the table.
    pub table: String,
    /// Name of the column.
    pub column: String,
    /// Type of the column.
    pub kind: Type,
}

/// The column that a sequence belongs to, looked for among all objects.
fn owner_of(sequence: &Object, objects: &[Object]) -> Result<Option<SequenceOwner>> {
    if sequence.parent == ObjectId(0) {
        return Ok(None);
    }
    let lost = || damage(&sequence.name, "a sequence of no column");
    let table = objects.iter().find(|object| object.id == sequence.parent).ok_or_else(lost)?;
    let is_it = |object: &&Object| {
        object.kind == Kind::Column
            && object.parent == sequence.parent
            && object.position == sequence.position
    };
    let object = objects.iter().find(is_it).ok_or_else(lost)?;
    let column = codec::decode_column(&object.name, &object.definition);
    let column = column.map_err(|what| damage(&object.name, what))?;
    Ok(Some(SequenceOwner { table: table.name.clone(), column: column.name, kind: column.ty }))
}

impl Catalog {
    /// Keeps others from a sequence, or the table that it belongs to, until the transaction ends.
    pub fn lock_sequence(&self, txn: &mut Transaction, name: &str) -> Result<()> {
        self.find_sequence(txn, name, LockMode::Exclusive).map(drop)
    }

    /// All sequences that `txn` sees, by name. Others may change or drop them meanwhile.
    pub fn sequences(&self, txn: &Transaction) -> Result<Vec<SequenceDefinition>> {
        let objects = self.store.all(&txn.latest_snapshot())?;
        let mut found = Vec::new();
        for object in objects.iter().filter(|object| object.kind == Kind::Sequence) {
            let (def, owner) = (object.to_sequence()?, owner_of(object, &objects)?);
            found.push(SequenceDefinition { id: def.id.0, schema: def.schema, owner });
        }
        found.sort_by(|a, b| a.schema.name.cmp(&b.schema.name));
        Ok(found)
    }

    /// The sequence called `name`, which stays until the transaction ends.
    pub fn sequence(&self, txn: &mut Transaction, name: &str) -> Result<Arc<Sequence>> {
        self.defined_sequence(txn, name).map(|(_, sequence)| sequence)
    }

    /// The same, and its definition as it is now.
    pub fn defined_sequence(
        &self,
        txn: &mut Transaction,
        name: &str,
    ) -> Result<(SequenceDef, Arc<Sequence>)> {
        let def = self.find_sequence(txn, name, LockMode::Access)?.object.to_sequence()?;
        let sequence = self.open_sequence(&def)?;
        Ok((def, sequence))
    }

    /// The open sequence of a definition, whose owner the caller has locked.
    pub fn open_sequence(&self, def: &SequenceDef) -> Result<Arc<Sequence>> {
        let mut known = self.sequences.lock();
        if let Some(sequence) = known.get(&def.file) {
            return Ok(Arc::clone(sequence));
        }
        let sequence = Sequence::open(&self.pool, def)?;
        known.insert(def.file, Arc::clone(&sequence));
        Ok(sequence)
    }

    /// Remembers a sequence that was just made.
    pub(super) fn keep(&self, sequence: Arc<Sequence>) {
        let before = self.sequences.lock().insert(sequence.file(), sequence);
        assert!(before.is_none(), "a file number is handed out once");
    }

    pub(super) fn forget_sequence(&self, file: FileId) {
        self.sequences.lock().remove(&file);
    }

    /// Gives back what is reserved and was not taken, before a clean close.
    pub fn give_back_numbers(&self) -> Result<()> {
        let known: Vec<_> = self.sequences.lock().values().cloned().collect();
        known.iter().try_for_each(|sequence| sequence.give_back())
    }

    /// The committed sequences that stand by themselves, by name.
    pub fn free_sequences(&self) -> Result<Vec<SequenceDef>> {
        let txn = self.txns.begin(Isolation::ReadCommitted);
        let sequences = self.store.of_kind(&txn.latest_snapshot(), Kind::Sequence)?;
        sequences.iter().filter(|one| one.is_free_sequence()).map(Object::to_sequence).collect()
    }

    /// Finds a sequence and locks what it belongs to.
    pub(super) fn find_sequence(
        &self,
        txn: &mut Transaction,
        name: &str,
        mode: LockMode,
    ) -> Result<StoredObject> {
        let missing = || Error::NotFound(format!("sequence {name}"));
        let find = |txn: &Transaction| {
            let found = self.store.relation(&txn.latest_snapshot(), name)?;
            found.filter(|found| found.object.kind == Kind::Sequence).ok_or_else(missing)
        };
        loop {
            let seen = find(txn)?.object;
            let owner = if seen.parent == ObjectId(0) { seen.id } else { seen.parent };
            txn.lock_table(owner, mode)?;
            // The former lock holder may have dropped it, and another may have the name.
            let found = find(txn)?;
            if found.object.id == seen.id {
                return Ok(found);
            }
        }
    }
}
