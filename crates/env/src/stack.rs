//! How much stack the running thread has left.
//!
//! The bounds of a stack are read from `/proc/self/maps` when a thread first asks, and kept until a
//! question comes from outside of them. Where there is no such file, a thread is taken to have
//! [`UNKNOWN`] bytes below the place where it first asked.
//!
//! Invariants: the answer is never more than what is left, if the stack ends at an unmapped page.
//! Does not do: making room; a caller that needs more runs on a stack of its own
//! ([`crate::thread::on_stack`]).

use std::cell::Cell;
use std::fs;

/// Bytes that a thread is taken to have where the system does not say.
const UNKNOWN: usize = 256 << 10;

/// What the kernel keeps free below the stack of the first thread.
const GAP: usize = 1 << 20;

/// Addresses of a stack: the lowest one that can be used, and the end.
#[derive(Clone, Copy)]
struct Bounds {
    low: usize,
    end: usize,
}

thread_local! {
    static BOUNDS: Cell<Bounds> = const { Cell::new(Bounds { low: 0, end: 0 }) };
}

/// Bytes of the stack that the running thread has left.
pub fn left() -> usize {
    let place = 0u8;
    let here = std::ptr::from_ref(&place).addr();
    let mut bounds = BOUNDS.get();
    if !(bounds.low..bounds.end).contains(&here) {
        let unknown = Bounds { low: here.saturating_sub(UNKNOWN), end: here.saturating_add(1) };
        bounds = around(here).unwrap_or(unknown);
        BOUNDS.set(bounds);
    }
    here - bounds.low
}

/// Bytes of the running thread's stack that have been used since the thread began, at the deepest;
/// `None` where the system does not say. Whole pages are counted. For tests and measurements.
pub fn deepest() -> Option<usize> {
    let place = 0u8;
    let here = std::ptr::from_ref(&place).addr();
    let text = fs::read_to_string("/proc/self/smaps").ok()?;
    let mut lines = text.lines().skip_while(|line| !range(line).is_some_and(|r| r.holds(here)));
    let resident = lines.find_map(|line| line.strip_prefix("Rss:"))?;
    let kib: usize = resident.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

impl Bounds {
    fn holds(self, address: usize) -> bool {
        (self.low..self.end).contains(&address)
    }
}

/// The addresses that a line of the map of memory begins with.
fn range(line: &str) -> Option<Bounds> {
    let (low, end) = line.split_whitespace().next()?.split_once('-')?;
    let address = |digits| usize::from_str_radix(digits, 16).ok();
    Some(Bounds { low: address(low)?, end: address(end)? })
}

/// The stack that `here` is on.
fn around(here: usize) -> Option<Bounds> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let found = |line: &str| Some((range(line)?, line.ends_with("[stack]")));
    let (bounds, grows) = maps.lines().filter_map(found).find(|(range, _)| range.holds(here))?;
    if !grows {
        return Some(bounds);
    }
    // The first thread's stack is mapped as it grows, up to a limit.
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max stack size"))?;
    let limit = line.split_whitespace().next()?.parse().unwrap_or(8usize << 20);
    let low = bounds.end.saturating_sub(limit).saturating_add(GAP).min(here);
    Some(Bounds { low, end: bounds.end })
}

#[cfg(all(test, target_os = "linux", not(miri), not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::thread;

    /// Uses some stack and asks further down.
    #[inline(never)]
    fn below(levels: usize) -> usize {
        let room = std::hint::black_box([levels as u8; 512]);
        let left = if levels == 0 { left() } else { below(levels - 1) };
        left + usize::from(std::hint::black_box(room)[0]) - room[0] as usize
    }

    #[test]
    fn what_is_left_is_what_the_thread_was_given_less_what_it_uses() {
        for size in [128 << 10, 2 << 20, 16 << 20] {
            let asked = thread::on_stack("asks", size, || (left(), below(100), left()));
            let (before, inside, after) = asked.unwrap();
            assert!(before <= size + (64 << 10) && before + (32 << 10) >= size, "{before} {size}");
            assert!(inside + 100 * 512 <= before, "{inside} {before}");
            assert!(before.abs_diff(after) < 1 << 10, "{before} {after}");
        }
    }

    #[test]
    fn the_deepest_use_is_remembered() {
        let used = thread::on_stack("uses", 1 << 20, || {
            let before = deepest().unwrap();
            below(500);
            deepest().unwrap() - before
        });
        let used = used.unwrap();
        assert!((256 << 10..1 << 20).contains(&used), "{used}: 256 KiB and what calls take");
    }
}
