//! What a client sees: both protocols, portals, COPY, errors, cancel, timeouts, clients that go
//! away, the end of the server, bytes that are no messages.

use std::io::Write;
use std::time::Duration;

use crate::client::{
    Answer, Client, bind, describe, execute, kinds, message, parse, start, start_with, sync, text,
    told,
};
use rightlink_env::{Clock, Logger};
use rightlink_server::{Config, Server, Users, verifier};

#[test]
fn a_message_of_statements_is_answered_in_order() {
    let server = start();
    let mut client = server.client();
    assert_eq!(
        client.told("create table t (a int primary key, b text); insert into t values (1, 'x')"),
        ["CREATE TABLE", "INSERT 0 1"]
    );
    assert_eq!(client.told("select a, b, null from t"), ["1|x|NULL", "SELECT 1"]);
    assert_eq!(kinds(&client.query("select 1; selec")), "EZ");
    assert_eq!(client.told("insert into t values (1, 'y')"), ["23505"]);
    assert_eq!(client.told(""), ["empty"]);
    assert_eq!(client.told("begin; select 1/0; select 1"), ["BEGIN", "22012"]);
    assert_eq!(client.query("select 1").last().unwrap().body, b"E");
    assert_eq!(client.told("rollback"), ["ROLLBACK"]);
    let told = client.query("set application_name = 'me'");
    assert_eq!(kinds(&told), "CSZ");
    assert_eq!(told[1].body, b"application_name\0me\0");
}

#[test]
fn a_pipeline_is_skipped_from_its_error_to_sync() {
    let server = start();
    let mut client = server.client();
    client.query("create table t (a int primary key)");
    let pipeline = [
        parse("", "insert into t values ($1)"),
        bind("", "", &["1"]),
        execute("", 0),
        bind("", "", &["one"]),
        execute("", 0),
        sync(),
        parse("s", "select a from t where a >= $1"),
        describe(b'S', "s"),
        sync(),
    ];
    client.raw(&pipeline.concat());
    let answers = client.answers();
    assert_eq!(kinds(&answers), "12CEZ");
    assert_eq!(answers[3].field(b'C'), "22P02");
    assert_eq!(kinds(&client.answers()), "1tTZ");
    // What came before the error was of the same transaction.
    assert_eq!(client.told("select count(*) from t"), ["0", "SELECT 1"]);
}

/// A client may send many short messages with long answers before the server waits for it.
#[test]
fn long_answers_do_not_wait_for_the_end_of_a_pipeline() {
    let server = start();
    let mut client = server.client();
    client.query("create table t (a int primary key, b int); insert into t values (1, 1)");
    let mut holder = server.client();
    holder.query("begin; update t set b = 2");
    let columns: Vec<String> = (0..500).map(|at| format!("1 as c{at}")).collect();
    let described = parse("s", &format!("select {}", columns.join(", ")));
    client.raw(&[described, message(b'H', b"")].concat());
    assert_eq!(client.answer().unwrap().kind, '1');
    // 100 answers of 10 KB, then a lock that is not to be had: all but the last arrive before.
    let mut pipeline = describe(b'S', "s").repeat(100);
    pipeline.extend([parse("", "update t set b = 3"), bind("", "", &[])].concat());
    pipeline.extend([execute("", 0), sync()].concat());
    client.raw(&pipeline);
    let early: Vec<_> = (0..180).map_while(|_| client.answer()).collect();
    assert_eq!(kinds(&early), "tT".repeat(90));
    holder.query("rollback");
    assert_eq!(kinds(&client.answers()), "tT".repeat(10) + "12CZ");
}

#[test]
fn what_is_wrong_with_a_message_ends_no_connection() {
    let server = start();
    let mut client = server.client();
    let column = [0, 1];
    // Formats of parameters, parameters, formats of results.
    let bound = |shorts: &[u8]| message(b'B', &[&text("")[..], &text(""), shorts].concat());
    let wrong = [
        (message(b'P', b"\0select '\xff'\0\0\0"), "22021"),
        (message(b'P', b"\0select 1\0\0\x09"), "08P01"),
        (bound(&[0, 2, 0, 0, 0, 0, 0, 0, 0, 0]), "08P01"),
        (bound(&[0, 0, 0, 0, 0, 1, 0, 7]), "22023"),
        (bound(&[0, 0, 0, 0, 0, 2, 0, 0, 0, 0]), "08P01"),
        (message(b'D', b"?x\0"), "08P01"),
        (message(b'E', b"\0"), "08P01"),
        (message(b'C', b""), "08P01"),
        (message(b'H', b"x"), "08P01"),
    ];
    for (bytes, sqlstate) in wrong {
        let before = parse("", "select 1 as a");
        client.raw(&[before, bytes.clone(), describe(b'S', ""), sync()].concat());
        let answers = client.answers();
        assert_eq!((kinds(&answers), answers[1].field(b'C')), ("1EZ".into(), sqlstate.into()));
        assert_eq!((answers[1].field(b'S'), bytes[0]), ("ERROR".into(), bytes[0]));
    }
    // As many formats as columns, and one for all.
    for count in [&column[..], &[0, 0]] {
        let formats = [&[0, 0, 0, 0][..], count, &vec![0; usize::from(count[1]) * 2]].concat();
        client.raw(&[parse("", "select 1 as a"), bound(&formats), sync()].concat());
        assert_eq!(kinds(&client.answers()), "12Z");
    }
    let answers = {
        client.send(b'Q', b"select '\xff'\0");
        client.answers()
    };
    assert_eq!(told(&answers), ["22021"]);
    client.send(b'S', b"x");
    assert_eq!(kinds(&client.answers()), "EZ");
    // Within a block they are errors of the transaction.
    client.query("begin");
    client.send(b'Q', b"\xff\0");
    assert_eq!(client.answers().last().unwrap().body, b"E");
    assert_eq!(client.told("select 1"), ["25P02"]);
    assert_eq!(client.told("rollback"), ["ROLLBACK"]);
    // Nobody knows what such a message was meant to be.
    client.send(b'?', b"");
    assert_eq!(client.answers()[0].field(b'S'), "FATAL");
    assert!(client.answer().is_none());
}

