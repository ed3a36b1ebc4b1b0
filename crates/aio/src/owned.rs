//! Asynchronous operations on memory that they own meanwhile: safe to use, at the price of a small
//! allocation each. For whoever has no frames of its own, such as logs, scans and measurements. One
//! of the few files with `unsafe`.

use crate::buf::{AlignedBuf, IoBufs};
use crate::completion::{Completion, Done};
use crate::error::IoError;
use crate::file::File;
use crate::io::Io;
use rightlink_env::sync::{Arc, Mutex};

/// A buffer in flight, and what is to be done with it afterwards.
struct Owned<F> {
    held: Mutex<Option<(AlignedBuf, F)>>,
}

impl<F> Completion for Owned<F>
where
    F: FnOnce(AlignedBuf, Result<usize, IoError>) + Send,
{
    fn complete(&self, _tag: u64, result: Result<usize, IoError>) {
        let held = self.held.lock().take();
        let (buf, then) = held.expect("an operation completes once");
        then(buf, result);
    }

    /// What waits for the closure, the closure alone knows: it is dropped.
    fn panicked(&self, _tag: u64, _message: &str) {}
}

/// Hands the buffer to a new operation.
fn lend<F>(buf: AlignedBuf, then: F) -> (IoBufs, Done)
where
    F: FnOnce(AlignedBuf, Result<usize, IoError>) + Send + 'static,
{
    let mut buf = buf;
    let (start, len) = (buf.as_mut_ptr(), buf.len());
    let owned = Owned { held: Mutex::new(Some((buf, then))) };
    // SAFETY: B1 of `buf`: the memory belongs to `owned`, which the operation's `Done` keeps alive
    // and which nobody looks into before `complete` takes the buffer out.
    let bufs = unsafe { IoBufs::new(start, len) };
    (bufs, Done { target: Arc::new(owned), tag: 0 })
}

impl Io {
    /// Starts to fill `buf` from `offset` of `file`; `then` gets the buffer back, with the number
    /// of bytes read. A panic in `then` is logged and goes no further. As in [`Io::submit_read`]
    /// otherwise.
    pub fn read_owned<F>(&self, file: &File, offset: u64, buf: AlignedBuf, then: F)
    where
        F: FnOnce(AlignedBuf, Result<usize, IoError>) + Send + 'static,
    {
        let (bufs, done) = lend(buf, then);
        self.submit_read(file, offset, bufs, done);
    }

    /// Starts to write `buf` at `offset` of `file`; `then` gets the buffer back. As in
    /// [`Io::submit_write`] otherwise.
    pub fn write_owned<F>(&self, file: &File, offset: u64, buf: AlignedBuf, then: F)
    where
        F: FnOnce(AlignedBuf, Result<usize, IoError>) + Send + 'static,
    {
        let (bufs, done) = lend(buf, then);
        self.submit_write(file, offset, bufs, done);
    }
}
