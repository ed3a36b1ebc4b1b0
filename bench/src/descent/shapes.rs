//! Shapes of keys: what the rows of the experiment look like.
//!
//! A row is a function of its number, so that keys are made again instead of kept. The collated
//! columns of `collated`, `ten-filled` and `thirty-one` hold bytes of the form of a sort key (one
//! weight a letter, then the weaker levels, then the text), made without a collation: an imitation,
//! older than the engine's collations, kept so that figures can be compared over time.
//!
//! `collated-icu` has the words of `collated` in a column with an ICU collation. `ten-empty-icu`
//! and `thirty-one-icu` are shapes of a thread on pgsql-hackers: ten empty, or 31 filled, columns
//! collated by nl-BE, and a uuid.
//!
//! Invariants: rows of different numbers differ in every shape but `duplicates`, where a hundred
//! share a key.
//! Does not do: order (rows come in random order of their keys, but for `ascending`).

use rightlink::internal::keycode::{self, KeyColumn};
use rightlink::{Collation, Type, Value};
use rightlink_env::Rng;
use rightlink_env::sync::OnceLock;

/// A shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Dense int8 in random order.
    Int8,
    /// Dense int8 in their order.
    Ascending,
    /// Random uuids.
    Uuid,
    /// Words in byte order.
    Text,
    /// Words as bytes of the form of sort keys.
    Collated,
    /// Words in the order of English, by ICU.
    CollatedIcu,
    /// Ten empty texts and a uuid.
    TenEmpty,
    /// Ten collated texts, a few different values each, and a uuid.
    TenFilled,
    /// Thirty-one columns: thirty short collated texts and a uuid.
    ThirtyOne,
    /// Ten empty texts in the order of Dutch, by ICU, and a uuid.
    TenEmptyIcu,
    /// Thirty-one texts in the order of Dutch, by ICU, a few different values each, and a uuid.
    ThirtyOneIcu,
    /// Addresses that share their first 60 bytes, and end at random.
    LongPrefix,
    /// A hundred rows to an int8.
    Duplicates,
}

/// Every shape with its name.
pub(crate) const SHAPES: [(&str, Shape); 13] = [
    ("int8", Shape::Int8),
    ("ascending", Shape::Ascending),
    ("uuid", Shape::Uuid),
    ("text", Shape::Text),
    ("collated", Shape::Collated),
    ("collated-icu", Shape::CollatedIcu),
    ("ten-empty", Shape::TenEmpty),
    ("ten-filled", Shape::TenFilled),
    ("thirty-one", Shape::ThirtyOne),
    ("ten-empty-icu", Shape::TenEmptyIcu),
    ("thirty-one-icu", Shape::ThirtyOneIcu),
    ("long-prefix", Shape::LongPrefix),
    ("duplicates", Shape::Duplicates),
];

const WORDS: [&str; 16] = [
    "aardvark",
    "brambles",
    "cormorant",
    "dandelion",
    "eiderdown",
    "foxglove",
    "gooseberry",
    "hedgerow",
    "ironwood",
    "juniper",
    "kingfisher",
    "lavender",
    "marigold",
    "nightjar",
    "oystercatcher",
    "primrose",
];
const ADDRESS: &str = "https://www.example.com/catalogue/departments/gardening/item/";
/// Groups whose rows share the values of all collated columns.
const GROUPS: u64 = 8;
const ROWS_PER_KEY: u64 = 100;

impl std::str::FromStr for Shape {
    type Err = String;

    fn from_str(name: &str) -> Result<Shape, String> {
        let known = SHAPES.iter().find(|(known, _)| *known == name);
        known.map(|(_, shape)| *shape).ok_or_else(|| format!("no shape `{name}`"))
    }
}

impl Shape {
    /// Types of the key's columns.
    pub(crate) fn columns(self) -> Vec<Type> {
        let wide = |count: usize, kind: Type| {
            let mut columns = vec![kind; count];
            columns.push(Type::Uuid);
            columns
        };
        match self {
            Shape::Int8 | Shape::Ascending | Shape::Duplicates => vec![Type::Int8],
            Shape::Uuid => vec![Type::Uuid],
            Shape::Text | Shape::CollatedIcu | Shape::LongPrefix => vec![Type::Text],
            Shape::Collated => vec![Type::Bytes],
            Shape::TenEmpty | Shape::TenEmptyIcu => wide(10, Type::Text),
            Shape::TenFilled => wide(10, Type::Bytes),
            Shape::ThirtyOne => wide(30, Type::Bytes),
            Shape::ThirtyOneIcu => wide(31, Type::Text),
        }
    }

