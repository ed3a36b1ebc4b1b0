//! Rows as values: PostgreSQL's `record`, whose fields its type does not tell, and values of
//! composite types.
//!
//! Invariants: a record has as many values as fields, and those of its type if that has a name. An
//! order of records is that of the first fields that differ, with nulls last. Values of `char(n)`
//! have their blanks.
//! Does not do: types that have names (`composite`).

use std::cmp::Ordering;
use std::sync::Arc;

use super::composite::Field;
use super::{CompositeType, Datum, SqlType, Times};
use crate::error::{Result, SqlError, code};

/// Bytes that the text of a row may take. Each row around another doubles the quotes in its text,
/// so that a few dozen would fill any memory.
const MAX_TEXT: usize = 16 << 20;

/// A row as a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    fields: Arc<[Field]>,
    values: Vec<Datum>,
    ty: Option<CompositeType>,
}

/// How long a text is.
#[derive(Clone, Copy)]
struct TextSize {
    bytes: usize,
    /// Bytes that are written twice between quotes.
    doubled: usize,
}

impl TextSize {
    fn of(text: &str) -> TextSize {
        let doubled = text.bytes().filter(|byte| matches!(byte, b'"' | b'\\')).count();
        TextSize { bytes: text.len(), doubled }
    }

    /// The same between quotes.
    fn quoted(self) -> TextSize {
        let TextSize { bytes, doubled } = self;
        TextSize { bytes: bytes + doubled + 2, doubled: 2 * doubled + 2 }
    }
}

impl Record {
    /// # Panics
    /// If there are more or fewer values than fields.
    pub(crate) fn new(fields: Arc<[Field]>, values: Vec<Datum>) -> Record {
        assert_eq!(fields.len(), values.len(), "a record has a value for each field");
        Record { fields, values, ty: None }
    }

    /// A row of a type that has a name.
    ///
    /// # Panics
    /// If there are more or fewer values than fields.
    pub(crate) fn of_type(ty: CompositeType, values: Vec<Datum>) -> Record {
        Record { ty: Some(ty), ..Record::new(ty.shape().clone(), values) }
    }

    /// The same fields with other values.
    ///
    /// # Panics
    /// If there are more or fewer values than fields.
    pub(crate) fn with_values(&self, values: Vec<Datum>) -> Record {
        Record { ty: self.ty, ..Record::new(self.fields.clone(), values) }
    }

    /// Its type, if that has a name.
    pub fn ty(&self) -> Option<CompositeType> {
        self.ty
    }

    /// Fails if its text would be too long.
    ///
    /// # Errors
    /// `54000` above 16 MiB.
    pub(crate) fn check_size(&self) -> Result<()> {
        let has_rows = self.values.iter().any(|value| matches!(value, Datum::Record(_)));
        if (has_rows || self.heap_bytes() > MAX_TEXT / 4) && self.text_size().bytes > MAX_TEXT {
            let message = format!("the text of a row would take more than {MAX_TEXT} bytes");
            return Err(SqlError::new(code::PROGRAM_LIMIT, message));
        }
        Ok(())
    }

    /// What its text takes at most. Rows inside of it were checked when they were made, so that
    /// they are not nested deeply.
    fn text_size(&self) -> TextSize {
        let field = |value: &Datum| match value {
            Datum::Record(row) => row.text_size(),
            other => TextSize::of(&other.to_text().unwrap_or_default()),
        };
        let sizes = self.values.iter().map(field).map(TextSize::quoted);
        sizes.fold(TextSize { bytes: 2, doubled: 0 }, |all, one| TextSize {
            bytes: all.bytes + one.bytes + 1,
            doubled: all.doubled + one.doubled,
        })
    }

    /// Its fields, in their order.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Their values.
    pub fn values(&self) -> &[Datum] {
        &self.values
    }

