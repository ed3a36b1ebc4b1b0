//! EXPLAIN: what nodes did, and the same as JSON.

use rightlink::Database;
use rightlink_sql::{Datum, Session, SqlType};

fn shown(session: &mut Session, sql: &str) -> String {
    let outcomes = session.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let line = |row: &Vec<Datum>| row[0].to_text().unwrap_or_default();
    outcomes[0].rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn filled() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let sql = "create table p (id int primary key, name text); \
               create table c (id int primary key, p int, v int); \
               create index c_p on c (p); \
               insert into p select g, 'n' || g from generate_series(1, 50) g; \
               insert into c select g, g % 50 + 1, g from generate_series(1, 1000) g";
    Session::new(&db).execute(sql).unwrap();
    (dir, db)
}

#[test]
fn loops_are_counted_and_rows_are_those_of_one_loop() {
    let (_dir, db) = filled();
    let mut session = Session::new(&db);
    let text = shown(
        &mut session,
        "explain (analyze, costs off, timing off, summary off) \
             select * from p, lateral (select v from c where c.p = p.id limit 3) x where p.id <= 4",
    );
    assert!(text.contains("Limit (actual rows=3 loops=4)"), "{text}");
    let text = shown(
        &mut session,
        "explain (analyze, costs off, timing off, summary off) select * from \
             (select id from p union all select v from c) s limit 1",
    );
    assert!(text.contains("never executed"), "{text}");
    let text = shown(
        &mut session,
        "explain (analyze, costs off) with recursive r as (select 1 as n union all \
             select n + 1 from r where n < 10) select * from r",
    );
    assert!(text.contains("Recursive Union (actual time="), "{text}");
    assert!(text.contains("Planning Time: ") && text.contains("Execution Time: "), "{text}");
}

#[test]
fn files_are_told() {
    let (_dir, db) = filled();
    let mut session = Session::new(&db);
    let sql = "explain (analyze, costs off, timing off, summary off) select * from \
               generate_series(1, 20000) g join generate_series(1, 20000) h on g = h \
               order by g + h";
    assert!(!shown(&mut session, sql).contains("Temporary Files"));
    session.execute("set work_mem = '64kB'").unwrap();
    let text = shown(&mut session, sql);
    assert_eq!(text.matches("Temporary Files: used").count(), 2, "{text}");
}

/// As sqlx asks it, by the extended protocol.
#[test]
fn explains_prepared_statements_as_json() {
    let (_dir, db) = filled();
    let mut session = Session::new(&db);
    session.prepare("one", "select v from c where id = $1", &[]).unwrap();
    let asked = "explain (verbose, format json) execute one(null)";
    let columns = session.prepare("two", asked, &[]).unwrap().columns.unwrap();
    assert_eq!((columns[0].name.as_str(), columns[0].ty), ("QUERY PLAN", SqlType::Json));
    session.bind("", "two", Vec::new()).unwrap();
    let mut found = crate::gather::Gather::default();
    session.execute_portal("", 0, &mut found).unwrap();
    assert!(matches!(&found.rows[0][0], Datum::Json(text) if text.contains("Index Scan")));
}

