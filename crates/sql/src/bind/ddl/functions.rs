//! Statements about functions, with names as the store has them.
//!
//! Does not do: changing anything (`exec::ddl::functions`).

use super::{Definition, NewTable};
use crate::error::{Result, SqlError, code};
use crate::names::{as_result, function_entry, unnamed};
use crate::notes::functions::{FunctionNotes, Gives};
use crate::parse::functions::{
    CreateFunction, FunctionChange, FunctionStatement, Parameter, Returns, Signature,
};
use crate::parse::identifiers::data_type;
use crate::schemas::Resolver;
use crate::types::SqlType;
use crate::types::declared::Declared;
use crate::types::parameter_mode::ParameterMode;
use crate::user_types::functions::{UserFunction, find, load_all, no_function_named, not_built};

/// A function to make or to change, by the name that a relation would have.
#[derive(Clone, Debug)]
pub(crate) enum FunctionDefinition {
    /// With its parameters and results as the columns of a table that is called as the entry of the
    /// first function of its name.
    Create {
        name: String,
        or_replace: bool,
        /// The entry of the function that it replaces.
        replaces: Option<String>,
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
        cascade: bool,
    },
    Comment {
        function: Called,
        text: Option<String>,
    },
}

/// A function that a statement names.
#[derive(Clone, Debug)]
pub(crate) enum Called {
    /// The table that it is kept as.
    Entry(String),
    /// The error where there is none.
    Missing(SqlError),
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
            if let Called::Entry(entry) = &function {
                resolver.stays(entry)?;
            }
            match change {
                FunctionChange::Rename(to) => {
                    FunctionDefinition::Rename { function, to: to.clone() }
                }
                FunctionChange::SetSchema(schema) => {
                    FunctionDefinition::SetSchema { function, schema: schema.clone() }
                }
            }
        }
        FunctionStatement::Drop { functions, if_exists, cascade } => {
            let functions =
                functions.iter().map(|one| called(one, resolver)).collect::<Result<_>>()?;
            FunctionDefinition::Drop { functions, if_exists: *if_exists, cascade: *cascade }
        }
        FunctionStatement::Comment { function, text } => FunctionDefinition::Comment {
            function: called(function, resolver)?,
            text: text.clone(),
        },
    }))
}

fn create(create: &CreateFunction, resolver: &mut Resolver<'_>) -> Result<FunctionDefinition> {
    let name = resolver.new_name_parts(&create.name)?;
    let mut parts = NewTable::new(&function_entry(&name, 1));
    check_parameters(&create.parameters)?;
    let columns: &[Parameter] = match &create.returns {
        Some(Returns::Table(columns)) => columns,
        _ => &[],
    };
    check_names(create.parameters.iter().chain(columns))?;
    for parameter in &create.parameters {
        parts.parameter(parameter, resolver)?;
    }
    let notes = FunctionNotes {
        body: create.body.clone(),
        modes: create.parameters.iter().map(|one| one.mode).collect(),
        gives: gives(create, &mut parts, resolver)?,
        volatility: create.volatility,
        is_strict: create.is_strict,
        comment: None,
        owner: None,
    };
    let inputs = parts.notes.iter().zip(&parts.schema.columns).zip(&create.parameters);
    let inputs = inputs.filter(|(_, parameter)| parameter.mode.is_input());
    let types: Vec<SqlType> =
        inputs.map(|((own, column), _)| own.type_of(column.kind, &parts.made)).collect();
    let known = load_all(resolver.place().0, &name)?;
    let replaces = known.into_iter().find(|one| one.argument_types() == types);
    let replaces = replaces.map(|one| one.entry);
    let (or_replace, parts) = (create.or_replace, Box::new(parts));
    Ok(FunctionDefinition::Create { name, or_replace, replaces, parts, notes })
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(code::INVALID_FUNCTION, message)
}

/// The result of a function. Columns of its results that are no parameters are added to `parts`.
fn gives(
    create: &CreateFunction,
    parts: &mut NewTable,
    resolver: &mut Resolver<'_>,
) -> Result<Gives> {
    let modes = create.parameters.iter().map(|one| one.mode);
    let outputs: Vec<usize> =
        modes.enumerate().filter(|(_, mode)| mode.is_output()).map(|(at, _)| at).collect();
    let is_set = matches!(create.returns, Some(Returns::Set(_) | Returns::Record { is_set: true }));
    if let Some(Returns::Table(columns)) = &create.returns {
        if !outputs.is_empty() {
            let message = "OUT and INOUT arguments aren't allowed in TABLE functions";
            return Err(SqlError::syntax(message));
        }
        for column in columns {
            parts.parameter(column, resolver)?;
        }
        return Ok(Gives::Table);
    }
    let declared = match &create.returns {
        Some(Returns::Value(kind) | Returns::Set(kind)) => Some(data_type(kind, resolver)?),
        _ => None,
    };
    let of_outputs = match outputs.as_slice() {
        [] => None,
        [one] => Some(parts.notes[*one].type_of(parts.schema.columns[*one].kind, &parts.made)),
        _ => Some(SqlType::Record),
    };
    if let (Some(wanted), Some(returns)) = (of_outputs, &create.returns) {
        let said = match returns {
            Returns::Void => SqlType::Void,
            Returns::Record { .. } => SqlType::Record,
            _ => declared.map_or(SqlType::Record, |declared| declared.ty),
        };
        if said != wanted {
            let wanted = wanted.name();
            let message =
                format!("function result type must be {wanted} because of OUT parameters");
            return Err(invalid(message));
        }
    }
    match (of_outputs, &create.returns) {
        (Some(SqlType::Record), _) if outputs.len() > 1 => {
            Ok(if is_set { Gives::Table } else { Gives::Row })
        }
        (Some(_), _) => Ok(if is_set { Gives::Set } else { Gives::Value }),
        (None, Some(Returns::Record { .. })) => {
            Err(not_built("that returns record without OUT parameters"))
        }
        (None, Some(Returns::Void)) => Ok(Gives::Void),
        (None, _) => {
            let Some(declared) = declared else {
                return Err(invalid("function result type must be specified"));
            };
            parts.plain_column(unnamed(RESULT), declared)?;
            Ok(if is_set { Gives::Set } else { Gives::Value })
        }
    }
}

