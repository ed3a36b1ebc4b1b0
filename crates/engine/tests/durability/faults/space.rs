//! Giving space back, and ending, where the disk fails or is full: a tail is cut off a table,
//! entries of dead rows leave by key, the database is closed.
//!
//! As `faults`. What was acknowledged is there whatever failed; what failed can be done again when
//! the fault is over, in the same instance where that still takes writes, else in the next.
//! Does not do: the scenarios' own calls (`faults.rs`), power cuts without a fault (`crash.rs`).

use std::collections::{BTreeMap, BTreeSet};

use rightlink::{Row, Value};
use rightlink_env::points;

use super::*;

/// Crash states of a cut that are looked at.
const FEW_CRASHES: usize = 50;
const NAME: usize = 1;
const TAG: usize = 2;
const NOTE: usize = 3;

/// One call that fails, counted from where the fault is planned.
#[derive(Clone, Copy, Debug)]
struct Fault {
    op: OpKind,
    nth: u64,
    kind: FaultKind,
    repeat: Repeat,
}

impl Fault {
    fn plan(self, disk: &SimDisk) {
        disk.fail_nth(self.op, self.nth, self.kind, self.repeat);
    }
}

fn counts(disk: &SimDisk) -> Vec<u64> {
    OPS.iter().map(|op| disk.calls(*op)).collect()
}

/// Every call between two counts with every fault that fits it.
fn faults(before: &[u64], after: &[u64]) -> Vec<Fault> {
    let mut all = Vec::new();
    for (at, op) in OPS.into_iter().enumerate() {
        for nth in 0..after[at] - before[at] {
            let kinds = [FaultKind::Io, FaultKind::NoSpace, FaultKind::TornWrite];
            for kind in kinds.into_iter().filter(|kind| kind.fits(op)) {
                all.extend([Repeat::Once, Repeat::Forever].map(|repeat| Fault {
                    op,
                    nth,
                    kind,
                    repeat,
                }));
            }
        }
    }
    all
}

/// Did it fail for good? An error that is none of a failing disk is a finding.
fn poisoned<T>(result: &rightlink::Result<T>) -> Result<bool, String> {
    match result {
        Ok(_) | Err(Error::Io(_) | Error::DiskFull(_)) => Ok(false),
        Err(Error::Poisoned(_)) => Ok(true),
        Err(error) => Err(format!("a failing disk is reported as: {error:?}")),
    }
}

fn is_there(db: &Database, expected: &Content) -> Result<(), String> {
    let found = oracle::read(db)?;
    match found == *expected {
        true => Ok(()),
        false => Err(format!("not what was acknowledged: {}", oracle::summary(&found))),
    }
}

/// What a power cut now would leave holds `expected`.
fn survives(disk: &SimDisk, expected: &Content) -> Result<(), String> {
    for choice in [CrashChoice::AllLost, CrashChoice::AllKept, CrashChoice::Subset(3)] {
        let cut = disk.crash_image(&choice);
        let db = Settings::ROOMY.open(&cut).map_err(|e| format!("after {choice:?}: {e}"))?;
        is_there(&db, expected).map_err(|what| format!("after {choice:?}: {what}"))?;
    }
    Ok(())
}

/// A table of which all but the first pages are empty, closed by a kill.
struct Tail {
    disk: SimDisk,
    content: Content,
    /// Blocks of the heap when the tail is cut.
    blocks: usize,
}

fn heap_blocks(db: &Database) -> usize {
    db.inspect("t", None).expect("the heap can be read").len()
}

/// Rows of which four fill a page.
fn wide_rows(ids: std::ops::Range<i64>) -> Vec<Vec<Value>> {
    let mut rows = usual_rows(ids, 10);
    rows.iter_mut().for_each(|row| row[NOTE] = Value::Text("z".repeat(1900)));
    rows
}

/// More pages than are cut between two looks at the log.
fn tail() -> Tail {
    let mut script = filled(40);
    let rows = wide_rows(1000..1300);
    script.transact(|script, tx| tx.insert_many(script, "t", rows)).expect("no fault");
    script
        .transact(|script, tx| (1000..1300).try_for_each(|id| tx.delete(script, "t", id)))
        .expect("no fault");
    script.checkpoint().expect("no fault");
    let content = script.states.last().expect("a state").content.clone();
    let disk = script.disk.snapshot();
    script.abandon();
    let db = Settings::ROOMY.open(&disk.snapshot()).expect("no fault");
    let before = heap_blocks(&db);
    db.vacuum(Some("t")).expect("no fault");
    let blocks = heap_blocks(&db);
    assert!(blocks + 64 < before, "{before} blocks are {blocks} after a cut");
    Tail { disk, content, blocks }
}