#[test]
fn json_has_postgresql_s_keys_in_its_order() {
    let (_dir, db) = filled();
    let mut session = Session::new(&db);
    let json = shown(
        &mut session,
        "explain (format json, costs off) select p.name, count(*) from p join c on c.p = p.id \
             where c.v > 10 group by p.name order by 2, 1",
    );
    let expected = r#"[
  {
    "Plan": {
      "Node Type": "Sort",
      "Parallel Aware": false,
      "Async Capable": false,
      "Sort Key": [
        "count(*)",
        "p.name"
      ],
      "Plans": [
        {
          "Node Type": "Aggregate",
          "Parent Relationship": "Outer",
          "Parallel Aware": false,
          "Async Capable": false,
          "Strategy": "Hashed",
          "Group Key": ["#;
    // One key of a group to a line.
    assert!(json.starts_with(expected), "{json}");
    let json = shown(
        &mut session,
        "explain (analyze, buffers, format json) select * from c where id = 7 and v > 3",
    );
    for key in [
        "\"Node Type\": \"Index Scan\"",
        "\"Scan Direction\": \"Forward\"",
        "\"Index Name\": \"c_pkey\"",
        "\"Relation Name\": \"c\"",
        "\"Alias\": \"c\"",
        "\"Startup Cost\": 0.",
        "\"Plan Rows\": ",
        "\"Actual Rows\": 1,",
        "\"Actual Loops\": 1,",
        "\"Index Cond\": \"(id = 7)\"",
        "\"Filter\": \"(v > 3)\"",
        "\"Rows Removed by Filter\": 0",
        "\"Shared Hit Blocks\": ",
        "\"Prefetch Distance\": ",
        "\"Prefetch Waits\": ",
        "\"Triggers\": []",
        "\"Execution Time\": ",
    ] {
        assert!(json.contains(key), "{key} in {json}");
    }
    let error = session.execute("explain (format yaml) select 1").unwrap_err();
    assert_eq!(error.sqlstate, "0A000");
    for (option, message) in [
        ("format html", "unrecognized value for EXPLAIN option \"format\": \"html\""),
        ("timing", "EXPLAIN option TIMING requires ANALYZE"),
    ] {
        let error = session.execute(&format!("explain ({option}) select 1")).unwrap_err();
        assert_eq!((error.sqlstate, error.message.as_str()), ("22023", message));
    }
}

/// A switch that is off takes its operator out of plans, those that are kept too.
#[test]
fn the_planner_obeys_its_switches() {
    let (_dir, db) = filled();
    let mut session = Session::new(&db);
    session.execute("analyze").unwrap();
    let join = "select count(*) from p join c on c.p = p.id";
    let mut plan = |settings: &str, sql: &str| {
        session.execute(&format!("reset all; {settings}")).unwrap();
        let count = session.execute(sql).unwrap()[0].rows.clone();
        let text = shown(&mut session, &format!("explain (costs off) {sql}"));
        (text, count)
    };
    for (settings, wanted) in [
        ("set enable_nestloop = off", "Hash Join"),
        ("set enable_hashjoin = off", "Keyed Join"),
        ("set enable_hashjoin = off; set enable_indexscan = off", "Nested Loop"),
    ] {
        let (text, count) = plan(settings, join);
        assert!(text.contains(wanted), "{settings}: {text}");
        assert_eq!(count, [[Datum::Int8(1_000)]], "{settings}");
    }
    let one = "select v from c where id = 5";
    assert!(plan("", one).0.contains("Index Scan using c_pkey"));
    assert!(plan("set enable_indexscan = off", one).0.contains("Seq Scan"));
    let all = "select v from c";
    assert!(plan("set enable_seqscan = off", "select v from c where p > 0").0.contains("Index"));
    assert!(plan("set enable_seqscan = off", all).0.contains("Seq Scan"), "nothing else is left");
    let sorted = "select * from c order by p";
    assert!(plan("set enable_sort = off", sorted).0.contains("Index Scan using c_p"));
    let three = "select count(*) from c a join c b on a.id = b.p join p on p.id = a.id";
    let (text, count) = plan("set join_collapse_limit = 1", three);
    let joined = text.find("on p").unwrap();
    assert!(
        text.find("on c a").unwrap() < joined && text.find("on c b").unwrap() < joined,
        "{text}"
    );
    assert_eq!(plan("", three).1, count);
    let error = session.execute("set join_collapse_limit = 0").unwrap_err();
    assert_eq!(error.sqlstate, "22023");
}

/// Rows in the order of an index stay in it through joins by indexes, and no others.
#[test]
fn an_order_that_an_index_has_goes_through_joins() {
    let (_dir, db) = filled();
    let mut session = Session::new(&db);
    session
        .execute(
            "insert into c select g, g % 50 + 1, g from generate_series(1001, 20000) g; analyze",
        )
        .unwrap();
    let first = |session: &mut Session, sql: &str| -> Vec<Option<String>> {
        let rows = &session.execute(sql).unwrap()[0].rows;
        rows.iter().map(|row| row[0].to_text()).collect()
    };
    for join in ["join", "left join"] {
        let sql = format!(
            "select c.id from c {join} p on p.id = c.p where c.v % 3 = 0 order by c.id desc limit 4"
        );
        let text = shown(&mut session, &format!("explain (costs off) {sql}"));
        assert!(!text.contains("Sort") && text.contains("Backward"), "{text}");
        let expected = ["19998", "19995", "19992", "19989"].map(|id| Some(id.to_owned()));
        for memory in ["reset work_mem", "set work_mem = '64kB'"] {
            session.execute(memory).unwrap();
            assert_eq!(first(&mut session, &sql), expected, "{sql}");
        }
    }
    let many = "select p.id from p join c on c.p = p.id order by p.id limit 1000";
    session.execute("set work_mem = '64kB'; set enable_hashjoin = off").unwrap();
    let found = first(&mut session, many);
    let expected: Vec<Option<String>> =
        (0..1_000).map(|at| Some((1 + at / 400).to_string())).collect();
    assert_eq!(found, expected);
    // The first key has an index, and rows that agree in it are sorted.
    let sql = "select id from c where v > 7 order by p, v desc limit 3";
    for (settings, incremental) in [("on", true), ("off", false)] {
        session.execute(&format!("set enable_incremental_sort = {settings}")).unwrap();
        let text = shown(&mut session, &format!("explain (costs off) {sql}"));
        assert_eq!(text.contains("Presorted Key: p"), incremental, "{text}");
        let expected = ["20000", "19950", "19900"].map(|id| Some(id.to_owned()));
        assert_eq!(first(&mut session, sql), expected);
    }
    // A source with an order of its own has no other.
    let sql = "select v from (select v, id from c order by id limit 5) s order by -v limit 3";
    assert_eq!(first(&mut session, sql), ["5", "4", "3"].map(|v| Some(v.to_owned())));
    let sql = "select p.id from (select * from c order by v desc limit 5) s \
               left join p on p.id = s.p order by s.id limit 2";
    assert_eq!(first(&mut session, sql), ["47", "48"].map(|id| Some(id.to_owned())));
}

/// A join by an index for far more keys than was thought goes on with a hash table.
#[test]
fn a_join_that_meets_many_keys_gives_the_same_rows() {
    let (_dir, db) = filled();
    let mut session = Session::new(&db);
    session
        .execute(
            "create table big (id int primary key, v int); \
             insert into big select g, g from generate_series(1, 20000) g; analyze big",
        )
        .unwrap();
    // generate_series is thought to give a thousand rows.
    for (sql, expected) in [
        ("select count(*) from generate_series(1, 30000) g join big on big.id = g", 20_000),
        ("select count(*) from generate_series(1, 30000) g left join big on big.id = g", 30_000),
        (
            "select count(*) from generate_series(1, 30000) g \
                 where not exists (select from big where big.id = g and big.v % 2 = 0)",
            20_000,
        ),
    ] {
        let found = session.execute(sql).unwrap()[0].rows.clone();
        assert_eq!(found, [[Datum::Int8(expected)]], "{sql}");
    }
}

#[test]
fn a_semi_join_with_groups_is_put_in_order_with_the_others() {
    let (_dir, db) = filled();
    let mut session = Session::new(&db);
    session.execute("analyze").unwrap();
    let groups = "select p from c group by p having sum(v) > 10400";
    let asked = format!("select c.v from c join p on p.id = c.p where p.id in ({groups})");
    let plan = shown(&mut session, &format!("explain (costs off) {asked}"));
    assert!(!plan.contains("Semi"), "{plan}");
    // Two rows with one value are no groups.
    let all = asked.replace("select p from c group by p having sum(v) > 10400", "select p from c");
    let plan = shown(&mut session, &format!("explain (costs off) {all}"));
    assert!(plan.contains("Semi"), "{plan}");
    let counted = |session: &mut Session, sql: &str| {
        shown(session, &format!("select count(*) || ' ' || sum(v) from ({sql}) s"))
    };
    let by_exists = "select c.v from c where (select sum(v) from c d where d.p = c.p) > 10400";
    assert_eq!(counted(&mut session, &asked), counted(&mut session, by_exists));
    assert_eq!(counted(&mut session, &all), counted(&mut session, "select v from c"));
    for ways in ["distinct p from c", "p from c union select id from p"] {
        let asked = format!("select v from c where p in (select {ways})");
        assert_eq!(counted(&mut session, &asked), counted(&mut session, "select v from c"));
    }
}
