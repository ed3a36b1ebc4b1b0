//! Arrays: values of one type in up to six dimensions, as PostgreSQL's `arrayfuncs.c` has them.
//!
//! Elements lie one behind the other, the last dimension running fastest. An array without elements
//! has no dimensions.
//!
//! Invariants: lengths of the dimensions multiply to the number of elements; an element is null or
//! of the element type, and never an array. Elements of `char(n)` keep their blanks and compare
//! without them.
//! Does not do: text (`array_text`), functions (`expr::arrays`).

use std::cmp::Ordering;
use std::sync::Arc;

use rightlink::Value;

use crate::error::{Result, SqlError, code};
use crate::types::{CompositeType, Datum, EnumType, SqlType};

/// Most dimensions of an array.
pub(crate) const MAX_DIMENSIONS: usize = 6;
/// Most elements of an array.
const MAX_ELEMENTS: i64 = 134_217_727;

/// The type of the elements of an array: any type that a value can have, but no array.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ElementType(Element);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Element {
    /// A place in [`SqlType::ALL`].
    BuiltIn(u8),
    Enum(EnumType),
    Composite(CompositeType),
    Record,
}

/// The number of the type of arrays of rows without a name.
const RECORDS_OID: u32 = 2_287;

/// Names and OIDs of the types of arrays, in the order of [`SqlType::ALL`].
const ARRAY_TYPES: [(&str, &str, u32); SqlType::ALL.len()] = [
    ("boolean[]", "_bool", 1000),
    ("smallint[]", "_int2", 1005),
    ("integer[]", "_int4", 1007),
    ("bigint[]", "_int8", 1016),
    ("real[]", "_float4", 1021),
    ("double precision[]", "_float8", 1022),
    ("numeric[]", "_numeric", 1231),
    ("text[]", "_text", 1009),
    ("character[]", "_bpchar", 1014),
    ("bytea[]", "_bytea", 1001),
    ("uuid[]", "_uuid", 2951),
    ("date[]", "_date", 1182),
    ("timestamp without time zone[]", "_timestamp", 1115),
    ("timestamp with time zone[]", "_timestamptz", 1185),
    ("interval[]", "_interval", 1187),
    ("time without time zone[]", "_time", 1183),
    ("time with time zone[]", "_timetz", 1270),
    ("json[]", "_json", 199),
    ("jsonb[]", "_jsonb", 3807),
    ("jsonpath[]", "_jsonpath", 4073),
    ("inet[]", "_inet", 1041),
    ("cidr[]", "_cidr", 651),
    ("bit[]", "_bit", 1561),
    ("bit varying[]", "_varbit", 1563),
    ("pg_lsn[]", "_pg_lsn", 3221),
    ("tid[]", "_tid", 1010),
    ("oid[]", "_oid", 1028),
    ("name[]", "_name", 1003),
    ("\"char\"[]", "_char", 1002),
    ("regclass[]", "_regclass", 2210),
    ("regtype[]", "_regtype", 2211),
    ("regproc[]", "_regproc", 1008),
    ("regprocedure[]", "_regprocedure", 2207),
    ("regnamespace[]", "_regnamespace", 4090),
    ("regrole[]", "_regrole", 4097),
    ("regoperator[]", "_regoperator", 2209),
];

impl ElementType {
    /// Every element type that is there without being made.
    pub(crate) fn all() -> impl Iterator<Item = ElementType> {
        (0..SqlType::ALL.len()).map(|place| ElementType(Element::BuiltIn(place as u8)))
    }

    /// `ty` as the type of elements; `None` for arrays and literals without a type.
    pub fn of(ty: SqlType) -> Option<ElementType> {
        match ty {
            SqlType::Enum(ty) => return Some(ElementType(Element::Enum(ty))),
            SqlType::Composite(ty) => return Some(ElementType(Element::Composite(ty))),
            SqlType::Record => return Some(ElementType(Element::Record)),
            _ => {}
        }
        let place = SqlType::ALL.iter().position(|known| *known == ty)?;
        Some(ElementType(Element::BuiltIn(place as u8)))
    }

