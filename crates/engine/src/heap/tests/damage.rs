//! Damage: what `verify` finds, and that nothing panics.

use super::*;
use crate::heap::page::store::{put_flags, put_header};
use crate::heap::page::tuple::{
    GROUP, HEAP_ONLY, HOT_UPDATED, SHARED, XMAX_COMMITTED, XMIN_ABORTED, XMIN_COMMITTED,
    from_offset,
};
use crate::heap::page::{ALL_FROZEN, ALL_VISIBLE, PRUNE_XID};
use crate::page::header::{self, HEADER_SIZE};
use rightlink_env::Rng;

/// Rows 1, 2, 3; row 1 has a HOT chain of two; everything committed.
fn small_table() -> (Fixture, RowId, RowId) {
    let fixture = Fixture::new();
    let root = fixture.insert(b"first");
    fixture.insert(b"second");
    fixture.insert(b"third");
    let child = fixture.update(root, b"again", true);
    fixture.assert_sound();
    (fixture, root, child)
}

/// Changes the header of a version behind the heap's back.
fn set_header(fixture: &Fixture, at: RowId, change: impl FnOnce(&mut TupleHeader)) {
    let (offset, old) = fixture.page(at.block.0, |page| {
        let tuple = page.tuple(at.slot).expect("sound").expect("normal");
        (tuple.offset, tuple.header)
    });
    let mut new = old;
    change(&mut new);
    let page = fixture.heap.page_id(at.block.0);
    fixture.meddle(page, |page| put_header(page, offset, &TupleHeader { flags: !0, ..old }, &new));
}

fn put_slot(fixture: &Fixture, at: RowId, word: [u8; 4]) {
    let offset = HEADER_SIZE + 4 * (usize::from(at.slot) - 1);
    fixture.meddle(fixture.heap.page_id(at.block.0), |page| page.write(offset, &word));
}

#[track_caller]
fn assert_finds(fixture: &Fixture, check: &str, slot: Option<u16>) {
    let findings = fixture.findings();
    let begin = slot.map_or(String::new(), |slot| format!("slot {slot}: "));
    let hit = findings.iter().any(|f| f.check == check && f.what.starts_with(&begin));
    assert!(hit, "{check} at {slot:?} in {findings:?}");
}

#[test]
fn verify_finds_a_damaged_page() {
    let (fixture, _, _) = small_table();
    let page = fixture.heap.page_id(1);
    fixture.meddle(page, |page| page.write(4000, &[1]));
    assert_finds(&fixture, "H0", None);
    let (fixture, _, _) = small_table();
    fixture.meddle(fixture.heap.page_id(1), |page| page.put_u16(header::UPPER, 10));
    assert_finds(&fixture, "H0", None);
}

#[test]
fn verify_finds_damaged_line_pointers_and_tuples() {
    let (fixture, root, child) = small_table();
    let offset =
        fixture.page(1, |page| page.tuple(child.slot).expect("sound").expect("there").offset);
    let overlap = Slot::Normal { offset: offset + 4, len: 30 };
    put_slot(&fixture, root, overlap.encode());
    assert_finds(&fixture, "H1", None);
    let (fixture, root, _) = small_table();
    let outside = Slot::Normal { offset: 8180, len: 100 };
    put_slot(&fixture, root, outside.encode());
    assert_finds(&fixture, "H1", Some(root.slot));
    let (fixture, root, _) = small_table();
    put_slot(&fixture, root, [0xff; 4]);
    assert_finds(&fixture, "H1", Some(root.slot));
    let (fixture, root, _) = small_table();
    set_header(&fixture, root, |head| head.flags |= 0x8000);
    assert_finds(&fixture, "H1", Some(root.slot));
    let (fixture, root, child) = small_table();
    // A version that was replaced is not shared, and one without an end has no group.
    set_header(&fixture, root, |head| head.flags |= SHARED);
    set_header(&fixture, child, |head| head.flags |= GROUP);
    assert_finds(&fixture, "H1", Some(root.slot));
    assert_finds(&fixture, "H1", Some(child.slot));
}

