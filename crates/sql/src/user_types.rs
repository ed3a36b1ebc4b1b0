//! Types that users made: what a name means along the search path.
//!
//! A type is an empty table of the store, its entry (`names::type_entry`, `notes::types`). The rows
//! of a table or a view have a type of its name, whose entry it is itself.
//!
//! Invariants: who has found a type holds the access lock of its entry until the transaction ends,
//! and who changes or drops it the exclusive one. So nobody meets a value that its type does not
//! have.
//! Does not do: types that are there without being made (`types`).

pub(crate) mod functions;

use rightlink::{ColumnSchema, Error, TableInfo, TableVersion, Transaction};
use sqlparser::tokenizer::Span;

use crate::error::{Result, SqlError, code};
use crate::names::{
    CATALOGS, SearchPath, is_own, is_shown, said, stored, type_entry, type_of_entry,
};
use crate::notes::types::{NO_FIELD, TypeNotes};
use crate::notes::{ColumnNotes, MadeTypes};
use crate::oids::{array_type_oid, relation_oid, row_type_oid};
use crate::parse::identifiers::TypeNames;
use crate::schemas::{self, Resolver};
use crate::types::composite::CompositeName;
use crate::types::composite::Field;
use crate::types::declared::{Declared, Domain};
use crate::types::{CompositeType, EnumType, SqlType};

/// A type that somebody uses, which is good as long as its entry has this version.
#[derive(Clone)]
pub(crate) struct UsedType {
    /// The name of its entry.
    pub(crate) entry: String,
    pub(crate) version: TableVersion,
}

/// A type that was found.
pub(crate) struct UserType {
    pub(crate) declared: Declared,
    /// Itself, and those that it is made of.
    pub(crate) used: Vec<UsedType>,
    /// Does its name mean it as long as the path is the same, whatever is made?
    pub(crate) settled: bool,
}

/// The enum that a table of the store is the entry of.
pub(crate) fn enum_of_entry(info: &TableInfo) -> Option<EnumType> {
    let stored = type_of_entry(&info.name)?;
    let notes = TypeNotes::decode(&info.note);
    let (oid, array_oid) = (relation_oid(info.id), array_type_oid(info.id));
    let is_enum = notes.domain.is_none() && !notes.is_composite;
    is_enum.then(|| EnumType::of(oid, array_oid, &stored, notes.labels))
}

/// The columns of the entry of a composite type that are fields.
pub(crate) fn fields_of_entry(info: &TableInfo) -> &[ColumnSchema] {
    match info.columns.as_slice() {
        [column] if column.name == NO_FIELD => &[],
        fields => fields,
    }
}

/// The type of rows of these columns, which is called so.
pub(crate) fn composite(
    info: &TableInfo,
    stored: &str,
    columns: &[ColumnSchema],
    made: &MadeTypes,
) -> CompositeType {
    let field = |column: &ColumnSchema| {
        let notes = ColumnNotes::decode(&column.note);
        let (name, ty) = (column.name.clone(), notes.type_of(column.kind, made));
        Field { name, ty, modifier: notes.modifier }
    };
    let (oid, array_oid) = (row_type_oid(info.id), array_type_oid(info.id));
    let fields = columns.iter().filter(|column| !column.computed).map(field).collect();
    let is_of_rows = is_shown(&info.name);
    CompositeType::of(CompositeName { oid, array_oid, stored, is_of_rows }, fields)
}

/// The types that columns have and that were made, and all that these are made of.
fn types_of_columns(
    txn: &mut Transaction,
    columns: &[ColumnSchema],
) -> Result<(MadeTypes, Vec<UsedType>)> {
    let (mut made, mut used) = (MadeTypes::new(), Vec::new());
    for column in columns {
        let Some(own) = ColumnNotes::decode(&column.note).made else { continue };
        if made.contains_key(&own.name) {
            continue;
        }
        let found = load(txn, &own.name)?.ok_or_else(|| no_type(&own.name))?;
        made.insert(own.name, found.declared.ty);
        used.extend(found.used);
    }
    Ok((made, used))
}

/// The type of the rows of a table or a view, which is called so.
fn load_row_type(txn: &mut Transaction, name: &str) -> Result<Option<UserType>> {
    if !is_shown(name) || is_own(name) {
        return Ok(None);
    }
    let version = match txn.catalog().version(name) {
        Err(Error::NotFound(_)) => return Ok(None),
        version => version?,
    };
    let info = txn.catalog().describe(name)?;
    let of_domain = |column: &ColumnSchema| ColumnNotes::decode(&column.note).domain.is_some();
    if info.columns.iter().any(of_domain) {
        let what = format!("the row type of \"{}\", which has a column of a domain", said(name));
        return Err(SqlError::unsupported(what));
    }
    let (made, of_columns) = types_of_columns(txn, &info.columns)?;
    let ty = composite(&info, name, &info.columns, &made);
    let mut used = vec![UsedType { entry: name.to_owned(), version }];
    used.extend(of_columns);
    let declared = Declared::plain(SqlType::Composite(ty));
    Ok(Some(UserType { declared, used, settled: true }))
}

