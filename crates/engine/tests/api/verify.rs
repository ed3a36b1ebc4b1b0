//! Every check against the damage that it is for: a sound database on a simulated disk, one change
//! of its bytes with the checksum made right again, and the finding that must come out: the check,
//! and the relation, file and block that were damaged.
//!
//! `every_name_has_its_damage` reads the names of all checks from the sources: a check without
//! damage here fails the test.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod plant;

use std::collections::{BTreeMap, BTreeSet};

use plant::{Disk, Kind, PAGE, crashed, sound, u16_at};
use rightlink::{Finding, VerifyReport};

/// Name of a check, and the damage it is for.
type Case = (&'static str, fn(&Disk));

const CASES: &[Case] = &[
    ("P1", |disk| disk.edit(disk.heap(), 1, |page| page[4] = Kind::Leaf as u8)),
    ("P2", |disk| disk.edit_raw(disk.heap(), 1, |page| page[4000] ^= 1)),
    ("P3", |disk| disk.edit(disk.map(), 0, |page| page[16..18].fill(0xff))),
    ("P4", |disk| {
        disk.edit(disk.tree(), disk.leaves()[0], |page| page.copy_within(32..34, 38));
    }),
    ("P5", |disk| disk.edit_raw(disk.heap(), 1, |page| page.fill(0))),
    ("P6", |disk| disk.edit(disk.heap(), 1, |page| page[14] = 1)),
    ("P7", |disk| disk.edit(disk.tree(), 0, |page| page[38] = 1)),
    ("H0", |disk| disk.edit(disk.heap(), 1, |page| page[u16_at(page, 18) - 1] = 1)),
    ("H1", |disk| disk.edit_tuple("name 5", |page, at| page[at + 15] |= 0x80)),
    ("H2", |disk| disk.edit_tuple("name 5", |page, at| page[at + 16] = 9)),
    ("H3", |disk| disk.edit_tuple("name 5", |page, at| page[at + 3] = 0xf0)),
    ("H4", |disk| {
        let aborted = disk.tuple_xmin("aborted");
        disk.edit_tuple("hot 0", |page, at| plant::set_xmin(page, at, aborted));
    }),
    ("H5", |disk| {
        let aborted = disk.tuple_xmin("aborted");
        disk.edit_tuple("deleted", |page, at| plant::set_xmin(page, at, aborted));
    }),
    ("H6", |disk| disk.edit_tuple("hot 0", |page, at| page[at + 12] ^= 0x40)),
    ("H7", |disk| disk.edit_slot("name 5", |slot| (slot - 1) | 2 << 13)),
    ("H8", |disk| disk.edit_tuple("aborted", |page, at| page[at + 14] = page[at + 14] & !3 | 1)),
    ("H10", |disk| disk.edit(disk.heap(), 1, |page| page[6] ^= 1)),
    ("H11", |disk| disk.edit(disk.overflow(), 2, |page| page[40] = 7)),
    ("H11", |disk| disk.edit(disk.overflow(), 5, |page| page[24] ^= 1)),
    ("H11", |disk| disk.edit(disk.overflow(), 3, |page| page[36] = 1)),
    ("H11", |disk| disk.edit(disk.overflow(), 8, |page| page[4..6].fill(0))),
    ("H12", |disk| disk.edit_tuple("name 5", |page, at| page[at + 27] = 0xff)),
    ("T2", |disk| disk.edit(plant::OUTCOMES, 0, |page| page[32 + 8 * 900] = 1)),
    ("T3", |disk| disk.edit(plant::OUTCOMES, 0, |page| page[PAGE - 8] = 2)),
    ("B0", |disk| disk.edit_raw(disk.tree(), disk.leaves()[1], |page| page[4000] ^= 1)),
    ("B1", |disk| disk.edit(disk.tree(), 0, |page| page[33] = 0x7f)),
    ("B2", |disk| disk.edit(disk.tree(), disk.leaves()[1], |page| plant::swap(page, 3, 9))),
    ("B3", |disk| disk.edit(disk.tree(), disk.leaves()[1], plant::zero_high)),
    ("B4", |disk| disk.edit(disk.tree(), disk.leaves()[1], plant::change_low)),
    ("B5", |disk| {
        disk.edit(disk.tree(), disk.leaves()[2], |page| page[PAGE - 16] ^= 0x55);
    }),
    ("B6", |disk| {
        disk.edit(disk.tree(), disk.leaves()[1], |page| {
            (page[4], page[24]) = (Kind::Inner as u8, 1)
        });
    }),
    ("B7", |disk| disk.edit(disk.tree(), disk.leaves()[1], plant::change_low)),
    ("B8", |disk| disk.edit(disk.tree(), disk.root(), plant::drop_last)),
    ("B9", |disk| {
        let first = disk.leaves()[0];
        let third = disk.leaves()[2];
        disk.edit(disk.tree(), third, |page| {
            page[PAGE - 12..PAGE - 8].copy_from_slice(&first.to_le_bytes());
        });
    }),
    ("B10", |disk| disk.edit(disk.tree(), disk.leaves()[1], |page| page[6] |= 2)),
    ("B11", |disk| disk.edit(disk.tree(), disk.leaves()[1], |page| page[PAGE - 4] -= 1)),
    ("B12", |disk| disk.edit(disk.tree(), disk.root(), plant::posting)),
    ("B13", |disk| {
        let from = disk.find_tuple("name 5");
        let id = disk.page(disk.heap(), from.0)[from.1 + 18..from.1 + 26].to_vec();
        disk.edit_tuple("name 6", |page, at| page[at + 18..at + 26].copy_from_slice(&id));
    }),
    ("B14", |disk| disk.edit(disk.tree(), disk.leaves()[1], plant::swap_middle)),
    ("B15", |disk| disk.edit(disk.tree(), disk.leaves()[1], |page| page[4] = Kind::Free as u8)),
    ("B16", |disk| {
        disk.edit(disk.tree(), disk.leaves()[1], |page| page[22] = page[22].wrapping_add(9))
    }),
    // A length of a fence that none has: the walk along the list cannot go on to the next page.
    ("C0", |disk| {
        let file = disk.hash_index();
        disk.edit_raw(file, 1, |page| page[4000] ^= 1);
    }),
    ("C1", |disk| disk.edit(disk.hash_index(), 0, |page| page[38] = 0x7f)),
    ("C2", |disk| disk.edit_bucket(|page| plant::swap(page, 3, 4))),
    ("C3", |disk| disk.edit_bucket(|page| page[34..38].fill(0))),
    ("C4", |disk| {
        disk.edit_bucket(|page| page[u16_at(page, 20) + u16_at(page, PAGE - 12) - 1] ^= 1);
    }),
    ("C5", |disk| disk.edit_bucket(|page| page[32 + 6 * 4 + 5] ^= 1)),
    ("C6", |disk| disk.edit_bucket(|page| page[22] = page[22].wrapping_add(9))),
    ("C7", |disk| {
        let directory = disk.hash_pages(Kind::Directory)[0];
        disk.edit(disk.hash_index(), directory, |page| page[36..40].fill(0));
    }),
    ("C8", |disk| disk.edit(disk.hash_index(), 0, |page| page[36] += 1)),
    ("C9", |disk| disk.edit_bucket(|page| page[6] |= 0x40)),
    ("X1", |disk| disk.edit_slot("name 5", |_| 0)),
    ("X2", |disk| disk.edit(disk.tree(), disk.leaves()[1], plant::drop_last)),
    ("X3", |disk| disk.edit_tuple("name 5", |page, at| page[at + 18] ^= 0x40)),
    ("X4", |disk| disk.edit(disk.tree(), disk.leaves()[1], plant::drop_last)),
    ("X5", |disk| {
        let trees = disk.files_of(Kind::TreeMeta);
        let (one, other) = (trees[trees.len() - 2], trees[trees.len() - 1]);
        disk.replace_file_in_catalog(other, one);
    }),
    ("X6", |disk| disk.remove(&plant::data(disk.tree()))),
    // A table of four billion blocks, by its meta page: walking them took for ever.
    ("X6", |disk| disk.edit(disk.heap(), 0, |page| page[32..36].fill(0xff))),
    ("X7", |disk| disk.edit_control(|copy| copy[48..52].copy_from_slice(&65u32.to_le_bytes()))),
    ("X8", |disk| disk.edit(disk.sequence(), 0, |page| page[39] = 0x80)),
    ("X8", |disk| disk.edit(disk.sequence(), 0, |page| page[40] = 2)),
    ("X6", |disk| {
        let sequence = disk.sequence();
        disk.edit_raw(sequence, 0, |_| {});
        disk.remove(&plant::data(sequence));
    }),
    ("R1", |disk| disk.edit_raw(2, 0, |page| page[4000] ^= 1)),
    ("W1", |disk| disk.damage_log()),
    ("W2", |disk| disk.flip("control", disk.older_control() + 100)),
    ("W3", |disk| disk.remove_redo_segment()),
    ("W5", |disk| disk.create("wal/stray")),
];

/// Where a finding must be.
#[derive(Debug)]
struct Wanted {
    relation: String,
    file: u32,
    /// `None`: the finding has none. `Some(None)`: it has one, which the damage does not tell.
    block: Option<Option<u32>>,
}

impl Wanted {
    fn fits(&self, (relation, file, block): (&str, u32, Option<u32>)) -> bool {
        let block_fits = match (self.block, block) {
            (None, None) | (Some(None), Some(_)) => true,
            (Some(Some(wanted)), Some(found)) => wanted == found,
            _ => false,
        };
        self.relation == relation && self.file == file && block_fits
    }
}

/// Where the damage of `check` must be found: on the page that was changed, except for these.
fn place(disk: &Disk, check: &str, owners: &BTreeMap<u32, &str>) -> Wanted {
    let of = |file: u32, block| {
        let relation = owners.get(&file).copied().unwrap_or_default().to_owned();
        Wanted { relation, file, block }
    };
    let find = |name| {
        let mut files = owners.iter().filter(|(_, owner)| **owner == name);
        *files.next().expect("a relation of this name").0
    };
    let pkey = find("people_pkey");
    let named = |relation: &str, block| Wanted { relation: relation.into(), file: 0, block };
    match (check, disk.touched()) {
        // What rows and entries say of each other is told of the index.
        ("X2" | "X4" | "B13", _) => of(pkey, None),
        ("X1" | "X3" | "B8" | "B9", _) => of(pkey, Some(None)),
        // Where a chain of buckets ends up depends on the one that was changed.
        ("C4" | "C7" | "C8", Some((file, _))) => of(file, Some(None)),
        // Of a file as a whole.
        ("X6", Some((file, _))) => of(file, None),
        ("X6", None) => of(pkey, None),
        ("X5", _) => Wanted { relation: "others".into(), file: find("others_pkey"), block: None },
        ("X7", _) => named("control", None),
        ("R1", _) => Wanted { relation: "data/00000002".into(), file: 2, block: Some(Some(0)) },
        ("W1", _) => {
            let segment = disk.damaged_segment();
            Wanted { relation: plant::segment_path(segment), file: segment, block: Some(None) }
        }
        ("W2", _) => named("control", Some(None)),
        ("W3", _) => named("wal", None),
        ("W5", _) => named("wal/stray", None),
        (_, Some((file, block))) => of(file, Some(Some(block))),
        (other, None) => named(other, None),
    }
}

/// Name of a check, what it says, and the damage that only this message tells about.
type Message = (&'static str, &'static str, fn(&Disk));

const SAID: &[Message] = &[
    ("P1", "format version 77", |disk| disk.edit(disk.heap(), 1, |page| page[5] = 77)),
    ("P1", "without a kind that is not empty", |disk| {
        disk.edit(disk.heap(), 1, |page| page[4] = 0);
    }),
    ("X1", "outside the table", |disk| disk.edit(disk.heap(), 0, |page| page[32] = 3)),
    ("X1", "in the middle of a chain", |disk| {
        disk.edit_tuple("name 5", |page, at| page[at + 14] |= 0x80);
    }),
    ("X2", "marked dead, but the row is visible", |disk| {
        disk.edit(disk.tree(), disk.leaves()[1], |page| {
            (page[6], page[33]) = (page[6] | 8, page[33] | 0x20);
        });
    }),
    ("X3", "included columns", |disk| {
        disk.edit_tuple("name 5", |page, at| page[at + 34] = 6);
    }),
    ("X5", "belongs to the system itself", |disk| {
        disk.replace_file_in_catalog(disk.files_of(Kind::TreeMeta)[3], 3);
    }),
    ("X6", "belongs to no table, index or sequence", |disk| disk.create("data/00000fff")),
    // Of xids that are far away.
    ("X6", "belongs to no table, index or sequence", |disk| disk.create("data/80000001")),
    ("X5", "belongs to the system itself", |disk| {
        disk.replace_file_in_catalog(disk.files_of(Kind::TreeMeta)[3], plant::OUTCOMES);
    }),
    // The first page, from before outcomes were forgotten.
    ("R1", "is an older copy of itself", |disk| {
        disk.edit_control(|copy| copy[104..112].copy_from_slice(&9u64.to_le_bytes()));
    }),
    ("R1", "outcomes of transactions is missing", |disk| {
        disk.remove(&plant::data(plant::OUTCOMES));
    }),
    ("P1", "does not belong here", |disk| {
        let page = disk.page(plant::OUTCOMES, 0);
        disk.edit(1, 0, |meta| meta[4] = page[4]);
        disk.extend(1, 2);
        disk.edit(1, 1, |other| *other = page);
    }),
    ("X6", "no whole number of pages", |disk| {
        let name = plant::data(disk.map());
        disk.cut(&name, disk.len(&name) + 100);
    }),
    ("X7", "is the first unused", |disk| disk.edit_control(|copy| copy[40] -= 1)),
    ("W2", "both copies are damaged", |disk| {
        disk.flip("control", 100);
        disk.flip("control", 4096 + 100);
    }),
    ("W5", "instead of", |disk| {
        let name = disk.redo_segment();
        disk.cut(&name, disk.len(&name) + 4096);
    }),
];

#[test]
fn every_message_has_its_damage() {
    for (check, said, damage) in SAID {
        let disk = sound();
        damage(&disk);
        let findings = disk.verify().findings;
        let fired = findings.iter().any(|f| f.check == *check && f.what.contains(said));
        assert!(fired, "{check} ({said}): {findings:?}");
    }
}

/// Checks that only say something harmless, and never reach a report.
const HARMLESS: &[&str] = &["H9"];

/// Checks whose damage needs what only some builds have: `collations.rs` plants it.
const ELSEWHERE: &[&str] = &["X9"];

#[test]
fn every_check_finds_what_it_is_for() {
    let mut missed = Vec::new();
    for (check, damage) in CASES {
        let disk = if *check == "W1" { crashed() } else { sound() };
        let before = disk.verify();
        assert_eq!(before.findings, [], "{check}: sound before");
        let owners = disk.owners();
        damage(&disk);
        let hash = disk.hash();
        let report = disk.verify();
        assert_eq!(disk.hash(), hash, "{check}: verify changed the disk");
        let wanted = place(&disk, check, &owners);
        let is_wanted = |finding: &Finding| {
            let there = (finding.relation.as_str(), finding.file, finding.block);
            finding.check == *check && wanted.fits(there)
        };
        if !report.findings.iter().any(is_wanted) {
            let said = |f: &Finding| format!("{} {} {} {:?}", f.check, f.relation, f.file, f.block);
            let found: BTreeSet<_> = report.findings.iter().map(said).collect();
            missed.push(format!("{check} at {wanted:?}: {found:?}"));
        }
    }
    assert!(missed.is_empty(), "missed:\n{}", missed.join("\n"));
}

/// Check, file and block of a finding.
type Found<'a> = (&'a str, u32, Option<u32>);

