//! Whatever reads many pages keeps a device busy: on a modelled device that serves 64 operations at
//! once, each kind of work has many of them under way, and none reads pages one by one.
//!
//! The clock is simulated: it stands still but for the device, so the time that a piece of work
//! took tells how many of its reads the device served at a time.

use std::time::Duration;

use rightlink::{
    Database, Error, IndexMethod, IndexSchema, Options, Prefetch, ScanOptions, TableSchema,
    TransactionOptions, Type, Value, Written,
};
use rightlink_aio::SimDisk;
use rightlink_aio::sim::CrashChoice;
use rightlink_env::Env;

const LATENCY: Duration = Duration::from_micros(500);
const ROWS: i64 = 24_000;

/// Something that reads many pages.
type Work<'a> = &'a dyn Fn(&Database);

struct Bed {
    env: Env,
    disk: SimDisk,
    db: Database,
}

fn options(env: &Env, disk: &SimDisk) -> Options {
    let device = format!("latency={}us,depth=64", LATENCY.as_micros()).parse().unwrap();
    let options = Database::options().memory(48 << 20).pool_pages(3000).device(Some(device));
    options.simulation(env.clone(), disk.clone())
}

/// Row `id` of a table whose second column is in no order.
fn row(id: i64) -> Vec<Value> {
    let scattered = id.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64);
    vec![Value::Int8(id), Value::Int8(scattered), Value::Text("x".repeat(180))]
}

fn bed() -> Bed {
    let (env, disk) = (Env::simulated(5), SimDisk::new(5));
    let db = options(&env, &disk).open("db").unwrap();
    let schema = TableSchema::new("t").column("id", Type::Int8);
    let schema = schema.column("s", Type::Int8).column("pad", Type::Text);
    let schema = schema.index(IndexSchema::new("t_id").on("id"));
    let mut txn = db.begin();
    txn.create_table(&schema.index(IndexSchema::new("t_s").on("s"))).unwrap();
    for ids in (0..ROWS).collect::<Vec<_>>().chunks(4000) {
        txn.insert_many("t", &ids.iter().map(|id| row(*id)).collect::<Vec<_>>()).unwrap();
    }
    txn.commit().unwrap();
    // From here on no reader sets a hint, so that none makes pages dirty.
    assert_eq!(count(&db, &ScanOptions::all()), ROWS as usize);
    db.checkpoint().unwrap();
    Bed { env, disk, db }
}

/// What a piece of work read from a cold start.
#[derive(Debug)]
struct Busy {
    reads: u64,
    /// Reads under way, on average.
    depth: f64,
    /// Pages that came while one read would have taken its time.
    pages: f64,
}

fn busy(bed: &Bed, work: impl FnOnce(&Database)) -> Busy {
    bed.db.evict().unwrap();
    let figures = || ["device_reads", "pool_reads"].map(|name| bed.db.stats().get(name).unwrap());
    let (before, start) = (figures(), bed.env.clock.now());
    work(&bed.db);
    let (after, time) = (figures(), bed.env.clock.now() - start);
    let [reads, pages] = [after[0] - before[0], after[1] - before[1]];
    let at_a_time = |count: u64| count as f64 * LATENCY.as_secs_f64() / time.as_secs_f64();
    Busy { reads, depth: at_a_time(reads), pages: at_a_time(pages) }
}

fn count(db: &Database, options: &ScanOptions) -> usize {
    let mut txn = db.begin();
    let rows = txn.scan("t", options).unwrap();
    rows.inspect(|row| assert!(row.is_ok())).count()
}

fn delete_some(db: &Database) {
    let mut txn = db.begin();
    let some = ScanOptions::index("t_id").to(vec![Value::Int8(ROWS / 3)]);
    let ids: Vec<_> = txn.scan("t", &some).unwrap().map(|row| row.unwrap().id).collect();
    ids.into_iter().for_each(|id| assert!(txn.delete("t", id).unwrap()));
    txn.commit().unwrap();
}

