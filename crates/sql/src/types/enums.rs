//! Enums: labels in an order of their own, as `CREATE TYPE .. AS ENUM` declares them.
//!
//! A label has a code, a string of bytes. The store keeps the code in place of the label, so that
//! bytes are in the order of the labels, in indexes too. A label between two others gets a code
//! between theirs: codes are digits of base 256 behind a point, and there is always room
//! (`docs/decisions/enum-codes.md`).
//!
//! A definition that was read is shared by all who read the same one, and stays until the process
//! ends: a type is a reference to it, and can be copied as types without labels can.
//!
//! Invariants: no code ends in a zero; a code is never given to another label of its type.
//! Does not do: keeping definitions (`notes::types`), finding them (`user_types`).

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

use rightlink_env::sync::Mutex;

use super::made::MadeName;
use crate::error::{Result, SqlError, code};
use crate::types::Datum;

/// A label and the code that is stored for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Label {
    pub(crate) text: String,
    pub(crate) code: Vec<u8>,
}

/// What there is to know of an enum.
#[derive(Debug)]
struct Definition {
    /// Its place among all that the process has read.
    place: u32,
    name: MadeName,
    /// In their order.
    labels: Vec<Label>,
}

/// A type made by `CREATE TYPE .. AS ENUM`.
#[derive(Clone, Copy)]
pub struct EnumType(&'static Definition);

/// A label of an enum.
#[derive(Clone, Copy)]
pub struct EnumValue {
    ty: EnumType,
    at: u32,
}

/// Definitions that were read.
#[derive(Default)]
struct Known {
    by_content: HashMap<(u32, String, Vec<Label>), EnumType>,
    all: Vec<EnumType>,
}

fn known() -> &'static Mutex<Known> {
    static KNOWN: OnceLock<Mutex<Known>> = OnceLock::new();
    KNOWN.get_or_init(Mutex::default)
}

impl EnumType {
    /// The type of these numbers that the store calls `stored`, with labels in their order.
    pub(crate) fn of(oid: u32, array_oid: u32, stored: &str, labels: Vec<Label>) -> EnumType {
        let mut known = known().lock();
        let key = (oid, stored.to_owned(), labels);
        if let Some(found) = known.by_content.get(&key) {
            return *found;
        }
        let definition = Definition {
            place: u32::try_from(known.all.len()).expect("fewer definitions than numbers"),
            name: MadeName::of(oid, array_oid, stored),
            labels: key.2.clone(),
        };
        let made = EnumType(Box::leak(Box::new(definition)));
        known.by_content.insert(key, made);
        known.all.push(made);
        made
    }

    /// The definition that has this place among all.
    pub(crate) fn at_place(place: u32) -> Option<EnumType> {
        known().lock().all.get(place as usize).copied()
    }

    /// Its place among all definitions that the process has read.
    pub(crate) fn place(self) -> u32 {
        self.0.place
    }

    /// The number by which clients know it.
    pub const fn oid(self) -> u32 {
        self.0.name.oid
    }

    /// The number of the type of its arrays.
    pub const fn array_oid(self) -> u32 {
        self.0.name.array_oid
    }

    /// As the store calls it.
    pub(crate) const fn stored(self) -> &'static str {
        self.0.name.stored
    }

    /// Its name in messages: with its schema, unless that is `public`.
    pub const fn shown(self) -> &'static str {
        self.0.name.shown
    }

    pub(crate) const fn shown_array(self) -> &'static str {
        self.0.name.shown_array
    }

    /// Its name without a schema.
    pub(crate) const fn short(self) -> &'static str {
        self.0.name.short
    }

    pub(crate) const fn short_array(self) -> &'static str {
        self.0.name.short_array
    }

    /// Labels in their order.
    pub(crate) fn labels(self) -> &'static [Label] {
        &self.0.labels
    }

    /// Its values, in their order.
    pub(crate) fn values(self) -> impl DoubleEndedIterator<Item = Datum> {
        (0..self.0.labels.len() as u32).map(move |at| Datum::Enum(EnumValue { ty: self, at }))
    }

    /// The value whose label this is.
    ///
    /// # Errors
    /// `22P02` for text that is no label.
    pub(crate) fn parse(self, text: &str) -> Result<Datum> {
        match self.0.labels.iter().position(|label| label.text == text) {
            Some(at) => Ok(Datum::Enum(EnumValue { ty: self, at: at as u32 })),
            None => {
                let message =
                    format!("invalid input value for enum {}: \"{text}\"", self.0.name.shown);
                Err(SqlError::new(code::INVALID_TEXT, message))
            }
        }
    }

    /// The value whose code the store has.
    ///
    /// # Errors
    /// `XX001` for a code that no label has: who reads a value holds a lock of its type, so that a
    /// label that is new is known.
    pub(crate) fn stored_value(self, code: &[u8]) -> Result<Datum> {
        match self.0.labels.binary_search_by(|label| label.code.as_slice().cmp(code)) {
            Ok(at) => Ok(Datum::Enum(EnumValue { ty: self, at: at as u32 })),
            Err(_) => {
                let message = format!("enum {} has no label of code {code:?}", self.0.name.shown);
                Err(SqlError::new(code::DATA_CORRUPTED, message))
            }
        }
    }
}

