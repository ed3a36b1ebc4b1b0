//! What ANALYZE finds out about tables, and what that says about conditions.
//!
//! | file | hides |
//! |---|---|
//! | `sample` | rows of a table chosen by chance, in bounded memory |
//! | `share` | the share of rows that a comparison with a value is true of |
//! | `shared` | one copy of statistics for all plans that were made by them |
//! | `store` | where statistics are kept |
//! | `record` | when a table was analyzed, and what has changed since |
//!
//! Invariants: statistics decide which way rows are found, never which rows those are; what is
//! encoded decodes to equal statistics, and what does not decode is as if it were not there.
//! Does not do: several columns together, expressions.

pub(crate) mod record;
pub(crate) mod sample;
mod share;
mod shared;
pub(crate) mod store;

use std::borrow::Cow;
use std::collections::HashMap;

use rightlink_env::sync::{AtomicU64, Mutex, OnceLock, Ordering};

use self::record::Record;
use crate::notes::{line, lines};
use crate::types::{Datum, SqlType};

/// What is known about a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Statistics {
    /// Rows when it was analyzed, and blocks that could have some.
    pub(crate) rows: f64,
    pub(crate) blocks: f64,
    pub(crate) columns: Vec<ColumnStatistics>,
    pub(crate) record: Record,
}

/// What is known about a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnStatistics {
    pub(crate) name: String,
    /// Its type when it was analyzed.
    pub(crate) ty: SqlType,
    /// Share of nulls.
    pub(crate) nulls: f64,
    /// Mean bytes of the others.
    pub(crate) width: f64,
    /// Number of different values; negative where it grows with the table: a share of the rows.
    pub(crate) distinct: f64,
    /// The most common values and the share of rows that each has, the most common first.
    pub(crate) common: Vec<(Datum, f64)>,
    /// Values that cut the others, in order, into parts with equally many rows.
    pub(crate) bounds: Vec<Datum>,
    /// Of the order of values with the order of rows in the table.
    pub(crate) correlation: Option<f64>,
}

impl Statistics {
    /// Of the column called `name`, if it still has the type that it was analyzed with.
    pub(crate) fn column(&self, name: &str, ty: SqlType) -> Option<&ColumnStatistics> {
        let ty = kept_type(ty);
        self.columns.iter().find(|column| column.name == name && column.ty == ty)
    }

    /// As these, with what `fresh` knows better. Only columns in `present` are kept.
    pub(crate) fn renewed(mut self, fresh: Statistics, present: &[String]) -> Statistics {
        (self.rows, self.blocks) = (fresh.rows, fresh.blocks);
        self.record = fresh.record.behind(self.record);
        let renewed = |name: &String| fresh.columns.iter().any(|column| column.name == *name);
        self.columns.retain(|column| present.contains(&column.name) && !renewed(&column.name));
        self.columns.extend(fresh.columns);
        self.columns.sort_by(|a, b| a.name.cmp(&b.name));
        self
    }

    pub(crate) fn encode(&self) -> String {
        let mut out = String::new();
        line(&mut out, &["table", &self.rows.to_string(), &self.blocks.to_string()]);
        self.record.encode(&mut out);
        for column in &self.columns {
            column.encode(&mut out);
        }
        out
    }

    pub(crate) fn decode(text: &str) -> Option<Statistics> {
        let mut found: Option<Statistics> = None;
        for fields in lines(text) {
            let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
            match (fields.as_slice(), &mut found) {
                (["table", rows, blocks], None) => {
                    let (rows, blocks) = (number(rows)?, number(blocks)?);
                    found = Some(Statistics { rows, blocks, ..Statistics::default() });
                }
                (["analyzed", rest @ ..], Some(found)) => found.record = Record::decode(rest)?,
                (["column", rest @ ..], Some(found)) => {
                    found.columns.push(ColumnStatistics::decode(rest)?);
                }
                (["common", rest @ ..], Some(found)) => {
                    let column = found.columns.last_mut()?;
                    for pair in rest.chunks_exact(2) {
                        column.common.push((value(column.ty, pair[1])?, number(pair[0])?));
                    }
                }
                (["bounds", rest @ ..], Some(found)) => {
                    let column = found.columns.last_mut()?;
                    let bounds = rest.iter().map(|text| value(column.ty, text));
                    column.bounds = bounds.collect::<Option<_>>()?;
                }
                (_, None) => return None,
                _ => {}
            }
        }
        found
    }
}

