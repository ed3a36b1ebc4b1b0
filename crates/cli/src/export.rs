//! `export`: all rows of a table, for `load` or for other programs.
//!
//! Invariants: the rows are those of one snapshot and are written as they come, in bounded memory;
//! a value that would be read back as null ends the export with an error that names its column.
//! Does not do: choosing rows (`scan`), order.

use rightlink::{ColumnSchema, ScanOptions, Value};

use crate::args::{Common, ExportArgs, ExportFormat, Format};
use crate::csv::to_line;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::rows::Printer;
use crate::scan::chosen_columns;
use crate::{names, open};

/// Writes the rows.
pub(crate) fn run(
    common: &Common,
    args: &ExportArgs,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let db = open::existing(common, &args.db)?;
    let table = names::table(&db, &args.table)?;
    let columns = chosen_columns(&table, args.columns.as_deref())?;
    let names = columns.iter().map(|column| column.name.as_str());
    let options = ScanOptions::all().columns(names);
    let json = output.json() || args.format == ExportFormat::Jsonl;
    let format = if json { Format::Json } else { Format::Csv };
    let mut printer = Printer::start(format, &columns, output)?;
    let mut work = db.begin();
    let mut rows = 0;
    for row in work.scan(&table.name, &options)? {
        let values = row?.values;
        if json {
            printer.row(&values, output)?;
        } else {
            output.line(line(&values, &columns, &args.null)?)?;
        }
        rows += 1;
    }
    printer.finish(rows, output)?;
    work.rollback();
    db.close()?;
    Ok(Exit::Done)
}

/// A row as CSV, its nulls as `null`.
fn line(values: &[Value], columns: &[&ColumnSchema], null: &str) -> Result<String, Failure> {
    let mut fields = Vec::with_capacity(values.len());
    for (value, column) in values.iter().zip(columns) {
        let text = match value {
            Value::Null => null.to_owned(),
            other => other.to_string(),
        };
        if text == null && *value != Value::Null {
            let what = format!("a value of column {} would be read back as null", column.name);
            let hint = format!("it is {text:?}: choose another text for null by --null, as \\N");
            return Err(Failure::new(Exit::BadData, what).and(hint));
        }
        fields.push(text);
    }
    Ok(to_line(fields.into_iter()))
}