/// What is found in each relation.
fn by_relation(report: &VerifyReport) -> BTreeMap<&str, BTreeSet<Found<'_>>> {
    let mut found: BTreeMap<&str, BTreeSet<_>> = BTreeMap::new();
    for finding in &report.findings {
        let one = (finding.check, finding.file, finding.block);
        found.entry(finding.relation.as_str()).or_default().insert(one);
    }
    found
}

/// One missing index used to be told of the table, and to end all other checks of that table.
#[test]
fn a_missing_index_hides_nothing_else() {
    let disk = sound();
    let (heap, trees) = (disk.heap(), disk.files_of(Kind::TreeMeta));
    disk.edit_raw(heap, 1, |page| page[4000] ^= 1);
    disk.edit_raw(trees[1], 1, |page| page[4000] ^= 1);
    disk.remove(&plant::data(trees[0]));
    let report = disk.verify();
    let found = by_relation(&report);
    assert!(found["people_pkey"].contains(&("X6", trees[0], None)), "{found:?}");
    assert!(found["people"].contains(&("P2", heap, Some(1))), "{found:?}");
    assert!(found["people_by_name"].contains(&("P2", trees[1], Some(1))), "{found:?}");
    assert!(!found["people"].iter().any(|(check, ..)| *check == "X6"), "{found:?}");
}

