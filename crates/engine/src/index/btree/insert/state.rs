//! What a writer keeps between two attempts of a change.
//!
//! An attempt that lacks something releases all latches and says what it lacks ([`Retry`]). The
//! writer acquires it ([`RetryState::prepare`]) and attempts the change again.
//!
//! Invariants: nothing is read, and the file does not grow, while a latch is held (R7). The named
//! leaf is a guess: it is checked by its level and fences (R6).
//! Does not do: the changes themselves.

use crate::buffer::Pin;
use crate::error::Result;
use crate::index::Tries;
use crate::index::am::NamedPage;
use crate::index::btree::tree::{ReservedBlock, Tree};

/// Most pins that are kept for the next attempt.
const MAX_PINNED: usize = 4;

/// The result of an attempt, or what it lacked.
pub(crate) type Attempt<T> = std::result::Result<T, Retry>;

/// Why an attempt must be repeated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Retry {
    /// It needs a free block.
    NeedBlock,
    /// It needs this page in memory.
    NeedPage(u32),
    /// It needs space on this leaf, from its siblings; else a free block.
    NeedSpace(FullLeaf),
    /// The split of this page must be finished first.
    FinishSplit {
        /// The page whose right sibling has no downlink.
        block: u32,
        /// Its level.
        level: u8,
    },
    /// Another thread changed a page between the search and the latch.
    Conflict,
}

/// A leaf without space for an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FullLeaf {
    /// Where it is.
    pub(crate) block: u32,
    /// Bytes of the entry.
    pub(crate) needed_bytes: usize,
}

/// The result of a redistribution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Redistributed {
    /// The leaf has space for the entry.
    SpaceMade,
    /// Its siblings have none to spare: the leaf must be split.
    MustSplit,
}

/// What a writer has acquired for its next attempt.
#[derive(Default)]
pub(crate) struct RetryState<'t> {
    /// A block for a new page.
    pub(crate) reserved: Option<ReservedBlock<'t>>,
    /// Pages that were not in memory, pinned so that they stay.
    pinned: Vec<Pin>,
    tries: Tries,
}

impl<'t> RetryState<'t> {
    /// Acquires what an attempt lacked. The caller holds no latch.
    pub(crate) fn prepare(&mut self, tree: &'t Tree, retry: Retry) -> Result<()> {
        match retry {
            Retry::NeedBlock if self.reserved.is_none() => {
                self.reserved = Some(tree.reserve_block()?);
            }
            Retry::NeedPage(block) => {
                if self.pinned.len() >= MAX_PINNED {
                    self.pinned.clear();
                }
                self.pinned.push(tree.pin_linked(block)?);
            }
            Retry::FinishSplit { block, level } => tree.finish_split(block, level)?,
            Retry::NeedSpace(leaf)
                if tree.redistribute(leaf, self)? == Redistributed::SpaceMade => {}
            Retry::NeedSpace(_) if self.reserved.is_none() => {
                self.reserved = Some(tree.reserve_block()?);
            }
            Retry::NeedBlock | Retry::NeedSpace(_) | Retry::Conflict => {}
        }
        self.tries.again(&tree.pool, tree.page(0), "a change of the tree makes no progress")
    }

    /// An attempt succeeded: the next ones are counted from zero.
    pub(crate) fn note_progress(&mut self) {
        self.tries = Tries::default();
        self.pinned.clear();
    }
}

/// What the insertion of a batch keeps from run to run.
#[derive(Default)]
pub(crate) struct InsertState<'t> {
    /// What the next attempt needs.
    pub(crate) retry: RetryState<'t>,
    /// The leaf where the next entry probably belongs.
    pub(crate) leaf: Option<NamedPage>,
    /// A leaf that had no space for the next entry.
    pub(crate) full: Option<LeafVersion>,
}

/// A leaf as it was at some moment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeafVersion {
    /// The leaf.
    pub(crate) block: u32,
    /// Version of its frame.
    pub(crate) version: u64,
}
