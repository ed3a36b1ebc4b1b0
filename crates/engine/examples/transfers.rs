//! Four threads move money between accounts at the same time; none of it is ever lost or made.
//!
//! Two transfers that touch the same account conflict. `with_retry` runs the loser again on a new
//! snapshot. Run it with `cargo run --example transfers`.
#![expect(clippy::print_stdout, reason = "a program for people")]

use std::thread;

use rightlink::{Database, Error, Result, ScanOptions, TableSchema, Transaction, Type, Value};

const ACCOUNTS: i64 = 10;
const START: i64 = 100;
const THREADS: i64 = 4;
const TRANSFERS: i64 = 50;

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a directory for temporary files");
    let db = Database::open(dir.path())?;
    let mut txn = db.begin();
    txn.create_table(
        &TableSchema::new("account")
            .column("id", Type::Int8)
            .column("balance", Type::Int8)
            .primary_key(["id"]),
    )?;
    let accounts: Vec<_> =
        (0..ACCOUNTS).map(|id| vec![Value::Int8(id), Value::Int8(START)]).collect();
    txn.insert_many("account", &accounts)?;
    txn.commit()?;

    let workers: Vec<_> = (0..THREADS)
        .map(|worker| {
            let db = db.clone(); // clones share the open database
            thread::Builder::new().spawn(move || work(&db, worker)).expect("a thread")
        })
        .collect();
    let mut refused = 0;
    for worker in workers {
        refused += worker.join().expect("a worker does not panic")?;
    }

    let total = total(&db)?;
    println!("{} transfers, {refused} refused, total {total}", THREADS * TRANSFERS);
    assert_eq!(total, ACCOUNTS * START, "money is neither lost nor made");
    assert!(db.verify()?.is_clean());
    db.close()
}

/// Many transfers; returns how many were refused for lack of money.
fn work(db: &Database, worker: i64) -> Result<u32> {
    let mut refused = 0;
    for i in 0..TRANSFERS {
        let from = (worker + i * 3) % ACCOUNTS;
        let to = (from + 1 + i % (ACCOUNTS - 1)) % ACCOUNTS;
        match db.with_retry(|txn| transfer(txn, from, to, 1 + i * 7 % 60)) {
            Ok(()) => {}
            Err(Error::Invalid(_)) => refused += 1,
            Err(other) => return Err(other),
        }
    }
    Ok(refused)
}

/// Moves `amount`, or returns an error, and then nothing has happened.
fn transfer(txn: &mut Transaction, from: i64, to: i64, amount: i64) -> Result<()> {
    change(txn, from, -amount)?;
    change(txn, to, amount)
}

fn change(txn: &mut Transaction, account: i64, by: i64) -> Result<()> {
    let row = txn.get("account", &[Value::Int8(account)])?.expect("accounts are never deleted");
    let Value::Int8(balance) = row.values[1] else { panic!("balances are integers") };
    if balance + by < 0 {
        return Err(Error::Invalid(format!("account {account} has only {balance}")));
    }
    let changed = txn.update("account", row.id, &[("balance", Value::Int8(balance + by))])?;
    assert!(changed, "a row seen by this snapshot is updated or is a conflict");
    Ok(())
}

fn total(db: &Database) -> Result<i64> {
    let mut txn = db.begin();
    let mut total = 0;
    for row in txn.scan("account", &ScanOptions::all())? {
        if let Value::Int8(balance) = row?.values[1] {
            total += balance;
        }
    }
    Ok(total)
}
