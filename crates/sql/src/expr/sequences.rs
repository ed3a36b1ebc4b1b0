//! `nextval`, `currval`, `lastval`, `setval`: sequences and what a session has got of them.
//!
//! Invariants: a sequence that a statement names is open before any of it is evaluated, and as long
//! as anything of it is: cursors and portals outlive the statement after them. All are where an
//! expression says which one is asked.
//! Does not do: numbers (the store hands them out).

use std::cell::OnceCell;
use std::collections::HashMap;

use rightlink::{Numbers, SequencePosition, Transaction};
use rightlink_env::sync::{Arc, Mutex};

use crate::error::{Result, SqlError, code};
use crate::names::bare;
use crate::privileges::Privileges;
use crate::schemas::no_table;
use crate::types::Datum;

/// In place of the name of a sequence: the first argument gives its number when it is evaluated.
pub(crate) const BY_NUMBER: &str = "*";

/// The same where only the places of sequences are asked for.
pub(crate) const POSITIONS: &str = "*places";

/// Does a statement change the sequence that it names so? `lastval` and places only read.
pub(crate) fn is_changed(name: &str) -> bool {
    !matches!(name, "" | POSITIONS)
}

/// What is asked of a sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Ask {
    Next,
    /// The number that this session got of it; its own number is the argument.
    Current,
    /// The number that this session got last, of whatever sequence.
    Last,
    /// Go on after (true) or with a number.
    Set,
    /// The number that anybody got of it last.
    Position,
}

impl Ask {
    /// The function that asks.
    pub(crate) fn function(self) -> &'static str {
        match self {
            Ask::Next => "nextval",
            Ask::Current => "currval",
            Ask::Last => "lastval",
            Ask::Set => "setval",
            Ask::Position => "pg_sequence_last_value",
        }
    }

    /// The privileges of which it needs one.
    pub(crate) fn privileges(self) -> Privileges {
        match self {
            Ask::Next => Privileges::USAGE.and(Privileges::UPDATE),
            Ask::Current | Ask::Last | Ask::Position => Privileges::USAGE.and(Privileges::SELECT),
            Ask::Set => Privileges::UPDATE,
        }
    }
}

/// The sequence that is asked.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) name: &'a str,
    /// What the store has given it, where the statement does not name it.
    pub(crate) id: Option<u32>,
}

/// The sequences of a statement, and what its session has got of them. Clones are the same once one
/// is open.
#[derive(Clone, Default)]
pub(crate) struct Sequences {
    session: Arc<Mutex<State>>,
    /// Made for the first one that is opened.
    open: OnceCell<Arc<Mutex<Open>>>,
}

/// Sequences that are open.
#[derive(Default)]
struct Open {
    by_name: HashMap<String, Numbers>,
    /// By what the store has given them.
    by_id: HashMap<u32, Numbers>,
    positions: HashMap<u32, SequencePosition>,
}

/// What a session has got.
#[derive(Default)]
struct State {
    /// By the numbers that sequences have under whatever name.
    current: HashMap<u32, i64>,
    last: Option<u32>,
}

impl std::fmt::Debug for Sequences {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sequences")
    }
}

impl Sequences {
    /// For another statement of the session, none open.
    pub(crate) fn of_statement(&self) -> Sequences {
        Sequences { session: Arc::clone(&self.session), open: OnceCell::new() }
    }

    /// Opens sequences that the statement names.
    pub(crate) fn open(&self, names: &[String], txn: &mut Transaction) -> Result<()> {
        for name in names {
            match name.as_str() {
                "" => {
                    self.open_last(txn)?;
                    continue;
                }
                BY_NUMBER => {
                    self.open_all(txn)?;
                    continue;
                }
                POSITIONS => {
                    self.look_at_all(txn)?;
                    continue;
                }
                _ => {}
            }
            let numbers = match txn.numbers(name) {
                Err(rightlink::Error::NotFound(_)) if txn.catalog().has_relation(name)? => {
                    return Err(not_a_sequence(name));
                }
                Err(rightlink::Error::NotFound(_)) => return Err(no_table(name)),
                found => found?,
            };
            self.add(name, numbers);
        }
        Ok(())
    }

    /// Opens the sequence that the session got a number of last, under no name, if it is there.
    fn open_last(&self, txn: &mut Transaction) -> Result<()> {
        let Some(last) = self.session.lock().last else { return Ok(()) };
        let known = txn.catalog().sequences()?.into_iter().find(|known| known.id == last);
        if let Some(known) = known {
            let numbers = txn.numbers(&known.schema.name)?;
            self.add("", numbers);
        }
        Ok(())
    }

    /// Opens every sequence: which ones are asked is known later.
    fn open_all(&self, txn: &mut Transaction) -> Result<()> {
        for known in txn.catalog().sequences()? {
            let numbers = txn.numbers(&known.schema.name)?;
            self.open.get_or_init(Arc::default).lock().by_id.insert(known.id, numbers);
        }
        Ok(())
    }