    /// The type of an element.
    pub const fn ty(self) -> SqlType {
        match self.0 {
            Element::BuiltIn(place) => SqlType::ALL[place as usize],
            Element::Enum(ty) => SqlType::Enum(ty),
            Element::Composite(ty) => SqlType::Composite(ty),
            Element::Record => SqlType::Record,
        }
    }

    pub(super) const fn array_name(self) -> &'static str {
        match self.0 {
            Element::BuiltIn(place) => ARRAY_TYPES[place as usize].0,
            Element::Enum(ty) => ty.shown_array(),
            Element::Composite(ty) => ty.shown_array(),
            Element::Record => "record[]",
        }
    }

    pub(super) const fn array_short_name(self) -> &'static str {
        match self.0 {
            Element::BuiltIn(place) => ARRAY_TYPES[place as usize].1,
            Element::Enum(ty) => ty.short_array(),
            Element::Composite(ty) => ty.short_array(),
            Element::Record => "_record",
        }
    }

    pub(super) const fn array_oid(self) -> u32 {
        match self.0 {
            Element::BuiltIn(place) => ARRAY_TYPES[place as usize].2,
            Element::Enum(ty) => ty.array_oid(),
            Element::Composite(ty) => ty.array_oid(),
            Element::Record => RECORDS_OID,
        }
    }
}

/// One dimension of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Subscript of the first element.
    pub lower: i32,
    /// Elements along the dimension.
    pub length: i32,
}

impl Dimension {
    /// Subscript of the last element.
    pub fn upper(self) -> i32 {
        self.lower + (self.length - 1)
    }
}

/// Values of one type in up to six dimensions.
#[derive(Clone, Debug)]
pub struct Array {
    element: ElementType,
    dimensions: Vec<Dimension>,
    values: Vec<Datum>,
    /// Bytes behind the elements.
    bytes: usize,
}

impl PartialEq for Array {
    fn eq(&self, other: &Array) -> bool {
        (self.element, &self.dimensions, &self.values)
            == (other.element, &other.dimensions, &other.values)
    }
}

impl Array {
    /// One without elements.
    pub fn empty(element: ElementType) -> Array {
        Array { element, dimensions: Vec::new(), values: Vec::new(), bytes: 0 }
    }

    /// One of one dimension, whose subscripts begin with 1.
    ///
    /// # Errors
    /// `54000` if there are more values than an array can have.
    pub fn of(element: ElementType, values: Vec<Datum>) -> Result<Array> {
        Array::from_first(element, 1, values)
    }

    /// One of one dimension, whose subscripts begin with `lower`.
    pub(crate) fn from_first(
        element: ElementType,
        lower: i32,
        values: Vec<Datum>,
    ) -> Result<Array> {
        let length = i32::try_from(values.len()).map_err(|_| too_large())?;
        Array::shaped(element, vec![Dimension { lower, length }], values)
    }

    /// Values in these dimensions, of which there are as many as there are values.
    ///
    /// # Errors
    /// `54000` if there are more values or larger subscripts than an array can have.
    pub fn shaped(
        element: ElementType,
        dimensions: Vec<Dimension>,
        values: Vec<Datum>,
    ) -> Result<Array> {
        let count = count(&dimensions)?;
        if count == 0 {
            return Ok(Array::empty(element));
        }
        debug_assert_eq!(count, values.len(), "dimensions and values agree");
        Ok(Array::made(element, dimensions, values))
    }

    fn made(element: ElementType, dimensions: Vec<Dimension>, values: Vec<Datum>) -> Array {
        let bytes = values.iter().map(Datum::heap_bytes).sum();
        Array { element, dimensions, values, bytes }
    }

