//! Rows of what changes from moment to moment: sessions, locks, use of tables and indexes.
//!
//! Invariants: nothing here takes a lock or waits for anybody, so that a look tells why others
//! wait. Does not do: one moment for several of these relations.

use std::collections::{HashMap, HashSet};

use rightlink::{Database, LockInfo, LockMode, Locked, PreparedTransaction, TableFigures};

use super::SessionInfo;
use super::numbers::{DATABASE, OWNER, number, oid, relation_oid, text};
use super::objects::{Object, Objects};
use super::sequences::Sequence;
use super::system_views::View;
use crate::activity::advisory::{Entry, Key};
use crate::activity::{Client, Doing};
use crate::error::Result;
use crate::names::{bare, schema_of};
use crate::roles::actor::Actor;
use crate::roles::preparer::Preparer;
use crate::roles::role::{READ_ALL_STATS, Roles};
use crate::statistics::record::Record;
use crate::types::calendar::EPOCH_SECONDS;
use crate::types::{Datum, Decimal, Row, SqlType};

/// Figures of the tables among these numbers that are in memory. Of others there are none.
fn used(
    db: Option<&Database>,
    is_wanted: impl Fn(u32) -> bool,
) -> Result<HashMap<u32, TableFigures>> {
    let all = db.map(|db| db.used_table_figures(is_wanted)).transpose()?.unwrap_or_default();
    Ok(all.into_iter().map(|one| (one.table, one)).collect())
}

/// Rows of tables.
pub(super) fn tables(objects: &Objects, db: Option<&Database>) -> Result<Vec<Row>> {
    let used = used(db, |_| true)?;
    let one = |object: Object<'_>| use_of_table(&object, objects, &used, db);
    Ok(objects.tables().filter(|object| !object.is_view()).map(one).collect())
}

/// Rows of indexes.
pub(super) fn indexes(objects: &Objects, db: Option<&Database>) -> Result<Vec<Row>> {
    let used = used(db, |_| true)?;
    let one = |object: Object<'_>| use_of_index(&object, &used);
    Ok(objects.all().filter_map(one).collect())
}

/// Rows about the use of these tables and indexes until now; `None` for a relation that is gone.
pub(super) fn of_numbers(
    numbers: &[u32],
    objects: &Objects,
    db: Option<&Database>,
) -> Result<Vec<Option<Row>>> {
    let all: Vec<_> = numbers.iter().map(|number| objects.of_oid(*number)).collect();
    let tables: HashSet<u32> = all.iter().flatten().map(|object| object.table.id).collect();
    let used = used(db, |table| tables.contains(&table))?;
    let row = |object: Object<'_>| match object.index {
        Some(_) => use_of_index(&object, &used),
        None => Some(use_of_table(&object, objects, &used, db)),
    };
    Ok(all.into_iter().map(|object| object.and_then(row)).collect())
}

fn use_of_table(
    object: &Object<'_>,
    objects: &Objects,
    used: &HashMap<u32, TableFigures>,
    db: Option<&Database>,
) -> Row {
    let none = TableFigures::default();
    let table = used.get(&object.table.id).unwrap_or(&none);
    let sum = |of: fn(&rightlink::IndexFigures) -> u64| match object.table.indexes.is_empty() {
        true => Datum::Null,
        false => number(table.indexes.iter().map(of).sum::<u64>()),
    };
    let known = objects.statistics(object.table);
    let none = Record::default();
    let record = known.map_or(&none, |known| &known.record);
    let analyzed = record.last.map(|last| when(Some(last).filter(|last| *last != 0)));
    let [analyzed, analyzed_unasked] = analyzed;
    vec![
        oid(object.oid),
        text(object.schema()),
        text(object.name()),
        number(table.rows.scans),
        number(table.rows.rows_scanned),
        sum(|index| index.scans),
        sum(|index| index.rows),
        number(table.rows.inserted),
        number(table.rows.updated),
        number(table.rows.deleted),
        number(table.rows.heap_only),
        // Nobody keeps count of live rows: those that ANALYZE has found.
        known.map_or(Datum::Null, |known| number(known.rows.round() as i64)),
        number(table.garbage),
        number(db.map_or(0, |db| record.changes_since(db, &table.rows))),
        number(table.rows.inserted_since_vacuum),
        when(table.rows.last_vacuum),
        when(table.rows.last_auto_vacuum),
        analyzed,
        analyzed_unasked,
        number(table.rows.vacuums),
        number(table.rows.auto_vacuums),
        number(record.counts[0]),
        number(record.counts[1]),
    ]
}

