//! What SQL keeps with definitions beyond what the store knows: declared lengths, defaults and
//! checks that are expressions, foreign keys, comments.
//!
//! A note is lines; a line is a word and fields between tabs. Tab, line feed and backslash inside
//! of a field are written `\t`, `\n` and `\\`.
//!
//! Invariants: what is encoded decodes to equal notes; a line whose word is not known is left out.
//! Does not do: expressions, which stay text here.

pub(crate) mod functions;
pub(crate) mod storage;
pub(crate) mod types;
pub(crate) mod view;

use std::collections::HashMap;

use rightlink::{ColumnSchema, IndexInfo, SequenceDefinition, Type};

use crate::names::MATERIALIZED_VIEW;
use crate::names::reference;
use crate::types::declared::{ByteOrder, Declared, Modifier};
use crate::types::{ElementType, SqlType};
use view::{Rows, ViewNotes};

/// The word of the line that names the owner of what a note is kept with.
const OWNER: &str = "owner";

/// Types of sequences.
const SEQUENCES: [SqlType; 3] = [SqlType::Int2, SqlType::Int4, SqlType::Int8];

/// The type of a column as SQL declares it, such as `integer[]`.
#[must_use]
pub fn column_type(column: &ColumnSchema) -> String {
    let notes = ColumnNotes::decode(&column.note);
    match &notes.made {
        _ if notes.domain.is_some() => notes.domain.as_deref().map_or_else(String::new, reference),
        Some(made) if made.is_array => format!("{}[]", reference(&made.name)),
        Some(made) => reference(&made.name),
        None => notes.shown_type(column.kind, &MadeTypes::default()),
    }
}

/// Has the column a default that only SQL works out: an expression that is no constant?
#[must_use]
pub fn has_sql_default(column: &ColumnSchema) -> bool {
    let is_null = |text: &str| text == "NULL" || text.starts_with("NULL::");
    let kept = ColumnNotes::decode(&column.note).default;
    column.default.is_none() && kept.is_some_and(|text| !is_null(&text))
}

/// The expression that a column is generated from, if it is a generated column.
#[must_use]
pub fn generation_expression(column: &ColumnSchema) -> Option<String> {
    ColumnNotes::decode(&column.note).generated
}

/// The expression whose values a column has for indexes, if it has such values.
#[must_use]
pub fn index_expression(column: &ColumnSchema) -> Option<String> {
    ColumnNotes::decode(&column.note).computed.map(|one| one.text).filter(|_| column.computed)
}

/// Does the note of a table say that it is a view, without rows of its own?
#[must_use]
pub fn is_view(note: &str) -> bool {
    lines(note).any(|fields| fields.first().is_some_and(|word| word == "view"))
}

/// Does the note of a table say that it is a materialized view?
#[must_use]
pub fn is_materialized_view(note: &str) -> bool {
    lines(note).any(|fields| fields.first().is_some_and(|word| word == MATERIALIZED_VIEW))
}

/// What is kept with a column.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ColumnNotes {
    /// Declared length, or precision and scale.
    pub(crate) modifier: Option<Modifier>,
    /// The type of the elements, if it holds arrays, which the store has as bytes.
    pub(crate) element: Option<ElementType>,
    /// Its type, if the store has none for it, as for `jsonb` and for columns of views.
    pub(crate) shown_as: Option<SqlType>,
    /// Its type, if that was made by CREATE TYPE.
    pub(crate) made: Option<MadeType>,
    /// The domain it is of, as the store calls it; its type is noted too.
    pub(crate) domain: Option<String>,
    /// The default as SQL.
    pub(crate) default: Option<String>,
    /// Was it declared `serial`? Its sequence is the store's.
    pub(crate) serial: bool,
    pub(crate) comment: Option<String>,
    /// Sequences that are dropped with it, besides the store's.
    pub(crate) owned: Vec<String>,
    /// The collation it was declared with, if that is one by bytes.
    pub(crate) collation: Option<ByteOrder>,
    /// The expression whose values it has for indexes.
    pub(crate) computed: Option<ComputedNotes>,
    /// The expression whose values it has for clients: GENERATED ALWAYS AS.
    pub(crate) generated: Option<String>,
}

