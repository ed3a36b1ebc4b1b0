//! Sequences, as catalogs tell of them: those of columns and those that stand by themselves.
//!
//! Does not do: where they are, which only `pg_sequences` tells.

use std::collections::HashMap;

use rightlink::{SequenceSchema, TableInfo, Transaction};

use super::numbers::relation_oid;
use crate::error::Result;
use crate::notes::{ColumnNotes, SequenceNotes};
use crate::types::SqlType;

/// A sequence.
pub(super) struct Sequence {
    pub(super) oid: u32,
    pub(super) schema: SequenceSchema,
    pub(super) notes: SequenceNotes,
    pub(super) ty: SqlType,
    /// The column that it goes with.
    pub(super) owner: Option<Owner>,
}

/// The column that a sequence goes with.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    /// The number of its table.
    pub(super) table: u32,
    /// From 1.
    pub(super) column: usize,
    /// Is it an identity column?
    pub(super) identity: bool,
}

/// All of them, by name; `tables` are those of the store.
pub(super) fn all(tables: &[TableInfo], txn: &mut Transaction) -> Result<Vec<Sequence>> {
    let mut owned = HashMap::new();
    for info in tables {
        for (at, column) in info.columns.iter().enumerate() {
            let notes = ColumnNotes::decode(&column.note);
            let own = column.identity.as_ref().map(|own| (own.sequence.clone(), !notes.serial));
            let noted = notes.owned.into_iter().map(|name| (name, false));
            for (sequence, identity) in own.into_iter().chain(noted) {
                owned.insert(
                    sequence,
                    Owner { table: relation_oid(info.id), column: at + 1, identity },
                );
            }
        }
    }
    let one = |known: rightlink::SequenceDefinition| Sequence {
        oid: relation_oid(known.id),
        notes: SequenceNotes::decode(&known.schema.note),
        ty: SequenceNotes::type_of(&known),
        owner: owned.get(&known.schema.name).copied(),
        schema: known.schema,
    };
    Ok(txn.catalog().sequences()?.into_iter().map(one).collect())
}

impl Sequence {
    /// Does it belong to an identity column?
    pub(super) fn is_identity(&self) -> bool {
        self.owner.is_some_and(|owner| owner.identity)
    }
}
