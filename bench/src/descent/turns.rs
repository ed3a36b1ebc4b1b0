//! Two trees in turns: one with all optimisations, and the one that a cell is about.
//!
//! A tenth of the keys is held back while the trees are filled, and then inserted in rounds. Beside
//! a writer the measured thread keeps to a fiftieth of the key space. A second thread inserts keys
//! into the same leaves meanwhile, which splits them under the parents that the measured thread
//! comes through.
//!
//! Invariants: both trees do the same work in each round, and which of them begins changes; a tree
//! has a writer of its own. Does not do: judge.

use std::path::Path;

use rightlink::internal::index::btree::{Counters, Optimisations, counting};
use rightlink_env::sync::{AtomicBool, AtomicUsize, Mutex, Ordering::Relaxed};
use rightlink_env::{Rng, thread};

use crate::Failure;
use crate::descent::shapes::Shape;
use crate::descent::tree::{self, Keys, Measured};
use crate::stats::{Interval, Summary};

/// Rounds of each kind of work.
pub(super) const ROUNDS: usize = 20;
/// Lookups of a round, alone and beside a writer.
const LOOKUPS: usize = 50_000;
const LOOKUPS_BESIDE: usize = 10_000;
/// Held-back keys between the ends of the part that a writer splits: one of so many, and so many
/// at least.
const PART: usize = 50;
const LEAST: usize = 2000;
/// Keys that a writer inserts at once, and bytes of keys that it may insert in all.
const WRITER_BATCH: usize = 100;
const WRITER_BYTES: usize = 512 << 20;

/// What a cell does, for a shape and a number of rows.
pub(super) struct Work {
    pub(super) made_for: (Shape, u64, bool),
    filled: Keys,
    held: Keys,
    wanted: Keys,
    writer: bool,
}

impl Work {
    /// The work on `rows` keys of `shape`, beside a writer or not.
    pub(super) fn new(shape: Shape, rows: u64, writer: bool) -> Work {
        let kept = rows - rows.div_ceil(10);
        let filled = Keys::of_some(shape, rows, 0..kept);
        let held = Keys::of_some(shape, rows, kept..rows);
        let (near, held) = if writer { part(&filled, held) } else { (Keys::default(), held) };
        // Ascending keys that are held back lie beyond all others.
        let from = if near.len() == 0 { &filled } else { &near };
        let each = if writer { LOOKUPS_BESIDE } else { LOOKUPS };
        let wanted = from.sample((from.len() / 10).clamp(1, each) * ROUNDS, 3);
        Work { made_for: (shape, rows, writer), filled, held, wanted, writer }
    }

    /// Fills a tree that uses `set`, below `dir`.
    fn fill(&self, set: Optimisations, dir: &Path) -> Result<Measured, Failure> {
        let more = self.held.total_bytes() + self.held.len() * 24;
        tree::fill(&self.filled, more + if self.writer { WRITER_BYTES } else { 0 }, set, dir)
    }
}

/// The keys of a part of the key space, in the middle of the keys held back: of those, and of the
/// keys held back.
fn part(filled: &Keys, held: Keys) -> (Keys, Keys) {
    let mut order: Vec<usize> = (0..held.len()).collect();
    order.sort_unstable_by_key(|n| held.get(*n));
    let count = (held.len() / PART).max(LEAST).min(held.len());
    let first = (held.len() - count) / 2;
    let (low, high) = (held.get(order[first]), held.get(order[first + count - 1]));
    let within = |keys: &Keys| keys.filtered(|key| (low..=high).contains(&key));
    (within(filled), within(&held))
}

/// What a cell came to.
pub(super) struct Outcome {
    pub(super) lookup_ns: f64,
    pub(super) lookup: Interval,
    pub(super) insert_ns: f64,
    pub(super) insert: Interval,
    pub(super) lookups: Counters,
    pub(super) inserts: Counters,
    /// Keys whose insertion was counted.
    pub(super) counted_rows: usize,
    /// Keys a second while the tree was filled.
    pub(super) rows_per_s: f64,
    /// Pages that the writer's splits made while the measured tree was worked on.
    pub(super) writer_pages: u32,
    pub(super) tree: Measured,
}

/// A tree and the keys of its writer so far.
struct Side {
    tree: Measured,
    written: AtomicUsize,
}

