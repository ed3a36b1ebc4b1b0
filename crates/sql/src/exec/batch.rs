//! Rows on their way from one operator to the next, column by column.
//!
//! Invariants: all columns of a batch have as many values as it has rows; a batch that is handed on
//! has rows. Does not do: evaluating (`columns`).

use crate::types::{Datum, Row, SqlType};

/// Rows of a batch at most.
pub(crate) const ROWS: usize = 1_024;
/// Bytes behind the values of a batch from which on it is handed on.
pub(crate) const BYTES: usize = 128 << 10;

/// The number of a row that is not there.
pub(crate) const NO_ROW: u32 = u32::MAX;

/// Values of one column.
#[derive(Clone, Debug)]
pub(crate) enum Vector {
    /// The same value in each of so many rows.
    Same(Datum, usize),
    Bool(Numbers<bool>),
    Int4(Numbers<i32>),
    Int8(Numbers<i64>),
    Float8(Numbers<f64>),
    Any(Vec<Datum>),
}

/// Values of one fixed size, with what is null among them.
#[derive(Clone, Debug)]
pub(crate) struct Numbers<T> {
    pub(crate) values: Vec<T>,
    /// Of each value whether it is null; empty if none is.
    pub(crate) nulls: Vec<bool>,
}

impl<T: Copy + Default> Numbers<T> {
    pub(crate) fn with_capacity(rows: usize) -> Numbers<T> {
        Numbers { values: Vec::with_capacity(rows), nulls: Vec::new() }
    }

    /// Values of which none is null.
    pub(crate) fn all(values: Vec<T>) -> Numbers<T> {
        Numbers { values, nulls: Vec::new() }
    }

    pub(crate) fn push(&mut self, value: Option<T>) {
        if value.is_none() && self.nulls.is_empty() {
            self.nulls = vec![false; self.values.len()];
        }
        if value.is_none() || !self.nulls.is_empty() {
            self.nulls.push(value.is_none());
        }
        self.values.push(value.unwrap_or_default());
    }

    #[inline]
    pub(crate) fn is_null(&self, at: usize) -> bool {
        !self.nulls.is_empty() && self.nulls[at]
    }

    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<T> {
        if self.is_null(at) { None } else { Some(self.values[at]) }
    }

    fn pick(&self, rows: &[u32]) -> Numbers<T> {
        let values = rows.iter().map(|at| self.values[*at as usize]).collect();
        let nulls = match self.nulls.is_empty() {
            true => Vec::new(),
            false => rows.iter().map(|at| self.nulls[*at as usize]).collect(),
        };
        Numbers { values, nulls }
    }
}

impl Vector {
    /// An empty one for values of a type.
    pub(crate) fn of(ty: SqlType, rows: usize) -> Vector {
        match ty {
            SqlType::Bool => Vector::Bool(Numbers::with_capacity(rows)),
            SqlType::Int4 => Vector::Int4(Numbers::with_capacity(rows)),
            SqlType::Int8 => Vector::Int8(Numbers::with_capacity(rows)),
            SqlType::Float8 => Vector::Float8(Numbers::with_capacity(rows)),
            _ => Vector::Any(Vec::with_capacity(rows)),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Vector::Same(_, len) => *len,
            Vector::Bool(numbers) => numbers.values.len(),
            Vector::Int4(numbers) => numbers.values.len(),
            Vector::Int8(numbers) => numbers.values.len(),
            Vector::Float8(numbers) => numbers.values.len(),
            Vector::Any(values) => values.len(),
        }
    }

    /// The value of a row.
    pub(crate) fn get(&self, at: usize) -> Datum {
        fn of<T: Copy + Default>(numbers: &Numbers<T>, at: usize, make: fn(T) -> Datum) -> Datum {
            numbers.get(at).map_or(Datum::Null, make)
        }
        match self {
            Vector::Same(value, _) => value.clone(),
            Vector::Bool(numbers) => of(numbers, at, Datum::Bool),
            Vector::Int4(numbers) => of(numbers, at, Datum::Int4),
            Vector::Int8(numbers) => of(numbers, at, Datum::Int8),
            Vector::Float8(numbers) => of(numbers, at, Datum::Float8),
            Vector::Any(values) => values[at].clone(),
        }
    }

    /// The value of a row, which is not asked for again.
    pub(crate) fn take(&mut self, at: usize) -> Datum {
        match self {
            Vector::Any(values) => std::mem::take(&mut values[at]),
            other => other.get(at),
        }
    }