/// A heap that cannot even be opened used to end all checks of its indexes.
#[test]
fn a_heap_that_was_cut_short_hides_nothing_else() {
    for len in [0, 1, 3 * PAGE as u64] {
        let disk = sound();
        let (heap, tree, leaf) = (disk.heap(), disk.tree(), disk.leaves()[1]);
        disk.edit_raw(tree, leaf, |page| page[4000] ^= 1);
        disk.cut(&plant::data(heap), len);
        let report = disk.verify();
        let found = by_relation(&report);
        assert!(found["people"].iter().any(|one| (one.0, one.1) == ("X6", heap)), "{found:?}");
        assert!(found["people_pkey"].contains(&("P2", tree, Some(leaf))), "{len}: {found:?}");
    }
}

/// A row that the condition of a partial index is true of, and one that it is not, the wrong way
/// round.
#[test]
fn a_partial_index_holds_what_its_condition_says() {
    for (name, n, checks) in [("name 5", 4, &["X3"][..]), ("name 4", 5, &["X2", "X4"])] {
        let disk = sound();
        let few = disk.files_of(Kind::TreeMeta)[2];
        assert_eq!(disk.owners()[&few], "people_few");
        // Header 16, column count 2, id 8, length 1, seven bytes of text.
        disk.edit_tuple(name, |page, at| page[at + 34] = n);
        let report = disk.verify();
        let found: Vec<_> = report.findings.iter().map(|f| (f.check, f.file)).collect();
        let wanted: Vec<_> = checks.iter().map(|check| (*check, few)).collect();
        assert_eq!(found, wanted, "{:?}", report.findings);
    }
}

