//! What is compared: the radix tree, and what one would take instead of it.
//!
//! Invariants: each looks up what the others look up, and answers alike. A set of row ids is given
//! to the others packed into as few bits as its slots need, which is the best for them.
//! Does not do: deletion, concurrency.

use std::collections::BTreeSet;

use rightlink::RowId;
use rightlink::vacuum::DeadRows;
use rightlink_env::Budget;
use rightlink_radix::{Map, Set, Sizes};
use roaring::RoaringTreemap;

use crate::dead_rows::sets::Keys;

/// Names of the structures.
pub(crate) const NAMES: &[&str] = &["ours", "fixed", "roaring", "array", "btree"];

/// Keys that a leaf of an index asks for at once.
const LEAF: usize = 400;
/// Blocks whose rows vacuum collects at once.
const PIECE: u64 = 32;

/// A structure with the keys in it.
pub(crate) enum Structure {
    Map(Map<u64>),
    Set(Set),
    Rows(DeadRows),
    Roaring(RoaringTreemap),
    Array(Vec<u64>),
    BTree(BTreeSet<u64>),
}

/// The key that a structure other than ours stores for a row id: 9 bits hold any slot.
fn packed(key: u64) -> u64 {
    key >> 16 << 9 | (key & 0x1FF)
}

impl Structure {
    /// The structure called `name`, filled.
    pub(crate) fn build(name: &str, keys: &Keys) -> Result<Structure, String> {
        let pack = |key: &u64| if keys.rows { packed(*key) } else { *key };
        let sorted = || keys.sorted.iter().map(pack);
        let in_order = keys.drawn.is_empty();
        Ok(match name {
            "ours" if keys.rows => Structure::Rows(dead_rows(&keys.sorted)),
            "fixed" if keys.rows => {
                let mut set = Set::with_sizes(Sizes::Fixed);
                set.extend_sorted(sorted().map(|key| (key, ())));
                Structure::Set(set)
            }
            "ours" => Structure::Map(map(keys, Sizes::Variable)),
            "fixed" => Structure::Map(map(keys, Sizes::Fixed)),
            "roaring" if in_order => {
                let set = RoaringTreemap::from_sorted_iter(sorted());
                Structure::Roaring(set.map_err(|error| error.to_string())?)
            }
            "roaring" => Structure::Roaring(keys.drawn.iter().copied().collect()),
            "array" if in_order => Structure::Array(sorted().collect()),
            "array" => Structure::Array(sorted_array(&keys.drawn)),
            "btree" if in_order => Structure::BTree(sorted().collect()),
            "btree" => {
                let mut set = BTreeSet::new();
                keys.drawn.iter().for_each(|key| _ = set.insert(*key));
                Structure::BTree(set)
            }
            other => return Err(format!("no structure `{other}`")),
        })
    }

    /// The probes as this structure stores keys.
    pub(crate) fn probes(&self, keys: &Keys, probes: &[u64]) -> Vec<u64> {
        let plain = !keys.rows || matches!(self, Structure::Rows(_));
        probes.iter().map(|key| if plain { *key } else { packed(*key) }).collect()
    }

    /// How many of `probes` are there, asked one by one.
    pub(crate) fn hits(&self, probes: &[u64]) -> u64 {
        match self {
            Structure::Map(map) => count(probes, |key| map.contains(key)),
            Structure::Set(set) => count(probes, |key| set.contains(key)),
            Structure::Rows(rows) => count(probes, |key| rows.contains(RowId::from_u64(key))),
            Structure::Roaring(set) => count(probes, |key| set.contains(key)),
            Structure::Array(array) => count(probes, |key| array.binary_search(&key).is_ok()),
            Structure::BTree(set) => count(probes, |key| set.contains(&key)),
        }
    }

    /// The same, and each value is read where there are values: it is the key.
    pub(crate) fn values(&self, probes: &[u64]) -> u64 {
        match self {
            Structure::Map(map) => count(probes, |key| map.get(key) == Some(key)),
            _ => self.hits(probes),
        }
    }

