//! Rows in temporary files, in the order of keys that may be cut.
//!
//! Invariants: rows with equal keys come back as they went in; rows are of any length, in pieces
//! where one record does not hold them; the files go with whoever reads or writes them.
//! Does not do: telling rows apart whose keys were cut.

use std::hash::{DefaultHasher, Hasher};

use rightlink::{Sorted, Sorter};

use super::sort_key;
use crate::error::{Result, SqlError, code};
use crate::expr::{Context, SortKey};
use crate::types::{Datum, Row};

/// Bytes that stand for what is cut from an identity.
pub(super) const HASH: usize = 8;
/// Rows between two looks at whether the statement is still wanted.
const CHECK_EVERY: u32 = 256;

/// Rows on their way into files.
pub(super) struct Spill {
    sorter: Sorter,
    /// Longest record.
    longest: usize,
    bytes: Vec<u8>,
    piece: Vec<u8>,
}

impl Spill {
    /// Files that are written and read with about `memory` bytes.
    pub(super) fn new(memory: usize, context: &Context) -> Result<Spill> {
        let db = &context.db.as_ref().expect("a statement has a database").0;
        let sorter = db.sorter(memory).map_err(too_much)?;
        if let Some(probe) = &context.probe {
            probe.spilled();
        }
        let longest = sorter.max_record();
        Ok(Spill { sorter, longest, bytes: Vec::new(), piece: Vec::new() })
    }

    /// Longest key.
    pub(super) fn key_room(&self) -> usize {
        self.longest / 2
    }

    /// A row whose bytes are too many for one record is several with the same key, one behind the
    /// other as records with equal keys are.
    pub(super) fn push(&mut self, key: &[u8], row: &[Datum]) -> Result<()> {
        assert!(key.len() <= self.key_room(), "whoever makes the key cuts it");
        self.bytes.clear();
        sort_key::write_row(&mut self.bytes, row);
        let room = self.longest - key.len() - 1;
        let mut rest = &self.bytes[..];
        loop {
            let (part, more) = rest.split_at(rest.len().min(room));
            rest = more;
            self.piece.clear();
            self.piece.push(u8::from(!rest.is_empty()));
            self.piece.extend_from_slice(part);
            self.sorter.push(key, &self.piece).map_err(too_much)?;
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    pub(super) fn finish(self) -> Result<Spilled> {
        Ok(Spilled { sorted: self.sorter.finish().map_err(too_much)?, read: 0 })
    }
}

/// Rows on their way back.
pub(super) struct Spilled {
    sorted: Sorted,
    read: u32,
}

impl Spilled {
    /// Goes back in front of the first row. After an error of this or of [`Spilled::next`] it has
    /// to be called again before the next row is asked for.
    pub(super) fn rewind(&mut self) -> Result<()> {
        Ok(self.sorted.rewind()?)
    }

    /// The next row and its key.
    pub(super) fn next(&mut self, context: &Context) -> Result<Option<(Vec<u8>, Row)>> {
        self.read = self.read.wrapping_add(1);
        if self.read.is_multiple_of(CHECK_EVERY) {
            context.check()?;
        }
        let Some((key, piece)) = self.sorted.next()? else { return Ok(None) };
        let (key, (more, piece)) = (key.to_vec(), split(piece));
        if !more {
            return Ok(Some((key, sort_key::read_row(piece)?)));
        }
        let mut bytes = piece.to_vec();
        loop {
            let next = self.sorted.next()?;
            let (_, piece) = next.expect("a row ends with its last piece");
            let (more, piece) = split(piece);
            bytes.extend_from_slice(piece);
            if !more {
                return Ok(Some((key, sort_key::read_row(&bytes)?)));
            }
        }
    }
}

/// Whether there is more of the row behind a piece, and the row's bytes in it.
fn split(piece: &[u8]) -> (bool, &[u8]) {
    let (more, bytes) = piece.split_first().expect("a piece says whether there is more");
    (*more != 0, bytes)
}

/// Appends at most `room` bytes that equal values have in common, and others hardly ever. None of
/// them is the beginning of another.
pub(super) fn identify(out: &mut Vec<u8>, values: &[Datum], room: usize) {
    let start = out.len();
    let key =
        SortKey { at: 0, descending: false, nulls_first: false, padded: false, collation: None };
    values.iter().for_each(|value| sort_key::encode(out, value, &key));
    let kept = start + room - HASH;
    if out.len() > kept {
        let mut hasher = DefaultHasher::new();
        hasher.write(&out[kept..]);
        out.truncate(kept);
        out.extend_from_slice(&hasher.finish().to_be_bytes());
    }
}

/// The bytes of [`identify`] by themselves.
pub(super) fn identity_of(values: &[Datum], room: usize) -> Vec<u8> {
    let mut identity = Vec::new();
    identify(&mut identity, values, room);
    identity
}

/// A limit of the store that a sort has met.
fn too_much(error: rightlink::Error) -> SqlError {
    match error {
        rightlink::Error::Limit(message) => {
            SqlError::new(code::OUT_OF_MEMORY, "out of memory").detail(message)
        }
        other => SqlError::from(other),
    }
}
