//! Load rows into a table with five indexes on random keys, a batch at a time.
//!
//! `insert_many` hands each index its whole batch, so that leaves are read side by side and visited
//! once. Run it with `cargo run --release --example ingest -- 200000` (rows; 20,000 without).
#![expect(clippy::print_stdout, reason = "a program for people")]

use std::time::Instant;

use rightlink::{Database, IndexSchema, Result, ScanOptions, TableSchema, Type, Value};

const BATCH: usize = 10_000;

fn main() -> Result<()> {
    let rows = std::env::args().nth(1).map_or(20_000, |text| text.parse().expect("rows"));
    let dir = tempfile::tempdir().expect("a directory for temporary files");
    let db = Database::options().memory(64 << 20).open(dir.path())?;

    let mut schema = TableSchema::new("event").column("id", Type::Int8).primary_key(["id"]);
    for key in ["user", "device", "session", "trace"] {
        let index = IndexSchema::new(format!("event_{key}")).on(key);
        schema = schema.column(key, Type::Uuid).index(index);
    }
    let mut txn = db.begin();
    txn.create_table(&schema)?;
    txn.commit()?;

    #[expect(clippy::disallowed_methods, reason = "a figure for people; nothing depends on it")]
    let start = Instant::now();
    let ids: Vec<u64> = (0..rows).collect();
    for batch in ids.chunks(BATCH) {
        let batch: Vec<_> = batch.iter().map(|id| event(*id)).collect();
        let mut txn = db.begin();
        txn.insert_many("event", &batch)?; // all of the batch or none of it
        txn.commit()?;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{rows} rows, 5 indexes: {:.0} rows/s", rows as f64 / seconds);

    // Whoever caused event 7 is found by any of the indexes.
    let wanted = event(7);
    let mut txn = db.begin();
    for (column, key) in ["user", "device", "session", "trace"].into_iter().enumerate() {
        let options = ScanOptions::index(format!("event_{key}"));
        let found = txn.scan("event", &options.equal(vec![wanted[column + 1].clone()]))?;
        let found = found.collect::<Result<Vec<_>>>()?;
        assert!(found.iter().any(|row| row.values == wanted), "found by {key}");
    }
    drop(txn);
    assert!(db.verify()?.is_clean());
    db.close()
}

/// An event whose keys are spread over the whole key space.
fn event(id: u64) -> Vec<Value> {
    let mut values = vec![Value::Int8(id as i64)];
    values.extend((1..=4).map(|column| Value::Uuid(scatter(id * 4 + column))));
    values
}

/// Sixteen bytes that look random and depend on `n` only.
fn scatter(n: u64) -> [u8; 16] {
    let mix = |n: u64| {
        let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        n ^ n >> 31
    };
    let wide = u128::from(mix(n + 1)) << 64 | u128::from(mix(!n));
    wide.to_be_bytes()
}
