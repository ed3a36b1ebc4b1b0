//! The write-ahead log: framing, group flush, control file.
//!
//! Records are copied into a group in memory; one of the threads that want them durable (the
//! leader) seals the group as a frame, writes and syncs it while the next group fills, and wakes
//! the others, and one of those who wait for the next group. No thread of its own is needed. The
//! pieces, from the bytes up:
//!
//! | file | what |
//! |---|---|
//! | `record.rs` | bytes of a record |
//! | `block.rs` `frame.rs` | the stream cut into 8 KiB blocks; a frame = the records of one flush |
//! | `group.rs` | a frame in the making |
//! | `segment.rs` | the files, made ahead of use, recycled |
//! | `control.rs` | where recovery starts, twice |
//! | `source.rs` `reader.rs` | reading back; torn tail or damage |
//! | `copy.rs` | the log as another database has it, taken while it grows |
//!
//! Invariants:
//! - What `flush` returned for is found again by [`Reader`], after any power loss and with any torn
//!   write.
//! - A record is accepted only when its segment exists on disk and is open: a flush never fails for
//!   lack of space or of descriptors.
//! - A failed write or sync poisons the log for good; what was in flight has an unknown outcome.
//!   So does a panic while a record is copied: half a record is never written.
//! - Only `rightlink_env::sync` is used; no lock is held across I/O except the writer's own.
//!
//! Does not do: start threads, apply records, decide when to checkpoint.

mod block;
mod control;
mod copy;
mod frame;
mod group;
#[cfg(all(test, feature = "shuttle"))]
mod model;
mod reader;
pub mod record;
mod segment;
mod source;
mod stats;
#[cfg(all(test, not(feature = "shuttle")))]
mod tests;

pub(crate) use control::UNFINISHED as UNFINISHED_CONTROL;
pub use copy::{CopyError, LogCopy};
pub use reader::Reader;
pub use record::{MAX_PARTS, MAX_RECORD_BYTES, PagePart, Record, RecordKind};
pub use stats::WalStats;

use rightlink_aio::{AlignedBuf, Io, IoError};
use rightlink_env::points::{broken, hit};
use rightlink_env::sync::{Arc, AtomicU64, Condvar, Mutex, MutexGuard, Ordering};
use rightlink_env::{Env, Level, Logger, Reservation};

use self::block::{BLOCK, SECTOR, frame_start, sector_of};
use self::control::ControlFile;
use self::frame::MAX_FRAME_BYTES;
use self::group::Group;
use self::segment::{Failure, Segments};
use self::source::Source;
use crate::error::{Error, Result};
use crate::ids::{Lsn, Xid};

/// Settings of the log.
#[derive(Clone, Debug)]
pub struct WalOptions {
    /// Bytes of a segment file: a multiple of 8 KiB, at least 64 KiB. Fixed when the log is
    /// created.
    pub segment_bytes: u64,
    /// Bytes that records wait in, both groups together; raised to what one record needs.
    pub buffer_bytes: usize,
    /// Bytes of log after which [`Wal::needs_checkpoint`] (bounded log). As many bytes of segments,
    /// and a few more segments, are kept and used again.
    pub max_bytes: u64,
}

impl Default for WalOptions {
    fn default() -> Self {
        WalOptions { segment_bytes: 16 << 20, buffer_bytes: 8 << 20, max_bytes: 1 << 30 }
    }
}

impl WalOptions {
    /// Bytes of one of the two groups.
    fn group_bytes(&self) -> usize {
        // The largest record, block headers, and the sector that the frame starts in.
        let least = MAX_RECORD_BYTES + (MAX_RECORD_BYTES >> 5) + 4 * BLOCK as usize;
        let half = (self.buffer_bytes / 2).clamp(least, MAX_FRAME_BYTES as usize);
        half.next_multiple_of(BLOCK as usize)
    }
}

