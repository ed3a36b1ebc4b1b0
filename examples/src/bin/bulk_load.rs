//! A bulk load: rows from a text file into a table with three indexes, in batches.
//!
//! Each batch is one transaction, so a load that ends in the middle leaves whole batches, and
//! `next_line` finds where to go on. Larger batches read more index leaves side by side; a batch
//! must fit in the memory of the database. Run it with
//! `cargo run --release -p rightlink-examples --bin bulk_load -- 1000000` (lines; 20,000 without).
//!
//! Does not do: quoting; `rightlink load` reads CSV.
#![expect(clippy::print_stdout, reason = "a program for people")]
#![expect(clippy::disallowed_types, reason = "its input is not the store's")]

use std::error::Error;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use rightlink::{Database, IndexSchema, ScanOptions, TableSchema, TransactionOptions, Type, Value};

const BATCH: usize = 10_000;

fn main() -> Result<(), Box<dyn Error>> {
    let lines = std::env::args().nth(1).map_or(Ok(20_000), |text| text.parse())?;
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("readings.txt");
    write_readings(&file, lines)?;

    let db = Database::options().memory(64 << 20).open(dir.path().join("readings.db"))?;
    create(&db)?;
    load(&db, &file)?;
    // A second run finds nothing to do: it goes on behind the last line that was committed.
    assert_eq!(load(&db, &file)?, 0);

    let mut txn = db.begin();
    let of_sensor = ScanOptions::index("reading_sensor").equal(vec![Value::Int4(7)]);
    let count = txn.scan("reading", &of_sensor)?.count();
    println!("{lines} lines loaded; sensor 7 has {count} readings");
    drop(txn);
    assert!(db.verify()?.is_clean());
    db.close()?;
    Ok(())
}

fn create(db: &Database) -> rightlink::Result<()> {
    let mut txn = db.begin();
    txn.create_table(
        &TableSchema::new("reading")
            .column("line", Type::Int8)
            .column("sensor", Type::Int4)
            .column("taken", Type::Int8)
            .column("value", Type::Float8)
            .primary_key(["line"])
            .index(IndexSchema::new("reading_sensor").on("sensor").on("taken"))
            .index(IndexSchema::new("reading_taken").on("taken")),
    )?;
    txn.commit()
}

/// Loads what is not loaded yet; gives the number of lines.
fn load(db: &Database, file: &Path) -> Result<i64, Box<dyn Error>> {
    let first = next_line(db)?;
    let reader = BufReader::new(std::fs::File::open(file)?);
    let (mut batch, mut loaded) = (Vec::with_capacity(BATCH), 0);
    for (number, line) in (0i64..).zip(reader.lines()) {
        let line = line?;
        if number < first {
            continue;
        }
        let row = parse(number, &line).ok_or_else(|| format!("line {number}: {line:?}"))?;
        batch.push(row);
        if batch.len() == BATCH {
            loaded += store(db, &mut batch)?;
        }
    }
    loaded += store(db, &mut batch)?;
    // The batches were not durable one by one; the checkpoint makes all of them so.
    db.checkpoint()?;
    Ok(loaded)
}

/// The number of the first line that is not loaded.
fn next_line(db: &Database) -> rightlink::Result<i64> {
    let last = ScanOptions::index("reading_pkey").backward().limit(1);
    let mut txn = db.begin();
    let newest = txn.scan("reading", &last)?.next().transpose()?;
    match newest.as_ref().map(|row| &row.values[0]) {
        Some(Value::Int8(line)) => Ok(line + 1),
        _ => Ok(0),
    }
}

/// Commits the rows of a batch, all or none, and empties it.
fn store(db: &Database, batch: &mut Vec<Vec<Value>>) -> rightlink::Result<i64> {
    let relaxed = TransactionOptions { relaxed: true, ..TransactionOptions::default() };
    let mut txn = db.begin_with(relaxed);
    txn.insert_many("reading", batch)?;
    txn.commit()?;
    let stored = batch.len() as i64;
    batch.clear();
    Ok(stored)
}

/// `sensor taken value`
fn parse(number: i64, line: &str) -> Option<Vec<Value>> {
    let mut fields = line.split(' ');
    let sensor = fields.next()?.parse().ok()?;
    let taken = fields.next()?.parse().ok()?;
    let value = fields.next()?.parse().ok()?;
    fields.next().is_none().then(|| {
        vec![Value::Int8(number), Value::Int4(sensor), Value::Int8(taken), Value::Float8(value)]
    })
}

/// Readings of a hundred sensors that are made up.
fn write_readings(file: &Path, lines: u64) -> std::io::Result<()> {
    let mut out = BufWriter::new(std::fs::File::create(file)?);
    for line in 0..lines {
        let mixed = (line + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        writeln!(
            out,
            "{} {} {:.2}",
            mixed >> 32 & 127,
            1_000_000 + line,
            (mixed >> 50) as f64 / 64.0
        )?;
    }
    out.flush()
}
