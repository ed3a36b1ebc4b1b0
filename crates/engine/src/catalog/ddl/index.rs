//! Creating, dropping and renaming indexes, the primary key.
//!
//! Invariants: an index is built before the catalog names it.
//! Does not do: building beside writers (`online`).

use rightlink_env::points;
use rightlink_env::sync::Arc;

use crate::catalog::ddl::DdlStatement;
use crate::catalog::names::Entry;
use crate::catalog::rows::Object;
use crate::error::{Error, Result};
use crate::ids::{FileId, ObjectId};
use crate::table::TableIndex;
use crate::table::schema::{ColumnNo, IndexColumn, IndexDef, TableDef, check_name};
use crate::txn::LockMode;

impl DdlStatement<'_> {
    /// Creates an index over the rows of a table, and gives it its number and file. Readers go on
    /// while it is built; writers wait, and other builds too, as all but one of them would fail to
    /// get the exclusive lock at the end.
    pub fn create_index(&mut self, table: &str, index: IndexDef) -> Result<()> {
        let entry = self.resolve(table, LockMode::ShareWrite)?;
        let built = self.build_index(&entry, index)?;
        self.begin_change(table)?;
        let mut def = entry.table.def().clone();
        def.indexes.push(built.def().clone());
        self.insert_index(&def, &built)?;
        self.redefine(&entry, def, &[built])
    }

    /// Builds an index that the catalog does not have yet.
    fn build_index(&mut self, entry: &Entry, index: IndexDef) -> Result<Arc<TableIndex>> {
        let (id, file) = (self.catalog.new_object(), self.catalog.new_files(1));
        let index = IndexDef { id, file, ..index };
        entry.table.def().with_index(&index).validate()?;
        self.changes.note_created(&[file]);
        let built = entry.table.build_index(self.statement.txn(), &index, &self.options)?;
        points::hit("catalog.create-index");
        Ok(built)
    }

    /// Adds the catalog row of an index that is in `def` already.
    fn insert_index(&mut self, def: &TableDef, built: &TableIndex) -> Result<()> {
        let position = def.indexes.len() as u16;
        self.insert(&[Object::index(def.id, position, built.def())])
    }

    /// Drops an index.
    pub fn drop_index(&mut self, index: &str) -> Result<()> {
        let table = self.catalog.table_of_index(self.statement.txn(), index)?;
        self.change(&table, |ddl, _, def| {
            let known = def.index(index)?;
            if known.primary {
                let what = format!("index {index} is the primary key of table {table}");
                return Err(Error::Invalid(what));
            }
            let id = known.id;
            def.indexes.retain(|index| index.id != id);
            ddl.remove(id)
        })
    }

    /// Gives an index another name.
    pub fn rename_index(&mut self, index: &str, to: &str) -> Result<()> {
        check_name("index", to)?;
        let table = self.catalog.table_of_index(self.statement.txn(), index)?;
        self.change(&table, |ddl, _, def| {
            let id = def.index(index)?.id;
            let renamed = def.indexes.iter_mut().find(|known| known.id == id);
            let renamed = renamed.expect("found by name above");
            to.clone_into(&mut renamed.name);
            ddl.replace(Object::index(def.id, 0, renamed))
        })
    }

    /// Makes `columns` the primary key, by a new unique index called `index`.
    pub fn add_primary_key(&mut self, table: &str, index: &str, columns: &[&str]) -> Result<()> {
        let entry = self.begin_first_key(table)?;
        let mut def = entry.table.def().clone();
        let numbers: Vec<ColumnNo> =
            columns.iter().map(|column| def.column_no(column)).collect::<Result<_>>()?;
        self.expect_values(&entry, &numbers)?;
        let key = |no: &ColumnNo| {
            let collation = def.columns[usize::from(*no)].collation.clone();
            IndexColumn { collation, ..IndexColumn::ascending(*no) }
        };
        let key = numbers.iter().map(key).collect();
        let index = IndexDef::new(ObjectId(0), index, FileId(0), key, true);
        let built = self.build_index(&entry, IndexDef { primary: true, ..index })?;
        def.indexes.insert(0, built.def().clone());
        self.insert_index(&def, &built)?;
        self.complete_key(&entry, def, &numbers, &[built])
    }

    /// Makes an index that is there the primary key.
    pub fn make_primary(&mut self, table: &str, index: &str) -> Result<()> {
        let entry = self.begin_first_key(table)?;
        let mut def = entry.table.def().clone();
        let id = def.index(index)?.id;
        let made = def.indexes.iter_mut().find(|known| known.id == id);
        let made = made.expect("found by name above");
        if !made.unique || made.predicate.is_some() {
            let what = format!("index {index} is not unique over all rows of table {table}");
            return Err(Error::Invalid(what));
        }
        made.primary = true;
        let numbers: Vec<ColumnNo> = made.columns.iter().map(|key| key.column).collect();
        self.expect_values(&entry, &numbers)?;
        self.complete_key(&entry, def, &numbers, &[])
    }

    /// Begins to give a primary key to a table, which must have none.
    fn begin_first_key(&mut self, table: &str) -> Result<Arc<Entry>> {
        let entry = self.begin_change(table)?;
        match entry.table.def().primary_key() {
            Some(_) => Err(Error::AlreadyExists(format!("primary key of table {table}"))),
            None => Ok(entry),
        }
    }

    /// Notes the primary key that `def` has, over these columns, which are never null.
    fn complete_key(
        &mut self,
        entry: &Entry,
        mut def: TableDef,
        columns: &[ColumnNo],
        built: &[Arc<TableIndex>],
    ) -> Result<()> {
        for no in columns {
            if std::mem::take(&mut def.columns[usize::from(*no)].nullable) {
                self.store_column(&def, *no)?;
            }
        }
        self.replace(Object::table(&def))?;
        self.redefine(entry, def, built)
    }

    /// Drops the primary key; its columns stay as they are.
    pub fn drop_primary_key(&mut self, table: &str) -> Result<()> {
        self.change(table, |ddl, _, def| {
            let missing = || Error::NotFound(format!("primary key of table {table}"));
            let id = def.primary_key().ok_or_else(missing)?.id;
            def.indexes.retain(|index| index.id != id);
            ddl.remove(id)?;
            ddl.replace(Object::table(def))
        })
    }
}
