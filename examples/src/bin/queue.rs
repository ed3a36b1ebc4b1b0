//! A queue of jobs in a table: workers take the oldest job that no other worker holds.
//!
//! `FOR UPDATE SKIP LOCKED` makes workers independent of each other: a job that another worker has
//! locked is passed over. A job and its result change in one transaction, so a worker that dies
//! gives its job back. Run it with `cargo run -p rightlink-examples --bin queue`.
//!
//! Does not do: retries with delays, dead letters.
#![expect(clippy::print_stdout, reason = "a program for people")]

use std::error::Error;
use std::thread;

use rightlink::Database;
use rightlink_sql::{Datum, Session, SqlError};

const JOBS: i64 = 200;
const WORKERS: i64 = 4;

const TAKE: &str = "select id, payload from job where state = 'waiting' order by id limit 1 \
                    for update skip locked";

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let db = Database::open(dir.path())?;
    let mut session = Session::new(&db);
    session.execute(
        "create table job (id bigint primary key, payload text not null,
             state text not null default 'waiting' check (state in ('waiting', 'done')),
             worker bigint);
         create index job_waiting on job (id) where state = 'waiting'",
    )?;
    for id in 1..=JOBS {
        let values = vec![Datum::Int8(id), Datum::Text(format!("mail {id}"))];
        session.execute_with("insert into job (id, payload) values ($1, $2)", values)?;
    }

    let done = thread::scope(|scope| {
        let spawn = |worker| {
            let db = &db;
            thread::Builder::new().spawn_scoped(scope, move || work(db, worker))
        };
        let workers: Vec<_> = (1..=WORKERS).map(spawn).collect::<Result<_, _>>()?;
        let ended = workers.into_iter().map(|worker| worker.join().expect("no worker panics"));
        ended
            .collect::<Result<Vec<i64>, Box<dyn Error + Send + Sync>>>()
            .map_err(|e| e as Box<dyn Error>)
    })?;
    println!("{JOBS} jobs, by worker: {done:?}");
    assert_eq!(done.iter().sum::<i64>(), JOBS, "every job is done once");

    let left = session.execute("select count(*) from job where state = 'waiting'")?;
    assert_eq!(left[0].rows[0][0], Datum::Int8(0));
    assert!(db.verify()?.is_clean());
    drop(session);
    db.close()?;
    Ok(())
}

/// Takes jobs until none waits; gives how many it did.
fn work(db: &Database, worker: i64) -> Result<i64, Box<dyn Error + Send + Sync>> {
    let mut session = Session::new(db);
    let mut done = 0;
    loop {
        session.execute("begin")?;
        match take_one(&mut session, worker) {
            Ok(true) => done += 1,
            // Every waiting job is held by another worker, or there is none.
            Ok(false) => {
                session.execute("commit")?;
                return Ok(done);
            }
            Err(error) => {
                session.execute("rollback")?;
                return Err(error.into());
            }
        }
        session.execute("commit")?;
    }
}

/// One job in the session's transaction; false where none is free.
fn take_one(session: &mut Session, worker: i64) -> Result<bool, SqlError> {
    let taken = session.execute_with(TAKE, Vec::new())?;
    let Some(job) = taken.rows.into_iter().next() else { return Ok(false) };
    // The work itself belongs here, within the transaction that holds the job.
    let values = vec![Datum::Int8(worker), job[0].clone()];
    session.execute_with("update job set state = 'done', worker = $1 where id = $2", values)?;
    Ok(true)
}