impl Tail {
    /// Opens a copy of it and vacuums; `planned` is called when the cut begins.
    fn vacuum(
        &self,
        planned: impl Fn(&SimDisk) + Send + Sync + 'static,
    ) -> (SimDisk, Database, rightlink::Result<()>) {
        let disk = self.disk.snapshot();
        let db = Settings::ROOMY.open(&disk).expect("no fault");
        let theirs = disk.clone();
        let hook = points::install_local(move |point| {
            if point == "vacuum.cut-tail" {
                planned(&theirs);
            }
        });
        let vacuumed = db.vacuum(Some("t")).map(drop);
        drop(hook);
        (disk, db, vacuumed)
    }

    /// The instance has all rows, cuts what is left of the tail, and fills new pages where it was.
    fn goes_on(&self, db: &Database) -> Result<(), String> {
        let told = |error: Error| format!("without a fault: {error}");
        is_there(db, &self.content)?;
        db.vacuum(None).map_err(told)?;
        let blocks = heap_blocks(db);
        if blocks != self.blocks {
            return Err(format!("{blocks} blocks are left of {}", self.blocks));
        }
        let mut txn = db.begin();
        let inserted = txn.insert_many("t", &wide_rows(5000..5040));
        inserted.and_then(|_| txn.commit()).map_err(told)?;
        let rows = oracle::read(db)?["t"].rows.len();
        match rows == self.content["t"].rows.len() + 40 {
            true => Ok(()),
            false => Err(format!("{rows} rows after an insertion of 40")),
        }
    }

    /// The same for whoever opens `disk`.
    fn is_whole(&self, disk: &SimDisk) -> Result<(), String> {
        let db = Settings::ROOMY.open(disk).map_err(|error| format!("open: {error}"))?;
        self.goes_on(&db)?;
        db.close().map_err(|error| format!("close: {error}"))
    }
}

/// Every call of a cut fails, once or for ever. No row is lost, now, after a power cut and after a
/// kill; an instance that takes writes cuts the tail when the fault is over.
#[test]
fn a_tail_that_cannot_be_cut_loses_nothing() {
    let tail = tail();
    let before: Arc<Mutex<Vec<u64>>> = Arc::default();
    let theirs = Arc::clone(&before);
    let (disk, db, vacuumed) = tail.vacuum(move |disk| *theirs.lock() = counts(disk));
    vacuumed.expect("no fault");
    let all = faults(&before.lock(), &counts(&disk));
    drop(db);
    let cuts = all.iter().filter(|fault| fault.op == OpKind::SetLen).count();
    assert!(cuts >= 2 && all.len() > 10, "{} faults", all.len());
    println!("{} faults, {cuts} of them of the cut itself", all.len());
    let check = move |fault: &Fault| {
        let planned = *fault;
        let (disk, db, vacuumed) = tail.vacuum(move |disk| planned.plan(disk));
        let is_poisoned = poisoned(&vacuumed)?;
        survives(&disk, &tail.content)?;
        disk.clear_faults();
        is_there(&db, &tail.content).map_err(|what| format!("read on: {what}"))?;
        if !is_poisoned && fault.nth.is_multiple_of(2) {
            tail.goes_on(&db).map_err(|what| format!("goes on: {what}"))?;
            return Ok(());
        }
        disk.crash_at(disk.op_count());
        drop(db);
        disk.clear_faults();
        tail.is_whole(&disk).map_err(|what| format!("opened again: {what}"))
    };
    each(all, |fault| format!("{fault:?}"), check);
}

