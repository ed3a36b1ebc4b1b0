//! Standard output: buffered, with JSON or text, and colour only on a terminal.
//!
//! Invariants: nothing is written past an error; a closed pipe ends a command that only prints
//! quietly, and does not end one whose work or verdict counts ([`Output::outlive_reader`]).
//! Does not do: messages to people about failures (`failure`).

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use crate::failure::Failure;
use crate::json::Json;

/// Where results go.
pub(crate) struct Output {
    inner: BufWriter<Stdout>,
    json: bool,
    colour: bool,
    /// The command goes on when what it prints gets nowhere.
    outlives: bool,
    /// Why nothing is printed any more.
    lost: Option<io::Error>,
}

impl Output {
    /// Standard output, for programs if `json`.
    pub(crate) fn stdout(json: bool) -> Self {
        let stdout = io::stdout();
        let colour = stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none() && !json;
        let inner = BufWriter::with_capacity(1 << 16, stdout);
        Self { inner, json, colour, outlives: false, lost: None }
    }

    /// From now on the command goes on without its output when nobody reads that, or nothing can
    /// hold it. [`Output::finish`] tells.
    pub(crate) fn outlive_reader(&mut self) {
        self.outlives = true;
    }

    /// Does a program read this?
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// Writes one line.
    pub(crate) fn line(&mut self, text: impl Display) -> Result<(), Failure> {
        self.write(|inner| writeln!(inner, "{text}"))
    }

    /// Writes an object for programs or a line for people.
    pub(crate) fn either(&mut self, json: &Json, text: impl Display) -> Result<(), Failure> {
        if self.json { self.line(json) } else { self.line(text) }
    }

    /// Writes bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.inner.write_all(bytes)?)
    }

    /// Hands everything written so far to the reader.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.write(io::Write::flush)
    }

    /// Hands everything over, and tells if something printed earlier got lost, unless its reader
    /// had seen enough.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        self.flush()?;
        match self.lost.take() {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn write(
        &mut self,
        write: impl FnOnce(&mut BufWriter<Stdout>) -> io::Result<()>,
    ) -> Result<(), Failure> {
        if self.lost.is_some() {
            return Ok(());
        }
        match write(&mut self.inner) {
            Err(error) if self.outlives => {
                self.lost = Some(error);
                Ok(())
            }
            written => Ok(written?),
        }
    }

    /// `text` in bold, on a terminal.
    pub(crate) fn bold(&self, text: &str) -> String {
        self.paint("1", text)
    }

    /// `text` in green, on a terminal.
    pub(crate) fn green(&self, text: &str) -> String {
        self.paint("32", text)
    }

    /// `text` in red, on a terminal.
    pub(crate) fn red(&self, text: &str) -> String {
        self.paint("31", text)
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
