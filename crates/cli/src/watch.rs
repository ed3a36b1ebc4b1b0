//! `stat --watch`: what changed since the last look, again and again.
//!
//! Invariants: a figure that stands still is not shown.
//! Does not do: ending by itself, unless it is told how often to look.

use std::time::Duration;

use rightlink::{Error, Stats};

use crate::failure::{Exit, Failure};
use crate::grid::Grid;
use crate::json::{Json, object};
use crate::output::Output;
use crate::show::shown;
use crate::work::Work;

/// Shows changes every `seconds`, `count` times.
pub(crate) fn run(
    work: &Work<'_>,
    seconds: u32,
    count: Option<u64>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let mut before = Stats::default();
    let mut looks = 0;
    loop {
        let now = work.db.stats();
        look(&before, &now, output).and_then(|()| output.flush())?;
        looks += 1;
        if count.is_some_and(|count| looks >= count) {
            return Ok(Exit::Done);
        }
        before = now;
        if !work.sleep(Duration::from_secs(u64::from(seconds))) {
            work.go_on()?;
            return Err(Error::Cancelled("the server stops".into()).into());
        }
    }
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
