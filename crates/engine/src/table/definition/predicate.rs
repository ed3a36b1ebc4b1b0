//! Conditions on one row as data: check constraints, and which rows a partial index holds.
//!
//! A predicate is a list of terms that must all hold. As in SQL, a term about a null is neither
//! true nor false: a check refuses only what is false, a partial index holds only what is true.
//!
//! Invariants: a predicate that passed [`Predicate::check`] compares each column with a value of
//! the column's type, and only columns whose values have an order; comparison is that of keys,
//! under the column's collation.
//! Does not do: expressions, several columns in one term.

use std::fmt;

use crate::collation::Collation;
use crate::datum::{Type, Value};

/// Condition on a row: terms that must all hold. `C` names a column: callers use a `String`.
///
/// ```
/// use rightlink::{Predicate, Value};
/// let percent = Predicate::new().between("share", Value::Int4(0), Value::Int4(100));
/// assert_eq!(percent.to_string(), "share >= 0 and share <= 100");
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Predicate<C = String> {
    /// Terms of the condition. None: the condition is true of every row.
    pub terms: Vec<Term<C>>,
}

/// Condition on one column.
///
/// ```
/// use rightlink::{Comparison, Predicate, Term, Test, Value};
/// let adults = Predicate::new().at_least("age", Value::Int4(18)).not_null("mail");
/// let Term { column, test } = &adults.terms[0];
/// assert_eq!(column, "age");
/// assert_eq!(*test, Test::Compare(Comparison::AtLeast, Value::Int4(18)));
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Term<C = String> {
    /// Name of the column.
    pub column: C,
    /// Test of its value.
    pub test: Test,
}

/// Test of one value: true, false, or unknown.
///
/// ```
/// use rightlink::{Comparison, Test, Value};
/// let adult = Test::Compare(Comparison::AtLeast, Value::Int4(18));
/// assert_eq!(adult.judge(&Value::Int4(40)), Some(true));
/// assert_eq!(adult.judge(&Value::Null), None);
/// assert_eq!(Test::Null.judge(&Value::Null), Some(true));
/// ```
#[derive(Clone, PartialEq, Debug)]
pub enum Test {
    /// True of a null.
    Null,
    /// True of every other value.
    NotNull,
    /// Compares the value with a constant that is not null. Unknown if the value is null.
    Compare(Comparison, Value),
}

/// A comparison. The discriminant is on disk.
///
/// ```
/// use rightlink::{Comparison, Predicate, Value};
/// let small = Predicate::new().compare("size", Comparison::Less, Value::Int8(100));
/// assert_eq!(small.to_string(), "size < 100");
/// assert_eq!(Comparison::AtMost.sign(), "<=");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Comparison {
    /// `=`
    Equal = 1,
    /// `<>`
    NotEqual = 2,
    /// `<`
    Less = 3,
    /// `<=`
    AtMost = 4,
    /// `>`
    Greater = 5,
    /// `>=`
    AtLeast = 6,
}

impl Comparison {
    /// All comparisons.
    pub const ALL: [Comparison; 6] = [
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Less,
        Comparison::AtMost,
        Comparison::Greater,
        Comparison::AtLeast,
    ];

    /// The comparison with this number on disk. `None`: there is no such comparison.
    pub fn from_tag(tag: u8) -> Option<Comparison> {
        Comparison::ALL.into_iter().find(|known| *known as u8 == tag)
    }

    fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::AtMost => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::AtLeast => order.is_ge(),
        }
    }

    /// The operator of SQL.
    pub const fn sign(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::NotEqual => "<>",
            Comparison::Less => "<",
            Comparison::AtMost => "<=",
            Comparison::Greater => ">",
            Comparison::AtLeast => ">=",
        }
    }
}

impl Test {
    /// Result for a value. `None`: a null makes it unknown. Text compares by its bytes.
    pub fn judge(&self, value: &Value) -> Option<bool> {
        self.judge_by(value, None)
    }

