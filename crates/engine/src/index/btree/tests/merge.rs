//! Merging of underfull pages: it happens, it is refused, scans and vacuum are not misled by it.

use rightlink_env::Broken;
use std::collections::BTreeSet;

use rightlink_env::sync::{Arc, AtomicBool, AtomicU32, AtomicU64, Ordering};
use rightlink_env::{Rng, points, thread};

use crate::buffer::testing::TestPool;
use crate::ids::{RowId, Xid};
use crate::index::am::{AccessMethod, IndexEntry, LeafBatch, ScanOptions};
use crate::index::btree::tests::{FILE, tree};
use crate::index::btree::{BTree, Optimisation, Optimisations, TreeOptions};
use crate::index::search_key::{Direction, KeyRange, KeySet};
use crate::index::suite::{self, Model, same, verify_clean};

fn key(n: u64) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

fn row(n: u64) -> RowId {
    RowId::new((n / 100) as u32, (n % 100) as u16 + 1)
}

fn delete(tree: &BTree, (key, row): &(Vec<u8>, RowId)) {
    assert!(tree.delete(Xid(5), &IndexEntry::new(key, *row)).unwrap());
}

/// What vacuum leaves thin is put together, inner pages too; pages keep room for what comes.
#[test]
fn thinned_pages_are_put_together() {
    for (writes, most) in
        [(Optimisations::ALL, 0.35), (Optimisations::ALL.without(Optimisation::Merging), 2.0)]
    {
        let (_pool, tree) = tree(500, 1);
        tree.optimise(writes);
        let entries: Vec<_> = (0..6000).map(|n| (key(n * 3), row(n))).collect();
        suite::insert(&tree, &entries);
        let before = verify_clean(&tree);
        let thin = |row: &RowId| row.slot % 8 != 1;
        suite::vacuum(&tree, &thin);
        let model: Model = entries.into_iter().filter(|(_, row)| !thin(row)).collect();
        same(&tree, &model);
        let after = verify_clean(&tree);
        let part = after.leaves as f64 / before.leaves as f64;
        assert!(part <= most, "{} of {} leaves are left", after.leaves, before.leaves);
        let inner = after.inner as f64 / before.inner as f64;
        assert!(inner <= most * 1.7, "{} of {} inner pages", after.inner, before.inner);
        assert!(most < 1.0 || part > 0.9, "the switch does something");
        // No split follows at once: each page has room for a few more.
        let leaves = after.leaves;
        let more: Vec<_> = (0..750).step_by(9).map(|n| (key(n * 24 + 1), row(n))).collect();
        suite::insert(&tree, &more);
        assert!(verify_clean(&tree).leaves <= leaves + leaves / 10);
    }
}

/// Deleting by key merges, too, down to a small tree; inserting again makes it large again.
#[test]
fn deleting_one_by_one_merges() {
    let (_pool, tree) = tree(400, 2);
    let mut rng = Rng::from_seed(2);
    let mut entries: Vec<_> = (0..3000).map(|n| (key(n), row(n))).collect();
    for _ in 0..3 {
        suite::insert(&tree, &entries);
        let full = verify_clean(&tree).leaves;
        rng.shuffle(&mut entries);
        let (gone, kept) = entries.split_at(2800);
        gone.iter().for_each(|entry| delete(&tree, entry));
        same(&tree, &kept.iter().cloned().collect());
        let left = verify_clean(&tree).leaves;
        assert!(left * 2 < full, "{left} of {full} leaves are left");
    }
}

/// Between the look of verify at the meta page and that at the root which this names, the root is
/// split, and what was it is merged away. That is no damage.
#[test]
fn a_root_that_is_merged_away_beside_verify_is_no_finding() {
    let findings = |broken: bool| {
        let _broken = broken.then(|| points::break_rule(Broken::SplitRootReported));
        let (_pool, tree) = tree(500, 7);
        let (beside, met) = (tree.clone(), AtomicBool::new(false));
        let _hook = points::install_local(move |name| {
            if name == "btree.verify.meta" && !met.swap(true, Ordering::Relaxed) {
                let entries: Vec<_> = (0..6000).map(|n| (key(n), row(n))).collect();
                suite::insert(&beside, &entries);
                suite::vacuum(&beside, &|row| row.block.0 < 40);
            }
        });
        let mut findings = Vec::new();
        tree.verify(None, &mut |finding| findings.push(finding.check)).unwrap();
        findings
    };
    assert_eq!(findings(false), [""; 0]);
    assert_eq!(findings(true), ["B1"], "the old root is no root any more");
}

