//! Worlds of descents: single keys looked up beside splits, merges, deletions and reuse of pages.
//!
//! Invariants: a key that stays is found, whatever the pages on the way have become (R5, R6).
//! Does not do: ranges (`scans`).

use rightlink_env::Broken;
use rightlink_env::sync::Arc;
use rightlink_env::thread;

use crate::buffer::Pin;
use crate::ids::RowId;
use crate::index::am::{AccessMethod, LeafBatch, ScanOptions};
use crate::index::btree::page::node::{Node, is_node};
use crate::index::btree::search::SearchTarget;
use crate::index::btree::tests::schedules::{
    Entry, dead, delete_all, entries_of, fresh, join, key, leftmost, look_up, page, scan, stable,
    start, tree, tree_of, vacuum,
};
use crate::index::btree::tree::Registrations;
use crate::index::btree::{Optimisation, Optimisations};
use crate::index::search_key::{Direction, KeyRange};
use crate::index::suite::{self, verify_clean};
use crate::schedules::{Case, catches, survives};

/// Inserts that split a leaf beside descents for keys on both sides of the split (move right), and
/// for keys that are being deleted: there until they are gone for good.
fn descents_beside_splits() {
    let (_pool, tree) = tree();
    let stay: Vec<_> = (0..40).step_by(8).map(stable).collect();
    suite::insert(&tree, &stay);
    suite::insert(&tree, &(20..24).map(fresh).collect::<Vec<_>>());
    let splitter = start(&tree, |tree| {
        suite::insert(tree, &(10..20).filter(|n| n % 8 != 0).map(fresh).collect::<Vec<_>>());
    });
    let going: Vec<_> = (20..24).map(fresh).collect();
    let gone = going.clone();
    let deleter = start(&tree, move |tree| delete_all(tree, &gone));
    let reader = start(&tree, move |tree| {
        let mut left = going.len();
        for (key, row) in &stay {
            assert_eq!(look_up(tree, key), [*row]);
            // They go in their order.
            let there = going.iter().filter(|(key, row)| look_up(tree, key) == [*row]).count();
            assert!(there <= left, "{left} were left, and now {there}");
            left = there;
        }
    });
    join([splitter, deleter, reader]);
    assert_eq!(scan(&tree, Direction::Forward).len(), 5 + 9);
    verify_clean(&tree);
}

/// Lookups whose bounds come from a parent that a merge changes meanwhile: the leaf has taken in
/// keys that do not share what the separators shared. Without heads, since with them
/// only what a page's own keys share is ever left out.
fn bounds_beside_merges() {
    let (_pool, tree) = tree_of(400);
    tree.optimise(Optimisations::ALL.without(Optimisation::Heads));
    let pair = |high: u8, low: u8| -> Entry {
        ([&[high, low][..], &[0x55; 8]].concat(), RowId::new(u32::from(low), 1))
    };
    suite::insert(&tree, &(200..206).map(|low| pair(0, low)).collect::<Vec<_>>());
    suite::insert(&tree, &(0..60).map(|low| pair(1, low)).collect::<Vec<_>>());
    let first = leftmost(&tree);
    let (left, right) = (entries_of(&tree, first.block), entries_of(&tree, first.right));
    assert!(
        page(&tree, first.right).low[0] == 1 && left[0].0[0] == 0,
        "the first byte tells them apart"
    );
    // Room for what comes.
    let (gone, stay) = right.split_at(right.len() / 2);
    delete_all(&tree, gone);
    let stay = stay.to_vec();
    let reader = start(&tree, move |tree| {
        for (key, row) in stay.iter().take(4) {
            assert_eq!(look_up(tree, key), [*row], "it was there all the time");
        }
    });
    let deleter = start(&tree, move |tree| delete_all(tree, &left[2..]));
    join([reader, deleter]);
    let now = page(&tree, first.block);
    assert_ne!(now.kind, "leaf", "the leaf was merged: {now:?}");
    verify_clean(&tree);
}

