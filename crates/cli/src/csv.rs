//! CSV, read and written: RFC 4180 with the usual liberties. `rightlink_sql` splits fields, here
//! and in COPY; this file reads records and limits them.
//!
//! Invariants: a record knows the line it begins on, whatever ends lines; a quote that is never
//! closed is an error that names its line; what is too long is refused while it is read, so a
//! record never takes more memory than `Limits` and `MAX_FIELDS` allow.
//!
//! A record with a field that is not UTF-8, or with text behind a closing quote, has a fault and an
//! end. In the latter case it ends with its line, because the quotes there are ambiguous. A quote
//! inside an unquoted field is a character like any other; empty lines are no records.
//! Does not do: other separators, other encodings than UTF-8.

use std::io::{self, BufRead, Read};

use rightlink_sql::{CsvByte, CsvDialect, CsvField};

/// Most fields of a record: a table has no more columns.
const MAX_FIELDS: usize = rightlink::MAX_COLUMNS;

/// How long fields and records may be: an unclosed quote must end somewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Most bytes of a field.
    field: usize,
    /// Most bytes of a record, quotes and line ends included.
    record: usize,
}

impl Limits {
    /// Enough for all that is kept in a row itself, and for a header line of long names.
    pub(crate) const LEAST: Limits = Limits { field: 32 << 10, record: 256 << 10 };

    /// What fits a budget of `memory` bytes: the store takes a sixteenth as one value.
    pub(crate) fn within(memory: usize) -> Limits {
        let Limits { field, record } = Limits::LEAST;
        Limits { field: field.max(memory / 16), record: record.max(memory / 8) }
    }
}

/// The fields of a row and the line it begins on, counted from 1.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    /// Fields, without their quotes.
    pub(crate) fields: Vec<String>,
    /// First line.
    pub(crate) line: u64,
    /// What is wrong with it, if anything is.
    pub(crate) fault: Option<Fault>,
}

/// What is wrong with a record that has an end nevertheless.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fault {
    /// Field, counted from 0.
    pub(crate) field: usize,
    /// What it is.
    pub(crate) what: &'static str,
}

impl Record {
    /// Bytes of memory it takes.
    pub(crate) fn memory(&self) -> usize {
        let text: usize = self.fields.iter().map(String::capacity).sum();
        text + self.fields.capacity() * size_of::<String>() + size_of::<Self>()
    }
}

/// Why a record could not be read.
#[derive(Debug)]
pub(crate) enum CsvError {
    /// The input could not be read.
    Io(io::Error),
    /// The text is no CSV.
    Bad {
        /// Line of the record.
        line: u64,
        /// Field, counted from 0.
        field: usize,
        /// What is wrong.
        what: String,
    },
}

impl From<io::Error> for CsvError {
    fn from(error: io::Error) -> Self {
        CsvError::Io(error)
    }
}

/// Reads records.
pub(crate) struct CsvReader<R> {
    input: R,
    limits: Limits,
    lines: u64,
    bytes: u64,
}

/// A record being put together.
struct Parser {
    limits: Limits,
    field: CsvField,
    fields: Vec<String>,
    line: u64,
    /// The first fault.
    fault: Option<Fault>,
    /// Has text followed a closing quote?
    torn: bool,
}

impl<R: BufRead> CsvReader<R> {
    /// Reads from `input`.
    pub(crate) fn new(input: R, limits: Limits) -> Self {
        Self { input, limits, lines: 0, bytes: 0 }
    }

    /// Bytes taken so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next record, which must have no fault.
    pub(crate) fn next(&mut self) -> Result<Option<Record>, CsvError> {
        match self.next_any()? {
            Some(Record { fault: Some(Fault { field, what }), line, .. }) => {
                Err(CsvError::Bad { line, field, what: what.to_owned() })
            }
            other => Ok(other),
        }
    }

    /// The next record, faults included.
    pub(crate) fn next_any(&mut self) -> Result<Option<Record>, CsvError> {
        let mut raw = Vec::new();
        let mut taken = loop {
            let read = self.next_line(&mut raw, 0)?;
            if read == 0 {
                return Ok(None);
            }
            if !split_end(&raw).0.is_empty() {
                break read;
            }
        };
        let (line, limits) = (self.lines, self.limits);
        let (field, fields) = (CsvField::new(CsvDialect::RFC_4180), Vec::new());
        let mut parser = Parser { limits, field, fields, line, fault: None, torn: false };
        loop {
            if taken > limits.record {
                return Err(parser.too_long(&raw));
            }
            if parser.line(&raw)? {
                break;
            }
            let read = self.next_line(&mut raw, taken)?;
            if read == 0 {
                return Err(parser.bad("a quote is opened but not closed"));
            }
            taken += read;
        }
        Ok(Some(Record { fields: parser.fields, line, fault: parser.fault }))
    }