#[test]
fn verify_finds_impossible_xids() {
    let (fixture, root, _) = small_table();
    set_header(&fixture, root, |head| head.xmin = from_offset(0, 1_000_000));
    assert_finds(&fixture, "H3", Some(root.slot));
    let (fixture, root, _) = small_table();
    fixture.heap.set_oldest_unfrozen(fixture.txns.horizon()).expect("stored");
    assert_finds(&fixture, "H3", Some(root.slot));
}

#[test]
fn verify_finds_lies_about_transactions() {
    let (fixture, root, child) = small_table();
    let mut aborted = fixture.begin();
    let loser = aborted.xid().expect("an xid");
    aborted.rollback();
    let committed = fixture.header(root).xmin;
    set_header(&fixture, root, |head| {
        head.flags &= !XMIN_COMMITTED;
        head.xmin = loser;
    });
    assert_finds(&fixture, "H4", Some(root.slot));
    assert_finds(&fixture, "H5", Some(root.slot));
    set_header(&fixture, root, |head| {
        head.xmin = committed;
        head.flags |= XMIN_ABORTED;
    });
    assert_finds(&fixture, "H8", Some(root.slot));
    let (fixture, _, _) = small_table();
    let mut running = fixture.begin();
    let xid = running.xid().expect("an xid");
    set_header(&fixture, child, |head| {
        head.xmax = xid;
        head.flags |= XMAX_COMMITTED;
    });
    assert_finds(&fixture, "H8", Some(child.slot));
}

#[test]
fn verify_finds_broken_chains() {
    let (fixture, root, child) = small_table();
    set_header(&fixture, root, |head| head.next = Some(RowId::new(1, 2)));
    assert_finds(&fixture, "H6", Some(root.slot));
    assert_finds(&fixture, "H6", Some(child.slot));
    let (fixture, root, child) = small_table();
    let head = fixture.header(root);
    set_header(&fixture, RowId::new(1, 2), |second| {
        (second.xmax, second.next) = (head.xmax, head.next);
        second.flags |= HOT_UPDATED;
    });
    assert_finds(&fixture, "H6", Some(child.slot));
    let (fixture, root, _) = small_table();
    set_header(&fixture, root, |head| {
        head.flags &= !HOT_UPDATED;
        head.next = Some(RowId::new(500, 1));
    });
    assert_finds(&fixture, "H6", Some(root.slot));
    let (fixture, root, child) = small_table();
    let by = fixture.header(root).xmax;
    set_header(&fixture, child, |head| {
        (head.xmax, head.next) = (by, Some(child));
        head.flags |= HOT_UPDATED;
    });
    assert_finds(&fixture, "H6", Some(child.slot));
}

#[test]
fn verify_finds_a_redirect_to_nowhere() {
    let (fixture, _, _) = small_table();
    let second = RowId::new(1, 2);
    put_slot(&fixture, second, Slot::Redirect(3).encode());
    assert_finds(&fixture, "H7", Some(2));
    let (fixture, _, child) = small_table();
    set_header(&fixture, child, |head| head.flags &= !HEAP_ONLY);
    assert_finds(&fixture, "H6", None);
}

#[test]
fn verify_finds_false_marks() {
    let (fixture, _, _) = small_table();
    let page = fixture.heap.page_id(1);
    fixture.meddle(page, |page| put_flags(page, ALL_VISIBLE, 0));
    assert_finds(&fixture, "H10", None);
    let (fixture, _, child) = small_table();
    fixture.vacuum_all();
    fixture.assert_sound();
    fixture.meddle(fixture.heap.page_id(1), |page| put_flags(page, 0, ALL_FROZEN | ALL_VISIBLE));
    assert_finds(&fixture, "H10", None);
    let (fixture, ..) = small_table();
    fixture.vacuum_all();
    let mut running = fixture.begin();
    let xid = running.xid().expect("an xid");
    set_header(&fixture, child, |head| head.xmax = xid);
    assert_finds(&fixture, "H10", Some(child.slot));
}