/// An expression whose values a column has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ComputedNotes {
    /// As it was written.
    pub(crate) text: String,
    /// What a column of an index is called that has its values.
    pub(crate) name: String,
}

/// A type that was made, as a column has it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MadeType {
    /// As the store calls it.
    pub(crate) name: String,
    /// Has the column arrays of it?
    pub(crate) is_array: bool,
}

/// Types that were made, by the names that the store has for them.
pub(crate) type MadeTypes = HashMap<String, SqlType>;

/// What is kept with a sequence.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SequenceNotes {
    /// The type of its numbers; `None`: that of its column, or bigint.
    pub(crate) ty: Option<SqlType>,
    /// CACHE, if it is not 1. Numbers are kept ready in runs whatever it says.
    pub(crate) cache: Option<i64>,
    pub(crate) comment: Option<String>,
    /// The number of the role that owns it, where it belongs to no column.
    pub(crate) owner: Option<u32>,
}

/// What is kept with a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TableNotes {
    /// Names and conditions of checks.
    pub(crate) checks: Vec<(String, String)>,
    pub(crate) keys: Vec<ForeignKey>,
    pub(crate) deferrable: Vec<DeferrableKey>,
    /// Operator classes of indexes that have others than those of their types.
    pub(crate) classes: Vec<IndexClasses>,
    /// Tables with foreign keys that name this one.
    pub(crate) children: Vec<String>,
    pub(crate) comment: Option<String>,
    /// Comments on indexes, by their numbers.
    pub(crate) of_indexes: Vec<(u32, String)>,
    /// Comments on constraints that are indexes, by their numbers.
    pub(crate) of_keys: Vec<(u32, String)>,
    /// Comments on checks and foreign keys, by their names.
    pub(crate) of_checks: Vec<(String, String)>,
    /// What it is if it is no table but a view, or a materialized view.
    pub(crate) view: Option<Box<ViewNotes>>,
    pub(crate) analyze: AnalyzeAfter,
    /// The number of the role that owns it; `None`: that of the owner of the database.
    pub(crate) owner: Option<u32>,
}

/// Operator classes that an index was made with.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct IndexClasses {
    pub(crate) index: u32,
    /// A name for each key column, empty for the class of the column's type.
    pub(crate) names: Vec<String>,
}

/// After how many changes a table is analyzed unasked, where that is not the usual number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct AnalyzeAfter {
    pub(crate) least: Option<u32>,
    /// More, as a part of the rows.
    pub(crate) factor: Option<f64>,
}

impl AnalyzeAfter {
    /// What is set here, the rest as it was.
    pub(crate) fn over(self, before: AnalyzeAfter) -> AnalyzeAfter {
        AnalyzeAfter { least: self.least.or(before.least), factor: self.factor.or(before.factor) }
    }

    /// Have enough rows changed of a table that had so many?
    pub(crate) fn is_due(self, rows: f64, changes: u64) -> bool {
        let least = f64::from(self.least.unwrap_or(50));
        changes as f64 > least + self.factor.unwrap_or(0.1) * rows
    }
}

/// A foreign key of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ForeignKey {
    pub(crate) name: String,
    pub(crate) columns: Vec<String>,
    pub(crate) parent: String,
    pub(crate) parent_columns: Vec<String>,
    pub(crate) on_delete: Action,
    pub(crate) on_update: Action,
    pub(crate) deferral: Deferral,
}

/// A primary key or unique constraint that may be checked late.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DeferrableKey {
    /// The number of its index, which the store lets hold a key several times.
    pub(crate) index: u32,
    pub(crate) kind: KeyKind,
}

/// What a primary key or unique constraint asks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct KeyKind {
    pub(crate) primary: bool,
    pub(crate) nulls_not_distinct: bool,
    pub(crate) deferral: Deferral,
}

impl KeyKind {
    const PRIMARY: &str = "primary";
    const UNIQUE: &str = "unique";
    const UNIQUE_NULLS: &str = "unique nulls";

