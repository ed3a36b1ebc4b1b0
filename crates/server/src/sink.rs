//! Results of a session as messages.
//!
//! Invariants: what waits to be sent is bounded; a client that reads slowly slows its statement.
//! Does not do: deciding what is asked.

use std::io;

use rightlink_sql::{Column, CopyHeader, Result, Row, Sink, SqlError, Times};

use crate::protocol::backend::Out;
use crate::transport::Transport;

/// Bytes that wait before they are sent.
pub(crate) const FULL: usize = 32 << 10;

/// A client as a place for results.
pub(crate) struct Client<'c> {
    pub(crate) out: &'c mut Out,
    pub(crate) transport: &'c mut Transport,
    /// Formats of the results' columns; `None` in the simple protocol, where columns are told and
    /// every statement's tag is.
    pub(crate) formats: Option<&'c [i16]>,
    /// Are rows binary where there are no formats?
    pub(crate) binary: bool,
    /// Was there a statement?
    pub(crate) any: bool,
    /// Is a COPY TO under way, whose end the client must be told?
    pub(crate) copying_out: bool,
}

/// The client cannot be reached any more.
pub(crate) fn lost(error: &io::Error) -> SqlError {
    SqlError::new("08006", format!("could not send data to client: {error}"))
}

/// Messages count columns and parameters in 16 bits.
pub(crate) fn check_count(count: usize) -> Result<()> {
    const MOST: usize = u16::MAX as usize;
    if count <= MOST {
        return Ok(());
    }
    let message = format!("{count} columns or parameters, where the protocol has room for {MOST}");
    Err(SqlError::new("54011", message))
}

impl<'c> Client<'c> {
    /// Tells the client that all rows of a COPY TO were sent.
    pub(crate) fn end_copy(&mut self) {
        if std::mem::take(&mut self.copying_out) {
            self.out.plain(b'c');
        }
    }

    /// Formats of the columns of a row; one stands for all.
    fn formats(&self) -> &'c [i16] {
        self.formats.unwrap_or(if self.binary { &[1] } else { &[] })
    }

    fn send_if_full(&mut self) -> Result<()> {
        if self.out.bytes().len() < FULL {
            return Ok(());
        }
        self.transport.send(self.out.bytes()).map_err(|error| lost(&error))?;
        self.out.clear();
        Ok(())
    }
}

impl Sink for Client<'_> {
    fn columns(&mut self, columns: &[Column]) -> Result<()> {
        check_count(columns.len())?;
        if self.formats.is_none() {
            self.out.columns(columns, self.formats());
        }
        Ok(())
    }

    fn binary(&mut self) {
        self.binary = true;
    }

    fn times(&mut self, times: &Times) {
        self.out.set_times(times);
    }

    fn row(&mut self, row: Row) -> Result<()> {
        check_count(row.len())?;
        let formats = self.formats();
        self.out.row(&row, formats)?;
        self.send_if_full()
    }

    fn complete(&mut self, tag: &str) -> Result<()> {
        (self.any, self.binary) = (true, false);
        self.end_copy();
        self.out.complete(tag);
        Ok(())
    }

    fn notice(&mut self, severity: &str, message: &str) {
        self.out.notice(severity, message);
    }

    fn copy_in(&mut self, header: CopyHeader) -> Result<()> {
        check_count(header.columns)?;
        self.any = true;
        self.out.copy(b'G', header.format, header.columns);
        Ok(())
    }

    fn copy_out(&mut self, header: CopyHeader) -> Result<()> {
        check_count(header.columns)?;
        self.copying_out = true;
        self.out.copy(b'H', header.format, header.columns);
        Ok(())
    }

    fn copy_data(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.copy_rows(bytes)?;
        self.send_if_full()
    }
}
