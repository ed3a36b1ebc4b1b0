//! Scripted runs of a database on a simulated disk, and what each moment of them allows to be found
//! after a crash. Shared by the tests that crash (`crash.rs`) and those that fail calls
//! (`faults.rs`).
//!
//! A [`Script`] keeps, beside the database, the content after every commit in commit order, when
//! each commit began, and since when which of them must survive. What is found later must be one of
//! these contents, whole, between those two bounds.
//!
//! Invariants: nothing depends on time or threads, so a script run twice makes the same calls.
//! Does not do: crash or fail anything itself.

pub(crate) mod oracle;
pub(crate) mod scenarios;

use std::collections::{BTreeMap, BTreeSet};

use rightlink::{
    AlterTable, Busy, CheckSchema, ColumnSchema, Database, Error, IndexSchema, OnConflict, Options,
    Predicate, Result, RowId, RowLock, Savepoint, SequenceSchema, TableSchema, Transaction,
    TransactionOptions, Type, Value,
};
use rightlink_aio::SimDisk;
use rightlink_env::Env;
use rightlink_env::sync::Arc;

/// The script cannot go on: the instance takes no more writes, or could not be opened.
#[derive(Debug)]
pub(crate) struct Stop;

/// What a step of a script returns.
pub(crate) type Out<T = ()> = std::result::Result<T, Stop>;

/// A table as it should be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TableModel {
    /// Columns in order.
    pub(crate) columns: Vec<String>,
    /// Names of its indexes, and of its checks after "check ".
    pub(crate) indexes: BTreeSet<String>,
    /// Does it survive a crash?
    pub(crate) logged: bool,
    /// Rows by their first column.
    pub(crate) rows: BTreeMap<i64, Vec<Value>>,
}

impl TableModel {
    /// What stands for a prepared transaction among the tables.
    pub(crate) fn nothing() -> TableModel {
        let (columns, indexes, rows) = (Vec::new(), BTreeSet::new(), BTreeMap::new());
        TableModel { columns, indexes, logged: true, rows }
    }
}

/// The name by which a prepared transaction stands among the tables.
pub(crate) fn prepared_name(gid: &str) -> String {
    format!("prepared {gid}")
}

/// All tables, as they should be or as they were found, and a name for each prepared transaction.
pub(crate) type Content = BTreeMap<String, Arc<TableModel>>;

type Change = Box<dyn Fn(&mut Content)>;

/// How the database of a scenario is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Pages of the pool.
    pub(crate) pool_pages: usize,
    /// Most log between checkpoints.
    pub(crate) max_log_bytes: u64,
    /// First transaction id of the database.
    pub(crate) first_xid: u64,
}

impl Settings {
    /// Enough of everything, so that nothing happens by itself.
    pub(crate) const ROOMY: Settings =
        Settings { pool_pages: 96, max_log_bytes: 4 << 20, first_xid: 2 };
    /// The smallest pool: pages leave it all the time.
    pub(crate) const TINY_POOL: Settings = Settings { pool_pages: 16, ..Settings::ROOMY };
    /// Little log, so that checkpoints become due and segments are used again.
    pub(crate) const LITTLE_LOG: Settings =
        Settings { max_log_bytes: 128 << 10, ..Settings::ROOMY };
    /// The first segment of outcomes is nearly full: 4,096 pages of 1,020.
    pub(crate) const FULL_SEGMENT: Settings =
        Settings { first_xid: 4096 * 1020 - 1500, ..Settings::ROOMY };

    /// Opens the database on `disk`, without threads.
    pub(crate) fn open(self, disk: &SimDisk) -> Result<Database> {
        Options::default()
            .memory(8 << 20)
            .pool_pages(self.pool_pages)
            .log_segment_bytes(64 << 10)
            .max_log_bytes(self.max_log_bytes)
            .first_xid(self.first_xid)
            .simulation(Env::simulated(1), disk.clone())
            .open("")
    }
}