/// Leaves that are the last child of their parent, and have a left sibling under it that is full.
fn last_children(tree: &BTree) -> Vec<u32> {
    let page = |block: u32| tree.inspect_page(block).unwrap();
    let inner = (1..tree.blocks()).filter(|block| {
        let page = page(*block);
        page.level == 1 && matches!(page.kind, "inner" | "root")
    });
    let last = inner.filter_map(|block| tree.inspect_items(block).unwrap().pop()?.child);
    last.filter(|block| page(page(*block).left).free < 8192 - 500 + 150).collect()
}

/// The right sibling of a last child is under another parent, so its keys cannot go there. An empty
/// one used to stay for good as long as its left sibling was too full to be called underfull.
fn emptied_last_children() {
    for by_vacuum in [true, false] {
        let (_pool, tree) = tree(500, 7);
        let entries: Vec<_> = (0..4000).map(|n| (key(n), row(n))).collect();
        suite::insert(&tree, &entries);
        let last = last_children(&tree);
        assert!(last.len() > 3, "{} last children with full siblings", last.len());
        let rows_of = |block: &u32| tree.inspect_items(*block).unwrap();
        let gone: BTreeSet<RowId> =
            last.iter().flat_map(rows_of).filter_map(|item| item.row).collect();
        let before = verify_clean(&tree).leaves;
        if by_vacuum {
            suite::vacuum(&tree, &|row| gone.contains(row));
        } else {
            entries.iter().filter(|(_, row)| gone.contains(row)).for_each(|e| delete(&tree, e));
        }
        same(&tree, &entries.iter().filter(|(_, row)| !gone.contains(row)).cloned().collect());
        let after = verify_clean(&tree).leaves;
        assert!(after + last.len() as u64 <= before, "{before} - {} leaves: {after}", last.len());
        let empty = |block: &u32| {
            let page = tree.inspect_page(*block).unwrap();
            page.kind == "leaf" && page.items == 0
        };
        assert_eq!((1..tree.blocks()).filter(empty).count(), 0, "by vacuum: {by_vacuum}");
    }
}

#[test]
fn an_empty_last_child_takes_in_its_left_sibling() {
    emptied_last_children();
    // Merged across parents it would leave a page with another low fence than its downlink says.
    let checks: [(&str, fn()); 1] = [("last", emptied_last_children)];
    assert_eq!(points::caught(Broken::MergeAcrossParents, &checks), Some("last"));
}

/// A scan that waits between two leaves while everything around it is merged or split sees what
/// was there all the time, once.
#[test]
fn scans_step_over_merges() {
    for seed in 0..60 {
        let (_pool, tree) = tree(400, seed);
        let mut rng = Rng::from_seed(seed);
        let entries: Vec<_> = (0..900).map(|n| (key(n), row(n))).collect();
        suite::insert(&tree, &entries);
        let stable: Vec<_> =
            entries.iter().filter(|(_, row)| row.slot % 10 == 1).cloned().collect();
        let direction = [Direction::Forward, Direction::Backward][seed as usize % 2];
        let options = ScanOptions { direction, ..ScanOptions::default() };
        let mut scan = tree.begin_scan(KeyRange::all(), options);
        let (mut batch, mut seen) = (LeafBatch::default(), Vec::new());
        let mut present = true;
        while scan.next_batch(&|| 0, &mut batch).unwrap() {
            seen.extend((0..batch.len()).map(|i| (batch.key(i).to_vec(), batch.entries[i].row)));
            if rng.chance(1, 3) {
                let from = rng.index(800);
                let some = entries[from..].iter().take(rng.index(300));
                let some: Vec<_> = some.filter(|(_, row)| row.slot % 10 != 1).cloned().collect();
                if present {
                    for (key, row) in &some {
                        let _ = tree.delete(Xid(5), &IndexEntry::new(key, *row)).unwrap();
                    }
                } else if rng.chance(1, 2) {
                    suite::insert(&tree, &some);
                } else {
                    suite::insert_versions(&tree, &some);
                }
                present = !present;
            }
        }
        if direction == Direction::Backward {
            seen.reverse();
        }
        assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "seed {seed}: in order, once");
        let kept: Vec<_> = seen.into_iter().filter(|(_, row)| row.slot % 10 == 1).collect();
        assert_eq!(kept, stable, "seed {seed}");
        verify_clean(&tree);
    }
}

