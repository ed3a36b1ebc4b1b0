//! Trees against the ordered map of the standard library, from seeds that a failure prints. Small
//! enough for Miri: `cargo +nightly miri test -p rightlink-radix --lib`.

use std::collections::BTreeMap;

use rightlink_env::Rng;

use crate::edit::check;
use crate::{BytesMap, Fixed, Map, Set, Shape, Sizes};

/// How the keys of a run lie.
#[derive(Clone, Copy, Debug)]
enum Keys {
    Dense,
    /// Few leaves that fill and empty.
    Crowded,
    Random,
    /// Single bits and their neighbours: every level, both ends.
    Bits,
    /// Two bytes with a gap between them, as the sets with random nodes.
    Gaps,
    /// Inner nodes of every size.
    Wide,
}

const ALL: [Keys; 6] =
    [Keys::Dense, Keys::Crowded, Keys::Random, Keys::Bits, Keys::Gaps, Keys::Wide];

impl Keys {
    fn draw(self, rng: &mut Rng) -> u64 {
        match self {
            Keys::Dense => rng.below(3000),
            Keys::Crowded => rng.below(4) << 40 | rng.below(256),
            Keys::Random => rng.next_u64(),
            Keys::Bits => (1u64 << rng.below(64)).wrapping_sub(rng.below(3)),
            Keys::Gaps => rng.next_u64() & 0x1F03_0000_00FF,
            Keys::Wide => rng.below(300) << 16 | rng.below(2) << 8,
        }
    }
}

impl Set {
    fn from_keys(keys: impl IntoIterator<Item = u64>) -> Set {
        let mut set = Set::new();
        set.extend_sorted(keys.into_iter().map(|key| (key, ())));
        set
    }
}

const ROUNDS: usize = if cfg!(miri) { 48 } else { 12_000 };
const COMPARISONS: usize = if cfg!(miri) { 2 } else { 40 };

fn run<V: Fixed + PartialEq + std::fmt::Debug>(
    keys: Keys,
    seed: u64,
    sizes: Sizes,
    value: impl Fn(u64) -> V,
) {
    let mut rng = Rng::from_seed(seed);
    let (mut map, mut model) = (Map::with_sizes(sizes), BTreeMap::new());
    for round in 0..ROUNDS {
        // Phases of growth and of decline, so that nodes take every size in both directions.
        let grows = if (round / (ROUNDS / 4)).is_multiple_of(2) { 4 } else { 1 };
        let (key, word) = (keys.draw(&mut rng), rng.next_u64());
        if rng.below(5) < grows {
            assert_eq!(map.insert(key, value(word)), model.insert(key, value(word)));
        } else {
            let key = model.range(key..).next().map_or(key, |(key, _)| *key);
            assert_eq!(map.remove(key), model.remove(&key), "{keys:?} {seed} {key:#x}");
        }
        let probe = keys.draw(&mut rng);
        assert_eq!(map.get(probe), model.get(&probe).copied(), "{keys:?} {seed} {probe:#x}");
        if round % (ROUNDS / COMPARISONS) == 0 {
            compare(&map, &model, &mut rng, keys);
        }
    }
    compare(&map, &model, &mut rng, keys);
    for key in model.keys() {
        assert!(map.remove(*key).is_some());
    }
    assert!(map.is_empty() && map.census().is_empty() && map.iter().next().is_none());
}

fn compare<V: Fixed + PartialEq + std::fmt::Debug>(
    map: &Map<V>,
    model: &BTreeMap<u64, V>,
    rng: &mut Rng,
    keys: Keys,
) {
    assert_eq!(map.len(), model.len());
    let root = map.store.root();
    let counted = if root.is_none() { 0 } else { check(&map.store, root, None) };
    assert_eq!(counted, model.len());
    assert!(map.iter().eq(model.iter().map(|(key, value)| (*key, *value))));
    for _ in 0..if cfg!(miri) { 2 } else { 20 } {
        let (a, b) = (keys.draw(rng), keys.draw(rng));
        let (low, high) = (a.min(b), a.max(b));
        assert!(map.range(low..high).eq(model.range(low..high).map(|(k, v)| (*k, *v))));
        let near = low..=low.saturating_add(rng.below(300));
        assert_eq!(map.any_in(near.clone()), model.range(near).next().is_some());
    }
    let mut probes: Vec<u64> =
        (0..if cfg!(miri) { 9 } else { 77 }).map(|_| keys.draw(rng)).collect();
    for sorted in [false, true] {
        if sorted {
            probes.sort_unstable();
        }
        let mut found = vec![None; probes.len()];
        map.get_each(&probes, &mut found);
        assert!(probes.iter().zip(&found).all(|(key, value)| *value == model.get(key).copied()));
        let mut there = vec![false; probes.len()];
        map.contains_each(&probes, &mut there);
        assert!(there.iter().zip(&found).all(|(there, value)| *there == value.is_some()));
        let (mut values, mut keys) = (map.cursor(), map.cursor());
        assert!(probes.iter().zip(&found).all(|(key, value)| values.get(*key) == *value));
        assert!(probes.iter().zip(&there).all(|(key, there)| keys.contains(*key) == *there));
    }
}

#[test]
fn a_map_is_the_ordered_map() {
    for (seed, keys) in ALL.into_iter().enumerate() {
        run::<u64>(keys, seed as u64, Sizes::Variable, |word| word);
    }
}

