//! Whole rows from values of some columns: the others get their defaults.
//!
//! Invariants: the time is the transaction's; numbers of sequences are taken at once for all rows
//! of a statement, and not given back when it fails.
//! Does not do: checks of the rows, which the table does.

use crate::datum::{Type, Value};
use crate::error::{Error, Result};
use crate::table::schema::{Column, ColumnDefault, TableDef};
use crate::txn::Transaction;
use crate::upkeep::Engine;

/// Microseconds from 1970-01-01 to 2000-01-01, which timestamps count from.
const EPOCH: i64 = 946_684_800_000_000;
const MICROS_PER_DAY: i64 = 86_400_000_000;

/// Fills in what rows do not say.
pub(crate) struct Filler<'f> {
    pub(crate) engine: &'f Engine,
    pub(crate) def: &'f TableDef,
    /// The transaction's time.
    pub(crate) now: i64,
}

/// What fills one column.
enum Source {
    /// The value at this place of the given row.
    Given(usize),
    Constant(Value),
    RandomUuid,
    Numbers(Type, std::vec::IntoIter<i64>),
}

impl Filler<'_> {
    /// Whole rows from `rows`, which have values of `columns` in their order.
    pub(crate) fn fill(
        &self,
        txn: &mut Transaction,
        columns: &[&str],
        rows: &[Vec<Value>],
    ) -> Result<Vec<Vec<Value>>> {
        self.def.refuse_computed()?;
        let named = columns.iter().map(|name| self.def.column_no(name));
        let named = named.collect::<Result<Vec<_>>>()?;
        let table = &self.def.name;
        for (at, no) in named.iter().enumerate() {
            let (column, again) = (columns[at], named[..at].contains(no));
            let identity = self.def.columns[usize::from(*no)].identity.as_ref();
            if again || identity.is_some_and(|identity| identity.always) {
                let why = if again { "named twice" } else { "always generated" };
                return Err(Error::Invalid(format!("column {column} of table {table} is {why}")));
            }
        }
        if let Some(row) = rows.iter().find(|row| row.len() != columns.len()) {
            let (count, wanted) = (row.len(), columns.len());
            return Err(Error::Invalid(format!("row of {count} values for {wanted} columns")));
        }
        let mut sources = Vec::new();
        for (no, column) in self.def.live() {
            sources.push(match named.iter().position(|known| *known == no) {
                Some(at) => Source::Given(at),
                None => self.source(txn, column, rows.len())?,
            });
        }
        let whole =
            |row: &Vec<Value>| sources.iter_mut().map(|from| self.draw(from, row)).collect();
        Ok(rows.iter().map(whole).collect())
    }

    fn source(&self, txn: &mut Transaction, column: &Column, rows: usize) -> Result<Source> {
        if let Some(identity) = &column.identity {
            let sequence = self.engine.catalog.open_sequence(&identity.sequence)?;
            return Ok(Source::Numbers(column.ty, sequence.take(txn, rows)?.into_iter()));
        }
        Ok(match &column.default {
            None => Source::Constant(Value::Null),
            Some(ColumnDefault::Value(value)) => Source::Constant(value.clone()),
            Some(ColumnDefault::Now) => Source::Constant(now(column.ty, self.now)),
            Some(ColumnDefault::RandomUuid) => Source::RandomUuid,
        })
    }

    fn draw(&self, from: &mut Source, row: &[Value]) -> Value {
        match from {
            Source::Given(at) => row[*at].clone(),
            Source::Constant(value) => value.clone(),
            Source::RandomUuid => random_uuid(self.engine),
            Source::Numbers(ty, numbers) => {
                number(*ty, numbers.next().expect("one number for each row"))
            }
        }
    }
}

/// A number of a sequence as a value of the integer type `ty`, which holds it.
pub(crate) fn number(ty: Type, number: i64) -> Value {
    match ty {
        Type::Int2 => Value::Int2(number as i16),
        Type::Int4 => Value::Int4(number as i32),
        _ => Value::Int8(number),
    }
}

pub(crate) fn random_uuid(engine: &Engine) -> Value {
    let mut bytes = [0; 16];
    engine.random.lock().fill(&mut bytes);
    // Version 4, the variant of RFC 4122.
    bytes[6] = bytes[6] & 0x0F | 0x40;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    Value::Uuid(bytes)
}

/// `unix` microseconds since 1970 as a value of type `ty`.
pub(crate) fn now(ty: Type, unix: i64) -> Value {
    let micros = unix - EPOCH;
    match ty {
        Type::Timestamp => Value::Timestamp(micros),
        Type::TimestampTz => Value::TimestampTz(micros),
        Type::Date => Value::Date(micros.div_euclid(MICROS_PER_DAY) as i32),
        Type::Time => Value::Time(micros.rem_euclid(MICROS_PER_DAY)),
        _ => unreachable!("a definition that passed has no time in such a column"),
    }
}
