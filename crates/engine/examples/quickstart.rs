//! Open a database, make a table with two indexes, write, read, close, and come back.
//!
//! Run it with `cargo run --example quickstart`. It works in a directory that it removes.
#![expect(clippy::print_stdout, reason = "a program for people")]

use rightlink::{Database, IndexSchema, Result, ScanOptions, TableSchema, Type, Value};

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a directory for temporary files");
    let db = Database::open(dir.path())?;

    let mut txn = db.begin();
    txn.create_table(
        &TableSchema::new("book")
            .column("isbn", Type::Int8)
            .column("author", Type::Text)
            .column("title", Type::Text)
            .nullable("year", Type::Int4)
            .primary_key(["isbn"])
            .index(IndexSchema::new("book_author").on("author").on_desc("year")),
    )?;
    txn.insert("book", &book(1, "Le Guin", "The Dispossessed", Some(1974)))?;
    txn.insert("book", &book(2, "Lem", "Solaris", Some(1961)))?;
    txn.insert("book", &book(3, "Le Guin", "A Wizard of Earthsea", Some(1968)))?;
    txn.commit()?; // durable when it returns

    println!("by Le Guin, newest first:");
    let mut txn = db.begin();
    let options = ScanOptions::index("book_author").equal(vec![Value::Text("Le Guin".into())]);
    for row in txn.scan("book", &options)? {
        let row = row?;
        println!("  {} {}", row.values[3], row.values[2]);
    }

    // Indexes follow by themselves; a transaction that is dropped leaves nothing behind.
    let solaris = txn.get("book", &[Value::Int8(2)])?.expect("inserted above");
    txn.update("book", solaris.id, &[("year", Value::Null)])?;
    drop(txn);
    db.close()?;

    let db = Database::open(dir.path())?;
    let solaris = db.begin().get("book", &[Value::Int8(2)])?.expect("still there");
    assert_eq!(solaris.values[3], Value::Int4(1961), "the update was never committed");
    assert!(db.verify()?.is_clean());
    println!("opened again: heap and indexes agree");
    db.close()
}

fn book(isbn: i64, author: &str, title: &str, year: Option<i32>) -> Vec<Value> {
    let year = year.map_or(Value::Null, Value::Int4);
    vec![Value::Int8(isbn), Value::Text(author.into()), Value::Text(title.into()), year]
}
