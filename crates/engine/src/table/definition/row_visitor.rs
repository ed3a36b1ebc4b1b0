//! A trait for code that takes the values of rows as they are read.
//!
//! Does not do: reading (`row`).

use crate::datum::{Decimal, Value};
use crate::ids::RowId;

/// Takes rows value by value, so that no row is put together ([`crate::Rows::visit`]).
///
/// ```
/// use rightlink::{RowId, RowVisitor, ScanOptions, TableSchema, Type, Value};
/// /// Sums one column, some rows at a time.
/// #[derive(Default)]
/// struct Sum { total: i64, rows: u64 }
/// impl RowVisitor for Sum {
///     fn value(&mut self, _place: usize, value: Value) {
///         if let Value::Int8(n) = value { self.total += n; }
///     }
///     fn end_row(&mut self, _id: RowId) -> bool {
///         self.rows += 1;
///         self.rows % 100 != 0
///     }
/// }
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # txn.create_table(&TableSchema::new("n").column("a", Type::Int8).primary_key(["a"]))?;
/// # let rows: Vec<_> = (1..=250).map(|n| vec![Value::Int8(n)]).collect();
/// # txn.insert_many("n", &rows)?;
/// let mut rows = txn.scan("n", &ScanOptions::all())?;
/// let mut sum = Sum::default();
/// while rows.visit(&mut sum)? > 0 {}
/// assert_eq!((sum.rows, sum.total), (250, 250 * 251 / 2));
/// # Ok(())
/// # }
/// ```
pub trait RowVisitor {
    /// Takes the value of the wanted column at `place`. Values of a row come in any order.
    fn value(&mut self, place: usize, value: Value);
    /// Takes null: by [`RowVisitor::value`], unless this is implemented. So for the types below.
    fn null(&mut self, place: usize) {
        self.value(place, Value::Null);
    }
    /// Takes an `int4`.
    fn int4(&mut self, place: usize, value: i32) {
        self.value(place, Value::Int4(value));
    }
    /// Takes an `int8`.
    fn int8(&mut self, place: usize, value: i64) {
        self.value(place, Value::Int8(value));
    }
    /// Takes a `float8`.
    fn float8(&mut self, place: usize, value: f64) {
        self.value(place, Value::Float8(value));
    }
    /// Takes a `date`, days since 2000-01-01.
    fn date(&mut self, place: usize, value: i32) {
        self.value(place, Value::Date(value));
    }
    /// Takes a text.
    fn text(&mut self, place: usize, value: &str) {
        self.value(place, Value::Text(value.to_owned()));
    }
    /// Takes the decimal that is `unscaled` / 10^`scale`; larger ones come as values.
    fn decimal(&mut self, place: usize, unscaled: i128, scale: u16) {
        let number = Decimal::from_unscaled(unscaled, scale).expect("a stored scale");
        self.value(place, Value::Decimal(number));
    }
    /// Takes the end of the row at `id`. False ends the visit.
    fn end_row(&mut self, id: RowId) -> bool;
}
