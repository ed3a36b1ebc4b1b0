//! The keys of the experiment.
//!
//! Invariants: a set is the same in every run. Does not do: measuring.

use rightlink_env::Rng;

use crate::args::Size;

/// Names of the key sets.
pub(crate) const KEYS: &[&str] =
    &["sequential", "half", SEQUENTIAL_BY_8, HALF_BY_8, "0x7F07FF00FF", "0xFFFF0000003F"];
/// Keys 8 apart: a key is a block number and the upper bits of a slot, and all slots are below 64.
pub(crate) const SEQUENTIAL_BY_8: &str = "sequential-by-8";
/// Half of these.
pub(crate) const HALF_BY_8: &str = "half-by-8";
/// Names of the sets of row ids: dead rows and blocks.
pub(crate) const ROWS: &[&str] =
    &["1-per-block", "5-per-block", "30-per-block", "100-per-block", "1-per-20-blocks"];

/// Most keys that are looked up in one round.
const PROBES: usize = 1_000_000;
/// Keys of one run of neighbours among the probes.
const RUN: usize = 4000;

/// A set of keys.
pub(crate) struct Keys {
    /// Row ids, as block and slot.
    pub(crate) rows: bool,
    /// Without duplicates, ascending.
    pub(crate) sorted: Vec<u64>,
    /// In the order of insertion, with duplicates; none if that is ascending.
    pub(crate) drawn: Vec<u64>,
    /// What is looked up, ascending in long runs of neighbours.
    pub(crate) probes: Vec<u64>,
    /// What is looked up, in random order.
    pub(crate) shuffled: Vec<u64>,
    /// Least bytes that could tell which keys they are, and their values with them.
    pub(crate) floor: f64,
}

impl Keys {
    /// The set called `name`.
    pub(crate) fn named(name: &str, size: Size) -> Result<Keys, String> {
        let mut rng = Rng::from_seed(0x2022_1121);
        let quick = size == Size::Quick;
        let (drawn, rows) = if quick { (300_000, 600_000) } else { (10_000_000, 30_000_000) };
        let million = if quick { 300_000 } else { 1_000_000 };
        match name {
            "sequential" => Ok(Keys::map((0..million).collect(), Vec::new(), million as f64)),
            "half" => {
                let keys = (0..2 * million).filter(|_| rng.chance(1, 2)).collect();
                Ok(Keys::map(keys, Vec::new(), 2.0 * million as f64))
            }
            SEQUENTIAL_BY_8 => {
                let keys = (0..million).map(|block| block * 8).collect();
                Ok(Keys::map(keys, Vec::new(), million as f64))
            }
            HALF_BY_8 => {
                let blocks = (0..2 * million).filter(|_| rng.chance(1, 2));
                let keys = blocks.map(|block| block * 8).collect();
                Ok(Keys::map(keys, Vec::new(), 2.0 * million as f64))
            }
            mask if mask.starts_with("0x") => {
                let mask = u64::from_str_radix(&mask[2..], 16).map_err(|_| no_set(name))?;
                let drawn: Vec<u64> = (0..drawn).map(|_| rng.next_u64() & mask).collect();
                let universe = (mask.count_ones() as f64).exp2();
                Ok(Keys::map(drawn.clone(), drawn, universe))
            }
            "1-per-20-blocks" => Ok(Keys::rows(rows, 1, 20, 64, &mut rng)),
            "100-per-block" => Ok(Keys::rows(rows, 100, 1, 200, &mut rng)),
            _ => {
                let dead = name.strip_suffix("-per-block").and_then(|dead| dead.parse().ok());
                let dead =
                    dead.filter(|dead| (1..=64).contains(dead)).ok_or_else(|| no_set(name))?;
                Ok(Keys::rows(rows, dead, 1, 64, &mut rng))
            }
        }
    }

    fn map(mut sorted: Vec<u64>, drawn: Vec<u64>, universe: f64) -> Keys {
        sorted.sort_unstable();
        sorted.dedup();
        let probes = spread(&sorted);
        let bits = log2_choices(universe, sorted.len() as f64);
        let floor = bits / 8.0 + sorted.len() as f64 * 8.0;
        Keys { rows: false, shuffled: shuffled(&sorted), probes, sorted, drawn, floor }
    }

    /// `dead` rows among the slots 1 to `slots` of every `step`th block, `n` in all.
    fn rows(n: u64, dead: u64, step: u64, slots: u64, rng: &mut Rng) -> Keys {
        let mut sorted = Vec::with_capacity(n as usize);
        let mut of_block: Vec<u64> = (1..=slots).collect();
        for block in (0..n / dead).map(|block| block * step) {
            for i in 0..dead as usize {
                let other = i + rng.index(of_block.len() - i);
                of_block.swap(i, other);
            }
            of_block[..dead as usize].sort_unstable();
            sorted.extend(of_block[..dead as usize].iter().map(|slot| block << 16 | slot));
        }
        // Half of what an index asks for is alive: the neighbour of a dead row, mostly.
        let asked = |keys: Vec<u64>| {
            let key = |(i, key): (usize, u64)| if i % 2 == 0 { key } else { key + 1 };
            keys.into_iter().enumerate().map(key).collect::<Vec<u64>>()
        };
        let (mut probes, shuffled) = (asked(spread(&sorted)), asked(shuffled(&sorted)));
        probes.sort_unstable();
        let floor = (n / dead) as f64 * log2_choices(slots as f64, dead as f64) / 8.0;
        Keys { rows: true, sorted, drawn: Vec::new(), probes, shuffled, floor }
    }
}

fn no_set(name: &str) -> String {
    format!("no keys `{name}`")
}

/// Runs of neighbours from all over the keys.
fn spread(sorted: &[u64]) -> Vec<u64> {
    let runs = sorted.len().div_ceil(RUN);
    let step = runs.div_ceil((PROBES / RUN).min(runs));
    sorted.chunks(RUN).step_by(step).flatten().copied().collect()
}

fn shuffled(sorted: &[u64]) -> Vec<u64> {
    let mut rng = Rng::from_seed(7);
    (0..PROBES.min(sorted.len())).map(|_| sorted[rng.index(sorted.len())]).collect()
}

/// Bits that tell which `k` of `n` things are chosen.
fn log2_choices(n: f64, k: f64) -> f64 {
    // Stirling's series; good to a fraction of a bit.
    let log_factorial = |x: f64| {
        if x < 1.5 {
            0.0
        } else {
            (x + 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + 1.0 / (12.0 * x)
        }
    };
    let nats = log_factorial(n) - log_factorial(k) - log_factorial(n - k);
    nats.max(0.0) / std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_counted() {
        assert!((log2_choices(64.0, 1.0) - 6.0).abs() < 0.01);
        assert!((log2_choices(52.0, 5.0) - 2_598_960f64.log2()).abs() < 0.01);
        assert_eq!(log2_choices(10.0, 10.0), 0.0);
    }

    #[test]
    fn rows_are_as_many_as_named() {
        let keys = Keys::rows(3000, 30, 1, 64, &mut Rng::from_seed(1));
        assert_eq!(keys.sorted.len(), 3000);
        assert!(keys.sorted.is_sorted_by(|a, b| a < b) && keys.probes.is_sorted());
        assert!(keys.sorted.iter().all(|key| (1..=64).contains(&(key & 0xFFFF))));
    }
}