/// A scripted run.
pub(crate) struct Scenario {
    /// What happens in it.
    pub(crate) name: &'static str,
    /// Injection points that it must pass while it is recorded.
    pub(crate) points: &'static [&'static str],
    /// How the database is opened.
    pub(crate) settings: Settings,
    /// The run.
    pub(crate) run: fn(&mut Script) -> Out,
}

/// The content after a commit.
pub(crate) struct Committed {
    /// Calls that the disk had seen when the commit began.
    pub(crate) began: u64,
    /// The content.
    pub(crate) content: Content,
}

/// Called with the disk when the recording starts.
type OnRecord = Box<dyn FnOnce(&SimDisk)>;

/// A database, and what should be in it.
pub(crate) struct Script {
    /// The disk.
    pub(crate) disk: SimDisk,
    /// How the database is opened.
    pub(crate) settings: Settings,
    /// Contents in commit order; the first is empty.
    pub(crate) states: Vec<Committed>,
    /// From so many calls on, at least this state must survive.
    pub(crate) floors: Vec<(u64, usize)>,
    /// From so many calls on a clean close may have happened, so that unlogged rows may be there.
    pub(crate) clean_close: Option<u64>,
    /// Errors met so far, when they are expected.
    pub(crate) errors: Vec<Error>,
    /// Calls seen when the interesting part began.
    pub(crate) first_op: u64,
    strict: bool,
    on_record: Option<OnRecord>,
    db: Option<Database>,
    /// What prepared transactions will have changed, by name.
    prepared: BTreeMap<String, Vec<Change>>,
}

impl Script {
    /// Runs `scenario` on an empty disk. `on_record` is called when its interesting part begins.
    /// Errors panic if `strict`.
    pub(crate) fn run(
        scenario: &Scenario,
        strict: bool,
        on_record: impl FnOnce(&SimDisk) + 'static,
    ) -> Script {
        let nothing = Committed { began: 0, content: Content::new() };
        let mut script = Script {
            disk: SimDisk::new(7),
            settings: scenario.settings,
            states: vec![nothing],
            floors: vec![(0, 0)],
            clean_close: None,
            errors: Vec::new(),
            first_op: 0,
            strict,
            on_record: Some(Box::new(on_record)),
            db: None,
            prepared: BTreeMap::new(),
        };
        let ended = (scenario.run)(&mut script);
        assert!(ended.is_ok() || !strict, "{}: the script stopped", scenario.name);
        assert!(script.on_record.is_none() || !strict, "{} records nothing", scenario.name);
        script
    }

    /// Begins the interesting part.
    pub(crate) fn record(&mut self) {
        self.first_op = self.disk.op_count();
        let on_record = self.on_record.take().expect("a scenario records once");
        on_record(&self.disk);
    }

    /// Opens the database.
    pub(crate) fn open(&mut self) -> Out {
        assert!(self.db.is_none(), "the database is open");
        let opened = self.settings.open(&self.disk);
        self.db = self.judge(opened)?;
        if self.db.is_some() { Ok(()) } else { Err(Stop) }
    }

    /// Opens the database and makes the table that most scenarios use.
    pub(crate) fn open_with_table(&mut self) -> Out {
        self.open()?;
        let mut tx = self.begin();
        tx.create_table(self, &usual_table("t"))?;
        self.commit(tx)
    }

    /// The open database.
    pub(crate) fn db(&self) -> &Database {
        self.db.as_ref().expect("the database is open")
    }

    /// Is the database open?
    pub(crate) fn is_open(&self) -> bool {
        self.db.is_some()
    }

    /// Closes cleanly.
    pub(crate) fn close(&mut self) -> Out {
        let db = self.db.take().expect("the database is open");
        self.clean_close = self.clean_close.or(Some(self.disk.op_count()));
        let last = self.states.len() - 1;
        let closed = db.close();
        // A close that failed is a crash to unlogged tables, which no state here tells of.
        self.judge(closed)?.ok_or(Stop)?;
        self.floors.push((self.disk.op_count(), last));
        Ok(())
    }

    /// The process dies, and with it the transactions that run; what it wrote is still in the page
    /// cache.
    pub(crate) fn kill(&mut self, running: Vec<Tx>) {
        self.disk.crash_at(self.disk.op_count());
        drop(running);
        self.db = None;
        self.disk.clear_faults();
    }

