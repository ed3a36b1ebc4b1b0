//! The simulated disk itself: calls, faults, power cuts, damage. Clones are handles to one disk;
//! [`SimDisk::snapshot`] and [`SimDisk::crash_image`] make disks of their own.

use super::crash::CrashChoice;
use super::fault::{Fault, FaultCounts, FaultKind, OpKind, Plan, Repeat};
use super::image::{Image, Ino, MAX_FILE, Node, PAGE, parent};
use super::pending::{Change, PendingState, Step};
use super::record::Recording;
use crate::error::{IoErrorKind, RawError, number};
use crate::options::OpenMode;
use rightlink_env::Rng;
use rightlink_env::sync::{Arc, Mutex};
use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSliceMut;
use std::ops::Range;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

type Raw<T> = Result<T, RawError>;

/// Where a misdirected write goes instead.
const MISDIRECTION: u64 = 8192;
/// Short transfers end at a multiple of this, so that direct I/O stays aligned.
const SHORT_UNIT: usize = PAGE;

/// A disk in memory. Clones are handles to the same disk.
#[derive(Clone, Debug)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
    counts: FaultCounts,
}

#[derive(Debug)]
struct State {
    /// What a running process sees.
    live: Image,
    /// What a power cut could leave.
    rest: PendingState,
    ops: u64,
    log_hash: u64,
    next_ino: Ino,
    open: BTreeMap<Ino, u32>,
    locks: BTreeSet<Arc<str>>,
    plan: Plan,
    crash_at: Option<u64>,
    capacity_pages: Option<u64>,
    /// Bytes of files that no read may touch.
    unreadable: Vec<(Ino, Range<u64>)>,
    /// Files that no write reaches, and why.
    unwritable: Vec<(Ino, FaultKind)>,
    recording: Option<Log>,
    rng: Rng,
}

/// The log of a run in the making.
#[derive(Debug)]
struct Log {
    start: PendingState,
    first_op: u64,
    steps: Vec<(u64, Step)>,
}

impl State {
    fn new(image: Image, seed: u64) -> State {
        let next_ino = image.names().map(|(_, node)| ino_of(node) + 1).max().unwrap_or(1);
        State {
            live: image.clone(),
            rest: PendingState::at_rest(image),
            ops: 0,
            log_hash: 0,
            next_ino,
            open: BTreeMap::new(),
            locks: BTreeSet::new(),
            plan: Plan::default(),
            crash_at: None,
            capacity_pages: None,
            unreadable: Vec::new(),
            unwritable: Vec::new(),
            recording: None,
            rng: Rng::from_seed(seed),
        }
    }

    /// Counts a call in; the fault that befalls it without being an error, or its error.
    fn begin(&mut self, op: OpKind, on: u64, counts: &FaultCounts) -> Raw<Option<FaultKind>> {
        self.check_power(counts)?;
        let fault = self.plan.next(Some(self.ops), op);
        self.ops += 1;
        self.log(&(op as u64).to_le_bytes());
        self.log(&on.to_le_bytes());
        suffered(fault, counts)
    }

    /// Adds bytes to the hash of all calls.
    fn log(&mut self, bytes: &[u8]) {
        self.log_hash = xxh3_64_with_seed(bytes, self.log_hash);
    }

    /// Lets a call in that only looks, or gives its error.
    fn look(&mut self, counts: &FaultCounts) -> Raw<()> {
        self.check_power(counts)?;
        let fault = self.plan.next(None, OpKind::Stat);
        suffered(fault, counts).map(drop)
    }

    fn check_power(&self, counts: &FaultCounts) -> Raw<()> {
        if self.crash_at.is_some_and(|at| self.ops >= at) {
            counts.add("call after power loss");
            return Err(RawError::of(IoErrorKind::Crashed));
        }
        Ok(())
    }

    /// Takes a step, now visible to the process.
    fn step(&mut self, step: Step) {
        if let Step::Change(change) = &step {
            change.apply(&mut self.live);
        }
        self.rest.apply(&step);
        if let Some(log) = &mut self.recording {
            log.steps.push((self.ops - 1, step));
        }
    }

    fn change(&mut self, change: Change) {
        self.step(Step::Change(change));
    }

    /// Whether `pages` more fit.
    fn check_capacity(&self, pages: u64, counts: &FaultCounts) -> Raw<()> {
        let full = |capacity| pages > 0 && self.live.pages() + pages > capacity;
        if self.capacity_pages.is_some_and(full) {
            counts.add("capacity reached");
            return Err(RawError::from_os(number::NOSPC));
        }
        Ok(())
    }

