//! Runs over one table: by key and by pass, on several threads, interrupted and taken up again.

#[cfg(feature = "shuttle")]
mod schedules;

use rightlink_env::Broken;
use rightlink_env::sync::{Arc, AtomicU64, AtomicUsize, Ordering};
use rightlink_env::{points, thread};

use super::*;
use crate::datum::Value;
use crate::heap::FreedByKey;
use crate::table::tests::{Store, item};
use crate::table::{Statement, Written};
use crate::txn::Isolation;

/// A store with `rows` rows, three indexes over them.
fn filled(rows: i64) -> Store {
    let store = Store::new(1024, 3);
    for first in (0..rows).step_by(500) {
        let last = rows.min(first + 500);
        let batch: Vec<_> = (first..last).map(|id| item(id, &format!("n{id}"))).collect();
        store.run(|statement| store.table.insert_many(statement, &batch)).unwrap();
    }
    store
}

fn delete(store: &Store, ids: impl Iterator<Item = i64>) {
    let mut txn = store.begin(Isolation::ReadCommitted);
    for id in ids {
        let mut statement = Statement::begin(&mut txn).unwrap();
        let snapshot = Arc::clone(statement.snapshot());
        let (at, _) = store.find(&snapshot, id).unwrap();
        drop(snapshot);
        let _ = store.table.delete(&mut statement, at, &mut |_| Ok(true)).unwrap();
    }
    txn.commit(true).unwrap();
}

/// The calling thread alone.
pub(crate) struct SingleThread;

impl Workers for SingleThread {
    fn max_threads(&self) -> usize {
        1
    }

    fn run(&self, _tasks: usize, work: &(dyn Fn() + Sync)) {
        work();
    }
}

impl<'a> Limits<'a> {
    /// No pauses, no further threads.
    pub(crate) fn none(progress: &'a Progress) -> Limits<'a> {
        Limits { workers: &SingleThread, pace: &|_| Ok(()), admit: &|| Ok(()), progress }
    }
}

struct Two;

impl Workers for Two {
    fn max_threads(&self) -> usize {
        2
    }

