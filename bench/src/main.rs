//! Experiments on Rightlink: `rightlink-bench NAME [--quick|--all] [--KNOB v,v...] [--json FILE]`.
//! All experiments that answer a thread: `rightlink-bench --thread NUMBER [--quick]`.
//! Pictures from JSON lines: `rightlink-bench --draw FILE.. [--to DIR]`.
//!
//! | file | hides |
//! |---|---|
//! | `knobs` | which cells are run: matrices, and the flags that narrow them |
//! | `report`, `stats` | a table for people, JSON lines for machines; medians |
//! | `cpu`, `count` | time of the thread itself; bytes that were allocated |
//! | `device` | what the bare device reaches before and after |
//! | `load`, `descent`, `dead_rows`, `hot_update` | an experiment each |
//! | `insert_prefetch`, `index_scan`, `limit_sweep` | an experiment each |
//! | `beside_writes`, `memory`, `online_index`, `row_order` | an experiment each |
//! | `first_build` | from `cargo add` to a program that runs |
//! | `page_cache` | empties the kernel's page cache of a database's files |
//! | `methods` | worker threads against io_uring |
//! | `draw`, `svg` | pictures from JSON lines; what every picture begins and ends with |
//! | `threads` | the experiments that answer a thread of `docs/threads` |
//!
//! Invariants: an experiment uses only the public names of `rightlink`; its data lies in a
//! directory of its own that is removed at the end.
//! Does not do: judging figures; they are only as good as the machine was idle, so the load average
//! is printed beside them.

mod args;
mod beside_writes;
mod count;
mod cpu;
mod dead_rows;
mod descent;
mod device;
mod draw;
mod first_build;
mod hot_update;
mod index_scan;
mod insert_prefetch;
mod knobs;
mod limit_sweep;
mod load;
mod memory;
mod methods;
mod online_index;
mod page_cache;
mod report;
mod row_order;
mod scratch;
mod stats;
mod svg;
mod threads;
mod vacuum;

use std::path::Path;
use std::process::ExitCode;

use clap::{ArgMatches, Command};

use crate::args::Args;
use crate::knobs::Knob;
use crate::report::Report;
use crate::scratch::Scratch;

/// Anything that ends a run.
type Failure = Box<dyn std::error::Error>;

/// An experiment as the command knows it.
struct Experiment {
    name: &'static str,
    about: &'static str,
    knobs: &'static [Knob],
    run: fn(&Args, &Scratch, &mut Report) -> Result<(), Failure>,
}

