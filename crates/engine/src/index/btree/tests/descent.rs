//! Descents: every set of optimisations finds the same, touches few bytes, and survives writers.

use rightlink_env::Broken;
use rightlink_env::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering};
use rightlink_env::{Rng, points, thread};

use crate::buffer::Mtr;
use crate::datum::{Type, Value};
use crate::ids::{PageId, RowId, Xid};
use crate::index::am::{AccessMethod, IndexEntry, LeafBatch, ScanOptions};
use crate::index::btree::page::edit::{EntryValue, NodeHeader};
use crate::index::btree::page::entries::Entries;
use crate::index::btree::page::node::{Node, SearchPosition};
use crate::index::btree::page::search::SearchBounds;
use crate::index::btree::search::{PageMatch, ParentHint, SearchTarget};
use crate::index::btree::tests::writes::any_set;
use crate::index::btree::tests::{FILE, integer, long_prefix, tree, word};
use crate::index::btree::{BTree, Counters, Optimisation, Optimisations, counting};
use crate::index::search_key::{Direction, KeyRange};
use crate::index::suite;
use crate::keycode::{self, KeyColumn};
use crate::page::{PageBuf, PageMut};

const ROW: [u8; 6] = [0, 0, 0, 1, 0, 1];

/// All, none, all but one, and none but one.
fn sets() -> Vec<Optimisations> {
    let mut sets = vec![Optimisations::ALL, Optimisations::NONE];
    for (_, one) in Optimisation::EACH {
        sets.extend([Optimisations::ALL.without(one), Optimisations::NONE.with(one)]);
    }
    sets
}

fn page_of(level: u8, keys: &[Vec<u8>], (low, high): (&[u8], Option<&[u8]>)) -> PageBufOwned {
    let mut entries = Entries::default();
    for (n, key) in keys.iter().enumerate() {
        entries.push(key, EntryValue { child: 100 + n as u32, ..EntryValue::default() });
    }
    let header = NodeHeader {
        level,
        left: u32::from(!low.is_empty()),
        right: u32::from(high.is_some()),
        low: low.to_vec(),
        high: high.map(<[u8]>::to_vec),
        ..NodeHeader::default()
    };
    let mut page = PageBuf::zeroed();
    let image = header.image_of(&entries).expect("a few keys fit");
    PageMut::owned(&mut page).replace(&image);
    (page, image)
}

type PageBufOwned = (Box<PageBuf>, Box<[u8; crate::config::PAGE_SIZE]>);

/// A page with many keys that share heads, searched for keys in it and between, under all sets,
/// with and without what may be known before.
#[test]
fn all_sets_find_the_same_place() {
    for (seed, make) in [(1, integer as fn(&mut Rng) -> Vec<u8>), (2, word), (3, long_prefix)] {
        let mut rng = Rng::from_seed(seed);
        for level in [0, 1] {
            let mut keys: Vec<Vec<u8>> =
                (0..80).map(|_| [b"m", &make(&mut rng)[..], &ROW].concat()).collect();
            keys.sort_unstable();
            keys.dedup();
            let fences: (&[u8], _) =
                if rng.chance(1, 2) { (b"m", Some(&b"n"[..])) } else { (b"", None) };
            let (page, image) = page_of(level, &keys, fences);
            for _ in 0..400 {
                let mut key = [b"m", &make(&mut rng)[..], &ROW].concat();
                key.truncate(1 + rng.index(key.len()));
                check_place(&keys, level, &key, (&page, &image), &mut rng);
            }
            for key in &keys {
                check_place(&keys, level, key, (&page, &image), &mut rng);
            }
        }
    }
}

