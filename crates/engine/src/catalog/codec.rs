//! The `definition` column of catalog rows: what a table, column or index is, as bytes.
//!
//! | kind | bytes |
//! |---|---|
//! | table | version, heap file u32, logged u8, fillfactor u8, primary index id u32 (0: none) |
//! | column | version, type tag u8, nullable u8, dropped u8, missing value (tag u8, text form) |
//! | index | version, file u32, unique u8, method u8, usable-from xid u64, keys, included columns |
//!
//! Keys: count u16, then column u16 and order u8 (1 descending, 2 nulls first) each; included
//! columns: count u16, then column u16 each.
//!
//! All numbers little-endian. Invariants: decoding never trusts a length or a tag; what is encoded
//! decodes to an equal definition.
//! Does not do: names, ids and parents, which are columns of their own.

use crate::datum::{Type, Value};
use crate::ids::{FileId, ObjectId, Xid};
use crate::table::schema::{Column, IndexColumn, IndexDef, IndexMethod};

const VERSION: u8 = 1;
const DESCENDING: u8 = 1;
const NULLS_FIRST: u8 = 2;

/// What a table's own row holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableBytes {
    /// The heap's file.
    pub heap: FileId,
    /// Are changes logged?
    pub logged: bool,
    /// Percent of a page that inserts fill.
    pub fillfactor: u8,
    /// The primary key's index, if there is one.
    pub primary: Option<ObjectId>,
}

/// Encodes a table.
pub fn encode_table(table: &TableBytes) -> Vec<u8> {
    let mut out = vec![VERSION];
    out.extend(table.heap.0.to_le_bytes());
    out.extend([u8::from(table.logged), table.fillfactor]);
    out.extend(table.primary.map_or(0, |id| id.0).to_le_bytes());
    out
}

/// Decodes a table.
pub fn decode_table(bytes: &[u8]) -> Result<TableBytes, &'static str> {
    let mut cursor = Cursor::open(bytes)?;
    let heap = FileId(cursor.u32()?);
    let logged = cursor.flag()?;
    let fillfactor = cursor.u8()?;
    let primary = Some(ObjectId(cursor.u32()?)).filter(|id| id.0 != 0);
    cursor.end()?;
    Ok(TableBytes { heap, logged, fillfactor, primary })
}

/// Encodes a column.
pub fn encode_column(column: &Column) -> Vec<u8> {
    let mut out = vec![VERSION, column.ty.tag()];
    out.extend([u8::from(column.nullable), u8::from(column.dropped)]);
    out.push(u8::from(!column.missing.is_null()));
    if !column.missing.is_null() {
        out.extend(column.missing.to_string().bytes());
    }
    out
}

/// Decodes a column called `name`.
pub fn decode_column(name: &str, bytes: &[u8]) -> Result<Column, &'static str> {
    let mut cursor = Cursor::open(bytes)?;
    let ty = Type::from_tag(cursor.u8()?).ok_or("unknown type tag")?;
    let (nullable, dropped) = (cursor.flag()?, cursor.flag()?);
    let missing = if cursor.flag()? {
        let text = str::from_utf8(cursor.rest()).map_err(|_| "missing value is not text")?;
        Value::parse(ty, text).map_err(|_| "missing value is not of the column's type")?
    } else {
        cursor.end()?;
        Value::Null
    };
    Ok(Column { name: name.to_owned(), ty, nullable, dropped, missing })
}

/// Encodes an index.
pub fn encode_index(index: &IndexDef) -> Vec<u8> {
    let mut out = vec![VERSION];
    out.extend(index.file.0.to_le_bytes());
    out.extend([u8::from(index.unique), index.method.tag()]);
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
    out
}

/// Decodes the index `id` called `name`.
pub fn decode_index(id: ObjectId, name: &str, bytes: &[u8]) -> Result<IndexDef, &'static str> {
    let mut cursor = Cursor::open(bytes)?;
    let file = FileId(cursor.u32()?);
    let unique = cursor.flag()?;
    let method = IndexMethod::from_tag(cursor.u8()?).ok_or("unknown index method")?;
    let usable_from = Xid(cursor.u64()?);
    let mut columns = Vec::new();
    for _ in 0..cursor.u16()? {
        let (column, order) = (cursor.u16()?, cursor.u8()?);
        let (descending, nulls_first) = (order & DESCENDING != 0, order & NULLS_FIRST != 0);
        columns.push(IndexColumn { column, descending, nulls_first });
    }
    let mut included = Vec::new();
    for _ in 0..cursor.u16()? {
        included.push(cursor.u16()?);
    }
    cursor.end()?;
    let base = IndexDef::new(id, name, file, columns, unique);
    Ok(IndexDef { included, method, usable_from, ..base })
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn open(bytes: &'a [u8]) -> Result<Self, &'static str> {
        let mut cursor = Cursor(bytes);
        if cursor.u8()? == VERSION { Ok(cursor) } else { Err("unknown definition version") }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        let (head, tail) = self.0.split_first_chunk().ok_or("definition is cut short")?;
        self.0 = tail;
        Ok(*head)
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

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    fn end(&self) -> Result<(), &'static str> {
        if self.0.is_empty() { Ok(()) } else { Err("bytes after the definition") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_round_trip() {
        let table = TableBytes {
            heap: FileId(64),
            logged: false,
            fillfactor: 90,
            primary: Some(ObjectId(7)),
        };
        assert_eq!(decode_table(&encode_table(&table)), Ok(table));
        let mut column = Column::new("when", Type::Timestamp, true);
        assert_eq!(decode_column("when", &encode_column(&column)), Ok(column.clone()));
        column.missing = Value::parse(Type::Timestamp, "2013-01-02 03:04:05").unwrap();
        assert_eq!(decode_column("when", &encode_column(&column)), Ok(column));
        let columns = vec![IndexColumn::ascending(3), IndexColumn::descending(1)];
        let mut index = IndexDef::new(ObjectId(9), "by", FileId(70), columns, true);
        index.included = vec![2];
        index.usable_from = Xid(1 << 40);
        assert_eq!(decode_index(ObjectId(9), "by", &encode_index(&index)), Ok(index.clone()));
        index.method = IndexMethod::Hash;
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
        assert!(decode_table(&[1, 0, 0, 0, 0, 7, 100, 0, 0, 0, 0]).is_err());
    }
}
