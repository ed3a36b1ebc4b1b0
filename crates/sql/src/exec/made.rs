//! Rows of relations that are made up, and which of them have a value in a column.
//!
//! Rows stand column by column: values of one type side by side, texts one behind the other. Of a
//! column that has few long values each stands once, as does the only value of a column, of
//! which catalogs have many. A hash table of a column is made when somebody first asks for its
//! values.
//!
//! Invariants: rows are counted as long as they are kept, and so is what finds them by a value. A
//! column for which no memory is left is searched. Does not do: making them (`catalog::views`).

use std::collections::HashMap;

use rightlink_env::sync::{Arc, Mutex};

use crate::error::Result;
use crate::exec::batch::{BYTES, Batch, ROWS};
use crate::exec::hash::{hash_of, hash_text, place};
use crate::exec::memory::Memory;
use crate::exec::vector::{NO_ROW, Numbers, Texts, Vector};
use crate::expr::Context;
use crate::plan::term::Keys;
use crate::types::{Datum, Row};

/// Columns of rows for other statements by which they are found.
const INDEXED: usize = 4;
/// A column has few values if each comes in so many rows on average.
const FEW: usize = 4;

/// Rows that are kept, column by column.
pub(super) struct MadeRows {
    len: usize,
    columns: Vec<Column>,
    /// Rows that are handed on together.
    together: usize,
    indexes: Mutex<Indexes>,
}

/// Values of a column.
enum Column {
    Same(Datum),
    Bool(Numbers<bool>),
    Int2(Numbers<i16>),
    Int4(Numbers<i32>),
    Oid(Numbers<u32>),
    Char(Numbers<u8>),
    Text(Texts),
    /// Each value once, and of each row the place of its own.
    Few {
        values: Vec<Datum>,
        places: Vec<u16>,
    },
    Any(Vec<Datum>),
}

/// Indexes of columns that were asked for by a value.
struct Indexes {
    by_column: HashMap<usize, Arc<Index>>,
    /// Counts the rows and their indexes; `None`: so many indexes are counted already.
    memory: Option<Memory>,
}

/// Rows by the hash of a value: the first of each chain, and the row behind each.
struct Index {
    heads: Vec<u32>,
    next: Vec<u32>,
}

impl Column {
    fn of(values: Vec<Datum>) -> Column {
        use std::mem::discriminant;
        let Some(first) = values.iter().find(|value| !value.is_null()) else {
            return Column::Same(Datum::Null);
        };
        if !values.iter().all(|one| one.is_null() || discriminant(one) == discriminant(first)) {
            return Column::Any(values);
        }
        let is_long =
            matches!(first, Datum::Text(_) | Datum::Array(_) | Datum::Vector(_) | Datum::Reg(_));
        if is_long && let Some(few) = Column::few(&values) {
            return few;
        }
        match first {
            Datum::Float4(_) | Datum::Int8(_) if values.iter().all(|one| one == first) => {
                Column::Same(first.clone())
            }
            Datum::Bool(_) => Column::Bool(numbers(&values, |value| match value {
                Datum::Bool(value) => Some(*value),
                _ => None,
            })),
            Datum::Int2(_) => Column::Int2(numbers(&values, |value| match value {
                Datum::Int2(value) => Some(*value),
                _ => None,
            })),
            Datum::Int4(_) => Column::Int4(numbers(&values, |value| match value {
                Datum::Int4(value) => Some(*value),
                _ => None,
            })),
            Datum::Oid(_) => Column::Oid(numbers(&values, |value| match value {
                Datum::Oid(value) => Some(*value),
                _ => None,
            })),
            Datum::Char(_) => Column::Char(numbers(&values, |value| match value {
                Datum::Char(value) => Some(*value),
                _ => None,
            })),
            Datum::Text(_) => {
                let mut texts = Texts::default();
                values.iter().for_each(|value| texts.push(text_of(value)));
                Column::Text(texts)
            }
            _ => Column::Any(values),
        }
        .shortened()
    }

