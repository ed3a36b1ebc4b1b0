//! GROUPING SETS, ROLLUP, CUBE, and GROUPING (..), which says which keys a group has.
//!
//! GROUP BY names keys, and lists of them that are sets. Several items give each set of the one
//! with each set of the others. A plain item is one set.
//!
//! Invariants: a key is there once, however many sets have it; the number of sets is bounded.
//! Does not do: what clauses say of groups (`group`).

use sqlparser::ast::{self, FunctionArg, FunctionArgExpr, FunctionArguments};

use super::target::Target;
use super::{Binder, Place};
use crate::error::{Result, SqlError, code};
use crate::expr::{ColumnId, Expr, Typed, registry};
use crate::parse::grouping::{DISTINCT, SETS};
use crate::parse::identifiers;
use crate::plan::rel::Mark;
use crate::types::SqlType;

/// Most sets of keys, and most parts of CUBE, as in PostgreSQL.
const MAX_SETS: usize = 4_096;
const MAX_CUBE: usize = 12;
/// Most arguments of GROUPING: its bits are an integer.
const MAX_BITS: usize = 31;

/// Which keys, by their places.
type Set = Vec<usize>;

/// The keys of groups.
#[derive(Default)]
pub(super) struct Keys {
    pub(super) all: Vec<Typed>,
    /// Which of them make each set; `None`: all of them, the only one.
    pub(super) sets: Option<Vec<Set>>,
}

/// A call of GROUPING, whose value is a column.
pub(super) struct GroupingCall {
    id: ColumnId,
    args: Vec<Expr>,
    position: Option<usize>,
}

