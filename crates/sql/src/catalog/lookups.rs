//! Names, numbers, definitions and sizes of objects, as functions ask for them.
//!
//! Invariants: a number that no object has gives nothing, and no error.
//! Does not do: rows of relations (`views`).

use rightlink::{ColumnSchema, Database};

use super::builtin::{self, Operator};
use super::deparse::Names;
use super::functions::{FunctionObject, kept_call, named};
use super::numbers::DATABASE;
use super::objects::{How, Object, Objects};
use super::rules::{self, Constraint, Key, Reference, Rule};
use super::{system_indexes, system_parts, system_rows};
use crate::catalog::system_views;
use crate::error::{Result, SqlError, code};
use crate::names;
use crate::names::{SearchPath, bare, full_reference, identifier, said, schema_of};
use crate::notes::ColumnNotes;
use crate::oids::relation_of_key;
use crate::parse;
use crate::privileges::Privileges;
use crate::roles::rights;
use crate::schemas;
use crate::types::{RegKind, SqlType};
use crate::user_types::functions::Part;
use crate::user_types::kept_name;

/// Bytes of a block.
const BLOCK: i64 = 8192;

/// Bytes of a relation.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sizes {
    /// Of its own pages.
    pub(crate) own: i64,
    /// Of values that lie in pages apart.
    pub(crate) apart: i64,
    pub(crate) indexes: i64,
}

/// Who asks.
#[derive(Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) path: &'a SearchPath,
    pub(crate) user: &'a str,
    /// The name of the database.
    pub(crate) database: &'a str,
}

/// Names that mean another type in quotes, and so stay as they are written.
const NAMES_WITH_QUOTES: [&str; 2] = ["bit", "char"];

impl Objects {
    /// The name that an object is shown by.
    pub(crate) fn shown(&self, kind: RegKind, oid: u32, asking: Asking<'_>) -> Option<String> {
        match kind {
            RegKind::Class => self.shown_relation(oid, asking.path),
            RegKind::Type => {
                let built_in = SqlType::name_of(oid).map(str::to_owned);
                built_in.or_else(|| self.shown_type(oid, asking.path))
            }
            RegKind::Proc => {
                let known = builtin::function_of(oid).map(|one| identifier(&one.name));
                known.or_else(|| self.shown_function(oid, false, asking.path))
            }
            RegKind::Procedure => {
                let known = builtin::function_of(oid).map(|one| one.signature());
                known.or_else(|| self.shown_function(oid, true, asking.path))
            }
            RegKind::Operator => builtin::operator_of(oid).map(Operator::signature),
            RegKind::Namespace => self.schema_name(oid).map(identifier),
            RegKind::Role => self.role_named_by(oid, asking.user).map(|name| identifier(&name)),
        }
    }

    /// The name of the role that has a number.
    pub(crate) fn role_name(&self, oid: u32, asking: Asking<'_>) -> Option<String> {
        self.role_named_by(oid, asking.user)
    }

    /// The comment on a database or a role, as the catalog says in which the number is one.
    pub(crate) fn shared_comment(&self, catalog: &str, number: u32) -> Option<&String> {
        match catalog {
            "pg_database" => self.database_comment.as_ref().filter(|_| number == DATABASE),
            "pg_authid" => self.roles.numbered(number)?.comment.as_ref(),
            _ => None,
        }
    }

    fn shown_relation(&self, oid: u32, path: &SearchPath) -> Option<String> {
        if let Some(placed) = system_views::of_oid(oid) {
            return Some(placed.shown());
        }
        if let Some(index) = system_indexes::index_name(oid) {
            return Some(index.to_owned());
        }
        let stored = self.stored_name(oid)?;
        Some(match self.is_visible(stored, path) {
            true => identifier(bare(stored)),
            false => full_reference(stored),
        })
    }

