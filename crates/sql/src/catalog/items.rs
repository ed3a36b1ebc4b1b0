//! Rows of the forms of tables and indexes, and the meaning of what a query asks of them.
//!
//! Invariants: an item is known by its whole text, in normal spelling; what a row does not know is
//! refused.
//! Does not do: expressions in general.

use rightlink::{ColumnDefault, ColumnSchema};
use sqlparser::ast;

use super::asked::{self, Meaning};
use super::forms::Rows;
use super::objects::{Object, Objects, keys};
use super::{constraints, normal};
use crate::bind::ddl::storage;
use crate::expr::deparse::{identifier, literal};
use crate::plan::notes::ColumnNotes;
use crate::schemas::reference;

/// A row of such a query.
pub(super) struct Row<'o> {
    object: Object<'o>,
    /// Of a query of columns: number from 1, and the column.
    column: Option<(usize, &'o ColumnSchema)>,
    /// Is it one of the indexes of a table that was asked for?
    of_table: bool,
}

/// The rows of a form whose rows are of tables and indexes.
pub(super) fn rows(rows: Rows, objects: &Objects) -> Vec<Row<'_>> {
    let all = objects.all().into_iter();
    let row = |object, of_table| Row { object, column: None, of_table };
    match rows {
        Rows::Columns => all.flat_map(of_columns).collect(),
        Rows::Indexes | Rows::TableIndexes => {
            let indexes = all.filter(|object| object.index.is_some());
            indexes.map(|object| row(object, rows == Rows::TableIndexes)).collect()
        }
        _ => all.map(|object| row(object, false)).collect(),
    }
}

impl Row<'_> {
    /// As the store calls its table or index.
    pub(super) fn stored(&self) -> &str {
        self.object.stored()
    }
}

