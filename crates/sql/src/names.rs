//! Names of relations: the name in the store of what a client calls `schema.name`, the search path,
//! and identifiers as SQL writes them.
//!
//! The store's names have no schemas. A relation of `public` has its own name there; a relation of
//! schema `s` is called `s␟name`, and the schema itself is the empty table `s␟`, its mark. A type
//! is named as a relation would be, and kept as the empty table `s␟name␟type`, its entry; the entry
//! of a function is `s␟name␟function`, that of the second of its name `s␟name␟2␟function`.
//!
//! Invariants: no name of a client has the separator in it (`parse` refuses it).
//! Does not do: looking names up (`schemas`).

use std::collections::HashSet;
use std::sync::OnceLock;

/// What errors call a view.
pub(crate) const VIEW: &str = "view";

/// As messages call a materialized view.
pub(crate) const MATERIALIZED_VIEW: &str = "materialized view";

/// The schema that is always there.
pub(crate) const PUBLIC: &str = "public";
/// Between a schema and a name.
pub const SEPARATOR: char = '␟';
/// The table that statistics are kept in, as PostgreSQL calls it.
pub(crate) const STATISTICS: &str = "pg_statistic";
/// In front of the number of a column that has the values of an expression for indexes. Clients
/// cannot name it.
const COMPUTED: char = SEPARATOR;
/// In front of a name that was looked for and is in no schema of the path.
pub(crate) const NOWHERE: &str = "␟␟";
/// Behind the name of the table that a type is kept as.
const OF_TYPE: &str = "␟type";
/// Behind the name of the table that a function is kept as.
const OF_FUNCTION: &str = "␟function";
/// Longest name of a schema: with it the name of a column's sequence keeps the schema in front.
pub(crate) const MAX_BYTES: usize = 25;

/// What stands for the schema of a session's temporary tables; its name begins so.
pub(crate) const TEMPORARY: &str = "pg_temp";

/// Is it a schema of temporary tables?
pub(crate) fn is_temporary_schema(schema: &str) -> bool {
    schema.strip_prefix(TEMPORARY).is_some_and(|rest| rest.starts_with('_'))
}

/// Is it a name of the store in such a schema?
pub(crate) fn is_temporary(stored: &str) -> bool {
    is_temporary_schema(schema_of(stored))
}

/// The schemas of what is made up.
pub(crate) const CATALOGS: [&str; 2] = ["pg_catalog", "information_schema"];
/// A function of `information_schema`, which is found with its schema only.
pub(crate) const EXPANDED: &str = "information_schema._pg_expandarray";

/// What the store calls `name` of `schema`.
pub(crate) fn stored(schema: &str, name: &str) -> String {
    if schema == PUBLIC { name.to_owned() } else { format!("{schema}{SEPARATOR}{name}") }
}

/// The table that stands for a schema.
pub(crate) fn mark(schema: &str) -> String {
    format!("{schema}{SEPARATOR}")
}

/// The schema that a table stands for, if it does for one.
pub(crate) fn marked(stored: &str) -> Option<&str> {
    stored.strip_suffix(SEPARATOR)
}

/// The table that a type is kept as, which is named as a relation would be.
pub(crate) fn type_entry(stored: &str) -> String {
    format!("{}{SEPARATOR}{}{OF_TYPE}", schema_of(stored), bare(stored))
}

/// The name of the type that a table is the entry of, if it is one.
pub(crate) fn type_of_entry(entry: &str) -> Option<String> {
    let (schema, name) = entry.strip_suffix(OF_TYPE)?.split_once(SEPARATOR)?;
    Some(stored(schema, name))
}

/// The table that a function is kept as, which is named as a relation would be; of several of one
/// name they have numbers from 1 on.
pub(crate) fn function_entry(stored: &str, number: usize) -> String {
    let (schema, name) = (schema_of(stored), bare(stored));
    match number {
        ..=1 => format!("{schema}{SEPARATOR}{name}{OF_FUNCTION}"),
        _ => format!("{schema}{SEPARATOR}{name}{SEPARATOR}{number}{OF_FUNCTION}"),
    }
}

/// The name of the function that a table is the entry of, if it is one.
pub(crate) fn function_of_entry(entry: &str) -> Option<String> {
    let (schema, name) = entry.strip_suffix(OF_FUNCTION)?.split_once(SEPARATOR)?;
    let name = name.split_once(SEPARATOR).map_or(name, |(name, _)| name);
    Some(stored(schema, name))
}

/// The schema of a name of the store.
pub(crate) fn schema_of(stored: &str) -> &str {
    stored.split_once(SEPARATOR).map_or(PUBLIC, |(schema, _)| schema)
}

/// A name of the store without its schema.
pub(crate) fn bare(stored: &str) -> &str {
    stored.rsplit_once(SEPARATOR).map_or(stored, |(_, name)| name)
}

/// What `name` is called in the schema of `other`.
pub(crate) fn beside(other: &str, name: &str) -> String {
    stored(schema_of(other), name)
}

/// Text about names of the store as a client reads it: `s.name` for `s␟name`.
pub fn said(text: &str) -> String {
    text.replace(NOWHERE, "").replace(SEPARATOR, ".")
}