    /// Puts an element behind the others of an array of at most one dimension.
    pub(crate) fn push(&mut self, value: Datum) -> Result<()> {
        match self.dimensions.as_mut_slice() {
            [] => self.dimensions.push(Dimension { lower: 1, length: 1 }),
            [one] => one.length += 1,
            _ => unreachable!("the caller has looked"),
        }
        if self.values.len() as i64 >= MAX_ELEMENTS {
            return Err(too_large());
        }
        self.bytes += value.heap_bytes();
        self.values.push(value);
        Ok(())
    }

    /// Takes a value in, as `array_agg` does: one of the element type, or an array, which becomes
    /// a part of one of one dimension more. Gives how many bytes that takes at most.
    pub(crate) fn gather(&mut self, value: Datum) -> Result<usize> {
        let bytes = 2 * (size_of::<Datum>() + value.heap_bytes());
        let Datum::Array(part) = value else { return self.push(value).map(|()| bytes) };
        let fail = |message| Err(SqlError::new(code::ARRAY_SUBSCRIPT, message));
        match self.dimensions.split_first_mut() {
            _ if part.dimensions.is_empty() => return fail("cannot accumulate empty arrays"),
            None => {
                if part.dimensions.len() >= MAX_DIMENSIONS {
                    return Err(too_many_dimensions(part.dimensions.len() + 1));
                }
                self.dimensions.push(Dimension { lower: 1, length: 1 });
                self.dimensions.extend_from_slice(&part.dimensions);
            }
            Some((first, inner)) if *inner == *part.dimensions => first.length += 1,
            Some(_) => return fail("cannot accumulate arrays of different dimensionality"),
        }
        if self.values.len() + part.values.len() > MAX_ELEMENTS as usize {
            return Err(too_large());
        }
        self.bytes += part.bytes;
        self.values.extend_from_slice(&part.values);
        Ok(bytes)
    }

    /// Type of the elements.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// The dimensions; none if there are no elements.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// The elements, the last dimension running fastest.
    pub fn values(&self) -> &[Datum] {
        &self.values
    }

    /// The same dimensions with other elements of type `element`, each made by `change`.
    pub(crate) fn mapped(
        &self,
        element: ElementType,
        change: impl FnMut(&Datum) -> Result<Datum>,
    ) -> Result<Array> {
        let values = self.values.iter().map(change).collect::<Result<_>>()?;
        Ok(Array::made(element, self.dimensions.clone(), values))
    }

    /// The place of the element with these subscripts, one for each dimension.
    pub(crate) fn place(&self, subscripts: &[i32]) -> Option<usize> {
        if subscripts.len() != self.dimensions.len() || subscripts.is_empty() {
            return None;
        }
        let mut place = 0;
        for (dimension, subscript) in self.dimensions.iter().zip(subscripts) {
            let offset = i64::from(*subscript) - i64::from(dimension.lower);
            if !(0..i64::from(dimension.length)).contains(&offset) {
                return None;
            }
            place = place * dimension.length as usize + offset as usize;
        }
        Some(place)
    }

    /// Bytes behind the value.
    pub(crate) fn heap_bytes(&self) -> usize {
        let own = size_of::<Array>() + 2 * size_of::<usize>();
        let lists = self.dimensions.capacity() * size_of::<Dimension>()
            + self.values.capacity() * size_of::<Datum>();
        own + lists + self.bytes
    }

    /// PostgreSQL's order of a btree: elements first, nulls behind all others; then the number of
    /// elements, the number of dimensions, their lengths and their lower bounds.
    pub(crate) fn compare(&self, other: &Array) -> Ordering {
        let pairs = self.values.iter().zip(&other.values);
        let differing = pairs.map(|(a, b)| self.compare_elements(a, b)).find(|found| found.is_ne());
        let lengths = |array: &Array| array.dimensions.iter().map(|d| d.length).collect::<Vec<_>>();
        let lowers = |array: &Array| array.dimensions.iter().map(|d| d.lower).collect::<Vec<_>>();
        differing.unwrap_or_else(|| {
            let size = self.values.len().cmp(&other.values.len());
            size.then_with(|| self.dimensions.len().cmp(&other.dimensions.len()))
                .then_with(|| lengths(self).cmp(&lengths(other)))
                .then_with(|| lowers(self).cmp(&lowers(other)))
        })
    }

