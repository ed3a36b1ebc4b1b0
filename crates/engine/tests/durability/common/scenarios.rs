//! The scripted runs: each makes one thing happen, small enough to crash at every call of it.
//!
//! Invariants: what a scenario is about happens after [`Script::record`]; it names the injection
//! points that prove it.
//! Does not do: checking.

mod definitions;
mod hash;
mod prepared;
mod vacuum;

use rightlink::{Error, IndexMethod, IndexSchema, Predicate, Value};
use rightlink_env::points;
use rightlink_env::sync::{AtomicUsize, Ordering};

use super::{Out, Scenario, Script, Settings, usual_row, usual_rows, usual_table};
use definitions::{
    alterations, columns, create_index, create_table, definitions_undone, drop_index, drop_table,
    online_index, partial_index, reindex, rewrite, sequence,
};
use hash::{hash_build, hash_overflow, hash_split, hash_squeeze};
use prepared::{prepared, prepared_and_killed};
use vacuum::{between_snapshots, tail_cut, vacuum_interrupted, vacuum_reuse};

const ROOMY: Settings = Settings::ROOMY;
const TINY: Settings = Settings::TINY_POOL;
const LITTLE: Settings = Settings::LITTLE_LOG;

/// Columns of the usual table.
const NAME: usize = 1;
const TAG: usize = 2;
const NOTE: usize = 3;

macro_rules! scenario {
    ($name:literal, $settings:expr, [$($point:literal),*], $run:path) => {
        Scenario { name: $name, settings: $settings, points: &[$($point),*], run: $run }
    };
}

