//! How dead versions, row ids, old xids and empty pages leave.

use rightlink_env::Broken;
use rightlink_env::points;

use super::*;
use crate::heap::page::tuple::XMIN_COMMITTED;
use crate::page::header;

#[test]
fn a_hot_chain_is_pruned_to_what_is_seen() {
    let fixture = Fixture::new();
    let root = fixture.insert(&[0; 500]);
    let mut at = root;
    for i in 1..200u32 {
        at = fixture.update(at, &[i as u8; 500], true);
    }
    assert_eq!(fixture.heap.blocks(), 2, "200 versions of 500 bytes, one page");
    assert_eq!(fixture.fetch(root), Some(vec![199; 500]));
    let (_txn, old) = fixture.snapshot();
    for i in 200..230u32 {
        at = fixture.update(at, &[i as u8; 500], i < 205);
    }
    let seen = fixture.heap.fetch(&old, root).expect("fetched").row.expect("still there").1;
    assert_eq!(seen, vec![199; 500], "an old snapshot keeps its version");
    fixture.assert_sound();
}

/// Rows on a full page that stay as long as they are: a new version takes the place of one that is
/// dead, and nothing else on the page moves. One that a snapshot sees keeps its place.
#[test]
fn a_new_version_takes_the_place_of_a_dead_one_of_its_length() {
    let fixture = Fixture::new();
    let roots: Vec<RowId> = (0..64u8).map(|n| fixture.insert(&[n; 100])).collect();
    let mut newest = roots.clone();
    let mut filled = 0;
    while fixture.page(1, |page| page.free_bytes()) >= 120 {
        newest[filled] = fixture.update(newest[filled], &[200; 100], true);
        filled += 1;
    }
    // A root's first update wants a line pointer, for which a prune makes room now and then.
    for n in (0..roots.len()).cycle().skip(filled).take(roots.len()) {
        newest[n] = fixture.update(newest[n], &[201; 100], true);
    }
    let upper = fixture.page(1, |page| page.upper());
    let (holes, prunes) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let counted = (Arc::clone(&holes), Arc::clone(&prunes));
    let hook = rightlink_env::points::install_local(move |point| match point {
        "heap.hole" => _ = counted.0.fetch_add(1, Ordering::Relaxed),
        "heap.prune" => _ = counted.1.fetch_add(1, Ordering::Relaxed),
        _ => {}
    });
    let from = fixture.pool.wal().end().0;
    for round in 0..300usize {
        let n = (filled + round) % roots.len();
        newest[n] = fixture.update(newest[n], &[round as u8; 100], true);
        assert_eq!(newest[n].block.0, 1);
        assert_eq!(fixture.fetch(roots[n]), Some(vec![round as u8; 100]));
    }
    drop(hook);
    let counts = (holes.load(Ordering::Relaxed), prunes.load(Ordering::Relaxed));
    assert_eq!(counts, (300, 0), "versions that took a place, prunes");
    assert_eq!(fixture.page(1, |page| page.upper()), upper, "nothing moved");
    let each = (fixture.pool.wal().end().0 - from) / 300;
    assert!(each < 400, "{each} bytes of log for an update and its commit");
    fixture.assert_sound();

    let (_txn, old) = fixture.snapshot();
    let seen = scan(&fixture.heap, &old);
    for at in &newest {
        fixture.update(*at, &[255; 100], true);
    }
    assert_eq!(scan(&fixture.heap, &old), seen);
    assert_eq!(fixture.scan().len(), roots.len());
    fixture.assert_sound();
}

/// A version that a snapshot still sees keeps its place, however full the page is.
#[test]
fn no_version_takes_the_place_of_one_that_is_seen() {
    for rule in [None, Some(Broken::SeenVersionOverwritten)] {
        let fixture = Fixture::new();
        let roots: Vec<RowId> = (0..64u8).map(|n| fixture.insert(&[n; 100])).collect();
        let (_txn, old) = fixture.snapshot();
        let seen = scan(&fixture.heap, &old);
        let broken = rule.map(points::break_rule);
        let mut at = roots[0];
        while fixture.page(1, |page| page.free_bytes()) >= 120 {
            at = fixture.update(at, &[200; 100], true);
        }
        fixture.update(at, &[201; 100], true);
        drop(broken);
        assert_eq!(scan(&fixture.heap, &old) == seen, rule.is_none(), "{rule:?}");
    }
}

