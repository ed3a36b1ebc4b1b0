//! `tour`: what the store does, shown on real flights, a kill in the middle of a load included.
//!
//! Invariants: it touches one new or empty directory and nothing else, and leaves it to be
//! explored; every number it prints was measured in this run; the kill depends on the printed
//! seed (and on how the machine runs that day). Does not do: benchmarks.

mod crash;
mod questions;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rightlink::{Database, TableInfo};

use crate::args::{Common, LoadArgs, TourArgs};
use crate::csv::Limits;
use crate::csv_file::{CsvFile, total_bytes};
use crate::failure::{Exit, Failure};
use crate::figures::{bytes, count, duration, plural, rate};
use crate::json::{Json, object};
use crate::load::Loader;
use crate::output::Output;
use crate::progress::Progress;
use crate::random::{Random, fresh_seed};
use crate::{open, upkeep};

/// The table of the first half.
const TABLE: &str = "flights";
/// The table that is being loaded when the process is killed.
const AGAIN: &str = "flights_again";
/// Rows of a transaction in the first load.
const BATCH: u32 = 1000;

/// Indexes of both tables, by what follows the table's name, and their columns.
const INDEXES: [(&str, &str); 5] = [
    ("tail", "tailnum"),
    ("hour", "time_hour"),
    ("origin", "origin,time_hour"),
    ("carrier", "carrier,flight"),
    ("delay", "dest,arr_delay desc nulls last"),
];

/// What every step needs.
struct Tour<'a> {
    common: &'a Common,
    output: &'a mut Output,
    dir: PathBuf,
    data: PathBuf,
    random: Random,
    step: u32,
}

/// Runs the command.
pub(crate) fn run(common: &Common, args: &TourArgs, output: &mut Output) -> Result<Exit, Failure> {
    let data = find_data(&args.data)?;
    let dir = choose_dir(args.dir.as_deref())?;
    let seed = args.seed.unwrap_or_else(fresh_seed);
    let random = Random::new(seed);
    let mut tour = Tour { common, output, dir, data, random, step: 0 };
    tour.greet(seed)?;
    let db = tour.load()?;
    tour.look_up(&db)?;
    tour.ranges(&db)?;
    let moved = tour.update(&db)?;
    db.close()?;
    let killed = tour.kill()?;
    let db = tour.recover(&killed, moved)?;
    let clean = tour.verify(&db)?;
    db.close()?;
    tour.what_next()?;
    Ok(if clean { Exit::Done } else { Exit::Damage })
}

/// The data file: as named, or in the repository this command was built from.
fn find_data(named: &Path) -> Result<PathBuf, Failure> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(named);
    let known = [named.to_path_buf(), home];
    known.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        let what = format!("there is no file {}", named.display());
        let help = "run the tour from the repository, which has data/flights.csv, or name that \
                    file with --data";
        Failure::new(Exit::NotFound, what).and(help)
    })
}

/// The named directory if it is new or empty; else the first free name among temporary files.
fn choose_dir(named: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(dir) = named {
        if is_free(dir) {
            return Ok(dir.to_path_buf());
        }
        let how = if dir.is_dir() { "not empty" } else { "a file" };
        let what = format!("{} is {how}", dir.display());
        return Err(Failure::usage(what).and("the tour wants a new directory"));
    }
    let temporary = std::env::temp_dir();
    let name = |number: u32| temporary.join(format!("rightlink-tour-{number}"));
    let free = (1..10_000).map(name).find(|dir| is_free(dir));
    free.ok_or_else(|| Failure::usage("name a directory; all names for temporary ones are taken"))
}

