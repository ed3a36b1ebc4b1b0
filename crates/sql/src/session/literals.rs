//! Messages that are equal but for their literals share syntax and plan.
//!
//! A message is cut at its literals without a parser. What stands between them, with the kind of
//! each literal in its place, is the key. When a message with a new key comes, literals where a
//! parameter would mean the same are made parameters: compared with a column, added to one, stored
//! into one. The others (a LIMIT, a place in ORDER BY, a length) have to be equal for the plan to
//! be used.
//!
//! Invariants: a shared plan does what the message's own would; where that is not certain, there is
//! none. A number is a parameter of the type that the literal has; a string's type is what the
//! binder makes of a parameter there.
//! Does not do: plans that depend on values (those by partial indexes); several statements.

use std::collections::HashMap;

use rightlink::{Budget, Reservation};
use sqlparser::ast::{self, BinaryOperator as Op, Expr as Ast, SetExpr, UnaryOperator, Value};

use super::prepared::Planned;
use crate::exec::memory::reserve_spare;
use crate::parse::{self, Place, places};
use crate::types::{Datum, SqlType, Times, numeric, text};

/// Most literals of a message.
const MAX_LITERALS: usize = 256;
/// Longest message.
const MAX_TEXT: usize = 8 << 10;
/// Most keys that are kept.
const MAX_KEYS: usize = 512;
/// Bytes of a key beside its text.
const KEY: usize = 256;
/// Most plans of one key.
const MAX_PLANS: usize = 8;

/// A literal of a message.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Literal {
    /// Digits as they stand, or the string that is meant.
    text: String,
    is_number: bool,
}

/// A message without its literals, and these.
pub(super) struct Cut {
    key: String,
    literals: Vec<Literal>,
}

/// What becomes of a literal.
#[derive(Clone, Debug, PartialEq)]
enum Slot {
    /// It has to be this one.
    Fixed(Literal),
    /// It is the parameter of this number, counted from 0, with a sign before it or without.
    Parameter { at: usize, negative: bool },
}

/// A plan for all messages with one key whose fixed literals are equal.
struct Shared {
    slots: Vec<Slot>,
    planned: Planned,
    /// What it takes of the database's memory.
    _memory: Reservation,
}

/// The plans of one key; a key without plans has none that could be shared.
struct Shape {
    plans: Vec<Shared>,
    /// What the key takes of the database's memory.
    _memory: Reservation,
}

/// Plans by key.
#[derive(Default)]
pub(super) struct Shapes(HashMap<String, Shape>);

/// Cuts a message at its literals; `None` if it is no query or its text is anything but plain.
pub(super) fn cut(sql: &str) -> Option<Cut> {
    if sql.len() > MAX_TEXT || !is_query(sql) {
        return None;
    }
    let bytes = sql.as_bytes();
    let mut cut = Cut { key: String::with_capacity(sql.len()), literals: Vec::new() };
    let (mut at, mut copied) = (0, 0);
    while at < bytes.len() {
        let after_word = at > 0 && is_word(bytes[at - 1]);
        match bytes[at] {
            b'\'' if after_word || at > 0 && bytes[at - 1] == b'&' => return None,
            b'\'' => {
                let end = end_of_quotes(bytes, at)?;
                let string = sql[at + 1..end - 1].replace("''", "'");
                cut.take(&sql[copied..at], string, false)?;
                (at, copied) = (end, end);
            }
            b'"' => at = end_of_quotes(bytes, at)?,
            b'0'..=b'9' if !after_word => {
                if at > 0 && bytes[at - 1] == b'.' {
                    return None;
                }
                let end = end_of_number(bytes, at)?;
                cut.take(&sql[copied..at], sql[at..end].to_owned(), true)?;
                (at, copied) = (end, end);
            }
            b';' if sql[at + 1..].trim().is_empty() => break,
            b'$' | b';' | 0..=8 => return None,
            b'-' if bytes.get(at + 1) == Some(&b'-') => return None,
            b'/' if bytes.get(at + 1) == Some(&b'*') => return None,
            _ => at += 1,
        }
    }
    cut.key.push_str(sql[copied..at].trim_end());
    Some(cut)
}

impl Cut {
    fn take(&mut self, before: &str, text: String, is_number: bool) -> Option<()> {
        self.key.push_str(before);
        // No message has these characters.
        self.key.push(match is_number {
            true => match number(&text)?.type_of() {
                Some(SqlType::Int4) => '\u{1}',
                Some(SqlType::Int8) => '\u{2}',
                _ => '\u{3}',
            },
            false => '\u{4}',
        });
        self.literals.push(Literal { text, is_number });
        (self.literals.len() <= MAX_LITERALS).then_some(())
    }
}

