//! Reading ahead changes nothing about what is read: odd distances, tiny pools, every I/O method,
//! reads that fail inside the window, scans that are left in the middle.

use rightlink::{
    Database, Error, IndexMethod, IndexSchema, Method, Options, Prefetch, RowId, ScanOptions,
    TableSchema, Type, Value,
};
use rightlink_aio::SimDisk;
use rightlink_aio::sim::{FaultKind, OpKind, Repeat};
use rightlink_env::{Env, Rng};

const ROWS: i64 = 1500;
const POLICIES: [Prefetch; 7] = [
    Prefetch::None,
    Prefetch::Simple,
    Prefetch::Adaptive,
    Prefetch::Fixed(1),
    Prefetch::Fixed(3),
    Prefetch::Fixed(13),
    Prefetch::Fixed(61),
];

/// Row `id`; the second column is in no order, and some rows share it.
fn row(id: i64) -> Vec<Value> {
    let scattered = id.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64) % 500;
    vec![Value::Int8(id), Value::Int8(scattered), Value::Text("x".repeat(400))]
}

fn id_of(row: &rightlink::Row) -> i64 {
    match row.values[0] {
        Value::Int8(id) => id,
        ref other => panic!("an int8, not {other:?}"),
    }
}

/// Makes the table; then every hint is set.
fn fill(db: &Database) {
    let schema = TableSchema::new("t").column("id", Type::Int8);
    let schema = schema.column("s", Type::Int8).column("pad", Type::Text);
    let schema = schema.primary_key(["id"]).index(IndexSchema::new("t_s").on("s"));
    let hash = IndexSchema::new("t_hash").on("s").method(IndexMethod::Hash);
    let mut txn = db.begin();
    txn.create_table(&schema.index(hash)).unwrap();
    for id in 0..ROWS {
        txn.insert("t", &row(id)).unwrap();
    }
    txn.commit().unwrap();
    assert_eq!(all(db, &ScanOptions::all()).unwrap().len(), ROWS as usize);
}

fn all(db: &Database, options: &ScanOptions) -> Result<Vec<(RowId, i64)>, Error> {
    let mut txn = db.begin();
    txn.scan("t", options)?.map(|row| row.map(|row| (row.id, id_of(&row)))).collect()
}

fn by_index() -> ScanOptions {
    ScanOptions::index("t_s")
}

fn simulated(disk: &SimDisk, pool_pages: usize) -> Database {
    let options = Database::options().pool_pages(pool_pages);
    options.simulation(Env::simulated(9), disk.clone()).open("db").unwrap()
}

/// Scans of every kind, each against the first answer, which no reading ahead had part in.
fn agree(db: &Database, what: &str) {
    let some: Vec<_> = (0..500).step_by(7).map(|s| vec![Value::Int8(s)]).collect();
    let by_hash = || ScanOptions::index("t_hash");
    let scans = [
        ScanOptions::all(),
        by_index(),
        by_index().backward(),
        by_index().any_order(),
        by_index().from(vec![Value::Int8(100)]).limit(77),
        ScanOptions { any_of: some.clone(), ..by_index() },
        by_hash().equal(some[9].clone()),
        ScanOptions { any_of: some.clone(), ..by_hash() },
        ScanOptions { any_of: some, ..by_hash().any_order() },
        ScanOptions::index("t_pkey").columns(["id"]),
    ];
    for scan in scans {
        db.set_prefetch(Prefetch::None);
        db.evict().unwrap();
        let mut wanted = all(db, &scan).unwrap();
        if scan.any_order {
            wanted.sort_unstable();
        }
        for policy in POLICIES {
            db.set_prefetch(policy);
            db.evict().unwrap();
            let mut found = all(db, &scan).unwrap();
            if scan.any_order {
                found.sort_unstable();
            }
            assert!(found == wanted, "{what}, {policy:?}, {scan:?}");
        }
    }
}

#[test]
fn every_distance_and_every_method_read_the_same_rows() {
    for method in [Method::Sync, Method::Worker, Method::IoUring] {
        for pool_pages in [16, 200] {
            let dir = tempfile::tempdir().unwrap();
            let options = |pages| Options::default().method(method).pool_pages(pages);
            let db = options(200).open(dir.path()).unwrap();
            fill(&db);
            db.close().unwrap();
            let db = options(pool_pages).direct(pool_pages == 200).open(dir.path()).unwrap();
            agree(&db, &format!("{method}, {pool_pages} pages"));
        }
    }
    let db = simulated(&SimDisk::new(9), 200);
    fill(&db);
    agree(&db, "simulated");
}