fn check_place(
    keys: &[Vec<u8>],
    level: u8,
    key: &[u8],
    (page, image): (&PageBuf, &[u8; crate::config::PAGE_SIZE]),
    rng: &mut Rng,
) {
    // The first entry of an inner page has no key of its own.
    let below = |entry: usize| level > 0 && entry == 0 || keys[entry].as_slice() < key;
    let pos = (0..keys.len()).position(|i| !below(i)).unwrap_or(keys.len());
    let exact = pos < keys.len() && keys[pos] == key;
    let node = Node::open(image).unwrap();
    for set in sets() {
        for (known, from) in [(0, 0), (1, 0), (0, rng.index(pos + 1))] {
            let given =
                SearchBounds { set, shared_bytes: if node.left == 0 { 0 } else { known }, from };
            let probe = node.search_within(key, given).unwrap();
            let view = Node::open(page.view()).unwrap();
            assert_eq!(view.search_within(key, given).unwrap().found, probe.found);
            if level > 0 && probe.found.pos == 0 {
                // Not above what all keys begin with: the first child, which has no key.
                assert!(pos <= 1 && from <= 1, "{set:?} {given:?} {key:?}");
                continue;
            }
            assert_eq!(probe.found, SearchPosition { pos, exact }, "{set:?} {given:?} {key:?}");
            if level > 0 && pos > 0 {
                // A separator itself belongs to the child on either side, by what is looked for.
                for child in if exact { [pos, pos - 1] } else { [pos - 1; 2] } {
                    check_shared(&node, keys, key, (node.shared(key, &probe, child), child));
                }
            }
        }
    }
}

/// What a key is said to share with both separators it shares, but for zeroes that stand for
/// nothing behind a short one.
fn check_shared(
    node: &Node<&[u8; crate::config::PAGE_SIZE]>,
    keys: &[Vec<u8>],
    key: &[u8],
    (shared, child): (usize, usize),
) {
    let low = if child == 0 { node.low() } else { keys[child].clone() };
    let high = keys.get(child + 1).cloned().or(node.high());
    for bound in [Some(low), high].into_iter().flatten() {
        let both = shared.min(bound.len());
        assert_eq!(key[..both.min(key.len())], bound[..both.min(key.len())], "{shared} {child}");
    }
}

/// A separator that was cut shorter is another one, even where its head is padded with the very
/// bytes that the longer one has: equality looks at the length too.
#[test]
fn a_high_key_is_not_mistaken_for_a_shorter_separator() {
    for (high, separator, equal) in [
        (&b"42\0\0\0\0\0"[..], &b"42"[..], false),
        (b"42\0\0\0\0y", b"42\0\0\0\0y", true),
        (b"43", b"43\0", false),
        (b"43\0", b"43", false),
        (b"43", b"43", true),
    ] {
        let (_, image) = page_of(0, &[b"41zzzz1".to_vec()], (b"41", Some(high)));
        let node = Node::open(&*image).unwrap();
        // Between two separators, and at the right end of the parent.
        for last in [false, true] {
            let inner = if last { vec![] } else { vec![separator.to_vec()] };
            let separators = [vec![b"41".to_vec()], inner].concat();
            let high = if last { Some(separator) } else { None };
            let (_, parent) = page_of(1, &separators, (b"41", high));
            let parent = Node::open(&*parent).unwrap();
            let same = node.high_is_separator(&parent, 0);
            assert_eq!(same, Ok(equal), "{high:?} {separator:?} {last}");
        }
    }
    // A parent whose separators are these two: the bounds of its children are told apart.
    let separators = [b"".to_vec(), b"42".to_vec(), b"42\0\0\0\0\0".to_vec()];
    let (_, parent) = page_of(1, &separators, (b"", None));
    let parent = Node::open(&*parent).unwrap();
    let (_, leaf) = page_of(0, &[b"41xxxx1".to_vec()], (b"40", Some(b"42\0\0\0\0\0")));
    let leaf = Node::open(&*leaf).unwrap();
    assert_eq!([0, 1].map(|child| leaf.high_is_separator(&parent, child)), [Ok(false), Ok(true)]);
}

/// Separators of any length, in any split of prefix, head and rest, are compared to the last byte.
#[test]
fn separators_are_compared_as_a_whole() {
    let mut rng = Rng::from_seed(31);
    for _ in 0..3000 {
        let shared = rng.index(80);
        let mut key = |last: u8| -> Vec<u8> {
            let mut key = vec![7; shared];
            key.extend((0..rng.index(90)).map(|_| rng.below(2) as u8 + last));
            key
        };
        let (low, separator, mut high) = (key(10), key(30), key(30));
        if low.is_empty() || separator.is_empty() || separator <= low || high <= low {
            continue;
        }
        if rng.chance(1, 2) {
            high.clone_from(&separator);
            if rng.chance(1, 4) {
                let at = rng.index(high.len());
                high[at] ^= 64;
            }
        }
        if high <= low {
            continue;
        }
        let (_, leaf) = page_of(0, &[], (&low, Some(&high)));
        let beyond = [&separator[..], &[255]].concat();
        let (_, parent) = page_of(1, &[low.clone(), separator.clone()], (&low, Some(&beyond)));
        let (leaf, parent) = (Node::open(&*leaf).unwrap(), Node::open(&*parent).unwrap());
        let same = leaf.high_is_separator(&parent, 0);
        assert_eq!(same, Ok(high == separator), "{high:?} {separator:?}");
    }
}

