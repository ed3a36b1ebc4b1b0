//! Sequences, as catalogs tell of them: those of columns and those that stand by themselves.
//!
//! Does not do: where they are, which only `pg_sequences` tells.

use rightlink::{SequenceSchema, Transaction};

use super::asked::{Asked, Named, numbered};
use super::objects::{FIRST, Objects};
use crate::error::Result;
use crate::exec::ddl::sequence::type_of;
use crate::expr::deparse::identifier;
use crate::expr::system::USER;
use crate::plan::notes::{ColumnNotes, SequenceNotes};
use crate::schemas::{SearchPath, bare, full_reference, schema_of};
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
    for info in txn.tables()? {
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
    Ok(txn.sequences()?.into_iter().map(one).collect())
}

/// Those that a known query of `relation` means by its condition.
pub(super) fn asked(
    relation: &str,
    condition: &str,
    (txn, objects): (&mut Transaction, &Objects),
    path: &SearchPath,
) -> Result<Vec<Sequence>> {
    let number = |marker| numbered(condition, marker);
    let of_owner = number("d.objid = ");
    let oid = match relation {
        "pg_sequence" => number("seqrelid = "),
        "pg_class" => of_owner.or_else(|| number("c.oid = ")),
        _ => return Ok(Vec::new()),
    };
    // Indexes of a table, and what inherits from it.
    if condition.contains("c.oid = i.") || condition.contains("i.inh") {
        return Ok(Vec::new());
    }
    let asked = Asked::of(condition, oid);
    if asked.is_vague() {
        return Ok(Vec::new());
    }
    let known = all(txn)?;
    let names = known.iter().map(|one| one.schema.name.clone());
    let names: Vec<String> =
        names.chain(objects.all().iter().map(|object| object.stored().to_owned())).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let fits = |one: &Sequence| {
        let named = Named { oid: one.oid, kind: 'S', stored: &one.schema.name };
        asked.fits(&named, path, &names) && (of_owner.is_none() || one.owner.is_some())
    };
    Ok(known.into_iter().filter(fits).collect())
}

impl Sequence {
    /// Does it belong to an identity column?
    pub(super) fn is_identity(&self) -> bool {
        self.owner.as_ref().is_some_and(|(_, _, identity)| *identity)
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
        if let Some(inner) = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
            return Some(Some(inner.to_owned()));
        }
        let schema = &self.schema;
        Some(match text {
            "true" => Some("t".to_owned()),
            "c.oid" => Some(self.oid.to_string()),
            "n.nspname" => Some(self.schema().to_owned()),
            "c.relname" => Some(self.name().to_owned()),
            "c.relkind" => Some("S".to_owned()),
            "c.relpersistence" => Some("p".to_owned()),
            "c.relreplident" => Some("n".to_owned()),
            "c.reltablespace" | "c.relchecks" | "count(i.inhparent)" => Some("0".to_owned()),
            "false"
            | "c.relhasindex"
            | "c.relhasrules"
            | "c.relhastriggers"
            | "c.relrowsecurity"
            | "c.relforcerowsecurity"
            | "c.relispartition" => Some("f".to_owned()),
            "null" | "am.amname" | "p.partstrat" => None,
            "o.n" => Some("2".to_owned()),
            "seqstart" => Some(schema.start.to_string()),
            "seqmin" => Some(schema.min.to_string()),
            "seqmax" => Some(schema.max.to_string()),
            "seqincrement" => Some(schema.increment.to_string()),
            "seqcache" => Some(self.notes.cache.unwrap_or(1).to_string()),
            "d.deptype" => self.owner.as_ref().map(|owner| deptype(owner.2).to_owned()),
            _ if text.starts_with("case when seqcycle") => {
                Some(if schema.cycle { "yes" } else { "no" }.to_owned())
            }
            _ if text.starts_with("format_type(seqtypid") => Some(self.ty.name().to_owned()),
            _ if text.starts_with("quote_ident(nspname)") => {
                let name = |(table, column, _): &(String, String, bool)| {
                    format!("{}.{}", full_reference(table), identifier(column))
                };
                self.owner.as_ref().map(name)
            }
            _ if text.starts_with("array_to_string(c.reloptions")
                || text.starts_with("case when c.reloftype") =>
            {
                Some(String::new())
            }
            _ if text.starts_with("pg_get_userbyid(") => Some(USER.to_owned()),
            _ if text.starts_with("pg_size_pretty(") => Some("8192 bytes".to_owned()),
            _ if text.starts_with("obj_description(") => self.notes.comment.clone(),
            _ if text.starts_with("case c.relkind") => Some("sequence".to_owned()),
            _ if text.starts_with("case c.relpersistence") => Some("permanent".to_owned()),
            _ => return None,
        })
    }
}

/// How a sequence depends on its column.
fn deptype(identity: bool) -> &'static str {
    if identity { "i" } else { "a" }
}
