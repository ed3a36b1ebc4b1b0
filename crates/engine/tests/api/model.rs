//! Random transactions of several threads against what must hold whatever the schedule.
//!
//! Keys come in pairs, `k` and `k + PAIR`, and a transaction writes both members or none, with a
//! value that names the writer and the value it replaced. So every reader can check what it sees:
//!
//! - both members of a pair always carry the same value (atomicity, one snapshot per transaction);
//! - a transaction reads the same value twice (snapshot isolation) and sees its own writes;
//! - every index gives the rows of the heap scan of the same statement's transaction.
//!
//! A pair also has a mark, which separate writes change. One index at a time, of every kind, is
//! created on it and dropped. Changes without that index are heap-only, so the index meets HOT
//! chains with several keys.
//!
//! At the end the committed writes of a pair form one chain from its first value to its last, and
//! those of its mark another: none was lost, none that was rolled back stayed. Meanwhile one thread
//! vacuums. Another checkpoints, verifies, copies the database, and creates and drops an index, a
//! column and a table. The writers go on until each has succeeded; a run ends with `verify`.
//!
//! `RIGHTLINK_ROUNDS` asks for more rounds with other seeds, `RIGHTLINK_MODEL_BREAK` for a
//! rule to be broken (`points::broken`), to see whether the runs notice.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use rightlink::{
    AlterTable, CheckSchema, ColumnSchema, ConflictKind, Database, Error, HeapFigures, IndexMethod,
    IndexSchema, Isolation, Method, OnConflict, Predicate, Prefetch, Result, Row, ScanOptions,
    SequenceSchema, TableSchema, Transaction, TransactionOptions, Type, Upserted, VacuumOptions,
    Value,
};
use rightlink_env::rng::rounds;
use rightlink_env::sync::{AtomicBool, AtomicU64, Ordering};
use rightlink_env::{Broken, Rng, points};

const PAIR: i64 = 1000;
const PAIRS: i64 = 12;
/// Rows with a pad of so many bytes are in the partial index.
const WIDE: usize = 150;

/// Place of the mark in a row.
const MARK: usize = 4;
/// Marks from here on are high: those of every second value.
const HIGH: i64 = 1 << 40;

/// A committed write: the pair, the value it wrote (0: deleted), the value it replaced (0: none).
/// Those of a pair's mark are under its number and [`PAIRS`].
type Write = (i64, i64, i64);

/// Key, value and mark.
type Seen = (i64, i64, i64);

fn int(row: &Row, at: usize) -> i64 {
    match row.values[at] {
        Value::Int8(value) => value,
        ref other => panic!("an int8, not {other:?}"),
    }
}

fn schema() -> TableSchema {
    TableSchema::new("pairs")
        .column("k", Type::Int8)
        .column("v", Type::Int8)
        .column("pad", Type::Text)
        .column("long", Type::Text)
        .column("mark", Type::Int8)
        .primary_key(["k"])
        .index(IndexSchema::new("pairs_v").on_desc("v"))
        .index(IndexSchema::new("pairs_pad").on("pad").on("k").unique())
        .index(IndexSchema::new("pairs_hash").on("v").method(IndexMethod::Hash))
        .index(IndexSchema::new("pairs_both").on("pad").on("k").unique().method(IndexMethod::Hash))
        .index(IndexSchema::new("pairs_wide").on("k").unique().include(["v"]).only(wide()))
}

/// Of one value in three longer than a page holds.
fn long(v: i64) -> Value {
    Value::Text(format!("{v};").repeat(if v % 3 == 0 { 1500 } else { 1 }))
}

/// True of about half of the values.
fn wide() -> Predicate {
    Predicate::new().at_least("pad", Value::Text("x".repeat(WIDE)))
}

/// The mark that is written with, or for, the value `v`: another one for each.
fn mark(v: i64) -> i64 {
    if v % 2 == 0 { v } else { v + HIGH }
}

/// True of high marks.
fn high() -> Predicate {
    Predicate::new().at_least("mark", Value::Int8(HIGH))
}

fn row(k: i64, v: i64) -> Vec<Value> {
    let pad = Value::Text("x".repeat((v % 300) as usize));
    vec![Value::Int8(k), Value::Int8(v), pad, long(v), Value::Int8(mark(v))]
}