#[test]
fn what_is_wrong_with_a_message_during_copy_ends_the_copy() {
    let server = start();
    let mut client = server.client();
    client.query("create table t (a int primary key)");
    client.query("copy t from stdin");
    client.raw(&[message(b'd', b"1\n"), message(b'f', b"no end")].concat());
    assert_eq!(told(&client.answers()), ["08P01"]);
    assert_eq!(client.told("select count(*) from t"), ["0", "SELECT 1"]);
    client.raw(&[parse("", "copy t from stdin"), bind("", "", &[]), execute("", 0)].concat());
    client.raw(&message(b'H', b""));
    assert_eq!(kinds(&client.answers()), "12G");
    client.raw(&[message(b'c', b"x"), message(b'd', b"1\n"), sync()].concat());
    assert_eq!(told(&client.answers()), ["08P01"]);
    assert_eq!(client.told("select count(*) from t"), ["0", "SELECT 1"]);
    // No client sends a query here that has not lost its way.
    client.query("copy t from stdin");
    client.send(b'Q', b"\xff\0");
    let answers = client.answers();
    assert_eq!((kinds(&answers), answers[0].field(b'S')), ("E".into(), "FATAL".into()));
}

/// More columns than the protocol can count.
#[test]
fn too_many_columns_are_an_error() {
    let server = start();
    let mut client = server.client();
    let many = format!("select 1{}", ",1".repeat(70_000));
    assert_eq!(told(&client.query(&many)), ["54011"]);
    for last in [describe(b'S', ""), describe(b'P', ""), execute("", 0)] {
        client.raw(&[parse("", &many), bind("", "", &[]), last, sync()].concat());
        assert_eq!(told(&client.answers()), ["54011"]);
    }
    assert_eq!(told(&client.query(&format!("copy ({many}) to stdout"))), ["54011"]);
    assert_eq!(client.told("select 1"), ["1", "SELECT 1"]);
}

#[test]
fn a_client_of_a_newer_version_hears_which_is_spoken() {
    let server = start();
    for (version, option, unknown) in
        [(0x0003_0002, "application_name", 0u8), (196_608, "_pq_.compression", 1)]
    {
        let mut client = Client::open(server.address);
        client.start_as(version, &[("user", "ann"), (option, "x")]);
        let answers = client.answers();
        let mut expected = vec![0, 3, 0, 0, 0, 0, 0, unknown];
        if unknown > 0 {
            expected.extend(text(option));
        }
        assert_eq!((answers[0].kind, &answers[0].body), ('v', &expected));
        assert_eq!(answers.last().unwrap().kind, 'Z');
    }
}

/// Drivers send what their machine is set to.
#[test]
fn clients_of_any_zone_and_locale_get_in() {
    let server = start();
    for options in [[("TimeZone", "Europe/Paris")], [("options", "-c timezone=Asia/Tokyo")]] {
        let mut client = Client::open(server.address);
        client.start(&[("user", "ann"), options[0]]);
        let answers = client.answers();
        assert_eq!(answers.last().unwrap().kind, 'Z');
        let zone = |answer: &&crate::client::Answer| answer.body.starts_with(b"TimeZone\0");
        let told = answers.iter().find(zone).unwrap();
        let name = if options[0].0 == "options" { "Asia/Tokyo" } else { "Europe/Paris" };
        assert_eq!(told.body, format!("TimeZone\0{name}\0").into_bytes());
        assert_eq!(client.told("show timezone"), [name, "SHOW"]);
        let offset = if name == "Asia/Tokyo" { "09" } else { "02" };
        let noon = format!("2026-07-01 12:00:00+{offset}");
        assert_eq!(client.told("select timestamptz '2026-07-01 12:00'"), [&noon, "SELECT 1"]);
        // A change is told to the client.
        let changed = client.query("set timezone = 'America/New_York'");
        assert!(changed.iter().find(zone).unwrap().body.ends_with(b"America/New_York\0"));
    }
    let mut client = Client::open(server.address);
    client.start(&[("user", "ann"), ("TimeZone", "Europe/Nowhere")]);
    assert_eq!(told(&client.answers()), ["22023"]);
    let mut client = Client::open(server.address);
    client.start(&[("user", "ann"), ("client_encoding", "SQL_ASCII"), ("timezone", "utc")]);
    let answers = client.answers();
    assert!(answers.last().unwrap().kind == 'Z' && !kinds(&answers).contains('N'));
    assert_eq!(client.told("select 'é'"), ["é", "SELECT 1"]);
}

