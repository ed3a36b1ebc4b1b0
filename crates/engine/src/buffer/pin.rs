//! Pins and latched pages, which callers hold.
//!
//! Invariants:
//! - **P1** A pin keeps its frame, and the pool's memory, in place: a pool that is closed while
//!   pins are left leaks its memory. Dropping a pin touches nothing of the pool after the pin is
//!   counted out.
//! - Bytes are lent only by a held latch and no longer than it is held. An optimistic reader gets a
//!   `PageView` and no reference (R11).
//! - A guard of a latch stays on its thread, so that R7 can be checked per thread.
//!
//! Does not do: log records (`mtr`), reading pages (`pool`).

use rightlink_env::Broken;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use rightlink_env::points::broken;
use rightlink_env::sync::{Arc, Ordering};

use crate::buffer::core::Core;
#[cfg(feature = "experiments")]
use crate::buffer::frame::pins;
use crate::buffer::frame::{Frame, NO_REDO, VALID};
use crate::buffer::latch::{Mode, Parking};
use crate::buffer::latched;
use crate::config::PAGE_SIZE;
use crate::ids::PageId;
use crate::page::{PageBuf, PageMut, PageView};

/// A pinned page: stays in memory while this lives. `Send`.
pub struct Pin {
    core: NonNull<Core>,
    index: u32,
}

// SAFETY: `Core` is `Send` and `Sync` (asserted in `pool`), the pin only refers to it, and pins are
// counted with atomics.
unsafe impl Send for Pin {}
// SAFETY: as above; all methods take what they change through latches or atomics.
unsafe impl Sync for Pin {}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pin({})", self.page())
    }
}

impl Pin {
    /// Takes over a pin that the caller has just counted on frame `index`.
    pub(super) fn adopt(core: &Arc<Core>, index: u32) -> Pin {
        debug_assert!((index as usize) < core.arena.len(), "a frame of this pool");
        Pin { core: core_pointer(core), index }
    }

    #[inline]
    pub(super) fn core(&self) -> &Core {
        // SAFETY: P1.
        unsafe { self.core.as_ref() }
    }

    /// Which frame holds the page.
    pub(super) fn index(&self) -> u32 {
        self.index
    }

    #[inline]
    pub(super) fn frame(&self) -> &Frame {
        self.core().arena.frame(self.index)
    }

    #[inline]
    fn memory(&self) -> &PageBuf {
        self.core().arena.page(self.index)
    }

    fn parking(&self) -> &Parking {
        self.core().arena.parking(self.index)
    }

    /// The page.
    pub fn page(&self) -> PageId {
        self.frame().tag()
    }

    /// Latches shared. Not for a thread that has this page latched already.
    pub fn shared(&self) -> SharedPage<'_> {
        self.frame().latch.take(Mode::Shared, self.parking());
        SharedPage::of(self)
    }

    /// Latches shared if that needs no waiting.
    pub fn try_shared(&self) -> Option<SharedPage<'_>> {
        self.frame().latch.try_take(Mode::Shared).then(|| SharedPage::of(self))
    }

    /// Sets hints (R1, R2) if the exclusive latch is free right now and the page still has
    /// `version` when one is given; returns whether `set` ran. Not logged; the page becomes dirty.
    pub fn hint(&self, version: Option<u64>, set: impl FnOnce(&mut PageMut<'_>)) -> bool {
        self.frame().latch.try_take(Mode::Exclusive) && self.set_hints(version, set)
    }

    /// As [`Pin::hint`], but waits for the latch: for a thread that holds none (R12).
    pub fn hint_waiting(&self, set: impl FnOnce(&mut PageMut<'_>)) -> bool {
        self.frame().latch.take(Mode::Exclusive, self.parking());
        self.set_hints(None, set)
    }

    /// Sets hints under the exclusive latch that was taken, and releases it.
    fn set_hints(&self, version: Option<u64>, set: impl FnOnce(&mut PageMut<'_>)) -> bool {
        let frame = self.frame();
        let mut guard = HintGuard { pin: self, changing: false };
        let ends = self.core().no_hints.load(Ordering::Relaxed);
        if ends || version.is_some_and(|version| version != frame.latch.version()) {
            return false;
        }
        guard.changing = true;
        self.core().mark_dirty(frame, NO_REDO);
        frame.latch.begin_change();
        // SAFETY: the exclusive latch is held by `guard`.
        set(&mut unsafe { PageMut::new(self.memory(), None) });
        true
    }

    /// Version of the page: changes with every exclusive latch that changed it. Odd while one does.
    pub fn version(&self) -> u64 {
        self.frame().latch.version()
    }

    /// Optimistic read (R11): runs `read` on unvalidated words, then validates; `None` if a writer
    /// came by. `read` must be prepared for bytes of different states of the page.
    pub fn optimistic<T>(&self, read: impl FnOnce(PageView<'_>) -> T) -> Option<T> {
        let latch = &self.frame().latch;
        let version = latch.version();
        if !version.is_multiple_of(2) {
            return None;
        }
        let result = read(self.memory().view());
        // The pin keeps the tag, so the version alone tells.
        (latch.validate(version) || broken(Broken::OptimisticReadNotValidated)).then_some(result)
    }

    /// Is this the only pin of the page?
    #[cfg(feature = "experiments")]
    pub(crate) fn is_only(&self) -> bool {
        pins(self.frame().state()) == 1
    }

    /// A second pin of the same page.
    #[must_use]
    pub fn again(&self) -> Pin {
        self.frame().add_pin();
        Pin { core: self.core, index: self.index }
    }

    /// Latches exclusively.
    pub(super) fn exclusive(self) -> Exclusive {
        self.frame().latch.take(Mode::Exclusive, self.parking());
        Exclusive::of(self)
    }

    /// Latches exclusively if that needs no waiting.
    pub(super) fn try_exclusive(self) -> Result<Exclusive, Pin> {
        if self.frame().latch.try_take(Mode::Exclusive) {
            Ok(Exclusive::of(self))
        } else {
            Err(self)
        }
    }
}

impl Drop for Pin {
    #[inline]
    fn drop(&mut self) {
        let core = self.core();
        if self.frame().state() & VALID != 0 && !core.is_frame_awaited() {
            // P1: the last touch of the pool's memory. While this pin holds, a valid page stays
            // valid.
            self.frame().drop_pin();
        } else {
            self.drop_slowly();
        }
    }
}

impl Pin {
    /// Drops a pin of a page that is loading or failed, or while a thread waits for a frame.
    #[cold]
    fn drop_slowly(&mut self) {
        // `core` keeps the pool over the loss of the pin.
        // SAFETY: the pointer came from `Arc::as_ptr`, and P1 says that the value is alive; the
        // count that is added here is taken over by `core`.
        let core = unsafe {
            Arc::increment_strong_count(self.core.as_ptr());
            Arc::from_raw(self.core.as_ptr())
        };
        core.unpin(self.index);
    }
}

/// The address of the pool's insides, good for [`Arc::increment_strong_count`].
fn core_pointer(core: &Arc<Core>) -> NonNull<Core> {
    NonNull::new(Arc::as_ptr(core).cast_mut()).expect("an Arc points somewhere")
}

/// Ends a hint, also when setting it panicked: hints are never needed, so half of one does no harm.
struct HintGuard<'a> {
    pin: &'a Pin,
    changing: bool,
}

impl Drop for HintGuard<'_> {
    fn drop(&mut self) {
        let latch = &self.pin.frame().latch;
        if self.changing {
            latch.end_change();
        }
        latch.release(Mode::Exclusive, self.pin.parking());
    }
}

/// Where a lookup found a page.
pub(super) enum PageLookup {
    /// The page is in memory.
    Valid(Pin),
    /// A read of the page is in flight.
    Loading(Pin),
    /// The page is not in memory.
    Absent,
}

/// SharedPage latch on a page.
pub struct SharedPage<'a> {
    pin: &'a Pin,
    on_thread: PhantomData<*const ()>,
}

