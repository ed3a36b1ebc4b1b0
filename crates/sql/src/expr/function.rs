//! What a function is, and a table of functions by name.
//!
//! Invariants: a table has no two functions of one name over the same types.
//! Does not do: which functions there are, and which of them a call means (`registry`).

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::error::Result;
use crate::expr::Context;
use crate::expr::arrays::Definition;
use crate::types::cast::is_implicit;
use crate::types::{Datum, RegKind, SqlType};

/// What a function does with its arguments.
pub(crate) type Eval = fn(&[Datum], &Context) -> Result<Datum>;

/// What a comparison takes for true of the order of its two values.
pub(crate) type Holds = fn(Ordering) -> bool;

/// A function that gives rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SetFunction {
    /// `generate_series` of numbers or times of this type.
    Series(SqlType),
    /// `string_to_table`
    TextParts,
    /// The elements of arrays, side by side.
    Unnest,
    /// The elements of an array and their numbers from one on.
    Numbered,
    /// The subscripts of a dimension of an array, backward if so.
    Subscripts,
    /// Members of a document.
    Json(JsonRows),
    /// Of a text and a regular expression.
    Patterns(PatternRows),
    /// The channels that the session listens on.
    Channels,
    /// Names and values of options such as `name=value`.
    Options,
    /// The tables of a publication, of which there is none.
    Publication,
    /// The partitions of a table, of which there are none.
    Partitions,
    /// The one value of its argument, which any function in FROM is.
    Value,
    /// No rows.
    Nothing,
}

impl SetFunction {
    /// Names and types of the columns, if rows have several; `ty` is the type of values.
    pub(crate) fn fields(self, ty: SqlType) -> Vec<(&'static str, SqlType)> {
        match self {
            SetFunction::Numbered => vec![("x", ty), ("n", SqlType::Int4)],
            SetFunction::Json(JsonRows { part: JsonPart::Fields, .. }) => {
                vec![("key", SqlType::Text), ("value", ty)]
            }
            SetFunction::Options => {
                vec![("option_name", SqlType::Text), ("option_value", SqlType::Text)]
            }
            SetFunction::Partitions => {
                let relation = SqlType::Reg(RegKind::Class);
                let of_tree = [("relid", relation), ("parentrelid", relation)];
                let own = [("isleaf", SqlType::Bool), ("level", SqlType::Int4)];
                of_tree.into_iter().chain(own).collect()
            }
            SetFunction::Publication => vec![
                ("relid", SqlType::Oid),
                ("attrs", SqlType::Int2Vector),
                ("qual", SqlType::Text),
            ],
            _ => Vec::new(),
        }
    }
}

/// What a function gives of a text and a regular expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternRows {
    /// What the groups of each match hold.
    Matches,
    /// The texts between matches.
    Parts,
}

/// What a function gives of a document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct JsonRows {
    pub(crate) name: &'static str,
    pub(crate) part: JsonPart,
    /// Values as `->>` gives them, and not as `->` does?
    pub(crate) as_text: bool,
}

/// The members that a function gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonPart {
    Items,
    Keys,
    /// Keys and values, in two columns.
    Fields,
    /// What a path gives.
    Path,
}

/// A function or operator for one list of argument types. An argument of type unknown takes
/// anything.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) args: Vec<SqlType>,
    /// May the last argument be repeated?
    pub(crate) variadic: bool,
    pub(crate) result: SqlType,
    /// Is the result null when an argument is?
    pub(crate) strict: bool,
    /// May it differ between two calls with equal arguments?
    pub(crate) volatile: bool,
    /// May it differ between two statements, such as the time at which they began?
    pub(crate) is_stable: bool,
    /// Does it look at what the statement knows of catalogs?
    pub(crate) reads_catalog: bool,
    /// Does it give rows, and which?
    pub(crate) rows: Option<SetFunction>,
    /// Is it a comparison of two values by their order, and which?
    pub(crate) holds: Option<Holds>,
    pub(crate) eval: Eval,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{:?}", self.name, self.args)
    }
}

/// Functions by name.
#[derive(Default)]
pub(crate) struct Registry {
    pub(super) by_name: HashMap<&'static str, Vec<Function>>,
    /// Those over arrays of any type and those that assign parts of columns, which `bind` chooses.
    pub(super) arrays: Vec<Function>,
}

impl From<Definition> for Function {
    fn from(one: Definition) -> Function {
        let Definition { name, count, variadic, strict, result, eval } = one;
        let args = vec![SqlType::Unknown; count];
        let (volatile, is_stable, reads_catalog, rows, holds) = (false, false, false, None, None);
        Function {
            name,
            args,
            variadic,
            result,
            strict,
            volatile,
            is_stable,
            reads_catalog,
            rows,
            holds,
            eval,
        }
    }
}

impl Registry {
    /// Adds a strict function without side effects.
    pub(super) fn add(
        &mut self,
        name: &'static str,
        args: &[SqlType],
        result: SqlType,
        eval: Eval,
    ) -> &mut Function {
        let list = self.by_name.entry(name).or_default();
        debug_assert!(list.iter().all(|other| other.args != args), "{name} twice");
        list.push(Function::new(name, args, result, eval));
        list.last_mut().expect("pushed above")
    }
}

impl Function {
    /// A strict function without side effects.
    pub(super) fn new(
        name: &'static str,
        args: &[SqlType],
        result: SqlType,
        eval: Eval,
    ) -> Function {
        Function {
            name,
            args: args.to_vec(),
            variadic: false,
            result,
            strict: true,
            volatile: false,
            is_stable: false,
            reads_catalog: false,
            rows: None,
            holds: None,
            eval,
        }
    }

    pub(crate) fn arg(&self, at: usize) -> Option<SqlType> {
        match self.args.get(at) {
            None if self.variadic => self.args.last().copied(),
            found => found.copied(),
        }
    }

    pub(super) fn takes(&self, types: &[SqlType]) -> bool {
        let enough = types.len() >= self.args.len();
        let count_fits = if self.variadic { enough } else { types.len() == self.args.len() };
        count_fits && types.iter().enumerate().all(|(at, ty)| self.takes_at(at, *ty))
    }

    pub(super) fn takes_at(&self, at: usize, ty: SqlType) -> bool {
        let Some(wanted) = self.arg(at) else { return false };
        wanted == SqlType::Unknown || is_implicit(ty, wanted)
    }
}
