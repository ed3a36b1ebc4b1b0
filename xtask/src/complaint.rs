//! What a check or a figure finds: a place and what is wrong there.

use std::fmt;

/// One broken rule at one place.
pub(crate) struct Complaint {
    pub(crate) path: String,
    /// 0 if the whole file is meant.
    pub(crate) line: usize,
    pub(crate) text: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(out, "{}: {}", self.path, self.text),
            line => write!(out, "{}:{line}: {}", self.path, self.text),
        }
    }
}

/// Collects what one check or figure finds.
#[derive(Default)]
pub(crate) struct Complaints(pub(crate) Vec<Complaint>);

impl Complaints {
    pub(crate) fn add(&mut self, path: &str, line: usize, text: impl Into<String>) {
        let text = text.into();
        assert!(!path.is_empty() && !text.is_empty(), "a complaint names its place and cause");
        self.0.push(Complaint { path: path.to_string(), line, text });
    }
}
