//! `load`: CSV files into a table, a transaction per batch.
//!
//! Invariants: a batch is committed as a whole or leaves nothing, not even the table it was to
//! create; what is reported as committed is durable by then; a load goes on when nobody reads its
//! reports; every error tells how many rows are committed; rows in memory (the sample, and the
//! batch being gathered) stay within a share of the memory budget.
//! Does not do: several writers at once.

use rightlink::{
    ColumnSchema, Database, Error, Reservation, TableInfo, TableSchema, Transaction,
    TransactionOptions, Value,
};
use rightlink_sql::shown_text;

use crate::args::{Common, LoadArgs};
use crate::csv::Limits;
use crate::csv_file::{CsvFile, Place, RawRow, total_bytes};
use crate::failure::{Exit, Failure};
use crate::figures::{count, duration, plural, plural_of, rate};
use crate::json::{Json, object};
use crate::output::Output;
use crate::progress::Progress;
use crate::reject::Rejects;
use crate::rows::Mapping;
use crate::{infer, names, open, schema};

/// Least memory for rows, however small the budget is.
const LEAST_MEMORY: usize = 64 << 10;

/// Where rows go, and what has been committed.
pub(crate) struct Loader {
    db: Database,
    table: String,
    columns: Vec<ColumnSchema>,
    /// Columns of the waiting rows, where the store fills the others.
    named: Option<Vec<String>>,
    /// The table, until the first batch has created it.
    create: Option<TableSchema>,
    relaxed: bool,
    rows: Vec<Vec<Value>>,
    places: Vec<Place>,
    /// The fields of the waiting rows, if bad ones are to be told apart later.
    records: Vec<Vec<String>>,
    /// Where bad lines go; without, they end the load.
    rejects: Option<Rejects>,
    /// Bytes that the rows take, roughly.
    bytes: usize,
    /// Half for rows looked at ahead, half for a batch.
    memory: Reservation,
    /// A commit has begun and failed so that only recovery can tell what became of it.
    unsure: bool,
    /// Rows committed so far.
    pub(crate) committed: u64,
    /// Bad lines put aside by the time of the last commit.
    settled: u64,
    /// Batches committed so far.
    pub(crate) batches: u64,
}

/// Runs the command.
pub(crate) fn run(common: &Common, args: &LoadArgs, output: &mut Output) -> Result<Exit, Failure> {
    output.outlive_reader();
    // A wrong file name must not leave an empty database behind.
    let mut first = CsvFile::open(&args.files[0], Limits::within(common.memory))?;
    let db = open::or_create(common, &args.db)?;
    let mut loader = Loader::prepare(&db, args, &mut first)?;
    if let Some(path) = &args.reject {
        loader.rejects = Some(Rejects::create(path, &first.header)?);
    }
    if loader.create.is_some() && !output.json() {
        output.line(loader.columns_text(args.schema.is_none()))?;
        output.flush()?;
    }
    let mut progress = Progress::start(total_bytes(&args.files), !output.json());
    // A relaxed batch may still be lost, so only the end of such a load is reported.
    let reports = (output.json() && !args.relaxed).then_some(&mut *output);
    let loaded = loader.load_files(args, first, &mut progress, reports);
    progress.clear();
    loaded.map_err(|failure| loader.explain(failure, args))?;
    let closed = if args.relaxed { db.checkpoint() } else { Ok(()) };
    let closed = closed.and_then(|()| db.close()).map_err(Failure::from);
    closed.map_err(|failure| loader.explain_end(failure, args, "closing the database"))?;
    report(&loader, args, &progress, output)?;
    let told = output.finish().map_err(|failure| loader.explain_end(failure, args, "the report"));
    told.map(|()| if loader.rejected() > 0 { Exit::BadData } else { Exit::Done })
}

