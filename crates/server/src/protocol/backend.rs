//! Messages to a client, appended to a buffer.
//!
//! Invariants: every message carries its own length; text from elsewhere loses its zero bytes,
//! which would end it early. Text is in the client's encoding; a value that this cannot say is an
//! error, a character of a message becomes a question mark.
//! Does not do: sending.

use rightlink_sql::{
    Column, CopyFormat, Datum, Encoding, Notification, Result, SqlError, Subject, Times,
    TransactionStatus,
};

use super::VERSION;
use super::frontend::format_at;

/// Messages that wait to be sent.
#[derive(Default)]
pub(crate) struct Out {
    bytes: Vec<u8>,
    /// Scratch for numbers as text.
    text: String,
    /// What texts of dates and times are like.
    times: Times,
    /// The client's.
    encoding: Encoding,
    /// Is the COPY that began last one of bytes?
    copies_bytes: bool,
}

impl Out {
    /// What waits.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Everything was sent. Memory of a long answer is given back.
    pub(crate) fn clear(&mut self) {
        const KEEP: usize = 256 << 10;
        self.bytes.clear();
        if self.bytes.capacity() > KEEP {
            self.bytes.shrink_to(KEEP);
        }
    }

    fn message(&mut self, kind: u8, body: impl FnOnce(&mut Out)) {
        self.bytes.push(kind);
        let at = self.bytes.len();
        self.bytes.extend([0; 4]);
        body(self);
        let length = u32::try_from(self.bytes.len() - at).expect("a message is below 4 GiB");
        self.bytes[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }

    fn short(&mut self, value: usize) {
        let value = u16::try_from(value).expect("columns and parameters are below 65,536");
        self.bytes.extend(value.to_be_bytes());
    }

    fn long(&mut self, value: u32) {
        self.bytes.extend(value.to_be_bytes());
    }

    fn text(&mut self, text: &str) {
        match text.bytes().any(|byte| byte == 0) {
            true => self.bytes.extend(text.bytes().filter(|byte| *byte != 0)),
            false if self.encoding.is_same() => self.bytes.extend_from_slice(text.as_bytes()),
            false => self.bytes.extend_from_slice(&self.encoding.encode_lossy(text)),
        }
        self.bytes.push(0);
    }

    /// Text that follows is in this encoding.
    pub(crate) fn set_encoding(&mut self, encoding: Encoding) {
        self.encoding = encoding;
    }

    /// The encoding that text of the client is in.
    pub(crate) fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The encoding of the rows of a COPY.
    pub(crate) fn copy_encoding(&self) -> Encoding {
        if self.copies_bytes { Encoding::UTF8 } else { self.encoding }
    }

    /// A single byte, as the answer to a request for TLS.
    pub(crate) fn raw(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// A kind of authentication with its data.
    pub(crate) fn authentication(&mut self, kind: u32, data: &[u8]) {
        self.message(b'R', |out| {
            out.long(kind);
            out.bytes.extend(data);
        });
    }

    /// The version that is spoken and options that are not known, to a client that asked for more.
    /// The whole version, as PostgreSQL sends it: clients take less for a downgrade.
    pub(crate) fn negotiate(&mut self, unknown: &[&str]) {
        self.message(b'v', |out| {
            out.long(VERSION);
            out.long(u32::try_from(unknown.len()).unwrap_or(u32::MAX));
            unknown.iter().for_each(|name| out.text(name));
        });
    }

    pub(crate) fn key(&mut self, pid: u32, secret: u32) {
        self.message(b'K', |out| {
            out.long(pid);
            out.long(secret);
        });
    }

    pub(crate) fn setting(&mut self, name: &str, value: &str) {
        self.message(b'S', |out| {
            out.text(name);
            out.text(value);
        });
    }

    /// A NotificationResponse.
    pub(crate) fn notification(&mut self, one: &Notification) {
        self.message(b'A', |out| {
            out.long(one.pid);
            out.text(&one.channel);
            out.text(&one.payload);
        });
    }

    pub(crate) fn ready(&mut self, status: TransactionStatus) {
        let letter = match status {
            TransactionStatus::Idle => b'I',
            TransactionStatus::Block => b'T',
            TransactionStatus::Failed => b'E',
        };
        self.message(b'Z', |out| out.bytes.push(letter));
    }

    /// A message without a body.
    pub(crate) fn plain(&mut self, kind: u8) {
        self.message(kind, |_| {});
    }

    pub(crate) fn complete(&mut self, tag: &str) {
        self.message(b'C', |out| out.text(tag));
    }

    pub(crate) fn parameters(&mut self, oids: &[u32]) {
        self.message(b't', |out| {
            out.short(oids.len());
            oids.iter().for_each(|oid| out.long(*oid));
        });
    }

    pub(crate) fn columns(&mut self, columns: &[Column], formats: &[i16]) {
        self.message(b'T', |out| {
            out.short(columns.len());
            for (at, column) in columns.iter().enumerate() {
                let (relation, number) = column.origin();
                out.text(&column.name);
                out.long(relation);
                out.bytes.extend(number.to_be_bytes());
                out.long(column.type_oid());
                out.bytes.extend(column.type_len().to_be_bytes());
                out.bytes.extend(column.type_modifier().to_be_bytes());
                out.bytes.extend(format_at(formats, at).to_be_bytes());
            }
        });
    }

    /// What texts of dates and times in the rows that follow are like.
    pub(crate) fn set_times(&mut self, times: &Times) {
        self.times.clone_from(times);
    }

    /// A row; nothing of one that cannot be said in the client's encoding.
    pub(crate) fn row(&mut self, row: &[Datum], formats: &[i16]) -> Result<()> {
        let (begins, mut said) = (self.bytes.len(), Ok(()));
        self.message(b'D', |out| {
            out.short(row.len());
            said =
                row.iter().enumerate().try_for_each(|(at, value)| match format_at(formats, at) {
                    _ if value.is_null() => {
                        out.long(u32::MAX);
                        Ok(())
                    }
                    1 => out.field_binary(value),
                    _ => out.field_text(value),
                });
        });
        if said.is_err() {
            self.bytes.truncate(begins);
        }
        said
    }

    fn field(&mut self, bytes: &[u8]) {
        self.long(u32::try_from(bytes.len()).expect("a value is below 1 GiB"));
        self.bytes.extend(bytes);
    }

    fn field_binary(&mut self, value: &Datum) -> Result<()> {
        self.field(&value.to_binary_in(self.encoding)?.unwrap_or_default());
        Ok(())
    }

    fn field_text(&mut self, value: &Datum) -> Result<()> {
        if let Datum::Text(text) = value {
            self.field(&self.encoding.encode(text)?);
            return Ok(());
        }
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        value.write_text_in(&self.times, &mut text);
        let encoded = self.encoding.encode(&text).map(|bytes| self.field(&bytes));
        self.text = text;
        encoded
    }

    /// A COPY begins: `kind` says in which direction.
    pub(crate) fn copy(&mut self, kind: u8, format: CopyFormat, columns: usize) {
        self.copies_bytes = format == CopyFormat::Binary;
        let binary = u8::from(self.copies_bytes);
        self.message(kind, |out| {
            out.bytes.push(binary);
            out.short(columns);
            (0..columns).for_each(|_| out.short(usize::from(binary)));
        });
    }

    pub(crate) fn copy_data(&mut self, bytes: &[u8]) {
        self.message(b'd', |out| out.bytes.extend_from_slice(bytes));
    }

    /// Rows of a COPY.
    pub(crate) fn copy_rows(&mut self, bytes: &[u8]) -> Result<()> {
        let encoding = self.copy_encoding();
        if encoding.is_same() {
            self.copy_data(bytes);
            return Ok(());
        }
        let text = std::str::from_utf8(bytes).expect("rows of text are handed on whole");
        self.copy_data(&encoding.encode(text)?);
        Ok(())
    }

    /// An error, or a FATAL one that ends the connection.
    pub(crate) fn error(&mut self, error: &SqlError, severity: &str) {
        self.message(b'E', |out| {
            out.report(severity, error.sqlstate, &error.message);
            let position = error.position.map(|position| position.to_string());
            let more = [(b'D', &error.detail), (b'H', &error.hint), (b'P', &position)];
            more.iter().for_each(|(code, text)| out.report_field(*code, text.as_deref()));
            if let Some(subject) = &error.subject {
                let Subject { schema, table, column, data_type, constraint, routine } = &**subject;
                let names = [
                    (b's', schema),
                    (b't', table),
                    (b'c', column),
                    (b'd', data_type),
                    (b'n', constraint),
                ];
                names.iter().for_each(|(code, name)| out.report_field(*code, name.as_deref()));
                out.report_field(b'R', *routine);
            }
            out.bytes.push(0);
        });
    }

    pub(crate) fn notice(&mut self, severity: &str, message: &str) {
        let sqlstate = if severity == "WARNING" { "01000" } else { "00000" };
        self.message(b'N', |out| {
            out.report(severity, sqlstate, message);
            out.bytes.push(0);
        });
    }

    /// A field of an error, if there is something to say in it.
    fn report_field(&mut self, code: u8, text: Option<&str>) {
        if let Some(text) = text {
            self.bytes.push(code);
            self.text(text);
        }
    }

    fn report(&mut self, severity: &str, sqlstate: &str, message: &str) {
        for (code, text) in [(b'S', severity), (b'V', severity), (b'C', sqlstate), (b'M', message)]
        {
            self.bytes.push(code);
            self.text(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_lengths_and_nulls() {
        let mut out = Out::default();
        out.row(&[Datum::Int4(7), Datum::Null, Datum::Text("é".into())], &[1, 0, 0]).unwrap();
        let expected = b"D\0\0\0\x18\0\x03\0\0\0\x04\0\0\0\x07\xff\xff\xff\xff\0\0\0\x02\xc3\xa9";
        assert_eq!(out.bytes(), expected);
    }

    #[test]
    fn a_zero_byte_does_not_end_a_text_early() {
        let mut out = Out::default();
        out.complete("a\0b");
        assert_eq!(out.bytes(), b"C\0\0\0\x07ab\0");
    }
}
