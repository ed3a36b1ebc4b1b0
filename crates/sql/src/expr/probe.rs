//! What the nodes of a plan did, for EXPLAIN ANALYZE.
//!
//! Invariants: figures of a node are those of everything below it too, as PostgreSQL's are.
//! Does not do: printing.

use std::collections::BTreeMap;
use std::time::Duration;

use rightlink::StreamStats;
use rightlink_env::Clock;
use rightlink_env::sync::{Arc, Mutex};

/// A node of a query, from below. Queries inside of others have stages of their own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Stage {
    Source,
    Group,
    Distinct,
    Sort,
    Unique,
    Limit,
    /// The statement that writes.
    Write,
}

/// What a node did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) rows: u64,
    /// Rows that its filter left out.
    pub(crate) removed: u64,
    /// Until the first row, and altogether.
    pub(crate) first: Duration,
    pub(crate) total: Duration,
    /// What reading ahead did.
    pub(crate) reads: Option<StreamStats>,
}

/// Where nodes note what they do.
#[derive(Clone)]
pub(crate) struct Probe(Arc<Mutex<State>>);

struct State {
    clock: Clock,
    depth: usize,
    nodes: BTreeMap<(usize, Stage), Figures>,
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Probe")
    }
}

impl Probe {
    pub(crate) fn new() -> Probe {
        let (clock, nodes) = (Clock::system(), BTreeMap::new());
        Probe(Arc::new(Mutex::new(State { clock, depth: 0, nodes })))
    }

    /// How deep inside of other queries the one is that is being opened.
    pub(crate) fn depth(&self) -> usize {
        self.0.lock().depth
    }

    /// Opens what is inside of the query that is being opened.
    pub(crate) fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.lock().depth += 1;
        let done = work();
        self.0.lock().depth -= 1;
        done
    }

    /// Runs `work`, which is a step of a node, and says how long it took.
    pub(crate) fn timed<T>(&self, work: impl FnOnce() -> T) -> (T, Duration) {
        let clock = self.0.lock().clock.clone();
        let start = clock.now();
        let done = work();
        (done, clock.now().since(start))
    }

    /// Changes the figures of a node.
    pub(crate) fn note(&self, at: (usize, Stage), change: impl FnOnce(&mut Figures)) {
        change(self.0.lock().nodes.entry(at).or_default());
    }

    /// The figures of a node; `None` if it never ran.
    pub(crate) fn figures(&self, at: (usize, Stage)) -> Option<Figures> {
        self.0.lock().nodes.get(&at).cloned()
    }
}
