//! Runs targets on mutants of their seeds until a time is up, some at the same time.
//!
//! Invariants: the sequence of inputs of a target depends on the seed and its name only; the first
//! input that panics, or that takes longer than [`PATIENCE`], ends the run and is handed back.
//! Does not do: print, write files (the program does).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rightlink_env::sync::{Arc, Mutex};
use rightlink_env::{Clock, Env, Nanos, thread};

use crate::Target;
use crate::mutate::mutant;

/// Longest that one input may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What a target came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Which target.
    pub target: &'static str,
    /// Inputs that it was run on.
    pub inputs: u64,
    /// The input that failed, if one did, and how.
    pub failed: Option<(Vec<u8>, String)>,
}

/// The inputs that run now, one place per thread.
type Running = Arc<Mutex<Vec<Option<(Nanos, &'static str, Vec<u8>)>>>>;

/// Runs `targets`, `together` at a time and each for `time`, and hands each outcome to `report`,
/// until one fails.
pub fn drive(
    targets: &[Target],
    (seed, time, together): (u64, Duration, usize),
    report: &mut dyn FnMut(&Outcome),
) -> bool {
    assert!(together > 0, "at least one at a time");
    targets.chunks(together).all(|group| {
        let outcomes = side_by_side(group, seed, time);
        outcomes.iter().for_each(&mut *report);
        outcomes.iter().all(|outcome| outcome.failed.is_none())
    })
}

fn side_by_side(group: &[Target], seed: u64, time: Duration) -> Vec<Outcome> {
    let running: Running = Arc::new(Mutex::new(vec![None; group.len()]));
    let done: Arc<Mutex<Vec<Outcome>>> = Arc::default();
    for (place, target) in group.iter().copied().enumerate() {
        let (running, done) = (Arc::clone(&running), Arc::clone(&done));
        // Detached: a target that hangs must not keep the run from ending.
        thread::spawn(target.name, move || {
            let outcome = one(target, seed, time, (&running, place));
            done.lock().push(outcome);
        });
    }
    let clock = Clock::system();
    loop {
        thread::sleep(Duration::from_millis(50));
        let outcomes = done.lock().clone();
        if outcomes.len() == group.len() {
            return outcomes;
        }
        let slow = |(since, _, _): &&(Nanos, _, _)| clock.now().since(*since) > PATIENCE;
        if let Some((_, target, input)) = running.lock().iter().flatten().find(slow) {
            let failed = Some((input.clone(), format!("no end after {PATIENCE:?}")));
            return vec![Outcome { target, inputs: 0, failed }];
        }
    }
}

/// The seeds as they are, then mutants.
fn one(target: Target, seed: u64, time: Duration, at: (&Running, usize)) -> Outcome {
    let clock = Clock::system();
    let (start, seeds) = (clock.now(), (target.seeds)());
    let mut rng = Env::simulated(seed).rng(target.name);
    let mut inputs = 0;
    while inputs < seeds.len() as u64 || clock.now().since(start) < time {
        let input = match seeds.get(inputs as usize) {
            Some(seed) => seed.clone(),
            None => mutant(&mut rng, &seeds),
        };
        at.0.lock()[at.1] = Some((clock.now(), target.name, input.clone()));
        inputs += 1;
        if let Err(what) = once(target, &input) {
            at.0.lock()[at.1] = None;
            return Outcome { target: target.name, inputs, failed: Some((input, what)) };
        }
    }
    at.0.lock()[at.1] = None;
    Outcome { target: target.name, inputs, failed: None }
}

/// Runs a target on one input; the error is what it panicked with.
pub fn once(target: Target, input: &[u8]) -> Result<(), String> {
    let caught = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    caught.map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        text.unwrap_or_else(|| "a panic without a message".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TARGETS;

    /// Every target on the first of its seeds.
    #[test]
    fn targets_survive_their_seeds() {
        for target in TARGETS {
            let seeds = (target.seeds)();
            for input in seeds.iter().take(12) {
                assert_eq!(once(target, input), Ok(()), "{}: {input:?}", target.name);
            }
        }
    }

    #[test]
    fn a_panic_is_found_and_its_input_handed_back() {
        let run = |data: &[u8]| assert!(data.first() != Some(&0x80), "found it");
        let target = Target { name: "broken", run, seeds: || vec![vec![1, 2, 3]] };
        let mut failed = None;
        let settings = (7, Duration::from_secs(20), 1);
        let fine = drive(&[target], settings, &mut |outcome| failed = outcome.failed.clone());
        let (input, what) = failed.expect("the driver tries every first byte");
        assert!(!fine && input[0] == 0x80 && what.contains("found it"));
    }
}
