//! Tests of key bytes: order, freedom of prefixes, round trips, ranges.

use std::cmp::Ordering;
use std::ops::Bound;

use rightlink_env::Rng;

use super::*;
use crate::datum::Value;
use crate::datum::tests::random_value;

/// Random values of each test of keys: `RIGHTLINK_PAIRS`, of which `.ci/run --long` asks a million.
pub(crate) fn pairs() -> usize {
    let asked = std::env::var("RIGHTLINK_PAIRS").ok();
    asked.map_or(50_000, |text| text.parse().expect("a number of pairs"))
}

fn order_of(column: &KeyColumn, a: &Value, b: &Value) -> Ordering {
    match (a.is_null(), b.is_null()) {
        (false, false) if column.descending => b.cmp(a),
        (false, false) => a.cmp(b),
        (true, true) => Ordering::Equal,
        (a_null, _) if a_null == column.nulls_first => Ordering::Less,
        _ => Ordering::Greater,
    }
}

/// Encodes a chain of values, each compared with the one before: all pairs in total order.
fn check_order(ty: Type) {
    let mut rng = Rng::from_seed(u64::from(ty.tag()));
    for (descending, nulls_first) in [(false, false), (true, true), (false, true), (true, false)] {
        let column = KeyColumn { ty, descending, nulls_first, collation: None };
        let (mut before, mut before_bytes) = (Value::Null, vec![column.null_byte()]);
        for round in 0..pairs() / 4 {
            let value = if round % 64 == 0 { Value::Null } else { random_value(&mut rng, ty) };
            let mut bytes = Vec::with_capacity(20);
            encode_column(&mut bytes, &column, &value);
            let wanted = order_of(&column, &before, &value);
            assert_eq!(before_bytes.cmp(&bytes), wanted, "{column:?} {before:?} {value:?}");
            let free = wanted.is_eq() || !bytes.starts_with(&before_bytes);
            assert!(free && (wanted.is_eq() || !before_bytes.starts_with(&bytes)));
            let mut rest = bytes.as_slice();
            assert_eq!(column_len(&column, &bytes), Ok(bytes.len()));
            assert_eq!(decode_column(&column, &mut rest).as_ref(), Ok(&value));
            assert!(rest.is_empty());
            (before, before_bytes) = (value, bytes);
        }
    }
}

macro_rules! order_tests {
    ($($name:ident $ty:ident;)*) => {$(
        #[test]
        fn $name() {
            check_order(Type::$ty);
        }
    )*};
}

order_tests! {
    order_of_bool Bool;
    order_of_int2 Int2;
    order_of_int4 Int4;
    order_of_int8 Int8;
    order_of_float4 Float4;
    order_of_float8 Float8;
    order_of_text Text;
    order_of_bytes Bytes;
    order_of_uuid Uuid;
    order_of_date Date;
    order_of_timestamp Timestamp;
    order_of_timestamptz TimestampTz;
    order_of_decimal Decimal;
    order_of_interval Interval;
    order_of_time Time;
    order_of_json Json;
}

fn three_columns() -> [KeyColumn; 3] {
    [
        KeyColumn::descending(Type::Text),
        KeyColumn::ascending(Type::Int4),
        KeyColumn { nulls_first: true, ..KeyColumn::ascending(Type::Bytes) },
    ]
}

fn random_row(rng: &mut Rng, columns: &[KeyColumn]) -> Vec<Value> {
    let mut one = |column: &KeyColumn| match rng.below(8) {
        0 => Value::Null,
        _ => random_value(rng, column.ty),
    };
    columns.iter().map(&mut one).collect()
}