fn of_columns(object: Object<'_>) -> Vec<Row<'_>> {
    let table = &object.table.columns;
    let columns: Vec<&ColumnSchema> = match object.index {
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

/// The value of an item that says itself what it is, or what it is for each value of a column:
/// `None` if it is no such item.
pub(super) fn constant(item: &ast::Expr, row: &Meaning<'_>) -> Option<Option<String>> {
    let ast::Expr::Case { operand: Some(operand), conditions, else_result, .. } = item else {
        return asked::literal(item);
    };
    let value = row(&normal(&operand.to_string()))?;
    for arm in conditions {
        let wanted = asked::literal(&arm.condition)?;
        if value.is_some() && wanted == value {
            return asked::literal(&arm.result);
        }
    }
    match else_result {
        Some(rest) => asked::literal(rest),
        None => Some(None),
    }
}

/// The value of an item for a row: `None` if the item is not known, `Some(None)` for null.
pub(super) fn value(row: &Row<'_>, text: &str) -> Option<Option<String>> {
    let bool = |on: bool| Some(if on { "t" } else { "f" }.to_owned());
    if let Some((number, column)) = row.column {
        return of_column(row, number, column, text);
    }
    if row.of_table && !text.starts_with("c.") {
        return of_index(&row.object, text);
    }
    let object = &row.object;
    if row.of_table {
        return (text == "c.oid").then(|| Some(object.table_oid().to_string()));
    }
    let index = row.object.index;
    Some(match text {
        "c.oid" => Some(object.oid.to_string()),
        "n.nspname" => Some(row.object.schema().to_owned()),
        "c.relname" => Some(row.object.name().to_owned()),
        "c2.relname" => index.map(|_| object.table_name().to_owned()),
        "c.relkind" => Some(row.object.kind().to_string()),
        "c.relpersistence" => Some(row.object.persistence().to_string()),
        "c.reltablespace" | "c2.reltablespace" | "count(i.inhparent)" => Some("0".to_owned()),
        "c.relchecks" => Some(constraints::checks(row.object.table).len().to_string()),
        "c.relhastriggers" => bool(index.is_none() && constraints::has_keys(row.object.table)),
        "c.relhasindex" => bool(!row.object.table.indexes.is_empty() && index.is_none()),
        "c.relhasrules" | "c.relrowsecurity" | "c.relforcerowsecurity" | "c.relispartition" => {
            bool(false)
        }
        "c.relreplident" => Some("d".to_owned()),
        "am.amname" | "a.amname" => (!object.is_view()).then(|| object.method().to_owned()),
        "p.partstrat" | "array_to_string(c.relacl, e'\\n')" => None,
        // Nobody is given rights of columns, and there are no policies.
        _ if text.starts_with(
            "array_to_string(array(select attname || e':\\n  ' || array_to_string(attacl,",
        ) || text.starts_with("array_to_string(array(select polname ||") =>
        {
            Some(String::new())
        }
        "array_to_string(c.reloptions || array(select 'toast.' || x from unnest(tc.reloptions) x), \
         ', ')" => options(row),
        "case when c.reloftype = 0 then '' else c.reloftype::regtype::text end" => {
            Some(String::new())
        }
        "pg_get_userbyid(c.relowner)" => Some(crate::expr::system::USER.to_owned()),
        "pg_size_pretty(pg_table_size(c.oid))" => Some(size(object.blocks())),
        "obj_description(c.oid, 'pg_class')" => object.comment(),
        _ => return index.and_then(|_| of_index(object, text)),
    })
}

/// An item about an index.
fn of_index(object: &Object<'_>, text: &str) -> Option<Option<String>> {
    let index = object.index?;
    let bool = |on: bool| Some(if on { "t" } else { "f" }.to_owned());
    Some(match text {
        "i.indexrelid" => Some(object.oid.to_string()),
        "c2.relname" => Some(object.name().to_owned()),
        "c2.reltablespace" => Some("0".to_owned()),
        "i.indisclustered" | "i.indisreplident" => bool(false),
        "i.indnullsnotdistinct" => bool(index.nulls_not_distinct),
        "i.indisvalid" => bool(true),
        "i.indisunique" => bool(index.unique),
        "i.indisprimary" => bool(index.primary),
        "contype" => index.primary.then(|| "p".to_owned()),
        "condeferrable" | "condeferred" => bool(false),
        "pg_get_indexdef(i.indexrelid, 0, true)" => object.definition(true),
        "pg_get_constraintdef(con.oid, true)" => {
            index.primary.then(|| format!("PRIMARY KEY ({})", keys(index, object.table).join(", ")))
        }
        "pg_get_expr(i.indpred, i.indrelid, true)" => object.condition(true),
        // Constraints are checked at once.
        "(not i.indimmediate) and exists (select 1 from pg_constraint where conrelid = i.indrelid \
         and conindid = i.indexrelid and contype in ('p', 'u', 'x') and condeferrable)"
        | "(not i.indimmediate) and exists (select 1 from pg_constraint where conrelid = \
           i.indrelid and conindid = i.indexrelid and contype in ('p', 'u', 'x') and \
           condeferred)" => bool(false),
        _ => return None,
    })
}

fn of_column(
    row: &Row<'_>,
    number: usize,
    column: &ColumnSchema,
    text: &str,
) -> Option<Option<String>> {
    let index = row.object.index;
    let notes = ColumnNotes::decode(&column.note);
    let bool = |on: bool| Some(if on { "t" } else { "f" }.to_owned());
    Some(match text {
        "a.attrelid" | "c.oid" => Some(row.object.oid.to_string()),
        "c.relname" => Some(row.object.name().to_owned()),
        "c.relkind" => Some(row.object.kind().to_string()),
        "n.nspname" => Some(row.object.schema().to_owned()),
        "a.attname" => Some(column.name.clone()),
        "a.attnum" => Some(number.to_string()),
        "a.attisdropped" => bool(false),
        "a.attnotnull" => bool(!column.nullable && index.is_none()),
        "a.attidentity" => Some(match &column.identity {
            Some(identity) if !notes.serial && index.is_none() => {
                if identity.always { "a" } else { "d" }.to_owned()
            }
            _ => String::new(),
        }),
        "a.attgenerated" | "a.attcompression" => Some(String::new()),
        "a.attstorage" => {
            let varies = notes.type_of(column.kind).fixed_len() < 0;
            Some(if varies { "x" } else { "p" }.to_owned())
        }
        "format_type(a.atttypid, a.atttypmod)" => Some(type_name(column, &notes)),
        "(select pg_get_expr(d.adbin, d.adrelid, true) from pg_attrdef d where d.adrelid = \
         a.attrelid and d.adnum = a.attnum and a.atthasdef)" => {
            default_text(column, &notes).filter(|_| index.is_none())
        }
        "(select c.collname from pg_collation c, pg_type t where c.oid = a.attcollation and t.oid \
         = a.atttypid and a.attcollation <> t.typcollation)" => match index {
            None => {
                let locale = column.collation.as_ref().map(|known| known.name().to_owned());
                locale.or(notes.collation.map(|order| order.name().to_owned()))
            }
            Some(_) => None,
        },
        "case when a.attstattarget = -1 then null else a.attstattarget end" => None,
        "col_description(a.attrelid, a.attnum)" => notes.comment,
        "pg_get_indexdef(a.attrelid, a.attnum, true)" => {
            index.map(|index| match keys(index, row.object.table).get(number - 1) {
                Some(key) => key.clone(),
                None => identifier(&column.name),
            })
        }
        _ => {
            // Which columns are of the key: the index is named by its number.
            let head = "case when a.attnum <= (select i.indnkeyatts from pg_index i where \
                        i.indexrelid = '";
            let own = text.strip_prefix(head)?.strip_suffix("') then 'yes' else 'no' end")?;
            if own != row.object.oid.to_string() {
                return None;
            }
            let key = index.is_some_and(|index| number <= index.columns.len());
            Some(if key { "yes" } else { "no" }.to_owned())
        }
    })
}

/// The type of a column as it is declared.
pub(super) fn type_name(column: &ColumnSchema, notes: &ColumnNotes) -> String {
    notes.shown_type(column.kind)
}

/// The default of a column as SQL.
pub(super) fn default_text(column: &ColumnSchema, notes: &ColumnNotes) -> Option<String> {
    if let Some(identity) = column.identity.as_ref().filter(|_| notes.serial) {
        return Some(format!("nextval({}::regclass)", literal(&reference(&identity.sequence))));
    }
    if notes.default.is_some() {
        return notes.default.clone();
    }
    match column.default.as_ref()? {
        ColumnDefault::Value(value) => {
            let ty = notes.type_of(column.kind).name();
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