    /// As [`Test::judge`], with a collation for text.
    pub fn judge_by(&self, value: &Value, collation: Option<&Collation>) -> Option<bool> {
        match self {
            Test::Null => Some(value.is_null()),
            Test::NotNull => Some(!value.is_null()),
            Test::Compare(..) if value.is_null() => None,
            Test::Compare(comparison, with) => {
                let order = match (collation, value, with) {
                    (Some(collation), Value::Text(a), Value::Text(b)) => collation.compare(a, b),
                    _ => value.cmp(with),
                };
                Some(comparison.holds(order))
            }
        }
    }
}

impl Default for Predicate {
    fn default() -> Self {
        Self::new()
    }
}

impl Predicate {
    /// No terms: true of every row.
    pub fn new() -> Self {
        Self { terms: Vec::new() }
    }

    fn term(mut self, column: impl Into<String>, test: Test) -> Self {
        self.terms.push(Term { column: column.into(), test });
        self
    }

    /// Adds a term: `column` compares with `value` as `comparison` says.
    #[must_use]
    pub fn compare(self, column: impl Into<String>, comparison: Comparison, value: Value) -> Self {
        self.term(column, Test::Compare(comparison, value))
    }

    /// Adds a term: `column` equals `value`.
    #[must_use]
    pub fn equal(self, column: impl Into<String>, value: Value) -> Self {
        self.compare(column, Comparison::Equal, value)
    }

    /// Adds a term: `column` is at least `value`.
    #[must_use]
    pub fn at_least(self, column: impl Into<String>, value: Value) -> Self {
        self.compare(column, Comparison::AtLeast, value)
    }

    /// Adds a term: `column` is at most `value`.
    #[must_use]
    pub fn at_most(self, column: impl Into<String>, value: Value) -> Self {
        self.compare(column, Comparison::AtMost, value)
    }

    /// Adds two terms: `column` is at least `low` and at most `high`.
    #[must_use]
    pub fn between(self, column: impl Into<String>, low: Value, high: Value) -> Self {
        let column = column.into();
        self.at_least(column.clone(), low).at_most(column, high)
    }

    /// Adds a term: `column` is null.
    #[must_use]
    pub fn null(self, column: impl Into<String>) -> Self {
        self.term(column, Test::Null)
    }

    /// Adds a term: `column` is not null.
    #[must_use]
    pub fn not_null(self, column: impl Into<String>) -> Self {
        self.term(column, Test::NotNull)
    }
}

impl<C> Predicate<C> {
    /// Result for a row, of which `value` returns the columns. `None`: a null makes it unknown.
    /// Text compares by its bytes.
    pub fn judge<'v>(&self, value: impl Fn(&C) -> &'v Value) -> Option<bool> {
        self.judge_by(|column| (value(column), None))
    }

    /// As [`Predicate::judge`]. `value` also returns the collation of each column.
    pub fn judge_by<'v>(
        &self,
        value: impl Fn(&C) -> (&'v Value, Option<&'v Collation>),
    ) -> Option<bool> {
        let mut known = true;
        for term in &self.terms {
            let (value, collation) = value(&term.column);
            match term.test.judge_by(value, collation) {
                Some(false) => return Some(false),
                Some(true) => {}
                None => known = false,
            }
        }
        known.then_some(true)
    }

    /// The same condition with other names of columns. `name` returns the new name of each.
    ///
    /// # Errors
    /// The first error of `name`.
    pub fn try_map<D, E>(
        &self,
        mut name: impl FnMut(&C) -> Result<D, E>,
    ) -> Result<Predicate<D>, E> {
        let term =
            |term: &Term<C>| Ok(Term { column: name(&term.column)?, test: term.test.clone() });
        Ok(Predicate { terms: self.terms.iter().map(term).collect::<Result<_, E>>()? })
    }
}

impl<C: Copy + PartialEq> Predicate<C> {
    /// True if a term is about `column`.
    pub fn names(&self, column: C) -> bool {
        self.terms.iter().any(|term| term.column == column)
    }