    fn name(self) -> &'static str {
        match (self.primary, self.nulls_not_distinct) {
            (true, _) => Self::PRIMARY,
            (false, true) => Self::UNIQUE_NULLS,
            (false, false) => Self::UNIQUE,
        }
    }

    fn parse(kind: &str, initially: &str) -> KeyKind {
        KeyKind {
            primary: kind == Self::PRIMARY,
            nulls_not_distinct: kind == Self::UNIQUE_NULLS,
            deferral: Deferral::parse(initially),
        }
    }
}

/// When a foreign key or a unique constraint is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub(crate) enum Deferral {
    /// When the statement ends.
    #[default]
    Never,
    /// The same, unless the transaction wants it at its end.
    Immediate,
    /// When the transaction commits, unless it wants it at once.
    Deferred,
}

impl Deferral {
    const IMMEDIATE: &str = "immediate";
    const DEFERRED: &str = "deferred";

    /// The word that notes have for it, if it may be deferred.
    fn word(self) -> Option<&'static str> {
        match self {
            Deferral::Never => None,
            Deferral::Immediate => Some(Self::IMMEDIATE),
            Deferral::Deferred => Some(Self::DEFERRED),
        }
    }

    fn parse(word: &str) -> Deferral {
        if word == Self::DEFERRED { Deferral::Deferred } else { Deferral::Immediate }
    }

    /// As SQL spells it behind a constraint.
    pub(crate) fn clause(self) -> &'static str {
        match self {
            Deferral::Never => "",
            Deferral::Immediate => " DEFERRABLE",
            Deferral::Deferred => " DEFERRABLE INITIALLY DEFERRED",
        }
    }
}

/// What happens to rows whose parent goes.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub(crate) enum Action {
    #[default]
    Nothing,
    Restrict,
    Cascade,
    SetNull,
    SetDefault,
}

impl Action {
    const ALL: [Action; 5] =
        [Action::Nothing, Action::Restrict, Action::Cascade, Action::SetNull, Action::SetDefault];

    /// As SQL spells it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Action::Nothing => "NO ACTION",
            Action::Restrict => "RESTRICT",
            Action::Cascade => "CASCADE",
            Action::SetNull => "SET NULL",
            Action::SetDefault => "SET DEFAULT",
        }
    }

    fn parse(text: &str) -> Action {
        Action::ALL.into_iter().find(|action| action.name() == text).unwrap_or_default()
    }
}

impl ColumnNotes {
    /// The column gets this type.
    pub(crate) fn declare(&mut self, declared: Declared) {
        self.modifier = declared.modifier;
        self.domain = declared.domain.map(|domain| domain.stored().to_owned());
        let made = match declared.ty.element().unwrap_or(declared.ty) {
            SqlType::Enum(ty) => Some(ty.stored()),
            SqlType::Composite(ty) => Some(ty.stored()),
            _ => None,
        };
        let is_array = declared.ty.is_array();
        self.made = made.map(|name| MadeType { name: name.to_owned(), is_array });
        self.element = match declared.ty {
            SqlType::Array(element) => Some(element).filter(|_| self.made.is_none()),
            _ => None,
        };
        self.shown_as = Some(declared.ty).filter(|ty| ty.is_noted());
    }

    /// The type of the column, which the store has as `kind`.
    pub(crate) fn type_of(&self, kind: Type, made: &MadeTypes) -> SqlType {
        if let Some(own) = &self.made
            && let Some(ty) = made.get(&own.name)
        {
            let array = SqlType::array_of(*ty).filter(|_| own.is_array);
            return array.unwrap_or(*ty);
        }
        let shown = || match (self.element, self.modifier) {
            (Some(element), _) => SqlType::Array(element),
            (None, Some(Modifier::Char(_))) => SqlType::Bpchar,
            (None, _) => SqlType::of_column(kind),
        };
        self.shown_as.unwrap_or_else(shown)
    }

    /// The type of the column as it is declared.
    pub(crate) fn shown_type(&self, kind: Type, made: &MadeTypes) -> String {
        match (self.element, self.modifier) {
            (Some(_), Some(modifier)) => format!("{modifier}[]"),
            (None, Some(modifier)) => modifier.to_string(),
            (_, None) => self.type_of(kind, made).name().to_owned(),
        }
    }