#[test]
fn a_map_with_fixed_sizes_is_the_ordered_map() {
    for (seed, keys) in ALL.into_iter().enumerate() {
        run::<u64>(keys, 100 + seed as u64, Sizes::Fixed, |word| word);
    }
}

#[test]
fn a_set_is_the_ordered_set() {
    for (seed, keys) in ALL.into_iter().enumerate() {
        run::<()>(keys, 200 + seed as u64, Sizes::Variable, |_| ());
    }
}

#[test]
fn sorted_entries_make_the_same_map_in_less_memory() {
    for (seed, keys) in ALL.into_iter().enumerate() {
        let mut rng = Rng::from_seed(300 + seed as u64);
        let mut model = BTreeMap::new();
        let mut bulk = Map::new();
        for _ in 0..3 {
            let more: BTreeMap<u64, u64> =
                (0..ROUNDS / 6).map(|_| (keys.draw(&mut rng), rng.next_u64())).collect();
            let before = model.len();
            model.extend(&more);
            assert_eq!(bulk.extend_sorted(more), model.len() - before);
            compare(&bulk, &model, &mut rng, keys);
        }
    }
}

#[test]
#[should_panic(expected = "the keys ascend")]
fn entries_that_do_not_ascend_are_refused() {
    Set::new().extend_sorted([(1, ()), (1, ())]);
}

#[test]
fn the_ends_of_the_keys_are_keys() {
    let mut map = Map::new();
    map.extend_sorted([(0, 1u32), (u64::MAX, 2)]);
    assert_eq!(map.iter().collect::<Vec<_>>(), [(0, 1), (u64::MAX, 2)]);
    assert_eq!(map.range(1..).next(), Some((u64::MAX, 2)));
    assert!(!map.any_in(1..u64::MAX) && map.any_in(..) && !map.any_in(5..5));
    map.clear();
    assert!(map.is_empty() && !map.any_in(..));
}

/// Sets whose nodes are known, and every node of any set is a block.
#[test]
fn nodes_are_counted_by_kind() {
    assert_eq!(Set::new().shape(), Shape::default());
    let small = Set::from_keys([5, 6]);
    assert_eq!(small.shape(), Shape { small: 1, leaves: 1, ..Shape::default() });
    // 32 keys in each of 300 leaves: below a root of two children, which are inner nodes.
    let map = Set::from_keys((0..300 * 32).map(|key| key * 8));
    let expected = Shape { height: 2, small: 1, ranked: 301, full: 1, leaves: 300 };
    assert_eq!(map.shape(), expected);
    let deep = Set::from_keys((0..256).chain(1 << 40..(1 << 40) + 9));
    assert_eq!(deep.shape(), Shape { height: 5, small: 1, ranked: 2, full: 0, leaves: 2 });
    for (seed, keys) in ALL.into_iter().enumerate() {
        let mut rng = Rng::from_seed(500 + seed as u64);
        let mut map = Map::new();
        for _ in 0..if cfg!(miri) { 20 } else { 2_000 } {
            map.insert(keys.draw(&mut rng), 1u32);
        }
        let Shape { small, ranked, full, leaves, .. } = map.shape();
        let blocks: u32 = map.census().iter().map(|(_, blocks)| blocks).sum();
        assert_eq!(small + ranked + full, blocks as usize, "{keys:?}");
        let mut bases: Vec<u64> = map.iter().map(|(key, _)| key >> 8).collect();
        bases.dedup();
        assert_eq!(leaves, bases.len(), "{keys:?}");
    }
}

#[test]
fn values_of_any_length_come_back() {
    let rounds = if cfg!(miri) { 15 } else { 6_000 };
    for (seed, keys) in ALL.into_iter().enumerate() {
        let mut rng = Rng::from_seed(400 + seed as u64);
        let (mut map, mut model) = (BytesMap::new(), BTreeMap::new());
        for round in 0..rounds {
            let key = keys.draw(&mut rng);
            if rng.chance(2, 3) {
                let long = if rng.chance(1, 50) { 9000 } else { 40 };
                let mut bytes = vec![0; rng.index(long)];
                rng.fill(&mut bytes);
                let (tag, bound) = (rng.next_u32() as u16, map.memory_after(1));
                assert_eq!(map.insert(key, tag, &bytes), model.insert(key, (tag, bytes)).is_none());
                assert!(map.memory() <= bound, "{} > {bound}", map.memory());
            } else {
                assert_eq!(map.remove(key), model.remove(&key).is_some());
            }
            if round % (rounds / 5) == 0 {
                let pairs = map.range(..).map(|(key, v)| (key, (v.tag(), v.to_vec())));
                assert!(pairs.eq(model.clone()), "{keys:?} {seed}");
            }
        }
        let probes: Vec<u64> = (0..100).map(|_| keys.draw(&mut rng)).collect();
        map.get_each(&probes, |i, value| {
            let expected = model.get(&probes[i]);
            assert_eq!(value.map(|v| (v.tag(), v.to_vec())), expected.cloned());
            let last = value.filter(|v| !v.is_empty()).map(|v| v.byte(v.len() - 1));
            assert_eq!(last, expected.and_then(|(_, bytes)| bytes.last().copied()));
            let placed = map.at(map.place(probes[i])).map(|v| (v.tag(), v.to_vec()));
            assert_eq!(placed.as_ref(), expected);
        });
        model.keys().for_each(|key| assert!(map.remove(*key)));
        assert!(map.is_empty() && map.census().is_empty());
    }
}