    /// The number of the object that a text names, which may be a number itself.
    pub(crate) fn number(
        &self,
        kind: RegKind,
        text: &str,
        asking: Asking<'_>,
    ) -> Result<Option<u32>> {
        let trimmed = text.trim();
        if trimmed == "-" {
            return Ok(Some(0));
        }
        if !trimmed.is_empty() && trimmed.bytes().all(|byte| byte.is_ascii_digit()) {
            return match trimmed.parse() {
                Ok(oid) => Ok(Some(oid)),
                Err(_) => Err(SqlError::new(
                    code::NUMERIC_OUT_OF_RANGE,
                    format!("value \"{trimmed}\" is out of range for type oid"),
                )),
            };
        }
        if kind == RegKind::Type {
            return self.type_number(text, asking.path);
        }
        if kind == RegKind::Procedure {
            let known = builtin::function_by_signature(trimmed);
            return Ok(known.or_else(|| self.function_by_signature(trimmed, asking.path)));
        }
        if kind == RegKind::Operator {
            return self.operator_by_signature(trimmed, asking.path);
        }
        let parts = schemas::parts_of(text)?;
        Ok(match (kind, parts.as_slice()) {
            (RegKind::Class, [database, relation @ ..]) if relation.len() == 2 => {
                if database != asking.database {
                    let what = "cross-database references are not implemented";
                    let message = format!("{what}: \"{}\"", parts.join("."));
                    return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
                }
                self.find(relation, asking.path)
            }
            (RegKind::Class, parts) if parts.len() > 3 => {
                let what = "improper relation name (too many dotted names)";
                return Err(SqlError::syntax(format!("{what}: {}", parts.join("."))));
            }
            (RegKind::Class, parts) => self.find(parts, asking.path),
            (RegKind::Namespace, [name]) => self.schema_named(name),
            (RegKind::Role, [name]) => self.role_number(name, asking.user),
            (RegKind::Proc, [name]) => {
                let known = builtin::function_named(name)?;
                match known {
                    Some(known) => Some(known),
                    None => self.function_named(name, asking.path)?,
                }
            }
            (RegKind::Proc, [schema, name]) if schema == names::CATALOGS[0] => {
                builtin::function_named(name)?
            }
            (RegKind::Proc, [schema, name]) => {
                self.function_named(&names::stored(schema, name), asking.path)?
            }
            _ => None,
        })
    }

    /// The number of the operator that a name with the types of its operands means.
    fn operator_by_signature(&self, text: &str, path: &SearchPath) -> Result<Option<u32>> {
        let refused = |message: &str| SqlError::new(code::INVALID_TEXT, message);
        let (name, rest) =
            text.split_once('(').ok_or_else(|| refused("expected a left parenthesis"))?;
        let operands =
            rest.strip_suffix(')').ok_or_else(|| refused("expected a right parenthesis"))?;
        let types: Vec<&str> = operands.split(',').map(str::trim).collect();
        let [left, right] = types.as_slice() else {
            let hint = "Use NONE to denote the missing argument of a unary operator.";
            return Err(match types.len() {
                0 | 1 => SqlError::new(code::UNDEFINED_PARAMETER, "missing argument").hint(hint),
                _ => {
                    let hint = "Provide two argument types for operator.";
                    SqlError::new(code::TOO_MANY_ARGUMENTS, "too many arguments").hint(hint)
                }
            });
        };
        let number = |one: &str| match one.eq_ignore_ascii_case("none") {
            true => Ok(None),
            false => match self.type_number(one, path)? {
                Some(number) => Ok(Some(number)),
                None => Err(no_object(RegKind::Type, one)),
            },
        };
        let operands: Vec<u32> = [number(left)?, number(right)?].into_iter().flatten().collect();
        let name = name.trim();
        let plain = name.strip_prefix("pg_catalog.").unwrap_or(name);
        let all = builtin::operators_named(plain);
        Ok(all.iter().find(|one| one.operands == operands).map(|one| one.oid))
    }

    /// Is there a relation of this number?
    pub(crate) fn has_relation(&self, oid: u32) -> bool {
        self.stored_name(oid).is_some()
            || system_views::of_oid(oid).is_some()
            || system_indexes::index_name(oid).is_some()
    }

