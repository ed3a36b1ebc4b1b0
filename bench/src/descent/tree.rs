//! Tree level: a tree alone, without heap and log, all of it in memory.
//!
//! Times are this thread's own.
//!
//! Invariants: counting and timing are separate runs. Does not do: rows; turns.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use rightlink::RowId;
use rightlink::internal::buffer::{BufferPool, PoolOptions};
use rightlink::internal::ids::{FileId, Lsn, Xid};
use rightlink::internal::index::am::{AccessMethod, Group, IndexEntry, InsertOutcome, NamedPage};
use rightlink::internal::index::btree::build::Builder;
use rightlink::internal::index::btree::{BTree, Optimisations, TreeOptions};
use rightlink::internal::wal::{Control, RedoSpeed, Wal, WalOptions};
use rightlink_aio::{Io, IoOptions, Method};
use rightlink_env::sync::Arc;
use rightlink_env::{Env, Rng};

use crate::Failure;
use crate::cpu::Cpu;
use crate::descent::shapes::Shape;

const FILE: FileId = FileId(64);
/// Entries of one batch of insertions.
pub(crate) const BATCH: usize = 1000;

/// Keys in one piece.
#[derive(Default)]
pub(crate) struct Keys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Row number of the first; the others follow.
    first: u64,
}

impl Keys {
    /// The keys of all rows.
    pub(crate) fn of(shape: Shape, rows: u64) -> Keys {
        Keys::of_some(shape, rows, 0..rows)
    }

    /// The keys of some of the rows.
    pub(crate) fn of_some(shape: Shape, rows: u64, some: Range<u64>) -> Keys {
        let mut keys = Keys { first: some.start, ..Keys::default() };
        some.for_each(|n| keys.push(&shape.key(n, rows)));
        keys
    }

    /// Adds a key.
    pub(crate) fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    /// The keys for which `wanted` is true, numbered from the same first number.
    pub(crate) fn filtered(&self, mut wanted: impl FnMut(&[u8]) -> bool) -> Keys {
        let mut found = Keys { first: self.first, ..Keys::default() };
        let all = (0..self.len()).map(|n| self.get(n));
        all.filter(|key| wanted(key)).for_each(|key| found.push(key));
        found
    }

    /// The row of key `n`. Equal keys have different rows, also where some are inserted later.
    fn row(&self, n: usize) -> RowId {
        row(self.first as usize + n)
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Key `n`.
    #[inline]
    pub(crate) fn get(&self, n: usize) -> &[u8] {
        let start = if n == 0 { 0 } else { self.ends[n - 1] };
        &self.bytes[start..self.ends[n]]
    }

    /// `count` of them, picked at random, in one piece: walking over them costs no cache misses.
    pub(crate) fn sample(&self, count: usize, seed: u64) -> Keys {
        let mut rng = Rng::from_seed(seed);
        let mut picked = Keys::default();
        (0..count).for_each(|_| picked.push(self.get(rng.index(self.len()))));
        picked
    }

    /// Bytes of all of them.
    pub(crate) fn total_bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// The row of key `n`.
pub(crate) fn row(n: usize) -> RowId {
    RowId::new(1 + (n / 64) as u32, 1 + (n % 64) as u16)
}

/// A tree and the pool under it.
pub(crate) struct Measured {
    pub(crate) tree: BTree,
    /// Seconds that the insertions took.
    pub(crate) seconds: f64,
    pool: Arc<BufferPool>,
}

/// A pool that holds `keys` and `more` bytes of others with ease, on files below `dir` that are
/// hardly touched.
fn pool(keys: &Keys, more: usize, dir: &Path) -> Result<Arc<BufferPool>, Failure> {
    let frames = (keys.total_bytes() + keys.len() * 24 + more) / 8192 * 2 + 2000;
    let env = Env::system(frames * 8192 * 2 + (64 << 20));
    std::fs::create_dir_all(dir)?;
    let io = Io::open(&env, dir, IoOptions::with_method(Method::Sync))?;
    for folder in ["data", "wal", "tmp"] {
        io.create_dir(folder)?;
    }
    let control = Control {
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
    };
    let wal = Arc::new(Wal::create(&env, &io, WalOptions::default(), &control)?);
    Ok(BufferPool::new(&env, &io, wal, PoolOptions { frames, double_write_pages: 0 })?)
}

/// Inserts `keys` in batches into a tree of its own below `dir`, which has room for `more` bytes of
/// keys.
pub(crate) fn fill(
    keys: &Keys,
    more: usize,
    set: Optimisations,
    dir: &Path,
) -> Result<Measured, Failure> {
    let pool = pool(keys, more, dir)?;
    pool.create_file(FILE, false)?;
    let tree = BTree::create(&pool, FILE, TreeOptions::default())?;
    tree.optimise(set);
    let mut measured = Measured { tree, seconds: 0.0, pool };
    measured.seconds = insert(&measured, keys, 0..keys.len(), BATCH)?.as_secs_f64();
    Ok(measured)
}

/// Builds a tree of its own from all of `keys`, sorted, below `dir`.
pub(crate) fn build(keys: &Keys, dir: &Path) -> Result<Measured, Failure> {
    let pool = pool(keys, 0, dir)?;
    pool.create_file(FILE, false)?;
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_unstable_by_key(|n| keys.get(*n));
    let (time, built) = Cpu::new().time(|| -> rightlink::Result<BTree> {
        let mut builder = Builder::new(&pool, FILE, TreeOptions::default())?;
        for n in order {
            builder.push(&IndexEntry::new(keys.get(n), row(n)))?;
        }
        builder.finish()
    });
    Ok(Measured { tree: built?, seconds: time.as_secs_f64(), pool })
}

/// Inserts the keys `range` of `keys`, so many at once: how long this thread ran.
pub(crate) fn insert(
    into: &Measured,
    keys: &Keys,
    range: Range<usize>,
    batch: usize,
) -> Result<Duration, Failure> {
    let (time, outcome) = Cpu::new().time(|| insert_batches(into, keys, range, batch));
    outcome?;
    Ok(time)
}

fn insert_batches(
    into: &Measured,
    keys: &Keys,
    range: Range<usize>,
    batch: usize,
) -> rightlink::Result<()> {
    let Measured { tree, pool, .. } = into;
    let mut entries: Vec<IndexEntry<'_>> = Vec::with_capacity(batch);
    for start in range.clone().step_by(batch) {
        entries.clear();
        let end = range.end.min(start + batch);
        entries.extend((start..end).map(|n| IndexEntry::new(keys.get(n), keys.row(n))));
        tree.order(&mut entries);
        for group in tree.groups(&entries, false) {
            let Group { page, link, entries: range } = group?;
            let named = NamedPage { pin: pool.pin(page)?, link };
            let outcome = tree.insert_group(Xid::FIRST, &entries[range], None, Some(named))?;
            assert_eq!(outcome, InsertOutcome::Inserted, "no key is checked");
        }
    }
    Ok(())
}

/// Looks up all of `keys`, one by one; nanoseconds each.
pub(crate) fn lookup(tree: &BTree, keys: &Keys, range: Range<usize>) -> f64 {
    let count = range.len();
    let mut hits = 0;
    let (took, ()) = Cpu::new().time(|| {
        for n in range {
            tree.lookup(&[keys.get(n)], &mut |_, _, _| hits += 1).expect("the tree is sound");
        }
    });
    assert!(hits >= count, "every key is there");
    took.as_secs_f64() * 1e9 / count as f64
}
