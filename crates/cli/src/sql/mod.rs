//! `sql`: statements from the command line, a file or a terminal.
//!
//! | file | hides |
//! |---|---|
//! | `shell` | lines to statements, commands that begin with a backslash |
//! | `terminal` | lines from somebody who types: editing, history, completion, Ctrl-C |
//! | `pager` | long results of somebody who types |
//! | `file_copy` | what `\copy` asks for |
//! | `sink` | results as table, CSV or JSON |
//!
//! Invariants: without a terminal the first error ends the command, and what its transaction did is
//! undone. Does not do: variables.

mod file_copy;
mod pager;
mod shell;
mod sink;
mod terminal;

use std::io::{self, IsTerminal};

use rightlink_sql::{Session, SqlError};

use crate::args::{Common, Format, SqlArgs};
use crate::failure::{Exit, Failure};
use crate::open;
use crate::output::Output;
use shell::{Place, Shell};

/// Runs statements.
pub(crate) fn run(common: &Common, args: &SqlArgs, output: &mut Output) -> Result<Exit, Failure> {
    let db = open::wanted(common, &args.db, args.create)?;
    let name = args.db.file_stem().map_or("rightlink".into(), |name| name.to_string_lossy());
    let format = if output.json() { Format::Json } else { args.format };
    let place = Place { name: name.into_owned(), directory: args.db.clone() };
    let mut shell = Shell::new(Session::new(&db).named(place.name.clone()), format, place);
    let exit = match (&args.command, &args.file) {
        (Some(sql), _) => shell
            .text(sql, output)
            .and_then(|()| shell.data(io::stdin().lock(), output))
            .map(|()| Exit::Done),
        (None, Some(path)) => {
            let name = path.display().to_string();
            let file = std::fs::OpenOptions::new()
                .read(true)
                .open(path)
                .map_err(|error| Failure::file(&name, &error))?;
            shell.lines(io::BufReader::new(file), output)
        }
        (None, None) => {
            let terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
            if terminal { shell.talk(output) } else { shell.lines(io::stdin().lock(), output) }
        }
    }?;
    drop(shell);
    db.close()?;
    Ok(exit)
}

/// The failure of a statement, with the exit code of its kind.
fn failure(error: &SqlError, sql: &str) -> Failure {
    let exit = match (error.sqlstate, &error.sqlstate[..2]) {
        ("XX001", _) => Exit::Damage,
        ("42P01" | "42703" | "42704" | "42883" | "3F000" | "26000" | "34000", _) => Exit::NotFound,
        ("42P07" | "42710" | "42P05", _) | (_, "40" | "55" | "57") => Exit::Conflict,
        (_, "22" | "23") => Exit::BadData,
        (_, "53" | "54" | "58") => Exit::Io,
        _ => Exit::Usage,
    };
    let mut text = format!("ERROR:  {}: {error}", error.sqlstate);
    if let Some(line) = error.position.and_then(|position| pointed(sql, position)) {
        text.push_str(&line);
    }
    Failure::new(exit, text).with("sqlstate", error.sqlstate)
}

/// The line of `sql` that an error is about, with a sign under the place.
fn pointed(sql: &str, position: usize) -> Option<String> {
    let chars: Vec<char> = sql.chars().collect();
    let at = position.checked_sub(1).filter(|at| *at < chars.len())?;
    let start = chars[..at].iter().rposition(|c| *c == '\n').map_or(0, |at| at + 1);
    let end = chars[at..].iter().position(|c| *c == '\n').map_or(chars.len(), |n| at + n);
    let number = chars[..at].iter().filter(|c| **c == '\n').count() + 1;
    let head = format!("LINE {number}: ");
    let line: String = chars[start..end].iter().collect();
    Some(format!("\n{head}{line}\n{}^", " ".repeat(head.len() + at - start)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_points_at_its_place() {
        let shown = pointed("select 1,\n  nosuch", 13);
        assert_eq!(shown.as_deref(), Some("\nLINE 2:   nosuch\n          ^"));
        assert_eq!(pointed("x", 9), None);
    }
}