/// The rightmost downlink of a page has its high key for a separator, and none at the right end of
/// the level, so that no other one is taken for it. A wrong one would say of a page that has split
/// that its new high key need not be looked at.
#[test]
fn the_rightmost_downlink_has_the_high_key_for_a_separator() {
    let separators = [b"c".to_vec(), b"f".to_vec()];
    let (_, inside) = page_of(1, &separators, (b"c", Some(b"k")));
    let inside = Node::open(&*inside).unwrap();
    let (_, leaf) = page_of(0, &[b"g123456".to_vec()], (b"f", Some(b"k")));
    assert_eq!(Node::open(&*leaf).unwrap().high_is_separator(&inside, 1), Ok(true));
    // The rightmost leaf has split at "h", which only its own fence says yet.
    let (_, image) = page_of(0, &[b"g123456".to_vec()], (b"f", Some(b"h")));
    let leaf = Node::open(&*image).unwrap();
    let (_, last) = page_of(1, &separators, (b"c", None));
    let last = Node::open(&*last).unwrap();
    for parent in [&inside, &last] {
        assert_eq!(leaf.high_is_separator(parent, 1), Ok(false));
        let lead = ParentHint { trusted: true, ..ParentHint::NONE };
        let place = |key: &[u8]| {
            let same = |node: &Node<_>| node.high_is_separator(parent, 1) == Ok(true);
            leaf.match_with(SearchTarget::At(key), lead, same).unwrap().0
        };
        assert!(matches!(place(b"i123456"), PageMatch::MoveRight(1)));
        assert!(matches!(place(b"g200000"), PageMatch::Here(_)));
    }
}

/// Even keys go in one by one, in this order. Between a split and its downlink, when the parent is
/// unchanged and knows nothing of the new page, all that went in before are looked up, and the odd
/// key beside the one that splits goes in.
fn used_beside_splits(order: &[u64], key: fn(u64) -> Vec<u8>) {
    let (_pool, tree) = tree(400, 5);
    let row = |n: u64| RowId::new(1 + n as u32, 1);
    let inside: Arc<Mutex<Vec<u64>>> = Arc::default();
    let at = Arc::new(AtomicU64::new(0));
    let [splits, moves] = [0, 0].map(|n| Arc::new(AtomicU64::new(n)));
    let beside = {
        let (tree, inside, at) = (tree.clone(), Arc::clone(&inside), Arc::clone(&at));
        let (splits, moves) = (Arc::clone(&splits), Arc::clone(&moves));
        let nested = AtomicBool::new(false);
        points::install_local(move |name| {
            if name != "btree.split.incomplete" || nested.swap(true, Ordering::Relaxed) {
                return;
            }
            let (cost, ()) = counting(|| {
                for n in inside.lock().iter() {
                    assert_eq!(found(&tree, &[&key(*n)]), [(0, row(*n))], "{n}");
                }
            });
            splits.fetch_add(1, Ordering::Relaxed);
            moves.fetch_add(cost.moves_right, Ordering::Relaxed);
            let odd = at.load(Ordering::Relaxed) + 1;
            suite::insert(&tree, &[(key(odd), row(odd))]);
            inside.lock().push(odd);
            nested.store(false, Ordering::Relaxed);
        })
    };
    for n in order {
        at.store(2 * n, Ordering::Relaxed);
        suite::insert(&tree, &[(key(2 * n), row(2 * n))]);
        inside.lock().push(2 * n);
    }
    drop(beside);
    let [splits, moves] = [splits, moves].map(|count| count.load(Ordering::Relaxed));
    assert!(splits > 15 && moves > 0, "{splits} splits, {moves} moves right");
    assert!(tree.levels() > 1);
    suite::verify_clean(&tree);
    let model = inside.lock().iter().map(|n| (key(*n), row(*n))).collect();
    suite::same(&tree, &model);
}

