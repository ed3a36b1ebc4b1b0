//! What a power cut leaves: the durable image and a choice of what was pending.

use super::image::{Image, PAGE};
use super::pending::{Change, Pending, PendingKind, PendingState};
use rightlink_env::Rng;
use std::ops::Range;

/// Which sectors of a torn write reached the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tear {
    /// Only so many at the start.
    First(u32),
    /// Only so many at the end.
    Last(u32),
    /// Each with even odds.
    Random(u64),
}

/// Which of the pending changes a power cut keeps. Indexes count the pending changes in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CrashChoice {
    /// None.
    AllLost,
    /// All.
    AllKept,
    /// All but one.
    DropOnly(usize),
    /// One.
    KeepOnly(usize),
    /// The first so many, as a disk without reordering would.
    Prefix(usize),
    /// Each with even odds.
    Subset(u64),
    /// A write is cut at sectors of `sector` bytes; the others are all kept or all lost.
    Torn {
        /// Which change.
        index: usize,
        /// Bytes per sector: 512 or 4096.
        sector: usize,
        /// Which sectors survive.
        tear: Tear,
        /// Whether the other changes survive.
        others: bool,
    },
    /// All but the growth of files: what was written past the old ends is gone.
    LostGrowth,
    /// Growth and entries survive, the bytes do not: new tails are zero.
    ZeroTails,
    /// As `ZeroTails`, but the new tails hold garbage.
    GarbageTails(u64),
    /// All but directory entries.
    LostEntries,
}

/// What happens to one pending change.
#[derive(Clone, Copy)]
enum Fate {
    Lost,
    Kept,
    Torn { sector: usize, tear: Tear },
}

impl CrashChoice {
    fn fate(&self, index: usize, kind: PendingKind, rng: &mut Rng) -> Fate {
        let keep = match self {
            CrashChoice::AllLost => false,
            CrashChoice::AllKept => true,
            CrashChoice::DropOnly(which) => index != *which,
            CrashChoice::KeepOnly(which) => index == *which,
            CrashChoice::Prefix(count) => index < *count,
            CrashChoice::Subset(_) => rng.chance(1, 2),
            CrashChoice::Torn { index: which, sector, tear, .. } if *which == index => {
                return Fate::Torn { sector: *sector, tear: *tear };
            }
            CrashChoice::Torn { others, .. } => *others,
            CrashChoice::LostGrowth => kind != PendingKind::Grow,
            CrashChoice::ZeroTails | CrashChoice::GarbageTails(_) => kind != PendingKind::Write,
            CrashChoice::LostEntries => kind != PendingKind::Entry,
        };
        if keep { Fate::Kept } else { Fate::Lost }
    }

    fn seed(&self) -> u64 {
        match self {
            CrashChoice::Subset(seed) | CrashChoice::GarbageTails(seed) => *seed,
            _ => 0,
        }
    }

    /// What this choice can do to a disk, for counting.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            CrashChoice::AllLost => "all pending lost",
            CrashChoice::AllKept => "all pending kept",
            CrashChoice::DropOnly(_) => "one change dropped",
            CrashChoice::KeepOnly(_) => "one change kept",
            CrashChoice::Prefix(_) => "prefix kept",
            CrashChoice::Subset(_) => "random subset kept",
            CrashChoice::Torn { .. } => "torn write",
            CrashChoice::LostGrowth => "lost growth",
            CrashChoice::ZeroTails => "zero tail",
            CrashChoice::GarbageTails(_) => "garbage tail",
            CrashChoice::LostEntries => "lost entries",
        }
    }
}

impl PendingState {
    /// The disk after a power cut.
    pub(crate) fn crash(&self, choice: &CrashChoice) -> Image {
        let mut image = self.durable.clone();
        let mut rng = Rng::from_seed(choice.seed());
        for (index, pending) in self.pending.iter().enumerate() {
            match choice.fate(index, pending.change.kind(), &mut rng) {
                Fate::Lost => {}
                Fate::Kept => keep(&mut image, choice, pending, &mut rng),
                Fate::Torn { sector, tear } => tear_write(&mut image, pending, sector, tear),
            }
        }
        image.prune();
        image
    }

