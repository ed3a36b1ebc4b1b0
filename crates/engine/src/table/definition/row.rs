//! Rows as bytes: what the heap stores without looking inside.
//!
//! | bytes | what |
//! |---|---|
//! | 2 | number of columns in bits 0 to 13; bit 14: a bitmap of long values follows, 15: of nulls |
//! | (n + 7) / 8 | null bitmap, bit set: the column is null and has no bytes below |
//! | (n + 7) / 8 | bitmap of long values, bit set: 16 bytes below name pages of overflow |
//! | per column | fixed types little-endian; text and bytes: length as LEB128, then the bytes |
//!
//! Invariants: a row says how many columns it has; those a definition has beyond that read as their
//! `missing` value, those a row has beyond the definition are not looked at. Dropped columns are
//! null in new rows and skipped in old ones. Bytes come from disk and are not trusted: reading them
//! ends with values or [`Malformed`], and nothing is allocated beyond their length.
//! Does not do: reading and writing of overflow pages (`long`).

use crate::config::{MAX_COLUMNS, MAX_ROW_BYTES};
use crate::datum::{Decimal, Interval, Type, Value};
use crate::error::{Error, Result};
use crate::heap::TUPLE_HEADER;
use crate::heap::overflow::OverflowPointer;
pub use crate::keycode::Malformed;

use super::row_visitor::RowVisitor;
use super::schema::{Column, ColumnNo, TableDef};

const HAS_NULLS: u16 = 1 << 15;
const HAS_STORED: u16 = 1 << 14;
const HEADER: usize = 2;
/// Longest row; the heap adds its header.
const MAX_ENCODED: usize = MAX_ROW_BYTES - TUPLE_HEADER;
/// A value that is longer does not stay in its row, if it need not.
const LONG: usize = crate::config::PAGE_SIZE / 4;
const _: () = assert!(MAX_COLUMNS < HAS_STORED as usize, "the column count fits 14 bits");

/// A column on its way into a row.
enum Cell<'v> {
    Here(&'v Value),
    There(OverflowPointer),
}

/// A column of a stored row.
#[derive(Clone, Copy)]
enum Found<'a> {
    Null,
    Bytes(Type, &'a [u8]),
    Stored(OverflowPointer),
    /// Nothing: the row is older than the column, whose value this is.
    Missing(&'a Value),
}

impl Found<'_> {
    /// The value; `load` gives one that is in overflow pages.
    #[inline]
    fn value(self, column: ColumnNo, load: Load<'_>) -> std::result::Result<Value, ReadError> {
        match self {
            Found::Null => Ok(Value::Null),
            Found::Bytes(ty, bytes) => Ok(value_of(ty, bytes)?),
            Found::Stored(stored) => load(column, stored),
            Found::Missing(value) => Ok(value.clone()),
        }
    }
}

/// Why a row could not be read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// Its bytes are no row.
    Malformed(Malformed),
    /// A long value could not be loaded.
    Failed(Error),
}

impl From<Malformed> for ReadError {
    fn from(what: Malformed) -> Self {
        ReadError::Malformed(what)
    }
}

/// Gives a long value of a column.
pub(crate) type Load<'l> =
    &'l mut dyn FnMut(ColumnNo, OverflowPointer) -> std::result::Result<Value, ReadError>;

/// Encodes a row given by a caller: one value per live column, checked already.
pub fn encode(def: &TableDef, values: &[Value]) -> Result<Vec<u8>> {
    encode_with(def, values, &[])
}

/// The same; the values at the places in `stored` are in overflow pages.
pub(crate) fn encode_with(
    def: &TableDef,
    values: &[Value],
    stored: &[(usize, OverflowPointer)],
) -> Result<Vec<u8>> {
    let count = def.columns.len();
    let cells = || cells(def, values, stored);
    let null = |cell: Cell<'_>| matches!(cell, Cell::Here(Value::Null));
    let there = |cell: Cell<'_>| matches!(cell, Cell::There(_));
    let mut out = Vec::with_capacity(HEADER + count * 9);
    let flag = |set: bool, flag: u16| if set { flag } else { 0 };
    let nulls = flag(cells().any(null), HAS_NULLS);
    let flags = nulls | flag(cells().any(there), HAS_STORED);
    out.extend_from_slice(&(count as u16 | flags).to_le_bytes());
    if flags & HAS_NULLS != 0 {
        push_bitmap(&mut out, cells().map(null));
    }
    if flags & HAS_STORED != 0 {
        push_bitmap(&mut out, cells().map(there));
    }
    for cell in cells() {
        match cell {
            Cell::Here(value) => push_value(&mut out, value),
            Cell::There(stored) => out.extend_from_slice(&stored.to_bytes()),
        }
    }
    if out.len() > MAX_ENCODED {
        let (len, table) = (out.len(), &def.name);
        let what =
            format!("row of {len} bytes for table {table}; at most {MAX_ENCODED} fit a page");
        return Err(Error::RowTooLarge(what));
    }
    Ok(out)
}