/// The rightmost downlink's page is the one that splits.
fn ascending() {
    used_beside_splits(&(0..600).collect::<Vec<_>>(), int8);
}

fn scattered_as(key: fn(u64) -> Vec<u8>) {
    let mut order: Vec<u64> = (0..600).collect();
    Rng::from_seed(4).shuffle(&mut order);
    used_beside_splits(&order, key);
}

fn scattered() {
    scattered_as(int8);
}

/// A key of an index on (int4, int2), of which eight have the same first column: one to zero, in
/// the middle of them, and to numbers on both sides.
fn pair(n: u64) -> Vec<u8> {
    let columns = [KeyColumn::ascending(Type::Int4), KeyColumn::ascending(Type::Int2)];
    let values = [Value::Int4(n as i32 / 8), Value::Int2(n as i16 % 8 - 3)];
    keycode::encode(&columns, &values).unwrap()
}

/// Splits between two values of the first column cut the separator to that column, which stands
/// for everything below (42, anything). Where the split is in front of (42, 0), the separator is
/// longer, and the bytes that a comparison of fixed size would add to the first are its own.
fn truncated() {
    scattered_as(pair);
    let (_pool, tree) = tree(400, 6);
    let entries: Vec<_> = (0..2000).map(|n| (pair(n), RowId::new(1 + n as u32, 1))).collect();
    suite::insert(&tree, &entries);
    let mut lengths: Vec<usize> = (1..tree.blocks())
        .map(|block| tree.inspect_page(block).unwrap())
        .filter(|page| page.level == 0)
        .filter_map(|page| page.high.map(|high| high.len()))
        .collect();
    lengths.sort_unstable();
    lengths.dedup();
    assert!(lengths.contains(&5) && lengths.iter().any(|len| *len > 6), "{lengths:?}");
}

/// A separator that is taken for the high key without a comparison sends no descent right.
#[test]
fn keys_are_found_between_a_split_and_its_downlink() {
    let checks: [(&str, fn()); 3] =
        [("ascending", ascending), ("scattered", scattered), ("truncated", truncated)];
    for check in checks {
        check.1();
        assert_eq!(points::caught(Broken::SeparatorNotCompared, &[check]), Some(check.0));
    }
}

/// Somebody has every inner page latched for himself and has changed none: who looks up, scans,
/// inserts and deletes below comes by without a latch (R11).
#[test]
fn descents_pass_latched_inner_pages() {
    let (pool, tree) = tree(400, 6);
    let mut entries: Vec<_> = (0..3000).map(|n| (int8(n), RowId::new(1 + n as u32, 1))).collect();
    suite::insert(&tree, &entries);
    assert!(tree.levels() > 2, "{} levels", tree.levels());
    // Room for what comes back, so that no leaf is split.
    let back: Vec<_> = entries.drain(1500..1503).collect();
    for (key, row) in &back {
        assert!(tree.delete(Xid(5), &IndexEntry::new(key, *row)).unwrap());
    }
    let page = |block: &u32| tree.inspect_page(*block).unwrap();
    let inner: Vec<u32> = (1..tree.blocks()).filter(|block| page(block).level > 0).collect();
    assert!(inner.len() > 3, "{inner:?}");
    let pins = inner.iter().map(|block| pool.pool.pin(PageId::new(FILE, *block)).unwrap());
    let pins: Vec<_> = pins.collect();
    let mut mtr = Mtr::new(&pool.pool);
    for pin in pins {
        mtr.latch(pin);
    }
    let (below, wanted) = (tree.clone(), entries.clone());
    let others = thread::spawn("others", move || {
        for (key, row) in &wanted {
            assert_eq!(found(&below, &[key]), [(0, *row)]);
        }
        let keys: Vec<&[u8]> = wanted.iter().map(|(key, _)| key.as_slice()).collect();
        assert_eq!(found(&below, &keys).len(), keys.len());
        for direction in [Direction::Forward, Direction::Backward] {
            assert_eq!(suite::scan(&below, KeyRange::all(), direction).len(), keys.len());
        }
        for (key, row) in &back {
            suite::insert(&below, &[(key.clone(), *row)]);
            assert_eq!(found(&below, &[key]), [(0, *row)]);
            assert!(below.delete(Xid(5), &IndexEntry::new(key, *row)).unwrap());
        }
    });
    let outcome = others.join();
    drop(mtr);
    outcome.unwrap();
    suite::verify_clean(&tree);
}