    /// How many of `probes` are there, asked leaf by leaf.
    pub(crate) fn leaf_hits(&self, probes: &[u64]) -> u64 {
        let mut dead = [false; LEAF];
        match self {
            Structure::Map(map) => {
                let mut values = [None; LEAF];
                leaves(probes, |leaf| {
                    map.get_each(leaf, &mut values[..leaf.len()]);
                    leaf.iter().zip(&values).filter(|(key, value)| **value == Some(**key)).count()
                })
            }
            Structure::Set(set) => leaves(probes, |leaf| {
                set.contains_each(leaf, &mut dead[..leaf.len()]);
                dead[..leaf.len()].iter().filter(|dead| **dead).count()
            }),
            Structure::Rows(rows) => {
                let mut ids = [RowId::new(0, 1); LEAF];
                leaves(probes, |leaf| {
                    ids.iter_mut().zip(leaf).for_each(|(id, key)| *id = RowId::from_u64(*key));
                    rows.probe(&ids[..leaf.len()], &mut dead[..leaf.len()]);
                    dead[..leaf.len()].iter().filter(|dead| **dead).count()
                })
            }
            Structure::Array(array) => leaves(probes, |leaf| gallop(array, leaf)),
            // These have no batched lookup.
            _ => self.hits(probes),
        }
    }

    /// Number and sum of all keys, visited in order.
    pub(crate) fn iterate(&self) -> (u64, u64) {
        let add = |(n, sum): (u64, u64), key: u64| (n + 1, sum.wrapping_add(key));
        match self {
            Structure::Map(map) => map.iter().map(|(key, _)| key).fold((0, 0), add),
            Structure::Set(set) => set.iter().map(|(key, ())| key).fold((0, 0), add),
            Structure::Rows(rows) => {
                let mut total = (0, 0);
                let each = |piece: &[RowId]| {
                    total = piece.iter().map(|row| row.to_u64()).fold(total, add);
                    Ok(())
                };
                rows.for_each_piece(each).expect("adding does not fail");
                total
            }
            Structure::Roaring(set) => set.iter().fold((0, 0), add),
            Structure::Array(array) => array.iter().copied().fold((0, 0), add),
            Structure::BTree(set) => set.iter().copied().fold((0, 0), add),
        }
    }
}

fn count(probes: &[u64], mut there: impl FnMut(u64) -> bool) -> u64 {
    probes.iter().map(|key| u64::from(there(*key))).sum()
}

fn leaves(probes: &[u64], mut hits: impl FnMut(&[u64]) -> usize) -> u64 {
    probes.chunks(LEAF).map(|leaf| hits(leaf) as u64).sum()
}

/// Each key of a leaf from where the last one was, if they ascend: a step that doubles, then a
/// search inside of it.
fn gallop(array: &[u64], leaf: &[u64]) -> usize {
    if !leaf.is_sorted() {
        return leaf.iter().filter(|key| array.binary_search(key).is_ok()).count();
    }
    let (mut hits, mut from) = (0, 0);
    for &key in leaf {
        let mut step = 1;
        while array.get(from + step).is_some_and(|other| *other <= key) && from > 0 {
            step *= 2;
        }
        let end = if from > 0 { array.len().min(from + step) } else { array.len() };
        let found = array[from..end].binary_search(&key);
        hits += usize::from(found.is_ok());
        from += found.unwrap_or_else(|at| at);
    }
    hits
}

fn sorted_array(drawn: &[u64]) -> Vec<u64> {
    let mut array = drawn.to_vec();
    array.sort_unstable();
    array.dedup();
    array.shrink_to_fit();
    array
}

fn map(keys: &Keys, sizes: Sizes) -> Map<u64> {
    let mut map = Map::with_sizes(sizes);
    if keys.drawn.is_empty() {
        map.extend_sorted(keys.sorted.iter().map(|key| (*key, *key)));
    } else {
        keys.drawn.iter().for_each(|key| _ = map.insert(*key, *key));
    }
    map
}

fn dead_rows(sorted: &[u64]) -> DeadRows {
    const ROOM: usize = 4 << 30;
    let mut rows = DeadRows::new(&Budget::new(ROOM), ROOM).expect("there is room");
    let mut piece = Vec::new();
    for keys in sorted.chunk_by(|a, b| (a >> 16) / PIECE == (b >> 16) / PIECE) {
        piece.clear();
        piece.extend(keys.iter().map(|key| RowId::from_u64(*key)));
        rows.extend(&piece);
    }
    rows
}