/// The power fails at every call of a cut and of the checkpoint behind it: whoever opens what is
/// left has all rows, and cuts the rest of the tail.
#[test]
fn a_crash_while_a_tail_is_cut_loses_nothing() {
    let tail = tail();
    let (disk, db, vacuumed) = tail.vacuum(SimDisk::start_recording);
    vacuumed.and_then(|()| db.checkpoint()).expect("no fault");
    let recording = disk.recording();
    drop(db);
    let (mut seen, mut crashed) = (BTreeSet::new(), Vec::new());
    recording.for_each_moment(|moment, state| {
        for choice in state.choices(moment) {
            let left = recording.crash(state, &choice);
            if seen.insert(left.image_hash()) {
                crashed.push((format!("after {moment} calls, {choice:?}"), left));
            }
        }
    });
    let wanted = setting("RIGHTLINK_FAULTS", FEW_CRASHES);
    println!("{wanted} of {} crash states", crashed.len());
    Rng::from_seed(SEED).shuffle(&mut crashed);
    crashed.truncate(wanted);
    each(crashed, |(name, _)| name.clone(), move |(_, disk)| tail.is_whole(disk));
}

/// Gives row `id` another name, so that its entry in one index dies; was that acknowledged?
fn rename(db: &Database, id: i64, name: &str) -> rightlink::Result<()> {
    let mut txn = db.begin();
    let row = txn.get("t", &[Value::Int8(id)])?.expect("the row is there");
    assert!(txn.update("t", row.id, &[("name", Value::Text(name.into()))])?, "nobody else writes");
    txn.commit()
}

/// Renames the first `rows` rows in turn, `rounds` times in all; what was acknowledged goes into
/// `expected`. Returns how often that failed, and how many pages gave row ids free by key.
fn churn(db: &Database, (rows, rounds): (i64, i64), expected: &mut Content) -> (usize, usize) {
    let freed = Arc::new(AtomicUsize::new(0));
    let theirs = Arc::clone(&freed);
    let hook = points::install_local(move |point| {
        theirs.fetch_add(usize::from(point == "heap.freed-by-key"), Ordering::Relaxed);
    });
    let (mut refused, mut names) = (0, BTreeMap::new());
    for round in 0..rounds {
        let (id, name) = (round * 37 % rows, format!("{:06}{}", round % 50, "y".repeat(150)));
        let renamed = rename(db, id, &name);
        assert!(!poisoned(&renamed).expect("an error of the disk"), "{renamed:?}");
        match renamed {
            Ok(()) => drop(names.insert(id, name)),
            Err(_) => refused += 1,
        }
    }
    drop(hook);
    let table = Arc::make_mut(expected.get_mut("t").expect("the table is there"));
    for (id, name) in names {
        table.rows.get_mut(&id).expect("the row is there")[NAME] = Value::Text(name);
    }
    (refused, freed.load(Ordering::Relaxed))
}

/// Entries of dead rows leave by key, without a vacuum, while not a byte is left on the disk: what
/// a statement cleans up is logged, and gives its space back.
#[test]
fn on_a_full_disk_entries_leave_by_key() {
    let (disk, db) = little(300);
    let mut expected = content(&db);
    disk.capacity(disk.allocated());
    let (refused, freed) = churn(&db, (7, 600), &mut expected);
    println!("{refused} of 600 refused, {freed} pages gave row ids free");
    assert!(freed > 5 && refused < 300, "{freed} and {refused}");
    is_there(&db, &expected).expect("what was acknowledged, and nothing else");
    survives(&disk, &expected).expect("what was acknowledged is durable");
    disk.capacity(1 << 40);
    let (refused, _) = churn(&db, (7, 100), &mut expected);
    assert_eq!(refused, 0, "there is space again");
    db.close().expect("there is space");
    let db = Settings::LITTLE_LOG.open(&disk).expect("it was closed");
    is_there(&db, &expected).expect("nothing is lost");
}

