//! The form in which a `jsonb` is kept: a member is found without reading those before it.
//!
//! A value is a byte that says what it is, and what belongs to it up to the end of its slice:
//!
//! ```text
//! null, false, true   nothing
//! number              the text of a numeric
//! string              UTF-8
//! array               count, ends of the items, the items
//! object              count, ends of the keys, ends of the values, the keys, the values
//! ```
//!
//! Counts and ends are 32 bits, little-endian; ends count from behind the last of them. Keys are in
//! the order of PostgreSQL's: shorter ones first, those of a length by their bytes.
//!
//! Invariants: bytes in a [`Jsonb`] are sound, because they were made here or have been checked.
//! Does not do: changes in place.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::{Json, MAX_DEPTH, parse, too_deep, write_string};
use crate::error::{Result, SqlError, code};
use crate::types::numeric;

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const NUMBER: u8 = 3;
const STRING: u8 = 4;
const ARRAY: u8 = 5;
const OBJECT: u8 = 6;

/// Bytes of a count and of an end.
const WORD: usize = 4;
/// Most bytes of what an array or object holds, as PostgreSQL limits it.
const MAX_BYTES: usize = 0x0fff_ffff;

/// A document in the form of `jsonb`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jsonb(Vec<u8>);

/// A value of a document.
#[derive(Clone, Copy)]
pub(crate) enum Node<'d> {
    Null,
    Bool(bool),
    /// The text of a numeric.
    Number(&'d str),
    String(&'d str),
    Array(Items<'d>),
    Object(Fields<'d>),
}

/// The items of an array.
#[derive(Clone, Copy)]
pub(crate) struct Items<'d>(Table<'d>);

/// The keys of an object and their values.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'d> {
    count: usize,
    table: Table<'d>,
}

/// Slices one behind the other, found by their ends.
#[derive(Clone, Copy)]
struct Table<'d> {
    /// The value that the table belongs to.
    value: &'d [u8],
    ends: &'d [u8],
    data: &'d [u8],
}

impl<'d> Table<'d> {
    fn len(&self) -> usize {
        self.ends.len() / WORD
    }

    fn end(&self, at: usize) -> usize {
        word(&self.ends[at * WORD..]) as usize
    }

    fn get(&self, at: usize) -> &'d [u8] {
        let start = if at == 0 { 0 } else { self.end(at - 1) };
        &self.data[start..self.end(at)]
    }
}

fn word(bytes: &[u8]) -> u32 {
    let [a, b, c, d, ..] = *bytes else { panic!("a word has four bytes") };
    u32::from_le_bytes([a, b, c, d])
}

fn str_of(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("it was checked")
}

/// What a slice holds, the slice being sound.
fn node_of(bytes: &[u8]) -> Node<'_> {
    let (tag, rest) = bytes.split_first().expect("a value has a tag");
    match *tag {
        NULL => Node::Null,
        FALSE => Node::Bool(false),
        TRUE => Node::Bool(true),
        NUMBER => Node::Number(str_of(rest)),
        STRING => Node::String(str_of(rest)),
        ARRAY => Node::Array(Items(table(bytes, 1))),
        OBJECT => {
            let table = table(bytes, 2);
            Node::Object(Fields { count: table.len() / 2, table })
        }
        other => unreachable!("a value of kind {other}"),
    }
}

/// The table of an array or object, which has so many ends for each member that is counted.
fn table(value: &[u8], each: usize) -> Table<'_> {
    let count = word(&value[1..]) as usize;
    let (ends, data) = value[1 + WORD..].split_at(count * each * WORD);
    Table { value, ends, data }
}

impl<'d> Items<'d> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The item in this place, from 0.
    pub(crate) fn get(&self, at: usize) -> Option<Node<'d>> {
        (at < self.len()).then(|| node_of(self.0.get(at)))
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Node<'d>> {
        (0..self.len()).map(move |at| node_of(self.0.get(at)))
    }
}

impl<'d> Fields<'d> {
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    fn key(&self, at: usize) -> &'d str {
        str_of(self.table.get(at))
    }

    fn value(&self, at: usize) -> Node<'d> {
        node_of(self.table.get(self.count + at))
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<Node<'d>> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = (low + high) / 2;
            match key_order(self.key(middle), key) {
                Ordering::Equal => return Some(self.value(middle)),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// In the order of the keys.
    pub(crate) fn iter(self) -> impl Iterator<Item = (&'d str, Node<'d>)> {
        (0..self.count).map(move |at| (self.key(at), self.value(at)))
    }
}

/// The order in which an object has its keys.
fn key_order(a: &str, b: &str) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.as_bytes().cmp(b.as_bytes()))
}

