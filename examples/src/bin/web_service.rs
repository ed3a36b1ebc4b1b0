//! A web service over an embedded database: axum in front, SQL sessions in a pool behind it.
//!
//! A statement blocks its thread, so it runs on tokio's blocking threads. The pool bounds how many
//! run at once; a session that comes back keeps its plans. A session whose statement failed in the
//! middle of a transaction is rolled back before another request gets it. Run it with
//! `cargo run -p rightlink-examples --bin web_service -- shop.db 127.0.0.1:3000`, then
//! `curl -d '{"name": "pen", "stock": 3}' -H 'content-type: application/json'
//! localhost:3000/items`.
//!
//! Does not do: authentication, TLS.
#![expect(clippy::print_stdout, reason = "a program for people")]

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use rightlink::Database;
use rightlink_sql::{Datum, Row, Session, SqlError, TransactionStatus};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

/// Statements that run at once.
const SESSIONS: usize = 8;

/// Sessions that requests share.
#[derive(Clone)]
struct Pool {
    idle: Arc<tokio::sync::Mutex<Vec<Session>>>,
    places: Arc<Semaphore>,
    db: Database,
}

impl Pool {
    fn new(db: &Database) -> Pool {
        let places = Arc::new(Semaphore::new(SESSIONS));
        Pool { idle: Arc::default(), places, db: db.clone() }
    }

    /// Runs `work` with a session of its own, off the async threads. It goes on to its end when
    /// the request is given up meanwhile.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Session) -> Result<T, SqlError> + Send + 'static,
    ) -> Result<T, Refusal> {
        let place = Arc::clone(&self.places).acquire_owned().await.expect("never closed");
        let idle = self.idle.lock().await.pop();
        let mut session = idle.unwrap_or_else(|| Session::new(&self.db));
        let pool = Arc::clone(&self.idle);
        let task = tokio::task::spawn_blocking(move || {
            let result = work(&mut session);
            if session.status() != TransactionStatus::Idle {
                // If even this fails, the session is not kept.
                session.execute("rollback")?;
            }
            pool.blocking_lock().push(session);
            drop(place);
            result
        });
        // A panic drops the session, which rolls its transaction back.
        task.await.map_err(|_| Refusal::internal("the statement panicked"))?.map_err(Refusal::from)
    }
}

/// An error as a client gets it.
struct Refusal {
    status: StatusCode,
    message: String,
}

impl Refusal {
    fn internal(message: &str) -> Refusal {
        Refusal { status: StatusCode::INTERNAL_SERVER_ERROR, message: message.to_owned() }
    }
}

impl From<SqlError> for Refusal {
    fn from(error: SqlError) -> Refusal {
        let status = match error.sqlstate {
            "23505" => StatusCode::CONFLICT,
            // Other integrity constraints, and values that do not fit their type.
            code if code.starts_with("23") || code.starts_with("22") => StatusCode::BAD_REQUEST,
            // Run it again.
            "40001" | "40P01" | "53200" | "53300" => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Refusal { status, message: error.to_string() }
    }
}

impl axum::response::IntoResponse for Refusal {
    fn into_response(self) -> axum::response::Response {
        (self.status, self.message).into_response()
    }
}

#[derive(Deserialize)]
struct NewItem {
    name: String,
    stock: i32,
}

#[derive(Serialize)]
struct Item {
    id: i64,
    name: String,
    stock: i32,
}

fn item(row: &Row) -> Item {
    match (&row[0], &row[1], &row[2]) {
        (Datum::Int8(id), Datum::Text(name), Datum::Int4(stock)) => {
            Item { id: *id, name: name.to_string(), stock: *stock }
        }
        other => unreachable!("the table has other columns: {other:?}"),
    }
}

async fn add(
    State(pool): State<Pool>,
    Json(new): Json<NewItem>,
) -> Result<(StatusCode, Json<Item>), Refusal> {
    let insert = "insert into item (name, stock) values ($1, $2) returning id, name, stock";
    let values = vec![Datum::Text(new.name), Datum::Int4(new.stock)];
    let added = pool.run(move |session| session.execute_with(insert, values)).await?;
    Ok((StatusCode::CREATED, Json(item(&added.rows[0]))))
}

async fn show(State(pool): State<Pool>, Path(id): Path<i64>) -> Result<Json<Item>, Refusal> {
    let select = "select id, name, stock from item where id = $1";
    let found =
        pool.run(move |session| session.execute_with(select, vec![Datum::Int8(id)])).await?;
    found.rows.first().map(|row| Json(item(row))).ok_or_else(|| Refusal {
        status: StatusCode::NOT_FOUND,
        message: format!("there is no item {id}"),
    })
}

/// Takes one off the stock; the check constraint refuses the last but none.
async fn sell(State(pool): State<Pool>, Path(id): Path<i64>) -> Result<StatusCode, Refusal> {
    let update = "update item set stock = stock - 1 where id = $1";
    let sold = pool.run(move |session| session.execute_with(update, vec![Datum::Int8(id)])).await?;
    Ok(if sold.tag == "UPDATE 1" { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND })
}

fn service(pool: Pool) -> Router {
    Router::new()
        .route("/items", post(add))
        .route("/items/{id}", get(show))
        .route("/items/{id}/sell", post(sell))
        .with_state(pool)
}

fn create(db: &Database) -> Result<(), SqlError> {
    Session::new(db).execute(
        "create table if not exists item (
             id bigint generated always as identity primary key,
             name text not null unique,
             stock integer not null check (stock >= 0))",
    )?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| "shop.db".to_owned());
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let db = Database::open(path)?;
    create(&db)?;
    let listener = tokio::net::TcpListener::bind(&address).await?;
    println!("listening on {address}");
    axum::serve(listener, service(Pool::new(&db))).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::{Request, header};
    use tower::ServiceExt;

    use super::*;

    async fn ask(service: &Router, method: &str, path: &str, body: &str) -> (StatusCode, String) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_owned()))
            .unwrap();
        let response = service.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn items_are_added_shown_and_sold_until_none_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path()).unwrap();
        create(&db).unwrap();
        let service = service(Pool::new(&db));
        let (status, body) = ask(&service, "POST", "/items", r#"{"name":"pen","stock":20}"#).await;
        assert_eq!((status, &*body), (StatusCode::CREATED, r#"{"id":1,"name":"pen","stock":20}"#));
        let (status, _) = ask(&service, "POST", "/items", r#"{"name":"pen","stock":1}"#).await;
        assert_eq!(status, StatusCode::CONFLICT);
        let (status, _) = ask(&service, "GET", "/items/2", "").await;
        assert_eq!(status, StatusCode::NOT_FOUND);

        // Thirty buyers at once, twenty pens.
        let buyers: Vec<_> = (0..30)
            .map(|_| {
                let service = service.clone();
                tokio::spawn(async move { ask(&service, "POST", "/items/1/sell", "").await.0 })
            })
            .collect();
        let mut sold = 0;
        for buyer in buyers {
            match buyer.await.unwrap() {
                StatusCode::NO_CONTENT => sold += 1,
                refused => assert_eq!(refused, StatusCode::BAD_REQUEST),
            }
        }
        assert_eq!(sold, 20);
        let (_, body) = ask(&service, "GET", "/items/1", "").await;
        assert_eq!(body, r#"{"id":1,"name":"pen","stock":0}"#);
        assert!(db.verify().unwrap().is_clean());
    }
}
