//! The real process under load: kills, histories, nonsense on the wire, everything at once.
//!
//! A program apart from `../command/`, because `.ci/run` builds these optimised and asks for more.
//!
//! Invariants: one test at a time loads the machine; each holds [`alone`] from its first line on.

#[path = "../common/mod.rs"]
mod common;
mod histories;
mod kill;
mod soak;
mod wire_fuzz;

use rightlink_env::sync::{Mutex, MutexGuard};

static ALONE: Mutex<()> = Mutex::new(());

/// Waits until no other test of this program runs, and keeps others waiting until it is dropped.
fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock()
}
