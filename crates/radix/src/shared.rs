//! A map that many threads read while some write.
//!
//! Keys are dealt out to shards by ranges: `1 << range_bits` neighbouring keys lie in one shard,
//! the next ones in the next. A shard is a tree, a lock for its writers and a version. A writer
//! makes the version odd, changes the tree, makes it even again. A reader looks at the version,
//! searches, and looks again: if the version is the same and even, nothing was written in between,
//! else it tries again, and after a few times it takes the lock. So a reader writes to no shared
//! memory, and writers wait only for writers of their shard.
//!
//! Why a search beside a writer is sound: every word is atomic and stays allocated (`words`), and
//! searching ends and never panics, whatever it reads (`node`, `store`). Why its answer is right:
//! the odd version is stored before the release fence and the changes after it, so a reader that
//! saw any change sees, after its acquire fence, the odd version or a later one.
//!
//! Invariants: answers are those of some moment between call and return. Does not do: one moment
//! for several keys, unless they are asked for in one call and lie in one shard.

use rightlink_env::Broken;
use rightlink_env::points::broken;
use rightlink_env::sync::{AtomicU64, Mutex, Ordering, fence, spin_hint};

use crate::edit::{Editor, Sizes};
use crate::iter::ends;
use crate::slabs::Slabs;
use crate::store::{Fixed, Store};
use std::ops::RangeBounds;

/// Attempts before a reader takes the lock.
const ATTEMPTS: u32 = if cfg!(feature = "shuttle") { 2 } else { 32 };

/// A sorted map from 64-bit keys to values of a word or none, for many threads.
#[derive(Debug)]
pub struct Shared<V> {
    shards: Box<[Shard<V>]>,
    range_bits: u32,
}

/// On lines of its own, so that writers of different shards do not share one.
#[repr(align(128))]
#[derive(Debug)]
struct Shard<V> {
    version: AtomicU64,
    store: Store<V>,
    writer: Mutex<Writer>,
}

#[derive(Debug)]
struct Writer {
    slabs: Slabs,
    len: usize,
}

impl<V: Fixed> Shard<V> {
    fn new() -> Shard<V> {
        let writer = Mutex::new(Writer { slabs: Slabs::new(), len: 0 });
        Shard { version: AtomicU64::new(0), store: Store::new(), writer }
    }

    /// What `search` finds, at one moment.
    #[inline]
    fn read<R>(&self, search: impl Fn(&Store<V>) -> R) -> R {
        for _ in 0..ATTEMPTS {
            let version = self.version.load(Ordering::Acquire);
            if version.is_multiple_of(2) {
                let found = search(&self.store);
                fence(Ordering::Acquire);
                let same = self.version.load(Ordering::Relaxed) == version;
                if same || broken(Broken::RadixReadNotValidated) {
                    return found;
                }
            }
            spin_hint();
        }
        let _writer = self.writer.lock();
        let version = self.version.load(Ordering::Relaxed);
        assert!(version.is_multiple_of(2), "a writer stopped in the middle");
        search(&self.store)
    }

    /// Changes the tree; `change` returns how many keys came and went.
    fn write<R>(&self, change: impl FnOnce(&mut Editor<'_, V>) -> (R, isize)) -> R {
        let mut writer = self.writer.lock();
        let version = self.version.load(Ordering::Relaxed);
        assert!(version.is_multiple_of(2), "a writer stopped in the middle");
        if !broken(Broken::RadixVersionNotMarked) {
            self.version.store(version + 1, Ordering::Relaxed);
        }
        fence(Ordering::Release);
        let (store, sizes) = (&self.store, Sizes::Variable);
        let (result, more) = change(&mut Editor { store, slabs: &mut writer.slabs, sizes });
        self.version.store(version + 2, Ordering::Release);
        writer.len = writer.len.checked_add_signed(more).expect("what goes was there");
        result
    }
}

impl<V: Fixed> Shared<V> {
    /// An empty map of `shards` shards, in which `1 << range_bits` neighbouring keys stay together.
    pub fn new(shards: usize, range_bits: u32) -> Shared<V> {
        assert!(shards > 0 && range_bits < 64, "a shard, and ranges shorter than all keys");
        Shared { shards: (0..shards).map(|_| Shard::new()).collect(), range_bits }
    }

    fn shard(&self, key: u64) -> &Shard<V> {
        let range = key >> self.range_bits;
        &self.shards[(range % self.shards.len() as u64) as usize]
    }

    /// Stores `value` under `key`. Returns the value that was there.
    pub fn insert(&self, key: u64, value: V) -> Option<V> {
        let old = self.shard(key).write(|editor| {
            let old = editor.insert(key, value.to_word());
            (old, isize::from(old.is_none()))
        });
        old.map(V::from_word)
    }

    /// Removes `key`. Returns its value.
    pub fn remove(&self, key: u64) -> Option<V> {
        let old = self.shard(key).write(|editor| {
            let old = editor.remove(key);
            (old, -isize::from(old.is_some()))
        });
        old.map(V::from_word)
    }

    /// The value of `key`.
    pub fn get(&self, key: u64) -> Option<V> {
        self.shard(key).read(|store| store.get(key)).map(V::from_word)
    }

    /// Is there such a key?
    pub fn contains(&self, key: u64) -> bool {
        self.shard(key).read(|store| store.contains(key))
    }

    /// The first entry whose key is at least `from`. Entries that come or go meanwhile may be seen
    /// or not.
    pub fn next(&self, from: u64) -> Option<(u64, V)> {
        let first = |shard: &Shard<V>| {
            shard.read(|store| store.seek(from).map(|entry| (entry.key, store.value(entry))))
        };
        let found = self.shards.iter().filter_map(first).min_by_key(|(key, _)| *key);
        found.map(|(key, word)| (key, V::from_word(word)))
    }

    /// Is there a key in `range`?
    pub fn any_in(&self, range: impl RangeBounds<u64>) -> bool {
        let found = |(first, last)| self.next(first).is_some_and(|(key, _)| key <= last);
        ends(&range).is_some_and(found)
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.writer.lock().len).sum()
    }

    /// No keys?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that the map has allocated, to the byte.
    pub fn memory(&self) -> usize {
        let trees: usize = self.shards.iter().map(|s| s.writer.lock().slabs.memory()).sum();
        trees + self.shards.len() * size_of::<Shard<V>>()
    }
}
