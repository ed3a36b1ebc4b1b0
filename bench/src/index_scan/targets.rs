//! What the experiment is to show, and whether it does.
//!
//! | target | cells |
//! |---|---|
//! | no slower than none beyond 3 % | all |
//! | within 1.3 times of the device's limit | cold, direct, heap, 1 % and more |
//! | within 1.3 times of the joined pass, whatever the fuzz | the same |
//! | geometric mean over all fuzz values against none: 2.7, 20 on the modelled device | the same |
//!
//! Invariants: a cell that seems slower is run again in 20 pairs, and counts as slower only if the
//! bound that 95 % of such measurements exceed is. Does not do: ending the run.

use std::collections::BTreeMap;

use crate::index_scan::{Figures, is_scattered, median};
use crate::knobs::Cell;
use crate::report::say;
use crate::stats::pairs;
use crate::{Failure, methods};

/// The most that reading ahead may cost.
const SLOWER: f64 = 1.03;
/// The most that a scan may take of the device's own time.
const OF_LIMIT: f64 = 1.3;
const PAIRS: usize = 20;

/// What the cells so far have shown.
#[derive(Default)]
pub(super) struct Targets {
    cells: u32,
    again: u32,
    slower: u32,
    limited: u32,
    /// Beside the device's limit, and beside the joined pass.
    limit: Beside,
    joined: Beside,
    /// Logarithms of the gain, by device and method.
    gains: BTreeMap<(String, String), Vec<f64>>,
    /// Milliseconds with reading ahead of the cells that are held against the limit.
    ahead: Vec<(Cell, f64)>,
}

/// Cells that took longer than they may beside a bare pass.
#[derive(Default)]
struct Beside {
    beyond: u32,
    /// Of those, cells whose floor is beyond as well.
    floor: u32,
}

impl Beside {
    /// Counts a cell that took so many times as long as the pass, and whose floor would.
    fn count(&mut self, over: f64, floor: f64) -> String {
        self.beyond += u32::from(over > OF_LIMIT);
        self.floor += u32::from(over > OF_LIMIT && floor > OF_LIMIT);
        let verdict = if over > OF_LIMIT { "MISSED" } else { "kept" };
        format!("{over:.2} {verdict}, floor {floor:.2}")
    }

    fn say(&self, what: &str, cells: u32) {
        let (verdict, beyond, floor) = (verdict(self.beyond), self.beyond, self.floor);
        say(&format!(
            "within {OF_LIMIT} times of {what}: {verdict} ({beyond} of {cells} cells beyond, \
             {floor} of these by their floor)",
        ));
    }
}

fn verdict(missed: u32) -> &'static str {
    if missed == 0 { "kept" } else { "MISSED" }
}

impl Targets {
    /// Judges a cell; `again` runs more pairs of it.
    pub(super) fn judge(
        &mut self,
        cell: &Cell,
        figures: &Figures,
        again: impl FnOnce(usize) -> Result<Vec<f64>, Failure>,
    ) -> Result<String, Failure> {
        let ms = |policy: usize| median(&figures.turns[policy], |turn| turn.ms);
        let (none, adaptive) = (ms(0), ms(2));
        let mut told = Vec::new();
        self.cells += 1;
        if adaptive > SLOWER * none {
            self.again += 1;
            let (mean, bound) = pairs(&again(PAIRS)?);
            self.slower += u32::from(bound > SLOWER);
            let verdict = if bound > SLOWER { "MISSED" } else { "kept" };
            told.push(format!("no slower: {mean:.3} (at least {bound:.3}) {verdict}"));
        }
        if counts(cell)? {
            self.limited += 1;
            let times =
                |device_ms: f64| (adaptive / device_ms, figures.floor_ms(device_ms) / device_ms);
            let (over, floor) = times(figures.limit_ms);
            told.push(format!("limit: {}", self.limit.count(over, floor)));
            let (over, floor) = times(figures.joined_ms);
            let judged = self.joined.count(over, floor);
            if is_scattered(cell)? {
                told.push(format!("joined: {judged}"));
            }
            let key = (cell.get("device")?, cell.get("method")?);
            self.gains.entry(key).or_default().push((none / adaptive).ln());
            self.ahead.push((cell.clone(), adaptive));
        }
        Ok(told.join(", "))
    }

    /// The sum of it.
    pub(super) fn say(&self) -> Result<(), Failure> {
        say(&format!(
            "no cell slower than none beyond 3 %: {} ({} of {} cells slower, {} run again)",
            verdict(self.slower),
            self.slower,
            self.cells,
            self.again
        ));
        self.limit.say("the device's limit (single reads where scattered)", self.limited);
        self.joined.say("the joined pass everywhere", self.limited);
        for ((device, method), logs) in &self.gains {
            let gain = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
            let target = if device == "native" { 2.7 } else { 20.0 };
            let verdict = if gain >= target { "kept" } else { "MISSED" };
            say(&format!("{device}, {method}: {gain:.2} times faster, target {target}: {verdict}"));
        }
        methods::say_ratios(&self.ahead)
    }
}

/// Is the cell one that is held against the device's limit?
fn counts(cell: &Cell) -> Result<bool, Failure> {
    let is = |name: &str, value: &str| cell.get::<String>(name).is_ok_and(|is| is == value);
    let plain = is("cache", "cold") && is("io", "direct") && is("kind", "heap");
    Ok(plain && cell.get::<f64>("selectivity")? >= 1.0 && !is("method", "sync"))
}
