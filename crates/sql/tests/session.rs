//! What a server asks of a session: prepared statements with inferred parameters, portals with row
//! limits, COPY in pieces, two sessions at once, kept plans when tables change.

use rightlink::Database;
use rightlink_sql::{
    Column, CopyFormat, CopyHeader, Datum, Execution, Result, Row, Session, Sink, SqlType,
    TransactionStatus,
};

fn open() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    (dir, db)
}

#[derive(Default)]
struct Gather {
    rows: Vec<Row>,
    tags: Vec<String>,
    header: Option<CopyHeader>,
    data: Vec<u8>,
}

impl Sink for Gather {
    fn columns(&mut self, _: &[Column]) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, row: Row) -> Result<()> {
        self.rows.push(row);
        Ok(())
    }

    fn complete(&mut self, tag: &str) -> Result<()> {
        self.tags.push(tag.to_owned());
        Ok(())
    }

    fn notice(&mut self, _: &str, _: &str) {}

    fn copy_in(&mut self, header: CopyHeader) -> Result<()> {
        self.header = Some(header);
        Ok(())
    }

    fn copy_out(&mut self, header: CopyHeader) -> Result<()> {
        self.header = Some(header);
        Ok(())
    }

    fn copy_data(&mut self, bytes: &[u8]) -> Result<()> {
        self.data.extend_from_slice(bytes);
        Ok(())
    }
}

fn one(session: &mut Session, sql: &str) -> String {
    let outcomes = session.execute(sql).unwrap();
    let rows = outcomes.last().unwrap().rows.iter();
    let text = |value: &Datum| value.to_text().unwrap_or_else(|| "NULL".into());
    let lines: Vec<String> =
        rows.map(|row| row.iter().map(text).collect::<Vec<_>>().join("|")).collect();
    lines.join(" ")
}

#[test]
fn types_of_parameters_are_inferred() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table t (a bigint primary key, b text, c float4)").unwrap();
    let mut types = |sql: &str| session.prepare("", sql, &[]).map(|d| d.parameters);
    use SqlType as T;
    assert_eq!(types("select * from t where a = $1 and b like $2").unwrap(), [T::Int8, T::Text]);
    assert_eq!(types("insert into t values ($1, $2, $3)").unwrap(), [T::Int8, T::Text, T::Float4]);
    assert_eq!(
        types("update t set c = c + $1 where a in ($2, $3)").unwrap(),
        [T::Float4, T::Int8, T::Int8]
    );
    assert_eq!(types("select $1::date + $2").unwrap_err().sqlstate, "42725");
    assert_eq!(types("select a from t limit $1").unwrap(), [T::Int8]);
    assert_eq!(types("select $2::int").unwrap_err().sqlstate, "42P18");
    let columns = session.prepare("n", "select a, b as x from t", &[]).unwrap().columns.unwrap();
    assert_eq!(columns[1], Column { name: "x".into(), ty: T::Text });
    assert_eq!(session.prepare("n", "select 1", &[]).unwrap_err().sqlstate, "42P05");
}

#[test]
fn a_portal_hands_out_rows_in_portions() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table t (a int primary key)").unwrap();
    session.execute("insert into t select g from generate_series(1, 10) g").unwrap();
    session.prepare("s", "select a from t where a > $1 order by a", &[]).unwrap();
    session.bind("p", "s", vec![Datum::Int8(3)]).unwrap();
    let mut sink = Gather::default();
    assert_eq!(session.execute_portal("p", 4, &mut sink).unwrap(), Execution::Suspended);
    assert_eq!(sink.rows.len(), 4);
    // Another writer does not disturb it.
    Session::new(&db).execute("delete from t").unwrap();
    let done = session.execute_portal("p", 0, &mut sink).unwrap();
    assert_eq!((done, sink.rows.len()), (Execution::Complete("SELECT 3".into()), 7));
    session.sync().unwrap();
    assert_eq!(session.execute_portal("p", 0, &mut sink).unwrap_err().sqlstate, "34000");
    session.bind("", "s", Vec::new()).unwrap_err();
    session.bind("", "s", vec![Datum::Null]).unwrap();
    let mut sink = Gather::default();
    assert_eq!(
        session.execute_portal("", 0, &mut sink).unwrap(),
        Execution::Complete("SELECT 0".into())
    );
    session.sync().unwrap();
    assert_eq!(session.status(), TransactionStatus::Idle);
}

