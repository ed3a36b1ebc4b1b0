//! Catalog rows and the definitions they stand for.
//!
//! Invariants: a row that does not decode is damage, reported with the object's name; the order of
//! rows given to [`assemble`] does not matter.
//! Does not do: reading or writing tables.

use crate::catalog::bootstrap::Kind;
use crate::catalog::codec;
use crate::datum::Value;
use crate::error::{Error, Result};
use crate::ids::{FileId, ObjectId, RowId};
use crate::table::schema::{Column, IndexDef, SequenceDef, TableDef};

/// One object of the catalog.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Number.
    pub id: ObjectId,
    /// What it is.
    pub kind: Kind,
    /// Its table, or 0.
    pub parent: ObjectId,
    /// Where its name is unique.
    pub namespace: ObjectId,
    /// Place among its siblings.
    pub position: i16,
    /// Name.
    pub name: String,
    /// The rest, as bytes.
    pub definition: Vec<u8>,
}

/// A table and which of its indexes is the primary key.
#[derive(Clone, Debug, PartialEq)]
pub struct Assembled {
    /// The definition.
    pub def: TableDef,
    /// The primary key's index.
    pub primary: Option<ObjectId>,
}

impl Object {
    /// The object of a table.
    pub fn table(def: &TableDef, primary: Option<ObjectId>) -> Self {
        let bytes = codec::TableBytes {
            heap: def.heap,
            overflow: def.overflow,
            logged: def.logged,
            fillfactor: def.fillfactor,
            primary,
            checks: def.checks.clone(),
            note: def.note.clone(),
            auto_vacuum: def.auto_vacuum,
        };
        let (id, parent, namespace) = (def.id, ObjectId(0), ObjectId(0));
        let (kind, definition) = (Kind::Table, codec::encode_table(&bytes));
        Self { id, kind, parent, namespace, position: 0, name: def.name.clone(), definition }
    }

    /// The object of column `position` of `table`. A dropped column gives its name free.
    pub fn column(id: ObjectId, table: ObjectId, position: u16, column: &Column) -> Self {
        let live = column.name.clone();
        let name = if column.dropped { format!("{live}\u{1}dropped {}", id.0) } else { live };
        let (kind, definition) = (Kind::Column, codec::encode_column(column));
        let position = position as i16;
        Self { id, kind, parent: table, namespace: table, position, name, definition }
    }

    /// The object of an index of `table`.
    pub fn index(table: ObjectId, position: u16, index: &IndexDef) -> Self {
        let (kind, definition) = (Kind::Index, codec::encode_index(index));
        let (namespace, position) = (ObjectId(0), position as i16);
        let name = index.name.clone();
        Self { id: index.id, kind, parent: table, namespace, position, name, definition }
    }

    /// The object of a sequence: of column `position` of `table`, or by itself (table 0).
    pub fn sequence(
        id: ObjectId,
        (table, position): (ObjectId, u16),
        file: FileId,
        def: &SequenceDef,
    ) -> Self {
        let (kind, definition) = (Kind::Sequence, codec::encode_sequence(file, def));
        let (namespace, position) = (ObjectId(0), position as i16);
        Self { id, kind, parent: table, namespace, position, name: def.name.clone(), definition }
    }

    /// File and definition of a sequence.
    pub fn to_sequence(&self) -> Result<(FileId, SequenceDef)> {
        assert_eq!(self.kind, Kind::Sequence);
        let decoded = codec::decode_sequence(&self.name, &self.definition);
        decoded.map_err(|what| damage(&self.name, what))
    }

    /// The row of the object.
    pub fn to_row(&self) -> Vec<Value> {
        vec![
            Value::Int4(self.id.0 as i32),
            Value::Int2(self.kind as i16),
            Value::Int4(self.parent.0 as i32),
            Value::Int4(self.namespace.0 as i32),
            Value::Int2(self.position),
            Value::Text(self.name.clone()),
            Value::Bytes(self.definition.clone()),
        ]
    }

    /// The object of a row.
    pub fn from_row(row: &[Value]) -> Result<Self> {
        let [
            Value::Int4(id),
            Value::Int2(kind),
            Value::Int4(parent),
            Value::Int4(namespace),
            Value::Int2(position),
            Value::Text(name),
            Value::Bytes(definition),
        ] = row
        else {
            return Err(Error::corrupt_file("catalog", format!("a row of other types: {row:?}")));
        };
        let bad_kind = || damage(name, "unknown kind");
        let kind = Kind::from_number(*kind).ok_or_else(bad_kind)?;
        let number = |value: &i32| ObjectId(*value as u32);
        let (id, parent, namespace) = (number(id), number(parent), number(namespace));
        let (name, definition) = (name.clone(), definition.clone());
        Ok(Self { id, kind, parent, namespace, position: *position, name, definition })
    }
}

