//! The io_uring method: one ring per `Io`. One of the few files with `unsafe`.
//!
//! Any thread submits, under a lock around the submission queue. Any thread that waits reaps, one
//! at a time. [`Flight`] hands out the role of the reaper. Only the reaper touches the completion
//! queue and the delayed operations. Completions are called after the role is given back.
//!
//! Rules the unsafe code rests on:
//!
//! **U1** An operation in the kernel is a leaked box whose address is the entry's user data. It
//! owns the file, the segment list and (by contract B1 of `buf`) the memory, and does not move. The
//! kernel returns each address exactly once; then the box is taken back.
//!
//! **U2** The submission queue is touched only under `submitting`.
//!
//! **U3** The completion queue is touched only by the reaper.
//!
//! The ring outlives its operations: dropping the `Io` reaps until none is in flight.

use crate::core::Core;
use crate::error::RawError;
use crate::progress::Direction;
use crate::transfer::Op;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rightlink_env::sync::Mutex;
use rightlink_env::{Nanos, thread};
use rustix::fd::{AsFd, AsRawFd};

/// The most entries of a ring; a greater depth is cut to it.
pub(crate) const MAX_ENTRIES: u32 = 4096;

/// Bytes from which on a planned read of a file in the page cache goes to a thread of the kernel.
/// Else who submits it copies it, too, with nothing read meanwhile. For less a thread costs more.
const LARGE: usize = 16 << 10;

/// The kernel's ring.
pub(crate) struct Ring {
    ring: IoUring,
    submitting: Mutex<()>,
    /// Operations that the kernel has finished before the modelled device would have.
    delayed: Mutex<Vec<Ended>>,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ring")
    }
}

/// An operation in the kernel.
struct InKernel {
    op: Op,
    /// What is left to move; the kernel reads the list at its own time.
    segments: Vec<crate::buf::Segment>,
}

/// An operation that the kernel has finished.
#[derive(Debug)]
struct Ended {
    op: Op,
    result: Result<usize, RawError>,
}

impl Ended {
    fn due(&self) -> Nanos {
        self.op.due.unwrap_or(Nanos(0))
    }
}

impl Ring {
    /// A ring for `depth` operations, if the kernel gives one that works.
    pub(crate) fn new(depth: u32) -> Result<Ring, std::io::Error> {
        assert!((1..=MAX_ENTRIES).contains(&depth), "the caller has cut the depth");
        let mut ring = IoUring::new(depth.next_power_of_two())?;
        check(&mut ring)?;
        Ok(Ring { ring, submitting: Mutex::new(()), delayed: Mutex::default() })
    }

    /// Gives the kernel operations, waiting for room as needed.
    pub(crate) fn submit(&self, core: &Core, ops: impl IntoIterator<Item = Op>) {
        for mut op in ops {
            while !core.flight.try_begin() {
                // Whoever sleeps in the kernel may wait for what is queued.
                self.flush();
                self.make_room(core);
            }
            op.due = core.due(op.bufs.total());
            self.push(op);
        }
        self.flush();
    }

    /// Queues an operation that was counted in.
    fn push(&self, op: Op) {
        let entry = leak(op);
        let submitting = self.submitting.lock();
        loop {
            // SAFETY: U2: we hold `submitting`, and the view ends within this block.
            let mut queue = unsafe { self.ring.submission_shared() };
            // SAFETY: U1: what the entry names lives in the leaked box until the kernel returns it.
            if unsafe { queue.push(&entry) }.is_ok() {
                break;
            }
            drop(queue);
            self.flush();
        }
        drop(submitting);
    }

    /// Hands what is queued to the kernel. It may be short of memory for a moment; nothing may stay
    /// behind, as the reaper may already sleep in the kernel and wait for it.
    fn flush(&self) {
        while let Err(error) = self.ring.submit() {
            assert_passing(&error);
            thread::yield_now();
        }
    }

    /// Waits in the kernel until it has finished something.
    fn wait(&self) {
        if let Err(error) = self.ring.submitter().submit_and_wait(1) {
            assert_passing(&error);
        }
    }

    /// Completes operations; see `Io::reap`.
    pub(crate) fn reap_past(&self, core: &Core, seen: u64, wait: bool) -> usize {
        while core.flight.become_reaper(seen, wait) {
            let ran = self.reap_as_reaper(core, wait);
            if ran > 0 || !wait {
                return ran;
            }
        }
        (core.flight.progress() - seen) as usize
    }