/// Every database that a client asked for used to be the one that there is.
#[test]
fn a_database_that_does_not_exist_is_refused() {
    let databases = vec!["shop".to_owned()];
    let server = start_with(Config { databases, ..Config::default() });
    for (asked, shown) in [("test", "test"), ("postgres", "postgres"), ("shop", "shop")] {
        let mut client = Client::open(server.address);
        client.start(&[("user", "ann"), ("database", asked)]);
        assert_eq!(told(&client.answers()), [""; 0], "{asked}");
        assert_eq!(client.told("select current_database()")[0], shown);
    }
    for asked in ["Test", "ann", "test.db", "template1"] {
        let mut client = Client::open(server.address);
        client.start(&[("user", "ann"), ("database", asked)]);
        let answers = client.answers();
        assert_eq!(told(&answers), ["3D000"], "{asked}");
        let error = answers.last().unwrap();
        assert_eq!(error.field(b'M'), format!("database \"{asked}\" does not exist"));
        assert_eq!(error.field(b'S'), "FATAL");
    }
    let mut silent = Client::open(server.address);
    silent.start(&[("user", "ann")]);
    silent.answers();
    assert_eq!(silent.told("select current_database()")[0], "test");
}

/// `current_user` used to be the same for everybody.
#[test]
fn the_user_is_who_logged_in() {
    let server = start();
    let mut client = Client::open(server.address);
    client.start(&[("user", "Ann O'Hara"), ("database", "test")]);
    let answers = client.answers();
    let reported = b"session_authorization\0Ann O'Hara\0";
    assert!(answers.iter().any(|answer| answer.kind == 'S' && answer.body == reported));
    let sql = "select current_user, session_user, user";
    let name = "Ann O'Hara";
    assert_eq!(client.told(sql)[0], [name; 3].join("|"));
    assert_eq!(client.told("show session_authorization")[0], name);
    // Others are who they are, also by the same statement.
    assert_eq!(server.client().told(sql)[0], "ann|ann|ann");
    client.query("reset all; discard all");
    assert_eq!(
        client.told("select current_user, current_setting('session_authorization')")[0],
        "Ann O'Hara|Ann O'Hara"
    );
    client.query("create table t (a int primary key, who text default current_user)");
    client.query("insert into t values (1)");
    server.client().query("insert into t values (2)");
    assert_eq!(
        server.client().told("select a, who from t order by a")[..2],
        ["1|Ann O'Hara", "2|ann"]
    );
}

/// psycopg, ADBC, Polars, connectorx and rust-postgres read the header of a binary COPY and the
/// first row from one message.
#[test]
fn the_header_of_a_binary_copy_comes_with_the_first_row() {
    let server = start();
    let mut client = server.client();
    client.query("create table t (a int primary key)");
    client.query("insert into t values (1), (2)");
    let copied = |client: &mut Client, sql: &str| -> Vec<Vec<u8>> {
        let answers = client.query(sql);
        answers.into_iter().filter(|one| one.kind == 'd').map(|one| one.body).collect()
    };
    let header = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
    let row = |value: u8| [&[0, 1, 0, 0, 0, 4, 0, 0, 0][..], &[value]].concat();
    let end = vec![0xff, 0xff];
    let pieces = copied(&mut client, "copy (select a from t order by a) to stdout (format binary)");
    assert_eq!(pieces, [[&header[..], &row(1)].concat(), row(2), end.clone()]);
    let pieces = copied(&mut client, "copy (select a from t where a > 9) to stdout binary");
    assert_eq!(pieces, [[&header[..], &end].concat()]);
    // The line with the names is a row like any other.
    let pieces = copied(&mut client, "copy t to stdout csv header");
    assert_eq!(pieces, [b"a\n".to_vec(), b"1\n".to_vec(), b"2\n".to_vec()]);
}

#[test]
fn parameters_and_results_are_binary_on_demand() {
    let server = start();
    let mut client = server.client();
    let mut body = [text(""), text("")].concat();
    body.extend([0, 1, 0, 1, 0, 1, 0, 0, 0, 4, 0, 0, 0, 41, 0, 1, 0, 1]);
    let parse = parse("", "select $1::int + 1");
    client.raw(&[parse, message(b'B', &body), execute("", 0), sync()].concat());
    let answers = client.answers();
    assert_eq!(answers[2].body, [0, 1, 0, 0, 0, 4, 0, 0, 0, 42]);
}

