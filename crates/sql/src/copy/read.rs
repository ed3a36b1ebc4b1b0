//! Rows in: text, CSV, binary, from pieces that may end anywhere.
//!
//! Lines all end as the first one does. A line break that is part of a value is quoted in CSV and
//! behind a backslash in text.
//!
//! Invariants: bytes of a row that is not whole yet are kept, at most [`MAX_ROW`] of them; an error
//! names the line. Does not do: storing rows.

use super::csv::{CsvByte, CsvDialect, CsvField, CsvValue};
use super::write::SIGNATURE;
use crate::encoding::Encoding;
use crate::error::{Result, SqlError, code};
use crate::parse::copy::{CopyFormat, CopyOptions, HeaderLine};
use crate::types::binary::utf8;
use crate::types::declared::{Declared, Modifier};
use crate::types::{Datum, Row, SqlType, Times, text};

/// Longest row: nothing longer fits the store.
const MAX_ROW: usize = 16 << 20;

/// How lines end.
#[derive(Clone, Copy, PartialEq)]
enum Eol {
    Lf,
    CrLf,
    Cr,
}

/// What FORCE_NOT_NULL and FORCE_NULL say of a column.
#[derive(Clone, Copy, Default)]
struct Forced {
    not_null: bool,
    null: bool,
}

impl Forced {
    fn of(options: &CopyOptions, column: &str) -> Forced {
        let has = |list: &Option<Vec<String>>| list.iter().flatten().any(|name| name == column);
        Forced { not_null: has(&options.force_not_null), null: has(&options.force_null) }
    }

    /// The field, where `null` stands for null.
    fn apply(self, field: Option<String>, null: &str) -> Option<String> {
        match field {
            None if self.not_null => Some(null.to_owned()),
            Some(text) if self.null && text == null => None,
            field => field,
        }
    }
}

/// Reads rows of these types.
pub(crate) struct Reader {
    format: CopyFormat,
    delimiter: u8,
    null: String,
    quote: u8,
    escape: u8,
    header: HeaderLine,
    columns: Vec<(String, Declared)>,
    /// What is done to the field of each column.
    forced: Vec<Forced>,
    table: String,
    pending: Vec<u8>,
    /// Bytes of `pending` that are known to hold no end of a row.
    looked: usize,
    /// Is the place after `looked` inside of quotes?
    quoted: bool,
    /// As the first line told.
    eol: Option<Eol>,
    line: u64,
    /// The signature of a binary file has been read.
    begun: bool,
    ended: bool,
    times: Times,
    /// Of text in binary fields.
    encoding: Encoding,
}

/// A field of a column that is declared so. Which parts an interval has says what a number in its
/// text counts.
fn parse(declared: Declared, field: &str, times: &Times) -> Result<Datum> {
    match declared.modifier {
        Some(Modifier::Interval(fields, _)) if declared.ty == SqlType::Interval => {
            text::interval(field, fields, times)
        }
        _ => text::parse(declared.ty, field, times),
    }
}

impl Reader {
    pub(crate) fn new(
        options: &CopyOptions,
        table: &str,
        columns: Vec<(String, Declared)>,
        times: Times,
    ) -> Self {
        let csv = options.format == CopyFormat::Csv;
        let quote = options.quote.unwrap_or('"') as u8;
        Reader {
            format: options.format,
            delimiter: options.delimiter.unwrap_or(if csv { ',' } else { '\t' }) as u8,
            null: options.null.clone().unwrap_or_else(|| if csv { "" } else { "\\N" }.to_owned()),
            quote,
            escape: options.escape.map_or(quote, |c| c as u8),
            header: options.header,
            forced: columns.iter().map(|(name, _)| Forced::of(options, name)).collect(),
            columns,
            table: table.to_owned(),
            pending: Vec::new(),
            looked: 0,
            quoted: false,
            eol: None,
            line: 0,
            begun: false,
            ended: false,
            times,
            encoding: Encoding::UTF8,
        }
    }

    /// For a client whose text is in `encoding`. Only the binary format is converted here: of the
    /// others all is text.
    pub(crate) fn in_encoding(self, encoding: Encoding) -> Reader {
        Reader { encoding, ..self }
    }

