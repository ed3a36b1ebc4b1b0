//! One-line messages to whoever runs the store. A message says what happened once, not that it goes
//! on happening; errors that a caller receives are not logged here as well.

use crate::sync::{Arc, Mutex};
use std::fmt;

/// How much a message matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Something failed and somebody should look.
    Error,
    /// Something is not as asked, and the store goes on.
    Warn,
    /// Something worth a line in normal operation.
    Info,
    /// Detail for those who look for a fault.
    Debug,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Error => "error",
            Level::Warn => "warning",
            Level::Info => "info",
            Level::Debug => "debug",
        })
    }
}

type Sink = dyn Fn(Level, &str) + Send + Sync;

/// Where messages go. Clones share it.
#[derive(Clone)]
pub struct Logger {
    sink: Arc<Sink>,
}

impl fmt::Debug for Logger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Logger")
    }
}

impl Logger {
    /// Messages go to `sink`, which must not log.
    pub fn new(sink: impl Fn(Level, &str) + Send + Sync + 'static) -> Logger {
        Logger { sink: Arc::new(sink) }
    }

    /// Messages of `least` importance and above go to standard error.
    pub fn stderr(least: Level) -> Logger {
        Logger::new(move |level, line| {
            if level <= least {
                eprintln!("rightlink: {level}: {line}");
            }
        })
    }

    /// Messages are dropped.
    pub fn silent() -> Logger {
        Logger::new(|_, _| {})
    }

    /// Messages are kept, for a test to look at.
    pub fn collecting() -> (Logger, Lines) {
        let lines = Lines::default();
        let theirs = lines.clone();
        let logger = Logger::new(move |level, line| theirs.push(level, line));
        (logger, lines)
    }

    /// Sends one line. Line breaks within become spaces, so that a message stays one line.
    pub fn log(&self, level: Level, line: &str) {
        if line.contains('\n') {
            (self.sink)(level, &line.replace('\n', " "));
        } else {
            (self.sink)(level, line);
        }
    }

    /// Sends a line of level error.
    pub fn error(&self, line: &str) {
        self.log(Level::Error, line);
    }

    /// Sends a line of level warning.
    pub fn warn(&self, line: &str) {
        self.log(Level::Warn, line);
    }

    /// Sends a line of level info.
    pub fn info(&self, line: &str) {
        self.log(Level::Info, line);
    }

    /// Sends a line of level debug.
    pub fn debug(&self, line: &str) {
        self.log(Level::Debug, line);
    }
}

/// The messages that a collecting logger has seen.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    lines: Arc<Mutex<Vec<(Level, String)>>>,
}

impl Lines {
    fn push(&self, level: Level, line: &str) {
        self.lines.lock().push((level, line.to_string()));
    }

    /// All messages so far, oldest first.
    pub fn all(&self) -> Vec<(Level, String)> {
        self.lines.lock().clone()
    }

    /// How many messages contain `text`.
    pub fn containing(&self, text: &str) -> usize {
        self.lines.lock().iter().filter(|(_, line)| line.contains(text)).count()
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn collects_one_line_per_message() {
        let (logger, lines) = Logger::collecting();
        logger.clone().warn("two\nlines");
        logger.debug("detail");
        let expected = [(Level::Warn, "two lines"), (Level::Debug, "detail")];
        let expected = expected.map(|(level, line)| (level, line.to_string()));
        assert_eq!(lines.all(), expected);
        assert_eq!(lines.containing("two"), 1);
        assert!(Level::Error < Level::Debug);
    }
}