#[test]
fn several_columns_are_ordered_one_after_the_other() {
    let columns = three_columns();
    let mut rng = Rng::from_seed(7);
    let mut before = random_row(&mut rng, &columns);
    for _ in 0..pairs() {
        let row = random_row(&mut rng, &columns);
        let wanted = (columns.iter().zip(&before).zip(&row))
            .map(|((column, a), b)| order_of(column, a, b))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal);
        let (a, b) = (encode(&columns, &before).unwrap(), encode(&columns, &row).unwrap());
        assert_eq!(a.cmp(&b), wanted, "{before:?} {row:?}");
        assert_eq!(decode(&columns, &b), Ok(row.clone()));
        before = row;
    }
}

#[test]
fn ranges_hold_exactly_the_keys_that_the_condition_names() {
    let columns = three_columns();
    let mut rng = Rng::from_seed(8);
    let text = |bytes: &[u8]| Value::Text(String::from_utf8(bytes.to_vec()).unwrap());
    let first = [text(b"a"), text(b""), text(b"a\0"), text(b"a\x01"), Value::Null];
    for _ in 0..pairs() {
        let row = [
            rng.pick(&first).unwrap().clone(),
            if rng.chance(1, 5) { Value::Null } else { Value::Int4(rng.below(6) as i32) },
            random_value(&mut rng, Type::Bytes),
        ];
        let bound = |rng: &mut Rng| match rng.below(3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(Value::Int4(rng.below(6) as i32)),
            _ => Bound::Excluded(Value::Int4(rng.below(6) as i32)),
        };
        let (low, high) = (bound(&mut rng), bound(&mut rng));
        let equal = [rng.pick(&first).unwrap().clone()];
        let above = match &low {
            Bound::Unbounded => true,
            Bound::Included(v) => row[1] >= *v,
            Bound::Excluded(v) => row[1] > *v,
        };
        let below = match &high {
            Bound::Unbounded => true,
            Bound::Included(v) => row[1] <= *v,
            Bound::Excluded(v) => row[1] < *v,
        };
        let wanted = row[0] == equal[0] && !row[1].is_null() && above && below;
        let range = prefix_range(&columns, &equal, &ColumnRange::Between(low, high)).unwrap();
        let mut key = encode(&columns, &row).unwrap();
        key.extend_from_slice(&[0xFF; 6]);
        assert_eq!(range.contains(&key), wanted, "{row:?} {range:?}");
        assert!(!wanted || !range.is_empty());
    }
}

#[test]
fn prefixes_of_text_and_bytes_are_ranges_in_both_directions() {
    let mut rng = Rng::from_seed(9);
    for descending in [false, true] {
        let column = KeyColumn { descending, ..KeyColumn::ascending(Type::Bytes) };
        let column = std::slice::from_ref(&column);
        for _ in 0..pairs() {
            let (start, value) =
                (random_value(&mut rng, Type::Bytes), random_value(&mut rng, Type::Bytes));
            let (Value::Bytes(start), Value::Bytes(bytes)) = (start, &value) else { panic!() };
            let wanted = bytes.starts_with(&start);
            let range = prefix_range(column, &[], &ColumnRange::StartsWith(start)).unwrap();
            assert_eq!(range.contains(&encode(column, &[value]).unwrap()), wanted);
        }
    }
    let column = KeyColumn::ascending(Type::Int4);
    assert!(prefix_range(&[column], &[], &ColumnRange::StartsWith(vec![1])).is_err());
}

#[test]
fn a_key_beyond_the_limit_is_refused() {
    let column = [KeyColumn::ascending(Type::Text)];
    let key = |len: usize| encode(&column, &[Value::Text("x".repeat(len))]);
    assert_eq!(key(MAX_ENCODED - 2).unwrap().len(), MAX_ENCODED);
    assert!(key(MAX_ENCODED - 1).is_err());
}