/// All scenarios.
pub(crate) const ALL: &[Scenario] = &[
    scenario!(
        "commit",
        ROOMY,
        ["txn.commit.before-append", "txn.commit.before-visible", "wal.flush.before-sync"],
        commit
    ),
    scenario!("statements", ROOMY, ["txn.commit.after-append"], statements),
    scenario!("relaxed", ROOMY, ["txn.commit.after-visible", "wal.flush.after-sync"], relaxed),
    scenario!("rollback", ROOMY, ["buffer.mtr.after-append"], rollback),
    scenario!("row-locks", ROOMY, ["txn.commit.after-append", "heap.prune"], row_locks),
    scenario!("savepoint", ROOMY, ["txn.commit.after-append"], savepoint),
    scenario!("insert-many", ROOMY, ["buffer.extend", "wal.frame.before-write"], insert_many),
    scenario!("leaf-split", ROOMY, ["btree.split.incomplete"], leaf_split),
    scenario!("root-split", ROOMY, ["btree.split.incomplete", "buffer.extend"], root_split),
    scenario!("page-deletion", ROOMY, ["btree.merge.unlinked"], page_deletion),
    scenario!(
        "posting-lists",
        ROOMY,
        ["btree.put.deduplicated", "btree.delete.shortened", "btree.put.parted"],
        posting_lists
    ),
    scenario!("page-merge", ROOMY, ["btree.merge.joined", "btree.merge.unlinked"], page_merge),
    scenario!("hash-split", ROOMY, ["hash.split.incomplete", "hash.split.finished"], hash_split),
    scenario!("hash-overflow", ROOMY, ["hash.split.overflow"], hash_overflow),
    scenario!("hash-squeeze", ROOMY, ["hash.squeeze.joined", "hash.vacuum.visit"], hash_squeeze),
    scenario!("hash-build", ROOMY, ["catalog.create-index"], hash_build),
    scenario!("posting-split", ROOMY, ["btree.split.deduplicated"], posting_split),
    scenario!("vacuum-reuse", ROOMY, ["vacuum.before-indexes", "vacuum.before-free"], vacuum_reuse),
    scenario!(
        "vacuum-interrupted",
        ROOMY,
        ["vacuum.taken-up", "vacuum.before-free"],
        vacuum_interrupted
    ),
    scenario!(
        "between-snapshots",
        ROOMY,
        ["heap.between.removed", "heap.between.stub"],
        between_snapshots
    ),
    scenario!("tail-cut", ROOMY, ["vacuum.cut-tail", "buffer.truncate"], tail_cut),
    scenario!(
        "checkpoint",
        ROOMY,
        ["checkpoint.begin", "checkpoint.after-sync", "wal.control.before-sync"],
        checkpoint
    ),
    scenario!(
        "checkpoint-steps",
        LITTLE,
        ["checkpoint.begin", "checkpoint.after-control"],
        checkpoint_steps
    ),
    scenario!("file-growth", ROOMY, ["buffer.extend", "buffer.extend.before-sync"], file_growth),
    scenario!(
        "log-recycling",
        LITTLE,
        ["wal.segment.recycled", "checkpoint.after-control"],
        log_recycling
    ),
    scenario!("log-growth", ROOMY, ["wal.segment.created"], log_growth),
    scenario!("create-index", ROOMY, ["catalog.create-index"], create_index),
    scenario!(
        "long-values",
        ROOMY,
        ["heap.overflow.page-written", "table.long.marked", "heap.overflow.freed"],
        long_values
    ),
    scenario!("partial-index", ROOMY, ["catalog.create-index", "heap.prune"], partial_index),
    scenario!("drop-index", ROOMY, ["catalog.settled"], drop_index),
    scenario!("create-table", ROOMY, ["catalog.create-table"], create_table),
    scenario!("drop-table", ROOMY, ["catalog.drop-table", "catalog.settled"], drop_table),
    scenario!("definitions-undone", ROOMY, ["catalog.settled"], definitions_undone),
    scenario!("columns", ROOMY, ["txn.commit.after-append"], columns),
    scenario!("upsert", ROOMY, ["table.upsert.nobody-has-the-key"], upsert),
    scenario!("sequence", ROOMY, ["sequence.reserved", "catalog.settled"], sequence),
    scenario!("alterations", ROOMY, ["catalog.create-index", "catalog.settled"], alterations),
    scenario!("rewrite", ROOMY, ["catalog.rewritten", "catalog.settled"], rewrite),
    scenario!("unlogged", ROOMY, ["checkpoint.after-control"], unlogged),
    scenario!(
        "double-write",
        TINY,
        ["buffer.double-write.before-sync", "buffer.writeback.after-homes", "buffer.sync-home"],
        double_write
    ),
    scenario!("eviction", TINY, ["buffer.evict", "buffer.evict.write-back"], eviction),
    scenario!("hot-updates", ROOMY, ["heap.prune"], hot_updates),
    scenario!("cleaned-by-key", ROOMY, ["heap.prune", "heap.freed-by-key"], cleaned_by_key),
    scenario!("indexed-updates", ROOMY, ["txn.commit.after-append"], indexed_updates),
    scenario!("delete-all", ROOMY, ["vacuum.before-free", "btree.merge.unlinked"], delete_all),
    scenario!("creation", ROOMY, ["create.marked", "create.before-unmark"], creation),
    scenario!("close-and-open", ROOMY, ["checkpoint.after-control"], close_and_open),
    scenario!("recovery", ROOMY, ["recovery.record", "wal.open.before-sync"], recovery),
    scenario!("many-xids", ROOMY, ["txn.status.extend"], many_xids),
    scenario!(
        "forgotten-outcomes",
        ROOMY,
        ["txn.status.forget", "buffer.punch"],
        forgotten_outcomes
    ),
    scenario!(
        "outcome-segments",
        Settings::FULL_SEGMENT,
        ["txn.status.segment", "txn.status.drop-segment"],
        outcome_segments
    ),
    scenario!("interleaved", ROOMY, ["txn.commit.after-visible"], interleaved),
    scenario!("duplicate", ROOMY, ["txn.commit.after-append"], duplicate),
    scenario!("online-index", ROOMY, ["online.kept", "online.committed"], online_index),
    scenario!("reindex", ROOMY, ["online.caught-up", "online.committed"], reindex),
    scenario!("backup", LITTLE, ["backup.marked", "backup.before-unmark"], backup),
    scenario!("prepared", ROOMY, ["prepare.durable", "prepare.finished"], prepared),
    scenario!(
        "prepared-and-killed",
        LITTLE,
        ["recovery.record", "prepare.finished", "checkpoint.after-control"],
        prepared_and_killed
    ),
    scenario!("long-transaction", LITTLE, ["checkpoint.after-control"], long_transaction),
];

fn insert(script: &mut Script, ids: std::ops::Range<i64>, width: usize) -> Out {
    script.transact(|script, tx| tx.insert_many(script, "t", usual_rows(ids, width)))
}

fn delete(script: &mut Script, ids: impl Iterator<Item = i64>) -> Out {
    script.transact(|script, tx| {
        for id in ids {
            tx.delete(script, "t", id)?;
        }
        Ok(())
    })
}

