//! Several transactions, interleaved at random, against a model of snapshot isolation.
//!
//! The test keeps what an index would: for each row the row ids of all its roots. Vacuum takes dead
//! roots out of it before it frees them (R3).

use std::collections::BTreeMap;

use super::*;
use rightlink_env::Rng;

type Key = u32;
type State = BTreeMap<Key, Vec<u8>>;

/// A running transaction and what it should see.
struct Running {
    txn: Transaction,
    /// What it sees: the committed state when it began, and its own changes.
    sees: State,
    /// Commit sequence when it began.
    began: u64,
    /// Keys whose row it has written.
    wrote: Vec<Key>,
    /// Keys whose row it has locked, alone or with others.
    locked: Vec<Key>,
    shared: Vec<Key>,
}

struct World {
    fixture: Fixture,
    rng: Rng,
    committed: State,
    /// Commit sequence of the last change of each key.
    changed: BTreeMap<Key, u64>,
    sequence: u64,
    running: Vec<Running>,
    roots: BTreeMap<Key, Vec<RowId>>,
    next_key: Key,
    counts: Counts,
}

/// What happened, so that the test can tell whether it tested anything.
#[derive(Default, Debug)]
struct Counts {
    done: u32,
    waits: u32,
    changed: u32,
    hot: u32,
    shared: u32,
    freed: u64,
}

impl World {
    fn new(seed: u64, frames: usize) -> World {
        World {
            fixture: Fixture::with(frames, HeapOptions { fillfactor: 80, logged: true }),
            rng: Rng::from_seed(seed),
            committed: State::new(),
            changed: BTreeMap::new(),
            sequence: 0,
            running: Vec::new(),
            roots: BTreeMap::new(),
            next_key: 0,
            counts: Counts::default(),
        }
    }

    fn row(&mut self, key: Key) -> Vec<u8> {
        let len = if self.rng.chance(1, 30) { 2500 } else { 10 + self.rng.index(200) };
        let mut row = vec![self.rng.next_u32() as u8; len];
        row[..4].copy_from_slice(&key.to_le_bytes());
        row
    }

    fn begin(&mut self) {
        let mut txn = self.fixture.begin();
        txn.begin_statement().expect("a snapshot");
        let sees = self.committed.clone();
        let began = self.sequence;
        let (wrote, locked, shared) = (Vec::new(), Vec::new(), Vec::new());
        self.running.push(Running { txn, sees, began, wrote, locked, shared });
    }

    fn end(&mut self, who: usize) {
        let running = self.running.remove(who);
        if self.rng.chance(1, 4) {
            running.txn.rollback();
            return;
        }
        running.txn.commit(self.rng.chance(1, 2)).expect("committed");
        self.sequence += 1;
        for key in running.wrote {
            self.changed.insert(key, self.sequence);
            match running.sees.get(&key) {
                Some(row) => self.committed.insert(key, row.clone()),
                None => self.committed.remove(&key),
            };
        }
    }

    fn insert(&mut self, who: usize) {
        let count = 1 + self.rng.index(4) as Key;
        let keys: Vec<Key> = (self.next_key..self.next_key + count).collect();
        self.next_key += count;
        let rows: Vec<Vec<u8>> = keys.iter().map(|key| self.row(*key)).collect();
        let slices: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
        let running = &mut self.running[who];
        running.txn.begin_statement().expect("a statement");
        let xid = running.txn.xid().expect("an xid");
        let ids = self.fixture.heap.insert_many(xid, &slices).expect("inserted");
        if self.rng.chance(1, 10) {
            running.txn.rollback_statement();
            for (key, id) in keys.iter().zip(ids) {
                self.roots.entry(*key).or_default().push(id);
            }
            return;
        }
        for ((key, row), id) in keys.into_iter().zip(rows).zip(ids) {
            running.wrote.push(key);
            running.sees.insert(key, row);
            self.roots.entry(key).or_default().push(id);
        }
    }

    /// The version that `who` sees of `key`, as an index scan would find it.
    fn find(&mut self, who: usize, key: Key) -> Option<(RowId, Vec<u8>)> {
        let snapshot = self.running[who].txn.begin_statement().expect("a statement");
        let mut found = None;
        for root in self.roots.get(&key).into_iter().flatten() {
            let fetched = self.fixture.heap.fetch(&snapshot, *root).expect("fetched");
            if let Some(row) = fetched.row {
                assert!(!fetched.all_dead);
                assert!(found.is_none(), "key {key} is seen twice");
                found = Some(row);
            }
        }
        found
    }

