//! Some keys out of an index: those in a list of ranges, or those whose columns meet conditions.
//!
//! A scan asks of each key it meets whether it is wanted, and if not, where the next wanted one can
//! be at the earliest (or, scanning backward, before which bound at the latest). From key `(a, b)`
//! with a condition on `b` that is `(a, first wanted b)`, or the first key after all keys with
//! this `a`. The keys in between are skipped, however many rows they have.
//!
//! Invariants: the bound that is named lies beyond the key in the direction of the scan, and no
//! wanted key lies in between. Keys come from disk and are not trusted.
//! Does not do: know when skipping pays (the access method).

use std::ops::Bound;

use super::KeyColumn;
use super::decode::{Malformed, column_len};
use super::encode::encode_column;
use super::key_range::{KeyRange, successor};
use super::range::{ColumnRange, prefix_range};
use crate::datum::Value;
use crate::error::Result;

/// Order in which a scan hands over entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Direction {
    /// Ascending.
    #[default]
    Forward,
    /// Descending.
    Backward,
}

/// Condition on a key column: see [`ScanOptions::matching`](crate::ScanOptions::matching).
///
/// ```
/// use rightlink::{Condition, ScanOptions, Value};
/// let days = Condition::Equal(Value::Int4(20_000));
/// let sales = ScanOptions::index("by_shop_day").matching("day", days);
/// assert_eq!(sales.conditions[0].0, "day");
/// ```
#[derive(Clone, PartialEq, Debug)]
pub enum Condition {
    /// Equal to this value. A null matches a null.
    Equal(Value),
    /// Equal to one of these values. A null matches a null.
    AnyOf(Vec<Value>),
    /// Between two values, the smaller one first whatever the order of the index. Nulls do not
    /// match.
    Between(Bound<Value>, Bound<Value>),
    /// Text or bytes that begin with these bytes.
    StartsWith(Vec<u8>),
}

/// Where a key stands to a [`KeySet`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It is wanted.
    Inside,
    /// It is not, nor is any key before the bound that was left.
    Beyond,
    /// It is not, nor is any key after it.
    Ended,
}

/// Keys that a scan wants: never none of all possible ones.
#[derive(Clone, Debug)]
pub struct KeySet(Kind);

#[derive(Clone, Debug)]
enum Kind {
    /// In one of these, which ascend and do not touch.
    Ranges(Vec<KeyRange>),
    /// The first columns of the key, up to the last one with a condition.
    Columns(Vec<Column>),
}

/// A column and the ranges of its bytes that are wanted.
#[derive(Clone, Debug)]
struct Column {
    column: KeyColumn,
    /// `None`: any. They ascend, and each has an end: no column begins with `FF`.
    ranges: Option<Vec<KeyRange>>,
    /// Is each range one whole value, so that its low end can be followed by the next column?
    points: bool,
}

/// The wanted ranges of a column's bytes, ascending and disjoint.
fn ranges_of(column: &KeyColumn, condition: &Condition) -> Result<Vec<KeyRange>> {
    let point = |value: &Value| {
        let mut bytes = Vec::new();
        encode_column(&mut bytes, column, value);
        KeyRange::starting_with(&bytes)
    };
    let between = |low: &Bound<Value>, high: &Bound<Value>| {
        let range = ColumnRange::Between(low.clone(), high.clone());
        prefix_range(std::slice::from_ref(column), &[], &range)
    };
    let mut ranges = match condition {
        Condition::Equal(value) => vec![point(value)],
        Condition::AnyOf(values) => values.iter().map(point).collect(),
        Condition::Between(low, high) => vec![between(low, high)?],
        Condition::StartsWith(start) => {
            vec![prefix_range(
                std::slice::from_ref(column),
                &[],
                &ColumnRange::StartsWith(start.clone()),
            )?]
        }
    };
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by(|a, b| a.low.cmp(&b.low));
    ranges.dedup();
    assert!(ranges.iter().all(|range| range.high.is_some()), "a column's bytes never open with FF");
    Ok(ranges)
}

impl Column {
    fn new(column: &KeyColumn, condition: Option<&Condition>) -> Result<Column> {
        let ranges = condition.map(|condition| ranges_of(column, condition)).transpose()?;
        let points = matches!(condition, Some(Condition::Equal(_) | Condition::AnyOf(_)));
        Ok(Column { column: column.clone(), ranges, points })
    }
}

