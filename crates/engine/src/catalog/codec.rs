//! The `definition` column of catalog rows as bytes, all numbers little-endian.
//!
//! | kind | bytes |
//! |---|---|
//! | table | version, heap, overflow u32, logged, fill u8, primary u32, checks, note, vacuum |
//! | column | version, type u8, nullable u8, dropped u8, missing value, default, identity, note |
//! | index | version, file u32, unique u8, method u8, usable-from xid u64, keys, included, rows |
//! | collation | version (not inside of columns and indexes), name, locale, deterministic u8 |
//! | kept | version, text |
//! | prepared | version, time i64, note, shared u8, (not 0:) since u64, table locks, xids |
//! | sequence | version, file u32, start, increment, smallest, largest i64, (2:) cycle u8, note |
//!
//! The version is 1, or 2 if what only version 2 has is not empty: for a sequence what follows
//! (2:), for a column its collation, for an index the collation of each key column and the data
//! version. Version 3 of a column is a computed one. `docs/format.md` describes the parts.
//!
//! Invariants: decoding never trusts a length or a tag. What is encoded decodes to an equal
//! definition.
//! Does not do: names, ids and parents, which are columns of their own.

use crate::collation::Collation;
use crate::datum::{Type, Value};
use crate::ids::{FileId, ObjectId, Xid};
use crate::table::predicate::{Comparison, Predicate, Term, Test};
use crate::table::schema::{
    AutoVacuum, Check, Column, ColumnDefault, ColumnNo, Identity, IndexColumn, IndexDef,
    IndexMethod, SequenceDef, SequenceSchema, TableDef,
};
use crate::txn::{PreparedLock, PreparedState, RowLock, SharedRows};

const VERSION: u8 = 1;
/// Collations follow what version 1 has.
const COLLATED: u8 = 2;
/// Of a column: a layer above computes its values; whether a collation follows is said.
const COMPUTED: u8 = 3;
/// Of a sequence: the end of version 1 is not the end.
const LONGER: u8 = 2;
const DESCENDING: u8 = 1;
const NULLS_FIRST: u8 = 2;
const DEFAULT_VALUE: u8 = 1;
const DEFAULT_NOW: u8 = 2;
const DEFAULT_NULL: u8 = 3;
const DEFAULT_UUID: u8 = 4;
const BY_DEFAULT: u8 = 1;
const ALWAYS: u8 = 2;
const TEST_NULL: u8 = 16;
const TEST_NOT_NULL: u8 = 17;
const UNIQUE: u8 = 1;
const UNIQUE_NULLS: u8 = 2;

/// A prepared transaction, but for its name and number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Prepared {
    /// When it was prepared, in microseconds since 1970.
    pub time: i64,
    /// What a layer above keeps with it.
    pub note: String,
    /// What makes it run again.
    pub state: PreparedState,
}

/// Encodes a table, whose columns and indexes have rows of their own.
pub fn encode_table(table: &TableDef, primary: Option<ObjectId>) -> Vec<u8> {
    let mut out = vec![VERSION];
    out.extend(table.heap.0.to_le_bytes());
    out.extend(table.overflow.0.to_le_bytes());
    out.extend([u8::from(table.logged), table.fillfactor]);
    out.extend(primary.map_or(0, |id| id.0).to_le_bytes());
    out.extend((table.checks.len() as u16).to_le_bytes());
    for check in &table.checks {
        put_text(&mut out, &check.name);
        put_predicate(&mut out, &check.predicate);
    }
    put_text(&mut out, &table.note);
    out.push(u8::from(table.auto_vacuum.enabled));
    out.extend(table.auto_vacuum.least.to_le_bytes());
    out.extend(table.auto_vacuum.per_block.to_le_bytes());
    out
}

