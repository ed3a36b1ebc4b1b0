//! Expressions evaluated column by column beside the same row by row.
//!
//! An expression with a volatile part goes row by row, so `case when random() >= 0 then e end` is
//! the slow way of `e`. Random expressions over random rows with nulls have to give the same
//! values both ways: in the list of a SELECT, as a condition, and under aggregates.

use crate::asked::open;
use rightlink_env::Rng;
use rightlink_sql::Session;

/// What an expression gives.
#[derive(Clone, Copy, PartialEq)]
enum Type {
    Int4,
    Int8,
    Float8,
    Numeric,
    Text,
    Date,
    Bool,
}

const TYPES: [Type; 7] =
    [Type::Int4, Type::Int8, Type::Float8, Type::Numeric, Type::Text, Type::Date, Type::Bool];

fn pick<'a>(random: &mut Rng, list: &[&'a str]) -> &'a str {
    list[random.below(list.len() as u64) as usize]
}

fn constant(random: &mut Rng, ty: Type) -> String {
    let number = random.below(12) as i64 - 3;
    match ty {
        _ if random.below(12) == 0 => format!("null::{}", name(ty)),
        Type::Int4 if random.below(20) == 0 => "2147483647".to_owned(),
        Type::Int4 => format!("({number})"),
        Type::Int8 if random.below(20) == 0 => "9223372036854775807".to_owned(),
        Type::Int8 => format!("{number}::bigint"),
        Type::Float8 => {
            let some = ["'NaN'", "'-0'", "'Infinity'", "0.5", "1", "2.25"];
            format!("{}::float8", pick(random, &some))
        }
        Type::Numeric => format!("{number}.{}", random.below(100)),
        Type::Text => format!("'{}'", pick(random, &["", "a", "ab", "b", "ä", "Z"])),
        Type::Date => format!("date '2020-01-0{}'", 1 + random.below(9)),
        Type::Bool => pick(random, &["true", "false"]).to_owned(),
    }
}

fn name(ty: Type) -> &'static str {
    match ty {
        Type::Int4 => "int",
        Type::Int8 => "bigint",
        Type::Float8 => "float8",
        Type::Numeric => "numeric",
        Type::Text => "text",
        Type::Date => "date",
        Type::Bool => "bool",
    }
}

fn column(random: &mut Rng, ty: Type) -> String {
    let names: &[&str] = match ty {
        Type::Int4 => &["a", "b"],
        Type::Int8 => &["c"],
        Type::Float8 => &["d"],
        Type::Numeric => &["n", "m"],
        Type::Text => &["t", "u"],
        Type::Date => &["e", "g"],
        Type::Bool => &["f"],
    };
    pick(random, names).to_owned()
}

fn expression(random: &mut Rng, ty: Type, depth: u32) -> String {
    if depth == 0 || random.below(5) == 0 {
        return match random.below(3) {
            0 => constant(random, ty),
            _ => column(random, ty),
        };
    }
    let below = depth - 1;
    if random.below(10) == 0 {
        let (condition, a, b) = (
            expression(random, Type::Bool, below),
            expression(random, ty, below),
            expression(random, ty, below),
        );
        return match random.below(2) {
            0 => format!("case when {condition} then {a} else {b} end"),
            _ => format!("coalesce({a}, {b})"),
        };
    }
    match ty {
        Type::Int4 | Type::Int8 | Type::Numeric => {
            let (a, b) = (expression(random, ty, below), expression(random, ty, below));
            match random.below(6) {
                0 if ty == Type::Int4 => {
                    format!("length({})", expression(random, Type::Text, below))
                }
                0 => format!("{}::{}", expression(random, Type::Int4, below), name(ty)),
                1 => format!("(- {a})"),
                2 => format!("abs({a})"),
                _ => format!("({a} {} {b})", pick(random, &["+", "-", "*", "/", "%"])),
            }
        }
        Type::Float8 => {
            let (a, b) = (expression(random, ty, below), expression(random, ty, below));
            format!("({a} {} {b})", pick(random, &["+", "-", "*"]))
        }
        Type::Text => match random.below(2) {
            0 => format!("upper({})", expression(random, Type::Text, below)),
            _ => {
                let (a, b) = (expression(random, ty, below), expression(random, ty, below));
                format!("({a} || {b})")
            }
        },
        Type::Date => {
            let (a, b) = (expression(random, ty, below), expression(random, Type::Int4, 0));
            format!("({a} {} {b})", pick(random, &["+", "-"]))
        }
        Type::Bool => condition(random, below),
    }
}

