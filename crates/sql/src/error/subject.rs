//! The fields of an error that programs read: the names of the objects that it is about, which
//! PostgreSQL sends apart, since its messages may be translated.
//!
//! Invariants: a constraint, a column and a domain have a schema beside them.
//! Does not do: text for people (`SqlError::message`).

use super::SqlError;
use crate::names::{bare, schema_of};

/// The objects that an error is about. All names are without quotes.
///
/// A box of them keeps errors small, which are parts of most results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The schema of the table or the domain.
    pub schema: Option<String>,
    /// The table.
    pub table: Option<String>,
    /// The column of the table.
    pub column: Option<String>,
    /// The domain.
    pub data_type: Option<String>,
    /// The constraint of the table or the domain; also the index of a unique key.
    pub constraint: Option<String>,
    /// The function of PostgreSQL's that reports it, where drivers know the error by that.
    pub routine: Option<&'static str>,
}

impl Subject {
    /// The table called `stored` in the store.
    fn table(stored: &str) -> Subject {
        let (schema, table) = (schema_of(stored).to_owned(), bare(stored).to_owned());
        Subject { schema: Some(schema), table: Some(table), ..Subject::default() }
    }

    /// The domain called `stored` in the store.
    fn domain(stored: &str) -> Subject {
        let (schema, domain) = (schema_of(stored).to_owned(), bare(stored).to_owned());
        Subject { schema: Some(schema), data_type: Some(domain), ..Subject::default() }
    }
}

impl SqlError {
    /// The error, which a constraint of the table called `stored` in the store caused.
    #[must_use]
    pub(crate) fn of_constraint(self, stored: &str, constraint: &str) -> Self {
        let constraint = Some(bare(constraint).to_owned());
        self.about(Subject { constraint, ..Subject::table(stored) })
    }

    /// The error, which a column of the table called `stored` in the store caused.
    #[must_use]
    pub(crate) fn of_column(self, stored: &str, column: &str) -> Self {
        self.about(Subject { column: Some(column.to_owned()), ..Subject::table(stored) })
    }

    /// The error, which the domain called `stored` in the store caused, or one of its constraints.
    #[must_use]
    pub(crate) fn of_domain(self, stored: &str, constraint: Option<&str>) -> Self {
        let constraint = constraint.map(str::to_owned);
        self.about(Subject { constraint, ..Subject::domain(stored) })
    }

    /// The error, which this function of PostgreSQL's reports.
    #[must_use]
    pub(crate) fn of_routine(self, routine: &'static str) -> Self {
        self.about(Subject { routine: Some(routine), ..Subject::default() })
    }

    fn about(self, subject: Subject) -> Self {
        Self { subject: Some(Box::new(subject)), ..self }
    }
}