    /// Reads a line with its end into `raw`: how many bytes that are, 0 when the input is over.
    /// `taken` bytes of the record are read already; one more than a record may have ends a line.
    fn next_line(&mut self, raw: &mut Vec<u8>, taken: usize) -> Result<usize, CsvError> {
        assert!(taken <= self.limits.record, "a longer record was refused");
        raw.clear();
        let limit = self.limits.record + 1 - taken;
        let read = self.input.by_ref().take(limit as u64).read_until(b'\n', raw)?;
        self.lines += u64::from(read > 0);
        self.bytes += read as u64;
        if self.lines == 1 && raw.starts_with(b"\xef\xbb\xbf") {
            raw.drain(..3);
        }
        Ok(read)
    }
}

/// A line and what ends it.
fn split_end(raw: &[u8]) -> (&[u8], &[u8]) {
    let end = if raw.ends_with(b"\r\n") { 2 } else { usize::from(raw.ends_with(b"\n")) };
    raw.split_at(raw.len() - end)
}

impl Parser {
    /// Takes a line; true if the record ends with it.
    fn line(&mut self, raw: &[u8]) -> Result<bool, CsvError> {
        let (text, end) = split_end(raw);
        for byte in text {
            self.byte(*byte)?;
        }
        if self.field.is_open() && !self.torn {
            self.field.extend(end);
            return Ok(false);
        }
        self.end_field()?;
        Ok(true)
    }

    /// The error of a record that goes on after `raw`: its first field that is too long, if any.
    fn too_long(&mut self, raw: &[u8]) -> CsvError {
        let field = raw.iter().find_map(|byte| self.byte(*byte).err());
        let most = self.limits.record >> 10;
        let what = format!("the row is longer than {most} KiB, the most with this --memory");
        field.unwrap_or_else(|| self.bad(&what))
    }

    fn byte(&mut self, byte: u8) -> Result<(), CsvError> {
        if self.field.len() > self.limits.field {
            return Err(self.too_long_field());
        }
        match self.field.take(byte) {
            CsvByte::InField => {}
            CsvByte::EndOfField => self.end_field()?,
            CsvByte::BehindQuote => {
                self.fault("text follows a closing quote");
                self.torn = true;
            }
        }
        Ok(())
    }

    fn too_long_field(&self) -> CsvError {
        let open = if self.field.is_open() { "; is its quote never closed?" } else { "" };
        let most = self.limits.field >> 10;
        self.bad(&format!("the field is longer than {most} KiB, the most with this --memory{open}"))
    }

    fn end_field(&mut self) -> Result<(), CsvError> {
        if self.field.len() > self.limits.field {
            return Err(self.too_long_field());
        }
        if self.fields.len() == MAX_FIELDS {
            return Err(self.bad(&format!("the row has more than {MAX_FIELDS} fields")));
        }
        let text = String::from_utf8(self.field.finish().bytes);
        let text = text.unwrap_or_else(|error| {
            self.fault("the field is not UTF-8");
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        });
        self.fields.push(text);
        Ok(())
    }

    fn fault(&mut self, what: &'static str) {
        let field = self.fields.len();
        self.fault.get_or_insert(Fault { field, what });
    }

    fn bad(&self, what: &str) -> CsvError {
        CsvError::Bad { line: self.line, field: self.fields.len(), what: what.to_owned() }
    }
}

