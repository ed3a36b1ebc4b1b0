//! The power fails at calls of every scenario, from 10,000 states on at every call, and again while
//! the store comes back: what is found is always a prefix of the commits that holds every
//! acknowledged one, and `verify` is clean.
//!
//! `RIGHTLINK_CRASH_STATES=N` asks for about N distinct crash states, at least five sixths of them
//! (default: one thousand, for quick runs), `RIGHTLINK_CRASH_ONLY=SCENARIO` for one scenario. A
//! state that fails is named by scenario, moment (calls that had happened) and choice; both are the
//! same in every run.
//!
//! Invariants: a disk image is recovered once; another moment with the same image only has its own
//! bounds checked. A distinct state is counted by its image, over all scenarios.
//! Does not do: faults without a power cut (`faults.rs`).

use rightlink_env::Broken;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::common::scenarios::ALL;
use crate::common::{Scenario, Script, Settings, oracle};
use rightlink::{Database, TableSchema, Type, Value};
use rightlink_aio::SimDisk;
use rightlink_aio::sim::{CrashChoice, PendingState, Recording};
use rightlink_env::sync::{Arc, AtomicUsize, Mutex, Ordering};
use rightlink_env::{Rng, points, thread};

/// States without `RIGHTLINK_CRASH_STATES`.
const FEW: usize = 1_000;
/// States of the scenario that must show a broken rule.
const BROKEN: usize = 100;
/// States from which on the power fails at every call.
const MANY: usize = 10_000;
/// States from which on no plain choice is left out.
const PLENTY: usize = 100_000;
/// Failing states of a scenario that are told before it gives up; of a broken rule one is enough.
const MAX_FINDINGS: usize = 4;
/// Of so many states, one is crashed again while it recovers.
const NESTED: usize = 40;
/// Of so many recovered states, one is used: a table is made and filled.
const USED: usize = 50;
/// One seed for all random choices.
const SEED: u64 = 1;

#[test]
fn every_crash_keeps_a_prefix_with_all_that_was_acknowledged() {
    let wanted = std::env::var("RIGHTLINK_CRASH_STATES").ok();
    let wanted = wanted.map_or(FEW, |wanted| wanted.parse().expect("a number of states"));
    let only = std::env::var("RIGHTLINK_CRASH_ONLY").ok();
    let chosen = |scenario: &&Scenario| only.as_ref().is_none_or(|only| only == scenario.name);
    let scenarios: Vec<&'static Scenario> = ALL.iter().filter(chosen).collect();
    assert!(!scenarios.is_empty(), "no scenario of that name");
    let shared = Arc::new(Shared::default());
    let scenarios = Arc::new(scenarios);
    let workers: Vec<_> = (0..thread::parallelism().min(4))
        .map(|worker| {
            let (scenarios, shared) = (Arc::clone(&scenarios), Arc::clone(&shared));
            thread::spawn(&format!("crash-{worker}"), move || work(&scenarios, wanted, &shared))
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().expect("findings are collected"));
    let findings = std::mem::take(&mut *shared.findings.lock());
    let images = shared.images.lock().len();
    println!("{images} crash states");
    // A scenario whose states ran out must not pass for the states that were asked for.
    assert!(only.is_some() || images >= wanted / 6 * 5, "only {images} states of {wanted} wanted");
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}

/// The crashes of a scenario find what a broken rule does to the disk.
#[test]
fn broken_rules_are_found() {
    let cases = [
        (Broken::CommitNotDurable, "rollback"),
        (Broken::LogNotSynced, "rollback"),
        (Broken::NoDoubleWrite, "eviction"),
        (Broken::DataBeforeLog, "eviction"),
        (Broken::DirtyPageWithoutRedo, "checkpoint-steps"),
        (Broken::DirtyFrameEvicted, "eviction"),
        (Broken::SegmentNameNotSynced, "log-growth"),
        (Broken::ControlFileNotSynced, "log-recycling"),
        (Broken::HolePunchedBeforeLog, "forgotten-outcomes"),
        (Broken::OutcomesRemovedEarly, "outcome-segments"),
        (Broken::SequenceNotLogged, "sequence"),
    ];
    let mut missed = Vec::new();
    for (rule, name) in cases {
        let scenario = ALL.iter().find(|scenario| scenario.name == name).expect("a scenario");
        let broken = points::break_rule(rule);
        let effort = Effort { states: BROKEN, beyond: Beyond::Ends, findings: 1 };
        let ran = unprinted(|| enumerate(scenario, effort));
        let asked = broken.asked();
        drop(broken);
        match ran {
            Ok((_, _, findings)) if findings.is_empty() => missed.push((rule, asked)),
            Ok((_, _, findings)) => println!("{rule}: {}", findings[0]),
            Err(panic) => println!("{rule}: the script fails: {}", told(&*panic)),
        }
    }
    assert!(missed.is_empty(), "broken, and no crash showed it: {missed:?}");
}

/// Runs what may panic because it is to: nothing is printed, so that whoever looks for a failure
/// in what a run prints finds only real ones.
fn unprinted<T>(run: impl FnOnce() -> T) -> Result<T, Box<dyn std::any::Any + Send>> {
    thread_local! {
        static WANTED: Cell<bool> = const { Cell::new(false) };
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !WANTED.get() {
                print(info);
            }
        }));
    });
    WANTED.set(true);
    let ran = catch_unwind(AssertUnwindSafe(run));
    WANTED.set(false);
    ran
}

