//! Values of composite types from text and bytes, and as the store has them.
//!
//! The store keeps a value as bytes: how many fields it has, then the length and the bytes of each,
//! as a column of its type would have them. Fields that the type got later are null.
//!
//! Invariants: what is stored reads back as an equal row. Types nest within bounds, and so does
//! what is read here.
//! Does not do: text and bytes that clients get (`record`).

use rightlink::{Type, Value};

use super::record::Record;
use super::{CompositeType, Datum, SqlType, Times};
use crate::error::{Result, SqlError, code};

impl CompositeType {
    /// A row whose fields are null.
    pub(crate) fn nulls(self) -> Record {
        Record::of_type(self, vec![Datum::Null; self.fields().len()])
    }

    /// The row that a text says, as PostgreSQL's `record_in` reads it.
    ///
    /// # Errors
    /// `22P02` for text that is no row, and what a field complains of.
    pub(crate) fn parse(self, text: &str, times: &Times) -> Result<Datum> {
        let fields = self.fields();
        let mut input = Input { text, rest: text.trim_start_matches(is_space) };
        if !input.take('(') {
            return Err(input.malformed("Missing left parenthesis."));
        }
        let mut values = Vec::with_capacity(fields.len());
        for (at, field) in fields.iter().enumerate() {
            if at > 0 && !input.take(',') {
                return Err(input.malformed("Too few columns."));
            }
            values.push(match input.field()? {
                Some(text) => field.read(&text, times)?,
                None => Datum::Null,
            });
        }
        if !input.take(')') {
            return Err(input.malformed("Too many columns."));
        }
        match input.rest.chars().all(is_space) {
            true => Ok(Record::of_type(self, values).into()),
            false => Err(input.malformed("Junk after right parenthesis.")),
        }
    }

    /// The row that bytes say, as PostgreSQL's `record_recv` reads them.
    ///
    /// # Errors
    /// `42804` for another number of fields or other types, `08P01` for bytes that end too early.
    pub(super) fn read_binary(self, bytes: &[u8]) -> Result<Datum> {
        let mut rest = bytes;
        let (fields, count) = (self.fields(), number(&mut rest)?);
        let differs = |message| Err(SqlError::new(code::DATATYPE_MISMATCH, message));
        if usize::try_from(count) != Ok(fields.len()) {
            let expected = fields.len();
            return differs(format!("wrong number of columns: {count}, expected {expected}"));
        }
        let mut values = Vec::with_capacity(fields.len());
        for (at, field) in fields.iter().enumerate() {
            let (given, wanted) = (number(&mut rest)? as u32, field.oid());
            if given != wanted {
                let name = SqlType::name_of(given).unwrap_or("???");
                let own = field.ty.name();
                return differs(format!(
                    "binary data has type {given} ({name}) instead of expected {wanted} ({own}) \
                     in record column {}",
                    at + 1
                ));
            }
            values.push(match piece(&mut rest)? {
                Some(value) => field.fitted(Datum::from_binary(field.ty, value)?)?,
                None => Datum::Null,
            });
        }
        match rest.is_empty() {
            true => Ok(Record::of_type(self, values).into()),
            false => Err(SqlError::new(code::INVALID_BINARY, "incorrect binary data format")),
        }
    }

    /// The row for which the store keeps these bytes.
    ///
    /// # Errors
    /// `XX001` for bytes that are none.
    pub(super) fn read_stored(self, bytes: &[u8]) -> Result<Datum> {
        let damaged = || {
            let message = format!("a value of type {} is damaged", self.shown());
            SqlError::new(code::DATA_CORRUPTED, message)
        };
        let (mut rest, fields) = (bytes, self.fields());
        let count = number(&mut rest).map_err(|_| damaged())?;
        let count = usize::try_from(count).ok().filter(|count| *count <= fields.len());
        let count = count.ok_or_else(damaged)?;
        let mut values = Vec::with_capacity(fields.len());
        for field in &fields[..count] {
            let Some(value) = piece(&mut rest).map_err(|_| damaged())? else {
                values.push(Datum::Null);
                continue;
            };
            let read = match field.ty.to_column() {
                Some(Type::Bytes) => Datum::stored(Value::Bytes(value.to_vec()), field.ty)?,
                _ => Datum::from_binary(field.ty, value)?,
            };
            values.push(field.padded(read));
        }
        values.resize(fields.len(), Datum::Null);
        if rest.is_empty() { Ok(Record::of_type(self, values).into()) } else { Err(damaged()) }
    }
}

/// The bytes that the store keeps for a row.
pub(super) fn to_stored(record: &Record) -> Vec<u8> {
    let mut out = (record.values().len() as u32).to_be_bytes().to_vec();
    for value in record.values() {
        let bytes = match value.clone().into_value() {
            Some(Value::Bytes(bytes)) => Some(bytes),
            _ => value.to_binary(),
        };
        match bytes {
            None => out.extend((-1i32).to_be_bytes()),
            Some(bytes) => {
                out.extend((bytes.len() as u32).to_be_bytes());
                out.extend(bytes);
            }
        }
    }
    out
}

fn cut_off() -> SqlError {
    SqlError::new(code::PROTOCOL_VIOLATION, "insufficient data left in message")
}

fn number(rest: &mut &[u8]) -> Result<i32> {
    let (first, behind) = rest.split_first_chunk::<4>().ok_or_else(cut_off)?;
    *rest = behind;
    Ok(i32::from_be_bytes(*first))
}

/// Bytes behind their length; none for a null.
fn piece<'b>(rest: &mut &'b [u8]) -> Result<Option<&'b [u8]>> {
    let length = number(rest)?;
    if length == -1 {
        return Ok(None);
    }
    let length = usize::try_from(length).ok().filter(|length| *length <= rest.len());
    let (value, behind) = rest.split_at(length.ok_or_else(cut_off)?);
    *rest = behind;
    Ok(Some(value))
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}')
}

/// A text that is read.
struct Input<'t> {
    text: &'t str,
    rest: &'t str,
}

impl Input<'_> {
    fn malformed(&self, detail: &str) -> SqlError {
        let message = format!("malformed record literal: \"{}\"", self.text);
        SqlError::new(code::INVALID_TEXT, message).detail(detail)
    }

    fn take(&mut self, wanted: char) -> bool {
        let rest = self.rest.strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// The text up to the comma or parenthesis behind it; none for a null.
    fn field(&mut self) -> Result<Option<String>> {
        if self.rest.starts_with([',', ')']) {
            return Ok(None);
        }
        let (mut out, mut in_quotes) = (String::new(), false);
        let mut chars = self.rest.chars();
        loop {
            let before = chars.as_str();
            let Some(c) = chars.next() else {
                return Err(self.malformed("Unexpected end of input."));
            };
            match c {
                ',' | ')' if !in_quotes => {
                    self.rest = before;
                    return Ok(Some(out));
                }
                '\\' => match chars.next() {
                    Some(c) => out.push(c),
                    None => return Err(self.malformed("Unexpected end of input.")),
                },
                '"' if in_quotes && chars.as_str().starts_with('"') => {
                    chars.next();
                    out.push('"');
                }
                '"' => in_quotes = !in_quotes,
                c => out.push(c),
            }
        }
    }
}
