//! The types, operators and functions that an expression means, by the rules of PostgreSQL's
//! `parse_coerce.c`, `parse_oper.c` and `parse_func.c` over the rows of its catalogs.
//!
//! The binder has its own table of functions, which has one where PostgreSQL has several that
//! differ in the casts of their arguments. A text shows those casts, so that the choice is made
//! anew here.
//!
//! Invariants: nothing is chosen where PostgreSQL's rules leave several candidates.
//! Does not do: trees (`analyse`).

use crate::catalog::builtin::{self, TypeRules};
use crate::catalog::objects::Objects;
use crate::catalog::relations::base_oid;
use crate::catalog::type_objects::MadeKind;
use crate::names::SearchPath;
use crate::notes::ColumnNotes;
use crate::types::SqlType;

pub(super) const BOOL: u32 = SqlType::Bool.oid();
const INT8: u32 = SqlType::Int8.oid();
const INT2: u32 = SqlType::Int2.oid();
pub(super) const INT4: u32 = SqlType::Int4.oid();
pub(super) const TEXT: u32 = SqlType::Text.oid();
const FLOAT4: u32 = SqlType::Float4.oid();
const FLOAT8: u32 = SqlType::Float8.oid();
pub(super) const UNKNOWN: u32 = SqlType::Unknown.oid();
pub(super) const NUMERIC: u32 = SqlType::Numeric.oid();
pub(super) const RECORD: u32 = SqlType::Record.oid();
// Pseudo-types that no value has.
const ANY: u32 = 2276;
const ANY_ARRAY: u32 = 2277;
const ANY_ELEMENT: u32 = 2283;
const ANY_NON_ARRAY: u32 = 2776;
const ANY_ENUM: u32 = 3500;
const ANY_COMPATIBLE: u32 = 5077;
const ANY_COMPATIBLE_ARRAY: u32 = 5078;
const ANY_COMPATIBLE_NON_ARRAY: u32 = 5079;

const STRING: u8 = b'S';

/// Operators that `pg_operator` does not list here: polymorphic ones, and those in front of one
/// operand.
struct Unlisted {
    names: &'static [&'static str],
    operands: &'static [u32],
    result: u32,
}

const fn unlisted(
    names: &'static [&'static str],
    operands: &'static [u32],
    result: u32,
) -> Unlisted {
    Unlisted { names, operands, result }
}
const UNLISTED: [Unlisted; 8] = [
    unlisted(&["|/", "||/"], &[FLOAT8], FLOAT8),
    unlisted(&["@"], &[INT2], INT2),
    unlisted(&["@"], &[INT4], INT4),
    unlisted(&["@"], &[INT8], INT8),
    unlisted(&["@"], &[FLOAT4], FLOAT4),
    unlisted(&["@"], &[FLOAT8], FLOAT8),
    unlisted(&["@"], &[NUMERIC], NUMERIC),
    unlisted(&["~<~", "~<=~", "~>~", "~>=~"], &[TEXT, TEXT], BOOL),
];

/// The types that are there, with those that were made.
#[derive(Clone, Copy)]
pub(super) struct Types<'o>(pub(super) &'o Objects, pub(super) &'o SearchPath);

/// An operator or a function for operands of some types.
pub(super) struct Chosen {
    /// The types that its operands are cast to.
    pub(super) operands: Vec<u32>,
    pub(super) result: u32,
}

/// Polymorphic types of a call, once its operands tell them.
#[derive(Default)]
struct Generic {
    element: Option<u32>,
    compatible: Option<u32>,
}

fn is_generic(ty: u32) -> bool {
    matches!(
        ty,
        ANY_ARRAY
            | ANY_ELEMENT
            | ANY_NON_ARRAY
            | ANY_ENUM
            | ANY_COMPATIBLE
            | ANY_COMPATIBLE_ARRAY
            | ANY_COMPATIBLE_NON_ARRAY
    )
}

