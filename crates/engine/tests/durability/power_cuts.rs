//! The power fails while several threads write. At random moments an image of the simulated disk
//! is taken, with a random choice of what was on its way to it; each image is opened, checked,
//! vacuumed, written to, opened again and checked again.
//!
//! `RIGHTLINK_POWER_CUTS=N` asks for N images (default: a few dozen). Unlike the scripts of
//! `crash.rs` no run is the same twice, so an image that fails is written to a directory that the
//! failure names, and can be looked at with the `rightlink` command.
//!
//! Invariants, which hold at every moment and so in every image:
//! - A transaction of writer `w` adds one to the counter of `w` and puts a row with its new value
//!   into the journal: the journal has each value up to the counter once.
//! - The counter of `w` lies between the last commit that was acknowledged as durable before the
//!   image was taken, and the last that had begun.
//! - The values of all other rows add up to 0; a text tells its own length; each index has as many
//!   rows as its table; `verify` is clean.
//!
//! Does not do: faults other than a power cut (`faults.rs`); definitions that change (`crash.rs`).

mod load;

use rightlink_env::Broken;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use load::{Bounds, Load, WRITERS, counter_row, int};
use rightlink::{Database, Method, ScanOptions, Value};
use rightlink_aio::SimDisk;
use rightlink_aio::sim::{CrashChoice, CrashImage, PendingKind, PendingState, Tear};
use rightlink_env::sync::{Arc, AtomicUsize, Mutex, Ordering};
use rightlink_env::{Env, Logger, Rng, points, thread};

/// Images without `RIGHTLINK_POWER_CUTS`.
const FEW: usize = 20;
/// Images of one run, which starts with an empty disk.
const IMAGES: usize = 20;
/// Longest time between two images of a run.
const PAUSE_MS: u64 = 50;
/// Images that fail before the test gives up.
const MAX_FINDINGS: usize = 4;

/// What is wrong with an image.
type Checked<T = ()> = Result<T, String>;

#[test]
fn every_power_cut_keeps_what_was_acknowledged() {
    let wanted = std::env::var("RIGHTLINK_POWER_CUTS").ok();
    let wanted = wanted.map_or(FEW, |wanted| wanted.parse().expect("a number of images"));
    let findings =
        cut_power(Work { images: wanted, first_seed: 1, findings: MAX_FINDINGS, keeps: true });
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}

/// What a broken rule does to the disk shows in some image.
#[test]
fn broken_rules_are_found() {
    let rules = [
        Broken::CommitNotDurable,
        Broken::LogNotSynced,
        Broken::NoDoubleWrite,
        Broken::DirtyPageWithoutRedo,
    ];
    let missed = rules.into_iter().filter(|rule| {
        let _broken = points::break_rule(*rule);
        let findings = cut_power(Work { images: 600, first_seed: 1000, findings: 1, keeps: false });
        println!("{rule}: {findings:?}");
        findings.is_empty()
    });
    let missed: Vec<_> = missed.collect();
    assert!(missed.is_empty(), "broken, and no power cut showed it: {missed:?}");
}

/// What is to be done.
#[derive(Clone, Copy, Default)]
struct Work {
    images: usize,
    /// Seed of the first run.
    first_seed: u64,
    /// Images that fail before it is given up.
    findings: usize,
    /// Are images that fail written to directories?
    keeps: bool,
}