#[test]
fn verify_notes_a_map_that_promises_too_much() {
    let (fixture, _, _) = small_table();
    fixture.heap.free_space().note(1, 8191).expect("noted");
    let mut findings = Vec::new();
    fixture.heap.verify(&mut |finding| findings.push(finding)).expect("verified");
    assert_eq!(findings.len(), 1);
    assert!(findings[0].check == HARMLESS_CHECK);
    fixture.insert(&[1; 7900]);
    fixture.insert(&[1; 7900]);
    assert_eq!(fixture.scan().len(), 5, "inserts do not believe it");
}

/// A damaged free-space map costs room, never rows.
#[test]
fn inserts_survive_a_free_space_map_of_noise() {
    let fixture = Fixture::new();
    fixture.insert(b"one");
    let mut rng = Rng::from_seed(3);
    for block in 0..fixture.pool.blocks(FILES.free_space) {
        let pin = fixture.pool.pin(PageId::new(FILES.free_space, block)).expect("pinned");
        let mut noise = vec![0; 8000];
        rng.fill(&mut noise);
        assert!(pin.hint(None, |page| page.write_unlogged(32, &noise)));
    }
    for i in 0..200u32 {
        fixture.insert(&[i as u8; 900]);
    }
    assert_eq!(fixture.scan().len(), 201);
    fixture.assert_sound();
}

/// Every way into the heap, on a page with flipped bits whose checksum was right: results and
/// errors are fine, panics are not.
fn poke(fixture: &Fixture, slots: u16) {
    let heap = &fixture.heap;
    let (_txn, snapshot) = fixture.snapshot();
    let mut txn = fixture.begin();
    let _ = txn.begin_statement();
    for block in 1..heap.blocks() {
        let _ = scan_block(heap, &snapshot, block);
    }
    for slot in 1..=slots {
        let at = RowId::new(1, slot);
        let _ = heap.fetch(&snapshot, at);
        let _ = heap.liveness(at, &|_| false);
        let _ = heap.newest_version(at, None, &|_| false);
        let _ = heap.lock(&mut txn, at, RowLock::Exclusive);
        let _ = heap.update(&mut txn, at, b"poked", true);
        let _ = heap.delete(&mut txn, at);
    }
    let _ = heap.prune(BlockNo(1));
    let _ = heap.vacuum_page(BlockNo(1), VacuumOptions { freeze_below: fixture.txns.horizon() });
    let _ = heap.free_slots(&[RowId::new(1, 1), RowId::new(1, 3)], &|| Ok(()));
    let _ = heap.verify(&mut |_| {});
    txn.rollback();
}

#[test]
fn flipped_bits_never_panic() {
    let (fixture, _, _) = small_table();
    let pin = fixture.heap.pin(BlockNo(1)).expect("pinned");
    let sound = *pin.shared().bytes();
    let upper = usize::from(header::u16_at(&sound, header::UPPER));
    let mut rng = Rng::from_seed(11);
    for _ in 0..400 {
        let mut bytes = sound;
        for _ in 0..1 + rng.index(3) {
            let at = match rng.index(4) {
                0 => rng.index(HEADER_SIZE - 16) + 16,
                1 => HEADER_SIZE + rng.index(20),
                2 => upper + rng.index(PRUNE_XID - upper),
                _ => 4 + rng.index(4),
            };
            bytes[at] ^= 1 << rng.index(8);
        }
        pin.hint(None, |page| {
            page.write_unlogged(4, &bytes[4..8]);
            page.write_unlogged(16, &bytes[16..]);
        });
        poke(&fixture, 5);
    }
}
