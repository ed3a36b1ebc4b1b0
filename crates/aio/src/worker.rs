//! The worker method: threads that take operations from one queue and call completions themselves.
//! With a modelled device a worker sleeps like one that waits for a slow device, so the depth is
//! limited by the number of workers, as it is in reality.
//!
//! A few threads are there from the start, more are started when an operation finds none idle, up
//! to a limit: a fast device never makes them necessary.

use crate::core::Core;
use crate::sys;
use crate::transfer::Op;
use rightlink_env::sync::{Arc, Condvar, Mutex};
use rightlink_env::thread::{self, JoinHandle};
use std::collections::VecDeque;
use std::ops::Range;

/// Threads that are there from the start.
const FIRST: u32 = 4;

/// A pool of worker threads. Dropping it lets them empty the queue and waits for them.
#[derive(Debug)]
pub(crate) struct Workers {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Threads that there may be.
    most: u32,
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
    /// Threads that wait for work.
    idle: usize,
    started: u32,
}

impl Queue {
    /// Who is busy looks at the queue before it waits, so only an idle thread must be woken.
    fn has_work_for_idle(&self) -> bool {
        self.idle > 0 && !self.ops.is_empty()
    }
}

impl Workers {
    /// A pool of up to `most` threads, or as many of them as the system gives, if it gives one.
    pub(crate) fn start(core: &Arc<Core>, most: u32) -> Result<Workers, std::io::Error> {
        assert!(most > 0, "somebody does the work");
        let queue = Mutex::default();
        let shared = Arc::new(Shared { core: Arc::clone(core), queue, work: Condvar::new() });
        let workers = Workers { shared, threads: Mutex::default(), most };
        workers.start_one(0)?;
        workers.shared.queue.lock().started = most.min(FIRST);
        workers.grow(1..most.min(FIRST));
        Ok(workers)
    }

    fn start_one(&self, number: u32) -> Result<(), std::io::Error> {
        let theirs = Arc::clone(&self.shared);
        let name = format!("rightlink-io-{number}");
        let thread = thread::try_spawn(&name, move || theirs.work())?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// Starts more threads, which are counted already. If the system gives none, no more are asked
    /// for.
    fn grow(&self, mut numbers: Range<u32>) {
        let failed = numbers.find_map(|number| Some((number, self.start_one(number).err()?)));
        if let Some((number, error)) = failed {
            self.shared.queue.lock().started = self.most;
            let line = format!("only {number} I/O workers started: {error}");
            self.shared.core.logger.warn(&line);
        }
    }

    /// Takes operations. One idle thread is woken, and wakes another while there is more to do:
    /// who submits is the one whom all others wait for.
    pub(crate) fn submit(&self, ops: impl IntoIterator<Item = Op>) {
        let mut queue = self.shared.queue.lock();
        assert!(!queue.closed, "nothing is submitted to a closed pool");
        queue.ops.extend(ops);
        let number = queue.started;
        let lacking = queue.ops.len().saturating_sub(queue.idle) as u32;
        let more = lacking.min(self.most - number);
        queue.started += more;
        let wake = queue.has_work_for_idle();
        drop(queue);
        if wake {
            self.shared.work.notify_one();
        }
        self.grow(number..number + more);
    }

    /// Whether the calling thread is a worker, which must not wait for workers.
    pub(crate) fn is_worker(&self) -> bool {
        let me = thread::current_id();
        self.threads.lock().iter().any(|thread| thread.id() == me)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.queue.lock().closed = true;
        self.shared.work.notify_all();
        let me = thread::current_id();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
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
        if self.core.device.is_some() {
            sys::sleep_exactly();
        }
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
                let wake = queue.has_work_for_idle();
                drop(queue);
                if wake {
                    self.work.notify_one();
                }
                return Some(op);
            }
            if queue.closed {
                return None;
            }
            queue.idle += 1;
            queue = self.work.wait(queue);
            queue.idle -= 1;
        }
    }
}
