//! Medians and their spread.
//!
//! Invariants: a summary is of at least one sample.
//! Does not do: bounds of anything but ratios of pairs.

use std::fmt;

/// Median, smallest and largest of some samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Summary {
    /// Of `samples`, of which there is at least one.
    pub(crate) fn of(mut samples: Vec<f64>) -> Summary {
        assert!(!samples.is_empty(), "there is a sample");
        samples.sort_by(f64::total_cmp);
        let (low, high) = (samples[(samples.len() - 1) / 2], samples[samples.len() / 2]);
        let max = samples[samples.len() - 1];
        Summary { median: f64::midpoint(low, high), min: samples[0], max }
    }
}

/// The geometric mean of ratios that were measured in pairs, and where it lies with 95 % of
/// certainty at least.
pub(crate) fn pairs(ratios: &[f64]) -> (f64, f64) {
    assert!(ratios.len() > 1, "a spread needs two pairs");
    let count = ratios.len() as f64;
    let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    let mean = logs.iter().sum::<f64>() / count;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
    // Student's t for 20 pairs; with fewer it would be a little more.
    let bound = mean - 1.73 * (variance / count).sqrt();
    (mean.exp(), bound.exp())
}

/// A geometric mean of ratios and the 95 % interval around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval {
    pub(crate) mean: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Interval {
    /// Of what is compared with itself.
    pub(crate) const SAME: Interval = Interval { mean: 1.0, low: 1.0, high: 1.0 };

    /// Of ratios that were measured in about 20 pairs.
    pub(crate) fn of(ratios: &[f64]) -> Interval {
        let (mean, low) = pairs(ratios);
        // `pairs` gives the one-sided bound: Student's t is 1.73 there, and 2.09 on two sides.
        let width = (mean / low).powf(2.09 / 1.73);
        Interval { mean, low: mean / width, high: mean * width }
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} [{:.3}-{:.3}]", self.mean, self.low, self.high)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} [{:.3}-{:.3}]", self.median, self.min, self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_of_pairs_lies_below_their_mean() {
        let (mean, bound) = pairs(&[1.0, 1.0, 1.0]);
        assert!((mean - 1.0).abs() < 1e-9 && (bound - 1.0).abs() < 1e-9);
        let (mean, bound) = pairs(&[0.5, 2.0, 0.5, 2.0]);
        assert!((mean - 1.0).abs() < 1e-9 && bound < 0.6, "{bound}");
    }

    #[test]
    fn an_interval_lies_around_the_mean() {
        assert_eq!(Interval::of(&[1.0, 1.0, 1.0]), Interval::SAME);
        let found = Interval::of(&[0.5, 2.0, 0.5, 2.0]);
        assert!(found.low < 0.6 && found.high > 1.7 && (found.mean - 1.0).abs() < 1e-9, "{found}");
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        let summary = Summary::of(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!(summary, Summary { median: 2.5, min: 1.0, max: 4.0 });
        assert_eq!(Summary::of(vec![3.0, 1.0, 9.0]).median, 3.0);
    }
}
