//! A CSV file with a header line, read row by row, with the place of every row.
//!
//! Invariants: errors name file, line and column; a file is read once, front to back, so standard
//! input will do; rows looked at ahead (to infer types) are handed out again, and take no more
//! memory than they are given.
//! Does not do: turning fields into values (`rows`).

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::csv::{CsvError, CsvReader, Limits, Record};
use crate::failure::{Exit, Failure};
use crate::json::Json;

/// An open CSV file.
pub(crate) struct CsvFile {
    /// Name for messages.
    pub(crate) name: Rc<str>,
    /// Column names of the header line.
    pub(crate) header: Vec<String>,
    /// Line of the header: empty ones may precede it.
    header_line: u64,
    reader: CsvReader<Box<dyn BufRead>>,
    ahead: VecDeque<Record>,
    /// Bytes up to the last row taken, the rows looked at ahead spread evenly.
    taken: u64,
}

/// A row as it is in the file.
pub(crate) struct RawRow {
    /// Its fields; what is no UTF-8 in them is replaced.
    pub(crate) fields: Vec<String>,
    /// Where it begins.
    pub(crate) place: Place,
    /// What is wrong with it, if its number of fields, or what CSV is, does not fit.
    pub(crate) fault: Option<Failure>,
}

/// Where a row begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    /// Name of the file.
    pub(crate) file: Rc<str>,
    /// Line, counted from 1.
    pub(crate) line: u64,
}

impl Place {
    /// Bad data here, in `column` if one is to blame.
    pub(crate) fn bad(&self, column: Option<&str>, what: &str) -> Failure {
        let at = column.map(|column| format!(", column {column}")).unwrap_or_default();
        Failure::new(Exit::BadData, format!("{}: line {}{at}: {what}", self.file, self.line))
            .with("file", &*self.file)
            .with("line", self.line)
            .with("column", column.map(Json::from))
    }
}

/// The beginning of a field, for messages.
fn excerpt(field: &str) -> String {
    const MOST: usize = 40;
    match field.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &field[..end]),
        None => field.to_owned(),
    }
}

/// Bytes of the files, if all are regular files.
pub(crate) fn total_bytes(files: &[PathBuf]) -> Option<u64> {
    files
        .iter()
        .map(|file| std::fs::metadata(file).ok().filter(|meta| meta.is_file()))
        .try_fold(0, |sum: u64, meta| meta.map(|meta| sum + meta.len()))
}

impl CsvFile {
    /// Opens the file at `path` (`-`: standard input) and reads its header line.
    pub(crate) fn open(path: &Path, limits: Limits) -> Result<Self, Failure> {
        if path.as_os_str() == "-" {
            return Self::read("standard input", Box::new(BufReader::new(io::stdin())), limits);
        }
        let name = path.to_string_lossy();
        let file = std::fs::OpenOptions::new().read(true).open(path);
        let file = file.map_err(|error| Failure::file(&name, &error))?;
        Self::read(&name, Box::new(BufReader::with_capacity(1 << 16, file)), limits)
    }

    /// Reads the header line of `input`.
    pub(crate) fn read(
        name: &str,
        input: Box<dyn BufRead>,
        limits: Limits,
    ) -> Result<Self, Failure> {
        let mut file = Self {
            name: name.into(),
            header: Vec::new(),
            header_line: 1,
            reader: CsvReader::new(input, limits),
            ahead: VecDeque::new(),
            taken: 0,
        };
        if let Some(header) = file.read_row()? {
            if let Some(failure) = file.fault(&header) {
                return Err(failure);
            }
            file.header_line = header.line;
            file.header = header.fields.iter().map(|field| field.trim().to_owned()).collect();
        }
        file.check_header()?;
        Ok(file)
    }

    /// Where the header is.
    pub(crate) fn header_place(&self) -> Place {
        Place { file: Rc::clone(&self.name), line: self.header_line }
    }

    fn check_header(&self) -> Result<(), Failure> {
        let place = self.header_place();
        if self.header.is_empty() {
            return Err(place.bad(None, "the file is empty; a header line is needed"));
        }
        for (position, name) in self.header.iter().enumerate() {
            if name.is_empty() {
                let what = format!("field {} of the header has no name", position + 1);
                return Err(place.bad(None, &what));
            }
            if name.contains(char::is_control) {
                let number = position + 1;
                let what = match name.contains('\r') {
                    true => format!(
                        "field {number} of the header holds a CR; lines end with LF or CR LF"
                    ),
                    false => format!("field {number} of the header holds a control character"),
                };
                return Err(place.bad(None, &what));
            }
            if self.header[..position].contains(name) {
                return Err(place.bad(Some(name), "the header names this column twice"));
            }
        }
        Ok(())
    }

    /// Looks at up to `rows` rows without taking them, fewer where they need more than `memory`
    /// bytes; rows with a fault are left for later, when they are reported in their turn.
    pub(crate) fn sample(&mut self, rows: usize, memory: usize) -> Result<Vec<&[String]>, Failure> {
        let mut bytes: usize = self.ahead.iter().map(Record::memory).sum();
        while self.ahead.len() < rows && bytes < memory {
            let Some(record) = self.read_row()? else { break };
            bytes += record.memory();
            self.ahead.push_back(record);
        }
        let sound = self.ahead.iter().filter(|record| record.fault.is_none());
        let rows = sound.map(|record| record.fields.as_slice());
        Ok(rows.filter(|fields| fields.len() == self.header.len()).collect())
    }

