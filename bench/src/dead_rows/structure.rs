//! What is compared: the radix tree, and what one would take instead of it.
//!
//! `ours` is the map, or vacuum's set of row ids; `set` the tree without values, and without the
//! coding of row ids; `fixed` the same in nodes of fixed sizes, the map where there are values.
//!
//! Invariants: each looks up what the others look up, and answers alike. A set of row ids is given
//! to the others packed into as few bits as its slots need, which is the best for them.
//! Does not do: deletion, concurrency.

use std::collections::BTreeSet;
use std::ops::Range;

use rightlink::RowId;
use rightlink::internal::vacuum::DeadRows;
use rightlink_env::Budget;
use rightlink_radix::{Map, Set, Shape, Sizes};
use roaring::RoaringTreemap;

use crate::dead_rows::sets::Keys;

/// Names of the structures.
pub(crate) const NAMES: &[&str] = &["ours", "set", "fixed", "roaring", "array", "btree"];

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

/// What is asked of a structure: keys, and as row ids if it knows these.
pub(crate) struct Probes {
    keys: Vec<u64>,
    rows: Vec<RowId>,
}

impl Probes {
    /// A part of the keys, and of the row ids if there are some.
    fn part(&self, part: &Range<usize>) -> (&[u64], &[RowId]) {
        (&self.keys[part.clone()], self.rows.get(part.clone()).unwrap_or(&[]))
    }
}

/// The key that a structure other than ours stores for a row id: 9 bits hold any slot.
fn packed(key: u64) -> u64 {
    key >> 16 << 9 | (key & 0x1FF)
}

impl Structure {
    /// The bytes that it says to the byte that it takes, if it does.
    pub(crate) fn says(&self) -> Option<usize> {
        match self {
            Structure::Map(map) => Some(map.memory()),
            Structure::Set(set) => Some(set.memory()),
            _ => None,
        }
    }

    /// The nodes of a radix tree.
    pub(crate) fn shape(&self) -> Option<Shape> {
        match self {
            Structure::Map(map) => Some(map.shape()),
            Structure::Set(set) => Some(set.shape()),
            _ => None,
        }
    }

    /// The structure called `name`, filled.
    pub(crate) fn build(name: &str, keys: &Keys) -> Result<Structure, String> {
        let pack = |key: &u64| if keys.rows { packed(*key) } else { *key };
        let sorted = || keys.sorted.iter().map(pack);
        let in_order = keys.drawn.is_empty();
        Ok(match name {
            "ours" if keys.rows => Structure::Rows(dead_rows(&keys.sorted)),
            "set" => {
                let mut set = Set::new();
                if in_order {
                    set.extend_sorted(sorted().map(|key| (key, ())));
                }
                keys.drawn.iter().for_each(|key| _ = set.insert(*key, ()));
                Structure::Set(set)
            }
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

    /// The probes as this structure is asked for them.
    pub(crate) fn probes(&self, keys: &Keys, probes: &[u64]) -> Probes {
        let ours = matches!(self, Structure::Rows(_));
        let key = |key: &u64| if keys.rows && !ours { packed(*key) } else { *key };
        let rows = if ours { probes } else { &[] };
        Probes {
            keys: probes.iter().map(key).collect(),
            rows: rows.iter().map(|key| RowId::from_u64(*key)).collect(),
        }
    }

    /// How many of `probes` are there, asked one by one; ours through a cursor.
    pub(crate) fn hits(&self, probes: &Probes, part: &Range<usize>) -> u64 {
        let (keys, rows) = probes.part(part);
        match self {
            Structure::Rows(set) => {
                let mut cursor = set.cursor();
                rows.iter().map(|row| u64::from(cursor.contains(*row))).sum()
            }
            _ => self.key_hits(keys),
        }
    }

    fn key_hits(&self, probes: &[u64]) -> u64 {
        match self {
            Structure::Map(map) => {
                let mut cursor = map.cursor();
                count(probes, |key| cursor.contains(key))
            }
            Structure::Set(set) => {
                let mut cursor = set.cursor();
                count(probes, |key| cursor.contains(key))
            }
            Structure::Rows(set) => count(probes, |key| set.contains(RowId::from_u64(key))),
            Structure::Roaring(set) => count(probes, |key| set.contains(key)),
            Structure::Array(array) => count(probes, |key| array.binary_search(&key).is_ok()),
            Structure::BTree(set) => count(probes, |key| set.contains(&key)),
        }
    }

    /// The same, and each value is read where there are values: it is the key.
    pub(crate) fn values(&self, probes: &Probes, part: &Range<usize>) -> u64 {
        match self {
            Structure::Map(map) => {
                let mut cursor = map.cursor();
                count(probes.part(part).0, |key| cursor.get(key) == Some(key))
            }
            _ => self.hits(probes, part),
        }
    }

    /// How many of `probes` are there, asked leaf by leaf.
    pub(crate) fn leaf_hits(&self, probes: &Probes, part: &Range<usize>) -> u64 {
        let (keys, ids) = probes.part(part);
        let mut dead = [false; LEAF];
        match self {
            Structure::Map(map) => {
                let mut values = [None; LEAF];
                leaves(keys, |leaf| {
                    map.get_each(leaf, &mut values[..leaf.len()]);
                    leaf.iter().zip(&values).filter(|(key, value)| **value == Some(**key)).count()
                })
            }
            Structure::Set(set) => leaves(keys, |leaf| {
                set.contains_each(leaf, &mut dead[..leaf.len()]);
                dead[..leaf.len()].iter().filter(|dead| **dead).count()
            }),
            Structure::Rows(rows) => leaves(ids, |leaf| {
                rows.probe(leaf, &mut dead[..leaf.len()]);
                dead[..leaf.len()].iter().filter(|dead| **dead).count()
            }),
            Structure::Array(array) => leaves(keys, |leaf| gallop(array, leaf)),
            // These have no batched lookup.
            _ => self.hits(probes, part),
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

fn leaves<T>(probes: &[T], mut hits: impl FnMut(&[T]) -> usize) -> u64 {
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
    // As a vacuum does before it cleans indexes.
    rows.list_places();
    rows
}
