//! Statements as deep as they may be and deeper: each ends with a result or an error, on whatever
//! thread the session is used, and never in an overflow of the stack.

use crate::deep::{CLEAN, PRODUCTIONS, Production, SETUP, STATEMENTS};
use crate::gather::Gather;
use rightlink::Database;
use rightlink_env::{stack, thread};
use rightlink_sql::{STACK, Session};

/// Levels that chains and nestings may have, and more than they may.
const AT_LIMIT: usize = 4_990;
const PAST_LIMIT: usize = 5_100;
const NESTED_AT_LIMIT: usize = 46;
const NESTED_PAST_LIMIT: usize = 120;

/// At the limit a prepared statement takes some 22 MB, which the default budget may not have left.
fn open() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().memory(512 << 20).open(dir.path()).unwrap();
    Session::new(&db).execute(SETUP).unwrap();
    (dir, db)
}

/// Runs a message; the code of its error, if it fails.
fn run(session: &mut Session, sql: &str) -> Option<&'static str> {
    let error = session.run(sql, &mut Gather::default()).err()?;
    assert!(!error.sqlstate.starts_with("XX"), "{error:?}: {}", &sql[..sql.len().min(200)]);
    Some(error.sqlstate)
}

fn clean(session: &mut Session) {
    for sql in CLEAN {
        run(session, sql);
    }
}

fn levels(production: &Production) -> [usize; 2] {
    match production.nests {
        true => [NESTED_AT_LIMIT, NESTED_PAST_LIMIT],
        false => [AT_LIMIT, PAST_LIMIT],
    }
}

/// Are all pairs wanted?
fn is_long() -> bool {
    std::env::var_os("RIGHTLINK_DEEP").is_some()
}

/// A third of the productions, another for each of three rounds, each with one of the statements;
/// all with all of them where `RIGHTLINK_DEEP` is set.
fn pairs(round: usize) -> impl Iterator<Item = (&'static Production, &'static str)> {
    let (of_productions, of_statements) = if is_long() { (1, 1) } else { (3, STATEMENTS.len()) };
    let productions = PRODUCTIONS.iter().enumerate().skip(round % of_productions);
    productions.step_by(of_productions).flat_map(move |(at, production)| {
        let statements = STATEMENTS.iter().skip(at % of_statements).step_by(of_statements);
        statements.map(move |statement| (production, *statement))
    })
}

/// Runs every pair of a round at its limit and past it with one session.
fn run_all(db: &Database, round: usize) {
    let mut session = Session::new(db);
    for (production, statement) in pairs(round) {
        for levels in levels(production) {
            run(&mut session, &statement.replace('@', &production.expression(levels)));
        }
        clean(&mut session);
        assert_eq!(session.execute("select 1").unwrap()[0].rows.len(), 1, "{statement}");
    }
}

#[test]
fn every_statement_ends_on_a_stack_for_every_message() {
    let (_dir, db) = open();
    thread::on_stack("session", STACK, || run_all(&db, 0)).unwrap();
    assert!(db.verify().unwrap().is_clean());
}

/// As on a thread of an async runtime, or on less.
#[test]
fn every_statement_ends_on_a_small_stack() {
    let (_dir, db) = open();
    for (round, size) in [(1, 2 << 20), (2, 768 << 10)] {
        thread::on_stack("session", size, || run_all(&db, round)).unwrap();
    }
    assert!(db.verify().unwrap().is_clean());
}

