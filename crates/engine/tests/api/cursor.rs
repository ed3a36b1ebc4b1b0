//! Scans for asynchronous callers: polled by a runtime of a dozen lines, several in one thread.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use rightlink::{Cursor, Database, Error, Result, ScanOptions, TableSchema, Type, Value};
use rightlink_env::points;
use rightlink_env::sync::{AtomicU64, Ordering};

const ROWS: i64 = 5000;

/// Wakes the thread that polls, and counts how often.
struct Unpark(Thread, AtomicU64);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current(), AtomicU64::new(0))));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

fn database() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut txn = db.begin();
    let schema =
        TableSchema::new("t").column("n", Type::Int8).column("pad", Type::Text).primary_key(["n"]);
    txn.create_table(&schema).unwrap();
    let rows: Vec<_> =
        (0..ROWS).map(|n| vec![Value::Int8(n), Value::Text("p".repeat(100))]).collect();
    txn.insert_many("t", &rows).unwrap();
    txn.commit().unwrap();
    (dir, db)
}

async fn next(cursor: &mut Cursor) -> Result<Option<i64>> {
    match cursor.next().await.transpose()? {
        None => Ok(None),
        Some(row) => match row.values[0] {
            Value::Int8(n) => Ok(Some(n)),
            ref other => panic!("an int8, not {other:?}"),
        },
    }
}

/// Two scans take turns in one thread: each gives all rows in its order, much more than is read
/// ahead.
#[test]
fn two_cursors_take_turns() {
    let (_dir, db) = database();
    let mut txn = db.begin();
    let up = ScanOptions::index("t_pkey");
    let mut up = txn.scan("t", &up).unwrap().into_cursor().unwrap();
    let mut down =
        txn.scan("t", &ScanOptions::index("t_pkey").backward()).unwrap().into_cursor().unwrap();
    block_on(async {
        for n in 0..ROWS {
            assert_eq!(next(&mut up).await.unwrap(), Some(n));
            assert_eq!(next(&mut down).await.unwrap(), Some(ROWS - 1 - n));
        }
        assert_eq!(next(&mut up).await.unwrap(), None);
        assert_eq!(next(&mut up).await.unwrap(), None, "the end stays the end");
        assert_eq!(next(&mut down).await.unwrap(), None);
    });
    txn.commit().unwrap();
    assert!(db.verify().unwrap().is_clean());
}

/// A poll never waits: it says that there is nothing yet, and wakes once there is.
#[test]
fn who_finds_nothing_is_woken() {
    let (_dir, db) = database();
    let mut txn = db.begin();
    let mut cursor = txn.scan("t", &ScanOptions::all()).unwrap().into_cursor().unwrap();
    let unpark = Arc::new(Unpark(thread::current(), AtomicU64::new(0)));
    let waker = Waker::from(Arc::clone(&unpark));
    let (mut rows, mut pending) = (0, 0);
    loop {
        match cursor.poll_next(&mut Context::from_waker(&waker)) {
            Poll::Ready(None) => break,
            Poll::Ready(Some(row)) => {
                row.unwrap();
                rows += 1;
            }
            Poll::Pending => {
                pending += 1;
                thread::park();
            }
        }
    }
    assert_eq!(rows, ROWS);
    // Each Pending was followed by a wake, or the loop would not have ended; no other was needed.
    assert!(unpark.1.load(Ordering::Relaxed) >= pending);
}

/// A cursor that is let go in the middle, and one whose transaction ends, leave nothing behind.
#[test]
fn cursors_end_early() {
    let (_dir, db) = database();
    let used = db.budget().used();
    let mut txn = db.begin();
    let mut left = txn.scan("t", &ScanOptions::all()).unwrap().into_cursor().unwrap();
    assert!(db.budget().used() > used, "what is read ahead is reserved");
    assert!(block_on(next(&mut left)).unwrap().is_some());
    drop(left);
    let mut outlived = txn.scan("t", &ScanOptions::all()).unwrap().into_cursor().unwrap();
    assert!(block_on(next(&mut outlived)).unwrap().is_some());
    txn.rollback();
    let error = block_on(async {
        loop {
            match next(&mut outlived).await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the scan ended before its rows did"),
                Err(error) => return error,
            }
        }
    });
    assert!(matches!(error, Error::Invalid(_)), "{error}");
    assert_eq!(block_on(next(&mut outlived)).unwrap(), None, "nothing comes after an error");
    drop(outlived);
    assert!(db.verify().unwrap().is_clean());
}

