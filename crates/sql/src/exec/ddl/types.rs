//! CREATE, ALTER and DROP TYPE.
//!
//! A type that is changed or dropped is locked before anybody looks who uses it: who uses it holds
//! a lock of it, so that the look finds all.
//!
//! Invariants: columns, defaults and checks name a type by the name that it has.
//! Does not do: what values of a type are (`types::enums`).

use rightlink::{AlterTable, Busy, Error, LockMode, TableInfo, TableSchema, Type};
use sqlparser::ast;

use super::Definer;
use super::functions::last_first;
use super::readers::Needed;
use crate::bind::ddl::TypeDefinition;
use crate::error::{Result, SqlError, code};
use crate::names::{
    CATALOGS, PUBLIC, bare, beside, function_of_entry, marked, reference, said, schema_of, stored,
    type_entry, type_of_entry,
};
use crate::names::{MATERIALIZED_VIEW, VIEW};
use crate::notes::types::TypeNotes;
use crate::notes::view::ViewSource;
use crate::notes::{ColumnNotes, TableNotes};
use crate::parse::types::{LabelPlace, TypeChange};
use crate::parse::{self, offset};
use crate::schemas;
use crate::types::enums::{Label, code_between, even_codes};
use crate::types::literal::literal;
use crate::user_types::functions::load;
use crate::user_types::{kept_name, no_type};

/// The only column of the table that a type is kept as: a table has one.
const COLUMN: &str = "type";
/// Longest label in bytes.
const MAX_LABEL: usize = 63;

/// What uses a type.
enum User {
    /// A table and its column.
    Column(String, String),
    Default(String, String),
    /// A table and its check.
    Check(String, String),
    Domain(String),
    /// A composite type and its field.
    Field(String, String),
    /// The entry of a function, and its name with the types of its arguments.
    Function(String, String),
}

impl User {
    /// As messages call it.
    fn shown(&self, shown: &dyn Fn(&str) -> String) -> String {
        match self {
            User::Column(table, column) => format!("column {column} of table {}", shown(table)),
            User::Default(table, column) => {
                format!("default value for column {column} of table {}", shown(table))
            }
            User::Check(table, check) => format!("constraint {check} on table {}", shown(table)),
            User::Domain(name) => format!("type {}", shown(name)),
            User::Field(name, field) => {
                format!("column {field} of composite type {}", shown(name))
            }
            User::Function(_, signature) => format!("function {signature}"),
        }
    }
}

pub(super) fn taken(name: &str) -> SqlError {
    let message = format!("type \"{}\" already exists", bare(name));
    SqlError::new(code::DUPLICATE_OBJECT, message)
}

fn no_label(label: &str) -> SqlError {
    let message = format!("\"{label}\" is not an existing enum label");
    SqlError::new(code::INVALID_PARAMETER, message)
}

fn check_label(label: &str) -> Result<()> {
    if label.len() <= MAX_LABEL {
        return Ok(());
    }
    let message = format!("invalid enum label \"{label}\"");
    Err(SqlError::new(code::INVALID_NAME, message)
        .detail(format!("Labels must be {MAX_LABEL} bytes or less.")))
}

/// Does a text that is kept name the type called `name`?
pub(super) fn names_type(text: &str, name: &str) -> Result<bool> {
    let mut all = parse::types::names(text)?.into_iter();
    Ok(all.any(|(_, parts)| kept_name(&parts).as_deref() == Some(name)))
}

/// A text that is kept, with another name for the type called `name`.
fn renamed(text: &str, name: &str, to: &str) -> Result<String> {
    let is_it = |parts: &[String]| kept_name(parts).as_deref() == Some(name);
    parse::types::with_types(text, |parts| is_it(parts).then(|| reference(to)))
}