    /// What must come of a write of `key` by `who`, or of sharing it.
    fn expect(&self, who: usize, key: Key, shares: bool) -> &'static str {
        let others = || self.running.iter().enumerate().filter(|(i, _)| *i != who);
        if self.changed.get(&key).is_some_and(|at| *at > self.running[who].began) {
            return "changed";
        }
        let busy = |other: &Running| {
            let alone = other.wrote.contains(&key) || other.locked.contains(&key);
            alone || !shares && other.shared.contains(&key)
        };
        if others().any(|(_, other)| busy(other)) { "wait" } else { "done" }
    }

    fn write(&mut self, who: usize) {
        let mut keys: Vec<Key> = self.running[who].sees.keys().copied().collect();
        if self.rng.chance(1, 4) {
            // Keys that are shared already: else few would ever be by two.
            let shared = |key: &Key| self.running.iter().any(|other| other.shared.contains(key));
            keys.retain(shared);
        }
        let Some(key) = self.rng.pick(&keys).copied() else { return };
        let (at, row) = self.find(who, key).expect("it sees the row");
        assert_eq!(Some(&row), self.running[who].sees.get(&key), "key {key}");
        let (what, hot, new) = (self.rng.index(12), self.rng.chance(3, 4), self.row(key));
        let (heap, running) = (&self.fixture.heap, &mut self.running[who]);
        let outcome = match what {
            0..6 => heap.update(&mut running.txn, at, &new, hot),
            6..8 => heap.delete(&mut running.txn, at),
            8..10 => heap.lock(&mut running.txn, at, RowLock::Exclusive),
            _ => heap.lock(&mut running.txn, at, RowLock::Shared),
        };
        let outcome = outcome.expect("judged");
        let label = match outcome {
            WriteOutcome::Done { .. } => "done",
            WriteOutcome::Wait(_)
            | WriteOutcome::NotYetCommitted(_)
            | WriteOutcome::Locked { .. } => "wait",
            WriteOutcome::Changed { .. } => "changed",
            WriteOutcome::Gone => "gone",
        };
        assert_eq!(label, self.expect(who, key, what >= 10), "key {key} at {at}: {outcome:?}");
        self.counts.waits += u32::from(label == "wait");
        self.counts.changed += u32::from(label == "changed");
        let WriteOutcome::Done { row_id, heap_only, .. } = outcome else { return };
        self.counts.done += 1;
        let undo = self.rng.chance(1, 8);
        let shared = self.running.iter().filter(|other| other.shared.contains(&key)).count();
        self.counts.shared += u32::from(what >= 10 && shared > 0);
        if what < 6 && !heap_only {
            self.roots.entry(key).or_default().push(row_id);
        }
        self.counts.hot += u32::from(heap_only);
        let running = &mut self.running[who];
        match what {
            _ if undo => running.txn.rollback_statement(),
            0..6 => drop((running.wrote.push(key), running.sees.insert(key, new))),
            6..8 => drop((running.wrote.push(key), running.sees.remove(&key))),
            8..10 => running.locked.push(key),
            _ => running.shared.push(key),
        }
    }

    fn check(&mut self, who: usize) {
        let snapshot = self.running[who].txn.begin_statement().expect("a statement");
        let scanned: State = scan(&self.fixture.heap, &snapshot)
            .into_iter()
            .map(|(_, row)| (u32::from_le_bytes(row[..4].try_into().expect("four")), row))
            .collect();
        assert!(scanned == self.running[who].sees, "the scan of transaction {who}");
        drop(snapshot);
        let keys: Vec<Key> = self.roots.keys().copied().collect();
        for _ in 0..20 {
            let Some(key) = self.rng.pick(&keys).copied() else { return };
            let found = self.find(who, key).map(|(_, row)| row);
            assert_eq!(found.as_ref(), self.running[who].sees.get(&key), "key {key}");
        }
    }

    fn vacuum(&mut self) {
        let (mut dead, _) = self.fixture.vacuum_all();
        dead.extend(self.fixture.heap.take_dead_roots().into_iter().map(|root| root.row_id));
        dead.sort();
        dead.dedup();
        for roots in self.roots.values_mut() {
            roots.retain(|root| dead.binary_search(root).is_err());
        }
        self.counts.freed += self.fixture.heap.free_slots(&dead, &|| Ok(())).expect("freed");
    }

    fn step(&mut self) {
        if self.running.len() < 4 {
            return self.begin();
        }
        let who = self.rng.index(self.running.len());
        match self.rng.index(40) {
            0..8 => self.insert(who),
            8..30 => self.write(who),
            30..33 => self.check(who),
            33..38 => self.end(who),
            38 => self.vacuum(),
            _ => {
                let block = 1 + self.rng.index(self.fixture.heap.blocks() as usize);
                let dead = self.fixture.heap.prune(BlockNo(block as u32)).expect("pruned");
                drop(dead);
            }
        }
    }
}

#[test]
fn interleaved_transactions_match_snapshot_isolation() {
    let mut total = Counts::default();
    for seed in 0..12 {
        let mut world = World::new(seed, if seed % 3 == 0 { 32 } else { 256 });
        for step in 0..600 {
            world.step();
            if step % 100 == 99 {
                world.fixture.assert_sound();
            }
        }
        while !world.running.is_empty() {
            world.check(0);
            world.end(0);
        }
        world.vacuum();
        world.fixture.assert_sound();
        world.begin();
        world.check(0);
        total.done += world.counts.done;
        total.waits += world.counts.waits;
        total.changed += world.counts.changed;
        total.shared += world.counts.shared;
        total.hot += world.counts.hot;
        total.freed += world.counts.freed;
    }
    assert!(total.done > 1000 && total.waits > 100 && total.changed > 100, "{total:?}");
    assert!(total.hot > 500 && total.freed > 100 && total.shared > 40, "{total:?}");
}