#[test]
fn a_dead_root_is_reported_and_its_slot_waits_for_the_indexes() {
    let fixture = Fixture::new();
    let root = fixture.insert(b"one");
    let other = fixture.insert(b"other");
    let newest = fixture.update(root, b"two", true);
    let (old_txn, old) = fixture.snapshot();
    fixture.delete(newest);
    assert_eq!(fixture.heap.prune(root.block).expect("pruned"), [], "an old snapshot sees it");
    assert_eq!(fixture.slot(root), Slot::Redirect(newest.slot));
    drop(old);
    old_txn.rollback();
    let dead = fixture.heap.prune(root.block).expect("pruned");
    let xmin = dead[0].xmin;
    assert!(xmin > Xid::FIRST, "the second version's creator");
    assert_eq!(dead, [DeadRoot { row_id: root, row: b"two".to_vec(), xmin, pruned_at: 0 }]);
    assert_eq!((fixture.slot(root), fixture.slot(newest)), (Slot::Dead, Slot::Unused));
    fixture.assert_sound();
    let reused = fixture.insert(b"three");
    assert_ne!(reused, root, "an index may still name it");
    let (txn, snapshot) = fixture.snapshot();
    fixture.pool.wal().flush(fixture.pool.wal().end()).expect("flushed");
    let fetched = fixture.heap.fetch(&snapshot, root).expect("fetched");
    assert_eq!(fetched, Fetched { row: None, all_dead: true });
    drop(snapshot);
    txn.rollback();

    let before = fixture.heap.clock().now();
    assert!(!fixture.heap.clock().newer_than(root.block, before));
    assert_eq!(
        fixture.heap.free_slots(&[root, other], &|| Ok(())).expect("freed"),
        1,
        "only the dead one"
    );
    assert!(fixture.heap.clock().newer_than(root.block, before), "R3");
    assert_eq!(fixture.slot(root), Slot::Unused);
    assert_eq!(fixture.insert(b"four"), root, "now it may be taken");
    assert_eq!(fixture.fetch(other), Some(b"other".to_vec()));
    fixture.assert_sound();
}

#[test]
fn roots_pruned_on_access_are_queued() {
    let fixture = Fixture::new();
    let ids: Vec<RowId> = (0..7).map(|i| fixture.insert(&[i; 1100])).collect();
    assert!(ids.iter().all(|id| id.block == ids[0].block));
    fixture.delete(ids[3]);
    assert_eq!(fixture.scan().len(), 6);
    let dead = fixture.heap.take_dead_roots();
    let xmin = dead[0].xmin;
    assert_eq!(dead, [DeadRoot { row_id: ids[3], row: vec![3; 1100], xmin, pruned_at: 0 }]);
    assert_eq!(fixture.heap.take_dead_roots(), []);
}

#[test]
fn vacuum_freezes_and_marks_and_writers_unmark() {
    let fixture = Fixture::new();
    let ids: Vec<RowId> = (0..300u32).map(|i| fixture.insert(&[i as u8; 100])).collect();
    let gone = fixture.begin();
    gone.rollback();
    let (dead, pass) = fixture.vacuum_all();
    assert_eq!((dead.len(), pass.versions, pass.oldest_unfrozen), (0, 300, None));
    let bits = |block| fixture.heap.all_visible(BlockNo(block)).expect("read");
    let all = VisibilityBits { all_visible: true, all_frozen: true };
    for block in 1..fixture.heap.blocks() {
        assert_eq!(bits(block), all, "block {block}");
    }
    assert_eq!(fixture.header(ids[0]).xmin, Xid::FROZEN);
    fixture.assert_sound();
    fixture.heap.set_oldest_unfrozen(fixture.txns.horizon()).expect("noted");
    assert_eq!(fixture.heap.oldest_unfrozen().expect("read"), fixture.txns.horizon());
    fixture.assert_sound();
    let (_, pass) = fixture.vacuum_all();
    assert_eq!((pass.pages, pass.skipped), (0, fixture.heap.blocks() - 1));

    let last = ids[299];
    fixture.commit(|txn| done(fixture.heap.lock(txn, last, RowLock::Exclusive).expect("locked")));
    let visible = VisibilityBits { all_visible: true, all_frozen: false };
    assert_eq!(bits(last.block.0), visible, "a lock hides nothing");
    assert_eq!(fixture.insert(&[7; 100]).block, last.block);
    assert_eq!(bits(last.block.0), VisibilityBits::default());
    fixture.assert_sound();
    fixture.vacuum_all();
    assert_eq!(bits(last.block.0), all, "the lock is gone, too");
    assert_eq!(fixture.update(last, &[9; 100], true).block, last.block);
    assert_eq!(bits(last.block.0), VisibilityBits::default());
    fixture.assert_sound();
    let (_, pass) = fixture.vacuum_all();
    assert_eq!(pass.oldest_unfrozen, None);
    assert_eq!(bits(last.block.0), all, "the old version is gone");
    assert_eq!(fixture.fetch(last), Some(vec![9; 100]));
    assert_eq!(fixture.scan().len(), 301);
    fixture.assert_sound();
}