/// Rows that a vacuum should remove, although the pages that hold them are merged, in the middle of
/// the pass, into pages that it has left behind: when it comes to the place `at`, so many times
/// after half of the pages. Returns how many it missed.
fn merge_behind_vacuum(at: &'static str, later: u32) -> usize {
    let (_pool, tree) = tree(400, 8);
    // In any order, so that often the left page of a merge comes later in the pass than the right.
    let entries: Vec<_> = (0..1600).map(|n| (key(n), row(n))).collect();
    let mut parts: Vec<_> = entries.chunks(8).collect();
    Rng::from_seed(9).shuffle(&mut parts);
    parts.iter().for_each(|part| suite::insert(&tree, part));
    let (visits, half) = (AtomicU32::new(0), tree.blocks() / 2 + later);
    let (writer, all) = (tree.clone(), entries.clone());
    let hook = points::install_local(move |name| {
        if name == at && visits.fetch_add(1, Ordering::Relaxed) == half {
            all.iter().filter(|(_, row)| row.slot % 8 > 1).for_each(|entry| delete(&writer, entry));
        }
    });
    let before = verify_clean(&tree).leaves;
    suite::vacuum(&tree, &|row| row.slot % 8 == 1);
    drop(hook);
    let after = verify_clean(&tree).leaves;
    assert!(after * 2 < before, "{after} of {before} leaves are left");
    let left = suite::scan(&tree, KeyRange::all(), Direction::Forward);
    left.iter().filter(|(_, row)| row.slot % 8 == 1).count()
}

#[test]
fn vacuum_follows_what_a_merge_moved_behind_it() {
    let at = "btree.vacuum.visit";
    assert_eq!(merge_behind_vacuum(at, 0), 0, "dead rows were missed");
    let _broken = points::break_rule(Broken::MergeWithoutCycle);
    assert!(merge_behind_vacuum(at, 0) > 0, "without the cycle id no check would notice");
}

/// Found by a schedule: vacuum had found dead rows on a leaf, let go of it to latch it for good,
/// and met a free page, because others had merged the leaf in between. It went on, and left the
/// rows in the right sibling, which it had passed before.
#[test]
fn vacuum_follows_a_leaf_that_was_merged_while_it_judged() {
    let missed = || (0..16).map(|later| merge_behind_vacuum("btree.vacuum.judged", later)).sum();
    let sound: usize = missed();
    assert_eq!(sound, 0, "dead rows were missed");
    let _broken = points::break_rule(Broken::MergedPageNotFollowed);
    let broken: usize = missed();
    assert!(broken > 0, "without a second look no check would notice");
}

/// Between a merge's record and the list of freed blocks, a vacuum that passes sees a free page
/// that is in no list: it took the block for lost, and two pages got it later.
#[test]
fn a_page_on_its_way_out_is_nobodys() {
    let (_pool, tree) = tree(400, 9);
    let entries: Vec<_> = (0..1500).map(|n| (key(n), row(n))).collect();
    suite::insert(&tree, &entries);
    let vacuumed = tree.clone();
    let hook = points::install_local(move |name| {
        if name == "btree.merge.unlinked" {
            suite::vacuum(&vacuumed, &|_| false);
        }
    });
    let (gone, kept): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|(_, row)| row.slot % 8 != 1);
    gone.iter().for_each(|entry| delete(&tree, entry));
    drop(hook);
    let mut model: Model = kept.into_iter().collect();
    let more: Vec<_> = (2000..5000).map(|n| (key(n), row(n))).collect();
    suite::insert(&tree, &more);
    model.extend(more);
    same(&tree, &model);
    verify_clean(&tree);
}

/// A tree that was opened anew, in whose file pages that the meta page names as free are leaves
/// again; and these leaves.
fn with_stale_hints() -> (TestPool, BTree, Model, Vec<u32>) {
    let (pool, tree) = tree(400, 10);
    let entries: Vec<_> = (0..1500).map(|n| (key(n), row(n))).collect();
    let (again, kept) = entries.split_at(700);
    suite::insert(&tree, &entries);
    let stays = row(700);
    assert!(suite::vacuum(&tree, &|row| *row < stays).pages_free > 10);
    suite::insert(&tree, again);
    drop(tree);
    let options = TreeOptions { capacity: 400, ..TreeOptions::default() };
    let tree = BTree::open(&pool.pool, FILE, options).unwrap();
    let is_leaf = |block: &u32| tree.inspect_page(*block).unwrap().kind == "leaf";
    let stale: Vec<u32> = tree.0.free_pages.hints().into_iter().filter(is_leaf).collect();
    assert!(stale.len() > 10, "{stale:?} are named");
    let model = again.iter().chain(kept).cloned().collect();
    (pool, tree, model, stale)
}