/// Values in overflow pages that come, stay through updates of other columns, are undone, replaced,
/// and given back.
fn long_values(script: &mut Script) -> Out {
    let long = |seed: i64, len: usize| text(format!("{seed:08}").repeat(len / 8));
    script.open_with_table()?;
    insert(script, 0..6, 20)?;
    script.transact(|script, tx| tx.update(script, ("t", 0), NOTE, long(1, 40_000)))?;
    script.checkpoint()?;
    script.record();
    script.transact(|script, tx| {
        tx.update(script, ("t", 1), NOTE, long(2, 20_000))?;
        tx.update(script, ("t", 0), NAME, text("another"))
    })?;
    let mut tx = script.begin();
    tx.update(script, ("t", 2), NOTE, long(3, 30_000))?;
    tx.update(script, ("t", 0), NOTE, text("never"))?;
    tx.rollback();
    script.transact(|script, tx| {
        tx.update(script, ("t", 0), NOTE, long(4, 9_000))?;
        tx.delete(script, "t", 1)
    })?;
    script.vacuum()?;
    script.transact(|script, tx| tx.update(script, ("t", 3), NOTE, long(5, 25_000)))?;
    script.checkpoint()
}

fn text(value: impl Into<String>) -> Value {
    Value::Text(value.into())
}

/// A backup beside commits and checkpoints that recycle log; the next one is made after a kill.
fn backup(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..60, 10)?;
    script.checkpoint()?;
    script.record();
    copy(script)?;
    insert(script, 1000..1010, 10)?;
    script.kill(vec![]);
    script.open()?;
    copy(script)
}

/// Copies the database in two halves, with work in between, and compares the copy.
fn copy(script: &mut Script) -> Out {
    let disk = rightlink_aio::SimDisk::new(11);
    let to = rightlink::BackupOptions::new().simulation(disk.clone());
    let first = script.states.len() as i64 * 100;
    let (db, mut asked, mut out) = (script.db().clone(), 0, Ok(()));
    let made = db.backup_with("copy", &to, |_| {
        asked += 1;
        if asked % 4 == 1 && asked < 16 && out.is_ok() {
            let ids = first + asked * 10..first + asked * 10 + 8;
            out = insert(script, ids, 200).and_then(|()| script.checkpoint());
        }
        out.is_ok()
    });
    out?;
    // The script must be able to let go of it.
    drop(db);
    if script.judge(made)?.is_none() {
        return Ok(());
    }
    let copied = script.settings.open(&disk).expect("a backup can be opened");
    let found = super::oracle::read(&copied).expect("a backup verifies");
    assert!(!super::oracle::matching(script, &found, false).is_empty(), "the copy is a prefix");
    Ok(())
}

fn commit(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..5, 10)?;
    script.checkpoint()?;
    script.record();
    for id in 5..9 {
        script.transact(|script, tx| tx.insert(script, "t", usual_row(id, 10)))?;
    }
    Ok(())
}

fn statements(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..10, 10)?;
    script.record();
    script.transact(|script, tx| {
        tx.insert(script, "t", usual_row(10, 10))?;
        tx.update(script, ("t", 3), NAME, text("changed"))?;
        tx.delete(script, "t", 4)?;
        tx.update(script, ("t", 10), TAG, Value::Int8(77))
    })?;
    script.transact(|script, tx| {
        tx.delete(script, "t", 10)?;
        tx.insert(script, "t", usual_row(4, 10))
    })
}

fn relaxed(script: &mut Script) -> Out {
    script.open_with_table()?;
    script.record();
    for id in 0..3 {
        let mut tx = script.begin_relaxed();
        tx.insert(script, "t", usual_row(id, 10))?;
        script.commit(tx)?;
    }
    insert(script, 3..4, 10)?;
    for id in 4..7 {
        let mut tx = script.begin_relaxed();
        tx.insert(script, "t", usual_row(id, 10))?;
        script.commit(tx)?;
    }
    script.settle()?;
    let mut tx = script.begin_relaxed();
    tx.delete(script, "t", 0)?;
    script.commit(tx)?;
    script.checkpoint()
}

fn rollback(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..6, 10)?;
    script.record();
    let mut tx = script.begin();
    tx.insert_many(script, "t", usual_rows(6..20, 10))?;
    tx.update(script, ("t", 1), NAME, text("never"))?;
    script.checkpoint()?;
    tx.delete(script, "t", 2)?;
    tx.rollback();
    insert(script, 20..22, 10)?;
    script.transact(|script, tx| tx.update(script, ("t", 1), NAME, text("once")))?;
    script.checkpoint()
}