/// The end of a range that has one.
fn end(range: &KeyRange) -> &[u8] {
    range.high.as_deref().expect("a column's bytes never open with FF")
}

/// A place where a walk that found nothing can go on, the key before it kept.
#[derive(Clone, Copy)]
enum Detour {
    /// Beyond all keys with this many bytes of the key.
    Past(usize),
    /// After this many bytes of the key, in this range of this column.
    Into { len: usize, column: usize, range: usize },
}

impl KeySet {
    /// The keys in `ranges`, which ascend and are disjoint. `None`: there is no such key.
    pub fn of_ranges(mut ranges: Vec<KeyRange>) -> Option<KeySet> {
        ranges.retain(|range| !range.is_empty());
        let apart = |a: &KeyRange, b: &KeyRange| a.high.as_ref().is_some_and(|end| *end <= b.low);
        assert!(ranges.is_sorted_by(apart), "ranges ascend and are disjoint");
        (!ranges.is_empty()).then_some(KeySet(Kind::Ranges(ranges)))
    }

    /// The keys of an index of `columns` that meet the conditions, at most one for each column, in
    /// any order of their places. `None`: there is no such key.
    pub fn of_conditions(
        columns: &[KeyColumn],
        conditions: &[(usize, Condition)],
    ) -> Result<Option<KeySet>> {
        let last = conditions.iter().map(|(at, _)| *at + 1).max().unwrap_or(0);
        assert!(last <= columns.len(), "conditions are on key columns");
        let condition = |at: usize| conditions.iter().find(|(on, _)| *on == at).map(|(_, c)| c);
        let columns = columns[..last].iter().enumerate();
        let columns = columns.map(|(at, column)| Column::new(column, condition(at)));
        let columns = columns.collect::<Result<Vec<Column>>>()?;
        let empty = |column: &Column| column.ranges.as_ref().is_some_and(Vec::is_empty);
        Ok((!columns.iter().any(empty)).then_some(KeySet(Kind::Columns(columns))))
    }

    /// The ranges, if it is a list of them.
    pub fn ranges(&self) -> Option<&[KeyRange]> {
        match &self.0 {
            Kind::Ranges(ranges) => Some(ranges),
            Kind::Columns(_) => None,
        }
    }

    /// A range that contains all keys.
    pub fn hull(&self) -> KeyRange {
        let (mut low, mut high) = (Vec::new(), Vec::new());
        match &self.0 {
            Kind::Ranges(ranges) => {
                let (first, last) = (&ranges[0], &ranges[ranges.len() - 1]);
                return KeyRange { low: first.low.clone(), high: last.high.clone() };
            }
            Kind::Columns(columns) => {
                push_lows(columns, 0, &mut low);
                push_highs(columns, None, &mut high);
            }
        }
        KeyRange { low, high: (!high.is_empty()).then_some(high) }
    }

    /// Where `key` stands for a scan in this direction. [`Standing::Beyond`] leaves in `bound` the
    /// first byte string that may be wanted or, backward, one below which all keys are that may
    /// still be wanted.
    pub fn standing(
        &self,
        key: &[u8],
        direction: Direction,
        bound: &mut Vec<u8>,
    ) -> std::result::Result<Standing, Malformed> {
        let columns = match &self.0 {
            Kind::Columns(columns) => columns,
            Kind::Ranges(ranges) => return Ok(standing_in(ranges, key, direction, bound)),
        };
        let (mut start, mut detour) = (0, None);
        for (i, column) in columns.iter().enumerate() {
            let len = column_len(&column.column, &key[start..])?;
            let Some(ranges) = &column.ranges else {
                start += len;
                detour = Some(Detour::Past(start));
                continue;
            };
            let place = place_among(ranges, &key[start..start + len], direction);
            let into = place.ahead.map(|at| Detour::Into { len: start, column: i, range: at });
            if !place.is_inside {
                return Ok(take_detour(columns, key, into.or(detour), direction, bound));
            }
            if !column.points && place.has_rest {
                detour = Some(Detour::Past(start + len));
            } else {
                detour = into.or(detour);
            }
            start += len;
        }
        Ok(Standing::Inside)
    }
}

