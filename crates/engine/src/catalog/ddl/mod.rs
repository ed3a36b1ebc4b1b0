//! Statements that change definitions inside a transaction.
//!
//! | file | holds |
//! |---|---|
//! | `table` | creating, dropping and renaming tables, their checks and settings |
//! | `column` | adding, dropping and altering columns, identities |
//! | `index` | creating, dropping and renaming indexes, the primary key |
//! | `rewrite` | changes that write every row anew, and removing all rows |
//! | `sequence` | sequences that belong to no column, altering any sequence |
//!
//! Collations and kept texts are beside what reads them, in `catalog`.
//!
//! Invariants: the table is locked exclusively and its name marked before its first catalog row is
//! written. A statement that fails leaves the transaction's [`Changes`] as they were; files that it
//! created are removed when the transaction ends.
//! Does not do: from schemas to definitions, the end of the transaction (`db`).

mod column;
mod index;
mod rewrite;
mod sequence;
mod table;

use rightlink_env::sync::Arc;

pub use column::ColumnChange;
pub(crate) use rewrite::{Convert, OfRow, Retype};
pub use sequence::RedefineSequence;

use crate::catalog::bootstrap::Kind;
use crate::catalog::changes::{Changes, ChangesMark};
use crate::catalog::names::Entry;
use crate::catalog::rows::Object;
use crate::catalog::{Catalog, no_table};
use crate::error::{Error, Result};
use crate::ids::ObjectId;
use crate::table::schema::{ColumnNo, SequenceDef, TableDef};
use crate::table::{BuildOptions, Statement, TableIndex};
use crate::txn::{LockMode, Snapshot, Transaction};

/// A statement that changes definitions. Dropped before [`DdlStatement::finish`], by an error or a
/// panic, it is undone.
pub struct DdlStatement<'t> {
    pub(super) catalog: &'t Catalog,
    pub(super) statement: Statement<'t>,
    changes: &'t mut Changes,
    /// The changes before this statement.
    mark: ChangesMark,
    /// What index builds may use.
    options: BuildOptions<'t>,
    is_finished: bool,
}

impl Catalog {
    /// Begins a statement of `txn`, which has changed `changes` so far.
    pub fn ddl<'t>(
        &'t self,
        txn: &'t mut Transaction,
        changes: &'t mut Changes,
        options: BuildOptions<'t>,
    ) -> Result<DdlStatement<'t>> {
        let (statement, mark) = (Statement::begin(txn)?, changes.mark());
        Ok(DdlStatement { catalog: self, statement, changes, mark, options, is_finished: false })
    }
}

impl Drop for DdlStatement<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.statement.fail_unended();
            self.changes.rollback_to(&self.mark);
        }
    }
}

impl DdlStatement<'_> {
    /// Ends the statement; its changes stay if the transaction commits.
    pub fn finish(mut self) -> Result<()> {
        self.statement.check()?;
        self.is_finished = true;
        Ok(())
    }

    /// A snapshot of now.
    pub(super) fn snapshot(&mut self) -> Arc<Snapshot> {
        self.statement.txn().latest_snapshot()
    }

    /// The table called `name`, locked in `mode`.
    fn resolve(&mut self, name: &str, mode: LockMode) -> Result<Arc<Entry>> {
        self.catalog.resolve(self.statement.txn(), self.changes, name, mode)
    }

    /// Marks `name` as changed by this transaction, which holds the exclusive lock of `id`.
    fn mark(&mut self, name: &str, id: ObjectId) -> Result<()> {
        if self.changes.has_marked(name) {
            return Ok(());
        }
        let conflict =
            |_| Error::AlreadyExists(format!("{name}, by a transaction that is running"));
        let before = self.catalog.names.mark(name, id).map_err(conflict)?;
        self.changes.note_marked(name, before);
        Ok(())
    }

    /// Locks a table exclusively and marks its name.
    fn begin_change(&mut self, name: &str) -> Result<Arc<Entry>> {
        let entry = self.resolve(name, LockMode::Exclusive)?;
        let id = entry.table.def().id;
        self.statement.txn().lock_table(id, LockMode::Exclusive)?;
        self.mark(name, id)?;
        Ok(entry)
    }

    /// Locks a table that cannot be opened exclusively and marks its name.
    fn begin_drop(&mut self, name: &str) -> Result<ObjectId> {
        let id = self.catalog.definition(name)?.id;
        self.statement.txn().lock_table(id, LockMode::Exclusive)?;
        // The former lock holder may have dropped the table, and another may have the name.
        if self.catalog.definition(name)?.id != id {
            return Err(no_table(name));
        }
        self.mark(name, id)?;
        Ok(id)
    }

    /// Locks a table exclusively, lets `change` change its definition and the catalog rows, and
    /// puts the definition in place.
    fn change(
        &mut self,
        name: &str,
        change: impl FnOnce(&mut Self, &Entry, &mut TableDef) -> Result<()>,
    ) -> Result<()> {
        let entry = self.begin_change(name)?;
        let mut def = entry.table.def().clone();
        change(self, &entry, &mut def)?;
        self.redefine(&entry, def, &[])
    }

    /// Puts a changed definition in place; `built` are indexes that are new in it.
    fn redefine(&mut self, entry: &Entry, def: TableDef, built: &[Arc<TableIndex>]) -> Result<()> {
        let name = def.name.clone();
        let table = entry.table.with_def(def, built)?;
        self.changes.set(&name, Some(Arc::new(Entry { table })));
        Ok(())
    }

    /// Adds catalog rows.
    pub(super) fn insert(&mut self, objects: &[Object]) -> Result<()> {
        self.catalog.store.insert(&mut self.statement, objects)
    }

    /// Writes the catalog row of an object anew. It keeps its position.
    fn replace(&mut self, object: Object) -> Result<()> {
        self.catalog.store.replace(&mut self.statement, object)
    }

    /// Removes the catalog row of an object.
    fn remove(&mut self, id: ObjectId) -> Result<()> {
        let stored = self.catalog.store.object(&self.snapshot(), id)?;
        self.catalog.store.delete(&mut self.statement, &stored)
    }

    /// Writes the catalog row of a column of a sound definition anew.
    fn store_column(&mut self, def: &TableDef, no: ColumnNo) -> Result<()> {
        def.validate()?;
        let parts = self.catalog.store.parts(&self.snapshot(), def.id)?;
        let is_it = |object: &Object| object.kind == Kind::Column && object.position == no as i16;
        let found = parts.into_iter().find(|stored| is_it(&stored.object));
        let column = &def.columns[usize::from(no)];
        let missing = || Error::corrupt_file("catalog", format!("{} has no row", column.name));
        let stored = found.ok_or_else(missing)?;
        let object = Object::column(stored.object.id, def.id, no, column);
        self.catalog.store.update(&mut self.statement, stored.row, &object)
    }

    /// Gives the sequence of a column that is there already its name, number and file.
    fn number_sequence(&mut self, sequence: &mut SequenceDef) -> Result<()> {
        let wanted = &sequence.schema.name;
        sequence.schema.name = self.catalog.free_name(self.statement.txn(), &[], wanted)?;
        (sequence.id, sequence.file) = (self.catalog.new_object(), self.catalog.new_files(1));
        Ok(())
    }
}
