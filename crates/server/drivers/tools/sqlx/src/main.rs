//! sqlx on a server: migrations there, back and there again, descriptions of statements, queries
//! with types of all kinds, and errors of its own kinds.
//!
//! `sqlx-check PORT DATABASE`. Each step asserts what PostgreSQL 15 answers.

use std::error::Error;
use std::fmt::Debug;

use chrono::{DateTime, NaiveDate, Utc};
use futures_util::TryStreamExt;
use rust_decimal::Decimal;
use serde_json::{Value, json};
use sqlx::error::ErrorKind;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::{PgConnectOptions, PgListener, PgPool, PgPoolOptions};
use sqlx::types::Json;
use sqlx::{Column, Connection, Either, Executor, FromRow, QueryBuilder, Row, TypeInfo};
use uuid::Uuid;

type Done = Result<(), Box<dyn Error>>;

static MIGRATIONS: Migrator = sqlx::migrate!();

#[derive(Debug, Clone, Copy, PartialEq, sqlx::Type)]
#[sqlx(type_name = "mood", rename_all = "lowercase")]
enum Mood {
    Sad,
    Happy,
}

#[derive(Debug, FromRow)]
struct Thing {
    id: Uuid,
    title: String,
    price: Decimal,
    double: Option<Decimal>,
    mood: Mood,
    words: Vec<String>,
    data: Option<Json<Value>>,
    day: Option<NaiveDate>,
}