impl Jsonb {
    /// Reads a text.
    ///
    /// # Errors
    /// `22P02` for text that is no document, `54000` for one that is too large, `54001` for one
    /// that is too deep.
    pub fn parse(text: &str) -> Result<Jsonb> {
        Jsonb::build(parse(text)?)
    }

    /// Makes a document.
    ///
    /// # Errors
    /// `54000` if it is too large, `54001` if it is too deep.
    pub(crate) fn build(json: Json<'_>) -> Result<Jsonb> {
        let mut bytes = Vec::new();
        write(json, 0, &mut bytes)?;
        Ok(Jsonb(bytes))
    }

    /// The document that these bytes are, which may come from anywhere.
    ///
    /// # Errors
    /// `XX001` for bytes that are none.
    pub(crate) fn from_stored(bytes: Vec<u8>) -> Result<Jsonb> {
        match is_sound(&bytes, 0) {
            true => Ok(Jsonb(bytes)),
            false => Err(SqlError::new(code::DATA_CORRUPTED, "a value of type jsonb is damaged")),
        }
    }

    /// The bytes that [`Jsonb::from_stored`] takes.
    pub(crate) fn into_stored(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The whole document.
    pub(crate) fn node(&self) -> Node<'_> {
        node_of(&self.0)
    }

    /// As PostgreSQL prints it.
    pub(crate) fn to_text(&self) -> String {
        let mut out = String::new();
        self.write_text(&mut out);
        out
    }

    /// The same, appended.
    pub(crate) fn write_text(&self, out: &mut String) {
        self.node().write_text(out);
    }

    /// Order of two documents, as PostgreSQL's indexes have them: an object behind an array behind
    /// a boolean, a number, a string and null; by counts before members.
    pub(crate) fn compare(&self, other: &Jsonb) -> Ordering {
        let (a, b) = (self.node(), other.node());
        // A scalar counts as an array of one that comes before such an array.
        match (a.rank(), b.rank()) {
            (ARRAY, ARRAY) | (OBJECT, _) | (_, OBJECT) => a.compare(&b),
            (ARRAY, _) => a.count().cmp(&1).then(Ordering::Greater),
            (_, ARRAY) => 1.cmp(&b.count()).then(Ordering::Less),
            _ => a.compare(&b),
        }
    }
}

impl<'d> Node<'d> {
    /// What [`Node::rank`] is of an array.
    pub(crate) const ARRAY_RANK: u8 = ARRAY;

    /// Kinds in the order in which they are compared.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            Node::Null => NULL,
            Node::String(_) => 1,
            Node::Number(_) => 2,
            Node::Bool(_) => 3,
            Node::Array(_) => ARRAY,
            Node::Object(_) => OBJECT,
        }
    }

    /// Members of an array or object.
    pub(crate) fn count(&self) -> usize {
        match self {
            Node::Array(items) => items.len(),
            Node::Object(fields) => fields.len(),
            _ => 0,
        }
    }

    pub(crate) fn compare(&self, other: &Node<'_>) -> Ordering {
        match (self, other) {
            (Node::Bool(a), Node::Bool(b)) => a.cmp(b),
            (Node::Number(a), Node::Number(b)) => compare_numbers(a, b),
            (Node::String(a), Node::String(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Node::Array(a), Node::Array(b)) => a.len().cmp(&b.len()).then_with(|| {
                let orders = a.iter().zip(b.iter()).map(|(a, b)| a.compare(&b));
                first_difference(orders)
            }),
            (Node::Object(a), Node::Object(b)) => a.len().cmp(&b.len()).then_with(|| {
                let order = |((a_key, a), (b_key, b)): ((&str, Node<'_>), (&str, Node<'_>))| {
                    a_key.as_bytes().cmp(b_key.as_bytes()).then_with(|| a.compare(&b))
                };
                first_difference(a.iter().zip(b.iter()).map(order))
            }),
            _ => self.rank().cmp(&other.rank()),
        }
    }

    pub(crate) fn write_text(&self, out: &mut String) {
        match self {
            Node::Null => out.push_str("null"),
            Node::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Node::Number(text) => out.push_str(text),
            Node::String(text) => write_string(text, out),
            Node::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at > 0 { ", " } else { "" });
                    item.write_text(out);
                }
                out.push(']');
            }
            Node::Object(fields) => {
                out.push('{');
                for (at, (key, value)) in fields.iter().enumerate() {
                    out.push_str(if at > 0 { ", " } else { "" });
                    write_string(key, out);
                    out.push_str(": ");
                    value.write_text(out);
                }
                out.push('}');
            }
        }
    }

    /// As `->>` gives it: a string without quotes, `None` for null.
    pub(crate) fn plain_text(&self) -> Option<String> {
        match self {
            Node::Null => None,
            Node::String(text) => Some((*text).to_owned()),
            other => {
                let mut out = String::new();
                other.write_text(&mut out);
                Some(out)
            }
        }
    }

    /// The same to be changed.
    pub(crate) fn to_json(self) -> Json<'d> {
        match self {
            Node::Null => Json::Null,
            Node::Bool(value) => Json::Bool(value),
            Node::Number(text) => Json::Number(Cow::Borrowed(text)),
            Node::String(text) => Json::String(Cow::Borrowed(text)),
            Node::Array(items) => Json::Array(items.iter().map(Node::to_json).collect()),
            Node::Object(fields) => {
                let field = |(key, value): (&'d str, Node<'d>)| (key.into(), value.to_json());
                Json::Object(fields.iter().map(field).collect())
            }
        }
    }

    /// The same as a document of its own: a value is the same bytes wherever it stands.
    pub(crate) fn to_document(self) -> Jsonb {
        let scalar = |tag: u8, text: &str| [&[tag], text.as_bytes()].concat();
        Jsonb(match self {
            Node::Null => vec![NULL],
            Node::Bool(false) => vec![FALSE],
            Node::Bool(true) => vec![TRUE],
            Node::Number(text) => scalar(NUMBER, text),
            Node::String(text) => scalar(STRING, text),
            Node::Array(Items(table)) | Node::Object(Fields { table, .. }) => table.value.to_vec(),
        })
    }

    /// What `jsonb_typeof` calls it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Node::Null => "null",
            Node::Bool(_) => "boolean",
            Node::Number(_) => "number",
            Node::String(_) => "string",
            Node::Array(_) => "array",
            Node::Object(_) => "object",
        }
    }
}