fn use_of_index(object: &Object<'_>, used: &HashMap<u32, TableFigures>) -> Option<Row> {
    let index = object.index?;
    let table = used.get(&object.table.id);
    let figures = table.and_then(|one| one.indexes.iter().find(|one| one.index == index.id));
    let [scans, entries, rows] = figures.map_or([0; 3], |one| [one.scans, one.entries, one.rows]);
    let mut row = vec![oid(object.table_oid()), oid(object.oid), text(object.schema())];
    row.extend([text(object.table_name()), text(object.name())]);
    row.extend([scans, entries, rows].map(number));
    Some(row)
}

/// Tables, without figures of the blocks read of each, which nobody counts.
pub(super) fn blocks_of_tables(view: &View, objects: &Objects) -> Vec<Row> {
    let one = |object: Object<'_>| {
        let own = [("relid", oid(object.oid)), ("schemaname", text(object.schema()))];
        row_of(view, own.into_iter().chain([("relname", text(object.name()))]).collect())
    };
    objects.tables().filter(|object| !object.is_view()).map(one).collect()
}

/// The same of indexes.
pub(super) fn blocks_of_indexes(view: &View, objects: &Objects) -> Vec<Row> {
    let one = |object: Object<'_>| {
        let own = vec![
            ("relid", oid(object.table_oid())),
            ("indexrelid", oid(object.oid)),
            ("schemaname", text(object.schema())),
            ("relname", text(object.table_name())),
            ("indexrelname", text(object.name())),
        ];
        row_of(view, own)
    };
    objects.all().filter(|object| object.index.is_some()).map(one).collect()
}

/// The same of sequences.
pub(super) fn blocks_of_sequences(view: &View, objects: &Objects) -> Vec<Row> {
    let one = |sequence: &Sequence| {
        let name = &sequence.schema.name;
        let own = [("relid", oid(sequence.oid)), ("schemaname", text(schema_of(name)))];
        row_of(view, own.into_iter().chain([("relname", text(bare(name)))]).collect())
    };
    objects.sequences().iter().map(one).collect()
}

/// A time as clocks have it.
fn when(unix_micros: Option<i64>) -> Datum {
    let since = |micros: i64| Datum::Timestamptz(micros - EPOCH_SECONDS * 1_000_000);
    unix_micros.map_or(Datum::Null, since)
}

fn time(micros: i64) -> Datum {
    if micros == 0 { Datum::Null } else { Datum::Timestamptz(micros) }
}

fn optional(value: Option<impl Into<String>>) -> Datum {
    value.map_or(Datum::Null, text)
}

/// An address of a client, null for one of this machine.
fn address(value: Option<&str>) -> Datum {
    let read = |one: &str| Datum::from_text(SqlType::Inet, one).ok();
    value.and_then(read).unwrap_or_default()
}

fn kind(lock: &LockInfo) -> &'static str {
    match lock.what {
        Locked::Table(_) => "relation",
        Locked::Transaction(_) => "transactionid",
    }
}

/// A row with these values, and nulls in all other columns.
pub(super) fn row_of(view: &View, values: Vec<(&str, Datum)>) -> Row {
    let mut row = vec![Datum::Null; view.columns.len()];
    for (name, value) in values {
        let at = view.columns.iter().position(|(known, _)| *known == name);
        row[at.expect("the relation has this column")] = value;
    }
    row
}

