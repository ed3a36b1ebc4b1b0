//! Kills a load of real rows at random moments and looks at what is there afterwards.
//!
//! After every kill: all acknowledged rows are there, they are the first rows of the file, whole
//! batches only, and verify finds nothing. Then the load goes on. `RIGHTLINK_KILLS` (5) and
//! `RIGHTLINK_SEED` (random) may be set; the seed is printed. A seed fixes the plan of the kills,
//! not what the machine makes of it.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::{EXE, setting};
use rightlink::{Database, Error, ScanOptions, Value};
use rightlink_env::Rng;

const BATCH: u64 = 100;
const FILE_ROWS: u64 = 27_004;

/// When to kill.
#[derive(Debug)]
enum Moment {
    /// So long after the process was started: often before the table is there, or in recovery.
    Time(Duration),
    /// So long after this many batches were reported.
    Batches(u64, Duration),
}

fn moment(random: &mut Rng) -> Moment {
    match random.below(4) {
        0 => Moment::Time(Duration::from_micros(random.below(150_000))),
        _ => {
            let jitter = Duration::from_micros(random.below(10_000));
            Moment::Batches(1 + random.below(60), jitter)
        }
    }
}

fn start(db: &Path, table: &str, skip: u64) -> Child {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/flights.csv");
    let index = |columns: &str| format!("{table}_{}={columns}", columns.replace([',', ' '], "_"));
    Command::new(EXE)
        .arg("load")
        .args([db, Path::new(table), &data])
        .args(["--json", "--primary-key", "id", "--sample", "30000"])
        .args(["--batch", &BATCH.to_string(), "--skip", &skip.to_string(), "--memory", "16M"])
        .args(["--index", &index("tailnum"), "--index", &index("time_hour")])
        .args(["--index", &index("dest,arr_delay desc"), "--index", &index("carrier,flight")])
        .args(["--unique-index", &index("time_hour,carrier,flight")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command can be run")
}

/// The last report among these lines. One cut short by the kill is none.
fn last_report(lines: impl Iterator<Item = std::io::Result<String>>) -> Option<u64> {
    let number = |line: String| {
        let number = line.strip_prefix("{\"committed_rows\": ")?.strip_suffix('}')?.to_owned();
        number.parse().ok()
    };
    lines.map(|line| line.expect("the pipe can be read")).filter_map(number).last()
}

/// Kills the child at `moment`: the rows it had acknowledged.
fn kill(mut child: Child, moment: &Moment) -> u64 {
    let mut reports = BufReader::new(child.stdout.take().expect("it has a pipe"));
    let mut acknowledged = 0;
    match moment {
        Moment::Time(delay) => std::thread::sleep(*delay),
        Moment::Batches(count, jitter) => {
            let lines = reports.by_ref().lines().take(*count as usize);
            acknowledged = last_report(lines).unwrap_or(0);
            std::thread::sleep(*jitter);
        }
    }
    child.kill().expect("a child can be killed");
    acknowledged = last_report(reports.lines()).unwrap_or(acknowledged);
    child.wait().expect("a killed child ends");
    acknowledged
}

/// How many rows there are, which must be those with the ids 1 to that number.
fn rows_of(db: &Database, table: &str) -> u64 {
    let mut work = db.begin();
    let options = ScanOptions::index(format!("{table}_pkey")).columns(["id"]);
    let rows = match work.scan(table, &options) {
        Ok(rows) => rows,
        Err(Error::NotFound(_)) => return 0,
        Err(error) => panic!("{error}"),
    };
    let mut found = 0;
    for row in rows {
        found += 1;
        let id = row.expect("rows can be read").values.remove(0);
        assert_eq!(id, Value::Int4(found), "row {found} of {table} is another");
    }
    found as u64
}

/// Opens what the kill has left, and looks: the rows found.
fn check(dir: &Path, table: &str, before: u64, acknowledged: u64) -> u64 {
    let db = Database::open(dir).expect("a killed database opens");
    let found = rows_of(&db, table);
    assert!(
        before + acknowledged <= found,
        "{before} rows, then {acknowledged} acknowledged, but there are {found}"
    );
    let whole = (found - before).is_multiple_of(BATCH) || found == FILE_ROWS;
    assert!(whole, "a part of a batch is there: {before} rows, then {}", found - before);
    let report = db.verify().expect("verify can run");
    assert!(report.is_clean(), "{:#?}", report.findings);
    db.close().expect("it can be closed");
    found
}

fn scratch() -> PathBuf {
    let dir = std::env::temp_dir().join(format!("rightlink-kill-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    dir
}

#[test]
fn every_acknowledged_row_survives_a_kill() {
    let _alone = crate::alone();
    let kills = setting("RIGHTLINK_KILLS").unwrap_or(5);
    let seed = setting("RIGHTLINK_SEED")
        .unwrap_or_else(|| RandomState::new().hash_one(std::process::id()) % 1_000_000);
    println!("kill test: {kills} kills, RIGHTLINK_SEED={seed}");
    let mut random = Rng::from_seed(seed);
    let dir = scratch();
    let (mut number, mut before, mut early) = (0, 0, 0);
    for kill_number in 1..=kills {
        let table = format!("flights{number}");
        let moment = moment(&mut random);
        let acknowledged = kill(start(&dir, &table, before), &moment);
        let found = check(&dir, &table, before, acknowledged);
        println!(
            "kill {kill_number} ({moment:?}): {table} had {before} rows, {acknowledged} were \
             acknowledged, {found} are there"
        );
        early += u64::from(acknowledged == 0);
        (number, before) = if found == FILE_ROWS { (number + 1, 0) } else { (number, found) };
    }
    assert!(early < kills, "some kills came after a batch was acknowledged");
    fs::remove_dir_all(&dir).expect("the directory is ours");
}
