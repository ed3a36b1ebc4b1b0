//! What every experiment takes from the command line; `clap` reads it.
//!
//! Does not do: knobs (`knobs`).

use std::path::PathBuf;

use clap::{ArgMatches, Args as _, Command, FromArgMatches};

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// About a minute on two cores.
    Quick,
    /// About 45 minutes.
    Default,
    /// Everything, however long it takes.
    All,
}

impl Size {
    /// How long it will take, for the first line of a run.
    pub(crate) fn says(self) -> &'static str {
        match self {
            Size::Quick => "quick: about a minute on two cores",
            Size::Default => "default: about 45 minutes on two cores (--quick takes a minute)",
            Size::All => "all: hours",
        }
    }
}

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Args {
    pub(crate) size: Size,
    pub(crate) json: Option<PathBuf>,
    pub(crate) dir: PathBuf,
    /// Knobs given on the command line and their values.
    pub(crate) knobs: Vec<(String, Vec<String>)>,
}

/// The flags that all experiments have.
#[derive(Debug, clap::Args)]
struct Flags {
    /// Run the smallest matrix: about a minute on two cores
    #[arg(long, overrides_with = "all")]
    quick: bool,
    /// Run everything, however long it takes
    #[arg(long, overrides_with = "quick")]
    all: bool,
    /// Write one JSON object a cell to this file, and pictures beside it
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Put data into a directory of its own in this one
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    dir: PathBuf,
}

impl Args {
    /// Adds the flags of all experiments to the command of one.
    pub(crate) fn command(experiment: Command) -> Command {
        Flags::augment_args(experiment)
    }

    /// What `matches` of such a command say, with the knobs that they give.
    pub(crate) fn new(
        matches: &ArgMatches,
        knobs: Vec<(String, Vec<String>)>,
    ) -> Result<Args, clap::Error> {
        let flags = Flags::from_arg_matches(matches)?;
        let size = match (flags.quick, flags.all) {
            (true, _) => Size::Quick,
            (_, true) => Size::All,
            _ => Size::Default,
        };
        Ok(Args { size, json: flags.json, dir: flags.dir, knobs })
    }
}