    /// Lets go of the database, whatever its state.
    pub(crate) fn abandon(&mut self) {
        self.db = None;
    }

    /// Writes all pages back.
    pub(crate) fn checkpoint(&mut self) -> Out {
        let last = self.states.len() - 1;
        let done = self.db().checkpoint();
        if self.judge(done)?.is_some() {
            self.floors.push((self.disk.op_count(), last));
        }
        Ok(())
    }

    /// One unit of background work; was there any?
    pub(crate) fn step(&mut self) -> Out<bool> {
        let stepped = self.db().step();
        Ok(self.judge(stepped)?.unwrap_or(false))
    }

    /// Background work until there is none; then every commit is durable.
    pub(crate) fn settle(&mut self) -> Out {
        for _ in 0..10_000 {
            let last = self.states.len() - 1;
            let stepped = self.db().step();
            match self.judge(stepped)? {
                Some(true) => {}
                Some(false) => {
                    self.floors.push((self.disk.op_count(), last));
                    return Ok(());
                }
                None => return Ok(()),
            }
        }
        panic!("background work without end");
    }

    /// Vacuums every table.
    pub(crate) fn vacuum(&mut self) -> Out {
        let done = self.db().vacuum(None);
        self.judge(done).map(|_| ())
    }

    /// Builds an index beside writers, on its own.
    pub(crate) fn create_index_online(&mut self, table: &str, index: &IndexSchema) -> Out {
        let began = self.disk.op_count();
        let mut content = self.states.last().expect("one state at least").content.clone();
        let built = self.db().create_index_online(table, index);
        if let Some(model) = content.get_mut(table) {
            Arc::make_mut(model).indexes.insert(index.name.clone());
        }
        if matches!(built, Ok(()) | Err(Error::Poisoned(_))) {
            self.states.push(Committed { began, content });
        }
        if self.judge(built)?.is_some() {
            self.floors.push((self.disk.op_count(), self.states.len() - 1));
        }
        Ok(())
    }

    /// Builds all indexes of a table anew.
    pub(crate) fn reindex(&mut self, table: &str) -> Out {
        let built = self.db().reindex(table, None);
        self.judge(built).map(|_| ())
    }

    /// Begins a transaction.
    pub(crate) fn begin(&self) -> Tx {
        Tx { txn: self.db().begin(), changes: Vec::new(), relaxed: false }
    }

    /// Begins one that need not be durable at once.
    pub(crate) fn begin_relaxed(&self) -> Tx {
        let options = TransactionOptions { relaxed: true, ..TransactionOptions::default() };
        Tx { txn: self.db().begin_with(options), changes: Vec::new(), relaxed: true }
    }

    /// Runs `work` in a transaction and commits it.
    pub(crate) fn transact(&mut self, work: impl FnOnce(&mut Script, &mut Tx) -> Out) -> Out {
        let mut tx = self.begin();
        work(self, &mut tx)?;
        self.commit(tx)
    }

    /// Commits.
    pub(crate) fn commit(&mut self, tx: Tx) -> Out {
        let began = self.disk.op_count();
        let mut content = self.states.last().expect("one state at least").content.clone();
        tx.changes.iter().for_each(|change| change(&mut content));
        // A definition makes a relaxed commit durable, which is more than is asked for here.
        let relaxed = tx.relaxed;
        let result = tx.txn.commit();
        if matches!(result, Ok(()) | Err(Error::Poisoned(_))) {
            self.states.push(Committed { began, content });
        }
        if self.judge(result)?.is_some() && !relaxed {
            self.floors.push((self.disk.op_count(), self.states.len() - 1));
        }
        Ok(())
    }

    /// Prepares a transaction.
    pub(crate) fn prepare(&mut self, tx: Tx, gid: &str) -> Out {
        let began = self.disk.op_count();
        let result = tx.txn.prepare(gid, "note");
        let name = prepared_name(gid);
        self.prepared.insert(gid.to_string(), tx.changes);
        self.decided(began, result, move |content| {
            content.insert(name.clone(), Arc::new(TableModel::nothing()));
        })
    }