    /// Values of which there are few.
    fn few(values: &[Datum]) -> Option<Column> {
        let most = (values.len() / FEW).min(usize::from(u16::MAX));
        let mut by_hash: HashMap<Option<u64>, Vec<u16>> = HashMap::new();
        let (mut own, mut places) = (Vec::new(), Vec::with_capacity(values.len()));
        let mut bytes = Vec::new();
        for value in values {
            let same = by_hash.entry(hash_of(value, &mut bytes)).or_default();
            let known = same.iter().find(|place| own[usize::from(**place)] == *value).copied();
            let place = match known {
                Some(place) => place,
                None if own.len() >= most => return None,
                None => {
                    let place = own.len() as u16;
                    own.push(value.clone());
                    same.push(place);
                    place
                }
            };
            places.push(place);
        }
        Some(match own.len() {
            1 => Column::Same(own.remove(0)),
            _ => Column::Few { values: own, places },
        })
    }

    /// The one value that all rows have, if they have one.
    fn shortened(self) -> Column {
        fn one<T: Copy + Default + PartialEq>(numbers: &Numbers<T>) -> bool {
            numbers.nulls.is_empty() && numbers.values.iter().all(|one| *one == numbers.values[0])
        }
        let same = match &self {
            Column::Bool(numbers) => one(numbers),
            Column::Int2(numbers) => one(numbers),
            Column::Int4(numbers) => one(numbers),
            Column::Oid(numbers) => one(numbers),
            Column::Char(numbers) => one(numbers),
            Column::Text(texts) => (0..texts.len()).all(|at| texts.get(at) == texts.get(0)),
            Column::Same(_) | Column::Few { .. } | Column::Any(_) => false,
        };
        if same { Column::Same(self.get(0)) } else { self }
    }

    fn get(&self, at: usize) -> Datum {
        fn of<T>(value: Option<T>, make: impl Fn(T) -> Datum) -> Datum {
            value.map_or(Datum::Null, make)
        }
        match self {
            Column::Same(value) => value.clone(),
            Column::Bool(numbers) => of(numbers.get(at), Datum::Bool),
            Column::Int2(numbers) => of(numbers.get(at), Datum::Int2),
            Column::Int4(numbers) => of(numbers.get(at), Datum::Int4),
            Column::Oid(numbers) => of(numbers.get(at), Datum::Oid),
            Column::Char(numbers) => of(numbers.get(at), Datum::Char),
            Column::Text(texts) => of(texts.get(at), |text| Datum::Text(text.to_owned())),
            Column::Few { values, places } => values[usize::from(places[at])].clone(),
            Column::Any(values) => values[at].clone(),
        }
    }

    /// The values of these rows.
    fn pick(&self, rows: &[u32]) -> Vector {
        match self {
            Column::Same(value) => Vector::Same(value.clone(), rows.len()),
            Column::Bool(numbers) => Vector::Bool(numbers.pick(rows)),
            Column::Int4(numbers) => Vector::Int4(numbers.pick(rows)),
            Column::Text(texts) => Vector::Text(texts.pick(rows)),
            Column::Few { values, places } if values.iter().all(is_text) => {
                let mut texts = Texts::default();
                for row in rows {
                    texts.push(text_of(&values[usize::from(places[*row as usize])]));
                }
                Vector::Text(texts)
            }
            Column::Int2(_)
            | Column::Oid(_)
            | Column::Char(_)
            | Column::Few { .. }
            | Column::Any(_) => Vector::Any(rows.iter().map(|at| self.get(*at as usize)).collect()),
        }
    }

    /// As [`hash_of`] of the value; `None` for a null.
    fn hash(&self, at: usize, bytes: &mut Vec<u8>) -> Option<u64> {
        match self {
            Column::Text(texts) => texts.get(at).map(hash_text),
            Column::Few { values, places } => hash_of(&values[usize::from(places[at])], bytes),
            Column::Any(values) => hash_of(&values[at], bytes),
            other => hash_of(&other.get(at), bytes),
        }
    }