impl Types<'_> {
    /// Of a domain the type below it.
    pub(super) fn base(self, ty: u32) -> u32 {
        let domain = || self.0.domains().iter().find(|one| one.oid == ty);
        match self.rules(ty).is_some() {
            true => ty,
            false => domain().map_or(ty, |domain| {
                base_oid(&domain.column, &ColumnNotes::decode(&domain.column.note), self.0)
            }),
        }
    }

    /// Has it a collation?
    pub(super) fn is_text(self, ty: u32) -> bool {
        builtin::type_facts(ty).is_some_and(|facts| facts.collation != 0)
    }

    pub(super) fn is_enum(self, ty: u32) -> bool {
        self.category(ty) == b'E'
    }

    /// Is it a type of rows?
    pub(super) fn is_row(self, ty: u32) -> bool {
        ty == RECORD || self.category(ty) == b'C'
    }

    /// Does a function of the system take arguments of these types?
    pub(super) fn has_function(self, name: &str, args: &[u32]) -> bool {
        self.function(name, b'f', args).is_some()
    }

    fn rules(self, ty: u32) -> Option<&'static TypeRules> {
        builtin::type_rules(ty)
    }

    fn category(self, ty: u32) -> u8 {
        let made = || match self.0.made_numbered(ty) {
            Some((_, true)) => b'A',
            Some((stored, false)) => {
                let one = self.0.types().iter().find(|one| one.stored == stored);
                one.map_or(
                    b'U',
                    |one| if matches!(one.kind, MadeKind::Enum(_)) { b'E' } else { b'C' },
                )
            }
            None => b'U',
        };
        self.rules(ty).map_or_else(made, |rules| rules.category)
    }

    fn is_preferred(self, ty: u32) -> bool {
        self.rules(ty).is_some_and(|rules| rules.is_preferred)
    }

    /// The type of the elements of an array.
    pub(super) fn element(self, ty: u32) -> Option<u32> {
        let made = || self.0.types().iter().find(|one| one.array_oid == ty).map(|one| one.oid);
        match self.rules(ty) {
            Some(rules) => Some(rules.element).filter(|_| rules.category == b'A'),
            None => made(),
        }
    }

    /// The type of arrays of a type.
    pub(super) fn array(self, ty: u32) -> Option<u32> {
        let made = || self.0.types().iter().find(|one| one.oid == ty).map(|one| one.array_oid);
        match self.rules(ty) {
            Some(rules) => Some(rules.array).filter(|array| *array != 0),
            None => made(),
        }
    }

    /// Does `from` become `to` without being asked?
    pub(super) fn is_implicit(self, from: u32, to: u32) -> bool {
        if from == to || from == UNKNOWN || to == ANY {
            return true;
        }
        let (from, to) = (self.base(from), self.base(to));
        if from == to {
            return true;
        }
        if let Some(cast) = builtin::cast(from, to) {
            return cast.is_implicit;
        }
        match (self.element(from), self.element(to)) {
            (Some(from), Some(to)) => self.is_implicit(from, to),
            _ => false,
        }
    }

    /// Does a function make `to` of `from`? Otherwise the value stays as it is, or goes by its
    /// text, or element by element.
    pub(super) fn by_function(self, from: u32, to: u32) -> bool {
        builtin::cast(self.base(from), self.base(to)).is_some_and(|cast| cast.by_function)
    }

    /// The common type of several, as CASE and its kind have it; `None` if there is none.
    pub(super) fn common(self, types: &[u32]) -> Option<u32> {
        let (first, rest) = types.split_first()?;
        if *first != UNKNOWN && rest.iter().all(|other| other == first) {
            return Some(*first);
        }
        let mut found = self.base(*first);
        for other in rest {
            let other = self.base(*other);
            if other == UNKNOWN || other == found {
                continue;
            }
            if found == UNKNOWN {
                found = other;
            } else if self.category(other) != self.category(found) {
                return None;
            } else if !self.is_preferred(found)
                && self.is_implicit(found, other)
                && !self.is_implicit(other, found)
            {
                found = other;
            }
        }
        Some(if found == UNKNOWN { TEXT } else { found })
    }

    /// Do all of the types become this one by themselves?
    pub(super) fn all_become(self, types: &[u32], to: u32) -> bool {
        types.iter().all(|ty| self.is_implicit(*ty, to))
    }

    /// The operator of this name over operands of these types.
    pub(super) fn operator(self, name: &str, operands: &[u32]) -> Option<Chosen> {
        let listed = builtin::operators_named(name).iter();
        let listed = listed.map(|one| (one.operands.as_slice(), one.result));
        let others = UNLISTED.iter().filter(|one| one.names.contains(&name));
        let all = listed.chain(others.map(|one| (one.operands, one.result)));
        let all: Vec<_> = all.filter(|(types, _)| types.len() == operands.len()).collect();
        let candidates: Vec<&[u32]> = all.iter().map(|(types, _)| *types).collect();
        let exact = |wanted: &[u32]| candidates.iter().position(|types| *types == wanted);
        let mut known = operands.to_vec();
        if let [left, right] = operands {
            let other = |a: u32, b: u32| if a == UNKNOWN { b } else { a };
            known = vec![other(*left, *right), other(*right, *left)];
        }
        let bases: Vec<u32> = known.iter().map(|ty| self.base(*ty)).collect();
        let was_unknown = operands.contains(&UNKNOWN);
        let found = exact(&known).or_else(|| exact(&bases).filter(|_| was_unknown));
        let at = match found {
            Some(at) => at,
            None => self.select(operands, &candidates)?,
        };
        self.resolved(all[at].0, operands, all[at].1)
    }

    /// The function of the system of this name over arguments of these types; `kind` tells
    /// functions (`f`), aggregates and window functions apart.
    pub(super) fn function(self, name: &str, kind: u8, args: &[u32]) -> Option<Chosen> {
        let all: Vec<(Vec<u32>, u32)> = builtin::functions_named(name)
            .filter(|one| one.kind == kind)
            .filter_map(|one| Some((self.arguments(one, args.len())?, one.result)))
            .collect();
        let candidates: Vec<&[u32]> = all.iter().map(|(types, _)| types.as_slice()).collect();
        let exact = candidates.iter().position(|types| *types == args);
        let at = match exact {
            Some(at) => at,
            None => self.select(args, &candidates)?,
        };
        self.resolved(&all[at].0, args, all[at].1)
    }

    /// The types of so many arguments, if the function takes them. Functions whose last argument
    /// collects several into an array are left out: their text has the word VARIADIC.
    fn arguments(self, function: &builtin::BuiltIn, count: usize) -> Option<Vec<u32>> {
        let own = &function.arguments;
        match function.variadic {
            0 => (own.len() == count).then(|| own.clone()),
            ANY if count >= own.len() => {
                let mut types = own.clone();
                types.resize(count, ANY);
                Some(types)
            }
            _ => None,
        }
    }

    /// The types of a candidate over operands of these types.
    fn resolved(self, declared: &[u32], operands: &[u32], result: u32) -> Option<Chosen> {
        let generic = self.generic(declared, operands)?;
        let one = |ty: u32, own: u32| match ty {
            ANY => Some(own),
            ty => self.of_generic(ty, &generic),
        };
        let pairs = declared.iter().zip(operands);
        let operands = pairs.map(|(ty, own)| one(*ty, *own)).collect::<Option<Vec<_>>>()?;
        Some(Chosen { operands, result: self.of_generic(result, &generic)? })
    }

    fn of_generic(self, ty: u32, generic: &Generic) -> Option<u32> {
        match ty {
            ANY_ELEMENT | ANY_NON_ARRAY | ANY_ENUM => generic.element,
            ANY_ARRAY => self.array(generic.element?),
            ANY_COMPATIBLE | ANY_COMPATIBLE_NON_ARRAY => generic.compatible,
            ANY_COMPATIBLE_ARRAY => self.array(generic.compatible?),
            ty => Some(ty),
        }
    }

    /// The polymorphic types over operands of these types; `None` if they do not agree.
    fn generic(self, declared: &[u32], operands: &[u32]) -> Option<Generic> {
        let mut generic = Generic::default();
        let mut compatible = Vec::new();
        for (ty, own) in declared.iter().zip(operands) {
            if *own == UNKNOWN || !is_generic(*ty) {
                continue;
            }
            let element = match *ty {
                ANY_ARRAY | ANY_COMPATIBLE_ARRAY => self.element(self.base(*own))?,
                _ => *own,
            };
            let is_array = self.element(self.base(*own)).is_some();
            match *ty {
                ANY_NON_ARRAY | ANY_COMPATIBLE_NON_ARRAY if is_array => return None,
                ANY_ENUM if self.category(*own) != b'E' => return None,
                ANY_COMPATIBLE | ANY_COMPATIBLE_ARRAY | ANY_COMPATIBLE_NON_ARRAY => {
                    compatible.push(element);
                }
                _ if generic.element.is_some_and(|known| known != element) => return None,
                _ => generic.element = Some(element),
            }
        }
        if !compatible.is_empty() {
            let common = self.common(&compatible)?;
            generic.compatible = Some(common).filter(|to| self.all_become(&compatible, *to));
            generic.compatible?;
        }
        Some(generic)
    }

    fn takes(self, candidate: &[u32], operands: &[u32]) -> bool {
        let mut pairs = operands.iter().zip(candidate);
        let fits = |(own, ty): (&u32, &u32)| is_generic(*ty) || self.is_implicit(*own, *ty);
        pairs.all(fits) && self.generic(candidate, operands).is_some()
    }

    /// The place of the best candidate, as `func_select_candidate` has it.
    fn select(self, operands: &[u32], candidates: &[&[u32]]) -> Option<usize> {
        let fits = |at: &usize| self.takes(candidates[*at], operands);
        let mut left: Vec<usize> = (0..candidates.len()).filter(fits).collect();
        let bases: Vec<u32> = operands.iter().map(|ty| self.base(*ty)).collect();
        let known = |at: &usize| bases[*at] != UNKNOWN;
        let places: Vec<usize> = (0..bases.len()).collect();
        let exact = |one: &[u32], at: usize| one[at] == bases[at];
        let preferred = |one: &[u32], at: usize| {
            exact(one, at)
                || self.category(one[at]) == self.category(bases[at]) && self.is_preferred(one[at])
        };
        type Test<'t> = &'t dyn Fn(&[u32], usize) -> bool;
        let tests: [Test<'_>; 2] = [&exact, &preferred];
        for test in tests {
            if left.len() < 2 {
                return left.pop();
            }
            let count = |candidate: usize| {
                let own = places.iter().filter(|at| known(at));
                own.filter(|at| test(candidates[candidate], **at)).count()
            };
            let most = left.iter().map(|at| count(*at)).max()?;
            left.retain(|at| count(*at) == most);
        }
        let unknown: Vec<usize> = places.iter().copied().filter(|at| !known(at)).collect();
        if left.len() < 2 || unknown.is_empty() {
            return left.pop().filter(|_| left.is_empty());
        }
        if let Some(slots) = unknown
            .iter()
            .map(|at| self.category_of_slot(left.iter().map(|one| candidates[*one][*at])))
            .collect::<Option<Vec<_>>>()
        {
            let fits = |candidate: &usize| {
                unknown.iter().zip(&slots).all(|(at, (category, has_preferred))| {
                    let own = candidates[*candidate][*at];
                    self.category(own) == *category && (!has_preferred || self.is_preferred(own))
                })
            };
            let better: Vec<usize> = left.iter().copied().filter(fits).collect();
            match better.as_slice() {
                [] => {}
                [one] => return Some(*one),
                _ => left = better,
            }
        }
        self.as_known(&bases, &left, candidates)
    }

    /// The category of a place whose operand is a literal, and whether a candidate has its
    /// preferred type there.
    fn category_of_slot(self, types: impl Iterator<Item = u32>) -> Option<(u8, bool)> {
        let (mut found, mut differs): (Option<(u8, bool)>, bool) = (None, false);
        for ty in types {
            let (category, is_preferred) = (self.category(ty), self.is_preferred(ty));
            match &mut found {
                None => found = Some((category, is_preferred)),
                Some((known, has)) if *known == category => *has |= is_preferred,
                Some(known) if category == STRING => *known = (category, is_preferred),
                Some(_) => differs = true,
            }
        }
        found.filter(|(category, _)| !differs || *category == STRING)
    }

    /// The one candidate that takes literals as of the type of all other operands.
    fn as_known(self, bases: &[u32], left: &[usize], candidates: &[&[u32]]) -> Option<usize> {
        let mut known = bases.iter().filter(|ty| **ty != UNKNOWN);
        let first = *known.next()?;
        if !known.all(|ty| *ty == first) {
            return None;
        }
        let same = vec![first; bases.len()];
        let mut fitting = left.iter().filter(|at| self.takes(candidates[**at], &same));
        let found = fitting.next()?;
        fitting.next().is_none().then_some(*found)
    }
}
