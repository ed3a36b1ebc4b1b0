//! What paths of SQL/JSON give: `jsonb_path_query` and its siblings, `@?`, `@@`.
//!
//! Items are handed on one by one, depth first, as PostgreSQL's `jsonpath_exec.c` has them: whoever
//! asks whether there is any stops at the first. A fault of the document is soft: conditions take
//! it for unknown, and a silent call gives null.
//!
//! Invariants: a path is not deeper than [`MAX_DEPTH`], nor is a document, so that both may be
//! walked by recursion.
//! Does not do: `datetime()`, time zones.
//!
//! [`MAX_DEPTH`]: crate::types::json::MAX_DEPTH

use std::cmp::Ordering;
use std::rc::Rc;

use super::{check_fits, document};
use crate::error::{Result, SqlError, code};
use crate::expr::Context;
use crate::expr::function::{Eval, Registry};
use crate::expr::operators::mismatch;
use crate::types::json::path::{
    Accessor, Arithmetic, Comparison, Condition, JsonPath, Level, Method, Sign, Step,
};
use crate::types::json::{Json, Jsonb, Node};
use crate::types::{Datum, Decimal, SqlType, numeric};

/// Codes of SQL/JSON.
const BAD_SUBSCRIPT: &str = "22033";
const NON_NUMERIC: &str = "22036";
const NOT_SINGLE: &str = "22038";
const NO_ARRAY: &str = "22039";
const NO_MEMBER: &str = "2203A";
const NO_NUMBER: &str = "2203B";
const NO_OBJECT: &str = "2203C";

/// Adds the functions that give one value.
pub(super) fn register(registry: &mut Registry) {
    use SqlType as T;
    let all: [(&'static str, &'static str, SqlType, Eval); 4] = [
        ("jsonb_path_exists", "jsonb_path_exists_tz", T::Bool, |v, c| exists(&Call::of(v)?, c)),
        ("jsonb_path_match", "jsonb_path_match_tz", T::Bool, |v, c| matches(&Call::of(v)?, c)),
        ("jsonb_path_query_array", "jsonb_path_query_array_tz", T::Jsonb, query_array),
        ("jsonb_path_query_first", "jsonb_path_query_first_tz", T::Jsonb, query_first),
    ];
    for (name, zoned, result, eval) in all {
        for count in 2..=ARGUMENTS.len() {
            registry.add(name, &ARGUMENTS[..count], result, eval);
            registry.add(zoned, &ARGUMENTS[..count], result, eval);
        }
    }
    registry.add("@?", &ARGUMENTS[..2], T::Bool, |v, context| {
        exists(&Call { silent: true, ..Call::of(v)? }, context)
    });
    registry.add("@@", &ARGUMENTS[..2], T::Bool, |v, context| {
        matches(&Call { silent: true, ..Call::of(v)? }, context)
    });
}

/// The document, the path, its variables, and whether the call is silent.
pub(crate) const ARGUMENTS: [SqlType; 4] =
    [SqlType::Jsonb, SqlType::Jsonpath, SqlType::Jsonb, SqlType::Bool];

/// Rows of `jsonb_path_query`.
pub(crate) fn query(values: &[Datum], context: &Context) -> Result<Vec<Datum>> {
    if values.iter().any(Datum::is_null) {
        return Ok(Vec::new());
    }
    let call = Call::of(values)?;
    let items = call.items(context)?;
    Ok(items.iter().map(|item| Datum::Jsonb(item.node().to_document())).collect())
}

/// A call of a function.
struct Call<'v> {
    whole: &'v Jsonb,
    path: &'v JsonPath,
    variables: Option<&'v Jsonb>,
    silent: bool,
}

/// Why there is no answer.
enum Fault {
    /// The document is not as the path wants it.
    Soft(SqlError),
    /// The statement ends.
    Hard(SqlError),
}

type Found<T> = std::result::Result<T, Fault>;

impl From<SqlError> for Fault {
    fn from(error: SqlError) -> Fault {
        Fault::Hard(error)
    }
}