#[test]
fn a_kept_plan_follows_its_table() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table t (a int, b int)").unwrap();
    session.execute("insert into t select g, g % 10 from generate_series(1, 5000) g").unwrap();
    session.execute("prepare p as select count(*) from t where b = 3").unwrap();
    session.execute("prepare all_of as select * from t limit 1").unwrap();
    for _ in 0..2 {
        assert_eq!(one(&mut session, "execute p"), "500");
        assert_eq!(one(&mut session, "select count(*) from t where b = 3"), "500");
    }
    let mut other = Session::new(&db);
    other.execute("create index t_b on t (b)").unwrap();
    assert_eq!(one(&mut session, "execute p"), "500");
    assert_eq!(one(&mut session, "select count(*) from t where b = 3"), "500");
    other.execute("drop index t_b").unwrap();
    other.execute("alter table t add column c int").unwrap();
    assert_eq!(one(&mut session, "execute p"), "500");
    let error = session.execute("execute all_of").unwrap_err();
    assert_eq!(
        (error.sqlstate, error.message.as_str()),
        ("0A000", "cached plan must not change result type")
    );
    other.execute("drop table t").unwrap();
    assert_eq!(
        session.execute("select count(*) from t where b = 3").unwrap_err().sqlstate,
        "42P01"
    );
    assert!(db.verify().unwrap().is_clean());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a rival in a thread of its own, in a test")]
fn read_committed_judges_a_changed_row_again() {
    let (_dir, db) = open();
    let mut first = Session::new(&db);
    first.execute("create table t (a int primary key, b int)").unwrap();
    first.execute("insert into t values (1, 10), (2, 20)").unwrap();
    first.execute("begin; update t set b = b + 1 where a = 1").unwrap();
    let waiting = {
        let db = db.clone();
        std::thread::spawn(move || {
            let mut second = Session::new(&db);
            let added = second.execute("update t set b = b + 100 where a = 1 returning b");
            let skipped = second.execute("delete from t where b = 20");
            (added.map(|o| o[0].rows.clone()), skipped.map(|o| o[0].tag.clone()))
        })
    };
    std::thread::sleep(std::time::Duration::from_millis(200));
    first.execute("update t set b = 21 where a = 2").unwrap();
    first.execute("commit").unwrap();
    let (added, skipped) = waiting.join().unwrap();
    assert_eq!(added.unwrap(), [[Datum::Int4(111)]], "no update is lost");
    assert_eq!(skipped.unwrap(), "DELETE 0", "the row is not 20 any more");
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn repeatable_read_gives_up_on_a_changed_row() {
    let (_dir, db) = open();
    let (mut first, mut second) = (Session::new(&db), Session::new(&db));
    first
        .execute("create table t (a int primary key, b int); insert into t values (1, 1)")
        .unwrap();
    first.execute("begin isolation level repeatable read").unwrap();
    assert_eq!(one(&mut first, "select b from t"), "1");
    second.execute("update t set b = 2").unwrap();
    assert_eq!(one(&mut first, "select b from t"), "1");
    let error = first.execute("update t set b = 3").unwrap_err();
    assert_eq!(error.sqlstate, "40001");
    assert!(error.is_retryable());
    assert_eq!(first.status(), TransactionStatus::Failed);
    assert_eq!(first.execute("commit").unwrap()[0].tag, "ROLLBACK");
    assert_eq!(one(&mut first, "select b from t"), "2");
}

#[test]
fn a_lock_is_waited_for_no_longer_than_said() {
    let (_dir, db) = open();
    let (mut first, mut second) = (Session::new(&db), Session::new(&db));
    first.execute("create table t (a int primary key); insert into t values (1)").unwrap();
    first.execute("begin; select * from t for update").unwrap();
    second.execute("set lock_timeout = '50ms'").unwrap();
    assert_eq!(second.execute("delete from t").unwrap_err().sqlstate, "55P03");
    first.execute("rollback").unwrap();
    assert_eq!(second.execute("delete from t").unwrap()[0].tag, "DELETE 1");
}

#[test]
fn a_statement_that_takes_too_long_is_ended() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table t (a int)").unwrap();
    session.execute("insert into t select g from generate_series(1, 200000) g").unwrap();
    session.execute("set statement_timeout = 1").unwrap();
    let error = session.execute("select count(*) from t where md5(a::text) = 'x'").unwrap_err();
    assert_eq!(error.sqlstate, "57014");
    session.execute("set statement_timeout = 0").unwrap();
    assert_eq!(one(&mut session, "select count(*) from t"), "200000");
}

