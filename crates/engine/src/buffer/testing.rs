//! For tests: a pool on a fresh simulated disk.
//!
//! Does not do: anything a production build needs.

use rightlink_aio::{Io, IoOptions, Method, SimDisk};
use rightlink_env::Env;
use rightlink_env::sync::Arc;

use crate::buffer::{BufferPool, PoolOptions, RedoPage};
use crate::error::Result;
use crate::ids::{Lsn, Xid};
use crate::page::delta;
use crate::wal::{Control, Record, RedoSpeed, Wal, WalOptions};

/// A pool with what it stands on.
pub(crate) struct TestPool {
    /// The pool.
    pub(crate) pool: Arc<BufferPool>,
    /// Its simulated disk.
    pub(crate) disk: SimDisk,
    /// The files on it.
    pub(crate) io: Io,
    /// Clock, budget, seed.
    pub(crate) env: Env,
}

/// A log of 1 MiB segments.
pub(crate) fn wal_options() -> WalOptions {
    WalOptions { segment_bytes: 1 << 20, buffer_bytes: 128 << 10, max_bytes: 256 << 20 }
}

/// Options of I/O on the simulated disk.
pub(crate) fn io_options() -> IoOptions {
    IoOptions::with_method(Method::Worker)
}

/// The control record of a database that was just made.
pub(crate) fn control() -> Control {
    Control {
        database: 1,
        redo: Lsn(0),
        next_xid: Xid::FIRST,
        oldest_xid: Xid::FIRST,
        next_file: 64,
        durable: Lsn(0),
        clean: false,
        redo_speed: RedoSpeed::default(),
        device: Default::default(),
        outcomes: 0,
    }
}

/// A pool of `frames` pages and a fresh log on a fresh simulated disk, everything derived from
/// `seed`.
pub(crate) fn pool(frames: usize, seed: u64) -> TestPool {
    let disk = SimDisk::new(seed);
    on_disk(disk, frames, 64, seed)
}

/// As [`pool`], on a given empty disk and with a given double-write group.
pub(crate) fn on_disk(
    disk: SimDisk,
    frames: usize,
    double_write_pages: usize,
    seed: u64,
) -> TestPool {
    let env = Env::simulated(seed);
    let io = Io::simulated(&env, disk.clone(), io_options()).expect("a simulated disk opens");
    let wal = Wal::create(&env, &io, wal_options(), &control()).expect("a fresh log");
    let options = PoolOptions { frames, double_write_pages };
    let pool = BufferPool::new(&env, &io, Arc::new(wal), options).expect("a pool");
    TestPool { pool, disk, io, env }
}

/// Applies one record, as recovery does with many at once.
pub(crate) fn redo(pool: &BufferPool, record: &Record) -> Result<()> {
    for (page, delta) in &record.parts {
        let pin = match pool.redo_plan(*page, delta::is_image(delta))? {
            RedoPage::Skip => continue,
            RedoPage::Read => pool.pin(*page)?,
            RedoPage::Make => {
                pool.redo_extend(page.file, page.block.0.saturating_add(1))?;
                pool.pin_new(*page)?
            }
        };
        pool.redo_page(pin, record.start, std::iter::once((record.end, &delta[..])))?;
    }
    Ok(())
}