/// Rows are looked for by the cursor's own thread, and pages read, from the first one on.
#[test]
fn a_cursor_reads_nothing_on_the_thread_that_makes_it() {
    let (_dir, db) = database();
    let one = ScanOptions::index("t_pkey").equal(vec![Value::Int8(4711)]);
    let back = ScanOptions::index("t_pkey").backward();
    let mut txn = db.begin();
    assert!(txn.get("t", &[Value::Int8(1)]).unwrap().is_some());
    let reads = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&reads);
    let _hook = points::install_local(move |name: &'static str| {
        counted.fetch_add(u64::from(name == "buffer.read.submit"), Ordering::Relaxed);
    });
    for (options, first) in [(&one, 4711), (&back, ROWS - 1), (&ScanOptions::all(), 0)] {
        db.evict().unwrap();
        let mut cursor = txn.scan("t", options).unwrap().into_cursor().unwrap();
        assert_eq!(block_on(next(&mut cursor)).unwrap(), Some(first));
        assert_eq!(reads.load(Ordering::Relaxed), 0, "{options:?}");
    }
    db.evict().unwrap();
    assert_eq!(txn.scan("t", &one).unwrap().count(), 1);
    assert!(reads.load(Ordering::Relaxed) > 0, "else the test shows nothing");
    txn.commit().unwrap();
    assert!(db.verify().unwrap().is_clean());
}

/// Polled by one task and then by another: the last one is woken. Futures that are dropped lose no
/// row, and a cursor that is dropped while somebody waits for it lets its thread and memory go.
#[test]
fn tasks_take_over_and_give_up() {
    let (_dir, db) = database();
    let used = db.budget().used();
    let mut txn = db.begin();
    let mut cursor = txn.scan("t", &ScanOptions::index("t_pkey")).unwrap().into_cursor().unwrap();
    let tasks: Vec<_> =
        (0..2).map(|_| Arc::new(Unpark(thread::current(), AtomicU64::new(0)))).collect();
    let wakers: Vec<_> = tasks.iter().map(|task| Waker::from(Arc::clone(task))).collect();
    let woken = |task: usize| tasks[task].1.load(Ordering::Relaxed);
    let (mut wanted, mut handed_over) = (0, 0);
    while wanted < ROWS {
        let mut rows = Vec::new();
        let mut poll = |task: usize| {
            // The future is dropped at once, whatever it said.
            match pin!(cursor.next()).poll(&mut Context::from_waker(&wakers[task])) {
                Poll::Ready(row) => {
                    rows.push(row.expect("not the end").unwrap().values[0].clone());
                    true
                }
                Poll::Pending => false,
            }
        };
        let second = woken(1);
        if !poll(0) && !poll(1) {
            while woken(1) == second {
                thread::yield_now();
            }
            handed_over += 1;
        }
        for row in rows {
            assert_eq!(row, Value::Int8(wanted), "none was lost");
            wanted += 1;
        }
    }
    assert!(matches!(block_on(next(&mut cursor)), Ok(None)));
    println!("{handed_over} times the second task was woken instead of the first");
    // Dropped while it waits, by a poll that found nothing.
    for _ in 0..200 {
        let mut left = txn.scan("t", &ScanOptions::all()).unwrap().into_cursor().unwrap();
        let _ = left.poll_next(&mut Context::from_waker(&wakers[0]));
        drop(left);
    }
    drop(cursor);
    txn.rollback();
    for _ in 0..5000 {
        if db.budget().used() <= used {
            break;
        }
        thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(db.budget().used() <= used, "{} bytes, {used} before", db.budget().used());
    db.close().unwrap();
}

/// A waker that fails, in the thread that reads ahead.
#[derive(Default)]
struct Fails(AtomicU64);

impl Wake for Fails {
    fn wake(self: Arc<Self>) {
        self.0.store(1, Ordering::Release);
        panic!("the test's waker");
    }
}

/// A reader whose scan broke off by a panic used to see the end of the rows, as if it had them all.
#[test]
fn a_scan_that_panics_does_not_end_like_a_whole_one() {
    let (_dir, db) = database();
    let mut txn = db.begin();
    // A thread that reads ahead may be faster than the first poll.
    let fails = Arc::new(Fails::default());
    let waker = Waker::from(Arc::clone(&fails));
    let mut cursor = loop {
        let mut cursor = txn.scan("t", &ScanOptions::all()).unwrap().into_cursor().unwrap();
        if cursor.poll_next(&mut Context::from_waker(&waker)).is_pending() {
            break cursor;
        }
    };
    while fails.0.load(Ordering::Acquire) == 0 {
        thread::yield_now();
    }
    let mut rows = 0;
    let error = block_on(async {
        loop {
            match next(&mut cursor).await {
                Ok(Some(_)) => rows += 1,
                Ok(None) => panic!("{rows} rows of {ROWS} and no error"),
                Err(error) => return error,
            }
        }
    });
    assert!(error.to_string().contains("panicked"), "{error}");
    assert_eq!(block_on(next(&mut cursor)).unwrap(), None);
    drop(cursor);
    assert!(db.verify().unwrap().is_clean());
}
