//! Statements about types, with names as the store has them.
//!
//! Does not do: changing anything (`exec::ddl::types`).

use super::{Commented, Definition, Kind, NewTable};
use crate::error::Result;
use crate::names::type_entry;
use crate::parse::types::{DomainChange, TypeChange, TypeStatement};
use crate::schemas::Resolver;

/// A type to make or to change, by the name that a relation would have.
#[derive(Clone, Debug)]
pub(crate) enum TypeDefinition {
    Enum {
        name: String,
        labels: Vec<String>,
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
        TypeStatement::Alter { name, change } => {
            let name = resolver.existing_type(name)?;
            resolver.stays(&name)?;
            Definition::Type(TypeDefinition::Alter { name, change: change.clone() })
        }
        TypeStatement::CreateDomain { name, column } => {
            let name = resolver.new_name_parts(name)?;
            let mut domain = NewTable::new(&type_entry(&name));
            domain.column(column, resolver)?;
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
