//! Rows that a visitor takes value by value are those that come one by one.

use rightlink::{
    AlterTable, ColumnDefault, ColumnSchema, Database, Decimal, Row, RowId, RowVisitor,
    ScanOptions, TableSchema, Transaction, Type, Value,
};
use rightlink_env::Rng;

const COLUMNS: [&str; 8] = ["id", "small", "big", "real", "name", "price", "day", "late"];

/// Puts the rows together again; `at_once` is how many it takes in one visit.
struct Collector {
    width: usize,
    at_once: usize,
    taken: usize,
    values: Vec<Value>,
    rows: Vec<Row>,
}

impl RowVisitor for Collector {
    fn value(&mut self, place: usize, value: Value) {
        if self.values.is_empty() {
            self.values = vec![Value::Null; self.width];
        }
        self.values[place] = value;
    }

    fn end_row(&mut self, id: RowId) -> bool {
        self.rows.push(Row { id, values: std::mem::take(&mut self.values) });
        self.taken += 1;
        self.taken < self.at_once
    }
}

/// One in ten is beyond 128 bits or no number.
fn random_decimal(random: &mut Rng) -> Decimal {
    let digits = "7".repeat(1 + random.index(60));
    match random.below(20) {
        0 => Decimal::nan(),
        1 => format!("-{digits}.{digits}").parse().unwrap(),
        _ => {
            let unscaled = i128::from(random.next_u64() >> random.below(64)) - (1 << 20);
            Decimal::from_unscaled(unscaled, random.below(5) as u16).unwrap()
        }
    }
}

fn random_row(random: &mut Rng, id: i64) -> Vec<Value> {
    let or_null = |random: &mut Rng, value| if random.below(4) == 0 { Value::Null } else { value };
    let small = Value::Int4(random.next_u32() as i32);
    let big = Value::Int8(random.next_u64() as i64);
    let real = Value::Float8(random.below(1_000) as f64 / 8.0);
    // One in twenty lies in overflow pages.
    let length = if random.below(20) == 0 { 5_000 } else { random.below(30) };
    let name = Value::Text("x".repeat(length as usize));
    let price = Value::Decimal(random_decimal(random));
    let day = Value::Date(random.below(20_000) as i32 - 10_000);
    let others = [small, big, real, name, price, day].map(|value| or_null(random, value));
    std::iter::once(Value::Int8(id)).chain(others).collect()
}

/// Rows of which some are older than a column, which has a default for them, and lack one that is
/// dropped; some are deleted, some updated.
fn fill(db: &Database, random: &mut Rng) {
    let mut txn = db.begin();
    let table = TableSchema::new("t")
        .column("id", Type::Int8)
        .nullable("small", Type::Int4)
        .nullable("big", Type::Int8)
        .nullable("real", Type::Float8)
        .nullable("name", Type::Text)
        .nullable("price", Type::Decimal)
        .nullable("day", Type::Date)
        .nullable("gone", Type::Int4)
        .primary_key(["id"]);
    txn.create_table(&table).unwrap();
    let mut old: Vec<_> = (0..300).map(|id| random_row(random, id)).collect();
    old.iter_mut().for_each(|row| row.push(Value::Int4(7)));
    txn.insert_many("t", &old).unwrap();
    let late = ColumnSchema::new("late", Type::Int4)
        .nullable()
        .default(ColumnDefault::Value(Value::Int4(5)));
    txn.alter_table("t", AlterTable::AddColumn(&late)).unwrap();
    txn.alter_table("t", AlterTable::DropColumn("gone")).unwrap();
    let mut new: Vec<_> = (300..600).map(|id| random_row(random, id)).collect();
    new.iter_mut().for_each(|row| row.push(Value::Null));
    txn.insert_many("t", &new).unwrap();
    txn.commit().unwrap();
    let mut txn = db.begin();
    let some: Vec<RowId> = txn
        .scan("t", &ScanOptions::all())
        .unwrap()
        .map(|row| row.unwrap().id)
        .filter(|_| random.below(7) == 0)
        .collect();
    for id in some {
        txn.delete("t", id).unwrap();
    }
    txn.commit().unwrap();
}

fn random_scan(random: &mut Rng) -> (ScanOptions, usize) {
    let mut options = match random.below(3) {
        0 => ScanOptions::index("t_pkey"),
        1 => ScanOptions::index("t_pkey").from(vec![Value::Int8(random.below(700) as i64)]),
        _ => ScanOptions::all(),
    };
    if random.below(3) == 0 {
        options = options.limit(random.below(400));
    }
    if random.below(4) == 0 {
        return (options, COLUMNS.len());
    }
    // In any order, some of them twice.
    let names: Vec<&str> =
        (0..1 + random.below(7)).map(|_| COLUMNS[random.index(COLUMNS.len())]).collect();
    let width = names.len();
    (options.columns(names), width)
}

fn visited(txn: &mut Transaction, options: &ScanOptions, width: usize, at_once: usize) -> Vec<Row> {
    let mut rows = txn.scan("t", options).unwrap();
    let (values, found) = (Vec::new(), Vec::new());
    let mut collector = Collector { width, at_once, taken: 0, values, rows: found };
    loop {
        collector.taken = 0;
        let count = rows.visit(&mut collector).unwrap();
        assert_eq!(count, collector.taken as u64, "every row that is counted was handed over");
        if count == 0 {
            return collector.rows;
        }
    }
}

#[test]
fn a_visitor_takes_the_rows_that_come_one_by_one() {
    let seed = Rng::from_entropy().next_u64();
    let mut random = Rng::from_seed(seed);
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    fill(&db, &mut random);
    let mut txn = db.begin();
    for round in 0..200 {
        let (options, width) = random_scan(&mut random);
        let at_once = 1 + random.index(300);
        let wanted: Vec<Row> =
            txn.scan("t", &options).unwrap().collect::<rightlink::Result<_>>().unwrap();
        let found = visited(&mut txn, &options, width, at_once);
        // As texts: numbers that differ by their scales are equal.
        let (found, wanted) = (format!("{found:?}"), format!("{wanted:?}"));
        assert_eq!(found, wanted, "seed {seed}, round {round}, {at_once} at once: {options:?}");
    }
    drop(txn);
    assert!(db.verify().unwrap().is_clean());
}
