//! Runs the files in `tests/slt`: statements with what PostgreSQL 15 answers to them.
//!
//! A file is made of records between empty lines:
//!
//! ```text
//! statement ok            statement error 23505        query
//! insert into t ...       insert into t ...            select ...
//!                                                      ----
//!                                                      1|a
//! ```
//!
//! A query's rows are lines with fields between `|`, `NULL` for null. `query columns` begins with
//! the names of the columns. `statement TAG` expects that tag. `query error CODE` is a statement
//! that fails. After `copy TAG` comes a COPY FROM STDIN, and below the line the COPY TO STDOUT that
//! gives its data. Every file has a database of its own, which is verified at its end.
//!
//! Does not do: conditions, loops.

use rightlink::Database;
use rightlink_sql::{Column, CopyHeader, Outcome, Result, Row, Session, Sink, Times};

/// A record of a file.
struct Record {
    line: usize,
    head: String,
    sql: String,
    expected: Vec<String>,
}

fn records(text: &str) -> Vec<Record> {
    let mut records = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((at, head)) = lines.next() {
        if head.trim().is_empty() || head.starts_with('#') {
            continue;
        }
        let mut record = Record {
            line: at + 1,
            head: head.to_owned(),
            sql: String::new(),
            expected: Vec::new(),
        };
        let mut rows = false;
        while let Some((_, line)) = lines.next_if(|(_, line)| !line.is_empty()) {
            if line == "----" {
                rows = true;
            } else if rows {
                record.expected.push(line.to_owned());
            } else {
                record.sql.push_str(line);
                record.sql.push('\n');
            }
        }
        records.push(record);
    }
    records
}

fn shown(outcome: &Outcome, columns: bool, times: &Times) -> Vec<String> {
    let mut lines = Vec::new();
    if columns {
        let names = outcome.columns.iter().flatten().map(|column| column.name.clone());
        lines.push(names.collect::<Vec<_>>().join("|"));
    }
    for row in &outcome.rows {
        let fields = row.iter().map(|d| d.to_text_in(times).unwrap_or_else(|| "NULL".to_owned()));
        lines.push(fields.collect::<Vec<_>>().join("|"));
    }
    lines
}

/// Data of a COPY.
#[derive(Default)]
struct Data(Vec<u8>);

impl Sink for Data {
    fn columns(&mut self, _: &[Column]) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, _: Row) -> Result<()> {
        Ok(())
    }

    fn complete(&mut self, _: &str) -> Result<()> {
        Ok(())
    }

    fn notice(&mut self, _: &str, _: &str) {}

    fn copy_in(&mut self, _: CopyHeader) -> Result<()> {
        Ok(())
    }

    fn copy_out(&mut self, _: CopyHeader) -> Result<()> {
        Ok(())
    }

    fn copy_data(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

/// Runs the COPY FROM of a record with the data of its COPY TO; the tag.
fn copy(session: &mut Session, record: &Record) -> Result<String> {
    let mut data = Data::default();
    session.run(&record.expected.join("\n"), &mut data)?;
    session.run(&record.sql, &mut Data::default())?;
    session.copy_data(&data.0)?;
    session.copy_done()
}

/// What is wrong with a record, if anything is.
fn check(session: &mut Session, record: &Record) -> Option<String> {
    let words: Vec<&str> = record.head.split_whitespace().collect();
    if let ["copy", tag @ ..] = words.as_slice() {
        let found = copy(session, record).unwrap_or_else(|error| error.to_string());
        return (found != tag.join(" ")).then_some(found);
    }
    let result = session.execute(&record.sql);
    match (words.as_slice(), result) {
        ([_, "error", code], Err(error)) => {
            (error.sqlstate != *code).then(|| format!("{} {error}", error.sqlstate))
        }
        ([_, "error", _], Ok(_)) => Some("no error".to_owned()),
        (_, Err(error)) => Some(format!("{} {error} at {:?}", error.sqlstate, error.position)),
        (["statement", "ok"], Ok(_)) => None,
        (["statement", tag @ ..], Ok(outcomes)) => {
            let found = outcomes.last().map(|outcome| outcome.tag.clone()).unwrap_or_default();
            (found != tag.join(" ")).then_some(found)
        }
        (["query", rest @ ..], Ok(outcomes)) => {
            let outcome = outcomes.last().cloned().unwrap_or_default();
            let found = shown(&outcome, rest.contains(&"columns"), &session.times());
            let found = found.join("\n");
            (found != record.expected.join("\n")).then_some(found)
        }
        _ => Some("a record of no known kind".to_owned()),
    }
}

fn run(name: &str) {
    let path = format!("{}/tests/slt/{name}.slt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    let mut wrong = Vec::new();
    let records = records(&text);
    assert!(!records.is_empty(), "{path} has records");
    for record in &records {
        if let Some(found) = check(&mut session, record) {
            wrong.push(format!(
                "{name}.slt:{}: {}{}\n  found: {found}",
                record.line, record.head, record.sql
            ));
        }
    }
    drop(session);
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{name}: {:?}", report.findings);
    assert!(
        wrong.is_empty(),
        "{} of {} records:\n{}",
        wrong.len(),
        records.len(),
        wrong.join("\n")
    );
}

macro_rules! files {
    ($($name:ident)*) => { $(#[test] fn $name() { run(stringify!($name)); })* };
}

files!(
    expressions basics errors transactions paths grouping unsupported lengths definitions references
    upsert catalogs collations storage partial expression_indexes unique_constraints
    retype cascades names sequences refused_statements
    comments pages settings figures hot_updates copy_batches fuzzy_order dead_rows statistics
    schemas cursors information intervals dates floats blanks refused_definitions copy_options
    copy_choices
    session_state catalog_joins catalog_names hidden_values catalog_relations catalog_parts
    early_joins strict_syntax casing tool_start numerics joins
    subqueries
    set_operations windows update_from set_returning ordered_aggregates grouping_sets functions
    recursive regular_expressions window_exclusion planner sessions
    row_values row_edges strange_numerics temporary_tables overlaps deferred_keys table_like
    deferrable_unique
    spelled_names spelled_expressions spelled_conditions spelled_views
    view_texts roles views materialized_views updatable_views table_as
    writing_with joined_locks
    arrays array_functions array_edges asked_once element_assignment
    json_access json_change json_path
    enums enum_names domains row_comparison no_columns
    time_zones time_styles time_of_day formats two_phase
    addresses bit_strings log_places composites composite_types unique_indexes
    functions_made functions_of_rows functions_overloaded functions_in_catalogs
    functions_that_run functions_in_views functions_in_definitions told_functions
    numeric_powers interval_columns short_spellings using_index
    generated_columns generated_definitions operator_classes blocks custom_settings
    sequences_by_number locking_queries tool_names
);

#[test]
fn every_file_is_run() {
    let dir = format!("{}/tests/slt", env!("CARGO_MANIFEST_DIR"));
    let own = std::fs::read_to_string(format!("{}/tests/api/slt.rs", env!("CARGO_MANIFEST_DIR")))
        .unwrap();
    let list = own.split("\nfiles!(").nth(1).unwrap().split(')').next().unwrap().to_owned();
    for entry in std::fs::read_dir(dir).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let stem = name.strip_suffix(".slt").unwrap();
        assert!(list.split_whitespace().any(|known| known == stem), "{name} is not run");
    }
}
