//! Structs as rows, through the derived `Record`.

use rightlink::{
    ColumnDefault, ColumnSchema, Database, Date, Decimal, Error, IndexMethod, Interval, Json,
    Record, ScanOptions, Time, Timestamp, TimestampTz, Type, Value,
};

#[derive(Record, Clone, PartialEq, Debug)]
#[rightlink(table = "legs", primary_key(day, number), fillfactor = 90)]
#[rightlink(index(name = "by_tail", on(tail, minutes_late desc nulls_last)))]
#[rightlink(index(name = "by_number", on(number), hash))]
struct FlightLeg {
    number: i32,
    day: Date,
    tail: String,
    #[rightlink(column = "minutes_late")]
    late: Option<i16>,
}

/// One of each type.
#[derive(Record, Clone, PartialEq, Debug)]
#[rightlink(unlogged)]
struct EveryKind {
    #[rightlink(primary_key)]
    int8: i64,
    bool: bool,
    int4: i32,
    float4: f32,
    float8: f64,
    text: String,
    bytes: Vec<u8>,
    uuid: [u8; 16],
    date: Date,
    time: Time,
    timestamp: Timestamp,
    timestamptz: TimestampTz,
    decimal: Decimal,
    interval: Interval,
    json: Json,
    r#type: Option<String>,
}

fn every_kind(int8: i64) -> EveryKind {
    EveryKind {
        int8,
        bool: true,
        int4: -4,
        float4: 0.5,
        float8: -0.25,
        text: "text".into(),
        bytes: vec![0, 255],
        uuid: [7; 16],
        date: Date(4000),
        time: Time(1),
        timestamp: Timestamp(-1),
        timestamptz: TimestampTz(i64::MAX),
        decimal: "12.50".parse().unwrap(),
        interval: Interval { months: 1, days: -2, micros: 3 },
        json: Json("{\"a\": [1]}".into()),
        r#type: None,
    }
}

fn leg(number: i32, tail: &str, late: Option<i16>) -> FlightLeg {
    FlightLeg { number, day: Date(1), tail: tail.into(), late }
}

fn database() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    (dir, db)
}

fn close(db: &Database) {
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}

#[test]
fn the_schema_is_what_the_struct_says() {
    let schema = FlightLeg::schema();
    assert_eq!((schema.name.as_str(), schema.fillfactor, schema.logged), ("legs", 90, true));
    assert_eq!(schema.primary_key, ["day", "number"]);
    let columns: Vec<_> =
        schema.columns.iter().map(|it| (it.name.as_str(), it.kind, it.nullable)).collect();
    assert_eq!(
        columns,
        [
            ("number", Type::Int4, false),
            ("day", Type::Date, false),
            ("tail", Type::Text, false),
            ("minutes_late", Type::Int2, true),
        ]
    );
    let [by_tail, by_number] = &schema.indexes[..] else { panic!("two indexes") };
    assert!(by_tail.columns[1].descending && !by_tail.columns[1].nulls_first);
    assert_eq!(by_number.method, IndexMethod::Hash);
    let other = EveryKind::schema();
    assert_eq!((other.name.as_str(), other.logged), ("every_kind", false));
    assert_eq!(other.primary_key, ["int8"]);
    assert_eq!(other.columns.last().unwrap().name, "type");
}

#[test]
fn records_come_back_as_they_went_in() {
    let (_dir, db) = database();
    let mut txn = db.begin();
    txn.create_table(&FlightLeg::schema()).unwrap();
    txn.create_table(&EveryKind::schema()).unwrap();
    let legs = [leg(1, "N1", Some(5)), leg(2, "N1", None), leg(3, "N2", Some(-3))];
    txn.insert_records(legs.clone()).unwrap();
    txn.insert_records([every_kind(1)]).unwrap();
    txn.commit().unwrap();
    let mut txn = db.begin();
    let all = txn.records::<FlightLeg>(&ScanOptions::index("legs_pkey")).unwrap();
    let all: Vec<_> = all.map(|found| found.unwrap().1).collect();
    assert_eq!(all, legs);
    let by_tail = ScanOptions::index("by_tail").equal(vec![Value::Text("N1".into())]);
    let found = txn.records::<FlightLeg>(&by_tail).unwrap();
    assert_eq!(found.map(|it| it.unwrap().1.number).collect::<Vec<_>>(), [1, 2]);
    let (_, found) = txn.get_record::<EveryKind>(&[Value::Int8(1)]).unwrap().unwrap();
    assert_eq!(found, every_kind(1));
    let key = [Value::Date(1), Value::Int4(3)];
    let (id, mut found) = txn.get_record::<FlightLeg>(&key).unwrap().unwrap();
    found.late = None;
    assert!(txn.update_record(id, found).unwrap());
    let (_, found) = txn.get_record::<FlightLeg>(&key).unwrap().unwrap();
    assert_eq!(found, leg(3, "N2", None));
    txn.commit().unwrap();
    close(&db);
}