/// Decodes the table `id` called `name`, still without columns and indexes, and names the index of
/// its primary key.
pub fn decode_table(
    id: ObjectId,
    name: &str,
    bytes: &[u8],
) -> Result<(TableDef, Option<ObjectId>), &'static str> {
    let mut cursor = Cursor::open(bytes)?;
    let mut table = TableDef::new(id, name, FileId(cursor.u32()?), Vec::new());
    table.overflow = FileId(cursor.u32()?);
    table.logged = cursor.flag()?;
    table.fillfactor = cursor.u8()?;
    let primary = Some(ObjectId(cursor.u32()?)).filter(|id| id.0 != 0);
    for _ in 0..cursor.u16()? {
        let name = cursor.text()?.to_owned();
        table.checks.push(Check { name, predicate: cursor.predicate()? });
    }
    cursor.text()?.clone_into(&mut table.note);
    table.auto_vacuum =
        AutoVacuum { enabled: cursor.flag()?, least: cursor.u32()?, per_block: cursor.u32()? };
    cursor.end()?;
    Ok((table, primary))
}

/// Seven bits a byte, the low ones first; the last byte is below 128.
fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text.bytes());
}

fn put_predicate(out: &mut Vec<u8>, predicate: &Predicate<ColumnNo>) {
    out.extend((predicate.terms.len() as u16).to_le_bytes());
    for Term { column, test } in &predicate.terms {
        out.extend(column.to_le_bytes());
        match test {
            Test::Null => out.push(TEST_NULL),
            Test::NotNull => out.push(TEST_NOT_NULL),
            Test::Compare(comparison, value) => {
                let ty = value.type_of().expect("a predicate compares with values");
                out.extend([*comparison as u8, ty.tag()]);
                put_text(out, &value.to_string());
            }
        }
    }
}

/// Encodes a column.
pub fn encode_column(column: &Column) -> Vec<u8> {
    let version = match (column.computed, &column.collation) {
        (true, _) => COMPUTED,
        (false, Some(_)) => COLLATED,
        (false, None) => VERSION,
    };
    let mut out = vec![version, column.ty.tag()];
    out.extend([u8::from(column.nullable), u8::from(column.dropped)]);
    out.push(u8::from(!column.missing.is_null()));
    if !column.missing.is_null() {
        put_text(&mut out, &column.missing.to_string());
    }
    match &column.default {
        None => out.push(0),
        Some(ColumnDefault::Value(Value::Null)) => out.push(DEFAULT_NULL),
        Some(ColumnDefault::Value(value)) => {
            out.push(DEFAULT_VALUE);
            put_text(&mut out, &value.to_string());
        }
        Some(ColumnDefault::Now) => out.push(DEFAULT_NOW),
        Some(ColumnDefault::RandomUuid) => out.push(DEFAULT_UUID),
    }
    match &column.identity {
        None => out.push(0),
        Some(identity) => {
            out.push(if identity.always { ALWAYS } else { BY_DEFAULT });
            out.extend(identity.sequence.id.0.to_le_bytes());
        }
    }
    put_text(&mut out, &column.note);
    if column.computed {
        out.push(u8::from(column.collation.is_some()));
    }
    if let Some(collation) = &column.collation {
        put_collation(&mut out, collation);
    }
    out
}

/// Encodes a collation with a name of its own.
pub fn encode_collation(collation: &Collation) -> Vec<u8> {
    let mut out = vec![VERSION];
    put_collation(&mut out, collation);
    out
}

/// Decodes a collation with a name of its own.
pub fn decode_collation(bytes: &[u8]) -> Result<Collation, &'static str> {
    let mut cursor = Cursor::open(bytes)?;
    let collation = cursor.collation()?;
    cursor.end()?;
    Ok(collation)
}

fn put_collation(out: &mut Vec<u8>, collation: &Collation) {
    put_text(out, collation.name());
    put_text(out, collation.locale());
    out.push(u8::from(collation.is_deterministic()));
}

