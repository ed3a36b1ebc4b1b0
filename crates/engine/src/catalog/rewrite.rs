//! Changes that every row of a table has to be written anew for: another type of a column, columns
//! that are different in each row. Taking all rows away is the same without rows.
//!
//! The rows that are there, own changes of the transaction included, go through a conversion into
//! new files, where the new definition is asked about each of them; then the indexes are built over
//! these. At the end of the transaction either the old files are removed or the new ones.
//!
//! Invariants: the table is locked against everybody from before the first row is read. The new
//! files have no versions from before, so transactions whose snapshot is older get a conflict
//! instead of an empty table (`Heap::written_by`).
//! Does not do: conversions themselves; long values beyond what a row may be read with.

use rightlink_env::points;
use rightlink_env::sync::Arc;

use crate::catalog::rows::Object;
use crate::catalog::{Catalog, Changes, Entry};
use crate::datum::{Type, Value};
use crate::error::{Error, Result};
use crate::ids::{FileId, Xid};
use crate::table::predicate::{Predicate, Test};
use crate::table::schema::{
    Column, ColumnDefault, ColumnNo, Identity, IndexDef, SequenceDef, TableDef,
};
use crate::table::sequence::{Sequence, SequencePosition};
use crate::table::{BuildOptions, Projection, Statement, Table, TableIndex};
use crate::txn::Transaction;

/// What becomes of a value that is not null.
pub(crate) type Convert<'c> = &'c mut dyn FnMut(Value) -> Result<Value>;

/// What a row, as it was, has in a column of another type.
pub(crate) type OfRow<'c> = &'c mut dyn FnMut(&[Value]) -> Result<Value>;

/// Values of a new column for so many rows; the sequence is the column's own.
pub(crate) type FillColumn<'f> =
    &'f mut dyn FnMut(&mut Transaction, Option<&Sequence>, usize) -> Result<Vec<Value>>;

/// What becomes of a few rows.
type Rewrite<'r> = &'r mut dyn FnMut(&mut Transaction, Vec<Vec<Value>>) -> Result<Vec<Vec<Value>>>;

/// Rows that are converted together, and how large they may be.
const BATCH_ROWS: usize = 1000;
const BATCH_BYTES: usize = 256 << 10;

