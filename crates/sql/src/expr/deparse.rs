//! Expressions as text, in the form that PostgreSQL's EXPLAIN shows.
//!
//! Does not do: text that a parser would surely read back.

use crate::expr::sequences::{Ask, BY_NUMBER};
use crate::expr::{Expr, SubqueryKind, arrays, immutable, records, routine};
use crate::names::{bare, function_of_entry, identifier, reference};
use crate::types::literal::{constant, literal};
use crate::types::{Datum, SqlType};

/// `expr` with columns called `names`, which are quoted where they need it.
pub(crate) fn show(expr: &Expr, names: &[String]) -> String {
    let inner = |expr: &Expr| show(expr, names);
    let list = |list: &[Expr], by: &str| list.iter().map(inner).collect::<Vec<_>>().join(by);
    match expr {
        Expr::Const(value) => constant(value),
        Expr::Column(at) => names.get(*at).map_or("?".to_owned(), String::clone),
        Expr::Outer(slot) => format!("${slot}"),
        Expr::Param(at) => format!("${}", at + 1),
        Expr::Aggregate(at) => format!("agg{}", at + 1),
        Expr::Call(function, args) => match (function.name, args.as_slice()) {
            // The first one tells its fields.
            (records::ROW, [_, values @ ..]) => format!("ROW({})", list(values, ", ")),
            (
                records::FIELD,
                [row, Expr::Const(Datum::Int4(at)), Expr::Const(Datum::Record(nulls))],
            ) => {
                let name = nulls.fields().get(*at as usize).map_or("", |field| &field.name);
                format!("({}).{}", inner(row), identifier(name))
            }
            (records::IS_NULL, [row]) => format!("({} IS NULL)", inner(row)),
            (records::IS_NOT_NULL, [row]) => format!("({} IS NOT NULL)", inner(row)),
            (immutable::DECLARED, [one]) => inner(one),
            (routine::CALL, [Expr::Const(Datum::Text(entry)), args @ ..]) => {
                let name = function_of_entry(entry).unwrap_or_default();
                format!("{}({})", identifier(bare(&name)), list(args, ", "))
            }
            (name, args) => call(name, args, names),
        },
        Expr::Cast(value, SqlType::Bit) => format!("({})::\"bit\"", inner(value)),
        Expr::Cast(value, to) => format!("({})::{}", inner(value), to.name()),
        Expr::Fit(value, modifier, _) => format!("({})::{modifier}", inner(value)),
        Expr::Pad(value, _) | Expr::Weights(value, _) => inner(value),
        Expr::Sequence(ask, name, args) if name == BY_NUMBER => {
            format!("{}({})", ask.function(), list(args, ", "))
        }
        Expr::Sequence(ask, name, args) => {
            let rest = if *ask == Ask::Set { args.as_slice() } else { &[] };
            let rest: String = rest.iter().map(|arg| format!(", {}", inner(arg))).collect();
            format!("{}({}::regclass{rest})", ask.function(), literal(&reference(name)))
        }
        Expr::And(parts) => format!("({})", list(parts, " AND ")),
        Expr::Or(parts) => format!("({})", list(parts, " OR ")),
        Expr::Not(value) => format!("(NOT {})", inner(value)),
        Expr::IsNull(value, negated) => {
            format!("({} IS {}NULL)", inner(value), if *negated { "NOT " } else { "" })
        }
        Expr::Is(value, wanted, negated) => {
            let what = wanted.map_or("UNKNOWN", |wanted| if wanted { "TRUE" } else { "FALSE" });
            format!("({} IS {}{what})", inner(value), if *negated { "NOT " } else { "" })
        }
        Expr::Distinct(a, b, negated) => {
            let not = if *negated { "NOT " } else { "" };
            format!("({} IS {not}DISTINCT FROM {})", inner(a), inner(b))
        }
        Expr::Case(arms, rest) => {
            let arm =
                |(when, then): &(Expr, Expr)| format!(" WHEN {} THEN {}", inner(when), inner(then));
            let arms: String = arms.iter().map(arm).collect();
            format!("CASE{arms} ELSE {} END", inner(rest))
        }
        Expr::Switch(operand, arms, rest) => {
            let arm = |(when, then): &(Expr, Expr)| {
                // The condition compares the operand with this.
                let value = match when {
                    Expr::Call(_, pair) => pair.last().unwrap_or(when),
                    other => other,
                };
                format!(" WHEN {} THEN {}", inner(value), inner(then))
            };
            let arms: String = arms.iter().map(arm).collect();
            format!("CASE {}{arms} ELSE {} END", inner(operand), inner(rest))
        }
        Expr::Operand => "?".to_owned(),
        Expr::Coalesce(parts) => format!("COALESCE({})", list(parts, ", ")),
        Expr::NullIf(a, b) => format!("NULLIF({}, {})", inner(a), inner(b)),
        Expr::Extreme(parts, wanted) => {
            let name = if wanted.is_gt() { "GREATEST" } else { "LEAST" };
            format!("{name}({})", list(parts, ", "))
        }
        Expr::In(needle, parts, negated) => {
            let (op, all) = if *negated { ("<>", "ALL") } else { ("=", "ANY") };
            format!("({} {op} {all} ({{{}}}))", inner(needle), list(parts, ","))
        }
        // As PostgreSQL, which does not say what a cast to a domain asks.
        Expr::Checked(checked) => inner(&checked.value),
        Expr::AnyOf(any) => {
            let quantifier = if any.all { "ALL" } else { "ANY" };
            let (needle, array) = (inner(&any.needle), inner(&any.array));
            format!("({needle} {} {quantifier} ({array}))", any.operator())
        }
        Expr::Subquery(query) => match query.kind {
            SubqueryKind::Exists => format!("EXISTS(SubPlan {})", query.number + 1),
            _ => format!("(SubPlan {})", query.number + 1),
        },
    }
}

/// `ARRAY[..]` and subscripts.
fn of_array(name: &str, args: &[Expr], names: &[String]) -> Option<String> {
    let list = |args: &[Expr]| args.iter().map(|arg| show(arg, names)).collect::<Vec<_>>();
    match name {
        arrays::OF_VALUES | arrays::OF_ARRAYS => {
            Some(format!("ARRAY[{}]", list(&args[1..]).join(", ")))
        }
        arrays::ELEMENT => {
            Some(format!("({})[{}]", show(&args[0], names), list(&args[1..]).join("][")))
        }
        arrays::SLICE => {
            let bound = |arg: &Expr| match arg {
                Expr::Const(value) if *value == arrays::NO_BOUND => String::new(),
                arg => show(arg, names),
            };
            let slices = args[1..].chunks(2);
            let slices: String =
                slices.map(|pair| format!("[{}:{}]", bound(&pair[0]), bound(&pair[1]))).collect();
            Some(format!("({}){slices}", show(&args[0], names)))
        }
        _ => None,
    }
}

fn call(name: &str, args: &[Expr], names: &[String]) -> String {
    if let Some(text) = of_array(name, args, names) {
        return text;
    }
    let is_operator = !name.starts_with(|c: char| c.is_alphabetic() || c == '_');
    match args {
        [a, b] if is_operator => format!("({} {name} {})", show(a, names), show(b, names)),
        [a] if is_operator => format!("({name} {})", show(a, names)),
        _ => {
            let args: Vec<String> = args.iter().map(|arg| show(arg, names)).collect();
            format!("{name}({})", args.join(", "))
        }
    }
}
