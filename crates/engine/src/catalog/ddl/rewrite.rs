//! Changes that every row of a table has to be written anew for: another type of a column, columns
//! that are different in each row. Removing all rows is the same without rows.
//!
//! The rows that are there, own changes of the transaction included, go through a conversion into
//! new files, where the new definition checks each of them. Then the indexes are built over these.
//! At the end of the transaction either the old files are removed or the new ones.
//!
//! Invariants: the table is locked exclusively from before the first row is read. The new files
//! have no versions from before, so transactions whose snapshot is older get a conflict instead of
//! an empty table (`Heap::written_by`).
//! Does not do: conversions themselves; long values beyond what a row may be read with.

use rightlink_env::points;
use rightlink_env::sync::Arc;

use crate::catalog::ddl::DdlStatement;
use crate::catalog::names::Entry;
use crate::catalog::rows::Object;
use crate::datum::{Type, Value};
use crate::error::{Error, Result};
use crate::ids::{FileId, Xid};
use crate::table::predicate::{Predicate, Test};
use crate::table::schema::{
    Column, ColumnDefault, ColumnNo, IndexDef, SequenceDef, SequenceSchema, TableDef,
};
use crate::table::sequence::{Sequence, SequencePosition};
use crate::table::{Projection, Statement, Table, TableIndex};
use crate::txn::Transaction;

/// What becomes of a value that is not null.
pub(crate) type Convert<'c> = &'c mut dyn FnMut(Value) -> Result<Value>;

/// What a row, as it was, has in a column of another type.
pub(crate) type OfRow<'c> = &'c mut dyn FnMut(&[Value]) -> Result<Value>;

/// Another type of a column.
pub(crate) struct Retype<'c> {
    /// Its name.
    pub(crate) column: &'c str,
    /// The new type.
    pub(crate) to: Type,
    /// Converts the default, what checks and partial indexes compare the column with, and the
    /// value of each row.
    pub(crate) convert: Convert<'c>,
    /// Makes the value of each row instead.
    pub(crate) of_row: Option<OfRow<'c>>,
}

/// Values of a new column for so many rows; the sequence is the column's own.
pub(crate) type FillColumn<'f> =
    &'f mut dyn FnMut(&mut Transaction, Option<&Sequence>, usize) -> Result<Vec<Value>>;

/// What becomes of a few rows.
type Rewrite<'r> = &'r mut dyn FnMut(&mut Transaction, Vec<Vec<Value>>) -> Result<Vec<Vec<Value>>>;

/// Rows that are converted together, and how large they may be.
const BATCH_ROWS: usize = 1000;
const BATCH_BYTES: usize = 256 << 10;

