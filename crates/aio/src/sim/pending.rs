//! What is durable and what is not yet: the durable image and, in order, the changes that wait for
//! a sync. Applying the log of a run to it, entry by entry, gives the state at every moment of it.

use super::image::{Image, Ino, Node, parent};
use rightlink_env::sync::Arc;
use std::collections::BTreeSet;

/// A change that a sync would make durable.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Write { ino: Ino, offset: u64, bytes: Arc<[u8]> },
    Grow { ino: Ino, len: u64 },
    Allocate { ino: Ino, offset: u64, len: u64 },
    Cut { ino: Ino, len: u64 },
    Link { name: Arc<str>, node: Node },
    Unlink { name: Arc<str>, node: Node },
    Rename { from: Arc<str>, to: Arc<str>, ino: Ino },
}

/// What kind of change is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PendingKind {
    /// Bytes of a file.
    Write,
    /// A file's greater length.
    Grow,
    /// Space for a file.
    Allocate,
    /// A file's new length after a cut or an extension by hand.
    Cut,
    /// A directory entry: made, removed or renamed.
    Entry,
}

impl Change {
    /// The file whose sync makes this durable; none for entries.
    fn ino(&self) -> Option<Ino> {
        match self {
            Change::Write { ino, .. }
            | Change::Grow { ino, .. }
            | Change::Allocate { ino, .. }
            | Change::Cut { ino, .. } => Some(*ino),
            Change::Link { .. } | Change::Unlink { .. } | Change::Rename { .. } => None,
        }
    }

    /// What an entry names.
    fn names(&self) -> Option<Node> {
        match self {
            Change::Link { node, .. } | Change::Unlink { node, .. } => Some(*node),
            Change::Rename { ino, .. } => Some(Node::File(*ino)),
            _ => None,
        }
    }

    pub(crate) fn kind(&self) -> PendingKind {
        match self {
            Change::Write { .. } => PendingKind::Write,
            Change::Grow { .. } => PendingKind::Grow,
            Change::Allocate { .. } => PendingKind::Allocate,
            Change::Cut { .. } => PendingKind::Cut,
            Change::Link { .. } | Change::Unlink { .. } | Change::Rename { .. } => {
                PendingKind::Entry
            }
        }
    }

    /// Makes the change.
    pub(crate) fn apply(&self, image: &mut Image) {
        match self {
            Change::Write { ino, offset, bytes } => image.content_mut(*ino).write(*offset, bytes),
            Change::Grow { ino, len } => image.content_mut(*ino).grow(*len),
            Change::Cut { ino, len } => image.content_mut(*ino).set_len(*len),
            Change::Allocate { ino, offset, len } => {
                let content = image.content_mut(*ino);
                content.grow(offset + len);
                content.allocate(*offset, *len);
            }
            Change::Link { name, node } => image.set(Arc::clone(name), *node),
            Change::Unlink { name, node } => image.unset(name, *node),
            Change::Rename { to, ino, .. } => {
                image.unset_file(*ino);
                image.set(Arc::clone(to), Node::File(*ino));
            }
        }
    }
}

/// A change that waits.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) change: Change,
    /// Directories that must still be synced, for an entry.
    dirs: Vec<Arc<str>>,
    /// A sync of it failed, so none will make it durable any more.
    abandoned: bool,
}

impl Pending {
    fn new(change: Change) -> Pending {
        let dirs = match &change {
            Change::Link { name, .. } | Change::Unlink { name, .. } => vec![parent(name).into()],
            Change::Rename { from, to, .. } if parent(from) == parent(to) => {
                vec![parent(to).into()]
            }
            Change::Rename { from, to, .. } => vec![parent(from).into(), parent(to).into()],
            _ => Vec::new(),
        };
        Pending { change, dirs, abandoned: false }
    }

    /// Whether a sync of directory `dir` makes it durable.
    fn dir_synced(&mut self, dir: &str) -> bool {
        let waited = !self.dirs.is_empty();
        self.dirs.retain(|waiting| **waiting != *dir);
        waited && self.dirs.is_empty()
    }
}

/// What the log of a run consists of.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Change(Change),
    Sync(Ino),
    SyncFailed(Ino),
    SyncDir(Arc<str>),
    SyncDirFailed(Arc<str>),
}

/// What is durable, and what waits for a sync.
#[derive(Clone, Debug, Default)]
pub struct PendingState {
    pub(crate) durable: Image,
    pub(crate) pending: Vec<Pending>,
}

impl PendingState {
    /// Nothing waits.
    pub(crate) fn at_rest(durable: Image) -> PendingState {
        PendingState { durable, pending: Vec::new() }
    }

    /// How many changes wait for a sync.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Whether no change waits for a sync.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// What kinds of changes wait, in order.
    pub fn kinds(&self) -> Vec<PendingKind> {
        self.pending.iter().map(|pending| pending.change.kind()).collect()
    }

    /// Takes the next step of a run.
    pub(crate) fn apply(&mut self, step: &Step) {
        match step {
            Step::Change(change) => self.pending.push(Pending::new(change.clone())),
            Step::Sync(ino) => self.settle(|pending| pending.change.ino() == Some(*ino)),
            Step::SyncDir(dir) => {
                self.settle(|pending| pending.dir_synced(dir));
                self.forget_nameless();
            }
            Step::SyncFailed(ino) => self.abandon(|pending| pending.change.ino() == Some(*ino)),
            Step::SyncDirFailed(dir) => {
                self.abandon(|pending| pending.dirs.iter().any(|waiting| **waiting == **dir));
            }
        }
    }

    /// Makes what `synced` names durable, in order.
    fn settle(&mut self, mut synced: impl FnMut(&mut Pending) -> bool) {
        let durable = &mut self.durable;
        self.pending.retain_mut(|pending| {
            let done = !pending.abandoned && synced(pending);
            if done {
                pending.change.apply(durable);
            }
            !done
        });
    }

    /// Drops the bytes of files that no name leads to and no pending entry can name again, such as
    /// those of temporary files, so that a long run does not collect them.
    fn forget_nameless(&mut self) {
        let durable = self.durable.names().map(|(_, node)| node);
        let pending = self.pending.iter().filter_map(|pending| pending.change.names());
        let named: BTreeSet<Ino> = durable.chain(pending).filter_map(Node::ino).collect();
        let kept = |ino: Option<Ino>| ino.is_none_or(|ino| named.contains(&ino));
        self.pending.retain(|pending| kept(pending.change.ino()));
        self.durable.retain_files(|ino| kept(Some(ino)));
    }

    fn abandon(&mut self, failed: impl Fn(&Pending) -> bool) {
        for pending in &mut self.pending {
            pending.abandoned |= failed(pending);
        }
    }
}
