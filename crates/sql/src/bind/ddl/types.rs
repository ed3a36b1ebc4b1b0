//! Statements about types, with names as the store has them.
//!
//! Does not do: changing anything (`exec::ddl::types`).

use sqlparser::ast;

use super::{Commented, Definition, Kind, NewTable};
use crate::error::{Result, SqlError, code};
use crate::names::type_entry;
use crate::parse::types::{DomainChange, FieldChange, TypeChange, TypeStatement};
use crate::schemas::Resolver;
use crate::types::SqlType;

/// A type to make or to change, by the name that a relation would have.
#[derive(Clone, Debug)]
pub(crate) enum TypeDefinition {
    Enum {
        name: String,
        labels: Vec<String>,
    },
    /// With its fields as the columns of a table that is called as its entry.
    Composite {
        name: String,
        fields: Box<NewTable>,
    },
    AlterComposite {
        name: String,
        changes: Vec<NewField>,
    },
    Alter {
        name: String,
        change: TypeChange,
    },
    /// With its one column, in a table that is called as its entry.
    Domain {
        name: String,
        domain: Box<NewTable>,
    },
    AlterDomain {
        name: String,
        change: DomainChange,
    },
}

/// What is done to a field of a composite type.
#[derive(Clone, Debug)]
pub(crate) enum NewField {
    /// A field, as the one column of a table.
    Add(Box<NewTable>),
    Drop {
        name: String,
        if_exists: bool,
    },
    /// The field of this name gets the type of the one column.
    Retype(Box<NewTable>),
    Rename {
        from: String,
        to: String,
    },
}

/// Fields as the columns of a table that is called as the entry of their type.
fn fields(name: &str, all: &[ast::ColumnDef], resolver: &mut Resolver<'_>) -> Result<NewTable> {
    let mut table = NewTable::new(&type_entry(name));
    for field in all {
        let kind = field.data_type.to_string().to_lowercase();
        if matches!(
            kind.as_str(),
            "serial" | "serial2" | "serial4" | "serial8" | "smallserial" | "bigserial"
        ) {
            let message = format!("type \"{kind}\" does not exist");
            return Err(SqlError::new(code::UNDEFINED_OBJECT, message));
        }
        table.column(field, resolver)?;
        if table.notes.last().is_some_and(|notes| notes.domain.is_some()) {
            return Err(SqlError::unsupported("a field of a domain in a composite type"));
        }
    }
    Ok(table)
}

/// CREATE, ALTER and DROP TYPE and DOMAIN; COMMENT ON TYPE.
pub(crate) fn of_type(
    statement: &TypeStatement,
    resolver: &mut Resolver<'_>,
) -> Result<Definition> {
    Ok(match statement {
        TypeStatement::CreateEnum { name, labels } => {
            let labels = labels.clone();
            Definition::Type(TypeDefinition::Enum { name: resolver.new_name_parts(name)?, labels })
        }
        TypeStatement::CreateComposite { name, fields: all } => {
            let name = resolver.new_name_parts(name)?;
            let fields = Box::new(fields(&name, all, resolver)?);
            Definition::Type(TypeDefinition::Composite { name, fields })
        }
        TypeStatement::AlterComposite { name, changes } => {
            let name = resolver.existing_type(name)?;
            resolver.stays(&name)?;
            let one = |field: &ast::ColumnDef, resolver: &mut Resolver<'_>| {
                fields(&name, std::slice::from_ref(field), resolver).map(Box::new)
            };
            let mut bound = Vec::with_capacity(changes.len());
            for change in changes {
                bound.push(match change {
                    FieldChange::Add(field) => NewField::Add(one(field, resolver)?),
                    FieldChange::Retype(field) => NewField::Retype(one(field, resolver)?),
                    FieldChange::Drop { name, if_exists } => {
                        NewField::Drop { name: name.clone(), if_exists: *if_exists }
                    }
                    FieldChange::Rename { from, to } => {
                        NewField::Rename { from: from.clone(), to: to.clone() }
                    }
                });
            }
            Definition::Type(TypeDefinition::AlterComposite { name, changes: bound })
        }
        TypeStatement::Alter { name, change } => {
            let name = resolver.existing_type(name)?;
            resolver.stays(&name)?;
            Definition::Type(TypeDefinition::Alter { name, change: change.clone() })
        }
        TypeStatement::CreateDomain { name, column } => {
            let name = resolver.new_name_parts(name)?;
            let mut domain = NewTable::new(&type_entry(&name));
            domain.column(column, resolver)?;
            if domain.made.values().any(|ty| matches!(ty, SqlType::Composite(_))) {
                return Err(SqlError::unsupported("a domain over a composite type"));
            }
            Definition::Type(TypeDefinition::Domain { name, domain: Box::new(domain) })
        }
        TypeStatement::AlterDomain { name, change } => {
            let name = resolver.existing_type(name)?;
            resolver.stays(&name)?;
            Definition::Type(TypeDefinition::AlterDomain { name, change: change.clone() })
        }
        TypeStatement::Drop { names, of_domains, if_exists, cascade } => {
            let name = |parts: &Vec<String>| match *if_exists {
                true => resolver.any_type(parts),
                false => resolver.existing_type(parts),
            };
            let names = names.iter().map(name).collect::<Result<_>>()?;
            let (if_exists, cascade) = (*if_exists, *cascade);
            let kind = if *of_domains { Kind::Domain } else { Kind::Type };
            Definition::Drop { kind, names, if_exists, cascade }
        }
        TypeStatement::Comment { name, text } => {
            let on = Commented::Type(resolver.existing_type(name)?);
            Definition::Comment { on, text: text.clone().filter(|text| !text.is_empty()) }
        }
    })
}