/// The type that is called so, named as a relation of the store.
pub(crate) fn load(txn: &mut Transaction, name: &str) -> Result<Option<UserType>> {
    let entry = type_entry(name);
    let version = match txn.catalog().version(&entry) {
        Err(Error::NotFound(_)) => return load_row_type(txn, name),
        version => version?,
    };
    let info = txn.catalog().describe(&entry)?;
    let mut used = vec![UsedType { entry, version }];
    let is_composite = TypeNotes::decode(&info.note).is_composite;
    let declared = match enum_of_entry(&info) {
        Some(ty) => Declared::plain(SqlType::Enum(ty)),
        None if is_composite => {
            let columns = fields_of_entry(&info);
            let (made, of_columns) = types_of_columns(txn, columns)?;
            used.extend(of_columns);
            Declared::plain(SqlType::Composite(composite(&info, name, columns, &made)))
        }
        None => {
            let Some(column) = info.columns.first() else { return Ok(None) };
            let notes = ColumnNotes::decode(&column.note);
            let mut made = MadeTypes::new();
            if let Some(base) = &notes.made {
                let found = load(txn, &base.name)?.ok_or_else(|| no_type(&base.name))?;
                made.insert(base.name.clone(), found.declared.ty);
                used.extend(found.used);
            }
            if let Some(below) = &notes.domain {
                used.extend(load(txn, below)?.ok_or_else(|| no_type(below))?.used);
            }
            Declared {
                ty: notes.type_of(column.kind, &made),
                modifier: notes.modifier,
                domain: Some(Domain::named(name)),
            }
        }
    };
    Ok(Some(UserType { declared, used, settled: true }))
}

/// What a name of parts means along `path`.
pub(crate) fn find(
    txn: &mut Transaction,
    path: &SearchPath,
    parts: &[String],
) -> Result<Option<UserType>> {
    match parts {
        [name] => {
            for (at, schema) in path.of_tables().enumerate() {
                if let Some(found) = load(txn, &stored(schema, name))? {
                    return Ok(Some(UserType { settled: at == 0, ..found }));
                }
            }
            Ok(None)
        }
        [schema, name] if !CATALOGS.contains(&schema.as_str()) => {
            let found = load(txn, &stored(schema, name))?;
            match found {
                None if !schemas::exists(txn, schema)? => Err(schemas::no_schema(schema)),
                found => Ok(found),
            }
        }
        _ => Ok(None),
    }
}

impl TypeNames for Resolver<'_> {
    fn type_named(&mut self, parts: &[String], _: Span) -> Result<Option<Declared>> {
        let (txn, path) = self.place();
        Ok(find(txn, path, parts)?.map(|found| found.declared))
    }
}

/// What a name means that is kept with a definition.
pub(crate) fn kept_name(parts: &[String]) -> Option<String> {
    match parts {
        [name] => Some(name.clone()),
        [schema, name] if !CATALOGS.contains(&schema.as_str()) => Some(stored(schema, name)),
        _ => None,
    }
}

/// The type of values of the type that was made and has this number; of a domain the one below it.
pub(crate) fn with_number(txn: &mut Transaction, oid: u32) -> Result<Option<SqlType>> {
    for info in txn.catalog().tables()? {
        let name = type_of_entry(&info.name).unwrap_or_else(|| info.name.clone());
        let itself = [relation_oid(info.id), row_type_oid(info.id)].contains(&oid);
        let array = array_type_oid(info.id) == oid;
        if itself || array {
            // As it is now, and locked.
            let now = load(txn, &name)?.map(|known| known.declared.ty);
            return Ok(if array { now.and_then(SqlType::array_of) } else { now });
        }
    }
    Ok(None)
}

/// Types as they are now, of which some may have been made.
pub(crate) fn renewed(txn: &mut Transaction, types: &[SqlType]) -> Result<Vec<SqlType>> {
    let mut now = Vec::with_capacity(types.len());
    for ty in types {
        now.push(match ty.element().unwrap_or(*ty) {
            SqlType::Enum(_) | SqlType::Composite(_) => {
                with_number(txn, ty.oid())?.unwrap_or(SqlType::Unknown)
            }
            _ => *ty,
        });
    }
    Ok(now)
}

/// The error for a type that is not there.
pub(crate) fn no_type(name: &str) -> SqlError {
    SqlError::new(code::UNDEFINED_OBJECT, format!("type \"{}\" does not exist", said(name)))
}
