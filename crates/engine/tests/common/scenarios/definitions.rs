//! Scenarios of crash tests that change definitions: tables, indexes, columns, sequences.
//!
//! As `scenarios`. Does not do: checking.

use rightlink::{IndexSchema, Value};

use super::*;

pub(super) fn create_index(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..60, 300)?;
    script.record();
    let note = || IndexSchema::new("t_note").on("note").on("name");
    script.transact(|script, tx| tx.create_index(script, "t", note()))?;
    script.transact(|script, tx| tx.update(script, ("t", 5), NOTE, text("another")))?;
    script.checkpoint()
}

pub(super) fn drop_index(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..30, 100)?;
    script.record();
    script.transact(|script, tx| tx.drop_index(script, "t", "t_name"))?;
    insert(script, 30..34, 100)?;
    script.transact(|script, tx| {
        tx.create_index(script, "t", IndexSchema::new("t_name").on("name").on("id"))
    })?;
    script.checkpoint()
}

pub(super) fn create_table(script: &mut Script) -> Out {
    script.open_with_table()?;
    script.record();
    script.transact(|script, tx| {
        tx.create_table(script, &usual_table("u"))?;
        if script.errors.is_empty() {
            tx.insert_many(script, "u", usual_rows(0..5, 20))?;
        }
        tx.insert(script, "t", usual_row(1, 20))
    })?;
    script.transact(|script, tx| tx.create_table(script, &usual_table("v")))?;
    script.checkpoint()
}

pub(super) fn drop_table(script: &mut Script) -> Out {
    script.open_with_table()?;
    script.transact(|script, tx| {
        tx.create_table(script, &usual_table("u"))?;
        tx.insert_many(script, "u", usual_rows(0..10, 200))
    })?;
    insert(script, 0..3, 10)?;
    script.record();
    script.transact(|script, tx| {
        tx.drop_table(script, "u")?;
        tx.insert(script, "t", usual_row(3, 10))
    })?;
    script.transact(|script, tx| tx.create_table(script, &usual_table("w")))?;
    script.checkpoint()
}

pub(super) fn definitions_undone(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..20, 100)?;
    script.record();
    let mut tx = script.begin();
    tx.create_table(script, &usual_table("u"))?;
    tx.create_index(script, "t", IndexSchema::new("t_note").on("note"))?;
    tx.add_column(script, "t", "extra")?;
    script.checkpoint()?;
    tx.rollback();
    let mut tx = script.begin();
    let mark = tx.savepoint();
    tx.create_table(script, &usual_table("v"))?;
    tx.drop_index(script, "t", "t_tag")?;
    tx.rollback_to(script, mark)?;
    tx.insert(script, "t", usual_row(20, 10))?;
    script.commit(tx)?;
    script.checkpoint()
}

pub(super) fn columns(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..8, 30)?;
    script.record();
    script.transact(|script, tx| tx.add_column(script, "t", "extra"))?;
    if script.errors.is_empty() {
        script.transact(|script, tx| {
            let mut row = usual_row(8, 30);
            row.push(text("more"));
            tx.insert(script, "t", row)
        })?;
    }
    script.transact(|script, tx| tx.drop_column(script, "t", "note"))?;
    script.transact(|script, tx| tx.delete(script, "t", 3))?;
    script.checkpoint()
}

/// Numbers of a sequence in transactions that commit, durably or not, and roll back.
pub(super) fn sequence(script: &mut Script) -> Out {
    script.open_with_table()?;
    script.checkpoint()?;
    script.record();
    script.transact(|script, tx| {
        tx.create_numbers(script, "t")?;
        if script.errors.is_empty() {
            tx.insert_numbered(script, "t")?;
        }
        Ok(())
    })?;
    for round in 0..9 {
        let mut tx = if round % 3 == 1 { script.begin_relaxed() } else { script.begin() };
        for _ in 0..round * 2 {
            tx.insert_numbered(script, "t")?;
        }
        if round % 3 == 2 {
            tx.rollback();
        } else {
            script.commit(tx)?;
        }
        if round == 5 {
            script.checkpoint()?;
        }
    }
    Ok(())
}

pub(super) fn alterations(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..20, 60)?;
    script.record();
    script.transact(|script, tx| {
        let known = Predicate::new().at_least("id", Value::Int8(0));
        tx.add_check(script, "t", ("known", known))?;
        tx.rename_column(script, "t", ("note", "label"))
    })?;
    script.transact(|script, tx| tx.change_primary_key(script, "t", ("t_pkey", "t_key")))?;
    let mut tx = script.begin();
    tx.rename_table(script, "t", "never")?;
    tx.rollback();
    script.transact(|script, tx| {
        tx.rename_table(script, "t", "u")?;
        if script.errors.is_empty() {
            tx.delete(script, "u", 3)?;
        }
        Ok(())
    })?;
    script.transact(|script, tx| tx.create_table(script, &usual_table("v")))?;
    script.checkpoint()
}
