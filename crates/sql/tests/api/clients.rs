//! What clients hear and ask: columns before rows, cursors that are described late, the queries
//! that psql sends.

use crate::asked::{one, open};
use crate::gather::Gather;
use rightlink_sql::{Column, Result, Row, Session, Sink};

/// What a client hears, in order.
#[derive(Default)]
struct Heard(Vec<String>);

impl Sink for Heard {
    fn columns(&mut self, columns: &[Column]) -> Result<()> {
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        self.0.push(format!("columns {}", names.join(" ")));
        Ok(())
    }

    fn row(&mut self, row: Row) -> Result<()> {
        let fields: Vec<String> = row.iter().map(|d| d.to_text().unwrap_or_default()).collect();
        self.0.push(fields.join("|"));
        Ok(())
    }

    fn complete(&mut self, tag: &str) -> Result<()> {
        self.0.push(tag.to_owned());
        Ok(())
    }

    fn notice(&mut self, _: &str, _: &str) {}
}

/// As PostgreSQL, which evaluates constants when it plans.
#[test]
fn constants_that_fail_do_so_before_the_client_hears_of_columns() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table t (a int); insert into t values (0)").unwrap();
    for (sql, wanted) in [
        ("select 1 as a; select 1 / 0", vec!["columns a", "1", "SELECT 1"]),
        ("values (1), (1 / 0)", vec![]),
        ("select 'x'::int", vec![]),
        ("select 1 / a as b from t", vec!["columns b"]),
    ] {
        let mut heard = Heard::default();
        let error = session.run(sql, &mut heard).unwrap_err();
        assert!(["22012", "22P02"].contains(&error.sqlstate), "{sql}: {error}");
        assert_eq!(heard.0, wanted, "{sql}");
    }
    let mut heard = Heard::default();
    session.run("values (1, 'a'), (2, null)", &mut heard).unwrap();
    assert_eq!(heard.0, ["columns column1 column2", "1|a", "2|", "SELECT 2"]);
    assert_eq!(one(&mut session, "select count(*) from t"), "1");
    drop(session);
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn a_fetch_that_was_prepared_before_its_cursor_describes_it_when_bound() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    let names = |columns: Option<&[Column]>| -> Vec<String> {
        columns.into_iter().flatten().map(|column| column.name.clone()).collect()
    };
    assert_eq!(session.prepare("f", "fetch all in c", &[]).unwrap().columns, None);
    for query in ["select 1 as x, 2 as y", "select 3 as z"] {
        session.execute(&format!("begin; declare c cursor for {query}")).unwrap();
        session.bind("p", "f", Vec::new()).unwrap();
        let wanted: Vec<String> = session.execute(query).unwrap()[0]
            .columns
            .iter()
            .flatten()
            .map(|c| c.name.clone())
            .collect();
        assert_eq!(session.with_portal("p", names).unwrap(), wanted, "{query}");
        session.execute_portal("p", 0, &mut Gather::default()).unwrap();
        session.close_portal("p");
        session.execute("commit").unwrap();
    }
    session.bind("p", "f", Vec::new()).unwrap();
    assert_eq!(session.with_portal("p", names).unwrap(), Vec::<String>::new());
    drop(session);
    assert!(db.verify().unwrap().is_clean());
}

/// What psql 15 sends for its commands about tables, indexes, sequences and schemas: for each
/// relation all of it is understood.
#[test]
fn queries_of_psql_are_understood() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session
        .execute(
            "create schema app; create sequence app.counter;
             create table app.customer (id serial primary key, name text not null check (name > ''),
             email varchar(80) unique); create table flight (id int primary key, tail text,
             customer int references app.customer); create index on flight (tail) where id > 0",
        )
        .unwrap();
    let fields = |row: &Row| -> Vec<String> {
        row.iter().map(|datum| datum.to_text().unwrap_or_default()).collect()
    };
    let relations = session.execute("select oid, relname from pg_class").unwrap().remove(0).rows;
    let mut refused = Vec::new();
    let mut rows = 0;
    for query in include_str!("../psql/queries.txt").split("\n---\n") {
        for relation in &relations {
            let query = query.replace("{oid}", &fields(relation)[0]);
            match session.execute(&query) {
                Ok(outcomes) => rows += outcomes[0].rows.len(),
                Err(error) => refused.push(format!("{error}\n{query}\n")),
            }
        }
    }
    refused.dedup();
    assert!(refused.is_empty(), "{} refused:\n{}", refused.len(), refused.join("\n"));
    assert!(rows > 100, "{rows} rows");
    drop(session);
    assert!(db.verify().unwrap().is_clean());
}
