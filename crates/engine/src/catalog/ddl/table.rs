//! Creating, dropping and renaming tables, their checks and settings.
//!
//! Invariants: a check that is added holds for every row that is there, or the statement fails.
//! Does not do: removing all rows (`rewrite`).

use rightlink_env::points;
use rightlink_env::sync::Arc;

use crate::catalog::ddl::DdlStatement;
use crate::catalog::files_of;
use crate::catalog::names::Entry;
use crate::catalog::rows::Object;
use crate::error::{Error, Result};
use crate::ids::FileId;
use crate::table::schema::{AutoVacuum, Check, TableDef, check_name};
use crate::table::sequence::Sequence;
use crate::table::{Projection, Table};
use crate::txn::LockMode;

impl DdlStatement<'_> {
    /// Creates a table with its indexes and sequences, to which it gives numbers and files.
    pub fn create_table(&mut self, mut def: TableDef) -> Result<()> {
        self.check_free(&def.name)?;
        self.choose_names(&mut def)?;
        self.number(&mut def);
        def.validate()?;
        points::hit("catalog.create-table.free");
        self.statement.txn().lock_table(def.id, LockMode::Exclusive)?;
        self.mark(&def.name, def.id)?;
        let objects = self.objects_of(&def);
        self.insert(&objects)?;
        self.changes.note_created(&files_of(&def));
        points::hit("catalog.create-table");
        let (pool, txns) = (&self.catalog.pool, &self.catalog.txns);
        for sequence in def.sequences() {
            self.catalog.keep(Sequence::create(pool, sequence)?);
        }
        let name = def.name.clone();
        let table = Table::create(pool, txns, def)?;
        self.changes.set(&name, Some(Arc::new(Entry { table })));
        Ok(())
    }

    /// Gives free names to the primary key and the sequences, whose names the user did not choose.
    fn choose_names(&mut self, def: &mut TableDef) -> Result<()> {
        let given = def.indexes.iter().filter(|index| !index.primary);
        let mut own: Vec<String> = given.map(|index| index.name.clone()).collect();
        own.push(def.name.clone());
        let TableDef { columns, indexes, .. } = def;
        let keys = indexes.iter_mut().filter(|index| index.primary).map(|key| &mut key.name);
        let identities = columns.iter_mut().filter_map(|column| column.identity.as_mut());
        let sequences = identities.map(|identity| &mut identity.sequence.schema.name);
        for name in keys.chain(sequences) {
            *name = self.catalog.free_name(self.statement.txn(), &own, name)?;
            own.push(name.clone());
        }
        Ok(())
    }

    /// Gives numbers and files to a new table and its parts.
    fn number(&self, def: &mut TableDef) {
        let catalog = self.catalog;
        (def.id, def.heap) = (catalog.new_object(), catalog.new_files(4));
        def.overflow = FileId(def.heap.0 + 3);
        for sequence in def.sequences_mut() {
            (sequence.id, sequence.file) = (catalog.new_object(), catalog.new_files(1));
        }
        for index in &mut def.indexes {
            (index.id, index.file) = (catalog.new_object(), catalog.new_files(1));
        }
        def.set_data_versions();
        def.sort_indexes();
    }

    fn objects_of(&self, def: &TableDef) -> Vec<Object> {
        let mut objects = vec![Object::table(def)];
        for (no, column) in (0..).zip(&def.columns) {
            objects.push(Object::column(self.catalog.new_object(), def.id, no, column));
            let sequence = column.identity.as_ref().map(|identity| &identity.sequence);
            objects.extend(sequence.map(|own| Object::sequence_of(def.id, no, own)));
        }
        objects.extend((0..).zip(&def.indexes).map(|(no, index)| Object::index(def.id, no, index)));
        objects
    }

    /// Fails if a table is called `name`, waiting for transactions that change the name.
    fn check_free(&mut self, name: &str) -> Result<()> {
        check_name("table", name)?;
        match self.resolve(name, LockMode::Access) {
            Ok(_) => Err(Error::AlreadyExists(format!("table {name}"))),
            Err(Error::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Drops a table with its indexes. The files of one that damage keeps from being opened stay
    /// until the database is opened again.
    pub fn drop_table(&mut self, name: &str) -> Result<()> {
        let id = match self.begin_change(name) {
            Ok(entry) => entry.table.def().id,
            Err(Error::Corruption { .. }) => self.begin_drop(name)?,
            Err(error) => return Err(error),
        };
        let snapshot = self.snapshot();
        let mut rows = self.catalog.store.parts(&snapshot, id)?;
        rows.push(self.catalog.store.object(&snapshot, id)?);
        for row in &rows {
            self.catalog.store.delete(&mut self.statement, row)?;
        }
        points::hit("catalog.drop-table");
        self.changes.set(name, None);
        Ok(())
    }

    /// Gives a table another name.
    pub fn rename_table(&mut self, name: &str, to: &str) -> Result<()> {
        let entry = self.begin_change(name)?;
        self.check_free(to)?;
        let mut def = entry.table.def().clone();
        to.clone_into(&mut def.name);
        self.mark(to, def.id)?;
        self.replace(Object::table(&def))?;
        self.redefine(&entry, def, &[])?;
        self.changes.set(name, None);
        Ok(())
    }

    /// Adds a check, which all rows must meet.
    pub fn add_check(&mut self, table: &str, check: Check) -> Result<()> {
        self.change(table, |ddl, entry, def| {
            def.checks.push(check);
            def.validate()?;
            let check = def.checks.last().expect("pushed above");
            for row in entry.table.scan(&ddl.snapshot(), Projection::all(def), None) {
                def.check_one(check, &entry.table.naming(row)?.values)?;
            }
            ddl.replace(Object::table(def))
        })
    }

    /// Drops a check.
    pub fn drop_check(&mut self, table: &str, check: &str) -> Result<()> {
        self.change(table, |ddl, _, def| {
            let before = def.checks.len();
            def.checks.retain(|known| known.name != check);
            if def.checks.len() == before {
                return Err(Error::NotFound(format!("check {check} of table {table}")));
            }
            ddl.replace(Object::table(def))
        })
    }

    /// Sets when the table is vacuumed automatically.
    pub fn set_auto_vacuum(&mut self, table: &str, when: AutoVacuum) -> Result<()> {
        self.change(table, |ddl, _, def| {
            def.auto_vacuum = when;
            ddl.replace(Object::table(def))
        })
    }

    /// Replaces what a layer above keeps with a table.
    pub fn set_note(&mut self, table: &str, note: &str) -> Result<()> {
        self.change(table, |ddl, _, def| {
            note.clone_into(&mut def.note);
            def.validate()?;
            ddl.replace(Object::table(def))
        })
    }
}
