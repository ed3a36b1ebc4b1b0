//! One pass along the list: dead entries leave, and pages that became sparse are squeezed into
//! their left neighbour.
//!
//! The pass goes by position: each page is judged from where the last one ended, under the latch
//! that says so. Entries move left only by the pass itself and behind it, and by splits only to the
//! right, before it; so none is passed by, whatever others do. Pages that begin buckets are read
//! ahead by the directory, in the order of their codes; overflow pages are found along the links.
//!
//! A page that is squeezed out gives up its bucket: in the same record the directory forgets it,
//! and codes lead to the parent. Its block is free at once. Whoever still knows it finds a page
//! without entries, or one with other fences, and looks again (R6): nobody needs to be waited for.
//!
//! Invariants: a page without dead entries is latched shared only; what is removed under the
//! exclusive latch was judged dead by the same bytes. Row ids in the dead set are not reused before
//! the pass has ended (R3).
//! Does not do: decide which rows are dead; two passes at once.

use rightlink_env::Broken;
use rightlink_env::points::{broken, hit};
use rightlink_env::sync::{Mutex, MutexGuard, Ordering};

use crate::buffer::{Mtr, Pin, ReadStream, StreamOptions};
use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::ids::Xid;
use crate::index::Tries;
use crate::index::am::{Between, BulkDelete, IsDead, VacuumStats};
use crate::index::hash::Index;
use crate::index::hash::bucket::{Bucket, Checked, INCOMPLETE, Place, place_on};
use crate::index::hash::code::{CODE, number_of};
use crate::index::hash::directory::{self, MAX_NUMBERS, offset_of};
use crate::index::hash::edit::{Entry, Frame};
use crate::index::hash::meta::{self, FIRST};
use crate::page::header::u32_at;
use crate::wal::RecordKind;

/// Percent of a page that a squeezed one may have, so that it is not split again at once.
const MOST: usize = 75;

/// A pass, which has one part.
pub(crate) struct Alone<'a> {
    index: &'a Index,
    stats: Mutex<VacuumStats>,
    _turn: MutexGuard<'a, ()>,
}

/// The part under way.
struct Pass<'a> {
    index: &'a Index,
    stats: VacuumStats,
    /// Everything before this position has been judged; `None`: all has.
    at: Option<Vec<u8>>,
    /// Where the next page probably is, 0: unknown.
    link: u32,
    /// The page judged last and the bytes it uses.
    left: Option<(u32, usize)>,
}

/// What a page was like when it was left.
struct Seen {
    end: Option<Vec<u8>>,
    right: u32,
    used: usize,
    live: usize,
}

impl Index {
    /// See [`crate::index::am::AccessMethod::begin_delete`].
    pub(crate) fn begin_delete(&self) -> Alone<'_> {
        Alone { index: self, stats: Mutex::default(), _turn: self.vacuum.lock() }
    }

    /// The codes at which the directory says that buckets begin, ascending, and their blocks.
    pub(crate) fn bucket_starts(&self) -> impl FnMut() -> Result<Option<(u32, u32)>> {
        let depth = self.depth.load(Ordering::Acquire);
        let mut next = Some(0u32);
        move || {
            while let Some(code) = next {
                let step = 1u64 << (u32::BITS - depth);
                next = u32::try_from(u64::from(code) + step).ok();
                let block = self.entry(number_of(code))?;
                if block != 0 {
                    return Ok(Some((code, block)));
                }
            }
            Ok(None)
        }
    }
}

impl BulkDelete for Alone<'_> {
    fn parts(&self) -> usize {
        1
    }

    fn run(&self, part: usize, is_dead: IsDead<'_>, between: Between<'_>) -> Result<()> {
        assert_eq!(part, 0, "there is one part");
        let (stats, at) = (VacuumStats::default(), Some(Vec::new()));
        let mut pass = Pass { index: self.index, stats, at, link: FIRST, left: None };
        pass.run(is_dead, between)?;
        *self.stats.lock() = pass.stats;
        Ok(())
    }

    fn finish(&self, _between: Between<'_>) -> Result<VacuumStats> {
        let mut stats = *self.stats.lock();
        stats.pages_free = self.index.meta()?.free_count;
        stats.blocks = self.index.pool.blocks(self.index.file);
        Ok(stats)
    }
}

