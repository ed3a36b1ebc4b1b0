//! Rows of what changes from moment to moment: sessions, locks, use of tables and indexes.
//!
//! Invariants: nothing here takes a lock or waits for anybody, so that a look tells why others
//! wait. Does not do: one moment for several of these relations.

use std::collections::HashMap;

use rightlink::{Database, LockInfo, LockMode, Locked};

use super::SessionInfo;
use super::numbers::{number, oid, relation_oid, text};
use crate::activity::{Client, Doing};
use crate::error::Result;
use crate::names::{bare, is_own, is_shown, marked, schema_of};
use crate::statistics::Statistics;
use crate::statistics::record::Record;
use crate::types::calendar::EPOCH_SECONDS;
use crate::types::{Datum, Row};

/// With what is `known` of tables that were analyzed.
pub(super) fn tables(db: &Database, known: &HashMap<u32, Statistics>) -> Result<Vec<Row>> {
    let one = |table: rightlink::TableFigures| {
        let sum =
            |of: fn(&rightlink::IndexFigures) -> u64| table.indexes.iter().map(of).sum::<u64>();
        let known = known.get(&table.table);
        let none = Record::default();
        let record = known.map_or(&none, |known| &known.record);
        let analyzed = record.last.map(|last| when(Some(last).filter(|last| *last != 0)));
        let [analyzed, analyzed_unasked] = analyzed;
        vec![
            oid(relation_oid(table.table)),
            text(schema_of(&table.name)),
            text(bare(&table.name)),
            number(table.rows.scans),
            number(table.rows.rows_scanned),
            number(sum(|index| index.scans)),
            number(sum(|index| index.rows)),
            number(table.rows.inserted),
            number(table.rows.updated),
            number(table.rows.deleted),
            number(table.rows.heap_only),
            // Nobody keeps count of live rows: those that ANALYZE has found.
            known.map_or(Datum::Null, |known| number(known.rows.round() as i64)),
            number(table.garbage),
            number(record.changes_since(db, &table.rows)),
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
    };
    let tables = db.table_figures()?.into_iter();
    Ok(tables.filter(|table| is_listed(&table.name)).map(one).collect())
}

pub(super) fn indexes(db: &Database) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for table in db.table_figures()?.iter().filter(|table| is_listed(&table.name)) {
        for index in &table.indexes {
            rows.push(vec![
                oid(relation_oid(table.table)),
                oid(relation_oid(index.index)),
                text(schema_of(&table.name)),
                text(bare(&table.name)),
                text(bare(&index.name)),
                number(index.scans),
                number(index.entries),
                number(index.rows),
            ]);
        }
    }
    Ok(rows)
}

/// Is the table one of the clients?
fn is_listed(name: &str) -> bool {
    is_shown(name) && !is_own(name)
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

fn kind(lock: &LockInfo) -> &'static str {
    match lock.what {
        Locked::Table(_) => "relation",
        Locked::Transaction(_) => "transactionid",
    }
}

pub(super) fn activity(db: &Database, session: &SessionInfo<'_>) -> Vec<Row> {
    let locks = db.locks();
    let one = |client: &Client| {
        let number = client.transaction();
        let waits = locks.iter().find(|lock| !lock.granted && lock.transaction == number);
        let (class, event) = match (waits, client.doing()) {
            (Some(lock), Doing::Active) => (Some("Lock"), Some(kind(lock))),
            (None, Doing::Active) => (None, None),
            _ => (Some("Client"), Some("ClientRead")),
        };
        let who = &client.who;
        vec![
            text(session.database),
            Datum::Int4(who.pid as i32),
            text(&who.user),
            text(client.application()),
            optional(who.address.as_deref()),
            who.port.map_or(Datum::Null, |port| Datum::Int4(i32::from(port))),
            time(client.started),
            time(client.transaction_started()),
            time(client.query_started()),
            time(client.changed()),
            optional(class),
            optional(event),
            text(client.doing().name()),
            text(client.query()),
            text("client backend"),
        ]
    };
    session.activity.all().iter().map(|client| one(client)).collect()
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

pub(super) fn locks(db: &Database, session: &SessionInfo<'_>) -> Result<Vec<Row>> {
    let clients = session.activity.all();
    let figures = db.table_figures()?;
    let one = |lock: LockInfo| {
        let (table, transaction) = match lock.what {
            Locked::Table(table) => (Some(table), Datum::Null),
            Locked::Transaction(owner) => (None, number(owner)),
        };
        let name = figures.iter().find(|figures| Some(figures.table) == table);
        let client = clients.iter().find(|client| client.transaction() == lock.transaction);
        vec![
            text(kind(&lock)),
            table.map_or(Datum::Null, |table| oid(relation_oid(table))),
            // The lock of a schema is that of its mark.
            optional(name.map(|figures| match marked(&figures.name) {
                Some(schema) => schema,
                None => bare(&figures.name),
            })),
            transaction,
            text(lock.transaction.to_string()),
            client.map_or(Datum::Null, |client| Datum::Int4(client.who.pid as i32)),
            text(mode(lock.mode)),
            Datum::Bool(lock.granted),
        ]
    };
    Ok(db.locks().into_iter().map(one).collect())
}