fn report(
    loader: &Loader,
    args: &LoadArgs,
    progress: &Progress,
    output: &mut Output,
) -> Result<(), Failure> {
    if output.json() && loader.rejects.is_some() {
        let (committed, rejected) = (loader.committed.into(), loader.rejected().into());
        return output.line(object([("committed_rows", committed), ("rejected_rows", rejected)]));
    }
    if output.json() {
        // In batches the rows were reported as they became durable.
        let untold = args.relaxed || loader.committed == 0;
        return if untold { output.line(committed_json(loader.committed)) } else { Ok(()) };
    }
    let time = progress.elapsed();
    output.line(format_args!(
        "{} loaded into {} in {} ({} rows/s, {})",
        plural(loader.committed, "row"),
        shown_text(&loader.table),
        duration(time),
        count(rate(loader.committed, time)),
        plural_of(loader.batches, "batch", "batches"),
    ))?;
    match &args.reject {
        Some(path) if loader.rejected() > 0 => {
            let rows = plural(loader.rejected(), "row");
            output.line(format_args!("{rows} rejected, see {}", path.display()))
        }
        _ => Ok(()),
    }
}

fn committed_json(rows: u64) -> Json {
    object([("committed_rows", rows.into())])
}

impl Loader {
    /// Rows that went to the file for bad ones.
    fn rejected(&self) -> u64 {
        self.rejects.as_ref().map_or(0, |rejects| rejects.count)
    }

