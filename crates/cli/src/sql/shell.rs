//! Lines to statements, and the commands that begin with a backslash.
//!
//! Invariants: a statement runs when its semicolon has come; lines after a COPY FROM are its data
//! up to `\.`, also after it has failed. Does not do: variables, conditions.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use rightlink::{IndexInfo, IndexMethod, TableInfo};
use rightlink_sql::{
    Session, TransactionStatus, is_complete, is_materialized_view, is_view, shown_text, stored_name,
};

use super::failure;
use super::file_copy::FileCopy;
use super::pager::{Paged, Pager};
use super::sink::Printer;
use super::terminal::{Terminal, Typed, Watch};
use crate::args::Format;
use crate::clock::Stopwatch;
use crate::failure::{Exit, Failure};
use crate::figures::duration;
use crate::grid::Grid;
use crate::names;
use crate::output::Output;

const HELP: &str = "\
  \\d [TABLE]       columns and indexes of a table; without a name all tables
  \\dt, \\dv         tables, views
  \\di, \\du         indexes, users
  \\l               the database
  \\i FILE          run the lines of a file
  \\copy ...        COPY with a file of this machine: \\copy TABLE from 'FILE' csv
  \\timing          show how long statements take, or stop it
  \\format FORMAT   table, csv or json
  \\x [on|off]      show each row as a list of its columns, or stop it
  \\pager [on|off]  show long results by $PAGER, or stop it
  \\q               leave
A statement ends with a semicolon.";

/// A shell on a session.
pub(super) struct Shell {
    session: Session,
    format: Format,
    timing: bool,
    /// Is the data of the COPY under way something else than lines?
    binary: bool,
    /// Is the rest of a COPY's data passed over, which has failed?
    passing: bool,
    /// Is a row shown as a list of its columns?
    expanded: bool,
    /// Shows long results to somebody who types.
    pager: Option<Pager>,
    place: Place,
    /// Files that are being run, each by the one before it.
    files: usize,
}

/// Which database it is.
pub(super) struct Place {
    pub(super) name: String,
    pub(super) directory: PathBuf,
}

/// Files that may run each other.
const MOST_FILES: usize = 16;

/// Bytes that are read at a time.
const PIECE: usize = 64 << 10;

impl Shell {
    pub(super) fn new(session: Session, format: Format, place: Place) -> Self {
        Self {
            session,
            format,
            timing: false,
            binary: false,
            passing: false,
            expanded: false,
            pager: None,
            place,
            files: 0,
        }
    }

    /// Runs a message.
    pub(super) fn text(&mut self, sql: &str, output: &mut Output) -> Result<(), Failure> {
        if let Some(command) = sql.trim().strip_prefix('\\') {
            return self.command(command, output).map(|_| ());
        }
        self.statement(sql, None, output)
    }

    /// Runs a statement; what a COPY sends goes to `file` if there is one.
    fn statement(
        &mut self,
        sql: &str,
        file: Option<Box<dyn Write + Send>>,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let clock = Stopwatch::start();
        let pager = self.pager.clone().filter(|_| self.format == Format::Table && file.is_none());
        let before = match pager {
            Some(pager) => Some(output.diverted(Box::new(Paged::new(pager)))?),
            None => None,
        };
        let mut printer = Printer::new(output, self.format);
        (printer.file, printer.expanded) = (file, self.expanded);
        let result = self.session.run(sql, &mut printer);
        self.binary = printer.binary;
        let failed = printer.failed.take();
        let returned = before.map_or(Ok(()), |before| output.returned(before));
        if let Some(failure) = failed {
            return Err(failure);
        }
        returned?;
        self.notifications(output)?;
        result.map_err(|error| failure(&error, sql))?;
        if self.timing {
            output.line(format_args!("Time: {}", duration(clock.elapsed())))?;
        }
        Ok(())
    }

    /// Shows the notifications that have come, in psql's words.
    fn notifications(&mut self, output: &mut Output) -> Result<(), Failure> {
        for one in self.session.take_notifications() {
            let text = match one.payload.is_empty() {
                true => String::new(),
                false => format!(" with payload \"{}\"", one.payload),
            };
            output.line(format_args!(
                "Asynchronous notification \"{}\"{text} received from server process with PID {}.",
                one.channel, one.pid
            ))?;
        }
        Ok(())
    }

