//! The peers: other embedded stores with the same rows and the same indexes.
//!
//! Key-value stores get the index tables that one writes by hand: a table of id to the row's 80
//! bytes, and a table of uuid to id for each index, all changed in one transaction a batch, the
//! keys of a batch sorted for each table. SQLite has indexes of its own. Settings are what each
//! project recommends for this work; each file says which, and where that is said.
//!
//! Memory: an engine with a cache of its own gets the whole allowance for it (LSM engines half of
//! it for what is not flushed yet); LMDB, which has none, has the page cache. In a control group
//! all of it is limited together (`load::group`). Without one, the page cache is bounded (`limit`)
//! where memory is a tenth: nothing beside a cache, LMDB the allowance.
//!
//! Invariants: relaxed means that a commit does not wait for the device, durable that it does.
//! Does not do: anything that needs more than one writing thread.

mod fjall;
mod limit;
mod lmdb;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod sqlite;

use std::ops::Range;
use std::path::Path;

use crate::Failure;
use crate::load::engine::{Engine, Role, Setup, Written};
use crate::load::table::{self, UUIDS};

/// The engines that are built in.
pub(super) const NAMES: &[&str] = &[
    "lmdb",
    "redb",
    "sqlite",
    "fjall",
    #[cfg(feature = "rocksdb")]
    "rocksdb",
];

/// Opens the engine called `name` in a directory below `dir`.
pub(super) fn open(
    name: &str,
    setup: Setup,
    dir: &Path,
    role: Role,
) -> Result<Box<dyn Engine>, Failure> {
    let dir = dir.join(name);
    std::fs::create_dir_all(&dir)?;
    if role == Role::Read {
        limit::drop_page_cache(&dir)?;
    }
    if !setup.roomy && !setup.grouped {
        limit::keep(&dir, setup.memory);
    }
    Ok(match name {
        "lmdb" => Box::new(lmdb::Lmdb::open(setup, &dir, role)?),
        "redb" => Box::new(redb::Redb::open(setup, &dir, role)?),
        "sqlite" => Box::new(sqlite::Sqlite::open(setup, &dir, role)?),
        "fjall" => Box::new(fjall::Fjall::open(setup, &dir)?),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => Box::new(rocksdb::Rocks::open(setup, &dir)?),
        name => return Err(format!("{name} is not built in").into()),
    })
}

type Uuid = [u8; 16];
/// A row without its id.
type Body = [u8; 16 * UUIDS];

/// The rows of a batch as tables of a key-value store want them.
#[derive(Default)]
struct Batch {
    /// Ascending.
    ids: Vec<u64>,
    uuids: Vec<[Uuid; UUIDS]>,
}

impl Batch {
    fn of(ids: Range<u64>) -> Batch {
        let uuids = ids.clone().map(table::uuids).collect();
        Batch { ids: ids.collect(), uuids }
    }

    /// Ids and bodies, by id.
    fn rows(&self) -> impl Iterator<Item = (u64, Body)> + '_ {
        self.ids.iter().zip(&self.uuids).map(|(id, uuids)| (*id, body(uuids)))
    }

    /// Keys of the index on one uuid and their ids, by key.
    fn keys(&self, column: usize) -> Vec<(Uuid, u64)> {
        let uuids = self.uuids.iter().map(|uuids| uuids[column]);
        let mut keys: Vec<_> = uuids.zip(self.ids.iter().copied()).collect();
        keys.sort_unstable();
        keys
    }
}

fn body(uuids: &[Uuid; UUIDS]) -> Body {
    let mut body = [0; 16 * UUIDS];
    for (place, uuid) in body.chunks_mut(16).zip(uuids) {
        place.copy_from_slice(uuid);
    }
    body
}

/// The name of the index table on one uuid.
fn index_name(column: usize) -> String {
    format!("u{column}")
}

/// The body that the row called `id` must have.
fn wanted(id: u64) -> Body {
    body(&table::uuids(id))
}

/// Is this what was inserted as row `id`?
fn check(id: u64, found: Option<&[u8]>) -> Result<(), Failure> {
    match found {
        Some(found) if found == wanted(id) => Ok(()),
        _ => Err(table::another(id)),
    }
}

/// An id as index tables hold it.
fn id_of(bytes: Option<&[u8]>) -> Result<u64, Failure> {
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok()).ok_or("an index without its row")?;
    Ok(u64::from_be_bytes(bytes))
}

/// All bytes that this process sent to the device.
fn written() -> Result<Written, Failure> {
    let io = std::fs::read_to_string("/proc/self/io")?;
    let bytes = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    let data = bytes.ok_or("the kernel does not tell what was written")?.parse()?;
    Ok(Written { log: None, double_write: None, data })
}
