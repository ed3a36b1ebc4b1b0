//! Slices of the load: how many updates, what else went on, and how fast the machine was, to tell
//! why one was slow.
//!
//! Invariants: figures are those of one slice. Where the kernel does not tell, its figures are
//! zero. Does not do: finding causes; it shows what a slow slice had more of.

use std::time::Duration;

use rightlink::Database;
use rightlink_env::{Clock, Nanos};

use crate::hot_update::load::{Load, Timed};
use crate::hot_update::yardstick::{self, Yardstick};
use crate::stats::Summary;

/// Figures of the database that grow, with the unit in which they are shown.
const GROWING: [(&str, f64, &str); 8] = [
    ("log_bytes", 1e6, "MB of log"),
    ("pool_written_pages", 1.0, "pages written"),
    ("device_syncs", 1.0, "syncs"),
    ("checkpoints", 1.0, "checkpoints ended"),
    ("checkpoint_steps_by_writers", 1.0, "steps of them by writers"),
    ("vacuum_pages", 1.0, "pages of vacuums ended"),
    ("latch_waits", 1.0, "waits for latches"),
    ("lock_waits", 1.0, "waits for rows"),
];
/// Those of the processors.
const CPU: [&str; 3] = ["s of this process", "s of others", "s stolen"];

/// A tick of the kernel's clock for processes.
const TICK: f64 = 0.01;

/// One slice.
#[derive(Debug)]
pub(crate) struct Slice {
    /// Its middle, in seconds since the first slice began.
    pub(crate) at_s: f64,
    pub(crate) updates_per_s: f64,
    /// How long it was.
    pub(crate) seconds: f64,
    /// How long its transactions took.
    pub(crate) timed: Timed,
    /// As [`GROWING`], then as [`CPU`], then as [`yardstick::NAMES`].
    figures: Vec<f64>,
}

/// Takes slices one after the other.
pub(crate) struct Watch<'a> {
    db: &'a Database,
    clock: &'a Clock,
    load: &'a Load,
    yardstick: &'a mut Yardstick,
    start: Nanos,
    time: Nanos,
    updates: u64,
    timed: Timed,
    figures: Vec<f64>,
}

impl<'a> Watch<'a> {
    /// The first slice begins.
    pub(crate) fn new(
        db: &'a Database,
        clock: &'a Clock,
        load: &'a Load,
        yardstick: &'a mut Yardstick,
    ) -> Watch<'a> {
        let (time, updates, timed) = (clock.now(), load.updates(), load.timed());
        let figures = figures(db);
        Watch { db, clock, load, yardstick, start: time, time, updates, timed, figures }
    }

    /// Waits until a slice of this length is over.
    pub(crate) fn slice(&mut self, length: Duration) -> Slice {
        let speed = self.yardstick.until(self.clock, self.time + length);
        let (time, updates, now) = (self.clock.now(), self.load.updates(), figures(self.db));
        let all = self.load.timed();
        let seconds = (time - self.time).as_secs_f64();
        let at_s = (self.time - self.start).as_secs_f64() + seconds / 2.0;
        let updates_per_s = (updates - self.updates) as f64 / seconds;
        let change = |(now, before): (&f64, &f64)| now - before;
        let figures = now.iter().zip(&self.figures).map(change).chain(speed).collect();
        let timed = all.since(&self.timed);
        (self.time, self.updates, self.figures, self.timed) = (time, updates, now, all);
        Slice { at_s, updates_per_s, seconds, timed, figures }
    }
}

fn figures(db: &Database) -> Vec<f64> {
    let stats = db.stats();
    let growing = GROWING.iter().map(|(name, unit, _)| stats.get(name).unwrap_or(0) as f64 / unit);
    growing.chain(processors().unwrap_or_default()).collect()
}

/// Seconds of processors: of this process, of all others, and those that the machine below took.
fn processors() -> Option<[f64; 3]> {
    let own = std::fs::read_to_string("/proc/self/stat").ok()?;
    let all = std::fs::read_to_string("/proc/stat").ok()?;
    let ticks = |text: &str| -> Vec<f64> {
        text.split_whitespace().map(|word| word.parse().unwrap_or(0.0)).collect()
    };
    // Behind the name in brackets: state, then numbers; the 12th and 13th are this process's time.
    let own = ticks(own.rsplit_once(')')?.1);
    let own = own.get(11)? + own.get(12)?;
    // user, nice, system, idle, iowait, irq, softirq, steal
    let all = ticks(all.lines().next()?.strip_prefix("cpu")?);
    let busy: f64 = [0, 1, 2, 5, 6].iter().filter_map(|at| all.get(*at)).sum();
    let stolen = all.get(7).copied().unwrap_or(0.0);
    Some([own, (busy - own).max(0.0), stolen].map(|ticks| ticks * TICK))
}

impl Slice {
    /// Transactions a second.
    pub(crate) fn tps(&self) -> f64 {
        self.timed.all().count() as f64 / self.seconds
    }
}

/// Updates a second of each.
pub(crate) fn speeds(slices: &[Slice]) -> Vec<f64> {
    slices.iter().map(|slice| slice.updates_per_s).collect()
}

/// What the slowest slice had beside the median of all, for people.
pub(crate) fn slowest(slices: &[Slice]) -> Option<String> {
    let slow = |a: &&Slice, b: &&Slice| a.updates_per_s.total_cmp(&b.updates_per_s);
    let slowest = slices.iter().min_by(slow)?;
    let number = slices.iter().position(|slice| std::ptr::eq(slice, slowest))? + 1;
    let names = GROWING.iter().map(|(.., name)| *name).chain(CPU).chain(yardstick::NAMES);
    let pair = |(at, name): (usize, &str)| {
        let median = Summary::of(slices.iter().map(|slice| slice.figures[at]).collect()).median;
        let digits = if median < 10.0 { 2 } else { 1 };
        format!("{name} {:.digits$} ({median:.digits$})", slowest.figures[at])
    };
    let figures: Vec<String> = names.enumerate().map(pair).collect();
    let count = slices.len();
    Some(format!("    slice {number} of {count}, and the median of all: {}", figures.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_is_shown_beside_the_median() {
        let slice = |updates_per_s, figure| Slice {
            at_s: 0.0,
            updates_per_s,
            seconds: 1.0,
            timed: Timed::default(),
            figures: vec![figure; GROWING.len() + CPU.len() + yardstick::NAMES.len()],
        };
        let slices = [slice(9.0, 1.0), slice(3.0, 7.0), slice(8.0, 2.0)];
        assert_eq!(speeds(&slices), [9.0, 3.0, 8.0]);
        let line = slowest(&slices).expect("there are some");
        assert!(line.contains("slice 2 of 3") && line.contains("MB of log 7.00 (2.00)"), "{line}");
        assert!(slowest(&[]).is_none());
    }

    #[test]
    fn work_is_time_of_this_process() {
        let Some(before) = processors() else { return };
        let mut sum = 0u64;
        while processors().is_some_and(|now| now[0] - before[0] < 3.0 * TICK) {
            sum = sum.wrapping_mul(3).wrapping_add(1);
        }
        assert!(std::hint::black_box(sum) != 7);
    }
}
