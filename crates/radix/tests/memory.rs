//! The memory that a tree reports is what it asked the allocator for, to the byte.

#![cfg(not(feature = "shuttle"))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use rightlink_env::Rng;
use rightlink_radix::{BytesMap, Map, Set};

struct Counting;

thread_local! {
    /// Bytes that this thread holds: the test runner's own threads do not count.
    static LIVE: Cell<usize> = const { Cell::new(0) };
}

fn live() -> usize {
    LIVE.get()
}

// SAFETY: hands every call on to the system's allocator and only counts.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: as `alloc` of the trait asks, which the caller promises.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.set(LIVE.get().wrapping_add(layout.size()));
        // SAFETY: the caller's promises are handed on.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: as `dealloc` of the trait asks, which the caller promises.
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.set(LIVE.get().wrapping_sub(layout.size()));
        // SAFETY: the caller's promises are handed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn memory_is_known_to_the_byte() {
    let mut rng = Rng::from_seed(1);
    let before = live();
    let held = || live().wrapping_sub(before);
    let mut map = Map::<u64>::new();
    for round in 0..200_000 {
        map.insert(rng.next_u64() & 0x7_00FF_00FF, round);
        if round % 1000 == 0 {
            assert_eq!(map.memory(), held());
        }
    }
    let keys: Vec<u64> = map.iter().map(|(key, _)| key).collect();
    let beside = keys.capacity() * size_of::<u64>();
    for key in &keys {
        map.remove(*key);
    }
    assert_eq!(map.memory() + beside, held());
    map.clear();
    let mut set = Set::new();
    set.extend_sorted(keys.iter().map(|key| (*key, ())));
    assert_eq!(map.memory() + set.memory() + beside, held());
    let mut bytes = BytesMap::new();
    for key in &keys {
        bytes.insert(*key, 0, &[7; 70][..(*key % 70) as usize]);
    }
    let sum = map.memory() + set.memory() + bytes.memory() + beside;
    assert_eq!(sum, held());
    drop((map, set, bytes, keys));
    assert_eq!(held(), 0);
}
