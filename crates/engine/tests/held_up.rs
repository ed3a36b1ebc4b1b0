//! Nobody stops the world: readers and writers get on while leaves split, a vacuum runs, a
//! checkpoint is taken and an index is built.
//!
//! Each piece of maintenance is watched from beside: how many reads and how many writes of other
//! threads were finished while it ran. One that takes longer than a few turns of the scheduler and
//! lets none through has stopped them. The longest single read and write are printed.

use std::time::Duration;

use rightlink::{Database, Error, IndexSchema, Result, ScanOptions, TableSchema, Type, Value};
use rightlink_env::sync::{AtomicBool, AtomicU64, Ordering};
use rightlink_env::{Clock, Rng};

const ROWS: i64 = 20_000;
/// Maintenance shorter than this may fall between two turns of a watcher on a busy machine.
const LONG: Duration = Duration::from_millis(400);

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
    let few = ScanOptions::index("t_u").from(row(0, rng)[1..2].to_vec()).limit(20);
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

const JOBS: [Job; 3] = [
    Job { name: "vacuum", run: |db| db.vacuum(Some("t")).map(|_| ()), writers_go_on: true },
    Job { name: "checkpoint", run: Database::checkpoint, writers_go_on: true },
    Job { name: "index build", run: build_index, writers_go_on: false },
];

fn build_index(db: &Database) -> Result<()> {
    let mut txn = db.begin();
    match txn.create_index("t", &IndexSchema::new("t_new").on("u").on("id")) {
        Err(Error::AlreadyExists(_)) => txn.drop_index("t_new")?,
        built => built?,
    }
    txn.commit()
}

fn prepared(dir: &std::path::Path) -> Database {
    let db = Database::options().pool_pages(1500).open(dir).expect("opens");
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
    db
}

#[test]
fn readers_and_writers_get_on_beside_all_maintenance() {
    let dir = tempfile::tempdir().expect("a folder");
    let db = prepared(dir.path());
    let (reads, writes) = (Progress::default(), Progress::default());
    let (stop, next) = (AtomicBool::new(false), AtomicU64::new(ROWS as u64));
    let clock = Clock::system();
    let (db, stop, next, clock) = (&db, &stop, &next, &clock);
    let keep_on = |progress: &Progress, work: &mut dyn FnMut() -> Result<()>| {
        while !stop.load(Ordering::Relaxed) {
            let started = clock.now();
            work().expect("reads and writes succeed");
            progress.note(clock.now().since(started));
        }
    };
    let (keep_on, reads, writes) = (&keep_on, &reads, &writes);
    std::thread::scope(|scope| {
        let workers = [
            scope.spawn(move || {
                let mut rng = Rng::from_seed(1);
                keep_on(reads, &mut || read(db, &mut rng));
            }),
            scope.spawn(move || {
                let mut rng = Rng::from_seed(2);
                keep_on(writes, &mut || write(db, &mut rng, next));
            }),
        ];
        for round in 0..4 {
            for job in &JOBS {
                let before =
                    (reads.done.load(Ordering::Relaxed), writes.done.load(Ordering::Relaxed));
                let started = clock.now();
                (job.run)(db).expect("maintenance succeeds");
                let took = clock.now().since(started);
                let read = reads.done.load(Ordering::Relaxed) - before.0;
                let wrote = writes.done.load(Ordering::Relaxed) - before.1;
                println!("round {round}: {} {took:?}, {read} reads, {wrote} writes", job.name);
                let long = took >= LONG;
                assert!(!long || read > 0, "no read got on beside {}", job.name);
                assert!(!long || !job.writers_go_on || wrote > 0, "no write beside {}", job.name);
            }
        }
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().for_each(|worker| worker.join().expect("a worker ends well"));
    });
    let longest = |progress: &Progress| progress.longest_us.load(Ordering::Relaxed);
    println!("longest read {} us, longest write {} us", longest(reads), longest(writes));
    assert_eq!(db.stats().get("deadlocks"), Some(0));
    let report = db.verify().expect("verify runs");
    assert!(report.is_clean(), "{:?}", report.findings);
}