    /// Is the value of a row this one, which is not null?
    fn is(&self, at: usize, value: &Datum) -> bool {
        match (self, value) {
            (Column::Text(texts), Datum::Text(text)) => texts.get(at) == Some(text.as_str()),
            (Column::Oid(numbers), Datum::Oid(number)) => numbers.get(at) == Some(*number),
            (Column::Few { values, places }, value) => {
                values[usize::from(places[at])].compare(value).is_eq()
            }
            (Column::Any(values), value) => values[at].compare(value).is_eq(),
            (other, value) => other.get(at).compare(value).is_eq(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Column::Same(value) => size_of::<Datum>() + value.heap_bytes(),
            Column::Bool(numbers) => 2 * numbers.values.len(),
            Column::Char(numbers) => 2 * numbers.values.len(),
            Column::Int2(numbers) => 3 * numbers.values.len(),
            Column::Int4(numbers) => 5 * numbers.values.len(),
            Column::Oid(numbers) => 5 * numbers.values.len(),
            Column::Text(texts) => texts.bytes(),
            Column::Few { values, places } => bytes_of(values) + size_of_val(places.as_slice()),
            Column::Any(values) => bytes_of(values),
        }
    }
}

/// Bytes of values that stand by themselves.
fn bytes_of(values: &[Datum]) -> usize {
    size_of_val(values) + values.iter().map(Datum::heap_bytes).sum::<usize>()
}

fn is_text(value: &Datum) -> bool {
    matches!(value, Datum::Text(_) | Datum::Null)
}

fn text_of(value: &Datum) -> Option<&str> {
    match value {
        Datum::Text(text) => Some(text),
        _ => None,
    }
}

fn numbers<T: Copy + Default>(values: &[Datum], value: impl Fn(&Datum) -> Option<T>) -> Numbers<T> {
    let mut out = Numbers::with_capacity(values.len());
    values.iter().for_each(|one| out.push(value(one)));
    out
}

impl Index {
    fn of(column: &Column, rows: usize) -> Index {
        let size = rows.next_power_of_two().max(2);
        let (mut heads, mut next) = (vec![NO_ROW; size], vec![NO_ROW; rows]);
        let mut bytes = Vec::new();
        // Backward, so that each chain has its rows in order.
        for row in (0..rows).rev() {
            let Some(hash) = column.hash(row, &mut bytes) else { continue };
            let head = &mut heads[place(hash, size)];
            next[row] = std::mem::replace(head, row as u32);
        }
        Index { heads, next }
    }

    /// Bytes of one of so many rows.
    fn bytes(rows: usize) -> usize {
        (rows.next_power_of_two().max(2) + rows) * size_of::<u32>()
    }
}

impl MadeRows {
    /// Rows of these columns, counted as long as they are.
    pub(super) fn new(rows: Vec<Row>, width: usize, context: &Context) -> Result<MadeRows> {
        let made = MadeRows::counted(rows, width, context)?;
        let mut memory = Memory::new(&context.budget());
        memory.charge(made.columns.iter().map(Column::bytes).sum())?;
        made.indexes.lock().memory = Some(memory);
        Ok(made)
    }

    /// Rows that somebody else counts, by [`MadeRows::bytes`].
    pub(super) fn counted(mut rows: Vec<Row>, width: usize, context: &Context) -> Result<MadeRows> {
        context.check()?;
        let len = rows.len();
        let mut columns = Vec::with_capacity(width);
        for at in 0..width {
            context.spend(len)?;
            columns.push(Column::of(
                rows.iter_mut().map(|row| std::mem::take(&mut row[at])).collect(),
            ));
        }
        let bytes: usize = columns.iter().map(Column::bytes).sum();
        let together = (BYTES * 8 / (bytes / len.max(1)).max(1)).clamp(1, ROWS);
        let indexes = Indexes { by_column: HashMap::new(), memory: None };
        Ok(MadeRows { len, columns, together, indexes: Mutex::new(indexes) })
    }

    /// Bytes that they take, with what finds them by a value.
    pub(super) fn bytes(&self) -> usize {
        let indexed = INDEXED.min(self.columns.len());
        self.columns.iter().map(Column::bytes).sum::<usize>() + indexed * Index::bytes(self.len)
    }

    /// Their number.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The number of them that are handed on together.
    pub(super) fn together(&self) -> usize {
        self.together
    }

    /// A value of a row.
    pub(super) fn value(&self, at: usize, row: u32) -> Datum {
        self.columns[at].get(row as usize)
    }

    /// These rows, of these columns.
    pub(super) fn pick(&self, columns: &[usize], rows: &[u32]) -> Batch {
        let columns = columns.iter().map(|at| self.columns[*at].pick(rows)).collect();
        Batch { len: rows.len(), columns }
    }

    /// Numbers of the rows that have one of these values in column `at`, in their order.
    pub(super) fn having(&self, at: usize, values: &Keys, context: &Context) -> Result<Vec<u32>> {
        let mut wanted = Vec::new();
        values.each(context, &mut |value| wanted.push(value))?;
        context.spend(wanted.len())?;
        let mut found = Vec::new();
        for value in &wanted {
            self.find(at, value, context, &mut found)?;
        }
        if wanted.len() > 1 {
            found.sort_unstable();
            found.dedup();
        }
        Ok(found)
    }