impl Pass<'_> {
    fn run(&mut self, is_dead: IsDead<'_>, between: Between<'_>) -> Result<()> {
        let index = self.index;
        let mut starts = index.bucket_starts();
        let mut stream = ReadStream::new(&index.pool, StreamOptions::ORDERED, || {
            let start = starts()?;
            Ok(start.map(|(code, block)| (index.page(block), code)))
        });
        while let Some((pin, code)) = stream.next()? {
            drop(pin);
            let start = code.to_be_bytes();
            while self.at.as_ref().is_some_and(|at| at.as_slice() < &start[..]) {
                self.visit_next(is_dead)?;
                between(1)?;
            }
        }
        while self.at.is_some() {
            self.visit_next(is_dead)?;
            between(1)?;
        }
        Ok(())
    }

    /// The page where the pass is.
    fn visit_next(&mut self, is_dead: IsDead<'_>) -> Result<()> {
        let at = self.at.clone().expect("asked for while something is left");
        hit("hash.vacuum.visit");
        let mut tries = Tries::default();
        loop {
            let pin = match std::mem::take(&mut self.link) {
                0 => self.index.find(&at)?,
                link => self.index.pin_linked(link)?,
            };
            let block = pin.page().block.0;
            let Some(seen) = self.visit(pin, &at, is_dead)? else {
                let index = &self.index;
                tries.again(&index.pool, index.page(0), "a pass makes no progress")?;
                continue;
            };
            self.stats.live += seen.live as u64;
            (self.at, self.link) = (seen.end, seen.right);
            return self.squeeze(block, seen.used);
        }
    }

    /// Judges a page and removes what is dead; `None` if `at` is not on it.
    fn visit(&mut self, pin: Pin, at: &[u8], is_dead: IsDead<'_>) -> Result<Option<Seen>> {
        let block = pin.page().block.0;
        let damage = |what| self.index.corrupt(block, what);
        let page = pin.shared();
        if !is_here(page.bytes(), at).map_err(damage)? {
            return Ok(None);
        }
        let dead = judge(page.bytes(), is_dead).map_err(damage)?;
        if dead.is_empty() {
            return Seen::of(page.bytes()).map(Some).map_err(damage);
        }
        let version = page.version();
        drop(page);
        let mut mtr = Mtr::new(&self.index.pool);
        let held = mtr.latch(pin);
        let mut dead = dead;
        if mtr.version(held) != version && !broken(Broken::HashVerdictNotRepeated) {
            if !is_here(mtr.bytes(held), at).map_err(damage)? {
                return Ok(None);
            }
            dead = judge(mtr.bytes(held), is_dead).map_err(damage)?;
        }
        if !dead.is_empty() {
            self.index.remove(&mut mtr, held, &dead)?;
            self.stats.pages_changed += 1;
            self.stats.removed += dead.len() as u64;
        }
        let seen = Seen::of(mtr.bytes(held));
        mtr.commit(RecordKind::IndexDelete, Xid::NONE)?;
        seen.map(Some).map_err(damage)
    }

    /// Squeezes the page at `block` into the one judged before, if both are sparse.
    fn squeeze(&mut self, block: u32, used: usize) -> Result<()> {
        let most = self.index.options.capacity * MOST / 100;
        let before = self.left.replace((block, used));
        let Some((left, left_used)) = before else { return Ok(()) };
        if left == block || left_used + used > most + PAGE_SIZE / 8 {
            return Ok(());
        }
        self.index.finish(left)?;
        self.index.finish(block)?;
        if let Some(used) = self.index.join(left, block)? {
            self.stats.pages_deleted += 1;
            self.left = Some((left, used));
        }
        Ok(())
    }
}

/// Is `at` on this page?
fn is_here(page: &[u8; PAGE_SIZE], at: &[u8]) -> Checked<bool> {
    Ok(place_on(page, at)? == Place::Here)
}

impl Seen {
    fn of(page: &[u8; PAGE_SIZE]) -> Checked<Seen> {
        let bucket = Bucket::open(page)?;
        Ok(Seen {
            end: bucket.high().map(<[u8]>::to_vec),
            right: bucket.right,
            used: bucket.used(),
            live: bucket.count,
        })
    }
}

/// Places of the dead entries of a page.
fn judge(page: &[u8; PAGE_SIZE], is_dead: IsDead<'_>) -> Checked<Vec<usize>> {
    let bucket = Bucket::open(page)?;
    let rows = (0..bucket.count).map(|i| bucket.item(i).map(|item| item.row));
    let rows = rows.collect::<Checked<Vec<_>>>()?;
    let mut dead = vec![false; rows.len()];
    if !rows.is_empty() {
        is_dead(&rows, &mut dead);
    }
    Ok((0..rows.len()).filter(|at| dead[*at]).collect())
}

