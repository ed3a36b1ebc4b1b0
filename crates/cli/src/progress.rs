//! A progress bar of one line on a terminal: share, rows, rows per second, time left.
//!
//! Invariants: drawn on standard error, at most ten times a second, only if that is a terminal; the
//! line is gone before anything else is printed. Does not do: threads.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use rightlink_server::Channel;

use crate::clock::Stopwatch;
use crate::figures::{count, duration, rate};
use crate::output::{Bar, Output};

const WIDTH: usize = 24;
const PAUSE: Duration = Duration::from_millis(100);

/// A bar that may be drawn.
pub(crate) struct Progress {
    bar: Bar,
    total: Option<u64>,
    since: Stopwatch,
    last: Option<Stopwatch>,
}

impl Progress {
    /// A bar for `total` bytes of input, if that is known; silent unless `wanted` and on a
    /// terminal.
    pub(crate) fn start(total: Option<u64>, wanted: bool) -> Self {
        let shown = wanted && std::io::stderr().is_terminal();
        let bar = if shown { Bar::Terminal } else { Bar::Nowhere };
        Self { bar, total, since: Stopwatch::start(), last: None }
    }

    /// `bytes` are read and `rows` committed.
    pub(crate) fn update(&mut self, bytes: u64, rows: u64) {
        if self.is_due() {
            self.draw(&line(bytes, self.total, rows, self.since.elapsed()));
        }
    }

    /// A bar for pages, of which it is known later on how many there are, where the reader of
    /// `output` sees it.
    pub(crate) fn of_pages(output: &Output) -> Self {
        Self { bar: output.bar(), total: None, since: Stopwatch::start(), last: None }
    }

    /// Is it shown, and time to show it again?
    fn is_due(&mut self) -> bool {
        let early = self.last.is_some_and(|last| last.elapsed() < PAUSE);
        if matches!(self.bar, Bar::Nowhere) || early {
            return false;
        }
        self.last = Some(Stopwatch::start());
        true
    }

    /// `pages` of `total` are done.
    pub(crate) fn update_pages(&mut self, pages: u64, total: u64) {
        if self.is_due() {
            let share = pages as f64 / total.max(1) as f64 * 100.0;
            self.draw(&format!("{share:3.0} %  {} of {} pages", count(pages), count(total)));
        }
    }

    /// Removes the line.
    pub(crate) fn clear(&mut self) {
        if self.last.is_some() {
            self.draw("");
        }
    }

    /// Time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    fn draw(&self, text: &str) {
        match &self.bar {
            Bar::Nowhere => {}
            Bar::Terminal => draw(text),
            // A client that is gone is no reason to stop the work; its command ends otherwise.
            Bar::Client(call) => drop(call.send(Channel::Progress, text.as_bytes())),
        }
    }
}

/// Puts `text` in place of the line on standard error.
pub(crate) fn draw(text: &str) {
    let mut stderr = std::io::stderr().lock();
    // A bar that cannot be drawn is no reason to stop the work.
    let _ = write!(stderr, "\r\x1b[K{text}").and_then(|()| stderr.flush());
}

fn line(bytes: u64, total: Option<u64>, rows: u64, time: Duration) -> String {
    let speed = format!("{} rows, {} rows/s", count(rows), count(rate(rows, time)));
    let Some(total) = total.filter(|total| *total > 0) else { return speed };
    let share = (bytes as f64 / total as f64).clamp(0.0, 1.0);
    let full = (share * WIDTH as f64) as usize;
    let bar = format!("{}{}", "█".repeat(full), "░".repeat(WIDTH - full));
    let left = if share > 0.0 { time.mul_f64((1.0 - share) / share) } else { Duration::ZERO };
    format!("{bar} {:3.0} %  {speed}, {} left", share * 100.0, duration(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_share_speed_and_time_left() {
        let text = line(250, Some(1000), 5000, Duration::from_secs(2));
        assert!(text.starts_with("██████░░"), "{text}");
        assert!(text.ends_with(" 25 %  5,000 rows, 2,500 rows/s, 6.0 s left"), "{text}");
    }

    #[test]
    fn without_a_total_there_is_no_bar() {
        assert_eq!(line(9, None, 10, Duration::from_secs(1)), "10 rows, 10 rows/s");
        assert_eq!(line(0, Some(0), 0, Duration::ZERO), "0 rows, 0 rows/s");
    }

    #[test]
    fn nothing_divides_by_zero() {
        assert!(line(0, Some(10), 0, Duration::ZERO).contains("  0 %"));
        assert!(line(20, Some(10), 1, Duration::from_secs(1)).contains("100 %"));
    }
}