fn is_query(sql: &str) -> bool {
    let word = sql.trim_start().split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or("");
    ["select", "insert", "update", "delete"].iter().any(|known| word.eq_ignore_ascii_case(known))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The place after the quote that closes the one at `at`.
fn end_of_quotes(bytes: &[u8], at: usize) -> Option<usize> {
    let quote = bytes[at];
    let mut end = at + 1;
    loop {
        end += bytes[end..].iter().position(|byte| *byte == quote)? + 1;
        if bytes.get(end) != Some(&quote) {
            return Some(end);
        }
        end += 1;
    }
}

/// The place after the number at `at`, if it is spelled plainly.
fn end_of_number(bytes: &[u8], at: usize) -> Option<usize> {
    let digits = |from: usize| {
        let count = bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        from + count
    };
    let mut end = digits(at);
    if bytes.get(end) == Some(&b'.') {
        let whole = end;
        end = digits(end + 1);
        if end == whole + 1 {
            return None;
        }
    }
    match bytes.get(end) {
        Some(byte) if is_word(*byte) || *byte == b'.' => None,
        _ => Some(end),
    }
}

/// A number as the binder takes a literal.
fn number(text: &str) -> Option<Datum> {
    match text.parse::<i64>() {
        Ok(value) => Some(match i32::try_from(value) {
            Ok(value) => Datum::Int4(value),
            Err(_) => Datum::Int8(value),
        }),
        Err(_) => numeric::parse(text).ok().map(Datum::Numeric),
    }
}

impl Literal {
    /// Its value as a parameter of type `ty`; `None` if it is of another one.
    fn value(&self, negative: bool, ty: SqlType, times: &Times) -> Option<Datum> {
        if !self.is_number {
            return text::parse(ty, &self.text, times).ok();
        }
        let sign = if negative { "-" } else { "" };
        number(&format!("{sign}{}", self.text)).filter(|value| value.type_of() == Some(ty))
    }
}

/// The parameters of these types for literals, if a plan with these slots is theirs.
fn values(
    slots: &[Slot],
    types: &[SqlType],
    literals: &[Literal],
    times: &Times,
) -> Option<Vec<Datum>> {
    if literals.len() != slots.len() {
        return None;
    }
    let mut values = vec![Datum::Null; types.len()];
    for (slot, literal) in slots.iter().zip(literals) {
        match slot {
            Slot::Fixed(wanted) if wanted == literal => {}
            Slot::Fixed(_) => return None,
            Slot::Parameter { at, negative } => {
                values[*at] = literal.value(*negative, types[*at], times)?;
            }
        }
    }
    Some(values)
}

impl Shapes {
    /// The plan for a message and its parameters.
    pub(super) fn find(&self, cut: &Cut, times: &Times) -> Option<(Planned, Vec<Datum>)> {
        let shape = self.0.get(&cut.key)?;
        shape.plans.iter().find_map(|one| {
            let values = values(&one.slots, &one.planned.params, &cut.literals, times)?;
            Some((one.planned.clone(), values))
        })
    }

    /// May a message of this key get a plan that others share?
    pub(super) fn may_share(&self, cut: &Cut) -> bool {
        let shares = |shape: &Shape| !shape.plans.is_empty();
        !cut.literals.is_empty() && self.0.get(&cut.key).is_none_or(shares)
    }

    /// No message of this key shares a plan; not noted where the budget has no memory for that.
    pub(super) fn set_apart(&mut self, cut: &Cut, budget: &Budget) {
        self.make_room();
        if let Some(memory) = reserve_spare(budget, KEY + cut.key.len()) {
            self.0.insert(cut.key.clone(), Shape { plans: Vec::new(), _memory: memory });
        }
    }

    /// Forgets the plans of a key: a table has changed.
    pub(super) fn forget(&mut self, cut: &Cut) {
        self.0.remove(&cut.key);
    }

    /// Gives the parameters of a plan for the message that it was made for, and keeps the plan if
    /// the budget has memory for it.
    pub(super) fn keep(
        &mut self,
        cut: &Cut,
        Sharing { slots, .. }: Sharing,
        planned: &Planned,
        times: &Times,
        budget: &Budget,
    ) -> Option<Vec<Datum>> {
        let values = values(&slots, &planned.params, &cut.literals, times)?;
        self.make_room();
        let key = reserve_spare(budget, KEY + cut.key.len());
        let plan = reserve_spare(budget, parse::weight(&cut.key));
        let (Some(key), Some(memory)) = (key, plan) else { return Some(values) };
        let new = || Shape { plans: Vec::new(), _memory: key };
        let plans = &mut self.0.entry(cut.key.clone()).or_insert_with(new).plans;
        if plans.len() >= MAX_PLANS {
            plans.remove(0);
        }
        plans.push(Shared { slots, planned: planned.clone(), _memory: memory });
        Some(values)
    }

    /// Forgets plans by statistics that have changed, but not which keys have none that could be
    /// shared.
    pub(super) fn forget_old(&mut self) {
        self.0.retain(|_, shape| {
            let shares = !shape.plans.is_empty();
            shape.plans.retain(|one| !one.planned.is_old());
            !shares || !shape.plans.is_empty()
        });
    }

    /// Keys that have plans.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.values().filter(|shape| !shape.plans.is_empty()).count()
    }

    fn make_room(&mut self) {
        if self.0.len() >= MAX_KEYS {
            self.0.clear();
        }
    }
}

