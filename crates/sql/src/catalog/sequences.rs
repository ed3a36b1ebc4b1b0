//! Sequences, as catalogs tell of them: those of columns and those that stand by themselves.
//!
//! Does not do: where they are, which only `pg_sequences` tells.

use rightlink::{SequenceSchema, Transaction};

use super::objects::FIRST;
use crate::error::Result;
use crate::exec::ddl::sequence::type_of;
use crate::expr::deparse::identifier;
use crate::expr::system::USER;
use crate::plan::notes::{ColumnNotes, SequenceNotes};
use crate::schemas::{bare, full_reference, schema_of};
use crate::types::SqlType;

/// A sequence.
pub(super) struct Sequence {
    pub(super) oid: u32,
    pub(super) schema: SequenceSchema,
    pub(super) notes: SequenceNotes,
    pub(super) ty: SqlType,
    /// The table and column that it goes with; is it an identity column?
    owner: Option<(String, String, bool)>,
}

/// All of them, by name.
pub(super) fn all(txn: &mut Transaction) -> Result<Vec<Sequence>> {
    let mut owned = Vec::new();
    for info in txn.catalog().tables()? {
        for column in &info.columns {
            let notes = ColumnNotes::decode(&column.note);
            let own = column.identity.as_ref().map(|own| (own.sequence.clone(), !notes.serial));
            let noted = notes.owned.into_iter().map(|name| (name, false));
            for (sequence, identity) in own.into_iter().chain(noted) {
                owned.push((sequence, (info.name.clone(), column.name.clone(), identity)));
            }
        }
    }
    let one = |known: rightlink::SequenceDefinition| {
        let found = owned.iter().find(|(name, _)| *name == known.schema.name);
        Sequence {
            oid: FIRST + known.id,
            notes: SequenceNotes::decode(&known.schema.note),
            ty: type_of(&known),
            owner: found.map(|(_, owner)| owner.clone()),
            schema: known.schema,
        }
    };
    Ok(txn.catalog().sequences()?.into_iter().map(one).collect())
}

impl Sequence {
    /// Does it belong to an identity column?
    pub(super) fn is_identity(&self) -> bool {
        self.owner.as_ref().is_some_and(|(_, _, identity)| *identity)
    }

    /// Does it belong to a column?
    pub(super) fn is_owned(&self) -> bool {
        self.owner.is_some()
    }

    /// Without its schema.
    fn name(&self) -> &str {
        bare(&self.schema.name)
    }

    fn schema(&self) -> &str {
        schema_of(&self.schema.name)
    }

    /// The value of an item of a query: `None` if the item is not known.
    pub(super) fn value(&self, text: &str) -> Option<Option<String>> {
        let schema = &self.schema;
        Some(match text {
            "c.oid" | "seqrelid" | "d.objid" => Some(self.oid.to_string()),
            "n.nspname" => Some(self.schema().to_owned()),
            "c.relname" => Some(self.name().to_owned()),
            "c.relkind" => Some("S".to_owned()),
            "c.relpersistence" => Some("p".to_owned()),
            "c.relreplident" => Some("n".to_owned()),
            "c.reltablespace" | "c.relchecks" | "count(i.inhparent)" => Some("0".to_owned()),
            "c.relhasindex"
            | "c.relhasrules"
            | "c.relhastriggers"
            | "c.relrowsecurity"
            | "c.relforcerowsecurity"
            | "c.relispartition" => Some("f".to_owned()),
            "am.amname" | "c2.relname" | "p.partstrat" | "array_to_string(c.relacl, e'\\n')" => {
                None
            }
            "seqstart" => Some(schema.start.to_string()),
            "seqmin" => Some(schema.min.to_string()),
            "seqmax" => Some(schema.max.to_string()),
            "seqincrement" => Some(schema.increment.to_string()),
            "seqcache" => Some(self.notes.cache.unwrap_or(1).to_string()),
            "d.deptype" => self.owner.as_ref().map(|owner| deptype(owner.2).to_owned()),
            "case when seqcycle then 'yes' else 'no' end" => {
                Some(if schema.cycle { "yes" } else { "no" }.to_owned())
            }
            "format_type(seqtypid, null)" => Some(self.ty.name().to_owned()),
            "quote_ident(nspname) || '.' || quote_ident(relname) || '.' || \
             quote_ident(attname)" => {
                let name = |(table, column, _): &(String, String, bool)| {
                    format!("{}.{}", full_reference(table), identifier(column))
                };
                self.owner.as_ref().map(name)
            }
            "array_to_string(c.reloptions || array(select 'toast.' || x from unnest(tc.reloptions) \
             x), ', ')"
            | "case when c.reloftype = 0 then '' else c.reloftype::regtype::text end" => {
                Some(String::new())
            }
            "pg_get_userbyid(c.relowner)" => Some(USER.to_owned()),
            "pg_size_pretty(pg_table_size(c.oid))" => Some("8192 bytes".to_owned()),
            "obj_description(c.oid, 'pg_class')" => self.notes.comment.clone(),
            _ if text.starts_with("array_to_string(array(select ") => Some(String::new()),
            _ => return None,
        })
    }
}

/// How a sequence depends on its column.
fn deptype(identity: bool) -> &'static str {
    if identity { "i" } else { "a" }
}