fn seen(row: &Row) -> Seen {
    (int(row, 0), int(row, 1), int(row, MARK))
}

fn read(txn: &mut Transaction, k: i64) -> Result<Option<Row>> {
    txn.get("pairs", &[Value::Int8(k)])
}

/// Reads both members and checks that they agree.
fn read_pair(txn: &mut Transaction, k: i64) -> Result<Option<(Row, Row)>> {
    match (read(txn, k)?, read(txn, k + PAIR)?) {
        (None, None) => Ok(None),
        (Some(a), Some(b)) => {
            let both = [&a, &b].map(|row| (int(row, 1), int(row, MARK)));
            assert_eq!(both[0], both[1], "members of pair {k} agree");
            Ok(Some((a, b)))
        }
        halves => panic!("half of pair {k}: {halves:?}"),
    }
}

/// Value and mark of a pair, zeros if it is not there.
fn look_at(txn: &mut Transaction, k: i64) -> Result<(i64, i64)> {
    Ok(read_pair(txn, k)?.map_or((0, 0), |(a, _)| (int(&a, 1), int(&a, MARK))))
}

/// Writes both members by `write`. The extra column may be there or not, but not change under a
/// transaction.
fn write_rows<T>(
    (k, v): (i64, i64),
    mut write: impl FnMut(&[Vec<Value>]) -> Result<T>,
) -> Result<T> {
    let mut rows = [row(k, v), row(k + PAIR, v)];
    match write(&rows) {
        Err(Error::Invalid(_)) => {
            rows.iter_mut().for_each(|row| row.push(Value::Int4(v as i32)));
            write(&rows)
        }
        written => written,
    }
}

/// Inserts both members, or puts them in the place of those that are there.
fn put_pair(txn: &mut Transaction, k: i64, v: i64, there: bool) -> Result<()> {
    let done = write_rows((k, v), |rows| {
        let mut replace = |_: &[Value], new: &[Value]| Ok(Some(new.to_vec()));
        txn.insert_into("pairs").or_update(OnConflict::Columns(&["k"]), rows, &mut replace)
    })?;
    let updated = done.iter().filter(|done| matches!(done, Upserted::Updated(_))).count();
    assert!(there || updated == 0, "pair {k} that came since the snapshot is a conflict");
    if there && updated < done.len() {
        // Inserting in the place of a row that was deleted since is allowed, but breaks the chain.
        let what = format!("pair {k} was deleted");
        return Err(Error::Conflict { kind: ConflictKind::Serialization, what });
    }
    Ok(())
}

/// Writes a pair: inserts, marks, replaces or deletes it, by single writes or by upserts. The write
/// of its value, and that of its mark.
fn write_pair(txn: &mut Transaction, rng: &mut Rng, k: i64, v: i64) -> Result<[Write; 2]> {
    let upsert = rng.chance(1, 4);
    let Some((a, b)) = read_pair(txn, k)? else {
        match upsert {
            true => put_pair(txn, k, v, false)?,
            false => write_rows((k, v), |rows| txn.insert_many("pairs", rows).map(drop))?,
        }
        return Ok([(k, v, 0), (PAIRS + k, mark(v), 0)]);
    };
    let (_, old, marked) = seen(&a);
    let wrote = |value, mark| [(k, value, old), (PAIRS + k, mark, marked)];
    if rng.chance(1, 3) {
        for member in [a, b] {
            assert!(txn.update("pairs", member.id, &[("mark", Value::Int8(mark(v)))])?);
        }
        return Ok(wrote(old, mark(v)));
    }
    if upsert {
        put_pair(txn, k, v, true)?;
        return Ok(wrote(v, mark(v)));
    }
    if rng.chance(1, 6) {
        assert!(txn.delete("pairs", a.id)? && txn.delete("pairs", b.id)?);
        return Ok(wrote(0, 0));
    }
    for member in [a, b] {
        let pad = row(0, v).remove(2);
        let set = [("v", Value::Int8(v)), ("pad", pad), ("long", long(v))];
        assert!(txn.update("pairs", member.id, &set)?);
    }
    Ok(wrote(v, marked))
}