/// A statement whose literals have become parameters.
pub(super) struct Sharing {
    pub(super) statement: ast::Statement,
    /// Types of the parameters, unknown for strings.
    pub(super) types: Vec<SqlType>,
    slots: Vec<Slot>,
}

/// Makes parameters of a statement's literals where they mean the same.
pub(super) fn share(statement: &ast::Statement, sql: &str, cut: &Cut) -> Option<Sharing> {
    let places = places(sql)?;
    let same = |(place, literal): (&Place, &Literal)| {
        place.is_number == literal.is_number && place.text == literal.text
    };
    if places.len() != cut.literals.len() || !places.iter().zip(&cut.literals).all(same) {
        return None;
    }
    let slots = cut.literals.iter().cloned().map(Slot::Fixed).collect();
    let mut walk = Walk { places, types: Vec::new(), slots };
    let mut statement = statement.clone();
    walk.statement(&mut statement);
    let Walk { types, slots, .. } = walk;
    (!types.is_empty()).then_some(Sharing { statement, types, slots })
}

struct Walk {
    places: Vec<Place>,
    types: Vec<SqlType>,
    slots: Vec<Slot>,
}

impl Walk {
    fn statement(&mut self, statement: &mut ast::Statement) {
        match statement {
            ast::Statement::Query(query) => {
                if let SetExpr::Select(select) = query.body.as_mut() {
                    select.selection.iter_mut().for_each(|node| self.condition(node));
                }
            }
            ast::Statement::Update(update) => {
                for assignment in &mut update.assignments {
                    self.stored(&mut assignment.value);
                }
                update.selection.iter_mut().for_each(|node| self.condition(node));
            }
            ast::Statement::Delete(delete) => {
                delete.selection.iter_mut().for_each(|node| self.condition(node));
            }
            ast::Statement::Insert(insert) => {
                let body = insert.source.as_mut().map(|query| query.body.as_mut());
                if let Some(SetExpr::Values(values)) = body {
                    for row in &mut values.rows {
                        row.iter_mut().for_each(|node| self.literal(node));
                    }
                }
            }
            _ => {}
        }
    }

    /// A value that is stored into a column: a literal, or a sum with a column.
    fn stored(&mut self, node: &mut Ast) {
        match node {
            Ast::BinaryOp { left, op: Op::Plus | Op::Minus, right } => {
                if is_column(left) {
                    self.number(right);
                } else if is_column(right) {
                    self.number(left);
                }
            }
            other => self.literal(other),
        }
    }

    fn condition(&mut self, node: &mut Ast) {
        match node {
            Ast::Nested(inner) => self.condition(inner),
            Ast::BinaryOp { left, op: Op::And | Op::Or, right } => {
                self.condition(left);
                self.condition(right);
            }
            Ast::BinaryOp {
                left,
                op: Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq,
                right,
            } => {
                if is_column(left) {
                    self.literal(right);
                } else if is_column(right) {
                    self.literal(left);
                }
            }
            Ast::Between { expr, low, high, .. } if is_column(expr) => {
                self.literal(low);
                self.literal(high);
            }
            Ast::InList { expr, list, .. } if is_column(expr) => {
                list.iter_mut().for_each(|node| self.literal(node));
            }
            _ => {}
        }
    }

    fn number(&mut self, node: &mut Ast) {
        let is_number = |node: &Ast| match node {
            Ast::Value(value) => matches!(value.value, Value::Number(..)),
            _ => false,
        };
        match node {
            Ast::UnaryOp { op: UnaryOperator::Minus, expr } if is_number(expr) => {
                self.literal(node)
            }
            other if is_number(other) => self.literal(other),
            _ => {}
        }
    }

