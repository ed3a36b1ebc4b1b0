//! The catalog's own definition: the one table that is not found by reading the catalog.
//!
//! One row describes one object: a table, a column, an index, a sequence, a collation or a text.
//!
//! | column | type | meaning |
//! |---|---|---|
//! | id | int4 | number of the object, never reused |
//! | kind | int2 | [`Kind`] |
//! | parent | int4 | table of a column or index, 0 for a table |
//! | namespace | int4 | 0 for tables and indexes, which share one; the table's id for columns; 5: |
//! | | | collations; 7: texts; 8: prepared transactions |
//! | position | int2 | number of a column in its table, order of an index |
//! | name | text | unique in its namespace |
//! | definition | bytes | the rest, see `codec` |
//!
//! Invariants: file and object numbers here are part of the format and never change.
//! Does not do: creating anything.

use crate::datum::Type;
use crate::ids::{FileId, ObjectId};
use crate::table::schema::{Column, IndexColumn, IndexDef, TableDef};

/// Object number of the catalog table.
pub const CATALOG: ObjectId = ObjectId(1);
/// Where the names of collations are unique: no object has this number.
pub const COLLATIONS: ObjectId = ObjectId(5);
/// Where the names of texts are unique that a layer above keeps: no object has this number.
pub const KEPT: ObjectId = ObjectId(7);
/// Where the names of prepared transactions are unique: no object has this number.
pub const PREPARED: ObjectId = ObjectId(8);
/// Object numbers of prepared transactions, which no other object has: as many as there can be at
/// a time. A number is used again when its transaction has ended.
pub const PREPARED_OBJECTS: std::ops::Range<u32> = 32..64;
/// Heap file of the catalog; its maps are the next two.
pub const CATALOG_HEAP: FileId = FileId(2);
/// First file number for tables and indexes of users.
pub const FIRST_USER_FILE: u32 = 64;
/// First object number for users.
pub const FIRST_USER_OBJECT: u32 = 64;

/// Index over `id`.
pub const BY_ID: &str = "catalog_id";
/// Index over `(namespace, name)`.
pub const BY_NAME: &str = "catalog_name";
/// Index over `(parent, kind, position)`.
pub const BY_PARENT: &str = "catalog_parent";

/// What an object is. The value is on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i16)]
pub enum Kind {
    /// A table.
    Table = 1,
    /// A column of a table.
    Column = 2,
    /// An index of a table.
    Index = 3,
    /// A sequence, of a column or by itself.
    Sequence = 4,
    /// A collation with a name of its own.
    Collation = 5,
    /// A text of a layer above.
    Kept = 7,
    /// A prepared transaction.
    Prepared = 8,
}

impl Kind {
    /// The kind with this number.
    pub fn from_number(number: i16) -> Option<Kind> {
        let all = [
            Kind::Table,
            Kind::Column,
            Kind::Index,
            Kind::Sequence,
            Kind::Collation,
            Kind::Kept,
            Kind::Prepared,
        ];
        all.into_iter().find(|kind| *kind as i16 == number)
    }
}

/// Definition of the catalog table.
pub fn catalog_def() -> TableDef {
    let columns = vec![
        Column::new("id", Type::Int4, false),
        Column::new("kind", Type::Int2, false),
        Column::new("parent", Type::Int4, false),
        Column::new("namespace", Type::Int4, false),
        Column::new("position", Type::Int2, false),
        Column::new("name", Type::Text, false),
        Column::new("definition", Type::Bytes, false),
    ];
    let mut def = TableDef::new(CATALOG, "catalog", CATALOG_HEAP, columns);
    let index = |id, name, file, columns: &[u16], unique| {
        let key = columns.iter().map(|column| IndexColumn::ascending(*column)).collect();
        IndexDef::new(ObjectId(id), name, FileId(file), key, unique)
    };
    def.indexes = vec![
        index(2, BY_ID, 5, &[0], true),
        index(3, BY_NAME, 6, &[3, 5], true),
        index(4, BY_PARENT, 7, &[2, 1, 4], false),
    ];
    def
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalog_describes_itself_soundly() {
        let def = catalog_def();
        def.validate().unwrap();
        let files = def.indexes.iter().map(|index| index.file.0);
        assert!(files.clone().all(|file| file > def.visibility_map().0 && file < FIRST_USER_FILE));
        assert!(def.indexes.iter().all(|index| index.id.0 < FIRST_USER_OBJECT));
    }
}