/// An array of integers as the binary formats have it.
fn array_of(numbers: &[Option<i32>]) -> Vec<u8> {
    let has_nulls = i32::from(numbers.contains(&None));
    let mut out = Vec::new();
    for word in [1, has_nulls, 23, numbers.len() as i32, 1] {
        out.extend(word.to_be_bytes());
    }
    for number in numbers {
        match number {
            None => out.extend((-1i32).to_be_bytes()),
            Some(number) => {
                out.extend(4i32.to_be_bytes());
                out.extend(number.to_be_bytes());
            }
        }
    }
    out
}

/// A column as `RowDescription` tells of it: the relation's number, its number there, its type and
/// the type's modifier.
fn told_columns(answer: &Answer) -> Vec<(u32, i16, u32, i32)> {
    let mut rest = &answer.body[2..];
    let mut columns = Vec::new();
    while let Some(end) = rest.iter().position(|byte| *byte == 0) {
        let (own, tail) = rest[end + 1..].split_at(18);
        let long = |at: usize| u32::from_be_bytes(own[at..at + 4].try_into().unwrap());
        columns.push((long(0), i16::from_be_bytes([own[4], own[5]]), long(6), long(12) as i32));
        rest = tail;
    }
    columns
}

/// Drivers ask by these numbers which columns can be changed, and what a table calls them.
#[test]
fn columns_of_results_say_where_they_come_from() {
    let server = start();
    let mut client = server.client();
    client.query("create table t (id int primary key, n numeric(10, 2), v varchar(5), c char(3))");
    client.query("create table u (id int, w text, vs varchar(4)[])");
    client.query("create view s as select v as short, n + 1 as more from t");
    let mut number = |name: &str| -> u32 {
        client.told(&format!("select '{name}'::regclass::oid"))[0].parse().unwrap()
    };
    let [t, u, s, class] = ["t", "u", "s", "pg_class"].map(&mut number);
    let (int, text, numeric) = (23, 25, 1700);
    let (short, id) = ((t, 3, 1043, 9), (t, 1, int, -1));
    for (query, expected) in [
        ("select * from t", vec![id, (t, 2, numeric, (10 << 16 | 2) + 4), short, (t, 4, 1042, 7)]),
        ("select id + 1, upper(v), 'x', null from t", {
            vec![(0, 0, int, -1), (0, 0, text, -1), (0, 0, text, -1), (0, 0, text, -1)]
        }),
        ("select v::varchar(2), n::numeric(4, 1) from t", {
            vec![(0, 0, 1043, 6), (0, 0, numeric, (4 << 16 | 1) + 4)]
        }),
        ("select * from s", vec![(s, 1, 1043, 9), (s, 2, numeric, -1)]),
        ("select a.v, b.w, b.vs from t a left join u b on a.id = b.id", {
            vec![short, (u, 2, text, -1), (u, 3, 1015, 8)]
        }),
        ("select id, w from t join u using (id)", vec![id, (u, 2, text, -1)]),
        ("select x from (select v as x from t order by id limit 1) d", vec![short]),
        ("with d as (select v from t) select v from d", vec![short]),
        ("select id from t union all select id from u", vec![(0, 0, int, -1)]),
        ("select v, count(*) from t group by v", vec![short, (0, 0, 20, -1)]),
        ("select (select v from t), v collate \"C\" from t", {
            vec![(0, 0, 1043, 9), (0, 0, 1043, 9)]
        }),
        ("select relname from pg_class", vec![(class, 2, 19, -1)]),
        ("insert into t (id) values (1) returning v, id + 1", vec![short, (0, 0, int, -1)]),
        ("update s set short = 'y' returning short", vec![(s, 1, 1043, 9)]),
    ] {
        let answers = client.query(query);
        assert_eq!(answers[0].kind, 'T', "{query}: {answers:?}");
        assert_eq!(told_columns(&answers[0]), expected, "{query}");
    }
}

