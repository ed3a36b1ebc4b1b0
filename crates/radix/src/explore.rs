//! Schedules of readers and writers of a shared map, explored by a model checker:
//! `cargo test -p rightlink-radix --features shuttle --lib`.
//!
//! Each word that is read or written is a point at which another thread may go on, so a reader
//! meets nodes in every state of change. The variants with a broken rule must be caught.

use rightlink_env::Broken;
use rightlink_env::points::break_rule;
use rightlink_env::sync::Arc;
use rightlink_env::thread;

use crate::Shared;

const RUNS: usize = 300;

fn value(key: u64) -> u64 {
    key.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Keys that come and go beside keys that stay: in one leaf that changes its kind, and in leaves
/// that an inner node gains and loses.
const STAYS: [u64; 4] = [0, 3, 300, 1 << 40];
const COMES: [u64; 7] = [1, 2, 5, 6, 7, 301, 600];

fn writer(map: &Arc<Shared<u64>>, keys: &'static [u64]) -> thread::JoinHandle<()> {
    let map = Arc::clone(map);
    thread::spawn("writes", move || {
        for &key in keys {
            assert_eq!(map.insert(key, value(key)), None);
        }
        for &key in keys {
            assert_eq!(map.remove(key), Some(value(key)));
        }
    })
}

fn reader(map: &Arc<Shared<u64>>) -> thread::JoinHandle<()> {
    let map = Arc::clone(map);
    thread::spawn("reads", move || {
        for key in [3, 6, 300] {
            let found = map.get(key);
            assert!(found.is_none_or(|word| word == value(key)), "{key} has another's value");
            assert!(found.is_some() || !STAYS.contains(&key), "{key} never left");
            let next = map.next(key).expect("the last key stays");
            assert!(next.0 >= key && next.1 == value(next.0), "{next:?} after {key}");
            assert!(!STAYS.iter().any(|stays| (key..next.0).contains(stays)), "passed over");
        }
    })
}

fn readers_and_writers(shards: usize) {
    let map = Arc::new(Shared::new(shards, 8));
    STAYS.iter().for_each(|&key| _ = map.insert(key, value(key)));
    let threads =
        [writer(&map, &COMES[..4]), writer(&map, &COMES[4..]), reader(&map), reader(&map)];
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    assert_eq!(map.len(), STAYS.len());
    assert!(STAYS.iter().all(|&key| map.get(key) == Some(value(key))));
}

#[test]
fn readers_beside_writers_see_whole_entries() {
    shuttle::check_random(|| readers_and_writers(1), RUNS);
    shuttle::check_random(|| readers_and_writers(2), RUNS);
    shuttle::check_pct(|| readers_and_writers(1), RUNS, 3);
}

/// On a thread of its own: a failed schedule leaves half unwound stacks behind.
fn is_caught(rule: Broken) -> bool {
    let run = move || {
        let _broken = break_rule(rule);
        shuttle::check_random(|| readers_and_writers(1), RUNS);
    };
    std::thread::spawn(run).join().is_err()
}

#[test]
fn every_broken_rule_is_caught() {
    for rule in [Broken::RadixReadNotValidated, Broken::RadixVersionNotMarked] {
        assert!(is_caught(rule), "{rule} is not caught");
    }
}
