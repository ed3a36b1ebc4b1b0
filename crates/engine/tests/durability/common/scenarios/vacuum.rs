//! Scenarios of crash tests about vacuum: row ids that are used again, runs that are interrupted,
//! versions between snapshots, the tail of a file.
//!
//! As `scenarios`. Does not do: checking.

use super::*;

pub(super) fn vacuum_reuse(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..60, 50)?;
    delete(script, (0..60).step_by(2))?;
    script.record();
    script.vacuum()?;
    insert(script, 100..120, 50)?;
    delete(script, 100..110)?;
    script.vacuum()?;
    insert(script, 100..104, 50)?;
    script.checkpoint()
}

/// A vacuum is cancelled when it has cleaned one index, and the next one takes its rest up.
pub(super) fn vacuum_interrupted(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..120, 50)?;
    delete(script, (0..120).filter(|id| id % 3 > 0))?;
    script.record();
    // A bit into the second of the three indexes.
    let pages = |index: &str| script.db().inspect(index, None).map_or(0, |pages| pages.len());
    let first = pages("t_pkey");
    let (db, visits) = (script.db().clone(), AtomicUsize::new(0));
    let hook = points::install_local(move |point| {
        if point == "btree.vacuum.visit" && visits.fetch_add(1, Ordering::Relaxed) == first {
            db.cancel_vacuum(None);
        }
    });
    let cancelled = script.db().vacuum(Some("t"));
    drop(hook);
    if !matches!(cancelled, Err(Error::Cancelled(_))) {
        script.judge(cancelled)?;
    }
    insert(script, 200..210, 50)?;
    script.vacuum()?;
    insert(script, 300..340, 50)?;
    script.checkpoint()
}

/// Updates beside an old snapshot: versions in the middle leave, and stubs of those on other pages
/// stay (R9).
pub(super) fn between_snapshots(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..4, 1200)?;
    script.record();
    let mut reader = script.db().begin();
    let seen = reader.get("t", &[Value::Int8(1)]);
    let before = script.judge(seen)?;
    for round in 0..5i64 {
        for id in 0..3 {
            let name = text(format!("{round}{}", "y".repeat(1200)));
            script.transact(|script, tx| tx.update(script, ("t", id), NAME, name))?;
            script.transact(|script, tx| tx.update(script, ("t", id), NOTE, text("z")))?;
        }
    }
    script.vacuum()?;
    let seen = reader.get("t", &[Value::Int8(1)]);
    let after = script.judge(seen)?;
    if let (Some(before), Some(after)) = (before, after) {
        assert_eq!(before, after, "a snapshot goes on seeing what it saw");
    }
    drop(reader);
    script.transact(|script, tx| tx.update(script, ("t", 0), NAME, text("last")))?;
    script.vacuum()?;
    script.checkpoint()
}

pub(super) fn tail_cut(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..120, 200)?;
    delete(script, 10..120)?;
    script.checkpoint()?;
    script.record();
    script.vacuum()?;
    insert(script, 200..260, 200)?;
    delete(script, 200..260)?;
    script.checkpoint()?;
    script.vacuum()?;
    script.checkpoint()
}
