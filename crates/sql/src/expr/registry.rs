//! All functions and operators, and which of them a call means.
//!
//! Resolution follows PostgreSQL's chapter 10: an exact match; else the candidates whose arguments
//! convert by themselves, those with most exact matches first, then those with preferred types,
//! then by the category that unknown literals take.
//!
//! Invariants: the table is built once and never changes.
//! Does not do: finding functions of users, of which [`choose`] takes one as of any others.

use std::collections::HashMap;
use std::sync::OnceLock;

use rightlink_env::sync::Mutex;

use crate::error::{SqlError, code};
use crate::expr::function::Registry;
pub(crate) use crate::expr::function::{Function, JsonPart, SetFunction};
use crate::expr::{
    arrays, assign, bits, bytes, catalog, clock, degrees, format, json, lsn, math, moments,
    network, operators, overlaps, privileges, records, regex, sessions, sets, spans, strings,
    system, to_char,
};
use crate::types::{Category, SqlType};

fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        let mut registry = Registry::default();
        operators::register(&mut registry);
        math::register(&mut registry);
        degrees::register(&mut registry);
        strings::register(&mut registry);
        format::register(&mut registry);
        bytes::register(&mut registry);
        bits::register(&mut registry);
        moments::register(&mut registry);
        clock::register(&mut registry);
        overlaps::register(&mut registry);
        spans::register(&mut registry);
        to_char::register(&mut registry);
        system::register(&mut registry);
        sessions::register(&mut registry);
        catalog::register(&mut registry);
        privileges::register(&mut registry);
        regex::register(&mut registry);
        sets::register(&mut registry);
        records::register(&mut registry);
        json::register(&mut registry);
        network::register(&mut registry);
        lsn::register(&mut registry);
        for count in [2, 3] {
            let args = &[SqlType::Text; 3][..count];
            registry.add("string_to_array", args, SqlType::texts(), arrays::of_string).strict =
                false;
        }
        let of_arrays = arrays::definitions().into_iter().chain(assign::definitions());
        registry.arrays = of_arrays.map(Function::from).collect();
        registry
    })
}

/// What a function of this name gives, if it gives rows.
pub(crate) fn rows_of(name: &str) -> Option<SetFunction> {
    registry().by_name.get(name)?.iter().find_map(|function| function.rows)
}

/// Why a call means no function.
pub(crate) enum Miss {
    /// None takes such arguments.
    None,
    /// Several do, and none is better.
    Ambiguous,
}

/// The function over arrays of any type that has so many arguments; one that takes a list is asked
/// for with one.
pub(crate) fn of_arrays(name: &str, count: usize) -> Option<&'static Function> {
    registry().arrays.iter().find(|one| one.name == name && one.args.len() == count)
}

/// Functions over types that were made, by name and the place of the type; of arrays of it or not.
type OfMade = HashMap<(String, SqlType, u32), &'static Function>;

/// The comparison `name` of two values of `ty`, if that is a type that was made.
fn of_made(name: &str, ty: SqlType) -> Option<&'static Function> {
    static KNOWN: OnceLock<Mutex<OfMade>> = OnceLock::new();
    let place = match ty.element().unwrap_or(ty) {
        SqlType::Enum(made) => made.place(),
        SqlType::Composite(made) if ty.is_array() => made.place(),
        SqlType::Record if ty.is_array() => 0,
        _ => return None,
    };
    let key = (name.to_owned(), ty, place);
    let mut known = KNOWN.get_or_init(Mutex::default).lock();
    if let Some(found) = known.get(&key) {
        return Some(found);
    }
    // It is there as long as the definition of its type.
    let function: &'static Function = Box::leak(Box::new(operators::comparison_of(name, ty)?));
    known.insert(key, function);
    Some(function)
}

/// The function that `name` means for arguments of these types.
pub(crate) fn resolve(
    name: &str,
    types: &[SqlType],
) -> std::result::Result<&'static Function, Miss> {
    if let [a, b] = types
        && a == b
        && let Some(found) = of_made(name, *a)
    {
        return Ok(found);
    }
    let all = registry().by_name.get(name).ok_or(Miss::None)?;
    let exact = |f: &&Function| {
        !f.variadic && f.args.len() == types.len() && f.args.iter().zip(types).all(|(a, b)| a == b)
    };
    if let Some(found) = all.iter().find(exact) {
        return Ok(found);
    }
    let list: Vec<&'static Function> = all.iter().filter(|f| f.takes(types)).collect();
    choose(list, types)
}