/// Without a file of the catalog nothing can be recovered; that was an error of the system.
#[test]
fn a_missing_file_of_the_catalog_is_a_finding() {
    for file in [1, 2, 3, 4, 5, plant::OUTCOMES] {
        let disk = sound();
        disk.remove(&plant::data(file));
        let report = disk.verify();
        let there = |finding: &Finding| finding.check == "R1" && finding.file == file;
        assert!(report.findings.iter().any(there), "file {file}: {:?}", report.findings);
    }
}

/// Every string in the sources of verify that looks like the name of a check.
fn names_in_sources() -> BTreeSet<String> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = ["index/structure_check.rs", "upkeep/verify_offline.rs"]
        .map(|file| root.join(file))
        .to_vec();
    for folder in ["verify", "heap/verify", "index/btree/verify", "index/hash/verify"] {
        let entries = std::fs::read_dir(root.join(folder)).unwrap();
        files.extend(entries.map(|entry| entry.unwrap().path()));
    }
    let mut names = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(file).unwrap();
        for word in text.split('"') {
            let mut letters = word.chars();
            let is_name = letters.next().is_some_and(|letter| letter.is_ascii_uppercase())
                && (2..=3).contains(&word.len())
                && letters.all(|letter| letter.is_ascii_digit());
            if is_name {
                names.insert(word.to_string());
            }
        }
    }
    names
}