/// Rows of `pg_stat_activity`. What a session does is told to members of its role only.
pub(super) fn activity(
    view: &View,
    db: &Database,
    session: &SessionInfo<'_>,
    roles: &Roles,
) -> Vec<Row> {
    let (locks, advisory) = (db.locks(), session.activity.advisory_locks());
    let own = Actor::called(session.user, roles);
    let one = |client: &Client| {
        let user = Actor::called(&client.who.user, roles);
        let oid = if user.is_unbounded() { OWNER } else { Datum::Oid(user.oid) };
        let sees_all = [user.oid, READ_ALL_STATS].into_iter().any(|of| own.has_privileges_of(of));
        let who = &client.who;
        let mut known = vec![
            ("datid", Datum::Oid(DATABASE)),
            ("datname", text(session.database)),
            ("pid", Datum::Int4(who.pid as i32)),
            ("usesysid", oid),
            ("usename", text(&who.user)),
            ("application_name", text(client.application())),
        ];
        if !sees_all {
            let hidden = ("query", text("<insufficient privilege>"));
            return row_of(view, known.into_iter().chain([hidden]).collect());
        }
        let number = client.transaction();
        let waits = locks.iter().find(|lock| !lock.granted && lock.transaction == number);
        let (class, event) = match (waits, client.doing()) {
            (Some(lock), Doing::Active) => (Some("Lock"), Some(kind(lock))),
            (None, Doing::Active) => {
                let waits = advisory.iter().any(|one| !one.granted && one.pid == client.who.pid);
                (waits.then_some("Lock"), waits.then_some("advisory"))
            }
            _ => (Some("Client"), Some("ClientRead")),
        };
        known.extend([
            ("client_addr", address(who.address.as_deref())),
            ("client_port", who.port.map_or(Datum::Null, |port| Datum::Int4(i32::from(port)))),
            ("backend_start", time(client.started)),
            ("xact_start", time(client.transaction_started())),
            ("query_start", time(client.query_started())),
            ("state_change", time(client.changed())),
            ("wait_event_type", optional(class)),
            ("wait_event", optional(event)),
            ("state", text(client.doing().name())),
            ("query", text(client.query())),
            ("backend_type", text("client backend")),
        ]);
        row_of(view, known)
    };
    session.activity.all().iter().map(|client| one(client)).collect()
}

/// What all tables and transactions were used for since the database was opened.
pub(super) fn database(view: &View, db: &Database, session: &SessionInfo<'_>) -> Result<Row> {
    let tables = db.table_figures()?;
    let rows = |of: fn(&rightlink::HeapFigures) -> u64| {
        number(tables.iter().map(|table| of(&table.rows)).sum::<u64>())
    };
    let by_index: u64 =
        tables.iter().flat_map(|table| &table.indexes).map(|index| index.rows).sum();
    let figures = Figures::of(db);
    Ok(row_of(
        view,
        vec![
            ("datid", Datum::Oid(DATABASE)),
            ("datname", text(session.database)),
            ("numbackends", Datum::Int4(session.activity.all().len() as i32)),
            ("xact_commit", figures.number("commits")),
            ("xact_rollback", figures.number("aborts")),
            ("blks_read", figures.number("pool_reads")),
            ("blks_hit", figures.number("pool_hits")),
            ("tup_returned", rows(|rows| rows.rows_scanned)),
            ("tup_fetched", number(by_index)),
            ("tup_inserted", rows(|rows| rows.inserted)),
            ("tup_updated", rows(|rows| rows.updated)),
            ("tup_deleted", rows(|rows| rows.deleted)),
            ("conflicts", Datum::Int8(0)),
            ("deadlocks", figures.number("deadlocks")),
        ],
    ))
}

/// Checkpoints and pages written since the database was opened.
pub(super) fn checkpoints(view: &View, db: &Database) -> Row {
    let figures = Figures::of(db);
    let asked = figures.get("checkpoints_asked");
    let all = figures.get("checkpoints");
    row_of(
        view,
        vec![
            ("checkpoints_timed", number(all.saturating_sub(asked))),
            ("checkpoints_req", number(asked)),
            ("checkpoint_write_time", figures.milliseconds("checkpoint_us")),
            ("buffers_checkpoint", figures.number("pool_written_pages")),
            ("buffers_backend", figures.number("pool_foreground_groups")),
        ],
    )
}

/// What was logged since the database was opened.
pub(super) fn log(view: &View, db: &Database) -> Row {
    let figures = Figures::of(db);
    let bytes = figures.get("log_bytes");
    row_of(
        view,
        vec![
            ("wal_records", figures.number("log_records")),
            ("wal_bytes", Datum::Numeric(Decimal::from(i64::try_from(bytes).unwrap_or(i64::MAX)))),
            ("wal_write", figures.number("log_flushes")),
            ("wal_sync", figures.number("log_syncs")),
        ],
    )
}

