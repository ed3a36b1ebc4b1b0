//! Rows are inserted, are visible to the right snapshots, and find space.

use super::*;
use crate::heap::page::tuple::{XMAX_COMMITTED, XMIN_ABORTED, XMIN_COMMITTED};

#[test]
fn a_row_is_seen_after_its_commit_and_by_later_statements_of_its_own() {
    let fixture = Fixture::new();
    let (_old_txn, old) = fixture.snapshot();
    let mut writer = fixture.begin();
    let during = writer.begin_statement().expect("a statement");
    let at = fixture.heap.insert(writer.xid().expect("an xid"), b"row").expect("inserted");
    let sees = |snapshot: &Snapshot| {
        let row = fixture.heap.fetch(snapshot, at).expect("fetched").row;
        assert_eq!(scan(&fixture.heap, snapshot).len(), usize::from(row.is_some()));
        row
    };
    assert_eq!(sees(&during), None, "a statement does not see its own changes");
    let after = writer.begin_statement().expect("a statement");
    assert_eq!(sees(&after), Some((at, b"row".to_vec())));
    assert_eq!(fixture.fetch(at), None, "not committed yet");
    drop((during, after));
    writer.commit(false).expect("committed");
    assert_eq!(fixture.fetch(at), Some(b"row".to_vec()));
    assert_eq!(sees(&old), None, "an older snapshot");
    fixture.assert_sound();
}

#[test]
fn a_rolled_back_statement_leaves_nothing_to_see() {
    let fixture = Fixture::new();
    let mut txn = fixture.begin();
    txn.begin_statement().expect("a statement");
    let kept = fixture.heap.insert(txn.xid().expect("an xid"), b"kept").expect("inserted");
    txn.begin_statement().expect("a statement");
    let lost = fixture.heap.insert(txn.xid().expect("an xid"), b"lost").expect("inserted");
    txn.rollback_statement();
    txn.commit(false).expect("committed");
    assert_eq!(fixture.fetch(kept), Some(b"kept".to_vec()));
    let (_txn, snapshot) = fixture.snapshot();
    let fetched = fixture.heap.fetch(&snapshot, lost).expect("fetched");
    assert_eq!(fetched, Fetched { row: None, all_dead: true });
    fixture.assert_sound();
}

#[test]
fn many_rows_fill_pages_one_after_the_other() {
    let fixture = Fixture::new();
    let rows: Vec<Vec<u8>> = (0..2000u32).map(|i| vec![i as u8; 100 + i as usize % 50]).collect();
    let slices: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
    let ids = fixture.commit(|txn| {
        let xid = txn.xid().expect("an xid");
        fixture.heap.insert_many(xid, &slices).expect("inserted")
    });
    let scanned = fixture.scan();
    assert_eq!(scanned.len(), rows.len());
    for (id, row) in ids.iter().zip(&rows) {
        assert_eq!(fixture.fetch(*id).as_ref(), Some(row));
    }
    let bytes: usize = rows.iter().map(|row| row.len() + TUPLE_HEADER + 4).sum();
    let least = bytes.div_ceil(8152) as u32;
    let blocks = fixture.heap.blocks() - 1;
    assert!(blocks <= least + 5, "{blocks} blocks for what fits {least}");
    fixture.assert_sound();
}

#[test]
fn the_fillfactor_keeps_room_for_updates() {
    let fixture = Fixture::with(256, HeapOptions { fillfactor: 50, logged: true });
    let rows = vec![&[7u8; 200][..]; 200];
    let ids = fixture.commit(|txn| {
        let xid = txn.xid().expect("an xid");
        fixture.heap.insert_many(xid, &rows).expect("inserted")
    });
    for block in 1..=ids.last().expect("rows").block.0 {
        let room = fixture.page(block, |page| page.free_bytes());
        assert!(room >= 4096, "block {block} has {room} bytes left");
    }
    let at = fixture.update(ids[0], &[8; 200], true);
    assert_eq!(at.block, ids[0].block, "an update may use the reserve");
    let big = vec![1u8; 7900];
    let at = fixture.insert(&big);
    assert_eq!(fixture.fetch(at), Some(big), "an empty page takes any row");
}

