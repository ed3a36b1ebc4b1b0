//! Nobody stops the world: readers and writers get on while leaves split, a vacuum runs, a
//! checkpoint is taken and an index is built.
//!
//! The device is a model of a slow one, so that each piece of maintenance lasts. Meanwhile the
//! longest single read and write of other threads are taken, those included that were under way
//! when it ended. One that took a large part of the maintenance was held up by it.
//! `a_lock_around_everything_is_noticed` puts such a lock around all of it: the same watch must
//! tell.

use std::time::Duration;

use rightlink::{
    Database, DeviceModel, Error, IndexSchema, Result, ScanOptions, TableSchema, Type, Value,
};
use rightlink_env::sync::{AtomicBool, AtomicU64, Mutex, Ordering};
use rightlink_env::{Clock, Rng};

const ROWS: i64 = 20_000;
/// Maintenance shorter than this may fall between two turns of a watcher on a busy machine.
const LONG: Duration = Duration::from_millis(120);
/// The largest part of long maintenance that one read or write may take.
const MOST_PERCENT: u128 = 60;
const ROUNDS: usize = 3;

/// What a kind of work finished, and its longest single piece.
#[derive(Default)]
struct Progress {
    done: AtomicU64,
    longest_us: AtomicU64,
}

impl Progress {
    fn note(&self, took: Duration) {
        self.longest_us.fetch_max(took.as_micros() as u64, Ordering::Relaxed);
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until the piece that is under way now is finished, too.
    fn settle(&self) {
        let under_way = self.done.load(Ordering::Relaxed);
        while self.done.load(Ordering::Relaxed) < under_way + 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn longest(&self) -> Duration {
        Duration::from_micros(self.longest_us.load(Ordering::Relaxed))
    }
}

fn row(id: i64, rng: &mut Rng) -> Vec<Value> {
    let mut uuid = [0; 16];
    rng.fill(&mut uuid);
    vec![Value::Int8(id), Value::Uuid(uuid), Value::Text("y".repeat(40))]
}

fn read(db: &Database, rng: &mut Rng) -> Result<()> {
    let mut txn = db.begin();
    let key = vec![Value::Int8(rng.below(ROWS as u64) as i64)];
    assert!(txn.get("t", &key)?.is_some(), "rows below {ROWS} are never deleted");
    let few = ScanOptions::index("t_u").from(row(0, rng)[1..2].to_vec()).limit(5);
    txn.scan("t", &few)?.try_for_each(|row| row.map(|_| ()))
}

/// Inserts and deletes behind the rows that are read: leaves split and empty all the time.
fn write(db: &Database, rng: &mut Rng, next: &AtomicU64) -> Result<()> {
    let first = next.fetch_add(50, Ordering::Relaxed) as i64;
    db.with_retry(|txn| {
        let rows: Vec<_> = (first..first + 50).map(|id| row(id, rng)).collect();
        let ids = txn.insert_many("t", &rows)?;
        for id in &ids[..25] {
            txn.delete("t", *id)?;
        }
        Ok(())
    })
}

/// A piece of maintenance and whom it must let through.
struct Job {
    name: &'static str,
    run: fn(&Database) -> Result<()>,
    writers_go_on: bool,
}

const JOBS: [Job; 4] = [
    Job { name: "vacuum", run: |db| db.vacuum(Some("t")).map(|_| ()), writers_go_on: true },
    Job { name: "checkpoint", run: Database::checkpoint, writers_go_on: true },
    Job { name: "index build", run: build_index, writers_go_on: false },
    Job { name: "index build beside writers", run: build_beside, writers_go_on: true },
];

fn build_beside(db: &Database) -> Result<()> {
    match db.create_index_online("t", &IndexSchema::new("t_beside").on("u").on("id")) {
        Err(Error::AlreadyExists(_)) => db.reindex("t", Some("t_beside")).map(|_| ()),
        built => built,
    }
}

fn build_index(db: &Database) -> Result<()> {
    let mut txn = db.begin();
    match txn.create_index("t", &IndexSchema::new("t_new").on("u").on("id")) {
        Err(Error::AlreadyExists(_)) => txn.drop_index("t_new")?,
        built => built?,
    }
    txn.commit()
}

/// A table of which the pool holds a part, on a device that takes its time.
fn prepared(dir: &std::path::Path) -> Database {
    let device = DeviceModel { latency: Duration::from_millis(5), depth: 2, bytes_per_s: None };
    let open = |device| Database::options().pool_pages(300).device(device).open(dir);
    let db = open(None).expect("opens");
    let mut rng = Rng::from_seed(5);
    let schema = TableSchema::new("t")
        .column("id", Type::Int8)
        .column("u", Type::Uuid)
        .column("pad", Type::Text)
        .primary_key(["id"])
        .index(IndexSchema::new("t_u").on("u"));
    let mut txn = db.begin();
    txn.create_table(&schema).expect("a new table");
    let rows: Vec<_> = (0..ROWS).map(|id| row(id, &mut rng)).collect();
    txn.insert_many("t", &rows).expect("new rows");
    txn.commit().expect("commits");
    db.close().expect("closes");
    open(Some(device)).expect("opens again")
}

/// What was seen beside one piece of maintenance.
struct Seen {
    job: &'static str,
    took: Duration,
    read: Duration,
    wrote: Option<Duration>,
}

impl Seen {
    fn is_long(&self) -> bool {
        self.took >= LONG
    }

    /// Did a single piece of work take a large part of the maintenance?
    fn held_up(&self) -> bool {
        let longest = self.read.max(self.wrote.unwrap_or_default());
        longest.as_micros() * 100 > self.took.as_micros() * MOST_PERCENT
    }
}

/// Runs all maintenance beside a reader and a writer, each piece of work inside of `lock` if there
/// is one.
fn watch(db: &Database, lock: Option<&Mutex<()>>) -> Vec<Seen> {
    let (reads, writes) = (Progress::default(), Progress::default());
    let (stop, next) = (AtomicBool::new(false), AtomicU64::new(ROWS as u64));
    let clock = Clock::system();
    let (stop, next, clock) = (&stop, &next, &clock);
    let keep_on = |progress: &Progress, work: &mut dyn FnMut() -> Result<()>| {
        while !stop.load(Ordering::Relaxed) {
            let started = clock.now();
            let held = lock.map(Mutex::lock);
            work().expect("reads and writes succeed");
            drop(held);
            progress.note(clock.now().since(started));
            // A lock that is free for a moment only would rarely be taken by another.
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let (keep_on, reads, writes) = (&keep_on, &reads, &writes);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut rng = Rng::from_seed(1);
            keep_on(reads, &mut || read(db, &mut rng));
        });
        scope.spawn(move || {
            let mut rng = Rng::from_seed(2);
            keep_on(writes, &mut || write(db, &mut rng, next));
        });
        let jobs = (0..ROUNDS).flat_map(|_| &JOBS);
        let seen = jobs.map(|job| {
            for progress in [reads, writes] {
                progress.longest_us.store(0, Ordering::Relaxed);
            }
            // A wait for the lock holds up neither readers nor writers, so it is not counted.
            let held = lock.map(Mutex::lock);
            let started = clock.now();
            (job.run)(db).expect("maintenance succeeds");
            drop(held);
            let took = clock.now().since(started);
            for progress in [reads, writes] {
                progress.settle();
            }
            let wrote = job.writers_go_on.then(|| writes.longest());
            let seen = Seen { job: job.name, took, read: reads.longest(), wrote };
            let Seen { job, took, read, wrote } = &seen;
            println!("{job} {took:?}, longest read {read:?}, longest write {wrote:?}");
            seen
        });
        let seen = seen.collect();
        stop.store(true, Ordering::Relaxed);
        seen
    })
}