impl Index {
    /// Empties the page at `right` into its left neighbour, if they are that and the result is not
    /// too full; the bytes it uses then. One record.
    fn join(&self, left: u32, right: u32) -> Result<Option<usize>> {
        let pins = (self.pin_linked(left)?, self.pin_linked(right)?);
        let meta = self.pool.pin(self.page(0))?;
        let Some(names) = self.names_of(&pins.1)? else { return Ok(None) };
        let mut mtr = Mtr::new(&self.pool);
        let into = mtr.latch(pins.0);
        if !is_followed_by(mtr.bytes(into), right).map_err(|what| self.corrupt(left, what))? {
            return Ok(None);
        }
        let from = mtr.latch(pins.1);
        let joined = self.joined(mtr.bytes(into), mtr.bytes(from));
        let Some((image, low)) = joined.map_err(|what| self.corrupt(right, what))? else {
            return Ok(None);
        };
        let mut forget = None;
        if let Some((number, pin)) = names {
            if low != number.reverse_bits().to_be_bytes() {
                return Ok(None);
            }
            let held = mtr.latch(pin);
            let named = u32_at(mtr.bytes(held), offset_of(number)) == right;
            forget = named.then_some((held, number));
        }
        let meta = mtr.latch(meta);
        let known = meta::parse(mtr.bytes(meta)).map_err(|what| self.corrupt(0, what))?;
        if right <= FIRST || right >= known.used {
            return Err(self.corrupt(right, "a page of entries where none can be"));
        }
        mtr.page(into).replace(&image);
        if let Some((held, number)) = forget {
            directory::store(&mut mtr.page(held), number, 0);
        }
        self.free(&mut mtr, from, meta);
        let used = Bucket::open(mtr.bytes(into)).map_or(PAGE_SIZE, |bucket| bucket.used());
        mtr.commit(RecordKind::IndexUnlink, Xid::NONE)?;
        hit("hash.squeeze.joined");
        Ok(Some(used))
    }

    /// Number and directory page of the bucket that begins on a page; the inner `None`: none does.
    /// The outer one: it holds no entries any more.
    fn names_of(&self, pin: &Pin) -> Result<Option<Option<(u32, Pin)>>> {
        let low = {
            let page = pin.shared();
            let Ok(bucket) = Bucket::open(page.bytes()) else { return Ok(None) };
            bucket.low().to_vec()
        };
        let Ok(code) = <[u8; CODE]>::try_from(low) else { return Ok(Some(None)) };
        let number = number_of(u32::from_be_bytes(code));
        if number >= MAX_NUMBERS {
            return Ok(Some(None));
        }
        Ok(Some(Some((number, self.directory_page(number)?))))
    }

    /// Image of two neighbours as one page, and where the second began; `None` if they are none,
    /// or would fill it too much.
    fn joined(&self, left: &[u8; PAGE_SIZE], right: &[u8; PAGE_SIZE]) -> Checked<Option<Joined>> {
        if !super::bucket::is_bucket(right) {
            return Ok(None);
        }
        let (left, right) = (Bucket::open(left)?, Bucket::open(right)?);
        if left.high() != Some(right.low()) {
            return Err("the page to the left ends elsewhere");
        }
        if (left.flags | right.flags) & INCOMPLETE != 0 {
            return Ok(None);
        }
        let low = right.low().to_vec();
        let frame = Frame {
            right: right.right,
            high: right.high().map(<[u8]>::to_vec),
            ..Frame::of(&left, self.reserve())
        };
        let mut entries = Entry::all(&left)?;
        let single = entries.is_empty() || right.count == 0;
        entries.extend(Entry::all(&right)?);
        let bytes = entries.iter().map(Entry::size).sum();
        let most = self.options.capacity * MOST / 100 + frame.reserve;
        if !single && frame.size(entries.len(), bytes) > most {
            return Ok(None);
        }
        Ok(frame.image(&entries).map(|image| (image, low)))
    }
}

/// Image of two pages as one, and where the second began.
type Joined = (Box<[u8; PAGE_SIZE]>, Vec<u8>);

/// Is the page at `right` the right neighbour of this page of entries?
fn is_followed_by(page: &[u8; PAGE_SIZE], right: u32) -> Checked<bool> {
    if !super::bucket::is_bucket(page) {
        return Ok(false);
    }
    Ok(Bucket::open(page)?.right == right)
}