    /// Takes a piece and hands each row that is whole to `take`.
    pub(crate) fn push(
        &mut self,
        bytes: &[u8],
        take: &mut dyn FnMut(Row) -> Result<()>,
    ) -> Result<()> {
        self.pending.extend_from_slice(bytes);
        let mut from = 0;
        while !self.ended {
            let found = match self.format {
                CopyFormat::Binary => self.binary(from)?,
                _ => self.text(from, false)?,
            };
            let Some((end, row)) = found else { break };
            from = end;
            self.looked = end;
            if let Some(row) = row {
                take(row)?;
            }
        }
        self.pending.drain(..if self.ended { self.pending.len() } else { from });
        self.looked = self.looked.saturating_sub(from).min(self.pending.len());
        if self.pending.len() > MAX_ROW {
            return Err(self.bad("row is longer than 16 MiB".to_owned()));
        }
        Ok(())
    }

    /// The data is over: a last line needs no end.
    pub(crate) fn finish(&mut self, take: &mut dyn FnMut(Row) -> Result<()>) -> Result<()> {
        if self.ended {
            return Ok(());
        }
        // The mark at the end may be missing, a part of a row may not.
        if self.format == CopyFormat::Binary && self.pending.is_empty() && self.begun {
            return Ok(());
        }
        if self.format == CopyFormat::Binary {
            return Err(self.bad("unexpected EOF in COPY data".to_owned()));
        }
        if !self.pending.is_empty()
            && let Some((_, Some(row))) = self.text(0, true)?
        {
            take(row)?;
        }
        if self.header == HeaderLine::Match && self.line == 0 {
            self.check_header(&[])?;
        }
        if self.quoted {
            return Err(self.bad("unterminated CSV quoted field".to_owned()));
        }
        Ok(())
    }

    fn bad(&self, message: String) -> SqlError {
        let error = SqlError::new(code::BAD_COPY_FORMAT, message);
        error.detail(format!("COPY {}, line {}", self.table, self.line.max(1)))
    }

    /// The end of the line that begins at `from` and the place after it, if it is there.
    fn line_end(&mut self, from: usize, last: bool) -> Result<Option<(usize, usize)>> {
        let csv = self.format == CopyFormat::Csv;
        let mut at = self.looked.max(from);
        while let Some(byte) = self.pending.get(at).copied() {
            let next = self.pending.get(at + 1).copied();
            let escapes = self.quoted && byte == self.escape && self.escape != self.quote;
            if next.is_none() && !last && (escapes || byte == b'\r') {
                // What comes next decides.
                break;
            }
            if escapes {
                at += 2;
                continue;
            }
            if csv && byte == self.quote {
                self.quoted = !self.quoted;
            }
            if matches!(byte, b'\r' | b'\n') && !self.quoted && !self.is_escaped(from, at) {
                let next = at + 1 + usize::from(self.ends_in_two(byte, next)?);
                return Ok(Some((at, next)));
            }
            at += 1;
        }
        self.looked = at.min(self.pending.len());
        Ok(last.then_some((self.pending.len(), self.pending.len())))
    }

    /// A backslash before a line's end makes it part of the value in text format.
    fn is_escaped(&self, from: usize, at: usize) -> bool {
        let slashes =
            self.pending[from..at].iter().rev().take_while(|byte| **byte == b'\\').count();
        self.format != CopyFormat::Csv && slashes % 2 == 1
    }

    /// Does the line end in two characters at `byte`, which `next` follows?
    fn ends_in_two(&mut self, byte: u8, next: Option<u8>) -> Result<bool> {
        let found = match (byte, next) {
            (b'\n', _) => Eol::Lf,
            (_, Some(b'\n')) if self.eol != Some(Eol::Cr) => Eol::CrLf,
            _ => Eol::Cr,
        };
        if *self.eol.get_or_insert(found) == found {
            return Ok(found == Eol::CrLf);
        }
        let what = if byte == b'\n' { "newline" } else { "carriage return" };
        self.line += 1;
        Err(match self.format {
            CopyFormat::Csv => self
                .bad(format!("unquoted {what} found in data"))
                .hint(format!("Use quoted CSV field to represent {what}.")),
            _ => {
                let letter = if byte == b'\n' { 'n' } else { 'r' };
                self.bad(format!("literal {what} found in data"))
                    .hint(format!("Use \"\\{letter}\" to represent {what}."))
            }
        })
    }

