//! The project's own tools: `cargo xtask tidy`, `cargo xtask figures`, `cargo xtask pictures`.
//!
//! `tidy [ROOT]` exits with 1 and lists each place where a rule is broken; it also runs as a test.
//! `figures` prints sizes and densities beside those of other code-bases, and figures that may only
//! fall beside the numbers they may have. `--update` lowers these numbers, `--list NAME` names the
//! places of one figure. `pictures` draws the pictures of docs/threads from bench/results.

mod broken;
mod complaint;
mod figures;
mod lexer;
mod measures;
mod paths;
mod pictures;
mod prose;
mod ratchets;
mod rules;
mod signatures;
mod source;
mod submodules;
mod tidy;
mod tree;
mod user_documents;

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};
use tree::Tree;

const USAGE: &str = "usage: cargo xtask tidy [ROOT]
       cargo xtask figures [--json] [ROOT..]
       cargo xtask figures --list NAME [ROOT]
       cargo xtask figures --update
       cargo xtask pictures [RESULTS [TO]]";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["tidy"] => tidy_command(&root()),
        ["tidy", root] => tidy_command(Path::new(root)),
        ["pictures"] => pictures::draw(&root().join(pictures::RESULTS), &root().join(pictures::TO)),
        ["pictures", results] => pictures::draw(Path::new(results), &root().join(pictures::TO)),
        ["pictures", results, to] => pictures::draw(Path::new(results), Path::new(to)),
        ["figures", "--update"] => update_command(),
        ["figures", "--list", name] => list_command(name, &root()),
        ["figures", "--list", name, root] => list_command(name, Path::new(root)),
        ["figures", "--json", roots @ ..] => figures_command(roots, true),
        ["figures", roots @ ..] => figures_command(roots, false),
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

fn tidy_command(root: &Path) -> io::Result<ExitCode> {
    let tree = Tree::read(root)?;
    let complaints = tidy::tidy(&tree);
    let mut out = io::stdout().lock();
    for complaint in &complaints {
        writeln!(out, "{complaint}")?;
    }
    let lower = ratchets::to_lower(&ratchets::rows(&tree));
    if lower > 0 {
        writeln!(out, "{lower} ratchets can be lowered: `cargo xtask figures --update`")?;
    }
    writeln!(out, "tidy: {} files, {} complaints", tree.entries.len(), complaints.len())?;
    Ok(if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn figures_command(roots: &[&str], as_json: bool) -> io::Result<ExitCode> {
    if roots.iter().any(|root| root.starts_with("--")) {
        return Err(io::Error::other(USAGE));
    }
    let mut rows = Vec::new();
    let mut ratchets = String::new();
    let whole = [(root(), "whole")];
    let named: Vec<(PathBuf, &str)> =
        roots.iter().map(|root| (PathBuf::from(root), *root)).collect();
    for (root, name) in if roots.is_empty() { &whole[..] } else { &named[..] } {
        let tree = Tree::read(root)?;
        rows.extend(figures::figures(&tree, name));
        if tree.texts.contains_key("xtask/Cargo.toml") {
            let taken = ratchets::rows(&tree);
            let text = if as_json { ratchets::json(&taken) } else { ratchets::render(&taken) };
            let space = if as_json { "" } else { "\n" };
            write!(ratchets, "{space}{text}").expect("a String takes everything");
        }
    }
    let text = if as_json { figures::table::json(&rows) } else { figures::table::render(&rows) };
    io::stdout().lock().write_all((text + &ratchets).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn list_command(name: &str, root: &Path) -> io::Result<ExitCode> {
    let Some(measure) = measures::MEASURES.iter().find(|measure| measure.name == name) else {
        return Err(io::Error::other(format!("there is no figure {name}\n{USAGE}")));
    };
    let measured = (measure.take)(&Tree::read(root)?);
    let mut out = io::stdout().lock();
    for place in &measured.places.0 {
        writeln!(out, "{place}")?;
    }
    writeln!(out, "{name}: {} ({})", measured.value, measure.about)?;
    Ok(ExitCode::SUCCESS)
}

/// Fails if a figure is above its number: an update does not raise it.
fn update_command() -> io::Result<ExitCode> {
    let rows = ratchets::rows(&Tree::read(&root())?);
    fs::write(root().join(ratchets::FILE), ratchets::update(&rows))?;
    io::stdout().lock().write_all(ratchets::render(&rows).as_bytes())?;
    let above = rows.iter().any(|row| row.number.is_some() && row.is_above());
    Ok(if above { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