/// Reads and writes of pages of relations since the database was opened, of all threads. The
/// columns are those of PostgreSQL 16. Figures that the store does not count are null.
pub(super) fn pages(view: &View, db: &Database) -> Row {
    let figures = Figures::of(db);
    row_of(
        view,
        vec![
            ("object", text("relation")),
            ("context", text("normal")),
            ("reads", figures.number("pool_reads")),
            ("writes", figures.number("pool_written_pages")),
            ("op_bytes", Datum::Int8(8_192)),
            ("hits", figures.number("pool_hits")),
            ("evictions", figures.number("pool_evictions")),
        ],
    )
}

/// What the store counts, by names.
struct Figures(Vec<(&'static str, u64)>);

impl Figures {
    fn of(db: &Database) -> Figures {
        Figures(db.stats().figures)
    }

    fn get(&self, name: &str) -> u64 {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.expect("the store counts this").1
    }

    fn number(&self, name: &str) -> Datum {
        number(self.get(name))
    }

    fn milliseconds(&self, name: &str) -> Datum {
        Datum::Float8(self.get(name) as f64 / 1_000.0)
    }
}

const fn mode(mode: LockMode) -> &'static str {
    match mode {
        LockMode::Access => "AccessShareLock",
        LockMode::Write => "RowExclusiveLock",
        LockMode::Share => "ShareLock",
        LockMode::ShareWrite => "ShareRowExclusiveLock",
        LockMode::Exclusive => "AccessExclusiveLock",
    }
}

/// Transactions that are prepared; one that is being prepared or decided is none.
pub(super) fn prepared(view: &View, db: &Database, database: &str, roles: &Roles) -> Vec<Row> {
    let all = db.prepared().into_iter().filter(|one| !one.is_busy);
    let row = |one: PreparedTransaction| {
        let values = vec![
            ("transaction", number(one.xid)),
            ("gid", text(one.gid)),
            ("prepared", time(one.prepared_at - EPOCH_SECONDS * 1_000_000)),
            ("owner", text(Preparer::read(&one.note).name(roles))),
            ("database", text(database)),
        ];
        row_of(view, values)
    };
    all.map(row).collect()
}

pub(super) fn locks(view: &View, db: &Database, session: &SessionInfo<'_>) -> Result<Vec<Row>> {
    let clients = session.activity.all();
    let one = |lock: LockInfo| {
        let (table, transaction) = match lock.what {
            Locked::Table(table) => (Some(table), Datum::Null),
            Locked::Transaction(owner) => (None, number(owner)),
        };
        let client = clients.iter().find(|client| client.transaction() == lock.transaction);
        row_of(
            view,
            vec![
                ("locktype", text(kind(&lock))),
                ("database", Datum::Oid(DATABASE)),
                ("relation", table.map_or(Datum::Null, |table| oid(relation_oid(table)))),
                ("transactionid", transaction),
                ("virtualtransaction", text(lock.transaction.to_string())),
                ("pid", client.map_or(Datum::Null, |client| Datum::Int4(client.who.pid as i32))),
                ("mode", text(mode(lock.mode))),
                ("granted", Datum::Bool(lock.granted)),
                ("fastpath", Datum::Bool(false)),
            ],
        )
    };
    let advisory = |entry: Entry| {
        let (class, object, kind) = match entry.key {
            Key::One(key) => ((key >> 32) as u32, key as u32, 1),
            Key::Two(one, two) => (one as u32, two as u32, 2),
        };
        let client = clients.iter().find(|client| client.who.pid == entry.pid);
        let transaction = client.map_or(0, |client| client.transaction());
        let values = vec![
            ("locktype", text("advisory")),
            ("database", Datum::Oid(DATABASE)),
            ("classid", oid(class)),
            ("objid", oid(object)),
            ("objsubid", Datum::Int2(kind)),
            ("virtualtransaction", text(transaction.to_string())),
            ("pid", Datum::Int4(entry.pid as i32)),
            ("mode", text(entry.mode.name())),
            ("granted", Datum::Bool(entry.granted)),
            ("fastpath", Datum::Bool(false)),
        ];
        row_of(view, values)
    };
    let of_store = db.locks().into_iter().map(one);
    Ok(of_store.chain(session.activity.advisory_locks().into_iter().map(advisory)).collect())
}
