//! Planted damage: every check of `verify` finds what it is for, and nothing panics on any damage.

use rightlink_env::Rng;
use rightlink_env::rng::rounds;

use crate::buffer::testing::TestPool;
use crate::config::PAGE_SIZE;
use crate::ids::{PageId, RowId, Xid};
use crate::index::am::{AccessMethod, IndexEntry, LeafBatch, Liveness, ScanOptions};
use crate::index::btree::BTree;
use crate::index::btree::page::node::{
    HALF_DEAD, HIGH_LEN, INCOMPLETE, LEFT, LOW_LEN, Node, PREFIX_LEN, RIGHT, ROOT, SLOT,
};
use crate::index::btree::tests::{FILE, tree};
use crate::index::search_key::{Direction, KeyRange};
use crate::index::suite::{self, Heap, InsertBatch, verify_clean};
use crate::page::PageKind;
use crate::page::header::{FLAGS, GARBAGE, HEADER_SIZE, KIND, LOWER, OWNER, UPPER};

/// A key with many rows, above all others.
const SAME: &[u8] = b"\xffsame\0";

/// A leaf with a posting list that is not its last entry, and the entry that has it.
fn list(tree: &BTree) -> (u32, usize) {
    let lists = (1..tree.blocks()).flat_map(|block| {
        let mut items = tree.inspect_items(block).unwrap();
        items.pop();
        items
            .into_iter()
            .filter(|item| item.further.len() > 3)
            .map(move |item| (block, item.position))
    });
    let (block, position) = lists.last().expect("a leaf with a list");
    (block, position as usize)
}

/// Changes the bytes of the list of [`list`].
fn plant_list(t: &TestPool, tree: &BTree, change: impl FnOnce(&mut [u8])) {
    let (block, entry) = list(tree);
    plant(t, block, |p| {
        let item = Node::open(&*p).unwrap().item(entry).unwrap();
        change(&mut p[item.extra..item.end]);
    });
}

/// Three levels of small pages.
fn sample() -> (TestPool, BTree) {
    let (pool, tree) = tree(400, 3);
    let entries: Vec<_> =
        (0..2500u64).map(|n| ((n * 3).to_be_bytes().to_vec(), RowId::new(n as u32, 1))).collect();
    suite::insert(&tree, &entries);
    // And a key with many rows, in lists.
    let same: Vec<_> = (0..400u32).map(|n| (SAME.to_vec(), RowId::new(n * 70, 3))).collect();
    suite::insert(&tree, &same);
    assert!(tree.levels() >= 3, "{} levels", tree.levels());
    verify_clean(&tree);
    (pool, tree)
}

fn bytes(test: &TestPool, block: u32) -> [u8; PAGE_SIZE] {
    *test.pool.pin(PageId::new(FILE, block)).unwrap().shared().bytes()
}

/// Changes bytes of a page behind the tree's back.
fn plant(test: &TestPool, block: u32, change: impl FnOnce(&mut [u8; PAGE_SIZE])) {
    let pin = test.pool.pin(PageId::new(FILE, block)).unwrap();
    let mut image = bytes(test, block);
    change(&mut image);
    assert!(pin.hint(None, |page| page.write_unlogged(KIND, &image[KIND..])));
}