fn soft<T>(sqlstate: &'static str, message: impl Into<String>) -> Found<T> {
    Err(Fault::Soft(SqlError::new(sqlstate, message)))
}

/// A value on its way along a path.
#[derive(Clone)]
enum Item<'d> {
    /// Of the document.
    Node(Node<'d>),
    /// Of what was computed.
    Made(Rc<Jsonb>),
}

impl<'d> Item<'d> {
    fn made(json: Json<'_>) -> Found<Item<'d>> {
        Ok(Item::Made(Rc::new(Jsonb::build(json)?)))
    }

    fn number(value: &Decimal) -> Found<Item<'d>> {
        Item::made(Json::Number(value.to_string().into()))
    }

    fn node(&self) -> Node<'_> {
        match self {
            Item::Node(node) => *node,
            Item::Made(made) => made.node(),
        }
    }

    /// What a part of it is that `pick` finds.
    fn part(&self, pick: impl for<'n> Fn(Node<'n>) -> Option<Node<'n>>) -> Option<Item<'d>> {
        match self {
            Item::Node(node) => pick(*node).map(Item::Node),
            Item::Made(made) => {
                pick(made.node()).map(|part| Item::Made(Rc::new(part.to_document())))
            }
        }
    }

    /// Items of an array, values of an object.
    fn members(&self) -> Vec<Item<'d>> {
        fn all(node: Node<'_>) -> Vec<Node<'_>> {
            match node {
                Node::Array(items) => items.iter().collect(),
                Node::Object(fields) => fields.iter().map(|(_, value)| value).collect(),
                _ => Vec::new(),
            }
        }
        match self {
            Item::Node(node) => all(*node).into_iter().map(Item::Node).collect(),
            Item::Made(made) => {
                let parts = all(made.node()).into_iter().map(Node::to_document);
                parts.map(|part| Item::Made(Rc::new(part))).collect()
            }
        }
    }

    fn is_array(&self) -> bool {
        matches!(self.node(), Node::Array(_))
    }

    fn to_number(&self) -> Option<Decimal> {
        match self.node() {
            Node::Number(text) => numeric::parse(text).ok(),
            _ => None,
        }
    }
}

/// Takes an item; true: no more are wanted.
type Sink<'s, 'd> = &'s mut dyn FnMut(Item<'d>) -> Found<bool>;

impl<'v> Call<'v> {
    fn of(values: &'v [Datum]) -> Result<Call<'v>> {
        let Some(Datum::Jsonpath(path)) = values.get(1) else { mismatch(values) };
        let variables = (values.len() > 2).then(|| document(values, 2));
        if variables.is_some_and(|variables| !matches!(variables.node(), Node::Object(_))) {
            let detail =
                "Jsonpath parameters should be encoded as key-value pairs of \"vars\" object.";
            let message = "\"vars\" argument is not an object";
            return Err(SqlError::new(code::INVALID_PARAMETER, message).detail(detail));
        }
        let silent = values.get(3) == Some(&Datum::Bool(true));
        Ok(Call { whole: document(values, 0), path, variables, silent })
    }

    fn walk<'c>(&'c self, context: &'c Context) -> Walk<'c> {
        Walk {
            root: Item::Node(self.whole.node()),
            variables: self.variables,
            is_lax: !self.path.strict,
            context,
        }
    }

    /// What is left of a fault: none where the call is silent.
    fn told<T>(&self, found: Found<T>) -> Result<Option<T>> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(Fault::Soft(_)) if self.silent => Ok(None),
            Err(Fault::Soft(error) | Fault::Hard(error)) => Err(error),
        }
    }

    /// All items; of a silent call those before a fault.
    fn items<'c>(&'c self, context: &'c Context) -> Result<Vec<Item<'c>>> {
        let walk = self.walk(context);
        let mut items = Vec::new();
        let ended = walk.gather(&self.path.root, &At::root(&walk), &mut items);
        self.told(ended)?;
        Ok(items)
    }
}

fn exists(call: &Call<'_>, context: &Context) -> Result<Datum> {
    let walk = call.walk(context);
    let found = walk.is_any(&call.path.root, &At::root(&walk));
    Ok(call.told(found)?.map_or(Datum::Null, Datum::Bool))
}

