//! Sequences: those of columns, which belong to their table, and those that stand by themselves.
//!
//! Invariants: an open sequence exists once, so that no number is in two hands; whoever takes
//! numbers of one that stands by itself holds its lock, which dropping it takes exclusively.
//! Does not do: numbers (`table::sequence`).

use rightlink_env::sync::Arc;

use crate::catalog::bootstrap::Kind;
use crate::catalog::rewrite::sequence_object;
use crate::catalog::rows::{Object, damage};
use crate::catalog::{Catalog, Changes, codec};
use crate::datum::Type;
use crate::error::{Error, Result};
use crate::ids::{FileId, ObjectId, RowId};
use crate::table::Statement;
use crate::table::schema::{Column, ColumnNo, SequenceDef};
use crate::table::sequence::{Sequence, SequencePosition};
use crate::txn::{Isolation, LockMode, Transaction};

/// A sequence in the catalog.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredSequence {
    /// Its number in the catalog.
    pub id: ObjectId,
    /// Its file.
    pub file: FileId,
    /// Its definition.
    pub def: SequenceDef,
}

/// A sequence as a transaction sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundSequence {
    /// The sequence.
    pub stored: StoredSequence,
    /// The table and column that it belongs to, and the column's type.
    pub owner: Option<(String, String, Type)>,
}

/// What becomes of a sequence that is somewhere.
pub(crate) type ChangeSequence<'c> =
    &'c mut dyn FnMut(&FoundSequence, SequencePosition) -> Result<(SequenceDef, SequencePosition)>;

/// Do both hand out the same numbers, under the same name?
fn same_numbers(a: &SequenceDef, b: &SequenceDef) -> bool {
    let plain = |def: &SequenceDef| SequenceDef { note: String::new(), ..def.clone() };
    plain(a) == plain(b)
}

/// What the sequence belongs to, looked for among all objects.
fn owner_of(sequence: &Object, objects: &[Object]) -> Result<Option<(String, String, Type)>> {
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
    Ok(Some((table.name.clone(), column.name, column.ty)))
}

impl Catalog {
    /// Creates a sequence of no table.
    pub fn create_sequence(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        def: &SequenceDef,
    ) -> Result<()> {
        def.validate()?;
        let (id, file) = (self.new_object(), self.new_files(1));
        let object = Object::sequence(id, (ObjectId(0), 0), file, def);
        self.store.insert(statement, &[object])?;
        changes.set_sequence(file, true);
        statement.txn().lock_table(id, LockMode::Exclusive)?;
        self.keep(Sequence::create(&self.pool, file, def)?);
        Ok(())
    }

    /// Drops a sequence of no table.
    pub fn drop_sequence(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        name: &str,
    ) -> Result<()> {
        let (row, object) = self.find_sequence(statement.txn(), name, LockMode::Exclusive)?;
        if object.parent != ObjectId(0) {
            let what = format!("sequence {name} belongs to a column and goes with it");
            return Err(Error::Invalid(what));
        }
        let (file, _) = object.to_sequence()?;
        self.store.delete(statement, &(row, object))?;
        changes.set_sequence(file, false);
        Ok(())
    }

    /// Keeps others from a sequence, or the table that it belongs to, until the transaction ends.
    pub fn lock_sequence(&self, txn: &mut Transaction, name: &str) -> Result<()> {
        self.find_sequence(txn, name, LockMode::Exclusive).map(drop)
    }