    /// Is the value of a row true?
    pub(crate) fn is_true(&self, at: usize) -> bool {
        match self {
            Vector::Bool(numbers) => numbers.values[at] && !numbers.is_null(at),
            other => matches!(other.get(at), Datum::Bool(true)),
        }
    }

    pub(crate) fn is_null(&self, at: usize) -> bool {
        match self {
            Vector::Same(value, _) => value.is_null(),
            Vector::Bool(numbers) => numbers.is_null(at),
            Vector::Int4(numbers) => numbers.is_null(at),
            Vector::Int8(numbers) => numbers.is_null(at),
            Vector::Float8(numbers) => numbers.is_null(at),
            Vector::Any(values) => values[at].is_null(),
        }
    }

    /// Adds a value behind the others. One of another type makes a vector of any values.
    pub(crate) fn push(&mut self, value: Datum) {
        match (&mut *self, value) {
            (Vector::Bool(numbers), Datum::Bool(value)) => numbers.push(Some(value)),
            (Vector::Int4(numbers), Datum::Int4(value)) => numbers.push(Some(value)),
            (Vector::Int8(numbers), Datum::Int8(value)) => numbers.push(Some(value)),
            (Vector::Float8(numbers), Datum::Float8(value)) => numbers.push(Some(value)),
            (Vector::Bool(numbers), Datum::Null) => numbers.push(None),
            (Vector::Int4(numbers), Datum::Null) => numbers.push(None),
            (Vector::Int8(numbers), Datum::Null) => numbers.push(None),
            (Vector::Float8(numbers), Datum::Null) => numbers.push(None),
            (Vector::Any(values), value) => values.push(value),
            (_, value) => {
                let mut values: Vec<Datum> = (0..self.len()).map(|at| self.get(at)).collect();
                values.push(value);
                *self = Vector::Any(values);
            }
        }
    }

    /// The values of these rows, in their order.
    pub(crate) fn pick(&self, rows: &[u32]) -> Vector {
        match self {
            Vector::Same(value, _) => Vector::Same(value.clone(), rows.len()),
            Vector::Bool(numbers) => Vector::Bool(numbers.pick(rows)),
            Vector::Int4(numbers) => Vector::Int4(numbers.pick(rows)),
            Vector::Int8(numbers) => Vector::Int8(numbers.pick(rows)),
            Vector::Float8(numbers) => Vector::Float8(numbers.pick(rows)),
            Vector::Any(values) => {
                Vector::Any(rows.iter().map(|at| values[*at as usize].clone()).collect())
            }
        }
    }

    /// As [`Vector::pick`], with null for rows that are [`NO_ROW`].
    pub(crate) fn pick_or_null(&self, rows: &[u32]) -> Vector {
        fn of<T: Copy + Default>(numbers: &Numbers<T>, rows: &[u32]) -> Numbers<T> {
            let mut out = Numbers::with_capacity(rows.len());
            for at in rows {
                out.push(if *at == NO_ROW { None } else { numbers.get(*at as usize) });
            }
            out
        }
        match self {
            Vector::Bool(numbers) => Vector::Bool(of(numbers, rows)),
            Vector::Int4(numbers) => Vector::Int4(of(numbers, rows)),
            Vector::Int8(numbers) => Vector::Int8(of(numbers, rows)),
            Vector::Float8(numbers) => Vector::Float8(of(numbers, rows)),
            Vector::Same(..) | Vector::Any(_) => {
                let value = |at: &u32| match *at {
                    NO_ROW => Datum::Null,
                    at => self.get(at as usize),
                };
                Vector::Any(rows.iter().map(value).collect())
            }
        }
    }

    /// Adds the values of another one behind its own.
    pub(crate) fn append(&mut self, other: Vector) {
        fn join<T: Copy + Default>(own: &mut Numbers<T>, other: Numbers<T>) {
            if own.nulls.is_empty() && !other.nulls.is_empty() {
                own.nulls = vec![false; own.values.len()];
            }
            if !own.nulls.is_empty() {
                match other.nulls.is_empty() {
                    true => own.nulls.resize(own.nulls.len() + other.values.len(), false),
                    false => own.nulls.extend(other.nulls),
                }
            }
            own.values.extend(other.values);
        }
        match (&mut *self, other) {
            (Vector::Bool(own), Vector::Bool(other)) => join(own, other),
            (Vector::Int4(own), Vector::Int4(other)) => join(own, other),
            (Vector::Int8(own), Vector::Int8(other)) => join(own, other),
            (Vector::Float8(own), Vector::Float8(other)) => join(own, other),
            (Vector::Any(own), Vector::Any(other)) => own.extend(other),
            (_, mut other) => (0..other.len()).for_each(|at| {
                let value = other.take(at);
                self.push(value);
            }),
        }
    }