/// What each column of a row holds, dropped ones included.
fn cells<'r>(
    def: &'r TableDef,
    values: &'r [Value],
    stored: &'r [(usize, OverflowPointer)],
) -> impl ExactSizeIterator<Item = Cell<'r>> {
    let (mut given, mut computed) = (0.., def.given()..);
    def.columns.iter().map(move |column| {
        if column.dropped {
            return Cell::Here(&Value::Null);
        }
        let places = if column.computed { &mut computed } else { &mut given };
        let place = places.next().expect("places have no end");
        let value = &values[place];
        let found = stored.iter().find(|(known, _)| *known == place);
        found.map_or(Cell::Here(value), |(_, stored)| Cell::There(*stored))
    })
}

fn push_bitmap(out: &mut Vec<u8>, bits: impl ExactSizeIterator<Item = bool>) {
    let from = out.len();
    out.resize(from + bits.len().div_ceil(8), 0);
    for (no, _) in bits.enumerate().filter(|(_, set)| *set) {
        out[from + no / 8] |= 1 << (no % 8);
    }
}

/// Places of the values that go to overflow pages so that the row fits: those that are long by
/// themselves, then the longest ones. `stays` says which must not go; those in `stored` are there.
pub(crate) fn outside(
    def: &TableDef,
    values: &[Value],
    stored: &[(usize, OverflowPointer)],
    stays: &dyn Fn(ColumnNo) -> bool,
) -> Vec<usize> {
    let fixed = HEADER + 2 * def.columns.len().div_ceil(8) + stored.len() * OverflowPointer::BYTES;
    let (mut total, mut may_go, mut out) = (fixed, Vec::new(), Vec::new());
    for (place, ((no, _), value)) in def.live().zip(values).enumerate() {
        if stored.iter().any(|(known, _)| *known == place) {
            continue;
        }
        let bytes = long_bytes(value).map(<[u8]>::len);
        total +=
            bytes.map_or(value.type_of().and_then(Type::fixed_len).unwrap_or(0), |len| len + 5);
        match bytes {
            Some(len) if len > LONG && !stays(no) => {
                total -= len + 5 - OverflowPointer::BYTES;
                out.push(place);
            }
            Some(len) if len > OverflowPointer::BYTES && !stays(no) => may_go.push((len, place)),
            _ => {}
        }
    }
    may_go.sort_unstable();
    while total > MAX_ENCODED
        && let Some((len, place)) = may_go.pop()
    {
        total -= len + 5 - OverflowPointer::BYTES;
        out.push(place);
    }
    out
}

/// The bytes of a value of a type without a fixed length.
pub(crate) fn long_bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::Decimal(v) => Some(v.as_bytes()),
        Value::Text(v) | Value::Json(v) => Some(v.as_bytes()),
        Value::Bytes(v) => Some(v),
        _ => None,
    }
}

/// Appends one value by itself: a byte that says whether there is one, then the value.
pub(crate) fn push_alone(out: &mut Vec<u8>, value: &Value) {
    out.push(u8::from(!value.is_null()));
    push_value(out, value);
}

/// Reads from the front what [`push_alone`] wrote.
pub(crate) fn take_alone(ty: Type, bytes: &mut &[u8]) -> std::result::Result<Value, Malformed> {
    let (marker, rest) = bytes.split_first().ok_or(Malformed("payload ends early"))?;
    let mut cursor = Cursor { columns: &[], count: 0, nulls: &[], stored: &[], at: 0, rest };
    let value = match marker {
        0 => Value::Null,
        1 => value_of(ty, cursor.take_value(ty)?)?,
        _ => return Err(Malformed("unknown null byte in a payload")),
    };
    *bytes = cursor.rest;
    Ok(value)
}