    /// Hands over the data of a COPY that waits for some, up to the end or `\.`.
    pub(super) fn data(
        &mut self,
        mut input: impl BufRead,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let mut line = Vec::new();
        while self.session.is_copying() {
            line.clear();
            let read = input.by_ref().take(PIECE as u64).read_until(b'\n', &mut line);
            read.map_err(|error| Failure::file("standard input", &error))?;
            let marked = matches!(line.as_slice(), b"\\." | b"\\.\n" | b"\\.\r\n");
            if line.is_empty() || (marked && !self.binary) {
                self.copy_line("\\.", output)?;
            } else {
                self.session.copy_data(&line).map_err(|error| failure(&error, ""))?;
            }
        }
        Ok(())
    }

    /// Runs what the lines say.
    pub(super) fn lines(
        &mut self,
        input: impl BufRead,
        output: &mut Output,
    ) -> Result<Exit, Failure> {
        self.lines_of(input, output).map(|_| Exit::Done)
    }

    /// As [`Shell::lines`]; true if one was the wish to leave.
    fn lines_of(&mut self, input: impl BufRead, output: &mut Output) -> Result<bool, Failure> {
        let mut pending = String::new();
        for line in input.lines() {
            let line = line.map_err(|error| Failure::file("input", &error))?;
            if self.line(&line, &mut pending, output)? {
                return Ok(true);
            }
        }
        if self.session.is_copying() {
            self.copy_line("\\.", output)?;
        }
        if !pending.trim().is_empty() {
            self.text(&std::mem::take(&mut pending), output)?;
        }
        Ok(false)
    }

    /// Runs what somebody types: errors are told, and the next line is read.
    pub(super) fn talk(&mut self, output: &mut Output) -> Result<Exit, Failure> {
        let mut terminal = Terminal::open()?;
        self.pager = Pager::find();
        let _watch = Watch::new(self.session.interrupt())?;
        let mut pending = String::new();
        loop {
            output.flush()?;
            let typing_data = self.session.is_copying() || self.passing;
            if pending.is_empty() && !typing_data {
                terminal.know(self.names());
            }
            let done = match terminal.line(&self.prompt(&pending))? {
                Typed::Line(line) => {
                    if !typing_data {
                        terminal.remember(&line);
                    }
                    self.several(&line, &mut pending, output)?
                }
                Typed::Interrupted => {
                    pending.clear();
                    self.passing = false;
                    if self.session.is_copying() {
                        let error = self.session.copy_fail("canceled by user");
                        self.tell(&failure(&error, ""), output)?;
                    }
                    false
                }
                Typed::End if typing_data => self.step("\\.", &mut pending, output)?,
                Typed::End => true,
            };
            if done {
                return Ok(Exit::Done);
            }
        }
    }

