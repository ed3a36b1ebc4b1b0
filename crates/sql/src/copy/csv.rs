//! The fields of a CSV record, byte by byte: which bytes quotes hide, and where fields end.
//!
//! COPY reads PostgreSQL's dialect, `rightlink load` RFC 4180. They differ in a quote that is not
//! at the beginning of its field: in PostgreSQL it quotes a part of the field, in RFC 4180 it is a
//! character like any other.
//!
//! Invariants: a field has the bytes between its separators, without the quotes around them.
//! Does not do: ends of records, null, limits.

/// How fields are separated and quoted.
#[derive(Clone, Copy, Debug)]
pub struct CsvDialect {
    /// Separates fields.
    pub delimiter: u8,
    /// Begins and ends what is quoted.
    pub quote: u8,
    /// Stands before a quote, or before itself, that is part of the field.
    pub escape: u8,
    /// May a quote begin inside of a field?
    pub quotes_inside: bool,
}

impl CsvDialect {
    /// Commas and double quotes, as RFC 4180 has them.
    pub const RFC_4180: CsvDialect =
        CsvDialect { delimiter: b',', quote: b'"', escape: b'"', quotes_inside: false };
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Start,
    Plain,
    Quoted,
    /// Behind the escape character in quotes, which may be the closing quote.
    Escaped,
    Closed,
}

/// What a byte was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CsvByte {
    /// A part of the field.
    InField,
    /// The end of the field: [`CsvField::finish`] is due.
    EndOfField,
    /// A part of the field behind its closing quote, which RFC 4180 forbids.
    BehindQuote,
}

/// A field being read.
#[derive(Debug)]
pub struct CsvField {
    dialect: CsvDialect,
    state: State,
    bytes: Vec<u8>,
    quoted: bool,
}

/// A field that was read.
#[derive(Debug, PartialEq, Eq)]
pub struct CsvValue {
    /// Its bytes without quotes.
    pub bytes: Vec<u8>,
    /// Was a part of it quoted?
    pub quoted: bool,
}

impl CsvField {
    /// The first field of a record.
    pub fn new(dialect: CsvDialect) -> CsvField {
        CsvField { dialect, state: State::Start, bytes: Vec::new(), quoted: false }
    }

    /// Takes the next byte.
    #[inline]
    pub fn take(&mut self, byte: u8) -> CsvByte {
        let CsvDialect { delimiter, quote, escape, quotes_inside } = self.dialect;
        match self.state {
            State::Quoted if byte == escape && escape != quote => self.state = State::Escaped,
            State::Quoted if byte == quote => self.state = State::Closed,
            State::Quoted => self.bytes.push(byte),
            State::Escaped => {
                if byte != quote && byte != escape {
                    self.bytes.push(escape);
                }
                self.bytes.push(byte);
                self.state = State::Quoted;
            }
            State::Closed if byte == quote && escape == quote => {
                self.bytes.push(quote);
                self.state = State::Quoted;
            }
            _ if byte == delimiter => return CsvByte::EndOfField,
            state if byte == quote && (quotes_inside || state == State::Start) => {
                self.quoted = true;
                self.state = State::Quoted;
            }
            state => {
                self.bytes.push(byte);
                self.state = State::Plain;
                if state == State::Closed {
                    return CsvByte::BehindQuote;
                }
            }
        }
        CsvByte::InField
    }

    /// Is a quote open?
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Quoted | State::Escaped)
    }

    /// Takes bytes that are a part of the field whatever they are, such as a line's end in quotes.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// How many bytes the field has.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Has the field no bytes yet?
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Ends the field and begins the next one.
    pub fn finish(&mut self) -> CsvValue {
        if self.state == State::Escaped {
            self.bytes.push(self.dialect.escape);
        }
        self.state = State::Start;
        CsvValue {
            bytes: std::mem::take(&mut self.bytes),
            quoted: std::mem::take(&mut self.quoted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields of a record, quoted ones in brackets, an exclamation mark behind text that
    /// follows a quote.
    fn read(dialect: CsvDialect, record: &str) -> String {
        let (mut field, mut all, mut behind) = (CsvField::new(dialect), Vec::new(), false);
        let mut end = |field: &mut CsvField, behind: &mut bool| {
            let CsvValue { bytes, quoted } = field.finish();
            let text = String::from_utf8(bytes).unwrap();
            let mark = if std::mem::take(behind) { "!" } else { "" };
            all.push(if quoted { format!("[{text}]{mark}") } else { text + mark });
        };
        for byte in record.bytes() {
            match field.take(byte) {
                CsvByte::InField => {}
                CsvByte::EndOfField => end(&mut field, &mut behind),
                CsvByte::BehindQuote => behind = true,
            }
        }
        end(&mut field, &mut behind);
        all.join("|")
    }

    #[test]
    fn dialects_differ_in_quotes_inside_a_field() {
        let postgres = CsvDialect { quotes_inside: true, ..CsvDialect::RFC_4180 };
        for (record, rfc, own) in [
            ("a,,\"b,c\"", "a||[b,c]", "a||[b,c]"),
            ("\"a\"\"b\",\"\"", "[a\"b]|[]", "[a\"b]|[]"),
            ("5\" pipe,6\"", "5\" pipe|6\"", "[5 pipe,6]"),
            ("\"a\"b\"c\"", "[ab\"c\"]!", "[abc]!"),
            ("\"a\"b,c", "[ab]!|c", "[ab]!|c"),
        ] {
            assert_eq!(read(CsvDialect::RFC_4180, record), rfc, "{record}");
            assert_eq!(read(postgres, record), own, "{record}");
        }
    }

    #[test]
    fn an_escape_of_its_own_stands_before_quotes_and_itself() {
        let dialect = CsvDialect { escape: b'\\', quotes_inside: true, ..CsvDialect::RFC_4180 };
        assert_eq!(read(dialect, r#""a\"b\\c\d",\""#), r#"[a"b\c\d]|[\]"#);
        assert_eq!(read(dialect, r#""a""b""#), "[ab]");
        assert_eq!(read(dialect, r#""a\"#), r"[a\]");
    }
}