    /// Commits a prepared transaction, or rolls it back.
    pub(crate) fn decide(&mut self, gid: &str, commit: bool) -> Out {
        let (began, db) = (self.disk.op_count(), self.db());
        let result = if commit { db.commit_prepared(gid) } else { db.rollback_prepared(gid) };
        let changes = self.prepared.remove(gid).filter(|_| commit).unwrap_or_default();
        let name = prepared_name(gid);
        self.decided(began, result, move |content| {
            changes.iter().for_each(|change| change(content));
            content.remove(&name);
        })
    }

    /// A change began after so many calls, and is durable if `result` says so.
    fn decided(&mut self, began: u64, result: Result<()>, change: impl Fn(&mut Content)) -> Out {
        let mut content = self.states.last().expect("one state at least").content.clone();
        if matches!(result, Ok(()) | Err(Error::Poisoned(_))) {
            change(&mut content);
            self.states.push(Committed { began, content });
        }
        if self.judge(result)?.is_some() {
            self.floors.push((self.disk.op_count(), self.states.len() - 1));
        }
        Ok(())
    }

    /// Takes a result of the engine: an error is kept, if one is to be expected at all.
    pub(crate) fn judge<T>(&mut self, result: Result<T>) -> Out<Option<T>> {
        let error = match result {
            Ok(value) => return Ok(Some(value)),
            Err(error) => error,
        };
        assert!(!self.strict, "an error without a fault: {error}");
        let honest = match &error {
            Error::Io(_) | Error::DiskFull(_) | Error::Poisoned(_) => true,
            // What an earlier failed statement should have made or removed is not there, or still
            // is.
            Error::NotFound(_)
            | Error::AlreadyExists(_)
            | Error::UniqueViolation { .. }
            | Error::TransactionAborted => !self.errors.is_empty(),
            _ => false,
        };
        assert!(honest, "a failing disk is reported as: {error:?}");
        let stop = matches!(error, Error::Poisoned(_));
        self.errors.push(error);
        if stop { Err(Stop) } else { Ok(None) }
    }

    /// The first and the last state that may be found when the power fails after `ops` calls.
    pub(crate) fn bounds(&self, ops: u64) -> (usize, usize) {
        let floors = self.floors.iter().filter(|(since, _)| *since <= ops);
        let floor = floors.map(|(_, state)| *state).max().expect("the first is from the start");
        let begun = self.states.iter().rposition(|state| state.began < ops);
        (floor, begun.unwrap_or(0).max(floor))
    }
}

/// A transaction, and what it will have changed.
pub(crate) struct Tx {
    txn: Transaction,
    changes: Vec<Change>,
    relaxed: bool,
}

impl Tx {
    fn note(&mut self, change: impl Fn(&mut Content) + 'static) {
        self.changes.push(Box::new(change));
    }

    fn note_table(&mut self, table: &str, change: impl Fn(&mut TableModel) + 'static) {
        let table = table.to_string();
        self.note(move |content| {
            change(Arc::make_mut(content.get_mut(&table).expect("the table is there")));
        });
    }

    /// Creates a table.
    pub(crate) fn create_table(&mut self, script: &mut Script, schema: &TableSchema) -> Out {
        let created = self.txn.create_table(schema);
        if script.judge(created)?.is_none() {
            return Ok(());
        }
        let mut indexes: BTreeSet<String> = schema.indexes.iter().map(|i| i.name.clone()).collect();
        indexes.insert(format!("{}_pkey", schema.name));
        let columns = schema.columns.iter().map(|column| column.name.clone()).collect();
        let (logged, rows) = (schema.logged, BTreeMap::new());
        let model = Arc::new(TableModel { columns, indexes, logged, rows });
        let name = schema.name.clone();
        self.note(move |content| {
            content.insert(name.clone(), Arc::clone(&model));
        });
        Ok(())
    }

    /// Drops a table.
    pub(crate) fn drop_table(&mut self, script: &mut Script, table: &str) -> Out {
        let dropped = self.txn.drop_table(table);
        if script.judge(dropped)?.is_some() {
            let table = table.to_string();
            self.note(move |content| {
                content.remove(&table);
            });
        }
        Ok(())
    }

