//! Structs as rows, through the derived `Record`.

use rightlink::{
    AlterTable, Collation, ColumnDefault, ColumnSchema, Database, Date, Decimal, Error,
    IndexMethod, Interval, Json, KeyCollation, Predicate, Record, ScanOptions, TableSchema, Time,
    Timestamp, TimestampTz, Type, Value,
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
    txn.alter_table(
        "legs",
        AlterTable::AddColumn(&ColumnSchema::new("more", Type::Text).nullable()),
    )
    .unwrap();
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
    txn.alter_table("legs", AlterTable::DropColumn("tail")).unwrap();
    let error = txn.get_record::<FlightLeg>(&key).unwrap_err();
    assert!(matches!(&error, Error::NotFound(what) if what.contains("tail")), "{error}");
    txn.commit().unwrap();
    close(&db);
}

/// What attributes can say of columns and indexes beyond names and keys.
#[derive(Record, Clone, PartialEq, Debug)]
#[rightlink(table = "people", unlogged)]
#[rightlink(index(
    name = "adults",
    on(name),
    include(age, city),
    where(age >= 18, city is not null)
))]
#[rightlink(index(name = "by_city", on(city bytes, name desc collate("sv"))))]
#[rightlink(index(name = "one_code", on(code), unique_nulls, where(code != "", name < "zz")))]
struct Person {
    #[rightlink(primary_key, generated(always))]
    id: i64,
    #[rightlink(collate = "de-DE")]
    name: String,
    #[rightlink(check(0..=150), default = 30)]
    age: Option<i16>,
    #[rightlink(collate("und-u-ks-level2", nondeterministic), column = "city")]
    town: Option<String>,
    #[rightlink(check(..100), default = -1)]
    score: i32,
    #[rightlink(check("a"..="n"), default = "d")]
    code: Option<String>,
    #[rightlink(default(uuid))]
    token: [u8; 16],
    #[rightlink(default(now))]
    since: Timestamp,
    #[rightlink(check(Date(0)..))]
    born: Date,
    #[rightlink(generated)]
    number: i32,
}

fn person(id: i64, name: &str, age: Option<i16>, town: Option<&str>) -> Person {
    Person {
        id,
        name: name.into(),
        age,
        town: town.map(str::to_owned),
        score: 7,
        code: Some(name[..1].to_lowercase()),
        token: [1; 16],
        since: Timestamp(5),
        born: Date(9),
        number: id as i32,
    }
}

#[test]
fn attributes_make_the_schema_that_one_writes_by_hand() {
    use rightlink::{Comparison, IndexSchema, KeyColumn};
    let collation = |locale: &str, strict| Collation::new(locale, strict).unwrap();
    let text = |text: &str| Value::Text(text.into());
    let column = |name: &str, ty| ColumnSchema::new(name, ty);
    let constant = ColumnDefault::Value;
    let adults = Predicate::new().at_least("age", Value::Int2(18)).not_null("city");
    let codes = Predicate::new().compare("code", Comparison::NotEqual, text("")).compare(
        "name",
        Comparison::Less,
        text("zz"),
    );
    let city = KeyColumn { collation: KeyCollation::Bytes, ..KeyColumn::ascending("city") };
    let by_hand = TableSchema::new("people")
        .with_column(column("id", Type::Int8).generated_always())
        .with_column(column("name", Type::Text).collate(&collation("de-DE", true)))
        .with_column(column("age", Type::Int2).nullable().default(constant(Value::Int2(30))))
        .with_column(
            column("city", Type::Text).nullable().collate(&collation("und-u-ks-level2", false)),
        )
        .with_column(column("score", Type::Int4).default(constant(Value::Int4(-1))))
        .with_column(column("code", Type::Text).nullable().default(constant(text("d"))))
        .with_column(column("token", Type::Uuid).default(ColumnDefault::RandomUuid))
        .with_column(column("since", Type::Timestamp).default(ColumnDefault::Now))
        .column("born", Type::Date)
        .with_column(column("number", Type::Int4).generated())
        .primary_key(["id"])
        .index(IndexSchema::new("adults").on("name").include(["age", "city"]).only(adults))
        .index(
            IndexSchema::new("by_city")
                .key(city)
                .key(KeyColumn::descending("name").collate(&collation("sv", true))),
        )
        .index(IndexSchema::new("one_code").on("code").unique_nulls().only(codes))
        .check(
            "people_age_check",
            Predicate::new().between("age", Value::Int2(0), Value::Int2(150)),
        )
        .check(
            "people_score_check",
            Predicate::new().compare("score", Comparison::Less, Value::Int4(100)),
        )
        .check("people_code_check", Predicate::new().between("code", text("a"), text("n")))
        .check("people_born_check", Predicate::new().at_least("born", Value::Date(0)))
        .unlogged();
    assert_eq!(Person::schema(), by_hand);
}