/// Decodes a column called `name`. Of a generated one the sequence is still to be looked up.
pub fn decode_column(name: &str, bytes: &[u8]) -> Result<Column, &'static str> {
    let computed = bytes.first() == Some(&COMPUTED);
    let (mut cursor, collated) = match computed {
        true => (Cursor(&bytes[1..]), false),
        false => Cursor::open_collated(bytes)?,
    };
    let ty = Type::from_tag(cursor.u8()?).ok_or("unknown type tag")?;
    let (nullable, dropped) = (cursor.flag()?, cursor.flag()?);
    let missing = if cursor.flag()? { cursor.value(ty)? } else { Value::Null };
    let default = match cursor.u8()? {
        0 => None,
        DEFAULT_VALUE => Some(ColumnDefault::Value(cursor.value(ty)?)),
        DEFAULT_NULL => Some(ColumnDefault::Value(Value::Null)),
        DEFAULT_NOW => Some(ColumnDefault::Now),
        DEFAULT_UUID => Some(ColumnDefault::RandomUuid),
        _ => return Err("unknown default"),
    };
    let identity = match cursor.u8()? {
        0 => None,
        kind @ (BY_DEFAULT | ALWAYS) => {
            let (id, file) = (ObjectId(cursor.u32()?), FileId(0));
            let sequence = SequenceDef { id, file, schema: SequenceSchema::new("") };
            Some(Identity { always: kind == ALWAYS, sequence })
        }
        _ => return Err("unknown kind of identity"),
    };
    let note = cursor.text()?.to_owned();
    let collated = collated || computed && cursor.flag()?;
    let collation = if collated { Some(cursor.collation()?) } else { None };
    cursor.end()?;
    let base = Column::new(name, ty, nullable);
    Ok(Column { missing, dropped, default, identity, note, collation, computed, ..base })
}

/// Encodes a sequence.
pub fn encode_sequence(sequence: &SequenceDef) -> Vec<u8> {
    let schema = &sequence.schema;
    let longer = schema.cycle || !schema.note.is_empty();
    let mut out = vec![if longer { LONGER } else { VERSION }];
    out.extend(sequence.file.0.to_le_bytes());
    for number in [schema.start, schema.increment, schema.min, schema.max] {
        out.extend(number.to_le_bytes());
    }
    if longer {
        out.push(u8::from(schema.cycle));
        put_text(&mut out, &schema.note);
    }
    out
}

/// Decodes the sequence `id` called `name`.
pub fn decode_sequence(
    id: ObjectId,
    name: &str,
    bytes: &[u8],
) -> Result<SequenceDef, &'static str> {
    let (mut cursor, longer) = Cursor::open_longer(bytes)?;
    let file = FileId(cursor.u32()?);
    let [start, increment, min, max] = [cursor.i64()?, cursor.i64()?, cursor.i64()?, cursor.i64()?];
    let cycle = if longer { cursor.flag()? } else { false };
    let note = if longer { cursor.text()?.to_owned() } else { String::new() };
    cursor.end()?;
    let schema = SequenceSchema { name: name.to_owned(), start, increment, min, max, cycle, note };
    schema.validate().map_err(|_| "bounds of a sequence that has no numbers")?;
    Ok(SequenceDef { id, file, schema })
}

/// Encodes a text of a layer above.
pub fn encode_kept(text: &str) -> Vec<u8> {
    let mut out = vec![VERSION];
    put_text(&mut out, text);
    out
}

/// Decodes a text of a layer above.
pub fn decode_kept(bytes: &[u8]) -> Result<String, &'static str> {
    let mut cursor = Cursor::open(bytes)?;
    let text = cursor.text()?.to_owned();
    cursor.end()?;
    Ok(text)
}

/// Encodes a prepared transaction.
pub fn encode_prepared(prepared: &Prepared) -> Vec<u8> {
    let mut out = vec![VERSION];
    out.extend(prepared.time.to_le_bytes());
    put_text(&mut out, &prepared.note);
    let PreparedState { xids, tables, shared } = &prepared.state;
    out.push(shared.map_or(0, |rows| 1 + rows.lock as u8));
    shared.iter().for_each(|rows| out.extend(rows.since.0.to_le_bytes()));
    put_varint(&mut out, tables.len() as u64);
    for lock in tables {
        out.extend(lock.table.0.to_le_bytes());
        out.push(lock.modes);
    }
    put_varint(&mut out, xids.len() as u64);
    let mut before = 0;
    for range in xids {
        put_varint(&mut out, range.start - before);
        put_varint(&mut out, range.end - range.start);
        before = range.end;
    }
    out
}

