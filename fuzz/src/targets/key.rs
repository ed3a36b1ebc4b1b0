//! Keys: order of bytes is order of values, and bytes decode to what was encoded.

use std::cmp::Ordering;

use rightlink::Value;
use rightlink::internal::keycode::{
    ColumnRange, KeyColumn, decode, encode, is_reversible, prefix_range, successor,
};

use crate::input::Input;

/// A layout, two keys of it, and bytes that may or may not be a key.
pub fn target(data: &[u8]) {
    let mut input = Input(data);
    let columns: Vec<_> = (0..1 + input.below(4)).map(|_| column(&mut input)).collect();
    let mut values =
        || -> Vec<Value> { columns.iter().map(|column| input.value(column.ty)).collect() };
    let (a, b) = (values(), values());
    if let (Ok(key_a), Ok(key_b)) = (encode(&columns, &a), encode(&columns, &b)) {
        assert_eq!(key_a.cmp(&key_b), order(&columns, &a, &b), "{a:?} and {b:?} as {columns:?}");
        round_trip(&columns, &a, &key_a);
        round_trip(&columns, &b, &key_b);
        assert!(!key_a.starts_with(&key_b) || key_a == key_b, "keys are prefix-free");
        ranges(&columns, &a, &key_a);
    }
    if let Ok(values) = decode(&columns, input.0)
        && let Ok(key) = encode(&columns, &values)
    {
        assert_eq!(decode(&columns, &key).as_ref(), Ok(&values));
    }
}

fn column(input: &mut Input<'_>) -> KeyColumn {
    let order = input.byte();
    let (descending, nulls_first) = (order & 1 == 1, order & 2 == 2);
    KeyColumn { ty: input.kind(), descending, nulls_first, collation: None }
}

/// What the room's head promises, said once more without bytes.
fn order(columns: &[KeyColumn], a: &[Value], b: &[Value]) -> Ordering {
    let each =
        columns.iter().zip(a).zip(b).map(|((column, a), b)| match (a.is_null(), b.is_null()) {
            (true, true) => Ordering::Equal,
            (false, false) if column.descending => b.cmp(a),
            (false, false) => a.cmp(b),
            (null, _) => {
                if null == column.nulls_first {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
        });
    each.fold(Ordering::Equal, Ordering::then)
}

fn round_trip(columns: &[KeyColumn], values: &[Value], key: &[u8]) {
    let again = decode(columns, key).expect("an encoded key decodes");
    assert_eq!(again, values, "decoded values equal the encoded ones");
    for (value, again) in values.iter().zip(&again) {
        if value.type_of().is_some_and(is_reversible) {
            assert_eq!(format!("{value:?}"), format!("{again:?}"), "a reversible type");
        }
    }
}

/// Every range that a prefix of the key opens holds the key.
fn ranges(columns: &[KeyColumn], values: &[Value], key: &[u8]) {
    for count in 0..=values.len() {
        let range = prefix_range(columns, &values[..count], &ColumnRange::All);
        let range = range.expect("a prefix of an encodable key");
        assert!(range.contains(key) && !range.is_empty(), "{count} columns of {values:?}");
    }
    assert!(successor(key).is_none_or(|next| next.as_slice() > key));
}

/// A layout of each type with two close keys.
pub fn seeds() -> Vec<Vec<u8>> {
    let of_type = |kind: u8| {
        let pair = [&[1, 2, 3][..], &[kind; 20], &[1, 2, 3], &[0; 20]].concat();
        [&[0, kind % 4, kind][..], &pair].concat()
    };
    let mut seeds: Vec<_> = (0..12).map(of_type).collect();
    seeds.push(vec![2, 0, 6, 1, 7, 3, 3, 1, 3, 0, 1, 0, 1, 2, 1, 0, 0, 1, 2, 0, 1, 0, 1, 0]);
    seeds.push(vec![1, 0, 3, 2, 4, 0, 0, 1, 255, 255, 255, 255, 255, 255, 255, 127, 1, 1, 0, 0, 0]);
    seeds
}