#[test]
fn arrays_go_both_ways_as_text_and_as_bytes() {
    let server = start();
    let mut client = server.client();
    client.query("create table t (id int primary key, a int[], b text[])");
    // A parameter that the statement makes an array, and one whose type the client names.
    client.raw(&[parse("i", "insert into t values ($1, $2, $3)"), describe(b'S', "i")].concat());
    client.raw(&sync());
    let answers = client.answers();
    let oids = [&[0u8, 3][..], &23i32.to_be_bytes(), &1007i32.to_be_bytes()].concat();
    assert_eq!(answers[1].body, [oids, 1009i32.to_be_bytes().to_vec()].concat());
    client.raw(&[bind("", "i", &["1", "{1,NULL}", "{a,\"b c\"}"]), execute("", 0)].concat());
    client.raw(&sync());
    assert_eq!(kinds(&client.answers()), "2CZ");
    let bytes = array_of(&[Some(5), None, Some(7)]);
    let mut body = [text(""), text("")].concat();
    body.extend([0, 1, 0, 1, 0, 1]);
    body.extend((bytes.len() as i32).to_be_bytes());
    body.extend(&bytes);
    body.extend([0, 1, 0, 1]);
    let echo = [parse("", "select $1::int[]"), message(b'B', &body), describe(b'P', "")];
    client.raw(&[echo.concat(), execute("", 0), sync()].concat());
    let answers = client.answers();
    let column = &answers[2].body;
    assert_eq!(column[column.len() - 12..column.len() - 8], 1007i32.to_be_bytes());
    assert_eq!(answers[3].body[6..], bytes);
    let any = parse("", "select id from t where id = any($1) order by id");
    client.raw(&[any, bind("", "", &["{3,1}"]), execute("", 0), sync()].concat());
    assert_eq!(told(&client.answers()), ["1", "SELECT 1"]);
    assert_eq!(client.told("select a, b, b[2] from t")[0], "{1,NULL}|{a,\"b c\"}|b c");
    // Bytes that are no array.
    for (bad, code) in [
        (&bytes[..bytes.len() - 1], "08P01"),
        (&[0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 23][..], "54000"),
        (&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 25][..], "42804"),
        (&[0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 23][..], "22P03"),
    ] {
        let mut body = [text(""), text("")].concat();
        body.extend([0, 1, 0, 1, 0, 1]);
        body.extend((bad.len() as i32).to_be_bytes());
        body.extend(bad);
        body.extend([0, 0]);
        client.raw(&[parse("", "select $1::int[]"), message(b'B', &body), sync()].concat());
        assert_eq!(client.answers()[1].field(b'C'), code);
    }
    let copied = client.query("copy t (a) to stdout");
    assert_eq!(copied[1].body, b"{1,NULL}\n");
    client.query("copy t (id, b) from stdin");
    client.raw(&[message(b'd', b"2\t{x,\"y z\"}\n"), message(b'c', b"")].concat());
    assert_eq!(told(&client.answers()), ["COPY 1"]);
    assert_eq!(client.told("select b[2] from t where id = 2")[0], "y z");
}

/// The server tells a client the numbers that the client declared, `varchar` included, and those
/// that it inferred. pgjdbc ends a batch where a number is not its own.
#[test]
fn parameters_keep_the_numbers_that_clients_declare() {
    let server = start();
    let mut client = server.client();
    client.query("create table t (id int, name varchar(20), at timestamp, tags varchar(9)[])");
    let sql = "insert into t values ($1, $2, $3, $4)";
    let (inferred, int, plain, varchar) = (0u32, 23u32, 25u32, 1043u32);
    let (timestamp, texts, varchars) = (1114u32, 1009u32, 1015u32);
    let mut told_for = |declared: [u32; 4]| {
        let oids: Vec<u8> = declared.iter().flat_map(|oid| oid.to_be_bytes()).collect();
        let parse = message(b'P', &[text("s"), text(sql), vec![0, 4], oids].concat());
        let close = message(b'C', &[vec![b'S'], text("s")].concat());
        client.raw(&[parse, describe(b'S', "s"), close, sync()].concat());
        let answers = client.answers();
        assert_eq!(kinds(&answers), "1tn3Z");
        let oids = answers[1].body[2..].chunks(4);
        oids.map(|oid| u32::from_be_bytes(oid.try_into().unwrap())).collect::<Vec<u32>>()
    };
    for (declared, told) in [
        ([int, varchar, inferred, varchars], [int, varchar, timestamp, varchars]),
        // The same text with other numbers is another statement.
        ([int, plain, inferred, texts], [int, plain, timestamp, texts]),
        ([inferred, varchar, timestamp, texts], [int, varchar, timestamp, texts]),
    ] {
        assert_eq!(told_for(declared), told);
    }
}

/// A parameter may be declared as a type that was made, by the number that the catalog has.
#[test]
fn an_enum_is_a_type_of_parameters() {
    let server = start();
    let mut client = server.client();
    client.query("create type mood as enum ('sad', 'ok'); create table m (a mood)");
    let oid: u32 = client.told("select 'mood'::regtype::oid")[0].parse().unwrap();
    let sql = text("insert into m values ($1) returning a");
    let types = [&1u16.to_be_bytes()[..], &oid.to_be_bytes()].concat();
    let parse = message(b'P', &[text(""), sql, types].concat());
    let rest = [describe(b'S', ""), bind("", "", &["ok"]), execute("", 0), sync()].concat();
    client.raw(&[parse, rest].concat());
    let answers = client.answers();
    assert_eq!(told(&answers), ["ok", "INSERT 0 1"]);
    let parameters = answers.iter().find(|answer| answer.kind == 't').unwrap();
    assert_eq!(parameters.body[2..], oid.to_be_bytes());
    let columns = answers.iter().find(|answer| answer.kind == 'T').unwrap();
    assert_eq!(told_columns(columns)[0].2, oid);
    client.raw(&[parse_of(oid), bind("", "", &["gone"]), execute("", 0), sync()].concat());
    assert_eq!(told(&client.answers()), ["22P02"]);
}

