//! The write-ahead log: records, group flush, segments, control file.
//!
//! Records are copied into a group in memory. One of the threads that want them durable leads: it
//! writes and syncs the group as one frame while the next group fills, and wakes the others.
//!
//! | file | content |
//! |---|---|
//! | `record`, `block`, `frame` | bytes of a record; 8 KiB blocks; the records of one flush |
//! | `group` | a frame in memory, before it is written |
//! | `segment`, `control` | log files, made ahead of use and recycled; where recovery starts |
//! | `source`, `reader` | reading back; telling a torn tail from damage |
//! | `copy`, `stats` | a copy of the log for a backup; counters |
//!
//! Invariants:
//! - [`Reader`] finds every record that [`Wal::flush`] returned for, after any power loss and any
//!   torn write (R14, R16).
//! - A record is accepted only when its segment is on disk and open. So no flush fails for lack of
//!   space or of descriptors.
//! - A failed write or sync poisons the log for good, and so does a panic while a record is copied
//!   (R19). The outcome of commits in flight is unknown then.
//! - No lock is held across I/O, except the leader's own.
//!
//! Does not do: start threads, apply records, decide when to checkpoint.

mod block;
mod control;
mod copy;
mod frame;
mod group;
mod reader;
pub mod record;
mod segment;
mod source;
mod stats;
#[cfg(test)]
mod tests;

pub(crate) use control::UNFINISHED as UNFINISHED_CONTROL;
pub use copy::{CopyError, LogCopy};
pub use reader::Reader;
pub use record::{MAX_PARTS, MAX_RECORD_BYTES, PagePart, Record, RecordKind};
use rightlink_env::Broken;
pub use stats::WalStats;

use rightlink_aio::{AlignedBuf, DeviceFigures, Io, IoError};
use rightlink_env::points::{broken, hit};
use rightlink_env::sync::{Arc, AtomicU64, Condvar, Mutex, MutexGuard, Ordering};
use rightlink_env::{Env, Level, Logger, Reservation};

use self::block::{BLOCK, SECTOR, frame_start, sector_of};
use self::control::ControlFile;
use self::frame::MAX_FRAME_BYTES;
use self::group::RecordGroup;
use self::segment::{Failure, Segments};
use self::source::LogSource;
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

/// The fields of the control file. Of its two copies the newer valid one counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// Random id of this database.
    pub database: u64,
    /// Where recovery starts reading.
    pub redo: Lsn,
    /// First transaction id that was not assigned at the checkpoint.
    pub next_xid: Xid,
    /// Outcomes of older xids are not kept. The log record that says so is durable (R17).
    pub oldest_xid: Xid,
    /// First file number that was not assigned at the checkpoint.
    pub next_file: u32,
    /// Every byte of log below was durable when this was written. `Wal::write_control` raises it to
    /// the durable end that it knows.
    pub durable: Lsn,
    /// Was the database closed cleanly after this checkpoint? For people: recovery reads the log in
    /// any case.
    pub clean: bool,
    /// Speed of the last recovery that was long enough to measure.
    pub redo_speed: RedoSpeed,
    /// Figures of the device; 0 where it was not measured.
    pub device: DeviceFigures,
    /// Stamp of the newest pages of outcomes at a clean close (`txn::outcomes_stamp`), 0 if
    /// unknown.
    pub outcomes: u64,
}

/// Measured speed of redo on this machine; 0 where it was not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedoSpeed {
    /// Bytes of log read and taken apart in a second.
    pub bytes_per_s: u64,
    /// Pages brought up to date in a second.
    pub pages_per_s: u64,
}

/// Log that other threads do not use up while one thread makes one record: 16 threads that each
/// split every level of a tree. With small segments that is more than the reserve.
const LEAST_SURE: u64 = 1 << 20;