impl DdlStatement<'_> {
    /// Changes the type of a column.
    pub(crate) fn alter_column_type(&mut self, table: &str, retype: Retype<'_>) -> Result<()> {
        let Retype { column, to, convert, mut of_row } = retype;
        let entry = self.begin_change(table)?;
        let mut def = entry.table.def().clone();
        let no = def.column_no(column)?;
        let place = def.place(no);
        let from = std::mem::replace(&mut def.columns[usize::from(no)].ty, to);
        if to != Type::Text {
            def.columns[usize::from(no)].collation = None;
            let keys = def.indexes.iter_mut().flat_map(|index| &mut index.columns);
            keys.filter(|key| key.column == no).for_each(|key| key.collation = None);
        }
        convert_constants(&mut def, no, convert)?;
        if let Some(identity) = &mut def.columns[usize::from(no)].identity {
            self.widen(&mut identity.sequence, from, to)?;
        }
        let mut rewrite = |_: &mut Transaction, mut rows: Vec<Vec<Value>>| {
            for row in &mut rows {
                row[place] = match &mut of_row {
                    Some(of_row) => of_row(row)?,
                    None => converted(std::mem::replace(&mut row[place], Value::Null), convert)?,
                };
            }
            Ok(rows)
        };
        let table = self.rewrite(&entry, def, Some(&mut rewrite))?;
        self.store_column(table.def(), no)?;
        if let Some(identity) = &table.def().columns[usize::from(no)].identity {
            self.replace(Object::sequence_of(table.def().id, no, &identity.sequence))?;
        }
        Ok(())
    }

    /// Adds a column whose value is another in each row.
    pub(crate) fn add_filled_column(
        &mut self,
        table: &str,
        mut column: Column,
        fill: FillColumn<'_>,
    ) -> Result<()> {
        let entry = self.begin_change(table)?;
        let mut def = entry.table.def().clone();
        def.check_new_column(&column.name)?;
        let no = def.columns.len() as ColumnNo;
        let mut sequence = None;
        if let Some(identity) = &mut column.identity {
            self.number_sequence(&mut identity.sequence)?;
            sequence = Some(self.create_owned(&identity.sequence)?);
        }
        let mut objects = vec![Object::column(self.catalog.new_object(), def.id, no, &column)];
        let identity = column.identity.as_ref();
        objects.extend(identity.map(|own| Object::sequence_of(def.id, no, &own.sequence)));
        def.columns.push(column);
        let place = def.place(no);
        let mut rewrite = |txn: &mut Transaction, mut rows: Vec<Vec<Value>>| {
            let values = fill(txn, sequence.as_deref(), rows.len())?;
            rows.iter_mut().zip(values).for_each(|(row, value)| row.insert(place, value));
            Ok(rows)
        };
        self.rewrite(&entry, def, Some(&mut rewrite))?;
        self.insert(&objects)
    }

    /// Removes all rows together with the files that hold them. Sequences go on, or `restart`.
    pub fn truncate_table(&mut self, table: &str, restart: bool) -> Result<()> {
        let entry = self.begin_change(table)?;
        let mut def = entry.table.def().clone();
        if restart {
            for sequence in def.sequences_mut() {
                sequence.file = self.catalog.new_files(1);
                self.create_owned(sequence)?;
            }
        }
        let table = self.rewrite(&entry, def, None)?;
        for (no, column) in (0..).zip(&table.def().columns).filter(|_| restart) {
            if let Some(identity) = &column.identity {
                self.replace(Object::sequence_of(table.def().id, no, &identity.sequence))?;
            }
        }
        Ok(())
    }

    /// Creates the sequence of a column.
    pub(super) fn create_owned(&mut self, sequence: &SequenceDef) -> Result<Arc<Sequence>> {
        self.changes.note_created(&[sequence.file]);
        let created = Sequence::create(&self.catalog.pool, sequence)?;
        self.catalog.keep(Arc::clone(&created));
        Ok(created)
    }

    /// Fits the sequence of a column whose type changes to the new type: in a file of its own, as
    /// the old one stays if this is undone. Bounds that were the old type's become the new one's.
    fn widen(&mut self, sequence: &mut SequenceDef, from: Type, to: Type) -> Result<()> {
        let old = self.catalog.open_sequence(sequence)?;
        let (next, at) = (old.peek()?, old.position()?);
        let (Some(was), Some(is)) = (from.largest(), to.largest()) else {
            let what = format!("a generated column of type {to}");
            return Err(Error::Invalid(what));
        };
        let schema = &mut sequence.schema;
        if schema.max == was || schema.max > is {
            schema.max = is;
        }
        // The smallest value of a type is one less than what its largest is below zero.
        if schema.min == -was - 1 {
            schema.min = -is - 1;
        } else if schema.min == -was || schema.min < -is - 1 {
            schema.min = -is;
        }
        let beyond = if schema.increment > 0 { was.checked_add(1) } else { (-was).checked_sub(1) };
        let SequenceSchema { name, min, max, .. } = &*schema;
        let holds = |value: i64| (*min..=*max).contains(&value);
        let next = next.or(beyond).filter(|next| holds(*next));
        let none = || Error::Limit(format!("sequence {name} has no number from {min} to {max}"));
        let next = next.ok_or_else(none)?;
        let at = match at.drawn && holds(at.value) {
            true => at,
            false => SequencePosition { value: next, drawn: false },
        };
        schema.start = schema.start.clamp(schema.min, schema.max);
        sequence.file = self.catalog.new_files(1);
        self.create_owned(sequence)?.set(self.statement.txn(), at)
    }

    /// Writes all rows into new files under the definition `def`, or none without a `rewrite`, and
    /// puts the new table in place. The caller writes down what it has changed beside the files.
    fn rewrite(
        &mut self,
        entry: &Entry,
        mut def: TableDef,
        rewrite: Option<Rewrite<'_>>,
    ) -> Result<Arc<Table>> {
        def.validate()?;
        def.heap = self.catalog.new_files(4);
        def.overflow = FileId(def.heap.0 + 3);
        self.changes.note_created(&def.heap_files());
        let table = match rewrite {
            Some(rewrite) => self.write_anew(&entry.table, def, rewrite)?,
            None => self.create_empty(def)?,
        };
        let def = table.def();
        self.replace(Object::table(def))?;
        for index in &def.indexes {
            self.replace(Object::index(def.id, 0, index))?;
        }
        table.heap().note_written_by(self.statement.txn().xid()?);
        let entry = Arc::new(Entry { table: Arc::clone(&table) });
        self.changes.set(&def.name, Some(entry));
        Ok(table)
    }

    /// Copies the rows of `from` into the files of `def`, and builds its indexes over them.
    fn write_anew(
        &mut self,
        from: &Arc<Table>,
        mut def: TableDef,
        rewrite: Rewrite<'_>,
    ) -> Result<Arc<Table>> {
        let indexes = std::mem::take(&mut def.indexes);
        let table = Table::create(&self.catalog.pool, &self.catalog.txns, def.clone())?;
        copy_rows(&mut self.statement, from, &table, rewrite)?;
        points::hit("catalog.rewritten");
        let mut built = Vec::with_capacity(indexes.len());
        for index in indexes {
            let index = IndexDef { file: self.catalog.new_files(1), ..index };
            self.changes.note_created(&[index.file]);
            built.push(table.build_index(self.statement.txn(), &index, &self.options)?);
        }
        // No version is older than the indexes.
        let usable =
            |index: &Arc<TableIndex>| IndexDef { usable_from: Xid::NONE, ..index.def().clone() };
        def.indexes = built.iter().map(usable).collect();
        table.with_def(def, &built)
    }

    /// Creates the files of `def` with nothing in them, indexes as those of a new table.
    fn create_empty(&mut self, mut def: TableDef) -> Result<Arc<Table>> {
        for index in &mut def.indexes {
            (index.file, index.usable_from) = (self.catalog.new_files(1), Xid::NONE);
            self.changes.note_created(&[index.file]);
        }
        def.set_data_versions();
        Table::create(&self.catalog.pool, &self.catalog.txns, def)
    }
}

