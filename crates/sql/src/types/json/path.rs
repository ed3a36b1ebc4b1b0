//! Paths of SQL/JSON: the type `jsonpath`, as PostgreSQL 15 has it.
//!
//! Invariants: a path is at most [`MAX_DEPTH`] levels deep; what is printed reads back as an equal
//! path.
//! Does not do: evaluation (`expr::json::path`), the method `datetime()`.

use std::fmt::{self, Write};

use super::write_string;

/// A path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    /// Is a member that is missing an error?
    pub(crate) strict: bool,
    pub(crate) root: Step,
}

/// What gives a sequence of values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Null,
    Bool(bool),
    /// The text of a numeric.
    Number(String),
    String(String),
    /// `$`
    Root,
    /// `@`: the value that a filter looks at.
    Current,
    /// `last`: the place of the last item of an array.
    Last,
    /// `$name`
    Variable(String),
    /// Something, then members of it.
    Members(Box<Step>, Vec<Accessor>),
    Sign(Sign, Box<Step>),
    Calculation(Box<Step>, Arithmetic, Box<Step>),
    /// A condition as a value.
    Condition(Box<Condition>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sign {
    Plus,
    Minus,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// A step from values to their members, or to what they give.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Accessor {
    /// `.key`
    Key(String),
    /// `.*`
    AnyKey,
    /// `.**{first to last}`; no last: as deep as it goes.
    AnyLevel {
        first: Level,
        last: Level,
    },
    /// `[*]`
    AnyItem,
    /// `[a, b to c]`
    Items(Vec<(Step, Option<Step>)>),
    /// `?(condition)`
    Filter(Condition),
    Method(Method),
}

/// A level below a value; `Last` is the deepest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Level {
    Number(u32),
    Last,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Method {
    Type,
    Size,
    Double,
    Ceiling,
    Floor,
    Abs,
    KeyValue,
}

impl Method {
    pub(crate) const ALL: [Method; 7] = [
        Method::Type,
        Method::Size,
        Method::Double,
        Method::Ceiling,
        Method::Floor,
        Method::Abs,
        Method::KeyValue,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Method::Type => "type",
            Method::Size => "size",
            Method::Double => "double",
            Method::Ceiling => "ceiling",
            Method::Floor => "floor",
            Method::Abs => "abs",
            Method::KeyValue => "keyvalue",
        }
    }
}

/// What is true, false or unknown.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Condition {
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
    Not(Box<Condition>),
    IsUnknown(Box<Condition>),
    Compare(Box<Step>, Comparison, Box<Step>),
    Exists(Box<Step>),
    StartsWith(Box<Step>, Box<Step>),
    LikeRegex { of: Box<Step>, pattern: String, flags: Flags },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    fn sign(self) -> &'static str {
        match self {
            Comparison::Equal => "==",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }
}

/// Flags of a regular expression, as `like_regex` has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Flags {
    /// `i`: letters match those of the other case.
    pub(crate) ignore_case: bool,
    /// `s`: a dot matches a line feed.
    pub(crate) dot_all: bool,
    /// `m`: `^` and `$` match at line feeds.
    pub(crate) lines: bool,
    /// `q`: the pattern is taken literally.
    pub(crate) literal: bool,
}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.strict { "strict " } else { "" })?;
        write_step(f, &self.root, true)
    }
}

fn quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let mut out = String::new();
    write_string(text, &mut out);
    f.write_str(&out)
}

impl Step {
    /// How tightly it holds its operands together.
    fn rank(&self) -> u8 {
        match self {
            Step::Condition(condition) => condition.rank(),
            Step::Calculation(_, Arithmetic::Add | Arithmetic::Subtract, _) => 3,
            Step::Calculation(..) => 4,
            Step::Sign(..) => 5,
            _ => 6,
        }
    }
}

impl Condition {
    fn rank(&self) -> u8 {
        match self {
            Condition::Or(..) => 0,
            Condition::And(..) => 1,
            Condition::Compare(..) | Condition::StartsWith(..) | Condition::LikeRegex { .. } => 2,
            Condition::Not(_) | Condition::IsUnknown(_) | Condition::Exists(_) => 6,
        }
    }
}

