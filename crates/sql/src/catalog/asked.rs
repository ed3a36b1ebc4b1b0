//! Which relations a known query of a catalog means by its condition.
//!
//! Does not do: conditions in general; those that psql and drivers write are known by their text.

use super::pattern;
use crate::schemas::{SearchPath, bare, schema_of};

/// The text in quotes after `marker`.
pub(super) fn quoted<'t>(text: &'t str, marker: &str) -> Option<&'t str> {
    let rest = text.split_once(marker)?.1.strip_prefix('\'')?;
    rest.split_once('\'').map(|(inner, _)| inner)
}

/// The number in quotes after `marker`.
pub(super) fn numbered(text: &str, marker: &str) -> Option<u32> {
    quoted(text, marker).and_then(|text| text.parse().ok())
}

/// What a condition says of numbers, names and kinds.
pub(super) struct Asked<'t> {
    oid: Option<u32>,
    name: Option<&'t str>,
    /// A pattern of names.
    wanted: Option<&'t str>,
    /// A list of kinds.
    kinds: Option<&'t str>,
    /// A pattern of names of schemas.
    schemas: Option<&'t str>,
    schema: Option<&'t str>,
    /// Only what the search path shows?
    visible: bool,
}

/// A relation.
pub(super) struct Named<'n> {
    pub(super) oid: u32,
    pub(super) kind: char,
    /// As the store calls it.
    pub(super) stored: &'n str,
}

impl<'t> Asked<'t> {
    /// What `condition` says of names and kinds, of the relation numbered `oid` if there is one.
    pub(super) fn of(condition: &'t str, oid: Option<u32>) -> Asked<'t> {
        let kinds =
            condition.split_once("c.relkind in (").and_then(|(_, rest)| rest.split_once(')'));
        Asked {
            oid,
            name: quoted(condition, "c.relname = "),
            wanted: quoted(condition, "c.relname operator(~) "),
            kinds: kinds.map(|(list, _)| list),
            schemas: quoted(condition, "n.nspname operator(~) "),
            schema: quoted(condition, "n.nspname = "),
            visible: condition.contains("pg_table_is_visible(")
                || condition.contains("o.n is not null"),
        }
    }

    /// Does it say too little to be known?
    pub(super) fn is_vague(&self) -> bool {
        let Asked { oid, name, wanted, kinds, .. } = self;
        oid.is_none() && name.is_none() && wanted.is_none() && kinds.is_none()
    }

    /// Is this one meant? `all` are the names of all relations there are.
    pub(super) fn fits(&self, one: &Named<'_>, path: &SearchPath, all: &[&str]) -> bool {
        let (name, schema) = (bare(one.stored), schema_of(one.stored));
        self.oid.is_none_or(|oid| one.oid == oid)
            && self.name.is_none_or(|wanted| name == wanted)
            && self.wanted.is_none_or(|wanted| pattern::matches(wanted, name))
            && self.kinds.is_none_or(|kinds| kinds.contains(&format!("'{}'", one.kind)))
            && self.schemas.is_none_or(|wanted| pattern::matches(wanted, schema))
            && self.schema.is_none_or(|wanted| schema == wanted)
            && (!self.visible || path.shows(one.stored, all))
    }
}