    /// Finds or plans the table.
    pub(crate) fn prepare(
        db: &Database,
        args: &LoadArgs,
        first: &mut CsvFile,
    ) -> Result<Self, Failure> {
        let memory = rows_memory(db)?;
        let name = names::stored(db, &args.table)?;
        let (columns, create) = match db.describe(&name) {
            Ok(table) => {
                check_same(&table, args)?;
                (table.schema.columns, None)
            }
            Err(Error::NotFound(_)) => {
                let wanted = wanted_table(args, &name, first, memory.bytes() / 2)?;
                (wanted.columns.clone(), Some(wanted))
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Self {
            db: db.clone(),
            table: name,
            columns,
            named: None,
            create,
            relaxed: args.relaxed,
            rows: Vec::new(),
            places: Vec::new(),
            records: Vec::new(),
            rejects: None,
            bytes: 0,
            memory,
            unsure: false,
            committed: 0,
            settled: 0,
            batches: 0,
        })
    }

    /// Loads all rows of all files; `first` is the first of them. Each batch is reported as it
    /// becomes durable, if anyone wants to know.
    pub(crate) fn load_files(
        &mut self,
        args: &LoadArgs,
        first: CsvFile,
        progress: &mut Progress,
        mut reports: Option<&mut Output>,
    ) -> Result<(), Failure> {
        let limits = Limits::within(self.db.budget().limit());
        let mut skip = args.skip;
        let mut bytes = 0;
        let mut file = first;
        for position in 0..args.files.len() {
            if position > 0 {
                file = CsvFile::open(&args.files[position], limits)?;
            }
            let mapping = Mapping::new(&file.header, &self.columns, &file.header_place())?;
            let mapping = mapping.null(&args.null);
            if mapping.named() != self.named {
                // Rows of one batch have the same columns.
                if !self.rows.is_empty() {
                    self.commit(reports.as_deref_mut())?;
                }
                self.named = mapping.named();
            }
            while let Some(RawRow { fields: record, place, fault }) = file.next_any()? {
                if skip > 0 {
                    // A bad line that was put aside is one of those to skip.
                    if let Some(failure) = fault.filter(|_| self.rejects.is_none()) {
                        return Err(failure);
                    }
                    skip -= 1;
                    continue;
                }
                let values = fault.map_or_else(|| mapping.values(&record, &place), Err);
                match values {
                    Ok(values) => self.take(values, record, place),
                    Err(failure) => self.reject(&record, &place, failure)?,
                }
                if self.rows.len() == args.batch as usize || self.bytes >= self.memory.bytes() / 2 {
                    self.commit(reports.as_deref_mut())?;
                }
                progress.update(bytes + file.bytes_read(), self.committed);
            }
            bytes += file.bytes_read();
        }
        if self.rows.is_empty() && self.create.is_none() { Ok(()) } else { self.commit(reports) }
    }

    /// Puts a row into the batch.
    fn take(&mut self, row: Vec<Value>, record: Vec<String>, place: Place) {
        let text: usize = record.iter().map(String::len).sum();
        self.bytes += text + size_of_val(row.as_slice()) + size_of::<(Vec<Value>, Place)>();
        self.rows.push(row);
        self.places.push(place);
        if self.rejects.is_some() {
            self.bytes += text + record.len() * size_of::<String>();
            self.records.push(record);
        }
    }

    /// Puts a bad line aside, or ends the load by what is wrong with it.
    fn reject(
        &mut self,
        record: &[String],
        place: &Place,
        failure: Failure,
    ) -> Result<(), Failure> {
        match &mut self.rejects {
            Some(rejects) => rejects.add(record, place, &failure.message),
            None => Err(failure),
        }
    }

    /// Puts the waiting rows aside that a new transaction does not take one by one; the others are
    /// in it.
    fn insert_good(&mut self) -> Result<Transaction, Failure> {
        let mut work = self.begin()?;
        let waiting = [self.rows.len(), self.places.len(), self.records.len()];
        assert!(waiting.iter().all(|len| *len == waiting[0]), "each row has a place and fields");
        let (rows, places) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.places));
        let records = std::mem::take(&mut self.records);
        for ((row, place), record) in rows.into_iter().zip(places).zip(records) {
            match self.put(&mut work, std::slice::from_ref(&row)) {
                Ok(()) => {
                    self.rows.push(row);
                    self.places.push(place);
                    self.records.push(record);
                }
                Err(error) if is_data(&error) => {
                    let column = self.column_of(&error);
                    let failure = place.bad(column.as_deref(), &error.to_string());
                    self.reject(&record, &place, failure)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(work)
    }

    /// Commits the waiting rows and tells so.
    fn commit(&mut self, reports: Option<&mut Output>) -> Result<(), Failure> {
        let mut work = self.begin()?;
        let inserted = match self.rows.as_slice() {
            [] => Ok(()),
            rows => self.put(&mut work, rows),
        };
        if let Err(error) = inserted {
            // The search for the bad row would wait for the table that `work` has created.
            work.rollback();
            match self.rejects.is_some() && is_data(&error) {
                true => work = self.insert_good()?,
                false => return Err(self.blame(error)),
            }
        }
        if let Some(rejects) = &mut self.rejects {
            rejects.settle()?;
        }
        if let Err(error) = work.commit() {
            self.unsure = matches!(error, Error::Poisoned(_));
            return Err(error.into());
        }
        self.create = None;
        self.committed += self.rows.len() as u64;
        self.settled = self.rejected();
        self.batches += u64::from(!self.rows.is_empty());
        self.rows.clear();
        self.places.clear();
        self.records.clear();
        self.bytes = 0;
        match reports {
            Some(output) if self.committed > 0 => {
                output.line(committed_json(self.committed))?;
                output.flush()
            }
            _ => Ok(()),
        }
    }

    /// A transaction in which the table exists.
    fn begin(&self) -> Result<Transaction, Failure> {
        let options = TransactionOptions { relaxed: self.relaxed, ..TransactionOptions::default() };
        let mut work = self.db.begin_with(options);
        if let Some(table) = &self.create {
            work.create_table(table)?;
        }
        Ok(work)
    }

    /// Inserts rows; the store fills the columns that they leave out.
    fn put(&self, work: &mut Transaction, rows: &[Vec<Value>]) -> rightlink::Result<()> {
        match &self.named {
            None => work.insert_many(&self.table, rows).map(drop),
            Some(names) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                work.insert_into(&self.table).columns(&names).rows(rows).map(drop)
            }
        }
    }

    /// Finds the row that makes the batch fail, by inserting them one by one and rolling back.
    fn blame(&self, error: Error) -> Failure {
        let work = if is_data(&error) { self.begin().ok() } else { None };
        let Some(mut work) = work else { return error.into() };
        for (row, place) in self.rows.iter().zip(&self.places) {
            if let Err(error) = self.put(&mut work, std::slice::from_ref(row)) {
                if !is_data(&error) {
                    return error.into();
                }
                let column = self.column_of(&error);
                return place.bad(column.as_deref(), &error.to_string());
            }
        }
        error.into()
    }

    /// The column that is to blame, or the columns of the violated index.
    fn column_of(&self, error: &Error) -> Option<String> {
        let index = match error {
            Error::NotNullViolation { column, .. } | Error::CheckViolation { column, .. } => {
                return Some(column.clone());
            }
            Error::UniqueViolation { index, .. } => index.as_str(),
            Error::Limit(what) | Error::RowTooLarge(what) => {
                match between(what, " for column ", " of table ") {
                    Some(column) => return Some(column.to_owned()),
                    None => between(what, " for index ", ";")?,
                }
            }
            _ => return None,
        };
        let names = match &self.create {
            Some(table) => {
                let found = table.indexes.iter().find(|known| known.name == index);
                found.map_or(table.primary_key.clone(), |known| {
                    known.columns.iter().map(|column| column.name.clone()).collect()
                })
            }
            None => {
                let table = self.db.describe(&self.table).ok()?;
                let known = table.indexes.iter().find(|known| known.name == index)?;
                known.columns.iter().map(|column| column.name.clone()).collect()
            }
        };
        Some(names.join(","))
    }

    /// Adds what was kept, and how to go on, to a failure.
    fn explain(&self, failure: Failure, args: &LoadArgs) -> Failure {
        if failure.message.is_empty() {
            return failure;
        }
        let kept = plural_of(self.committed, "row is", "rows are");
        let batch = if self.unsure {
            "opening the database again will tell whether all of this batch was kept or none"
        } else {
            "nothing of this batch was kept"
        };
        let kept = format!("{batch}, {kept} committed");
        // Bad lines of a batch that was not kept are looked at again with the rest of it.
        let resume = args.skip + self.committed + self.settled;
        let failure = failure.and(kept).with("committed_rows", self.committed);
        if self.committed > 0 && !self.unsure {
            failure.and(format!("after mending it, go on with --skip {resume}"))
        } else {
            failure
        }
    }

    /// Adds to a failure after the last batch that the load itself is complete.
    fn explain_end(&self, failure: Failure, args: &LoadArgs, what: &str) -> Failure {
        let rows = plural_of(self.committed, "row is", "rows are");
        let kept = match args.relaxed {
            true => format!(
                "all {rows} committed, but as none waited for the disk, a crash may \
                             lose the newest batches"
            ),
            false => format!("the load is complete: {rows} committed and durable"),
        };
        failure.about(what).and(kept).with("committed_rows", self.committed)
    }

    /// One line that tells the columns of a new table.
    fn columns_text(&self, inferred: bool) -> String {
        let list: Vec<String> =
            self.columns.iter().map(|column| format!("{} {}", column.name, column.kind)).collect();
        let how = if inferred { "inferred columns" } else { "columns" };
        format!("table {}, {how}: {}", shown_text(&self.table), list.join(", "))
    }
}

/// What a message says between two pieces of it.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    Some(text.split_once(before)?.1.split_once(after)?.0)
}