/// What the control file says, two copies, the newer valid one wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// Random id of this database.
    pub database: u64,
    /// Where recovery starts reading.
    pub redo: Lsn,
    /// First transaction id that was not handed out at the checkpoint.
    pub next_xid: Xid,
    /// Outcomes of older ones are not kept, as the durable log says, too.
    pub oldest_xid: Xid,
    /// First file number that was not handed out at the checkpoint.
    pub next_file: u32,
    /// Every byte of log below was durable when this was written. `Wal::write_control` raises it to
    /// what it knows itself.
    pub durable: Lsn,
    /// Was the database closed cleanly after this checkpoint? A help for people: recovery reads the
    /// log whatever it says.
    pub clean: bool,
    /// How fast the last recovery that was long enough to tell went.
    pub redo_speed: RedoSpeed,
    /// Reads that the device was measured to serve at once, 0 if unknown.
    pub device_depth: u32,
    /// What the newest pages of outcomes were when the database was closed cleanly
    /// (`txn::outcomes_stamp`), 0 if unknown.
    pub outcomes: u64,
}

/// How fast redo was measured to be on this machine; 0 where nothing was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedoSpeed {
    /// Bytes of log read and taken apart in a second.
    pub bytes_per_s: u64,
    /// Pages brought up to date in a second.
    pub pages_per_s: u64,
}

/// Log that nobody uses up while another makes one record: 16 threads, of which each splits every
/// level of a tree. With small segments that is more than the reserve.
const LEAST_SURE: u64 = 1 << 20;

/// Work that wants log space, and the part of the reserve (one segment) that must be left before
/// it: on a full disk what takes space stops first, then what gives space back. The last quarter is
/// for what asks no more: what everybody does between two admissions, commits, and the records of a
/// checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// A statement begins.
    Begin,
    /// A statement that takes space goes on.
    GoOn,
    /// A statement, or a vacuum, begins that gives space back.
    Free,
    /// One more step of work that has begun, whatever it is for.
    Step,
}

impl Admission {
    fn of_reserve(self, reserve: u64) -> u64 {
        match self {
            Admission::Begin => reserve,
            Admission::GoOn => reserve / 2,
            Admission::Free => reserve * 3 / 8,
            Admission::Step => reserve / 4,
        }
    }
}

/// The log of an open database. All methods may be called from any thread.
pub struct Wal {
    database: u64,
    max_bytes: u64,
    segment_bytes: u64,
    segments: Segments,
    state: Mutex<State>,
    /// Rung for those who wait for a group, by its number modulo two: for all of them when it is
    /// durable, for one of them when the group before is, since somebody has to lead; for all when
    /// the log was poisoned.
    bells: [Condvar; 2],
    /// The leader's; nobody waits for it.
    tail: Mutex<[u8; SECTOR as usize]>,
    control: Mutex<ControlFile>,
    /// Where the log that somebody holds starts.
    holds: Mutex<Vec<u64>>,
    logger: Logger,
    /// Copies of what `state` and `control` say, for a look without a lock.
    end: AtomicU64,
    durable: AtomicU64,
    redo: AtomicU64,
    _memory: Reservation,
}

struct State {
    active: Group,
    /// The other group, unless a leader has it.
    spare: Option<Group>,
    /// Number of the active group: how many leaders there were before it.
    turn: usize,
    poisoned: Option<String>,
    stats: WalStats,
}

impl State {
    fn check(&self) -> Result<()> {
        match &self.poisoned {
            Some(why) => Err(Error::Poisoned(why.clone())),
            None => Ok(()),
        }
    }

    fn poison(&mut self, why: &str) {
        // The first reason is the cause, later ones follow from it.
        self.poisoned.get_or_insert_with(|| why.to_string());
    }
}

/// A record that is being copied into the active group. A panic meanwhile poisons the log before
/// the state is unlocked: half a record never reaches the disk.
struct OpenRecord<'a> {
    wal: &'a Wal,
    state: MutexGuard<'a, State>,
    complete: bool,
}

impl Drop for OpenRecord<'_> {
    fn drop(&mut self) {
        if !self.complete && !broken("wal-half-record") {
            self.state.poison("a panic left a record half written");
            self.wal.bells.iter().for_each(Condvar::notify_all);
        }
    }
}

impl Wal {
    /// Creates an empty log and its control file. The control file comes last: if it is there, so
    /// is everything else.
    pub fn create(env: &Env, io: &Io, options: WalOptions, control: &Control) -> Result<Wal> {
        assert!(control.redo == Lsn(0) && control.durable == Lsn(0), "a new log is empty");
        assert!(control.database != 0, "a database has an id");
        io.create_dir(segment::DIR).map_err(Error::Io)?;
        io.sync_dir("").map_err(Error::Io)?;
        let segments = Segments::open(io, options.segment_bytes, options.max_bytes, 0)?;
        segments.grow(2 * options.segment_bytes).map_err(error_of)?;
        let control = ControlFile::create(io, control, options.segment_bytes)?;
        Wal::new(env, &options, segments, control, (0, [0; SECTOR as usize]))
    }