    /// Makes a parameter of `node` if it is a literal.
    fn literal(&mut self, node: &mut Ast) {
        let (value, negative) = match &*node {
            Ast::Value(value) => (value, false),
            Ast::UnaryOp { op: UnaryOperator::Minus, expr } => match expr.as_ref() {
                Ast::Value(value) if matches!(value.value, Value::Number(..)) => (value, true),
                _ => return,
            },
            _ => return,
        };
        if !matches!(value.value, Value::Number(_, false) | Value::SingleQuotedString(_)) {
            return;
        }
        let start = value.span.start;
        let Some(place) = self.places.iter().position(|place| place.at == start) else { return };
        let Slot::Fixed(literal) = &self.slots[place] else { return };
        let ty = match literal.is_number {
            false => SqlType::Unknown,
            true => {
                let sign = if negative { "-" } else { "" };
                let value = number(&format!("{sign}{}", literal.text));
                let Some(ty) = value.and_then(|value| value.type_of()) else { return };
                ty
            }
        };
        let at = self.types.len();
        self.types.push(ty);
        self.slots[place] = Slot::Parameter { at, negative };
        let span = value.span;
        let value = Value::Placeholder(format!("${}", at + 1));
        *node = Ast::Value(ast::ValueWithSpan { value, span });
    }
}

fn is_column(node: &Ast) -> bool {
    matches!(node, Ast::Identifier(_) | Ast::CompoundIdentifier(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(sql: &str) -> Option<String> {
        cut(sql).map(|cut| cut.key.replace(|c: char| c.is_ascii_control(), "?"))
    }

    #[test]
    fn a_message_is_cut_at_its_literals() {
        let same = |a, b| cut(a).unwrap().key == cut(b).unwrap().key;
        assert!(same("select a from t where b = 1", "select a from t where b = 234 ;"));
        assert!(!same("select a from t where b = 1", "select a from t where b = 5000000000"));
        assert!(!same("select a from t where b = 1", "select a from t where b = '1'"));
        assert!(!same("select a from t where b = 1", "select a from t where b = 1.0"));
        assert_eq!(
            key("select a1 from \"t 1\" where b='it''s'").unwrap(),
            "select a1 from \"t 1\" where b=?"
        );
        let literals = cut("select 'it''s', 1.50").unwrap().literals;
        assert_eq!((literals[0].text.as_str(), literals[1].text.as_str()), ("it's", "1.50"));
    }

    #[test]
    fn what_is_not_plain_is_left_alone() {
        for sql in [
            "begin",
            "select E'a'",
            "select N'a'",
            "select U&'a'",
            "select $$a$$",
            "select $1",
            "select 1; select 2",
            "select 1 -- a",
            "select /* 1 */ 2",
            "select 0x10",
            "select 1e5",
            "select 1.",
            "select .5",
            "select 'a",
        ] {
            assert_eq!(key(sql), None, "{sql}");
        }
    }

    #[test]
    fn literals_become_parameters_where_they_mean_the_same() {
        let slots = |sql: &str| {
            let parsed = crate::parse::parse(sql, 1 << 20).unwrap().pop().unwrap();
            let crate::parse::Stmt::Sql(statement) = parsed.stmt else { panic!("{sql}") };
            let sharing = share(&statement, sql, &cut(sql).unwrap());
            let shown = |slot: &Slot| match slot {
                Slot::Fixed(_) => "f".to_owned(),
                Slot::Parameter { negative, .. } => if *negative { "-" } else { "p" }.to_owned(),
            };
            sharing.map(|sharing| sharing.slots.iter().map(shown).collect::<String>())
        };
        let found = |sql| slots(sql).unwrap_or_default();
        assert_eq!(
            found("select 1, a from t where b = 2 and (3 < c or d in (4, '5')) limit 6"),
            "fppppf"
        );
        assert_eq!(
            found("update t set a = a + -1, b = 'x', c = lower('y') where d between 2 and 3"),
            "-pfpp"
        );
        assert_eq!(found("insert into t values (1, -2, 'a'), (3, 4 + 5, null)"), "p-ppff");
        assert_eq!(found("delete from t where a::numeric(5) = 3 and b = 7"), "ffp");
        assert_eq!(found("select a from t order by 1"), "");
    }

    #[test]
    fn a_plan_is_for_equal_types_and_equal_fixed_literals() {
        let literal = |text: &str, is_number| Literal { text: text.to_owned(), is_number };
        let utc = Times::utc();
        let five = literal("5", true);
        assert_eq!(five.value(true, SqlType::Int4, &utc), Some(Datum::Int4(-5)));
        assert_eq!(five.value(false, SqlType::Int8, &utc), None);
        let least = literal("2147483648", true);
        assert_eq!(least.value(true, SqlType::Int4, &utc), Some(Datum::Int4(i32::MIN)));
        assert_eq!(least.value(false, SqlType::Int4, &utc), None);
        assert_eq!(literal("x", false).value(false, SqlType::Int4, &utc), None);
    }
}