/// Lookups on their way to a page that is given back and used again (R6).
fn descents_beside_reuse() {
    let (pool, tree) = tree();
    suite::insert(&tree, &(10..24).map(dead).collect::<Vec<_>>());
    suite::insert(&tree, &(30..34).map(stable).collect::<Vec<_>>());
    let reader = start(&tree, |tree| {
        for n in (10..24).chain([30]) {
            let from = KeyRange { low: key(n), high: None };
            let mut scan = tree.begin_scan(from, ScanOptions::default());
            let mut batch = LeafBatch::default();
            assert!(scan.next_batch(&|| 0, &mut batch).expect("a sound tree"), "30 stays");
            assert!(batch.key(0) <= key(30).as_slice(), "nothing is left out");
        }
    });
    let pool = Arc::clone(&pool.pool);
    let writer = start(&tree, move |tree| {
        vacuum(tree);
        pool.evict_all().expect("a sound disk");
        suite::insert(tree, &(100..112).map(fresh).collect::<Vec<_>>());
    });
    join([reader, writer]);
    verify_clean(&tree);
}

/// A page that a registered descent led to is nobody else's while the registration lasts, whatever
/// becomes of it: keys move only right, so its low fence never rises (R5, R6).
fn registered_descents() {
    let (_pool, tree) = tree();
    suite::insert(&tree, &(10..24).map(dead).collect::<Vec<_>>());
    suite::insert(&tree, &(30..34).map(stable).collect::<Vec<_>>());
    let reader = start(&tree, |tree| {
        for n in [10, 14, 18, 22] {
            let (tree, key) = (&tree.0, key(n));
            let _registered = tree.registrations.register();
            let pin =
                tree.descend(SearchTarget::At(&key), 0).expect("a sound tree").expect("a leaf");
            let (block, low) = (pin.page().block.0, low_fence(&pin));
            drop(pin);
            thread::yield_now();
            let now = low_fence(&tree.pin_linked(block).expect("a sound tree"));
            let reused = low.zip(now).is_some_and(|(low, now)| now > low);
            assert!(!reused, "R6: block {block} is used again under a registered descent");
        }
    });
    let writer = start(&tree, |tree| {
        vacuum(tree);
        suite::insert(tree, &(100..112).map(fresh).collect::<Vec<_>>());
    });
    join([reader, writer]);
    verify_clean(&tree);
}

/// More operations that register within each other than there are slots: nobody waits for one, and
/// what is freed while one is registered is not used again (R6).
fn nested_registrations() {
    let registrations = Arc::new(Registrations::default());
    let entrant = || {
        let registrations = Arc::clone(&registrations);
        thread::spawn("explores", move || {
            let outer = registrations.register();
            let inner = registrations.register();
            for registered in [inner, outer] {
                let freed = registrations.advance();
                thread::yield_now();
                assert!(freed >= registrations.oldest(), "R6: used again under a registration");
                drop(registered);
            }
        })
    };
    join(std::array::from_fn::<_, 5, _>(|_| entrant()));
    assert!(registrations.advance() < registrations.oldest(), "none is left");
}

fn low_fence(pin: &Pin) -> Option<Vec<u8>> {
    let page = pin.shared();
    is_node(page.bytes()).then(|| Node::open(page.bytes()).expect("a sound page").low())
}

#[test]
fn descents_end_where_they_should() {
    survives("descents beside splits", descents_beside_splits, 500);
    survives("descents beside reuse", descents_beside_reuse, 500);
    survives("bounds beside merges", bounds_beside_merges, 500);
}

#[test]
fn pages_wait_for_descents() {
    survives("registered descents", registered_descents, 500);
    survives("nested registrations", nested_registrations, 500);
}

#[test]
fn broken_descents_are_caught() {
    catches(&[
        Case { rule: Broken::AnnouncedReaderWaits, world: descents_beside_splits, within: 2000 },
        Case { rule: Broken::SeparatorNotCompared, world: descents_beside_splits, within: 2000 },
        Case { rule: Broken::BoundsOfChangedParent, world: bounds_beside_merges, within: 4000 },
        Case { rule: Broken::PageReusedUnderDescent, world: registered_descents, within: 4000 },
        Case { rule: Broken::LateRegistrationsIgnored, world: nested_registrations, within: 2000 },
    ]);
}