/// A row as a line of CSV, without its end.
pub(crate) fn to_line(fields: impl Iterator<Item = String>) -> String {
    let mut line = String::new();
    let mut count = 0;
    for field in fields {
        line.push_str(if count > 0 { "," } else { "" });
        if field.contains(['"', ',', '\n', '\r']) {
            line.push_str(&format!("\"{}\"", field.replace('"', "\"\"")));
        } else {
            line.push_str(&field);
        }
        count += 1;
    }
    // An empty line would be no row at all.
    if count == 1 && line.is_empty() { "\"\"".to_owned() } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Result<Vec<(u64, Vec<String>)>, CsvError> {
        let mut reader = CsvReader::new(text, Limits::LEAST);
        let mut all = Vec::new();
        while let Some(record) = reader.next()? {
            all.push((record.line, record.fields));
        }
        assert_eq!(reader.bytes(), text.len() as u64);
        Ok(all)
    }

    fn good(text: &str) -> Vec<(u64, String)> {
        let records = read(text.as_bytes()).expect("it is good CSV");
        records.into_iter().map(|(line, fields)| (line, fields.join("|"))).collect()
    }

    fn bad(text: &[u8]) -> (u64, usize, String) {
        match read(text) {
            Err(CsvError::Bad { line, field, what }) => (line, field, what),
            other => panic!("{other:?} is no complaint about the text"),
        }
    }

    #[test]
    fn fields_are_split_and_unquoted() {
        assert_eq!(good("a,b\n,\n"), [(1, "a|b".into()), (2, "|".into())]);
        assert_eq!(good("\"a,b\",\"say \"\"x\"\"\"")[0].1, "a,b|say \"x\"");
        assert_eq!(good("5\" pipe, x ")[0].1, "5\" pipe| x ");
        assert_eq!(good("\"\"\n")[0].1, "");
    }

    #[test]
    fn every_line_end_counts_once() {
        for end in ["\n", "\r\n"] {
            let text = ["a,b", "1,2", "", "\"x", "y\",3", "4,5"].join(end);
            let lines: Vec<u64> = good(&text).iter().map(|(line, _)| *line).collect();
            assert_eq!(lines, [1, 2, 4, 6], "{end:?}");
            assert_eq!(good(&text)[2].1, format!("x{end}y|3"));
            assert_eq!(good(&format!("{text}{end}{end}")).len(), 4);
        }
    }

    #[test]
    fn a_byte_order_mark_belongs_to_no_field() {
        assert_eq!(read(b"\xef\xbb\xbfa\n").expect("good")[0].1, ["a"]);
    }

    #[test]
    fn what_is_no_csv_is_named() {
        assert_eq!(bad(b"a,b\n1,\"x\n3,4\n"), (2, 1, "a quote is opened but not closed".into()));
        assert_eq!(bad(b"\"a\"b\n"), (1, 0, "text follows a closing quote".into()));
        assert_eq!(bad(b"a,\xff\n"), (1, 1, "the field is not UTF-8".into()));
        let mut open = b"a\n\"".to_vec();
        open.extend(b"yes\n".repeat(Limits::LEAST.record));
        assert!(bad(&open).0 >= 2);
    }

    /// A fault used to end what was read; the records behind it are as good as before.
    #[test]
    fn a_record_with_a_fault_has_an_end() {
        let text = b"a,b\n1,\xff\n\"x\"y,\"2\n3,4\n\"\xff\n\",\"5\"z,\"\n6,\"7\n\"\n";
        let mut reader = CsvReader::new(&text[..], Limits::LEAST);
        let mut all = Vec::new();
        while let Some(record) = reader.next_any().expect("every record has an end") {
            let fault = record.fault.map(|fault| (fault.field, &fault.what[..4]));
            all.push((record.line, record.fields.join("|"), fault));
        }
        let wanted = [
            (1, "a|b", None),
            (2, "1|\u{fffd}", Some((1, "the "))),
            (3, "xy|2", Some((0, "text"))),
            (4, "3|4", None),
            (5, "\u{fffd}\n|5z|", Some((0, "the "))),
            (7, "6|7\n", None),
        ];
        assert_eq!(all, wanted.map(|(line, fields, fault)| (line, fields.to_owned(), fault)));
    }

    /// Rows of up to 16 MiB were read, and thousands of them kept, before anyone asked whether a
    /// table could hold them.
    #[test]
    fn what_is_too_long_is_refused_by_line_and_field() {
        let long = "x".repeat(Limits::LEAST.field + 1);
        let said = "the field is longer than 32 KiB, the most with this --memory";
        assert_eq!(bad(format!("a,b\n1,{long}\n").as_bytes()), (2, 1, said.into()));
        assert_eq!(bad(format!("a,b\n1,{}\n", long.repeat(99)).as_bytes()), (2, 1, said.into()));
        let (line, field, open) = bad(format!("a,b\n\n1,\"{long}\"\n").as_bytes());
        assert_eq!((line, field), (3, 1));
        assert!(open.starts_with(said) && open.ends_with("is its quote never closed?"), "{open}");
        assert_eq!(good(&long[1..]), [(1, long[1..].to_owned())]);
        let row = format!("{},", &long[1..]).repeat(9);
        assert_eq!(
            bad(row.as_bytes()).2,
            "the row is longer than 256 KiB, the most with this --memory"
        );
        let many = ",".repeat(MAX_FIELDS);
        assert_eq!(bad(many.as_bytes()).2, "the row has more than 1600 fields");
        assert_eq!(good(&many[1..]).len(), 1);
    }

    #[test]
    fn what_is_written_is_read_back() {
        for row in [vec!["a", "b,c", "say \"x\"", "two\nlines", ""], vec![""]] {
            let line = to_line(row.iter().map(|field| (*field).to_owned()));
            assert_eq!(read(line.as_bytes()).expect("good")[0].1, row);
        }
    }
}
