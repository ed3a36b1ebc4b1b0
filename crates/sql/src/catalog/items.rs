//! Rows of known queries and the meaning of their items.
//!
//! Invariants: an item is known by its text, with aliases as psql and pgbench write them.
//! Does not do: expressions in general.

use rightlink::{ColumnDefault, ColumnInfo};

use super::asked::{Asked, Named, numbered};
use super::constraints;
use super::objects::{Object, Objects, keys};
use crate::bind::ddl::storage;
use crate::error::{Result, SqlError};
use crate::expr::deparse::{identifier, literal};
use crate::plan::notes::ColumnNotes;
use crate::schemas::{SearchPath, reference};
use crate::types::SqlType;

/// A row of such a query.
pub(super) struct Row<'o> {
    object: Object<'o>,
    /// Of a query of columns: number from 1, and the column.
    column: Option<(usize, &'o ColumnInfo)>,
    /// Is it one of the indexes of a table that was asked for?
    of_table: bool,
}

impl Row<'_> {
    /// The name of its table or index.
    pub(super) fn name(&self) -> &str {
        self.object.name()
    }

    /// Of its object.
    pub(super) fn schema(&self) -> &str {
        self.object.schema()
    }
}

/// The rows of a query that reads `relation` first, under a condition.
pub(super) fn rows<'o>(
    relation: &str,
    condition: &str,
    objects: &'o Objects,
    path: &SearchPath,
) -> Result<Vec<Row<'o>>> {
    let unknown = || SqlError::unsupported(format!("this query of the catalog {relation}"));
    let number = |marker| numbered(condition, marker);
    let all = objects.all();
    let row = |object: Object<'o>| Row { object, column: None, of_table: false };
    match relation {
        "pg_attribute" => {
            let oid = number("a.attrelid = ").ok_or_else(unknown)?;
            let found = all.into_iter().find(|object| object.oid == oid);
            Ok(found.map_or(Vec::new(), of_columns))
        }
        "pg_index" => {
            let oid = number("c.oid = ").ok_or_else(unknown)?;
            Ok(all.into_iter().filter(|object| object.oid == oid).map(row).collect())
        }
        // Nothing inherits, and nothing is a part of anything.
        "pg_class" if condition.contains("i.inhrelid") || condition.contains("i.inhparent") => {
            Ok(Vec::new())
        }
        "pg_class" if condition.contains("c.oid = i.indrelid") => {
            let oid = number("c.oid = ").ok_or_else(unknown)?;
            let table = all.iter().find(|object| object.oid == oid).map(|o| &o.table.name);
            let mut rows: Vec<Row<'o>> = all
                .iter()
                .filter(|object| object.index.is_some() && Some(&object.table.name) == table)
                .map(|object| Row { of_table: true, ..row(*object) })
                .collect();
            rows.sort_by_key(|row| !row.object.index.is_some_and(|index| index.primary));
            Ok(rows)
        }
        "pg_class" => {
            let asked = Asked::of(condition, number("c.oid = "));
            if asked.is_vague() {
                return Err(unknown());
            }
            let stored: Vec<&str> = all.iter().map(Object::stored).collect();
            let fits = |object: &Object<'_>| {
                let (oid, kind, name) = (object.oid, object.kind(), object.stored());
                asked.fits(&Named { oid, kind, stored: name }, path, &stored)
            };
            Ok(all.into_iter().filter(fits).map(row).collect())
        }
        _ => Err(unknown()),
    }
}

fn of_columns(object: Object<'_>) -> Vec<Row<'_>> {
    let table = &object.table.columns;
    let columns: Vec<&ColumnInfo> = match object.index {
        None => table.iter().collect(),
        Some(index) => {
            let find = |name: &String| table.iter().find(|column| column.name == *name);
            let names = index.columns.iter().map(|key| &key.name).chain(&index.included);
            names.filter_map(find).collect()
        }
    };
    let row = |(at, column)| Row { object, column: Some((at + 1, column)), of_table: false };
    columns.into_iter().enumerate().map(row).collect()
}

/// The value of an item for a row: `None` if the item is not known, `Some(None)` for null.
pub(super) fn value(row: &Row<'_>, text: &str, name: &str) -> Option<Option<String>> {
    let bool = |on: bool| Some(if on { "t" } else { "f" }.to_owned());
    if let Some(inner) = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return Some(Some(inner.to_owned()));
    }
    match text {
        "true" | "false" => return Some(bool(text == "true")),
        "null" => return Some(None),
        _ => {}
    }
    if let Some((number, column)) = row.column
        && let Some(value) = of_column(row, number, column, text, name)
    {
        return Some(value);
    }
    let index = row.object.index;
    Some(match text {
        "c.oid" | "i.indexrelid" => Some(row.object.oid.to_string()),
        "n.nspname" => Some(row.object.schema().to_owned()),
        "c.relname" => Some(row.object.name().to_owned()),
        // Of the indexes of a table the second relation is the index, of an index it is the table.
        "c2.relname" if row.of_table => Some(row.object.name().to_owned()),
        "c2.relname" => index.map(|_| row.object.table_name().to_owned()),
        "c.relkind" => Some(row.object.kind().to_string()),
        "c.relpersistence" => Some(row.object.persistence().to_string()),
        "c.reltablespace" | "c2.reltablespace" | "count(i.inhparent)" => Some("0".to_owned()),
        "c.relchecks" => Some(constraints::checks(row.object.table).len().to_string()),
        "c.relhastriggers" => bool(index.is_none() && constraints::has_keys(row.object.table)),
        "c.relhasindex" => bool(!row.object.table.indexes.is_empty() && index.is_none()),
        "c.relhasrules"
        | "c.relrowsecurity"
        | "c.relforcerowsecurity"
        | "c.relispartition"
        | "i.indisclustered"
        | "i.indisreplident" => bool(false),
        "i.indnullsnotdistinct" => bool(index.is_some_and(|index| index.nulls_not_distinct)),
        "c.relreplident" => Some("d".to_owned()),
        "am.amname" | "a.amname" => Some(row.object.method().to_owned()),
        "i.indisvalid" => bool(true),
        "i.indisunique" => bool(index.is_some_and(|index| index.unique)),
        "i.indisprimary" => bool(index.is_some_and(|index| index.primary)),
        "contype" => index.filter(|index| index.primary).map(|_| "p".to_owned()),
        "condeferrable" | "condeferred" => bool(false),
        "p.partstrat" => None,
        // Where "public" stands in the search path, after the catalogs.
        "o.n" => Some("2".to_owned()),
        _ if text.starts_with("pg_get_indexdef(i.indexrelid") => row.object.definition(true),
        _ if text.starts_with("pg_get_constraintdef(") => index
            .filter(|index| index.primary)
            .map(|index| format!("PRIMARY KEY ({})", keys(index, row.object.table).join(", "))),
        _ if text.starts_with("array_to_string(c.reloptions") => options(row),
        _ if text.starts_with("case when c.reloftype") => Some(String::new()),
        _ if text.starts_with("pg_get_expr(i.indpred") => row.object.condition(true),
        _ if text.contains("i.indimmediate") => bool(false),
        _ if text.starts_with("pg_get_userbyid(") => Some(crate::expr::system::USER.to_owned()),
        _ if text.starts_with("pg_size_pretty(") => Some(size(row.object.blocks())),
        _ if text.starts_with("obj_description(") => row.object.comment(),
        _ if text.starts_with("case c.relkind") => {
            Some(if index.is_some() { "index" } else { "table" }.to_owned())
        }
        _ if text.starts_with("case c.relpersistence") => {
            let logged = row.object.table.logged;
            Some(if logged { "permanent" } else { "unlogged" }.to_owned())
        }
        _ => return None,
    })
}