/// One transaction under snapshot isolation; its writes if it commits.
fn work(db: &Database, rng: &mut Rng) -> Result<Vec<Write>> {
    let options = TransactionOptions { relaxed: rng.chance(1, 2), ..Default::default() };
    let mut txn = db.begin_with(options);
    let mut done: BTreeMap<i64, Write> = BTreeMap::new();
    for _ in 0..1 + rng.below(3) {
        let k = rng.below(PAIRS as u64) as i64;
        let before = look_at(&mut txn, k)?;
        let savepoint = txn.savepoint();
        let value = txn.next_value("writes")?;
        let wrote = write_pair(&mut txn, rng, k, value)?;
        if rng.chance(1, 4) {
            txn.rollback_to(savepoint)?;
            let again = look_at(&mut txn, k)?;
            assert_eq!(before, again, "a rolled back savepoint leaves no trace");
            continue;
        }
        for (chain, new, old) in wrote {
            let first = done.get(&chain).map_or(old, |(_, _, replaced)| *replaced);
            done.insert(chain, (chain, new, first));
        }
        let now = look_at(&mut txn, k)?;
        assert_eq!(now, (wrote[0].1, wrote[1].1), "a transaction sees its own writes");
    }
    if rng.chance(1, 10) {
        txn.rollback();
        return Ok(Vec::new());
    }
    txn.commit()?;
    Ok(done.into_values().filter(|(_, new, old)| new != old).collect())
}

/// What the transaction sees of the heap: all pairs are whole.
fn read_all(txn: &mut Transaction) -> Result<Vec<Seen>> {
    let all: Result<Vec<Row>> = txn.scan("pairs", &ScanOptions::all())?.collect();
    let all = all?;
    assert!(all.iter().all(|row| row.values[3] == long(int(row, 1))), "long values of their rows");
    let mut heap: Vec<Seen> = all.iter().map(seen).collect();
    heap.sort_unstable();
    let by_key: HashMap<i64, _> = heap.iter().map(|(k, v, mark)| (*k, (*v, *mark))).collect();
    for (k, v, mark) in &heap {
        let other = if *k < PAIR { k + PAIR } else { k - PAIR };
        assert_eq!(by_key.get(&other), Some(&(*v, *mark)), "the other member of {k}");
    }
    Ok(heap)
}

/// Compares the heap with every index in one snapshot.
fn look(db: &Database) -> Result<()> {
    let mut txn = db.begin();
    let all = read_all(&mut txn)?;
    let heap: Vec<(i64, i64)> = all.iter().map(|(k, v, _)| (*k, *v)).collect();
    for (k, v) in &heap {
        let by_value = ScanOptions::index("pairs_hash").equal(vec![Value::Int8(*v)]);
        let rows: Result<Vec<Row>> = txn.scan("pairs", &by_value)?.collect();
        let mut keys: Vec<i64> = rows?.iter().map(|row| int(row, 0)).collect();
        keys.sort_unstable();
        let pair = k % PAIR;
        assert_eq!(keys, [pair, pair + PAIR], "both members have the value {v}");
        let pad = row(*k, *v).remove(2);
        let both = ScanOptions::index("pairs_both").equal(vec![pad, Value::Int8(*k)]);
        let rows: Result<Vec<Row>> = txn.scan("pairs", &both)?.collect();
        assert_eq!(rows?.len(), 1, "row {k} by its pad and key");
        let has = |found: Option<Row>| found.map(|row| (int(&row, 0), int(&row, 1)));
        assert_eq!(has(read(&mut txn, *k)?), Some((*k, *v)), "row {k} by its key");
        let pad = row(*k, *v).remove(2);
        let found = txn.get_by("pairs", "pairs_pad", &[pad, Value::Int8(*k)])?;
        assert_eq!(has(found), Some((*k, *v)), "row {k} by a tree of its pad and key");
        let found = has(txn.get_by("pairs", "pairs_v", &[Value::Int8(*v)])?);
        assert!(found.is_some_and(|found| found.1 == *v), "{found:?} by a tree of {v}");
    }
    let few = ScanOptions::index("pairs_wide").columns(["k", "v"]);
    let rows: Result<Vec<Row>> = txn.scan("pairs", &few)?.collect();
    let mut rows: Vec<_> = rows?.iter().map(|row| (int(row, 0), int(row, 1))).collect();
    rows.sort_unstable();
    let wanted: Vec<_> = heap.iter().copied().filter(|(_, v)| v % 300 >= WIDE as i64).collect();
    assert_eq!(rows, wanted, "the rows that the partial index holds");
    for index in ["pairs_pkey", "pairs_v", "pairs_pad"] {
        for options in [ScanOptions::index(index), ScanOptions::index(index).backward()] {
            let rows: Result<Vec<Row>> = txn.scan("pairs", &options)?.collect();
            let mut rows: Vec<_> = rows?.iter().map(|row| (int(row, 0), int(row, 1))).collect();
            if index == "pairs_v" {
                let ordered = rows.is_sorted_by(|a, b| a.1 >= b.1);
                assert!(ordered || rows.iter().rev().is_sorted_by(|a, b| a.1 >= b.1));
            }
            rows.sort_unstable();
            assert_eq!(rows, heap, "rows by {index} and rows of the heap");
        }
    }
    // Last, as it may be too young for the snapshot.
    look_by_extra(&mut txn, &all)
}