fn push_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => {}
        Value::Bool(v) => out.push(u8::from(*v)),
        Value::Int2(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::Int4(v) | Value::Date(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::Int8(v) | Value::Timestamp(v) | Value::TimestampTz(v) | Value::Time(v) => {
            out.extend_from_slice(&v.to_le_bytes());
        }
        Value::Float4(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::Float8(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::Uuid(v) => out.extend_from_slice(v),
        Value::Interval(v) => out.extend_from_slice(&v.to_bytes()),
        Value::Decimal(v) => push_varlen(out, v.as_bytes()),
        Value::Text(v) | Value::Json(v) => push_varlen(out, v.as_bytes()),
        Value::Bytes(v) => push_varlen(out, v),
    }
}

fn push_varlen(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut len = bytes.len();
    while len >= 0x80 {
        out.push(len as u8 | 0x80);
        len >>= 7;
    }
    out.push(len as u8);
    out.extend_from_slice(bytes);
}

/// Which columns to read, in which order to hand them over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Projection {
    /// (column, place in the result), by column.
    wanted: Vec<(ColumnNo, u16)>,
}

impl Projection {
    /// The given columns in the given order; one may occur several times.
    pub fn new(def: &TableDef, columns: &[ColumnNo]) -> Result<Self> {
        let live = |column: &ColumnNo| def.live_column(*column).map(|_| *column);
        Self::of(columns.iter().map(live))
    }

    /// The live columns at the given places, in the given order.
    pub fn at(def: &TableDef, places: &[usize]) -> Result<Self> {
        let column = |place: &usize| {
            let found = def.live().nth(*place).map(|(column, _)| column);
            found.ok_or_else(|| Error::Invalid(format!("table {} has no place {place}", def.name)))
        };
        Self::of(places.iter().map(column))
    }

    fn of(columns: impl ExactSizeIterator<Item = Result<ColumnNo>>) -> Result<Self> {
        let count = u16::try_from(columns.len());
        let count =
            count.map_err(|_| Error::Limit(format!("projection of {} columns", columns.len())))?;
        let mut wanted = Vec::with_capacity(usize::from(count));
        for (place, column) in (0..count).zip(columns) {
            wanted.push((column?, place));
        }
        wanted.sort_unstable();
        Ok(Self { wanted })
    }

    /// All live columns in their order.
    pub fn all(def: &TableDef) -> Self {
        let wanted = def.live().enumerate().map(|(place, (column, _))| (column, place as u16));
        let mut wanted: Vec<_> = wanted.collect();
        wanted.sort_unstable();
        Self { wanted }
    }

    /// No columns.
    pub fn none() -> Self {
        Self { wanted: Vec::new() }
    }

    /// Number of values in a result.
    pub fn len(&self) -> usize {
        self.wanted.len()
    }

    /// Is nothing read at all (a count)?
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// The wanted columns, one after another in the table's order.
    pub(crate) fn wants(&self) -> impl Iterator<Item = ColumnNo> {
        self.wanted.iter().map(|(column, _)| *column)
    }

    /// The wanted columns, in the order of the result.
    pub fn columns(&self) -> Vec<ColumnNo> {
        let mut columns = vec![0; self.wanted.len()];
        for (column, place) in &self.wanted {
            columns[usize::from(*place)] = *column;
        }
        columns
    }

    /// Reads the wanted columns of `row`, which has no long values there.
    pub fn read(&self, def: &TableDef, row: &[u8]) -> std::result::Result<Vec<Value>, Malformed> {
        let none = Malformed("a long value where there are none");
        match self.read_with(def, row, &mut |_, _| Err(none.into())) {
            Ok(values) => Ok(values),
            Err(ReadError::Malformed(what)) => Err(what),
            Err(ReadError::Failed(error)) => unreachable!("nothing is loaded: {error}"),
        }
    }

    /// Reads the wanted columns of `row`; `load` gives those that are in overflow pages.
    pub(crate) fn read_with(
        &self,
        def: &TableDef,
        row: &[u8],
        load: Load<'_>,
    ) -> std::result::Result<Vec<Value>, ReadError> {
        let mut out = Vec::with_capacity(self.wanted.len());
        self.each(def, row, |column, place, found| {
            put(&mut out, place, found.value(column, &mut *load)?);
            Ok(())
        })?;
        Ok(out)
    }

    /// Hands the wanted columns of `row` to `visitor`; `load` gives values in overflow pages.
    #[inline]
    pub(crate) fn visit(
        &self,
        def: &TableDef,
        row: &[u8],
        load: Load<'_>,
        visitor: &mut impl RowVisitor,
    ) -> std::result::Result<(), ReadError> {
        self.each(def, row, |column, place, found| {
            match found {
                Found::Null => visitor.null(place),
                Found::Bytes(Type::Int4, bytes) => {
                    visitor.int4(place, i32::from_le_bytes(fixed(bytes)));
                }
                Found::Bytes(Type::Int8, bytes) => {
                    visitor.int8(place, i64::from_le_bytes(fixed(bytes)));
                }
                Found::Bytes(Type::Float8, bytes) => {
                    visitor.float8(place, f64::from_le_bytes(fixed(bytes)));
                }
                Found::Bytes(Type::Date, bytes) => {
                    visitor.date(place, i32::from_le_bytes(fixed(bytes)));
                }
                Found::Bytes(Type::Text, bytes) => visitor.text(place, str_of(bytes)?),
                Found::Bytes(Type::Decimal, bytes) => match Decimal::unscaled_of(bytes) {
                    Some((unscaled, scale)) => visitor.decimal(place, unscaled, scale),
                    None => visitor.value(place, value_of(Type::Decimal, bytes)?),
                },
                other => visitor.value(place, other.value(column, &mut *load)?),
            }
            Ok(())
        })
    }

    /// Calls `take` with each wanted column, its place in the result and its stored form, in the
    /// order of the table.
    #[inline]
    fn each<'a>(
        &self,
        def: &'a TableDef,
        row: &'a [u8],
        mut take: impl FnMut(ColumnNo, usize, Found<'a>) -> std::result::Result<(), ReadError>,
    ) -> std::result::Result<(), ReadError> {
        let mut cursor = Cursor::new(def, row)?;
        let (mut last, mut found) = (None, Found::Null);
        for &(column, place) in &self.wanted {
            if last != Some(column) {
                (last, found) = (Some(column), cursor.column(column)?);
            }
            take(column, usize::from(place), found)?;
        }
        Ok(())
    }
}

/// Puts a value at its place of a result: at the end, where columns come in their order.
#[inline]
fn put(out: &mut Vec<Value>, place: usize, value: Value) {
    if place == out.len() {
        return out.push(value);
    }
    if place > out.len() {
        out.resize(place + 1, Value::Null);
    }
    out[place] = value;
}

/// Calls `visit` with the long values of the live columns of `row`.
pub(crate) fn long_values(
    def: &TableDef,
    row: &[u8],
    visit: &mut dyn FnMut(ColumnNo, OverflowPointer),
) -> std::result::Result<(), Malformed> {
    let mut cursor = Cursor::new(def, row)?;
    if cursor.stored.is_empty() {
        return Ok(());
    }
    for no in 0..def.columns.len().min(cursor.count) {
        let found = cursor.column(no as ColumnNo)?;
        if let Found::Stored(stored) = found
            && !def.columns[no].dropped
        {
            visit(no as ColumnNo, stored);
        }
    }
    Ok(())
}

/// Reads every live column and proves that the row, which has no long values, has no byte too many.
pub fn read_strictly(def: &TableDef, row: &[u8]) -> std::result::Result<Vec<Value>, Malformed> {
    let values = Projection::all(def).read(def, row)?;
    strictly(def, row).map(|()| values)
}

/// A row of another table, or of a definition that never was.
pub(crate) const MORE_COLUMNS: Malformed = Malformed("row has more columns than its table");

/// Proves that the row has no byte too many (for verification).
pub(crate) fn strictly(def: &TableDef, row: &[u8]) -> std::result::Result<(), Malformed> {
    let mut cursor = Cursor::new(def, row)?;
    if cursor.count > def.columns.len() {
        return Err(MORE_COLUMNS);
    }
    while cursor.at < cursor.count {
        cursor.skip()?;
    }
    if !cursor.rest.is_empty() {
        return Err(Malformed("bytes after the last column of a row"));
    }
    Ok(())
}

/// Walks a row from the left.
struct Cursor<'a> {
    columns: &'a [Column],
    count: usize,
    nulls: &'a [u8],
    stored: &'a [u8],
    /// Next column to read.
    at: usize,
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn new(def: &'a TableDef, row: &'a [u8]) -> std::result::Result<Self, Malformed> {
        let Some((header, mut rest)) = row.split_first_chunk::<HEADER>() else {
            return Err(Malformed("row ends before its column count"));
        };
        let header = u16::from_le_bytes(*header);
        let count = usize::from(header & !(HAS_NULLS | HAS_STORED));
        let mut bitmap = |flag: u16| -> std::result::Result<&'a [u8], Malformed> {
            let bytes = if header & flag == 0 { 0 } else { count.div_ceil(8) };
            let split = rest.split_at_checked(bytes);
            let (bitmap, left) = split.ok_or(Malformed("row ends inside a bitmap"))?;
            rest = left;
            Ok(bitmap)
        };
        let (nulls, stored) = (bitmap(HAS_NULLS)?, bitmap(HAS_STORED)?);
        Ok(Self { columns: &def.columns, count, nulls, stored, at: 0, rest })
    }

    fn is_set(bitmap: &[u8], column: usize) -> bool {
        bitmap.get(column / 8).is_some_and(|byte| byte >> (column % 8) & 1 == 1)
    }

    /// The stored form of `column`, which is not left of the cursor.
    #[inline]
    fn column(&mut self, column: ColumnNo) -> std::result::Result<Found<'a>, Malformed> {
        let column = usize::from(column);
        assert!(column >= self.at && column < self.columns.len(), "columns are read in order");
        if column >= self.count {
            return Ok(Found::Missing(&self.columns[column].missing));
        }
        while self.at < column {
            self.skip()?;
        }
        self.at += 1;
        if Self::is_set(self.nulls, column) {
            return Ok(Found::Null);
        }
        if Self::is_set(self.stored, column) {
            return Ok(Found::Stored(self.take_stored()?));
        }
        let ty = self.columns[column].ty;
        Ok(Found::Bytes(ty, self.take_value(ty)?))
    }

    fn take_stored(&mut self) -> std::result::Result<OverflowPointer, Malformed> {
        let split = self.rest.split_first_chunk::<{ OverflowPointer::BYTES }>();
        let (name, rest) = split.ok_or(Malformed("row ends inside the name of a long value"))?;
        self.rest = rest;
        Ok(OverflowPointer::from_bytes(name))
    }

    fn skip(&mut self) -> std::result::Result<(), Malformed> {
        let column = self.at;
        self.at += 1;
        if Self::is_set(self.stored, column) && !Self::is_set(self.nulls, column) {
            self.take_stored()?;
        } else if !Self::is_set(self.nulls, column) {
            self.take_value(self.columns[column].ty)?;
        }
        Ok(())
    }

    #[inline]
    fn take_value(&mut self, ty: Type) -> std::result::Result<&'a [u8], Malformed> {
        let len = match ty.fixed_len() {
            Some(len) => len,
            None => self.take_len()?,
        };
        let split = self.rest.split_at_checked(len);
        let (value, rest) = split.ok_or(Malformed("row ends inside a value"))?;
        self.rest = rest;
        Ok(value)
    }

    fn take_len(&mut self) -> std::result::Result<usize, Malformed> {
        let mut len = 0usize;
        for shift in [0, 7, 14, 21, 28] {
            let (&byte, rest) = self.rest.split_first().ok_or(Malformed("row ends in a length"))?;
            self.rest = rest;
            len |= usize::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Ok(len);
            }
        }
        Err(Malformed("length of a value has too many bytes"))
    }
}