/// Rows that several transactions share: no lock outlives a crash, and none stays in the way.
fn row_locks(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..6, 10)?;
    script.record();
    let mut sharers = [script.begin(), script.begin(), script.begin()];
    for sharer in &mut sharers {
        for id in 0..4 {
            sharer.share(script, ("t", id))?;
        }
    }
    script.checkpoint()?;
    let [one, mut two, three] = sharers;
    script.commit(one)?;
    three.rollback();
    let mark = two.savepoint();
    two.update(script, ("t", 1), NAME, text("never"))?;
    two.delete(script, "t", 2)?;
    two.rollback_to(script, mark)?;
    script.vacuum()?;
    two.update(script, ("t", 3), NAME, text("once"))?;
    script.commit(two)?;
    for round in 0..40 {
        script.transact(|script, tx| {
            tx.share(script, ("t", 1))?;
            tx.update(script, ("t", 1), NOTE, text(format!("{round:0200}")))
        })?;
    }
    delete(script, 1..3)?;
    script.checkpoint()
}

fn savepoint(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..4, 10)?;
    script.record();
    script.transact(|script, tx| {
        tx.insert(script, "t", usual_row(4, 10))?;
        let mark = tx.savepoint();
        tx.insert_many(script, "t", usual_rows(5..9, 10))?;
        tx.delete(script, "t", 0)?;
        script.checkpoint()?;
        tx.rollback_to(script, mark)?;
        tx.insert(script, "t", usual_row(9, 10))?;
        tx.update(script, ("t", 0), TAG, Value::Int8(9))
    })?;
    script.checkpoint()
}

fn insert_many(script: &mut Script) -> Out {
    script.open_with_table()?;
    script.record();
    insert(script, 0..120, 200)?;
    script.checkpoint()
}

fn leaf_split(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..60, 400)?;
    script.checkpoint()?;
    script.record();
    for start in [60, 68, 76] {
        insert(script, start..start + 8, 400)?;
    }
    script.checkpoint()
}

fn root_split(script: &mut Script) -> Out {
    script.open_with_table()?;
    script.record();
    for start in [0, 10, 20, 30] {
        insert(script, start..start + 10, 600)?;
    }
    script.checkpoint()
}

/// Rows with few names, so that the index on the name has many rows of each.
fn namesakes(script: &mut Script, ids: std::ops::Range<i64>, names: i64) -> Out {
    let rows = ids.map(|id| {
        let mut row = usual_row(id, 0);
        row[NAME] = text(format!("{:04}{}", id % names, "x".repeat(420)));
        row
    });
    let rows: Vec<_> = rows.collect();
    script.transact(|script, tx| tx.insert_many(script, "t", rows))
}

fn posting_lists(script: &mut Script) -> Out {
    script.open_with_table()?;
    namesakes(script, 0..17, 4)?;
    script.checkpoint()?;
    script.record();
    namesakes(script, 17..40, 4)?;
    delete(script, (3..36).step_by(5))?;
    script.vacuum()?;
    // Rows between those of the lists: slots that vacuum has freed.
    namesakes(script, 40..66, 4)?;
    script.checkpoint()
}

fn posting_split(script: &mut Script) -> Out {
    script.open_with_table()?;
    namesakes(script, 0..16, 14)?;
    script.checkpoint()?;
    script.record();
    namesakes(script, 16..30, 14)?;
    for start in [30, 44, 58] {
        namesakes(script, start..start + 14, 18)?;
    }
    script.checkpoint()
}

fn page_merge(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..90, 500)?;
    // Five of six rows: no page becomes empty, all become thin.
    delete(script, (0..90).filter(|id| id % 6 != 0))?;
    script.checkpoint()?;
    script.record();
    script.vacuum()?;
    insert(script, 100..106, 500)?;
    script.checkpoint()
}

fn page_deletion(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..100, 600)?;
    delete(script, 0..90)?;
    script.checkpoint()?;
    script.record();
    script.vacuum()?;
    insert(script, 200..202, 600)?;
    script.checkpoint()
}

fn checkpoint(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..80, 100)?;
    script.record();
    script.checkpoint()?;
    script.checkpoint()
}

fn checkpoint_steps(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..100, 300)?;
    script.record();
    for id in 100..106 {
        script.transact(|script, tx| tx.insert(script, "t", usual_row(id, 300)))?;
        script.step()?;
        script.transact(|script, tx| tx.update(script, ("t", id - 100), NAME, text("new")))?;
        script.step()?;
    }
    script.settle()
}