/// A buffered scan of over 4 MiB goes from planned reads to the system's read-ahead and back. It
/// finds the rows of a scan without reading ahead, before changes and after them, with a checkpoint
/// in between and without.
#[test]
fn long_orders_read_the_same_rows() {
    for method in [Method::Sync, Method::Worker, Method::IoUring] {
        let dir = tempfile::tempdir().unwrap();
        let db = Options::default().method(method).pool_pages(1200).open(dir.path()).unwrap();
        fill(&db);
        let mut txn = db.begin();
        txn.insert_many("t", &(ROWS..10 * ROWS).map(row).collect::<Vec<_>>()).unwrap();
        txn.commit().unwrap();
        let by_key = || ScanOptions::index("t_pkey");
        let hops = || (0..10 * ROWS).step_by(3).map(|id| vec![Value::Int8(id)]);
        let scans = [
            ScanOptions::all(),
            by_key(),
            by_key().backward(),
            ScanOptions { any_of: hops().collect(), ..by_key() },
            ScanOptions { expected_rows: Some(10 * ROWS as u64), ..by_key() },
            by_index(),
        ];
        for round in 0..3 {
            for scan in &scans {
                let [wanted, found] = [Prefetch::None, Prefetch::Adaptive].map(|policy| {
                    db.set_prefetch(policy);
                    db.evict().unwrap();
                    all(&db, scan).unwrap()
                });
                assert!(found == wanted, "{method}, round {round}, {scan:?}");
            }
            let mut txn = db.begin();
            for id in (round..10 * ROWS).step_by(29) {
                let row = txn.get("t", &[Value::Int8(id)]).unwrap().unwrap();
                txn.update("t", row.id, &[("s", Value::Int8(round))]).unwrap();
            }
            txn.commit().unwrap();
            if round == 1 {
                db.checkpoint().unwrap();
            }
        }
        assert!(db.verify().unwrap().is_clean(), "{method}");
    }
}

/// Rows that are inserted, changed and deleted by the batch, from a cold start at every distance,
/// are all where they belong.
fn write(db: &Database, what: &str) {
    let mut ids: Vec<i64> = (0..ROWS).collect();
    for policy in POLICIES {
        db.set_prefetch(policy);
        db.evict().unwrap();
        let mut txn = db.begin();
        let next = ids[ids.len() - 1] + 1;
        txn.insert_many("t", &(next..next + 150).map(row).collect::<Vec<_>>()).unwrap();
        ids.extend(next..next + 150);
        let rows: Vec<_> =
            txn.scan("t", &by_index()).unwrap().map(|row| row.unwrap()).step_by(9).collect();
        let (gone, changed) = rows.split_at(rows.len() / 3);
        let named = |rows: &[rightlink::Row]| rows.iter().map(|row| row.id).collect::<Vec<_>>();
        let done = txn.update_many("t", &named(changed), &[("s", Value::Int8(7))]).unwrap();
        assert_eq!(done as usize, changed.len());
        assert_eq!(txn.delete_many("t", &named(gone)).unwrap() as usize, gone.len());
        ids.retain(|id| !gone.iter().any(|row| id_of(row) == *id));
        txn.commit().unwrap();
        for scan in [ScanOptions::all(), by_index(), ScanOptions::index("t_pkey")] {
            let mut found: Vec<i64> = all(db, &scan).unwrap().iter().map(|(_, id)| *id).collect();
            found.sort_unstable();
            assert!(found == ids, "{what}, {policy:?}, {scan:?}");
        }
    }
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{what}: {report:?}");
}

#[test]
fn every_distance_and_every_method_write_the_same_rows() {
    for method in [Method::Sync, Method::Worker, Method::IoUring] {
        for pool_pages in [16, 200] {
            let dir = tempfile::tempdir().unwrap();
            let options = Options::default().method(method).pool_pages(pool_pages);
            let db = options.open(dir.path()).unwrap();
            fill(&db);
            write(&db, &format!("{method}, {pool_pages} pages"));
        }
    }
    let db = simulated(&SimDisk::new(14), 60);
    fill(&db);
    write(&db, "simulated");
}