/// As SQL names it from anywhere, with quotes where they are needed; `public` is left out.
pub(crate) fn reference(stored: &str) -> String {
    match schema_of(stored) {
        PUBLIC => identifier(stored),
        schema => format!("{}.{}", identifier(schema), identifier(bare(stored))),
    }
}

/// As [`reference`], with the schema in front in any case.
pub(crate) fn full_reference(stored: &str) -> String {
    format!("{}.{}", identifier(schema_of(stored)), identifier(bare(stored)))
}

/// The store's name of what a person calls `schema.name`, or `name` if it is in `public`.
pub fn stored_name(shown: &str) -> String {
    match shown.split_once('.') {
        Some((schema, name)) => stored(schema, name),
        None => shown.to_owned(),
    }
}

/// A name of the store for a person: `schema.name`, or `name` if it is in `public`; `None` for the
/// table that stands for a schema, a type or a function.
pub fn shown_name(stored: &str) -> Option<String> {
    is_shown(stored).then(|| said(stored))
}

/// Is the relation an object for clients, and neither the mark of a schema nor the entry of a type
/// or a function?
pub(crate) fn is_shown(stored: &str) -> bool {
    marked(stored).is_none() && !stored.ends_with(OF_TYPE) && !stored.ends_with(OF_FUNCTION)
}

/// What the entry of a function calls an argument or a result without a name; `at` counts from 0.
pub(crate) fn unnamed(at: usize) -> String {
    format!("{SEPARATOR}{}", at + 1)
}

/// The name that the entry of a function has for a result that is called as an argument is.
pub(crate) fn as_result(name: &str) -> String {
    format!("{name}{SEPARATOR}")
}

/// The name that a user gave to what an entry has a column for.
pub(crate) fn given_name(column: &str) -> Option<&str> {
    let name = column.strip_suffix(SEPARATOR).unwrap_or(column);
    Some(name).filter(|name| !name.starts_with(SEPARATOR))
}

/// The name of the column that has the values of an expression for indexes.
pub(crate) fn computed(number: usize) -> String {
    format!("{COMPUTED}{number}")
}

/// Names that are given, with numbers behind those that stand before.
pub(crate) fn distinct(given: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for wanted in given {
        let mut free = wanted.clone();
        let mut number = 0;
        while names.contains(&free) {
            number += 1;
            free = format!("{wanted}{number}");
        }
        names.push(free);
    }
    names
}

/// Does a column of this name have the values of an expression?
pub(crate) fn is_computed(column: &str) -> bool {
    column.starts_with(COMPUTED)
}

/// Is it a table of this layer's own?
pub(crate) fn is_own(stored: &str) -> bool {
    stored == STATISTICS
}

/// Schemas in which names without one are looked for, in order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SearchPath {
    /// As the setting has them.
    named: Vec<String>,
    /// The schema of temporary tables, which comes before all others.
    temporary: Option<String>,
    /// How often something was made in that.
    made: u64,
}

impl Default for SearchPath {
    fn default() -> Self {
        SearchPath::of(vec![PUBLIC.to_owned()])
    }
}

impl SearchPath {
    fn of(named: Vec<String>) -> SearchPath {
        SearchPath { named, temporary: None, made: 0 }
    }

    /// The same with a schema of temporary tables, in which so many definitions were made.
    pub(crate) fn with_temporary(self, schema: &str, made: u64) -> SearchPath {
        SearchPath { temporary: Some(schema.to_owned()), made, ..self }
    }

    /// The schema of temporary tables, if there is one.
    pub(crate) fn temporary(&self) -> Option<&str> {
        self.temporary.as_deref()
    }

    /// Schemas in front of that of which a name in the path means the same until a definition is
    /// made there: those of temporary tables, which only the session itself makes.
    pub(crate) fn own(&self) -> usize {
        usize::from(self.temporary.is_some())
    }

    /// The path of a setting; `None` if it is no list of names. `"$user"` is no schema.
    pub(crate) fn parse(text: &str) -> Option<SearchPath> {
        let mut all: Vec<String> = Vec::new();
        if text.trim().is_empty() {
            return Some(SearchPath::of(all));
        }
        let mut rest = text;
        loop {
            let (name, after) = one_name(rest.trim_start())?;
            if name != "$user" && name != TEMPORARY && !all.contains(&name) {
                all.push(name);
            }
            rest = after.trim_start();
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => return rest.is_empty().then(|| SearchPath::of(all)),
            }
        }
    }

    /// All names in it, without the schema of temporary tables.
    pub(crate) fn all(&self) -> &[String] {
        &self.named
    }

    /// Those that tables can be in.
    pub(crate) fn of_tables(&self) -> impl Iterator<Item = &String> {
        self.temporary.iter().chain(self.of_new_tables())
    }

    /// Those that tables are made in.
    pub(crate) fn of_new_tables(&self) -> impl Iterator<Item = &String> {
        self.named.iter().filter(|schema| !CATALOGS.contains(&schema.as_str()))
    }

    /// Is it the path of those who set none?
    pub(crate) fn is_plain(&self) -> bool {
        self.temporary.is_none() && matches!(self.named.as_slice(), [only] if only == PUBLIC)
    }

    /// Is something in this schema named without it?
    pub(crate) fn has(&self, schema: &str) -> bool {
        self.named.iter().chain(&self.temporary).any(|known| known == schema)
    }

    /// Does the bare name mean this one, where `is_there` knows all that there are?
    pub(crate) fn shows(&self, stored: &str, is_there: impl Fn(&str) -> bool) -> bool {
        let schema = schema_of(stored);
        let mut before = self.of_tables().take_while(|known| *known != schema);
        let hidden = |first: &String| is_there(&self::stored(first, bare(stored)));
        self.has(schema) && !before.any(hidden)
    }

    /// A name of the store as a client with this path reads it in an error.
    pub(crate) fn shown(&self, stored: &str) -> String {
        if self.has(schema_of(stored)) { bare(stored).to_owned() } else { full(stored) }
    }
}

