//! Standard output: buffered, with JSON or text, and colour only on a terminal.
//!
//! Invariants: nothing is written past an error; a closed pipe ends a command that only prints
//! quietly, and does not end one whose work or verdict counts ([`Output::outlive_reader`]).
//! Does not do: messages to people about failures (`failure`).

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Write};

use rightlink_server::{Call, Channel};

use crate::failure::Failure;
use crate::json::Json;

/// Where a line goes that tells how far the work is.
#[derive(Clone)]
pub(crate) enum Bar {
    Nowhere,
    /// Standard error, a terminal.
    Terminal,
    /// The client of a server, who has a terminal.
    Client(Call),
}

/// The standard output of a client that waits for a server.
struct Sent(Call);

impl Write for Sent {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(Channel::Output, bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Where an [`Output`] wrote before it was diverted.
pub(crate) struct Diverted(BufWriter<Box<dyn Write + Send>>);

/// Where results go.
pub(crate) struct Output {
    inner: BufWriter<Box<dyn Write + Send>>,
    bar: Bar,
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
        let inner = BufWriter::with_capacity(1 << 16, Box::new(stdout) as Box<dyn Write + Send>);
        let bar = if !json && io::stderr().is_terminal() { Bar::Terminal } else { Bar::Nowhere };
        Self { inner, bar, json, colour, outlives: false, lost: None }
    }

    /// The standard output of a client that waits for a server, which is `watched` if the client
    /// shows how far the work is.
    pub(crate) fn of_call(json: bool, call: Call, watched: bool) -> Self {
        let bar = if watched { Bar::Client(call.clone()) } else { Bar::Nowhere };
        let inner =
            BufWriter::with_capacity(1 << 15, Box::new(Sent(call)) as Box<dyn Write + Send>);
        Self { inner, bar, json, colour: false, outlives: false, lost: None }
    }

    /// Writes to `other` instead, until [`Output::returned`]; what was written before is handed
    /// over first.
    pub(crate) fn diverted(&mut self, other: Box<dyn Write + Send>) -> Result<Diverted, Failure> {
        self.flush()?;
        let other = BufWriter::with_capacity(1 << 16, other);
        Ok(Diverted(std::mem::replace(&mut self.inner, other)))
    }

    /// Writes where it wrote before.
    pub(crate) fn returned(&mut self, before: Diverted) -> Result<(), Failure> {
        let flushed = self.flush();
        self.inner = before.0;
        flushed
    }

    /// Where it is told how far the work is.
    pub(crate) fn bar(&self) -> Bar {
        self.bar.clone()
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

    /// Writes bytes as they are, as [`Output::line`] writes lines.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.write(|inner| inner.write_all(bytes))
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
        write: impl FnOnce(&mut BufWriter<Box<dyn Write + Send>>) -> io::Result<()>,
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