    /// Opens the log to append after `end`, which recovery found ([`Reader::end`]).
    ///
    /// What recovery accepted beyond the durable LSN is written and synced once more before this
    /// returns: after a failed sync it may live in the page cache only.
    pub fn open(env: &Env, io: &Io, options: WalOptions, end: Lsn) -> Result<Wal> {
        let control = ControlFile::open(io)?;
        let stored = control.stored().clone();
        let options = WalOptions { segment_bytes: stored.segment_bytes, ..options };
        assert!(end >= stored.control.redo, "recovery ends after it started");
        let segments = Segments::open(io, options.segment_bytes, options.max_bytes, end.0)?;
        let tail = settle_tail(env, io, &stored, &segments, end.0)?;
        let wal = Wal::new(env, &options, segments, control, (end.0, tail))?;
        match wal.grow_ahead() {
            // What is there can be read, and rows deleted once a checkpoint lets a segment go.
            Err(Error::DiskFull(what)) => wal.logger.warn(&what),
            grown => grown?,
        }
        Ok(wal)
    }

    fn new(
        env: &Env,
        options: &WalOptions,
        segments: Segments,
        control: ControlFile,
        (end, tail): (u64, [u8; SECTOR as usize]),
    ) -> Result<Wal> {
        let memory = reserve(env, options)?;
        let group = || Group::new(options.group_bytes(), end);
        let stats = WalStats::default();
        let (active, spare) = (group(), Some(group()));
        let state = State { active, spare, turn: 0, poisoned: None, stats };
        let stored = control.stored();
        Ok(Wal {
            database: stored.control.database,
            max_bytes: options.max_bytes,
            segment_bytes: options.segment_bytes,
            segments,
            state: Mutex::new(state),
            bells: [Condvar::new(), Condvar::new()],
            tail: Mutex::new(tail),
            redo: AtomicU64::new(stored.control.redo.0),
            control: Mutex::new(control),
            holds: Mutex::default(),
            logger: env.logger.clone(),
            end: AtomicU64::new(end),
            durable: AtomicU64::new(end),
            _memory: memory,
        })
    }

    /// Reads the control file.
    pub fn read_control(io: &Io) -> Result<Control> {
        control::read(io).map(|stored| stored.control)
    }

    /// Reads the control file for verification: what it says, and the bytes of a segment.
    pub fn inspect_control(io: &Io) -> Result<(Control, u64)> {
        control::read(io).map(|stored| (stored.control, stored.segment_bytes))
    }

    /// Which copies of the control file (0 and 1) are damaged, and how.
    pub fn control_faults(io: &Io) -> Result<Vec<(u32, &'static str)>> {
        control::faults(io)
    }

    /// Writes the control file durably and frees (recycles) segments below `control.redo`, which
    /// must not go back. Flushes the log as far as `control` names it.
    pub fn write_control(&self, control: &Control) -> Result<()> {
        self.flush(control.redo.max(control.durable))?;
        self.check()?;
        let control = Control { durable: control.durable.max(self.durable()), ..control.clone() };
        let mut file = self.control.lock();
        let known = file.stored().control.redo;
        assert!(control.redo >= known, "redo never goes back");
        hit("wal.control.before-write");
        file.write(&control).map_err(|error| self.give_up(&error))?;
        hit("wal.control.after-sync");
        self.redo.fetch_max(control.redo.0, Ordering::AcqRel);
        let held = self.holds.lock().iter().min().copied();
        let held = held.filter(|_| !broken("backup-log-not-held"));
        self.recycle(held.map_or(control.redo.0, |held| held.min(control.redo.0)))
    }

    /// Keeps the log from the redo of the last checkpoint on, until the answer is dropped: what a
    /// copy of the database needs.
    pub fn hold(self: &Arc<Self>) -> LogHold {
        // The control file's lock keeps a checkpoint from freeing what is about to be held.
        let redo = self.control.lock().stored().control.redo;
        self.holds.lock().push(redo.0);
        LogHold { wal: Arc::clone(self), from: redo }
    }