fn file_growth(script: &mut Script) -> Out {
    script.open_with_table()?;
    script.record();
    for start in [0, 40, 80, 120] {
        insert(script, start..start + 40, 800)?;
    }
    script.checkpoint()
}

fn log_recycling(script: &mut Script) -> Out {
    script.open_with_table()?;
    for start in 0..4 {
        insert(script, start * 40..start * 40 + 40, 400)?;
    }
    script.settle()?;
    script.record();
    for start in 4..9 {
        insert(script, start * 40..start * 40 + 20, 400)?;
        script.settle()?;
        script.transact(|script, tx| tx.update(script, ("t", start), TAG, Value::Int8(start)))?;
        script.checkpoint()?;
    }
    Ok(())
}

fn log_growth(script: &mut Script) -> Out {
    script.open_with_table()?;
    script.record();
    for start in 0..5 {
        insert(script, start * 40..start * 40 + 30, 700)?;
    }
    Ok(())
}

fn upsert(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..20, 60)?;
    script.record();
    for start in [10, 15, 20] {
        script.transact(|script, tx| tx.upsert(script, "t", usual_rows(start..start + 8, 60)))?;
    }
    let mut tx = script.begin();
    tx.upsert(script, "t", usual_rows(20..40, 60))?;
    tx.rollback();
    script.transact(|script, tx| {
        tx.delete(script, "t", 12)?;
        tx.upsert(script, "t", usual_rows(11..14, 20))
    })?;
    script.vacuum()?;
    script.checkpoint()
}

fn unlogged(script: &mut Script) -> Out {
    script.open_with_table()?;
    script.transact(|script, tx| tx.create_table(script, &usual_table("u").unlogged()))?;
    script.record();
    script.transact(|script, tx| {
        tx.insert_many(script, "u", usual_rows(0..20, 100))?;
        tx.insert(script, "t", usual_row(1, 10))
    })?;
    script.checkpoint()?;
    script.transact(|script, tx| tx.delete(script, "u", 3))?;
    insert(script, 2..4, 10)?;
    script.close()?;
    script.open()?;
    script.transact(|script, tx| tx.insert(script, "u", usual_row(30, 10)))?;
    insert(script, 4..5, 10)
}

fn double_write(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..50, 300)?;
    script.record();
    for start in [100, 130] {
        insert(script, start..start + 15, 300)?;
        script.transact(|script, tx| tx.update(script, ("t", start), NAME, text("moved")))?;
        script.settle()?;
    }
    script.checkpoint()
}

fn eviction(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..60, 400)?;
    script.record();
    let mut tx = script.begin();
    tx.insert_many(script, "t", usual_rows(100..140, 400))?;
    tx.rollback();
    script.transact(|script, tx| {
        tx.insert_many(script, "t", usual_rows(200..220, 400))?;
        for id in [1, 25, 50, 201, 219] {
            tx.update(script, ("t", id), TAG, Value::Int8(id))?;
        }
        Ok(())
    })
}

fn hot_updates(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..20, 20)?;
    script.checkpoint()?;
    script.record();
    for round in 0..8 {
        script.transact(|script, tx| {
            for id in 0..6 {
                let note = format!("{round} {}", "y".repeat(250));
                tx.update(script, ("t", id), NOTE, text(note))?;
            }
            Ok(())
        })?;
    }
    script.checkpoint()
}

/// Entries of pruned rows leave all indexes without a vacuum, and their row ids are used again.
fn cleaned_by_key(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..6, 400)?;
    script.record();
    for round in 0..24 {
        script.transact(|script, tx| {
            for id in 0..4 {
                let name = text(format!("{round}{}", "y".repeat(400)));
                tx.update(script, ("t", id), NAME, name)?;
            }
            Ok(())
        })?;
    }
    insert(script, 10..14, 400)?;
    script.vacuum()?;
    script.checkpoint()
}

fn indexed_updates(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..30, 60)?;
    script.record();
    for round in 0..4 {
        script.transact(|script, tx| {
            for id in (round..30).step_by(7) {
                tx.update(script, ("t", id), NAME, text(format!("{round} of {id}")))?;
                tx.update(script, ("t", id), TAG, Value::Int8(100 - id))?;
            }
            Ok(())
        })?;
    }
    script.vacuum()?;
    script.checkpoint()
}