fn condition(random: &mut Rng, depth: u32) -> String {
    let of = TYPES[random.below(TYPES.len() as u64) as usize];
    let a = expression(random, of, depth);
    match random.below(9) {
        0 => format!("({a} is {}null)", pick(random, &["", "not "])),
        1 => format!("(not {})", expression(random, Type::Bool, depth)),
        2 | 3 => {
            let (a, b) =
                (expression(random, Type::Bool, depth), expression(random, Type::Bool, depth));
            format!("({a} {} {b})", pick(random, &["and", "or"]))
        }
        4 | 5 => {
            let count = 1 + random.below(24);
            let list: Vec<String> = (0..count).map(|_| constant(random, of)).collect();
            let list = list.join(", ");
            match random.below(3) {
                0 => format!("({a} in ({list}))"),
                1 => format!("({a} not in ({list}))"),
                _ if random.below(4) == 0 => format!("({a} = any ('{{}}'::{}[]))", name(of)),
                _ => format!("({a} = any (array[{list}]::{}[]))", name(of)),
            }
        }
        _ => {
            let b = match random.below(2) {
                0 => constant(random, of),
                _ => expression(random, of, depth),
            };
            let operators = ["=", "<>", "<", "<=", ">", ">=", "is distinct from"];
            format!("({a} {} {b})", pick(random, &operators))
        }
    }
}

/// Rows in their order, or that there is an error.
fn answer(session: &mut Session, sql: &str) -> Option<Vec<String>> {
    let outcomes = session.execute(sql);
    if let Err(error) = &outcomes {
        assert!(error.sqlstate.starts_with("22"), "{sql}: {error:?}");
    }
    Some(outcomes.ok()?.last().unwrap().rows.iter().map(|row| format!("{row:?}")).collect())
}

#[test]
fn column_by_column_is_row_by_row() {
    let seed = std::env::var("RIGHTLINK_SEED").ok().map_or(26, |seed| seed.parse().unwrap());
    let count = std::env::var("RIGHTLINK_STATEMENTS").ok().map_or(150, |n| n.parse().unwrap());
    println!("RIGHTLINK_SEED={seed} RIGHTLINK_STATEMENTS={count}");
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    let mut random = Rng::from_seed(seed);
    session
        .execute(
            "create table r (id int primary key, a int, b int, c bigint, d float8, n numeric, \
             m numeric(9, 2), t text, u text collate \"C\", e date, g date, f bool)",
        )
        .unwrap();
    for id in 0..300 {
        let types = [
            Type::Int4,
            Type::Int4,
            Type::Int8,
            Type::Float8,
            Type::Numeric,
            Type::Numeric,
            Type::Text,
            Type::Text,
            Type::Date,
            Type::Date,
            Type::Bool,
        ];
        let values = types.map(|ty| constant(&mut random, ty));
        let sql = format!("insert into r values ({id}, {})", values.join(", "));
        session.execute(&sql).unwrap();
    }
    let (mut answered, mut failed) = (0, 0);
    for _ in 0..count {
        let of = TYPES[random.below(TYPES.len() as u64) as usize];
        let depth = 1 + random.below(3) as u32;
        let (made, holds) =
            (expression(&mut random, of, depth), expression(&mut random, Type::Bool, depth));
        let slow = |expr: &str| format!("case when random() >= 0 then {expr} end");
        for statement in [
            "select id, # from r order by id",
            "select id from r where @ order by id",
            "select f, count(#), min(#), max(#) from r group by f order by f",
            "select a, f, count(*), count(distinct #) from r where @ group by a, f order by a, f",
            "select #, count(*), sum(a), avg(n) from r group by 1 order by 1",
        ] {
            // A truth value has no smallest or largest one.
            let no_extremes = of == Type::Bool && statement.contains("min(");
            if no_extremes {
                continue;
            }
            let fast = statement.replace('#', &made).replace('@', &holds);
            let slow = statement.replace('#', &slow(&made)).replace('@', &slow(&holds));
            let (fast_rows, slow_rows) = (answer(&mut session, &fast), answer(&mut session, &slow));
            // WHERE may leave out a row by one condition that is null before another one fails.
            if slow_rows.is_some() || !statement.contains('@') {
                assert_eq!(fast_rows, slow_rows, "{fast}");
            }
            answered += u64::from(fast_rows.is_some());
            failed += u64::from(fast_rows.is_none());
        }
    }
    println!("{answered} statements with rows, {failed} with errors");
    assert!(answered > failed && failed > 0);
    assert!(db.verify().unwrap().is_clean());
}