    /// Is the relation meant by its name alone? None if it is not there.
    pub(crate) fn relation_is_visible(&self, oid: u32, path: &SearchPath) -> Option<bool> {
        if let Some(placed) = system_views::of_oid(oid) {
            return Some(placed.is_visible());
        }
        if system_indexes::index_name(oid).is_some() {
            return Some(true);
        }
        self.stored_name(oid).map(|stored| self.is_visible(stored, path))
    }

    /// The text of a constraint; for people a check has fewer parentheses.
    pub(crate) fn constraint_definition(
        &self,
        oid: u32,
        pretty: bool,
        path: &SearchPath,
    ) -> Result<Option<String>> {
        let how = How { is_pretty: pretty, path };
        if let Some(one) = self.constraint(oid) {
            return match &one.rule {
                Rule::Check(condition) => {
                    let condition = self.condition_of_check(condition, self.names_of(one), how)?;
                    Ok(Some(format!("CHECK ({condition})")))
                }
                Rule::Reference(reference) => {
                    let Reference { key, .. } = &**reference;
                    Ok(Some(key.definition(&self.spelled(&key.parent, path))))
                }
            };
        }
        for domain in self.domains() {
            if let Some(found) = domain.checks().iter().find(|one| domain.check_oid(one) == oid) {
                let valid = if found.is_valid { "" } else { " NOT VALID" };
                let names = Names::Domain(domain);
                let condition = self.condition_of_check(&found.text, names, how)?;
                return Ok(Some(format!("CHECK ({condition}){valid}")));
            }
        }
        if let Some(text) = system_indexes::constraint_definition(oid) {
            return Ok(Some(text));
        }
        if let Some(check) = system_rows::CHECKS.iter().find(|check| check.oid == oid) {
            let condition = if pretty { check.pretty } else { check.condition };
            return Ok(Some(format!("CHECK ({condition})")));
        }
        let Some(index) = relation_of_key(oid) else { return Ok(None) };
        let Some(object) = self.of_oid(index) else { return Ok(None) };
        let index = object.index.filter(|index| self.is_key(object.table, index));
        Ok(index.map(|index| rules::key_definition(Key { table: object.table, index })))
    }

    /// A relation as a statement names it that runs by a path.
    pub(super) fn spelled(&self, stored: &str, path: &SearchPath) -> String {
        match self.is_visible(stored, path) {
            true => identifier(bare(stored)),
            false => full_reference(stored),
        }
    }

    /// The statement that makes an index, by a path, or one of its columns.
    pub(crate) fn index_definition(
        &self,
        oid: u32,
        column: i32,
        pretty: bool,
        path: &SearchPath,
    ) -> Result<Option<String>> {
        let of_system = |place| system_indexes::index_definition(oid, place);
        if let Some(text) = usize::try_from(column).ok().and_then(of_system) {
            return Ok(Some(text));
        }
        let Some(object) = self.of_oid(oid) else { return Ok(None) };
        let Some(index) = object.index else { return Ok(None) };
        let how = How { is_pretty: pretty, path };
        if column == 0 {
            return object.definition(self, how);
        }
        let place = usize::try_from(column).unwrap_or(usize::MAX) - 1;
        // A column by itself has no order.
        if let Some(key) = index.columns.get(place) {
            let expression = rules::expression(object.table, &key.name);
            let shown = expression.map(|text| self.key_expression(text, &object, how));
            return Ok(Some(shown.unwrap_or_else(|| identifier(&key.name))));
        }
        let name = index.included.get(place - index.columns.len());
        Ok(Some(name.map_or(String::new(), |name| identifier(name))))
    }

    /// An expression of a relation, as catalogs have it, by a path.
    pub(crate) fn expression(
        &self,
        text: &str,
        relation: u32,
        pretty: bool,
        path: &SearchPath,
    ) -> Result<String> {
        let how = How { is_pretty: pretty, path };
        let table = self.of_oid(relation).map(|object| object.table);
        if let Some(shown) = self.kept_generation(table, text, how)? {
            return Ok(shown);
        }
        let names = table.map_or(Names::Nothing, Names::Table);
        let sequences = self.with_sequences(text, path)?;
        let shown = self.deparsed(&sequences, names, how).map(|shown| shown.text);
        match shown.or_else(|| self.deparsed_list(&sequences, names, how)) {
            Some(shown) => Ok(shown),
            None => self.spelled_expression(text, path),
        }
    }