/// Bounds beyond the limit are cut, and hold the same keys as if they were not.
#[test]
fn bounds_beyond_the_limit_hold_what_they_say() {
    let text = |len: usize, last: &str| Value::Text("m".repeat(len) + last);
    let lens = [0, 1, MAX_ENCODED - 10, MAX_ENCODED - 4, MAX_ENCODED - 3, MAX_ENCODED, 4_000];
    let all: Vec<Value> =
        lens.iter().flat_map(|len| ["", "a", "z"].map(|last| text(*len, last))).collect();
    for (descending, nulls_first) in [(false, false), (true, true)] {
        let text = KeyColumn { descending, nulls_first, ..KeyColumn::ascending(Type::Text) };
        for columns in [vec![text.clone()], vec![text, KeyColumn::ascending(Type::Bool)]] {
            let key = |value: &Value| {
                let row: Vec<Value> = [value.clone(), Value::Bool(true)][..columns.len()].to_vec();
                let bytes = encode(&columns, &row).ok()?;
                // As a tree keeps it, the row behind the key.
                Some((value.clone(), [bytes.as_slice(), &[0xFF; RowId::SIZE]].concat()))
            };
            let kept: Vec<_> = all.iter().filter_map(key).collect();
            assert!(kept.len() > 6 && kept.len() < all.len());
            let same = |range: &KeyRange, wanted: &dyn Fn(&Value) -> bool| {
                for (value, bytes) in &kept {
                    assert_eq!(range.contains(bytes), wanted(value), "{range:?} of {value:?}");
                }
                let len = range.low.len().max(range.high.as_ref().map_or(0, Vec::len));
                assert!(len <= MAX_ENCODED);
            };
            for bound in &all {
                let range = |range| prefix_range(&columns, &[], &range).unwrap();
                let equal = prefix_range(&columns, std::slice::from_ref(bound), &ColumnRange::All);
                same(&equal.unwrap(), &|value| value == bound);
                for (from, to) in [
                    (Bound::Included(bound), Bound::Unbounded),
                    (Bound::Excluded(bound), Bound::Unbounded),
                    (Bound::Unbounded, Bound::Included(bound)),
                    (Bound::Unbounded, Bound::Excluded(bound)),
                ] {
                    let between = ColumnRange::Between(from.cloned(), to.cloned());
                    same(&range(between), &|value| {
                        std::ops::RangeBounds::contains(&(from, to), value)
                    });
                }
                let Value::Text(start) = bound else { unreachable!("texts only") };
                let starts = ColumnRange::StartsWith(start.clone().into_bytes());
                same(
                    &range(starts),
                    &|value| matches!(value, Value::Text(text) if text.starts_with(start.as_str())),
                );
            }
        }
    }
}

#[test]
fn successor_skips_bytes_that_cannot_grow() {
    assert_eq!(successor(&[1, 0xFF, 0xFF]), Some(vec![2]));
    assert_eq!(successor(&[0xFF]), None);
    assert_eq!(successor(&[]), None);
    assert_eq!(KeyRange::starting_with(&[]), KeyRange::all());
}

/// Bytes from disk may be anything: decoding them ends with values or an error.
#[test]
fn damaged_keys_never_panic() {
    let mut rng = Rng::from_seed(10);
    for _ in 0..pairs() {
        let columns: Vec<_> = Type::ALL
            .into_iter()
            .map(|ty| {
                let (descending, nulls_first) = (rng.chance(1, 2), rng.chance(1, 2));
                KeyColumn { ty, descending, nulls_first, collation: None }
            })
            .collect();
        let mut bytes = vec![0; rng.index(24)];
        bytes.iter_mut().for_each(|byte| *byte = [0, 1, 2, 255, 65, 200][rng.index(6)]);
        let column = &columns[rng.index(columns.len())];
        if let Ok(values) = decode(std::slice::from_ref(column), &bytes) {
            let mut again = Vec::new();
            encode_column(&mut again, column, &values[0]);
            let canonical = is_reversible(column.ty);
            assert!(again == bytes || !canonical, "{column:?} {bytes:?} {again:?}");
        }
    }
    assert!(decode(&[KeyColumn::ascending(Type::Text)], &[1, 0xFF, 0]).is_err());
    assert!(decode(&[KeyColumn::ascending(Type::Bool)], &[1, 1, 1]).is_err());
}