impl PartialEq for EnumType {
    fn eq(&self, other: &EnumType) -> bool {
        self.0.name.oid == other.0.name.oid
    }
}

impl Eq for EnumType {}

impl Hash for EnumType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.oid.hash(state);
    }
}

impl std::fmt::Debug for EnumType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EnumType({})", self.0.name.shown)
    }
}

impl EnumValue {
    /// Its type.
    pub fn ty(self) -> EnumType {
        self.ty
    }

    /// Its label.
    pub fn label(self) -> &'static str {
        &self.ty.0.labels[self.at as usize].text
    }

    /// What the store keeps for it.
    pub(crate) fn code(self) -> &'static [u8] {
        &self.ty.0.labels[self.at as usize].code
    }
}

impl PartialEq for EnumValue {
    fn eq(&self, other: &EnumValue) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for EnumValue {}

impl PartialOrd for EnumValue {
    fn partial_cmp(&self, other: &EnumValue) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for EnumValue {
    fn cmp(&self, other: &EnumValue) -> Ordering {
        self.code().cmp(other.code())
    }
}

impl std::fmt::Debug for EnumValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.label())
    }
}

/// Codes for so many labels, evenly apart.
pub(crate) fn even_codes(count: usize) -> impl Iterator<Item = Vec<u8>> {
    let mut width = 1;
    while width < 7 && 1_u128 << (8 * width) < 2 * (count as u128 + 1) {
        width += 1;
    }
    (1..=count as u128).map(move |number| {
        let digits = (number << (8 * width)) / (count as u128 + 1);
        let bytes = digits.to_be_bytes();
        let mut code = bytes[bytes.len() - width..].to_vec();
        while code.last() == Some(&0) {
            code.pop();
        }
        code
    })
}

/// A code behind `low` and in front of `high`; without one of them, of the first or last label.
pub(crate) fn code_between(low: Option<&[u8]>, high: Option<&[u8]>) -> Vec<u8> {
    let low = low.unwrap_or_default();
    let mut high = high;
    let mut code = Vec::new();
    loop {
        let at = code.len();
        let from = low.get(at).map_or(0, |digit| u16::from(*digit));
        let to = high.map_or(256, |high| high.get(at).map_or(0, |digit| u16::from(*digit)));
        let digit = from + (to - from) / 2;
        code.push(digit as u8);
        if digit > from {
            return code;
        }
        if to > from {
            // In front of `high` whatever follows.
            high = None;
        }
    }
}

/// A code as text, and back.
pub(crate) fn code_text(code: &[u8]) -> String {
    code.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn parse_code(text: &str) -> Option<Vec<u8>> {
    let digits = |at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    (0..text.len()).step_by(2).map(digits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_lie_between_their_neighbours_wherever_labels_are_added() {
        for count in [1, 2, 3, 100, 127, 128, 300, 40_000] {
            let codes: Vec<Vec<u8>> = even_codes(count).collect();
            assert!(codes.is_sorted_by(|a, b| a < b), "{count}");
            assert!(codes.iter().all(|code| code.last() != Some(&0)), "{count}");
        }
        let mut codes: Vec<Vec<u8>> = even_codes(3).collect();
        let mut random = 7_u64;
        for round in 0..3_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = match round % 3 {
                0 => (random >> 33) as usize % (codes.len() + 1),
                1 => 1,
                _ => codes.len() - 1,
            };
            let low = at.checked_sub(1).map(|at| codes[at].as_slice());
            let code = code_between(low, codes.get(at).map(Vec::as_slice));
            assert_ne!(code.last(), Some(&0));
            assert_eq!(parse_code(&code_text(&code)), Some(code.clone()));
            codes.insert(at, code);
        }
        assert!(codes.is_sorted_by(|a, b| a < b));
    }
}
