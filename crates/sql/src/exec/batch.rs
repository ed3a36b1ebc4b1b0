//! Rows on their way from one operator to the next, column by column.
//!
//! Columns are [`Vector`]s.
//!
//! Invariants: all columns of a batch have as many values as it has rows; a batch that is handed on
//! has rows. Does not do: evaluating (`columns`).

use crate::exec::vector::Vector;
use crate::types::Row;

/// Rows of a batch at most.
pub(crate) const ROWS: usize = 1_024;
/// Bytes behind the values of a batch from which on it is handed on.
pub(crate) const BYTES: usize = 128 << 10;

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

    /// The rows one by one.
    pub(crate) fn into_rows(mut self) -> impl Iterator<Item = Row> {
        (0..self.len).map(move |at| self.take_row(at))
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
