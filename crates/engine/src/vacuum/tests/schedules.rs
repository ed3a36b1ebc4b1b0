//! Schedules of whole vacuum runs beside cleaning by key and the next owners of row ids (R3).
//!
//! See `schedules` for how worlds are run.

use rightlink_env::sync::Arc;
use rightlink_env::thread;

use crate::datum::{Type, Value};
use crate::ids::FileId;
use crate::schedules::survives;
use crate::table::Statement;
use crate::table::schema::{Column, IndexColumn, IndexDef, TableDef};
use crate::table::tests::Store;
use crate::txn::Isolation;
use crate::vacuum::tests::SingleThread;
use crate::vacuum::*;

fn row(id: i64) -> Vec<Value> {
    vec![Value::Int8(id), Value::Int8(10 * id)]
}

/// Five rows with two indexes; the third is deleted.
fn with_a_dead_row() -> (Arc<Store>, RowId) {
    let columns = vec![Column::new("id", Type::Int8, false), Column::new("tag", Type::Int8, false)];
    let mut def = TableDef::new(ObjectId(100), "items", FileId(64), columns);
    let index = |at: u32, name: &str, unique| {
        let key = vec![IndexColumn::ascending(at as u16 - 1)];
        IndexDef::new(ObjectId(100 + at), name, FileId(66 + at), key, unique)
    };
    def.indexes = vec![index(1, "items_id", true), index(2, "items_tag", false)];
    let store = Store::with(def, 48, 1);
    let rows: Vec<_> = (0..5).map(row).collect();
    let ids = store.run(|statement| store.table.insert_many(statement, &rows)).expect("inserted");
    let mut txn = store.begin(Isolation::ReadCommitted);
    let mut statement = Statement::begin(&mut txn).expect("begins");
    let _ = store.table.delete(&mut statement, ids[2], &mut |_| Ok(true)).expect("deleted");
    txn.commit(false).expect("a commit");
    (Arc::new(store), ids[2])
}

fn run(store: &Store, stop: bool, resumable: Option<ResumableRun>) -> FinishedRun {
    let progress = Progress::default();
    let pace = |_| match stop && progress.phase() == Phase::Indexes && progress.indexes().0 > 2 {
        true => Err(Error::Cancelled("by the test".into())),
        false => Ok(()),
    };
    let limits =
        Limits { workers: &SingleThread, pace: &pace, admit: &|| Ok(()), progress: &progress };
    let memory = RunMemory { budget: &store.pool.env.budget, bytes: 1 << 16 };
    let options = RunOptions { horizon: store.txns.horizon(), may_skip: false };
    let vacuum = Vacuum::new(&store.table, memory, options, limits);
    vacuum.expect("memory").run(store.table.heap().freeing(), resumable)
}

/// A run is interrupted between two indexes and taken up again, beside cleaning by key and a row
/// that gets the row id.
fn interrupted() {
    let (store, dead) = with_a_dead_row();
    let vacuum = {
        let store = Arc::clone(&store);
        thread::spawn("vacuums", move || {
            let first = run(&store, true, None);
            run(&store, false, first.resumable).result.expect("a whole run");
        })
    };
    let writer = {
        let store = Arc::clone(&store);
        thread::spawn("writes", move || {
            store.table.heap().prune_and_queue(dead.block).expect("pruned");
            store.table.clean().expect("cleaned");
            let new = store.run(|statement| store.table.insert(statement, row(2)));
            new.expect("the key is free");
        })
    };
    vacuum.join().expect("no panic");
    writer.join().expect("no panic");
    run(&store, false, None).result.expect("a whole run");
    for index in store.table.indexes() {
        let stats = index.method().verify(None, &mut |finding| panic!("{finding:?}"));
        assert_eq!(stats.expect("read").live, 5, "an entry for every row");
    }
}

#[test]
fn a_run_is_taken_up_beside_others() {
    survives("interrupted vacuum", interrupted, 300);
}