    /// Frees the segments that a reader who starts at `redo` does not need: the frame that covers
    /// `redo` may start in an earlier segment.
    fn recycle(&self, redo: u64) -> Result<()> {
        let keep = if broken("wal-cover-ignored") { redo } else { self.needed_for(redo) };
        assert!(keep <= redo, "a frame covers what comes after its start");
        let (recycled, removed) = match self.segments.recycle(keep) {
            Ok(counts) => counts,
            // The checkpoint is made; what could not be freed now is freed by a later one.
            Err(Failure::Refused(error)) => {
                self.logger.log(Level::Warn, &format!("old log segments stay: {error}"));
                (0, 0)
            }
            Err(failure) => return Err(self.failed(failure)),
        };
        let mut state = self.state.lock();
        state.stats.recycled += recycled;
        state.stats.removed += removed;
        state.stats.control_writes += 1;
        Ok(())
    }

    /// Where the log starts that a reader who starts at `redo` needs.
    fn needed_for(&self, redo: u64) -> u64 {
        let longest = MAX_FRAME_BYTES + (MAX_FRAME_BYTES >> 6);
        self.segments.cover(self.database, redo).unwrap_or(redo.saturating_sub(longest))
    }

    /// Appends a record and returns its end: the record is durable once `durable() >= end`. Blocks
    /// only when both groups are full. Fails when the instance is poisoned; with any other error
    /// (`DiskFull`, or `Io` where a segment cannot be opened, when even the reserve that
    /// [`Wal::admit`] guards is used up) nothing is appended and the log is sound.
    pub fn append(&self, kind: RecordKind, xid: Xid, parts: &[PagePart<'_>]) -> Result<Lsn> {
        let len = record::encoded_len(xid, parts);
        let mut record = OpenRecord { wal: self, state: self.room_for(len)?, complete: false };
        let state = &mut *record.state;
        let expected = state.active.end_with(len);
        state.active.begin_record();
        hit("wal.append.begun");
        record::encode(kind, xid, parts, |bytes| state.active.put(bytes));
        let end = state.active.end();
        assert_eq!(end, expected, "a record takes the room that was asked for");
        state.stats.count_record(kind, len);
        self.end.store(end, Ordering::Release);
        record.complete = true;
        Ok(Lsn(end))
    }

    /// The state, with room for a record of `len` bytes in memory and on disk.
    fn room_for(&self, len: usize) -> Result<MutexGuard<'_, State>> {
        loop {
            let state = self.state.lock();
            state.check()?;
            if !state.active.has_room(len) {
                let end = state.active.end();
                drop(state);
                hit("wal.append.group-full");
                self.flush(Lsn(end))?;
                continue;
            }
            let end = state.active.end_with(len);
            if end <= self.segments.ready() {
                return Ok(state);
            }
            drop(state);
            hit("wal.append.segment-missing");
            self.segments.grow(end).map_err(|failure| self.failed(failure))?;
        }
    }

    /// Is there log space for `work`, its commit and a checkpoint? If there is not, and no segment
    /// can be made, `DiskFull`; `Io` if one cannot be opened, for lack of descriptors say. To be
    /// asked before the first store, with no latch held; costs two loads as long as there is room.
    /// Not sticky.
    pub fn admit(&self, work: Admission) -> Result<()> {
        if self.has_room(work) { Ok(()) } else { self.grow_ahead() }
    }

    /// Is there log space for `work` without a new segment? Two loads.
    pub fn has_room(&self, work: Admission) -> bool {
        self.left(self.end()) >= work.of_reserve(self.segment_bytes)
    }

    /// Might a record that is about to be made find no room, where the log ends at `end`? Said so
    /// early that nobody uses up the rest between this and the record: [`Wal::admit`] stops them
    /// before.
    pub(crate) fn is_short(&self, end: Lsn) -> bool {
        self.left(end) < LEAST_SURE.max(self.segment_bytes / 2)
    }

    /// Bytes of log behind `end` in segments that are on disk and open.
    fn left(&self, end: Lsn) -> u64 {
        self.segments.ready().saturating_sub(end.0)
    }

    fn grow_ahead(&self) -> Result<()> {
        let until = self.end().0 + self.segment_bytes;
        self.segments.grow(until).map_err(|failure| self.failed(failure))
    }