/// Work that needs log space. Each kind requires a part of the reserve of one segment to be left:
/// on a full disk statements that take space stop first, then those that give space back. The last
/// quarter is for work between two admissions, for commits, and for the records of a checkpoint.
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
    state: Mutex<LogState>,
    /// Where threads wait for a group, by its number modulo two. All are woken when the group is
    /// durable or the log is poisoned. One is woken when the group before is durable: it leads.
    wakeups: [Condvar; 2],
    /// The last sector of the durable log, for the leader alone.
    tail: Mutex<[u8; SECTOR as usize]>,
    control: Mutex<ControlFile>,
    /// Start positions of the log that backups hold (R17).
    holds: Mutex<Vec<u64>>,
    logger: Logger,
    /// Copies of fields of `state` and `control`, read without a lock.
    end: AtomicU64,
    durable: AtomicU64,
    redo: AtomicU64,
    _memory: Reservation,
}

struct LogState {
    active: RecordGroup,
    /// The other group, unless a leader has it.
    spare: Option<RecordGroup>,
    /// Number of the active group: how many leaders there were before it.
    turn: usize,
    poisoned: Option<String>,
    stats: WalStats,
}

impl LogState {
    fn check(&self) -> Result<()> {
        match &self.poisoned {
            Some(why) => Err(Error::Poisoned(why.clone())),
            None => Ok(()),
        }
    }

    fn poison(&mut self, why: &str) {
        // The first reason is the cause of later ones.
        self.poisoned.get_or_insert_with(|| why.to_string());
    }
}

/// A record that is being copied into the active group. A panic meanwhile poisons the log before
/// the state is unlocked, so half a record never reaches the disk (R19).
struct OpenRecord<'a> {
    wal: &'a Wal,
    state: MutexGuard<'a, LogState>,
    complete: bool,
}

