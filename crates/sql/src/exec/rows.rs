//! Whole rows of a table from what a statement gives: defaults filled in, rules asked.
//!
//! Invariants: a row that gets through is what the table's definition says; rows that wait for the
//! engine are counted. Does not do: foreign keys (`references`).

use rightlink::{Budget, Value};

use crate::error::{Result, SqlError, code};
use crate::exec::memory::Memory;
use crate::expr::Context;
use crate::plan::{Given, Rules, Table};
use crate::types::{Datum, Row};

/// Rows that are handed to the engine at a time.
const BATCH: usize = 1_000;
/// Bytes from which on they are counted against the budget.
const COUNTED: usize = 64 << 10;
/// Of the budget, what they take at most, and in bytes.
const SHARE: usize = 16;
const MOST: usize = 4 << 20;

/// Rows that wait until they are enough to be handed to the engine.
pub(crate) struct Batch {
    rows: Vec<Vec<Value>>,
    memory: Memory,
    bytes: usize,
    most: usize,
    /// Had the budget nothing left?
    refused: bool,
}

impl Batch {
    pub(crate) fn new(budget: &Budget) -> Batch {
        let most = (budget.limit() / SHARE).min(MOST);
        let (rows, memory) = (Vec::new(), Memory::new(budget));
        Batch { rows, memory, bytes: 0, most, refused: false }
    }

    pub(crate) fn push(&mut self, row: Vec<Value>) {
        let own = size_of::<Vec<Value>>() + size_of_val(row.as_slice());
        self.bytes += own + row.iter().map(Value::heap_bytes).sum::<usize>();
        self.rows.push(row);
        if self.bytes > COUNTED {
            let more = self.bytes - self.memory.used();
            self.refused |= self.memory.charge(more).is_err();
        }
    }

    /// Is it time to hand the rows over?
    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() >= BATCH || self.bytes > self.most || self.refused
    }

    pub(crate) fn rows(&self) -> &[Vec<Value>] {
        &self.rows
    }

    /// The rows; they are counted until [`Batch::clear`].
    pub(crate) fn take(&mut self) -> Vec<Vec<Value>> {
        std::mem::take(&mut self.rows)
    }

    /// The rows are stored.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.memory.release();
        (self.bytes, self.refused) = (0, false);
    }
}

/// A row of `table` from a row that is given. What views ask of it is left to
/// [`check_views`], since a row in the way comes first.
pub(crate) fn complete(
    (table, rules): (&Table, &Rules),
    given: &[Given],
    row: Row,
    context: &Context,
) -> Result<Vec<Value>> {
    of_filled(table, rules, filled(given, row, context)?, context)
}

/// A whole row from a row that is given: defaults are filled in, no rules asked.
pub(crate) fn filled(given: &[Given], mut row: Row, context: &Context) -> Result<Row> {
    let mut whole: Row = Vec::with_capacity(given.len());
    for given in given {
        whole.push(match given {
            Given::Place(at) => std::mem::take(&mut row[*at]),
            Given::Default(expr) => expr.eval(&[], context)?,
        });
    }
    Ok(whole)
}

/// The values of a whole row that meets the rules, but for those of views.
pub(crate) fn of_filled(
    table: &Table,
    rules: &Rules,
    mut whole: Row,
    context: &Context,
) -> Result<Vec<Value>> {
    generate(table, &mut whole, context)?;
    check(table, rules, &whole, context)?;
    compute(table, &mut whole, context)?;
    whole.into_iter().map(to_value).collect()
}

/// The values of a row that meets the rules.
pub(crate) fn checked(
    (table, rules): (&Table, &Rules),
    mut row: Row,
    context: &Context,
) -> Result<Vec<Value>> {
    generate(table, &mut row, context)?;
    check(table, rules, &row, context)?;
    check_views(rules, shown(table, &row), context)?;
    compute(table, &mut row, context)?;
    row.into_iter().map(to_value).collect()
}

/// Sets the generated columns, which rules may ask about.
fn generate(table: &Table, row: &mut Row, context: &Context) -> Result<()> {
    for column in &table.generated {
        row[column.at] = column.expr.eval(row, context)?;
    }
    Ok(())
}