fn equal<T: PartialEq + Debug>(found: T, expected: T) {
    assert_eq!(found, expected, "found on the left, expected on the right");
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done {
    let mut arguments = std::env::args().skip(1);
    let port = arguments.next().ok_or("no port")?.parse()?;
    let database = arguments.next().ok_or("no database")?;
    let options = PgConnectOptions::new_without_pgpass()
        .host("127.0.0.1")
        .port(port)
        .username("rightlink")
        .database(&database);
    let pool = PgPoolOptions::new().max_connections(4).connect_with(options).await?;
    migrate(&pool).await?;
    describe(&pool).await?;
    let ann = fill(&pool).await?;
    query(&pool).await?;
    change(&pool).await?;
    violate(&pool, ann).await?;
    transact(&pool, ann).await?;
    listen(&pool).await?;
    MIGRATIONS.undo(&pool, 0).await?;
    let left: Vec<String> = sqlx::query_scalar(
        "select relname::text from pg_class
         where relnamespace = 'public'::regnamespace and relkind = 'r'",
    )
    .fetch_all(&pool)
    .await?;
    equal(left, vec!["_sqlx_migrations".to_string()]);
    println!("sqlx 0.8.6: everything as expected");
    Ok(())
}

async fn migrate(pool: &PgPool) -> Done {
    MIGRATIONS.run(pool).await?;
    let first: (String, Decimal, Option<Decimal>) =
        sqlx::query_as("select title, price, double from thing").fetch_one(pool).await?;
    equal(first, ("First".into(), Decimal::new(300, 2), Some(Decimal::new(600, 2))));
    MIGRATIONS.undo(pool, 1).await?;
    let old: (String, i32) = sqlx::query_as(
        "select name, price from item join owner on owner.id = item.owner_id where old is null",
    )
    .fetch_one(pool)
    .await?;
    equal(old, ("Early".into(), 3));
    MIGRATIONS.run(pool).await?;
    // Two at once wait for each other on an advisory lock.
    let (one, other) = tokio::join!(MIGRATIONS.run(pool), MIGRATIONS.run(pool));
    one?;
    other?;
    let done: Vec<(i64, String, bool)> = sqlx::query_as(
        "select version, description, success from _sqlx_migrations order by version",
    )
    .fetch_all(pool)
    .await?;
    let expected = [(1, "first"), (2, "second"), (3, "index")];
    equal(done, expected.map(|(version, name)| (version, name.to_string(), true)).to_vec());

    // A migration that was changed after it ran is found.
    sqlx::query("update _sqlx_migrations set checksum = '\\x00' where version = 2")
        .execute(pool)
        .await?;
    let mut alone = pool.acquire().await?.detach();
    let changed = MIGRATIONS.run_direct(&mut alone).await.unwrap_err();
    // The connection still has the lock.
    alone.close().await?;
    assert!(matches!(changed, MigrateError::VersionMismatch(2)), "{changed}");
    let sum = &MIGRATIONS.iter().find(|one| one.version == 2).ok_or("no second")?.checksum;
    sqlx::query("update _sqlx_migrations set checksum = $1 where version = 2")
        .bind(sum.as_ref())
        .execute(pool)
        .await?;
    MIGRATIONS.run(pool).await?;
    Ok(())
}

/// The descriptions that the macros of sqlx ask for when they compile: types of parameters and of
/// columns, and nulls.
async fn describe(pool: &PgPool) -> Done {
    let mut connection = pool.acquire().await?;
    let sql = "select t.id, t.title, o.email, t.price, t.mood, t.words, t.data, count(*) over () n,
        t.price + $2 more from thing t left join owner o on o.id = t.owner_id
        where t.mood = $1 and t.title like $3 and t.id = any($4)";
    let described = connection.describe(sql).await?;
    let columns: Vec<_> = (described.columns().iter())
        .map(|one| format!("{} {}", one.name(), one.type_info().name()))
        .collect();
    equal(
        columns.join(", "),
        "id UUID, title VARCHAR, email TEXT, price NUMERIC, mood mood, words TEXT[], \
         data JSONB, n INT8, more NUMERIC"
            .to_string(),
    );
    let Some(Either::Left(parameters)) = described.parameters() else {
        return Err("parameters have no types".into());
    };
    let parameters: Vec<_> = parameters.iter().map(|one| one.name().to_string()).collect();
    equal(parameters.join(", "), "mood, NUMERIC, TEXT, UUID[]".to_string());
    let nulls: Vec<_> = (0..columns.len()).map(|at| described.nullable(at)).collect();
    // Of expressions it is not known.
    let (yes, no) = (Some(true), Some(false));
    equal(nulls, vec![no, no, yes, no, no, no, yes, None, None]);
    Ok(())
}

async fn fill(pool: &PgPool) -> Result<i64, Box<dyn Error>> {
    sqlx::query("delete from owner").execute(pool).await?;
    let mut owners = Vec::new();
    for (name, email) in [("Ann", Some("ann@x")), ("Bob", None), ("Carl", None)] {
        let (id, made): (i64, DateTime<Utc>) = sqlx::query_as(
            "insert into owner (full_name, email) values ($1, $2) returning id, made",
        )
        .bind(name)
        .bind(email)
        .fetch_one(pool)
        .await?;
        assert!((Utc::now() - made).num_seconds().abs() < 60, "{made}");
        owners.push(id);
    }
    let tags: Vec<i32> =
        sqlx::query_scalar("insert into tag (name) select unnest($1::text[]) returning id")
            .bind(["red", "blue"])
            .fetch_all(pool)
            .await?;
    for n in 0..6_i32 {
        let id: Uuid = sqlx::query_scalar(
            "insert into thing (title, price, owner_id, mood, words, data, day)
             values ($1, $2, $3, $4, $5, $6, $7) returning id",
        )
        .bind(format!("T{n}"))
        .bind(Decimal::from(n * 40))
        .bind(owners[n as usize % 2])
        .bind([Mood::Sad, Mood::Happy][n as usize % 2])
        .bind(vec!["a".to_string(), format!("w{n}")])
        .bind(Json(json!({ "n": n, "deep": { "list": [n] } })))
        .bind(NaiveDate::from_ymd_opt(2024, 2, 28 + u32::from(n > 2)))
        .fetch_one(pool)
        .await?;
        let taken = &tags[..n as usize % 3];
        if !taken.is_empty() {
            let mut many = QueryBuilder::new("insert into thing_tag (thing_id, tag_id) ");
            many.push_values(taken, |mut row, tag| {
                row.push_bind(id).push_bind(tag);
            });
            equal(many.build().execute(pool).await?.rows_affected(), taken.len() as u64);
        }
    }
    Ok(owners[0])
}

async fn query(pool: &PgPool) -> Done {
    let sums: Vec<(String, i64, Option<Decimal>)> = sqlx::query_as(
        "select full_name, count(t.id), sum(double)
           from owner o left join thing t on t.owner_id = o.id
         group by o.id order by o.id",
    )
    .fetch_all(pool)
    .await?;
    let sum = |number| Some(Decimal::new(number, 2));
    equal(
        sums,
        vec![
            ("Ann".into(), 3, sum(48000)),
            ("Bob".into(), 3, sum(72000)),
            ("Carl".into(), 0, None),
        ],
    );
    let thing: Thing = sqlx::query_as("select * from thing where data @> $1")
        .bind(json!({ "n": 3 }))
        .fetch_one(pool)
        .await?;
    equal(
        (thing.title.as_str(), thing.mood, thing.price),
        ("T3", Mood::Happy, Decimal::new(12000, 2)),
    );
    equal(thing.double, Some(Decimal::new(24000, 2)));
    equal(thing.words, vec!["a".to_string(), "w3".to_string()]);
    equal(thing.data.map(|Json(data)| data["deep"]["list"][0].clone()), Some(json!(3)));
    equal(thing.day, NaiveDate::from_ymd_opt(2024, 2, 29));
    assert!(!thing.id.is_nil());
    let titles = |sql: &'static str| sqlx::query_scalar::<_, String>(sql);
    equal(
        titles("select title from thing where mood = any($1) and title ilike $2 order by 1")
            .bind(vec![Mood::Happy])
            .bind("t%")
            .fetch_all(pool)
            .await?,
        vec!["T1".to_string(), "T3".to_string(), "T5".to_string()],
    );
    equal(
        titles(
            "with ranked as (select title,
               row_number() over (partition by owner_id order by price desc) n
             from thing) select title from ranked where n = 1 order by 1",
        )
        .fetch_all(pool)
        .await?,
        vec!["T4".to_string(), "T5".to_string()],
    );
    equal(
        titles(
            "select title from thing t join thing_tag on thing_id = t.id join tag g on g.id = tag_id
             where g.name = $1 order by 1",
        )
        .bind("blue")
        .fetch_all(pool)
        .await?,
        vec!["T2".to_string(), "T5".to_string()],
    );
    let nothing = sqlx::query("select 1 where false").fetch_optional(pool).await?;
    assert!(nothing.is_none());
    let missing = sqlx::query("select 1 where false").fetch_one(pool).await;
    assert!(matches!(missing, Err(sqlx::Error::RowNotFound)));
    let mut rows = sqlx::query("select g from generate_series(1, 1000) g").fetch(pool);
    let mut sum = 0;
    while let Some(row) = rows.try_next().await? {
        sum += row.try_get::<i32, _>("g")?;
    }
    equal(sum, 500_500);
    let mut copied = pool.acquire().await?;
    let mut sink = copied.copy_in_raw("copy tag (name) from stdin").await?;
    sink.send(&b"c1\nc2\nc3\n"[..]).await?;
    equal(sink.finish().await?, 3);
    let text: Vec<_> =
        copied.copy_out_raw("copy (select 1, 'x') to stdout").await?.try_collect().await?;
    equal(text.concat(), b"1\tx\n".to_vec());
    Ok(())
}