    /// Adds the numbers of the rows that have `value` in column `at`.
    pub(super) fn find(
        &self,
        at: usize,
        value: &Datum,
        context: &Context,
        found: &mut Vec<u32>,
    ) -> Result<()> {
        let column = &self.columns[at];
        if value.is_null() || self.len == 0 {
            return Ok(());
        }
        let Some(index) = self.index(at, context)? else {
            context.spend(self.len)?;
            found.extend((0..self.len as u32).filter(|row| column.is(*row as usize, value)));
            return Ok(());
        };
        let hash = hash_of(value, &mut Vec::new()).expect("it is not null");
        let mut row = index.heads[place(hash, index.heads.len())];
        let before = found.len();
        while row != NO_ROW {
            if column.is(row as usize, value) {
                found.push(row);
            }
            row = index.next[row as usize];
        }
        context.spend(found.len() - before)
    }

    /// The index of a column; `None` if there is no memory for it.
    fn index(&self, at: usize, context: &Context) -> Result<Option<Arc<Index>>> {
        let mut indexes = self.indexes.lock();
        if let Some(known) = indexes.by_column.get(&at) {
            return Ok(Some(Arc::clone(known)));
        }
        let count = indexes.by_column.len();
        let has_room = match &mut indexes.memory {
            Some(memory) => memory.charge(Index::bytes(self.len)).is_ok(),
            None => count < INDEXED,
        };
        if !has_room {
            return Ok(None);
        }
        context.spend(self.len)?;
        let index = Arc::new(Index::of(&self.columns[at], self.len));
        indexes.by_column.insert(at, Arc::clone(&index));
        Ok(Some(index))
    }
}

#[cfg(test)]
mod tests {
    use rightlink_env::Rng;

    use super::*;
    use crate::expr::Expr;

    fn value(random: &mut Rng, kind: u64) -> Datum {
        let few = random.below(5);
        match kind {
            _ if kind % 2 == 1 && few == 0 => Datum::Null,
            0 | 1 => Datum::Oid(few as u32 * 1_000),
            2 | 3 => Datum::Text(format!("name {few}")),
            4 => Datum::Bool(few > 2),
            5 => Datum::Int2(few as i16),
            6 => Datum::Int4(-(few as i32)),
            7 => Datum::Char(b'a' + few as u8),
            8 => Datum::Float4(few as f32 / 2.0),
            9 => Datum::Int8(7),
            10 => Datum::Text("the same".to_owned()),
            // Of several types.
            _ => {
                if few > 2 {
                    Datum::Int4(few as i32)
                } else {
                    Datum::Int8(few as i64)
                }
            }
        }
    }

    /// With and without memory for what finds them.
    #[test]
    fn rows_are_found_as_a_search_finds_them() {
        let context = Context::outside();
        let mut random = Rng::from_seed(5);
        for count in [0, 1, 2, 300] {
            let rows: Vec<Row> = (0..count)
                .map(|_| (0..12).map(|kind| value(&mut random, kind)).collect())
                .collect();
            for counts in [true, false] {
                let made = match counts {
                    true => MadeRows::new(rows.clone(), 12, &context).unwrap(),
                    false => MadeRows::counted(rows.clone(), 12, &context).unwrap(),
                };
                assert_eq!(made.len(), rows.len());
                let all: Vec<u32> = (0..rows.len() as u32).collect();
                let picked = made.pick(&(0..12).collect::<Vec<_>>(), &all);
                for (at, row) in rows.iter().enumerate() {
                    assert_eq!(&picked.row(at), row);
                }
                for kind in 0..12 {
                    let wanted: Vec<Datum> =
                        (0..random.below(4)).map(|_| value(&mut random, kind as u64)).collect();
                    let is_wanted = |value: &Datum| {
                        wanted.iter().any(|one| !one.is_null() && value.compare(one).is_eq())
                    };
                    let expected = rows.iter().enumerate().filter(|(_, row)| is_wanted(&row[kind]));
                    let expected: Vec<u32> = expected.map(|(at, _)| at as u32).collect();
                    let wanted = Keys::List(wanted.into_iter().map(Expr::Const).collect());
                    assert_eq!(made.having(kind, &wanted, &context).unwrap(), expected);
                }
            }
        }
    }
}
