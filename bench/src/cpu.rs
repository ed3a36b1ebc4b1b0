//! Time that this thread has run: what it did alone, without what neighbours took from it.
//!
//! The kernel adds it up every few milliseconds, so what takes less than [`COARSE`] is elapsed
//! time.
//!
//! Invariants: only differences mean anything. Where the kernel does not tell, it is elapsed time.
//! Does not do: time of other threads; waiting counts as nothing.

use std::time::Duration;

use rightlink_env::Clock;

/// What takes less is timed by the clock.
const COARSE: Duration = Duration::from_millis(40);

/// A stopwatch on this thread's own time.
pub(crate) struct Cpu {
    clock: Clock,
}

impl Cpu {
    /// A stopwatch.
    pub(crate) fn new() -> Cpu {
        Cpu { clock: Clock::system() }
    }

    /// Nanoseconds on a processor since some moment, if the kernel tells.
    fn now(&self) -> Option<u64> {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        text.split_whitespace().next()?.parse().ok()
    }

    /// How long `work` ran.
    pub(crate) fn time<T>(&self, work: impl FnOnce() -> T) -> (Duration, T) {
        let (begun, start) = (self.clock.now(), self.now());
        let result = work();
        let (ran, elapsed) = (self.now().zip(start), self.clock.now() - begun);
        let ran = ran.map(|(end, start)| Duration::from_nanos(end.saturating_sub(start)));
        (ran.filter(|_| elapsed > COARSE).unwrap_or(elapsed), result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_time() {
        let (time, sum) =
            Cpu::new().time(|| (0..2_000_000u64).fold(0, |a, b| a ^ b.wrapping_mul(a | 3)));
        assert!(std::hint::black_box(sum) != 1);
        assert!(time < Duration::from_secs(60));
    }
}
