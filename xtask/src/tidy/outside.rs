//! Threads, locks, files and clocks are reached through `env` and `aio` only, so that a simulation
//! can stand in for all of them.
//!
//! Looks at paths from `std` and `core` in production code; tests, benches and fuzz targets may use
//! what they like. `clippy.toml` bans the most common types once more.

use crate::complaint::Complaints;
use crate::paths::{Named, production_paths};
use crate::tree::Tree;

/// What is reached through `env` and `aio` only.
const OUTSIDE: [&[&str]; 7] = [
    &["std", "sync"],
    &["core", "sync"],
    &["std", "thread"],
    &["std", "fs"],
    &["std", "time", "Instant"],
    &["std", "time", "SystemTime"],
    &["std", "time", "*"],
];

/// Folders and files with exceptions: the paths they may name all the same. Shared ownership and
/// set-once cells hold no state that a model would interleave, so they are harmless above the
/// engine. The words of a page are memory, not synchronisation: a model's atomics are larger.
const ALLOWED: [(&str, &[&[&str]]); 8] = [
    ("crates/engine/src/page/buf.rs", &[&["core", "sync", "atomic"]]),
    ("crates/env/", &[&["std"], &["core"]]),
    ("crates/aio/", &[&["std"], &["core"]]),
    ("crates/sql/", &[&["std", "sync", "Arc"], &["std", "sync", "OnceLock"]]),
    ("crates/server/", &[&["std", "sync", "Arc"], &["std", "sync", "OnceLock"], &["std", "fs"]]),
    (
        "crates/cli/",
        &[&["std", "sync", "Arc"], &["std", "fs"], &["std", "time"], &["std", "thread", "sleep"]],
    ),
    ("bench/", &[&["std", "sync", "Arc"], &["std", "fs"], &["std", "time"]]),
    ("xtask/", &[&["std", "fs"], &["std", "time"]]),
];

/// The outside world is reached through `env` and `aio`.
pub(super) fn outside_world(tree: &Tree, complaints: &mut Complaints) {
    for source in tree.sources.iter().filter(|source| !source.is_test_file()) {
        let allowed = ALLOWED.iter().find(|(folder, _)| source.path.starts_with(folder));
        let allowed = allowed.map_or(&[][..], |(_, paths)| *paths);
        for path in production_paths(source) {
            if is_outside(&path) && !allowed.iter().any(|parts| path.starts_with(parts)) {
                let text = format!("`{}` goes past rightlink_env", path.parts.join("::"));
                complaints.add(&source.path, path.line, text);
            }
        }
    }
}

fn is_outside(path: &Named) -> bool {
    OUTSIDE.iter().any(|parts| path.starts_with(parts)) || path.parts == ["std", "time"]
}

#[cfg(test)]
mod tests {
    use super::super::complaints_of;
    use super::outside_world;

    fn found(path: &str, text: &str) -> usize {
        complaints_of(outside_world, &[(path, text)]).len()
    }

    #[test]
    fn the_engine_asks_env() {
        let path = "crates/engine/src/db.rs";
        assert_eq!(found(path, "use std::{fs::File, sync::{Arc, Mutex}};"), 3);
        assert_eq!(found(path, "fn f() { std::thread::spawn(|| std::time::Instant::now()); }"), 2);
        assert_eq!(found(path, "use std::time;"), 1);
        assert_eq!(
            found(path, "use std::{time::Duration, io, fmt}; use rightlink_env::sync::X;"),
            0
        );
        assert_eq!(found(path, "#[cfg(test)]\nmod tests {\n    use std::fs;\n}"), 0);
    }

    #[test]
    fn exceptions_are_by_folder() {
        assert_eq!(found("crates/aio/src/worker.rs", "use std::sync::Mutex;"), 0);
        assert_eq!(found("crates/cli/src/main.rs", "use std::{fs, time::Instant};"), 0);
        assert_eq!(found("crates/cli/src/main.rs", "use std::thread;"), 1);
        assert_eq!(found("crates/sql/src/lib.rs", "use std::sync::{Arc, Mutex};"), 1);
        assert_eq!(found("crates/engine/tests/sim.rs", "use std::fs;"), 0);
    }
}