async fn change(pool: &PgPool) -> Done {
    let done = sqlx::query("update thing set price = price + $1 where price > $2")
        .bind(Decimal::ONE)
        .bind(Decimal::from(100))
        .execute(pool)
        .await?;
    equal(done.rows_affected(), 3);
    let merged: (i32, String) = sqlx::query_as(
        "insert into tag (name) values ($1) on conflict (name) do update set name = excluded.name
         returning id, name",
    )
    .bind("red")
    .fetch_one(pool)
    .await?;
    equal(merged, (1, "red".into()));
    let ignored = sqlx::query("insert into tag (name) values ('red') on conflict do nothing");
    equal(ignored.execute(pool).await?.rows_affected(), 0);
    // Several statements in one string go by the simple protocol.
    let many = pool
        .execute("insert into tag (name) values ('x'); delete from tag where name in ('x', 'c1')");
    equal(many.await?.rows_affected(), 3);
    // Definitions change under a statement that is prepared.
    for columns in [8_usize + 1, 8 + 2] {
        let row =
            sqlx::query("select * from thing limit 1").persistent(false).fetch_one(pool).await?;
        equal(row.columns().len(), columns);
        sqlx::query("alter table thing add column if not exists more integer")
            .execute(pool)
            .await?;
    }
    sqlx::query("alter table thing drop column more").execute(pool).await?;
    Ok(())
}

