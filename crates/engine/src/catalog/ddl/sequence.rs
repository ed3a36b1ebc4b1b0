//! Creating, dropping and altering sequences.
//!
//! Invariants: a sequence whose numbers or place change goes on in a file of its own, as the old
//! one stays if the change is undone.
//! Does not do: drawing numbers (`table::sequence`).

use rightlink_env::sync::Arc;

use crate::catalog::ddl::DdlStatement;
use crate::catalog::rows::Object;
use crate::catalog::{SequenceDefinition, SequenceOwner};
use crate::error::{Error, Result};
use crate::ids::ObjectId;
use crate::table::schema::{Column, ColumnNo, SequenceDef, SequenceSchema, TableDef};
use crate::table::sequence::{Sequence, SequencePosition};
use crate::txn::LockMode;

/// Makes the new schema and position of a sequence from its present ones, for
/// [`SequenceChange::Redefine`](crate::SequenceChange::Redefine). The example of
/// [`SequenceChange`](crate::SequenceChange) passes such a closure. Its error ends the change.
pub type RedefineSequence<'c> = &'c mut dyn FnMut(
    &SequenceDefinition,
    SequencePosition,
) -> Result<(SequenceSchema, SequencePosition)>;

/// A sequence before and after a change.
struct Altered {
    old: SequenceDef,
    new: SequenceDef,
    /// Where it goes on, if its numbers or its place change.
    moved_to: Option<SequencePosition>,
}

impl DdlStatement<'_> {
    /// Creates a sequence of no table.
    pub fn create_sequence(&mut self, schema: &SequenceSchema) -> Result<()> {
        schema.validate()?;
        let (id, file) = (self.catalog.new_object(), self.catalog.new_files(1));
        let def = SequenceDef { id, file, schema: schema.clone() };
        self.insert(&[Object::sequence(&def)])?;
        self.changes.set_sequence(file, true);
        self.statement.txn().lock_table(id, LockMode::Exclusive)?;
        self.catalog.keep(Sequence::create(&self.catalog.pool, &def)?);
        Ok(())
    }

    /// Drops a sequence of no table.
    pub fn drop_sequence(&mut self, name: &str) -> Result<()> {
        let txn = self.statement.txn();
        let stored = self.catalog.find_sequence(txn, name, LockMode::Exclusive)?;
        if !stored.object.is_free_sequence() {
            let what = format!("sequence {name} belongs to a column and goes with it");
            return Err(Error::Invalid(what));
        }
        let file = stored.object.to_sequence()?.file;
        self.catalog.store.delete(&mut self.statement, &stored)?;
        self.changes.set_sequence(file, false);
        Ok(())
    }

    /// Changes the definition and the position of a sequence to what `change` makes of them. The
    /// statement began under the sequence's lock.
    pub fn alter_sequence(&mut self, name: &str, change: RedefineSequence<'_>) -> Result<()> {
        let txn = self.statement.txn();
        let stored = self.catalog.find_sequence(txn, name, LockMode::Exclusive)?;
        let object = stored.object;
        if !object.is_free_sequence() {
            let table = self.catalog.store.object(&self.snapshot(), object.parent)?.object.name;
            return self.alter_owned(&table, object.id, change);
        }
        let altered = self.altered(object.to_sequence()?, None, change)?;
        let Altered { old, new, moved_to } = &altered;
        new.schema.validate()?;
        if let Some(at) = moved_to {
            self.changes.set_sequence(new.file, true);
            let sequence = Sequence::create(&self.catalog.pool, new)?;
            self.catalog.keep(Arc::clone(&sequence));
            sequence.set(self.statement.txn(), *at)?;
        }
        self.replace(Object::sequence(new))?;
        if moved_to.is_some() {
            self.changes.set_sequence(old.file, false);
        }
        Ok(())
    }

    /// The same for a sequence of a column, whose file is in its table's definition.
    fn alter_owned(
        &mut self,
        table: &str,
        id: ObjectId,
        change: RedefineSequence<'_>,
    ) -> Result<()> {
        self.change(table, |ddl, _, def: &mut TableDef| {
            let is_it =
                |column: &Column| column.identity.as_ref().is_some_and(|i| i.sequence.id == id);
            let no = def.columns.iter().position(is_it).expect("the table has the column");
            let column = &mut def.columns[no];
            let owner = SequenceOwner {
                table: table.to_owned(),
                column: column.name.clone(),
                kind: column.ty,
            };
            let sequence = &mut column.identity.as_mut().expect("found by it").sequence;
            let altered = ddl.altered(sequence.clone(), Some(owner), change)?;
            sequence.clone_from(&altered.new);
            // Before the file is made: the column must hold the numbers.
            def.validate()?;
            if let Some(at) = altered.moved_to {
                ddl.create_owned(&altered.new)?.set(ddl.statement.txn(), at)?;
            }
            ddl.replace(Object::sequence_of(def.id, no as ColumnNo, &altered.new))
        })
    }

    /// What `change` makes of a sequence, with a new file where its numbers or its place change.
    fn altered(
        &mut self,
        old: SequenceDef,
        owner: Option<SequenceOwner>,
        change: RedefineSequence<'_>,
    ) -> Result<Altered> {
        let position = self.catalog.open_sequence(&old)?.position()?;
        let known = SequenceDefinition { id: old.id.0, schema: old.schema.clone(), owner };
        let (schema, at) = change(&known, position)?;
        let moves = at != position || !same_numbers(&schema, &old.schema);
        let file = if moves { self.catalog.new_files(1) } else { old.file };
        let new = SequenceDef { schema, file, id: old.id };
        Ok(Altered { old, new, moved_to: moves.then_some(at) })
    }
}

/// Do both hand out the same numbers, under the same name?
fn same_numbers(a: &SequenceSchema, b: &SequenceSchema) -> bool {
    let plain = |schema: &SequenceSchema| SequenceSchema { note: String::new(), ..schema.clone() };
    plain(a) == plain(b)
}