/// Leaves that the meta page named as free were merged while an operation was registered. The next
/// split took their blocks by the meta page's word, though the operation could still come to them;
/// when it had ended they were handed out again, and other pages were written over the new ones.
fn merged_though_named() {
    let (_pool, tree, mut model, stale) = with_stale_hints();
    let registered = tree.0.registrations.register();
    for block in &stale {
        for item in tree.inspect_items(*block).unwrap() {
            let entry = (item.key, item.row.unwrap());
            delete(&tree, &entry);
            assert!(model.remove(&entry));
        }
    }
    let is_free = |block: &u32| tree.inspect_page(*block).unwrap().kind == "free";
    let free: Vec<u32> = stale.into_iter().filter(is_free).collect();
    assert!(free.len() > 5, "{free:?} were merged");
    for (first, registered) in [(2000, Some(registered)), (3000, None)] {
        let more: Vec<_> = (first..first + 1000).map(|n| (key(n), row(n))).collect();
        suite::insert(&tree, &more);
        model.extend(more);
        if registered.is_some() {
            assert!(free.iter().all(is_free), "an operation may still come to them");
        }
    }
    assert!(!free.iter().any(is_free), "they are used again when none can");
    same(&tree, &model);
    verify_clean(&tree);
}

#[test]
fn the_meta_page_says_nothing_of_what_leaves_later() {
    merged_though_named();
    let checks: [(&str, fn()); 1] = [("merged", merged_though_named)];
    assert_eq!(points::caught(Broken::FreeHintOutlivesReuse, &checks), Some("merged"));
}

/// What the meta page names and a vacuum finds in use is not counted as free.
#[test]
fn a_vacuum_counts_what_is_free() {
    let (_pool, tree, model, _) = with_stale_hints();
    let stats = suite::vacuum(&tree, &|_| false);
    let kind = |block: u32| tree.inspect_page(block).unwrap().kind;
    let free = (1..tree.blocks()).filter(|block| matches!(kind(*block), "free" | "unused"));
    assert_eq!(stats.pages_free, free.count() as u32);
    same(&tree, &model);
    verify_clean(&tree);
}

/// What a reader may rely on: for each entry a counter that its writer raises before and after each
/// change, odd while it changes; bit 1 says whether it is there.
struct Known {
    entries: Vec<(Vec<u8>, RowId)>,
    states: Vec<AtomicU64>,
}