fn fixed<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("cut to the length of its type")
}

fn str_of(bytes: &[u8]) -> std::result::Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed("text in a row is not UTF-8"))
}

fn text(bytes: &[u8]) -> std::result::Result<String, Malformed> {
    // Looked at as a copy, which is aligned: that goes by words, in a row it would go by bytes.
    String::from_utf8(bytes.to_vec()).map_err(|_| Malformed("text in a row is not UTF-8"))
}

/// A value of a type from its bytes.
#[inline]
pub(crate) fn value_of(ty: Type, bytes: &[u8]) -> std::result::Result<Value, Malformed> {
    let value = match ty {
        Type::Bool => match bytes {
            [0] => Value::Bool(false),
            [1] => Value::Bool(true),
            _ => return Err(Malformed("bool in a row is neither 0 nor 1")),
        },
        Type::Int2 => Value::Int2(i16::from_le_bytes(fixed(bytes))),
        Type::Int4 => Value::Int4(i32::from_le_bytes(fixed(bytes))),
        Type::Int8 => Value::Int8(i64::from_le_bytes(fixed(bytes))),
        Type::Float4 => Value::Float4(f32::from_le_bytes(fixed(bytes))),
        Type::Float8 => Value::Float8(f64::from_le_bytes(fixed(bytes))),
        Type::Text => Value::Text(text(bytes)?),
        Type::Json => {
            let json = Value::Json(text(bytes)?);
            Some(json).filter(Value::is_sound).ok_or(Malformed("json in a row is no JSON"))?
        }
        Type::Decimal => {
            let decimal = Decimal::from_bytes(bytes);
            Value::Decimal(decimal.ok_or(Malformed("a row holds no decimal"))?)
        }
        Type::Interval => Value::Interval(Interval::from_bytes(fixed(bytes))),
        Type::Time => {
            let time = Value::Time(i64::from_le_bytes(fixed(bytes)));
            Some(time).filter(Value::is_sound).ok_or(Malformed("time in a row is beyond a day"))?
        }
        Type::Bytes => Value::Bytes(bytes.to_vec()),
        Type::Uuid => Value::Uuid(fixed(bytes)),
        Type::Date => Value::Date(i32::from_le_bytes(fixed(bytes))),
        Type::Timestamp => Value::Timestamp(i64::from_le_bytes(fixed(bytes))),
        Type::TimestampTz => Value::TimestampTz(i64::from_le_bytes(fixed(bytes))),
    };
    Ok(value)
}

