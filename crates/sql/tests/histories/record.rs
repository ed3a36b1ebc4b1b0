//! What the transactions of a history asked for and were told.
//!
//! Values and ids are given once only, so that each names the transaction that wrote it.
//! Does not do: judging (`check`).

/// What a transaction sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Level {
    /// A snapshot for each statement.
    Committed,
    /// One for the whole transaction.
    Repeatable,
}

/// How a transaction ended, as its client knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Committed,
    Aborted,
    /// The server was killed before it answered.
    Unknown,
}

/// A list, a register, or the rows that meet a condition.
pub(crate) type Object = u32;

/// One thing that a statement did or was told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// `value` was put behind what a list holds, or in the place of what a register held. A
    /// register's update says what that was.
    Put { object: Object, value: i64, replaced: Option<i64> },
    /// All values of a list, in order.
    List { object: Object, seen: Vec<i64> },
    /// The value of a register.
    Register { object: Object, value: i64 },
    /// A row came that meets the condition `object`.
    Insert { object: Object, id: i64 },
    /// A row went.
    Delete { id: i64 },
    /// All rows that meet the condition `object`.
    Members { object: Object, ids: Vec<i64> },
    /// Rows of one statement and their unique keys.
    Keys { rows: Vec<Keyed> },
    /// Rows of one snapshot that refer to others, and those others.
    References { children: Vec<Keyed>, parents: Vec<i64> },
    /// What the client itself found wrong.
    Odd(String),
}

/// A row and its key, or what it refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Keyed {
    pub(crate) id: i64,
    pub(crate) key: i64,
}

/// A statement that did something, failed, or undid others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Statement {
    /// Ticks of a clock that all clients share: before it was sent, and after its answer.
    pub(crate) sent: u64,
    pub(crate) answered: u64,
    /// Of one that failed there are none.
    pub(crate) events: Vec<Event>,
    /// It may have taken a snapshot or not.
    pub(crate) failed: bool,
    /// A return to a savepoint: what statements from this one on wrote is undone.
    pub(crate) undoes: Option<usize>,
}

/// A transaction of one client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Transaction {
    pub(crate) level: Level,
    pub(crate) outcome: Outcome,
    pub(crate) statements: Vec<Statement>,
    /// Ticks before its end was sent, and after the answer.
    pub(crate) end_sent: u64,
    pub(crate) end_answered: u64,
}

/// All that was recorded, and what there was at the end.
#[derive(Clone, Default, Debug)]
pub(crate) struct History {
    pub(crate) transactions: Vec<Transaction>,
    /// Contents after all transactions: lists, registers and members.
    pub(crate) last: Vec<Event>,
}
