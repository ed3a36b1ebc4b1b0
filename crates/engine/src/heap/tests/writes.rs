//! Updates, deletes and locks: HOT chains, conflicts, what a unique check learns.

use rightlink_env::Broken;
use rightlink_env::points;

use super::*;

/// The newest version and where it is.
fn newest(fixture: &Fixture, start: RowId) -> Option<(RowId, Vec<u8>)> {
    fixture
        .heap
        .newest_version(start, None, &|_| false)
        .expect("read")
        .map(|(target, row)| (target.at, row))
}

#[test]
fn a_heap_only_update_is_reached_through_its_root() {
    let fixture = Fixture::new();
    let root = fixture.insert(b"one");
    let (_txn, old) = fixture.snapshot();
    let mut txn = fixture.begin();
    txn.begin_statement().expect("a statement");
    let outcome = fixture.heap.update(&mut txn, root, b"two", true).expect("updated");
    let WriteOutcome::Done { row_id, heap_only: true, .. } = outcome else {
        panic!("not heap-only: {outcome:?}")
    };
    assert_eq!(row_id.block, root.block);
    txn.commit(false).expect("committed");
    let third = fixture.update(row_id, b"three", true);
    let (_txn, new) = fixture.snapshot();
    let fetch = |snapshot: &Snapshot| fixture.heap.fetch(snapshot, root).expect("fetched").row;
    assert_eq!(fetch(&old), Some((root, b"one".to_vec())));
    assert_eq!(fetch(&new), Some((third, b"three".to_vec())));
    let direct = fixture.heap.fetch(&new, third).expect("fetched");
    assert_eq!(direct.row, None, "a heap-only version is no root");
    assert_eq!(scan(&fixture.heap, &old), [(root, b"one".to_vec())]);
    assert_eq!(scan(&fixture.heap, &new), [(third, b"three".to_vec())]);
    fixture.assert_sound();
}

#[test]
fn an_update_that_is_not_heap_only_is_a_root_of_its_own() {
    let fixture = Fixture::new();
    let root = fixture.insert(b"one");
    let new = fixture.update(root, b"two", false);
    assert_eq!((fixture.fetch(root), fixture.fetch(new)), (None, Some(b"two".to_vec())));
    assert_eq!(fixture.header(root).next, Some(new));
    fixture.assert_sound();
}

#[test]
fn an_update_finds_room_on_another_page() {
    let fixture = Fixture::new();
    let first = fixture.insert(&[1; 4000]);
    let second = fixture.insert(&[2; 4000]);
    assert_eq!(first.block, second.block);
    let moved = fixture.update(first, &[3; 4000], true);
    assert_ne!(moved.block, first.block);
    assert_eq!(fixture.fetch(moved), Some(vec![3; 4000]), "no heap-only version over there");
    assert_eq!(fixture.fetch(first), None);
    assert_eq!(newest(&fixture, first), Some((moved, vec![3; 4000])));
    fixture.assert_sound();
}

/// Rows that find no room on their own pages go to one page after the other; where they were, the
/// next ones find room.
#[test]
fn rows_that_leave_full_pages_gather() {
    let fixture = Fixture::new();
    let rows: Vec<RowId> = (0..600u32).map(|n| fixture.insert(&[n as u8; 100])).collect();
    let full: Vec<RowId> =
        rows.iter().copied().filter(|row| row.block != rows[599].block).collect();
    let (txn, old) = fixture.snapshot();
    let moved: Vec<RowId> =
        full.iter().step_by(11).map(|row| fixture.update(*row, &[7; 100], true)).collect();
    let blocks: std::collections::BTreeSet<_> = moved.iter().map(|row| row.block).collect();
    assert!(moved.len() > 40 && blocks.len() <= 3, "{} rows on {blocks:?}", moved.len());
    assert!(full.iter().all(|row| !blocks.contains(&row.block)));
    assert_eq!(scan(&fixture.heap, &old).len(), 600);
    drop((old, txn));
    // Now that no snapshot sees the old versions, others take their place.
    let stays: Vec<RowId> = full.iter().copied().filter(|row| row.slot % 11 == 4).collect();
    let mut heap_only = 0;
    for row in stays.iter().filter(|row| fixture.fetch(**row).is_some()) {
        let new = fixture.update(*row, &[8; 100], true);
        heap_only += usize::from(new.block == row.block);
    }
    assert!(heap_only > 20, "{heap_only} of {} rows", stays.len());
    assert_eq!(fixture.scan().len(), 600);
    fixture.assert_sound();
}