    /// An expression among the parts of a key of an index.
    pub(super) fn key_expression(&self, text: String, object: &Object<'_>, how: How<'_>) -> String {
        match self.deparsed(&text, Names::Table(object.table), how) {
            Some(shown) if shown.is_call => shown.text,
            Some(shown) => format!("({})", shown.text),
            None => rules::Shown::of(text).in_key(how.is_pretty),
        }
    }

    /// The condition on the rows that an index holds.
    pub(super) fn condition(&self, object: &Object<'_>, how: How<'_>) -> Result<Option<String>> {
        let Some(text) = object.condition(&self.made) else { return Ok(None) };
        match self.deparsed(&text, Names::Table(object.table), how) {
            Some(shown) => Ok(Some(shown.text)),
            None => self.spelled_expression(&text, how.path).map(|text| Some(format!("({text})"))),
        }
    }

    /// The condition of a check, with parentheses around it where PostgreSQL has them.
    fn condition_of_check(&self, text: &str, names: Names<'_>, how: How<'_>) -> Result<String> {
        let sequences = self.with_sequences(text, how.path)?;
        match self.deparsed(&sequences, names, how) {
            Some(shown) => Ok(shown.text),
            None => {
                let text = self.spelled_expression(text, how.path)?;
                Ok(if how.is_pretty { text } else { format!("({text})") })
            }
        }
    }