    fn run(&self, tasks: usize, work: &(dyn Fn() + Sync)) {
        thread::several("vacuum", tasks.min(2), work);
    }
}

fn run(
    store: &Store,
    may_skip: bool,
    limits: Limits<'_>,
    resumable: Option<ResumableRun>,
) -> FinishedRun {
    let memory = RunMemory { budget: &store.pool.env.budget, bytes: 1 << 20 };
    let options = RunOptions { horizon: store.txns.horizon(), may_skip };
    Vacuum::new(&store.table, memory, options, limits)
        .unwrap()
        .run(store.table.heap().freeing(), resumable)
}

fn whole(store: &Store, may_skip: bool) -> RunReport {
    let progress = Progress::default();
    let ended = run(store, may_skip, Limits::none(&progress), None);
    ended.result.unwrap();
    ended.report
}

/// Every index has an entry for each row, no more, and the heap is sound.
fn check(store: &Store, rows: u64) {
    for index in store.table.indexes() {
        let stats = index.method().verify(None, &mut |finding| panic!("{finding:?}")).unwrap();
        assert_eq!((stats.live, stats.dead), (rows, 0), "{}", index.def().name);
    }
    let mut check = |finding: crate::page::PageFinding| {
        assert!(finding.check == crate::heap::HARMLESS_CHECK, "{finding:?}");
    };
    store.table.heap().verify(&mut check).unwrap();
}

#[test]
fn few_known_rows_leave_by_key() {
    let store = filled(20_000);
    delete(&store, [7, 700, 5999].into_iter());
    let report = whole(&store, true);
    assert_eq!((report.rows, report.entries, report.index_passes), (3, 9, 0));
    check(&store, 19_997);
}

#[test]
fn many_rows_leave_by_a_pass() {
    let store = filled(6000);
    delete(&store, 0..2000);
    let report = whole(&store, true);
    assert_eq!((report.rows, report.entries, report.index_passes), (2000, 6000, 1));
    check(&store, 4000);
}

/// Rows whose bytes are gone are left to a later run that may not skip, when they are few.
#[test]
fn few_unknown_rows_wait_for_the_next_run() {
    let store = filled(20_000);
    delete(&store, [7, 8, 9].into_iter());
    let snapshot = store.begin(Isolation::Snapshot).begin_statement().unwrap();
    let (at, _) = store.find(&snapshot, 6).unwrap();
    drop(snapshot);
    assert_eq!(store.table.heap().prune(at.block).unwrap().len(), 3);
    let first = whole(&store, true);
    assert_eq!((first.rows, first.rows_left, first.index_passes), (0, 3, 0));
    let second = whole(&store, false);
    assert_eq!((second.rows, second.entries, second.index_passes), (3, 9, 1));
    check(&store, 19_997);
}

/// What a cleaning beside a vacuum could not give free is known to the next one, by its key.
#[test]
fn rows_that_a_cleaning_left_leave_by_key() {
    let store = filled(20_000);
    delete(&store, [7, 8, 9].into_iter());
    let snapshot = store.begin(Isolation::Snapshot).begin_statement().unwrap();
    let (at, _) = store.find(&snapshot, 6).unwrap();
    drop(snapshot);
    let heap = store.table.heap();
    assert_eq!(heap.prune_and_queue(at.block).unwrap(), 3);
    let turn = heap.freeing();
    assert_eq!(store.table.clean().unwrap().freed, 0);
    drop(turn);
    assert_eq!(heap.dead_roots(), 0, "no cleaning tries again");
    let report = whole(&store, true);
    assert_eq!((report.rows, report.rows_left, report.index_passes), (3, 0, 0));
    check(&store, 19_997);
}

/// A row so long that an update moves it to another page.
fn wide(id: i64, n: i64) -> Vec<Value> {
    let mut row = item(id, &format!("name {n}"));
    row[4] = Value::Bytes(vec![n as u8; 3000]);
    row
}

/// Rows move from page to page under a snapshot that sees where they began. What was between
/// leaves stubs, whose rows are gone; their entries, once, stayed as long as the snapshot.
fn entries_of_stubs_leave(bytes: usize, queued: bool) {
    let store = Store::new(1024, 3);
    let rows: Vec<_> = (0..30).map(|id| wide(id, 0)).collect();
    let mut ids = store.run(|statement| store.table.insert_many(statement, &rows)).unwrap();
    let old = store.begin(Isolation::Snapshot).begin_statement().unwrap();
    let heap = store.table.heap();
    for n in 1..4 {
        for id in 0..30 {
            let mut change = |_: &[Value]| Ok(Some(wide(id, n)));
            let at = &mut ids[id as usize];
            let written = store.run(|s| store.table.update(s, *at, &mut change)).unwrap();
            let Written::Done(to) = written else { panic!("{written:?}") };
            *at = to;
        }
    }
    if queued {
        (1..heap.blocks()).for_each(|at| _ = heap.prune_and_queue(BlockNo(at)).unwrap());
        assert!(heap.dead_roots() > 0);
    }
    let progress = Progress::default();
    for _ in 0..2 {
        let memory = RunMemory { budget: &store.pool.env.budget, bytes };
        let options = RunOptions { horizon: store.txns.horizon(), may_skip: true };
        let vacuum = Vacuum::new(&store.table, memory, options, Limits::none(&progress)).unwrap();
        vacuum.run(heap.freeing(), None).result.unwrap();
    }
    check(&store, 60);
    assert_eq!(store.all(&old), rows);
    drop(old);
    for _ in 0..2 {
        whole(&store, true);
    }
    check(&store, 30);
}

#[test]
fn entries_of_forwarding_stubs_leave_beside_an_old_snapshot() {
    entries_of_stubs_leave(1 << 20, false);
    entries_of_stubs_leave(1 << 20, true);
    // No memory for the bytes of rows: by a pass.
    entries_of_stubs_leave(1, false);
    entries_of_stubs_leave(1, true);
}

/// What does not fit in memory at once leaves in several passes.
#[test]
fn a_full_set_is_emptied_on_the_way() {
    let store = filled(30_000);
    delete(&store, (0..30_000).step_by(2));
    let progress = Progress::default();
    let memory = RunMemory { budget: &store.pool.env.budget, bytes: 1 };
    let options = RunOptions { horizon: store.txns.horizon(), may_skip: true };
    let vacuum = Vacuum::new(&store.table, memory, options, Limits::none(&progress)).unwrap();
    let ended = vacuum.run(store.table.heap().freeing(), None);
    ended.result.unwrap();
    assert_eq!((ended.report.rows, ended.report.entries), (15_000, 45_000));
    assert_eq!((progress.dead(), progress.phase()), (0, Phase::Freeing));
    assert_eq!(progress.heap().0, progress.heap().1);
    check(&store, 15_000);
}

#[test]
fn parts_of_indexes_are_done_on_several_threads() {
    let store = filled(20_000);
    delete(&store, (0..20_000).filter(|id| id % 3 > 0));
    let progress = Progress::default();
    let paced = AtomicU64::new(0);
    let pace = |blocks: u32| {
        paced.fetch_add(blocks.into(), Ordering::Relaxed);
        Ok(())
    };
    let limits = Limits { workers: &Two, pace: &pace, admit: &|| Ok(()), progress: &progress };
    let ended = run(&store, true, limits, None);
    ended.result.unwrap();
    assert_eq!(ended.report.index_passes, 1);
    assert_eq!(ended.report.entries, 3 * ended.report.rows);
    let (done, of) = progress.indexes();
    assert!(done >= of && of > 100, "{done} of {of} index blocks");
    assert!(paced.into_inner() > done, "the heap counts, too");
    check(&store, 6667);
}

/// Ends a run when an index has been cleaned, and `after` more pages of the next one.
fn interrupted(store: &Store, after: u32) -> FinishedRun {
    let progress = Progress::default();
    let (dead, left) = (AtomicUsize::new(0), AtomicU64::new(u64::MAX));
    let indexes = store.table.indexes();
    let first = u64::from(store.pool.pool.blocks(indexes[0].def().file));
    let pace = |_| {
        dead.fetch_max(progress.dead() as usize, Ordering::Relaxed);
        let at = progress.phase() == Phase::Indexes;
        if at && progress.indexes().0 >= first + u64::from(after) {
            left.store(0, Ordering::Relaxed);
            return Err(Error::Cancelled("by the test".into()));
        }
        Ok(())
    };
    let limits =
        Limits { workers: &SingleThread, pace: &pace, admit: &|| Ok(()), progress: &progress };
    let ended = run(store, false, limits, None);
    assert!(matches!(ended.result, Err(Error::Cancelled(_))), "{:?}", ended.result);
    assert_eq!(left.into_inner(), 0);
    ended
}

#[test]
fn an_interrupted_run_is_taken_up_where_it_was() {
    let store = filled(20_000);
    delete(&store, 0..5000);
    let ended = interrupted(&store, 5);
    assert_eq!((ended.report.rows, ended.report.entries), (0, 5000), "one index is clean");
    // Counted on this thread alone: other tests take runs up at the same time.
    let taken = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&taken);
    let hook = points::install_local(move |point| {
        seen.fetch_add(usize::from(point == "vacuum.taken-up"), Ordering::Relaxed);
    });
    let progress = Progress::default();
    let ended = run(&store, false, Limits::none(&progress), ended.resumable);
    ended.result.unwrap();
    drop(hook);
    assert_eq!(taken.load(Ordering::Relaxed), 1);
    assert_eq!(ended.report.rows, 5000);
    assert!(ended.report.entries <= 10_000, "the first index was not passed over again");
    check(&store, 15_000);
}