/// An item of GROUP BY or of a list of sets.
enum Item<'a> {
    /// One set of these.
    Plain(Vec<&'a ast::Expr>),
    Rollup(Vec<Item<'a>>),
    Cube(Vec<Item<'a>>),
    Sets(Vec<Item<'a>>),
}

impl<'a> Item<'a> {
    fn of(node: &'a ast::Expr) -> Item<'a> {
        let lists = |lists: &'a [Vec<ast::Expr>]| lists.iter().map(|list| Item::of_list(list));
        match node {
            ast::Expr::Rollup(parts) => Item::Rollup(lists(parts).collect()),
            ast::Expr::Cube(parts) => Item::Cube(lists(parts).collect()),
            ast::Expr::GroupingSets(parts) => Item::Sets(lists(parts).collect()),
            ast::Expr::Tuple(parts) => Item::Plain(parts.iter().collect()),
            ast::Expr::Function(call) => Item::of_call(call).unwrap_or(Item::Plain(vec![node])),
            other => Item::Plain(vec![other]),
        }
    }

    fn of_list(list: &'a [ast::Expr]) -> Item<'a> {
        match list {
            [one] => Item::of(one),
            several => Item::Plain(several.iter().collect()),
        }
    }

    /// Lists inside of lists are read as calls.
    fn of_call(call: &'a ast::Function) -> Option<Item<'a>> {
        let [ast::ObjectNamePart::Identifier(name)] = call.name.0.as_slice() else { return None };
        let FunctionArguments::List(list) = &call.args else { return None };
        let part = |arg: &'a FunctionArg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(node)) => Some(Item::of(node)),
            _ => None,
        };
        let parts = || list.args.iter().map(part).collect::<Option<Vec<Item<'_>>>>();
        match name.value.to_ascii_lowercase().as_str() {
            "rollup" if name.quote_style.is_none() => Some(Item::Rollup(parts()?)),
            "cube" if name.quote_style.is_none() => Some(Item::Cube(parts()?)),
            SETS => Some(Item::Sets(parts()?)),
            _ => None,
        }
    }
}

fn too_many() -> SqlError {
    let message = format!("too many grouping sets present (maximum {MAX_SETS})");
    SqlError::new(code::TOO_COMPLEX, message)
}

/// The keys of both.
fn joined(a: &[usize], b: &[usize]) -> Set {
    let mut set = a.to_vec();
    set.extend(b.iter().filter(|key| !a.contains(key)));
    set
}

impl Binder<'_> {
    /// Binds the items of GROUP BY.
    pub(super) fn keys(&mut self, items: &[ast::Expr], list: &[Target]) -> Result<Keys> {
        let is_distinct = matches!(items.first(),
            Some(ast::Expr::Identifier(name)) if name.value == DISTINCT);
        let items = &items[usize::from(is_distinct)..];
        let mut keys = Keys::default();
        let mut sets: Vec<Set> = vec![Vec::new()];
        let mut is_plain = true;
        for item in items {
            let item = Item::of(item);
            is_plain &= matches!(&item, Item::Plain(parts) if !parts.is_empty());
            let of_item = self.sets_of(&item, list, &mut keys.all)?;
            if sets.len() * of_item.len() > MAX_SETS {
                return Err(too_many());
            }
            let pairs = sets.iter().flat_map(|set| of_item.iter().map(|more| joined(set, more)));
            sets = pairs.collect();
        }
        if is_distinct {
            let mut known: Vec<Set> = Vec::with_capacity(sets.len());
            sets.retain(|set| {
                let mut sorted = set.clone();
                sorted.sort_unstable();
                let is_new = !known.contains(&sorted);
                known.push(sorted);
                is_new
            });
        }
        keys.sets = (!is_plain).then_some(sets);
        Ok(keys)
    }

    fn sets_of(
        &mut self,
        item: &Item<'_>,
        list: &[Target],
        keys: &mut Vec<Typed>,
    ) -> Result<Vec<Set>> {
        match item {
            Item::Plain(parts) => {
                let mut set = Vec::with_capacity(parts.len());
                for part in parts {
                    let key = self.key(part, list)?;
                    let known = keys.iter().position(|known| known.expr.same(&key.expr));
                    let place = known.unwrap_or(keys.len());
                    if known.is_none() {
                        keys.push(key);
                    }
                    if !set.contains(&place) {
                        set.push(place);
                    }
                }
                Ok(vec![set])
            }
            Item::Rollup(parts) => {
                let parts = self.parts_of(parts, list, keys)?;
                let first = |count: usize| {
                    parts[..count].iter().fold(Set::new(), |set, part| joined(&set, part))
                };
                Ok((0..=parts.len()).rev().map(first).collect())
            }
            Item::Cube(parts) => {
                if parts.len() > MAX_CUBE {
                    let message = format!("CUBE is limited to {MAX_CUBE} elements");
                    return Err(SqlError::new(code::TOO_MANY_COLUMNS, message));
                }
                let parts = self.parts_of(parts, list, keys)?;
                let chosen = |bits: usize| {
                    let has = |at: usize| bits >> (parts.len() - 1 - at) & 1 == 1;
                    let own = (0..parts.len()).filter(|at| has(*at));
                    own.fold(Set::new(), |set, at| joined(&set, &parts[at]))
                };
                Ok((0..1usize << parts.len()).rev().map(chosen).collect())
            }
            Item::Sets(items) => {
                let mut all = Vec::new();
                for item in items {
                    all.extend(self.sets_of(item, list, keys)?);
                    if all.len() > MAX_SETS {
                        return Err(too_many());
                    }
                }
                Ok(all)
            }
        }
    }

    /// The parts of ROLLUP or CUBE, which are no lists of sets.
    fn parts_of(
        &mut self,
        parts: &[Item<'_>],
        list: &[Target],
        keys: &mut Vec<Typed>,
    ) -> Result<Vec<Set>> {
        let mut sets = Vec::with_capacity(parts.len());
        for part in parts {
            // PostgreSQL takes those for calls, too.
            let name = match part {
                Item::Plain(_) => None,
                Item::Rollup(_) => Some("rollup"),
                Item::Cube(_) => Some("cube"),
                Item::Sets(_) => return Err(SqlError::syntax("syntax error at or near \"sets\"")),
            };
            if let Some(name) = name {
                return Err(registry::no_function(name, &[], &registry::Miss::None));
            }
            sets.extend(self.sets_of(part, list, keys)?);
        }
        if sets.len() > MAX_SETS {
            return Err(too_many());
        }
        Ok(sets)
    }

    /// Binds a call of GROUPING.
    pub(super) fn grouping_call(&mut self, call: &ast::Function) -> Result<Typed> {
        let place = match self.place {
            Place::Windows | Place::Aggregates | Place::InsideWindow => None,
            Place::InsideAggregate => Some("aggregate functions"),
            Place::None(place) => Some(place),
        };
        if let Some(place) = place {
            let message = format!("grouping operations are not allowed in {place}");
            return Err(SqlError::new(code::GROUPING_ERROR, message));
        }
        let FunctionArguments::List(list) = &call.args else {
            return Err(SqlError::syntax("GROUPING has arguments"));
        };
        if list.args.is_empty() {
            return Err(SqlError::syntax("syntax error at or near \")\""));
        }
        if list.args.len() > MAX_BITS {
            let message = "GROUPING must have fewer than 32 arguments";
            return Err(SqlError::new(code::TOO_MANY_ARGUMENTS, message));
        }
        let args = self.arguments(&list.args)?.into_iter().map(|arg| arg.expr).collect();
        let (id, position) = (self.new_columns(1), self.position(&call.name));
        self.groupings.push(GroupingCall { id, args, position });
        Ok(Typed::new(Expr::Column(id), SqlType::Int4))
    }

    /// What the calls of GROUPING give for each set of keys.
    pub(super) fn marks(&mut self, keys: &[Expr], sets: &[Set]) -> Result<Vec<Mark>> {
        let calls = std::mem::take(&mut self.groupings);
        let mut marks = Vec::with_capacity(calls.len());
        for GroupingCall { id, args, position } in calls {
            let place = |arg: &Expr| keys.iter().position(|key| key.same(arg));
            let Some(places) = args.iter().map(place).collect::<Option<Vec<usize>>>() else {
                let message = "arguments to GROUPING must be grouping expressions of the \
                               associated query level";
                return Err(SqlError::new(code::GROUPING_ERROR, message).at(position));
            };
            let bits = |set: &Set| {
                places.iter().fold(0, |bits, key| bits << 1 | i32::from(!set.contains(key)))
            };
            let values = match sets.is_empty() {
                true => vec![0],
                false => sets.iter().map(bits).collect(),
            };
            marks.push(Mark { id, values });
        }
        Ok(marks)
    }

    /// Is it a call of GROUPING?
    pub(super) fn is_grouping(call: &ast::Function) -> bool {
        identifiers::function(&call.name).is_ok_and(|name| name == "grouping")
    }
}