/// What the workers share.
#[derive(Default)]
struct Shared {
    next: AtomicUsize,
    images: Mutex<HashSet<u64>>,
    findings: Mutex<Vec<String>>,
}

fn work(scenarios: &[&'static Scenario], wanted: usize, shared: &Shared) {
    loop {
        let at = shared.next.fetch_add(1, Ordering::Relaxed);
        let Some(scenario) = scenarios.get(at) else { return };
        // What small scenarios cannot give is asked of those that follow.
        let missing = wanted.saturating_sub(shared.images.lock().len());
        let budget = missing.div_ceil(scenarios.len() - at).max(wanted / ALL.len() / 4);
        let beyond = match wanted {
            PLENTY.. => Beyond::Plain,
            MANY.. => Beyond::Ends,
            _ => Beyond::SomeEnds,
        };
        let effort = Effort { states: budget, beyond, findings: MAX_FINDINGS };
        let ran = catch_unwind(AssertUnwindSafe(|| enumerate(scenario, effort)));
        let (line, images, findings) = ran.unwrap_or_else(|panic| {
            let finding = format!("{}: the script panicked: {}", scenario.name, told(&*panic));
            (String::new(), HashSet::new(), vec![finding])
        });
        println!("{:>18}: {line}", scenario.name);
        shared.images.lock().extend(images);
        shared.findings.lock().extend(findings);
    }
}

fn told(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?").to_string()
}

/// Runs `scenario` once, without a fault, and sees to it that it does what it is for.
fn record(scenario: &Scenario) -> Script {
    let seen: Arc<Mutex<BTreeSet<&'static str>>> = Arc::default();
    let script = {
        let _watch = Watch;
        let names = Arc::clone(&seen);
        Script::run(scenario, true, move |disk| {
            disk.start_recording();
            Watch::begin(names);
        })
    };
    assert!(script.is_open(), "a script ends with an open database");
    let seen = seen.lock();
    for point in scenario.points {
        assert!(seen.contains(point), "{} does not pass {point}: {seen:?}", scenario.name);
    }
    script
}

/// Which choices are tried beyond the share of all.
#[derive(Clone, Copy, PartialEq)]
enum Beyond {
    /// All changes lost, and all kept, at a tenth of the moments.
    SomeEnds,
    /// All lost, and all kept, at every moment.
    Ends,
    /// Also each change lost alone and kept alone.
    Plain,
}

/// How far a scenario is enumerated.
#[derive(Clone, Copy)]
struct Effort {
    /// Distinct states.
    states: usize,
    /// Choices beyond the share.
    beyond: Beyond,
    /// Failing states after which it gives up.
    findings: usize,
}

/// Everything about one scenario; a line for people, the images, and what is wrong.
fn enumerate(scenario: &Scenario, effort: Effort) -> (String, HashSet<u64>, Vec<String>) {
    let Effort { states: budget, beyond, findings } = effort;
    let mut script = record(scenario);
    let recording = script.disk.recording();
    script.abandon();
    let mut run = Run::new(scenario.name, &script);
    let mut plan = Plan::new(&recording, budget, beyond);
    loop {
        let before = run.images.len();
        recording.for_each_moment(|moment, state| {
            if run.findings.len() >= findings {
                return;
            }
            for choice in plan.choices(moment, state) {
                let enough = plan.round > 0 && run.images.len() >= budget;
                if run.findings.len() < findings && !enough {
                    run.crash(&recording, (moment, state), &choice);
                }
            }
        });
        // Again with other random choices and more crashes inside recovery, as long as that helps.
        plan.round += 1;
        run.round = plan.round;
        let is_over = run.findings.len() >= findings || run.images.len() >= budget;
        if is_over || run.images.len() < before + before / 16 + 16 {
            break;
        }
    }
    let line = format!(
        "{} moments, {} states, {} recoveries read back, {} crashed again",
        recording.moments().len(),
        run.images.len(),
        run.read.len(),
        run.nested
    );
    (line, run.images.into_keys().map(|(image, _)| image).collect(), run.findings)
}

/// Which choices to try where: all of them if the budget allows it, more random ones if it allows
/// more. With a large budget each change is lost alone and kept alone at every moment, however many
/// there are.
struct Plan {
    round: u64,
    beyond: Beyond,
    /// Of all choices, so many in 1024.
    share: u64,
    more: u64,
}

/// All or one: what every moment deserves.
fn is_plain(choice: &CrashChoice) -> bool {
    use CrashChoice::{AllKept, AllLost, DropOnly, KeepOnly};
    matches!(choice, AllLost | AllKept | DropOnly(_) | KeepOnly(_))
}

impl Plan {
    fn new(recording: &Recording, budget: usize, beyond: Beyond) -> Plan {
        let (mut all, mut plain, mut moments) = (0, 0, 1);
        recording.for_each_moment(|_, state| {
            let choices = state.choices(SEED);
            plain += choices.iter().filter(|choice| is_plain(choice)).count();
            all += choices.len();
            moments += usize::from(state.len() > 3);
        });
        let (room, shared) = match beyond {
            Beyond::Plain => (budget.saturating_sub(plain / 2).max(budget / 2), all - plain),
            _ => (budget, all),
        };
        let share = (room * 1024 / shared.max(1)).min(1024) as u64;
        // About half of the random choices give an image that was seen.
        let more = (budget.saturating_sub(all / 2) * 2 / moments) as u64;
        Plan { round: 0, beyond, share, more }
    }

    fn choices(&self, moment: u64, state: &PendingState) -> Vec<CrashChoice> {
        let seed = SEED + self.round * 1000;
        let mut rng = Rng::from_seed(seed ^ moment.rotate_left(32));
        let mut choices = state.choices(seed.wrapping_add(moment << 20));
        choices.retain(|choice| {
            let is_end = matches!(choice, CrashChoice::AllLost | CrashChoice::AllKept);
            let beyond = match self.beyond {
                Beyond::SomeEnds => is_end && rng.chance(1, 10),
                Beyond::Ends => is_end,
                Beyond::Plain => is_plain(choice),
            };
            beyond || rng.chance(self.share, 1024)
        });
        if state.len() > 3 {
            choices.extend((0..self.more).map(|_| CrashChoice::Subset(rng.next_u64())));
        }
        choices
    }
}

/// Which states of the script an image turned out to hold.
type Verdict = Arc<Vec<usize>>;

/// The crashes of one scenario.
struct Run<'a> {
    name: &'static str,
    script: &'a Script,
    /// By disk image and whether unlogged rows may be there: what was found after recovery.
    images: HashMap<(u64, bool), Verdict>,
    /// By image of the data files after recovery: what was read.
    read: HashMap<u64, Verdict>,
    nested: usize,
    round: u64,
    findings: Vec<String>,
}

