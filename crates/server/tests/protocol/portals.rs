//! Portals and cursors: rows in portions, both protocols at the same portal, failed ones.

use crate::client::{bind, describe, execute, kinds, message, parse, start, sync, told};

#[test]
fn portals_hand_out_rows_in_portions() {
    let server = start();
    let mut client = server.client();
    client.query(
        "create table t (a int primary key); insert into t select g from generate_series(1, 5) g",
    );
    client.raw(&[parse("s", "select a from t order by a"), sync()].concat());
    client.answers();
    client.query("begin");
    let two = [bind("p", "s", &[]), bind("q", "s", &[]), execute("p", 2), execute("q", 1)];
    client.raw(&[two.concat(), execute("p", 2), execute("p", 2), sync()].concat());
    let expected =
        ["1", "2", "suspended", "1", "suspended", "3", "4", "suspended", "5", "SELECT 1"];
    assert_eq!(told(&client.answers()), expected);
    // A cursor is a portal.
    client.query("declare c cursor for select a as x from t");
    client.raw(&[describe(b'P', "c"), sync()].concat());
    assert_eq!(kinds(&client.answers()), "TZ");
    client.query("commit");
    client.raw(&[execute("p", 1), sync()].concat());
    assert_eq!(told(&client.answers()), ["34000"]);
}

/// Rows of a cursor WITH HOLD are there after its transaction, for both protocols, and a statement
/// with WHERE CURRENT OF is prepared as any other.
#[test]
fn cursors_outlive_their_transaction_and_say_which_row_is_changed() {
    let server = start();
    let mut client = server.client();
    client.query("create table t (a int primary key, b int)");
    client.query("insert into t select g, 0 from generate_series(1, 5) g");
    let declared = "declare c cursor with hold for select a from t";
    assert_eq!(client.told(declared), ["DECLARE CURSOR"]);
    assert_eq!(client.told("fetch 2 c"), ["1", "2", "FETCH 2"]);
    let fetch = [parse("", "fetch 2 c"), bind("", "", &[]), describe(b'P', "")];
    client.raw(&[fetch.concat(), execute("", 0), sync()].concat());
    assert_eq!(kinds(&client.answers()), "12TDDCZ");
    let begun = "begin; declare u cursor for select a from t for update; fetch 3 u";
    assert_eq!(client.told(begun), ["BEGIN", "DECLARE CURSOR", "1", "2", "3", "FETCH 3"]);
    let update = parse("p", "update t set b = $1 where current of u");
    client.raw(&[update, bind("", "p", &["7"]), execute("", 0), sync()].concat());
    assert_eq!(kinds(&client.answers()), "12CZ");
    assert_eq!(client.told("commit; select a, b from t where b <> 0")[1], "3|7");
    assert_eq!(client.told("fetch c"), ["5", "FETCH 1"]);
    client.raw(&[bind("", "p", &["7"]), execute("", 0), sync()].concat());
    let answers = client.answers();
    assert_eq!(answers.iter().find(|one| one.kind == 'E').unwrap().field(b'C'), "34000");
    client.raw(&[message(b'C', b"Pc\0"), sync()].concat());
    assert_eq!(kinds(&client.answers()), "3Z");
    assert_eq!(client.told("fetch c"), ["34000"]);
    // The query of a cursor may have parameters.
    let declare = parse("", "declare d cursor with hold for select a from t where a > $1");
    let declare = [declare, describe(b'S', ""), bind("", "", &["3"]), execute("", 0), sync()];
    client.raw(&declare.concat());
    assert_eq!(kinds(&client.answers()), "1tn2CZ");
    assert_eq!(client.told("fetch all d"), ["4", "5", "FETCH 2"]);
}

