//! Rows of joins and views that are locked, and statements in WITH that write, where another
//! transaction has changed a row first: the answers are those of PostgreSQL 15.
//!
//! Does not do: one session alone (`../slt/joined_locks.slt`, `../slt/writing_with.slt`).

use crate::asked::{after_wait, one, open};
use rightlink_sql::Session;

/// What one session does in a transaction, the statement that waits for it in another session, what
/// this one gives, and all rows of `t` afterwards.
const CASES: &[(&str, &str, &str, &str)] = &[
    (
        "update t set v = 11 where id = 1",
        "select t.id, t.v, s.d from t join s using (k) order by 1, 3 for update of t",
        "1|11|100 1|11|100 2|20|200",
        "1|1|11 2|2|20 3|3|30",
    ),
    (
        "update t set k = 9 where id = 1",
        "select t.id, t.v, s.d from t join s on s.k = t.k order by 1, 3 for update of t",
        "2|20|200",
        "1|9|10 2|2|20 3|3|30",
    ),
    (
        "update s set d = 5 where k = 2",
        "select t.id, s.d from t join s using (k) order by 1 for update of s",
        "1|100 1|100 2|5",
        "1|1|10 2|2|20 3|3|30",
    ),
    (
        "update s set d = 5, k = 3 where k = 2",
        "select t.id, s.d from t join s using (k) order by 1 for update",
        "1|100 1|100",
        "1|1|10 2|2|20 3|3|30",
    ),
    (
        "delete from t where id = 2",
        "select t.id, s.d from t, s where t.k = s.k order by 1 for share of t",
        "1|100 1|100",
        "1|1|10 3|3|30",
    ),
    (
        "update t set k = 9 where id = 1",
        "select t.id from t join s on s.k = t.k order by t.id, s.d limit 1 for update of t",
        "2",
        "1|9|10 2|2|20 3|3|30",
    ),
    (
        "update t set v = 99 where id = 1",
        "select t.id, v from t join u on u.k = 1 order by v limit 2 for update of t",
        "1|99 2|20",
        "1|1|99 2|2|20 3|3|30",
    ),
    (
        "update t set v = 60 where id = 1",
        "select id, v from tv order by id for update",
        "2|20 3|30",
        "1|1|60 2|2|20 3|3|30",
    ),
    (
        "update t set v = 60 where id = 1",
        "select tv.id, v, x from tv, u where u.k = 9 order by 1 for update of tv",
        "2|20|70 3|30|70",
        "1|1|60 2|2|20 3|3|30",
    ),
    (
        "update t set v = 11 where id = 2",
        "select t.id, t.v, u.x from t left join u on u.k = t.k order by 1 for update of t",
        "1|10|7 2|11|NULL 3|30|NULL",
        "1|1|10 2|2|11 3|3|30",
    ),
    (
        "update t set k = 2 where id = 1",
        "select * from sv order by id, d for update",
        "2|200",
        "1|2|10 2|2|20 3|3|30",
    ),
    (
        "update t set v = 11, k = 3 where id = 2",
        "select a.id, b.id, b.v from t a join t b on b.k = a.k + 1 order by 1 for update of b",
        "2|3|30",
        "1|1|10 2|3|11 3|3|30",
    ),
    (
        "update t set v = 11 where id = 1",
        "begin isolation level repeatable read; select t.id from t join s using (k) \
         order by 1 for update of t",
        "40001",
        "1|1|11 2|2|20 3|3|30",
    ),
    (
        "update t set v = 45 where id = 1",
        "select t.id, (select count(*) from s where s.k = t.k and s.d > t.v) as c from t \
         join u on true where u.k = 1 and exists (select 1 from s where s.k = 2 and s.d > t.v * 5) \
         order by 1 for update of t",
        "2|1 3|0",
        "1|1|45 2|2|20 3|3|30",
    ),
    (
        "update t set v = 60 where id = 1",
        "update tv set v = v + 1 returning *",
        "2|21 3|31",
        "1|1|60 2|2|21 3|3|31",
    ),
    (
        "update t set v = 60 where id = 1",
        "delete from tv where id < 3 returning id",
        "2",
        "1|1|60 3|3|30",
    ),
    (
        "update t set v = 11 where id = 1",
        "with x as (update t set v = v + 1 where v < 25 returning id, v) select * from x \
         order by id",
        "1|12 2|21",
        "1|1|12 2|2|21 3|3|30",
    ),
    (
        "update t set k = 5 where id = 1",
        "with x as (delete from t where k < 3 returning id) insert into u select id + \
         100, 1 from x returning k",
        "102",
        "1|5|10 3|3|30",
    ),
    (
        "delete from t where id = 1",
        "with x as (update t set v = v + 1 returning id), y as (insert into u select id \
         + 10, 0 from x returning k) select k from y order by 1",
        "12 13",
        "2|2|21 3|3|31",
    ),
];

const SETUP: &str = "create table t (id int primary key, k int, v int); \
    create table s (k int, d int); create table u (k int primary key, x int); \
    insert into t values (1, 1, 10), (2, 2, 20), (3, 3, 30); \
    insert into s values (1, 100), (1, 100), (2, 200), (9, 900); \
    insert into u values (1, 7), (9, 70); \
    create view tv as select id, v from t where v < 50; \
    create view sv as select t.id, s.d from t join s using (k)";

/// All conditions are asked again of the newest version of a row that had to be waited for.
#[test]
fn a_changed_row_is_locked_or_written_as_it_is_now() {
    for (first, second, wanted, rows) in CASES {
        let (_dir, db) = open();
        let mut holder = Session::new(&db);
        holder.execute(SETUP).unwrap();
        assert_eq!(after_wait(&db, &mut holder, first, second), *wanted, "{first}; {second}");
        assert_eq!(one(&mut holder, "select * from t order by id"), *rows, "{second}");
        drop(holder);
        assert!(db.verify().unwrap().is_clean());
    }
}

/// Busy rows are skipped with their partners, or fail the statement.
#[test]
fn busy_rows_of_a_join_are_skipped_or_refused() {
    let (_dir, db) = open();
    let (mut holder, mut other) = (Session::new(&db), Session::new(&db));
    holder.execute(SETUP).unwrap();
    holder.execute("begin; update t set v = 11 where id = 1").unwrap();
    let query = "select t.id, s.d from t join s using (k) order by 1, 2 for update of t";
    assert_eq!(one(&mut other, &format!("{query} skip locked")), "2|200");
    assert_eq!(other.execute(&format!("{query} nowait")).unwrap_err().sqlstate, "55P03");
    let of_others = "select t.id, s.d from t join s using (k) order by 1, 2 for update of s nowait";
    assert_eq!(one(&mut other, of_others), "1|100 1|100 2|200");
    other.execute("begin").unwrap();
    assert_eq!(one(&mut other, &format!("{query} skip locked")), "2|200");
    let refused = holder.execute("select id from t where id = 2 for update nowait").unwrap_err();
    assert_eq!(refused.sqlstate, "55P03", "the other session has locked the row");
}
