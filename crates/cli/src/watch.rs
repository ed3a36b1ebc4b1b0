//! `stat --watch`: what changed since the last look, again and again.
//!
//! Invariants: a figure that stands still is not shown; the database is closed when the reader has
//! seen enough.
//! Does not do: looking into another process.

use std::path::Path;
use std::time::Duration;

use rightlink::Stats;

use crate::args::Common;
use crate::failure::{Exit, Failure};
use crate::grid::Grid;
use crate::json::{Json, object};
use crate::open;
use crate::output::Output;
use crate::show::shown;

/// Shows changes every `seconds`, `count` times.
pub(crate) fn run(
    common: &Common,
    path: &Path,
    (seconds, count): (u32, Option<u64>),
    output: &mut Output,
) -> Result<Exit, Failure> {
    let db = open::existing(common, path)?;
    let mut before = Stats::default();
    let mut looks = 0;
    let watched = loop {
        let now = db.stats();
        if let Err(failure) = look(&before, &now, output).and_then(|()| output.flush()) {
            break Err(failure);
        }
        looks += 1;
        if count.is_some_and(|count| looks >= count) {
            break Ok(Exit::Done);
        }
        before = now;
        std::thread::sleep(Duration::from_secs(u64::from(seconds)));
    };
    db.close()?;
    watched
}

fn look(before: &Stats, now: &Stats, output: &mut Output) -> Result<(), Failure> {
    let was = |name: &str| before.get(name).unwrap_or(0);
    let changed: Vec<_> = now.figures.iter().filter(|(name, value)| was(name) != *value).collect();
    if output.json() {
        let fields = changed.iter().map(|(name, value)| {
            let change = *value as i64 - was(name) as i64;
            ((*name).to_owned(), object([("now", (*value).into()), ("change", change.into())]))
        });
        return output.line(Json::Object(fields.collect()));
    }
    let mut grid = Grid::new(["changed", ">now", ">by"]);
    for (name, value) in changed {
        let (more, less) = (value.saturating_sub(was(name)), was(name).saturating_sub(*value));
        let sign = if less > 0 { "-" } else { "+" };
        let by = format!("{sign}{}", shown(name, more.max(less)));
        grid.row(vec![(*name).to_owned(), shown(name, *value), by], output)?;
    }
    grid.finish(output)?;
    output.line("")
}