/// As [`resolve`] for an operator with two operands, where an unknown one is first taken for the
/// type of the other.
pub(crate) fn resolve_operator(
    name: &str,
    types: &[SqlType],
) -> std::result::Result<&'static Function, Miss> {
    if let [a, b] = types {
        let same = match (*a, *b) {
            (SqlType::Unknown, other) | (other, SqlType::Unknown) => other,
            _ => SqlType::Unknown,
        };
        if let Some(found) = of_made(name, same) {
            return Ok(found);
        }
        // PostgreSQL compares a `cidr` as an `inet`, and takes a literal beside it for one.
        let taken = |ty| match (ty, same) {
            (SqlType::Unknown, SqlType::Cidr) => SqlType::Inet,
            _ => same,
        };
        let all = registry().by_name.get(name).ok_or(Miss::None)?;
        let found = all.iter().find(|f| f.args == [taken(*a), taken(*b)]);
        if let Some(found) = found.filter(|_| same != SqlType::Unknown) {
            return Ok(found);
        }
    }
    resolve(name, types)
}

/// A function that a call may mean.
pub(crate) trait Candidate {
    /// The type that it has for an argument of the call.
    fn arg(&self, at: usize) -> Option<SqlType>;

    /// Does it take an argument of this type there?
    fn takes_at(&self, at: usize, ty: SqlType) -> bool;
}

impl Candidate for Function {
    fn arg(&self, at: usize) -> Option<SqlType> {
        self.arg(at)
    }

    fn takes_at(&self, at: usize, ty: SqlType) -> bool {
        self.takes_at(at, ty)
    }
}

/// The best of functions that all take arguments of these types.
pub(crate) fn choose<'c, C: Candidate>(
    mut list: Vec<&'c C>,
    types: &[SqlType],
) -> std::result::Result<&'c C, Miss> {
    let known = |ty: &SqlType| *ty != SqlType::Unknown;
    let exact = |f: &C| {
        let hit = |(at, ty): (usize, &SqlType)| known(ty) && f.arg(at) == Some(*ty);
        types.iter().enumerate().filter(|pair| hit(*pair)).count()
    };
    keep_best(&mut list, exact);
    let preferred = |f: &C| {
        let hit = |(at, ty): (usize, &SqlType)| {
            known(ty) && f.arg(at).is_some_and(|arg| arg == *ty || arg.is_preferred())
        };
        types.iter().enumerate().filter(|pair| hit(*pair)).count()
    };
    keep_best(&mut list, preferred);
    if list.len() > 1 && types.contains(&SqlType::Unknown) {
        narrow_unknown(&mut list, types);
    }
    match list.as_slice() {
        [] => Err(Miss::None),
        [one] => Ok(one),
        _ => Err(Miss::Ambiguous),
    }
}

fn keep_best<C>(list: &mut Vec<&C>, score: impl Fn(&C) -> usize) {
    let best = list.iter().map(|f| score(f)).max().unwrap_or(0);
    if list.len() > 1 {
        list.retain(|f| score(f) == best);
    }
}

/// Takes unknown arguments for strings if any candidate does, else for the one category that all
/// name; at last for the type that all known arguments share.
fn narrow_unknown<C: Candidate>(list: &mut Vec<&C>, types: &[SqlType]) {
    let unknown = types.iter().enumerate().filter(|(_, ty)| **ty == SqlType::Unknown);
    let wanted: Option<Vec<WantedType>> = unknown.map(|(at, _)| WantedType::of(list, at)).collect();
    if let Some(wanted) = wanted {
        let fits = |f: &&&C| wanted.iter().all(|one| one.is_met_by(**f));
        let fitting: Vec<&C> = list.iter().filter(fits).copied().collect();
        if !fitting.is_empty() {
            *list = fitting;
        }
    }
    let mut known = types.iter().copied().filter(|ty| *ty != SqlType::Unknown);
    if let (true, Some(first)) = (list.len() > 1, known.next())
        && known.all(|ty| ty == first)
    {
        let fits = |f: &&&C| (0..types.len()).all(|at| f.takes_at(at, first));
        let fitting: Vec<&C> = list.iter().filter(fits).copied().collect();
        if fitting.len() == 1 {
            *list = fitting;
        }
    }
}

