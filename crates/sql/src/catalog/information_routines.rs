//! Rows of `information_schema.routines` and `.parameters`: functions that users made.
//!
//! Invariants: columns mean what PostgreSQL 15's do.
//! Does not do: functions of the system, which it leaves out as `information` does tables of it.

use super::functions::{FunctionObject, default_of, named};
use super::numbers::{nulls, text, yes};
use super::objects::Objects;
use crate::names::{CATALOGS, bare, schema_of};
use crate::types::parameter_mode::ParameterMode;
use crate::types::volatility::Volatility;
use crate::types::{Datum, Row, SqlType, VARCHAR};
use crate::user_types::functions::Part;

/// The words of standard SQL for a type.
struct TypeWords {
    schema: &'static str,
    name: String,
    data_type: String,
}

impl TypeWords {
    fn of(ty: SqlType, shown: String) -> TypeWords {
        let made = match ty.element().unwrap_or(ty) {
            SqlType::Enum(made) => Some(made.stored()),
            SqlType::Composite(made) => Some(made.stored()),
            _ => None,
        };
        let data_type = match made {
            _ if ty.is_array() => "ARRAY".to_owned(),
            Some(_) => "USER-DEFINED".to_owned(),
            None => shown.clone(),
        };
        let name = if shown == VARCHAR { "varchar".to_owned() } else { ty.short_name().to_owned() };
        TypeWords { schema: made.map_or(CATALOGS[0], schema_of), name, data_type }
    }

    fn of_part(part: &Part) -> TypeWords {
        TypeWords::of(part.ty, named(part))
    }
}

/// The three names that tell a function from all others.
fn specific(database: &str, one: &FunctionObject) -> Row {
    let name = format!("{}_{}", bare(&one.stored), one.oid);
    vec![text(database), text(schema_of(&one.stored)), text(name)]
}

/// Rows of `routines`.
pub(super) fn routines(database: &str, objects: &Objects) -> Vec<Row> {
    objects.functions().iter().map(|one| routine(database, one)).collect()
}

fn routine(database: &str, one: &FunctionObject) -> Row {
    let (_, shown) = one.result();
    let words = TypeWords::of(one.result_type(), shown);
    let mut row = specific(database, one);
    row.extend([text(database), text(schema_of(&one.stored)), text(bare(&one.stored))]);
    row.push(text("FUNCTION"));
    // Its module and the names of a type of no function.
    nulls(&mut row, 6);
    row.push(text(words.data_type));
    nulls(&mut row, 14);
    row.extend([text(database), text(words.schema), text(words.name)]);
    nulls(&mut row, 4);
    row.extend([text("0"), text("SQL"), text(one.notes.body.as_str()), Datum::Null]);
    row.extend([text("SQL"), text("GENERAL")]);
    row.push(yes(one.notes.volatility == Volatility::Immutable));
    row.extend([text("MODIFIES"), yes(one.notes.is_strict), Datum::Null]);
    row.extend([yes(true), Datum::Int4(0), Datum::Null, Datum::Null, text("INVOKER")]);
    nulls(&mut row, 3);
    row.push(yes(false));
    nulls(&mut row, 3);
    row.push(yes(false));
    nulls(&mut row, 24);
    row
}

/// Rows of `parameters`.
pub(super) fn parameters(database: &str, objects: &Objects) -> Vec<Row> {
    let of_function = |one| parameters_of(database, one);
    objects.functions().iter().flat_map(of_function).collect()
}

fn parameters_of(database: &str, one: &FunctionObject) -> Vec<Row> {
    let parameters = one.parts().iter().filter_map(|part| Some((part.mode?, part)));
    let row = |(at, (mode, part)): (usize, (ParameterMode, &Part))| {
        let mut row = specific(database, one);
        row.push(Datum::Int4(i32::try_from(at + 1).unwrap_or(i32::MAX)));
        row.push(text(match mode {
            ParameterMode::In | ParameterMode::Variadic => "IN",
            ParameterMode::InOut => "INOUT",
            ParameterMode::Out | ParameterMode::Table => "OUT",
        }));
        row.extend([yes(false), yes(false)]);
        row.push(part.name.as_deref().map_or(Datum::Null, text));
        let words = TypeWords::of_part(part);
        row.push(text(words.data_type));
        nulls(&mut row, 14);
        row.extend([text(database), text(words.schema), text(words.name)]);
        nulls(&mut row, 4);
        row.push(text((at + 1).to_string()));
        row.push(default_of(part, &named).map_or(Datum::Null, text));
        row
    };
    parameters.enumerate().map(row).collect()
}