#[test]
fn what_attributes_say_is_kept() {
    let (_dir, db) = database();
    let mut txn = db.begin();
    txn.create_table(&Person::schema()).unwrap();
    // Numbers are the store's, whatever records have.
    let given =
        [person(70, "Anna", Some(40), Some("Bonn")), person(70, "bo", Some(17), Some("BONN"))];
    txn.insert_records(given).unwrap();
    let first = person(1, "Anna", Some(40), Some("Bonn"));
    let by_id = |txn: &mut rightlink::Transaction, id| {
        txn.get_record::<Person>(&[Value::Int8(id)]).unwrap().unwrap()
    };
    let (row, found) = by_id(&mut txn, 1);
    assert_eq!(found, first);
    let first = Person { code: Some("c".into()), ..first };
    assert!(txn.update_record(row, Person { id: 99, number: 99, ..first.clone() }).unwrap());
    assert_eq!(by_id(&mut txn, 1).1, first);
    // Defaults come to inserts that do not name their columns.
    let named = [Value::Text("Cleo".into()), Value::Null, Value::Date(9)];
    txn.insert_into("people").columns(&["name", "city", "born"]).rows(&[named.to_vec()]).unwrap();
    let (_, cleo) = by_id(&mut txn, 3);
    assert_eq!((cleo.age, cleo.score, cleo.code.as_deref()), (Some(30), -1, Some("d")));
    assert_ne!(cleo.token, [0; 16]);
    assert!(cleo.since > Timestamp(0));
    // The collations and conditions of indexes.
    let names = |txn: &mut rightlink::Transaction, options: &ScanOptions| -> Vec<String> {
        txn.records::<Person>(options).unwrap().map(|found| found.unwrap().1.name).collect()
    };
    assert_eq!(names(&mut txn, &ScanOptions::index("adults")), ["Anna"]);
    let bonn = ScanOptions::index("by_city").equal(vec![Value::Text("Bonn".into())]);
    assert_eq!(names(&mut txn, &bonn), ["Anna"], "by its bytes");
    txn.commit().unwrap();
    close(&db);
}

#[test]
fn checks_of_fields_are_kept_at_their_ends() {
    let (_dir, db) = database();
    let mut txn = db.begin();
    txn.create_table(&Person::schema()).unwrap();
    txn.commit().unwrap();
    let base = person(0, "a", None, None);
    let good = [
        Person { age: Some(0), code: Some("n".into()), ..base.clone() },
        Person { age: Some(150), score: 99, ..base.clone() },
        Person { age: None, born: Date(0), code: Some("c".into()), ..base.clone() },
    ];
    let mut txn = db.begin();
    txn.insert_records(good).unwrap();
    txn.commit().unwrap();
    let bad = [
        ("people_age_check", Person { age: Some(-1), ..base.clone() }),
        ("people_age_check", Person { age: Some(151), ..base.clone() }),
        ("people_score_check", Person { score: 100, ..base.clone() }),
        ("people_code_check", Person { code: Some("na".into()), ..base.clone() }),
        ("people_born_check", Person { born: Date(-1), ..base }),
    ];
    for (check, person) in bad {
        let refused = db.begin().insert_records([person]).unwrap_err();
        assert!(refused.to_string().contains(check), "{check}: {refused}");
    }
    close(&db);
}

/// Wrong names are the database's to tell.
#[test]
fn an_unknown_collation_is_refused_when_the_table_is_created() {
    #[derive(Record)]
    struct Odd {
        #[rightlink(collate = "not a locale")]
        name: String,
    }
    let (_dir, db) = database();
    let refused = db.begin().create_table(&Odd::schema()).unwrap_err();
    assert!(matches!(refused, Error::Collation { .. }), "{refused}");
    assert!(refused.to_string().contains("column name of table odd"), "{refused}");
    drop(Odd { name: String::new() });
    close(&db);
}