#[test]
fn every_name_has_its_damage() {
    let planted: BTreeSet<String> = CASES.iter().map(|(check, _)| check.to_string()).collect();
    let others = HARMLESS.iter().chain(ELSEWHERE).map(|check| check.to_string());
    let known: BTreeSet<String> = planted.into_iter().chain(others).collect();
    assert_eq!(names_in_sources(), known);
}

/// A write that went to the wrong place: the checksum knows file and block.
#[test]
fn a_page_of_another_place_is_always_found() {
    let start = sound();
    start.remove("doublewrite");
    let pages = start.all_pages();
    let mut rng = rightlink_env::Rng::from_seed(5);
    for _ in 0..150 {
        let (from, to) = (pages[rng.index(pages.len())], pages[rng.index(pages.len())]);
        if from == to {
            continue;
        }
        let disk = start.copy();
        disk.misdirect(from, to);
        let findings = disk.verify().findings;
        let found = findings.iter().any(|f| f.file == to.0 && f.block == Some(to.1));
        assert!(found, "{from:?} written to {to:?}: {findings:?}");
    }
}

/// A write that never arrived: the page is sound, and as it was before. What that did to the rows
/// is found, because the pages around it are newer. Where the page held all that is known of a
/// commit, its transactions would look as if they had been rolled back: the control file of a clean
/// close knows the newest of these pages.
#[test]
fn a_page_from_before_is_found_or_does_no_harm() {
    let before = sound();
    let after = before.copy();
    after.use_it();
    after.remove("doublewrite");
    let rows = after.copy().rows().expect("a sound database");
    let (mut flagged, mut harmless, mut silent) = (0, 0, Vec::new());
    for (file, block) in before.all_pages() {
        if after.page(file, block) == before.page(file, block) {
            continue;
        }
        let disk = after.copy();
        disk.make_stale((file, block), &before);
        match (disk.verify().findings.is_empty(), disk.rows().as_ref() == Some(&rows)) {
            (false, _) => flagged += 1,
            (true, true) => harmless += 1,
            (true, false) => silent.push((file, block)),
        }
    }
    println!("{flagged} pages from before were found, {harmless} did no harm, {silent:?}");
    assert!(flagged >= 20, "{flagged} found, {harmless} harmless");
    assert_eq!(silent, [], "rows changed, and nobody said so");
}