/// Compares what the transaction sees of the heap with the index that comes and goes, if it is
/// there: the lock of who has read the table keeps it from going.
fn look_by_extra(txn: &mut Transaction, heap: &[Seen]) -> Result<()> {
    let Some(name) = extra_there(txn)? else { return Ok(()) };
    let columns = ["k", "mark"];
    let mut read = |options: ScanOptions| -> Result<Vec<(i64, i64)>> {
        let rows: Result<Vec<Row>> = txn.scan("pairs", &options.columns(columns))?.collect();
        let mut rows: Vec<_> = rows?.iter().map(|row| (int(row, 0), int(row, 1))).collect();
        rows.sort_unstable();
        Ok(rows)
    };
    if BY_MARK.contains(&name.as_str()) {
        for (k, _, mark) in heap {
            let rows = read(ScanOptions::index(&name).equal(vec![Value::Int8(*mark)]))?;
            let low = k % PAIR;
            assert_eq!(rows, [(low, *mark), (low + PAIR, *mark)], "{mark} by {name}");
        }
    }
    if name == "extra_hash" {
        return Ok(());
    }
    let is_some = matches!(name.as_str(), "extra_some" | "extra_high");
    let wanted = heap.iter().filter(|(.., mark)| !is_some || *mark >= HIGH);
    let wanted: Vec<_> = wanted.map(|(k, _, mark)| (*k, *mark)).collect();
    for options in [ScanOptions::index(&name), ScanOptions::index(&name).backward()] {
        assert_eq!(read(options)?, wanted, "rows by {name} and rows of the heap");
    }
    Ok(())
}

/// Creates what is not there, or drops what is, and keeps that or not.
fn define(
    db: &Database,
    rng: &mut Rng,
    change: impl FnOnce(&mut Transaction) -> Result<()>,
) -> Result<()> {
    let mut txn = db.begin_with(TransactionOptions {
        isolation: Isolation::ReadCommitted,
        // However busy the machine is, a wait of this length means that a lock is never given up.
        lock_timeout: Some(Duration::from_secs(60)),
        ..Default::default()
    });
    change(&mut txn)?;
    if rng.chance(1, 3) { Ok(()) } else { txn.commit() }
}

/// The indexes that come and go, one at a time.
const EXTRAS: [&str; 7] = [
    "extra_mark",
    "extra_unique",
    "extra_some",
    "extra_high",
    "extra_with",
    "extra_hash",
    "extra_pad",
];
/// Those whose keys begin with the mark, of every row.
const BY_MARK: [&str; 3] = ["extra_mark", "extra_unique", "extra_hash"];

/// All but the last hold the mark, in the key or beside it, or only rows with high ones.
fn extra(name: &str) -> IndexSchema {
    let index = IndexSchema::new(name);
    match name {
        "extra_mark" => index.on("mark"),
        "extra_unique" => index.on("mark").on_desc("k").unique(),
        "extra_some" => index.on_desc("mark").only(high()),
        "extra_high" => index.on("k").unique().only(high()),
        "extra_with" => index.on("k").include(["mark"]),
        "extra_hash" => index.on("mark").method(IndexMethod::Hash),
        _ => index.on("pad").on_desc("v"),
    }
}