/// Runs `work` with `set`, in turns with all optimisations if they are others.
pub(super) fn run(
    work: &Work,
    set: Optimisations,
    batch: usize,
    dir: &Path,
) -> Result<Outcome, Failure> {
    let side = |set, dir: &Path| {
        Ok::<_, Failure>(Side { tree: work.fill(set, dir)?, written: AtomicUsize::new(0) })
    };
    let other = (set != Optimisations::ALL)
        .then(|| side(Optimisations::ALL, &dir.with_extension("all")))
        .transpose()?;
    let measured = side(set, dir)?;
    if work.held.len() <= ROUNDS {
        return Err(format!("{} keys are too few for {ROUNDS} rounds", work.held.len()).into());
    }
    let each = work.wanted.len() / ROUNDS;
    let blocks = measured.tree.tree.blocks();
    let lookups = in_turns(&measured, other.as_ref(), |side, round| {
        let range = round * each..(round + 1) * each;
        side.beside(work, || Ok(tree::lookup(&side.tree.tree, &work.wanted, range)))
    })?;
    let (lookups_cost, _) = measured.beside(work, || {
        let all = 0..work.wanted.len();
        Ok(counting(|| tree::lookup(&measured.tree.tree, &work.wanted, all)))
    })?;
    let writer_pages = measured.tree.tree.blocks() - blocks;
    // The round after the last is counted instead of timed.
    let each = work.held.len() / (ROUNDS + 1);
    let inserts = in_turns(&measured, other.as_ref(), |side, round| {
        let range = round * each..(round + 1) * each;
        let time = side.beside(work, || tree::insert(&side.tree, &work.held, range, batch))?;
        Ok(time.as_secs_f64() * 1e9 / each as f64)
    })?;
    let last = ROUNDS * each..work.held.len();
    let counted_rows = last.len();
    let inserts_cost = measured.beside(work, || {
        let (cost, outcome) = counting(|| tree::insert(&measured.tree, &work.held, last, batch));
        outcome.map(|_| cost)
    })?;
    Ok(Outcome {
        lookup_ns: lookups.ns,
        lookup: lookups.ratio,
        insert_ns: inserts.ns,
        insert: inserts.ratio,
        lookups: lookups_cost,
        inserts: inserts_cost,
        counted_rows,
        rows_per_s: work.filled.len() as f64 / measured.tree.seconds,
        writer_pages,
        tree: measured.tree,
    })
}

/// Times of one kind of work.
pub(super) struct Turns {
    /// The median of the measured side.
    pub(super) ns: f64,
    /// The measured side to the one with all optimisations.
    pub(super) ratio: Interval,
}

/// Runs rounds of `work`, which says how many nanoseconds an operation took, on the measured side
/// and, if there is one, on the other side, which has all optimisations.
pub(super) fn in_turns<S>(
    measured: &S,
    other: Option<&S>,
    mut work: impl FnMut(&S, usize) -> Result<f64, Failure>,
) -> Result<Turns, Failure> {
    let (mut times, mut ratios) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let Some(other) = other else {
            times.push(work(measured, round)?);
            continue;
        };
        let early = if round % 2 == 0 { Some(work(other, round)?) } else { None };
        let time = work(measured, round)?;
        let reference = early.map_or_else(|| work(other, round), Ok)?;
        times.push(time);
        ratios.push(time / reference);
    }
    let ratio = if other.is_some() { Interval::of(&ratios) } else { Interval::SAME };
    Ok(Turns { ns: Summary::of(times).median, ratio })
}

/// Ends the writer, also where the measured work panics.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

impl Side {
    /// What `work` gives, done while the writer writes, if the cell has one.
    fn beside<T: Send>(
        &self,
        plan: &Work,
        work: impl FnOnce() -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        if !plan.writer {
            return work();
        }
        let (stop, failed) = (AtomicBool::new(false), Mutex::new(None));
        let write = || {
            while !stop.load(Relaxed) {
                if let Err(error) = self.write(&plan.wanted) {
                    *failed.lock() = Some(error);
                    return;
                }
            }
        };
        let result = thread::with_helpers("writer", 1, &write, || {
            let _stop = StopAtEnd(&stop);
            work().map_err(|error| error.to_string())
        });
        failed.lock().take().map_or(Ok(()), Err)?;
        Ok(result?)
    }

    /// Inserts a batch of keys that follow some of `wanted`.
    fn write(&self, wanted: &Keys) -> Result<(), String> {
        let first = self.written.fetch_add(WRITER_BATCH, Relaxed);
        let mut rng = Rng::from_seed(first as u64);
        let mut keys = Keys::default();
        for n in first..first + WRITER_BATCH {
            let key = wanted.get(rng.index(wanted.len()));
            keys.push(&[key, &(n as u64).to_be_bytes()].concat());
        }
        if first / WRITER_BATCH * keys.total_bytes() > WRITER_BYTES {
            return Err("the writer has no room left: fewer keys, or fewer lookups".into());
        }
        let written = tree::insert(&self.tree, &keys, 0..WRITER_BATCH, WRITER_BATCH);
        written.map(|_| ()).map_err(|error| error.to_string())
    }
}
