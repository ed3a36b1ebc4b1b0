//! A relation in FROM by its name alone.
//!
//! Does not do: finding the relation (`bind::from`).

use sqlparser::ast::{ObjectName, TableAlias, TableFactor};

/// A name in FROM without clauses of other systems, and its alias.
pub(crate) struct PlainTable<'f> {
    pub(crate) name: &'f ObjectName,
    pub(crate) alias: Option<&'f TableAlias>,
}

impl<'f> PlainTable<'f> {
    /// The name that `factor` is, if it is no more than that.
    pub(crate) fn of(factor: &'f TableFactor) -> Option<PlainTable<'f>> {
        match factor {
            TableFactor::Table {
                name,
                alias,
                args: None,
                with_hints,
                version: None,
                with_ordinality: false,
                partitions,
                json_path: None,
                sample: None,
                index_hints,
            } if with_hints.is_empty() && partitions.is_empty() && index_hints.is_empty() => {
                Some(PlainTable { name, alias: alias.as_ref() })
            }
            _ => None,
        }
    }
}
