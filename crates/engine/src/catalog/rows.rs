//! Catalog rows and the definitions they stand for.
//!
//! Invariants: a row that does not decode is damage, reported with the object's name; the order of
//! rows given to [`assemble`] does not matter.
//! Does not do: reading or writing tables.

use crate::catalog::bootstrap::{COLLATIONS, KEPT, Kind, PREPARED};
use crate::catalog::codec;
use crate::datum::Value;
use crate::error::{Error, Result};
use crate::ids::{ObjectId, RowId};
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

/// An object and the catalog row that it is in.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredObject {
    /// The row.
    pub row: RowId,
    /// The object.
    pub object: Object,
}

impl Object {
    /// The object of a table.
    pub fn table(def: &TableDef) -> Self {
        let primary = def.primary_key().map(|index| index.id);
        let (id, parent, namespace) = (def.id, ObjectId(0), ObjectId(0));
        let (kind, definition) = (Kind::Table, codec::encode_table(def, primary));
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

    /// The object of a sequence of no column.
    pub fn sequence(sequence: &SequenceDef) -> Self {
        Self::sequence_of(ObjectId(0), 0, sequence)
    }

    /// The object of the sequence of column `position` of `table`.
    pub fn sequence_of(table: ObjectId, position: u16, sequence: &SequenceDef) -> Self {
        let (kind, definition) = (Kind::Sequence, codec::encode_sequence(sequence));
        let (namespace, position) = (ObjectId(0), position as i16);
        let (id, name) = (sequence.id, sequence.schema.name.clone());
        Self { id, kind, parent: table, namespace, position, name, definition }
    }

    /// The object of a collation, a kept text or a prepared transaction, whose names are unique
    /// among their kind.
    pub fn named(id: ObjectId, kind: Kind, name: &str, definition: Vec<u8>) -> Self {
        let namespace = match kind {
            Kind::Collation => COLLATIONS,
            Kind::Prepared => PREPARED,
            _ => KEPT,
        };
        let (parent, name) = (ObjectId(0), name.to_owned());
        Self { id, kind, parent, namespace, position: 0, name, definition }
    }

    /// Is it a sequence that belongs to no column?
    pub fn is_free_sequence(&self) -> bool {
        self.kind == Kind::Sequence && self.parent == ObjectId(0)
    }

    /// The sequence.
    pub fn to_sequence(&self) -> Result<SequenceDef> {
        assert_eq!(self.kind, Kind::Sequence);
        let decoded = codec::decode_sequence(self.id, &self.name, &self.definition);
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
pub fn assemble(table: &Object, mut parts: Vec<Object>) -> Result<TableDef> {
    let decoded = codec::decode_table(table.id, &table.name, &table.definition);
    let (mut def, primary) = decoded.map_err(|what| damage(&table.name, what))?;
    parts.sort_by_key(|part| (part.kind as i16, part.position));
    for part in &parts {
        let name = part.name.split('\u{1}').next().unwrap_or_default();
        match part.kind {
            Kind::Column => {
                let column = codec::decode_column(name, &part.definition);
                def.columns.push(column.map_err(|what| damage(&part.name, what))?);
            }
            Kind::Index => {
                let index = codec::decode_index(part.id, name, &part.definition);
                let index = index.map_err(|what| damage(&part.name, what))?;
                def.indexes.push(IndexDef { primary: primary == Some(index.id), ..index });
            }
            Kind::Sequence => {
                let sequence = part.to_sequence()?;
                let column = usize::try_from(part.position).ok();
                let column = column.and_then(|at| def.columns.get_mut(at));
                let identity = column.and_then(|column| column.identity.as_mut());
                let identity = identity.filter(|identity| identity.sequence.id == part.id);
                let identity =
                    identity.ok_or_else(|| damage(&part.name, "a sequence of no column"))?;
                identity.sequence = sequence;
            }
            Kind::Table => return Err(damage(&part.name, "a table inside a table")),
            Kind::Collation => return Err(damage(&part.name, "a collation inside a table")),
            Kind::Kept => return Err(damage(&part.name, "a text inside a table")),
            Kind::Prepared => {
                return Err(damage(&part.name, "a prepared transaction inside a table"));
            }
        }
    }
    let lost =
        |column: &&Column| column.identity.as_ref().is_some_and(|own| own.sequence.file.0 == 0);
    if let Some(column) = def.columns.iter().find(lost) {
        return Err(damage(&table.name, &format!("the sequence of {} is missing", column.name)));
    }
    def.sort_indexes();
    def.validate().map_err(|error| damage(&table.name, &error.to_string()))?;
    Ok(def)
}

pub(super) fn damage(name: &str, what: &str) -> Error {
    Error::corrupt_file("catalog", format!("object {name}: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::bootstrap::catalog_def;
    use crate::datum::Type;
    use crate::ids::FileId;
    use crate::table::schema::{Identity, SequenceSchema};

    #[test]
    fn a_table_survives_being_taken_apart_in_any_order() {
        let mut def = catalog_def();
        def.columns.push(Column { dropped: true, ..Column::new("old", Type::Text, true) });
        let mut generated = Column::new("number", Type::Int8, false);
        let schema = SequenceSchema::new("catalog_number_seq").max(99);
        let sequence = SequenceDef { id: ObjectId(90), file: FileId(70), schema };
        generated.identity = Some(Identity { always: true, sequence: sequence.clone() });
        def.columns.push(generated);
        def.indexes[0].primary = true;
        let table = Object::table(&def);
        let mut parts = vec![Object::sequence_of(def.id, 8, &sequence)];
        for (no, column) in def.columns.iter().enumerate() {
            let id = ObjectId(100 + no as u32);
            parts.push(Object::column(id, def.id, no as u16, column));
        }
        for (no, index) in def.indexes.iter().enumerate() {
            parts.push(Object::index(def.id, no as u16, index));
        }
        parts.reverse();
        let read = |object: &Object| Object::from_row(&object.to_row()).unwrap();
        let parts = parts.iter().map(read).collect();
        assert_eq!(assemble(&read(&table), parts).unwrap(), def);
    }

    #[test]
    fn rows_of_other_shapes_are_damage() {
        let mut row = Object::table(&catalog_def()).to_row();
        row[1] = Value::Int2(77);
        assert!(matches!(Object::from_row(&row), Err(Error::Corruption { .. })));
        row.pop();
        assert!(matches!(Object::from_row(&row), Err(Error::Corruption { .. })));
    }
}