/// PostgreSQL has one space of names for both: asyncpg moves its portals by statements.
#[test]
fn fetch_and_move_reach_the_portals_of_clients() {
    let server = start();
    let mut client = server.client();
    client.query("create table t (a int primary key)");
    client.query("insert into t select g from generate_series(1, 9) g");
    client.query("begin");
    client.raw(&[parse("", "select a from t order by a"), bind("p", "", &[]), sync()].concat());
    assert_eq!(kinds(&client.answers()), "12Z");
    assert_eq!(client.told("move forward 2 p"), ["MOVE 2"]);
    client.raw(&[execute("p", 1), sync()].concat());
    assert_eq!(told(&client.answers()), ["3", "suspended"]);
    assert_eq!(client.told("fetch 2 p"), ["4", "5", "FETCH 2"]);
    let fetch = [parse("", "fetch 1 from p"), describe(b'S', ""), bind("", "", &[])];
    client.raw(&[fetch.concat(), execute("", 0), sync()].concat());
    assert_eq!(kinds(&client.answers()), "1tT2DCZ");
    client.query("savepoint s");
    assert_eq!(client.told("fetch backward 1 p"), ["55000"]);
    client.query("rollback to s");
    client.raw(&[bind("q", "", &[]), sync()].concat());
    client.answers();
    assert_eq!(client.told("close p; commit"), ["CLOSE CURSOR", "COMMIT"]);
    assert_eq!(client.told("fetch p"), ["34000"]);
}

/// What a client executes after a failure is refused because of that, whether it names the portal
/// that failed or asks anew.
#[test]
fn a_portal_that_failed_is_there_until_its_transaction_ends() {
    let server = start();
    let mut client = server.client();
    client.query("begin");
    let failing = parse("", "select 1 / (g - 2) from generate_series(1, 3) g");
    client.raw(&[failing, bind("p", "", &[]), execute("p", 1), sync()].concat());
    assert_eq!(told(&client.answers()), ["-1", "suspended"]);
    client.raw(&[execute("p", 1), sync()].concat());
    assert_eq!(told(&client.answers()), ["22012"]);
    client.raw(&[execute("p", 1), sync()].concat());
    assert_eq!(told(&client.answers()), ["25P02"]);
    client.query("rollback");
    client.raw(&[execute("p", 1), sync()].concat());
    assert_eq!(told(&client.answers()), ["34000"]);
}

/// The query of EXPLAIN may have parameters, as that of DECLARE may.
#[test]
fn explain_takes_parameters() {
    let server = start();
    let mut client = server.client();
    client.query("create table t (a int primary key)");
    client.query("insert into t select g from generate_series(1, 9) g");
    let explain = parse(
        "",
        "explain (analyze, costs off, timing off, summary off) \
                             select a from t where a > $1",
    );
    let told_of = |client: &mut crate::client::Client, values: &[&str]| {
        let bound = [explain.clone(), describe(b'S', ""), bind("", "", values), execute("", 0)];
        client.raw(&[bound.concat(), sync()].concat());
        client.answers()
    };
    let answers = told_of(&mut client, &["6"]);
    assert!(kinds(&answers).starts_with("1tT2D"), "{answers:?}");
    assert!(told(&answers)[0].contains("actual rows=3 loops=1"), "{answers:?}");
    assert_eq!(told(&told_of(&mut client, &[])), ["08P01"]);
}

/// Who asks for no formats has rows of a binary cursor in binary form, and all others as text.
#[test]
fn rows_of_a_binary_cursor_are_binary_where_no_format_is_asked_for() {
    let server = start();
    let mut client = server.client();
    client.query("begin; declare b binary scroll cursor for select 258, 'x'");
    let answers = client.query("fetch b; select 258");
    let rows: Vec<_> = answers.iter().filter(|one| one.kind == 'D').map(|one| &one.body).collect();
    assert_eq!(*rows[0], [&[0, 2, 0, 0, 0, 4, 0, 0, 1, 2, 0, 0, 0, 1][..], b"x"].concat());
    assert_eq!(*rows[1], [&[0, 1, 0, 0, 0, 3][..], b"258"].concat());
    client.query("move backward all b");
    client.raw(&[parse("", "fetch b"), bind("", "", &[]), execute("", 0), sync()].concat());
    assert_eq!(told(&client.answers()), ["258|x", "FETCH 1"]);
}

/// Drivers that call functions declare a parameter for the result, of no type.
#[test]
fn a_parameter_of_type_void_is_no_argument() {
    let server = start();
    let mut client = server.client();
    let call = parse("", "select upper($1::void, $2), pg_backend_pid($1::void) > 0");
    client.raw(&[call, bind("", "", &["", "x"]), execute("", 0), sync()].concat());
    assert_eq!(told(&client.answers()), ["X|t", "SELECT 1"]);
}