/// The place of a result among parameters without names: no function has so many.
const RESULT: usize = 9_998;

/// Fails for parameters that do not go together.
fn check_parameters(parameters: &[Parameter]) -> Result<()> {
    let mut has_default = false;
    for (at, one) in parameters.iter().enumerate() {
        let is_input = one.mode.is_input();
        if one.mode == ParameterMode::Variadic
            && parameters[at + 1..].iter().any(|other| other.mode.is_input())
        {
            return Err(invalid("VARIADIC parameter must be the last input parameter"));
        }
        if one.default.is_some() && !is_input {
            return Err(invalid("only input parameters can have default values"));
        }
        if is_input && has_default && one.default.is_none() {
            let message = "input parameters after one with a default value must also have defaults";
            return Err(invalid(message));
        }
        has_default |= one.default.is_some();
    }
    Ok(())
}

/// Fails for two parameters of one name. An argument and a result may have one.
fn check_names<'p>(parameters: impl Iterator<Item = &'p Parameter> + Clone) -> Result<()> {
    for (at, one) in parameters.clone().enumerate() {
        let Some(name) = &one.name else { continue };
        let clashes = |other: &Parameter| {
            let both_take = other.mode.is_input() && one.mode.is_input();
            let both_give = other.mode.is_output() && one.mode.is_output();
            other.name.as_ref() == Some(name) && (both_take || both_give)
        };
        if parameters.clone().take(at).any(clashes) {
            return Err(invalid(format!("parameter name \"{name}\" used more than once")));
        }
    }
    Ok(())
}

impl NewTable {
    /// Adds the column of a parameter.
    fn parameter(&mut self, parameter: &Parameter, resolver: &mut Resolver<'_>) -> Result<()> {
        let Parameter { mode, name, data_type: kind, default } = parameter;
        let declared = data_type(kind, resolver)?;
        if *mode == ParameterMode::Variadic && !declared.ty.is_array() {
            return Err(invalid("VARIADIC parameter must be an array"));
        }
        let name = match name {
            None => unnamed(self.schema.columns.len()),
            Some(name) if self.schema.columns.iter().any(|one| one.name == *name) => {
                as_result(name)
            }
            Some(name) => name.clone(),
        };
        self.plain_column(name, declared)?;
        *self.defaults.last_mut().expect("a column was added") = default.clone();
        Ok(())
    }

    /// Adds the column of a parameter or a result.
    fn plain_column(&mut self, name: String, declared: Declared) -> Result<()> {
        let ty = declared.ty;
        if declared.domain.is_some() {
            return Err(not_built("with an argument or a result of a domain"));
        }
        if let SqlType::Composite(made) = ty.element().unwrap_or(ty)
            && crate::names::is_temporary(made.stored())
        {
            return Err(not_built(
                "with an argument or a result that is a row of a temporary table",
            ));
        }
        let kind = ty.to_column().filter(|_| ty != SqlType::Unknown);
        let kind = kind.ok_or_else(|| {
            not_built(&format!("with an argument or a result of type {}", ty.name()))
        })?;
        self.unchecked_column(name, kind, declared);
        Ok(())
    }
}

/// The function that a signature names.
pub(crate) fn called(signature: &Signature, resolver: &mut Resolver<'_>) -> Result<Called> {
    let types = match &signature.parameters {
        None => None,
        Some(all) => {
            let mut types = Vec::with_capacity(all.len());
            for one in all.iter().filter(|one| one.mode.is_input()) {
                types.push(data_type(&one.data_type, resolver)?.ty);
            }
            Some(types)
        }
    };
    let (txn, path) = resolver.place();
    let found = find(txn, path, &signature.name)?;
    let name = signature.name.join(".");
    let is_it = |one: &&UserFunction| types.as_ref().is_none_or(|own| one.argument_types() == *own);
    let all: Vec<&UserFunction> = found.iter().filter(is_it).collect();
    Ok(match (all.as_slice(), &types) {
        ([one], _) => Called::Entry(one.entry.clone()),
        ([], None) => Called::Missing(no_function_named(&name)),
        (_, None) => {
            let message = format!("function name \"{name}\" is not unique");
            let hint = "Specify the argument list to select the function unambiguously.";
            return Err(SqlError::new(code::AMBIGUOUS_FUNCTION, message).hint(hint));
        }
        (_, Some(types)) => {
            let types: Vec<&str> = types.iter().map(|ty| ty.name()).collect();
            let message = format!("function {name}({}) does not exist", types.join(", "));
            Called::Missing(SqlError::new(code::UNDEFINED_FUNCTION, message))
        }
    })
}