    /// Creates an index.
    pub(crate) fn create_index(
        &mut self,
        script: &mut Script,
        table: &str,
        index: IndexSchema,
    ) -> Out {
        let created = self.txn.create_index(table, &index);
        if script.judge(created)?.is_some() {
            self.note_table(table, move |model| {
                model.indexes.insert(index.name.clone());
            });
        }
        Ok(())
    }

    /// Drops an index.
    pub(crate) fn drop_index(&mut self, script: &mut Script, table: &str, index: &str) -> Out {
        let dropped = self.txn.drop_index(index);
        if script.judge(dropped)?.is_some() {
            let index = index.to_string();
            self.note_table(table, move |model| {
                model.indexes.remove(&index);
            });
        }
        Ok(())
    }

    /// Adds a column of text.
    pub(crate) fn add_column(&mut self, script: &mut Script, table: &str, column: &str) -> Out {
        let added = self.txn.alter_table(
            table,
            AlterTable::AddColumn(&ColumnSchema::new(column, Type::Text).nullable()),
        );
        if script.judge(added)?.is_some() {
            let column = column.to_string();
            self.note_table(table, move |model| {
                model.columns.push(column.clone());
                model.rows.values_mut().for_each(|row| row.push(Value::Null));
            });
        }
        Ok(())
    }

    /// Drops a column.
    pub(crate) fn drop_column(&mut self, script: &mut Script, table: &str, column: &str) -> Out {
        let dropped = self.txn.alter_table(table, AlterTable::DropColumn(column));
        if script.judge(dropped)?.is_some() {
            let column = column.to_string();
            self.note_table(table, move |model| {
                let at = model.columns.iter().position(|known| *known == column);
                let at = at.expect("the column is there");
                model.columns.remove(at);
                model.rows.values_mut().for_each(|row| drop(row.remove(at)));
            });
        }
        Ok(())
    }

    /// Inserts a row.
    pub(crate) fn insert(&mut self, script: &mut Script, table: &str, row: Vec<Value>) -> Out {
        let inserted = self.txn.insert(table, &row);
        if script.judge(inserted)?.is_some() {
            self.note_rows(table, vec![row]);
        }
        Ok(())
    }

    /// Inserts rows in one statement.
    pub(crate) fn insert_many(
        &mut self,
        script: &mut Script,
        table: &str,
        rows: Vec<Vec<Value>>,
    ) -> Out {
        let inserted = self.txn.insert_many(table, &rows);
        if script.judge(inserted)?.is_some() {
            self.note_rows(table, rows);
        }
        Ok(())
    }

    fn note_rows(&mut self, table: &str, rows: Vec<Vec<Value>>) {
        self.note_table(table, move |model| {
            for row in &rows {
                let before = model.rows.insert(oracle::id_of(row), row.clone());
                assert!(before.is_none(), "the engine took a duplicate");
            }
        });
    }

    /// Inserts a row whose key is there already; the transaction goes on.
    pub(crate) fn insert_duplicate(
        &mut self,
        script: &mut Script,
        table: &str,
        row: Vec<Value>,
    ) -> Out {
        match self.txn.insert(table, &row) {
            Err(Error::UniqueViolation { .. }) => Ok(()),
            Ok(_) if script.errors.is_empty() => panic!("a duplicate was taken"),
            // The first row of this key may have met the fault.
            Ok(_) => {
                self.note_rows(table, vec![row]);
                Ok(())
            }
            result => script.judge(result).map(|_| ()),
        }
    }

    /// Creates a sequence for the keys of a table.
    pub(crate) fn create_numbers(&mut self, script: &mut Script, table: &str) -> Out {
        let schema = SequenceSchema::new(format!("{table}_numbers"));
        let created = self.txn.create_sequence(&schema);
        script.judge(created).map(|_| ())
    }

