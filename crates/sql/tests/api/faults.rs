//! Faults at every operator: devices that fail or are full, memory that is not there, statements
//! that are not wanted any more. Each ends its statement with its error and nothing else.

use rightlink::Database;
use rightlink_aio::SimDisk;
use rightlink_aio::sim::{CrashChoice, FaultKind, OpKind, Repeat};
use rightlink_env::sync::{Arc, AtomicBool, Ordering};
use rightlink_env::{Env, thread};
use rightlink_sql::{Reason, Session};

use crate::spill::{fill, rows, statements};

fn simulated(disk: &SimDisk) -> Database {
    let options = Database::options().memory(16 << 20).pool_pages(96).auto_vacuum(false);
    options.simulation(Env::simulated(1), disk.clone()).open("").unwrap()
}

/// Names of temporary files.
fn temporary(disk: &SimDisk) -> Vec<String> {
    disk.files().into_iter().map(|(name, _)| name).filter(|name| name.contains("tmp/")).collect()
}

/// Reads of tables and reads and writes of temporary files that fail, and files that find no room.
#[test]
fn a_device_that_fails_ends_the_statement_only() {
    let disk = SimDisk::new(1);
    let db = simulated(&disk);
    let mut session = Session::new(&db);
    fill(&mut session, 7);
    session.execute("set work_mem = '64kB'").unwrap();
    let mut failed = 0;
    for (number, sql) in statements().into_iter().enumerate() {
        // One of the kinds for each statement, and another for the next.
        let faults = [
            (OpKind::Read, FaultKind::Io, "58030"),
            (OpKind::Write, FaultKind::NoSpace, "53100"),
            (OpKind::Write, FaultKind::Io, "58030"),
            (OpKind::Open, FaultKind::Io, "58030"),
        ];
        for (op, kind, expected) in faults {
            db.evict().unwrap();
            let before = disk.calls(op);
            session.execute(&sql).unwrap();
            let calls = disk.calls(op) - before;
            let steps = 1 + (number as u64 % 3);
            for step in 0..steps.min(calls) {
                db.evict().unwrap();
                let (nth, before) = (calls * step / steps, disk.calls(op));
                disk.fail_nth(op, nth, kind, Repeat::Forever);
                let result = session.execute(&sql);
                let was_met = disk.calls(op) - before > nth;
                disk.clear_faults();
                match result {
                    Err(error) => {
                        failed += 1;
                        let what = format!("{op:?} {kind:?} {step}: {sql}: {error:?}");
                        assert_eq!(error.sqlstate, expected, "{what}");
                    }
                    // What wrote the time before were pages of tables on their way out, and of what
                    // was read then some pages may still be there.
                    Ok(_) => assert!(op != OpKind::Read || !was_met, "{step}: {sql}"),
                }
                assert_eq!(temporary(&disk), Vec::<String>::new(), "{sql}");
            }
        }
        session.execute(&sql).unwrap();
    }
    assert!(failed > 60, "{failed} statements failed");
    assert!(db.verify().unwrap().is_clean());
}

/// Whatever memory there is, a statement gives its rows or fails with `53200`.
#[test]
fn a_statement_makes_do_with_its_memory_or_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().memory(24 << 20).open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    fill(&mut session, 3);
    for sql in statements() {
        let expected = rows(&mut session, &sql);
        let all = db.budget().available();
        let mut enough = 0;
        for left in [40 << 10, 150 << 10, 400 << 10, 1 << 20, 3 << 20] {
            let taken = db.budget().try_reserve(all.saturating_sub(left));
            let taken = taken.expect("it is there");
            match session.execute(&sql) {
                Ok(outcomes) => {
                    let mut found: Vec<String> =
                        outcomes[0].rows.iter().map(|row| format!("{row:?}")).collect();
                    found.sort_unstable();
                    assert_eq!(found, expected, "{left} bytes: {sql}");
                    enough = left;
                }
                Err(error) => assert_eq!(error.sqlstate, "53200", "{left} bytes: {sql}"),
            }
            drop(taken);
        }
        assert_eq!(enough, 3 << 20, "three megabytes are enough: {sql}");
        assert!(db.budget().available() + (1 << 20) >= all, "nothing stays reserved: {sql}");
    }
}

