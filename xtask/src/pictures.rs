//! `cargo xtask pictures`: draws the kept results of experiments again.
//!
//! The drawing is that of `rightlink-bench --draw`, which also draws at the end of a run.
//!
//! Invariants: a picture has the name of its JSON lines. Does not do: run experiments.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs, io};

use crate::root;

/// Where results are kept.
pub(crate) const RESULTS: &str = "bench/results";
/// Where their pictures are.
pub(crate) const TO: &str = "docs/threads";

/// Draws all JSON lines in the directory `results` into the directory `to`.
pub(crate) fn draw(results: &Path, to: &Path) -> io::Result<ExitCode> {
    let files = json_lines(results)?;
    if files.is_empty() {
        let what = format!("there are no JSON lines in {}", results.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, what));
    }
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["run", "--release", "--quiet", "--package", "rightlink-bench"]);
    // Paths stay relative to the caller's directory.
    command.arg("--manifest-path").arg(root().join("Cargo.toml"));
    let status = command.args(["--", "--to"]).arg(to).arg("--draw").args(&files).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The files of JSON lines in a directory, by name.
fn json_lines(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "json" || ending == "jsonl") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_lines_are_found_by_name() {
        let dir = env::temp_dir().join(format!("xtask-pictures-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        assert!(draw(&dir, &dir).is_err(), "there is nothing to draw");
        for name in ["b.jsonl", "a.json", "c.svg", "d.part", "README.md"] {
            fs::write(dir.join(name), "").unwrap();
        }
        assert_eq!(json_lines(&dir).unwrap(), [dir.join("a.json"), dir.join("b.jsonl")]);
        fs::remove_dir_all(dir).unwrap();
    }
}