impl ColumnStatistics {
    fn encode(&self, out: &mut String) {
        let [nulls, width, distinct] =
            [self.nulls, self.width, self.distinct].map(|number| number.to_string());
        let correlation = self.correlation.map(|number| number.to_string()).unwrap_or_default();
        let ty = self.ty.name();
        line(out, &["column", &self.name, ty, &nulls, &width, &distinct, &correlation]);
        if !self.common.is_empty() {
            let mut fields = vec!["common".to_owned()];
            for (value, share) in &self.common {
                fields.extend([share.to_string(), value.to_text().unwrap_or_default()]);
            }
            line(out, &fields.iter().map(String::as_str).collect::<Vec<_>>());
        }
        if !self.bounds.is_empty() {
            let mut fields = vec!["bounds".to_owned()];
            fields.extend(self.bounds.iter().map(|bound| bound.to_text().unwrap_or_default()));
            line(out, &fields.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }

    fn decode(fields: &[&str]) -> Option<ColumnStatistics> {
        let [name, ty, nulls, width, distinct, correlation] = fields else { return None };
        Some(ColumnStatistics {
            name: (*name).to_owned(),
            ty: SqlType::of_full_name(ty)?,
            nulls: number(nulls)?,
            width: number(width)?,
            distinct: number(distinct)?,
            common: Vec::new(),
            bounds: Vec::new(),
            correlation: number(correlation),
        })
    }
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

fn value(ty: SqlType, text: &str) -> Option<Datum> {
    Datum::from_text(ty, text).ok()
}

/// The type of what is known about values of type `ty`: the bytes that the store keeps for them,
/// where those compare as they do. Codes of labels stay what they are when labels get other names.
pub(crate) fn kept_type(ty: SqlType) -> SqlType {
    if matches!(ty, SqlType::Enum(_)) || ty.is_coded() { SqlType::Bytea } else { ty }
}

/// A value as one of [`kept_type`].
fn kept_value(value: &Datum) -> Cow<'_, Datum> {
    value.code().map_or(Cow::Borrowed(value), |code| Cow::Owned(Datum::Bytes(code)))
}

/// When statistics changed in this process: editions are counted.
#[derive(Default)]
struct Editions {
    last: AtomicU64,
    /// Of each table that was analyzed the edition of its last change, by numbers of tables. Those
    /// of several databases may meet here: then a plan is made again in vain.
    tables: Mutex<HashMap<u32, u64>>,
}

fn editions() -> &'static Editions {
    static EDITIONS: OnceLock<Editions> = OnceLock::new();
    EDITIONS.get_or_init(Editions::default)
}

/// The last edition.
pub(crate) fn edition() -> u64 {
    editions().last.load(Ordering::Acquire)
}

/// Statistics of a table have changed: plans that were made by those before are made again.
pub(crate) fn changed(table: u32) {
    let Editions { last, tables } = editions();
    let mut tables = tables.lock();
    let edition = last.load(Ordering::Acquire) + 1;
    tables.insert(table, edition);
    last.store(edition, Ordering::Release);
}

/// Have those of one of these tables changed after an edition?
pub(crate) fn changed_since(edition: u64, mut tables: impl Iterator<Item = u32>) -> bool {
    let known = editions().tables.lock();
    tables.any(|table| known.get(&table).is_some_and(|changed| *changed > edition))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_round_trip() {
        let text = |text: &str| Datum::Text(text.to_owned());
        let column = ColumnStatistics {
            name: "a\tb".into(),
            ty: SqlType::Text,
            nulls: 0.125,
            width: 7.5,
            distinct: -0.3,
            common: vec![(text(""), 0.5), (text("x\n\\"), 0.1)],
            bounds: vec![text("\t"), text("b"), text("c")],
            correlation: Some(-0.25),
        };
        let plain = ColumnStatistics {
            name: "n".into(),
            ty: SqlType::Int4,
            common: Vec::new(),
            bounds: Vec::new(),
            correlation: None,
            ..column.clone()
        };
        let columns = vec![column, plain];
        let record = Record { counts: [3, 1], last: [7, 5], changes: 9, process: 2 };
        let all = Statistics { rows: 1e7, blocks: 3.0, columns, record };
        assert_eq!(Statistics::decode(&all.encode()).as_ref(), Some(&all));
        for text in ["", "no", "column\ta", "table\t1\tx", "table\t1\t2\ncolumn\tx"] {
            assert_eq!(Statistics::decode(text), None, "{text:?}");
        }
        let (columns, record) = (vec![all.columns[1].clone()], Record::default());
        let fresh = Statistics { rows: 5.0, blocks: 1.0, columns, record };
        let renewed = all.renewed(fresh, &["n".to_owned()]);
        assert_eq!((renewed.rows, renewed.columns.len()), (5.0, 1));
    }
}