impl Catalog {
    /// Changes the type of a column. `convert` is asked about the default, what checks and indexes
    /// of some rows compare the column with, and the value of each row, unless `of_row` makes that.
    pub fn alter_column_type(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        (name, column): (&str, &str),
        (ty, convert, mut of_row): (Type, Convert<'_>, Option<OfRow<'_>>),
        options: &BuildOptions<'_>,
    ) -> Result<()> {
        let entry = self.begin_change(statement, changes, name)?;
        let mut def = entry.table.def().clone();
        let no = def.column_no(column)?;
        let place = def.place(no);
        let from = std::mem::replace(&mut def.columns[usize::from(no)].ty, ty);
        if ty != Type::Text {
            def.columns[usize::from(no)].collation = None;
            let keys = def.indexes.iter_mut().flat_map(|index| &mut index.columns);
            keys.filter(|key| key.column == no).for_each(|key| key.collation = None);
        }
        convert_constants(&mut def, no, convert)?;
        if let Some(identity) = &mut def.columns[usize::from(no)].identity {
            self.widen(statement, changes, identity, (from, ty))?;
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
        let def = self.rewrite(statement, changes, (&entry, def), Some(&mut rewrite), options)?;
        self.store_column(statement, &def, no)?;
        if let Some(identity) = &def.columns[usize::from(no)].identity {
            let (row, _) = self.row_of(statement, identity.sequence)?;
            let object = sequence_object(&def, no, identity);
            self.store.update(statement, row, &object)?;
        }
        Ok(())
    }

    /// Adds a column whose value is another in each row.
    pub fn add_filled_column(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        (name, mut column): (&str, Column),
        fill: FillColumn<'_>,
        options: &BuildOptions<'_>,
    ) -> Result<()> {
        let entry = self.begin_change(statement, changes, name)?;
        let mut def = entry.table.def().clone();
        if def.column_no(&column.name).is_ok() {
            let what = format!("column {} of table {name}", column.name);
            return Err(Error::AlreadyExists(what));
        }
        let no = def.columns.len() as ColumnNo;
        let mut sequence = None;
        if let Some(identity) = &mut column.identity {
            identity.def.name = self.free_name(statement.txn(), &[], &identity.def.name)?;
            (identity.sequence, identity.file) = (self.new_object(), self.new_files(1));
            sequence = Some(self.create_owned(changes, identity)?);
        }
        def.columns.push(column);
        let mut rewrite = |txn: &mut Transaction, mut rows: Vec<Vec<Value>>| {
            let values = fill(txn, sequence.as_deref(), rows.len())?;
            rows.iter_mut().zip(values).for_each(|(row, value)| row.push(value));
            Ok(rows)
        };
        let def = self.rewrite(statement, changes, (&entry, def), Some(&mut rewrite), options)?;
        let column = &def.columns[usize::from(no)];
        let mut objects = vec![Object::column(self.new_object(), def.id, no, column)];
        let identity = column.identity.as_ref();
        objects.extend(identity.map(|identity| sequence_object(&def, no, identity)));
        self.store.insert(statement, &objects)
    }

    /// Takes all rows away with the files that they are in. Sequences go on, or `restart`.
    pub fn truncate_table(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        (name, restart): (&str, bool),
        options: &BuildOptions<'_>,
    ) -> Result<()> {
        let entry = self.begin_change(statement, changes, name)?;
        let mut def = entry.table.def().clone();
        let restarted = |column: &Column| column.identity.is_some() && restart;
        for column in def.columns.iter_mut().filter(|column| restarted(column)) {
            let identity = column.identity.as_mut().expect("filtered");
            identity.file = self.new_files(1);
            self.create_owned(changes, identity)?;
        }
        let def = self.rewrite(statement, changes, (&entry, def), None, options)?;
        for (no, column) in (0..).zip(&def.columns).filter(|(_, column)| restarted(column)) {
            let identity = column.identity.as_ref().expect("filtered");
            let (row, _) = self.row_of(statement, identity.sequence)?;
            self.store.update(statement, row, &sequence_object(&def, no, identity))?;
        }
        Ok(())
    }

    /// Creates the sequence of a column.
    pub(super) fn create_owned(
        &self,
        changes: &mut Changes,
        identity: &Identity,
    ) -> Result<Arc<Sequence>> {
        changes.note_created(&[identity.file]);
        let sequence = Sequence::create(&self.pool, identity.file, &identity.def)?;
        self.keep(Arc::clone(&sequence));
        Ok(sequence)
    }

    /// A sequence takes over from the one of a column whose type changes: in a file of its own, as
    /// the old one stays if this is undone. Bounds that were the old type's become the new one's.
    fn widen(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        identity: &mut Identity,
        (from, to): (Type, Type),
    ) -> Result<()> {
        let old = self.open_sequence(identity.file, &identity.def)?;
        let (next, at) = (old.peek()?, old.position()?);
        let (Some(was), Some(is)) = (from.largest(), to.largest()) else {
            let what = format!("a generated column of type {to}");
            return Err(Error::Invalid(what));
        };
        let def = &mut identity.def;
        if def.max == was || def.max > is {
            def.max = is;
        }
        // The smallest value of a type is one less than what its largest is below zero.
        if def.min == -was - 1 {
            def.min = -is - 1;
        } else if def.min == -was || def.min < -is - 1 {
            def.min = -is;
        }
        let beyond = if def.increment > 0 { was.checked_add(1) } else { (-was).checked_sub(1) };
        let next = next.or(beyond).filter(|next| (def.min..=def.max).contains(next));
        let SequenceDef { name, min, max, .. } = &def;
        let none = || Error::Limit(format!("sequence {name} has no number from {min} to {max}"));
        let next = next.ok_or_else(none)?;
        def.start = def.start.clamp(def.min, def.max);
        identity.file = self.new_files(1);
        let holds = |value: i64| (identity.def.min..=identity.def.max).contains(&value);
        let at = match at.drawn && holds(at.value) {
            true => at,
            false => SequencePosition { value: next, drawn: false },
        };
        self.create_owned(changes, identity)?.set(statement.txn(), at)
    }

    /// Writes all rows into new files under the definition `def`, or none without a `rewrite`, and
    /// puts that in place. Gives it with its files; the caller writes down what it has changed
    /// beside them.
    fn rewrite(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        (entry, mut def): (&Entry, TableDef),
        rewrite: Option<Rewrite<'_>>,
        options: &BuildOptions<'_>,
    ) -> Result<TableDef> {
        def.validate()?;
        def.heap = self.new_files(4);
        def.overflow = FileId(def.heap.0 + 3);
        changes.note_created(&def.heap_files());
        let (def, table) = match rewrite {
            Some(rewrite) => self.write_anew(statement, changes, (entry, def), rewrite, options)?,
            None => self.create_empty(changes, def)?,
        };
        self.store_table(statement, &def, entry.primary)?;
        for index in &def.indexes {
            let (row, old) = self.row_of(statement, index.id)?;
            let object = Object::index(def.id, old.position as u16, index);
            self.store.update(statement, row, &object)?;
        }
        table.heap().note_written_by(statement.txn().xid()?);
        let entry = Arc::new(Entry { table, primary: entry.primary });
        changes.set(&def.name, Some(entry));
        Ok(def)
    }

    /// Copies the rows into the files of `def`, and builds its indexes over them.
    fn write_anew(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        (entry, mut def): (&Entry, TableDef),
        rewrite: Rewrite<'_>,
        options: &BuildOptions<'_>,
    ) -> Result<(TableDef, Arc<Table>)> {
        let indexes = std::mem::take(&mut def.indexes);
        let table = Table::create(&self.pool, &self.txns, def.clone())?;
        copy_rows(statement, (&entry.table, &table), rewrite)?;
        points::hit("catalog.rewritten");
        let mut built = Vec::with_capacity(indexes.len());
        for index in indexes {
            let index = IndexDef { file: self.new_files(1), ..index };
            changes.note_created(&[index.file]);
            built.push(table.build_index(statement.txn(), &index, options)?);
        }
        // No version is older than the indexes.
        let usable =
            |index: &Arc<TableIndex>| IndexDef { usable_from: Xid::NONE, ..index.def().clone() };
        def.indexes = built.iter().map(usable).collect();
        let table = table.with_def(def.clone(), &built)?;
        Ok((def, table))
    }

    /// Creates the files of `def` with nothing in them, indexes as those of a new table.
    fn create_empty(
        &self,
        changes: &mut Changes,
        mut def: TableDef,
    ) -> Result<(TableDef, Arc<Table>)> {
        for at in 0..def.indexes.len() {
            let data_version = def.indexes[at].current_data(&def);
            let index = &mut def.indexes[at];
            (index.file, index.usable_from) = (self.new_files(1), Xid::NONE);
            index.data_version = data_version;
            changes.note_created(&[index.file]);
        }
        let table = Table::create(&self.pool, &self.txns, def.clone())?;
        Ok((def, table))
    }
}

/// Copies the rows that are there now, a few at a time.
fn copy_rows(
    statement: &mut Statement<'_>,
    (from, to): (&Arc<Table>, &Table),
    rewrite: Rewrite<'_>,
) -> Result<()> {
    let snapshot = statement.txn().latest_snapshot();
    let mut scan = from.scan(&snapshot, Projection::all(from.def()), None);
    loop {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while rows.len() < BATCH_ROWS && bytes < BATCH_BYTES {
            let Some(row) = from.naming(scan.next())? else { break };
            let row = row.values;
            bytes += row.iter().map(value_bytes).sum::<usize>();
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

fn value_bytes(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 16,
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

pub(super) fn sequence_object(def: &TableDef, no: ColumnNo, identity: &Identity) -> Object {
    Object::sequence(identity.sequence, (def.id, no), identity.file, &identity.def)
}