/// Where a recovery starts, and what may be found after it.
struct Case<'a> {
    disk: &'a SimDisk,
    floor: usize,
    ceiling: usize,
    closed: bool,
}

impl<'a> Run<'a> {
    fn new(name: &'static str, script: &'a Script) -> Run<'a> {
        let (images, read, findings) = (HashMap::new(), HashMap::new(), Vec::new());
        Run { name, script, images, read, nested: 0, round: 0, findings }
    }

    fn crash(
        &mut self,
        recording: &Recording,
        (moment, state): (u64, &PendingState),
        choice: &CrashChoice,
    ) {
        let disk = recording.crash(state, choice);
        let (floor, ceiling) = self.script.bounds(moment);
        let closed = self.script.clean_close.is_some_and(|since| since < moment);
        let every = if self.round == 0 { NESTED } else { NESTED / 8 };
        let again = (self.images.len() % every == every / 2).then(|| {
            let disk = recording.crash(state, choice);
            disk.start_recording();
            disk
        });
        let new = !self.images.contains_key(&(disk.image_hash(), closed));
        let result = self.check(&Case { disk: &disk, floor, ceiling, closed });
        if let Err(finding) = result {
            return self.report(moment, choice, "", &finding);
        }
        if let Some(disk) = again.filter(|_| new) {
            self.nested += 1;
            self.crash_again((moment, choice), &Case { disk: &disk, floor, ceiling, closed });
        }
    }

    fn report(&mut self, moment: u64, choice: &CrashChoice, nested: &str, finding: &str) {
        let (name, (floor, ceiling)) = (self.name, self.script.bounds(moment));
        self.findings.push(format!(
            "{name}: power cut after {moment} calls, {choice:?}{nested}, states {floor} to \
             {ceiling} allowed: {finding}"
        ));
    }

    /// Recovers `case` and compares. Which states fit is remembered by image.
    fn check(&mut self, case: &Case<'_>) -> Result<Verdict, String> {
        let image = (case.disk.image_hash(), case.closed);
        let verdict = match self.images.get(&image) {
            Some(verdict) => Arc::clone(verdict),
            None => {
                let settings = self.script.settings;
                let found = catch_unwind(AssertUnwindSafe(|| self.recover(case, settings)));
                let verdict =
                    found.unwrap_or_else(|panic| Err(format!("panic: {}", told(&*panic))))?;
                self.images.insert(image, Arc::clone(&verdict));
                verdict
            }
        };
        match verdict.iter().any(|state| (case.floor..=case.ceiling).contains(state)) {
            true => Ok(verdict),
            false => Err(format!("found states {verdict:?}")),
        }
    }

    /// Opens the database, reads it unless the same data files were read before, and cuts the
    /// power.
    fn recover(&mut self, case: &Case<'_>, settings: Settings) -> Result<Verdict, String> {
        let db = settings.open(case.disk).map_err(|error| format!("open: {error}"))?;
        let key = case.disk.live_hash_under("data/") ^ u64::from(case.closed);
        if let Some(verdict) = self.read.get(&key) {
            let verdict = Arc::clone(verdict);
            case.disk.crash_at(case.disk.op_count());
            return Ok(verdict);
        }
        let content = oracle::read(&db)?;
        let verdict = Arc::new(oracle::matching(self.script, &content, case.closed));
        if verdict.is_empty() {
            return Err(format!("no state of the run: {}", oracle::summary(&content)));
        }
        if self.read.len().is_multiple_of(USED) {
            use_it(&db)?;
        }
        case.disk.crash_at(case.disk.op_count());
        self.read.insert(key, Arc::clone(&verdict));
        Ok(verdict)
    }

    /// Crashes the recovery of `case` at each of its own calls. Once it has shown a state to its
    /// callers, no later crash may take that state back.
    fn crash_again(&mut self, (moment, choice): (u64, &CrashChoice), case: &Case<'_>) {
        let Ok(db) = self.script.settings.open(case.disk) else { return };
        let opened = case.disk.op_count();
        let shown =
            oracle::read(&db).map(|found| oracle::matching(self.script, &found, case.closed));
        let recording = case.disk.recording();
        case.disk.crash_at(case.disk.op_count());
        drop(db);
        let shown = shown.unwrap_or_default().first().copied().unwrap_or(case.floor);
        let mut failed = None;
        recording.for_each_moment(|second, state| {
            let floor = if second >= opened { shown.max(case.floor) } else { case.floor };
            for choice in some_choices(state, SEED ^ second ^ moment ^ (self.round << 32)) {
                let disk = recording.crash(state, &choice);
                let case = Case { disk: &disk, floor, ..*case };
                if let (Err(finding), None) = (self.check(&case), &failed) {
                    failed = Some((
                        format!(", again after {second} calls of recovery, {choice:?}"),
                        finding,
                    ));
                }
            }
        });
        if let Some((nested, finding)) = failed {
            self.report(moment, choice, &nested, &finding);
        }
    }
}

