//! Functions that give rows, and rows that come as often as such functions give some.
//!
//! Calls of one relation go side by side: the first row of each with the first of the others. Where
//! one has no more rows it gives nulls, until the longest has come to its end.
//!
//! Invariants: arguments are evaluated once for a row of the input, and counted while they are
//! used; rows are made when they are asked for. Does not do: tables.

use std::sync::Arc;

use rightlink::Budget;

use crate::error::{Result, SqlError, code};
use crate::exec::memory::Memory;
use crate::exec::query::project;
use crate::exec::{Ready, RowsOf, Stream};
use crate::expr::function::{JsonPart, JsonRows, SetFunction};
use crate::expr::{Context, Pace, json, regex};
use crate::plan::node::{Node, Op};
use crate::types::json::bytes_to_read;
use crate::types::time::Zone;
use crate::types::{Datum, Decimal, Row, SqlType, calendar, numeric};

/// What a function gives for these arguments.
pub(super) fn rows(
    function: SetFunction,
    args: Vec<Datum>,
    context: &Context,
) -> Result<Box<dyn Stream>> {
    match function {
        SetFunction::Series(ty) => Series::open(args, ty),
        SetFunction::Unnest => Ok(Box::new(Unnest { arrays: args, at: 0, pace: Pace::default() })),
        SetFunction::Numbered => Ok(Box::new(Numbered::new(args))),
        SetFunction::Subscripts => Ok(Series::of_subscripts(&args)),
        SetFunction::TextParts => Ok(Box::new(TextParts::new(args))),
        SetFunction::Json(rows) => Ok(Box::new(Ready::new(members(rows, &args, context)?))),
        SetFunction::Patterns(rows) => Ok(Box::new(Ready::new(regex::rows(rows, &args, context)?))),
        SetFunction::Channels => {
            let channels = context.activity.channels_of(context.pid).into_iter();
            Ok(Box::new(Ready::new(channels.map(|name| vec![Datum::Text(name)]).collect())))
        }
        SetFunction::Options => Ok(Box::new(Ready::new(options(&args)))),
        SetFunction::Value => Ok(Box::new(Ready::new(vec![args]))),
        SetFunction::Publication => match args.first() {
            Some(Datum::Text(name)) => {
                let message = format!("publication \"{name}\" does not exist");
                Err(SqlError::new(code::UNDEFINED_OBJECT, message))
            }
            _ => Ok(Box::new(Ready::new(Vec::new()))),
        },
        SetFunction::Nothing | SetFunction::Partitions => Ok(Box::new(Ready::new(Vec::new()))),
    }
}

/// `pg_options_to_table`: an option without a sign of equality has no value.
fn options(args: &[Datum]) -> Vec<Row> {
    let Some(Datum::Array(all)) = args.first() else { return Vec::new() };
    let one = |value: &Datum| {
        let Datum::Text(text) = value else { return None };
        Some(match text.split_once('=') {
            Some((name, value)) => vec![Datum::Text(name.into()), Datum::Text(value.into())],
            None => vec![Datum::Text(text.clone()), Datum::Null],
        })
    };
    all.values().iter().filter_map(one).collect()
}

/// The members of a document; none of null.
fn members(rows: JsonRows, args: &[Datum], context: &Context) -> Result<Vec<Row>> {
    let JsonRows { name, part, as_text } = rows;
    let document = &args[0];
    if document.is_null() {
        return Ok(Vec::new());
    }
    let rows_bytes = match document {
        Datum::Jsonb(document) => document.node().count() * size_of::<(Row, [Datum; 2])>(),
        Datum::Json(text) => bytes_to_read(text),
        _ => 0,
    };
    context.held.check_fits(rows_bytes + document.heap_bytes())?;
    Ok(match part {
        JsonPart::Items => {
            json::elements(document, as_text, name)?.into_iter().map(|item| vec![item]).collect()
        }
        JsonPart::Keys => json::keys(document, name)?.into_iter().map(|key| vec![key]).collect(),
        JsonPart::Path => {
            json::path::query(args, context)?.into_iter().map(|item| vec![item]).collect()
        }
        JsonPart::Fields => {
            json::fields(document, as_text, name)?.into_iter().map(Row::from).collect()
        }
    })
}

/// Rows with what functions give behind them.
pub(super) struct ProjectSet {
    node: Arc<Node>,
    input: RowsOf,
    memory: Memory,
    /// The row whose functions are at work.
    row: Row,
    /// What is left of each; `None` at its end.
    sets: Vec<Option<Box<dyn Stream>>>,
    pace: Pace,
}