/// Few rows of an interrupted run take little memory until the next, which has all of its own.
#[test]
fn what_a_run_left_takes_no_more_memory_than_it_needs() {
    let store = filled(20_000);
    delete(&store, 0..5000);
    let budget = &store.pool.env.budget;
    let before = budget.used();
    let ended = interrupted(&store, 5);
    assert!(ended.resumable.is_some());
    let kept = budget.used() - before;
    assert!(kept < 200 << 10, "{kept} bytes for 5000 row ids");
    // More rows than there were: they do not all fit with what was left.
    delete(&store, 5000..15_000);
    let progress = Progress::default();
    let ended = run(&store, false, Limits::none(&progress), ended.resumable);
    ended.result.unwrap();
    assert_eq!((ended.report.rows, ended.report.index_passes), (15_000, 2));
    assert_eq!(budget.used(), before);
    check(&store, 5000);
}

/// A table whose definition changes is opened again, with a recycle clock that begins anew: once,
/// what a run had left was taken up by the new one, whose clock knew of nothing that was freed in
/// between, and entries of rows that had been inserted since left the indexes.
#[test]
fn what_a_run_left_is_not_taken_up_by_a_heap_with_another_clock() {
    let store = filled(6000);
    delete(&store, 0..3000);
    let ended = interrupted(&store, 1);
    let resumable = ended.resumable.expect("one index is clean");
    let again = Table::open(&store.pool.pool, &store.txns, store.table.def().clone()).unwrap();
    assert!(!again.heap().is_same(store.table.heap()));
    let memory = RunMemory { budget: &store.pool.env.budget, bytes: 1 << 20 };
    assert!(resumable.resume(again.heap(), memory).unwrap().is_none());
    let progress = Progress::default();
    let options = RunOptions { horizon: store.txns.horizon(), may_skip: false };
    let vacuum = Vacuum::new(&again, memory, options, Limits::none(&progress)).unwrap();
    let ended = vacuum.run(again.heap().freeing(), None);
    ended.result.unwrap();
    assert_eq!(ended.report.rows, 3000, "they were collected again");
    check(&store, 3000);
}

