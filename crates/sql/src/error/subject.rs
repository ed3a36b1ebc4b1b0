//! The names of the objects that an error is about, as programs read them: PostgreSQL sends them
//! in fields of their own, since its messages may be translated.
//!
//! Invariants: a constraint, a column and a domain have a schema beside them.
//! Does not do: text for people (`SqlError::message`).

use super::SqlError;
use crate::names::{bare, schema_of};

/// The objects that an error is about. All names are without quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The schema of the table or the domain.
    pub schema: String,
    /// The table.
    pub table: Option<String>,
    /// The column of the table.
    pub column: Option<String>,
    /// The domain.
    pub data_type: Option<String>,
    /// The constraint of the table or the domain; also the index of a unique key.
    pub constraint: Option<String>,
}

impl Subject {
    /// The table called `stored` in the store.
    fn table(stored: &str) -> Subject {
        let (schema, table) = (schema_of(stored).to_owned(), bare(stored).to_owned());
        Subject { schema, table: Some(table), ..Subject::default() }
    }

    /// The domain called `stored` in the store.
    fn domain(stored: &str) -> Subject {
        let (schema, domain) = (schema_of(stored).to_owned(), bare(stored).to_owned());
        Subject { schema, data_type: Some(domain), ..Subject::default() }
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

    fn about(self, subject: Subject) -> Self {
        Self { subject: Some(Box::new(subject)), ..self }
    }
}