/// A key of which many neighbours begin alike, far beyond their heads.
fn may_share_item(n: u64) -> Vec<u8> {
    let [group, rest] = [n / 40, n % 40 * 5].map(|part| part.to_be_bytes());
    [&group[6..], b" and what all the keys of a group share ", &rest[6..]].concat()
}

/// Each part of a search, switched off alone, costs what it saves.
#[test]
fn each_part_of_a_search_saves_something() {
    let (_pool, tree) = tree(8192, 7);
    let entries: Vec<_> = (0..40_000)
        .map(|n| (may_share_item(n), RowId::new(1 + n as u32 / 60, n as u16 % 60 + 1)))
        .collect();
    suite::insert(&tree, &entries);
    assert!(tree.levels() > 1, "{} levels", tree.levels());
    // Those that are there, and those above all of their group: they end past the last slot, often.
    let absent = |n: u64| [&may_share_item(n * 40 + 39)[..], &[9]].concat();
    let list: Vec<&[u8]> = entries.iter().step_by(50).map(|(key, _)| key.as_slice()).collect();
    let look = || {
        for (key, row) in entries.iter().step_by(7) {
            assert_eq!(found(&tree, &[key]), [(0, *row)]);
        }
        (0..1000).for_each(|n| assert_eq!(found(&tree, &[&absent(n)]), []));
        assert_eq!(found(&tree, &list).len(), list.len());
    };
    let (all, ()) = counting(look);
    type Figure = fn(&Counters) -> u64;
    let parts: [(Optimisation, Figure); 7] = [
        (Optimisation::Heads, |c| c.keys),
        (Optimisation::Truncation, |c| c.bytes),
        (Optimisation::CarriedBounds, |c| c.bytes),
        (Optimisation::SearchFirst, |c| c.high_keys + c.separators),
        (Optimisation::Separators, |c| c.high_keys),
        (Optimisation::Optimistic, |c| c.bytes),
        (Optimisation::Cursors, |c| c.descents),
    ];
    for (one, figure) in parts {
        tree.optimise(Optimisations::ALL.without(one));
        let (without, ()) = counting(look);
        let (more, less) = (figure(&without), figure(&all));
        println!("without {one:?}: {less} becomes {more}");
        assert!(more > less, "{one:?} saves nothing: {less}, {more}");
    }
    // Guesses are for heads that grow evenly.
    let (_pool, tree) = super::tree(8192, 8);
    let entries: Vec<_> = (0..20_000).map(|n| (int8(n * 7), RowId::new(1 + n as u32, 1))).collect();
    suite::insert(&tree, &entries);
    let heads = || {
        let look = || entries.iter().step_by(5).for_each(|(key, _)| drop(found(&tree, &[key])));
        counting(look).0.heads
    };
    let guessed = heads();
    tree.optimise(Optimisations::ALL.without(Optimisation::Samples));
    assert!(heads() > guessed + guessed / 20, "guesses save nothing: {guessed}, {}", heads());
}

fn int8(n: u64) -> Vec<u8> {
    [&[1u8][..], &(n ^ 1 << 63).to_be_bytes()].concat()
}

fn found(tree: &BTree, keys: &[&[u8]]) -> Vec<(usize, RowId)> {
    let mut found = Vec::new();
    tree.lookup(keys, &mut |n, row, _| found.push((n, row))).unwrap();
    found
}