    /// The columns that a check can name.
    fn names_of(&self, one: &Constraint) -> Names<'_> {
        self.of_oid(one.table).map_or(Names::Nothing, |object| Names::Table(object.table))
    }

    /// The condition of a check of a table, as `information_schema` has it.
    pub(super) fn check_clause(&self, one: &Constraint, condition: &str) -> Result<String> {
        let path = SearchPath::default();
        let how = How { is_pretty: false, path: &path };
        let condition = self.condition_of_check(condition, self.names_of(one), how)?;
        Ok(format!("({condition})"))
    }

    /// A default, as `information_schema` has it.
    pub(super) fn shown_default(
        &self,
        column: &ColumnSchema,
        notes: &ColumnNotes,
    ) -> Option<String> {
        let path = SearchPath::default();
        let text = self.default_text(column, notes)?;
        let shown = self.deparsed(&text, Names::Nothing, How { is_pretty: false, path: &path });
        Some(shown.map_or(text, |shown| shown.text))
    }

    /// An expression that is kept, as a statement has it that runs by a path: sequences and types
    /// have their schemas where it does not lead to them.
    pub(super) fn spelled_expression(&self, text: &str, path: &SearchPath) -> Result<String> {
        let text = parse::types::with_types(text, |parts| {
            let last = parts.last().map_or("", String::as_str);
            if SqlType::of_short_name(last).is_some() {
                let plain = parts.len() == 1 && !NAMES_WITH_QUOTES.contains(&last);
                return Some(last.to_owned()).filter(|_| plain);
            }
            let stored = kept_name(parts)?;
            self.number_of_type(&stored).map(|_| self.spelled_type(&stored, path))
        })?;
        let text = parse::types::with_functions(&text, |parts| {
            let stored = kept_call(parts)?;
            self.functions().iter().find(|one| one.stored == stored).map(|one| one.spelled(path))
        })?;
        self.with_sequences(&text, path)
    }

    /// The same with only its sequences spelled.
    fn with_sequences(&self, text: &str, path: &SearchPath) -> Result<String> {
        parse::with_sequences(text, |name| {
            let stored = schemas::find_kept(&schemas::parts_of(name)?)?.name;
            Ok(Some(self.spelled(&stored, path)))
        })
    }

    /// The sequence of a column, as SQL names it from anywhere.
    pub(crate) fn serial_sequence(&self, table: u32, column: &str) -> Result<Option<String>> {
        let Some(object) = self.of_oid(table) else { return Ok(None) };
        let Some(place) = rules::place(object.table, column) else {
            let message = format!(
                "column \"{column}\" of relation \"{}\" does not exist",
                bare(object.stored())
            );
            return Err(SqlError::new(code::UNDEFINED_COLUMN, message));
        };
        let owns = |owner: super::sequences::Owner| owner.table == table && owner.column == place;
        let found = self.sequences().iter().find(|one| one.owner.is_some_and(owns));
        Ok(found.map(|one| full_reference(&one.schema.name)))
    }

    /// Bytes of a relation. A sequence is a page.
    pub(crate) fn sizes(&self, oid: u32, db: Option<&Database>) -> Option<Sizes> {
        if self.sequence_of(oid).is_some() {
            return Some(Sizes { own: BLOCK, ..Sizes::default() });
        }
        let Some(object) = self.of_oid(oid) else {
            return system_views::of_oid(oid).map(|_| Sizes::default());
        };
        if object.is_view() {
            return Some(Sizes::default());
        }
        let bytes = |blocks: u32| i64::from(blocks) * BLOCK;
        if let Some(index) = object.index {
            let now = self.index_blocks(object.table, index.id, db);
            let own = bytes(now.unwrap_or(index.blocks));
            return Some(Sizes { own, ..Sizes::default() });
        }
        let now = self.sized(object.table, db);
        let object = object.of_description(now.as_ref());
        Some(Sizes {
            own: bytes(object.blocks()),
            apart: bytes(object.table.overflow_blocks),
            indexes: object.table.indexes.iter().map(|index| bytes(index.blocks)).sum(),
        })
    }

    /// Bytes of all relations.
    pub(crate) fn size_of_all(&self, db: Option<&Database>) -> i64 {
        let all = self.tables().filter_map(|object| self.sizes(object.oid, db));
        all.map(|sizes| sizes.own + sizes.apart + sizes.indexes).sum()
    }

    /// The number of the relation that a text names.
    ///
    /// # Errors
    /// `42P01` if there is none, `42501` if whoever asks may not look into its schema.
    pub(crate) fn relation(&self, text: &str, asking: Asking<'_>) -> Result<u32> {
        let found = self.number(RegKind::Class, text, asking)?;
        let number = found.ok_or_else(|| no_object(RegKind::Class, text))?;
        let Some(schema) = self.stored_name(number).map(schema_of) else { return Ok(number) };
        let own = self.schema_named(schema).and_then(|schema| self.owned_schema(schema));
        let Some(of) = own else { return Ok(number) };
        let actor = self.actor_named(asking.user);
        match self.allowed(&actor, of).privileges.has_all(Privileges::USAGE) {
            true => Ok(number),
            false => Err(rights::denied("schema", schema)),
        }
    }

    /// The comment on an object, or on a column of it.
    pub(crate) fn comment(&self, oid: u32, catalog: Option<u32>, part: usize) -> Option<&str> {
        let mut all = self.comments().get(&(oid, part)).into_iter().flatten();
        let found = all.find(|one| catalog.is_none_or(|catalog| one.catalog == catalog));
        let of_system = || system_parts::description(oid, catalog).filter(|_| part == 0);
        found.map(|one| one.text.as_str()).or_else(of_system)
    }

    /// Is it a table?
    pub(crate) fn is_table(&self, oid: u32) -> bool {
        self.of_oid(oid).is_some_and(|object| object.kind() == 'r')
    }
}

impl Objects {
    /// The function that a user made and that has a number.
    fn function(&self, number: u32) -> Option<&FunctionObject> {
        self.functions().iter().find(|one| one.oid == number)
    }

    /// The statement that makes a function.
    pub(crate) fn function_definition(&self, number: u32, path: &SearchPath) -> Option<String> {
        Some(self.function(number)?.definition(&|part| self.shown_part(part, path)))
    }