    /// A row of text or CSV, and where it ends; no row for a header or the end mark.
    fn text(&mut self, from: usize, last: bool) -> Result<Option<(usize, Option<Row>)>> {
        let Some((end, next)) = self.line_end(from, last)? else { return Ok(None) };
        let mut line = self.pending[from..end].to_vec();
        self.line += 1;
        if self.takes_end_mark(&mut line)? && line.is_empty() {
            return Ok(Some((next, None)));
        }
        if self.header == HeaderLine::Present && self.line == 1 {
            return Ok(Some((next, None)));
        }
        let fields = match self.format {
            CopyFormat::Csv => self.csv_fields(&line)?,
            _ => self.text_fields(&line)?,
        };
        if self.header == HeaderLine::Match && self.line == 1 {
            self.check_header(&fields)?;
            return Ok(Some((next, None)));
        }
        self.typed(fields).map(|row| Some((next, Some(row))))
    }

    /// Takes the mark off a line that says that the data ends with it.
    fn takes_end_mark(&mut self, line: &mut Vec<u8>) -> Result<bool> {
        let found = match self.format {
            CopyFormat::Csv => (line == b"\\.").then_some(0),
            _ => {
                let mut at = 0;
                while at < line.len() && !line[at..].starts_with(b"\\.") {
                    at += if line[at] == b'\\' { 2 } else { 1 };
                }
                (at < line.len()).then_some(at)
            }
        };
        let Some(at) = found else { return Ok(false) };
        if at + 2 < line.len() {
            return Err(self.bad("end-of-copy marker corrupt".to_owned()));
        }
        line.truncate(at);
        self.ended = true;
        Ok(true)
    }

    /// Fails if the names in the first line are not those of the columns.
    fn check_header(&self, fields: &[Option<String>]) -> Result<()> {
        if fields.len() != self.columns.len() {
            return Err(self.bad(format!(
                "wrong number of fields in header line: got {}, expected {}",
                fields.len(),
                self.columns.len()
            )));
        }
        for (at, (field, (name, _))) in fields.iter().zip(&self.columns).enumerate() {
            let got = match field {
                Some(field) if field == name => continue,
                Some(field) => format!("got \"{field}\""),
                None => format!("got null value (\"{}\")", self.null),
            };
            return Err(self.bad(format!(
                "column name mismatch in header line field {}: {got}, expected \"{name}\"",
                at + 1
            )));
        }
        Ok(())
    }

    /// Is it what an empty line reads as?
    fn is_empty_line(&self, fields: &[Option<String>]) -> bool {
        match fields {
            [Some(field)] => field.is_empty(),
            [None] => self.null.is_empty(),
            _ => false,
        }
    }

    fn typed(&self, fields: Vec<Option<String>>) -> Result<Row> {
        if self.columns.is_empty() && self.is_empty_line(&fields) {
            return Ok(Row::new());
        }
        if fields.len() > self.columns.len() {
            return Err(self.bad("extra data after last expected column".to_owned()));
        }
        if let Some((name, _)) = self.columns.get(fields.len()) {
            return Err(self.bad(format!("missing data for column \"{name}\"")));
        }
        let forced = self.forced.iter();
        let fields = fields.into_iter().zip(forced);
        let fields = fields.map(|(field, forced)| forced.apply(field, &self.null));
        let pairs = fields.zip(&self.columns);
        pairs
            .map(|(field, (name, ty))| match field {
                None => Ok(Datum::Null),
                Some(field) if ty.ty == SqlType::Text => Ok(Datum::Text(field)),
                Some(field) => parse(*ty, &field, &self.times).map_err(|error| {
                    error.detail(format!("COPY {}, line {}, column {name}", self.table, self.line))
                }),
            })
            .collect()
    }

    fn text_fields(&self, line: &[u8]) -> Result<Vec<Option<String>>> {
        let mut fields = Vec::with_capacity(self.columns.len());
        let mut start = 0;
        let mut at = 0;
        loop {
            match line.get(at) {
                Some(b'\\') => at += 2,
                Some(byte) if *byte != self.delimiter => at += 1,
                end => {
                    let raw = &line[start..at.min(line.len())];
                    fields.push(match raw == self.null.as_bytes() {
                        true => None,
                        false => Some(utf8(unescape(raw))?),
                    });
                    if end.is_none() {
                        return Ok(fields);
                    }
                    at += 1;
                    start = at;
                }
            }
        }
    }

    fn csv_fields(&self, line: &[u8]) -> Result<Vec<Option<String>>> {
        let Reader { delimiter, quote, escape, .. } = *self;
        let mut fields = Vec::with_capacity(self.columns.len());
        let mut field = CsvField::new(CsvDialect { delimiter, quote, escape, quotes_inside: true });
        for byte in line {
            if field.take(*byte) == CsvByte::EndOfField {
                fields.push(self.csv_value(field.finish())?);
            }
        }
        fields.push(self.csv_value(field.finish())?);
        Ok(fields)
    }

