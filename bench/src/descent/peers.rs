//! The same lookups elsewhere: `BTreeMap`, and whatever else is built in (`stores`).
//!
//! Invariants: each peer has its best settings (no sync, one transaction for everything) and keys
//! sorted in the same batches as ours; lookups are interleaved in rounds.
//! Does not do: durability of anybody.

use std::collections::BTreeMap;
use std::path::Path;

use crate::Failure;
use crate::args::Size;
use crate::cpu::Cpu;
use crate::descent::shapes::Shape;
use crate::descent::tree::{self, Keys, Measured};
use crate::report::say;
use crate::stats::Summary;
use rightlink::internal::index::am::AccessMethod;
use rightlink::internal::index::btree::Optimisations;

const ROUNDS: usize = 7;
/// Most bytes of leaves that an entry of a tree built from int8 may take.
const BUILT_BYTES: f64 = 14.0;

/// Compares with every peer that was built in.
pub(crate) fn run(dir: &Path, size: Size) -> Result<(), Failure> {
    let rows = if size == Size::Quick { 1_000_000 } else { 10_000_000 };
    btree_map(rows, dir)?;
    #[cfg(feature = "peers")]
    crate::descent::stores::run(dir)?;
    #[cfg(not(feature = "peers"))]
    say("LMDB and redb are not built in: `--features peers`");
    Ok(())
}

/// Lookups by int8, ours and the standard library's: both filled in the same random order, both
/// built from sorted keys, and ours filled against theirs built, whose nodes are full and lie in
/// the order of the keys.
fn btree_map(rows: u64, dir: &Path) -> Result<(), Failure> {
    let keys = Keys::of(Shape::Int8, rows);
    let ours = tree::fill(&keys, 0, Optimisations::ALL, &dir.join("peer-map"))?;
    let mut map = BTreeMap::new();
    for n in 0..keys.len() {
        map.insert(plain(keys.get(n)), n as u64);
    }
    compare(&format!("{rows} int8, both inserted"), &keys, &ours, &map);
    drop(map);
    let map = (0..keys.len()).map(|n| (plain(keys.get(n)), n as u64)).collect();
    compare(&format!("{rows} int8, ours inserted, theirs built"), &keys, &ours, &map);
    drop(ours);
    let ours = tree::build(&keys, &dir.join("peer-built"))?;
    compare(&format!("{rows} int8, both built"), &keys, &ours, &map);
    let bytes = ours.tree.verify(None, &mut |_| {})?.bytes_per_entry;
    let word = if bytes <= BUILT_BYTES { "within" } else { "MISSES" };
    say(&format!("{rows} int8, built: bytes of leaves an entry: {bytes:.3}: {word} {BUILT_BYTES}"));
    Ok(())
}

/// The integer that a key stands for.
fn plain(key: &[u8]) -> i64 {
    let bytes = key[1..9].try_into().expect("a null byte and eight more");
    (u64::from_be_bytes(bytes) ^ 1 << 63).cast_signed()
}

fn compare(what: &str, keys: &Keys, ours: &Measured, map: &BTreeMap<i64, u64>) {
    let each = 500_000.min(keys.len());
    let picked = keys.sample(each * ROUNDS, 5);
    let wanted: Vec<i64> = (0..picked.len()).map(|n| plain(picked.get(n))).collect();
    let (mut mine, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let range = round * each..(round + 1) * each;
        let ns = tree::lookup(&ours.tree, &picked, range.clone());
        let wanted = wanted[range].iter();
        let (took, sum) =
            Cpu::new().time(|| wanted.fold(0u64, |sum, key| sum.wrapping_add(map[key])));
        let other = took.as_secs_f64() * 1e9 / each as f64;
        assert!(std::hint::black_box(sum) != 1, "the sum is looked at");
        mine.push(ns);
        theirs.push(other);
        ratios.push(ns / other);
    }
    let (mine, theirs, ratio) = (Summary::of(mine), Summary::of(theirs), Summary::of(ratios));
    let word = if ratio.median <= 1.5 { "within" } else { "MISSES" };
    say(&format!(
        "lookups of {what}: {:.0} ns, BTreeMap {:.0} ns: ratio {ratio}: {word} 1.5",
        mine.median, theirs.median
    ));
}