fn matches(call: &Call<'_>, context: &Context) -> Result<Datum> {
    let items = call.items(context)?;
    match items.as_slice() {
        [one] if matches!(one.node(), Node::Bool(true)) => Ok(Datum::Bool(true)),
        [one] if matches!(one.node(), Node::Bool(false)) => Ok(Datum::Bool(false)),
        [one] if matches!(one.node(), Node::Null) => Ok(Datum::Null),
        _ if call.silent => Ok(Datum::Null),
        _ => Err(SqlError::new(NOT_SINGLE, "single boolean result is expected")),
    }
}

fn query_first(values: &[Datum], context: &Context) -> Result<Datum> {
    let call = Call::of(values)?;
    let first = call.items(context)?.into_iter().next();
    Ok(first.map_or(Datum::Null, |item| Datum::Jsonb(item.node().to_document())))
}

fn query_array(values: &[Datum], context: &Context) -> Result<Datum> {
    let call = Call::of(values)?;
    check_fits(8 * call.whole.len(), context)?;
    let items = call.items(context)?;
    let all = items.iter().map(|item| item.node().to_json()).collect();
    Jsonb::build(Json::Array(all)).map(Datum::Jsonb)
}

/// A path under way.
struct Walk<'d> {
    root: Item<'d>,
    variables: Option<&'d Jsonb>,
    is_lax: bool,
    context: &'d Context,
}

/// Where a part of a path is evaluated.
#[derive(Clone)]
struct At<'d> {
    /// What `@` stands for.
    current: Item<'d>,
    /// Items of the array whose subscripts are evaluated.
    count: Option<usize>,
    /// Does what is missing say nothing? So it is in lax paths, and behind `.**`.
    forgives: bool,
}