/// A damaged page stops a scan when it comes to the first row on it, not when the page comes into
/// the window; a scan that needs no row of it meets no damage.
#[test]
fn damage_is_met_by_the_row_that_needs_the_page() {
    let disk = SimDisk::new(9);
    let db = simulated(&disk, 200);
    fill(&db);
    let rows = all(&db, &by_index()).unwrap();
    db.evict().unwrap();
    let mut files = disk.files();
    files.retain(|(name, _)| name.starts_with("data/"));
    let (heap, _) = files.into_iter().max_by_key(|(_, len)| *len).unwrap();
    for policy in POLICIES {
        db.set_prefetch(policy);
        let mut rng = Rng::from_seed(3);
        for _ in 0..8 {
            let block = rng.pick(&rows).unwrap().0.block;
            db.evict().unwrap();
            disk.flip_bit(&heap, u64::from(block.0) * 8192 + 4000, 1);
            let mut txn = db.begin();
            let mut scan = txn.scan("t", &by_index()).unwrap();
            let sound = rows.iter().take_while(|(row, _)| row.block != block);
            for (row, id) in sound {
                let found = scan.next().unwrap().unwrap();
                assert_eq!((found.id, id_of(&found)), (*row, *id), "{policy:?}");
            }
            for _ in 0..3 {
                let error = scan.next().unwrap().unwrap_err();
                let met =
                    matches!(&error, Error::Corruption { block: Some(b), .. } if *b == block.0);
                assert!(met, "{policy:?}: {error}");
            }
            drop((scan, txn));
            // The scan stopped: what it had asked for is forgotten, and harms no other.
            disk.flip_bit(&heap, u64::from(block.0) * 8192 + 4000, 1);
            assert!(all(&db, &by_index()).unwrap() == rows, "{policy:?}");
        }
    }
}

/// A block that cannot be read stops a scan when it comes to the first row there: rows on pages
/// that were to be read in the same call are found all the same.
#[test]
fn a_failing_block_is_met_by_the_row_that_needs_it() {
    let disk = SimDisk::new(12);
    let db = simulated(&disk, 200);
    fill(&db);
    let mut files = disk.files();
    files.retain(|(name, _)| name.starts_with("data/"));
    let (heap, _) = files.into_iter().max_by_key(|(_, len)| *len).unwrap();
    let mut joined = 0;
    for scan in [ScanOptions::all(), by_index(), by_index().backward()] {
        let rows = all(&db, &scan).unwrap();
        for policy in POLICIES {
            db.set_prefetch(policy);
            let mut rng = Rng::from_seed(3);
            for _ in 0..6 {
                let block = rng.pick(&rows).unwrap().0.block;
                db.evict().unwrap();
                let before = db.stats().get("stream_joined_blocks").unwrap();
                disk.fail_reads_of(&heap, u64::from(block.0) * 8192, 8192);
                let mut txn = db.begin();
                let mut reader = txn.scan("t", &scan).unwrap();
                for (row, id) in rows.iter().take_while(|(row, _)| row.block != block) {
                    let found = reader.next().unwrap().unwrap();
                    assert_eq!((found.id, id_of(&found)), (*row, *id), "{policy:?}");
                }
                let error = reader.next().unwrap().unwrap_err();
                assert!(matches!(error, Error::Io(_)), "{policy:?}: {error}");
                drop((reader, txn));
                disk.clear_faults();
                assert!(all(&db, &scan).unwrap() == rows, "{policy:?}");
                joined += db.stats().get("stream_joined_blocks").unwrap() - before;
            }
        }
    }
    assert!(joined > 0, "some reads were of several blocks");
    assert!(db.verify().unwrap().is_clean());
}