    /// Order of two elements, nulls last.
    pub(crate) fn compare_elements(&self, a: &Datum, b: &Datum) -> Ordering {
        match (a, b) {
            (Datum::Text(a), Datum::Text(b)) if self.element.ty() == SqlType::Bpchar => {
                a.trim_end_matches(' ').as_bytes().cmp(b.trim_end_matches(' ').as_bytes())
            }
            _ => a.compare(b),
        }
    }
}

impl From<Array> for Datum {
    fn from(array: Array) -> Datum {
        Datum::Array(Arc::new(array))
    }
}

/// Elements that dimensions have room for.
///
/// # Errors
/// `54000` if there are too many, or a subscript does not fit an integer.
pub(crate) fn count(dimensions: &[Dimension]) -> Result<usize> {
    if dimensions.len() > MAX_DIMENSIONS {
        return Err(too_many_dimensions(dimensions.len()));
    }
    let mut count = i64::from(!dimensions.is_empty());
    for dimension in dimensions {
        count = match dimension.length {
            ..0 => return Err(too_large()),
            length => count * i64::from(length),
        };
        if count > MAX_ELEMENTS {
            return Err(too_large());
        }
    }
    for dimension in dimensions {
        if dimension.lower.checked_add(dimension.length).is_none() {
            let message = format!("array lower bound is too large: {}", dimension.lower);
            return Err(SqlError::new(code::PROGRAM_LIMIT, message));
        }
    }
    Ok(count as usize)
}

pub(crate) fn too_large() -> SqlError {
    let message = format!("array size exceeds the maximum allowed ({MAX_ELEMENTS})");
    SqlError::new(code::PROGRAM_LIMIT, message)
}

/// The error for a type that no array has for its elements.
pub(crate) fn no_array_of(name: &str) -> SqlError {
    let message = format!("could not find array type for data type {name}");
    SqlError::new(code::UNDEFINED_OBJECT, message)
}

pub(crate) fn null_array() -> SqlError {
    SqlError::new(code::NULL_NOT_ALLOWED, "cannot accumulate null arrays")
}

pub(crate) fn too_many_dimensions(count: usize) -> SqlError {
    let message = format!(
        "number of array dimensions ({count}) exceeds the maximum allowed ({MAX_DIMENSIONS})"
    );
    SqlError::new(code::PROGRAM_LIMIT, message)
}

/// The bytes that the store keeps for an array: of labels of an enum it keeps the codes, of rows
/// what it keeps for each.
pub(super) fn to_stored(array: &Array) -> Vec<u8> {
    if !matches!(array.element.ty(), SqlType::Enum(_) | SqlType::Composite(_)) {
        return to_binary(array);
    }
    let stored = |value: &Datum| match value.clone().into_value() {
        Some(Value::Bytes(bytes)) => Datum::Bytes(bytes),
        _ => Datum::Null,
    };
    let all = array.values.iter().map(stored).collect();
    to_binary(&Array::made(bytes(), array.dimensions.clone(), all))
}

/// The array for which the store keeps these bytes.
pub(super) fn from_stored(element: ElementType, stored: &[u8]) -> Result<Array> {
    let ty = element.ty();
    if !matches!(ty, SqlType::Enum(_) | SqlType::Composite(_)) {
        return from_binary(element, stored);
    }
    from_binary(bytes(), stored)?.mapped(element, |value| match value {
        Datum::Bytes(own) => Datum::stored(Value::Bytes(own.clone()), ty),
        other => Ok(other.clone()),
    })
}