#[test]
fn rows_beyond_a_page_are_refused_before_any_change() {
    let fixture = Fixture::new();
    let blocks = fixture.heap.blocks();
    let row = vec![0; crate::config::MAX_ROW_BYTES];
    let result = fixture.commit(|txn| {
        let xid = txn.xid().expect("an xid");
        fixture.heap.insert_many(xid, &[b"small", &row])
    });
    assert!(matches!(result, Err(Error::RowTooLarge(_))));
    assert_eq!((fixture.heap.blocks(), fixture.scan().len()), (blocks, 0));
}

#[test]
fn a_small_pool_holds_a_large_table() {
    let fixture = Fixture::with(32, OPTIONS);
    let ids: Vec<RowId> = (0..400u32).map(|i| fixture.insert(&[i as u8; 1500])).collect();
    assert!(fixture.heap.blocks() > 80);
    assert_eq!(fixture.scan().len(), 400);
    for (i, id) in ids.iter().enumerate() {
        assert_eq!(fixture.fetch(*id), Some(vec![i as u8; 1500]));
    }
    fixture.assert_sound();
}

#[test]
fn a_reopened_heap_has_its_rows() {
    let fixture = Fixture::new();
    let ids: Vec<RowId> = (0..100).map(|i| fixture.insert(&[i; 500])).collect();
    let again = Heap::open(&fixture.pool, &fixture.txns, FILES, OPTIONS).expect("opened");
    assert_eq!(again.blocks(), fixture.heap.blocks());
    let (_txn, snapshot) = fixture.snapshot();
    for (i, id) in ids.iter().enumerate() {
        let row = again.fetch(&snapshot, *id).expect("fetched").row.expect("there").1;
        assert_eq!(row, vec![i as u8; 500]);
    }
}

/// R1: a hint that outlives a crash while the commit it tells of does not would show rows that were
/// never there.
#[test]
fn a_hint_waits_for_its_commit_to_be_durable() {
    let fixture = Fixture::new();
    let mut txn = fixture.begin();
    txn.begin_statement().expect("a statement");
    let at = fixture.heap.insert(txn.xid().expect("an xid"), b"row").expect("inserted");
    txn.commit(true).expect("committed, relaxed");
    assert_eq!(fixture.fetch(at), Some(b"row".to_vec()));
    assert!(!fixture.header(at).has(XMIN_COMMITTED), "not durable yet");
    fixture.pool.wal().flush(fixture.pool.wal().end()).expect("flushed");
    assert_eq!(fixture.fetch(at), Some(b"row".to_vec()));
    assert!(fixture.header(at).has(XMIN_COMMITTED));

    let mut txn = fixture.begin();
    txn.begin_statement().expect("a statement");
    done(fixture.heap.delete(&mut txn, at).expect("deleted"));
    txn.commit(true).expect("committed, relaxed");
    let (_txn, snapshot) = fixture.snapshot();
    let fetched = fixture.heap.fetch(&snapshot, at).expect("fetched");
    assert_eq!(fetched, Fetched { row: None, all_dead: false });
    assert!(!fixture.header(at).has(XMAX_COMMITTED));
    fixture.pool.wal().flush(fixture.pool.wal().end()).expect("flushed");
    assert!(fixture.heap.fetch(&snapshot, at).expect("fetched").all_dead);
    assert!(fixture.header(at).has(XMAX_COMMITTED));
}

#[test]
fn an_aborted_row_gets_its_hint() {
    let fixture = Fixture::new();
    let mut txn = fixture.begin();
    let at = fixture.heap.insert(txn.xid().expect("an xid"), b"row").expect("inserted");
    assert_eq!(fixture.fetch(at), None);
    assert!(!fixture.header(at).has(XMIN_ABORTED), "still running");
    txn.rollback();
    assert_eq!(fixture.fetch(at), None);
    assert!(fixture.header(at).has(XMIN_ABORTED));
}

#[test]
fn inserters_on_several_threads_share_the_table() {
    let fixture = Arc::new(Fixture::new());
    let threads: Vec<_> = (0..4u8)
        .map(|thread| {
            let fixture = Arc::clone(&fixture);
            rightlink_env::thread::spawn("inserter", move || {
                (0..150).map(|i| fixture.insert(&[thread, i, 9, 9].repeat(30))).collect::<Vec<_>>()
            })
        })
        .collect();
    let mut ids: Vec<RowId> = Vec::new();
    for thread in threads {
        ids.extend(thread.join().expect("no panic"));
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 600, "no row id was given twice");
    assert_eq!(fixture.scan().len(), 600);
    fixture.assert_sound();
}