impl Definer<'_> {
    /// Makes or changes a type, and gives the tag.
    pub(super) fn define_type(&mut self, definition: &TypeDefinition) -> Result<&'static str> {
        Ok(match definition {
            TypeDefinition::Enum { name, labels } => {
                self.create_enum(name, labels)?;
                "CREATE TYPE"
            }
            TypeDefinition::Composite { name, fields } => {
                self.create_composite(name, fields)?;
                "CREATE TYPE"
            }
            TypeDefinition::AlterComposite { name, changes } => {
                self.alter_composite(name, changes)?;
                "ALTER TYPE"
            }
            TypeDefinition::Alter { name, change } => {
                self.alter_type(name, change)?;
                "ALTER TYPE"
            }
            TypeDefinition::Domain { name, domain } => {
                self.create_domain(name, domain)?;
                "CREATE DOMAIN"
            }
            TypeDefinition::AlterDomain { name, change } => {
                self.alter_domain(name, change)?;
                "ALTER DOMAIN"
            }
        })
    }

    fn create_enum(&mut self, name: &str, labels: &[String]) -> Result<()> {
        for (at, label) in labels.iter().enumerate() {
            check_label(label)?;
            if labels[..at].contains(label) {
                let message = "duplicate key value violates unique constraint \
                               \"pg_enum_typid_label_index\"";
                return Err(SqlError::new(code::UNIQUE_VIOLATION, message));
            }
        }
        let codes = even_codes(labels.len());
        let label = |(text, code): (&String, Vec<u8>)| Label { text: text.clone(), code };
        let labels = labels.iter().zip(codes).map(label).collect();
        let owner = self.context.owner;
        self.create_type(name, &TypeNotes { labels, owner, ..TypeNotes::default() })
    }

    fn create_type(&mut self, name: &str, notes: &TypeNotes) -> Result<()> {
        self.refuse_rows_of(name)?;
        let mut entry = TableSchema::new(type_entry(name)).nullable(COLUMN, Type::Bool);
        entry.note = notes.encode();
        match self.txn.create_table(&entry) {
            Err(Error::AlreadyExists(_)) => Err(taken(name)),
            made => Ok(made?),
        }
    }

    /// Is it a table or a view, whose rows have a type of its name?
    fn is_relation_with_rows(&mut self, name: &str) -> Result<bool> {
        Ok(self.txn.catalog().has_relation(name)?
            && matches!(self.kind_of(name)?, "table" | VIEW | MATERIALIZED_VIEW))
    }

    /// Fails if a table or a view is called as a type is to be.
    pub(super) fn refuse_rows_of(&mut self, name: &str) -> Result<()> {
        if self.is_relation_with_rows(name)? { Err(taken(name)) } else { Ok(()) }
    }

    /// Fails if a type is called as a table or a view is to be, whose rows have a type of its name.
    pub(super) fn refuse_type_name(&mut self, name: &str) -> Result<()> {
        if !self.txn.catalog().has_relation(&type_entry(name))? {
            return Ok(());
        }
        Err(taken(name).hint(
            "A relation has an associated type of the same name, so you must use a name that \
             doesn't conflict with any existing type.",
        ))
    }

    /// Locks a type that is changed or dropped, and gives what is kept of it.
    pub(super) fn lock_type(&mut self, name: &str) -> Result<TypeNotes> {
        let entry = type_entry(name);
        match self.txn.lock_table(&entry, LockMode::Exclusive, Busy::Wait) {
            Err(Error::NotFound(_)) => return Err(no_type(name)),
            locked => locked?,
        }
        Ok(TypeNotes::decode(&self.txn.catalog().definition(&entry)?.note))
    }

    pub(super) fn note_type(&mut self, name: &str, notes: &TypeNotes) -> Result<()> {
        Ok(self.txn.alter_table(&type_entry(name), AlterTable::Note(&notes.encode()))?)
    }

    pub(super) fn comment_type(&mut self, name: &str, text: Option<String>) -> Result<()> {
        let mut notes = self.lock_type(name)?;
        notes.comment = text;
        self.note_type(name, &notes)
    }

    pub(super) fn alter_type(&mut self, name: &str, change: &TypeChange) -> Result<()> {
        let mut notes = self.lock_type(name)?;
        let of_labels =
            matches!(change, TypeChange::AddValue { .. } | TypeChange::RenameValue { .. });
        if of_labels && (notes.domain.is_some() || notes.is_composite) {
            let message = format!("{} is not an enum", reference(name));
            return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message));
        }
        match change {
            TypeChange::AddValue { label, if_not_exists, place } => {
                check_label(label)?;
                if notes.labels.iter().any(|known| known.text == *label) {
                    let message = format!("enum label \"{label}\" already exists");
                    if !if_not_exists {
                        return Err(SqlError::new(code::DUPLICATE_OBJECT, message));
                    }
                    self.notices.push(format!("{message}, skipping"));
                    return Ok(());
                }
                add_label(&mut notes.labels, label, place)?;
                self.note_type(name, &notes)
            }
            TypeChange::RenameValue { from, to } => {
                check_label(to)?;
                if !notes.labels.iter().any(|known| known.text == *from) {
                    return Err(no_label(from));
                }
                if notes.labels.iter().any(|known| known.text == *to) {
                    let message = format!("enum label \"{to}\" already exists");
                    return Err(SqlError::new(code::DUPLICATE_OBJECT, message));
                }
                self.rename_label_in_texts(name, from, to)?;
                let labels = notes.labels.iter_mut().filter(|known| known.text == *from);
                labels.for_each(|known| to.clone_into(&mut known.text));
                self.note_type(name, &notes)
            }
            TypeChange::Rename(to) => self.rename_type(name, &beside(name, to)),
            TypeChange::SetSchema(to) => {
                if CATALOGS.contains(&to.as_str()) {
                    return Err(SqlError::unsupported(format!("a type in the schema \"{to}\"")));
                }
                schemas::lock(self.txn, to, LockMode::Access)?;
                match schema_of(name) == to {
                    true => Ok(()),
                    false => self.rename_type(name, &stored(to, bare(name))),
                }
            }
        }
    }

    /// A label of the type called `name` gets another name, also in defaults that are that label.
    /// Fails for any other text that is kept and may mean the label.
    fn rename_label_in_texts(&mut self, name: &str, from: &str, to: &str) -> Result<()> {
        let users = self.users_among_tables(name)?;
        let refused = |what: String| {
            let what = format!("another name for label \"{from}\", which {what} may name");
            Err(SqlError::unsupported(what))
        };
        for info in &users {
            let shown = type_of_entry(&info.name).unwrap_or_else(|| info.name.clone());
            let of_table = TableNotes::decode(&info.note).checks.into_iter().map(|(_, text)| text);
            let of_domain = TypeNotes::decode(&info.note).domain.unwrap_or_default().checks;
            for text in of_table.chain(of_domain.into_iter().map(|check| check.text)) {
                if !parse::types::strings(&text, from)?.is_empty() {
                    return refused(format!("a check of \"{}\"", said(&shown)));
                }
            }
            for column in &info.columns {
                let notes = ColumnNotes::decode(&column.note);
                let Some(text) = &notes.default else { continue };
                let places = parse::types::strings(text, from)?;
                let Some(place) = places.first() else { continue };
                let is_label = notes.uses_type(name) && is_literal(&parse::expression(text)?);
                if !is_label {
                    return refused(format!("a default of \"{}\"", said(&shown)));
                }
                let mut text = text.clone();
                if let Some((start, end)) = offset(&text, place.start).zip(offset(&text, place.end))
                {
                    text.replace_range(start..end, &literal(to));
                }
                self.note_column(&info.name, &column.name, |notes| notes.default = Some(text))?;
            }
        }
        let entry = type_entry(name);
        for info in self.txn.catalog().tables()? {
            let Some(view) = TableNotes::decode(&info.note).view else { continue };
            let reads = |source: &ViewSource| {
                source.name == entry || users.iter().any(|user| user.name == source.name)
            };
            let named = !parse::types::strings(&view.query, from)?.is_empty();
            if named && view.sources.iter().any(reads) {
                return refused(format!("the view \"{}\"", said(&info.name)));
            }
        }
        Ok(())
    }

    /// Gives a type another name, also where it is kept: with columns, in defaults, checks and
    /// queries of views.
    pub(super) fn rename_type(&mut self, name: &str, to: &str) -> Result<()> {
        self.refuse_rows_of(to)?;
        let (entry, new) = (type_entry(name), type_entry(to));
        match self.txn.alter_table(&entry, AlterTable::Rename(&new)) {
            Err(Error::AlreadyExists(_)) => return Err(taken(to)),
            Err(Error::NotFound(_)) => return Err(no_type(name)),
            other => other?,
        }
        self.rename_source(&entry, &new)?;
        for info in self.users_among_tables(name)? {
            for column in &info.columns {
                self.note_column(&info.name, &column.name, |notes| notes.rename_type(name, to))?;
            }
            self.change_texts(&info, &|text| renamed(text, name, to))?;
        }
        Ok(())
    }

    /// Tables, views and domains whose columns, defaults or checks name a type that is locked.
    fn users_among_tables(&mut self, name: &str) -> Result<Vec<TableInfo>> {
        let mut found = Vec::new();
        for info in self.txn.catalog().tables()? {
            self.context.check_interrupt()?;
            if marked(&info.name).is_none() && !users_in(&info, name)?.is_empty() {
                found.push(info);
            }
        }
        Ok(found)
    }

    /// Fails for the type of the rows of a table or a view, which goes with that.
    fn refuse_drop_of_rows(&mut self, name: &str) -> Result<()> {
        if self.txn.catalog().has_relation(&type_entry(name))?
            || !self.is_relation_with_rows(name)?
        {
            return Ok(());
        }
        let (kind, own) = (self.kind_of(name)?, self.context.settings.path().shown(name));
        let message = format!("cannot drop type {own} because {kind} {own} requires it");
        let hint = format!("You can drop {kind} {own} instead.");
        Err(SqlError::new(code::DEPENDENT_OBJECTS, message).hint(hint))
    }

    /// DROP TYPE: what uses the type goes with it, or keeps it.
    pub(super) fn drop_type(&mut self, name: &str, also: &[String], cascade: bool) -> Result<()> {
        self.refuse_drop_of_rows(name)?;
        self.lock_type(name)?;
        let path = self.context.settings.path();
        let shown = |name: &str| path.shown(name);
        let mut users = Vec::new();
        for info in self.users_among_tables(name)? {
            if function_of_entry(&info.name).is_some() {
                let found = load(self.txn, &info.name)?.expect("it is there");
                users.push(User::Function(info.name.clone(), found.signature()));
                continue;
            }
            // Columns of views go with the views.
            if TableNotes::decode(&info.note).view.is_none() {
                users.extend(users_in(&info, name)?);
            }
        }
        if !cascade && !users.is_empty() {
            let what = format!("type {}", shown(name));
            let line = |user: &User| format!("{} depends on {what}", user.shown(&shown));
            let lines: Vec<String> = users.iter().map(line).collect();
            let message = format!("cannot drop {what} because other objects depend on it");
            return Err(SqlError::new(code::DEPENDENT_OBJECTS, message)
                .detail(lines.join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        match users.as_slice() {
            [] => {}
            [only] => self.notices.push(format!("drop cascades to {}", only.shown(&shown))),
            more => self.notices.push(format!("drop cascades to {} other objects", more.len())),
        }
        let (entry, mut functions) = (type_entry(name), Vec::new());
        self.drop_dependents(Needed::Type(&entry, name), also, cascade)?;
        for user in users {
            match user {
                User::Column(table, column) => self.drop_column(&table, &column, true, true)?,
                User::Domain(domain) => self.drop_type(&domain, also, true)?,
                User::Field(other, field) => self.drop_field_of(&other, &field)?,
                User::Function(entry, _) => functions.push(entry),
                User::Default(table, column) => self.set_default(&table, &column, None)?,
                User::Check(table, check) => {
                    let table = self.table(&table)?;
                    self.drop_check(&table, &check)?;
                }
            }
        }
        last_first(&mut functions);
        functions.iter().try_for_each(|entry| self.drop_function(entry, cascade))?;
        let number = self.txn.catalog().definition(&entry)?.id;
        self.txn.drop_table(&entry)?;
        self.forget_readers(number)
    }

    /// The names of the types in some schemas.
    pub(super) fn types_within(&mut self, schemas: &[&String]) -> Result<Vec<String>> {
        let names = self.txn.catalog().table_names()?;
        let types = names.iter().filter_map(|entry| type_of_entry(entry));
        let within = |name: &String| schemas.iter().any(|schema| *schema == schema_of(name));
        Ok(types.filter(within).collect())
    }

    /// An expression as it is kept names types with their schemas, unless these are `public`.
    pub(super) fn settle_types(&mut self, text: &mut String) -> Result<()> {
        let path = self.context.settings.path();
        if path.is_plain() {
            return Ok(());
        }
        for (place, parts) in parse::types::names(text)?.into_iter().rev() {
            let found = schemas::find_type(self.txn, &path, &parts)?;
            let is_there = self.txn.catalog().has_relation(&type_entry(&found.name))?;
            if is_there
                && schema_of(&found.name) != PUBLIC
                && let Some((start, end)) = offset(text, place.start).zip(offset(text, place.end))
            {
                text.replace_range(start..end, &reference(&found.name));
            }
        }
        Ok(())
    }
}

/// Is it a literal, or the cast of one?
fn is_literal(node: &ast::Expr) -> bool {
    match node {
        ast::Expr::Value(_) => true,
        ast::Expr::Cast { expr, .. } => matches!(**expr, ast::Expr::Value(_)),
        _ => false,
    }
}

/// What of a table uses the type called `name`.
fn users_in(info: &TableInfo, name: &str) -> Result<Vec<User>> {
    let table = || info.name.clone();
    let mut found = Vec::new();
    if TypeNotes::decode(&info.note).is_composite
        && let Some(own) = type_of_entry(&info.name)
    {
        let fields =
            info.columns.iter().filter(|one| ColumnNotes::decode(&one.note).uses_type(name));
        return Ok(fields.map(|one| User::Field(own.clone(), one.name.clone())).collect());
    }
    if let Some(domain) = type_of_entry(&info.name) {
        let mut uses = false;
        for column in &info.columns {
            let notes = ColumnNotes::decode(&column.note);
            uses |= notes.uses_type(name);
            uses |= notes.default.map_or(Ok(false), |text| names_type(&text, name))?;
        }
        let checks = TypeNotes::decode(&info.note).domain.unwrap_or_default().checks;
        for check in checks {
            uses |= names_type(&check.text, name)?;
        }
        return Ok(uses.then_some(User::Domain(domain)).into_iter().collect());
    }
    for column in &info.columns {
        let notes = ColumnNotes::decode(&column.note);
        if notes.uses_type(name) {
            found.push(User::Column(table(), column.name.clone()));
        } else if notes.default.map_or(Ok(false), |text| names_type(&text, name))? {
            found.push(User::Default(table(), column.name.clone()));
        }
    }
    for (check, text) in TableNotes::decode(&info.note).checks {
        if names_type(&text, name)? {
            found.push(User::Check(table(), check));
        }
    }
    Ok(found)
}

/// Puts a label among others, with a code between those of its neighbours.
fn add_label(labels: &mut Vec<Label>, text: &str, place: &LabelPlace) -> Result<()> {
    let find = |label: &String| {
        let found = labels.iter().position(|known| known.text == *label);
        found.ok_or_else(|| no_label(label))
    };
    let at = match place {
        LabelPlace::Last => labels.len(),
        LabelPlace::Before(other) => find(other)?,
        LabelPlace::After(other) => find(other)? + 1,
    };
    let low = at.checked_sub(1).map(|at| labels[at].code.as_slice());
    let code = code_between(low, labels.get(at).map(|label| label.code.as_slice()));
    labels.insert(at, Label { text: text.to_owned(), code });
    Ok(())
}