    /// The next row and where it begins.
    pub(crate) fn next(&mut self) -> Result<Option<(Vec<String>, Place)>, Failure> {
        match self.next_any()? {
            None => Ok(None),
            Some(RawRow { fault: Some(failure), .. }) => Err(failure),
            Some(RawRow { fields, place, .. }) => Ok(Some((fields, place))),
        }
    }

    /// Fails if a row has not the number of fields that the header has.
    fn check_count(&self, fields: &[String], place: &Place) -> Result<(), Failure> {
        let wanted = self.header.len();
        let count = crate::figures::plural(fields.len() as u64, "field");
        let but = format!("{count}, but the header has {wanted}");
        if let Some(column) = self.header.get(fields.len()) {
            return Err(place.bad(Some(column), &format!("no field for it; {but}")));
        }
        let Some(first) = fields.get(wanted) else { return Ok(()) };
        let number = wanted + 1;
        let first = excerpt(first);
        Err(place.bad(None, &format!("field {number}, {first:?}, is one too many; {but}")))
    }

    /// The next row, whatever is wrong with it.
    pub(crate) fn next_any(&mut self) -> Result<Option<RawRow>, Failure> {
        let waiting = self.ahead.len() as u64;
        let record = match self.ahead.pop_front() {
            Some(record) => record,
            None => match self.read_row()? {
                Some(record) => record,
                None => return Ok(None),
            },
        };
        let left = self.reader.bytes() - self.taken;
        self.taken += left / waiting.max(1);
        let place = Place { file: Rc::clone(&self.name), line: record.line };
        let fault = self.fault(&record);
        let fault = fault.or_else(|| self.check_count(&record.fields, &place).err());
        Ok(Some(RawRow { fields: record.fields, place, fault }))
    }

    /// What is wrong with a record as CSV.
    fn fault(&self, record: &Record) -> Option<Failure> {
        let fault = record.fault.as_ref()?;
        let place = Place { file: Rc::clone(&self.name), line: record.line };
        Some(place.bad(self.header.get(fault.field).map(String::as_str), fault.what))
    }

    /// Bytes of the rows taken so far; while rows are looked at ahead, an estimate.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.taken
    }

    fn read_row(&mut self) -> Result<Option<Record>, Failure> {
        self.reader.next_any().map_err(|error| match error {
            CsvError::Io(error) => Failure::file(&self.name, &error),
            CsvError::Bad { line, field, what } => {
                let place = Place { file: Rc::clone(&self.name), line };
                place.bad(self.header.get(field).map(String::as_str), &what)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &'static [u8]) -> Result<CsvFile, Failure> {
        CsvFile::read("f.csv", Box::new(text), Limits::LEAST)
    }

    #[test]
    fn rows_looked_at_ahead_come_again() {
        let mut file = file(b"a\n1\n2\n3\n").expect("the header is good");
        assert_eq!(file.sample(2, 1 << 20).expect("two rows").len(), 2);
        let first = file.next().expect("good").expect("there");
        assert_eq!((first.0[0].as_str(), first.1.line), ("1", 2));
        assert_eq!(file.sample(10, 1 << 20).expect("two rows are left").len(), 2);
    }

    #[test]
    fn rows_looked_at_ahead_are_bounded_in_bytes() {
        let mut file = file(b"a\n1\n2\n3\n4\n5\n").expect("the header is good");
        let row = Record { fields: vec!["1".to_owned()], line: 2, fault: None }.memory();
        let seen = file.sample(5, 2 * row).expect("good").len();
        assert!((1..=2).contains(&seen), "{seen} rows in the memory of two");
        let rest = std::iter::from_fn(|| file.next().expect("good"));
        assert_eq!(rest.count(), 5, "all rows come");
    }

    #[test]
    fn bad_rows_are_named() {
        let mut short = file(b"a,b\n1,2\n3\n").expect("the header is good");
        short.next().expect("the first row is good");
        let failure = short.next().expect_err("the second is short");
        let said = "f.csv: line 3, column b: no field for it; 1 field, but the header has 2";
        assert_eq!(failure.message, said);
        let mut long = file(b"a,b\n1,2,\"x\ny\",4\n").expect("the header is good");
        let failure = long.next().expect_err("there are two too many");
        let said =
            "f.csv: line 2: field 3, \"x\\ny\", is one too many; 4 fields, but the header has 2";
        assert_eq!(failure.message, said);
        let mut raw = file(b"a,b\n1,\xff\n").expect("the header is good");
        let failure = raw.next().expect_err("not UTF-8");
        assert_eq!(failure.message, "f.csv: line 2, column b: the field is not UTF-8");
        assert_eq!(failure.exit, Exit::BadData);
    }

    #[test]
    fn bad_headers_are_refused() {
        for text in [&b""[..], b"a,,b\n", b"a,b,a\n", b"a,b\r1,2\r", b"a,\"b\nc\"\n"] {
            assert!(file(text).is_err(), "{text:?}");
        }
        let failure = file(b"\n\na,b,a\n").err().expect("a is there twice");
        assert_eq!(failure.message, "f.csv: line 3, column a: the header names this column twice");
    }
}
