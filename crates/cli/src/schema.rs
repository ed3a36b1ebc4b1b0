//! Definitions as they are typed: `--schema`, `--primary-key`, `--index`.
//!
//! Invariants: what cannot be read is refused with the piece that is wrong.
//! Does not do: limits and name clashes, which the catalog checks.

use rightlink::{
    Collation, ColumnSchema, IndexMethod, IndexSchema, KeyCollation, KeyColumn, TableInfo, Type,
};

use crate::clauses;
use crate::failure::Failure;

/// Reads `col type [collate locale [nondeterministic]] [null], ...`.
pub(crate) fn columns(text: &str) -> Result<Vec<ColumnSchema>, Failure> {
    text.split(',').map(|part| column(part.trim())).collect()
}

fn column(part: &str) -> Result<ColumnSchema, Failure> {
    let bad = || {
        Failure::usage(format!(
            "--schema: {part:?} is not \"column type [collate LOCALE [nondeterministic]] [null]\""
        ))
    };
    let mut words: Vec<&str> = part.split_whitespace().collect();
    let nullable = words.last().is_some_and(|word| word.eq_ignore_ascii_case("null"));
    if nullable {
        words.pop();
        if words.last().is_some_and(|word| word.eq_ignore_ascii_case("not")) {
            words.pop();
            return Ok(ColumnSchema { nullable: false, ..column(&words.join(" "))? });
        }
    }
    let (words, collation) =
        collation(&words).map_err(|what| Failure::usage(format!("--schema: {part:?}: {what}")))?;
    let (name, kind) = words.split_first().ok_or_else(bad)?;
    if kind.is_empty() {
        return Err(bad());
    }
    let kind = kind.join(" ");
    let kind = Type::from_name(&kind).ok_or_else(|| unknown_type(name, &kind))?;
    Ok(ColumnSchema { nullable, collation, ..ColumnSchema::new(*name, kind) })
}

/// What stands before `collate LOCALE [nondeterministic]` at the end of `words`, and that.
fn collation<'w, 't>(words: &'w [&'t str]) -> Result<(&'w [&'t str], Option<Collation>), String> {
    let is = |word: &str, known: &str| word.eq_ignore_ascii_case(known);
    let Some(at) = words.iter().position(|word| is(word, "collate")) else {
        return Ok((words, None));
    };
    let deterministic = match &words[at + 1..] {
        [_] => true,
        [_, last] if is(last, "nondeterministic") => false,
        _ => return Err("collate is followed by a locale such as en-US".to_owned()),
    };
    let made = Collation::new(words[at + 1], deterministic);
    Ok((&words[..at], Some(made.map_err(|error| error.to_string())?)))
}

fn unknown_type(column: &str, kind: &str) -> Failure {
    let names: Vec<&str> = Type::ALL.iter().map(|ty| ty.name()).collect();
    let list = names.join(", ");
    Failure::usage(format!("--schema: column {column}: no type {kind:?}; there are: {list}"))
}

/// Reads `name=col[,col desc nulls last]...`, or `name=method(col...)`, and what may follow: see
/// `clauses`. The columns of the table say the types of constants.
pub(crate) fn index(
    text: &str,
    unique: bool,
    columns_of: &[(&str, Type)],
) -> Result<IndexSchema, Failure> {
    let bad = |part: &str| {
        let form = "name=col[,col [desc] [nulls first|last]]... or name=hash(col[,col]...), then \
                    [include (col[,col]...)] [nulls not distinct] [where col >= 5 and ...]";
        Failure::usage(format!("index {text:?}: {part:?} does not fit {form}"))
    };
    let (name, columns) = text.split_once('=').ok_or_else(|| bad(text))?;
    if name.trim().is_empty() {
        return Err(bad(text));
    }
    let mut index = IndexSchema::new(name.trim());
    index.unique = unique;
    let parts = clauses::parts(columns).ok_or_else(|| bad(columns))?;
    let (method, columns) = split_method(parts.key).ok_or_else(|| bad(parts.key))?;
    index.method = method;
    for part in columns.split(',') {
        index = index.key(key_column(part).ok_or_else(|| bad(part))?);
    }
    index.nulls_not_distinct = parts.nulls_not_distinct;
    for part in parts.include.into_iter().flat_map(|list| list.split(',')) {
        if part.trim().is_empty() {
            return Err(bad(part));
        }
        index.included.push(part.trim().to_owned());
    }
    if let Some(only) = parts.only {
        let kind = |name: &str| columns_of.iter().find(|(own, _)| *own == name).map(|(_, ty)| *ty);
        index.predicate = Some(clauses::predicate(only, &kind).map_err(|part| bad(&part))?);
    }
    Ok(index)
}

/// The method of `method(columns)`, and the columns; without one it is a tree.
fn split_method(text: &str) -> Option<(IndexMethod, &str)> {
    let Some((name, rest)) = text.split_once('(') else {
        return Some((IndexMethod::default(), text));
    };
    Some((IndexMethod::from_name(name.trim())?, rest.strip_suffix(')')?))
}