    fn forget_if_unused(&mut self, ino: Ino) {
        if !self.open.contains_key(&ino) && !self.live.is_named(ino) {
            self.live.forget(ino);
        }
    }

    fn file_len(&self, ino: Ino) -> u64 {
        self.live.content(ino).map_or(0, super::image::Content::len)
    }

    fn new_file(&mut self, name: &str) -> Raw<Ino> {
        self.check_parent(name)?;
        let ino = self.next_ino;
        self.next_ino += 1;
        self.change(Change::Link { name: name.into(), node: Node::File(ino) });
        Ok(ino)
    }

    fn check_parent(&self, name: &str) -> Raw<()> {
        match self.live.node(parent(name)) {
            Some(Node::Dir) => Ok(()),
            Some(Node::File(_)) => Err(RawError::from_os(number::NOTDIR)),
            None => Err(RawError::from_os(number::NOENT)),
        }
    }

    fn write(&mut self, ino: Ino, offset: u64, bytes: Vec<u8>) {
        let end = offset + bytes.len() as u64;
        if end > self.file_len(ino) {
            self.change(Change::Grow { ino, len: end });
        }
        self.change(Change::Write { ino, offset, bytes: bytes.into() });
    }
}

/// Counts a fault; gives it back unless it is an error.
fn suffered(fault: Option<FaultKind>, counts: &FaultCounts) -> Raw<Option<FaultKind>> {
    if let Some(fault) = fault {
        counts.add(fault.name());
    }
    match fault {
        Some(FaultKind::Io) => Err(RawError::from_os(number::IO)),
        Some(FaultKind::NoSpace) => Err(RawError::from_os(number::NOSPC)),
        Some(FaultKind::Interrupted) => Err(RawError::from_os(number::INTR)),
        other => Ok(other),
    }
}

fn ino_of(node: Node) -> Ino {
    node.ino().unwrap_or(0)
}

fn name_hash(name: &str) -> u64 {
    xxh3_64(name.as_bytes())
}

/// About half of a transfer, but never nothing.
fn short(len: usize) -> usize {
    if len < 2 * SHORT_UNIT { len } else { len / 2 / SHORT_UNIT * SHORT_UNIT }
}

/// What a power cut left, and the choice that decided it.
#[derive(Debug)]
pub struct CrashImage {
    /// The disk at rest.
    pub disk: SimDisk,
    /// The choice.
    pub choice: CrashChoice,
}

impl SimDisk {
    /// An empty disk.
    pub fn new(seed: u64) -> SimDisk {
        SimDisk::from_state(State::new(Image::default(), seed), FaultCounts::default())
    }

    /// An empty disk that keeps the log of everything done to it.
    pub fn recorded(seed: u64) -> SimDisk {
        let disk = SimDisk::new(seed);
        disk.start_recording();
        disk
    }

    pub(crate) fn at_rest(image: Image, counts: FaultCounts) -> SimDisk {
        SimDisk::from_state(State::new(image, 0), counts)
    }

    fn from_state(state: State, counts: FaultCounts) -> SimDisk {
        SimDisk { state: Arc::new(Mutex::new(state)), counts }
    }

    // ---- What a test asks and plans.

    /// How many calls there were: opens, reads, writes, syncs and so on. Failed ones count, those
    /// that only look ([`OpKind::Stat`]) do not.
    pub fn op_count(&self) -> u64 {
        self.state.lock().ops
    }

    /// How many calls of one kind there were.
    pub fn calls(&self, op: OpKind) -> u64 {
        self.state.lock().plan.calls(op)
    }

    /// One number for all calls so far, their order, places and bytes.
    pub fn op_log_hash(&self) -> u64 {
        self.state.lock().log_hash
    }

    /// One number for what a power cut would surely leave: names, lengths and bytes.
    pub fn image_hash(&self) -> u64 {
        let mut image = self.state.lock().rest.durable.clone();
        image.prune();
        image.hash()
    }

    /// One number for what a running process sees.
    pub fn live_hash(&self) -> u64 {
        self.state.lock().live.hash()
    }

    /// The same for the files whose names begin with `prefix`.
    pub fn live_hash_under(&self, prefix: &str) -> u64 {
        self.state.lock().live.hash_under(prefix)
    }