impl Known {
    fn new(count: u64) -> Known {
        // Several rows to a key, so that there are posting lists to be parted, merged and split.
        let entries = (0..count).map(|n| (key(n / 6 * 5), RowId::new((n % 6 * 9) as u32, 1)));
        Known {
            entries: entries.collect(),
            states: (0..count).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn state(&self, n: usize) -> u64 {
        self.states[n].load(Ordering::SeqCst)
    }

    fn change(&self, n: usize) {
        self.states[n].fetch_add(1, Ordering::SeqCst);
    }

    fn is_there(state: u64) -> bool {
        state & 2 != 0
    }
}

/// Inserts and deletes ranges of its own entries, every other one.
fn writer(tree: &BTree, known: &Known, me: usize, until: &dyn Fn(usize) -> bool) {
    let mut rng = Rng::from_seed(me as u64);
    let mut round = 0;
    while !until(round) {
        round += 1;
        let start = rng.index(known.entries.len());
        let range = start..(start + 1 + rng.index(120)).min(known.entries.len());
        let there = rng.chance(1, 2);
        let mine: Vec<usize> =
            range.filter(|n| n % 2 == me && Known::is_there(known.state(*n)) == there).collect();
        mine.iter().for_each(|n| known.change(*n));
        if there {
            mine.iter().for_each(|n| delete(tree, &known.entries[*n]));
        } else {
            let batch: Vec<_> = mine.iter().map(|n| known.entries[*n].clone()).collect();
            match rng.chance(1, 2) {
                true => suite::insert(tree, &batch),
                false => suite::insert_versions(tree, &batch),
            }
        }
        mine.iter().for_each(|n| known.change(*n));
    }
}

/// Some of the entries, as a list of ranges of two to five keys each.
fn some_ranges(known: &Known, rng: &mut Rng) -> Arc<KeySet> {
    let (mut ranges, mut at) = (Vec::new(), rng.index(40));
    while at < known.entries.len() {
        let end = (at + 2 + rng.index(4)).min(known.entries.len() - 1);
        let (low, high) = (known.entries[at].0.clone(), known.entries[end].0.clone());
        ranges.push(KeyRange { low, high: Some(high) });
        at = end + 1 + rng.index(60);
    }
    Arc::new(KeySet::of_ranges(ranges).expect("the last entry is in none"))
}

fn scan_of(tree: &BTree, keys: &Arc<KeySet>, direction: Direction) -> Vec<(Vec<u8>, RowId)> {
    let options = ScanOptions { direction, ..ScanOptions::default() };
    let mut scan = tree.begin_scan_of(keys.hull(), Arc::clone(keys), options);
    let (mut batch, mut out) = (LeafBatch::default(), Vec::new());
    while scan.next_batch(&|| 0, &mut batch).unwrap() {
        out.extend((0..batch.len()).map(|i| (batch.key(i).to_vec(), batch.entries[i].row)));
    }
    out
}

/// Scans again and again, all or a list of ranges: what did not change meanwhile is seen exactly if
/// it is there and asked for. Counts what was `checked`.
fn reader(
    tree: &BTree,
    known: &Known,
    direction: Direction,
    (stop, checked): (&AtomicBool, &AtomicU64),
) {
    let mut rng = Rng::from_seed(direction as u64);
    while !stop.load(Ordering::Relaxed) {
        let before: Vec<u64> = (0..known.states.len()).map(|n| known.state(n)).collect();
        let some = rng.chance(1, 2).then(|| some_ranges(known, &mut rng));
        let mut seen = match &some {
            Some(keys) => scan_of(tree, keys, direction),
            None => suite::scan(tree, KeyRange::all(), direction),
        };
        if direction == Direction::Backward {
            seen.reverse();
        }
        assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "{direction:?}: in order, once");
        let asked =
            |n: usize| some.as_ref().is_none_or(|k| k.contains(&known.entries[n].0).unwrap());
        for (n, was) in before.iter().enumerate() {
            if was % 2 == 0 && known.state(n) == *was {
                let found = seen.binary_search(&known.entries[n]).is_ok();
                assert_eq!(found, Known::is_there(*was) && asked(n), "{direction:?}: entry {n}");
                checked.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn all_read(checked: &[AtomicU64; 2]) -> bool {
    checked.iter().all(|count| count.load(Ordering::Relaxed) > 1000)
}

/// Two writers that make pages split, share and merge all the time, a reader in each direction, and
/// a vacuum that merges as well, on a tree with tiny pages. `RIGHTLINK_STORM_SECONDS=60` makes it a
/// minute.
#[test]
fn readers_see_the_model_while_pages_split_and_merge() {
    let seconds = std::env::var("RIGHTLINK_STORM_SECONDS").ok();
    let seconds: Option<u64> = seconds.map(|text| text.parse().expect("a number of seconds"));
    let (_pool, tree) = tree(300, 1);
    let known = Arc::new(Known::new(1200));
    let (stop, late) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    // On a busy machine readers may get their turn late: writers go on until they had it.
    let checked = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let mut writers = Vec::new();
    for me in 0..2 {
        let (tree, known, late) = (tree.clone(), Arc::clone(&known), Arc::clone(&late));
        let checked = Arc::clone(&checked);
        writers.push(thread::spawn("writer", move || {
            // Not for ever: a reader may have failed.
            let until = |round| match seconds {
                Some(_) => late.load(Ordering::Relaxed),
                None => round >= 400 && (all_read(&checked) || round == 20_000),
            };
            writer(&tree, &known, me, &until);
        }));
    }
    let mut others = Vec::new();
    for direction in [Direction::Forward, Direction::Backward] {
        let (tree, known, stop) = (tree.clone(), Arc::clone(&known), Arc::clone(&stop));
        let checked = Arc::clone(&checked);
        others.push(thread::spawn("reader", move || {
            let checked = &checked[usize::from(direction == Direction::Backward)];
            reader(&tree, &known, direction, (&stop, checked));
        }));
    }
    let (vacuumed, stopped) = (tree.clone(), Arc::clone(&stop));
    others.push(thread::spawn("vacuum", move || {
        while !stopped.load(Ordering::Relaxed) {
            suite::vacuum(&vacuumed, &|_| false);
            verify_clean(&vacuumed);
        }
    }));
    if let Some(seconds) = seconds {
        thread::sleep(std::time::Duration::from_secs(seconds));
        late.store(true, Ordering::Relaxed);
    }
    let results: Vec<_> = writers.into_iter().map(thread::JoinHandle::join).collect();
    stop.store(true, Ordering::Relaxed);
    let others: Vec<_> = others.into_iter().map(thread::JoinHandle::join).collect();
    results.into_iter().chain(others).for_each(|result| result.unwrap());
    assert!(all_read(&checked), "{checked:?}");
    let there = (0..known.states.len()).filter(|n| Known::is_there(known.state(*n)));
    same(&tree, &there.map(|n| known.entries[n].clone()).collect());
    verify_clean(&tree);
    let merges = tree.0.merges.all();
    assert!(merges > 10, "{merges} merges");
}
