//! Tests that change or measure something of the whole process, one at a time.
//!
//! | file | what is the process's |
//! |---|---|
//! | `descriptors` | the limit of open files |
//! | `held_up` | time, which other tests would take from its threads |
//! | `idle` | processor time of all threads of the engine |
//! | `insert_helpers` | counts of injection points |
//! | `largest_values` | the peak of resident memory |
//! | `panics` | a hook that panics on every thread |
//! | `traced` | a subscriber, which changes what is enabled for all threads |
//!
//! Invariants: every test holds [`alone`] from its first line to its last.

mod descriptors;
mod held_up;
mod idle;
mod insert_helpers;
mod largest_values;
mod panics;
mod traced;

use rightlink_env::sync::{Mutex, MutexGuard};

static ALONE: Mutex<()> = Mutex::new(());

/// Waits until no other test of this program runs, and keeps others waiting until it is dropped.
fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock()
}