/// Statements that would take hours, one for each operator.
const LONG: [&str; 29] = [
    "select count(*) from generate_series(1, 1000000000) g",
    "select count(*) from s a, s b, s c where a.g + b.g + c.g < 0",
    "select count(*) from s a left join s b on a.g < b.g + 0.5 and b.g < 0 join s c on c.g > a.g",
    "select count(*) from s a full join s b on a.g % 2 = b.g % 2",
    "select count(*) from s a join s b on a.g % 2 = b.g % 2 and a.g + b.g < 0",
    "select count(*) from s a where exists \
         (select from s b where a.g % 2 = b.g % 2 and b.g < -a.g)",
    "select count(*) from s a where not exists (select from s b where a.g < b.g and b.g < -a.g)",
    "select count(*) from generate_series(1, 100000000) a join generate_series(1, 100000000) b \
         on a = b",
    "select count(*) from s a, lateral (select count(*) from s b where b.g < a.g) c",
    "select count(*) from generate_series(1, 100000000) a join s on s.id = a % 1000",
    "select count(*) from s a, s b where (select max(c.g) from s c where c.g < a.g + b.g) < 0",
    "select count(*) from s a, s b where a.g + b.g not in (select c.g * 2.5 from s c)",
    "select g % 7, count(*), sum(g) from generate_series(1, 1000000000) g group by 1",
    "select g, count(*) from generate_series(1, 1000000000) g group by g",
    "select distinct g from generate_series(1, 1000000000) g offset 900000000",
    "select distinct on (g) g from generate_series(1, 1000000000) g offset 900000000",
    "select g from generate_series(1, 1000000000) g order by -g",
    "select g from generate_series(1, 1000000000) g order by -g limit 5",
    "select max(n) from (select row_number() over () n from generate_series(1, 1000000000)) w",
    "select sum(g) over (partition by g % 2) from generate_series(1, 100000000) g",
    "select g from generate_series(1, 100000000) g except all select g from \
         generate_series(1, 100000000) g",
    "select g from generate_series(1, 100000000) g intersect select g from \
         generate_series(1, 100000000) g",
    "select max(g) over (order by g rows between 3 preceding and 9000 following) \
         from generate_series(1, 100000000) g",
    "select count(*) filter (where lag > 0) from (select lag(g, g::int % 900) over () \
         from generate_series(1, 300000) g) w (lag), s where lag < g",
    "with recursive r as (select 1 as n union all select n + 1 from r) select count(*) from r",
    "with recursive r as (select 1 as n union select n + 1 from r) select count(*) from r",
    "with recursive r as (select g as n from generate_series(1, 1000) g union \
         select n * 3 % 100000007 from r) select count(*) from r",
    "select count(*) from s a, s b where a.g + b.g > 0 and a.g * b.g not in (select c.g from s c)",
    "with c as materialized (select g from generate_series(1, 100000000) g) \
         select count(*) from c a, c b where a.g + b.g < 0",
];

/// A table, for statements that take long.
fn series(session: &mut Session) {
    let sql = "create table s (id int primary key, g bigint); \
               insert into s select g, g from generate_series(1, 20000) g";
    session.execute(sql).unwrap();
}

#[test]
fn every_operator_ends_when_its_time_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().memory(64 << 20).open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    series(&mut session);
    session.execute("set statement_timeout = '100ms'").unwrap();
    let clock = rightlink_env::Clock::system();
    for memory in ["reset work_mem", "set work_mem = '64kB'"] {
        session.execute(memory).unwrap();
        for sql in LONG {
            let begun = clock.now();
            let error = session.execute(sql).expect_err(sql);
            let spent = clock.now().since(begun);
            println!("{spent:?} {sql}");
            assert!(matches!(error.sqlstate, "57014" | "53200"), "{error:?} {sql}");
            assert!(spent < std::time::Duration::from_secs(1), "{spent:?} {sql}");
            let left = std::fs::read_dir(dir.path().join("tmp")).unwrap().count();
            assert_eq!(left, 0, "{sql}");
        }
    }
}

/// A cancel while rows go to files.
#[test]
fn a_cancel_in_the_middle_of_a_spill_leaves_no_files() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let tmp = dir.path().join("tmp");
    let files = || std::fs::read_dir(&tmp).unwrap().count();
    let (series, other) = ("generate_series(1, 100000000) g", "generate_series(1, 100000000) h");
    for sql in [
        format!("select count(*) from {series} join {other} on g = h"),
        format!("select count(*) from {series} left join {other} on g < -h"),
        format!("select g from {series} intersect select g from {series}"),
        format!("with c as materialized (select g from {series}) select count(*) from c"),
        format!("select distinct g from {series} offset 90000000"),
        format!("select g, count(*) from {series} group by g"),
        format!("select g from {series} order by -g"),
    ] {
        let mut session = Session::new(&db);
        session.execute("set work_mem = '64kB'").unwrap();
        let interrupt = session.interrupt();
        let ended = Arc::new(AtomicBool::new(false));
        let tell = Arc::clone(&ended);
        let runs = thread::spawn("session", move || {
            let result = session.execute(&sql).map(drop);
            tell.store(true, Ordering::SeqCst);
            (result, sql)
        });
        while !ended.load(Ordering::SeqCst) {
            if files() > 0 {
                interrupt.raise(Reason::Request);
            }
            thread::yield_now();
        }
        let (result, sql) = runs.join().unwrap();
        assert_eq!(result.expect_err(&sql).sqlstate, "57014", "{sql}");
        assert_eq!(files(), 0, "{sql}");
    }
}

/// Files of a process that was killed are gone when the database is opened.
#[test]
fn files_of_a_killed_process_are_gone_at_open() {
    let disk = SimDisk::new(1);
    let db = simulated(&disk);
    let mut session = Session::new(&db);
    fill(&mut session, 7);
    session
        .execute(
            "set work_mem = '64kB'; begin; \
             declare c cursor for select * from a \
             join (select b.* from b, generate_series(1, 8)) c on a.k = c.k; fetch 1 from c",
        )
        .unwrap();
    assert!(!temporary(&disk).is_empty(), "the join uses files");
    let left = disk.crash_image(&CrashChoice::AllKept);
    assert!(!temporary(&left).is_empty(), "they are there after the kill");
    let db = simulated(&left);
    assert_eq!(temporary(&left), Vec::<String>::new());
    assert!(db.verify().unwrap().is_clean());
    session.execute("close c").unwrap();
    assert_eq!(temporary(&disk), Vec::<String>::new(), "they go with the cursor");
}
