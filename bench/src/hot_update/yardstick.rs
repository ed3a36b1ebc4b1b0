//! How fast the machine is just now: work that is always the same, timed again and again.
//!
//! Processors that are shared with others give the same processor time and less work in it from
//! one minute to the next. Neither the load nor the engine can tell; a loop that has nothing to do
//! with either can. Two of them: one of arithmetic, one of loads that depend on each other in more
//! memory than the processor's caches hold.
//!
//! Invariants: a sample is short beside a time slice of the kernel, and the median of many is
//! taken, so that being put off the processor does not show.
//! Does not do: correct any figure.

use std::hint::black_box;
use std::time::Duration;

use rightlink_env::{Clock, Nanos, Rng};

use crate::stats::Summary;

/// Steps of a sample: some 100 us each way.
const ARITHMETIC: u32 = 100_000;
const LOADS: u32 = 1000;
/// Places of the memory that is walked, of 4 bytes each.
const PLACES: usize = 8 << 20;
/// Pause between samples.
const PAUSE: Duration = Duration::from_millis(100);

/// What a yardstick measures, as [`Yardstick::until`] gives it.
pub(crate) const NAMES: [&str; 2] = ["ns per multiplication", "ns per load"];

/// Work that is always the same.
pub(crate) struct Yardstick {
    /// One cycle through all places, in no order.
    next: Vec<u32>,
    at: u32,
}

impl Yardstick {
    /// Lays the walk out.
    pub(crate) fn new() -> Yardstick {
        let mut order: Vec<u32> = (0..PLACES as u32).collect();
        Rng::from_seed(1).shuffle(&mut order);
        let mut next = vec![0; PLACES];
        for (i, place) in order.iter().enumerate() {
            next[*place as usize] = order[(i + 1) % PLACES];
        }
        Yardstick { next, at: 0 }
    }

    /// Measures now and then until that time; the medians, in nanoseconds a step.
    pub(crate) fn until(&mut self, clock: &Clock, end: Nanos) -> [f64; 2] {
        let mut samples = [Vec::new(), Vec::new()];
        loop {
            let start = clock.now();
            black_box((0..ARITHMETIC).fold(1u64, |a, b| a.wrapping_mul(u64::from(b) | 3)));
            let middle = clock.now();
            self.at = (0..LOADS).fold(self.at, |at, _| self.next[at as usize]);
            let done = clock.now();
            samples[0].push((middle - start).as_nanos() as f64 / f64::from(ARITHMETIC));
            samples[1].push((done - middle).as_nanos() as f64 / f64::from(LOADS));
            let next = done + PAUSE;
            clock.sleep_until(next.min(end));
            if next >= end {
                return samples.map(|samples| Summary::of(samples).median);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_take_time_and_the_end_is_kept() {
        let (clock, mut yardstick) = (Clock::system(), Yardstick::new());
        let end = clock.now() + Duration::from_millis(250);
        let medians = yardstick.until(&clock, end);
        assert!(clock.now() >= end);
        assert!(medians.iter().all(|ns| *ns > 0.1 && *ns < 1e6), "{medians:?}");
    }

    #[test]
    fn the_walk_comes_to_every_place() {
        let yardstick = Yardstick::new();
        let (mut at, mut steps) = (0, 0);
        loop {
            (at, steps) = (yardstick.next[at as usize], steps + 1);
            if at == 0 {
                break;
            }
        }
        assert_eq!(steps, PLACES);
    }
}