    /// The text of a field; none for null, which is not quoted.
    fn csv_value(&self, value: CsvValue) -> Result<Option<String>> {
        let text = utf8(value.bytes)?;
        let null = !value.quoted && text == self.null;
        Ok((!null).then_some(text))
    }

    /// A row of binary data, and where it ends; no row for the signature.
    fn binary(&mut self, from: usize) -> Result<Option<(usize, Option<Row>)>> {
        let data = &self.pending[from..];
        if !self.begun {
            let Some(head) = data.get(..SIGNATURE.len()) else { return Ok(None) };
            if head[..11] != SIGNATURE[..11] {
                return Err(self.bad("COPY file signature not recognized".to_owned()));
            }
            if head[11..] != SIGNATURE[11..] {
                return Err(SqlError::unsupported("flags or an extension of a binary COPY file"));
            }
            self.begun = true;
            return Ok(Some((from + SIGNATURE.len(), None)));
        }
        let Some(count) = number::<2>(data, 0).map(i16::from_be_bytes) else { return Ok(None) };
        if count == -1 {
            self.ended = true;
            return Ok(Some((from + 2, None)));
        }
        self.line += 1;
        if usize::try_from(count).ok() != Some(self.columns.len()) {
            let wanted = self.columns.len();
            return Err(self.bad(format!("row field count is {count}, expected {wanted}")));
        }
        let Some(fields) = self.fields(data)? else {
            self.line -= 1;
            return Ok(None);
        };
        let end = fields.last().map_or(2, |field| field.1);
        let value = |((start, end, null), (_, ty)): (&Field, &(String, Declared))| match null {
            true => Ok(Datum::Null),
            false => Datum::from_binary_in(ty.ty, &data[*start..*end], self.encoding),
        };
        let row = fields.iter().zip(&self.columns).map(value).collect::<Result<Row>>()?;
        Ok(Some((from + end, Some(row))))
    }

    /// Where the fields of the row lie that `data` begins with, if it is whole: nothing is decoded
    /// of a part of a row, which comes again with more.
    fn fields(&self, data: &[u8]) -> Result<Option<Vec<Field>>> {
        let (mut at, mut fields) = (2, Vec::new());
        for _ in &self.columns {
            let Some(len) = number::<4>(data, at).map(i32::from_be_bytes) else {
                return Ok(None);
            };
            at += 4;
            let (start, null) = (at, len == -1);
            if !null {
                let bad = |_| self.bad("invalid field size".to_owned());
                at += usize::try_from(len).map_err(bad)?;
            }
            if at > data.len() {
                return Ok(None);
            }
            fields.push((start, at, null));
        }
        Ok(Some(fields))
    }
}

/// Start and end of a field of binary data, and whether it is null.
type Field = (usize, usize, bool);

fn number<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    data.get(at..at + N)?.try_into().ok()
}

/// Backslash sequences of the text format.
fn unescape(raw: &[u8]) -> Vec<u8> {
    if !raw.contains(&b'\\') {
        return raw.to_vec();
    }
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first != b'\\' {
            out.push(*first);
            continue;
        }
        let Some((kind, tail)) = rest.split_first() else {
            out.push(b'\\');
            break;
        };
        rest = tail;
        match kind {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'b' => out.push(8),
            b'v' => out.push(11),
            b'f' => out.push(12),
            b'0'..=b'7' => {
                let more = rest.iter().take(2).take_while(|b| (b'0'..=b'7').contains(b)).count();
                let digits = rest[..more]
                    .iter()
                    .fold(u32::from(kind - b'0'), |sum, b| sum * 8 + u32::from(b - b'0'));
                out.push(digits as u8);
                rest = &rest[more..];
            }
            b'x' if rest.first().is_some_and(u8::is_ascii_hexdigit) => {
                let more = rest.iter().take(2).take_while(|b| b.is_ascii_hexdigit()).count();
                let digit = |b: &u8| char::from(*b).to_digit(16).unwrap_or(0);
                out.push(rest[..more].iter().fold(0, |sum, b| sum * 16 + digit(b)) as u8);
                rest = &rest[more..];
            }
            other => out.push(*other),
        }
    }
    out
}