    /// Waits until another operation may be submitted, and reaps if nobody else does.
    fn make_room(&self, core: &Core) {
        while core.flight.become_reaper_for_room() {
            self.reap_as_reaper(core, true);
        }
    }

    fn reap_as_reaper(&self, core: &Core, wait: bool) -> usize {
        let ended = self.collect(core, wait);
        core.flight.end_reaping(ended.len());
        let count = ended.len();
        for Ended { op, result } in ended {
            op.deliver(core, result);
        }
        count
    }

    /// The operations that are to be completed now; at least one, if `wait` and any is in flight.
    fn collect(&self, core: &Core, wait: bool) -> Vec<Ended> {
        let mut delayed = self.delayed.lock();
        loop {
            self.drain(&mut delayed);
            let now = core.clock.now();
            let mut ended: Vec<Ended> =
                delayed.extract_if(.., |ended| ended.due() <= now).collect();
            if !ended.is_empty() || !wait {
                ended.sort_by_key(Ended::due);
                return ended;
            }
            if let Some(due) = delayed.iter().map(Ended::due).min() {
                core.clock.sleep_until(due);
            } else if core.flight.in_flight() > 0 {
                self.wait();
            } else {
                return ended;
            }
        }
    }

    /// Takes what the kernel has finished; what has to go on goes back.
    fn drain(&self, ended: &mut Vec<Ended>) {
        // SAFETY: U3: only the reaper comes here, and the view ends within this function.
        let queue = unsafe { self.ring.completion_shared() };
        let mut again = false;
        for entry in queue {
            let (mut op, result) = take_back(&entry);
            match op.progress.step(result) {
                Some(result) => ended.push(Ended { op, result }),
                None => {
                    self.push(op);
                    again = true;
                }
            }
        }
        if again {
            self.flush();
        }
    }
}

/// A ring of ours, with entries of ours, meets only errors that pass: a signal, a full kernel.
fn assert_passing(error: &std::io::Error) {
    use std::io::ErrorKind::{Interrupted, ResourceBusy, WouldBlock};
    let passing = matches!(error.kind(), Interrupted | ResourceBusy | WouldBlock);
    assert!(passing, "the kernel broke the ring: {error}");
}

/// Whether the ring does what it should: a sandbox may allow its making and refuse its use.
fn check(ring: &mut IoUring) -> Result<(), std::io::Error> {
    let entry = opcode::Nop::new().build();
    // SAFETY: the entry names no memory.
    let pushed = unsafe { ring.submission().push(&entry) };
    assert!(pushed.is_ok(), "a new ring has room");
    ring.submit_and_wait(1)?;
    match ring.completion().next() {
        Some(entry) if entry.result() == 0 => Ok(()),
        _ => Err(std::io::Error::from(std::io::ErrorKind::Unsupported)),
    }
}

/// Makes the operation an entry of the queue, by rule U1.
fn leak(op: Op) -> squeue::Entry {
    let moved = op.progress.moved();
    let segments = op.bufs.rest(moved);
    let offset = op.offset + moved as u64;
    let file = op.file.inner().os().expect("a ring serves files of the system");
    let fd = types::Fd(file.as_fd().as_raw_fd());
    let direction = op.direction;
    let by_kernel = op.file.inner().is_planned() && op.bufs.total() >= LARGE;
    let op = Box::new(InKernel { op, segments });
    let (list, count) = (op.segments.as_ptr().cast(), op.segments.len() as u32);
    assert!(count > 0, "something is left to move");
    let entry = match direction {
        Direction::Read => {
            let read = opcode::Readv::new(fd, list, count).offset(offset).build();
            if by_kernel { read.flags(squeue::Flags::ASYNC) } else { read }
        }
        Direction::Write => opcode::Writev::new(fd, list, count).offset(offset).build(),
    };
    entry.user_data(Box::into_raw(op).expose_provenance() as u64)
}

/// Takes an operation back from the kernel.
fn take_back(entry: &cqueue::Entry) -> (Op, Result<usize, RawError>) {
    let address = entry.user_data() as usize;
    // SAFETY: U1: the address is that of a leaked box, returned by the kernel this once.
    let op = unsafe { Box::from_raw(std::ptr::with_exposed_provenance_mut::<InKernel>(address)) };
    let result = usize::try_from(entry.result()).map_err(|_| RawError::from_os(-entry.result()));
    (op.op, result)
}