    /// Is its type the one called `name`, or made of it?
    pub(crate) fn uses_type(&self, name: &str) -> bool {
        self.made.as_ref().is_some_and(|made| made.name == name)
            || self.domain.as_deref() == Some(name)
    }

    /// The type called `name` has another name.
    pub(crate) fn rename_type(&mut self, name: &str, to: &str) {
        for made in self.made.iter_mut().filter(|made| made.name == name) {
            to.clone_into(&mut made.name);
        }
        for domain in self.domain.iter_mut().filter(|domain| *domain == name) {
            to.clone_into(domain);
        }
    }

    /// Has the column arrays?
    pub(crate) fn is_array(&self) -> bool {
        self.element.is_some() || self.made.as_ref().is_some_and(|made| made.is_array)
    }

    pub(crate) fn decode(note: &str) -> ColumnNotes {
        let mut notes = ColumnNotes::default();
        for fields in lines(note) {
            match fields.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                ["type", text] => notes.modifier = Modifier::parse(text),
                ["array", name] => {
                    notes.element = SqlType::of_short_name(name).and_then(ElementType::of);
                }
                ["shown as", name] => notes.shown_as = SqlType::of_short_name(name),
                ["made", name, rest @ ..] => {
                    let (name, is_array) = ((*name).to_owned(), !rest.is_empty());
                    notes.made = Some(MadeType { name, is_array });
                }
                ["domain", name] => notes.domain = Some((*name).to_owned()),
                ["default", text] => notes.default = Some((*text).to_owned()),
                ["serial"] => notes.serial = true,
                ["comment", text] => notes.comment = Some((*text).to_owned()),
                ["owns", name] => notes.owned.push((*name).to_owned()),
                ["collation", name] => notes.collation = ByteOrder::parse(name),
                ["computed", text, name] => {
                    let (text, name) = ((*text).to_owned(), (*name).to_owned());
                    notes.computed = Some(ComputedNotes { text, name });
                }
                ["generated", text] => notes.generated = Some((*text).to_owned()),
                _ => {}
            }
        }
        notes
    }

    pub(crate) fn encode(&self) -> String {
        let mut out = String::new();
        if let Some(modifier) = self.modifier {
            line(&mut out, &["type", &modifier.to_string()]);
        }
        if let Some(element) = self.element {
            line(&mut out, &["array", element.ty().short_name()]);
        }
        if let Some(ty) = self.shown_as {
            line(&mut out, &["shown as", ty.short_name()]);
        }
        if let Some(made) = &self.made {
            let fields = ["made", &made.name, "array"];
            line(&mut out, &fields[..if made.is_array { 3 } else { 2 }]);
        }
        if let Some(domain) = &self.domain {
            line(&mut out, &["domain", domain]);
        }
        if let Some(default) = &self.default {
            line(&mut out, &["default", default]);
        }
        if self.serial {
            line(&mut out, &["serial"]);
        }
        if let Some(comment) = &self.comment {
            line(&mut out, &["comment", comment]);
        }
        for name in &self.owned {
            line(&mut out, &["owns", name]);
        }
        if let Some(order) = self.collation {
            line(&mut out, &["collation", order.name()]);
        }
        if let Some(ComputedNotes { text, name }) = &self.computed {
            line(&mut out, &["computed", text, name]);
        }
        if let Some(text) = &self.generated {
            line(&mut out, &["generated", text]);
        }
        out
    }
}

impl SequenceNotes {
    /// The type of a sequence's numbers.
    pub(crate) fn type_of(known: &SequenceDefinition) -> SqlType {
        let of_column = known.owner.as_ref().map(|owner| SqlType::of_column(owner.kind));
        SequenceNotes::decode(&known.schema.note).ty.or(of_column).unwrap_or(SqlType::Int8)
    }