fn any_extra(rng: &mut Rng) -> IndexSchema {
    extra(rng.pick(&EXTRAS).expect("some"))
}

/// Which of them there is.
fn extra_there(txn: &mut Transaction) -> Result<Option<String>> {
    let info = txn.catalog().describe("pairs")?;
    let mut names = info.indexes.into_iter().map(|index| index.schema.name);
    Ok(names.find(|name| name.starts_with("extra")))
}

fn pause(rng: &mut Rng, most_ms: u64) {
    std::thread::sleep(Duration::from_micros(rng.below(most_ms * 1000)));
}

/// Builds an index while there is a snapshot that is older, for a while before and after; if it
/// `reads` before, its lock is there as well. It sees what it saw, and nothing less by the index.
fn beside_older(
    db: &Database,
    rng: &mut Rng,
    reads: bool,
    build: impl FnOnce(&mut Rng) -> Result<()>,
) -> Result<()> {
    let mut old = db.begin();
    assert_eq!(old.scan("still", &ScanOptions::all())?.count(), 0);
    let before = if reads { Some(read_all(&mut old)?) } else { None };
    pause(rng, 4);
    let built = build(rng);
    pause(rng, 30);
    if let Err(error) = look_again(&mut old, before) {
        assert!(expected(&error), "{error}");
    }
    built
}

fn look_again(old: &mut Transaction, before: Option<Vec<Seen>>) -> Result<()> {
    let now = read_all(old)?;
    assert!(before.is_none_or(|before| before == now), "a snapshot sees the same");
    look_by_extra(old, &now)
}

/// Creates an index, or drops the one that is there.
fn change_index(db: &Database, rng: &mut Rng) -> Result<()> {
    let there = extra_there(&mut db.begin())?;
    if let Some(name) = there {
        return define(db, rng, |txn| txn.drop_index(&name));
    }
    let index = any_extra(rng);
    let create = |txn: &mut Transaction| txn.create_index("pairs", &index);
    beside_older(db, rng, false, |rng| define(db, rng, create))
}

/// Builds an index beside the writers, or builds again the one that is there.
fn build_online(db: &Database, rng: &mut Rng) -> Result<()> {
    let there = extra_there(&mut db.begin())?;
    if let Some(name) = there {
        return db.reindex("pairs", Some(&name)).map(|_| ());
    }
    let index = any_extra(rng);
    beside_older(db, rng, true, |_| db.create_index_online("pairs", &index))
}

fn change_column(txn: &mut Transaction) -> Result<()> {
    match txn.alter_table(
        "pairs",
        AlterTable::AddColumn(&ColumnSchema::new("more", Type::Int4).nullable()),
    ) {
        Err(Error::AlreadyExists(_)) => txn.alter_table("pairs", AlterTable::DropColumn("more")),
        added => added,
    }
}

fn change_table(txn: &mut Transaction) -> Result<()> {
    let side = TableSchema::new("side").column("n", Type::Int8).primary_key(["n"]);
    match txn.create_table(&side) {
        // Under its other name it still has its index.
        Err(Error::AlreadyExists(_)) => match txn.drop_table("side") {
            Err(Error::NotFound(_)) => txn.drop_table("aside"),
            dropped => dropped,
        },
        Err(error) => Err(error),
        Ok(()) => {
            let rows: Vec<_> = (0..500).map(|n| vec![Value::Int8(n)]).collect();
            txn.insert_many("side", &rows).map(|_| ())
        }
    }
}

fn change_check(txn: &mut Transaction) -> Result<()> {
    let written = Predicate::new().at_least("v", Value::Int8(1));
    match txn.alter_table(
        "pairs",
        AlterTable::AddCheck(&CheckSchema { name: "written".into(), predicate: written }),
    ) {
        Err(Error::AlreadyExists(_)) => txn.alter_table("pairs", AlterTable::DropCheck("written")),
        added => added,
    }
}

/// Writes the table anew, as a column of another type would have it.
fn change_type(txn: &mut Transaction) -> Result<()> {
    txn.alter_table(
        "pairs",
        AlterTable::ColumnType { column: "v", to: Type::Int8, convert: &mut Ok, of_row: None },
    )
}