/// Is it the row that is bad?
fn is_data(error: &Error) -> bool {
    match error {
        Error::UniqueViolation { .. }
        | Error::NotNullViolation { .. }
        | Error::CheckViolation { .. }
        | Error::RowTooLarge(_) => true,
        // A limit of memory, locks or the disk is none of the row: the next one meets it as well.
        _ => false,
    }
}

/// Memory for rows: half of what the budget has left.
fn rows_memory(db: &Database) -> Result<Reservation, Failure> {
    let budget = db.budget();
    let bytes = (budget.available() / 2).max(LEAST_MEMORY);
    let none = || Failure::usage("--memory is too small to hold any rows beside the pool");
    budget.try_reserve(bytes).ok_or_else(none)
}

/// The table that the options and the first file describe.
fn wanted_table(
    args: &LoadArgs,
    name: &str,
    first: &mut CsvFile,
    memory: usize,
) -> Result<TableSchema, Failure> {
    let mut table = TableSchema::new(name).primary_key(&args.primary_key);
    table.columns = match &args.schema {
        Some(text) => schema::columns(text)?,
        None => inferred_columns(args, first, memory)?,
    };
    let types: Vec<_> = table.columns.iter().map(|own| (own.name.as_str(), own.kind)).collect();
    let indexes = wanted_indexes(args, &types)?;
    table.indexes = indexes;
    let names = || table.columns.iter().map(|column| column.name.as_str());
    let keys = table
        .indexes
        .iter()
        .flat_map(|index| index.columns.iter().map(|key| &key.name).chain(&index.included));
    for name in table.primary_key.iter().chain(keys) {
        if !names().any(|known| known == name) {
            return Err(crate::names::unknown("column", name, " for a key", names()));
        }
    }
    Ok(table)
}

