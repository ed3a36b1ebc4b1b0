//! Arrays where other kinds of values have paths of their own: keys of an index, memory, plans that
//! are kept, values of parameters from programs.

use rightlink::Database;
use rightlink_sql::{Array, Datum, ElementType, Session, SqlType};

fn with_table(session: &mut Session) {
    session.execute("create table t (id int primary key, c char(3), a int[])").unwrap();
    session
        .execute("insert into t select g, g % 9, array[g, g + 1] from generate_series(1, 5000) g")
        .unwrap();
    session.execute("create index on t (c)").unwrap();
    session.execute("analyze t").unwrap();
}

fn integers(values: &[i32]) -> Datum {
    let element = ElementType::of(SqlType::Int4).unwrap();
    Array::of(element, values.iter().copied().map(Datum::Int4).collect()).unwrap().into()
}

fn first_line(session: &mut Session, sql: &str) -> String {
    let outcome = session.execute(&format!("explain {sql}")).unwrap();
    outcome[0].rows[0][0].to_text().unwrap()
}

/// The elements of a parameter are keys of an index scan, and each execution has its own.
#[test]
fn an_array_of_keys_is_looked_up_in_an_index() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    with_table(&mut session);
    let plan = first_line(&mut session, "select id from t where id = any('{3,5}')");
    assert!(plan.starts_with("Index"), "{plan}");
    session.prepare("s", "select id from t where id = any($1) order by id", &[]).unwrap();
    session.sync().unwrap();
    let sum = "select sum(id) from t where id = any($1)";
    for (keys, wanted) in [
        (integers(&[3, 5, 3, 5001]), Some("8")),
        (integers(&[]), None),
        (integers(&[9]), Some("9")),
        (Datum::Null, None),
    ] {
        let outcome = session.execute_with(sum, vec![keys]).unwrap();
        assert_eq!(outcome.rows[0][0].to_text().as_deref(), wanted);
    }
    let count = |session: &mut Session, sql: &str, value: Datum| {
        session.execute_with(sql, vec![value]).unwrap().rows[0][0].to_text().unwrap()
    };
    let blanks = "select count(*) from t where c = any($1)";
    let texts = Datum::from_text(SqlType::array_of(SqlType::Bpchar).unwrap(), "{\"1  \",2}");
    assert_eq!(count(&mut session, blanks, texts.unwrap()), "1112");
    let within = "select count(*) from t where a && $1";
    assert_eq!(count(&mut session, within, integers(&[7, 100])), "4");
}

/// What a program puts into a column comes back, whatever the shape.
#[test]
fn arrays_of_any_shape_are_stored_and_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    let types = "bool smallint int bigint real float8 numeric text varchar(9) char(4) bytea uuid \
                 date timestamp timestamptz interval";
    let values = [
        "{t,f,NULL}",
        "{}",
        "[-1:0]={1,2}",
        "{{1,2},{3,4},{5,6}}",
        "{1.5,NaN,-Infinity}",
        "{1e-300,2}",
        "{1.500,-0.001,100000000000000000000}",
        "{\"\",a,\"NULL\",NULL,\"b,c\",\"{\",\"\\\"\",\"\\\\\"}",
        "{ab,c}",
        "{\"ab  \",\"    \"}",
        "{\"\\\\x00ff\",\"\\\\x\"}",
        "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
        "{2020-02-29,-infinity}",
        "{\"2020-02-29 10:00:00.5\"}",
        "{\"2020-02-29 10:00:00+00\"}",
        "{\"1 mon 2 days 00:00:03\",00:00:00}",
    ];
    for (number, (ty, value)) in types.split_whitespace().zip(values).enumerate() {
        session.execute(&format!("create table t{number} (id int, v {ty}[])")).unwrap();
        let quoted = value.replace('\'', "''");
        session.execute(&format!("insert into t{number} values (1, '{quoted}')")).unwrap();
        session.execute(&format!("insert into t{number} select 2, v from t{number}")).unwrap();
        let same = format!(
            "select a.v, count(*) over () from t{number} a join t{number} b on a.v = b.v \
             where a.v <= b.v and a.v is not null"
        );
        let rows = &session.execute(&same).unwrap()[0].rows;
        assert_eq!(rows.len(), 4, "{ty}");
        assert_eq!(rows[0][0].to_text().as_deref(), Some(value), "{ty}");
    }
    drop(session);
    assert!(db.verify().unwrap().is_clean());
}
