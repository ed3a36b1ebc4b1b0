//! Lines to statements, and the commands that begin with a backslash.
//!
//! Invariants: a statement runs when its semicolon has come; lines after a COPY FROM are its data
//! up to `\.`. Does not do: variables, conditions.

use std::io::BufRead;

use rightlink::{IndexInfo, IndexMethod, TableInfo};
use rightlink_sql::{Session, TransactionStatus, is_complete};

use super::failure;
use super::sink::Printer;
use crate::args::Format;
use crate::clock::Stopwatch;
use crate::failure::{Exit, Failure};
use crate::figures::duration;
use crate::grid::Grid;
use crate::output::Output;

const HELP: &str = "\
  \\d [TABLE]       columns and indexes of a table; without a name all tables
  \\dt, \\di         tables, indexes
  \\timing          show how long statements take, or stop it
  \\format FORMAT   table, csv or json
  \\q               leave
A statement ends with a semicolon.";

/// A shell on a session.
pub(super) struct Shell {
    session: Session,
    format: Format,
    timing: bool,
}

impl Shell {
    pub(super) fn new(session: Session, format: Format) -> Self {
        Self { session, format, timing: false }
    }

    /// Runs a message.
    pub(super) fn text(&mut self, sql: &str, output: &mut Output) -> Result<(), Failure> {
        if let Some(command) = sql.trim().strip_prefix('\\') {
            return self.command(command, output).map(|_| ());
        }
        let clock = Stopwatch::start();
        let mut printer = Printer::new(output, self.format);
        let result = self.session.run(sql, &mut printer);
        if let Some(failure) = printer.failed.take() {
            return Err(failure);
        }
        result.map_err(|error| failure(&error, sql))?;
        if self.timing {
            output.line(format_args!("Time: {}", duration(clock.elapsed())))?;
        }
        Ok(())
    }

    /// Runs what the lines say; at a terminal errors are told and the next line is read.
    pub(super) fn lines(
        &mut self,
        input: impl BufRead,
        terminal: bool,
        output: &mut Output,
    ) -> Result<Exit, Failure> {
        let mut pending = String::new();
        self.prompt(terminal, "", output)?;
        for line in input.lines() {
            let line = line.map_err(|error| Failure::file("input", &error))?;
            let result = match self.line(&line, &mut pending, output) {
                Ok(true) => return Ok(Exit::Done),
                Ok(false) => Ok(()),
                Err(failure) if terminal && !failure.message.is_empty() => {
                    output.flush()?;
                    eprintln!("{}", failure.message);
                    Ok(())
                }
                Err(failure) => Err(failure),
            };
            result?;
            self.prompt(terminal, &pending, output)?;
        }
        if self.session.is_copying() {
            self.copy_line("\\.", output)?;
        }
        if !pending.trim().is_empty() {
            self.text(&std::mem::take(&mut pending), output)?;
        }
        Ok(Exit::Done)
    }

    fn prompt(&self, terminal: bool, pending: &str, output: &mut Output) -> Result<(), Failure> {
        if terminal && !self.session.is_copying() {
            let state = match self.session.status() {
                TransactionStatus::Idle => "",
                TransactionStatus::Block => "*",
                TransactionStatus::Failed => "!",
            };
            let sign = if pending.is_empty() { "=" } else { "-" };
            output.bytes(format!("rightlink{sign}{state}> ").as_bytes())?;
            output.flush()?;
        }
        Ok(())
    }

    /// Takes a line; true if it was the wish to leave.
    fn line(
        &mut self,
        line: &str,
        pending: &mut String,
        output: &mut Output,
    ) -> Result<bool, Failure> {
        if self.session.is_copying() {
            return self.copy_line(line, output).map(|()| false);
        }
        if pending.trim().is_empty()
            && let Some(command) = line.trim().strip_prefix('\\')
        {
            return self.command(command, output);
        }
        pending.push_str(line);
        pending.push('\n');
        if !is_complete(pending) {
            return Ok(false);
        }
        let sql = std::mem::take(pending);
        self.text(sql.trim_end(), output).map(|()| false)
    }

