//! Lines from a terminal: editing, history, completion, Ctrl-C.
//!
//! Invariants: the history is of its owner alone; without a place for it the shell works all the
//! same. Ctrl-C ends the statement that runs, never the shell.
//! Does not do: knowing what a line means.

use std::path::PathBuf;

use rightlink_env::thread::{JoinHandle, spawn};
use rightlink_sql::{Interrupt, Reason};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Helper};
use signal_hook::consts::SIGINT;
use signal_hook::iterator::{Handle, Signals};

use crate::failure::Failure;

/// Lines that are remembered.
const REMEMBERED: usize = 2_000;
/// Words that a line is completed with.
const KEYWORDS: &str = "\
add all alter analyze and as asc begin between bigint boolean by bytea case cast check collate \
column commit constraint copy create cross current_date current_timestamp date default delete desc \
distinct double drop else end except exists explain false fetch first for foreign from generated \
group having if ilike in index inner insert int integer intersect interval into is join json key \
last left like limit lock not null nulls numeric offset on only or order outer precision primary \
references release rename returning right rollback savepoint select sequence set share show table \
text then time timestamp timestamptz to transaction true truncate type union unique update using \
uuid vacuum values varchar view when where with";
/// Commands that begin with a backslash.
const COMMANDS: [&str; 14] = [
    "\\?", "\\copy", "\\d", "\\di", "\\dt", "\\du", "\\dv", "\\format", "\\i", "\\l", "\\pager",
    "\\q", "\\timing", "\\x",
];

/// What somebody typed.
pub(super) enum Typed {
    Line(String),
    /// Ctrl-C
    Interrupted,
    /// Ctrl-D
    End,
}

/// A terminal.
pub(super) struct Terminal {
    editor: rustyline::Editor<Words, FileHistory>,
    history: Option<PathBuf>,
}

impl Terminal {
    pub(super) fn open() -> Result<Terminal, Failure> {
        let config = Config::builder()
            .max_history_size(REMEMBERED)
            .and_then(|config| config.history_ignore_dups(true))
            .map_err(failure)?
            .history_ignore_space(true)
            .completion_type(CompletionType::List)
            .build();
        let mut editor = rustyline::Editor::with_config(config).map_err(failure)?;
        editor.set_helper(Some(Words::default()));
        let history = history();
        if let Some(path) = &history {
            // There is none the first time.
            let _ = editor.load_history(path);
        }
        Ok(Terminal { editor, history })
    }

    /// Names that lines are completed with from now on.
    pub(super) fn know(&mut self, names: Vec<String>) {
        self.editor.set_helper(Some(Words(names)));
    }

    /// Waits for a line.
    pub(super) fn line(&mut self, prompt: &str) -> Result<Typed, Failure> {
        match self.editor.readline(prompt) {
            Ok(line) => Ok(Typed::Line(line)),
            Err(ReadlineError::Interrupted) => Ok(Typed::Interrupted),
            Err(ReadlineError::Eof) => Ok(Typed::End),
            Err(error) => Err(failure(error)),
        }
    }

    /// A line can be had again.
    pub(super) fn remember(&mut self, line: &str) {
        // What cannot be remembered is not worth more words.
        if self.editor.add_history_entry(line).is_ok_and(|added| added)
            && let Some(path) = &self.history
        {
            if let Some(folder) = path.parent() {
                let _ = std::fs::create_dir_all(folder);
            }
            let _ = self.editor.append_history(path);
        }
    }
}

fn failure(error: ReadlineError) -> Failure {
    let error = match error {
        ReadlineError::Io(error) => error,
        other => std::io::Error::other(other.to_string()),
    };
    Failure::file("terminal", &error)
}

/// Where lines are remembered, if anywhere.
fn history() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = folder("XDG_STATE_HOME").map(|state| state.join("rightlink/history"));
    state.or_else(|| folder("HOME").map(|home| home.join(".rightlink_history")))
}

/// Names of tables, columns and indexes that are known.
#[derive(Default)]
struct Words(Vec<String>);

impl Words {
    /// Where the word before `at` begins, and what it may become.
    fn complete(&self, line: &str, at: usize) -> (usize, Vec<String>) {
        let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '\\');
        let before = &line[..at];
        let start = before
            .rfind(|c| !part(c))
            .map_or(0, |last| last + before[last..].chars().next().map_or(0, char::len_utf8));
        let word = &before[start..];
        if word.is_empty() {
            return (start, Vec::new());
        }
        let begins = |known: &&str| {
            known.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
        };
        if word.starts_with('\\') {
            return (start, COMMANDS.iter().copied().filter(begins).map(str::to_owned).collect());
        }
        let loud = !word.chars().any(char::is_lowercase);
        let keyword = |word: &str| if loud { word.to_uppercase() } else { word.to_owned() };
        let mut found: Vec<String> =
            self.0.iter().map(String::as_str).filter(begins).map(str::to_owned).collect();
        found.extend(KEYWORDS.split(' ').filter(begins).map(keyword));
        found.sort();
        found.dedup();
        (start, found)
    }
}

impl Completer for Words {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(Words::complete(self, line, at))
    }
}

impl Hinter for Words {
    type Hint = String;
}

impl Highlighter for Words {}

impl Validator for Words {}

impl Helper for Words {}

/// Hands Ctrl-C to a session as long as it lives.
pub(super) struct Watch {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub(super) fn new(interrupt: Interrupt) -> Result<Watch, Failure> {
        let mut signals =
            Signals::new([SIGINT]).map_err(|error| Failure::file("signals", &error))?;
        let handle = signals.handle();
        let thread = spawn("interrupts", move || {
            for _ in signals.forever() {
                interrupt.raise(Reason::Request);
            }
        });
        Ok(Watch { handle, thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            // It does nothing that could fail.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_keywords_names_and_commands() {
        let words = Words(vec!["flights".into(), "flight_no".into(), "Ärger".into()]);
        let complete = |line: &str| words.complete(line, line.len());
        let found = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(complete("sel"), (0, found(&["select"])));
        assert_eq!(complete("SEL"), (0, found(&["SELECT"])));
        assert_eq!(complete("select x from fl"), (14, found(&["flight_no", "flights"])));
        assert_eq!(complete("select(flight_"), (7, found(&["flight_no"])));
        assert_eq!(complete("\\ti"), (0, found(&["\\timing"])));
        assert_eq!(complete("select "), (7, found(&[])));
        assert_eq!(complete("ä, Ä"), (4, found(&["Ärger"])));
        assert_eq!(words.complete("selx", 3), (0, found(&["select"])));
    }
}