/// Where the bytes of a column are among its wanted ranges, for a scan in one direction.
struct ColumnPlace {
    /// In a wanted range.
    is_inside: bool,
    /// More values of that range lie ahead.
    has_rest: bool,
    /// The next range ahead.
    ahead: Option<usize>,
}

fn place_among(ranges: &[KeyRange], bytes: &[u8], direction: Direction) -> ColumnPlace {
    match direction {
        Direction::Forward => {
            let at = ranges.partition_point(|range| end(range) <= bytes);
            let here = ranges.get(at).filter(|range| range.low.as_slice() <= bytes);
            let rest = |range| successor(bytes).is_some_and(|next| *next < *end(range));
            let next = at + usize::from(here.is_some());
            ColumnPlace {
                is_inside: here.is_some(),
                has_rest: here.is_some_and(rest),
                ahead: (next < ranges.len()).then_some(next),
            }
        }
        Direction::Backward => {
            let begun = ranges.partition_point(|range| range.low.as_slice() <= bytes);
            let before = begun.checked_sub(1);
            let here = before.map(|at| &ranges[at]).filter(|range| bytes < end(range));
            ColumnPlace {
                is_inside: here.is_some(),
                has_rest: here.is_some_and(|range| *bytes > *range.low),
                ahead: if here.is_some() { begun.checked_sub(2) } else { before },
            }
        }
    }
}

/// Where `key` stands among ranges of whole keys.
fn standing_in(
    ranges: &[KeyRange],
    key: &[u8],
    direction: Direction,
    bound: &mut Vec<u8>,
) -> Standing {
    let passed = |range: &KeyRange| range.high.as_deref().is_some_and(|end| end <= key);
    let begun = |range: &KeyRange| range.low.as_slice() <= key;
    let next = match direction {
        Direction::Forward => ranges.get(ranges.partition_point(passed)),
        Direction::Backward => ranges[..ranges.partition_point(begun)].last(),
    };
    let Some(range) = next else { return Standing::Ended };
    if range.contains(key) {
        return Standing::Inside;
    }
    let near = match direction {
        Direction::Forward => Some(&range.low),
        Direction::Backward => range.high.as_ref(),
    };
    bound.clone_from(near.expect("a range without an end contains what is above its low"));
    Standing::Beyond
}

/// Leaves in `bound` where the next wanted key may be.
fn take_detour(
    columns: &[Column],
    key: &[u8],
    detour: Option<Detour>,
    direction: Direction,
    bound: &mut Vec<u8>,
) -> Standing {
    bound.clear();
    match detour {
        None => return Standing::Ended,
        Some(Detour::Past(len)) if direction == Direction::Forward => {
            let Some(next) = successor(&key[..len]) else { return Standing::Ended };
            *bound = next;
        }
        Some(Detour::Past(len)) => bound.extend_from_slice(&key[..len]),
        Some(Detour::Into { len, column, range }) => {
            bound.extend_from_slice(&key[..len]);
            match direction {
                Direction::Forward => push_lows(&columns[column..], range, bound),
                Direction::Backward => push_highs(&columns[column..], Some(range), bound),
            }
        }
    }
    debug_assert_eq!(bound.as_slice() > key, direction == Direction::Forward, "a scan goes on");
    Standing::Beyond
}

/// Appends the first bytes that are wanted in these columns, in this range of the first of them.
fn push_lows(columns: &[Column], mut range: usize, out: &mut Vec<u8>) {
    for column in columns {
        let Some(ranges) = &column.ranges else { return };
        out.extend_from_slice(&ranges[range].low);
        if !column.points {
            return;
        }
        range = 0;
    }
}

/// Appends a bound above all that is wanted in these columns, in this range of the first of them
/// (`None`: the last one).
fn push_highs(columns: &[Column], mut range: Option<usize>, out: &mut Vec<u8>) {
    for (i, column) in columns.iter().enumerate() {
        let Some(ranges) = &column.ranges else { return };
        let one = &ranges[range.unwrap_or(ranges.len() - 1)];
        let goes_on = columns.get(i + 1).is_some_and(|next| next.ranges.is_some());
        if !column.points || !goes_on {
            out.extend_from_slice(end(one));
            return;
        }
        out.extend_from_slice(&one.low);
        range = None;
    }
}