#[test]
fn scans_keep_the_device_busy() {
    let bed = bed();
    let all = ROWS as usize;
    let in_order = |name: &str| ScanOptions::index(name);
    let keys = |db: &Database| {
        let some = (0..ROWS).step_by(16).map(|id| vec![row(id)[1].clone()]).collect();
        assert_eq!(count(db, &ScanOptions { any_of: some, ..in_order("t_s") }), all / 16);
    };
    let sequential = busy(&bed, |db| assert_eq!(count(db, &ScanOptions::all()), all));
    assert!(sequential.pages > 64.0 && sequential.reads < 120, "{sequential:?}");
    let scattered = |db: &Database| assert_eq!(count(db, &in_order("t_s")), all);
    let backward = |db: &Database| assert_eq!(count(db, &in_order("t_s").backward()), all);
    let any_order = |db: &Database| assert_eq!(count(db, &in_order("t_s").any_order()), all);
    let works: [(&str, Work<'_>); 4] = [
        ("scattered", &scattered),
        ("backward", &backward),
        ("any order", &any_order),
        ("keys", &keys),
    ];
    for (name, work) in works {
        let busy = busy(&bed, |db| work(db));
        assert!(busy.depth > 5.0 && busy.pages > 8.0, "{name}: {busy:?}");
    }
    // The yardstick can tell: without reading ahead there is one at a time.
    bed.db.set_prefetch(Prefetch::None);
    let one_by_one = busy(&bed, scattered);
    assert!(one_by_one.pages < 1.1, "{one_by_one:?}");
}

#[test]
fn maintenance_keeps_the_device_busy() {
    let bed = bed();
    let build = busy(&bed, |db| {
        let mut txn = db.begin();
        txn.create_index("t", &IndexSchema::new("t_pad").on("pad").on("id")).unwrap();
        txn.commit().unwrap();
    });
    assert!(build.pages > 16.0, "{build:?}");
    let verify = busy(&bed, |db| assert!(db.verify().unwrap().is_clean()));
    assert!(verify.pages > 12.0, "{verify:?}");
    delete_some(&bed.db);
    let vacuum = busy(&bed, |db| {
        assert_eq!(db.vacuum(Some("t")).unwrap().rows_removed as i64, ROWS / 3 + 1);
    });
    assert!(vacuum.pages > 8.0, "{vacuum:?}");
}

/// A database that does not fit its pool is read several times by a check, which reads every leaf
/// for its structure by way of its parent.
#[test]
fn a_check_in_a_small_pool_reads_ahead() {
    let Bed { env, disk, db } = bed();
    db.close().unwrap();
    let db = options(&env, &disk).pool_pages(360).open("db").unwrap();
    let bed = Bed { env, disk, db };
    let check = busy(&bed, |db| assert!(db.verify().unwrap().is_clean()));
    assert!(check.pages > 8.0, "{check:?}");
    bed.db.set_prefetch(Prefetch::None);
    let one_by_one = busy(&bed, |db| assert!(db.verify().unwrap().is_clean()));
    assert!(one_by_one.pages < 1.1, "{one_by_one:?}");
}

#[test]
fn recovery_keeps_the_device_busy() {
    let bed = bed();
    bed.db.checkpoint().unwrap();
    let mut txn = bed.db.begin();
    let rows = txn.scan("t", &ScanOptions::all()).unwrap();
    let some: Vec<_> = rows.map(|row| row.unwrap().id).step_by(100).collect();
    some.into_iter().for_each(|id| assert!(txn.delete("t", id).unwrap()));
    txn.commit().unwrap();
    let crashed = bed.disk.crash_image(&CrashChoice::AllLost);
    let env = Env::simulated(6);
    let db = options(&env, &crashed).open("db").unwrap();
    let figure = |name| db.stats().get(name).unwrap();
    let (reads, depth) = (figure("stream_reads"), figure("stream_queue_depth"));
    assert!(reads > 20 && depth >= 4, "{depth} of {reads} reads of redo at a time");
}

/// Pages that a checkpoint writes are under way together, as many as the device serves.
#[test]
fn checkpoints_keep_the_device_busy() {
    let at_a_time = |depth: u32| {
        let Bed { env, disk, db } = bed();
        db.close().unwrap();
        let db = options(&env, &disk).depth(depth).open("db").unwrap();
        let mut txn = db.begin();
        // Apart from each other, so that no two pages are written by one call.
        let rows = txn.scan("t", &ScanOptions::all()).unwrap().map(|row| row.unwrap().id);
        let mut ids: Vec<_> = rows.filter(|id| id.block.0 % 3 == 0).collect();
        ids.dedup_by_key(|id| id.block);
        assert_eq!(txn.delete_many("t", &ids).unwrap() as usize, ids.len());
        txn.commit().unwrap();
        let calls = || db.stats().get("pool_write_calls").unwrap();
        let (before, start) = (calls(), env.clock.now());
        db.checkpoint().unwrap();
        let (count, time) = (calls() - before, env.clock.now() - start);
        assert!(count > 100, "{count} writes");
        count as f64 * LATENCY.as_secs_f64() / time.as_secs_f64()
    };
    let (many, one) = (at_a_time(64), at_a_time(1));
    assert!(many > 8.0 && one < 1.1, "{many} at a time, {one} where the device serves one");
}

/// The device is measured when a database is made, and its figures are kept. Options set another
/// depth. A planner is told what a block takes.
#[test]
fn the_figures_of_the_device_are_remembered() {
    let dir = std::env::temp_dir().join(format!("rightlink-depth-{}", std::process::id()));
    let depth = |options: Options| {
        let db = options.open(&dir).unwrap();
        let depth = db.stats().get("device_depth").unwrap();
        db.close().unwrap();
        depth
    };
    let small = || Database::options().memory(8 << 20);
    let times = || {
        let db = small().open(&dir).unwrap();
        let stats = db.stats();
        let per_s = |name| stats.get(name).unwrap();
        let measured = ["device_scattered_blocks_per_s", "device_in_order_blocks_per_s"].map(per_s);
        if db.describe("t").is_err() {
            let mut txn = db.begin();
            txn.create_table(&TableSchema::new("t").column("a", Type::Int8)).unwrap();
            txn.commit().unwrap();
        }
        let told = db.describe("t").unwrap().read_times;
        db.close().unwrap();
        assert_eq!(u64::from(told.scattered_ns), 1_000_000_000 / measured[0]);
        assert_eq!(u64::from(told.in_order_ns), 1_000_000_000 / measured[1]);
        measured
    };
    let per_s = times();
    assert!(per_s.iter().all(|rate| *rate > 0), "{per_s:?}");
    assert_eq!(times(), per_s, "a second opening measures nothing");
    let measured = depth(small());
    assert!((64..=128).contains(&measured), "{measured}");
    assert_eq!(depth(small()), measured, "a second opening measures nothing");
    assert_eq!(depth(small().depth(7)), 7);
    assert_eq!(depth(small().device(Some("latency=1us,depth=33".parse().unwrap()))), 33);
    assert_eq!(depth(small()), measured, "what was said before is not kept");
    std::fs::remove_dir_all(&dir).unwrap();
    let simulated = small().simulation(Env::simulated(1), SimDisk::new(1)).open("db").unwrap();
    assert_eq!(simulated.stats().get("device_depth"), Some(64));
    assert_eq!(simulated.stats().get("device_scattered_blocks_per_s"), Some(0));
}

/// Many rows changed by one statement: heap pages ahead, leaves of all indexes in waves.
#[test]
fn changes_of_many_rows_keep_the_device_busy() {
    let bed = bed();
    let ids = |db: &Database| -> Vec<_> {
        let mut txn = db.begin();
        let rows = txn.scan("t", &ScanOptions::index("t_s")).unwrap();
        rows.map(|row| row.unwrap().id).step_by(7).collect()
    };
    let some = ids(&bed.db);
    let update = busy(&bed, |db| {
        let mut txn = db.begin();
        let done = txn.update_many("t", &some, &[("s", Value::Int8(42))]).unwrap();
        assert_eq!(done as usize, some.len());
        txn.commit().unwrap();
    });
    assert!(update.pages > 8.0, "{update:?}");
    let forty_two = ScanOptions::index("t_s").equal(vec![Value::Int8(42)]);
    assert_eq!(count(&bed.db, &forty_two), some.len());
    let others = ids(&bed.db);
    let delete = busy(&bed, |db| {
        let mut txn = db.begin();
        assert_eq!(txn.delete_many("t", &others).unwrap() as usize, others.len());
        assert_eq!(txn.delete_many("t", &others).unwrap(), 0, "they are gone");
        txn.commit().unwrap();
    });
    assert!(delete.pages > 8.0, "{delete:?}");
    assert_eq!(count(&bed.db, &ScanOptions::all()), ROWS as usize - others.len());
    assert!(bed.db.verify().unwrap().is_clean());
}

/// Rows that a statement finds and changes one after the other, as SQL does: the leaves that their
/// entries go onto are read in waves, not those of a row at a time.
#[test]
fn rows_changed_as_they_are_found_read_leaves_together() {
    let time = |serial_reads: bool| {
        let bed = bed();
        bed.db.evict_leaves().unwrap();
        let start = bed.env.clock.now();
        let options = TransactionOptions { relaxed: true, serial_reads, ..Default::default() };
        let mut txn = bed.db.begin_with(options);
        let done = txn.write("t", |writer| {
            let mut done = 0;
            for row in writer.scan(&ScanOptions::all())? {
                let row = row?;
                let Value::Int8(id) = row.values[0] else { unreachable!("an int8") };
                if id % 8 > 0 {
                    continue;
                }
                let written = writer.update(row.id, &mut |_, old| {
                    let s = id.wrapping_mul(0x5851_F42D_4C95_7F2D);
                    Ok(Some(vec![old[0].clone(), Value::Int8(s), old[2].clone()]))
                })?;
                done += i64::from(matches!(written, Written::Done(_)));
            }
            Ok::<_, Error>(done)
        });
        assert_eq!(done.unwrap(), ROWS / 8);
        txn.commit().unwrap();
        let took = bed.env.clock.now() - start;
        assert_eq!(count(&bed.db, &ScanOptions::index("t_s")), ROWS as usize);
        assert!(bed.db.verify().unwrap().is_clean());
        took
    };
    let (alone, together) = (time(true), time(false));
    assert!(together * 2 < alone, "{together:?}, one leaf after the other {alone:?}");
}

/// Keys of one leaf, or of a bucket, whose deleted rows lie scattered over the heap are used again:
/// the rows that the unique check must look at are read together, not one after the other.
#[test]
fn unique_checks_of_many_rows_keep_the_device_busy() {
    const KEYS: i64 = 300;
    for method in [IndexMethod::BTree, IndexMethod::Hash] {
        let (env, disk) = (Env::simulated(6), SimDisk::new(6));
        let db = options(&env, &disk).open("db").unwrap();
        let schema = TableSchema::new("t").column("id", Type::Int8);
        let schema = schema.column("s", Type::Int8).column("pad", Type::Text);
        let unique = IndexSchema::new("t_id").on("id").unique().method(method);
        let mut txn = db.begin();
        txn.create_table(&schema.index(unique)).unwrap();
        let keys: Vec<i64> = (0..ROWS / 2).map(|n| n * 7919 % (ROWS / 2)).collect();
        let rows: Vec<_> = keys.iter().map(|key| row(*key)).collect();
        let ids = txn.insert_many("t", &rows).unwrap();
        txn.commit().unwrap();
        let mut txn = db.begin();
        let first = keys.iter().zip(ids).filter(|(key, _)| **key < KEYS);
        let first: Vec<_> = first.map(|(_, id)| id).collect();
        assert_eq!(txn.delete_many("t", &first).unwrap(), KEYS as u64);
        txn.commit().unwrap();
        db.checkpoint().unwrap();
        let bed = Bed { env, disk, db };
        let again = busy(&bed, |db| {
            let mut txn = db.begin();
            txn.insert_many("t", &(0..KEYS).map(row).collect::<Vec<_>>()).unwrap();
            txn.commit().unwrap();
        });
        assert!(again.reads > 50 && again.pages > 8.0, "{method:?}: {again:?}");
        assert_eq!(count(&bed.db, &ScanOptions::all()), ROWS as usize / 2);
        assert!(bed.db.verify().unwrap().is_clean());
    }
}

/// One row needs a leaf of every index: they are read at once, not one after the other.
#[test]
fn one_row_reads_a_leaf_of_every_index_at_once() {
    let bed = bed();
    let mut txn = bed.db.begin();
    for more in 0..4 {
        let index = IndexSchema::new(format!("t_more{more}")).on("s").on("id");
        txn.create_index("t", &index).unwrap();
    }
    txn.commit().unwrap();
    let time = |id: i64, serial_reads: bool| {
        bed.db.evict_leaves().unwrap();
        let start = bed.env.clock.now();
        let options = TransactionOptions { relaxed: true, serial_reads, ..Default::default() };
        let mut txn = bed.db.begin_with(options);
        txn.insert("t", &row(id)).unwrap();
        txn.commit().unwrap();
        bed.env.clock.now() - start
    };
    let (alone, together) = (time(ROWS, true), time(ROWS + 1, false));
    assert!(together + 4 * LATENCY <= alone, "{together:?}, one after the other {alone:?}");
}