    /// How a column of type `kind` compares; none: by its bytes.
    pub(crate) fn collation(self, kind: Type) -> Option<&'static Collation> {
        static ENGLISH: OnceLock<Collation> = OnceLock::new();
        static DUTCH: OnceLock<Collation> = OnceLock::new();
        let built_in = |locale| Collation::new(locale, true).expect("a locale that is built in");
        match self {
            _ if kind != Type::Text => None,
            Shape::CollatedIcu => Some(ENGLISH.get_or_init(|| built_in("en"))),
            Shape::TenEmptyIcu | Shape::ThirtyOneIcu => {
                Some(DUTCH.get_or_init(|| built_in("nl-BE")))
            }
            _ => None,
        }
    }

    /// Values of row `n` of `rows`.
    pub(crate) fn values(self, n: u64, rows: u64) -> Vec<Value> {
        assert!(n < rows, "rows are numbered from 0");
        let mut rng = Rng::from_seed(n);
        match self {
            Shape::Int8 => vec![int(shuffled(n, rows))],
            Shape::Ascending => vec![int(n)],
            Shape::Duplicates => vec![int(shuffled(n, rows) / ROWS_PER_KEY)],
            Shape::Uuid => vec![uuid(&mut rng)],
            Shape::Text | Shape::CollatedIcu => vec![Value::Text(word(&mut rng, n))],
            Shape::Collated => vec![sort_key(&word(&mut rng, n))],
            Shape::LongPrefix => {
                vec![Value::Text(format!("{ADDRESS}{:016x}", rng.next_u64()))]
            }
            Shape::TenEmpty | Shape::TenEmptyIcu => {
                with_uuid(vec![Value::Text(String::new()); 10], &mut rng)
            }
            Shape::TenFilled => with_uuid(filled(10, n, sort_key), &mut rng),
            Shape::ThirtyOne => with_uuid(filled(30, n, sort_key), &mut rng),
            Shape::ThirtyOneIcu => {
                with_uuid(filled(31, n, |text| Value::Text(text.into())), &mut rng)
            }
        }
    }

    /// Encoded key of row `n`.
    pub(crate) fn key(self, n: u64, rows: u64) -> Vec<u8> {
        let collation = |ty| self.collation(ty).cloned();
        let column = |ty| KeyColumn { collation: collation(ty), ..KeyColumn::ascending(ty) };
        let columns: Vec<_> = self.columns().into_iter().map(column).collect();
        keycode::encode(&columns, &self.values(n, rows)).expect("shapes keep to the limit")
    }
}

fn int(n: u64) -> Value {
    Value::Int8(i64::try_from(n).expect("rows are counted in an int8"))
}

/// A permutation of `0..rows`: a Feistel network over enough bits, walked until it falls inside.
fn shuffled(n: u64, rows: u64) -> u64 {
    let half = (64 - rows.leading_zeros()).div_ceil(2).max(1);
    let mask = (1 << half) - 1;
    let mut at = n;
    loop {
        let (mut left, mut right) = (at >> half, at & mask);
        for round in 0..4u64 {
            let mixed = (right ^ round << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            (left, right) = (right, left ^ mixed >> (64 - half));
        }
        at = left << half | right;
        if at < rows {
            return at;
        }
    }
}

fn uuid(rng: &mut Rng) -> Value {
    let mut bytes = [0; 16];
    rng.fill(&mut bytes);
    Value::Uuid(bytes)
}

fn with_uuid(mut values: Vec<Value>, rng: &mut Rng) -> Vec<Value> {
    values.push(uuid(rng));
    values
}

/// Two words and the row's number: no two rows have the same.
fn word(rng: &mut Rng, n: u64) -> String {
    format!("{} {} {n}", WORDS[rng.index(16)], WORDS[rng.index(16)])
}

/// Collated columns that all rows of a group share, each made of a word.
fn filled(count: usize, n: u64, made: fn(&str) -> Value) -> Vec<Value> {
    let group = (n % GROUPS) as usize;
    (0..count).map(|column| made(WORDS[(group + column) % 16])).collect()
}

/// Bytes of the form of a sort key: a weight a letter, then a run for each weaker level.
fn sort_key(text: &str) -> Value {
    let mut bytes: Vec<u8> = text.bytes().map(|letter| letter.wrapping_mul(2) | 0x20).collect();
    bytes.extend([1, 0x86, 1, 0x80 + text.len().min(100) as u8, 0]);
    bytes.extend_from_slice(text.as_bytes());
    Value::Bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shuffle_is_a_permutation() {
        for rows in [1, 2, 7, 100, 4096, 5000] {
            let mut seen: Vec<u64> = (0..rows).map(|n| shuffled(n, rows)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..rows), "{rows}");
        }
    }

    #[test]
    fn keys_differ_where_they_should() {
        for (name, shape) in SHAPES {
            let mut keys: Vec<_> = (0..1000).map(|n| shape.key(n, 1000)).collect();
            keys.sort_unstable();
            keys.dedup();
            let expected = if shape == Shape::Duplicates { 10 } else { 1000 };
            assert_eq!(keys.len(), expected, "{name}");
            assert_eq!(name.parse(), Ok(shape));
        }
    }
}
