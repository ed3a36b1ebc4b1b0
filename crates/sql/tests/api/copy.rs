//! COPY as a server drives it: data in pieces, lines and their ends, binary rows, rules for rows,
//! what a COPY that fails leaves.

use crate::asked::{one, open};
use rightlink_sql::{
    Activity, Column, CopyFormat, CopyHeader, Datum, Result, Row, Session, Sink, Who,
};

#[derive(Default)]
struct Gather {
    tags: Vec<String>,
    header: Option<CopyHeader>,
    data: Vec<u8>,
}

impl Sink for Gather {
    fn columns(&mut self, _: &[Column]) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, _: Row) -> Result<()> {
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
    // What is always quoted is an option of writing.
    let format = format.trim_end_matches(", force_quote *");
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

/// What a COPY of `data` into an empty table of two columns leaves there, or its SQLSTATE.
fn loaded(options: &str, data: &str) -> String {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table t (a int, b text)").unwrap();
    session.run(&format!("copy t from stdin ({options})"), &mut Gather::default()).unwrap();
    let result = session.copy_data(data.as_bytes()).and_then(|()| session.copy_done());
    let found = match result {
        Ok(_) => one(&mut session, "select string_agg(a || ':' || b, ' ') from t"),
        Err(error) => error.sqlstate.to_owned(),
    };
    drop(session);
    assert!(db.verify().unwrap().is_clean());
    found
}

#[test]
fn the_mark_at_the_end_is_read_as_postgresql_does() {
    for (data, found) in [
        ("1\tx\\.z\n", "22P04"),
        ("1\t\\.z\n", "22P04"),
        ("\\.z\n", "22P04"),
        ("1\tx\\\\.z\n", "1:x\\.z"),
        ("1\tx\\.\n2\ty\n", "1:x"),
        ("1\tx\n\\.\n2\ty\n", "1:x"),
    ] {
        assert_eq!(loaded("format text", data), found, "{data:?}");
    }
    for (data, found) in [
        ("1,\\.z\n", "1:\\.z"),
        ("1,\\.\n", "1:\\."),
        ("1,x\\.\n2,y\n", "1:x\\. 2:y"),
        ("1,x\n\\.\n2,y\n", "1:x"),
    ] {
        assert_eq!(loaded("format csv", data), found, "{data:?}");
    }
}

#[test]
fn a_header_that_must_match_is_compared_with_the_columns() {
    for (options, data, found) in [
        ("format csv, header match", "a,b\n1,x\n", "1:x"),
        ("format csv, header match", "\"a\",b\n1,x\n", "1:x"),
        ("format csv, header match", "b,a\n1,x\n", "22P04"),
        ("format csv, header match", "A,b\n1,x\n", "22P04"),
        ("format csv, header match", "a\n1,x\n", "22P04"),
        ("format csv, header match", "a,b,c\n1,x\n", "22P04"),
        ("format csv, header match", "a,\n1,x\n", "22P04"),
        ("format csv, header match", "", "22P04"),
        ("format text, header match", "a\tb\n1\tx\n", "1:x"),
        ("format text, header match", "a\t\\N\n1\tx\n", "22P04"),
        ("format csv, header", "z\n1,x\n", "1:x"),
    ] {
        assert_eq!(loaded(options, data), found, "{options} {data:?}");
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

/// Lines end as the first one does, in pieces of any size; an end that is data is quoted.
#[test]
fn copy_takes_lines_that_end_alike() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table t (a text, b text)").unwrap();
    for (format, data, found) in [
        ("text", "1\t2\n3\t4\r\n", Err("22P04")),
        ("text", "1\t2\r\n3\t4\n", Err("22P04")),
        ("text", "1\t2\r\n3\t4\r5\t6\r\n", Err("22P04")),
        ("text", "1\t2\r\n3\t4\r\n", Ok("1|2 3|4")),
        ("text", "1\t2\r\n3\t4", Ok("1|2 3|4")),
        ("text", "1\t2\n3\t4", Ok("1|2 3|4")),
        ("text", "1\t2\r3\t4\r", Ok("1|2 3|4")),
        ("text", "1\t2\r3\t4\r\n", Err("22P04")),
        ("text", "1\t2\\\r\n3\t4\\\n\n", Ok("1|2\r 3|4\n")),
        ("text", "1\t2\\r\n", Ok("1|2\r")),
        ("text", "1\t\\000\n", Err("22021")),
        ("text", "1\t\0\n", Err("22021")),
        ("csv", "1,2\n3,4\r\n", Err("22P04")),
        ("csv", "1,2\r\n3,4\n", Err("22P04")),
        ("csv", "1,2\r\n3,4", Ok("1|2 3|4")),
        ("csv", "1,\"2\r\n\"\n3,\"\r\"\n", Ok("1|2\r\n 3|\r")),
        ("csv", "1,\0\n", Err("22021")),
        ("csv, header", "a,b\r\n1,2\r\n\\.\r\nrest", Ok("1|2")),
        ("csv, escape '\\'", "1,\"2\\\"\n\"\n3,\"\\\\\"\n", Ok("1|2\"\n 3|\\")),
    ] {
        for pieces in [1, 2, 3, 1_000] {
            session.execute("truncate t").unwrap();
            let copy = format!("copy t from stdin (format {format})");
            session.run(&copy, &mut Gather::default()).unwrap();
            let mut pieces_of = data.as_bytes().chunks(pieces);
            let result = pieces_of.try_for_each(|piece| session.copy_data(piece));
            let result = result.and_then(|()| session.copy_done());
            let stored = match &result {
                Ok(_) => Ok(one(&mut session, "select * from t")),
                Err(error) => Err(error.sqlstate),
            };
            assert_eq!(stored, found.map(str::to_owned), "{data:?} in pieces of {pieces}");
        }
    }
}

/// A piece of many rows, and rows of many pieces.
#[test]
fn copy_takes_many_rows_in_a_piece_and_many_pieces_in_a_row() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table t (a text, b bytea)").unwrap();
    let long = "x".repeat(300_000);
    let insert = format!("insert into t values ('{long}', null), ('', ''), (null, 'abc')");
    session.execute(&insert).unwrap();
    let mut out = Gather::default();
    session.run("copy t to stdout (format binary)", &mut out).unwrap();
    session.run("copy t from stdin (format binary)", &mut Gather::default()).unwrap();
    out.data.chunks(10).try_for_each(|piece| session.copy_data(piece)).unwrap();
    assert_eq!(session.copy_done().unwrap(), "COPY 3");
    let sizes = "select length(a), length(b), count(*) from t group by 1, 2 order by 1";
    assert_eq!(one(&mut session, sizes), "0|0|2 300000|NULL|2 NULL|3|2");
    session.execute("truncate t").unwrap();
    session.run("copy t (a) from stdin", &mut Gather::default()).unwrap();
    session.copy_data("\n".repeat(20_000).as_bytes()).unwrap();
    assert_eq!(session.copy_done().unwrap(), "COPY 20000");
    // A row after one that is wrong is not looked at.
    session.run("copy t from stdin", &mut Gather::default()).unwrap();
    assert!(session.copy_data(b"1\t2\t3\n\0\0\n").unwrap_err().sqlstate == "22P04");
    assert_eq!(one(&mut session, "select count(*) from t"), "20000");
    drop(session);
    assert!(db.verify().unwrap().is_clean());
}

/// What COPY brings is held to the same rules as what INSERT brings.
#[test]
fn copied_rows_meet_defaults_lengths_checks_and_foreign_keys() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table p (a int primary key, up int references p)").unwrap();
    let child = "create table c (id serial, a int references p, s char(3) check (s <> 'bad'), \
                 n int default 7)";
    session.execute(child).unwrap();
    let mut copy = |table: &str, data: &str| {
        session.run(&format!("copy {table} from stdin"), &mut Gather::default()).unwrap();
        session.copy_data(data.as_bytes()).and_then(|()| session.copy_done())
    };
    // A later row may be the parent of an earlier one.
    assert_eq!(copy("p", "1\t2\n2\t\\N\n").unwrap(), "COPY 2");
    assert_eq!(copy("p", "3\t9\n").unwrap_err().sqlstate, "23503");
    assert_eq!(copy("c (a, s)", "1\tab \n2\tx\n").unwrap(), "COPY 2");
    assert_eq!(copy("c (a, s)", "5\tx\n").unwrap_err().sqlstate, "23503");
    assert_eq!(copy("c (a, s)", "1\tbad\n").unwrap_err().sqlstate, "23514");
    assert_eq!(copy("c (a, s)", "1\tlong\n").unwrap_err().sqlstate, "22001");
    let rows = session.execute("select id, a, s, n from c order by id").unwrap().remove(0).rows;
    let shown = |row: &Vec<Datum>| {
        row.iter().map(|d| d.to_text().unwrap_or_default()).collect::<Vec<_>>().join("|")
    };
    assert_eq!(rows.iter().map(shown).collect::<Vec<_>>(), ["1|1|ab |7", "2|2|x  |7"]);
}

#[test]
fn a_copy_that_takes_too_long_is_told_so() {
    let (_dir, db) = open();
    let activity = Activity::default();
    let who = |pid| Who { pid, ..Who::default() };
    let mut session = Session::new(&db).join(&activity, who(1));
    let mut looker = Session::new(&db).join(&activity, who(2));
    session.execute("create table t (a int); set statement_timeout = 1").unwrap();
    session.run("copy t from stdin", &mut Gather::default()).unwrap();
    let state = "select state from pg_stat_activity where pid = 1";
    assert_eq!(one(&mut looker, state), "active");
    let error = loop {
        // Whatever the clock says of the first pieces.
        if let Err(error) = session.copy_data("1\n".repeat(10_000).as_bytes()) {
            break error;
        }
    };
    assert_eq!(error.sqlstate, "57014");
    assert!(error.message.contains("statement timeout"), "{error}");
    assert_eq!(one(&mut looker, state), "idle");
    assert!(!session.is_copying());
    session.execute("set statement_timeout = 0").unwrap();
    assert_eq!(one(&mut session, "select count(*) from t"), "0");
}