    /// The choices worth trying for this state: all lost, all kept, each change lost or kept alone,
    /// each prefix, eight random subsets, the last four writes torn in every manner, and what can
    /// happen to tails and entries. Equal for equal seeds; some may give the same image.
    pub fn choices(&self, seed: u64) -> Vec<CrashChoice> {
        let mut choices = vec![CrashChoice::AllLost];
        if self.is_empty() {
            return choices;
        }
        let count = self.len();
        choices.push(CrashChoice::AllKept);
        choices.extend((0..count).map(CrashChoice::DropOnly));
        choices.extend((0..count).map(CrashChoice::KeepOnly));
        choices.extend((2..count.saturating_sub(1)).map(CrashChoice::Prefix));
        if count > 2 {
            choices.extend((0..8).map(|n| CrashChoice::Subset(seed.wrapping_add(n))));
        }
        self.push_tears(seed, &mut choices);
        self.push_tails(seed, &mut choices);
        choices
    }

    fn push_tears(&self, seed: u64, choices: &mut Vec<CrashChoice>) {
        let writes = self.pending.iter().enumerate().rev();
        let writes = writes.filter(|(_, p)| p.change.kind() == PendingKind::Write).take(4);
        for (index, pending) in writes {
            for sector in [512, PAGE] {
                let sectors = sectors(pending, sector).count() as u32;
                if sectors < 2 {
                    continue;
                }
                let half = sectors / 2;
                let random = Tear::Random(seed ^ index as u64);
                let mut tears = vec![Tear::First(1), Tear::Last(1), Tear::First(half), random];
                tears.extend([Tear::Last(half), Tear::First(sectors - 1), Tear::Last(sectors - 1)]);
                if sectors == 2 {
                    tears.truncate(2);
                }
                for others in [true, false] {
                    let torn = |tear| CrashChoice::Torn { index, sector, tear, others };
                    choices.extend(tears.iter().copied().map(torn));
                }
            }
        }
    }

    fn push_tails(&self, seed: u64, choices: &mut Vec<CrashChoice>) {
        let kinds = self.kinds();
        if kinds.contains(&PendingKind::Grow) {
            choices.extend([CrashChoice::LostGrowth, CrashChoice::ZeroTails]);
            choices.push(CrashChoice::GarbageTails(seed));
        }
        if kinds.contains(&PendingKind::Entry) {
            choices.push(CrashChoice::LostEntries);
        }
    }
}

fn keep(image: &mut Image, choice: &CrashChoice, pending: &Pending, rng: &mut Rng) {
    let before = match (&pending.change, choice) {
        (Change::Grow { ino, .. }, CrashChoice::GarbageTails(_)) => {
            image.content(*ino).map_or(0, super::image::Content::len)
        }
        _ => return pending.change.apply(image),
    };
    pending.change.apply(image);
    if let Change::Grow { ino, len } = pending.change {
        // Garbage ends at a sane size: a growth by gigabytes stays a hole.
        let mut garbage = vec![0; len.saturating_sub(before).min(1 << 20) as usize];
        rng.fill(&mut garbage);
        image.content_mut(ino).write(before, &garbage);
    }
}

/// The sectors that a write touches, as ranges of its bytes.
fn sectors(pending: &Pending, sector: usize) -> impl DoubleEndedIterator<Item = Range<usize>> {
    assert!(sector.is_power_of_two(), "sectors are powers of two");
    let (offset, len) = match &pending.change {
        Change::Write { offset, bytes, .. } => (*offset, bytes.len()),
        _ => (0, 0),
    };
    let size = sector as u64;
    let numbers = offset / size..(offset + len as u64).div_ceil(size);
    let numbers = if len == 0 { 0..0 } else { numbers };
    numbers.map(move |number| {
        let start = (number * size).saturating_sub(offset) as usize;
        let end = ((number + 1) * size - offset).min(len as u64) as usize;
        start..end
    })
}

fn tear_write(image: &mut Image, pending: &Pending, sector: usize, tear: Tear) {
    let Change::Write { ino, offset, bytes } = &pending.change else {
        panic!("only a write can be torn");
    };
    let pieces: Vec<_> = sectors(pending, sector).collect();
    let mut rng = Rng::from_seed(match tear {
        Tear::Random(seed) => seed,
        Tear::First(_) | Tear::Last(_) => 0,
    });
    let count = pieces.len();
    for (index, piece) in pieces.into_iter().enumerate() {
        let survives = match tear {
            Tear::First(first) => index < first as usize,
            Tear::Last(last) => index + last as usize >= count,
            Tear::Random(_) => rng.chance(1, 2),
        };
        if survives {
            let at = offset + piece.start as u64;
            image.content_mut(*ino).write(at, &bytes[piece]);
        }
    }
}
