//! INSERT with ON CONFLICT.
//!
//! Invariants: a row that is in the way is judged as it is now, and changed at most once by the
//! statement. Does not do: several rows at a time where they are shown or foreign keys look on.

use rightlink::{OnConflict, RowId, Upserted, Value};

use super::failure::{carry, unless};
use super::write::Inserting;
use crate::error::Result;
use crate::exec::{query, rows};
use crate::expr::{Context, Pace};
use crate::plan::{Conflict, Insert, Target};
use crate::types::{Datum, Row};

/// Puts rows in or changes those in their way; how many were either.
pub(super) fn run(
    to: &mut Inserting<'_, '_, '_>,
    insert: &Insert,
    conflict: &Conflict,
    batch: Vec<Vec<Value>>,
    context: &Context,
) -> Result<u64> {
    let looked_at = insert.returning.is_some() || insert.rules.watch_rows();
    let at_once = if looked_at && conflict.assignments.is_some() { 1 } else { batch.len() };
    let mut count = 0;
    let (mut rows, mut pace) = (batch.into_iter(), Pace::default());
    loop {
        pace.step(context)?;
        let part: Vec<Vec<Value>> = rows.by_ref().take(at_once).collect();
        if part.is_empty() {
            return Ok(count);
        }
        count += some(to, insert, conflict, part, context)?;
    }
}

fn some(
    to: &mut Inserting<'_, '_, '_>,
    insert: &Insert,
    conflict: &Conflict,
    part: Vec<Vec<Value>>,
    context: &Context,
) -> Result<u64> {
    let names: Vec<&str> = match &conflict.target {
        Target::Columns(names) => names.iter().map(String::as_str).collect(),
        Target::Any | Target::Index(_) => Vec::new(),
    };
    let on = match &conflict.target {
        Target::Any => OnConflict::Any,
        Target::Columns(_) => OnConflict::Columns(&names),
        Target::Index(name) => OnConflict::Index(name),
    };
    let mut failed = None;
    // What a change made, where one row is proposed at a time.
    let mut changed: Option<(Vec<Value>, Vec<Value>)> = None;
    let mut merge = |old: &[Value], proposed: &[Value]| {
        let merged = carry(&mut failed, merged(insert, conflict, (old, proposed), context))?;
        changed = merged.as_ref().map(|new| (old.to_vec(), new.clone()));
        Ok(merged)
    };
    let merge = conflict.assignments.as_ref().map(|_| &mut merge as rightlink::Merge<'_>);
    let result = to.writer.upsert(on, &part, merge);
    let done = unless(failed, result)?;
    let mut count = 0;
    for (values, upserted) in part.into_iter().zip(done) {
        match upserted {
            Upserted::Inserted(id) => to.took(&insert.rules, (None, values), id, context)?,
            Upserted::Updated(id) => {
                // Without rules and RETURNING nobody looks at the row.
                if let Some((old, new)) = changed.take() {
                    to.took(&insert.rules, (Some(&old), new), id, context)?;
                }
            }
            Upserted::Untouched(_) => continue,
        }
        count += 1;
    }
    Ok(count)
}

/// The row that is there as DO UPDATE makes it; `None` leaves it alone.
fn merged(
    insert: &Insert,
    conflict: &Conflict,
    (old, proposed): (&[Value], &[Value]),
    context: &Context,
) -> Result<Option<Vec<Value>>> {
    let Some(assignments) = &conflict.assignments else { return Ok(None) };
    let mut row: Row = Vec::with_capacity(old.len() + 1 + proposed.len());
    let types = &insert.table.types;
    for value in Datum::stored_row(old, types) {
        row.push(value?);
    }
    // Its place is not told.
    row.push(Datum::Tid(RowId::new(0, 0)));
    for value in Datum::stored_row(proposed, types) {
        row.push(value?);
    }
    if let Some(condition) = &conflict.condition
        && !condition.holds(&row, context)?
    {
        return Ok(None);
    }
    let exprs = assignments.iter().map(|(_, value)| value);
    let assigned = query::values(exprs, &row, context)?;
    row.truncate(old.len());
    for ((at, _), value) in assignments.iter().zip(assigned) {
        row[*at] = value;
    }
    rows::checked((&insert.table, &insert.rules), row, context).map(Some)
}