/// Bytes behind their length.
fn sized(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

/// A row of an integer, of the type of this number, and a text.
fn pair_bytes(integer: u32, number: i32) -> Vec<u8> {
    let (count, integer, texts) = (2u32.to_be_bytes(), integer.to_be_bytes(), 25u32.to_be_bytes());
    [&count[..], &integer, &sized(&number.to_be_bytes()), &texts, &sized(b"q")].concat()
}

/// Rows of a composite type go both ways as PostgreSQL's bytes, and clients are told its number.
#[test]
fn a_composite_type_is_a_type_of_parameters() {
    let server = start();
    let mut client = server.client();
    client.query("create type pair as (a int, b text); create table m (a pair)");
    let oid: u32 = client.told("select 'pair'::regtype::oid")[0].parse().unwrap();
    let ask = |client: &mut Client, sql: &str, value: &[u8]| {
        let types = [&1u16.to_be_bytes()[..], &oid.to_be_bytes()].concat();
        let parse = message(b'P', &[text(""), text(sql), types].concat());
        let formats = [&1u16.to_be_bytes()[..], &1u16.to_be_bytes()].concat();
        let values = [&1u16.to_be_bytes()[..], &sized(value)].concat();
        let bind = message(b'B', &[text(""), text(""), formats.clone(), values, formats].concat());
        client.raw(&[parse, bind, describe(b'P', ""), execute("", 0), sync()].concat());
        client.answers()
    };
    let sound = pair_bytes(23, 7);
    let answers = ask(&mut client, "insert into m values ($1) returning a", &sound);
    let columns = answers.iter().find(|answer| answer.kind == 'T').unwrap();
    assert_eq!(told_columns(columns)[0].2, oid);
    let row = answers.iter().find(|answer| answer.kind == 'D').unwrap();
    assert_eq!(row.body, [&1u16.to_be_bytes()[..], &sized(&sound)].concat());
    assert_eq!(client.told("select a, (a).b from m"), ["(7,q)|q", "SELECT 1"]);
    for (bytes, sqlstate) in [
        (pair_bytes(20, 7), "42804"),
        (3u32.to_be_bytes().to_vec(), "42804"),
        (sound[..9].to_vec(), "08P01"),
        ([sound.as_slice(), b"x"].concat(), "22P03"),
    ] {
        assert_eq!(told(&ask(&mut client, "select $1", &bytes)), [sqlstate]);
    }
}

/// A query of a parameter of a type.
fn parse_of(oid: u32) -> Vec<u8> {
    let types = [&1u16.to_be_bytes()[..], &oid.to_be_bytes()].concat();
    message(b'P', &[text(""), text("select $1"), types].concat())
}

#[test]
fn copy_works_in_both_protocols() {
    let server = start();
    let mut client = server.client();
    client.query("create table t (a int primary key, b text)");
    assert_eq!(kinds(&client.query("copy t from stdin")), "G");
    client.raw(&[message(b'd', b"1\tx\n2"), message(b'd', b"\ty\n"), message(b'c', b"")].concat());
    assert_eq!(told(&client.answers()), ["COPY 2"]);
    // As tokio-postgres does: Sync comes before the server waits for rows.
    client.raw(&[parse("", "copy t from stdin"), bind("", "", &[])].concat());
    client.raw(&[execute("", 0), sync()].concat());
    assert_eq!(kinds(&client.answers()), "12G");
    client.raw(&[message(b'd', b"3\tz\n"), message(b'c', b""), sync()].concat());
    assert_eq!(told(&client.answers()), ["COPY 1"]);
    // A binary COPY whose end is not marked, as pgx sends it.
    let header = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
    assert_eq!(kinds(&client.query("copy t from stdin (format binary)")), "G");
    let row = b"\0\x02\0\0\0\x04\0\0\0\x09\0\0\0\x01q";
    client.raw(&[message(b'd', header), message(b'd', row), message(b'c', b"")].concat());
    assert_eq!(told(&client.answers()), ["COPY 1"]);
    client.query("delete from t where a = 9");
    // A row that does not fit ends it; what is still on its way is dropped.
    client.query("copy t from stdin");
    client.raw(&[message(b'd', b"no\tx\n"), message(b'd', b"4\tq\n"), message(b'c', b"")].concat());
    assert_eq!(told(&client.answers()), ["22P02"]);
    client.query("copy t from stdin");
    client.send(b'f', &text("enough"));
    assert_eq!(told(&client.answers()), ["57014"]);
    let answers = client.query("copy t to stdout");
    assert_eq!((kinds(&answers), answers[1].body.as_slice()), ("HdddcCZ".into(), &b"1\tx\n"[..]));
}

fn within_a_second(work: impl FnOnce()) {
    let clock = rightlink_env::Clock::system();
    let start = clock.now();
    work();
    // A second is meant; a busy machine gets more, though less than what would end by itself takes.
    let spent = clock.now().since(start);
    assert!(spent < Duration::from_secs(10), "{spent:?}");
}

/// Waits until the server runs a message of another client.
fn until_it_runs(observer: &mut Client, sql: &str) {
    let running =
        format!("select count(*) from pg_stat_activity where state = 'active' and query = '{sql}'");
    for turn in 0.. {
        if observer.told(&running) == ["1", "SELECT 1"] {
            break;
        }
        assert!(turn < 3_000, "it does not run: {sql}");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(50));
}

#[test]
fn what_runs_is_cancelled_and_what_comes_next_is_not() {
    let server = start();
    let mut client = server.client();
    client.query("create table t (a int primary key, b int); insert into t values (1, 1)");
    let (mut holder, mut observer) = (server.client(), server.client());
    holder.query("begin; update t set b = 2");
    let endless = [
        "select pg_sleep(100)",
        "select count(*) from generate_series(1, 1000000000000)",
        "select * from generate_series(1, 1000000000000)",
        "update t set b = 3",
    ];
    for sql in endless {
        client.send(b'Q', &text(sql));
        until_it_runs(&mut observer, sql);
        client.cancel();
        within_a_second(|| {
            let answers = client.answers();
            let error = &answers[answers.len() - 2];
            assert_eq!((error.field(b'C').as_str(), sql), ("57014", sql));
        });
        client.cancel();
        assert_eq!(client.told("select 1"), ["1", "SELECT 1"]);
    }
    holder.query("rollback");
}

#[test]
fn timeouts_end_statements_waits_and_idle_transactions() {
    let server = start();
    let mut client = server.client();
    client.query("create table t (a int primary key, b int); insert into t values (1, 1)");
    let mut holder = server.client();
    holder.query("begin; update t set b = 2");
    client.query("set statement_timeout = 100");
    assert_eq!(client.told("update t set b = 3"), ["57014"]);
    assert_eq!(client.told("select pg_sleep(50)"), ["57014"]);
    // What waits for the lock of a table is no different.
    assert_eq!(client.told("begin; lock table t"), ["BEGIN", "57014"]);
    client.query("rollback");
    client.query("set statement_timeout = 0; set lock_timeout = 50");
    assert_eq!(client.told("update t set b = 3"), ["55P03"]);
    assert_eq!(client.told("begin; lock table t"), ["BEGIN", "55P03"]);
    client.query("rollback");
    holder.query("set idle_in_transaction_session_timeout = 100");
    let last = holder.answers();
    assert_eq!(told(&last), ["25P03"]);
    assert_eq!(client.told("set lock_timeout = 0; update t set b = 3"), ["SET", "UPDATE 1"]);
}

#[test]
fn a_client_that_goes_away_frees_its_locks() {
    let server = start();
    let mut client = server.client();
    client.query("create table t (a int primary key, b int); insert into t values (1, 1)");
    for last in ["", "select pg_sleep(100)", "select count(*) from generate_series(1, 10000000000)"]
    {
        let mut gone = server.client();
        gone.query("begin; update t set b = b + 1");
        gone.send(b'Q', &text(last));
        std::thread::sleep(Duration::from_millis(50));
        drop(gone);
        within_a_second(|| assert_eq!(client.told("update t set b = 7"), ["UPDATE 1"]));
    }
}

/// What the client that goes away was doing: waiting for a lock, not reading, sending rows.
#[test]
fn a_client_that_goes_away_in_the_middle_frees_its_locks() {
    let server = start();
    let mut client = server.client();
    client.query("create table t (a int primary key, b int); insert into t values (1, 1), (2, 2)");
    let (mut holder, mut observer) = (server.client(), server.client());
    holder.query("begin; update t set b = 0 where a = 2");
    let middles = [
        ("update t set b = 4 where a = 2", true),
        ("select repeat('x', 1000) from generate_series(1, 1000000000000)", true),
        ("copy t from stdin", false),
    ];
    for (sql, runs) in middles {
        let mut gone = server.client();
        gone.query("begin; update t set b = 3 where a = 1");
        gone.send(b'Q', &text(sql));
        if runs {
            until_it_runs(&mut observer, &sql.replace('\'', "''"));
        } else {
            assert_eq!(kinds(&gone.answers()), "G");
            gone.send(b'd', b"5\t5\n6");
        }
        drop(gone);
        within_a_second(|| {
            assert_eq!(client.told("update t set b = 7 where a = 1"), ["UPDATE 1"], "{sql}");
        });
    }
    holder.query("rollback");
    assert_eq!(client.told("select count(*) from t"), ["2", "SELECT 1"]);
}

#[test]
fn a_server_that_stops_lets_statements_finish() {
    let mut server = start();
    let mut client = server.client();
    client.query("create table t (a int primary key)");
    let (mut idle, mut new) = (server.client(), Client::open(server.address));
    let sql = "select pg_sleep(2); insert into t values (1)";
    client.send(b'Q', &text(sql));
    until_it_runs(&mut idle, sql);
    server.stopper.stop();
    assert_eq!(told(&idle.answers()), ["57P01"]);
    assert!(new.answers().is_empty());
    assert_eq!(told(&client.answers()), ["", "SELECT 1", "INSERT 0 1"]);
    assert_eq!(told(&client.answers()), ["57P01"]);
    server.join();
}

#[test]
fn strangers_get_few_bytes_and_little_time() {
    let config = Config { startup_timeout: Duration::from_millis(200), ..Config::default() };
    let server = start_with(config);
    let mut silent = Client::open(server.address);
    within_a_second(|| assert!(silent.answers().is_empty()));
    for bytes in [&b"\x7f\xff\xff\xff\0\x03\0\0"[..], b"\0\0\0\x05", b"GET / HTTP/1.1\r\n\r\n"] {
        let mut stranger = Client::open(server.address);
        stranger.raw(bytes);
        assert_eq!(told(&stranger.answers()), ["08P01"]);
    }
    let mut client = server.client();
    client.raw(b"Q\x7f\xff\xff\xff");
    assert_eq!(told(&client.answers()), ["08P01"]);
    let mut client = Client::open(server.address);
    client.start(&[("user", "ann"), ("nonsense", "1")]);
    assert_eq!(told(&client.answers()), ["42704"]);
}

#[test]
fn too_many_are_told_so() {
    let server = start_with(Config { max_connections: 2, ..Config::default() });
    let _two = (server.client(), server.client());
    let mut third = Client::open(server.address);
    third.start(&[("user", "ann")]);
    assert_eq!(told(&third.answers()), ["53300"]);
}

#[test]
fn users_need_their_password() {
    let line = format!("ann:{}", verifier("secret").unwrap());
    let users = Some(Users::parse(&line).unwrap());
    let (logger, lines) = Logger::collecting();
    let server = start_with(Config { users, logger, ..Config::default() });
    let clock = Clock::system();
    // Each failure of the address is answered later than the one before.
    for (name, delay) in [("ann", 100), ("bob", 200), ("ann", 400), ("bob", 800)] {
        let start = clock.now();
        let mut client = Client::open(server.address);
        client.start(&[("user", name)]);
        assert_eq!(client.answer().unwrap().body, b"\0\0\0\x0aSCRAM-SHA-256\0\0");
        let first = b"n,,n=,r=abc";
        let length = (first.len() as u32).to_be_bytes();
        client.send(b'p', &[&b"SCRAM-SHA-256\0"[..], &length, first].concat());
        let answer = client.answer().unwrap();
        let text = String::from_utf8_lossy(&answer.body[4..]).into_owned();
        let nonce = text.split(',').next().unwrap();
        let proof = "A".repeat(43);
        client.send(b'p', format!("c=biws,{nonce},p={proof}=").as_bytes());
        assert_eq!(told(&client.answers()), ["28P01"]);
        assert!(clock.now().since(start) >= Duration::from_millis(delay), "{name}");
    }
    assert_eq!(lines.containing("login as \"ann\" from 127.0.0.1:"), 2);
    assert_eq!(lines.containing("login as \"bob\" from 127.0.0.1:"), 2);
    let mut client = Client::open(server.address);
    client.start(&[("user", "ann")]);
    client.answer();
    client.send(b'Q', &text("select 1"));
    assert_eq!(told(&client.answers()), ["08P01"]);
}

#[test]
fn an_address_for_strangers_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = rightlink::Database::open(dir.path().join("db")).unwrap();
    let config = Config { listen: vec!["0.0.0.0:0".parse().unwrap()], ..Config::default() };
    assert!(Server::bind(&db, "test", config).is_err());
}

