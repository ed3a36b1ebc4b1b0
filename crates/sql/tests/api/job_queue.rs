//! Queues in tables: workers take rows by queries with FOR UPDATE inside of the statement that
//! changes them.

use crate::asked::{one, open};
use rightlink_env::thread::spawn;
use rightlink_sql::Session;

const JOBS: usize = 200;

/// Every job goes to one worker, whichever way it asks.
#[test]
fn workers_take_every_job_once() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    let columns = "id int primary key, worker int, at int default 0";
    session.execute(&format!("create table jobs ({columns})")).unwrap();
    session
        .execute(&format!("insert into jobs select g from generate_series(1, {JOBS}) g"))
        .unwrap();
    let forms = [
        "update jobs set worker = $1, at = at + 1 where id = (select id from jobs
           where worker is null order by id limit 1 for update skip locked) returning id",
        "with t as (update jobs set worker = $1, at = at + 1 where id in (select id from jobs
           where worker is null limit 2 for update skip locked) returning id) select id from t",
        "with q as (select id from jobs where worker is null order by id limit 1 for update)
           update jobs set worker = $1, at = at + 1 from q where q.id = jobs.id returning jobs.id",
        "update jobs j set worker = $1, at = at + 1 from (select id from jobs where worker is null
           limit 3 for no key update skip locked) q where q.id = j.id returning j.id",
    ];
    let work = |(at, form): (usize, &'static str)| {
        let db = db.clone();
        spawn(&format!("worker-{at}"), move || {
            let mut session = Session::new(&db);
            let text = form.replace("$1", &at.to_string());
            let mut taken = 0;
            loop {
                let rows = session.execute(&text).unwrap().remove(0).rows.len();
                match rows {
                    0 if one(&mut session, "select count(*) from jobs where worker is null")
                        == "0" =>
                    {
                        return taken;
                    }
                    rows => taken += rows,
                }
            }
        })
    };
    let workers: Vec<_> = forms.into_iter().enumerate().map(work).collect();
    let taken: usize = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
    assert_eq!(taken, JOBS);
    assert_eq!(one(&mut session, "select count(*), min(at), max(at) from jobs"), "200|1|1");
    drop(session);
    assert!(db.verify().unwrap().is_clean());
}

/// Who waits for a row that somebody else then takes goes on to the next one.
#[test]
fn a_job_that_went_while_it_was_waited_for_is_not_taken() {
    let (_dir, db) = open();
    let mut first = Session::new(&db);
    first.execute("create table jobs (id int primary key, worker int)").unwrap();
    first.execute("insert into jobs values (1), (2), (3)").unwrap();
    let take = |worker: u32| {
        format!(
            "update jobs set worker = {worker} where id = (select id from jobs where worker is null
               order by id limit 1 for update) returning id"
        )
    };
    first.execute("begin").unwrap();
    assert_eq!(one(&mut first, &take(1)), "1");
    let other = db.clone();
    let second = take(2);
    let waiting = spawn("waiting", move || one(&mut Session::new(&other), &second));
    let mut third = Session::new(&db);
    while one(&mut third, "select count(*) from pg_locks where not granted") == "0" {
        std::thread::yield_now();
    }
    first.execute("commit").unwrap();
    assert_eq!(waiting.join().unwrap(), "2");
    assert_eq!(one(&mut third, "select array_agg(worker order by id) from jobs"), "{1,2,NULL}");
    drop((first, third));
    assert!(db.verify().unwrap().is_clean());
}