/// A few choices of each kind, for crashes inside recovery.
fn some_choices(state: &PendingState, seed: u64) -> Vec<CrashChoice> {
    let mut choices = state.choices(seed);
    let mut rng = Rng::from_seed(seed);
    let keep = (12 * 1024 / choices.len()) as u64;
    choices.retain(|choice| {
        matches!(choice, CrashChoice::AllLost | CrashChoice::AllKept)
            || rng.chance(keep.min(1024), 1024)
    });
    choices
}

/// A recovered database works: a table can be made, filled, and read.
fn use_it(db: &Database) -> Result<(), String> {
    let work = || -> rightlink::Result<bool> {
        let mut txn = db.begin();
        let schema = TableSchema::new("later").column("id", Type::Int8).primary_key(["id"]);
        txn.create_table(&schema)?;
        let rows: Vec<_> = (0..50).map(|id| vec![Value::Int8(id)]).collect();
        txn.insert_many("later", &rows)?;
        txn.commit()?;
        db.vacuum(None)?;
        let found = db.begin().get("later", &[Value::Int8(49)])?;
        Ok(found.is_some() && db.verify()?.is_clean())
    };
    match work() {
        Ok(true) => Ok(()),
        other => Err(format!("the recovered database cannot be used: {other:?}")),
    }
}

thread_local! {
    static WATCH: std::cell::RefCell<Option<points::InstalledLocal>> =
        const { std::cell::RefCell::new(None) };
}

/// Notes the points that this thread passes, from [`Watch::begin`] until dropped.
#[derive(Default)]
struct Watch;

impl Watch {
    fn begin(names: Arc<Mutex<BTreeSet<&'static str>>>) {
        let hook = points::install_local(move |name| {
            names.lock().insert(name);
        });
        WATCH.set(Some(hook));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        WATCH.set(None);
    }
}

/// A script makes the same calls with the same bytes every time: else no finding could be repeated.
#[test]
fn a_script_run_twice_makes_the_same_calls() {
    let mut seen = BTreeMap::new();
    for _ in 0..2 {
        for scenario in ALL {
            let mut script = Script::run(scenario, true, |_| {});
            script.abandon();
            let hash = script.disk.op_log_hash();
            let first = *seen.entry(scenario.name).or_insert(hash);
            assert_eq!(hash, first, "{} differs", scenario.name);
        }
    }
    assert!(seen.len() >= 25, "{} scenarios", seen.len());
}