/// The targets of the descent, counted: at most a whole key a level, a high key hardly ever.
#[test]
fn descents_touch_few_bytes() {
    let (_pool, tree) = tree(8192, 7);
    let entries: Vec<_> =
        (0..60_000).map(|n| (int8(n * 7), RowId::new(n as u32 / 60, n as u16 % 60 + 1))).collect();
    suite::insert(&tree, &entries);
    let lookups = || {
        for (key, row) in entries.iter().step_by(6) {
            assert_eq!(found(&tree, &[key]), [(0, *row)]);
        }
    };
    let (all, ()) = counting(lookups);
    assert_eq!(all.descents, 10_000);
    let levels = all.pages as f64;
    assert!(all.keys as f64 <= levels, "{all:?}");
    assert!(all.high_keys as f64 <= levels / 1000.0, "{all:?}");
    // Keys of which the page ends with a smaller one end past the last slot.
    let absent: Vec<_> = (0..60_000u64).map(|n| int8(n * 7 + 3)).collect();
    let (beyond, ()) = counting(|| {
        absent.iter().for_each(|key| assert_eq!(found(&tree, &[key]), []));
    });
    assert!(beyond.separators > 20 && beyond.high_keys == 0, "{beyond:?}");
    tree.optimise(Optimisations::NONE);
    let (none, ()) = counting(lookups);
    assert!(none.bytes > 2 * all.bytes && none.high_keys > 9_000, "{none:?} {all:?}");
}

/// A row id may begin in what the page's keys share, in the head, or after it.
#[test]
fn rows_are_read_wherever_they_begin() {
    for tail in 0..8 {
        let (_pool, tree) = tree(8192, 3);
        let entry = |n: u32| {
            let spread = u64::from(n).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
            let key = [&b"same"[..], &spread[..tail]].concat();
            (key, RowId::new(n.wrapping_mul(0x0135_79BD) >> 4, 1 + (n % 200) as u16))
        };
        let mut entries: Vec<_> = (0..150).map(entry).collect();
        suite::insert(&tree, &entries);
        entries.sort_unstable();
        for same in entries.chunk_by(|a, b| a.0 == b.0) {
            let rows: Vec<(usize, RowId)> = same.iter().map(|(_, row)| (0, *row)).collect();
            assert_eq!(found(&tree, &[&same[0].0]), rows, "{tail} bytes of key");
        }
        suite::verify_clean(&tree);
    }
}

#[test]
fn lists_of_keys_find_what_single_lookups_find() {
    for (seed, make) in [(1, integer as fn(&mut Rng) -> Vec<u8>), (2, word), (3, long_prefix)] {
        let (_pool, tree) = tree(400, seed);
        let mut rng = Rng::from_seed(seed);
        let entries: Vec<_> = (0..1500).map(|n| (make(&mut rng), RowId::new(1 + n, 1))).collect();
        suite::insert(&tree, &entries);
        for set in sets() {
            tree.optimise(set);
            let mut keys: Vec<Vec<u8>> = (0..200).map(|_| make(&mut rng)).collect();
            keys.extend(entries.iter().step_by(17).map(|(key, _)| key.clone()));
            keys.sort_unstable();
            keys.dedup();
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let mut expected: Vec<(usize, RowId)> = Vec::new();
            for (n, key) in keys.iter().enumerate() {
                let rows = entries.iter().filter(|(k, _)| k == key).map(|(_, row)| (n, *row));
                expected.extend(rows);
            }
            let mut rows = found(&tree, &keys);
            rows.sort_unstable();
            expected.sort_unstable();
            assert_eq!(rows, expected, "{set:?}");
        }
    }
}

/// Keys next door need no descent of their own, neither in one lookup nor in a scan that goes on
/// with another range.
#[test]
fn lists_of_keys_stay_on_their_leaves() {
    let (_pool, tree) = tree(8192, 7);
    let entries: Vec<_> = (0..5000).map(|n| (int8(n), RowId::new(1 + n as u32, 1))).collect();
    suite::insert(&tree, &entries);
    let keys: Vec<&[u8]> = entries.iter().step_by(3).map(|(key, _)| key.as_slice()).collect();
    let ranges = || {
        let mut scan = tree.begin_scan(KeyRange::none(), ScanOptions::default());
        for key in &keys {
            scan.restart(KeyRange::starting_with(key));
            let mut batch = LeafBatch::default();
            assert!(scan.next_batch(&|| 0, &mut batch).unwrap());
            assert_eq!((batch.len(), batch.key(0)), (1, *key));
            assert!(!scan.next_batch(&|| 0, &mut batch).unwrap());
        }
    };
    let (list, rows) = counting(|| found(&tree, &keys));
    assert_eq!((rows.len(), list.descents), (keys.len(), 1), "{list:?}");
    assert_eq!(list.next_door + 1, suite::verify_clean(&tree).leaves, "each leaf is held once");
    assert_eq!(counting(ranges).0.descents, 1);
    tree.optimise(Optimisations::ALL.without(Optimisation::Cursors));
    assert_eq!(counting(|| found(&tree, &keys)).0.descents, keys.len() as u64);
    assert_eq!(counting(ranges).0.descents, keys.len() as u64);
    // Far apart they are descended for, after a few looks to the right.
    tree.optimise(Optimisations::ALL);
    let far: Vec<&[u8]> = keys.iter().step_by(400).copied().collect();
    assert_eq!(found(&tree, &far).len(), far.len());
}

