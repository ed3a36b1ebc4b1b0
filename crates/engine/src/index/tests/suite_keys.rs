//! What the tests of all access methods begin with: keys, the log of an index, and the suite itself
//! as tests of one method.
//!
//! Does not do: say what a method must do (`suite`).

use rightlink_env::Rng;

use crate::buffer::testing::{self, TestPool};
use crate::ids::{FileId, Lsn, PageId, Xid};
use crate::index::MAX_ENTRY_BYTES;
use crate::wal::{PagePart, Reader, Record, RecordKind};

/// The index file of these tests.
pub(crate) const FILE: FileId = FileId(70);

/// Integers from a small range, so that keys repeat.
pub(crate) fn integer(rng: &mut Rng) -> Vec<u8> {
    rng.below(3000).to_be_bytes().to_vec()
}

/// Few keys: many rows each.
pub(crate) fn few(rng: &mut Rng) -> Vec<u8> {
    (rng.below(12) * 1000).to_be_bytes().to_vec()
}

/// Short strings over few letters, ended by a zero: many common beginnings.
pub(crate) fn word(rng: &mut Rng) -> Vec<u8> {
    let mut key: Vec<u8> = (0..rng.index(9)).map(|_| [1, 2, 255][rng.index(3)]).collect();
    key.push(0);
    key
}

/// A few letters in front of many equal bytes, as large as a key may be, or half of it.
pub(crate) fn large(rng: &mut Rng) -> Vec<u8> {
    let len = if rng.chance(1, 2) { MAX_ENTRY_BYTES } else { MAX_ENTRY_BYTES / 2 };
    let mut key = vec![b'a' + rng.index(3) as u8; len];
    key[len - 1] = rng.next_u64() as u8;
    // Prefix-free: the first byte tells the length.
    key[0] = u8::from(len == MAX_ENTRY_BYTES);
    key
}

/// All records of the log.
pub(crate) fn records(test: &TestPool) -> Vec<Record> {
    let wal = test.pool.wal();
    wal.flush(wal.end()).unwrap();
    let mut reader = Reader::open(&test.env, &test.io, Lsn(0)).unwrap();
    let mut out = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        out.push(record);
    }
    out
}

/// A pool that these records alone have made.
pub(crate) fn replay(records: &[Record]) -> TestPool {
    let test = testing::pool(512, 77);
    test.pool.create_file(FILE, true).unwrap();
    for record in records {
        testing::redo(&test.pool, record).unwrap();
    }
    // The pool's own log is another one: it must be ahead of the LSNs of the pages.
    let end = records.last().map_or(Lsn(0), |record| record.end);
    let filler = [0; 8000];
    let part = PagePart { page: PageId::new(FILE, 9), delta: &filler };
    while test.pool.wal().end() < end {
        test.pool.wal().append(RecordKind::Checkpoint, Xid::NONE, &[part]).unwrap();
    }
    test
}

/// The suite as tests of one method: what makes an empty index of a page capacity and a seed, the
/// method, and keys that are hard for it.
macro_rules! method_suite {
    ($make:path, $method:expr, $own:path) => {
        #[test]
        fn random_histories_equal_a_model() {
            for (seed, capacity) in [(1, 300), (2, 500), (3, 1200), (4, 8192)] {
                for make in [suite_keys::integer, suite_keys::few, suite_keys::word, $own] {
                    let (_pool, index) = $make(capacity, seed);
                    suite::random_history(&index, seed, make, 120);
                }
            }
        }

        #[test]
        fn a_batch_goes_in_by_groups() {
            for (seed, capacity) in [(1, 300), (2, 1200), (3, 8192)] {
                for make in [suite_keys::integer, suite_keys::word, $own] {
                    let (pool, index) = $make(capacity, seed);
                    suite::groups_of_a_batch(&index, &pool.pool, make);
                }
            }
        }

        #[test]
        fn scans_may_be_interrupted() {
            for make in [suite_keys::integer, suite_keys::few, suite_keys::word] {
                suite::interrupted_scans(&$make(500, 5).1, make);
                suite::interrupted_scans(&$make(8192, 5).1, make);
            }
        }

        #[test]
        fn lists_of_keys_are_looked_up() {
            for make in [suite_keys::integer, suite_keys::few, suite_keys::word] {
                suite::lookups(&$make(500, 6).1, make);
                suite::lookups(&$make(8192, 6).1, make);
            }
        }

        #[test]
        fn entries_leave_by_key() {
            for capacity in [600, 8192] {
                suite::removals_by_key(&$make(capacity, 7).1, suite_keys::integer);
                suite::removals_by_key(&$make(capacity, 7).1, suite_keys::few);
            }
        }

        #[test]
        fn a_bulk_build_is_the_same_index() {
            for make in [suite_keys::integer, suite_keys::few, $own, suite_keys::large] {
                for size in [0, 1, 80, 300] {
                    suite::builds($method, make, size);
                }
            }
            suite::builds($method, suite_keys::integer, 20_000);
        }

        #[test]
        fn payload_comes_back() {
            for capacity in [600, 8192] {
                suite::payload_round_trip(&$make(capacity, 1).1);
            }
        }

        #[test]
        fn unique_outcomes_are_told_apart() {
            for (capacity, dead) in [(8192, 0), (8192, 30), (8192, 4000), (300, 10), (300, 300)] {
                let (_pool, index) = $make(capacity, 2);
                suite::unique_outcomes(&index, dead);
            }
        }

        #[test]
        fn dead_marks_survive_splits() {
            for capacity in [1000, 8192] {
                suite::dead_marks(&$make(capacity, 3).1, suite_keys::integer);
                suite::dead_marks(&$make(capacity, 3).1, suite_keys::few);
                suite::dead_marks(&$make(capacity, 3).1, $own);
            }
        }

        #[test]
        fn the_largest_keys_fit() {
            suite::too_large_a_key(&$make(8192, 4).1, MAX_ENTRY_BYTES);
            suite::largest_keys(&$make(8192, 4).1, MAX_ENTRY_BYTES);
            suite::largest_keys(&$make(8192, 4).1, MAX_ENTRY_BYTES / 2);
        }
    };
}
pub(crate) use method_suite;