    /// Takes what was typed at once: lines that are pasted are several.
    fn several(
        &mut self,
        text: &str,
        pending: &mut String,
        output: &mut Output,
    ) -> Result<bool, Failure> {
        for line in text.split('\n') {
            if self.step(line, pending, output)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes a line and tells what is wrong; true if it was the wish to leave. Data that was sent
    /// after a COPY has failed is no statement.
    fn step(
        &mut self,
        line: &str,
        pending: &mut String,
        output: &mut Output,
    ) -> Result<bool, Failure> {
        if self.passing {
            self.passing = line != "\\.";
            return Ok(false);
        }
        let was_copying = self.session.is_copying();
        match self.line(line, pending, output) {
            Err(failure) if !failure.message.is_empty() => {
                self.passing = was_copying && line != "\\.";
                self.tell(&failure, output).map(|()| false)
            }
            other => other,
        }
    }

    fn tell(&self, failure: &Failure, output: &mut Output) -> Result<(), Failure> {
        output.flush()?;
        eprintln!("{}", failure.message);
        Ok(())
    }

    fn prompt(&self, pending: &str) -> String {
        if self.session.is_copying() || self.passing {
            return String::new();
        }
        let state = match self.session.status() {
            TransactionStatus::Idle => "",
            TransactionStatus::Block => "*",
            TransactionStatus::Failed => "!",
        };
        let sign = if pending.is_empty() { "=" } else { "-" };
        format!("rightlink{sign}{state}> ")
    }

    /// Names of tables, columns and indexes; none while the transaction has failed.
    fn names(&mut self) -> Vec<String> {
        let mut names = Vec::new();
        for table in self.session.tables().unwrap_or_default() {
            names.extend(names::shown(&table).map(|column| column.name.clone()));
            names.extend(table.indexes.iter().map(|index| shown_text(&index.name)));
            names.push(shown_text(&table.name));
        }
        names
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

    /// A COPY with a file of this machine.
    fn copy_file(&mut self, text: &str, output: &mut Output) -> Result<(), Failure> {
        let wanted = "\\copy takes TABLE [(COLUMNS)] or (QUERY), from or to, 'FILE', [OPTIONS]";
        let copy = FileCopy::parse(text).ok_or_else(|| Failure::usage(wanted))?;
        let Some(name) = copy.path else { return self.statement(&copy.sql, None, output) };
        let broken = |error: io::Error| Failure::file(&name, &error);
        let mut options = std::fs::OpenOptions::new();
        if !copy.from {
            let file = options.write(true).create(true).truncate(true).open(&name);
            let file = io::BufWriter::new(file.map_err(broken)?);
            return self.statement(&copy.sql, Some(Box::new(file)), output);
        }
        let mut file = options.read(true).open(&name).map_err(broken)?;
        self.statement(&copy.sql, None, output)?;
        let mut piece = vec![0; PIECE];
        loop {
            let count = match file.read(&mut piece) {
                Ok(count) => count,
                Err(error) => {
                    let _ = self.session.copy_fail("the file cannot be read");
                    return Err(broken(error));
                }
            };
            if count == 0 {
                return self.copy_line("\\.", output);
            }
            self.session.copy_data(&piece[..count]).map_err(|error| failure(&error, ""))?;
        }
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
            ("x", how) => {
                self.expanded = switched(how, self.expanded)?;
                let state = if self.expanded { "on" } else { "off" };
                output.line(format_args!("Expanded display is {state}."))?;
            }
            ("pager", how) => {
                let is_on = switched(how, self.pager.is_some())?;
                self.pager = if is_on { Pager::find() } else { None };
                let state = if self.pager.is_some() { "on" } else { "off" };
                output.line(format_args!("Pager is {state}."))?;
            }
            ("i" | "include", Some(_)) => {
                let rest = command.trim_start_matches(name).trim();
                let rest = rest.strip_suffix(';').unwrap_or(rest).trim();
                let path = rest.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
                return self.file(Path::new(path.unwrap_or(rest)), output);
            }
            ("l" | "list", _) => self.databases(output)?,
            ("du" | "dg", _) => self.users(output)?,
            ("copy", _) => self.copy_file(command.strip_prefix("copy").unwrap_or(""), output)?,
            ("d" | "dt", None) => self.tables(output)?,
            ("dv", _) => self.views(output)?,
            ("di", _) => self.indexes(output)?,
            ("d", Some(table)) => self.table(table, output)?,
            _ => return Err(Failure::usage(format!("there is no command \\{name}; see \\?"))),
        }
        Ok(false)
    }

    /// Runs the lines of a file; true if one was the wish to leave.
    fn file(&mut self, path: &Path, output: &mut Output) -> Result<bool, Failure> {
        if self.files >= MOST_FILES {
            return Err(Failure::usage(format!("more than {MOST_FILES} files run each other")));
        }
        let name = path.display().to_string();
        let file = std::fs::OpenOptions::new().read(true).open(path);
        let file = file.map_err(|error| Failure::file(&name, &error))?;
        self.files += 1;
        let done = self.lines_of(BufReader::new(file), output);
        self.files -= 1;
        done.map_err(
            |failure| if failure.message.is_empty() { failure } else { failure.about(&name) },
        )
    }

    fn databases(&mut self, output: &mut Output) -> Result<(), Failure> {
        let mut grid = Grid::new(["name", "encoding", "directory"]);
        let directory = self.place.directory.display().to_string();
        grid.row(vec![self.place.name.clone(), "UTF8".to_owned(), directory], output)?;
        grid.finish(output)
    }

    /// A shell has no server: whoever can open the database may do everything.
    fn users(&mut self, output: &mut Output) -> Result<(), Failure> {
        let mut grid = Grid::new(["name", "attributes"]);
        grid.row(vec![self.session.user().to_owned(), "superuser".to_owned()], output)?;
        grid.finish(output)
    }

    fn known(&mut self) -> Result<Vec<TableInfo>, Failure> {
        self.session.tables().map_err(|error| failure(&error, ""))
    }

    fn tables(&mut self, output: &mut Output) -> Result<(), Failure> {
        let mut grid = Grid::new(["name", ">columns", ">indexes", ">blocks"]);
        for table in self.known()?.into_iter().filter(|table| !is_any_view(&table.note)) {
            let (columns, indexes) = (names::shown(&table).count(), table.indexes.len());
            let numbers = [columns.to_string(), indexes.to_string(), table.heap_blocks.to_string()];
            grid.row([shown_text(&table.name)].into_iter().chain(numbers).collect(), output)?;
        }
        grid.finish(output)
    }

    fn views(&mut self, output: &mut Output) -> Result<(), Failure> {
        let mut grid = Grid::new(["name", ">columns"]);
        for view in self.known()?.into_iter().filter(|table| is_any_view(&table.note)) {
            grid.row(vec![shown_text(&view.name), view.columns.len().to_string()], output)?;
        }
        grid.finish(output)
    }

    fn indexes(&mut self, output: &mut Output) -> Result<(), Failure> {
        let mut grid = Grid::new(["name", "table", "definition", ">blocks"]);
        for table in self.known()? {
            for index in &table.indexes {
                let blocks = index.blocks.to_string();
                let names = [&index.name, &table.name].map(|name| shown_text(name));
                let cells = names.into_iter().chain([definition(index), blocks]).collect();
                grid.row(cells, output)?;
            }
        }
        grid.finish(output)
    }

    fn table(&mut self, name: &str, output: &mut Output) -> Result<(), Failure> {
        let name = name.trim_matches(['"', ';']);
        let tables = self.known()?;
        let Some(table) =
            tables.iter().find(|table| table.name == name || table.name == stored_name(name))
        else {
            return Err(Failure::new(Exit::NotFound, format!("there is no table \"{name}\"")));
        };
        output.line(format_args!("Table \"{}\"", shown_text(&table.name)))?;
        let mut grid = Grid::new(["column", "type", "nullable"]);
        for column in &table.columns {
            let ty = rightlink_sql::column_type(column);
            let nullable = if column.nullable { "" } else { "not null" }.to_owned();
            grid.row(vec![column.name.clone(), ty, nullable], output)?;
        }
        grid.finish(output)?;
        if !table.indexes.is_empty() {
            output.line("Indexes:")?;
        }
        for index in &table.indexes {
            output.line(format_args!(
                "    \"{}\" {}",
                shown_text(&index.name),
                definition(index)
            ))?;
        }
        Ok(())
    }
}

/// What a switch becomes: the other thing if nobody says which.
fn switched(how: Option<&str>, now: bool) -> Result<bool, Failure> {
    match how.map(|how| how.trim_end_matches(';')) {
        None | Some("") => Ok(!now),
        Some("on") => Ok(true),
        Some("off") => Ok(false),
        Some(_) => Err(Failure::usage("it is on or off")),
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
    let column = |column: &rightlink::KeyColumn| {
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

/// Does the note of a table say that it is a view, materialized or not?
fn is_any_view(note: &str) -> bool {
    is_view(note) || is_materialized_view(note)
}

#[cfg(test)]
mod tests {
    use rightlink::Database;

    use super::*;

    fn shell() -> (tempfile::TempDir, Shell) {
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(folder.path().join("db")).unwrap();
        let place = Place { name: "db".into(), directory: folder.path().join("db") };
        (folder, Shell::new(Session::new(&db), Format::Table, place))
    }

    #[test]
    fn the_rest_of_a_copy_that_failed_is_no_statement() {
        let (_folder, mut shell) = shell();
        let (mut pending, mut output) = (String::new(), Output::stdout(false));
        let mut step = |shell: &mut Shell, line: &str| {
            assert!(!shell.step(line, &mut pending, &mut output).unwrap(), "{line}");
        };
        step(&mut shell, "create table t (a int primary key);");
        step(&mut shell, "copy t from stdin;");
        for line in ["1", "no number", "delete from t;", "drop table t;"] {
            step(&mut shell, line);
        }
        assert!(shell.passing && !shell.session.is_copying());
        step(&mut shell, "\\.");
        assert!(!shell.passing);
        step(&mut shell, "insert into t values (2);");
        let done = shell.session.execute("select a from t").unwrap();
        assert_eq!(done[0].rows.len(), 1, "{done:?}");
        // One that fails at its end has no rest.
        step(&mut shell, "copy t from stdin;");
        step(&mut shell, "2");
        step(&mut shell, "\\.");
        assert!(!shell.passing);
    }
}