/// Puts a table's definition together from its own object and those of its columns and indexes.
pub fn assemble(table: &Object, parts: Vec<(RowId, Object)>) -> Result<Assembled> {
    let bytes = codec::decode_table(&table.definition).map_err(|what| damage(&table.name, what))?;
    let mut parts: Vec<Object> = parts.into_iter().map(|(_, part)| part).collect();
    parts.sort_by_key(|part| (part.kind as i16, part.position));
    let mut def = TableDef::new(table.id, table.name.clone(), bytes.heap, Vec::new());
    (def.logged, def.fillfactor, def.checks) = (bytes.logged, bytes.fillfactor, bytes.checks);
    (def.overflow, def.note, def.auto_vacuum) = (bytes.overflow, bytes.note, bytes.auto_vacuum);
    for part in &parts {
        let name = part.name.split('\u{1}').next().unwrap_or_default();
        match part.kind {
            Kind::Column => {
                let column = codec::decode_column(name, &part.definition);
                def.columns.push(column.map_err(|what| damage(&part.name, what))?);
            }
            Kind::Index => {
                let index = codec::decode_index(part.id, name, &part.definition);
                def.indexes.push(index.map_err(|what| damage(&part.name, what))?);
            }
            Kind::Sequence => {
                let sequence = part.to_sequence()?;
                let column = usize::try_from(part.position).ok();
                let column = column.and_then(|at| def.columns.get_mut(at));
                let identity = column.and_then(|column| column.identity.as_mut());
                let identity = identity.filter(|identity| identity.sequence == part.id);
                let identity =
                    identity.ok_or_else(|| damage(&part.name, "a sequence of no column"))?;
                (identity.file, identity.def) = sequence;
            }
            Kind::Table => return Err(damage(&part.name, "a table inside a table")),
            Kind::Collation => return Err(damage(&part.name, "a collation inside a table")),
            Kind::Kept => return Err(damage(&part.name, "a text inside a table")),
        }
    }
    let lost = |column: &&Column| column.identity.as_ref().is_some_and(|own| own.file.0 == 0);
    if let Some(column) = def.columns.iter().find(lost) {
        return Err(damage(&table.name, &format!("the sequence of {} is missing", column.name)));
    }
    def.indexes.sort_by_key(|index| (Some(index.id) != bytes.primary, !index.unique, index.id));
    def.validate().map_err(|error| damage(&table.name, &error.to_string()))?;
    Ok(Assembled { def, primary: bytes.primary })
}

pub(super) fn damage(name: &str, what: &str) -> Error {
    Error::corrupt_file("catalog", format!("object {name}: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::bootstrap::catalog_def;
    use crate::datum::Type;
    use crate::table::schema::Identity;

    #[test]
    fn a_table_survives_being_taken_apart_in_any_order() {
        let mut def = catalog_def();
        def.columns.push(Column { dropped: true, ..Column::new("old", Type::Text, true) });
        let mut generated = Column::new("number", Type::Int8, false);
        let (sequence, file) = (ObjectId(90), FileId(70));
        let own = SequenceDef::new("catalog_number_seq", 99);
        generated.identity = Some(Identity { always: true, sequence, file, def: own.clone() });
        def.columns.push(generated);
        let primary = Some(def.indexes[0].id);
        let table = Object::table(&def, primary);
        let mut parts = vec![Object::sequence(sequence, (def.id, 8), file, &own)];
        for (no, column) in def.columns.iter().enumerate() {
            let id = ObjectId(100 + no as u32);
            parts.push(Object::column(id, def.id, no as u16, column));
        }
        for (no, index) in def.indexes.iter().enumerate() {
            parts.push(Object::index(def.id, no as u16, index));
        }
        parts.reverse();
        let read = |object: &Object| Object::from_row(&object.to_row()).unwrap();
        let parts = parts.iter().map(|part| (RowId::new(1, 1), read(part))).collect();
        let assembled = assemble(&read(&table), parts).unwrap();
        assert_eq!(assembled, Assembled { def, primary });
    }

    #[test]
    fn rows_of_other_shapes_are_damage() {
        let mut row = Object::table(&catalog_def(), None).to_row();
        row[1] = Value::Int2(77);
        assert!(matches!(Object::from_row(&row), Err(Error::Corruption { .. })));
        row.pop();
        assert!(matches!(Object::from_row(&row), Err(Error::Corruption { .. })));
    }
}
