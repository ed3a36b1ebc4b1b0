//! LMDB and redb beside a tree: random 16-byte keys inserted in sorted batches, then looked up.
//!
//! Each store has its best settings: no sync, one transaction for all insertions and one for all
//! lookups, a map or cache that holds everything. Built only with the feature `peers`.
//!
//! Invariants: all three get the same keys in the same batches; lookups are interleaved in rounds.
//! Does not do: what happens when power fails.

use std::path::Path;
use std::time::Duration;

use heed::types::Bytes;
use heed::{Env, EnvFlags, EnvOpenOptions, WithTls};
use redb::{Durability, ReadableDatabase, TableDefinition};
use rightlink::internal::index::btree::Optimisations;

use crate::Failure;
use crate::cpu::Cpu;
use crate::descent::shapes::Shape;
use crate::descent::tree::{self, BATCH, Keys};
use crate::report::say;
use crate::stats::Summary;

const ROWS: u64 = 1_000_000;
const ROUNDS: usize = 7;
const EACH: usize = 100_000;
const MAP_BYTES: usize = 1 << 30;
const TABLE: TableDefinition<'_, &[u8], u64> = TableDefinition::new("t");

/// Compares insertions and lookups with both.
pub(crate) fn run(dir: &Path) -> Result<(), Failure> {
    let keys = Keys::of(Shape::Uuid, ROWS);
    let ours = tree::fill(&keys, 0, Optimisations::ALL, &dir.join("peer-ours"))?;
    let lmdb = lmdb(&keys, &dir.join("peer-lmdb"))?;
    let redb = redb(&keys, &dir.join("peer-redb"))?;
    for (name, seconds, limit) in [("LMDB", lmdb.1, 1.0), ("redb", redb.1, 1.5)] {
        let ratio = seconds.as_secs_f64() / ours.seconds;
        let word = if ratio >= limit { "within" } else { "MISSES" };
        say(&format!("insertions of {ROWS} uuids, speed to {name}'s: {ratio:.3}: {word} {limit}"));
    }
    let picked = keys.sample(EACH * ROUNDS, 5);
    let (mut to_lmdb, mut to_redb) = (Vec::new(), Vec::new());
    let (read, table) = (lmdb.0.read_txn()?, redb.0.begin_read()?.open_table(TABLE)?);
    let names = lmdb.0.open_database::<Bytes, Bytes>(&read, None)?.ok_or("a database")?;
    for round in 0..ROUNDS {
        let range = round * EACH..(round + 1) * EACH;
        let mine = tree::lookup(&ours.tree, &picked, range.clone()) * EACH as f64;
        let (took, missing) = Cpu::new().time(|| {
            range
                .clone()
                .filter(|n| !matches!(names.get(&read, picked.get(*n)), Ok(Some(_))))
                .count()
        });
        assert_eq!(missing, 0, "LMDB has every key");
        to_lmdb.push(took.as_secs_f64() * 1e9 / mine);
        let (took, missing) = Cpu::new()
            .time(|| range.filter(|n| !matches!(table.get(picked.get(*n)), Ok(Some(_)))).count());
        assert_eq!(missing, 0, "redb has every key");
        to_redb.push(took.as_secs_f64() * 1e9 / mine);
    }
    for (name, ratios, limit) in [("LMDB", to_lmdb, 1.0), ("redb", to_redb, 1.5)] {
        let ratio = Summary::of(ratios);
        let word = if ratio.median >= limit { "within" } else { "MISSES" };
        say(&format!("lookups of {ROWS} uuids, speed to {name}'s: {ratio}: {word} {limit}"));
    }
    Ok(())
}

/// Positions of `keys` in batches, each sorted by key.
fn batches(keys: &Keys) -> impl Iterator<Item = Vec<usize>> + '_ {
    (0..keys.len()).step_by(BATCH).map(|start| {
        let mut batch: Vec<usize> = (start..keys.len().min(start + BATCH)).collect();
        batch.sort_unstable_by_key(|n| keys.get(*n));
        batch
    })
}

fn lmdb(keys: &Keys, dir: &Path) -> Result<(Env<WithTls>, Duration), Failure> {
    std::fs::create_dir_all(dir)?;
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES);
    // SAFETY: the flags give up durability only; nobody else opens or changes files in this fresh
    // directory while it is mapped.
    let env = unsafe {
        options.flags(EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP | EnvFlags::NO_READ_AHEAD);
        options.open(dir)?
    };
    let (took, outcome) = Cpu::new().time(|| -> heed::Result<()> {
        let mut txn = env.write_txn()?;
        let names = env.create_database::<Bytes, Bytes>(&mut txn, None)?;
        for batch in batches(keys) {
            for n in batch {
                names.put(&mut txn, keys.get(n), &(n as u64).to_le_bytes())?;
            }
        }
        txn.commit()
    });
    outcome?;
    Ok((env, took))
}

fn redb(keys: &Keys, dir: &Path) -> Result<(redb::Database, Duration), Failure> {
    std::fs::create_dir_all(dir)?;
    let db = redb::Builder::new().set_cache_size(MAP_BYTES).create(dir.join("redb"))?;
    let (took, outcome) = Cpu::new().time(|| -> Result<(), redb::Error> {
        let mut txn = db.begin_write()?;
        txn.set_durability(Durability::None)?;
        let mut table = txn.open_table(TABLE)?;
        for batch in batches(keys) {
            for n in batch {
                table.insert(keys.get(n), n as u64)?;
            }
        }
        drop(table);
        Ok(txn.commit()?)
    });
    outcome?;
    Ok((db, took))
}