    /// The name of the type of a part of a function.
    fn shown_part(&self, part: &Part, path: &SearchPath) -> String {
        self.shown_type(part.ty.oid(), path).unwrap_or_else(|| named(part))
    }

    /// The arguments of a function as they are declared.
    pub(crate) fn function_arguments(&self, number: u32, path: &SearchPath) -> Option<String> {
        Some(self.function(number)?.declared_arguments(&|part| self.shown_part(part, path)))
    }

    /// The same without defaults.
    pub(crate) fn function_identity(&self, number: u32, path: &SearchPath) -> Option<String> {
        Some(self.function(number)?.identity_arguments(&|part| self.shown_part(part, path)))
    }

    /// What a function gives as it is declared.
    pub(crate) fn function_result(&self, number: u32, path: &SearchPath) -> Option<String> {
        Some(self.function(number)?.declared_result(&|part| self.shown_part(part, path)))
    }

    /// The name that a function is shown by, with its arguments if so.
    pub(super) fn shown_function(
        &self,
        number: u32,
        with_arguments: bool,
        path: &SearchPath,
    ) -> Option<String> {
        let one = self.function(number)?;
        Some(if with_arguments {
            one.signature(path, &|part| self.shown_part(part, path))
        } else {
            path.shown(&one.stored)
        })
    }

    /// Does its name without a schema mean this function, or one of the system?
    pub(crate) fn function_is_visible(&self, number: u32, path: &SearchPath) -> bool {
        let all = self.functions();
        self.function(number).is_none_or(|one| {
            path.shows(&one.stored, |name| all.iter().any(|other| other.stored == name))
        })
    }

    /// The number of the function that a name means; an error if there are several.
    pub(super) fn function_named(&self, stored: &str, path: &SearchPath) -> Result<Option<u32>> {
        let is_it =
            |one: &&FunctionObject| one.stored == stored || path.shown(&one.stored) == stored;
        let mut all = self.functions().iter().filter(is_it);
        let found = all.next().map(|one| one.oid);
        if all.next().is_some() {
            let message = format!("more than one function named \"{}\"", said(stored));
            return Err(SqlError::new(code::AMBIGUOUS_FUNCTION, message));
        }
        Ok(found)
    }

    /// The number of the function that a name with the types of its arguments means.
    pub(super) fn function_by_signature(&self, text: &str, path: &SearchPath) -> Option<u32> {
        let (name, rest) = text.split_once('(')?;
        let types = rest.strip_suffix(')')?.split(',').map(str::trim);
        let number = |one: &str| self.type_number(one, path).ok()?;
        let types = types.filter(|one| !one.is_empty()).map(number).collect::<Option<Vec<_>>>()?;
        let parts = schemas::parts_of(name).ok()?;
        let stored = match parts.as_slice() {
            [name] => name.clone(),
            [schema, name] => names::stored(schema, name),
            _ => return None,
        };
        let is_it = |one: &&FunctionObject| {
            (one.stored == stored || path.shown(&one.stored) == stored) && one.takes(&types)
        };
        self.functions().iter().find(is_it).map(|one| one.oid)
    }
}

/// The error for a name that no object has.
pub(crate) fn no_object(kind: RegKind, text: &str) -> SqlError {
    if kind == RegKind::Operator {
        return SqlError::new(code::UNDEFINED_FUNCTION, format!("operator does not exist: {text}"));
    }
    let (sqlstate, what, shown) = match kind {
        RegKind::Class => (code::UNDEFINED_TABLE, "relation", said(text)),
        RegKind::Type => (code::UNDEFINED_OBJECT, "type", text.to_owned()),
        RegKind::Role => (code::UNDEFINED_OBJECT, "role", text.to_owned()),
        RegKind::Namespace => (code::INVALID_SCHEMA, "schema", text.to_owned()),
        RegKind::Proc | RegKind::Procedure | RegKind::Operator => {
            (code::UNDEFINED_FUNCTION, "function", text.to_owned())
        }
    };
    SqlError::new(sqlstate, format!("{what} \"{shown}\" does not exist"))
}