/// Copies the rows that are there now, a few at a time.
fn copy_rows(
    statement: &mut Statement<'_>,
    from: &Arc<Table>,
    to: &Table,
    rewrite: Rewrite<'_>,
) -> Result<()> {
    let snapshot = statement.txn().latest_snapshot();
    let mut scan = from.scan(&snapshot, Projection::all(from.def()), None);
    loop {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while rows.len() < BATCH_ROWS && bytes < BATCH_BYTES {
            let Some(row) = from.naming(scan.next())? else { break };
            let row = row.values;
            bytes += row.iter().map(Value::memory_bytes).sum::<usize>();
            rows.push(row);
        }
        if rows.is_empty() {
            return Ok(());
        }
        statement.txn().check_cancelled()?;
        let rows = rewrite(statement.txn(), rows)?;
        to.insert_many(statement, &rows)?;
    }
}

fn converted(value: Value, convert: Convert<'_>) -> Result<Value> {
    if value.is_null() { Ok(value) } else { convert(value) }
}

/// Converts what a definition says of the values of a column whose type has changed.
fn convert_constants(def: &mut TableDef, no: ColumnNo, convert: Convert<'_>) -> Result<()> {
    let column = &mut def.columns[usize::from(no)];
    // No row will lack the column.
    column.missing = Value::Null;
    if let Some(ColumnDefault::Value(value)) = &mut column.default {
        *value = converted(std::mem::replace(value, Value::Null), convert)?;
    }
    let checks = def.checks.iter_mut().map(|check| &mut check.predicate);
    let partial = def.indexes.iter_mut().filter_map(|index| index.predicate.as_mut());
    for predicate in checks.chain(partial) {
        convert_terms(predicate, no, convert)?;
    }
    Ok(())
}

fn convert_terms(
    predicate: &mut Predicate<ColumnNo>,
    no: ColumnNo,
    convert: Convert<'_>,
) -> Result<()> {
    for term in predicate.terms.iter_mut().filter(|term| term.column == no) {
        if let Test::Compare(_, value) = &mut term.test {
            *value = converted(std::mem::replace(value, Value::Null), convert)?;
        }
    }
    Ok(())
}
