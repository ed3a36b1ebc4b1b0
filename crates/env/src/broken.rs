//! The broken variants: switches of test builds, each of which breaks one rule at one line.
//!
//! A variant is asked for at the line that keeps the rule ([`broken`](crate::points::broken)); a
//! test turns it on and fails unless its checks notice. `docs/rules.md` states the rules and names
//! the tests; `cargo xtask tidy` compares the two.
//!
//! Invariants: a name belongs to one variant.
//! Does not do: break anything. That is done where a variant is asked for.

use std::fmt;

macro_rules! variants {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)+) => {
        /// A line that can be broken.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Broken {
            $($(#[$doc])* $variant,)+
        }

        impl Broken {
            /// All of them, by rule.
            pub const ALL: &[Broken] = &[$(Broken::$variant),+];

            /// The name in documents and in `RIGHTLINK_MODEL_BREAK`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Broken::$variant => $name,)+
                }
            }
        }
    };
}

variants! {
    /// An index entry is marked dead by a deletion whose commit is not durable (R1).
    DeadMarkNotDurable = "r1-dead-mark",
    /// A relaxed commit counts as durable before its record is (R1).
    RelaxedCommitCalledDurable = "r1-durable",
    /// A version is marked committed before the commit record is durable (R1).
    CommitHintNotDurable = "r1-hint",
    /// A commit number is written to a status page before its record is durable (R1).
    CommitNumberSpilledEarly = "r1-spill",
    /// The bytes that are written are not the bytes that were checksummed (R2).
    PageCopiedAfterChecksum = "r2-private-copy",
    /// Every question to the recycle clock is answered with no (R3).
    RecycleClockIgnored = "r3-bucket",
    /// An entry is removed by key although its row id may have been freed and reused (R3).
    CleanedByKeyWithoutClock = "r3-by-key",
    /// Line pointers are freed without advancing the recycle clock (R3).
    RecycleClockNotAdvanced = "r3-clock",
    /// A line pointer is freed although it may have been freed and reused already (R3).
    FreedWithoutClock = "r3-free",
    /// The recycle clock is advanced after the line pointers are freed (R3).
    RecycleClockAdvancedLate = "r3-late",
    /// An entry is marked dead although its row id may name a new row (R3).
    DeadMarkWithoutClock = "r3-mark",
    /// Vacuum resumes with dead row ids that may name new rows by now (R3).
    ParkedRowIdsNotRechecked = "r3-parked",
    /// Row ids are freed by key while vacuum runs on the table (R3).
    FreedBesideVacuum = "r3-turn",
    /// An index-only scan trusts the all-visible bit without the recycle clock (R4).
    AllVisibleWithoutClock = "r4-clock",
    /// An index-only scan trusts the entries of an index that was replaced (R4).
    ReplacedIndexTrusted = "r4-replaced",
    /// A hash scan trusts the next page although it begins at another position (R5).
    HashLinkNotChecked = "hash-step",
    /// A descent carries bounds over from a parent that has changed (R5).
    BoundsOfChangedParent = "r5-carried",
    /// Vacuum does not follow the right link of a leaf that split during the pass (R5).
    SplitNotFollowed = "r5-cycle",
    /// Vacuum does not visit pages that were added behind the end it saw (R5).
    GrowthNotVisited = "r5-end",
    /// A merge that does not fit keeps the entries of the right leaf alone (R5).
    MergeDropsEntries = "r5-fits",
    /// Vacuum passes by a page that took in entries after it was followed (R5).
    FollowedPageNotRevisited = "r5-followed",
    /// Vacuum does not follow a leaf that was merged away while it judged it (R5).
    MergedPageNotFollowed = "r5-judged",
    /// A scan trusts the next leaf although its fence is not the remembered one (R5).
    LinkNotChecked = "r5-link",
    /// A scan takes rows of a posting list that are outside what is left of its range (R5).
    ListNotCutToRange = "r5-list",
    /// A merged page does not bear the vacuum cycle id (R5).
    MergeWithoutCycle = "r5-merge-cycle",
    /// A page is merged into a right sibling under another parent (R5).
    MergeAcrossParents = "r5-parent",
    /// A part of a vacuum does not follow splits into blocks of another part (R5).
    PartsNotFollowed = "r5-parts",
    /// Vacuum is not told which page took in the entries of a merged one (R5).
    MergeReceiverNotNoted = "r5-receiver",
    /// A descent takes a page's high key for the separator that led there (R5).
    SeparatorNotCompared = "r5-separator",
    /// Leaves that redistribute their entries do not bear the vacuum cycle id (R5).
    SpreadWithoutCycle = "r5-spread-cycle",
    /// Vacuum is not told which leaves took in entries when some were redistributed (R5).
    SpreadReceiversNotNoted = "r5-spread-receiver",
    /// An insertion uses the page that the directory named without checking its fences (R6).
    HashPageNotRechecked = "hash-guess",
    /// Vacuum uses a verdict on a hash page that changed before it was latched (R6).
    HashVerdictNotRepeated = "hash-judge",
    /// A block that another insertion has filled is overwritten with zeroes (R6).
    HashBlockNotRechecked = "hash-spare",
    /// A leaf that a search named is used, whatever its fences say under the latch (R6).
    NamedLeafNotChecked = "r6-fences",
    /// Vacuum takes blocks for free that a growth of the file is about to hand out (R6).
    GrowingBlocksCalledFree = "r6-growing",
    /// The free list of the meta page still counts for a block that was reused (R6).
    FreeHintOutlivesReuse = "r6-hints",
    /// Operations registered on the list instead of a slot do not delay page reuse (R6).
    LateRegistrationsIgnored = "r6-late",
    /// A nearby leaf is used although the key is below its low fence (R6).
    NearLeafLowFenceIgnored = "r6-near",
    /// A freed page is reused while an older descent may still arrive there (R6).
    PageReusedUnderDescent = "r6-recycle",
    /// A vacuum pass registers after its cycle id is in use (R6).
    VacuumRegistersLate = "r6-registered",
    /// A reader without pins may take the pool's lock when it pins a page (R7).
    AnnouncedReaderLocks = "announced-reader-locks",
    /// A reader without pins waits for the latch of a leaf (R7).
    AnnouncedReaderWaits = "announced-reader-waits",
    /// A split reads its right sibling from disk under latches (R7).
    ReadUnderLatch = "r7-no-io",
    /// The first page is unlatched between the unique check and the insertion (R8).
    HashUniqueLatchReleased = "hash-unique",
    /// The walk over equal keys unlatches a page before it latches the next (R8).
    HashWalkWithoutCoupling = "hash-walk",
    /// An update that changes a unique key skips the unique check (R8).
    ChangedKeyNotChecked = "r8-kept",
    /// The first leaf is unlatched between the unique check and the insertion (R8).
    UniqueLatchReleased = "r8-latch",
    /// Entries of a unique index go in as their pages arrive and not in key order (R8).
    UniqueEntriesUnordered = "unique-order",
    /// Vacuum frees the pages of a long value before its row is written (R9).
    OverflowFreedEarly = "overflow-horizon",
    /// A walk begins at a later version that was never committed (R9).
    UncreatedVersionBelieved = "r9-ahead",
    /// A waiting writer restarts at a version that may have been removed (R9).
    AnchorNotMoved = "r9-anchor",
    /// A snapshot that was deregistered for its age goes on reading (R9).
    ExpiredSnapshotNotTold = "r9-expired",
    /// A writer does not recognise the version it waited for once that was frozen (R9).
    FrozenVersionNotRecognised = "r9-frozen",
    /// An update takes the place of a version that a snapshot still sees (R9).
    SeenVersionOverwritten = "r9-hole",
    /// The horizon leaves out the live snapshots (R9).
    HorizonIgnoresSnapshots = "r9-horizon",
    /// The version before a removed one gets its link but keeps its own xmax (R9).
    OldVersionKeepsItsEnd = "r9-link",
    /// A snapshot is taken before it is registered (R9).
    SnapshotRegisteredLate = "r9-register",
    /// A removed version leaves no stub for walks from another page (R9).
    NoForwardingStub = "r9-stub",
    /// Every version whose end is committed counts as dead (R9).
    EveryEndedVersionDead = "r9-unseen",
    /// A write takes any version at a row id for the one that was meant (R9).
    VersionNotIdentified = "r9-walk",
    /// A row id counts as clean though its entry was not found and may have another key (R10).
    AbsentEntryCountsAsRemoved = "r10-by-key",
    /// An update that changes an indexed column is made heap-only (R10).
    UpdateAlwaysHeapOnly = "r10-hot",
    /// An update that moves a row into or out of a partial index is made heap-only (R10).
    PredicateChangeHeapOnly = "r10-predicate",
    /// A snapshot reads by an index that lacks versions it sees (R10).
    IndexUsedByOlderSnapshot = "r10-usable",
    /// An exclusive latch is granted while readers hold the page (R11).
    ExclusiveLatchBesideReaders = "latch-exclusive",
    /// Leaves are named from a parent page that changed while it was read (R11).
    LookAheadNotValidated = "r11-ahead",
    /// An optimistic read counts although a writer changed the page meanwhile (R11).
    OptimisticReadNotValidated = "r11-no-validation",
    /// A frame is given to another page while readers without pins are in it (R11).
    FrameTakenFromReaders = "r11-no-wait",
    /// An update latches two heap pages in the order in which it names them (R12).
    HeapLatchesUnordered = "r12-order",
    /// Write-back writes a page whose change could not be logged (R13).
    UnloggedChangeWritten = "copies-though-poisoned",
    /// A changed page has no redo position when a checkpoint looks for dirty pages (R13).
    DirtyPageWithoutRedo = "dirty-after-append",
    /// A file's space is given back before the log record that says so is durable (R13).
    HolePunchedBeforeLog = "punch-before-log",
    /// A page is written before the log up to its LSN is durable (R13).
    DataBeforeLog = "wal-before-data",
    /// A commit is acknowledged before its record is durable (R14).
    CommitNotDurable = "commit-not-durable",
    /// A snapshot can get a commit number before that commit's outcome is published (R14).
    CommitNumberBeforeOutcome = "commit-torn",
    /// A commit of a transaction that an earlier process prepared counts as an old one (R14).
    RestoredCommitNumberIgnored = "prepared-number",
    /// Sequence numbers are handed out without a log record (R14).
    SequenceNotLogged = "sequence-not-logged",
    /// The log says that it is durable before it is written (R14).
    LogDurableEarly = "wal-durable-early",
    /// A flush returns after one wake-up although its record is not durable (R14).
    FlushEndsEarly = "wal-follower-once",
    /// The log is written and not synced (R14).
    LogNotSynced = "wal-not-synced",
    /// Recovery accepts an old copy whose checksum is not the one in the group's head (R15).
    AnyValidCopyCounts = "any-sound-copy",
    /// Recovery does not write and sync the pages that it found intact (R15).
    RecoveredHomesNotSynced = "homes-not-settled",
    /// A double-write slot is used again before its pages are durable in their files (R15).
    HomesNotSynced = "homes-not-synced",
    /// Pages are written to their files without a copy in the double-write area (R15).
    NoDoubleWrite = "no-double-write",
    /// A double-write slot is reused although a failed write may have torn its pages (R15).
    TornHomesNotRepaired = "torn-homes-left",
    /// Recovery ends the log before the end that the control file states (R16).
    StatedLogEndIgnored = "wal-hole-is-the-end",
    /// Recovery does not search the log behind a hole (R16).
    LogNotSearchedBehindHole = "wal-no-search",
    /// Log frames of other databases or older uses of a file pass the checksum (R16).
    LogChecksumNotSeeded = "wal-no-seed",
    /// A flush overwrites the start of the sector that it shares with the one before (R16).
    LogTailOverwritten = "wal-tail-not-repeated",
    /// Recovery trusts the end of the log although it may be in the page cache only (R16).
    LogTailNotRewritten = "wal-tail-not-settled",
    /// A checkpoint frees log segments that a running backup still needs (R17).
    BackupLogNotHeld = "backup-log-not-held",
    /// The control file names an oldest xid whose log record is not durable (R17).
    OldestXidBeforeLog = "oldest-before-log",
    /// Outcome segments are removed before the control file says so (R17).
    OutcomesRemovedEarly = "segment-before-control",
    /// Opening does not make the newer copy of the control file durable (R17).
    ControlCopyNotSynced = "wal-control-not-settled",
    /// The control file is not synced (R17).
    ControlFileNotSynced = "wal-control-not-synced",
    /// A log segment is freed that holds the frame around the redo position (R17).
    CoveringSegmentFreed = "wal-cover-ignored",
    /// The control file is always written over the same copy (R17).
    OneControlCopy = "wal-one-control-copy",
    /// A backup does not copy files that were published while it ran (R18).
    BackupFilesNotRechecked = "backup-no-second-look",
    /// The directory is not synced after a log segment was renamed into place (R18).
    SegmentNameNotSynced = "wal-segment-name-not-synced",
    /// A log segment is renamed into place before it is synced (R18).
    SegmentNotSynced = "wal-segment-not-synced",
    /// A page that a panic left half changed is unlatched as if it were whole (R19).
    PanicPublishesChange = "panic-publishes-change",
    /// The log goes on after a failed write or sync (R19).
    FailedSyncForgiven = "wal-failed-sync-forgiven",
    /// A record that a panic left half copied is written to the log (R19).
    HalfRecordWritten = "wal-half-record",
    /// Write-back marks a page clean although it changed after it was copied (R20).
    ChangedPageMarkedClean = "clean-though-changed",
    /// A frame is given to another page although its page is dirty (R20).
    DirtyFrameEvicted = "evict-dirty",
    /// A frame is given to another page although it is pinned (R20).
    PinnedFrameEvicted = "evict-pinned",
    /// Eviction trusts a frame's tag although the page table names another frame (R20).
    StaleTagEvicted = "evict-stale-tag",
    /// A page is read into a second frame (R20).
    PageReadIntoTwoFrames = "read-twice",
    /// A released latch wakes no waiter (R21).
    LatchWakeupLost = "latch-no-wake",
    /// New sharers of a row overtake a writer that waits for it (R21).
    WriterOvertakenBySharers = "lock-fair",
    /// A panic at the end of a read leaves its waiters asleep (R21).
    PanickedReadNotReported = "panicked-read-left",
    /// A panic at the end of a write leaves the write-back waiting (R21).
    PanickedWriteNotCounted = "panicked-write-uncounted",
    /// A write leaves background threads at rest (R21).
    RestNotEnded = "rest-not-ended",
    /// A transaction that was granted a row and does not take it wakes no other waiter (R21).
    RowNotHandedOn = "txn-heir",
    /// Deferred wake-ups of transactions are never delivered (R21).
    WakeupsDropped = "txn-no-bell",
    /// A finished flush wakes no leader for the next group (R21).
    NextFlushLeaderNotWoken = "wal-no-next",
    /// A finished flush wakes no waiter (R21).
    FlushWaitersNotWoken = "wal-no-wake",
    /// A lookup by a unique key stops at the first of two rows that the snapshot sees (R22).
    SecondRowOfKeyMissed = "key-twice",
    /// A statement sees its own changes (R22).
    StatementSeesItself = "statement-bound",
    /// An update does not carry the key locks of others over to the new version (R23).
    LockNotCarriedOver = "lock-carried",
    /// A writer waits for the newest member of a multixact alone (R23).
    LockGroupForgetsMembers = "lock-group",
    /// Nobody holds a multixact of the process before, not even prepared transactions (R23).
    RestoredLocksForgotten = "lock-restored",
    /// A transaction uses a table it knew although its definition has changed (R24).
    KnownDefinitionNotRechecked = "known-edition",
    /// An online build starts before writers of the old definition have ended (R24).
    OnlineBuildSkipsFirstWait = "online-first-wait",
    /// An online build catches up before writers that do not keep the index have ended (R24).
    OnlineBuildSkipsSecondWait = "online-second-wait",
    /// A statement reads by a definition that changed before its snapshot was taken (R24).
    DefinitionOlderThanSnapshot = "read-edition",
    /// Each of several writers that wait for a block grows the index file.
    FileGrownPerWaiter = "growth-turn",
    /// Verification reports a root that was split meanwhile as damage.
    SplitRootReported = "verify-root",
}

impl Broken {
    /// The variant of this name.
    pub fn from_name(name: &str) -> Option<Broken> {
        Broken::ALL.iter().copied().find(|one| one.name() == name)
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_by_its_name() {
        for one in Broken::ALL {
            assert_eq!(Broken::from_name(one.name()), Some(*one));
        }
        assert_eq!(Broken::from_name("nothing"), None);
    }
}