/// The same while no data file can be written: what is cleaned stays in memory. Where that is too
/// small statements fail as such, and so does what cleans up for them, without harm.
#[test]
fn where_no_data_file_can_be_written_entries_leave_by_key() {
    for (settings, kind, rows) in [
        (Settings::ROOMY, FaultKind::Io, 7),
        (Settings::ROOMY, FaultKind::NoSpace, 7),
        (Settings::TINY_POOL, FaultKind::Io, 1500),
        (Settings::TINY_POOL, FaultKind::NoSpace, 1500),
    ] {
        let disk = SimDisk::new(9);
        let db = settings.open(&disk).expect("no fault");
        let mut txn = db.begin();
        txn.create_table(&crate::common::usual_table("t")).expect("no fault");
        txn.insert_many("t", &usual_rows(0..rows.max(200), 60)).expect("no fault");
        txn.commit().expect("no fault");
        db.vacuum(None).expect("no fault");
        db.checkpoint().expect("no fault");
        let mut expected = content(&db);
        for (file, _) in disk.files().iter().filter(|(name, _)| name.starts_with("data/")) {
            disk.fail_writes_of(file, kind);
        }
        let (refused, freed) = churn(&db, (rows, 400), &mut expected);
        println!("{settings:?}, {kind:?}: {refused} of 400 refused, {freed} pages freed row ids");
        match rows == 7 {
            true => assert!(refused == 0 && freed > 5, "all of it is in memory"),
            false => assert!((1..400).contains(&refused), "not all of it is in memory"),
        }
        survives(&disk, &expected).expect("what was acknowledged is durable");
        disk.clear_faults();
        is_there(&db, &expected).expect("what was acknowledged, and nothing else");
        let (refused, _) = churn(&db, (rows, 300), &mut expected);
        assert_eq!(refused, 0, "the fault is over");
        db.checkpoint().expect("the fault is over");
        survives(&disk, &expected).expect("nothing is lost");
    }
}

/// The file of the heap, whose first page of rows holds `note`.
fn heap_file(disk: &SimDisk, note: &[u8]) -> String {
    let holds = |file: &str| disk.peek(file, 8192, 8192).windows(note.len()).any(|b| b == note);
    let mut files = disk.files();
    files.retain(|(name, len)| name.starts_with("data/") && *len >= 16384 && holds(name));
    assert_eq!(files.len(), 1, "only one file has notes: {files:?}");
    files.remove(0).0
}

/// A statement cleans up after rows that others deleted, one page of which cannot be read. That is
/// no concern of its: it once failed with an error of that page.
#[test]
fn a_statement_does_not_fail_for_what_it_would_clean_up() {
    const KEPT: i64 = 250;
    let mut script = filled(20);
    let rows = usual_rows(100..300, 10);
    script.transact(|script, tx| tx.insert_many(script, "t", rows)).expect("no fault");
    script.checkpoint().expect("no fault");
    let (disk, db) = (script.disk.clone(), script.db().clone());
    script.abandon();
    let heap = heap_file(&disk, b"note 100");
    let mut expected = content(&db);
    let table = Arc::make_mut(expected.get_mut("t").expect("the table is there"));
    // Every row of the first page goes, and none of another.
    let mut txn = db.begin();
    let rows = txn.scan("t", &ScanOptions::all()).expect("no fault");
    let rows = rows.map(|row| row.expect("no fault"));
    let first: Vec<Row> = rows.filter(|row| row.id.block.0 == 1).collect();
    let ids: Vec<RowId> = first.iter().map(|row| row.id).collect();
    assert!((60..150).contains(&ids.len()), "{} rows on a page", ids.len());
    assert_eq!(txn.delete_many("t", &ids).expect("no fault"), ids.len() as u64);
    txn.commit().expect("no fault");
    first.iter().for_each(|row| drop(table.rows.remove(&oracle::id_of(&row.values))));
    // Who reads prunes that page, and leaves its entries to who writes next.
    assert_eq!(all_ids(&mut db.begin()).len(), table.rows.len());
    db.evict().expect("no fault");
    let row = table.rows.get_mut(&KEPT).expect("a row of another page");
    let keys = [
        ("t_pkey", vec![Value::Int8(KEPT)]),
        ("t_name", vec![row[NAME].clone()]),
        ("t_tag", vec![row[TAG].clone(), Value::Int8(KEPT)]),
    ];
    let mut txn = db.begin();
    for (index, key) in keys {
        let found = txn.scan("t", &ScanOptions::index(index).equal(key)).expect("no fault");
        assert_eq!(found.count(), 1, "the leaf of {index} is in memory");
    }
    disk.fail_reads_of(&heap, 8192, 8192);
    let found = txn.get("t", &[Value::Int8(KEPT)]).expect("no fault of its").expect("a row");
    row[TAG] = Value::Int8(77);
    let updated = txn.update("t", found.id, &[("tag", Value::Int8(77))]);
    assert!(updated.expect("no fault of its"));
    txn.commit().expect("no fault of its");
    let unread = disk.fault_counts().get("unreadable bytes").copied().unwrap_or(0);
    assert!(unread > 0, "nothing was cleaned up");
    disk.clear_faults();
    is_there(&db, &expected).expect("the page can be read again");
    db.vacuum(None).expect("no fault");
    is_there(&db, &expected).expect("the rest was cleaned up");
}