    pub(crate) fn decode(note: &str) -> SequenceNotes {
        let mut notes = SequenceNotes::default();
        for fields in lines(note) {
            match fields.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                ["type", name] => notes.ty = SEQUENCES.into_iter().find(|ty| ty.name() == *name),
                ["cache", count] => notes.cache = count.parse().ok(),
                ["comment", text] => notes.comment = Some((*text).to_owned()),
                [OWNER, oid] => notes.owner = oid.parse().ok(),
                _ => {}
            }
        }
        notes
    }

    pub(crate) fn encode(&self) -> String {
        let mut out = String::new();
        if let Some(ty) = self.ty {
            line(&mut out, &["type", ty.name()]);
        }
        if let Some(cache) = self.cache {
            line(&mut out, &["cache", &cache.to_string()]);
        }
        if let Some(comment) = &self.comment {
            line(&mut out, &["comment", comment]);
        }
        owner_line(&mut out, self.owner);
        out
    }
}

impl TableNotes {
    pub(crate) fn decode(note: &str) -> TableNotes {
        let mut notes = TableNotes::default();
        for fields in lines(note) {
            match fields.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                ["check", name, condition] => {
                    notes.checks.push(((*name).to_owned(), (*condition).to_owned()));
                }
                ["view", text] => notes.view = Some(Box::new(ViewNotes::decode(text))),
                [MATERIALIZED_VIEW, text] => {
                    let mut view = ViewNotes::decode(text);
                    view.stored.get_or_insert(Rows::Missing);
                    notes.view = Some(Box::new(view));
                }
                [OWNER, oid] => notes.owner = oid.parse().ok(),
                ["child", name] => notes.children.push((*name).to_owned()),
                ["analyze", least, factor] => {
                    notes.analyze =
                        AnalyzeAfter { least: least.parse().ok(), factor: factor.parse().ok() };
                }
                ["comment", text] => notes.comment = Some((*text).to_owned()),
                ["index comment", id, text] => {
                    notes.of_indexes.extend(id.parse().ok().map(|id| (id, (*text).to_owned())));
                }
                ["key comment", id, text] => {
                    notes.of_keys.extend(id.parse().ok().map(|id| (id, (*text).to_owned())));
                }
                ["check comment", name, text] => {
                    notes.of_checks.push(((*name).to_owned(), (*text).to_owned()));
                }
                ["key", name, parent, on_delete, on_update, columns @ ..] => {
                    let (own, theirs) = columns.split_at(columns.len() / 2);
                    let names = |list: &[&str]| list.iter().map(|n| (*n).to_owned()).collect();
                    notes.keys.push(ForeignKey {
                        name: (*name).to_owned(),
                        columns: names(own),
                        parent: (*parent).to_owned(),
                        parent_columns: names(theirs),
                        on_delete: Action::parse(on_delete),
                        on_update: Action::parse(on_update),
                        deferral: Deferral::Never,
                    });
                }
                ["deferrable", name, initially] => {
                    if let Some(key) = notes.keys.iter_mut().find(|key| key.name == *name) {
                        key.deferral = Deferral::parse(initially);
                    }
                }
                ["deferrable key", id, kind, initially] => {
                    let key = |index| {
                        let kind = KeyKind::parse(kind, initially);
                        DeferrableKey { index, kind }
                    };
                    notes.deferrable.extend(id.parse().ok().map(key));
                }
                ["classes", id, names @ ..] => {
                    let names = names.iter().map(|name| (*name).to_owned()).collect();
                    notes
                        .classes
                        .extend(id.parse().ok().map(|index| IndexClasses { index, names }));
                }
                _ => {}
            }
        }
        notes
    }

    pub(crate) fn encode(&self) -> String {
        let mut out = String::new();
        for (name, condition) in &self.checks {
            line(&mut out, &["check", name, condition]);
        }
        for key in &self.keys {
            let actions = [key.on_delete.name(), key.on_update.name()];
            let mut fields = vec!["key", &key.name, &key.parent, actions[0], actions[1]];
            fields.extend(key.columns.iter().chain(&key.parent_columns).map(String::as_str));
            line(&mut out, &fields);
            if let Some(word) = key.deferral.word() {
                line(&mut out, &["deferrable", &key.name, word]);
            }
        }
        for DeferrableKey { index, kind } in &self.deferrable {
            if let Some(word) = kind.deferral.word() {
                line(&mut out, &["deferrable key", &index.to_string(), kind.name(), word]);
            }
        }
        for IndexClasses { index, names } in &self.classes {
            let id = index.to_string();
            let mut fields = vec!["classes", &id];
            fields.extend(names.iter().map(String::as_str));
            line(&mut out, &fields);
        }
        for child in &self.children {
            line(&mut out, &["child", child]);
        }
        if let Some(comment) = &self.comment {
            line(&mut out, &["comment", comment]);
        }
        for (word, list) in [("index comment", &self.of_indexes), ("key comment", &self.of_keys)] {
            for (id, text) in list {
                line(&mut out, &[word, &id.to_string(), text]);
            }
        }
        for (name, text) in &self.of_checks {
            line(&mut out, &["check comment", name, text]);
        }
        if let Some(view) = &self.view {
            let word = if view.stored.is_some() { MATERIALIZED_VIEW } else { "view" };
            line(&mut out, &[word, &view.encode()]);
        }
        if self.analyze != AnalyzeAfter::default() {
            let least = self.analyze.least.map_or(String::new(), |least| least.to_string());
            let factor = self.analyze.factor.map_or(String::new(), |factor| factor.to_string());
            line(&mut out, &["analyze", &least, &factor]);
        }
        owner_line(&mut out, self.owner);
        out
    }

    /// What the index asks of its table if it is that of a primary key or of a unique constraint.
    pub(crate) fn key_kind(&self, index: &IndexInfo) -> Option<KeyKind> {
        if index.unique {
            let (primary, nulls_not_distinct) = (index.primary, index.nulls_not_distinct);
            return Some(KeyKind { primary, nulls_not_distinct, deferral: Deferral::Never });
        }
        self.deferrable.iter().find(|key| key.index == index.id).map(|key| key.kind)
    }

    /// The operator class that the key column at `at` of an index was given, if it is not that of
    /// its type.
    pub(crate) fn class(&self, index: u32, at: usize) -> Option<&str> {
        let known = self.classes.iter().find(|known| known.index == index)?;
        known.names.get(at).map(String::as_str).filter(|name| !name.is_empty())
    }

    /// Is it a view, without rows of its own?
    pub(crate) fn is_view(&self) -> bool {
        self.view.as_ref().is_some_and(|view| view.stored.is_none())
    }

    /// As messages call the relation.
    pub(crate) fn noun(&self) -> &'static str {
        self.view.as_ref().map_or("table", |view| view.noun())
    }

    /// The rows of a materialized view; `None`: it is none.
    pub(crate) fn stored_rows(&self) -> Option<Rows> {
        self.view.as_ref()?.stored
    }

    /// Notes that `child` has a foreign key to this table.
    pub(crate) fn add_child(&mut self, child: &str) {
        if !self.children.iter().any(|known| known == child) {
            self.children.push(child.to_owned());
        }
    }
}