    /// Inserts a row whose key is the next number of the table's sequence.
    pub(crate) fn insert_numbered(&mut self, script: &mut Script, table: &str) -> Out {
        let number = self.txn.next_value(&format!("{table}_numbers"));
        match script.judge(number)? {
            Some(id) => self.insert(script, table, usual_row(id, 10)),
            None => Ok(()),
        }
    }

    /// Inserts rows, or sets the tag of those with their keys to 99; which of them is for the model
    /// to say.
    pub(crate) fn upsert(
        &mut self,
        script: &mut Script,
        table: &str,
        rows: Vec<Vec<Value>>,
    ) -> Out {
        let mut merge = |old: &[Value], _: &[Value]| {
            let mut new = old.to_vec();
            new[2] = Value::Int8(99);
            Ok(Some(new))
        };
        let done =
            self.txn.insert_into(table).or_update(OnConflict::Columns(&["id"]), &rows, &mut merge);
        if script.judge(done)?.is_some() {
            self.note_table(table, move |model| {
                for row in &rows {
                    let known = model.rows.entry(oracle::id_of(row));
                    known.and_modify(|old| old[2] = Value::Int8(99)).or_insert_with(|| row.clone());
                }
            });
        }
        Ok(())
    }

    /// Writes a table anew, with a mark at the end of each text in a column.
    pub(crate) fn rewrite(&mut self, script: &mut Script, table: &str, column: usize) -> Out {
        let mark = |value| match value {
            Value::Text(text) => Value::Text(text + "!"),
            other => other,
        };
        let mut convert = |value| Ok(mark(value));
        let name = USUAL_COLUMNS[column];
        let written = self.txn.alter_table(
            table,
            AlterTable::ColumnType {
                column: name,
                to: Type::Text,
                convert: &mut convert,
                of_row: None,
            },
        );
        if script.judge(written)?.is_some() {
            self.note_table(table, move |model| {
                for row in model.rows.values_mut() {
                    row[column] = mark(row[column].clone());
                }
            });
        }
        Ok(())
    }

    /// Gives a column another name.
    pub(crate) fn rename_column(
        &mut self,
        script: &mut Script,
        table: &str,
        (column, to): (&str, &str),
    ) -> Out {
        let renamed = self.txn.alter_table(table, AlterTable::RenameColumn { column, to });
        if script.judge(renamed)?.is_some() {
            let (column, to) = (column.to_string(), to.to_string());
            self.note_table(table, move |model| {
                let known = model.columns.iter_mut().find(|known| **known == column);
                known.expect("the column is there").clone_from(&to);
            });
        }
        Ok(())
    }

    /// Gives a table another name.
    pub(crate) fn rename_table(&mut self, script: &mut Script, table: &str, to: &str) -> Out {
        let renamed = self.txn.alter_table(table, AlterTable::Rename(to));
        if script.judge(renamed)?.is_some() {
            let (table, to) = (table.to_string(), to.to_string());
            self.note(move |content| {
                let model = content.remove(&table).expect("the table is there");
                content.insert(to.clone(), model);
            });
        }
        Ok(())
    }

    /// Adds a check.
    pub(crate) fn add_check(
        &mut self,
        script: &mut Script,
        table: &str,
        (name, predicate): (&str, Predicate),
    ) -> Out {
        let added = self.txn.alter_table(
            table,
            AlterTable::AddCheck(&CheckSchema { name: name.into(), predicate }),
        );
        if script.judge(added)?.is_some() {
            let name = format!("check {name}");
            self.note_table(table, move |model| {
                model.indexes.insert(name.clone());
            });
        }
        Ok(())
    }

    /// Another primary key over the first column takes the place of the old one.
    pub(crate) fn change_primary_key(
        &mut self,
        script: &mut Script,
        table: &str,
        (old, new): (&str, &str),
    ) -> Out {
        let dropped = self.txn.alter_table(table, AlterTable::DropPrimaryKey);
        if script.judge(dropped)?.is_some() {
            let old = old.to_string();
            self.note_table(table, move |model| {
                model.indexes.remove(&old);
            });
        }
        let added = self
            .txn
            .alter_table(table, AlterTable::AddPrimaryKey { index: Some(new), columns: &["id"] });
        if script.judge(added)?.is_some() {
            let new = new.to_string();
            self.note_table(table, move |model| {
                model.indexes.insert(new.clone());
            });
        }
        Ok(())
    }

