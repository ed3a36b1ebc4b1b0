//! The worker method: threads that take operations from one queue and call completions themselves.
//! With a modelled device a worker sleeps like one that waits for a slow device, so the depth is
//! limited by the number of workers, as it is in reality.

use crate::core::Core;
use crate::transfer::Op;
use rightlink_env::sync::{Arc, Condvar, Mutex};
use rightlink_env::thread::{self, JoinHandle};
use std::collections::VecDeque;

/// A pool of worker threads. Dropping it lets them empty the queue and waits for them.
#[derive(Debug)]
pub(crate) struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    core: Arc<Core>,
    queue: Mutex<Queue>,
    work: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    ops: VecDeque<Op>,
    closed: bool,
}

impl Workers {
    /// Starts `count` threads, or as many of them as the system gives, if it gives one.
    pub(crate) fn start(core: &Arc<Core>, count: u32) -> Result<Workers, std::io::Error> {
        assert!(count > 0, "somebody does the work");
        let queue = Mutex::default();
        let shared = Arc::new(Shared { core: Arc::clone(core), queue, work: Condvar::new() });
        let mut threads = Vec::new();
        for number in 0..count {
            let theirs = Arc::clone(&shared);
            match thread::try_spawn(&format!("rightlink-io-{number}"), move || theirs.work()) {
                Ok(thread) => threads.push(thread),
                Err(error) if threads.is_empty() => return Err(error),
                Err(error) => {
                    core.logger.warn(&format!("only {number} I/O workers started: {error}"));
                    break;
                }
            }
        }
        Ok(Workers { shared, threads })
    }

    pub(crate) fn submit(&self, op: Op) {
        let mut queue = self.shared.queue.lock();
        assert!(!queue.closed, "nothing is submitted to a closed pool");
        queue.ops.push_back(op);
        drop(queue);
        self.shared.work.notify_one();
    }

    /// Whether the calling thread is a worker, which must not wait for workers.
    pub(crate) fn is_worker(&self) -> bool {
        let me = thread::current_id();
        self.threads.iter().any(|thread| thread.id() == me)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.queue.lock().closed = true;
        self.shared.work.notify_all();
        let me = thread::current_id();
        for thread in self.threads.drain(..) {
            // A completion may own the last `Io`: the worker that runs it ends by itself.
            if thread.id() == me {
                continue;
            }
            if let Err(panic) = thread.join() {
                self.shared.core.logger.error(&format!("an I/O worker ended: {panic}"));
            }
        }
    }
}

impl Shared {
    /// The life of one worker.
    fn work(&self) {
        while let Some(op) = self.next() {
            let due = self.core.due(op.bufs.total());
            let result = op.attempt();
            self.core.sleep_due(due);
            op.finish(&self.core, result);
        }
    }

    fn next(&self) -> Option<Op> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(op) = queue.ops.pop_front() {
                return Some(op);
            }
            if queue.closed {
                return None;
            }
            queue = self.work.wait(queue);
        }
    }
}
