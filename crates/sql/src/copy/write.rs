//! Rows out: text, CSV, binary.
//!
//! Invariants: what is written here, `read` reads back as equal rows.
//! Does not do: where the bytes go.

use crate::encoding::Encoding;
use crate::error::Result;
use crate::parse::copy::{CopyFormat, CopyOptions, HeaderLine};
use crate::plan::Column;
use crate::types::{Datum, Times};

/// What a binary file begins with: signature, flags, length of an extension.
pub(super) const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// Writes rows.
pub(crate) struct Writer {
    options: CopyOptions,
    delimiter: char,
    null: String,
    quote: char,
    escape: char,
    /// Columns that are quoted whatever they hold.
    quoted: Vec<bool>,
    times: Times,
    encoding: Encoding,
}

impl Writer {
    pub(crate) fn new(options: &CopyOptions, columns: &[Column], times: Times) -> Writer {
        let csv = options.format == CopyFormat::Csv;
        let quoted = |column: &Column| match &options.force_quote {
            None => false,
            Some(list) => list.is_empty() || list.contains(&column.name),
        };
        let quote = options.quote.unwrap_or('"');
        Writer {
            delimiter: options.delimiter.unwrap_or(if csv { ',' } else { '\t' }),
            null: options.null.clone().unwrap_or_else(|| if csv { "" } else { "\\N" }.to_owned()),
            quote,
            escape: options.escape.unwrap_or(quote),
            quoted: columns.iter().map(quoted).collect(),
            options: options.clone(),
            times,
            encoding: Encoding::UTF8,
        }
    }

    /// For a client whose text is in `encoding`. Only the binary format is converted here: of the
    /// others all is text.
    pub(crate) fn in_encoding(self, encoding: Encoding) -> Writer {
        Writer { encoding, ..self }
    }

    /// What comes before the rows.
    pub(crate) fn start(&self, columns: &[Column], out: &mut Vec<u8>) -> Result<()> {
        if self.options.format == CopyFormat::Binary {
            out.extend_from_slice(SIGNATURE);
        } else if self.options.header != HeaderLine::Absent {
            let names = columns.iter().map(|column| Datum::Text(column.name.clone()));
            let plain = Writer { quoted: vec![false; columns.len()], ..self.clone_plain() };
            plain.row(&names.collect::<Vec<_>>(), out)?;
        }
        Ok(())
    }

    fn clone_plain(&self) -> Writer {
        Writer {
            options: self.options.clone(),
            delimiter: self.delimiter,
            null: self.null.clone(),
            quote: self.quote,
            escape: self.escape,
            quoted: Vec::new(),
            times: Times::utc(),
            encoding: self.encoding,
        }
    }

    /// What comes after them.
    pub(crate) fn end(&self, out: &mut Vec<u8>) {
        if self.options.format == CopyFormat::Binary {
            out.extend((-1i16).to_be_bytes());
        }
    }

    /// A row.
    pub(crate) fn row(&self, row: &[Datum], out: &mut Vec<u8>) -> Result<()> {
        if self.options.format == CopyFormat::Binary {
            return binary(row, self.encoding, out);
        }
        let mut line = String::new();
        for (at, value) in row.iter().enumerate() {
            if at > 0 {
                line.push(self.delimiter);
            }
            match value.to_text_in(&self.times) {
                None => line.push_str(&self.null),
                Some(text) if self.options.format == CopyFormat::Csv => {
                    self.csv(&text, at, row.len() == 1, &mut line);
                }
                Some(text) => self.escaped(&text, &mut line),
            }
        }
        line.push('\n');
        out.extend_from_slice(line.as_bytes());
        Ok(())
    }

    fn csv(&self, text: &str, at: usize, alone: bool, line: &mut String) {
        let special = |c: char| c == self.delimiter || c == self.quote || c == '\n' || c == '\r';
        let needs = self.quoted[at]
            || text == self.null
            || text.contains(special)
            // A lone \. would end the data for an older reader.
            || (alone && text == "\\.");
        if !needs {
            line.push_str(text);
            return;
        }
        line.push(self.quote);
        for c in text.chars() {
            if c == self.quote || c == self.escape {
                line.push(self.escape);
            }
            line.push(c);
        }
        line.push(self.quote);
    }

    fn escaped(&self, text: &str, line: &mut String) {
        for c in text.chars() {
            match c {
                '\\' => line.push_str("\\\\"),
                '\n' => line.push_str("\\n"),
                '\r' => line.push_str("\\r"),
                '\t' => line.push_str("\\t"),
                '\u{8}' => line.push_str("\\b"),
                '\u{b}' => line.push_str("\\v"),
                '\u{c}' => line.push_str("\\f"),
                c if c == self.delimiter => {
                    line.push('\\');
                    line.push(c);
                }
                c => line.push(c),
            }
        }
    }
}

fn binary(row: &[Datum], encoding: Encoding, out: &mut Vec<u8>) -> Result<()> {
    out.extend((row.len() as i16).to_be_bytes());
    for value in row {
        match value.to_binary_in(encoding)? {
            None => out.extend((-1i32).to_be_bytes()),
            Some(bytes) => {
                let len = i32::try_from(bytes.len()).expect("values are smaller than 2 GiB");
                out.extend(len.to_be_bytes());
                out.extend(bytes);
            }
        }
    }
    Ok(())
}
