//! `rightlink-fuzz [--seconds N] [--target NAME] [--skip NAME] [--seed N] [--input FILE]`: runs
//! the fuzz targets, two at a time, on mutants of their seeds.
//!
//! Equal seeds give equal inputs. An input that fails is printed as hex and written to
//! `fuzz/artifacts/`; `--target NAME --input FILE` runs it again.
//! Does not do: guidance by coverage.
#![expect(clippy::print_stdout, reason = "a program for people")]

use std::process::ExitCode;
use std::time::Duration;

use rightlink_fuzz::driver::{self, Outcome};
use rightlink_fuzz::{TARGETS, Target};

/// Targets that run at the same time.
const TOGETHER: usize = 2;
/// What the program takes.
const USAGE: &str = "usage: rightlink-fuzz [--seconds N] [--target NAME] [--skip NAME] [--seed N] \
     [--input FILE]";
/// Where inputs that fail are written.
const ARTIFACTS: &str = "fuzz/artifacts";

struct Args {
    seconds: u64,
    seed: u64,
    targets: Vec<Target>,
    input: Option<String>,
}

fn main() -> ExitCode {
    let args = match parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(what) => {
            println!("{what}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let fine = match &args.input {
        Some(path) => again(&args.targets, path),
        None => {
            println!("seed {}, {} s for each target", args.seed, args.seconds);
            let settings = (args.seed, Duration::from_secs(args.seconds), TOGETHER);
            driver::drive(&args.targets, settings, &mut |outcome| show(outcome, args.seed))
        }
    };
    if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut args = Args { seconds: 30, seed: 1, targets: TARGETS.to_vec(), input: None };
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number = || value.parse().map_err(|_| format!("{word} {value} is no number"));
        match word.as_str() {
            "--seconds" => args.seconds = number()?,
            "--seed" => args.seed = number()?,
            "--target" => args.targets.retain(|target| target.name == value),
            "--skip" => args.targets.retain(|target| target.name != value),
            "--input" => args.input = Some(value),
            _ => return Err(format!("unknown option {word}")),
        }
    }
    if args.targets.is_empty() {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        return Err(format!("the targets are {}", names.join(", ")));
    }
    Ok(args)
}

/// Runs the input in a file.
fn again(targets: &[Target], path: &str) -> bool {
    let input = std::fs::read(path).expect("the file of --input can be read");
    targets.iter().all(|target| driver::once(*target, &input).is_ok())
}

fn show(outcome: &Outcome, seed: u64) {
    let Outcome { target, inputs, failed } = outcome;
    let Some((input, what)) = failed else {
        println!("{target}: {inputs} inputs, ok");
        return;
    };
    let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
    println!("{target}: FAILED with seed {seed}, input {inputs}: {what}\n{hex}");
    let path = format!("{ARTIFACTS}/{target}-{seed}-{inputs}");
    match std::fs::create_dir_all(ARTIFACTS).and_then(|()| std::fs::write(&path, input)) {
        Ok(()) => println!("written to {path}"),
        Err(error) => println!("not written to {path}: {error}"),
    }
}