/// Parts are left out by name, all or none of those that are named.
#[test]
fn parts_are_left_out_by_name() {
    let (_pool, tree) = tree(8192, 7);
    assert!(tree.leave_out(&["heads", "batches"]));
    let some = Optimisations::ALL.without(Optimisation::Heads).without(Optimisation::Batches);
    assert_eq!(tree.0.switches.get(), some);
    assert!(!tree.leave_out(&["truncation", "wheels"]));
    assert_eq!(tree.0.switches.get(), some);
    assert!(tree.leave_out(&[]));
    assert_eq!(tree.0.switches.get(), Optimisations::ALL);
}

/// Two writers split and merge pages of a tiny tree while two readers look keys up that stay.
#[test]
fn lookups_hold_while_writers_split_and_merge() {
    let seconds: u64 = std::env::var("RIGHTLINK_STORM_SECONDS").map_or(1, |s| s.parse().unwrap());
    let (_pool, tree) = tree(300, 5);
    let stays: Vec<_> = (0..300u64).map(|n| (int8(n * 10), RowId::new(n as u32, 1))).collect();
    suite::insert(&tree, &stays);
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..2u64)
        .map(|me| {
            let (tree, stop) = (tree.clone(), Arc::clone(&stop));
            thread::spawn("writer", move || churn(&tree, me, &stop))
        })
        .collect();
    let readers: Vec<_> = (0..2u64)
        .map(|me| {
            let (tree, stays, stop) = (tree.clone(), stays.clone(), Arc::clone(&stop));
            thread::spawn("reader", move || {
                let (mut rng, mut rounds) = (Rng::from_seed(70 + me), 0u64);
                while !stop.load(Ordering::Relaxed) {
                    let mut at = rng.index(stays.len());
                    let mut wanted = Vec::new();
                    while at < stays.len() && wanted.len() < 30 {
                        wanted.push(&stays[at]);
                        at += 1 + rng.index(5);
                    }
                    let keys: Vec<&[u8]> = wanted.iter().map(|(key, _)| key.as_slice()).collect();
                    let expected: Vec<_> =
                        wanted.iter().enumerate().map(|(n, (_, row))| (n, *row)).collect();
                    assert_eq!(found(&tree, &keys), expected);
                    rounds += 1;
                }
                rounds
            })
        })
        .collect();
    // Meanwhile parts are switched off and on under all of them.
    let mut rng = Rng::from_seed(9);
    for _ in 0..seconds * 50 {
        thread::sleep(std::time::Duration::from_millis(20));
        tree.optimise(if rng.chance(1, 2) { any_set(&mut rng) } else { Optimisations::ALL });
    }
    stop.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let rounds: u64 = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
    assert!(rounds > 0);
    assert!(tree.0.merges.all() > 0, "pages were merged");
    suite::verify_clean(&tree);
}

/// Inserts keys between those that stay, takes them out again, and lets a vacuum take pages.
fn churn(tree: &BTree, me: u64, stop: &AtomicBool) {
    let mut rng = Rng::from_seed(me);
    while !stop.load(Ordering::Relaxed) {
        let start = rng.below(2500);
        let mine: Vec<_> = (start..start + 400)
            .filter(|n| n % 10 == me + 1)
            .map(|n| (int8(n), RowId::new(50_000 + n as u32, 1 + me as u16)))
            .collect();
        suite::insert(tree, &mine);
        if rng.chance(1, 2) {
            for (key, row) in &mine {
                let entry = IndexEntry::new(key, *row);
                assert!(tree.delete(Xid(5), &entry).unwrap());
            }
        }
        let gone = 1 + me as u16;
        tree.bulk_delete(&mut |rows, dead| {
            for (row, dead) in rows.iter().zip(dead) {
                *dead = row.block.0 >= 50_000 && row.slot == gone;
            }
        })
        .unwrap();
    }
}
