//! Takes the rows that a session hands over, and nothing else.
//!
//! Does not do: COPY.

use rightlink_sql::{Column, Result, Row, Sink};

#[derive(Default)]
pub(crate) struct Gather {
    pub(crate) rows: Vec<Row>,
}

impl Sink for Gather {
    fn columns(&mut self, _: &[Column]) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, row: Row) -> Result<()> {
        self.rows.push(row);
        Ok(())
    }

    fn complete(&mut self, _: &str) -> Result<()> {
        Ok(())
    }

    fn notice(&mut self, _: &str, _: &str) {}
}