/// A database with pages that no file has yet, and what is in it; the handle is the only one.
fn unwritten() -> (SimDisk, Database, Content) {
    let mut script = filled(120);
    let expected = script.states.last().expect("a state").content.clone();
    let db = script.db().clone();
    script.abandon();
    (script.disk.clone(), db, expected)
}

/// No file takes a byte while the database is closed: that fails as such, as often as it is tried,
/// and loses nothing. When there is space again, it is closed by the next call or by nobody.
#[test]
fn a_close_on_a_full_disk_fails_and_can_be_made_again() {
    for again in [true, false] {
        let (disk, db, expected) = unwritten();
        for (file, _) in disk.files().iter().filter(|(name, _)| name.starts_with("data/")) {
            disk.fail_writes_of(file, FaultKind::NoSpace);
        }
        let (second, third) = (db.clone(), db.clone());
        let closed = db.close();
        assert!(matches!(closed, Err(Error::DiskFull(_))), "{closed:?}");
        let refused = third.begin().insert("t", &usual_row(5000, 10));
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
        let closed = second.close();
        assert!(matches!(closed, Err(Error::DiskFull(_))), "{closed:?}");
        survives(&disk, &expected).expect("nothing waits for the close");
        if again {
            disk.clear_faults();
            third.close().expect("there is space");
        } else {
            drop(third);
            disk.clear_faults();
        }
        survives(&disk, &expected).expect("whoever opens it has all of it");
        let db = Settings::ROOMY.open(&disk).expect("no fault");
        is_there(&db, &expected).expect("nothing is lost");
    }
}

/// A disk that is full by what the database itself wrote, up to some pages: a close succeeds or
/// fails as such. Both ways nothing is lost, and when the disk has grown a close succeeds.
#[test]
fn a_close_on_a_disk_filled_to_the_brim_loses_nothing() {
    for left in [0, 4 << 10, 32 << 10, 128 << 10] {
        let (disk, db, mut expected) = unwritten();
        disk.capacity(disk.allocated() + left);
        let table = Arc::make_mut(expected.get_mut("t").expect("the table is there"));
        for id in (1000..9000).step_by(10) {
            let (rows, mut txn) = (usual_rows(id..id + 10, 200), db.begin());
            match txn.insert_many("t", &rows).and_then(|_| txn.commit()) {
                Ok(()) => table.rows.extend(rows.into_iter().map(|row| (oracle::id_of(&row), row))),
                Err(Error::DiskFull(_)) => break,
                Err(error) => panic!("{left} bytes left: {error}"),
            }
        }
        let second = db.clone();
        let closed = db.close();
        println!("{left} bytes left: {closed:?}");
        assert!(!poisoned(&closed).expect("an error of the disk"), "{closed:?}");
        survives(&disk, &expected).expect("nothing waits for the close");
        disk.capacity(1 << 40);
        second.close().expect("there is space");
        let db = Settings::ROOMY.open(&disk).expect("it was closed");
        is_there(&db, &expected).expect("nothing is lost");
    }
}

/// Every call of a close fails, once or for ever. Nothing is lost; where the log still takes
/// writes, the next close succeeds when the fault is over.
#[test]
fn a_close_that_meets_a_fault_loses_nothing() {
    let (disk, db, _) = unwritten();
    let before = counts(&disk);
    db.close().expect("no fault");
    let mut all = faults(&before, &counts(&disk));
    println!("{} faults", all.len());
    Rng::from_seed(SEED).shuffle(&mut all);
    all.truncate(setting("RIGHTLINK_FAULTS", FEW_CRASHES));
    let check = |fault: &Fault| {
        let (disk, db, expected) = unwritten();
        let second = db.clone();
        fault.plan(&disk);
        let is_poisoned = poisoned(&db.close())?;
        survives(&disk, &expected)?;
        disk.clear_faults();
        let again = second.close();
        if again.is_err() && !is_poisoned {
            return Err(format!("not closed when the fault is over: {again:?}"));
        }
        survives(&disk, &expected).map_err(|what| format!("closed again: {what}"))?;
        let db = Settings::ROOMY.open(&disk).map_err(|error| format!("open: {error}"))?;
        is_there(&db, &expected).map_err(|what| format!("opened again: {what}"))
    };
    each(all, |fault| format!("{fault:?}"), check);
}