fn of_column(
    row: &Row<'_>,
    number: usize,
    column: &ColumnInfo,
    text: &str,
    name: &str,
) -> Option<Option<String>> {
    let index = row.object.index;
    let notes = ColumnNotes::decode(&column.note);
    Some(match text {
        "a.attname" => Some(column.name.clone()),
        "a.attnum" => Some(number.to_string()),
        "a.attnotnull" => {
            Some(if column.nullable || index.is_some() { "f" } else { "t" }.to_owned())
        }
        "a.attidentity" => Some(match &column.identity {
            Some(identity) if !notes.serial && index.is_none() => {
                if identity.always { "a" } else { "d" }.to_owned()
            }
            _ => String::new(),
        }),
        "a.attgenerated" | "a.attcompression" => Some(String::new()),
        "a.attstorage" => {
            let varies = SqlType::of_column(column.kind).fixed_len() < 0;
            Some(if varies { "x" } else { "p" }.to_owned())
        }
        _ if text.starts_with("format_type(") => Some(type_name(column, &notes)),
        _ if text.contains("pg_attrdef") => {
            default_text(column, &notes).filter(|_| index.is_none())
        }
        _ if name == "attcollation" => match index {
            None => column.collation.as_ref().map(|known| known.name().to_owned()),
            Some(_) => None,
        },
        _ if text.contains("a.attstattarget") => None,
        _ if text.starts_with("col_description(") => notes.comment,
        _ if name == "is_key" => {
            let key = index.is_none_or(|index| number <= index.columns.len());
            Some(if key { "yes" } else { "no" }.to_owned())
        }
        _ if name == "indexdef" => {
            index.map(|index| match keys(index, row.object.table).get(number - 1) {
                Some(key) => key.clone(),
                None => identifier(&column.name),
            })
        }
        _ => return None,
    })
}

/// The type of a column as it is declared.
pub(super) fn type_name(column: &ColumnInfo, notes: &ColumnNotes) -> String {
    match notes.modifier {
        Some(modifier) => modifier.to_string(),
        None => SqlType::of_column(column.kind).name().to_owned(),
    }
}

/// The default of a column as SQL.
pub(super) fn default_text(column: &ColumnInfo, notes: &ColumnNotes) -> Option<String> {
    if let Some(identity) = column.identity.as_ref().filter(|_| notes.serial) {
        return Some(format!("nextval({}::regclass)", literal(&reference(&identity.sequence))));
    }
    if notes.default.is_some() {
        return notes.default.clone();
    }
    match column.default.as_ref()? {
        ColumnDefault::Value(value) => {
            let ty = SqlType::of_column(column.kind).name();
            Some(format!("{}::{ty}", literal(&value.to_string())))
        }
        ColumnDefault::Now => Some("now()".to_owned()),
        ColumnDefault::RandomUuid => Some("gen_random_uuid()".to_owned()),
    }
}

fn options(row: &Row<'_>) -> Option<String> {
    let table = row.object.table;
    let shown = match row.object.index {
        Some(_) => Vec::new(),
        None => storage::shown(table.fillfactor, table.auto_vacuum),
    };
    Some(shown.join(", "))
}

/// A size as `pg_size_pretty` prints it.
fn size(blocks: u32) -> String {
    let mut size = u64::from(blocks) * 8_192;
    let mut unit = "bytes";
    for larger in ["kB", "MB", "GB", "TB"] {
        if size < 10 * 1_024 {
            break;
        }
        size = (size + 512) / 1_024;
        unit = larger;
    }
    format!("{size} {unit}")
}
