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

/// Rows that go in and out of an index of some rows, with a column beside the key.
pub(super) fn partial_index(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..40, 150)?;
    script.record();
    let few = Predicate::new().at_least("tag", Value::Int8(3));
    let index = IndexSchema::new("t_few").on("note").on("id").unique().include(["tag"]).only(few);
    script.transact(|script, tx| tx.create_index(script, "t", index))?;
    for round in 0..4 {
        script.transact(|script, tx| {
            for id in 1..12 {
                let tag =
                    if (id + round) % 3 == 0 { Value::Null } else { Value::Int8(id % 5 + round) };
                tx.update(script, ("t", id), TAG, tag)?;
            }
            tx.update(script, ("t", 20 + round), NOTE, text("another"))
        })?;
    }
    let mut tx = script.begin();
    tx.update(script, ("t", 5), TAG, Value::Int8(-1))?;
    tx.update(script, ("t", 30), TAG, Value::Int8(9))?;
    tx.rollback();
    delete(script, 8..14)?;
    insert(script, 8..10, 10)?;
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

/// A table in new files, and one that goes back to its old ones.
pub(super) fn rewrite(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..30, 60)?;
    delete(script, 4..9)?;
    script.record();
    script.transact(|script, tx| {
        tx.update(script, ("t", 1), NAME, text("before"))?;
        tx.rewrite(script, "t", NAME)?;
        tx.update(script, ("t", 2), NOTE, text("after"))
    })?;
    let mut tx = script.begin();
    tx.rewrite(script, "t", NOTE)?;
    script.checkpoint()?;
    tx.rollback();
    insert(script, 40..44, 60)?;
    script.transact(|script, tx| tx.rewrite(script, "t", NOTE))?;
    script.checkpoint()
}

/// An index built beside commits that come between its stages.
pub(super) fn online_index(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..60, 10)?;
    script.checkpoint()?;
    script.record();
    let index = rightlink::IndexSchema::new("t_note").on("note").on("id");
    let hook = busy_between_stages(script.db().clone());
    let built = script.create_index_online("t", &index);
    drop(hook);
    built?;
    insert(script, 100..110, 10)
}

pub(super) fn reindex(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..60, 10)?;
    delete(script, (0..60).step_by(3))?;
    script.checkpoint()?;
    script.record();
    let hook = busy_between_stages(script.db().clone());
    let built = script.reindex("t");
    drop(hook);
    built?;
    insert(script, 100..110, 10)
}

/// Transactions between the stages of a build, which are undone: what they leave is garbage in heap
/// and indexes, and no state of the script.
fn busy_between_stages(db: rightlink::Database) -> rightlink_env::points::InstalledLocal {
    rightlink_env::points::install_local(move |name| {
        if matches!(name, "online.counted" | "online.sorted" | "online.built" | "online.kept") {
            let mut txn = db.begin();
            // With a fault, it fails: the build is what counts.
            let _ = txn.insert_many("t", &usual_rows(500..510, 10));
            let found = txn.get("t", &[Value::Int8(7)]).ok().flatten();
            if let Some(row) = found {
                let _ = txn.update("t", row.id, &[("note", text("changed"))]);
            }
        }
    })
}