    /// Checks the terms. `column` returns the name and type of each column.
    ///
    /// # Errors
    /// `Invalid` without terms, and for a column that cannot be compared with its constant. Errors
    /// of `column`.
    pub fn check<'t>(
        &self,
        column: impl Fn(C) -> crate::error::Result<(&'t str, Type)>,
    ) -> crate::error::Result<()> {
        if self.terms.is_empty() {
            return Err(crate::error::Error::Invalid("a condition without terms".into()));
        }
        for term in &self.terms {
            let (name, ty) = column(term.column)?;
            let Test::Compare(_, value) = &term.test else { continue };
            let fits = value.type_of() == Some(ty) && value.is_sound() && ty.is_ordered();
            if !fits {
                let what = format!("column {name} of type {ty} cannot be compared with {value}");
                return Err(crate::error::Error::Invalid(what));
            }
        }
        Ok(())
    }
}

impl<C: fmt::Display> fmt::Display for Predicate<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Term { column, test }) in self.terms.iter().enumerate() {
            let and = if at == 0 { "" } else { " and " };
            match test {
                Test::Null => write!(f, "{and}{column} is null")?,
                Test::NotNull => write!(f, "{and}{column} is not null")?,
                Test::Compare(comparison, value) => {
                    write!(f, "{and}{column} {} {}", comparison.sign(), Quoted(value))?;
                }
            }
        }
        Ok(())
    }
}

/// A constant as SQL writes it.
pub struct Quoted<'v>(pub &'v Value);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Type::{Bool, Decimal, Float4, Float8, Int2, Int4, Int8};
        match self.0.type_of() {
            None => write!(f, "null"),
            Some(Bool | Int2 | Int4 | Int8 | Float4 | Float8 | Decimal) => write!(f, "{}", self.0),
            Some(_) => write!(f, "'{}'", self.0.to_string().replace('\'', "''")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(test: &Test, value: Value) -> Option<bool> {
        let predicate = Predicate { terms: vec![Term { column: 0, test: test.clone() }] };
        predicate.judge(|_| &value)
    }

    #[test]
    fn null_is_unknown_to_comparisons_only() {
        let small = Test::Compare(Comparison::Less, Value::Int4(5));
        assert_eq!(judge(&small, Value::Int4(4)), Some(true));
        assert_eq!(judge(&small, Value::Int4(5)), Some(false));
        assert_eq!(judge(&small, Value::Null), None);
        assert_eq!(judge(&Test::Null, Value::Null), Some(true));
        assert_eq!(judge(&Test::NotNull, Value::Null), Some(false));
    }

    #[test]
    fn what_is_false_outweighs_what_is_unknown() {
        let terms = vec![
            Term { column: 0, test: Test::Compare(Comparison::Equal, Value::Int4(1)) },
            Term { column: 1, test: Test::NotNull },
        ];
        let predicate: Predicate<usize> = Predicate { terms };
        let null = Value::Null;
        let one = Value::Int4(1);
        assert_eq!(predicate.judge(|_| &null), Some(false));
        assert_eq!(predicate.judge(|at| if *at == 0 { &null } else { &one }), None);
        assert_eq!(predicate.judge(|_| &one), Some(true));
    }

    #[test]
    fn constants_of_another_type_are_refused() {
        let predicate = |test| Predicate { terms: vec![Term { column: 0, test }] };
        let column = |_| Ok(("a", Type::Int4));
        let equal = |value| predicate(Test::Compare(Comparison::Equal, value));
        assert!(equal(Value::Int4(1)).check(column).is_ok());
        assert!(equal(Value::Int8(1)).check(column).is_err());
        assert!(equal(Value::Null).check(column).is_err());
        assert!(predicate(Test::Null).check(column).is_ok());
        assert!(Predicate::<usize> { terms: Vec::new() }.check(column).is_err());
    }

    #[test]
    fn every_comparison_has_a_tag_of_its_own() {
        for comparison in Comparison::ALL {
            assert_eq!(Comparison::from_tag(comparison as u8), Some(comparison));
        }
        assert_eq!(Comparison::from_tag(7), None);
    }
}