    /// Keeps the places of all sequences.
    fn look_at_all(&self, txn: &mut Transaction) -> Result<()> {
        for known in txn.catalog().sequences()? {
            let at = match txn.catalog().sequence_position(&known.schema.name) {
                Err(rightlink::Error::NotFound(_)) => continue,
                at => at?,
            };
            self.open.get_or_init(Arc::default).lock().positions.insert(known.id, at);
        }
        Ok(())
    }

    fn add(&self, name: &str, numbers: Numbers) {
        self.open.get_or_init(Arc::default).lock().by_name.insert(name.to_owned(), numbers);
    }

    /// Forgets what the session has got.
    pub(crate) fn forget(&self) {
        *self.session.lock() = State::default();
    }

    /// Does `work` with a sequence that is open.
    fn with<T>(&self, of: Asked<'_>, work: impl FnOnce(&Numbers) -> Result<T>) -> Result<T> {
        let open = self.open.get().map(|open| open.lock());
        let found = open.as_ref().and_then(|open| match of.id {
            Some(id) => open.by_id.get(&id),
            None => open.by_name.get(of.name),
        });
        work(found.ok_or_else(|| no_table(of.name))?)
    }

    /// Asks a sequence.
    pub(crate) fn ask(&self, ask: Ask, of: Asked<'_>, args: &[Datum]) -> Result<Datum> {
        let mut state = self.session.lock();
        match ask {
            Ask::Next => {
                let draw = |numbers: &Numbers| -> Result<(u32, i64)> {
                    let number = numbers.draw().map_err(|error| exhausted(error, numbers))?;
                    Ok((numbers.id(), number))
                };
                let (id, number) = self.with(of, draw)?;
                state.current.insert(id, number);
                state.last = Some(id);
                Ok(Datum::Int8(number))
            }
            Ask::Current => {
                let named = || args[0].as_int().and_then(|id| u32::try_from(id).ok());
                let id = of.id.or_else(named);
                let number = id.and_then(|id| state.current.get(&id));
                number.map(|n| Datum::Int8(*n)).ok_or_else(|| {
                    let what = format!("currval of sequence \"{}\"", bare(of.name));
                    let message = format!("{what} is not yet defined in this session");
                    SqlError::new(code::NOT_IN_STATE, message)
                })
            }
            Ask::Last => {
                // One that was dropped since is not open.
                let open = self.open.get().map(|open| open.lock());
                let is_open = |last: &u32| {
                    open.iter().flat_map(|open| open.by_name.values()).any(|one| one.id() == *last)
                };
                let last = state.last.filter(is_open);
                let number = last.and_then(|last| state.current.get(&last));
                number.map(|n| Datum::Int8(*n)).ok_or_else(|| {
                    let message = "lastval is not yet defined in this session";
                    SqlError::new(code::NOT_IN_STATE, message)
                })
            }
            Ask::Position => {
                let open = self.open.get().map(|open| open.lock());
                let known = open.as_ref().zip(of.id).and_then(|(open, id)| open.positions.get(&id));
                let drawn = known.filter(|known| known.drawn);
                Ok(drawn.map_or(Datum::Null, |known| Datum::Int8(known.value)))
            }
            Ask::Set => {
                let (Some(to), Some(Datum::Bool(after))) = (args[0].as_int(), args.get(1)) else {
                    return Ok(Datum::Null);
                };
                let id = self.with(of, |numbers| {
                    set(numbers, to, *after)?;
                    Ok(numbers.id())
                })?;
                if *after {
                    state.current.insert(id, to);
                }
                Ok(Datum::Int8(to))
            }
        }
    }
}

/// The error for something else of that name.
pub(crate) fn not_a_sequence(name: &str) -> SqlError {
    SqlError::new(code::WRONG_OBJECT_TYPE, format!("\"{}\" is not a sequence", bare(name)))
}

fn exhausted(error: rightlink::Error, numbers: &Numbers) -> SqlError {
    let schema = numbers.schema();
    let (end, bound) = match schema.increment > 0 {
        true => ("maximum", schema.max),
        false => ("minimum", schema.min),
    };
    match error {
        rightlink::Error::Limit(_) => {
            let name = bare(&schema.name);
            let message = format!("nextval: reached {end} value of sequence \"{name}\" ({bound})");
            SqlError::new("2200H", message)
        }
        other => other.into(),
    }
}

fn set(numbers: &Numbers, to: i64, after: bool) -> Result<()> {
    let schema = numbers.schema();
    if !(schema.min..=schema.max).contains(&to) {
        let message = format!(
            "setval: value {to} is out of bounds for sequence \"{}\" ({}..{})",
            bare(&schema.name),
            schema.min,
            schema.max
        );
        return Err(SqlError::new(code::NUMERIC_OUT_OF_RANGE, message));
    }
    Ok(numbers.set(SequencePosition { value: to, drawn: after })?)
}