/// Row ids that others gave free meanwhile, and that name new rows now, are not taken up.
fn row_ids_used_again() {
    let store = filled(6000);
    delete(&store, 0..3000);
    // Pruned before the run, so that they can go by key after it.
    let mut roots = Vec::new();
    for block in 1..store.table.heap().blocks() {
        roots.extend(store.table.heap().prune(crate::ids::BlockNo(block)).unwrap());
    }
    let ended = interrupted(&store, 1);
    for index in store.table.indexes() {
        assert!(store.table.remove_by_key(index, &roots).unwrap().is_some());
    }
    assert_eq!(
        store.table.heap().free_by_key(&roots).unwrap(),
        Some(FreedByKey { freed: 3000, recycled: 0 })
    );
    let new: Vec<_> = (0..3000).map(|id| item(id, "again")).collect();
    let ids = store.run(|statement| store.table.insert_many(statement, &new)).unwrap();
    let again = ids.iter().filter(|id| roots.iter().any(|root| root.row_id == **id)).count();
    assert!(again > 1000, "the test is about row ids that are used again: {again}");
    let progress = Progress::default();
    let ended = run(&store, false, Limits::none(&progress), ended.resumable);
    ended.result.unwrap();
    check(&store, 6000);
}

#[test]
fn a_run_does_not_take_up_what_names_new_rows() {
    row_ids_used_again();
    let caught =
        points::caught(Broken::ParkedRowIdsNotRechecked, &[("used again", row_ids_used_again)]);
    assert_eq!(caught, Some("used again"));
}
