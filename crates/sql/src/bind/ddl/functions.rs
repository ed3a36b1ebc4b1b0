//! Statements about functions, with names as the store has them.
//!
//! Does not do: changing anything (`exec::ddl::functions`).

use sqlparser::ast;

use super::{Definition, NewTable};
use crate::error::Result;
use crate::names::function_entry;
use crate::notes::functions::{FunctionNotes, Gives};
use crate::parse::functions::{
    CreateFunction, FunctionChange, FunctionStatement, Returns, Signature,
};
use crate::parse::identifiers::{data_type, is_of_rows};
use crate::schemas::Resolver;
use crate::types::SqlType;
use crate::user_types::functions::not_built;

/// A function to make or to change, by the name that a relation would have.
#[derive(Clone, Debug)]
pub(crate) enum FunctionDefinition {
    /// With its arguments and results as the columns of a table that is called as its entry.
    Create {
        name: String,
        or_replace: bool,
        parts: Box<NewTable>,
        notes: FunctionNotes,
    },
    Rename {
        function: Called,
        to: String,
    },
    SetSchema {
        function: Called,
        schema: String,
    },
    Drop {
        functions: Vec<Called>,
        if_exists: bool,
    },
    Comment {
        function: Called,
        text: Option<String>,
    },
}

/// A function that a statement names.
#[derive(Clone, Debug)]
pub(crate) struct Called {
    pub(crate) name: String,
    /// The types of its arguments, if the statement says them.
    pub(crate) arguments: Option<Vec<SqlType>>,
}

/// CREATE, ALTER and DROP FUNCTION; COMMENT ON FUNCTION.
pub(crate) fn of_function(
    statement: &FunctionStatement,
    resolver: &mut Resolver<'_>,
) -> Result<Definition> {
    Ok(Definition::Function(match statement {
        FunctionStatement::Create(create) => self::create(create, resolver)?,
        FunctionStatement::Alter { function, change } => {
            let function = called(function, resolver)?;
            resolver.stays(&function.name)?;
            match change {
                FunctionChange::Rename(to) => {
                    FunctionDefinition::Rename { function, to: to.clone() }
                }
                FunctionChange::SetSchema(schema) => {
                    FunctionDefinition::SetSchema { function, schema: schema.clone() }
                }
            }
        }
        FunctionStatement::Drop { functions, if_exists } => {
            let functions =
                functions.iter().map(|one| called(one, resolver)).collect::<Result<_>>()?;
            FunctionDefinition::Drop { functions, if_exists: *if_exists }
        }
        FunctionStatement::Comment { function, text } => FunctionDefinition::Comment {
            function: called(function, resolver)?,
            text: text.clone(),
        },
    }))
}

fn create(create: &CreateFunction, resolver: &mut Resolver<'_>) -> Result<FunctionDefinition> {
    let name = resolver.new_name_parts(&create.name)?;
    let mut parts = NewTable::new(&function_entry(&name));
    let (gives, results): (Gives, &[ast::ColumnDef]) = match &create.returns {
        Returns::Void => (Gives::Void, &[]),
        Returns::Value(one) => (Gives::Value, std::slice::from_ref(one)),
        Returns::Set(one) => (Gives::Set, std::slice::from_ref(one)),
        Returns::Table(columns) => (Gives::Table, columns),
    };
    for part in create.arguments.iter().chain(results) {
        if is_of_rows(data_type(&part.data_type, resolver)?.ty) {
            return Err(not_built("with an argument or a result that is a row of a table"));
        }
        parts.column(part, resolver)?;
        if parts.notes.last().is_some_and(|notes| notes.domain.is_some()) {
            return Err(not_built("with an argument or a result of a domain"));
        }
    }
    let notes = FunctionNotes {
        body: create.body.clone(),
        arguments: create.arguments.len(),
        gives,
        volatility: create.volatility,
        is_strict: create.is_strict,
        comment: None,
        owner: None,
    };
    let (or_replace, parts) = (create.or_replace, Box::new(parts));
    Ok(FunctionDefinition::Create { name, or_replace, parts, notes })
}

/// The function that a signature names.
fn called(signature: &Signature, resolver: &mut Resolver<'_>) -> Result<Called> {
    let name = resolver.existing_function(&signature.name)?;
    let arguments = match &signature.arguments {
        None => None,
        Some(all) => {
            let mut types = Vec::with_capacity(all.len());
            for one in all {
                types.push(data_type(&one.data_type, resolver)?.ty);
            }
            Some(types)
        }
    };
    Ok(Called { name, arguments })
}