fn first_difference(mut orders: impl Iterator<Item = Ordering>) -> Ordering {
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

fn compare_numbers(a: &str, b: &str) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    let read = |text: &str| numeric::parse(text).expect("it was made from a numeric");
    read(a).cmp(&read(b))
}

fn write(json: Json<'_>, depth: usize, out: &mut Vec<u8>) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    match json {
        Json::Null => out.push(NULL),
        Json::Bool(false) => out.push(FALSE),
        Json::Bool(true) => out.push(TRUE),
        Json::Number(text) => {
            out.push(NUMBER);
            out.extend(numeric::parse(&text)?.to_string().as_bytes());
        }
        Json::String(text) => {
            out.push(STRING);
            out.extend(text.as_bytes());
        }
        Json::Array(items) => {
            out.push(ARRAY);
            let mut ends = Ends::begin(items.len(), items.len(), out)?;
            for item in items {
                write(item, depth + 1, out)?;
                ends.end_one("array elements", out)?;
            }
        }
        Json::Object(mut fields) => {
            // The sort is stable: of equal keys the last stays.
            fields.sort_by(|(a, _), (b, _)| key_order(a, b));
            let mut kept: Vec<(Cow<'_, str>, Json<'_>)> = Vec::with_capacity(fields.len());
            for field in fields {
                match kept.last_mut() {
                    Some(last) if last.0 == field.0 => *last = field,
                    _ => kept.push(field),
                }
            }
            out.push(OBJECT);
            let mut ends = Ends::begin(kept.len(), 2 * kept.len(), out)?;
            for (key, _) in &kept {
                out.extend(key.as_bytes());
                ends.end_one("object keys", out)?;
            }
            for (_, value) in kept {
                write(value, depth + 1, out)?;
                ends.end_one("object elements", out)?;
            }
        }
    }
    Ok(())
}

/// The ends of a table that is being written.
struct Ends {
    /// Where the next one goes.
    place: usize,
    data: usize,
}

impl Ends {
    fn begin(count: usize, ends: usize, out: &mut Vec<u8>) -> Result<Ends> {
        let number = u32::try_from(count).ok().filter(|_| ends <= MAX_BYTES / WORD);
        let number = number.ok_or_else(|| too_large("array elements"))?;
        out.extend(number.to_le_bytes());
        let place = out.len();
        out.resize(place + ends * WORD, 0);
        Ok(Ends { place, data: out.len() })
    }

    fn end_one(&mut self, what: &str, out: &mut [u8]) -> Result<()> {
        let end = out.len() - self.data;
        if end > MAX_BYTES {
            return Err(too_large(what));
        }
        out[self.place..self.place + WORD].copy_from_slice(&(end as u32).to_le_bytes());
        self.place += WORD;
        Ok(())
    }
}

fn too_large(what: &str) -> SqlError {
    let message = format!("total size of jsonb {what} exceeds the maximum of {MAX_BYTES} bytes");
    SqlError::new(code::PROGRAM_LIMIT, message)
}