/// Writes a step; operations in parentheses where `in_parens` says so.
fn write_step(f: &mut fmt::Formatter<'_>, step: &Step, in_parens: bool) -> fmt::Result {
    if let Step::Condition(condition) = step {
        return write_condition(f, condition, in_parens);
    }
    let in_parens = in_parens && step.rank() < 6;
    f.write_str(if in_parens { "(" } else { "" })?;
    match step {
        Step::Null => f.write_str("null")?,
        Step::Bool(value) => write!(f, "{value}")?,
        Step::Number(text) => f.write_str(text)?,
        Step::String(text) => quoted(f, text)?,
        Step::Root => f.write_char('$')?,
        Step::Current => f.write_char('@')?,
        Step::Last => f.write_str("last")?,
        Step::Variable(name) => {
            f.write_char('$')?;
            quoted(f, name)?;
        }
        Step::Members(of, members) => {
            match &**of {
                Step::Number(text) => write!(f, "({text})")?,
                of => write_step(f, of, true)?,
            }
            members.iter().try_for_each(|member| write_accessor(f, member))?;
        }
        Step::Sign(sign, of) => {
            f.write_char(if *sign == Sign::Plus { '+' } else { '-' })?;
            write_step(f, of, of.rank() <= step.rank())?;
        }
        Step::Calculation(a, op, b) => {
            write_step(f, a, a.rank() <= step.rank())?;
            let sign = match op {
                Arithmetic::Add => " + ",
                Arithmetic::Subtract => " - ",
                Arithmetic::Multiply => " * ",
                Arithmetic::Divide => " / ",
                Arithmetic::Remainder => " % ",
            };
            f.write_str(sign)?;
            write_step(f, b, b.rank() <= step.rank())?;
        }
        Step::Condition(_) => unreachable!("written above"),
    }
    f.write_str(if in_parens { ")" } else { "" })
}

fn write_accessor(f: &mut fmt::Formatter<'_>, accessor: &Accessor) -> fmt::Result {
    match accessor {
        Accessor::Key(key) => {
            f.write_char('.')?;
            quoted(f, key)
        }
        Accessor::AnyKey => f.write_str(".*"),
        Accessor::AnyItem => f.write_str("[*]"),
        Accessor::AnyLevel { first, last } => {
            f.write_str(".**")?;
            match (first, last) {
                (Level::Number(0), Level::Last) => Ok(()),
                (Level::Last, Level::Last) => f.write_str("{last}"),
                (Level::Number(a), Level::Number(b)) if a == b => write!(f, "{{{a}}}"),
                (first, last) => {
                    let shown = |level: &Level| match level {
                        Level::Number(number) => number.to_string(),
                        Level::Last => "last".to_owned(),
                    };
                    write!(f, "{{{} to {}}}", shown(first), shown(last))
                }
            }
        }
        Accessor::Items(places) => {
            f.write_char('[')?;
            for (at, (first, last)) in places.iter().enumerate() {
                f.write_str(if at > 0 { "," } else { "" })?;
                write_step(f, first, false)?;
                if let Some(last) = last {
                    f.write_str(" to ")?;
                    write_step(f, last, false)?;
                }
            }
            f.write_char(']')
        }
        Accessor::Filter(condition) => {
            f.write_str("?(")?;
            write_condition(f, condition, false)?;
            f.write_char(')')
        }
        Accessor::Method(method) => write!(f, ".{}()", method.name()),
    }
}

/// Writes a condition; one of operands in parentheses where `in_parens` says so.
fn write_condition(
    f: &mut fmt::Formatter<'_>,
    condition: &Condition,
    in_parens: bool,
) -> fmt::Result {
    let in_parens = in_parens && condition.rank() < 6;
    f.write_str(if in_parens { "(" } else { "" })?;
    let (own, inside) = (condition.rank(), |rank: u8| rank <= condition.rank());
    match condition {
        Condition::And(a, b) | Condition::Or(a, b) => {
            write_condition(f, a, inside(a.rank()))?;
            f.write_str(if own == 1 { " && " } else { " || " })?;
            write_condition(f, b, inside(b.rank()))?;
        }
        Condition::Not(of) | Condition::IsUnknown(of) => {
            let is_not = matches!(condition, Condition::Not(_));
            f.write_str(if is_not { "!(" } else { "(" })?;
            write_condition(f, of, false)?;
            f.write_str(if is_not { ")" } else { ") is unknown" })?;
        }
        Condition::Compare(a, how, b) => {
            write_step(f, a, inside(a.rank()))?;
            write!(f, " {} ", how.sign())?;
            write_step(f, b, inside(b.rank()))?;
        }
        Condition::Exists(of) => {
            f.write_str("exists (")?;
            write_step(f, of, false)?;
            f.write_char(')')?;
        }
        Condition::StartsWith(a, b) => {
            write_step(f, a, inside(a.rank()))?;
            f.write_str(" starts with ")?;
            write_step(f, b, inside(b.rank()))?;
        }
        Condition::LikeRegex { of, pattern, flags } => {
            write_step(f, of, inside(of.rank()))?;
            f.write_str(" like_regex ")?;
            quoted(f, pattern)?;
            let Flags { ignore_case, dot_all, lines, literal } = *flags;
            let all = [(ignore_case, 'i'), (dot_all, 's'), (lines, 'm'), (literal, 'q')];
            let shown: String =
                all.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| *flag).collect();
            if !shown.is_empty() {
                write!(f, " flag \"{shown}\"")?;
            }
        }
    }
    f.write_str(if in_parens { ")" } else { "" })
}
