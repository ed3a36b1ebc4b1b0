//! Values of one column of a batch.
//!
//! Values of fixed size stand side by side, numbers of `numeric` as whole numbers of one scale,
//! texts in one buffer. A value that does not fit in, as a number of another scale, makes it a
//! vector of [`Datum`]s.
//!
//! Invariants: what is put in comes out, the scale of a number included.
//! Does not do: evaluating (`columns`).

use rightlink::Decimal;

use crate::types::{Datum, SqlType};

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
    Date(Numbers<i32>),
    Numeric(Decimals),
    Text(Texts),
    Any(Vec<Datum>),
}

/// Values of one fixed size, with what is null among them.
#[derive(Clone, Debug)]
pub(crate) struct Numbers<T> {
    pub(crate) values: Vec<T>,
    /// Of each value whether it is null; empty if none is.
    pub(crate) nulls: Vec<bool>,
}

/// Numbers of `numeric` that all have one scale.
#[derive(Clone, Debug)]
pub(crate) struct Decimals {
    /// Each times 10^scale.
    pub(crate) unscaled: Numbers<i128>,
    /// That of the first number; `None` before there is one.
    pub(crate) scale: Option<u16>,
}

/// Texts one behind the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Texts {
    all: String,
    /// Where each ends.
    ends: Vec<usize>,
    /// Of each whether it is null; empty if none is.
    nulls: Vec<bool>,
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
        note_null(&mut self.nulls, value.is_none(), self.values.len());
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

    pub(crate) fn pick(&self, rows: &[u32]) -> Numbers<T> {
        let values = rows.iter().map(|at| self.values[*at as usize]).collect();
        let nulls = match self.nulls.is_empty() {
            true => Vec::new(),
            false => rows.iter().map(|at| self.nulls[*at as usize]).collect(),
        };
        Numbers { values, nulls }
    }

    /// As `pick`, with null for rows that are [`NO_ROW`].
    fn pick_or_null(&self, rows: &[u32]) -> Numbers<T> {
        let mut out = Numbers::with_capacity(rows.len());
        for at in rows {
            out.push(if *at == NO_ROW { None } else { self.get(*at as usize) });
        }
        out
    }

    fn append(&mut self, other: Numbers<T>) {
        let (own, all) = (self.values.len(), self.values.len() + other.values.len());
        if !self.nulls.is_empty() || !other.nulls.is_empty() {
            self.nulls.resize(own, false);
            self.nulls.extend(other.nulls);
            self.nulls.resize(all, false);
        }
        self.values.extend(other.values);
    }
}

/// Notes behind `nulls` of so many values whether the next one is null.
fn note_null(nulls: &mut Vec<bool>, is_null: bool, before: usize) {
    if is_null && nulls.is_empty() {
        *nulls = vec![false; before];
    }
    if is_null || !nulls.is_empty() {
        nulls.push(is_null);
    }
}

impl Decimals {
    fn with_capacity(rows: usize) -> Decimals {
        Decimals { unscaled: Numbers::with_capacity(rows), scale: None }
    }

    /// Adds a number, `unscaled` / 10^`scale`; false, and nothing done, if the others have another
    /// scale.
    pub(crate) fn push(&mut self, unscaled: i128, scale: u16) -> bool {
        let fits = *self.scale.get_or_insert(scale) == scale;
        if fits {
            self.unscaled.push(Some(unscaled));
        }
        fits
    }

    pub(crate) fn get(&self, at: usize) -> Option<Decimal> {
        let unscaled = self.unscaled.get(at)?;
        let scale = self.scale.expect("there is a number");
        Some(Decimal::from_unscaled(unscaled, scale).expect("the scale of a number"))
    }

    /// May the numbers of another one stand behind its own?
    fn fits(&self, other: &Decimals) -> bool {
        self.scale.is_none() || other.scale.is_none() || self.scale == other.scale
    }

    /// Adds the numbers of another one that fits.
    fn append(&mut self, other: Decimals) {
        self.scale = self.scale.or(other.scale);
        self.unscaled.append(other.unscaled);
    }
}

impl Texts {
    pub(crate) fn push(&mut self, text: Option<&str>) {
        note_null(&mut self.nulls, text.is_none(), self.ends.len());
        self.all.push_str(text.unwrap_or_default());
        self.ends.push(self.all.len());
    }

    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<&str> {
        if !self.nulls.is_empty() && self.nulls[at] {
            return None;
        }
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        Some(&self.all[start..self.ends[at]])
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.all.capacity() + self.ends.capacity() * size_of::<usize>() + self.nulls.capacity()
    }