#[test]
fn vacuum_leaves_what_an_old_snapshot_needs() {
    let fixture = Fixture::new();
    let root = fixture.insert(b"one");
    let (_txn, old) = fixture.snapshot();
    let new = fixture.update(root, b"two", false);
    let (dead, _) = fixture.vacuum_all();
    assert_eq!(dead, []);
    let bits = fixture.heap.all_visible(root.block).expect("read");
    assert_eq!(bits, VisibilityBits::default(), "the new version is not visible to everyone");
    let seen = |id| fixture.heap.fetch(&old, id).expect("fetched").row.map(|(_, row)| row);
    assert_eq!((seen(root), seen(new)), (Some(b"one".to_vec()), None));
    fixture.assert_sound();
}

#[test]
fn freed_space_is_found_again() {
    let fixture = Fixture::new();
    let mut ids: Vec<RowId> = (0..500u32).map(|i| fixture.insert(&[i as u8; 400])).collect();
    // Where a thread begins to look for room depends on its number.
    ids.sort_unstable();
    let blocks = fixture.heap.blocks();
    for id in &ids {
        fixture.delete(*id);
    }
    let (dead, _) = fixture.vacuum_all();
    let died = fixture.heap.take_dead_roots().len();
    assert!(died <= dead.len());
    assert_eq!(dead, ids, "every row id, in order");
    assert_eq!(fixture.heap.free_slots(&dead, &|| Ok(())).expect("freed"), 500);
    for i in 0..500u32 {
        fixture.insert(&[i as u8; 400]);
    }
    assert_eq!(fixture.heap.blocks(), blocks, "nothing grew");
    assert_eq!(fixture.scan().len(), 500);
    fixture.assert_sound();
}

#[test]
fn empty_pages_at_the_end_are_cut_off() {
    let fixture = Fixture::new();
    let ids: Vec<RowId> = (0..100u32).map(|i| fixture.insert(&[i as u8; 2000])).collect();
    fixture.heap.cut_tail(u32::MAX).expect("cut what was formatted ahead");
    let before = fixture.heap.blocks();
    for id in &ids[6..] {
        fixture.delete(*id);
    }
    assert_eq!(fixture.heap.cut_tail(u32::MAX).expect("cut"), 0, "versions are left");
    let (dead, _) = fixture.vacuum_all();
    assert_eq!(fixture.heap.cut_tail(u32::MAX).expect("cut"), 0, "row ids are left");
    fixture.heap.free_slots(&dead, &|| Ok(())).expect("freed");
    fixture.vacuum_all();
    let time = fixture.heap.clock().now();
    assert_eq!(fixture.heap.cut_tail(3).expect("cut"), 3, "as many as asked for");
    fixture.heap.cut_tail(u32::MAX).expect("cut");
    let after = fixture.heap.blocks();
    assert_eq!(after, ids[5].block.0 + 1);
    assert_eq!(fixture.pool.blocks(FILES.heap), after);
    for block in after..before {
        assert!(fixture.heap.clock().newer_than(BlockNo(block), time - 1), "R3");
        assert_eq!(
            fixture.heap.all_visible(BlockNo(block)).expect("read"),
            VisibilityBits::default()
        );
    }
    let (_txn, snapshot) = fixture.snapshot();
    let fetched = fixture.heap.fetch(&snapshot, ids[99]).expect("a stale row id is no error");
    assert_eq!(fetched, Fetched::default());
    assert_eq!(fixture.scan().len(), 6);
    fixture.assert_sound();
    let again = Heap::open(&fixture.pool, &fixture.txns, FILES, OPTIONS).expect("opened");
    assert_eq!(again.blocks(), after);
    for i in 0..100u32 {
        fixture.insert(&[i as u8; 2000]);
    }
    assert_eq!(fixture.scan().len(), 106);
    fixture.assert_sound();
}

/// A page whose base lies far from the next xid, as after 2^32 transactions.
#[test]
fn a_page_is_rebased_for_an_xid_out_of_reach() {
    let fixture = Fixture::new();
    let ids: Vec<RowId> = (0..10u8).map(|i| fixture.insert(&[i; 100])).collect();
    fixture.vacuum_all();
    let far = 1u64 << 40;
    let page = fixture.heap.page_id(1);
    fixture.meddle(page, |page| page.put_u64(header::OWNER, far));
    assert_eq!(fixture.scan().len(), 10, "frozen versions need no base");
    let new = fixture.update(ids[0], b"new", true);
    assert!(fixture.page(1, |page| page.base()) < far);
    assert_eq!(fixture.header(new).xmin, fixture.header(ids[0]).xmax);
    fixture.meddle(page, |_| {});
    assert_eq!(fixture.fetch(ids[0]), Some(b"new".to_vec()));
    assert_eq!(fixture.fetch(ids[9]), Some(vec![9; 100]));
    fixture.insert(b"another");
    fixture.assert_sound();
}

