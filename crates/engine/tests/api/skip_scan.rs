//! Conditions on columns that do not open the key, through the public names: what a scan finds, and
//! what it reads for it.

use std::ops::Bound;

use rightlink::internal::index::btree::counting;
use rightlink::{
    Condition, Database, IndexMethod, IndexSchema, ScanOptions, TableSchema, Type, Value,
};

const DAYS: i64 = 6000;
const SHOPS: [Option<&str>; 5] = [Some("Delft"), None, Some("Gent"), Some("Lund"), Some("")];

/// Sales of a few shops on many days; an index on (shop, day descending, till, id).
fn sales() -> TableSchema {
    TableSchema::new("sales")
        .column("id", Type::Int8)
        .nullable("shop", Type::Text)
        .nullable("day", Type::Int4)
        .column("till", Type::Int2)
        .primary_key(["id"])
        .index(IndexSchema::new("by_shop").on("shop").on_desc("day").on("till").on("id"))
}

fn row(id: i64) -> Vec<Value> {
    let shop = SHOPS[id as usize % SHOPS.len()];
    let day = id / SHOPS.len() as i64;
    vec![
        Value::Int8(id),
        shop.map_or(Value::Null, |shop| Value::Text(shop.into())),
        if day % 1000 == 7 { Value::Null } else { Value::Int4(day as i32) },
        Value::Int2((id % 3) as i16),
    ]
}

fn database() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut txn = db.begin();
    txn.create_table(&sales()).unwrap();
    let rows: Vec<_> = (0..DAYS * SHOPS.len() as i64).map(row).collect();
    txn.insert_many("sales", &rows).unwrap();
    txn.commit().unwrap();
    (dir, db)
}

fn scan(db: &Database, options: &ScanOptions) -> Vec<i64> {
    let mut txn = db.begin();
    let rows = txn.scan("sales", options).unwrap();
    rows.map(|row| match row.unwrap().values[0] {
        Value::Int8(id) => id,
        ref other => panic!("{other:?}"),
    })
    .collect()
}

fn by_shop(column: &str, condition: Condition) -> ScanOptions {
    ScanOptions::index("by_shop").matching(column, condition)
}

fn sorted(mut ids: Vec<i64>) -> Vec<i64> {
    ids.sort_unstable();
    ids
}

/// The scan is what a plain one with a filter finds, in the same order, in both directions.
fn check(db: &Database, options: &ScanOptions, wanted: impl Fn(&[Value]) -> bool) {
    let mut plain = scan(db, &ScanOptions::index("by_shop"));
    plain.retain(|id| wanted(&row(*id)));
    assert_eq!(scan(db, options), plain, "{options:?}");
    plain.reverse();
    assert_eq!(scan(db, &options.clone().backward()), plain, "{options:?}");
    assert_eq!(scan(db, &options.clone().columns(["id", "day"]).backward()), plain, "key alone");
    let limited = scan(db, &options.clone().backward().limit(3));
    assert_eq!(limited, plain[..plain.len().min(3)]);
    assert_eq!(sorted(scan(db, &options.clone().any_order())), sorted(plain));
}

#[test]
fn conditions_find_what_a_filter_finds() {
    let (_dir, db) = database();
    let day = |day: i32| Value::Int4(day);
    check(&db, &by_shop("day", Condition::Equal(day(77))), |row| row[2] == day(77));
    check(&db, &by_shop("day", Condition::Equal(Value::Null)), |row| row[2].is_null());
    let some = vec![day(1), day(2999), day(5000), day(500), Value::Null];
    let any = by_shop("day", Condition::AnyOf(some.clone()));
    check(&db, &any, |row| some.contains(&row[2]));
    let between = Condition::Between(Bound::Excluded(day(20)), Bound::Included(day(25)));
    let inside = |row: &[Value]| row[2] > day(20) && row[2] <= day(25);
    check(&db, &by_shop("day", between.clone()), |row| !row[2].is_null() && inside(row));
    // Two columns at once, the last one without the one before it, and none of the rows.
    let two = by_shop("day", between).matching("till", Condition::Equal(Value::Int2(1)));
    check(&db, &two, |row| !row[2].is_null() && inside(row) && row[3] == Value::Int2(1));
    check(&db, &by_shop("till", Condition::Equal(Value::Int2(2))), |row| row[3] == Value::Int2(2));
    let start = Condition::StartsWith(b"L".to_vec());
    let lund = by_shop("shop", start).matching("day", Condition::Equal(day(9)));
    check(&db, &lund, |row| row[1] == Value::Text("Lund".into()) && row[2] == day(9));
    check(&db, &by_shop("day", Condition::Equal(day(-1))), |_| false);
    check(&db, &by_shop("day", Condition::AnyOf(Vec::new())), |_| false);
    // Besides bounds on the first column.
    let gent = vec![Value::Text("Gent".into())];
    let bounded = by_shop("day", Condition::Equal(day(9))).equal(gent.clone());
    check(&db, &bounded, |row| row[1] == gent[0] && row[2] == day(9));
}

