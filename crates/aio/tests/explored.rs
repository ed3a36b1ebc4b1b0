//! Whole `Io`s under a model checker: threads share one, submit, and wait for what is theirs. The
//! model reports a thread that is never woken as a deadlock. Run with `--features shuttle`.
#![cfg(feature = "shuttle")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use rightlink_aio::{AlignedBuf, Io, IoOptions, Method, OpenMode, SimDisk};
use rightlink_env::sync::{Arc, AtomicU64, Ordering};
use rightlink_env::{Env, thread};
use std::path::Path;

fn options(method: Method, depth: u32) -> IoOptions {
    IoOptions { method, direct: false, depth, workers: 2, device: None }
}

/// Two threads write two blocks each, wait for them, and read them back.
fn share(io: &Io) {
    let threads: Vec<_> = (0..2u8)
        .map(|number| {
            let io = io.clone();
            thread::spawn("submits", move || write_and_read(&io, number))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(io.in_flight(), 0);
}

fn write_and_read(io: &Io, number: u8) {
    let file = io.open_file(&format!("f{number}"), OpenMode::Create).unwrap();
    let done = Arc::new(AtomicU64::new(0));
    for block in 0..2 {
        let (buf, done) = (AlignedBuf::from_slice(&[number + 1; 64]), Arc::clone(&done));
        io.write_owned(&file, block * 64, buf, move |_, result| {
            done.fetch_add(result.unwrap() as u64, Ordering::SeqCst);
        });
    }
    assert!(io.wait_for(|| done.load(Ordering::SeqCst) == 128), "both are written");
    let mut back = [0; 128];
    file.read_exact_at(&mut back, 0).unwrap();
    assert_eq!(back, [number + 1; 128]);
}

#[test]
fn a_shared_simulation_wakes_everybody() {
    let run = |depth| {
        let io = Io::simulated(&Env::simulated(7), SimDisk::new(7), options(Method::Worker, depth));
        share(&io.unwrap());
    };
    shuttle::check_random(move || run(4), 500);
    shuttle::check_pct(move || run(1), 500, 3);
}

/// One thread waits for a read that another has submitted, who waits for that thread and reaps
/// nothing: a read was counted in and not in the queue yet when the first one looked for it, and
/// nobody told it when it was.
fn wait_for_another(io: &Io) {
    let file = io.open_file("f", OpenMode::Create).unwrap();
    let done = Arc::new(AtomicU64::new(0));
    let (theirs, waiter) = (Arc::clone(&done), io.clone());
    let (begun, begins) = (Arc::new(AtomicU64::new(0)), io.clone());
    let starts = Arc::clone(&begun);
    let submits = thread::spawn("submits", move || {
        starts.store(1, Ordering::SeqCst);
        begins.write_owned(&file, 0, AlignedBuf::from_slice(&[1; 64]), move |_, result| {
            theirs.fetch_add(result.unwrap() as u64, Ordering::SeqCst);
        });
    });
    let waits = thread::spawn("waits", move || {
        while begun.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        while !waiter.wait_for(|| done.load(Ordering::SeqCst) == 64) {
            thread::yield_now();
        }
    });
    submits.join().unwrap();
    waits.join().unwrap();
}

#[test]
fn a_simulation_wakes_who_looked_before_the_queue_had_it() {
    let run = || {
        let io = Io::simulated(&Env::simulated(7), SimDisk::new(7), options(Method::Worker, 4));
        wait_for_another(&io.unwrap());
    };
    shuttle::check_random(run, 2_000);
}

#[test]
fn shared_workers_wake_everybody_and_end() {
    let root = std::env::temp_dir().join(format!("rl-explored-{}", std::process::id()));
    Io::create_root(&root).unwrap();
    let run = |root: &Path, depth| {
        let io = Io::open(&Env::system(0), root, options(Method::Worker, depth)).unwrap();
        share(&io);
    };
    for depth in [1, 4] {
        let theirs = root.clone();
        shuttle::check_random(move || run(&theirs, depth), 200);
    }
    std::fs::remove_dir_all(&root).unwrap();
}