#[test]
fn the_first_updater_wins() {
    let fixture = Fixture::new();
    let root = fixture.insert(b"one");
    let mut first = fixture.begin();
    first.begin_statement().expect("a statement");
    let mut second = fixture.begin();
    second.begin_statement().expect("a statement");
    let by = first.xid().expect("an xid");
    let new = done(fixture.heap.update(&mut first, root, b"two", true).expect("updated"));
    let attempt = |txn: &mut Transaction| {
        [
            fixture.heap.update(txn, root, b"late", true).expect("judged"),
            fixture.heap.delete(txn, root).expect("judged"),
            fixture.heap.lock(txn, root, RowLock::Exclusive).expect("judged"),
        ]
    };
    assert_eq!(attempt(&mut second), [WriteOutcome::Wait(by); 3]);
    let changed = WriteOutcome::Changed { by, newest: Some(new) };
    assert_eq!(attempt(&mut first), [changed; 3], "an own earlier change");
    first.commit(false).expect("committed");
    assert_eq!(attempt(&mut second), [changed; 3]);
    assert_eq!(newest(&fixture, root), Some((new, b"two".to_vec())));
    fixture.delete(new);
    assert_eq!(newest(&fixture, root), None);
    let mut third = fixture.begin();
    let outcome = fixture.heap.delete(&mut third, new).expect("judged");
    assert!(matches!(outcome, WriteOutcome::Changed { newest: None, .. }), "{outcome:?}");
    let nowhere = RowId::new(1, 77);
    assert_eq!(fixture.heap.delete(&mut second, nowhere).expect("judged"), WriteOutcome::Gone);
    let beyond = RowId::new(1000, 1);
    assert_eq!(
        fixture.heap.lock(&mut second, beyond, RowLock::Exclusive).expect("judged"),
        WriteOutcome::Gone
    );
}

#[test]
fn an_aborted_update_is_overwritten() {
    let fixture = Fixture::new();
    let root = fixture.insert(b"one");
    let mut loser = fixture.begin();
    let lost = done(fixture.heap.update(&mut loser, root, b"lost", true).expect("updated"));
    loser.rollback();
    assert_eq!(fixture.fetch(root), Some(b"one".to_vec()));
    fixture.assert_sound();
    let new = fixture.update(root, b"two", true);
    assert_ne!(new, lost);
    assert_eq!(fixture.fetch(root), Some(b"two".to_vec()));
    fixture.heap.prune(root.block).expect("pruned");
    assert_eq!(fixture.slot(lost), Slot::Unused);
    assert_eq!(fixture.fetch(root), Some(b"two".to_vec()));
    fixture.assert_sound();
}

#[test]
fn a_row_lock_stops_others_and_hides_nothing() {
    let fixture = Fixture::new();
    let root = fixture.insert(b"one");
    let mut holder = fixture.begin();
    holder.begin_statement().expect("a statement");
    let by = holder.xid().expect("an xid");
    assert_eq!(
        done(fixture.heap.lock(&mut holder, root, RowLock::Exclusive).expect("locked")),
        root
    );
    let again = fixture.heap.lock(&mut holder, root, RowLock::Exclusive).expect("locked");
    assert!(matches!(again, WriteOutcome::Done { lsn: Lsn(0), .. }), "nothing to log");
    assert_eq!(fixture.fetch(root), Some(b"one".to_vec()));
    let mut other = fixture.begin();
    let outcome = fixture.heap.update(&mut other, root, b"no", true).expect("judged");
    assert_eq!(outcome, WriteOutcome::Locked { by, wants: RowLock::Exclusive });
    holder.begin_statement().expect("the next statement");
    let new = done(fixture.heap.update(&mut holder, root, b"two", true).expect("updated"));
    holder.rollback();
    assert_eq!(fixture.fetch(root), Some(b"one".to_vec()));
    let won = done(fixture.heap.update(&mut other, root, b"three", true).expect("updated"));
    assert_ne!(won, new);
    other.commit(false).expect("committed");
    assert_eq!(fixture.fetch(root), Some(b"three".to_vec()));
    fixture.assert_sound();
}

#[test]
fn a_finished_lock_is_no_lock() {
    let fixture = Fixture::new();
    let root = fixture.insert(b"one");
    for end in [true, false] {
        let mut holder = fixture.begin();
        done(fixture.heap.lock(&mut holder, root, RowLock::Exclusive).expect("locked"));
        if end {
            holder.commit(false).map(drop).expect("committed")
        } else {
            holder.rollback()
        }
        let mut other = fixture.begin();
        done(fixture.heap.lock(&mut other, root, RowLock::Exclusive).expect("locked"));
        other.rollback();
        assert_eq!(fixture.fetch(root), Some(b"one".to_vec()));
    }
    fixture.assert_sound();
}

