//! How long transactions took: counts by duration, so that any percentile can be told later.
//!
//! Buckets are a sixteenth of a power of two wide, so a percentile is at most 7 % too large.
//!
//! Invariants: a histogram belongs to one thread that writes; others read it while it grows.
//! Does not do: tell which transaction was slow.

use std::time::Duration;

use rightlink_env::sync::{AtomicU64, Ordering};

/// Durations below 2^40 ns have a bucket of their own.
const BITS: u32 = 40;
/// Buckets of a power of two.
const PARTS: u64 = 16;
const BUCKETS: usize = ((BITS - 3) * 16) as usize;

/// Counts that one thread adds to.
pub(crate) struct Histogram(Vec<AtomicU64>);

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram((0..BUCKETS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Histogram {
    /// One more of this duration.
    pub(crate) fn note(&self, took: Duration) {
        let bucket = &self.0[bucket_of(took.as_nanos() as u64)];
        // No other thread stores here.
        bucket.store(bucket.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

fn bucket_of(nanos: u64) -> usize {
    let nanos = nanos.min((1 << BITS) - 1);
    if nanos < PARTS {
        return nanos as usize;
    }
    let power = nanos.ilog2();
    ((u64::from(power) - 3) * PARTS + ((nanos >> (power - 4)) & (PARTS - 1))) as usize
}

/// The end of a bucket, in nanoseconds.
fn end_of(bucket: usize) -> u64 {
    let (power, part) = (bucket as u64 / PARTS, bucket as u64 % PARTS);
    if power == 0 { part } else { ((PARTS + part + 1) << (power - 1)) - 1 }
}

/// Counts at one moment, or between two.
#[derive(Clone, Debug)]
pub(crate) struct Latencies(Vec<u64>);

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies(vec![0; BUCKETS])
    }
}

impl Latencies {
    /// Adds what a thread has counted so far.
    pub(crate) fn add(&mut self, counted: &Histogram) {
        let counted = counted.0.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        self.0.iter_mut().zip(counted).for_each(|(sum, more)| *sum += more);
    }

    /// Adds other counts.
    pub(crate) fn join(&mut self, other: &Latencies) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, more)| *sum += more);
    }

    /// What was counted since `earlier`.
    pub(crate) fn since(&self, earlier: &Latencies) -> Latencies {
        Latencies(self.0.iter().zip(&earlier.0).map(|(now, then)| now - then).collect())
    }

    /// How many.
    pub(crate) fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Microseconds that this share of them took at most; not a number if there is none.
    pub(crate) fn micros(&self, share: f64) -> f64 {
        let wanted = ((self.count() as f64 * share).ceil() as u64).max(1);
        let sums = self.0.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        let bucket = sums.enumerate().find(|(_, sum)| *sum >= wanted);
        bucket.map_or(f64::NAN, |(bucket, _)| end_of(bucket) as f64 / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_are_narrow() {
        for nanos in
            (0..2000).chain((11..40).flat_map(|bit| [(1 << bit) - 1, 1 << bit, 3 << (bit - 1)]))
        {
            let bucket = bucket_of(nanos);
            assert!(end_of(bucket) >= nanos && bucket < BUCKETS, "{nanos}");
            assert!(bucket == 0 || end_of(bucket - 1) < nanos, "{nanos}");
            assert!(end_of(bucket) as f64 <= nanos as f64 * 1.07 + 1.0, "{nanos}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_of_what_was_counted_in_between() {
        let (counted, mut before, mut after) =
            (Histogram::default(), Latencies::default(), Latencies::default());
        counted.note(Duration::from_secs(9));
        before.add(&counted);
        (1..=100).for_each(|ms| counted.note(Duration::from_millis(ms)));
        after.add(&counted);
        let between = after.since(&before);
        assert_eq!(between.count(), 100);
        for (share, ms) in [(0.5, 50.0), (0.99, 99.0), (1.0, 100.0)] {
            let micros = between.micros(share) / 1000.0;
            assert!((ms..ms * 1.07).contains(&micros), "{share}: {micros}");
        }
        assert!(before.since(&before).micros(0.5).is_nan());
    }
}