    /// Bytes behind the value, for memory budgets. The fields are shared.
    pub(crate) fn heap_bytes(&self) -> usize {
        let values: usize = self.values.iter().map(Datum::heap_bytes).sum();
        size_of::<Record>() + size_of_val(&*self.values) + values
    }

    /// Order of two records. Where the types of two fields differ it is that of the types, so that
    /// there is one for any two.
    pub(crate) fn compare(&self, other: &Record) -> Ordering {
        let one = |(field, (a, b)): (&Field, (&Datum, &Datum))| match (a.type_of(), b.type_of()) {
            (Some(x), Some(y)) if x != y => x.oid().cmp(&y.oid()),
            _ => match (a, b) {
                // Paths have no order in PostgreSQL.
                (Datum::Jsonpath(a), Datum::Jsonpath(b)) => a.to_string().cmp(&b.to_string()),
                (Datum::Text(a), Datum::Text(b)) if field.ty == SqlType::Bpchar => {
                    a.trim_end_matches(' ').cmp(b.trim_end_matches(' '))
                }
                _ => a.compare(b),
            },
        };
        let pairs = self.fields.iter().zip(self.values.iter().zip(&other.values));
        let differs = pairs.map(one).find(|order| order.is_ne());
        differs.unwrap_or_else(|| self.values.len().cmp(&other.values.len()))
    }

    /// Fails for two records that PostgreSQL does not compare.
    ///
    /// # Errors
    /// `42804` for another number of fields or other types.
    pub(crate) fn check_similar(&self, other: &Record) -> Result<()> {
        let differs = |what: String| Err(SqlError::new(code::DATATYPE_MISMATCH, what));
        for (at, (a, b)) in self.fields.iter().zip(&*other.fields).enumerate() {
            if a.ty != b.ty {
                let (a, b) = (a.ty.name(), b.ty.name());
                let at = at + 1;
                return differs(format!(
                    "cannot compare dissimilar column types {a} and {b} at record column {at}"
                ));
            }
            if !a.ty.is_ordered() {
                let what = "could not identify a comparison function for type";
                let message = format!("{what} {}", a.ty.name());
                return Err(SqlError::new(code::UNDEFINED_FUNCTION, message));
            }
        }
        match self.fields.len() == other.fields.len() {
            true => Ok(()),
            false => {
                differs("cannot compare record types with different numbers of columns".into())
            }
        }
    }

    /// Appends the text of it, as PostgreSQL prints a row.
    pub(super) fn write_text(&self, times: &Times, out: &mut String) {
        out.push('(');
        for (at, value) in self.values.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            if let Some(text) = value.to_text_in(times) {
                write_field(&text, out);
            }
        }
        out.push(')');
    }

    /// The bytes of it: how many fields there are, and the type, the length and the bytes of each.
    pub(super) fn to_binary(&self) -> Vec<u8> {
        let mut out = (self.values.len() as u32).to_be_bytes().to_vec();
        for (field, value) in self.fields.iter().zip(&self.values) {
            out.extend(field.oid().to_be_bytes());
            match value.to_binary() {
                None => out.extend((-1i32).to_be_bytes()),
                Some(bytes) => {
                    out.extend((bytes.len() as u32).to_be_bytes());
                    out.extend(bytes);
                }
            }
        }
        out
    }
}

/// A text within a row, in quotes where it would be read as something else.
fn write_field(text: &str, out: &mut String) {
    let special = |c: char| matches!(c, '"' | '\\' | '(' | ')' | ',') || c.is_ascii_whitespace();
    // A vertical tab is white space to PostgreSQL.
    let special = |c: char| special(c) || c == '\u{b}';
    if !text.is_empty() && !text.contains(special) {
        out.push_str(text);
        return;
    }
    out.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push(c);
        }
        out.push(c);
    }
    out.push('"');
}

impl From<Record> for Datum {
    fn from(record: Record) -> Datum {
        Datum::Record(Arc::new(record))
    }
}