    /// Lets call number `op`, counted from 0 over all kinds, suffer `kind` if that fits the call.
    pub fn fail_at(&self, op: u64, kind: FaultKind, repeat: Repeat) {
        self.state.lock().plan.add(Fault { after: op, on: None, kind, repeat });
    }

    /// Lets the `nth` call of kind `op` from now on, counted from 0, suffer `kind`.
    pub fn fail_nth(&self, op: OpKind, nth: u64, kind: FaultKind, repeat: Repeat) {
        assert!(kind.fits(op), "{kind:?} cannot happen to {op:?}");
        let mut state = self.state.lock();
        let after = state.plan.calls(op) + nth;
        state.plan.add(Fault { after, on: Some(op), kind, repeat });
    }

    /// Lets every read fail (EIO) that touches the `len` bytes at `offset` of a file.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn fail_reads_of(&self, file: &str, offset: u64, len: u64) {
        let mut state = self.state.lock();
        let (ino, _) = state.live.file(file).expect("the file exists");
        state.unreadable.push((ino, offset..offset + len));
    }

    /// Lets every write to a file fail with EIO or ENOSPC, as `kind` says.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn fail_writes_of(&self, file: &str, kind: FaultKind) {
        assert!(matches!(kind, FaultKind::Io | FaultKind::NoSpace), "an error of a write");
        let mut state = self.state.lock();
        let (ino, _) = state.live.file(file).expect("the file exists");
        state.unwritable.push((ino, kind));
    }

    /// Forgets all planned faults, unreadable bytes, unwritable files and the planned power cut.
    pub fn clear_faults(&self) {
        let mut state = self.state.lock();
        state.plan.clear();
        state.unreadable.clear();
        state.unwritable.clear();
        state.crash_at = None;
    }

    /// Cuts the power before call number `op`: it and all later calls fail with kind `Crashed`.
    pub fn crash_at(&self, op: u64) {
        self.state.lock().crash_at = Some(op);
    }

    /// Whether the power is cut.
    pub fn is_crashed(&self) -> bool {
        let state = self.state.lock();
        state.crash_at.is_some_and(|at| state.ops >= at)
    }

    /// Bytes that files take now, without their holes, as [`SimDisk::capacity`] counts them.
    pub fn allocated(&self) -> u64 {
        self.state.lock().live.pages() * PAGE as u64
    }

    /// Limits the space that files may take, counted in pages of 4 KiB.
    pub fn capacity(&self, bytes: u64) {
        self.state.lock().capacity_pages = Some(bytes / PAGE as u64);
    }

    /// How often each kind of fault, power cut and damage has happened on this disk and on those
    /// made from it.
    pub fn fault_counts(&self) -> BTreeMap<&'static str, u64> {
        self.counts.all()
    }

    /// What is durable and what waits for a sync, now.
    pub fn pending(&self) -> PendingState {
        self.state.lock().rest.clone()
    }

    /// The disk that a power cut now would leave: at rest, with no call made yet, no fault planned.
    pub fn crash_image(&self, choice: &CrashChoice) -> SimDisk {
        self.crash_image_by(|_| choice.clone()).disk
    }

    /// As [`SimDisk::crash_image`], with the choice that `choose` makes for what is pending at that
    /// very moment, whoever writes meanwhile.
    pub fn crash_image_by(&self, choose: impl FnOnce(&PendingState) -> CrashChoice) -> CrashImage {
        let state = self.pending();
        let choice = choose(&state);
        self.counts.add(choice.name());
        CrashImage { disk: SimDisk::at_rest(state.crash(&choice), self.counts.clone()), choice }
    }

    /// A disk of its own that holds what a running process sees now, all of it durable.
    pub fn snapshot(&self) -> SimDisk {
        let mut image = self.state.lock().live.clone();
        image.prune();
        SimDisk::at_rest(image, self.counts.clone())
    }

    /// Starts to keep the log, from the state as it is now.
    pub fn start_recording(&self) {
        let mut state = self.state.lock();
        let (start, first_op) = (state.rest.clone(), state.ops);
        state.recording = Some(Log { start, first_op, steps: Vec::new() });
    }

    /// The log since the recording started, which goes on.
    pub fn recording(&self) -> Recording {
        let state = self.state.lock();
        let log = state.recording.as_ref().expect("the disk is recorded");
        Recording {
            start: log.start.clone(),
            first_op: log.first_op,
            end_op: state.ops,
            steps: Arc::new(log.steps.clone()),
            counts: self.counts.clone(),
        }
    }

    // ---- Damage to the medium, visible at once and durable.

    /// Flips bit `bit` (0 to 7) of the byte at `offset` of a file.
    pub fn flip_bit(&self, file: &str, offset: u64, bit: u32) {
        assert!(bit < 8, "a byte has eight bits");
        self.damage(file, offset, 1, "flipped bit", |bytes| bytes[0] ^= 1 << bit);
    }

    /// Replaces `len` bytes at `offset` by what the same place held on `old`.
    pub fn make_stale(&self, file: &str, offset: u64, len: usize, old: &SimDisk) {
        let before = old.peek(file, offset, len);
        self.damage(file, offset, len, "stale block", |bytes| bytes.copy_from_slice(&before));
    }

    /// Copies `len` bytes at `from_at` of one file over those at `to_at` of another, as a write
    /// that went to the wrong place would.
    pub fn misdirect(&self, from: &str, from_at: u64, to: &str, to_at: u64, len: usize) {
        let wrong = self.peek(from, from_at, len);
        self.damage(to, to_at, len, "misdirected block", |bytes| bytes.copy_from_slice(&wrong));
    }

    /// The bytes of a file as a running process sees them, without a call being counted.
    ///
    /// # Panics
    /// If the file has no such bytes.
    pub fn peek(&self, file: &str, offset: u64, len: usize) -> Vec<u8> {
        let state = self.state.lock();
        let (_, content) = state.live.file(file).expect("the file exists");
        let mut bytes = Vec::with_capacity(len);
        content.read(offset, len, |piece| bytes.extend_from_slice(piece));
        assert_eq!(bytes.len(), len, "the file has these bytes");
        bytes
    }

    /// The files and their lengths as a running process sees them, without a call being counted.
    pub fn files(&self) -> Vec<(String, u64)> {
        let state = self.state.lock();
        let names = state.live.names();
        let file = |(name, node): (&Arc<str>, Node)| match node {
            Node::File(ino) => Some((name.to_string(), state.file_len(ino))),
            Node::Dir => None,
        };
        names.filter_map(file).collect()
    }

    fn damage(
        &self,
        file: &str,
        offset: u64,
        len: usize,
        name: &'static str,
        change: impl Fn(&mut [u8]),
    ) {
        let mut state = self.state.lock();
        assert!(state.recording.is_none(), "damage is not part of a recording");
        let (ino, _) = state.live.file(file).expect("the file exists");
        let State { live, rest, .. } = &mut *state;
        for image in [live, &mut rest.durable] {
            let content = image.content_mut(ino);
            let mut bytes = Vec::with_capacity(len);
            content.read(offset, len, |piece| bytes.extend_from_slice(piece));
            if bytes.len() == len {
                change(&mut bytes);
                content.write(offset, &bytes);
            }
        }
        self.counts.add(name);
    }

    // ---- The calls.

    /// Opens a file, which [`SimDisk::close`] ends.
    pub(crate) fn open(&self, name: &str, mode: OpenMode) -> Raw<Ino> {
        let mut state = self.state.lock();
        state.begin(OpKind::Open, name_hash(name), &self.counts)?;
        let ino = match (state.live.node(name), mode) {
            (Some(Node::Dir), _) => return Err(RawError::from_os(number::ISDIR)),
            (Some(Node::File(_)), OpenMode::CreateNew) => {
                return Err(RawError::from_os(number::EXIST));
            }
            (Some(Node::File(ino)), _) => ino,
            (None, OpenMode::ReadOnly | OpenMode::Existing) => {
                return Err(RawError::from_os(number::NOENT));
            }
            (None, OpenMode::Create | OpenMode::CreateNew) => state.new_file(name)?,
        };
        *state.open.entry(ino).or_insert(0) += 1;
        Ok(ino)
    }

    pub(crate) fn close(&self, ino: Ino) {
        let mut state = self.state.lock();
        let count = state.open.get_mut(&ino).expect("an open file is counted");
        *count -= 1;
        if *count == 0 {
            state.open.remove(&ino);
            state.forget_if_unused(ino);
        }
    }

    pub(crate) fn read(&self, ino: Ino, at: u64, mut into: Vec<IoSliceMut<'_>>) -> Raw<usize> {
        let mut state = self.state.lock();
        let fault = state.begin(OpKind::Read, ino ^ at.rotate_left(20), &self.counts)?;
        let mut asked: usize = into.iter().map(|slice| slice.len()).sum();
        if fault == Some(FaultKind::ShortRead) {
            asked = short(asked);
        }
        let touched = |(of, range): &(Ino, Range<u64>)| {
            *of == ino && range.start < at + asked as u64 && at < range.end
        };
        if state.unreadable.iter().any(touched) {
            self.counts.add("unreadable bytes");
            return Err(RawError::from_os(number::IO));
        }
        let mut rest: &mut [IoSliceMut<'_>] = &mut into;
        let State { live, rng, .. } = &mut *state;
        let Some(content) = live.content(ino) else { return Ok(0) };
        if fault != Some(FaultKind::FlippedRead) {
            return Ok(content.read(at, asked, |piece| scatter(&mut rest, piece)));
        }
        let mut bytes = Vec::with_capacity(asked);
        let moved = content.read(at, asked, |piece| bytes.extend_from_slice(piece));
        if moved > 0 {
            bytes[rng.index(moved)] ^= 1 << rng.below(8);
        }
        scatter(&mut rest, &bytes);
        Ok(moved)
    }

    pub(crate) fn write(&self, ino: Ino, at: u64, mut bytes: Vec<u8>) -> Raw<usize> {
        let mut state = self.state.lock();
        let fault = state.begin(OpKind::Write, ino ^ at.rotate_left(20), &self.counts)?;
        state.log(&bytes);
        if let Some((_, kind)) = state.unwritable.iter().find(|(of, _)| *of == ino) {
            self.counts.add("unwritable file");
            let full = *kind == FaultKind::NoSpace;
            return Err(RawError::from_os(if full { number::NOSPC } else { number::IO }));
        }
        if matches!(fault, Some(FaultKind::ShortWrite | FaultKind::TornWrite)) {
            bytes.truncate(short(bytes.len()));
        }
        let len = bytes.len();
        if at.saturating_add(len as u64) > MAX_FILE {
            return Err(RawError::from_os(number::FBIG));
        }
        let new = state.live.content(ino).map_or(0, |content| content.new_pages(at, len as u64));
        state.check_capacity(new, &self.counts)?;
        match fault {
            Some(FaultKind::LostWrite) => {}
            Some(FaultKind::MisdirectedWrite) => state.write(ino, at ^ MISDIRECTION, bytes),
            Some(FaultKind::TornWrite) => {
                state.write(ino, at, bytes);
                return Err(RawError::from_os(number::IO));
            }
            _ => state.write(ino, at, bytes),
        }
        Ok(len)
    }

    pub(crate) fn sync(&self, ino: Ino) -> Raw<()> {
        let mut state = self.state.lock();
        match state.begin(OpKind::Sync, ino, &self.counts) {
            Ok(_) => state.step(Step::Sync(ino)),
            Err(error) if abandons(error) => {
                state.step(Step::SyncFailed(ino));
                return Err(error);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    pub(crate) fn file_len(&self, ino: Ino) -> Raw<u64> {
        let mut state = self.state.lock();
        state.look(&self.counts)?;
        Ok(state.file_len(ino))
    }

    pub(crate) fn set_len(&self, ino: Ino, len: u64) -> Raw<()> {
        let mut state = self.state.lock();
        state.begin(OpKind::SetLen, ino ^ len.rotate_left(20), &self.counts)?;
        if len > MAX_FILE {
            return Err(RawError::from_os(number::FBIG));
        }
        state.change(Change::Cut { ino, len });
        Ok(())
    }

    pub(crate) fn allocate(&self, ino: Ino, offset: u64, len: u64) -> Raw<()> {
        let mut state = self.state.lock();
        state.begin(OpKind::Allocate, ino ^ offset.rotate_left(20), &self.counts)?;
        if offset.saturating_add(len) > MAX_FILE {
            return Err(RawError::from_os(number::FBIG));
        }
        let new = state.live.content(ino).map_or(0, |content| content.new_pages(offset, len));
        state.check_capacity(new, &self.counts)?;
        state.change(Change::Allocate { ino, offset, len });
        Ok(())
    }

    pub(crate) fn exists(&self, name: &str) -> Raw<bool> {
        let mut state = self.state.lock();
        state.look(&self.counts)?;
        Ok(state.live.node(name).is_some())
    }

    pub(crate) fn remove(&self, name: &str) -> Raw<()> {
        let mut state = self.state.lock();
        state.begin(OpKind::Remove, name_hash(name), &self.counts)?;
        let node = state.live.node(name).ok_or(RawError::from_os(number::NOENT))?;
        if node == Node::Dir && !state.live.list(name).is_empty() {
            return Err(RawError::from_os(number::NOTEMPTY));
        }
        state.change(Change::Unlink { name: name.into(), node });
        state.forget_if_unused(ino_of(node));
        Ok(())
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> Raw<()> {
        let mut state = self.state.lock();
        let on = name_hash(from) ^ name_hash(to).rotate_left(1);
        state.begin(OpKind::Rename, on, &self.counts)?;
        let Some(node) = state.live.node(from) else {
            return Err(RawError::from_os(number::NOENT));
        };
        let (Node::File(ino), replaced) = (node, state.live.node(to)) else {
            return Err(RawError::from_os(number::ISDIR));
        };
        if replaced == Some(Node::Dir) {
            return Err(RawError::from_os(number::ISDIR));
        }
        state.check_parent(to)?;
        state.change(Change::Rename { from: from.into(), to: to.into(), ino });
        replaced.map(ino_of).into_iter().for_each(|old| state.forget_if_unused(old));
        Ok(())
    }

    pub(crate) fn list(&self, dir: &str) -> Raw<Vec<String>> {
        let mut state = self.state.lock();
        state.begin(OpKind::List, name_hash(dir), &self.counts)?;
        match state.live.node(dir) {
            Some(Node::Dir) => Ok(state.live.list(dir)),
            Some(Node::File(_)) => Err(RawError::from_os(number::NOTDIR)),
            None => Err(RawError::from_os(number::NOENT)),
        }
    }

    pub(crate) fn create_dir(&self, name: &str) -> Raw<()> {
        let mut state = self.state.lock();
        state.begin(OpKind::CreateDir, name_hash(name), &self.counts)?;
        match state.live.node(name) {
            Some(Node::Dir) => return Ok(()),
            Some(Node::File(_)) => return Err(RawError::from_os(number::NOTDIR)),
            None => state.check_parent(name)?,
        }
        state.change(Change::Link { name: name.into(), node: Node::Dir });
        Ok(())
    }

    pub(crate) fn sync_dir(&self, dir: &str) -> Raw<()> {
        let mut state = self.state.lock();
        let began = state.begin(OpKind::SyncDir, name_hash(dir), &self.counts);
        if state.live.node(dir) != Some(Node::Dir) && began.is_ok() {
            return Err(RawError::from_os(number::NOENT));
        }
        match began {
            Ok(_) => state.step(Step::SyncDir(dir.into())),
            Err(error) if abandons(error) => {
                state.step(Step::SyncDirFailed(dir.into()));
                return Err(error);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Takes a lock, which [`SimDisk::unlock`] ends.
    pub(crate) fn lock(&self, name: &str) -> Raw<()> {
        let mut state = self.state.lock();
        state.begin(OpKind::Open, name_hash(name), &self.counts)?;
        if state.live.node(name).is_none() {
            state.new_file(name)?;
        }
        if !state.locks.insert(name.into()) {
            return Err(RawError::of(IoErrorKind::Locked));
        }
        Ok(())
    }

    pub(crate) fn unlock(&self, name: &str) {
        let was_held = self.state.lock().locks.remove(name);
        assert!(was_held, "a lock is let go once");
    }
}

// Here because a recording knows no disks.
impl Recording {
    /// The disk that a power cut leaves of `state`: at rest, with no call made yet and no fault
    /// planned. Its faults are counted along with those of the recorded disk.
    pub fn crash(&self, state: &PendingState, choice: &CrashChoice) -> SimDisk {
        self.counts.add(choice.name());
        SimDisk::at_rest(state.crash(choice), self.counts.clone())
    }
}

/// Whether a failed sync gives up what it should have written. An interrupted one, or one that
/// never ran, does not.
fn abandons(error: RawError) -> bool {
    !matches!(error.kind, IoErrorKind::Interrupted | IoErrorKind::Crashed)
}

/// Copies `piece` to the front of what is left of `into`.
fn scatter(into: &mut &mut [IoSliceMut<'_>], mut piece: &[u8]) {
    while !piece.is_empty() {
        let first = into.first_mut().expect("no more is read than was asked for");
        let count = piece.len().min(first.len());
        first[..count].copy_from_slice(&piece[..count]);
        piece = &piece[count..];
        IoSliceMut::advance_slices(into, count);
    }
}
