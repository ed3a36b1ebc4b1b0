//! The file that `load --reject` puts bad lines into: place, reason, and the fields as they were,
//! but with U+FFFD in place of what is no UTF-8.
//!
//! Invariants: the file is new; what was rejected is handed to the system before the batch beside
//! it is committed.
//! Does not do: deciding what is bad.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::csv::to_line;
use crate::csv_file::Place;
use crate::failure::Failure;

/// Columns before those of the input.
const HEADER: [&str; 3] = ["rejected_file", "rejected_line", "rejected_reason"];

/// Where bad lines go.
pub(crate) struct Rejects {
    name: String,
    file: BufWriter<Box<dyn Write>>,
    /// How many there are.
    pub(crate) count: u64,
}

impl Rejects {
    /// Makes the file, which must be new, for input with this header.
    pub(crate) fn create(path: &Path, header: &[String]) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        let file = file.map_err(|error| Failure::file(&name, &error))?;
        let file = BufWriter::new(Box::new(file) as Box<dyn Write>);
        let mut this = Self { name, file, count: 0 };
        let columns = HEADER.into_iter().map(str::to_owned).chain(header.iter().cloned());
        this.line(&to_line(columns))?;
        Ok(this)
    }

    /// Adds a line.
    pub(crate) fn add(
        &mut self,
        fields: &[String],
        place: &Place,
        reason: &str,
    ) -> Result<(), Failure> {
        let about = [place.file.to_string(), place.line.to_string(), reason.to_owned()];
        self.line(&to_line(about.into_iter().chain(fields.iter().cloned())))?;
        self.count += 1;
        Ok(())
    }

    /// Hands what was added to the system.
    pub(crate) fn settle(&mut self) -> Result<(), Failure> {
        self.file.flush().map_err(|error| Failure::file(&self.name, &error))
    }

    fn line(&mut self, text: &str) -> Result<(), Failure> {
        writeln!(self.file, "{text}").map_err(|error| Failure::file(&self.name, &error))
    }
}