impl ProjectSet {
    pub(super) fn new(node: &Arc<Node>, input: RowsOf, budget: &Budget) -> ProjectSet {
        let (node, memory) = (Arc::clone(node), Memory::new(budget));
        ProjectSet { node, input, memory, row: Row::new(), sets: Vec::new(), pace: Pace::default() }
    }

    /// Takes the next row of the input; false at the end.
    fn advance(&mut self, most: usize, context: &Context) -> Result<bool> {
        let Op::ProjectSet { calls, .. } = &self.node.op else { unreachable!("opened for sets") };
        self.memory.release();
        self.sets.clear();
        let Some(row) = self.input.next(most, context)? else { return Ok(false) };
        for call in calls {
            let args = project(&call.args, &row, context)?;
            self.memory.charge_row(&args)?;
            self.sets.push(Some(rows(call.function, args, context)?));
        }
        self.row = row;
        Ok(true)
    }
}

impl Stream for ProjectSet {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Row>> {
        loop {
            self.pace.step(context)?;
            let mut row = self.row.clone();
            let mut found = false;
            let Op::ProjectSet { calls, .. } = &self.node.op else {
                unreachable!("opened for sets")
            };
            for (set, call) in self.sets.iter_mut().zip(calls) {
                let value = match set {
                    Some(stream) => stream.next(most, context)?,
                    None => None,
                };
                match value {
                    Some(value) => {
                        found = true;
                        row.extend(value);
                    }
                    None => {
                        *set = None;
                        row.resize(row.len() + call.width, Datum::Null);
                    }
                }
            }
            if found {
                return Ok(Some(row));
            }
            if !self.advance(most, context)? {
                return Ok(None);
            }
        }
    }
}

/// `unnest`
struct Unnest {
    arrays: Vec<Datum>,
    at: usize,
    pace: Pace,
}

impl Stream for Unnest {
    fn next(&mut self, _: usize, context: &Context) -> Result<Option<Row>> {
        self.pace.step(context)?;
        let element = |array: &Datum| match array {
            Datum::Array(array) => array.values().get(self.at).cloned(),
            _ => None,
        };
        let row: Vec<Option<Datum>> = self.arrays.iter().map(element).collect();
        self.at += 1;
        let has_any = row.iter().any(Option::is_some);
        Ok(has_any.then(|| row.into_iter().map(Option::unwrap_or_default).collect()))
    }
}

/// `_pg_expandarray`: elements and their numbers. Arrays of more dimensions than one have nulls.
struct Numbered {
    array: Datum,
    at: i32,
    pace: Pace,
}

impl Numbered {
    fn new(args: Vec<Datum>) -> Numbered {
        let [array] = <[Datum; 1]>::try_from(args).expect("one argument");
        Numbered { array, at: 0, pace: Pace::default() }
    }
}

impl Stream for Numbered {
    fn next(&mut self, _: usize, context: &Context) -> Result<Option<Row>> {
        self.pace.step(context)?;
        let Datum::Array(array) = &self.array else { return Ok(None) };
        let (first, is_flat) = match array.dimensions() {
            [] => return Ok(None),
            [first, rest @ ..] => (first, rest.is_empty()),
        };
        if self.at > first.upper() - first.lower {
            return Ok(None);
        }
        let element = array.values()[self.at as usize].clone();
        self.at += 1;
        Ok(Some(vec![if is_flat { element } else { Datum::Null }, Datum::Int4(self.at)]))
    }
}

/// `generate_series`.
struct Series {
    next: Option<Datum>,
    stop: Datum,
    step: Datum,
    backward: bool,
    pace: Pace,
}

impl Series {
    fn open(mut values: Vec<Datum>, ty: SqlType) -> Result<Box<dyn Stream>> {
        if values.iter().any(Datum::is_null) {
            return Ok(Box::new(Ready::new(Vec::new())));
        }
        if values.len() == 2 {
            values.push(match ty {
                SqlType::Int4 => Datum::Int4(1),
                SqlType::Int8 => Datum::Int8(1),
                _ => Datum::Numeric(Decimal::from(1)),
            });
        }
        let [start, stop, step]: [Datum; 3] = values.try_into().expect("two or three arguments");
        for (value, what) in [(&start, "start value"), (&stop, "stop value"), (&step, "step size")]
        {
            check_end(value, what)?;
        }
        let (zero, backward) = match &step {
            Datum::Numeric(step) => (step.is_zero(), step.is_negative()),
            Datum::Interval(step) => (step.total_micros() == 0, step.total_micros() < 0),
            other => (other.as_int() == Some(0), other.as_int().is_some_and(|step| step < 0)),
        };
        if zero {
            return Err(SqlError::new(code::INVALID_PARAMETER, "step size cannot equal zero"));
        }
        Ok(Box::new(Series { next: Some(start), stop, step, backward, pace: Pace::default() }))
    }

