//! DO blocks: what they tell, and that a cancel or a limit ends the whole of them.

use crate::asked::{one, open};
use rightlink_sql::Session;

/// The notices of a statement.
fn told(session: &mut Session, sql: &str) -> Vec<String> {
    session.execute(sql).unwrap().into_iter().flat_map(|outcome| outcome.notices).collect()
}

#[test]
fn messages_are_told_from_the_level_on_that_the_session_says() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    let raise = "do $$ begin raise debug 'd'; raise log 'l'; raise info 'i %', null; \
                 raise notice '100 %%'; raise notice 'n % of %', 1, 'two'; \
                 raise warning 'w'; end $$";
    let expected = ["INFO:  i <NULL>", "NOTICE:  100 %", "NOTICE:  n 1 of two", "WARNING:  w"];
    assert_eq!(told(&mut session, raise), expected);
    session.execute("set client_min_messages = warning").unwrap();
    assert_eq!(told(&mut session, raise), ["INFO:  i <NULL>", "WARNING:  w"]);
    assert!(told(&mut session, "drop table if exists none").is_empty());
    assert!(told(&mut session, "do $$ begin drop table if exists none; end $$").is_empty());
    session.execute("set client_min_messages = debug1").unwrap();
    assert_eq!(told(&mut session, raise).len(), 6);
    let notices = told(&mut session, "do $$ begin drop table if exists none; end $$");
    assert_eq!(notices, ["NOTICE:  table \"none\" does not exist, skipping"]);
}

/// No handler goes on from a cancel: OTHERS is not for it, and what its block did goes with the
/// statement.
#[test]
fn a_timeout_ends_the_whole_block() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table t (a int)").unwrap();
    session.execute("set statement_timeout = 200").unwrap();
    let error = session
        .execute(
            "do $$ begin insert into t values (1); begin perform pg_sleep(60);
               exception when others then insert into t values (2); end; end $$",
        )
        .unwrap_err();
    assert_eq!((error.sqlstate, error.position), ("57014", None), "{error}");
    assert!(error.message.contains("statement timeout"), "{error}");
    session.execute("set statement_timeout = 0").unwrap();
    assert_eq!(one(&mut session, "select count(*) from t"), "0");
    drop(session);
    assert!(db.verify().unwrap().is_clean());
}

/// A block may run itself by way of EXECUTE, and blocks may stand in one another.
#[test]
fn nesting_is_bounded() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    let deep = |count: usize| {
        format!("do $$ {} null; {} $$", "begin ".repeat(count), "end; ".repeat(count))
    };
    session.execute(&deep(50)).unwrap();
    let itself = "do 'begin execute query from pg_stat_activity where pid = pg_backend_pid(); end'";
    for sql in [itself, &deep(51), &deep(100_000)] {
        let error = session.execute(sql).unwrap_err();
        assert_eq!(error.sqlstate, "54001", "{error}");
    }
    // Afterwards blocks run as before.
    session.execute("do 'begin execute ''do ''''begin null; end''''''; end'").unwrap();
}

/// A block is a statement as any other to a driver that prepares what it sends.
#[test]
fn a_block_is_prepared_and_run_again() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table t (a int)").unwrap();
    let insert = "do $$ begin insert into t select count(*) from t; end $$";
    for _ in 0..3 {
        assert_eq!(session.execute_with(insert, Vec::new()).unwrap().tag, "DO");
        assert_eq!(session.execute(insert).unwrap()[0].tag, "DO");
    }
    assert_eq!(one(&mut session, "select array_agg(a order by a) from t"), "{0,1,2,3,4,5}");
    let error =
        session.execute("insert into t values (9); do $$ begin vacuum; end $$").unwrap_err();
    assert_eq!(error.sqlstate, "25001", "{error}");
    assert_eq!(one(&mut session, "select count(*) from t"), "6");
    drop(session);
    assert!(db.verify().unwrap().is_clean());
}

/// Each block in random code with handlers leaves what it did, or all of it is gone: the rows are
/// those of a model.
#[test]
fn handlers_take_back_what_their_blocks_did() {
    use rightlink_env::Rng;
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table t (a int primary key)").unwrap();
    let mut random = Rng::from_seed(7);
    let mut kept: Vec<u64> = Vec::new();
    for turn in 0..200 {
        let mut code = Code { random: &mut random, text: String::new() };
        let mut rows = kept.clone();
        let result = code.block(&mut rows, 3);
        let sql = format!("do $code$ {} $code$", code.text);
        match session.execute(&sql) {
            Ok(_) => {
                assert!(result.is_ok(), "turn {turn}: {sql}");
                kept = rows;
            }
            Err(error) => {
                assert_eq!(Err(error.sqlstate), result, "turn {turn}: {sql}");
            }
        }
        kept.sort_unstable();
        let found = one(&mut session, "select coalesce(array_agg(a order by a), '{}') from t");
        assert_eq!(
            found,
            format!("{{{}}}", kept.iter().map(u64::to_string).collect::<Vec<_>>().join(","))
        );
    }
    drop(session);
    assert!(db.verify().unwrap().is_clean());
}

/// Random code, and what it does to a model of the table.
struct Code<'a> {
    random: &'a mut rightlink_env::Rng,
    text: String,
}

impl Code<'_> {
    fn block(&mut self, rows: &mut Vec<u64>, depth: u32) -> Result<(), &'static str> {
        let before = rows.clone();
        self.text.push_str("begin ");
        let done = self.steps(rows, depth);
        let handler = [None, Some(("others", "")), Some(("unique_violation", "23505"))]
            [self.random.below(3) as usize];
        let result = match (done, handler) {
            (Err(code), Some((name, wanted))) => {
                self.text.push_str(&format!("exception when {name} then "));
                match wanted.is_empty() || wanted == code {
                    true => {
                        *rows = before;
                        self.insert(rows)
                    }
                    false => {
                        // It is not reached.
                        let _ = self.insert(&mut Vec::new());
                        Err(code)
                    }
                }
            }
            (done, Some((name, _))) => {
                self.text.push_str(&format!("exception when {name} then null; "));
                done
            }
            (done, None) => done,
        };
        self.text.push_str("end; ");
        result
    }

    fn steps(&mut self, rows: &mut Vec<u64>, depth: u32) -> Result<(), &'static str> {
        let mut result = Ok(());
        for _ in 0..1 + self.random.below(3) {
            // What stands behind an error is not reached.
            let mut unreached = rows.clone();
            let place = if result.is_ok() { &mut *rows } else { &mut unreached };
            let done = match self.random.below(4) {
                0 if depth > 0 => self.block(place, depth - 1),
                1 => {
                    self.text.push_str("perform 1 / 0; ");
                    Err("22012")
                }
                _ => self.insert(place),
            };
            result = result.and(done);
        }
        result
    }

    fn insert(&mut self, rows: &mut Vec<u64>) -> Result<(), &'static str> {
        let row = self.random.below(60);
        self.text.push_str(&format!("insert into t values ({row}); "));
        if rows.contains(&row) {
            return Err("23505");
        }
        rows.push(row);
        Ok(())
    }
}