impl ForeignKey {
    /// As SQL spells it, after its name, where the table that it refers to is called `parent`.
    pub(crate) fn definition(&self, parent: &str) -> String {
        use crate::names::identifier;
        let list = |names: &[String]| {
            names.iter().map(|name| identifier(name)).collect::<Vec<_>>().join(", ")
        };
        let mut text = format!(
            "FOREIGN KEY ({}) REFERENCES {}({})",
            list(&self.columns),
            parent,
            list(&self.parent_columns)
        );
        for (what, action) in [("UPDATE", self.on_update), ("DELETE", self.on_delete)] {
            if action != Action::Nothing {
                text.push_str(&format!(" ON {what} {}", action.name()));
            }
        }
        text.push_str(self.deferral.clause());
        text
    }
}

/// The number of the role that a note of a table, a schema, a sequence or a type says owns it.
pub(crate) fn owner_of(note: &str) -> Option<u32> {
    lines(note).find_map(|fields| match fields.as_slice() {
        [word, oid] if word == OWNER => oid.parse().ok(),
        _ => None,
    })
}

/// Appends the line of an owner.
fn owner_line(out: &mut String, owner: Option<u32>) {
    if let Some(owner) = owner {
        line(out, &[OWNER, &owner.to_string()]);
    }
}

/// Appends a line.
pub(crate) fn line(out: &mut String, fields: &[&str]) {
    for (at, field) in fields.iter().enumerate() {
        if at > 0 {
            out.push('\t');
        }
        for c in field.chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '\t' => out.push_str("\\t"),
                '\n' => out.push_str("\\n"),
                c => out.push(c),
            }
        }
    }
    out.push('\n');
}

