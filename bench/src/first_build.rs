//! Experiment `first-build`: how long a newcomer waits between `cargo add rightlink` and a program
//! that runs.
//!
//! Packs the engine and the crates below it as they would be published, unpacks them, makes an
//! empty crate, adds the engine to it, puts the example of the engine's README in, and times
//! `cargo build` from an empty target directory. Dependencies are downloaded before the clock
//! starts. The program is run afterwards and must print the two rows that the README expects.
//!
//! Invariants: nothing of the workspace's own build is used, so the unpacked crates build alone.
//! Does not do: the time of the download, which is the network's.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rightlink_env::Clock;

use crate::Failure;
use crate::args::Args;
use crate::device;
use crate::knobs::{self, Cell, Knob};
use crate::report::{Field, Report};
use crate::scratch::Scratch;

pub(crate) const NAME: &str = "first-build";
pub(crate) const ABOUT: &str = "time from `cargo add rightlink` to a program that runs";

/// `features` are those of the engine, separated by `+`.
pub(crate) const KNOBS: &[Knob] = &[
    Knob {
        name: "profile",
        quick: &["dev"],
        default: &["dev", "release"],
        all: &["dev", "release"],
    },
    Knob {
        name: "features",
        quick: &["none"],
        default: &["none", "derive+icu"],
        all: &["none", "derive", "icu", "derive+icu+tracing"],
    },
];

/// The engine, and the crates that it stands on.
const ENGINE: &str = "rightlink";
const BELOW: [&str; 4] = ["rightlink-env", "rightlink-aio", "rightlink-radix", "rightlink-derive"];

/// What the README's example prints: the two flights of one aircraft, the longest delay first.
const EXPECTED: usize = 2;

/// Runs every cell.
pub(crate) fn run(args: &Args, scratch: &Scratch, report: &mut Report) -> Result<(), Failure> {
    let packages = unpack(scratch.path())?;
    for (number, cell) in knobs::matrix(KNOBS, args.size, &args.knobs).iter().enumerate() {
        let home = scratch.path().join(format!("app-{number}"));
        make_crate(&home, &packages, &cell.get::<String>("features")?)?;
        measure(&home, cell, report)?;
    }
    Ok(())
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Packs the crates and unpacks them below `scratch`; gives the folder that holds them.
fn unpack(scratch: &Path) -> Result<PathBuf, Failure> {
    let (packed, packages) = (scratch.join("packed"), scratch.join("packages"));
    let mut cargo = cargo(&workspace(), &packed);
    cargo.args(["package", "--no-verify", "--allow-dirty", "--quiet", "-p", ENGINE]);
    finish(cargo.args(BELOW.iter().flat_map(|name| ["-p", name])))?;
    std::fs::create_dir(&packages)?;
    for entry in std::fs::read_dir(packed.join("package"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "crate") {
            finish(Command::new("tar").arg("-xzf").arg(&path).arg("-C").arg(&packages))?;
        }
    }
    Ok(packages)
}

/// An empty crate at `home` with the engine added and the README's example as its program.
fn make_crate(home: &Path, packages: &Path, features: &str) -> Result<(), Failure> {
    let target = home.join("target");
    std::fs::create_dir(home)?;
    finish(cargo(home, &target).args(["init", "--quiet", "--vcs", "none", "--name", "app"]))?;
    let version = env!("CARGO_PKG_VERSION");
    let at = |name: &str| packages.join(format!("{name}-{version}"));
    // The crates below are named by version in the engine's manifest; here they are the unpacked.
    let mut manifest = std::fs::read_to_string(home.join("Cargo.toml"))?;
    manifest += "\n[patch.crates-io]\n";
    for name in BELOW {
        manifest += &format!("{name} = {{ path = {:?} }}\n", at(name));
    }
    std::fs::write(home.join("Cargo.toml"), manifest)?;
    let mut add = cargo(home, &target);
    add.args(["add", "--quiet", "--path"]).arg(at(ENGINE));
    if features != "none" {
        add.args(["--features", &features.replace('+', ",")]);
    }
    finish(&mut add)?;
    let readme = std::fs::read_to_string(at(ENGINE).join("README.md"))?;
    let example = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    std::fs::write(home.join("src/main.rs"), example.ok_or("the README has no example")?)?;
    finish(cargo(home, &target).args(["fetch", "--quiet"]))
}

fn measure(home: &Path, cell: &Cell, report: &mut Report) -> Result<(), Failure> {
    let (profile, features): (String, String) = (cell.get("profile")?, cell.get("features")?);
    let target = home.join("target");
    let clock = Clock::system();
    let start = clock.now();
    let mut build = cargo(home, &target);
    finish(build.args(["build", "--quiet", "--offline", "--profile", &profile]))?;
    let seconds = clock.now().since(start).as_secs_f64();
    let mut program = cargo(home, &target);
    program.args(["run", "--quiet", "--offline", "--profile", &profile]);
    let printed = program.output()?;
    let lines = printed.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
    if !printed.status.success() || lines != EXPECTED {
        let text = String::from_utf8_lossy(&printed.stderr);
        return Err(format!("the example printed {lines} lines: {text}").into());
    }
    let tree = cargo(home, &target).args(["tree", "--prefix", "none", "--offline"]).output()?;
    let tree = String::from_utf8_lossy(&tree.stdout).into_owned();
    let crates: std::collections::BTreeSet<&str> = tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|name| !name.is_empty())
        .collect();
    // The program itself is in the tree, too.
    let crates = crates.len() as u64 - 1;
    let json = [
        ("experiment", Field::Text(NAME.into())),
        ("profile", Field::Text(profile.clone())),
        ("features", Field::Text(features.clone())),
        ("seconds", Field::Float(seconds)),
        ("crates", Field::Int(crates)),
    ];
    let table = [
        ("profile", Field::Text(profile)),
        ("features", Field::Text(features)),
        ("crates", Field::Int(crates)),
        ("seconds", Field::Float(seconds)),
        ("load avg", Field::Text(device::load_average())),
    ];
    Ok(report.cell(&json, &table)?)
}

/// Cargo in `folder`, apart from the settings of the cargo that runs this program.
fn cargo(folder: &Path, target: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(folder).env("CARGO_TARGET_DIR", target).env_remove("RUSTFLAGS");
    command.stdin(Stdio::null());
    command
}

fn finish(command: &mut Command) -> Result<(), Failure> {
    match command.status()? {
        status if status.success() => Ok(()),
        status => Err(format!("{command:?} ended with {status}").into()),
    }
}
