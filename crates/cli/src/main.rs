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
mod remote;
mod rows;
mod scan;
mod schema;
mod serve;
mod show;
mod sql;
mod tour;
mod upkeep;
mod upkeep_commands;
mod watch;
mod work;

use std::process::ExitCode;

use clap::Parser;
use rightlink::Error;
use rightlink_env::sync::Arc;
use signal_hook::consts::SIGXFSZ;

use crate::args::{Args, Command, Common, Upkeep};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::work::Work;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return refuse(&error),
    };
    let json = args.common.json;
    survive_file_limit();
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

/// From now on a write beyond the limit of file sizes (`ulimit -f`) is an error, which the engine
/// treats as a full disk. The default action of the signal would end the process.
fn survive_file_limit() {
    // A handler, since to ignore a signal takes unsafe code. Where it cannot be installed, the
    // default action stays.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
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
        Command::Upkeep(command) => run_upkeep(&common, &command, output),
        Command::Restore { dir, db } => copies::restore(&common, &dir, &db, output),
        Command::Sql(args) => sql::run(&common, &args, output),
        Command::Serve(args) => serve::run(&common, args, output),
        Command::Password { name } => serve::password(&name, output),
        Command::Tour(args) => tour::run(&common, &args, output),
    }
}

/// Runs a command that looks after a database: here, or in the process of the server that has it
/// open.
fn run_upkeep(common: &Common, command: &Upkeep, output: &mut Output) -> Result<Exit, Failure> {
    if command.outlives_reader() {
        output.outlive_reader();
    }
    if let Upkeep::Verify { db, offline: true } = command {
        return upkeep::verify_offline(db, output);
    }
    let path = command.db();
    match open::options(common).create(false).open(path) {
        Ok(db) => {
            let exit = upkeep_commands::on(&Work::alone(&db), command, output)?;
            db.close()?;
            Ok(exit)
        }
        Err(error @ Error::Locked(_)) => remote::run(path, error, output),
        Err(error) => Err(open::at(path, error)),
    }
}