impl Drop for OpenRecord<'_> {
    fn drop(&mut self) {
        if !self.complete && !broken(Broken::HalfRecordWritten) {
            self.state.poison("a panic left a record half written");
            self.wal.wakeups.iter().for_each(Condvar::notify_all);
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
        Wal::new(env, &options, segments, control, LogTail { end: 0, sector: [0; SECTOR as usize] })
    }

    /// Opens the log to append after `end`, which recovery found ([`Reader::end`]).
    ///
    /// The last frame is written and synced once more before this returns (R16): after a failed
    /// sync it may be in the page cache only.
    pub fn open(env: &Env, io: &Io, options: WalOptions, end: Lsn) -> Result<Wal> {
        let control = ControlFile::open(io)?;
        let stored = control.stored().clone();
        let options = WalOptions { segment_bytes: stored.segment_bytes, ..options };
        assert!(end >= stored.control.redo, "recovery ends after it started");
        let segments = Segments::open(io, options.segment_bytes, options.max_bytes, end.0)?;
        let tail = sync_tail(env, io, &stored, &segments, end.0)?;
        let wal = Wal::new(env, &options, segments, control, tail)?;
        match wal.grow_ahead() {
            // The database can be read, and rows can be deleted once a checkpoint frees a segment.
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
        tail: LogTail,
    ) -> Result<Wal> {
        let memory = reserve(env, options)?;
        let LogTail { end, sector } = tail;
        let group = || RecordGroup::new(options.group_bytes(), end);
        let stats = WalStats::default();
        let (active, spare) = (group(), Some(group()));
        let state = LogState { active, spare, turn: 0, poisoned: None, stats };
        let stored = control.stored();
        Ok(Wal {
            database: stored.control.database,
            max_bytes: options.max_bytes,
            segment_bytes: options.segment_bytes,
            segments,
            state: Mutex::new(state),
            wakeups: [Condvar::new(), Condvar::new()],
            tail: Mutex::new(sector),
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

    /// Flushes the log as far as `control` names it, writes the control file durably, and then
    /// frees the segments below `control.redo` (R17). The redo position never goes back.
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
        let held = held.filter(|_| !broken(Broken::BackupLogNotHeld));
        self.recycle(held.map_or(control.redo.0, |held| held.min(control.redo.0)))
    }

    /// Keeps the log from the redo position of the last checkpoint on, until the hold is dropped. A
    /// backup needs that log (R17).
    pub fn hold(self: &Arc<Self>) -> LogHold {
        // The control file's lock keeps a checkpoint from freeing the log that is about to be held.
        let redo = self.control.lock().stored().control.redo;
        self.holds.lock().push(redo.0);
        LogHold { wal: Arc::clone(self), from: redo }
    }

    /// Frees the segments that a reader from `redo` on does not need (R17). The frame that covers
    /// `redo` may start in an earlier segment, which is kept.
    fn recycle(&self, redo: u64) -> Result<()> {
        let keep = if broken(Broken::CoveringSegmentFreed) { redo } else { self.needed_for(redo) };
        assert!(keep <= redo, "a frame covers what comes after its start");
        let (recycled, removed) = match self.segments.recycle(keep) {
            Ok(counts) => counts,
            // The checkpoint counts. A later one frees what could not be freed now.
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

    /// Start of the frame that covers `redo`, where a reader from `redo` on begins.
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
    fn room_for(&self, len: usize) -> Result<MutexGuard<'_, LogState>> {
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

    /// Makes sure that there is log space for `work`, its commit and a checkpoint. Call it before
    /// the first store, with no latch held. It costs two loads as long as there is room.
    ///
    /// # Errors
    /// `DiskFull` if no segment can be made, `Io` if a segment cannot be opened, for example for
    /// lack of descriptors. A later call may succeed.
    pub fn admit(&self, work: Admission) -> Result<()> {
        if self.has_room(work) { Ok(()) } else { self.grow_ahead() }
    }

    /// Is there log space for `work` without a new segment? Two loads.
    pub fn has_room(&self, work: Admission) -> bool {
        self.left(self.end()) >= work.of_reserve(self.segment_bytes)
    }

    /// Might the next record find no room, if the log ends at `end`? The answer is yes so early
    /// that other threads cannot use up the rest before the record: [`Wal::admit`] stops them.
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

    /// Returns when everything below `upto` is durable (R14); concurrent callers share one sync.
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
                // `upto` is in the group that is being written if the active one begins behind it.
                let group = state.turn - usize::from(upto.0 <= state.active.start());
                state = self.wakeups[group % 2].wait(state);
                if broken(Broken::FlushEndsEarly) {
                    break;
                }
            }
        }
        let low = self.segments.ready() < state.active.end() + self.segment_bytes;
        drop(state);
        if low {
            // Ahead of need. If it fails now, `admit` reports it to statements that need space.
            let until = self.end().0 + self.segment_bytes;
            if let Err(failure) = self.segments.try_grow(until) {
                let _ = self.failed(failure);
            }
        }
        Ok(())
    }

    /// Takes the active group and makes it durable, with everything appended so far.
    fn lead<'a>(&'a self, mut state: MutexGuard<'a, LogState>) -> MutexGuard<'a, LogState> {
        let mut next = state.spare.take().expect("the caller saw it");
        let end = state.active.end();
        next.reset(end);
        let group = std::mem::replace(&mut state.active, next);
        let number = state.turn;
        state.turn += 1;
        drop(state);
        let mut turn = LeaderTurn { wal: self, number, group: Some(group), result: None };
        turn.run();
        drop(turn);
        self.state.lock()
    }

    /// Seals, writes and syncs a group; returns bytes and syncs.
    fn write_group(&self, group: &mut RecordGroup) -> std::result::Result<(u64, u64), IoError> {
        let mut tail = self.tail.lock();
        group.seal(self.database, self.durable().0, &tail);
        group.save_tail(&mut tail);
        let (base, image) = group.image();
        hit("wal.frame.before-write");
        if broken(Broken::LogDurableEarly) {
            self.durable.store(group.end(), Ordering::Release);
        }
        self.segments.write(base, image)?;
        hit("wal.flush.before-sync");
        let syncs = match broken(Broken::LogNotSynced) {
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

    /// Counters since the log was opened.
    pub fn stats(&self) -> WalStats {
        self.state.lock().stats.clone()
    }

    /// A failed sync or write made the log's state unknown: every later append and flush fails.
    pub fn poison(&self, why: &str) {
        self.state.lock().poison(why);
        self.wakeups.iter().for_each(Condvar::notify_all);
    }

    /// The error of a poisoned log, if it is one.
    pub fn check(&self) -> Result<()> {
        self.state.lock().check()
    }

    /// Poisons the log for a failed write or sync (R19).
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

/// The flush of one group by its leader. However it ends, by a panic too, the group is given back
/// and the waiters wake (R21).
struct LeaderTurn<'a> {
    wal: &'a Wal,
    /// Number of its group.
    number: usize,
    group: Option<RecordGroup>,
    result: Option<std::result::Result<(u64, u64), IoError>>,
}

impl LeaderTurn<'_> {
    fn run(&mut self) {
        let group = self.group.as_mut().expect("a turn starts with a group");
        self.result = Some(self.wal.write_group(group));
    }
}

impl Drop for LeaderTurn<'_> {
    fn drop(&mut self) {
        let group = self.group.take().expect("a turn ends once");
        let mut state = self.wal.state.lock();
        match self.result.take() {
            Some(Ok((bytes, syncs))) if state.poisoned.is_none() => {
                state.stats.count_flush(group.records(), bytes, syncs);
                self.wal.durable.store(group.end(), Ordering::Release);
            }
            Some(Ok(_)) => {}
            Some(Err(_)) if broken(Broken::FailedSyncForgiven) => {}
            Some(Err(error)) => {
                state.poison(&format!("{error}; the outcome of commits in flight is unknown"));
            }
            None => state.poison("a thread panicked while it wrote the log"),
        }
        state.spare = Some(group);
        let poisoned = state.poisoned.is_some();
        // A woken thread needs this lock.
        drop(state);
        if broken(Broken::FlushWaitersNotWoken) {
            return;
        }
        let [own, next] =
            [self.number, self.number + 1].map(|number| &self.wal.wakeups[number % 2]);
        own.notify_all();
        // One waiter of the next group is enough: it leads the group and wakes the others (R21).
        match poisoned {
            true => next.notify_all(),
            false if broken(Broken::NextFlushLeaderNotWoken) => {}
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

/// Where an opened log goes on.
struct LogTail {
    end: u64,
    /// The sector that `end` lies in, with zeros behind `end`.
    sector: [u8; SECTOR as usize],
}

/// Writes and syncs the last frame once more, with zeros behind it in its last sector (R16). One
/// frame is enough, because it was written when everything before it was durable.
fn sync_tail(
    env: &Env,
    io: &Io,
    stored: &control::Stored,
    segments: &Segments,
    end: u64,
) -> Result<LogTail> {
    let mut tail = LogTail { end, sector: [0; SECTOR as usize] };
    if end == 0 {
        return Ok(tail);
    }
    let database = stored.control.database;
    let source = || LogSource::new(io, stored.segment_bytes, database);
    let frame = Reader::new(env, source(), end, 0).last_frame(end)?;
    // Between the frame before and this one lies padding, maybe in a segment that was freed.
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
        if !broken(Broken::LogTailNotRewritten) {
            segments.write(at, bytes).map_err(Error::Io)?;
        }
        let rest = used % SECTOR as usize;
        tail.sector[..rest].copy_from_slice(&bytes[used - rest..used]);
        at += len as u64;
    }
    hit("wal.open.before-sync");
    segments.sync(first, end).map_err(Error::Io)?;
    Ok(tail)
}
