//! Chains and their map, without rows.

use rightlink_env::Broken;
use rightlink_env::{Rng, points};

use super::*;
use crate::buffer::testing::{self, TestPool};
use crate::error::Error;
use page::{CAPACITY, GROUP};

const ALL: &dyn Fn(u32) -> Result<()> = &|_| Ok(());

fn store(frames: usize) -> (TestPool, Overflow) {
    let pool = testing::pool(frames, 5);
    let store = Overflow::create(&pool.pool, FileId(70), true).unwrap();
    (pool, store)
}

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::from_seed(seed);
    (0..len).map(|_| rng.next_u32() as u8).collect()
}

fn clean(store: &Overflow) {
    store.orphans(&mut |block, what| panic!("block {block}: {what}")).unwrap();
}

/// Gives back all chains but those of `kept`.
fn sweep(pool: &TestPool, store: &Overflow, kept: &[OverflowPointer], horizon: Xid) -> Swept {
    let mut marks = SweepMarks::new(&pool.env.budget, 0, store.blocks());
    kept.iter().for_each(|value| marks.mark(*value));
    store.sweep(&marks, horizon, ALL).unwrap()
}

#[test]
fn values_of_all_lengths_come_back() {
    let (pool, store) = store(16);
    let c = CAPACITY;
    let lens = [0, 1, c - 1, c, c + 1, 2 * c - 1, 2 * c, 2 * c + 1, 40 * c + 7, 300_000];
    let mut values = Vec::new();
    for (n, len) in lens.into_iter().enumerate() {
        let creator = Xid(100 + n as u64);
        // As a whole, and in pieces of odd lengths beside another.
        values.push((n, len, store.store(creator, &bytes(n as u64, len)).unwrap()));
        let (mut one, mut other) =
            (store.write(creator, 1).unwrap(), store.write(creator, 9).unwrap());
        for piece in bytes(n as u64, len).chunks(1013) {
            one.push(piece).unwrap();
            other.push(piece).unwrap();
        }
        values.push((n, len, one.finish().unwrap()));
        values.push((n, len, other.finish().unwrap()));
    }
    drop(store.write(Xid(500), 100_000).unwrap());
    for round in 0..2 {
        for (n, len, value) in &values {
            assert_eq!(value.len as usize, *len);
            assert!(store.load(*value).unwrap() == bytes(*n as u64, *len), "{len} bytes");
            store.check(*value).unwrap();
            assert_eq!(OverflowPointer::from_bytes(&value.to_bytes()), *value);
        }
        clean(&store);
        if round == 0 {
            pool.pool.evict_all().unwrap();
        }
    }
}

#[test]
fn a_value_is_refused_beyond_its_limit_only() {
    let (_pool, store) = store(64);
    for (len, fits) in [(9_999, true), (10_000, true), (10_001, false)] {
        let mut writer = store.write(Xid(100), 0).unwrap().up_to(10_000);
        writer.push(&bytes(1, 5_000)).unwrap();
        let rest = writer.push(&bytes(2, len - 5_000));
        assert_eq!(rest.is_ok(), fits, "{len}");
        assert!(rest.is_ok() || matches!(rest, Err(Error::Limit(_))));
        assert_eq!(writer.total(), if fits { len as u64 } else { 5_000 });
        // The limit says no more than that the rest does not fit.
        assert_eq!(writer.finish().unwrap().len as usize, if fits { len } else { 5_000 });
    }
}

#[test]
fn what_nobody_names_is_given_back_and_used_again() {
    let (pool, store) = store(64);
    let values: Vec<_> =
        (0..10).map(|n| store.store(Xid(100 + n), &bytes(n, 30_000)).unwrap()).collect();
    let blocks = store.blocks();
    // Writers at the horizon and above may still name what they wrote.
    let swept = sweep(&pool, &store, &values[..3], Xid(107));
    assert_eq!(swept, Swept { chains: 4, pages: 16 });
    clean(&store);
    let again: Vec<_> =
        (20..24).map(|n| store.store(Xid(100 + n), &bytes(n, 30_000)).unwrap()).collect();
    assert_eq!(store.blocks(), blocks, "the free pages are used");
    for (n, value) in
        (0..3).chain(7..10).map(|n| (n, values[n as usize])).chain((20..24).zip(again))
    {
        assert!(store.load(value).unwrap() == bytes(n, 30_000), "value {n}");
    }
    // A name that is older than its pages leads to an error, not to another's value.
    assert!(matches!(store.load(values[4]), Err(Error::Corruption { .. })));
    assert_eq!(sweep(&pool, &store, &[], Xid(1000)).chains, 10);
    assert_eq!(sweep(&pool, &store, &[], Xid(1000)), Swept::default());
}

/// The horizon is what keeps a value whose row is still to come.
#[test]
fn without_the_horizon_a_value_goes_before_its_row_comes() {
    for rule in [None, Some(Broken::OverflowFreedEarly)] {
        let (pool, store) = store(64);
        let value = store.store(Xid(200), &bytes(1, 20_000)).unwrap();
        let broken = rule.map(points::break_rule);
        let swept = sweep(&pool, &store, &[], Xid(200));
        drop(broken);
        assert_eq!(swept.chains == 0, rule.is_none(), "{rule:?}");
        assert_eq!(store.check(value).is_ok(), rule.is_none(), "{rule:?}");
    }
}

#[test]
fn chains_go_on_behind_the_next_map() {
    let (pool, store) = store(64);
    store.pool().extend(store.file(), GROUP - 4).unwrap();
    store.shared.space.lock().hint = GROUP - 4;
    let value = store.store(Xid(100), &bytes(7, 80_000)).unwrap();
    assert_eq!(value.first, GROUP - 4);
    assert!(store.load(value).unwrap() == bytes(7, 80_000));
    store.check(value).unwrap();
    pool.pool.evict_all().unwrap();
    assert!(store.load(value).unwrap() == bytes(7, 80_000));
    assert_eq!(sweep(&pool, &store, &[], Xid(1000)), Swept { chains: 1, pages: 10 });
    clean(&store);
}

/// Marks for a few blocks at a time find the same.
#[test]
fn little_memory_means_several_rounds() {
    let (pool, store) = store(64);
    let values: Vec<_> =
        (0..40).map(|n| store.store(Xid(100), &bytes(n, 20_000)).unwrap()).collect();
    let _all = pool.env.budget.try_reserve(pool.env.budget.available()).unwrap();
    let (mut from, mut chains) = (0, 0);
    while from < store.blocks() {
        let mut marks = SweepMarks::new(&pool.env.budget, from, store.blocks());
        values.iter().step_by(2).for_each(|value| marks.mark(*value));
        chains += store.sweep(&marks, Xid(1000), ALL).unwrap().chains;
        from = marks.range().end;
    }
    assert_eq!(chains, 20);
    values.iter().step_by(2).for_each(|value| store.check(*value).unwrap());
    clean(&store);
}
