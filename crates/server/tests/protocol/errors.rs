//! The fields of errors that programs read.

use crate::client::{Client, bind, execute, kinds, parse, start, sync};

/// The code, and the names of schema, table, column, type and constraint.
fn subject(client: &mut Client, sql: &str) -> String {
    let answers = client.query(sql);
    let error = answers.iter().find(|answer| answer.kind == 'E').expect("it fails");
    let fields = [b'C', b's', b't', b'c', b'd', b'n'].map(|code| error.field(code));
    fields.join("|")
}

/// PostgreSQL 15 gives the same fields for each of them.
#[test]
fn errors_name_the_objects_that_they_are_about() {
    let server = start();
    let mut client = server.client();
    client.query("create schema s");
    client.query("create domain s.small as int constraint few check (value < 10) not null");
    client.query("create table s.p (id int primary key, n int constraint positive check (n > 0))");
    client.query("create table c (p int not null references s.p, v s.small default 1)");
    client.query("insert into s.p values (1, 1); insert into c values (1)");
    for (sql, expected) in [
        ("insert into s.p values (1, 1)", "23505|s|p|||p_pkey"),
        ("insert into s.p values (2, 0)", "23514|s|p|||positive"),
        ("insert into c values (null)", "23502|public|c|p||"),
        ("insert into c values (7)", "23503|public|c|||c_p_fkey"),
        ("delete from s.p", "23503|public|c|||c_p_fkey"),
        ("insert into c values (1, 10)", "23514|s|||small|few"),
        ("select null::s.small", "23502|s|||small|"),
        ("alter table c add check (p > 5)", "23514|public|c|||c_p_check"),
        ("insert into c values (1, 1); create unique index u on c (p)", "23505|public|c|||u"),
        ("select nosuch from c", "42703|||||"),
    ] {
        assert_eq!(subject(&mut client, sql), expected, "{sql}");
    }
    let told = client.query("insert into s.p values (1, 1)");
    assert_eq!(told[0].field(b'D'), "Key (id)=(1) already exists.");
}

/// Drivers that keep prepared statements know by the routine that one has to be prepared anew.
#[test]
fn a_changed_result_type_is_known_by_its_routine() {
    let server = start();
    let mut client = server.client();
    client.query("create table t (a int)");
    client.raw(&[parse("s", "select * from t"), sync()].concat());
    assert_eq!(kinds(&client.answers()), "1Z");
    client.query("alter table t add b int");
    client.raw(&[bind("", "s", &[]), execute("", 0), sync()].concat());
    let answers = client.answers();
    let error = answers.iter().find(|answer| answer.kind == 'E').expect("it fails");
    assert_eq!(error.field(b'C'), "0A000");
    assert_eq!(error.field(b'R'), "RevalidateCachedQuery");
}
