//! Which expressions are the same at all times and in all sessions, as indexes need them.
//!
//! Functions are immutable as `pg_proc` says; of several that a call may mean all have to be. One
//! that it does not know is one of this layer's own, which compute from their arguments unless the
//! registry says otherwise. Operators are immutable, but for those that bring times with a zone and
//! others together. A cast by way of text depends on the session where the texts of a type do.
//!
//! Does not do: what a definition may name beside functions (`exec::ddl`).

use std::sync::OnceLock;

use super::Expr;
use super::registry::Function;
use crate::catalog::{BuiltIn, functions_named};
use crate::types::cast::is_of_session;
use crate::types::{Category, SqlType};

/// Numbers of types that stand for others.
const ANY: [u32; 8] = [2249, 2276, 2283, 2776, 3500, 5077, 5079, 705];
const ANY_ARRAY: [u32; 2] = [2277, 5078];

/// What calls are known by of which it is said that they are immutable.
pub(super) const DECLARED: &str = "declared immutable";

/// An expression which is said to be immutable, whatever it is made of.
pub(crate) fn declared(expr: Expr) -> Expr {
    static FUNCTION: OnceLock<Function> = OnceLock::new();
    let function = FUNCTION.get_or_init(|| {
        let ty = SqlType::Unknown;
        let function = Function::new(DECLARED, &[ty], ty, |v, _| Ok(v[0].clone()));
        Function { strict: false, ..function }
    });
    Expr::Call(function, vec![expr])
}

/// Is the value of an expression over columns of these types decided by them alone?
pub(crate) fn is_immutable(expr: &Expr, columns: &[SqlType]) -> bool {
    let mut expr = expr.clone();
    expr.change(&mut |inner| {
        let is_said = matches!(inner, Expr::Call(function, _) if function.name == DECLARED);
        if is_said {
            *inner = Expr::null();
        }
        !is_said
    });
    let mut immutable = !expr.is_volatile();
    expr.walk(&mut |inner| {
        immutable &= match inner {
            Expr::Call(function, args) => {
                let types: Vec<Option<SqlType>> =
                    args.iter().map(|arg| type_of(arg, columns)).collect();
                !function.is_stable && !function.reads_catalog && is_decided(function, &types)
            }
            Expr::Cast(value, to) => {
                let from = type_of(value, columns).unwrap_or(SqlType::Unknown);
                !is_of_session(from, *to)
            }
            Expr::Outer(_)
            | Expr::Param(_)
            | Expr::Aggregate(_)
            | Expr::Sequence(..)
            | Expr::Subquery(_) => false,
            _ => true,
        };
    });
    immutable
}

/// The type of an expression over columns of these types, as far as it can be told.
fn type_of(expr: &Expr, columns: &[SqlType]) -> Option<SqlType> {
    match expr {
        Expr::Const(value) => value.type_of(),
        Expr::Column(at) => columns.get(*at).copied(),
        Expr::Call(function, _) => Some(function.result).filter(|ty| *ty != SqlType::Unknown),
        Expr::Cast(_, to) => Some(*to),
        Expr::Fit(inner, ..) | Expr::Pad(inner, _) => type_of(inner, columns),
        Expr::And(_)
        | Expr::Or(_)
        | Expr::Not(_)
        | Expr::IsNull(..)
        | Expr::Is(..)
        | Expr::Distinct(..)
        | Expr::In(..)
        | Expr::AnyOf(_) => Some(SqlType::Bool),
        Expr::Coalesce(list) | Expr::Extreme(list, _) => {
            list.iter().find_map(|one| type_of(one, columns))
        }
        Expr::NullIf(a, _) => type_of(a, columns),
        Expr::Case(arms, rest) | Expr::Switch(_, arms, rest) => {
            let all = arms.iter().map(|(_, then)| then).chain([&**rest]);
            all.into_iter().find_map(|one| type_of(one, columns))
        }
        _ => None,
    }
}

/// Is a call of `function` with arguments of these types decided by them alone?
fn is_decided(function: &Function, types: &[Option<SqlType>]) -> bool {
    let declared = |at: usize| function.arg(at).filter(|ty| *ty != SqlType::Unknown);
    let types = types.iter().enumerate();
    let types: Vec<Option<SqlType>> = types.map(|(at, ty)| declared(at).or(*ty)).collect();
    let is_operator = !function.name.starts_with(|c: char| c.is_alphabetic() || c == '_');
    if is_operator {
        return of_operator(&types);
    }
    let named: Vec<&BuiltIn> = functions_named(function.name).collect();
    let meant: Vec<&&BuiltIn> = named.iter().filter(|one| takes(&one.arguments, &types)).collect();
    match meant.is_empty() {
        true if named.is_empty() => of_operator(&types),
        true => named.iter().all(|one| one.is_immutable),
        false => meant.iter().all(|one| one.is_immutable),
    }
}

/// Does an operator of these types not go by the zone of the session?
fn of_operator(types: &[Option<SqlType>]) -> bool {
    let is_zoned = |ty: &SqlType| *ty == SqlType::Timestamptz;
    let is_time = |ty: &SqlType| matches!(ty.category(), Category::DateTime | Category::Timespan);
    let known = || types.iter().flatten();
    !known().any(is_zoned) || known().filter(|ty| is_time(ty)).all(is_zoned)
}

/// May these arguments be of these types? One whose type is not known may be of any.
fn takes(arguments: &[u32], types: &[Option<SqlType>]) -> bool {
    let fits = |(wanted, ty): (&u32, &Option<SqlType>)| match ty {
        None | Some(SqlType::Unknown) => true,
        Some(ty) if ty.is_array() && ANY_ARRAY.contains(wanted) => true,
        Some(ty) => *wanted == ty.oid() || ANY.contains(wanted),
    };
    arguments.len() == types.len() && arguments.iter().zip(types).all(fits)
}
