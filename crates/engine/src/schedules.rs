//! Runs a small world under many schedules, and shows that it catches the broken variant of a rule:
//! `cargo test --release -p rightlink --features shuttle --lib -- schedules`.
//!
//! A world is a function that makes a store of a few pages, lets two or three threads loose on it
//! and asserts what must be true whatever their order. Sound code survives all schedules; with one
//! rule broken some schedule must fail. Half of the schedules are random walks, half come from PCT
//! (few preemptions at random places). All of it follows from one seed, which a failure names;
//! `RIGHTLINK_SCHEDULE_SEED` sets it, `RIGHTLINK_SCHEDULES` multiplies the number of schedules.
//!
//! Does not do: weak memory orders; the model is sequentially consistent.
#![expect(clippy::disallowed_types, reason = "a count that outlives the schedules it counts")]
#![expect(clippy::disallowed_methods, reason = "the model itself runs on a thread of the system")]

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};

use rightlink_env::{Broken, points};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, Runner};

/// Schedules of one seed before the next.
const CHUNK: usize = 50;
/// Preemptions that PCT places, and one.
const DEPTH: usize = 3;
/// Engine code keeps images of pages on the stack.
const STACK: usize = 1 << 20;

/// A rule, and the world that must notice when it is broken.
pub(crate) struct Case {
    /// Name of the broken variant, as [`points::broken`] is asked.
    pub(crate) rule: Broken,
    /// The world.
    pub(crate) world: fn(),
    /// Schedules within which it must be caught.
    pub(crate) within: usize,
}

/// What a panic of a world says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Panics {
    /// The schedule has failed.
    Fail,
    /// Nothing if the store catches it. While one unwinds, other threads may run.
    AreCaught,
}

fn config(panics: Panics) -> Config {
    let mut config = Config::new();
    config.stack_size = STACK;
    config.failure_persistence = FailurePersistence::None;
    config.silence_warnings = true;
    let at_once = panics == Panics::Fail;
    config.ungraceful_shutdown_config.immediately_return_on_panic = at_once;
    config
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

fn first_seed() -> u64 {
    variable("RIGHTLINK_SCHEDULE_SEED").unwrap_or(1)
}

thread_local! {
    /// What the schedule under way panicked with, while this thread explores: first, or last where
    /// panics are caught.
    static FAILURE: RefCell<Option<String>> = const { RefCell::new(None) };
    static PANICS: Cell<Panics> = const { Cell::new(Panics::Fail) };
}

/// Panics of a schedule are noted instead of printed: with a broken rule they are wanted.
fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !note_panic(info) {
                print(info);
            }
        }));
    });
}

fn note_panic(info: &PanicHookInfo<'_>) -> bool {
    FAILURE.with_borrow_mut(|failure| {
        let Some(text) = failure else { return false };
        if text.is_empty() || PANICS.get() == Panics::AreCaught {
            let what = said(info.payload());
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            *text = format!("{what} ({place})").replace('\n', " ");
        }
        true
    })
}

/// One seed's schedules; how many ran and what one of them panicked with.
fn chunk(world: fn(), seed: u64, count: usize) -> (usize, Option<String>) {
    note_panics();
    let panics = PANICS.get();
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let run = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        world();
    };
    FAILURE.set(Some(String::new()));
    let result = catch_unwind(AssertUnwindSafe(|| match seed.is_multiple_of(2) {
        true => Runner::new(RandomScheduler::new_from_seed(seed, count), config(panics)).run(run),
        false => {
            Runner::new(PctScheduler::new_from_seed(seed, DEPTH, count), config(panics)).run(run)
        }
    }));
    let noted = FAILURE.take().unwrap_or_default();
    let message = result.err().map(|payload| match noted.is_empty() {
        true => said(payload.as_ref()),
        false => noted,
    });
    (ran.load(Ordering::Relaxed), message)
}

/// What was thrown without a hook: the model's own complaints, such as a deadlock.
fn said(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// What exploring a world gave.
struct Explored {
    ran: usize,
    /// How often the broken line was reached.
    asked: u64,
    /// Seed and message of the first schedule that failed.
    failed: Option<(u64, String)>,
}

/// Runs up to `schedules` schedules of `world`, with a rule broken if one is named. On a thread of
/// its own: a failed schedule leaves half unwound stacks behind, and the thread counts as panicking
/// ever after.
fn explore(rule: Option<Broken>, world: fn(), schedules: usize, panics: Panics) -> Explored {
    let run = move || {
        PANICS.set(panics);
        let rule = rule.map(points::break_rule);
        let (ran, failed) = explore_here(world, schedules);
        Explored { ran, asked: rule.map_or(0, |rule| rule.asked()), failed }
    };
    std::thread::spawn(run).join().expect("what schedules throw is caught")
}

fn explore_here(world: fn(), schedules: usize) -> (usize, Option<(u64, String)>) {
    let (mut ran, mut seed) = (0, first_seed());
    while ran < schedules {
        let (count, failed) = chunk(world, seed, CHUNK.min(schedules - ran));
        ran += count;
        if let Some(message) = failed {
            return (ran, Some((seed, message)));
        }
        seed += 1;
    }
    (ran, None)
}

/// `world` holds in each of `schedules` schedules.
pub(crate) fn survives(name: &str, world: fn(), schedules: usize) {
    survives_with(name, world, schedules, Panics::Fail);
}

/// As [`survives`] for a world in which the store catches panics.
pub(crate) fn survives_panics(name: &str, world: fn(), schedules: usize) {
    survives_with(name, world, schedules, Panics::AreCaught);
}

fn survives_with(name: &str, world: fn(), schedules: usize, panics: Panics) {
    let schedules = schedules * variable("RIGHTLINK_SCHEDULES").unwrap_or(1) as usize;
    let Explored { ran, failed, .. } = explore(None, world, schedules, panics);
    if let Some((seed, message)) = failed {
        panic!("{name} fails in schedule {ran}, seed {seed}: {message}");
    }
    println!("{name}: {ran} schedules");
}

/// Each rule's broken variant is caught by its world.
pub(crate) fn catches(cases: &[Case]) {
    catches_with(cases, Panics::Fail);
}

/// As [`catches`] for worlds in which the store catches panics.
pub(crate) fn catches_beside_panics(cases: &[Case]) {
    catches_with(cases, Panics::AreCaught);
}

fn catches_with(cases: &[Case], panics: Panics) {
    let mut missed = Vec::new();
    for case in cases {
        let Explored { ran, asked, failed } =
            explore(Some(case.rule), case.world, case.within, panics);
        match failed {
            Some((seed, message)) => {
                println!("{}: caught by schedule {ran}, seed {seed}: {message}", case.rule);
            }
            None => missed.push(format!("{} (asked {asked} times)", case.rule)),
        }
    }
    assert!(missed.is_empty(), "broken, and no check noticed: {missed:?}");
}