fn delete_all(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..60, 500)?;
    script.checkpoint()?;
    script.record();
    delete(script, 0..60)?;
    script.vacuum()?;
    insert(script, 0..10, 500)?;
    script.vacuum()?;
    script.checkpoint()
}

fn creation(script: &mut Script) -> Out {
    script.record();
    script.open()?;
    script.transact(|script, tx| tx.create_table(script, &usual_table("t")))?;
    insert(script, 0..2, 10)
}

fn close_and_open(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..20, 100)?;
    script.record();
    script.close()?;
    script.open()?;
    insert(script, 20..24, 100)?;
    script.close()?;
    script.open()
}

fn recovery(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..40, 100)?;
    script.checkpoint()?;
    insert(script, 40..60, 300)?;
    let mut tx = script.begin();
    tx.insert_many(script, "t", usual_rows(60..70, 300))?;
    script.kill(vec![tx]);
    script.record();
    script.open()?;
    insert(script, 60..65, 100)?;
    script.kill(vec![]);
    script.open()
}

/// A transaction with more xids than a page of the status file holds.
fn take_many_xids(script: &mut Script) -> Out {
    let mut tx = script.begin();
    for id in 1000..2100 {
        let row = vec![Value::Int8(id), text(format!("{id}")), Value::Null, Value::Null];
        tx.insert(script, "t", row)?;
    }
    script.commit(tx)
}

/// More xids than a page of the status file holds.
fn many_xids(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..4, 10)?;
    script.checkpoint()?;
    script.record();
    take_many_xids(script)?;
    insert(script, 4..6, 10)?;
    script.checkpoint()
}

/// Outcomes that no row needs any more lose their space. What the rows were frozen with is in the
/// log only, and the log is not flushed on the way.
fn forgotten_outcomes(script: &mut Script) -> Out {
    script.open_with_table()?;
    take_many_xids(script)?;
    script.checkpoint()?;
    script.record();
    script.vacuum()?;
    let mut tx = script.begin_relaxed();
    tx.insert(script, "t", usual_row(1, 10))?;
    script.commit(tx)?;
    script.vacuum()?;
    insert(script, 2..4, 10)?;
    script.checkpoint()
}

/// Xids reach the next segment of outcomes in the middle of a transaction, then the segment before
/// it loses its last outcome that a row needs, and goes with the next checkpoint.
fn outcome_segments(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..4, 10)?;
    script.checkpoint()?;
    script.record();
    take_many_xids(script)?;
    insert(script, 4..6, 10)?;
    script.vacuum()?;
    insert(script, 6..8, 10)?;
    let mut tx = script.begin_relaxed();
    tx.insert(script, "t", usual_row(8, 10))?;
    script.commit(tx)?;
    script.vacuum()?;
    let mut tx = script.begin_relaxed();
    tx.delete(script, "t", 1000)?;
    script.commit(tx)?;
    script.checkpoint()?;
    insert(script, 10..12, 10)?;
    script.close()?;
    script.open()
}

fn interleaved(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..10, 40)?;
    script.record();
    let (mut one, mut two) = (script.begin(), script.begin());
    one.insert(script, "t", usual_row(10, 40))?;
    two.insert(script, "t", usual_row(11, 40))?;
    one.update(script, ("t", 1), NAME, text("one"))?;
    two.update(script, ("t", 2), NAME, text("two"))?;
    script.commit(two)?;
    let mut three = script.begin();
    three.delete(script, "t", 3)?;
    one.delete(script, "t", 4)?;
    script.commit(one)?;
    three.update(script, ("t", 5), TAG, Value::Int8(50))?;
    script.commit(three)?;
    script.checkpoint()
}

fn duplicate(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..10, 40)?;
    script.record();
    script.transact(|script, tx| {
        tx.insert(script, "t", usual_row(10, 40))?;
        tx.insert_duplicate(script, "t", usual_row(10, 50))?;
        tx.insert(script, "t", usual_row(11, 40))
    })?;
    script.transact(|script, tx| {
        tx.delete(script, "t", 11)?;
        tx.insert(script, "t", usual_row(11, 60))
    })?;
    script.checkpoint()
}

/// The oldest running transaction is older than two checkpoints and several segments.
fn long_transaction(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..10, 100)?;
    script.record();
    let mut long = script.begin();
    long.insert_many(script, "t", usual_rows(1000..1010, 200))?;
    for start in [100, 200, 300] {
        insert(script, start..start + 40, 300)?;
        script.settle()?;
    }
    long.delete(script, "t", 1001)?;
    script.commit(long)?;
    script.settle()
}