/// Reads `col [collate locale [nondeterministic]] [asc|desc] [nulls first|last]`.
fn key_column(text: &str) -> Option<KeyColumn> {
    let lower = text.to_ascii_lowercase();
    let words: Vec<&str> = lower.split_whitespace().collect();
    let name = text.split_whitespace().next()?.to_owned();
    let (words, collation) = match words.iter().position(|word| *word == "collate") {
        Some(at) => {
            let nondeterministic = words.get(at + 2) == Some(&"nondeterministic");
            let end = at + 2 + usize::from(nondeterministic);
            let (_, given) = collation(words.get(at..end)?).ok()?;
            ([&words[..at], &words[end..]].concat(), given.map(KeyCollation::Given))
        }
        None => (words, None),
    };
    let (descending, rest) = match words.get(1).copied() {
        Some("desc") => (true, &words[2..]),
        Some("asc") => (false, &words[2..]),
        _ => (false, &words[1..]),
    };
    let nulls_first = match rest {
        [] => descending,
        ["nulls", "first"] => true,
        ["nulls", "last"] => false,
        _ => return None,
    };
    let collation = collation.unwrap_or_default();
    Some(KeyColumn { name, descending, nulls_first, collation })
}

/// Does the table have an index exactly as wanted?
pub(crate) fn has_index(table: &TableInfo, wanted: &IndexSchema) -> bool {
    let mut wanted = wanted.clone();
    for key in wanted.columns.iter_mut().filter(|key| key.collation == KeyCollation::OfColumn) {
        let column = table.columns.iter().find(|own| own.name == key.name);
        key.collation = column.and_then(|own| own.collation.clone()).into();
    }
    table.indexes.iter().any(|index| index.schema == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(column: &ColumnSchema) -> (&str, Type, bool) {
        (&column.name, column.kind, column.nullable)
    }

    #[test]
    fn columns_are_read() {
        let text = "id int8, name text NULL,x double precision , y int4 not null";
        let read = columns(text).expect("all are good");
        let read: Vec<_> = read.iter().map(words).collect();
        let expected = [
            ("id", Type::Int8, false),
            ("name", Type::Text, true),
            ("x", Type::Float8, false),
            ("y", Type::Int4, false),
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn bad_columns_are_named() {
        let message = |text| columns(text).expect_err("it is bad").message;
        assert!(message("id").contains("\"id\" is not"));
        assert!(message("id int8,").contains("\"\" is not"));
        assert!(message("id number").contains("no type \"number\"; there are: bool, int2"));
        assert!(message("null").contains("is not"));
    }

    #[test]
    fn indexes_are_read() {
        let index = |text: &str, unique| super::index(text, unique, &[("x", Type::Int4)]);
        let read = index("i=a include (b, c) nulls not distinct where x > 3", true).expect("good");
        assert_eq!(read.included, ["b", "c"]);
        assert!(read.nulls_not_distinct);
        assert_eq!(read.predicate.map(|p| p.to_string()).as_deref(), Some("x > 3"));
        let read = index("i= a ,b DESC, c asc nulls first,d desc nulls last", true).expect("good");
        let columns: Vec<_> =
            read.columns.iter().map(|c| (c.name.as_str(), c.descending, c.nulls_first)).collect();
        assert_eq!((read.name.as_str(), read.unique), ("i", true));
        let expected =
            [("a", false, false), ("b", true, true), ("c", false, true), ("d", true, false)];
        assert_eq!(columns, expected);
    }

    #[test]
    fn collations_are_read() {
        let read =
            columns("a text collate sv null, b text COLLATE und-u-ks-level2 nondeterministic")
                .expect("all are good");
        let shown = |column: &ColumnSchema| column.collation.as_ref().map(ToString::to_string);
        assert_eq!(shown(&read[0]).as_deref(), Some("sv"));
        assert_eq!(shown(&read[1]).as_deref(), Some("und-u-ks-level2 nondeterministic"));
        assert!(read[0].nullable && !read[1].nullable);
        for bad in ["a text collate", "a text collate x y", "a text collate en nondeterministic b"]
        {
            assert!(columns(bad).is_err(), "{bad}");
        }
        let text = "i=a collate de desc, b collate en_US nondeterministic nulls first, c";
        let read = index(text, false, &[]).expect("good");
        let by = |key: &KeyColumn| match &key.collation {
            KeyCollation::Given(collation) => collation.to_string(),
            other => format!("{other:?}"),
        };
        let shown: Vec<String> = read.columns.iter().map(by).collect();
        assert_eq!(shown, ["de", "en-US nondeterministic", "OfColumn"]);
        assert!(read.columns[0].descending && read.columns[1].nulls_first);
        assert!(index("i=a collate", false, &[]).is_err());
    }

    #[test]
    fn a_method_is_read() {
        let index = |text: &str, unique| super::index(text, unique, &[]);
        let read = index("i=hash(a, b)", false).expect("good");
        assert_eq!((read.method, read.columns.len()), (IndexMethod::Hash, 2));
        let read = index("i = BTree(a desc)", false).expect("good");
        assert!(read.method == IndexMethod::BTree && read.columns[0].descending);
    }

    #[test]
    fn bad_indexes_are_refused() {
        for text in [
            "i",
            "=a",
            "i=",
            "i=a,,b",
            "i=a down",
            "i=a desc nulls",
            "i=a nulls first x",
            "i=hash(a",
            "i=heap(a)",
            "i=hash()",
            "i=hash(a)b",
            "i=a include b",
            "i=a include (b,)",
            "i=a where b = 1",
            "i=a where",
        ] {
            assert!(index(text, false, &[]).is_err(), "{text}");
        }
    }
}