    /// `generate_subscripts`
    fn of_subscripts(values: &[Datum]) -> Box<dyn Stream> {
        let nothing = || Box::new(Ready::new(Vec::new()));
        let [Datum::Array(array), Datum::Int4(dimension), Datum::Bool(backward)] = values else {
            return nothing();
        };
        let at = usize::try_from(*dimension).ok().and_then(|at| at.checked_sub(1));
        let Some(dimension) = at.and_then(|at| array.dimensions().get(at)) else {
            return nothing();
        };
        let (start, stop, step) = match backward {
            false => (dimension.lower, dimension.upper(), 1),
            true => (dimension.upper(), dimension.lower, -1),
        };
        Box::new(Series {
            next: Some(Datum::Int4(start)),
            stop: Datum::Int4(stop),
            step: Datum::Int4(step),
            backward: *backward,
            pace: Pace::default(),
        })
    }

    /// The number after `value`; none past the end of its type.
    fn after(&self, value: &Datum, zone: &Zone) -> Result<Option<Datum>> {
        Ok(match (value, &self.step) {
            (Datum::Int4(a), Datum::Int4(b)) => a.checked_add(*b).map(Datum::Int4),
            (Datum::Int8(a), Datum::Int8(b)) => a.checked_add(*b).map(Datum::Int8),
            (Datum::Numeric(a), Datum::Numeric(b)) => Some(Datum::Numeric(numeric::add(a, b)?)),
            (Datum::Timestamp(a), Datum::Interval(b)) => {
                Some(Datum::Timestamp(calendar::add(*a, *b)?))
            }
            (Datum::Timestamptz(a), Datum::Interval(b)) => {
                Some(Datum::Timestamptz(zone.add(*a, *b)?))
            }
            _ => unreachable!("the binder casts the arguments"),
        })
    }
}

/// Refuses a number without end as an end of a series.
fn check_end(value: &Datum, what: &str) -> Result<()> {
    match value {
        Datum::Numeric(number) if !number.is_finite() => {
            let kind = if number.is_nan() { "NaN" } else { "infinity" };
            Err(SqlError::new(code::INVALID_PARAMETER, format!("{what} cannot be {kind}")))
        }
        _ => Ok(()),
    }
}

impl Stream for Series {
    fn next(&mut self, _: usize, context: &Context) -> Result<Option<Row>> {
        self.pace.step(context)?;
        let Some(value) = self.next.take() else { return Ok(None) };
        let order = value.compare(&self.stop);
        if if self.backward { order.is_lt() } else { order.is_gt() } {
            return Ok(None);
        }
        self.next = self.after(&value, context.times.zone())?;
        Ok(Some(vec![value]))
    }
}

/// `string_to_table`: parts of a text between delimiters. A null delimiter is one between any two
/// characters, an empty one is nowhere.
struct TextParts {
    text: String,
    delimiter: Option<String>,
    /// What stands for null.
    null: Option<String>,
    /// Where the next part begins; `None` at the end.
    at: Option<usize>,
    pace: Pace,
}

impl TextParts {
    fn new(args: Vec<Datum>) -> TextParts {
        let mut texts = args.into_iter().map(|arg| match arg {
            Datum::Text(text) => Some(text),
            _ => None,
        });
        let mut next = || texts.next().flatten();
        let (text, delimiter, null) = (next().unwrap_or_default(), next(), next());
        let at = (!text.is_empty()).then_some(0);
        TextParts { text, delimiter, null, at, pace: Pace::default() }
    }
}

impl Stream for TextParts {
    fn next(&mut self, _: usize, context: &Context) -> Result<Option<Row>> {
        self.pace.step(context)?;
        let Some(at) = self.at else { return Ok(None) };
        let rest = &self.text[at..];
        let (part, next) = match self.delimiter.as_deref() {
            None => {
                let length = rest.chars().next().map_or(0, char::len_utf8);
                (&rest[..length], (length < rest.len()).then_some(at + length))
            }
            Some("") => (rest, None),
            Some(delimiter) => match rest.find(delimiter) {
                Some(length) => (&rest[..length], Some(at + length + delimiter.len())),
                None => (rest, None),
            },
        };
        self.at = next;
        let is_null = self.null.as_deref() == Some(part);
        Ok(Some(vec![if is_null { Datum::Null } else { Datum::Text(part.to_owned()) }]))
    }
}