/// Nothing is there, or an empty directory.
fn is_free(dir: &Path) -> bool {
    match std::fs::read_dir(dir) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// The arguments of `load` for one of the two tables.
fn load_args(tour: &Tour<'_>, table: &str, batch: u32, skip: u64) -> LoadArgs {
    LoadArgs {
        db: tour.dir.clone(),
        table: table.to_owned(),
        files: vec![tour.data.clone()],
        schema: None,
        primary_key: vec!["id".to_owned()],
        index: index_args(table),
        unique_index: Vec::new(),
        batch,
        sample: 30_000,
        skip,
        reject: None,
        relaxed: false,
        null: String::new(),
    }
}

fn index_args(table: &str) -> Vec<String> {
    INDEXES.iter().map(|(name, columns)| format!("{table}_{name}={columns}")).collect()
}

impl Tour<'_> {
    /// Begins a step with its title.
    fn begin(&mut self, title: &str) -> Result<(), Failure> {
        self.step += 1;
        if !self.output.json() {
            let title = self.output.bold(&format!("{}. {title}", self.step));
            self.output.line(format_args!("\n{title}"))?;
        }
        self.output.flush()
    }

    /// Tells a person something.
    fn say(&mut self, text: &str) -> Result<(), Failure> {
        if self.output.json() {
            return Ok(());
        }
        self.output.line(format_args!("   {text}"))?;
        self.output.flush()
    }

    /// Tells a program what a step did.
    fn note<const N: usize>(
        &mut self,
        step: &str,
        fields: [(&str, Json); N],
    ) -> Result<(), Failure> {
        if !self.output.json() {
            return Ok(());
        }
        let mut all = vec![("step".to_owned(), Json::from(step))];
        if let Json::Object(fields) = object(fields) {
            all.extend(fields);
        }
        self.output.line(Json::Object(all))?;
        self.output.flush()
    }

    fn greet(&mut self, seed: u64) -> Result<(), Failure> {
        let dir = self.dir.display().to_string();
        self.note("start", [("dir", dir.as_str().into()), ("seed", seed.into())])?;
        if self.output.json() {
            return Ok(());
        }
        let title = self.output.bold("Rightlink: a guided tour");
        self.output.line(title)?;
        self.output.line("")?;
        self.say("A transactional table store, asked and killed on real data: the flights that")?;
        self.say("left New York City in January 2013.")?;
        self.say(&format!("Database: {dir}"))?;
        self.say(&format!("Seed of the random choices: {seed} (again with --seed {seed})"))
    }

    fn load(&mut self) -> Result<Database, Failure> {
        self.begin("Load a CSV file into a table with six indexes")?;
        let db = open::or_create(self.common, &self.dir)?;
        let (loader, time) = self.load_into(&db, TABLE, BATCH, 0)?;
        let table = db.describe(TABLE)?;
        self.tell_table(&table)?;
        let (rows, speed) = (loader.committed, rate(loader.committed, time));
        self.note(
            "load",
            [
                ("rows", rows.into()),
                ("batches", loader.batches.into()),
                ("seconds", Json::raw(format!("{:.3}", time.as_secs_f64()))),
                ("rows_per_s", speed.into()),
            ],
        )?;
        self.say(&format!(
            "{} in {}: {} rows/s.",
            plural(rows, "row"),
            duration(time),
            count(speed)
        ))?;
        self.say(&format!(
            "They came in {} transactions of {} rows, each on disk before the next one began.",
            loader.batches,
            count(u64::from(BATCH))
        ))?;
        Ok(db)
    }

    /// Loads the data file, without its first `skip` rows.
    fn load_into(
        &mut self,
        db: &Database,
        table: &str,
        batch: u32,
        skip: u64,
    ) -> Result<(Loader, Duration), Failure> {
        let args = load_args(self, table, batch, skip);
        let mut file = CsvFile::open(&args.files[0], Limits::LEAST)?;
        let mut loader = Loader::prepare(db, &args, &mut file)?;
        let mut progress = Progress::start(total_bytes(&args.files), !self.output.json());
        let loaded = loader.load_files(&args, file, &mut progress, None);
        progress.clear();
        loaded?;
        Ok((loader, progress.elapsed()))
    }

    fn tell_table(&mut self, table: &TableInfo) -> Result<(), Failure> {
        let columns = table.columns.len();
        self.say(&format!(
            "Table {}: {columns} columns, their types inferred from the file; primary key (id),",
            table.name
        ))?;
        self.say("and an index on each of")?;
        for (name, columns) in INDEXES {
            self.say(&format!(
                "  {:<17} ({})",
                format!("{TABLE}_{name}"),
                columns.replace(',', ", ")
            ))?;
        }
        Ok(())
    }

    fn verify(&mut self, db: &Database) -> Result<bool, Failure> {
        self.begin("Verify")?;
        self.say("Every page, every row version, every index entry, and each against the others:")?;
        let report = db.verify()?;
        for finding in &report.findings {
            self.say(&upkeep::finding_text(finding))?;
        }
        let verdict =
            if report.is_clean() { self.output.green("clean") } else { self.output.red("DAMAGED") };
        self.note(
            "verify",
            [("clean", report.is_clean().into()), ("findings", report.findings.len().into())],
        )?;
        self.say(&format!("{}: {verdict}.", upkeep::looked_at(&report)))?;
        Ok(report.is_clean())
    }

    fn what_next(&mut self) -> Result<(), Failure> {
        let size = directory_bytes(&self.dir);
        let dir = self.dir.display().to_string();
        self.note("end", [("dir", dir.as_str().into()), ("bytes", size.into())])?;
        if self.output.json() {
            return Ok(());
        }
        let title = self.output.bold("What next");
        self.output.line(format_args!("\n{title}"))?;
        let stays = format!("The database stays in {dir} ({}). Try:", bytes(size));
        self.say(&stays)?;
        let exe = shown_command();
        let more = [
            format!("describe {dir} {TABLE}"),
            format!("scan {dir} {TABLE} --index {TABLE}_delay --equal SFO --limit 10"),
            format!("scan {dir} {TABLE} --index {TABLE}_hour --desc --limit 5 --json"),
            format!("inspect {dir} {TABLE}_tail"),
            format!("stat {dir}"),
            "load --help".to_owned(),
        ];
        self.output.line("")?;
        for command in more {
            self.say(&format!("  {exe} {command}"))?;
        }
        Ok(())
    }
}

/// How this command was called, short enough to be typed again.
fn shown_command() -> String {
    let exe = std::env::current_exe().unwrap_or_default();
    let here = std::env::current_dir().unwrap_or_default();
    let short = exe.strip_prefix(&here).unwrap_or(&exe);
    if short.as_os_str().is_empty() { "rightlink".to_owned() } else { short.display().to_string() }
}

/// Bytes of all files below `dir`.
fn directory_bytes(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => directory_bytes(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    };
    entries.filter_map(Result::ok).map(size).sum()
}