/// Sets the hidden columns that have values of expressions over the others.
fn compute(table: &Table, row: &mut Row, context: &Context) -> Result<()> {
    let first = row.len() - table.computed.len();
    for (at, expr) in table.computed.iter().enumerate() {
        row[first + at] = expr.eval(row, context)?;
    }
    Ok(())
}

/// What domains ask, NOT NULL and CHECK.
fn check(table: &Table, rules: &Rules, row: &Row, context: &Context) -> Result<()> {
    for (at, tests) in &rules.domains {
        tests.iter().try_for_each(|test| test.ask(&row[*at], context))?;
    }
    let null = table.info.columns.iter().zip(row).find(|(c, v)| !c.nullable && v.is_null());
    if let Some((column, _)) = null {
        let message = format!(
            "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
            column.name,
            table.bare_name()
        );
        let error =
            SqlError::new(code::NOT_NULL_VIOLATION, message).detail(failing(shown(table, row)));
        return Err(error.of_column(&table.info.name, &column.name));
    }
    for (name, condition) in &rules.checks {
        if condition.eval(row, context)? == Datum::Bool(false) {
            let message = format!(
                "new row for relation \"{}\" violates check constraint \"{name}\"",
                table.bare_name()
            );
            let error =
                SqlError::new(code::CHECK_VIOLATION, message).detail(failing(shown(table, row)));
            return Err(error.of_constraint(&table.info.name, name));
        }
    }
    Ok(())
}

/// The part of a row that clients see.
pub(crate) fn shown<'r>(table: &Table, row: &'r [Datum]) -> &'r [Datum] {
    &row[..row.len() - table.computed.len()]
}

/// WITH CHECK OPTION, of the part of a row that clients see.
pub(crate) fn check_views(rules: &Rules, row: &[Datum], context: &Context) -> Result<()> {
    for check in &rules.view_checks {
        if !check.condition.holds(row, context)? {
            let message = format!("new row violates check option for view \"{}\"", check.view);
            return Err(SqlError::new(code::CHECK_OPTION, message).detail(failing(row)));
        }
    }
    Ok(())
}

fn failing(row: &[Datum]) -> String {
    let shown: Vec<String> =
        row.iter().map(|value| value.to_text().unwrap_or_else(|| "null".to_owned())).collect();
    format!("Failing row contains ({}).", shown.join(", "))
}

/// A value of a column's type, to which the binder has cast.
pub(crate) fn to_value(datum: Datum) -> Result<Value> {
    let overflow = || SqlError::new(code::NUMERIC_OUT_OF_RANGE, "value overflows numeric format");
    datum.into_value().ok_or_else(overflow)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many rows with a text of `length` bytes are handed over at a time, and what they take.
    fn filled(budget: &Budget, length: usize) -> (usize, usize) {
        let mut batch = Batch::new(budget);
        while !batch.is_full() {
            batch.push(vec![Value::Text("x".repeat(length)), Value::Null]);
        }
        let (count, taken) = (batch.rows().len(), budget.limit() - budget.available());
        assert_eq!(batch.take().len(), count);
        batch.clear();
        assert_eq!(budget.available(), budget.limit());
        assert!(!batch.is_full());
        (count, taken)
    }

    #[test]
    fn rows_wait_for_as_many_as_memory_allows() {
        let budget = Budget::new(16 << 20);
        assert_eq!(filled(&budget, 10).0, BATCH, "few bytes: by number");
        let (count, taken) = filled(&budget, 100_000);
        assert!((5..=11).contains(&count), "a sixteenth: {count}");
        assert!(taken >= count * 100_000, "{taken} bytes are counted");
        assert_eq!(filled(&budget, 2_000_000).0, 1);
        let _rest = budget.try_reserve((16 << 20) - (300 << 10)).unwrap();
        let mut batch = Batch::new(&budget);
        while !batch.is_full() {
            batch.push(vec![Value::Text("x".repeat(100_000))]);
        }
        assert!((2..=4).contains(&batch.rows().len()), "nothing left of the budget");
    }
}
