//! Medians and their spread.
//!
//! Invariants: a summary is of at least one sample. Does not do: confidence bounds.

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

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} [{:.3}-{:.3}]", self.median, self.min, self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        let summary = Summary::of(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!(summary, Summary { median: 2.5, min: 1.0, max: 4.0 });
        assert_eq!(Summary::of(vec![3.0, 1.0, 9.0]).median, 3.0);
    }
}
