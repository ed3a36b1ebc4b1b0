//! What the nodes of a plan did, for EXPLAIN ANALYZE.
//!
//! Invariants: figures of a node are those of everything below it too, as PostgreSQL's are.
//! Does not do: printing.

use std::collections::BTreeMap;
use std::time::Duration;

use rightlink::StreamStats;
use rightlink_env::Clock;
use rightlink_env::sync::{Arc, Mutex};

/// What a node did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) rows: u64,
    /// How often it ran.
    pub(crate) loops: u64,
    /// Rows that its filter left out.
    pub(crate) removed: u64,
    /// Until the first row, all times taken together, and altogether.
    pub(crate) first: Duration,
    pub(crate) total: Duration,
    /// What reading ahead did.
    pub(crate) reads: Option<StreamStats>,
    /// Did rows go to temporary files?
    pub(crate) spilled: bool,
}

/// The number of the statement that writes, which is no node of a query.
pub(crate) const WRITE: usize = usize::MAX;
/// That of the scan of the rows that it changes.
pub(crate) const TARGET: usize = usize::MAX - 1;

impl Figures {
    /// Adds what a scan did, which may run several times.
    pub(crate) fn read(&mut self, stats: StreamStats, removed: u64) {
        self.removed += removed;
        self.reads = Some(match self.reads {
            None => stats,
            Some(known) => known.plus(&stats),
        });
    }
}

/// Where nodes note what they do.
#[derive(Clone)]
pub(crate) struct Probe(Arc<Mutex<State>>);

struct State {
    clock: Clock,
    nodes: BTreeMap<usize, Figures>,
    /// Nodes that run, the innermost last.
    running: Vec<usize>,
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Probe")
    }
}

impl Probe {
    pub(crate) fn new() -> Probe {
        let (clock, nodes) = (Clock::system(), BTreeMap::new());
        Probe(Arc::new(Mutex::new(State { clock, nodes, running: Vec::new() })))
    }

    /// Runs `work`, which is a step of a node, and says how long it took.
    pub(crate) fn timed<T>(&self, work: impl FnOnce() -> T) -> (T, Duration) {
        let clock = self.0.lock().clock.clone();
        let start = clock.now();
        let done = work();
        (done, clock.now().since(start))
    }

    /// Runs `work`, which is a step of the node of this number, and says how long it took.
    pub(crate) fn step<T>(&self, number: usize, work: impl FnOnce() -> T) -> (T, Duration) {
        self.0.lock().running.push(number);
        let done = self.timed(work);
        self.0.lock().running.pop();
        done
    }

    /// The node that runs has rows in temporary files.
    pub(crate) fn spilled(&self) {
        let number = self.0.lock().running.last().copied();
        if let Some(number) = number {
            self.note(number, |figures| figures.spilled = true);
        }
    }

    /// Changes the figures of the node of this number.
    pub(crate) fn note(&self, number: usize, change: impl FnOnce(&mut Figures)) {
        change(self.0.lock().nodes.entry(number).or_default());
    }

    /// The figures of a node; `None` if it never ran.
    pub(crate) fn figures(&self, number: usize) -> Option<Figures> {
        let mut figures = self.0.lock().nodes.get(&number).cloned()?;
        if number >= TARGET {
            figures.loops = 1;
        }
        (figures.loops > 0).then_some(figures)
    }
}
