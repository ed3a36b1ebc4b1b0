//! A page that is marked dirty while two checkpoints pass.

use rightlink_aio::sim::CrashChoice;
use rightlink_aio::{Io, SimDisk};
use rightlink_env::sync::{Arc, Mutex};
use rightlink_env::{Env, points, thread};

use crate::buffer::testing::{self, control};
use crate::buffer::{BufferPool, Mtr, PoolOptions};
use crate::ids::{FileId, Lsn, PageId, Xid};
use crate::page::{PageKind, header};
use crate::recovery::checkpoint::{Checkpoint, ControlFields};
use crate::recovery::redo;
use crate::wal::{RecordKind, Wal};

const FILE: FileId = FileId(70);
const VALUE: usize = 4096;

fn page(block: u32) -> PageId {
    PageId::new(FILE, block)
}

fn store(pool: &BufferPool, block: u32, value: u64) {
    let mut mtr = Mtr::new(pool);
    let held = mtr.latch(pool.pin(page(block)).unwrap());
    if header::is_zero(mtr.bytes(held)) {
        mtr.page(held).replace(&header::format(PageKind::Heap, 0));
    }
    mtr.page(held).put_u64(VALUE, value);
    mtr.commit(RecordKind::HeapUpdate, Xid(5)).unwrap();
}

/// A checkpoint that has looked for pages for the last time.
fn almost(pool: &BufferPool) -> Checkpoint {
    let mut checkpoint = Checkpoint::begin(pool);
    while checkpoint.step(pool).unwrap() {}
    checkpoint
}

fn finish(checkpoint: Checkpoint, pool: &BufferPool) -> Lsn {
    let stored = control();
    let counters = |_| ControlFields {
        database: stored.database,
        next_xid: stored.next_xid,
        oldest_xid: stored.oldest_xid,
        next_file: stored.next_file,
        clean: false,
        redo_speed: stored.redo_speed,
        device: Default::default(),
        outcomes: 0,
    };
    checkpoint.finish(pool, counters).unwrap()
}

/// What recovery makes of block 0 and 1 on `disk`.
fn recovered(disk: &SimDisk) -> [u64; 2] {
    let env = Env::simulated(2);
    let io = Io::simulated(&env, disk.clone(), testing::io_options()).unwrap();
    let from = Wal::read_control(&io).unwrap().redo;
    let end = redo::find_end(&env, &io, from).unwrap().end;
    let wal = Arc::new(Wal::open(&env, &io, testing::wal_options(), end).unwrap());
    let options = PoolOptions { frames: 64, double_write_pages: 64 };
    let pool = BufferPool::new(&env, &io, wal, options).unwrap();
    redo::replay(&env, &io, &pool, from..end, 1 << 20).unwrap();
    [0, 1].map(|block| {
        let pin = pool.pin(page(block)).unwrap();
        header::u64_at(pin.shared().bytes(), VALUE)
    })
}

/// A thread reads the end of the log and marks its page with it only after a whole checkpoint
/// and the last look for pages of a second one, with records of others between.
#[test]
fn a_page_marked_late_does_not_take_redo_back() {
    let test = testing::pool(64, 1);
    test.pool.create_file(FILE, true).unwrap();
    test.pool.extend(FILE, 2).unwrap();
    (0..2).for_each(|block| store(&test.pool, block, 1));
    test.pool.flush_all().unwrap();
    let (pool, begun) = (Arc::clone(&test.pool), Mutex::new(None));
    let hook = points::install_local(move |name| {
        // A thread that has latched a page waits for no file (R7): other threads do.
        let pool = Arc::clone(&pool);
        let elsewhere = match name {
            "buffer.mtr.before-mark" => thread::spawn("begins", move || {
                store(&pool, 1, 2);
                let first = finish(almost(&pool), &pool);
                store(&pool, 1, 3);
                (Some(almost(&pool)), first)
            }),
            "buffer.mtr.before-append" => {
                let (checkpoint, first): (Checkpoint, Lsn) = begun.lock().take().unwrap();
                thread::spawn("finishes", move || {
                    assert!(finish(checkpoint, &pool) > first, "redo goes forward");
                    (None, first)
                })
            }
            _ => return,
        };
        let (checkpoint, first) = elsewhere.join().expect("no panic");
        *begun.lock() = checkpoint.map(|checkpoint| (checkpoint, first));
    });
    store(&test.pool, 0, 9);
    drop(hook);
    test.pool.wal().flush(test.pool.wal().end()).unwrap();
    assert_eq!(recovered(&test.disk.crash_image(&CrashChoice::AllLost)), [9, 3]);
}