/// The fields of each line.
pub(crate) fn lines(note: &str) -> impl Iterator<Item = Vec<String>> {
    note.split('\n').filter(|line| !line.is_empty()).map(|line| {
        let field = |field: &str| {
            let mut out = String::with_capacity(field.len());
            let mut chars = field.chars();
            while let Some(c) = chars.next() {
                match (c, if c == '\\' { chars.next() } else { None }) {
                    (_, Some('t')) => out.push('\t'),
                    (_, Some('n')) => out.push('\n'),
                    (_, Some(other)) => out.push(other),
                    (c, None) => out.push(c),
                }
            }
            out
        };
        line.split('\t').map(field).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_round_trip() {
        let column = ColumnNotes {
            modifier: Some(Modifier::Char(3)),
            element: ElementType::of(SqlType::Bpchar),
            shown_as: Some(SqlType::Oid),
            made: Some(MadeType { name: "s␟mood".into(), is_array: true }),
            domain: Some("s␟natural".into()),
            default: Some("'a\tb\n\\' || 'c'".into()),
            serial: true,
            comment: Some(String::new()),
            owned: vec!["s\t".into(), "r".into()],
            collation: Some(ByteOrder::Posix),
            computed: Some(ComputedNotes { text: "lower(\ta)".into(), name: "lower".into() }),
            generated: Some("a\n+ 1".into()),
        };
        assert_eq!(ColumnNotes::decode(&column.encode()), column);
        let sequence = SequenceNotes {
            ty: Some(SqlType::Int2),
            cache: Some(20),
            comment: Some("numbers".into()),
            owner: Some(16_400),
        };
        assert_eq!(SequenceNotes::decode(&sequence.encode()), sequence);
        assert_eq!(SequenceNotes::default().encode(), "");
        assert_eq!(ColumnNotes::decode(""), ColumnNotes::default());
        let key = ForeignKey {
            name: "k".into(),
            columns: vec!["a".into(), "b\\".into()],
            parent: "p".into(),
            parent_columns: vec!["x".into(), "y".into()],
            on_delete: Action::SetNull,
            on_update: Action::Nothing,
            deferral: Deferral::Deferred,
        };
        let table = TableNotes {
            checks: vec![("c".into(), "a > 0".into())],
            keys: vec![key],
            deferrable: [Deferral::Immediate, Deferral::Deferred]
                .map(|deferral| DeferrableKey {
                    index: 9,
                    kind: KeyKind { primary: false, nulls_not_distinct: true, deferral },
                })
                .to_vec(),
            classes: vec![IndexClasses {
                index: 9,
                names: vec![String::new(), "text_pattern_ops".into()],
            }],
            children: vec!["t".into()],
            comment: Some("two\nlines".into()),
            of_indexes: vec![(7, "by a".into())],
            of_keys: vec![(7, "a".into()), (1 << 31, "b".into())],
            of_checks: vec![("c".into(), "positive".into())],
            view: Some(Box::new(ViewNotes { query: "SELECT\t1\n".into(), ..Default::default() })),
            analyze: AnalyzeAfter { least: None, factor: Some(0.25) },
            owner: Some(16_400),
        };
        assert_eq!(TableNotes::decode(&table.encode()), table);
        assert_eq!(owner_of(&table.encode()), Some(16_400));
    }

    #[test]
    fn a_table_is_due_after_its_own_number_of_changes() {
        let usual = AnalyzeAfter::default();
        assert!(!usual.is_due(0.0, 50) && usual.is_due(0.0, 51));
        assert!(!usual.is_due(1_000.0, 150) && usual.is_due(1_000.0, 151));
        let own = AnalyzeAfter { least: Some(0), factor: None };
        assert!(!own.is_due(1_000.0, 100) && own.is_due(1_000.0, 101));
        let later = AnalyzeAfter { least: None, factor: Some(0.5) }.over(own);
        assert_eq!(later, AnalyzeAfter { least: Some(0), factor: Some(0.5) });
    }
}