    /// As [`Vector::pick`], of rows that ascend, the other values being let go.
    pub(crate) fn keep(self, rows: &[u32]) -> Vector {
        match self {
            Vector::Any(mut values) => {
                let mut kept = Vec::with_capacity(rows.len());
                kept.extend(rows.iter().map(|at| std::mem::take(&mut values[*at as usize])));
                Vector::Any(kept)
            }
            other => other.pick(rows),
        }
    }

    /// Bytes behind its values.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Vector::Any(values) => values.iter().map(Datum::heap_bytes).sum(),
            _ => 0,
        }
    }

    /// Bytes of its values where each stands by itself, as behind those of another vector.
    pub(crate) fn bytes(&self) -> usize {
        let each = match self {
            Vector::Same(value, _) => size_of::<Datum>() + value.heap_bytes(),
            Vector::Bool(_) => 2,
            Vector::Int4(_) => size_of::<i32>() + 1,
            Vector::Int8(_) => size_of::<i64>() + 1,
            Vector::Float8(_) => size_of::<f64>() + 1,
            Vector::Any(_) => size_of::<Datum>(),
        };
        self.len() * each + self.heap_bytes()
    }
}

/// Rows, column by column.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    pub(crate) len: usize,
    pub(crate) columns: Vec<Vector>,
}

impl Batch {
    /// An empty one for rows of this width.
    pub(crate) fn with_width(width: usize, rows: usize) -> Batch {
        let column = |_| Vector::Any(Vec::with_capacity(rows));
        Batch { len: 0, columns: (0..width).map(column).collect() }
    }

    /// Adds a row behind the others.
    pub(crate) fn push(&mut self, row: Row) {
        debug_assert_eq!(row.len(), self.columns.len(), "rows of one batch are equally wide");
        self.columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        self.len += 1;
    }

    /// The values of a row.
    pub(crate) fn row(&self, at: usize) -> Row {
        self.columns.iter().map(|column| column.get(at)).collect()
    }

    /// The values of a row, which is not asked for again.
    pub(crate) fn take_row(&mut self, at: usize) -> Row {
        self.columns.iter_mut().map(|column| column.take(at)).collect()
    }

    /// The values of a row, into one that is used again.
    pub(crate) fn read_row(&self, at: usize, row: &mut Row) {
        row.clear();
        row.extend(self.columns.iter().map(|column| column.get(at)));
    }

    /// These rows, which ascend, without the others.
    pub(crate) fn keep(self, rows: &[u32]) -> Batch {
        if rows.len() == self.len {
            return self;
        }
        let columns = self.columns.into_iter().map(|column| column.keep(rows)).collect();
        Batch { len: rows.len(), columns }
    }

    /// These rows, each as often as it is named.
    pub(crate) fn pick(&self, rows: &[u32]) -> Batch {
        let columns = self.columns.iter().map(|column| column.pick(rows)).collect();
        Batch { len: rows.len(), columns }
    }

    /// Adds the rows of another one behind its own.
    pub(crate) fn append(&mut self, other: Batch) {
        if self.columns.is_empty() && self.len == 0 {
            *self = other;
            return;
        }
        self.columns.iter_mut().zip(other.columns).for_each(|(own, other)| own.append(other));
        self.len += other.len;
    }

    /// The first rows, without the others.
    pub(crate) fn truncate(self, len: usize) -> Batch {
        match len >= self.len {
            true => self,
            false => self.keep(&(0..len as u32).collect::<Vec<_>>()),
        }
    }

    /// The rows behind the first ones.
    pub(crate) fn skip(self, count: usize) -> Batch {
        let rows: Vec<u32> = (count.min(self.len) as u32..self.len as u32).collect();
        self.keep(&rows)
    }

    /// The first rows, which leave it.
    pub(crate) fn split_front(&mut self, count: usize) -> Batch {
        if count >= self.len {
            return std::mem::take(self);
        }
        let first = self.pick(&(0..count as u32).collect::<Vec<_>>());
        *self = std::mem::take(self).skip(count);
        first
    }

    /// Bytes of its values.
    pub(crate) fn bytes(&self) -> usize {
        self.columns.iter().map(Vector::bytes).sum()
    }
}