/// Random frames, before and after the start; somebody else is served all the while.
#[test]
fn nonsense_harms_nobody() {
    let server = start();
    let mut healthy = server.client();
    healthy.query("create table t (a int primary key, b text)");
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for round in 0..300 {
        let mut client =
            if round % 4 == 0 { Client::open(server.address) } else { server.client() };
        client.socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let mut bytes = Vec::new();
        for _ in 0..next(8) {
            let kinds = b"QPBDECSHdcfpFX\0z";
            let kind = kinds[next(kinds.len() as u64) as usize];
            let sqls = ["select * from t where a = $1", "copy t from stdin", "begin", "\u{1}", ""];
            let mut body = match next(4) {
                0 => text(sqls[next(5) as usize]),
                1 => [text(""), text(sqls[next(5) as usize]), vec![0, 0]].concat(),
                _ => (0..next(30)).map(|_| next(256) as u8).collect(),
            };
            if next(5) == 0 {
                body.truncate(next(body.len() as u64 + 1) as usize);
            }
            bytes.extend(message(kind, &body));
        }
        if next(6) == 0 && !bytes.is_empty() {
            let at = next(bytes.len() as u64) as usize;
            bytes[at] = next(256) as u8;
        }
        let _ = client.socket.write_all(&bytes);
        while client.answer().is_some() {}
        if round % 50 == 0 {
            assert_eq!(healthy.told("select 1"), ["1", "SELECT 1"]);
        }
    }
    assert_eq!(healthy.told("select count(*) from t")[1], "SELECT 1");
}