fn change_name(txn: &mut Transaction) -> Result<()> {
    for (from, to) in [("side", "aside"), ("aside", "side")] {
        match txn.alter_table(from, AlterTable::Rename(to)) {
            Err(Error::NotFound(_)) => {}
            renamed => return renamed,
        }
    }
    Ok(())
}

/// A copy that is made beside the writers is whole: what holds of the database holds of it.
fn copy(db: &Database) -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("copy");
    db.backup(&to)?;
    let copied = Database::options().pool_pages(300).open(&to)?;
    look(&copied)?;
    let report = copied.verify()?;
    assert!(report.is_clean(), "{:?}", report.findings);
    copied.close()
}

/// What goes on beside the writers.
const DISTURBANCES: [&str; 10] = [
    "checkpoint",
    "index",
    "online",
    "column",
    "check",
    "table",
    "name",
    "type",
    "backup",
    "verify",
];

/// How often each disturbance succeeded beside the writers.
#[derive(Default, Debug)]
struct Done([AtomicU64; DISTURBANCES.len()]);

impl Done {
    fn is_all(&self) -> bool {
        (0..self.0.len()).all(|at| self.has(at))
    }

    fn has(&self, at: usize) -> bool {
        self.0[at].load(Ordering::Relaxed) > 0
    }
}

fn disturb(db: &Database, rng: &mut Rng, done: &Done) -> Result<()> {
    // Some succeed seldom: what is still missing is tried more often.
    let missing: Vec<_> = (0..DISTURBANCES.len()).filter(|at| !done.has(*at)).collect();
    let chosen = match rng.pick(&missing) {
        Some(at) if rng.chance(1, 2) => *at,
        _ => rng.index(DISTURBANCES.len()),
    };
    match DISTURBANCES[chosen] {
        "checkpoint" => db.checkpoint()?,
        "index" => change_index(db, rng)?,
        "online" => build_online(db, rng)?,
        "column" => define(db, rng, change_column)?,
        "check" => define(db, rng, change_check)?,
        "table" => define(db, rng, change_table)?,
        "name" => define(db, rng, change_name)?,
        "type" => define(db, rng, change_type)?,
        "backup" => copy(db)?,
        _ => {
            let report = db.verify()?;
            assert!(report.is_clean(), "{:?}", report.findings);
        }
    }
    done.0[chosen].fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// Vacuums, and now and then leaves the garbage for a while to those who write.
fn vacuum(db: &Database, rng: &mut Rng) -> Result<()> {
    if rng.chance(1, 5) {
        pause(rng, 120);
    }
    match rng.chance(1, 4) {
        true => db
            .vacuum_with(Some("pairs"), VacuumOptions { gently: true, ..Default::default() })
            .map(|_| ()),
        false => db.vacuum(Some("pairs")).map(|_| ()),
    }
}

/// Vacuums that were cancelled.
static CANCELLED: AtomicU64 = AtomicU64::new(0);

/// Cancels vacuums, now and then, and pauses.
fn cancel(db: &Database, rng: &mut Rng) -> Result<()> {
    CANCELLED.fetch_add(db.cancel_vacuum(None) as u64, Ordering::Relaxed);
    pause(rng, 3);
    Ok(())
}

/// Reads slowly by one snapshot: what it sees stays the same, or it is told that it cannot know.
fn linger(db: &Database, rng: &mut Rng) -> Result<()> {
    let mut txn = db.begin();
    let k = rng.below(PAIRS as u64) as i64;
    let first = look_at(&mut txn, k)?;
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(3));
        let again = look_at(&mut txn, k)?;
        assert_eq!(first, again, "a snapshot sees the same pair {k}");
    }
    Ok(())
}