#[cfg(test)]
impl KeySet {
    /// Is `key` wanted?
    pub(crate) fn contains(&self, key: &[u8]) -> std::result::Result<bool, Malformed> {
        Ok(self.standing(key, Direction::Forward, &mut Vec::new())? == Standing::Inside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datum::Type;
    use crate::keycode::encode;
    use rightlink_env::Rng;

    fn value(rng: &mut Rng, ty: Type) -> Value {
        match ty {
            _ if rng.chance(1, 6) => Value::Null,
            Type::Int2 => Value::Int2(*rng.pick(&[-1, 0, 1, 2, 3, i16::MAX]).unwrap()),
            Type::Text => {
                Value::Text((*rng.pick(&["", "a", "ab", "b", "b\0", "c"]).unwrap()).into())
            }
            _ => Value::Bool(rng.chance(1, 2)),
        }
    }

    fn condition(rng: &mut Rng, ty: Type) -> Condition {
        let bound = |rng: &mut Rng| match (rng.below(3), value(rng, ty)) {
            (0, _) | (_, Value::Null) => Bound::Unbounded,
            (1, value) => Bound::Included(value),
            (_, value) => Bound::Excluded(value),
        };
        match rng.below(4) {
            0 => Condition::Equal(value(rng, ty)),
            1 => Condition::AnyOf((0..rng.index(4)).map(|_| value(rng, ty)).collect()),
            2 if ty == Type::Text => Condition::StartsWith(b"b".to_vec()),
            _ => Condition::Between(bound(rng), bound(rng)),
        }
    }

    /// By values, not by bytes.
    fn meets(value: &Value, condition: &Condition) -> bool {
        match (condition, value) {
            (Condition::Equal(wanted), _) => value == wanted,
            (Condition::AnyOf(wanted), _) => wanted.contains(value),
            (_, Value::Null) => false,
            (Condition::Between(low, high), _) => {
                std::ops::RangeBounds::contains(&(low.as_ref(), high.as_ref()), value)
            }
            (Condition::StartsWith(start), Value::Text(text)) => text.as_bytes().starts_with(start),
            (Condition::StartsWith(_), other) => panic!("{other:?} has no beginning"),
        }
    }

    /// Under any conditions, no wanted key is skipped, and skipping visits few keys.
    #[test]
    fn what_is_skipped_was_not_wanted() {
        let mut rng = Rng::from_seed(1);
        let (mut inside, mut ended) = (0, 0);
        for _ in 0..600 {
            let types: Vec<Type> = (0..1 + rng.index(3))
                .map(|_| *rng.pick(&[Type::Int2, Type::Text, Type::Bool]).unwrap())
                .collect();
            let column = |ty: &Type| KeyColumn {
                ty: *ty,
                descending: rng.chance(1, 2),
                nulls_first: rng.chance(1, 2),
                collation: None,
            };
            let columns: Vec<KeyColumn> = types.iter().map(column).collect();
            let places: Vec<usize> = (0..types.len()).filter(|_| rng.chance(2, 3)).collect();
            let conditions = places.into_iter().map(|at| (at, condition(&mut rng, types[at])));
            let conditions: Vec<(usize, Condition)> = conditions.collect();
            let mut keys: Vec<(Vec<u8>, bool)> = (0..60)
                .map(|_| {
                    let row: Vec<_> = types.iter().map(|ty| value(&mut rng, *ty)).collect();
                    let wanted = conditions.iter().all(|(at, one)| meets(&row[*at], one));
                    (encode(&columns, &row).unwrap(), wanted)
                })
                .collect();
            keys.sort();
            keys.dedup();
            let Some(set) = KeySet::of_conditions(&columns, &conditions).unwrap() else {
                assert!(keys.iter().all(|(_, wanted)| !wanted), "{conditions:?}");
                continue;
            };
            let mut bound = Vec::new();
            for (key, wanted) in &keys {
                assert_eq!(set.contains(key).unwrap(), *wanted, "{conditions:?}");
                assert!(!wanted || set.hull().contains(key), "{conditions:?}");
                inside += usize::from(*wanted);
                let between = |(k, wanted): &(Vec<u8>, bool), low: &[u8], high: Option<&[u8]>| {
                    *wanted && k.as_slice() > low && high.is_none_or(|high| k.as_slice() < high)
                };
                match set.standing(key, Direction::Forward, &mut bound).unwrap() {
                    Standing::Inside => assert!(wanted),
                    Standing::Beyond => {
                        assert!(bound > *key && !wanted);
                        assert!(!keys.iter().any(|k| between(k, key, Some(&bound))));
                    }
                    Standing::Ended => {
                        ended += 1;
                        assert!(!wanted && !keys.iter().any(|k| between(k, key, None)));
                    }
                }
                match set.standing(key, Direction::Backward, &mut bound).unwrap() {
                    Standing::Inside => assert!(wanted),
                    Standing::Beyond => {
                        assert!(bound <= *key && !wanted);
                        let missed = |(k, wanted): &(Vec<u8>, bool)| *wanted && *k >= bound;
                        assert!(!keys.iter().any(|k| missed(k) && k.0 < *key), "{conditions:?}");
                    }
                    Standing::Ended => {
                        assert!(!wanted && !keys.iter().any(|(k, wanted)| *wanted && k < key));
                    }
                }
            }
        }
        assert!(inside > 1000 && ended > 100, "{inside} {ended}");
    }

    /// A condition on the second column names the place within the first one at once.
    #[test]
    fn bounds_are_as_far_as_they_can_be() {
        let columns = [KeyColumn::ascending(Type::Int2), KeyColumn::descending(Type::Int2)];
        let key = |a: i16, b: i16| encode(&columns, &[Value::Int2(a), Value::Int2(b)]).unwrap();
        let five = [(1, Condition::Equal(Value::Int2(5)))];
        let set = KeySet::of_conditions(&columns, &five).unwrap().unwrap();
        let mut bound = Vec::new();
        assert_eq!(set.standing(&key(1, 9), Direction::Forward, &mut bound), Ok(Standing::Beyond));
        assert_eq!(bound, key(1, 5));
        assert_eq!(set.standing(&key(1, 4), Direction::Forward, &mut bound), Ok(Standing::Beyond));
        assert_eq!(bound, key(2, 0)[..3], "whatever comes after 1");
        assert_eq!(set.standing(&key(1, 4), Direction::Backward, &mut bound), Ok(Standing::Beyond));
        assert_eq!(Some(bound.clone()), successor(&key(1, 5)));
        assert_eq!(set.standing(&key(1, 9), Direction::Backward, &mut bound), Ok(Standing::Beyond));
        assert_eq!(bound, key(1, 0)[..3], "below all of 1");
        let both = [(0, Condition::AnyOf(vec![Value::Int2(3), Value::Int2(7)])), five[0].clone()];
        let set = KeySet::of_conditions(&columns, &both).unwrap().unwrap();
        assert_eq!(set.hull(), KeyRange { low: key(3, 5), high: successor(&key(7, 5)) });
        assert_eq!(set.standing(&key(3, 4), Direction::Forward, &mut bound), Ok(Standing::Beyond));
        assert_eq!(bound, key(7, 5), "the next value, and at once its place");
        assert_eq!(set.standing(&key(7, 4), Direction::Forward, &mut bound), Ok(Standing::Ended));
        assert_eq!(set.standing(&key(7, 6), Direction::Backward, &mut bound), Ok(Standing::Beyond));
        assert_eq!(Some(bound.clone()), successor(&key(3, 5)));
    }

    /// Keys from disk may be anything.
    #[test]
    fn strange_keys_are_refused() {
        let columns = [KeyColumn::ascending(Type::Text), KeyColumn::ascending(Type::Int8)];
        let conditions = [(1, Condition::Equal(Value::Int8(5)))];
        let set = KeySet::of_conditions(&columns, &conditions).unwrap().unwrap();
        for bytes in [&b""[..], b"\x05", b"\x01abc", b"\x01abc\0", b"\x01abc\0\x01\0"] {
            assert!(set.standing(bytes, Direction::Forward, &mut Vec::new()).is_err(), "{bytes:?}");
            assert!(
                set.standing(bytes, Direction::Backward, &mut Vec::new()).is_err(),
                "{bytes:?}"
            );
        }
    }
}
