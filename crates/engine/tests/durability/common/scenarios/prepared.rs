//! Prepared transactions: decided at once, later, and by another process.
//!
//! Does not do: locks of prepared transactions (`tests/api/prepared.rs`).

use super::{NAME, insert, text, usual_row, usual_rows};
use crate::common::{Out, Script, Tx};

/// A transaction of several statements, one of which was undone.
fn change(script: &mut Script, first: i64) -> Out<Tx> {
    let mut tx = script.begin();
    tx.insert_many(script, "t", usual_rows(first..first + 3, 40))?;
    tx.update(script, ("t", 0), NAME, text(format!("by {first}")))?;
    tx.delete(script, "t", first - 50)?;
    Ok(tx)
}

/// Two are prepared beside each other and beside others that commit; one is committed, the other
/// rolled back, and a name is used again.
pub(super) fn prepared(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..20, 40)?;
    script.checkpoint()?;
    script.record();
    let tx = change(script, 60)?;
    script.prepare(tx, "one")?;
    let mut tx = script.begin();
    tx.insert(script, "t", usual_row(100, 40))?;
    script.prepare(tx, "two")?;
    insert(script, 200..203, 40)?;
    script.decide("two", false)?;
    script.decide("one", true)?;
    let tx = change(script, 64)?;
    script.prepare(tx, "one")?;
    script.checkpoint()?;
    script.decide("one", true)
}

/// The process dies, or closes the database, while transactions are prepared.
pub(super) fn prepared_and_killed(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..20, 40)?;
    let tx = change(script, 60)?;
    script.prepare(tx, "old")?;
    script.kill(vec![]);
    script.record();
    script.open()?;
    let mut tx = script.begin();
    tx.insert(script, "t", usual_row(100, 40))?;
    script.prepare(tx, "new")?;
    // Segments of the log with what was prepared are used again.
    for round in 0..4 {
        insert(script, 200 + round * 40..240 + round * 40, 400)?;
        script.checkpoint()?;
    }
    script.decide("old", true)?;
    script.close()?;
    script.open()?;
    script.vacuum()?;
    script.decide("new", true)?;
    let tx = change(script, 64)?;
    script.prepare(tx, "old")?;
    script.kill(vec![]);
    script.open()?;
    script.decide("old", false)
}