    /// Returns when everything below `upto` is durable; concurrent callers share one sync.
    pub fn flush(&self, upto: Lsn) -> Result<()> {
        if self.durable() >= upto {
            return Ok(());
        }
        let mut state = self.state.lock();
        assert!(upto.0 <= state.active.end(), "only what was appended is flushed");
        while self.durable() < upto {
            state.check()?;
            if state.spare.is_some() {
                state = self.lead(state);
            } else {
                state.stats.followed += 1;
                // It is in the group on its way if the active one begins behind it.
                let group = state.turn - usize::from(upto.0 <= state.active.start());
                state = self.bells[group % 2].wait(state);
                if broken("wal-follower-once") {
                    break;
                }
            }
        }
        let low = self.segments.ready() < state.active.end() + self.segment_bytes;
        drop(state);
        if low {
            // Ahead of need; if it cannot be done now, `admit` says so to those who ask for more.
            let until = self.end().0 + self.segment_bytes;
            if let Err(failure) = self.segments.try_grow(until) {
                let _ = self.failed(failure);
            }
        }
        Ok(())
    }

    /// Takes the active group and makes it durable, with everything appended so far.
    fn lead<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let mut next = state.spare.take().expect("the caller saw it");
        let end = state.active.end();
        next.reset(end);
        let group = std::mem::replace(&mut state.active, next);
        let number = state.turn;
        state.turn += 1;
        drop(state);
        let mut turn = Turn { wal: self, number, group: Some(group), result: None };
        turn.run();
        drop(turn);
        self.state.lock()
    }

    /// Seals, writes and syncs a group; returns bytes and syncs.
    fn write_group(&self, group: &mut Group) -> std::result::Result<(u64, u64), IoError> {
        let mut tail = self.tail.lock();
        group.seal(self.database, self.durable().0, &tail);
        group.save_tail(&mut tail);
        let (base, image) = group.image();
        hit("wal.frame.before-write");
        if broken("wal-durable-early") {
            self.durable.store(group.end(), Ordering::Release);
        }
        self.segments.write(base, image)?;
        hit("wal.flush.before-sync");
        let syncs = match broken("wal-not-synced") {
            true => 1,
            false => self.segments.sync(base, group.end())?,
        };
        hit("wal.flush.after-sync");
        Ok((image.len() as u64, syncs))
    }

    /// End of the durable log (one load).
    pub fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    /// End of the last record appended (one load): every later record ends above.
    pub fn end(&self) -> Lsn {
        Lsn(self.end.load(Ordering::Acquire))
    }

    /// Bytes of log since `redo`.
    pub fn bytes_since(&self, redo: Lsn) -> u64 {
        self.end().0.saturating_sub(redo.0)
    }

    /// Has the log grown so long since the last checkpoint that it is time for another one?
    pub fn needs_checkpoint(&self) -> bool {
        self.bytes_since(Lsn(self.redo.load(Ordering::Acquire))) >= self.max_bytes
    }

    /// What the log did since it was opened.
    pub fn stats(&self) -> WalStats {
        self.state.lock().stats.clone()
    }

    /// A failed sync or write made the log's state unknown: every later append and flush fails.
    pub fn poison(&self, why: &str) {
        self.state.lock().poison(why);
        self.bells.iter().for_each(Condvar::notify_all);
    }

    /// The error of a poisoned log, if it is one.
    pub fn check(&self) -> Result<()> {
        self.state.lock().check()
    }

    /// Poisons the log for a failed write or sync.
    fn give_up(&self, error: &IoError) -> Error {
        let why = format!("{error}; the outcome of commits in flight is unknown");
        self.poison(&why);
        Error::Poisoned(why)
    }

    fn failed(&self, failure: Failure) -> Error {
        match failure {
            Failure::Refused(error) => error,
            Failure::Unknown(error) => self.give_up(&error),
        }
    }
}

impl std::fmt::Debug for Wal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Wal(durable {}, end {})", self.durable(), self.end())
    }
}

/// Keeps old log segments while it lives.
#[derive(Debug)]
pub struct LogHold {
    wal: Arc<Wal>,
    from: Lsn,
}

impl LogHold {
    /// Where the log that is kept starts.
    pub fn from(&self) -> Lsn {
        self.from
    }