/// `schema.name`, also for `public`.
fn full(stored: &str) -> String {
    format!("{}.{}", schema_of(stored), bare(stored))
}

/// Takes a name, with or without quotes, and gives what follows.
pub(crate) fn one_name(text: &str) -> Option<(String, &str)> {
    if let Some(inner) = text.strip_prefix('"') {
        let mut name = String::new();
        let mut rest = inner;
        loop {
            let (part, after) = rest.split_once('"')?;
            name.push_str(part);
            match after.strip_prefix('"') {
                Some(more) => {
                    name.push('"');
                    rest = more;
                }
                None => return Some((name, after)),
            }
        }
    }
    let end = text.find(|c: char| c == ',' || c == '.' || c.is_whitespace());
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    (!name.is_empty() && !name.contains('"')).then(|| (name.to_lowercase(), rest))
}

/// A name, quoted where a parser would otherwise change it.
pub(crate) fn identifier(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '$')
        && !is_reserved(name);
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// Is a word no name without quotes?
fn is_reserved(word: &str) -> bool {
    static WORDS: OnceLock<HashSet<&str>> = OnceLock::new();
    WORDS.get_or_init(|| RESERVED.split(' ').collect()).contains(word)
}

/// Words that are no names without quotes: those that PostgreSQL does not call unreserved.
const RESERVED: &str = "\
    all analyse analyze and any array as asc asymmetric authorization between bigint binary bit \
    boolean both case cast char character check coalesce collate collation column concurrently \
    constraint create cross current_catalog current_date current_role current_schema \
    current_time current_timestamp current_user dec decimal default deferrable desc distinct do \
    else end except exists extract false fetch float for foreign freeze from full grant greatest \
    group grouping having ilike in initially inner inout int integer intersect interval into is \
    isnull join lateral leading least left like limit localtime localtimestamp national natural \
    nchar none normalize not notnull null nullif numeric offset on only or order out outer \
    overlaps overlay placing position precision primary real references returning right row \
    select session_user setof similar smallint some substring symmetric table tablesample then \
    time timestamp to trailing treat trim true union unique user using values varchar variadic \
    verbose when where window with xmlattributes xmlconcat xmlelement xmlexists xmlforest \
    xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_store_fall_apart_into_what_they_were_made_of() {
        for (schema, name) in [("public", "t"), ("s", "t"), ("s", "a.b")] {
            let stored = stored(schema, name);
            assert_eq!((schema_of(&stored), bare(&stored)), (schema, name));
            assert_eq!(beside(&stored, "x"), super::stored(schema, "x"));
        }
        assert_eq!(type_of_entry(&type_entry("s␟t")).as_deref(), Some("s␟t"));
        assert_eq!(type_of_entry(&type_entry("t")).as_deref(), Some("t"));
        for (name, number) in [("t", 1), ("s␟t", 1), ("s␟t", 12)] {
            assert_eq!(function_of_entry(&function_entry(name, number)).as_deref(), Some(name));
        }
        assert_eq!((type_of_entry("t"), marked(&type_entry("t"))), (None, None));
        assert_eq!(marked(&mark("s")), Some("s"));
        assert_eq!(said("relation \"s␟t\" beside \"␟␟u\""), "relation \"s.t\" beside \"u\"");
        assert_eq!(reference("s x␟t"), "\"s x\".t");
        assert_eq!(stored_name("s.t"), "s␟t");
        assert_eq!(stored_name("public.t"), "t");
        assert_eq!(shown_name("s␟"), None);
    }

    #[test]
    fn paths_are_lists_of_names() {
        let path = |text: &str| SearchPath::parse(text).map(|path| path.named);
        assert_eq!(path("\"$user\", public"), Some(vec!["public".to_owned()]));
        assert_eq!(path(" A,\"B\"\"c\" "), Some(vec!["a".to_owned(), "B\"c".to_owned()]));
        assert_eq!(path(""), Some(Vec::new()));
        assert_eq!(path("a b"), None);
        assert_eq!(path("a,"), None);
        assert_eq!(path("\"a"), None);
        assert_eq!(path("a.b"), None);
    }
}