/// The type that an unknown argument is taken for.
struct WantedType {
    at: usize,
    category: Category,
    /// Is it the preferred type of the category, because a candidate has that?
    is_preferred: bool,
}

impl WantedType {
    /// The category that the candidates want there; none if they want several and no string.
    fn of<C: Candidate>(list: &[&C], at: usize) -> Option<WantedType> {
        let types = || list.iter().filter_map(|f| f.arg(at));
        let first = types().next()?.category();
        let category = match types().any(|ty| ty.category() == Category::String) {
            true => Category::String,
            false if types().all(|ty| ty.category() == first) => first,
            false => return None,
        };
        let is_preferred = types().any(|ty| ty.category() == category && ty.is_preferred());
        Some(WantedType { at, category, is_preferred })
    }

    fn is_met_by<C: Candidate>(&self, candidate: &C) -> bool {
        let is_it = |ty: SqlType| {
            ty.category() == self.category && (ty.is_preferred() || !self.is_preferred)
        };
        candidate.arg(self.at).is_some_and(is_it)
    }
}

/// The error for a function that does not exist.
pub(crate) fn no_function(name: &str, types: &[SqlType], miss: &Miss) -> SqlError {
    let list: Vec<&str> = types.iter().map(|ty| ty.name()).collect();
    let call = format!("{name}({})", list.join(", "));
    match miss {
        Miss::Ambiguous => {
            let message = format!("function {call} is not unique");
            SqlError::new(code::AMBIGUOUS_FUNCTION, message).hint(
                "Could not choose a best candidate function. You might need to add explicit type \
                 casts.",
            )
        }
        Miss::None => {
            let message = format!("function {call} does not exist");
            SqlError::new(code::UNDEFINED_FUNCTION, message).hint(
                "No function matches the given name and argument types. You might need to add \
                 explicit type casts.",
            )
        }
    }
}

/// The error for an operator that does not exist.
pub(crate) fn no_operator(name: &str, types: &[SqlType], miss: &Miss) -> SqlError {
    let shown = match types {
        [one] => format!("{name} {}", one.name()),
        [a, b] => format!("{} {name} {}", a.name(), b.name()),
        _ => name.to_owned(),
    };
    match miss {
        Miss::Ambiguous => {
            let message = format!("operator is not unique: {shown}");
            SqlError::new(code::AMBIGUOUS_FUNCTION, message).hint(
                "Could not choose a best candidate operator. You might need to add explicit type \
                 casts.",
            )
        }
        Miss::None => {
            let message = format!("operator does not exist: {shown}");
            SqlError::new(code::UNDEFINED_FUNCTION, message).hint(
                "No operator matches the given name and argument types. You might need to add \
                 explicit type casts.",
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_resolved_as_in_postgresql() {
        use SqlType as T;
        let plus = |a, b| resolve_operator("+", &[a, b]).ok().map(|f| f.result);
        assert_eq!(plus(T::Int4, T::Unknown), Some(T::Int4));
        assert_eq!(plus(T::Int2, T::Int8), Some(T::Int8));
        assert_eq!(plus(T::Int4, T::Float4), Some(T::Float8));
        assert_eq!(plus(T::Int4, T::Numeric), Some(T::Numeric));
        assert_eq!(plus(T::Float4, T::Numeric), Some(T::Float8));
        assert_eq!(plus(T::Date, T::Int4), Some(T::Date));
        assert_eq!(plus(T::Timestamp, T::Unknown), Some(T::Timestamp));
        assert_eq!(plus(T::Bool, T::Bool), None);
        assert!(matches!(resolve("abs", &[T::Unknown]), Ok(f) if f.result == T::Float8));
        assert!(matches!(resolve("round", &[T::Int4]), Ok(f) if f.result == T::Float8));
        assert!(matches!(resolve("length", &[T::Unknown]), Ok(f) if f.args == [T::Text]));
        assert!(
            matches!(resolve_operator("||", &[T::Int4, T::Unknown]), Ok(f) if f.result == T::Text)
        );
        assert!(matches!(resolve_operator("+", &[T::Unknown, T::Unknown]), Err(Miss::Ambiguous)));
    }
}