/// Random bytes in random pages, checksums made right: whatever is found, nothing panics and
/// nothing hangs. `VERIFY_ROUNDS` sets the number, `VERIFY_FIRST` the first seed.
#[test]
fn garbage_is_reported_and_never_panics() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (first, rounds) =
        (number("VERIFY_FIRST").unwrap_or(0), number("VERIFY_ROUNDS").unwrap_or(150));
    let start = sound();
    let pages = start.all_pages();
    let (mut flagged, mut refused) = (0, 0);
    for seed in first..first + rounds {
        let mut rng = rightlink_env::Rng::from_seed(seed);
        let disk = start.copy();
        for _ in 0..=rng.below(3) {
            let (file, block) = pages[rng.index(pages.len())];
            disk.edit(file, block, |page| {
                for _ in 0..=rng.below(4) {
                    // Headers, slots and trailers more often than the middle.
                    let at = match rng.below(4) {
                        0 => rng.below(64),
                        1 => PAGE as u64 - 1 - rng.below(40),
                        _ => rng.below(PAGE as u64),
                    };
                    page[at as usize] = rng.next_u64() as u8;
                }
            });
        }
        let _last = plant::TellSeed(seed);
        let clock = rightlink_env::Clock::system();
        let started = clock.now();
        let result = disk.try_verify();
        let took = clock.now().since(started);
        assert!(took.as_secs() < 20, "seed {seed} took {took:?}");
        match result {
            Ok(report) => flagged += u64::from(!report.findings.is_empty()),
            Err(error) => {
                assert!(!matches!(error, rightlink::Error::Corruption { .. }), "{seed}: {error}");
                refused += 1;
            }
        }
    }
    println!("{rounds} rounds: {flagged} flagged, {refused} ended with another error");
    assert!(flagged * 2 > rounds, "most damage is found: {flagged} of {rounds}");
}