/// Decodes a prepared transaction.
pub fn decode_prepared(bytes: &[u8]) -> Result<Prepared, &'static str> {
    let mut cursor = Cursor::open(bytes)?;
    let time = cursor.i64()?;
    let note = cursor.text()?.to_owned();
    let mut state = PreparedState::default();
    let lock = match cursor.u8()? {
        0 => None,
        tag => Some(RowLock::from_place(tag - 1).ok_or("unknown row lock")?),
    };
    if let Some(lock) = lock {
        state.shared = Some(SharedRows { lock, since: Xid(cursor.u64()?) });
    }
    for _ in 0..cursor.varint()? {
        state.tables.push(PreparedLock { table: ObjectId(cursor.u32()?), modes: cursor.u8()? });
    }
    let mut before = 0u64;
    for _ in 0..cursor.varint()? {
        let start = before.checked_add(cursor.varint()?).ok_or("an xid is too large")?;
        before = start.checked_add(cursor.varint()?).ok_or("an xid is too large")?;
        state.xids.push(start..before);
    }
    cursor.end()?;
    Ok(Prepared { time, note, state })
}

/// Encodes an index.
pub fn encode_index(index: &IndexDef) -> Vec<u8> {
    let collated =
        !index.data_version.is_empty() || index.columns.iter().any(|part| part.collation.is_some());
    let mut out = vec![if collated { COLLATED } else { VERSION }];
    out.extend(index.file.0.to_le_bytes());
    let unique = match (index.unique, index.nulls_not_distinct) {
        (false, _) => 0,
        (true, false) => UNIQUE,
        (true, true) => UNIQUE_NULLS,
    };
    out.extend([unique, index.method.tag()]);
    out.extend(index.usable_from.0.to_le_bytes());
    out.extend((index.columns.len() as u16).to_le_bytes());
    for key in &index.columns {
        out.extend(key.column.to_le_bytes());
        let descending = if key.descending { DESCENDING } else { 0 };
        out.push(descending | if key.nulls_first { NULLS_FIRST } else { 0 });
    }
    out.extend((index.included.len() as u16).to_le_bytes());
    for column in &index.included {
        out.extend(column.to_le_bytes());
    }
    match &index.predicate {
        None => out.extend(0u16.to_le_bytes()),
        Some(predicate) => put_predicate(&mut out, predicate),
    }
    if collated {
        for key in &index.columns {
            out.push(u8::from(key.collation.is_some()));
            key.collation.iter().for_each(|collation| put_collation(&mut out, collation));
        }
        put_text(&mut out, &index.data_version);
    }
    out
}