    /// Lets go of the log below `to`.
    fn advance(&mut self, to: Lsn) {
        assert!(to >= self.from, "what was let go may be gone");
        let mut holds = self.wal.holds.lock();
        let at = holds.iter().position(|&held| held == self.from.0);
        holds[at.expect("a hold is let go once")] = to.0;
        self.from = to;
    }
}

impl Drop for LogHold {
    fn drop(&mut self) {
        let mut holds = self.wal.holds.lock();
        let at = holds.iter().position(|&held| held == self.from.0);
        holds.swap_remove(at.expect("a hold is let go once"));
    }
}

/// A leader's turn. However it ends, a panic included, the group comes back and the others wake.
struct Turn<'a> {
    wal: &'a Wal,
    /// Of its group.
    number: usize,
    group: Option<Group>,
    result: Option<std::result::Result<(u64, u64), IoError>>,
}

impl Turn<'_> {
    fn run(&mut self) {
        let group = self.group.as_mut().expect("a turn starts with a group");
        self.result = Some(self.wal.write_group(group));
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let group = self.group.take().expect("a turn ends once");
        let mut state = self.wal.state.lock();
        match self.result.take() {
            Some(Ok((bytes, syncs))) if state.poisoned.is_none() => {
                state.stats.count_flush(group.records(), bytes, syncs);
                self.wal.durable.store(group.end(), Ordering::Release);
            }
            Some(Ok(_)) => {}
            Some(Err(_)) if broken("wal-failed-sync-forgiven") => {}
            Some(Err(error)) => {
                state.poison(&format!("{error}; the outcome of commits in flight is unknown"));
            }
            None => state.poison("a thread panicked while it wrote the log"),
        }
        state.spare = Some(group);
        let poisoned = state.poisoned.is_some();
        // Whoever is woken wants the lock.
        drop(state);
        if broken("wal-no-wake") {
            return;
        }
        let [own, next] = [self.number, self.number + 1].map(|number| &self.wal.bells[number % 2]);
        own.notify_all();
        // Of the next group one is enough, to lead it: whoever leads it rings for the others.
        match poisoned {
            true => next.notify_all(),
            false if broken("wal-no-next") => {}
            false => next.notify_one(),
        }
    }
}

fn reserve(env: &Env, options: &WalOptions) -> Result<Reservation> {
    let bytes = 2 * options.group_bytes();
    let full = || {
        Error::OutOfMemory(format!("the memory budget has no {bytes} bytes for the log's buffer"))
    };
    env.budget.try_reserve(bytes).ok_or_else(full)
}

fn error_of(failure: Failure) -> Error {
    match failure {
        Failure::Refused(error) => error,
        Failure::Unknown(error) => Error::Io(error),
    }
}

/// Writes and syncs the last frame once more, with nothing behind it in its last sector; returns
/// that sector. One frame is enough: it was written when everything before it was durable.
fn settle_tail(
    env: &Env,
    io: &Io,
    stored: &control::Stored,
    segments: &Segments,
    end: u64,
) -> Result<[u8; SECTOR as usize]> {
    let mut tail = [0; SECTOR as usize];
    if end == 0 {
        return Ok(tail);
    }
    let database = stored.control.database;
    let source = || Source::new(io, stored.segment_bytes, database);
    let frame = Reader::new(env, source(), end, 0).last_frame(end)?;
    // What lies between the end of the frame before and the start of this one is padding, and may
    // be in a segment that was let go.
    let mut at = sector_of(frame_start(frame.durable).min(frame.start));
    let mut buffer = AlignedBuf::zeroed(256 << 10);
    let first = at;
    segments.grow(end).map_err(error_of)?;
    while at < end {
        let len = ((end - at).next_multiple_of(SECTOR) as usize).min(buffer.len());
        let bytes = &mut buffer[..len];
        Reader::copy(&mut source(), at, bytes)?;
        let used = ((end - at) as usize).min(len);
        bytes[used..].fill(0);
        if !broken("wal-tail-not-settled") {
            segments.write(at, bytes).map_err(Error::Io)?;
        }
        let rest = used % SECTOR as usize;
        tail[..rest].copy_from_slice(&bytes[used - rest..used]);
        at += len as u64;
    }
    hit("wal.open.before-sync");
    segments.sync(first, end).map_err(Error::Io)?;
    Ok(tail)
}