fn inferred_columns(
    args: &LoadArgs,
    first: &mut CsvFile,
    memory: usize,
) -> Result<Vec<ColumnSchema>, Failure> {
    let header = first.header.clone();
    let sample = first.sample(args.sample as usize, memory)?;
    let types = infer::types(header.len(), &sample, &args.null);
    let column = |(name, kind): (String, _)| {
        let nullable = !args.primary_key.contains(&name);
        ColumnSchema { nullable, ..ColumnSchema::new(name, kind) }
    };
    Ok(header.into_iter().zip(types).map(column).collect())
}

fn wanted_indexes(
    args: &LoadArgs,
    columns: &[(&str, rightlink::Type)],
) -> Result<Vec<rightlink::IndexSchema>, Failure> {
    let plain = args.index.iter().map(|text| schema::index(text, false, columns));
    let unique = args.unique_index.iter().map(|text| schema::index(text, true, columns));
    plain.chain(unique).collect()
}

/// Options that describe a table must fit the one that is there.
fn check_same(table: &TableInfo, args: &LoadArgs) -> Result<(), Failure> {
    let differs = |what: &str| {
        let name = shown_text(&table.name);
        let text = format!("table {name} exists, and its {what} differs from the options");
        Err(Failure::usage(text).and("leave them out to append"))
    };
    if let Some(text) = &args.schema
        && schema::columns(text)? != table.columns
    {
        return differs("schema");
    }
    if !args.primary_key.is_empty() && table.primary_key != args.primary_key {
        return differs("primary key");
    }
    let types: Vec<_> = table.columns.iter().map(|own| (own.name.as_str(), own.kind)).collect();
    for index in wanted_indexes(args, &types)? {
        if !schema::has_index(table, &index) {
            return differs(&format!("index {}", index.name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rightlink::{IndexSchema, Type};

    use super::*;

    /// With `--reject`, rows used to be put aside because there was no memory for them.
    #[test]
    fn a_limit_that_is_not_the_rows_own_is_no_bad_data() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path()).unwrap();
        let schema = TableSchema::new("t").column("a", Type::Text).column("b", Type::Bytes);
        let schema = schema.index(IndexSchema::new("t_a").on("a"));
        let mut work = db.begin();
        work.create_table(&schema).unwrap();
        let long = vec![Value::Text("x".repeat(5_000)), Value::Bytes(Vec::new())];
        let error = work.insert("t", &long).unwrap_err();
        assert!(matches!(error, Error::RowTooLarge(_)) && is_data(&error), "{error}");
        let most = db.budget().limit() / 16;
        let large = vec![Value::Text("x".into()), Value::Bytes(vec![0; most + 1])];
        let error = work.insert("t", &large).unwrap_err();
        assert!(matches!(error, Error::Limit(_)) && !is_data(&error), "{error}");
        let pages = Error::Limit("all 16 pages of the buffer pool are in use at once".into());
        assert!(!is_data(&pages));
    }
}