impl<'a> SharedPage<'a> {
    fn of(pin: &'a Pin) -> SharedPage<'a> {
        latched::entered();
        SharedPage { pin, on_thread: PhantomData }
    }

    /// The page.
    #[inline]
    pub fn bytes(&self) -> &[u8; PAGE_SIZE] {
        // SAFETY: R11: the shared latch is held for as long as `self` lives, so no thread stores.
        unsafe { self.pin.memory().bytes() }
    }

    /// Version under this latch.
    pub fn version(&self) -> u64 {
        self.pin.frame().latch.version()
    }

    /// The pin that this latches.
    pub fn pin(&self) -> &'a Pin {
        self.pin
    }
}

impl Drop for SharedPage<'_> {
    #[inline]
    fn drop(&mut self) {
        latched::left();
        self.pin.frame().latch.release(Mode::Shared, self.pin.parking());
    }
}

/// Exclusive latch on a page, with its pin.
pub(super) struct Exclusive {
    pin: ManuallyDrop<Pin>,
    version: u64,
    changing: bool,
    on_thread: PhantomData<*const ()>,
}

impl Exclusive {
    fn of(pin: Pin) -> Exclusive {
        latched::entered();
        let version = pin.frame().latch.version();
        Exclusive { pin: ManuallyDrop::new(pin), version, changing: false, on_thread: PhantomData }
    }

    /// The pin of the page.
    pub(super) fn pin(&self) -> &Pin {
        &self.pin
    }

    /// Version of the page when it was latched.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Has [`Exclusive::page_mut`] been called?
    pub(super) fn changing(&self) -> bool {
        self.changing
    }

    /// The page as it is now.
    pub(super) fn bytes(&self) -> &[u8; PAGE_SIZE] {
        // SAFETY: R11: the exclusive latch is held while `self` lives; stores need `&mut self`.
        unsafe { self.pin.memory().bytes() }
    }

    /// Stores into the page, recorded in `delta`. The caller has marked the frame dirty.
    pub(super) fn page_mut<'a>(&'a mut self, delta: Option<&'a mut Vec<u8>>) -> PageMut<'a> {
        if !self.changing {
            self.changing = true;
            self.pin.frame().latch.begin_change();
        }
        // SAFETY: the exclusive latch is held while `self` lives, and `self` is borrowed for as
        // long.
        unsafe { PageMut::new(self.pin.memory(), delta) }
    }

    /// Unlatches and gives the pin back.
    pub(super) fn release(self) -> Pin {
        let mut this = ManuallyDrop::new(self);
        this.unlatch();
        // SAFETY: `this` is never dropped, so the pin is taken once.
        unsafe { ManuallyDrop::take(&mut this.pin) }
    }

    /// A panic came between the stores: no thread ever sees the page again (R19). Its pin stays.
    pub(super) fn abandon(self) {
        assert!(self.changing, "an unchanged page is just unlatched");
        let this = ManuallyDrop::new(self);
        latched::left();
        this.pin.frame().latch.break_for_ever(this.pin.parking());
    }

    fn unlatch(&mut self) {
        let latch = &self.pin.frame().latch;
        if self.changing {
            latch.end_change();
        }
        latched::left();
        latch.release(Mode::Exclusive, self.pin.parking());
    }
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        self.unlatch();
        // SAFETY: dropped once, here; `release` and `abandon` do not run this.
        unsafe { ManuallyDrop::drop(&mut self.pin) }
    }
}
