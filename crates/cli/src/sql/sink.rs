//! Results of statements, printed as they come.
//!
//! Invariants: rows are printed in bounded memory; null is empty in a table and in CSV, `null` in
//! JSON. Does not do: binary COPY on a terminal.

use std::io::Write;

use rightlink_sql::{
    Column, CopyFormat, CopyHeader, Datum, Result, Row, Sink, SqlError, SqlType, Times,
};
use unicode_width::UnicodeWidthStr;

use crate::args::Format;
use crate::csv;
use crate::failure::Failure;
use crate::grid::{self, Grid};
use crate::json::Json;
use crate::output::Output;

/// Prints results to `output`.
pub(super) struct Printer<'o> {
    pub(super) output: &'o mut Output,
    pub(super) format: Format,
    /// Is a row a list of its columns, one a line?
    pub(super) expanded: bool,
    columns: Vec<Column>,
    grid: Option<Grid>,
    rows: u64,
    times: Times,
    /// Where the data of a COPY goes instead of `output`.
    pub(super) file: Option<Box<dyn Write + Send>>,
    /// Is data of a COPY printed? A tag would be taken for more of it.
    printed: bool,
    /// Is the data of the COPY that began something else than lines?
    pub(super) binary: bool,
    /// A failure of the output, which is no failure of the statement.
    pub(super) failed: Option<Failure>,
}

impl<'o> Printer<'o> {
    pub(super) fn new(output: &'o mut Output, format: Format) -> Self {
        Self {
            output,
            format,
            expanded: false,
            columns: Vec::new(),
            grid: None,
            rows: 0,
            times: Times::utc(),
            file: None,
            printed: false,
            binary: false,
            failed: None,
        }
    }

    fn keep(&mut self, result: std::result::Result<(), Failure>) -> Result<()> {
        result.map_err(|failure| {
            self.failed = Some(failure);
            SqlError::new("57014", "the output is closed")
        })
    }

    fn print(&mut self, row: &Row) -> std::result::Result<(), Failure> {
        let cells = || row.iter().map(|value| value.to_text_in(&self.times).unwrap_or_default());
        match self.format {
            Format::Table if self.expanded => self.record(row),
            Format::Table => {
                let cells = cells().collect();
                match &mut self.grid {
                    Some(grid) => grid.row(cells, self.output),
                    None => Ok(()),
                }
            }
            Format::Csv => self.output.line(csv::to_line(cells())),
            Format::Json => {
                let pairs = self.columns.iter().zip(row);
                let fields =
                    pairs.map(|(column, value)| (column.name.clone(), json(value, &self.times)));
                self.output.line(Json::Object(fields.collect()))
            }
        }
    }

    /// Prints a row as a list of its columns.
    fn record(&mut self, row: &Row) -> std::result::Result<(), Failure> {
        let names: Vec<String> =
            self.columns.iter().map(|column| grid::one_line(&column.name)).collect();
        let width = names.iter().map(|name| name.width()).max().unwrap_or(0);
        let head = format!("-[ RECORD {} ]", self.rows);
        self.output.line(format_args!("{head:-<0$}", width + 3))?;
        for (name, value) in names.iter().zip(row) {
            let value = grid::one_line(&value.to_text_in(&self.times).unwrap_or_default());
            let blanks = " ".repeat(width - name.width());
            let line = format!("{name}{blanks} | {value}");
            self.output.line(line.trim_end())?;
        }
        Ok(())
    }

    fn finish(&mut self) -> std::result::Result<(), Failure> {
        let Some(grid) = self.grid.take() else { return Ok(()) };
        let rows = self.rows;
        if !self.expanded {
            grid.finish(self.output)?;
        } else if rows > 0 {
            return Ok(());
        }
        self.output.line(format_args!("({rows} {})", if rows == 1 { "row" } else { "rows" }))
    }
}

fn json(value: &Datum, times: &Times) -> Json {
    match value {
        Datum::Null => Json::Null,
        Datum::Bool(v) => Json::Bool(*v),
        Datum::Int2(v) => Json::Int(i128::from(*v)),
        Datum::Int4(v) => Json::Int(i128::from(*v)),
        Datum::Int8(v) => Json::Int(i128::from(*v)),
        Datum::Float4(v) if v.is_finite() => Json::raw(v.to_string()),
        Datum::Float8(v) if v.is_finite() => Json::raw(v.to_string()),
        Datum::Numeric(v) => Json::raw(v.to_string()),
        other => Json::Text(other.to_text_in(times).unwrap_or_default()),
    }
}

fn is_number(ty: SqlType) -> bool {
    use SqlType as T;
    matches!(ty, T::Int2 | T::Int4 | T::Int8 | T::Float4 | T::Float8 | T::Numeric)
}

impl Sink for Printer<'_> {
    fn columns(&mut self, columns: &[Column]) -> Result<()> {
        self.columns = columns.to_vec();
        self.rows = 0;
        let names = columns.iter().map(|column| column.name.clone());
        match self.format {
            Format::Table => {
                let right = columns.iter().map(|column| is_number(column.ty)).collect();
                self.grid = Some(Grid::with(names, right));
                Ok(())
            }
            Format::Csv => {
                let line = csv::to_line(names);
                let result = self.output.line(line);
                self.keep(result)
            }
            Format::Json => Ok(()),
        }
    }

    fn times(&mut self, times: &Times) {
        self.times.clone_from(times);
    }

    fn row(&mut self, row: Row) -> Result<()> {
        self.rows += 1;
        let result = self.print(&row);
        self.keep(result)
    }

    fn complete(&mut self, tag: &str) -> Result<()> {
        let has_rows = self.grid.is_some();
        let mut result = self.finish();
        if let (Ok(()), Some(file)) = (&result, &mut self.file) {
            result = file.flush().map_err(|error| Failure::file("file", &error));
        }
        let printed = std::mem::take(&mut self.printed);
        let quiet =
            has_rows || printed || self.format != Format::Table || tag.starts_with("SELECT");
        if result.is_ok() && !quiet {
            result = self.output.line(tag);
        }
        self.keep(result)
    }

    fn notice(&mut self, severity: &str, message: &str) {
        // Order among results and messages is kept where both go to a terminal.
        let _ = self.output.flush();
        eprintln!("{severity}:  {message}");
    }

    fn copy_in(&mut self, header: CopyHeader) -> Result<()> {
        self.binary = header.format == CopyFormat::Binary;
        Ok(())
    }

    fn copy_out(&mut self, _: CopyHeader) -> Result<()> {
        self.printed = self.file.is_none();
        Ok(())
    }

    fn copy_data(&mut self, bytes: &[u8]) -> Result<()> {
        let result = match &mut self.file {
            Some(file) => file.write_all(bytes).map_err(|error| Failure::file("file", &error)),
            None => self.output.bytes(bytes),
        };
        self.keep(result)
    }
}