const EXPERIMENTS: &[Experiment] = &[
    Experiment { name: load::NAME, about: load::ABOUT, knobs: load::KNOBS, run: load::run },
    Experiment { name: memory::NAME, about: memory::ABOUT, knobs: memory::KNOBS, run: memory::run },
    Experiment {
        name: descent::NAME,
        about: descent::ABOUT,
        knobs: descent::KNOBS,
        run: descent::run,
    },
    Experiment {
        name: insert_prefetch::NAME,
        about: insert_prefetch::ABOUT,
        knobs: insert_prefetch::KNOBS,
        run: insert_prefetch::run,
    },
    Experiment {
        name: index_scan::NAME,
        about: index_scan::ABOUT,
        knobs: index_scan::KNOBS,
        run: index_scan::run,
    },
    Experiment {
        name: row_order::NAME,
        about: row_order::ABOUT,
        knobs: row_order::KNOBS,
        run: row_order::run,
    },
    Experiment {
        name: limit_sweep::NAME,
        about: limit_sweep::ABOUT,
        knobs: limit_sweep::KNOBS,
        run: limit_sweep::run,
    },
    Experiment {
        name: beside_writes::NAME,
        about: beside_writes::ABOUT,
        knobs: beside_writes::KNOBS,
        run: beside_writes::run,
    },
    Experiment {
        name: online_index::NAME,
        about: online_index::ABOUT,
        knobs: online_index::KNOBS,
        run: online_index::run,
    },
    Experiment {
        name: dead_rows::NAME,
        about: dead_rows::ABOUT,
        knobs: dead_rows::KNOBS,
        run: dead_rows::run,
    },
    Experiment { name: vacuum::NAME, about: vacuum::ABOUT, knobs: vacuum::KNOBS, run: vacuum::run },
    Experiment {
        name: hot_update::NAME,
        about: hot_update::ABOUT,
        knobs: hot_update::KNOBS,
        run: hot_update::run,
    },
    Experiment {
        name: first_build::NAME,
        about: first_build::ABOUT,
        knobs: first_build::KNOBS,
        run: first_build::run,
    },
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let result = match words.split_first() {
        Some((first, rest)) if first == load::CHILD => load::child::run(rest),
        Some((first, rest)) if first == memory::CHILD => memory::child::run(rest),
        _ => experiments(&command().get_matches()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("rightlink-bench: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// The command line: a subcommand for each experiment, a flag for each of its knobs.
fn command() -> Command {
    let experiments = EXPERIMENTS.iter().map(|experiment| {
        // The flags that are added would replace a description given before.
        Args::command(Command::new(experiment.name))
            .about(experiment.about)
            .args(experiment.knobs.iter().map(Knob::flag))
    });
    Command::new("rightlink-bench")
        .about("Experiments on Rightlink")
        .arg_required_else_help(true)
        .args(threads::flags())
        .args(draw::flags())
        .args_conflicts_with_subcommands(true)
        .disable_help_subcommand(true)
        .subcommand_value_name("NAME")
        .subcommand_help_heading("Experiments")
        .subcommands(experiments)
}

/// Runs an experiment, or the experiments of a thread.
fn experiments(matches: &ArgMatches) -> Result<(), Failure> {
    let of_thread = |line: &[String]| {
        let line = ["rightlink-bench".to_string()].into_iter().chain(line.iter().cloned());
        experiment(&command().try_get_matches_from(line)?)
    };
    if threads::run(matches, of_thread)? || draw::run(matches)? {
        return Ok(());
    }
    experiment(matches)
}

fn experiment(matches: &ArgMatches) -> Result<(), Failure> {
    let (name, matches) =
        matches.subcommand().ok_or("name an experiment, a --thread, or files to --draw")?;
    let known = EXPERIMENTS.iter().find(|experiment| experiment.name == name);
    let experiment = known.expect("the command line has no other");
    let args = Args::new(matches, knobs::given(experiment.knobs, matches))?;
    let scratch = Scratch::create(&args.dir)?;
    let mut report = Report::new(args.json.clone());
    report::say(&format!("{name}: {}; {}", experiment.about, args.size.says()));
    report::say(&device::probe(scratch.path(), "before")?);
    (experiment.run)(&args, &scratch, &mut report)?;
    // A run without cells writes no lines.
    if let Some(json) = args.json.as_deref().filter(|json| json.exists()) {
        draw::draw(json, json.parent().unwrap_or(Path::new("")))?;
    }
    report::say(&device::probe(scratch.path(), "after")?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Size;

    fn read(words: &str) -> Result<Args, clap::Error> {
        let words = ["rightlink-bench"].into_iter().chain(words.split(' '));
        let matches = command().try_get_matches_from(words)?;
        let (_, matches) = matches.subcommand().expect("an experiment");
        Args::new(matches, knobs::given(load::KNOBS, matches))
    }

    #[test]
    fn flags_and_knobs_are_told_apart() {
        command().debug_assert();
        let args = read("load --quick --indexes 0,5 --json out").unwrap();
        assert_eq!(args.size, Size::Quick);
        assert_eq!(args.json, Some("out".into()));
        assert_eq!(args.knobs, [("indexes".to_string(), vec!["0".to_string(), "5".to_string()])]);
        assert_eq!(read("load --quick --all").unwrap().size, Size::All, "the last one counts");
        assert!(read("load quick").is_err() && read("load --json").is_err());
    }

    #[test]
    fn help_describes_experiments() {
        let help = command().render_help().to_string();
        for experiment in EXPERIMENTS {
            assert!(help.contains(experiment.about), "{help}");
        }
    }
}