/// Reads ahead at another distance, makes the pool cold, and leaves a scan in the middle.
fn rush(db: &Database, rng: &mut Rng) -> Result<()> {
    let fixed = Prefetch::Fixed(1 + 2 * rng.below(20) as u32);
    let policies = [Prefetch::None, Prefetch::Simple, Prefetch::Adaptive, fixed, fixed];
    db.set_prefetch(*rng.pick(&policies).expect("there are some"));
    if rng.chance(1, 4) {
        db.evict()?;
    }
    let mut txn = db.begin();
    let index = ScanOptions::index(*rng.pick(&["pairs_pkey", "pairs_v"]).expect("two"));
    let options = match rng.below(4) {
        0 => ScanOptions::all(),
        1 => index.any_order(),
        2 => index.backward(),
        _ => index,
    };
    let rows = txn.scan("pairs", &options)?;
    rows.take(rng.index(2 * PAIRS as usize)).try_for_each(|row| row.map(drop))
}

/// Every committed write of a pair is one link of the chain from nothing to the final value, every
/// one of its mark likewise.
fn check_chains(writes: &[Write], last: &HashMap<i64, i64>) {
    for pair in 0..2 * PAIRS {
        let links: Vec<_> = writes.iter().filter(|(k, ..)| *k == pair).collect();
        let mut degree: HashMap<i64, i64> = HashMap::new();
        for (_, new, old) in &links {
            *degree.entry(*new).or_default() += 1;
            *degree.entry(*old).or_default() -= 1;
        }
        // Nothing (0) may be written and replaced many times; every other value exactly once.
        for (value, count) in degree {
            let is_last = last.get(&pair).copied().unwrap_or(0) == value;
            let wanted = match (value, is_last) {
                (0, true) => 0,
                (0, false) => -1,
                (_, true) => 1,
                (_, false) => 0,
            };
            assert_eq!(count, wanted, "value {value} of pair {pair}, links {links:?}");
        }
    }
}

/// Reads refused because their snapshot was too old.
static TOO_OLD: AtomicU64 = AtomicU64::new(0);

/// What rivals may cause: conflicts, and a key that appeared after the snapshot was taken.
fn expected(error: &Error) -> bool {
    use Error::{AlreadyExists, Cancelled, UniqueViolation};
    let too_old = matches!(error, Error::SnapshotTooOld { .. });
    TOO_OLD.fetch_add(u64::from(too_old), Ordering::Relaxed);
    too_old
        || error.is_retryable()
        || matches!(error, Cancelled(_) | AlreadyExists(_) | UniqueViolation { .. })
}

/// Breaks the rule that was asked for, on this thread and those of a database that it opens.
fn broken_rule() -> Option<points::BrokenRule> {
    let name = std::env::var("RIGHTLINK_MODEL_BREAK").ok()?;
    let line = Broken::from_name(&name).expect("it is the name of a broken variant");
    Some(points::break_rule(line))
}

/// Stops the side jobs, also when a writer panics.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A job that goes on beside the writers.
type Side = dyn Fn(&Database, &mut Rng, &Done) -> Result<()> + Sync;

/// How many times the asked transactions a writer does at most while disturbances are missing.
const PATIENCE: u64 = 40;

fn run(seed: u64, threads: u64, transactions: u64, pool_pages: usize) {
    run_in(World { pool_pages, ..World::default() }, seed, threads, transactions);
}

/// What a run is made in.
#[derive(Clone, Copy, Default, Debug)]
struct World {
    pool_pages: usize,
    /// Snapshots that live longer may become too old, and vacuums are cancelled.
    age: Option<Duration>,
    /// Reads go ahead at odd distances, by this method.
    rushed: Option<Method>,
}

/// Was a vacuum cancelled, and a snapshot too old?
fn has_aged() -> bool {
    [&CANCELLED, &TOO_OLD].iter().all(|count| count.load(Ordering::Relaxed) > 0)
}

fn figures(db: &Database) -> HeapFigures {
    let all = db.table_figures().unwrap();
    all.iter().find(|table| table.name == "pairs").expect("the table").rows
}