/// A table whose columns are in another order and more than the record's.
#[test]
fn columns_are_found_by_name() {
    let (_dir, db) = database();
    let mut txn = db.begin();
    let mut schema = FlightLeg::schema();
    schema.columns.reverse();
    txn.create_table(&schema).unwrap();
    txn.add_column("legs", "more", Type::Text).unwrap();
    txn.insert_records([leg(1, "N1", Some(5))]).unwrap();
    let key = [Value::Date(1), Value::Int4(1)];
    let (id, found) = txn.get_record::<FlightLeg>(&key).unwrap().unwrap();
    assert_eq!(found, leg(1, "N1", Some(5)));
    assert!(txn.update("legs", id, &[("more", Value::Text("kept".into()))]).unwrap());
    assert!(txn.update_record(id, leg(1, "N7", None)).unwrap());
    let row = txn.get("legs", &key).unwrap().unwrap();
    assert_eq!(row.values[4], Value::Text("kept".into()));
    let all = txn.records::<FlightLeg>(&ScanOptions::all()).unwrap();
    assert_eq!(all.map(|it| it.unwrap().1).collect::<Vec<_>>(), [leg(1, "N7", None)]);
    txn.commit().unwrap();
    close(&db);
}

/// Records were filled up with nulls once, past defaults and not-null columns.
#[test]
fn columns_that_the_record_lacks_get_their_defaults() {
    let (_dir, db) = database();
    let mut txn = db.begin();
    let seats = ColumnDefault::Value(Value::Int4(180));
    let schema =
        FlightLeg::schema().with_column(ColumnSchema::new("seats", Type::Int4).default(seats));
    txn.create_table(&schema).unwrap();
    let ids = txn.insert_records([leg(1, "N1", None), leg(2, "N1", Some(1))]).unwrap();
    assert_eq!(ids.len(), 2);
    let rows = txn.scan("legs", &ScanOptions::all()).unwrap();
    let seats: Vec<_> = rows.map(|row| row.unwrap().values[4].clone()).collect();
    assert_eq!(seats, [Value::Int4(180), Value::Int4(180)]);
    txn.commit().unwrap();
    close(&db);
}

#[test]
fn a_table_that_does_not_fit_the_record_is_an_error_that_names_the_column() {
    let (_dir, db) = database();
    let mut txn = db.begin();
    let mut schema = FlightLeg::schema();
    schema.columns[3].kind = Type::Text;
    txn.create_table(&schema).unwrap();
    let refused = txn.insert_records([leg(1, "N1", Some(5))]).unwrap_err();
    assert!(refused.to_string().contains("minutes_late"), "{refused}");
    let row = |late: Value| vec![Value::Int4(1), Value::Date(1), Value::Text("N1".into()), late];
    txn.insert("legs", &row(Value::Text("five".into()))).unwrap();
    let key = [Value::Date(1), Value::Int4(1)];
    let error = txn.get_record::<FlightLeg>(&key).unwrap_err();
    let text = "column minutes_late of table legs: text where the record has int2";
    assert!(matches!(&error, Error::Invalid(what) if what == text), "{error}");
    txn.drop_index("by_tail").unwrap();
    txn.drop_column("legs", "tail").unwrap();
    let error = txn.get_record::<FlightLeg>(&key).unwrap_err();
    assert!(matches!(&error, Error::NotFound(what) if what.contains("tail")), "{error}");
    txn.commit().unwrap();
    close(&db);
}