/// Are these the bytes of a value, and of nothing more?
fn is_sound(bytes: &[u8], depth: usize) -> bool {
    let Some((tag, rest)) = bytes.split_first() else { return false };
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok();
    match *tag {
        NULL | FALSE | TRUE => rest.is_empty(),
        NUMBER => std::str::from_utf8(rest).is_ok_and(|text| numeric::parse(text).is_ok()),
        STRING => text(rest),
        ARRAY | OBJECT => {
            let each = if *tag == OBJECT { 2 } else { 1 };
            let Some(count) = rest.first_chunk::<WORD>().map(|word| u32::from_le_bytes(*word))
            else {
                return false;
            };
            let size = (count as usize).checked_mul(each * WORD);
            if depth == MAX_DEPTH || size.is_none_or(|size| size > rest.len() - WORD) {
                return false;
            }
            let table = table(bytes, each);
            let mut start = 0;
            let in_order = (0..table.len()).all(|at| {
                let end = table.end(at);
                let is_next = start <= end && end <= table.data.len();
                start = end;
                is_next
            });
            if !in_order || start != table.data.len() {
                return false;
            }
            let keys = if *tag == OBJECT { count as usize } else { 0 };
            let is_key = |at: usize| {
                let key = table.get(at);
                let behind = |before: &[u8]| (before.len(), before) < (key.len(), key);
                text(key) && (at == 0 || behind(table.get(at - 1)))
            };
            (0..keys).all(is_key)
                && (keys..table.len()).all(|at| is_sound(table.get(at), depth + 1))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jsonb(text: &str) -> Jsonb {
        Jsonb::parse(text).unwrap()
    }

    #[test]
    fn a_document_is_printed_as_postgresql_prints_it() {
        for (text, expected) in [
            (
                " { \"bb\" : 1, \"a\":[ ], \"c\":{} , \"a\": [1,2.50,-3e2]}",
                "{\"a\": [1, 2.50, -300], \"c\": {}, \"bb\": 1}",
            ),
            ("\"a\\u000b\\n\"", "\"a\\u000b\\n\""),
            ("[null,true,false]", "[null, true, false]"),
            ("1E400", &format!("1{}", "0".repeat(400))),
            ("{\"\":\"\"}", "{\"\": \"\"}"),
        ] {
            assert_eq!(jsonb(text).to_text(), expected);
        }
    }

    #[test]
    fn documents_are_ordered_as_postgresql_orders_them() {
        let order = [
            "[]",
            "null",
            "\"\"",
            "\"a\"",
            "\"ab\"",
            "\"b\"",
            "-1",
            "0",
            "1.5",
            "1e1",
            "false",
            "true",
            "[null]",
            "[10]",
            "[[]]",
            "[{}]",
            "[1, 2]",
            "[1, 3]",
            "{}",
            "{\"a\": 1}",
            "{\"a\": 2}",
            "{\"b\": 1}",
            "{\"a\": 1, \"b\": 1}",
        ];
        for (at, a) in order.iter().enumerate() {
            for (other, b) in order.iter().enumerate() {
                assert_eq!(jsonb(a).compare(&jsonb(b)), at.cmp(&other), "{a} {b}");
            }
        }
        assert_eq!(jsonb("1.0").compare(&jsonb("1.00")), Ordering::Equal);
    }

    #[test]
    fn members_are_found() {
        let value = jsonb("{\"k\": [1, {\"x\": \"y\"}], \"key\": null, \"kex\": 2}");
        let Node::Object(fields) = value.node() else { panic!("an object") };
        assert!(matches!(fields.get("key"), Some(Node::Null)));
        assert!(matches!(fields.get("kex"), Some(Node::Number("2"))));
        assert!(fields.get("ke").is_none() && fields.get("zzz").is_none());
        let Some(Node::Array(items)) = fields.get("k") else { panic!("an array") };
        assert!(items.get(2).is_none());
        let Some(Node::Object(inner)) = items.get(1) else { panic!("an object") };
        assert!(matches!(inner.get("x"), Some(Node::String("y"))));
        assert_eq!(Node::Object(inner).to_document().to_text(), "{\"x\": \"y\"}");
    }

    /// Every byte of a document is changed in turn, and every prefix is cut off: what comes of it
    /// is refused, or is a document that can be walked.
    #[test]
    fn damaged_bytes_are_refused_or_read() {
        let sound = jsonb("{\"a\": [1, \"x\", null, {\"b\": true}], \"cc\": -2.5}").into_stored();
        Jsonb::from_stored(sound.clone()).unwrap();
        let walk = |bytes: Vec<u8>| {
            if let Ok(value) = Jsonb::from_stored(bytes) {
                value.to_text();
                assert_eq!(value.compare(&value), Ordering::Equal);
            }
        };
        for at in 0..sound.len() {
            assert!(Jsonb::from_stored(sound[..at].to_vec()).is_err());
            for change in 1..=255 {
                let mut bytes = sound.clone();
                bytes[at] ^= change;
                walk(bytes);
            }
        }
    }
}
