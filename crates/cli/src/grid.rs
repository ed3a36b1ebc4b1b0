//! Aligned columns for people.
//!
//! Invariants: rows beyond the first `BUFFERED`, or `BUFFERED_BYTES` of them, are streamed with the
//! widths found so far, so any number of rows is printed in bounded memory; a row is always one
//! line; a long value widens no other row.
//! Does not do: wrapping.

use unicode_width::UnicodeWidthStr;

use crate::failure::Failure;
use crate::output::Output;

/// Rows that decide the widths.
const BUFFERED: usize = 200;

/// Bytes of rows after which no more rows decide.
const BUFFERED_BYTES: usize = 1 << 20;
/// Widest that a column gets. A longer value is printed whole, and what follows it moves on.
const WIDEST: usize = 200;

/// A table being printed.
pub(crate) struct Grid {
    heads: Vec<String>,
    right: Vec<bool>,
    widths: Vec<usize>,
    waiting: Vec<Vec<String>>,
    waiting_bytes: usize,
    started: bool,
}

impl Grid {
    /// A table with these heads; those that begin with `>` are columns aligned to the right.
    pub(crate) fn new<'a>(heads: impl IntoIterator<Item = &'a str>) -> Self {
        let marked: Vec<&str> = heads.into_iter().collect();
        let right = marked.iter().map(|head| head.starts_with('>')).collect();
        Self::with(marked.iter().map(|head| head.trim_start_matches('>').to_owned()), right)
    }

    /// A table with these heads, and for each whether it is aligned to the right.
    pub(crate) fn with(heads: impl IntoIterator<Item = String>, right: Vec<bool>) -> Self {
        let heads: Vec<String> = heads.into_iter().map(|head| one_line(&head)).collect();
        assert_eq!(heads.len(), right.len(), "every column has an alignment");
        let widths = heads.iter().map(|head| head.width()).collect();
        Self { heads, right, widths, waiting: Vec::new(), waiting_bytes: 0, started: false }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<String>, output: &mut Output) -> Result<(), Failure> {
        assert_eq!(cells.len(), self.heads.len(), "a row has a cell for every column");
        let cells: Vec<String> = cells.iter().map(|cell| one_line(cell)).collect();
        if self.started {
            return output.line(self.format(&cells));
        }
        for (width, cell) in self.widths.iter_mut().zip(&cells) {
            *width = (*width).max(cell.width().min(WIDEST));
        }
        self.waiting_bytes += cells.iter().map(String::len).sum::<usize>();
        self.waiting.push(cells);
        let full = self.waiting.len() == BUFFERED || self.waiting_bytes >= BUFFERED_BYTES;
        if full { self.begin(output) } else { Ok(()) }
    }

    /// Prints what is still waiting.
    pub(crate) fn finish(mut self, output: &mut Output) -> Result<(), Failure> {
        if self.started { Ok(()) } else { self.begin(output) }
    }

    fn begin(&mut self, output: &mut Output) -> Result<(), Failure> {
        self.started = true;
        output.line(self.format(&self.heads))?;
        let rule: Vec<String> = self.widths.iter().map(|width| "-".repeat(*width)).collect();
        output.line(rule.join("--"))?;
        for cells in std::mem::take(&mut self.waiting) {
            output.line(self.format(&cells))?;
        }
        Ok(())
    }

    fn format(&self, cells: &[String]) -> String {
        let mut line = String::new();
        for (position, cell) in cells.iter().enumerate() {
            line.push_str(if position > 0 { "  " } else { "" });
            let blanks = " ".repeat(self.widths[position].saturating_sub(cell.width()));
            if self.right[position] {
                line.push_str(&blanks);
                line.push_str(cell);
            } else {
                line.push_str(cell);
                line.push_str(&blanks);
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// Control characters, line breaks among them, become their escapes.
pub(crate) fn one_line(text: &str) -> String {
    if !text.contains(char::is_control) {
        return text.to_owned();
    }
    text.chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_not_padded() {
        let mut grid = Grid::new([">n", "name", "x"]);
        grid.widths = vec![3, 5, 1];
        let cells = ["1".to_owned(), "ab".to_owned(), String::new()];
        assert_eq!(grid.format(&cells), "  1  ab");
        assert_eq!(grid.format(&grid.heads), "  n  name   x");
        let wide = ["1".to_owned(), "日本".to_owned(), "x".to_owned()];
        assert_eq!(grid.format(&wide), "  1  日本   x", "two columns a character");
        let accent = ["1".to_owned(), "e\u{301}".to_owned(), "x".to_owned()];
        assert_eq!(grid.format(&accent), "  1  e\u{301}      x", "no column of its own");
    }

    #[test]
    fn a_row_is_one_line() {
        assert_eq!(one_line("a\nb\x1b[0m"), "a\\nb\\u{1b}[0m");
        assert_eq!(one_line("é"), "é");
    }
}