#[test]
fn memory_is_bounded_by_the_budget() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().memory(16 << 20).open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    let error = session
        .execute("select repeat('x', 1000) || g as t from generate_series(1, 100000) g order by t")
        .unwrap_err();
    assert_eq!(error.sqlstate, "53200");
    // The same rows without a sort, and the first of them with one, need no memory.
    assert_eq!(one(&mut session, "select count(*) from generate_series(1, 100000)"), "100000");
    assert_eq!(
        one(&mut session, "select g from generate_series(1, 100000) g order by g desc limit 1"),
        "100000"
    );
}

const ROWS: &str = "1\tone\t1.5\n2\t\\N\t-2\n3\ttab\\there\\\\and\\nline\t\\N\n";

fn copied(format: &str, pieces: usize) -> (Session, tempfile::TempDir, Vec<u8>) {
    let (dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table t (a int primary key, b text, c float8)").unwrap();
    let mut sink = Gather::default();
    session.run("copy t from stdin", &mut sink).unwrap();
    assert_eq!(sink.header, Some(CopyHeader { format: CopyFormat::Text, columns: 3 }));
    session.copy_data(ROWS.as_bytes()).unwrap();
    assert_eq!(session.copy_done().unwrap(), "COPY 3");
    let mut out = Gather::default();
    session.run(&format!("copy t to stdout ({format})"), &mut out).unwrap();
    assert_eq!(out.tags, ["COPY 3"]);
    session.execute("truncate t").unwrap();
    session.run(&format!("copy t from stdin ({format})"), &mut Gather::default()).unwrap();
    for piece in out.data.chunks(pieces) {
        session.copy_data(piece).unwrap();
    }
    assert_eq!(session.copy_done().unwrap(), "COPY 3");
    (session, dir, out.data)
}

#[test]
fn copy_reads_what_it_writes_in_pieces_of_any_size() {
    for format in
        ["format text", "format csv, header", "format csv, force_quote *", "format binary"]
    {
        for pieces in [1, 2, 7, 100_000] {
            let (mut session, _dir, data) = copied(format, pieces);
            let mut again = Gather::default();
            session.run(&format!("copy t to stdout ({format})"), &mut again).unwrap();
            assert_eq!(again.data, data, "{format} in pieces of {pieces}");
            if format == "format text" {
                assert_eq!(String::from_utf8(data).unwrap(), ROWS);
            }
            assert!(session.database().verify().unwrap().is_clean());
        }
    }
}

#[test]
fn copy_that_fails_leaves_nothing() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table t (a int primary key, b text not null)").unwrap();
    for (data, sqlstate) in [
        ("1\tx\n2\n", "22P04"),
        ("1\tx\ty\n", "22P04"),
        ("1\tx\nz\ty\n", "22P02"),
        ("1\tx\n1\ty\n", "23505"),
        ("1\t\\N\n", "23502"),
    ] {
        session.run("copy t from stdin with (freeze on)", &mut Gather::default()).unwrap();
        let result = session.copy_data(data.as_bytes()).and_then(|()| session.copy_done());
        assert_eq!(result.unwrap_err().sqlstate, sqlstate, "{data:?}");
        assert!(!session.is_copying());
        assert_eq!(one(&mut session, "select count(*) from t"), "0", "{data:?}");
    }
    session.run("copy t (b, a) from stdin csv", &mut Gather::default()).unwrap();
    session.copy_data(b"\"a \"\"quoted\"\" one\",1\r\n\\.\r\nignored").unwrap();
    assert_eq!(session.copy_done().unwrap(), "COPY 1");
    assert_eq!(one(&mut session, "select * from t"), "1|a \"quoted\" one");
    session.run("copy t from stdin", &mut Gather::default()).unwrap();
    session.copy_data(b"2\tx\n").unwrap();
    assert_eq!(session.copy_fail("changed my mind").sqlstate, "57014");
    assert_eq!(one(&mut session, "select count(*) from t"), "1");
}
