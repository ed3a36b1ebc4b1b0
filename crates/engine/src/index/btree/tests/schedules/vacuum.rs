//! Worlds of a vacuum beside splits, merges and a file that grows.
//!
//! Invariants: what was dead before a pass is gone after it, wherever it was moved meanwhile (R5).
//! Does not do: scans beside it (`scans`).

use rightlink_env::Broken;
use rightlink_env::sync::{AtomicUsize, Ordering};
use rightlink_env::thread;

use crate::ids::RowId;
use crate::index::am::AccessMethod;
use crate::index::btree::tests::schedules::{
    DEAD, dead, delete_all, entries_of, free_pages, fresh, garbage_left, is_dead, join, page, scan,
    short, shown, stable, start, three_leaves, tree, vacuum, vacuum_in_turns,
};
use crate::index::search_key::Direction;
use crate::index::suite::{self, verify_clean};
use crate::schedules::{Case, catches, survives};

/// Inserts that split pages while vacuum passes: what was dead before is gone after.
fn vacuum_beside_splits() {
    let (_pool, tree) = tree();
    // The low blocks are free again, the dead entries in high ones.
    suite::insert(&tree, &(0..30).map(dead).collect::<Vec<_>>());
    suite::insert(&tree, &(100..130).step_by(3).map(dead).collect::<Vec<_>>());
    suite::vacuum(&tree, &|row| row.block.0 < DEAD + 30);
    let writer = start(&tree, |tree| {
        suite::insert(tree, &(100..130).filter(|n| n % 3 == 2).map(fresh).collect::<Vec<_>>());
    });
    let vacuum = start(&tree, |tree| {
        vacuum(tree);
    });
    join([writer, vacuum]);
    let left = scan(&tree, Direction::Forward);
    let kept: Vec<_> = (100..130).filter(|n| n % 3 == 2).map(fresh).collect();
    assert!(left == kept, "vacuum leaves {} of {}", shown(&left), shown(&kept));
    verify_clean(&tree);
}

/// Inserts that split pages while two threads vacuum a half of the file each: what was dead before
/// is gone after, also where a page sent it to a block that the other one had passed (R5). Who has
/// the first half lets the others go first.
fn vacuum_in_parts() {
    let (_pool, tree) = tree();
    // The high blocks, all in the second half, are free again; the dead entries are in low ones.
    suite::insert(&tree, &(0..120).step_by(3).map(dead).collect::<Vec<_>>());
    suite::insert(&tree, &(200..216).map(dead).collect::<Vec<_>>());
    suite::vacuum(&tree, &|row| row.block.0 >= DEAD + 200);
    let new: Vec<_> = (50..80).filter(|n| n % 3 == 2).map(fresh).collect();
    let kept = new.clone();
    let writer = start(&tree, move |tree| suite::insert(tree, &new));
    let vacuum = start(&tree, |tree| {
        let pass = tree.begin_delete(2);
        assert_eq!(pass.parts(), 2, "the world is about two parts");
        let next = AtomicUsize::new(0);
        thread::several("part", 2, &|| {
            let part = next.fetch_add(1, Ordering::Relaxed);
            if part == 0 {
                thread::yield_now();
            }
            pass.run(part, &mut is_dead, &mut |_| Ok(())).expect("a sound tree");
        });
        pass.finish(&mut |_| Ok(())).expect("a sound tree");
    });
    join([writer, vacuum]);
    let left = scan(&tree, Direction::Forward);
    assert!(left == kept, "vacuum leaves {} of {}", shown(&left), shown(&kept));
    verify_clean(&tree);
}

/// A page that deletions make underfull is merged into one that vacuum has passed: what was dead
/// before is gone after.
fn vacuum_beside_merges() {
    let (_pool, tree, rest) = three_leaves();
    let deleter = start(&tree, move |tree| delete_all(tree, &rest));
    let vacuum = start(&tree, |tree| {
        vacuum(tree);
    });
    join([deleter, vacuum]);
    assert!(free_pages(&tree) > 0, "pages were merged");
    assert_eq!(garbage_left(&tree), 0, "vacuum leaves dead rows");
    verify_clean(&tree);
}