fn run_in(world: World, seed: u64, threads: u64, transactions: u64) {
    println!("model seed {seed}, {threads} threads, {world:?}");
    let _broken = broken_rule();
    let dir = tempfile::tempdir().unwrap();
    let options = || {
        let options = Database::options().pool_pages(world.pool_pages);
        let options = options.max_snapshot_age(world.age);
        match world.rushed {
            Some(method) => options.method(method),
            None => options,
        }
    };
    let open = || options().open(dir.path()).unwrap();
    let db = open();
    let mut txn = db.begin();
    txn.create_table(&schema()).unwrap();
    txn.create_table(&TableSchema::new("still").column("n", Type::Int8)).unwrap();
    txn.create_sequence(&SequenceSchema::new("writes")).unwrap();
    txn.commit().unwrap();
    let (stop, done) = (AtomicBool::new(false), Done::default());
    let writes = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..threads)
            .map(|thread| {
                let (db, done) = (&db, &done);
                scope.spawn(move || {
                    let _broken = broken_rule();
                    let mut rng = Rng::from_seed(seed << 8 | thread);
                    let mut writes = Vec::new();
                    for turn in 0..transactions * PATIENCE {
                        let is_met = world.age.is_none() || has_aged();
                        if turn >= transactions && done.is_all() && is_met {
                            break;
                        }
                        match work(db, &mut rng) {
                            Ok(done) => writes.extend(done),
                            Err(error) => assert!(expected(&error), "{error}"),
                        }
                    }
                    writes
                })
            })
            .collect();
        let side = |from: u64, job: &'static Side| {
            let (db, stop, done) = (&db, &stop, &done);
            scope.spawn(move || {
                let _broken = broken_rule();
                let mut rng = Rng::from_seed(seed << 8 | from);
                while !stop.load(Ordering::Relaxed) {
                    if let Err(error) = job(db, &mut rng, done) {
                        assert!(expected(&error), "{error}");
                    }
                }
            })
        };
        let mut sides = vec![
            side(200, &|db, _, _| look(db)),
            side(201, &disturb),
            side(202, &|db, rng, _| vacuum(db, rng)),
        ];
        if world.rushed.is_some() {
            sides.push(side(205, &|db, rng, _| rush(db, rng)));
        }
        if world.age.is_some() {
            sides.push(side(203, &|db, rng, _| cancel(db, rng)));
            sides.push(side(204, &|db, rng, _| linger(db, rng)));
        }
        let stop_sides = Stop(&stop);
        let writes: Vec<Write> = writers
            .into_iter()
            .flat_map(|writer| writer.join().expect("a writer ends well"))
            .collect();
        drop(stop_sides);
        sides.into_iter().for_each(|side| side.join().expect("a side job ends well"));
        writes
    });
    println!("beside the writers, each of {DISTURBANCES:?}: {done:?}");
    assert!(done.is_all(), "every disturbance succeeds beside writers");
    println!("since the table was written anew: {:?}", figures(&db));
    assert!(writes.len() as u64 > transactions / 4, "most transactions commit something");
    look(&db).unwrap();
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    db.close().unwrap();
    let db = open();
    let mut txn = db.begin();
    let rows: Result<Vec<Row>> = txn.scan("pairs", &ScanOptions::all()).unwrap().collect();
    let ends = |row: &Row| [(int(row, 0), int(row, 1)), (PAIRS + int(row, 0), int(row, MARK))];
    let last = rows.unwrap().iter().flat_map(ends).collect();
    drop(txn);
    check_chains(&writes, &last);
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}

#[test]
fn several_writers_with_room() {
    (0..rounds()).for_each(|round| run(round * 3 + 1, 4, 250, 2000));
}

#[test]
fn several_writers_in_a_tiny_pool() {
    (0..rounds()).for_each(|round| run(round * 3 + 2, 3, 150, 16));
}

#[test]
fn one_writer_beside_everything_else() {
    (0..rounds()).for_each(|round| run(round * 3 + 3, 1, 300, 200));
}

#[test]
fn snapshots_age_and_vacuums_are_cancelled() {
    let age = Some(Duration::from_millis(25));
    (0..rounds()).for_each(|round| {
        run_in(World { pool_pages: 300, age, rushed: None }, round * 3 + 4, 3, 250);
        println!("{CANCELLED:?} vacuums cancelled, {TOO_OLD:?} snapshots too old");
        assert!(has_aged(), "the test is about these");
    });
}

#[test]
fn reads_go_ahead_at_every_distance_by_every_method() {
    for (seed, method) in [(41, Method::Sync), (42, Method::Worker), (43, Method::IoUring)] {
        let world = World { pool_pages: 16, rushed: Some(method), age: None };
        (0..rounds()).for_each(|round| run_in(world, round * 3 + seed, 2, 60));
    }
}