#[test]
fn a_hint_is_no_change_of_what_vacuum_decides() {
    let fixture = Fixture::new();
    let root = fixture.insert(b"one");
    assert_eq!(fixture.fetch(root), Some(b"one".to_vec()));
    assert!(fixture.header(root).has(XMIN_COMMITTED));
    let options = VacuumOptions { freeze_below: Xid::NONE };
    let page = fixture.heap.vacuum_page(root.block, options).expect("vacuumed");
    assert_eq!(page.bits, VisibilityBits { all_visible: true, all_frozen: false });
    assert_eq!(page.oldest_unfrozen, Some(fixture.header(root).xmin));
}

/// What is noted is what the heap is opened with, and no more than fits.
#[test]
fn garbage_that_was_noted_is_known_when_the_heap_is_opened_again() {
    let fixture = Fixture::new();
    let open = || Heap::open(&fixture.pool, &fixture.txns, FILES, OPTIONS).expect("opened");
    let heap = &fixture.heap;
    assert!(heap.is_garbage_noted(0), "a new heap has none");
    heap.leave_to_vacuum(Vec::new(), 10);
    assert!(heap.is_garbage_noted(10) && !heap.is_garbage_noted(9));
    assert_eq!(open().garbage_since_vacuum(), 0, "it was not noted");
    heap.note_garbage().expect("noted");
    assert!(heap.is_garbage_noted(0));
    let again = open();
    assert_eq!((again.garbage_since_vacuum(), again.blocks()), (10, heap.blocks()));
    heap.leave_to_vacuum(Vec::new(), 1 << 40);
    heap.note_garbage().expect("noted");
    assert_eq!(open().garbage_since_vacuum(), u64::from(u32::MAX));
    heap.vacuumed(fixture.txns.horizon());
    heap.note_garbage().expect("noted");
    assert_eq!(open().garbage_since_vacuum(), 0);
    fixture.assert_sound();
}

/// A reader prunes between two looks of a vacuum's end at the count of garbage: it once went below
/// nothing, and the table was due for ever.
#[test]
fn garbage_is_counted_down_once() {
    let fixture = Fixture::new();
    let heap = fixture.heap.clone();
    heap.leave_to_vacuum(Vec::new(), 10);
    let hook = rightlink_env::points::install_local({
        let heap = heap.clone();
        move |point| {
            if point == "heap.vacuumed" {
                heap.take_garbage(3);
            }
        }
    });
    heap.vacuumed(fixture.txns.horizon());
    drop(hook);
    assert_eq!(heap.garbage_since_vacuum(), 0);
}

/// A prune asks for the outcomes: later looks at the page need not ask again.
#[test]
fn pruning_notes_who_has_committed() {
    let fixture = Fixture::new();
    let (gone, stays) = (fixture.insert(b"gone"), fixture.insert(b"stays"));
    fixture.delete(gone);
    assert!(!fixture.header(stays).has(XMIN_COMMITTED), "it was not read");
    assert_eq!(fixture.heap.prune(gone.block).expect("pruned").len(), 1);
    assert!(fixture.header(stays).has(XMIN_COMMITTED));
    assert_eq!(fixture.fetch(stays).as_deref(), Some(&b"stays"[..]));
    fixture.assert_sound();
}

/// A prune that could not make room for the new version is left out: the page is pruned when more
/// has died.
#[test]
fn a_page_is_pruned_only_if_that_makes_room() {
    let fixture = Fixture::new();
    let mut rows = vec![fixture.insert(&[1; 100])];
    while fixture.page(1, |page| page.free_bytes()) >= 256 {
        rows.push(fixture.insert(&[1; 100]));
    }
    let header = crate::heap::page::tuple::TUPLE_HEADER + crate::heap::page::SLOT_SIZE;
    rows.push(fixture.insert(&vec![1; fixture.page(1, |page| page.free_bytes()) - header]));
    assert_eq!(fixture.page(1, |page| page.free_bytes()), 0, "the page is full");
    let prunes = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&prunes);
    let hook = rightlink_env::points::install_local(move |point| {
        if point == "heap.prune" {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    // What the first one leaves is, but for a line pointer, what the second needs.
    let mut on_page = Vec::new();
    for (at, root) in rows.iter().take(3).enumerate() {
        let made = fixture.update(*root, &[2; 100], false);
        on_page.push((made.block.0 == 1, prunes.load(Ordering::Relaxed)));
        assert_eq!(fixture.fetch(made), Some(vec![2; 100]), "row {at}");
    }
    drop(hook);
    assert_eq!(on_page, [(false, 0), (false, 0), (true, 1)], "on the page, prunes so far");
    fixture.assert_sound();
}