    fn find(&mut self, script: &mut Script, table: &str, id: i64) -> Out<Option<RowId>> {
        let got = self.txn.get(table, &[Value::Int8(id)]);
        let row = script.judge(got)?.flatten().map(|row| row.id);
        assert!(row.is_some() || !script.errors.is_empty(), "row {id} of {table} is not there");
        Ok(row)
    }

    /// Sets a column of the row with this key.
    pub(crate) fn update(
        &mut self,
        script: &mut Script,
        (table, id): (&str, i64),
        column: usize,
        value: Value,
    ) -> Out {
        let Some(row) = self.find(script, table, id)? else { return Ok(()) };
        let name = USUAL_COLUMNS[column];
        let updated = self.txn.update(table, row, &[(name, value.clone())]);
        if let Some(done) = script.judge(updated)? {
            assert!(done, "the row is this transaction's to change");
            self.note_table(table, move |model| {
                let row = model.rows.get_mut(&id).expect("the row is there");
                row[column] = value.clone();
            });
        }
        Ok(())
    }

    /// Deletes the row with this key.
    pub(crate) fn delete(&mut self, script: &mut Script, table: &str, id: i64) -> Out {
        let Some(row) = self.find(script, table, id)? else { return Ok(()) };
        let deleted = self.txn.delete(table, row);
        if let Some(done) = script.judge(deleted)? {
            assert!(done, "the row is this transaction's to delete");
            self.note_table(table, move |model| {
                model.rows.remove(&id).expect("the row is there");
            });
        }
        Ok(())
    }

    /// Locks the row with this key, so that others may lock it likewise.
    pub(crate) fn share(&mut self, script: &mut Script, (table, id): (&str, i64)) -> Out {
        let Some(row) = self.find(script, table, id)? else { return Ok(()) };
        let locked = self.txn.lock_row(table, row, RowLock::Shared, Busy::Fail);
        if let Some(done) = script.judge(locked)? {
            assert!(done, "the row is there to be shared");
        }
        Ok(())
    }

    /// Marks a place to roll back to.
    pub(crate) fn savepoint(&mut self) -> (Savepoint, usize) {
        (self.txn.savepoint(), self.changes.len())
    }

    /// Rolls back to a marked place.
    pub(crate) fn rollback_to(&mut self, script: &mut Script, mark: (Savepoint, usize)) -> Out {
        let done = self.txn.rollback_to(mark.0);
        if script.judge(done)?.is_some() {
            self.changes.truncate(mark.1);
        }
        Ok(())
    }

    /// Rolls back.
    pub(crate) fn rollback(self) {
        self.txn.rollback();
    }
}

/// Columns of the usual table.
pub(crate) const USUAL_COLUMNS: [&str; 4] = ["id", "name", "tag", "note"];

/// A table with a key, two more indexes, and a column that no index has.
pub(crate) fn usual_table(name: &str) -> TableSchema {
    TableSchema::new(name)
        .column("id", Type::Int8)
        .column("name", Type::Text)
        .nullable("tag", Type::Int8)
        .nullable("note", Type::Text)
        .primary_key(["id"])
        .index(IndexSchema::new(format!("{name}_name")).on("name"))
        .index(IndexSchema::new(format!("{name}_tag")).on("tag").on("id"))
}

/// A row of the usual table whose name has about `width` bytes.
pub(crate) fn usual_row(id: i64, width: usize) -> Vec<Value> {
    let name = format!("{:04}{}", id * 7919 % 10_000, "x".repeat(width));
    let tag = if id % 7 == 0 { Value::Null } else { Value::Int8(id % 5) };
    vec![Value::Int8(id), Value::Text(name), tag, Value::Text(format!("note {id}"))]
}

/// Such rows for a range of keys.
pub(crate) fn usual_rows(ids: std::ops::Range<i64>, width: usize) -> Vec<Vec<Value>> {
    ids.map(|id| usual_row(id, width)).collect()
}