    /// Lets `change` say what a sequence is and where, from what it was: in a file of its own
    /// unless neither its numbers nor its place are others, as the old one stays if this is undone.
    /// The statement began under the sequence's lock.
    pub fn alter_sequence(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        (name, change): (&str, ChangeSequence<'_>),
    ) -> Result<()> {
        let (row, object) = self.find_sequence(statement.txn(), name, LockMode::Exclusive)?;
        if object.parent != ObjectId(0) {
            let snapshot = statement.txn().latest_snapshot();
            let table = self.store.object(&snapshot, object.parent)?.1.name;
            return self.alter_owned(statement, changes, (&table, object.id), change);
        }
        let (old, def) = object.to_sequence()?;
        let position = self.open_sequence(old, &def)?.position()?;
        let stored = StoredSequence { id: object.id, file: old, def };
        let found = FoundSequence { stored, owner: None };
        let (def, at) = change(&found, position)?;
        def.validate()?;
        let mut file = old;
        if at != position || !same_numbers(&def, &found.stored.def) {
            file = self.new_files(1);
            changes.set_sequence(file, true);
            let sequence = Sequence::create(&self.pool, file, &def)?;
            self.keep(Arc::clone(&sequence));
            sequence.set(statement.txn(), at)?;
        }
        let object = Object::sequence(object.id, (ObjectId(0), 0), file, &def);
        self.store.update(statement, row, &object)?;
        if file != old {
            changes.set_sequence(old, false);
        }
        Ok(())
    }

    /// The same for a sequence of a column, whose file is in its table's definition.
    fn alter_owned(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        (table, id): (&str, ObjectId),
        change: ChangeSequence<'_>,
    ) -> Result<()> {
        let entry = self.begin_change(statement, changes, table)?;
        let mut def = entry.table.def().clone();
        let is_it = |column: &Column| column.identity.as_ref().is_some_and(|i| i.sequence == id);
        let no = def.columns.iter().position(is_it).expect("the table has the column");
        let column = &mut def.columns[no];
        let owner = Some((table.to_owned(), column.name.clone(), column.ty));
        let identity = column.identity.as_mut().expect("found by it");
        let position = self.open_sequence(identity.file, &identity.def)?.position()?;
        let stored = StoredSequence { id, file: identity.file, def: identity.def.clone() };
        let (now, at) = change(&FoundSequence { stored, owner }, position)?;
        let old = std::mem::replace(&mut identity.def, now);
        let anew = at != position || !same_numbers(&identity.def, &old);
        if anew {
            identity.file = self.new_files(1);
        }
        let identity = identity.clone();
        // Before the file is made: the column must hold the numbers.
        def.validate()?;
        if anew {
            self.create_owned(changes, &identity)?.set(statement.txn(), at)?;
        }
        let object = sequence_object(&def, no as ColumnNo, &identity);
        let (row, _) = self.row_of(statement, id)?;
        self.store.update(statement, row, &object)?;
        self.redefine(changes, &entry, def, &[])
    }

    /// All sequences that `txn` sees, by name. Others may change or drop them meanwhile.
    pub fn sequences(&self, txn: &Transaction) -> Result<Vec<FoundSequence>> {
        let objects = self.store.all(&txn.latest_snapshot())?;
        let mut found = Vec::new();
        for object in objects.iter().filter(|object| object.kind == Kind::Sequence) {
            let (file, def) = object.to_sequence()?;
            let stored = StoredSequence { id: object.id, file, def };
            found.push(FoundSequence { stored, owner: owner_of(object, &objects)? });
        }
        found.sort_by(|a, b| a.stored.def.name.cmp(&b.stored.def.name));
        Ok(found)
    }

    /// The sequence called `name`, which stays until the transaction ends.
    pub fn sequence(&self, txn: &mut Transaction, name: &str) -> Result<Arc<Sequence>> {
        self.numbered_sequence(txn, name).map(|(_, sequence)| sequence)
    }

    /// The same, and its number.
    pub fn numbered_sequence(
        &self,
        txn: &mut Transaction,
        name: &str,
    ) -> Result<(ObjectId, Arc<Sequence>)> {
        let (_, object) = self.find_sequence(txn, name, LockMode::Access)?;
        let (file, def) = object.to_sequence()?;
        Ok((object.id, self.open_sequence(file, &def)?))
    }

    /// The sequence in `file`, whose owner the caller has locked.
    pub fn open_sequence(&self, file: FileId, def: &SequenceDef) -> Result<Arc<Sequence>> {
        let mut known = self.sequences.lock();
        if let Some(sequence) = known.get(&file) {
            return Ok(Arc::clone(sequence));
        }
        let sequence = Sequence::open(&self.pool, file, def)?;
        known.insert(file, Arc::clone(&sequence));
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
    pub fn free_sequences(&self) -> Result<Vec<StoredSequence>> {
        let txn = self.txns.begin(Isolation::ReadCommitted);
        let objects = self.store.all(&txn.latest_snapshot())?;
        let free = |object: &Object| object.kind == Kind::Sequence && object.parent == ObjectId(0);
        let stored = |object: Object| {
            let (file, def) = object.to_sequence()?;
            Ok(StoredSequence { id: object.id, file, def })
        };
        let found = objects.into_iter().filter(free).map(stored).collect::<Result<Vec<_>>>();
        found.map(|mut found| {
            found.sort_by(|a, b| a.def.name.cmp(&b.def.name));
            found
        })
    }

    /// Finds a sequence and locks what it belongs to.
    fn find_sequence(
        &self,
        txn: &mut Transaction,
        name: &str,
        mode: LockMode,
    ) -> Result<(RowId, Object)> {
        let missing = || Error::NotFound(format!("sequence {name}"));
        let find = |txn: &Transaction| {
            let found = self.store.relation(&txn.latest_snapshot(), name)?;
            found.filter(|(_, object)| object.kind == Kind::Sequence).ok_or_else(missing)
        };
        loop {
            let (_, seen) = find(txn)?;
            let owner = if seen.parent == ObjectId(0) { seen.id } else { seen.parent };
            txn.lock_table(owner, mode)?;
            // Whoever held the lock may have dropped it, and another may have the name.
            let (row, object) = find(txn)?;
            if object.id == seen.id {
                return Ok((row, object));
            }
        }
    }
}
