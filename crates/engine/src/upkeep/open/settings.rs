//! Settings of each module from the options of a database, and the bounds of options.
//!
//! Invariants: options are checked before any file is touched.
//! Does not do: read files.

use rightlink_env::{Env, Level, Logger, thread};

use crate::buffer::PoolOptions;
use crate::config::{MIN_POOL_PAGES, PAGE_SIZE};
use crate::error::{Error, Result};
use crate::ids::Xid;
use crate::txn::{MAX_XID, TxnOptions};
use crate::upkeep::Options;
use crate::upkeep::options::MAX_INSERT_THREADS;
use crate::upkeep::vacuum_runs::VacuumSettings;
use crate::wal::WalOptions;

const MIN_MEMORY: usize = 8 << 20;
/// Most memory: the pages of a pool are numbered in 32 bits.
const MAX_MEMORY: u64 = 16 << 40;
/// Most pages of a pool: those of [`MAX_MEMORY`].
const MAX_POOL_PAGES: usize = (MAX_MEMORY / PAGE_SIZE as u64) as usize;
/// Memory of an open database that does not depend on any size: stacks of threads, pages of code,
/// small tables, free memory of the allocator.
const FIXED_MEMORY: usize = 5 << 20;
/// Memory beside the pool: log buffer, group of write-back, and a sort or vacuum.
const MIN_SPARE: usize = 5 << 19;
/// Pages of a double-write group.
const GROUP_PAGES: usize = 256;

/// Refuses options beyond their bounds.
pub(super) fn check(options: &Options) -> Result<()> {
    let memory = options.memory;
    if memory < MIN_MEMORY {
        let what = format!("option memory: {memory} bytes are less than {MIN_MEMORY}");
        return Err(Error::Invalid(what));
    }
    if memory as u64 > MAX_MEMORY {
        let what = format!("option memory: {memory} bytes are more than {MAX_MEMORY} (16 TiB)");
        return Err(Error::Invalid(what));
    }
    let pages = options.pool_pages.unwrap_or(MIN_POOL_PAGES);
    if !(MIN_POOL_PAGES..=MAX_POOL_PAGES).contains(&pages) {
        let bounds = format!("{MIN_POOL_PAGES} to {MAX_POOL_PAGES}");
        return Err(Error::Invalid(format!("option pool_pages: {pages} is not in {bounds}")));
    }
    let (first, bounds) = (options.first_xid, Xid::FIRST..Xid(MAX_XID));
    if !bounds.contains(&first) {
        let bounds = format!("{} to {}", Xid::FIRST, MAX_XID - 1);
        return Err(Error::Invalid(format!("option first_xid: {first} is not in {bounds}")));
    }
    Ok(())
}

/// The clock, the memory budget and the logger of the database.
pub(in crate::upkeep) fn environment(options: &Options) -> Env {
    let env = match &options.simulation {
        Some((env, _)) => env.clone(),
        None => Env::system(variable_memory(options)).with_logger(Logger::stderr(Level::Warn)),
    };
    let env = match &options.logger {
        Some(logger) => env.with_logger(logger.clone()),
        None => env,
    };
    #[cfg(feature = "tracing")]
    let env = {
        let logger = crate::upkeep::tracing_events::logger(env.logger.clone());
        env.with_logger(logger)
    };
    env
}

pub(super) fn wal_options(options: &Options) -> WalOptions {
    WalOptions {
        segment_bytes: options.log_segment_bytes,
        buffer_bytes: options.memory / 16,
        max_bytes: options.max_log_bytes,
    }
}

pub(super) fn vacuum_settings(options: &Options) -> VacuumSettings {
    let processors = processors(options);
    let threads = if options.threads { options.vacuum_threads } else { Some(1) };
    VacuumSettings { rate: options.vacuum_rate, threads: threads.unwrap_or(processors), processors }
}

/// A simulation has one thread, unless a test asks for more.
fn processors(options: &Options) -> usize {
    if options.threads { thread::parallelism() } else { 1 }
}

pub(super) fn txn_options(env: &Env, options: &Options) -> TxnOptions {
    let threads = options.insert_threads;
    let threads = threads.unwrap_or_else(|| processors(options).min(MAX_INSERT_THREADS));
    TxnOptions {
        clock: env.clock.clone(),
        logger: env.logger.clone(),
        lock_timeout: options.lock_timeout,
        max_snapshot_age: options.max_snapshot_age,
        helper_threads: threads - 1,
        ..TxnOptions::default()
    }
}

/// The memory for everything whose size depends on data.
fn variable_memory(options: &Options) -> usize {
    options.memory - FIXED_MEMORY.min(options.memory / 4)
}

pub(super) fn pool_options(options: &Options) -> PoolOptions {
    // An overlay keeps the changes of redo in memory, so the pool gets half.
    let memory = variable_memory(options);
    let spare = (memory / if options.offline { 2 } else { 4 }).max(MIN_SPARE);
    let frames = (memory - spare) / PAGE_SIZE;
    PoolOptions {
        frames: options.pool_pages.unwrap_or(frames).max(MIN_POOL_PAGES),
        double_write_pages: if options.double_write { GROUP_PAGES } else { 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(options: &Options) -> String {
        match check(options) {
            Err(Error::Invalid(what)) => what,
            other => panic!("refused, not {other:?}"),
        }
    }

    /// The pool asserted on more memory than it can number frames for, after files were made.
    #[test]
    fn options_beyond_their_bounds_are_refused_by_name() {
        let most = Options::default().memory(MAX_MEMORY as usize);
        assert!(check(&most).is_ok());
        let beyond = refused(&Options::default().memory(MAX_MEMORY as usize + 1));
        assert!(beyond.starts_with("option memory: ") && beyond.ends_with("(16 TiB)"), "{beyond}");
        let huge = refused(&Options::default().memory(9_999_999 << 30));
        assert!(huge.starts_with("option memory: "), "{huge}");
        let small = refused(&Options::default().memory(MIN_MEMORY - 1));
        assert!(small.starts_with("option memory: "), "{small}");
        for pages in [0, MIN_POOL_PAGES - 1, MAX_POOL_PAGES + 1, usize::MAX] {
            let said = refused(&Options::default().pool_pages(pages));
            assert!(said.starts_with("option pool_pages: "), "{said}");
        }
    }
}