/// What is supported works up to the limit, and past it is refused as too deep.
#[test]
fn chains_work_up_to_the_limit() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    let works = [
        "sum",
        "product",
        "concatenation",
        "and",
        "or",
        "is null",
        "in",
        "cast",
        "at time zone",
        "any",
    ];
    for production in PRODUCTIONS.iter().filter(|one| works.contains(&one.name)) {
        let ask = |levels| format!("select count(({})) from t", production.expression(levels));
        assert_eq!(run(&mut session, &ask(1_000)), None, "{}", production.name);
        assert_eq!(run(&mut session, &ask(PAST_LIMIT)), Some("54001"), "{}", production.name);
        assert_eq!(run(&mut session, &ask(100_000)), Some("54001"), "{}", production.name);
    }
    // PostgreSQL reads no chain of comparisons either: they are not associative.
    for production in PRODUCTIONS.iter().filter(|one| ["equality", "between"].contains(&one.name)) {
        let sql = format!("select {} from t", production.expression(2));
        assert_eq!(run(&mut session, &sql), Some("42601"), "{}", production.name);
    }
    for name in ["sum", "concatenation", "and", "or", "is null", "cast"] {
        let production = PRODUCTIONS.iter().find(|one| one.name == name).unwrap();
        let sql = format!("select {} from t", production.expression(AT_LIMIT));
        assert_eq!(run(&mut session, &sql), None, "{name}");
        let sql = format!("prepare p as {sql}; execute p; explain {sql}; deallocate p");
        assert_eq!(run(&mut session, &sql), None, "{name}: each by itself counts");
    }
    let chain = format!("v{}", "+1".repeat(450));
    for sql in [
        format!("alter table t add constraint kept check ({chain} > 0)"),
        format!("alter table t alter column v set default 1{}", "+1".repeat(450)),
    ] {
        assert_eq!(run(&mut session, &sql), None, "{}", &sql[..60]);
    }
    let sql = "insert into t (b) values (true)";
    assert_eq!(run(&mut session, sql), None);
    let small = thread::on_stack("small", 768 << 10, || run(&mut Session::new(&db), sql));
    assert_eq!(small.unwrap(), None, "kept definitions have the stack they need");
    let sql = format!("alter table t add constraint deep check (v{} > 0)", "+1".repeat(501));
    assert_eq!(run(&mut session, &sql), Some("54001"), "a table keeps no deeper one");
    assert!(db.verify().unwrap().is_clean());
}

/// Assignments to elements of one column nest, with the values that they are given inside.
#[test]
fn assignments_to_elements_have_a_limit() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    let all = |count: usize, value: &str| {
        let one = |at: usize| format!("a[{at}] = {value}");
        format!("update t set {}", (1..=count).map(one).collect::<Vec<_>>().join(", "))
    };
    assert_eq!(run(&mut session, &all(1_664, "v")), None);
    assert_eq!(run(&mut session, &all(1_665, "v")), Some("54011"));
    let deep = |levels: usize| format!("{}, a[1] = v{}", all(1_600, "v"), "+1".repeat(levels));
    assert_eq!(run(&mut session, &deep(3_300)), None);
    assert_eq!(run(&mut session, &deep(3_500)), Some("54001"));
    let rows = session.execute("select array_length(a, 1), a[1] from t order by v").unwrap();
    assert_eq!(format!("{:?}", rows[0].rows[0]), "[Int4(1664), Int4(3301)]");
    assert!(db.verify().unwrap().is_clean());
}

/// Holds the deepest use of stack of each message against what the session reckons with. The
/// figures are printed.
#[test]
#[cfg(target_os = "linux")]
fn what_a_message_takes_is_less_than_its_stack() {
    let (_dir, db) = open();
    let (mut deepest_chain, mut deepest_nesting) = (0, 0);
    // One of the statements for each production, or all.
    let apart = if is_long() { 1 } else { 7 };
    for (at, production) in PRODUCTIONS.iter().enumerate() {
        let [levels, _] = levels(production);
        let expression = production.expression(levels);
        let mut most = (0, "");
        for statement in [
            "select @ from t",
            "explain select 1 from t where @",
            "prepare p as update t set v = @ where @",
            "create table made (v int, b bool, t text, w timestamptz, check (@))",
            "copy (select @ from t) to stdout",
            "select * from (select @ from t) a",
            "begin; declare c cursor for select @ from t; fetch all from c",
        ]
        .iter()
        .skip(at % apart)
        .step_by(apart)
        {
            let sql = statement.replace('@', &expression);
            // Larger than what the system keeps of stacks for the next thread.
            let used = thread::on_stack("measured", 64 << 20 | STACK, || {
                let mut session = Session::new(&db);
                let before = stack::deepest().unwrap();
                run(&mut session, &sql);
                clean(&mut session);
                drop(session);
                stack::deepest().unwrap() - before
            });
            most = most.max((used.unwrap(), statement));
        }
        let (name, kib) = (production.name, most.0 >> 10);
        println!("{name:22} {levels:5} {kib:6} KiB {:6} B  {}", most.0 / levels, most.1);
        let deepest = if production.nests { &mut deepest_nesting } else { &mut deepest_chain };
        *deepest = most.0.max(*deepest);
    }
    let least = if cfg!(debug_assertions) { 8 << 20 } else { 1_280 << 10 };
    println!("{deepest_chain} of {STACK}, {deepest_nesting} of {least}");
    assert!(deepest_chain < STACK * 4 / 5, "{deepest_chain} of {STACK}");
    assert!(deepest_nesting < least * 4 / 5, "{deepest_nesting} of {least}");
}