#[test]
fn liveness_tells_what_a_unique_check_needs() {
    let fixture = Fixture::new();
    let root = fixture.insert(b"one");
    let nobody = |_: Xid| false;
    let ask = |owns: &dyn Fn(Xid) -> bool| fixture.heap.liveness(root, owns).expect("asked");
    assert_eq!(ask(&nobody), Liveness::Live);
    let mut txn = fixture.begin();
    let by = txn.xid().expect("an xid");
    let new = done(fixture.heap.update(&mut txn, root, b"two", true).expect("updated"));
    assert_eq!(ask(&nobody), Liveness::InProgress(by));
    assert_eq!(ask(&|xid| txn.owns(xid)), Liveness::Live, "my heap-only version has the key");
    txn.begin_statement().expect("the next statement");
    let deleter = txn.xid().expect("an xid");
    done(fixture.heap.delete(&mut txn, new).expect("deleted"));
    assert_eq!(ask(&|xid| txn.owns(xid)), Liveness::Dead, "I deleted it");
    assert_eq!(ask(&|xid| xid == by), Liveness::InProgress(deleter));
    txn.commit(false).expect("committed");
    assert_eq!(ask(&nobody), Liveness::Dead);
    assert!(fixture.heap.prepare_liveness(root).expect("read").is_some());
    let nowhere = fixture.heap.liveness(RowId::new(99, 1), &nobody).expect("asked");
    assert_eq!(nowhere, Liveness::Dead);
    let mut running = fixture.begin();
    let xid = running.xid().expect("an xid");
    let at = fixture.heap.insert(xid, b"new").expect("inserted");
    assert_eq!(fixture.heap.liveness(at, &nobody).expect("asked"), Liveness::InProgress(xid));
    running.rollback();
    assert_eq!(fixture.heap.liveness(at, &nobody).expect("asked"), Liveness::Dead);
}

/// Halloween: a statement must not meet the versions that it made itself.
#[test]
fn a_scan_does_not_meet_the_updates_of_its_own_statement() {
    let fixture = Fixture::new();
    for i in 0..50 {
        fixture.insert(&[i; 300]);
    }
    let mut txn = fixture.begin();
    let snapshot = txn.begin_statement().expect("a statement");
    let (mut met, mut block) = (0, 1);
    while block < fixture.heap.blocks() {
        for (at, row) in scan_block(&fixture.heap, &snapshot, block).expect("scanned") {
            let row = [&row[..], b"+"].concat();
            done(fixture.heap.update(&mut txn, at, &row, false).expect("updated"));
            met += 1;
        }
        block += 1;
    }
    assert_eq!(met, 50);
    drop(snapshot);
    txn.commit(false).expect("committed");
    assert!(fixture.scan().iter().all(|(_, row)| row.len() == 301));
    fixture.assert_sound();
}

/// A walk may begin at a later version, and begins at the start after all where that did not come
/// to be or is not there.
#[test]
fn a_later_version_is_believed_if_it_came_to_be() {
    for rule in [None, Some(Broken::UncreatedVersionBelieved)] {
        let broken = rule.map(points::break_rule);
        let fixture = Fixture::new();
        let root = fixture.insert(b"one");
        let mut txn = fixture.begin();
        txn.begin_statement().expect("a statement");
        let by = txn.xid().expect("an xid");
        let undone = done(fixture.heap.update(&mut txn, root, b"undone", true).expect("updated"));
        txn.rollback();
        let newest = |at, by| {
            let found =
                fixture.heap.newest_version(root, Some((at, by)), &|_| false).expect("read");
            found.map(|(_, row)| row)
        };
        assert_eq!(newest(undone, by) == Some(b"one".to_vec()), rule.is_none(), "{rule:?}");
        drop(broken);
        let mut txn = fixture.begin();
        txn.begin_statement().expect("a statement");
        let by = txn.xid().expect("an xid");
        let at = done(fixture.heap.update(&mut txn, root, b"two", true).expect("updated"));
        assert_eq!(newest(at, by), Some(b"one".to_vec()), "not yet");
        txn.commit(true).expect("committed");
        let two = Some(b"two".to_vec());
        let (elsewhere, later) = (RowId::new(at.block.0, 200), RowId::new(9999, 1));
        for (at, by) in [(at, by), (at, Xid(by.0 - 1)), (elsewhere, by), (later, by)] {
            assert_eq!(newest(at, by), two, "{at}");
        }
        // Whoever made the version that the walk begins at may be frozen by now: once a row that
        // was handed on to one who knew it already was taken for gone.
        assert_eq!(newest(root, Xid(by.0 + 1)), two);
        fixture.assert_sound();
    }
}