async fn violate(pool: &PgPool, ann: i64) -> Done {
    let cases = [
        (
            "insert into owner (full_name, email) values ('X', 'ann@x')",
            ErrorKind::UniqueViolation,
            "23505",
            Some("owner_email_key"),
        ),
        (
            "insert into thing (title, owner_id) values ('X', 9999)",
            ErrorKind::ForeignKeyViolation,
            "23503",
            Some("thing_owner"),
        ),
        (
            "insert into thing (title, price) values ('X', -1)",
            ErrorKind::CheckViolation,
            "23514",
            Some("price_ok"),
        ),
        ("insert into thing (price) values (1)", ErrorKind::NotNullViolation, "23502", None),
        ("insert into thing (title, mood) values ('X', 'odd')", ErrorKind::Other, "22P02", None),
        ("select nothing from thing", ErrorKind::Other, "42703", None),
    ];
    for (sql, kind, code, constraint) in cases {
        let error = sqlx::query(sql).execute(pool).await.unwrap_err();
        let error = error.as_database_error().ok_or("not of the database")?;
        assert_eq!(format!("{:?}", error.kind()), format!("{kind:?}"), "{sql}");
        equal((error.code().as_deref(), error.constraint()), (Some(code), constraint));
    }
    equal(count(pool, "select count(*) from owner where id = $1", ann).await?, 1);
    Ok(())
}

async fn count(pool: &PgPool, sql: &str, id: i64) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(sql).bind(id).fetch_one(pool).await
}

async fn transact(pool: &PgPool, ann: i64) -> Done {
    let things = "select count(*) from thing where owner_id = $1";
    let mut undone = pool.begin().await?;
    sqlx::query("delete from thing").execute(&mut *undone).await?;
    drop(undone);
    equal(count(pool, things, ann).await?, 3);
    let mut outer = pool.begin_with("begin isolation level repeatable read").await?;
    sqlx::query("select * from owner where id = $1 for update")
        .bind(ann)
        .fetch_one(&mut *outer)
        .await?;
    // A transaction within is a savepoint.
    let mut inner = outer.begin().await?;
    sqlx::query("insert into owner (full_name) values ('Inner')").execute(&mut *inner).await?;
    let taken = sqlx::query("insert into owner (full_name, email) values ('X', 'ann@x')");
    assert!(taken.execute(&mut *inner).await.is_err());
    inner.rollback().await?;
    sqlx::query("insert into owner (full_name) values ('Outer')").execute(&mut *outer).await?;
    sqlx::query("delete from owner where id = $1").bind(ann).execute(&mut *outer).await?;
    outer.commit().await?;
    let names: Vec<String> = sqlx::query_scalar(
        "select full_name from owner where full_name in ('Inner', 'Outer', 'Ann')",
    )
    .fetch_all(pool)
    .await?;
    equal(names, vec!["Outer".to_string()]);
    equal(count(pool, things, ann).await?, 0);
    Ok(())
}

async fn listen(pool: &PgPool) -> Done {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen("news").await?;
    sqlx::query("select pg_notify('news', $1)").bind("hello").execute(pool).await?;
    let news = tokio::time::timeout(std::time::Duration::from_secs(10), listener.recv()).await??;
    equal((news.channel(), news.payload()), ("news", "hello"));
    Ok(())
}
