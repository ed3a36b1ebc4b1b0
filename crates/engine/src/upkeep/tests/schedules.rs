//! Schedules of threads at rest. The model's waits never time out: a lost wake-up is a deadlock.

use std::time::Duration;

use rightlink_env::Broken;
use rightlink_env::sync::{Arc, AtomicU64, Ordering};
use rightlink_env::thread;

use crate::schedules::{Case, catches, survives};
use crate::upkeep::idle::IdleWait;

const RUNS: usize = 3_000;
const WRITES: u64 = 2;
const LIMIT: Duration = Duration::from_secs(1);

/// Two threads rest until they have seen all writes of a third.
fn writes() {
    let (idle, written) = (Arc::new(IdleWait::default()), Arc::new(AtomicU64::new(0)));
    let rest = |_| {
        let (idle, written) = (Arc::clone(&idle), Arc::clone(&written));
        thread::spawn("rests", move || {
            loop {
                let seen = idle.announce_rest();
                if written.load(Ordering::Acquire) == WRITES {
                    return;
                }
                idle.at_rest(seen, LIMIT);
            }
        })
    };
    let resting: Vec<_> = (0..2).map(rest).collect();
    for _ in 0..WRITES {
        idle.end_rests_before_write();
        written.fetch_add(1, Ordering::AcqRel);
        idle.end_rests();
    }
    resting.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

#[test]
fn a_write_is_seen_or_ends_the_rest_in_every_schedule() {
    survives("writes", writes, RUNS);
}

#[test]
fn a_rest_without_end_is_caught() {
    catches(&[Case { rule: Broken::RestNotEnded, world: writes, within: 1000 }]);
}
