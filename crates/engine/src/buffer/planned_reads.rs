//! Second openings of data files, for reads that a stream has planned.
//!
//! With buffered I/O the system reads ahead by what it sees of an opening of a file. A stream that
//! has planned its reads knows better: the system would add blocks that nobody needs, up to four
//! times as many in ranges of some hundred blocks. So planned reads take an opening of their own,
//! of which the system reads what it is asked for.
//!
//! Invariants: a second opening is of the same file as the first, not only of the same name. There
//! are at most [`MOST`]: each takes a descriptor. Does not do: decide which reads are planned
//! (`locality`).

use rightlink_aio::{File, Io, Method};
use rightlink_env::sync::{Arc, AtomicU32, OnceLock, Ordering};

/// Most second openings at a time. Reads of other files take the first.
const MOST: u32 = 64;

/// What the second openings of all data files share.
#[derive(Debug)]
pub(super) struct SecondOpenings {
    io: Io,
    open: AtomicU32,
}

impl SecondOpenings {
    pub(super) fn new(io: &Io) -> Arc<SecondOpenings> {
        Arc::new(SecondOpenings { io: io.clone(), open: AtomicU32::new(0) })
    }

    /// Opens `file` once more, if there is a use for it and few others are open. Reads that are
    /// done one by one have no use for it: the system's read-ahead is all that overlaps them.
    fn open(&self, file: &File) -> Option<File> {
        let most = if self.io.method() == Method::Sync { 0 } else { MOST };
        let count = |open: u32| (open < most).then_some(open + 1);
        self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).ok()?;
        // Without a descriptor, say, the first opening has to do.
        let opened = self.io.open_planned(file).ok().flatten();
        if opened.is_none() {
            self.open.fetch_sub(1, Ordering::Relaxed);
        }
        opened
    }
}

/// The second opening of one file, made when it is first used.
#[derive(Debug)]
pub(super) struct SecondOpening {
    all: Arc<SecondOpenings>,
    opened: OnceLock<Option<File>>,
}

impl SecondOpening {
    pub(super) fn new(all: &Arc<SecondOpenings>) -> SecondOpening {
        SecondOpening { all: Arc::clone(all), opened: OnceLock::new() }
    }

    /// The opening for planned reads of `file`; the file itself if it has none. Two threads may
    /// both open it, and one opening is closed again: neither waits for the other's I/O.
    pub(super) fn or<'a>(&'a self, file: &'a File) -> &'a File {
        if self.opened.get().is_none()
            && let Err(Some(_)) = self.opened.set(self.all.open(file))
        {
            self.all.open.fetch_sub(1, Ordering::Relaxed);
        }
        self.opened.get().and_then(Option::as_ref).unwrap_or(file)
    }
}

impl Drop for SecondOpening {
    fn drop(&mut self) {
        if matches!(self.opened.get(), Some(Some(_))) {
            self.all.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