fn bytes() -> ElementType {
    ElementType::of(SqlType::Bytea).expect("bytes are elements")
}

/// Reads an array as PostgreSQL's binary formats have it.
///
/// # Errors
/// Bytes that are none: `22P03`, and `42804` where the elements are of another type.
pub(super) fn from_binary(element: ElementType, bytes: &[u8]) -> Result<Array> {
    let mut rest = bytes;
    let count = word(&mut rest)?;
    if !(0..=MAX_DIMENSIONS as i32).contains(&count) {
        return Err(match count {
            ..0 => invalid(format!("invalid number of dimensions: {count}")),
            count => too_many_dimensions(count as usize),
        });
    }
    if !matches!(word(&mut rest)?, 0 | 1) {
        return Err(invalid("invalid array flags".to_owned()));
    }
    let oid = word(&mut rest)? as u32;
    if oid != element.ty().oid() && SqlType::from_oid(oid) != Some(element.ty()) {
        let (own, wanted) = (SqlType::name_of(oid).unwrap_or("???"), element.ty());
        let message = format!(
            "binary data has array element type {oid} ({own}) instead of expected {} ({})",
            wanted.oid(),
            wanted.name()
        );
        return Err(SqlError::new(code::DATATYPE_MISMATCH, message));
    }
    let mut dimensions = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let (length, lower) = (word(&mut rest)?, word(&mut rest)?);
        dimensions.push(Dimension { lower, length });
    }
    let count = self::count(&dimensions)?;
    // Each element has at least its length.
    if count > rest.len() / size_of::<i32>() {
        return Err(cut_off());
    }
    let mut values = Vec::with_capacity(count);
    for at in 1..=count {
        values.push(match word(&mut rest)? {
            -1 => Datum::Null,
            length => {
                let length = usize::try_from(length).ok().filter(|length| *length <= rest.len());
                let (value, behind) = rest.split_at(length.ok_or_else(cut_off)?);
                rest = behind;
                // Elements of `char(n)` keep their blanks.
                let ty = if element.ty() == SqlType::Bpchar { SqlType::Text } else { element.ty() };
                Datum::from_binary(ty, value).map_err(|error| match error.sqlstate {
                    code::INVALID_BINARY => {
                        invalid(format!("improper binary format in array element {at}"))
                    }
                    _ => error,
                })?
            }
        });
    }
    match rest.is_empty() {
        true => Array::shaped(element, dimensions, values),
        false => Err(invalid("incorrect binary data format".to_owned())),
    }
}

/// The array as PostgreSQL's binary formats have it.
pub(super) fn to_binary(array: &Array) -> Vec<u8> {
    let mut out = Vec::with_capacity(12 + 8 * array.dimensions.len() + 8 * array.values.len());
    let has_nulls = array.values.iter().any(Datum::is_null);
    out.extend((array.dimensions.len() as i32).to_be_bytes());
    out.extend(i32::from(has_nulls).to_be_bytes());
    out.extend(array.element.ty().oid().to_be_bytes());
    for dimension in &array.dimensions {
        out.extend(dimension.length.to_be_bytes());
        out.extend(dimension.lower.to_be_bytes());
    }
    for value in &array.values {
        match value.to_binary() {
            None => out.extend((-1i32).to_be_bytes()),
            Some(bytes) => {
                out.extend((bytes.len() as i32).to_be_bytes());
                out.extend(bytes);
            }
        }
    }
    out
}

fn word(rest: &mut &[u8]) -> Result<i32> {
    let (first, behind) = rest.split_first_chunk::<4>().ok_or_else(cut_off)?;
    *rest = behind;
    Ok(i32::from_be_bytes(*first))
}

fn invalid(message: String) -> SqlError {
    SqlError::new(code::INVALID_BINARY, message)
}

fn cut_off() -> SqlError {
    SqlError::new(code::PROTOCOL_VIOLATION, "insufficient data left in message")
}