    pub(crate) fn pick(&self, rows: &[u32]) -> Texts {
        let mut out = Texts::default();
        out.ends.reserve(rows.len());
        for at in rows {
            out.push(if *at == NO_ROW { None } else { self.get(*at as usize) });
        }
        out
    }

    fn append(&mut self, other: &Texts) {
        (0..other.ends.len()).for_each(|at| self.push(other.get(at)));
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
            SqlType::Date => Vector::Date(Numbers::with_capacity(rows)),
            SqlType::Numeric => Vector::Numeric(Decimals::with_capacity(rows)),
            SqlType::Text | SqlType::Bpchar => Vector::Text(Texts::default()),
            _ => Vector::Any(Vec::with_capacity(rows)),
        }
    }

    /// An empty one for so many values as this one has.
    pub(crate) fn empty_like(&self, rows: usize) -> Vector {
        match self {
            Vector::Same(value, _) => Vector::of(value.type_of().unwrap_or(SqlType::Unknown), rows),
            Vector::Bool(_) => Vector::of(SqlType::Bool, rows),
            Vector::Int4(_) => Vector::of(SqlType::Int4, rows),
            Vector::Int8(_) => Vector::of(SqlType::Int8, rows),
            Vector::Float8(_) => Vector::of(SqlType::Float8, rows),
            Vector::Date(_) => Vector::of(SqlType::Date, rows),
            Vector::Numeric(_) => Vector::of(SqlType::Numeric, rows),
            Vector::Text(_) => Vector::of(SqlType::Text, rows),
            Vector::Any(_) => Vector::Any(Vec::with_capacity(rows)),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Vector::Same(_, len) => *len,
            Vector::Bool(numbers) => numbers.values.len(),
            Vector::Int4(numbers) | Vector::Date(numbers) => numbers.values.len(),
            Vector::Int8(numbers) => numbers.values.len(),
            Vector::Float8(numbers) => numbers.values.len(),
            Vector::Numeric(numbers) => numbers.unscaled.values.len(),
            Vector::Text(texts) => texts.ends.len(),
            Vector::Any(values) => values.len(),
        }
    }

    /// The value of a row.
    pub(crate) fn get(&self, at: usize) -> Datum {
        fn of<T>(value: Option<T>, make: impl Fn(T) -> Datum) -> Datum {
            value.map_or(Datum::Null, make)
        }
        match self {
            Vector::Same(value, _) => value.clone(),
            Vector::Bool(numbers) => of(numbers.get(at), Datum::Bool),
            Vector::Int4(numbers) => of(numbers.get(at), Datum::Int4),
            Vector::Int8(numbers) => of(numbers.get(at), Datum::Int8),
            Vector::Float8(numbers) => of(numbers.get(at), Datum::Float8),
            Vector::Date(numbers) => of(numbers.get(at), Datum::Date),
            Vector::Numeric(numbers) => of(numbers.get(at), Datum::Numeric),
            Vector::Text(texts) => of(texts.get(at), |text| Datum::Text(text.to_owned())),
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
            Vector::Int4(numbers) | Vector::Date(numbers) => numbers.is_null(at),
            Vector::Int8(numbers) => numbers.is_null(at),
            Vector::Float8(numbers) => numbers.is_null(at),
            Vector::Numeric(numbers) => numbers.unscaled.is_null(at),
            Vector::Text(texts) => texts.get(at).is_none(),
            Vector::Any(values) => values[at].is_null(),
        }
    }

    /// Adds a value behind the others. One that does not fit in makes a vector of any values.
    pub(crate) fn push(&mut self, value: Datum) {
        match (&mut *self, value) {
            (Vector::Any(values), value) => values.push(value),
            (Vector::Bool(numbers), Datum::Bool(value)) => numbers.push(Some(value)),
            (Vector::Int4(numbers), Datum::Int4(value)) => numbers.push(Some(value)),
            (Vector::Int8(numbers), Datum::Int8(value)) => numbers.push(Some(value)),
            (Vector::Float8(numbers), Datum::Float8(value)) => numbers.push(Some(value)),
            (Vector::Date(numbers), Datum::Date(value)) => numbers.push(Some(value)),
            (Vector::Text(texts), Datum::Text(value)) => texts.push(Some(&value)),
            (Vector::Numeric(numbers), Datum::Numeric(value)) => match value.unscaled() {
                Some((unscaled, scale)) if numbers.push(unscaled, scale) => {}
                _ => self.push_any(Datum::Numeric(value)),
            },
            (Vector::Bool(numbers), Datum::Null) => numbers.push(None),
            (Vector::Int4(numbers) | Vector::Date(numbers), Datum::Null) => numbers.push(None),
            (Vector::Int8(numbers), Datum::Null) => numbers.push(None),
            (Vector::Float8(numbers), Datum::Null) => numbers.push(None),
            (Vector::Numeric(numbers), Datum::Null) => numbers.unscaled.push(None),
            (Vector::Text(texts), Datum::Null) => texts.push(None),
            (_, value) => self.push_any(value),
        }
    }

    /// Adds the value of a row of another one, which is not asked for again.
    pub(crate) fn push_from(&mut self, other: &mut Vector, at: usize) {
        match (&mut *self, other) {
            (Vector::Text(own), Vector::Text(other)) => own.push(other.get(at)),
            (_, other) => {
                let value = other.take(at);
                self.push(value);
            }
        }
    }

    fn push_any(&mut self, value: Datum) {
        let mut values: Vec<Datum> = (0..self.len()).map(|at| self.get(at)).collect();
        values.push(value);
        *self = Vector::Any(values);
    }

    /// The values of these rows, in their order.
    pub(crate) fn pick(&self, rows: &[u32]) -> Vector {
        match self {
            Vector::Same(value, _) => Vector::Same(value.clone(), rows.len()),
            Vector::Bool(numbers) => Vector::Bool(numbers.pick(rows)),
            Vector::Int4(numbers) => Vector::Int4(numbers.pick(rows)),
            Vector::Int8(numbers) => Vector::Int8(numbers.pick(rows)),
            Vector::Float8(numbers) => Vector::Float8(numbers.pick(rows)),
            Vector::Date(numbers) => Vector::Date(numbers.pick(rows)),
            Vector::Numeric(Decimals { unscaled, scale }) => {
                Vector::Numeric(Decimals { unscaled: unscaled.pick(rows), scale: *scale })
            }
            Vector::Text(texts) => Vector::Text(texts.pick(rows)),
            Vector::Any(values) => {
                Vector::Any(rows.iter().map(|at| values[*at as usize].clone()).collect())
            }
        }
    }

    /// As [`Vector::pick`], with null for rows that are [`NO_ROW`].
    pub(crate) fn pick_or_null(&self, rows: &[u32]) -> Vector {
        match self {
            Vector::Bool(numbers) => Vector::Bool(numbers.pick_or_null(rows)),
            Vector::Int4(numbers) => Vector::Int4(numbers.pick_or_null(rows)),
            Vector::Int8(numbers) => Vector::Int8(numbers.pick_or_null(rows)),
            Vector::Float8(numbers) => Vector::Float8(numbers.pick_or_null(rows)),
            Vector::Date(numbers) => Vector::Date(numbers.pick_or_null(rows)),
            Vector::Numeric(Decimals { unscaled, scale }) => {
                Vector::Numeric(Decimals { unscaled: unscaled.pick_or_null(rows), scale: *scale })
            }
            Vector::Text(texts) => Vector::Text(texts.pick(rows)),
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
        match (&mut *self, other) {
            (Vector::Bool(own), Vector::Bool(other)) => own.append(other),
            (Vector::Int4(own), Vector::Int4(other)) => own.append(other),
            (Vector::Int8(own), Vector::Int8(other)) => own.append(other),
            (Vector::Float8(own), Vector::Float8(other)) => own.append(other),
            (Vector::Date(own), Vector::Date(other)) => own.append(other),
            (Vector::Text(own), Vector::Text(other)) => own.append(&other),
            (Vector::Any(own), Vector::Any(other)) => own.extend(other),
            (Vector::Numeric(own), Vector::Numeric(other)) if own.fits(&other) => own.append(other),
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

    /// Bytes behind the value of a row.
    pub(crate) fn heap_bytes_at(&self, at: usize) -> usize {
        match self {
            Vector::Same(value, _) => value.heap_bytes(),
            Vector::Text(texts) => texts.get(at).map_or(0, str::len),
            Vector::Any(values) => values[at].heap_bytes(),
            _ => 0,
        }
    }

    /// Bytes behind its values.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Vector::Text(texts) => texts.all.len(),
            Vector::Any(values) => values.iter().map(Datum::heap_bytes).sum(),
            _ => 0,
        }
    }

    /// Bytes of its values where each stands by itself, as behind those of another vector.
    pub(crate) fn bytes(&self) -> usize {
        let each = match self {
            Vector::Same(value, _) => size_of::<Datum>() + value.heap_bytes(),
            Vector::Bool(_) => 2,
            Vector::Int4(_) | Vector::Date(_) => size_of::<i32>() + 1,
            Vector::Int8(_) => size_of::<i64>() + 1,
            Vector::Float8(_) => size_of::<f64>() + 1,
            Vector::Numeric(_) => size_of::<i128>() + 1,
            Vector::Text(_) => size_of::<usize>() + 1,
            Vector::Any(_) => size_of::<Datum>(),
        };
        self.len() * each + self.heap_bytes()
    }
}