fn put16(image: &mut [u8; PAGE_SIZE], at: usize, value: u16) {
    image[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

fn put32(image: &mut [u8; PAGE_SIZE], at: usize, value: u32) {
    image[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// A leaf in the middle of its level (with a left and a right sibling), one inner page above the
/// leaves that is not the root, and the root.
fn landmarks(tree: &BTree) -> (u32, u32, u32) {
    let pages: Vec<_> = (1..tree.blocks()).map(|b| tree.inspect_page(b).unwrap()).collect();
    let middle = |level: u8| {
        let mut found = pages.iter().filter(|p| {
            p.kind != "root"
                && p.kind != "unused"
                && p.level == level
                && p.left != 0
                && p.right != 0
        });
        found.next().expect("a page in the middle of its level").block
    };
    let root = pages.iter().find(|page| page.kind == "root").unwrap().block;
    (middle(0), middle(1), root)
}

/// Plants, verifies, and returns the checks that fired, with what they say.
fn findings(plan: impl FnOnce(&TestPool, &BTree, (u32, u32, u32))) -> Vec<(&'static str, String)> {
    let (test, tree) = sample();
    let landmarks = landmarks(&tree);
    plan(&test, &tree, landmarks);
    let mut found = Vec::new();
    tree.verify(None, &mut |finding| found.push((finding.check, finding.what))).unwrap();
    found
}

/// The checks that fired.
fn checks(plan: impl FnOnce(&TestPool, &BTree, (u32, u32, u32))) -> Vec<&'static str> {
    findings(plan).into_iter().map(|(check, _)| check).collect()
}

/// Offset of the item of entry `i`.
fn item(image: &[u8; PAGE_SIZE], i: usize) -> usize {
    Node::open(image).unwrap().item(i).unwrap().start
}

fn slot(i: usize) -> usize {
    HEADER_SIZE + i * SLOT
}

type Plan = fn(&TestPool, &BTree, (u32, u32, u32));

/// Check, name of the damage, damage.
const PLANS: &[(&str, &str, Plan)] = &[
    ("P3", "slot array cut", |t, _, (leaf, _, _)| plant(t, leaf, |p| put16(p, LOWER, 37))),
    ("P3", "upper above special", |t, _, (leaf, _, _)| plant(t, leaf, |p| put16(p, UPPER, 8190))),
    ("P3", "fence lengths", |t, _, (leaf, _, _)| plant(t, leaf, |p| put16(p, LOW_LEN, 4000))),
    ("P3", "high key length", |t, _, (leaf, _, _)| plant(t, leaf, |p| put16(p, HIGH_LEN, 1))),
    ("P4", "slot outside", |t, _, (leaf, _, _)| plant(t, leaf, |p| put16(p, slot(1), 40))),
    ("P4", "items overlap", |t, _, (leaf, _, _)| {
        plant(t, leaf, |p| {
            let at = item(p, 1) as u16;
            put16(p, slot(2), at);
        });
    }),
    ("B1", "root of the meta page", |t, _, (leaf, ..)| plant(t, 0, |p| put32(p, 32, leaf))),
    ("B1", "level of the meta page", |t, _, _| plant(t, 0, |p| p[36] += 1)),
    ("B1", "meta page gone", |t, _, _| plant(t, 0, |p| p[KIND] = 0)),
    ("B1", "root outside", |t, _, _| plant(t, 0, |p| put32(p, 32, 1 << 30))),
    ("B1", "two roots", |t, _, (leaf, ..)| plant(t, leaf, |p| put16(p, FLAGS, ROOT))),
    ("B2", "entries swapped", |t, _, (leaf, ..)| {
        plant(t, leaf, |p| {
            let (a, b): (Vec<u8>, Vec<u8>) =
                (p[slot(1)..slot(2)].to_vec(), p[slot(2)..slot(3)].to_vec());
            p[slot(1)..slot(2)].copy_from_slice(&b);
            p[slot(2)..slot(3)].copy_from_slice(&a);
        });
    }),
    ("B2", "a head changed", |t, _, (leaf, ..)| plant(t, leaf, |p| p[slot(2) + 2] ^= 0x80)),
    ("B3", "an entry above the high key", |t, _, (leaf, ..)| {
        plant(t, leaf, |p| {
            let last = Node::open(&*p).unwrap().count - 1;
            p[slot(last) + 2] = 0xff;
        });
    }),
    ("B3", "an entry below the low fence", |t, _, (leaf, ..)| {
        plant(t, leaf, |p| put32(p, slot(0) + 2, 0));
    }),
    ("B4", "low fence changed", |t, _, (leaf, ..)| {
        plant(t, leaf, |p| {
            let node = Node::open(&*p).unwrap();
            let at = node.special + node.low_len - 1;
            p[at] -= 1;
        });
    }),
    ("B5", "left link", |t, _, (leaf, ..)| plant(t, leaf, |p| put32(p, LEFT, 1 << 20))),
    ("B5", "right link outside", |t, _, (leaf, ..)| plant(t, leaf, |p| put32(p, RIGHT, 1 << 20))),
    ("B6", "level of an inner page", |t, _, (_, inner, _)| plant(t, inner, |p| p[OWNER] = 7)),
    ("B7", "separator changed", |t, _, (_, inner, _)| {
        plant(t, inner, |p| p[slot(1) + 3] ^= 1);
    }),
    ("B7", "downlink outside", |t, _, (_, inner, _)| {
        plant(t, inner, |p| {
            let at = item(p, 1);
            put32(p, at, 1 << 30);
        });
    }),
    ("B7", "downlinks swapped", |t, _, (_, inner, _)| {
        plant(t, inner, |p| {
            let (a, b) = (item(p, 1), item(p, 2));
            let (x, y) = (p[a..a + 4].to_vec(), p[b..b + 4].to_vec());
            p[a..a + 4].copy_from_slice(&y);
            p[b..b + 4].copy_from_slice(&x);
        });
    }),
    ("B8", "downlink lost", |t, _, (_, inner, _)| {
        plant(t, inner, |p| {
            let count = Node::open(&*p).unwrap().count;
            put16(p, LOWER, slot(count - 1) as u16);
        });
    }),
    ("B9", "ring of right links", |t, tree, (leaf, ..)| {
        let left = tree.inspect_page(leaf).unwrap().left;
        plant(t, leaf, |p| put32(p, RIGHT, left));
    }),
    ("B9", "a page skipped", |t, tree, (leaf, ..)| {
        let page = tree.inspect_page(leaf).unwrap();
        plant(t, page.left, |p| put32(p, RIGHT, page.right));
    }),
    ("B10", "downlink to a free page", |t, _, (leaf, ..)| {
        plant(t, leaf, |p| p[KIND] = PageKind::BtreeFree as u8);
    }),
    ("B10", "half-dead", |t, _, (leaf, ..)| plant(t, leaf, |p| put16(p, FLAGS, HALF_DEAD))),
    ("B11", "prefix too short", |t, _, (leaf, ..)| {
        plant(t, leaf, |p| {
            let prefix = Node::open(&*p).unwrap().prefix as u16;
            put16(p, PREFIX_LEN, prefix - 1);
        });
    }),
    ("B11", "the first inner entry has a key", |t, _, (_, inner, _)| {
        plant(t, inner, |p| {
            let at = item(p, 0) + 4;
            p[at] = 2;
        });
    }),
    ("B12", "rows that do not ascend", |t, tree, _| {
        plant_list(t, tree, |list| (list[0], list[1]) = (0, 0));
    }),
    ("B12", "a row cut off", |t, tree, _| {
        plant_list(t, tree, |list| *list.last_mut().unwrap() = 0x80);
    }),
    ("B12", "a row outside the heap", |t, tree, _| {
        plant_list(t, tree, |list| list[..5].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0x1f]));
    }),
    ("B12", "a list above the leaves", |t, _, (_, inner, _)| {
        plant(t, inner, |p| {
            // The item grows by a length of 0: the next one's first byte, or free space.
            p[slot(1) + 1] |= 0xc0;
        });
    }),
    ("B2", "a list that reaches over the next entry", |t, tree, _| {
        plant_list(t, tree, |list| list[..4].copy_from_slice(&[0xff, 0xff, 0x7f, 6]));
    }),
    ("B15", "free page in a chain", |t, _, (leaf, ..)| {
        plant(t, leaf, |p| p[KIND] = PageKind::BtreeFree as u8);
    }),
    ("B15", "stranger", |t, _, _| {
        let block = t.pool.extend(FILE, 1).unwrap().0;
        plant(t, block, |p| p[KIND] = PageKind::Heap as u8);
    }),
    ("B15", "free list", |t, _, _| {
        plant(t, 0, |p| {
            put32(p, 40, 1);
            put32(p, 44, 0);
        });
    }),
    ("B16", "garbage", |t, _, (leaf, ..)| plant(t, leaf, |p| put16(p, GARBAGE, 5))),
    ("B9", "a page outside the tree", |t, _, (leaf, ..)| {
        let block = t.pool.extend(FILE, 1).unwrap().0;
        let image = bytes(t, leaf);
        plant(t, block, |p| p[KIND..].copy_from_slice(&image[KIND..]));
    }),
];

#[test]
fn every_check_finds_its_damage() {
    for (check, name, plan) in PLANS {
        let found = checks(plan);
        assert!(found.contains(check), "{check} ({name}): {found:?}");
    }
}

/// Damage that only one message of a check tells about.
const SAID: &[(&str, &str, Plan)] = &[
    ("B12", "a number too long", |t, tree, _| {
        plant_list(t, tree, |list| list[..6].fill(0xff));
    }),
    ("B12", "a posting list without rows", |t, tree, _| {
        let (block, entry) = list(tree);
        plant(t, block, |p| {
            let at = Node::open(&*p).unwrap().item(entry).unwrap().extra;
            p[at - 1] = 0;
        });
    }),
    ("B11", "is not padded with zeroes", |t, _, (_, inner, _)| {
        plant(t, inner, |p| {
            let node = Node::open(&*p).unwrap();
            let mut entries = 1..node.count;
            let short = entries.find(|i| node.item(*i).unwrap().rem < 4);
            p[slot(short.expect("a separator shorter than a head")) + 5] = 1;
        });
    }),
    ("B5", "the leftmost page of a level has a left sibling", |t, tree, (leaf, ..)| {
        let first = leftmost(tree);
        plant(t, first, |p| put32(p, LEFT, leaf));
    }),
    ("B6", "neighbours on different levels", |t, tree, (leaf, inner, _)| {
        plant(t, tree.inspect_page(leaf).unwrap().left, |p| put32(p, RIGHT, inner));
    }),
    ("P3", "a right link to something else than a page", |t, _, (leaf, ..)| {
        let block = t.pool.extend(FILE, 1).unwrap().0;
        plant(t, leaf, |p| put32(p, RIGHT, block));
    }),
    ("B3", "the fences are not in order", |t, _, (leaf, ..)| {
        plant(t, leaf, |p| {
            let node = Node::open(&*p).unwrap();
            let at = node.special + node.prefix;
            p[at] = 0xff;
        });
    }),
    ("B11", "only a leftmost page has an empty low fence", |t, tree, _| {
        let second = tree.inspect_page(leftmost(tree)).unwrap().right;
        plant(t, second, |p| {
            let node = Node::open(&*p).unwrap();
            let (special, low, high) = (node.special, node.low_len, node.high_len);
            // The high key takes the low fence's place as well.
            let key = p[special + low..special + low + high].to_vec();
            p[special + low..special + low + high].copy_from_slice(&key);
            put16(p, LOW_LEN, 0);
            put16(p, PREFIX_LEN, 0);
            put16(p, HIGH_LEN, (low + high) as u16);
        });
    }),
    ("B3", "are not below the high key", |t, tree, _| {
        // The list of a leaf's last entry reaches beyond it.
        let mut blocks = (1..tree.blocks()).filter(|block| {
            let page = tree.inspect_page(*block).unwrap();
            let last = tree.inspect_items(*block).unwrap().pop();
            page.kind == "leaf" && page.right != 0 && last.is_some_and(|i| i.further.len() > 3)
        });
        let block = blocks.next_back().expect("a leaf that ends with a list");
        plant(t, block, |p| {
            let node = Node::open(&*p).unwrap();
            let item = node.item(node.count - 1).unwrap();
            p[item.extra..item.extra + 4].copy_from_slice(&[0xff, 0xff, 0x7f, 6]);
        });
    }),
    ("P3", "a downlink to something else than a page", |t, _, (_, inner, _)| {
        let block = t.pool.extend(FILE, 1).unwrap().0;
        plant(t, inner, |p| {
            let at = item(p, 1);
            put32(p, at, block);
        });
    }),
    ("B6", "below level", |t, _, (_, inner, root)| {
        plant(t, inner, |p| {
            let at = item(p, 1);
            put32(p, at, root);
        });
    }),
    ("B8", "the right sibling has no downlink", |t, _, (_, inner, root)| {
        plant(t, inner, |p| {
            let at = item(p, 2);
            put32(p, at, root);
        });
    }),
    ("B7", "the high key is not the next separator", |t, _, (_, inner, _)| {
        plant(t, inner, |p| {
            // One downlink less in the middle: the child before it ends too early.
            let count = Node::open(&*p).unwrap().count;
            p.copy_within(slot(3)..slot(count), slot(2));
            put16(p, LOWER, slot(count - 1) as u16);
        });
    }),
    ("B8", "a page without a downlink", |t, _, (_, inner, _)| {
        plant(t, inner, |p| {
            let count = Node::open(&*p).unwrap().count;
            p.copy_within(slot(3)..slot(count), slot(2));
            put16(p, LOWER, slot(count - 1) as u16);
        });
    }),
];

/// The leaf with the smallest keys.
fn leftmost(tree: &BTree) -> u32 {
    let page = |block: &u32| tree.inspect_page(*block).unwrap();
    let mut leaves = (1..tree.blocks()).filter(|block| page(block).kind == "leaf");
    leaves.find(|block| page(block).left == 0).expect("a leaf without left sibling")
}

#[test]
fn every_message_has_its_damage() {
    for (check, said, plan) in SAID {
        let found = findings(plan);
        let fired = found.iter().any(|(name, what)| name == check && what.contains(said));
        assert!(fired, "{check} ({said}): {found:?}");
    }
}

/// A merge changes four pages in one record. With any of them as it was before, the tree is not
/// one.
#[test]
fn a_merge_that_lost_a_page_is_found() {
    for lost in 0..4 {
        let (test, tree) = sample();
        let (_, parent, _) = landmarks(&tree);
        let leaf = tree.inspect_items(parent).unwrap()[1].child.expect("a downlink");
        let page = tree.inspect_page(leaf).unwrap();
        let blocks = [page.left, leaf, page.right, parent];
        let before = blocks.map(|block| bytes(&test, block));
        for item in tree.inspect_items(leaf).unwrap() {
            let rows = item.row.into_iter().chain(item.further.clone());
            for row in rows {
                assert!(tree.delete(Xid(5), &IndexEntry::new(&item.key, row)).unwrap());
            }
        }
        assert_eq!(tree.inspect_page(leaf).unwrap().kind, "free", "it was merged");
        verify_clean(&tree);
        plant(&test, blocks[lost], |p| p[KIND..].copy_from_slice(&before[lost][KIND..]));
        let mut found = Vec::new();
        tree.verify(None, &mut |finding| found.push((finding.check, finding.what))).unwrap();
        let expected: &[&str] = match lost {
            0 => &["B15", "B9"],
            1 => &["B9"],
            2 => &["B4", "B5", "B7"],
            _ => &["B10"],
        };
        let fired = |check: &&str| found.iter().any(|(name, _)| name == check);
        assert!(expected.iter().any(fired), "page {lost}: {found:?}");
    }
}

/// B14 and B13 look at more than one page.
#[test]
fn lost_keys_and_live_duplicates_are_found() {
    let found = checks(|t, tree, (leaf, inner, _)| {
        // The incomplete flags make the page legal by itself; its keys cannot be reached all the
        // same.
        let page = tree.inspect_page(leaf).unwrap();
        plant(t, page.left, |p| put16(p, FLAGS, INCOMPLETE));
        plant(t, leaf, |p| p[slot(0) + 2] ^= 0xff);
        let _ = inner;
    });
    assert!(found.contains(&"B14"), "{found:?}");
    let (_test, tree) = sample();
    let (a, b) = (RowId::new(1, 8), RowId::new(2, 8));
    suite::insert(&tree, &[(b"twice\0".to_vec(), a), (b"twice\0".to_vec(), b)]);
    let mut heap = Heap::default();
    (0..400u32).for_each(|n| {
        heap.0.insert(RowId::new(n * 70, 3), Liveness::Dead);
    });
    let count = |heap: &Heap| {
        let mut found = Vec::new();
        tree.verify(Some(heap), &mut |finding| found.push(finding.check)).unwrap();
        found
    };
    assert_eq!(count(&heap), ["B13"]);
    heap.0.insert(a, Liveness::Dead);
    assert!(count(&heap).is_empty());
}

/// Random bytes changed anywhere: whatever is called afterwards returns, with a result or an error.
#[test]
fn random_damage_never_panics() {
    for seed in 0..30 * rounds() {
        let (test, tree) = sample();
        let mut rng = Rng::from_seed(seed);
        for _ in 0..1 + rng.index(4) {
            let block = rng.below(u64::from(tree.blocks())) as u32;
            plant(&test, block, |p| {
                for _ in 0..1 + rng.index(3) {
                    let used = Node::open(&*p).map_or(8192, |node| HEADER_SIZE + node.count * SLOT);
                    let at = match rng.index(3) {
                        0 => KIND + rng.index(used - KIND),
                        1 => PAGE_SIZE - 1 - rng.index(40),
                        _ => KIND + rng.index(PAGE_SIZE - KIND),
                    };
                    // The LSN is not the tree's.
                    if !(8..16).contains(&at) {
                        p[at] = rng.next_u64() as u8;
                    }
                }
            });
        }
        let _ = tree.verify(None, &mut |_| {});
        for direction in [Direction::Forward, Direction::Backward] {
            let options = ScanOptions { direction, with_dead: true, ..ScanOptions::default() };
            let mut scan = tree.begin_scan(KeyRange::all(), options);
            let mut batch = LeafBatch::default();
            let mut batches = 0;
            while let Ok(true) = scan.next_batch(&|| 0, &mut batch) {
                batches += 1;
                assert!(batches < 10_000, "seed {seed}: a scan that does not end");
            }
        }
        for n in (0..7500u64).step_by(91) {
            let key = n.to_be_bytes();
            let entry = IndexEntry::new(&key, RowId::new(5, 5));
            let _ = tree.insert_batch(Xid(5), &mut [entry], None);
            let _ = tree.delete(Xid(5), &entry);
        }
        let _ = tree.bulk_delete(&mut |rows, dead| {
            rows.iter().zip(dead).for_each(|(row, dead)| *dead = row.block.0 % 2 == 0);
        });
        for block in 0..tree.blocks() {
            let _ = (tree.inspect_page(block), tree.inspect_items(block));
        }
    }
}