#[test]
fn few_values_cost_a_few_descents() {
    let (_dir, db) = database();
    let (plain, all) = counting(|| scan(&db, &ScanOptions::index("by_shop")));
    assert!(plain.leaves > 50, "{plain:?}");
    assert_eq!(all.len() as i64, DAYS * SHOPS.len() as i64);
    let shops = SHOPS.len() as u64;
    for options in [ScanOptions::index("by_shop"), ScanOptions::index("by_shop").backward()] {
        let day = options.matching("day", Condition::Equal(Value::Int4(1500)));
        let (cost, ids) = counting(|| scan(&db, &day));
        assert_eq!(ids.len() as u64, shops);
        assert!(cost.leaves <= 2 * shops + 2 && cost.descents <= 2 * shops + 2, "{cost:?}");
    }
    // A list of keys takes each leaf once, and right of it the next one, not a descent each.
    let list = ScanOptions {
        any_of: (0..1000).map(|id| vec![Value::Int8(id * 3)]).collect(),
        ..ScanOptions::index("sales_pkey")
    };
    let (cost, ids) = counting(|| scan(&db, &list.clone().columns(["id"])));
    assert_eq!(ids, (0..1000).map(|id| id * 3).collect::<Vec<_>>());
    assert!(cost.leaves < 20 && cost.descents < 8, "{cost:?}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let (_dir, db) = database();
    let mut txn = db.begin();
    let day = || Condition::Equal(Value::Int4(1));
    let null = Bound::Included(Value::Null);
    for options in [
        ScanOptions::all().matching("day", day()),
        ScanOptions::index("sales_pkey").matching("day", day()),
        by_shop("day", Condition::Equal(Value::Int8(1))),
        by_shop("day", day()).matching("day", day()),
        by_shop("day", Condition::Between(null, Bound::Unbounded)),
        by_shop("day", Condition::StartsWith(b"1".to_vec())),
        ScanOptions { any_of: vec![vec![Value::Null]], ..by_shop("day", day()) },
    ] {
        let refused = txn.scan("sales", &options).map(|_| ());
        let refused = refused.expect_err("it makes no sense");
        assert!(matches!(refused, rightlink::Error::Invalid(_)), "{options:?}: {refused}");
    }
}

/// A text that is too long for a key of the index is a bound like any other, and equal to none.
#[test]
fn bounds_that_are_too_long_for_a_key_are_met() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let schema = TableSchema::new("sales")
        .column("id", Type::Int8)
        .column("name", Type::Text)
        .primary_key(["id"])
        .index(IndexSchema::new("up").on("name").unique())
        .index(IndexSchema::new("down").on_desc("name").on("id"))
        .index(IndexSchema::new("hash").on("name").method(IndexMethod::Hash));
    let name = |id: i64| Value::Text(format!("{id:04}"));
    let mut txn = db.begin();
    txn.create_table(&schema).unwrap();
    let rows: Vec<_> = (0..2000).map(|id| vec![Value::Int8(id), name(id)]).collect();
    txn.insert_many("sales", &rows).unwrap();
    txn.commit().unwrap();
    let long = Value::Text("1234".to_owned() + &"x".repeat(5000));
    let found = |options: ScanOptions| {
        let there = scan(&db, &options);
        let mut back = scan(&db, &options.backward());
        back.reverse();
        assert_eq!(there, back);
        there
    };
    for index in ["up", "down", "hash"] {
        let options = ScanOptions::index(index).equal(vec![long.clone()]);
        assert!(scan(&db, &options).is_empty(), "{index}");
        let mut options = ScanOptions::index(index);
        options.any_of = vec![vec![name(7)], vec![long.clone()], vec![name(9)]];
        assert_eq!(sorted(scan(&db, &options)), [7, 9], "{index}");
    }
    let after: Vec<i64> = (1235..2000).collect();
    let before: Vec<i64> = (0..=1234).collect();
    for bound in [Bound::Included(vec![long.clone()]), Bound::Excluded(vec![long.clone()])] {
        let mut options = ScanOptions::index("up");
        options.from = bound.clone();
        assert_eq!(found(options), after);
        let mut options = ScanOptions::index("up");
        options.to = bound.clone();
        assert_eq!(found(options), before);
        let mut options = ScanOptions::index("down");
        options.from = bound.clone();
        assert_eq!(sorted(found(options)), before);
        let mut options = ScanOptions::index("down");
        options.to = bound;
        assert_eq!(sorted(found(options)), after);
    }
    let between = Condition::Between(Bound::Excluded(long.clone()), Bound::Unbounded);
    assert_eq!(found(ScanOptions::index("up").matching("name", between)), after);
    let mut txn = db.begin();
    assert!(txn.get_by("sales", "up", &[long]).unwrap().is_none());
    drop(txn);
    assert!(db.verify().unwrap().is_clean());
}