/// Decodes the index `id` called `name`.
pub fn decode_index(id: ObjectId, name: &str, bytes: &[u8]) -> Result<IndexDef, &'static str> {
    let (mut cursor, collated) = Cursor::open_collated(bytes)?;
    let file = FileId(cursor.u32()?);
    let (unique, nulls_not_distinct) = match cursor.u8()? {
        0 => (false, false),
        UNIQUE => (true, false),
        UNIQUE_NULLS => (true, true),
        _ => return Err("an index that is neither unique nor not"),
    };
    let method = IndexMethod::from_tag(cursor.u8()?).ok_or("unknown index method")?;
    let usable_from = Xid(cursor.u64()?);
    let mut columns = Vec::new();
    for _ in 0..cursor.u16()? {
        let (column, order) = (cursor.u16()?, cursor.u8()?);
        let (descending, nulls_first) = (order & DESCENDING != 0, order & NULLS_FIRST != 0);
        columns.push(IndexColumn { column, descending, nulls_first, collation: None });
    }
    let mut included = Vec::new();
    for _ in 0..cursor.u16()? {
        included.push(cursor.u16()?);
    }
    let predicate = Some(cursor.predicate()?).filter(|predicate| !predicate.terms.is_empty());
    let mut data_version = String::new();
    if collated {
        for key in &mut columns {
            key.collation = if cursor.flag()? { Some(cursor.collation()?) } else { None };
        }
        cursor.text()?.clone_into(&mut data_version);
    }
    cursor.end()?;
    let base = IndexDef::new(id, name, file, columns, unique);
    Ok(IndexDef {
        included,
        method,
        usable_from,
        nulls_not_distinct,
        predicate,
        data_version,
        ..base
    })
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn open(bytes: &'a [u8]) -> Result<Self, &'static str> {
        let mut cursor = Cursor(bytes);
        if cursor.u8()? == VERSION { Ok(cursor) } else { Err("unknown definition version") }
    }

    /// Of a definition that may have collations; does it?
    fn open_collated(bytes: &'a [u8]) -> Result<(Self, bool), &'static str> {
        Self::open_either(bytes, COLLATED)
    }

    /// Of a sequence; does its definition go on after version 1?
    fn open_longer(bytes: &'a [u8]) -> Result<(Self, bool), &'static str> {
        Self::open_either(bytes, LONGER)
    }

    fn open_either(bytes: &'a [u8], second: u8) -> Result<(Self, bool), &'static str> {
        let mut cursor = Cursor(bytes);
        match cursor.u8()? {
            VERSION => Ok((cursor, false)),
            version if version == second => Ok((cursor, true)),
            _ => Err("unknown definition version"),
        }
    }

    fn collation(&mut self) -> Result<Collation, &'static str> {
        let (name, locale) = (self.text()?, self.text()?);
        Ok(Collation::stored(name, locale, self.flag()?))
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        let (head, tail) = self.0.split_first_chunk().ok_or("definition is cut short")?;
        self.0 = tail;
        Ok(*head)
    }

    fn varint(&mut self) -> Result<u64, &'static str> {
        let mut value = 0;
        for shift in (0..63).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number is too long")
    }

    fn u8(&mut self) -> Result<u8, &'static str> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn flag(&mut self) -> Result<bool, &'static str> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err("a flag that is neither 0 nor 1"),
        }
    }

    fn u16(&mut self) -> Result<u16, &'static str> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, &'static str> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, &'static str> {
        self.take().map(u64::from_le_bytes)
    }

    fn i64(&mut self) -> Result<i64, &'static str> {
        self.take().map(i64::from_le_bytes)
    }

    fn text(&mut self) -> Result<&'a str, &'static str> {
        let len = self.u32()? as usize;
        let (text, rest) = self.0.split_at_checked(len).ok_or("definition is cut short")?;
        self.0 = rest;
        str::from_utf8(text).map_err(|_| "text that is not UTF-8")
    }

    fn value(&mut self, ty: Type) -> Result<Value, &'static str> {
        Value::parse(ty, self.text()?).map_err(|_| "a value is not of its type")
    }

    fn predicate(&mut self) -> Result<Predicate<ColumnNo>, &'static str> {
        let mut terms = Vec::new();
        for _ in 0..self.u16()? {
            let column = self.u16()?;
            let test = match self.u8()? {
                TEST_NULL => Test::Null,
                TEST_NOT_NULL => Test::NotNull,
                tag => {
                    let comparison = Comparison::from_tag(tag).ok_or("unknown comparison")?;
                    let ty = Type::from_tag(self.u8()?).ok_or("unknown type tag")?;
                    Test::Compare(comparison, self.value(ty)?)
                }
            };
            terms.push(Term { column, test });
        }
        Ok(Predicate { terms })
    }

    fn end(&self) -> Result<(), &'static str> {
        if self.0.is_empty() { Ok(()) } else { Err("bytes after the definition") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_check() -> Check {
        let test = Test::Compare(Comparison::AtMost, Value::Text("it's".into()));
        let terms = vec![Term { column: 3, test }, Term { column: 1, test: Test::NotNull }];
        Check { name: "c".into(), predicate: Predicate { terms } }
    }

    #[test]
    fn defaults_and_sequences_round_trip() {
        let mut column = Column::new("c", Type::Int4, false);
        for default in [ColumnDefault::Value(Value::Int4(-3)), ColumnDefault::Value(Value::Null)] {
            column.default = Some(default);
            assert_eq!(decode_column("c", &encode_column(&column)), Ok(column.clone()));
        }
        let plain = SequenceSchema::new("s");
        let id = ObjectId(90);
        let down = SequenceSchema { start: 7, increment: -2, min: -9, max: 7, ..plain.clone() };
        let longer = [(true, ""), (false, "as smallint"), (true, "kept")];
        let longer = longer.map(|(cycle, note)| {
            (LONGER, SequenceSchema { cycle, note: note.to_owned(), ..plain.clone() })
        });
        for (version, schema) in longer.into_iter().chain([(VERSION, down)]) {
            let sequence = SequenceDef { id, file: FileId(80), schema };
            let bytes = encode_sequence(&sequence);
            assert_eq!(decode_sequence(id, "s", &bytes), Ok(sequence));
            assert_eq!(bytes[0], version);
            assert!(decode_sequence(id, "s", &bytes[..bytes.len() - 1]).is_err());
        }
        column.default = None;
        let sequence = SequenceDef { id, file: FileId(0), schema: SequenceSchema::new("") };
        column.identity = Some(Identity { always: true, sequence });
        assert_eq!(decode_column("c", &encode_column(&column)), Ok(column));
    }

    #[test]
    fn definitions_round_trip() {
        let (id, primary) = (ObjectId(6), Some(ObjectId(7)));
        let table = TableDef {
            overflow: FileId(67),
            logged: false,
            fillfactor: 90,
            checks: vec![some_check()],
            note: "kept".into(),
            auto_vacuum: AutoVacuum { enabled: false, least: 7, per_block: 1 << 30 },
            ..TableDef::new(id, "t", FileId(64), Vec::new())
        };
        assert_eq!(decode_table(id, "t", &encode_table(&table, primary)), Ok((table, primary)));
        let mut column = Column::new("when", Type::Timestamp, true);
        assert_eq!(decode_column("when", &encode_column(&column)), Ok(column.clone()));
        column.note = "type timestamp(3)".into();
        column.missing = Value::parse(Type::Timestamp, "2013-01-02 03:04:05").unwrap();
        assert_eq!(decode_column("when", &encode_column(&column)), Ok(column.clone()));
        column.computed = true;
        assert_eq!(decode_column("when", &encode_column(&column)), Ok(column.clone()));
        let columns = vec![IndexColumn::ascending(3), IndexColumn::descending(1)];
        let mut index = IndexDef::new(ObjectId(9), "by", FileId(70), columns, true);
        index.included = vec![2];
        index.usable_from = Xid(1 << 40);
        assert_eq!(decode_index(ObjectId(9), "by", &encode_index(&index)), Ok(index.clone()));
        index.method = IndexMethod::Hash;
        index.nulls_not_distinct = true;
        index.predicate = Some(some_check().predicate);
        assert_eq!(decode_index(ObjectId(9), "by", &encode_index(&index)), Ok(index));
    }

    /// A catalog row can only be damaged together with its page's checksum, but decoding does not
    /// rely on it.
    #[test]
    fn damaged_definitions_are_refused() {
        let columns = vec![IndexColumn::ascending(3)];
        let good = encode_index(&IndexDef::new(ObjectId(9), "by", FileId(70), columns, true));
        for len in 0..good.len() {
            assert!(decode_index(ObjectId(9), "by", &good[..len]).is_err(), "cut at {len}");
        }
        let mut long = good.clone();
        long.push(0);
        assert!(decode_index(ObjectId(9), "by", &long).is_err());
        assert!(decode_index(ObjectId(9), "by", &[2]).is_err());
        assert!(decode_column("x", &[1, 99, 0, 0, 0]).is_err());
        assert!(
            decode_table(ObjectId(6), "t", &[1, 0, 0, 0, 0, 0, 0, 0, 0, 7, 100, 0, 0, 0, 0])
                .is_err()
        );
    }
}
