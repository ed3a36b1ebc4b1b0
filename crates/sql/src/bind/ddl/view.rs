//! CREATE VIEW and CREATE MATERIALIZED VIEW.
//!
//! Does not do: binding the query, which needs what it names (`bind::view`).

use sqlparser::ast::{self, CreateTableOptions, SqlOption};

use super::{Definition, option_text};
use crate::error::{Result, SqlError, code};
use crate::notes::view::CheckOption;
use crate::parse::view::CHECK_OPTION;
use crate::parse::{Lines, identifiers};
use crate::schemas::{self, Resolver};

/// What CREATE MATERIALIZED VIEW says besides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Materialized {
    pub(crate) if_not_exists: bool,
    pub(crate) with_data: bool,
}

/// A view to make, or to put in the place of another.
#[derive(Clone, Debug)]
pub(crate) struct NewView {
    pub(crate) name: String,
    /// Names of its first columns.
    pub(crate) columns: Vec<ast::Ident>,
    pub(crate) query: Box<ast::Query>,
    pub(crate) replaces: bool,
    pub(crate) check: Option<CheckOption>,
    /// If it is to have rows of its own.
    pub(crate) materialized: Option<Materialized>,
    /// Of the message that the query stands in.
    pub(crate) lines: Lines,
}

pub(super) fn create(
    create: &ast::CreateView,
    lines: &Lines,
    resolver: &mut Resolver<'_>,
) -> Result<Definition> {
    let refused = [
        (create.or_alter || create.secure || create.copy_grants, "such a view"),
        (create.to.is_some() || create.params.is_some(), "such a view"),
        (create.comment.is_some() || !create.cluster_by.is_empty(), "such a view"),
    ];
    if let Some((_, what)) = refused.iter().find(|(found, _)| *found) {
        return Err(SqlError::unsupported(what));
    }
    if create.if_not_exists && (!create.materialized || create.name_before_not_exists) {
        return Err(SqlError::syntax("syntax error at or near \"NOT\""));
    }
    for column in &create.columns {
        if column.data_type.is_some() || column.options.is_some() {
            return Err(SqlError::syntax("a column of a view has a name only"));
        }
    }
    let check = match &create.options {
        CreateTableOptions::None => None,
        CreateTableOptions::With(_) if create.materialized => {
            return Err(SqlError::unsupported("storage parameters of a materialized view"));
        }
        CreateTableOptions::With(options) => check_option(options)?,
        _ => return Err(SqlError::unsupported("such options of a view")),
    };
    Ok(Definition::CreateView(Box::new(NewView {
        name: match create.temporary || schemas::is_of_temporary(&create.name) {
            true => resolver.new_temporary(&create.name)?,
            false => resolver.new_name(&create.name)?,
        },
        columns: create.columns.iter().map(|column| column.name.clone()).collect(),
        query: create.query.clone(),
        replaces: create.or_replace,
        check,
        materialized: create.materialized.then_some(Materialized {
            if_not_exists: create.if_not_exists,
            // A place that this dialect has no other use for.
            with_data: !create.with_no_schema_binding,
        }),
        lines: lines.clone(),
    })))
}

/// What WITH says of rows that are written through the view.
fn check_option(options: &[SqlOption]) -> Result<Option<CheckOption>> {
    let mut check = None;
    for option in options {
        let SqlOption::KeyValue { key, value } = option else {
            return Err(SqlError::unsupported(format!("the option {option} of a view")));
        };
        let (name, value) = (identifiers::ident(key), option_text(value));
        match name.as_str() {
            CHECK_OPTION if check.is_some() => {
                let message = format!("parameter \"{name}\" specified more than once");
                return Err(SqlError::new(code::INVALID_PARAMETER, message));
            }
            CHECK_OPTION => {
                check = CheckOption::named(&value.to_lowercase());
                if check.is_none() {
                    let message = format!("invalid value for enum option \"{name}\": {value}");
                    return Err(SqlError::new(code::INVALID_PARAMETER, message)
                        .detail("Valid values are \"local\" and \"cascaded\"."));
                }
            }
            "security_barrier" | "security_invoker" => {
                return Err(SqlError::unsupported(format!("the option {name} of a view")));
            }
            _ => {
                let message = format!("unrecognized parameter \"{name}\"");
                return Err(SqlError::new(code::INVALID_PARAMETER, message));
            }
        }
    }
    Ok(check)
}