#[test]
fn readers_and_writers_get_on_beside_all_maintenance() {
    let _alone = crate::alone();
    let dir = tempfile::tempdir().expect("a folder");
    let db = prepared(dir.path());
    let seen = watch(&db, None);
    for job in &JOBS {
        let mut long = seen.iter().filter(|seen| seen.job == job.name && seen.is_long()).peekable();
        assert!(long.peek().is_some(), "{} lasts long enough to hold anyone up", job.name);
        // Held up is held up every time; a machine with other work stops anybody now and then.
        assert!(!long.all(Seen::held_up), "somebody was held up by every {}", job.name);
    }
    assert_eq!(db.stats().get("deadlocks"), Some(0));
    let report = db.verify().expect("verify runs");
    assert!(report.is_clean(), "{:?}", report.findings);
}

#[test]
fn a_lock_around_everything_is_noticed() {
    let _alone = crate::alone();
    let dir = tempfile::tempdir().expect("a folder");
    let db = prepared(dir.path());
    let seen = watch(&db, Some(&Mutex::new(())));
    let mut long = seen.iter().filter(|seen| seen.is_long()).peekable();
    assert!(long.peek().is_some(), "maintenance lasts");
    for seen in long {
        assert!(seen.held_up(), "nobody noticed {} of {:?}", seen.job, seen.took);
    }
}
