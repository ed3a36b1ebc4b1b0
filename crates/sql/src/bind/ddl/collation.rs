//! CREATE COLLATION.
//!
//! Does not do: asking ICU whether there is such a locale (`exec::ddl`).

use sqlparser::ast::{self, SqlOption};

use super::{Definition, NewCollation, option_text};
use crate::error::{Result, SqlError, code};
use crate::parse::identifiers;

pub(super) fn create(create: &ast::CreateCollation) -> Result<Definition> {
    let options = match &create.definition {
        ast::CreateCollationDefinition::From(other) => {
            let from = NewCollation::From(identifiers::collation(other)?);
            return named_collation(create, from);
        }
        ast::CreateCollationDefinition::Options(options) => options,
    };
    let (mut locale, mut deterministic, mut icu) = (None, true, false);
    for option in options {
        let SqlOption::KeyValue { key, value } = option else {
            return Err(SqlError::syntax(format!("syntax error at or near \"{option}\"")));
        };
        let value = option_text(value);
        match (identifiers::ident(key).as_str(), value.to_lowercase().as_str()) {
            ("provider", "icu") => icu = true,
            ("provider", other) => {
                let what = format!("the collation provider \"{other}\"");
                return Err(SqlError::unsupported(what).hint("Use provider = icu."));
            }
            ("locale" | "lc_collate" | "lc_ctype", _) => locale = Some(value),
            ("deterministic", "true" | "on" | "1" | "yes") => deterministic = true,
            ("deterministic", "false" | "off" | "0" | "no") => deterministic = false,
            ("deterministic", _) => {
                let message = "deterministic requires a Boolean value";
                return Err(SqlError::new(code::SYNTAX_ERROR, message));
            }
            // What another build was made with.
            ("version", _) => {}
            (other, _) => {
                let message = format!("collation attribute \"{other}\" not recognized");
                return Err(SqlError::new(code::SYNTAX_ERROR, message));
            }
        }
    }
    if !icu {
        return Err(
            SqlError::unsupported("a collation of the C library").hint("Use provider = icu.")
        );
    }
    let Some(locale) = locale else {
        let message = "parameter \"locale\" must be specified";
        return Err(SqlError::new(code::INVALID_OBJECT_DEFINITION, message));
    };
    named_collation(create, NewCollation::Locale(locale, deterministic))
}

fn named_collation(create: &ast::CreateCollation, from: NewCollation) -> Result<Definition> {
    let (name, if_not_exists) = (identifiers::collation(&create.name)?, create.if_not_exists);
    Ok(Definition::CreateCollation { name, from, if_not_exists })
}
