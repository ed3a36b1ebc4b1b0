//! Long results of somebody who types, through a pager.
//!
//! The first lines wait until there are more than the terminal shows; then a pager is started and
//! gets them and all that follow. Shorter results are printed as they are.
//!
//! Invariants: what waits is at most a screen of lines, or `MOST_BYTES`. A pager that is left early
//! ends no statement.
//! Does not do: results for programs; without a terminal there is no pager.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Lines of a terminal that does not say how many it has.
const USUAL_LINES: usize = 24;
/// Bytes that wait for more lines.
const MOST_BYTES: usize = 1 << 20;

/// The program that shows long results.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pager {
    command: String,
}

impl Pager {
    /// `$PAGER`, else `less` or `more` if there is one. An empty `$PAGER` means none.
    pub(super) fn find() -> Option<Pager> {
        let chosen = match std::env::var("PAGER") {
            Ok(command) => Some(command),
            Err(_) => ["less", "more"].into_iter().find(|name| is_there(name)).map(str::to_owned),
        };
        chosen.filter(|command| !command.trim().is_empty()).map(|command| Pager { command })
    }

    fn start(&self) -> io::Result<Child> {
        let mut command = Command::new("sh");
        command.args(["-c", &self.command]).stdin(Stdio::piped());
        if std::env::var_os("LESS").is_none() {
            // Long lines are moved over sideways: wrapped, they are no columns.
            command.env("LESS", "-RS");
        }
        command.spawn()
    }
}

fn is_there(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| Path::new(&folder).join(name).is_file())
}

/// Where a result goes that may be long. Dropped, it waits until the pager has been left.
pub(super) struct Paged {
    pager: Pager,
    lines: usize,
    waiting: Vec<u8>,
    child: Option<Child>,
    /// Nobody looks any more.
    left: bool,
}

impl Paged {
    pub(super) fn new(pager: Pager) -> Paged {
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
        let lines = size.map_or(0, |size| usize::from(size.ws_row));
        let lines = if lines == 0 { USUAL_LINES } else { lines };
        Paged { pager, lines, waiting: Vec::new(), child: None, left: false }
    }

    /// Is it more than a terminal shows, with a line for the prompt?
    fn is_long(&self) -> bool {
        let lines = self.waiting.iter().filter(|byte| **byte == b'\n').count();
        lines >= self.lines || self.waiting.len() > MOST_BYTES
    }

    /// Hands over what waits.
    fn pass_on(&mut self) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.waiting);
        let to = self.child.as_mut().and_then(|child| child.stdin.as_mut());
        match to {
            Some(pager) => match pager.write_all(&bytes) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.left = true,
                written => written?,
            },
            None => io::stdout().write_all(&bytes)?,
        }
        Ok(())
    }
}

impl Write for Paged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.left {
            return Ok(bytes.len());
        }
        self.waiting.extend_from_slice(bytes);
        if self.child.is_none() {
            if !self.is_long() {
                return Ok(bytes.len());
            }
            self.child = Some(self.pager.start()?);
        }
        self.pass_on()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Paged {
    fn drop(&mut self) {
        // A terminal that is gone is met by the next line that is read from it.
        let _ = self.pass_on().and_then(|()| io::stdout().flush());
        if let Some(mut child) = self.child.take() {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}