/// Many keys at once give what each gives alone, at every distance, missing keys and repeated ones
/// included; cold, their pages come in fewer waits than one by one.
#[test]
fn many_keys_at_once_give_what_each_gives_alone() {
    let db = simulated(&SimDisk::new(13), 200);
    fill(&db);
    let (mut rng, mut some) = (Rng::from_seed(6), 0);
    for policy in POLICIES {
        db.set_prefetch(policy);
        for index in ["t_s", "t_hash", "t_pkey"] {
            let keys: Vec<_> =
                (0..120).map(|_| vec![Value::Int8(rng.below(2000) as i64)]).collect();
            db.evict().unwrap();
            let mut txn = db.begin();
            let found = txn.fetch_many("t", index, &keys).unwrap();
            assert_eq!(found.len(), keys.len());
            for (key, found) in keys.iter().zip(found) {
                let options = ScanOptions::index(index).equal(key.clone());
                let alone: Vec<_> = txn.scan("t", &options).unwrap().map(Result::unwrap).collect();
                assert_eq!(found, alone, "{policy:?}, {index}, {key:?}");
                some += found.len();
            }
        }
    }
    assert!(some > 120 * POLICIES.len(), "{some} rows were found");
    let mut txn = db.begin();
    assert!(txn.fetch_many("t", "t_s", &[]).unwrap().is_empty());
    assert!(matches!(txn.fetch_many("t", "none", &[]), Err(Error::NotFound(_))));
    drop(txn);
    db.set_prefetch(Prefetch::Adaptive);
    let waits = |many: bool| {
        db.evict().unwrap();
        let before = db.stats().get("pool_waits").unwrap();
        let keys: Vec<_> = (0..300).map(|n| vec![Value::Int8(n * 5)]).collect();
        let mut txn = db.begin();
        match many {
            true => drop(txn.fetch_many("t", "t_pkey", &keys).unwrap()),
            false => keys.iter().for_each(|key| drop(txn.get("t", key).unwrap())),
        }
        db.stats().get("pool_waits").unwrap() - before
    };
    let (alone, together) = (waits(false), waits(true));
    assert!(together * 2 < alone, "{together} waits together, {alone} one by one");
}

/// A read that fails once, wherever it stands in the window, costs at most the scan it was for: the
/// rows before are right, and the next scan finds all.
#[test]
fn a_read_that_fails_once_leaves_a_sound_beginning() {
    let disk = SimDisk::new(10);
    let db = simulated(&disk, 200);
    fill(&db);
    let rows = all(&db, &by_index()).unwrap();
    let (mut stopped, mut passed) = (0, 0);
    for policy in POLICIES {
        db.set_prefetch(policy);
        for nth in [1, 2, 3, 5, 8, 13, 21, 34, 55] {
            db.evict().unwrap();
            disk.fail_nth(OpKind::Read, nth, FaultKind::Io, Repeat::Once);
            let mut txn = db.begin();
            let mut found = Vec::new();
            let mut failed = None;
            for row in txn.scan("t", &by_index()).unwrap().take(ROWS as usize + 1) {
                match row {
                    Ok(row) => found.push((row.id, id_of(&row))),
                    Err(error) => {
                        failed = Some(error);
                        break;
                    }
                }
            }
            drop(txn);
            disk.clear_faults();
            assert!(found == rows[..found.len()], "{policy:?}, read {nth}");
            match failed {
                None => {
                    assert_eq!(found.len(), rows.len(), "{policy:?}, read {nth}");
                    passed += 1;
                }
                Some(error) => {
                    assert!(matches!(error, Error::Io(_)), "{policy:?}, read {nth}: {error}");
                    stopped += 1;
                }
            }
            assert!(all(&db, &by_index()).unwrap() == rows, "{policy:?}, read {nth}");
        }
    }
    assert!(stopped > 10 && passed > 0, "{stopped} scans were stopped, {passed} were not");
}

/// Scans that are left with reads on their way, by their own end or their transaction's, leave
/// nothing behind: no memory, no pin, no wrong page.
#[test]
fn scans_may_be_left_at_any_point() {
    let db = simulated(&SimDisk::new(11), 60);
    fill(&db);
    let rows = all(&db, &by_index()).unwrap();
    let used = || db.stats().get("memory_used_bytes").unwrap();
    db.evict().unwrap();
    let before = used();
    let mut rng = Rng::from_seed(4);
    for round in 0..120 {
        db.set_prefetch(*rng.pick(&POLICIES).unwrap());
        if round % 3 == 0 {
            db.evict().unwrap();
        }
        let take = rng.index(rows.len());
        let mut txn = db.begin();
        let mut scan = txn.scan("t", &by_index()).unwrap();
        for wanted in &rows[..take] {
            let found = scan.next().unwrap().unwrap();
            assert_eq!((found.id, id_of(&found)), *wanted, "round {round}");
        }
        if round % 2 == 0 {
            drop(txn);
            assert!(matches!(scan.next(), Some(Err(Error::Invalid(_)))), "round {round}");
        }
    }
    assert!(all(&db, &by_index()).unwrap() == rows);
    db.evict().unwrap();
    assert_eq!(used(), before, "what the scans reserved was given back");
    assert!(db.verify().unwrap().is_clean());
}