/// A leaf that vacuum has followed to where it was split takes in its left sibling, which is in
/// a higher block: vacuum comes to that one's place, and to what came from there (R5). Vacuum lets
/// others go first when it has begun, and when it has passed the leaf.
fn vacuum_meets_what_is_merged() {
    let (_pool, tree, rest) = three_leaves();
    let mut leaves = (1..tree.blocks()).map(|block| page(&tree, block));
    let last = leaves.find(|page| page.kind == "leaf" && page.right == 0);
    let last = last.expect("a rightmost leaf").block;
    let more: Vec<_> = (100..134).map(|n| short(n, RowId::new(n as u32, 2))).collect();
    let writer = start(&tree, move |tree| {
        suite::insert(tree, &more);
        thread::yield_now();
        // Room for what will be left of its sibling.
        let gone: Vec<_> = entries_of(tree, last).into_iter().skip(12).collect();
        delete_all(tree, &gone);
        delete_all(tree, &rest);
    });
    let vacuum = start(&tree, move |tree| vacuum_in_turns(tree, last));
    join([writer, vacuum]);
    assert_eq!(garbage_left(&tree), 0, "vacuum leaves dead rows");
    verify_clean(&tree);
}

/// A file that grows while vacuum passes: each new block is used once.
fn vacuum_beside_growth() {
    let (_pool, tree) = tree();
    suite::insert(&tree, &[stable(0)]);
    let writer = start(&tree, |tree| {
        suite::insert(tree, &(1..24).map(fresh).collect::<Vec<_>>());
    });
    let vacuum = start(&tree, |tree| {
        for _ in 0..2 {
            vacuum(tree);
        }
    });
    join([writer, vacuum]);
    suite::insert(&tree, &(24..36).map(fresh).collect::<Vec<_>>());
    assert_eq!(scan(&tree, Direction::Forward).len(), 36);
    verify_clean(&tree);
}

/// Several who lack a block at once: one grows the file, the others take what he has brought, for
/// a growth is several blocks and each of them wants one.
fn growth_for_several() {
    let (_pool, tree) = tree();
    let have = tree.0.pool.extend(tree.0.file, 60).expect("space").0 + 60;
    let takers = [0; 3].map(|_| {
        start(&tree, |tree| {
            let spare = tree.0.reserve_block().expect("a block");
            thread::yield_now();
            drop(spare);
        })
    });
    join(takers);
    let grown = tree.0.pool.blocks(tree.0.file) - have;
    assert_eq!(grown, have / 16, "the file grows once");
}

#[test]
fn a_file_grows_once_for_several() {
    survives("growth for several", growth_for_several, 300);
    catches(&[Case { rule: Broken::FileGrownPerWaiter, world: growth_for_several, within: 1000 }]);
}

#[test]
fn vacuum_follows_splits() {
    survives("vacuum beside splits", vacuum_beside_splits, 500);
    survives("vacuum beside growth", vacuum_beside_growth, 500);
    survives("vacuum in parts", vacuum_in_parts, 500);
}

#[test]
fn vacuum_follows_merges() {
    survives("vacuum beside merges", vacuum_beside_merges, 300);
    survives("vacuum and a merge into what it followed", vacuum_meets_what_is_merged, 300);
}

#[test]
fn broken_vacuums_are_caught() {
    catches(&[
        Case { rule: Broken::SplitNotFollowed, world: vacuum_beside_splits, within: 2000 },
        Case { rule: Broken::PartsNotFollowed, world: vacuum_in_parts, within: 4000 },
        Case { rule: Broken::MergeWithoutCycle, world: vacuum_beside_merges, within: 4000 },
        Case {
            rule: Broken::FollowedPageNotRevisited,
            world: vacuum_meets_what_is_merged,
            within: 4000,
        },
        Case {
            rule: Broken::MergeReceiverNotNoted,
            world: vacuum_meets_what_is_merged,
            within: 4000,
        },
        Case { rule: Broken::MergedPageNotFollowed, world: vacuum_beside_merges, within: 4000 },
        Case { rule: Broken::GrowingBlocksCalledFree, world: vacuum_beside_growth, within: 4000 },
    ]);
}