impl<'d> At<'d> {
    fn root(walk: &Walk<'d>) -> At<'d> {
        At { current: walk.root.clone(), count: None, forgives: walk.is_lax }
    }
}

impl<'d> Walk<'d> {
    /// Everything that a step gives.
    fn all(&self, step: &Step, at: &At<'d>) -> Found<Vec<Item<'d>>> {
        let mut items = Vec::new();
        self.gather(step, at, &mut items)?;
        Ok(items)
    }

    fn gather(&self, step: &Step, at: &At<'d>, items: &mut Vec<Item<'d>>) -> Found<()> {
        self.step(step, at, &mut |item| {
            items.push(item);
            if items.len().is_power_of_two() {
                self.context.held.check_fits(items.len() * size_of::<Item<'_>>())?;
            }
            Ok(false)
        })?;
        Ok(())
    }

    /// The same, arrays in a lax path replaced by their items.
    fn all_unwrapped(&self, step: &Step, at: &At<'d>) -> Found<Vec<Item<'d>>> {
        let items = self.all(step, at)?;
        if !self.is_lax || !items.iter().any(Item::is_array) {
            return Ok(items);
        }
        let mut all = Vec::with_capacity(items.len());
        for item in items {
            match item.is_array() {
                true => all.extend(item.members()),
                false => all.push(item),
            }
        }
        Ok(all)
    }

    /// Does a step give anything? A strict path is walked to its end, since faults count; a lax one
    /// passes over what a sign does not fit.
    fn is_any(&self, step: &Step, at: &At<'d>) -> Found<bool> {
        if let (true, Step::Sign(_, of)) = (self.is_lax, step) {
            let items = self.all_unwrapped(of, at)?;
            return Ok(items.iter().any(|item| matches!(item.node(), Node::Number(_))));
        }
        let mut found = false;
        self.step(step, at, &mut |_| {
            found = true;
            Ok(self.is_lax)
        })?;
        Ok(found)
    }

    fn step(&self, step: &Step, at: &At<'d>, sink: Sink<'_, 'd>) -> Found<bool> {
        self.context.spend(1)?;
        match step {
            Step::Null => sink(Item::made(Json::Null)?),
            Step::Bool(value) => sink(Item::made(Json::Bool(*value))?),
            Step::Number(text) => sink(Item::made(Json::Number(text.as_str().into()))?),
            Step::String(text) => sink(Item::made(Json::String(text.as_str().into()))?),
            Step::Root => sink(self.root.clone()),
            Step::Current => sink(at.current.clone()),
            Step::Last => {
                let count = at.count.expect("it stands in a subscript");
                sink(Item::number(&Decimal::from(count as i64 - 1))?)
            }
            Step::Variable(name) => sink(self.variable(name)?),
            Step::Members(of, accessors) => {
                self.step(of, at, &mut |item| self.members(&item, accessors, at, true, sink))
            }
            Step::Sign(sign, of) => {
                for item in self.all_unwrapped(of, at)? {
                    let shown = if *sign == Sign::Plus { '+' } else { '-' };
                    let Some(number) = item.to_number() else {
                        let message = format!(
                            "operand of unary jsonpath operator {shown} is not a numeric value"
                        );
                        return soft(NO_NUMBER, message);
                    };
                    let item = match sign {
                        Sign::Plus => item,
                        Sign::Minus => Item::number(&numeric::negate(&number))?,
                    };
                    if sink(item)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Step::Calculation(a, op, b) => sink(self.calculation(a, *op, b, at)?),
            Step::Condition(condition) => {
                let truth = self.truth(condition, at)?;
                sink(Item::made(truth.map_or(Json::Null, Json::Bool))?)
            }
        }
    }

    fn variable(&self, name: &str) -> Found<Item<'d>> {
        let found = self.variables.and_then(|variables| match variables.node() {
            Node::Object(fields) => fields.get(name),
            _ => None,
        });
        match found {
            Some(value) => Ok(Item::Node(value)),
            None => {
                let message = format!("could not find jsonpath variable \"{name}\"");
                Err(Fault::Hard(SqlError::new(code::UNDEFINED_OBJECT, message)))
            }
        }
    }

    fn calculation(&self, a: &Step, op: Arithmetic, b: &Step, at: &At<'d>) -> Found<Item<'d>> {
        let (work, sign): (fn(&Decimal, &Decimal) -> Result<Decimal>, _) = match op {
            Arithmetic::Add => (numeric::add, '+'),
            Arithmetic::Subtract => (numeric::subtract, '-'),
            Arithmetic::Multiply => (numeric::multiply, '*'),
            Arithmetic::Divide => (numeric::divide, '/'),
            Arithmetic::Remainder => (numeric::remainder, '%'),
        };
        // Both are evaluated before either is looked at.
        let (a, b) = (self.all_unwrapped(a, at)?, self.all_unwrapped(b, at)?);
        let operand = |items: &[Item<'d>], side: &str| {
            let number = if let [one] = items { one.to_number() } else { None };
            let message =
                format!("{side} operand of jsonpath operator {sign} is not a single numeric value");
            number.map_or_else(|| soft(NOT_SINGLE, message), Ok)
        };
        let (a, b) = (operand(&a, "left")?, operand(&b, "right")?);
        Item::number(&work(&a, &b).map_err(Fault::Soft)?)
    }

    /// Goes on from a value; arrays are replaced by their items where `unwraps` says so, and the
    /// path is lax.
    fn members(
        &self,
        item: &Item<'d>,
        accessors: &[Accessor],
        at: &At<'d>,
        unwraps: bool,
        sink: Sink<'_, 'd>,
    ) -> Found<bool> {
        self.context.spend(1)?;
        let Some((first, rest)) = accessors.split_first() else { return sink(item.clone()) };
        let unwraps = unwraps && self.is_lax;
        let takes_items = match first {
            Accessor::Key(_) | Accessor::AnyKey => !matches!(item.node(), Node::Object(_)),
            Accessor::Filter(_) => true,
            Accessor::Method(Method::Type | Method::Size) => false,
            Accessor::Method(_) => true,
            Accessor::AnyLevel { .. } | Accessor::AnyItem | Accessor::Items(_) => false,
        };
        if unwraps && takes_items && item.is_array() {
            for one in item.members() {
                if self.members(&one, accessors, at, false, sink)? {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        let next = |found: Item<'d>, sink: Sink<'_, 'd>| self.members(&found, rest, at, true, sink);
        match first {
            Accessor::Key(key) => match self.field(item, key, at)? {
                Some(found) => next(found, sink),
                None => Ok(false),
            },
            Accessor::AnyKey => match item.node() {
                Node::Object(_) => self.each(item.members(), next, sink),
                _ if at.forgives => Ok(false),
                _ => soft(
                    NO_OBJECT,
                    "jsonpath wildcard member accessor can only be applied to an object",
                ),
            },
            Accessor::AnyItem => match item.is_array() {
                true => self.each(item.members(), next, sink),
                false if self.is_lax => next(item.clone(), sink),
                false if at.forgives => Ok(false),
                false => soft(
                    NO_ARRAY,
                    "jsonpath wildcard array accessor can only be applied to an array",
                ),
            },
            Accessor::Items(places) => self.each(self.items(item, places, at)?, next, sink),
            Accessor::AnyLevel { first, last } => {
                let forgiving = At { forgives: true, ..at.clone() };
                self.levels(item, 0, *first, *last, &mut |found| {
                    self.members(&found, rest, &forgiving, true, sink)
                })
            }
            Accessor::Filter(condition) => {
                let inside = At { current: item.clone(), ..at.clone() };
                match self.truth(condition, &inside)? {
                    Some(true) => next(item.clone(), sink),
                    _ => Ok(false),
                }
            }
            Accessor::Method(Method::KeyValue) => self.each(self.key_values(item)?, next, sink),
            Accessor::Method(method) => match self.method(item, *method, at)? {
                Some(found) => next(found, sink),
                None => Ok(false),
            },
        }
    }

    /// Goes on from each of these.
    fn each(
        &self,
        items: Vec<Item<'d>>,
        next: impl Fn(Item<'d>, Sink<'_, 'd>) -> Found<bool>,
        sink: Sink<'_, 'd>,
    ) -> Found<bool> {
        for item in items {
            if next(item, sink)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn field(&self, item: &Item<'d>, key: &str, at: &At<'d>) -> Found<Option<Item<'d>>> {
        let Node::Object(_) = item.node() else {
            return match at.forgives {
                true => Ok(None),
                false => {
                    soft(NO_MEMBER, "jsonpath member accessor can only be applied to an object")
                }
            };
        };
        let found = item.part(|node| match node {
            Node::Object(fields) => fields.get(key),
            _ => None,
        });
        if found.is_none() && !at.forgives {
            return soft(NO_MEMBER, format!("JSON object does not contain key \"{key}\""));
        }
        Ok(found)
    }

    /// The items in these places; what is no array is one of itself in a lax path.
    fn items(
        &self,
        item: &Item<'d>,
        places: &[(Step, Option<Step>)],
        at: &At<'d>,
    ) -> Found<Vec<Item<'d>>> {
        let count = match item.node() {
            Node::Array(items) => items.len(),
            _ if self.is_lax => 1,
            _ if at.forgives => return Ok(Vec::new()),
            _ => {
                return soft(NO_ARRAY, "jsonpath array accessor can only be applied to an array");
            }
        };
        let inside = At { count: Some(count), ..at.clone() };
        let mut found = Vec::new();
        for (first, last) in places {
            let first = self.place(first, &inside)?;
            let last = last.as_ref().map_or(Ok(first), |last| self.place(last, &inside))?;
            let is_there = 0 <= first && first <= last && last < count as i64;
            if !is_there && !at.forgives {
                return soft(BAD_SUBSCRIPT, "jsonpath array subscript is out of bounds");
            }
            for place in first.max(0)..=last.min(count as i64 - 1) {
                self.context.spend(1)?;
                let one = item.part(|node| match node {
                    Node::Array(items) => items.get(place as usize),
                    whole => Some(whole),
                });
                found.extend(one);
            }
        }
        Ok(found)
    }

    fn place(&self, step: &Step, at: &At<'d>) -> Found<i64> {
        let number = match self.all(step, at)?.as_slice() {
            [one] => one.to_number(),
            _ => None,
        };
        let Some(number) = number else {
            let message = "jsonpath array subscript is not a single numeric value";
            return soft(BAD_SUBSCRIPT, message);
        };
        let whole = numeric::truncate(&number, 0).ok().and_then(|whole| numeric::to_int(&whole));
        match whole.filter(|place| i32::try_from(*place).is_ok()) {
            Some(place) => Ok(place),
            None => soft(BAD_SUBSCRIPT, "jsonpath array subscript is out of integer range"),
        }
    }

    /// Values of these levels below one, which is of level `level`.
    fn levels(
        &self,
        item: &Item<'d>,
        level: u32,
        first: Level,
        last: Level,
        sink: Sink<'_, 'd>,
    ) -> Found<bool> {
        self.context.spend(1)?;
        let members = item.members();
        let is_leaf = !matches!(item.node(), Node::Array(_) | Node::Object(_));
        let reached = match first {
            Level::Number(first) => level >= first,
            Level::Last => level > 0 && is_leaf && last == Level::Last,
        };
        let within = match last {
            Level::Number(last) => level <= last,
            Level::Last => true,
        };
        if reached && within && sink(item.clone())? {
            return Ok(true);
        }
        if matches!(last, Level::Number(last) if level >= last) {
            return Ok(false);
        }
        for member in members {
            if self.levels(&member, level + 1, first, last, sink)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What a method gives, if anything.
    fn method(&self, item: &Item<'d>, method: Method, at: &At<'d>) -> Found<Option<Item<'d>>> {
        let name = method.name();
        let numeric_only = || {
            soft(
                NON_NUMERIC,
                format!("jsonpath item method .{name}() can only be applied to a numeric value"),
            )
        };
        let found = match method {
            Method::Type => Item::made(Json::String(item.node().kind().into())),
            Method::Size => match item.node() {
                Node::Array(items) => Item::number(&Decimal::from(items.len() as i64)),
                _ if self.is_lax => Item::number(&Decimal::from(1)),
                _ if at.forgives => return Ok(None),
                _ => soft(
                    NO_ARRAY,
                    format!("jsonpath item method .{name}() can only be applied to an array"),
                ),
            },
            Method::Double => self.double(item),
            Method::Ceiling | Method::Floor | Method::Abs => {
                let Some(number) = item.to_number() else { return numeric_only() };
                Item::number(&match method {
                    Method::Ceiling => numeric::ceil(&number)?,
                    Method::Floor => numeric::floor(&number)?,
                    _ => numeric::abs(&number),
                })
            }
            Method::KeyValue => unreachable!("it gives several"),
        };
        found.map(Some)
    }

    fn double(&self, item: &Item<'d>) -> Found<Item<'d>> {
        let (text, what) = match item.node() {
            Node::Number(text) => (text, "numeric"),
            Node::String(text) => (text, "string"),
            _ => {
                let message = "jsonpath item method .double() can only be applied to a string or \
                               numeric value";
                return soft(NON_NUMERIC, message);
            }
        };
        let parsed = Datum::from_text(SqlType::Float8, text);
        let float = match parsed {
            // It only has to be one.
            Ok(Datum::Float8(float)) if float.is_finite() && what == "numeric" => {
                return Ok(item.clone());
            }
            Ok(Datum::Float8(float)) if float.is_finite() => float,
            Ok(_) => {
                let message = "NaN or Infinity is not allowed for jsonpath item method .double()";
                return soft(NON_NUMERIC, message);
            }
            Err(_) => {
                let message = format!(
                    "{what} argument of jsonpath item method .double() is not a valid \
                     representation of a double precision number"
                );
                return soft(NON_NUMERIC, message);
            }
        };
        Item::number(&numeric::from_float(float, 15).expect("it is finite"))
    }

    /// Keys, values, and a number of the object.
    fn key_values(&self, item: &Item<'d>) -> Found<Vec<Item<'d>>> {
        let Node::Object(fields) = item.node() else {
            let message = "jsonpath item method .keyvalue() can only be applied to an object";
            return soft(NO_OBJECT, message);
        };
        let pair = |(key, value): (&str, Node<'_>)| {
            let id = ("id".into(), Json::Number("0".into()));
            let key = ("key".into(), Json::String(key.to_owned().into()));
            Item::made(Json::Object(vec![id, key, ("value".into(), value.to_json())]))
        };
        fields.iter().map(pair).collect()
    }

    /// True, false, or unknown.
    fn truth(&self, condition: &Condition, at: &At<'d>) -> Found<Option<bool>> {
        self.context.spend(1)?;
        Ok(match condition {
            Condition::And(a, b) => match self.truth(a, at)? {
                Some(false) => Some(false),
                a => match (a, self.truth(b, at)?) {
                    (Some(true), b) => b,
                    (_, Some(false)) => Some(false),
                    _ => None,
                },
            },
            Condition::Or(a, b) => match self.truth(a, at)? {
                Some(true) => Some(true),
                a => match (a, self.truth(b, at)?) {
                    (Some(false), b) => b,
                    (_, Some(true)) => Some(true),
                    _ => None,
                },
            },
            Condition::Not(of) => self.truth(of, at)?.map(|truth| !truth),
            Condition::IsUnknown(of) => Some(self.truth(of, at)?.is_none()),
            Condition::Exists(of) => known(self.is_any(of, at))?,
            Condition::Compare(a, how, b) => {
                let (a, b) = (self.all_unwrapped(a, at), self.all_unwrapped(b, at));
                self.any_pair(a, b, |a, b| compare(a, *how, b))?
            }
            Condition::StartsWith(a, b) => {
                let (a, b) = (self.all_unwrapped(a, at), self.all(b, at));
                self.any_pair(a, b, |a, b| match (a, b) {
                    (Node::String(a), Node::String(b)) => Some(a.starts_with(b)),
                    _ => None,
                })?
            }
            Condition::LikeRegex { of, pattern, flags } => {
                let items = self.all_unwrapped(of, at);
                let pattern = self.context.patterns.compiled(pattern, *flags)?;
                let one = vec![Item::made(Json::Null)?];
                self.any_pair(items, Ok(one), |item, _| match item {
                    Node::String(text) => Some(pattern.is_match(text)),
                    _ => None,
                })?
            }
        })
    }

    /// Is it true of any pair? A strict path tries all, and one that is unknown makes all so.
    fn any_pair(
        &self,
        a: Found<Vec<Item<'d>>>,
        b: Found<Vec<Item<'d>>>,
        holds: impl Fn(Node<'_>, Node<'_>) -> Option<bool>,
    ) -> Found<Option<bool>> {
        let (Some(a), Some(b)) = (known(a)?, known(b)?) else { return Ok(None) };
        let (mut found, mut unknown) = (false, false);
        for left in &a {
            for right in &b {
                self.context.spend(1)?;
                match holds(left.node(), right.node()) {
                    Some(true) if self.is_lax => return Ok(Some(true)),
                    Some(true) => found = true,
                    Some(false) => {}
                    None if !self.is_lax => return Ok(None),
                    None => unknown = true,
                }
            }
        }
        Ok(match (found, unknown) {
            (true, _) => Some(true),
            (false, true) => None,
            (false, false) => Some(false),
        })
    }
}

/// What a condition knows: nothing after a soft fault.
fn known<T>(found: Found<T>) -> Found<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Fault::Soft(_)) => Ok(None),
        Err(hard) => Err(hard),
    }
}

fn compare(a: Node<'_>, how: Comparison, b: Node<'_>) -> Option<bool> {
    let order = match (a, b) {
        (Node::Null, Node::Null) => Ordering::Equal,
        (Node::Null, _) | (_, Node::Null) => return Some(how == Comparison::NotEqual),
        (Node::Array(_) | Node::Object(_), _) | (_, Node::Array(_) | Node::Object(_)) => {
            return None;
        }
        (a, b) if a.rank() == b.rank() => a.compare(&b),
        _ => return None,
    };
    Some(match how {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    })
}