    fn copy_line(&mut self, line: &str, output: &mut Output) -> Result<(), Failure> {
        if line == "\\." {
            let tag = self.session.copy_done().map_err(|error| failure(&error, ""))?;
            return if self.format == Format::Table { output.line(tag) } else { Ok(()) };
        }
        let bytes = format!("{line}\n");
        self.session.copy_data(bytes.as_bytes()).map_err(|error| failure(&error, ""))
    }

    fn command(&mut self, command: &str, output: &mut Output) -> Result<bool, Failure> {
        let mut words = command.split_whitespace();
        let (name, arg) = (words.next().unwrap_or(""), words.next());
        match (name, arg) {
            ("q" | "quit", _) => return Ok(true),
            ("?" | "h" | "help", _) => output.line(HELP)?,
            ("timing", _) => {
                self.timing = !self.timing;
                output.line(if self.timing { "Timing is on." } else { "Timing is off." })?;
            }
            ("format", Some(format)) => {
                self.format = match format {
                    "table" => Format::Table,
                    "csv" => Format::Csv,
                    "json" => Format::Json,
                    _ => return Err(Failure::usage("a format is table, csv or json")),
                };
            }
            ("d" | "dt", None) => self.tables(output)?,
            ("di", _) => self.indexes(output)?,
            ("d", Some(table)) => self.table(table, output)?,
            _ => return Err(Failure::usage(format!("there is no command \\{name}; see \\?"))),
        }
        Ok(false)
    }

    fn known(&mut self) -> Result<Vec<TableInfo>, Failure> {
        self.session.tables().map_err(|error| failure(&error, ""))
    }

    fn tables(&mut self, output: &mut Output) -> Result<(), Failure> {
        let mut grid = Grid::new(["name", ">columns", ">indexes", ">blocks"]);
        for table in self.known()? {
            let (columns, indexes) = (table.columns.len(), table.indexes.len());
            let numbers = [columns.to_string(), indexes.to_string(), table.heap_blocks.to_string()];
            grid.row([table.name].into_iter().chain(numbers).collect(), output)?;
        }
        grid.finish(output)
    }

    fn indexes(&mut self, output: &mut Output) -> Result<(), Failure> {
        let mut grid = Grid::new(["name", "table", "definition", ">blocks"]);
        for table in self.known()? {
            for index in &table.indexes {
                let blocks = index.blocks.to_string();
                let cells = vec![index.name.clone(), table.name.clone(), definition(index), blocks];
                grid.row(cells, output)?;
            }
        }
        grid.finish(output)
    }

    fn table(&mut self, name: &str, output: &mut Output) -> Result<(), Failure> {
        let name = name.trim_matches(['"', ';']);
        let tables = self.known()?;
        let Some(table) = tables.iter().find(|table| table.name == name) else {
            return Err(Failure::new(Exit::NotFound, format!("there is no table \"{name}\"")));
        };
        output.line(format_args!("Table \"{}\"", table.name))?;
        let mut grid = Grid::new(["column", "type", "nullable"]);
        for column in &table.columns {
            let ty = rightlink_sql::SqlType::of_column(column.kind).name().to_owned();
            let nullable = if column.nullable { "" } else { "not null" }.to_owned();
            grid.row(vec![column.name.clone(), ty, nullable], output)?;
        }
        grid.finish(output)?;
        if !table.indexes.is_empty() {
            output.line("Indexes:")?;
        }
        for index in &table.indexes {
            output.line(format_args!("    \"{}\" {}", index.name, definition(index)))?;
        }
        Ok(())
    }
}

/// An index as its definition says.
fn definition(index: &IndexInfo) -> String {
    let method = if index.method == IndexMethod::BTree { "btree" } else { "hash" };
    let kind = match (index.primary, index.unique) {
        (true, _) => "primary key, ",
        (false, true) => "unique, ",
        (false, false) => "",
    };
    let column = |column: &rightlink::KeyColumnInfo| {
        let order = if column.descending { " desc" } else { "" };
        let nulls = match (column.descending, column.nulls_first) {
            (false, true) => " nulls first",
            (true, false) => " nulls last",
            _ => "",
        };
        format!("{}{order}{nulls}", column.name)
    };
    let columns: Vec<String> = index.columns.iter().map(column).collect();
    let definition = format!("{kind}{method} ({}) {}", columns.join(", "), index.clauses());
    definition.trim_end().to_owned()
}