/// Takes and judges images, several runs at a time; what is wrong with them.
fn cut_power(wanted: Work) -> Vec<String> {
    let shared = Arc::new(Shared { wanted, ..Shared::default() });
    let workers: Vec<_> = (0..thread::parallelism().min(4))
        .map(|worker| {
            let shared = Arc::clone(&shared);
            thread::spawn(&format!("power-{worker}"), move || work(&shared))
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().expect("findings are collected"));
    let (runs, images) = (&shared.runs, shared.images.load(Ordering::SeqCst));
    let (runs, commits) = (runs.load(Ordering::SeqCst), shared.commits.load(Ordering::SeqCst));
    println!("{images} images of {runs} runs, {commits} commits");
    let findings = std::mem::take(&mut *shared.findings.lock());
    assert!(!findings.is_empty() || images >= wanted.images, "only {images} images");
    findings
}

/// What the threads that run loads share.
#[derive(Default)]
struct Shared {
    wanted: Work,
    runs: AtomicUsize,
    images: AtomicUsize,
    commits: AtomicUsize,
    findings: Mutex<Vec<String>>,
}

fn work(shared: &Shared) {
    let wanted = shared.wanted;
    while shared.images.load(Ordering::SeqCst) < wanted.images {
        let seed = wanted.first_seed + shared.runs.fetch_add(1, Ordering::SeqCst) as u64;
        let (cuts, commits) = run(seed);
        match commits {
            Ok(commits) => shared.commits.fetch_add(commits as usize, Ordering::SeqCst),
            Err(what) => return shared.findings.lock().push(format!("seed {seed}: {what}")),
        };
        for (number, cut) in cuts.into_iter().enumerate() {
            let kept = cut.image.snapshot();
            let judged = catch_unwind(AssertUnwindSafe(|| judge(&cut, seed)));
            let judged = judged.unwrap_or_else(|panic| Err(thread::panic_message(panic.as_ref())));
            if let Err(what) = judged {
                let place = wanted.keeps.then(|| keep(&kept, &format!("{seed}-{number}")));
                let Cut { choice, .. } = &cut;
                let what = format!("seed {seed}, image {number} ({place:?}), {choice:?}: {what}");
                shared.findings.lock().push(what);
            }
            shared.images.fetch_add(1, Ordering::SeqCst);
            if shared.findings.lock().len() >= wanted.findings {
                return;
            }
        }
    }
}

/// An image, and what must be found there.
struct Cut {
    image: SimDisk,
    choice: CrashChoice,
    bounds: Bounds,
    settings: Settings,
}

/// How the database of a run is opened.
#[derive(Clone, Copy)]
struct Settings {
    pool_pages: usize,
    method: Method,
}

impl Settings {
    fn open(self, disk: &SimDisk, seed: u64, threads: bool) -> rightlink::Result<Database> {
        Database::options()
            .simulation(Env::simulated(seed), disk.clone())
            .method(self.method)
            .threads(threads)
            .memory(10 << 20)
            .pool_pages(self.pool_pages)
            .max_log_bytes(1 << 20)
            .log_segment_bytes(64 << 10)
            .insert_threads(2)
            .logger(Logger::silent())
            .open("db")
    }
}

/// One run of the load, from an empty disk on: its images, and how many commits there were, or what
/// a thread of the load panicked with.
fn run(seed: u64) -> (Vec<Cut>, Checked<i64>) {
    let mut rng = Rng::from_seed(seed);
    let method = if rng.chance(1, 2) { Method::Sync } else { Method::Worker };
    let settings = Settings { pool_pages: 128 + rng.index(300), method };
    let disk = SimDisk::new(seed);
    let db = settings.open(&disk, seed, true).expect("an empty disk");
    let load = Load::start(db, seed);
    let mut cuts = Vec::with_capacity(IMAGES);
    for _ in 0..IMAGES {
        thread::sleep(Duration::from_millis(rng.below(PAUSE_MS)));
        // Acknowledged before, begun after: what happens meanwhile may be there or not.
        let acknowledged = load.acknowledged();
        let CrashImage { disk: image, choice } = disk.crash_image_by(|p| any_choice(&mut rng, p));
        let bounds = Bounds { acknowledged, begun: load.begun() };
        cuts.push(Cut { image, choice, bounds, settings });
        if load.has_failed() {
            break;
        }
    }
    (cuts, load.stop())
}

fn any_choice(rng: &mut Rng, pending: &PendingState) -> CrashChoice {
    let any = |rng: &mut Rng| rng.index(pending.len().max(1));
    match rng.below(13) {
        0 => CrashChoice::AllLost,
        1 => CrashChoice::AllKept,
        2 => CrashChoice::DropOnly(any(rng)),
        3 => CrashChoice::KeepOnly(any(rng)),
        4 => CrashChoice::Prefix(any(rng)),
        5 => CrashChoice::LostGrowth,
        6 => CrashChoice::ZeroTails,
        7 => CrashChoice::GarbageTails(rng.next_u64()),
        8 => CrashChoice::LostEntries,
        9..=11 => torn(rng, pending),
        _ => CrashChoice::Subset(rng.next_u64()),
    }
}

/// A write that is torn, if there is one.
fn torn(rng: &mut Rng, pending: &PendingState) -> CrashChoice {
    let kinds = pending.kinds();
    let writes = (0..kinds.len()).filter(|index| kinds[*index] == PendingKind::Write);
    let writes: Vec<usize> = writes.collect();
    if writes.is_empty() {
        return CrashChoice::AllKept;
    }
    CrashChoice::Torn {
        index: writes[rng.index(writes.len())],
        sector: [512, 4096][rng.index(2)],
        tear: Tear::Random(rng.next_u64()),
        others: rng.chance(1, 2),
    }
}

/// Opens the image, checks it, goes on to work, and does it all again, after a clean end or another
/// power cut.
fn judge(cut: &Cut, seed: u64) -> Checked {
    let mut rng = Rng::from_seed(seed ^ 1);
    let told = |error: rightlink::Error| error.to_string();
    let db = cut.settings.open(&cut.image, seed + 1, false).map_err(told)?;
    let found = check(&db, &cut.bounds)?;
    db.vacuum(None).map_err(told)?;
    load::transfer(&db, 0).map_err(told)?;
    let acknowledged = (0..WRITERS).map(|w| found[w] + i64::from(w == 0)).collect::<Vec<_>>();
    let bounds = Bounds { begun: acknowledged.clone(), acknowledged };
    let disk = match rng.chance(1, 2) {
        true => cut.image.clone(),
        false => cut.image.crash_image_by(|pending| any_choice(&mut rng, pending)).disk,
    };
    drop(db);
    let db = cut.settings.open(&disk, seed + 2, false);
    let db = db.map_err(|error| format!("opened again: {error}"))?;
    check(&db, &bounds).map_err(|what| format!("opened again: {what}")).map(|_| ())
}

/// The counters that were found, if everything is as it should be.
fn check(db: &Database, bounds: &Bounds) -> Checked<Vec<i64>> {
    let told = |error: rightlink::Error| error.to_string();
    let mut txn = db.begin();
    let mut rows = |table: &str, options: ScanOptions| -> Checked<Vec<Vec<Value>>> {
        let rows = txn.scan(table, &options).map_err(told)?;
        rows.map(|row| row.map(|row| row.values).map_err(told)).collect()
    };
    let accounts = rows("t", ScanOptions::all())?;
    let sum: i64 = accounts.iter().filter(|row| int(&row[0]) >= 0).map(|row| int(&row[1])).sum();
    ensure(sum == 0, || format!("the values add up to {sum}"))?;
    for row in &accounts {
        ensure(load::tells_its_length(&row[3]), || {
            format!("row {} has another text", int(&row[0]))
        })?;
    }
    let ids = |rows: &[Vec<Value>]| rows.iter().map(|row| int(&row[0])).collect::<BTreeSet<_>>();
    let all = ids(&accounts);
    for index in ["t_pkey", "t_v", "t_g"] {
        let found = rows("t", ScanOptions::index(index))?;
        ensure(found.len() == accounts.len() && ids(&found) == all, || {
            format!("{index} has {} rows of {}", found.len(), accounts.len())
        })?;
    }
    let journal = rows("journal", ScanOptions::all())?;
    let mut counters = Vec::new();
    for writer in 0..WRITERS {
        let counter = accounts.iter().find(|row| int(&row[0]) == counter_row(writer));
        let counter = int(&counter.ok_or_else(|| format!("writer {writer} has no counter"))?[1]);
        let (least, most) = (bounds.acknowledged[writer], bounds.begun[writer]);
        ensure((least..=most).contains(&counter), || {
            format!("writer {writer} has {counter} commits, not {least} to {most}")
        })?;
        let entries = journal.iter().filter(|row| int(&row[0]) == writer as i64);
        let entries: BTreeSet<i64> = entries.map(|row| int(&row[1])).collect();
        ensure(entries.iter().copied().eq(1..=counter), || {
            format!("the journal of writer {writer} has other entries than 1 to {counter}")
        })?;
        counters.push(counter);
    }
    drop(txn);
    let report = db.verify().map_err(told)?;
    ensure(report.is_clean(), || {
        format!("{:?}", report.findings.iter().take(3).collect::<Vec<_>>())
    })?;
    Ok(counters)
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(what()) }
}

/// Writes the files of an image to a directory of its own.
fn keep(image: &SimDisk, name: &str) -> PathBuf {
    let dir =
        std::env::temp_dir().join(format!("rightlink-power-cut-{}-{name}", std::process::id()));
    for (file, len) in image.files() {
        let path = dir.join(&file);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).expect("a directory");
        std::fs::write(path, image.peek(&file, 0, len as usize)).expect("a file");
    }
    dir
}
