//! The `rightlink` command: loads, queries, inspects and checks a database from a shell.
//!
//! Invariants: results go to standard output, messages to standard error; every way to end has its
//! documented exit code; a reader that closes the pipe early is no error, and stops no load.
//! Does not do: anything that the engine's public names do not offer.

mod args;
mod bloat;
mod clauses;
mod clock;
mod copies;
mod csv;
mod csv_file;
mod export;
mod failure;
mod figures;
mod grid;
mod infer;
mod inspect;
mod json;
mod load;
mod names;
mod open;
mod output;
mod progress;
mod random;
mod reject;
mod rows;
mod scan;
mod schema;
mod serve;
mod show;
mod sql;
mod tour;
mod upkeep;
mod watch;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};
use crate::failure::{Exit, Failure};
use crate::output::Output;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return refuse(&error),
    };
    let json = args.common.json;
    let mut output = Output::stdout(json);
    let result = run(args, &mut output).and_then(|exit| output.finish().map(|()| exit));
    match result {
        Ok(exit) => exit.into(),
        Err(failure) => {
            failure.print(json);
            failure.exit.into()
        }
    }
}

/// Help and version are no errors; everything else is wrong usage.
fn refuse(error: &clap::Error) -> ExitCode {
    let exit = if error.use_stderr() { Exit::Usage } else { Exit::Done };
    if exit == Exit::Usage && std::env::args_os().any(|arg| arg == "--json") {
        usage_failure(&error.to_string()).print(true);
        return exit.into();
    }
    // There is nobody left to tell when even this cannot be printed.
    let _ = error.print();
    exit.into()
}

/// What is wrong in one sentence, and how it should look, for programs.
fn usage_failure(text: &str) -> Failure {
    let line = |paragraph: &str| paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut paragraphs = text.split("\n\n");
    let what = line(paragraphs.next().unwrap_or_default());
    let failure = Failure::usage(what.strip_prefix("error: ").unwrap_or(&what));
    match paragraphs.map(line).find(|paragraph| paragraph.starts_with("Usage: ")) {
        Some(usage) => failure.with("usage", usage["Usage: ".len()..].to_owned()),
        None => failure,
    }
}

fn run(args: Args, output: &mut Output) -> Result<Exit, Failure> {
    let common = args.common;
    match args.command {
        Command::Load(args) => load::run(&common, &args, output),
        Command::Scan(args) => scan::scan(&common, &args, output),
        Command::Export(args) => export::run(&common, &args, output),
        Command::Get(args) => scan::get(&common, &args, output),
        Command::Tables { db } => show::tables(&common, &db, output),
        Command::Describe { db, table } => show::describe(&common, &db, &table, output),
        Command::Stat { db, watch: Some(seconds), count, .. } => {
            watch::run(&common, &db, (seconds, count), output)
        }
        Command::Stat { db, bloat: true, .. } => bloat::run(&common, &db, output),
        Command::Stat { db, .. } => show::stat(&common, &db, output),
        Command::Inspect { db, relation, block } => {
            inspect::run(&common, &db, (&relation, block), output)
        }
        Command::Verify { db, offline } => upkeep::verify(&common, &db, offline, output),
        Command::Vacuum { db, table } => upkeep::vacuum(&common, &db, table.as_deref(), output),
        Command::Checkpoint { db } => upkeep::checkpoint(&common, &db, output),
        Command::Reindex { db, table, index } => {
            upkeep::reindex(&common, &db, (&table, index.as_deref()), output)
        }
        Command::Backup { db, dir, rate } => copies::backup(&common, (&db, &dir), rate, output),
        Command::Restore { dir, db } => copies::restore(&common, &dir, &db, output),
        Command::Sql(args) => sql::run(&common, &args, output),
        Command::Serve(args) => serve::run(&common, args, output),
        Command::Password { name } => serve::password(&name, output),
        Command::Tour(args) => tour::run(&common, &args, output),
    }
}
