//! The project's own tools: `cargo xtask tidy` and `cargo xtask figures`.
//!
//! `tidy` exits with 1 and lists each place where a rule is broken; it also runs as a
//! test. `figures` prints sizes and densities beside those of other code-bases; it never fails.

mod broken;
mod complaint;
mod figures;
mod lexer;
mod paths;
mod rules;
mod source;
mod tidy;
mod tree;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, io};
use tree::Tree;

const USAGE: &str = "usage: cargo xtask tidy | figures [--json] [ROOT..]";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["tidy"] => tidy_command(),
        ["figures", rest @ ..] => figures_command(rest),
        _ => Err(io::Error::other(USAGE)),
    };
    done.unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::from(2)
    })
}

/// The root of the repository: cargo tells where this package lies.
pub(crate) fn root() -> PathBuf {
    let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let parent = package.as_deref().and_then(Path::parent);
    parent.map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

fn tidy_command() -> io::Result<ExitCode> {
    let tree = Tree::read(&root())?;
    let complaints = tidy::tidy(&tree);
    let mut out = io::stdout().lock();
    for complaint in &complaints {
        writeln!(out, "{complaint}")?;
    }
    writeln!(out, "tidy: {} files, {} complaints", tree.entries.len(), complaints.len())?;
    Ok(if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn figures_command(words: &[&str]) -> io::Result<ExitCode> {
    let (flags, roots): (Vec<&str>, Vec<&str>) = words.iter().partition(|w| w.starts_with("--"));
    if flags.iter().any(|flag| *flag != "--json") {
        return Err(io::Error::other(USAGE));
    }
    let mut rows = Vec::new();
    for root in &roots {
        rows.extend(figures::figures(&Tree::read(Path::new(root))?, root));
    }
    if roots.is_empty() {
        rows = figures::figures(&Tree::read(&root())?, "whole");
    }
    let text =
        if flags.is_empty() { figures::table::render(&rows) } else { figures::table::json(&rows) };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