#[cfg(test)]
mod tests {
    use rightlink_env::Rng;

    use super::*;
    use crate::datum::tests::random_value;
    use crate::ids::{FileId, ObjectId};

    fn table(types: impl IntoIterator<Item = Type>) -> TableDef {
        let numbered = types.into_iter().enumerate();
        let columns = numbered.map(|(no, ty)| Column::new(format!("c{no}"), ty, true)).collect();
        TableDef::new(ObjectId(1), "t", FileId(64), columns)
    }

    fn random_row(rng: &mut Rng, def: &TableDef) -> Vec<Value> {
        let mut one = |ty| if rng.chance(1, 6) { Value::Null } else { random_value(rng, ty) };
        def.live().map(|(_, column)| one(column.ty)).collect()
    }

    /// Bits, not only values: -0.0 stays -0.0 in a row.
    fn same(a: &[Value], b: &[Value]) -> bool {
        a == b && format!("{a:?}") == format!("{b:?}")
    }

    #[test]
    fn rows_of_all_types_round_trip_whole_and_projected() {
        let def = table(Type::ALL.into_iter().chain(Type::ALL));
        let mut rng = Rng::from_seed(3);
        for _ in 0..5_000 {
            let row = random_row(&mut rng, &def);
            let bytes = encode(&def, &row).unwrap();
            assert!(same(&read_strictly(&def, &bytes).unwrap(), &row));
            let all = def.columns.len() as u64;
            let columns: Vec<_> = (0..rng.below(9)).map(|_| rng.below(all) as u16).collect();
            let wanted: Vec<_> = columns.iter().map(|no| row[usize::from(*no)].clone()).collect();
            let projection = Projection::new(&def, &columns).unwrap();
            assert!(same(&projection.read(&def, &bytes).unwrap(), &wanted));
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_format() {
        let def = table([Type::Int4, Type::Text, Type::Bool]);
        let row = [Value::Int4(258), Value::Text("hi".into()), Value::Bool(true)];
        assert_eq!(encode(&def, &row).unwrap(), [3, 0, 2, 1, 0, 0, 2, b'h', b'i', 1]);
        let row = [Value::Int4(1), Value::Null, Value::Bool(false)];
        assert_eq!(encode(&def, &row).unwrap(), [3, 0x80, 0b010, 1, 0, 0, 0, 0]);
        let long = Value::Bytes(vec![7; 300]);
        let bytes = encode(&table([Type::Bytes]), &[long]).unwrap();
        assert_eq!(bytes[..4], [1, 0, 0xAC, 0x02]);
    }

    #[test]
    fn added_columns_read_as_missing_and_dropped_ones_are_skipped() {
        let mut def = table([Type::Int4, Type::Text, Type::Int8]);
        let old = [Value::Int4(1), Value::Text("old".into()), Value::Int8(3)];
        let bytes = encode(&def, &old).unwrap();
        def.columns[1].dropped = true;
        let missing = Value::Bool(true);
        def.columns.push(Column { missing: missing.clone(), ..Column::new("b", Type::Bool, true) });
        let now = [Value::Int4(1), Value::Int8(3), missing];
        assert_eq!(read_strictly(&def, &bytes).unwrap(), now);
        let newer = [Value::Int4(2), Value::Int8(4), Value::Null];
        let bytes = encode(&def, &newer).unwrap();
        assert_eq!(read_strictly(&def, &bytes).unwrap(), newer);
        // A definition from before sees the column it still has as null, and not the one it lacks.
        def.columns.pop();
        assert_eq!(Projection::all(&def).read(&def, &bytes).unwrap(), newer[..2]);
        assert!(read_strictly(&def, &bytes).is_err());
    }

    #[test]
    fn a_row_beyond_a_page_is_refused() {
        let def = table([Type::Bytes]);
        let largest = MAX_ENCODED - HEADER - 2;
        assert!(encode(&def, &[Value::Bytes(vec![0; largest])]).is_ok(), "where nothing may go");
        let error = encode(&def, &[Value::Bytes(vec![0; largest + 1])]).unwrap_err();
        assert!(matches!(error, Error::RowTooLarge(_)));
    }

    #[test]
    fn long_values_are_named_in_their_place() {
        let def = table([Type::Int4, Type::Text, Type::Bytes, Type::Bytes]);
        let short = Value::Bytes(vec![1; 40]);
        let row = [Value::Int4(1), Value::Text("x".repeat(LONG + 1)), Value::Null, short];
        assert_eq!(outside(&def, &row, &[], &|_| false), [1]);
        assert!(outside(&def, &row, &[], &|no| no == 1).is_empty(), "it stays, and it fits");
        let stored =
            OverflowPointer { first: 7, len: LONG as u32 + 1, creator: crate::ids::Xid(99) };
        let bytes = encode_with(&def, &row, &[(1, stored)]).unwrap();
        assert_eq!(bytes[..4], [4, 0xC0, 0b0100, 0b0010]);
        assert_eq!(bytes.len(), 2 + 1 + 1 + 4 + 16 + 41);
        assert!(Projection::all(&def).read(&def, &bytes).is_err());
        let mut load = |no: ColumnNo, found: OverflowPointer| {
            assert_eq!((no, found), (1, stored));
            Ok::<_, ReadError>(row[1].clone())
        };
        let all = Projection::all(&def);
        assert!(same(&all.read_with(&def, &bytes, &mut load).unwrap(), &row));
        let narrow = Projection::new(&def, &[3, 0]).unwrap();
        assert!(same(&narrow.read(&def, &bytes).unwrap(), &[row[3].clone(), Value::Int4(1)]));
        let mut found = Vec::new();
        long_values(&def, &bytes, &mut |no, stored| found.push((no, stored))).unwrap();
        assert_eq!(found, [(1, stored)]);
        for len in 0..bytes.len() {
            assert!(strictly(&def, &bytes[..len]).is_err(), "cut at {len}");
        }
        // Of several values that are not long by themselves the longest go until the row fits.
        let def = table([Type::Bytes; 5]);
        let row: Vec<_> = (0..5).map(|n| Value::Bytes(vec![0; 1900 + n])).collect();
        assert_eq!(outside(&def, &row, &[], &|no| no == 4), [3]);
    }

    /// Bytes from disk may be anything: reading them ends with values or an error.
    #[test]
    fn damaged_rows_never_panic() {
        let def = table(Type::ALL);
        let mut rng = Rng::from_seed(4);
        let mut refused = 0;
        for _ in 0..50_000 {
            let mut bytes = encode(&def, &random_row(&mut rng, &def)).unwrap();
            for _ in 0..=rng.below(3) {
                let at = rng.index(bytes.len());
                bytes[at] = rng.next_u32() as u8;
            }
            bytes.truncate(rng.index(bytes.len() * 2));
            refused += usize::from(read_strictly(&def, &bytes).is_err());
        }
        assert!(refused > 10_000, "{refused}");
    }
}
